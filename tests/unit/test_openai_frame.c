#include "check.h"

#include "text/openai_frame.h"

static struct frame read_frame(const char *text, bool whole_reply) {
  struct frame f;
  frame_init(&f);
  if (!frame_read(&f, text, strlen(text), whole_reply))
    fail_msg("%s was refused", text);
  return f;
}

static void check_str(const struct scan_str *s, const char *want) {
  if (!scan_equals(s, want))
    fail_msg("\"%.*s\", expected \"%s\"", (int)s->len, s->p, want);
}

static void test_chunk(void **state) {
  (void)state;
  struct frame f = read_frame(
      "{\"id\":\"i\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":3,\"delta\":"
      "{\"content\":\"c\",\"reasoning\":\"r\",\"reasoning_content\":\"q\",\"tool_calls\":[{\"id\":"
      "\"t\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"},\"index\":2},{\"type\":\"function\"}"
      "]},"
      "\"finish_reason\":\"stop\",\"token_ids\":[1,[2],3],\"logprobs\":{\"content\":[{\"token\":"
      "\"content\"}]}},{\"text\":\"t\"}],\"usage\":null}",
      false);
  assert_int_equal(f.n_choices, 2);
  assert_int_equal(f.n_tools, 2);
  const struct frame_choice *c = &f.choices[0];
  assert_int_equal(c->index, 3);
  check_str(&c->content, "c");
  check_str(&c->reasoning, "r");
  check_str(&c->reasoning_content, "q");
  check_str(&c->finish, "stop");
  assert_int_equal(c->token_ids, 3);
  assert_int_equal(c->n_tools, 2);
  assert_int_equal(f.tools[0].index, 2);
  check_str(&f.tools[0].id, "t");
  check_str(&f.tools[0].name, "f");
  check_str(&f.tools[0].arguments, "{");
  assert_int_equal(f.tools[1].index, 1); /* its place */
  assert_int_equal(f.choices[1].index, 1);
  assert_true(f.choices[1].token_ids == OPENAI_ABSENT);
  assert_int_equal(f.choices[1].n_tools, 0);
  check_str(&f.choices[1].text, "t");
  assert_false(f.top.usage.present);
  check_str(&f.top.id, "i");
  frame_free(&f);
}

/* The last value of a repeated key counts, whatever its kind. */
static void test_repeated_keys(void **state) {
  (void)state;
  struct frame f = read_frame(
      "{\"choices\":[{\"delta\":{\"content\":\"a\"}},{}],\"choices\":[{\"delta\":{\"content\":"
      "\"b\","
      "\"tool_calls\":[{},{}]},\"delta\":{\"content\":\"x\",\"content\":\"c\",\"tool_calls\":[{}],"
      "\"tool_calls\":[{\"id\":\"1\"}]}}],\"usage\":{\"prompt_tokens\":1},\"usage\":null}",
      false);
  assert_int_equal(f.n_choices, 1);
  assert_int_equal(f.n_tools, 1);
  check_str(&f.choices[0].content, "c");
  check_str(&f.tools[0].id, "1");
  assert_false(f.top.usage.present);
  frame_free(&f);
  f = read_frame("{\"choices\":[{\"delta\":{\"content\":\"a\",\"content\":null}}]}", false);
  assert_false(f.choices[0].content.there);
  assert_int_equal(f.choices[0].content.len, 0);
  frame_free(&f);
}

static void check_usage(const char *usage, int64_t prompt, int64_t completion, int64_t total,
                        int64_t cached, int64_t reasoning) {
  char text[512];
  snprintf(text, sizeof text, "{\"usage\":%s}", usage);
  struct frame f = read_frame(text, false);
  const struct openai_usage *u = &f.top.usage;
  if (!u->present || u->prompt != prompt || u->completion != completion || u->total != total ||
      u->cached != cached || u->reasoning != reasoning)
    fail_msg("%s: %lld %lld %lld %lld %lld", usage, (long long)u->prompt, (long long)u->completion,
             (long long)u->total, (long long)u->cached, (long long)u->reasoning);
  frame_free(&f);
}

static void test_usage(void **state) {
  (void)state;
  const int64_t no = OPENAI_ABSENT;
  check_usage("{}", no, no, no, no, no);
  check_usage("{\"prompt_tokens\":1,\"completion_tokens\":2,\"total_tokens\":3}", 1, 2, 3, no, no);
  check_usage("{\"prompt_tokens\":9,\"prompt_tokens_details\":null}", 9, no, no, no, no);
  check_usage("{\"prompt_tokens_details\":{}}", no, no, no, no, no);
  check_usage("{\"prompt_tokens_details\":{\"cached_tokens\":null}}", no, no, no, no, no);
  check_usage("{\"prompt_tokens_details\":{\"audio\":[1],\"cached_tokens\":0}}", no, no, no, 0, no);
  check_usage("{\"prompt_tokens_details\":{\"cached_tokens\":7}}", no, no, no, 7, no);
  check_usage("{\"reasoning_tokens\":4}", no, no, no, no, 4);
  check_usage("{\"reasoning_tokens\":4,\"completion_tokens_details\":{\"reasoning_tokens\":5}}", no,
              no, no, no, 5);
  check_usage("{\"completion_tokens_details\":null,\"reasoning_tokens\":0}", no, no, no, no, 0);
  check_usage(
      "{\"input_tokens\":10,\"input_tokens_details\":{\"cached_tokens\":8},\"output_tokens\":"
      "2,\"output_tokens_details\":{\"reasoning_tokens\":1},\"total_tokens\":12}",
      10, 2, 12, 8, 1);
  check_usage("{\"prompt_tokens\":1e2,\"completion_tokens\":12.0,\"total_tokens\":1.5}", 100, 12,
              no, no, no);
  check_usage("{\"prompt_tokens\":9223372036854775807,\"completion_tokens\":9223372036854775808,"
              "\"total_tokens\":123456789012345678901234567890}",
              INT64_MAX, no, no, no, no);
  check_usage("{\"prompt_tokens\":-1,\"completion_tokens\":\"5\",\"total_tokens\":[5]}", no, no, no,
              no, no);
}

static void test_errors(void **state) {
  (void)state;
  struct frame f =
      read_frame("{\"error\":{\"message\":\"m\",\"type\":\"t\",\"code\":\"word\"}}", false);
  assert_true(f.top.error.there);
  check_str(&f.top.error.message, "m");
  check_str(&f.top.error.type, "t");
  check_str(&f.top.error.code_text, "word");
  assert_true(f.top.error.code == OPENAI_ABSENT);
  frame_free(&f);
  const char *none[] = {"null", "false", "\"\""};
  for (size_t i = 0; i < ARRAY_LEN(none); i++) {
    char text[64];
    snprintf(text, sizeof text, "{\"error\":%s}", none[i]);
    f = read_frame(text, false);
    assert_false(f.top.error.there);
    frame_free(&f);
  }
  f = read_frame("{\"error\": [1, 2] }", false);
  assert_true(f.top.error.there);
  assert_false(f.top.error.message.there);
  check_str(&f.top.error.raw, "[1, 2]");
  frame_free(&f);
  f = read_frame("{\"object\":\"error\",\"message\":\"m\",\"type\":\"t\",\"code\":\"404\"}", false);
  assert_false(f.top.error.there);
  check_str(&f.object, "error");
  check_str(&f.message, "m");
  assert_int_equal(f.code, 404);
  frame_free(&f);
}

static void test_responses(void **state) {
  (void)state;
  static const char text[] =
      "{\"type\":\"response.completed\",\"output_index\":4,\"delta\":\"d\",\"item\":{\"type\":"
      "\"function_call\",\"id\":\"i\",\"call_id\":\"c\",\"name\":\"n\",\"arguments\":\"a\","
      "\"content\":"
      "[{\"type\":\"output_text\",\"text\":\"x\"}]},\"response\":{\"id\":\"r\",\"status\":"
      "\"incomplete\","
      "\"incomplete_details\":{\"reason\":\"max\"},\"error\":null,\"usage\":{\"input_tokens\":3},"
      "\"output\":[{},{}]},\"output\":[{},{}]}";
  struct frame f = read_frame(text, false);
  check_str(&f.type, "response.completed");
  check_str(&f.delta, "d");
  assert_int_equal(f.output_index, 4);
  assert_int_equal(f.n_items, 1);
  assert_int_equal(f.n_parts, 0);
  check_str(&f.items[0].type, "function_call");
  check_str(&f.items[0].id, "i");
  check_str(&f.items[0].call_id, "c");
  check_str(&f.items[0].name, "n");
  check_str(&f.items[0].arguments, "a");
  assert_true(f.has_response);
  check_str(&f.response.id, "r");
  check_str(&f.response.status, "incomplete");
  check_str(&f.response.reason, "max");
  assert_int_equal(f.response.usage.prompt, 3);
  assert_false(f.response.error.there);
  frame_free(&f);
}

static void test_reply_parts(void **state) {
  (void)state;
  struct frame f = read_frame(
      "{\"output\":[{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"s\"}"
      "],"
      "\"content\":[{\"text\":\"t\",\"type\":\"reasoning_text\"}]},{\"content\":[{\"type\":"
      "\"refusal\","
      "\"text\":\"no\"},7,{\"type\":\"output_text\",\"text\":\"v\"}]}],\"status\":\"completed\"}",
      true);
  assert_int_equal(f.n_items, 2);
  assert_int_equal(f.items[1].index, 1);
  assert_int_equal(f.n_parts, 3);
  assert_false(f.parts[0].visible);
  check_str(&f.parts[0].text, "s");
  check_str(&f.parts[1].text, "t");
  assert_true(f.parts[2].visible);
  check_str(&f.parts[2].text, "v");
  frame_free(&f);
}

/* Fields of the wrong kind are as good as absent; the text is JSON all the same. */
static void test_wrong_kinds(void **state) {
  (void)state;
  const char *texts[] = {
      "5",
      "null",
      "[]",
      "\"x\"",
      "{\"choices\":null}",
      "{\"choices\":{}}",
      "{\"choices\":[1,null,[]]}",
      "{\"choices\":[{\"delta\":[],\"index\":\"0\"}]}",
      "{\"choices\":[{\"delta\":{\"tool_calls\":[5,{\"function\":7}],\"content\":[]}}]}",
      "{\"usage\":[1]}",
      "{\"usage\":{\"prompt_tokens_details\":5}}",
      "{\"response\":[]}",
      "{\"item\":3}",
      "{\"delta\":{}}"};
  for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
    struct frame f = read_frame(texts[i], true);
    for (size_t k = 0; k < f.n_choices; k++)
      assert_int_equal(f.choices[k].content.len, 0);
    frame_free(&f);
  }
}

static void test_broken(void **state) {
  (void)state;
  struct frame f;
  frame_init(&f);
  static const char text[] = "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}";
  for (size_t len = 0; len < sizeof text - 1; len++) {
    assert_false(frame_read(&f, text, len, false));
    assert_true(f.cut);
  }
  assert_false(frame_read(&f, "{\"choices\":[}", 13, false));
  assert_false(f.cut);
  assert_false(f.full);
  frame_free(&f);
}

/* A few bytes each must not become unbounded memory. */
static void test_full(void **state) {
  (void)state;
  static const char *const forms[] = {"{\"choices\":[%s]}",
                                      "{\"choices\":[{\"delta\":{\"tool_calls\":[%s]}}]}",
                                      "{\"output\":[%s]}"};
  size_t n = FRAME_MAX_ENTRIES;
  char *list = malloc(3 * (n + 1) + 1), *text = malloc(3 * (n + 1) + 100);
  for (size_t i = 0; i < 3; i++)
    for (size_t extra = 0; extra < 2; extra++) {
      for (size_t k = 0; k < n + extra; k++)
        memcpy(list + 3 * k, "{},", 3);
      list[3 * (n + extra) - 1] = '\0';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
      snprintf(text, 3 * (n + 1) + 100, forms[i], list);
#pragma GCC diagnostic pop
      struct frame f;
      frame_init(&f);
      assert_int_equal(frame_read(&f, text, strlen(text), true), extra == 0);
      assert_int_equal(f.full, extra);
      frame_free(&f);
    }
  free(list);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chunk),       cmocka_unit_test(test_repeated_keys),
      cmocka_unit_test(test_usage),       cmocka_unit_test(test_errors),
      cmocka_unit_test(test_responses),   cmocka_unit_test(test_reply_parts),
      cmocka_unit_test(test_wrong_kinds), cmocka_unit_test(test_broken),
      cmocka_unit_test(test_full),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
