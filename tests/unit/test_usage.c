/* test_usage.c: which of a server's counts are believed. */
#include "check.h"

#include <math.h>

#include "out/metrics.h"
#include "out/summary.h"
#include "out/usage.h"
#include "out_rows.h"

#define NONE SAMPLE_ABSENT

static void counts_are_taken_or_left(void **state) {
  (void)state;
  static const struct {
    int64_t prompt, output, cached, reasoning;
    uint64_t events;
    bool impossible;
    int32_t kept_prompt, kept_output, kept_cached;
  } cases[] = {
      {100, 10, 96, 4, 10, false, 100, 10, 96},
      {100, 10, 100, 10, 10, false, 100, 10, 100},
      {NONE, NONE, NONE, NONE, 3, false, -1, -1, -1},
      {NONE, NONE, 5, NONE, 3, false, -1, -1, 5}, /* nothing to hold it against */
      {100, 10, 101, NONE, 10, true, 100, 10, -1},
      {100, 0, 0, NONE, 1, true, 100, -1, 0},
      {100, 0, 0, NONE, 0, false, 100, 0, 0},
      {-3, 10, 0, NONE, 10, true, -1, 10, 0},
      {100, -1, 0, NONE, 10, true, 100, -1, 0},
      {100, 10, -7, NONE, 10, true, 100, 10, -1},
      {100, 10, 0, 11, 10, true, 100, 10, 0},
      {100, 10, 0, -1, 10, true, 100, 10, 0},
      {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, 1, true, -1, -1, -1},
      {(int64_t)INT32_MAX + 1, 1, 0, NONE, 1, true, -1, 1, 0},
      {INT32_MAX, INT32_MAX, INT32_MAX, NONE, 1, false, INT32_MAX, INT32_MAX, INT32_MAX},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct sample *s =
        row_tokens(row_ok(1, 1, 0, 5, 5), cases[i].prompt, cases[i].output, cases[i].cached);
    s->reasoning_tokens = cases[i].reasoning;
    s->output_events = cases[i].events;
    struct table_row row = {0};
    bool impossible = usage_fill(&row, s);
    if (impossible != cases[i].impossible || row.prompt_tokens != cases[i].kept_prompt ||
        row.output_tokens != cases[i].kept_output || row.cached_tokens != cases[i].kept_cached)
      fail_msg("case %zu: impossible %d, kept %d %d %d", i, impossible, row.prompt_tokens,
               row.output_tokens, row.cached_tokens);
    assert_int_equal(row.cached_state == CACHED_ABSENT, row.cached_tokens < 0);
    sample_free(s);
  }
}

static void a_count_that_shrank(void **state) {
  (void)state;
  struct sample *s = row_tokens(row_ok(1, 1, 0, 5, 5), 100, 10, 0);
  s->usage_odd = true;
  struct table_row row = {0};
  assert_true(usage_fill(&row, s));
  assert_int_equal(row.output_tokens, 10);
  sample_free(s);
}

/* Nothing overflows, nothing is made of them, and a zero is not inferred for them either. */
static void no_figure_is_made_of_nonsense(void **state) {
  (void)state;
  struct metrics metrics;
  metrics_init(&metrics);
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 20; i++)
    row_add(t, row_tokens(row_ok(i, 1, 0, 5, 5), 100, 10, 50));
  for (uint64_t i = 20; i < 30; i++)
    row_add(t, row_tokens(row_ok(i, 1, 0, 5, 5), INT64_MAX, INT64_MAX, INT64_MAX));
  table_add_window(t, NULL, 0, NS_PER_S);
  table_finish(t);
  struct summary_options o = {
      .run_id = "x",
      .metrics = &metrics,
      .checks = {.limits = checks_default_limits(), .clock_step_ns = SAMPLE_ABSENT},
  };
  struct value v = summary_build(t, &o);
  const struct value *m = value_get(&v, "metrics");
  static const struct {
    const char *name;
    double max;
  } want[] = {
      {"prompt_tokens", 100}, {"output_tokens", 10}, {"cached_tokens", 50}, {"cached_ratio", .5}};
  for (size_t i = 0; i < ARRAY_LEN(want); i++) {
    double n, max;
    assert_true(value_to_double(value_get(value_get(m, want[i].name), "n"), &n));
    assert_true(value_to_double(value_get(value_get(m, want[i].name), "max"), &max));
    check_near(n, 20, 0.0);
    check_near(max, want[i].max, 0.0);
  }
  int64_t absent = 0;
  assert_true(value_to_int(value_get(value_get(&v, "cached"), "absent"), &absent));
  assert_int_equal(absent, 10);
  assert_false(value_get(&v, "valid")->u.boolean);
  value_free(&v);
  table_free(t);
  metrics_free(&metrics);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_are_taken_or_left),
      cmocka_unit_test(a_count_that_shrank),
      cmocka_unit_test(no_figure_is_made_of_nonsense),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
