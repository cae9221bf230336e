/* httpd_reply.c: answers: whole ones, chunked ones, and the faults that tests ask for. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "io/httpd_internal.h"

#define SMALL_BYTES 4096

static const char *reason(int status) {
  static const struct {
    int status;
    const char *text;
  } table[] = {{200, "OK"},
               {201, "Created"},
               {202, "Accepted"},
               {204, "No Content"},
               {301, "Moved Permanently"},
               {302, "Found"},
               {303, "See Other"},
               {304, "Not Modified"},
               {307, "Temporary Redirect"},
               {308, "Permanent Redirect"},
               {400, "Bad Request"},
               {401, "Unauthorized"},
               {403, "Forbidden"},
               {404, "Not Found"},
               {405, "Method Not Allowed"},
               {408, "Request Timeout"},
               {409, "Conflict"},
               {413, "Content Too Large"},
               {415, "Unsupported Media Type"},
               {422, "Unprocessable Content"},
               {429, "Too Many Requests"},
               {431, "Request Header Fields Too Large"},
               {499, "Client Closed Request"},
               {500, "Internal Server Error"},
               {501, "Not Implemented"},
               {502, "Bad Gateway"},
               {503, "Service Unavailable"},
               {504, "Gateway Timeout"},
               {505, "HTTP Version Not Supported"}};
  for (size_t i = 0; i < ARRAY_LEN(table); i++)
    if (table[i].status == status)
      return table[i].text;
  return "Status";
}

#define PUT_LITERAL(b, text) buf_put((b), (text), sizeof(text) - 1)

/* Status line and the handler's headers; the caller adds its own and ends the head. */
static struct buf *begin_head(struct httpd_conn *c, int status, const char *headers) {
  struct buf *out = &c->server->out;
  buf_reset(out);
  PUT_LITERAL(out, "HTTP/1.1 ");
  buf_put_uint(out, (size_t)status);
  buf_putc(out, ' ');
  buf_puts(out, reason(status));
  PUT_LITERAL(out, "\r\n");
  if (headers)
    buf_puts(out, headers);
  return out;
}

static void end_head(struct httpd_conn *c, struct buf *out) {
  if (c->parser.keep_alive)
    PUT_LITERAL(out, "Connection: keep-alive\r\n\r\n");
  else
    PUT_LITERAL(out, "Connection: close\r\n\r\n");
}

/* Statuses that never have a body, nor a length. */
static bool has_no_body(int status) {
  return status < 200 || status == 204 || status == 304;
}

static bool is_head(const struct httpd_request *req) {
  const char *method = httpd_method(req);
  return method && !strcmp(method, "HEAD");
}

static void send_whole(struct httpd_conn *c, int status, const char *headers, const void *body,
                       size_t len) {
  struct buf *out = begin_head(c, status, headers);
  if (has_no_body(status)) {
    len = 0;
  } else {
    PUT_LITERAL(out, "Content-Length: ");
    buf_put_uint(out, len);
    PUT_LITERAL(out, "\r\n");
  }
  end_head(c, out);
  if (is_head(&c->request))
    len = 0;
  if (len <= SMALL_BYTES) { /* copying costs less than a second element of writev */
    buf_put(out, body, len);
    len = 0;
  }
  uv_buf_t bufs[] = {{out->data, out->len}, {(char *)body, len}};
  httpd_conn_write(c, bufs, len ? 2 : 1);
}

/* ---- answers in memory ---- */

static void memory_reply(struct httpd_request *req, int status, const char *headers,
                         const void *body, size_t promised, size_t len) {
  struct httpd_memory *m = httpd_memory_of(req);
  bool none = has_no_body(status) || is_head(req);
  if (m->over)
    return;
  m->peer->head(req, status, headers, none ? 0 : promised);
  if (!none && len)
    m->peer->body(req, body, len);
  httpd_memory_end(m, len < promised && !none ? HTTPD_CLOSED : HTTPD_ENDED);
}

static void memory_stream(struct httpd_request *req, int status, const char *headers) {
  struct httpd_memory *m = httpd_memory_of(req);
  req->bodyless = is_head(req) || has_no_body(status);
  if (!m->over)
    m->peer->head(req, status, headers, HTTPD_CHUNKED);
}

static void memory_write(struct httpd_request *req, const void *data, size_t len) {
  struct httpd_memory *m = httpd_memory_of(req);
  if (!m->over && len && !req->bodyless)
    m->peer->body(req, data, len);
}

/* ---- whole answers ---- */

/* A handler that answers from inside on_close speaks to nobody. */
static bool over(const struct httpd_conn *c) {
  return c->state == HTTPD_OVER;
}

void httpd_reply(struct httpd_request *req, int status, const char *headers, const void *body,
                 size_t len) {
  if (req->in_memory) {
    memory_reply(req, status, headers, body, len, len);
    return;
  }
  struct httpd_conn *c = httpd_conn_of(req);
  if (over(c))
    return;
  assert(c->state == HTTPD_OPEN);
  send_whole(c, status, headers, body, len);
  httpd_conn_answered(c);
}

void httpd_conn_refuse(struct httpd_conn *c, int status, const char *text) {
  char body[160];
  int n = snprintf(body, sizeof body, "%s\n", text);
  c->parser.keep_alive = false;
  send_whole(c, status, "Content-Type: text/plain\r\n", body, (size_t)n);
  httpd_conn_drain(c);
}

/* HTTP/1.0 knows no chunks: there the end of the connection is the end of the answer. */
void httpd_stream(struct httpd_request *req, int status, const char *headers) {
  if (req->in_memory) {
    memory_stream(req, status, headers);
    return;
  }
  struct httpd_conn *c = httpd_conn_of(req);
  if (over(c))
    return;
  assert(c->state == HTTPD_OPEN);
  c->state = HTTPD_STREAM;
  req->bodyless = is_head(req) || has_no_body(status);
  req->chunked = !c->parser.http10 && !has_no_body(status);
  if (c->parser.http10 && !has_no_body(status))
    c->parser.keep_alive = false;
  struct buf *out = begin_head(c, status, headers);
  if (req->chunked)
    PUT_LITERAL(out, "Transfer-Encoding: chunked\r\n");
  end_head(c, out);
  uv_buf_t b = uv_buf_init(out->data, (unsigned)out->len);
  httpd_conn_write(c, &b, 1);
}

void httpd_write(struct httpd_request *req, const void *data, size_t len) {
  if (req->in_memory) {
    memory_write(req, data, len);
    return;
  }
  struct httpd_conn *c = httpd_conn_of(req);
  if (over(c))
    return;
  assert(c->state == HTTPD_STREAM);
  if (!len || req->bodyless) /* a chunk of length 0 would end the answer */
    return;
  char size[20];
  uv_buf_t bufs[] = {{size, 0}, {(char *)data, len}, {(char *)"\r\n", 2}};
  if (req->chunked) {
    bufs[0].len = (size_t)snprintf(size, sizeof size, "%zx\r\n", len);
    httpd_conn_write(c, bufs, 3);
  } else {
    httpd_conn_write(c, bufs + 1, 1);
  }
}

void httpd_end(struct httpd_request *req) {
  if (req->in_memory) {
    httpd_memory_end(httpd_memory_of(req), HTTPD_ENDED);
    return;
  }
  struct httpd_conn *c = httpd_conn_of(req);
  if (over(c))
    return;
  assert(c->state == HTTPD_STREAM);
  if (req->chunked && !req->bodyless) {
    uv_buf_t b = uv_buf_init((char *)"0\r\n\r\n", 5);
    httpd_conn_write(c, &b, 1);
  }
  httpd_conn_answered(c);
}

size_t httpd_pending(const struct httpd_request *req) {
  if (req->in_memory)
    return 0;
  struct httpd_conn *c = httpd_conn_of(req);
  return c->cut ? 0 : uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp);
}

void httpd_half(struct httpd_request *req, int status, const char *headers, const void *body,
                size_t len, size_t sent) {
  if (req->in_memory) {
    memory_reply(req, status, headers, body, len, sent);
    return;
  }
  struct httpd_conn *c = httpd_conn_of(req);
  if (over(c))
    return;
  assert(c->state == HTTPD_OPEN);
  struct buf *out = begin_head(c, status, headers);
  PUT_LITERAL(out, "Content-Length: ");
  buf_put_uint(out, len);
  PUT_LITERAL(out, "\r\n");
  end_head(c, out);
  buf_put(out, body, sent);
  uv_buf_t b = uv_buf_init(out->data, (unsigned)out->len);
  httpd_conn_write(c, &b, 1);
  httpd_conn_drain(c);
}

void httpd_raw(struct httpd_request *req, const void *data, size_t len) {
  assert(!req->in_memory);
  struct httpd_conn *c = httpd_conn_of(req);
  if (over(c) || !len)
    return;
  uv_buf_t b = {(char *)data, len};
  httpd_conn_write(c, &b, 1);
}

void httpd_close_connection(struct httpd_request *req) {
  if (req->in_memory) {
    httpd_memory_end(httpd_memory_of(req), HTTPD_CLOSED);
    return;
  }
  struct httpd_conn *c = httpd_conn_of(req);
  if (!over(c))
    httpd_conn_drain(c);
}

void httpd_conn_linger_none(const struct httpd_conn *c) {
  uv_os_fd_t fd;
  if (!c->cut && uv_fileno((const uv_handle_t *)&c->tcp, &fd) == 0) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
}

void httpd_reset_connection(struct httpd_request *req) {
  if (req->in_memory) {
    httpd_memory_end(httpd_memory_of(req), HTTPD_RESET);
    return;
  }
  struct httpd_conn *c = httpd_conn_of(req);
  if (over(c))
    return;
  httpd_conn_linger_none(c);
  httpd_conn_cut(c);
}
