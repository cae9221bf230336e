/* transport.h: the table of functions behind which a request travels.
 *
 * h1.c: HTTP/1.1, plain and TLS, on sockets connected by libcurl, written and parsed by us.
 * curl_multi.c: the ordinary libcurl multi interface for everything else. A dry run is a third one
 * (cmd/dry*.c). A transport reports through the http_exchange_* calls of net/exchange.h and nothing
 * else. */
#ifndef NET_TRANSPORT_H
#define NET_TRANSPORT_H

#include "base/err.h"

struct http_exchange;

struct transport {
  const char *name;
  /* Starts the exchange. 0, or an error with nothing started. */
  int (*start)(void *self, struct http_exchange *x, struct err *err);
  /* Gives up at once; no report follows. */
  void (*cancel)(void *self, struct http_exchange *x);
  void (*close)(void *self); /* everything, for good */
  /* The client is about to look at what it has of the exchange: report what came by now. NULL: it
   * was reported when it came. */
  void (*look)(void *self, struct http_exchange *x);
  void *self;
};

#endif
