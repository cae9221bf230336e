/* jinja_percent.c: "..." % values, as Python's str formats with its older notation. */
#include "text/jinja.h"

#include "text/pychar.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

struct percent {
  struct jst *st;
  const char *start, *p, *end;
  struct jv args;
  bool tuple, mapping, markup;
  size_t used;
};

static struct jv next_value(struct percent *f) {
  size_t n = f->tuple ? f->args.u.list->n : 1;
  if (f->used >= n)
    jraise(f->st, "TypeError", "not enough arguments for format string");
  f->used++;
  return f->tuple ? f->args.u.list->items[f->used - 1] : f->args;
}

static void need_more(struct percent *f) {
  if (f->p >= f->end)
    jraise(f->st, "ValueError", "incomplete format");
}

/* "(name)" behind the per cent sign; J_MISSING when there is none. */
static struct jv named_value(struct percent *f) {
  if (f->p >= f->end || *f->p != '(')
    return (struct jv){.type = J_MISSING};
  const char *name = ++f->p;
  int open = 1;
  if (!f->mapping)
    jraise(f->st, "TypeError", "format requires a mapping");
  for (; f->p < f->end && open; f->p++)
    open += *f->p == '(' ? 1 : *f->p == ')' ? -1 : 0;
  if (open)
    jraise(f->st, "ValueError", "incomplete format key");
  struct jv key = jstr(name, (size_t)(f->p - 1 - name));
  if (f->args.type == J_UNDEF)
    jundef_fail(f->st, f->args);
  if (!jis_dict(f->args))
    jraise(f->st, "TypeError", "list indices must be integers or slices, not str");
  struct jv v = jdict_get(f->st, f->args, key);
  if (v.type == J_MISSING)
    jraise(f->st, "KeyError", "%s", jrepr_c(f->st, key));
  return v;
}

static int64_t read_star_or_digits(struct percent *f, struct jspec *spec, bool width) {
  int64_t n = 0;
  if (f->p < f->end && *f->p == '*') {
    f->p++;
    struct jv v = next_value(f);
    if (!jis_int(v))
      jraise(f->st, "TypeError", "* wants int");
    n = jto_index(f->st, v);
    if (n < 0 && width) {
      spec->align = '<';
      n = n == INT64_MIN ? INT64_MAX : -n;
    }
    n = n < 0 ? 0 : n;
  } else {
    for (; f->p < f->end && isdigit((unsigned char)*f->p); f->p++)
      n = n > (int64_t)JSTR_MAX ? n : n * 10 + (*f->p - '0');
  }
  if (n > (int64_t)JSTR_MAX)
    jlimit(f->st, "a string becomes too long");
  return n;
}

static void read_flags(struct percent *f, struct jspec *spec) {
  *spec = (struct jspec){.width = -1, .precision = -1};
  for (; f->p < f->end && strchr("-+ #0", *f->p) && *f->p; f->p++) {
    if (*f->p == '-')
      spec->align = '<';
    else if (*f->p == '#')
      spec->alternate = true;
    else if (*f->p == '0')
      spec->zero = true;
    else if (spec->sign != '+')
      spec->sign = *f->p;
  }
  if (f->p < f->end && (*f->p == '*' || isdigit((unsigned char)*f->p)))
    spec->width = read_star_or_digits(f, spec, true);
  if (f->p < f->end && *f->p == '.') {
    f->p++;
    spec->precision = read_star_or_digits(f, spec, false);
  }
  while (f->p < f->end && strchr("hlL", *f->p))
    f->p++;
  need_more(f);
}

static void put_text(struct percent *f, struct buf *b, struct jv s, const struct jspec *spec) {
  if (spec->precision >= 0)
    s = jsub(f->st, s, 0, joffset(f->st, s, (size_t)spec->precision));
  jpad(f->st, b, jbytes(f->st, s), s.len, jchars(f->st, s), spec, '>');
}

static struct jv as_text(struct percent *f, struct jv v, char type) {
  if (type == 's')
    return f->markup ? jescape(f->st, v) : jto_str(f->st, v);
  struct jv s = type == 'a' ? jascii_repr(f->st, v) : jrepr(f->st, v);
  return f->markup ? jescape(f->st, s) : s;
}

static void put_char(struct percent *f, struct buf *b, struct jv v, const struct jspec *spec) {
  char bytes[4];
  if (v.type == J_STR && jchars(f->st, v) == 1) {
    jpad(f->st, b, jbytes(f->st, v), v.len, 1, spec, '>');
    return;
  }
  if (!jis_int(v))
    jraise(f->st, "TypeError", "%%c requires int or char");
  int64_t c = jto_index(f->st, v);
  if (c < 0 || c > 0x10ffff)
    jraise(f->st, "OverflowError", "%%c arg not in range(0x110000)");
  jpad(f->st, b, bytes, pychar_write(bytes, (uint32_t)c), 1, spec, '>');
}

static struct jv need_integer(struct percent *f, struct jv v, char type) {
  bool decimal = type == 'd' || type == 'i' || type == 'u';
  if (v.type == J_FLOAT && decimal) {
    if (!isfinite(v.u.f))
      jraise(f->st, isnan(v.u.f) ? "ValueError" : "OverflowError",
             "cannot convert float %s to integer", isnan(v.u.f) ? "NaN" : "infinity");
    return jbig(bigint_from_double(&f->st->big_memory, v.u.f));
  }
  if (v.type == J_UNDEF)
    jundef_fail(f->st, v);
  if (!jis_int(v))
    jraise(f->st, "TypeError",
           decimal ? "%%%c format: a real number is required, not %s"
                   : "%%%c format: an integer is required, not %s",
           type, jtype_name(v));
  return v;
}

/* %d and its kin: a precision is a least number of digits. */
static void put_integer(struct percent *f, struct buf *b, struct jv v, struct jspec *spec,
                        char type) {
  struct jst *st = f->st;
  v = need_integer(f, v, type);
  int base = type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
  struct buf *digits = jbuf_open(st), *body = jbuf_open(st);
  const struct bigint *number = jto_big(st, v);
  jspend(st, (uint64_t)number->n * number->n / 2);
  bigint_print(digits, number, base);
  bool negative = digits->data[0] == '-';
  const char *p = digits->data + negative;
  size_t n = digits->len - negative;
  for (size_t i = 0; type == 'X' && i < digits->len; i++)
    digits->data[i] = (char)toupper((unsigned char)digits->data[i]);
  if (negative)
    jputc(st, body, '-');
  else if (spec->sign)
    jputc(st, body, spec->sign);
  if (spec->alternate && base != 10) {
    jputc(st, body, '0');
    jputc(st, body, type);
  }
  size_t zeros = spec->precision > (int64_t)n ? (size_t)spec->precision - n : 0;
  if (spec->zero && spec->align != '<' && spec->width > (int64_t)(body->len + n + zeros))
    zeros = (size_t)spec->width - body->len - n;
  jput_repeat(st, body, '0', zeros);
  jput(st, body, p, n);
  jpad(st, b, body->data, body->len, body->len, spec, '>');
  jbuf_drop(st, body);
  jbuf_drop(st, digits);
}

static void put_float(struct percent *f, struct buf *b, struct jv v, struct jspec *spec,
                      char type) {
  double d;
  if (v.type == J_UNDEF)
    jundef_fail(f->st, v);
  if (f->markup && v.type == J_STR && jread_float(jbytes(f->st, v), v.len, &d))
    v = jfloat(d);
  if (!jis_number(v))
    jraise(f->st, "TypeError", "must be real number, not %s", jtype_name(v));
  if (spec->zero && spec->align != '<') {
    spec->fill = '0';
    spec->align = '=';
  }
  spec->type = type;
  jformat_number(f->st, b, jfloat(jto_double(f->st, v)), spec);
}

static void put_conversion(struct percent *f, struct buf *b) {
  struct jspec spec;
  struct jv named = named_value(f);
  read_flags(f, &spec);
  char type = *f->p++;
  if (type == '%') {
    jputc(f->st, b, '%');
    return;
  }
  struct jv v = named.type != J_MISSING ? named : next_value(f);
  switch (type) {
  case 's':
  case 'r':
  case 'a':
    put_text(f, b, as_text(f, v, type), &spec);
    break;
  case 'c':
    put_char(f, b, v, &spec);
    break;
  case 'd':
  case 'i':
  case 'u':
  case 'o':
  case 'x':
  case 'X':
    put_integer(f, b, v, &spec, type);
    break;
  case 'e':
  case 'E':
  case 'f':
  case 'F':
  case 'g':
  case 'G':
    put_float(f, b, v, &spec, type);
    break;
  default: {
    size_t size;
    uint32_t c = pychar_read(f->p - 1, (size_t)(f->end - f->p + 1), &size);
    struct jv before = jstr(f->start, (size_t)(f->p - 1 - f->start));
    jraise(f->st, "ValueError", "unsupported format character '%.*s' (0x%x) at index %zu",
           (int)size, f->p - 1, c, jchars(f->st, before));
  }
  }
}

/* Types Python lets stand for a mapping here: they have __getitem__. */
static bool is_mapping(struct jv v) {
  return jis_dict(v) || jis_list(v) || v.type == J_UNDEF || v.type == J_RANGE;
}

struct jv jpercent(struct jst *st, struct jv format, struct jv args) {
  const char *p = jbytes(st, format);
  struct percent f = {.st = st,
                      .start = p,
                      .p = p,
                      .end = p + format.len,
                      .args = args,
                      .tuple = args.type == J_TUPLE,
                      .mapping = is_mapping(args),
                      .markup = format.flags & JF_MARKUP};
  struct buf *b = jbuf_open(st);
  while (f.p < f.end) {
    const char *q = memchr(f.p, '%', (size_t)(f.end - f.p));
    q = q ? q : f.end;
    jput(st, b, f.p, (size_t)(q - f.p));
    f.p = q;
    if (f.p == f.end)
      break;
    f.p++;
    need_more(&f);
    put_conversion(&f, b);
  }
  size_t given = f.tuple ? args.u.list->n : 1;
  if (!f.mapping && f.used < given)
    jraise(st, "TypeError", "not all arguments converted during string formatting");
  struct jv text = jbuf_close(st, b);
  return f.markup ? jmarkup(text) : text;
}
