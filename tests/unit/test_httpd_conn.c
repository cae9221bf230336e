/* test_httpd_conn.c: a connection's life: requests one after another, in pieces, ahead of time and
 * wrong; clients that leave; handlers that answer late, or never hear that nobody listens. */
#include "check.h"

#include "base/buf.h"
#include "base/mem.h"
#include "httpd_peer.h"
#include "io/httpd_internal.h"

static void on_close(struct httpd_request *req, void *user) {
  struct peer *p = user;
  assert(p->held == req && !p->inside);
  assert(httpd_user(req) == user);
  httpd_reply(req, 200, NULL, NULL, 0); /* nobody hears it; must do no harm */
  p->held = NULL;
  p->closes++;
}

static void answer_later(struct loop_timer *timer) {
  struct peer *p = CONTAINER_OF(timer, struct peer, timer);
  struct httpd_request *req = p->held;
  p->held = NULL;
  p->inside = true;
  httpd_reply(req, 200, NULL, httpd_path(req), strlen(httpd_path(req)));
  p->inside = false;
}

/* Answers from the ready list, and only then, still in the same phase, lets more arrive. */
static void answer_when_ready(struct loop_task *task) {
  struct peer *p = CONTAINER_OF(task, struct peer, task);
  struct httpd_request *req = p->held;
  p->held = NULL;
  httpd_reply(req, 200, NULL, "ready", 5);
  sem_post(&p->go);
  clock_sleep_ns(50 * NS_PER_MS);
}

/* /echo says what it got; /later answers in 1 ms, /ready from the ready list; /hold and
 * /hold-stream wait with on_close, /deaf and /deaf-stream without. */
static void on_request(void *user, struct httpd_request *req) {
  struct peer *p = user;
  const char *path = httpd_path(req);
  size_t len;
  const char *body = httpd_body(req, &len);
  p->requests++;
  assert(!p->inside);
  assert(httpd_user(req) == NULL);
  assert(httpd_loop(req) == p->loop);
  assert(httpd_received_ns(req) == loop_now(p->loop) || !strcmp(httpd_query(req), "ahead"));
  if (!strncmp(path, "/echo", 5)) {
    struct buf b;
    const char *x = httpd_header(req, "x-say");
    buf_init(&b, BUF_MAX_OWN);
    buf_printf(&b, "%s %s ?%s %s [", httpd_method(req), path, httpd_query(req), x ? x : "-");
    buf_put(&b, body, len);
    buf_puts(&b, "]");
    httpd_reply(req, 200, NULL, b.data, b.len);
    buf_free(&b);
    return;
  }
  assert(!p->held); /* one request at a time */
  p->held = req;
  httpd_set_user(req, p);
  if (!strcmp(path, "/later")) {
    loop_timer_init(&p->timer, answer_later);
    loop_timer_set(p->loop, &p->timer, loop_now(p->loop) + NS_PER_MS);
  }
  if (!strcmp(path, "/lose")) { /* the client is gone before it is answered */
    p->held = NULL;
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(p->fd);
    httpd_reply(req, 200, NULL, NULL, 0);
  }
  if (!strcmp(path, "/ready")) {
    p->task.run = answer_when_ready;
    loop_ready(p->loop, &p->task);
  }
  if (strstr(path, "stream"))
    httpd_stream(req, 200, NULL);
  if (strstr(path, "hold"))
    httpd_on_close(req, on_close);
}

static void start(struct peer *p) {
  *p = (struct peer){.options = {.on_request = on_request, .max_body = 1000, .max_headers = 1000}};
  peer_start(p);
}

static void expect_answer(int fd, const char *body) {
  char text[2048];
  snprintf(text, sizeof text,
           "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: keep-alive\r\n\r\n%s",
           strlen(body), body);
  peer_expect(fd, text);
}

static void a_connection_serves_many_requests(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  for (int i = 0; i < 100; i++) {
    peer_send(fd, "POST /echo?a=1 HTTP/1.1\r\nX-Say: hi\r\nContent-Length: 4\r\n\r\nbody");
    expect_answer(fd, "POST /echo ?a=1 hi [body]");
    peer_send(fd, "GET /echo HTTP/1.1\r\n\r\n");
    expect_answer(fd, "GET /echo ? - []");
  }
  close(fd);
  peer_stop(&p);
  assert_int_equal(p.requests, 200);
}

static void a_request_may_come_byte_by_byte(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p), one = 1;
  setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof one);
  const char *text = "POST /echo?x HTTP/1.1\r\nX-Say: slow\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  for (const char *at = text; *at; at++) {
    char byte[2] = {*at, 0};
    peer_send(fd, byte);
    if (at[1])
      peer_do(&p, peer_look); /* lets the loop take it by itself */
  }
  expect_answer(fd, "POST /echo ?x slow [abcde]");
  close(fd);
  peer_stop(&p);
}

/* Three at once, the middle one answered late: answers keep the order of the requests. */
static void pipelined_requests_wait_for_their_turn(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  for (int i = 0; i < 20; i++) {
    peer_send(fd, "GET /echo1 HTTP/1.1\r\n\r\nGET /later?ahead HTTP/1.1\r\n\r\n"
                  "POST /echo2?ahead HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345"
                  "GET /later?ahead HTTP/1.1\r\n\r\nGET /echo3?ahead HTTP/1.1\r\n\r\n");
    expect_answer(fd, "GET /echo1 ? - []");
    expect_answer(fd, "/later");
    expect_answer(fd, "POST /echo2 ?ahead - [12345]");
    expect_answer(fd, "/later");
    expect_answer(fd, "GET /echo3 ?ahead - []");
  }
  close(fd);
  peer_stop(&p);
  assert_int_equal(p.requests, 100);
}

/* What arrives after an answer and before the server looked at what it had kept stays behind it. */
static void bytes_kept_come_before_bytes_read(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  sem_init(&p.go, 0, 0);
  int fd = peer_connect(&p);
  peer_send(fd, "GET /ready HTTP/1.1\r\n\r\nGET /echo1?ahead HTTP/1.1\r\n\r\n");
  while (sem_wait(&p.go))
    ;
  peer_send(fd, "GET /echo2?ahead HTTP/1.1\r\n\r\n");
  expect_answer(fd, "ready");
  expect_answer(fd, "GET /echo1 ?ahead - []");
  expect_answer(fd, "GET /echo2 ?ahead - []");
  close(fd);
  peer_stop(&p);
  sem_destroy(&p.go);
}

static void release_held(struct peer *p) {
  struct httpd_request *req = p->held;
  p->held = NULL;
  httpd_reply(req, 200, NULL, "released", 8);
}

static void close_held(struct peer *p) {
  httpd_close_connection(p->held);
  p->held = NULL;
}

static const char ahead[] =
    "GET /echo?ahead HTTP/1.1\r\nX-Say: 0123456789012345678901234567890\r\n\r\n";
static const char ahead_answer[] = "GET /echo ?ahead 0123456789012345678901234567890 []";

/* Sends requests until nobody takes them any more; returns how many bytes went out. */
static size_t flood(int fd) {
  size_t len = sizeof ahead - 1, sent = 0;
  for (int idle = 0; idle < 30 && sent < 64u << 20;) {
    ssize_t n = send(fd, ahead + sent % len, len - sent % len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
      sent += (size_t)n;
      idle = 0;
    } else {
      clock_sleep_ns(2 * NS_PER_MS);
      idle++;
    }
  }
  assert_true(sent > 256 * 1024 && sent < 64u << 20);
  return sent;
}

/* More than the server keeps ahead: it stops reading, and loses nothing. */
static void a_flood_behind_a_slow_answer_is_held_back(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  peer_send(fd, "GET /hold HTTP/1.1\r\n\r\n");
  size_t sent = flood(fd), len = sizeof ahead - 1;
  peer_do(&p, release_held);
  expect_answer(fd, "released");
  for (size_t i = 0; i < sent / len; i++)
    expect_answer(fd, ahead_answer);
  if (sent % len) {
    peer_send(fd, ahead + sent % len);
    expect_answer(fd, ahead_answer);
  }
  close(fd);
  peer_stop(&p);
}

/* Adds at least that many bytes; returns how often `text` went in. */
static int add_to_buf(struct buf *b, const char *text, size_t bytes) {
  int n = 0;
  for (size_t end = b->len + bytes; b->len < end; n++)
    buf_puts(b, text);
  return n;
}

/* A connection ended while a flood is held back reads again, so that nobody gets stuck. */
static void an_ended_connection_swallows_the_flood(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  char byte;
  struct buf b; /* made before: who says nothing for a second is cut off */
  buf_init(&b, BUF_MAX_OWN);
  add_to_buf(&b, ahead, 16 << 20); /* more than the kernel holds by itself */
  peer_send(fd, "GET /hold HTTP/1.1\r\n\r\n");
  flood(fd);
  peer_do(&p, close_held);
  assert_int_equal(recv(fd, &byte, 1, 0), 0);
  peer_send(fd, b.data);
  buf_free(&b);
  close(fd);
  peer_stop(&p);
}

/* The second held request is reached while plenty is kept; the client that leaves is still seen. */
static void reading_goes_on_behind_a_flood(void **state) {
  (void)state;
  struct peer p;
  struct buf b;
  start(&p);
  int fd = peer_connect(&p);
  buf_init(&b, BUF_MAX_OWN);
  add_to_buf(&b, "GET /hold HTTP/1.1\r\n\r\n", 1);
  int between = add_to_buf(&b, ahead, 100 * 1024);
  add_to_buf(&b, "GET /hold?ahead HTTP/1.1\r\n\r\n", 1);
  add_to_buf(&b, ahead, 240 * 1024);
  peer_send(fd, b.data);
  buf_free(&b);
  peer_wait(&p, &p.requests, 1);
  clock_sleep_ns(20 * NS_PER_MS); /* until it has read what it keeps */
  peer_do(&p, release_held);
  peer_wait(&p, &p.requests, 1 + between + 1);
  close(fd);
  peer_wait(&p, &p.closes, 1);
  peer_stop(&p);
}

static void continue_is_said_when_the_body_is_awaited(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  peer_send(fd, "POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  peer_expect(fd, "HTTP/1.1 100 Continue\r\n\r\n");
  peer_send(fd, "a");
  peer_do(&p, peer_look);
  peer_expect_silence(fd); /* once is enough */
  peer_send(fd, "bc");
  expect_answer(fd, "POST /echo ? - [abc]");
  /* the body is already there: nothing to say */
  peer_send(fd, "POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc");
  expect_answer(fd, "POST /echo ? - [abc]");
  close(fd);
  peer_stop(&p);
}

static void check_refused(struct peer *p, const char *request, const char *status,
                          const char *why) {
  char text[512];
  int fd = peer_connect(p);
  peer_send(fd, request);
  snprintf(text, sizeof text,
           "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
           "Connection: close\r\n\r\n%s\n",
           status, strlen(why) + 1, why);
  peer_expect(fd, text);
  assert_int_equal(peer_end(fd), 0); /* an end, not a reset, although bytes were not read */
}

static void bad_input_is_answered_and_ends_the_connection(void **state) {
  (void)state;
  struct peer p;
  char text[8192] = "GET / HTTP/1.1\r\nX: ";
  start(&p);
  check_refused(&p, "nonsense\r\n\r\n and more", "400 Bad Request", "Invalid method encountered");
  check_refused(&p, "POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n0123456789",
                "413 Content Too Large", "the body is longer than 1000 bytes");
  check_refused(&p, "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n",
                "413 Content Too Large", "the body is longer than 1000 bytes");
  memset(text + strlen(text), 'y', 4000);
  check_refused(&p, text, "431 Request Header Fields Too Large",
                "request line and headers are longer than 1000 bytes");
  check_refused(&p, "GET / HTTP/2.0\r\n\r\n", "505 HTTP Version Not Supported",
                "HTTP/1.0 and HTTP/1.1 are spoken here");
  int fd = peer_connect(&p); /* behind a good one */
  peer_send(fd, "GET /echo HTTP/1.1\r\n\r\nnonsense\r\n\r\n");
  expect_answer(fd, "GET /echo ? - []");
  peer_expect(fd, "HTTP/1.1 400 Bad Request\r\n");
  close(fd);
  peer_stop(&p);
  assert_int_equal(p.requests, 1);
}

/* A client that goes on sending after its refusal still gets to read it. */
static void a_refusal_survives_the_rest_of_the_upload(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  char *body = mem_alloc(100001);
  memset(body, 'b', 100000);
  body[100000] = '\0';
  peer_send(fd, "POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
  peer_send(fd, body);
  peer_expect(fd, "HTTP/1.1 413 Content Too Large\r\n");
  mem_free(body);
  close(fd);
  peer_stop(&p);
}

/* ---- clients that leave ---- */

static void count_connections(struct peer *p) {
  p->accepts = (int)httpd_connections(p->server);
}

static void wait_until_empty(struct peer *p) {
  p->accepts = -1;
  for (int i = 0; i < 5000 && p->accepts; i++) {
    peer_do(p, count_connections);
    clock_sleep_ns(NS_PER_MS);
  }
  assert_int_equal(p->accepts, 0);
}

static void check_leaves(const char *path, bool reset) {
  struct peer p;
  char text[100];
  start(&p);
  int fd = peer_connect(&p);
  snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n\r\n", path);
  peer_send(fd, text);
  peer_wait(&p, &p.requests, 1);
  if (reset) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  close(fd);
  peer_wait(&p, &p.closes, 1);
  wait_until_empty(&p);
  peer_stop(&p);
  assert_int_equal(p.closes, 1); /* once, also after the server closed */
}

static void a_client_that_leaves_is_told_once(void **state) {
  (void)state;
  check_leaves("/hold", false);
  check_leaves("/hold", true);
  check_leaves("/hold-stream", false);
  check_leaves("/hold-stream", true);
}

/* The client resets between two lines of the handler: the loop has had no chance to see it. */
static void reset_and_write(struct peer *p) {
  struct linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(p->fd);
  p->inside = true; /* on_close must wait until we are out of here */
  for (int i = 0; i < 3; i++)
    httpd_write(p->held, "data", 4);
  p->inside = false;
}

static void reset_and_end(struct peer *p) {
  reset_and_write(p);
  httpd_end(p->held);
  p->held = NULL;
}

static void a_failed_write_is_told_later_and_once(void **state) {
  (void)state;
  for (int ended = 0; ended < 2; ended++) {
    struct peer p;
    start(&p);
    p.fd = peer_connect(&p);
    peer_send(p.fd, "GET /hold-stream HTTP/1.1\r\n\r\n");
    peer_wait(&p, &p.requests, 1);
    peer_do(&p, ended ? reset_and_end : reset_and_write);
    if (!ended)
      peer_wait(&p, &p.closes, 1);
    wait_until_empty(&p);
    peer_stop(&p);
    assert_int_equal(p.closes, !ended); /* an answer that was ended is over: nothing to tell */
  }
}

static void reset_after_loss(struct loop_task *task) {
  struct peer *p = CONTAINER_OF(task, struct peer, task);
  reset_and_write(p);
  httpd_reset_connection(p->held);
  p->held = NULL;
}

static void lose_in_phase_three(struct peer *p) {
  p->task.run = reset_after_loss;
  loop_ready(p->loop, &p->task);
}

/* The report of the failed write is due in the next round; by then the connection is freed. */
static void a_lost_connection_may_be_reset(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  p.fd = peer_connect(&p);
  peer_send(p.fd, "GET /hold-stream HTTP/1.1\r\n\r\n");
  peer_wait(&p, &p.requests, 1);
  peer_do(&p, lose_in_phase_three);
  wait_until_empty(&p);
  peer_stop(&p);
  assert_int_equal(p.closes, 0);
}

static void a_lost_connection_hands_nothing_more_over(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  p.fd = peer_connect(&p);
  peer_send(p.fd, "GET /lose HTTP/1.1\r\n\r\nGET /echo HTTP/1.1\r\n\r\n");
  peer_wait(&p, &p.requests, 1);
  wait_until_empty(&p);
  peer_stop(&p);
  assert_int_equal(p.requests, 1);
}

/* on_close belongs to one request, not to the connection. */
static void on_close_is_forgotten_with_its_request(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  peer_send(fd, "GET /hold HTTP/1.1\r\n\r\n");
  peer_wait(&p, &p.requests, 1);
  peer_do(&p, release_held);
  expect_answer(fd, "released");
  peer_send(fd, "GET /deaf HTTP/1.1\r\n\r\n");
  peer_wait(&p, &p.requests, 2);
  close(fd);
  wait_until_empty(&p);
  peer_do(&p, release_held);
  peer_stop(&p);
  assert_int_equal(p.closes, 0);
}

static void write_deaf(struct peer *p) {
  httpd_write(p->held, "lost", 4);
  httpd_raw(p->held, "lost", 4);
  p->accepts = (int)httpd_pending(p->held);
  httpd_end(p->held);
}

static void reset_deaf(struct peer *p) {
  httpd_reset_connection(p->held);
}

static void close_deaf(struct peer *p) {
  httpd_close_connection(p->held);
}

/* Without on_close the request stays valid until it is answered, long after the client left. */
static void check_deaf(const char *request, void (*finish)(struct peer *)) {
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  peer_send(fd, request);
  peer_wait(&p, &p.requests, 1);
  close(fd);
  wait_until_empty(&p);
  peer_do(&p, finish); /* the sanitizers see a leak or a use after free */
  assert_int_equal(p.accepts, 0);
  peer_stop(&p);
}

static void a_handler_without_on_close_may_answer_nobody(void **state) {
  (void)state;
  check_deaf("GET /deaf HTTP/1.1\r\n\r\n", release_held);
  check_deaf("GET /deaf HTTP/1.1\r\nConnection: close\r\n\r\n", release_held);
  check_deaf("GET /deaf-stream HTTP/1.1\r\n\r\n", write_deaf);
  check_deaf("GET /deaf HTTP/1.1\r\n\r\n", reset_deaf);
  check_deaf("GET /deaf HTTP/1.1\r\n\r\n", close_deaf);
}

static void half_a_request_and_then_the_end_is_no_request(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  peer_send(fd, "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nab");
  shutdown(fd, SHUT_WR);
  assert_int_equal(peer_end(fd), 0);
  wait_until_empty(&p);
  peer_stop(&p);
  assert_int_equal(p.requests, 0);
}

/* Answered at once, so the client's own end in the same packet train does not cut it. */
static void an_answer_given_at_once_reaches_a_client_that_shut_its_side(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  peer_send(fd, "GET /echo1 HTTP/1.1\r\n\r\nGET /echo2 HTTP/1.1\r\n\r\n");
  shutdown(fd, SHUT_WR);
  expect_answer(fd, "GET /echo1 ? - []");
  expect_answer(fd, "GET /echo2 ? - []");
  assert_int_equal(peer_end(fd), 0);
  peer_stop(&p);
}

/* A client that never ends its side is cut after a second. */
static void a_finished_connection_does_not_linger_for_ever(void **state) {
  (void)state;
  struct peer p;
  start(&p);
  int fd = peer_connect(&p);
  peer_send(fd, "GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n");
  peer_expect(fd,
              "HTTP/1.1 200 OK\r\nContent-Length: 16\r\nConnection: close\r\n\r\nGET /echo ? - []");
  wait_until_empty(&p);
  close(fd);
  peer_stop(&p);
}

struct linger_look {
  struct peer peer;
  uint64_t due, end;
};

static void look_at_linger(struct peer *p) {
  struct linger_look *l = CONTAINER_OF(p, struct linger_look, peer);
  struct httpd_conn *c = p->server->conns;
  l->due = c ? c->timer.due_ns : l->end; /* gone: a stall of ours was longer than the linger */
  l->end = c ? c->linger_end_ns : l->end;
}

static void shorten_linger(struct peer *p) {
  struct httpd_conn *c = p->server->conns;
  if (c)
    c->linger_end_ns = loop_now(p->loop) + NS_PER_S / 2;
}

/* An upload that goes on after our answer moves the time of the cut, but not without bound. */
static void bytes_after_the_end_move_the_cut(void **state) {
  (void)state;
  struct linger_look l = {0};
  start(&l.peer);
  int fd = peer_connect(&l.peer);
  peer_send(fd, "nonsense\r\n\r\n");
  char text[512];
  ssize_t n = 1;
  while (n > 0) /* our end comes when the linger has begun */
    n = recv(fd, text, sizeof text, 0);
  assert_int_equal(n, 0);
  peer_do(&l.peer, look_at_linger);
  uint64_t first = l.due;
  assert_true(l.end >= first + 29 * NS_PER_S && l.end <= first + 30 * NS_PER_S);
  for (int i = 0; i < 5000 && l.due == first; i++) {
    peer_send(fd, "x");
    peer_do(&l.peer, look_at_linger);
  }
  assert_true(l.due > first);
  peer_do(&l.peer, shorten_linger); /* now the bound comes before the next second is over */
  peer_do(&l.peer, look_at_linger);
  for (int i = 0; i < 5000 && l.due != l.end; i++) {
    send(fd, "x", 1, MSG_NOSIGNAL);
    peer_do(&l.peer, look_at_linger);
  }
  assert_true(l.due == l.end);
  wait_until_empty(&l.peer);
  close(fd);
  peer_stop(&l.peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_connection_serves_many_requests),
      cmocka_unit_test(a_request_may_come_byte_by_byte),
      cmocka_unit_test(pipelined_requests_wait_for_their_turn),
      cmocka_unit_test(bytes_kept_come_before_bytes_read),
      cmocka_unit_test(a_flood_behind_a_slow_answer_is_held_back),
      cmocka_unit_test(an_ended_connection_swallows_the_flood),
      cmocka_unit_test(reading_goes_on_behind_a_flood),
      cmocka_unit_test(continue_is_said_when_the_body_is_awaited),
      cmocka_unit_test(bad_input_is_answered_and_ends_the_connection),
      cmocka_unit_test(a_refusal_survives_the_rest_of_the_upload),
      cmocka_unit_test(a_client_that_leaves_is_told_once),
      cmocka_unit_test(a_failed_write_is_told_later_and_once),
      cmocka_unit_test(a_lost_connection_may_be_reset),
      cmocka_unit_test(a_lost_connection_hands_nothing_more_over),
      cmocka_unit_test(on_close_is_forgotten_with_its_request),
      cmocka_unit_test(a_handler_without_on_close_may_answer_nobody),
      cmocka_unit_test(half_a_request_and_then_the_end_is_no_request),
      cmocka_unit_test(an_answer_given_at_once_reaches_a_client_that_shut_its_side),
      cmocka_unit_test(a_finished_connection_does_not_linger_for_ever),
      cmocka_unit_test(bytes_after_the_end_move_the_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
