/* sample.c: the row of one request, and the names of the error classes.
 *
 * The row is written by hand rather than through `struct value`: it is the one thing made once per
 * request on the writer thread, and a tree of sixty small values would cost more than the rest of
 * that thread. Field order is DESIGN.md's; src/out/ROW.md explains each field. */
#include "out/sample.h"

#include <string.h>

#include "base/mem.h"
#include "text/json.h"

static const char *const error_names[SAMPLE_ERROR_COUNT] = {
    [SAMPLE_OK] = "ok",
    [SAMPLE_CANCELLED] = "cancelled",
    [SAMPLE_INCOMPLETE] = "incomplete",
    [SAMPLE_RESOLVE] = "resolve",
    [SAMPLE_CONNECT] = "connect",
    [SAMPLE_TLS] = "tls",
    [SAMPLE_RESET] = "reset",
    [SAMPLE_TIMEOUT_CONNECT] = "timeout_connect",
    [SAMPLE_TIMEOUT_FIRST_BYTE] = "timeout_first_byte",
    [SAMPLE_TIMEOUT_IDLE] = "timeout_idle",
    [SAMPLE_TIMEOUT_TOTAL] = "timeout_total",
    [SAMPLE_HTTP_429] = "http_429",
    [SAMPLE_HTTP_4XX] = "http_4xx",
    [SAMPLE_HTTP_5XX] = "http_5xx",
    [SAMPLE_NOT_SSE] = "not_sse",
    [SAMPLE_STREAM_ERROR] = "stream_error",
    [SAMPLE_EMPTY_STREAM] = "empty_stream",
    [SAMPLE_TRUNCATED] = "truncated",
    [SAMPLE_BAD_JSON] = "bad_json",
    [SAMPLE_NO_VISIBLE_OUTPUT] = "no_visible_output",
    [SAMPLE_SCRIPT] = "script",
};

static const char *const stamp_names[STAMP_COUNT] = {
    [STAMP_SCHED] = "sched",
    [STAMP_START] = "start",
    [STAMP_CONNECTED] = "connected",
    [STAMP_SENT] = "sent",
    [STAMP_HEADERS] = "headers",
    [STAMP_FIRST_BYTE] = "first_byte",
    [STAMP_FIRST_TOKEN] = "first_token",
    [STAMP_LAST_TOKEN] = "last_token",
    [STAMP_DONE] = "done",
};

static const char *const cached_names[] = {
    [CACHED_ABSENT] = "absent",
    [CACHED_VALUE] = "value",
    [CACHED_ZERO] = "zero",
    [CACHED_INFERRED_ZERO] = "inferred_zero",
};

const char *sample_error_name(enum sample_error error) {
  assert((unsigned)error < SAMPLE_ERROR_COUNT);
  return error_names[error];
}

bool sample_error_failed(enum sample_error error) {
  return error > SAMPLE_INCOMPLETE;
}

const char *sample_cached_name(enum sample_cached_state state) {
  assert((unsigned)state < ARRAY_LEN(cached_names));
  return cached_names[state];
}

int64_t sample_cached_tokens(const struct sample *s) {
  switch (s->cached_state) {
  case CACHED_VALUE:
    return s->cached_tokens;
  case CACHED_ZERO:
  case CACHED_INFERRED_ZERO:
    return 0;
  case CACHED_ABSENT:
    break;
  }
  return SAMPLE_ABSENT;
}

struct sample *sample_new(void) {
  struct sample *s = MEM_NEW(struct sample);
  s->parent = -1;
  for (int i = 0; i < STAMP_COUNT; i++)
    s->t[i] = SAMPLE_NEVER;
  s->first_visible = SAMPLE_NEVER;
  s->error_ns = s->coalesced_bound_ns = SAMPLE_ABSENT;
  s->prompt_tokens = s->output_tokens = s->reasoning_tokens = s->cached_tokens = SAMPLE_ABSENT;
  s->prompt_tokens_local = s->output_tokens_local = s->survived_tokens = SAMPLE_ABSENT;
  s->asked_tokens = s->first_tokens = s->window_tokens = SAMPLE_ABSENT;
  s->render_ns = s->tokenize_ns = s->hash_ns = SAMPLE_ABSENT;
  return s;
}

void sample_free(struct sample *s) {
  if (!s)
    return;
  mem_free(s->tags);
  mem_free(s->error_detail);
  mem_free(s->url);
  mem_free(s->finish_reason);
  mem_free(s->gaps_ns);
  mem_free(s->gap_tokens);
  mem_free(s->server);
  mem_free(s->chosen);
  mem_free(s->served);
  mem_free(s->route_reason);
  mem_free(s);
}

/* ---- the row ---- */

#define KEY(b, name) buf_put((b), ",\"" name "\":", sizeof(",\"" name "\":") - 1)
#define LITERAL(b, text) buf_put((b), (text), sizeof(text) - 1)

static void put_u64(struct buf *b, uint64_t v) {
  static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233"
                              "34353637383940414243444546474849505152535455565758596061626364656667"
                              "6869707172737475767778798081828384858687888990919293949596979899";
  char digits[20];
  size_t at = sizeof digits;
  for (; v >= 100; v /= 100)
    memcpy(digits + (at -= 2), pairs + 2 * (v % 100), 2);
  if (v >= 10)
    memcpy(digits + (at -= 2), pairs + 2 * v, 2);
  else
    digits[--at] = (char)('0' + v);
  buf_put(b, digits + at, sizeof digits - at);
}

static void put_null(struct buf *b) {
  LITERAL(b, "null");
}

static void put_count(struct buf *b, int64_t v) {
  if (v == SAMPLE_ABSENT) {
    put_null(b);
    return;
  }
  if (v < 0)
    buf_putc(b, '-');
  put_u64(b, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

static void put_stamp(struct buf *b, uint64_t t) {
  if (t == SAMPLE_NEVER)
    put_null(b);
  else
    put_u64(b, t);
}

/* 0 stands for null in turn, step and status. */
static void put_positive(struct buf *b, uint64_t v) {
  put_stamp(b, v ? v : SAMPLE_NEVER);
}

static void put_bool(struct buf *b, bool v) {
  if (v)
    LITERAL(b, "true");
  else
    LITERAL(b, "false");
}

static void put_text(struct buf *b, const char *s) {
  if (s)
    json_write_string(b, s, strlen(s));
  else
    put_null(b);
}

/* Text that is JSON already; `otherwise` when there is none. */
static void put_json(struct buf *b, const char *json, const char *otherwise) {
  buf_puts(b, json ? json : otherwise);
}

static void write_identity(struct buf *b, const struct sample *s, const char *run_id) {
  LITERAL(b, "{\"v\":");
  put_u64(b, SAMPLE_VERSION);
  KEY(b, "run");
  put_text(b, run_id);
  KEY(b, "arm");
  put_text(b, s->arm);
  KEY(b, "trial_block");
  put_u64(b, s->trial_block);
  KEY(b, "session");
  put_u64(b, s->session);
  KEY(b, "turn");
  put_positive(b, s->turn);
  KEY(b, "branch");
  put_u64(b, s->branch);
  KEY(b, "parent");
  put_count(b, s->parent < 0 ? SAMPLE_ABSENT : s->parent);
  KEY(b, "step");
  put_positive(b, s->step);
  KEY(b, "tags");
  put_json(b, s->tags, "{}");
}

static void write_times(struct buf *b, const struct sample *s) {
  KEY(b, "t");
  for (int i = 0; i < STAMP_COUNT; i++) {
    buf_putc(b, i ? ',' : '{');
    buf_putc(b, '"');
    buf_puts(b, stamp_names[i]);
    LITERAL(b, "\":");
    put_stamp(b, s->t[i]);
  }
  buf_putc(b, '}');
  KEY(b, "error_ns");
  put_count(b, s->error_ns);
  KEY(b, "coalesced");
  put_u64(b, s->coalesced);
}

static void write_transport(struct buf *b, const struct sample *s) {
  KEY(b, "status");
  put_positive(b, s->status > 0 ? (uint64_t)s->status : 0);
  KEY(b, "error");
  put_text(b, s->error == SAMPLE_OK ? NULL : sample_error_name(s->error));
  KEY(b, "finish_reason");
  put_text(b, s->finish_reason);
  KEY(b, "reused_connection");
  if (s->t[STAMP_CONNECTED] == SAMPLE_NEVER)
    put_null(b);
  else
    put_bool(b, s->reused_connection);
  KEY(b, "bytes_sent");
  put_u64(b, s->bytes_sent);
  KEY(b, "bytes_received");
  put_u64(b, s->bytes_received);
}

static void write_tokens(struct buf *b, const struct sample *s) {
  KEY(b, "prompt_tokens");
  put_count(b, s->prompt_tokens);
  KEY(b, "prompt_tokens_local");
  put_count(b, s->prompt_tokens_local);
  KEY(b, "output_tokens");
  put_count(b, s->output_tokens);
  KEY(b, "output_tokens_local");
  put_count(b, s->output_tokens_local);
  KEY(b, "reasoning_tokens");
  put_count(b, s->reasoning_tokens);
  KEY(b, "cached_tokens");
  put_count(b, sample_cached_tokens(s));
  KEY(b, "cached_state");
  put_text(b, sample_cached_name(s->cached_state));
}

static void write_output(struct buf *b, const struct sample *s, bool with_itl) {
  KEY(b, "output_events");
  put_u64(b, s->output_events);
  KEY(b, "itl_ns");
  if (with_itl) {
    buf_putc(b, '[');
    for (size_t i = 0; i < s->n_gaps; i++) {
      if (i)
        buf_putc(b, ',');
      put_u64(b, s->gaps_ns[i]);
    }
    buf_putc(b, ']');
  } else {
    put_null(b);
  }
  KEY(b, "output_hash");
  if (s->output_hash)
    buf_printf(b, "\"%016llx\"", (unsigned long long)s->output_hash);
  else
    put_null(b);
}

/* What later issues fill (hint … lookup_server_ns, the ledger) is there already, as null, so that
 * readers never meet a row without a field they know. */
static void write_route(struct buf *b, const struct sample *s) {
  KEY(b, "policy");
  put_text(b, s->policy);
  KEY(b, "chosen");
  put_text(b, s->chosen);
  KEY(b, "served");
  put_text(b, s->t[STAMP_HEADERS] != SAMPLE_NEVER ? s->served : NULL);
  LITERAL(b, ",\"hint\":null,\"lookup_reason\":null");
  KEY(b, "route_reason");
  put_text(b, s->route_reason);
  LITERAL(b, ",\"score\":null,\"matched_tokens\":null,\"matched_blocks\":null,\"tier\":null"
             ",\"lookup_ns\":null,\"lookup_server_ns\":null");
  KEY(b, "fallback");
  if (s->policy)
    put_bool(b, s->fallback);
  else
    put_null(b);
  LITERAL(b, ",\"possible\":null,\"available\":null,\"captured\":null,\"delivered\":null"
             ",\"ledger_source\":null,\"causes\":null,\"class\":null");
}

static void write_rest(struct buf *b, const struct sample *s) {
  KEY(b, "server");
  put_json(b, s->server, "null");
  KEY(b, "render_ns");
  put_count(b, s->render_ns);
  KEY(b, "tokenize_ns");
  put_count(b, s->tokenize_ns);
  KEY(b, "hash_ns");
  put_count(b, s->hash_ns);
  KEY(b, "survived_tokens");
  put_count(b, s->survived_tokens);
  KEY(b, "measured");
  put_bool(b, s->measured);
  KEY(b, "generation");
  put_bool(b, s->is_generation);
  KEY(b, "stream_asked");
  put_bool(b, s->stream_asked);
  KEY(b, "streamed");
  put_bool(b, s->streamed);
  KEY(b, "method");
  put_text(b, s->method);
  KEY(b, "url");
  put_text(b, s->url);
  KEY(b, "error_detail");
  put_text(b, s->error_detail);
  KEY(b, "reconnects");
  put_u64(b, s->reconnects);
  KEY(b, "first_visible");
  put_stamp(b, s->first_visible);
  KEY(b, "asked_tokens");
  put_count(b, s->asked_tokens);
  KEY(b, "first_tokens");
  put_count(b, s->first_tokens);
  KEY(b, "window_tokens");
  put_count(b, s->window_tokens);
  KEY(b, "coalesced_bound_ns");
  put_count(b, s->coalesced_bound_ns);
  buf_putc(b, '}');
}

void sample_write(struct buf *b, const struct sample *s, const char *run_id, bool with_itl) {
  int rc = buf_reserve(b, 2048 + (with_itl ? s->n_gaps * 12 : 0));
  (void)rc; /* without memory for all at once it grows as it needs */
  write_identity(b, s, run_id);
  write_times(b, s);
  write_transport(b, s);
  write_tokens(b, s);
  write_output(b, s, with_itl);
  write_route(b, s);
  write_rest(b, s);
}
