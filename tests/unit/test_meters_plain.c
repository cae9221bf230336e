/* test_meters_plain.c: the pages of TGI and llama.cpp, whole. */
#include "check.h"

#include "sim/meters.h"

static const struct meters_now now = {.model = "m", .running = 3, .waiting = 2, .num_blocks = 10};

static struct buf page(enum meters_style style) {
  struct meters m;
  struct buf b;
  meters_init(&m, style, 20, 5);
  m.prompt_tokens = 100;
  m.cached_tokens = 40;
  m.generation_tokens = 30;
  m.finished[METER_STOP] = 2;
  m.finished[METER_LENGTH] = 1;
  m.finished[METER_ABORT] = 4;
  meters_observe(&m, METER_PREFILL, 0.5);
  meters_observe(&m, METER_DECODE, 2);
  meters_observe(&m, METER_E2E, 0.0002);
  meters_observe(&m, METER_PROMPT_TOKENS, 7);
  m.steps = 10;
  meters_observe(&m, METER_ITERATION_TOKENS, 3); /* of one with output */
  buf_init(&b, BUF_MAX_OWN);
  meters_write(&m, &now, &b);
  meters_free(&m);
  return b;
}

static void test_llama_cpp(void **state) {
  (void)state;
  static const struct {
    const char *name, *type, *value;
  } rows[] = {{"prompt_tokens_total", "counter", "60.0"},
              {"prompt_seconds_total", "counter", "0.5"},
              {"tokens_predicted_total", "counter", "30.0"},
              {"tokens_predicted_seconds_total", "counter", "2.0"},
              {"n_decode_total", "counter", "10.0"},
              {"n_busy_slots_per_decode", "gauge", "3.0"},
              {"prompt_tokens_seconds", "gauge", "120.0"},
              {"predicted_tokens_seconds", "gauge", "15.0"},
              {"requests_processing", "gauge", "3.0"},
              {"requests_deferred", "gauge", "2.0"}};
  struct buf b = page(METERS_LLAMACPP);
  size_t lines = 0;
  for (const char *p = b.data; (p = strchr(p, '\n')); p++)
    lines++;
  assert_int_equal(lines, 3 * ARRAY_LEN(rows));
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    char want[200];
    snprintf(want, sizeof want, "# TYPE llamacpp:%s %s\nllamacpp:%s %s\n", rows[i].name,
             rows[i].type, rows[i].name, rows[i].value);
    check_has(b.data, want);
  }
  buf_free(&b);
}

static void test_tgi(void **state) {
  (void)state;
  struct buf b = page(METERS_TGI);
  check_has(b.data, "# TYPE tgi_request_count counter\ntgi_request_count 12.0\n");
  check_has(b.data, "tgi_request_success 3.0\n");
  check_has(b.data, "tgi_queue_size 2.0\n");
  check_has(b.data, "tgi_batch_current_size 3.0\n");
  check_has(b.data, "tgi_request_duration_bucket{le=\"0.00015000000000000001\"} 0.0\n");
  check_has(b.data, "tgi_request_duration_bucket{le=\"+Inf\"} 1.0\n");
  check_has(b.data, "tgi_request_duration_count 1.0\ntgi_request_duration_sum 0.0002\n");
  check_has(b.data, "tgi_request_input_length_bucket{le=\"5.0\"} 0.0\n"
                    "tgi_request_input_length_bucket{le=\"10.0\"} 1.0\n");
  assert_null(strstr(b.data, "_created"));
  assert_null(strstr(b.data, "model_name"));
  assert_null(strstr(b.data, "vllm:"));
  buf_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_llama_cpp),
      cmocka_unit_test(test_tgi),
  };
  return cmocka_run_group_tests_name("meters_plain", tests, NULL, NULL);
}
