/* fuzz_httpd.c: hostile bytes for the HTTP server.
 *
 * Byte 0 seeds the splits, byte 1 says whether the rest also goes through a real connection.
 * Always: the parser must give the same requests for one piece as for many. With a connection: the
 * handlers answer in every way there is, the client leaves at once or reads to the end, and every
 * connection must be gone afterwards (the sanitizers watch the memory). */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/httpd.h"
#include "io/httpd_parse.h"

#define MAX_BODY 4096
#define MAX_HEADERS 1024

#define CHECK(what)                                                                                \
  do {                                                                                             \
    if (!(what)) {                                                                                 \
      fprintf(stderr, "fuzz_httpd: %s does not hold (%s)\n", #what, strerror(errno));              \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

/* ---- the parser ---- */

static void tell(const struct httpd_parser *p, struct buf *log) {
  CHECK(p->head.data[p->head.len - 1] == '\0' && p->head.len <= MAX_HEADERS * 2);
  CHECK(p->path <= p->head.len && p->query <= p->head.len);
  CHECK(p->body.len <= MAX_BODY);
  buf_printf(log, "%s %s ? %s %d%d", p->method, p->head.data + p->path, p->head.data + p->query,
             p->keep_alive, p->http10);
  for (size_t i = 0; i < p->n_headers; i++) {
    const char *name = p->head.data + p->headers[i].name;
    CHECK(httpd_parser_header(p, name) != NULL);
    buf_printf(log, "|%s=%s", name, p->head.data + p->headers[i].value);
  }
  buf_puts(log, "\n");
  buf_put(log, p->body.data, p->body.len);
  buf_puts(log, "\n");
}

/* One run over the bytes in pieces of 1 to `most`; what was seen goes to `log`. */
static void parse(const char *data, size_t len, size_t most, struct rng *rng, struct buf *log) {
  struct httpd_parser p;
  httpd_parser_init(&p, MAX_BODY, MAX_HEADERS);
  bool bad = false;
  while (len && !bad) {
    size_t piece = most < len ? (size_t)rng_int(rng, 1, (int64_t)most) : len;
    char *copy = mem_dup(data, piece); /* its own block: reading past it is seen */
    for (size_t at = 0; at < piece && !bad;) {
      size_t used = 0;
      enum httpd_parse got = httpd_parser_feed(&p, copy + at, piece - at, &used);
      CHECK(used <= piece - at);
      if (got == HTTPD_PARSE_REQUEST)
        tell(&p, log);
      if (got == HTTPD_PARSE_MORE)
        CHECK(used == piece - at);
      if (got == HTTPD_PARSE_BAD) { /* which limit is met first may depend on the split */
        CHECK(p.bad_status >= 400 && p.bad_status < 506 && p.bad_text[0]);
        bad = true;
      }
      at += used;
    }
    mem_free(copy);
    data += piece;
    len -= piece;
  }
  buf_puts(log, bad ? "bad" : "good");
  httpd_parser_free(&p);
}

static void compare_splits(const char *data, size_t len, uint64_t seed) {
  struct buf whole, split;
  struct rng rng;
  buf_init(&whole, BUF_MAX_OWN);
  buf_init(&split, BUF_MAX_OWN);
  rng_init(&rng, seed, 0);
  parse(data, len, SIZE_MAX, &rng, &whole);
  for (size_t most = 1; most <= 64; most *= 4) {
    buf_reset(&split);
    parse(data, len, most, &rng, &split);
    CHECK(whole.len == split.len && !memcmp(whole.data, split.data, whole.len));
  }
  buf_free(&whole);
  buf_free(&split);
}

/* ---- the connection ---- */

struct held {
  struct loop_task task;
  struct drive *drive;
  struct httpd_request *req;
  bool stream;
};

struct drive {
  struct loop *loop;
  struct httpd *server;
  struct loop_fd *client;
  int fd;
  bool accepted, client_gone;
  size_t held;
};

static void on_held(struct loop_task *task) {
  struct held *h = CONTAINER_OF(task, struct held, task);
  if (h->stream) {
    httpd_write(h->req, "late", 4);
    httpd_end(h->req);
  } else {
    httpd_reply(h->req, 200, NULL, "late", 4);
  }
  h->drive->held--;
  mem_free(h);
}

static void on_close(struct httpd_request *req, void *user) {
  (void)req;
  struct held *h = user;
  loop_unready(h->drive->loop, &h->task);
  h->drive->held--;
  mem_free(h);
}

static void hold(struct drive *d, struct httpd_request *req, bool stream, bool listens) {
  struct held *h = MEM_NEW(struct held);
  *h = (struct held){.task.run = on_held, .drive = d, .req = req, .stream = stream};
  d->held++;
  if (stream)
    httpd_stream(req, 200, "X-Stream: yes\r\n");
  if (listens) {
    httpd_set_user(req, h);
    httpd_on_close(req, on_close);
  }
  loop_ready(d->loop, &h->task);
}

static void on_request(void *user, struct httpd_request *req) {
  struct drive *d = user;
  size_t len;
  const char *path = httpd_path(req), *body = httpd_body(req, &len);
  switch (path[0] ? path[1] : '\0') {
  case 's':
    hold(d, req, true, true);
    break;
  case 'S':
    hold(d, req, true, false);
    break;
  case 'h':
    hold(d, req, false, true);
    break;
  case 'H':
    hold(d, req, false, false);
    break;
  case 'c':
    httpd_raw(req, body, len);
    httpd_close_connection(req);
    break;
  case 'r':
    httpd_reset_connection(req);
    break;
  default:
    httpd_reply(req, 200, NULL, body, len);
  }
}

static bool on_accept(void *user) {
  ((struct drive *)user)->accepted = true;
  return true;
}

static bool on_idle(void *user) {
  struct drive *d = user;
  if (d->accepted && d->client_gone && !httpd_connections(d->server) && !d->held)
    loop_stop(d->loop);
  return false;
}

static void leave(struct drive *d) {
  if (d->client)
    loop_fd_close(d->client);
  d->client = NULL;
  close(d->fd);
  d->client_gone = true;
}

static void on_client(struct loop_fd *f, void *user, unsigned events, uint64_t stamp) {
  (void)f;
  (void)events;
  (void)stamp;
  char sink[4096];
  ssize_t n;
  while ((n = recv(((struct drive *)user)->fd, sink, sizeof sink, MSG_DONTWAIT)) > 0)
    ;
  if (n == 0 || errno != EAGAIN)
    leave(user);
}

/* Thousands of connections that linger in TIME_WAIT would take 127.0.0.1's ports from everybody
 * else, so each run has a loopback address to itself. */
static void drive(const char *data, size_t len, bool reads, unsigned number) {
  struct err err;
  struct drive d = {.loop = loop_new(&err)};
  char host[32];
  snprintf(host, sizeof host, "127.%u.%u.%u", 64 + (unsigned)getpid() % 128, number / 250 % 250,
           1 + number % 250);
  struct httpd_options options = {.host = host,
                                  .max_body = MAX_BODY,
                                  .max_headers = MAX_HEADERS,
                                  .on_request = on_request,
                                  .on_accept = on_accept,
                                  .user = &d};
  CHECK(d.loop && httpd_listen(d.loop, &options, &d.server, &err) == 0);
  loop_set_idle(d.loop, on_idle, &d, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)httpd_port(d.server))};
  struct sockaddr_in from = {.sin_family = AF_INET};
  CHECK(inet_pton(AF_INET, host, &a.sin_addr) == 1);
  from.sin_addr = a.sin_addr;
  d.fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(d.fd, (struct sockaddr *)&from, sizeof from) == 0);
  CHECK(connect(d.fd, (struct sockaddr *)&a, sizeof a) == 0);
  CHECK(send(d.fd, data, len, MSG_NOSIGNAL) == (ssize_t)len);
  if (reads) {
    shutdown(d.fd, SHUT_WR);
    CHECK(loop_fd_open(d.loop, d.fd, LOOP_READ, on_client, &d, &d.client, &err) == 0);
  } else {
    leave(&d);
  }
  loop_run(d.loop);
  httpd_close(d.server);
  loop_delete(d.loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static unsigned number;
  if (size < 3)
    return 0;
  const char *data = (const char *)bytes + 2;
  compare_splits(data, size - 2, bytes[0]);
  if (bytes[1] % 8 < 2)
    drive(data, size - 2, bytes[1] % 8, number++);
  return 0;
}
