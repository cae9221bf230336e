/* httpd.c: the server: its listening socket, its life, and what a handler may ask of a request. */
#include "io/httpd.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/httpd_internal.h"

#define DEFAULT_MAX_BODY ((size_t)64 << 20)
#define DEFAULT_MAX_HEADERS ((size_t)64 << 10)
/* Thousands of sessions start together; the kernel cuts this to its own limit. */
#define BACKLOG 4096

void httpd_ref(struct httpd *server) {
  server->refs++;
}

void httpd_unref(struct httpd *server) {
  if (--server->refs)
    return;
  buf_free(&server->out);
  mem_free((char *)server->options.host);
  mem_free(server);
}

static void on_connection(uv_stream_t *stream, int status) {
  struct httpd *server = ((struct httpd_listener *)stream->data)->server;
  if (status < 0)
    log_warn("cannot accept a connection port=%d reason=\"%s\"", server->port, uv_strerror(status));
  else
    httpd_conn_accept(server, stream);
}

static void on_listener_closed(uv_handle_t *handle) {
  struct httpd_listener *l = handle->data;
  httpd_unref(l->server);
  mem_free(l);
}

static int parse_address(const char *host, int port, struct sockaddr_storage *out,
                         struct err *err) {
  if (port < 0 || port > 65535)
    return err_set(err, ERR_INVALID, "port %d: a port is 1 to 65535, or 0 for any free one", port);
  if (uv_ip4_addr(host, port, (struct sockaddr_in *)out) &&
      uv_ip6_addr(host, port, (struct sockaddr_in6 *)out))
    return err_set(err, ERR_INVALID,
                   "\"%s\" is not an address; give one like 127.0.0.1, ::1 or 0.0.0.0", host);
  return 0;
}

static int bind_error(const char *host, int port, int rc, struct err *err) {
  const char *open = strchr(host, ':') ? "[" : "", *close = *open ? "]" : "";
  if (rc == UV_EADDRINUSE)
    return err_set(err, ERR_IO,
                   "%s%s%s:%d is in use by another process; choose another port or 0 for any free "
                   "one",
                   open, host, close, port);
  if (rc == UV_EACCES)
    return err_set(err, ERR_IO,
                   "%s%s%s:%d may not be used by this user; choose a port from 1024 on or 0 for "
                   "any free one",
                   open, host, close, port);
  if (rc == UV_EADDRNOTAVAIL)
    return err_set(err, ERR_IO,
                   "%s%s%s:%d: this machine has no such address; 127.0.0.1 is always there", open,
                   host, close, port);
  return err_set(err, ERR_IO, "cannot listen on %s%s%s:%d: %s", open, host, close, port,
                 uv_strerror(rc));
}

static void close_listener(struct httpd *server) {
  if (server->listener)
    uv_close((uv_handle_t *)&server->listener->tcp, on_listener_closed);
  server->listener = NULL;
  server->listening = false;
}

static int bind_listener(struct httpd *server, struct err *err) {
  struct sockaddr_storage address;
  int rc = parse_address(server->options.host, server->port, &address, err);
  if (rc)
    return rc;
  struct httpd_listener *l = MEM_NEW(struct httpd_listener);
  l->server = server;
  uv_tcp_init(loop_uv(server->loop), &l->tcp);
  l->tcp.data = l;
  httpd_ref(server);
  server->listener = l;
  rc = uv_tcp_bind(&l->tcp, (const struct sockaddr *)&address, 0);
  if (rc) {
    close_listener(server);
    return bind_error(server->options.host, server->port, rc, err);
  }
  return 0;
}

static int open_listener(struct httpd *server, struct err *err) {
  struct sockaddr_storage address;
  int rc = server->listener ? 0 : bind_listener(server, err);
  if (rc)
    return rc;
  struct httpd_listener *l = server->listener;
  rc = uv_listen((uv_stream_t *)&l->tcp, BACKLOG, on_connection);
  int length = sizeof address;
  if (!rc)
    rc = uv_tcp_getsockname(&l->tcp, (struct sockaddr *)&address, &length);
  if (rc) {
    close_listener(server);
    return bind_error(server->options.host, server->port, rc, err);
  }
  server->listening = true;
  server->port = ntohs(((const struct sockaddr_in *)&address)->sin_port); /* same place in IPv6 */
  return 0;
}

int httpd_listen(struct loop *loop, const struct httpd_options *options, struct httpd **out,
                 struct err *err) {
  struct httpd *server = MEM_NEW(struct httpd);
  server->loop = loop;
  server->options = *options;
  server->options.host = mem_strdup(options->host ? options->host : "127.0.0.1");
  if (!options->max_body)
    server->options.max_body = DEFAULT_MAX_BODY;
  if (!options->max_headers)
    server->options.max_headers = DEFAULT_MAX_HEADERS;
  server->port = options->port;
  server->refs = 1;
  buf_init(&server->out, BUF_MAX_OWN);
  int rc = open_listener(server, err);
  if (rc) {
    httpd_unref(server);
    return rc;
  }
  *out = server;
  return 0;
}

int httpd_port(const struct httpd *server) {
  return server->port;
}

void httpd_close(struct httpd *server) {
  close_listener(server);
  while (server->conns) /* on_close may end others as well */
    httpd_conn_abort(server->conns);
  httpd_unref(server);
}

/* A socket that is bound and does not listen refuses connections, and keeps the port from becoming
 * the local end of somebody's connection. */
void httpd_pause(struct httpd *server) {
  struct err err;
  if (!server->listening)
    return;
  close_listener(server);
  if (bind_listener(server, &err))
    log_warn("a closed port is not kept: %s", err.text);
}

int httpd_resume(struct httpd *server, struct err *err) {
  return server->listening ? 0 : open_listener(server, err);
}

void httpd_reset_all(struct httpd *server) {
  while (server->conns) { /* on_close may end others as well */
    httpd_conn_linger_none(server->conns);
    httpd_conn_abort(server->conns);
  }
}

size_t httpd_connections(const struct httpd *server) {
  return server->n_conns;
}

/* ---- the request, for its handler ---- */

const char *httpd_method(const struct httpd_request *req) {
  return req->in_memory ? httpd_memory_of(req)->method : httpd_conn_of(req)->parser.method;
}

const char *httpd_path(const struct httpd_request *req) {
  if (req->in_memory)
    return httpd_memory_of(req)->path;
  const struct httpd_parser *p = &httpd_conn_of(req)->parser;
  return p->head.data + p->path;
}

const char *httpd_query(const struct httpd_request *req) {
  if (req->in_memory)
    return httpd_memory_of(req)->query;
  const struct httpd_parser *p = &httpd_conn_of(req)->parser;
  return p->head.data + p->query;
}

const char *httpd_header(const struct httpd_request *req, const char *name) {
  if (req->in_memory)
    return httpd_memory_header(httpd_memory_of(req), name);
  return httpd_parser_header(&httpd_conn_of(req)->parser, name);
}

const char *httpd_body(const struct httpd_request *req, size_t *len) {
  const struct httpd_memory *m = req->in_memory ? httpd_memory_of(req) : NULL;
  const struct buf *body = m ? NULL : &httpd_conn_of(req)->parser.body;
  if (len)
    *len = m ? m->body_len : body->len;
  return m ? m->body : body->data;
}

uint64_t httpd_received_ns(const struct httpd_request *req) {
  return req->received_ns;
}

struct loop *httpd_loop(const struct httpd_request *req) {
  return req->in_memory ? httpd_memory_of(req)->loop : httpd_conn_of(req)->server->loop;
}

void httpd_set_user(struct httpd_request *req, void *user) {
  req->user = user;
}

void *httpd_user(const struct httpd_request *req) {
  return req->user;
}

void httpd_on_close(struct httpd_request *req, void (*fn)(struct httpd_request *req, void *user)) {
  req->on_close = fn;
}
