/* json_scan.c: escapes and numbers; see json_scan.h.
 *
 * Numbers with at most 19 digits and a small exponent are exact products or quotients of two
 * doubles (Clinger's fast path); the rest goes through strtod, rewritten without a decimal point so
 * that no locale can change what it reads. */
#include "text/json_scan.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  c = (char)(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hex digits at p. */
static enum json_escape scan_hex4(const char *p, const char *end, uint32_t *out) {
  uint32_t cp = 0;
  for (int i = 0; i < 4; i++, p++) {
    if (p == end)
      return JSON_ESCAPE_CUT;
    int digit = hex_digit(*p);
    if (digit < 0)
      return JSON_ESCAPE_BAD;
    cp = cp << 4 | (uint32_t)digit;
  }
  *out = cp;
  return JSON_ESCAPE_OK;
}

static enum json_escape scan_unicode(const char **p, const char *end, uint32_t *cp) {
  enum json_escape got = scan_hex4(*p + 2, end, cp);
  if (got != JSON_ESCAPE_OK)
    return got;
  *p += 6;
  if (*cp < 0xd800 || *cp > 0xdfff)
    return JSON_ESCAPE_OK;
  uint32_t low;
  if (*cp >= 0xdc00 || end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u' ||
      scan_hex4(*p + 2, end, &low) != JSON_ESCAPE_OK || low < 0xdc00 || low > 0xdfff)
    return JSON_ESCAPE_SURROGATE;
  *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
  *p += 6;
  return JSON_ESCAPE_OK;
}

enum json_escape json_scan_escape(const char **p, const char *end, uint32_t *cp) {
  if (end - *p < 2)
    return JSON_ESCAPE_CUT;
  switch ((*p)[1]) {
  case '"':
  case '\\':
  case '/':
    *cp = (unsigned char)(*p)[1];
    break;
  case 'b':
    *cp = '\b';
    break;
  case 'f':
    *cp = '\f';
    break;
  case 'n':
    *cp = '\n';
    break;
  case 'r':
    *cp = '\r';
    break;
  case 't':
    *cp = '\t';
    break;
  case 'u':
    return scan_unicode(p, end, cp);
  default:
    return JSON_ESCAPE_BAD;
  }
  *p += 2;
  return JSON_ESCAPE_OK;
}

/* The parts of a number's text. */
struct parts {
  bool negative, whole;            /* whole: neither fraction nor exponent is written */
  const char *digits, *digits_end; /* integer part */
  const char *fraction, *fraction_end;
  int64_t exponent; /* as written, cut at ±10^15 */
};

static const char *skip_digits(const char *p, const char *end) {
  while (p < end && *p >= '0' && *p <= '9')
    p++;
  return p;
}

static const char *scan_exponent(const char *p, const char *end, int64_t *out) {
  bool negative = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+'))
    p++;
  const char *first = p;
  int64_t exponent = 0;
  for (; p < end && *p >= '0' && *p <= '9'; p++)
    if (exponent < INT64_C(1000000000000000))
      exponent = exponent * 10 + (*p - '0');
  *out = negative ? -exponent : exponent;
  return p == first ? NULL : p;
}

static const char *split_number(const char *p, const char *end, struct parts *n) {
  *n = (struct parts){.whole = true};
  if (p < end && *p == '-') {
    n->negative = true;
    p++;
  }
  n->digits = p;
  p = skip_digits(p, end);
  n->digits_end = n->fraction = n->fraction_end = p;
  if (p == n->digits || (*n->digits == '0' && p - n->digits > 1))
    return NULL;
  if (p < end && *p == '.') {
    n->whole = false;
    n->fraction = p + 1;
    n->fraction_end = p = skip_digits(p + 1, end);
    if (p == n->fraction)
      return NULL;
  }
  if (p < end && (*p == 'e' || *p == 'E')) {
    n->whole = false;
    p = scan_exponent(p + 1, end, &n->exponent);
  }
  return p;
}

/* The digits without a point, then the exponent that makes up for it. */
static double slow_double(const struct parts *n) {
  size_t whole = (size_t)(n->digits_end - n->digits);
  size_t fraction = (size_t)(n->fraction_end - n->fraction);
  char small[128];
  size_t size = whole + fraction + 32;
  char *text = size <= sizeof small ? small : mem_alloc(size);
  memcpy(text, n->digits, whole);
  memcpy(text + whole, n->fraction, fraction);
  snprintf(text + whole + fraction, 32, "e%lld", (long long)(n->exponent - (int64_t)fraction));
  double d = strtod(text, NULL);
  if (text != small)
    mem_free(text);
  return d;
}

static double to_double(const struct parts *n, uint64_t mantissa, bool mantissa_exact) {
  static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  int64_t exponent = n->exponent - (n->fraction_end - n->fraction);
  if (mantissa_exact && mantissa <= UINT64_C(1) << 53 && exponent >= -22 && exponent <= 22)
    return exponent < 0 ? (double)mantissa / tens[-exponent] : (double)mantissa * tens[exponent];
  return slow_double(n);
}

const char *json_scan_number(const char *p, const char *end, struct json_number *out) {
  struct parts n;
  p = split_number(p, end, &n);
  if (!p)
    return NULL;
  uint64_t mantissa = 0;
  bool exact = true; /* every digit is in the mantissa */
  for (const char *s = n.digits; s < n.fraction_end && exact; s++) {
    if (*s == '.')
      continue;
    uint64_t digit = (uint64_t)(*s - '0');
    exact = mantissa <= (UINT64_MAX - digit) / 10;
    mantissa = exact ? mantissa * 10 + digit : mantissa;
  }
  uint64_t limit = (uint64_t)INT64_MAX + n.negative;
  *out = (struct json_number){.is_whole = n.whole};
  if (n.whole && exact && mantissa <= limit) {
    out->is_int = true;
    out->integer = (int64_t)(n.negative ? 0 - mantissa : mantissa);
    out->number = (double)out->integer;
    return p;
  }
  double d = to_double(&n, mantissa, exact);
  out->number = n.negative ? -d : d;
  out->range = d > 1.7976931348623157e308;
  return p;
}

const char *json_skip_number(const char *p, const char *end) {
  struct parts n;
  return split_number(p, end, &n);
}
