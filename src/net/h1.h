/* h1.h: the parts of the HTTP/1.1 transport: a connection, its bytes in and out, the pool.
 *
 * A connection is busy with one exchange, or idle in its target's pool, or being made for one
 * exchange. Private to h1*.c. */
#ifndef NET_H1_H
#define NET_H1_H

#include <sys/types.h>

#include "net/connect.h"
#include "net/h1_parse.h"
#include "net/kstamp.h"

struct ssl_st;
struct bio_method_st;

struct h1 { /* the transport of one client */
  struct http_client *client;
  struct connector *connector;
  struct bio_method_st *bio; /* made with the first TLS connection */
  char *in;                  /* what a read fills, shared by all connections */
  char *out;                 /* a TLS record's plain bytes on their way out; made at first use */
  struct h1_pool *pools;     /* of every target that was used */
};
#define H1_IN_BYTES ((size_t)128 << 10)
#define H1_OUT_BYTES ((size_t)16 << 10)

struct h1_conn {
  struct h1_pool *pool;
  struct h1_conn *next, *prev; /* among the pool's idle ones */
  struct http_exchange *x;     /* NULL when idle */
  struct connecting *op;       /* while connecting, and of TLS connections as long as they live */
  struct ssl_st *ssl;          /* NULL: plain */
  struct loop_fd *watch;       /* NULL while connecting */
  int fd;
  bool reused;    /* the exchange found it open */
  bool got_byte;  /* of the reply */
  bool unsent;    /* part of the request still waits */
  int send_error; /* errno; what the server said before is still to be read */
  /* the next byte to send: 0 = the head, 1… = the request's parts */
  size_t out_part, out_offset;
  uint64_t out_bytes;
  uint64_t drained_ns; /* when it was last seen empty */
  uint64_t idle_ns;    /* the wake-up in which it became idle */
  /* TLS: what the BIO saw last */
  uint64_t wall_ns; /* kernel stamp of the last read */
  int bio_errno;
  const char *broken; /* what OpenSSL found wrong, for good */
  struct h1_parser parser;
};

struct h1_pool {
  struct h1_pool *next;
  struct h1 *h1;
  struct http_target *target;
  struct h1_conn *idle; /* the one used last comes first */
  struct line line;     /* exchanges that wait for a connection */
  uint32_t open;        /* connections that exist or are being made */
};

/* h1_pool.c */
struct h1_pool *h1_pool_of(struct h1 *h1, struct http_target *t);
struct h1_conn *h1_pool_take(struct h1_pool *pool); /* NULL: none is idle */
void h1_pool_put(struct h1_conn *c);                /* idle from here on */
void h1_pool_forget(struct h1_conn *c);             /* an idle one that is to be closed */
bool h1_pool_full(const struct h1_pool *pool);
void h1_pool_close(struct h1 *h1); /* frees the pools; all connections are gone */

/* h1_io.c */
enum { H1_IO_AGAIN = -1, H1_IO_ERROR = -2 };
/* Up to `len` bytes; 0 = the other side closed; H1_IO_AGAIN; H1_IO_ERROR with *text. *full: there
 * may be more at once. wall_ns of c holds the kernel's stamp. */
ssize_t h1_io_recv(struct h1_conn *c, char *buf, size_t len, bool *full, const char **text);
/* Whether TLS holds bytes that it has read and we have not: no event will tell of them. */
bool h1_io_pending(const struct h1_conn *c);
/* Sends on from c->out_part, out_offset. 0 = all sent, H1_IO_AGAIN, H1_IO_ERROR (c->send_error). */
int h1_io_send(struct h1_conn *c);
/* The request line and headers into x->head. */
void h1_io_head(struct http_exchange *x);
/* Puts our own reads and writes below the TLS layer. */
void h1_io_adopt(struct h1_conn *c);

#endif
