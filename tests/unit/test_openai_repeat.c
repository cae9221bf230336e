#include "openai_check.h"

/* Reads `first`, and says whether `second` is then taken the short way; *text gets its text. */
static bool repeats(const char *first, const char *second, struct buf *text) {
  struct frame f;
  struct repeat r;
  struct scan_str view;
  frame_init(&f);
  repeat_init(&r);
  if (!frame_read(&f, first, strlen(first), false))
    fail_msg("%s is no JSON", first);
  repeat_learn(&r, &f);
  char *exact = malloc(strlen(second) + 1);
  memcpy(exact, second, strlen(second));
  bool yes = repeat_match(&r, exact, strlen(second), &view);
  if (yes && text) {
    buf_reset(text);
    assert_int_equal(scan_unescape(&view, text), 0);
  }
  free(exact);
  repeat_free(&r);
  frame_free(&f);
  return yes;
}

#define CHUNK(text)                                                                                \
  "{\"id\":\"i\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text "\"}}]}"

static void test_match(void **state) {
  (void)state;
  static const struct {
    const char *second, *text; /* NULL: must be read in full */
  } rows[] = {
      {CHUNK("b"), "b"},
      {CHUNK("a longer text, of more than sixteen bytes"),
       "a longer text, of more than sixteen bytes"},
      {CHUNK("\\n\\u00e9\\ud83d\\ude80\xc3\xa9"), "\n\xc3\xa9\xf0\x9f\x9a\x80\xc3\xa9"},
      {CHUNK("\\ud83d"), "\xef\xbf\xbd"},
      {CHUNK("\\\\"), "\\"},
      {CHUNK("\\\""), "\""},
      {CHUNK(""), NULL},                    /* no output */
      {CHUNK("b") " ", NULL},               /* valid, but not the same */
      {CHUNK("b\\"), NULL},                 /* escapes its own end */
      {CHUNK("b\\x"), NULL},                /* no escape */
      {CHUNK("b\\u12"), NULL},              /* cut escape */
      {CHUNK("b\n"), NULL},                 /* control character */
      {CHUNK("b\",\"content\":\"c"), NULL}, /* a quote: other fields */
      {CHUNK("b\"}}],\"usage\":{\"x\":\""), NULL},
      {"{\"id\":\"j\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]}", NULL},
      {"{\"id\":\"i\",\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}}]}", NULL},
      {"{\"id\":\"i\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]", NULL},
      {"{\"id\":\"i\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"", NULL},
      {"", NULL},
  };
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    bool yes = repeats(CHUNK("first"), rows[i].second, &text);
    if (yes != (rows[i].text != NULL))
      fail_msg("%s: %d", rows[i].second, yes);
    if (yes)
      assert_string_equal(text.data, rows[i].text);
  }
  /* Head and tail may not overlap in a shorter event. */
  assert_false(repeats("{\"choices\":[{\"text\":\"aa\"}],\"a\":\"\"}",
                       "{\"choices\":[{\"text\":\"\"}],\"a\":\"\"}", NULL));
  buf_free(&text);
}

/* Only an event that says one text, and no more, can be repeated. */
static void test_learn(void **state) {
  (void)state;
  const char *kept[] = {
      "{\"choices\":[{\"text\":\"a\"}]}",
      "{\"choices\":[{\"delta\":{\"reasoning\":\"a\",\"content\":null}}],\"usage\":null}",
      "{\"choices\":[{\"delta\":{\"reasoning_content\":\"a\",\"content\":\"\"},\"finish_reason\":"
      "null}]}",
      "{\"choices\":[{\"delta\":{\"content\":\"x\",\"content\":\"a\"},\"index\":7}],\"error\":"
      "null}",
  };
  const char *not_kept[] = {
      "{\"choices\":[{\"text\":\"\"}]}",
      "{\"choices\":[]}",
      "5",
      "{\"choices\":[{\"text\":\"a\"},{}]}",
      "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}",
      "{\"choices\":[{\"text\":\"a\",\"token_ids\":[1]}]}",
      "{\"choices\":[{\"text\":\"a\",\"token_ids\":[]}]}",
      "{\"choices\":[{\"text\":\"a\"}],\"usage\":{}}",
      "{\"choices\":[{\"text\":\"a\"}],\"error\":\"x\"}",
      "{\"choices\":[{\"text\":\"a\"}],\"object\":\"error\"}",
      "{\"choices\":[{\"text\":\"a\"}],\"type\":\"error\"}",
      "{\"choices\":[{\"text\":\"a\",\"delta\":{\"content\":\"b\"}}]}",
      "{\"choices\":[{\"delta\":{\"content\":\"b\",\"reasoning\":\"c\"}}]}",
      "{\"choices\":[{\"delta\":{\"content\":\"b\",\"tool_calls\":[{}]}}]}",
  };
  for (size_t i = 0; i < ARRAY_LEN(kept); i++)
    if (!repeats(kept[i], kept[i], NULL))
      fail_msg("%s is not kept", kept[i]);
  for (size_t i = 0; i < ARRAY_LEN(not_kept); i++)
    if (repeats(not_kept[i], not_kept[i], NULL))
      fail_msg("%s is kept", not_kept[i]);
  char large[4096];
  snprintf(large, sizeof large, "{\"choices\":[{\"text\":\"%02100d\"}]}", 1);
  assert_false(repeats(large, large, NULL));
}

/* What the short way makes of a stream is what the long way makes of it. */
static void test_same_result(void **state) {
  (void)state;
  static const char bytes[] = DELTA("{\"role\":\"assistant\",\"content\":\"\"}")
      DELTA("{\"reasoning\":\"r\"}") DELTA("{\"reasoning\":\"s\"}") DELTA("{\"content\":\"a\"}")
          DELTA("{\"content\":\"b\\n\"}")
              DELTA("{\"content\":\"\"}") "event: error\n" DELTA("{\"content\":\"c\"}") DELTA(
                  "{\"content\":\"d\"}") "data: {\"choices\":[{\"index\":2,\"delta\":{\"content\":"
                                         "\"e\"}}]}\n\ndata: {\"choices\":[{\"index\":2,\"delta\":"
                                         "{\"content\":\"f\"}}]}\n\n" DONE;
  for (int in_full = 0; in_full < 2; in_full++) {
    struct openai_stream s;
    openai_check_start(&s, OPENAI_CHAT);
    s.priv->in_full = in_full;
    openai_check_feed(&s, bytes, 9);
    openai_check_result(
        &s.result,
        "{\"reasoning\":\"rs\",\"texts\":{\"0\":\"ab\\ncd\",\"2\":\"ef\"},\"sse_events\":11,"
        "\"output_events\":8,\"ttft_event_index\":1,\"first_visible_event_index\":3,"
        "\"error\":{\"kind\":\"in_band\",\"message\":\"{\\\"choices\\\":[{\\\"index\\\":0,"
        "\\\"delta\\\":{\\\"content\\\":\\\"c\\\"}}]}\",\"type\":null,\"code\":null}}",
        in_full ? "in full" : "short");
    assert_int_equal(s.result.n_coalesced, 7);
    assert_int_equal(s.result.outputs[4].text_len, 1);
    assert_int_equal(s.result.outputs[4].tokens, -1);
    openai_stream_free(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_match), cmocka_unit_test(test_learn),
                                     cmocka_unit_test(test_same_result)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
