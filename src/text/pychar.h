/* pychar.h: what Python 3.11 knows of a character (Unicode 14): classes and case.
 *
 * str.title, strip, isalpha, repr and the rest ask here. The tables in pychar_table.c are written
 * by pychar_table.py from Python itself. */
#ifndef TEXT_PYCHAR_H
#define TEXT_PYCHAR_H

#include "base/base.h"

enum pychar_class {
  PYCHAR_ALPHA = 1,
  PYCHAR_DECIMAL = 2,
  PYCHAR_DIGIT = 4,
  PYCHAR_NUMERIC = 8,
  PYCHAR_LOWER = 16,
  PYCHAR_UPPER = 32,
  PYCHAR_TITLE = 64,
  PYCHAR_PRINTABLE = 128,
  PYCHAR_CASED = 256,
  PYCHAR_CASE_IGNORABLE = 512,
  PYCHAR_SPACE = 1024,
  PYCHAR_IDENT_START = 2048, /* may begin an identifier */
  PYCHAR_IDENT = 4096,       /* may go on in one */
  PYCHAR_WORD = 8192         /* \w */
};

/* The classes of a code point, or'ed; 0 beyond U+10FFFF. */
unsigned pychar_classes(uint32_t c);

enum pychar_case { PYCHAR_TO_LOWER, PYCHAR_TO_UPPER, PYCHAR_TO_TITLE, PYCHAR_TO_FOLD };

/* Up to three code points that c becomes; returns how many. Final sigma is the caller's business.
 */
size_t pychar_map(uint32_t c, enum pychar_case how, uint32_t out[3]);

/* The decimal digit's value, -1 when c is none. */
int pychar_decimal(uint32_t c);

/* Reads one code point at s[0..len), len > 0; *size gets its bytes. Lone surrogates (as three
 * bytes, the way strings of templates hold them) are read as such; a byte that fits nothing is
 * U+FFFD of size 1. */
uint32_t pychar_read(const char *s, size_t len, size_t *size);
/* Writes c as UTF-8 (surrogates too); returns the number of bytes, 1 to 4. */
size_t pychar_write(char out[4], uint32_t c);

#endif
