/* test_metrics.c: the list of API.md, the plan's metrics, objectives, which statistics make sense.
 */
#include "check.h"

#include "out/metrics.h"

/* API.md, Expectations, in its order. */
static const char *const api[] = {"ttft",
                                  "ttft_sched",
                                  "ttft_sent",
                                  "first_visible",
                                  "itl",
                                  "itl_token",
                                  "tpot",
                                  "e2e",
                                  "start_lag",
                                  "wake_lag",
                                  "lookup_time",
                                  "lookup_server_time",
                                  "client_overhead",
                                  "cold_path_overhead",
                                  "route_fallback",
                                  "prompt_tokens",
                                  "output_tokens",
                                  "cached_tokens",
                                  "cached_ratio",
                                  "survived_tokens",
                                  "possible",
                                  "available",
                                  "captured",
                                  "delivered",
                                  "regret",
                                  "matched_tokens",
                                  "failed",
                                  "goodput",
                                  "requests",
                                  "sessions",
                                  "session_time",
                                  "replica_share",
                                  "token_count_diff",
                                  "measurement_error",
                                  "event_lag",
                                  "output_rate",
                                  "incomplete",
                                  "checks"};

static void the_list_is_apis(void **state) {
  (void)state;
  struct metrics m;
  metrics_init(&m);
  assert_int_equal(m.n, ARRAY_LEN(api));
  for (size_t i = 0; i < m.n; i++) {
    assert_string_equal(m.items[i]->name, api[i]);
    assert_true(m.items[i]->unit[0] && m.items[i]->meaning[0]);
    assert_ptr_equal(metrics_find(&m, api[i]), m.items[i]);
    assert_ptr_equal(metrics_get(&m, (enum metric_id)i), m.items[i]);
    if (m.items[i]->domain == METRIC_LATER)
      assert_non_null(m.items[i]->needs);
  }
  struct value list = metrics_value(&m);
  assert_int_equal(value_count(&list), m.n);
  assert_string_equal(value_to_string(value_get(value_at(&list, 6), "name")), "tpot");
  assert_string_equal(value_to_string(value_get(value_at(&list, 6), "unit")), "s");
  value_free(&list);
  metrics_free(&m);
}

static void unknown_names_get_a_hint(void **state) {
  (void)state;
  struct metrics m;
  struct err err;
  const struct metric *out;
  metrics_init(&m);
  assert_int_equal(metrics_require(&m, "tfft", &out, &err), ERR_INVALID);
  assert_string_equal(err.text, "unknown metric \"tfft\" (did you mean \"ttft\"?)");
  assert_int_equal(metrics_require(&m, "xyzzy_plugh", &out, &err), ERR_INVALID);
  check_has(err.text, "unknown metric \"xyzzy_plugh\": it is none of perigee's");
  check_ok(metrics_require(&m, "e2e", &out, &err), &err);
  metrics_free(&m);
}

static void check_declared(const char *unit, enum units_kind kind, double scale, const char *base) {
  struct metrics m;
  struct err err;
  metrics_init(&m);
  check_ok(metrics_declare(&m, "mine", unit, &err), &err);
  const struct metric *metric = metrics_find(&m, "mine");
  assert_int_equal(metric->kind, kind);
  check_near(metric->scale, scale, 1e-18);
  assert_string_equal(metric->unit, base);
  assert_int_equal(metric->domain, METRIC_OF_SCRIPT);
  metrics_free(&m);
}

static void a_plan_declares_metrics(void **state) {
  (void)state;
  check_declared("s", UNITS_TIME, 1, "s");
  check_declared("ms", UNITS_TIME, 0.001, "s");
  check_declared("KiB", UNITS_BYTES, 1024, "B");
  check_declared("%", UNITS_RATIO, 0.01, "ratio");
  check_declared("ratio", UNITS_RATIO, 1, "ratio");
  check_declared("tokens", UNITS_NONE, 1, "tokens");
  check_declared("/s", UNITS_RATE, 1, "1/s");
  check_declared("a very long unit that nobody would ever write down", UNITS_NONE, 1,
                 "a very long unit that nobody would ever write down");
  struct metrics m;
  struct err err;
  metrics_init(&m);
  assert_int_equal(metrics_declare(&m, "ttft", "s", &err), ERR_INVALID);
  check_has(err.text, "metrics: \"ttft\" is one of perigee's own metrics (time to first token");
  assert_int_equal(metrics_declare(&m, "two words", "s", &err), ERR_INVALID);
  assert_string_equal(err.text,
                      "metrics: \"two words\" is not a metric's name: letters, digits and _ only");
  assert_int_equal(metrics_declare(&m, "", "s", &err), ERR_INVALID);
  assert_int_equal(metrics_declare(&m, "9", "s", &err), ERR_INVALID);
  check_ok(metrics_declare(&m, "mine", "s", &err), &err);
  assert_int_equal(metrics_declare(&m, "mine", "s", &err), ERR_INVALID);
  assert_string_equal(err.text, "metrics: \"mine\" is declared twice");
  metrics_free(&m);
}

static void objectives(void **state) {
  (void)state;
  struct metrics m;
  struct err err;
  metrics_init(&m);
  check_ok(metrics_add_slo(&m, "ttft", "400ms", &err), &err);
  check_ok(metrics_add_slo(&m, "tpot", "50ms", &err), &err);
  assert_int_equal(m.n_slos, 2);
  check_near(m.slos[0].max, 0.4, 0.0);
  assert_int_equal(metrics_add_slo(&m, "ttf", "1s", &err), ERR_INVALID);
  assert_string_equal(err.text, "slo: unknown metric \"ttf\" (did you mean \"ttft\"?)");
  assert_int_equal(metrics_add_slo(&m, "failed", "1%", &err), ERR_INVALID);
  check_has(err.text,
            "slo: failed is no time that a request's user waits for: objectives are upper "
            "bounds on ttft");
  static const char *const others[] = {"output_rate", "cached_ratio", "cached_tokens", "requests",
                                       "goodput",     "start_lag",    "output_tokens", "itl"};
  for (size_t i = 0; i < ARRAY_LEN(others); i++)
    assert_int_equal(metrics_add_slo(&m, others[i], "50", &err), ERR_INVALID);
  assert_int_equal(metrics_add_slo(&m, "e2e", "500", &err), ERR_INVALID);
  assert_string_equal(err.text, "slo: e2e: 500 what? write 500ms or 500s");
  assert_int_equal(metrics_add_slo(&m, "e2e", "5%", &err), ERR_INVALID);
  check_has(err.text, "slo: e2e: \"5%\" is not a time");
  assert_int_equal(m.n_slos, 2);
  metrics_free(&m);
}

static void check_refused(struct metrics *m, const char *name, enum statistic stat,
                          const char *want) {
  struct err err;
  assert_int_equal(metrics_check_stat(metrics_find(m, name), stat, &err), ERR_INVALID);
  check_has(err.text, want);
}

static void statistics_that_say_something(void **state) {
  (void)state;
  struct metrics m;
  struct err err;
  metrics_init(&m);
  check_ok(metrics_declare(&m, "hit", "ratio", &err), &err);
  check_refused(&m, "ttft", STAT_SHARE, "share says nothing about ttft");
  check_refused(&m, "ttft", STAT_RATE, "use mean, min, max or a percentile");
  check_refused(&m, "failed", STAT_QUANTILE, "use share, count or rate");
  check_refused(&m, "requests", STAT_MEAN, "use count or rate");
  check_refused(&m, "requests", STAT_SHARE, "use count or rate");
  check_refused(&m, "cached_ratio", STAT_SHARE, "a share is a part of requests");
  static const struct {
    const char *name;
    enum statistic stat;
    enum units_kind kind;
  } good[] = {
      {"ttft", STAT_QUANTILE, UNITS_TIME},      {"ttft", STAT_COUNT, UNITS_NONE},
      {"ttft", STAT_SUM, UNITS_TIME},           {"failed", STAT_SHARE, UNITS_RATIO},
      {"failed", STAT_MEAN, UNITS_RATIO},       {"failed", STAT_COUNT, UNITS_NONE},
      {"failed", STAT_RATE, UNITS_RATE},        {"failed", STAT_SUM, UNITS_NONE},
      {"requests", STAT_RATE, UNITS_RATE},      {"output_tokens", STAT_RATE, UNITS_RATE},
      {"output_tokens", STAT_MEAN, UNITS_NONE}, {"cached_ratio", STAT_MEAN, UNITS_RATIO},
      {"hit", STAT_SHARE, UNITS_RATIO},         {"hit", STAT_RATE, UNITS_RATE},
      {"goodput", STAT_RATE, UNITS_RATE},       {"replica_share", STAT_MAX, UNITS_RATIO},
      {"output_rate", STAT_MEAN, UNITS_RATE},
  };
  for (size_t i = 0; i < ARRAY_LEN(good); i++) {
    const struct metric *metric = metrics_find(&m, good[i].name);
    check_ok(metrics_check_stat(metric, good[i].stat, &err), &err);
    assert_int_equal(metrics_stat_kind(metric, good[i].stat), good[i].kind);
  }
  metrics_free(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_list_is_apis),
      cmocka_unit_test(unknown_names_get_a_hint),
      cmocka_unit_test(a_plan_declares_metrics),
      cmocka_unit_test(objectives),
      cmocka_unit_test(statistics_that_say_something),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
