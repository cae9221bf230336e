/* fuzz_http.c: hostile replies for the HTTP client, without sockets: llhttp, the exchange, the
 * stream parser, the outcome.
 *
 * Byte 0 says what was asked and how the reply is cut; byte 1 how the connection ends. Always: the
 * request ends exactly once, with a class and a text that fit, its stamps in order; and a reply
 * read byte by byte ends as the same one read whole. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/client.h"
#include "net/h1_parse.h"
#include "text/json.h"

#define CHECK(what)                                                                                \
  do {                                                                                             \
    if (!(what)) {                                                                                 \
      fprintf(stderr, "fuzz_http: %s does not hold\n", #what);                                     \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

static struct http_exchange *started;
static int ended;

static int on_start(void *self, struct http_exchange *x, struct err *err) {
  (void)self;
  (void)err;
  started = x;
  return 0;
}

static void on_cancel(void *self, struct http_exchange *x) {
  (void)self;
  (void)x;
  bool asked_for = false;
  CHECK(asked_for);
}

static void on_done(struct http_request *r) {
  CHECK(!r->exchange);
  ended++;
}

struct world {
  struct loop *loop;
  struct http_client *client;
  struct http_target *target;
};

static struct world *world(void) {
  static struct world w;
  struct err err;
  if (w.loop)
    return &w;
  w.loop = loop_new(&err);
  CHECK(w.loop);
  struct http_client_options o = {.loop = w.loop, .keep_gaps = true};
  w.client = http_client_new(&o, &err);
  struct transport t = {.name = "fuzz", .start = on_start, .cancel = on_cancel};
  http_client_use_transport(w.client, &t);
  struct http_target_options to = {.url = "http://127.0.0.1:1"};
  CHECK(http_client_target(w.client, &to, &w.target, &err) == 0);
  return &w;
}

struct ending {
  enum sample_error error;
  int status;
  uint64_t output_events;
  size_t body;
  bool keep_alive;
  char detail[320];
  char headers[2000]; /* their beginning, once they are all there */
};

/* Feeds the reply in pieces of `piece` bytes and ends the exchange as byte `how` says. */
static void play(const char *data, size_t len, size_t piece, unsigned what, unsigned how,
                 struct ending *out) {
  struct world *w = world();
  struct http_request r;
  struct h1_parser parser;
  struct err err;
  http_request_init(&r);
  r.target = w->target;
  r.method = what & 8 ? "HEAD" : "POST";
  r.api = (enum openai_api)(what & 3);
  r.expect_stream = (what & 4) != 0;
  r.max_body = what & 16 ? 100 : 0;
  r.sample = sample_new();
  r.done = on_done;
  ended = 0;
  CHECK(http_request_start(w->client, &r, &err) == 0);
  uint64_t start = r.stamp_ns[STAMP_START];
  http_exchange_connected(started, start, true);
  http_exchange_sent(started, start, 100);
  h1_parser_begin(&parser, started);
  struct http_read read = {.loop_ns = start, .drained_ns = start};
  enum h1_verdict verdict = H1_MORE;
  while (len && verdict == H1_MORE) {
    size_t n = piece < len ? piece : len, used = 0;
    char *copy = mem_dup(data, n); /* its own block: reading past it is seen */
    read.loop_ns++;
    http_exchange_read(started, n, &read);
    verdict = h1_parser_feed(&parser, copy, n, &read, &used);
    CHECK(used <= n);
    mem_free(copy);
    data += n;
    len -= n;
    CHECK(!ended);
  }
  if (verdict == H1_MORE && !(how & 1))
    verdict = h1_parser_finish(&parser, &read);
  if (verdict == H1_WHOLE || verdict == H1_STOP)
    http_exchange_end(started, &read);
  else if (verdict == H1_GARBLED)
    http_exchange_broken(started, HTTP_BREAK_GARBLED, parser.why, &read);
  else
    http_exchange_broken(started, how & 1 ? HTTP_BREAK_RESET : HTTP_BREAK_CLOSED, NULL, &read);
  CHECK(ended == 1);
  CHECK((r.error == SAMPLE_OK) == (r.detail[0] == '\0'));
  CHECK(strlen(r.detail) < sizeof r.detail);
  CHECK(json_utf8_valid(r.detail, strlen(r.detail)) == strlen(r.detail));
  CHECK(r.error == SAMPLE_OK || sample_error_failed(r.error));
  for (int i = STAMP_START; i + 1 < STAMP_COUNT; i++)
    if (r.stamp_ns[i] != SAMPLE_NEVER && r.stamp_ns[i + 1] != SAMPLE_NEVER)
      CHECK(r.stamp_ns[i] <= r.stamp_ns[i + 1]);
  *out = (struct ending){.error = r.error,
                         .status = r.status,
                         .output_events = r.stream.result.output_events,
                         .body = r.body.len,
                         .keep_alive = verdict == H1_WHOLE && parser.keep_alive};
  size_t headers = r.response_headers.len < sizeof out->headers - 1 ? r.response_headers.len
                                                                    : sizeof out->headers - 1;
  if (headers && r.stamp_ns[STAMP_HEADERS] != SAMPLE_NEVER)
    memcpy(out->headers, r.response_headers.data, headers);
  memcpy(out->detail, r.detail, sizeof r.detail);
  http_request_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ending whole, cut;
  if (size < 2)
    return 0;
  const char *reply = (const char *)data + 2;
  play(reply, size - 2, size, data[0], data[1], &whole);
  play(reply, size - 2, 1 + (data[1] >> 5), data[0], data[1], &cut);
  CHECK(whole.error == cut.error && whole.status == cut.status);
  CHECK(whole.output_events == cut.output_events && whole.body == cut.body);
  CHECK(strcmp(whole.detail, cut.detail) == 0);
  CHECK(whole.keep_alive == cut.keep_alive && strcmp(whole.headers, cut.headers) == 0);
  return 0;
}
