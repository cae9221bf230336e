/* test_simhost.c: a replica's port and step loop: refusing, ending in mid-step. */
#include "simtest.h"

static void admin(struct simtest *t, const char *path, const char *body) {
  struct value v = simtest_admin(t, "POST", path, body, 200);
  value_free(&v);
}

static bool refuses(int port) {
  int fd = simtest_connect(port);
  if (fd < 0)
    return errno == ECONNREFUSED;
  close(fd);
  return false;
}

static void test_refuse_and_reopen(void **state) {
  (void)state;
  struct simtest t;
  static const char *const faults[] = {"r0:refuse", NULL};
  simtest_start(&t, 2, "instant", NULL, faults, NULL);
  assert_true(refuses(t.ports[0]));
  assert_false(refuses(t.ports[1]));
  admin(&t, "/admin/clear_faults", "{}");
  assert_false(refuses(t.ports[0]));
  admin(&t, "/admin/fault", "{\"replica\":\"r1\",\"fault\":\"refuse for=200ms\"}");
  assert_true(refuses(t.ports[1]));
  for (int i = 0; i < 200 && refuses(t.ports[1]); i++)
    clock_sleep_ns(10 * NS_PER_MS);
  assert_false(refuses(t.ports[1]));
  simtest_stop(&t);
}

/* Requests under way when the fleet ends: their connections close, nothing is left. */
static void test_stop_in_the_middle(void **state) {
  (void)state;
  struct simtest t;
  static const char *const sets[] = {"ttft=500ms", "itl=500ms", NULL};
  static const char *const faults[] = {"r1:stall", NULL};
  simtest_start(&t, 2, "fixed", sets, faults, NULL);
  int fds[3];
  for (int i = 0; i < 3; i++) {
    fds[i] = simtest_connect(t.ports[i ? 1 : 0]);
    simtest_send(fds[i], "POST", "/v1/completions", NULL,
                 i < 2 ? "{\"prompt\":\"x\",\"max_tokens\":1,\"stream\":true}"
                       : "{\"prompt\":\"x\",\"max_tokens\":1}");
  }
  simtest_wait_state(&t, 0, "finished", 1); /* out of the engine, its step still under way */
  simtest_wait_state(&t, 1, "requests", 2);
  simtest_stop(&t);
  for (int i = 0; i < 3; i++) {
    struct simtest_answer a = simtest_read(fds[i]);
    assert_false(a.complete);
    simtest_free(&a);
  }
}

/* Keep-alive, and two requests sent at once on one connection. */
static void test_pipelined_requests(void **state) {
  (void)state;
  struct simtest t;
  simtest_start(&t, 1, "instant", NULL, NULL, NULL);
  int fd = simtest_connect(t.ports[0]);
  static const char first[] =
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 31\r\n\r\n"
      "{\"prompt\":\"one\",\"max_tokens\":2} ";
  assert_int_equal(send(fd, first, sizeof first - 2, MSG_NOSIGNAL), sizeof first - 2);
  simtest_send(fd, "GET", "/health", NULL, NULL);
  struct simtest_answer a = simtest_read(fd);
  assert_int_equal(a.status, 200);
  const char *second = strstr(a.data + 8, "HTTP/1.1 200");
  assert_non_null(second);
  check_has(second, "Content-Length: 0\r\n");
  simtest_free(&a);
  simtest_stop(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refuse_and_reopen),
      cmocka_unit_test(test_stop_in_the_middle),
      cmocka_unit_test(test_pipelined_requests),
  };
  return cmocka_run_group_tests_name("simhost", tests, NULL, NULL);
}
