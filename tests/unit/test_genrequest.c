/* test_genrequest.c: reading generation requests (reqfield.c), and their answers (genanswer.c). */
#include "chatmodel.h"

#include "sim/babble.h"
#include "sim/genrequest.h"

static struct genmodel model = {.name = "sim-model", .max_model_len = 1000, .seed = 9};

static struct genrequest parse(enum gen_api api, const char *body) {
  struct genrequest r;
  struct apierror e = {0};
  if (genrequest_parse(api, body, strlen(body), &model, &r, &e))
    fail_msg("%s: %s", body, e.message);
  return r;
}

static void check_refused(enum gen_api api, const char *body, int status, const char *param,
                          const char *message) {
  struct genrequest r;
  struct apierror e = {0};
  assert_int_equal(genrequest_parse(api, body, strlen(body), &model, &r, &e), ERR_INVALID);
  if (e.status != status || strcmp(e.param, param) != 0)
    fail_msg("%s: got %d %s \"%s\"", body, e.status, e.param, e.message);
  check_has(e.message, message);
  assert_null(r.choices);
}

#define CHAT(extra) "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]" extra "}"

static void test_chat_defaults(void **state) {
  (void)state;
  const char *want = "<|user|>\nHi<|end|>\n<|assistant|>\n";
  struct genrequest r = parse(GEN_CHAT, CHAT(""));
  assert_int_equal(r.choices->prompt_len, strlen(want));
  for (uint32_t i = 0; i < r.choices->prompt_len; i++)
    assert_int_equal(r.choices->tokens[i], want[i]);
  assert_int_equal(r.choices->max_tokens, 1000 - r.choices->prompt_len);
  uint64_t key = babble_key(r.choices->tokens, r.choices->prompt_len, 9);
  assert_int_equal(r.choices->output_len, babble_length(key));
  assert_int_equal(r.choices->visible, r.choices->output_len);
  char text[300];
  babble_text(key, text, r.choices->output_len);
  assert_memory_equal(r.choices->text, text, r.choices->output_len);
  assert_string_equal(r.choices->finish, "stop");
  assert_null(r.choices->stop);
  assert_null(r.salt);
  assert_false(r.stream || r.include_usage || r.continuous_usage || r.return_token_ids);
  assert_int_equal(r.stream_interval, 0); /* the server's */
  genrequest_free(&r);
}

static void test_completion_defaults(void **state) {
  (void)state;
  struct genrequest r = parse(GEN_COMPLETION, "{\"model\":\"sim-model\",\"prompt\":\"abc\"}");
  assert_int_equal(r.choices->prompt_len, 3);
  assert_int_equal(r.choices->max_tokens, 16);
  genrequest_free(&r);
  r = parse(GEN_COMPLETION, "{\"prompt\":\"abc\",\"max_tokens\":null}");
  assert_int_equal(r.choices->max_tokens, 16);
  genrequest_free(&r);
}

static void test_prompt_forms(void **state) {
  (void)state;
  static const char *const bodies[] = {"{\"prompt\":\"A\\u00e9\"}", "{\"prompt\":[\"A\\u00e9\"]}",
                                       "{\"prompt\":[65,195,169]}", "{\"prompt\":[[65,195,169]]}"};
  for (size_t i = 0; i < 4; i++) {
    struct genrequest r = parse(GEN_COMPLETION, bodies[i]);
    assert_int_equal(r.choices->prompt_len, 3);
    assert_int_equal(r.choices->tokens[0], 65);
    assert_int_equal(r.choices->tokens[1], 195);
    assert_int_equal(r.choices->tokens[2], 169);
    genrequest_free(&r);
  }
}

/* One choice a prompt, times n; the first is what n = 1 gives. */
static void test_choices(void **state) {
  (void)state;
  struct genrequest one = parse(GEN_COMPLETION, "{\"prompt\":\"abc\"}"),
                    r = parse(GEN_COMPLETION, "{\"prompt\":[\"abc\",\"de\"],\"n\":2}");
  assert_int_equal(r.n_choices, 4);
  assert_int_equal(r.n, 2);
  assert_int_equal(genrequest_prompt_tokens(&r), 5);
  assert_string_equal(r.choices[0].text, one.choices[0].text);
  assert_string_not_equal(r.choices[0].text, r.choices[1].text);
  assert_int_equal(r.choices[1].prompt_len, 3);
  assert_int_equal(r.choices[2].prompt_len, 2);
  assert_int_equal(r.choices[3].tokens[1], 'e');
  assert_true(r.choices[2].tokens != r.choices[3].tokens);
  genrequest_free(&one);
  genrequest_free(&r);
}

static void test_echo_and_truncation(void **state) {
  (void)state;
  struct genrequest r = parse(GEN_COMPLETION, "{\"prompt\":[72,105],\"echo\":true}");
  assert_int_equal(r.choices->echo_len, 2);
  assert_string_equal(r.choices->echo, "Hi");
  genrequest_free(&r);
  r = parse(GEN_COMPLETION, "{\"prompt\":\"Hi\",\"echo\":true,\"return_token_ids\":true}");
  assert_string_equal(r.choices->echo, ""); /* the ids say it */
  genrequest_free(&r);
  r = parse(GEN_COMPLETION, "{\"prompt\":\"Hi\",\"echo\":true,\"max_tokens\":0}");
  assert_true(r.echo_alone);
  assert_int_equal(r.choices->output_len, 1);
  assert_int_equal(r.choices->visible, 0);
  genrequest_free(&r);
  r = parse(GEN_COMPLETION, "{\"prompt\":\"abcdef\",\"truncate_prompt_tokens\":2}");
  assert_int_equal(r.choices->prompt_len, 2);
  assert_int_equal(r.choices->tokens[0], 'e');
  genrequest_free(&r);
  char *body = malloc(3000);
  memset(body, 'x', 3000);
  memcpy(body, "{\"truncate_prompt_tokens\":-1,\"prompt\":\"", 39);
  memcpy(body + 2990, "\"}", 3);
  r = parse(GEN_COMPLETION, body);
  assert_int_equal(r.choices->prompt_len, 999);
  genrequest_free(&r);
  free(body);
}

static void test_cutting_a_choice(void **state) {
  (void)state;
  struct genrequest r = parse(GEN_COMPLETION, "{\"prompt\":\"abc\",\"ignore_eos\":true}");
  genrequest_cut(r.choices, 5, "abort");
  assert_int_equal(r.choices->output_len, 5);
  assert_int_equal(r.choices->visible, 5);
  assert_string_equal(r.choices->finish, "abort");
  genrequest_cut(r.choices, 0, "abort");
  assert_int_equal(r.choices->visible, 0);
  genrequest_free(&r);
}

static void test_lengths(void **state) {
  (void)state;
  struct genrequest r = parse(GEN_CHAT, CHAT(",\"max_tokens\":500,\"ignore_eos\":true"));
  assert_int_equal(r.choices->output_len, 500);
  assert_string_equal(r.choices->finish, "length");
  genrequest_free(&r);
  r = parse(GEN_CHAT, CHAT(",\"max_tokens\":500,\"max_completion_tokens\":7"));
  assert_int_equal(r.choices->max_tokens, 7);
  assert_int_equal(r.choices->output_len, 7);
  assert_string_equal(r.choices->finish, "length");
  genrequest_free(&r);
  r = parse(GEN_CHAT, CHAT(",\"min_tokens\":600"));
  assert_int_equal(r.choices->output_len, 600);
  assert_string_equal(r.choices->finish, "stop");
  genrequest_free(&r);
}

static void test_output_depends_on_prompt_and_seed_alone(void **state) {
  (void)state;
  struct genrequest a = parse(GEN_CHAT, CHAT(",\"max_tokens\":50,\"ignore_eos\":true")),
                    b = parse(GEN_CHAT,
                              CHAT(",\"max_tokens\":50,\"ignore_eos\":true,\"stream\":true,"
                                   "\"temperature\":0.7,\"cache_salt\":\"s\"")),
                    c = parse(GEN_CHAT, CHAT(",\"max_tokens\":50,\"ignore_eos\":true,\"seed\":3"));
  assert_string_equal(a.choices->text, b.choices->text);
  assert_string_not_equal(a.choices->text, c.choices->text);
  assert_string_equal(b.salt, "s");
  genrequest_free(&a);
  genrequest_free(&b);
  genrequest_free(&c);
}

static void test_stream_options(void **state) {
  (void)state;
  struct genrequest r = parse(
      GEN_CHAT, CHAT(",\"stream\":true,\"stream_interval\":4,\"return_token_ids\":true,"
                     "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true},"
                     "\"request_id\":\"mine\""));
  assert_true(r.stream && r.include_usage && r.continuous_usage && r.return_token_ids);
  assert_int_equal(r.stream_interval, 4);
  assert_string_equal(r.request_id, "mine");
  genrequest_free(&r);
  r = parse(GEN_CHAT,
            CHAT(",\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":true}"));
  assert_false(r.include_usage || r.continuous_usage);
  genrequest_free(&r);
}

static void test_stop_string_ends_the_answer(void **state) {
  (void)state;
  struct genrequest all = parse(GEN_CHAT, CHAT(",\"max_tokens\":200,\"ignore_eos\":true"));
  char stop[4] = {all.choices->text[40], all.choices->text[41], all.choices->text[42], 0},
       body[256];
  const char *hit = strstr(all.choices->text, stop);
  snprintf(body, sizeof body,
           CHAT(",\"max_tokens\":200,\"ignore_eos\":true,\"stop\":[\"##\",\"%s\"]"), stop);
  struct genrequest r = parse(GEN_CHAT, body);
  assert_int_equal(r.choices->visible, hit - all.choices->text);
  assert_int_equal(r.choices->output_len, r.choices->visible + 3);
  assert_string_equal(r.choices->finish, "stop");
  assert_string_equal(r.choices->stop, stop);
  genrequest_free(&r);
  /* Not before min_tokens. */
  snprintf(body, sizeof body,
           CHAT(",\"max_tokens\":200,\"ignore_eos\":true,\"min_tokens\":%d,\"stop\":\"%s\""),
           (int)(hit - all.choices->text) + 3, stop);
  r = parse(GEN_CHAT, body);
  assert_true(r.choices->output_len > (uint32_t)(hit - all.choices->text) + 3);
  genrequest_free(&r);
  genrequest_free(&all);
}

static void test_context_limits(void **state) {
  (void)state;
  char body[2200];
  char prompt[1001];
  memset(prompt, 'x', 1000);
  prompt[1000] = '\0';
  snprintf(body, sizeof body, "{\"prompt\":\"%s\"}", prompt);
  check_refused(
      GEN_COMPLETION, body, 400, "input_tokens",
      "This model's maximum context length is 1000 tokens. However, your request has 1000 "
      "input tokens. Please reduce the length of the input messages.");
  prompt[995] = '\0';
  snprintf(body, sizeof body, "{\"prompt\":\"%s\",\"max_tokens\":6}", prompt);
  check_refused(GEN_COMPLETION, body, 400, "max_tokens",
                "'max_tokens' or 'max_completion_tokens' is too large: 6. This model's maximum "
                "context length is 1000 tokens and your request has 995 input tokens (6 > 1000 - "
                "995).");
  snprintf(body, sizeof body, "{\"prompt\":\"%s\",\"max_tokens\":5,\"ignore_eos\":true}", prompt);
  struct genrequest r = parse(GEN_COMPLETION, body);
  assert_int_equal(r.choices->output_len, 5);
  genrequest_free(&r);
  snprintf(body, sizeof body, "{\"prompt\":\"%s\"}", prompt);
  r = parse(GEN_COMPLETION, body);
  assert_int_equal(r.choices->max_tokens, 5);
  genrequest_free(&r);
}

static void test_refusals_name_the_field(void **state) {
  (void)state;
  check_refused(GEN_CHAT, "{", 400, "", "body is not valid JSON");
  check_refused(GEN_CHAT, "[]", 400, "", "body should be a JSON object");
  check_refused(GEN_CHAT, CHAT(",\"model\":\"gpt\""), 404, "model",
                "The model `gpt` does not exist.");
  check_refused(GEN_CHAT, CHAT(",\"model\":3"), 400, "model", "model should be a string");
  check_refused(GEN_CHAT, "{}", 400, "messages", "messages: field required");
  check_refused(GEN_COMPLETION, "{}", 400, "prompt", "prompt: field required");
  check_refused(GEN_COMPLETION, "{\"prompt\":\"\"}", 400, "prompt", "should not be empty");
  check_refused(GEN_COMPLETION, "{\"prompt\":[]}", 400, "prompt", "should not be empty");
  check_refused(GEN_COMPLETION, "{\"prompt\":[\"a\",5]}", 400, "prompt", "a list of strings");
  check_refused(GEN_COMPLETION, "{\"prompt\":[\"a\",\"\"]}", 400, "prompt", "should not be empty");
  check_refused(GEN_COMPLETION, "{\"prompt\":[\"a\",\"b\"],\"n\":200}", 400, "prompt",
                "2 prompts with n=200 are 400 choices");
  check_refused(GEN_COMPLETION, "{\"prompt\":[1,256]}", 400, "prompt",
                "Token id 256 is out of vocabulary");
  check_refused(GEN_COMPLETION, "{\"prompt\":[1,-1]}", 400, "prompt",
                "prompt[1] should be a token id");
  check_refused(GEN_COMPLETION, "{\"prompt\":5}", 400, "prompt", "a string, a list of strings");
  check_refused(GEN_CHAT, CHAT(",\"max_tokens\":0"), 400, "max_tokens",
                "max_tokens must be at least 1, got 0.");
  check_refused(GEN_CHAT, CHAT(",\"max_tokens\":\"9\""), 400, "max_tokens", "a whole number");
  check_refused(GEN_CHAT, CHAT(",\"n\":0"), 400, "n", "n must be at least 1, got 0.");
  check_refused(GEN_CHAT, CHAT(",\"n\":300"), 400, "n", "n must be at most 256, got 300.");
  check_refused(GEN_CHAT, CHAT(",\"n\":2,\"temperature\":0"), 400, "n",
                "n must be 1 when using greedy sampling, got 2.");
  check_refused(GEN_CHAT, CHAT(",\"temperature\":-1"), 400, "temperature",
                "temperature must be non-negative, got -1.");
  check_refused(GEN_CHAT, CHAT(",\"top_p\":0"), 400, "top_p", "top_p must be in (0, 1], got 0.");
  check_refused(GEN_CHAT, CHAT(",\"top_p\":\"1\""), 400, "top_p", "top_p should be a number");
  check_refused(GEN_CHAT, CHAT(",\"truncate_prompt_tokens\":2000"), 400, "truncate_prompt_tokens",
                "greater than max_model_len (1000)");
  check_refused(GEN_CHAT, CHAT(",\"kv_transfer_params\":1"), 400, "kv_transfer_params",
                "should be an object");
  check_refused(GEN_COMPLETION, "{\"prompt\":\"a\",\"logprobs\":21}", 400, "logprobs",
                "Requested sample logprobs of 21, which is greater than max allowed: 20");
  check_refused(GEN_COMPLETION, "{\"prompt\":\"a\",\"prompt_logprobs\":1,\"stream\":true}", 400,
                "prompt_logprobs", "`prompt_logprobs` are not available when `stream=True`.");
  check_refused(GEN_COMPLETION, "{\"prompt\":\"a\",\"max_tokens\":0}", 400, "max_tokens",
                "max_tokens must be at least 1, got 0.");
  check_refused(GEN_CHAT, CHAT(",\"stream\":1"), 400, "stream", "should be true or false");
  check_refused(GEN_CHAT, CHAT(",\"stream_options\":{}"), 400, "stream_options",
                "Stream options can only be defined when `stream=True`.");
  check_refused(GEN_CHAT, CHAT(",\"stream_interval\":0"), 400, "stream_interval", "at least 1");
  check_refused(GEN_CHAT, CHAT(",\"cache_salt\":\"\""), 400, "cache_salt", "1 to 1024 characters");
  check_refused(GEN_CHAT, CHAT(",\"max_tokens\":5,\"min_tokens\":6"), 400, "min_tokens",
                "less than or equal to max_tokens=5, got 6.");
  check_refused(GEN_CHAT, CHAT(",\"tool_choice\":1"), 400, "tool_choice", "a string or an object");
  check_refused(GEN_CHAT, CHAT(",\"logprobs\":true,\"top_logprobs\":21"), 400, "top_logprobs",
                "Requested sample logprobs of 21, which is greater than max allowed: 20");
  check_refused(GEN_CHAT, CHAT(",\"top_logprobs\":2"), 400, "top_logprobs",
                "when using `top_logprobs`, `logprobs` must be set to true.");
  check_refused(GEN_COMPLETION, "{\"prompt\":\"a\",\"logprobs\":-1}", 400, "logprobs",
                "`logprobs` must be a positive value.");
  check_refused(GEN_COMPLETION, "{\"prompt\":\"a\",\"prompt_logprobs\":-2}", 400, "prompt_logprobs",
                "`prompt_logprobs` must be a positive value or -1.");
  check_refused(GEN_COMPLETION, "{\"prompt\":\"a\",\"prompt_logprobs\":-1}", 400, "prompt_logprobs",
                "Requested prompt logprobs of 256, which is greater than max allowed: 20");
  check_refused(GEN_CHAT, CHAT(",\"response_format\":{\"type\":\"json_object\"}"), 400,
                "response_format", "json_object");
  check_refused(GEN_CHAT, CHAT(",\"stop\":\"\""), 400, "stop", "empty string");
  check_refused(GEN_CHAT, CHAT(",\"stop\":[3]"), 400, "stop", "a list of strings");
  struct genrequest r = parse(GEN_CHAT, CHAT(",\"logprobs\":false,\"whatever\":[1]"));
  genrequest_free(&r);
}

/* ---- with a model's tokenizer ---- */

static struct chatmodel folder;
static struct genmodel real;

static void with_model(struct genrequest *r, enum gen_api api, const char *body) {
  struct apierror e = {0};
  if (genrequest_parse(api, body, strlen(body), &real, r, &e))
    fail_msg("%s: %s", body, e.message);
}

static void open_real(void) {
  struct err err = {0};
  struct genmodel_options o = {.tokenizer = folder.folder};
  chatmodel_make(&folder, chatmodel_template);
  real = (struct genmodel){.name = "sim-model", .max_model_len = 1000, .seed = 9};
  check_ok(genmodel_open(&real, &o, &err), &err);
}

static void close_real(void) {
  genmodel_close(&real);
  chatmodel_remove(&folder);
}

static void test_an_answer_ends_with_the_models_end(void **state) {
  (void)state;
  struct genrequest r, cut;
  open_real();
  with_model(&r, GEN_CHAT, CHAT(""));
  assert_string_equal(r.choices->finish, "stop");
  assert_int_equal(r.choices->output[r.choices->output_len - 1], CHATMODEL_END);
  assert_int_equal(r.choices->visible, r.choices->shown[r.choices->output_len - 2]);
  assert_int_equal(r.choices->visible, strlen(r.choices->text));
  assert_int_equal(r.choices->hidden, 0);
  with_model(&cut, GEN_CHAT, CHAT(",\"max_tokens\":7"));
  assert_string_equal(cut.choices->finish, "length");
  assert_int_equal(cut.choices->output_len, 7);
  assert_memory_equal(cut.choices->output, r.choices->output, 7 * sizeof *r.choices->output);
  assert_int_equal(cut.choices->visible, r.choices->shown[6]);
  genrequest_free(&cut);
  with_model(&cut, GEN_CHAT, CHAT(",\"min_tokens\":500"));
  assert_true(cut.choices->output_len > 500); /* the end comes behind them */
  genrequest_free(&cut);
  genrequest_free(&r);
  close_real();
}

/* The next turn's prompt begins with the prompt and every sampled id. */
static void test_history_repeats_the_sampled_ids(void **state) {
  (void)state;
  struct genrequest r, next;
  struct buf body;
  open_real();
  for (int seed = 0; seed < 40; seed++) {
    buf_init(&body, BUF_MAX_OWN);
    buf_printf(&body, CHAT(",\"seed\":%d"), seed);
    with_model(&r, GEN_CHAT, body.data);
    buf_reset(&body);
    buf_puts(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":"
                    "\"assistant\",\"content\":");
    json_write_string(&body, r.choices->text, r.choices->visible);
    buf_puts(&body, "},{\"role\":\"user\",\"content\":\"more\"}]}");
    with_model(&next, GEN_CHAT, body.data);
    assert_true(next.choices->prompt_len > r.choices->prompt_len + r.choices->output_len);
    assert_memory_equal(next.choices->tokens, r.choices->tokens,
                        r.choices->prompt_len * sizeof *r.choices->tokens);
    assert_memory_equal(next.choices->tokens + r.choices->prompt_len, r.choices->output,
                        r.choices->output_len * sizeof *r.choices->output);
    genrequest_free(&next);
    genrequest_free(&r);
    buf_free(&body);
  }
  close_real();
}

static void test_stop_strings_over_tokens(void **state) {
  (void)state;
  struct genrequest all, r;
  char body[256];
  open_real();
  with_model(&all, GEN_CHAT, CHAT(",\"max_tokens\":200,\"ignore_eos\":true"));
  /* From the middle of one token into the next. */
  uint32_t middle = all.choices->shown[60];
  snprintf(body, sizeof body, CHAT(",\"max_tokens\":200,\"ignore_eos\":true,\"stop\":\"%.*s\""), 4,
           all.choices->text + middle - 2);
  const char *hit =
      memmem(all.choices->text, strlen(all.choices->text), all.choices->text + middle - 2, 4);
  with_model(&r, GEN_CHAT, body);
  assert_string_equal(r.choices->finish, "stop");
  assert_int_equal(r.choices->visible, hit - all.choices->text);
  assert_true(r.choices->shown[r.choices->output_len - 1] >=
              r.choices->visible + 4); /* it is complete with the last token */
  assert_true(r.choices->shown[r.choices->output_len - 2] < r.choices->visible + 4);
  genrequest_free(&r);
  genrequest_free(&all);
  close_real();
}

/* What would keep a whole fleet waiting, or take all memory, is refused before it is made. */
static void test_size(void **state) {
  (void)state;
  struct buf body;
  buf_init(&body, BUF_MAX_OWN);
  for (int api = GEN_CHAT; api <= GEN_COMPLETION; api++) {
    buf_reset(&body);
    buf_puts(&body, api == GEN_CHAT ? "{\"n\":256,\"messages\":[{\"role\":\"user\",\"content\":\""
                                    : "{\"n\":256,\"prompt\":\"");
    for (int i = 0; i < 40000; i++)
      buf_putc(&body, 'x');
    buf_puts(&body, api == GEN_CHAT ? "\"}]}" : "\"}");
    check_refused((enum gen_api)api, body.data, 400, "n", "more than 8388608 tokens in all");
  }
  buf_free(&body);
  uint32_t before = model.max_model_len;
  model.max_model_len = 100000;
  check_refused(GEN_COMPLETION,
                "{\"prompt\":\"a\",\"n\":200,\"max_tokens\":50000,\"ignore_eos\":true}", 400, "n",
                "more than 8388608 tokens in all");
  struct genrequest r =
      parse(GEN_COMPLETION, "{\"prompt\":\"a\",\"n\":200,\"max_tokens\":50000}"); /* they end */
  genrequest_free(&r);
  model.max_model_len = before;
}

int main(void) {
  struct err err;
  if (tokens_open("bytes", NULL, &model.tokenizer, &err))
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_answer_ends_with_the_models_end),
      cmocka_unit_test(test_history_repeats_the_sampled_ids),
      cmocka_unit_test(test_stop_strings_over_tokens),
      cmocka_unit_test(test_chat_defaults),
      cmocka_unit_test(test_completion_defaults),
      cmocka_unit_test(test_prompt_forms),
      cmocka_unit_test(test_choices),
      cmocka_unit_test(test_echo_and_truncation),
      cmocka_unit_test(test_cutting_a_choice),
      cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_output_depends_on_prompt_and_seed_alone),
      cmocka_unit_test(test_stream_options),
      cmocka_unit_test(test_stop_string_ends_the_answer),
      cmocka_unit_test(test_context_limits),
      cmocka_unit_test(test_refusals_name_the_field),
      cmocka_unit_test(test_size),
  };
  return cmocka_run_group_tests_name("genrequest", tests, NULL, NULL);
}
