/* rng.c: xoshiro256** (Blackman and Vigna), SplitMix64 seeding, portable distributions. */
#include "base/rng.h"

#include <math.h>
#include <string.h>

static uint64_t splitmix(uint64_t *x) {
  uint64_t z = (*x += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static uint64_t mix2(uint64_t a, uint64_t b) {
  uint64_t x = a;
  uint64_t h = splitmix(&x) ^ b;
  return splitmix(&h);
}

static void seed_from_key(struct rng *r, uint64_t key) {
  r->key = key;
  r->splits = 0;
  uint64_t x = key;
  for (int i = 0; i < 4; i++)
    r->s[i] = splitmix(&x);
}

void rng_init(struct rng *r, uint64_t seed, uint64_t stream) {
  seed_from_key(r, mix2(mix2(UINT64_C(0x7065726967656531), seed), stream));
}

void rng_split(struct rng *r, struct rng *child) {
  seed_from_key(child, mix2(r->key ^ UINT64_C(0x73706C6974), ++r->splits));
}

void rng_init_bytes(struct rng *r, uint64_t seed, const void *data, size_t len) {
  const unsigned char *p = data;
  uint64_t h = mix2(seed, len);
  while (len >= 8) {
    uint64_t word = 0;
    for (int i = 0; i < 8; i++) /* little-endian on every machine */
      word |= (uint64_t)p[i] << (8 * i);
    h = mix2(h, word);
    p += 8;
    len -= 8;
  }
  uint64_t tail = 0;
  for (size_t i = 0; i < len; i++)
    tail |= (uint64_t)p[i] << (8 * i);
  seed_from_key(r, mix2(h, tail));
}

static uint64_t rotl(uint64_t x, int k) {
  return (x << k) | (x >> (64 - k));
}

uint64_t rng_u64(struct rng *r) {
  uint64_t *s = r->s;
  uint64_t result = rotl(s[1] * 5, 7) * 9;
  uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotl(s[3], 45);
  return result;
}

double rng_unit(struct rng *r) {
  return (double)(rng_u64(r) >> 11) * 0x1.0p-53;
}

int64_t rng_int(struct rng *r, int64_t lo, int64_t hi) {
  assert(lo <= hi);
  uint64_t span = (uint64_t)hi - (uint64_t)lo + 1;
  if (span == 0) /* the whole 64-bit range */
    return (int64_t)rng_u64(r);
  uint64_t limit = UINT64_MAX - (UINT64_MAX % span + 1) % span;
  uint64_t x;
  do
    x = rng_u64(r);
  while (x > limit);
  return (int64_t)((uint64_t)lo + x % span);
}

/* ln x = k ln 2 + 2 atanh((m−1)/(m+1)) with m in [√½, √2): the series in z² converges below 0.03.
 */
double rng_ln(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int k = 0;
  if (bits < (UINT64_C(1) << 52)) { /* subnormal */
    x *= 0x1.0p54;
    k = -54;
    memcpy(&bits, &x, sizeof bits);
  }
  k += (int)(bits >> 52) - 1023;
  bits = (bits & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52);
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m > 1.4142135623730951) {
    m /= 2;
    k++;
  }
  double z = (m - 1) / (m + 1), z2 = z * z, sum = 0;
  for (int i = 25; i >= 1; i -= 2)
    sum = sum * z2 + 1.0 / i;
  return (double)k * 0.6931471805599453 + 2 * z * sum;
}

/* e^x = 2^k e^r with |r| <= ln 2 / 2, Taylor to the last place; the scaling is exact. */
double rng_expm(double x) {
  if (x > 709)
    x = 709;
  if (x < -700)
    return 0;
  double kf = x / 0.6931471805599453;
  int k = (int)(kf < 0 ? kf - 0.5 : kf + 0.5);
  double r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
  double sum = 1;
  for (int i = 18; i >= 1; i--)
    sum = 1 + sum * r / i;
  uint64_t bits = (uint64_t)(k + 1023) << 52;
  double scale;
  memcpy(&scale, &bits, sizeof scale);
  return sum * scale;
}

double rng_exp(struct rng *r, double mean) {
  return -mean * rng_ln(1.0 - rng_unit(r));
}

/* Marsaglia's polar method; the second value is dropped so that a draw has no hidden state. */
double rng_normal(struct rng *r, double mean, double sd) {
  double u, v, s;
  do {
    u = 2 * rng_unit(r) - 1;
    v = 2 * rng_unit(r) - 1;
    s = u * u + v * v;
  } while (s >= 1 || s <= 0);
  return mean + sd * u * sqrt(-2 * rng_ln(s) / s);
}

double rng_lognormal(struct rng *r, double mu, double sigma) {
  return rng_expm(rng_normal(r, mu, sigma));
}
