/* httpd_conn.c: one connection of the server: reading, handing over, ending.
 *
 * Requests are handed over one at a time. Reading goes on while one is answered, because that is
 * how a client that left is noticed; what arrives is kept for later. No handler is called from
 * inside a call it made: what follows an answer, or a failed write, waits for the ready list. */
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "io/httpd_internal.h"

static uv_stream_t *stream_of(struct httpd_conn *c) {
  return (uv_stream_t *)&c->tcp;
}

static bool held(const struct httpd_conn *c) {
  return c->state == HTTPD_OPEN || c->state == HTTPD_STREAM;
}

/* ---- the end of it ---- */

static void release(struct httpd_conn *c) {
  if (!c->closed || c->state != HTTPD_OVER)
    return;
  httpd_parser_free(&c->parser);
  buf_free(&c->ahead);
  httpd_unref(c->server);
  mem_free(c);
}

static void on_closed(uv_handle_t *handle) {
  struct httpd_conn *c = handle->data;
  c->closed = true;
  release(c);
}

/* Leaves the state alone: a handler that set no on_close may still hold the request. */
static void close_socket(struct httpd_conn *c) {
  if (c->cut)
    return;
  struct httpd *server = c->server;
  c->cut = true;
  loop_unready(server->loop, &c->task);
  loop_timer_clear(server->loop, &c->timer);
  if (c->next)
    c->next->prev = c->prev;
  *(c->prev ? &c->prev->next : &server->conns) = c->next;
  server->n_conns--;
  uv_close((uv_handle_t *)&c->tcp, on_closed);
}

void httpd_conn_cut(struct httpd_conn *c) {
  close_socket(c);
  c->state = HTTPD_OVER;
  release(c);
}

void httpd_conn_abort(struct httpd_conn *c) {
  if (!held(c)) {
    httpd_conn_cut(c);
    return;
  }
  close_socket(c);
  struct httpd_request *req = &c->request;
  if (!req->on_close)
    return; /* its answer goes nowhere, and frees it */
  void (*fn)(struct httpd_request *, void *) = req->on_close;
  req->on_close = NULL;
  c->state = HTTPD_OVER;
  fn(req, req->user);
  release(c);
}

static void on_linger(struct loop_timer *timer) {
  httpd_conn_cut(CONTAINER_OF(timer, struct httpd_conn, timer));
}

static void linger(struct httpd_conn *c) {
  uint64_t due = loop_now(c->server->loop) + HTTPD_LINGER_NS;
  loop_timer_set(c->server->loop, &c->timer, due < c->linger_end_ns ? due : c->linger_end_ns);
}

static void on_shutdown(uv_shutdown_t *shutdown, int status) {
  struct httpd_conn *c = shutdown->handle->data;
  if (c->cut)
    return;
  c->flushed = true;
  if (status < 0 || c->ended) {
    httpd_conn_cut(c);
    return;
  }
  c->linger_end_ns = loop_now(c->server->loop) + HTTPD_LINGER_MOST_NS;
  linger(c);
}

static void read_more(struct httpd_conn *c);

/* The socket is read (and thrown away) until the client ends its side: closing it with bytes unread
 * would send a reset that can overtake the answer. */
void httpd_conn_drain(struct httpd_conn *c) {
  if (c->cut) {
    httpd_conn_cut(c);
    return;
  }
  c->state = HTTPD_DRAIN;
  buf_free(&c->ahead);
  if (c->lost || uv_shutdown(&c->shutdown, stream_of(c), on_shutdown)) {
    httpd_conn_cut(c);
    return;
  }
  if (!c->ended)
    read_more(c);
}

/* ---- reading ---- */

static void feed(struct httpd_conn *c, const char *data, size_t len) {
  struct httpd_parser *p = &c->parser;
  c->feeding = true;
  while (len && c->state == HTTPD_IDLE && !c->cut && !c->lost) {
    size_t used;
    enum httpd_parse got = httpd_parser_feed(p, data, len, &used);
    data += used;
    len -= used;
    if (got == HTTPD_PARSE_BAD) {
      httpd_conn_refuse(c, p->bad_status, p->bad_text);
    } else if (got == HTTPD_PARSE_REQUEST) {
      c->state = HTTPD_OPEN;
      c->request.received_ns = c->read_ns;
      c->request.user = NULL;
      c->request.on_close = NULL;
      c->server->options.on_request(c->server->options.user, &c->request);
    } else if (p->expects_continue) {
      static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
      p->expects_continue = false;
      uv_buf_t b = uv_buf_init((char *)text, sizeof text - 1);
      httpd_conn_write(c, &b, 1);
    }
  }
  c->feeding = false;
  if (len && held(c) && !c->cut)
    buf_put(&c->ahead, data, len);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf) {
  (void)size;
  struct httpd_conn *c = handle->data;
  loop_now(c->server->loop); /* the stamp of this wake-up, before the read takes its time */
  *buf = uv_buf_init(c->server->read, HTTPD_READ_BYTES);
}

static void on_end(struct httpd_conn *c) {
  c->ended = true;
  c->reading = false;
  if (c->state == HTTPD_DRAIN) {
    if (c->flushed)
      httpd_conn_cut(c);
  } else if (c->state == HTTPD_IDLE && uv_stream_get_write_queue_size(stream_of(c)) > 0) {
    httpd_conn_drain(c); /* the last answer is still on its way */
  } else {
    httpd_conn_abort(c);
  }
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
  struct httpd_conn *c = stream->data;
  if (n == UV_EOF) {
    on_end(c);
  } else if (n < 0) {
    httpd_conn_abort(c);
  } else if (n > 0 && c->state == HTTPD_DRAIN) {
    if (c->flushed)
      linger(c);
  } else if (n > 0) {
    c->read_ns = loop_now(c->server->loop);
    if (c->state == HTTPD_IDLE && !c->ahead.len)
      feed(c, buf->base, (size_t)n);
    else
      buf_put(&c->ahead, buf->base, (size_t)n);
    if (c->ahead.len > HTTPD_AHEAD_BYTES && !c->cut) {
      c->reading = false;
      uv_read_stop(stream);
    }
  }
}

static void read_more(struct httpd_conn *c) {
  if (c->reading)
    return;
  c->reading = true;
  int rc = uv_read_start(stream_of(c), on_alloc, on_read);
  assert(rc == 0);
  (void)rc;
}

static void on_task(struct loop_task *task) {
  struct httpd_conn *c = CONTAINER_OF(task, struct httpd_conn, task);
  if (c->lost) {
    httpd_conn_abort(c);
    return;
  }
  struct buf bytes = c->ahead;
  buf_init(&c->ahead, BUF_MAX_OWN);
  feed(c, bytes.data, bytes.len);
  buf_free(&bytes);
  if (!c->cut && c->state != HTTPD_DRAIN && c->ahead.len <= HTTPD_AHEAD_BYTES)
    read_more(c);
}

void httpd_conn_answered(struct httpd_conn *c) {
  if (c->cut) {
    httpd_conn_cut(c);
  } else if (!c->parser.keep_alive) {
    httpd_conn_drain(c);
  } else {
    c->state = HTTPD_IDLE;
    if (c->ahead.len && !c->feeding)
      loop_ready(c->server->loop, &c->task);
  }
}

void httpd_conn_accept(struct httpd *server, uv_stream_t *listener) {
  struct httpd_conn *c = MEM_NEW(struct httpd_conn);
  loop_now(server->loop);
  int rc = uv_tcp_init(loop_uv(server->loop), &c->tcp);
  assert(rc == 0); /* no descriptor is made here */
  c->tcp.data = c;
  c->server = server;
  c->task.run = on_task;
  loop_timer_init(&c->timer, on_linger);
  buf_init(&c->ahead, BUF_MAX_OWN);
  httpd_parser_init(&c->parser, server->options.max_body, server->options.max_headers);
  httpd_ref(server);
  c->next = server->conns;
  if (c->next)
    c->next->prev = c;
  server->conns = c;
  server->n_conns++;
  rc = uv_accept(listener, stream_of(c));
  if (rc) {
    httpd_conn_cut(c);
  } else if (server->options.on_accept && !server->options.on_accept(server->options.user)) {
    httpd_reset_connection(&c->request);
  } else if (!c->cut) { /* on_accept may have closed the server */
    uv_tcp_nodelay(&c->tcp, 1);
    read_more(c);
  }
}

/* ---- writing ---- */

struct rest {
  uv_write_t write;
  char data[];
};

static void on_written(uv_write_t *write, int status) {
  struct httpd_conn *c = write->handle->data;
  mem_free(CONTAINER_OF(write, struct rest, write));
  if (status < 0 && !c->cut && !c->lost) {
    c->lost = true;
    loop_ready(c->server->loop, &c->task);
  }
}

void httpd_conn_write(struct httpd_conn *c, const uv_buf_t *bufs, size_t n) {
  if (c->cut || c->lost)
    return;
  int rc = uv_try_write(stream_of(c), bufs, (unsigned)n);
  size_t sent = rc > 0 ? (size_t)rc : 0, total = 0;
  for (size_t i = 0; i < n; i++)
    total += bufs[i].len;
  if (sent == total)
    return;
  if (rc >= 0 || rc == UV_EAGAIN) {
    struct rest *rest = mem_alloc(sizeof *rest + total - sent);
    uv_buf_t b = uv_buf_init(rest->data, (unsigned)(total - sent));
    char *to = rest->data;
    for (size_t i = 0, skip = sent; i < n; i++) {
      size_t from = skip < bufs[i].len ? skip : bufs[i].len;
      skip -= from;
      memcpy(to, bufs[i].base + from, bufs[i].len - from);
      to += bufs[i].len - from;
    }
    rc = uv_write(&rest->write, stream_of(c), &b, 1, on_written);
    if (rc == 0)
      return;
    mem_free(rest);
  }
  c->lost = true;
  loop_ready(c->server->loop, &c->task);
}
