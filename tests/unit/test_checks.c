/* test_checks.c: each check's figure, and what breaks it. */
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
  static const double want[CHECK_COUNT] = {5e-3, 5e-3, 20e-3, 0.9, 1e-3, 0.05,
                                           0.01, 0.05, 1e-3,  0,   0};
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
    if (i != CHECK_DESCRIPTORS) {
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
  static const bool want[CHECK_COUNT] = {false, true, false, false, true, true,
                                         true,  true, false, false, true};
  for (int i = 0; i < CHECK_COUNT; i++)
    if (c[i].ok != want[i])
      fail_msg("%s: ok = %d, figure %g", c[i].name, c[i].ok, c[i].figure);
  check_near(c[CHECK_SCHEDULE_LAG].figure, 6e-3, 6e-3 * 0.004);
  check_near(c[CHECK_WAKE_LAG].figure, 1e-6, 1e-8);
  check_near(c[CHECK_LOOP_LAG].figure, 21e-3, 1e-9); /* all equal: exact */
  check_near(c[CHECK_MEASUREMENT_ERROR].figure, 5e-6, 1e-9);
  check_near(c[CHECK_CLOCK_STEP].figure, 2e-3, 0.0);
  assert_string_equal(c[CHECK_WORKER_CPU].note, "worker 2 of 3");
  assert_string_equal(c[CHECK_MEASUREMENT_ERROR].note, "10 of 1010 reads had no kernel timestamp");
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
  in.parity_proven = true;
  checks_run(t, &in, c);
  check_near(c[CHECK_USAGE_VS_LOCAL].figure, 3, 0.0);
  assert_false(c[CHECK_USAGE_VS_LOCAL].ok);
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
  assert_string_equal(err.text, "unknown check \"wake_lag\" (did you mean \"wake_lag_p99\"?)");
  assert_int_equal(checks_set_limit(&l, "wake_lag_p99", "20%", &err), ERR_INVALID);
  check_has(err.text, "limit of the check wake_lag_p99: \"20%\" is not a time");
  assert_int_equal(checks_set_limit(&l, "worker_cpu", "-5%", &err), ERR_INVALID);
  assert_string_equal(err.text, "limit of the check worker_cpu: a limit cannot be below 0");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_are_designs),     cmocka_unit_test(nothing_measured_breaks_nothing),
      cmocka_unit_test(the_clients_own_lateness), cmocka_unit_test(what_the_replies_say),
      cmocka_unit_test(limits_can_be_set),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
