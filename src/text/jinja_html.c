/* jinja_html.c: the filters about HTML: escaping, Markup, tags, attributes and links. */
#include "text/jinja.h"

#include "text/pychar.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void no_args(struct jst *st, const char *who, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, who, "", args, unused);
}

static struct jv f_escape(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "escape", args);
  return jescape(st, v);
}

static struct jv f_forceescape(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "do_forceescape", args);
  return jescape(st, jto_str(st, v));
}

static struct jv f_safe(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "do_mark_safe", args);
  return jmarkup(jto_str(st, v));
}

/* ---- striptags */

/* Everything from `open` to `close` goes, again and again. */
static struct jv strip_between(struct jst *st, struct jv s, const char *open, const char *close) {
  const char *p = jbytes(st, s), *end = p + s.len;
  struct buf *b = jbuf_open(st);
  for (;;) {
    const char *from = memmem(p, (size_t)(end - p), open, strlen(open));
    const char *to = from ? memmem(from, (size_t)(end - from), close, strlen(close)) : NULL;
    if (!to)
      break;
    jput(st, b, p, (size_t)(from - p));
    p = to + strlen(close);
  }
  jput(st, b, p, (size_t)(end - p));
  return jbuf_close(st, b);
}

static const struct {
  const char *name;
  uint32_t c;
} ENTITIES[] = {
    {"amp", '&'},       {"lt", '<'},       {"gt", '>'},       {"quot", '"'},     {"apos", '\''},
    {"nbsp", 0xa0},     {"copy", 0xa9},    {"reg", 0xae},     {"laquo", 0xab},   {"raquo", 0xbb},
    {"middot", 0xb7},   {"deg", 0xb0},     {"times", 0xd7},   {"ndash", 0x2013}, {"mdash", 0x2014},
    {"lsquo", 0x2018},  {"rsquo", 0x2019}, {"ldquo", 0x201c}, {"rdquo", 0x201d}, {"bull", 0x2022},
    {"hellip", 0x2026}, {"euro", 0x20ac},  {"trade", 0x2122}, {"larr", 0x2190},  {"rarr", 0x2192}};

/* A numeric reference behind "&#"; returns what is behind it. */
static const char *put_numeric(struct jst *st, struct buf *b, const char *p, const char *end) {
  bool hex = p < end && (*p == 'x' || *p == 'X');
  const char *digits = p + hex, *q = digits;
  uint32_t c = 0;
  for (; q < end && (hex ? isxdigit((unsigned char)*q) : isdigit((unsigned char)*q)); q++) {
    uint32_t digit =
        isdigit((unsigned char)*q) ? (uint32_t)(*q - '0') : (uint32_t)((*q | 32) - 'a' + 10);
    c = c > 0x10ffff ? c : c * (hex ? 16 : 10) + digit;
  }
  if (q == digits)
    return NULL;
  if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
    c = 0xfffd;
  else if ((c >= 0x80 && c < 0xa0) || c == 0x0d)
    jraise(st, "ValueError", "the character reference &#%u; is not supported", c);
  jput_char(st, b, c);
  return q < end && *q == ';' ? q + 1 : q;
}

static const char *put_named(struct jst *st, struct buf *b, const char *p, const char *end) {
  const char *q = p;
  while (q < end && isalnum((unsigned char)*q))
    q++;
  if (q == p)
    return NULL;
  for (size_t i = 0; i < sizeof ENTITIES / sizeof *ENTITIES; i++)
    if (strlen(ENTITIES[i].name) == (size_t)(q - p) && q < end && *q == ';' &&
        !memcmp(ENTITIES[i].name, p, (size_t)(q - p))) {
      jput_char(st, b, ENTITIES[i].c);
      return q + 1;
    }
  if (q < end && *q == ';')
    jraise(st, "ValueError", "the named character reference &%.*s; is not supported",
           (int)(q - p > 40 ? 40 : q - p), p);
  return NULL;
}

static struct jv unescape(struct jst *st, struct jv s) {
  const char *p = jbytes(st, s), *end = p + s.len;
  struct buf *b = jbuf_open(st);
  while (p < end) {
    const char *behind = NULL;
    if (*p == '&' && p + 1 < end)
      behind = p[1] == '#' ? put_numeric(st, b, p + 2, end) : put_named(st, b, p + 1, end);
    if (behind) {
      p = behind;
      continue;
    }
    jputc(st, b, *p++);
  }
  return jbuf_close(st, b);
}

static struct jv f_striptags(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "do_striptags", args);
  struct jv s = strip_between(st, jto_str(st, v), "<!--", "-->");
  s = strip_between(st, s, "<", ">");
  s = jjoin(st, jcstr(" "), jsplit_space(st, s, -1));
  return unescape(st, s);
}

/* ---- attributes */

static struct jv f_xmlattr(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv autospace;
  jbind(st, "do_xmlattr", "?autospace", args, &autospace);
  if (v.type == J_UNDEF)
    jundef_fail(st, v);
  if (!jis_dict(v))
    jraise(st, "AttributeError", "'%s' object has no attribute 'items'", jtype_name(v));
  struct buf *b = jbuf_open(st);
  bool space = autospace.type == J_MISSING || jtruth(st, autospace);
  for (size_t i = 0; i < jdict_len(v); i++) {
    struct jv key, value;
    jdict_at(st, v, i, &key, &value);
    if (value.type == J_NONE || value.type == J_UNDEF)
      continue;
    if (key.type != J_STR)
      jraise(st, "TypeError", "expected string or bytes-like object, got '%s'", jtype_name(key));
    const char *p = jbytes(st, key);
    for (size_t k = 0; k < key.len; k++)
      if (p[k] && strchr(" \t\n\r\f\v/>=", p[k]))
        jraise(st, "ValueError", "Invalid character in attribute name: %s", jrepr_c(st, key));
    if (b->len || space)
      jputc(st, b, ' ');
    jput_str(st, b, jescape(st, key));
    jputs(st, b, "=\"");
    jput_str(st, b, jescape(st, value));
    jputc(st, b, '"');
  }
  struct jv s = jbuf_close(st, b);
  return st->autoescape ? jmarkup(s) : s;
}

/* ---- links */

struct links {
  struct jst *st;
  struct buf *b;
  struct jv rel, target; /* written attributes, may be empty */
  int64_t limit;
  struct jlist *schemes;
};

static bool is_host_char(char c) {
  return isalnum((unsigned char)c) || c == '-' || c == '%' || c == '_' || (unsigned char)c >= 0x80;
}

/* Jinja2's pattern of a link: a scheme and some host, or www., or a name of a known top domain,
 * and then a port, path, query or fragment. */
static bool is_link(const char *p, size_t len) {
  const char *end = p + len, *q = p;
  bool scheme = len > 7 && !strncasecmp(p, "http://", 7);
  bool secure = len > 8 && !strncasecmp(p, "https://", 8);
  bool www = len > 4 && !strncasecmp(p, "www.", 4);
  q += secure ? 8 : scheme ? 7 : 0;
  const char *host = q, *label = q, *last = NULL;
  if ((scheme || secure) && q < end && *q == '[') {
    const char *close = memchr(q, ']', (size_t)(end - q));
    if (!close)
      return false;
    q = close + 1;
  } else {
    while (q < end && (is_host_char(*q) || *q == '.')) {
      if (*q == '.') {
        if (q == label)
          return false;
        label = q + 1;
        last = label;
      }
      q++;
    }
    if (q == host || (last && q == last))
      return false;
    static const char *const tops[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
    bool known = false;
    for (size_t i = 0; last && i < sizeof tops / sizeof *tops; i++)
      known = known || ((size_t)(q - last) == strlen(tops[i]) &&
                        !strncasecmp(last, tops[i], strlen(tops[i])));
    if (!scheme && !secure && !(www && last) && !known)
      return false;
  }
  if (q < end && *q == ':' && q + 1 < end && isdigit((unsigned char)q[1])) {
    q++;
    for (int i = 0; i < 5 && q < end && isdigit((unsigned char)*q); i++)
      q++;
  }
  return q == end || *q == '/' || *q == '?' || *q == '#';
}

static bool is_word_char(const char *p, size_t len, size_t *size) {
  return pychar_classes(pychar_read(p, len, size)) & PYCHAR_WORD;
}

/* ^\S+@\w[\w.-]*\.\w+$ */
static bool is_mail(const char *p, size_t len) {
  for (size_t at = len; at-- > 1;) {
    if (p[at] != '@')
      continue;
    size_t size, i = at + 1, dot = 0;
    if (i >= len || !is_word_char(p + i, len - i, &size))
      continue;
    bool ok = true, word_behind_dot = false;
    for (i += size; i < len && ok; i += size) {
      bool word = is_word_char(p + i, len - i, &size);
      ok = word || p[i] == '.' || p[i] == '-';
      if (p[i] == '.') {
        dot = i;
        word_behind_dot = false;
      } else if (!word) {
        dot = 0;
      } else {
        word_behind_dot = true;
      }
    }
    if (ok && dot && word_behind_dot)
      return true;
  }
  return false;
}

static void put_anchor(struct links *l, const char *before, struct jv href, struct jv text,
                       bool attributes) {
  struct jst *st = l->st;
  jputs(st, l->b, "<a href=\"");
  jputs(st, l->b, before);
  jput_str(st, l->b, href);
  jputc(st, l->b, '"');
  if (attributes) {
    jput_str(st, l->b, l->rel);
    jput_str(st, l->b, l->target);
  }
  jputc(st, l->b, '>');
  jput_str(st, l->b, text);
  jputs(st, l->b, "</a>");
}

static void put_middle(struct links *l, struct jv m) {
  struct jst *st = l->st;
  const char *p = jbytes(st, m);
  if (is_link(p, m.len)) {
    struct jv text = m;
    if (l->limit >= 0 && (int64_t)jchars(st, m) > l->limit)
      text = jconcat(st, jsub(st, m, 0, joffset(st, m, (size_t)l->limit)), jcstr("..."));
    bool whole =
        (m.len >= 8 && !memcmp(p, "https://", 8)) || (m.len >= 7 && !memcmp(p, "http://", 7));
    put_anchor(l, whole ? "" : "https://", m, text, true);
    return;
  }
  if (m.len > 7 && !memcmp(p, "mailto:", 7) && is_mail(p + 7, m.len - 7)) {
    put_anchor(l, "", m, jsub(st, m, 7, m.len - 7), false);
    return;
  }
  bool www = m.len >= 4 && !memcmp(p, "www.", 4);
  if (m.len && memchr(p, '@', m.len) && !www && *p != '@' && !memchr(p, ':', m.len) &&
      is_mail(p, m.len)) {
    put_anchor(l, "mailto:", m, m, false);
    return;
  }
  for (size_t i = 0; l->schemes && i < l->schemes->n; i++) {
    struct jv scheme = jneed_str(st, l->schemes->items[i], "scheme");
    jwork_copy(st, scheme.len);
    if (m.len > scheme.len && !memcmp(p, jbytes(st, scheme), scheme.len)) {
      put_anchor(l, "", m, m, true);
      return;
    }
  }
  jput_str(st, l->b, m);
}

static size_t count_of(const char *p, size_t len, const char *what) {
  size_t n = 0;
  for (const char *at = p; (at = memmem(at, len - (size_t)(at - p), what, strlen(what))) != NULL;
       n++)
    at += strlen(what);
  return n;
}

static size_t tail_length(const char *p, size_t len) {
  size_t n = 0;
  while (n < len) {
    if (strchr(")>.,\n", p[len - n - 1]) && p[len - n - 1])
      n++;
    else if (len - n >= 4 && !memcmp(p + len - n - 4, "&gt;", 4))
      n += 4;
    else
      break;
  }
  return n;
}

static void put_word(struct links *l, struct jv word) {
  struct jst *st = l->st;
  const char *p = jbytes(st, word);
  size_t head = 0;
  while (head < word.len) {
    if (p[head] == '(' || p[head] == '<')
      head++;
    else if (word.len - head >= 4 && !memcmp(p + head, "&lt;", 4))
      head += 4;
    else
      break;
  }
  size_t tail = tail_length(p + head, word.len - head), middle = word.len - head - tail;
  static const char *const pairs[][2] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
  for (size_t i = 0; i < 3; i++) { /* closing ones that belong to the middle */
    size_t open = count_of(p + head, middle, pairs[i][0]);
    if (open <= count_of(p + head, middle, pairs[i][1]))
      continue;
    size_t moves = count_of(p + head + middle, tail, pairs[i][1]);
    for (size_t k = 0; k < (open < moves ? open : moves); k++) {
      const char *at = memmem(p + head + middle, tail, pairs[i][1], strlen(pairs[i][1]));
      size_t step = (size_t)(at - (p + head + middle)) + strlen(pairs[i][1]);
      middle += step;
      tail -= step;
    }
  }
  jput_str(st, l->b, jsub(st, word, 0, head));
  put_middle(l, jsub(st, word, head, middle));
  jput_str(st, l->b, jsub(st, word, head + middle, tail));
}

static int by_text(const void *a, const void *b) {
  const struct jv *x = a, *y = b;
  size_t n = x->len < y->len ? x->len : y->len;
  int c = memcmp(x->u.s, y->u.s, n);
  return c ? c : x->len < y->len ? -1 : x->len > y->len;
}

/* ' rel="…"' of the sorted words of rel, nofollow and noopener. */
static struct jv rel_attribute(struct jst *st, struct jv rel, bool nofollow) {
  struct jlist *words = jlist_new(st, 2);
  if (rel.type != J_MISSING && jtruth(st, rel))
    words = jsplit_space(st, jneed_str(st, rel, "rel"), -1);
  if (nofollow)
    jlist_add(st, words, jcstr("nofollow"));
  jlist_add(st, words, jcstr("noopener"));
  for (size_t i = 0; i < words->n; i++)
    words->items[i] = jstr(jbytes(st, words->items[i]), words->items[i].len);
  for (size_t i = 0; i < words->n; i++) /* sorting them */
    jwork_chars(st, words->items[i].len + 64);
  qsort(words->items, words->n, sizeof *words->items, by_text);
  struct buf *b = jbuf_open(st);
  jputs(st, b, " rel=\"");
  for (size_t i = 0; i < words->n; i++) {
    if (i && !by_text(&words->items[i], &words->items[i - 1]))
      continue;
    if (i)
      jputc(st, b, ' ');
    jput_str(st, b, jescape(st, words->items[i]));
  }
  jputc(st, b, '"');
  return jbuf_close(st, b);
}

static struct jv f_urlize(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[5];
  jbind(st, "do_urlize", "?trim_url_limit,nofollow,target,rel,extra_schemes", args, a);
  struct links l = {.st = st, .limit = -1, .target = jstr("", 0)};
  if (a[0].type != J_MISSING && a[0].type != J_NONE)
    l.limit = jto_index(st, a[0]);
  l.rel = rel_attribute(st, a[3], a[1].type != J_MISSING && jtruth(st, a[1]));
  if (a[2].type != J_MISSING && jtruth(st, a[2]))
    l.target = jconcat_all(
        st, 3, (struct jv[]){jcstr(" target=\""), jplain(jescape(st, a[2])), jcstr("\"")});
  if (a[4].type != J_MISSING && jtruth(st, a[4]))
    l.schemes = jcollect(st, a[4]);
  struct jv s = jplain(jescape(st, v));
  const char *p = jbytes(st, s);
  jspend(st, s.len);
  l.b = jbuf_open(st);
  size_t size;
  for (size_t i = 0; i < s.len;) {
    bool space = pychar_classes(pychar_read(p + i, s.len - i, &size)) & PYCHAR_SPACE;
    size_t end = i + size;
    while (end < s.len &&
           !(pychar_classes(pychar_read(p + end, s.len - end, &size)) & PYCHAR_SPACE) == !space)
      end += size;
    if (space)
      jput(st, l.b, p + i, end - i);
    else
      put_word(&l, jsub(st, s, i, end - i));
    i = end;
  }
  struct jv r = jbuf_close(st, l.b);
  return st->autoescape ? jmarkup(r) : r;
}

const struct jfilter_def jfilters_html[] = {
    {"safe", f_safe},           {"e", f_escape},
    {"escape", f_escape},       {"forceescape", f_forceescape},
    {"striptags", f_striptags}, {"xmlattr", f_xmlattr},
    {"urlize", f_urlize},       {NULL, NULL}};
