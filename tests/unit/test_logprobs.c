/* test_logprobs.c: log-probabilities in vLLM's forms. */
#include "check.h"

#include "sim/logprobs.h"
#include "sim/responses.h"
#include "text/json.h"

static struct genmodel model = {.name = "m", .max_model_len = 100};
static struct genmodel large = {.name = "m", .max_model_len = 100000};

static struct value told(enum gen_api api, const char *body, bool prompt, uint32_t from,
                         uint32_t to) {
  struct genrequest r;
  struct reply reply;
  struct apierror e = {0};
  struct err err = {0};
  struct buf out;
  struct value v;
  if (genrequest_parse(api, body, strlen(body), &model, &r, &e))
    fail_msg("%s: %s", body, e.message);
  struct reply_options o = {.form = &reply_vllm, .model_of = &model, .model = "m", .id = "i"};
  reply_init(&reply, &r, &o);
  buf_init(&out, BUF_MAX_OWN);
  if (prompt)
    logprobs_put_prompt(&reply, r.choices, &out);
  else
    logprobs_put(&reply, r.choices, from, to, &out);
  *out.data = '{'; /* what stood there is a comma */
  buf_puts(&out, "}");
  check_ok(json_parse(out.data, out.len, &v, &err), &err);
  buf_free(&out);
  reply_free(&reply);
  genrequest_free(&r);
  struct value inner = value_copy(value_get(&v, prompt ? "prompt_logprobs" : "logprobs"));
  value_free(&v);
  return inner;
}

static double number(const struct value *v) {
  double x = 1;
  if (!value_to_double(v, &x))
    fail_msg("no number");
  return x;
}

static void test_chat(void **state) {
  (void)state;
  struct value v = told(GEN_CHAT,
                        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":3,"
                        "\"logprobs\":true,\"top_logprobs\":3}",
                        false, 1, 3);
  const struct value *content = value_get(&v, "content"), *first = value_at(content, 0);
  assert_int_equal(value_count(content), 2);
  const struct value *top = value_get(first, "top_logprobs");
  assert_int_equal(value_count(top), 3);
  assert_string_equal(value_to_string(value_get(first, "token")),
                      value_to_string(value_get(value_at(top, 0), "token")));
  assert_int_equal(value_count(value_get(first, "bytes")), 1);
  double before = 0;
  for (size_t i = 0; i < 3; i++) { /* the sampled one is the likeliest */
    double x = number(value_get(value_at(top, i), "logprob"));
    assert_true(x < before);
    before = x;
  }
  value_free(&v);
  v = told(GEN_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":3}",
           false, 0, 3);
  assert_int_equal(v.kind, VALUE_NULL);
}

static void test_completions(void **state) {
  (void)state;
  struct value v = told(GEN_COMPLETION,
                        "{\"prompt\":\"Hi\",\"max_tokens\":2,\"ignore_eos\":true,\"logprobs\":2,"
                        "\"echo\":true,\"return_tokens_as_token_ids\":true}",
                        false, 0, 2);
  const struct value *tokens = value_get(&v, "tokens"), *top = value_get(&v, "top_logprobs");
  assert_int_equal(value_count(tokens), 4);
  assert_string_equal(value_to_string(value_at(tokens, 0)), "token_id:72");
  assert_string_equal(value_to_string(value_at(tokens, 1)), "token_id:105");
  assert_int_equal(value_at(value_get(&v, "token_logprobs"), 0)->kind, VALUE_NULL);
  assert_true(number(value_at(value_get(&v, "token_logprobs"), 1)) < 0);
  assert_int_equal(value_at(top, 0)->kind, VALUE_NULL);
  assert_int_equal(value_count(value_at(top, 3)), 2);
  for (int i = 0; i < 4; i++)
    assert_int_equal(number(value_at(value_get(&v, "text_offset"), (size_t)i)), i);
  value_free(&v);
  /* a later piece of a stream says where it begins */
  v = told(GEN_COMPLETION,
           "{\"prompt\":\"Hi\",\"max_tokens\":3,\"ignore_eos\":true,\"logprobs\":0}", false, 2, 3);
  assert_int_equal(number(value_at(value_get(&v, "text_offset"), 0)), 2);
  assert_int_equal(value_count(value_at(value_get(&v, "top_logprobs"), 0)), 1);
  value_free(&v);
}

static void test_prompt(void **state) {
  (void)state;
  struct value v = told(GEN_COMPLETION,
                        "{\"prompt\":\"Hi!\",\"max_tokens\":1,\"prompt_logprobs\":2}", true, 0, 0);
  assert_int_equal(value_count(&v), 3);
  assert_int_equal(value_at(&v, 0)->kind, VALUE_NULL);
  const struct value *own = value_get(value_at(&v, 1), "105");
  assert_int_equal(value_count(value_at(&v, 1)), 2);
  assert_int_equal(number(value_get(own, "rank")), 1);
  assert_string_equal(value_to_string(value_get(own, "decoded_token")), "i");
  assert_true(number(value_get(own, "logprob")) < 0);
  value_free(&v);
  v = told(GEN_COMPLETION, "{\"prompt\":\"Hi!\",\"max_tokens\":1}", true, 0, 0);
  assert_int_equal(v.kind, VALUE_NULL);
}

/* What of a request makes it look nothing up. */
static void test_what_is_asked(void **state) {
  (void)state;
  static const struct {
    const char *body;
    int output, prompt;
  } rows[] = {{"{\"prompt\":\"a\"}", -1, -1},
              {"{\"prompt\":\"a\",\"logprobs\":4}", 4, -1},
              {"{\"prompt\":\"a\",\"logprobs\":4,\"echo\":true}", 4, 4},
              {"{\"prompt\":\"a\",\"prompt_logprobs\":0}", -1, 0},
              {"{\"prompt\":\"a\",\"prompt_logprobs\":0,\"stream\":true}", -1, -1},
              {"{\"prompt\":\"a\",\"logprobs\":null,\"prompt_logprobs\":null}", -1, -1}};
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    struct genrequest r;
    struct apierror e = {0};
    if (genrequest_parse(GEN_COMPLETION, rows[i].body, strlen(rows[i].body), &model, &r, &e))
      fail_msg("%s: %s", rows[i].body, e.message);
    assert_int_equal(r.logprobs.output, rows[i].output);
    assert_int_equal(r.logprobs.prompt, rows[i].prompt);
    genrequest_free(&r);
  }
}

/* A reply is made in one go while all replicas wait: what would take long is refused. */
static void check_most(enum gen_api api, const char *body, int code) {
  struct genrequest r;
  struct apierror e = {0};
  int rc = genrequest_parse(api, body, strlen(body), &large, &r, &e);
  if ((rc ? e.status : 200) != code)
    fail_msg("%.300s: %d %s", body, rc, e.message);
  if (rc)
    check_has(e.message, "at most 1048576 in one");
  else
    genrequest_free(&r);
}

/* A stream of Responses ends with the whole response. */
static void check_responses(const char *more, int code) {
  struct genrequest r;
  struct response_ask ask = {0};
  struct response_store none = {0};
  struct apierror e = {0};
  char body[300];
  snprintf(body, sizeof body,
           "{\"input\":\"x\",\"ignore_eos\":true,\"max_output_tokens\":60000,\"top_logprobs\":20,"
           "\"include\":[\"message.output_text.logprobs\"]%s}",
           more);
  int rc = responses_parse(body, strlen(body), &large, &none, &r, &ask, &e);
  assert_int_equal(rc ? e.status : 200, code);
  if (rc)
    check_has(e.message, "at most 1048576 in one");
  else
    genrequest_free(&r);
  response_ask_free(&ask);
}

static void test_how_many_of_responses(void **state) {
  (void)state;
  check_responses("", 400);
  check_responses(",\"stream\":true", 400);
  check_responses(",\"stream\":true,\"top_logprobs\":2", 200);
}

static void test_how_many(void **state) {
  (void)state;
  char prompt[20001], body[21000];
  memset(prompt, 'x', sizeof prompt - 1);
  prompt[sizeof prompt - 1] = '\0';
  static const struct {
    const char *more;
    int n, code;
  } rows[] = {
      {"\"logprobs\":20", 100, 200}, /* of 16 tokens each */
      {"\"logprobs\":20,\"echo\":true", 1, 200},
      {"\"logprobs\":20,\"echo\":true", 2, 400},
      {"\"logprobs\":20,\"echo\":true,\"stream\":true", 2, 400},
      {"\"prompt_logprobs\":20", 2, 200},
      {"\"prompt_logprobs\":20", 3, 400},
      {"\"prompt_logprobs\":0", 50, 200},
      {"\"logprobs\":20,\"max_tokens\":30000,\"ignore_eos\":true", 2, 400},
      {"\"logprobs\":20,\"max_tokens\":30000,\"ignore_eos\":true,\"stream\":true", 2, 200},
      {"\"logprobs\":20,\"max_tokens\":30000,\"ignore_eos\":true,\"stream\":true,"
       "\"stream_interval\":30000",
       2, 400},
  };
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    snprintf(body, sizeof body, "{\"prompt\":\"%s\",\"n\":%d,%s}", prompt, rows[i].n, rows[i].more);
    check_most(GEN_COMPLETION, body, rows[i].code);
  }
  snprintf(body, sizeof body,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"n\":10,\"max_tokens\":9,"
           "\"prompt_logprobs\":20}",
           prompt);
  check_most(GEN_CHAT, body, 200); /* once for all choices */
}

int main(void) {
  struct err err;
  if (tokens_open("bytes", NULL, &model.tokenizer, &err))
    return 1;
  large.tokenizer = model.tokenizer;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chat),     cmocka_unit_test(test_completions),
      cmocka_unit_test(test_prompt),   cmocka_unit_test(test_what_is_asked),
      cmocka_unit_test(test_how_many), cmocka_unit_test(test_how_many_of_responses),
  };
  return cmocka_run_group_tests_name("logprobs", tests, NULL, NULL);
}
