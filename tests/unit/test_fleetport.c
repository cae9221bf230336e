/* test_fleetport.c: actions by HTTP, against the simulated fleet's own admin port. */
#include "simtest.h"

#include "base/mem.h"
#include "net/http.h"
#include "run/fleetport.h"

static struct simtest sim;
static struct loop *loop;
static struct fleetport_http *http;
static const struct fleetport *port;
static char url[64];

static int set_up(void **state) {
  (void)state;
  struct err err;
  check_ok(http_global_init(&err), &err);
  simtest_start(&sim, 2, "tiny", NULL, NULL, NULL);
  snprintf(url, sizeof url, "http://127.0.0.1:%d", sim.admin_port);
  loop = loop_new(&err);
  check_ok(fleetport_http_new(loop, url, sim.token, NULL, &http, &err), &err);
  port = fleetport_http_port(http);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  fleetport_http_delete(http);
  loop_delete(loop);
  simtest_stop(&sim);
  return 0;
}

static void on_done(struct fleetport_call *call) {
  *(int *)call->user += 1;
  loop_stop(loop);
}

/* Does it and waits for its end; the caller frees the answer. */
static struct fleetport_call act(const char *json) {
  struct value action;
  struct err err;
  int done = 0;
  check_ok(json_parse(json, strlen(json), &action, &err), &err);
  struct fleetport_call call = {.action = &action, .done = on_done, .user = &done};
  port->begin(port->self, &call);
  assert_int_equal(done, 0);
  loop_run(loop);
  assert_int_equal(done, 1);
  value_free(&action);
  call.user = NULL;
  return call;
}

static void check_refused(const char *json, int rc, const char *text) {
  struct fleetport_call call = act(json);
  assert_int_equal(call.rc, rc);
  assert_string_equal(call.err.text, text);
  assert_int_equal(call.answer.kind, VALUE_NULL);
}

static void an_answer_comes_at_the_end(void **state) {
  (void)state;
  uint64_t began = loop_refresh(loop);
  struct fleetport_call call =
      act("{\"action\":\"restart\",\"replica\":\"r1\",\"down\":\"150ms\"}");
  check_ok(call.rc, &call.err);
  assert_true(loop_refresh(loop) - began >= 150 * NS_PER_MS);
  assert_string_equal(value_to_string(value_get(&call.answer, "action")), "restart");
  assert_string_equal(value_to_string(value_at(value_get(&call.answer, "replicas"), 0)), "r1");
  assert_true(value_get(&call.answer, "done")->u.boolean);
  value_free(&call.answer);
}

static void refusals_say_why(void **state) {
  (void)state;
  check_refused("{\"action\":\"kill\",\"replica\":\"r7\"}", ERR_NOT_FOUND,
                "no replica \"r7\"; there are r0 to r1");
  check_refused("{\"action\":\"kill\",\"replica\":\"r1\",\"down\":1}", ERR_INVALID,
                "kill has no field down; it takes replica");
  struct fleetport_call call = act("{\"action\":\"kill\",\"replica\":\"r1\"}");
  check_ok(call.rc, &call.err);
  value_free(&call.answer);
  check_refused("{\"action\":\"kill\",\"replica\":\"r1\"}", ERR_LIMIT,
                "replica r1 is down already");
  check_refused(
      "{\"action\":\"levitate\"}", ERR_NOT_FOUND,
      "no such path; there are GET /admin/state, POST /admin/peek, and with POST "
      "/admin/: add, clear_faults, delay_events, drain, drop_events, fault, kill, pressure, "
      "reset_cache, restart");
  check_refused("{\"action\":\"drop_events\"}", ERR_LIMIT,
                "the fleet publishes no KV events: start it with --sim-set kv_events=on (perigee "
                "sim: --set kv_events=on)");
}

static void a_wrong_secret_is_refused(void **state) {
  (void)state;
  struct err err;
  fleetport_http_delete(http);
  check_ok(fleetport_http_new(loop, url, "wrong", NULL, &http, &err), &err);
  port = fleetport_http_port(http);
  check_refused("{\"action\":\"kill\",\"replica\":\"r1\"}", ERR_INVALID,
                "Authorization: Bearer TOKEN is required; the fleet announces the token");
  fleetport_http_delete(http);
  check_ok(fleetport_http_new(loop, url, NULL, NULL, &http, &err), &err);
  port = fleetport_http_port(http);
  check_refused("{\"action\":\"kill\",\"replica\":\"r1\"}", ERR_INVALID,
                "Authorization: Bearer TOKEN is required; the fleet announces the token");
}

static void nobody_there(void **state) {
  (void)state;
  struct err err;
  fleetport_http_delete(http);
  check_ok(fleetport_http_new(loop, "http://127.0.0.1:1", NULL, NULL, &http, &err), &err);
  port = fleetport_http_port(http);
  struct fleetport_call call = act("{\"action\":\"kill\",\"replica\":\"r1\"}");
  assert_int_equal(call.rc, ERR_IO);
  check_has(call.err.text, "the fleet's admin port does not answer: ");
  check_has(call.err.text, "127.0.0.1:1");
}

/* A server that is no fleet: one of its replicas. */
static void not_an_admin_port(void **state) {
  (void)state;
  struct err err;
  char replica[64];
  fleetport_http_delete(http);
  snprintf(replica, sizeof replica, "http://127.0.0.1:%d", sim.ports[0]);
  check_ok(fleetport_http_new(loop, replica, NULL, NULL, &http, &err), &err);
  port = fleetport_http_port(http);
  struct fleetport_call call = act("{\"action\":\"kill\",\"replica\":\"r1\"}");
  assert_int_equal(call.rc, ERR_NOT_FOUND);
  check_has(call.err.text, "is that the admin port of a `perigee sim`?");
}

/* "a" is the port's r1 and "r1" its r0, as in a fleet file that lists them the other way round. */
static void names_of_a_fleet_file_are_its_own(void **state) {
  (void)state;
  struct err err;
  struct fleet fleet = {0};
  check_ok(fleet_add_replica(&fleet, "a=http://127.0.0.1:1", &err), &err);
  check_ok(fleet_add_replica(&fleet, "r1=http://127.0.0.1:2", &err), &err);
  fleet.replicas[0].admin_id = mem_strdup("r1");
  fleet.replicas[1].admin_id = mem_strdup("r0");
  fleetport_http_delete(http);
  check_ok(fleetport_http_new(loop, url, sim.token, &fleet, &http, &err), &err);
  fleet_free(&fleet);
  port = fleetport_http_port(http);
  struct fleetport_call call = act("{\"action\":\"kill\",\"replica\":\"r1\"}");
  check_ok(call.rc, &call.err);
  assert_string_equal(value_to_string(value_at(value_get(&call.answer, "replicas"), 0)), "r1");
  value_free(&call.answer);
  check_refused("{\"action\":\"kill\",\"replica\":\"r1\"}", ERR_LIMIT,
                "replica r1 is down already");
  check_refused("{\"action\":\"kill\",\"replica\":\"r0\"}", ERR_NOT_FOUND,
                "no replica \"r0\"; there are a, r1");
  call = act("{\"action\":\"kill\",\"replica\":\"a\"}");
  check_ok(call.rc, &call.err);
  value_free(&call.answer);
  check_refused("{\"action\":\"kill\",\"replica\":\"a\"}", ERR_LIMIT, "replica a is down already");
}

static void one_that_is_cancelled_says_nothing(void **state) {
  (void)state;
  struct value action = value_object();
  int done = 0;
  value_set(&action, "action", value_cstring("restart"));
  value_set(&action, "replica", value_cstring("r0"));
  struct fleetport_call call = {.action = &action, .done = on_done, .user = &done};
  port->begin(port->self, &call);
  port->cancel(port->self, &call);
  assert_null(call.carrier);
  struct fleetport_call other = act("{\"action\":\"clear_faults\"}");
  check_ok(other.rc, &other.err);
  value_free(&other.answer);
  assert_int_equal(done, 0);
  value_free(&action);
}

static void a_bad_url_is_named(void **state) {
  (void)state;
  struct err err;
  struct fleetport_http *p;
  assert_int_equal(fleetport_http_new(loop, "ftp://x", NULL, NULL, &p, &err), ERR_INVALID);
  check_has(err.text, "ftp://x");
  assert_null(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(an_answer_comes_at_the_end, set_up, tear_down),
      cmocka_unit_test_setup_teardown(refusals_say_why, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_wrong_secret_is_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(nobody_there, set_up, tear_down),
      cmocka_unit_test_setup_teardown(not_an_admin_port, set_up, tear_down),
      cmocka_unit_test_setup_teardown(names_of_a_fleet_file_are_its_own, set_up, tear_down),
      cmocka_unit_test_setup_teardown(one_that_is_cancelled_says_nothing, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_bad_url_is_named, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("fleetport", tests, NULL, NULL);
}
