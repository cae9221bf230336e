/* test_kvconfig.c: settings of KV events by name and as vLLM's JSON, and the endpoints they make.
 */
#include "check.h"

#include "sim/kvconfig.h"

static struct kvconfig fresh(void) {
  struct kvconfig c;
  kvconfig_init(&c);
  return c;
}

static void set(struct kvconfig *c, const char *name, const char *text) {
  struct err err = {0};
  check_ok(kvconfig_set(c, name, text, &err), &err);
}

static void refuse(const char *name, const char *text, const char *needle) {
  struct kvconfig c = fresh(), before = c;
  struct err err = {0};
  assert_true(kvconfig_set(&c, name, text, &err) != 0);
  check_has(err.text, needle);
  assert_memory_equal(&c, &before, sizeof c);
}

static void test_settings(void **state) {
  (void)state;
  struct kvconfig c = fresh();
  assert_false(c.on);
  assert_true(c.replay);
  assert_int_equal(c.buffer_steps, 10000);
  assert_int_equal(c.hwm, 100000);
  assert_int_equal(c.max_queue_size, 100000);
  assert_string_equal(c.scheme, "vllm-sha256");
  set(&c, "hash_scheme", "vllm-xxhash");
  set(&c, "hash_seed", "0");
  assert_false(c.on); /* whoever hashes need not publish */
  set(&c, "kv_events_hwm", "7");
  assert_true(c.on);
  assert_int_equal(c.hwm, 7);
  set(&c, "kv_events", "array");
  assert_int_equal(c.encoding, KVWIRE_ARRAY);
  set(&c, "kv_events", "off");
  assert_false(c.on);
  set(&c, "kv_events", "on");
  assert_int_equal(c.encoding, KVWIRE_MAP);
  set(&c, "kv_events_hashes", "bytes");
  assert_true(c.raw_hashes);
  set(&c, "kv_events_hashes", "int");
  assert_false(c.raw_hashes);
  set(&c, "kv_events_replay_endpoint", "off");
  assert_false(c.replay);
  set(&c, "kv_events_replay_endpoint", "tcp://*:9");
  assert_true(c.replay);
  set(&c, "kv_events_topic", "kv@{id}");
  assert_string_equal(c.topic, "kv@{id}");
  set(&c, "kv_events_buffer_steps", "0");
  assert_int_equal(c.buffer_steps, 0);
}

static void test_refusals(void **state) {
  (void)state;
  refuse("kv_events", "yes",
         "kv_events=yes: on, off, map (vLLM since June 2026), array (before) or sglang");
  refuse("kv_events_port", "70000", "kv_events_port=70000: a whole number from 0 to 65535");
  refuse("kv_events_max_queue_size", "0", "a whole number from 1 to");
  refuse("kv_events_endpoint", "5557", "kv_events_endpoint=5557: tcp://*:5557 (bound on every");
  refuse("kv_events_endpoint", "tcp://*", "kv_events_port binds on --host alone");
  refuse("kv_events_endpoint", "tcp://h:0", "nobody can connect to port 0");
  refuse("kv_events_endpoint", "inproc://x", "is needed");
  refuse("kv_events_replay_endpoint", "tcp://h:66666", "; or off");
  refuse("kv_events_hashes", "hex", "int or bytes is needed");
  refuse("hash_scheme", "sha256", "\"sha256\" is no hash that vLLM publishes");
  char longer[200];
  memset(longer, 'x', sizeof longer);
  longer[sizeof longer - 1] = '\0';
  refuse("hash_seed", longer, "hash_seed: 199 bytes are too many; at most 63");
  refuse("kv_events_topic", longer, "kv_events_topic: 199 bytes are too many; at most 127");
}

static void test_json(void **state) {
  (void)state;
  struct kvconfig c = fresh();
  set(&c, "kv_events_config",
      "{\"enable_kv_cache_events\":true,\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:5557\","
      "\"replay_endpoint\":\"tcp://*:5558\",\"buffer_steps\":5,\"hwm\":6,\"max_queue_size\":7,"
      "\"topic\":\"t\"}");
  assert_true(c.on && c.replay);
  assert_string_equal(c.endpoint, "tcp://*:5557");
  assert_string_equal(c.replay_endpoint, "tcp://*:5558");
  assert_int_equal(c.buffer_steps, 5);
  assert_int_equal(c.hwm, 6);
  assert_int_equal(c.max_queue_size, 7);
  assert_string_equal(c.topic, "t");
  set(&c, "kv_events_config", "{\"enable_kv_cache_events\":true,\"replay_endpoint\":null}");
  assert_true(c.on);
  assert_false(c.replay); /* as vLLM: none that was not asked for */
  set(&c, "kv_events_config", "{\"enable_kv_cache_events\":false,\"topic\":\"u\"}");
  assert_false(c.on);
  set(&c, "kv_events_config", "{\"enable_kv_cache_events\":true,\"publisher\":\"null\"}");
  assert_false(c.on);
  refuse("kv_events_config", "{\"topic\":\"t\"}",
         "kv_events_config: enable_kv_cache_events should be true");
  refuse("kv_events_config", "{\"enable_kv_cache_events\":true,\"publisher\":\"nats\"}",
         "publisher is \"zmq\" or \"null\"");
  refuse("kv_events_config", "{\"enable_kv_cache_events\":true,\"end_point\":\"x\"}",
         "vLLM has no field end_point (did you mean endpoint?)");
  refuse("kv_events_config", "{\"enable_kv_cache_events\":true,\"hwm\":\"x\"}",
         "hwm is no whole number");
  refuse("kv_events_config", "{\"enable_kv_cache_events\":true,\"topic\":5}", "topic is no text");
  refuse("kv_events_config", "{\"enable_kv_cache_events\":true,\"hwm\":-1}",
         "kv_events_hwm=-1: a whole number from 0");
  refuse("kv_events_config", "{\"enable_kv_cache_events\":true,\"topic\":\"a\\u0000b\"}",
         "topic holds a NUL");
  refuse("kv_events_config", "[]", "a JSON object is needed");
  refuse("kv_events_config", "{", "kv_events_config: ");
}

/* ---- endpoints ---- */

static void check_endpoint(const struct kvconfig *c, const char *host, size_t replica, bool replay,
                           const char *text, bool connect) {
  struct kvconfig_endpoint e;
  kvconfig_endpoint(c, host, replica, replay, &e);
  assert_string_equal(e.text, text);
  assert_int_equal(e.connect, connect);
}

static void test_endpoints(void **state) {
  (void)state;
  struct kvconfig c = fresh();
  check_endpoint(&c, "127.0.0.1", 3, false, "tcp://127.0.0.1:0", false);
  check_endpoint(&c, "::1", 3, true, "tcp://[::1]:0", false);
  set(&c, "kv_events_port", "5000");
  set(&c, "kv_events_replay_port", "6000");
  check_endpoint(&c, "10.0.0.1", 3, false, "tcp://10.0.0.1:5003", false);
  check_endpoint(&c, "10.0.0.1", 0, true, "tcp://10.0.0.1:6000", false);
  set(&c, "kv_events_endpoint", "tcp://*:5557");
  set(&c, "kv_events_replay_endpoint", "tcp://127.0.0.1:5600");
  check_endpoint(&c, "10.0.0.1", 0, false, "tcp://*:5557", false);
  check_endpoint(&c, "10.0.0.1", 2, false, "tcp://*:5559", false);
  check_endpoint(&c, "10.0.0.1", 2, true, "tcp://127.0.0.1:5602", false); /* always bound */
  set(&c, "kv_events_endpoint", "tcp://*:0");
  check_endpoint(&c, "10.0.0.1", 2, false, "tcp://*:0", false);
  set(&c, "kv_events_endpoint", "tcp://[::]:5557");
  check_endpoint(&c, "10.0.0.1", 2, false, "tcp://[::]:5559", false);
  set(&c, "kv_events_endpoint", "tcp://indexer:5557"); /* vLLM's rule: it is connected to */
  check_endpoint(&c, "10.0.0.1", 2, false, "tcp://indexer:5557", true);
  set(&c, "kv_events_endpoint", "ipc:///tmp/kv");
  check_endpoint(&c, "10.0.0.1", 0, false, "ipc:///tmp/kv", false);
  check_endpoint(&c, "10.0.0.1", 2, false, "ipc:///tmp/kv.r2", false);
}

static void test_ports_suffice(void **state) {
  (void)state;
  struct kvconfig c = fresh();
  struct err err = {0};
  set(&c, "kv_events_port", "65534");
  check_ok(kvconfig_check(&c, 2, &err), &err);
  assert_int_equal(kvconfig_check(&c, 3, &err), ERR_INVALID);
  check_has(err.text, "port 65534 and 2 following ones go beyond 65535");
  set(&c, "kv_events_endpoint", "tcp://*:5557");
  set(&c, "kv_events_replay_endpoint", "tcp://*:5558");
  check_ok(kvconfig_check(&c, 1, &err), &err);
  assert_int_equal(kvconfig_check(&c, 2, &err), ERR_INVALID);
  check_has(err.text,
            "2 replicas publish on ports 5557 to 5558 and answer replays on 5558 to 5559");
  set(&c, "kv_events_replay_endpoint", "tcp://*:5555");
  check_ok(kvconfig_check(&c, 2, &err), &err);
  assert_int_equal(kvconfig_check(&c, 3, &err), ERR_INVALID);
  set(&c, "kv_events_replay_endpoint", "off");
  check_ok(kvconfig_check(&c, 3, &err), &err);
  set(&c, "kv_events", "off");
  check_ok(kvconfig_check(&c, 100000, &err), &err);
}

static void test_seeds(void **state) {
  (void)state;
  struct kvconfig c = fresh();
  char a[64], b[64];
  kvconfig_seed(&c, 1, a);
  assert_string_equal(a, "vllm-none-hash");
  set(&c, "hash_scheme", "vllm-xxhash-cbor"); /* vLLM draws it at random: another each replica */
  kvconfig_seed(&c, 1, a);
  kvconfig_seed(&c, 2, b);
  assert_string_not_equal(a, b);
  assert_string_not_equal(a, "vllm-none-hash");
  set(&c, "hash_seed", "");
  kvconfig_seed(&c, 1, a);
  assert_string_equal(a, "");
}

static void test_names(void **state) {
  (void)state;
  size_t n = 0;
  while (kvconfig_name(n))
    n++;
  assert_int_equal(n, 13);
  assert_string_equal(kvconfig_name(0), "kv_events");
  assert_string_equal(kvconfig_name(12), "hash_seed");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_settings),      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_json),          cmocka_unit_test(test_endpoints),
      cmocka_unit_test(test_ports_suffice), cmocka_unit_test(test_seeds),
      cmocka_unit_test(test_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
