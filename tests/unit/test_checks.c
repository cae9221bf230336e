/* test_checks.c: each check's figure, and what breaks it (checks.c, checks_value.c). */
#include "check.h"

#include <math.h>

#include "out/checks.h"
#include "out_rows.h"

static struct checks_input plain(void) {
  return (struct checks_input){.limits = checks_default_limits(), .clock_step_ns = SAMPLE_ABSENT};
}

static void defaults_are_designs(void **state) {
  (void)state;
  struct checks_limits l = checks_default_limits();
  static const double want[CHECK_COUNT] = {
      [CHECK_SCHEDULE_LAG] = 5e-3,       [CHECK_WAKE_LAG] = 5e-3,
      [CHECK_LOOP_LAG] = 20e-3,          [CHECK_STALLED_TIME] = 0.01,
      [CHECK_WORKER_CPU] = 0.9,          [CHECK_MEASUREMENT_ERROR] = 1e-3,
      [CHECK_COALESCED] = 0.05,          [CHECK_EMPTY_200] = 0.01,
      [CHECK_MISSING_USAGE] = 0.05,      [CHECK_IMPOSSIBLE_USAGE] = 0.01,
      [CHECK_SHORT_ANSWERS] = .05,       [CHECK_READ_LAG] = 20e-3,
      [CHECK_INCOMPLETE_REQUESTS] = .05, [CHECK_INCOMPLETE_SESSIONS] = .05,
      [CHECK_CLOCK_STEP] = 1e-3,         [CHECK_SESSIONS] = 2};
  for (int i = 0; i < CHECK_COUNT; i++)
    check_near(l.limit[i], want[i], 0.0);
}

static void nothing_measured_breaks_nothing(void **state) {
  (void)state;
  struct table *t = table_new(0);
  table_finish(t);
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  assert_true(checks_valid(c));
  for (int i = 0; i < CHECK_COUNT; i++)
    if (i != CHECK_DESCRIPTORS && i != CHECK_LOST_WORKERS && i != CHECK_TIMELINE) {
      assert_true(isnan(c[i].figure));
      check_has(c[i].note, "not measured");
    }
  check_near(c[CHECK_DESCRIPTORS].figure, 0, 0.0);
  struct value v = checks_value(c);
  assert_int_equal(value_count(&v), CHECK_COUNT);
  const struct value *first = value_at(&v, 0);
  assert_string_equal(value_to_string(value_get(first, "name")), "schedule_lag_p99");
  assert_int_equal(value_get(first, "figure")->kind, VALUE_NULL);
  check_near(value_get(first, "limit")->u.number, 0.005, 0.0);
  assert_true(value_get(first, "ok")->u.boolean);
  value_free(&v);
  table_free(t);
}

static void a_timeline_is_to_be_done(void **state) {
  (void)state;
  struct table *t = table_new(0);
  table_finish(t);
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  assert_string_equal(c[CHECK_TIMELINE].note, "the plan has no timeline");
  assert_true(isnan(c[CHECK_TIMELINE].figure) && c[CHECK_TIMELINE].ok);
  in.timeline = 5;
  checks_run(t, &in, c);
  check_near(c[CHECK_TIMELINE].figure, 0, 0.0);
  assert_true(c[CHECK_TIMELINE].ok);
  in.timeline_failed = 1;
  in.timeline_not_begun = 2;
  checks_run(t, &in, c);
  check_near(c[CHECK_TIMELINE].figure, 3, 0.0);
  assert_false(c[CHECK_TIMELINE].ok);
  in.timeline_cut_off = 1;
  checks_run(t, &in, c);
  check_near(c[CHECK_TIMELINE].figure, 4, 0.0);
  assert_string_equal(c[CHECK_TIMELINE].note, "5 planned: 1 failed, 2 not begun, 1 cut off");
  in.interrupted = true; /* which is said already */
  in.timeline_failed = 0;
  checks_run(t, &in, c);
  assert_true(c[CHECK_TIMELINE].ok);
  table_free(t);
}

static void the_clients_own_lateness(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 1000; i++) {
    hist_add(&t->probe.start_lag, i < 985 ? 1000 : 6 * MS);
    hist_add(&t->probe.timer_late, i < 995 ? 1000 : 60 * MS); /* 0.5 %: p99 does not see it */
    hist_add(&t->probe.wakeup_busy, 21 * MS);
    hist_add(&t->probe.read_error, 5000);
  }
  t->probe.no_kernel_stamp = 10;
  t->probe.cpu_max = 0.95;
  t->probe.n_cpu = 3;
  t->probe.cpu_worker = 2;
  struct checks_input in = plain();
  in.clock_step_ns = -2000000;
  in.descriptor_hits = 4;
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  assert_false(checks_valid(c));
  static const bool broken[CHECK_COUNT] = {[CHECK_SCHEDULE_LAG] = true,
                                           [CHECK_LOOP_LAG] = true,
                                           [CHECK_WORKER_CPU] = true,
                                           [CHECK_CLOCK_STEP] = true,
                                           [CHECK_DESCRIPTORS] = true};
  for (int i = 0; i < CHECK_COUNT; i++)
    if (c[i].ok == broken[i])
      fail_msg("%s: ok = %d, figure %g", c[i].name, c[i].ok, c[i].figure);
  check_near(c[CHECK_SCHEDULE_LAG].figure, 6e-3, 6e-3 * 0.004);
  check_near(c[CHECK_WAKE_LAG].figure, 1e-6, 1e-8);
  check_near(c[CHECK_LOOP_LAG].figure, 21e-3, 1e-9); /* all equal: exact */
  check_near(c[CHECK_READ_LAG].figure, 5e-6, 1e-9);
  assert_true(isnan(c[CHECK_MEASUREMENT_ERROR].figure)); /* nothing has a stamp */
  check_near(c[CHECK_CLOCK_STEP].figure, 2e-3, 0.0);
  assert_string_equal(c[CHECK_WORKER_CPU].note, "worker 2 of 3");
  assert_string_equal(c[CHECK_READ_LAG].note, "10 of 1010 reads had no kernel timestamp");
  check_has(c[CHECK_DESCRIPTORS].note, "ulimit -n");
  in.closed_loop = true;
  checks_run(t, &in, c);
  check_has(c[CHECK_SCHEDULE_LAG].note, "closed loop: users wait for replies");
  table_free(t);
}

static void what_the_replies_say(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 90; i++) {
    struct sample *s = row_tokens(row_ok(i, 1, 0, 5, 5), 100, i < 86 ? 10 : SAMPLE_ABSENT, 0);
    s->output_events = 10;
    s->coalesced = i < 40;
    s->prompt_tokens_local = i == 50 ? 97 : 100;
    row_add(t, s);
  }
  for (uint64_t i = 0; i < 10; i++)
    row_add(t, row_failed(i, 1, 0, i < 3 ? SAMPLE_EMPTY_STREAM : SAMPLE_HTTP_5XX));
  for (uint64_t i = 0; i < 10; i++) { /* whole replies: their output has no time of its own */
    struct sample *s = row_failed(i, 1, 0, SAMPLE_CANCELLED);
    s->streamed = false;
    s->output_events = 100;
    row_add(t, s);
  }
  struct sample *warm = row_failed(1, 1, 0, SAMPLE_EMPTY_STREAM);
  warm->measured = false;
  row_add(t, warm);
  table_finish(t);
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  check_near(c[CHECK_COALESCED].figure, 40.0 / 900, 1e-15);
  assert_true(c[CHECK_COALESCED].ok);
  check_near(c[CHECK_EMPTY_200].figure, 0.03, 1e-15);
  assert_false(c[CHECK_EMPTY_200].ok);
  assert_string_equal(c[CHECK_EMPTY_200].note, "3 of 100");
  check_near(c[CHECK_MISSING_USAGE].figure, 4.0 / 90, 1e-15);
  assert_true(c[CHECK_MISSING_USAGE].ok);
  assert_true(isnan(c[CHECK_USAGE_VS_LOCAL].figure)); /* no parity: the counts may differ */
  assert_false(c[CHECK_TOKEN_PARITY].ok);             /* and so they are no proof of parity */
  check_near(c[CHECK_TOKEN_PARITY].figure, 1, 0.0);
  in.parity_proven = true;
  checks_run(t, &in, c);
  check_near(c[CHECK_USAGE_VS_LOCAL].figure, 3, 0.0);
  assert_false(c[CHECK_USAGE_VS_LOCAL].ok);
  in.parity_proven = false; /* by ids before the load: prompts are judged, answers are not */
  struct value list = value_array(), *entry = value_push(&list, value_object());
  value_set(entry, "verdict", value_cstring("equal"));
  in.parity = &list;
  checks_run(t, &in, c);
  check_near(c[CHECK_USAGE_VS_LOCAL].figure, 3, 0.0);
  assert_true(c[CHECK_TOKEN_PARITY].ok);
  check_near(c[CHECK_TOKEN_PARITY].figure, 0, 0.0);
  value_free(&list);
  in.parity = NULL;
  table_free(t);
}

/* Prompts are judged; what usage counts of answers beyond their text is told, and is no fault. */
static void answers_beside_their_text(void **state) {
  (void)state;
  static const struct {
    int first, others;
    const char *note;
  } cases[] = {{0, 0, ""},
               {1, 1, "of each answer usage counts 1 more than its text has (the stop"},
               {-2, -2, "of each answer usage counts 2 fewer than its text has"},
               {1, 0, "of answers usage counts 0 to 1 more than their text has"}};
  for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
    struct table *t = table_new(0);
    for (uint64_t i = 0; i < 10; i++) {
      struct sample *s = row_tokens(row_ok(i, 1, 0, 5, 5), 100, 10, 0);
      s->prompt_tokens_local = 100;
      s->output_tokens_local = 10 - (i ? cases[k].others : cases[k].first);
      row_add(t, s);
    }
    table_finish(t);
    struct value list = value_array(), *entry = value_push(&list, value_object());
    value_set(entry, "verdict", value_cstring("equal"));
    struct checks_input in = plain();
    struct check c[CHECK_COUNT];
    in.parity = &list;
    checks_run(t, &in, c);
    check_near(c[CHECK_USAGE_VS_LOCAL].figure, 0, 0.0);
    assert_true(c[CHECK_USAGE_VS_LOCAL].ok);
    if (!cases[k].note[0])
      assert_string_equal(c[CHECK_USAGE_VS_LOCAL].note, "");
    assert_null(strstr(c[CHECK_USAGE_VS_LOCAL].note, "counts wrongly"));
    for (size_t i = 0; i < t->n_rows; i++)
      t->rows[i].asked_tokens = 9; /* of the 10 that usage counts */
    checks_run(t, &in, c);
    if (cases[k].note[0])
      check_has(c[CHECK_USAGE_VS_LOCAL].note,
                "in 10 it is more than was asked for: it counts wrongly");
    for (size_t i = 0; i < t->n_rows; i++)
      t->rows[i].asked_tokens = -1;
    checks_run(t, &in, c);
    check_has(c[CHECK_USAGE_VS_LOCAL].note, cases[k].note);
    value_free(&list);
    table_free(t);
  }
}

/* 42 requests of which 11 never ended: what is left is too good to be judged. */
static void what_never_ended_breaks_the_run(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 42; i++) {
    row_add(t, i < 11 ? row_failed(i, 1, 0, SAMPLE_INCOMPLETE)
                      : row_tokens(row_ok(i, 1, 0, 5, 5), 100, 10, 0));
    struct session_record r = row_session(i, 0, 1, i < 2 ? SAMPLE_INCOMPLETE : SAMPLE_OK);
    table_add_session(t, &r);
  }
  row_add(t, row_failed(50, 1, 0, SAMPLE_CANCELLED)); /* the script's own doing */
  struct sample *warm = row_failed(51, 1, 0, SAMPLE_INCOMPLETE), *plain_http;
  warm->measured = false;
  row_add(t, warm);
  plain_http = row_failed(52, 1, 0, SAMPLE_INCOMPLETE);
  plain_http->is_generation = false;
  row_add(t, plain_http);
  table_finish(t);
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  assert_string_equal(c[CHECK_INCOMPLETE_REQUESTS].name, "incomplete_requests");
  check_near(c[CHECK_INCOMPLETE_REQUESTS].figure, 11.0 / 42, 1e-15);
  assert_string_equal(c[CHECK_INCOMPLETE_REQUESTS].note, "11 of 42");
  assert_false(c[CHECK_INCOMPLETE_REQUESTS].ok);
  assert_string_equal(c[CHECK_INCOMPLETE_SESSIONS].name, "incomplete_sessions");
  check_near(c[CHECK_INCOMPLETE_SESSIONS].figure, 2.0 / 42, 1e-15);
  assert_true(c[CHECK_INCOMPLETE_SESSIONS].ok);
  assert_false(checks_valid(c));
  in.closed_loop = true;
  checks_run(t, &in, c);
  assert_true(isnan(c[CHECK_INCOMPLETE_SESSIONS].figure));
  assert_string_equal(c[CHECK_INCOMPLETE_SESSIONS].note,
                      "not measured: a closed load ends within sessions, 2 of 42 here");
  assert_false(c[CHECK_INCOMPLETE_REQUESTS].ok);
  in.closed_loop = false;
  struct err err;
  check_ok(checks_set_limit(&in.limits, "incomplete_requests", "30%", &err), &err);
  checks_run(t, &in, c);
  assert_true(checks_valid(c));
  in = plain();
  in.interrupted = true; /* whoever pressed the keys cut them off */
  checks_run(t, &in, c);
  assert_true(checks_valid(c));
  assert_string_equal(c[CHECK_INCOMPLETE_REQUESTS].note,
                      "not measured: the run was interrupted, which cut off 11 of 42");
  table_free(t);
}

static void a_run_of_plain_http_can_be_cut_off_too(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 4; i++) {
    struct sample *s = i ? row_ok(i, 1, 0, 5, 5) : row_failed(i, 1, 0, SAMPLE_INCOMPLETE);
    s->is_generation = s->streamed = false;
    row_add(t, s);
  }
  table_finish(t);
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  check_near(c[CHECK_INCOMPLETE_REQUESTS].figure, 0.25, 1e-15);
  table_free(t);
}

static void a_standstill_that_is_alone(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 1000; i++) {
    hist_add(&t->probe.timer_late, i ? 1000 : 1900 * MS); /* no p99 shows it */
    hist_add(&t->probe.wakeup_busy, 1000);
  }
  t->probe.stalled_ns = 1900 * MS;
  t->probe.longest_stall_ns = 1800 * MS;
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  assert_true(isnan(c[CHECK_STALLED_TIME].figure));
  assert_string_equal(c[CHECK_STALLED_TIME].note, "not measured: the window has no length");
  table_add_window(t, NULL, 0, 8 * NS_PER_S);
  checks_run(t, &in, c);
  assert_true(c[CHECK_WAKE_LAG].ok && c[CHECK_LOOP_LAG].ok);
  assert_string_equal(c[CHECK_STALLED_TIME].name, "stalled_time");
  check_near(c[CHECK_STALLED_TIME].figure, 1.9 / 8, 1e-12);
  assert_string_equal(c[CHECK_STALLED_TIME].note, "the longest took 1.80 s");
  assert_false(c[CHECK_STALLED_TIME].ok);
  t->probe.stalled_ns = 79 * MS;
  checks_run(t, &in, c);
  assert_true(c[CHECK_STALLED_TIME].ok);
  t->n_windows = 0;
  table_add_window(t, NULL, 0, NS_PER_S); /* one standstill in a short window is no finding */
  t->probe.stalled_ns = 26 * MS;
  checks_run(t, &in, c);
  check_near(c[CHECK_STALLED_TIME].figure, 0.026 / 5, 1e-12);
  assert_true(c[CHECK_STALLED_TIME].ok);
  t->probe.stalled_ns = 500 * MS; /* half of it is */
  checks_run(t, &in, c);
  assert_false(c[CHECK_STALLED_TIME].ok);
  t->probe.stalled_ns = 0;
  checks_run(t, &in, c);
  check_near(c[CHECK_STALLED_TIME].figure, 0, 0.0);
  assert_string_equal(c[CHECK_STALLED_TIME].note, "");
  table_free(t);
}

static void counts_that_cannot_be_true(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 50; i++)
    row_add(t, row_tokens(row_ok(i, 1, 0, 5, 5), 100, 10, i < 1 ? 101 : 100));
  table_finish(t);
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  check_near(c[CHECK_IMPOSSIBLE_USAGE].figure, 0.02, 1e-15);
  assert_string_equal(c[CHECK_IMPOSSIBLE_USAGE].note, "1 of 50");
  assert_false(c[CHECK_IMPOSSIBLE_USAGE].ok);
  table_free(t);
}

static void limits_can_be_set(void **state) {
  (void)state;
  struct checks_limits l = checks_default_limits();
  struct err err;
  check_ok(checks_set_limit(&l, "wake_lag_p99", "20ms", &err), &err);
  check_near(l.limit[CHECK_WAKE_LAG], 0.02, 0.0);
  check_ok(checks_set_limit(&l, "empty_200", "100%", &err), &err);
  check_ok(checks_set_limit(&l, "usage_vs_local", "2", &err), &err);
  assert_int_equal(checks_set_limit(&l, "wake_lag", "20ms", &err), ERR_INVALID);
  check_has(err.text, "unknown check \"wake_lag\" (did you mean wake_lag_p99?); others are "
                      "schedule_lag_p99, loop_lag_p99, ");
  check_has(err.text, ", sessions");
  assert_int_equal(checks_set_limit(&l, "foo", "20ms", &err), ERR_INVALID);
  check_has(err.text, "unknown check \"foo\"; there are schedule_lag_p99, wake_lag_p99, ");
  check_has(err.text, ", sessions");
  assert_int_equal(checks_set_limit(&l, "wake_lag_p99", "20", &err), ERR_INVALID);
  check_has(err.text, "limit of the check wake_lag_p99: 20 what? write 20ms or 20s");
  assert_int_equal(checks_set_limit(&l, "worker_cpu", "95", &err), ERR_INVALID);
  check_has(err.text, "95 of what? a ratio is at most 1: write 95% or 0.95");
  assert_int_equal(checks_set_limit(&l, "wake_lag_p99", "20%", &err), ERR_INVALID);
  check_has(err.text, "limit of the check wake_lag_p99: \"20%\" is not a time");
  assert_int_equal(checks_set_limit(&l, "worker_cpu", "-5%", &err), ERR_INVALID);
  assert_string_equal(err.text, "limit of the check worker_cpu: a limit cannot be below 0");
}

/* A late read falsifies no figure: stamps are the kernel's. Without them it does. */
static void errors_of_stamps_and_late_reads_are_apart(void **state) {
  (void)state;
  for (int stamps = 0; stamps < 3; stamps++) {
    struct table *t = table_new(0);
    for (uint64_t i = 0; i < 600; i++) {
      struct sample *s = row_ok(i, 1, 0, 5, 5);
      s->error_ns = stamps ? (int64_t)(12 * MS) : SAMPLE_ABSENT;
      if (stamps == 1 && i < 60)
        s->error_ns = SAMPLE_ABSENT;
      row_add(t, s);
      hist_add(&t->probe.read_error, 12 * MS);
    }
    table_finish(t);
    struct checks_input in = plain();
    struct check c[CHECK_COUNT];
    checks_run(t, &in, c);
    assert_string_equal(c[CHECK_READ_LAG].name, "read_lag_p99");
    check_near(c[CHECK_READ_LAG].figure, 12e-3, 1e-9);
    assert_true(c[CHECK_READ_LAG].ok);
    check_near(c[CHECK_MEASUREMENT_ERROR].figure, stamps == 2 ? 0 : 12e-3, 1e-9);
    assert_true(c[CHECK_MEASUREMENT_ERROR].ok == (stamps == 2));
    check_has(c[CHECK_MEASUREMENT_ERROR].note,
              stamps == 2   ? "600 of 600 first tokens have the kernel's stamp"
              : stamps == 1 ? "60 of 600 first tokens have the loop's stamp"
                            : "600 of 600 first tokens have the loop's stamp");
    hist_init(&t->probe.read_error);
    checks_run(t, &in, c);
    assert_true(isnan(c[CHECK_MEASUREMENT_ERROR].figure) == (stamps != 2));
    table_free(t);
  }
}

/* A p99 of twelve is the worst of them: the percentile that there are samples for is judged. */
static void few_samples_are_judged_by_a_lower_percentile(void **state) {
  (void)state;
  static const struct {
    uint64_t n, slow; /* 6 ms; the others 1 ms */
    bool ok;
    const char *note;
  } cases[] = {{9, 9, true, "not measured: 9 timers, a median needs 10; the longest 6.00 ms"},
               {12, 3, true, "p50: 12 timers are too few for p99 (500); the longest 6.00 ms"},
               {12, 7, false, "p50: 12 timers"},
               {60, 2, true, "p90: 60 timers"},
               {60, 10, false, "p90: 60 timers"},
               {499, 15, true, "p95: 499 timers"},
               {500, 15, false, ""}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct table *t = table_new(0);
    for (uint64_t k = 0; k < cases[i].n; k++)
      hist_add(&t->probe.timer_late, k < cases[i].slow ? 6 * MS : MS);
    table_finish(t);
    struct checks_input in = plain();
    struct check c[CHECK_COUNT];
    checks_run(t, &in, c);
    if (c[CHECK_WAKE_LAG].ok != cases[i].ok)
      fail_msg("case %zu: figure %g, %s", i, c[CHECK_WAKE_LAG].figure, c[CHECK_WAKE_LAG].note);
    check_has(c[CHECK_WAKE_LAG].note, cases[i].note);
    table_free(t);
  }
}

static void answers_shorter_than_declared(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (uint64_t i = 0; i < 40; i++) {
    struct sample *s = row_tokens(row_ok(i, 1, 0, 5, 5), 100,
                                  i < 3   ? 7
                                  : i < 5 ? SAMPLE_ABSENT
                                          : 100,
                                  0);
    s->asked_tokens = i < 25 ? 100 : SAMPLE_ABSENT;
    row_add(t, s);
  }
  table_finish(t);
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  assert_string_equal(c[CHECK_SHORT_ANSWERS].name, "short_answers");
  check_near(c[CHECK_SHORT_ANSWERS].figure, 3.0 / 23, 1e-15);
  assert_false(c[CHECK_SHORT_ANSWERS].ok);
  assert_string_equal(c[CHECK_SHORT_ANSWERS].note, "3 of 23, which had 21 of 300 tokens");
  struct err err;
  check_ok(checks_set_limit(&in.limits, "short_answers", "20%", &err), &err);
  checks_run(t, &in, c);
  assert_true(c[CHECK_SHORT_ANSWERS].ok);
  table_free(t);
}

/* `n` measured generation requests to r0, of n / each sessions, besides the replicas of the run. */
static struct table *to_one_replica(uint64_t n, uint64_t each, const char *policy) {
  struct table *t = table_new(0);
  table_add_replica(t, "r0", 1);
  table_add_replica(t, "r2", 1);
  table_add_replica(t, "r1", 1);
  for (uint64_t i = 0; i < n; i++) {
    struct sample *s = row_ok(i / each, 1, 0, 5, 5);
    s->chosen = mem_strdup("r0");
    s->policy = policy;
    row_add(t, s);
  }
  table_finish(t);
  return t;
}

/* Three sessions over three replicas often miss one, whatever they send there. */
static void idle_by_chance_is_no_fault(void **state) {
  (void)state;
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  struct table *t = to_one_replica(60, 20, "session_hash");
  checks_run(t, &in, c);
  assert_true(c[CHECK_IDLE_REPLICA].ok && isnan(c[CHECK_IDLE_REPLICA].figure));
  assert_string_equal(c[CHECK_IDLE_REPLICA].note,
                      "not measured: 3 sessions over 3 replicas leave a given one out by chance in "
                      "30 % of runs (2 got none)");
  table_free(t);
  t = to_one_replica(60, 2, "session_hash"); /* 30 sessions */
  checks_run(t, &in, c);
  check_near(c[CHECK_IDLE_REPLICA].figure, 2, 0.0);
  table_free(t);
  t = to_one_replica(60, 20, "round_robin"); /* each request is placed */
  checks_run(t, &in, c);
  assert_false(c[CHECK_IDLE_REPLICA].ok);
  table_free(t);
}

static void a_replica_that_got_nothing(void **state) {
  (void)state;
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  struct table *t = to_one_replica(22, 1, NULL);
  checks_run(t, &in, c); /* (2/3)^22 = 1.3e-4 */
  assert_true(c[CHECK_IDLE_REPLICA].ok && isnan(c[CHECK_IDLE_REPLICA].figure));
  check_has(c[CHECK_IDLE_REPLICA].note, "not measured: 22 requests over 3 replicas leave");
  table_free(t);
  t = to_one_replica(23, 1, NULL);
  struct sample *s = row_ok(99, 1, 0, 5, 5);
  s->chosen = mem_strdup("r1");
  s->measured = false; /* the warm-up is not the measurement */
  row_add(t, s);
  s = row_ok(99, 1, 0, 5, 5);
  s->served = mem_strdup("pod-7"); /* its own name for itself; never given to the run */
  s->measured = false;
  row_add(t, s);
  table_finish(t);
  checks_run(t, &in, c);
  check_near(c[CHECK_IDLE_REPLICA].figure, 2, 0.0);
  assert_false(c[CHECK_IDLE_REPLICA].ok);
  assert_string_equal(c[CHECK_IDLE_REPLICA].name, "idle_replica");
  assert_string_equal(c[CHECK_IDLE_REPLICA].note, "no request went to r1, r2");
  in.gateway = true;
  checks_run(t, &in, c);
  assert_true(c[CHECK_IDLE_REPLICA].ok);
  check_has(c[CHECK_IDLE_REPLICA].note, "not measured: a gateway chooses");
  in.gateway = false;
  for (int i = 0; i < 2; i++) {
    s = row_ok(99, 1, 0, 5, 5);
    s->chosen = mem_strdup(i ? "r1" : "r2");
    s->served = mem_strdup("pod-7"); /* chosen is enough */
    row_add(t, s);
  }
  table_finish(t);
  checks_run(t, &in, c);
  check_near(c[CHECK_IDLE_REPLICA].figure, 0, 0.0);
  assert_true(c[CHECK_IDLE_REPLICA].ok);
  table_free(t);
}

/* r2 was in rotation for a part of 200 placements only. */
static void out_of_rotation_is_not_idle(void **state) {
  (void)state;
  static const struct {
    double rotation, figure;
    const char *note;
  } cases[] = {
      {1, 2, "no request went to r1, r2"},
      {0.12, 2, "no request went to r1, r2"}, /* (2/3)^24 */
      {0.11, 1, "no request went to r1"},     /* (2/3)^22 */
      {0, 1, "no request went to r1"},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct checks_input in = plain();
    struct check c[CHECK_COUNT];
    struct table *t = to_one_replica(200, 1, NULL);
    table_add_replica(t, "r2", cases[i].rotation);
    check_near(table_replica_rotation(t, 1), cases[i].rotation, 0.0);
    checks_run(t, &in, c);
    check_near(c[CHECK_IDLE_REPLICA].figure, cases[i].figure, 0.0);
    assert_string_equal(c[CHECK_IDLE_REPLICA].note, cases[i].note);
    table_free(t);
  }
}

static void long_lists_of_idle_replicas_are_cut(void **state) {
  (void)state;
  struct table *t = table_new(0);
  for (int i = 0; i < 100; i++) {
    char id[32];
    snprintf(id, sizeof id, "replica-number-%d", i);
    table_add_replica(t, id, 1);
  }
  for (uint64_t i = 0; i < 1000; i++) {
    struct sample *s = row_ok(i, 1, 0, 5, 5);
    s->served = mem_strdup("elsewhere");
    row_add(t, s);
  }
  table_finish(t);
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  check_near(c[CHECK_IDLE_REPLICA].figure, 100, 0.0);
  check_has(c[CHECK_IDLE_REPLICA].note, "no request went to replica-number-0, replica-number-1, ");
  check_has(c[CHECK_IDLE_REPLICA].note, " more");
  table_free(t);
}

static void expectations_need_sessions(void **state) {
  (void)state;
  struct table *t = table_new(0);
  struct session_record one = row_session(1, 0, 1, SAMPLE_OK), warm = row_session(2, 0, 1, 0);
  warm.measured = false;
  table_add_session(t, &one);
  table_add_session(t, &warm);
  table_finish(t);
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  assert_true(c[CHECK_SESSIONS].ok && isnan(c[CHECK_SESSIONS].figure));
  check_has(c[CHECK_SESSIONS].note, "not measured: the plan has no expectations");
  in.expectations = 1;
  checks_run(t, &in, c);
  check_near(c[CHECK_SESSIONS].figure, 1, 0.0);
  assert_false(c[CHECK_SESSIONS].ok);
  struct value v = checks_value(c);
  assert_true(value_get(value_at(&v, CHECK_SESSIONS), "minimum")->u.boolean);
  assert_false(value_get(value_at(&v, CHECK_IDLE_REPLICA), "minimum")->u.boolean);
  value_free(&v);
  one.session = 3;
  table_add_session(t, &one);
  table_finish(t);
  checks_run(t, &in, c);
  assert_true(c[CHECK_SESSIONS].ok);
  struct err err;
  check_ok(checks_set_limit(&in.limits, "sessions", "3", &err), &err);
  checks_run(t, &in, c);
  assert_false(c[CHECK_SESSIONS].ok);
  table_free(t);
}

/* "no request ended well" would be wrong where plain HTTP did. */
static void notes_name_generation_requests(void **state) {
  (void)state;
  struct table *t = table_new(0);
  struct sample *s = row_ok(1, 1, 0, 5, 5);
  s->is_generation = s->streamed = false;
  row_add(t, s);
  table_finish(t);
  struct checks_input in = plain();
  struct check c[CHECK_COUNT];
  checks_run(t, &in, c);
  assert_string_equal(c[CHECK_MISSING_USAGE].note,
                      "not measured: no generation request ended well");
  assert_string_equal(c[CHECK_EMPTY_200].note, "not measured: no generation request ended");
  table_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_are_designs),
      cmocka_unit_test(nothing_measured_breaks_nothing),
      cmocka_unit_test(a_timeline_is_to_be_done),
      cmocka_unit_test(the_clients_own_lateness),
      cmocka_unit_test(what_the_replies_say),
      cmocka_unit_test(answers_beside_their_text),
      cmocka_unit_test(what_never_ended_breaks_the_run),
      cmocka_unit_test(a_run_of_plain_http_can_be_cut_off_too),
      cmocka_unit_test(a_standstill_that_is_alone),
      cmocka_unit_test(counts_that_cannot_be_true),
      cmocka_unit_test(limits_can_be_set),
      cmocka_unit_test(errors_of_stamps_and_late_reads_are_apart),
      cmocka_unit_test(few_samples_are_judged_by_a_lower_percentile),
      cmocka_unit_test(answers_shorter_than_declared),
      cmocka_unit_test(idle_by_chance_is_no_fault),
      cmocka_unit_test(a_replica_that_got_nothing),
      cmocka_unit_test(expectations_need_sessions),
      cmocka_unit_test(out_of_rotation_is_not_idle),
      cmocka_unit_test(long_lists_of_idle_replicas_are_cut),
      cmocka_unit_test(notes_name_generation_requests),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
