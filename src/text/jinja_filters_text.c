/* jinja_filters_text.c: filters from text to text. */
#include "text/jinja.h"

#include "text/pychar.h"

#include <string.h>

static struct jv like(struct jv self, struct jv s) {
  return self.type == J_STR && self.flags & JF_MARKUP ? jmarkup(s) : jplain(s);
}

static void no_args(struct jst *st, const char *who, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, who, "", args, unused);
}

static struct jv f_upper(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "do_upper", args);
  return like(v, jcase(st, jsoft_str(st, v), JCASE_UPPER));
}

static struct jv f_lower(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "do_lower", args);
  return like(v, jcase(st, jsoft_str(st, v), JCASE_LOWER));
}

static struct jv f_capitalize(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "do_capitalize", args);
  return like(v, jcase(st, jsoft_str(st, v), JCASE_CAPITALIZE));
}

/* Whether c separates words for |title: [-\s({\[<] */
static bool begins_word(uint32_t c) {
  return (c < 128 && c && strchr("-({[<", (int)c)) || pychar_classes(c) & PYCHAR_SPACE;
}

static struct jv f_title(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "do_title", args);
  struct jv s = jplain(jsoft_str(st, v));
  const char *p = jbytes(st, s);
  struct buf *b = jbuf_open(st);
  size_t size;
  for (size_t i = 0; i < s.len;) {
    bool separator = begins_word(pychar_read(p + i, s.len - i, &size));
    size_t end = i + size, first = size;
    while (end < s.len && begins_word(pychar_read(p + end, s.len - end, &size)) == separator)
      end += size;
    jput_str(st, b, jcase(st, jsub(st, s, i, first), JCASE_UPPER));
    jput_str(st, b, jcase(st, jsub(st, s, i + first, end - i - first), JCASE_LOWER));
    i = end;
  }
  return jbuf_close(st, b);
}

static struct jv f_trim(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv chars;
  jbind(st, "do_trim", "?chars", args, &chars);
  if (chars.type != J_MISSING && chars.type != J_NONE && chars.type != J_STR)
    jraise(st, "TypeError", "strip arg must be None or str");
  return like(v, jstrip(st, jsoft_str(st, v), chars, true, true));
}

static struct jv f_replace(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[3];
  jbind(st, "do_replace", "old,new,?count", args, a);
  int64_t count = a[2].type == J_MISSING || a[2].type == J_NONE ? -1 : jto_index(st, a[2]);
  if (!st->autoescape)
    return jreplace(st, jto_str(st, v), jto_str(st, a[0]), jto_str(st, a[1]), count);
  bool markup_old = a[0].type == J_STR && a[0].flags & JF_MARKUP;
  bool markup_new = a[1].type == J_STR && a[1].flags & JF_MARKUP;
  bool markup = v.type == J_STR && v.flags & JF_MARKUP;
  struct jv s = markup_old || (markup_new && !markup) ? jescape(st, v) : jsoft_str(st, v);
  struct jv new = jsoft_str(st, a[1]);
  if (s.flags & JF_MARKUP)
    new = jescape(st, new);
  return like(s, jreplace(st, s, jsoft_str(st, a[0]), new, count));
}

static struct jv f_center(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv width;
  jbind(st, "do_center", "?width", args, &width);
  if (width.type == J_MISSING)
    width = jint(80);
  struct jv fill = {.type = J_MISSING};
  return like(v, jascii_center(st, jsoft_str(st, v), width, fill, '^'));
}

static struct jv f_format(struct jst *st, struct jv v, const struct jargs *args) {
  if (args->n && args->n_kw)
    jraise(st, "FilterArgumentError",
           "can't handle positional and keyword arguments at the same time");
  struct jv values = jtuple(st, args->n, args->pos);
  if (args->n_kw) {
    struct jdict *d = jdict_new(st);
    for (size_t i = 0; i < args->n_kw; i++)
      jdict_set(st, d, jstr(args->kw[i].name, args->kw[i].len), args->kw[i].value);
    values = jdict_value(d);
  }
  return jpercent(st, jsoft_str(st, v), values);
}

/* s + "\n" as Python's += has it for what |indent is given. */
static struct jv with_newline(struct jst *st, struct jv v) {
  return jbinary(st, OP_ADD, v, jcstr("\n"));
}

static struct jv f_indent(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[3];
  jbind(st, "do_indent", "?width,first,blank", args, a);
  struct jv indent = a[0].type == J_MISSING ? jint(4) : a[0];
  if (indent.type != J_STR)
    indent = jbinary(st, OP_MUL, jcstr(" "), indent);
  if (v.type == J_STR && v.flags & JF_MARKUP) /* Markup + str escapes the str */
    indent = jescape(st, jmarkup(indent));
  struct jlist *lines = jsplit_lines(st, with_newline(st, v), false);
  bool blank = a[2].type != J_MISSING && jtruth(st, a[2]);
  struct buf *b = jbuf_open(st);
  if (a[1].type != J_MISSING && jtruth(st, a[1]))
    jput_str(st, b, indent);
  for (size_t i = 0; i < lines->n; i++) {
    if (i)
      jputc(st, b, '\n');
    if (i && (blank || lines->items[i].len))
      jput_str(st, b, indent);
    jput_str(st, b, lines->items[i]);
  }
  return like(v, jbuf_close(st, b));
}

static struct jv f_truncate(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[4];
  jbind(st, "do_truncate", "?length,killwords,end,leeway", args, a);
  int64_t length = a[0].type == J_MISSING ? 255 : jto_index(st, a[0]);
  struct jv end = a[2].type == J_MISSING ? jcstr("...") : a[2];
  int64_t leeway = a[3].type == J_MISSING || a[3].type == J_NONE ? 5 : jto_index(st, a[3]);
  int64_t end_len = (int64_t)jlen_or_raise(st, end);
  if (length < end_len)
    jraise(st, "AssertionError", "expected length >= %lld, got %lld", (long long)end_len,
           (long long)length);
  if (leeway < 0)
    jraise(st, "AssertionError", "expected leeway >= 0, got %lld", (long long)leeway);
  if ((int64_t)jlen_or_raise(st, v) <= length + leeway)
    return v;
  struct jv cut = jslice_of(st, v, jnone(), jint(length - end_len), jnone());
  if (a[1].type == J_MISSING || !jtruth(st, a[1])) {
    if (cut.type != J_STR)
      jraise(st, "AttributeError", "'%s' object has no attribute 'rsplit'", jtype_name(cut));
    cut = like(cut, jsplit(st, cut, jcstr(" "), 1, true)->items[0]);
  }
  return jbinary(st, OP_ADD, cut, end);
}

static struct jv f_wordcount(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "do_wordcount", args);
  struct jv s = jsoft_str(st, v);
  const char *p = jbytes(st, s);
  int64_t n = 0;
  bool inside = false;
  jwork_chars(st, s.len);
  size_t size;
  for (size_t i = 0; i < s.len; i += size) {
    bool word = pychar_classes(pychar_read(p + i, s.len - i, &size)) & PYCHAR_WORD;
    n += word && !inside;
    inside = word;
  }
  return jint(n);
}

static void put_hex(struct jst *st, struct buf *b, unsigned char c) {
  static const char digits[] = "0123456789ABCDEF";
  jput(st, b, (char[]){'%', digits[c >> 4], digits[c & 15]}, 3);
}

static void quote_url(struct jst *st, struct buf *b, struct jv v, bool query) {
  struct jv s = jto_str(st, v);
  const char *p = jbytes(st, s);
  for (size_t i = 0; i < s.len; i++) {
    unsigned char c = (unsigned char)p[i];
    bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (letter || (c && strchr("_.-~", c)) || (c == '/' && !query))
      jputc(st, b, (char)c);
    else if (c == ' ' && query)
      jputc(st, b, '+');
    else
      put_hex(st, b, c);
  }
}

static struct jv f_urlencode(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "do_urlencode", args);
  struct buf *b = jbuf_open(st);
  struct jiter *it = v.type == J_STR ? NULL : jiter_try(st, v);
  if (!it) {
    quote_url(st, b, v, false);
    return jbuf_close(st, b);
  }
  struct jv item;
  for (size_t i = 0; jnext(st, it, &item); i++) {
    struct jv pair[2] = {item};
    if (jis_dict(v)) {
      jdict_at(st, v, i, &pair[0], &pair[1]);
    } else {
      struct jlist *two = jcollect(st, item);
      if (two->n != 2)
        jraise(st, "ValueError", "%s values to unpack (expected 2)",
               two->n < 2 ? "not enough" : "too many");
      memcpy(pair, two->items, sizeof pair);
    }
    if (i)
      jputc(st, b, '&');
    quote_url(st, b, pair[0], true);
    jputc(st, b, '=');
    quote_url(st, b, pair[1], true);
  }
  return jbuf_close(st, b);
}

const struct jfilter_def jfilters_text[] = {
    {"upper", f_upper},       {"lower", f_lower},         {"capitalize", f_capitalize},
    {"title", f_title},       {"trim", f_trim},           {"replace", f_replace},
    {"center", f_center},     {"format", f_format},       {"indent", f_indent},
    {"truncate", f_truncate}, {"wordcount", f_wordcount}, {"urlencode", f_urlencode},
    {"wordwrap", jwordwrap},  {"pprint", jpprint},        {NULL, NULL}};
