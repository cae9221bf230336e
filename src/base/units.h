/* units.h: quantities with units, as people write them: "50ms", "2m", "64KiB", "5%".
 *
 * The base units of perigee are seconds, bytes, tokens and ratios 0..1. A plain number is already
 * in base units. Used by options, by plans (through the binding) and by the expectation grammar. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include "base/err.h"

enum units_kind {
  UNITS_NONE,  /* a plain number only */
  UNITS_TIME,  /* ns us µs ms s m min h d -> seconds */
  UNITS_BYTES, /* B kB MB GB KiB MiB GiB -> bytes */
  UNITS_RATIO, /* % -> 0..1 */
  UNITS_RATE,  /* "5/s" "300/m" "100/h" -> per second */
  UNITS_ANY    /* whatever unit is there decides */
};

/* Parses the whole of text[0..len). *unit (may be NULL) receives the kind that the text's own unit
 * names, UNITS_NONE when it had none. ERR_INVALID: not a number, unknown unit, or a unit of another
 * kind; the text says which units would do. */
NODISCARD int units_parse(const char *text, size_t len, enum units_kind want, double *value,
                          enum units_kind *unit, struct err *err);

/* The bound of an expectation, a check, an objective: a quantity that cannot be misread. "400" for
 * a time or a size is an error ("400 what? write 400ms or 400s"), 0 is not; a ratio without % is at
 * most 1. Other kinds: units_parse. */
NODISCARD int units_parse_bound(const char *text, size_t len, enum units_kind want, double *value,
                                struct err *err);

/* A duration as a person writes it: "850 µs", "12.3 ms", "2.50 s", "3m 20s". out: 32 bytes. */
void units_format_seconds(double seconds, char *out, size_t size);
/* "1.2 KiB", "3.4 GiB". out: 32 bytes. */
void units_format_bytes(double bytes, char *out, size_t size);

#endif
