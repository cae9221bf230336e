/* stats.c: sorting by radix (a million samples must be summarised within a second or two), then
 * quantiles by position. */
#include "out/stats.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#define DIGIT_BITS 11
#define DIGITS 6 /* 6 × 11 >= 64 */
#define RADIX (1u << DIGIT_BITS)
#define SMALL 96 /* below, insertion beats clearing the counters */

/* The bits of a double as an unsigned number of the same order. */
static uint64_t key_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits & (UINT64_C(1) << 63) ? ~bits : bits | (UINT64_C(1) << 63);
}

static double value_of(uint64_t key) {
  uint64_t bits = key & (UINT64_C(1) << 63) ? key & ~(UINT64_C(1) << 63) : ~key;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void sort_small(double *x, uint32_t *tag, size_t n) {
  for (size_t i = 1; i < n; i++) {
    double v = x[i];
    uint32_t t = tag ? tag[i] : 0;
    size_t j = i;
    for (; j > 0 && x[j - 1] > v; j--) {
      x[j] = x[j - 1];
      if (tag)
        tag[j] = tag[j - 1];
    }
    x[j] = v;
    if (tag)
      tag[j] = t;
  }
}

/* Keys with their tags, which move along; tag NULL: none. */
struct keys {
  double *key; /* memory for n keys, which are no doubles meanwhile */
  uint32_t *tag;
};

static uint64_t key_at(const double *key, size_t i) {
  uint64_t bits;
  memcpy(&bits, &key[i], sizeof bits);
  return bits;
}

static void put_key(double *key, size_t i, uint64_t bits) {
  memcpy(&key[i], &bits, sizeof bits);
}

/* One stable counting pass over digit `d`; false when all keys agree there and nothing is to do. */
static bool sort_pass(struct keys from, struct keys to, size_t n, size_t *counts, int d) {
  int shift = d * DIGIT_BITS;
  if (counts[(key_at(from.key, 0) >> shift) & (RADIX - 1)] == n)
    return false;
  size_t at = 0;
  for (size_t i = 0; i < RADIX; i++) {
    size_t c = counts[i];
    counts[i] = at;
    at += c;
  }
  for (size_t i = 0; i < n; i++) {
    uint64_t key = key_at(from.key, i);
    size_t place = counts[(key >> shift) & (RADIX - 1)]++;
    put_key(to.key, place, key);
    if (from.tag)
      to.tag[place] = from.tag[i];
  }
  return true;
}

/* The values become keys where they stand, and go to and fro between there and as much again. */
void stats_sort(double *x, uint32_t *tag, size_t n) {
  if (n < SMALL) {
    sort_small(x, tag, n);
    return;
  }
  struct keys a = {x, tag}, b = {mem_resize(NULL, n, sizeof *b.key), NULL};
  b.tag = tag ? mem_resize(NULL, n, sizeof *b.tag) : NULL;
  struct keys spare = b;
  size_t(*counts)[RADIX] = mem_calloc(DIGITS, sizeof *counts);
  for (size_t i = 0; i < n; i++) {
    uint64_t key = key_of(x[i]);
    put_key(x, i, key);
    for (int d = 0; d < DIGITS; d++)
      counts[d][(key >> (d * DIGIT_BITS)) & (RADIX - 1)]++;
  }
  for (int d = 0; d < DIGITS; d++)
    if (sort_pass(a, b, n, counts[d], d)) {
      struct keys swapped = a;
      a = b;
      b = swapped;
    }
  for (size_t i = 0; i < n; i++)
    x[i] = value_of(key_at(a.key, i));
  if (tag && a.tag != tag)
    memcpy(tag, a.tag, n * sizeof *tag);
  mem_free(spare.key);
  mem_free(spare.tag);
  mem_free(counts);
}

/* numpy's lerp: from the nearer end, so that the result is monotone and exact at both. */
static double between(double a, double b, double t) {
  return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

double stats_quantile(const double *sorted, size_t n, double p) {
  return stats_quantile_infinite(sorted, n, 0, p);
}

double stats_quantile_infinite(const double *sorted, size_t n, size_t n_infinite, double p) {
  assert(p >= 0 && p <= 1);
  size_t all = n + n_infinite;
  if (!all)
    return NAN;
  double h = (double)(all - 1) * p;
  size_t k = (size_t)h;
  double t = h - (double)k;
  if (k >= n || (t > 0 && k + 1 >= n && k + 1 < all))
    return INFINITY;
  if (k + 1 >= n || t <= 0)
    return sorted[k];
  return between(sorted[k], sorted[k + 1], t);
}

static void swap(double *a, double *b) {
  double v = *a;
  *a = *b;
  *b = v;
}

/* Puts the value of rank k at x[k], no larger ones before it and no smaller ones behind (Hoare
 * 1961, the middle of three as pivot). Orders that defeat the pivot end in a sort. */
static void select_rank(double *x, size_t n, size_t k) {
  size_t lo = 0, hi = n; /* k is in [lo, hi) */
  for (int rounds = 0; hi - lo > 16; rounds++) {
    if (rounds == 100) {
      stats_sort(x + lo, NULL, hi - lo);
      return;
    }
    size_t mid = lo + (hi - lo) / 2, i = lo, j = hi - 1;
    if (x[mid] < x[lo])
      swap(&x[mid], &x[lo]);
    if (x[hi - 1] < x[lo])
      swap(&x[hi - 1], &x[lo]);
    if (x[hi - 1] < x[mid])
      swap(&x[hi - 1], &x[mid]);
    double pivot = x[mid];
    for (;;) {
      while (x[i] < pivot)
        i++;
      while (pivot < x[j])
        j--;
      if (i >= j)
        break;
      swap(&x[i++], &x[j--]);
    }
    /* [lo, i) <= pivot <= (j, hi); i == j + 1, or i == j at a value that is the pivot */
    if (k < i)
      hi = i;
    else if (k > j)
      lo = j + 1;
    else
      return;
  }
  sort_small(x + lo, NULL, hi - lo);
}

double stats_quantile_select(double *x, size_t n, double p) {
  assert(p >= 0 && p <= 1);
  if (!n)
    return NAN;
  double h = (double)(n - 1) * p;
  size_t k = (size_t)h;
  double t = h - (double)k;
  select_rank(x, n, k);
  if (k + 1 >= n || t <= 0)
    return x[k];
  double above = x[k + 1];
  for (size_t i = k + 2; i < n; i++)
    above = x[i] < above ? x[i] : above;
  return between(x[k], above, t);
}

uint64_t stats_quantile_needs(double p) {
  double tail = p > 0.5 ? 1 - p : p;
  /* 1 − 0.99 is a hair above 0.01: without the slack 5/(1 − p) would ask for one sample more. */
  return tail > 0 ? (uint64_t)ceil(5 / tail - 1e-6) : 1;
}

double stats_sum(const double *x, size_t n) {
  double sum = 0, lost = 0;
  for (size_t i = 0; i < n; i++) {
    double next = sum + x[i];
    lost += fabs(sum) >= fabs(x[i]) ? (sum - next) + x[i] : (x[i] - next) + sum;
    sum = next;
  }
  return sum + lost;
}

double stats_mean(const double *x, size_t n) {
  double sum = stats_sum(x, n), mean = 0;
  if (!n || isfinite(sum))
    return n ? sum / (double)n : NAN;
  for (size_t i = 0; i < n; i++) /* the sum is beyond a double, its parts are not */
    mean += x[i] / (double)n;
  return mean;
}

double stats_sd(const double *x, size_t n, double mean) {
  if (n < 2)
    return NAN;
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += (x[i] - mean) * (x[i] - mean);
  return sqrt(sum / (double)(n - 1));
}

double stats_normal_cdf(double z) {
  return erfc(-z * 0.70710678118654752440) / 2;
}

/* The standard normal's quantile, by bisection on the distribution function: called a handful of
 * times per report. */
static double normal_quantile(double p) {
  double lo = -40, hi = 40;
  for (int i = 0; i < 100; i++) {
    double mid = (lo + hi) / 2;
    if (stats_normal_cdf(mid) < p)
      lo = mid;
    else
      hi = mid;
  }
  return (lo + hi) / 2;
}

/* G. W. Hill, "Algorithm 396: Student's t-quantiles", CACM 13 (1970); two-tailed inside. */
double stats_t_quantile(double p, double df) {
  assert(p > 0 && p < 1 && df >= 1);
  const double pi = 3.14159265358979323846;
  if (p < 0.5)
    return -stats_t_quantile(1 - p, df);
  double tails = 2 * (1 - p);
  if (df < 1.5)
    return 1 / tan(tails * pi / 2);
  if (df < 2.5)
    return sqrt(2 / (tails * (2 - tails)) - 2);
  double a = 1 / (df - 0.5), b = 48 / (a * a);
  double c = ((20700 * a / b - 98) * a - 16) * a + 96.36;
  double d = ((94.5 / (b + c) - 3) / b + 1) * sqrt(a * pi / 2) * df;
  double y = pow(d * tails, 2 / df);
  if (y > 0.05 + a) {
    double x = normal_quantile(tails / 2);
    y = x * x;
    if (df < 5)
      c += 0.3 * (df - 4.5) * (x + 0.6);
    c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c;
    y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x;
    y = a * y * y;
    y = y > 0.002 ? expm1(y) : y * y / 2 + y;
  } else {
    y = ((1 / (((df + 6) / (df * y) - 0.089 * d - 0.822) * (df + 2) * 3) + 0.5 / (df + 4)) * y -
         1) *
            (df + 1) / (df + 2) +
        1 / y;
  }
  return sqrt(df * y);
}
