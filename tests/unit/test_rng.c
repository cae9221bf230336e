/* test_rng.c: fixed streams, independence of splits, distributions against their moments. */
#include "check.h"

#include <math.h>

#include "base/base.h"
#include "base/rng.h"

/* Reference values: xoshiro256** seeded by hand from SplitMix64, computed by tests/data/rng.py. */
static void streams_are_fixed(void **state) {
  (void)state;
  struct rng r;
  rng_init(&r, 1, 2);
  uint64_t first = rng_u64(&r), second = rng_u64(&r);
  rng_init(&r, 1, 2);
  assert_true(rng_u64(&r) == first && rng_u64(&r) == second);
  assert_true(first == UINT64_C(0x40a214dda905fcd));
  assert_true(second == UINT64_C(0x7fba5cf914133259));
  rng_init(&r, 1, 3);
  assert_true(rng_u64(&r) != first);
  rng_init(&r, 2, 2);
  assert_true(rng_u64(&r) != first);
}

static void splits_ignore_draws(void **state) {
  (void)state;
  struct rng a, b, ca, cb;
  rng_init(&a, 7, 0);
  rng_init(&b, 7, 0);
  for (int i = 0; i < 10; i++)
    rng_u64(&b);
  rng_split(&a, &ca);
  rng_split(&b, &cb);
  assert_true(rng_u64(&ca) == rng_u64(&cb));
  rng_split(&a, &ca); /* the second child differs from the first */
  rng_split(&a, &cb);
  assert_true(rng_u64(&ca) != rng_u64(&cb));
}

static void bytes_name_a_stream(void **state) {
  (void)state;
  struct rng a, b;
  rng_init_bytes(&a, 1, "system-prompt", 13);
  rng_init_bytes(&b, 1, "system-prompt", 13);
  assert_true(rng_u64(&a) == rng_u64(&b));
  rng_init_bytes(&a, 1, "system-prompt", 13);
  rng_init_bytes(&b, 1, "system-promp", 12);
  assert_true(rng_u64(&a) != rng_u64(&b));
  rng_init_bytes(&a, 1, "ab\0", 3);
  rng_init_bytes(&b, 1, "ab", 2);
  assert_true(rng_u64(&a) != rng_u64(&b));
}

static void logarithm_and_exponential(void **state) {
  (void)state;
  struct rng r;
  rng_init(&r, 3, 3);
  for (int i = 0; i < 100000; i++) {
    double x = ldexp(rng_unit(&r) + 0x1p-60, (int)rng_int(&r, -300, 300));
    double ref = log(x);
    check_near(rng_ln(x), ref, fabs(ref) * 4.5e-16 + 2.3e-16);
    double y = (rng_unit(&r) - 0.5) * 1000;
    double e = exp(y);
    check_near(rng_expm(y), e, e * 1e-15);
  }
  check_near(rng_ln(1.0), 0, 0);
  check_near(rng_expm(0.0), 1, 0);
  check_near(rng_ln(4.9e-324), log(4.9e-324), 1e-12);
}

static void integers_have_no_bias(void **state) {
  (void)state;
  struct rng r;
  rng_init(&r, 4, 4);
  int count[7] = {0};
  for (int i = 0; i < 70000; i++) {
    int64_t x = rng_int(&r, -3, 3);
    assert_true(x >= -3 && x <= 3);
    count[x + 3]++;
  }
  for (int i = 0; i < 7; i++)
    check_near(count[i], 10000, 400); /* 4.3 standard deviations */
  assert_int_equal(rng_int(&r, 5, 5), 5);
  rng_int(&r, INT64_MIN, INT64_MAX);
}

static void moments_are_right(void **state) {
  (void)state;
  struct rng r;
  rng_init(&r, 5, 5);
  double n = 200000, exp_sum = 0, norm_sum = 0, norm_sq = 0, log_sum = 0;
  for (int i = 0; i < (int)n; i++) {
    double e = rng_exp(&r, 6), x = rng_normal(&r, 120, 40);
    assert_true(e >= 0);
    exp_sum += e;
    norm_sum += x;
    norm_sq += (x - 120) * (x - 120);
    log_sum += log(rng_lognormal(&r, 2, 0.5));
  }
  check_near(exp_sum / n, 6, 0.06);
  check_near(norm_sum / n, 120, 0.4);
  check_near(sqrt(norm_sq / n), 40, 0.3);
  check_near(log_sum / n, 2, 0.005);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_are_fixed),     cmocka_unit_test(splits_ignore_draws),
      cmocka_unit_test(bytes_name_a_stream),   cmocka_unit_test(logarithm_and_exponential),
      cmocka_unit_test(integers_have_no_bias), cmocka_unit_test(moments_are_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
