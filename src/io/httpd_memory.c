/* httpd_memory.c: requests that come from memory, from their arrival to their end. */
#include <string.h>
#include <strings.h>

#include "io/httpd_request.h"

void httpd_memory_init(struct httpd_memory *m, struct loop *loop, const struct httpd_peer *peer) {
  *m = (struct httpd_memory){.loop = loop, .peer = peer, .over = true};
  buf_init(&m->headers, BUF_MAX_OWN);
}

void httpd_memory_free(struct httpd_memory *m) {
  assert(m->over);
  buf_free(&m->headers);
}

void httpd_memory_begin(struct httpd_memory *m, const char *headers) {
  assert(m->over);
  m->request = (struct httpd_request){.in_memory = true, .received_ns = loop_now(m->loop)};
  m->over = false;
  buf_reset(&m->headers);
  for (const char *line = headers, *end; line && (end = strstr(line, "\r\n")); line = end + 2) {
    buf_put(&m->headers, line, (size_t)(end - line));
    buf_putc(&m->headers, '\0');
  }
}

void httpd_memory_leave(struct httpd_memory *m) {
  if (m->over)
    return;
  m->over = true;
  struct httpd_request *req = &m->request;
  if (req->on_close)
    req->on_close(req, req->user);
}

const char *httpd_memory_header(const struct httpd_memory *m, const char *name) {
  size_t len = strlen(name);
  for (const char *p = m->headers.data, *end = p + m->headers.len; p < end; p += strlen(p) + 1)
    if (strncasecmp(p, name, len) == 0 && p[len] == ':')
      return p + len + 1 + strspn(p + len + 1, " \t");
  return NULL;
}

bool httpd_takes(const struct httpd_request *req, size_t text, size_t events) {
  if (!req->in_memory || req->bodyless)
    return false;
  const struct httpd_memory *m = httpd_memory_of(req);
  return !m->over && m->peer->takes && m->peer->takes(req, text, events);
}

void httpd_tell(struct httpd_request *req, const struct openai_told *told) {
  struct httpd_memory *m = httpd_memory_of(req);
  if (!m->over)
    m->peer->tell(req, told);
}

void httpd_on_look(struct httpd_request *req, void (*fn)(struct httpd_request *req, void *user)) {
  req->on_look = fn;
}

void httpd_memory_look(struct httpd_memory *m) {
  if (!m->over && m->request.on_look)
    m->request.on_look(&m->request, m->request.user);
}

void httpd_memory_end(struct httpd_memory *m, enum httpd_ending how) {
  if (m->over)
    return;
  m->over = true;
  m->peer->end(&m->request, how);
}
