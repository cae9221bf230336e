/* bigint.c: schoolbook arithmetic on 32-bit limbs; see bigint.h.
 *
 * Division is Knuth's algorithm D (The Art of Computer Programming 4.3.1); Python's rounding down
 * is put on top of it. */
#include "text/bigint.h"

#include <math.h>
#include <string.h>

static struct bigint *make(struct bigint_memory *m, uint32_t n) {
  struct bigint *b = m->get(m->user, sizeof *b + n * sizeof b->limb[0]);
  b->negative = false;
  b->n = n;
  memset(b->limb, 0, n * sizeof b->limb[0]);
  return b;
}

static struct bigint *trim(struct bigint *b) {
  while (b->n && !b->limb[b->n - 1])
    b->n--;
  if (!b->n)
    b->negative = false;
  return b;
}

struct bigint *bigint_from_int(struct bigint_memory *m, int64_t i) {
  struct bigint *b = make(m, 2);
  uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
  b->limb[0] = (uint32_t)u;
  b->limb[1] = (uint32_t)(u >> 32);
  b->negative = i < 0;
  return trim(b);
}

/* b = b × factor + add; b has room for one more limb. */
static void scale(struct bigint *b, uint32_t factor, uint32_t add) {
  uint64_t carry = add;
  for (uint32_t i = 0; i < b->n; i++) {
    carry += (uint64_t)b->limb[i] * factor;
    b->limb[i] = (uint32_t)carry;
    carry >>= 32;
  }
  if (carry)
    b->limb[b->n++] = (uint32_t)carry;
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'z')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z')
    return c - 'A' + 10;
  return 36;
}

struct bigint *bigint_from_digits(struct bigint_memory *m, const char *s, size_t len, int base,
                                  bool negative) {
  if (len > (size_t)BIGINT_MAX_LIMBS * 6) /* base 36 has 5.17 bits a digit */
    return NULL;
  struct bigint *b = make(m, (uint32_t)(len * 6 / 32 + 2));
  b->n = 0;
  for (size_t i = 0; i < len; i++)
    scale(b, (uint32_t)base, (uint32_t)digit_of(s[i]));
  b->negative = negative;
  return trim(b);
}

struct bigint *bigint_from_double(struct bigint_memory *m, double d) {
  int exponent;
  double fraction = frexp(fabs(d), &exponent);
  if (exponent <= 0)
    return make(m, 0);
  uint64_t mantissa = (uint64_t)ldexp(fraction, 53);
  int shift = exponent - 53;
  if (shift < 0) {
    mantissa >>= -shift;
    shift = 0;
  }
  struct bigint *b = make(m, (uint32_t)shift / 32 + 3);
  uint32_t at = (uint32_t)shift / 32, bits = (uint32_t)shift % 32;
  b->limb[at] = (uint32_t)(mantissa << bits);
  b->limb[at + 1] = (uint32_t)(mantissa >> (32 - bits));
  b->limb[at + 2] = bits ? (uint32_t)(mantissa >> 32 >> (32 - bits)) : 0;
  b->negative = d < 0;
  return trim(b);
}

bool bigint_to_int(const struct bigint *a, int64_t *out) {
  if (a->n > 2)
    return false;
  uint64_t u = (a->n > 0 ? a->limb[0] : 0) | (uint64_t)(a->n > 1 ? a->limb[1] : 0) << 32;
  if (u > (uint64_t)INT64_MAX + (a->negative ? 1 : 0))
    return false;
  *out = a->negative ? (int64_t)(0 - u) : (int64_t)u;
  return true;
}

uint32_t bigint_bits(const struct bigint *a) {
  return a->n ? a->n * 32 - (uint32_t)__builtin_clz(a->limb[a->n - 1]) : 0;
}

double bigint_to_double(const struct bigint *a) {
  uint32_t bits = bigint_bits(a);
  if (bits > 1024)
    return a->negative ? -HUGE_VAL : HUGE_VAL;
  /* The top 64 bits, the last one made sticky: then one rounding by the hardware is right. */
  uint64_t top = 0;
  uint32_t low = bits > 64 ? bits - 64 : 0;
  for (uint32_t i = 0; i < 64 && low + i < bits; i++)
    top |= (uint64_t)(a->limb[(low + i) / 32] >> ((low + i) % 32) & 1) << i;
  for (uint32_t i = 0; i < low; i++)
    if (a->limb[i / 32] >> (i % 32) & 1)
      top |= 1;
  double d = ldexp((double)top, (int)low);
  return a->negative ? -d : d;
}

/* a ÷ divisor in place; returns the remainder. */
static uint32_t divide_small(struct bigint *a, uint32_t divisor) {
  uint64_t rest = 0;
  for (uint32_t i = a->n; i-- > 0;) {
    rest = rest << 32 | a->limb[i];
    a->limb[i] = (uint32_t)(rest / divisor);
    rest %= divisor;
  }
  trim(a);
  return (uint32_t)rest;
}

void bigint_print(struct buf *out, const struct bigint *a, int base) {
  uint32_t chunk = base == 10   ? 1000000000u
                   : base == 16 ? 1u << 28
                   : base == 8  ? 1u << 30
                                : 1u << 31;
  int width = base == 10 ? 9 : base == 16 ? 7 : base == 8 ? 10 : 31;
  struct buf reversed;
  buf_init(&reversed, BUF_MAX_OWN);
  size_t size = sizeof *a + a->n * sizeof a->limb[0];
  struct buf copy;
  buf_init(&copy, BUF_MAX_OWN);
  buf_put(&copy, a, size);
  struct bigint *rest = (struct bigint *)(void *)copy.data;
  while (rest->n) {
    uint32_t part = divide_small(rest, chunk);
    for (int i = 0; i < width; i++) {
      if (!rest->n && !part)
        break;
      buf_putc(&reversed, "0123456789abcdef"[part % (uint32_t)base]);
      part /= (uint32_t)base;
    }
  }
  if (a->negative)
    buf_putc(out, '-');
  if (!reversed.len)
    buf_putc(out, '0');
  for (size_t i = reversed.len; i-- > 0;)
    buf_putc(out, reversed.data[i]);
  buf_free(&reversed);
  buf_free(&copy);
}

static int compare_size(const struct bigint *a, const struct bigint *b) {
  if (a->n != b->n)
    return a->n < b->n ? -1 : 1;
  for (uint32_t i = a->n; i-- > 0;)
    if (a->limb[i] != b->limb[i])
      return a->limb[i] < b->limb[i] ? -1 : 1;
  return 0;
}

int bigint_compare(const struct bigint *a, const struct bigint *b) {
  if (a->negative != b->negative)
    return a->negative ? -1 : 1;
  return a->negative ? compare_size(b, a) : compare_size(a, b);
}

static struct bigint *add_sizes(struct bigint_memory *m, const struct bigint *a,
                                const struct bigint *b) {
  uint32_t n = (a->n > b->n ? a->n : b->n) + 1;
  struct bigint *sum = make(m, n);
  uint64_t carry = 0;
  for (uint32_t i = 0; i < n; i++) {
    carry += (uint64_t)(i < a->n ? a->limb[i] : 0) + (i < b->n ? b->limb[i] : 0);
    sum->limb[i] = (uint32_t)carry;
    carry >>= 32;
  }
  return trim(sum);
}

/* |a| - |b|, where |a| >= |b|. */
static struct bigint *subtract_sizes(struct bigint_memory *m, const struct bigint *a,
                                     const struct bigint *b) {
  struct bigint *rest = make(m, a->n);
  int64_t borrow = 0;
  for (uint32_t i = 0; i < a->n; i++) {
    int64_t d = (int64_t)a->limb[i] - (i < b->n ? b->limb[i] : 0) + borrow;
    rest->limb[i] = (uint32_t)d;
    borrow = d < 0 ? -1 : 0;
  }
  return trim(rest);
}

static struct bigint *add_signed(struct bigint_memory *m, const struct bigint *a,
                                 const struct bigint *b, bool b_negative) {
  struct bigint *r;
  bool negative;
  if (a->negative == b_negative) {
    r = add_sizes(m, a, b);
    negative = a->negative;
  } else if (compare_size(a, b) >= 0) {
    r = subtract_sizes(m, a, b);
    negative = a->negative;
  } else {
    r = subtract_sizes(m, b, a);
    negative = b_negative;
  }
  r->negative = negative && r->n;
  return r->n > BIGINT_MAX_LIMBS ? NULL : r;
}

struct bigint *bigint_add(struct bigint_memory *m, const struct bigint *a, const struct bigint *b) {
  return add_signed(m, a, b, b->negative);
}

struct bigint *bigint_sub(struct bigint_memory *m, const struct bigint *a, const struct bigint *b) {
  return add_signed(m, a, b, !b->negative);
}

struct bigint *bigint_mul(struct bigint_memory *m, const struct bigint *a, const struct bigint *b) {
  if (a->n + b->n > BIGINT_MAX_LIMBS)
    return NULL;
  struct bigint *r = make(m, a->n + b->n);
  for (uint32_t i = 0; i < a->n; i++) {
    uint64_t carry = 0;
    for (uint32_t k = 0; k < b->n; k++) {
      carry += (uint64_t)a->limb[i] * b->limb[k] + r->limb[i + k];
      r->limb[i + k] = (uint32_t)carry;
      carry >>= 32;
    }
    r->limb[i + b->n] = (uint32_t)carry;
  }
  trim(r);
  r->negative = a->negative != b->negative && r->n;
  return r;
}

static struct bigint *shift_left(struct bigint_memory *m, const struct bigint *a, int bits) {
  struct bigint *r = make(m, a->n + 1);
  uint64_t carry = 0;
  for (uint32_t i = 0; i < a->n; i++) {
    carry |= (uint64_t)a->limb[i] << bits;
    r->limb[i] = (uint32_t)carry;
    carry >>= 32;
  }
  r->limb[a->n] = (uint32_t)carry;
  return r;
}

/* One digit of the quotient: how often v goes into the n + 1 limbs at u, which are reduced. */
static uint32_t quotient_digit(uint32_t *u, const uint32_t *v, uint32_t n) {
  uint64_t top = (uint64_t)u[n] << 32 | u[n - 1];
  uint64_t guess = top / v[n - 1], rest = top % v[n - 1];
  while (guess > UINT32_MAX || guess * v[n - 2] > (rest << 32 | u[n - 2])) {
    guess--;
    rest += v[n - 1];
    if (rest > UINT32_MAX)
      break;
  }
  int64_t borrow = 0;
  uint64_t carry = 0;
  for (uint32_t i = 0; i < n; i++) {
    carry += guess * v[i];
    borrow += (int64_t)u[i] - (int64_t)(uint32_t)carry;
    u[i] = (uint32_t)borrow;
    borrow >>= 32;
    carry >>= 32;
  }
  borrow += (int64_t)u[n] - (int64_t)carry;
  u[n] = (uint32_t)borrow;
  if (borrow >= 0)
    return (uint32_t)guess;
  uint64_t back = 0; /* one too many: add v back */
  for (uint32_t i = 0; i < n; i++) {
    back += (uint64_t)u[i] + v[i];
    u[i] = (uint32_t)back;
    back >>= 32;
  }
  u[n] += (uint32_t)back;
  return (uint32_t)guess - 1;
}

/* |a| ÷ |b| for b of two limbs and more, |a| >= |b|. */
static void divide_long(struct bigint_memory *m, const struct bigint *a, const struct bigint *b,
                        struct bigint **quotient, struct bigint **remainder) {
  int bits = __builtin_clz(b->limb[b->n - 1]);
  struct bigint *u = shift_left(m, a, bits), *v = shift_left(m, b, bits);
  struct bigint *q = make(m, a->n - b->n + 1);
  for (uint32_t j = a->n - b->n + 1; j-- > 0;)
    q->limb[j] = quotient_digit(u->limb + j, v->limb, b->n);
  u->n = b->n;
  for (uint32_t i = 0; i < b->n; i++) { /* the remainder, shifted back */
    uint64_t pair = (uint64_t)(i + 1 < b->n ? u->limb[i + 1] : 0) << 32 | u->limb[i];
    u->limb[i] = (uint32_t)(pair >> bits);
  }
  *quotient = trim(q);
  *remainder = trim(u);
}

void bigint_divmod(struct bigint_memory *m, const struct bigint *a, const struct bigint *b,
                   struct bigint **quotient, struct bigint **remainder) {
  struct bigint *q, *r;
  if (compare_size(a, b) < 0) {
    q = make(m, 0);
    r = add_sizes(m, a, q);
  } else if (b->n == 1) {
    q = add_sizes(m, a, make(m, 0));
    r = bigint_from_int(m, divide_small(q, b->limb[0]));
  } else {
    divide_long(m, a, b, &q, &r);
  }
  q->negative = a->negative != b->negative && q->n;
  r->negative = a->negative && r->n;
  if (r->n && r->negative != b->negative) { /* Python rounds down, and the rest has b's sign */
    r = bigint_add(m, r, b);
    q = bigint_sub(m, q, bigint_from_int(m, 1));
  }
  if (quotient)
    *quotient = q;
  if (remainder)
    *remainder = r;
}

struct bigint *bigint_pow(struct bigint_memory *m, const struct bigint *a, uint32_t exponent) {
  struct bigint *r = bigint_from_int(m, 1), *square = add_sizes(m, a, make(m, 0));
  square->negative = a->negative;
  while (exponent) {
    if (exponent & 1) {
      r = bigint_mul(m, r, square);
      if (!r)
        return NULL;
    }
    exponent >>= 1;
    if (exponent) {
      square = bigint_mul(m, square, square);
      if (!square)
        return NULL;
    }
  }
  return r;
}
