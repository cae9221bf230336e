/* reply_vllm.c: vLLM's chat and completions replies.
 *
 * Unset fields are omitted in events, null in whole replies; prompt_tokens_details is there only on
 * a cache hit, completion_tokens_details only with reasoning. With several choices every choice has
 * a role event and a finish event of its own, and usage counts each prompt once. */
#include <string.h>

#include "sim/logprobs.h"
#include "text/json.h"

static bool is_chat(const struct reply *r) {
  return r->request->api == GEN_CHAT;
}

/* What every event, and a whole reply, begins with. */
static void put_head(struct reply *r, struct buf *out) {
  if (!r->head.len) {
    struct buf *b = &r->head;
    const char *object = !is_chat(r)          ? "text_completion"
                         : r->request->stream ? "chat.completion.chunk"
                                              : "chat.completion";
    buf_putc(b, '{');
    reply_put_string("id", r->o.id, b);
    buf_printf(b, ",\"object\":\"%s\",\"created\":%llu,", object,
               (unsigned long long)r->o.created_s);
    reply_put_string("model", r->o.model, b);
    buf_puts(b, ",\"choices\":[");
  }
  buf_put(out, r->head.data, r->head.len);
}

/* `f` NULL: of the caches nothing is known. An event leaves out what is null, a reply has it. */
static void put_usage(const struct reply *r, uint32_t prompt, const struct reply_facts *f,
                      uint32_t completion, uint32_t thoughts, struct buf *out) {
  buf_printf(out, "{\"prompt_tokens\":%u,\"total_tokens\":%u,\"completion_tokens\":%u", prompt,
             prompt + completion, completion);
  if (f && f->cached && !r->o.no_cached)
    buf_printf(out,
               ",\"prompt_tokens_details\":{\"cached_tokens\":%u,\"created_cache_tokens\":%u%s}",
               f->cached, f->created, r->request->stream ? "" : ",\"multimodal_tokens\":null");
  else if (!r->request->stream)
    buf_puts(out, ",\"prompt_tokens_details\":null");
  if (thoughts)
    buf_printf(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%u}", thoughts);
  buf_putc(out, '}');
}

/* --enable-per-request-metrics, of a request with one choice; times from its scheduling on. */
static void put_metrics(const struct reply *r, const struct reply_facts *f, struct buf *out) {
  double all_s = (double)(f->prefill_ns + f->decode_ns) / 1e9;
  if (!r->o.metrics || r->request->n_choices != 1)
    return;
  buf_printf(out,
             ",\"metrics\":{\"time_to_first_token_ms\":%.3f,\"generation_time_ms\":%.3f,"
             "\"queue_time_ms\":%.3f,\"mean_itl_ms\":",
             (double)f->prefill_ns / 1e6, (double)f->decode_ns / 1e6, (double)f->queue_ns / 1e6);
  if (f->first_tokens > 1)
    buf_printf(out, "%.3f", (double)f->decode_ns / 1e6 / (f->first_tokens - 1));
  else
    buf_puts(out, "null");
  buf_printf(out, ",\"tokens_per_second\":%.3f}", all_s > 0 ? f->first_tokens / all_s : 0);
}

/* A running count is the choice's own. */
static void put_continuous(const struct reply *r, const struct genchoice *c, uint32_t completion,
                           struct buf *out) {
  if (!r->request->continuous_usage || r->o.no_usage)
    return;
  buf_puts(out, ",\"usage\":");
  put_usage(r, c->prompt_len, NULL, completion, 0, out);
}

static void first(struct reply *r, const struct reply_facts *f, struct events *ev) {
  (void)f;
  const struct genrequest *q = r->request;
  struct buf *out = &ev->bytes;
  for (uint32_t i = 0; is_chat(r) && i < q->n_choices; i++) {
    buf_puts(out, "data: ");
    put_head(r, out);
    buf_printf(out, "{\"index\":%u,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},", i);
    buf_puts(out, "\"logprobs\":null,\"finish_reason\":null}]");
    put_continuous(r, &q->choices[i], 0, out);
    buf_puts(out, ",\"prompt_token_ids\":");
    if (q->return_token_ids)
      reply_put_ids(q->choices[i].tokens, q->choices[i].prompt_len, out);
    else
      buf_puts(out, "null");
    buf_puts(out, "}\n\n");
    events_end(ev, TRUTH_ROLE);
  }
}

/* A call's name and id come in an event before the first of its arguments. */
static void begin_call(struct reply *r, uint32_t choice, const struct genchoice *c,
                       struct events *ev) {
  struct buf *out = &ev->bytes;
  buf_puts(out, "data: ");
  put_head(r, out);
  buf_printf(out, "{\"index\":%u,\"delta\":{\"tool_calls\":[{\"index\":0,", choice);
  reply_put_string("id", c->call_id, out);
  buf_puts(out, ",\"type\":\"function\",\"function\":{");
  reply_put_string("name", c->call_name, out);
  buf_puts(out, ",\"arguments\":\"\"}}]},\"logprobs\":null,\"finish_reason\":null}]}\n\n");
  events_say(ev, true, false);
  events_end(ev, TRUTH_CONTENT);
}

static void put_call(const struct genchoice *c, uint32_t start, uint32_t end, bool last,
                     struct buf *out) {
  if (end > start) {
    buf_puts(out, "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":");
    reply_put_part(c, start, end, false, out);
    buf_puts(out, "}}]");
  } else if (last) {
    buf_puts(out, "\"content\":\"\"");
  }
}

/* Reasoning, content, or both when an event holds the end of one and the beginning of the other. */
static void put_delta(const struct genchoice *c, uint32_t start, uint32_t end, struct buf *out) {
  bool thinks = reply_has_part(c, start, end, true), answers = end > c->thought || !thinks;
  if (thinks) {
    buf_puts(out, "\"reasoning\":");
    reply_put_part(c, start, end, true, out);
  }
  if (answers) {
    buf_puts(out, thinks ? ",\"content\":" : "\"content\":");
    reply_put_part(c, start, end, false, out);
  }
}

static void put_stop_reason(const struct genchoice *c, struct buf *out) {
  buf_puts(out, ",\"stop_reason\":");
  if (c->stop)
    json_write_string(out, c->stop, strlen(c->stop));
  else
    buf_puts(out, "null");
}

static void put_finish(const struct reply *r, const struct genchoice *c, uint32_t from, uint32_t to,
                       bool last, struct buf *out) {
  logprobs_put(r, c, from, to, out);
  buf_puts(out, ",\"finish_reason\":");
  if (last)
    buf_printf(out, "\"%s\"", c->finish);
  else
    buf_puts(out, "null");
  if (last)
    put_stop_reason(c, out);
  else if (!is_chat(r))
    buf_puts(out, ",\"stop_reason\":null");
}

static void tokens(struct reply *r, uint32_t choice, uint32_t from, uint32_t to, bool last,
                   const struct reply_facts *f, struct events *ev) {
  (void)f;
  const struct genrequest *q = r->request;
  const struct genchoice *c = &q->choices[choice];
  struct buf *out = &ev->bytes;
  uint32_t start = reply_shown(c, from), end = r->o.hide ? start : reply_shown(c, to);
  if (!last && (r->o.hide || (c->call_name && end == start)))
    return;
  if (c->call_name && !start && end)
    begin_call(r, choice, c, ev);
  buf_puts(out, "data: ");
  put_head(r, out);
  buf_printf(out, is_chat(r) ? "{\"index\":%u,\"delta\":{" : "{\"index\":%u,\"text\":", choice);
  if (is_chat(r)) {
    if (c->call_name)
      put_call(c, start, end, last, out);
    else
      put_delta(c, start, end, out);
    buf_putc(out, '}');
  } else {
    reply_put_part(c, start, end, false, out);
  }
  put_finish(r, c, from, to, last, out);
  if (q->return_token_ids && !r->o.hide) {
    buf_puts(out, ",\"token_ids\":");
    reply_put_ids(c->output + from, to - from, out);
    if (!is_chat(r) && !from) {
      buf_puts(out, ",\"prompt_token_ids\":");
      reply_put_ids(c->tokens, c->prompt_len, out);
    }
  }
  buf_puts(out, "}]");
  put_continuous(r, c, to, out);
  buf_puts(out, "}\n\n");
  reply_say(c, start, end, q->return_token_ids && !r->o.hide && to > from, ev);
  events_end(ev, last ? TRUTH_FINISH : TRUTH_CONTENT);
}

static void end(struct reply *r, const struct reply_facts *f, struct events *ev) {
  struct buf *out = &ev->bytes;
  if (r->request->include_usage && !r->o.no_usage) {
    buf_puts(out, "data: ");
    put_head(r, out);
    buf_puts(out, "],\"usage\":");
    put_usage(r, genrequest_prompt_tokens(r->request), f, f->completion,
              reply_reasoning_tokens(r->request), out);
    put_metrics(r, f, out);
    buf_puts(out, "}\n\n");
    events_end(ev, TRUTH_USAGE);
  }
  buf_puts(out, "data: [DONE]\n\n");
  events_end(ev, TRUTH_DONE);
}

static void error(struct reply *r, const struct apierror *e, struct events *ev) {
  (void)r;
  reply_error_event(e, ev);
}

/* ---- whole replies ---- */

static void put_ids_or_null(const struct reply *r, const char *key, const uint32_t *ids, uint32_t n,
                            struct buf *out) {
  buf_printf(out, ",\"%s\":", key);
  if (r->request->return_token_ids && !r->o.hide)
    reply_put_ids(ids, n, out);
  else
    buf_puts(out, "null");
}

static void put_message(const struct genchoice *c, uint32_t end, struct buf *out) {
  buf_puts(out, "\"message\":{\"role\":\"assistant\",\"content\":");
  if (c->call_name)
    buf_puts(out, "null");
  else
    reply_put_part(c, 0, end, false, out);
  buf_puts(out, ",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,"
                "\"tool_calls\":[");
  if (c->call_name && end) {
    buf_putc(out, '{');
    reply_put_string("id", c->call_id, out);
    buf_puts(out, ",\"type\":\"function\",\"function\":{");
    reply_put_string("name", c->call_name, out);
    buf_puts(out, ",\"arguments\":");
    reply_put_part(c, 0, end, false, out);
    buf_puts(out, "}}");
  }
  buf_puts(out, "],\"reasoning\":");
  if (reply_has_part(c, 0, end, true))
    reply_put_part(c, 0, end, true, out);
  else
    buf_puts(out, "null");
  buf_putc(out, '}');
}

static void put_choice(const struct reply *r, uint32_t i, struct buf *out) {
  const struct genchoice *c = &r->request->choices[i];
  uint32_t to = r->o.hide ? 0 : reply_shown(c, c->output_len);
  buf_printf(out, "%s{\"index\":%u,", i ? "," : "", i);
  if (is_chat(r)) {
    put_message(c, to, out);
  } else {
    buf_puts(out, "\"text\":");
    reply_put_part(c, 0, to, false, out);
  }
  logprobs_put(r, c, 0, c->output_len, out);
  buf_printf(out, ",\"finish_reason\":\"%s\"", c->finish);
  put_stop_reason(c, out);
  put_ids_or_null(r, "token_ids", c->output, c->output_len, out);
  if (!is_chat(r)) {
    logprobs_put_prompt(r, c, out);
    put_ids_or_null(r, "prompt_token_ids", c->tokens, c->prompt_len, out);
  }
  buf_putc(out, '}');
}

static void whole(struct reply *r, const struct reply_facts *f, struct buf *out) {
  const struct genrequest *q = r->request;
  put_head(r, out);
  for (uint32_t i = 0; i < q->n_choices; i++)
    put_choice(r, i, out);
  buf_puts(out, "],\"service_tier\":null,\"system_fingerprint\":null");
  if (!r->o.no_usage) {
    buf_puts(out, ",\"usage\":");
    put_usage(r, genrequest_prompt_tokens(q), f, f->completion, reply_reasoning_tokens(q), out);
  }
  if (is_chat(r)) {
    logprobs_put_prompt(r, q->choices, out);
    put_ids_or_null(r, "prompt_token_ids", q->choices[0].tokens, q->choices[0].prompt_len, out);
  }
  buf_puts(out, ",\"kv_transfer_params\":");
  buf_puts(out, r->transfer ? r->transfer : "null");
  put_metrics(r, f, out);
  buf_putc(out, '}');
}

const struct reply_form reply_vllm = {
    .name = "vllm", .first = first, .tokens = tokens, .end = end, .error = error, .whole = whole};
