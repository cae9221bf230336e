/* test_goodput.c: objectives met, broken, and those that nothing can be said of. */
#include "check.h"

#include <math.h>

#include "base/mem.h"
#include "out/goodput.h"
#include "out_rows.h"
#include "text/json.h"

static struct metrics metrics;

static void objective(const char *name, const char *limit) {
  struct err err;
  check_ok(metrics_add_slo(&metrics, name, limit, &err), &err);
}

/* 10 good, 3 slow, 4 without token counts, 2 not streamed, 1 failed, 1 cut off. */
static struct table *mixed(void) {
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 19; i++) {
    bool slow = i >= 10 && i < 13, silent = i >= 13 && i < 17;
    struct sample *s =
        row_tokens(row_ok(i, 1, 0, slow ? 500 : 50, 100), 100, silent ? SAMPLE_ABSENT : 11, 0);
    s->streamed = i < 17;
    row_add(t, s);
  }
  row_add(t, row_failed(20, 1, 0, SAMPLE_RESET));
  row_add(t, row_failed(21, 1, 0, SAMPLE_INCOMPLETE));
  table_finish(t);
  return t;
}

static void what_cannot_be_judged_is_neither(void **state) {
  (void)state;
  struct table *t = mixed();
  assert_true(isnan(goodput_of_row(&metrics, &t->rows[0]))); /* no objective */
  objective("ttft", "400ms");
  objective("tpot", "20ms");
  double good = 0, n = 0;
  for (size_t i = 0; i < t->n_rows; i++) {
    double x = goodput_of_row(&metrics, &t->rows[i]);
    n += !isnan(x);
    good += x > 0;
  }
  check_near(n, 14, 0.0); /* 10 + 3 + the failed one */
  check_near(good, 10, 0.0);
  struct goodput_counts c;
  goodput_count(&c, t, &metrics, NULL);
  assert_int_equal(c.unjudged, 6);
  assert_int_equal(c.failed, 1);
  assert_int_equal(c.slos[0].judged, 17);
  assert_int_equal(c.slos[0].broken, 3);
  assert_int_equal(c.slos[0].unjudged, 2);
  assert_int_equal(c.slos[0].not_streamed, 2);
  assert_int_equal(c.slos[1].judged, 13);
  assert_int_equal(c.slos[1].broken, 0);
  assert_int_equal(c.slos[1].unjudged, 6);
  char text[300];
  goodput_explain(&metrics, &c, text, sizeof text);
  assert_string_equal(text,
                      "ttft > 400 ms in 3 of 17, ttft could not be judged in 2 of 19: replies "
                      "were not streamed; tpot could not be judged in 6 of 19: replies were "
                      "not streamed");
  struct value v = goodput_value(&metrics, &c);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, value_at(&v, 1));
  check_has(b.data, "\"metric\":\"tpot\",");
  check_has(b.data, "\"unjudged\":6,");
  check_has(b.data, "replies were not streamed");
  buf_free(&b);
  value_free(&v);
  goodput_free(&c);
  table_free(t);
}

/* A broken objective decides, whatever is not known of the others. */
static void a_broken_objective_is_enough(void **state) {
  (void)state;
  objective("ttft", "10ms");
  objective("tpot", "20ms");
  struct table *t = table_new(0);
  row_add(t, row_ok(1, 1, 0, 50, 100)); /* no usage */
  row_add(t, row_ok(1, 1, 0, 5, 100));
  table_finish(t);
  check_near(goodput_of_row(&metrics, &t->rows[0]), 0, 0.0);
  assert_true(isnan(goodput_of_row(&metrics, &t->rows[1])));
  struct goodput_counts c;
  goodput_count(&c, t, &metrics, NULL);
  char why[120];
  goodput_reason(&metrics, &c, 1, why, sizeof why);
  assert_string_equal(why, "replies did not say their number of output tokens (usage)");
  goodput_reason(&metrics, &c, 0, why, sizeof why);
  assert_string_equal(why, "");
  goodput_free(&c);
  table_free(t);
}

/* One token, or all in one read: no time per token that could be too long. */
static void nothing_to_time_is_no_objection(void **state) {
  (void)state;
  objective("tpot", "20ms");
  struct table *t = table_new(0);
  row_add(t, row_tokens(row_ok(1, 1, 0, 50, 0), 100, 1, 0));
  row_add(t, row_tokens(row_ok(1, 1, 0, 50, 0), 100, 9, 0)); /* one read */
  struct sample *whole = row_tokens(row_ok(1, 1, 0, 50, 0), 100, 1, 0);
  whole->streamed = false;
  row_add(t, whole);
  table_finish(t);
  check_near(goodput_of_row(&metrics, &t->rows[0]), 1, 0.0);
  check_near(goodput_of_row(&metrics, &t->rows[1]), 1, 0.0);
  assert_true(isnan(goodput_of_row(&metrics, &t->rows[2])));
  table_free(t);
}

static int set_up(void **state) {
  (void)state;
  metrics_init(&metrics);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  metrics_free(&metrics);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_cannot_be_judged_is_neither, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_broken_objective_is_enough, set_up, tear_down),
      cmocka_unit_test_setup_teardown(nothing_to_time_is_no_objection, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
