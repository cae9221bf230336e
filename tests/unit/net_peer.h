/* net_peer.h: what the tests of net/ stand on: a server thread that follows a script written as a
 * plain function on blocking sockets, a client on a loop of its own that is driven until a request
 * is over, and a recorder that keeps the samples (it takes the place of out/recorder.c). */
#ifndef TESTS_UNIT_NET_PEER_H
#define TESTS_UNIT_NET_PEER_H

#include "check.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/loop.h"
#include "net/exchange.h"

/* ---- the recorder ---- */

struct recorder {
  struct sample *samples[4096];
  size_t n;
  uint64_t read_errors, missing;
};

void recorder_sample(struct recorder *r, struct sample *s) {
  assert_true(r->n < ARRAY_LEN(r->samples));
  r->samples[r->n++] = s;
}
void recorder_read_error(struct recorder *r, uint64_t error_ns) {
  (void)error_ns;
  r->read_errors++;
}
void recorder_no_kernel_stamp(struct recorder *r) {
  r->missing++;
}

static inline void recorder_clear(struct recorder *r) {
  for (size_t i = 0; i < r->n; i++)
    sample_free(r->samples[i]);
  *r = (struct recorder){0};
}

/* ---- descriptors ---- */

static inline int open_descriptors(void) {
  int n = 0;
  DIR *dir = opendir("/proc/self/fd");
  while (readdir(dir))
    n++;
  closedir(dir);
  return n - 3; /* ".", ".." and the directory's own */
}

/* ---- the server ---- */

/* Client and server take turns through sockets, which ThreadSanitizer does not follow from one to
 * the other: here they tell it. */
static inline void in_turn(void) {
  static int turns;
  __atomic_add_fetch(&turns, 1, __ATOMIC_ACQ_REL);
}

struct peer;
typedef void peer_fn(struct peer *p);

struct peer {
  int listener, port;
  peer_fn *script;
  pthread_t thread;
  void *arg;
  const char *text;      /* for scripts that send one thing */
  size_t text_len;       /* 0 = strlen */
  size_t split;          /* … in two pieces, cut here */
  char request[1 << 17]; /* what was read last, whole */
  size_t request_len, body_len;
  int accepts, requests; /* atomic */
  int step;              /* atomic: set by one side, awaited by the other */
};

static inline void peer_step(struct peer *p, int step) {
  __atomic_store_n(&p->step, step, __ATOMIC_RELEASE);
}
static inline bool peer_await(struct peer *p, int step) {
  for (int i = 0; i < 10000; i++) {
    if (__atomic_load_n(&p->step, __ATOMIC_ACQUIRE) >= step)
      return true;
    clock_sleep_ns(NS_PER_MS);
  }
  return false;
}

static inline void *peer_main(void *arg) {
  struct peer *p = arg;
  p->script(p);
  return NULL;
}

static inline int peer_listen(int *port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof a;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
  assert_int_equal(listen(fd, 1024), 0);
  getsockname(fd, (struct sockaddr *)&a, &len);
  *port = ntohs(a.sin_port);
  return fd;
}

static inline void peer_start(struct peer *p, peer_fn *script) {
  p->script = script;
  p->listener = peer_listen(&p->port);
  assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
}

static inline void peer_stop(struct peer *p) {
  shutdown(p->listener, SHUT_RDWR); /* wakes an accept */
  pthread_join(p->thread, NULL);
  close(p->listener);
}

/* −1 when the test is over. */
static inline int peer_accept(struct peer *p) {
  int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC), one = 1;
  if (fd < 0)
    return -1;
  struct timeval limit = {.tv_sec = 10};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  __atomic_add_fetch(&p->accepts, 1, __ATOMIC_RELEASE);
  in_turn();
  return fd;
}

/* One whole request, kept as p->request; false at the end of the connection. */
static inline bool peer_read(struct peer *p, int fd) {
  static _Thread_local char in[1 << 17];
  size_t len = 0, want = 0;
  for (;;) {
    in[len] = '\0';
    char *end = strstr(in, "\r\n\r\n");
    if (end) {
      char *length = strcasestr(in, "content-length:");
      want = length && length < end ? strtoul(length + 15, NULL, 10) : 0;
      if (len >= (size_t)(end + 4 - in) + want)
        break;
    }
    ssize_t n = read(fd, in + len, sizeof in - 1 - len);
    if (n <= 0)
      return false;
    len += (size_t)n;
  }
  memcpy(p->request, in, len + 1);
  p->request_len = len;
  p->body_len = want;
  __atomic_add_fetch(&p->requests, 1, __ATOMIC_RELEASE);
  in_turn();
  return true;
}

static inline void peer_send(int fd, const char *data, size_t len) {
  char copy[4096]; /* the last bytes go out after the last look at the caller's memory */
  while (len) {
    size_t piece = len < sizeof copy ? len : sizeof copy;
    memcpy(copy, data, piece);
    data += piece;
    len -= piece;
    in_turn();
    for (size_t at = 0; at < piece;) {
      ssize_t n = send(fd, copy + at, piece - at, MSG_NOSIGNAL);
      if (n <= 0)
        return;
      at += (size_t)n;
    }
  }
}
static inline void peer_puts(int fd, const char *text) {
  peer_send(fd, text, strlen(text));
}
static inline void peer_reset(int fd) {
  struct linger l = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
  close(fd);
}
/* Waits until the other side closes. */
static inline void peer_drain(int fd) {
  char byte[256];
  while (read(fd, byte, sizeof byte) > 0)
    ;
  close(fd);
}

/* Scripts that many tests use: every connection and every request gets p->text, the connection
 * stays open, or is closed (reset) after the first reply. */
static inline void peer_reply(struct peer *p, int fd) {
  size_t len = p->text_len ? p->text_len : strlen(p->text);
  const char *text = p->text;
  size_t cut = p->split && p->split < len ? p->split : len;
  peer_send(fd, text, cut);
  if (cut < len) {
    clock_sleep_ns(300 * NS_PER_US);
    peer_send(fd, text + cut, len - cut);
  }
}
static inline void peer_keep(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd))
    while (peer_read(p, fd))
      peer_reply(p, fd);
}
static inline void peer_close(struct peer *p) {
  for (int fd; (fd = peer_accept(p)) >= 0; close(fd))
    if (peer_read(p, fd))
      peer_reply(p, fd);
}

/* ---- the client ---- */

struct net {
  struct loop *loop;
  struct http_client *client;
  struct recorder recorder;
  struct loop_timer watchdog;
  int done; /* requests that ended */
  int want; /* net_wait returns when done reaches it */
  bool running;
};

static inline void net_timed_out(struct loop_timer *t) {
  (void)t;
  fprintf(stderr, "net_wait: nothing ended within 20 s\n");
  abort();
}

static inline void net_start(struct net *n, const struct http_client_options *options) {
  struct err err;
  memset(n, 0, sizeof *n);
  n->loop = loop_new(&err);
  assert_non_null(n->loop);
  struct http_client_options o = {.zero_ns = loop_now(n->loop), .keep_gaps = true};
  if (options)
    o = *options;
  o.loop = n->loop;
  o.recorder = &n->recorder;
  n->client = http_client_new(&o, &err);
  loop_timer_init(&n->watchdog, net_timed_out);
}

static inline void net_stop(struct net *n) {
  http_client_delete(n->client);
  loop_delete(n->loop);
  recorder_clear(&n->recorder);
}

static inline void net_done(struct http_request *r) {
  struct net *n = r->user;
  assert_null(r->exchange);
  if (++n->done >= n->want && n->running)
    loop_stop(n->loop);
}

/* Runs the loop until `want` requests in all have ended. */
static inline void net_wait(struct net *n, int want) {
  n->want = want;
  if (n->done >= want)
    return;
  loop_timer_set(n->loop, &n->watchdog, loop_now(n->loop) + 20 * NS_PER_S);
  n->running = true;
  loop_run(n->loop);
  n->running = false;
  loop_timer_clear(n->loop, &n->watchdog);
  in_turn();
  assert_true(n->done >= want);
}

struct net_pause {
  struct loop_timer timer;
  struct loop *loop;
};
static inline void net_paused(struct loop_timer *t) {
  loop_stop(CONTAINER_OF(t, struct net_pause, timer)->loop);
}
/* Runs the loop for a while. */
static inline void net_run(struct net *n, uint64_t ns) {
  struct net_pause pause = {.loop = n->loop};
  n->want = INT32_MAX;
  loop_timer_init(&pause.timer, net_paused);
  loop_timer_set(n->loop, &pause.timer, loop_now(n->loop) + ns);
  loop_run(n->loop);
  in_turn();
}

static inline struct http_target *net_target(struct net *n, const char *scheme, const char *host,
                                             int port, const struct http_target_options *more) {
  char url[256];
  struct err err;
  struct http_target_options o = {0};
  struct http_target *t = NULL;
  if (more)
    o = *more;
  snprintf(url, sizeof url, "%s://%s:%d", scheme, host, port);
  o.url = url;
  check_ok(http_client_target(n->client, &o, &t, &err), &err);
  return t;
}

static inline void net_request(struct net *n, struct http_request *r, struct http_target *t,
                               const char *method, const char *path) {
  http_request_init(r);
  r->target = t;
  r->method = method;
  r->path = path;
  r->user = n;
  r->done = net_done;
}

static inline void net_send(struct net *n, struct http_request *r) {
  struct err err;
  in_turn();
  check_ok(http_request_start(n->client, r, &err), &err);
}

/* A generation request that expects a stream, with a sample. */
static inline void net_stream(struct net *n, struct http_request *r, struct http_target *t) {
  net_request(n, r, t, "POST", "/v1/chat/completions");
  r->api = OPENAI_CHAT;
  r->expect_stream = true;
  r->sample = sample_new();
}

static inline struct sample *net_sample(struct net *n, size_t i) {
  assert_true(i < n->recorder.n);
  return n->recorder.samples[i];
}

/* ---- a transport that does nothing: the test reports what a real one would ---- */

struct fake {
  struct http_exchange *x; /* started last */
  int starts, cancels, closes, refuse;
};

static inline int fake_start(void *self, struct http_exchange *x, struct err *err) {
  struct fake *f = self;
  if (f->refuse)
    return err_set(err, f->refuse, "refused by the test");
  f->x = x;
  f->starts++;
  return 0;
}
static inline void fake_cancel(void *self, struct http_exchange *x) {
  (void)x;
  ((struct fake *)self)->cancels++;
}
static inline void fake_close(void *self) {
  ((struct fake *)self)->closes++;
}
static inline void net_use_fake(struct net *n, struct fake *f) {
  struct transport t = {
      .name = "fake", .start = fake_start, .cancel = fake_cancel, .close = fake_close, .self = f};
  http_client_use_transport(n->client, &t);
}
/* A header, whole. */
static inline void fake_header(struct http_exchange *x, const char *name, const char *value) {
  assert_int_equal(http_exchange_header_name(x, name, strlen(name)), 0);
  assert_int_equal(http_exchange_header_name_end(x), 0);
  assert_int_equal(http_exchange_header_value(x, value, strlen(value)), 0);
  assert_int_equal(http_exchange_header_value_end(x), 0);
}

#define check_outcome(r, class, text)                                                              \
  do {                                                                                             \
    if ((r)->error != (class))                                                                     \
      fail_msg("ended as %s (%s), expected %s", sample_error_name((r)->error), (r)->detail,        \
               sample_error_name(class));                                                          \
    check_has((r)->detail, text);                                                                  \
  } while (0)

#define HEAD_SSE "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
#define EVENT(text) "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text "\"}}]}\n\n"

#endif
