/* test_zmqsock.c: sockets on a loop against plain libzmq sockets on the same thread or another. */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <zmq.h>

#include "io/loop.h"
#include "io/zmqsock.h"

struct rig {
  struct loop *loop;
  struct zmqsock_hub *hub;
  struct zmqsock *sock;
  void *context; /* the peers' */
  struct loop_timer timer;
  bool timed_out;
  /* ROUTER: what came, and how it is answered. */
  struct zmqsock_message in;
  size_t n_in, frames_in, id_len, last_len;
  char id[64];
};

static void on_timer(struct loop_timer *t) {
  struct rig *r = CONTAINER_OF(t, struct rig, timer);
  r->timed_out = true;
  loop_stop(r->loop);
}

static void run_for(struct rig *r, uint64_t ns) {
  loop_timer_set(r->loop, &r->timer, loop_now(r->loop) + ns);
  loop_run(r->loop);
}

static void rig_open(struct rig *r) {
  struct err err = {0};
  *r = (struct rig){.loop = loop_new(&err), .context = zmq_ctx_new()};
  loop_timer_init(&r->timer, on_timer);
  zmqsock_message_init(&r->in);
  check_ok(zmqsock_hub_new(16, &r->hub, &err), &err);
}

static void rig_close(struct rig *r) {
  zmqsock_close(r->sock);
  zmqsock_hub_delete(r->hub);
  zmqsock_message_free(&r->in);
  zmq_ctx_term(r->context);
  loop_timer_clear(r->loop, &r->timer);
  loop_delete(r->loop);
}

static void *peer(struct rig *r, int kind, int hwm) {
  void *s = zmq_socket(r->context, kind);
  int none = 0, limit_ms = 5000;
  zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof none);
  zmq_setsockopt(s, ZMQ_RCVTIMEO, &limit_ms, sizeof limit_ms);
  zmq_setsockopt(s, ZMQ_RCVHWM, &hwm, sizeof hwm);
  if (kind == ZMQ_SUB)
    zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0);
  assert_int_equal(zmq_connect(s, zmqsock_endpoint(r->sock)), 0);
  return s;
}

static struct zmqsock_part text(const char *s) {
  return (struct zmqsock_part){.data = s, .len = strlen(s)};
}

static void open_pub(struct rig *r, uint32_t hwm) {
  struct err err = {0};
  struct zmqsock_options o = {.kind = ZMQSOCK_PUB, .endpoint = "tcp://127.0.0.1:0", .hwm = hwm};
  check_ok(zmqsock_open(r->loop, r->hub, &o, &r->sock, &err), &err);
  assert_memory_equal(zmqsock_endpoint(r->sock), "tcp://127.0.0.1:", 16);
  assert_true(atoi(zmqsock_endpoint(r->sock) + 16) > 0);
}

static void expect(void *s, const char *frame, bool last) {
  char got[64];
  int n = zmq_recv(s, got, sizeof got - 1, 0);
  if (n < 0)
    fail_msg("nothing came: %s", zmq_strerror(errno));
  got[n] = '\0';
  assert_string_equal(got, frame);
  int more;
  size_t len = sizeof more;
  zmq_getsockopt(s, ZMQ_RCVMORE, &more, &len);
  assert_int_equal(more, !last);
}

/* A subscription that came while nothing was sent holds for the very next message: the loop looks
 * when libzmq says so, and not only when it sends. */
static void test_pub_knows_a_subscriber_at_once(void **state) {
  (void)state;
  struct rig r;
  rig_open(&r);
  open_pub(&r, 10);
  struct zmqsock_part none[] = {text("nobody"), text("hears")};
  assert_int_equal(zmqsock_send(r.sock, none, 2), 0);
  void *s = peer(&r, ZMQ_SUB, 10);
  run_for(&r, 300 * NS_PER_MS);
  struct zmqsock_part parts[] = {text("topic"), text(""), text("payload")};
  assert_int_equal(zmqsock_send(r.sock, parts, 3), 0);
  expect(s, "topic", false);
  expect(s, "", false);
  expect(s, "payload", true);
  zmq_close(s);
  rig_close(&r);
}

/* A subscriber that reads nothing: what is beyond its bound is dropped, the sender never waits. */
static void test_pub_never_waits(void **state) {
  (void)state;
  struct rig r;
  rig_open(&r);
  open_pub(&r, 5);
  void *s = peer(&r, ZMQ_SUB, 5);
  run_for(&r, 300 * NS_PER_MS);
  char *big = calloc(1, 1 << 18);
  for (int i = 0; i < 500; i++) {
    struct zmqsock_part part = {.data = big, .len = 1 << 18};
    assert_int_equal(zmqsock_send(r.sock, &part, 1), 0);
  }
  free(big);
  int n = 0, limit_ms = 500;
  zmq_setsockopt(s, ZMQ_RCVTIMEO, &limit_ms, sizeof limit_ms);
  char byte;
  while (zmq_recv(s, &byte, 1, 0) >= 0)
    n++;
  assert_true(n >= 5 && n < 400);
  zmq_close(s);
  rig_close(&r);
}

/* ---- ROUTER ---- */

/* Answers each message with its own frames, and then "done". */
static void on_ready(void *user) {
  struct rig *r = user;
  while (zmqsock_receive(r->sock, &r->in) == 0) {
    r->n_in++;
    r->frames_in = r->in.n;
    struct zmqsock_part parts[ZMQSOCK_MAX_FRAMES];
    size_t n = r->in.n < ZMQSOCK_MAX_FRAMES ? r->in.n : ZMQSOCK_MAX_FRAMES;
    for (size_t i = 0; i < n; i++)
      parts[i].data = zmqsock_frame(&r->in, i, &parts[i].len);
    assert_int_equal(zmqsock_send(r->sock, parts, n), 0);
    struct zmqsock_part done[] = {parts[0], text(""), text("done")};
    assert_int_equal(zmqsock_send(r->sock, done, 3), 0);
  }
  if (r->n_in == 300)
    loop_stop(r->loop);
}

static void open_router(struct rig *r, uint32_t hwm, uint32_t max_bytes, void (*ready)(void *)) {
  struct err err = {0};
  struct zmqsock_options o = {.kind = ZMQSOCK_ROUTER,
                              .endpoint = "tcp://127.0.0.1:*",
                              .hwm = hwm,
                              .max_bytes = max_bytes,
                              .ready = ready,
                              .user = r};
  check_ok(zmqsock_open(r->loop, r->hub, &o, &r->sock, &err), &err);
}

static void *ask_many(void *user) {
  struct rig *r = user;
  void *s = peer(r, ZMQ_DEALER, 1000);
  for (int i = 0; i < 300; i++) {
    zmq_send(s, "", 0, ZMQ_SNDMORE);
    zmq_send(s, "question", 8, 0);
    if (i % 3 == 0) { /* sometimes one at a time, sometimes in a heap */
      for (int k = i ? i - 2 : 0; k <= i; k++) {
        expect(s, "", false);
        expect(s, "question", true);
        expect(s, "", false);
        expect(s, "done", true);
      }
    }
  }
  zmq_close(s);
  return NULL;
}

/* No question is left lying although answers, too, take libzmq's word away. */
static void test_router_misses_nothing(void **state) {
  (void)state;
  struct rig r;
  rig_open(&r);
  open_router(&r, 1000, 0, on_ready);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, ask_many, &r), 0);
  run_for(&r, 20 * NS_PER_S);
  assert_false(r.timed_out);
  assert_int_equal(r.n_in, 300);
  assert_int_equal(r.frames_in, 3);
  pthread_join(thread, NULL);
  rig_close(&r);
}

static void on_count(void *user) {
  struct rig *r = user;
  while (zmqsock_receive(r->sock, &r->in) == 0) {
    r->n_in++;
    r->frames_in = r->in.n;
    memcpy(r->id, zmqsock_frame(&r->in, 0, &r->id_len), 5);
    size_t last = r->in.n < ZMQSOCK_MAX_FRAMES ? r->in.n - 1 : ZMQSOCK_MAX_FRAMES - 1;
    assert_memory_equal(zmqsock_frame(&r->in, last, &r->last_len), "f", 1);
    loop_stop(r->loop);
  }
}

static void test_router_peers_without_room_or_gone(void **state) {
  (void)state;
  struct rig r;
  rig_open(&r);
  open_router(&r, 4, 0, on_count);
  void *s = peer(&r, ZMQ_DEALER, 4);
  zmq_send(s, "f", 1, 0);
  run_for(&r, 5 * NS_PER_S);
  assert_int_equal(r.n_in, 1);
  assert_int_equal(r.frames_in, 2);
  assert_int_equal(r.id_len, 5);
  char *big = calloc(1, 1 << 20);
  struct zmqsock_part parts[] = {{.data = r.id, .len = 5}, {.data = big, .len = 1 << 20}};
  int rc = 0, sent = 0;
  for (; !rc && sent < 1000; sent++)
    rc = zmqsock_send(r.sock, parts, 2);
  assert_int_equal(rc, ERR_LIMIT);
  free(big);
  struct zmqsock_part unknown[] = {text("nobody"), text("x")};
  assert_int_equal(zmqsock_send(r.sock, unknown, 2), ERR_CLOSED);
  zmq_close(s);
  rig_close(&r);
}

static void test_router_many_frames_and_long_ones(void **state) {
  (void)state;
  struct rig r;
  rig_open(&r);
  open_router(&r, 10, 64, on_count);
  void *s = peer(&r, ZMQ_DEALER, 10);
  for (int i = 0; i < 20; i++)
    zmq_send(s, "f", 1, i < 19 ? ZMQ_SNDMORE : 0);
  run_for(&r, 5 * NS_PER_S);
  assert_int_equal(r.n_in, 1);
  assert_int_equal(r.frames_in, 21);
  assert_int_equal(r.last_len, 1);
  char longer[100] = {0};
  zmq_send(s, longer, sizeof longer, 0); /* cut off */
  run_for(&r, 200 * NS_PER_MS);
  assert_int_equal(r.n_in, 1);
  assert_int_equal(zmqsock_receive(r.sock, &r.in), ERR_NOT_FOUND);
  zmq_close(s);
  rig_close(&r);
}

/* ---- endpoints ---- */

static void check_refused(struct rig *r, const char *endpoint, int code, const char *needle) {
  struct err err = {0};
  struct zmqsock *s;
  struct zmqsock_options o = {.kind = ZMQSOCK_PUB, .endpoint = endpoint};
  assert_int_equal(zmqsock_open(r->loop, r->hub, &o, &s, &err), code);
  check_has(err.text, needle);
  assert_null(s);
}

static void test_endpoints(void **state) {
  (void)state;
  struct rig r;
  rig_open(&r);
  check_refused(&r, "tcp://127.0.0.1", ERR_INVALID, "\"tcp://127.0.0.1\" is no ZeroMQ endpoint");
  check_refused(&r, "http://x:1", ERR_INVALID, "one looks like tcp://127.0.0.1:5557");
  check_refused(&r, "tcp://192.0.2.1:4000", ERR_IO, "cannot listen on tcp://192.0.2.1:4000: ");
  open_pub(&r, 1);
  char needle[300];
  snprintf(needle, sizeof needle, "%s is in use; choose another port", zmqsock_endpoint(r.sock));
  check_refused(&r, zmqsock_endpoint(r.sock), ERR_IO, needle);
  struct err err = {0};
  struct zmqsock *s;
  struct zmqsock_options o = {
      .kind = ZMQSOCK_PUB, .endpoint = "tcp://127.0.0.1:9", .connect = true};
  check_ok(zmqsock_open(r.loop, r.hub, &o, &s, &err), &err); /* nobody is there: no error */
  assert_string_equal(zmqsock_endpoint(s), "tcp://127.0.0.1:9");
  struct zmqsock_part part = text("lost");
  assert_int_equal(zmqsock_send(s, &part, 1), 0);
  zmqsock_close(s); /* and the hub does not wait for it */
  rig_close(&r);
}

/* libzmq calls both "Too many open files": only one of them is. */
static void test_all_sockets_are_open(void **state) {
  (void)state;
  struct rig r;
  struct err err = {0};
  struct zmqsock_hub *small;
  struct zmqsock *one, *two;
  struct zmqsock_options o = {.kind = ZMQSOCK_PUB, .endpoint = "tcp://127.0.0.1:0"};
  rig_open(&r);
  check_ok(zmqsock_hub_new(1, &small, &err), &err);
  check_ok(zmqsock_open(r.loop, small, &o, &one, &err), &err);
  assert_int_equal(zmqsock_open(r.loop, small, &o, &two, &err), ERR_LIMIT);
  check_has(err.text, "no ZeroMQ socket for tcp://127.0.0.1:0: all 1 of this process are open");
  zmqsock_close(one);
  zmqsock_hub_delete(small);
  rig_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pub_knows_a_subscriber_at_once),
      cmocka_unit_test(test_pub_never_waits),
      cmocka_unit_test(test_router_misses_nothing),
      cmocka_unit_test(test_router_peers_without_room_or_gone),
      cmocka_unit_test(test_router_many_frames_and_long_ones),
      cmocka_unit_test(test_endpoints),
      cmocka_unit_test(test_all_sockets_are_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
