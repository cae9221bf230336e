/* test_verdict.c: the exit status as a table. */
#include "check.h"

#include <string.h>

#include "out/verdict.h"
#include "text/json.h"

#define GOOD .valid = true, .requests_ok = 100, .sessions_ok = 10

static const struct {
  struct verdict_input in;
  int status;
  const char *reason;
} table[] = {
    {{GOOD}, 0, "the plan has no expectations"},
    {{GOOD, .expectations = 3, .expectations_met = 3}, 0, "all 3 expectations met"},
    {{GOOD, .expectations = 3, .expectations_met = 1}, 99, "2 of 3 expectations not met"},
    {{GOOD, .requests_failed = 5}, 0, "the plan has no expectations"}, /* 4.8 % */
    {{.valid = true, .sessions_ok = 1, .requests_ok = 95, .requests_failed = 5},
     0,
     "the plan has no expectations"}, /* exactly 5 % */
    {{GOOD, .requests_failed = 6},
     99,
     "5.7 % of requests failed (6 of 106); without expectations 5 % are allowed"},
    {{GOOD, .requests_failed = 50, .expectations = 1, .expectations_met = 1},
     0,
     "its expectation is met"}, /* the plan judges by itself */
    {{.valid = true, .requests_failed = 7, .expectations = 1, .expectations_met = 1},
     99,
     "all 7 requests failed"},
    {{.valid = true, .requests_failed = 7, .request_class = "connect: refused"},
     99,
     "all 7 requests failed: connect: refused"},
    {{.valid = true, .sessions_failed = 1, .session_class = "script: x.lua:3: oops"},
     99,
     "the only session failed: script: x.lua:3: oops"},
    {{.sessions_failed = 2, .session_class = "script: oops", .broken = "wake_lag_p99"},
     98,
     "all 2 sessions failed: script: oops; and the measurement is not valid: wake_lag_p99"},
    {{.sessions_failed = 2, .sessions_ok = 1, .session_class = "script", .broken = "empty_200"},
     98,
     "a check of the measurement itself does not hold: empty_200"},
    {{.valid = true, .requests_failed = 7}, 99, "all 7 requests failed"},
    {{.valid = true, .requests_failed = 1}, 99, "the only request failed"},
    {{GOOD, .expectations = 1}, 99, "1 of 1 expectation not met"},
    {{.valid = true, .requests_ok = 50, .sessions_failed = 9}, 99, "all 9 sessions failed"},
    {{.valid = true, .requests_ok = 50, .sessions_ok = 9, .sessions_failed = 1},
     99,
     "10.0 % of sessions failed (1 of 10); without expectations 5 % are allowed"},
    {{.valid = true}, 99, "nothing was measured: no request and no session ended in the window"},
    {{.valid = true, .expectations = 1, .expectations_met = 1},
     99,
     "nothing was measured: no request and no session ended in the window"},
    {{.valid = true, .values = 4}, 0, "the plan has no expectations"},
    {{.valid = true, .values = 4, .checks = 4, .checks_false = 1},
     0,
     "the plan has no expectations, not even of vu:check, which was false 1 times of 4: \"checks "
     "share > 99%\" would be one"},
    {{.valid = true, .sessions_ok = 4}, 0, "the plan has no expectations"},
    {{.requests_ok = 100, .expectations = 1},
     98,
     "a check of the measurement itself does not hold"},
    {{.requests_failed = 5}, 98, "a check of the measurement itself does not hold"},
    {{.requests_ok = 100, .run_error = "disk full"}, 1, "disk full"},
    {{.run_error = "set-up failed"}, 1, "set-up failed"},
    {{GOOD, .interrupted = true, .run_error = "x", .expectations = 1},
     130,
     "the figures are of what was measured until then"},
    {{GOOD, .script_error = "the first 10 …", .interrupted = true, .run_error = "x"},
     2,
     "the first 10 …"},
    {{.sessions_failed = 3, .only_script = true, .session_class = "script: s.lua:3: oops"},
     2,
     "no session went well, 3 of 3 ended in an error of the script: script: s.lua:3: oops"},
    {{.valid = true,
      .requests_ok = 9,
      .requests_failed = 1,
      .sessions_failed = 1,
      .only_script = true,
      .session_class = "script: x"},
     2,
     "no session went well, 1 of 1 ended in an error of the script: script: x"},
    {{.valid = true, .requests_failed = 2, .sessions_failed = 2, .only_script = true},
     99,
     "all 2 requests failed"}, /* a script that minds what no server answers */
    {{.valid = true, .sessions_failed = 2, .only_script = true, .interrupted = true},
     130,
     "the figures are of what was measured until then"},
    {{.valid = true, .sessions_ok = 1, .sessions_failed = 2, .only_script = true},
     99,
     "66.7 % of sessions failed (2 of 3); without expectations 5 % are allowed"},
};

static void first_that_holds(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(table); i++) {
    struct verdict out;
    verdict_decide(&table[i].in, &out);
    if (out.status != table[i].status)
      fail_msg("row %zu: status %d, expected %d (%s)", i, out.status, table[i].status, out.reason);
    assert_string_equal(out.reason, table[i].reason);
  }
}

static void for_git_bisect(void **state) {
  (void)state;
  static const int map[][2] = {{0, 0}, {1, 125}, {2, 125}, {98, 125}, {99, 1}, {130, 130}};
  for (size_t i = 0; i < ARRAY_LEN(map); i++)
    assert_int_equal(verdict_bisect(map[i][0]), map[i][1]);
}

static void from_a_summary(void **state) {
  (void)state;
  struct value s = value_object();
  value_set(&s, "valid", value_bool(true));
  value_set(&s, "interrupted", value_bool(false));
  value_set(&s, "write_error", value_null());
  value_set(&s, "values", value_int(3));
  struct value *requests = value_set(&s, "requests", value_object());
  value_set(requests, "ok", value_int(40));
  value_set(requests, "failed", value_int(2));
  struct value *sessions = value_set(&s, "sessions", value_object());
  value_set(sessions, "ok", value_int(4));
  struct value *expectations = value_set(&s, "expectations", value_array());
  for (int i = 0; i < 3; i++) {
    struct value *e = value_push(expectations, value_object());
    value_set(e, "met", value_bool(i > 0));
  }
  struct verdict_input in;
  verdict_input_from(&s, &in);
  assert_true(in.valid);
  assert_false(in.interrupted);
  assert_null(in.run_error);
  assert_int_equal(in.requests_ok, 40);
  assert_int_equal(in.requests_failed, 2);
  assert_int_equal(in.sessions_ok, 4);
  assert_int_equal(in.sessions_failed, 0);
  assert_int_equal(in.values, 3);
  assert_int_equal(in.expectations, 3);
  assert_int_equal(in.expectations_met, 2);
  struct verdict out;
  verdict_decide(&in, &out);
  verdict_store(&s, &out);
  assert_int_equal(value_get(value_get(&s, "outcome"), "status")->u.integer, 99);
  assert_string_equal(value_to_string(value_get(value_get(&s, "outcome"), "reason")),
                      "1 of 3 expectations not met");
  value_set(&s, "write_error", value_cstring("cannot write"));
  verdict_input_from(&s, &in);
  assert_string_equal(in.run_error, "cannot write");
  value_free(&s);
}

/* The class of most failures, and what the first of it said. */
static void the_class_of_most(void **state) {
  (void)state;
  static const char text[] =
      "{\"requests\":{\"ok\":0,\"failed\":3,\"by_error\":{\"reset\":1,\"http_429\":2},"
      "\"detail\":{\"http_429\":\"slow down\"}},\"sessions\":{\"ok\":0,\"failed\":2,"
      "\"by_error\":{\"script\":2}}}";
  struct value s;
  struct err err;
  check_ok(json_parse(text, strlen(text), &s, &err), &err);
  struct verdict_input in;
  verdict_input_from(&s, &in);
  assert_string_equal(in.request_class, "http_429: slow down");
  assert_string_equal(in.session_class, "script");
  value_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_that_holds),
      cmocka_unit_test(for_git_bisect),
      cmocka_unit_test(from_a_summary),
      cmocka_unit_test(the_class_of_most),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
