/* The grammar of actions. */
#include "check.h"

#include "sim/actionrules.h"
#include "text/json.h"

/* NULL: it is one. */
static void check_one(const char *json, const char *want) {
  struct value v;
  struct err err = {0};
  assert_int_equal(json_parse(json, strlen(json), &v, &err), 0);
  int rc = actionrules_check(&v, &err);
  value_free(&v);
  if (!want) {
    if (rc)
      fail_msg("%s: %s", json, err.text);
    return;
  }
  assert_int_equal(rc, ERR_INVALID);
  assert_string_equal(err.text, want);
}

static void good_ones(void **state) {
  (void)state;
  check_one("{\"action\":\"restart\",\"replica\":\"r1\",\"down\":\"2s\"}", NULL);
  check_one("{\"action\":\"kill\",\"replica\":\"*\"}", NULL);
  check_one("{\"action\":\"add\",\"start\":1.5}", NULL);
  check_one("{\"action\":\"add\"}", NULL);
  check_one("{\"action\":\"drain\",\"replica\":\"r0\",\"after\":\"keep\",\"timeout\":\"1m\"}",
            NULL);
  check_one("{\"action\":\"pressure\",\"share\":\"50%\",\"lasts\":\"3s\"}", NULL);
  check_one("{\"action\":\"pressure\",\"tokens\":4096}", NULL);
  check_one("{\"action\":\"reset_cache\",\"reset_running\":true}", NULL);
  check_one("{\"action\":\"fault\",\"fault\":\"empty p=0.3\",\"replica\":\"r1\"}", NULL);
  check_one("{\"action\":\"clear_faults\"}", NULL);
  check_one("{\"action\":\"delay_events\",\"delay\":0}", NULL);
  check_one("{\"action\":\"drop_events\",\"count\":3}", NULL);
}

static void mistakes(void **state) {
  (void)state;
  check_one("{}", "action: a name such as \"restart\" is required");
  check_one("{\"action\":3}", "action: a name such as \"restart\" is required");
  check_one("{\"action\":\"restrat\"}", "no action \"restrat\" (did you mean restart?)");
  check_one("{\"action\":\"restart\"}", "replica: say which, as in \"r0\", or \"*\" for all");
  check_one("{\"action\":\"kill\",\"replica\":1}",
            "replica should be a string such as \"r0\", or \"*\"");
  check_one("{\"action\":\"fault\",\"replica\":1,\"fault\":\"empty\"}",
            "replica should be a string such as \"r0\", or \"*\"");
  check_one("{\"action\":\"restart\",\"replica\":\"r0\",\"dwon\":1}",
            "restart has no field dwon (did you mean down?)");
  check_one("{\"action\":\"add\",\"replica\":\"r0\"}", "add has no field replica; it takes start");
  check_one("{\"action\":\"restart\",\"replica\":\"r0\",\"down\":\"soon\"}",
            "down should be a time from 0 to 24h, as in \"500ms\" or 2");
  check_one("{\"action\":\"fault\"}", "fault: a string such as \"empty p=0.3\" is required");
  check_one("{\"action\":\"drain\",\"replica\":\"r0\",\"after\":\"up\"}",
            "after should be \"down\" or \"keep\"");
  check_one("{\"action\":\"fault\",\"fault\":\"r1:429 p=0.5\"}",
            "fault: the replica is a field of its own: fault = \"429 p=0.5\", replica = \"r1\"");
  check_one("{\"action\":\"delay_events\"}", "delay: a time such as \"500ms\" is required");
  check_one("{\"action\":\"drop_events\",\"count\":3,\"p\":1}", "p and count: give one of them");
  check_one("{\"action\":\"drop_events\",\"p\":2}",
            "p should be a share from 0 to 1, as in \"30%\" or 0.3");
  check_one("{\"action\":\"drop_events\",\"count\":0}", "count should be a whole number from 1 on");
  check_one("{\"action\":\"pressure\"}",
            "say how much in one way: share = \"50%\" of the blocks, or blocks, or tokens");
  check_one("{\"action\":\"reset_cache\",\"reset_running\":1}",
            "reset_running should be true or false");
}

/* Each name of the list has rules of that name, at the number that it has. */
static void names_are_rules(void **state) {
  (void)state;
  const char *const *names = actionrules_names();
  for (int i = 0; i < ACTION_COUNT; i++) {
    struct value v = value_object();
    struct err err = {0};
    value_set(&v, "action", value_cstring(names[i]));
    const struct actionrules *r = actionrules_find(&v, &err);
    assert_non_null(r);
    assert_string_equal(r->name, names[i]);
    assert_int_equal(r->id, i);
    value_free(&v);
  }
  assert_null(names[ACTION_COUNT]);
}

static void check_takes(const char *json, double seconds) {
  struct value v;
  struct err err;
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  check_near(actionrules_takes(&v), seconds, 1e-9);
  value_free(&v);
}

static void what_they_take(void **state) {
  (void)state;
  check_takes("{\"action\":\"restart\",\"replica\":\"r1\"}", 2);
  check_takes("{\"action\":\"restart\",\"replica\":\"r1\",\"down\":\"500ms\"}", 0.5);
  check_takes("{\"action\":\"add\",\"start\":3}", 3);
  check_takes("{\"action\":\"fault\",\"fault\":\"empty\",\"lasts\":\"1m\"}", 60);
  check_takes("{\"action\":\"drain\",\"replica\":\"r1\",\"timeout\":9}", 0);
  check_takes("{\"action\":\"kill\",\"replica\":\"r1\"}", 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_ones),
      cmocka_unit_test(mistakes),
      cmocka_unit_test(names_are_rules),
      cmocka_unit_test(what_they_take),
  };
  return cmocka_run_group_tests_name("actionrules", tests, NULL, NULL);
}
