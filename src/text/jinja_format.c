/* jinja_format.c: format specifications of Python ("{:>5}", "{:,.2f}") and str.format. */
#include "text/jinja.h"

#include "text/pychar.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void jpad(struct jst *st, struct buf *b, const char *s, size_t len, size_t chars,
          const struct jspec *spec, char default_align) {
  char align = spec->align ? spec->align : default_align;
  size_t room = spec->width > (int64_t)chars ? (size_t)spec->width - chars : 0;
  size_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
  uint32_t fill = spec->fill ? spec->fill : ' ';
  jput_repeat(st, b, fill, left);
  jput(st, b, s, len);
  jput_repeat(st, b, fill, room - left);
}

/* ---- reading a specification */

static bool is_align(char c) {
  return c == '<' || c == '>' || c == '=' || c == '^';
}

static const char *read_number(struct jst *st, const char *p, const char *end, int64_t *out) {
  if (p >= end || !isdigit((unsigned char)*p))
    return p;
  *out = 0;
  while (p < end && isdigit((unsigned char)*p)) {
    if (*out > INT64_MAX / 10 - 9)
      jraise(st, "ValueError", "Too many decimal digits in format string");
    *out = *out * 10 + (*p++ - '0');
  }
  if (*out > (int64_t)JSTR_MAX)
    jlimit(st, "a string becomes too long");
  return p;
}

static void read_spec(struct jst *st, const char *p, size_t len, const char *type_name,
                      struct jspec *spec) {
  const char *end = p + len;
  size_t size = 0;
  *spec = (struct jspec){.width = -1, .precision = -1};
  uint32_t c = len ? pychar_read(p, len, &size) : 0;
  if (len > size && is_align(p[size])) {
    spec->fill = c;
    spec->align = p[size];
    p += size + 1;
  } else if (len && is_align(*p)) {
    spec->align = *p++;
  }
  if (p < end && (*p == '+' || *p == '-' || *p == ' '))
    spec->sign = *p++;
  if (p < end && *p == 'z') {
    spec->minus_zero = true;
    p++;
  }
  if (p < end && *p == '#') {
    spec->alternate = true;
    p++;
  }
  if (p < end && *p == '0') {
    spec->zero = true;
    if (!spec->fill)
      spec->fill = '0';
    if (!spec->align && strcmp(type_name, "str") != 0)
      spec->align = '=';
    p++;
  }
  p = read_number(st, p, end, &spec->width);
  if (p < end && (*p == ',' || *p == '_'))
    spec->group = *p++;
  if (p < end && (*p == ',' || *p == '_'))
    jraise(st, "ValueError",
           *p == spec->group ? "Cannot specify '%c' with '%c'."
                             : "Cannot specify both ',' and '_'.",
           *p, *p);
  if (p < end && *p == '.') {
    const char *digits = p + 1;
    p = read_number(st, digits, end, &spec->precision);
    if (p == digits)
      jraise(st, "ValueError", "Format specifier missing precision");
  }
  if (end - p > 1)
    jraise(st, "ValueError", "Invalid format specifier");
  if (p < end)
    spec->type = *p;
}

/* ---- numbers */

/* Digits with a separator after every `every` of them, from the right; at least `least` characters,
 * filled with zeros. */
static void put_grouped(struct jst *st, struct buf *b, const char *digits, size_t n, char group,
                        size_t every, size_t least) {
  size_t total = n;
  if (least > st->memory_left || least > JSTR_MAX)
    jlimit(st, "a string becomes too long");
  jspend(st, least / 4);
  if (group) {
    while (total + (total - 1) / every < least)
      total++;
  } else if (total < least) {
    total = least;
  }
  jspend(st, total / 4);
  for (size_t i = 0; i < total; i++) {
    size_t left = total - i;
    if (group && i && left % every == 0)
      jputc(st, b, group);
    jputc(st, b, left > n ? '0' : digits[n - left]);
  }
}

/* sign, prefix, grouped digits and the rest, padded. */
static void put_number(struct jst *st, struct buf *b, const struct jspec *spec, bool negative,
                       const char *prefix, const char *digits, size_t n, const char *rest,
                       size_t every) {
  char head[8] = "";
  size_t head_len = 0;
  if (negative)
    head[head_len++] = '-';
  else if (spec->sign == '+' || spec->sign == ' ')
    head[head_len++] = spec->sign;
  for (const char *p = prefix; *p; p++)
    head[head_len++] = *p;
  size_t rest_len = strlen(rest), least = 0, fixed = head_len + rest_len;
  bool zeros = spec->align == '=' && spec->fill == '0';
  if (zeros && spec->width > (int64_t)fixed)
    least = (size_t)spec->width - fixed;
  struct buf *body = jbuf_open(st);
  put_grouped(st, body, digits, n, n ? spec->group : 0, every, least);
  jput(st, body, rest, rest_len);
  if (spec->align == '=') {
    jput(st, b, head, head_len);
    struct jspec tail = *spec;
    tail.width -= (int64_t)head_len;
    jpad(st, b, body->data ? body->data : "", body->len, body->len, &tail, '>');
  } else {
    struct buf *all = jbuf_open(st);
    jput(st, all, head, head_len);
    jput(st, all, body->data ? body->data : "", body->len);
    jpad(st, b, all->data ? all->data : "", all->len, all->len, spec, '>');
    jbuf_drop(st, all);
  }
  jbuf_drop(st, body);
}

static void format_int(struct jst *st, struct buf *b, struct jv v, const struct jspec *spec) {
  const struct bigint *n = jto_big(st, v);
  char type = spec->type ? spec->type : 'd';
  if (spec->precision >= 0)
    jraise(st, "ValueError", "Precision not allowed in integer format specifier");
  if (type == 'c') {
    int64_t c;
    if (spec->sign || spec->alternate)
      jraise(st, "ValueError", "%s not allowed with integer format specifier 'c'",
             spec->sign ? "Sign" : "Alternate form (#)");
    if (!bigint_to_int(n, &c) || c < 0 || c > 0x10ffff)
      jraise(st, "OverflowError", "%%c arg not in range(0x110000)");
    char bytes[4];
    jpad(st, b, bytes, pychar_write(bytes, (uint32_t)c), 1, spec, '<');
    return;
  }
  int base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
  if (spec->group == ',' && base != 10)
    jraise(st, "ValueError", "Cannot specify ',' with '%c'.", type);
  struct buf *digits = jbuf_open(st);
  jspend(st, (uint64_t)n->n * n->n / 2);
  bigint_print(digits, n, base);
  bool negative = digits->data[0] == '-';
  for (size_t i = 0; type == 'X' && i < digits->len; i++)
    digits->data[i] = (char)toupper((unsigned char)digits->data[i]);
  char prefix[3] = {'0', type, 0};
  put_number(st, b, spec, negative, spec->alternate && base != 10 ? prefix : "",
             digits->data + negative, digits->len - negative, "", base == 10 ? 3 : 4);
  jbuf_drop(st, digits);
}

char *jprint_double(struct jst *st, const char *format, int64_t precision, double d) {
  if (precision > 1000000)
    jlimit(st, "a precision of %lld digits is too large", (long long)precision);
  jspend(st, precision > 0 ? (uint64_t)precision : 0);
  int n = snprintf(NULL, 0, format, (int)precision, d);
  char *text = jalloc(st, (size_t)n + 1);
  snprintf(text, (size_t)n + 1, format, (int)precision, d);
  char *point = text + strspn(text, "-0123456789"); /* a script may have set another locale */
  size_t bytes = strcspn(point, "0123456789eE");
  if (bytes && *point != '.' && isfinite(d)) {
    *point = '.';
    memmove(point + 1, point + bytes, strlen(point + bytes) + 1);
  }
  return text;
}

static void print_double(struct jst *st, struct buf *b, const char *format, int64_t precision,
                         double d) {
  jputs(st, b, jprint_double(st, format, precision, d));
}

/* 'g' that keeps one digit behind the point: what a precision without a type means. */
static void print_general(struct jst *st, struct buf *b, int64_t precision, double d) {
  int64_t p = precision ? precision : 1;
  struct buf *e = jbuf_open(st);
  print_double(st, e, "%.*e", p - 1, d);
  const char *mark = strchr(e->data, 'e');
  int exponent = mark ? atoi(mark + 1) : 0;
  if (d != 0 && (exponent < -4 || exponent + 1 > p - 1)) {
    size_t digits = (size_t)(mark - e->data);
    while (memchr(e->data, '.', digits) &&
           (e->data[digits - 1] == '0' || e->data[digits - 1] == '.')) {
      bool point = e->data[digits - 1] == '.';
      digits--;
      if (point)
        break;
    }
    jput(st, b, e->data, digits);
    jputs(st, b, mark);
  } else {
    size_t start = b->len;
    print_double(st, b, "%.*f", p - 1 - exponent < 1 ? 1 : p - 1 - exponent, d);
    while (b->len > start + 3 && b->data[b->len - 1] == '0' && b->data[b->len - 2] != '.')
      b->data[--b->len] = '\0';
  }
  jbuf_drop(st, e);
}

static void print_magnitude(struct jst *st, struct buf *b, const struct jspec *spec, double d) {
  char type = spec->type == 'n' ? 'g' : spec->type;
  int64_t precision = spec->precision < 0 ? 6 : spec->precision;
  if (isnan(d) || isinf(d)) {
    bool upper = type == 'E' || type == 'F' || type == 'G';
    jputs(st, b, isnan(d) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf");
    if (type == '%')
      jputc(st, b, '%');
  } else if (!type && spec->precision < 0) {
    jrepr_float(b, d);
  } else if (!type) {
    print_general(st, b, precision, d);
  } else if (type == '%') {
    print_double(st, b, spec->alternate ? "%#.*f" : "%.*f", precision, d * 100);
    jputc(st, b, '%');
  } else {
    char format[8];
    snprintf(format, sizeof format, "%%%s.*%c", spec->alternate ? "#" : "",
             type == 'F' ? 'f' : type);
    print_double(st, b, format, precision, d);
  }
}

static void format_float(struct jst *st, struct buf *b, double d, const struct jspec *spec) {
  struct buf *text = jbuf_open(st);
  bool negative = signbit(d) && !isnan(d);
  print_magnitude(st, text, spec, fabs(d));
  if (negative && spec->minus_zero && strspn(text->data, "0.%") == text->len)
    negative = false;
  size_t n = strspn(text->data, "0123456789");
  put_number(st, b, spec, negative, "", text->data, n, text->data + n, 3);
  jbuf_drop(st, text);
}

NORETURN static void unknown_code(struct jst *st, char type, const char *name) {
  jraise(st, "ValueError", "Unknown format code '%c' for object of type '%s'", type, name);
}

void jformat_number(struct jst *st, struct buf *b, struct jv v, const struct jspec *spec) {
  bool integer = v.type != J_FLOAT;
  if (integer && (!spec->type || strchr("bcdoxXn", spec->type))) {
    if (spec->minus_zero)
      jraise(st, "ValueError",
             "Negative zero coercion (z) not allowed in format specifier with integer presentation "
             "type");
    format_int(st, b, v, spec);
    return;
  }
  if (spec->type && !strchr("eEfFgGn%", spec->type))
    unknown_code(st, spec->type, jtype_name(v));
  format_float(st, b, jto_double(st, v), spec);
}

static void format_str(struct jst *st, struct buf *b, struct jv v, const struct jspec *spec) {
  if (spec->sign)
    jraise(st, "ValueError", "Sign not allowed in string format specifier");
  if (spec->alternate)
    jraise(st, "ValueError", "Alternate form (#) not allowed in string format specifier");
  if (spec->minus_zero)
    jraise(st, "ValueError", "Negative zero coercion (z) not allowed in string format specifier");
  if (spec->group)
    jraise(st, "ValueError", "Cannot specify '%c' with 's'.", spec->group);
  if (spec->align == '=')
    jraise(st, "ValueError", "'=' alignment not allowed in string format specifier");
  if (spec->type && spec->type != 's')
    unknown_code(st, spec->type, "str");
  if (spec->precision >= 0)
    v = jsub(st, v, 0, joffset(st, v, (size_t)spec->precision));
  jpad(st, b, jbytes(st, v), v.len, jchars(st, v), spec, '<');
}

void jformat_value(struct jst *st, struct buf *b, struct jv v, const char *spec, size_t len) {
  struct jspec s;
  if (!len) {
    jput_str(st, b, jto_str(st, v));
    return;
  }
  if (v.type != J_STR && !jis_number(v))
    jraise(st, "TypeError", "unsupported format string passed to %s.__format__", jtype_name(v));
  read_spec(st, spec, len, v.type == J_STR ? "str" : "number", &s);
  if (v.type == J_STR)
    format_str(st, b, v, &s);
  else
    jformat_number(st, b, v, &s);
}

/* ---- str.format */

struct formatter {
  struct jst *st;
  const struct jargs *args;
  struct jv mapping;
  bool markup, numbered, automatic;
  int64_t next;
};

static struct jv keyword(struct formatter *f, const char *name, size_t len) {
  struct jv key = jstr(name, len);
  if (f->mapping.type != J_MISSING) {
    struct jv v = jgetitem(f->st, f->mapping, key);
    if (v.type == J_UNDEF)
      jraise(f->st, "KeyError", "%s", jrepr_c(f->st, key));
    return v;
  }
  for (size_t i = 0; i < f->args->n_kw; i++)
    if (f->args->kw[i].len == len && !memcmp(f->args->kw[i].name, name, len))
      return f->args->kw[i].value;
  jraise(f->st, "KeyError", "%s", jrepr_c(f->st, key));
}

static bool all_digits(const char *s, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (!isdigit((unsigned char)s[i]))
      return false;
  return len > 0 && len < 10;
}

static int64_t digits_value(const char *s, size_t len) {
  int64_t n = 0;
  for (size_t i = 0; i < len; i++)
    n = n * 10 + (s[i] - '0');
  return n;
}

/* The value a field begins with; `whole` when its name is all there is. Only a whole name that is
 * empty counts on by itself. */
static struct jv first_value(struct formatter *f, const char *name, size_t len, bool whole) {
  bool empty = len == 0 && whole;
  if (!empty && !all_digits(name, len))
    return keyword(f, name, len);
  if (empty ? f->numbered : whole && f->automatic)
    jraise(f->st, "ValueError",
           "cannot switch from manual field specification to automatic field numbering");
  f->automatic = f->automatic || empty;
  f->numbered = f->numbered || (whole && !empty);
  int64_t i = empty ? f->next++ : digits_value(name, len);
  if ((size_t)i >= f->args->n)
    jraise(f->st, "IndexError", "Replacement index %lld out of range for positional args tuple",
           (long long)i);
  return f->args->pos[i];
}

static struct jv field_value(struct formatter *f, const char *p, const char *end) {
  const char *q = p;
  while (q < end && *q != '.' && *q != '[')
    q++;
  struct jv v = first_value(f, p, (size_t)(q - p), q == end);
  while (q < end) {
    const char *name = q + 1, *stop = name;
    if (*q == '.') {
      while (stop < end && *stop != '.' && *stop != '[')
        stop++;
      if (stop == name)
        jraise(f->st, "ValueError", "Empty attribute in format string");
      v = jgetattr(f->st, v, jstr(name, (size_t)(stop - name)));
      q = stop;
      continue;
    }
    if (*q != '[')
      jraise(f->st, "ValueError", "Only '.' or '[' may follow ']' in format field specifier");
    stop = memchr(name, ']', (size_t)(end - name));
    if (!stop)
      jraise(f->st, "ValueError", "Missing ']' in format string");
    if (stop == name)
      jraise(f->st, "ValueError", "Empty attribute in format string");
    size_t len = (size_t)(stop - name);
    v = jgetitem(f->st, v, all_digits(name, len) ? jint(digits_value(name, len)) : jstr(name, len));
    q = stop + 1;
  }
  return v;
}

static void put_format(struct formatter *f, struct buf *b, const char *p, const char *end,
                       int depth);

struct jv jascii_repr(struct jst *st, struct jv v) {
  struct jv r = jrepr(st, v);
  const char *p = jbytes(st, r);
  struct buf *b = jbuf_open(st);
  size_t size;
  for (size_t i = 0; i < r.len; i += size) {
    uint32_t c = pychar_read(p + i, r.len - i, &size);
    if (c < 0x80)
      jputc(st, b, (char)c);
    else {
      char text[16];
      snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
      jputs(st, b, text);
    }
  }
  return jbuf_close(st, b);
}

static void put_field(struct formatter *f, struct buf *b, struct jv v, const char *spec,
                      size_t len) {
  struct jst *st = f->st;
  if (!f->markup) {
    jformat_value(st, b, v, spec, len);
    return;
  }
  if (v.type == J_STR && v.flags & JF_MARKUP) {
    if (len)
      jraise(st, "ValueError", "Unsupported format specification for Markup.");
    jput_str(st, b, v);
    return;
  }
  struct buf *plain = jbuf_open(st);
  jformat_value(st, plain, v, spec, len);
  struct jv text = jbuf_close(st, plain);
  jput_str(st, b, jescape(st, text));
}

/* The end of the field that begins at p, behind its brace. */
static const char *field_end(struct jst *st, const char *p, const char *end) {
  int open = 1;
  for (; p < end; p++) {
    if (*p == '{')
      open++;
    else if (*p == '}' && --open == 0)
      return p;
    else if (*p == '[' && open == 1) {
      jwork_copy(st, (size_t)(end - p));
      const char *close = memchr(p, ']', (size_t)(end - p));
      if (close && !memchr(p, '}', (size_t)(close - p)))
        p = close;
    }
  }
  jraise(st, "ValueError", "expected '}' before end of string");
}

static void put_replacement(struct formatter *f, struct buf *b, const char *p, const char *end,
                            int depth) {
  const char *q = p;
  bool bracket = false;
  for (; q < end; q++) {
    bracket = *q == '[' ? true : *q == ']' ? false : bracket;
    if (!bracket && (*q == ':' || *q == '!'))
      break;
    if (*q == '{')
      jraise(f->st, "ValueError", "unexpected '{' in field name");
  }
  struct jv v = field_value(f, p, q);
  if (q < end && *q == '!') {
    if (q + 1 == end || (q + 2 < end && q[2] != ':'))
      jraise(f->st, "ValueError",
             q + 1 == end ? "end of string while looking for conversion specifier"
                          : "expected ':' after conversion specifier");
    char c = q[1];
    if (c != 'r' && c != 's' && c != 'a')
      jraise(f->st, "ValueError", "Unknown conversion specifier %c", c);
    v = c == 'r' ? jrepr(f->st, v) : c == 's' ? jto_str(f->st, v) : jascii_repr(f->st, v);
    q += 2;
  }
  struct buf *spec = jbuf_open(f->st);
  if (q < end)
    put_format(f, spec, q + 1, end, depth - 1);
  struct jv text = jbuf_close(f->st, spec);
  put_field(f, b, v, jbytes(f->st, text), text.len);
}

static void put_format(struct formatter *f, struct buf *b, const char *p, const char *end,
                       int depth) {
  if (depth < 0)
    jraise(f->st, "ValueError", "Max string recursion exceeded");
  while (p < end) {
    const char *q = p;
    while (q < end && *q != '{' && *q != '}')
      q++;
    jput(f->st, b, p, (size_t)(q - p));
    if (q == end)
      return;
    if (q + 1 < end && q[1] == *q) {
      jputc(f->st, b, *q);
      p = q + 2;
      continue;
    }
    if (*q == '}')
      jraise(f->st, "ValueError", "Single '}' encountered in format string");
    if (q + 1 == end)
      jraise(f->st, "ValueError", "Single '{' encountered in format string");
    const char *close = field_end(f->st, q + 1, end);
    put_replacement(f, b, q + 1, close, depth);
    p = close + 1;
  }
}

struct jv jformat(struct jst *st, struct jv format, const struct jargs *args, struct jv mapping) {
  struct formatter f = {
      .st = st, .args = args, .mapping = mapping, .markup = format.flags & JF_MARKUP};
  struct buf *b = jbuf_open(st);
  const char *p = jbytes(st, format);
  put_format(&f, b, p, p + format.len, 2);
  struct jv text = jbuf_close(st, b);
  return f.markup ? jmarkup(text) : text;
}
