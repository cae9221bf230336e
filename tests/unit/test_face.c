/* test_face.c: faces, their ids and refusals; their replies (reply_faces.c), endpoints (faceapi.c),
 * pages (meterpage.c, meters_sglang.c). Whole streams: tests/e2e/test_faces.py. */
#include "check.h"

#include "base/clock.h"
#include "sim/face.h"
#include "sim/faceapi.h"
#include "sim/meterpage.h"
#include "sim/meters_sglang.h"

static void test_names(void **state) {
  (void)state;
  enum face_kind kind = FACE_VLLM;
  struct err err = {0};
  for (int i = 0; i < FACE_KINDS; i++) {
    check_ok(face_find(face_get((enum face_kind)i)->name, &kind, &err), &err);
    assert_int_equal(kind, i);
    assert_int_equal(face_get(kind)->form->kind, i);
  }
  assert_int_equal(face_find("olama", &kind, &err), ERR_NOT_FOUND);
  check_has(err.text, "no face \"olama\" (did you mean ollama?)");
}

static void check_id(enum face_kind kind, const char *want) {
  char id[64];
  face_id(kind, "chatcmpl-0123abc", id, sizeof id);
  assert_string_equal(id, want);
}

static void test_ids(void **state) {
  (void)state;
  char id[64], again[64];
  check_id(FACE_VLLM, "chatcmpl-0123abc");
  check_id(FACE_SGLANG, "0123abc");
  check_id(FACE_TGI, "");
  check_id(FACE_LLAMACPP, "chatcmpl-0123abc");
  face_id(FACE_OLLAMA, "chatcmpl-0123abc", id, sizeof id);
  face_id(FACE_OLLAMA, "chatcmpl-0123abc", again, sizeof again);
  assert_string_equal(id, again);
  assert_memory_equal(id, "chatcmpl-", 9);
  assert_in_range(strlen(id), 10, 12); /* a number below 999 */
}

static void check_refusal(enum face_kind kind, int status, const char *want) {
  struct apierror e = {0};
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  apierror_set(&e, status, "n", "no");
  face_refusal(kind, &e, &b);
  assert_string_equal(b.data, want);
  buf_free(&b);
}

#define FLAT(type, code)                                                                           \
  "{\"object\":\"error\",\"message\":\"no\",\"type\":\"" type "\",\"param\":null,\"code\":" code "}"
#define LLAMA(type, code) "{\"error\":{\"code\":" code ",\"message\":\"no\",\"type\":\"" type "\"}}"
#define OLLAMA(type)                                                                               \
  "{\"error\":{\"message\":\"no\",\"type\":\"" type "\",\"param\":null,\"code\":null}}"

static void test_refusals(void **state) {
  (void)state;
  check_refusal(FACE_VLLM, 404,
                "{\"error\":{\"message\":\"no\",\"type\":\"NotFoundError\",\"param\":\"n\","
                "\"code\":404}}");
  check_refusal(FACE_SGLANG, 400, FLAT("BadRequestError", "400"));
  check_refusal(FACE_TRTLLM, 404, FLAT("NotFoundError", "404"));
  check_refusal(FACE_TGI, 400, "{\"error\":\"no\",\"error_type\":\"validation\"}");
  check_refusal(FACE_TGI, 429, "{\"error\":\"no\",\"error_type\":\"overloaded\"}");
  check_refusal(FACE_LLAMACPP, 400, LLAMA("invalid_request_error", "400"));
  check_refusal(FACE_LLAMACPP, 404, LLAMA("not_found_error", "404"));
  check_refusal(FACE_LLAMACPP, 500, LLAMA("server_error", "500"));
  check_refusal(FACE_LLAMACPP, 503, LLAMA("unavailable_error", "503"));
  check_refusal(FACE_OLLAMA, 400, OLLAMA("invalid_request_error"));
  check_refusal(FACE_OLLAMA, 404, OLLAMA("not_found_error"));
  check_refusal(FACE_OLLAMA, 500, OLLAMA("api_error"));
  assert_int_equal(face_status(FACE_TGI, 400), 422);
  assert_int_equal(face_status(FACE_TGI, 404), 404);
  assert_int_equal(face_status(FACE_VLLM, 400), 400);
}

/* The golden chunk of fixtures/sse/14: a space behind the role's. */
static void test_an_event_byte_for_byte(void **state) {
  (void)state;
  struct genmodel model = {.name = "m", .max_model_len = 100};
  struct genrequest r;
  struct apierror e = {0};
  struct err err = {0};
  struct reply reply;
  struct events ev;
  struct reply_facts facts = {0};
  static const char body[] = "{\"messages\":[{\"role\":\"u\"}],\"max_tokens\":1,\"stream\":true}";
  struct reply_options o = {
      .form = &reply_trtllm, .model = "m", .id = "chatcmpl-9", .created_s = 1760000000};
  check_ok(tokens_open("bytes", NULL, &model.tokenizer, &err), &err);
  assert_int_equal(genrequest_parse(GEN_CHAT, body, sizeof body - 1, &model, &r, &e), 0);
  reply_init(&reply, &r, &o);
  events_init(&ev);
  reply_trtllm.first(&reply, &facts, &ev);
  assert_string_equal(ev.bytes.data,
                      "data: {\"id\":\"chatcmpl-9\",\"object\":\"chat.completion.chunk\","
                      "\"created\":1760000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{"
                      "\"role\":\"assistant\"}}]} \n\n");
  events_free(&ev);
  reply_free(&reply);
  genrequest_free(&r);
  tokens_close(model.tokenizer);
}

static void test_sglangs_page(void **state) {
  (void)state;
  struct meters m;
  struct buf b;
  struct meters_now now = {.model = "x", .block_size = 16, .num_blocks = 101, .kv_usage = 0.5};
  meters_init(&m, METERS_SGLANG, 1000, 1);
  meters_observe(&m, METER_TTFT, 0.15);
  m.prompt_tokens = 30;
  m.cached_tokens = 20;
  m.external_tokens = m.host_tokens = 5;
  meters_output(&m, 7 * NS_PER_S, 3); /* the first interval has no beginning */
  for (int i = 0; i < 2 * METERS_RATE_STEPS - 1; i++)
    meters_output(&m, 8 * NS_PER_S, i < METERS_RATE_STEPS ? 0 : 2);
  assert_float_equal(m.output_rate, 0, 0);
  for (int i = 0; i < METERS_RATE_STEPS; i++)
    meters_output(&m, 9 * NS_PER_S, 5);
  assert_float_equal(m.output_rate, 200, 1e-9);
  now.running = 1;
  buf_init(&b, BUF_MAX_OWN);
  meters_write(&m, &now, &b);
#define LABELS(more)                                                                               \
  "{engine_type=\"unified\"," more "model_name=\"x\",pp_rank=\"0\",tp_rank=\"0\"} "
  check_has(b.data, "\nsglang:num_used_tokens" LABELS("") "800.0\n");
  check_has(b.data, "\nsglang:gen_throughput" LABELS("") "200.0\n");
  check_has(b.data, "\nsglang:max_total_num_tokens" LABELS("") "1600.0\n");
  check_has(b.data, "\nsglang:cached_tokens_total" LABELS("cache_source=\"host\",") "5.0\n");
  check_has(b.data, "\nsglang:realtime_tokens_total" LABELS("mode=\"prefill_compute\",") "10.0\n");
  check_has(b.data, "\nsglang:time_to_first_token_seconds_bucket" LABELS("le=\"0.1\",") "0.0\n");
  check_has(b.data, "\nsglang:time_to_first_token_seconds_bucket" LABELS("le=\"0.2\",") "1.0\n");
  assert_null(strstr(b.data, "vllm:"));
  buf_free(&b);
  meters_free(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),        cmocka_unit_test(test_ids),
      cmocka_unit_test(test_refusals),     cmocka_unit_test(test_an_event_byte_for_byte),
      cmocka_unit_test(test_sglangs_page),
  };
  return cmocka_run_group_tests_name("face", tests, NULL, NULL);
}
