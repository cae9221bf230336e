/* test_complete.c: what a finished request's sample says: times since zero, counts, the four states
 * of cached tokens, tokens in the window, gaps, the output's hash, who served. */
#include "net_peer.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "net/client.h"

#define DONE "data: [DONE]\n\n"
#define USAGE(more)                                                                                \
  "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":3,"                \
  "\"total_tokens\":103" more "}}\n\n"
#define CACHED(n) USAGE(",\"prompt_tokens_details\":{\"cached_tokens\":" n "}")
#define IDS(text, ids)                                                                             \
  "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text "\"},\"token_ids\":[" ids      \
  "]}]}\n\n"

struct world {
  struct net net;
  struct fake fake;
  struct http_target *target;
  struct http_request r;
  uint64_t start;
  bool raw, harmony; /* completions, which the caller takes apart */
};

static void open_world(struct world *w, const struct http_client_options *o,
                       const struct http_target_options *t) {
  memset(w, 0, sizeof *w);
  net_start(&w->net, o);
  net_use_fake(&w->net, &w->fake);
  w->target = net_target(&w->net, "http", "127.0.0.1", 8000, t);
}

static void close_world(struct world *w) {
  net_stop(&w->net);
}

struct piece {
  uint64_t at; /* ns after the start */
  const char *text;
};

/* One stream of pieces, ended well; its sample. */
static struct sample *play(struct world *w, const struct piece *pieces, size_t n) {
  net_stream(&w->net, &w->r, w->target);
  w->r.path = "/v1/chat/completions?secret=1";
  w->r.api = w->raw ? OPENAI_COMPLETIONS : OPENAI_CHAT;
  w->r.harmony = w->harmony;
  net_send(&w->net, &w->r);
  struct http_exchange *x = w->fake.x;
  uint64_t start = w->start = w->r.stamp_ns[STAMP_START];
  http_exchange_connected(x, start + 10, true);
  http_exchange_sent(x, start + 20, 321);
  struct http_read read = {.loop_ns = start + 30};
  http_exchange_read(x, 50, &read);
  http_exchange_head(x);
  fake_header(x, "Content-Type", "text/event-stream");
  fake_header(x, "X-Backend-ID", "b2");
  http_exchange_headers_done(x, 200, &read);
  for (size_t i = 0; i < n; i++) {
    read = (struct http_read){.loop_ns = start + pieces[i].at};
    http_exchange_read(x, strlen(pieces[i].text), &read);
    assert_int_equal(http_exchange_body(x, pieces[i].text, strlen(pieces[i].text), &read), 0);
  }
  http_exchange_end(x, &read);
  http_request_free(&w->r);
  return net_sample(&w->net, w->net.recorder.n - 1);
}
#define PLAY(w, ...)                                                                               \
  play(w, (const struct piece[]){__VA_ARGS__},                                                     \
       sizeof((const struct piece[]){__VA_ARGS__}) / sizeof(struct piece))

static void a_whole_stream(void **state) {
  (void)state;
  struct world w;
  struct http_client_options o = {.zero_ns = 1000, .keep_gaps = true};
  open_world(&w, &o, NULL);
  const struct sample *s =
      PLAY(&w, {40, ": hi\n\n"}, {50, IDS("ab", "1,2")}, {80, EVENT("cd")},
           {90, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"},
           {95, CACHED("64") DONE});
  static const uint64_t want[STAMP_COUNT] = {0, 0, 10, 20, 30, 40, 50, 80, 95};
  for (size_t i = 0; i < STAMP_COUNT; i++)
    assert_int_equal(s->t[i], w.start - 1000 + want[i]);
  assert_int_equal(s->first_visible, w.start - 1000 + 50);
  assert_int_equal(s->status, 200);
  assert_int_equal(s->error, SAMPLE_OK);
  assert_null(s->error_detail);
  assert_true(s->reused_connection && s->is_generation && s->streamed);
  assert_int_equal(s->bytes_sent, 321);
  assert_string_equal(s->method, "POST");
  assert_string_equal(s->url, "http://127.0.0.1:8000/v1/chat/completions");
  assert_string_equal(s->served, "b2");
  assert_string_equal(s->finish_reason, "stop");
  assert_int_equal(s->prompt_tokens, 100);
  assert_int_equal(s->output_tokens, 3);
  assert_int_equal(s->reasoning_tokens, SAMPLE_ABSENT);
  assert_int_equal(s->cached_tokens, 64);
  assert_int_equal(s->cached_state, CACHED_VALUE);
  assert_int_equal(s->output_events, 2);
  assert_int_equal(s->first_tokens, 2);
  assert_int_equal(s->n_gaps, 1);
  assert_int_equal(s->gaps_ns[0], 30);
  assert_int_equal(s->gap_tokens[0], -1);
  assert_int_equal(s->output_hash, XXH3_64bits("abcd", 4));
  assert_int_equal(s->coalesced, 0);
  close_world(&w);
}

#define TEXT(text) "data: {\"choices\":[{\"index\":0,\"text\":\"" text "\"}]}\n\n"
#define THOUGHT "<|channel|>analysis<|message|>"
#define FINAL "<|end|><|start|>assistant<|channel|>final<|message|>"

/* Raw words of gpt-oss: visible from the answer on where the caller takes them apart. */
static void harmony_answers(void **state) {
  (void)state;
  struct world w;
  struct http_client_options o = {.zero_ns = 1000};
  open_world(&w, &o, NULL);
  for (int harmony = 0; harmony < 2; harmony++) {
    w.raw = true;
    w.harmony = harmony;
    const struct sample *s = PLAY(&w, {40, TEXT(THOUGHT)}, {50, TEXT("Hm.")}, {60, TEXT(FINAL)},
                                  {70, TEXT("Y")}, {80, TEXT("es") DONE});
    assert_int_equal(s->t[STAMP_FIRST_TOKEN], w.start - 1000 + 40);
    assert_int_equal(s->first_visible, w.start - 1000 + (harmony ? 70 : 40));
    s = PLAY(&w, {40, TEXT(THOUGHT "Hm.")}, {60, TEXT(FINAL) DONE});
    assert_true(s->first_visible == (harmony ? SAMPLE_NEVER : w.start - 1000 + 40));
  }
  close_world(&w);
}

/* A request that never got anywhere: its stamps stay absent, its class and text are there. */
static void a_failure(void **state) {
  (void)state;
  struct world w;
  open_world(&w, NULL, NULL);
  net_stream(&w.net, &w.r, w.target);
  net_send(&w.net, &w.r);
  http_exchange_fail(w.fake.x, SAMPLE_CONNECT, "refused");
  const struct sample *s = net_sample(&w.net, 0);
  assert_int_equal(s->error, SAMPLE_CONNECT);
  assert_string_equal(s->error_detail, "http://127.0.0.1:8000: refused");
  assert_true(s->t[STAMP_START] != SAMPLE_NEVER && s->t[STAMP_DONE] != SAMPLE_NEVER);
  assert_true(s->t[STAMP_CONNECTED] == SAMPLE_NEVER && s->t[STAMP_FIRST_TOKEN] == SAMPLE_NEVER);
  assert_int_equal(s->cached_state, CACHED_ABSENT);
  assert_int_equal(s->output_tokens, SAMPLE_ABSENT);
  assert_int_equal(s->output_hash, 0);
  assert_int_equal(s->window_tokens, 0);
  assert_null(s->served);
  http_request_free(&w.r);

  /* Cancelled half-way: what came before counts. */
  net_stream(&w.net, &w.r, w.target);
  net_send(&w.net, &w.r);
  struct http_read read = {.loop_ns = w.r.stamp_ns[STAMP_START] + 5};
  fake_header(w.fake.x, "Content-Type", "text/event-stream");
  http_exchange_headers_done(w.fake.x, 200, &read);
  assert_int_equal(http_exchange_body(w.fake.x, EVENT("a"), strlen(EVENT("a")), &read), 0);
  http_request_cancel(&w.r, SAMPLE_INCOMPLETE);
  assert_int_equal(w.fake.cancels, 1);
  assert_int_equal(w.net.done, 1); /* `done` is not called */
  assert_int_equal(w.r.error, SAMPLE_INCOMPLETE);
  s = net_sample(&w.net, 1);
  assert_int_equal(s->error, SAMPLE_INCOMPLETE);
  assert_int_equal(s->output_events, 1);
  assert_int_equal(s->t[STAMP_LAST_TOKEN], s->t[STAMP_FIRST_TOKEN]);
  http_request_free(&w.r);

  /* Plain HTTP is no generation. */
  net_request(&w.net, &w.r, w.target, "GET", "/health");
  w.r.sample = sample_new();
  net_send(&w.net, &w.r);
  http_exchange_fail(w.fake.x, SAMPLE_TLS, "x");
  assert_false(net_sample(&w.net, 2)->is_generation);
  assert_string_equal(net_sample(&w.net, 2)->method, "GET");
  http_request_free(&w.r);
  close_world(&w);
}

static void cached_states(void **state) {
  (void)state;
  struct world w;
  open_world(&w, NULL, NULL);
  const struct sample *s = PLAY(&w, {40, EVENT("a") USAGE("") DONE});
  assert_int_equal(s->cached_state, CACHED_ABSENT); /* nothing is known of this server yet */
  assert_int_equal(s->cached_tokens, SAMPLE_ABSENT);
  s = PLAY(&w, {40, EVENT("a") DONE});
  assert_int_equal(s->cached_state, CACHED_ABSENT);
  s = PLAY(&w, {40, EVENT("a") CACHED("0") DONE});
  assert_int_equal(s->cached_state, CACHED_ZERO);
  s = PLAY(&w, {40, EVENT("a") CACHED("16") DONE});
  assert_int_equal(s->cached_state, CACHED_VALUE);
  s = PLAY(&w, {40, EVENT("a") USAGE("") DONE});
  assert_int_equal(s->cached_state, CACHED_INFERRED_ZERO);
  assert_int_equal(s->cached_tokens, 0);
  s = PLAY(&w, {40, EVENT("a") DONE}); /* no usage at all says nothing */
  assert_int_equal(s->cached_state, CACHED_ABSENT);
  close_world(&w);

  open_world(&w, NULL, &(struct http_target_options){.reports_cached = true});
  s = PLAY(&w, {40, EVENT("a") USAGE("") DONE});
  assert_int_equal(s->cached_state, CACHED_INFERRED_ZERO);
  close_world(&w);

  /* What one worker's client learns another one's knows. */
  _Atomic bool shared = false;
  open_world(&w, NULL, &(struct http_target_options){.reports = &shared});
  PLAY(&w, {40, EVENT("a") CACHED("16") DONE});
  close_world(&w);
  assert_true(shared);
  open_world(&w, NULL, &(struct http_target_options){.reports = &shared});
  s = PLAY(&w, {40, EVENT("a") USAGE("") DONE});
  assert_int_equal(s->cached_state, CACHED_INFERRED_ZERO);
  close_world(&w);
}

/* A stream whose window is from..to after its start (0 = open). */
static int64_t in_window(struct world *w, uint64_t from, uint64_t to, const struct piece *pieces,
                         size_t n) {
  net_stream(&w->net, &w->r, w->target);
  net_send(&w->net, &w->r);
  struct http_exchange *x = w->fake.x;
  struct http_read read = {.loop_ns = w->r.stamp_ns[STAMP_START]};
  uint64_t start = read.loop_ns;
  http_client_set_window(w->net.client, from ? start + from : 0, to ? start + to : 0);
  fake_header(x, "Content-Type", "text/event-stream");
  http_exchange_headers_done(x, 200, &read);
  for (size_t i = 0; i < n; i++) {
    read.loop_ns = start + pieces[i].at;
    assert_int_equal(http_exchange_body(x, pieces[i].text, strlen(pieces[i].text), &read), 0);
  }
  http_exchange_end(x, &read);
  http_request_free(&w->r);
  return net_sample(&w->net, w->net.recorder.n - 1)->window_tokens;
}

static void tokens_in_the_window(void **state) {
  (void)state;
  struct world w;
  open_world(&w, NULL, NULL);
  const struct piece known[] = {
      {10, IDS("a", "1,2")}, {20, IDS("b", "3")}, {30, IDS("c", "4,5,6") DONE}};
  assert_int_equal(in_window(&w, 0, 0, known, 3), 6);
  assert_int_equal(in_window(&w, 20, 0, known, 3), 4);
  assert_int_equal(in_window(&w, 0, 30, known, 3), 3); /* the end is outside */
  assert_int_equal(in_window(&w, 11, 30, known, 3), 1);
  assert_int_equal(in_window(&w, 31, 99, known, 3), 0);
  /* As many events as tokens: one each. */
  const struct piece single[] = {
      {10, EVENT("a")}, {20, EVENT("b")}, {30, EVENT("c") USAGE("") DONE}};
  assert_int_equal(in_window(&w, 15, 0, single, 3), 2);
  /* Fewer events than tokens: only all or nothing is known. */
  const struct piece fewer[] = {{10, EVENT("a")}, {20, EVENT("b") USAGE("") DONE}};
  assert_int_equal(in_window(&w, 0, 0, fewer, 2), 3);
  assert_int_equal(in_window(&w, 15, 0, fewer, 2), SAMPLE_ABSENT);
  assert_int_equal(in_window(&w, 25, 0, fewer, 2), 0);
  close_world(&w);
}

static void hash_of_all_output(void **state) {
  (void)state;
  struct world w;
  open_world(&w, &(struct http_client_options){0}, NULL);
  const struct sample *s = PLAY(
      &w,
      {40, "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n" EVENT(
               "x")},
      {50, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\","
           "\"function\":{\"name\":\"ls\",\"arguments\":\"{}\"}}]}}]}\n\n" DONE});
  assert_int_equal(s->output_hash, XXH3_64bits("xhmls{}", 7));
  assert_int_equal(s->n_gaps, 0); /* gaps were not asked for */
  assert_null(s->gaps_ns);
  assert_int_equal(s->coalesced, 1);
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_whole_stream),
      cmocka_unit_test(harmony_answers),
      cmocka_unit_test(a_failure),
      cmocka_unit_test(cached_states),
      cmocka_unit_test(tokens_in_the_window),
      cmocka_unit_test(hash_of_all_output),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
