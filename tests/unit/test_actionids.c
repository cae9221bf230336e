/* test_actionids.c: names of replicas, there and back. */
#include "check.h"

#include "base/mem.h"
#include "run/actionids.h"
#include "text/json.h"

static struct fleet fleet;

static void add(const char *text, const char *admin_id) {
  struct err err;
  check_ok(fleet_add_replica(&fleet, text, &err), &err);
  if (admin_id)
    fleet.replicas[fleet.n_replicas - 1].admin_id = mem_strdup(admin_id);
}

static struct value parse(const char *json) {
  struct value v;
  struct err err;
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  return v;
}

/* Frees it. */
static void check_json(struct value *v, const char *want) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, v);
  assert_string_equal(b.data, want);
  buf_free(&b);
  value_free(v);
}

static void check_asked(const struct actionids *ids, const char *action, const char *want) {
  struct value v = parse(action);
  struct err err;
  check_ok(actionids_ask(ids, &v, &err), &err);
  check_json(&v, want);
}

static struct actionids *swapped(void) {
  add("r1=http://127.0.0.1:1", "r0");
  add("r0=http://127.0.0.1:2", "r1");
  struct actionids *ids = actionids_new(&fleet);
  fleet_free(&fleet);
  return ids;
}

static void what_is_asked_has_their_name(void **state) {
  (void)state;
  struct actionids *ids = swapped();
  check_asked(ids, "{\"action\":\"kill\",\"replica\":\"r1\"}",
              "{\"action\":\"kill\",\"replica\":\"r0\"}");
  check_asked(ids, "{\"replica\":\"*\"}", "{\"replica\":\"*\"}");
  check_asked(ids, "{\"start\":1}", "{\"start\":1}");
  struct value v = parse("{\"replica\":\"r2\"}");
  struct err err;
  assert_int_equal(actionids_ask(ids, &v, &err), ERR_NOT_FOUND);
  assert_string_equal(err.text, "no replica \"r2\"; there are r1, r0");
  value_free(&v);
  actionids_free(ids);
}

static void what_is_answered_has_ours(void **state) {
  (void)state;
  struct actionids *ids = swapped();
  struct value v = parse("{\"action\":\"pressure\",\"id\":3,\"replicas\":[\"r0\",\"r1\"],"
                         "\"blocks\":{\"r0\":5,\"r1\":6}}");
  actionids_answer(ids, &v);
  check_json(&v, "{\"action\":\"pressure\",\"id\":3,\"replicas\":[\"r1\",\"r0\"],"
                 "\"blocks\":{\"r1\":5,\"r0\":6}}");
  struct err err;
  err_set(&err, ERR_LIMIT, "replica r0 is down already, as replica r7 is");
  actionids_error(ids, &err);
  assert_string_equal(err.text, "replica r1 is down already, as replica r7 is");
  assert_int_equal(err.code, ERR_LIMIT);
  actionids_free(ids);
}

/* The port's new r2 has a name that the file gives to another. */
static void one_that_was_added_can_be_named(void **state) {
  (void)state;
  add("r2=http://127.0.0.1:1", "r0");
  struct actionids *ids = actionids_new(&fleet);
  fleet_free(&fleet);
  struct value v = parse("{\"replicas\":[\"r2\"],\"url\":\"http://127.0.0.1:9\"}");
  actionids_answer(ids, &v);
  check_json(&v, "{\"replicas\":[\"http://127.0.0.1:9\"],\"url\":\"http://127.0.0.1:9\"}");
  check_asked(ids, "{\"replica\":\"http://127.0.0.1:9\"}", "{\"replica\":\"r2\"}");
  check_asked(ids, "{\"replica\":\"r2\"}", "{\"replica\":\"r0\"}");
  v = parse("{\"replicas\":[\"r3\"],\"url\":\"http://127.0.0.1:10\"}");
  actionids_answer(ids, &v);
  check_json(&v, "{\"replicas\":[\"r3\"],\"url\":\"http://127.0.0.1:10\"}");
  check_asked(ids, "{\"replica\":\"r3\"}", "{\"replica\":\"r3\"}");
  actionids_free(ids);
}

static void without_a_file_names_pass(void **state) {
  (void)state;
  add("r0=http://127.0.0.1:1", NULL);
  struct actionids *ids = actionids_new(&fleet);
  fleet_free(&fleet);
  check_asked(ids, "{\"replica\":\"r7\"}", "{\"replica\":\"r7\"}");
  struct value v = parse("{\"replicas\":[\"r7\"]}");
  actionids_answer(ids, &v);
  check_json(&v, "{\"replicas\":[\"r7\"]}");
  actionids_free(ids);
  actionids_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_asked_has_their_name),
      cmocka_unit_test(what_is_answered_has_ours),
      cmocka_unit_test(one_that_was_added_can_be_named),
      cmocka_unit_test(without_a_file_names_pass),
  };
  return cmocka_run_group_tests_name("actionids", tests, NULL, NULL);
}
