/* Profiles that users write: what they take, what they refuse and how that reads, and the fit. */
#include "check.h"

#include "sim/simconfig.h"
#include "text/json.h"
#include "text/value.h"

static int read_json(const char *json, struct simconfig *c, struct err *err) {
  struct value v;
  check_ok(json_parse(json, strlen(json), &v, err), err);
  int rc = simprofile_read(c, "gpus/mine.lua", &v, err);
  value_free(&v);
  return rc;
}

static struct simconfig read_good(const char *json) {
  struct simconfig c;
  struct err err = {0};
  check_ok(read_json(json, &c, &err), &err);
  check_ok(simconfig_check(&c, &err), &err);
  return c;
}

static void check_refused(const char *json, const char *text) {
  struct simconfig c;
  struct err err = {0};
  assert_int_equal(read_json(json, &c, &err), ERR_INVALID);
  check_has(err.text, "gpus/mine.lua: ");
  check_has(err.text, text);
}

static void every_field(void **state) {
  (void)state;
  struct simconfig c =
      read_good("{\"name\":\"a gpu\",\"summary\":\"one line\",\"prefill_tokens_per_s\":21000.5,"
                "\"prefill_context\":\"9ns\",\"step_overhead\":\"1ms\",\"decode_base\":0.005,"
                "\"decode_seq\":\"4us\",\"decode_context\":\"76ns\",\"request_overhead\":\"15ms\","
                "\"kv_tokens\":400000,\"block_size\":32,\"max_model_len\":32768,"
                "\"max_num_batched_tokens\":4096,\"max_num_seqs\":128,\"prefix_caching\":true,"
                "\"kv_bytes_per_token\":\"128KiB\",\"chunk_tokens\":512,"
                "\"offload\":{\"latency\":\"2us\",\"device\":\"nvme\",\"tokens\":1000000},"
                "\"shared\":{\"tokens\":5000000,\"bytes_per_s\":\"2GB\"},"
                "\"transfer\":{\"bytes_per_s\":\"50GB\",\"latency\":\"1ms\"}}");
  assert_string_equal(c.time.name, "a gpu");
  assert_string_equal(c.time.summary, "one line");
  check_near(c.time.prefill_tokens_per_s, 21000.5, 1e-9);
  check_near(c.time.prefill_context_ns, 9, 1e-9);
  check_near(c.time.step_overhead_ns, 1e6, 1e-6);
  check_near(c.time.decode_base_ns, 5e6, 1e-6);
  check_near(c.time.decode_seq_ns, 4e3, 1e-9);
  check_near(c.time.decode_context_ns, 76, 1e-9);
  assert_int_equal(c.time.request_overhead_ns, 15 * NS_PER_MS);
  assert_int_equal(c.engine.num_blocks, 12501);
  assert_int_equal(c.engine.block_size, 32);
  assert_int_equal(c.engine.max_model_len, 32768);
  assert_int_equal(c.engine.max_num_batched_tokens, 4096);
  assert_int_equal(c.engine.max_num_seqs, 128);
  assert_true(c.engine.enable_prefix_caching && c.engine.reserve_full_isl);
  const struct engine_tiers *t = &c.engine.tiers;
  assert_int_equal(t->kv_bytes_per_token, 131072);
  assert_int_equal(t->chunk_tokens, 512);
  assert_int_equal(t->offload_chunks, 1953);
  assert_int_equal(t->links[ENGINE_OFFLOAD].latency_ns, 2000); /* said apart, over the device */
  check_near(t->links[ENGINE_OFFLOAD].bytes_per_s, 7e9, 0);
  assert_int_equal(c.shared_chunks, 9765);
  assert_int_equal(t->links[ENGINE_SHARED].latency_ns, 30 * NS_PER_MS);
  check_near(t->links[ENGINE_SHARED].bytes_per_s, 2e9, 0);
  assert_int_equal(t->links[ENGINE_TRANSFER].latency_ns, NS_PER_MS);
  check_near(t->links[ENGINE_TRANSFER].bytes_per_s, 50e9, 0);
}

static void what_is_not_said(void **state) {
  (void)state;
  struct simconfig c =
      read_good("{\"prefill_tokens_per_s\":100,\"decode_base\":\"5ms\",\"kv_blocks\":1000}");
  assert_string_equal(c.time.name, "mine");
  assert_string_equal(c.time.summary, "a profile of your own");
  assert_int_equal(c.engine.block_size, 16);
  assert_int_equal(c.engine.num_blocks, 1001);
  assert_int_equal(c.engine.max_model_len, 16000); /* lowered to what the blocks hold */
  assert_int_equal(c.engine.tiers.chunk_tokens, 0);
  check_near(c.time.decode_seq_ns + c.time.decode_context_ns + c.time.step_overhead_ns, 0, 0);
  assert_int_equal(c.time.request_overhead_ns, 0);

  c = read_good("{\"base\":\"qwen3-32b\",\"kv_tokens\":100000}");
  assert_string_equal(c.time.name, "mine");
  assert_string_equal(c.time.summary, "Qwen3-32B bf16 on two H100, tensor parallel");
  check_near(c.time.prefill_tokens_per_s, 15900, 0);
  assert_int_equal(c.engine.num_blocks, 6251);
}

static void mistakes(void **state) {
  (void)state;
#define WHOLE "\"prefill_tokens_per_s\":100,\"decode_base\":0.005,\"kv_tokens\":16000"
  check_refused("[]", "a profile file returns a table with named fields");
  check_refused("{}", "prefill_tokens_per_s is missing: a profile says prefill_tokens_per_s, "
                      "decode_steps (or decode_base) and kv_tokens (or kv_blocks), or names a "
                      "built-in profile as base");
  check_refused("{\"prefill_tokens_per_s\":1}", "decode_steps is missing");
  check_refused("{\"prefill_tokens_per_s\":1,\"decode_base\":1}", "kv_tokens is missing");
  check_refused("{\"base\":\"lama-3.1-8b\"}",
                "base: no profile \"lama-3.1-8b\" (did you mean llama-3.1-8b?)");
  check_refused("{\"base\":3}", "base must be the name of a built-in profile");
  check_refused("{\"base\":\"tiny\",\"prefil_tokens_per_s\":3}",
                "a replica has no field prefil_tokens_per_s (did you mean prefill_tokens_per_s?)");
  check_refused("{\"base\":\"tiny\",\"prefill_tokens_per_s\":-3}",
                "prefill_tokens_per_s=-3: a number of tokens per second is needed, from 0.001 to "
                "1e+12, or 0 for no time at all");
  check_refused("{\"base\":\"tiny\",\"prefill_tokens_per_s\":\"fast\"}",
                "prefill_tokens_per_s=fast: a number of tokens per second");
  check_refused("{\"base\":\"tiny\",\"kv_tokens\":1.5}",
                "kv_tokens=1.5: a whole number from 1 to 4000000000 is needed");
  check_refused("{\"base\":\"tiny\",\"kv_tokens\":3}",
                "kv_tokens=3 are 0 blocks of block_size=16; 1 to 67108863 blocks are possible");
  check_refused("{\"base\":\"tiny\",\"decode_base\":\"5kg\"}",
                "decode_base=5kg: a time from 0 to 24h 00m is needed");
  check_refused("{\"base\":\"tiny\",\"decode_base\":[1]}",
                "decode_base must be a number, a text or true or false");
  check_refused("{\"base\":\"tiny\",\"offload\":5}",
                "offload must be a table, as in offload = { tokens = 1000000, device = \"dram\" }");
  check_refused("{\"base\":\"tiny\",\"transfer\":5}",
                "as in transfer = { bytes_per_s = \"25GB\" }");
  check_refused("{\"base\":\"tiny\",\"offload\":{\"token\":5}}",
                "no field offload_token (did you mean offload_tokens?)");
  check_refused("{\"base\":\"tiny\",\"offload\":{\"device\":\"tape\"}}",
                "offload_device=tape: dram (20 GB/s, 1us), nvme (7 GB/s, 80us) or object (1 GB/s, "
                "30ms) is needed");
  check_refused("{\"base\":\"tiny\",\"offload\":{\"tokens\":100}}",
                "offload_tokens=100: at least one chunk (chunk_tokens=256) is needed");
  check_refused("{\"base\":\"tiny\",\"block_size\":48,\"shared\":{\"tokens\":1000}}",
                "chunk_tokens=256 is no multiple of block_size=48");
  check_refused("{\"base\":\"tiny\",\"shared\":{\"bytes_per_s\":1}}",
                "shared_bytes_per_s=1: bytes a second are needed, from 1000 to 1e+15, as in 20GB");
  check_refused("{" WHOLE ",\"offload\":{\"tokens\":1000}}", "kv_bytes_per_token is missing");
  check_refused("{\"base\":\"tiny\",\"kv_bytes_per_token\":0.5}",
                "kv_bytes_per_token=0.5: bytes from 0 to 1073741824 are needed, as in 131072 or "
                "128KiB");
  check_refused("{\"base\":\"tiny\",\"name\":\"\"}", "name must be a text of 1 to 39 bytes");
  check_refused("{\"base\":\"tiny\",\"summary\":\"a\\nb\"}", "summary must be one line");
  check_refused("{\"base\":\"tiny\",\"name\":\"a\\u0000b\"}", "name must be one line of UTF-8");
  check_refused("{\"base\":\"tiny\\u0000b\"}", "base must be one line of UTF-8");
  check_refused("{\"base\":\"tiny\",\"kv_tokens\":\"4000\\u00000\"}",
                "kv_tokens must be one line of UTF-8");
  check_refused(
      "{\"base\":\"tiny\",\"decode_steps\":[{\"batch\":1,\"context\":10,\"time\":\"1e300h\"}]}",
      "decode_steps[1]: time must be a time from 1ns to 24h");
  check_refused(
      "{\"base\":\"tiny\",\"decode_steps\":[{\"batch\":1,\"context\":10,\"time\":86401}]}",
      "decode_steps[1]: time must be a time from 1ns to 24h");
  check_refused("{\"base\":\"tiny\",\"decode_steps\":[{\"batch\":1,\"context\":10,\"time\":6.9}]}",
                "decode_steps[1]: time = 6.9 would be 6.9 seconds; say the unit: \"6.9ms\", or "
                "\"6.9s\" if it is so");
  check_refused("{\"base\":\"tiny\",\"max_model_len\":100000}",
                "max_model_len=100000 does not fit");
}

static void fit_of_the_published_table(void **state) {
  (void)state;
  struct simconfig c =
      read_good("{\"prefill_tokens_per_s\":30000,\"kv_tokens\":400000,\"step_overhead\":\"1ms\","
                "\"decode_steps\":[{\"batch\":1,\"context\":1024,\"time\":\"6.9ms\"},"
                "{\"batch\":32,\"context\":1024,\"time\":0.0095},{\"batch\":256,\"context\":1024,"
                "\"time\":\"27.9ms\"},{\"batch\":8,\"context\":8192,\"time\":\"11.9ms\"},"
                "{\"batch\":64,\"context\":8192,\"time\":\"47.1ms\"}]}");
  check_near(c.time.decode_base_ns + c.time.step_overhead_ns, 6.82e6, 0.1e6);
  check_near(c.time.decode_context_ns, 76.2, 2);
  check_near(c.time.decode_seq_ns, 4400, 1500);
  assert_int_equal(steptime_step_ns(&c.time, 0, 1, 1024) / 100000, 69);

  c = read_good("{\"prefill_tokens_per_s\":1,\"kv_tokens\":16000,\"decode_steps\":"
                "[{\"batch\":4,\"context\":100,\"time\":\"5ms\"}]}"); /* one point: a constant */
  assert_int_equal(steptime_step_ns(&c.time, 0, 4, 400), 5 * NS_PER_MS);
  c = read_good("{\"prefill_tokens_per_s\":1,\"kv_tokens\":16000,\"decode_steps\":"
                "[{\"batch\":1,\"context\":0,\"time\":\"5ms\"},{\"batch\":3,\"context\":0,"
                "\"time\":\"6ms\"}]}"); /* context was never varied */
  check_near(c.time.decode_base_ns, 4.5e6, 1);
  check_near(c.time.decode_seq_ns, 0.5e6, 1);
  check_near(c.time.decode_context_ns, 0, 0);
  c = read_good("{\"prefill_tokens_per_s\":1,\"kv_tokens\":16000,\"decode_steps\":"
                "[{\"batch\":1,\"context\":0,\"time\":\"5ms\"},{\"batch\":9,\"context\":0,"
                "\"time\":\"4.8ms\"}]}"); /* faster with more: never a negative figure */
  assert_true(c.time.decode_seq_ns >= 0 && c.time.decode_base_ns > 0);
}

static void decode_steps_that_are_wrong(void **state) {
  (void)state;
#define STEPS(list) "{\"prefill_tokens_per_s\":1,\"kv_tokens\":16000,\"decode_steps\":" list "}"
  check_refused(STEPS("[]"), "decode_steps must be a list of 1 to 1000");
  check_refused(STEPS("[5]"), "decode_steps[1]: must be {batch =, context =, time =}");
  check_refused(STEPS("[{\"batch\":1,\"contxt\":1}]"),
                "decode_steps[1]: unknown field contxt; there are batch, context, time");
  check_refused(STEPS("[{\"context\":1,\"time\":1}]"),
                "decode_steps[1]: batch must be a number from 0 to 1000000000");
  check_refused(STEPS("[{\"batch\":0,\"context\":1,\"time\":1}]"), "batch must be 1 or more");
  check_refused(STEPS("[{\"batch\":1,\"context\":1,\"time\":\"0ms\"}]"),
                "time must be a time from 1ns to 24h, as in \"6.9ms\" or 0.0069");
  check_refused(STEPS("[{\"batch\":1,\"context\":1024,\"time\":\"6.9ms\"},"
                      "{\"batch\":8,\"context\":1024,\"time\":\"75ms\"},"
                      "{\"batch\":32,\"context\":1024,\"time\":\"9.5ms\"},"
                      "{\"batch\":64,\"context\":1024,\"time\":\"12.1ms\"}]"),
                "decode_steps[2] (batch 8, context 1024) is 75 ms, where the formula");
  check_refused("{\"prefill_tokens_per_s\":1,\"kv_tokens\":16000,\"step_overhead\":\"9ms\","
                "\"decode_steps\":[{\"batch\":1,\"context\":1,\"time\":\"5ms\"}]}",
                "step_overhead is 9 ms, more than the 5 ms that decode_steps leave");
  check_refused("{\"prefill_tokens_per_s\":1,\"kv_tokens\":16000,\"decode_seq\":\"9ms\","
                "\"decode_steps\":[{\"batch\":1,\"context\":1,\"time\":\"5ms\"}]}",
                "decode_seq and decode_steps say the same; leave one out");
  check_refused("{\"base\":\"tiny\",\"kv_blocks\":900,\"kv_tokens\":16000}",
                "kv_tokens and kv_blocks say the same; leave one out");
}

/* What perigee.fleet.profiles gives is a profile file's table: it makes the same profile. */
static void built_in_profiles_as_tables(void **state) {
  (void)state;
  size_t n;
  const struct steptime_profile *all = steptime_profiles(&n);
  for (size_t i = 0; i < n; i++) {
    struct value v = steptime_describe(&all[i]);
    struct simconfig c, want;
    struct err err = {0};
    check_ok(simprofile_read(&c, "x.lua", &v, &err), &err);
    check_ok(simconfig_init(&want, all[i].name, &err), &err);
    check_ok(simconfig_check(&c, &err), &err);
    check_ok(simconfig_check(&want, &err), &err);
    assert_memory_equal(&c.engine, &want.engine, sizeof c.engine);
    assert_string_equal(c.time.name, all[i].name);
    check_near(c.time.decode_seq_ns, want.time.decode_seq_ns, 1e-6);
    check_near(c.time.decode_context_ns, want.time.decode_context_ns, 1e-6);
    struct engine_step step = {.prefill_tokens = 3000,
                               .prefill_context = 5000000,
                               .decode_tokens = 20,
                               .decode_context = 30000};
    assert_int_equal(steptime_engine_ns(&c.time, &step), steptime_engine_ns(&want.time, &step));
    assert_int_equal(c.time.request_overhead_ns, want.time.request_overhead_ns);
    value_free(&v);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_field),
      cmocka_unit_test(what_is_not_said),
      cmocka_unit_test(mistakes),
      cmocka_unit_test(built_in_profiles_as_tables),
      cmocka_unit_test(fit_of_the_published_table),
      cmocka_unit_test(decode_steps_that_are_wrong),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
