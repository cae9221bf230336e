/* reply.c: writing vLLM's replies. Written by hand, not through struct value: an event is made for
 * every token of every stream. */
#include "sim/reply.h"

#include <string.h>

#include "text/json.h"

void reply_init(struct reply *r, const struct genrequest *request, const char *model,
                const char *id, uint64_t created_s) {
  r->request = request;
  buf_init(&r->head, BUF_MAX_OWN);
  bool chat = request->api == GEN_CHAT;
  const char *object = !chat             ? "text_completion"
                       : request->stream ? "chat.completion.chunk"
                                         : "chat.completion";
  buf_puts(&r->head, "{\"id\":");
  json_write_string(&r->head, id, strlen(id));
  buf_printf(&r->head, ",\"object\":\"%s\",\"created\":%llu,\"model\":", object,
             (unsigned long long)created_s);
  json_write_string(&r->head, model, strlen(model));
  buf_puts(&r->head, ",\"choices\":[");
}

void reply_free(struct reply *r) {
  buf_free(&r->head);
}

static void put_ids(const uint32_t *ids, size_t n, struct buf *out) {
  buf_putc(out, '[');
  for (size_t i = 0; i < n; i++)
    buf_printf(out, i ? ",%u" : "%u", ids[i]);
  buf_putc(out, ']');
}

static void put_usage(const struct genrequest *q, uint32_t cached, uint32_t completion,
                      struct buf *out) {
  buf_printf(out, "{\"prompt_tokens\":%u,\"total_tokens\":%u,\"completion_tokens\":%u",
             q->prompt_len, q->prompt_len + completion, completion);
  if (cached)
    buf_printf(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%u}", cached);
  buf_putc(out, '}');
}

static void begin_event(const struct reply *r, struct buf *out) {
  buf_puts(out, "data: ");
  buf_put(out, r->head.data, r->head.len);
}

static void put_continuous(const struct reply *r, uint32_t completion, struct buf *out) {
  if (!r->request->continuous_usage)
    return;
  buf_puts(out, ",\"usage\":");
  put_usage(r->request, 0, completion, out);
}

void reply_role(const struct reply *r, struct buf *out) {
  begin_event(r, out);
  buf_puts(out, "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                "\"logprobs\":null,\"finish_reason\":null}]");
  put_continuous(r, 0, out);
  buf_puts(out, ",\"prompt_token_ids\":");
  if (r->request->return_token_ids)
    put_ids(r->request->tokens, r->request->prompt_len, out);
  else
    buf_puts(out, "null");
  buf_puts(out, "}\n\n");
}

/* Bytes of the text that are out after n tokens. */
static uint32_t shown_after(const struct genrequest *q, uint32_t n) {
  uint32_t bytes = n ? q->shown[n - 1] : 0;
  return bytes < q->visible ? bytes : q->visible;
}

/* Bytes start..end of the text less what is not of its kind: thoughts, or the answer. */
static void put_part(const struct genrequest *q, uint32_t start, uint32_t end, bool thoughts,
                     struct buf *out) {
  if (thoughts && end > q->thought)
    end = q->thought;
  if (!thoughts && start < q->thought)
    start = q->thought < end ? q->thought : end;
  json_write_string(out, q->text + start, end > start ? end - start : 0);
}

static void put_text(const struct genrequest *q, uint32_t from, uint32_t to, bool hide,
                     struct buf *out) {
  uint32_t start = shown_after(q, from), end = hide ? start : shown_after(q, to);
  put_part(q, start, end, false, out);
}

/* Reasoning, content, or both when an event holds the end of one and the beginning of the other. */
static void put_delta(const struct genrequest *q, uint32_t from, uint32_t to, bool hide,
                      struct buf *out) {
  uint32_t start = shown_after(q, from), end = hide ? start : shown_after(q, to);
  bool thinks = start < q->thought && end > start, answers = end > q->thought || !thinks;
  if (thinks) {
    buf_puts(out, "\"reasoning\":");
    put_part(q, start, end, true, out);
  }
  if (answers) {
    buf_puts(out, thinks ? ",\"content\":" : "\"content\":");
    put_part(q, start, end, false, out);
  }
}

static void put_stop_reason(const struct genrequest *q, struct buf *out) {
  buf_puts(out, ",\"stop_reason\":");
  if (q->stop)
    json_write_string(out, q->stop, strlen(q->stop));
  else
    buf_puts(out, "null");
}

void reply_delta(const struct reply *r, uint32_t from, uint32_t to, bool last, bool hide,
                 struct buf *out) {
  const struct genrequest *q = r->request;
  bool chat = q->api == GEN_CHAT;
  begin_event(r, out);
  buf_puts(out, chat ? "{\"index\":0,\"delta\":{" : "{\"index\":0,\"text\":");
  if (chat)
    put_delta(q, from, to, hide, out);
  else
    put_text(q, from, to, hide, out);
  buf_puts(out, chat ? "},\"logprobs\":null,\"finish_reason\":"
                     : ",\"logprobs\":null,\"finish_reason\":");
  if (last)
    buf_printf(out, "\"%s\"", q->finish);
  else
    buf_puts(out, "null");
  if (last)
    put_stop_reason(q, out);
  else if (!chat)
    buf_puts(out, ",\"stop_reason\":null");
  if (q->return_token_ids && !hide) {
    buf_puts(out, ",\"token_ids\":");
    put_ids(q->output + from, to - from, out);
    if (!chat && !from) {
      buf_puts(out, ",\"prompt_token_ids\":");
      put_ids(q->tokens, q->prompt_len, out);
    }
  }
  buf_puts(out, "}]");
  put_continuous(r, to, out);
  buf_puts(out, "}\n\n");
}

void reply_usage(const struct reply *r, uint32_t cached, uint32_t completion, struct buf *out) {
  begin_event(r, out);
  buf_puts(out, "],\"usage\":");
  put_usage(r->request, cached, completion, out);
  buf_puts(out, "}\n\n");
}

void reply_error(const struct apierror *e, struct buf *out) {
  buf_puts(out, "data: ");
  apierror_write(e, out);
  buf_puts(out, "\n\n");
}

void reply_done(struct buf *out) {
  buf_puts(out, "data: [DONE]\n\n");
}

static void put_whole_usage(const struct genrequest *q, uint32_t cached, struct buf *out) {
  buf_printf(out,
             ",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u,\"completion_tokens\":%u,"
             "\"prompt_tokens_details\":",
             q->prompt_len, q->prompt_len + q->output_len, q->output_len);
  if (cached)
    buf_printf(out, "{\"cached_tokens\":%u}}", cached);
  else
    buf_puts(out, "null}");
}

static void put_whole_ids(const struct genrequest *q, const char *key, bool prompt, bool hide,
                          struct buf *out) {
  buf_printf(out, ",\"%s\":", key);
  if (!q->return_token_ids || hide)
    buf_puts(out, "null");
  else if (prompt)
    put_ids(q->tokens, q->prompt_len, out);
  else
    put_ids(q->output, q->output_len, out);
}

void reply_whole(const struct reply *r, uint32_t cached, bool usage, bool hide, struct buf *out) {
  const struct genrequest *q = r->request;
  bool chat = q->api == GEN_CHAT;
  buf_put(out, r->head.data, r->head.len);
  buf_puts(out, "{\"index\":0,");
  buf_puts(out, chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
  put_text(q, 0, q->output_len, hide, out);
  if (chat)
    buf_puts(out, ",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,"
                  "\"tool_calls\":[],\"reasoning\":");
  if (chat && q->thought && !hide)
    put_part(q, 0, shown_after(q, q->output_len), true, out);
  else if (chat)
    buf_puts(out, "null");
  if (chat)
    buf_putc(out, '}');
  buf_printf(out, ",\"logprobs\":null,\"finish_reason\":\"%s\"", q->finish);
  put_stop_reason(q, out);
  put_whole_ids(q, "token_ids", false, hide, out);
  if (!chat) {
    buf_puts(out, ",\"prompt_logprobs\":null");
    put_whole_ids(q, "prompt_token_ids", true, hide, out);
  }
  buf_puts(out, "}],\"service_tier\":null,\"system_fingerprint\":null");
  if (usage)
    put_whole_usage(q, cached, out);
  if (chat) {
    buf_puts(out, ",\"prompt_logprobs\":null");
    put_whole_ids(q, "prompt_token_ids", true, hide, out);
  }
  buf_puts(out, ",\"kv_transfer_params\":null}");
}
