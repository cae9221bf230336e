/* test_sample.c: golden rows, and the names and order of DESIGN.md's fields. */
#include "check.h"

#include "base/mem.h"
#include "out/sample.h"
#include "text/json.h"

static const char all_unknown[] =
    "{\"v\":1,\"run\":\"r-1\",\"arm\":null,\"trial_block\":0,\"session\":0,\"turn\":null,"
    "\"branch\":0,\"parent\":null,\"step\":null,\"tags\":{},"
    "\"t\":{\"sched\":null,\"start\":null,\"connected\":null,\"sent\":null,\"headers\":null,"
    "\"first_byte\":null,\"first_token\":null,\"last_token\":null,\"done\":null},"
    "\"error_ns\":null,\"coalesced\":0,\"status\":null,\"error\":null,\"finish_reason\":null,"
    "\"reused_connection\":null,\"bytes_sent\":0,\"bytes_received\":0,"
    "\"prompt_tokens\":null,\"prompt_tokens_local\":null,\"output_tokens\":null,"
    "\"output_tokens_local\":null,\"reasoning_tokens\":null,\"cached_tokens\":null,"
    "\"cached_state\":\"absent\",\"output_events\":0,\"itl_ns\":null,\"output_hash\":null,"
    "\"policy\":null,\"chosen\":null,\"served\":null,\"hint\":null,\"lookup_reason\":null,"
    "\"route_reason\":null,\"score\":null,\"matched_tokens\":null,\"matched_blocks\":null,"
    "\"tier\":null,\"lookup_ns\":null,\"lookup_server_ns\":null,\"fallback\":null,"
    "\"possible\":null,\"available\":null,\"captured\":null,\"delivered\":null,"
    "\"ledger_source\":null,\"causes\":null,\"class\":null,\"server\":null,"
    "\"render_ns\":null,\"tokenize_ns\":null,\"hash_ns\":null,\"survived_tokens\":null,"
    "\"measured\":false,\"generation\":false,\"stream_asked\":false,\"streamed\":false,\"method\":"
    "null,\"url\":null,"
    "\"error_detail\":null,\"reconnects\":0,\"first_visible\":null,\"asked_tokens\":null,\"first_"
    "tokens\":null,"
    "\"window_tokens\":null,\"coalesced_bound_ns\":null,\"request_id\":null}";

static const char all_known[] =
    "{\"v\":1,\"run\":\"r \\\"2\\\"\",\"arm\":\"precise\",\"trial_block\":3,"
    "\"session\":18446744073709551614,\"turn\":2,\"branch\":1,\"parent\":0,\"step\":4,"
    "\"tags\":{\"tier\":\"gold\"},"
    "\"t\":{\"sched\":1,\"start\":2,\"connected\":3,\"sent\":4,\"headers\":5,\"first_byte\":6,"
    "\"first_token\":7,\"last_token\":8,\"done\":9000000000},"
    "\"error_ns\":-12,\"coalesced\":2,\"status\":503,\"error\":\"http_5xx\","
    "\"finish_reason\":\"stop\",\"reused_connection\":true,\"bytes_sent\":100,"
    "\"bytes_received\":200,\"prompt_tokens\":1000,\"prompt_tokens_local\":1001,"
    "\"output_tokens\":0,\"output_tokens_local\":9,\"reasoning_tokens\":5,\"cached_tokens\":960,"
    "\"cached_state\":\"value\",\"output_events\":3,\"itl_ns\":[20000000,7],"
    "\"output_hash\":\"00000000deadbeef\",\"policy\":\"session_hash\",\"chosen\":\"r0\","
    "\"served\":\"r1\",\"hint\":null,\"lookup_reason\":null,\"route_reason\":\"hash\","
    "\"score\":null,\"matched_tokens\":null,\"matched_blocks\":null,\"tier\":null,"
    "\"lookup_ns\":null,\"lookup_server_ns\":null,\"fallback\":false,"
    "\"possible\":null,\"available\":null,\"captured\":null,\"delivered\":null,"
    "\"ledger_source\":null,\"causes\":null,\"class\":null,\"server\":{\"queue_ms\":1.5},"
    "\"render_ns\":10,\"tokenize_ns\":20,\"hash_ns\":30,\"survived_tokens\":960,"
    "\"measured\":true,\"generation\":true,\"stream_asked\":true,\"streamed\":true,\"method\":"
    "\"POST\","
    "\"url\":\"http://h/v1\",\"error_detail\":\"503: overloaded\\nsorry\",\"reconnects\":1,"
    "\"first_visible\":7,\"asked_tokens\":100,\"first_tokens\":1,\"window_tokens\":8,\"coalesced_"
    "bound_ns\":44,\"request_id\":\"perigee-1-0-2\"}";

static void check_row(const struct sample *s, const char *run, bool itl, const char *want) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  sample_write(&b, s, run, itl);
  assert_string_equal(b.data, want);
  struct value v;
  struct err err;
  check_ok(json_parse(b.data, b.len, &v, &err), &err);
  value_free(&v);
  buf_free(&b);
}

static void unknown_is_null(void **state) {
  (void)state;
  struct sample *s = sample_new();
  check_row(s, "r-1", false, all_unknown);
  sample_free(s);
  sample_free(NULL);
}

static void everything_known(void **state) {
  (void)state;
  struct sample *s = sample_new();
  static const uint64_t stamps[STAMP_COUNT] = {1, 2, 3, 4, 5, 6, 7, 8, 9000000000};
  memcpy(s->t, stamps, sizeof stamps);
  s->arm = "precise";
  s->trial_block = 3;
  s->session = UINT64_MAX - 1;
  s->turn = 2;
  s->step = 4;
  s->branch = 1;
  s->parent = 0;
  s->tags = mem_strdup("{\"tier\":\"gold\"}");
  s->measured = s->is_generation = s->streamed = s->stream_asked = s->reused_connection = true;
  s->first_visible = 7;
  s->error_ns = -12;
  s->coalesced = 2;
  s->coalesced_bound_ns = 44;
  s->status = 503;
  s->error = SAMPLE_HTTP_5XX;
  s->error_detail = mem_strdup("503: overloaded\nsorry");
  s->reconnects = 1;
  s->bytes_sent = 100;
  s->bytes_received = 200;
  s->method = "POST";
  s->url = mem_strdup("http://h/v1");
  s->finish_reason = mem_strdup("stop");
  s->prompt_tokens = 1000;
  s->prompt_tokens_local = 1001;
  s->output_tokens = 0;
  s->output_tokens_local = 9;
  s->reasoning_tokens = 5;
  s->cached_tokens = 960;
  s->cached_state = CACHED_VALUE;
  s->first_tokens = 1;
  s->window_tokens = 8;
  s->asked_tokens = 100;
  s->output_events = 3;
  s->n_gaps = 2;
  s->gaps_ns = mem_calloc(2, sizeof *s->gaps_ns);
  s->gaps_ns[0] = 20000000;
  s->gaps_ns[1] = 7;
  s->gap_tokens = mem_calloc(2, sizeof *s->gap_tokens);
  s->output_hash = 0xdeadbeef;
  s->server = mem_strdup("{\"queue_ms\":1.5}");
  s->policy = "session_hash";
  s->chosen = mem_strdup("r0");
  s->served = mem_strdup("r1");
  s->route_reason = mem_strdup("hash");
  s->render_ns = 10;
  s->tokenize_ns = 20;
  s->survived_tokens = 960;
  s->request_id = mem_strdup("perigee-1-0-2");
  s->hash_ns = 30;
  check_row(s, "r \"2\"", true, all_known);
  sample_free(s);
}

static void cached_states(void **state) {
  (void)state;
  struct sample *s = sample_new();
  s->cached_tokens = 7; /* whatever it is, the state decides */
  static const struct {
    enum sample_cached_state state;
    const char *name;
    int64_t tokens;
  } cases[] = {{CACHED_ABSENT, "absent", SAMPLE_ABSENT},
               {CACHED_VALUE, "value", 7},
               {CACHED_ZERO, "zero", 0},
               {CACHED_INFERRED_ZERO, "inferred_zero", 0}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    s->cached_state = cases[i].state;
    assert_int_equal(sample_cached_tokens(s), cases[i].tokens);
    assert_string_equal(sample_cached_name(cases[i].state), cases[i].name);
  }
  sample_free(s);
}

static void error_classes(void **state) {
  (void)state;
  /* DESIGN.md's list, in its order. */
  static const char *const list[] = {"ok",           "cancelled",         "incomplete",
                                     "resolve",      "connect",           "tls",
                                     "reset",        "timeout_connect",   "timeout_first_byte",
                                     "timeout_idle", "timeout_total",     "http_429",
                                     "http_4xx",     "http_5xx",          "not_sse",
                                     "stream_error", "empty_stream",      "truncated",
                                     "bad_json",     "no_visible_output", "script"};
  assert_int_equal(ARRAY_LEN(list), SAMPLE_ERROR_COUNT);
  for (int i = 0; i < SAMPLE_ERROR_COUNT; i++) {
    assert_string_equal(sample_error_name((enum sample_error)i), list[i]);
    assert_int_equal(sample_error_failed((enum sample_error)i), i > 2);
  }
}

/* Nobody answered a request that was refused, wherever it was sent. */
static void served_only_by_who_answered(void **state) {
  (void)state;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  struct sample *s = sample_new();
  s->served = mem_strdup("r1");
  s->error = SAMPLE_CONNECT;
  sample_write(&b, s, "r", false);
  check_has(b.data, "\"served\":null");
  buf_reset(&b);
  s->t[STAMP_HEADERS] = 5;
  sample_write(&b, s, "r", false);
  check_has(b.data, "\"served\":\"r1\"");
  buf_free(&b);
  sample_free(s);
}

/* Numbers of one to twenty digits, with zeros where they can get lost. */
static void numbers_are_whole(void **state) {
  (void)state;
  uint64_t power = 1;
  for (int digits = 1; digits <= 20; digits++, power *= 10) {
    const uint64_t numbers[] = {power - 1, power, power + 7, power * 9 + power / 10, power / 7 * 5};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
      struct sample *s = sample_new();
      struct buf b;
      char want[64];
      buf_init(&b, BUF_MAX_OWN);
      s->bytes_sent = numbers[i];
      sample_write(&b, s, "r", false);
      snprintf(want, sizeof want, ",\"bytes_sent\":%llu,", (unsigned long long)numbers[i]);
      if (!strstr(b.data, want))
        fail_msg("%s is not in %s", want, b.data);
      buf_free(&b);
      sample_free(s);
    }
  }
}

/* Short texts lie in the sample, those for which there is no room do not; both are freed with it.
 */
static void texts_are_kept(void **state) {
  (void)state;
  struct sample *s = sample_new();
  char text[SAMPLE_SMALL];
  memset(text, 'x', sizeof text);
  s->url = sample_keep(s, text, SAMPLE_SMALL - 3);
  s->served = sample_keep(s, "r", 1);
  s->chosen = sample_keep(s, "q", 1);
  assert_int_equal(strlen(s->url), SAMPLE_SMALL - 3);
  assert_ptr_equal(s->url, s->small);
  assert_ptr_equal(s->served, s->small + SAMPLE_SMALL - 2);
  assert_string_equal(s->served, "r");
  assert_string_equal(s->chosen, "q");
  sample_drop(s, s->url);
  s->url = sample_keep(s, text, sizeof text);
  assert_memory_equal(s->url, text, sizeof text);
  assert_int_equal(s->url[sizeof text], '\0');
  sample_drop(s, s->url);
  s->url = mem_strdup("apart");
  sample_free(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_are_whole),
      cmocka_unit_test(texts_are_kept),
      cmocka_unit_test(served_only_by_who_answered),
      cmocka_unit_test(unknown_is_null),
      cmocka_unit_test(everything_known),
      cmocka_unit_test(cached_states),
      cmocka_unit_test(error_classes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
