/* jinja_wrap.c: wordwrap and pprint, after Python's textwrap and pprint. */
#include "text/jinja.h"

#include "text/pychar.h"

#include <string.h>

/* ---- wordwrap */

/* textwrap's own idea of white space is ASCII only. */
static bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

static uint32_t char_at(const char *p, size_t len, size_t i) {
  size_t size;
  return i < len ? pychar_read(p + i, len - i, &size) : 0;
}

static uint32_t char_before(const char *p, size_t i, size_t *start) {
  *start = i;
  if (!i)
    return 0;
  size_t at = i - 1, size;
  while (at > 0 && ((unsigned char)p[at] & 0xc0) == 0x80)
    at--;
  *start = at;
  return pychar_read(p + at, i - at, &size);
}

static bool is_word(uint32_t c) {
  return c && pychar_classes(c) & PYCHAR_WORD;
}

static bool is_letter(uint32_t c) { /* [^\d\W] */
  return is_word(c) && !(pychar_classes(c) & PYCHAR_DECIMAL);
}

static bool is_word_punct(uint32_t c) { /* [\w!"'&.,?] */
  return is_word(c) || (c && c < 128 && strchr("!\"'&.,?", (int)c));
}

/* Dashes, two and more, at i, with a word character behind; their number, else 0. */
static size_t em_dash(const char *p, size_t len, size_t i) {
  size_t n = 0;
  while (i + n < len && p[i + n] == '-')
    n++;
  return n >= 2 && is_word(char_at(p, len, i + n)) ? n : 0;
}

/* Whether a word may be broken behind the hyphen at i. */
static bool breaks_at_hyphen(const char *p, size_t len, size_t i) {
  size_t b1, b2, size;
  uint32_t c1 = char_before(p, i, &b1), c2 = char_before(p, b1, &b2);
  bool before = is_letter(c1) && is_letter(c2);
  if (!before && is_letter(c1) && c2 == '-') {
    size_t b3;
    before = is_letter(char_before(p, b2, &b3));
  }
  if (!before || i + 1 >= len)
    return false;
  uint32_t next = pychar_read(p + i + 1, len - i - 1, &size);
  size_t then = i + 1 + size;
  if (then < len && p[then] == '-')
    then++;
  return is_letter(next) && is_letter(char_at(p, len, then));
}

/* textwrap's chunks: blanks, em-dashes, words and halves of hyphenated words. */
static size_t chunk_end(const char *p, size_t len, size_t i, bool hyphens) {
  size_t e = i, size;
  if (is_blank(p[i])) {
    while (e < len && is_blank(p[e]))
      e++;
    return e;
  }
  if (!hyphens) {
    while (e < len && !is_blank(p[e]))
      e++;
    return e;
  }
  size_t b;
  size_t dash = is_word_punct(char_before(p, i, &b)) ? em_dash(p, len, i) : 0;
  if (dash)
    return i + dash;
  for (;;) {
    pychar_read(p + e, len - e, &size);
    e += size;
    if (e > i + 0 && e < len && p[e] == '-' && breaks_at_hyphen(p, len, e))
      return e + 1;
    if (e >= len || is_blank(p[e]))
      return e;
    if (is_word_punct(char_before(p, e, &b)) && em_dash(p, len, e))
      return e;
  }
}

struct wrapper {
  struct jst *st;
  int64_t width;
  bool long_words, hyphens;
  struct jlist *chunks; /* what is left, the next one last */
  struct jlist *line;
  int64_t used;
  struct jlist *out;
};

static bool all_blank(struct jst *st, struct jv s) {
  const char *p = jbytes(st, s);
  return jis_class(st, s, "isspace") || (!s.len && p);
}

/* Takes as much of a chunk longer than the line as fits. */
static void take_long(struct wrapper *w) {
  struct jst *st = w->st;
  struct jv chunk = w->chunks->items[w->chunks->n - 1];
  int64_t room = w->width < 1 ? 1 : w->width - w->used;
  if (!w->long_words) {
    if (!w->line->n) {
      jlist_add(st, w->line, chunk);
      w->used += (int64_t)jchars(st, chunk);
      w->chunks->n--;
    }
    return;
  }
  size_t end = (size_t)room;
  if (w->hyphens && (int64_t)jchars(st, chunk) > room) {
    const char *p = jbytes(st, chunk);
    size_t limit = joffset(st, chunk, (size_t)room), at = limit;
    while (at > 0 && p[at - 1] != '-')
      at--;
    bool other = false;
    for (size_t i = 0; at > 1 && i < at - 1; i++)
      other = other || p[i] != '-';
    if (other)
      end = jchars(st, jsub(st, chunk, 0, at));
  }
  size_t cut = joffset(st, chunk, end);
  jlist_add(st, w->line, jsub(st, chunk, 0, cut));
  w->used += (int64_t)end;
  w->chunks->items[w->chunks->n - 1] = jsub(st, chunk, cut, chunk.len - cut);
}

static void wrap_line(struct wrapper *w) {
  struct jst *st = w->st;
  while (w->chunks->n) {
    jstep(st);
    w->line = jlist_new(st, 4);
    w->used = 0;
    if (w->out->n && all_blank(st, w->chunks->items[w->chunks->n - 1]))
      w->chunks->n--;
    while (w->chunks->n) {
      struct jv chunk = w->chunks->items[w->chunks->n - 1];
      int64_t len = (int64_t)jchars(st, chunk);
      if (w->used + len > w->width)
        break;
      jlist_add(st, w->line, chunk);
      w->used += len;
      w->chunks->n--;
    }
    if (w->chunks->n && (int64_t)jchars(st, w->chunks->items[w->chunks->n - 1]) > w->width)
      take_long(w);
    if (w->line->n && all_blank(st, w->line->items[w->line->n - 1]))
      w->line->n--;
    if (w->line->n)
      jlist_add(st, w->out, jjoin(st, jstr("", 0), w->line));
  }
}

static struct jlist *wrap_paragraph(struct wrapper *w, struct jv text) {
  struct jlist *all = jlist_new(w->st, 8);
  jspend(w->st, text.len);
  const char *p = jbytes(w->st, text);
  for (size_t i = 0; i < text.len;) {
    size_t e = chunk_end(p, text.len, i, w->hyphens);
    jlist_add(w->st, all, jsub(w->st, text, i, e - i));
    i = e;
  }
  w->chunks = jlist_new(w->st, all->n);
  for (size_t i = all->n; i-- > 0;)
    jlist_add(w->st, w->chunks, all->items[i]);
  w->out = jlist_new(w->st, 4);
  wrap_line(w);
  return w->out;
}

struct jv jwordwrap(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[4];
  jbind(st, "do_wordwrap", "?width,break_long_words,wrapstring,break_on_hyphens", args, a);
  if (v.type == J_UNDEF)
    jundef_fail(st, v);
  if (v.type != J_STR)
    jraise(st, "AttributeError", "'%s' object has no attribute 'splitlines'", jtype_name(v));
  struct wrapper w = {.st = st, .width = a[0].type == J_MISSING ? 79 : jto_index(st, a[0])};
  w.long_words = a[1].type == J_MISSING || jtruth(st, a[1]);
  w.hyphens = a[3].type == J_MISSING || jtruth(st, a[3]);
  struct jv with = a[2].type == J_MISSING || a[2].type == J_NONE ? jcstr("\n") : a[2];
  jneed_str(st, with, "wrapstring");
  struct jlist *lines = jsplit_lines(st, v, false), *out = jlist_new(st, lines->n);
  for (size_t i = 0; i < lines->n; i++) {
    if (w.width <= 0)
      jraise(st, "ValueError", "invalid width %lld (must be > 0)", (long long)w.width);
    jlist_add(st, out, jjoin(st, with, wrap_paragraph(&w, lines->items[i])));
  }
  return jjoin(st, with, out);
}

/* ---- pprint */

#define PPRINT_WIDTH 80

struct printer {
  struct jst *st;
  struct buf *b;
};

/* Dictionaries sorted by key, all the way down; what cannot be compared keeps its place, by type
 * name, as pprint's _safe_key orders it. */
static struct jv ordered(struct jst *st, struct jv v) {
  if (!jis_dict(v)) {
    if (!jis_seq(v))
      return v;
    struct jlist *l = jlist_new(st, jseq_len(v));
    jenter(st);
    for (size_t i = 0; i < jseq_len(v); i++) {
      jstep(st);
      jlist_add(st, l, ordered(st, jseq_at(st, v, i)));
    }
    jleave(st);
    return (struct jv){.type = v.type == J_TUPLE ? J_TUPLE : J_LIST, .u.list = l};
  }
  size_t n = jdict_len(v);
  struct jdict *d = jdict_new(st);
  struct jv *keys = jalloc(st, (n + 1) * sizeof *keys), value;
  for (size_t i = 0; i < n; i++) {
    jdict_at(st, v, i, &keys[i], NULL);
    size_t k = i;
    struct jv key = keys[i];
    for (; k > 0; k--) {
      struct jv other = keys[k - 1];
      jstep(st);
      bool like = (jis_number(key) && jis_number(other)) ||
                  (key.type == J_STR && other.type == J_STR) ||
                  (key.type == J_TUPLE && other.type == J_TUPLE);
      bool less =
          like ? jcompare(st, CMP_LT, key, other) : strcmp(jtype_name(key), jtype_name(other)) < 0;
      if (!less)
        break;
      keys[k] = other;
    }
    keys[k] = key;
  }
  jenter(st);
  for (size_t i = 0; i < n; i++) {
    value = jdict_get(st, v, keys[i]);
    jdict_set(st, d, keys[i], ordered(st, value));
  }
  jleave(st);
  return jdict_value(d);
}

static void put(struct printer *p, struct jv v, size_t indent, size_t allowance);

static void new_line(struct printer *p, size_t indent) {
  jputs(p->st, p->b, ",\n");
  jput_repeat(p->st, p->b, ' ', indent);
}

static void put_items(struct printer *p, struct jv v, size_t indent, size_t allowance) {
  size_t n = jseq_len(v);
  bool tuple = v.type == J_TUPLE;
  jputc(p->st, p->b, tuple ? '(' : '[');
  for (size_t i = 0; i < n; i++) {
    if (i)
      new_line(p, indent + 1);
    put(p, jseq_at(p->st, v, i), indent + 1, i + 1 < n ? 1 : allowance + (tuple && n == 1 ? 2 : 1));
  }
  jputs(p->st, p->b, tuple ? n == 1 ? ",)" : ")" : "]");
}

static void put_pairs(struct printer *p, struct jv v, size_t indent, size_t allowance) {
  size_t n = jdict_len(v);
  jputc(p->st, p->b, '{');
  for (size_t i = 0; i < n; i++) {
    struct jv key, value;
    jdict_at(p->st, v, i, &key, &value);
    if (i)
      new_line(p, indent + 1);
    struct jv text = jrepr(p->st, key);
    jput_str(p->st, p->b, text);
    jputs(p->st, p->b, ": ");
    put(p, value, indent + 1 + jchars(p->st, text) + 2, i + 1 < n ? 1 : allowance + 1);
  }
  jputc(p->st, p->b, '}');
}

/* The reprs of a line's parts, each short enough to stand alone. */
static void split_line(struct printer *p, struct jv line, struct jlist *chunks, bool last,
                       size_t indent, size_t allowance) {
  struct jst *st = p->st;
  size_t width = PPRINT_WIDTH > indent ? PPRINT_WIDTH - indent : 0, most = width;
  struct jv whole = jrepr(st, line);
  if (last)
    most = most > allowance ? most - allowance : 0;
  if (jchars(st, whole) <= most) {
    jlist_add(st, chunks, whole);
    return;
  }
  const char *s = jbytes(st, line);
  struct jv current = jstr("", 0);
  size_t size;
  for (size_t i = 0; i < line.len;) { /* words with the blanks behind them: \S*\s* */
    size_t e = i;
    while (e < line.len &&
           !(pychar_classes(pychar_read(s + e, line.len - e, &size)) & PYCHAR_SPACE))
      e += size;
    while (e < line.len && pychar_classes(pychar_read(s + e, line.len - e, &size)) & PYCHAR_SPACE)
      e += size;
    struct jv candidate = jconcat(st, current, jsub(st, line, i, e - i));
    size_t room = width;
    if (e == line.len && last)
      room = room > allowance ? room - allowance : 0;
    if (jchars(st, jrepr(st, candidate)) > room) {
      if (current.len)
        jlist_add(st, chunks, jrepr(st, current));
      current = jsub(st, line, i, e - i);
    } else {
      current = candidate;
    }
    i = e;
  }
  if (current.len)
    jlist_add(st, chunks, jrepr(st, current));
}

static void put_str(struct printer *p, struct jv v, size_t indent, size_t allowance, bool top) {
  struct jst *st = p->st;
  struct jlist *lines = jsplit_lines(st, jplain(v), true), *chunks = jlist_new(st, 4);
  if (top) {
    indent++;
    allowance++;
  }
  for (size_t i = 0; i < lines->n; i++)
    split_line(p, lines->items[i], chunks, i + 1 == lines->n, indent, allowance);
  if (chunks->n == 1) {
    jput_str(st, p->b, jrepr(st, jplain(v)));
    return;
  }
  if (top)
    jputc(st, p->b, '(');
  for (size_t i = 0; i < chunks->n; i++) {
    if (i) {
      jputc(st, p->b, '\n');
      jput_repeat(st, p->b, ' ', indent);
    }
    jput_str(st, p->b, chunks->items[i]);
  }
  if (top)
    jputc(st, p->b, ')');
}

static bool top_level(const struct printer *p) {
  return p->b->len == 0;
}

static void put(struct printer *p, struct jv v, size_t indent, size_t allowance) {
  struct jst *st = p->st;
  jenter(st);
  bool top = top_level(p);
  struct jv text = jrepr(st, v);
  size_t width = PPRINT_WIDTH > indent + allowance ? PPRINT_WIDTH - indent - allowance : 0;
  bool fits = jchars(st, text) <= width;
  if (!fits && jis_dict(v) && jdict_len(v))
    put_pairs(p, v, indent, allowance);
  else if (!fits && jis_seq(v) && jseq_len(v))
    put_items(p, v, indent, allowance);
  else if (!fits && v.type == J_STR && v.len && !(v.flags & JF_MARKUP))
    put_str(p, v, indent, allowance, top);
  else
    jput_str(st, p->b, text);
  jleave(st);
}

struct jv jpprint(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, "do_pprint", "", args, unused);
  struct printer p = {st, jbuf_open(st)};
  put(&p, ordered(st, v), 0, 0);
  return jbuf_close(st, p.b);
}
