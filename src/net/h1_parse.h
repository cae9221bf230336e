/* h1_parse.h: bytes of an HTTP/1.1 reply into an exchange, by llhttp, or where nothing is left to
 * decide without it. No sockets: fuzzed alone. */
#ifndef NET_H1_PARSE_H
#define NET_H1_PARSE_H

#include <llhttp.h>

#include "net/exchange.h"

struct h1_parser {
  llhttp_t llhttp; /* nothing in it as long as `fresh` */
  struct http_exchange *x;
  const struct http_read *read; /* while bytes are parsed */
  char *body;                   /* this read's body bytes, moved together in the read's buffer */
  size_t body_len;
  size_t pieces;     /* chunks, or parts of them, that it was made of */
  const char *why;   /* of H1_GARBLED */
  bool fresh;        /* no byte has come */
  bool head_request; /* a reply to HEAD has no body */
  bool interim;      /* a 1xx: another head follows */
  bool whole;        /* the reply has ended */
  bool in_body;      /* headers from here on are trailers */
  bool keep_alive;   /* valid when whole */
};

enum h1_verdict {
  H1_MORE,    /* goes on */
  H1_WHOLE,   /* the reply is complete */
  H1_GARBLED, /* not HTTP; parser.why */
  H1_STOP     /* http_exchange_body wants no more */
};

/* Ready for the reply to x. */
void h1_parser_begin(struct h1_parser *p, struct http_exchange *x);
/* One read's bytes (their buffer is written to). *used: how many belong to this reply. Body bytes
 * have been reported when it returns. */
NODISCARD enum h1_verdict h1_parser_feed(struct h1_parser *p, char *bytes, size_t len,
                                         const struct http_read *read, size_t *used);
/* The connection was closed: whether that ends the reply as it should. */
NODISCARD enum h1_verdict h1_parser_finish(struct h1_parser *p, const struct http_read *read);

#endif
