/* test_summary_counts.c: what is counted, and of which requests. */
#include "check.h"

#include "summary_check.h"

/* Of the measured ones that failed and went to a replica known by name, most often first. */
static void failures_are_counted_where_they_came_from(void **state) {
  (void)state;
  static const struct {
    const char *replica;
    enum sample_error error;
    int n;
    bool cold;
  } rows[] = {{"x", SAMPLE_RESET, 2, false},     {"y", SAMPLE_RESET, 3, false},
              {"a", SAMPLE_RESET, 2, false},     {"x", SAMPLE_HTTP_429, 1, false},
              {NULL, SAMPLE_HTTP_429, 4, false}, {"x", SAMPLE_INCOMPLETE, 5, false},
              {"x", SAMPLE_CONNECT, 6, true},    {"y", SAMPLE_OK, 7, false}};
  struct table *t = table_new(0);
  for (size_t i = 0; i < ARRAY_LEN(rows); i++)
    for (int k = 0; k < rows[i].n; k++) {
      struct sample *s = rows[i].error ? row_failed(1, 1, 0, rows[i].error) : row_ok(1, 1, 0, 1, 1);
      s->served = rows[i].replica ? mem_strdup(rows[i].replica) : NULL;
      s->measured = !rows[i].cold;
      row_add(t, s);
    }
  table_finish(t);
  struct value s = build(t, NULL, 0);
  static const struct {
    const char *error, *replica;
    double n;
  } want[] = {{"reset", "y", 3}, {"reset", "a", 2}, {"reset", "x", 2}, {"http_429", "x", 1}};
  const struct value *list = at(&s, "requests.failed_at");
  assert_int_equal(value_count(list), ARRAY_LEN(want));
  for (size_t i = 0; i < ARRAY_LEN(want); i++) {
    const struct value *v = value_at(list, i);
    assert_string_equal(value_to_string(value_get(v, "error")), want[i].error);
    assert_string_equal(value_to_string(value_get(v, "replica")), want[i].replica);
    check_num(v, "requests", want[i].n);
  }
  value_free(&s);
  table_free(t);
}

/* Each group counts its own, outside the window too. */
static void plain_http_is_counted_apart(void **state) {
  (void)state;
  struct table *t = table_new(0);
  row_add(t, plain_http(1, SAMPLE_HTTP_4XX));
  for (int i = 0; i < 3; i++) {
    struct sample *s = plain_http(2, SAMPLE_OK);
    s->measured = i == 0;
    s->reconnects = i == 2 ? 0 : 1;
    row_add(t, s);
  }
  table_finish(t);
  struct value s = build(t, NULL, 0);
  check_num(&s, "requests.ok", 1);
  check_num(&s, "requests.outside_window", 2);
  assert_string_equal(value_to_string(at(&s, "requests.detail.http_4xx")), "plain");
  check_num(&s, "other_requests.ok", 0); /* always there; counted above */
  check_num(&s, "other_requests.outside_window", 0);
  check_num(&s, "requests.reconnects", 1); /* measured ones only */
  check_num(&s, "other_requests.reconnects", 0);
  assert_null(value_get(at(&s, "sessions"), "reconnects"));
  value_free(&s);
  struct sample *again = row_failed(1, 1, 0, SAMPLE_HTTP_4XX);
  again->reconnects = 3;
  row_add(t, again);
  struct sample *warm = row_ok(3, 1, 0, 1, 1);
  warm->measured = false;
  row_add(t, warm);
  table_finish(t);
  s = build(t, NULL, 0);
  check_num(&s, "requests.ok", 0);
  check_num(&s, "requests.failed", 1);
  check_num(&s, "requests.outside_window", 1);
  assert_int_equal(value_count(at(&s, "requests.detail")), 0);
  check_num(&s, "other_requests.ok", 1);
  check_num(&s, "other_requests.failed", 1);
  check_num(&s, "other_requests.outside_window", 2);
  check_num(&s, "requests.reconnects", 3);
  check_num(&s, "other_requests.reconnects", 1);
  assert_string_equal(value_to_string(at(&s, "other_requests.detail.http_4xx")), "plain");
  value_free(&s);
  table_free(t);
}

/* A replica's tokens are those it served. */
static void failed_requests_served_no_tokens(void **state) {
  (void)state;
  struct table *t = table_new(0);
  static const enum sample_error errors[] = {SAMPLE_OK, SAMPLE_INCOMPLETE, SAMPLE_CANCELLED,
                                             SAMPLE_TRUNCATED};
  for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
    struct sample *s = row_tokens(row_ok(i, 1, 0, 1, 1), 100, 10, 0);
    s->error = errors[i];
    s->chosen = mem_strdup("r0");
    row_add(t, s);
  }
  table_finish(t);
  struct value v = build(t, NULL, 0);
  check_num(&v, "replicas.0.requests", 4);
  check_num(&v, "replicas.0.prompt_tokens", 300);
  check_num(&v, "replicas.0.output_tokens", 30);
  value_free(&v);
  table_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(failures_are_counted_where_they_came_from),
      cmocka_unit_test(plain_http_is_counted_apart),
      cmocka_unit_test(failed_requests_served_no_tokens),
  };
  return cmocka_run_group_tests(tests, summary_set_up, summary_tear_down);
}
