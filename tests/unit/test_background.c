/* test_background.c: responses made in the background, seen by a raw client. With an official
 * client: tests/e2e/test_openai_client.py; readers that come and go: tests/e2e/test_responses.py.
 */
#include "check.h"

#include "simtest.h"

static struct simtest sim;

#define PATH "/v1/responses"
#define BODY(n, more)                                                                              \
  "{\"input\":\"x\",\"ignore_eos\":true,\"max_output_tokens\":" n ",\"background\":true" more "}"

static struct value ask(const char *method, const char *path, const char *body, int status) {
  struct simtest_answer a = simtest_ask(sim.ports[0], method, path, NULL, body);
  assert_int_equal(a.status, status);
  struct value v = simtest_json(&a);
  simtest_free(&a);
  return v;
}

static void check_status(const char *id, const char *want) {
  char path[128];
  snprintf(path, sizeof path, PATH "/%s", id);
  struct value v = ask("GET", path, "", 200);
  assert_string_equal(value_to_string(value_get(&v, "status")), want);
  value_free(&v);
}

/* Until it has another status than "queued". */
static void wait_through(const char *id) {
  char path[128];
  snprintf(path, sizeof path, PATH "/%s", id);
  for (bool queued = true; queued;) {
    struct value v = ask("GET", path, "", 200);
    queued = strcmp(value_to_string(value_get(&v, "status")), "queued") == 0;
    value_free(&v);
  }
}

static void test_whole(void **state) {
  (void)state;
  struct value v = ask("POST", PATH, BODY("4", ",\"request_id\":\"resp_a\""), 200);
  assert_string_equal(value_to_string(value_get(&v, "status")), "queued");
  assert_string_equal(value_to_string(value_get(&v, "id")), "resp_a");
  assert_int_equal(value_count(value_get(&v, "output")), 0);
  value_free(&v);
  wait_through("resp_a");
  check_status("resp_a", "incomplete");
}

static void test_cancelled(void **state) {
  (void)state;
  struct value v = ask("POST", PATH, BODY("5000", ",\"request_id\":\"resp_b\""), 200);
  value_free(&v);
  v = ask("POST", PATH "/resp_b/cancel", "", 200);
  assert_string_equal(value_to_string(value_get(&v, "status")), "cancelled");
  value_free(&v);
  check_status("resp_b", "cancelled");
  v = ask("POST", PATH "/resp_b/cancel", "", 400);
  value_free(&v);
  simtest_wait_state(&sim, 0, "running", 0);
}

static void test_a_stream_is_read_again(void **state) {
  (void)state;
  struct simtest_answer a =
      simtest_post(sim.ports[0], PATH, BODY("3", ",\"stream\":true,\"request_id\":\"resp_c\""));
  struct simtest_answer b = simtest_ask(sim.ports[0], "GET", PATH "/resp_c?stream=true", NULL, "");
  assert_string_equal(a.body, b.body);
  simtest_free(&b);
  b = simtest_ask(sim.ports[0], "GET", PATH "/resp_c?stream=true&starting_after=2", NULL, "");
  const char *third = strstr(a.body, "\"sequence_number\":3,");
  assert_non_null(third);
  while (memcmp(third, "event: ", 7) != 0)
    third--;
  assert_string_equal(b.body, third);
  simtest_free(&b);
  b = simtest_ask(sim.ports[0], "GET",
                  PATH "/resp_c?stream=true&starting_after=18446744073709551615", NULL, "");
  assert_string_equal(b.body, "");
  simtest_free(&a);
  simtest_free(&b);
  static const char *const wrong[] = {"", "two", "-1", "2x"};
  for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
    char path[80];
    snprintf(path, sizeof path, PATH "/resp_c?stream=true&starting_after=%s", wrong[i]);
    struct value v = ask("GET", path, "", 400);
    assert_string_equal(value_to_string(value_get(value_get(&v, "error"), "param")),
                        "starting_after");
    value_free(&v);
  }
}

/* An id that comes again is the newer response's, with none of the older one's events. */
static void test_an_id_that_comes_again(void **state) {
  (void)state;
  struct simtest_answer a =
      simtest_post(sim.ports[0], PATH, BODY("3", ",\"stream\":true,\"request_id\":\"resp_d\""));
  simtest_free(&a);
  a = simtest_post(sim.ports[0], PATH, BODY("5", ",\"stream\":true,\"request_id\":\"resp_d\""));
  struct simtest_answer b = simtest_ask(sim.ports[0], "GET", PATH "/resp_d?stream=true", NULL, "");
  assert_string_equal(a.body, b.body);
  simtest_free(&a);
  simtest_free(&b);
}

/* The same while the older one is still being made: what comes of it later is not kept. */
static void test_an_id_that_comes_again_too_soon(void **state) {
  (void)state;
  struct value v = ask("POST", PATH, BODY("100", ",\"request_id\":\"resp_e\""), 200);
  value_free(&v);
  v = ask("POST", PATH,
          "{\"input\":\"x\",\"ignore_eos\":true,\"max_output_tokens\":2,"
          "\"request_id\":\"resp_e\"}",
          200);
  assert_string_equal(value_to_string(value_get(&v, "status")), "incomplete");
  value_free(&v);
  for (int i = 0; i < 2; i++) { /* with the older one under way, and behind it */
    v = ask("POST", PATH "/resp_e/cancel", "", 400);
    value_free(&v);
    v = ask("GET", PATH "/resp_e", "", 200);
    int64_t n = 0;
    assert_true(value_to_int(value_get(value_get(&v, "usage"), "output_tokens"), &n));
    assert_int_equal(n, 2);
    value_free(&v);
    v = ask("GET", PATH "/resp_e?stream=true", "", 400);
    value_free(&v);
    simtest_wait_state(&sim, 0, "running", 0);
  }
}

/* The fleet ends with one under way, and one that nobody asks for any more. */
static void test_the_end_of_the_fleet(void **state) {
  (void)state;
  struct value v = ask("POST", PATH, BODY("5000", ""), 200);
  value_free(&v);
}

static int start(void **state) {
  (void)state;
  simtest_start(&sim, 1, "fixed", NULL, NULL, NULL);
  return 0;
}

static int stop(void **state) {
  (void)state;
  simtest_stop(&sim);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole),
      cmocka_unit_test(test_cancelled),
      cmocka_unit_test(test_a_stream_is_read_again),
      cmocka_unit_test(test_an_id_that_comes_again),
      cmocka_unit_test(test_an_id_that_comes_again_too_soon),
      cmocka_unit_test(test_the_end_of_the_fleet),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
