/* The step-time model against what shared/facts/interfaces.md §8.3 publishes and marks for tests:
 * the decode table within 5 %, prefill rates, KV budgets within 2 %. */
#include "check.h"

#include "kv/steptime.h"

static struct steptime_profile get(const char *name) {
  struct steptime_profile p;
  struct err err;
  check_ok(steptime_get(name, &p, &err), &err);
  assert_string_equal(p.name, name);
  return p;
}

static void check_share(double got, double want, double share, const char *what) {
  if (got < want * (1 - share) || got > want * (1 + share))
    fail_msg("%s: %g, expected %g within %g %%", what, got, want, share * 100);
}

/* Decode step in ms at batch 1, 8, 32, 64, 128, 256. */
static const struct {
  const char *name;
  uint64_t context;
  double ms[6];
} decode_table[] = {
    {"llama-3.1-8b", 1024, {6.9, 7.5, 9.5, 12.1, 17.4, 27.9}},
    {"qwen3-32b", 1024, {15.0, 15.5, 17.5, 20.2, 25.5, 36.0}},
    {"gpt-oss-20b", 1024, {6.5, 6.8, 7.6, 8.7, 10.8, 15.1}},
    {"llama-3.1-8b", 8192, {7.5, 11.9, 26.9, 47.1, 87, 168}},
    {"qwen3-32b", 8192, {15.5, 19.9, 35.0, 55.1, 95, 176}},
    {"gpt-oss-20b", 8192, {6.7, 8.4, 14.1, 21.8, 37, 68}},
};

static void decode_steps_of_the_table(void **state) {
  (void)state;
  static const uint64_t batch[] = {1, 8, 32, 64, 128, 256};
  for (size_t i = 0; i < ARRAY_LEN(decode_table); i++) {
    struct steptime_profile p = get(decode_table[i].name);
    for (size_t k = 0; k < ARRAY_LEN(batch); k++) {
      char what[100];
      snprintf(what, sizeof what, "%s batch %d context %d", p.name, (int)batch[k],
               (int)decode_table[i].context);
      uint64_t ns = steptime_step_ns(&p, 0, batch[k], batch[k] * decode_table[i].context);
      check_share((double)ns / 1e6, decode_table[i].ms[k], 0.05, what);
    }
  }
}

/* TTFT(cold) − TTFT(warm) of a prompt at idle = uncached tokens ÷ rate, chunking included. */
static double prefill_s(const struct steptime_profile *p, uint64_t tokens) {
  double s = 0;
  for (uint64_t chunk; tokens; tokens -= chunk) {
    chunk = tokens < p->max_num_batched_tokens ? tokens : p->max_num_batched_tokens;
    s += (double)steptime_step_ns(p, chunk, 0, 0) / 1e9;
  }
  return s;
}

static void prefill_rates(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double rate, within;
  } cases[] = {{"llama-3.1-8b", 30000, 0.05},
               {"qwen3-32b", 15900, 0.03},
               {"gpt-oss-20b", 45000, 0.05},
               {"tiny", 20000, 0.05}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct steptime_profile p = get(cases[i].name);
    check_share(30000 / prefill_s(&p, 30000), cases[i].rate, cases[i].within, p.name);
    check_share(prefill_s(&p, 6653) - prefill_s(&p, 61), 6592 / cases[i].rate, cases[i].within,
                p.name);
  }
}

/* The figures of the first reference experiment (facts §6.1) on an idle replica: seconds of a
 * prompt of n tokens of which `cached` were cached. */
static double adr04_s(uint64_t n, uint64_t cached) {
  struct steptime_profile p = get("adr-04");
  double s = (double)p.request_overhead_ns / 1e9;
  for (uint64_t done = cached, chunk; done < n; done += chunk) {
    chunk = n - done < p.max_num_batched_tokens ? n - done : p.max_num_batched_tokens;
    struct engine_step step = {.prefill_tokens = (uint32_t)chunk,
                               .prefill_context = chunk * done + chunk * (chunk - 1) / 2};
    s += (double)steptime_engine_ns(&p, &step) / 1e9;
  }
  return s;
}

static void the_reference_host(void **state) {
  (void)state;
  check_share(adr04_s(6653, 0), 1.287, 0.10, "turn 1, or the wrong replica");
  check_share(adr04_s(6653, 6592), 0.315, 0.10, "turn 2 on the right replica");
  check_share(adr04_s(12944, 0), 2.596, 0.10, "salt gate, cold");
  check_share(adr04_s(12944, 12928), 0.283, 0.10, "salt gate, warm");
  check_share(adr04_s(6653, 0) - adr04_s(6653, 6592), 0.971, 0.10, "what a hit saves");
  check_share(adr04_s(12944, 0) - adr04_s(12944, 12928), 2.334, 0.10, "what a long hit saves");
  struct steptime_profile p = get("adr-04");
  assert_int_equal(p.block_size, 64);
}

static void devices(void **state) {
  (void)state;
  struct engine_link link;
  assert_true(steptime_device("dram", &link));
  assert_int_equal(link.latency_ns, 1000);
  check_near(link.bytes_per_s, 20e9, 0);
  assert_true(steptime_device("nvme", &link));
  assert_int_equal(link.latency_ns, 80000);
  assert_true(steptime_device("object", &link));
  assert_int_equal(link.latency_ns, 30 * NS_PER_MS);
  assert_false(steptime_device("tape", &link));
}

static void kv_bytes(void **state) {
  (void)state;
  assert_int_equal(get("llama-3.1-8b").kv_bytes_per_token, 131072);
  assert_int_equal(get("qwen3-32b").kv_bytes_per_token, 262144);
  assert_int_equal(get("gpt-oss-20b").kv_bytes_per_token, 49152);
}

static void kv_budgets(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double tokens, blocks;
  } cases[] = {{"llama-3.1-8b", 421e3, 26.3e3},
               {"qwen3-32b", 290e3, 18.1e3},
               {"gpt-oss-20b", 1.11e6, 69.6e3}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct steptime_profile p = get(cases[i].name);
    struct engine_config c = steptime_engine_config(&p);
    check_share(p.kv_tokens, cases[i].tokens, 0.02, p.name);
    check_share(c.num_blocks - 1, cases[i].blocks, 0.02, p.name);
    assert_int_equal(p.block_size, 16);
    assert_int_equal(p.chunk_tokens, 256);
  }
}

static void one_pass_adds_its_parts(void **state) {
  (void)state;
  struct steptime_profile p = {.prefill_tokens_per_s = 1000,
                               .step_overhead_ns = 7,
                               .decode_base_ns = 1000,
                               .decode_seq_ns = 10,
                               .decode_context_ns = 0.5,
                               .prefill_context_ns = 2};
  assert_int_equal(steptime_step_ns(&p, 0, 0, 0), 7);
  assert_int_equal(steptime_step_ns(&p, 3, 0, 0), 7 + 3000000);
  struct engine_step step = {
      .prefill_tokens = 3, .prefill_context = 100, .decode_tokens = 2, .decode_context = 101};
  assert_int_equal(steptime_engine_ns(&p, &step), 7 + 3000000 + 200 + 1000 + 20 + 51);
  assert_int_equal(steptime_step_ns(&p, 0, 2, 101), 7 + 1000 + 20 + 51); /* 50.5 rounds up */
  struct steptime_profile endless = p; /* no setting makes the number overflow */
  endless.prefill_tokens_per_s = 1e-300;
  assert_int_equal(steptime_step_ns(&endless, 3, 0, 0), STEPTIME_MAX_NS);
  endless.decode_context_ns = 8.64e13;
  assert_int_equal(steptime_step_ns(&endless, 0, 1, 4000000000), STEPTIME_MAX_NS);
  assert_int_equal(steptime_step_ns(&p, 3, 2, 100), 7 + 3000000 + 1000 + 20 + 50);
  p.prefill_tokens_per_s = 0;
  assert_int_equal(steptime_step_ns(&p, 1000000, 0, 0), 7);
}

static void fixed_times(void **state) {
  (void)state;
  struct steptime_profile p = get("fixed");
  struct steptime_profile set = p;
  steptime_set_fixed(&set, 50 * NS_PER_MS, 10 * NS_PER_MS); /* what it is built with */
  assert_memory_equal(&set, &p, sizeof p);

  static const uint64_t ttft[] = {50000000, 10000000, 3000000, 0, 5000000};
  static const uint64_t itl[] = {10000000, 10000000, 10000000, 1000000, 0};
  for (size_t i = 0; i < ARRAY_LEN(ttft); i++) {
    steptime_set_fixed(&p, ttft[i], itl[i]);
    assert_int_equal(p.request_overhead_ns + steptime_step_ns(&p, 5000, 0, 0), ttft[i]);
    assert_int_equal(steptime_step_ns(&p, 0, 1, 5000), itl[i]);
    assert_int_equal(steptime_step_ns(&p, 0, 300, 5000000), itl[i]);
    assert_int_equal(steptime_step_ns(&p, 100000, 4, 400), itl[i]); /* no one is delayed */
  }
}

static void instant_takes_no_time(void **state) {
  (void)state;
  struct steptime_profile p = get("instant");
  assert_int_equal(steptime_step_ns(&p, 8192, 256, 1000000), 0);
  assert_int_equal(p.request_overhead_ns, 0);
}

static void tiny_is_quick_and_small(void **state) {
  (void)state;
  struct steptime_profile p = get("tiny");
  check_share((double)steptime_step_ns(&p, 0, 1, 2000), 5e6, 0.02, "tiny decode");
  assert_int_equal(steptime_engine_config(&p).num_blocks, 2001);
}

/* Every profile makes an engine. */
static void profiles_are_whole(void **state) {
  (void)state;
  size_t n;
  const struct steptime_profile *all = steptime_profiles(&n);
  assert_int_equal(n, 7);
  for (size_t i = 0; i < n; i++) {
    struct engine_config c = steptime_engine_config(&all[i]);
    struct err err;
    struct engine *e = engine_new(&c, &err);
    if (!e)
      fail_msg("%s: %s", all[i].name, err.text);
    assert_int_equal(engine_free_blocks(e), all[i].kv_tokens / all[i].block_size);
    assert_int_equal(all[i].kv_tokens % all[i].block_size, 0);
    assert_true(c.enable_prefix_caching && c.reserve_full_isl);
    assert_int_equal(c.long_prefill_token_threshold, 0);
    assert_true(all[i].summary[0]);
    engine_delete(e);
  }
}

static void unknown_profile(void **state) {
  (void)state;
  struct steptime_profile p;
  struct err err;
  assert_int_equal(steptime_get("llama", &p, &err), ERR_NOT_FOUND);
  assert_string_equal(err.text, "no profile \"llama\"; there are llama-3.1-8b, qwen3-32b, "
                                "gpt-oss-20b, adr-04, tiny, fixed, instant");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decode_steps_of_the_table),
      cmocka_unit_test(prefill_rates),
      cmocka_unit_test(the_reference_host),
      cmocka_unit_test(devices),
      cmocka_unit_test(kv_bytes),
      cmocka_unit_test(kv_budgets),
      cmocka_unit_test(one_pass_adds_its_parts),
      cmocka_unit_test(fixed_times),
      cmocka_unit_test(instant_takes_no_time),
      cmocka_unit_test(tiny_is_quick_and_small),
      cmocka_unit_test(profiles_are_whole),
      cmocka_unit_test(unknown_profile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
