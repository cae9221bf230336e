/* test_adminask.c: replicas of a fleet file, found by URL in what an admin port says. */
#include "check.h"

#include "cmd/adminask.h"
#include "text/json.h"

static const char state_json[] = "{\"replicas\":[{\"id\":\"r0\",\"url\":\"http://127.0.0.1:8000\"},"
                                 "{\"id\":\"r1\",\"url\":\"http://0.0.0.0:8001\"}],"
                                 "\"spares\":[{\"id\":\"r2\",\"url\":\"http://127.0.0.1:8002\"}]}";

static struct fleet fleet;

static int take(const char *const *replicas, const char *json, struct err *err) {
  struct value state;
  check_ok(json_parse(json, strlen(json), &state, err), err);
  fleet = (struct fleet){.admin = strdup("http://127.0.0.1:9")};
  for (size_t i = 0; replicas[i]; i++)
    check_ok(fleet_add_replica(&fleet, replicas[i], err), err);
  int rc = adminask_take(&fleet, &state, err);
  value_free(&state);
  return rc;
}

static void each_is_found_by_its_url(void **state) {
  (void)state;
  struct err err;
  const char *const replicas[] = {"r1=http://localhost:8000/", "a=http://10.0.0.7:8001",
                                  "s=http://127.0.0.1:8002", NULL};
  check_ok(take(replicas, state_json, &err), &err);
  assert_string_equal(fleet.replicas[0].admin_id, "r0");
  assert_string_equal(fleet.replicas[1].admin_id, "r1");
  assert_string_equal(fleet.replicas[2].admin_id, "r2");
  fleet_free(&fleet);
}

static void others_are_refused(void **state) {
  (void)state;
  struct err err;
  const char *const stranger[] = {"r0=http://127.0.0.1:8000", "b=http://127.0.0.1:7777", NULL};
  assert_int_equal(take(stranger, state_json, &err), ERR_INVALID);
  assert_string_equal(
      err.text,
      "replica b: http://127.0.0.1:7777 is none of the fleet whose admin port is "
      "http://127.0.0.1:9 (r0 = http://127.0.0.1:8000, r1 = http://0.0.0.0:8001): which one is "
      "meant by an action would not be known; write its URL as there, or leave admin out");
  fleet_free(&fleet);
  const char *const twice[] = {"a=http://127.0.0.1:8000", "b=http://localhost:8000", NULL};
  assert_int_equal(take(twice, state_json, &err), ERR_INVALID);
  check_has(err.text, "replicas a and b are the same one, http://localhost:8000 (r0)");
  fleet_free(&fleet);
  assert_int_equal(take(twice, "{\"x\":1}", &err), ERR_IO);
  check_has(err.text, "http://127.0.0.1:9/admin/state is not the answer of a `perigee sim`");
  fleet_free(&fleet);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_is_found_by_its_url),
      cmocka_unit_test(others_are_refused),
  };
  return cmocka_run_group_tests_name("adminask", tests, NULL, NULL);
}
