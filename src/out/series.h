/* series.h: the values of one metric with the session of each: what statistics are made from. */
#ifndef OUT_SERIES_H
#define OUT_SERIES_H

#include "out/filter.h"
#include "out/metrics.h"

struct series {
  double *x;         /* in the table's unit (times in ns); divide by `div` */
  uint32_t *cluster; /* session number of each */
  size_t n, cap;
  double div;
  uint32_t n_sessions; /* different ones among them */
  bool sorted;
  /* Set when the values themselves are not kept; then n is its count and x is NULL. Borrowed from
   * the table, or owned when several had to be merged. */
  const struct hist *hist;
  struct hist *own_hist;
  uint64_t assumed;   /* tpot: of the n, those whose first event was taken to hold one token */
  uint64_t same_read; /* tpot: replies not among the n because all their events came in one read */
  uint64_t rejected;  /* matched rows that had no such value */
};

/* Values of measured requests (sessions, gaps …) that match. An indicator's values are 0 and 1.
 * Histogram metrics ignore the filter's tags: expect_parse refuses those. */
void series_collect(struct series *s, const struct table *t, const struct metrics *m,
                    const struct metric *metric, const struct filter *f);
/* The same for several at once: the table, which may be hundreds of megabytes, is walked once for
 * all metrics of requests. */
struct series_want {
  const struct metric *metric;
  const struct filter *filter; /* NULL: everything */
};
void series_collect_all(struct series *out, const struct series_want *want, size_t n,
                        const struct table *t, const struct metrics *m);
void series_free(struct series *s);
/* Ascending, sessions carried along. */
void series_sort(struct series *s);

/* A statistic in base units; `p` for STAT_QUANTILE. The series must be sorted for quantiles, min
 * and max. NAN when there is no value. STAT_RATE is series_rate's. */
double series_stat(const struct series *s, const struct metric *metric, enum statistic stat,
                   double p);

/* Per second of the arm's windows, by what happened inside them, whichever session it belonged to:
 * requests and sessions that ended well there, output tokens by their stamps and prompt tokens by
 * the first of those (failed requests have none), other indicators by the request's end; the sum of
 * the script's values (of checks, those that were true) by when they were given. NAN when no window
 * is known. */
double series_rate(const struct table *t, const struct metrics *m, const struct metric *metric,
                   const struct filter *f);
/* The same for several metrics at once. */
void series_rates(double *out, const struct metric *const *metrics, size_t n, const struct table *t,
                  const struct metrics *m, const struct filter *f);

#endif
