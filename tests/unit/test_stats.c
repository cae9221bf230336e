/* test_stats.c: quantiles against numpy, sorting, Student's t against SciPy. */
#include "check.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "out/stats.h"

/* x_i = 1000 u², u the 32-bit hash of i: the same doubles in C and in numpy. */
static double *make_data(size_t n) {
  double *x = mem_resize(NULL, n, sizeof *x);
  for (size_t i = 0; i < n; i++) {
    uint32_t h = (uint32_t)(i * UINT64_C(2654435761) + 12345);
    double u = (double)h / 4294967296.0;
    x[i] = u * u * 1000.0;
  }
  return x;
}

/* numpy 2.4.6: np.quantile(x, p) of that data. */
static const struct {
  size_t n;
  double p, want;
} numpy_says[] = {
    {1, 0.5, 8.261567699483635e-09},     {2, 0, 8.261567699483635e-09},
    {2, 0.25, 95.49239041520524},        {2, 0.99, 378.1498660197585},
    {2, 1, 381.96956163603625},          {3, 0.25, 27.864722603430845},
    {3, 0.5, 55.729445198600125},        {3, 0.9, 316.721538348549},
    {10, 0.25, 68.40534580913427},       {10, 0.5, 269.553101435583},
    {10, 0.9, 745.7110454879873},        {10, 0.95, 818.6829419248751},
    {10, 0.99, 877.0604590743856},       {10, 0.999, 890.1954004330254},
    {10, 1, 891.6548383617632},          {1000, 0, 8.261567699483635e-09},
    {1000, 0.25, 62.387823927014935},    {1000, 0.5, 249.77574872334128},
    {1000, 0.9, 809.0049197847585},      {1000, 0.95, 901.2392226436501},
    {1000, 0.99, 979.1301377462588},     {1000, 0.999, 997.6346390707563},
    {1000000, 0, 3.452121401237296e-11}, {1000000, 0.25, 62.498698454401534},
    {1000000, 0.5, 249.9996038388531},   {1000000, 0.9, 809.9956972814625},
    {1000000, 0.95, 902.4986298003381},  {1000000, 0.99, 980.1001596597569},
    {1000000, 0.999, 998.0006566544895}, {1000000, 1, 999.9965191849064},
};

static void quantiles_are_numpys(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(numpy_says); i++) {
    double *x = make_data(numpy_says[i].n);
    stats_sort(x, NULL, numpy_says[i].n);
    check_near(stats_quantile(x, numpy_says[i].n, numpy_says[i].p), numpy_says[i].want, 0.0);
    mem_free(x);
  }
  double y[] = {-2.0, 0.1, 1.25, 3.5, 8.0, 8.0, 1e9};
  check_near(stats_quantile(y, 7, 0.1), -0.7399999999999999, 0.0);
  check_near(stats_quantile(y, 7, 0.9), 400000004.80000037, 0.0);
  assert_true(isnan(stats_quantile(y, 0, 0.5)));
}

static void failures_count_as_infinite(void **state) {
  (void)state;
  double x[] = {1, 2, 3, 4, 5, 6, 7};
  /* 7 values and 3 infinities: rank (10 − 1) p */
  check_near(stats_quantile_infinite(x, 7, 3, 0.5), 5.5, 0.0);
  check_near(stats_quantile_infinite(x, 7, 3, 6.0 / 9), 7, 0.0);
  assert_true(isinf(stats_quantile_infinite(x, 7, 3, 0.67)));
  assert_true(isinf(stats_quantile_infinite(x, 7, 3, 0.99)));
  assert_true(isinf(stats_quantile_infinite(x, 0, 3, 0)));
  check_near(stats_quantile_infinite(x, 7, 0, 1), 7, 0.0);
}

static void few_samples_are_refused(void **state) {
  (void)state;
  assert_int_equal(stats_quantile_needs(0.5), 10);
  assert_int_equal(stats_quantile_needs(0.9), 50);
  assert_int_equal(stats_quantile_needs(0.95), 100);
  assert_int_equal(stats_quantile_needs(0.99), 500);
  assert_int_equal(stats_quantile_needs(0.999), 5000);
  assert_int_equal(stats_quantile_needs(0.1), 50);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void sorting_is_right_and_carries_tags(void **state) {
  (void)state;
  static const size_t sizes[] = {0, 1, 2, 95, 96, 97, 1000, 50000};
  struct rng rng;
  rng_init(&rng, 1, 2);
  for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
    size_t n = sizes[s];
    double *x = mem_calloc(n, sizeof *x), *want = mem_calloc(n, sizeof *want),
           *before = mem_calloc(n, sizeof *before);
    uint32_t *tag = mem_calloc(n, sizeof *tag);
    for (size_t i = 0; i < n; i++) {
      /* negative, zero, equal, tiny and huge ones */
      double v = rng_normal(&rng, 0, 1);
      before[i] = x[i] = want[i] = i % 5 == 0 ? 0 : i % 7 == 0 ? 42 : i % 11 == 0 ? v * 1e300 : v;
      tag[i] = (uint32_t)i;
    }
    qsort(want, n, sizeof *want, by_value);
    stats_sort(x, tag, n);
    for (size_t i = 0; i < n; i++) {
      check_near(x[i], want[i], 0.0);
      check_near(before[tag[i]], x[i], 0.0);
    }
    mem_free(x);
    mem_free(want);
    mem_free(before);
    mem_free(tag);
  }
}

static void moments(void **state) {
  (void)state;
  double *x = make_data(1000);
  double mean = stats_mean(x, 1000);
  check_near(mean, 333.3296372114273, 1e-12); /* numpy's mean and std(ddof=1) */
  check_near(stats_sd(x, 1000, mean), 298.29289722608564, 1e-11);
  mem_free(x);
  assert_true(isnan(stats_mean(NULL, 0)));
  double one = 5;
  assert_true(isnan(stats_sd(&one, 1, 5)));
  double cancel[] = {1e16, 1, -1e16, 1};
  check_near(stats_sum(cancel, 4), 2, 0.0); /* a plain loop says 0 or 1 */
}

static void student_t_is_scipys(void **state) {
  (void)state;
  static const struct {
    double p, df, want;
  } scipy_says[] = {
      {0.975, 1, 12.706204736174694},     {0.995, 1, 63.656741162871526},
      {0.975, 2, 4.302652729749462},      {0.9, 2, 1.8856180831641272},
      {0.9, 3, 1.637744353696209},        {0.975, 3, 3.1824463052837078},
      {0.995, 3, 5.840909309733355},      {0.975, 4, 2.7764451051977934},
      {0.025, 5, -2.5705818356363155},    {0.9, 9, 1.3830287383966329},
      {0.975, 9, 2.262157162798205},      {0.975, 29, 2.045229642132703},
      {0.995, 29, 2.756385903670605},     {0.975, 99, 1.9842169515864174},
      {0.025, 1000, -1.9623390808264085},
  };
  for (size_t i = 0; i < ARRAY_LEN(scipy_says); i++)
    check_near(stats_t_quantile(scipy_says[i].p, scipy_says[i].df), scipy_says[i].want,
               1e-4 * fabs(scipy_says[i].want));
  check_near(stats_normal_cdf(-1.959963984540054), 0.025, 1e-15);
  check_near(stats_normal_cdf(-3.1), 0.0009676032132183563, 1e-15);
  check_near(stats_normal_cdf(0.5), 0.6914624612740131, 1e-15);
}

/* The same to the last bit, whatever the order. */
static void fixed_sums_know_no_order(void **state) {
  (void)state;
  static const double x[] = {0.1, 1, 0.3333333333333333, 0, 0.9999999999, 1e-13, 1048576};
  struct fixed_sum up = {0}, down = {0}, halves[2] = {{0}};
  for (size_t i = 0; i < ARRAY_LEN(x); i++) {
    fixed_sum_add(&up, x[i]);
    fixed_sum_add(&down, x[ARRAY_LEN(x) - 1 - i]);
    fixed_sum_add(&halves[i % 2], x[i]);
  }
  fixed_sum_merge(&halves[0], &halves[1]);
  assert_memory_equal(&up, &down, sizeof up);
  assert_memory_equal(&up, &halves[0], sizeof up);
  check_near(fixed_sum_value(&up), 1048578.4333333332333, 1e-9);
  struct fixed_sum many = {0};
  for (int i = 0; i < 1000000; i++)
    fixed_sum_add(&many, 0.75);
  check_near(fixed_sum_value(&many), 750000, 0.0);
}

/* Selection gives what sorting gives, bit for bit, in any order and with equal values. */
static void selection_is_sorting(void **state) {
  (void)state;
  static const double probs[] = {0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
  static const size_t sizes[] = {1, 2, 3, 16, 17, 18, 100, 1000, 20000};
  struct rng rng;
  rng_init(&rng, 7, 0);
  for (int kind = 0; kind < 6; kind++)
    for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
      size_t n = sizes[k];
      double *x = mem_resize(NULL, n, sizeof *x), *sorted = mem_resize(NULL, n, sizeof *x);
      for (size_t i = 0; i < n; i++) {
        double organ = (double)(i < n / 2 ? i : n - i);
        const double kinds[] = {rng_unit(&rng) - 0.5,       (double)i, -(double)i, 3, organ,
                                (double)(rng_u64(&rng) % 3)};
        x[i] = sorted[i] = kinds[kind];
      }
      stats_sort(sorted, NULL, n);
      for (size_t p = 0; p < ARRAY_LEN(probs); p++) {
        double want = stats_quantile(sorted, n, probs[p]);
        double got = stats_quantile_select(x, n, probs[p]);
        if (got != want) /* NOLINT */
          fail_msg("order %d, n %zu, p %g: %.17g, sorted %.17g", kind, n, probs[p], got, want);
      }
      stats_sort(x, NULL, n); /* nothing was lost */
      assert_memory_equal(x, sorted, n * sizeof *x);
      mem_free(x);
      mem_free(sorted);
    }
  assert_true(isnan(stats_quantile_select(NULL, 0, 0.5)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fixed_sums_know_no_order),
      cmocka_unit_test(quantiles_are_numpys),
      cmocka_unit_test(failures_count_as_infinite),
      cmocka_unit_test(few_samples_are_refused),
      cmocka_unit_test(sorting_is_right_and_carries_tags),
      cmocka_unit_test(moments),
      cmocka_unit_test(selection_is_sorting),
      cmocka_unit_test(student_t_is_scipys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
