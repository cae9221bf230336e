/* jsonwalk.c: JSON by slices; see jsonwalk.h. */
#include "text/jsonwalk.h"

#include "text/json_scan.h"
#include "text/utf8.h"

/* Behind the string whose quote is at p; NULL when it does not end. */
static const char *skip_string(const char *p, const char *end) {
  for (p++;;) {
    p = json_string_run(p, end);
    if (p >= end || (unsigned char)*p < 0x20)
      return NULL;
    if (*p == '"')
      return p + 1;
    p += 2; /* a backslash and what it escapes */
    if (p > end)
      return NULL;
  }
}

/* A bracket, or a quote: what the end of an object or array depends on. */
static bool is_structure(char c) {
  return c == '"' || c == '{' || c == '}' || c == '[' || c == ']';
}

/* The first such byte at or after p. */
static const char *structure_run(const char *p, const char *end) {
#ifdef __SSE2__
  for (; end - p >= 16; p += 16) {
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i folded = _mm_or_si128(x, _mm_set1_epi8(0x20)); /* [ and ] become { and } */
    __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')),
                                _mm_or_si128(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{')),
                                             _mm_cmpeq_epi8(folded, _mm_set1_epi8('}'))));
    unsigned hit = (unsigned)_mm_movemask_epi8(hits);
    if (hit)
      return p + __builtin_ctz(hit);
  }
#endif
  while (p < end && !is_structure(*p))
    p++;
  return p;
}

/* Behind the object or array whose bracket is at p; NULL when it does not end. */
static const char *skip_nested(const char *p, const char *end) {
  size_t depth = 1;
  p++;
  while (depth) {
    p = structure_run(p, end);
    if (p == end)
      return NULL;
    if (*p == '"') {
      p = skip_string(p, end);
      if (!p)
        return NULL;
      continue;
    }
    depth = *p == '{' || *p == '[' ? depth + 1 : depth - 1;
    p++;
  }
  return p;
}

const char *jsonwalk_skip(const char *p, const char *end) {
  const char *start = p;
  if (p < end && *p == '"')
    return skip_string(p, end);
  if (p < end && (*p == '{' || *p == '['))
    return skip_nested(p, end);
  while (p < end && *p != ',' && !is_structure(*p) && *p != ' ' && *p != '\n' && *p != '\r' &&
         *p != '\t')
    p++;
  return p > start ? p : NULL;
}

struct jsonslice jsonwalk_value(const char *p, const char *end) {
  p = json_skip_space(p, end);
  const char *q = jsonwalk_skip(p, end);
  return q ? (struct jsonslice){p, q} : (struct jsonslice){0};
}

bool jsonwalk_begin(struct jsonwalk *w, struct jsonslice s, char open) {
  if (!s.p || s.p == s.end || *s.p != open)
    return false;
  *w = (struct jsonwalk){s.p + 1, s.end, open == '{' ? '}' : ']', false};
  return true;
}

int jsonwalk_next(struct jsonwalk *w, struct jsonslice *key, struct jsonslice *value) {
  const char *p = json_skip_space(w->p, w->end);
  *key = (struct jsonslice){0};
  if (p < w->end && *p == w->close && p + 1 == w->end)
    return 0;
  if (w->any) {
    if (p == w->end || *p != ',')
      return -1;
    p = json_skip_space(p + 1, w->end);
  }
  w->any = true;
  if (w->close == '}') {
    const char *q = p < w->end && *p == '"' ? skip_string(p, w->end) : NULL;
    if (!q)
      return -1;
    *key = (struct jsonslice){p, q};
    p = json_skip_space(q, w->end);
    if (p == w->end || *p != ':')
      return -1;
    p++;
  }
  *value = jsonwalk_value(p, w->end);
  w->p = value->end;
  return value->p ? 1 : -1;
}

bool jsonwalk_string(struct jsonslice s, struct buf *out) {
  if (!s.p || s.end - s.p < 2 || *s.p != '"' || s.end[-1] != '"')
    return false;
  const char *p = s.p + 1, *end = s.end - 1;
  while (p < end) {
    const char *q = json_plain_run(p, end);
    if (buf_add(out, p, (size_t)(q - p)))
      return false;
    p = q;
    if (p == end)
      break;
    uint32_t cp;
    char bytes[4];
    if (*p == '\\') {
      if (json_scan_escape(&p, end, &cp) != JSON_ESCAPE_OK)
        return false;
    } else {
      unsigned n = utf8_decode(p, end, &cp);
      if (!n || cp < 0x20 || cp == '"')
        return false;
      p += n;
    }
    if (buf_add(out, bytes, utf8_encode(cp, bytes)))
      return false;
  }
  return true;
}

bool jsonwalk_is(struct jsonslice s, const char *text) {
  size_t n = strlen(text);
  return s.p && (size_t)(s.end - s.p) == n + 2 && *s.p == '"' && memcmp(s.p + 1, text, n) == 0;
}
