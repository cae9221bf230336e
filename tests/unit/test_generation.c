/* test_generation.c: generation requests over a socket: order of events (genstream.c), hits, times,
 * aborts, what is under way (genopen.c), lines of the truth log (gentruth.c). */
#include "simtest.h"

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"

/* Replaces what differs from run to run. */
static void normalise(struct simtest_answer *a) {
  for (char *p = a->body; (p = strstr(p, "\"created\":"));) {
    p += 10;
    memset(p, '0', strspn(p, "0123456789"));
  }
}

static struct simtest fixed, fast;

static int start(void **state) {
  (void)state;
  static const char *const sets[] = {"ttft=50ms", "itl=5ms", "max_model_len=8192", NULL};
  static const char *const small[] = {"kv_blocks=1000", "max_model_len=8192", NULL};
  simtest_start(&fixed, 1, "fixed", sets, NULL, NULL);
  simtest_start(&fast, 1, "instant", small, NULL, NULL);
  return 0;
}

static int stop(void **state) {
  (void)state;
  simtest_stop(&fixed);
  simtest_stop(&fast);
  return 0;
}

static char *prompt_text(size_t n, char c) {
  char *text = calloc(1, n + 1);
  memset(text, c, n);
  return text;
}

static struct simtest_answer complete(struct simtest *t, const char *prompt, const char *extra) {
  char *body = malloc(strlen(prompt) + strlen(extra) + 64);
  sprintf(body, "{\"prompt\":\"%s\"%s}", prompt, extra);
  struct simtest_answer a = simtest_post(t->ports[0], TEXT, body);
  free(body);
  return a;
}

#define EVENT(rest)                                                                                \
  "data: {\"id\":\"chatcmpl-one\",\"object\":\"chat.completion.chunk\",\"created\":0000000000,"    \
  "\"model\":\"sim-model\",\"choices\":[" rest "}\n\n"
#define DELTA(text, finish)                                                                        \
  EVENT("{\"index\":0,\"delta\":{\"content\":\"" text                                              \
        "\"},\"logprobs\":null,\"finish_reason\":" finish "}]")

static void test_events_byte_for_byte(void **state) {
  (void)state;
  struct simtest_answer a = simtest_ask(
      fast.ports[0], "POST", CHAT, "Host: x\r\nX-Request-Id: one\r\n",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello there\"}],\"max_tokens\":3,"
      "\"ignore_eos\":true,\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
  assert_int_equal(a.status, 200);
  assert_true(a.complete);
  check_has(a.data, "\r\nx-inference-pod: r0\r\n");
  check_has(a.data, "\r\nContent-Type: text/event-stream; charset=utf-8\r\n");
  assert_int_equal(a.chunks, 6); /* one write per event */
  normalise(&a);
  const char *first = strstr(a.body, "\"content\":\"") + 11; /* of the role event: empty */
  first = strstr(first, "\"content\":\"") + 11;
  const char *second = strstr(first, "\"content\":\"") + 11;
  const char *third = strstr(second, "\"content\":\"") + 11;
  char want[2000];
  snprintf(want, sizeof want,
           EVENT("{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                 "\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":null")
               DELTA("%c", "null") DELTA("%c", "null")
                   DELTA("%c", "\"length\",\"stop_reason\":null")
                       EVENT("],\"usage\":{\"prompt_tokens\":42,\"total_tokens\":45,"
                             "\"completion_tokens\":3}") "data: [DONE]\n\n",
           *first, *second, *third);
  assert_string_equal(a.body, want);
  simtest_free(&a);
}

static void test_completion_stream_has_no_role_and_no_usage_unasked(void **state) {
  (void)state;
  struct simtest_answer a =
      complete(&fast, "abc", ",\"max_tokens\":2,\"ignore_eos\":true,\"stream\":true");
  assert_int_equal(a.chunks, 3);
  assert_null(strstr(a.body, "role"));
  assert_null(strstr(a.body, "usage"));
  check_has(a.body, "\"id\":\"cmpl-");
  check_has(a.body, "\"finish_reason\":\"length\",\"stop_reason\":null}]}\n\ndata: [DONE]\n\n");
  simtest_free(&a);
}

static void test_stream_interval_batches_but_not_the_first_and_last(void **state) {
  (void)state;
  struct simtest_answer a = complete(
      &fast, "abc", ",\"max_tokens\":8,\"ignore_eos\":true,\"stream\":true,\"stream_interval\":3");
  assert_int_equal(a.chunks, 5); /* 1 + 3 + 3 + 1 tokens, and the end marker */
  simtest_free(&a);
}

static int64_t cached_of(const struct value *reply) {
  const struct value *details = value_get(value_get(reply, "usage"), "prompt_tokens_details");
  assert_non_null(details);
  return details->kind == VALUE_NULL ? -1 : simtest_int(details, "cached_tokens");
}

static const char *text_of(const struct value *reply) {
  return value_to_string(value_get(value_at(value_get(reply, "choices"), 0), "text"));
}

static void test_cached_tokens_of_a_repeated_prompt(void **state) {
  (void)state;
  static const size_t lengths[] = {16, 17, 100, 160, 161, 1000};
  for (size_t i = 0; i < 6; i++) {
    size_t n = lengths[i];
    char *prompt = prompt_text(n, (char)('a' + i));
    struct simtest_answer one = complete(&fast, prompt, ",\"max_tokens\":1"),
                          two = complete(&fast, prompt, ",\"max_tokens\":1");
    struct value a = simtest_json(&one), b = simtest_json(&two);
    assert_int_equal(simtest_int(value_get(&a, "usage"), "prompt_tokens"), n);
    assert_int_equal(cached_of(&a), -1); /* a miss is not reported */
    int64_t want = (int64_t)((n - 1) / 16 * 16);
    assert_int_equal(cached_of(&b), want ? want : -1);
    assert_string_equal(text_of(&a), text_of(&b));
    value_free(&a);
    value_free(&b);
    simtest_free(&one);
    simtest_free(&two);
    free(prompt);
  }
}

static void test_salt_separates_caches(void **state) {
  (void)state;
  char *prompt = prompt_text(64, 'S');
  static const struct {
    const char *extra;
    int64_t cached;
  } rows[] = {{",\"max_tokens\":1,\"cache_salt\":\"one\"", -1},
              {",\"max_tokens\":1,\"cache_salt\":\"two\"", -1},
              {",\"max_tokens\":1", -1},
              {",\"max_tokens\":1,\"cache_salt\":\"two\"", 48}};
  for (size_t i = 0; i < 4; i++) {
    struct simtest_answer a = complete(&fast, prompt, rows[i].extra);
    struct value v = simtest_json(&a);
    assert_int_equal(cached_of(&v), rows[i].cached);
    value_free(&v);
    simtest_free(&a);
  }
  free(prompt);
}

/* Turn two repeats turn one and its answer: all full blocks but for the last sampled token. */
static void test_second_turn_hits_prompt_and_answer(void **state) {
  (void)state;
  struct simtest_answer a = simtest_post(
      fast.ports[0], CHAT,
      "{\"messages\":[{\"role\":\"user\",\"content\":\"first turn\"}],\"max_tokens\":100,"
      "\"ignore_eos\":true}");
  struct value v = simtest_json(&a);
  const char *text = value_to_string(
      value_get(value_get(value_at(value_get(&v, "choices"), 0), "message"), "content"));
  int64_t n = simtest_int(value_get(&v, "usage"), "prompt_tokens");
  assert_int_equal(strlen(text), 100);
  char body[600];
  snprintf(body, sizeof body,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"first turn\"},{\"role\":\"assistant\","
           "\"content\":\"%s\"},{\"role\":\"user\",\"content\":\"and more\"}],\"max_tokens\":1}",
           text);
  struct simtest_answer b = simtest_post(fast.ports[0], CHAT, body);
  struct value w = simtest_json(&b);
  assert_int_equal(cached_of(&w), (n + 100 - 1) / 16 * 16);
  value_free(&v);
  value_free(&w);
  simtest_free(&a);
  simtest_free(&b);
}

/* Exact times are test_replica.c's; over a socket on a busy machine lateness only adds. */
static void test_times_of_the_fixed_profile(void **state) {
  (void)state;
  struct simtest_answer a = complete(&fixed, "t", ",\"max_tokens\":1");
  uint64_t ttft = a.first_ns - a.sent_ns;
  assert_true(ttft >= 50 * NS_PER_MS && ttft < NS_PER_S);
  simtest_free(&a);
  a = complete(&fixed, "t", ",\"max_tokens\":11,\"ignore_eos\":true");
  uint64_t e2e = a.first_ns - a.sent_ns; /* 50 ms and ten steps of 5 ms */
  assert_true(e2e >= 100 * NS_PER_MS && e2e < NS_PER_S);
  simtest_free(&a);
}

static void test_the_head_of_a_stream_comes_before_the_first_token(void **state) {
  (void)state;
  uint64_t best = 0;
  for (int i = 0; i < 10 && best < 50 * NS_PER_MS; i++) {
    struct simtest_answer a =
        complete(&fixed, "head", ",\"max_tokens\":2,\"ignore_eos\":true,\"stream\":true");
    if (a.last_ns - a.first_ns > best)
      best = a.last_ns - a.first_ns;
    simtest_free(&a);
  }
  assert_true(best >= 50 * NS_PER_MS);
}

static void test_a_client_that_leaves_aborts_its_request(void **state) {
  (void)state;
  int64_t before = simtest_state(&fixed, 0, "aborted");
  int fd = simtest_connect(fixed.ports[0]);
  simtest_send(fd, "POST", TEXT, NULL,
               "{\"prompt\":\"leave\",\"max_tokens\":4000,\"ignore_eos\":true,\"stream\":true}");
  simtest_wait_state(&fixed, 0, "running", 1);
  close(fd);
  simtest_wait_state(&fixed, 0, "running", 0);
  assert_int_equal(simtest_state(&fixed, 0, "aborted"), before + 1);
  assert_int_equal(simtest_state(&fixed, 0, "free_blocks"), 62500);
}

static void test_refused_requests(void **state) {
  (void)state;
  struct simtest_answer a = complete(&fast, "x", ",\"model\":\"other\"");
  assert_int_equal(a.status, 404);
  assert_string_equal(a.body, "{\"error\":{\"message\":\"The model `other` does not exist.\","
                              "\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}");
  check_has(a.data, "x-inference-pod: r0");
  simtest_free(&a);
  a = complete(&fast, "x", ",\"max_tokens\":8192");
  assert_int_equal(a.status, 400);
  check_has(a.body, "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's "
                    "maximum context length is 8192 tokens and your request has 1 input tokens "
                    "(8192 > 8192 - 1).");
  simtest_free(&a);
  a = simtest_post(fast.ports[0], CHAT, "{\"messages\":");
  assert_int_equal(a.status, 400);
  check_has(a.body, "\"type\":\"BadRequestError\"");
  simtest_free(&a);
}

/* Many at once share steps, and each gets its own answer. */
static void test_requests_at_once(void **state) {
  (void)state;
  enum { N = 40 };
  int fds[N];
  char body[200];
  int64_t before = simtest_state(&fixed, 0, "steps");
  for (int i = 0; i < N; i++) {
    fds[i] = simtest_connect(fixed.ports[0]);
    snprintf(body, sizeof body,
             "{\"prompt\":\"batch %d\",\"max_tokens\":5,\"ignore_eos\":true,\"return_token_ids\":"
             "true}",
             i);
    simtest_send(fds[i], "POST", TEXT, NULL, body);
  }
  for (int i = 0; i < N; i++) {
    struct simtest_answer a = simtest_read(fds[i]);
    struct value v = simtest_json(&a);
    assert_int_equal(strlen(text_of(&v)), 5);
    const struct value *ids = value_get(value_at(value_get(&v, "choices"), 0), "prompt_token_ids");
    snprintf(body, sizeof body, "batch %d", i);
    assert_int_equal(value_count(ids), strlen(body));
    for (size_t k = 0; k < value_count(ids); k++)
      assert_int_equal(value_at(ids, k)->u.integer, body[k]);
    value_free(&v);
    simtest_free(&a);
  }
  assert_true(simtest_state(&fixed, 0, "steps") - before <= 100); /* one by one: 200 */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_events_byte_for_byte),
      cmocka_unit_test(test_completion_stream_has_no_role_and_no_usage_unasked),
      cmocka_unit_test(test_stream_interval_batches_but_not_the_first_and_last),
      cmocka_unit_test(test_cached_tokens_of_a_repeated_prompt),
      cmocka_unit_test(test_salt_separates_caches),
      cmocka_unit_test(test_second_turn_hits_prompt_and_answer),
      cmocka_unit_test(test_times_of_the_fixed_profile),
      cmocka_unit_test(test_the_head_of_a_stream_comes_before_the_first_token),
      cmocka_unit_test(test_a_client_that_leaves_aborts_its_request),
      cmocka_unit_test(test_refused_requests),
      cmocka_unit_test(test_requests_at_once),
  };
  return cmocka_run_group_tests_name("generation", tests, start, stop);
}
