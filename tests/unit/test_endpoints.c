/* test_endpoints.c: what a replica answers besides generation. */
#include "simtest.h"

static struct simtest sim;

static int start(void **state) {
  (void)state;
  static const char *const sets[] = {"kv_blocks=1000", "max_model_len=8192", NULL};
  simtest_start(&sim, 1, "instant", sets, NULL, NULL);
  return 0;
}

static int stop(void **state) {
  (void)state;
  simtest_stop(&sim);
  return 0;
}

static struct simtest_answer get(const char *path) {
  return simtest_ask(sim.ports[0], "GET", path, NULL, NULL);
}

static void test_models_and_health(void **state) {
  (void)state;
  struct simtest_answer a = get("/v1/models");
  assert_int_equal(a.status, 200);
  check_has(a.data, "x-inference-pod: r0\r\nContent-Type: application/json\r\n");
  struct value v = simtest_json(&a);
  const struct value *m = value_at(value_get(&v, "data"), 0);
  assert_string_equal(value_to_string(value_get(m, "id")), "sim-model");
  assert_string_equal(value_to_string(value_get(m, "root")), "sim-model");
  assert_int_equal(value_get(m, "parent")->kind, VALUE_NULL);
  assert_int_equal(simtest_int(m, "max_model_len"), 8192);
  assert_true(value_get(m, "simulated")->u.boolean);
  assert_int_equal(simtest_int(m, "block_size"), 16);
  assert_string_equal(value_to_string(value_get(m, "tokenizer")), "bytes");
  assert_null(value_get(m, "tokenizer_hash"));
  assert_string_equal(value_to_string(value_get(m, "template")), "sim");
  assert_null(value_get(m, "template_hash"));
  assert_non_null(value_to_string(value_get(m, "now")));
  value_free(&v);
  simtest_free(&a);
  static const char *const paths[] = {"/health", "/ping"};
  for (size_t i = 0; i < 2; i++) {
    a = get(paths[i]);
    assert_int_equal(a.status, 200);
    assert_true(a.complete);
    assert_int_equal(a.body_len, 0);
    simtest_free(&a);
  }
}

static void test_unknown_path_and_method(void **state) {
  (void)state;
  struct simtest_answer a = get("/v1/nothing");
  assert_int_equal(a.status, 404);
  assert_string_equal(a.body, "{\"error\":{\"message\":\"Not Found\",\"type\":\"Not Found\","
                              "\"param\":null,\"code\":404}}");
  simtest_free(&a);
  a = get("/v1/chat/completions");
  assert_int_equal(a.status, 405);
  simtest_free(&a);
}

static void check_post(const char *path, const char *body, int status, const char *want) {
  struct simtest_answer a = simtest_post(sim.ports[0], path, body);
  if (a.status != status)
    fail_msg("%s %s: %d %s", path, body, a.status, a.body);
  assert_string_equal(a.body, want);
  simtest_free(&a);
}

static void test_tokenize(void **state) {
  (void)state;
  check_post("/tokenize", "{\"prompt\":\"A\\u00e9\"}", 200,
             "{\"count\":3,\"max_model_len\":8192,\"tokens\":[65,195,169],\"token_strs\":null}");
  check_post("/tokenize", "{\"prompt\":\"A\\u00e9\\u0000\",\"return_token_strs\":true}", 200,
             "{\"count\":4,\"max_model_len\":8192,\"tokens\":[65,195,169,0],\"token_strs\":[\"A\","
             "\"<0xC3>\",\"<0xA9>\",\"\\u0000\"]}");
  check_post("/tokenize", "{\"prompt\":\"\"}", 200,
             "{\"count\":0,\"max_model_len\":8192,\"tokens\":[],\"token_strs\":null}");
  check_post("/tokenize", "{}", 400,
             "{\"error\":{\"message\":\"prompt: a string is required, or messages\",\"type\":"
             "\"BadRequestError\",\"param\":\"prompt\",\"code\":400}}");
  check_post("/tokenize", "{\"model\":\"x\",\"prompt\":\"\"}", 404,
             "{\"error\":{\"message\":\"The model `x` does not exist.\",\"type\":"
             "\"NotFoundError\",\"param\":\"model\",\"code\":404}}");
}

/* The count of the messages form is the prompt_tokens of the same request. */
static void test_tokenize_messages_agrees_with_usage(void **state) {
  (void)state;
  static const char body[] =
      "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":"
      "\"na\\u00efve\"}],\"tools\":[{\"type\":\"function\"}],\"max_tokens\":1}";
  struct simtest_answer a = simtest_post(sim.ports[0], "/tokenize", body),
                        b = simtest_post(sim.ports[0], "/v1/chat/completions", body);
  struct value v = simtest_json(&a), w = simtest_json(&b);
  assert_int_equal(simtest_int(&v, "count"), simtest_int(value_get(&w, "usage"), "prompt_tokens"));
  assert_int_equal(value_count(value_get(&v, "tokens")), simtest_int(&v, "count"));
  value_free(&v);
  value_free(&w);
  simtest_free(&a);
  simtest_free(&b);
}

static void test_detokenize(void **state) {
  (void)state;
  check_post("/detokenize", "{\"tokens\":[72,105,195,169]}", 200, "{\"prompt\":\"Hi\xc3\xa9\"}");
  check_post("/detokenize", "{\"tokens\":[]}", 200, "{\"prompt\":\"\"}");
  check_post("/detokenize", "{\"tokens\":[195]}", 200, "{\"prompt\":\"\xef\xbf\xbd\"}");
  check_post("/detokenize", "{\"tokens\":[300]}", 400,
             "{\"error\":{\"message\":\"Token id 300 is out of vocabulary\",\"type\":"
             "\"BadRequestError\",\"param\":\"tokens\",\"code\":400}}");
  check_post("/detokenize", "{}", 400,
             "{\"error\":{\"message\":\"tokens: a list of token ids is required\",\"type\":"
             "\"BadRequestError\",\"param\":\"tokens\",\"code\":400}}");
}

static double metric(const char *text, const char *series) {
  const char *at = strstr(text, series);
  if (!at)
    fail_msg("no series %s", series);
  return strtod(at + strlen(series), NULL);
}

#define M "{engine=\"0\",model_name=\"sim-model\"} "

/* Known traffic: a prompt of 100 tokens twice, 5 and 7 tokens out, each in one request. */
static void test_metrics_after_known_traffic(void **state) {
  (void)state;
  struct simtest t;
  static const char *const sets[] = {"kv_blocks=100", NULL};
  simtest_start(&t, 1, "instant", sets, NULL, NULL);
  char prompt[101], body[200];
  memset(prompt, 'm', 100);
  prompt[100] = '\0';
  for (int i = 0; i < 2; i++) {
    snprintf(body, sizeof body, "{\"prompt\":\"%s\",\"max_tokens\":%d,\"ignore_eos\":true}", prompt,
             5 + 2 * i);
    struct simtest_answer a = simtest_post(t.ports[0], "/v1/completions", body);
    assert_int_equal(a.status, 200);
    simtest_free(&a);
  }
  struct simtest_answer a = simtest_ask(t.ports[0], "GET", "/metrics", NULL, NULL);
  check_has(a.data, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
  const char *m = a.body;
  check_near(metric(m, "\nvllm:prompt_tokens_total" M), 200, 0);
  check_near(metric(m, "\nvllm:generation_tokens_total" M), 12, 0);
  check_near(metric(m, "\nvllm:prefix_cache_queries_total" M), 200, 0);
  check_near(metric(m, "\nvllm:prefix_cache_hits_total" M), 96, 0);
  check_near(metric(m, "\nvllm:prompt_tokens_cached_total" M), 96, 0);
  check_near(metric(m, "\nvllm:num_preemptions_total" M), 0, 0);
  check_near(metric(m, "\nvllm:num_requests_running" M), 0, 0);
  check_near(metric(m, "\nvllm:kv_cache_usage_perc" M), 0, 0);
  check_near(metric(m, "source=\"local_compute\"} "), 104, 0);
  check_near(metric(m, "source=\"local_cache_hit\"} "), 96, 0);
  check_near(metric(m, "finished_reason=\"length\",model_name=\"sim-model\"} "), 2, 0);
  check_near(metric(m, "\nvllm:time_to_first_token_seconds_count" M), 2, 0);
  check_near(metric(m, "\nvllm:inter_token_latency_seconds_count" M), 10, 0);
  check_near(metric(m, "\nvllm:iteration_tokens_total_sum" M), 212, 0);
  check_near(metric(m, "\nvllm:iteration_tokens_total_count" M), 12, 0);
  check_near(metric(m, "\nvllm:request_prompt_tokens_sum" M), 200, 0);
  check_near(metric(m, "\nvllm:request_generation_tokens_sum" M), 12, 0);
  check_near(metric(m, "\nvllm:e2e_request_latency_seconds_count" M), 2, 0);
  check_has(m, "num_gpu_blocks=\"101\"");
  simtest_free(&a);
  simtest_stop(&t);
}

static int64_t cached(const char *prompt) {
  char body[300];
  snprintf(body, sizeof body, "{\"prompt\":\"%s\",\"max_tokens\":1}", prompt);
  struct simtest_answer a = simtest_post(sim.ports[0], "/v1/completions", body);
  struct value v = simtest_json(&a);
  int64_t n = 0;
  value_to_int(
      value_get(value_get(value_get(&v, "usage"), "prompt_tokens_details"), "cached_tokens"), &n);
  value_free(&v);
  simtest_free(&a);
  return n;
}

static void test_reset_prefix_cache(void **state) {
  (void)state;
  static const char prompt[] = "reset me: forty bytes and a bit more than that";
  cached(prompt);
  assert_int_equal(cached(prompt), 32);
  struct simtest_answer a = simtest_post(sim.ports[0], "/reset_prefix_cache", "");
  assert_int_equal(a.status, 200);
  assert_int_equal(a.body_len, 0);
  simtest_free(&a);
  assert_int_equal(cached(prompt), 0);
}

/* 200 without a word, and nothing was reset, while a request holds blocks. */
static void test_reset_is_refused_in_silence(void **state) {
  (void)state;
  struct simtest t;
  static const char *const sets[] = {"kv_blocks=500", NULL};
  simtest_start(&t, 1, "tiny", sets, NULL, NULL);
  int fd = simtest_connect(t.ports[0]);
  simtest_send(fd, "POST", "/v1/completions", NULL,
               "{\"prompt\":\"a prompt of more than sixteen\",\"max_tokens\":4000,\"ignore_eos\":"
               "true,\"stream\":true}");
  simtest_wait_state(&t, 0, "running", 1);
  struct simtest_answer a = simtest_post(t.ports[0], "/reset_prefix_cache", "");
  assert_int_equal(a.status, 200);
  simtest_free(&a);
  struct value v = simtest_admin(&t, "POST", "/admin/reset_cache", "{}", 409); /* which says so */
  check_has(value_to_string(value_get(&v, "error")), "no cache was reset: replica r0 has ");
  value_free(&v);
  a = simtest_post(t.ports[0], "/reset_prefix_cache?reset_running_requests=true", "");
  assert_int_equal(a.status, 200);
  simtest_free(&a);
  simtest_wait_state(&t, 0, "preemptions", 1);
  close(fd);
  simtest_stop(&t);
}

static void test_faults_reach_other_paths_when_named(void **state) {
  (void)state;
  struct value v = simtest_admin(&sim, "POST", "/admin/fault",
                                 "{\"fault\":\"503 path=/v1/models count=1\"}", 200);
  value_free(&v);
  v = simtest_admin(&sim, "POST", "/admin/fault",
                    "{\"fault\":\"stall for=100ms path=/health count=1\"}", 200);
  value_free(&v);
  v = simtest_admin(&sim, "POST", "/admin/fault",
                    "{\"fault\":\"slow bytes=500 delay=1ms path=/metrics count=1\"}", 200);
  value_free(&v);
  struct simtest_answer a = get("/v1/models");
  assert_int_equal(a.status, 503);
  simtest_free(&a);
  a = get("/health");
  assert_int_equal(a.status, 200);
  assert_true(a.first_ns - a.sent_ns >= 95 * NS_PER_MS);
  simtest_free(&a);
  a = get("/metrics");
  assert_true(a.complete && a.chunks > 10);
  assert_int_equal(a.body[a.body_len - 1], '\n');
  simtest_free(&a);
  a = get("/v1/models");
  assert_int_equal(a.status, 200);
  simtest_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_models_and_health),
      cmocka_unit_test(test_unknown_path_and_method),
      cmocka_unit_test(test_tokenize),
      cmocka_unit_test(test_tokenize_messages_agrees_with_usage),
      cmocka_unit_test(test_detokenize),
      cmocka_unit_test(test_metrics_after_known_traffic),
      cmocka_unit_test(test_reset_prefix_cache),
      cmocka_unit_test(test_reset_is_refused_in_silence),
      cmocka_unit_test(test_faults_reach_other_paths_when_named),
  };
  return cmocka_run_group_tests_name("endpoints", tests, start, stop);
}
