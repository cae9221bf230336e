/* jinja_repr.c: str() and repr() of every value, and HTML escaping. */
#include "text/jinja.h"

#include "text/jinja_ast.h"
#include "text/json.h"
#include "text/pychar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *jtype_name(struct jv v) {
  static const char *const names[] = {
      [J_MISSING] = "MissingType",
      [J_UNDEF] = "Undefined",
      [J_NONE] = "NoneType",
      [J_BOOL] = "bool",
      [J_INT] = "int",
      [J_BIG] = "int",
      [J_FLOAT] = "float",
      [J_STR] = "str",
      [J_LIST] = "list",
      [J_JLIST] = "list",
      [J_TUPLE] = "tuple",
      [J_DICT] = "dict",
      [J_JDICT] = "dict",
      [J_RANGE] = "range",
      [J_VIEW] = "dict_items",
      [J_ITER] = "generator",
      [J_NS] = "Namespace",
      [J_MACRO] = "Macro",
      [J_LOOP] = "LoopContext",
      [J_FUNC] = "function",
      [J_METHOD] = "builtin_function_or_method",
      [J_CYCLER] = "Cycler",
      [J_JOINER] = "Joiner",
      [J_SELF] = "TemplateReference",
      [J_BLOCK] = "BlockReference",
      [J_SLICE] = "slice",
  };
  if (v.type == J_STR && v.flags & JF_MARKUP)
    return "Markup";
  if (v.type == J_TUPLE && v.flags & JF_NAMED)
    return "_GroupTuple";
  if (v.type == J_VIEW)
    return v.flags & JF_KEYS ? "dict_keys" : v.flags & JF_VALUES ? "dict_values" : "dict_items";
  if (v.type == J_ITER)
    return v.u.iter->name;
  if (v.type == J_FUNC && v.u.func->is_class)
    return "type";
  return names[v.type];
}

void jrepr_float(struct buf *b, double d) {
  if (isnan(d))
    buf_puts(b, "nan");
  else if (isinf(d))
    buf_puts(b, d < 0 ? "-inf" : "inf");
  else
    json_write_double(b, d);
}

static void put_quoted_char(struct jst *st, struct buf *b, uint32_t c, char quote) {
  char text[16];
  if (c == (uint32_t)(unsigned char)quote || c == '\\') {
    jputc(st, b, '\\');
    jputc(st, b, (char)c);
  } else if (c == '\n' || c == '\r' || c == '\t') {
    jputs(st, b, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
  } else if (pychar_classes(c) & PYCHAR_PRINTABLE) {
    jput_char(st, b, c);
  } else {
    snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    jputs(st, b, text);
  }
}

static void put_quoted(struct jst *st, struct buf *b, struct jv s) {
  const char *p = jbytes(st, s), *end = p + s.len;
  char quote = s.len && memchr(p, '\'', s.len) && !memchr(p, '"', s.len) ? '"' : '\'';
  if (s.flags & JF_MARKUP)
    jputs(st, b, "Markup(");
  jputc(st, b, quote);
  while (p < end) {
    const char *run = p;
    while (run < end && *run >= 0x20 && *run < 0x7f && *run != '\\' && *run != quote)
      run++;
    jput(st, b, p, (size_t)(run - p));
    p = run;
    if (p == end)
      break;
    size_t size;
    uint32_t c = pychar_read(p, (size_t)(end - p), &size);
    put_quoted_char(st, b, c, quote);
    p += size;
  }
  jputc(st, b, quote);
  if (s.flags & JF_MARKUP)
    jputc(st, b, ')');
}

static void put_repr(struct jst *st, struct buf *b, struct jv v);

static void put_seq(struct jst *st, struct buf *b, struct jv v) {
  bool tuple = v.type == J_TUPLE;
  size_t n = jseq_len(v);
  jputc(st, b, tuple ? '(' : '[');
  for (size_t i = 0; i < n; i++) {
    if (i)
      jput(st, b, ", ", 2);
    put_repr(st, b, jseq_at(st, v, i));
  }
  if (tuple && n == 1)
    jputc(st, b, ',');
  jputc(st, b, tuple ? ')' : ']');
}

static void put_dict(struct jst *st, struct buf *b, struct jv v) {
  jputc(st, b, '{');
  for (size_t i = 0; i < jdict_len(v); i++) {
    struct jv key, value;
    jdict_at(st, v, i, &key, &value);
    if (i)
      jput(st, b, ", ", 2);
    put_repr(st, b, key);
    jput(st, b, ": ", 2);
    put_repr(st, b, value);
  }
  jputc(st, b, '}');
}

static void put_view(struct jst *st, struct buf *b, struct jv v) {
  struct jv d = v.u.view->dict;
  jputs(st, b, jtype_name(v));
  jputs(st, b, "([");
  for (size_t i = 0; i < jdict_len(d); i++) {
    struct jv key, value;
    jdict_at(st, d, i, &key, &value);
    if (i)
      jput(st, b, ", ", 2);
    if (v.flags & JF_ITEMS) {
      struct jv pair[2] = {key, value};
      put_repr(st, b, jtuple(st, 2, pair));
    } else {
      put_repr(st, b, v.flags & JF_KEYS ? key : value);
    }
  }
  jputs(st, b, "])");
}

static void put_range(struct jst *st, struct buf *b, const struct jrange *r) {
  char text[96];
  if (r->step == 1)
    snprintf(text, sizeof text, "range(%lld, %lld)", (long long)r->start, (long long)r->stop);
  else
    snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start, (long long)r->stop,
             (long long)r->step);
  jputs(st, b, text);
}

/* Objects whose text has an address in Python: ours is always the same one. */
static void put_object(struct jst *st, struct buf *b, struct jv v) {
  static const char at[] = " at 0x7f0000000000>";
  if (v.type == J_METHOD) {
    jputs(st, b, "<built-in method ");
    jputs(st, b, v.u.method->def->name);
    jputs(st, b, " of ");
    jputs(st, b, jtype_name(v.u.method->self));
    jputs(st, b, " object");
  } else if (v.type == J_FUNC) {
    jputs(st, b, v.u.func->is_class ? "<class '" : "<function ");
    jputs(st, b, v.u.func->name);
    if (v.u.func->is_class) {
      jputs(st, b, "'>");
      return;
    }
  } else {
    jputc(st, b, '<');
    jputs(st, b, jtype_name(v));
    jputs(st, b, " object");
  }
  jputs(st, b, at);
}

static void put_other(struct jst *st, struct buf *b, struct jv v) {
  char text[80];
  switch (v.type) {
  case J_NS:
    jputs(st, b, "<Namespace ");
    put_dict(st, b, jdict_value(v.u.dict));
    jputc(st, b, '>');
    break;
  case J_MACRO:
    jputs(st, b, "<Macro ");
    if (v.u.macro->node->name)
      put_quoted(st, b, jstr(v.u.macro->node->name->s, v.u.macro->node->name->len));
    else
      jputs(st, b, "anonymous");
    jputc(st, b, '>');
    break;
  case J_LOOP:
    snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)v.u.loop->index0 + 1,
             (long long)jloop_length(st, v.u.loop));
    jputs(st, b, text);
    break;
  case J_SELF:
    jputs(st, b, "<TemplateReference None>");
    break;
  default:
    put_object(st, b, v);
    break;
  }
}

static void put_repr(struct jst *st, struct buf *b, struct jv v) {
  jenter(st);
  jstep(st);
  switch (v.type) {
  case J_MISSING:
  case J_UNDEF:
    jputs(st, b, "Undefined");
    break;
  case J_NONE:
    jputs(st, b, "None");
    break;
  case J_BOOL:
    jputs(st, b, v.u.b ? "True" : "False");
    break;
  case J_INT:
    buf_put_int(b, v.u.i);
    break;
  case J_BIG:
    bigint_print(b, v.u.big, 10);
    break;
  case J_FLOAT:
    jrepr_float(b, v.u.f);
    break;
  case J_STR:
    put_quoted(st, b, v);
    break;
  case J_LIST:
  case J_JLIST:
  case J_TUPLE:
    put_seq(st, b, v);
    break;
  case J_DICT:
  case J_JDICT:
    put_dict(st, b, v);
    break;
  case J_VIEW:
    put_view(st, b, v);
    break;
  case J_RANGE:
    put_range(st, b, v.u.range);
    break;
  default:
    put_other(st, b, v);
    break;
  }
  jleave(st);
}

struct jv jrepr(struct jst *st, struct jv v) {
  if (v.type == J_BIG && v.u.big->n > 446) /* 4300 digits */
    jraise(st, "ValueError",
           "Exceeds the limit (4300 digits) for integer string conversion; use "
           "sys.set_int_max_str_digits() to increase the limit");
  struct buf *b = jbuf_open(st);
  put_repr(st, b, v);
  return jbuf_close(st, b);
}

const char *jrepr_c(struct jst *st, struct jv v) {
  struct jv text = jrepr(st, v);
  return jbytes(st, text); /* closed buffers end with a NUL */
}

struct jv jto_str(struct jst *st, struct jv v) {
  switch (v.type) {
  case J_STR:
    return jplain(v);
  case J_UNDEF:
  case J_MISSING:
    return jstr("", 0);
  case J_NONE:
    return jcstr("None");
  case J_BOOL:
    return jcstr(v.u.b ? "True" : "False");
  default:
    return jrepr(st, v);
  }
}

struct jv jsoft_str(struct jst *st, struct jv v) {
  return v.type == J_STR ? v : jto_str(st, v);
}

struct jv jescape(struct jst *st, struct jv v) {
  if (v.type == J_STR && v.flags & JF_MARKUP)
    return v;
  struct jv s = jto_str(st, v);
  const char *p = jbytes(st, s), *end = p + s.len;
  const char *q = p;
  jspend(st, s.len / 8);
  while (q < end && *q != '&' && *q != '<' && *q != '>' && *q != '\'' && *q != '"')
    q++;
  if (q == end)
    return jmarkup(s);
  struct buf *b = jbuf_open(st);
  for (; p < end; p++) {
    switch (*p) {
    case '&':
      jput(st, b, "&amp;", 5);
      break;
    case '<':
      jput(st, b, "&lt;", 4);
      break;
    case '>':
      jput(st, b, "&gt;", 4);
      break;
    case '\'':
      jput(st, b, "&#39;", 5);
      break;
    case '"':
      jput(st, b, "&#34;", 5);
      break;
    default:
      jputc(st, b, *p);
    }
  }
  return jmarkup(jbuf_close(st, b));
}
