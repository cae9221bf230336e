/* test_bootstrap.c: replicates against a plain reference, coverage by simulation, pairing. */
#include "check.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "out/bootstrap.h"
#include "out/stats.h"

static const double probs[] = {0.5, 0.9, 0.99};
#define N_PROBS 3

/* Sessions of `turns` samples that share an effect; sorted. */
static void make_sessions(struct rng *rng, double *x, uint32_t *cluster, size_t sessions,
                          size_t turns) {
  for (size_t s = 0; s < sessions; s++) {
    double effect = rng_normal(rng, 0, 1);
    for (size_t k = 0; k < turns; k++) {
      x[s * turns + k] = 10 + effect + rng_normal(rng, 0, 0.5);
      cluster[s * turns + k] = (uint32_t)s;
    }
  }
  stats_sort(x, cluster, sessions * turns);
}

/* Every replicate must be an actual resample. With the values 1, 100, 100² … the mean gives away
 * how often each session was drawn. */
static void replicates_are_resamples(void **state) {
  (void)state;
  enum { B = 500, S = 4 };
  double x[S] = {1, 100, 10000, 1000000};
  uint32_t cluster[S] = {0, 1, 2, 3};
  double *out = mem_calloc(B, (1 + N_PROBS) * sizeof(double));
  struct bootstrap_job job = {
      .x = x, .cluster = cluster, .n = S, .probs = probs, .n_probs = N_PROBS, .out = out};
  bootstrap_run(&job, 1, S, B, 7);
  double drawn[S] = {0};
  for (int b = 0; b < B; b++) {
    /* S draws: mean × S written in base 100 is the number of times each was drawn. */
    uint64_t code = (uint64_t)(out[b * 4] * S + 0.5);
    double resample[S];
    size_t n = 0;
    for (int c = 0; c < S; c++, code /= 100)
      for (uint64_t k = 0; k < code % 100; k++) {
        resample[n++] = x[c];
        drawn[c]++;
      }
    assert_int_equal(n, S);
    for (int q = 0; q < N_PROBS; q++)
      check_near(out[b * 4 + 1 + q], stats_quantile(resample, n, probs[q]), 1e-6);
  }
  for (int c = 0; c < S; c++) /* each once per replicate on average: sd is about 19 */
    check_near(drawn[c], B, 80);
  mem_free(out);
}

/* Stretches and bisection: 3,000 samples of 30 sessions against quantiles of the written-out
 * resample. */
static void long_series_are_exact(void **state) {
  (void)state;
  enum { S = 30, T = 100, N = S * T, B = 70 };
  struct rng rng;
  rng_init(&rng, 5, 5);
  double *x = mem_calloc(N, sizeof *x), *weighted = mem_calloc(N, sizeof *weighted);
  uint32_t *cluster = mem_calloc(N, sizeof *cluster);
  make_sessions(&rng, x, cluster, S, T);
  double *out = mem_calloc(B, (1 + N_PROBS) * sizeof(double));
  /* Jobs of one call share their weights: one more job per session, whose only value of 1 is that
   * session's, gives its weight away. */
  struct bootstrap_job job = {
      .x = x, .cluster = cluster, .n = N, .probs = probs, .n_probs = N_PROBS, .out = out};
  double *ind = mem_calloc(S, sizeof *ind), *ind_out = mem_calloc(B * S, sizeof *ind_out);
  uint32_t *ids = mem_calloc(S, sizeof *ids);
  struct bootstrap_job jobs[1 + S];
  jobs[0] = job;
  double *flags = mem_calloc(S * S, sizeof *flags);
  for (uint32_t s = 0; s < S; s++)
    ids[s] = s;
  for (uint32_t s = 0; s < S; s++) {
    flags[s * S + s] = 1; /* the mean of this job × S = how often s was drawn */
    jobs[1 + s] =
        (struct bootstrap_job){.x = &flags[s * S], .cluster = ids, .n = S, .out = &ind_out[s * B]};
  }
  bootstrap_run(jobs, 1 + S, S, B, 11);
  for (int b = 0; b < B; b++) {
    size_t n = 0;
    for (size_t i = 0; i < N; i++) {
      int weight = (int)(ind_out[cluster[i] * B + (uint32_t)b] * S + 0.5);
      for (int k = 0; k < weight; k++)
        weighted[n++] = x[i];
    }
    assert_int_equal(n, N);
    check_near(out[b * 4], stats_mean(weighted, n), 1e-9);
    for (int q = 0; q < N_PROBS; q++)
      check_near(out[b * 4 + 1 + q], stats_quantile(weighted, n, probs[q]), 1e-12);
  }
  mem_free(x);
  mem_free(weighted);
  mem_free(cluster);
  mem_free(out);
  mem_free(ind);
  mem_free(ind_out);
  mem_free(ids);
  mem_free(flags);
}

/* 95 % intervals must hold the truth about 95 times in 100, also for few sessions; one that ignores
 * sessions holds it half of the time here. */
static void intervals_cover(void **state) {
  (void)state;
  enum { T = 8, B = 300, RUNS = 400 };
  static const size_t session_counts[] = {8, 40};
  for (size_t k = 0; k < ARRAY_LEN(session_counts); k++) {
    size_t S = session_counts[k], n = S * T;
    double *x = mem_calloc(n, sizeof *x), *out = mem_calloc(B, 2 * sizeof(double));
    uint32_t *cluster = mem_calloc(n, sizeof *cluster), *each = mem_calloc(n, sizeof *each);
    int mean_held = 0, median_held = 0, naive_held = 0;
    for (int run = 0; run < RUNS; run++) {
      struct rng rng;
      rng_init(&rng, 99, (uint64_t)run);
      make_sessions(&rng, x, cluster, S, T);
      double lo, hi;
      struct bootstrap_job job = {
          .x = x, .cluster = cluster, .n = n, .probs = probs, .n_probs = 1, .out = out};
      bootstrap_run(&job, 1, (uint32_t)S, B, (uint64_t)run);
      assert_true(bootstrap_interval(out, 2, 0, B, (uint32_t)S, &lo, &hi));
      mean_held += lo <= 10 && 10 <= hi;
      assert_true(bootstrap_interval(out, 2, 1, B, (uint32_t)S, &lo, &hi));
      median_held += lo <= 10 && 10 <= hi;
      for (size_t i = 0; i < n; i++)
        each[i] = (uint32_t)i;
      job.cluster = each;
      bootstrap_run(&job, 1, (uint32_t)n, B, (uint64_t)run);
      assert_true(bootstrap_interval(out, 2, 0, B, (uint32_t)n, &lo, &hi));
      naive_held += lo <= 10 && 10 <= hi;
    }
    double held[] = {(double)mean_held / RUNS, (double)median_held / RUNS};
    for (int i = 0; i < 2; i++)
      if (held[i] < 0.92 || held[i] > 0.995)
        fail_msg("%zu sessions: the %s's interval holds the truth in %.1f %% of runs", S,
                 i ? "median" : "mean", 100 * held[i]);
    assert_true(naive_held < RUNS * 0.75);
    mem_free(x);
    mem_free(out);
    mem_free(cluster);
    mem_free(each);
  }
}

static void same_seed_same_bits(void **state) {
  (void)state;
  enum { N = 400, B = 100 };
  struct rng rng;
  rng_init(&rng, 1, 1);
  double x[N], a[B * 4], b[B * 4], c[B * 4];
  uint32_t cluster[N];
  make_sessions(&rng, x, cluster, N / 8, 8);
  struct bootstrap_job job = {
      .x = x, .cluster = cluster, .n = N, .probs = probs, .n_probs = N_PROBS, .out = a};
  bootstrap_run(&job, 1, N / 8, B, 1);
  job.out = b;
  bootstrap_run(&job, 1, N / 8, B, 1);
  job.out = c;
  bootstrap_run(&job, 1, N / 8, B, 2);
  assert_memory_equal(a, b, sizeof a);
  assert_memory_not_equal(a, c, sizeof a);
}

/* Two arms over the same sessions: the difference is paired, so its interval is far narrower than
 * the arms' own. */
static void shared_sessions_are_paired(void **state) {
  (void)state;
  enum { N = 800, B = 200 };
  struct rng rng;
  rng_init(&rng, 1, 1);
  double x[N], y[N], a[B], b[B], d[B], lo, hi;
  uint32_t cluster[N];
  make_sessions(&rng, x, cluster, N / 8, 8);
  for (int i = 0; i < N; i++)
    y[i] = x[i] + 0.5 + 0.01 * (i % 3);
  struct bootstrap_job jobs[] = {{.x = x, .cluster = cluster, .n = N, .out = a},
                                 {.x = y, .cluster = cluster, .n = N, .out = b}};
  bootstrap_run(jobs, 2, N / 8, B, 1);
  for (int i = 0; i < B; i++)
    d[i] = b[i] - a[i];
  assert_true(bootstrap_interval(d, 1, 0, B, N / 8, &lo, &hi));
  assert_true(lo > 0.5 && hi < 0.52);
  assert_true(bootstrap_interval(a, 1, 0, B, N / 8, &lo, &hi));
  assert_true(hi - lo > 0.2);
}

static void more_sessions_than_units(void **state) {
  (void)state;
  enum { S = 100000, B = 100 };
  double *x = mem_calloc(S, sizeof *x), *out = mem_calloc(B, 2 * sizeof *out), lo, hi;
  uint32_t *cluster = mem_calloc(S, sizeof *cluster);
  struct rng rng;
  rng_init(&rng, 8, 8);
  for (uint32_t i = 0; i < S; i++) {
    x[i] = rng_normal(&rng, 0, 1);
    cluster[i] = i;
  }
  stats_sort(x, cluster, S);
  struct bootstrap_job job = {
      .x = x, .cluster = cluster, .n = S, .probs = probs, .n_probs = 1, .out = out};
  bootstrap_run(&job, 1, S, B, 1);
  assert_true(bootstrap_interval(out, 2, 0, B, S, &lo, &hi));
  check_near(hi - lo, 2 * 1.96 / sqrt(S), 0.3 * 2 * 1.96 / sqrt(S));
  assert_true(bootstrap_interval(out, 2, 1, B, S, &lo, &hi)); /* median: × √(π/2) */
  check_near(hi - lo, 2 * 1.96 * 1.2533 / sqrt(S), 0.3 * 2 * 1.96 * 1.2533 / sqrt(S));
  mem_free(x);
  mem_free(out);
  mem_free(cluster);
}

static void no_interval_where_there_is_none(void **state) {
  (void)state;
  double rows[40], lo, hi;
  for (int i = 0; i < 40; i++)
    rows[i] = i % 2 ? NAN : 1;
  assert_false(bootstrap_interval(rows, 1, 0, 40, 10, &lo, &hi));
  assert_true(isnan(lo) && isnan(hi));
  for (int i = 0; i < 40; i++)
    rows[i] = i;
  assert_false(bootstrap_interval(rows, 1, 0, 40, 1, &lo, &hi));
  assert_true(bootstrap_interval(rows, 1, 0, 40, 1000000, &lo, &hi));
  check_near(lo, 0.025 * 39, 1e-4);
  check_near(hi, 0.975 * 39, 1e-4);
  /* Few sessions widen it: 8 of them, tail = Phi(−√(8/7) t(0.975; 7)) = Phi(−2.5279) */
  assert_true(bootstrap_interval(rows, 1, 0, 40, 8, &lo, &hi));
  check_near(lo, 0.005738 * 39, 1e-4);
  check_near(hi, 39 - 0.005738 * 39, 1e-4);
  assert_int_equal(bootstrap_replicates(1000), 1000);
  assert_int_equal(bootstrap_replicates(10000000), 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replicates_are_resamples),
      cmocka_unit_test(long_series_are_exact),
      cmocka_unit_test(intervals_cover),
      cmocka_unit_test(same_seed_same_bits),
      cmocka_unit_test(shared_sessions_are_paired),
      cmocka_unit_test(more_sessions_than_units),
      cmocka_unit_test(no_interval_where_there_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
