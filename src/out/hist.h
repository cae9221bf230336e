/* hist.h: a mergeable histogram of times with a stated relative error.
 *
 * Log-linear: every power of two is cut into 128 equal parts, so a value reported from its bucket
 * is off by at most 1/256 (0.39 %); values below 256 are exact. Any uint64 fits, the size is fixed
 * (58 KiB), adding is a few instructions, and merging shards gives exactly what one would have
 * given. For lags, and for gaps beyond the number that is kept whole. */
#ifndef OUT_HIST_H
#define OUT_HIST_H

#include "base/base.h"

#define HIST_SUB_BITS 7
#define HIST_BUCKETS ((65 - HIST_SUB_BITS) << HIST_SUB_BITS)
/* Largest relative distance between a value and what the histogram says it was. */
#define HIST_RELATIVE_ERROR (1.0 / 256)

struct hist {
  uint64_t n, min, max;
  double sum;
  uint64_t counts[HIST_BUCKETS];
};

/* hist_init also resets one that was used. */
void hist_init(struct hist *h);
void hist_add(struct hist *h, uint64_t value);
/* h = h + other. */
void hist_merge(struct hist *h, const struct hist *other);

/* The p-quantile (0 <= p <= 1) in the unit of the values: that of the two neighbouring ranks which
 * linear interpolation would weigh more, within HIST_RELATIVE_ERROR. min and max are exact.
 * NAN when empty. */
double hist_quantile(const struct hist *h, double p);
/* Exact but for rounding; NAN when empty. */
double hist_mean(const struct hist *h);

/* For tests and merging by hand: a value's bucket, and the middle of a bucket. */
uint32_t hist_bucket(uint64_t value);
double hist_bucket_middle(uint32_t bucket);

#endif
