/* httpd_internal.h: what the files of the HTTP server share; nobody else includes it.
 *
 * A connection is one block of memory with its one request inside. It lives until its socket is
 * closed and no handler holds the request. The server lives until its last connection is gone. */
#ifndef IO_HTTPD_INTERNAL_H
#define IO_HTTPD_INTERNAL_H

#include <uv.h>

#include "io/httpd.h"
#include "io/httpd_parse.h"
#include "io/httpd_request.h"

/* One read takes up to this much. */
#define HTTPD_READ_BYTES ((size_t)64 * 1024)
/* Bytes of later requests kept while one is being answered; beyond, the socket is not read. */
#define HTTPD_AHEAD_BYTES ((size_t)256 * 1024)
/* A connection that we ended is cut when its client sends nothing for so long, or does not end its
 * side at all. */
#define HTTPD_LINGER_NS NS_PER_S
#define HTTPD_LINGER_MOST_NS (30 * NS_PER_S)

struct httpd_listener {
  uv_tcp_t tcp;
  struct httpd *server;
};

struct httpd {
  struct loop *loop;
  struct httpd_options options;    /* host is ours; limits are filled in */
  struct httpd_listener *listener; /* while paused it is bound and does not listen, or NULL */
  bool listening;
  struct httpd_conn *conns; /* with an open socket */
  size_t n_conns;
  size_t refs; /* the owner until httpd_close, listeners, connections */
  int port;
  struct buf out; /* the head of an answer, while it is put together */
  char read[HTTPD_READ_BYTES];
};

enum httpd_state {
  HTTPD_IDLE,   /* reading a request */
  HTTPD_OPEN,   /* the handler has it */
  HTTPD_STREAM, /* the head of a chunked answer is out */
  HTTPD_DRAIN,  /* we ended it: send what is queued, FIN, wait for the client's end */
  HTTPD_OVER    /* nothing more to do but free it */
};

struct httpd_conn {
  uv_tcp_t tcp;
  uv_shutdown_t shutdown;
  struct httpd *server;
  struct httpd_conn *prev, *next; /* in server->conns */
  struct httpd_parser parser;
  struct httpd_request request;
  enum httpd_state state;
  bool cut;     /* uv_close was called */
  bool closed;  /* and has finished */
  bool lost;    /* a write failed: `task` will say so */
  bool ended;   /* the client sent FIN */
  bool flushed; /* our FIN is out */
  bool reading; /* libuv reads */
  bool feeding; /* inside httpd_conn_feed */
  uint64_t read_ns;
  struct buf ahead;        /* bytes behind the present request */
  struct loop_task task;   /* goes on with `ahead`, or reports `lost` */
  struct loop_timer timer; /* the linger */
  uint64_t linger_end_ns;
};

void httpd_ref(struct httpd *server);
void httpd_unref(struct httpd *server);

/* Takes a new connection from the listener. */
void httpd_conn_accept(struct httpd *server, uv_stream_t *listener);
/* Sends, at once as far as the kernel takes it; the rest is copied and queued. */
void httpd_conn_write(struct httpd_conn *c, const uv_buf_t *bufs, size_t n);
/* The answer is complete: next request, or the end of the connection. */
void httpd_conn_answered(struct httpd_conn *c);
/* FIN behind what is queued; the request is over. */
void httpd_conn_drain(struct httpd_conn *c);
/* Closes the socket now; an open request's on_close is called. */
void httpd_conn_abort(struct httpd_conn *c);
/* What is closed next ends with a reset. */
void httpd_conn_linger_none(const struct httpd_conn *c);
/* Closes the socket now, without a word to the handler. */
void httpd_conn_cut(struct httpd_conn *c);
/* A short answer of the server's own, and then the end. */
void httpd_conn_refuse(struct httpd_conn *c, int status, const char *text);

static inline struct httpd_conn *httpd_conn_of(const struct httpd_request *req) {
  return CONTAINER_OF(req, struct httpd_conn, request);
}

#endif
