/* test_reply.c: vLLM's replies, byte for byte. */
#include "check.h"

#include "sim/reply.h"
#include "text/json.h"

static struct genmodel model = {.name = "m", .max_model_len = 1000};

struct fixture {
  struct genrequest gen;
  struct reply reply;
  struct buf out;
};

static void setup(struct fixture *f, enum gen_api api, const char *body) {
  struct apierror e = {0};
  if (genrequest_parse(api, body, strlen(body), &model, &f->gen, &e))
    fail_msg("%s", e.message);
  memcpy(f->gen.text, "a\"c", 3); /* known words, one that needs an escape */
  for (size_t i = 0; i < 3; i++)
    f->gen.output[i] = (unsigned char)f->gen.text[i];
  reply_init(&f->reply, &f->gen, "m", api == GEN_CHAT ? "chatcmpl-1" : "cmpl-1", 1760000000);
  buf_init(&f->out, BUF_MAX_OWN);
}

static void teardown(struct fixture *f) {
  reply_free(&f->reply);
  genrequest_free(&f->gen);
  buf_free(&f->out);
}

static void check_out(struct fixture *f, const char *want) {
  assert_string_equal(f->out.data, want);
  buf_reset(&f->out);
}

#define HEAD                                                                                       \
  "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,"      \
  "\"model\":\"m\",\"choices\":["
#define TEXT_HEAD                                                                                  \
  "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1760000000,"                \
  "\"model\":\"m\",\"choices\":["
#define CHAT "{\"messages\":[{\"role\":\"u\"}],\"max_tokens\":3,\"ignore_eos\":true"

static void test_chat_events(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, GEN_CHAT, CHAT ",\"stream\":true}");
  reply_role(&f.reply, &f.out);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                     "\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":null}\n\n");
  reply_delta(&f.reply, 0, 2, false, false, &f.out);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"content\":\"a\\\"\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]}\n\n");
  reply_delta(&f.reply, 2, 3, true, false, &f.out);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"content\":\"c\"},\"logprobs\":null,"
                     "\"finish_reason\":\"length\",\"stop_reason\":null}]}\n\n");
  reply_usage(&f.reply, 0, 3, &f.out);
  check_out(&f, HEAD "],\"usage\":{\"prompt_tokens\":28,\"total_tokens\":31,"
                     "\"completion_tokens\":3}}\n\n");
  reply_usage(&f.reply, 16, 3, &f.out);
  check_out(&f, HEAD "],\"usage\":{\"prompt_tokens\":28,\"total_tokens\":31,"
                     "\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":16}}}"
                     "\n\n");
  reply_done(&f.out);
  check_out(&f, "data: [DONE]\n\n");
  teardown(&f);
}

static void test_continuous_usage_and_token_ids(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, GEN_CHAT,
        CHAT ",\"stream\":true,\"return_token_ids\":true,\"stream_options\":{\"include_usage\":"
             "true,\"continuous_usage_stats\":true}}");
  reply_role(&f.reply, &f.out);
  check_has(f.out.data, "}],\"usage\":{\"prompt_tokens\":28,\"total_tokens\":28,"
                        "\"completion_tokens\":0},\"prompt_token_ids\":[60,124,117,");
  buf_reset(&f.out);
  reply_delta(&f.reply, 1, 3, false, false, &f.out);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"content\":\"\\\"c\"},\"logprobs\":null,"
                     "\"finish_reason\":null,\"token_ids\":[34,99]}],\"usage\":{"
                     "\"prompt_tokens\":28,\"total_tokens\":31,\"completion_tokens\":3}}\n\n");
  teardown(&f);
}

static void test_completion_events(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, GEN_COMPLETION,
        "{\"prompt\":\"xy\",\"max_tokens\":3,\"ignore_eos\":true,\"stream\":"
        "true,\"return_token_ids\":true}");
  reply_delta(&f.reply, 0, 1, false, false, &f.out);
  check_out(&f, TEXT_HEAD "{\"index\":0,\"text\":\"a\",\"logprobs\":null,\"finish_reason\":null,"
                          "\"stop_reason\":null,\"token_ids\":[97],\"prompt_token_ids\":[120,121]}"
                          "]}\n\n");
  reply_delta(&f.reply, 1, 3, true, false, &f.out);
  check_out(&f, TEXT_HEAD "{\"index\":0,\"text\":\"\\\"c\",\"logprobs\":null,\"finish_reason\":"
                          "\"length\",\"stop_reason\":null,\"token_ids\":[34,99]}]}\n\n");
  teardown(&f);
}

static void test_hidden_and_stopped_text(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, GEN_COMPLETION,
        "{\"prompt\":\"xy\",\"max_tokens\":3,\"ignore_eos\":true,\"stream\":"
        "true}");
  reply_delta(&f.reply, 0, 3, true, true, &f.out);
  check_has(f.out.data, "{\"index\":0,\"text\":\"\",\"logprobs\"");
  buf_reset(&f.out);
  f.gen.visible = 1;
  f.gen.stop = (char *)"\"c";
  reply_delta(&f.reply, 0, 2, false, false, &f.out);
  check_has(f.out.data, "\"text\":\"a\",");
  buf_reset(&f.out);
  reply_delta(&f.reply, 2, 3, true, false, &f.out);
  check_has(f.out.data, "\"text\":\"\",");
  check_has(f.out.data, "\"stop_reason\":\"\\\"c\"");
  f.gen.stop = NULL;
  teardown(&f);
}

static void test_whole_replies(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, GEN_CHAT, CHAT "}");
  reply_whole(&f.reply, 0, true, false, &f.out);
  check_out(&f, "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1760000000,"
                "\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                "\"content\":\"a\\\"c\",\"refusal\":null,\"annotations\":null,\"audio\":null,"
                "\"function_call\":null,\"tool_calls\":[],\"reasoning\":null},\"logprobs\":null,"
                "\"finish_reason\":\"length\",\"stop_reason\":null,\"token_ids\":null}],"
                "\"service_tier\":null,\"system_fingerprint\":null,\"usage\":{\"prompt_tokens\":28,"
                "\"total_tokens\":31,\"completion_tokens\":3,\"prompt_tokens_details\":null},"
                "\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"kv_transfer_params\":null}");
  reply_whole(&f.reply, 16, true, false, &f.out);
  check_has(f.out.data, "\"prompt_tokens_details\":{\"cached_tokens\":16}}");
  buf_reset(&f.out);
  reply_whole(&f.reply, 16, false, true, &f.out);
  check_has(f.out.data, "\"content\":\"\",");
  assert_null(strstr(f.out.data, "usage"));
  buf_reset(&f.out);
  teardown(&f);
  setup(&f, GEN_COMPLETION,
        "{\"prompt\":\"xy\",\"max_tokens\":3,\"ignore_eos\":true,"
        "\"return_token_ids\":true}");
  reply_whole(&f.reply, 0, true, false, &f.out);
  struct value v;
  struct err err = {0};
  check_ok(json_parse(f.out.data, f.out.len, &v, &err), &err);
  const struct value *choice = value_at(value_get(&v, "choices"), 0);
  assert_string_equal(value_to_string(value_get(choice, "text")), "a\"c");
  assert_int_equal(value_at(value_get(choice, "token_ids"), 1)->u.integer, 34);
  assert_int_equal(value_at(value_get(choice, "prompt_token_ids"), 1)->u.integer, 121);
  value_free(&v);
  teardown(&f);
}

static void test_thoughts(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, GEN_CHAT, CHAT ",\"stream\":true}");
  f.gen.thought = 2; /* of a"c */
  reply_delta(&f.reply, 0, 1, false, false, &f.out);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"reasoning\":\"a\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]}\n\n");
  reply_delta(&f.reply, 1, 3, false, false, &f.out);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"reasoning\":\"\\\"\",\"content\":\"c\"},"
                     "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
  reply_delta(&f.reply, 2, 3, false, false, &f.out);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"content\":\"c\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]}\n\n");
  reply_delta(&f.reply, 1, 1, false, false, &f.out); /* special tokens alone */
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"content\":\"\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]}\n\n");
  reply_whole(&f.reply, 0, true, false, &f.out);
  check_has(f.out.data, "\"content\":\"c\",");
  check_has(f.out.data, "\"reasoning\":\"a\\\"\"}");
  buf_reset(&f.out);
  reply_whole(&f.reply, 0, true, true, &f.out);
  check_has(f.out.data, "\"content\":\"\",");
  check_has(f.out.data, "\"reasoning\":null}");
  teardown(&f);
}

static void test_error_event(void **state) {
  (void)state;
  struct apierror e = {0};
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  apierror_set(&e, 500, NULL, "no");
  reply_error(&e, &b);
  assert_string_equal(b.data,
                      "data: {\"error\":{\"message\":\"no\",\"type\":\"InternalServerError\","
                      "\"param\":null,\"code\":500}}\n\n");
  buf_free(&b);
}

int main(void) {
  struct err err;
  if (tokens_open("bytes", &model.tokenizer, &err))
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chat_events),
      cmocka_unit_test(test_continuous_usage_and_token_ids),
      cmocka_unit_test(test_completion_events),
      cmocka_unit_test(test_hidden_and_stopped_text),
      cmocka_unit_test(test_whole_replies),
      cmocka_unit_test(test_thoughts),
      cmocka_unit_test(test_error_event),
  };
  return cmocka_run_group_tests_name("reply", tests, NULL, NULL);
}
