/* h1.c: the HTTP/1.1 transport: connections from libcurl, everything after that ours.
 *
 * A request takes the idle connection that was used last, else has one made for it, else waits in
 * line. A connection that turns out closed before a byte of the reply came, and had been open
 * before, is the server's good right: the request goes out once more, on a fresh one. */
#include <errno.h>
#include <openssl/bio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/h1.h"

#define READS_AT_ONCE 8 /* of one connection before others get their turn */

static void on_ready(struct loop_fd *watch, void *user, unsigned events, uint64_t stamp_ns);

/* ---- connections ---- */

/* Closes it, whatever its state; the pool has one less. Its exchange is left without a carrier. */
static void drop(struct h1_conn *c) {
  struct h1_pool *pool = c->pool;
  if (c->watch) {
    loop_fd_close(c->watch);
    pool->h1->client->stats.open_now--;
  }
  if (c->op)
    connect_close(c->op);
  else if (c->fd >= 0)
    close(c->fd);
  if (c->x)
    c->x->carrier = NULL;
  pool->open--;
  mem_free(c);
}

static void on_connected(void *user, struct connecting *op, int fd, struct ssl_st *ssl,
                         enum sample_error error, const char *text);

/* Has a connection made for x. A failure is told later. */
static void connect_for(struct h1_pool *pool, struct http_exchange *x) {
  struct h1_conn *c = MEM_NEW(struct h1_conn);
  struct err err;
  c->pool = pool;
  c->x = x;
  c->fd = -1;
  pool->open++;
  x->carrier = c;
  if (connector_start(pool->h1->connector, pool->target, on_connected, c, &c->op, &err)) {
    drop(c);
    http_exchange_fail_later(x, SAMPLE_CONNECT, err.text);
  }
}

/* Sends what is left; a connection that breaks here is found out by reading. */
static void send_on(struct h1_conn *c) {
  struct http_client *client = c->pool->h1->client;
  int rc = h1_io_send(c);
  c->unsent = rc != 0;
  if (rc == 0)
    http_exchange_sent(c->x, loop_refresh(client->loop), c->out_bytes);
  loop_fd_want(c->watch, rc == H1_IO_AGAIN ? LOOP_READ | LOOP_WRITE : LOOP_READ);
}

static void carry(struct h1_conn *c, struct http_exchange *x, uint64_t connected_ns, bool reused) {
  c->x = x;
  x->carrier = c;
  c->reused = reused;
  c->got_byte = false;
  c->send_error = 0;
  c->out_part = c->out_offset = 0;
  c->out_bytes = 0;
  http_exchange_connected(x, connected_ns, reused);
  h1_parser_begin(&c->parser, x);
  h1_io_head(x);
  send_on(c);
  c->drained_ns = loop_now(c->pool->h1->client->loop);
}

/* Room for one more connection: the first in line gets it. */
static void serve_line(struct h1_pool *pool) {
  while (pool->line.first && !h1_pool_full(pool))
    connect_for(pool, line_take(&pool->line));
}

/* The connection has nothing to do. */
static void release(struct h1_conn *c) {
  struct h1_pool *pool = c->pool;
  struct http_exchange *x = line_take(&pool->line);
  c->x = NULL;
  if (x) {
    carry(c, x, loop_refresh(pool->h1->client->loop), true);
    return;
  }
  c->idle_ns = loop_wakeup(pool->h1->client->loop);
  h1_pool_put(c);
}

static void on_connected(void *user, struct connecting *op, int fd, struct ssl_st *ssl,
                         enum sample_error error, const char *text) {
  struct h1_conn *c = user;
  struct h1_pool *pool = c->pool;
  struct http_client *client = pool->h1->client;
  struct http_exchange *x = c->x;
  struct err err;
  c->op = error == SAMPLE_OK && ssl ? op : NULL;
  c->fd = fd;
  c->ssl = ssl;
  if (error == SAMPLE_OK &&
      loop_fd_open(client->loop, fd, LOOP_READ, on_ready, c, &c->watch, &err)) {
    error = SAMPLE_CONNECT;
    text = err.text;
  }
  if (error != SAMPLE_OK) {
    drop(c);
    serve_line(pool);
    http_exchange_fail(x, error, text);
    return;
  }
  client->stats.connections_opened++;
  client->stats.open_now++;
  if (ssl)
    h1_io_adopt(c);
  carry(c, x, loop_refresh(client->loop), false);
}

/* ---- replies ---- */

/* The connection is gone before the reply is whole. */
static void lost(struct h1_conn *c, enum http_break how, const char *why,
                 const struct http_read *read) {
  struct h1_pool *pool = c->pool;
  struct http_exchange *x = c->x;
  bool again = c->reused && !c->got_byte && how != HTTP_BREAK_GARBLED && !x->request->reconnects;
  drop(c);
  if (again) {
    http_exchange_restart(x, loop_refresh(pool->h1->client->loop));
    connect_for(pool, x);
    return;
  }
  serve_line(pool);
  http_exchange_broken(x, how, why, read);
}

static void end(struct h1_conn *c, bool keep, const struct http_read *read) {
  struct h1_pool *pool = c->pool;
  struct http_exchange *x = c->x;
  x->carrier = NULL;
  c->x = NULL;
  if (keep) {
    release(c);
  } else {
    drop(c);
    serve_line(pool);
  }
  http_exchange_end(x, read);
}

static void on_failed_read(struct h1_conn *c, ssize_t n, const char *text,
                           const struct http_read *read) {
  if (n == 0 && !c->send_error) {
    if (c->got_byte && h1_parser_finish(&c->parser, read) == H1_WHOLE)
      end(c, false, read);
    else
      lost(c, HTTP_BREAK_CLOSED, NULL, read);
    return;
  }
  if (c->ssl && text && !c->got_byte) { /* TLS 1.3: a refused client certificate shows here */
    struct h1_pool *pool = c->pool;
    struct http_exchange *x = c->x;
    char line[256];
    snprintf(line, sizeof line, "the server refused the connection: %s%s", text,
             strstr(text, "certificate") && !pool->target->cert_file
                 ? "; does it ask for a client certificate?"
                 : "");
    drop(c);
    serve_line(pool);
    http_exchange_fail(x, SAMPLE_TLS, line);
    return;
  }
  lost(c, HTTP_BREAK_RESET, text, read);
}

/* One read's bytes. False: the connection is not ours to read any more. */
static bool on_bytes(struct h1_conn *c, char *bytes, size_t n, const struct http_read *read) {
  size_t used;
  c->got_byte = true;
  http_exchange_read(c->x, n, read);
  switch (h1_parser_feed(&c->parser, bytes, n, read, &used)) {
  case H1_MORE:
    if (http_exchange_unhurried(c->x, read))
      loop_unhurried(c->pool->h1->client->loop, c->parser.pieces);
    return true;
  case H1_WHOLE:
    /* Bytes behind a reply that nobody asked for, or a request not sent whole: not to be trusted.
     */
    c->pool->h1->client->stats.unasked_bytes += used < n;
    end(c, c->parser.keep_alive && used == n && !c->unsent && !c->x->closes, read);
    return false;
  case H1_GARBLED:
    lost(c, HTTP_BREAK_GARBLED, c->parser.why, read);
    return false;
  case H1_STOP:
    end(c, false, read);
    return false;
  }
  return false;
}

static void read_reply(struct h1_conn *c, uint64_t stamp_ns) {
  struct h1 *h1 = c->pool->h1;
  struct http_client *client = h1->client;
  /* What OpenSSL holds already, no event of the socket will announce. */
  for (int i = 0; i < READS_AT_ONCE || h1_io_pending(c); i++) {
    struct http_read read = {.loop_ns = stamp_ns, .drained_ns = c->drained_ns};
    uint64_t peeked = http_exchange_wants_peek(c->x) ? kstamp_peek(c->fd) : 0;
    bool full;
    const char *text;
    ssize_t n = h1_io_recv(c, h1->in, H1_IN_BYTES, &full, &text);
    if (n == H1_IO_AGAIN) {
      c->drained_ns = stamp_ns;
      if (c->send_error)
        lost(c, HTTP_BREAK_RESET, strerror(c->send_error), &read);
      return;
    }
    if (n <= 0) {
      on_failed_read(c, n, text, &read);
      return;
    }
    if (client->options.kernel_stamps) {
      read.kernel_ns = kstamp_convert(client->loop, c->wall_ns, &read.loop_ns);
      read.first_ns = kstamp_convert(client->loop, peeked, &read.loop_ns);
    }
    if (!on_bytes(c, h1->in, (size_t)n, &read))
      return;
    if (!full) {
      c->drained_ns = stamp_ns;
      return;
    }
  }
}

/* An idle connection has something to say: good-bye, mostly. What else it may be, nobody asked for
 * it: taken for the next reply it would put every later one out of step. TLS may send a session
 * ticket. False: it is gone from the pool, and closed. */
static bool read_idle(struct h1_conn *c) {
  struct h1 *h1 = c->pool->h1;
  bool full;
  const char *text;
  ssize_t n = h1_io_recv(c, h1->in, H1_IN_BYTES, &full, &text);
  if (n == H1_IO_AGAIN)
    return true;
  h1->client->stats.unasked_bytes += n > 0;
  h1_pool_forget(c);
  drop(c);
  return false;
}

/* An idle connection that is fit for a request. One that was read empty in this same wake-up needs
 * no second look; what reached another since the loop last looked is found here. */
static struct h1_conn *take_idle(struct h1_pool *pool) {
  uint64_t now = loop_wakeup(pool->h1->client->loop);
  for (struct h1_conn *c; (c = pool->idle);)
    if (c->idle_ns == now || read_idle(c))
      return h1_pool_take(pool);
  return NULL;
}

static void on_ready(struct loop_fd *watch, void *user, unsigned events, uint64_t stamp_ns) {
  (void)watch;
  struct h1_conn *c = user;
  if (!c->x) {
    read_idle(c);
    return;
  }
  if ((events & LOOP_WRITE) && c->unsent && !c->send_error)
    send_on(c);
  if (events & LOOP_READ)
    read_reply(c, stamp_ns);
}

/* ---- the transport ---- */

static int h1_start(void *self, struct http_exchange *x, struct err *err) {
  (void)err;
  struct h1 *h1 = self;
  struct h1_pool *pool = h1_pool_of(h1, x->target);
  struct h1_conn *c = take_idle(pool);
  if (c) {
    carry(c, x, x->request->stamp_ns[STAMP_START], true);
  } else if (h1_pool_full(pool)) {
    h1->client->stats.waits_for_connection++;
    line_add(&pool->line, x);
  } else {
    connect_for(pool, x);
  }
  return 0;
}

static void h1_cancel(void *self, struct http_exchange *x) {
  struct h1_pool *pool = h1_pool_of(self, x->target);
  if (x->in_line) {
    line_remove(&pool->line, x);
  } else if (x->carrier) {
    drop(x->carrier);
    serve_line(pool);
  }
}

static void h1_close(void *self) {
  struct h1 *h1 = self;
  for (struct h1_pool *pool = h1->pools; pool; pool = pool->next)
    for (struct h1_conn *c; (c = h1_pool_take(pool));)
      drop(c);
  h1_pool_close(h1);
  connector_delete(h1->connector);
  BIO_meth_free(h1->bio);
  mem_free(h1->in);
  mem_free(h1->out);
  mem_free(h1);
}

void h1_transport(struct http_client *c, struct transport *t) {
  struct h1 *h1 = MEM_NEW(struct h1);
  h1->client = c;
  h1->connector = connector_new(c);
  h1->in = mem_alloc(H1_IN_BYTES);
  *t = (struct transport){
      .name = "h1", .start = h1_start, .cancel = h1_cancel, .close = h1_close, .self = h1};
}
