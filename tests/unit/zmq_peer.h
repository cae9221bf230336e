/* zmq_peer.h: libzmq sockets on the other side, and a loop that runs until something holds. */
#ifndef TESTS_UNIT_ZMQ_PEER_H
#define TESTS_UNIT_ZMQ_PEER_H

#include "check.h"

#include <errno.h>
#include <zmq.h>

#include "io/loop.h"
#include "io/zmqsock.h"

struct zmq_rig {
  struct loop *loop;
  struct zmqsock_hub *hub;
  void *context; /* the peers' */
  struct loop_timer poll, limit;
  bool (*until)(void *user);
  void *user;
  bool failed;
};

#define ZMQ_RIG_POLL_NS (1 * NS_PER_MS)

static inline void zmq_rig_poll(struct loop_timer *t) {
  struct zmq_rig *r = CONTAINER_OF(t, struct zmq_rig, poll);
  if (r->until(r->user))
    loop_stop(r->loop);
  else
    loop_timer_set(r->loop, t, loop_now(r->loop) + ZMQ_RIG_POLL_NS);
}

static inline void zmq_rig_limit(struct loop_timer *t) {
  struct zmq_rig *r = CONTAINER_OF(t, struct zmq_rig, limit);
  r->failed = true;
  loop_stop(r->loop);
}

static inline void zmq_rig_open(struct zmq_rig *r) {
  struct err err = {0};
  *r = (struct zmq_rig){.loop = loop_new(&err), .context = zmq_ctx_new()};
  loop_timer_init(&r->poll, zmq_rig_poll);
  loop_timer_init(&r->limit, zmq_rig_limit);
  check_ok(zmqsock_hub_new(16, &r->hub, &err), &err);
}

static inline void zmq_rig_close(struct zmq_rig *r) {
  zmqsock_hub_delete(r->hub);
  zmq_ctx_term(r->context);
  loop_delete(r->loop);
}

/* Runs the loop until it holds. */
static inline void zmq_rig_until(struct zmq_rig *r, bool (*until)(void *), void *user) {
  r->until = until;
  r->user = user;
  loop_timer_set(r->loop, &r->poll, loop_now(r->loop));
  loop_timer_set(r->loop, &r->limit, loop_now(r->loop) + 20 * NS_PER_S);
  loop_run(r->loop);
  loop_timer_clear(r->loop, &r->poll);
  loop_timer_clear(r->loop, &r->limit);
  if (r->failed)
    fail_msg("it never came to hold");
}

/* A connected peer that never blocks; its receiving bound is `hwm`. */
static inline void *zmq_peer(struct zmq_rig *r, int kind, const char *endpoint, int hwm) {
  void *s = zmq_socket(r->context, kind);
  int none = 0;
  zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof none);
  zmq_setsockopt(s, ZMQ_RCVTIMEO, &none, sizeof none);
  zmq_setsockopt(s, ZMQ_RCVHWM, &hwm, sizeof hwm);
  if (kind == ZMQ_SUB)
    zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0);
  assert_int_equal(zmq_connect(s, endpoint), 0);
  return s;
}

/* A message's frames, as far as there is room; 0: none is there now. */
struct zmq_frame {
  size_t len;
  uint8_t data[256]; /* its beginning */
};
static inline size_t zmq_take(void *s, struct zmq_frame *frames, size_t max) {
  size_t n = 0;
  int more = 1;
  while (more) {
    struct zmq_frame one;
    int got = zmq_recv(s, one.data, sizeof one.data, 0);
    if (got < 0)
      return 0;
    one.len = (size_t)got;
    if (n < max)
      frames[n] = one;
    n++;
    size_t len = sizeof more;
    zmq_getsockopt(s, ZMQ_RCVMORE, &more, &len);
  }
  return n;
}

static inline uint64_t zmq_number(const struct zmq_frame *f) {
  assert_int_equal(f->len, 8);
  uint64_t x = 0;
  for (int i = 0; i < 8; i++)
    x = x << 8 | f->data[i];
  return x;
}

#endif
