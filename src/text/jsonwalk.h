/* jsonwalk.h: walking a large JSON text without making values of it.
 *
 * A tokenizer file has a million strings; this reads them where they are. A slice is one value's
 * text. Objects and arrays are walked item by item; what is stepped over is only matched for
 * brackets and strings, so whoever wants it checked gives the slice to json_parse. */
#ifndef TEXT_JSONWALK_H
#define TEXT_JSONWALK_H

#include "base/buf.h"

struct jsonslice {
  const char *p, *end; /* p NULL: absent */
};

/* The value that begins at or after p; p NULL in the result when the text ends too early. */
struct jsonslice jsonwalk_value(const char *p, const char *end);
/* Behind the value whose first byte is at p; NULL when the text ends too early, or there is none.
 */
const char *jsonwalk_skip(const char *p, const char *end);

struct jsonwalk {
  const char *p, *end;
  char close; /* } or ] */
  bool any;
};

/* Begins the walk over an object ('{') or array ('['); false when the slice is something else. */
bool jsonwalk_begin(struct jsonwalk *w, struct jsonslice s, char open);
/* 1 and the next item (key: its string with quotes, absent in arrays), 0 at the end, -1 when it is
 * not JSON. */
int jsonwalk_next(struct jsonwalk *w, struct jsonslice *key, struct jsonslice *value);

/* Appends the text of a string slice to `out`; false when it is not a string, not UTF-8, has a lone
 * surrogate or does not fit. */
bool jsonwalk_string(struct jsonslice s, struct buf *out);
/* Whether a string slice without escapes is `text`. */
bool jsonwalk_is(struct jsonslice s, const char *text);

#endif
