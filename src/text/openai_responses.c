/* openai_responses.c: events and replies of the Responses API.
 *
 * Source: vLLM's and agentic-api's events (shared facts/interfaces.md §1.5, §6). Output is what
 * comes in `*.delta` events; items, parts and `*.done` events announce or repeat it. A call's
 * number is its output_index. */
#include "text/openai_impl.h"

#include <string.h>

static bool is_tool_item(const struct scan_str *type) {
  return scan_equals(type, "function_call") || scan_equals(type, "mcp_call") ||
         scan_equals(type, "custom_tool_call");
}

static int apply_item(struct openai_stream *s, const struct frame_item *item, int64_t index) {
  if (!is_tool_item(&item->type))
    return 0;
  /* The item's own id serves only where the protocol has no call_id. */
  struct frame_tool tool = {.index = index,
                            .id = item->call_id.len ? item->call_id : item->id,
                            .name = item->name,
                            .arguments = item->arguments};
  return openai_add_tool(s, 0, &tool, true);
}

static int apply_delta(struct openai_stream *s, const struct frame *f,
                       const struct scan_str *type) {
  if (!f->delta.len)
    return 0;
  bool visible = scan_equals(type, "response.output_text.delta");
  int rc = 0;
  if (visible) {
    rc = openai_add_visible(s, 0, &f->delta);
  } else if (scan_equals(type, "response.reasoning_text.delta") ||
             scan_equals(type, "response.reasoning_summary_text.delta")) {
    rc = openai_add_output(s->priv, &s->result.reasoning, &f->delta);
  } else if (scan_equals(type, "response.function_call_arguments.delta") ||
             scan_equals(type, "response.mcp_call_arguments.delta") ||
             scan_equals(type, "response.custom_tool_call_input.delta")) {
    struct frame_tool tool = {.index = f->output_index, .arguments = f->delta};
    rc = openai_add_tool(s, 0, &tool, false);
  }
  return rc ? rc : openai_mark_output(s, visible, -1);
}

/* "completed", or "incomplete:max_output_tokens". */
static int set_status(struct openai_stream *s, const struct frame_reply *reply) {
  char tail[64];
  struct scan_str reason = {.p = tail};
  if (scan_equals(&reply->status, "incomplete") && reply->reason.len &&
      reply->reason.len < sizeof tail - 1) {
    tail[0] = ':';
    memcpy(tail + 1, reply->reason.p, reply->reason.len);
    reason.len = reply->reason.len + 1;
    reason.escaped = reply->reason.escaped;
  }
  return openai_set_finish(s, 0, &reply->status, &reason);
}

/* The `response` object that starts, accompanies and ends a stream, or is the whole reply. */
static int apply_response(struct openai_stream *s, const struct frame_reply *reply, bool terminal) {
  struct openai_result *r = &s->result;
  if (reply->usage.present)
    openai_set_usage(s, &reply->usage);
  int rc = 0;
  if (reply->id.len) {
    buf_reset(&r->response_id);
    rc = scan_unescape(&reply->id, &r->response_id);
  }
  static const char failed[] = "the response failed, and says no more";
  if (reply->error.there)
    openai_result_error_frame(r, OPENAI_ERROR_IN_BAND, &reply->error);
  else if (scan_equals(&reply->status, "failed"))
    openai_result_error_text(r, OPENAI_ERROR_IN_BAND, failed, sizeof failed - 1);
  return rc || !terminal ? rc : set_status(s, reply);
}

int openai_apply_responses_event(struct openai_stream *s, const struct frame *f,
                                 const struct scan_str *type) {
  static const char delta[] = ".delta";
  size_t tail = sizeof delta - 1;
  if (type->len > tail && memcmp(type->p + type->len - tail, delta, tail) == 0)
    return apply_delta(s, f, type);
  if (f->n_items)
    return apply_item(s, &f->items[0], f->output_index);
  if (scan_equals(type, "response.function_call_arguments.done") ||
      scan_equals(type, "response.mcp_call_arguments.done") ||
      scan_equals(type, "response.custom_tool_call_input.done")) {
    struct frame_tool tool = {.index = f->output_index, .arguments = f->arguments};
    return openai_add_tool(s, 0, &tool, true);
  }
  if (!f->has_response)
    return 0;
  bool terminal = scan_equals(type, "response.completed") ||
                  scan_equals(type, "response.incomplete") ||
                  scan_equals(type, "response.failed") || scan_equals(type, "response.cancelled");
  s->result.terminal_event |= terminal;
  return apply_response(s, &f->response, terminal);
}

int openai_apply_responses_reply(struct openai_stream *s, const struct frame *f) {
  bool visible = false;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < f->n_parts; i++) {
    const struct frame_part *part = &f->parts[i];
    visible |= part->visible && part->text.len;
    rc = part->visible ? openai_add_visible(s, 0, &part->text)
                       : openai_add_output(s->priv, &s->result.reasoning, &part->text);
  }
  for (size_t i = 0; rc == 0 && i < f->n_items; i++)
    rc = apply_item(s, &f->items[i], f->items[i].index);
  if (rc == 0)
    rc = apply_response(s, &f->top, true);
  if (rc || !s->priv->event_bytes)
    return rc;
  int64_t n = s->result.usage.present ? s->result.usage.completion : -1;
  return openai_mark_output(s, visible, n < 0 ? -1 : n);
}
