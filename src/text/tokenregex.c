/* tokenregex.c: from the reference's regular expressions to PCRE2's; see tokenregex.h.
 *
 * One pass: escapes and class brackets are understood, everything else is the same in both. */
#include "text/tokenregex.h"

#include "text/unicode.h"

#include <stdio.h>

struct rewrite {
  const char *whole, *p, *end;
  size_t len;
  struct buf *out;
  struct err *err;
};

static int refuse(struct rewrite *r, const char *what, size_t n) {
  return err_set(r->err, ERR_UNSUPPORTED,
                 "pattern \"%.*s\": %.*s has no exact equal here; only known patterns may use it",
                 (int)(r->len < 300 ? r->len : 300), r->whole, (int)n, what);
}

static int range(struct rewrite *r, uint32_t first, uint32_t last) {
  char text[32];
  int n = first == last ? snprintf(text, sizeof text, "\\x{%x}", first)
                        : snprintf(text, sizeof text, "\\x{%x}-\\x{%x}", first, last);
  int rc = buf_add(r->out, text, (size_t)n);
  return rc ? err_set(r->err, rc, "pattern: more than %zu bytes once its classes are written out",
                      r->out->max)
            : 0;
}

/* The ranges of a class, or of what is outside it. */
static int ranges(struct rewrite *r, const char *name, size_t len, bool outside) {
  size_t n;
  const uint32_t *row = unicode_ranges(name, len, &n);
  uint32_t next = 0;
  int rc = 0;
  if (!row)
    return refuse(r, name, len);
  for (size_t i = 0; !rc && i < n; i++) {
    uint32_t first = row[2 * i], last = row[2 * i + 1];
    if (!outside) {
      rc = range(r, first, last);
      continue;
    }
    if (first > next && next <= 0xd7ff && first > 0xd800) { /* surrogates are no characters */
      rc = range(r, next, 0xd7ff);
      next = 0xe000;
    }
    if (!rc && first > next)
      rc = range(r, next, first - 1);
    next = last + 1;
  }
  if (!rc && outside && next <= 0x10ffff)
    rc = range(r, next, 0x10ffff);
  return rc;
}

static int set(struct rewrite *r, const char *name, size_t len, bool outside, bool in_class) {
  if (!in_class)
    buf_puts(r->out, "[");
  int rc = ranges(r, name, len, outside);
  if (!in_class)
    buf_puts(r->out, "]");
  return rc;
}

/* \p{Name}, \p{^Name}, \P{Name}, at the p. */
static int property(struct rewrite *r, bool in_class) {
  bool outside = *r->p == 'P';
  const char *name = r->p + 2, *close = memchr(r->p, '}', (size_t)(r->end - r->p));
  if (r->end - r->p < 3 || r->p[1] != '{' || !close)
    return refuse(r, "\\p without {NAME}", 17);
  if (*name == '^') {
    outside = !outside;
    name++;
  }
  r->p = close + 1;
  size_t len = (size_t)(close - name);
  if ((len == 1 && strchr("swd", *name)) ||
      len == 5) /* our tables' names for \s \w \d, not properties */
    return refuse(r, name, len);
  return set(r, name, len, outside, in_class);
}

static int boundary(struct rewrite *r, bool inside) {
  static const char *const parts[2][4] = {{"(?:(?<=[", "])(?![", "])|(?<![", "])(?=["},
                                          {"(?:(?<=[", "])(?=[", "])|(?<![", "])(?!["}};
  int rc = 0;
  for (int i = 0; i < 4 && !rc; i++) {
    buf_puts(r->out, parts[inside][i]);
    rc = ranges(r, "w", 1, false);
  }
  buf_puts(r->out, "]))");
  return rc;
}

/* Behind a backslash. */
static int escape(struct rewrite *r, bool in_class) {
  if (r->p == r->end)
    return refuse(r, "a backslash at the end", 22);
  char c = *r->p, low = (char)(c | 0x20);
  if (low == 'p')
    return property(r, in_class);
  r->p++;
  if (low == 's' || low == 'w' || low == 'd')
    return set(r, &(char){low}, 1, c != low, in_class);
  if (low == 'b' && !in_class)
    return boundary(r, c == 'B');
  char shown[3] = {'\\', c, 0};
  bool same = strchr("rntfae", c) || (c == 'x' && r->p < r->end && *r->p == '{') ||
              !((low >= 'a' && low <= 'z') || (c >= '0' && c <= '9'));
  if (!same && !((c == 'A' || c == 'z') && !in_class))
    return refuse(r, shown, 2);
  buf_put(r->out, shown, 2);
  return 0;
}

static int class_body(struct rewrite *r) {
  buf_putc(r->out, *r->p++); /* the bracket */
  if (r->p < r->end && *r->p == '^')
    buf_putc(r->out, *r->p++);
  if (r->p < r->end && *r->p == ']')
    return refuse(r, "a class that begins with ]", 26);
  while (r->p < r->end && *r->p != ']') {
    if (*r->p == '[')
      return refuse(r, "a class within a class", 22);
    if (*r->p == '&' && r->end - r->p > 1 && r->p[1] == '&')
      return refuse(r, "&&", 2);
    int rc = 0;
    if (*r->p == '\\') {
      r->p++;
      rc = escape(r, true);
    } else {
      buf_putc(r->out, *r->p++);
    }
    if (rc)
      return rc;
  }
  if (r->p == r->end)
    return refuse(r, "a class that does not end", 25);
  buf_putc(r->out, *r->p++);
  return 0;
}

/* Behind "(?": groups that are the same in both; options: i alone. */
static int group(struct rewrite *r) {
  static const char *const same[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
  for (size_t i = 0; i < ARRAY_LEN(same); i++) {
    size_t n = strlen(same[i]);
    if ((size_t)(r->end - r->p) >= n && memcmp(r->p, same[i], n) == 0) {
      const char *stop = same[i][2] == 'i' ? memchr(r->p, ')', (size_t)(r->end - r->p)) : NULL;
      if (stop &&
          (memchr(r->p, '\\', (size_t)(stop - r->p)) || memchr(r->p, '[', (size_t)(stop - r->p)) ||
           memchr(r->p + 1, '(', (size_t)(stop - r->p - 1))))
        return refuse(r, "a class or group within (?i:", 28); /* folding would widen it */
      buf_put(r->out, r->p, n);
      r->p += n;
      return 0;
    }
  }
  size_t n = (size_t)(r->end - r->p);
  return refuse(r, r->p, n < 4 ? n : 4);
}

int tokenregex_rewrite(const char *regex, size_t len, struct buf *out, struct err *err) {
  struct rewrite r = {regex, regex, regex + len, len, out, err};
  int rc = 0;
  if (len > 1 << 16)
    return err_set(err, ERR_LIMIT, "pattern: longer than 64 KiB");
  while (r.p < r.end && !rc) {
    switch (*r.p) {
    case '\\':
      r.p++;
      rc = escape(&r, false);
      break;
    case '[':
      rc = class_body(&r);
      break;
    case '^':
    case '$':
      rc = refuse(&r, r.p, 1);
      break;
    case '(':
      if (r.end - r.p > 1 && r.p[1] == '?')
        rc = group(&r);
      else if (r.end - r.p > 1 && r.p[1] == '*')
        rc = refuse(&r, "(*", 2);
      else
        buf_putc(out, *r.p++);
      break;
    case '.':
      r.p++;
      buf_puts(out, "[^\n]");
      break;
    case '{':
      if (r.end - r.p > 1 && r.p[1] == ',')
        rc = refuse(&r, "{,", 2);
      buf_putc(out, *r.p++);
      break;
    case '}':
      if (r.end - r.p > 1 && r.p[1] == '+') /* greedy twice there, possessive in PCRE2 */
        rc = refuse(&r, "}+", 2);
      buf_putc(out, *r.p++);
      break;
    default:
      buf_putc(out, *r.p++);
    }
  }
  if (!rc && len == 0)
    buf_put(out, "", 0);
  return rc;
}
