/* sample.c: the row of one request, and the names of the error classes.
 *
 * The row is written by hand rather than through `struct value`: it is the one thing made once per
 * request on the writer thread, and a tree of sixty small values would cost more than the rest of
 * that thread. Field order is DESIGN.md's; src/out/ROW.md explains each field. */
#include "out/sample.h"

#include <stddef.h>
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
  struct sample *s = mem_alloc(sizeof *s);
  memset(s, 0, offsetof(struct sample, small));
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

char *sample_room(struct sample *s, size_t len) {
  if (len >= sizeof s->small - s->small_used)
    return mem_alloc(len + 1);
  char *room = s->small + s->small_used;
  s->small_used += len + 1;
  return room;
}

char *sample_keep(struct sample *s, const char *text, size_t len) {
  char *copy = sample_room(s, len);
  if (len)
    memcpy(copy, text, len);
  copy[len] = '\0';
  return copy;
}

void sample_drop(const struct sample *s, char *text) {
  if ((uintptr_t)text - (uintptr_t)s->small >= sizeof s->small)
    mem_free(text);
}

void sample_free(struct sample *s) {
  if (!s)
    return;
  char *const texts[] = {s->tags,   s->error_detail, s->url,    s->finish_reason, s->request_id,
                         s->server, s->chosen,       s->served, s->route_reason};
  for (size_t i = 0; i < ARRAY_LEN(texts); i++)
    sample_drop(s, texts[i]);
  mem_free(s->gaps_ns);
  mem_free(s->gap_tokens);
  mem_free(s);
}

/* ---- the row ---- */

/* A row on its way: written at `p`, for which there is room, and counted in `b` at the end. */
struct row {
  struct buf *b;
  char *p;
};

#define ROW_BYTES 2560 /* more than all of it but texts and gaps */

static void row_open(struct row *r, struct buf *b, size_t more) {
  r->b = b;
  r->p = buf_room(b, ROW_BYTES + more);
}

static void row_close(struct row *r) {
  r->b->len = (size_t)(r->p - r->b->data);
  *r->p = '\0';
}

/* For what is written by others: between these two `b` is whole. */
static void row_reopen(struct row *r) {
  r->p = buf_room(r->b, ROW_BYTES);
}

static inline void put_bytes(struct row *r, const char *s, size_t len) {
  memcpy(r->p, s, len);
  r->p += len;
}

#define KEY(r, name) put_bytes((r), ",\"" name "\":", sizeof(",\"" name "\":") - 1)
#define LITERAL(r, text) put_bytes((r), (text), sizeof(text) - 1)

static inline void put_char(struct row *r, char c) {
  *r->p++ = c;
}

/* Eight digits, the first in the lowest byte: pairs, then fours, then all at once. */
static inline uint64_t eight_digits(uint32_t v) {
  uint64_t high = v / 10000, low = v % 10000;
  uint64_t fours = high | low << 32;
  uint64_t hundreds = ((fours * 10486) >> 20) & UINT64_C(0x7f0000007f);
  uint64_t pairs = hundreds | (fours - 100 * hundreds) << 16;
  uint64_t tens = ((pairs * 103) >> 10) & UINT64_C(0x000f000f000f000f);
  return tens + ((pairs - 10 * tens) << 8) + UINT64_C(0x3030303030303030);
}

/* The row's times have ten digits and more: eight are made in one go. */
static void put_u64(struct row *r, uint64_t v) {
  if (v < 10) {
    put_char(r, (char)('0' + v));
    return;
  }
  if (v >= 100000000) {
    put_u64(r, v / 100000000);
    uint64_t digits = eight_digits((uint32_t)(v % 100000000));
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
      digits = __builtin_bswap64(digits);
    memcpy(r->p, &digits, 8);
    r->p += 8;
    return;
  }
  uint64_t digits = eight_digits((uint32_t)v);
  int zeros = __builtin_ctzll(digits & ~UINT64_C(0x3030303030303030)) / 8;
  digits >>= 8 * zeros;
  if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
    digits = __builtin_bswap64(digits);
  memcpy(r->p, &digits, 8); /* there is room for eight */
  r->p += 8 - zeros;
}

static inline void put_null(struct row *r) {
  LITERAL(r, "null");
}

static inline void put_count(struct row *r, int64_t v) {
  if (v == SAMPLE_ABSENT) {
    put_null(r);
    return;
  }
  if (v < 0)
    put_char(r, '-');
  put_u64(r, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

static inline void put_stamp(struct row *r, uint64_t t) {
  if (t == SAMPLE_NEVER)
    put_null(r);
  else
    put_u64(r, t);
}

/* 0 stands for null in turn, step and status. */
static inline void put_positive(struct row *r, uint64_t v) {
  put_stamp(r, v ? v : SAMPLE_NEVER);
}

static inline void put_bool(struct row *r, bool v) {
  if (v)
    LITERAL(r, "true");
  else
    LITERAL(r, "false");
}

static void put_text(struct row *r, const char *s) {
  if (!s) {
    put_null(r);
    return;
  }
  row_close(r);
  json_write_string(r->b, s, strlen(s));
  row_reopen(r);
}

/* Text that is JSON already; `otherwise` when there is none. */
static void put_json(struct row *r, const char *json, const char *otherwise) {
  row_close(r);
  buf_puts(r->b, json ? json : otherwise);
  row_reopen(r);
}

static void write_identity(struct row *r, const struct sample *s, const char *run_id) {
  LITERAL(r, "{\"v\":");
  put_u64(r, SAMPLE_VERSION);
  KEY(r, "run");
  put_text(r, run_id);
  KEY(r, "arm");
  put_text(r, s->arm);
  KEY(r, "trial_block");
  put_u64(r, s->trial_block);
  KEY(r, "session");
  put_u64(r, s->session);
  KEY(r, "turn");
  put_positive(r, s->turn);
  KEY(r, "branch");
  put_u64(r, s->branch);
  KEY(r, "parent");
  put_count(r, s->parent < 0 ? SAMPLE_ABSENT : s->parent);
  KEY(r, "step");
  put_positive(r, s->step);
  KEY(r, "tags");
  put_json(r, s->tags, "{}");
}

static void write_times(struct row *r, const struct sample *s) {
#define STAMP(r, s, before, name, stamp)                                                           \
  do {                                                                                             \
    LITERAL((r), before "\"" name "\":");                                                          \
    put_stamp((r), (s)->t[stamp]);                                                                 \
  } while (0)
  KEY(r, "t");
  STAMP(r, s, "{", "sched", STAMP_SCHED);
  STAMP(r, s, ",", "start", STAMP_START);
  STAMP(r, s, ",", "connected", STAMP_CONNECTED);
  STAMP(r, s, ",", "sent", STAMP_SENT);
  STAMP(r, s, ",", "headers", STAMP_HEADERS);
  STAMP(r, s, ",", "first_byte", STAMP_FIRST_BYTE);
  STAMP(r, s, ",", "first_token", STAMP_FIRST_TOKEN);
  STAMP(r, s, ",", "last_token", STAMP_LAST_TOKEN);
  STAMP(r, s, ",", "done", STAMP_DONE);
  put_char(r, '}');
  KEY(r, "error_ns");
  put_count(r, s->error_ns);
  KEY(r, "coalesced");
  put_u64(r, s->coalesced);
}

static void write_transport(struct row *r, const struct sample *s) {
  KEY(r, "status");
  put_positive(r, s->status > 0 ? (uint64_t)s->status : 0);
  KEY(r, "error");
  put_text(r, s->error == SAMPLE_OK ? NULL : sample_error_name(s->error));
  KEY(r, "finish_reason");
  put_text(r, s->finish_reason);
  KEY(r, "reused_connection");
  if (s->t[STAMP_CONNECTED] == SAMPLE_NEVER)
    put_null(r);
  else
    put_bool(r, s->reused_connection);
  KEY(r, "bytes_sent");
  put_u64(r, s->bytes_sent);
  KEY(r, "bytes_received");
  put_u64(r, s->bytes_received);
}

static void write_tokens(struct row *r, const struct sample *s) {
  KEY(r, "prompt_tokens");
  put_count(r, s->prompt_tokens);
  KEY(r, "prompt_tokens_local");
  put_count(r, s->prompt_tokens_local);
  KEY(r, "output_tokens");
  put_count(r, s->output_tokens);
  KEY(r, "output_tokens_local");
  put_count(r, s->output_tokens_local);
  KEY(r, "reasoning_tokens");
  put_count(r, s->reasoning_tokens);
  KEY(r, "cached_tokens");
  put_count(r, sample_cached_tokens(s));
  KEY(r, "cached_state");
  put_text(r, sample_cached_name(s->cached_state));
}

static void put_hash(struct row *r, uint64_t hash) {
  put_char(r, '"');
  for (int shift = 60; shift >= 0; shift -= 4)
    put_char(r, "0123456789abcdef"[hash >> shift & 15]);
  put_char(r, '"');
}

static void write_output(struct row *r, const struct sample *s, bool with_itl) {
  KEY(r, "output_events");
  put_u64(r, s->output_events);
  KEY(r, "itl_ns");
  if (with_itl) {
    row_close(r);
    row_open(r, r->b, s->n_gaps * 21);
    put_char(r, '[');
    for (size_t i = 0; i < s->n_gaps; i++) {
      if (i)
        put_char(r, ',');
      put_u64(r, s->gaps_ns[i]);
    }
    put_char(r, ']');
  } else {
    put_null(r);
  }
  KEY(r, "output_hash");
  if (s->output_hash)
    put_hash(r, s->output_hash);
  else
    put_null(r);
}

/* What later issues fill (hint … lookup_server_ns, the ledger) is there already, as null, so that
 * readers never meet a row without a field they know. */
static void write_route(struct row *r, const struct sample *s) {
  KEY(r, "policy");
  put_text(r, s->policy);
  KEY(r, "chosen");
  put_text(r, s->chosen);
  KEY(r, "served");
  put_text(r, s->t[STAMP_HEADERS] != SAMPLE_NEVER ? s->served : NULL);
  LITERAL(r, ",\"hint\":null,\"lookup_reason\":null");
  KEY(r, "route_reason");
  put_text(r, s->route_reason);
  LITERAL(r, ",\"score\":null,\"matched_tokens\":null,\"matched_blocks\":null,\"tier\":null"
             ",\"lookup_ns\":null,\"lookup_server_ns\":null");
  KEY(r, "fallback");
  if (s->policy)
    put_bool(r, s->fallback);
  else
    put_null(r);
  LITERAL(r, ",\"possible\":null,\"available\":null,\"captured\":null,\"delivered\":null"
             ",\"ledger_source\":null,\"causes\":null,\"class\":null");
}

static void write_rest(struct row *r, const struct sample *s) {
  KEY(r, "server");
  put_json(r, s->server, "null");
  KEY(r, "render_ns");
  put_count(r, s->render_ns);
  KEY(r, "tokenize_ns");
  put_count(r, s->tokenize_ns);
  KEY(r, "hash_ns");
  put_count(r, s->hash_ns);
  KEY(r, "survived_tokens");
  put_count(r, s->survived_tokens);
  KEY(r, "measured");
  put_bool(r, s->measured);
  KEY(r, "generation");
  put_bool(r, s->is_generation);
  KEY(r, "stream_asked");
  put_bool(r, s->stream_asked);
  KEY(r, "streamed");
  put_bool(r, s->streamed);
  KEY(r, "method");
  put_text(r, s->method);
  KEY(r, "url");
  put_text(r, s->url);
  KEY(r, "error_detail");
  put_text(r, s->error_detail);
  KEY(r, "reconnects");
  put_u64(r, s->reconnects);
  KEY(r, "first_visible");
  put_stamp(r, s->first_visible);
  KEY(r, "asked_tokens");
  put_count(r, s->asked_tokens);
  KEY(r, "first_tokens");
  put_count(r, s->first_tokens);
  KEY(r, "window_tokens");
  put_count(r, s->window_tokens);
  KEY(r, "coalesced_bound_ns");
  put_count(r, s->coalesced_bound_ns);
  KEY(r, "request_id");
  put_text(r, s->request_id);
  put_char(r, '}');
}

void sample_write(struct buf *b, const struct sample *s, const char *run_id, bool with_itl) {
  struct row r;
  row_open(&r, b, 0);
  write_identity(&r, s, run_id);
  write_times(&r, s);
  write_transport(&r, s);
  write_tokens(&r, s);
  write_output(&r, s, with_itl);
  write_route(&r, s);
  write_rest(&r, s);
  row_close(&r);
}

void value_record_write(struct buf *b, const struct value_record *v, const char *run_id) {
  struct row r;
  row_open(&r, b, 0);
  LITERAL(&r, "{\"v\":");
  put_u64(&r, SAMPLE_VERSION);
  KEY(&r, "run");
  put_text(&r, run_id);
  KEY(&r, "arm");
  put_text(&r, v->arm);
  KEY(&r, "session");
  put_u64(&r, v->session);
  KEY(&r, "measured");
  put_bool(&r, v->measured);
  KEY(&r, "t_ns");
  put_u64(&r, v->time_ns);
  KEY(&r, "metric");
  put_text(&r, v->is_check ? NULL : v->name);
  KEY(&r, "check");
  put_text(&r, v->is_check ? v->name : NULL);
  KEY(&r, "value");
  struct value number = value_double(v->value);
  row_close(&r);
  json_write(b, &number);
  row_reopen(&r);
  KEY(&r, "tags");
  put_json(&r, v->tags, "{}");
  put_char(&r, '}');
  row_close(&r);
}
