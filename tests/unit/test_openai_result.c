#include "openai_check.h"

#include "text/openai_impl.h"

static void set(struct buf *b, const char *text) {
  buf_reset(b);
  buf_puts(b, text);
}

static void test_sorted(void **state) {
  (void)state;
  struct openai_result r;
  openai_result_init(&r, OPENAI_CHAT);
  static const int64_t order[] = {5, 1, 9, 1, 0, 7, 5, 2, 8, 3, 4, 6, 10, 11};
  for (size_t i = 0; i < ARRAY_LEN(order); i++) {
    char text[8];
    snprintf(text, sizeof text, "t%d", (int)order[i]);
    struct openai_choice *c = openai_result_choice(&r, order[i]);
    assert_true(c->text.len == 0 || strcmp(c->text.data, text) == 0);
    set(&c->text, text);
    struct openai_tool_call *t = openai_result_tool(&r, order[i] % 2, order[i]);
    assert_true(t->id.len == 0 || strcmp(t->id.data, text) == 0);
    set(&t->id, text);
  }
  assert_int_equal(r.n_choices, 12);
  assert_int_equal(r.n_tool_calls, 12);
  for (int i = 0; i < 12; i++) {
    char text[16];
    snprintf(text, sizeof text, "t%d", i);
    assert_int_equal(r.choices[i].index, i);
    assert_string_equal(r.choices[i].text.data, text);
    int want = i < 6 ? 2 * i : 2 * (i - 6) + 1; /* by choice, then by index */
    snprintf(text, sizeof text, "t%d", want);
    assert_int_equal(r.tool_calls[i].choice, want % 2);
    assert_int_equal(r.tool_calls[i].index, want);
    assert_string_equal(r.tool_calls[i].id.data, text);
  }
  openai_result_free(&r);
}

/* After a reset nothing is left but memory. */
static void test_reset(void **state) {
  (void)state;
  struct openai_result r;
  openai_result_init(&r, OPENAI_RESPONSES);
  set(&openai_result_choice(&r, 3)->text, "x");
  set(&openai_result_choice(&r, 3)->finish_reason, "stop");
  set(&openai_result_tool(&r, 0, 4)->arguments, "{}");
  set(&r.reasoning, "r");
  set(&r.response_id, "id");
  openai_result_error_text(&r, OPENAI_ERROR_BAD_JSON, "  e \n", 5);
  r.usage.present = r.complete = r.done_marker = r.any_bytes = true;
  r.first_byte_ns = r.n_coalesced = r.sse_events = 9;
  openai_result_reset(&r);
  assert_int_equal(r.api, OPENAI_RESPONSES);
  assert_int_equal(r.first_byte_ns + r.n_coalesced, 0);
  assert_false(r.any_bytes);
  openai_check_result(
      &r,
      "{\"sse_events\":0,\"comments\":0,\"ttft_event_index\":null,"
      "\"first_visible_event_index\":null,\"output_events\":0,\"token_ids_total\":null,"
      "\"text\":\"\",\"texts\":{},\"finish_reason\":null,\"finish_reasons\":{},"
      "\"reasoning\":\"\",\"tool_calls\":[],\"usage\":null,\"response_id\":null,"
      "\"error\":null,\"complete\":false,\"done_marker\":false,\"eof_flush\":false}",
      "after reset");
  assert_non_null(r.choices[0].text.data);
  assert_int_equal(openai_result_choice(&r, 0)->text.len, 0);
  assert_int_equal(openai_result_tool(&r, 0, 0)->arguments.len, 0);
  openai_result_free(&r);
}

static void test_full(void **state) {
  (void)state;
  struct openai_result r;
  openai_result_init(&r, OPENAI_CHAT);
  for (int64_t i = 0; i < FRAME_MAX_ENTRIES; i++) {
    assert_non_null(openai_result_choice(&r, i));
    assert_non_null(openai_result_tool(&r, 0, i));
  }
  assert_null(openai_result_choice(&r, FRAME_MAX_ENTRIES));
  assert_null(openai_result_tool(&r, 1, 0));
  assert_non_null(openai_result_choice(&r, 7));
  assert_non_null(openai_result_tool(&r, 0, 7));
  openai_result_free(&r);
}

static void test_first_error_stands(void **state) {
  (void)state;
  struct openai_result r;
  openai_result_init(&r, OPENAI_CHAT);
  openai_result_error_text(&r, OPENAI_ERROR_TRUNCATED, "one", 3);
  openai_result_error_text(&r, OPENAI_ERROR_BAD_JSON, "two", 3);
  openai_check_result(
      &r,
      "{\"error\":{\"kind\":\"truncated\",\"message\":\"one\",\"type\":null,\"code\":"
      "null}}",
      "two errors");
  openai_result_free(&r);
}

static void test_kinds(void **state) {
  (void)state;
  static const char *const kinds[] = {
      NULL,        "in_band",       "error_field", "event_error_comment",
      "truncated", "raw_json_body", "bad_json",    "limit"};
  for (int kind = OPENAI_ERROR_IN_BAND; kind <= OPENAI_ERROR_LIMIT; kind++) {
    struct openai_result r;
    char want[128];
    openai_result_init(&r, OPENAI_CHAT);
    openai_result_error_text(&r, (enum openai_error_kind)kind, "", 0);
    snprintf(want, sizeof want,
             "{\"error\":{\"kind\":\"%s\",\"message\":\"\",\"type\":null,\"code\":null}}",
             kinds[kind]);
    openai_check_result(&r, want, kinds[kind]);
    openai_result_free(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sorted), cmocka_unit_test(test_reset),
      cmocka_unit_test(test_full),   cmocka_unit_test(test_first_error_stands),
      cmocka_unit_test(test_kinds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
