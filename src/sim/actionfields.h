/* actionfields.h: the fields of an action, read and checked one by one. Absent and null fields
 * leave *out alone; ERR_INVALID names the field and what would do. */
#ifndef SIM_ACTIONFIELDS_H
#define SIM_ACTIONFIELDS_H

#include "base/err.h"
#include "text/value.h"

/* A time: seconds from 0 to a day, or text such as "500ms". */
NODISCARD int actionfields_seconds(const struct value *body, const char *name, double *out,
                                   struct err *err);
/* 0 to 1, or text such as "30%". */
NODISCARD int actionfields_ratio(const struct value *body, const char *name, double *out,
                                 struct err *err);
NODISCARD int actionfields_count(const struct value *body, const char *name, int64_t least,
                                 int64_t *out, struct err *err);
NODISCARD int actionfields_bool(const struct value *body, const char *name, bool *out,
                                struct err *err);
/* The number of a word of the NULL-terminated list. */
NODISCARD int actionfields_word(const struct value *body, const char *name,
                                const char *const *words, int *out, struct err *err);
/* One of share (of `all` blocks), blocks, tokens; 1 to `all`. */
NODISCARD int actionfields_blocks(const struct value *body, uint32_t all, uint32_t block_size,
                                  uint32_t *out, struct err *err);
/* Every key of the body is one of the known ones; ERR_INVALID says which would do for `action`. */
NODISCARD int actionfields_known(const struct value *body, const char *action,
                                 const char *const *known, size_t n, struct err *err);

#endif
