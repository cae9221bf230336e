/* jinja_strcase.c: case, character classes and stripping of Python's str. */
#include "text/jinja.h"

#include "text/pychar.h"

#include <string.h>

/* Σ is ς at the end of a word: after a cased letter and before none, case-ignorable ones skipped
 * both ways (Unicode 3.13, Final_Sigma). */
static bool final_sigma(const char *s, size_t len, size_t at, size_t size) {
  size_t i = at, n;
  bool cased = false;
  while (i > 0) {
    i--;
    while (i > 0 && ((unsigned char)s[i] & 0xc0) == 0x80)
      i--;
    unsigned classes = pychar_classes(pychar_read(s + i, len - i, &n));
    if (classes & PYCHAR_CASE_IGNORABLE)
      continue;
    cased = classes & PYCHAR_CASED;
    break;
  }
  if (!cased)
    return false;
  for (i = at + size; i < len; i += n) {
    unsigned classes = pychar_classes(pychar_read(s + i, len - i, &n));
    if (!(classes & PYCHAR_CASE_IGNORABLE))
      return !(classes & PYCHAR_CASED);
  }
  return true;
}

static enum pychar_case choose(enum jcase how, unsigned classes, bool first, bool after_cased) {
  switch (how) {
  case JCASE_LOWER:
    return PYCHAR_TO_LOWER;
  case JCASE_UPPER:
    return PYCHAR_TO_UPPER;
  case JCASE_FOLD:
    return PYCHAR_TO_FOLD;
  case JCASE_CAPITALIZE:
    return first ? PYCHAR_TO_TITLE : PYCHAR_TO_LOWER;
  case JCASE_SWAP:
    return classes & PYCHAR_UPPER ? PYCHAR_TO_LOWER : PYCHAR_TO_UPPER;
  case JCASE_TITLE:
    return after_cased ? PYCHAR_TO_LOWER : PYCHAR_TO_TITLE;
  }
  return PYCHAR_TO_LOWER;
}

static struct jv case_ascii(struct jst *st, const char *s, size_t len, enum jcase how) {
  char *to = jalloc(st, len + 1);
  jspend(st, len / 16);
  bool after_letter = false;
  for (size_t i = 0; i < len; i++) {
    char c = s[i];
    bool upper = c >= 'A' && c <= 'Z', letter = upper || (c >= 'a' && c <= 'z');
    enum pychar_case to_case = choose(how, upper ? PYCHAR_UPPER : 0, i == 0, after_letter);
    bool lower = to_case == PYCHAR_TO_LOWER || to_case == PYCHAR_TO_FOLD;
    if (letter)
      c = (char)(lower ? c | 32 : c & ~32);
    to[i] = c;
    after_letter = letter;
  }
  to[len] = '\0';
  struct jv r = jstr(to, len);
  r.flags = JF_ASCII;
  return r;
}

struct jv jcase(struct jst *st, struct jv s, enum jcase how) {
  const char *p = jbytes(st, s);
  if (jascii(st, &s))
    return case_ascii(st, p, s.len, how);
  struct buf *b = jbuf_open(st);
  jwork_chars(st, s.len);
  bool after_cased = false;
  size_t size;
  for (size_t i = 0; i < s.len; i += size) {
    uint32_t c = pychar_read(p + i, s.len - i, &size), to[3];
    unsigned classes = pychar_classes(c);
    enum pychar_case to_case = choose(how, classes, i == 0, after_cased);
    size_t n = pychar_map(c, to_case, to);
    if (c == 0x3a3 && to_case == PYCHAR_TO_LOWER)
      to[0] = final_sigma(p, s.len, i, size) ? 0x3c2 : 0x3c3;
    for (size_t k = 0; k < n; k++)
      jput_char(st, b, to[k]);
    after_cased = classes & PYCHAR_CASED;
  }
  return jbuf_close(st, b);
}

/* ---- classes */

static bool all_have(struct jst *st, const char *p, size_t len, unsigned classes, bool empty) {
  size_t size;
  for (size_t i = 0; i < len; i += size) {
    jstep(st);
    if (!(pychar_classes(pychar_read(p + i, len - i, &size)) & classes))
      return false;
  }
  return len || empty;
}

/* isupper, islower: one cased character at least, and none of the other case. */
static bool one_case(struct jst *st, const char *p, size_t len, unsigned wanted, unsigned other) {
  bool found = false;
  size_t size;
  for (size_t i = 0; i < len; i += size) {
    unsigned classes = pychar_classes(pychar_read(p + i, len - i, &size));
    jstep(st);
    if (classes & (other | PYCHAR_TITLE))
      return false;
    found = found || classes & wanted;
  }
  return found;
}

static bool is_title(struct jst *st, const char *p, size_t len) {
  bool found = false, after_cased = false;
  size_t size;
  for (size_t i = 0; i < len; i += size) {
    unsigned classes = pychar_classes(pychar_read(p + i, len - i, &size));
    jstep(st);
    bool big = classes & (PYCHAR_UPPER | PYCHAR_TITLE), small = classes & PYCHAR_LOWER;
    if ((big && after_cased) || (small && !after_cased))
      return false;
    after_cased = big || small;
    found = found || after_cased;
  }
  return found;
}

static bool is_identifier(struct jst *st, const char *p, size_t len) {
  size_t size;
  for (size_t i = 0; i < len; i += size) {
    unsigned classes = pychar_classes(pychar_read(p + i, len - i, &size));
    jstep(st);
    if (!(classes & (i ? PYCHAR_IDENT : PYCHAR_IDENT_START)))
      return false;
  }
  return len > 0;
}

bool jis_class(struct jst *st, struct jv s, const char *which) {
  static const struct {
    const char *name;
    unsigned classes;
    bool empty;
  } simple[] = {{"isalpha", PYCHAR_ALPHA, false},
                {"isalnum", PYCHAR_ALPHA | PYCHAR_DECIMAL | PYCHAR_DIGIT | PYCHAR_NUMERIC, false},
                {"isdecimal", PYCHAR_DECIMAL, false},
                {"isdigit", PYCHAR_DIGIT, false},
                {"isnumeric", PYCHAR_NUMERIC, false},
                {"isspace", PYCHAR_SPACE, false},
                {"isprintable", PYCHAR_PRINTABLE, true}};
  const char *p = jbytes(st, s);
  for (size_t i = 0; i < sizeof simple / sizeof *simple; i++)
    if (!strcmp(simple[i].name, which))
      return all_have(st, p, s.len, simple[i].classes, simple[i].empty);
  if (!strcmp(which, "isascii"))
    return jascii(st, &s);
  if (!strcmp(which, "islower"))
    return one_case(st, p, s.len, PYCHAR_LOWER, PYCHAR_UPPER);
  if (!strcmp(which, "isupper"))
    return one_case(st, p, s.len, PYCHAR_UPPER, PYCHAR_LOWER);
  if (!strcmp(which, "istitle"))
    return is_title(st, p, s.len);
  return is_identifier(st, p, s.len);
}

/* ---- strip */

static bool strips(struct jst *st, uint32_t c, const char *bytes, size_t size, struct jv chars) {
  jstep(st);
  if (chars.type != J_STR)
    return pychar_classes(c) & PYCHAR_SPACE;
  const char *set = jbytes(st, chars);
  jwork(st, chars.len);
  if (size == 1)
    return chars.len && memchr(set, *bytes, chars.len);
  return chars.len >= size && memmem(set, chars.len, bytes, size);
}

struct jv jstrip(struct jst *st, struct jv s, struct jv chars, bool left, bool right) {
  const char *p = jbytes(st, s);
  size_t from = 0, to = s.len, size;
  while (left && from < to) {
    uint32_t c = pychar_read(p + from, to - from, &size);
    if (!strips(st, c, p + from, size, chars))
      break;
    from += size;
  }
  while (right && to > from) {
    size_t at = to - 1;
    while (at > from && ((unsigned char)p[at] & 0xc0) == 0x80)
      at--;
    uint32_t c = pychar_read(p + at, to - at, &size);
    if (!strips(st, c, p + at, size, chars))
      break;
    to = at;
  }
  return jsub(st, s, from, to - from);
}
