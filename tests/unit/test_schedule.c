/* test_schedule.c: arrivals, users, warm-up and what counts. */
#include "check.h"

#include <math.h>

#include "base/mem.h"
#include "run/schedule.h"

static struct schedule make(bool open, double value) {
  struct schedule s = {.open = open, .seed = 7};
  schedule_set_value(&s, value);
  return s;
}

static void add_points(struct schedule *s, const struct schedule_point *p, size_t n) {
  schedule_free(s);
  s->points = mem_dup(p, n * sizeof *p);
  s->n_points = n;
}

static void sessions_have_names(void **state) {
  (void)state;
  char name[32];
  schedule_session_name(0, name);
  assert_string_equal(name, "session=0");
  schedule_session_name(SCHEDULE_WARMUP_BASE - 1, name);
  assert_string_equal(name, "session=4294967295");
  schedule_session_name(SCHEDULE_WARMUP_BASE + 2, name);
  assert_string_equal(name, "warm-up=2");
}

static void constant_arrivals_are_even(void **state) {
  (void)state;
  struct schedule s = make(true, 4);
  s.constant = true;
  s.warmup_s = 0.5;
  s.duration_s = 1;
  struct schedule_arrivals a;
  schedule_arrivals_init(&a, &s);
  const struct schedule_session want[] = {
      {SCHEDULE_WARMUP_BASE, 0, false},
      {SCHEDULE_WARMUP_BASE + 1, 250000000, false},
      {0, 500000000, true},
      {1, 750000000, true},
      {2, 1000000000, true},
      {3, 1250000000, true},
  };
  struct schedule_session got;
  for (size_t i = 0; i < ARRAY_LEN(want); i++) {
    assert_true(schedule_arrivals_next(&a, &got));
    assert_int_equal(got.session, want[i].session);
    assert_int_equal(got.at_ns, want[i].at_ns);
    assert_int_equal(got.measured, want[i].measured);
  }
  assert_false(schedule_arrivals_next(&a, &got));
  assert_false(schedule_arrivals_next(&a, &got));
  schedule_free(&s);
}

static void poisson_has_the_rate_and_its_spread(void **state) {
  (void)state;
  struct schedule s = make(true, 100);
  s.duration_s = 200;
  struct schedule_arrivals a;
  schedule_arrivals_init(&a, &s);
  struct schedule_session got;
  uint64_t n = 0, last = 0;
  double sum2 = 0;
  while (schedule_arrivals_next(&a, &got)) {
    assert_int_equal(got.session, n);
    assert_true(got.at_ns >= last && got.at_ns < 200 * NS_PER_S);
    double gap = (double)(got.at_ns - last) / 1e9;
    sum2 += gap * gap;
    last = got.at_ns;
    n++;
  }
  check_near((double)n, 20000, 600);               /* 4 standard deviations of 141 */
  check_near(sum2 / (double)n, 2.0 / 1e4, 0.2e-4); /* E[gap²] = 2/rate² */
  schedule_free(&s);
}

static void seed_decides_and_warmup_does_not_shift(void **state) {
  (void)state;
  struct schedule s = make(true, 10), t = make(true, 10);
  s.sessions = t.sessions = 50;
  t.warmup_s = 3;
  struct schedule_arrivals a, b;
  schedule_arrivals_init(&a, &s);
  schedule_arrivals_init(&b, &t);
  struct schedule_session x, y;
  bool warm_seen = false;
  for (int i = 0; i < 50; i++) {
    assert_true(schedule_arrivals_next(&a, &x));
    do {
      assert_true(schedule_arrivals_next(&b, &y));
      warm_seen = warm_seen || !y.measured;
    } while (!y.measured);
    assert_int_equal(x.session, y.session);
    check_near((double)(y.at_ns - x.at_ns), 3e9, 2);
  }
  assert_true(warm_seen);
  assert_false(schedule_arrivals_next(&a, &x));
  assert_false(schedule_arrivals_next(&b, &y));
  t.seed = 8;
  schedule_arrivals_init(&a, &s);
  schedule_arrivals_init(&b, &t);
  assert_true(schedule_arrivals_next(&a, &x));
  assert_true(schedule_arrivals_next(&b, &y));
  assert_true(x.at_ns != y.at_ns);
  schedule_free(&s);
  schedule_free(&t);
}

static void ramp_of_rate_inverts_the_area(void **state) {
  (void)state;
  /* 0 to 10/s over 10 s, level 10 s, down to 0 over 10 s: areas 50, 100, 50. */
  const struct schedule_point p[] = {{0, 0}, {10, 10}, {20, 10}, {30, 0}};
  struct schedule s = make(true, 1);
  add_points(&s, p, 4);
  s.constant = true;
  s.duration_s = 40;
  struct err err;
  check_ok(schedule_check(&s, &err), &err);
  struct schedule_arrivals a;
  schedule_arrivals_init(&a, &s);
  struct schedule_session got;
  double at[200];
  size_t n = 0;
  while (schedule_arrivals_next(&a, &got) && n < 200)
    at[n++] = (double)got.at_ns / 1e9;
  assert_int_equal(n, 200); /* the 201st is due where the area ends: area 200 is never passed */
  check_near(at[0], 0, 1e-6);
  check_near(at[8], 4, 1e-6); /* t²/2 = 8 */
  check_near(at[50], 10, 1e-6);
  check_near(at[51], 10.1, 1e-6);
  check_near(at[150], 20, 1e-6);
  check_near(at[192], 26, 1e-6); /* 50 − (30−t)²/2 = 42 */
  schedule_free(&s);
}

static void closed_users_take_their_sessions(void **state) {
  (void)state;
  struct schedule s = make(false, 3);
  s.sessions = 7;
  assert_int_equal(schedule_users(&s), 3);
  struct schedule_user u = {.user = 0}, v = {.user = 2};
  struct schedule_session got;
  const uint64_t want[] = {0, 3, 6};
  for (size_t i = 0; i < 3; i++) {
    assert_true(schedule_user_next(&s, &u, 1000 * i, &got));
    assert_int_equal(got.session, want[i]);
    assert_int_equal(got.at_ns, 1000 * i);
    assert_true(got.measured);
  }
  assert_false(schedule_user_next(&s, &u, 5000, &got));
  assert_true(schedule_user_next(&s, &v, 0, &got));
  assert_int_equal(got.session, 2);
  assert_true(schedule_user_next(&s, &v, 0, &got));
  assert_int_equal(got.session, 5);
  assert_false(schedule_user_next(&s, &v, 0, &got));
  schedule_free(&s);
}

static void closed_warmup_has_its_own_numbers(void **state) {
  (void)state;
  struct schedule s = make(false, 2);
  s.warmup_s = 1;
  s.duration_s = 2;
  struct schedule_user u = {.user = 1};
  struct schedule_session got;
  assert_true(schedule_user_next(&s, &u, 0, &got));
  assert_int_equal(got.session, SCHEDULE_WARMUP_BASE + 1);
  assert_false(got.measured);
  assert_true(schedule_user_next(&s, &u, NS_PER_S - 1, &got));
  assert_int_equal(got.session, SCHEDULE_WARMUP_BASE + 3);
  assert_true(schedule_user_next(&s, &u, NS_PER_S, &got));
  assert_int_equal(got.session, 1);
  assert_true(got.measured);
  assert_true(schedule_user_next(&s, &u, 3 * NS_PER_S - 1, &got));
  assert_int_equal(got.session, 3);
  assert_false(schedule_user_next(&s, &u, 3 * NS_PER_S, &got));
  schedule_free(&s);
}

static void ramp_of_users_opens_and_closes(void **state) {
  (void)state;
  const struct schedule_point p[] = {{0, 1}, {10, 5}, {20, 0}};
  struct schedule s = make(false, 1);
  add_points(&s, p, 3);
  s.duration_s = 30;
  struct err err;
  check_ok(schedule_check(&s, &err), &err);
  assert_int_equal(schedule_users(&s), 5);
  struct schedule_session got;
  struct schedule_user u = {.user = 2}; /* from 3 on: at 5 s */
  assert_true(schedule_user_next(&s, &u, 0, &got));
  check_near((double)got.at_ns, 5e9, 2);
  assert_int_equal(got.session, 2);
  assert_true(schedule_user_next(&s, &u, 6 * NS_PER_S, &got));
  assert_int_equal(got.at_ns, 6 * NS_PER_S);
  assert_int_equal(got.session, 7);
  assert_true(schedule_user_next(&s, &u, 14 * NS_PER_S, &got)); /* the curve is at 3 */
  assert_false(schedule_user_next(&s, &u, 14 * NS_PER_S + 1000, &got));
  struct schedule_user top = {.user = 4};
  assert_true(schedule_user_next(&s, &top, 0, &got));
  check_near((double)got.at_ns, 10e9, 2);
  assert_true(schedule_user_next(&s, &(struct schedule_user){.user = 0}, 0, &got));
  assert_int_equal(got.at_ns, 0);
  check_near(schedule_value(&s, 5), 3, 1e-9);
  check_near(schedule_value(&s, 15), 2.5, 1e-9);
  check_near(schedule_value(&s, 31), 0, 0);
  schedule_free(&s);
}

static void window_and_words(void **state) {
  (void)state;
  struct schedule s = make(false, 8);
  s.warmup_s = 30;
  s.duration_s = 300;
  uint64_t start, end;
  schedule_window(&s, &start, &end);
  assert_int_equal(start, 30 * NS_PER_S);
  assert_int_equal(end, 330 * NS_PER_S);
  char text[200];
  schedule_describe(&s, text, sizeof text);
  assert_string_equal(text, "closed load of 8 users, 300 s after 30 s of warm-up");
  s.warmup_s = 0;
  s.duration_s = 0;
  s.sessions = 12;
  schedule_window(&s, &start, &end);
  assert_true(end == SCHEDULE_NEVER);
  schedule_describe(&s, text, sizeof text);
  assert_string_equal(text, "closed load of 8 users, 12 sessions");
  s.sessions = 1;
  schedule_describe(&s, text, sizeof text);
  assert_string_equal(text, "closed load of 8 users, 1 session");
  struct schedule o = make(true, 2.5);
  o.duration_s = 10;
  o.sessions = 20;
  schedule_describe(&o, text, sizeof text);
  assert_string_equal(text, "open load of 2.5 sessions/s (Poisson arrivals), 10 s or 20 sessions");
  struct schedule copy = schedule_copy(&o);
  schedule_free(&o);
  assert_int_equal(copy.n_points, 1);
  check_near(copy.points[0].value, 2.5, 0);
  schedule_free(&copy);
  schedule_free(&s);
}

static void says_what_makes_no_load(void **state) {
  (void)state;
  struct err err;
  struct schedule s = make(true, 2);
  assert_int_equal(schedule_check(&s, &err), ERR_INVALID);
  check_has(err.text, "duration = \"3m\", or sessions");
  s.sessions = 5;
  check_ok(schedule_check(&s, &err), &err);
  s.warmup_s = NAN;
  assert_int_equal(schedule_check(&s, &err), ERR_INVALID);
  check_has(err.text, "warmup must be from 0 s to a year (31536000 s), got");
  s.warmup_s = 0;
  s.duration_s = -1;
  assert_int_equal(schedule_check(&s, &err), ERR_INVALID);
  check_has(err.text, "duration must be above 0");
  s.duration_s = 1;
  s.points[0].value = -3;
  assert_int_equal(schedule_check(&s, &err), ERR_INVALID);
  check_has(err.text, "rate must be between 0 and 1e+06, got -3");
  s.points[0].value = 0;
  assert_int_equal(schedule_check(&s, &err), ERR_INVALID);
  check_has(err.text, "rate is never above 0");
  s.open = false;
  s.points[0].value = 0.5;
  assert_int_equal(schedule_check(&s, &err), ERR_INVALID);
  check_has(err.text, "users is never 1 or more");
  const struct schedule_point back[] = {{0, 1}, {5, 2}, {5, 3}};
  add_points(&s, back, 3);
  assert_int_equal(schedule_check(&s, &err), ERR_INVALID);
  check_has(err.text, "times must grow, but 5 s follows 5 s");
  const struct schedule_point down[] = {{0, 4}, {5, 2}};
  add_points(&s, down, 2);
  s.duration_s = 0;
  assert_int_equal(schedule_check(&s, &err), ERR_INVALID);
  check_has(err.text, "the curve ends at 2 users");
  schedule_free(&s);
  assert_int_equal(schedule_check(&s, &err), ERR_INVALID);
  check_has(err.text, "users is missing");
}

static void workers_take_turns(void **state) {
  (void)state;
  assert_int_equal(schedule_worker(0, 4), 0);
  assert_int_equal(schedule_worker(7, 4), 3);
  assert_int_equal(schedule_worker(SCHEDULE_WARMUP_BASE + 5, 4), 1);
  assert_int_equal(schedule_worker(9, 1), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sessions_have_names),
      cmocka_unit_test(constant_arrivals_are_even),
      cmocka_unit_test(poisson_has_the_rate_and_its_spread),
      cmocka_unit_test(seed_decides_and_warmup_does_not_shift),
      cmocka_unit_test(ramp_of_rate_inverts_the_area),
      cmocka_unit_test(closed_users_take_their_sessions),
      cmocka_unit_test(closed_warmup_has_its_own_numbers),
      cmocka_unit_test(ramp_of_users_opens_and_closes),
      cmocka_unit_test(window_and_words),
      cmocka_unit_test(says_what_makes_no_load),
      cmocka_unit_test(workers_take_turns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
