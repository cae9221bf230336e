/* test_expect_eval.c: verdicts on tables whose answers are known. */
#include "check.h"

#include <math.h>

#include "base/rng.h"
#include "out/expect.h"
#include "out_rows.h"

static struct metrics metrics;
static const char *const arms[] = {"a", "b", "c"};

static struct expect_result judge(const struct table *t, const char *text) {
  struct expect e;
  struct err err;
  check_ok(expect_parse(text, &metrics, arms, ARRAY_LEN(arms), &e, &err), &err);
  struct expect_result r;
  expect_eval(&e, t, &metrics, &r);
  expect_free(&e);
  return r;
}

static void check_met(const struct table *t, const char *text, double value) {
  struct expect_result r = judge(t, text);
  if (!r.met)
    fail_msg("%s: not met: %s", text, r.reason);
  check_near(r.value, value, 1e-9);
}

static void check_not(const struct table *t, const char *text, const char *reason) {
  struct expect_result r = judge(t, text);
  if (r.met)
    fail_msg("%s: met", text);
  assert_string_equal(r.reason, reason);
}

/* 200 good requests of 50 sessions, ttft 1 … 200 ms, cached 0 on turn 1 and 90 % later; 10 failed.
 */
static struct table *plain_table(void) {
  struct table *t = table_new(0);
  for (uint32_t i = 0; i < 200; i++) {
    uint32_t turn = i / 50 + 1;
    row_add(t, row_tokens(row_ok(i % 50, turn, i * 10, i + 1, 100), 1000, 11, turn > 1 ? 900 : 0));
  }
  for (uint32_t i = 0; i < 10; i++)
    row_add(t, row_failed(i, 1, 100, i < 7 ? SAMPLE_EMPTY_STREAM : SAMPLE_HTTP_429));
  table_add_window(t, NULL, 0, 2 * NS_PER_S);
  table_finish(t);
  return t;
}

static void bounds(void **state) {
  (void)state;
  struct table *t = plain_table();
  check_met(t, "ttft p50 < 101ms", 0.1005);
  check_not(t, "ttft p50 < 100ms", "100.5 ms is not < 100 ms");
  check_met(t, "ttft p50 <= 100.5ms", 0.1005);
  check_met(t, "ttft p95 >= 190ms", 0.19005);
  check_not(t, "ttft p95 > 200ms", "190 ms is not > 200 ms");
  check_met(t, "ttft max < 201ms", 0.2);
  check_met(t, "ttft{turn=2} min > 50ms", 0.051);
  check_met(t, "cached_ratio{turn=2..8} mean > 89%", 0.9);
  check_not(t, "cached_ratio mean > 75%", "67.5 % is not > 75 %");
  check_met(t, "failed share < 5%", 10.0 / 210);
  check_not(t, "failed share < 4%", "4.76 % is not < 4 %");
  check_met(t, "failed count <= 10", 10);
  check_met(t, "failed{error=http_429} count <= 3", 3);
  check_met(t, "requests count >= 210", 210);
  check_not(t, "output_tokens mean > 12", "11 tokens is not > 12 tokens");
  check_met(t, "tpot mean < 11ms", 0.010);
  check_met(t, "ttft{turn=1} p50 < ttft{turn=2} p50", 0.0255);
  check_not(t, "ttft{turn=2} p50 < ttft{turn=1} p50", "75.5 ms is not < 25.5 ms");
  check_not(t, "ttft{turn=2} p50 < 2 * ttft{turn=1} p50",
            "75.5 ms is not < 51.0 ms (the other side is 25.5 ms)");
  check_met(t, "ttft{turn=2} p50 < ttft{turn=1} p50 + 60ms", 0.0755);
  check_not(t, "ttft{turn=2} p50 < ttft{turn=1} p50 + 100%",
            "75.5 ms is not < 51.0 ms (the other side is 25.5 ms)");
  check_met(t, "cached_ratio{turn=2} mean > cached_ratio{turn=1} mean + 80%", 0.9);
  check_not(t, "cached_ratio{turn=2} mean > cached_ratio{turn=1} mean + 95%",
            "90 % is not > 95 % (the other side is 0 %)");
  struct expect_result r = judge(t, "ttft p95 > 200ms");
  check_near(r.bound, 0.2, 0.0);
  assert_int_equal(r.n, 200);
  table_free(t);
}

static void what_cannot_be_judged_is_not_met(void **state) {
  (void)state;
  struct table *t = plain_table();
  row_add(t, row_tags(row_ok(60, 9, 0, 5, 5), "{\"tier\":\"gold\"}"));
  table_finish(t);
  check_not(t, "ttft p99 < 1s", "too few samples: p99 of ttft needs 500, there are 201");
  check_not(t, "ttft{turn=9} p50 < 1s", "too few samples: p50 of ttft needs 10, there are 1");
  check_not(t, "ttft{turn=30} mean < 1s",
            "no data: no measured request with these tags ended well");
  check_not(t, "ttft{teir=gold} mean < 1s",
            "no data: nothing has the tag \"teir\" (did you mean \"tier\"?)");
  check_not(t, "ttft{xyzzyplugh=1} mean < 1s", "no data: nothing has the tag \"xyzzyplugh\"");
  check_not(t, "b.ttft mean < 1s", "no data: the arm \"b\" has measured nothing");
  check_not(t, "itl mean < 1s", "no data: no reply has two output events");
  check_not(t, "plan_time mean < 1s", "no data: plan_time needs vu:record in the script");
  struct session_record bad = row_session(3, 0, 1, SAMPLE_SCRIPT);
  snprintf(bad.detail, sizeof bad.detail, "x.lua:3: the value must be a finite number, got inf");
  table_add_session(t, &bad);
  check_not(
      t, "plan_time mean < 1s",
      "no data: no value of plan_time was recorded; a session failed: x.lua:3: the value must "
      "be a finite number, got inf");
  check_not(t, "ttft mean < b.ttft mean", "no data: the arm \"b\" has measured nothing");
  check_not(t, "measurement_error p50 < 1ms",
            "no data: measurement_error needs kernel receive timestamps");
  struct expect_result r = judge(t, "ttft mean < b.ttft mean");
  assert_true(!isnan(r.value));
  assert_true(isnan(r.bound));
  table_free(t);
  t = table_new(0); /* nothing at all */
  table_finish(t);
  check_not(t, "ttft mean < 1s", "no data: no measured request ended well");
  check_not(t, "failed share < 1%", "no data: no measured request ended");
  check_not(t, "session_time mean < 1s", "no data: no measured session ended well");
  check_not(t, "requests rate > 1", "no data: the measurement window has no length");
  check_not(t, "ttft p50 = 1s within 5%", "no data: no measured request ended well");
  check_met(t, "failed count < 1", 0);
  table_free(t);
}

static void exactly_enough_samples_are_enough(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint32_t i = 0; i < 9; i++)
    row_add(t, row_ok(i, 1, 0, 5, 5));
  table_finish(t);
  check_not(t, "ttft p50 < 1s", "too few samples: p50 of ttft needs 10, there are 9");
  row_add(t, row_ok(9, 1, 0, 5, 5));
  table_finish(t);
  check_met(t, "ttft p50 < 1s", 0.005);
  table_free(t);
}

static void rates(void **state) {
  (void)state;
  struct table *t = plain_table();
  /* ends at i·10 + (i + 1) + 101 ms <= 2,000 ms: i <= 172; failed ones were not served */
  check_met(t, "requests rate > 86/s", 173.0 / 2);
  check_met(t, "failed rate <= 5", 5);
  table_free(t);
}

/* 0 of a mistyped tag is below any bound. */
static void a_tag_that_nothing_has_meets_nothing(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint32_t i = 0; i < 20; i++)
    row_add(t, row_tags(row_ok(i, 1, i * 10, i + 1, 100), "{\"group\":\"a\"}"));
  table_add_window(t, NULL, 0, 2 * NS_PER_S);
  table_finish(t);
  static const char *const stats[] = {"count", "rate", "share"};
  for (size_t i = 0; i < ARRAY_LEN(stats); i++) {
    char text[80];
    snprintf(text, sizeof text, "failed{grop=a} %s < 1", stats[i]);
    check_not(t, text, "no data: nothing has the tag \"grop\" (did you mean \"group\"?)");
  }
  check_not(t, "e2e{grop=a} sum < 1s",
            "no data: nothing has the tag \"grop\" (did you mean \"group\"?)");
  check_not(t, "b.failed count < 1", "no data: the arm \"b\" has measured nothing");
  check_met(t, "failed{group=a} count < 1", 0);
  check_met(t, "failed{group=a} rate < 1", 0);
  check_met(t, "requests{group=zz} count < 1", 0); /* the tag is known, the value did not come */
  table_free(t);
}

static void small_and_huge_figures(void **state) {
  (void)state;
  char out[48];
  expect_format(14.5e-6, UNITS_TIME, NULL, out, sizeof out);
  assert_string_equal(out, "14.5 µs");
  expect_format(1e308, UNITS_NONE, NULL, out, sizeof out);
  assert_string_equal(out, "1e+308");
}

/* The same sessions in two arms; b is `factor` × a with a little noise. */
static struct table *two_arms(double factor, double noise, uint32_t sessions) {
  struct table *t = table_new(0);
  struct rng rng;
  rng_init(&rng, 4, 4);
  for (uint32_t i = 0; i < sessions * 6; i++) {
    double ms = 100 + rng_normal(&rng, 0, 30);
    for (int arm = 0; arm < 2; arm++) {
      double x = arm ? ms * factor * (1 + rng_normal(&rng, 0, noise)) : ms;
      struct sample *s = row_tokens(row_ok(i / 6, i % 6 + 1, 0, x < 1 ? 1 : x, 50), 1000, 5, 500);
      s->arm = arms[arm];
      row_add(t, s);
    }
  }
  table_finish(t);
  return t;
}

static void equivalence_is_judged_on_intervals(void **state) {
  (void)state;
  struct table *t = two_arms(1.0, 0.02, 100);
  struct expect_result r = judge(t, "a.ttft p50 = b.ttft p50 within 5%");
  if (!r.met)
    fail_msg("%s", r.reason);
  check_has(r.reason, "equivalent: the difference is ");
  check_has(r.reason, "margin 5 %");
  assert_true(fabs(r.value) < 0.02);
  r = judge(t, "a.ttft mean = b.ttft mean within 2ms");
  assert_true(r.met);
  r = judge(t, "a.ttft mean = b.ttft mean within 0.01ms");
  assert_false(r.met);
  check_has(r.reason, "undecided: the difference is ");
  r = judge(t, "a.cached_ratio mean = b.cached_ratio mean within 1%");
  assert_true(r.met);
  check_near(r.value, 0, 0.0);
  r = judge(t, "a.ttft p50 = 100ms within 10%");
  assert_true(r.met);
  table_free(t);

  t = two_arms(1.2, 0.02, 100);
  r = judge(t, "a.ttft p50 = b.ttft p50 within 5%");
  assert_false(r.met);
  check_has(r.reason, "different: the difference is -1");
  table_free(t);

  t = two_arms(1.0, 0.3, 4); /* far too few */
  r = judge(t, "a.ttft p50 = b.ttft p50 within 2%");
  assert_false(r.met);
  check_has(r.reason, "undecided: no interval: too few sessions (4 of at least 5)");
  r = judge(t, "a.ttft mean = b.ttft mean within 0.1%");
  assert_false(r.met);
  check_has(r.reason, "undecided: the difference is ");
  r = judge(t, "a.ttft p50 = 100ms within 2ms");
  assert_false(r.met);
  check_near(r.bound, 0.002, 1e-12); /* the margin, decided or not */
  table_free(t);

  t = two_arms(1.0, 0.3, 1);
  check_not(t, "a.ttft mean = b.ttft mean within 2%",
            "undecided: no interval: too few sessions (1 of at least 2); run more sessions");
  check_near(judge(t, "a.ttft p99 = b.ttft p99 within 2%").bound, 0.02, 1e-12); /* no data */
  table_free(t);
}

static void a_histogram_gives_no_interval(void **state) {
  (void)state;
  struct table *t = table_new(10);
  for (uint64_t i = 0; i < 30; i++) {
    struct sample *s = row_ok(i, 1, 0, 5, 5);
    s->n_gaps = 1;
    s->gaps_ns = mem_calloc(1, sizeof *s->gaps_ns);
    s->gaps_ns[0] = 20 * MS;
    row_add(t, s);
  }
  table_finish(t);
  check_met(t, "itl p50 < 21ms", 0.02);
  check_not(t, "itl p50 = 20ms within 5%",
            "undecided: only a histogram of the gaps was kept, which gives no interval");
  check_not(t, "itl{turn=1} p50 < 21ms",
            "no data: too many gaps to keep each with its tags (over 10); ask without tags");
  table_free(t);
}

static int set_up(void **state) {
  (void)state;
  metrics_init(&metrics);
  return metrics_declare(&metrics, "plan_time", "ms", NULL);
}

static int tear_down(void **state) {
  (void)state;
  metrics_free(&metrics);
  return 0;
}

/* vu:check: a share over all of them, or over those of one name. */
static void checks_of_the_script(void **state) {
  (void)state;
  struct table *t = plain_table();
  for (uint64_t i = 0; i < 20; i++) {
    row_value(t, i, "even", i % 2 == 0, i < 10 ? "{\"turn\":1}" : "{\"turn\":2}", true);
    row_value(t, i, "parsed", 1, NULL, true);
    row_value(t, i, "plan_time", 0, NULL, false); /* no check */
  }
  table_finish(t);
  check_met(t, "checks share >= 75%", 0.75);
  check_met(t, "checks{check=even} share < 51%", 0.5);
  check_met(t, "checks{check=even,turn=1} count <= 5", 5);
  check_met(t, "checks{check=parsed} share > 99%", 1);
  check_not(t, "checks{check=odd} share > 1%",
            "no data: no check has that name: there are even, parsed");
  check_not(t, "checks{turn=3} share > 1%",
            "no data: no check has those tags: there are even, parsed; checks and values have only "
            "tags of vu:tag and vu:record, turn is of requests");
  check_not(t, "checks{check=even,turn=3} share > 1%",
            "no data: no check has that name and those tags: there are even, parsed; checks and "
            "values have only tags of vu:tag and vu:record, turn is of requests");
  table_free(t);
  t = table_new(0); /* outside the window there was one */
  struct value_record warm = {.session = 1, .name = "late", .value = 1, .is_check = true};
  table_add_value(t, &warm);
  row_value(t, 1, "even", 1, NULL, true);
  table_finish(t);
  check_not(t, "checks{check=late} share > 1%", "no data: no check has that name: there are even");
  table_free(t);
}

/* Values there are, but none with the tag. */
static void values_without_the_tag(void **state) {
  (void)state;
  struct table *t = plain_table();
  struct session_record bad = row_session(3, 0, 1, SAMPLE_SCRIPT);
  snprintf(bad.detail, sizeof bad.detail, "x.lua:3: oops");
  table_add_session(t, &bad);
  struct value_record warm = {.session = 1, .name = "plan_time", .value = 1};
  table_add_value(t, &warm);
  table_finish(t);
  check_not(t, "plan_time mean < 1s",
            "no data: plan_time was recorded by sessions outside the window only");
  row_value(t, 1, "plan_time", 20, "{\"tool\":\"grep\"}", false);
  row_value(t, 1, "plan_time", 20, "{\"tool\":\"ls\"}", false);
  table_finish(t);
  check_not(t, "plan_time{tool=cat} mean < 1s",
            "no data: no value of plan_time has these tags (2 recorded)");
  check_not(
      t, "plan_time{turn=2} mean < 1s",
      "no data: no value of plan_time has these tags (2 recorded); checks and values have only "
      "tags of vu:tag and vu:record, turn is of requests");
  check_not(
      t, "plan_time{tool=ls,step=1..} mean < 1s",
      "no data: no value of plan_time has these tags (2 recorded); checks and values have only "
      "tags of vu:tag and vu:record, step is of requests");
  check_not(
      t, "plan_time{status=200} mean < 1s",
      "no data: no value of plan_time has these tags (2 recorded); checks and values have only "
      "tags of vu:tag and vu:record, status is of requests");
  table_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bounds),
      cmocka_unit_test(checks_of_the_script),
      cmocka_unit_test(values_without_the_tag),
      cmocka_unit_test(what_cannot_be_judged_is_not_met),
      cmocka_unit_test(exactly_enough_samples_are_enough),
      cmocka_unit_test(rates),
      cmocka_unit_test(a_tag_that_nothing_has_meets_nothing),
      cmocka_unit_test(small_and_huge_figures),
      cmocka_unit_test(equivalence_is_judged_on_intervals),
      cmocka_unit_test(a_histogram_gives_no_interval),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
