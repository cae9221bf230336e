/* bootstrap.h: 95 % intervals for means and quantiles, resampling whole sessions.
 *
 * Turns of one session are not independent, so sessions ("clusters") are drawn, not requests: a
 * replicate gives every session a multinomial weight, and the statistic is computed exactly on the
 * weighted samples. All jobs of one call share the weights, so that differences between them are
 * paired where their sessions are the same. Same input and seed, same bits. More sessions than
 * BOOTSTRAP_UNITS are resampled in groups of neighbours, which stays valid and bounds the work.
 *
 * For statistics that have no formula. Reports and expectations use interval.h, whose percentiles
 * hold the truth more often where sessions are few. */
#ifndef OUT_BOOTSTRAP_H
#define OUT_BOOTSTRAP_H

#include "base/base.h"

#define BOOTSTRAP_UNITS 8192
#define BOOTSTRAP_MAX_SAMPLES ((size_t)1 << 25) /* of one job */

struct bootstrap_job {
  const double *x;         /* n values; ascending when n_probs > 0 */
  const uint32_t *cluster; /* of each value, < n_clusters of the call */
  size_t n;
  const double *probs; /* quantiles wanted, each 0..1 */
  size_t n_probs;
  /* Result, the caller's: replicates × (1 + n_probs) doubles, row by row: the mean, then the
   * quantiles. NAN where a replicate drew no session of this job. */
  double *out;
};

/* How many replicates for `n` samples in all jobs together: 1000 for small runs, 200 for large. */
uint32_t bootstrap_replicates(size_t n);

void bootstrap_run(struct bootstrap_job *jobs, size_t n_jobs, uint32_t n_clusters,
                   uint32_t replicates, uint64_t seed);

/* The 95 % interval of column `column` of rows of `width` doubles. The percentiles are widened for
 * a small number of sessions (the expanded percentile interval of Hesterberg 2015, §5.4).
 * false, *lo and *hi NAN: fewer than two sessions, or a statistic that is NAN or infinite. */
bool bootstrap_interval(const double *rows, size_t width, size_t column, uint32_t replicates,
                        uint32_t n_sessions, double *lo, double *hi);

#endif
