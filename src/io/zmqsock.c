/* zmqsock.c: see zmqsock.h. */
#include "io/zmqsock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/loop.h"
#include "io/zmqlib.h"

struct zmqsock_hub {
  struct zmqlib lib;
  void *context;
  size_t n_open, most;
};

struct zmqsock {
  struct loop *loop;
  struct zmqsock_hub *hub;
  const struct zmqlib *lib;
  struct zmqsock_options options;
  void *socket;
  struct loop_fd *fd;
  struct loop_task look; /* after sends outside of `ready` */
  bool telling;
  char endpoint[256];
};

int zmqsock_hub_new(size_t max_sockets, struct zmqsock_hub **out, struct err *err) {
  struct zmqlib lib;
  *out = NULL;
  int rc = zmqlib_load(&lib, NULL, err);
  if (rc)
    return rc;
  void *context = lib.ctx_new();
  if (!context)
    return err_set(err, ERR_IO, "cannot start ZeroMQ: %s", lib.strerror(errno));
  lib.ctx_set(context, ZMQ_BLOCKY, 0); /* sockets forget what was not sent when they close */
  int limit = lib.ctx_get(context, ZMQ_SOCKET_LIMIT);
  size_t most = max_sockets < (size_t)limit ? max_sockets : (size_t)limit;
  lib.ctx_set(context, ZMQ_MAX_SOCKETS, (int)most);
  struct zmqsock_hub *hub = MEM_NEW(struct zmqsock_hub);
  hub->most = most;
  hub->lib = lib;
  hub->context = context;
  *out = hub;
  return 0;
}

void zmqsock_hub_delete(struct zmqsock_hub *hub) {
  if (!hub)
    return;
  while (hub->lib.ctx_term(hub->context) != 0 && errno == EINTR) {
  }
  mem_free(hub);
}

/* ---- looking ---- */

/* Asking makes libzmq do what its thread told it, and with that the descriptor falls silent. */
static bool may_receive(const struct zmqsock *s) {
  int events = 0;
  size_t len = sizeof events;
  if (s->lib->getsockopt(s->socket, ZMQ_EVENTS, &events, &len) != 0)
    return false;
  return events & ZMQ_POLLIN;
}

static void look(struct zmqsock *s) {
  (void)may_receive(s);
  if (!s->options.ready)
    return; /* it was asked */
  s->telling = true;
  do
    s->options.ready(s->options.user);
  while (may_receive(s));
  s->telling = false;
}

static void on_fd(struct loop_fd *f, void *user, unsigned events, uint64_t stamp_ns) {
  (void)f;
  (void)events;
  (void)stamp_ns;
  look(user);
}

static void on_look(struct loop_task *task) {
  look(CONTAINER_OF(task, struct zmqsock, look));
}

/* ---- open and close ---- */

static void set_int(struct zmqsock *s, int option, int value) {
  int rc = s->lib->setsockopt(s->socket, option, &value, sizeof value);
  assert(rc == 0); /* our own constants */
  (void)rc;
}

static void set_options(struct zmqsock *s) {
  const struct zmqsock_options *o = &s->options;
  set_int(s, ZMQ_LINGER, 0);
  if (strchr(o->endpoint, '[')) /* else IPv4 addresses are told as those of IPv6 */
    set_int(s, ZMQ_IPV6, 1);
  set_int(s, ZMQ_SNDHWM, (int)(o->hwm > INT32_MAX ? INT32_MAX : o->hwm));
  if (o->kind == ZMQSOCK_ROUTER)
    set_int(s, ZMQ_ROUTER_MANDATORY, 1); /* else a peer without room loses messages */
  int64_t most = o->max_bytes ? (int64_t)o->max_bytes : -1;
  int rc = s->lib->setsockopt(s->socket, ZMQ_MAXMSGSIZE, &most, sizeof most);
  assert(rc == 0);
  (void)rc;
}

static int refused(const struct zmqsock *s, struct err *err) {
  const struct zmqsock_options *o = &s->options;
  int number = errno;
  if (number == EADDRINUSE)
    return err_set(err, ERR_IO, "%.200s is in use; choose another port, or 0 for any free one",
                   o->endpoint);
  if (number == EINVAL || number == EPROTONOSUPPORT || number == ENOCOMPATPROTO)
    return err_set(err, ERR_INVALID,
                   "\"%.200s\" is no ZeroMQ endpoint; one looks like tcp://127.0.0.1:5557",
                   o->endpoint);
  return err_set(err, ERR_IO, "cannot %s %.200s: %s", o->connect ? "connect to" : "listen on",
                 o->endpoint, s->lib->strerror(number));
}

static int attach(struct zmqsock *s, struct err *err) {
  const struct zmqsock_options *o = &s->options;
  if ((o->connect ? s->lib->connect : s->lib->bind)(s->socket, o->endpoint) != 0)
    return refused(s, err);
  size_t len = sizeof s->endpoint;
  if (o->connect || s->lib->getsockopt(s->socket, ZMQ_LAST_ENDPOINT, s->endpoint, &len) != 0)
    snprintf(s->endpoint, sizeof s->endpoint, "%s", o->endpoint);
  int fd = -1;
  len = sizeof fd;
  if (s->lib->getsockopt(s->socket, ZMQ_FD, &fd, &len) != 0)
    return err_set(err, ERR_IO, "%.200s: %s", o->endpoint, s->lib->strerror(errno));
  return loop_fd_open(s->loop, fd, LOOP_READ, on_fd, s, &s->fd, err);
}

/* libzmq has one word, EMFILE, for two things: its context is full, or the process is. */
static int no_socket(const struct zmqsock_hub *hub, const char *endpoint, struct err *err) {
  int number = errno;
  if (number == EMFILE && hub->n_open >= hub->most)
    return err_set(err, ERR_LIMIT, "no ZeroMQ socket for %.200s: all %zu of this process are open",
                   endpoint, hub->most);
  return err_set(err, ERR_IO, "no ZeroMQ socket for %.200s: %s%s", endpoint,
                 hub->lib.strerror(number),
                 number == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
}

int zmqsock_open(struct loop *loop, struct zmqsock_hub *hub, const struct zmqsock_options *o,
                 struct zmqsock **out, struct err *err) {
  static const int kinds[] = {[ZMQSOCK_PUB] = ZMQ_PUB, [ZMQSOCK_ROUTER] = ZMQ_ROUTER};
  *out = NULL;
  void *socket = hub->lib.socket(hub->context, kinds[o->kind]);
  if (!socket)
    return no_socket(hub, o->endpoint, err);
  struct zmqsock *s = MEM_NEW(struct zmqsock);
  s->loop = loop;
  s->hub = hub;
  s->lib = &hub->lib;
  hub->n_open++;
  s->options = *o;
  s->socket = socket;
  s->look.run = on_look;
  set_options(s);
  int rc = attach(s, err);
  s->options.endpoint = s->endpoint;
  if (rc) {
    zmqsock_close(s);
    return rc;
  }
  *out = s;
  loop_ready(loop, &s->look); /* what happened until now told the descriptor nothing */
  return 0;
}

const char *zmqsock_endpoint(const struct zmqsock *s) {
  return s->endpoint;
}

void zmqsock_close(struct zmqsock *s) {
  if (!s)
    return;
  assert(!s->telling);
  loop_unready(s->loop, &s->look);
  if (s->fd)
    loop_fd_close(s->fd);
  s->lib->close(s->socket);
  s->hub->n_open--;
  mem_free(s);
}

/* ---- sending ---- */

static void make(struct zmqsock *s, zmq_msg_t *msg, const struct zmqsock_part *part) {
  int rc = s->lib->msg_init_size(msg, part->len);
  assert(rc == 0); /* memory ran out, and libzmq has no other word for it */
  (void)rc;
  if (part->len)
    memcpy(s->lib->msg_data(msg), part->data, part->len);
}

int zmqsock_send(struct zmqsock *s, const struct zmqsock_part *parts, size_t n) {
  int rc = 0;
  for (size_t i = 0; i < n && !rc; i++) {
    zmq_msg_t msg;
    make(s, &msg, &parts[i]);
    int flags = ZMQ_DONTWAIT | (i + 1 < n ? ZMQ_SNDMORE : 0);
    int sent;
    do
      sent = s->lib->msg_send(&msg, s->socket, flags);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
      continue;
    rc = errno == EAGAIN ? ERR_LIMIT : ERR_CLOSED;
    assert(i == 0); /* libzmq takes a message as a whole or not at all */
    s->lib->msg_close(&msg);
  }
  if (s->options.ready && !s->telling)
    loop_ready(s->loop, &s->look);
  return rc;
}

/* ---- receiving ---- */

void zmqsock_message_init(struct zmqsock_message *m) {
  m->n = 0;
  buf_init(&m->bytes, BUF_MAX_OWN);
}

void zmqsock_message_free(struct zmqsock_message *m) {
  buf_free(&m->bytes);
}

const uint8_t *zmqsock_frame(const struct zmqsock_message *m, size_t i, size_t *len) {
  assert(i < m->n && i < ZMQSOCK_MAX_FRAMES);
  size_t from = i ? m->ends[i - 1] : 0;
  *len = m->ends[i] - from;
  return m->bytes.data ? (const uint8_t *)m->bytes.data + from : (const uint8_t *)"";
}

int zmqsock_receive(struct zmqsock *s, struct zmqsock_message *m) {
  buf_reset(&m->bytes);
  m->n = 0;
  for (bool more = true; more;) {
    zmq_msg_t msg;
    s->lib->msg_init(&msg);
    int got;
    do
      got = s->lib->msg_recv(&msg, s->socket, ZMQ_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
      s->lib->msg_close(&msg);
      m->n = 0;
      return ERR_NOT_FOUND;
    }
    if (m->n < ZMQSOCK_MAX_FRAMES) {
      buf_put(&m->bytes, s->lib->msg_data(&msg), s->lib->msg_size(&msg));
      m->ends[m->n] = m->bytes.len;
    }
    m->n++;
    more = s->lib->msg_more(&msg);
    s->lib->msg_close(&msg);
  }
  return 0;
}
