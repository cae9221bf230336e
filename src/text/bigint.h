/* bigint.h: whole numbers of any size, as Python's int has them.
 *
 * Templates compute with them rarely, but a JSON schema may say 18446744073709551615 and must print
 * so. Sign and magnitude in 32-bit limbs; schoolbook methods, bounded by BIGINT_MAX_LIMBS. Numbers
 * live in memory the caller's allocator gives; nothing is freed here. */
#ifndef TEXT_BIGINT_H
#define TEXT_BIGINT_H

#include "base/buf.h"

/* 8,192 limbs are 78,913 decimal digits; Python itself refuses to print more than 4,300. */
#define BIGINT_MAX_LIMBS 8192

struct bigint {
  bool negative;
  uint32_t n;      /* limbs in use; 0 is zero, the top limb is never 0 */
  uint32_t limb[]; /* least significant first */
};

/* Gives `size` bytes that live as long as the numbers are used; never NULL. */
struct bigint_memory {
  void *(*get)(void *user, size_t size);
  void *user;
};

struct bigint *bigint_from_int(struct bigint_memory *m, int64_t i);
/* Digits of base 2 to 36 without sign, prefix or underscores; NULL when too long. */
struct bigint *bigint_from_digits(struct bigint_memory *m, const char *s, size_t len, int base,
                                  bool negative);
/* The whole part of a finite d; NULL when too long. */
struct bigint *bigint_from_double(struct bigint_memory *m, double d);

/* Whether it fits 64 bits with sign; *out gets it. */
bool bigint_to_int(const struct bigint *a, int64_t *out);
/* Rounded half to even; infinite when it is too large. */
double bigint_to_double(const struct bigint *a);
/* Appends its digits in base 2, 8, 10 or 16 (lower case), with a minus sign when negative. */
void bigint_print(struct buf *out, const struct bigint *a, int base);

/* -1, 0 or 1. */
int bigint_compare(const struct bigint *a, const struct bigint *b);
/* NULL when the result has more than BIGINT_MAX_LIMBS. */
struct bigint *bigint_add(struct bigint_memory *m, const struct bigint *a, const struct bigint *b);
struct bigint *bigint_sub(struct bigint_memory *m, const struct bigint *a, const struct bigint *b);
struct bigint *bigint_mul(struct bigint_memory *m, const struct bigint *a, const struct bigint *b);
/* Quotient rounded down and remainder with b's sign, as Python divides; b is not zero. Either
 * pointer may be NULL. */
void bigint_divmod(struct bigint_memory *m, const struct bigint *a, const struct bigint *b,
                   struct bigint **quotient, struct bigint **remainder);
struct bigint *bigint_pow(struct bigint_memory *m, const struct bigint *a, uint32_t exponent);
/* Number of bits of |a|. */
uint32_t bigint_bits(const struct bigint *a);

#endif
