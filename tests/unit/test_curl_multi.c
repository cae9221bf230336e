/* test_curl_multi.c: the full transport, with curl_flight.c and curl_loop.c below it: the same
 * results as h1.c for plain requests, streams, failures and reconnects; and what only it does:
 * redirects, compression. */
#include "tls_peer.h"

#include "net/client.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define MS NS_PER_MS

static const struct http_target_options full = {.full = true};

static struct http_client_stats stats_of(struct net *n) {
  struct http_client_stats s;
  http_client_get_stats(n->client, &s);
  return s;
}

static void get(struct net *n, struct http_request *r, struct http_target *t, const char *path) {
  net_request(n, r, t, "GET", path);
  r->sample = sample_new();
  net_send(n, r);
  net_wait(n, n->done + 1);
}

static void keeps_alive(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = OK_REPLY};
  struct http_request r;
  int before = open_descriptors();
  peer_start(&p, peer_keep);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, &full);
  for (int i = 0; i < 4; i++) {
    get(&n, &r, t, "/a/b?c=d");
    check_outcome(&r, SAMPLE_OK, "");
    assert_string_equal(r.body.data, "ok");
    check_has(p.request, "GET /a/b?c=d HTTP/1.1\r\nHost: 127.0.0.1:");
    check_has(p.request, "\r\nAccept: */*\r\n");
    assert_null(strstr(p.request, "User-Agent"));
    assert_int_equal(r.reused_connection, i > 0);
    if (i > 0)
      assert_int_equal(r.stamp_ns[STAMP_CONNECTED], r.stamp_ns[STAMP_START]);
    else
      assert_true(r.stamp_ns[STAMP_CONNECTED] > r.stamp_ns[STAMP_START]);
    for (int s = STAMP_START; s < STAMP_FIRST_BYTE; s++)
      assert_true(r.stamp_ns[s] <= r.stamp_ns[s + 1]);
    assert_true(r.stamp_ns[STAMP_FIRST_BYTE] <= r.stamp_ns[STAMP_DONE]);
    const struct sample *s = net_sample(&n, (size_t)i);
    assert_int_equal(s->bytes_sent, p.request_len);
    assert_int_equal(s->bytes_received, strlen(OK_REPLY));
    http_request_free(&r);
  }
  assert_int_equal(p.accepts, 1);
  assert_int_equal(stats_of(&n).connections_opened, 1);
  assert_int_equal(stats_of(&n).open_now, 1);
  net_stop(&n);
  peer_stop(&p);
  assert_int_equal(open_descriptors(), before);
}

static void bodies_and_headers(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = OK_REPLY};
  struct http_request r;
  struct blob *parts[3] = {blob_new("{\"a\":", 5), blob_new("", 0), blob_new("1}", 2)};
  static const char *const methods[] = {"POST", "PUT", "DELETE", "GET", "HEAD"};
  peer_start(&p, peer_keep);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, &full);
  for (int i = 0; i < 8; i++) { /* twice around: what one method set, the next must undo */
    const char *method = methods[i % 5];
    p.text = i % 5 == 4 ? "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" : OK_REPLY;
    net_request(&n, &r, t, method, "/x");
    r.headers = "Empty:\r\nX-One: two\r\n";
    if (i % 5 < 2) {
      r.parts = parts;
      r.n_parts = 3;
    }
    r.sample = sample_new();
    net_send(&n, &r);
    net_wait(&n, i + 1);
    check_outcome(&r, SAMPLE_OK, "");
    assert_int_equal(net_sample(&n, (size_t)i)->bytes_sent, p.request_len);
    char line[64];
    snprintf(line, sizeof line, "%s /x HTTP/1.1\r\n", method);
    assert_memory_equal(p.request, line, strlen(line));
    check_has(p.request, "\r\nEmpty:\r\nX-One: two\r\n");
    assert_null(strstr(p.request, "Content-Type"));
    assert_null(strstr(p.request, "Expect"));
    if (i % 5 < 2)
      check_has(p.request, "\r\n\r\n{\"a\":1}");
    if (i % 5 == 2)
      check_has(p.request, "Content-Length: 0\r\n");
    http_request_free(&r);
  }
  net_request(&n, &r, t, "POST", "/x");
  r.headers = "Content-Type: application/json\r\n";
  r.parts = parts;
  r.n_parts = 3;
  net_send(&n, &r);
  net_wait(&n, 9);
  check_has(p.request, "\r\nContent-Type: application/json\r\n");
  http_request_free(&r);
  for (int i = 0; i < 3; i++)
    blob_unref(parts[i]);
  assert_int_equal(p.accepts, 1);
  net_stop(&n);
  peer_stop(&p);
}

/* Around the size up to which a body goes out with its head, and far beyond. */
static void sizes_of_bodies(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 30000, 65535, 65536, 65537, 100000};
  struct net n;
  struct peer *p = mem_calloc(1, sizeof *p);
  struct http_request r;
  p->text = OK_REPLY;
  peer_start(p, peer_keep);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p->port, &full);
  for (size_t i = 0; i < ARRAY_LEN(sizes) * 2; i++) {
    size_t size = sizes[i / 2], n_parts = i % 2 ? 3 : 1;
    char *text = mem_alloc(size);
    for (size_t k = 0; k < size; k++)
      text[k] = (char)('a' + k % 26);
    struct blob *parts[3] = {blob_new(text, n_parts == 1 ? size : size / 3)};
    parts[1] = blob_new("", 0);
    parts[2] = blob_new(text + size / 3, size - size / 3);
    net_request(&n, &r, t, "POST", "/");
    r.parts = parts;
    r.n_parts = n_parts;
    r.sample = sample_new();
    net_send(&n, &r);
    net_wait(&n, (int)i + 1);
    check_outcome(&r, SAMPLE_OK, "");
    assert_int_equal(p->body_len, size);
    assert_memory_equal(p->request + p->request_len - size, text, size);
    assert_int_equal(net_sample(&n, i)->bytes_sent, p->request_len);
    assert_true(r.stamp_ns[STAMP_SENT] >= r.stamp_ns[STAMP_CONNECTED]);
    assert_true(r.stamp_ns[STAMP_SENT] <= r.stamp_ns[STAMP_HEADERS]);
    http_request_free(&r);
    for (int k = 0; k < 3; k++)
      blob_unref(parts[k]);
    mem_free(text);
  }
  assert_int_equal(p->accepts, 1);
  net_stop(&n);
  peer_stop(p);
  mem_free(p);
}

/* ---- streams ---- */

#define STREAM                                                                                     \
  HEAD_SSE "Transfer-Encoding: chunked\r\nX-Inference-Pod: pod-7\r\n\r\n"                          \
           "39\r\n" EVENT("a") "\r\n"                                                              \
                               "39\r\n" EVENT("b") "\r\n"                                          \
                                                   "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"

static void streams(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = STREAM};
  struct http_request r;
  peer_start(&p, peer_keep);
  net_start(&n, &(struct http_client_options){.kernel_stamps = true, .keep_gaps = true});
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, &full);
  for (size_t cut = 0; cut < strlen(STREAM); cut += 7) {
    p.split = cut;
    net_stream(&n, &r, t);
    net_send(&n, &r);
    net_wait(&n, n.done + 1);
    check_outcome(&r, SAMPLE_OK, "");
    assert_string_equal(r.stream.result.choices[0].text.data, "ab");
    if (cut == 0)
      assert_int_equal(r.stream.result.n_coalesced, 1); /* one piece, though two chunks */
    assert_true(r.stamp_ns[STAMP_SENT] <= r.stamp_ns[STAMP_HEADERS]);
    assert_true(r.stamp_ns[STAMP_HEADERS] <= r.stamp_ns[STAMP_FIRST_BYTE]);
    assert_true(r.stamp_ns[STAMP_FIRST_BYTE] <= r.stamp_ns[STAMP_FIRST_TOKEN]);
    assert_true(r.stamp_ns[STAMP_LAST_TOKEN] <= r.stamp_ns[STAMP_DONE]);
    assert_string_equal(net_sample(&n, (size_t)n.done - 1)->served, "pod-7");
    http_request_free(&r);
  }
  assert_int_equal(p.accepts, 1);
  assert_true(n.recorder.read_errors > n.recorder.missing);
  net_stop(&n);
  peer_stop(&p);
}

/* ---- failures ---- */

/* p->text, then closed (p->step 0) or reset (1); p->step 2: nothing at all, kept open. */
static void script_ends(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    peer_read(p, fd);
    if (p->text)
      peer_reply(p, fd);
    if (p->step == 2) {
      peer_drain(fd);
    } else if (p->step == 1) {
      clock_sleep_ns(20 * MS); /* what was sent must arrive before the reset */
      peer_reset(fd);
    } else {
      close(fd);
    }
  }
}

static void failures(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int step;
    bool stream;
    enum sample_error error;
    const char *detail;
  } ends[] = {
      {NULL, 0, false, SAMPLE_RESET, "was closed before the reply"},
      {NULL, 1, false, SAMPLE_RESET, "was reset before the reply"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", 0, false, SAMPLE_TRUNCATED,
       "ends early, after 3 bytes"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", 1, false, SAMPLE_RESET,
       "reset after 3 bytes"},
      {"SSH-2.0-x\r\n", 0, false, SAMPLE_RESET, "is not HTTP/1.1"},
      {HEAD_SSE "\r\n" EVENT("a"), 0, true, SAMPLE_TRUNCATED, "without its end marker"},
      {HEAD_SSE "\r\n" EVENT("a"), 1, true, SAMPLE_RESET, "reset after 57 bytes"},
      {HEAD_SSE "\r\n", 0, true, SAMPLE_EMPTY_STREAM, "the stream is empty"},
      {"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy", 0, true, SAMPLE_HTTP_5XX,
       "HTTP 503: busy"},
      {NULL, 2, true, SAMPLE_TIMEOUT_FIRST_BYTE, "no byte of the reply within 60 ms"},
      {HEAD_SSE "\r\n" EVENT("a"), 2, true, SAMPLE_TIMEOUT_IDLE, "nothing came for 50 ms"},
  };
  for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
    struct net n;
    struct peer p = {.text = ends[i].text, .step = ends[i].step};
    struct http_request r;
    int before = open_descriptors();
    peer_start(&p, script_ends);
    net_start(&n, NULL);
    struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, &full);
    if (ends[i].stream)
      net_stream(&n, &r, t);
    else
      net_request(&n, &r, t, "GET", "/");
    if (ends[i].step == 2)
      r.timeouts = (struct http_timeouts){.first_byte_ns = 60 * MS, .idle_ns = 50 * MS};
    net_send(&n, &r);
    net_wait(&n, 1);
    check_outcome(&r, ends[i].error, ends[i].detail);
    assert_int_equal(r.reconnects, 0);
    assert_int_equal(p.accepts, 1);
    if (r.status != 503) /* a whole reply: its connection is kept until the end is noticed */
      assert_int_equal(stats_of(&n).open_now, 0);
    http_request_free(&r);
    net_stop(&n);
    peer_stop(&p);
    assert_int_equal(open_descriptors(), before);
  }
}

static void script_race(struct peer *p) {
  int fd = peer_accept(p);
  peer_read(p, fd);
  peer_reply(p, fd);
  peer_read(p, fd);
  close(fd);
  peer_keep(p);
}

static void idle_race(void **state) {
  (void)state;
  struct net n;
  struct peer p = {.text = OK_REPLY};
  struct http_request r;
  struct blob *body = blob_new("{}", 2);
  peer_start(&p, script_race);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, &full);
  get(&n, &r, t, "/");
  http_request_free(&r);
  net_request(&n, &r, t, "POST", "/again");
  r.parts = &body;
  r.n_parts = 1;
  net_send(&n, &r);
  uint64_t first_start = r.stamp_ns[STAMP_START];
  net_wait(&n, 2);
  check_outcome(&r, SAMPLE_OK, "");
  assert_int_equal(r.reconnects, 1);
  assert_false(r.reused_connection);
  assert_true(r.stamp_ns[STAMP_START] > first_start);
  assert_true(r.stamp_ns[STAMP_CONNECTED] > r.stamp_ns[STAMP_START]);
  assert_true(r.stamp_ns[STAMP_SENT] >= r.stamp_ns[STAMP_CONNECTED]);
  check_has(p.request, "\r\n\r\n{}");
  assert_int_equal(stats_of(&n).reconnects, 1);
  http_request_free(&r);
  blob_unref(body);
  net_stop(&n);
  peer_stop(&p);
}

static void cancelling(void **state) {
  (void)state;
  static const struct {
    uint64_t after_ns;
    const char *text;
  } cuts[] = {{0, NULL},
              {10 * MS, NULL},
              {10 * MS, HEAD_SSE "\r\n"},
              {10 * MS, HEAD_SSE "\r\n" EVENT("a")}};
  for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
    struct net n;
    struct peer p = {.text = cuts[i].text, .step = 2};
    struct http_request r[3];
    int before = open_descriptors();
    peer_start(&p, script_ends);
    net_start(&n, &(struct http_client_options){.max_connections = 2});
    struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, &full);
    for (int k = 0; k < 3; k++) { /* the third waits in line */
      net_stream(&n, &r[k], t);
      net_send(&n, &r[k]);
    }
    if (cuts[i].after_ns)
      net_run(&n, cuts[i].after_ns);
    assert_int_equal(stats_of(&n).waits_for_connection, 1);
    for (int k = 2; k >= 0; k--)
      http_request_cancel(&r[k], SAMPLE_CANCELLED);
    assert_int_equal(stats_of(&n).open_now, 0);
    assert_int_equal(n.done, 0);
    net_run(&n, MS);
    for (int k = 0; k < 3; k++)
      http_request_free(&r[k]);
    net_stop(&n);
    peer_stop(&p);
    assert_int_equal(open_descriptors(), before);
  }
}

/* More than one multi handle's worth, and a line. */
static void many(void **state) {
  (void)state;
  enum { N = 300 };
  struct net n;
  struct peer p[2];
  static struct http_request r[N];
  memset(p, 0, sizeof p);
  net_start(&n, &(struct http_client_options){.max_connections = 40});
  for (int i = 0; i < 2; i++) {
    p[i].text = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    peer_start(&p[i], peer_close);
  }
  for (int i = 0; i < N; i++) {
    net_request(&n, &r[i], net_target(&n, "http", "127.0.0.1", p[i % 2].port, &full), "GET", "/");
    net_send(&n, &r[i]);
  }
  net_wait(&n, N);
  for (int i = 0; i < N; i++) {
    check_outcome(&r[i], SAMPLE_OK, "");
    http_request_free(&r[i]);
  }
  assert_int_equal(p[0].requests + p[1].requests, N);
  assert_int_equal(stats_of(&n).waits_for_connection, N - 80);
  assert_int_equal(stats_of(&n).open_now, 0);
  net_stop(&n);
  for (int i = 0; i < 2; i++)
    peer_stop(&p[i]);
}

/* ---- redirects and compression ---- */

static void script_redirect(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd))
    while (peer_read(p, fd)) {
      if (strstr(p->request, " /from"))
        peer_puts(fd, "HTTP/1.1 302 Found\r\nLocation: /to?x=1\r\nX-First: 1\r\nContent-Length: "
                      "5\r\n\r\nmoved");
      else if (strstr(p->request, " /round"))
        peer_puts(fd, "HTTP/1.1 307 Round\r\nLocation: /round\r\nContent-Length: 0\r\n\r\n");
      else
        peer_puts(fd, "HTTP/1.1 200 OK\r\nX-Second: 1\r\nContent-Length: 4\r\n\r\nhere");
    }
}

static void redirects(void **state) {
  (void)state;
  struct net n;
  struct peer p = {0};
  struct http_request r;
  size_t len;
  struct blob *body = blob_new("payload", 7);
  peer_start(&p, script_redirect);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  net_request(&n, &r, t, "POST", "/from");
  r.parts = &body;
  r.n_parts = 1;
  r.follow_redirects = true;
  net_send(&n, &r);
  net_wait(&n, 1);
  check_outcome(&r, SAMPLE_OK, "");
  assert_int_equal(r.status, 200);
  assert_string_equal(r.body.data, "here");
  assert_null(http_response_header(&r, "x-first", &len));
  assert_non_null(http_response_header(&r, "x-second", &len));
  check_has(p.request, "POST /to?x=1 HTTP/1.1");
  check_has(p.request, "\r\n\r\npayload");
  assert_int_equal(r.reconnects, 0);
  assert_false(r.reused_connection);
  http_request_free(&r);

  get(&n, &r, net_target(&n, "http", "127.0.0.1", p.port, &full),
      "/from"); /* not asked to follow */
  assert_int_equal(r.status, 302);
  assert_string_equal(r.body.data, "moved");
  check_outcome(&r, SAMPLE_OK, "");
  http_request_free(&r);

  net_request(&n, &r, t, "GET", "/round");
  r.follow_redirects = true;
  net_send(&n, &r);
  net_wait(&n, 3);
  check_outcome(&r, SAMPLE_CONNECT, "one redirect after the other (11)");
  http_request_free(&r);
  blob_unref(body);
  net_stop(&n);
  peer_stop(&p);
}

static void compression(void **state) {
  (void)state;
  static const char head[] =
      "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 47\r\n\r\n";
  static const char zip[] =
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x2e\x2c\x4d\x4d\xad\x4a\x4d\x51\xb2"
      "\x52\x32\x30\x34\x32\x36\x31\x35\x33\xb7\xb0\x1c\xda\x2c\xa5\x5a\x00\x19\xc9\xae\xe5\xd7"
      "\x00\x00\x00";
  char text[256];
  memcpy(text, head, sizeof head - 1);
  memcpy(text + sizeof head - 1, zip, 47);
  struct net n;
  struct peer p = {.text = text, .text_len = sizeof head - 1 + 47};
  struct http_request r;
  peer_start(&p, peer_keep);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", p.port, NULL);
  net_request(&n, &r, t, "GET", "/");
  r.accept_compressed = true;
  net_send(&n, &r);
  net_wait(&n, 1);
  check_outcome(&r, SAMPLE_OK, "");
  check_has(p.request, "Accept-Encoding: ");
  assert_int_equal(r.body.len, 215);
  assert_memory_equal(r.body.data, "{\"squeezed\":\"0123456789", 23);
  http_request_free(&r);
  text[sizeof head + 20] ^= 0x55; /* broken data */
  net_request(&n, &r, t, "GET", "/");
  r.accept_compressed = true;
  net_send(&n, &r);
  net_wait(&n, 2);
  assert_int_equal(r.error, SAMPLE_TRUNCATED);
  http_request_free(&r);
  net_stop(&n);
  peer_stop(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_alive),     cmocka_unit_test(bodies_and_headers),
      cmocka_unit_test(sizes_of_bodies), cmocka_unit_test(streams),
      cmocka_unit_test(failures),        cmocka_unit_test(idle_race),
      cmocka_unit_test(cancelling),      cmocka_unit_test(many),
      cmocka_unit_test(redirects),       cmocka_unit_test(compression),
  };
  return cmocka_run_group_tests(tests, tls_group_start, tls_group_stop);
}
