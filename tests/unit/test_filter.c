/* test_filter.c: conditions on facts and on script tags. */
#include "check.h"

#include "out/filter.h"
#include "out_rows.h"

static int set_up(void **state) {
  struct table *t = table_new(0);
  for (uint32_t i = 0; i < 10; i++) {
    struct sample *s =
        i == 9 ? row_failed(i, 10, 0, SAMPLE_TIMEOUT_IDLE) : row_ok(i, i + 1, 0, 1, 1);
    s->arm = i < 5 ? "left" : "right";
    s->step = i % 2 + 1;
    s->branch = i % 3;
    s->trial_block = i / 2;
    s->status = i == 8 ? 503 : 200;
    s->served = mem_strdup(i % 2 ? "r1" : "r0");
    char tags[80];
    snprintf(tags, sizeof tags, "{\"tier\":\"%s\",\"size\":%u,\"hot\":%s,\"text\":\"%u\"}",
             i < 3 ? "gold" : "plain", i * 10, i % 4 ? "false" : "true", i);
    row_add(t, row_tags(s, tags));
  }
  row_add(t, row_ok(99, 0, 0, 1, 1)); /* no turn, no tags, no arm */
  table_finish(t);
  *state = t;
  return 0;
}

static int tear_down(void **state) {
  table_free(*state);
  return 0;
}

/* Number of rows that match tag=text and perhaps tag2=text2. */
static size_t matches(struct table *t, const char *tag, const char *text, const char *tag2,
                      const char *text2) {
  struct filter f = {0};
  struct err err;
  check_ok(filter_add(&f, tag, text, &err), &err);
  if (tag2)
    check_ok(filter_add(&f, tag2, text2, &err), &err);
  struct filter_use use;
  filter_use_init(&use, &f, t);
  size_t n = 0;
  for (size_t i = 0; i < t->n_rows; i++)
    n += filter_match_row(&use, &t->rows[i]);
  filter_use_free(&use);
  filter_free(&f);
  return n;
}

static void facts_of_a_request(void **state) {
  struct table *t = *state;
  assert_int_equal(matches(t, "turn", "3", NULL, NULL), 1);
  assert_int_equal(matches(t, "turn", "2..8", NULL, NULL), 7);
  assert_int_equal(matches(t, "turn", "8..", NULL, NULL), 3);
  assert_int_equal(matches(t, "turn", "..2", NULL, NULL), 2); /* a null turn is no turn 0 */
  assert_int_equal(matches(t, "step", "2", NULL, NULL), 5);
  assert_int_equal(matches(t, "branch", "0", NULL, NULL), 5); /* the bare row is on the trunk */
  assert_int_equal(matches(t, "trial_block", "1", NULL, NULL), 2);
  assert_int_equal(matches(t, "status", "500..599", NULL, NULL), 1);
  assert_int_equal(matches(t, "error", "timeout_idle", NULL, NULL), 1);
  assert_int_equal(matches(t, "error", "ok", NULL, NULL), 10);
  assert_int_equal(matches(t, "replica", "r1", NULL, NULL), 5);
  assert_int_equal(matches(t, "replica", "r7", NULL, NULL), 0);
  assert_int_equal(matches(t, "arm", "left", NULL, NULL), 5);
  assert_int_equal(matches(t, "arm", "nowhere", NULL, NULL), 0);
  assert_int_equal(matches(t, "arm", "right", "turn", "7..9"), 3);
}

static void tags_of_the_script(void **state) {
  struct table *t = *state;
  assert_int_equal(matches(t, "tier", "gold", NULL, NULL), 3);
  assert_int_equal(matches(t, "size", "40", NULL, NULL), 1);
  assert_int_equal(matches(t, "size", "40.0", NULL, NULL), 1);
  assert_int_equal(matches(t, "size", "20..50", NULL, NULL), 4);
  assert_int_equal(matches(t, "hot", "true", NULL, NULL), 3);
  assert_int_equal(matches(t, "text", "4", NULL, NULL), 1);
  assert_int_equal(matches(t, "text", "4..6", NULL, NULL), 3); /* numbers written as text */
  assert_int_equal(matches(t, "tier", "gold", "size", "10..90"), 2);
  assert_int_equal(matches(t, "nothing", "1", NULL, NULL), 0);
}

static void check_error(const char *tag, const char *text, const char *want) {
  struct filter f = {0};
  struct err err;
  assert_int_equal(filter_add(&f, tag, text, &err), ERR_INVALID);
  assert_string_equal(err.text, want);
  assert_int_equal(f.n, 0);
  filter_free(&f);
}

static void bad_conditions(void **state) {
  (void)state;
  check_error("turn", "two", "turn is a number: \"two\" is not");
  check_error("turn", "a..b", "\"a..b\" is not a range: write a..b with two numbers");
  check_error("turn", "..", "\"..\" is not a range: write a..b with two numbers");
  check_error("turn", "8..2", "the range \"8..2\" is empty: write the smaller number first");
  check_error("error", "timout_idle",
              "\"timout_idle\" is not an error class (did you mean \"timeout_idle\"?)");
  check_error("status", "5xx", "status is a number: \"5xx\" is not");
}

static void unknown_tags_are_named(void **state) {
  struct table *t = *state;
  struct filter f = {0};
  struct filter_use use;
  const char *near;
  assert_int_equal(filter_add(&f, "turn", "1", NULL), 0);
  assert_int_equal(filter_add(&f, "trun", "2", NULL), 0);
  filter_use_init(&use, &f, t);
  assert_string_equal(filter_unknown_tag(&use, &near), "trun");
  assert_string_equal(near, "turn");
  filter_use_free(&use);
  filter_free(&f);
  assert_int_equal(filter_add(&f, "teir", "2", NULL), 0);
  filter_use_init(&use, &f, t);
  assert_string_equal(filter_unknown_tag(&use, &near), "teir");
  assert_string_equal(near, "tier");
  filter_use_free(&use);
  filter_free(&f);
  assert_int_equal(filter_add(&f, "tier", "2", NULL), 0);
  filter_use_init(&use, &f, t);
  assert_null(filter_unknown_tag(&use, &near));
  filter_use_free(&use);
  filter_free(&f);
}

static void sessions_and_values(void **state) {
  struct table *t = *state;
  struct filter f = {0};
  struct filter_use use;
  struct session_record r = row_session(1, 0, 5, SAMPLE_SCRIPT);
  r.arm = "left";
  table_add_session(t, &r);
  row_value(t, 1, "x", 2, "{\"turn\":3,\"tier\":\"gold\"}", false);
  const struct table_session *s = &t->sessions[t->n_sessions - 1];
  const struct table_value *v = &t->values[t->n_values - 1];

  assert_int_equal(filter_add(&f, "error", "script", NULL), 0);
  filter_use_init(&use, &f, t);
  assert_true(filter_match_session(&use, s));
  filter_use_free(&use);
  filter_free(&f);

  assert_int_equal(filter_add(&f, "turn", "2..4", NULL), 0);
  assert_int_equal(filter_add(&f, "tier", "gold", NULL), 0);
  filter_use_init(&use, &f, t);
  assert_false(filter_match_session(&use, s));
  assert_true(filter_match_value(&use, v));
  filter_use_free(&use);
  filter_free(&f);

  assert_int_equal(filter_add(&f, "arm", "right", NULL), 0);
  filter_use_init(&use, &f, t);
  assert_false(filter_match_session(&use, s));
  assert_false(filter_match_value(&use, v));
  filter_use_free(&use);
  filter_free(&f);

  filter_use_init(&use, NULL, t);
  assert_true(filter_match_session(&use, s) && filter_match_value(&use, v));
  filter_use_free(&use);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(facts_of_a_request),  cmocka_unit_test(tags_of_the_script),
      cmocka_unit_test(bad_conditions),      cmocka_unit_test(unknown_tags_are_named),
      cmocka_unit_test(sessions_and_values),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
