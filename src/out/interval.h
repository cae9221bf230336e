/* interval.h: 95 % intervals by session: of means, shares, percentiles and their differences.
 *
 * Turns of one session are not independent: a session ("cluster") counts as one observation.
 * Leaving out one session at a time (the jackknife) gives the spread, Student's t the width, with
 * as many degrees of freedom as sessions of one length would have. Shares: Wilson's interval at the
 * number of independent requests that the spread amounts to, so that 0 of n is not "exactly 0".
 * Percentiles: Woodruff's interval: the share of values up to the percentile is p give or take, and
 * the values at both ends are the interval; none when an end lies beyond the values.
 *
 * How often they hold the truth, in 1000 simulated runs each (test_interval.c with COVERAGE_RUNS,
 * tests/soak/test_coverage.py): 1 to 8 lognormal values per session, half of the spread between
 * sessions:
 *   sessions   2    3    5   10   20   40   80  200
 *   mean     95.1 94.5 94.0 92.7 93.2 95.2 93.9 94.5 %
 *   p50                     96.5 96.1 96.5 95.9 94.8
 *   p90                          92.2 95.6 94.3 94.4
 *   p95                               94.2 94.4 93.9
 *   p99                                         93.4
 * Empty: fewer sessions than interval_needs (chosen so that the rest is above 92), or no interval
 * in most runs. Values of heavier tails hold less: a mean about 80 % at 10 sessions when sessions
 * differ twice as much. Percentiles of a bootstrap over sessions held 88 % (p90, 20 sessions), 86 %
 * (p95, 40) and 86 % (p99, 120) in the same runs. */
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
