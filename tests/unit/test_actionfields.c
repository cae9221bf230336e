/* The fields of an action. */
#include "check.h"

#include "sim/actionfields.h"
#include "text/json.h"

static struct value body;

static const struct value *with(const char *json) {
  struct err err = {0};
  value_free(&body);
  check_ok(json_parse(json, strlen(json), &body, &err), &err);
  return &body;
}

static void times(void **state) {
  (void)state;
  struct err err;
  double x = 7;
  check_ok(actionfields_seconds(with("{}"), "t", &x, &err), &err);
  check_ok(actionfields_seconds(with("{\"t\":null}"), "t", &x, &err), &err);
  assert_true(x == 7);
  check_ok(actionfields_seconds(with("{\"t\":\"250ms\"}"), "t", &x, &err), &err);
  assert_true(x == 0.25);
  check_ok(actionfields_seconds(with("{\"t\":86400}"), "t", &x, &err), &err);
  assert_true(x == 86400);
  static const char *const bad[] = {"{\"t\":-1}", "{\"t\":86401}", "{\"t\":true}", "{\"t\":\"5%\"}",
                                    "{\"t\":[]}"};
  for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
    assert_int_equal(actionfields_seconds(with(bad[i]), "t", &x, &err), ERR_INVALID);
    assert_string_equal(err.text, "t should be a time from 0 to 24h, as in \"500ms\" or 2");
  }
}

static void amounts(void **state) {
  (void)state;
  struct err err;
  uint32_t n = 0;
  check_ok(actionfields_blocks(with("{\"share\":\"50%\"}"), 101, 16, &n, &err), &err);
  assert_int_equal(n, 50);
  check_ok(actionfields_blocks(with("{\"tokens\":17}"), 101, 16, &n, &err), &err);
  assert_int_equal(n, 2);
  check_ok(actionfields_blocks(with("{\"tokens\":16}"), 101, 16, &n, &err), &err);
  assert_int_equal(n, 1);
  check_ok(actionfields_blocks(with("{\"blocks\":500}"), 101, 16, &n, &err), &err);
  assert_int_equal(n, 101);
  assert_int_equal(actionfields_blocks(with("{\"share\":0.001}"), 101, 16, &n, &err), ERR_INVALID);
  assert_string_equal(err.text, "share: that is not even one of the 101 blocks");
  assert_int_equal(actionfields_blocks(with("{\"share\":1,\"blocks\":1}"), 9, 16, &n, &err),
                   ERR_INVALID);
  assert_int_equal(actionfields_blocks(with("{\"blocks\":0}"), 9, 16, &n, &err), ERR_INVALID);
  assert_string_equal(err.text, "blocks should be a whole number from 1 on");
}

static void words_and_flags(void **state) {
  (void)state;
  static const char *const words[] = {"down", "keep", NULL};
  struct err err;
  int word = 5;
  bool flag = true;
  check_ok(actionfields_word(with("{}"), "after", words, &word, &err), &err);
  assert_int_equal(word, 5);
  check_ok(actionfields_word(with("{\"after\":\"keep\"}"), "after", words, &word, &err), &err);
  assert_int_equal(word, 1);
  assert_int_equal(actionfields_word(with("{\"after\":1}"), "after", words, &word, &err),
                   ERR_INVALID);
  assert_string_equal(err.text, "after should be \"down\" or \"keep\"");
  check_ok(actionfields_bool(with("{\"f\":false}"), "f", &flag, &err), &err);
  assert_false(flag);
  assert_int_equal(actionfields_bool(with("{\"f\":0}"), "f", &flag, &err), ERR_INVALID);
  double p = 0;
  check_ok(actionfields_ratio(with("{\"p\":\"30%\"}"), "p", &p, &err), &err);
  assert_true(p == 0.3);
  assert_int_equal(actionfields_ratio(with("{\"p\":1.5}"), "p", &p, &err), ERR_INVALID);
}

static void unknown_fields(void **state) {
  (void)state;
  static const char *const known[] = {"action", "replica", "down"};
  struct err err;
  check_ok(
      actionfields_known(with("{\"action\":\"restart\",\"down\":1}"), "restart", known, 3, &err),
      &err);
  assert_int_equal(actionfields_known(with("{\"dow\":1}"), "restart", known, 3, &err), ERR_INVALID);
  assert_string_equal(err.text, "restart has no field dow (did you mean down?)");
  assert_int_equal(actionfields_known(with("{\"colour\":1}"), "restart", known, 3, &err),
                   ERR_INVALID);
  assert_string_equal(err.text, "restart has no field colour; it takes replica down");
  value_free(&body);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(times),
      cmocka_unit_test(amounts),
      cmocka_unit_test(words_and_flags),
      cmocka_unit_test(unknown_fields),
  };
  return cmocka_run_group_tests_name("actionfields", tests, NULL, NULL);
}
