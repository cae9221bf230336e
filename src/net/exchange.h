/* exchange.h: one request on its way, as transports see it: they report here, and only here.
 *
 * A transport gets an exchange through `start`, tells what happens to it with the calls below, and
 * lets go of it before the one that ends it. Every call is for the client's own thread. The calls
 * that end (http_exchange_end, _broken, _fail) run the request's `done`, so they belong into phase
 * two, outside libcurl's callbacks, as the last thing a function does; http_exchange_fail_later may
 * be called anywhere. Stamps are ns of the loop's clock. */
#ifndef NET_EXCHANGE_H
#define NET_EXCHANGE_H

#include "net/http.h"
#include "net/transport.h"

/* When one read's bytes arrived. */
struct http_read {
  uint64_t loop_ns;    /* phase one of the wake-up that read them, or later when they came later */
  uint64_t kernel_ns;  /* the kernel's stamp of the last of them; 0 = none that can be used */
  uint64_t first_ns;   /* the kernel's stamp of the first of them where it was peeked; 0 = not */
  uint64_t drained_ns; /* when the descriptor was last seen empty; 0 = not known */
};

enum http_body { HTTP_BODY_PLAIN, HTTP_BODY_STREAM, HTTP_BODY_CAPPED };

struct http_exchange {
  /* For transports. */
  struct http_client *client;
  struct http_request *request;
  struct http_target *target;
  void *carrier; /* the transport's own: what carries it now; NULL while it waits in line */
  struct http_exchange *line_next, *line_prev; /* a waiting line: of a name, of a pool */
  struct buf head;                             /* the transport's own: request line and headers */
  uint64_t body_bytes;                         /* of the request's parts together */
  bool has_host, has_accept, closes;           /* what request->headers say */
  bool in_line;                                /* linked through line_next, line_prev */

  /* The client's (http.c, exchange.c, outcome.c, complete.c). */
  struct http_exchange *next, *prev; /* among the client's running ones; or its free list */
  const struct transport *transport; /* NULL: it waits for the name, or has ended */
  struct loop_timer timer;           /* the nearest deadline, or a queued end */
  uint64_t begun_ns;                 /* when the request was started, also after a reconnect */
  uint64_t last_byte_ns;             /* of anything that was received */
  uint64_t fed_ns;                   /* the stamp of the last piece of an event stream */
  uint64_t bytes_sent, bytes_received;
  uint64_t received_body; /* bytes of the reply's body */
  uint64_t over_ns;       /* loop clock: the stream's end marker was read; 0 = not yet */
  uint64_t over_stamp_ns; /* and the stamp of that read */
  size_t head_bytes;      /* of all heads and trailers so far */
  int64_t error_ns, coalesced_bound_ns;
  enum http_body body;
  bool event_stream; /* the reply's content type */
  bool squeezed;     /* it is compressed, and nobody asked for that */
  bool headers_done, over_limit, ended;
};

/* The stamp that holds: the kernel's, else the loop's. */
static inline uint64_t http_read_stamp(const struct http_read *read) {
  return read->kernel_ns ? read->kernel_ns : read->loop_ns;
}

/* A connection is ready (`reused`: it was open before). The request may go out. */
void http_exchange_connected(struct http_exchange *x, uint64_t stamp_ns, bool reused);
/* The last byte was taken by the kernel; `bytes` went out in all. */
void http_exchange_sent(struct http_exchange *x, uint64_t stamp_ns, uint64_t bytes);
/* The connection had been closed while idle and nothing came back: all starts over, with stamps of
 * its own, on another one. Counted. */
void http_exchange_restart(struct http_exchange *x, uint64_t stamp_ns);

/* n bytes of whatever kind were read: called once per read, before what they say is reported. */
void http_exchange_read(struct http_exchange *x, size_t n, const struct http_read *read);
/* A head begins: forgets the headers of the one before (1xx, a redirect). */
void http_exchange_head(struct http_exchange *x);
/* n more bytes of status lines, headers or trailers, kept or not. ERR_LIMIT: HTTP_HEAD_MAX of them
 * in all, and the server does not come to the point. */
#define HTTP_HEAD_MAX ((size_t)256 << 10)
NODISCARD int http_exchange_count_head(struct http_exchange *x, size_t n);
/* Whether the value of a Transfer-Encoding header is anything but "chunked" or "identity": none was
 * asked for. */
bool http_odd_transfer_coding(const char *value, size_t len);
/* The reply was a redirect that is followed: the next one counts, with its own head. */
void http_exchange_hop(struct http_exchange *x);
/* Pieces of a header, in order; names are put into lower case. ERR_LIMIT: too many. */
NODISCARD int http_exchange_header_name(struct http_exchange *x, const char *bytes, size_t len);
NODISCARD int http_exchange_header_name_end(struct http_exchange *x);
NODISCARD int http_exchange_header_value(struct http_exchange *x, const char *bytes, size_t len);
NODISCARD int http_exchange_header_value_end(struct http_exchange *x);
void http_exchange_headers_done(struct http_exchange *x, int status, const struct http_read *read);
/* Body bytes of one read, all of them in one call (what shares a read is coalesced). Not 0: a limit
 * was passed; stop reading, drop the connection and call http_exchange_end. */
NODISCARD int http_exchange_body(struct http_exchange *x, const char *bytes, size_t len,
                                 const struct http_read *read);
/* Whether events of the reply, so many with so many bytes of text in all, may be told without their
 * bytes. */
NODISCARD bool http_exchange_takes(const struct http_exchange *x, size_t text, size_t events);
/* Tells some of them, each as from a read of its own at its stamp: openai_stream_tell. */
void http_exchange_tell(struct http_exchange *x, const struct openai_told *told);
/* Whether a peek for the first body byte's stamp is worth a system call now. */
bool http_exchange_wants_peek(const struct http_exchange *x);

/* Whether bytes of that read could have waited: a stream's, in the middle, stamped by the kernel.
 */
bool http_exchange_unhurried(const struct http_exchange *x, const struct http_read *read);

enum http_break {
  HTTP_BREAK_CLOSED, /* the other side closed the connection before the reply was whole */
  HTTP_BREAK_RESET,  /* … or reset it */
  HTTP_BREAK_GARBLED /* what came is not HTTP, or its framing is broken */
};

/* The reply is whole. `read` may be NULL: now. */
void http_exchange_end(struct http_exchange *x, const struct http_read *read);
/* It never will be; `why` is a few words or NULL. */
void http_exchange_broken(struct http_exchange *x, enum http_break how, const char *why,
                          const struct http_read *read);
/* No reply is to come, with the class and a text for a person (without the URL). */
void http_exchange_fail(struct http_exchange *x, enum sample_error error, const char *text);
void http_exchange_fail_later(struct http_exchange *x, enum sample_error error, const char *text);

/* From here on every request of the client travels with `t` (copied) and no name is resolved: a dry
 * run, a test. Its `close` is called by http_client_delete. */
void http_client_use_transport(struct http_client *c, const struct transport *t);

#endif
