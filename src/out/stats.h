/* stats.h: plain statistics on samples: order, quantiles, mean, spread.
 *
 * Quantiles are numpy's default (linear interpolation, "type 7") on all samples. A percentile is
 * refused when there are fewer than 5/(1 − p) samples: p99 needs 500. Everything here is pure. */
#ifndef OUT_STATS_H
#define OUT_STATS_H

#include "base/base.h"

/* Sorts x ascending and carries tag[i] along with x[i] (tag may be NULL). Linear time; no NAN. */
void stats_sort(double *x, uint32_t *tag, size_t n);

/* The p-quantile (0 <= p <= 1) of n ascending values; NAN when n is 0. */
double stats_quantile(const double *sorted, size_t n, double p);

/* stats_quantile of values in any order, which are put into another: linear time, no memory. */
double stats_quantile_select(double *x, size_t n, double p);

/* stats_quantile with `n_infinite` more values of +infinity at the end ("as infinity": each failed
 * request counts as never answered). INFINITY when the quantile falls among them. */
double stats_quantile_infinite(const double *sorted, size_t n, size_t n_infinite, double p);

/* The smallest n for which the p-quantile is not refused: 5/(1 − p), 5/p below the median. */
uint64_t stats_quantile_needs(double p);

/* NAN when n is 0. Summed in the order given, compensated, so equal input gives equal bits. */
double stats_mean(const double *x, size_t n);
/* Compensated sum (Neumaier). */
double stats_sum(const double *x, size_t n);
/* A sum that does not depend on the order of its values, which are 0 to 2^20, each taken to the
 * nearest 2^-40. */
struct fixed_sum {
  uint64_t whole, part; /* part in 2^-40 */
};
static inline void fixed_sum_add(struct fixed_sum *s, double x) {
  uint64_t n = s->part + (uint64_t)(x * 0x1p40 + 0.5);
  s->whole += n >> 40;
  s->part = n & ((UINT64_C(1) << 40) - 1);
}
static inline void fixed_sum_merge(struct fixed_sum *s, const struct fixed_sum *other) {
  uint64_t n = s->part + other->part;
  s->whole += other->whole + (n >> 40);
  s->part = n & ((UINT64_C(1) << 40) - 1);
}
static inline double fixed_sum_value(const struct fixed_sum *s) {
  return (double)s->whole + (double)s->part / 0x1p40;
}

/* Sample standard deviation (n − 1); NAN when n < 2. */
double stats_sd(const double *x, size_t n, double mean);

/* Standard normal distribution function, and the p-quantile of Student's t with df >= 1 degrees of
 * freedom (Hill 1970; relative error below 1e-4, exact for 1 and 2). */
double stats_normal_cdf(double z);
double stats_t_quantile(double p, double df);

#endif
