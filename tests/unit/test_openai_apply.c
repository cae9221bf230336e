#include "openai_check.h"

/* Chunks of chat and completions, case by case; every stream is fed at every cut. */

static void chat(const char *bytes, const char *want) {
  openai_check(OPENAI_CHAT, bytes, want);
}

/* Role-only chunks, empty strings, nulls, usage and progress are no output. */
static void test_first_token(void **state) {
  (void)state;
  chat(DELTA("{\"role\":\"assistant\",\"content\":\"\"}") DELTA("{\"content\":null}")
           DELTA("{\"reasoning\":\"\",\"reasoning_content\":null,\"tool_calls\":[]}")
               DELTA("{\"tool_calls\":null}") DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"c\"}]}")
                   DELTA("{\"content\":\"\"},\"token_ids\":[]") DELTA("{\"content\":\"x\"}") DONE,
       "{\"sse_events\":8,\"ttft_event_index\":6,\"first_visible_event_index\":6,\"output_events\":"
       "1,"
       "\"text\":\"x\",\"token_ids_total\":0,\"complete\":true}");
  chat("data: {\"choices\":[],\"prompt_progress\":{\"total\":64}}\n\n" DONE,
       "{\"ttft_event_index\":null,\"first_visible_event_index\":null,\"output_events\":0,"
       "\"text\":\"\",\"texts\":{},\"finish_reason\":null,\"complete\":true}");
}

/* ★1: reasoning first, under either name, or under both with the same text. */
static void test_reasoning(void **state) {
  (void)state;
  static const char want[] =
      "{\"ttft_event_index\":1,\"first_visible_event_index\":3,\"output_events\":3,"
      "\"reasoning\":\"ab\",\"text\":\"c\",\"comments\":2}";
  chat(DELTA("{\"role\":\"assistant\",\"content\":\"\"}") ": x\n\n: y\n\n" DELTA(
           "{\"reasoning\":\"a\"}") DELTA("{\"reasoning\":\"b\"}") DELTA("{\"content\":\"c\"}")
           DONE,
       want);
  chat(DELTA("{\"role\":\"assistant\",\"content\":null}") ": x\n\n: y\n\n" DELTA(
           "{\"reasoning_content\":\"a\"}") DELTA("{\"reasoning_content\":\"b\"}")
           DELTA("{\"content\":\"c\",\"reasoning_content\":null}") DONE,
       want);
  chat(DELTA("{\"content\":\"\"}") ": x\n\n: y\n\n" DELTA(
           "{\"reasoning\":\"a\",\"reasoning_content\":\"a\"}")
           DELTA("{\"reasoning\":\"b\",\"reasoning_content\":\"b\"}") DELTA("{\"content\":\"c\"}")
               DONE,
       want);
  chat(DELTA("{\"content\":\"c\",\"reasoning\":\"r\"}") DONE,
       "{\"ttft_event_index\":0,\"first_visible_event_index\":0,\"output_events\":1,"
       "\"reasoning\":\"r\",\"text\":\"c\"}");
}

#define CALL(fields) DELTA("{\"tool_calls\":[" fields "]}")

/* ★2: two calls interleaved, no content ever. */
static void test_tool_calls(void **state) {
  (void)state;
  chat(CALL("{\"index\":0,\"id\":\"c0\",\"function\":{\"name\":\"f\"}}") CALL(
           "{\"index\":1,\"id\":\"c1\",\"function\":{\"name\":\"g\",\"arguments\":\"\"}}")
           CALL("{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\\\":\"}}")
               CALL("{\"index\":1,\"function\":{\"arguments\":\"[1,\"}}") CALL(
                   "{\"index\":1,\"function\":{\"arguments\":\"2]\"}},{\"index\":0,\"function\":"
                   "{\"arguments\":\"1}\"}}") "data: {\"choices\":[{\"index\":0,\"delta\":{},"
                                              "\"finish_reason\":\"tool_calls\"}]}\n\n"
                                              "data: {\"choices\":[],\"usage\":{\"completion_"
                                              "tokens\":25}}\n\n" DONE,
       "{\"ttft_event_index\":0,\"first_visible_event_index\":null,\"output_events\":5,"
       "\"finish_reason\":\"tool_calls\",\"texts\":{},\"tool_calls\":["
       "{\"index\":0,\"id\":\"c0\",\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"},"
       "{\"index\":1,\"id\":\"c1\",\"name\":\"g\",\"arguments\":\"[1,2]\"}],\"usage\":{\"prompt\":"
       "null,"
       "\"completion\":25,\"total\":null,\"cached\":null,\"reasoning\":null}}");
  /* The order is that of the index, whichever came first; a missing index is the place. */
  chat(CALL("{\"index\":7,\"id\":\"z\",\"function\":{\"name\":\"z\"}}")
           CALL("{\"index\":2,\"id\":\"y\",\"function\":{\"name\":\"y\"}}")
               CALL("{\"id\":\"x\",\"function\":{\"name\":\"x\",\"arguments\":\"{}\"}}") DONE,
       "{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"name\":\"x\",\"arguments\":\"{}\"},"
       "{\"index\":2,\"id\":\"y\",\"name\":\"y\",\"arguments\":\"\"},"
       "{\"index\":7,\"id\":\"z\",\"name\":\"z\",\"arguments\":\"\"}]}");
}

/* Names in fragments are joined; a name that is repeated whole with every fragment is not. */
static void test_tool_names(void **state) {
  (void)state;
  chat(CALL("{\"index\":0,\"function\":{\"name\":\"get_\"}}")
           CALL("{\"index\":0,\"function\":{\"name\":\"weather\"}}") DONE,
       "{\"tool_calls\":[{\"index\":0,\"id\":null,\"name\":\"get_weather\",\"arguments\":\"\"}]}");
  chat(CALL("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"1\"}}")
           CALL("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"2\"}}")
               DONE,
       "{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"name\":\"f\",\"arguments\":\"12\"}]}");
}

static void test_choices(void **state) {
  (void)state;
  chat(
      "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}},{\"index\":0,\"delta\":"
      "{\"content\":\"a\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":10,\"delta\":{\"content\":\"k\"},\"finish_reason\":\"stop\"},"
      "{\"index\":1,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"one\"}}]}},"
      "{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"nil\"}}]}}]}"
      "\n\n",
      "{\"text\":\"a\",\"texts\":{\"0\":\"a\",\"1\":\"b\",\"10\":\"k\"},\"output_events\":2,"
      "\"finish_reason\":null,\"finish_reasons\":{\"10\":\"stop\"},\"tool_calls\":["
      "{\"index\":0,\"id\":null,\"name\":\"nil\",\"arguments\":\"\"},"
      "{\"index\":0,\"id\":null,\"name\":\"one\",\"arguments\":\"\"}]}");
}

static void test_finish_reason(void **state) {
  (void)state;
  openai_check(
      OPENAI_COMPLETIONS,
      TEXT("\"text\":\"a\",\"finish_reason\":\"\"") TEXT("\"text\":\"\",\"finish_reason\":\"stop\"")
          TEXT("\"finish_reason\":\"length\"") TEXT("\"finish_reason\":null") DONE,
      "{\"finish_reason\":\"length\",\"finish_reasons\":{\"0\":\"length\"},\"text\":\"a\"}");
}

/* ★3: token ids say how many tokens an event holds, also one without text. */
static void test_token_ids(void **state) {
  (void)state;
  struct openai_stream s;
  openai_check_start(&s, OPENAI_COMPLETIONS);
  openai_check_feed(&s, TEXT("\"text\":\"ab\",\"token_ids\":[1,2,3]"), 10);
  openai_check_feed(&s, TEXT("\"text\":\"\",\"token_ids\":[4]"), 20);
  openai_check_feed(&s, TEXT("\"text\":\"c\",\"token_ids\":null"), 30);
  openai_check_feed(&s, TEXT("\"text\":\"\",\"token_ids\":[]"), 40);
  openai_check_feed(&s, DONE, 50);
  openai_check_result(&s.result,
                      "{\"output_events\":3,\"token_ids_total\":4,\"first_visible_event_index\":0}",
                      "token ids");
  static const int32_t tokens[] = {3, 1, -1};
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(s.result.outputs[i].tokens, tokens[i]);
  openai_stream_free(&s);
}

static void check_tokens(const char *const *events, size_t n, const int32_t *want, size_t n_want) {
  struct openai_stream s;
  openai_check_start(&s, OPENAI_CHAT);
  for (size_t i = 0; i < n; i++)
    openai_check_feed(&s, events[i], i + 1);
  assert_int_equal(s.result.n_outputs, n_want);
  for (size_t i = 0; i < n_want; i++)
    if (s.result.outputs[i].tokens != want[i])
      fail_msg("output %zu: %d tokens, expected %d", i, s.result.outputs[i].tokens, want[i]);
  openai_stream_free(&s);
}

#define COUNTED(text, n)                                                                           \
  "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text                                \
  "\"}}],\"usage\":{\"completion_tokens\":" n "}}\n\n"

#define UNCOUNTED(text)                                                                            \
  "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text "\"}}],\"usage\":null}\n\n"

/* Tokens of an event from a running count, and only from a running one. */
static void test_running_usage(void **state) {
  (void)state;
  const char *running[] = {
      COUNTED("", "0"),  COUNTED("a", "1"),
      COUNTED("b", "4"), COUNTED("c", "4"),
      COUNTED("d", "3"), COUNTED("", "6"),
      COUNTED("e", "7"), "data: {\"choices\":[],\"usage\":{\"completion_tokens\":7}}\n\n"};
  check_tokens(running, ARRAY_LEN(running), (const int32_t[]){1, 3, 0, -1, 1}, 5);
  const char *only_last[] = {DELTA("{\"content\":\"a\"}"), DELTA("{\"content\":\"b\"}"),
                             COUNTED("c", "9")};
  check_tokens(only_last, 3, (const int32_t[]){-1, -1, -1}, 3);
  const char *single[] = {DELTA("{\"content\":\"\"}"), COUNTED("all of it", "9")};
  check_tokens(single, 2, (const int32_t[]){9}, 1);
  const char *zeros[] = {COUNTED("a", "0"), COUNTED("b", "0"), COUNTED("c", "5"),
                         COUNTED("d", "6")};
  check_tokens(zeros, 4, (const int32_t[]){-1, -1, -1, 1}, 4);
  const char *gap[] = {COUNTED("a", "1"), DELTA("{\"content\":\"b\"}"), COUNTED("c", "3"),
                       COUNTED("d", "5"), UNCOUNTED("e")};
  check_tokens(gap, 5, (const int32_t[]){1, -1, -1, 2, -1}, 5);
  const char *several[] = {COUNTED("a", "1"),
                           "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"x\"}}],"
                           "\"usage\":{\"completion_tokens\":1}}\n\n",
                           COUNTED("b", "2")};
  check_tokens(several, 3, (const int32_t[]){1, -1, -1}, 3);
  const char *huge[] = {COUNTED("a", "99999999999")};
  check_tokens(huge, 1, (const int32_t[]){-1}, 1);
}

/* ★5: the usage matrix, and the states of cached_tokens. */
static void test_usage(void **state) {
  (void)state;
#define USAGE(p, c, t, cached)                                                                     \
  "{\"prompt\":" p ",\"completion\":" c ",\"total\":" t ",\"cached\":" cached ",\"reasoning\":"    \
  "null}"
  const char *text = DELTA("{\"content\":\"a\"}");
  static const struct {
    const char *chunks, *usage;
  } rows[] = {
      {"", "null"},
      {"data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}],\"usage\":null}\n\n", "null"},
      {COUNTED("b", "2"), USAGE("null", "2", "null", "null")},
      {"data: "
       "{\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":"
       "7}}\n\ndata: {\"choices\":[],\"usage\":null}\n\n",
       USAGE("5", "2", "7", "null")},
      {COUNTED("b", "1") COUNTED("c", "2"), USAGE("null", "2", "null", "null")},
      {"data: "
       "{\"usage\":{\"prompt_tokens\":5,\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\n",
       USAGE("5", "null", "null", "0")},
      {"data: "
       "{\"usage\":{\"prompt_tokens\":5,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
       USAGE("5", "null", "null", "4")},
      {"data: {\"usage\":{\"prompt_tokens\":5,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
       "data: {\"usage\":{\"prompt_tokens\":6}}\n\n",
       USAGE("6", "null", "null", "null")},
  };
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    char bytes[1024], want[256];
    snprintf(bytes, sizeof bytes, "%s%s%s", text, rows[i].chunks, DONE);
    snprintf(want, sizeof want, "{\"usage\":%s,\"error\":null}", rows[i].usage);
    chat(bytes, want);
  }
}

/* What is no count is absent, and noted; so is a running count that shrinks. */
static void test_odd_usage(void **state) {
  (void)state;
  static const struct {
    const char *usage;
    bool odd;
  } rows[] = {
      {"null", false},
      {"{\"prompt_tokens\":5,\"completion_tokens\":null,\"prompt_tokens_details\":null}", false},
      {"{\"prompt_tokens\":5.0,\"completion_tokens\":9223372036854775807}", false},
      {"{\"prompt_tokens\":-1}", true},
      {"{\"prompt_tokens\":12.5}", true},
      {"{\"completion_tokens\":\"12\"}", true},
      {"{\"completion_tokens\":9223372036854775808}", true},
      {"{\"completion_tokens\":true}", true},
      {"{\"total_tokens\": [1]}", true},
      {"{\"prompt_tokens_details\":{\"cached_tokens\":-7}}", true},
      {"{\"completion_tokens_details\":{\"reasoning_tokens\":{}}}", true},
  };
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    char bytes[512];
    struct openai_stream s;
    openai_check_start(&s, OPENAI_CHAT);
    snprintf(bytes, sizeof bytes, "%sdata: {\"choices\":[],\"usage\":%s}\n\n%s",
             DELTA("{\"content\":\"a\"}"), rows[i].usage, DONE);
    openai_check_feed(&s, bytes, 1);
    openai_check_finish(&s);
    if (s.result.usage_odd != rows[i].odd)
      fail_msg("%s: odd = %d", rows[i].usage, s.result.usage_odd);
    openai_stream_free(&s);
  }
  static const char *const running[] = {COUNTED("a", "1") COUNTED("b", "4") COUNTED("c", "3"),
                                        COUNTED("a", "1") COUNTED("b", "4") COUNTED("c", "4")};
  for (size_t i = 0; i < 2; i++) {
    struct openai_stream s;
    openai_check_start(&s, OPENAI_CHAT);
    openai_check_feed(&s, running[i], 1);
    assert_int_equal(s.result.usage_odd, i == 0);
    openai_stream_free(&s);
  }
}

static void test_completions_and_chat_fields(void **state) {
  (void)state;
  /* What a server sends under the other API's name still counts, once. */
  openai_check(OPENAI_COMPLETIONS, DELTA("{\"content\":\"a\"}") TEXT("\"text\":\"b\"") DONE,
               "{\"text\":\"ab\",\"output_events\":2}");
  openai_check(OPENAI_CHAT,
               "data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n" DONE,
               "{\"text\":\"\",\"output_events\":0,\"sse_events\":2}");
}

static void test_unicode(void **state) {
  (void)state;
  static const char escaped[] = DELTA("{\"content\":\"\\ud83d\\ude80\\u0000\\u00e9\"}")
      DELTA("{\"content\":\"\\ud83d\"}") DELTA("{\"content\":\"\\ude80\"}") DONE;
  openai_check(OPENAI_CHAT, escaped, "{\"text\":\"\\ud83d\\ude80\\u0000\\u00e9\\ufffd\\ufffd\"}");
  /* A character whose bytes come in two events is whole again. */
  openai_check(OPENAI_CHAT,
               DELTA("{\"content\":\"\xf0\x9f\"}") DELTA("{\"content\":\"\x9a\x80\"}") DONE,
               "{\"text\":\"\\ud83d\\ude80\",\"output_events\":2}");
  openai_check(OPENAI_CHAT, DELTA("{\"content\":\"a\xc2\x85z\xe2\x80\xa8\"}") DONE,
               "{\"text\":\"a\\u0085z\\u2028\"}");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_token),
      cmocka_unit_test(test_reasoning),
      cmocka_unit_test(test_tool_calls),
      cmocka_unit_test(test_tool_names),
      cmocka_unit_test(test_choices),
      cmocka_unit_test(test_finish_reason),
      cmocka_unit_test(test_token_ids),
      cmocka_unit_test(test_running_usage),
      cmocka_unit_test(test_usage),
      cmocka_unit_test(test_odd_usage),
      cmocka_unit_test(test_completions_and_chat_fields),
      cmocka_unit_test(test_unicode),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
