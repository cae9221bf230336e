/* test_kvevents.c: the publisher: numbers, topics, what is late, what is lost, a second life. What
 * the batches say is in test_kvwire.c and tests/e2e/test_kv_events.py. */
#include "zmq_peer.h"

#include "sim/kvevents.h"

enum { MAX_GOT = 200 };

struct rig {
  struct zmq_rig z;
  struct kvconfig config;
  struct engine_config engine;
  struct eventshaping shaping;
  struct adapters adapters;
  struct kvevents *k;
  struct replica_listener told;
  void *sub;
  struct zmq_frame got[MAX_GOT][3];
  uint64_t at[MAX_GOT];
  size_t n_got, wanted;
};

static struct kvevents_options options(struct rig *r) {
  return (struct kvevents_options){.config = &r->config,
                                   .engine = &r->engine,
                                   .loop = r->z.loop,
                                   .hub = r->z.hub,
                                   .host = "127.0.0.1",
                                   .id = "r3",
                                   .model = "m/x",
                                   .address = "127.0.0.1:8000",
                                   .number = 3,
                                   .seed = 9,
                                   .adapters = &r->adapters,
                                   .shaping = &r->shaping};
}

static bool subscribed(void *user);
static bool has_wanted(void *user) {
  struct rig *r = user;
  while (r->n_got < MAX_GOT && zmq_take(r->sub, r->got[r->n_got], 3) == 3)
    r->at[r->n_got++] = loop_now(r->z.loop);
  return r->n_got >= r->wanted;
}

/* At least n in all. */
static void collect(struct rig *r, size_t n) {
  r->wanted = n;
  zmq_rig_until(&r->z, has_wanted, r);
}

static void step(struct rig *r) {
  static uint32_t tokens[4] = {1, 2, 3, 4};
  static uint64_t name = 5;
  static const struct engine_request req = {.tokens = tokens};
  struct engine_event e = {.kind = ENGINE_STORED, .hashes = &name, .n = 1, .req = &req};
  r->told.events(r->told.user, &e, 1);
  r->told.publish(r->told.user, loop_refresh(r->z.loop));
}

static void subscribe(struct rig *r) {
  r->sub = zmq_peer(&r->z, ZMQ_SUB, kvevents_endpoint(r->k, false), 1000);
  zmq_rig_until(&r->z, subscribed, r);
  r->n_got = 0;
}

static void rig_init(struct rig *r) {
  memset(r, 0, sizeof *r);
  zmq_rig_open(&r->z);
  kvconfig_init(&r->config);
  r->config.on = true;
  r->engine.block_size = 4;
}

static void rig_start(struct rig *r) {
  struct err err = {0};
  struct kvevents_options o = options(r);
  check_ok(kvevents_open(&o, &r->k, &err), &err);
  r->told = kvevents_listener(r->k);
}

static void rig_close(struct rig *r) {
  if (r->sub)
    zmq_close(r->sub);
  kvevents_close(r->k);
  zmq_rig_close(&r->z);
}

/* Steps until one is heard: from then on nothing is missed. */
static bool subscribed(void *user) {
  struct rig *r = user;
  r->wanted = 1;
  if (has_wanted(user))
    return true;
  step(r);
  return false;
}

static uint64_t first_number(struct rig *r) {
  struct kvevents_counts c;
  kvevents_get_counts(r->k, &c);
  return c.batches;
}

static void test_numbers_and_topic(void **state) {
  (void)state;
  struct rig r;
  rig_init(&r);
  snprintf(r.config.topic, sizeof r.config.topic, "kv@{id}@{model}@{address}{x}");
  rig_start(&r);
  assert_string_equal(kvevents_topic(r.k), "kv@r3@m/x@127.0.0.1:8000{x}");
  assert_int_equal(first_number(&r), 0);
  subscribe(&r);
  /* Those of before may be on their way still. */
  uint64_t from = first_number(&r);
  for (int i = 0; i < 10; i++)
    step(&r);
  do
    collect(&r, r.n_got + 1);
  while (zmq_number(&r.got[r.n_got - 1][1]) < from + 9);
  assert_int_equal(first_number(&r), from + 10);
  for (size_t i = 1; i < r.n_got; i++)
    assert_int_equal(zmq_number(&r.got[i][1]), zmq_number(&r.got[i - 1][1]) + 1);
  const struct zmq_frame *f = r.got[r.n_got - 1];
  assert_int_equal(f[0].len, 27);
  assert_memory_equal(f[0].data, "kv@r3@m/x@127.0.0.1:8000{x}", 27);
  assert_memory_equal(f[2].data, "\x93\xcb\x41\xd", 3); /* [seconds of these decades, … */
  assert_int_equal(f[2].data[f[2].len - 1], 0);         /* … rank 0] */
  struct kvevents_counts c;
  kvevents_get_counts(r.k, &c);
  assert_int_equal(c.sent, from + 10);
  assert_int_equal(c.kept, from + 10);
  assert_int_equal(c.lost + c.late + c.replays + c.refused, 0);
  rig_close(&r);
}

/* Everything on the wire before this has arrived. */
static void settle(struct rig *r) {
  uint64_t from = first_number(r);
  step(r);
  do
    collect(r, r->n_got + 1);
  while (zmq_number(&r->got[r->n_got - 1][1]) < from);
  r->n_got = 0;
}

static void test_lost_ones_leave_a_gap(void **state) {
  (void)state;
  struct rig r;
  rig_init(&r);
  rig_start(&r);
  subscribe(&r);
  settle(&r);
  uint64_t from = first_number(&r);
  r.shaping.drop_count = 3;
  for (int i = 0; i < 5; i++)
    step(&r);
  collect(&r, 2);
  assert_int_equal(r.n_got, 2);
  assert_int_equal(zmq_number(&r.got[0][1]), from + 3);
  assert_int_equal(zmq_number(&r.got[1][1]), from + 4);
  assert_int_equal(r.shaping.drop_count, 0);
  assert_int_equal(r.shaping.dropped, 3);
  struct kvevents_counts c;
  kvevents_get_counts(r.k, &c);
  assert_int_equal(c.lost, 3);
  assert_int_equal(c.kept, from + 5); /* a replay has them */
  r.shaping.drop_p = 1;
  step(&r);
  step(&r);
  r.shaping.drop_p = 0.5;
  for (int i = 0; i < 100; i++)
    step(&r);
  r.shaping.drop_p = 0;
  kvevents_get_counts(r.k, &c);
  assert_true(c.lost > 3 + 2 + 25 && c.lost < 3 + 2 + 75);
  assert_int_equal(c.batches, from + 107);
  assert_int_equal(c.sent, c.batches - c.lost);
  rig_close(&r);
}

static void test_late_ones_keep_their_order(void **state) {
  (void)state;
  struct rig r;
  rig_init(&r);
  rig_start(&r);
  subscribe(&r);
  settle(&r);
  uint64_t from = first_number(&r), begin = loop_refresh(r.z.loop);
  r.shaping.delay_ns = 60 * NS_PER_MS;
  step(&r);
  step(&r);
  r.shaping.delay_ns = 0;
  step(&r); /* does not overtake them */
  struct kvevents_counts c;
  kvevents_get_counts(r.k, &c);
  assert_int_equal(c.late, 3);
  assert_int_equal(c.kept, from); /* a replay has them when they have left */
  collect(&r, 3);
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(zmq_number(&r.got[i][1]), from + i);
  assert_true(r.at[0] >= begin + 60 * NS_PER_MS);
  kvevents_get_counts(r.k, &c);
  assert_int_equal(c.late, 0);
  assert_int_equal(c.kept, from + 3);
  /* A lost one among late ones; and what is late when it ends is not sent. */
  r.shaping.delay_ns = 20 * NS_PER_MS;
  r.n_got = 0;
  r.shaping.drop_count = 1;
  step(&r);
  step(&r);
  collect(&r, 1);
  assert_int_equal(zmq_number(&r.got[0][1]), from + 4);
  r.shaping.delay_ns = 1000 * NS_PER_S;
  step(&r);
  rig_close(&r);
}

static void test_a_full_line_pushes(void **state) {
  (void)state;
  struct rig r;
  rig_init(&r);
  r.config.max_queue_size = 100;
  rig_start(&r);
  subscribe(&r);
  settle(&r);
  uint64_t from = first_number(&r);
  r.shaping.delay_ns = 1000 * NS_PER_S;
  for (int i = 0; i < 150; i++)
    step(&r);
  collect(&r, 50);
  assert_int_equal(r.n_got, 50);
  assert_int_equal(zmq_number(&r.got[49][1]), from + 49);
  struct kvevents_counts c;
  kvevents_get_counts(r.k, &c);
  assert_int_equal(c.late, 100);
  rig_close(&r);
}

/* The replica's process ends and another begins: numbers from 0, on the same ports, nothing kept.
 */
static void test_a_second_life(void **state) {
  (void)state;
  struct rig r;
  rig_init(&r);
  rig_start(&r);
  char events[160], replay[160];
  snprintf(events, sizeof events, "%s", kvevents_endpoint(r.k, false));
  snprintf(replay, sizeof replay, "%s", kvevents_endpoint(r.k, true));
  subscribe(&r);
  r.shaping.delay_ns = 1000 * NS_PER_S;
  step(&r);
  kvevents_end(r.k);
  step(&r); /* nobody is there to publish it */
  struct kvevents_counts c;
  kvevents_get_counts(r.k, &c);
  assert_int_equal(c.batches + c.sent + c.late + c.kept, 0);
  r.shaping.delay_ns = 0;
  kvevents_restart(r.k);
  zmq_close(r.sub);
  r.sub = NULL;
  assert_string_equal(kvevents_endpoint(r.k, false), events);
  assert_string_equal(kvevents_endpoint(r.k, true), replay);
  r.n_got = 0;
  subscribe(&r); /* as soon as the ports are free */
  settle(&r);
  kvevents_get_counts(r.k, &c);
  assert_true(c.batches > 0 && c.kept == c.batches);
  kvevents_restart(r.k); /* at once, open as it is */
  assert_int_equal(first_number(&r), 0);
  r.n_got = 0;
  zmq_rig_until(&r.z, subscribed, &r); /* the same subscriber finds it again */
  assert_true(first_number(&r) > 0);
  rig_close(&r);
}

static void test_refusals_and_addresses(void **state) {
  (void)state;
  struct rig r, other;
  struct err err = {0};
  rig_init(&r);
  snprintf(r.config.endpoint, sizeof r.config.endpoint, "tcp://*:0");
  r.config.replay = false;
  rig_start(&r);
  assert_memory_equal(kvevents_endpoint(r.k, false), "tcp://127.0.0.1:", 16);
  assert_string_equal(kvevents_endpoint(r.k, true), "");
  other = r;
  snprintf(other.config.endpoint, sizeof other.config.endpoint, "tcp://*:%ld",
           strtol(kvevents_endpoint(r.k, false) + 16, NULL, 10) - 3); /* replica 3 */
  struct kvevents_options o = options(&other);
  assert_int_equal(kvevents_open(&o, &other.k, &err), ERR_IO);
  check_has(err.text, "KV events: tcp://*:");
  check_has(err.text, " is in use; choose another port");
  snprintf(other.config.scheme, sizeof other.config.scheme, "md5");
  assert_int_equal(kvevents_open(&o, &other.k, &err), ERR_NOT_FOUND);
  rig_close(&r);
}

static void test_description(void **state) {
  (void)state;
  struct kvconfig c;
  kvconfig_init(&c);
  struct value v = kvevents_describe_config(&c);
  assert_string_equal(value_to_string(value_get(&v, "encoding")), "map");
  assert_string_equal(value_to_string(value_get(&v, "hashes")), "int");
  assert_string_equal(value_to_string(value_get(&v, "hash_scheme")), "vllm-sha256");
  assert_string_equal(value_to_string(value_get(&v, "hash_seed")), "vllm-none-hash");
  value_free(&v);
  snprintf(c.scheme, sizeof c.scheme, "vllm-xxhash");
  c.encoding = KVWIRE_ARRAY;
  c.raw_hashes = true;
  v = kvevents_describe_config(&c);
  assert_string_equal(value_to_string(value_get(&v, "encoding")), "array");
  assert_string_equal(value_to_string(value_get(&v, "hashes")), "bytes");
  assert_int_equal(value_get(&v, "hash_seed")->kind, VALUE_NULL);
  value_free(&v);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_and_topic),
      cmocka_unit_test(test_lost_ones_leave_a_gap),
      cmocka_unit_test(test_late_ones_keep_their_order),
      cmocka_unit_test(test_a_full_line_pushes),
      cmocka_unit_test(test_a_second_life),
      cmocka_unit_test(test_refusals_and_addresses),
      cmocka_unit_test(test_description),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
