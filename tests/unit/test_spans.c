/* test_spans.c: which requests belong before, during and after, and what is said of them. */
#include "check.h"

#include "out/spans.h"
#include "out_rows.h"

#define S NS_PER_S

static struct metrics metrics;
static struct table *table;

static int set_up(void **state) {
  (void)state;
  metrics_init(&metrics);
  table = table_new(0);
  table_add_window(table, NULL, 5 * S, 65 * S);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  table_free(table);
  metrics_free(&metrics);
  return 0;
}

static struct sample *at_replica(struct sample *s, const char *id) {
  s->served = mem_strdup(id);
  return s;
}

static double number(const struct value *v, const char *key) {
  double x = -1;
  value_to_double(value_get(v, key), &x);
  return x;
}

static void spans_are_cut_at_the_window(void **state) {
  (void)state;
  table_finish(table);
  const struct spans_input in = {.begin_ns = 12 * S, .end_ns = 14 * S};
  struct value v = spans_value(table, &metrics, &in);
  const struct value *before = value_get(&v, "before"), *during = value_get(&v, "during"),
                     *after = value_get(&v, "after");
  check_near(number(before, "from_ns"), 5e9, 0); /* 10 s before, but warm-up is never measured */
  check_near(number(before, "to_ns"), 12e9, 0);
  check_near(number(before, "seconds"), 7, 0);
  check_near(number(during, "seconds"), 2, 0);
  check_near(number(after, "from_ns"), 14e9, 0);
  check_near(number(after, "to_ns"), 24e9, 0);
  check_near(number(after, "requests"), 0, 0);
  assert_int_equal(value_get(after, "cached_share")->kind, VALUE_NULL);
  assert_int_equal(value_get(value_get(after, "ttft"), "mean")->kind, VALUE_NULL);
  value_free(&v);

  const struct spans_input at_once = {.begin_ns = 64 * S, .end_ns = 64 * S, .window_ns = 2 * S};
  v = spans_value(table, &metrics, &at_once);
  check_near(number(value_get(&v, "before"), "seconds"), 2, 0);
  check_near(number(value_get(&v, "during"), "seconds"), 1, 0); /* an instant has one, too */
  assert_int_equal(value_get(&v, "after")->kind, VALUE_NULL);   /* nothing of it was measured */
  value_free(&v);

  const struct spans_input lasting = {.begin_ns = 30 * S, .end_ns = 45 * S};
  v = spans_value(table, &metrics, &lasting); /* as long as what it is compared with */
  check_near(number(value_get(&v, "before"), "from_ns"), 15e9, 0);
  check_near(number(value_get(&v, "after"), "to_ns"), 60e9, 0);
  value_free(&v);
}

static void requests_belong_where_they_start(void **state) {
  (void)state;
  for (int i = 0; i < 12; i++) { /* every second from 10 s on; r1 is slow from 20 s on */
    double start = 10000 + 1000 * i, ttft = i < 10 ? 100 : 400;
    row_add(table,
            row_tokens(at_replica(row_ok((uint64_t)i, 1, start, ttft, 100), i % 2 ? "r1" : "r0"),
                       1000, 50, i < 10 ? 900 : 0));
  }
  row_add(table, at_replica(row_failed(20, 1, 20500, SAMPLE_RESET), "r1"));
  struct sample *warm = row_ok(30, 1, 15000, 5000, 100); /* of a session before the window */
  warm->measured = false;
  row_add(table, row_tokens(warm, 10, 10, 0));
  row_add(table, row_failed(21, 1, 21000, SAMPLE_INCOMPLETE));
  table_finish(table);
  static const char *const ids[] = {"r1"};
  const struct spans_input in = {
      .begin_ns = 20 * S, .end_ns = 22 * S, .replicas = ids, .n_replicas = 1};
  struct value v = spans_value(table, &metrics, &in);
  const struct value *before = value_get(&v, "before"), *during = value_get(&v, "during");
  check_near(number(before, "requests"), 10, 0);
  check_near(number(before, "failed"), 0, 0);
  check_near(number(value_get(before, "ttft"), "n"), 10, 0);
  check_near(number(value_get(before, "ttft"), "p50"), 0.1, 1e-12);
  assert_int_equal(value_get(value_get(before, "ttft"), "p99")->kind, VALUE_NULL);
  check_near(number(value_get(before, "ttft"), "max"), 0.1, 1e-12);
  check_near(number(before, "cached_share"), 0.9, 1e-12);
  check_near(number(before, "prompt_tokens"), 10000, 0);
  check_near(number(before, "output_tokens_rate"), 50, 1e-9);
  check_near(number(during, "requests"), 4, 0);
  check_near(number(during, "failed"), 1, 0);
  check_near(number(during, "incomplete"), 1, 0);
  check_near(number(value_get(during, "ttft"), "n"), 2, 0);
  check_near(number(value_get(during, "ttft"), "mean"), 0.4, 1e-12);
  check_near(number(during, "cached_share"), 0, 0);
  /* 50 of each, and those 10 of a session that is not measured: rates are the fleet's. */
  check_near(number(during, "output_tokens_rate"), 55, 1e-9);
  const struct value *r1 = value_get(value_get(during, "replicas"), "r1");
  check_near(number(r1, "requests"), 2, 0);
  check_near(number(r1, "failed"), 1, 0);
  check_near(number(r1, "output_tokens_rate"), 25, 1e-9);
  check_near(number(value_get(value_get(before, "replicas"), "r1"), "requests"), 5, 0);
  assert_null(value_get(value_get(before, "replicas"), "r0"));
  value_free(&v);
}

/* A request that is hit while it runs failed in the span in which it failed. */
static void failures_belong_where_they_end(void **state) {
  (void)state;
  struct sample *s = row_failed(1, 1, 19000, SAMPLE_RESET);
  s->t[STAMP_DONE] = 20 * S + 1;
  row_add(table, s);
  table_finish(table);
  const struct spans_input in = {.begin_ns = 20 * S, .end_ns = 20 * S};
  struct value v = spans_value(table, &metrics, &in);
  check_near(number(value_get(&v, "before"), "requests"), 1, 0);
  check_near(number(value_get(&v, "before"), "failed"), 0, 0);
  check_near(number(value_get(&v, "during"), "requests"), 0, 0);
  check_near(number(value_get(&v, "during"), "failed"), 1, 0);
  value_free(&v);
}

/* Of one that runs across, each gap and each token counts where it was. */
static void gaps_and_tokens_belong_where_they_are(void **state) {
  (void)state;
  struct sample *s = row_tokens(row_ok(1, 1, 18000, 1000, 4000), 100, 40, 0); /* 19 s to 23 s */
  s->output_events = 5;
  s->n_gaps = 4;
  s->gaps_ns = mem_calloc(4, sizeof *s->gaps_ns);
  for (int i = 0; i < 4; i++)
    s->gaps_ns[i] = S;
  row_add(table, s);
  table_finish(table);
  const struct spans_input in = {.begin_ns = 20 * S + 500 * MS, .end_ns = 22 * S + 500 * MS};
  struct value v = spans_value(table, &metrics, &in);
  check_near(number(value_get(value_get(&v, "before"), "itl"), "n"), 1, 0);
  check_near(number(value_get(value_get(&v, "during"), "itl"), "n"), 2, 0);
  check_near(number(value_get(value_get(&v, "after"), "itl"), "n"), 1, 0);
  check_near(number(value_get(value_get(&v, "during"), "itl"), "mean"), 1, 1e-9);
  check_near(number(value_get(&v, "before"), "output_tokens_rate"), 1.5, 1e-9); /* 15 in 10 s */
  check_near(number(value_get(&v, "during"), "output_tokens_rate"), 10, 1e-9);
  check_near(number(value_get(&v, "after"), "output_tokens_rate"), 0.5, 1e-9);
  value_free(&v);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(spans_are_cut_at_the_window, set_up, tear_down),
      cmocka_unit_test_setup_teardown(requests_belong_where_they_start, set_up, tear_down),
      cmocka_unit_test_setup_teardown(failures_belong_where_they_end, set_up, tear_down),
      cmocka_unit_test_setup_teardown(gaps_and_tokens_belong_where_they_are, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("spans", tests, NULL, NULL);
}
