/* test_hist.c: the error bound over the whole range, and that shards merge to the same. */
#include "check.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "out/hist.h"

static void check_bucket(uint64_t v) {
  uint32_t b = hist_bucket(v);
  assert_true(b < HIST_BUCKETS);
  double middle = hist_bucket_middle(b), error = fabs(middle - (double)v);
  if (error > HIST_RELATIVE_ERROR * (double)v + 1e-9)
    fail_msg("value %llu is reported as %.17g", (unsigned long long)v, middle);
}

static void error_is_bounded_everywhere(void **state) {
  (void)state;
  assert_true(HIST_RELATIVE_ERROR <= 0.005);
  for (uint64_t v = 0; v < 70000; v++) {
    check_bucket(v);
    if (v < 256)
      check_near(hist_bucket_middle(hist_bucket(v)), (double)v, 0.0);
  }
  for (int bit = 8; bit < 64; bit++)
    for (int off = -2; off <= 2; off++) {
      check_bucket((UINT64_C(1) << bit) + (uint64_t)off);
      check_bucket((UINT64_C(1) << bit) + (UINT64_C(1) << (bit - 1)) + (uint64_t)off);
    }
  check_bucket(UINT64_MAX);
  assert_int_equal(hist_bucket(UINT64_MAX), HIST_BUCKETS - 1);
  uint32_t last = 0;
  for (double v = 1; v < 1e19; v *= 1.001) { /* order is kept */
    uint32_t b = hist_bucket((uint64_t)v);
    assert_true(b >= last);
    last = b;
  }
}

static void quantiles_of_known_values(void **state) {
  (void)state;
  struct hist *h = mem_alloc(sizeof *h);
  hist_init(h);
  assert_true(isnan(hist_quantile(h, 0.5)));
  assert_true(isnan(hist_mean(h)));
  for (uint64_t v = 1; v <= 100000; v++)
    hist_add(h, v * 1000);
  static const double probs[] = {0.1, 0.5, 0.9, 0.99, 0.999};
  for (size_t i = 0; i < ARRAY_LEN(probs); i++) {
    double want = (1 + probs[i] * 99999) * 1000;
    check_near(hist_quantile(h, probs[i]), want, want * HIST_RELATIVE_ERROR + 1000);
  }
  check_near(hist_quantile(h, 0), 1000, 0.0);
  check_near(hist_quantile(h, 1), 100000000, 0.0);
  check_near(hist_mean(h), 50000500, 1e-6);
  hist_init(h);
  for (int i = 0; i < 3; i++)
    hist_add(h, 1000003); /* one bucket: the ends are exact, so is what lies between */
  check_near(hist_quantile(h, 0.5), 1000003, 0.0);
  mem_free(h);
}

static void four_shards_equal_one(void **state) {
  (void)state;
  struct hist *one = mem_alloc(sizeof *one), *all = mem_alloc(sizeof *all),
              *shards = mem_calloc(4, sizeof *shards);
  hist_init(one);
  hist_init(all);
  for (int i = 0; i < 4; i++)
    hist_init(&shards[i]);
  struct rng rng;
  rng_init(&rng, 3, 4);
  for (int i = 0; i < 40000; i++) {
    uint64_t v = (uint64_t)rng_lognormal(&rng, 15, 3);
    hist_add(one, v);
    hist_add(&shards[i % 4], v);
  }
  for (int i = 0; i < 4; i++)
    hist_merge(all, &shards[i]);
  assert_int_equal(all->n, one->n);
  assert_int_equal(all->min, one->min);
  assert_int_equal(all->max, one->max);
  assert_memory_equal(all->counts, one->counts, sizeof one->counts);
  check_near(hist_quantile(all, 0.99), hist_quantile(one, 0.99), 0.0);
  mem_free(one);
  mem_free(all);
  mem_free(shards);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(error_is_bounded_everywhere),
      cmocka_unit_test(quantiles_of_known_values),
      cmocka_unit_test(four_shards_equal_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
