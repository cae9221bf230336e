/* test_httpd_reply.c: what goes over the wire, byte by byte: whole answers, chunks, HEAD, HTTP/1.0,
 * faults, and a client that does not read. */
#include "check.h"

#include "base/mem.h"
#include "httpd_peer.h"

#define BIG ((size_t)1 << 20)
#define BIG_WRITES 32

static void write_parts(struct httpd_request *req) {
  httpd_write(req, "one", 3);
  httpd_write(req, "", 0); /* would be the end mark */
  httpd_write(req, "two and more....", 16);
  httpd_end(req);
}

static void serve_big(struct httpd_request *req) {
  char *data = mem_alloc(BIG);
  memset(data, 'x', BIG);
  httpd_stream(req, 200, NULL);
  for (int i = 0; i < BIG_WRITES; i++)
    httpd_write(req, data, BIG);
  mem_free(data);
}

/* The path says how to answer. */
static void on_request(void *user, struct httpd_request *req) {
  struct peer *p = user;
  const char *path = httpd_path(req);
  p->requests++;
  if (!strcmp(path, "/whole")) {
    httpd_reply(req, 200, "Content-Type: text/plain\r\nX-A: b\r\n", "hello", 5);
  } else if (!strcmp(path, "/empty")) {
    httpd_reply(req, 404, NULL, NULL, 0);
  } else if (!strcmp(path, "/204")) {
    httpd_reply(req, 204, NULL, "ignored", 7);
  } else if (!strcmp(path, "/101")) {
    httpd_reply(req, 101, "Upgrade: x\r\n", NULL, 0);
  } else if (!strcmp(path, "/odd")) {
    httpd_reply(req, 299, NULL, "x", 1);
  } else if (!strcmp(path, "/large")) {
    char *data = mem_alloc(10000);
    memset(data, 'L', 10000);
    httpd_reply(req, 200, NULL, data, 10000);
    mem_free(data); /* the answer no longer needs it */
  } else if (!strcmp(path, "/stream")) {
    httpd_stream(req, 200, "Content-Type: text/event-stream\r\n");
    write_parts(req);
  } else if (!strcmp(path, "/stream304")) {
    httpd_stream(req, 304, NULL);
    write_parts(req);
  } else if (!strcmp(path, "/head-only")) {
    httpd_stream(req, 200, NULL);
    p->held = req;
  } else if (!strcmp(path, "/close")) {
    httpd_stream(req, 200, NULL);
    httpd_write(req, "half", 4);
    httpd_close_connection(req);
  } else if (!strcmp(path, "/close-first")) {
    httpd_close_connection(req);
  } else if (!strcmp(path, "/reset")) {
    httpd_reset_connection(req);
  } else if (!strcmp(path, "/raw")) {
    httpd_raw(req, "HTTP/1.1 2OO nonsense\r\n", 23);
    httpd_raw(req, "", 0);
    httpd_close_connection(req);
  } else if (!strcmp(path, "/big")) {
    p->held = req;
    serve_big(req);
  } else if (!strcmp(path, "/big-close")) {
    serve_big(req);
    httpd_close_connection(req);
  } else if (!strcmp(path, "/big-end")) {
    serve_big(req);
    httpd_end(req);
  }
}

static void start(struct peer *p) {
  *p = (struct peer){.options.on_request = on_request};
  peer_start(p);
}

static void ask(int fd, const char *method, const char *path, const char *rest) {
  char text[256];
  snprintf(text, sizeof text, "%s %s HTTP/1.1\r\n%s\r\n", method, path, rest);
  peer_send(fd, text);
}

static void whole_answers_are_framed_exactly(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  ask(fd, "GET", "/whole", "");
  peer_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-A: b\r\nContent-Length: 5\r\n"
                  "Connection: keep-alive\r\n\r\nhello");
  ask(fd, "GET", "/empty", "");
  peer_expect(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n");
  ask(fd, "GET", "/204", "");
  peer_expect(fd, "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
  ask(fd, "GET", "/101", "");
  peer_expect(fd, "HTTP/1.1 101 Status\r\nUpgrade: x\r\nConnection: keep-alive\r\n\r\n");
  ask(fd, "GET", "/odd", "");
  peer_expect(fd, "HTTP/1.1 299 Status\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx");
  ask(fd, "HEAD", "/whole", "");
  peer_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-A: b\r\nContent-Length: 5\r\n"
                  "Connection: keep-alive\r\n\r\n");
  char text[10100];
  int n = snprintf(text, sizeof text,
                   "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\nConnection: keep-alive\r\n\r\n");
  memset(text + n, 'L', 10000);
  text[n + 10000] = '\0';
  ask(fd, "GET", "/large", "");
  peer_expect(fd, text);
  ask(fd, "GET", "/whole", "Connection: close\r\n");
  peer_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-A: b\r\nContent-Length: 5\r\n"
                  "Connection: close\r\n\r\nhello");
  assert_int_equal(peer_end(fd), 0);
  peer_stop(&p);
  assert_int_equal(p.requests, 8);
}

static void streams_are_chunked_exactly(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  for (int i = 0; i < 2; i++) {
    ask(fd, "GET", "/stream", "");
    peer_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
                    "3\r\none\r\n10\r\ntwo and more....\r\n0\r\n\r\n");
  }
  ask(fd, "HEAD", "/stream", "");
  peer_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                  "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n");
  ask(fd, "GET", "/stream304", "");
  peer_expect(fd, "HTTP/1.1 304 Not Modified\r\nConnection: keep-alive\r\n\r\n");
  ask(fd, "GET", "/stream", "Connection: close\r\n");
  peer_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                  "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                  "3\r\none\r\n10\r\ntwo and more....\r\n0\r\n\r\n");
  assert_int_equal(peer_end(fd), 0);
  peer_stop(&p);
}

static void http_1_0_gets_no_chunks(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  peer_send(fd, "GET /whole HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  peer_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-A: b\r\nContent-Length: 5\r\n"
                  "Connection: keep-alive\r\n\r\nhello");
  peer_send(fd, "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  peer_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
                  "onetwo and more....");
  assert_int_equal(peer_end(fd), 0);
  peer_stop(&p);
}

static void end_held(struct peer *p) {
  httpd_write(p->held, "later", 5);
  httpd_end(p->held);
}

/* The head does not wait for the first chunk. */
static void a_stream_sends_its_head_at_once(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  ask(fd, "GET", "/head-only", "");
  peer_expect(fd,
              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n");
  peer_expect_silence(fd);
  peer_do(&p, end_held);
  peer_expect(fd, "5\r\nlater\r\n0\r\n\r\n");
  close(fd);
  peer_stop(&p);
}

static void faults_do_what_they_say(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  ask(fd, "GET", "/close", "");
  peer_expect(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
                  "4\r\nhalf\r\n");
  assert_int_equal(peer_end(fd), 0);
  fd = peer_connect(&p);
  ask(fd, "GET", "/close-first", "");
  assert_int_equal(peer_end(fd), 0);
  fd = peer_connect(&p);
  ask(fd, "GET", "/reset", "");
  assert_int_equal(peer_end(fd), ECONNRESET);
  fd = peer_connect(&p);
  ask(fd, "GET", "/raw", "");
  peer_expect(fd, "HTTP/1.1 2OO nonsense\r\n");
  assert_int_equal(peer_end(fd), 0);
  fd = peer_connect(&p); /* bytes that we never look at do not turn the end into a reset */
  ask(fd, "GET", "/close-first", "\r\nGET /whole HTTP/1.1\r\n");
  assert_int_equal(peer_end(fd), 0);
  peer_stop(&p);
  assert_int_equal(p.requests, 5);
}

/* ---- a slow client ---- */

struct backlog {
  struct peer peer;
  size_t pending;
};

static void look_at_backlog(struct peer *p) {
  CONTAINER_OF(p, struct backlog, peer)->pending = httpd_pending(p->held);
}

static void end_big(struct peer *p) {
  httpd_end(p->held);
}

/* Reads the 32 chunks of 1 MiB. */
static void read_big(int fd) {
  static const char chunk[] = "100000\r\n";
  char *data = mem_alloc(BIG + 1);
  peer_expect(fd,
              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n");
  for (int i = 0; i < BIG_WRITES; i++) {
    peer_expect(fd, chunk);
    for (size_t n = 0; n < BIG;) {
      ssize_t got = recv(fd, data + n, BIG - n, 0);
      assert_true(got > 0);
      n += (size_t)got;
    }
    for (size_t k = 0; k < BIG; k++)
      if (data[k] != 'x')
        fail_msg("chunk %d, byte %zu is %d", i, k, data[k]);
    peer_expect(fd, "\r\n");
  }
  mem_free(data);
}

static void a_slow_client_shows_as_backlog_and_loses_nothing(void **state) {
  (void)state;
  struct backlog b = {0};
  start(&b.peer);
  int fd = peer_connect(&b.peer);
  ask(fd, "GET", "/big", "");
  peer_wait(&b.peer, &b.peer.requests, 1);
  peer_do(&b.peer, look_at_backlog);
  assert_true(b.pending > BIG && b.pending < (BIG + 64) * BIG_WRITES);
  read_big(fd);
  peer_do(&b.peer, look_at_backlog);
  assert_int_equal(b.pending, 0);
  peer_do(&b.peer, end_big);
  peer_expect(fd, "0\r\n\r\n");
  close(fd);
  peer_stop(&b.peer);
}

static void count_connections(struct peer *p) {
  p->accepts = (int)httpd_connections(p->server);
}

/* The client ends its side early and reads late; it gets everything, and then our end. */
static void check_flushed(const char *path, const char *end_mark) {
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  ask(fd, "GET", path, "");
  peer_wait(&p, &p.requests, 1);
  shutdown(fd, SHUT_WR);
  clock_sleep_ns(20 * NS_PER_MS);
  read_big(fd);
  peer_expect(fd, end_mark);
  assert_int_equal(peer_end(fd), 0);
  p.accepts = -1;
  peer_do(&p, count_connections);
  assert_int_equal(p.accepts, 0); /* both ends are known: nothing to linger for */
  peer_stop(&p);
}

static void an_end_lets_the_backlog_out_first(void **state) {
  (void)state;
  check_flushed("/big-close", "");
  check_flushed("/big-end", "0\r\n\r\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_answers_are_framed_exactly),
      cmocka_unit_test(streams_are_chunked_exactly),
      cmocka_unit_test(http_1_0_gets_no_chunks),
      cmocka_unit_test(a_stream_sends_its_head_at_once),
      cmocka_unit_test(faults_do_what_they_say),
      cmocka_unit_test(a_slow_client_shows_as_backlog_and_loses_nothing),
      cmocka_unit_test(an_end_lets_the_backlog_out_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
