/* reqfield.h: the fields of a request's JSON body, read and checked one by one.
 *
 * Shared by every endpoint that takes a body. Each function returns 0, or ERR_INVALID with *e as
 * vLLM would answer: 400 naming the field (404 for a model that is not served). Absent and null
 * fields leave *out alone. */
#ifndef SIM_REQFIELD_H
#define SIM_REQFIELD_H

#include "sim/apierror.h"
#include "sim/genmodel.h"

/* Not there, or null. */
bool reqfield_absent(const struct value *v);
/* The body as an object; 400 otherwise. Free with value_free. */
NODISCARD int reqfield_object(const char *body, size_t len, struct value *out, struct apierror *e);
/* 404 when the body names a model that is not served, nor an adapter (absent or null: fine). */
NODISCARD int reqfield_model(const struct value *body, const struct genmodel *model,
                             struct apierror *e);
/* The adapter that the body names; NULL: the base model. */
const char *reqfield_adapter(const struct value *body, const struct genmodel *model);
NODISCARD int reqfield_bool(const struct value *body, const char *name, bool *out,
                            struct apierror *e);
NODISCARD int reqfield_int(const struct value *body, const char *name, int64_t least, int64_t *out,
                           struct apierror *e);
/* A copy of the string, mem_free it. */
NODISCARD int reqfield_string(const struct value *body, const char *name, char **out,
                              struct apierror *e);
/* A list of token ids below the vocabulary's size; *out is allocated, mem_free it. */
NODISCARD int reqfield_tokens(const struct value *list, const char *name,
                              const struct genmodel *model, uint32_t **out, uint32_t *n,
                              struct apierror *e);

#endif
