/* test_interval.c: intervals against worked examples; how often they hold the truth. */
#include "check.h"

#include <math.h>

#include "base/rng.h"
#include "out/interval.h"
#include "out/stats.h"

static void two_sessions_are_students(void **state) {
  (void)state;
  /* means 1 and 3, equal lengths: 2 ± 12.7062 · 1 */
  const double x[] = {1, 1, 3, 3};
  const uint32_t c[] = {0, 0, 1, 1};
  struct interval_side s = {x, c, 4, INTERVAL_MEAN, 0};
  double lo, hi;
  assert_true(interval_of_side(&s, 2, 0.95, &lo, &hi));
  check_near(lo, 2 - 12.7062, 1e-3);
  check_near(hi, 2 + 12.7062, 1e-3);
  assert_true(interval_of_side(&s, 2, 0.5, &lo, &hi));
  check_near(hi, 3, 1e-6); /* t(0.75; 1) = 1 */
  const uint32_t one[] = {0, 0, 0, 0};
  s.cluster = one;
  assert_false(interval_of_side(&s, 2, 0.95, &lo, &hi));
  assert_true(isnan(lo) && isnan(hi));
  s.n = 0;
  assert_false(interval_of_side(&s, 2, 0.95, &lo, &hi));
}

/* Ten sessions of one value: the t interval of any textbook. */
static void one_value_each_is_the_textbooks(void **state) {
  (void)state;
  double x[10], lo, hi;
  uint32_t c[10];
  for (uint32_t i = 0; i < 10; i++) {
    x[i] = i * i;
    c[i] = i;
  }
  struct interval_side s = {x, c, 10, INTERVAL_MEAN, 0};
  double half = 2.262157 * stats_sd(x, 10, 28.5) / sqrt(10);
  assert_true(interval_of_side(&s, 10, 0.95, &lo, &hi));
  check_near(lo, 28.5 - half, 1e-3);
  check_near(hi, 28.5 + half, 1e-3);
}

static void shares_are_never_certain(void **state) {
  (void)state;
  double x[100] = {0}, lo, hi;
  uint32_t c[100];
  for (uint32_t i = 0; i < 100; i++)
    c[i] = i / 2;
  struct interval_side s = {x, c, 100, INTERVAL_SHARE, 0};
  assert_true(interval_of_side(&s, 50, 0.95, &lo, &hi));
  double z = 2.009575 * 2.009575 / 50; /* t(0.975; 49) */
  check_near(lo, 0, 0);
  check_near(hi, z / (1 + z), 1e-4);
  for (int i = 0; i < 100; i++)
    x[i] = 1;
  assert_true(interval_of_side(&s, 50, 0.95, &lo, &hi));
  check_near(lo, 1 / (1 + z), 1e-4);
  check_near(hi, 1, 0);
  for (int i = 0; i < 100; i++)
    x[i] = i % 2; /* every session half: no more than 100 independent requests */
  assert_true(interval_of_side(&s, 50, 0.95, &lo, &hi));
  assert_true(lo > 0.39 && lo < 0.41 && hi > 0.59 && hi < 0.61);
}

static void percentiles_need_sessions(void **state) {
  (void)state;
  assert_int_equal(interval_needs(0.5), 5);
  assert_int_equal(interval_needs(0.9), 20);
  assert_int_equal(interval_needs(0.95), 40);
  assert_int_equal(interval_needs(0.99), 200);
  assert_int_equal(interval_needs(0.999), 2000);
  assert_int_equal(interval_needs(0.1), 20);
  double x[400], lo, hi;
  uint32_t c[400];
  for (uint32_t i = 0; i < 400; i++)
    x[i] = i;
  for (uint32_t k = 38; k < 44; k++) {
    for (uint32_t i = 0; i < 400; i++)
      c[i] = i % k;
    struct interval_side s = {x, c, 400, INTERVAL_QUANTILE, 0.95};
    assert_int_equal(interval_of_side(&s, k, 0.95, &lo, &hi), k >= 40);
    if (k < 40)
      continue;
    assert_true(lo > 365 && lo < 372 && hi > 386 && hi < 393); /* 0.95 ± 2.02 · 0.0109 */
  }
  for (uint32_t i = 0; i < 400; i++)
    c[i] = i / 10; /* the highest values are two sessions': no end above */
  struct interval_side s = {x, c, 400, INTERVAL_QUANTILE, 0.95};
  assert_false(interval_of_side(&s, 40, 0.95, &lo, &hi));
  assert_true(isnan(lo));
}

static void shared_sessions_are_paired(void **state) {
  (void)state;
  double x[60], y[60], lo, hi;
  uint32_t c[60], other[60];
  struct rng rng;
  rng_init(&rng, 1, 1);
  for (uint32_t i = 0; i < 60; i++) {
    x[i] = 10 + 3 * rng_normal(&rng, 0, 1);
    y[i] = x[i] + 0.5 + 0.01 * (i % 3);
    c[i] = i;
    other[i] = 60 + i;
  }
  struct interval_side a = {y, c, 60, INTERVAL_MEAN, 0}, b = {x, c, 60, INTERVAL_MEAN, 0};
  assert_true(interval_difference(&a, &b, 0, false, 120, &lo, &hi));
  assert_true(lo > 0.49 && lo < 0.51 && hi > 0.51 && hi < 0.53);
  b.cluster = other;
  assert_true(interval_difference(&a, &b, 0, false, 120, &lo, &hi));
  assert_true(hi - lo > 1.5);
  b.cluster = c;
  assert_true(interval_difference(&a, &b, 0, true, 120, &lo, &hi));
  assert_true(lo > 0.03 && hi < 0.08);
  assert_true(interval_difference(&a, NULL, 10, false, 120, &lo, &hi));
  double alone_lo, alone_hi;
  assert_true(interval_of_side(&a, 120, 0.95, &alone_lo, &alone_hi));
  check_near(lo, alone_lo - 10, 1e-9);
  check_near(hi, alone_hi - 10, 1e-9);
  assert_false(interval_difference(&a, NULL, -1, true, 120, &lo, &hi)); /* no ratio of signs */
}

/* Two shares of 0 are not known to be equal. */
static void no_failure_on_either_side(void **state) {
  (void)state;
  double x[20] = {0}, lo, hi;
  uint32_t c[20];
  for (uint32_t i = 0; i < 20; i++)
    c[i] = i;
  struct interval_side a = {x, c, 20, INTERVAL_SHARE, 0};
  assert_true(interval_difference(&a, &a, 0, false, 20, &lo, &hi));
  assert_true(lo < -0.1 && hi > 0.1);
}

/* Runs of `sessions` sessions with 1 to 8 values that share an effect; how often the interval of
 * the mean (p < 0) or the quantile holds the truth. tests/soak/coverage.c asks for more. */
static double coverage(uint32_t sessions, double p, double truth, int runs) {
  static double x[400];
  static uint32_t c[400];
  int held = 0, all = 0;
  for (int run = 0; run < runs; run++) {
    struct rng rng;
    rng_init(&rng, 7, (uint64_t)run);
    size_t n = 0;
    for (uint32_t k = 0; k < sessions; k++) {
      double effect = rng_normal(&rng, 0, 0.5);
      for (uint64_t turns = 1 + rng_u64(&rng) % 8; turns; turns--) {
        x[n] = 10 + effect + rng_normal(&rng, 0, 0.5);
        c[n++] = k;
      }
    }
    stats_sort(x, c, n);
    struct interval_side s = {x, c, n, p < 0 ? INTERVAL_MEAN : INTERVAL_QUANTILE, p};
    double lo, hi;
    bool ok = interval_of_side(&s, sessions, 0.95, &lo, &hi);
    all += ok;
    held += ok && lo <= truth && truth <= hi;
  }
  assert_true(all > runs / 2);
  return (double)held / all;
}

static void intervals_hold_the_truth(void **state) {
  (void)state;
  const double spread = sqrt(0.5);
  const struct {
    uint32_t sessions;
    double p, truth;
  } cases[] = {{2, -1, 10},
               {3, -1, 10},
               {5, -1, 10},
               {20, -1, 10},
               {6, 0.5, 10},
               {20, 0.5, 10},
               {20, 0.9, 10 + 1.2815516 * spread},
               {40, 0.95, 10 + 1.6448536 * spread}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    double held = coverage(cases[i].sessions, cases[i].p, cases[i].truth, 800);
    if (held < 0.92 || held > 0.99)
      fail_msg("%u sessions, p = %g: the interval holds the truth in %.1f %% of runs",
               cases[i].sessions, cases[i].p, 100 * held);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_sessions_are_students),
      cmocka_unit_test(one_value_each_is_the_textbooks),
      cmocka_unit_test(shares_are_never_certain),
      cmocka_unit_test(percentiles_need_sessions),
      cmocka_unit_test(shared_sessions_are_paired),
      cmocka_unit_test(no_failure_on_either_side),
      cmocka_unit_test(intervals_hold_the_truth),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
