/* httpd_peer.h: a server on a thread of its own, and a client of plain blocking sockets, so that a
 * test reads from top to bottom. The server is touched only on its thread: `peer_do` runs a
 * function there and waits for it. */
#ifndef TESTS_UNIT_HTTPD_PEER_H
#define TESTS_UNIT_HTTPD_PEER_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/httpd.h"

struct peer {
  struct loop *loop;
  struct httpd *server;
  struct httpd_options options;
  struct err err;
  pthread_t thread;
  sem_t ready;
  int port;
  /* of the handlers, on the server's thread */
  struct httpd_request *held;
  struct loop_timer timer;
  struct loop_task task;
  int requests, closes, accepts;
  bool refuse;
  bool inside;        /* a call of ours into the server is under way: no handler may run */
  int fd;             /* of a client, for a function that runs on the server's thread */
  sem_t go;           /* the client may send more */
  const int *watched; /* of peer_wait */
  int seen;
};

struct peer_call {
  struct loop_post post;
  struct peer *peer;
  void (*fn)(struct peer *);
  sem_t done;
};

static inline void peer_run_call(struct loop_post *post) {
  struct peer_call *call = CONTAINER_OF(post, struct peer_call, post);
  call->fn(call->peer);
  sem_post(&call->done);
}

static inline void peer_do(struct peer *p, void (*fn)(struct peer *)) {
  struct peer_call call = {.post.run = peer_run_call, .peer = p, .fn = fn};
  sem_init(&call.done, 0, 0);
  loop_post(p->loop, &call.post);
  while (sem_wait(&call.done))
    ;
  sem_destroy(&call.done);
}

static inline void *peer_main(void *arg) {
  struct peer *p = arg;
  p->loop = loop_new(&p->err);
  if (!p->loop || httpd_listen(p->loop, &p->options, &p->server, &p->err)) {
    fprintf(stderr, "peer: %s\n", p->err.text);
    abort();
  }
  p->port = httpd_port(p->server);
  sem_post(&p->ready);
  loop_run(p->loop);
  if (p->server)
    httpd_close(p->server);
  loop_delete(p->loop);
  return NULL;
}

/* options.on_request must be set; on_request's user is the peer. */
static inline void peer_start(struct peer *p) {
  p->options.user = p;
  sem_init(&p->ready, 0, 0);
  assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
  while (sem_wait(&p->ready))
    ;
}

static inline void peer_quit(struct peer *p) {
  loop_stop(p->loop);
}

static inline void peer_stop(struct peer *p) {
  peer_do(p, peer_quit);
  pthread_join(p->thread, NULL);
  sem_destroy(&p->ready);
}

static inline void peer_look(struct peer *p) {
  p->seen = p->watched ? *p->watched : 0;
}

/* Waits until *count, changed on the server's thread, has that value; 5 s at most. */
static inline void peer_wait(struct peer *p, const int *count, int value) {
  p->watched = count;
  for (int i = 0; i < 5000; i++) {
    peer_do(p, peer_look);
    if (p->seen == value)
      return;
    clock_sleep_ns(NS_PER_MS);
  }
  fail_msg("waited for %d, still %d", value, p->seen);
}

/* ---- the client ---- */

static inline int peer_try_connect(int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct timeval wait = {.tv_sec = 10};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
    return fd;
  int rc = -errno;
  close(fd);
  return rc;
}

static inline int peer_connect(struct peer *p) {
  int fd = peer_try_connect(p->port);
  if (fd < 0)
    fail_msg("connect: %s", strerror(-fd));
  return fd;
}

static inline void peer_send(int fd, const char *text) {
  for (size_t len = strlen(text); len;) {
    ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
    if (n <= 0)
      fail_msg("send: %s", strerror(errno));
    text += n;
    len -= (size_t)n;
  }
}

/* The next bytes must be these. */
static inline void peer_expect(int fd, const char *text) {
  char got[65536];
  size_t want = strlen(text), n = 0;
  assert_true(want < sizeof got);
  while (n < want) {
    ssize_t m = recv(fd, got + n, want - n, 0);
    if (m <= 0)
      fail_msg("received \"%.*s\", then %s; expected \"%s\"", (int)n, got,
               m ? strerror(errno) : "the end", text);
    n += (size_t)m;
  }
  got[n] = '\0';
  assert_string_equal(got, text);
}

/* Nothing may be there, now and for 20 ms. */
static inline void peer_expect_silence(int fd) {
  char byte;
  clock_sleep_ns(20 * NS_PER_MS);
  ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
  if (n >= 0 || errno != EAGAIN)
    fail_msg("expected silence, received %zd", n);
}

/* The end must come now: 0 for FIN, else the errno. */
static inline int peer_end(int fd) {
  char byte;
  ssize_t n = recv(fd, &byte, 1, 0);
  int rc = n < 0 ? errno : 0;
  if (n > 0)
    fail_msg("expected the end, received '%c'", byte);
  close(fd);
  return rc;
}

#endif
