/* httpd_parse.c: HTTP/1.0 and 1.1 requests through llhttp.
 *
 * llhttp pauses itself at the end of each request, so bytes of the next one are left to the caller.
 * Upgrades and CONNECT are treated as ordinary requests: a server may ignore the wish. Trailers are
 * read and dropped. Limits are checked before memory is taken. */
#include "io/httpd_parse.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

/* What a request leaves behind for the next one; more than this goes back to the system. */
#define KEEP_BYTES ((size_t)16 * 1024)
/* Taken at once when the length is announced; a client's word alone is worth no more. */
#define TRUST_BYTES ((size_t)1024 * 1024)
/* ": " and the line's end */
#define LINE_BYTES 4

static int refuse(struct httpd_parser *p, int status, const char *text) {
  p->bad_status = status;
  snprintf(p->bad_text, sizeof p->bad_text, "%s", text);
  return HPE_USER;
}

static int refuse_body(struct httpd_parser *p) {
  refuse(p, 413, "");
  snprintf(p->bad_text, sizeof p->bad_text, "the body is longer than %zu bytes", p->max_body);
  return HPE_USER;
}

/* Counts bytes of the head; the limit keeps every offset within 32 bits. */
static int count_head(struct httpd_parser *p, size_t len) {
  p->head_bytes += len;
  if (p->head_bytes <= p->max_headers)
    return 0;
  refuse(p, 431, "");
  snprintf(p->bad_text, sizeof p->bad_text, "request line and headers are longer than %zu bytes",
           p->max_headers);
  return HPE_USER;
}

static int add_head(struct httpd_parser *p, const char *at, size_t len) {
  int rc = count_head(p, len);
  if (!rc && !p->headers_done)
    buf_put(&p->head, at, len);
  return rc;
}

static int on_text(llhttp_t *ll, const char *at, size_t len) {
  return add_head(ll->data, at, len);
}

/* "/a?b" is split in place; of "http://host/a" the path counts; what is neither stays whole. */
static int on_url_complete(llhttp_t *ll) {
  struct httpd_parser *p = ll->data;
  buf_putc(&p->head, '\0');
  char *url = p->head.data, *path = url;
  if (*url != '/') {
    char *authority = strstr(url, "://");
    if (authority) {
      path = authority + 3 + strcspn(authority + 3, "/?#");
      if (*path != '/') { /* no path: make room for one where "://" was */
        size_t tail = strlen(path);
        memmove(url + 1, path, tail + 1);
        *url = '/';
        path = url;
      }
    }
  }
  p->path = (size_t)(path - url);
  char *mark = strchr(path, '?');
  if (mark)
    *mark = '\0';
  p->query = mark ? (size_t)(mark + 1 - url) : p->path + strlen(path);
  size_t method = strlen(llhttp_method_name((llhttp_method_t)ll->method));
  return count_head(p, method + sizeof "  HTTP/1.1\r\n" - 1);
}

/* The offset of each name and value is where the one before ended. */
static int on_field(llhttp_t *ll, const char *at, size_t len) {
  struct httpd_parser *p = ll->data;
  if (!p->headers_done && !p->in_field) {
    p->in_field = true;
    MEM_GROW(p->headers, p->n_headers, p->cap_headers);
    p->headers[p->n_headers++] = (struct httpd_parser_header){.name = (uint32_t)p->head.len};
  }
  return add_head(p, at, len);
}

static int on_field_complete(llhttp_t *ll) {
  struct httpd_parser *p = ll->data;
  if (p->headers_done)
    return 0;
  struct httpd_parser_header *h = &p->headers[p->n_headers - 1];
  buf_putc(&p->head, '\0');
  h->value = (uint32_t)p->head.len;
  p->in_field = false;
  if (!strchr(p->head.data + h->name, ' '))
    return 0;
  refuse(p, 400, "Space in a header name"); /* llhttp as Debian builds it lets it pass */
  return -1;
}

static int on_value_complete(llhttp_t *ll) {
  struct httpd_parser *p = ll->data;
  if (!p->headers_done) {
    size_t start = p->headers[p->n_headers - 1].value;
    while (p->head.len > start &&
           (p->head.data[p->head.len - 1] == ' ' || p->head.data[p->head.len - 1] == '\t'))
      p->head.len--;
    buf_putc(&p->head, '\0');
  }
  return count_head(p, LINE_BYTES);
}

static int on_headers_complete(llhttp_t *ll) {
  struct httpd_parser *p = ll->data;
  p->headers_done = true;
  if (ll->http_major != 1 || ll->http_minor > 1) {
    refuse(p, 505, "HTTP/1.0 and HTTP/1.1 are spoken here");
    return -1;
  }
  ll->upgrade = 0;
  p->method = llhttp_method_name((llhttp_method_t)ll->method);
  p->http10 = ll->http_minor == 0;
  p->keep_alive = llhttp_should_keep_alive(ll);
  bool chunked = ll->flags & F_CHUNKED;
  if (!chunked && ll->content_length > p->max_body) {
    refuse_body(p);
    return -1;
  }
  if (chunked || ll->content_length > 0) {
    const char *expect = httpd_parser_header(p, "expect");
    p->expects_continue = expect && !p->http10 && !strcasecmp(expect, "100-continue");
    if (!chunked) {
      size_t want = ll->content_length < TRUST_BYTES ? (size_t)ll->content_length : TRUST_BYTES;
      int rc = buf_reserve(&p->body, want);
      assert(rc == 0);
      (void)rc;
    }
  }
  return 0;
}

static int on_body(llhttp_t *ll, const char *at, size_t len) {
  struct httpd_parser *p = ll->data;
  return buf_add(&p->body, at, len) ? refuse_body(p) : 0;
}

static int on_message_complete(llhttp_t *ll) {
  struct httpd_parser *p = ll->data;
  p->complete = true;
  return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_text,
    .on_url_complete = on_url_complete,
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_text,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

void httpd_parser_init(struct httpd_parser *p, size_t max_body, size_t max_headers) {
  assert(max_headers < UINT32_MAX / 2);
  *p = (struct httpd_parser){.max_body = max_body, .max_headers = max_headers};
  buf_init(&p->head, BUF_MAX_OWN);
  buf_init(&p->body, max_body);
  llhttp_init(&p->llhttp, HTTP_REQUEST, &settings);
  p->llhttp.data = p;
}

void httpd_parser_free(struct httpd_parser *p) {
  buf_free(&p->head);
  buf_free(&p->body);
  mem_free(p->headers);
}

static void reuse(struct buf *b) {
  if (b->cap > KEEP_BYTES)
    buf_free(b);
  else
    buf_reset(b);
}

static void next_request(struct httpd_parser *p) {
  reuse(&p->head);
  reuse(&p->body);
  p->n_headers = p->head_bytes = 0;
  p->method = NULL;
  p->complete = p->headers_done = p->expects_continue = false;
  llhttp_resume(&p->llhttp);
}

enum httpd_parse httpd_parser_feed(struct httpd_parser *p, const char *data, size_t len,
                                   size_t *used) {
  assert(!p->bad_status);
  if (p->complete)
    next_request(p);
  llhttp_errno_t rc = llhttp_execute(&p->llhttp, data, len);
  *used = len;
  if (rc == HPE_OK)
    return HTTPD_PARSE_MORE;
  if (rc == HPE_PAUSED && p->complete) {
    *used = (size_t)(llhttp_get_error_pos(&p->llhttp) - data);
    if (!p->body.data)
      buf_put(&p->body, "", 0);
    return HTTPD_PARSE_REQUEST;
  }
  if (!p->bad_status) {
    const char *reason = llhttp_get_error_reason(&p->llhttp);
    refuse(p, 400, reason && *reason ? reason : llhttp_errno_name(rc));
  }
  return HTTPD_PARSE_BAD;
}

const char *httpd_parser_header(const struct httpd_parser *p, const char *name) {
  for (size_t i = 0; i < p->n_headers; i++)
    if (!strcasecmp(p->head.data + p->headers[i].name, name))
      return p->head.data + p->headers[i].value;
  return NULL;
}
