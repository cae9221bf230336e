/* json.c: the strict parser behind json_parse; the writer is json_write.c.
 *
 * Recursive descent in one pass; strings without escapes are copied once, straight from the text.
 * Line and column are worked out only when something is wrong. */
#include "text/json.h"

#include "text/json_scan.h"
#include "text/utf8.h"

#include <ctype.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT_OF_VALUE(x) TEXT_OF(x)
#define DEPTH_TEXT TEXT_OF_VALUE(JSON_MAX_DEPTH)

struct parser {
  const char *start, *cur, *end;
  struct err *err;
  unsigned depth;
  struct buf scratch; /* a string that had escapes */
};

/* Columns count characters, so that an editor's cursor lands there. */
static int fail(const struct parser *p, const char *at, const char *what) {
  size_t line = 1, column = 1;
  for (const char *s = p->start; s < at; s++) {
    if (*s == '\n') {
      line++;
      column = 1;
    } else if (((unsigned char)*s & 0xc0) != 0x80) {
      column++;
    }
  }
  return err_set(p->err, ERR_INVALID, "line %zu, column %zu: %s", line, column, what);
}

/* "expected X, found 'c'" or "… the text ends". */
static int fail_expected(const struct parser *p, const char *what) {
  struct err e;
  if (p->cur == p->end)
    err_set(&e, ERR_INVALID, "expected %s, but the text ends here", what);
  else if (isprint((unsigned char)*p->cur))
    err_set(&e, ERR_INVALID, "expected %s, found '%c'", what, *p->cur);
  else
    err_set(&e, ERR_INVALID, "expected %s, found byte 0x%02x", what, (unsigned char)*p->cur);
  return fail(p, p->cur, e.text);
}

static void skip_space(struct parser *p) {
  p->cur = json_skip_space(p->cur, p->end);
}

/* Appends what the escape at cur stands for to p->scratch. */
static int scan_escape(struct parser *p) {
  const char *at = p->cur;
  uint32_t cp;
  switch (json_scan_escape(&p->cur, p->end, &cp)) {
  case JSON_ESCAPE_OK:
    break;
  case JSON_ESCAPE_CUT:
    return fail(p, at, "the text ends inside an escape");
  case JSON_ESCAPE_SURROGATE:
    return fail(p, at, "half of a surrogate pair in a \\u escape");
  case JSON_ESCAPE_BAD:
    return fail(p, at, "unknown escape; a backslash itself is written \\\\");
  }
  char bytes[4];
  buf_put(&p->scratch, bytes, utf8_encode(cp, bytes));
  return 0;
}

/* The string whose first byte after the quote is at cur. Without escapes *text, *len point into
 * the source, with them into p->scratch, until the next string. cur ends behind the closing quote.
 */
static int scan_string(struct parser *p, const char **text, size_t *len) {
  const char *open = p->cur - 1, *run = p->cur;
  bool copied = false;
  for (;;) {
    p->cur = json_plain_run(p->cur, p->end);
    if (p->cur == p->end)
      return fail(p, open, "this string has no closing quote");
    unsigned char c = (unsigned char)*p->cur;
    if (c == '"')
      break;
    if (c >= 0x80) {
      uint32_t cp;
      unsigned n = utf8_decode(p->cur, p->end, &cp);
      if (!n)
        return fail(p, p->cur, "not valid UTF-8");
      p->cur += n;
      continue;
    }
    if (c != '\\')
      return fail(p, p->cur, "a control character must be escaped inside a string");
    if (!copied)
      buf_reset(&p->scratch);
    copied = true;
    buf_put(&p->scratch, run, (size_t)(p->cur - run));
    int rc = scan_escape(p);
    if (rc)
      return rc;
    run = p->cur;
  }
  *text = run;
  *len = (size_t)(p->cur - run);
  if (copied) {
    buf_put(&p->scratch, run, *len);
    *text = p->scratch.data;
    *len = p->scratch.len;
  }
  p->cur++;
  return 0;
}

static int parse_string(struct parser *p, struct value *out) {
  const char *text = NULL;
  size_t len = 0;
  p->cur++;
  int rc = scan_string(p, &text, &len);
  if (rc == 0)
    *out = value_string(text, len);
  return rc;
}

static int parse_number(struct parser *p, struct value *out) {
  struct json_number n;
  const char *behind = json_scan_number(p->cur, p->end, &n);
  if (!behind)
    return fail(p, p->cur, "not a JSON number (digits, no leading zero or plus, no bare point)");
  if (n.range)
    return fail(p, p->cur, "this number is too large for a double");
  if (n.is_int)
    *out = value_int(n.integer);
  else if (n.is_whole)
    *out = value_big(p->cur, (size_t)(behind - p->cur));
  else
    *out = value_double(n.number);
  p->cur = behind;
  return 0;
}

static int parse_word(struct parser *p, struct value *out) {
  static const struct {
    const char *word;
    size_t len;
  } words[] = {{"null", 4}, {"true", 4}, {"false", 5}};
  for (size_t i = 0; i < ARRAY_LEN(words); i++) {
    if ((size_t)(p->end - p->cur) < words[i].len ||
        memcmp(p->cur, words[i].word, words[i].len) != 0)
      continue;
    p->cur += words[i].len;
    *out = i == 0 ? value_null() : value_bool(i == 1);
    return 0;
  }
  if (*p->cur == 'N' || *p->cur == 'I')
    return fail(p, p->cur, "NaN and Infinity are not JSON; write null");
  return fail_expected(p, "a value");
}

static int parse_value(struct parser *p, struct value *out);

static int parse_array(struct parser *p, struct value *out) {
  *out = value_array();
  p->cur++;
  skip_space(p);
  if (p->cur < p->end && *p->cur == ']') {
    p->cur++;
    return 0;
  }
  for (;;) {
    int rc = parse_value(p, value_push(out, value_null()));
    if (rc)
      return rc;
    skip_space(p);
    if (p->cur == p->end || (*p->cur != ',' && *p->cur != ']'))
      return fail_expected(p, "',' or ']' after an array's item");
    if (*p->cur++ == ']')
      return 0;
    skip_space(p);
  }
}

static int parse_pair(struct parser *p, struct value *object) {
  if (p->cur == p->end || *p->cur != '"')
    return fail_expected(p, "a key in double quotes");
  p->cur++;
  const char *key = NULL;
  size_t len = 0;
  int rc = scan_string(p, &key, &len);
  if (rc)
    return rc;
  skip_space(p);
  if (p->cur == p->end || *p->cur != ':')
    return fail_expected(p, "':' after a key");
  p->cur++;
  skip_space(p);
  return parse_value(p, value_set_len(object, key, len, value_null()));
}

static int parse_object(struct parser *p, struct value *out) {
  *out = value_object();
  p->cur++;
  skip_space(p);
  if (p->cur < p->end && *p->cur == '}') {
    p->cur++;
    return 0;
  }
  for (;;) {
    int rc = parse_pair(p, out);
    if (rc)
      return rc;
    skip_space(p);
    if (p->cur == p->end || (*p->cur != ',' && *p->cur != '}'))
      return fail_expected(p, "',' or '}' after an object's value");
    if (*p->cur++ == '}')
      return 0;
    skip_space(p);
  }
}

/* cur stands on the value's first byte. */
static int parse_value(struct parser *p, struct value *out) {
  if (p->cur == p->end)
    return fail_expected(p, "a value");
  char c = *p->cur;
  if (c == '"')
    return parse_string(p, out);
  if (c == '-' || (c >= '0' && c <= '9'))
    return parse_number(p, out);
  if (c != '{' && c != '[')
    return parse_word(p, out);
  if (p->depth == JSON_MAX_DEPTH)
    return fail(p, p->cur, "nested deeper than " DEPTH_TEXT " levels");
  p->depth++;
  int rc = c == '{' ? parse_object(p, out) : parse_array(p, out);
  p->depth--;
  return rc;
}

int json_parse(const char *text, size_t len, struct value *out, struct err *err) {
  if (!len)
    text = ""; /* NULL is fine then */
  struct parser p = {.start = text, .cur = text, .end = text + len, .err = err};
  buf_init(&p.scratch, BUF_MAX_OWN);
  *out = value_null();
  skip_space(&p);
  int rc = parse_value(&p, out);
  if (rc == 0) {
    skip_space(&p);
    if (p.cur != p.end)
      rc = fail(&p, p.cur, "something follows the JSON value");
  }
  if (rc)
    value_free(out);
  buf_free(&p.scratch);
  return rc;
}

size_t json_utf8_valid(const char *s, size_t len) {
  if (!len)
    return 0;
  const char *p = s, *end = s + len;
  while (p < end) {
    uint64_t eight;
    if (end - p >= 8 && (memcpy(&eight, p, 8), !(eight & UINT64_C(0x8080808080808080)))) {
      p += 8;
      continue;
    }
    uint32_t cp;
    unsigned n = utf8_decode(p, end, &cp);
    if (!n)
      break;
    p += n;
  }
  return (size_t)(p - s);
}
