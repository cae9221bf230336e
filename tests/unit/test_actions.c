/* What is done to a fleet while it runs, by the admin port. */
#include "simtest.h"

#include "sim/actions.h"

#define PROMPT "\"prompt\":\"forty-eight bytes and then one more, in all 49 !!\""
#define ONE "{" PROMPT ",\"max_tokens\":1}"
#define LONG "{" PROMPT ",\"max_tokens\":4000,\"ignore_eos\":true,\"stream\":true}"

static struct simtest sim;
static char truth[] = "/tmp/perigee-actions-XXXXXX";

/* Two replicas of 500 blocks of 16; a step takes a millisecond and more. */
static int start(void **state) {
  (void)state;
  static const char *const sets[] = {"kv_blocks=500", "max_model_len=8000", "kv_events=on", NULL};
  int fd = mkstemp(truth);
  assert_true(fd >= 0);
  close(fd);
  simtest_start(&sim, 2, "tiny", sets, NULL, truth);
  return 0;
}

static int stop(void **state) {
  (void)state;
  simtest_stop(&sim);
  unlink(truth);
  return 0;
}

static struct value act(const char *name, const char *body, int status) {
  char path[64];
  snprintf(path, sizeof path, "/admin/%s", name);
  return simtest_admin(&sim, "POST", path, body, status);
}

static void do_act(const char *name, const char *body) {
  struct value v = act(name, body, 200);
  value_free(&v);
}

static void check_error(const char *name, const char *body, int status, const char *text) {
  struct value v = act(name, body, status);
  assert_string_equal(value_to_string(value_get(&v, "error")), text);
  value_free(&v);
}

static char *state_of(size_t i) {
  struct value v = simtest_admin(&sim, "GET", "/admin/state", NULL, 200);
  char *copy = strdup(value_to_string(value_get(value_at(value_get(&v, "replicas"), i), "state")));
  value_free(&v);
  return copy;
}

static void check_state(size_t i, const char *want) {
  char *got = state_of(i);
  assert_string_equal(got, want);
  free(got);
}

static int ask(size_t i) {
  int fd = simtest_connect(sim.ports[i]);
  if (fd < 0)
    return 0;
  simtest_send(fd, "POST", "/v1/completions", NULL, ONE);
  struct simtest_answer a = simtest_read(fd);
  int status = a.status;
  simtest_free(&a);
  return status;
}

static int64_t cached(const char *id) {
  struct value v = simtest_admin(&sim, "POST", "/admin/peek", ONE, 200);
  int64_t n = simtest_int(value_get(&v, "cached"), id);
  value_free(&v);
  return n;
}

/* When its counters began, as /metrics says. */
static double process_start(size_t i) {
  struct simtest_answer a = simtest_ask(sim.ports[i], "GET", "/metrics", NULL, NULL);
  const char *line = strstr(a.body, "\nvllm:prompt_tokens_created{");
  double x = line ? atof(strchr(line, '}') + 1) : 0;
  simtest_free(&a);
  return x;
}

static void test_restart(void **state) {
  (void)state;
  assert_int_equal(ask(1), 200);
  assert_int_equal(cached("r1"), 48);
  double before = process_start(1);
  int fd = simtest_connect(sim.ports[1]);
  simtest_send(fd, "POST", "/v1/completions", NULL, LONG);
  simtest_wait_state(&sim, 1, "running", 1);

  uint64_t at = clock_ns();
  struct value v = act("restart", "{\"replica\":\"r1\",\"down\":\"300ms\"}", 200);
  assert_string_equal(value_to_string(value_get(&v, "action")), "restart");
  assert_string_equal(value_to_string(value_at(value_get(&v, "replicas"), 0)), "r1");
  assert_false(value_get(&v, "done")->u.boolean);
  value_free(&v);
  struct simtest_answer a = simtest_read(fd);
  assert_true(a.reset);
  assert_false(a.complete);
  simtest_free(&a);
  if (clock_ns() - at < 200 * NS_PER_MS) { /* else this machine is too slow to see it */
    check_state(1, "starting");
    assert_true(simtest_connect(sim.ports[1]) < 0);
    assert_int_equal(errno, ECONNREFUSED);
  }
  assert_int_equal(ask(0), 200); /* the other one goes on */
  simtest_wait_state(&sim, 1, "processes", 2);
  assert_true(clock_ns() - at >= 300 * NS_PER_MS);
  check_state(1, "up");
  assert_int_equal(cached("r1"), 0);
  assert_int_equal(simtest_state(&sim, 1, "finished"), 0); /* a new process */
  assert_int_equal(simtest_state(&sim, 1, "aborted"), 0);
  assert_true(process_start(1) > before);
  assert_int_equal(ask(1), 200);
  assert_int_equal(simtest_state(&sim, 1, "finished"), 1);

  struct value lines = simtest_truth(truth);
  bool aborted = false;
  for (size_t i = 0; i < value_count(&lines); i++) {
    const char *finish = value_to_string(value_get(value_at(&lines, i), "finish"));
    aborted = aborted || (finish && strcmp(finish, "abort") == 0);
  }
  assert_true(aborted);
  value_free(&lines);
}

static void test_waiting_for_the_end(void **state) {
  (void)state;
  uint64_t at = clock_ns();
  struct value v = act("restart", "{\"replica\":\"r0\",\"down\":0.15,\"wait\":true}", 200);
  assert_true(clock_ns() - at >= 150 * NS_PER_MS);
  assert_true(value_get(&v, "done")->u.boolean);
  value_free(&v);
  check_state(0, "up");
  /* An asker that leaves takes its question with it. */
  char headers[200];
  snprintf(headers, sizeof headers, "Host: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n",
           sim.admin_port, sim.token);
  int fd = simtest_connect(sim.admin_port);
  simtest_send(fd, "POST", "/admin/restart", headers,
               "{\"replica\":\"r0\",\"down\":0.2,\"wait\":true}");
  clock_sleep_ns(50 * NS_PER_MS);
  close(fd);
  simtest_wait_state(&sim, 0, "processes", 3);
}

static void test_kill_and_restart(void **state) {
  (void)state;
  int64_t before = simtest_state(&sim, 1, "processes");
  do_act("kill", "{\"replica\":\"r1\"}");
  check_state(1, "down");
  assert_int_equal(ask(1), 0);
  check_error("kill", "{\"replica\":\"r1\"}", 409, "replica r1 is down already");
  check_error("drain", "{\"replica\":\"r1\"}", 409,
              "replica r1 is down: only one that is up can be drained");
  do_act("restart", "{\"replica\":\"r1\",\"down\":10}");
  check_error("restart", "{\"replica\":\"r1\"}", 409, "replica r1 is starting already");
  do_act("kill", "{\"replica\":\"r1\"}"); /* the start that was to come is void */
  check_state(1, "down");
  struct value v = act("restart", "{\"replica\":\"r1\",\"down\":0,\"wait\":true}", 200);
  value_free(&v);
  assert_int_equal(simtest_state(&sim, 1, "processes"), before + 1);
  assert_int_equal(ask(1), 200);
}

static void test_drain(void **state) {
  (void)state;
  int fd = simtest_connect(sim.ports[1]);
  simtest_send(fd, "POST", "/v1/completions", NULL,
               "{" PROMPT ",\"max_tokens\":150,\"ignore_eos\":true,\"stream\":true}");
  simtest_wait_state(&sim, 1, "running", 1);
  do_act("drain", "{\"replica\":\"r1\"}");
  check_state(1, "draining");
  struct simtest_answer a = simtest_read(fd); /* what runs ends well */
  assert_true(a.complete);
  assert_non_null(strstr(a.data, "[DONE]"));
  simtest_free(&a);
  for (int i = 0; i < 500; i++) {
    char *now = state_of(1);
    bool down = strcmp(now, "down") == 0;
    free(now);
    if (down)
      break;
    clock_sleep_ns(10 * NS_PER_MS);
  }
  check_state(1, "down");
  do_act("restart", "{\"replica\":\"r1\",\"down\":0,\"wait\":true}");

  assert_int_equal(ask(1), 200);
  do_act("drain", "{\"replica\":\"r1\",\"after\":\"keep\",\"wait\":true}");
  check_state(1, "draining");
  assert_int_equal(cached("r1"), 48);
  do_act("restart", "{\"replica\":\"r1\",\"down\":0,\"wait\":true}");

  fd = simtest_connect(sim.ports[1]);
  simtest_send(fd, "POST", "/v1/completions", NULL, LONG);
  simtest_wait_state(&sim, 1, "running", 1);
  do_act("drain", "{\"replica\":\"r1\",\"timeout\":\"50ms\",\"wait\":true}");
  check_state(1, "down");
  a = simtest_read(fd);
  assert_true(a.reset);
  simtest_free(&a);
  do_act("restart", "{\"replica\":\"r1\",\"down\":0,\"wait\":true}");
}

static void test_add(void **state) {
  (void)state;
  struct value v = act("add", "{}", 200);
  assert_string_equal(value_to_string(value_at(value_get(&v, "replicas"), 0)), "r2");
  sim.ports[2] = simtest_port_of(value_to_string(value_get(&v, "url")));
  value_free(&v);
  check_state(2, "up");
  assert_int_equal(ask(2), 200);
  assert_int_equal(cached("r2"), 48);
  assert_int_equal(simtest_state(&sim, 2, "processes"), 1);
  v = act("add", "{\"start\":\"100ms\",\"wait\":true}", 200);
  sim.ports[3] = simtest_port_of(value_to_string(value_get(&v, "url")));
  value_free(&v);
  assert_int_equal(ask(3), 200);
}

static void test_pressure(void **state) {
  (void)state;
  do_act("restart", "{\"replica\":\"r0\",\"down\":0,\"wait\":true}");
  assert_int_equal(ask(0), 200); /* 4 blocks, 3 of them full and cached */
  struct value v = act("pressure", "{\"replica\":\"r0\",\"blocks\":497}", 200);
  assert_int_equal(simtest_int(value_get(&v, "blocks"), "r0"), 497);
  assert_int_equal(simtest_int(value_get(&v, "evicted_blocks"), "r0"), 0);
  assert_true(value_get(&v, "done")->u.boolean);
  value_free(&v);
  assert_int_equal(cached("r0"), 48);
  v = act("pressure", "{\"replica\":\"r0\",\"tokens\":17}",
          200); /* 2 blocks: its tail goes first */
  assert_int_equal(simtest_int(value_get(&v, "evicted_blocks"), "r0"), 2);
  value_free(&v);
  assert_int_equal(cached("r0"), 16);

  v = act("pressure", "{\"replica\":\"r0\",\"share\":\"100%\",\"lasts\":\"400ms\"}", 200);
  assert_false(value_get(&v, "done")->u.boolean);
  value_free(&v);
  uint64_t at = clock_ns();
  assert_int_equal(cached("r0"), 0);
  assert_int_equal(ask(0), 200); /* waits for room */
  assert_true(clock_ns() - at > 300 * NS_PER_MS);
  assert_int_equal(simtest_state(&sim, 0, "free_blocks"), 500);
  /* What a process held is gone with it, and its end takes nothing from the next one. */
  do_act("pressure", "{\"replica\":\"r0\",\"share\":1,\"lasts\":\"100ms\"}");
  do_act("restart", "{\"replica\":\"r0\",\"down\":0,\"wait\":true}");
  do_act("pressure", "{\"replica\":\"r0\",\"blocks\":100,\"lasts\":\"10s\"}");
  clock_sleep_ns(150 * NS_PER_MS);
  assert_int_equal(simtest_state(&sim, 0, "free_blocks"), 400);
}

static void test_a_fault_for_a_time(void **state) {
  (void)state;
  do_act("fault", "{\"replica\":\"r0\",\"fault\":\"503\",\"lasts\":\"200ms\",\"wait\":true}");
  assert_int_equal(ask(0), 200); /* it is over */
  do_act("fault", "{\"replica\":\"r0\",\"fault\":\"503\",\"lasts\":\"10s\"}");
  assert_int_equal(ask(0), 503);
  do_act("clear_faults", "{}");
  assert_int_equal(ask(0), 200);
  do_act("fault", "{\"replica\":\"r0\",\"fault\":\"refuse\",\"lasts\":\"100ms\",\"wait\":true}");
  assert_int_equal(ask(0), 200);
}

static void test_event_shaping(void **state) {
  (void)state;
  do_act("delay_events", "{\"delay\":\"250ms\"}");
  assert_int_equal(simtest_state(&sim, 0, "event_delay_ns"), 250000000);
  assert_int_equal(simtest_state(&sim, 1, "event_delay_ns"), 250000000);
  do_act("delay_events", "{\"replica\":\"r0\",\"delay\":1,\"lasts\":\"50ms\",\"wait\":true}");
  assert_int_equal(simtest_state(&sim, 0, "event_delay_ns"), 0);
  assert_int_equal(simtest_state(&sim, 1, "event_delay_ns"), 250000000);
  do_act("drop_events", "{\"replica\":\"r1\",\"count\":3}");
  assert_int_equal(simtest_state(&sim, 1, "event_drop_count"), 3);
  do_act("drop_events", "{\"replica\":\"r1\",\"p\":0}");
  assert_int_equal(simtest_state(&sim, 1, "event_drop_count"), 0);
}

/* Of one that is down, and when what goes on ends. */
static void test_what_a_replica_is_at(void **state) {
  (void)state;
  do_act("restart", "{\"replica\":\"r0\",\"down\":\"100s\"}");
  struct value v = simtest_admin(&sim, "GET", "/admin/state", NULL, 200);
  const struct value *list = value_get(value_at(value_get(&v, "replicas"), 0), "under_way");
  assert_int_equal(value_count(list), 1);
  assert_string_equal(value_to_string(value_get(value_at(list, 0), "action")), "restart");
  int64_t left = simtest_int(value_at(list, 0), "until_ns") - simtest_int(&v, "now_ns");
  assert_true(left > 50000000000 && left <= 100000000000);
  value_free(&v);
  check_error("pressure", "{\"replica\":\"r0\",\"blocks\":5}", 409,
              "replica r0 is starting: it has no cache to fill");
  v = act("pressure", "{\"blocks\":5}", 200);
  assert_null(value_get(value_get(&v, "blocks"), "r0"));
  assert_int_equal(simtest_int(value_get(&v, "blocks"), "r1"), 5);
  assert_string_equal(value_to_string(value_get(value_get(&v, "refused"), "r0")), "starting");
  value_free(&v);
  do_act("kill", "{\"replica\":\"r0\"}");
  check_error("pressure", "{\"replica\":\"r0\",\"blocks\":5}", 409,
              "replica r0 is down: it has no cache to fill");
  do_act("restart", "{\"replica\":\"r0\",\"down\":0,\"wait\":true}");
  v = simtest_admin(&sim, "GET", "/admin/state", NULL, 200);
  assert_int_equal(value_count(value_get(value_at(value_get(&v, "replicas"), 0), "under_way")), 0);
  value_free(&v);
}

static void test_mistakes(void **state) {
  (void)state;
  check_error("restart", "{}", 400, "replica: say which, as in \"r0\", or \"*\" for all");
  check_error("restart", "{\"replica\":\"r9\"}", 404, "no replica \"r9\"; there are r0 to r3");
  check_error("restart", "{\"replica\":\"r0\",\"dwn\":1}", 400,
              "restart has no field dwn (did you mean down?)");
  check_error("restart", "{\"replica\":\"r0\",\"down\":\"5 parsecs\"}", 400,
              "down should be a time from 0 to 24h, as in \"500ms\" or 2");
  check_error("kill", "{\"replica\":\"r0\",\"colour\":1}", 400,
              "kill has no field colour; it takes replica");
  check_error("pressure", "{}", 400,
              "say how much in one way: share = \"50%\" of the blocks, or blocks, or tokens");
  check_error("pressure", "{\"share\":2}", 400,
              "share should be a share from 0 to 1, as in \"30%\" or 0.3");
  check_error("drain", "{\"replica\":\"r0\",\"after\":\"lunch\"}", 400,
              "after should be \"down\" or \"keep\"");
  check_error("fault", "{\"fault\":\"r1:429 p=0.5\"}", 400,
              "fault: the replica is a field of its own: fault = \"429 p=0.5\", replica = \"r1\"");
  check_error("delay_events", "{}", 400, "delay: a time such as \"500ms\" is required");
  check_error("drop_events", "{\"p\":1,\"count\":1}", 400, "p and count: give one of them");
  check_error("reset_cache", "{\"reset_running\":1}", 400, "reset_running should be true or false");
  struct value action = value_object(), answer;
  struct err err;
  value_set(&action, "action", value_cstring("restrat"));
  assert_int_equal(simfleet_act(sim.fleet, &action, &answer, &err), ERR_INVALID);
  assert_string_equal(err.text, "no action \"restrat\" (did you mean restart?)");
  value_free(&action);
}

/* r0 has a request under way: its blocks are in use. */
static void test_reset_cache_that_is_refused(void **state) {
  (void)state;
  do_act("restart", "{\"replica\":\"r0\",\"down\":0,\"wait\":true}"); /* no pressure is left */
  int fd = simtest_connect(sim.ports[0]);
  simtest_send(fd, "POST", "/v1/completions", NULL, LONG);
  simtest_wait_state(&sim, 0, "running", 1);
  struct value v = act("reset_cache", "{\"replica\":\"r0\"}", 409);
  const char *text = value_to_string(value_get(&v, "error"));
  check_has(text, "no cache was reset: replica r0 has ");
  check_has(text, " in use; reset_running = true empties it all the same");
  value_free(&v);
  v = act("reset_cache", "{}", 200);
  assert_string_equal(value_to_string(value_at(value_get(&v, "reset"), 0)), "r1");
  assert_int_equal(value_count(value_get(&v, "refused")), 1);
  check_has(value_to_string(value_get(value_get(&v, "refused"), "r0")), " in use");
  value_free(&v);
  v = act("reset_cache", "{\"replica\":\"r0\",\"reset_running\":true}", 200);
  assert_int_equal(value_count(value_get(&v, "refused")), 0);
  value_free(&v);
  close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_restart),
      cmocka_unit_test(test_waiting_for_the_end),
      cmocka_unit_test(test_kill_and_restart),
      cmocka_unit_test(test_drain),
      cmocka_unit_test(test_add),
      cmocka_unit_test(test_pressure),
      cmocka_unit_test(test_a_fault_for_a_time),
      cmocka_unit_test(test_event_shaping),
      cmocka_unit_test(test_what_a_replica_is_at),
      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_reset_cache_that_is_refused),
  };
  return cmocka_run_group_tests_name("actions", tests, start, stop);
}
