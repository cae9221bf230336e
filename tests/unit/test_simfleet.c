/* test_simfleet.c: the fleet as a whole: ports, faults by name, the truth log against the wire. */
#include "simtest.h"

static char *temp_path(void) {
  static char path[64];
  snprintf(path, sizeof path, "/tmp/test_simfleet.%d", (int)getpid());
  return path;
}

static struct simfleet_options options(size_t n) {
  struct simfleet_options o = {.n_replicas = n, .seed = 1};
  struct err err = {0};
  check_ok(simconfig_init(&o.config, "instant", &err), &err);
  return o;
}

static void check_refused(const struct simfleet_options *o, int code, const char *needle) {
  struct err err = {0};
  struct loop *loop = loop_new(&err);
  struct simfleet *f = NULL;
  assert_int_equal(simfleet_start(loop, o, &f, &err), code);
  check_has(err.text, needle);
  assert_null(f);
  loop_delete(loop);
}

static void test_start_refusals_leave_nothing_open(void **state) {
  (void)state;
  struct simtest t;
  simtest_start(&t, 1, "instant", NULL, NULL, NULL);
  struct simfleet_options o = options(3);
  o.port = t.ports[0];
  char needle[80];
  snprintf(needle, sizeof needle, "replica r0: 127.0.0.1:%d is in use by another process",
           t.ports[0]);
  check_refused(&o, ERR_IO, needle);
  o.port = t.ports[0] - 1 > 0 ? t.ports[0] - 1 : 0;
  o.port = 65534;
  check_refused(&o, ERR_INVALID, "port 65534 and 2 following ones go beyond 65535");
  o.port = 40000;
  o.admin_port = 40002;
  check_refused(&o, ERR_INVALID, "admin port 40002 is that of replica r2; choose another");
  o.port = 0;
  o.admin_port = t.ports[0];
  check_refused(&o, ERR_IO, "admin port: 127.0.0.1:");
  o.admin_port = 0;
  o.truth = "/nowhere/log";
  check_refused(&o, ERR_IO, "cannot write the truth log /nowhere/log");
  o.truth = NULL;
  o.model = "a\nb\"\xff";
  check_refused(&o, ERR_INVALID, "--model: a name is UTF-8 without control characters");
  o.model = NULL;
  struct err err;
  check_ok(adapters_add(&o.adapters, "sim-model", &err), &err);
  check_refused(&o, ERR_INVALID, "--lora-modules: sim-model is the model's own name");
  adapters_free(&o.adapters);
  o.config.engine.max_num_batched_tokens = 1;
  check_refused(&o, ERR_INVALID, "max_num_batched_tokens=1 is less than");
  simtest_stop(&t);
}

static void test_ports_follow(void **state) {
  (void)state;
  /* A free run of three is likely but not certain: try a few places. */
  for (int port = 21000; port < 30000; port += 1000) {
    struct err err = {0};
    struct loop *loop = loop_new(&err);
    struct simfleet_options o = options(3);
    struct simfleet *f;
    o.port = port;
    int rc = simfleet_start(loop, &o, &f, &err);
    if (!rc) {
      char url[64];
      for (int i = 0; i < 3; i++) {
        snprintf(url, sizeof url, "http://127.0.0.1:%d", port + i);
        assert_string_equal(f->hosts[i]->url, url);
      }
      simfleet_stop(f);
    }
    loop_delete(loop);
    if (!rc)
      return;
  }
  fail_msg("no free ports");
}

/* Spares, and replicas that are added to a running fleet, have sockets of events too. */
static void test_events_of_those_that_come_later(void **state) {
  (void)state;
  struct err err = {0};
  struct loop *loop = loop_new(&err);
  struct simfleet_options o = options(1);
  struct simfleet *f;
  struct simhost *h[4];
  o.n_spares = 2;
  check_ok(kvconfig_set(&o.config.events, "kv_events", "on", &err), &err);
  check_ok(simfleet_start(loop, &o, &f, &err), &err);
  for (size_t i = 0; i < ARRAY_LEN(h); i++) {
    check_ok(simfleet_add_host(f, &h[i], &err), &err);
    assert_non_null(h[i]->kv);
  }
  assert_int_equal(f->n_hosts, 5);
  simfleet_stop(f);
  /* the ports of spares count */
  check_ok(kvconfig_set(&o.config.events, "kv_events_port", "65533", &err), &err);
  check_ok(kvconfig_set(&o.config.events, "kv_events_replay_endpoint", "off", &err), &err);
  o.n_spares = 3;
  assert_int_equal(simfleet_start(loop, &o, &f, &err), ERR_INVALID);
  check_has(err.text, "kv_events: port 65533 and 3 following ones go beyond 65535");
  loop_delete(loop);
}

static void test_faults_by_text(void **state) {
  (void)state;
  struct err err = {0};
  struct loop *loop = loop_new(&err);
  struct simfleet_options o = options(2);
  struct simfleet *f;
  check_ok(simfleet_start(loop, &o, &f, &err), &err);
  check_ok(simfleet_add_fault_text(f, "r1:empty", &err), &err);
  check_ok(simfleet_add_fault_text(f, "1:no_usage path=/a:b", &err), &err);
  check_ok(simfleet_add_fault_text(f, "503 path=/x:y", &err), &err);
  check_ok(simfleet_add_fault_text(f, "*:502", &err), &err);
  assert_int_equal(f->hosts[0]->faults.n, 2);
  assert_int_equal(f->hosts[1]->faults.n, 4);
  assert_string_equal(f->hosts[0]->faults.items[0].path, "/x:y");
  assert_int_equal(simfleet_add_fault_text(f, "r2:empty", &err), ERR_NOT_FOUND);
  check_has(err.text, "no replica \"r2\"; there are r0 to r1");
  assert_int_equal(simfleet_add_fault_text(f, "r1:emty", &err), ERR_INVALID);
  check_has(err.text, "did you mean empty?");
  assert_null(simfleet_find(f, "2"));
  simfleet_stop(f);
  loop_delete(loop);
}

static void test_description(void **state) {
  (void)state;
  struct err err = {0};
  struct loop *loop = loop_new(&err);
  struct simfleet_options o = options(2);
  o.model = "my/model";
  struct simfleet *f;
  check_ok(simfleet_start(loop, &o, &f, &err), &err);
  struct value v = simfleet_describe(f);
  assert_int_equal(value_count(value_get(&v, "replicas")), 2);
  const struct value *r1 = value_at(value_get(&v, "replicas"), 1);
  assert_string_equal(value_to_string(value_get(r1, "id")), "r1");
  assert_string_equal(value_to_string(value_get(r1, "url")), f->hosts[1]->url);
  assert_string_equal(value_to_string(value_get(&v, "model")), "my/model");
  assert_string_equal(value_to_string(value_get(&v, "profile")), "instant");
  assert_string_equal(value_to_string(value_get(&v, "tokenizer")), "bytes");
  assert_true(value_get(&v, "simulated")->u.boolean);
  assert_int_equal(strlen(value_to_string(value_get(value_get(&v, "admin"), "token"))), 32);
  value_free(&v);
  simfleet_stop(f);
  loop_delete(loop);
}

static const char stream_body[] =
    "{\"prompt\":\"a prompt of thirty-three bytes !!\",\"max_tokens\":4,\"ignore_eos\":true,"
    "\"stream\":true,\"stream_options\":{\"include_usage\":true}}";

/* What the client saw lies around what the log says was sent. */
static void test_truth_against_the_wire(void **state) {
  (void)state;
  struct simtest t;
  static const char *const sets[] = {"ttft=30ms", "itl=10ms", NULL};
  simtest_start(&t, 2, "fixed", sets, NULL, temp_path());
  struct simtest_answer a = simtest_ask(t.ports[1], "POST", "/v1/completions",
                                        "Host: x\r\nX-Request-Id: q-1\r\n", stream_body);
  struct simtest_answer b = simtest_post(t.ports[1], "/v1/completions", stream_body);
  struct simtest_answer c = simtest_post(t.ports[0], "/v1/completions", "{\"prompt\":\"\"}");
  simtest_stop(&t);
  struct value log = simtest_truth(temp_path());
  assert_int_equal(value_count(&log), 3);
  const struct value *l = value_at(&log, 0), *m = value_at(&log, 1), *n = value_at(&log, 2);
  assert_string_equal(value_to_string(value_get(l, "replica")), "r1");
  assert_string_equal(value_to_string(value_get(l, "id")), "cmpl-q-1");
  assert_string_equal(value_to_string(value_get(l, "request_id")), "q-1");
  assert_string_equal(value_to_string(value_get(l, "finish")), "length");
  assert_int_equal(value_get(l, "fault")->kind, VALUE_NULL);
  assert_int_equal(simtest_int(l, "status"), 200);
  assert_int_equal(simtest_int(l, "number"), 0);
  assert_int_equal(simtest_int(l, "prompt_tokens"), 33);
  assert_int_equal(simtest_int(l, "output_tokens"), 4);
  assert_int_equal(simtest_int(l, "cached_tokens"), 0);
  assert_int_equal(simtest_int(m, "cached_tokens"), 32);
  assert_int_equal(simtest_int(m, "number"), 1);
  const struct value *writes = value_get(l, "writes");
  static const char *const kinds[] = {"headers", "content", "content", "content",
                                      "finish",  "usage",   "done"};
  assert_int_equal(value_count(writes), 7);
  uint64_t before = a.sent_ns - NS_PER_MS;
  size_t bytes = 0;
  for (size_t i = 0; i < 7; i++) {
    const struct value *w = value_at(writes, i);
    assert_string_equal(value_to_string(value_get(w, "kind")), kinds[i]);
    uint64_t ns = (uint64_t)simtest_int(w, "ns");
    assert_true(ns >= before && ns <= a.last_ns);
    before = ns;
    bytes += (size_t)simtest_int(w, "bytes");
  }
  assert_int_equal(bytes, a.body_len);
  uint64_t received = (uint64_t)simtest_int(l, "received_ns"),
           scheduled = (uint64_t)simtest_int(l, "scheduled_ns"),
           first = (uint64_t)simtest_int(l, "first_token_ns"),
           last = (uint64_t)simtest_int(l, "last_token_ns");
  assert_true(scheduled - received >= 20 * NS_PER_MS); /* ttft less one step */
  assert_true(first - received >= 30 * NS_PER_MS);
  assert_true(last - first >= 30 * NS_PER_MS - REPLICA_CATCH_UP_NS);
  assert_true((uint64_t)simtest_int(value_at(writes, 1), "ns") >= first);
  assert_string_equal(value_to_string(value_get(n, "finish")), "refused");
  assert_int_equal(simtest_int(n, "status"), 400);
  assert_int_equal(value_get(n, "scheduled_ns")->kind, VALUE_NULL);
  value_free(&log);
  simtest_free(&a);
  simtest_free(&b);
  simtest_free(&c);
  unlink(temp_path());
}

static void test_truth_of_faults_and_aborts(void **state) {
  (void)state;
  struct simtest t;
  static const char *const faults[] = {"coalesce events=3 count=1", "error after=2 count=1", NULL};
  simtest_start(&t, 1, "tiny", NULL, faults, temp_path());
  struct simtest_answer a = simtest_post(t.ports[0], "/v1/completions", stream_body);
  simtest_free(&a);
  int fd = simtest_connect(t.ports[0]);
  simtest_send(fd, "POST", "/v1/completions", NULL,
               "{\"prompt\":\"x\",\"max_tokens\":9000,\"ignore_eos\":true,\"stream\":true}");
  simtest_wait_state(&t, 0, "running", 1);
  simtest_stop(&t); /* with a request under way */
  close(fd);
  struct value log = simtest_truth(temp_path());
  assert_int_equal(value_count(&log), 2);
  const struct value *l = value_at(&log, 0);
  assert_string_equal(value_to_string(value_get(l, "fault")), "error coalesce");
  assert_string_equal(value_to_string(value_get(l, "finish")), "fault");
  const struct value *writes = value_get(l, "writes");
  assert_int_equal(value_count(writes), 3); /* headers, three events, the end marker */
  assert_int_equal(simtest_int(value_at(writes, 1), "events"), 3);
  assert_string_equal(value_to_string(value_get(value_at(writes, 2), "kind")), "done");
  assert_string_equal(value_to_string(value_get(value_at(&log, 1), "finish")), "abort");
  value_free(&log);
  unlink(temp_path());
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_start_refusals_leave_nothing_open),
      cmocka_unit_test(test_ports_follow),
      cmocka_unit_test(test_faults_by_text),
      cmocka_unit_test(test_events_of_those_that_come_later),
      cmocka_unit_test(test_description),
      cmocka_unit_test(test_truth_against_the_wire),
      cmocka_unit_test(test_truth_of_faults_and_aborts),
  };
  return cmocka_run_group_tests_name("simfleet", tests, NULL, NULL);
}
