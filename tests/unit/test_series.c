/* test_series.c: which rows count for what, and rates over the window. */
#include "check.h"

#include <math.h>

#include "out/series.h"
#include "out_rows.h"

static struct metrics metrics;

static double stat_of(const struct table *t, const char *name, enum statistic stat, double p,
                      const struct filter *f) {
  const struct metric *metric = metrics_find(&metrics, name);
  struct series s;
  series_collect(&s, t, &metrics, metric, f);
  series_sort(&s);
  double x = series_stat(&s, metric, stat, p);
  series_free(&s);
  return x;
}

static void only_measured_generation_requests_count(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (int i = 0; i < 11; i++)
    row_add(t, row_ok((uint64_t)i / 2, 1, 0, 10.0 * (i + 1), 5));
  struct sample *s = row_ok(50, 1, 0, 5000, 5);
  s->measured = false;
  row_add(t, s);
  s = row_ok(51, 1, 0, 7000, 5);
  s->is_generation = false; /* a plain vu:http call */
  row_add(t, s);
  row_add(t, row_failed(2, 1, 0, SAMPLE_RESET));
  row_add(t, row_failed(2, 1, 0, SAMPLE_INCOMPLETE));
  table_finish(t);
  struct series ttft;
  series_collect(&ttft, t, &metrics, metrics_find(&metrics, "ttft"), NULL);
  assert_int_equal(ttft.n, 11);
  assert_int_equal(ttft.n_sessions, 6);
  assert_int_equal(ttft.rejected, 2);
  series_free(&ttft);
  check_near(stat_of(t, "ttft", STAT_QUANTILE, 0.5, NULL), 0.060, 0.0);
  check_near(stat_of(t, "ttft", STAT_MAX, 0, NULL), 0.110, 0.0);
  check_near(stat_of(t, "ttft", STAT_MIN, 0, NULL), 0.010, 0.0);
  check_near(stat_of(t, "ttft", STAT_MEAN, 0, NULL), 0.060, 1e-15);
  check_near(stat_of(t, "ttft", STAT_SUM, 0, NULL), 0.660, 1e-15);
  check_near(stat_of(t, "ttft", STAT_COUNT, 0, NULL), 11, 0.0);
  check_near(stat_of(t, "failed", STAT_SHARE, 0, NULL), 1.0 / 12, 1e-15);
  check_near(stat_of(t, "failed", STAT_COUNT, 0, NULL), 1, 0.0);
  check_near(stat_of(t, "incomplete", STAT_SHARE, 0, NULL), 1.0 / 13, 1e-15);
  check_near(stat_of(t, "requests", STAT_COUNT, 0, NULL), 13, 0.0);
  assert_true(isnan(stat_of(t, "cached_ratio", STAT_MEAN, 0, NULL)));
  assert_true(isnan(stat_of(t, "regret", STAT_MEAN, 0, NULL)));
  table_free(t);
}

static void plain_requests_count_where_there_is_nothing_else(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (int i = 0; i < 4; i++) {
    struct sample *s = i ? row_ok(1, 0, 0, 5, 5) : row_failed(1, 0, 0, SAMPLE_HTTP_5XX);
    s->is_generation = false;
    row_add(t, s);
  }
  table_finish(t);
  check_near(stat_of(t, "requests", STAT_COUNT, 0, NULL), 4, 0.0);
  check_near(stat_of(t, "failed", STAT_SHARE, 0, NULL), 0.25, 0.0);
  assert_true(isnan(stat_of(t, "e2e", STAT_MEAN, 0, NULL))); /* kept out of latencies */
  table_free(t);
}

static struct sample *with_gaps(uint64_t session, uint32_t turn, uint64_t gap_ms, int32_t tokens) {
  struct sample *s = row_ok(session, turn, 0, 1, 1);
  s->n_gaps = 2;
  s->gaps_ns = mem_calloc(2, sizeof *s->gaps_ns);
  s->gap_tokens = mem_calloc(2, sizeof *s->gap_tokens);
  s->gaps_ns[0] = s->gaps_ns[1] = gap_ms * MS;
  s->gap_tokens[0] = tokens;
  s->gap_tokens[1] = -1;
  return s;
}

static void gaps(void **state) {
  (void)state;
  struct table *t = table_new(0);
  row_add(t, with_gaps(1, 1, 20, 2));
  row_add(t, with_gaps(2, 2, 40, 4));
  table_finish(t);
  check_near(stat_of(t, "itl", STAT_COUNT, 0, NULL), 4, 0.0);
  check_near(stat_of(t, "itl", STAT_MEAN, 0, NULL), 0.030, 1e-9);
  check_near(stat_of(t, "itl_token", STAT_COUNT, 0, NULL), 2, 0.0);
  check_near(stat_of(t, "itl_token", STAT_MAX, 0, NULL), 0.010, 1e-9);
  struct filter f = {0};
  assert_int_equal(filter_add(&f, "turn", "2", NULL), 0);
  check_near(stat_of(t, "itl", STAT_MIN, 0, &f), 0.040, 1e-9);
  filter_free(&f);
  table_free(t);

  t = table_new(3); /* the second request is one too many */
  row_add(t, with_gaps(1, 1, 20, 2));
  row_add(t, with_gaps(2, 2, 40, 4));
  table_finish(t);
  struct series s;
  series_collect(&s, t, &metrics, metrics_find(&metrics, "itl"), NULL);
  assert_non_null(s.hist);
  assert_null(s.x);
  assert_int_equal(s.n, 4);
  series_free(&s);
  check_near(stat_of(t, "itl", STAT_MEAN, 0, NULL), 0.030, 1e-9);
  check_near(stat_of(t, "itl", STAT_QUANTILE, 0.5, NULL), 0.040, 0.040 * HIST_RELATIVE_ERROR);
  check_near(stat_of(t, "itl_token", STAT_MIN, 0, NULL), 0.010, 0.0);
  table_free(t);
}

static void sessions(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (int i = 0; i < 5; i++) {
    struct session_record r =
        row_session((uint64_t)i, 100, 100 + 1000.0 * (i + 1), i == 4 ? SAMPLE_SCRIPT : SAMPLE_OK);
    r.measured = i != 0;
    table_add_session(t, &r);
  }
  table_add_window(t, NULL, 0, 8 * NS_PER_S);
  table_finish(t);
  check_near(stat_of(t, "sessions", STAT_COUNT, 0, NULL), 4, 0.0);
  check_near(stat_of(t, "session_time", STAT_COUNT, 0, NULL), 3, 0.0);
  check_near(stat_of(t, "session_time", STAT_MEAN, 0, NULL), 3, 0.0);
  check_near(series_rate(t, &metrics, metrics_find(&metrics, "sessions"), NULL), 0.5, 0.0);
  table_free(t);
}

/* A rate is what ended inside the window, whichever session it was; a count goes by arrival. */
static void the_session_rate_goes_by_the_end(void **state) {
  (void)state;
  const struct metric *metric = metrics_find(&metrics, "sessions");
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 6; i++) {
    struct session_record r =
        row_session(i, 500.0 * (double)i, 500.0 * (double)i + 5000, SAMPLE_OK);
    table_add_session(t, &r);
  }
  table_add_window(t, NULL, 0, 3 * NS_PER_S);
  table_finish(t);
  check_near(stat_of(t, "sessions", STAT_COUNT, 0, NULL), 6, 0.0);
  check_near(series_rate(t, &metrics, metric, NULL), 0, 0.0); /* each takes 5 s */
  struct session_record warm = row_session(90, 0, 1000, SAMPLE_OK);
  warm.measured = false;
  table_add_session(t, &warm);
  struct session_record failed = row_session(91, 0, 1000, SAMPLE_SCRIPT);
  table_add_session(t, &failed);
  check_near(series_rate(t, &metrics, metric, NULL), 1.0 / 3, 1e-15);
  table_free(t);
}

static void replica_shares(void **state) {
  (void)state;
  struct table *t = table_new(0);
  table_add_replica(t, "r0", 1);
  table_add_replica(t, "r1", 1);
  table_add_replica(t, "idle", 1);
  for (int i = 0; i < 8; i++) {
    struct sample *s = row_ok(1, (uint32_t)i % 2 + 1, 0, 5, 5);
    s->chosen = mem_strdup(i < 6 ? "r0" : "r1");
    row_add(t, s);
  }
  row_add(t, row_ok(1, 1, 0, 5, 5)); /* sent to nobody by name */
  table_finish(t);
  check_near(stat_of(t, "replica_share", STAT_COUNT, 0, NULL), 3, 0.0);
  check_near(stat_of(t, "replica_share", STAT_MAX, 0, NULL), 0.75, 0.0);
  check_near(stat_of(t, "replica_share", STAT_MIN, 0, NULL), 0, 0.0);
  struct filter f = {0};
  assert_int_equal(filter_add(&f, "replica", "r1", NULL), 0);
  check_near(stat_of(t, "replica_share", STAT_MEAN, 0, &f), 0.25, 0.0);
  filter_free(&f);
  table_free(t);
}

static void script_values(void **state) {
  (void)state;
  struct err err;
  check_ok(metrics_declare(&metrics, "plan_time", "ms", &err), &err);
  struct table *t = table_new(0);
  row_value(t, 1, "plan_time", 20, "{\"tool\":\"grep\"}", false);
  row_value(t, 2, "plan_time", 40, NULL, false);
  row_value(t, 2, "other", 7, NULL, false);
  row_value(t, 2, "plan_time", NAN, NULL, false);
  struct value_record warm = {.session = 9, .name = "plan_time", .value = 1000};
  table_add_value(t, &warm); /* not measured */
  table_finish(t);
  check_near(stat_of(t, "plan_time", STAT_MEAN, 0, NULL), 0.030, 1e-15);
  struct filter f = {0};
  assert_int_equal(filter_add(&f, "tool", "grep", NULL), 0);
  check_near(stat_of(t, "plan_time", STAT_MEAN, 0, &f), 0.020, 1e-15);
  filter_free(&f);
  table_free(t);
}

static void the_clients_timers(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 1; i <= 100; i++)
    hist_add(&t->probe.timer_late, i * 1000);
  table_finish(t);
  check_near(stat_of(t, "wake_lag", STAT_MAX, 0, NULL), 100e-6, 0.0);
  check_near(stat_of(t, "wake_lag", STAT_QUANTILE, 0.5, NULL), 50.5e-6, 1e-6);
  table_free(t);
}

static void rates_go_by_what_happened_inside(void **state) {
  (void)state;
  struct table *t = table_new(0);
  assert_true(isnan(series_rate(t, &metrics, metrics_find(&metrics, "requests"), NULL)));
  table_add_window(t, NULL, 1 * NS_PER_S, 3 * NS_PER_S);
  /* began in the warm-up, half of its 100 tokens and its end are inside */
  struct sample *s = row_tokens(row_ok(1, 1, 400, 100, 1000), 10, 100, 0);
  s->measured = false;
  row_add(t, s);
  /* ends after the window; two thirds of 90 tokens inside */
  row_add(t, row_tokens(row_ok(2, 1, 2000, 200, 1200), 20, 90, 0));
  /* failed after 50 tokens: neither they nor its prompt were served */
  s = row_tokens(row_ok(3, 1, 1500, 100, 100), 40, 50, 0);
  s->error = SAMPLE_RESET;
  row_add(t, s);
  /* cut off after the window, a tenth of its tokens inside; called off by the script */
  s = row_tokens(row_ok(3, 1, 2500, 400, 1000), 8, 30, 0);
  s->error = SAMPLE_INCOMPLETE;
  row_add(t, s);
  s = row_tokens(row_ok(3, 1, 1500, 100, 100), 4, 7, 0);
  s->error = SAMPLE_CANCELLED;
  row_add(t, s);
  table_finish(t);
  check_near(series_rate(t, &metrics, metrics_find(&metrics, "output_tokens"), NULL), 120.0 / 2,
             1e-9);
  check_near(series_rate(t, &metrics, metrics_find(&metrics, "prompt_tokens"), NULL), 16, 1e-9);
  check_near(series_rate(t, &metrics, metrics_find(&metrics, "requests"), NULL), 0.5, 1e-9);
  check_near(series_rate(t, &metrics, metrics_find(&metrics, "failed"), NULL), 0.5, 1e-9);
  table_free(t);
}

/* A value counts when it was given inside the window, whichever session gave it. */
static void value_rates_go_by_when_they_came(void **state) {
  (void)state;
  struct err err;
  check_ok(metrics_declare(&metrics, "think", "ms", &err), &err);
  check_ok(metrics_declare(&metrics, "sound", "", &err), &err);
  struct table *t = table_new(0);
  table_add_window(t, NULL, 1 * NS_PER_S, 3 * NS_PER_S);
  static const struct {
    double ms, value;
    bool measured;
  } values[] = {
      {999, 1e6, false}, {1000, 100, false}, {2000, 1, true}, {2999, 300, true}, {3001, 1e6, true}};
  for (size_t i = 0; i < ARRAY_LEN(values); i++) {
    struct value_record v = {.session = i,
                             .time_ns = (uint64_t)(values[i].ms * 1e6),
                             .name = "think",
                             .value = values[i].value,
                             .measured = values[i].measured};
    table_add_value(t, &v);
    v.name = "parsed";
    v.is_check = true;
    v.value = i != 2;
    v.tags = i < 2 ? mem_strdup("{\"tool\":\"grep\"}") : NULL;
    table_add_value(t, &v);
    mem_free(v.tags);
    v.tags = NULL;
    v.name = "sound"; /* declared below, and a check of that name is not of it */
    table_add_value(t, &v);
  }
  table_finish(t);
  check_near(series_rate(t, &metrics, metrics_find(&metrics, "think"), NULL), 0.401 / 2, 1e-15);
  check_near(series_rate(t, &metrics, metrics_find(&metrics, "checks"), NULL), 2, 0.0);
  check_near(series_rate(t, &metrics, metrics_find(&metrics, "sound"), NULL), 0, 0.0);
  struct filter f = {0};
  assert_int_equal(filter_add(&f, "tool", "grep", NULL), 0);
  check_near(series_rate(t, &metrics, metrics_find(&metrics, "checks"), &f), 0.5, 0.0);
  assert_int_equal(filter_add(&f, "check", "other", NULL), 0);
  filter_note_check(&f);
  check_near(series_rate(t, &metrics, metrics_find(&metrics, "checks"), &f), 0, 0.0);
  filter_free(&f);
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
      cmocka_unit_test(only_measured_generation_requests_count),
      cmocka_unit_test(plain_requests_count_where_there_is_nothing_else),
      cmocka_unit_test(gaps),
      cmocka_unit_test(sessions),
      cmocka_unit_test(the_session_rate_goes_by_the_end),
      cmocka_unit_test(replica_shares),
      cmocka_unit_test(script_values),
      cmocka_unit_test(the_clients_timers),
      cmocka_unit_test(rates_go_by_what_happened_inside),
      cmocka_unit_test(value_rates_go_by_when_they_came),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
