/* h1_parse.c: llhttp's callbacks into calls of net/exchange.h.
 *
 * The body of a read is collected before it is handed on: chunked framing would cut it into one
 * piece per chunk, and what came in one read must be seen as one. Bytes only move towards the front
 * of the buffer that llhttp has already passed. */
#include "net/h1_parse.h"

#include <string.h>

static int on_message_begin(llhttp_t *llhttp) {
  struct h1_parser *p = llhttp->data;
  p->interim = p->in_body = false;
  http_exchange_head(p->x);
  return 0;
}

static int too_many(llhttp_t *llhttp, int rc) {
  struct h1_parser *p = llhttp->data;
  if (rc)
    p->why = p->in_body ? "its trailers are too long" : "its headers are too long";
  return rc ? -1 : 0;
}

/* Trailers are counted, not kept. */
static int count(llhttp_t *llhttp, size_t len) {
  struct h1_parser *p = llhttp->data;
  return too_many(llhttp, http_exchange_count_head(p->x, len));
}

static int on_status(llhttp_t *llhttp, const char *at, size_t len) {
  (void)at;
  return count(llhttp, len);
}

static int on_header_field(llhttp_t *llhttp, const char *at, size_t len) {
  struct h1_parser *p = llhttp->data;
  int rc = count(llhttp, len);
  return rc || p->in_body ? rc : too_many(llhttp, http_exchange_header_name(p->x, at, len));
}

static int on_header_field_complete(llhttp_t *llhttp) {
  struct h1_parser *p = llhttp->data;
  return p->in_body ? 0 : too_many(llhttp, http_exchange_header_name_end(p->x));
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t len) {
  struct h1_parser *p = llhttp->data;
  int rc = count(llhttp, len);
  return rc || p->in_body ? rc : too_many(llhttp, http_exchange_header_value(p->x, at, len));
}

/* Each header with its ": " and line break. */
static int on_header_value_complete(llhttp_t *llhttp) {
  struct h1_parser *p = llhttp->data;
  int rc = count(llhttp, 4);
  return rc || p->in_body ? rc : too_many(llhttp, http_exchange_header_value_end(p->x));
}

/* What no client may take for a reply, whatever llhttp thinks of it. */
static const char *refusal(const llhttp_t *llhttp, const struct http_request *r) {
  size_t len = 0;
  if (llhttp->http_major != 1)
    return "its version is not HTTP/1";
  if (llhttp->status_code < 100)
    return "its status is none";
  if (llhttp->status_code == 101)
    return "it wants to switch protocols";
  if (llhttp->flags & F_TRANSFER_ENCODING) {
    const char *coding = http_response_header(r, "transfer-encoding", &len);
    if (!coding || http_odd_transfer_coding(coding, len))
      return "its Transfer-Encoding is one that nobody asked for";
  }
  return NULL;
}

/* Returns 1 where no body may follow whatever the headers say. */
static int on_headers_complete(llhttp_t *llhttp) {
  struct h1_parser *p = llhttp->data;
  int status = llhttp->status_code;
  p->why = refusal(llhttp, p->x->request);
  if (p->why)
    return -1;
  if (status < 200) {
    p->interim = true;
    return count(llhttp, 16);
  }
  p->in_body = true;
  http_exchange_headers_done(p->x, status, p->read);
  return p->head_request || status == 204 || status == 304 ? 1 : 0;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t len) {
  struct h1_parser *p = llhttp->data;
  if (!p->body)
    p->body = (char *)at; /* it is in the caller's buffer, which may be written to */
  else
    memmove(p->body + p->body_len, at, len);
  p->body_len += len;
  p->pieces++;
  return 0;
}

static int on_message_complete(llhttp_t *llhttp) {
  struct h1_parser *p = llhttp->data;
  if (p->interim)
    return 0;
  p->whole = true;
  p->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
  return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_message_begin = on_message_begin,
    .on_status = on_status,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

void h1_parser_begin(struct h1_parser *p, struct http_exchange *x) {
  llhttp_init(&p->llhttp, HTTP_RESPONSE, &settings);
  p->llhttp.data = p;
  p->x = x;
  p->why = NULL;
  p->head_request = strcmp(x->request->method, "HEAD") == 0;
  p->interim = p->whole = p->in_body = p->keep_alive = false;
}

enum h1_verdict h1_parser_feed(struct h1_parser *p, char *bytes, size_t len,
                               const struct http_read *read, size_t *used) {
  p->read = read;
  p->body = NULL;
  p->body_len = p->pieces = 0;
  llhttp_errno_t rc = llhttp_execute(&p->llhttp, bytes, len);
  *used = len;
  if (p->body_len && http_exchange_body(p->x, p->body, p->body_len, read))
    return H1_STOP;
  if (p->whole) {
    *used = (size_t)(llhttp_get_error_pos(&p->llhttp) - bytes);
    return H1_WHOLE;
  }
  if (rc == HPE_OK)
    return H1_MORE;
  if (!p->why)
    p->why = llhttp_get_error_reason(&p->llhttp);
  return H1_GARBLED;
}

enum h1_verdict h1_parser_finish(struct h1_parser *p, const struct http_read *read) {
  p->read = read;
  llhttp_errno_t rc = llhttp_finish(&p->llhttp);
  if (p->whole) {
    p->keep_alive = false;
    return H1_WHOLE;
  }
  (void)rc; /* an end in the middle, or before the first byte */
  return H1_MORE;
}
