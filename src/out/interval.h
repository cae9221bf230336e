/* interval.h: 95 % intervals by session: of means, shares, percentiles and their differences.
 *
 * Turns of one session are not independent: a session ("cluster") counts as one observation.
 * Leaving out one session at a time (the jackknife) gives the spread, Student's t the width, with
 * as many degrees of freedom as sessions of one length would have. Shares: Wilson's interval at the
 * number of independent requests that the spread amounts to, so that 0 of n is not "exactly 0".
 * Percentiles: Woodruff's interval: the share of values up to the percentile is p give or take, and
 * the values at both ends are the interval; none when an end lies beyond the values.
 *
 * How often they hold the truth, in 1000 simulated runs each (tests/soak/coverage.c): lognormal
 * values, a third to a half of the spread between sessions, 1 to 8 values per session:
 *   sessions   2    3    5   10   20   40   80  200
 *   mean     93.3 94.1 92.1 91.1 92.3 92.3 93.7 93.6 %   (by chance alone unrelated values: 95 to
 * 96) p50                94.7 95.2 95.7 95.1 96.2 95.1
 *   p90                     86.2 92.1 94.0 94.2 93.3
 *   p95                          79.3 92.4 92.5 94.7
 *   p99                               89.5 91.6 93.2
 * (p99 at 40 and 80 sessions with 1 to 40 values each.) From interval_needs on that is 92 % or
 * more; below there is no interval. Values of heavier tails hold less. The percentiles of a
 * bootstrap over sessions held 74 to 86 % where these hold 90 to 92. */
#ifndef OUT_INTERVAL_H
#define OUT_INTERVAL_H

#include "base/base.h"

/* How many sessions an interval of a mean or a share needs, and one of the p-quantile: 2 / (1 − p),
 * 2 / p below the median, at least 5. */
#define INTERVAL_NEEDS_MEAN 2
uint32_t interval_needs(double p);

enum interval_of { INTERVAL_MEAN, INTERVAL_SHARE, INTERVAL_QUANTILE };

/* Why there is none with so many sessions, for a person. p < 0: of a mean or a share. */
void interval_why(uint32_t sessions, double p, char *out, size_t size);

/* One series of values with their sessions. */
struct interval_side {
  const double *x;         /* n values; ascending for a quantile; 0 and 1 for a share */
  const uint32_t *cluster; /* of each, < n_clusters of the call */
  size_t n;
  enum interval_of of;
  double p; /* of INTERVAL_QUANTILE */
};

/* The interval at `level` (0.95). false, *lo and *hi NAN: too few sessions, or no finite mean. */
NODISCARD bool interval_of_side(const struct interval_side *s, uint32_t n_clusters, double level,
                                double *lo, double *hi);

/* The 95 % interval of left − right, or with `relative` of left / right − 1, made of both sides'
 * own and of how far their sessions go together (Zou and Donner 2008): sessions that both share
 * are paired. `right` NULL: against the number `against`. false, *lo and *hi NAN: a side has no
 * interval, or `relative` and one end of an interval is not above 0. */
NODISCARD bool interval_difference(const struct interval_side *left,
                                   const struct interval_side *right, double against, bool relative,
                                   uint32_t n_clusters, double *lo, double *hi);

#endif
