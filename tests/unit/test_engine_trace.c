/* Reading traces: what arrives in the structures, and every refusal with its text. */
#include "check.h"

#include "kv/engine_trace.h"

#define CONFIG                                                                                     \
  "\"num_blocks\":5,\"block_size\":4,\"max_num_batched_tokens\":8,\"max_num_seqs\":2,"             \
  "\"enable_prefix_caching\":true,\"max_model_len\":16"

static void read_into_structures(void **state) {
  (void)state;
  const char *json =
      "{\"about\":\"ignored\",\"config\":{" CONFIG ",\"long_prefill_token_threshold\":7,"
      "\"reserve_full_isl\":false},\"requests\":["
      "{\"id\":\"a\",\"arrival_step\":3,\"prompt\":[1,2147483647],\"output\":[5,6,7],"
      "\"salt\":\"s\",\"abort_at_step\":3},"
      "{\"id\":\"b\",\"arrival_step\":0,\"prompt\":[0],\"output\":[9],\"salt\":null,"
      "\"abort_at_step\":null}],\"resets\":[{\"step\":3,\"reset_running\":true},{\"step\":0}]}";
  struct engine_trace t;
  struct err err;
  check_ok(engine_trace_read(json, strlen(json), &t, &err), &err);
  assert_int_equal(t.config.num_blocks, 5);
  assert_int_equal(t.config.long_prefill_token_threshold, 7);
  assert_true(t.config.enable_prefix_caching);
  assert_false(t.config.reserve_full_isl);
  assert_int_equal(t.n_requests, 2);
  const struct engine_trace_request *a = &t.requests[0];
  assert_string_equal(a->id->u.string.data, "a");
  assert_int_equal(a->req.prompt_len, 2);
  assert_int_equal(a->req.tokens[1], 2147483647);
  assert_int_equal(a->req.max_output, 3);
  assert_string_equal(a->req.salt, "s");
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(a->req.sample(a->req.user, &a->req, i), 5 + i);
  assert_null(t.requests[1].req.salt);

  const struct engine_trace_input want[] = {{0, ENGINE_TRACE_ARRIVAL, 1, false},
                                            {0, ENGINE_TRACE_RESET, 1, false},
                                            {3, ENGINE_TRACE_ARRIVAL, 0, false},
                                            {3, ENGINE_TRACE_ABORT, 0, false},
                                            {3, ENGINE_TRACE_RESET, 0, true}};
  assert_int_equal(t.n_inputs, ARRAY_LEN(want));
  for (size_t i = 0; i < ARRAY_LEN(want); i++) {
    assert_int_equal(t.inputs[i].step, want[i].step);
    assert_int_equal(t.inputs[i].kind, want[i].kind);
    assert_int_equal(t.inputs[i].index, want[i].index);
    assert_int_equal(t.inputs[i].reset_running, want[i].reset_running);
  }
  engine_trace_free(&t);
}

static void defaults(void **state) {
  (void)state;
  const char *json = "{\"config\":{" CONFIG "},\"requests\":[]}";
  struct engine_trace t;
  check_ok(engine_trace_read(json, strlen(json), &t, NULL), &(struct err){.text = ""});
  assert_true(t.config.reserve_full_isl);
  assert_int_equal(t.config.long_prefill_token_threshold, 0);
  assert_int_equal(t.n_inputs, 0);
  engine_trace_free(&t);
}

static void check_refused(const char *config, const char *rest, int code, const char *text) {
  char json[2000];
  snprintf(json, sizeof json, "{\"config\":{%s}%s}", config, rest);
  struct engine_trace t;
  struct err err;
  int rc = engine_trace_read(json, strlen(json), &t, &err);
  if (rc != code)
    fail_msg("%s: rc %d, expected %d (%s)", json, rc, code, rc ? err.text : "");
  check_has(err.text, text);
  assert_int_equal(engine_trace_read(json, strlen(json), &t, NULL), code);
}

static void bad_requests(void **state) {
  (void)state;
  static const struct {
    const char *request, *text;
  } cases[] = {
      {"5", "requests[0]: not an object"},
      {"{}", "requests[0]: arrival_step is missing"},
      {"{\"arival_step\":0}",
       "requests[0]: unknown key \"arival_step\"; did you mean \"arrival_step\"?"},
      {"{\"arrival_step\":0}", "requests[0]: id must be a string"},
      {"{\"id\":1,\"arrival_step\":0}", "id must be a string"},
      {"{\"id\":\"a\",\"arrival_step\":-1}", "arrival_step must be an integer from 0 to 1000000"},
      {"{\"id\":\"a\",\"arrival_step\":1000001}", "arrival_step must be an integer"},
      {"{\"id\":\"a\",\"arrival_step\":1.5}", "arrival_step must be an integer"},
      {"{\"id\":\"a\",\"arrival_step\":4,\"abort_at_step\":3}",
       "abort_at_step must be an integer from 4 to 1000000"},
      {"{\"id\":\"a\",\"arrival_step\":0,\"salt\":\"\"}", "salt must not be empty"},
      {"{\"id\":\"a\",\"arrival_step\":0,\"salt\":\"x\\u0000y\"}",
       "salt must not be empty or hold a NUL"},
      {"{\"id\":\"a\",\"arrival_step\":0,\"salt\":3}", "salt must be a string or null"},
      {"{\"id\":\"a\",\"arrival_step\":0}", "prompt must be an array of at least one token id"},
      {"{\"id\":\"a\",\"arrival_step\":0,\"prompt\":[]}", "prompt must be an array of at least"},
      {"{\"id\":\"a\",\"arrival_step\":0,\"prompt\":[1,-1]}",
       "requests[0]: prompt[1] must be an integer from 0 to 2147483647"},
      {"{\"id\":\"a\",\"arrival_step\":0,\"prompt\":[2147483648]}", "prompt[0] must be"},
      {"{\"id\":\"a\",\"arrival_step\":0,\"prompt\":[1]}", "output must be an array of at least"},
      {"{\"id\":\"a\",\"arrival_step\":0,\"prompt\":[1],\"output\":[\"x\"]}", "output[0] must be"},
      {"{\"id\":\"a\",\"arrival_step\":0,\"output\":[1],\"prompt\":[1,2,3,4,5,6,7,8,9,10,11,12,13,"
       "14,15,16]}",
       "prompt has 16 tokens; with max_model_len 16 it can have 15"},
      {"{\"id\":\"a\",\"arrival_step\":0,\"prompt\":[1],\"output\":[1]},"
       "{\"id\":\"b\",\"arrival_step\":0,\"prompt\":[1],\"output\":[1]},"
       "{\"id\":\"a\",\"arrival_step\":0,\"prompt\":[1],\"output\":[1]}",
       "trace: requests: id \"a\" is there twice"},
      {"{\"id\":\"a\",\"arrival_step\":0,\"prompt\":[1],\"output\":[1]},7",
       "requests[1]: not an object"},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    char rest[1000];
    snprintf(rest, sizeof rest, ",\"requests\":[%s]", cases[i].request);
    check_refused(CONFIG, rest, ERR_INVALID, cases[i].text);
  }
}

static void bad_config_and_frame(void **state) {
  (void)state;
  const char *none = ",\"requests\":[]";
  check_refused("", none, ERR_INVALID, "trace: config: num_blocks is missing");
  check_refused("\"num_blocks\":-1", none, ERR_INVALID,
                "trace: config: num_blocks must be an integer from 0 to 4294967295");
  check_refused(CONFIG ",\"watermark\":0.1", none, ERR_INVALID,
                "trace: config: unknown key \"watermark\"");
  check_refused(CONFIG ",\"enable_chunked_prefill\":false", none, ERR_UNSUPPORTED,
                "trace: config: enable_chunked_prefill is false");
  check_refused(CONFIG ",\"reserve_full_isl\":1", none, ERR_INVALID,
                "reserve_full_isl must be true or false");
  check_refused("\"num_blocks\":5,\"block_size\":4,\"max_num_batched_tokens\":8,"
                "\"max_num_seqs\":2,\"max_model_len\":16",
                none, ERR_INVALID, "enable_prefix_caching is missing");
  check_refused(CONFIG, "", ERR_INVALID, "trace: requests must be an array");
  check_refused(CONFIG, ",\"requests\":[],\"resets\":{}", ERR_INVALID,
                "trace: resets must be an array");
  check_refused(CONFIG, ",\"requests\":[],\"resets\":[{}]", ERR_INVALID,
                "trace: resets[0]: step is missing");
  check_refused(CONFIG, ",\"requests\":[],\"resets\":[{\"step\":0,\"reset_running\":0}]",
                ERR_INVALID, "resets[0]: reset_running must be true or false");

  struct engine_trace t;
  struct err err;
  assert_int_equal(engine_trace_read("[]", 2, &t, &err), ERR_INVALID);
  assert_string_equal(err.text, "trace: not an object");
  assert_int_equal(engine_trace_read("{}", 2, &t, &err), ERR_INVALID);
  assert_string_equal(err.text, "trace: config: missing");
  assert_int_equal(engine_trace_read("{", 1, &t, &err), ERR_INVALID);
  check_has(err.text, "trace: ");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(read_into_structures),
      cmocka_unit_test(defaults),
      cmocka_unit_test(bad_requests),
      cmocka_unit_test(bad_config_and_frame),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
