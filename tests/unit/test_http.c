/* test_http.c: a request's life: misuse, each timeout, cancelling at each stage, requests made and
 * given up inside `done`, deleting a client in the middle. */
#include "net_peer.h"

#include "net/client.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define MS NS_PER_MS

static void misuse(void **state) {
  (void)state;
  static const struct {
    const char *method, *path, *headers, *text;
  } bad[] = {
      {"GET ", "/", NULL, "\"GET \" is not a method"},
      {"", "/", NULL, "\"\" is not a method"},
      {"GET", "x", NULL, "path \"x\" must begin with /"},
      {"GET", "/a b", NULL, "percent-encode"},
      {"GET", "/a\r\nX: y", NULL, "percent-encode"},
      {"GET", "/a#b", NULL, "percent-encode"},
      {"GET", "/", "X: y", "does not end with CR LF"},
      {"GET", "/", "X: y\n", "does not end with CR LF"},
      {"GET", "/", "X y\r\n", "is not of the form"},
      {"GET", "/", ": y\r\n", "is not of the form"},
      {"GET", "/", "X: a\nY: b\r\n", "control character"},
      {"GET", "/", "X: seven..\x1f\r\n", "control character"},
      {"GET", "/", "X: 0123456789abcde\x01 and more\r\n", "control character"},
      {"GET", "/", "X: \tan 8-byte tab\t and then\x1bone\r\n", "control character"},
      {"GET", "/", "Content-Length: 5\r\n", "the client writes it"},
      {"GET", "/", "A: b\r\ntransfer-encoding: chunked\r\n", "the client writes it"},
  };
  struct net n;
  struct fake f = {0};
  struct http_request r;
  net_start(&n, NULL);
  net_use_fake(&n, &f);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", 8000, NULL);
  for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
    struct err err = {0};
    net_request(&n, &r, t, bad[i].method, bad[i].path);
    r.headers = bad[i].headers;
    if (http_request_start(n.client, &r, &err) != ERR_INVALID)
      fail_msg("case %zu was taken", i);
    check_has(err.text, "http://127.0.0.1:8000: ");
    check_has(err.text, bad[i].text);
    assert_null(r.exchange);
    http_request_free(&r);
  }
  assert_int_equal(f.starts, 0);
  net_stop(&n);
}

/* It goes nowhere, and its row has the class and the reason. */
static void refused(void **state) {
  (void)state;
  struct net n;
  struct fake f = {0};
  struct http_request r;
  struct err err = {0};
  net_start(&n, NULL);
  net_use_fake(&n, &f);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", 8000, NULL);
  net_request(&n, &r, t, "POST", "/v1/chat/completions");
  r.refused = "no replica is in rotation\x01";
  check_ok(http_request_start(n.client, &r, &err), &err);
  assert_non_null(r.exchange); /* it ends later, as everything else */
  net_wait(&n, 1);
  assert_null(r.exchange);
  assert_int_equal(f.starts, 0);
  assert_int_equal(r.error, SAMPLE_CONNECT);
  assert_string_equal(r.detail, "no replica is in rotation ");
  assert_true(r.stamp_ns[STAMP_SENT] == SAMPLE_NEVER && r.stamp_ns[STAMP_DONE] != SAMPLE_NEVER);
  r.harmony = true;
  http_request_reset(&r);
  assert_null(r.refused);
  assert_false(r.harmony);
  net_request(&n, &r, t, "GET", "/");
  r.refused = "no";
  check_ok(http_request_start(n.client, &r, &err), &err);
  http_request_cancel(&r, SAMPLE_CANCELLED); /* before it has ended */
  assert_int_equal(r.error, SAMPLE_CANCELLED);
  http_request_free(&r);
  net_stop(&n);
}

/* ---- time ---- */

/* Takes connections and never reads. */
static void script_deaf(struct peer *p) {
  int fd[8], n = 0;
  while (n < 8 && (fd[n] = peer_accept(p)) >= 0)
    n++;
  while (n)
    close(fd[--n]);
}

/* Headers and p->text, then nothing. */
static void script_stall(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    if (peer_read(p, fd))
      peer_reply(p, fd);
    peer_drain(fd);
  }
}

/* A comment every 20 ms. */
static void script_drip(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    if (peer_read(p, fd))
      peer_puts(fd, HEAD_SSE "\r\n");
    for (int i = 0; i < 8; i++) {
      peer_puts(fd, ": still here\n\n");
      clock_sleep_ns(20 * MS);
    }
    if (p->text)
      peer_reply(p, fd);
    else
      peer_drain(fd);
    close(fd);
  }
}

static void run_stream(peer_fn *script, const char *text, struct http_timeouts timeouts,
                       enum sample_error error, const char *detail) {
  struct net n;
  struct peer p = {.text = text};
  struct http_request r;
  peer_start(&p, script);
  net_start(&n, NULL);
  net_stream(&n, &r, net_target(&n, "http", "127.0.0.1", p.port, NULL));
  r.timeouts = timeouts;
  uint64_t before = clock_ns();
  net_send(&n, &r);
  net_wait(&n, 1);
  check_outcome(&r, error, detail);
  assert_true(clock_ns() - before < 5 * NS_PER_S);
  assert_true(r.stamp_ns[STAMP_DONE] >= before);
  struct http_client_stats stats;
  http_client_get_stats(n.client, &stats);
  assert_int_equal(stats.open_now, 0); /* in mid-exchange: closed, not kept */
  assert_int_equal(net_sample(&n, 0)->error, error);
  http_request_free(&r);
  net_stop(&n);
  peer_stop(&p);
}

static void timeouts(void **state) {
  (void)state;
  struct http_timeouts t = {.first_byte_ns = 50 * MS};
  run_stream(script_deaf, NULL, t, SAMPLE_TIMEOUT_FIRST_BYTE,
             "/v1/chat/completions: no byte of the reply within 50 ms");
  /* Headers are not the first byte of the reply's body. */
  run_stream(script_stall, HEAD_SSE "\r\n", t, SAMPLE_TIMEOUT_FIRST_BYTE, "within 50 ms");
  run_stream(script_stall, HEAD_SSE "\r\n" EVENT("a"), (struct http_timeouts){.idle_ns = 60 * MS},
             SAMPLE_TIMEOUT_IDLE, "nothing came for 60 ms (idle timeout) after 57 bytes");
  run_stream(script_drip, NULL, (struct http_timeouts){.total_ns = 90 * MS, .idle_ns = 80 * MS},
             SAMPLE_TIMEOUT_TOTAL, "not done within 90 ms");
  /* Comments keep a stream alive: 8 × 20 ms, and it ends well. */
  run_stream(script_drip, EVENT("a") "data: [DONE]\n\n",
             (struct http_timeouts){
                 .idle_ns = 80 * MS, .first_byte_ns = 80 * MS, .total_ns = 4 * NS_PER_S},
             SAMPLE_OK, "");
}

/* A full backlog: the SYN is dropped. */
static void connect_timeout(void **state) {
  (void)state;
  struct net n;
  struct http_request r;
  int port, fd = peer_listen(&port), other[8];
  listen(fd, 0);
  for (size_t i = 0; i < ARRAY_LEN(other); i++) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    other[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void)!connect(other[i], (struct sockaddr *)&a, sizeof a);
  }
  net_start(&n, NULL);
  net_stream(&n, &r, net_target(&n, "http", "127.0.0.1", port, NULL));
  r.timeouts = (struct http_timeouts){.connect_ns = 80 * MS, .first_byte_ns = 10 * MS};
  net_send(&n, &r);
  net_wait(&n, 1);
  check_outcome(&r, SAMPLE_TIMEOUT_CONNECT, "no connection within 80 ms (connect timeout)");
  assert_true(r.stamp_ns[STAMP_CONNECTED] == SAMPLE_NEVER);
  http_request_free(&r);
  net_stop(&n);
  for (size_t i = 0; i < ARRAY_LEN(other); i++)
    close(other[i]);
  close(fd);
}

/* ---- giving up ---- */

struct cut {
  uint64_t after_ns;
  const char *text;
  peer_fn *script;
};

/* At every moment of a request: nothing is left, no `done`, the server sees the end. */
static void cancelling(void **state) {
  (void)state;
  static const struct cut cuts[] = {
      {0, "", script_stall},       /* connecting */
      {20 * MS, "", script_deaf},  /* sending: the body does not fit */
      {20 * MS, "", script_stall}, /* waiting */
      {20 * MS, "HTTP/1.1 200", script_stall},
      {20 * MS, HEAD_SSE "\r\n", script_stall},
      {20 * MS, HEAD_SSE "\r\n" EVENT("a"), script_stall},
  };
  struct buf big;
  buf_init(&big, BUF_MAX_OWN);
  for (int i = 0; i < 1 << 20; i++)
    buf_puts(&big, "0123456789abcdef");
  struct blob *blob = blob_from_buf(&big);
  buf_free(&big);
  for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
    struct net n;
    struct peer p = {.text = cuts[i].text};
    struct http_request r;
    int before = open_descriptors();
    peer_start(&p, cuts[i].script);
    net_start(&n, NULL);
    net_stream(&n, &r, net_target(&n, "http", "127.0.0.1", p.port, NULL));
    if (cuts[i].script == script_deaf) {
      r.parts = &blob;
      r.n_parts = 1;
    }
    net_send(&n, &r);
    if (cuts[i].after_ns)
      net_run(&n, cuts[i].after_ns);
    assert_non_null(r.exchange);
    http_request_cancel(&r, SAMPLE_CANCELLED);
    assert_null(r.exchange);
    assert_int_equal(r.error, SAMPLE_CANCELLED);
    assert_int_equal(n.done, 0);
    assert_int_equal(net_sample(&n, 0)->error, SAMPLE_CANCELLED);
    http_request_cancel(&r, SAMPLE_CANCELLED); /* over: no effect */
    assert_int_equal(n.recorder.n, 1);
    struct http_client_stats stats;
    http_client_get_stats(n.client, &stats);
    assert_int_equal(stats.open_now, 0);
    net_run(&n, MS);
    http_request_free(&r);
    net_stop(&n);
    peer_stop(&p);
    assert_int_equal(open_descriptors(), before);
  }
  blob_unref(blob);
}

/* A failure that is still to be told is taken back by a cancel. */
static void cancel_before_told(void **state) {
  (void)state;
  struct net n;
  struct fake f = {.refuse = ERR_IO};
  struct http_request r;
  net_start(&n, NULL);
  net_use_fake(&n, &f);
  net_stream(&n, &r, net_target(&n, "http", "127.0.0.1", 1, NULL));
  net_send(&n, &r);
  assert_int_equal(r.error, SAMPLE_CONNECT);
  http_request_cancel(&r, SAMPLE_INCOMPLETE);
  assert_int_equal(r.error, SAMPLE_INCOMPLETE);
  assert_int_equal(f.cancels, 0); /* the transport never had it */
  net_run(&n, MS);
  assert_int_equal(n.done, 0);
  http_request_free(&r);
  net_stop(&n);
}

/* ---- inside done ---- */

struct chain {
  struct net net;
  struct http_request r[3];
  struct http_target *target;
  int left;
};

static void chain_next(struct http_request *r) {
  struct chain *c = r->user;
  check_outcome(r, SAMPLE_OK, "");
  http_request_free(r);
  if (c->left-- > 0) {
    net_request(&c->net, r, c->target, "GET", "/");
    r->user = c;
    r->done = chain_next;
    net_send(&c->net, r);
    return;
  }
  if (r == &c->r[0]) { /* the others are given up from here */
    for (size_t i = 1; i < ARRAY_LEN(c->r); i++)
      if (c->r[i].exchange) {
        http_request_cancel(&c->r[i], SAMPLE_CANCELLED);
        http_request_free(&c->r[i]);
      }
    loop_stop(c->net.loop);
  }
}

static void inside_done(void **state) {
  (void)state;
  struct chain c = {.left = 200};
  struct peer p = {.text = OK_REPLY}, deaf = {0};
  peer_start(&p, peer_keep);
  peer_start(&deaf, script_deaf);
  net_start(&c.net, &(struct http_client_options){.max_connections = 1});
  c.target = net_target(&c.net, "http", "127.0.0.1", p.port, NULL);
  struct http_target *dead = net_target(&c.net, "http", "127.0.0.1", deaf.port, NULL);
  for (size_t i = 0; i < ARRAY_LEN(c.r); i++) {
    net_request(&c.net, &c.r[i], i ? dead : c.target, "GET", "/");
    c.r[i].user = &c;
    c.r[i].done = chain_next;
    net_send(&c.net, &c.r[i]);
  }
  loop_timer_set(c.net.loop, &c.net.watchdog, loop_now(c.net.loop) + 20 * NS_PER_S);
  loop_run(c.net.loop);
  loop_timer_clear(c.net.loop, &c.net.watchdog);
  assert_int_equal(p.requests, 201);
  assert_int_equal(p.accepts, 1);
  assert_null(c.r[1].exchange);
  net_stop(&c.net);
  peer_stop(&p);
  peer_stop(&deaf);
}

/* ---- the client goes ---- */

static void deleting(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = HEAD_SSE "\r\n" EVENT("a")};
  struct http_request r[4];
  int before = open_descriptors();
  peer_start(&p, script_stall);
  net_start(&n, &(struct http_client_options){.max_connections = 2});
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  for (size_t i = 0; i < ARRAY_LEN(r); i++) {
    net_stream(&n, &r[i], t);
    net_send(&n, &r[i]);
  }
  net_run(&n, 20 * MS);
  http_client_delete(n.client);
  assert_int_equal(n.done, 0);
  assert_int_equal(n.recorder.n, 4);
  for (size_t i = 0; i < ARRAY_LEN(r); i++) {
    assert_int_equal(r[i].error, SAMPLE_CANCELLED);
    assert_null(r[i].exchange);
    http_request_free(&r[i]);
  }
  loop_delete(n.loop);
  recorder_clear(&n.recorder);
  peer_stop(&p);
  assert_int_equal(open_descriptors(), before);
}

/* One request struct used again and again keeps nothing of the time before. */
static void used_again(void **state) {
  (void)state;
  struct net n;
  struct fake f = {0};
  struct http_request r;
  net_start(&n, NULL);
  net_use_fake(&n, &f);
  net_stream(&n, &r, net_target(&n, "http", "127.0.0.1", 1, NULL));
  for (int i = 0; i < 3; i++) {
    static const enum openai_api apis[] = {OPENAI_CHAT, OPENAI_CHAT, OPENAI_COMPLETIONS};
    r.api = apis[i];
    net_send(&n, &r);
    assert_int_equal(r.stream.result.output_events, 0);
    assert_int_equal(r.status, 0);
    assert_int_equal(r.response_headers.len, 0);
    assert_string_equal(r.detail, "");
    assert_true(r.stamp_ns[STAMP_FIRST_BYTE] == SAMPLE_NEVER);
    struct http_read read = {.loop_ns = 1000};
    fake_header(f.x, "Content-Type", "text/event-stream");
    http_exchange_headers_done(f.x, 200, &read);
    assert_int_equal(http_exchange_body(f.x, EVENT("a"), strlen(EVENT("a")), &read), 0);
    http_exchange_end(f.x, &read);
    assert_int_equal(r.error, SAMPLE_TRUNCATED);
  }
  http_request_free(&r);
  net_stop(&n);
}

int main(void) {
  struct err err;
  struct net warm; /* libuv keeps a pair of descriptors from its first loop on */
  if (http_global_init(&err))
    return 1;
  net_start(&warm, NULL);
  net_stop(&warm);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(misuse),      cmocka_unit_test(refused),
      cmocka_unit_test(timeouts),    cmocka_unit_test(connect_timeout),
      cmocka_unit_test(cancelling),  cmocka_unit_test(cancel_before_told),
      cmocka_unit_test(inside_done), cmocka_unit_test(deleting),
      cmocka_unit_test(used_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
