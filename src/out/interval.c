/* interval.c: the jackknife over sessions, and what is made of it. */
#include "out/interval.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "out/stats.h"

#define LEAST_SESSIONS 5 /* of a quantile's interval */

uint32_t interval_needs(double p) {
  double tail = p < 0.5 ? p : 1 - p, n = ceil(2 / tail - 1e-6);
  return n < LEAST_SESSIONS ? LEAST_SESSIONS : n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

void interval_why(uint32_t sessions, double p, char *out, size_t size) {
  uint32_t needs = p < 0 ? INTERVAL_NEEDS_MEAN : interval_needs(p);
  if (sessions < needs)
    snprintf(out, size, "too few sessions (%u of at least %u)", sessions, needs);
  else
    snprintf(out, size, "too few sessions (%u, which differ too much)", sessions);
}

/* A side's figure (a mean, or of a quantile the share of values up to it), what it is without each
 * session, and its interval. */
struct spread {
  double *less; /* by cluster: figure without it − figure; 0 where it has no value */
  double figure, variance;
  double t;      /* Student's, at the level */
  double value;  /* mean or quantile */
  double lo, hi; /* its interval */
  uint32_t sessions;
};

/* Sessions of different length say as much as fewer of one length (Kish). */
static double freedom(const uint32_t *n, uint32_t n_clusters, size_t all) {
  double squares = 0;
  for (uint32_t c = 0; c < n_clusters; c++)
    squares += (double)n[c] * n[c];
  double equal = (double)all * (double)all / squares;
  return equal > 2 ? equal - 1 : 1;
}

/* The value that is spread out: of a quantile whether it is at most that. */
static double observed(const struct interval_side *s, size_t i, double quantile) {
  return s->of == INTERVAL_QUANTILE ? s->x[i] <= quantile : s->x[i];
}

static void leave_out(struct spread *o, const struct interval_side *s, uint32_t n_clusters,
                      double level) {
  double *sum = o->less = mem_calloc(n_clusters, sizeof *sum), squares = 0;
  uint32_t *n = mem_calloc(n_clusters, sizeof *n);
  for (size_t i = 0; i < s->n; i++) {
    assert(s->cluster[i] < n_clusters);
    sum[s->cluster[i]] += observed(s, i, o->value);
    n[s->cluster[i]]++;
  }
  double all = stats_sum(sum, n_clusters);
  o->figure = all / (double)s->n;
  for (uint32_t c = 0; c < n_clusters; c++) {
    o->sessions += n[c] > 0;
    bool counts = n[c] > 0 && n[c] < s->n;
    /* (all − sum) / (N − n) − all / N, without subtracting what is nearly equal */
    sum[c] = counts ? (n[c] * o->figure - sum[c]) / (double)(s->n - n[c]) : 0;
    squares += sum[c] * sum[c];
  }
  o->variance = o->sessions > 1 ? squares * (o->sessions - 1) / o->sessions : (double)NAN;
  if (o->sessions > 1)
    o->t = stats_t_quantile(0.5 + level / 2, freedom(n, n_clusters, s->n));
  mem_free(n);
}

/* Wilson's interval of a share among n independent requests: not more than there are, and as many
 * as sessions where none or all were so, which shows no spread. */
static void of_share(struct spread *o, size_t all) {
  double p = o->figure, n = p * (1 - p) / o->variance;
  if (!(p > 0) || !(p < 1))
    n = o->sessions;
  else if (!(n < (double)all))
    n = (double)all;
  double z = o->t * o->t / n, middle = (p + z / 2) / (1 + z);
  double half = o->t / (1 + z) * sqrt(p * (1 - p) / n + z / (4 * n));
  o->lo = p > 0 ? fmax(middle - half, 0) : 0;
  o->hi = p < 1 ? fmin(middle + half, 1) : 1;
}

static bool of_quantile(struct spread *o, const struct interval_side *s) {
  double alone = s->p * (1 - s->p) / (double)s->n; /* the least there is, of unrelated values */
  double half = o->t * sqrt(fmax(o->variance, alone));
  if (o->sessions < interval_needs(s->p) || s->p - half < 0 || s->p + half > 1)
    return false;
  o->lo = stats_quantile(s->x, s->n, s->p - half);
  o->hi = stats_quantile(s->x, s->n, s->p + half);
  return true;
}

/* Frees nothing: the caller does, also when it is false. */
static bool spread_out(struct spread *o, const struct interval_side *s, uint32_t n_clusters,
                       double level) {
  *o = (struct spread){.lo = NAN, .hi = NAN};
  if (!s->n)
    return false;
  if (s->of == INTERVAL_QUANTILE)
    o->value = stats_quantile(s->x, s->n, s->p);
  leave_out(o, s, n_clusters, level);
  if (s->of != INTERVAL_QUANTILE)
    o->value = o->figure;
  if (o->sessions < INTERVAL_NEEDS_MEAN || !isfinite(o->variance) || !isfinite(o->value))
    return false;
  if (s->of == INTERVAL_QUANTILE)
    return of_quantile(o, s);
  if (s->of == INTERVAL_SHARE) {
    of_share(o, s->n);
    return true;
  }
  double half = o->t * sqrt(o->variance);
  o->lo = o->value - half;
  o->hi = o->value + half;
  return true;
}

bool interval_of_side(const struct interval_side *s, uint32_t n_clusters, double level, double *lo,
                      double *hi) {
  struct spread o;
  bool ok = spread_out(&o, s, n_clusters, level);
  *lo = ok ? o.lo : (double)NAN;
  *hi = ok ? o.hi : (double)NAN;
  mem_free(o.less);
  return ok;
}

/* How far both sides go together: the correlation of what leaving out a session does. */
static double correlation(const struct spread *l, const struct spread *r, uint32_t n_clusters) {
  double both = 0, a = 0, b = 0;
  for (uint32_t c = 0; c < n_clusters; c++) {
    both += l->less[c] * r->less[c];
    a += l->less[c] * l->less[c];
    b += r->less[c] * r->less[c];
  }
  return a > 0 && b > 0 ? both / sqrt(a * b) : 0;
}

/* Of a − b from the intervals of both. */
static void combine(double a, double a_lo, double a_hi, double b, double b_lo, double b_hi,
                    double r, double *lo, double *hi) {
  double down_a = a - a_lo, up_a = a_hi - a, down_b = b - b_lo, up_b = b_hi - b;
  double below = down_a * down_a + up_b * up_b - 2 * r * down_a * up_b;
  double above = up_a * up_a + down_b * down_b - 2 * r * up_a * down_b;
  *lo = a - b - sqrt(fmax(below, 0));
  *hi = a - b + sqrt(fmax(above, 0));
}

bool interval_difference(const struct interval_side *left, const struct interval_side *right,
                         double against, bool relative, uint32_t n_clusters, double *lo,
                         double *hi) {
  struct spread l, r = {.value = against, .lo = against, .hi = against};
  *lo = *hi = NAN;
  bool ok = spread_out(&l, left, n_clusters, 0.95);
  if (right)
    ok = spread_out(&r, right, n_clusters, 0.95) && ok;
  ok = ok && (!relative || (l.lo > 0 && r.lo > 0));
  double together = ok && right ? correlation(&l, &r, n_clusters) : 0;
  if (ok && relative) {
    combine(log(l.value), log(l.lo), log(l.hi), log(r.value), log(r.lo), log(r.hi), together, lo,
            hi);
    *lo = expm1(*lo);
    *hi = expm1(*hi);
  } else if (ok) {
    combine(l.value, l.lo, l.hi, r.value, r.lo, r.hi, together, lo, hi);
  }
  mem_free(l.less);
  mem_free(r.less);
  return ok;
}
