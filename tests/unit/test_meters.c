/* test_meters.c: the Prometheus text of a simulated replica. */
#include "check.h"

#include "sim/meters.h"

static const struct meters_now now = {.model = "sim \"x\"",
                                      .running = 3,
                                      .waiting = 12,
                                      .loading = 5,
                                      .kv_usage = 0.4375,
                                      .block_size = 16,
                                      .num_blocks = 26300,
                                      .prefix_caching = true,
                                      .prefix_queries = 20480,
                                      .prefix_hits = 15360,
                                      .external_queries = 5120,
                                      .external_hits = 4096,
                                      .recomputed = 3,
                                      .preemptions = 2};

static struct buf write_text(const struct meters *m) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  meters_write(m, &now, &b);
  return b;
}

#define LABELS "{engine=\"0\",model_name=\"sim \\\"x\\\"\"} "

static void test_gauges_and_counters(void **state) {
  (void)state;
  struct meters m;
  meters_init(&m, METERS_VLLM, 8192, 1760000000.25);
  m.prompt_tokens = 1234567;
  m.cached_tokens = 1000000;
  m.external_tokens = 4000;
  m.generation_tokens = 42;
  m.finished[METER_LENGTH] = 5;
  struct buf b = write_text(&m);
  check_has(b.data,
            "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running" LABELS "3.0\n");
  check_has(b.data, "\nvllm:num_requests_waiting" LABELS "12.0\n");
  check_has(b.data, "\nvllm:kv_cache_usage_perc" LABELS "0.4375\n");
  check_has(b.data, "\n# TYPE vllm:prefix_cache_queries_total counter\n"
                    "vllm:prefix_cache_queries_total" LABELS "20480.0\n");
  check_has(b.data, "\nvllm:prefix_cache_hits_total" LABELS "15360.0\n");
  check_has(b.data,
            "\n# TYPE vllm:prefix_cache_hits_created gauge\nvllm:prefix_cache_hits_created" LABELS
            "1.76000000025e+09\n");
  check_has(b.data, "\nvllm:num_preemptions_total" LABELS "2.0\n");
  check_has(b.data, "\nvllm:prompt_tokens_total" LABELS "1.234567e+06\n");
  check_has(b.data, "\nvllm:prompt_tokens_by_source_total{engine=\"0\",model_name=\"sim "
                    "\\\"x\\\"\",source=\"local_compute\"} 234567.0\n");
  check_has(b.data, "source=\"local_cache_hit\"} 996000.0\n");
  check_has(b.data, "source=\"external_kv_transfer\"} 4000.0\n");
  check_has(b.data, "\nvllm:num_requests_waiting_by_reason{engine=\"0\",model_name=\"sim "
                    "\\\"x\\\"\",reason=\"capacity\"} 7.0\n");
  check_has(b.data, "reason=\"deferred\"} 5.0\n");
  check_has(b.data, "\nvllm:external_prefix_cache_queries_total" LABELS "5120.0\n");
  check_has(b.data, "\nvllm:external_prefix_cache_hits_total" LABELS "4096.0\n");
  check_has(b.data, "\nvllm:prompt_tokens_recomputed_total" LABELS "3.0\n");
  check_has(b.data, "\nvllm:prompt_tokens_cached_total" LABELS "1e+06\n");
  check_has(b.data, "\nvllm:generation_tokens_total" LABELS "42.0\n");
  check_has(b.data, "\nvllm:request_success_total{engine=\"0\",finished_reason=\"length\","
                    "model_name=\"sim \\\"x\\\"\"} 5.0\n");
  check_has(b.data, "\nvllm:engine_sleep_state{engine=\"0\",model_name=\"sim \\\"x\\\"\","
                    "sleep_state=\"awake\"} 1.0\n");
  check_has(b.data, "sleep_state=\"discard_all\"} 0.0\n");
  check_has(b.data, "\nvllm:mm_cache_hits_total" LABELS "0.0\n");
  check_has(b.data, "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\","
                    "enable_prefix_caching=\"True\",engine=\"0\",num_gpu_blocks=\"26300\",");
  buf_free(&b);
  meters_free(&m);
}

static void test_histogram(void **state) {
  (void)state;
  struct meters m;
  meters_init(&m, METERS_VLLM, 8192, 1);
  meters_observe(&m, METER_TTFT, 0.0005);
  meters_observe(&m, METER_TTFT, 0.001); /* an edge belongs to its bucket */
  meters_observe(&m, METER_TTFT, 0.05);
  meters_observe(&m, METER_TTFT, 3000);
  struct buf b = write_text(&m);
#define BUCKET(le, n)                                                                              \
  "\nvllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"" le                                \
  "\",model_name=\"sim \\\"x\\\"\"} " n "\n"
  check_has(b.data, "# TYPE vllm:time_to_first_token_seconds histogram" BUCKET("0.001", "2.0"));
  check_has(b.data, BUCKET("0.04", "2.0"));
  check_has(b.data, BUCKET("0.06", "3.0"));
  check_has(b.data, BUCKET("2560.0", "3.0"));
  check_has(b.data, BUCKET("+Inf", "4.0"));
  check_has(b.data, "\nvllm:time_to_first_token_seconds_count" LABELS "4.0\n");
  check_has(b.data, "\nvllm:time_to_first_token_seconds_sum" LABELS "3000.0515\n");
  check_has(b.data, "# TYPE vllm:iteration_tokens_total histogram\n");
  buf_free(&b);
  meters_free(&m);
}

static void test_length_edges_end_with_the_context(void **state) {
  (void)state;
  struct meters m;
  meters_init(&m, METERS_VLLM, 8192, 1);
  meters_observe(&m, METER_PROMPT_TOKENS, 6000);
  const struct meter_edges *e = &m.edges[METER_PROMPT_TOKENS];
  assert_int_equal(e->n, 12);
  check_near(e->edges[0], 1, 0);
  check_near(e->edges[11], 5000, 0);
  assert_int_equal(m.hists[METER_PROMPT_TOKENS].buckets[12], 1);
  meters_free(&m);
}

/* Every line is a comment or a sample, every family announced once, the text ends in a line feed.
 */
static void test_form(void **state) {
  (void)state;
  struct meters m;
  meters_init(&m, METERS_VLLM, 8192, 1);
  struct buf b = write_text(&m);
  assert_int_equal(b.data[b.len - 1], '\n');
  char *save = NULL;
  for (char *line = strtok_r(b.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    if (strncmp(line, "# HELP vllm:", 12) == 0 || strncmp(line, "# TYPE vllm:", 12) == 0)
      continue;
    char *close = strrchr(line, '}'), *end;
    assert_non_null(close);
    assert_int_equal(strncmp(line, "vllm:", 5), 0);
    strtod(close + 1, &end);
    assert_int_equal(*end, '\0');
  }
  buf_free(&b);
  meters_free(&m);
}

/* Ten times 0.1 one by one is not 1: nor is it at once. */
static void test_many_at_once(void **state) {
  (void)state;
  struct meters one, many;
  meters_init(&one, METERS_VLLM, 8192, 0);
  meters_init(&many, METERS_VLLM, 8192, 0);
  for (int i = 0; i < 10; i++)
    meters_observe(&one, METER_ITL, 0.1);
  meters_observe_times(&many, METER_ITL, 0.1, 10);
  const struct meter_counts *a = &one.hists[METER_ITL], *b = &many.hists[METER_ITL];
  assert_int_equal(b->count, 10);
  assert_true(a->sum == b->sum && b->sum != 1.0);
  assert_int_equal(b->buckets[4], 10); /* up to 0.1 */
  meters_free(&one);
  meters_free(&many);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gauges_and_counters),
      cmocka_unit_test(test_histogram),
      cmocka_unit_test(test_many_at_once),
      cmocka_unit_test(test_length_edges_end_with_the_context),
      cmocka_unit_test(test_form),
  };
  return cmocka_run_group_tests_name("meters", tests, NULL, NULL);
}
