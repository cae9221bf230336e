/* openai_json.c: the pull scanner of openai_json.h. */
#include "text/openai_json.h"

#include "text/json.h"
#include "text/json_scan.h"
#include "text/utf8.h"

#define TWO_63 9223372036854775808.0

void scan_init(struct scan *s, const char *text, size_t len, struct buf *key) {
  *s = (struct scan){.p = text, .end = text + len, .key = key};
}

static void fail(struct scan *s) {
  if (!s->bad)
    s->cut = s->p == s->end;
  s->bad = true;
  s->p = s->end;
}

void scan_stop(struct scan *s) {
  s->bad = true;
  s->p = s->end;
}

static inline void skip_space(struct scan *s) {
  while (s->p < s->end && (unsigned char)*s->p <= ' ' &&
         (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
    s->p++;
}

/* Consumes c, or fails. */
static inline bool expect(struct scan *s, char c) {
  skip_space(s);
  if (s->p < s->end && *s->p == c) {
    s->p++;
    return true;
  }
  fail(s);
  return false;
}

void scan_end(struct scan *s) {
  skip_space(s);
  if (s->p != s->end)
    fail(s);
}

/* From behind the opening quote to behind the closing one. */
static bool read_string(struct scan *s, struct scan_str *out) {
  const char *first = s->p;
  out->escaped = false;
  for (;;) {
    s->p = json_string_run(s->p, s->end);
    if (s->p < s->end && *s->p == '"')
      break;
    uint32_t cp;
    if (s->p == s->end || *s->p != '\\') {
      fail(s);
      return false;
    }
    enum json_escape got = json_scan_escape(&s->p, s->end, &cp);
    if (got == JSON_ESCAPE_BAD || got == JSON_ESCAPE_CUT) {
      if (got == JSON_ESCAPE_CUT)
        s->p = s->end;
      fail(s);
      return false;
    }
    out->escaped = true;
  }
  out->p = first;
  out->len = (size_t)(s->p - first);
  out->there = true;
  s->p++;
  return true;
}

static void skip_word(struct scan *s, const char *word, size_t len) {
  size_t left = (size_t)(s->end - s->p);
  if (left >= len && memcmp(s->p, word, len) == 0) {
    s->p += len;
    return;
  }
  if (left < len && memcmp(s->p, word, left) == 0)
    s->p = s->end; /* cut short */
  fail(s);
}

/* The whole number at s->p when it is one of up to 18 digits that starts with no zero: nearly every
 * number that a server sends. */
static inline bool read_plain(struct scan *s, int64_t *out) {
  const char *p = s->p, *stop = s->end - s->p > 18 ? s->p + 18 : s->end;
  int64_t n = 0;
  if (p == stop || *p < '1' || *p > '9')
    return false;
  for (; p < stop && *p >= '0' && *p <= '9'; p++)
    n = n * 10 + (*p - '0');
  if (p == s->end || (*p >= '0' && *p <= '9') || *p == '.' || *p == 'e' || *p == 'E')
    return false;
  s->p = p;
  *out = n;
  return true;
}

static void skip_number(struct scan *s) {
  int64_t n;
  if (read_plain(s, &n))
    return;
  const char *behind = json_skip_number(s->p, s->end);
  if (behind) {
    s->p = behind;
    return;
  }
  /* "-", "1." and "1e" may be cut short; what stands there then has no other byte in it. */
  const char *p = s->p;
  while (p < s->end && *p && strchr("0123456789+-.eE", *p))
    p++;
  s->p = p;
  fail(s);
}

void scan_skip(struct scan *s) {
  skip_space(s);
  if (s->p == s->end) {
    fail(s);
    return;
  }
  bool first = true;
  struct scan_str ignored;
  switch (*s->p) {
  case '"':
    s->p++;
    read_string(s, &ignored);
    break;
  case '{':
    scan_enter(s, '{');
    while (scan_key(s, &first, &ignored))
      scan_skip(s);
    break;
  case '[':
    scan_enter(s, '[');
    while (scan_item(s, &first))
      scan_skip(s);
    break;
  case 'n':
    skip_word(s, "null", 4);
    break;
  case 't':
    skip_word(s, "true", 4);
    break;
  case 'f':
    skip_word(s, "false", 5);
    break;
  default:
    skip_number(s);
  }
}

bool scan_enter(struct scan *s, char open) {
  if (s->p == s->end || *s->p != open) {
    skip_space(s);
    if (s->p == s->end || *s->p != open) {
      scan_skip(s);
      return false;
    }
  }
  if (s->depth == JSON_MAX_DEPTH) {
    fail(s);
    return false;
  }
  s->depth++;
  s->p++;
  return true;
}

/* Behind a member or item, or at the first: true when another one stands here. */
static bool another(struct scan *s, bool *first, char close) {
  skip_space(s);
  if (s->p < s->end && *s->p == close) {
    s->p++;
    s->depth--;
    return false;
  }
  if (*first)
    *first = false;
  else if (!expect(s, ','))
    return false;
  skip_space(s);
  if (s->p == s->end)
    fail(s);
  return !s->bad;
}

/* A key in any form. */
static bool read_key(struct scan *s, bool *first, struct scan_str *key) {
  if (!another(s, first, '}') || !expect(s, '"') || !read_string(s, key))
    return false;
  if (key->escaped) {
    buf_reset(s->key);
    if (scan_unescape(key, s->key)) {
      fail(s);
      return false;
    }
    *key = (struct scan_str){.p = s->key->data, .len = s->key->len, .there = true};
  }
  return expect(s, ':');
}

bool scan_key(struct scan *s, bool *first, struct scan_str *key) {
#ifdef __SSE2__
  /* The usual form, ,"key": without spaces and escapes and of up to 15 bytes: 19 bytes in all. */
  const char *p = s->p + !*first;
  if (s->end - s->p >= 19 && (*first || *s->p == ',') && *p == '"') {
    __m128i bytes;
    unsigned hit = json_stops16(++p, &bytes);
    const char *close = p + (hit ? __builtin_ctz(hit) : 0);
    if (hit && close[0] == '"' && close[1] == ':') {
      *first = false;
      *key = (struct scan_str){.p = p, .len = (size_t)(close - p), .there = true};
      s->p = close + 2;
      return true;
    }
  }
#endif
  return read_key(s, first, key);
}

bool scan_item(struct scan *s, bool *first) {
  return another(s, first, ']');
}

void scan_string(struct scan *s, struct scan_str *out) {
  skip_space(s);
  out->there = false;
  out->len = 0;
  if (s->p == s->end || *s->p != '"') {
    scan_skip(s);
    return;
  }
  s->p++;
  read_string(s, out);
}

/* The number that stands here; false, with the value skipped, when it is none that fits. */
static bool read_whole(struct scan *s, int64_t *out) {
  skip_space(s);
  if (read_plain(s, out))
    return true;
  struct json_number n;
  const char *behind = NULL;
  if (s->p < s->end && (*s->p == '-' || (*s->p >= '0' && *s->p <= '9')))
    behind = json_scan_number(s->p, s->end, &n);
  if (!behind) {
    scan_skip(s);
    return false;
  }
  s->p = behind;
  *out = n.integer;
  if (n.is_int)
    return true;
  if (!(n.number >= -TWO_63 && n.number < TWO_63) || (double)(int64_t)n.number != n.number)
    return false;
  *out = (int64_t)n.number;
  return true;
}

int64_t scan_count(struct scan *s, int64_t absent) {
  int64_t n;
  return read_whole(s, &n) && n >= 0 ? n : absent;
}

int64_t scan_code(struct scan *s, int64_t absent, struct scan_str *text) {
  skip_space(s);
  text->there = false;
  int64_t n;
  if (s->p == s->end || *s->p != '"')
    return read_whole(s, &n) ? n : absent;
  scan_string(s, text);
  if (!text->there)
    return absent;
  struct json_number number;
  const char *end = text->p + text->len;
  if (json_scan_number(text->p, end, &number) != end || !number.is_int)
    return absent;
  text->there = false;
  return number.integer;
}

int scan_unescape(const struct scan_str *str, struct buf *out) {
  if (!str->escaped)
    return buf_add(out, str->p, str->len);
  int rc = buf_reserve(out, str->len); /* unescaped text is never longer: \u0800 and up is 6 to 3 */
  if (rc)
    return rc;
  const char *p = str->p, *end = p + str->len;
  while (p < end) {
    const char *run = p;
    p = json_string_run(p, end);
    memcpy(out->data + out->len, run, (size_t)(p - run));
    out->len += (size_t)(p - run);
    if (p == end)
      break;
    uint32_t cp = 0;
    if (json_scan_escape(&p, end, &cp) == JSON_ESCAPE_SURROGATE)
      cp = 0xfffd;
    char bytes[4];
    unsigned n = utf8_encode(cp, bytes);
    memcpy(out->data + out->len, bytes, n);
    out->len += n;
  }
  out->data[out->len] = '\0';
  return 0;
}

bool scan_equals_escaped(const struct scan_str *str, const char *word, size_t len) {
  struct buf plain;
  buf_init(&plain, BUF_MAX_OWN);
  bool same =
      scan_unescape(str, &plain) == 0 && plain.len == len && memcmp(plain.data, word, len) == 0;
  buf_free(&plain);
  return same;
}
