/* test_admin.c: the fleet's admin port. */
#include "simtest.h"

static struct simtest sim;

static int start(void **state) {
  (void)state;
  static const char *const sets[] = {"kv_blocks=500", NULL};
  static const char *const faults[] = {"r1:empty p=0.5", NULL};
  simtest_start(&sim, 2, "instant", sets, faults, NULL);
  return 0;
}

static int stop(void **state) {
  (void)state;
  simtest_stop(&sim);
  return 0;
}

static void check_headers(const char *host, const char *auth, int status, const char *needle) {
  char headers[200];
  snprintf(headers, sizeof headers, "%s%s", host, auth);
  struct simtest_answer a = simtest_ask(sim.admin_port, "GET", "/admin/state", headers, NULL);
  assert_int_equal(a.status, status);
  check_has(a.body, needle);
  simtest_free(&a);
}

static void test_token_and_host_are_needed(void **state) {
  (void)state;
  char ours[64], local[64], good[64], bad[64];
  snprintf(ours, sizeof ours, "Host: 127.0.0.1:%d\r\n", sim.admin_port);
  snprintf(local, sizeof local, "Host: localhost:%d\r\n", sim.admin_port);
  snprintf(good, sizeof good, "Authorization: Bearer %s\r\n", sim.token);
  snprintf(bad, sizeof bad, "Authorization: Bearer %s\r\n", sim.token);
  bad[strlen(bad) - 3] ^= 1;
  assert_int_equal(strlen(sim.token), 32);
  check_headers(ours, good, 200, "\"simulated\":true");
  check_headers(local, good, 200, "\"simulated\":true");
  check_headers(ours, bad, 401, "Bearer TOKEN is required");
  check_headers(ours, "", 401, "Bearer TOKEN is required");
  check_headers("Host: evil.example\r\n", good, 403, "this Host header is not the admin port's");
  check_headers("Host: 127.0.0.1\r\n", good, 403, "Host header");
  /* A state never holds the token. */
  char headers[200];
  snprintf(headers, sizeof headers, "%s%s", ours, good);
  struct simtest_answer a = simtest_ask(sim.admin_port, "GET", "/admin/state", headers, NULL);
  assert_null(strstr(a.body, sim.token));
  simtest_free(&a);
}

static const struct value *replica(const struct value *v, size_t i) {
  return value_at(value_get(v, "replicas"), i);
}

static void test_state(void **state) {
  (void)state;
  struct simtest_answer a =
      simtest_post(sim.ports[0], "/v1/completions", "{\"prompt\":\"abc\",\"max_tokens\":1}");
  simtest_free(&a);
  struct value v = simtest_admin(&sim, "GET", "/admin/state", NULL, 200);
  assert_string_equal(value_to_string(value_get(&v, "profile")), "instant");
  assert_int_equal(simtest_int(&v, "kv_blocks"), 500);
  assert_int_equal(simtest_int(&v, "max_model_len"), 8000);
  const struct value *r = replica(&v, 0);
  assert_string_equal(value_to_string(value_get(r, "id")), "r0");
  assert_int_equal(simtest_int(r, "requests"), 1);
  assert_int_equal(simtest_int(r, "finished"), 1);
  assert_int_equal(simtest_int(r, "running"), 0);
  assert_int_equal(simtest_int(r, "free_blocks"), 500);
  assert_int_equal(value_count(value_get(r, "faults")), 0);
  r = replica(&v, 1);
  assert_int_equal(simtest_int(r, "requests"), 0);
  assert_string_equal(value_to_string(value_get(value_at(value_get(r, "faults"), 0), "fault")),
                      "empty p=0.5");
  value_free(&v);
}

static void check_error(const char *path, const char *body, int status, const char *text) {
  struct value v = simtest_admin(&sim, "POST", path, body, status);
  assert_string_equal(value_to_string(value_get(&v, "error")), text);
  value_free(&v);
}

static void test_bad_requests(void **state) {
  (void)state;
  check_error("/admin/fault", "{\"fault\":\"emty\"}", 400,
              "fault \"emty\" is unknown (did you mean empty?)");
  check_error("/admin/fault", "{}", 400, "fault: a string such as \"empty p=0.3\" is required");
  check_error("/admin/fault", "{\"fault\":\"empty\",\"replica\":\"r7\"}", 404,
              "no replica \"r7\"; there are r0 to r1");
  check_error("/admin/fault", "{\"fault\":\"empty\",\"replica\":7}", 400,
              "replica should be a string such as \"r0\", or \"*\"");
  check_error("/admin/fault", "[]", 400, "body should be a JSON object");
  check_error("/admin/peek", "{}", 400, "tokens (a list of ids) or prompt (a string) is required");
  check_error(
      "/admin/nothing", "{}", 404,
      "no such path; there are GET /admin/state, POST /admin/peek, and with POST /admin/: add, "
      "clear_faults, delay_events, drain, drop_events, fault, kill, pressure, reset_cache, "
      "restart");
  check_error("/admin/state", "{}", 405,
              "/admin/state takes GET, not POST, as in curl URL/admin/state");
  struct value v = simtest_admin(&sim, "GET", "/admin/add", NULL, 405);
  assert_string_equal(value_to_string(value_get(&v, "error")),
                      "/admin/add takes POST, not GET, as in curl -X POST URL/admin/add");
  value_free(&v);
}

static int status_of(size_t i) {
  struct simtest_answer a =
      simtest_post(sim.ports[i], "/v1/completions", "{\"prompt\":\"abc\",\"max_tokens\":1}");
  int status = a.status;
  simtest_free(&a);
  return status;
}

static void post(const char *path, const char *body) {
  struct value v = simtest_admin(&sim, "POST", path, body, 200);
  value_free(&v);
}

static void test_faults_by_replica(void **state) {
  (void)state;
  post("/admin/clear_faults", "{}");
  post("/admin/fault", "{\"replica\":\"r1\",\"fault\":\"503\"}");
  assert_int_equal(status_of(0), 200);
  assert_int_equal(status_of(1), 503);
  post("/admin/fault", "{\"fault\":\"502\"}");
  assert_int_equal(status_of(0), 502);
  assert_int_equal(status_of(1), 503); /* the first of its list holds */
  post("/admin/clear_faults", "{\"replica\":\"r1\"}");
  assert_int_equal(status_of(0), 502);
  assert_int_equal(status_of(1), 200);
  post("/admin/clear_faults", "{\"replica\":\"*\"}");
  assert_int_equal(status_of(0), 200);
}

static void test_peek_and_reset_cache(void **state) {
  (void)state;
  static const char prompt[] = "{\"prompt\":\"forty-eight bytes and then one more, in all 49 !!\","
                               "\"max_tokens\":1,\"cache_salt\":null}";
  struct simtest_answer a = simtest_post(sim.ports[1], "/v1/completions", prompt);
  assert_int_equal(a.status, 200);
  simtest_free(&a);
  struct value v = simtest_admin(&sim, "POST", "/admin/peek", prompt, 200);
  assert_int_equal(simtest_int(value_get(&v, "cached"), "r0"), 0);
  assert_int_equal(simtest_int(value_get(&v, "cached"), "r1"), 48);
  value_free(&v);
  v = simtest_admin(&sim, "POST", "/admin/peek",
                    "{\"prompt\":\"forty-eight bytes and then one more, in all 49 !!\","
                    "\"cache_salt\":\"s\"}",
                    200);
  assert_int_equal(simtest_int(value_get(&v, "cached"), "r1"), 0);
  value_free(&v);
  v = simtest_admin(&sim, "POST", "/admin/reset_cache", "{\"replica\":\"r1\"}", 200);
  assert_string_equal(value_to_string(value_at(value_get(&v, "reset"), 0)), "r1");
  assert_int_equal(value_count(value_get(&v, "reset")), 1);
  value_free(&v);
  v = simtest_admin(&sim, "POST", "/admin/peek", prompt, 200);
  assert_int_equal(simtest_int(value_get(&v, "cached"), "r1"), 0);
  value_free(&v);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_token_and_host_are_needed),
      cmocka_unit_test(test_state),
      cmocka_unit_test(test_bad_requests),
      cmocka_unit_test(test_faults_by_replica),
      cmocka_unit_test(test_peek_and_reset_cache),
  };
  return cmocka_run_group_tests_name("admin", tests, start, stop);
}
