/* openai_check.h: what the tests of openai*.c share: streams fed at every cut, and results compared
 * field by field with JSON. */
#ifndef TESTS_UNIT_OPENAI_CHECK_H
#define TESTS_UNIT_OPENAI_CHECK_H

#include "check.h"

#include "text/json.h"
#include "text/openai.h"
#include "text/openai_impl.h"

/* A chat chunk with this delta object; a completions chunk with these fields of its choice. */
#define DELTA(delta) "data: {\"choices\":[{\"index\":0,\"delta\":" delta "}]}\n\n"
#define TEXT(fields) "data: {\"choices\":[{\"index\":0," fields "}]}\n\n"
#define DONE "data: [DONE]\n\n"

static inline void openai_check_start(struct openai_stream *s, enum openai_api api) {
  struct openai_options options = {.api = api, .keep_outputs = true};
  openai_stream_init(s, &options);
}

/* One read, with its stamp. */
static inline void openai_check_feed(struct openai_stream *s, const char *bytes, uint64_t stamp) {
  struct err err;
  check_ok(openai_stream_feed(s, bytes, strlen(bytes), stamp, &err), &err);
}

static inline void openai_check_finish(struct openai_stream *s) {
  struct err err;
  check_ok(openai_stream_finish(s, &err), &err);
}

/* Every field of `want` (a JSON object) must be equal in the result. */
static inline void openai_check_result(const struct openai_result *r, const char *want,
                                       const char *where) {
  struct err err;
  struct value expected, got = openai_result_value(r);
  check_ok(json_parse(want, strlen(want), &expected, &err), &err);
  for (size_t i = 0; i < expected.u.object.n; i++) {
    const struct value_pair *pair = &expected.u.object.pairs[i];
    const struct value *v = value_get(&got, pair->key);
    if (v && value_equal(v, &pair->value))
      continue;
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    if (v)
      json_write(&b, v);
    buf_puts(&b, ", expected ");
    json_write(&b, &pair->value);
    fail_msg("%s: %s = %s", where, pair->key, b.data);
  }
  value_free(&expected);
  value_free(&got);
}

/* Feeds `bytes` whole, byte by byte and at every cut in two, every second time without the
 * short way of openai_repeat.h, and compares each time. Pieces are copies of exactly their size, so
 * that a sanitizer sees a read beyond one. */
static inline void openai_check_bytes(enum openai_api api, const char *bytes, size_t len,
                                      const char *want) {
  struct openai_stream s;
  struct err err;
  openai_check_start(&s, api);
  for (size_t cut = 0; cut <= len + 1; cut++) {
    openai_stream_reset(&s);
    s.priv->in_full = cut % 2;
    for (size_t at = 0; at < len;) {
      size_t n = cut > len ? 1 : at < cut ? cut - at : len - at;
      char *piece = malloc(n);
      memcpy(piece, bytes + at, n);
      check_ok(openai_stream_feed(&s, piece, n, 1, &err), &err);
      free(piece);
      at += n;
    }
    openai_check_finish(&s);
    char where[64];
    snprintf(where, sizeof where, "cut at %zu of %zu", cut, len);
    openai_check_result(&s.result, want, where);
  }
  openai_stream_free(&s);
}

static inline void openai_check(enum openai_api api, const char *bytes, const char *want) {
  openai_check_bytes(api, bytes, strlen(bytes), want);
}

static inline void openai_check_reply(enum openai_api api, const char *body, const char *want) {
  struct openai_stream s;
  struct err err;
  openai_check_start(&s, api);
  check_ok(openai_parse_reply(&s, body, strlen(body), 5, &err), &err);
  openai_check_result(&s.result, want, body);
  openai_stream_free(&s);
}

#endif
