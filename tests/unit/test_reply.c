/* test_reply.c: vLLM's replies (reply_vllm.c), byte for byte; events.c. */
#include "check.h"

#include "sim/events.h"
#include "sim/reply.h"
#include "text/json.h"

static struct genmodel model = {.name = "m", .max_model_len = 1000};

struct fixture {
  struct genrequest gen;
  struct reply reply;
  struct events events;
  struct buf out;
};

/* What the form appended to the events goes to `out`. */
static void take(struct fixture *f) {
  buf_put(&f->out, f->events.bytes.data, f->events.bytes.len);
  events_reset(&f->events);
}

static void role(struct fixture *f) {
  struct reply_facts facts = {0};
  reply_vllm.first(&f->reply, &facts, &f->events);
  take(f);
}

static void delta(struct fixture *f, uint32_t choice, uint32_t from, uint32_t to, bool last) {
  struct reply_facts facts = {0};
  reply_vllm.tokens(&f->reply, choice, from, to, last, &facts, &f->events);
  take(f);
}

static void finish(struct fixture *f, uint32_t cached, uint32_t completion) {
  struct reply_facts facts = {.cached = cached, .created = 5, .completion = completion};
  reply_vllm.end(&f->reply, &facts, &f->events);
  take(f);
}

static void whole(struct fixture *f, uint32_t cached, bool usage, bool hide) {
  struct reply_facts facts = {.cached = cached, .created = 5, .completion = 3};
  f->reply.o.no_usage = !usage;
  f->reply.o.hide = hide;
  reply_vllm.whole(&f->reply, &facts, &f->out);
  f->reply.o.no_usage = f->reply.o.hide = false;
}

static void setup(struct fixture *f, enum gen_api api, const char *body) {
  struct apierror e = {0};
  if (genrequest_parse(api, body, strlen(body), &model, &f->gen, &e))
    fail_msg("%s", e.message);
  memcpy(f->gen.choices->text, "a\"c", 3); /* known words, one that needs an escape */
  for (size_t i = 0; i < 3; i++)
    f->gen.choices->output[i] = (unsigned char)f->gen.choices->text[i];
  struct reply_options o = {.form = &reply_vllm,
                            .model = "m",
                            .id = api == GEN_CHAT ? "chatcmpl-1" : "cmpl-1",
                            .created_s = 1760000000};
  reply_init(&f->reply, &f->gen, &o);
  events_init(&f->events);
  buf_init(&f->out, BUF_MAX_OWN);
}

static void teardown(struct fixture *f) {
  reply_free(&f->reply);
  genrequest_free(&f->gen);
  events_free(&f->events);
  buf_free(&f->out);
}

static void check_out(struct fixture *f, const char *want) {
  assert_string_equal(f->out.data, want);
  buf_reset(&f->out);
}

#define HEAD                                                                                       \
  "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,"      \
  "\"model\":\"m\",\"choices\":["
#define DONE "data: [DONE]\n\n"
#define TEXT_HEAD                                                                                  \
  "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1760000000,"                \
  "\"model\":\"m\",\"choices\":["
#define CHAT "{\"messages\":[{\"role\":\"u\"}],\"max_tokens\":3,\"ignore_eos\":true"

static void test_chat_events(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, GEN_CHAT, CHAT ",\"stream\":true}");
  role(&f);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                     "\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":null}\n\n");
  delta(&f, 0, 0, 2, false);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"content\":\"a\\\"\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]}\n\n");
  delta(&f, 0, 2, 3, true);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"content\":\"c\"},\"logprobs\":null,"
                     "\"finish_reason\":\"length\",\"stop_reason\":null}]}\n\n");
  f.gen.include_usage = true;
  finish(&f, 0, 3);
  check_out(&f, HEAD "],\"usage\":{\"prompt_tokens\":28,\"total_tokens\":31,"
                     "\"completion_tokens\":3}}\n\n" DONE);
  finish(&f, 16, 3);
  check_out(&f, HEAD "],\"usage\":{\"prompt_tokens\":28,\"total_tokens\":31,"
                     "\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":16,"
                     "\"created_cache_tokens\":5}}}"
                     "\n\n" DONE);
  f.reply.o.no_cached = true;
  finish(&f, 16, 3);
  check_out(&f, HEAD "],\"usage\":{\"prompt_tokens\":28,\"total_tokens\":31,"
                     "\"completion_tokens\":3}}\n\n" DONE);
  f.gen.include_usage = false;
  finish(&f, 16, 3);
  check_out(&f, DONE);
  teardown(&f);
}

static void test_continuous_usage_and_token_ids(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, GEN_CHAT,
        CHAT ",\"stream\":true,\"return_token_ids\":true,\"stream_options\":{\"include_usage\":"
             "true,\"continuous_usage_stats\":true}}");
  role(&f);
  check_has(f.out.data, "}],\"usage\":{\"prompt_tokens\":28,\"total_tokens\":28,"
                        "\"completion_tokens\":0},\"prompt_token_ids\":[60,124,117,");
  buf_reset(&f.out);
  delta(&f, 0, 1, 3, false);
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
  delta(&f, 0, 0, 1, false);
  check_out(&f, TEXT_HEAD "{\"index\":0,\"text\":\"a\",\"logprobs\":null,\"finish_reason\":null,"
                          "\"stop_reason\":null,\"token_ids\":[97],\"prompt_token_ids\":[120,121]}"
                          "]}\n\n");
  delta(&f, 0, 1, 3, true);
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
  f.reply.o.hide = true;
  delta(&f, 0, 0, 3, true);
  f.reply.o.hide = false;
  check_has(f.out.data, "{\"index\":0,\"text\":\"\",\"logprobs\"");
  buf_reset(&f.out);
  f.gen.choices->visible = 1;
  f.gen.choices->stop = (char *)"\"c";
  delta(&f, 0, 0, 2, false);
  check_has(f.out.data, "\"text\":\"a\",");
  buf_reset(&f.out);
  delta(&f, 0, 2, 3, true);
  check_has(f.out.data, "\"text\":\"\",");
  check_has(f.out.data, "\"stop_reason\":\"\\\"c\"");
  f.gen.choices->stop = NULL;
  teardown(&f);
}

static void test_whole_replies(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, GEN_CHAT, CHAT "}");
  whole(&f, 0, true, false);
  check_out(&f, "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1760000000,"
                "\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                "\"content\":\"a\\\"c\",\"refusal\":null,\"annotations\":null,\"audio\":null,"
                "\"function_call\":null,\"tool_calls\":[],\"reasoning\":null},\"logprobs\":null,"
                "\"finish_reason\":\"length\",\"stop_reason\":null,\"token_ids\":null}],"
                "\"service_tier\":null,\"system_fingerprint\":null,\"usage\":{\"prompt_tokens\":28,"
                "\"total_tokens\":31,\"completion_tokens\":3,\"prompt_tokens_details\":null},"
                "\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"kv_transfer_params\":null}");
  whole(&f, 16, true, false);
  check_has(f.out.data, "\"prompt_tokens_details\":{\"cached_tokens\":16,"
                        "\"created_cache_tokens\":5,\"multimodal_tokens\":null}}");
  buf_reset(&f.out);
  whole(&f, 16, false, true);
  check_has(f.out.data, "\"content\":\"\",");
  assert_null(strstr(f.out.data, "usage"));
  buf_reset(&f.out);
  teardown(&f);
  setup(&f, GEN_COMPLETION,
        "{\"prompt\":\"xy\",\"max_tokens\":3,\"ignore_eos\":true,"
        "\"return_token_ids\":true}");
  whole(&f, 0, true, false);
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
  f.gen.choices->thought = 2; /* of a"c */
  delta(&f, 0, 0, 1, false);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"reasoning\":\"a\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]}\n\n");
  delta(&f, 0, 1, 3, false);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"reasoning\":\"\\\"\",\"content\":\"c\"},"
                     "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
  delta(&f, 0, 2, 3, false);
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"content\":\"c\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]}\n\n");
  delta(&f, 0, 1, 1, false); /* special tokens alone */
  check_out(&f, HEAD "{\"index\":0,\"delta\":{\"content\":\"\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]}\n\n");
  whole(&f, 0, true, false);
  check_has(f.out.data, "\"content\":\"c\",");
  check_has(f.out.data, "\"reasoning\":\"a\\\"\"}");
  buf_reset(&f.out);
  whole(&f, 0, true, true);
  check_has(f.out.data, "\"content\":\"\",");
  check_has(f.out.data, "\"reasoning\":null}");
  teardown(&f);
}

static void test_reasoning_is_counted(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, GEN_CHAT, CHAT "}");
  f.gen.choices->thought = 2;
  whole(&f, 0, true, false);
  check_has(f.out.data, "\"completion_tokens\":3,\"prompt_tokens_details\":null,"
                        "\"completion_tokens_details\":{\"reasoning_tokens\":2}}");
  teardown(&f);
}

/* Two prompts, two choices each: vLLM numbers them prompt by prompt and counts prompts once. */
static void test_several_choices(void **state) {
  (void)state;
  struct fixture f;
  struct value v;
  struct err err = {0};
  setup(&f, GEN_COMPLETION,
        "{\"prompt\":[\"xyz\",[65]],\"n\":2,\"max_tokens\":3,\"ignore_eos\":true,\"echo\":true}");
  whole(&f, 0, true, false);
  check_ok(json_parse(f.out.data, f.out.len, &v, &err), &err);
  const struct value *choices = value_get(&v, "choices");
  assert_int_equal(value_count(choices), 4);
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(value_get(value_at(choices, i), "index")->u.integer, i);
    const char *text = value_to_string(value_get(value_at(choices, i), "text"));
    assert_int_equal(strlen(text), i < 2 ? 6 : 4);
    assert_memory_equal(text, i < 2 ? "xyz" : "A", i < 2 ? 3 : 1);
  }
  assert_int_equal(value_get(value_get(&v, "usage"), "prompt_tokens")->u.integer, 4);
  value_free(&v);
  teardown(&f);
  setup(&f, GEN_CHAT, CHAT ",\"n\":2,\"stream\":true}");
  role(&f);
  check_has(f.out.data, "[{\"index\":0,\"delta\":{\"role\"");
  check_has(f.out.data, "[{\"index\":1,\"delta\":{\"role\"");
  buf_reset(&f.out);
  delta(&f, 1, 0, 1, false);
  check_has(f.out.data, "[{\"index\":1,\"delta\":{\"content\":\"");
  teardown(&f);
}

static void test_error_event(void **state) {
  (void)state;
  struct apierror e = {0};
  struct events ev;
  events_init(&ev);
  apierror_set(&e, 500, NULL, "no");
  reply_vllm.error(NULL, &e, &ev);
  assert_string_equal(ev.bytes.data,
                      "data: {\"error\":{\"message\":\"no\",\"type\":\"InternalServerError\","
                      "\"param\":null,\"code\":500}}\n\n" DONE);
  assert_int_equal(ev.n, 2);
  assert_int_equal(ev.marks[0].kind, TRUTH_ERROR);
  events_free(&ev);
}

/* What an event holds: bytes 0 to 4 are thoughts, 4 to 9 the answer. */
static void test_what_an_event_says(void **state) {
  (void)state;
  struct events ev;
  events_init(&ev);
  char text[] = "hmm. Yes!", call[] = "weather", echo[] = "prompt";
  struct genchoice c = {.text = text, .thought = 4};
  struct genchoice f = {.text = text, .call_name = call};
  struct genchoice e = {.text = text, .echo = echo, .echo_len = 6};
  const struct {
    const struct genchoice *c;
    uint32_t start, end;
    bool ids, output, visible;
  } cases[] = {{&c, 0, 0, false, false, false}, {&c, 0, 0, true, true, false},
               {&c, 0, 4, false, true, false},  {&c, 2, 6, false, true, true},
               {&c, 4, 9, false, true, true},   {&c, 9, 9, false, false, false},
               {&f, 0, 9, false, true, false},  {&e, 0, 0, false, true, true},
               {&e, 3, 3, false, false, false}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    reply_say(cases[i].c, cases[i].start, cases[i].end, cases[i].ids, &ev);
    buf_puts(&ev.bytes, "data: x\n\n");
    events_end(&ev, TRUTH_CONTENT);
    if (ev.marks[i].output != cases[i].output || ev.marks[i].visible != cases[i].visible)
      fail_msg("case %zu: output %d, visible %d", i, ev.marks[i].output, ev.marks[i].visible);
  }
  buf_puts(&ev.bytes, "data: y\n\n"); /* nothing is said of it */
  events_end(&ev, TRUTH_CONTENT);
  assert_false(ev.marks[ev.n - 1].output);
  events_free(&ev);
}

int main(void) {
  struct err err;
  if (tokens_open("bytes", NULL, &model.tokenizer, &err))
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chat_events),
      cmocka_unit_test(test_continuous_usage_and_token_ids),
      cmocka_unit_test(test_completion_events),
      cmocka_unit_test(test_hidden_and_stopped_text),
      cmocka_unit_test(test_whole_replies),
      cmocka_unit_test(test_thoughts),
      cmocka_unit_test(test_reasoning_is_counted),
      cmocka_unit_test(test_several_choices),
      cmocka_unit_test(test_error_event),
      cmocka_unit_test(test_what_an_event_says),
  };
  return cmocka_run_group_tests_name("reply", tests, NULL, NULL);
}
