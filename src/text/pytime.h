/* pytime.h: a moment as Python's datetime sees it, and its strftime.
 *
 * Templates print dates with `strftime_now`. The moment is given as local date and time without a
 * zone, names are English (the C locale), so that every machine renders the same text. */
#ifndef TEXT_PYTIME_H
#define TEXT_PYTIME_H

#include "base/buf.h"
#include "base/err.h"

struct pytime {
  int year, month, day;     /* 1970 to 9999, 1 to 12, 1 to 31 */
  int hour, minute, second; /* 0 to 23, 0 to 59, 0 to 59 */
  int microsecond;          /* 0 to 999999 */
};

/* Reads "2026-08-22", "2026-08-22T12:34:56" or "2026-08-22 12:34:56.789" (the whole text). */
NODISCARD int pytime_parse(const char *text, size_t len, struct pytime *out, struct err *err);

/* The moment `seconds` after 1970-01-01T00:00:00 plus `offset_seconds` (east positive). */
struct pytime pytime_from_epoch(int64_t seconds, int offset_seconds);

/* Appends what Python's datetime.strftime(format) gives, glibc's flags (%-d, %_d, %0d, %^a, %#a)
 * and unknown directives (left as written) included; %z and %Z give nothing. */
void pytime_format(struct buf *out, const struct pytime *t, const char *format, size_t len);

#endif
