/* client.h: what the files of the HTTP client share about a client and its targets. Private to
 * net/: transports take what they need of it, everybody else includes http.h. */
#ifndef NET_CLIENT_H
#define NET_CLIENT_H

#include <stdatomic.h>

#include "net/exchange.h"
#include "text/url.h"

struct line { /* exchanges that wait, first come first served */
  struct http_exchange *first, *last;
};
void line_add(struct line *line, struct http_exchange *x);
void line_remove(struct line *line, struct http_exchange *x);
/* The first one, taken out; NULL when empty. */
struct http_exchange *line_take(struct line *line);

struct resolve;

struct http_target {
  struct http_target *next;
  struct http_client *client;
  struct url url;
  char authority[URL_AUTHORITY_MAX]; /* the Host header's value */
  char *base;                        /* scheme://authority and the path prefix */
  size_t origin_len;                 /* of base: without the prefix */
  char *ca_file, *cert_file, *key_file, *proxy;
  bool insecure, http2, full;
  char *name;           /* the host to resolve: the proxy's where there is one */
  uint16_t name_port;   /* and the port it is pinned for */
  bool known_to_report; /* as the options said; the rest is learnt */
  _Atomic bool *reports, own_reports;

  enum { TARGET_NEW, TARGET_RESOLVING, TARGET_READY } state;
  struct resolve *resolve; /* while TARGET_RESOLVING */
  struct line naming;      /* requests that wait for the name */
  char *pinned;            /* "host:port:address,…" for libcurl; NULL: nothing to pin */
  uint32_t pin_serial;     /* counts changes of pinned */

  struct h1_pool *h1;          /* h1_pool.c's */
  struct full_line *full_line; /* curl_multi.c's */
};

/* A reply's head and what it was read as, for those that begin with the same bytes. */
#define HEAD_MEMO_BYTES 400

struct head_memo {
  char bytes[HEAD_MEMO_BYTES], headers[HEAD_MEMO_BYTES];
  size_t len, headers_len; /* 0: none */
  size_t counted;          /* for http_exchange_count_head */
  size_t length;           /* of the body */
  int status, n_listed;
  struct http_header listed[HTTP_HEADERS_LISTED];
};

struct http_client {
  struct http_client_options options;
  struct loop *loop;
  struct http_target *targets;
  struct http_exchange *running, *spare;
  size_t n_spare;
  struct transport h1, full, other; /* .start is NULL until it is used */
  struct curl_fds *curl_fds;        /* curl_loop.c's */
  int stamps_fd;                    /* kstamp_begin's; −1: none */
  struct http_client_stats stats;
  struct head_memo head; /* h1_parse.c's */
};

/* Which transport a request travels with. */
const struct transport *http_client_choose(struct http_client *c, const struct http_request *r,
                                           const struct http_target *t);

/* target.c */
void http_target_delete(struct http_target *t);
/* Whether an absent cached_tokens means zero. */
bool http_target_reports(const struct http_target *t);

/* resolve.c: starts resolving t's name; requests wait in t->naming. Calls http_target_named. */
NODISCARD int http_resolve_start(struct http_target *t, struct err *err);
/* One address answered: from here on it is the only one. */
void http_resolve_settle(struct http_target *t, const char *address);
/* Forgets the target; the system's thread may still be at it. */
void http_resolve_drop(struct resolve *resolve);
/* http.c: the name is pinned, or `problem` says why not: starts or ends those who wait. */
void http_target_named(struct http_target *t, const char *problem);

/* outcome.c: how it ended. Sets error and detail of the request from what has been received.
 * `broken` is −1 for a whole reply, else an enum http_break. */
void http_outcome_set(struct http_exchange *x, int broken, const char *why);
/* Puts the text into the request's detail, cleaned and cut; the other one "origin: text" or "METHOD
 * url: text". */
void http_outcome_text(struct http_exchange *x, const char *text);
void http_outcome_detail(struct http_exchange *x, bool whole_url, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* complete.c: fills what the client knows into the request's sample and hands it over. */
void http_complete_sample(struct http_exchange *x);

/* http.c: the timer's next due time after something changed. */
void http_exchange_arm(struct http_exchange *x);

/* h1.c, curl_multi.c: fill *t for a client. */
void h1_transport(struct http_client *c, struct transport *t);
void full_transport(struct http_client *c, struct transport *t);

#endif
