/* json.h: reading and writing JSON with `struct value`.
 *
 * The writer is canonical: every request body and every prompt goes through it, so equal values
 * give equal bytes on every machine. Form: no spaces, keys in the object's order, strings with the
 * escapes
 * \" \\ \b \f \n \r \t and \u00XX for other control characters, everything else as UTF-8; numbers
 * as Python's json prints them (1.0, 1e+16, 0.1; integers plain). */
#ifndef TEXT_JSON_H
#define TEXT_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "text/value.h"

#define JSON_MAX_DEPTH 200

/* Reads exactly one JSON text (RFC 8259; white space around it). Refused with line and column:
 * anything after it, invalid UTF-8, lone surrogates in \u escapes, NaN and Infinity, control
 * characters in strings, depth over JSON_MAX_DEPTH. A repeated key keeps its first place and takes
 * its last value, as Python does. On failure *out is null. */
NODISCARD int json_parse(const char *text, size_t len, struct value *out, struct err *err);

/* Appends v's canonical form. Doubles that are not finite are written as null (callers that must
 * not lose them check first). */
void json_write(struct buf *b, const struct value *v);
/* The same with two-space indentation and ": ", for files people read. */
void json_write_pretty(struct buf *b, const struct value *v);
/* Appends one string with its quotes. Bytes that are not UTF-8 are written as U+FFFD. */
void json_write_string(struct buf *b, const char *s, size_t len);
/* Appends a double as Python's repr does: shortest digits that round-trip, ".0" for whole ones. */
void json_write_double(struct buf *b, double d);

/* Length of the valid UTF-8 prefix of s; == len when all of it is valid (surrogates are not). */
size_t json_utf8_valid(const char *s, size_t len);

#endif
