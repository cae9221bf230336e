/* jsonfields.h: chosen fields of a JSON object into a struct, in one pass over its bytes.
 *
 * For files of millions of lines that one writer wrote: a key is first compared with the field that
 * came next in the table, so a table in the writer's order makes no search; any other order works
 * too. What is not asked for is stepped over as jsonwalk.h does, matched for brackets and strings
 * alone. Of two equal keys the last one counts. Pure. */
#ifndef TEXT_JSONFIELDS_H
#define TEXT_JSONFIELDS_H

#include "text/jsonwalk.h"

enum jsonfield_kind {
  JSONFIELD_INT,    /* int64_t: a whole number; anything else leaves what is there */
  JSONFIELD_STAMP,  /* uint64_t: the same, from 0 */
  JSONFIELD_TRUE,   /* bool: whether it is true */
  JSONFIELD_STRING, /* struct jsonslice: a string's bytes as they stand there, without quotes;
                       anything else leaves what is there */
  JSONFIELD_RAW,    /* struct jsonslice: the value's text */
  JSONFIELD_READ    /* read(p, end, out): reads the value at p; behind it, or NULL */
};

struct jsonfield {
  const char *key; /* without escapes */
  uint8_t len, kind;
  uint16_t offset; /* of the member in the struct */
  const char *(*read)(const char *p, const char *end, void *out);
};
#define JSONFIELD(key, kind, type, member)                                                         \
  { (key), sizeof(key) - 1, (kind), offsetof(type, member), NULL }
#define JSONFIELD_BY(key, read)                                                                    \
  { (key), sizeof(key) - 1, JSONFIELD_READ, 0, (read) }

/* The object at p (space before it is fine): behind it; NULL when it is none. */
const char *jsonfields_read(const struct jsonfield *fields, size_t n, const char *p,
                            const char *end, void *out);
/* The same, only until each field was met (n <= 64): what follows is not looked at. False: what was
 * read is no object's beginning. */
bool jsonfields_head(const struct jsonfield *fields, size_t n, const char *p, const char *end,
                     void *out);

/* The array at p: `item` for each value, as a JSONFIELD_READ. */
const char *jsonfields_array(const char *p, const char *end,
                             const char *(*item)(const char *p, const char *end, void *out),
                             void *out);

/* The digits at p, as far as they go: behind them; NULL when there are none, or it is too large. */
const char *jsonfields_digits(const char *p, const char *end, uint64_t *n);

#endif
