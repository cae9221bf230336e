/* test_devapi.c: sleep and waking, load, what the prefill leg of a pair returns (transfer.c). */
#include "simtest.h"

#include "sim/devapi.h"

#define TEXT "/v1/completions"
#define LONG "{\"prompt\":\"a long one\",\"max_tokens\":3000,\"ignore_eos\":true"

static struct simtest sim;

static int start(void **state) {
  (void)state;
  static const char *const sets[] = {"kv_blocks=1000", NULL};
  simtest_start(&sim, 2, "tiny", sets, NULL, NULL);
  return 0;
}

static int stop(void **state) {
  (void)state;
  simtest_stop(&sim);
  return 0;
}

static void check_get(const char *path, const char *want) {
  struct simtest_answer a = simtest_ask(sim.ports[0], "GET", path, NULL, NULL);
  assert_int_equal(a.status, 200);
  assert_string_equal(a.body, want);
  simtest_free(&a);
}

static void post(const char *path, int status) {
  struct simtest_answer a = simtest_post(sim.ports[0], path, "");
  if (a.status != status)
    fail_msg("%s: %d %s", path, a.status, a.body);
  if (status == 200)
    assert_int_equal(a.body_len, 0);
  simtest_free(&a);
}

static void test_sleep_aborts_and_waking_goes_on(void **state) {
  (void)state;
  check_get("/is_sleeping", "{\"is_sleeping\":false}");
  int stream = simtest_connect(sim.ports[0]), whole = simtest_connect(sim.ports[0]);
  simtest_send(stream, "POST", TEXT, NULL, LONG ",\"stream\":true}");
  simtest_send(whole, "POST", TEXT, NULL, LONG ",\"n\":2}");
  simtest_wait_state(&sim, 0, "running", 3);
  check_get("/load", "{\"server_load\":2}");
  post("/sleep?level=1", 200);
  struct simtest_answer a = simtest_read(stream), b = simtest_read(whole);
  assert_true(a.complete && b.complete);
  check_has(a.body, "\"finish_reason\":\"abort\",\"stop_reason\":null}]}\n\ndata: [DONE]\n\n");
  struct value v = simtest_json(&b);
  const struct value *choices = value_get(&v, "choices");
  assert_int_equal(value_count(choices), 2);
  assert_string_equal(value_to_string(value_get(value_at(choices, 1), "finish_reason")), "abort");
  assert_true(simtest_int(value_get(&v, "usage"), "completion_tokens") < 6000);
  value_free(&v);
  simtest_free(&a);
  simtest_free(&b);
  check_get("/is_sleeping", "{\"is_sleeping\":true}");
  a = simtest_ask(sim.ports[0], "GET", "/metrics", NULL, NULL);
  check_has(a.body, "sleep_state=\"weights_offloaded\"} 1.0\n");
  simtest_free(&a);
  /* What comes meanwhile waits. */
  int fd = simtest_connect(sim.ports[0]);
  simtest_send(fd, "POST", TEXT, NULL, "{\"prompt\":\"later\",\"max_tokens\":1}");
  simtest_wait_state(&sim, 0, "waiting", 1);
  post("/wake_up?tags=weights", 200);
  check_get("/is_sleeping", "{\"is_sleeping\":true}");
  assert_int_equal(simtest_state(&sim, 0, "waiting"), 1);
  post("/wake_up?tags=kv_cache", 200);
  a = simtest_read(fd);
  assert_int_equal(a.status, 200);
  simtest_free(&a);
  check_get("/is_sleeping", "{\"is_sleeping\":false}");
}

static void test_sleep_can_keep_what_runs(void **state) {
  (void)state;
  int fd = simtest_connect(sim.ports[0]);
  simtest_send(fd, "POST", TEXT, NULL,
               "{\"prompt\":\"kept\",\"max_tokens\":40,\"ignore_eos\":true}");
  simtest_wait_state(&sim, 0, "running", 1);
  post("/sleep?level=2&mode=keep", 200);
  post("/sleep?level=1", 200); /* asleep already: nothing more is lost */
  post("/wake_up", 200);
  struct simtest_answer a = simtest_read(fd);
  struct value v = simtest_json(&a);
  assert_int_equal(simtest_int(value_get(&v, "usage"), "completion_tokens"), 40);
  value_free(&v);
  simtest_free(&a);
  post("/sleep?level=3", 400);
  post("/sleep?mode=wait", 400);
  post("/wake_up?tags=weights&tags=all", 400);
  post("/reset_mm_cache", 200);
  post("/reset_encoder_cache", 200);
}

#define PROMPT "{\"prompt\":\"thirty-three bytes of a prompt...\",\"max_tokens\":"

static void test_prefill_and_decode_legs(void **state) {
  (void)state;
  int64_t free_before = simtest_state(&sim, 0, "free_blocks");
  struct simtest_answer a = simtest_post(
      sim.ports[0], TEXT,
      PROMPT "1,\"kv_transfer_params\":{\"do_remote_decode\":true,\"do_remote_prefill\":false}}");
  struct value v = simtest_json(&a);
  const struct value *p = value_get(&v, "kv_transfer_params");
  assert_true(value_get(p, "do_remote_prefill")->u.boolean);
  assert_false(value_get(p, "do_remote_decode")->u.boolean);
  const struct value *ids = value_at(value_get(p, "remote_block_ids"), 0);
  assert_int_equal(value_count(ids), 3); /* 33 tokens in blocks of 16 */
  for (size_t i = 0; i < 3; i++)
    assert_in_range(value_at(ids, i)->u.integer, 1, 1000);
  assert_string_equal(value_to_string(value_get(p, "remote_engine_id")), "r0");
  assert_string_equal(value_to_string(value_get(p, "remote_request_id")),
                      value_to_string(value_get(&v, "id")));
  assert_string_equal(value_to_string(value_get(p, "remote_host")), "127.0.0.1");
  assert_int_equal(simtest_int(p, "remote_port"), sim.ports[0]);
  assert_int_equal(simtest_int(p, "remote_num_tokens"), 33);
  assert_int_equal(simtest_int(p, "tp_size"), 1);
  assert_int_equal(simtest_state(&sim, 0, "free_blocks"), free_before - 3);
  /* The decode leg on the other replica loads all but the last token, and the blocks are free. */
  struct buf body;
  buf_init(&body, BUF_MAX_OWN);
  buf_puts(&body, PROMPT "3,\"ignore_eos\":true,\"kv_transfer_params\":");
  json_write(&body, p);
  buf_puts(&body, "}");
  value_free(&v);
  simtest_free(&a);
  for (int again = 0; again < 2; again++) { /* the second time the KV is here, and gone there */
    a = simtest_post(sim.ports[1], TEXT, body.data);
    v = simtest_json(&a);
    const struct value *usage = value_get(&v, "usage");
    assert_int_equal(simtest_int(value_get(usage, "prompt_tokens_details"), "cached_tokens"), 32);
    value_free(&v);
    simtest_free(&a);
    simtest_wait_state(&sim, 0, "free_blocks", free_before);
  }
  buf_free(&body);
  a = simtest_ask(sim.ports[1], "GET", "/metrics", NULL, NULL);
  check_has(a.body, "source=\"external_kv_transfer\"} 32.0\n");
  simtest_free(&a);
  a = simtest_post(sim.ports[0], TEXT, "{\"prompt\":\"x\",\"max_tokens\":1}");
  check_has(a.body, "\"kv_transfer_params\":null}");
  simtest_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sleep_aborts_and_waking_goes_on),
      cmocka_unit_test(test_sleep_can_keep_what_runs),
      cmocka_unit_test(test_prefill_and_decode_legs),
  };
  return cmocka_run_group_tests_name("devapi", tests, start, stop);
}
