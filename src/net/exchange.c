/* exchange.c: what a transport reports: stamps, headers, and the body on its way into the stream
 * parser.
 *
 * The body of a good event stream goes through text/openai.c and is not kept; a plain reply is kept
 * whole up to its limit; of a reply that will end as an error the first 64 KiB are kept, for what
 * the server says in it. */
#include "net/exchange.h"

#include <string.h>
#include <strings.h>

#include "net/client.h"

#define CAPPED_BODY ((size_t)64 << 10)

void http_exchange_connected(struct http_exchange *x, uint64_t stamp_ns, bool reused) {
  x->request->stamp_ns[STAMP_CONNECTED] = stamp_ns;
  x->request->reused_connection = reused;
  http_exchange_arm(x);
}

void http_exchange_sent(struct http_exchange *x, uint64_t stamp_ns, uint64_t bytes) {
  x->request->stamp_ns[STAMP_SENT] = stamp_ns;
  x->bytes_sent = bytes;
}

void http_exchange_restart(struct http_exchange *x, uint64_t stamp_ns) {
  struct http_request *r = x->request;
  r->reconnects++;
  x->client->stats.reconnects++;
  r->stamp_ns[STAMP_START] = stamp_ns;
  r->stamp_ns[STAMP_CONNECTED] = r->stamp_ns[STAMP_SENT] = SAMPLE_NEVER;
  r->reused_connection = false;
  x->bytes_sent = 0;
  http_exchange_arm(x);
}

void http_exchange_read(struct http_exchange *x, size_t n, const struct http_read *read) {
  struct http_client *c = x->client;
  x->bytes_received += n;
  x->last_byte_ns = read->loop_ns;
  if (!c->options.kernel_stamps)
    return;
  if (read->kernel_ns) {
    if (c->options.recorder)
      recorder_read_error(c->options.recorder, read->loop_ns - read->kernel_ns);
    return;
  }
  c->stats.missing_kernel_stamps++;
  if (c->options.recorder)
    recorder_no_kernel_stamp(c->options.recorder);
}

void http_exchange_head(struct http_exchange *x) {
  buf_reset(&x->request->response_headers);
  x->request->n_listed = -1;
}

int http_exchange_count_head(struct http_exchange *x, size_t n) {
  x->head_bytes += n;
  return x->head_bytes > HTTP_HEAD_MAX ? ERR_LIMIT : 0;
}

void http_exchange_hop(struct http_exchange *x) {
  x->headers_done = false;
  x->request->stamp_ns[STAMP_HEADERS] = SAMPLE_NEVER;
}

int http_exchange_header_name(struct http_exchange *x, const char *bytes, size_t len) {
  struct buf *b = &x->request->response_headers;
  size_t from = b->len;
  int rc = buf_add(b, bytes, len);
  x->request->n_listed = -1;
  if (rc)
    return rc;
  for (char *p = b->data + from; p < b->data + b->len; p++)
    if (*p >= 'A' && *p <= 'Z')
      *p = (char)(*p | 0x20);
  return 0;
}

int http_exchange_header_name_end(struct http_exchange *x) {
  return buf_add(&x->request->response_headers, ": ", 2);
}

int http_exchange_header_value(struct http_exchange *x, const char *bytes, size_t len) {
  struct buf *b = &x->request->response_headers;
  size_t from = b->len;
  int rc = buf_add(b, bytes, len);
  if (rc)
    return rc;
  for (char *p = b->data + from; p < b->data + b->len; p++) /* one line stays one line */
    if (*p == '\n' || *p == '\r')
      *p = ' ';
  return 0;
}

int http_exchange_header_value_end(struct http_exchange *x) {
  struct buf *b = &x->request->response_headers;
  while (b->len >= 3 && (b->data[b->len - 1] == ' ' || b->data[b->len - 1] == '\t') &&
         !(b->data[b->len - 2] == ':' && b->data[b->len - 1] == ' '))
    b->len--;
  return buf_add(b, "\n", 1);
}

/* Lists the lines, for those who look for one. */
static void list_headers(struct http_request *r) {
  const char *data = r->response_headers.data, *p = data, *eol;
  const char *end = p ? p + r->response_headers.len : NULL;
  int n = 0;
  for (; p && (eol = memchr(p, '\n', (size_t)(end - p))); p = eol + 1) {
    const char *colon = memchr(p, ':', (size_t)(eol - p));
    if (n == HTTP_HEADERS_LISTED || !colon || colon[1] != ' ')
      return;
    r->listed[n++] = (struct http_header){.name_at = (uint32_t)(p - data),
                                          .name_len = (uint32_t)(colon - p),
                                          .value_at = (uint32_t)(colon + 2 - data),
                                          .value_len = (uint32_t)(eol - colon - 2)};
  }
  r->n_listed = n;
}

const char *http_response_header(const struct http_request *r, const char *name, size_t *len) {
  const char *p = r->response_headers.data;
  const char *end = p ? p + r->response_headers.len : NULL;
  size_t n = strlen(name);
  for (int i = 0; p && i < r->n_listed; i++) {
    const struct http_header *h = &r->listed[i];
    if (h->name_len == n && memcmp(p + h->name_at, name, n) == 0) {
      *len = h->value_len;
      return p + h->value_at;
    }
  }
  if (r->n_listed >= 0)
    return NULL;
  while (p && p < end) {
    const char *eol = memchr(p, '\n', (size_t)(end - p));
    if (!eol)
      return NULL;
    if ((size_t)(eol - p) >= n + 2 && memcmp(p, name, n) == 0 && p[n] == ':') {
      *len = (size_t)(eol - p) - n - 2;
      return p + n + 2;
    }
    p = eol + 1;
  }
  return NULL;
}

static bool is_event_stream(const struct http_request *r) {
  static const char want[] = "text/event-stream";
  size_t len = 0, n = sizeof want - 1;
  const char *type = http_response_header(r, "content-type", &len);
  return type && len >= n && strncasecmp(type, want, n) == 0 &&
         (len == n || type[n] == ';' || type[n] == ' ');
}

bool http_odd_transfer_coding(const char *value, size_t len) {
  return !(len == 7 && strncasecmp(value, "chunked", 7) == 0) &&
         !(len == 8 && strncasecmp(value, "identity", 8) == 0);
}

/* libcurl takes out the encodings that were asked for, and no others. */
static bool is_squeezed(const struct http_request *r) {
  size_t len = 0;
  const char *coding = http_response_header(r, "content-encoding", &len);
  return coding && len && !r->accept_compressed &&
         !(len == 8 && strncasecmp(coding, "identity", 8) == 0);
}

/* A reply that came before our clock said that the request was gone: it was gone by then. */
static void bound_sent(struct http_request *r, uint64_t stamp) {
  if (r->stamp_ns[STAMP_SENT] != SAMPLE_NEVER && r->stamp_ns[STAMP_SENT] > stamp)
    r->stamp_ns[STAMP_SENT] =
        stamp > r->stamp_ns[STAMP_CONNECTED] ? stamp : r->stamp_ns[STAMP_CONNECTED];
}

void http_exchange_headers_done(struct http_exchange *x, int status, const struct http_read *read) {
  struct http_request *r = x->request;
  uint64_t stamp = http_read_stamp(read);
  bound_sent(r, stamp);
  r->stamp_ns[STAMP_HEADERS] = stamp;
  r->status = status;
  if (r->n_listed < 0)
    list_headers(r);
  x->headers_done = true;
  x->event_stream = is_event_stream(r);
  x->squeezed = is_squeezed(r);
  bool good = status >= 200 && status < 300;
  if (r->api == OPENAI_NONE)
    x->body = status >= 400 ? HTTP_BODY_CAPPED : HTTP_BODY_PLAIN;
  else if (good && x->event_stream)
    x->body = x->squeezed ? HTTP_BODY_CAPPED : HTTP_BODY_STREAM;
  else
    x->body = good && !r->expect_stream ? HTTP_BODY_PLAIN : HTTP_BODY_CAPPED;
}

bool http_exchange_wants_peek(const struct http_exchange *x) {
  return x->client->options.kernel_stamps && x->headers_done && x->body == HTTP_BODY_STREAM &&
         x->request->stamp_ns[STAMP_FIRST_BYTE] == SAMPLE_NEVER;
}

bool http_exchange_unhurried(const struct http_exchange *x, const struct http_read *read) {
  return read->kernel_ns && x->headers_done && x->body == HTTP_BODY_STREAM && !x->over_ns;
}

static void first_byte(struct http_exchange *x, const struct http_read *read) {
  struct http_request *r = x->request;
  uint64_t kernel = read->first_ns ? read->first_ns : read->kernel_ns;
  uint64_t stamp = kernel ? kernel : read->loop_ns;
  if (stamp < r->stamp_ns[STAMP_HEADERS])
    stamp = r->stamp_ns[STAMP_HEADERS];
  r->stamp_ns[STAMP_FIRST_BYTE] = stamp;
  if (kernel)
    x->error_ns = (int64_t)(read->loop_ns - stamp);
  http_exchange_arm(x);
}

/* How far off the stamps of events may be that came with a later one in the same read: they arrived
 * after the descriptor was last seen empty. */
static void bound_coalesced(struct http_exchange *x, uint64_t before, uint64_t stamp,
                            uint64_t drained_ns) {
  if (x->request->stream.result.n_coalesced == before || !drained_ns || drained_ns > stamp)
    return;
  int64_t bound = (int64_t)(stamp - drained_ns);
  if (x->coalesced_bound_ns == SAMPLE_ABSENT || bound > x->coalesced_bound_ns)
    x->coalesced_bound_ns = bound;
}

/* The end marker ends the stream, however long the connection stays open behind it. */
static void note_end_marker(struct http_exchange *x) {
  const struct openai_result *result = &x->request->stream.result;
  if (x->over_ns || !(result->done_marker || result->terminal_event))
    return;
  x->over_ns = loop_now(x->client->loop);
  x->over_stamp_ns = x->fed_ns;
  http_exchange_arm(x);
}

static int feed(struct http_exchange *x, const char *bytes, size_t len, uint64_t stamp,
                uint64_t drained_ns) {
  struct http_request *r = x->request;
  uint64_t before = r->stream.result.n_coalesced;
  if (stamp < x->fed_ns) /* loop and kernel stamps take turns: never backwards */
    stamp = x->fed_ns;
  x->fed_ns = stamp;
  int rc = openai_stream_feed(&r->stream, bytes, len, stamp, NULL);
  bound_coalesced(x, before, stamp, drained_ns);
  note_end_marker(x);
  x->over_limit = rc != 0;
  return rc;
}

/* The first read of a body whose first packet was stamped apart: the first event is fed with that
 * stamp, what is behind it came with the last packet. */
static int feed_first(struct http_exchange *x, const char *bytes, size_t len,
                      const struct http_read *read) {
  uint64_t stamp = http_read_stamp(read);
  if (read->first_ns && read->first_ns < stamp) {
    const char *end = memmem(bytes, len, "\n\n", 2);
    size_t n = end ? (size_t)(end - bytes) + 2 : len;
    if (n < len) {
      int rc = feed(x, bytes, n, x->request->stamp_ns[STAMP_FIRST_BYTE], read->drained_ns);
      return rc ? rc : feed(x, bytes + n, len - n, stamp, read->drained_ns);
    }
  }
  return feed(x, bytes, len, stamp, read->drained_ns);
}

int http_exchange_body(struct http_exchange *x, const char *bytes, size_t len,
                       const struct http_read *read) {
  struct http_request *r = x->request;
  if (!len)
    return 0;
  bool first = r->stamp_ns[STAMP_FIRST_BYTE] == SAMPLE_NEVER;
  if (first)
    first_byte(x, read);
  x->received_body += len;
  switch (x->body) {
  case HTTP_BODY_STREAM:
    return first ? feed_first(x, bytes, len, read)
                 : feed(x, bytes, len, http_read_stamp(read), read->drained_ns);
  case HTTP_BODY_PLAIN: {
    size_t room = r->body.max - r->body.len;
    x->over_limit = len > room;
    int rc = buf_add(&r->body, bytes, x->over_limit ? room : len);
    return x->over_limit ? ERR_LIMIT : rc;
  }
  case HTTP_BODY_CAPPED: {
    size_t room = (r->body.max < CAPPED_BODY ? r->body.max : CAPPED_BODY) - r->body.len;
    return buf_add(&r->body, bytes, len < room ? len : room);
  }
  }
  return 0;
}

bool http_exchange_takes(const struct http_exchange *x, size_t text, size_t events) {
  return x->headers_done && x->body == HTTP_BODY_STREAM && !x->over_ns && !x->over_limit &&
         openai_stream_takes(&x->request->stream, text, events);
}

void http_exchange_tell(struct http_exchange *x, const struct openai_told *told) {
  struct http_read first = {.loop_ns = told->pieces[0].stamp_ns};
  struct http_read last = {.loop_ns = told->pieces[told->n_pieces - 1].stamp_ns};
  if (x->request->stamp_ns[STAMP_FIRST_BYTE] == SAMPLE_NEVER) {
    http_exchange_read(x, 0, &first);
    first_byte(x, &first);
  }
  http_exchange_read(x, told->bytes, &last);
  x->received_body += told->bytes;
  x->fed_ns = last.loop_ns;
  openai_stream_tell(&x->request->stream, told);
  note_end_marker(x);
}
