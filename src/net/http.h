/* http.h: the HTTP client: one per worker, on its loop.
 *
 * A request names a target (an origin with its TLS and pool settings), is started, and ends exactly
 * once: with `done`, in phase two of a wake-up (never inside a libcurl callback), or by
 * http_request_cancel, which returns with the request over and without calling `done`. Which
 * transport carries it (h1.c on a socket connected by libcurl, or curl_multi.c) is decided per
 * request and is nobody else's business: both stand behind net/transport.h. When a request with a
 * sample ends, the sample is completed and emitted. */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include "base/blob.h"
#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"
#include "out/recorder.h"
#include "text/openai.h"

struct tokens_encoder; /* text/tokens.h */
struct http_client;
struct http_target;

struct http_client_options {
  struct loop *loop;
  struct recorder *recorder; /* NULL: samples are freed */
  uint64_t zero_ns;          /* the run's zero on the loop's clock: samples are relative to it */
  /* The measurement window on the same clock, 0 = open: sample.window_tokens counts stamps inside.
   * Atomic reads; the run may set them later through http_client_set_window. */
  uint64_t window_start_ns, window_end_ns;
  uint32_t
      max_connections; /* per target; 0 = 4096. Beyond: requests wait in line, and are counted */
  bool kernel_stamps;  /* SO_TIMESTAMPING */
  bool keep_gaps;      /* fill sample.gaps_ns (needed for itl; on in runs) */
  /* Counts output tokens on this side too; NULL: the server's counts alone. Borrowed. */
  struct tokens_encoder *tokens;
};

struct http_client *http_client_new(const struct http_client_options *options, struct err *err);
/* Cancels what is left, closes every connection. Not from within a `done`. NULL is allowed. */
void http_client_delete(struct http_client *c);
void http_client_set_window(struct http_client *c, uint64_t start_ns, uint64_t end_ns);

struct http_tls {
  const char *ca_file;   /* NULL = the system's */
  const char *cert_file; /* client certificate, PEM; NULL = none */
  const char *key_file;
  bool insecure; /* no verification: only when asked for by name; reported */
};

/* Once per process, before any client and any other thread: libcurl's and OpenSSL's set-up, SIGPIPE
 * ignored, RLIMIT_NOFILE raised to its hard limit. */
NODISCARD int http_global_init(struct err *err);
/* "libcurl 7.88.1, OpenSSL 3.0.11 …, libuv 1.44.2, …": the libraries below this layer, as they run.
 */
void http_versions(char *out, size_t size);

struct http_target_options {
  const char *url; /* http://host:port or https://…; a path is a prefix for every request */
  struct http_tls tls;
  /* http://, https://, socks4://, socks4a://, socks5:// or socks5h://[user:password@]host[:port];
   * NULL = none; the environment is never asked. */
  const char *proxy;
  bool http2;          /* over TLS only; plain: ERR_UNSUPPORTED with the reason */
  bool reports_cached; /* known to report cached_tokens: an absent field is an inferred zero */
  bool full;           /* always the multi transport (redirects, compression) */
  /* What workers learn about one server together (whether it reports cached_tokens); NULL = this
   * client alone. Outlives the client. */
  _Atomic bool *reports;
};

/* Parses and checks; the name is resolved at first use and pinned. Interned: equal options give the
 * same target. Lives as long as the client. ERR_INVALID names the URL and what is wrong with it. */
NODISCARD int http_client_target(struct http_client *c, const struct http_target_options *options,
                                 struct http_target **out, struct err *err);
const char *http_target_url(const struct http_target *t);
/* Whether a text can be a target's proxy: scheme, host and port. ERR_INVALID says what is wrong,
 * without user and password. */
NODISCARD int http_proxy_check(const char *proxy, struct err *err);

struct http_timeouts {
  uint64_t connect_ns, first_byte_ns, idle_ns, total_ns; /* 0 = none */
};

#define HTTP_HEADERS_LISTED 16

/* A line of response_headers. */
struct http_header {
  uint32_t name_at, name_len, value_at, value_len;
};

struct http_request {
  /* Set by the caller; borrowed until the end. */
  struct http_target *target;
  const char *method;  /* "GET", "POST" */
  const char *path;    /* "/v1/chat/completions?x=1" */
  const char *headers; /* "Name: value\r\n"… or NULL. Host, Content-Length are added; Accept too if
                          absent */
  struct blob *const *parts; /* the body, sent one after the other without copying; NULL for none */
  size_t n_parts;
  enum openai_api api; /* how to read the reply; OPENAI_NONE: kept as plain body */
  bool harmony; /* completions: the text is gpt-oss's raw words; what is visible begins with its
                   answer */
  bool expect_stream; /* an event stream is expected: anything else under 200 is not_sse */
  struct http_timeouts timeouts;
  uint64_t sched_ns; /* when it was due, loop clock; 0 = now */
  size_t max_body;   /* of a plain body; 0 = 64 MiB. Beyond: cut off, stream_error */
  bool follow_redirects, accept_compressed; /* choose the multi transport */
  const char *refused;   /* not NULL: it is not sent and fails as SAMPLE_CONNECT, with this text */
  struct sample *sample; /* NULL, or owned by the client from http_request_start on */
  void (*done)(struct http_request *r);
  void *user;

  /* Results, valid in `done` and until http_request_free. */
  enum sample_error error;
  char detail[320]; /* for a person: what failed, against which URL, and a hint; "" when ok */
  int status;
  struct buf response_headers; /* "name: value\n"…, names in lower case */
  /* Its lines, once they are all there and if they are so few; n_listed: −1 if not. */
  struct http_header listed[HTTP_HEADERS_LISTED];
  int n_listed;
  struct buf body;                /* plain replies, and error replies of streams (first 64 KiB) */
  struct openai_stream stream;    /* when api != OPENAI_NONE: stream.result */
  uint64_t stamp_ns[STAMP_COUNT]; /* loop clock; SAMPLE_NEVER */
  bool reused_connection;
  uint32_t reconnects;

  struct http_exchange *exchange; /* the client's own */
};

/* Fills with zeros and defaults; then set fields. */
void http_request_init(struct http_request *r);
/* The same for one that is over: what the caller set, but `user`, goes; the memory of results is
 * kept for those of the next. */
void http_request_reset(struct http_request *r);
/* Frees what an event stream or generation left: it may be much. */
void http_request_end_stream(struct http_request *r);
/* Misuse (a method, path or header that is none; Content-Length, which the client writes) fails
 * here with ERR_INVALID, nothing started and the sample still the caller's; everything else ends in
 * `done`, later. An ended request may be started again: its buffers are kept. */
NODISCARD int http_request_start(struct http_client *c, struct http_request *r, struct err *err);
/* Over on return; the sample is emitted as `error` (SAMPLE_CANCELLED or SAMPLE_INCOMPLETE). */
void http_request_cancel(struct http_request *r, enum sample_error error);
void http_request_free(struct http_request *r); /* must be over */
/* Value of a response header (lower-case name) or NULL; `len` gets its length. */
const char *http_response_header(const struct http_request *r, const char *name, size_t *len);

struct http_client_stats {
  uint64_t requests, connections_opened, reconnects, waits_for_connection, open_now,
      descriptor_limit_hits, missing_kernel_stamps,
      unasked_bytes; /* connections closed because bytes came that belong to no request */
};
void http_client_get_stats(const struct http_client *c, struct http_client_stats *out);

#endif
