/* httpd.h: an HTTP/1.1 server on the loop: the fleet, the gateway and test servers stand on it.
 *
 * uv_tcp and llhttp. Keep-alive and pipelining; bodies are collected up to max_body and handed over
 * whole; replies are whole or streamed in chunks. One request at a time per connection reaches the
 * handler. No handler runs inside a call it made: what follows an answer or a failed write comes
 * later. Bad input is answered here (400, 413, 431, 505) and ends the connection. A client that
 * ends its side while a request is open counts as gone. */
#ifndef IO_HTTPD_H
#define IO_HTTPD_H

#include "base/err.h"
#include "io/loop.h"

struct httpd;
struct httpd_request;
struct openai_told;

struct httpd_options {
  const char *host;   /* an address; NULL = 127.0.0.1 */
  int port;           /* 0 = any free one, see httpd_port */
  size_t max_body;    /* 0 = 64 MiB; beyond: 413 */
  size_t max_headers; /* 0 = 64 KiB; beyond: 431 */
  /* A whole request has arrived. The request lives until its answer is complete, or on_close (set
   * with httpd_on_close) has returned. Without on_close it lives until it is answered, also when
   * the client has left; such an answer goes nowhere. May run inside the poll: no Lua here. */
  void (*on_request)(void *user, struct httpd_request *req);
  void *user;
  /* Called in accept, before anything is read; returning false resets the connection (a "refuse"
   * fault). May be NULL. */
  bool (*on_accept)(void *user);
};

/* ERR_IO names address and port ("127.0.0.1:8000 is in use by another process; choose …");
 * ERR_INVALID: host is not an address (names are not resolved), or the port is out of range. */
NODISCARD int httpd_listen(struct loop *loop, const struct httpd_options *options,
                           struct httpd **out, struct err *err);
int httpd_port(const struct httpd *server);
/* Stops listening and closes every connection; on_close of open requests is called, from in here.
 * Open requests without on_close must still be answered, before loop_delete. */
void httpd_close(struct httpd *server);
/* Stops accepting (the port refuses, and nobody else gets it meanwhile); open connections go on.
 * listen again with httpd_resume. */
void httpd_pause(struct httpd *server);
NODISCARD int httpd_resume(struct httpd *server, struct err *err);
/* Resets every connection, as the end of a process does; on_close of open requests is called, from
 * in here. The port is as it was. */
void httpd_reset_all(struct httpd *server);
size_t httpd_connections(const struct httpd *server);

const char *httpd_method(const struct httpd_request *req); /* "POST" */
const char *httpd_path(const struct httpd_request *req);   /* without the query */
const char *httpd_query(const struct httpd_request *req);  /* "" when none */
/* Value of a header, name in any case; NULL when absent. Dies with the request. */
const char *httpd_header(const struct httpd_request *req, const char *name);
const char *httpd_body(const struct httpd_request *req, size_t *len);
/* When the request's last byte was read (loop stamp, ns). */
uint64_t httpd_received_ns(const struct httpd_request *req);
struct loop *httpd_loop(const struct httpd_request *req);
/* A pointer of the handler's own, kept with the request. */
void httpd_set_user(struct httpd_request *req, void *user);
void *httpd_user(const struct httpd_request *req);
/* The client went away (or the server closed) before the answer was complete. The request dies on
 * return. */
void httpd_on_close(struct httpd_request *req, void (*fn)(struct httpd_request *req, void *user));

/* Whole answer; ends the request. `headers` is "Name: value\r\n…" or NULL; Content-Length and
 * Connection are added. */
void httpd_reply(struct httpd_request *req, int status, const char *headers, const void *body,
                 size_t len);
/* Chunked answer. Each httpd_write is one chunk and, unless corked by the kernel, one packet. */
void httpd_stream(struct httpd_request *req, int status, const char *headers);
void httpd_write(struct httpd_request *req, const void *data, size_t len);
/* Whether events of a chunked answer, so many with so many bytes of text in all, may be told
 * without their bytes: to a peer in memory (text/openai.h). Asked behind httpd_stream. */
NODISCARD bool httpd_takes(const struct httpd_request *req, size_t text, size_t events);
/* Tells some of them, also later than they were sent. */
void httpd_tell(struct httpd_request *req, const struct openai_told *told);
/* Such a peer is about to look at what it has: tell it what was sent by now. */
void httpd_on_look(struct httpd_request *req, void (*fn)(struct httpd_request *req, void *user));
void httpd_end(struct httpd_request *req);
/* Bytes not yet taken by the kernel: a slow client shows here. */
size_t httpd_pending(const struct httpd_request *req);

/* For faults: an answer that promises `len` bytes of body, gives the first `sent` (< len) and ends
 * with the connection, cleanly; the request is over. Bytes straight onto the socket; a clean close
 * (FIN behind what is queued, also in mid-answer; then up to 30 s of reading what the client still
 * sends); a reset (RST, now). After close or reset the request is over and on_close is not called.
 */
void httpd_half(struct httpd_request *req, int status, const char *headers, const void *body,
                size_t len, size_t sent);
void httpd_raw(struct httpd_request *req, const void *data, size_t len);
void httpd_close_connection(struct httpd_request *req);
void httpd_reset_connection(struct httpd_request *req);

#endif
