/* test_summary_group.c: which requests and sessions a group's metrics rest on. */
#include "check.h"

#include "summary_check.h"

/* A request that asked for a whole reply has no first token, however it ends. */
static void as_infinity_is_of_those_that_asked(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint32_t i = 0; i < 30; i++) {
    struct sample *s = i % 3 ? row_ok(i, 1, 0, i + 1, 1) : row_failed(i, 1, 0, SAMPLE_RESET);
    if (i >= 15)
      s->streamed = s->stream_asked = false;
    row_add(t, s);
  }
  row_add(t, plain_http(1, SAMPLE_HTTP_4XX));
  table_finish(t);
  struct value s = build(t, NULL, 0);
  check_num(&s, "as_infinity.ttft.n", 15);
  check_num(&s, "as_infinity.ttft.failed", 5);
  check_num(&s, "metrics.ttft.failed", 5);
  check_num(&s, "metrics.itl.failed", 5);
  check_num(&s, "as_infinity.e2e.n", 30);
  check_num(&s, "as_infinity.e2e.failed", 10);
  value_free(&s);
  table_free(t);

  t = table_new(0);
  for (uint32_t i = 0; i < 30; i++)
    row_add(t, plain_http(i, SAMPLE_HTTP_4XX));
  table_finish(t);
  s = build(t, NULL, 0);
  assert_int_equal(value_count(at(&s, "as_infinity")), 0);
  assert_int_equal(at(&s, "as_infinity")->kind, VALUE_OBJECT);
  value_free(&s);
  table_free(t);
}

/* Intervals are refused by sessions, with the reason beside. */
static void intervals_need_sessions(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint32_t i = 0; i < 120; i++)
    row_add(t, row_ok(i % 12, 1, 0, (i * 37 % 120) + 1, 1));
  table_finish(t);
  struct value s = build(t, NULL, 0);
  assert_int_equal(value_count(at(&s, "metrics.ttft.ci95.mean")), 2);
  assert_int_equal(value_count(at(&s, "metrics.ttft.ci95.p50")), 2);
  assert_true(num(&s, "metrics.ttft.p90") > 0);
  check_null(&s, "metrics.ttft.ci95.p90");
  assert_string_equal(value_to_string(at(&s, "metrics.ttft.ci95_reason.p90")),
                      "too few sessions (12 of at least 20)");
  check_num(&s, "metrics.failed.sessions", 12);
  assert_int_equal(value_count(at(&s, "metrics.failed.ci95.mean")), 2);
  assert_true(num(&s, "metrics.failed.ci95.mean.1") > 0.1); /* none of 12 is not never */
  value_free(&s);
  table_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_infinity_is_of_those_that_asked),
      cmocka_unit_test(intervals_need_sessions),
  };
  return cmocka_run_group_tests(tests, summary_set_up, summary_tear_down);
}
