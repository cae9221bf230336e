/* test_exchange.c: what a transport reports, and what becomes of it: stamps of either clock, the
 * body on its three ways, counting. A fake transport; times are invented. */
#include "net_peer.h"

#include "net/client.h"

struct world {
  struct net net;
  struct fake fake;
  struct http_request r;
  struct http_exchange *x;
  uint64_t start;
};

static void open_world(struct world *w, bool kernel, bool stream) {
  memset(w, 0, sizeof *w);
  struct http_client_options o = {.kernel_stamps = kernel, .keep_gaps = true};
  net_start(&w->net, &o);
  net_use_fake(&w->net, &w->fake);
  struct http_target *t = net_target(&w->net, "http", "127.0.0.1", 1, NULL);
  if (stream)
    net_stream(&w->net, &w->r, t);
  else
    net_request(&w->net, &w->r, t, "GET", "/");
  net_send(&w->net, &w->r);
  w->x = w->fake.x;
  w->start = w->r.stamp_ns[STAMP_START];
}

static void close_world(struct world *w) {
  http_request_cancel(&w->r, SAMPLE_CANCELLED);
  http_request_free(&w->r);
  net_stop(&w->net);
}

static struct http_read at(struct world *w, uint64_t loop, uint64_t kernel, uint64_t first,
                           uint64_t drained) {
  return (struct http_read){.loop_ns = w->start + loop,
                            .kernel_ns = kernel ? w->start + kernel : 0,
                            .first_ns = first ? w->start + first : 0,
                            .drained_ns = drained ? w->start + drained : 0};
}

static void head(struct world *w, int status, const char *type, struct http_read read) {
  http_exchange_head(w->x);
  if (type)
    fake_header(w->x, "Content-Type", type);
  http_exchange_headers_done(w->x, status, &read);
}

static int body(struct world *w, const char *text, struct http_read read) {
  return http_exchange_body(w->x, text, strlen(text), &read);
}

static uint64_t stamp(struct world *w, enum sample_stamp which) {
  uint64_t s = w->r.stamp_ns[which];
  return s == SAMPLE_NEVER ? SAMPLE_NEVER : s - w->start;
}

static void stamps_of_the_loop(void **state) {
  (void)state;
  struct world w;
  open_world(&w, false, true);
  assert_int_equal(stamp(&w, STAMP_SCHED), 0);
  assert_true(stamp(&w, STAMP_CONNECTED) == SAMPLE_NEVER);
  http_exchange_connected(w.x, w.start + 10, false);
  http_exchange_sent(w.x, w.start + 20, 300);
  head(&w, 200, "text/event-stream; charset=utf-8", at(&w, 30, 0, 0, 0));
  assert_true(stamp(&w, STAMP_FIRST_BYTE) == SAMPLE_NEVER);
  assert_int_equal(body(&w, ": comment\n\n", at(&w, 40, 0, 0, 0)), 0);
  assert_int_equal(body(&w, EVENT("a"), at(&w, 50, 0, 0, 0)), 0);
  assert_int_equal(body(&w, EVENT("b"), at(&w, 60, 0, 0, 0)), 0);
  assert_int_equal(stamp(&w, STAMP_CONNECTED), 10);
  assert_int_equal(stamp(&w, STAMP_SENT), 20);
  assert_int_equal(stamp(&w, STAMP_HEADERS), 30);
  assert_int_equal(stamp(&w, STAMP_FIRST_BYTE), 40); /* a comment is a byte, not a token */
  assert_int_equal(w.r.stream.result.first_token_ns - w.start, 50);
  assert_int_equal(w.r.stream.result.last_token_ns - w.start, 60);
  assert_int_equal(w.x->error_ns, SAMPLE_ABSENT);
  assert_int_equal(w.r.status, 200);
  assert_false(w.r.reused_connection);
  assert_int_equal(w.net.recorder.missing + w.net.recorder.read_errors, 0);
  close_world(&w);
}

static void stamps_of_the_kernel(void **state) {
  (void)state;
  struct world w;
  open_world(&w, true, true);
  http_exchange_connected(w.x, w.start + 10, true);
  http_exchange_sent(w.x, w.start + 35, 300);
  struct http_read r = at(&w, 38, 30, 0, 0);
  http_exchange_read(w.x, 100, &r);
  head(&w, 200, "text/event-stream", r);
  assert_int_equal(stamp(&w, STAMP_HEADERS), 30);
  assert_int_equal(stamp(&w, STAMP_SENT), 30); /* it was gone before the answer arrived */
  r = at(&w, 48, 44, 0, 0);
  http_exchange_read(w.x, 50, &r);
  body(&w, EVENT("a"), r);
  assert_int_equal(stamp(&w, STAMP_FIRST_BYTE), 44);
  assert_int_equal(w.x->error_ns, 4);
  r = at(&w, 60, 0, 0, 0); /* no kernel stamp: the loop's */
  http_exchange_read(w.x, 50, &r);
  body(&w, EVENT("b"), r);
  assert_int_equal(w.r.stream.result.last_token_ns - w.start, 60);
  r = at(&w, 70, 55, 0, 0); /* never backwards */
  http_exchange_read(w.x, 50, &r);
  body(&w, EVENT("c"), r);
  assert_int_equal(w.r.stream.result.last_token_ns - w.start, 60);
  assert_int_equal(w.net.recorder.read_errors, 3);
  assert_int_equal(w.net.recorder.missing, 1);
  struct http_client_stats stats;
  http_client_get_stats(w.net.client, &stats);
  assert_int_equal(stats.missing_kernel_stamps, 1);
  assert_int_equal(w.x->bytes_received, 250);
  close_world(&w);
}

/* Two packets in the first read of a body: the first event has the first packet's stamp, the others
 * the last one's. */
static void first_packet_apart(void **state) {
  (void)state;
  struct world w;
  open_world(&w, true, true);
  assert_false(http_exchange_wants_peek(w.x));
  head(&w, 200, "text/event-stream", at(&w, 30, 29, 0, 0));
  assert_true(http_exchange_wants_peek(w.x));
  body(&w, EVENT("a") EVENT("b") EVENT("c"), at(&w, 90, 80, 40, 31));
  assert_false(http_exchange_wants_peek(w.x));
  const struct openai_result *result = &w.r.stream.result;
  assert_int_equal(stamp(&w, STAMP_FIRST_BYTE), 40);
  assert_int_equal(w.x->error_ns, 50);
  assert_int_equal(result->n_outputs, 3);
  assert_int_equal(result->outputs[0].stamp_ns - w.start, 40);
  assert_int_equal(result->outputs[1].stamp_ns - w.start, 80);
  assert_int_equal(result->outputs[2].stamp_ns - w.start, 80);
  assert_false(result->outputs[0].coalesced);
  assert_true(result->outputs[1].coalesced);
  assert_false(result->outputs[2].coalesced);
  assert_int_equal(w.x->coalesced_bound_ns, 80 - 31);
  close_world(&w);
}

/* Only the middle of a stream may wait, and only where the kernel says when it came. */
static void what_may_wait(void **state) {
  (void)state;
  struct world w;
  open_world(&w, true, true);
  http_exchange_connected(w.x, w.start + 10, false);
  struct http_read by_kernel = at(&w, 50, 40, 0, 0), by_loop = at(&w, 50, 0, 0, 0);
  assert_false(http_exchange_unhurried(w.x, &by_kernel)); /* no head yet */
  head(&w, 200, "text/event-stream", by_kernel);
  assert_int_equal(body(&w, EVENT("a"), by_kernel), 0);
  assert_true(http_exchange_unhurried(w.x, &by_kernel));
  assert_false(http_exchange_unhurried(w.x, &by_loop));
  assert_int_equal(body(&w, "data: [DONE]\n\n", by_kernel), 0);
  assert_false(http_exchange_unhurried(w.x, &by_kernel)); /* somebody goes on after it */
  close_world(&w);
  open_world(&w, true, false);
  http_exchange_connected(w.x, w.start + 10, false);
  head(&w, 200, "text/plain", by_kernel);
  assert_false(http_exchange_unhurried(w.x, &by_kernel)); /* no stream */
  close_world(&w);
}

static void coalesced_bound(void **state) {
  (void)state;
  struct world w;
  open_world(&w, false, true);
  head(&w, 200, "text/event-stream", at(&w, 30, 0, 0, 20));
  body(&w, EVENT("a"), at(&w, 40, 0, 0, 30));
  assert_int_equal(w.x->coalesced_bound_ns, SAMPLE_ABSENT);
  body(&w, EVENT("b") EVENT("c"), at(&w, 100, 0, 0, 40));
  assert_int_equal(w.x->coalesced_bound_ns, 60);
  body(&w, EVENT("d") EVENT("e"), at(&w, 110, 0, 0, 100));
  assert_int_equal(w.x->coalesced_bound_ns, 60); /* the largest */
  body(&w, EVENT("d") EVENT("e"), at(&w, 900, 0, 0, 0));
  assert_int_equal(w.x->coalesced_bound_ns, 60); /* not known */
  close_world(&w);
}

static void starts_over(void **state) {
  (void)state;
  struct world w;
  struct http_client_stats stats;
  open_world(&w, false, true);
  http_exchange_connected(w.x, w.start, true);
  assert_true(w.r.reused_connection);
  http_exchange_sent(w.x, w.start + 5, 300);
  http_exchange_restart(w.x, w.start + 50);
  assert_int_equal(stamp(&w, STAMP_SCHED), 0);
  assert_int_equal(stamp(&w, STAMP_START), 50);
  assert_true(w.r.stamp_ns[STAMP_CONNECTED] == SAMPLE_NEVER);
  assert_true(w.r.stamp_ns[STAMP_SENT] == SAMPLE_NEVER);
  assert_false(w.r.reused_connection);
  http_exchange_connected(w.x, w.start + 60, false);
  http_exchange_sent(w.x, w.start + 70, 300);
  assert_int_equal(stamp(&w, STAMP_SENT), 70);
  assert_int_equal(w.r.reconnects, 1);
  http_client_get_stats(w.net.client, &stats);
  assert_int_equal(stats.reconnects, 1);
  assert_int_equal(stats.requests, 1);
  close_world(&w);
}

static void headers(void **state) {
  (void)state;
  struct world w;
  size_t len = 0;
  open_world(&w, false, false);
  http_exchange_head(w.x);
  fake_header(w.x, "X-Of-The-First", "head");
  http_exchange_head(w.x); /* a redirect's successor */
  assert_int_equal(http_exchange_header_name(w.x, "X-In", 4), 0);
  assert_int_equal(http_exchange_header_name(w.x, "ference-POD", 11), 0);
  assert_int_equal(http_exchange_header_name_end(w.x), 0);
  assert_int_equal(http_exchange_header_value(w.x, "pod\r\nx: ", 8), 0);
  assert_int_equal(http_exchange_header_value(w.x, "7 \t", 3), 0);
  assert_int_equal(http_exchange_header_value_end(w.x), 0);
  fake_header(w.x, "Second", "");
  fake_header(w.x, "Seco", "short");
  assert_string_equal(w.r.response_headers.data,
                      "x-inference-pod: pod  x: 7\nsecond: \nseco: short\n");
  assert_null(http_response_header(&w.r, "x-of-the-first", &len));
  assert_null(http_response_header(&w.r, "x", &len));
  assert_memory_equal(http_response_header(&w.r, "seco", &len), "short", 5);
  assert_int_equal(len, 5);
  assert_non_null(http_response_header(&w.r, "second", &len));
  assert_int_equal(len, 0);
  close_world(&w);
}

/* Where the body goes: into the parser, whole into r.body, or its first 64 KiB. */
static void ways_of_a_body(void **state) {
  (void)state;
  static const struct {
    int status;
    const char *type;
    enum openai_api api;
    bool expect_stream;
    enum http_body body;
  } ways[] = {
      {200, "text/event-stream", OPENAI_CHAT, true, HTTP_BODY_STREAM},
      {200, "Text/Event-Stream;x=y", OPENAI_CHAT, false, HTTP_BODY_STREAM},
      {200, "text/event-streams", OPENAI_CHAT, true, HTTP_BODY_CAPPED},
      {200, "application/json", OPENAI_CHAT, true, HTTP_BODY_CAPPED},
      {200, NULL, OPENAI_CHAT, true, HTTP_BODY_CAPPED},
      {200, "application/json", OPENAI_CHAT, false, HTTP_BODY_PLAIN},
      {500, "text/event-stream", OPENAI_CHAT, true, HTTP_BODY_CAPPED},
      {302, "text/html", OPENAI_CHAT, true, HTTP_BODY_CAPPED},
      {200, "text/event-stream", OPENAI_NONE, false, HTTP_BODY_PLAIN},
      {404, "text/plain", OPENAI_NONE, false, HTTP_BODY_CAPPED},
      {302, "text/html", OPENAI_NONE, false, HTTP_BODY_PLAIN},
  };
  for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
    struct world w;
    open_world(&w, false, true);
    w.r.api = ways[i].api;
    w.r.expect_stream = ways[i].expect_stream;
    head(&w, ways[i].status, ways[i].type, at(&w, 1, 0, 0, 0));
    if (w.x->body != ways[i].body)
      fail_msg("way %zu: %d, expected %d", i, (int)w.x->body, (int)ways[i].body);
    w.r.api = OPENAI_CHAT;
    close_world(&w);
  }
}

static void limits(void **state) {
  (void)state;
  struct world w;
  size_t size = 100000;
  char *big = mem_alloc(size);
  memset(big, 'x', size);
  struct http_read read;
  open_world(&w, false, false);
  w.r.body.max = size + 1;
  read = at(&w, 1, 0, 0, 0);
  head(&w, 200, NULL, read);
  assert_int_equal(http_exchange_body(w.x, big, size, &read), 0);
  assert_int_equal(http_exchange_body(w.x, big, 1, &read), 0);
  assert_int_equal(http_exchange_body(w.x, big, 1, &read), ERR_LIMIT);
  assert_true(w.x->over_limit);
  assert_int_equal(w.r.body.len, size + 1);
  close_world(&w);

  open_world(&w, false, false);
  head(&w, 500, NULL, read);
  assert_int_equal(http_exchange_body(w.x, big, 60000, &read), 0);
  assert_int_equal(http_exchange_body(w.x, big, size, &read), 0);
  assert_int_equal(http_exchange_body(w.x, big, size, &read), 0);
  assert_int_equal(w.r.body.len, 65536);
  assert_int_equal(w.x->received_body, 260000);
  close_world(&w);
  mem_free(big);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stamps_of_the_loop),
      cmocka_unit_test(stamps_of_the_kernel),
      cmocka_unit_test(first_packet_apart),
      cmocka_unit_test(coalesced_bound),
      cmocka_unit_test(what_may_wait),
      cmocka_unit_test(starts_over),
      cmocka_unit_test(headers),
      cmocka_unit_test(ways_of_a_body),
      cmocka_unit_test(limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
