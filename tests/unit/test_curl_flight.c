/* test_curl_flight.c: that the two transports tell the same of the same server: hostile replies,
 * idle connections that die or talk, an end marker and then silence; and what redirects carry. */
#include "net_peer.h"

#include "net/client.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define OK_HEAD "HTTP/1.1 200 OK\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"
#define CHUNK "39\r\n" EVENT("a") "\r\n"
#define DONE_CHUNK "e\r\ndata: [DONE]\n\n\r\n"
#define MS NS_PER_MS

static const char *const names[] = {"h1", "full"};

static struct http_target *target_of(struct net *n, int port, int transport) {
  return net_target(n, "http", "127.0.0.1", port,
                    &(struct http_target_options){.full = transport == 1});
}

/* ---- replies that end badly ---- */

enum { CLOSES, RESETS, HANGS };
#define SAME SAMPLE_ERROR_COUNT

/* p->text, and then what p->step says. */
static void script_ends(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    peer_read(p, fd);
    if (p->text)
      peer_reply(p, fd);
    if (p->step == HANGS) {
      peer_drain(fd);
    } else if (p->step == RESETS) {
      clock_sleep_ns(10 * MS); /* what was sent must arrive before the reset */
      peer_reset(fd);
    } else {
      close(fd);
    }
  }
}

/* Where libcurl's own HTTP parser leaves no choice the classes differ: the second one is its. */
static const struct hostile {
  const char *text;
  int end;
  bool stream;
  enum sample_error error, full;
  const char *detail; /* of h1; "" where the words differ */
} hostile[] = {
    /* no head, or half of one */
    {NULL, CLOSES, true, SAMPLE_RESET, SAME, "was closed before the reply"},
    {NULL, RESETS, true, SAMPLE_RESET, SAME, "was reset before the reply"},
    {OK_HEAD "X: y", CLOSES, false, SAMPLE_RESET, SAME, "closed before the reply's headers were"},
    {OK_HEAD "X: y\r\n", CLOSES, true, SAMPLE_RESET, SAME,
     "closed before the reply's headers were"},
    {OK_HEAD "X: y\r\n", RESETS, true, SAMPLE_RESET, SAME, "reset before the reply's headers were"},
    {"HTTP/1.1 100 Continue\r\n\r\n", CLOSES, false, SAMPLE_RESET, SAME, "closed before the reply"},
    /* no HTTP */
    {"SSH-2.0-x\r\n", HANGS, true, SAMPLE_RESET, SAME, "is not HTTP/1.1"},
    {"{\"error\": 1}", CLOSES, false, SAMPLE_RESET, SAME, "is not HTTP/1.1"},
    {"HTTP/2 200\r\n\r\n", HANGS, false, SAMPLE_RESET, SAME, "is not HTTP/1.1"},
    {"HTTP/0.9 200 OK\r\n\r\n", CLOSES, false, SAMPLE_RESET, SAME, "is not HTTP/1.1"},
    {"HTTP/1.1 99 Odd\r\nContent-Length: 0\r\n\r\n", CLOSES, false, SAMPLE_RESET, SAME,
     "is not HTTP/1.1"},
    {"HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", HANGS, false, SAMPLE_RESET,
     SAME, "it wants to switch protocols"},
    {OK_HEAD "A: b\nContent-Length: 2\r\n\r\nok", CLOSES, false, SAMPLE_RESET, SAME, "HTTP/1.1"},
    {OK_HEAD "Content-Length: 5x\r\n\r\nhello", CLOSES, false, SAMPLE_RESET, SAME,
     "Content-Length"},
    {OK_HEAD "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", CLOSES, false, SAMPLE_RESET,
     SAME, "Content-Length"},
    {OK_HEAD "Content-Length: 5\r\n" CHUNKED "2\r\nok\r\n0\r\n\r\n", CLOSES, false, SAMPLE_RESET,
     SAME, "Content-Length"},
    {OK_HEAD "Transfer-Encoding: gzip\r\n\r\nok", CLOSES, false, SAMPLE_RESET, SAME,
     "its Transfer-Encoding is one that nobody asked for"},
    {"\r\n\r\n", HANGS, false, SAMPLE_TIMEOUT_FIRST_BYTE, SAMPLE_RESET, ""},
    /* the body is cut */
    {OK_HEAD "Content-Length: 9\r\n\r\nhel", CLOSES, false, SAMPLE_TRUNCATED, SAME,
     "ends early, after 3 bytes"},
    {OK_HEAD "Content-Length: 9\r\n\r\nhel", RESETS, false, SAMPLE_RESET, SAME,
     "reset after 3 bytes"},
    {OK_HEAD "Content-Length: 9\r\n\r\nhel", HANGS, false, SAMPLE_TIMEOUT_IDLE, SAME,
     "nothing came for 40 ms"},
    {OK_HEAD CHUNKED "3\r\nabc\r\n", CLOSES, false, SAMPLE_TRUNCATED, SAME, "after 3 bytes"},
    {OK_HEAD CHUNKED "3\r\nabc\r\n0\r\n", CLOSES, false, SAMPLE_TRUNCATED, SAME, "after 3 bytes"},
    {OK_HEAD CHUNKED "3\r\nab", RESETS, false, SAMPLE_RESET, SAME, "reset after 2 bytes"},
    {OK_HEAD CHUNKED "3\r\nabc\r\nzz\r\n", HANGS, false, SAMPLE_TRUNCATED, SAME, "after 3 bytes: "},
    {OK_HEAD CHUNKED "3\r\nabcXY5\r\n", HANGS, false, SAMPLE_TIMEOUT_IDLE, SAMPLE_TRUNCATED, ""},
    {"HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nbus", CLOSES, true, SAMPLE_HTTP_5XX, SAME,
     "HTTP 503: bus"},
    /* streams */
    {HEAD_SSE CHUNKED, CLOSES, true, SAMPLE_EMPTY_STREAM, SAME, "the stream is empty"},
    {HEAD_SSE CHUNKED CHUNK, CLOSES, true, SAMPLE_TRUNCATED, SAME, "without its end marker"},
    {HEAD_SSE CHUNKED CHUNK, RESETS, true, SAMPLE_RESET, SAME, "reset after 57 bytes"},
    {HEAD_SSE CHUNKED "zz\r\n", HANGS, true, SAMPLE_TRUNCATED, SAME,
     "the stream's framing is broken after 0 bytes: "},
    {HEAD_SSE CHUNKED CHUNK "zz\r\n", HANGS, true, SAMPLE_TRUNCATED, SAME,
     "the stream's framing is broken after 57 bytes: "},
    {OK_HEAD CHUNKED "zz\r\n", HANGS, true, SAMPLE_TRUNCATED, SAME, "framing is broken"},
    {HEAD_SSE "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x01", HANGS, true,
     SAMPLE_NOT_SSE, SAME, "compressed (Content-Encoding: gzip), and nobody asked for that"},
    {HEAD_SSE "Content-Encoding: identity\r\n\r\n" EVENT("a") "data: [DONE]\n\n", CLOSES, true,
     SAMPLE_OK, SAME, ""},
    {HEAD_SSE "\r\nhello\nworld\n\n", CLOSES, true, SAMPLE_NOT_SSE, SAME,
     "not one event in 13 bytes"},
    {HEAD_SSE "\r\n: ping\n\nid: 1\nretry: 5\n\n", CLOSES, true, SAMPLE_EMPTY_STREAM, SAME,
     "the stream is empty"},
    {HEAD_SSE CHUNKED CHUNK DONE_CHUNK "zz\r\n", CLOSES, true, SAMPLE_OK, SAME, ""},
    {HEAD_SSE CHUNKED CHUNK DONE_CHUNK, RESETS, true, SAMPLE_OK, SAME, ""},
};

static void check_hostile(const struct hostile *h, int transport) {
  struct net n;
  struct peer p = {.text = h->text, .step = h->end};
  struct http_request r;
  peer_start(&p, script_ends);
  net_start(&n, NULL);
  struct http_target *t = target_of(&n, p.port, transport);
  if (h->stream)
    net_stream(&n, &r, t);
  else
    net_request(&n, &r, t, "GET", "/");
  if (h->end == HANGS)
    r.timeouts = (struct http_timeouts){.first_byte_ns = 40 * MS, .idle_ns = 40 * MS};
  net_send(&n, &r);
  net_wait(&n, 1);
  enum sample_error want = transport && h->full != SAME ? h->full : h->error;
  if (r.error != want)
    fail_msg("%s, %s: %s (%s), expected %s", names[transport], h->text, sample_error_name(r.error),
             r.detail, sample_error_name(want));
  check_has(r.detail, h->detail);
  assert_int_equal(r.reconnects, 0);
  http_request_free(&r);
  net_stop(&n);
  peer_stop(&p);
}

static void hostile_replies(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(hostile); i++)
    for (int transport = 0; transport < 2; transport++)
      check_hostile(&hostile[i], transport);
}

/* 600 KB of whatever a head or its trailers can be made of: refused, and not kept. */
static void heads_without_end(void **state) {
  (void)state;
  static const struct {
    const char *before, *piece, *after;
    enum sample_error error;
    const char *detail;
  } cases[] = {
      {OK_HEAD "Big: ", "xxxxxxxxxxxxxxxx", "\r\nContent-Length: 0\r\n\r\n", SAMPLE_RESET, ""},
      {OK_HEAD, "Name: some value\r\n", "Content-Length: 0\r\n\r\n", SAMPLE_RESET,
       "headers are too long"},
      {"HTTP/1.1 200 ", "so so so long ", "\r\nContent-Length: 0\r\n\r\n", SAMPLE_RESET, ""},
      {"", "HTTP/1.1 100 Continue\r\nA: b\r\n\r\n", OK_REPLY, SAMPLE_RESET, "headers are too long"},
      {"", "HTTP/1.1 100\r\n\r\n", OK_REPLY, SAMPLE_RESET, "headers are too long"},
      {OK_HEAD CHUNKED "2\r\nok\r\n0\r\nBig: ", "xxxxxxxxxxxxxxxx", "\r\n\r\n", SAMPLE_TRUNCATED,
       "after 2 bytes: "},
      {OK_HEAD CHUNKED "2\r\nok\r\n0\r\n", "Name: some value\r\n", "\r\n", SAMPLE_TRUNCATED,
       "trailers are too long"},
  };
  for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
    size_t k = i / 2;
    struct buf text;
    buf_init(&text, BUF_MAX_OWN);
    buf_puts(&text, cases[k].before);
    while (text.len < 600000)
      buf_puts(&text, cases[k].piece);
    buf_puts(&text, cases[k].after);
    struct net n;
    struct peer p = {.text = text.data, .step = HANGS};
    struct http_request r;
    peer_start(&p, script_ends);
    net_start(&n, NULL);
    net_request(&n, &r, target_of(&n, p.port, (int)(i % 2)), "GET", "/");
    net_send(&n, &r);
    net_wait(&n, 1);
    check_outcome(&r, cases[k].error, cases[k].detail);
    assert_true(r.response_headers.cap <= HTTP_HEAD_MAX);
    http_request_free(&r);
    net_stop(&n);
    peer_stop(&p);
    buf_free(&text);
  }
}

/* A trailer is no header of the reply. */
static void trailers(void **state) {
  (void)state;
  for (int transport = 0; transport < 2; transport++) {
    struct net n;
    struct peer p = {.text = OK_HEAD CHUNKED "2\r\nok\r\n0\r\nLate: x\r\n\r\n"};
    struct http_request r;
    size_t len;
    peer_start(&p, peer_keep);
    net_start(&n, NULL);
    struct http_target *t = target_of(&n, p.port, transport);
    for (int i = 0; i < 2; i++) {
      net_request(&n, &r, t, "GET", "/");
      net_send(&n, &r);
      net_wait(&n, i + 1);
      check_outcome(&r, SAMPLE_OK, "");
      assert_string_equal(r.body.data, "ok");
      assert_int_equal(r.status, 200);
      assert_null(http_response_header(&r, "late", &len));
      assert_non_null(http_response_header(&r, "transfer-encoding", &len));
      assert_int_equal(r.reused_connection, i);
      http_request_free(&r);
    }
    net_stop(&n);
    peer_stop(&p);
  }
}

/* ---- idle connections ---- */

enum { FIN_AT_ONCE, FIN_ON_REQUEST, RST_AT_ONCE, RST_ON_REQUEST };

/* Every connection serves one request and then dies as p->step says. */
static void script_dies(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    peer_read(p, fd);
    peer_reply(p, fd);
    if (p->step == FIN_ON_REQUEST || p->step == RST_ON_REQUEST)
      peer_read(p, fd);
    if (p->step == RST_AT_ONCE)
      clock_sleep_ns(5 * MS); /* the reply is to arrive */
    if (p->step == RST_AT_ONCE || p->step == RST_ON_REQUEST)
      peer_reset(fd);
    else
      close(fd);
  }
}

/* No request fails for it, however often it happens: libcurl 7.88 counts its second attempts for
 * the life of a handle and gives up at the sixth. */
static void idle_connections_die(void **state) {
  (void)state;
  enum { N = 15 };
  for (int how = FIN_AT_ONCE; how <= RST_ON_REQUEST; how++)
    for (int transport = 0; transport < 2; transport++) {
      struct net n;
      struct peer p = {.text = OK_REPLY, .step = how};
      struct http_request r;
      struct blob *body = blob_new("{}", 2);
      struct http_client_stats stats;
      uint64_t reconnects = 0;
      peer_start(&p, script_dies);
      net_start(&n, NULL);
      struct http_target *t = target_of(&n, p.port, transport);
      for (int i = 0; i < N; i++) {
        net_request(&n, &r, t, "POST", "/");
        r.parts = &body;
        r.n_parts = 1;
        net_send(&n, &r);
        net_wait(&n, i + 1);
        if (r.error != SAMPLE_OK)
          fail_msg("%s, how %d, request %d: %s", names[transport], how, i, r.detail);
        assert_true(r.reconnects <= 1);
        reconnects += r.reconnects;
        http_request_free(&r);
        if (how == RST_AT_ONCE)
          clock_sleep_ns(10 * MS); /* closed, and the loop has not seen it */
      }
      http_client_get_stats(n.client, &stats);
      assert_int_equal(stats.reconnects, reconnects);
      assert_int_equal(stats.connections_opened, N);
      if (how == FIN_ON_REQUEST || how == RST_ON_REQUEST)
        assert_int_equal(reconnects, N - 1);
      blob_unref(body);
      net_stop(&n);
      peer_stop(&p);
    }
}

/* Each reply is followed by another one that nobody asked for, at once or (p->arg) later. p->step
 * counts them. */
static void script_talks(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd))
    while (peer_read(p, fd)) {
      peer_reply(p, fd);
      if (p->arg)
        clock_sleep_ns(5 * MS);
      peer_puts(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray");
      peer_step(p, p->step + 1);
    }
}

static void stray_replies(void **state) {
  (void)state;
  for (int late = 0; late < 2; late++)
    for (int transport = 0; transport < 2; transport++) {
      struct net n;
      struct peer p = {.text = OK_REPLY, .arg = late ? &n : NULL};
      struct http_request r;
      struct http_client_stats stats;
      peer_start(&p, script_talks);
      net_start(&n, NULL);
      struct http_target *t = target_of(&n, p.port, transport);
      for (int i = 0; i < 4; i++) {
        net_request(&n, &r, t, "GET", "/");
        net_send(&n, &r);
        net_wait(&n, i + 1);
        check_outcome(&r, SAMPLE_OK, "");
        if (strcmp(r.body.data, "ok") != 0)
          fail_msg("%s, late %d, request %d: %s", names[transport], late, i, r.body.data);
        assert_false(r.reused_connection);
        assert_int_equal(r.reconnects, 0);
        http_request_free(&r);
        assert_true(peer_await(&p, i + 1));
        if (transport == 1) /* there the loop must have seen it */
          net_run(&n, 5 * MS);
      }
      http_client_get_stats(n.client, &stats);
      assert_int_equal(stats.connections_opened, 4);
      if (transport == 0) /* libcurl closes some by itself */
        assert_true(stats.unasked_bytes >= 3);
      net_stop(&n);
      peer_stop(&p);
    }
}

/* ---- the end marker, and then nothing ---- */

#define COMPLETED                                                                                  \
  "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\","  \
  "\"status\":\"completed\"}}\n\n"
#define DELTA                                                                                      \
  "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":"   \
  "\"a\"}\n\n"

/* The stream; p->step: 0 nothing more, −1 neither, 5 the end of its framing 5 ms later. */
static void script_lingers(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd))
    while (peer_read(p, fd)) {
      peer_reply(p, fd);
      if (p->step <= 0)
        continue; /* until the client closes, or asks again */
      clock_sleep_ns((uint64_t)p->step * MS);
      peer_puts(fd, "0\r\n\r\n");
    }
}

static void end_marker_ends(void **state) {
  (void)state;
  char text[1024];
  for (int i = 0; i < 12; i++) {
    int transport = i % 2, api = i / 2 % 2, linger = (int[]){0, 5, -1}[i / 4];
    struct net n;
    struct peer p = {.text = text, .step = linger};
    struct http_request r;
    const char *events = api ? DELTA COMPLETED : EVENT("a") "data: [DONE]\n\n";
    snprintf(text, sizeof text, HEAD_SSE CHUNKED "%zx\r\n%s\r\n%s", strlen(events), events,
             linger == 0 ? "0\r\n\r\n" : "");
    peer_start(&p, script_lingers);
    net_start(&n, NULL);
    struct http_target *t = target_of(&n, p.port, transport);
    for (int k = 0; k < 2; k++) {
      net_stream(&n, &r, t);
      r.api = api ? OPENAI_RESPONSES : OPENAI_CHAT;
      r.timeouts = (struct http_timeouts){.idle_ns = 2 * NS_PER_S};
      net_send(&n, &r);
      net_wait(&n, k + 1);
      uint64_t now = loop_refresh(n.loop);
      check_outcome(&r, SAMPLE_OK, "");
      assert_true(r.stream.result.complete);
      assert_int_equal(r.stamp_ns[STAMP_DONE], r.stream.result.end_ns);
      assert_true(now - r.stamp_ns[STAMP_DONE] < NS_PER_S); /* not the idle timeout */
      if (linger <= 0) /* else it depends on how fast this machine is now */
        assert_int_equal(r.reused_connection, k == 1 && linger == 0);
      http_request_free(&r);
    }
    struct http_client_stats stats;
    http_client_get_stats(n.client, &stats);
    if (linger <= 0)
      assert_int_equal(stats.open_now, linger == 0);
    net_stop(&n);
    peer_stop(&p);
  }
}

/* ---- redirects ---- */

struct sender {
  struct peer peer;
  char reply[600];
};

static void script_sends_on(struct peer *p) {
  struct sender *s = CONTAINER_OF(p, struct sender, peer);
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd))
    while (peer_read(p, fd))
      peer_puts(fd, strstr(p->request, " /home ") ? OK_REPLY : s->reply);
}

static void send_on_to(struct sender *s, const char *fmt, const char *scheme, int port) {
  char where[200];
  snprintf(where, sizeof where, fmt, scheme, port);
  snprintf(s->reply, sizeof s->reply,
           "HTTP/1.1 307 There\r\nLocation: %s\r\nContent-Length: 5\r\n\r\nmoved", where);
}

#define KEYS                                                                                       \
  "Authorization: Bearer sesame\r\nX-Api-Key: sesame\r\nCookie: sesame\r\nX-Session: 7\r\n"        \
  "Accept: text/plain\r\nContent-Type: application/json\r\n"

static void keys_stay_at_home(void **state) {
  (void)state;
  struct net n;
  static struct sender s;
  struct peer other = {.text = OK_REPLY};
  struct http_request r;
  struct blob *body = blob_new("{\"a\":1}", 7);
  peer_start(&s.peer, script_sends_on);
  peer_start(&other, peer_keep);
  net_start(&n, NULL);
  struct http_target *t = net_target(&n, "http", "127.0.0.1", s.peer.port, NULL);
  for (int away = 0; away < 2; away++) {
    for (int i = 0; i < 2; i++) { /* the second time on a used handle */
      send_on_to(&s, away ? "%s://127.0.0.1:%d/away" : "%s://127.0.0.1:%d/home", "http",
                 away ? other.port : s.peer.port);
      net_request(&n, &r, t, "POST", "/from");
      r.headers = KEYS;
      r.follow_redirects = true;
      r.parts = &body;
      r.n_parts = 1;
      net_send(&n, &r);
      net_wait(&n, away * 2 + i + 1);
      check_outcome(&r, SAMPLE_OK, "");
      assert_int_equal(r.status, 200);
      assert_string_equal(r.body.data, "ok");
      const char *got = away ? other.request : s.peer.request;
      check_has(got, away ? "POST /away " : "POST /home ");
      check_has(got, "\r\nAccept: text/plain\r\nContent-Type: application/json\r\n");
      check_has(got, "\r\n\r\n{\"a\":1}");
      assert_int_equal(strstr(got, "sesame") != NULL, !away);
      assert_int_equal(strstr(got, "X-Session") != NULL, !away);
      http_request_free(&r);
    }
  }
  check_has(s.peer.request, "X-Api-Key: sesame"); /* the next request has them again */
  blob_unref(body);
  net_stop(&n);
  peer_stop(&s.peer);
  peer_stop(&other);
}

static void redirects_that_fail(void **state) {
  (void)state;
  int dead, fd = peer_listen(&dead);
  close(fd);
  struct sender s = {0};
  struct peer cut = {.text = "HTTP/1.1 200 OK\r\nX: ", .step = CLOSES};
  struct peer half = {.text = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", .step = CLOSES};
  peer_start(&s.peer, script_sends_on);
  peer_start(&cut, script_ends);
  peer_start(&half, script_ends);
  const struct {
    const char *where, *scheme;
    int port;
    enum sample_error error;
    const char *detail;
  } cases[] = {
      {"%s://127.0.0.1:%d/x?secret=1", "http", dead, SAMPLE_CONNECT, "connection refused"},
      {"%s://nowhere.invalid:%d/x", "http", dead, SAMPLE_RESOLVE, "redirected to http://nowhere"},
      {"%s://127.0.0.1:%d/x", "https", cut.port, SAMPLE_TLS, "TLS failed"},
      {"%s://127.0.0.1:%d/x", "ftp", dead, SAMPLE_CONNECT, "no address of a server"},
      {"%s://127.0.0.1:%d/from", "http", s.peer.port, SAMPLE_CONNECT, "one redirect after the"},
      {"%s://127.0.0.1:%d/x", "http", cut.port, SAMPLE_RESET, "before the reply's headers were"},
      {"%s://127.0.0.1:%d/x", "http", half.port, SAMPLE_TRUNCATED, "ends early, after 3 bytes"},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct net n;
    struct http_request r;
    net_start(&n, NULL);
    send_on_to(&s, cases[i].where, cases[i].scheme, cases[i].port);
    net_request(&n, &r, net_target(&n, "http", "127.0.0.1", s.peer.port, NULL), "GET", "/from");
    r.follow_redirects = true;
    net_send(&n, &r);
    net_wait(&n, 1);
    check_outcome(&r, cases[i].error, cases[i].detail);
    assert_null(strstr(r.detail, "secret"));
    http_request_free(&r);
    net_stop(&n);
  }
  peer_stop(&s.peer);
  peer_stop(&cut);
  peer_stop(&half);
}

static int warm_up(void **state) {
  (void)state;
  struct err err;
  return http_global_init(&err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hostile_replies),   cmocka_unit_test(heads_without_end),
      cmocka_unit_test(trailers),          cmocka_unit_test(idle_connections_die),
      cmocka_unit_test(stray_replies),     cmocka_unit_test(end_marker_ends),
      cmocka_unit_test(keys_stay_at_home), cmocka_unit_test(redirects_that_fail),
  };
  return cmocka_run_group_tests(tests, warm_up, NULL);
}
