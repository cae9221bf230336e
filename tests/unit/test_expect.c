/* test_expect.c: the grammar: what is read, and every way to be wrong. */
#include "check.h"

#include <math.h>

#include "out/expect.h"

static struct metrics metrics;
static const char *const arms[] = {"load_only", "approx", "precise", "two-part"};

static struct expect good(const char *text) {
  struct expect e;
  struct err err;
  check_ok(expect_parse(text, &metrics, arms, ARRAY_LEN(arms), &e, &err), &err);
  return e;
}

static void a_quantity(void **state) {
  (void)state;
  struct expect e = good("  ttft p95 < 400ms ");
  assert_string_equal(e.text, "ttft p95 < 400ms");
  assert_string_equal(e.left.metric->name, "ttft");
  assert_int_equal(e.left.stat, STAT_QUANTILE);
  check_near(e.left.p, 0.95, 0.0);
  assert_int_equal(e.op, EXPECT_LT);
  assert_false(e.has_right);
  check_near(e.bound, 0.4, 0.0);
  assert_null(e.left.filter.arm);
  expect_free(&e);
  static const struct {
    const char *text;
    enum expect_op op;
    double bound;
  } cases[] = {
      {"ttft p50<=80 ms", EXPECT_LE, 0.08},
      {"ttft min >= 0", EXPECT_GE, 0}, /* nothing needs no unit */
      {"cached_ratio mean > 0.75", EXPECT_GT, 0.75},
      {"failed share < 1", EXPECT_LT, 1},
      {"cached_ratio{turn=2..8} mean > 75%", EXPECT_GT, 0.75},
      {"failed share < 1%", EXPECT_LT, 0.01},
      {"failed count<=0", EXPECT_LE, 0},
      {"requests rate >= 300/m", EXPECT_GE, 5},
      {"output_tokens rate > 1000/s", EXPECT_GT, 1000},
      {"output_tokens mean > 12.5", EXPECT_GT, 12.5},
      {"output_tokens mean > 100 tokens", EXPECT_GT, 100}, /* the word that reports write */
      {"output_tokens mean > 1token", EXPECT_GT, 1},
      {"output_tokens rate > 1000 tokens/s", EXPECT_GT, 1000},
      {"output_rate mean > 20 tokens/s", EXPECT_GT, 20},
      {"output_rate mean > 20tokens/s", EXPECT_GT, 20},
      {"requests rate >= 300 requests/m", EXPECT_GE, 5},
      {"requests count >= 300 requests", EXPECT_GE, 300},
      {"checks share > 90%", EXPECT_GT, 0.9},
      {"checks{check=parsed, turn=2} share > 0.9", EXPECT_GT, 0.9},
      {"checks count > 3", EXPECT_GT, 3},
      {"session_time max < 2m", EXPECT_LT, 120},
      {"size sum < 64KiB", EXPECT_LT, 65536},
      {"token_count_diff min >= -3", EXPECT_GE, -3},
      {"replica_share max < 0.5", EXPECT_LT, 0.5},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    e = good(cases[i].text);
    assert_int_equal(e.op, cases[i].op);
    check_near(e.bound, cases[i].bound, 1e-12);
    expect_free(&e);
  }
}

static void tags(void **state) {
  (void)state;
  struct expect e =
      good("precise.route_fallback{ turn=2..8 , tier = gold plan, q=\"a,b}\"} share<2%");
  assert_string_equal(e.left.filter.arm, "precise");
  assert_int_equal(e.left.filter.n, 3);
  const struct filter_cond *c = e.left.filter.conds;
  assert_string_equal(c[0].tag, "turn");
  check_near(c[0].lo, 2, 0.0);
  check_near(c[0].hi, 8, 0.0);
  assert_string_equal(c[1].text, "gold plan");
  assert_string_equal(c[2].text, "a,b}");
  expect_free(&e);
  e = good("two-part.ttft{turn=3..,error=ok,status=200,replica=r-1,branch=0,step=1} p50 < 1s");
  assert_string_equal(e.left.filter.arm, "two-part");
  assert_int_equal(e.left.filter.n, 6);
  assert_true(isinf(e.left.filter.conds[0].hi));
  expect_free(&e);
  e = good("sessions{error=script} count < 1");
  expect_free(&e);
}

static void another_term(void **state) {
  (void)state;
  struct expect e = good("precise.ttft p50 < 0.8 * load_only.ttft p50");
  assert_true(e.has_right);
  check_near(e.factor, 0.8, 0.0);
  check_near(e.bound, 0, 0.0);
  assert_string_equal(e.right.filter.arm, "load_only");
  expect_free(&e);
  e = good("precise.cached_ratio mean > load_only.cached_ratio mean + 10%"); /* points */
  check_near(e.bound, 0.1, 0.0);
  assert_false(e.bound_relative);
  check_near(e.factor, 1, 0.0);
  expect_free(&e);
  e = good("precise.ttft p50 < approx.ttft p50 + 10%"); /* a part of it */
  check_near(e.bound, 0.1, 0.0);
  assert_true(e.bound_relative);
  expect_free(&e);
  e = good("precise.ttft p50 < 2*approx.ttft p50 - 20ms");
  check_near(e.bound, -0.02, 0.0);
  check_near(e.factor, 2, 0.0);
  assert_false(e.bound_relative);
  expect_free(&e);
  e = good("ttft{turn=2} p50 < ttft{turn=1} p50");
  assert_int_equal(e.right.filter.n, 1);
  expect_free(&e);
}

static void goodput_needs_objectives(void **state) {
  (void)state;
  struct metrics bare;
  struct expect e;
  struct err err;
  metrics_init(&bare);
  assert_int_equal(expect_parse("goodput share > 5%", &bare, NULL, 0, &e, &err), ERR_INVALID);
  assert_string_equal(
      err.text, "expectation \"goodput share > 5%\", column 1: goodput is the share of requests "
                "that keep the plan's objectives, and it has none: add slo = { ttft = "
                "\"500ms\" }");
  check_ok(metrics_add_slo(&bare, "ttft", "1s", &err), &err);
  check_ok(expect_parse("goodput share > 5%", &bare, NULL, 0, &e, &err), &err);
  expect_free(&e);
  metrics_free(&bare);
}

static void equivalence(void **state) {
  (void)state;
  struct expect e = good("precise.ttft p50 = approx.ttft p50 within 2%");
  assert_int_equal(e.op, EXPECT_EQUIVALENT);
  check_near(e.margin, 0.02, 0.0);
  assert_true(e.margin_relative);
  expect_free(&e);
  e = good("precise.cached_ratio mean = approx.cached_ratio mean within 2%");
  assert_false(e.margin_relative); /* points */
  expect_free(&e);
  e = good("ttft p50 = 80ms within 5ms");
  assert_false(e.has_right);
  check_near(e.bound, 0.08, 0.0);
  check_near(e.margin, 0.005, 0.0);
  assert_false(e.margin_relative);
  expect_free(&e);
}

static void every_error_says_where_and_what(void **state) {
  (void)state;
  static const struct {
    const char *text, *want;
  } cases[] = {
      {"", "an expectation is empty: write one such as \"ttft p95 < 400ms\""},
      {"tfft p95 < 1s",
       "expectation \"tfft p95 < 1s\", column 1: unknown metric \"tfft\" (did you mean \"ttft\"?)"},
      {"42 p95 < 1s", "column 1: expected a metric such as ttft, found \"42\""},
      {"presice.ttft p50 < 1s", "column 1: unknown arm \"presice\" (did you mean \"precise\"?)"},
      {"zzz.ttft p50 < 1s", "column 1: unknown arm \"zzz\" (did you mean \"load_only\"?)"},
      {"precise. p50 < 1s", "column 9: expected a metric after \"precise.\", found \" \""},
      {"ttft median < 1s", "column 6: unknown statistic \"median\" (did you mean \"p50\"?)"},
      {"ttft avg < 1s", "column 6: unknown statistic \"avg\" (did you mean \"mean\"?)"},
      {"ttft p50 == 1s", "column 10: \"==\" is no comparison here: write < <= > >=, or a claim"},
      {"output_tokens mean > 5 requests", "is not a plain number"},
      {"output_tokens mean > tokens", "column 22: unknown metric \"tokens\""},
      {"ttft p50 < 5 s/s", "is not a time"},
      {"checks p50 > 1", "a percentile says nothing about checks"},
      {"ttft pq5 < 1s", "column 6: unknown statistic \"pq5\" (did you mean \"p95\"?)"},
      {"ttft typical < 1s", "column 6: unknown statistic \"typical\": it is one of mean min max"},
      {"ttft < 1s",
       "column 6: expected a statistic after \"ttft\" (mean min max sum count share rate p50 p90 "
       "p95 p99 p99.9), found \"<\""},
      {"ttft share < 5%", "column 6: share says nothing about ttft"},
      {"failed p50 < 5%", "column 8: a percentile says nothing about failed"},
      {"ttft p95 ! 1s", "column 10: expected < <= > >= or =, found \"!\""},
      {"ttft p95", "column 9: expected < <= > >= or =, found the end"},
      {"ttft p95 <", "column 11: expected a metric such as ttft, found the end"},
      {"ttft p95 < 5%",
       "column 12: bound on ttft p95: \"5%\" is not a time such as \"50ms\", \"2s\", \"3m\" or a "
       "number of seconds"},
      {"failed share < 5ms", "column 16: bound on failed share: \"5ms\" is not a share such as"},
      {"failed count < 5%", "column 16: bound on failed count: \"5%\" is not a plain number"},
      {"ttft p50 < 400", "column 12: bound on ttft p50: 400 what? write 400ms or 400s"},
      {"ttft p99.9 > 0.4", "column 14: bound on ttft p99.9: 0.4 what? write 0.4ms or 0.4s"},
      {"ttft p50 < precise.ttft p50 + 10", "10 what? write 10ms or 10s"},
      {"ttft p50 = precise.ttft p50 within 10", "10 what? write 10ms or 10s"},
      {"size mean < 64", "64 what? write 64B or 64KiB"},
      {"failed share < 5", "5 of what? a ratio is at most 1: write 5% or 0.05"},
      {"matched_tokens mean < 10",
       "column 1: matched_tokens needs LookupRoute calls, which are not in"},
      {"ttft p50 < lookup_time p50", "lookup_time needs LookupRoute calls, which are not in this"},
      {"event_lag p50 < 5ms", "event_lag needs KV events, which are not in this version"},
      {"e2e p50{tier=paid} < 1s", "column 8: tags go after the metric: e2e{tier=paid} p50"},
      {"precise.e2e p50 {tier=paid, turn=2} < 1s",
       "tags go after the metric: precise.e2e{tier=paid, turn=2} p50"},
      {"e2e{turn=1} p50{tier=paid} < 1s", "tags go after the metric: e2e{tier=paid} p50"},
      {"e2e p50{tier < 1s", "tags go after the metric: e2e{tag=value}"},
      {"ttft p95 < 400 parsecs", "column 12: bound on ttft p95: \"400 parsecs\" is not a time"},
      {"ttft p95 < 400ms extra", "column 12: bound on ttft p95: \"400ms extra\" is not a time"},
      {"requests rate > 5ms", "column 17: bound on requests rate: \"5ms\" is not a rate such as"},
      {"ttft p50 < cached_ratio mean",
       "column 12: the left side is a time, this is a ratio: they cannot be compared"},
      {"ttft p50 < 0.8 * ", "column 17: expected a metric such as ttft, found the end"},
      {"ttft p50 < precise.ttft p50 + 5 apples",
       "column 31: bound on ttft p50: \"5 apples\" is not a time"},
      {"ttft p50 < precise.ttft p50 +", "expected a quantity such as 400ms, found the end"},
      {"ttft p50 < precise.ttft p50 junk", "column 29: expected the end, found \"junk\""},
      {"ttft{turn} p50 < 1s", "column 10: expected \"=\" after the tag \"turn\", found \"}\""},
      {"ttft{} p50 < 1s", "column 6: expected a tag such as turn=2, found \"}\""},
      {"ttft{turn=} p50 < 1s", "column 11: expected the tag's value"},
      {"ttft{turn=2 p50 < 1s", "column 11: turn is a number: \"2 p50 < 1s\" is not"},
      {"ttft{tier=gold", "column 5: this brace has no end"},
      {"ttft{tier=\"gold} p50 < 1s", "column 11: this quote has no end"},
      {"ttft{tier=\"a\" b} p50 < 1s", "column 15: expected \",\" or \"}\", found \"b\""},
      {"ttft{turn=8..2} p50 < 1s", "column 11: the range \"8..2\" is empty"},
      {"ttft{error=timout_idle} p50 < 1s",
       "column 12: \"timout_idle\" is not an error class (did you mean \"timeout_idle\"?)"},
      {"ttft{arm=precise} p50 < 1s", "column 10: write the arm in front: precise.ttft"},
      {"precise.wake_lag p99 < 1ms",
       "column 1: wake_lag is measured for the whole client: it takes no arm and no tag"},
      {"session_time{turn=2} p50 < 1s",
       "column 1: session_time has one value per session, which has no turn"},
      {"ttft p50 = approx.ttft p50", "\"=\" needs a margin: A = B within 2%; found the end"},
      {"ttft p50 == approx.ttft p50 within 2%", "column 10: \"==\" is no comparison here"},
      {"ttft p50 = approx.ttft p50 within 0%", "column 35: the margin must be above 0"},
      {"ttft p50 = 2 * approx.ttft p50 within 2%", "compares two plain terms: A = B within 2%"},
      {"failed count = 3 within 5%", "column 1: an equivalence claim is judged on intervals"},
      {"ttft max = approx.ttft max within 5%", "an equivalence claim is judged on intervals"},
      {"ttft p50 < 1s within 2%", "column 15: expected the end, found \"within\""},
      {"cached_ratio{naïve=1} mean > 5%", "column 16: expected \"=\" after the tag \"na\""},
      {"ttft{tier=größe} p5 < 1s", "column 18: unknown statistic \"p5\" (did you mean"},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct expect e;
    struct err err = {0};
    int rc = expect_parse(cases[i].text, &metrics, arms, ARRAY_LEN(arms), &e, &err);
    if (rc != ERR_INVALID)
      fail_msg("\"%s\" was accepted", cases[i].text);
    check_has(err.text, cases[i].want);
    assert_null(e.text);
    assert_int_equal(expect_parse(cases[i].text, &metrics, arms, ARRAY_LEN(arms), &e, NULL),
                     ERR_INVALID);
  }
}

static void a_plan_without_arms(void **state) {
  (void)state;
  struct expect e;
  struct err err;
  assert_int_equal(expect_parse("precise.ttft p50 < 1s", &metrics, NULL, 0, &e, &err), ERR_INVALID);
  check_has(err.text, "column 1: unknown arm \"precise\": this version compares no arms; tag what");
  assert_int_equal(expect_parse("ttft.p95 < 1s", &metrics, NULL, 0, &e, &err), ERR_INVALID);
  check_has(err.text, "column 5: ttft is a metric: a space and a statistic follow it, as in "
                      "\"ttft p95\"");
  char *longest = malloc(3000);
  memset(longest, 'a', 2999);
  longest[2999] = '\0';
  assert_int_equal(expect_parse(longest, &metrics, NULL, 0, &e, &err), ERR_INVALID);
  check_has(err.text, "is longer than 2000 characters");
  longest[1500] = '\0';
  assert_int_equal(expect_parse(longest, &metrics, NULL, 0, &e, &err), ERR_INVALID);
  free(longest);
}

static void quantities_for_people(void **state) {
  (void)state;
  char out[48];
  expect_format(0.412, UNITS_TIME, NULL, out, sizeof out);
  assert_string_equal(out, "412 ms");
  expect_format(0.9731, UNITS_RATIO, NULL, out, sizeof out);
  assert_string_equal(out, "97.3 %");
  expect_format(12.5, UNITS_RATE, NULL, out, sizeof out);
  assert_string_equal(out, "12.5/s");
  expect_format(812, UNITS_NONE, "tokens", out, sizeof out);
  assert_string_equal(out, "812 tokens");
  expect_format(2048, UNITS_BYTES, NULL, out, sizeof out);
  assert_string_equal(out, "2.0 KiB");
  expect_format(NAN, UNITS_TIME, NULL, out, sizeof out);
  assert_string_equal(out, "—");
}

static int set_up(void **state) {
  (void)state;
  metrics_init(&metrics);
  if (metrics_add_slo(&metrics, "ttft", "1s", NULL))
    return 1;
  return metrics_declare(&metrics, "size", "KiB", NULL);
}

static int tear_down(void **state) {
  (void)state;
  metrics_free(&metrics);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_quantity),          cmocka_unit_test(tags),
      cmocka_unit_test(another_term),        cmocka_unit_test(goodput_needs_objectives),
      cmocka_unit_test(equivalence),         cmocka_unit_test(every_error_says_where_and_what),
      cmocka_unit_test(a_plan_without_arms), cmocka_unit_test(quantities_for_people),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
