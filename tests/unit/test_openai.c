#include "openai_check.h"

#define HELLO DELTA("{\"content\":\"hello\"}")
#define CALL_CHUNK                                                                                 \
  DELTA("{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"add\",\"arguments\":\"{}\\n\"}}]"  \
        "}")

static void chat(const char *bytes, const char *want) {
  openai_check(OPENAI_CHAT, bytes, want);
}

/* Every golden stream, at every cut. */
static void test_fixtures(void **state) {
  (void)state;
  static const char *const about_the_file[] = {"server", "api", "bytes", "sha256"};
  struct value all;
  struct err err;
  size_t len;
  char *text = check_read_file("tests/data/sse/expected.json", &len);
  check_ok(json_parse(text, len, &all, &err), &err);
  free(text);
  assert_int_equal(value_count(&all), 20);
  for (size_t i = 0; i < all.u.object.n; i++) {
    const struct value_pair *row = &all.u.object.pairs[i];
    char path[256];
    snprintf(path, sizeof path, "tests/data/sse/%s", row->key);
    char *bytes = check_read_file(path, &len);
    int64_t want_len = -1;
    assert_true(value_to_int(value_get(&row->value, "bytes"), &want_len));
    assert_int_equal(len, want_len);
    struct value fields = value_object();
    for (size_t k = 0; k < row->value.u.object.n; k++) {
      const struct value_pair *pair = &row->value.u.object.pairs[k];
      bool skip = false;
      for (size_t m = 0; m < ARRAY_LEN(about_the_file); m++)
        skip |= strcmp(pair->key, about_the_file[m]) == 0;
      if (!skip)
        value_set(&fields, pair->key, value_copy(&pair->value));
    }
    struct buf want;
    buf_init(&want, BUF_MAX_OWN);
    json_write(&want, &fields);
    print_message("%s\n", row->key);
    enum openai_api api = openai_api_from(value_to_string(value_get(&row->value, "api")));
    openai_check_bytes(api, bytes, len, want.data);
    /* No field of ours beyond theirs. */
    struct openai_stream s;
    openai_check_start(&s, api);
    struct value got = openai_result_value(&s.result);
    assert_int_equal(value_count(&got), value_count(&fields));
    value_free(&got);
    openai_stream_free(&s);
    buf_free(&want);
    value_free(&fields);
    free(bytes);
  }
  value_free(&all);
}

static void test_api_from(void **state) {
  (void)state;
  assert_int_equal(openai_api_from("chat"), OPENAI_CHAT);
  assert_int_equal(openai_api_from("completions"), OPENAI_COMPLETIONS);
  assert_int_equal(openai_api_from("responses"), OPENAI_RESPONSES);
  assert_int_equal(openai_api_from("Chat"), OPENAI_NONE);
  assert_int_equal(openai_api_from(""), OPENAI_NONE);
}

/* ★4: one reply in every framing a server may choose. */
static void test_framing(void **state) {
  (void)state;
  static const char want[] = "{\"text\":\"hi \\ud83d\\ude80\",\"complete\":true,\"error\":null,"
                             "\"output_events\":2,\"done_marker\":true}";
#define ONE "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi \"}}]}"
#define TWO "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xf0\x9f\x9a\x80\"}}]}"
  chat("data: " ONE "\n\ndata: " TWO "\n\ndata: [DONE]\n\n", want);
  chat("data:" ONE "\n\ndata:" TWO "\n\ndata:[DONE]\n\n", want);
  chat("data: " ONE "\r\n\r\ndata: " TWO "\r\n\r\ndata: [DONE]\r\n\r\n", want);
  chat("data: " ONE "\r\rdata: " TWO "\r\rdata: [DONE]\r\r", want);
  chat("\xef\xbb\xbf"
       "data: " ONE "\n\ndata: " TWO "\n\ndata: [DONE]\n\n",
       want);
  chat("\n\n: hi\n\nid: 1\nretry: 5\nevent: x\ndata: " ONE "\n\ndata: " TWO
       "\n\ndata: [DONE]   \n\n",
       want);
  chat("data: " ONE " \n\ndata:  \t" TWO "\n\ndata:   [DONE]\t\n\n", want);
  chat("data: {\"choices\":\ndata: [{\"index\":0,\ndata:\"delta\":{\"content\":\"hi "
       "\"}}]\ndata\ndata:}"
       "\n\ndata: " TWO "\n\ndata: [DONE]\n\n",
       want);
  chat("data: " ONE "\n\ndata: " TWO "\n\ndata: [DONE]", want);
}

/* Nothing after the end marker counts. */
static void test_after_done(void **state) {
  (void)state;
  chat(HELLO DONE HELLO ": c\n\nerror: x\n\ndata: {\"usage\":{\"prompt_tokens\":1}}\n\nrubbish",
       "{\"sse_events\":2,\"comments\":0,\"text\":\"hello\",\"usage\":null,\"error\":null,"
       "\"complete\":true,\"eof_flush\":false}");
  chat(
      HELLO "data: [DONE] x\n\n" DONE,
      "{\"sse_events\":3,\"error\":{\"kind\":\"bad_json\",\"message\":\"the data of event 1 is not "
      "JSON\",\"type\":null,\"code\":null}}");
}

static void test_ends(void **state) {
  (void)state;
  chat("", "{\"complete\":false,\"error\":null,\"sse_events\":0}");
  chat(HELLO, "{\"complete\":false,\"error\":null,\"done_marker\":false,\"eof_flush\":false}");
  chat(DONE, "{\"complete\":true,\"sse_events\":1,\"output_events\":0}");
  chat("data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}",
       "{\"text\":\"hello\",\"sse_events\":1,\"eof_flush\":true,\"error\":null}");
}

/* A cut anywhere inside an event's JSON is seen as such, and what came before stands. */
static void test_truncated(void **state) {
  (void)state;
  static const char tail[] =
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\\u00e9\"}}]}";
  struct openai_stream s;
  openai_check_start(&s, OPENAI_CHAT);
  for (size_t len = 7; len < sizeof tail - 1; len++) {
    struct err err;
    openai_stream_reset(&s);
    openai_check_feed(&s, HELLO, 1);
    check_ok(openai_stream_feed(&s, tail, len, 2, &err), &err);
    openai_check_finish(&s);
    openai_check_result(
        &s.result,
        "{\"text\":\"hello\",\"sse_events\":1,\"output_events\":1,\"complete\":false,"
        "\"error\":{\"kind\":\"truncated\",\"message\":\"the stream ends inside the JSON "
        "of event 1\",\"type\":null,\"code\":null}}",
        "truncated");
  }
  openai_stream_free(&s);
  chat("data: [DON",
       "{\"error\":{\"kind\":\"truncated\",\"message\":\"the stream ends inside the JSON of "
       "event 0\",\"type\":null,\"code\":null},\"done_marker\":false}");
}

static void test_bad_json(void **state) {
  (void)state;
  static const char *const bad[] = {"{",          "{\"choices\":[}",
                                    "hello",      "{} {}",
                                    "{\"a\":01}", "{\"choices\":[{\"delta\":{\"content\":\"x\"}}]"};
  for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
    char bytes[256];
    snprintf(bytes, sizeof bytes, HELLO "data: %s\n\n" HELLO DONE, bad[i]);
    chat(bytes, "{\"text\":\"hellohello\",\"sse_events\":4,\"output_events\":2,\"complete\":false,"
                "\"error\":{\"kind\":\"bad_json\",\"message\":\"the data of event 1 is not JSON\","
                "\"type\":null,\"code\":null}}");
  }
  chat("data: 5\n\ndata: \"x\"\n\ndata: null\n\n" DONE, "{\"sse_events\":4,\"error\":null}");
}

static void test_errors(void **state) {
  (void)state;
#define IN_BAND(message, type, code)                                                               \
  "{\"error\":{\"kind\":\"in_band\",\"message\":\"" message "\",\"type\":" type ",\"code\":" code  \
  "},"                                                                                             \
  "\"complete\":false}"
  chat(HELLO "data: {\"error\":{\"message\":\"m\",\"type\":\"T\",\"code\":500}}\n\n" DONE,
       IN_BAND("m", "\"T\"", "500"));
  chat("data: {\"error\":\"all backends down\"}\n\n", IN_BAND("all backends down", "null", "null"));
  chat("data: "
       "{\"object\":\"error\",\"message\":\"m\",\"type\":\"BadRequestError\",\"code\":400}\n\n",
       IN_BAND("m", "\"BadRequestError\"", "400"));
  chat("data: {\"error\":{\"detail\":[1]}}\n\n", IN_BAND("{\\\"detail\\\":[1]}", "null", "null"));
  chat("data: {\"error\":{\"message\":\"m\",\"code\":\"invalid_key\"}}\n\n",
       IN_BAND("m", "\"invalid_key\"", "null"));
  chat("event: error\ndata: it broke\n\n" HELLO, IN_BAND("it broke", "null", "null"));
  chat("event: error\ndata: {\"message\":\"m\"}\n\n", IN_BAND("m", "null", "null"));
  chat("event: error\ndata: {\"what\":1}\n\n", IN_BAND("{\\\"what\\\":1}", "null", "null"));
  /* The first one is kept; the usage behind it counts (SGLang). */
  chat(
      "data: {\"error\":{\"object\":\"error\",\"message\":\"a\",\"code\":1}}\n\ndata: "
      "{\"error\":\"b\"}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4}}\n\n" DONE,
      "{\"error\":{\"kind\":\"in_band\",\"message\":\"a\",\"type\":null,\"code\":1},\"usage\":{"
      "\"prompt\":4,"
      "\"completion\":null,\"total\":null,\"cached\":null,\"reasoning\":null},\"done_marker\":true,"
      "\"complete\":false}");
  /* An error beside the choice it ended (OpenRouter). */
  chat("data: "
       "{\"error\":{\"code\":502,\"message\":\"m\"},\"choices\":[{\"index\":0,\"delta\":{"
       "\"content\":"
       "\"\"},\"finish_reason\":\"error\"}]}\n\n",
       "{\"finish_reason\":\"error\",\"error\":{\"kind\":\"in_band\",\"message\":\"m\",\"type\":"
       "null,\"code\":"
       "502}}");
  chat(HELLO "error: {\"code\":500,\"message\":\"m\"}\n\n",
       "{\"sse_events\":1,\"error\":{\"kind\":\"error_field\",\"message\":\"m\",\"type\":null,"
       "\"code\":500}}");
  chat("error: {\"error\":{\"message\":\"n\",\"type\":\"t\"}}\n\n",
       "{\"error\":{\"kind\":\"error_field\",\"message\":\"n\",\"type\":\"t\",\"code\":null}}");
  chat("error: plain words \n\n", "{\"error\":{\"kind\":\"error_field\",\"message\":\"plain "
                                  "words\",\"type\":null,\"code\":null}}");
  chat("event: error\n: gone\n", "{\"comments\":1,\"eof_flush\":true,\"error\":{\"kind\":\"event_"
                                 "error_comment\",\"message\":\"gone\","
                                 "\"type\":null,\"code\":null}}");
}

/* No framing at all. */
static void test_raw_json(void **state) {
  (void)state;
#define RAW(message, type, code)                                                                   \
  "{\"sse_events\":0,\"complete\":false,\"error\":{\"kind\":\"raw_json_body\",\"message\":"        \
  "\"" message "\",\"type\":" type ",\"code\":" code "}}"
  chat("{\"error\":{\"message\":\"m\",\"type\":\"T\",\"code\":429}}", RAW("m", "\"T\"", "429"));
  chat(" \r\n{\"object\":\"error\",\n\n\"message\":\"m\",\"type\":\"T\",\"code\":1}\n",
       RAW("m", "\"T\"", "1"));
  chat("\xef\xbb\xbf{\"error\":\"x\"}", RAW("x", "null", "null"));
  chat("{\"choices\":[]}", RAW("the body is plain JSON, not an event stream", "null", "null"));
  chat("[1]", RAW("the body is plain JSON, not an event stream", "null", "null"));
  chat("{\"error\":{\"message\":\"m\",\"ty", RAW("m", "null", "null"));
  chat("<html>no</html>", "{\"sse_events\":0,\"error\":null,\"complete\":false}");
}

/* Stamps are those of the read that completed the event. */
static void test_stamps(void **state) {
  (void)state;
  struct openai_stream s;
  openai_check_start(&s, OPENAI_CHAT);
  openai_check_feed(&s, "", 5);
  assert_int_equal(s.result.first_byte_ns, 0);
  openai_check_feed(&s, ": keep-alive\n\n", 10);
  openai_check_feed(&s, DELTA("{\"role\":\"assistant\"}"), 20);
  openai_check_feed(&s, "data: {\"choices\":[{\"delta\":{\"reasoning\":\"abc", 30);
  openai_check_feed(&s, "\"}}]}\n", 40);
  openai_check_feed(&s, "\n", 50);
  openai_check_feed(&s, DELTA("{\"content\":\"x\"}"), 60);
  openai_check_feed(&s, CALL_CHUNK DELTA("{\"content\":\"yz\"}") DELTA("{\"content\":\"\"}"), 70);
  openai_check_feed(&s, DELTA("{\"content\":\"!\"}"), 80);
  openai_check_feed(&s, "data: {\"choices\":[]}\n\n", 90);
  openai_check_feed(&s, DONE, 100);
  openai_check_feed(&s, HELLO, 110);
  openai_check_finish(&s);
  openai_check_finish(&s);
  const struct openai_result *r = &s.result;
  assert_true(r->any_bytes);
  assert_int_equal(r->first_byte_ns, 10);
  assert_int_equal(r->first_token_ns, 50);
  assert_int_equal(r->first_visible_ns, 60);
  assert_int_equal(r->last_token_ns, 80);
  assert_int_equal(r->end_ns, 100);
  static const struct openai_output want[] = {{50, -1, 3, false},
                                              {60, -1, 1, false},
                                              {70, -1, 6, true},
                                              {70, -1, 2, false},
                                              {80, -1, 1, false}};
  assert_int_equal(r->output_events, 5);
  assert_int_equal(r->n_outputs, 5);
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(r->outputs[i].stamp_ns, want[i].stamp_ns);
    assert_int_equal(r->outputs[i].tokens, want[i].tokens);
    assert_int_equal(r->outputs[i].text_len, want[i].text_len);
    assert_int_equal(r->outputs[i].coalesced, want[i].coalesced);
  }
  assert_int_equal(r->n_coalesced, 1);
  openai_stream_free(&s);
}

/* Of several output events in one read all but the last are coalesced, also without outputs[]. */
static void test_coalesced(void **state) {
  (void)state;
  struct openai_stream s;
  struct openai_options options = {.api = OPENAI_CHAT};
  openai_stream_init(&s, &options);
  openai_check_feed(&s, HELLO HELLO HELLO, 1);
  openai_check_feed(&s, HELLO, 2);
  openai_check_feed(&s, HELLO HELLO "data: {\"choices\":[{\"delta\":{\"content\":\"h\"}}]}", 3);
  assert_int_equal(s.result.n_coalesced, 3);
  openai_check_finish(&s); /* the last one was in the last read, too */
  assert_int_equal(s.result.n_coalesced, 4);
  assert_int_equal(s.result.output_events, 7);
  assert_int_equal(s.result.last_token_ns, 3);
  assert_null(s.result.outputs);
  openai_stream_free(&s);
}

/* A stream object that is used again starts from nothing, and may have moved in between. */
static void test_reset_and_move(void **state) {
  (void)state;
  struct openai_stream first, s;
  openai_check_start(&first, OPENAI_CHAT);
  openai_check_feed(&first, HELLO "data: {\"choices\":[{\"index\":0,\"del", 1);
  memcpy(&s, &first, sizeof s);
  memset(&first, 0xee, sizeof first);
  openai_check_feed(&s, "ta\":{\"content\":\"!\"}}]}\n\n" DONE, 2);
  openai_check_result(&s.result, "{\"text\":\"hello!\",\"complete\":true}", "moved");
  openai_stream_reset(&s);
  openai_check_feed(&s, DELTA("{\"content\":\"b\"}"), 3);
  openai_check_finish(&s);
  openai_check_result(&s.result,
                      "{\"text\":\"b\",\"complete\":false,\"done_marker\":false,\"sse_events\":1}",
                      "reset");
  assert_int_equal(s.result.first_byte_ns, 3);
  assert_int_equal(s.result.n_outputs, 1);
  openai_stream_reset(&s);
  openai_check_feed(&s, "{\"error\":\"x\"}", 4);
  openai_check_finish(&s);
  openai_stream_reset(&s);
  openai_check_feed(&s, HELLO DONE, 5);
  openai_check_result(&s.result, "{\"text\":\"hello\",\"complete\":true,\"error\":null}",
                      "raw, reset");
  openai_stream_free(&s);
  openai_stream_free(&s); /* harmless */
}

static void limited(struct openai_options options, const char *bytes, const char *want,
                    const char *message) {
  struct openai_stream s;
  struct err err;
  options.api = OPENAI_CHAT;
  openai_stream_init(&s, &options);
  size_t len = strlen(bytes);
  for (size_t cut = 0; cut <= len; cut++) {
    openai_stream_reset(&s);
    int rc = openai_stream_feed(&s, bytes, cut, 1, &err);
    if (rc == 0)
      rc = openai_stream_feed(&s, bytes + cut, len - cut, 1, &err);
    assert_int_equal(rc, ERR_LIMIT);
    check_has(err.text, message);
    assert_int_equal(s.result.error_kind, OPENAI_ERROR_LIMIT);
    assert_string_equal(s.result.error_message.data, err.text);
    openai_check_result(&s.result, want, message);
    assert_int_equal(openai_stream_feed(&s, "x", 1, 2, &err), ERR_LIMIT);
    assert_int_equal(openai_stream_finish(&s, &err), ERR_LIMIT);
    openai_check_result(&s.result, want, message);
  }
  openai_stream_free(&s);
}

static void test_limits(void **state) {
  (void)state;
  limited((struct openai_options){.max_bytes = 12}, HELLO HELLO HELLO HELLO,
          "{\"text\":\"hellohello\",\"output_events\":2,\"complete\":false}",
          "response: more than 12 bytes of output");
  limited((struct openai_options){.max_bytes = 12},
          DELTA("{\"reasoning\":\"hello\"}")
              DELTA("{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":"
                    "\"f\",\"arguments\":\"123456\"}}]}"),
          "{\"reasoning\":\"hello\",\"output_events\":1,\"tool_calls\":[{\"index\":0,\"id\":\"a\","
          "\"name\":"
          "\"f\",\"arguments\":\"\"}]}",
          "more than 12 bytes");
  limited((struct openai_options){.max_event = 64},
          HELLO ": a comment of more than sixty-four bytes, "
                "which is one too many here\n",
          "{\"text\":\"hello\",\"output_events\":1}",
          "event stream: a line is longer than 64 bytes");
  limited((struct openai_options){.max_event = 64},
          HELLO "data: {                                              \n"
                "data:                    }\n\n",
          "{\"text\":\"hello\",\"output_events\":1}",
          "event stream: an event is longer than 64 bytes");
  /* One stamp kept for each token without text is memory as well. */
  limited(
      (struct openai_options){.max_bytes = 3 * sizeof(struct openai_output), .keep_outputs = true},
      TEXT("\"token_ids\":[1]") TEXT("\"token_ids\":[1]") TEXT("\"token_ids\":[1]")
          TEXT("\"token_ids\":[1]"),
      "{\"text\":\"\"}", "more than");
}

/* A stream without end, with ever new choices and finish reasons, stops. */
static void test_hostile(void **state) {
  (void)state;
  struct openai_stream s;
  struct err err;
  openai_check_start(&s, OPENAI_CHAT);
  int rc = 0;
  int i = 0;
  for (; rc == 0 && i < 10000; i++) {
    char event[128];
    snprintf(event, sizeof event,
             "data: {\"choices\":[{\"index\":%d,\"finish_reason\":\"stop\"}]}\n\n", 100000 - i);
    rc = openai_stream_feed(&s, event, strlen(event), 1, &err);
  }
  assert_int_equal(rc, ERR_LIMIT);
  assert_int_equal(i, 4097);
  openai_stream_free(&s);
}

/* A megabyte in one event, in pieces. */
static void test_large_event(void **state) {
  (void)state;
  size_t len = 1 << 20;
  char *text = malloc(len + 1);
  memset(text, 'a', len);
  text[len] = '\0';
  struct openai_stream s;
  struct err err;
  openai_check_start(&s, OPENAI_CHAT);
  openai_check_feed(&s, "data: {\"choices\":[{\"delta\":{\"content\":\"", 1);
  for (size_t at = 0; at < len; at += 4099)
    check_ok(openai_stream_feed(&s, text + at, len - at < 4099 ? len - at : 4099, 2, &err), &err);
  openai_check_feed(&s, "\"}}]}\n\n", 3);
  assert_int_equal(s.result.choices[0].text.len, len);
  assert_memory_equal(s.result.choices[0].text.data, text, len);
  openai_stream_free(&s);
  free(text);
}

static void test_deep(void **state) {
  (void)state;
  char bytes[1024], deep[512];
  for (int depth = 196; depth <= 198; depth++) { /* below {"choices":[{ */
    memset(deep, '[', (size_t)depth);
    memset(deep + depth, ']', (size_t)depth);
    deep[2 * depth] = '\0';
    snprintf(bytes, sizeof bytes,
             "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"logprobs\":%s}]}\n\n", deep);
    struct openai_stream s;
    openai_check_start(&s, OPENAI_CHAT);
    openai_check_feed(&s, bytes, 1);
    assert_int_equal(s.result.error_kind, depth <= 197 ? OPENAI_ERROR_NONE : OPENAI_ERROR_BAD_JSON);
    assert_int_equal(s.result.output_events, depth <= 197);
    openai_stream_free(&s);
  }
}

static void test_replies(void **state) {
  (void)state;
  openai_check_reply(OPENAI_CHAT,
                     "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"choices\":[{"
                     "\"index\":0,\"message\":{\"role\":"
                     "\"assistant\",\"content\":\"hi\",\"reasoning_content\":\"hm\",\"tool_calls\":"
                     "[{\"id\":\"c\",\"type\":"
                     "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"id\":"
                     "\"d\",\"function\":{\"name\":"
                     "\"g\",\"arguments\":\"[]\"}}]},\"finish_reason\":\"stop\"},{\"index\":1,"
                     "\"message\":{\"content\":\"ho\"},"
                     "\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":9,\"completion_"
                     "tokens\":4,\"total_tokens\":"
                     "13,\"prompt_tokens_details\":{\"cached_tokens\":0}}}",
                     "{\"text\":\"hi\",\"texts\":{\"0\":\"hi\",\"1\":\"ho\"},\"reasoning\":\"hm\","
                     "\"finish_reason\":\"stop\","
                     "\"finish_reasons\":{\"0\":\"stop\",\"1\":\"length\"},\"tool_calls\":[{"
                     "\"index\":0,\"id\":\"c\",\"name\":"
                     "\"f\",\"arguments\":\"{}\"},{\"index\":1,\"id\":\"d\",\"name\":\"g\","
                     "\"arguments\":\"[]\"}],\"usage\":"
                     "{\"prompt\":9,\"completion\":4,\"total\":13,\"cached\":0,\"reasoning\":null},"
                     "\"sse_events\":0,"
                     "\"output_events\":1,\"ttft_event_index\":0,\"first_visible_event_index\":0,"
                     "\"complete\":true,"
                     "\"response_id\":null,\"error\":null,\"done_marker\":false}");
  openai_check_reply(
      OPENAI_COMPLETIONS,
      "{\"choices\":[{\"index\":0,\"text\":\" "
      "x\",\"finish_reason\":\"length\",\"token_ids\":[1,2]}],\"usage\":"
      "{\"prompt_tokens\":2,\"completion_tokens\":2,\"total_tokens\":4}}\n",
      "{\"text\":\" x\",\"token_ids_total\":2,\"finish_reason\":\"length\",\"complete\":true}");
  openai_check_reply(
      OPENAI_CHAT, "{\"error\":{\"message\":\"m\",\"type\":\"NotFoundError\",\"code\":404}}",
      "{\"complete\":false,\"error\":{\"kind\":\"in_band\",\"message\":\"m\",\"type\":"
      "\"NotFoundError\",\"code\":404}}");
  openai_check_reply(
      OPENAI_CHAT, "{\"object\":\"error\",\"message\":\"m\",\"type\":\"T\",\"code\":400}",
      "{\"complete\":false,\"error\":{\"kind\":\"in_band\",\"message\":\"m\",\"type\":\"T\","
      "\"code\":400}}");
  openai_check_reply(
      OPENAI_CHAT, "{\"choices\":[",
      "{\"complete\":false,\"error\":{\"kind\":\"truncated\",\"message\":\"the reply ends "
      "inside its JSON\",\"type\":null,\"code\":null}}");
  openai_check_reply(
      OPENAI_CHAT, "<html>",
      "{\"complete\":false,\"error\":{\"kind\":\"bad_json\",\"message\":\"the reply is not "
      "JSON\",\"type\":null,\"code\":null}}");
  openai_check_reply(OPENAI_CHAT, "", "{\"complete\":false,\"error\":null}");
}

static void test_reply_stamps(void **state) {
  (void)state;
  struct openai_stream s;
  struct err err;
  static const char body[] = "{\"choices\":[{\"message\":{\"content\":\"abc\"}}],\"usage\":"
                             "{\"completion_tokens\":7}}";
  openai_check_start(&s, OPENAI_CHAT);
  check_ok(openai_parse_reply(&s, body, sizeof body - 1, 42, &err), &err);
  const struct openai_result *r = &s.result;
  assert_int_equal(r->first_byte_ns, 42);
  assert_int_equal(r->first_token_ns, 42);
  assert_int_equal(r->first_visible_ns, 42);
  assert_int_equal(r->last_token_ns, 42);
  assert_int_equal(r->end_ns, 42);
  assert_int_equal(r->n_outputs, 1);
  assert_int_equal(r->outputs[0].tokens, 7);
  assert_int_equal(r->outputs[0].text_len, 3);
  openai_check_feed(&s, HELLO, 50); /* over: ignored */
  openai_check_finish(&s);
  openai_check_result(r, "{\"text\":\"abc\",\"complete\":true,\"sse_events\":0}",
                      "after the reply");
  openai_stream_reset(&s);
  s.result.api = OPENAI_CHAT;
  openai_check_feed(&s, HELLO DONE, 51);
  openai_check_result(r, "{\"text\":\"hello\",\"complete\":true}", "a stream after a reply");
  openai_stream_free(&s);

  struct openai_options options = {.api = OPENAI_CHAT, .max_bytes = 2};
  openai_stream_init(&s, &options);
  assert_int_equal(openai_parse_reply(&s, body, sizeof body - 1, 42, &err), ERR_LIMIT);
  check_has(err.text, "more than 2 bytes");
  openai_check_result(r, "{\"text\":\"\",\"complete\":false}", "limited reply");
  openai_stream_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fixtures),    cmocka_unit_test(test_api_from),
      cmocka_unit_test(test_framing),     cmocka_unit_test(test_after_done),
      cmocka_unit_test(test_ends),        cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_bad_json),    cmocka_unit_test(test_errors),
      cmocka_unit_test(test_raw_json),    cmocka_unit_test(test_stamps),
      cmocka_unit_test(test_coalesced),   cmocka_unit_test(test_reset_and_move),
      cmocka_unit_test(test_limits),      cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_large_event), cmocka_unit_test(test_deep),
      cmocka_unit_test(test_replies),     cmocka_unit_test(test_reply_stamps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
