/* test_simconfig.c: profile fields by name. */
#include "check.h"

#include "sim/simconfig.h"

static struct simconfig init(const char *profile) {
  struct simconfig c;
  struct err err = {0};
  check_ok(simconfig_init(&c, profile, &err), &err);
  return c;
}

static void set(struct simconfig *c, const char *text) {
  struct err err = {0};
  check_ok(simconfig_set(c, text, &err), &err);
}

static void check_bad(const char *profile, const char *text, const char *needle) {
  struct simconfig c = init(profile);
  struct err err = {0};
  assert_int_equal(simconfig_set(&c, text, &err), ERR_INVALID);
  check_has(err.text, needle);
}

static void test_every_field(void **state) {
  (void)state;
  struct simconfig c = init("llama-3.1-8b");
  assert_int_equal(c.engine.num_blocks, 26301);
  set(&c, "kv_blocks=500");
  set(&c, "block_size=32");
  set(&c, "max_model_len=4096");
  set(&c, "max_num_batched_tokens=1024");
  set(&c, "max_num_seqs=8");
  set(&c, "long_prefill_token_threshold=256");
  set(&c, "prefix_caching=off");
  set(&c, "prefill_tokens_per_s=12000");
  set(&c, "step_overhead=2ms");
  set(&c, "decode_base=3ms");
  set(&c, "decode_seq=5us");
  set(&c, "decode_context=70ns");
  set(&c, "request_overhead=0");
  set(&c, "watermark=2%");
  assert_true(c.engine.reserve_full_isl && !c.engine.async_scheduling);
  set(&c, "reserve_full_isl=off");
  set(&c, "async_scheduling=on");
  assert_int_equal(c.engine.num_blocks, 501); /* and the null block */
  assert_int_equal(c.engine.block_size, 32);
  assert_int_equal(c.engine.max_model_len, 4096);
  assert_int_equal(c.engine.max_num_batched_tokens, 1024);
  assert_int_equal(c.engine.max_num_seqs, 8);
  assert_int_equal(c.engine.long_prefill_token_threshold, 256);
  assert_false(c.engine.enable_prefix_caching);
  assert_true(!c.engine.reserve_full_isl && c.engine.async_scheduling);
  check_near(c.time.prefill_tokens_per_s, 12000, 0);
  check_near(c.time.step_overhead_ns, 2e6, 1e-3);
  check_near(c.time.decode_base_ns, 3e6, 1e-3);
  check_near(c.time.decode_seq_ns, 5e3, 1e-6);
  check_near(c.time.decode_context_ns, 70, 1e-6);
  assert_int_equal(c.time.request_overhead_ns, 0);
  struct err err = {0};
  check_ok(simconfig_check(&c, &err), &err);
  assert_int_equal(c.engine.max_model_len, 4096);
  assert_int_equal(c.engine.watermark_blocks, 10); /* of 501 */
  assert_false(c.max_model_len_lowered);
}

static void test_fixed_times_in_either_order(void **state) {
  (void)state;
  struct simconfig a = init("fixed"), b = init("fixed");
  set(&a, "ttft=80ms");
  set(&a, "itl=5ms");
  set(&b, "itl=5ms");
  set(&b, "ttft=80ms");
  const struct steptime_profile *both[] = {&a.time, &b.time};
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(steptime_step_ns(both[i], 0, 3, 1000), 5 * NS_PER_MS);
    assert_int_equal(both[i]->request_overhead_ns + steptime_step_ns(both[i], 500, 0, 0),
                     80 * NS_PER_MS);
  }
  /* Only one: the other stays. */
  struct simconfig c = init("fixed");
  set(&c, "itl=2ms");
  assert_int_equal(c.time.request_overhead_ns + steptime_step_ns(&c.time, 1, 0, 0), 50 * NS_PER_MS);
}

static void test_context_is_lowered_unless_it_was_set(void **state) {
  (void)state;
  struct err err = {0};
  struct simconfig c = init("tiny");
  set(&c, "kv_blocks=100");
  check_ok(simconfig_check(&c, &err), &err);
  assert_int_equal(c.engine.max_model_len, 1600);
  assert_true(c.max_model_len_lowered);
  c = init("tiny");
  set(&c, "kv_blocks=100");
  set(&c, "max_model_len=1601");
  assert_int_equal(simconfig_check(&c, &err), ERR_INVALID);
  check_has(err.text, "max_model_len=1601 does not fit: 100 blocks of 16 hold 1600 tokens");
  c = init("tiny");
  set(&c, "max_num_batched_tokens=10");
  assert_int_equal(simconfig_check(&c, &err), ERR_INVALID);
  check_has(err.text, "max_num_batched_tokens=10 is less than max_num_seqs=64");
}

static void test_bad_words(void **state) {
  (void)state;
  struct simconfig c;
  struct err err = {0};
  assert_int_equal(simconfig_init(&c, "tinny", &err), ERR_NOT_FOUND);
  check_has(err.text, "no profile \"tinny\" (did you mean tiny?); there are llama-3.1-8b, ");
  assert_int_equal(simconfig_init(&c, "h200-cluster", &err), ERR_NOT_FOUND);
  check_has(err.text, "there are llama-3.1-8b, ");
  check_bad("tiny", "kv_blocks", "should be key=value");
  check_bad("tiny", "kv_block=3", "no field kv_block (did you mean kv_blocks?)");
  check_bad("tiny", "zzz=3", "a replica has no field zzz; some are kv_blocks");
  check_bad("tiny", "=3", "\"=3\" should be key=value");
  static const char *const whole[] = {"0", "-1", "1.5", "67108864", "1e300", "many", "5s", ""};
  for (size_t i = 0; i < ARRAY_LEN(whole); i++) {
    char text[40];
    snprintf(text, sizeof text, "kv_blocks=%s", whole[i]);
    check_bad("tiny", text, "a whole number from 1 to 67108863 is needed");
    check_bad("tiny", text, text);
  }
  check_bad("tiny", "max_model_len=1", "max_model_len=1: a whole number from 2 to 4000000000");
  check_bad("tiny", "step_overhead=-1ms",
            "step_overhead=-1ms: a time from 0 to 24h 00m is needed, as in 5ms");
  check_bad("tiny", "decode_seq=2d", "decode_seq=2d: a time from 0 to 24h 00m is needed");
  check_bad("tiny", "decode_seq=5%", "decode_seq=5%: a time from 0");
  check_bad("tiny", "prefill_tokens_per_s=1e-9",
            "prefill_tokens_per_s=1e-9: a number of tokens per second is needed, from 0.001 to "
            "1e+12, or 0 for no time at all");
  check_bad("tiny", "prefix_caching=maybe", "on or off is needed");
  check_bad("tiny", "ttft=50ms", "ttft belongs to profile fixed; profile tiny computes its times");
  check_bad("fixed", "ttft=50 parsecs", "ttft");
}

static void test_kv_events(void **state) {
  (void)state;
  struct simconfig c;
  struct err err = {0};
  check_ok(simconfig_init(&c, "tiny", &err), &err);
  assert_false(c.events.on);
  check_ok(simconfig_set(&c, "kv_events=array", &err), &err);
  check_ok(simconfig_set(&c, "kv_events_topic=a=b", &err), &err);
  check_ok(simconfig_set(&c, "hash_seed=", &err), &err);
  assert_true(c.events.on && c.events.seed_set);
  assert_int_equal(c.events.encoding, KVWIRE_ARRAY);
  assert_string_equal(c.events.topic, "a=b");
  assert_int_equal(simconfig_set(&c, "kv_events=maybe", &err), ERR_INVALID);
  check_has(err.text, "kv_events=maybe: on, off, map");
  assert_int_equal(simconfig_set(&c, "kv_event_topic=x", &err), ERR_INVALID);
  check_has(err.text, "a replica has no field kv_event_topic (did you mean kv_events_topic?)");
}

/* Each name is known to simconfig_set: whatever it says of the value, it does not ask for the
 * field. */
static void test_fields_are_listed(void **state) {
  (void)state;
  struct simconfig c;
  struct err err;
  bool blocks = false, hashes = false;
  size_t n = 0;
  for (const char *name; (name = simconfig_field(n)) != NULL; n++) {
    char text[80];
    check_ok(simconfig_init(&c, "tiny", &err), &err);
    snprintf(text, sizeof text, "%s=?", name);
    err.text[0] = '\0';
    if (simconfig_set(&c, text, &err))
      assert_null(strstr(err.text, "has no field"));
    blocks = blocks || strcmp(name, "kv_blocks") == 0;
    hashes = hashes || strcmp(name, "hash_scheme") == 0;
  }
  assert_true(blocks && hashes && n > 30);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kv_events),
      cmocka_unit_test(test_every_field),
      cmocka_unit_test(test_fixed_times_in_either_order),
      cmocka_unit_test(test_context_is_lowered_unless_it_was_set),
      cmocka_unit_test(test_bad_words),
      cmocka_unit_test(test_fields_are_listed),
  };
  return cmocka_run_group_tests_name("simconfig", tests, NULL, NULL);
}
