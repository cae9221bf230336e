/* curl_loop.c: descriptors and time for a libcurl multi handle; see curl_loop.h.
 *
 * One table per client says which descriptor belongs to which multi handle; descriptors are small
 * numbers, so it is an array. */
#include "net/curl_loop.h"

#include <curl/curl.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/kstamp.h"

struct curl_fd {
  struct curl_loop *owner; /* NULL: not one of libcurl's */
  struct loop_fd *watch;   /* NULL: not watched */
  unsigned wanted;         /* what libcurl waits for now */
  ino_t inode;             /* which socket it is; 0: not opened by us */
  bool proven;             /* a request ended well on it: closed through the close function only */
};

struct curl_fds {
  struct curl_fd **at; /* by descriptor; entries are apart, since watches point to them */
  size_t cap;
};

static struct curl_fd *entry_of(struct http_client *c, int fd, bool make) {
  if (!c->curl_fds)
    c->curl_fds = MEM_NEW(struct curl_fds);
  struct curl_fds *fds = c->curl_fds;
  size_t i = (size_t)fd;
  if (i >= fds->cap) {
    if (!make)
      return NULL;
    size_t cap = fds->cap ? fds->cap : 64;
    while (cap <= i)
      cap *= 2;
    fds->at = mem_resize(fds->at, cap, sizeof *fds->at);
    while (fds->cap < cap)
      fds->at[fds->cap++] = NULL;
  }
  if (!fds->at[i] && make)
    fds->at[i] = MEM_NEW(struct curl_fd);
  return fds->at[i];
}

void curl_fds_free(struct http_client *c) {
  if (!c->curl_fds)
    return;
  for (size_t i = 0; i < c->curl_fds->cap; i++) {
    assert(!c->curl_fds->at[i]);
  }
  mem_free(c->curl_fds->at);
  mem_free(c->curl_fds);
  c->curl_fds = NULL;
}

void curl_loop_forget(struct http_client *c, int fd) {
  struct curl_fd *f = entry_of(c, fd, false);
  if (!f)
    return;
  if (f->watch)
    loop_fd_close(f->watch);
  c->curl_fds->at[fd] = NULL;
  mem_free(f);
}

void curl_loop_proven(struct http_client *c, int fd) {
  struct curl_fd *f = entry_of(c, fd, false);
  if (f)
    f->proven = true;
}

static void act(struct curl_loop *k, int fd, int flags, uint64_t stamp_ns) {
  int running;
  if (k->before)
    k->before(k, fd == CURL_SOCKET_TIMEOUT ? -1 : fd, stamp_ns);
  CURLMcode rc = curl_multi_socket_action(k->multi, fd, flags, &running);
  if (rc != CURLM_OK)
    log_warn("libcurl multi: %s", curl_multi_strerror(rc));
  k->after(k);
}

/* An idle connection that talks. libcurl 7.88 looks whether a connection lives, not whether it says
 * anything, and would take the bytes for the reply to the next request. Taken away and shut down
 * it is dead to it. Records of TLS (types 20 to 23) may be session tickets and are left alone. */
static void silence(struct curl_loop *k, int fd) {
  unsigned char first;
  char sink[4096];
  if (recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1 || (first >= 20 && first <= 23))
    return;
  k->client->stats.unasked_bytes++;
  while (recv(fd, sink, sizeof sink, MSG_DONTWAIT) > 0)
    ;
  shutdown(fd, SHUT_RDWR);
}

static void on_ready(struct loop_fd *watch, void *user, unsigned events, uint64_t stamp_ns) {
  struct curl_fd *f = user;
  struct curl_loop *k = f->owner;
  int fd = loop_fd_number(watch);
  if (!f->wanted) { /* idle: libcurl looks whether it lives before it uses it again */
    silence(k, fd);
    loop_fd_close(f->watch);
    f->watch = NULL;
    return;
  }
  act(k, fd,
      (events & LOOP_READ ? CURL_CSELECT_IN : 0) | (events & LOOP_WRITE ? CURL_CSELECT_OUT : 0),
      stamp_ns);
}

static int watch(struct curl_fd *f, int fd) {
  struct err err;
  if (!loop_fd_open(f->owner->client->loop, fd, f->wanted, on_ready, f, &f->watch, &err))
    return 0;
  log_warn("libcurl multi: %s", err.text);
  return -1;
}

/* Whether it is still the socket that was opened: libcurl closes those that never got connected
 * without a word, and the number may be another one's by now. */
static bool still_open(const struct curl_fd *f, int fd) {
  struct stat st;
  if (f->proven) /* nearly always: a system call saved with every request */
    return true;
  return f->inode && fstat(fd, &st) == 0 && st.st_ino == f->inode;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *unused) {
  (void)easy;
  (void)unused;
  struct curl_loop *k = user;
  struct curl_fd *f = entry_of(k->client, fd, what != CURL_POLL_REMOVE);
  if (what == CURL_POLL_REMOVE) {
    if (f && still_open(f, fd))
      f->wanted = 0;
    else if (f)
      curl_loop_forget(k->client, fd);
    return 0;
  }
  f->owner = k;
  f->wanted = (what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0);
  if (!f->watch)
    return watch(f, fd);
  loop_fd_want(f->watch, f->wanted);
  return 0;
}

static void on_timer(struct loop_timer *timer) {
  struct curl_loop *k = CONTAINER_OF(timer, struct curl_loop, timer);
  act(k, CURL_SOCKET_TIMEOUT, 0, loop_now(k->client->loop));
}

static int on_timeout(CURLM *multi, long timeout_ms, void *user) {
  (void)multi;
  struct curl_loop *k = user;
  if (timeout_ms < 0)
    loop_timer_clear(k->client->loop, &k->timer);
  else
    loop_timer_set(k->client->loop, &k->timer,
                   loop_now(k->client->loop) + (uint64_t)timeout_ms * NS_PER_MS);
  return 0;
}

int curl_loop_init(struct curl_loop *k, struct http_client *c, struct err *err) {
  k->client = c;
  k->multi = curl_multi_init();
  if (!k->multi)
    return err_set(err, ERR_IO, "libcurl cannot start: no descriptors or no memory left");
  loop_timer_init(&k->timer, on_timer);
  curl_multi_setopt(k->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
  curl_multi_setopt(k->multi, CURLMOPT_SOCKETDATA, k);
  curl_multi_setopt(k->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
  curl_multi_setopt(k->multi, CURLMOPT_TIMERDATA, k);
  return 0;
}

void curl_loop_free(struct curl_loop *k) {
  if (!k->multi)
    return;
  curl_multi_cleanup(k->multi);
  k->multi = NULL;
  loop_timer_clear(k->client->loop, &k->timer);
}

/* The number of a socket that libcurl closed a moment ago (::1 refused, say) may come back at once.
 * It then believes that its interest in it still stands and does not ask again. */
int curl_loop_open_socket(struct curl_loop *k, int family, int type, int protocol, int *os_errno) {
  int fd = socket(family, type | SOCK_CLOEXEC, protocol);
  if (fd < 0) {
    *os_errno = errno;
    return -1;
  }
  struct curl_fd *f = entry_of(k->client, fd, true);
  struct stat st;
  f->owner = k;
  f->proven = false;
  f->inode = fstat(fd, &st) == 0 ? st.st_ino : 0;
  if (f->watch) {
    loop_fd_close(f->watch);
    f->watch = NULL;
    if (f->wanted)
      watch(f, fd);
  }
  if (k->client->options.kernel_stamps)
    kstamp_enable(fd);
  return fd;
}
