/* test_delivery.c: what each fault does to an answer, seen from a client's socket. */
#include "simtest.h"

static struct simtest sim;

static int start(void **state) {
  (void)state;
  static const char *const sets[] = {"kv_blocks=1000", NULL};
  simtest_start(&sim, 1, "instant", sets, NULL, NULL);
  return 0;
}

static int stop(void **state) {
  (void)state;
  simtest_stop(&sim);
  return 0;
}

static void set_fault(const char *spec) {
  char body[200];
  struct value v = simtest_admin(&sim, "POST", "/admin/clear_faults", "", 200);
  value_free(&v);
  snprintf(body, sizeof body, "{\"replica\":\"r0\",\"fault\":\"%s\"}", spec);
  v = simtest_admin(&sim, "POST", "/admin/fault", body, 200);
  value_free(&v);
}

static const char stream_body[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":4,\"ignore_eos\":true,"
    "\"stream\":true,\"stream_options\":{\"include_usage\":true}}";
static const char whole_body[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":4,\"ignore_eos\":true}";

/* An honest stream has seven events: role, four of content, usage, the end marker. */
static struct simtest_answer stream(const char *spec) {
  set_fault(spec);
  return simtest_post(sim.ports[0], "/v1/chat/completions", stream_body);
}

static struct simtest_answer whole(const char *spec) {
  set_fault(spec);
  return simtest_post(sim.ports[0], "/v1/chat/completions", whole_body);
}

static size_t count(const char *text, const char *needle) {
  size_t n = 0;
  for (const char *p = text; (p = strstr(p, needle)); p++)
    n++;
  return n;
}

static bool ends_with(const struct simtest_answer *a, const char *tail) {
  size_t len = strlen(tail);
  return a->body_len >= len && memcmp(a->body + a->body_len - len, tail, len) == 0;
}

/* The stream without faults, byte for byte what the shaping faults must add up to (but the id). */
static char *honest(void) {
  struct simtest_answer a = stream("no_usage path=/nowhere");
  assert_true(a.complete);
  assert_int_equal(count(a.body, "data: "), 7);
  char *body = a.body;
  a.body = NULL;
  simtest_free(&a);
  return body;
}

/* Ids and times differ between answers: compares lengths and everything from "choices" on. */
static void check_same_events(const char *got, const char *want) {
  assert_int_equal(strlen(got), strlen(want));
  const char *g = got, *w = want;
  while ((w = strstr(w, "\"choices\":"))) {
    g = strstr(g, "\"choices\":");
    assert_non_null(g);
    size_t len = strcspn(w, "\n");
    assert_memory_equal(g, w, len);
    w += len;
    g += len;
  }
}

static void test_status(void **state) {
  (void)state;
  struct simtest_answer a = stream("429 retry_after=2s");
  assert_int_equal(a.status, 429);
  check_has(a.data, "\r\nRetry-After: 2\r\n");
  check_has(a.data, "\r\nx-inference-pod: r0\r\n");
  assert_string_equal(a.body, "{\"error\":{\"message\":\"The simulated replica answers 429 on "
                              "demand.\",\"type\":\"Too Many Requests\",\"param\":null,\"code\":"
                              "429}}");
  simtest_free(&a);
  a = whole("503");
  assert_int_equal(a.status, 503);
  assert_null(strstr(a.data, "Retry-After"));
  simtest_free(&a);
}

static void test_empty_and_only_done_and_html(void **state) {
  (void)state;
  struct simtest_answer a = stream("empty");
  assert_int_equal(a.status, 200);
  check_has(a.data, "Content-Type: text/event-stream");
  assert_true(a.complete);
  assert_int_equal(a.body_len, 0);
  simtest_free(&a);
  a = stream("only_done");
  assert_string_equal(a.body, "data: [DONE]\n\n");
  assert_true(a.complete);
  simtest_free(&a);
  a = stream("not_sse");
  assert_int_equal(a.status, 200);
  check_has(a.data, "Content-Type: text/html\r\n");
  check_has(a.body, "<!doctype html>");
  simtest_free(&a);
}

static void test_reset(void **state) {
  (void)state;
  struct simtest_answer a = stream("reset");
  assert_true(a.reset);
  assert_int_equal(a.len, 0);
  simtest_free(&a);
  a = stream("reset after=3");
  assert_true(a.reset);
  assert_int_equal(a.status, 200);
  assert_int_equal(count(a.body, "data: "), 3);
  assert_false(a.complete);
  simtest_free(&a);
  simtest_wait_state(&sim, 0, "running", 0);
}

static void test_error_event(void **state) {
  (void)state;
  struct simtest_answer a = stream("error after=3");
  assert_true(a.complete);
  assert_int_equal(count(a.body, "data: "), 5);
  assert_true(ends_with(&a, "data: {\"error\":{\"message\":\"The simulated engine failed on "
                            "demand.\",\"type\":\"InternalServerError\",\"param\":null,\"code\":"
                            "500}}\n\ndata: [DONE]\n\n"));
  assert_null(strstr(a.body, "\"finish_reason\":\""));
  simtest_free(&a);
  a = whole("error");
  assert_int_equal(a.status, 500);
  check_has(a.body, "InternalServerError");
  simtest_free(&a);
  simtest_wait_state(&sim, 0, "running", 0);
}

static void test_bad_json(void **state) {
  (void)state;
  struct simtest_answer a = stream("bad_json after=2");
  assert_true(a.complete);
  assert_int_equal(count(a.body, "data: "), 7);
  size_t broken = 0, i = 0;
  char *save = NULL;
  for (char *line = strtok_r(a.body, "\n", &save); line; line = strtok_r(NULL, "\n", &save), i++) {
    struct value v;
    struct err err;
    if (strcmp(line, "data: [DONE]") == 0)
      continue;
    if (json_parse(line + 6, strlen(line + 6), &v, &err)) {
      broken++;
      assert_int_equal(i, 2);
    }
    value_free(&v);
  }
  assert_int_equal(broken, 1);
  simtest_free(&a);
  a = whole("bad_json");
  struct value v;
  struct err err;
  assert_true(a.complete);
  assert_int_not_equal(json_parse(a.body, a.body_len, &v, &err), 0);
  simtest_free(&a);
}

static void test_truncated_and_cut(void **state) {
  (void)state;
  struct simtest_answer a = stream("truncated");
  assert_true(a.complete); /* a proper end of the body, and yet no end marker */
  assert_int_equal(count(a.body, "data: "), 6);
  assert_null(strstr(a.body, "[DONE]"));
  check_has(a.body, "\"usage\"");
  simtest_free(&a);
  a = stream("truncated after=2");
  assert_true(a.complete);
  assert_int_equal(count(a.body, "data: "), 2);
  simtest_free(&a);
  a = stream("cut after=2");
  assert_false(a.complete);
  assert_false(a.reset);
  assert_int_equal(count(a.body, "data: "), 2);
  simtest_free(&a);
  a = whole("cut");
  assert_int_equal(a.status, 200);
  assert_false(a.complete);
  check_has(a.body, "\"id\":\"chatcmpl-");
  simtest_free(&a);
}

static void test_no_usage_and_no_output(void **state) {
  (void)state;
  struct simtest_answer a = stream("no_usage");
  assert_int_equal(count(a.body, "data: "), 6);
  assert_null(strstr(a.body, "usage"));
  assert_true(ends_with(&a, "data: [DONE]\n\n"));
  simtest_free(&a);
  a = whole("no_usage");
  assert_null(strstr(a.body, "usage"));
  simtest_free(&a);
  a = stream("no_output");
  assert_int_equal(count(a.body, "data: "), 4); /* role, finish, usage, end */
  assert_int_equal(count(a.body, "\"content\":\"\""), 2);
  check_has(a.body, "\"finish_reason\":\"length\"");
  check_has(a.body, "\"completion_tokens\":4");
  simtest_free(&a);
}

static void test_stall_in_the_middle(void **state) {
  (void)state;
  char *want = honest();
  struct simtest_answer a = stream("stall after=2 for=150ms");
  assert_true(a.complete);
  check_same_events(a.body, want);
  assert_true(a.last_ns - a.sent_ns >= 150 * NS_PER_MS);
  simtest_free(&a);
  free(want);
}

/* What was made meanwhile does not come in one burst: an engine that stood still goes on. */
static void test_after_a_stall_the_pace_is_kept(void **state) {
  (void)state;
  static const char *const sets[] = {"ttft=1ms", "itl=30ms", NULL};
  static const char *const faults[] = {"stall after=3 for=100ms", NULL};
  struct simtest paced;
  for (int staged = 0; staged < 2; staged++) {
    simtest_start(&paced, 1, "fixed", sets, staged ? faults : NULL, NULL);
    struct simtest_answer a = simtest_post(paced.ports[0], "/v1/chat/completions", stream_body);
    assert_true(a.complete);
    assert_int_equal(count(a.body, "data: "), 7);
    assert_true(a.last_ns - a.sent_ns >= (staged ? 190 : 90) * NS_PER_MS);
    assert_true(a.chunks >= 4); /* no two tokens in one read */
    simtest_free(&a);
    simtest_stop(&paced);
  }
}

static void test_stall_before_the_head(void **state) {
  (void)state;
  struct simtest_answer a = stream("stall for=150ms");
  assert_true(a.complete);
  assert_true(a.first_ns - a.sent_ns >= 140 * NS_PER_MS);
  assert_int_equal(count(a.body, "data: "), 7);
  simtest_free(&a);
}

static void test_stall_for_ever(void **state) {
  (void)state;
  static const char *const specs[] = {"stall", "stall after=2"};
  for (size_t i = 0; i < 2; i++) {
    set_fault(specs[i]);
    int fd = simtest_connect(sim.ports[0]);
    struct timeval limit = {.tv_usec = 150000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    simtest_send(fd, "POST", "/v1/chat/completions", NULL, stream_body);
    char data[8192];
    size_t got = 0;
    ssize_t n;
    while ((n = recv(fd, data + got, sizeof data - 1 - got, 0)) > 0)
      got += (size_t)n;
    assert_int_equal(errno, EAGAIN); /* silent, and open */
    data[got] = '\0';
    assert_int_equal(count(data, "data: "), i ? 2 : 0);
    close(fd);
  }
}

static void test_slow_dribbles_every_byte(void **state) {
  (void)state;
  char *want = honest();
  struct simtest_answer a = stream("slow bytes=100 delay=5ms");
  assert_true(a.complete);
  check_same_events(a.body, want);
  size_t pieces = (a.body_len + 99) / 100;
  assert_true(a.chunks >= pieces && a.chunks <= pieces + 7);
  assert_true(a.last_ns - a.sent_ns >= (pieces - 1) * 5 * NS_PER_MS);
  simtest_free(&a);
  a = whole("slow bytes=50 delay=2ms");
  assert_int_equal(a.chunks, (a.body_len + 49) / 50);
  struct value v = simtest_json(&a);
  value_free(&v);
  simtest_free(&a);
  free(want);
}

static void test_coalesce_writes_together(void **state) {
  (void)state;
  char *want = honest();
  struct simtest_answer a = stream("coalesce events=3");
  assert_true(a.complete);
  assert_int_equal(a.chunks, 3); /* 3 + 3 + 1 */
  check_same_events(a.body, want);
  simtest_free(&a);
  a = stream("coalesce events=100");
  assert_int_equal(a.chunks, 1);
  check_same_events(a.body, want);
  simtest_free(&a);
  free(want);
}

static void test_count_and_path(void **state) {
  (void)state;
  struct simtest_answer a = whole("500 count=1");
  assert_int_equal(a.status, 500);
  simtest_free(&a);
  a = simtest_post(sim.ports[0], "/v1/chat/completions", whole_body);
  assert_int_equal(a.status, 200);
  simtest_free(&a);
  a = whole("500 path=/v1/completions");
  assert_int_equal(a.status, 200);
  simtest_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_status),
      cmocka_unit_test(test_empty_and_only_done_and_html),
      cmocka_unit_test(test_reset),
      cmocka_unit_test(test_error_event),
      cmocka_unit_test(test_bad_json),
      cmocka_unit_test(test_truncated_and_cut),
      cmocka_unit_test(test_no_usage_and_no_output),
      cmocka_unit_test(test_stall_in_the_middle),
      cmocka_unit_test(test_after_a_stall_the_pace_is_kept),
      cmocka_unit_test(test_stall_before_the_head),
      cmocka_unit_test(test_stall_for_ever),
      cmocka_unit_test(test_slow_dribbles_every_byte),
      cmocka_unit_test(test_coalesce_writes_together),
      cmocka_unit_test(test_count_and_path),
  };
  return cmocka_run_group_tests_name("delivery", tests, start, stop);
}
