/* jinja_strmeth.c: the methods of str and of markupsafe's Markup.
 *
 * Markup's methods do what str's do, escape the text they are given and return Markup. */
#include "text/jinja.h"

#include "text/pychar.h"

#include <string.h>

static struct jv like(struct jv self, struct jv s) {
  return self.flags & JF_MARKUP ? jmarkup(s) : jplain(s);
}

static struct jv list_like(struct jv self, struct jlist *l) {
  for (size_t i = 0; self.flags & JF_MARKUP && i < l->n; i++)
    l->items[i] = jmarkup(l->items[i]);
  return jlist_value(l);
}

/* Text that goes into `self`: escaped when that is Markup. */
static struct jv safe(struct jst *st, struct jv self, struct jv s) {
  return self.flags & JF_MARKUP ? jescape(st, s) : s;
}

static void no_args(struct jst *st, const char *who, const struct jargs *args) {
  struct jv unused[1];
  if (args->n)
    jraise(st, "TypeError", "str.%s() takes no arguments (%zu given)", who, args->n);
  jbind(st, who, "/", &(struct jargs){.kw = args->kw, .n_kw = args->n_kw}, unused);
}

#define CASE_METHOD(name, how)                                                                     \
  static struct jv str_##name(struct jst *st, struct jv self, const struct jargs *args) {          \
    no_args(st, #name, args);                                                                      \
    return like(self, jcase(st, self, how));                                                       \
  }
CASE_METHOD(lower, JCASE_LOWER)
CASE_METHOD(upper, JCASE_UPPER)
CASE_METHOD(title, JCASE_TITLE)
CASE_METHOD(capitalize, JCASE_CAPITALIZE)
CASE_METHOD(swapcase, JCASE_SWAP)
CASE_METHOD(casefold, JCASE_FOLD)

#define CLASS_METHOD(name)                                                                         \
  static struct jv str_##name(struct jst *st, struct jv self, const struct jargs *args) {          \
    no_args(st, #name, args);                                                                      \
    return jbool(jis_class(st, self, #name));                                                      \
  }
CLASS_METHOD(isalnum)
CLASS_METHOD(isalpha)
CLASS_METHOD(isascii)
CLASS_METHOD(isdecimal)
CLASS_METHOD(isdigit)
CLASS_METHOD(isidentifier)
CLASS_METHOD(islower)
CLASS_METHOD(isnumeric)
CLASS_METHOD(isprintable)
CLASS_METHOD(isspace)
CLASS_METHOD(istitle)
CLASS_METHOD(isupper)

static struct jv strip(struct jst *st, struct jv self, const struct jargs *args, const char *who,
                       bool left, bool right) {
  struct jv chars;
  jbind(st, who, "?chars/", args, &chars);
  if (chars.type != J_MISSING && chars.type != J_NONE && chars.type != J_STR)
    jraise(st, "TypeError", "%s arg must be None or str", who);
  return like(self, jstrip(st, self, chars, left, right));
}

static struct jv str_strip(struct jst *st, struct jv self, const struct jargs *args) {
  return strip(st, self, args, "strip", true, true);
}
static struct jv str_lstrip(struct jst *st, struct jv self, const struct jargs *args) {
  return strip(st, self, args, "lstrip", true, false);
}
static struct jv str_rstrip(struct jst *st, struct jv self, const struct jargs *args) {
  return strip(st, self, args, "rstrip", false, true);
}

static struct jv split(struct jst *st, struct jv self, const struct jargs *args, const char *who,
                       bool right) {
  struct jv a[2];
  jbind(st, who, "?sep,maxsplit", args, a);
  if (a[0].type != J_MISSING && a[0].type != J_NONE && a[0].type != J_STR)
    jraise(st, "TypeError", "must be str or None, not %s", jtype_name(a[0]));
  int64_t max = a[1].type == J_MISSING ? -1 : jto_index(st, a[1]);
  return list_like(self, jsplit(st, self, a[0], max, right));
}

static struct jv str_split(struct jst *st, struct jv self, const struct jargs *args) {
  return split(st, self, args, "split", false);
}
static struct jv str_rsplit(struct jst *st, struct jv self, const struct jargs *args) {
  return split(st, self, args, "rsplit", true);
}

static struct jv str_splitlines(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv keep;
  jbind(st, "splitlines", "?keepends", args, &keep);
  return list_like(self, jsplit_lines(st, self, keep.type != J_MISSING && jtruth(st, keep)));
}

static struct jv str_join(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv iterable;
  jbind(st, "str.join", "iterable/", args, &iterable);
  if (!jiter_try(st, iterable))
    jraise(st, "TypeError", "can only join an iterable");
  struct jlist *l = jcollect(st, iterable);
  for (size_t i = 0; i < l->n; i++) {
    if (self.flags & JF_MARKUP)
      l->items[i] = jescape(st, l->items[i]);
    else if (l->items[i].type != J_STR)
      jraise(st, "TypeError", "sequence item %zu: expected str instance, %s found", i,
             jtype_name(l->items[i]));
  }
  return like(self, jjoin(st, self, l));
}

static struct jv str_replace(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv a[3];
  bool markup = self.flags & JF_MARKUP; /* Markup is written in Python, where names are allowed */
  jbind(st, "replace", markup ? "old,new,?count" : "old,new,?count/", args, a);
  jneed_str(st, a[0], "replace() argument 1");
  if (!markup)
    jneed_str(st, a[1], "replace() argument 2");
  int64_t count = a[2].type == J_MISSING ? -1 : jto_index(st, a[2]);
  return like(self, jreplace(st, self, a[0], safe(st, self, a[1]), count));
}

/* The part of self that [start, end) of characters stands for; false when start is behind it. */
static bool window(struct jst *st, struct jv self, struct jv start, struct jv end, size_t *from,
                   size_t *to) {
  int64_t n = (int64_t)jchars(st, self), i = 0, k = n;
  if (start.type != J_MISSING && start.type != J_NONE)
    i = jto_index(st, start);
  if (end.type != J_MISSING && end.type != J_NONE)
    k = jto_index(st, end);
  i = i < 0 ? (i + n < 0 ? 0 : i + n) : i;
  k = k < 0 ? (k + n < 0 ? 0 : k + n) : k > n ? n : k;
  if (i > n || i > k)
    return false;
  *from = joffset(st, self, (size_t)i);
  *to = joffset(st, self, (size_t)k);
  return true;
}

static int64_t find(struct jst *st, struct jv self, const struct jargs *args, const char *who,
                    bool last) {
  struct jv a[3];
  size_t from, to;
  jbind(st, who, "sub,?start,end/", args, a);
  jneed_str(st, a[0], who);
  if (!window(st, self, a[1], a[2], &from, &to))
    return -1;
  const char *p = jbytes(st, self), *needle = jbytes(st, a[0]), *at = NULL;
  size_t n = a[0].len;
  if (!n)
    at = last ? p + to : p + from;
  else if (!last)
    at = memmem(p + from, to - from, needle, n);
  else
    at = jfind_last(st, p + from, to - from, needle, n);
  return at ? (int64_t)jchars(st, jsub(st, self, 0, (size_t)(at - p))) : -1;
}

static struct jv found(struct jst *st, int64_t at, bool must) {
  if (must && at < 0)
    jraise(st, "ValueError", "substring not found");
  return jint(at);
}

static struct jv str_find(struct jst *st, struct jv self, const struct jargs *args) {
  return found(st, find(st, self, args, "find", false), false);
}
static struct jv str_rfind(struct jst *st, struct jv self, const struct jargs *args) {
  return found(st, find(st, self, args, "rfind", true), false);
}
static struct jv str_index(struct jst *st, struct jv self, const struct jargs *args) {
  return found(st, find(st, self, args, "index", false), true);
}
static struct jv str_rindex(struct jst *st, struct jv self, const struct jargs *args) {
  return found(st, find(st, self, args, "rindex", true), true);
}

static struct jv str_count(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv a[3];
  size_t from, to;
  jbind(st, "count", "sub,?start,end/", args, a);
  jneed_str(st, a[0], "count() argument 1");
  if (!window(st, self, a[1], a[2], &from, &to))
    return jint(0);
  if (!a[0].len)
    return jint((int64_t)jchars(st, jsub(st, self, from, to - from)) + 1);
  const char *p = jbytes(st, self), *needle = jbytes(st, a[0]);
  int64_t n = 0;
  for (const char *at; (at = memmem(p + from, to - from, needle, a[0].len)) != NULL; n++) {
    jstep(st);
    from = (size_t)(at - p) + a[0].len;
  }
  return jint(n);
}

static bool matches(struct jst *st, struct jv self, struct jv part, size_t from, size_t to,
                    bool end) {
  jstep(st);
  if (part.len > to - from)
    return false;
  const char *at = jbytes(st, self) + (end ? to - part.len : from);
  return !part.len || !memcmp(at, jbytes(st, part), part.len);
}

static struct jv starts_or_ends(struct jst *st, struct jv self, const struct jargs *args,
                                const char *who, bool end) {
  struct jv a[3];
  size_t from, to;
  jbind(st, who, "prefix,?start,end/", args, a);
  if (a[0].type != J_STR && a[0].type != J_TUPLE)
    jraise(st, "TypeError", "%s first arg must be str or a tuple of str, not %s", who,
           jtype_name(a[0]));
  bool inside = window(st, self, a[1], a[2], &from, &to);
  if (a[0].type == J_STR)
    return jbool(inside && matches(st, self, a[0], from, to, end));
  for (size_t i = 0; i < a[0].u.list->n; i++) {
    struct jv part = a[0].u.list->items[i];
    if (part.type != J_STR)
      jraise(st, "TypeError", "tuple for %s must only contain str, not %s", who, jtype_name(part));
    if (inside && matches(st, self, part, from, to, end))
      return jbool(true);
  }
  return jbool(false);
}

static struct jv str_startswith(struct jst *st, struct jv self, const struct jargs *args) {
  return starts_or_ends(st, self, args, "startswith", false);
}
static struct jv str_endswith(struct jst *st, struct jv self, const struct jargs *args) {
  return starts_or_ends(st, self, args, "endswith", true);
}

static struct jv str_removeprefix(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv part;
  jbind(st, "str.removeprefix", "prefix/", args, &part);
  jneed_str(st, part, "removeprefix() argument");
  bool yes = matches(st, self, part, 0, self.len, false);
  return like(self, yes ? jsub(st, self, part.len, self.len - part.len) : self);
}
static struct jv str_removesuffix(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv part;
  jbind(st, "str.removesuffix", "suffix/", args, &part);
  jneed_str(st, part, "removesuffix() argument");
  bool yes = matches(st, self, part, 0, self.len, true);
  return like(self, yes ? jsub(st, self, 0, self.len - part.len) : self);
}

static struct jv partition(struct jst *st, struct jv self, const struct jargs *args,
                           const char *who, bool last) {
  struct jv sep, three[3];
  jbind(st, who, "sep/", args, &sep);
  jneed_str(st, sep, who);
  struct jlist *l = jsplit(st, self, sep, 1, last);
  bool hit = l->n == 2;
  three[0] = hit || !last ? l->items[0] : jstr("", 0);
  three[1] = hit ? sep : jstr("", 0);
  three[2] = hit ? l->items[1] : last ? l->items[0] : jstr("", 0);
  for (int i = 0; i < 3; i++)
    three[i] = like(self, three[i]);
  return jtuple(st, 3, three);
}

static struct jv str_partition(struct jst *st, struct jv self, const struct jargs *args) {
  return partition(st, self, args, "str.partition", false);
}
static struct jv str_rpartition(struct jst *st, struct jv self, const struct jargs *args) {
  return partition(st, self, args, "str.rpartition", true);
}

static struct jv pad(struct jst *st, struct jv self, const struct jargs *args, const char *who,
                     char align) {
  struct jv a[2];
  jbind(st, who, "width,?fillchar/", args, a);
  return like(self, jascii_center(st, self, a[0], a[1], align));
}

struct jv jascii_center(struct jst *st, struct jv s, struct jv width, struct jv fill, char align) {
  int64_t w = jto_index(st, width), n = (int64_t)jchars(st, s);
  uint32_t c = ' ';
  if (fill.type != J_MISSING) {
    jneed_str(st, fill, "The fill character");
    if (jchars(st, fill) != 1)
      jraise(st, "TypeError", "The fill character must be exactly one character long");
    size_t size;
    c = pychar_read(jbytes(st, fill), fill.len, &size);
  }
  int64_t room = w > n ? w - n : 0;
  int64_t left = align == '<' ? 0 : align == '>' ? room : room / 2 + (room & w & 1);
  struct buf *b = jbuf_open(st);
  jput_repeat(st, b, c, (size_t)left);
  jput_str(st, b, s);
  jput_repeat(st, b, c, (size_t)(room - left));
  return jbuf_close(st, b);
}

static struct jv str_center(struct jst *st, struct jv self, const struct jargs *args) {
  return pad(st, self, args, "center", '^');
}
static struct jv str_ljust(struct jst *st, struct jv self, const struct jargs *args) {
  return pad(st, self, args, "ljust", '<');
}
static struct jv str_rjust(struct jst *st, struct jv self, const struct jargs *args) {
  return pad(st, self, args, "rjust", '>');
}

static struct jv str_zfill(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv width;
  jbind(st, "str.zfill", "width/", args, &width);
  int64_t w = jto_index(st, width), n = (int64_t)jchars(st, self);
  const char *p = jbytes(st, self);
  size_t sign = self.len && (*p == '+' || *p == '-');
  struct buf *b = jbuf_open(st);
  jput(st, b, p, sign);
  jput_repeat(st, b, '0', w > n ? (size_t)(w - n) : 0);
  jput(st, b, p + sign, self.len - sign);
  return like(self, jbuf_close(st, b));
}

static struct jv str_expandtabs(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv size;
  jbind(st, "expandtabs", "?tabsize", args, &size);
  int64_t tab = size.type == J_MISSING ? 8 : jto_index(st, size), column = 0;
  const char *p = jbytes(st, self);
  struct buf *b = jbuf_open(st);
  for (size_t i = 0; i < self.len; i++) {
    if (p[i] == '\t') {
      int64_t n = tab > 0 ? tab - column % tab : 0;
      jput_repeat(st, b, ' ', (size_t)n);
      column += n;
      continue;
    }
    jputc(st, b, p[i]);
    column += ((unsigned char)p[i] & 0xc0) != 0x80;
    if (p[i] == '\n' || p[i] == '\r')
      column = 0;
  }
  return like(self, jbuf_close(st, b));
}

static struct jv str_translate(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv table;
  jbind(st, "str.translate", "table/", args, &table);
  const char *p = jbytes(st, self);
  struct buf *b = jbuf_open(st);
  size_t size;
  for (size_t i = 0; i < self.len; i += size) {
    uint32_t c = pychar_read(p + i, self.len - i, &size);
    struct jv to = jgetitem(st, table, jint(c));
    if (to.type == J_UNDEF)
      jput(st, b, p + i, size);
    else if (to.type == J_STR)
      jput_str(st, b, to);
    else if (to.type == J_INT && to.u.i >= 0 && to.u.i <= 0x10ffff)
      jput_char(st, b, (uint32_t)to.u.i);
    else if (to.type != J_NONE)
      jraise(st, "TypeError", "character mapping must return integer, None or str");
  }
  return like(self, jbuf_close(st, b));
}

static struct jv str_format(struct jst *st, struct jv self, const struct jargs *args) {
  return jformat(st, self, args, (struct jv){.type = J_MISSING});
}

static struct jv str_format_map(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv mapping;
  jbind(st, "format_map", "mapping/", args, &mapping);
  return jformat(st, self, &(struct jargs){0}, mapping);
}

static struct jv str_encode(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self, (void)args;
  jraise(st, "TypeError", "bytes are not supported: text cannot be encoded within a template");
}

static struct jv str_maketrans(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self;
  struct jv a[3];
  jbind(st, "maketrans", "x,?y,z/", args, a);
  struct jdict *d = jdict_new(st);
  if (a[1].type == J_MISSING) {
    if (!jis_dict(a[0]))
      jraise(st, "TypeError", "if you give only one argument to maketrans it must be a dict");
    for (size_t i = 0; i < jdict_len(a[0]); i++) {
      struct jv key, value;
      size_t size;
      jdict_at(st, a[0], i, &key, &value);
      if (key.type == J_STR && jchars(st, key) != 1)
        jraise(st, "ValueError", "string keys in translate table must be of length 1");
      if (key.type == J_STR)
        key = jint(pychar_read(jbytes(st, key), key.len, &size));
      jdict_set(st, d, key, value);
    }
    return jdict_value(d);
  }
  jneed_str(st, a[0], "maketrans() argument 1");
  jneed_str(st, a[1], "maketrans() argument 2");
  if (jchars(st, a[0]) != jchars(st, a[1]))
    jraise(st, "ValueError", "the first two maketrans arguments must have equal length");
  const char *p = jbytes(st, a[0]), *q = jbytes(st, a[1]);
  size_t n, m;
  for (size_t i = 0, k = 0; i < a[0].len; i += n, k += m) {
    uint32_t from = pychar_read(p + i, a[0].len - i, &n);
    jdict_set(st, d, jint(from), jint(pychar_read(q + k, a[1].len - k, &m)));
  }
  const char *gone = a[2].type == J_STR ? jbytes(st, a[2]) : "";
  for (size_t i = 0; a[2].type == J_STR && i < a[2].len; i += n)
    jdict_set(st, d, jint(pychar_read(gone + i, a[2].len - i, &n)), jnone());
  return jdict_value(d);
}

static struct jv filter_method(struct jst *st, struct jv v, const char *filter,
                               const struct jargs *args) {
  struct jv unused[1];
  jbind(st, filter, "", args, unused);
  return jfilter_find(filter, strlen(filter))->call(st, v, args);
}

static struct jv markup_striptags(struct jst *st, struct jv self, const struct jargs *args) {
  return filter_method(st, self, "striptags", args);
}

static struct jv markup_escape(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self;
  struct jv v;
  jbind(st, "Markup.escape", "s", args, &v);
  return jescape(st, v);
}

const struct jmethod_def jstr_methods[] = {{"strip", str_strip},
                                           {"split", str_split},
                                           {"lstrip", str_lstrip},
                                           {"rstrip", str_rstrip},
                                           {"startswith", str_startswith},
                                           {"endswith", str_endswith},
                                           {"replace", str_replace},
                                           {"join", str_join},
                                           {"lower", str_lower},
                                           {"upper", str_upper},
                                           {"title", str_title},
                                           {"capitalize", str_capitalize},
                                           {"casefold", str_casefold},
                                           {"center", str_center},
                                           {"count", str_count},
                                           {"encode", str_encode},
                                           {"expandtabs", str_expandtabs},
                                           {"find", str_find},
                                           {"format", str_format},
                                           {"format_map", str_format_map},
                                           {"index", str_index},
                                           {"isalnum", str_isalnum},
                                           {"isalpha", str_isalpha},
                                           {"isascii", str_isascii},
                                           {"isdecimal", str_isdecimal},
                                           {"isdigit", str_isdigit},
                                           {"isidentifier", str_isidentifier},
                                           {"islower", str_islower},
                                           {"isnumeric", str_isnumeric},
                                           {"isprintable", str_isprintable},
                                           {"isspace", str_isspace},
                                           {"istitle", str_istitle},
                                           {"isupper", str_isupper},
                                           {"ljust", str_ljust},
                                           {"maketrans", str_maketrans},
                                           {"partition", str_partition},
                                           {"removeprefix", str_removeprefix},
                                           {"removesuffix", str_removesuffix},
                                           {"rfind", str_rfind},
                                           {"rindex", str_rindex},
                                           {"rjust", str_rjust},
                                           {"rpartition", str_rpartition},
                                           {"rsplit", str_rsplit},
                                           {"splitlines", str_splitlines},
                                           {"swapcase", str_swapcase},
                                           {"translate", str_translate},
                                           {"zfill", str_zfill},
                                           {"escape", markup_escape},
                                           {"striptags", markup_striptags},
                                           {NULL, NULL}};
