/* utf8.h: one UTF-8 sequence at a time: check, decode, encode.
 *
 * Strict: no overlong forms, no surrogates, nothing above U+10FFFF. Inline, because JSON strings,
 * event streams and tokenizers walk text with it. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include "base/base.h"

/* Decodes the sequence at p (p < end). Returns its length 1..4 and the code point, or 0 when the
 * bytes there are no whole valid sequence. */
static inline unsigned utf8_decode(const char *p, const char *end, uint32_t *cp) {
  const unsigned char *s = (const unsigned char *)p;
  size_t left = (size_t)(end - p);
  if (s[0] < 0x80) {
    *cp = s[0];
    return 1;
  }
  if (s[0] < 0xc2 || s[0] > 0xf4)
    return 0;
  if (s[0] < 0xe0) {
    if (left < 2 || (s[1] & 0xc0) != 0x80)
      return 0;
    *cp = (uint32_t)(s[0] & 0x1f) << 6 | (s[1] & 0x3fu);
    return 2;
  }
  if (s[0] < 0xf0) {
    if (left < 3 || (s[1] & 0xc0) != 0x80 || (s[2] & 0xc0) != 0x80)
      return 0;
    *cp = (uint32_t)(s[0] & 0x0f) << 12 | (uint32_t)(s[1] & 0x3f) << 6 | (s[2] & 0x3fu);
    return *cp >= 0x800 && (*cp < 0xd800 || *cp > 0xdfff) ? 3 : 0;
  }
  if (left < 4 || (s[1] & 0xc0) != 0x80 || (s[2] & 0xc0) != 0x80 || (s[3] & 0xc0) != 0x80)
    return 0;
  *cp = (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3f) << 12 |
        (uint32_t)(s[2] & 0x3f) << 6 | (s[3] & 0x3fu);
  return *cp >= 0x10000 && *cp <= 0x10ffff ? 4 : 0;
}

/* Decodes the sequence at *p and steps over it; the text is known to be valid there. */
static inline uint32_t utf8_take(const char **p) {
  const unsigned char *s = (const unsigned char *)*p;
  unsigned n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
  *p += n;
  switch (n) {
  case 1:
    return s[0];
  case 2:
    return (uint32_t)(s[0] & 0x1f) << 6 | (s[1] & 0x3fu);
  case 3:
    return (uint32_t)(s[0] & 0x0f) << 12 | (uint32_t)(s[1] & 0x3f) << 6 | (s[2] & 0x3fu);
  default:
    return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3f) << 12 |
           (uint32_t)(s[2] & 0x3f) << 6 | (s[3] & 0x3fu);
  }
}

/* Writes cp (a scalar value: no surrogate) as 1..4 bytes and returns how many. */
static inline unsigned utf8_encode(uint32_t cp, char out[4]) {
  if (cp < 0x80) {
    out[0] = (char)cp;
    return 1;
  }
  if (cp < 0x800) {
    out[0] = (char)(0xc0 | cp >> 6);
    out[1] = (char)(0x80 | (cp & 0x3f));
    return 2;
  }
  if (cp < 0x10000) {
    out[0] = (char)(0xe0 | cp >> 12);
    out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[2] = (char)(0x80 | (cp & 0x3f));
    return 3;
  }
  out[0] = (char)(0xf0 | cp >> 18);
  out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
  out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
  out[3] = (char)(0x80 | (cp & 0x3f));
  return 4;
}

/* How many bytes at p (an invalid place, p < end) one U+FFFD stands for: the longest start of a
 * sequence that could have become valid, at least 1. This is what browsers and Python do. */
static inline unsigned utf8_bad_len(const char *p, const char *end) {
  const unsigned char *s = (const unsigned char *)p;
  size_t left = (size_t)(end - p);
  if (s[0] < 0xe0 || s[0] > 0xf4 || left < 2)
    return 1;
  unsigned char lo = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
  unsigned char hi = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
  if (s[1] < lo || s[1] > hi)
    return 1;
  return s[0] >= 0xf0 && left >= 3 && (s[2] & 0xc0) == 0x80 ? 3 : 2;
}

#endif
