/* complete.c: fills a request's sample with what the client knows of it, and hands it over.
 *
 * Times become relative to the run's zero; counts come from the server's usage; what is not known
 * stays absent. Definitions: DESIGN.md, "What is measured". */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "net/client.h"
#include "text/harmony.h"
#include "text/tokens.h"

static uint64_t relative(const struct http_client *c, uint64_t stamp) {
  if (stamp == SAMPLE_NEVER)
    return SAMPLE_NEVER;
  return stamp > c->options.zero_ns ? stamp - c->options.zero_ns : 0;
}

static int64_t count(const struct openai_usage *u, int64_t value) {
  return u->present && value != OPENAI_ABSENT ? value : SAMPLE_ABSENT;
}

/* vLLM leaves the field out on a miss: from a server that does report, absence means zero. */
static void fill_cached(struct sample *s, struct http_target *t, const struct openai_usage *u) {
  s->cached_tokens = count(u, u->cached);
  if (s->cached_tokens != SAMPLE_ABSENT) {
    s->cached_state = s->cached_tokens > 0 ? CACHED_VALUE : CACHED_ZERO;
    atomic_store_explicit(t->reports, true, memory_order_relaxed);
  } else if (u->present && http_target_reports(t)) {
    s->cached_state = CACHED_INFERRED_ZERO;
    s->cached_tokens = 0;
  } else {
    s->cached_state = CACHED_ABSENT;
  }
}

static void fill_gaps(struct sample *s, const struct openai_result *result) {
  if (result->n_outputs < 2)
    return;
  size_t n = result->n_outputs - 1;
  s->n_gaps = n;
  s->gaps_ns = mem_alloc(n * sizeof *s->gaps_ns);
  s->gap_tokens = mem_alloc(n * sizeof *s->gap_tokens);
  for (size_t i = 0; i < n; i++) {
    s->gaps_ns[i] = result->outputs[i + 1].stamp_ns - result->outputs[i].stamp_ns;
    s->gap_tokens[i] = result->outputs[i + 1].tokens;
  }
}

/* Tokens whose stamps lie in the window. Known when each event's tokens are; when there are as many
 * events as tokens; or when the events lie all on one side. */
static int64_t window_tokens(const struct http_client *c, const struct openai_result *result,
                             int64_t total) {
  uint64_t start = __atomic_load_n(&c->options.window_start_ns, __ATOMIC_RELAXED);
  uint64_t end = __atomic_load_n(&c->options.window_end_ns, __ATOMIC_RELAXED);
  if (!result->n_outputs)
    return 0;
  int64_t sum = 0, events = 0;
  bool known = true;
  for (size_t i = 0; i < result->n_outputs; i++) {
    const struct openai_output *o = &result->outputs[i];
    known = known && o->tokens >= 0;
    if (o->stamp_ns < start || (end && o->stamp_ns >= end))
      continue;
    events++;
    sum += o->tokens >= 0 ? o->tokens : 0;
  }
  if (known)
    return sum;
  if (events == 0)
    return 0;
  if (events == (int64_t)result->n_outputs)
    return total;
  return total == (int64_t)result->n_outputs ? events : SAMPLE_ABSENT;
}

/* Text of every choice, reasoning, then each tool call's name and arguments, in their order. */
static uint64_t hash_output(const struct openai_result *result) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  size_t total = 0;
  for (size_t i = 0; i < result->n_choices; i++) {
    const struct buf *text = &result->choices[i].text;
    XXH3_64bits_update(&state, text->data ? text->data : "", text->len);
    total += text->len;
  }
  XXH3_64bits_update(&state, result->reasoning.data ? result->reasoning.data : "",
                     result->reasoning.len);
  total += result->reasoning.len;
  for (size_t i = 0; i < result->n_tool_calls; i++) {
    const struct buf *parts[] = {&result->tool_calls[i].name, &result->tool_calls[i].arguments};
    for (size_t k = 0; k < ARRAY_LEN(parts); k++) {
      XXH3_64bits_update(&state, parts[k]->data ? parts[k]->data : "", parts[k]->len);
      total += parts[k]->len;
    }
  }
  return total ? XXH3_64bits_digest(&state) : 0;
}

/* Adds what the client's own tokenizer makes of the output: the whole, and with `bytes` (where a
 * token never spans two events) each event that the server gave no count for. */
static void count_locally(struct sample *s, struct tokens_encoder *e,
                          struct openai_result *result) {
  if (!e || !result->output_events)
    return;
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  for (size_t i = 0; i < result->n_choices; i++)
    buf_put(&text, result->choices[i].text.data, result->choices[i].text.len);
  buf_put(&text, result->reasoning.data, result->reasoning.len);
  for (size_t i = 0; i < result->n_tool_calls; i++) {
    buf_put(&text, result->tool_calls[i].name.data, result->tool_calls[i].name.len);
    buf_put(&text, result->tool_calls[i].arguments.data, result->tool_calls[i].arguments.len);
  }
  /* Special tokens that a server writes out (skip_special_tokens = false) were tokens. */
  static const struct tokens_options special = {.special = true};
  size_t n = 0;
  if (tokens_encoder_count(e, text.len ? text.data : "", text.len, &special, &n, NULL) == 0)
    s->output_tokens_local = (int64_t)n;
  buf_free(&text);
  for (size_t i = 0; i < result->n_outputs && e->tokens->kind == TOKENS_BYTES; i++)
    if (result->outputs[i].tokens < 0 && result->outputs[i].text_len <= INT32_MAX)
      result->outputs[i].tokens = (int32_t)result->outputs[i].text_len;
}

/* When the first byte of a Harmony answer came: the model's analysis and calls in front of it are
 * text of a completion as well. 0: none came. */
static uint64_t harmony_visible_ns(const struct openai_result *r) {
  size_t at, end = 0;
  if (r->n_choices != 1)
    return r->first_visible_ns;
  const struct buf *text = &r->choices[0].text;
  if (!text->len || !harmony_answer_at(text->data, text->len, &at))
    return 0;
  for (size_t i = 0; i < r->n_outputs; i++) {
    end += r->outputs[i].text_len;
    if (end > at)
      return r->outputs[i].stamp_ns;
  }
  return 0;
}

static void fill_stream(struct sample *s, struct http_exchange *x) {
  const struct http_client *c = x->client;
  struct openai_result *result = &x->request->stream.result;
  count_locally(s, c->options.tokens, result);
  s->streamed = x->event_stream;
  uint64_t visible_ns = x->request->harmony && result->api == OPENAI_COMPLETIONS
                            ? harmony_visible_ns(result)
                            : result->first_visible_ns;
  s->first_visible = visible_ns ? relative(c, visible_ns) : SAMPLE_NEVER;
  s->output_events = result->output_events;
  s->coalesced = result->n_coalesced;
  s->coalesced_bound_ns = x->coalesced_bound_ns;
  if (result->n_choices && result->choices[0].finish_reason.len)
    s->finish_reason =
        sample_keep(s, result->choices[0].finish_reason.data, result->choices[0].finish_reason.len);
  s->prompt_tokens = count(&result->usage, result->usage.prompt);
  s->output_tokens = count(&result->usage, result->usage.completion);
  s->reasoning_tokens = count(&result->usage, result->usage.reasoning);
  fill_cached(s, x->target, &result->usage);
  s->usage_odd = result->usage_odd;
  s->first_tokens = result->n_outputs && result->outputs[0].tokens >= 0 ? result->outputs[0].tokens
                                                                        : SAMPLE_ABSENT;
  int64_t total = s->output_tokens;
  if (total == SAMPLE_ABSENT && result->token_ids_total != OPENAI_ABSENT)
    total = result->token_ids_total;
  if (total == SAMPLE_ABSENT)
    total = s->output_tokens_local;
  s->window_tokens = window_tokens(c, result, total);
  if (c->options.keep_gaps)
    fill_gaps(s, result);
  s->output_hash = hash_output(result);
}

/* A header's value as a string of the sample's; NULL when the reply has none of the names. */
static char *header_of(struct sample *s, const struct http_request *r, const char *name,
                       const char *fallback) {
  size_t len = 0;
  const char *value = http_response_header(r, name, &len);
  if (!value)
    value = http_response_header(r, fallback, &len);
  return value && len ? sample_keep(s, value, len) : NULL;
}

static char *url_of(struct sample *s, const struct http_exchange *x) {
  const char *base = x->target->base, *path = x->request->path;
  size_t base_len = strlen(base), path_len = strcspn(path, "?");
  char *url = sample_room(s, base_len + path_len);
  memcpy(url, base, base_len);
  memcpy(url + base_len, path, path_len);
  url[base_len + path_len] = '\0';
  return url;
}

static const char *constant_method(const char *method) {
  static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"};
  for (size_t i = 0; i < ARRAY_LEN(methods); i++)
    if (strcmp(methods[i], method) == 0)
      return methods[i];
  return "OTHER";
}

void http_complete_sample(struct http_exchange *x) {
  struct http_request *r = x->request;
  struct sample *s = r->sample;
  r->sample = NULL;
  if (!s)
    return;
  for (size_t i = 0; i < STAMP_COUNT; i++)
    s->t[i] = relative(x->client, r->stamp_ns[i]);
  /* The kernel took the last byte while it already held the peer's reset. */
  if (r->error != SAMPLE_OK && s->t[STAMP_SENT] != SAMPLE_NEVER &&
      s->t[STAMP_DONE] < s->t[STAMP_SENT])
    s->t[STAMP_DONE] = s->t[STAMP_SENT];
  s->error_ns = x->error_ns;
  s->status = r->status;
  s->error = r->error;
  if (r->detail[0]) {
    sample_drop(s, s->error_detail);
    s->error_detail = sample_keep(s, r->detail, strlen(r->detail));
  }
  s->reused_connection = r->reused_connection;
  s->reconnects = r->reconnects;
  s->bytes_sent = x->bytes_sent;
  s->bytes_received = x->bytes_received;
  s->method = constant_method(r->method);
  sample_drop(s, s->url);
  s->url = url_of(s, x);
  s->is_generation = r->api != OPENAI_NONE;
  s->stream_asked = s->is_generation && r->expect_stream;
  if (!s->served) /* a gateway chose; a replica that we chose goes by the name it has here */
    s->served = header_of(s, r, "x-inference-pod", "x-backend-id");
  if (s->is_generation)
    fill_stream(s, x);
  if (x->client->options.recorder)
    recorder_sample(x->client->options.recorder, s);
  else
    sample_free(s);
}
