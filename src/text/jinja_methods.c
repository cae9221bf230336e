/* jinja_methods.c: the methods of list, tuple, dict, its views, int, float, range and generators.
 *
 * Those that would change their object are listed without code: the sandbox refuses them. */
#include "text/jinja.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void no_args(struct jst *st, const char *who, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, who, "/", args, unused);
}

static bool same_or_equal(struct jst *st, struct jv a, struct jv b) {
  jstep(st);
  return jis_same(a, b) || jequal(st, a, b);
}

static struct jv seq_count(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv item;
  int64_t n = 0;
  jbind(st, "count", "value/", args, &item);
  for (size_t i = 0; i < jseq_len(self); i++)
    n += same_or_equal(st, jseq_at(st, self, i), item);
  return jint(n);
}

static int64_t clamp_index(struct jst *st, struct jv v, int64_t n, int64_t absent) {
  if (v.type == J_MISSING)
    return absent;
  int64_t i = jto_index(st, v);
  return i < 0 ? (i + n < 0 ? 0 : i + n) : i > n ? n : i;
}

static struct jv seq_index(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv a[3];
  jbind(st, "index", "value,?start,stop/", args, a);
  int64_t n = (int64_t)jseq_len(self), stop = clamp_index(st, a[2], n, n);
  for (int64_t i = clamp_index(st, a[1], n, 0); i < stop; i++)
    if (same_or_equal(st, jseq_at(st, self, (size_t)i), a[0]))
      return jint(i);
  if (self.type == J_TUPLE)
    jraise(st, "ValueError", "tuple.index(x): x not in tuple");
  jraise(st, "ValueError", "%s is not in list", jrepr_c(st, a[0]));
}

static struct jv list_copy(struct jst *st, struct jv self, const struct jargs *args) {
  no_args(st, "list.copy", args);
  return jlist_value(jcollect(st, self));
}

const struct jmethod_def jlist_methods[] = {
    {"index", seq_index}, {"count", seq_count}, {"copy", list_copy}, {"append", NULL},
    {"clear", NULL},      {"extend", NULL},     {"insert", NULL},    {"pop", NULL},
    {"remove", NULL},     {"reverse", NULL},    {"sort", NULL},      {NULL, NULL}};

const struct jmethod_def jtuple_methods[] = {
    {"index", seq_index}, {"count", seq_count}, {NULL, NULL}};

/* ---- dict */

static struct jv view(struct jst *st, struct jv self, const struct jargs *args, const char *who,
                      enum jflag which) {
  no_args(st, who, args);
  struct jview *v = jalloc(st, sizeof *v);
  v->dict = self;
  return (struct jv){.type = J_VIEW, .flags = (uint8_t)which, .u.view = v};
}

static struct jv dict_items(struct jst *st, struct jv self, const struct jargs *args) {
  return view(st, self, args, "dict.items", JF_ITEMS);
}
static struct jv dict_keys(struct jst *st, struct jv self, const struct jargs *args) {
  return view(st, self, args, "dict.keys", JF_KEYS);
}
static struct jv dict_values(struct jst *st, struct jv self, const struct jargs *args) {
  return view(st, self, args, "dict.values", JF_VALUES);
}

static struct jv dict_get(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv a[2];
  jbind(st, "get", "key,?default/", args, a);
  struct jv v = jdict_get(st, self, a[0]);
  if (v.type != J_MISSING)
    return v;
  return a[1].type == J_MISSING ? jnone() : a[1];
}

static struct jv dict_copy(struct jst *st, struct jv self, const struct jargs *args) {
  no_args(st, "dict.copy", args);
  struct jdict *d = jdict_new(st);
  for (size_t i = 0; i < jdict_len(self); i++) {
    struct jv key, value;
    jdict_at(st, self, i, &key, &value);
    jstep(st);
    jdict_set(st, d, key, value);
  }
  return jdict_value(d);
}

static struct jv dict_fromkeys(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self;
  struct jv a[2], key;
  jbind(st, "fromkeys", "iterable,?value/", args, a);
  struct jdict *d = jdict_new(st);
  struct jiter *it = jiter_of(st, a[0]);
  while (jnext(st, it, &key))
    jdict_set(st, d, key, a[1].type == J_MISSING ? jnone() : a[1]);
  return jdict_value(d);
}

const struct jmethod_def jdict_methods[] = {
    {"get", dict_get},   {"items", dict_items},       {"keys", dict_keys}, {"values", dict_values},
    {"copy", dict_copy}, {"fromkeys", dict_fromkeys}, {"clear", NULL},     {"pop", NULL},
    {"popitem", NULL},   {"setdefault", NULL},        {"update", NULL},    {NULL, NULL}};

static struct jv view_isdisjoint(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv other, item;
  jbind(st, "isdisjoint", "other/", args, &other);
  if (self.flags & JF_VALUES)
    jraise(st, "AttributeError", "'dict_values' object has no attribute 'isdisjoint'");
  struct jiter *it = jiter_of(st, other);
  while (jnext(st, it, &item))
    if (jcontains(st, self, item))
      return jbool(false);
  return jbool(true);
}

const struct jmethod_def jview_methods[] = {{"isdisjoint", view_isdisjoint}, {NULL, NULL}};

/* ---- numbers */

static struct jv int_bit_length(struct jst *st, struct jv self, const struct jargs *args) {
  no_args(st, "int.bit_length", args);
  return jint(bigint_bits(jto_big(st, self)));
}

static struct jv int_bit_count(struct jst *st, struct jv self, const struct jargs *args) {
  no_args(st, "int.bit_count", args);
  const struct bigint *b = jto_big(st, self);
  int64_t n = 0;
  for (uint32_t i = 0; i < b->n; i++)
    n += __builtin_popcount(b->limb[i]);
  return jint(n);
}

static struct jv int_conjugate(struct jst *st, struct jv self, const struct jargs *args) {
  no_args(st, "int.conjugate", args);
  return self.type == J_BOOL ? jint(self.u.b) : self;
}

static struct jv int_as_integer_ratio(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv pair[2] = {int_conjugate(st, self, args), jint(1)};
  return jtuple(st, 2, pair);
}

static struct jv no_bytes(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self, (void)args;
  jraise(st, "TypeError", "bytes are not supported within a template");
}

const struct jmethod_def jint_methods[] = {{"bit_length", int_bit_length},
                                           {"bit_count", int_bit_count},
                                           {"conjugate", int_conjugate},
                                           {"as_integer_ratio", int_as_integer_ratio},
                                           {"to_bytes", no_bytes},
                                           {"from_bytes", no_bytes},
                                           {NULL, NULL}};

static struct jv float_is_integer(struct jst *st, struct jv self, const struct jargs *args) {
  no_args(st, "float.is_integer", args);
  return jbool(isfinite(self.u.f) && floor(self.u.f) == self.u.f);
}

static struct jv float_conjugate(struct jst *st, struct jv self, const struct jargs *args) {
  no_args(st, "float.conjugate", args);
  return self;
}

static struct jv float_as_integer_ratio(struct jst *st, struct jv self, const struct jargs *args) {
  no_args(st, "float.as_integer_ratio", args);
  if (!isfinite(self.u.f))
    jraise(st, isnan(self.u.f) ? "ValueError" : "OverflowError",
           "cannot convert %s to integer ratio", isnan(self.u.f) ? "NaN" : "Infinity");
  int exponent;
  double mantissa = frexp(self.u.f, &exponent);
  while (mantissa != floor(mantissa)) {
    mantissa *= 2;
    exponent--;
  }
  struct jv two = jint(2), pair[2] = {jint((int64_t)mantissa), jint(1)};
  struct jv scale = jnumber_op(st, OP_POW, two, jint(exponent < 0 ? -exponent : exponent));
  if (exponent < 0)
    pair[1] = scale;
  else
    pair[0] = jnumber_op(st, OP_MUL, pair[0], scale);
  return jtuple(st, 2, pair);
}

static struct jv float_hex(struct jst *st, struct jv self, const struct jargs *args) {
  no_args(st, "float.hex", args);
  double d = self.u.f;
  struct buf *b = jbuf_open(st);
  if (!isfinite(d)) {
    jrepr_float(b, d);
    return jbuf_close(st, b);
  }
  int exponent = 0;
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  exponent = (int)(bits >> 52 & 0x7ff);
  const char *sign = bits >> 63 ? "-" : "";
  if (d == 0)
    buf_printf(b, "%s0x0.0p+0", sign);
  else
    buf_printf(b, "%s0x%d.%013llxp%+d", sign, exponent ? 1 : 0,
               (unsigned long long)(bits & ((UINT64_C(1) << 52) - 1)),
               exponent ? exponent - 1023 : -1022);
  return jbuf_close(st, b);
}

static struct jv float_fromhex(struct jst *st, struct jv self, const struct jargs *args) {
  (void)self, (void)args;
  jraise(st, "ValueError", "float.fromhex is not supported within a template");
}

const struct jmethod_def jfloat_methods[] = {{"is_integer", float_is_integer},
                                             {"conjugate", float_conjugate},
                                             {"as_integer_ratio", float_as_integer_ratio},
                                             {"hex", float_hex},
                                             {"fromhex", float_fromhex},
                                             {NULL, NULL}};

/* ---- range, generators */

static struct jv range_count(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv item;
  jbind(st, "range.count", "value/", args, &item);
  return jint(jcontains(st, self, item));
}

static struct jv range_index(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv item;
  jbind(st, "range.index", "value/", args, &item);
  for (int64_t i = 0; i < self.u.range->n; i++)
    if (jequal(st, jint(self.u.range->start + i * self.u.range->step), item))
      return jint(i);
  jraise(st, "ValueError", "%s is not in range", jrepr_c(st, item));
}

const struct jmethod_def jrange_methods[] = {
    {"count", range_count}, {"index", range_index}, {NULL, NULL}};

static struct jv iter_close(struct jst *st, struct jv self, const struct jargs *args) {
  no_args(st, "generator.close", args);
  self.u.iter->done = true;
  return jnone();
}

static struct jv iter_send(struct jst *st, struct jv self, const struct jargs *args) {
  struct jv v, out;
  jbind(st, "generator.send", "value/", args, &v);
  if (!jnext(st, self.u.iter, &out))
    return jundef_hint(st,
                       "value was undefined because a callable raised a StopIteration exception");
  return out;
}

const struct jmethod_def jiter_methods[] = {{"close", iter_close}, {"send", iter_send},
                                            {"throw", NULL},       {"gi_frame", NULL},
                                            {"gi_code", NULL},     {NULL, NULL}};
