/* jinja_strsplit.c: splitting, joining and replacing as Python's str does. */
#include "text/jinja.h"

#include "text/pychar.h"

#include <string.h>

struct jlist *jsplit_space(struct jst *st, struct jv s, int64_t max) {
  struct jlist *l = jlist_new(st, 0);
  const char *p = jbytes(st, s);
  size_t i = 0, size;
  jwork_chars(st, s.len);
  for (;;) {
    while (i < s.len && pychar_classes(pychar_read(p + i, s.len - i, &size)) & PYCHAR_SPACE)
      i += size;
    if (i >= s.len)
      return l;
    if (max >= 0 && (int64_t)l->n >= max) {
      jlist_add(st, l, jsub(st, s, i, s.len - i));
      return l;
    }
    size_t start = i;
    while (i < s.len && !(pychar_classes(pychar_read(p + i, s.len - i, &size)) & PYCHAR_SPACE))
      i += size;
    jlist_add(st, l, jsub(st, s, start, i - start));
  }
}

static void reverse(struct jlist *l) {
  for (size_t i = 0; i < l->n / 2; i++) {
    struct jv keep = l->items[i];
    l->items[i] = l->items[l->n - 1 - i];
    l->items[l->n - 1 - i] = keep;
  }
}

/* Start of the last character of p[0..end). */
static size_t before(const char *p, size_t end) {
  end--;
  while (end > 0 && ((unsigned char)p[end] & 0xc0) == 0x80)
    end--;
  return end;
}

/* White space as separator, from the right. */
static struct jlist *rsplit_space(struct jst *st, struct jv s, int64_t max) {
  struct jlist *l = jlist_new(st, 0);
  const char *p = jbytes(st, s);
  size_t end = s.len, size;
  jwork_chars(st, s.len);
  for (;;) {
    while (end > 0) {
      size_t at = before(p, end);
      if (!(pychar_classes(pychar_read(p + at, end - at, &size)) & PYCHAR_SPACE))
        break;
      end = at;
    }
    if (!end)
      break;
    if (max >= 0 && (int64_t)l->n >= max) {
      jlist_add(st, l, jsub(st, s, 0, end));
      break;
    }
    size_t start = end;
    while (start > 0) {
      size_t at = before(p, start);
      if (pychar_classes(pychar_read(p + at, start - at, &size)) & PYCHAR_SPACE)
        break;
      start = at;
    }
    jlist_add(st, l, jsub(st, s, start, end - start));
    end = start;
  }
  reverse(l);
  return l;
}

const char *jfind_last(struct jst *st, const char *p, size_t len, const char *needle, size_t n) {
  for (size_t i = len >= n ? len - n + 1 : 0; i-- > 0;) {
    if (i % 64 == 0)
      jspend(st, 8);
    if (p[i] != *needle)
      continue;
    jwork_copy(st, n);
    if (!memcmp(p + i, needle, n))
      return p + i;
  }
  return NULL;
}

struct jlist *jsplit(struct jst *st, struct jv s, struct jv sep, int64_t max, bool right) {
  if (sep.type != J_STR)
    return right ? rsplit_space(st, s, max) : jsplit_space(st, s, max);
  if (!sep.len)
    jraise(st, "ValueError", "empty separator");
  struct jlist *l = jlist_new(st, 0);
  const char *p = jbytes(st, s), *needle = jbytes(st, sep);
  size_t from = 0, to = s.len;
  while (max < 0 || (int64_t)l->n < max) {
    jstep(st);
    const char *at = right ? jfind_last(st, p, to, needle, sep.len)
                           : memmem(p + from, to - from, needle, sep.len);
    if (!at)
      break;
    size_t i = (size_t)(at - p);
    if (right) {
      jlist_add(st, l, jsub(st, s, i + sep.len, to - i - sep.len));
      to = i;
    } else {
      jlist_add(st, l, jsub(st, s, from, i - from));
      from = i + sep.len;
    }
  }
  jlist_add(st, l, jsub(st, s, from, to - from));
  if (right)
    reverse(l);
  return l;
}

/* The length of a line break at p, 0 when there is none: \n \r \r\n \v \f \x1c-\x1e \x85
 * U+2028 U+2029. */
static size_t line_break(const char *p, size_t len) {
  size_t size;
  uint32_t c = pychar_read(p, len, &size);
  if (c == '\r')
    return len > 1 && p[1] == '\n' ? 2 : 1;
  bool is = (c >= 0x0a && c <= 0x0c) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
            c == 0x2029;
  return is ? size : 0;
}

struct jlist *jsplit_lines(struct jst *st, struct jv s, bool keep) {
  struct jlist *l = jlist_new(st, 0);
  const char *p = jbytes(st, s);
  size_t from = 0;
  jspend(st, s.len / 16);
  for (size_t i = 0; i < s.len;) {
    unsigned char c = (unsigned char)p[i];
    size_t n = c >= 0x20 && c < 0x80 ? 0 : line_break(p + i, s.len - i);
    if (!n) {
      i++;
      continue;
    }
    jlist_add(st, l, jsub(st, s, from, i - from + (keep ? n : 0)));
    i += n;
    from = i;
  }
  if (from < s.len)
    jlist_add(st, l, jsub(st, s, from, s.len - from));
  return l;
}

struct jv jjoin(struct jst *st, struct jv sep, struct jlist *parts) {
  if (!parts->n)
    return jstr("", 0);
  size_t n = sep.len ? parts->n * 2 - 1 : parts->n;
  struct jv *all = jalloc(st, n * sizeof *all);
  for (size_t i = 0, k = 0; i < parts->n; i++) {
    if (i && sep.len)
      all[k++] = sep;
    all[k++] = parts->items[i];
  }
  return jplain(jconcat_all(st, n, all));
}

/* Python puts `new` before every character and at the end when `old` is empty. */
static struct jv insert_between(struct jst *st, struct jv s, struct jv new, int64_t count) {
  const char *p = jbytes(st, s);
  struct buf *b = jbuf_open(st);
  size_t i = 0, size;
  for (; count != 0; count--) {
    jput_str(st, b, new);
    if (i >= s.len)
      break;
    pychar_read(p + i, s.len - i, &size);
    jput(st, b, p + i, size);
    i += size;
  }
  jput(st, b, p + i, s.len - i);
  return jbuf_close(st, b);
}

struct jv jreplace(struct jst *st, struct jv s, struct jv old, struct jv new, int64_t count) {
  if (count == 0)
    return jplain(s);
  if (!old.len)
    return insert_between(st, s, new, count);
  const char *p = jbytes(st, s), *needle = jbytes(st, old);
  const char *at = memmem(p, s.len, needle, old.len);
  if (!at)
    return jplain(s);
  struct buf *b = jbuf_open(st);
  size_t from = 0;
  for (; at && count != 0; count--) {
    size_t i = (size_t)(at - p);
    jstep(st);
    jput(st, b, p + from, i - from);
    jput_str(st, b, new);
    from = i + old.len;
    at = memmem(p + from, s.len - from, needle, old.len);
  }
  jput(st, b, p + from, s.len - from);
  return jbuf_close(st, b);
}
