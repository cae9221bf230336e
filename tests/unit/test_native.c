/* test_native.c: bodies of SGLang's /generate and llama.cpp's /completion. Their answers
 * (reply_native.c), byte for byte: tests/e2e/test_faces.py. */
#include "check.h"

#include "sim/native.h"

static struct genmodel model = {.name = "m", .max_model_len = 200, .block_size = 16};

static int parse(enum face_kind kind, const char *body, struct genrequest *r, struct apierror *e) {
  *e = (struct apierror){0};
  return native_parse(kind, body, strlen(body), &model, r, e);
}

static struct genrequest taken(enum face_kind kind, const char *body) {
  struct genrequest r;
  struct apierror e;
  if (parse(kind, body, &r, &e))
    fail_msg("%s: %s", body, e.message);
  return r;
}

static void check_refused(enum face_kind kind, const char *body, const char *want) {
  struct genrequest r;
  struct apierror e;
  assert_int_equal(parse(kind, body, &r, &e), ERR_INVALID);
  assert_int_equal(e.status, 400);
  check_has(e.message, want);
}

static void test_who_has_one(void **state) {
  (void)state;
  assert_true(native_has(FACE_SGLANG, "/generate"));
  assert_true(native_has(FACE_LLAMACPP, "/completion"));
  assert_true(native_has(FACE_LLAMACPP, "/completions"));
  assert_false(native_has(FACE_VLLM, "/generate"));
  assert_false(native_has(FACE_SGLANG, "/completion"));
  assert_null(native_path(FACE_TGI));
}

static void test_generate(void **state) {
  (void)state;
  struct genrequest r =
      taken(FACE_SGLANG, "{\"text\":\"Hi\",\"sampling_params\":{\"ignore_eos\":true}}");
  assert_int_equal(r.choices[0].max_tokens, 128); /* SGLang's default */
  assert_int_equal(r.choices[0].output_len, 128);
  assert_false(r.list);
  genrequest_free(&r);
  r = taken(FACE_SGLANG, "{\"input_ids\":[72,105],\"rid\":\"x\",\"stream\":true,"
                         "\"sampling_params\":{\"max_new_tokens\":900}}");
  assert_int_equal(r.choices[0].max_tokens, 198); /* what the context leaves */
  assert_true(r.stream);
  assert_string_equal(r.request_id, "x");
  assert_false(r.list);
  genrequest_free(&r);
  r = taken(FACE_SGLANG, "{\"input_ids\":[[72],[105,1]],\"sampling_params\":{\"n\":2}}");
  assert_int_equal(r.n_choices, 4);
  assert_true(r.list);
  genrequest_free(&r);
  r = taken(FACE_SGLANG, "{\"text\":[\"one\"]}");
  assert_true(r.list); /* a list of one is answered with one */
  genrequest_free(&r);
  check_refused(FACE_SGLANG, "{}", "Either text, input_ids");
  check_refused(FACE_SGLANG, "{\"text\":\"x\",\"sampling_params\":3}", "should be an object");
  check_refused(FACE_SGLANG, "{\"text\":\"x\",\"return_logprob\":true}", "return_logprob");
}

static void test_completion(void **state) {
  (void)state;
  struct genrequest r =
      taken(FACE_LLAMACPP, "{\"prompt\":\"Hi\",\"return_progress\":true,\"sse_ping_interval\":-1}");
  assert_int_equal(r.choices[0].max_tokens, 198); /* n_predict is −1 by default */
  assert_true(r.progress);
  assert_int_equal(r.ping_s, -1);
  genrequest_free(&r);
  r = taken(FACE_LLAMACPP, "{\"prompt\":[72,105],\"n_predict\":7,\"return_tokens\":true}");
  assert_int_equal(r.choices[0].max_tokens, 7);
  assert_true(r.return_token_ids);
  assert_true(r.ping_s == GENREQUEST_NO_PING);
  genrequest_free(&r);
  check_refused(FACE_LLAMACPP, "{}", "\"prompt\" is missing");
  check_refused(FACE_LLAMACPP, "{\"prompt\":\"x\",\"n_probs\":3}", "n_probs");
  check_refused(FACE_LLAMACPP, "{\"prompt\":\"x\",\"n_predict\":-2}", "at least -1");
}

static void test_refusals(void **state) {
  (void)state;
  struct apierror e = {0};
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  apierror_set(&e, 400, "text", "no");
  native_refusal(FACE_SGLANG, &e, &b);
  assert_string_equal(b.data, "{\"error\":{\"message\":\"no\"}}");
  buf_reset(&b);
  native_refusal(FACE_LLAMACPP, &e, &b);
  assert_string_equal(
      b.data, "{\"error\":{\"code\":400,\"message\":\"no\",\"type\":\"invalid_request_error\"}}");
  buf_free(&b);
}

static int open_model(void **state) {
  (void)state;
  struct err err;
  struct genmodel_options o = {0};
  return genmodel_open(&model, &o, &err);
}

static int close_model(void **state) {
  (void)state;
  genmodel_close(&model);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_who_has_one),
      cmocka_unit_test(test_generate),
      cmocka_unit_test(test_completion),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, open_model, close_model);
}
