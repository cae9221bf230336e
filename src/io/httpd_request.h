/* httpd_request.h: a request as the server's files see it, and requests that no socket brought.
 *
 * A request in memory (a dry run's, a test's) reaches the same handler as one from a socket and is
 * asked and answered by the same functions of httpd.h; what is answered goes to `peer` instead of a
 * connection. Whoever makes one embeds struct httpd_memory. All on the loop's thread. */
#ifndef IO_HTTPD_REQUEST_H
#define IO_HTTPD_REQUEST_H

#include "base/buf.h"
#include "io/httpd.h"

enum httpd_ending {
  HTTPD_ENDED,  /* the answer is whole */
  HTTPD_CLOSED, /* the connection was closed in the middle of it */
  HTTPD_RESET   /* or reset */
};

/* Where answers in memory go. `end` is the last call and comes once, unless httpd_memory_leave was
 * called; in it the memory may be freed, and the handler does not touch the request any more. */
struct httpd_peer {
  /* `headers` as the handler gave them ("Name: value\r\n"…; NULL: none). `length`: of the body that
   * is promised; HTTPD_CHUNKED: it comes in pieces. */
  void (*head)(struct httpd_request *req, int status, const char *headers, size_t length);
  void (*body)(struct httpd_request *req, const void *data, size_t len); /* one write of it */
  void (*end)(struct httpd_request *req, enum httpd_ending how);
  /* Instead of `body`: httpd_takes, httpd_tell; NULL: never. */
  bool (*takes)(const struct httpd_request *req, size_t text, size_t events);
  void (*tell)(struct httpd_request *req, const struct openai_told *told);
};
#define HTTPD_CHUNKED SIZE_MAX

struct httpd_request {
  uint64_t received_ns;
  void *user;
  void (*on_close)(struct httpd_request *req, void *user);
  void (*on_look)(struct httpd_request *req, void *user); /* in memory */
  bool chunked, bodyless;
  bool in_memory; /* it is struct httpd_memory's */
};

struct httpd_memory {
  struct httpd_request request;
  const struct httpd_peer *peer;
  struct loop *loop;
  const char *method, *path, *query; /* borrowed; path without the query, query "" when none */
  const char *body;
  size_t body_len;
  struct buf headers; /* "Name: value" lines, each ended by a NUL */
  bool over;          /* answered, or the client left */
};

/* Once for the memory; its buffers are kept from request to request. */
void httpd_memory_init(struct httpd_memory *m, struct loop *loop, const struct httpd_peer *peer);
void httpd_memory_free(struct httpd_memory *m);
/* A request has arrived now: sets everything but method, path, query and body, which the caller has
 * set. `headers`: "Name: value\r\n"…; NULL: none. Hand &m->request to the handler then. */
void httpd_memory_begin(struct httpd_memory *m, const char *headers);
/* The client went away: on_close is called, and what is answered from then on goes nowhere. Not
 * from inside a call of the handler's. Without on_close the memory must stay until the answer is
 * complete, which `end` does not say then. */
void httpd_memory_leave(struct httpd_memory *m);

/* Has the handler tell what was sent by now. From the peer's own code, not from inside a call of
 * the handler's. */
void httpd_memory_look(struct httpd_memory *m);

/* For httpd.c and httpd_reply.c. */
const char *httpd_memory_header(const struct httpd_memory *m, const char *name);
void httpd_memory_end(struct httpd_memory *m, enum httpd_ending how);

static inline struct httpd_memory *httpd_memory_of(const struct httpd_request *req) {
  return CONTAINER_OF(req, struct httpd_memory, request);
}

#endif
