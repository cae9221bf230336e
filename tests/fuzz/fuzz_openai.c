/* fuzz_openai.c: any bytes as a server's response. The first three bytes choose the API, the limits
 * and a cut; the rest is fed whole, cut in two (with every event read in full: openai_repeat.h),
 * and again after a reset, which must all give an equal result; then read as a whole reply. */
#include "text/json.h"
#include "text/openai_impl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

static int feed_copy(struct openai_stream *s, const uint8_t *data, size_t len, uint64_t stamp) {
  struct err err;
  char *piece = malloc(len ? len : 1);
  memcpy(piece, data, len);
  int rc = openai_stream_feed(s, piece, len, stamp, &err);
  free(piece);
  require(rc == 0 || rc == ERR_LIMIT);
  return rc;
}

/* What must hold of any result. */
static void check_result(const struct openai_result *r, const struct openai_options *options) {
  size_t kept = r->reasoning.len;
  for (size_t i = 0; i < r->n_choices; i++)
    kept += r->choices[i].text.len;
  for (size_t i = 0; i < r->n_tool_calls; i++)
    kept += r->tool_calls[i].name.len + r->tool_calls[i].arguments.len;
  require(!options->max_bytes || kept <= options->max_bytes);
  require(!options->keep_outputs || r->n_outputs <= r->output_events);
  require((r->output_events > 0) == (r->ttft_event_index >= 0));
  require((r->output_events > 0) == (r->first_token_ns > 0));
  require((r->first_visible_event_index >= 0) == (r->first_visible_ns > 0));
  require(r->first_token_ns <= r->last_token_ns && r->last_token_ns <= r->end_ns);
  require(!r->complete || r->error_kind == OPENAI_ERROR_NONE);
}

static struct value run(struct openai_stream *s, const struct openai_options *options,
                        const uint8_t *data, size_t size, size_t cut, bool in_full) {
  struct err err;
  openai_stream_reset(s);
  s->priv->in_full = in_full;
  int rc = feed_copy(s, data, cut, 1);
  int second = feed_copy(s, data + cut, size - cut, 2);
  require(!rc || second == ERR_LIMIT);
  rc = openai_stream_finish(s, &err);
  require(second ? rc == second : rc == 0 || rc == ERR_LIMIT); /* the last event may be too long */
  require(openai_stream_finish(s, &err) == rc);
  check_result(&s->result, options);
  return openai_result_value(&s->result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3)
    return 0;
  struct openai_options options = {.api = (enum openai_api)(1 + data[0] % 3),
                                   .max_bytes = data[0] & 0x80 ? 64 : 0,
                                   .max_event = data[1] & 0x80 ? 128 : 0,
                                   .keep_outputs = data[1] & 1};
  size_t at = data[2];
  data += 3;
  size -= 3;
  struct openai_stream s;
  struct err err;
  openai_stream_init(&s, &options);
  struct value whole = run(&s, &options, data, size, size, false);
  struct value split = run(&s, &options, data, size, size ? at * (1 + size / 256) % size : 0, true);
  require(value_equal(&whole, &split));
  value_free(&split);

  openai_stream_reset(&s);
  int rc = openai_parse_reply(&s, (const char *)data, size, 3, &err);
  require(rc == 0 || rc == ERR_LIMIT);
  check_result(&s.result, &options);
  struct value reply = openai_result_value(&s.result);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, &reply);
  value_free(&reply);

  split = run(&s, &options, data, size, 0, false);
  require(value_equal(&whole, &split));
  json_write(&b, &split);
  require(json_utf8_valid(b.data, b.len) == b.len);
  buf_free(&b);
  value_free(&split);
  value_free(&whole);
  openai_stream_free(&s);
  return 0;
}
