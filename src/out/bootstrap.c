/* bootstrap.c: 32 replicates at a time.
 *
 * The weights of one session in 32 replicates are 32 bytes: adding them while walking the sorted
 * samples costs a few vector instructions per sample, not one pass per replicate. The running
 * totals are kept at every 256th sample; a replicate's quantile is then found by bisection over
 * those and a walk through one stretch of 256, which gives the exact weighted order statistic. */
#include "out/bootstrap.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "out/stats.h"

#define LANES 32
#define STRETCH 256 /* 256 samples × weight 255 still fit 16 bits */

typedef uint8_t lanes[LANES];
static_assert(BOOTSTRAP_UNITS <= UINT16_MAX + 1, "units are numbered in 16 bits");

/* What one job needs beside its samples. */
struct work {
  struct bootstrap_job *job;
  uint16_t *unit;        /* of each sample */
  double *unit_sum;      /* sum of the values of each resampling unit */
  uint32_t *unit_n;      /* how many */
  uint32_t (*at)[LANES]; /* weight of all samples before each stretch; one more row: the total */
  size_t n_stretches;
};

uint32_t bootstrap_replicates(size_t n) {
  return n <= 200000 ? 1000 : n <= 2000000 ? 400 : 200;
}

/* Sessions beyond BOOTSTRAP_UNITS share a unit with their neighbours. */
static uint32_t unit_of(uint32_t cluster, uint32_t n_clusters) {
  if (n_clusters <= BOOTSTRAP_UNITS)
    return cluster;
  return (uint32_t)((uint64_t)cluster * BOOTSTRAP_UNITS / n_clusters);
}

/* n_units draws with replacement for each lane. */
static void draw_weights(lanes *weights, uint32_t n_units, struct rng *rng) {
  memset(weights, 0, n_units * sizeof *weights);
  for (int lane = 0; lane < LANES; lane++)
    for (uint32_t i = 0; i < n_units; i += 2) {
      uint64_t r = rng_u64(rng);
      uint32_t a = (uint32_t)(((r & UINT32_MAX) * n_units) >> 32);
      uint32_t b = (uint32_t)(((r >> 32) * n_units) >> 32);
      weights[a][lane]++; /* reaching 256 has probability below 1e-500 */
      if (i + 1 < n_units)
        weights[b][lane]++;
    }
}

static void prepare(struct work *w, struct bootstrap_job *job, uint32_t n_units,
                    uint32_t n_clusters) {
  assert(job->n <= BOOTSTRAP_MAX_SAMPLES);
  *w = (struct work){.job = job};
  w->unit = mem_resize(NULL, job->n, sizeof *w->unit);
  w->unit_sum = mem_calloc(n_units, sizeof *w->unit_sum);
  w->unit_n = mem_calloc(n_units, sizeof *w->unit_n);
  for (size_t i = 0; i < job->n; i++) {
    uint32_t u = unit_of(job->cluster[i], n_clusters);
    assert(u < n_units);
    w->unit[i] = (uint16_t)u;
    w->unit_sum[u] += job->x[i];
    w->unit_n[u]++;
  }
  if (job->n_probs) {
    w->n_stretches = (job->n + STRETCH - 1) / STRETCH;
    w->at = mem_calloc(w->n_stretches + 1, sizeof *w->at);
  }
}

static void finish(struct work *w) {
  mem_free(w->unit);
  mem_free(w->unit_sum);
  mem_free(w->unit_n);
  mem_free(w->at);
}

static void means(const struct work *w, const lanes *weights, uint32_t n_units, double *mean) {
  double sum[LANES] = {0}, n[LANES] = {0};
  for (uint32_t u = 0; u < n_units; u++) {
    if (!w->unit_n[u])
      continue;
    double s = w->unit_sum[u], c = w->unit_n[u];
    const uint8_t *weight = weights[u];
    for (int lane = 0; lane < LANES; lane++) {
      sum[lane] += weight[lane] * s;
      n[lane] += weight[lane] * c;
    }
  }
  for (int lane = 0; lane < LANES; lane++)
    mean[lane] = n[lane] > 0 ? sum[lane] / n[lane] : NAN;
}

typedef uint8_t eight_bytes __attribute__((vector_size(8)));
typedef uint16_t eight_words __attribute__((vector_size(16)));

static eight_words widen(const uint8_t *from) {
  eight_bytes bytes;
  memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(bytes, eight_words);
}

/* sum[lane] = the weights of n samples. The hot loop: four registers hold the 32 sums. */
static void add_weights(const lanes *weights, const uint16_t *unit, size_t n, uint16_t sum[LANES]) {
  eight_words a = {0}, b = {0}, c = {0}, d = {0};
  for (size_t i = 0; i < n; i++) {
    const uint8_t *weight = weights[unit[i]];
    a += widen(weight);
    b += widen(weight + 8);
    c += widen(weight + 16);
    d += widen(weight + 24);
  }
  memcpy(sum, &a, sizeof a);
  memcpy(sum + 8, &b, sizeof b);
  memcpy(sum + 16, &c, sizeof c);
  memcpy(sum + 24, &d, sizeof d);
}

/* Fills w->at. */
static void walk(struct work *w, const lanes *weights) {
  uint32_t total[LANES] = {0};
  for (size_t s = 0; s < w->n_stretches; s++) {
    memcpy(w->at[s], total, sizeof total);
    size_t first = s * STRETCH, last = first + STRETCH < w->job->n ? first + STRETCH : w->job->n;
    uint16_t part[LANES];
    add_weights(weights, w->unit + first, last - first, part);
    for (int lane = 0; lane < LANES; lane++)
      total[lane] += part[lane];
  }
  memcpy(w->at[w->n_stretches], total, sizeof total);
}

/* Index of the sample that holds rank `rank` (0-based) of the weighted samples; *end gets the rank
 * just after it. */
static size_t find_rank(const struct work *w, const lanes *weights, int lane, uint32_t rank,
                        uint32_t *end) {
  size_t lo = 0, hi = w->n_stretches; /* at[lo] <= rank < at[hi] */
  while (hi - lo > 1) {
    size_t mid = (lo + hi) / 2;
    if (w->at[mid][lane] <= rank)
      lo = mid;
    else
      hi = mid;
  }
  uint32_t seen = w->at[lo][lane];
  for (size_t i = lo * STRETCH;; i++) {
    assert(i < w->job->n);
    seen += weights[w->unit[i]][lane];
    if (seen > rank) {
      *end = seen;
      return i;
    }
  }
}

static double quantile(const struct work *w, const lanes *weights, int lane, double p) {
  assert(w->at);
  uint32_t total = w->at[w->n_stretches][lane];
  if (!total)
    return NAN;
  double h = (double)(total - 1) * p;
  uint32_t k = (uint32_t)h, end;
  double t = h - k;
  size_t i = find_rank(w, weights, lane, k, &end);
  double a = w->job->x[i];
  if (t <= 0 || k + 1 < end) /* the next rank is a copy of the same sample */
    return a;
  size_t j = find_rank(w, weights, lane, k + 1, &end);
  return a + (w->job->x[j] - a) * t;
}

static void run_batch(struct work *w, const lanes *weights, uint32_t n_units, uint32_t first,
                      uint32_t count) {
  size_t width = 1 + w->job->n_probs;
  double mean[LANES];
  means(w, weights, n_units, mean);
  if (w->at)
    walk(w, weights);
  for (uint32_t lane = 0; lane < count; lane++) {
    double *row = w->job->out + (first + lane) * width;
    row[0] = mean[lane];
    for (size_t q = 0; q < w->job->n_probs; q++)
      row[1 + q] = quantile(w, weights, (int)lane, w->job->probs[q]);
  }
}

void bootstrap_run(struct bootstrap_job *jobs, size_t n_jobs, uint32_t n_clusters,
                   uint32_t replicates, uint64_t seed) {
  if (!n_jobs || !n_clusters || !replicates)
    return;
  uint32_t n_units = n_clusters < BOOTSTRAP_UNITS ? n_clusters : BOOTSTRAP_UNITS;
  struct rng rng;
  rng_init(&rng, seed, UINT64_C(0x626f6f74)); /* a stream of its own: no session has this number */
  lanes *weights = mem_resize(NULL, n_units, sizeof *weights);
  struct work *works = mem_calloc(n_jobs, sizeof *works);
  for (size_t j = 0; j < n_jobs; j++)
    prepare(&works[j], &jobs[j], n_units, n_clusters);
  for (uint32_t first = 0; first < replicates; first += LANES) {
    uint32_t count = replicates - first < LANES ? replicates - first : LANES;
    draw_weights(weights, n_units, &rng);
    for (size_t j = 0; j < n_jobs; j++)
      run_batch(&works[j], weights, n_units, first, count);
  }
  for (size_t j = 0; j < n_jobs; j++)
    finish(&works[j]);
  mem_free(works);
  mem_free(weights);
}

bool bootstrap_interval(const double *rows, size_t width, size_t column, uint32_t replicates,
                        uint32_t n_sessions, double *lo, double *hi) {
  *lo = *hi = NAN;
  if (n_sessions < 2 || !replicates)
    return false;
  double *x = mem_resize(NULL, replicates, sizeof *x);
  size_t n = 0;
  for (uint32_t i = 0; i < replicates; i++) {
    double v = rows[i * width + column];
    if (isfinite(v))
      x[n++] = v;
  }
  /* With few sessions a replicate can miss a job altogether; a handful of such rows says nothing.
   */
  bool enough = n >= replicates - replicates / 20;
  if (enough) {
    stats_sort(x, NULL, n);
    double k = n_sessions;
    double tail = stats_normal_cdf(sqrt(k / (k - 1)) * stats_t_quantile(0.025, k - 1));
    *lo = stats_quantile(x, n, tail);
    *hi = stats_quantile(x, n, 1 - tail);
  }
  mem_free(x);
  return enough;
}
