/* jinja_number.c: arithmetic and order of bool, int and float as Python has them; reading numbers
 * from text. */
#include "text/jinja.h"

#include "text/json_scan.h"
#include "text/pychar.h"

#include <math.h>
#include <string.h>
#include <strings.h>

bool jis_number(struct jv v) {
  return jis_int(v) || v.type == J_FLOAT;
}

static struct bigint_memory *memory(struct jst *st) {
  return &st->big_memory;
}

const struct bigint *jto_big(struct jst *st, struct jv v) {
  return v.type == J_BIG ? v.u.big : bigint_from_int(memory(st), jsmall(v));
}

double jto_double(struct jst *st, struct jv v) {
  if (v.type == J_FLOAT)
    return v.u.f;
  if (v.type != J_BIG)
    return (double)jsmall(v);
  double d = bigint_to_double(v.u.big);
  if (isinf(d))
    jraise(st, "OverflowError", "int too large to convert to float");
  return d;
}

static struct jv checked(struct jst *st, const struct bigint *b) {
  if (b)
    return jbig(b);
  jlimit(st, "a number has more than %d bits", BIGINT_MAX_LIMBS * 32);
}

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b && (a % b < 0) != (b < 0) ? q - 1 : q;
}

static int64_t floor_mod(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r && (r < 0) != (b < 0) ? r + b : r;
}

/* Schoolbook multiplication and division, before they are done. */
static void pay_product(struct jst *st, uint64_t a_limbs, uint64_t b_limbs) {
  jspend(st, a_limbs * b_limbs / 4);
}

/* a / b rounded once, for numbers that are no doubles: enough bits of the quotient, the last one
 * made sticky. */
static double divide_big(struct jst *st, const struct bigint *a, const struct bigint *b) {
  int64_t shift = 66 - ((int64_t)bigint_bits(a) - (int64_t)bigint_bits(b));
  uint64_t limbs = (uint64_t)(shift < 0 ? -shift : shift) / 32 + a->n + b->n + 2;
  pay_product(st, limbs * 2, limbs);
  struct bigint *two = bigint_from_int(memory(st), 2), *q, *r;
  struct bigint *scale = bigint_pow(memory(st), two, (uint32_t)(shift < 0 ? -shift : shift));
  const struct bigint *up = shift > 0 ? bigint_mul(memory(st), a, scale) : a;
  const struct bigint *down = shift < 0 ? bigint_mul(memory(st), b, scale) : b;
  if (!up || !down)
    jlimit(st, "a number has more than %d bits", BIGINT_MAX_LIMBS * 32);
  bool negative = a->negative != b->negative;
  struct bigint *up_size = bigint_sub(memory(st), up, bigint_from_int(memory(st), 0));
  struct bigint *down_size = bigint_sub(memory(st), down, bigint_from_int(memory(st), 0));
  up_size->negative = down_size->negative = false;
  bigint_divmod(memory(st), up_size, down_size, &q, &r);
  if (r->n)
    q->limb[0] |= 1;
  double d = ldexp(bigint_to_double(q), (int)-shift);
  if (isinf(d))
    jraise(st, "OverflowError", "integer division result too large for a float");
  return negative ? -d : d;
}

static struct jv true_divide(struct jst *st, struct jv a, struct jv b) {
  int64_t exact = INT64_C(1) << 53;
  if (a.type != J_BIG && b.type != J_BIG) {
    int64_t x = jsmall(a), y = jsmall(b);
    if (x >= -exact && x <= exact && y >= -exact && y <= exact)
      return jfloat((double)x / (double)y);
  }
  const struct bigint *p = jto_big(st, a);
  return p->n ? jfloat(divide_big(st, p, jto_big(st, b))) : jfloat(0);
}

static bool is_zero(struct jv v) {
  return v.type == J_FLOAT ? v.u.f == 0 : v.type != J_BIG && jsmall(v) == 0;
}

static struct jv float_power(struct jst *st, double x, double y) {
  if (x == 0 && y < 0)
    jraise(st, "ZeroDivisionError", "0.0 cannot be raised to a negative power");
  if (x < 0 && isfinite(x) && isfinite(y) && y != floor(y))
    jraise(st, "TypeError", "the power of a negative number is complex, which is not supported");
  double r = pow(x, y);
  if (isinf(r) && isfinite(x) && isfinite(y))
    jraise(st, "OverflowError", "(34, 'Numerical result out of range')");
  return jfloat(r);
}

static struct jv int_power(struct jst *st, struct jv a, struct jv b) {
  if (b.type == J_BIG ? b.u.big->negative : jsmall(b) < 0)
    return float_power(st, jto_double(st, a), jto_double(st, b));
  const struct bigint *base = jto_big(st, a);
  bool small = !base->n || (base->n == 1 && base->limb[0] == 1);
  if (!small && (b.type == J_BIG || jsmall(b) > INT64_C(32) * BIGINT_MAX_LIMBS))
    checked(st, NULL);
  uint32_t exponent;
  if (b.type == J_BIG) /* 0, 1 or -1: only its oddness counts */
    exponent = 2 + (b.u.big->limb[0] & 1);
  else
    exponent = small && jsmall(b) > 3 ? 2 + ((uint32_t)jsmall(b) & 1) : (uint32_t)jsmall(b);
  uint64_t limbs = (uint64_t)bigint_bits(base) * exponent / 32 + 1;
  limbs = limbs > BIGINT_MAX_LIMBS ? BIGINT_MAX_LIMBS : limbs;
  pay_product(st, limbs, limbs);
  return checked(st, bigint_pow(memory(st), base, exponent));
}

static struct jv float_op(struct jst *st, enum jop op, double x, double y) {
  double m;
  switch (op) {
  case OP_ADD:
    return jfloat(x + y);
  case OP_SUB:
    return jfloat(x - y);
  case OP_MUL:
    return jfloat(x * y);
  case OP_DIV:
    if (y == 0)
      jraise(st, "ZeroDivisionError", "float division by zero");
    return jfloat(x / y);
  case OP_POW:
    return float_power(st, x, y);
  case OP_FLOORDIV:
  case OP_MOD:
    if (y == 0)
      jraise(st, "ZeroDivisionError",
             op == OP_MOD ? "float modulo" : "float floor division by zero");
    m = fmod(x, y);
    double div = (x - m) / y;
    if (m != 0 && (y < 0) != (m < 0)) {
      m += y;
      div -= 1;
    } else if (m == 0) {
      m = copysign(0.0, y);
    }
    if (op == OP_MOD)
      return jfloat(m);
    double whole = div != 0 ? floor(div) : copysign(0.0, x / y);
    return jfloat(div - whole > 0.5 ? whole + 1 : whole);
  }
  return jnone();
}

static struct jv big_op(struct jst *st, enum jop op, struct jv a, struct jv b) {
  const struct bigint *x = jto_big(st, a), *y = jto_big(st, b);
  struct bigint *r = NULL;
  if (op == OP_MUL || op == OP_FLOORDIV || op == OP_MOD)
    pay_product(st, x->n, y->n);
  switch (op) {
  case OP_ADD:
    return checked(st, bigint_add(memory(st), x, y));
  case OP_SUB:
    return checked(st, bigint_sub(memory(st), x, y));
  case OP_MUL:
    return checked(st, bigint_mul(memory(st), x, y));
  case OP_FLOORDIV:
    bigint_divmod(memory(st), x, y, &r, NULL);
    return jbig(r);
  case OP_MOD:
    bigint_divmod(memory(st), x, y, NULL, &r);
    return jbig(r);
  default:
    return jnone();
  }
}

/* Whether both are small and the result is too. */
static bool small_op(enum jop op, struct jv a, struct jv b, int64_t *out) {
  if (a.type == J_BIG || b.type == J_BIG)
    return false;
  int64_t x = jsmall(a), y = jsmall(b);
  switch (op) {
  case OP_ADD:
    return !__builtin_add_overflow(x, y, out);
  case OP_SUB:
    return !__builtin_sub_overflow(x, y, out);
  case OP_MUL:
    return !__builtin_mul_overflow(x, y, out);
  case OP_FLOORDIV:
    if (x == INT64_MIN && y == -1)
      return false;
    *out = floor_div(x, y);
    return true;
  case OP_MOD:
    *out = y == -1 ? 0 : floor_mod(x, y);
    return true;
  default:
    return false;
  }
}

struct jv jnumber_op(struct jst *st, enum jop op, struct jv a, struct jv b) {
  if (a.type == J_FLOAT || b.type == J_FLOAT)
    return float_op(st, op, jto_double(st, a), jto_double(st, b));
  if (is_zero(b)) {
    if (op == OP_DIV)
      jraise(st, "ZeroDivisionError", "division by zero");
    if (op == OP_FLOORDIV || op == OP_MOD)
      jraise(st, "ZeroDivisionError",
             op == OP_MOD ? "integer modulo by zero" : "integer division or modulo by zero");
  }
  if (op == OP_DIV)
    return true_divide(st, a, b);
  if (op == OP_POW)
    return int_power(st, a, b);
  int64_t small;
  return small_op(op, a, b, &small) ? jint(small) : big_op(st, op, a, b);
}

static int order(double x, double y) {
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

/* An int against a float, exactly. */
static int compare_mixed(struct jst *st, struct jv i, double d) {
  if (isnan(d))
    return 2;
  if (isinf(d))
    return d > 0 ? -1 : 1;
  const int64_t exact = INT64_C(1) << 53;
  if (i.type != J_BIG && fabs(d) < 9007199254740992.0 && jsmall(i) < exact && jsmall(i) > -exact)
    return order((double)jsmall(i), d);
  int c = bigint_compare(jto_big(st, i), bigint_from_double(memory(st), d));
  double fraction = d - trunc(d);
  return c ? c : fraction > 0 ? -1 : fraction < 0 ? 1 : 0;
}

int jnumber_cmp(struct jst *st, struct jv a, struct jv b) {
  if (a.type == J_FLOAT && b.type == J_FLOAT)
    return order(a.u.f, b.u.f);
  if (a.type == J_FLOAT) {
    int c = compare_mixed(st, b, a.u.f);
    return c == 2 ? 2 : -c;
  }
  if (b.type == J_FLOAT)
    return compare_mixed(st, a, b.u.f);
  if (a.type != J_BIG && b.type != J_BIG)
    return jsmall(a) < jsmall(b) ? -1 : jsmall(a) > jsmall(b);
  return bigint_compare(jto_big(st, a), jto_big(st, b));
}

struct jv jnegate(struct jst *st, struct jv v) {
  if (v.type == J_UNDEF)
    jundef_fail(st, v);
  if (v.type == J_FLOAT)
    return jfloat(-v.u.f);
  if (!jis_int(v))
    jraise(st, "TypeError", "bad operand type for unary -: '%s'", jtype_name(v));
  return jnumber_op(st, OP_SUB, jint(0), v);
}

struct jv jpositive(struct jst *st, struct jv v) {
  if (v.type == J_UNDEF)
    jundef_fail(st, v);
  if (!jis_number(v))
    jraise(st, "TypeError", "bad operand type for unary +: '%s'", jtype_name(v));
  return v.type == J_BOOL ? jint(v.u.b) : v;
}

/* ---- reading */

/* Writes s as ASCII: white space around it gone, decimal digits of all scripts as 0 to 9. */
static bool to_ascii(const char *s, size_t len, struct buf *out) {
  size_t size;
  while (len && pychar_classes(pychar_read(s, len, &size)) & PYCHAR_SPACE) {
    s += size;
    len -= size;
  }
  size_t trailing = 0;
  while (len) {
    uint32_t c = pychar_read(s, len, &size);
    int digit = pychar_decimal(c);
    bool space = pychar_classes(c) & PYCHAR_SPACE;
    if (space)
      trailing++;
    else if (trailing || (digit < 0 && c >= 128))
      return false;
    else
      buf_putc(out, digit >= 0 ? (char)('0' + digit) : (char)c);
    s += size;
    len -= size;
  }
  return out->len > 0;
}

static int digit_value(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  char lower = (char)(c | 32);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

/* Digits with single underscores between them, in place; false when they are none of `base`. */
static bool take_digits(char *s, size_t *len, int base, bool after_prefix) {
  size_t n = 0;
  bool may_underscore = after_prefix;
  for (size_t i = 0; i < *len; i++) {
    if (s[i] == '_') {
      if (!may_underscore)
        return false;
      may_underscore = false;
      continue;
    }
    if (digit_value(s[i]) >= base)
      return false;
    may_underscore = true;
    s[n++] = s[i];
  }
  if (!n || s[*len - 1] == '_')
    return false;
  *len = n;
  return true;
}

static bool read_int(struct jst *st, struct buf *text, int base, struct jv *out) {
  char *s = text->data;
  size_t len = text->len;
  bool negative = len && *s == '-', prefix = false;
  if (len && (*s == '-' || *s == '+')) {
    s++;
    len--;
  }
  int named = len > 1 && s[0] == '0' ? (s[1] | 32) : 0;
  int named_base = named == 'x' ? 16 : named == 'o' ? 8 : named == 'b' ? 2 : 0;
  if (named_base && (base == 0 || base == named_base)) {
    s += 2;
    len -= 2;
    base = named_base;
    prefix = true;
  }
  bool zero_only = base == 0;
  base = base ? base : 10;
  if (!take_digits(s, &len, base, prefix))
    return false;
  if (zero_only && s[0] == '0' && strspn(s, "0") < len)
    return false;
  if ((base & (base - 1)) && len > 4300)
    jraise(st, "ValueError",
           "Exceeds the limit (4300 digits) for integer string conversion: value has %zu digits; "
           "use sys.set_int_max_str_digits() to increase the limit",
           len);
  if (len <= (size_t)BIGINT_MAX_LIMBS * 6)
    jspend(st, (uint64_t)len * len / 128);
  const struct bigint *b = bigint_from_digits(memory(st), s, len, base, negative);
  if (!b)
    jlimit(st, "a number has more than %d bits", BIGINT_MAX_LIMBS * 32);
  *out = jbig(b);
  return true;
}

bool jread_int(struct jst *st, const char *s, size_t len, int base, struct jv *out) {
  struct buf *text = jbuf_open(st);
  bool ok = to_ascii(s, len, text) && read_int(st, text, base, out);
  jbuf_drop(st, text);
  return ok;
}

/* inf, infinity, nan; false when s is none of them. */
static bool read_word(const char *s, double *out) {
  bool negative = *s == '-';
  s += *s == '-' || *s == '+';
  if (!strcasecmp(s, "nan"))
    *out = NAN;
  else if (!strcasecmp(s, "inf") || !strcasecmp(s, "infinity"))
    *out = negative ? -INFINITY : INFINITY;
  else
    return false;
  return true;
}

/* digits[.digits][e±digits] in JSON's stricter form ("+05." is "5"); false when it is none. */
static bool to_json_number(const char *s, struct buf *out) {
  if (*s == '-')
    buf_putc(out, '-');
  s += *s == '-' || *s == '+';
  size_t whole = strspn(s, "0123456789"), zeros = strspn(s, "0"), fraction = 0;
  buf_put(out, s + zeros, whole - zeros);
  if (zeros == whole)
    buf_putc(out, '0');
  s += whole;
  if (*s == '.') {
    fraction = strspn(++s, "0123456789");
    if (fraction)
      buf_putc(out, '.');
    buf_put(out, s, fraction);
    s += fraction;
  }
  if (!whole && !fraction)
    return false;
  if (*s == 'e' || *s == 'E') {
    size_t sign = s[1] == '-' || s[1] == '+', digits = strspn(s + 1 + sign, "0123456789");
    if (!digits)
      return false;
    buf_put(out, s, 1 + sign + digits);
    s += 1 + sign + digits;
  }
  return !*s;
}

bool jread_float(const char *s, size_t len, double *out) {
  struct buf text, json;
  buf_init(&text, BUF_MAX_OWN);
  buf_init(&json, BUF_MAX_OWN);
  bool ok = to_ascii(s, len, &text) && !memchr(text.data, 0, text.len);
  size_t n = 0;
  for (size_t i = 0; ok && i < text.len; i++) {
    if (text.data[i] != '_') {
      text.data[n++] = text.data[i];
      continue;
    }
    ok = i > 0 && digit_value(text.data[i - 1]) < 10 && i + 1 < text.len &&
         digit_value(text.data[i + 1]) < 10;
  }
  if (ok) {
    text.data[n] = '\0';
    ok = read_word(text.data, out);
    if (!ok && to_json_number(text.data, &json)) { /* unlike strtod it knows no locale */
      struct json_number number;
      ok = json_scan_number(json.data, json.data + json.len, &number) != NULL;
      if (ok)
        *out = number.is_int && json.data[0] == '-' && !number.integer ? -0.0 : number.number;
    }
  }
  buf_free(&text);
  buf_free(&json);
  return ok;
}
