/* jinja_filters.c: finding and calling filters; those about numbers and single values. */
#include "text/jinja.h"

#include <math.h>
#include <string.h>

static const struct jfilter_def *find_in(const struct jfilter_def *f, const char *name,
                                         size_t len) {
  for (; f->name; f++)
    if (strlen(f->name) == len && !memcmp(f->name, name, len))
      return f;
  return NULL;
}

const struct jfilter_def *jfilter_find(const char *name, size_t len) {
  static const struct jfilter_def *const tables[] = {jfilters_misc, jfilters_text, jfilters_seq,
                                                     jfilters_html};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    const struct jfilter_def *f = find_in(tables[i], name, len);
    if (f)
      return f;
  }
  return NULL;
}

static const struct jfilter_def *find_called(struct jst *st, struct jv name, bool filter) {
  const struct jfilter_def *f = NULL;
  if (name.type == J_STR)
    f = filter ? jfilter_find(jbytes(st, name), name.len) : jtest_find(jbytes(st, name), name.len);
  if (!f)
    jraise(st, "TemplateRuntimeError", "No %s named %s.", filter ? "filter" : "test",
           jrepr_c(st, name));
  return f;
}

struct jv jcall_filter(struct jst *st, struct jv name, struct jv v, const struct jargs *args) {
  return find_called(st, name, true)->call(st, v, args);
}

bool jcall_test(struct jst *st, struct jv name, struct jv v, const struct jargs *args) {
  return jtruth(st, find_called(st, name, false)->call(st, v, args));
}

/* ---- numbers */

static struct jv f_abs(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, "abs", "/", args, unused);
  if (v.type == J_FLOAT)
    return jfloat(fabs(v.u.f));
  if (!jis_int(v))
    jraise(st, "TypeError", "bad operand type for abs(): '%s'", jtype_name(v));
  return jnumber_cmp(st, v, jint(0)) < 0 ? jnegate(st, v) : jpositive(st, v);
}

/* int(v), for what is no str; false where Python raises TypeError or ValueError. */
static bool whole(struct jst *st, struct jv v, struct jv *out) {
  if (v.type == J_UNDEF)
    jundef_fail(st, v);
  if (v.type == J_FLOAT) {
    if (isinf(v.u.f))
      jraise(st, "OverflowError", "cannot convert float infinity to integer");
    if (isnan(v.u.f))
      return false;
    *out = jbig(bigint_from_double(&st->big_memory, v.u.f));
    return true;
  }
  if (!jis_int(v))
    return false;
  *out = jpositive(st, v);
  return true;
}

static struct jv f_int(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[2], out;
  jbind(st, "do_int", "?default,base", args, a);
  struct jv absent = a[0].type == J_MISSING ? jint(0) : a[0];
  if (v.type != J_STR)
    return whole(st, v, &out) ? out : absent;
  int64_t base = a[1].type == J_MISSING ? 10 : jis_int(a[1]) ? jto_index(st, a[1]) : -1;
  double d;
  if ((base == 0 || (base >= 2 && base <= 36)) &&
      jread_int(st, jbytes(st, v), v.len, (int)base, &out))
    return out;
  if (!jread_float(jbytes(st, v), v.len, &d) || !isfinite(d))
    return absent;
  return jbig(bigint_from_double(&st->big_memory, d));
}

static struct jv f_float(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv absent;
  double d;
  jbind(st, "do_float", "?default", args, &absent);
  if (absent.type == J_MISSING)
    absent = jfloat(0);
  if (v.type == J_UNDEF)
    jundef_fail(st, v);
  if (jis_number(v))
    return jfloat(jto_double(st, v));
  if (v.type == J_STR && jread_float(jbytes(st, v), v.len, &d))
    return jfloat(d);
  return absent;
}

/* round(d, digits) of a float: the decimal nearest to the exact value, ties to even. */
static double round_float(struct jst *st, double d, int64_t digits) {
  if (!isfinite(d) || digits > 323)
    return d;
  if (digits < -308)
    return 0.0 * d;
  if (digits < 0) {
    double scale = pow(10, (double)-digits);
    double r = nearbyint(d / scale) * scale;
    return r;
  }
  const char *text = jprint_double(st, "%.*f", digits, d);
  double r = d;
  jread_float(text, strlen(text), &r);
  return r;
}

/* round(i, digits) of an int: itself, or the nearest multiple of a power of ten. */
static struct jv round_int(struct jst *st, struct jv v, int64_t digits) {
  v = jpositive(st, v);
  if (digits >= 0)
    return v;
  if (digits < -5000)
    return jint(0);
  struct jv scale = jnumber_op(st, OP_POW, jint(10), jint(-digits));
  struct jv rest = jnumber_op(st, OP_MOD, v, scale);
  struct jv low = jnumber_op(st, OP_SUB, v, rest);
  int c = jnumber_cmp(st, jnumber_op(st, OP_MUL, rest, jint(2)), scale);
  bool odd =
      jnumber_cmp(st, jnumber_op(st, OP_MOD, jnumber_op(st, OP_FLOORDIV, low, scale), jint(2)),
                  jint(0)) != 0;
  return c > 0 || (c == 0 && odd) ? jnumber_op(st, OP_ADD, low, scale) : low;
}

static struct jv f_round(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[2];
  jbind(st, "do_round", "?precision,method", args, a);
  struct jv precision = a[0].type == J_MISSING ? jint(0) : a[0];
  struct jv method = a[1].type == J_MISSING ? jcstr("common") : a[1];
  bool common = method.type == J_STR && jstr_eq(st, method, jcstr("common"));
  bool ceiling = method.type == J_STR && jstr_eq(st, method, jcstr("ceil"));
  if (!common && !ceiling && !(method.type == J_STR && jstr_eq(st, method, jcstr("floor"))))
    jraise(st, "FilterArgumentError", "method must be common, ceil or floor");
  if (v.type == J_UNDEF && !common)
    jundef_fail(st, v);
  if (!jis_number(v))
    jraise(st, "TypeError", "type %s doesn't define __round__ method", jtype_name(v));
  if (common) {
    if (precision.type == J_NONE)
      return v.type == J_FLOAT ? jbig(bigint_from_double(&st->big_memory, nearbyint(v.u.f)))
                               : jpositive(st, v);
    int64_t digits = jto_index(st, precision);
    return v.type == J_FLOAT ? jfloat(round_float(st, v.u.f, digits)) : round_int(st, v, digits);
  }
  struct jv scale = jbinary(st, OP_POW, jint(10), precision);
  struct jv scaled = jbinary(st, OP_MUL, v, scale), r = scaled;
  if (scaled.type == J_FLOAT) {
    if (!isfinite(scaled.u.f))
      jraise(st, isnan(scaled.u.f) ? "ValueError" : "OverflowError",
             "cannot convert float %s to integer", isnan(scaled.u.f) ? "NaN" : "infinity");
    r = jbig(bigint_from_double(&st->big_memory, ceiling ? ceil(scaled.u.f) : floor(scaled.u.f)));
  }
  return jbinary(st, OP_DIV, r, scale);
}

static struct jv f_filesizeformat(struct jst *st, struct jv v, const struct jargs *args) {
  static const char prefixes[] = "kMGTPEZY";
  struct jv binary, number;
  jbind(st, "do_filesizeformat", "?binary", args, &binary);
  bool two = jtruth(st, binary);
  double d, base = two ? 1024 : 1000;
  number = f_float(st, v, &(struct jargs){.pos = (struct jv[]){jnone()}, .n = 1});
  if (number.type != J_FLOAT)
    jraise(st, v.type == J_STR ? "ValueError" : "TypeError",
           v.type == J_STR ? "could not convert string to float: %s"
                           : "float() argument must be a string or a real number, not %s",
           jrepr_c(st, v));
  d = number.u.f;
  struct buf *b = jbuf_open(st);
  if (d == 1) {
    jputs(st, b, "1 Byte");
  } else if (d < base) {
    jputs(st, b, jprint_double(st, "%.*f", 0, trunc(d)));
    jputs(st, b, " Bytes");
  } else {
    double unit = base * base;
    size_t i = 0;
    while (i + 1 < sizeof prefixes - 1 && !(d < unit)) {
      unit *= base;
      i++;
    }
    char name[4] = {prefixes[i], two ? 'i' : 'B', two ? 'B' : 0, 0};
    if (two && name[0] == 'k')
      name[0] = 'K';
    jputs(st, b, jprint_double(st, "%.*f", 1, base * d / unit));
    buf_printf(b, " %s", name);
  }
  return jbuf_close(st, b);
}

/* ---- single values */

static struct jv f_default(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[2];
  jbind(st, "do_default", "?default_value,boolean", args, a);
  if (v.type != J_UNDEF && !(a[1].type != J_MISSING && jtruth(st, a[1]) && !jtruth(st, v)))
    return v;
  return a[0].type == J_MISSING ? jstr("", 0) : a[0];
}

static struct jv f_attr(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv name;
  const struct jmethod_def *def;
  jbind(st, "do_attr", "name", args, &name);
  if (name.type != J_STR)
    jraise(st, "TypeError", "attribute name must be string, not '%s'", jtype_name(name));
  if (v.type == J_UNDEF)
    return jgetattr(st, v, name);
  struct jv there = jattribute(st, v, jbytes(st, name), name.len, &def);
  if (there.type == J_MISSING && !def)
    return jundef_attr(st, v, name);
  return jgetattr(st, v, jplain(name));
}

static struct jv f_string(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, "soft_str", "", args, unused);
  return jsoft_str(st, v);
}

static struct jv f_length(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, "len", "/", args, unused);
  return jint((int64_t)jlen_or_raise(st, v));
}

static struct jv f_random(struct jst *st, struct jv v, const struct jargs *args) {
  (void)v, (void)args;
  jraise(st, "ValueError", "random gives another text every time, which no prompt can be made of");
}

const struct jfilter_def jfilters_misc[] = {
    {"tojson", jtojson},    {"length", f_length}, {"string", f_string},
    {"default", f_default}, {"d", f_default},     {"count", f_length},
    {"int", f_int},         {"float", f_float},   {"abs", f_abs},
    {"round", f_round},     {"attr", f_attr},     {"filesizeformat", f_filesizeformat},
    {"random", f_random},   {NULL, NULL}};
