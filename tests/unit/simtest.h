/* simtest.h: a simulated fleet on a thread of its own, and a raw blocking client. */
#ifndef TESTS_UNIT_SIMTEST_H
#define TESTS_UNIT_SIMTEST_H

#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "sim/simfleet.h"
#include "text/json.h"

struct simtest {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t ready;
  bool up;
  struct err err;
  struct simfleet_options options;
  const char *const *faults; /* "[REPLICA:]SPEC", NULL-terminated; may be NULL */
  struct loop *loop;
  struct simfleet *fleet;
  struct loop_post stop;
  int ports[4], admin_port;
  char token[40];
};

static void simtest_on_stop(struct loop_post *post) {
  struct simtest *t = CONTAINER_OF(post, struct simtest, stop);
  loop_stop(t->loop);
}

static void simtest_say_ready(struct simtest *t) {
  pthread_mutex_lock(&t->lock);
  t->up = true;
  pthread_cond_signal(&t->ready);
  pthread_mutex_unlock(&t->lock);
}

static int simtest_port_of(const char *url) {
  return atoi(strrchr(url, ':') + 1);
}

static void *simtest_main(void *user) {
  struct simtest *t = user;
  t->loop = loop_new(&t->err);
  int rc = simfleet_start(t->loop, &t->options, &t->fleet, &t->err);
  for (size_t i = 0; !rc && t->faults && t->faults[i]; i++)
    rc = simfleet_add_fault_text(t->fleet, t->faults[i], &t->err);
  if (!rc) {
    struct value v = simfleet_describe(t->fleet);
    for (size_t i = 0; i < t->options.n_replicas && i < 4; i++)
      t->ports[i] = simtest_port_of(
          value_to_string(value_get(value_at(value_get(&v, "replicas"), i), "url")));
    const struct value *admin = value_get(&v, "admin");
    t->admin_port = simtest_port_of(value_to_string(value_get(admin, "url")));
    snprintf(t->token, sizeof t->token, "%s", value_to_string(value_get(admin, "token")));
    value_free(&v);
  }
  t->err.code = rc;
  simtest_say_ready(t);
  if (!rc) {
    loop_run(t->loop);
    simfleet_stop(t->fleet);
  }
  loop_delete(t->loop);
  return NULL;
}

/* Starts a fleet of `n` replicas; `sets` are "key=value", NULL-terminated, or NULL. */
static inline void simtest_start(struct simtest *t, size_t n, const char *profile,
                                 const char *const *sets, const char *const *faults,
                                 const char *truth) {
  *t = (struct simtest){.faults = faults, .stop = {.run = simtest_on_stop}};
  t->options = (struct simfleet_options){.n_replicas = n, .truth = truth, .seed = 1};
  struct err err = {0};
  check_ok(simconfig_init(&t->options.config, profile, &err), &err);
  for (size_t i = 0; sets && sets[i]; i++)
    check_ok(simconfig_set(&t->options.config, sets[i], &err), &err);
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->ready, NULL);
  assert_int_equal(pthread_create(&t->thread, NULL, simtest_main, t), 0);
  pthread_mutex_lock(&t->lock);
  while (!t->up)
    pthread_cond_wait(&t->ready, &t->lock);
  pthread_mutex_unlock(&t->lock);
  check_ok(t->err.code, &t->err);
}

static inline void simtest_stop(struct simtest *t) {
  loop_post(t->loop, &t->stop);
  pthread_join(t->thread, NULL);
  pthread_mutex_destroy(&t->lock);
  pthread_cond_destroy(&t->ready);
}

/* ---- the client ---- */

/* Everything the server sent on one connection, and when. */
struct simtest_answer {
  char *data; /* with a NUL */
  size_t len;
  int status; /* 0 = none */
  char *body; /* chunks put together, in `data`'s stead; with a NUL */
  size_t body_len;
  size_t chunks;
  bool complete; /* the body ended as announced */
  bool reset;    /* the connection was reset */
  uint64_t sent_ns, first_ns, last_ns;
};

static inline int simtest_connect(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  struct timeval limit = {.tv_sec = 10};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

static inline void simtest_send(int fd, const char *method, const char *path, const char *headers,
                                const char *body) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_printf(&b, "%s %s HTTP/1.1\r\nConnection: close\r\n%s", method, path,
             headers ? headers : "Host: x\r\n");
  if (body)
    buf_printf(&b, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
  buf_puts(&b, "\r\n");
  buf_puts(&b, body ? body : "");
  assert_int_equal(send(fd, b.data, b.len, MSG_NOSIGNAL), b.len);
  buf_free(&b);
}

/* Puts the chunks together; false when the last one is missing or the form is broken. */
static inline bool simtest_dechunk(struct simtest_answer *a, const char *p, const char *end) {
  for (;;) {
    char *after;
    size_t size = strtoul(p, &after, 16);
    if (after == p || end - after < 2)
      return false;
    p = after + 2;
    if (!size)
      return true;
    if ((size_t)(end - p) < size) {
      memcpy(a->body + a->body_len, p, (size_t)(end - p));
      a->body_len += (size_t)(end - p);
      return false;
    }
    memcpy(a->body + a->body_len, p, size);
    a->body_len += size;
    a->chunks++;
    p += size + 2;
  }
}

static inline void simtest_split(struct simtest_answer *a) {
  const char *head_end = strstr(a->data, "\r\n\r\n");
  a->body = calloc(1, a->len + 1);
  if (!head_end)
    return;
  a->status = atoi(a->data + 9);
  const char *p = head_end + 4, *end = a->data + a->len;
  const char *length = strcasestr(a->data, "\r\ncontent-length:");
  if (length && length < head_end) {
    a->body_len = (size_t)(end - p);
    memcpy(a->body, p, a->body_len);
    a->complete = a->body_len == strtoul(length + 17, NULL, 10);
  } else {
    a->complete = simtest_dechunk(a, p, end);
  }
  a->body[a->body_len] = '\0';
}

static inline struct simtest_answer simtest_read(int fd) {
  struct simtest_answer a = {.data = calloc(1, 1 << 20), .sent_ns = clock_ns()};
  for (;;) {
    ssize_t n = recv(fd, a.data + a.len, (1 << 20) - 1 - a.len, 0);
    if (n < 0 && errno == EINTR)
      continue;
    a.reset = n < 0 && errno == ECONNRESET;
    if (n < 0 && !a.reset)
      fail_msg("the server says nothing: %s", strerror(errno));
    if (n <= 0)
      break;
    a.last_ns = clock_ns();
    if (!a.first_ns)
      a.first_ns = a.last_ns;
    a.len += (size_t)n;
  }
  close(fd);
  simtest_split(&a);
  return a;
}

static inline void simtest_free(struct simtest_answer *a) {
  free(a->data);
  free(a->body);
}

static inline struct simtest_answer simtest_ask(int port, const char *method, const char *path,
                                                const char *headers, const char *body) {
  uint64_t before = clock_ns();
  int fd = simtest_connect(port);
  if (fd < 0)
    fail_msg("port %d: %s", port, strerror(errno));
  simtest_send(fd, method, path, headers, body);
  struct simtest_answer a = simtest_read(fd);
  a.sent_ns = before; /* what lies between is at least as long as the server took */
  return a;
}

static inline struct simtest_answer simtest_post(int port, const char *path, const char *body) {
  return simtest_ask(port, "POST", path, NULL, body);
}

static inline struct value simtest_json(const struct simtest_answer *a) {
  struct value v;
  struct err err = {0};
  check_ok(json_parse(a->body, a->body_len, &v, &err), &err);
  return v;
}

/* A request to the admin port with the right headers; its JSON answer. */
static inline struct value simtest_admin(struct simtest *t, const char *method, const char *path,
                                         const char *body, int status) {
  char headers[160];
  snprintf(headers, sizeof headers, "Host: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n",
           t->admin_port, t->token);
  struct simtest_answer a = simtest_ask(t->admin_port, method, path, headers, body);
  if (a.status != status)
    fail_msg("%s %s: %d %s, expected %d", method, path, a.status, a.body, status);
  struct value v = simtest_json(&a);
  simtest_free(&a);
  return v;
}

/* A number of replica `i` in GET /admin/state. */
static inline int64_t simtest_state(struct simtest *t, size_t i, const char *key) {
  struct value v = simtest_admin(t, "GET", "/admin/state", NULL, 200);
  int64_t n = -1;
  value_to_int(value_get(value_at(value_get(&v, "replicas"), i), key), &n);
  value_free(&v);
  return n;
}

/* Waits until that number is `want`, at most 5 s. */
static inline void simtest_wait_state(struct simtest *t, size_t i, const char *key, int64_t want) {
  int64_t got = -1;
  for (int tries = 0; tries < 500 && (got = simtest_state(t, i, key)) != want; tries++)
    clock_sleep_ns(10 * NS_PER_MS);
  if (got != want)
    fail_msg("replica %zu: %s is %lld, expected %lld", i, key, (long long)got, (long long)want);
}

/* The lines of a truth log; the caller frees with value_free. */
static inline struct value simtest_truth(const char *path) {
  struct value lines = value_array();
  struct err err = {0};
  char *text = check_read_file(path, NULL), *save = NULL;
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    struct value v;
    check_ok(json_parse(line, strlen(line), &v, &err), &err);
    value_push(&lines, v);
  }
  free(text);
  return lines;
}

static inline int64_t simtest_int(const struct value *v, const char *key) {
  int64_t n;
  if (!value_to_int(value_get(v, key), &n))
    fail_msg("%s is no whole number", key);
  return n;
}

#endif
