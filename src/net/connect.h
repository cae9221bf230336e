/* connect.h: connections made by libcurl and then taken from it: names pinned, proxies, TLS with
 * verification. No libcurl type appears here; curl_connect.c is behind it. */
#ifndef NET_CONNECT_H
#define NET_CONNECT_H

#include "net/client.h"

struct connector; /* one per client */
struct connecting;
struct ssl_st;

/* A connection is ready, or `error` is not SAMPLE_OK and `text` says why.
 * Plain (ssl is NULL): fd is the callee's and `op` is gone. TLS: fd and ssl belong to `op` until
 * connect_close(op). After an error `op` is gone. In phase two, outside libcurl. */
typedef void connect_fn(void *user, struct connecting *op, int fd, struct ssl_st *ssl,
                        enum sample_error error, const char *text);

struct connector *connector_new(struct http_client *c);
/* Every connection must be closed. */
void connector_delete(struct connector *k);

NODISCARD int connector_start(struct connector *k, struct http_target *t, connect_fn *fn,
                              void *user, struct connecting **out, struct err *err);
/* Gives up an attempt (fn is not called), or closes a TLS connection. */
void connect_close(struct connecting *op);

#endif
