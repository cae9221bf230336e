/* json_scan.h: the pieces of JSON's grammar that both the value parser (json.c) and the stream
 * scanner (openai_json.c) read: runs of plain string bytes, escapes, numbers.
 *
 * All work on [p, end) without needing a NUL behind it. RFC 8259. */
#ifndef TEXT_JSON_SCAN_H
#define TEXT_JSON_SCAN_H

#include "base/base.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

/* A bit for each of 16 bytes that is '"', '\\' or below 0x20. */
static inline unsigned json_stops(__m128i x) {
  __m128i quote = _mm_cmpeq_epi8(x, _mm_set1_epi8('"'));
  __m128i slash = _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'));
  __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1f)), x);
  return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), control));
}

static inline unsigned json_stops16(const char *p, __m128i *bytes) {
  *bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
  return json_stops(*bytes);
}

/* The same for bytes above ASCII too. */
static inline unsigned json_odd16(const char *p) {
  __m128i x;
  unsigned stops = json_stops16(p, &x);
  return stops | (unsigned)_mm_movemask_epi8(x);
}

/* Fewer than 16 bytes: their two halves, which overlap, are looked at as one. */
static inline const char *json_plain_short(const char *p, const char *end) {
  char both[16];
  ptrdiff_t half = end - p >= 8 ? 8 : 4;
  if (end - p < 4) {
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\')
      p++;
    return p;
  }
  unsigned odd;
  if (half == 8) {
    memcpy(both, p, 8);
    memcpy(both + 8, end - 8, 8);
    odd = json_odd16(both);
  } else {
    memcpy(both, p, 4);
    memcpy(both + 4, end - 4, 4);
    memcpy(both + 8, both, 8);
    odd = json_odd16(both) & 0xff;
  }
  if (!odd)
    return end;
  ptrdiff_t at = __builtin_ctz(odd);
  return at < half ? p + at : end - 2 * half + at;
}
#endif

/* The first byte at or after p that is not a printable ASCII character other than " and \: where a
 * string ends, escapes, leaves ASCII or is wrong. `end` when there is none. 16 or 8 bytes at a
 * time: this loop sees nearly every byte that a server sends. */
static inline const char *json_plain_run(const char *p, const char *end) {
#ifdef __SSE2__
  if (end - p < 16)
    return json_plain_short(p, end);
  for (; end - p >= 16; p += 16) {
    unsigned odd = json_odd16(p);
    if (odd)
      return p + __builtin_ctz(odd);
  }
  if (p == end)
    return p;
  unsigned odd = json_odd16(end - 16); /* those before p are plain */
  return odd ? end - 16 + __builtin_ctz(odd) : end;
#else
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  const uint64_t ones = UINT64_C(0x0101010101010101), high = ones * 0x80;
  for (; end - p >= 8; p += 8) {
    uint64_t x;
    memcpy(&x, p, 8);
    uint64_t quote = x ^ (ones * '"'), slash = x ^ (ones * '\\');
    /* Each term flags its lowest hit exactly; false hits can only stand above a true one. */
    uint64_t hit = (((x - ones * 0x20) | (quote - ones) | (slash - ones)) & ~x) | x;
    hit &= high;
    if (hit)
      return p + __builtin_ctzll(hit) / 8;
  }
#endif
  while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
         *p != '\\')
    p++;
  return p;
#endif
}

/* The same, but bytes above ASCII count as plain: for text that is passed on unchecked. */
static inline const char *json_string_run(const char *p, const char *end) {
#ifdef __SSE2__
  for (; end - p >= 16; p += 16) {
    __m128i x;
    unsigned hit = json_stops16(p, &x);
    if (hit)
      return p + __builtin_ctz(hit);
  }
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  const uint64_t ones = UINT64_C(0x0101010101010101), high = ones * 0x80;
  for (; end - p >= 8; p += 8) {
    uint64_t x;
    memcpy(&x, p, 8);
    uint64_t quote = x ^ (ones * '"'), slash = x ^ (ones * '\\');
    uint64_t hit = ((x - ones * 0x20) | (quote - ones) | (slash - ones)) & ~x & high;
    if (hit)
      return p + __builtin_ctzll(hit) / 8;
  }
#endif
  while (p < end && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\')
    p++;
  return p;
}

/* Skips space, tab, LF and CR. */
static inline const char *json_skip_space(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
    p++;
  return p;
}

enum json_escape { JSON_ESCAPE_OK, JSON_ESCAPE_BAD, JSON_ESCAPE_CUT, JSON_ESCAPE_SURROGATE };

/* Reads the escape whose backslash is at *p. OK: *cp is the code point (a surrogate pair makes one)
 * and *p stands behind it. SURROGATE: a lone one in *cp, *p behind it. CUT: the text ends inside
 * it. BAD: no escape of JSON; *p unchanged for these two. */
enum json_escape json_scan_escape(const char **p, const char *end, uint32_t *cp);

struct json_number {
  bool is_int;   /* written without fraction and exponent, and fits int64 */
  bool is_whole; /* no fraction or exponent written; larger than int64 when not is_int */
  bool range;    /* too large for a double: `number` is ±infinity */
  int64_t integer;
  double number; /* set in both cases */
};

/* Reads the number at p. Returns the place behind it, or NULL when its digits are not those of a
 * JSON number (then *out is untouched). A number may end at `end`. */
const char *json_scan_number(const char *p, const char *end, struct json_number *out);
/* The same without its value. */
const char *json_skip_number(const char *p, const char *end);

#endif
