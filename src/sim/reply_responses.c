/* reply_responses.c: vLLM's Responses API: events with types and numbers, items, the response
 * object.
 *
 * Order of events: facts/interfaces.md §1.5, fixtures/sse 06 and 07. An answer is a reasoning item
 * when it has thoughts, then a message or a function call. The end is a terminal event, without
 * [DONE]; an error ends the stream without one. */
#include <stdio.h>
#include <string.h>

#include "sim/babble.h"
#include "sim/reply.h"
#include "sim/responses.h"
#include "text/json.h"

/* ---- events ---- */

static struct buf *begin_event(struct reply *r, const char *type, struct events *ev) {
  buf_printf(&ev->bytes, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u", type, type,
             r->sequence++);
  return &ev->bytes;
}

static void end_event(enum truth_kind kind, struct events *ev) {
  buf_puts(&ev->bytes, "}\n\n");
  events_end(ev, kind);
}

/* ---- items ---- */

static uint64_t hash_of(const char *id) {
  uint64_t h = 0;
  for (; *id; id++)
    h = babble_mix(h ^ (unsigned char)*id);
  return h;
}

static const char *item_id(const struct reply *r, enum reply_item item, char *out, size_t size) {
  static const char *const prefixes[] = {"", "rs", "msg", "fc"};
  snprintf(out, size, "%s_%016llx", prefixes[item],
           (unsigned long long)babble_mix(hash_of(r->o.id) + item));
  return out;
}

/* One item as JSON: its bytes start..end of the text, or nothing yet. */
static void put_item(const struct reply *r, enum reply_item item, uint32_t start, uint32_t end,
                     bool done, struct buf *out) {
  const struct genchoice *c = r->request->choices;
  const char *status = done ? "completed" : "in_progress";
  char id[40];
  buf_putc(out, '{');
  reply_put_string("id", item_id(r, item, id, sizeof id), out);
  if (item == REPLY_CALL) {
    buf_puts(out, ",\"type\":\"function_call\",");
    reply_put_string("call_id", c->call_id, out);
    buf_putc(out, ',');
    reply_put_string("name", c->call_name, out);
    buf_puts(out, ",\"arguments\":");
    reply_put_part(c, start, done ? end : start, false, out);
    buf_printf(out, ",\"status\":\"%s\"}", status);
    return;
  }
  bool thoughts = item == REPLY_REASONING;
  buf_puts(out, thoughts ? ",\"type\":\"reasoning\",\"summary\":[]"
                         : ",\"type\":\"message\",\"role\":\"assistant\"");
  buf_printf(out, ",\"status\":\"%s\",\"content\":[", status);
  if (done) {
    buf_puts(out, thoughts ? "{\"type\":\"reasoning_text\",\"text\":"
                           : "{\"type\":\"output_text\",\"text\":");
    reply_put_part(c, start, end, thoughts, out);
    buf_puts(out, thoughts ? "}" : ",\"annotations\":[],\"logprobs\":null}");
  }
  buf_puts(out, "]}");
}

/* `,"item_id":…,"output_index":n` and, of what has parts, the part's number. */
static void put_place(const struct reply *r, struct buf *out) {
  char id[40];
  buf_putc(out, ',');
  reply_put_string("item_id", item_id(r, r->item, id, sizeof id), out);
  buf_printf(out, ",\"output_index\":%u", r->n_items - 1);
  if (r->item != REPLY_CALL)
    buf_puts(out, ",\"content_index\":0");
}

static void put_part_event(struct reply *r, bool done, uint32_t end, struct events *ev) {
  static const char *const types[][2] = {
      {"response.reasoning_part.added", "response.reasoning_part.done"},
      {"response.content_part.added", "response.content_part.done"}};
  bool thoughts = r->item == REPLY_REASONING;
  struct buf *out = begin_event(r, types[!thoughts][done], ev);
  put_place(r, out);
  buf_printf(out,
             ",\"part\":{\"type\":\"%s\",\"text\":", thoughts ? "reasoning_text" : "output_text");
  reply_put_part(r->request->choices, r->item_from, done ? end : r->item_from, thoughts, out);
  buf_puts(out, thoughts ? "}" : ",\"annotations\":[]}");
  end_event(TRUTH_ROLE, ev);
}

static void open_item(struct reply *r, enum reply_item item, uint32_t from, struct events *ev) {
  r->item = item;
  r->item_from = from;
  struct buf *out = begin_event(r, "response.output_item.added", ev);
  buf_printf(out, ",\"output_index\":%u,\"item\":", r->n_items++);
  put_item(r, item, from, from, false, out);
  end_event(TRUTH_ROLE, ev);
  if (item != REPLY_CALL)
    put_part_event(r, false, from, ev);
}

/* The item's text ends before `end`. */
static void close_item(struct reply *r, uint32_t end, struct events *ev) {
  static const char *const types[] = {"", "response.reasoning_text.done",
                                      "response.output_text.done",
                                      "response.function_call_arguments.done"};
  const struct genchoice *c = r->request->choices;
  if (r->item == REPLY_NONE)
    return;
  struct buf *out = begin_event(r, types[r->item], ev);
  put_place(r, out);
  buf_puts(out, r->item == REPLY_CALL ? ",\"arguments\":" : ",\"text\":");
  reply_put_part(c, r->item_from, end, r->item == REPLY_REASONING, out);
  buf_puts(out, r->item == REPLY_MESSAGE ? ",\"logprobs\":[]" : "");
  end_event(TRUTH_ROLE, ev);
  if (r->item != REPLY_CALL)
    put_part_event(r, true, end, ev);
  out = begin_event(r, "response.output_item.done", ev);
  buf_printf(out, ",\"output_index\":%u,\"item\":", r->n_items - 1);
  put_item(r, r->item, r->item_from, end, true, out);
  end_event(TRUTH_ROLE, ev);
  r->item = REPLY_NONE;
}

static void put_delta(struct reply *r, uint32_t start, uint32_t end, struct events *ev) {
  static const char *const types[] = {"", "response.reasoning_text.delta",
                                      "response.output_text.delta",
                                      "response.function_call_arguments.delta"};
  struct buf *out = begin_event(r, types[r->item], ev);
  put_place(r, out);
  buf_puts(out, ",\"delta\":");
  reply_put_part(r->request->choices, start, end, r->item == REPLY_REASONING, out);
  buf_puts(out, r->item == REPLY_MESSAGE ? ",\"logprobs\":[]" : "");
  events_say(ev, end > start, r->item == REPLY_MESSAGE);
  end_event(TRUTH_CONTENT, ev);
}

/* ---- the response object ---- */

static bool is_cut(const struct genchoice *c) {
  return strcmp(c->finish, "length") == 0;
}

static void put_usage(const struct reply *r, const struct reply_facts *f, struct buf *out) {
  uint32_t n = r->request->choices->prompt_len, cached = r->o.no_cached ? 0 : f->cached;
  buf_printf(out,
             "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u,"
             "\"input_tokens_per_turn\":[%u],\"cached_tokens_per_turn\":[%u]},\"output_tokens\":%u,"
             "\"output_tokens_details\":{\"reasoning_tokens\":%u,\"tool_output_tokens\":0,"
             "\"output_tokens_per_turn\":[%u],\"tool_output_tokens_per_turn\":[0]},"
             "\"total_tokens\":%u}",
             n, cached, n, cached, f->completion, reply_reasoning_tokens(r->request), f->completion,
             n + f->completion);
}

static void put_items(const struct reply *r, struct buf *out) {
  const struct genchoice *c = r->request->choices;
  uint32_t end = r->o.hide ? 0 : reply_shown(c, c->output_len);
  bool thinks = reply_has_part(c, 0, end, true);
  if (thinks)
    put_item(r, REPLY_REASONING, 0, end, true, out);
  if (c->call_name ? end > 0 : !thinks || end > c->thought) {
    buf_puts(out, thinks ? "," : "");
    put_item(r, c->call_name ? REPLY_CALL : REPLY_MESSAGE, c->thought, end, true, out);
  }
}

/* `f` NULL: it has only begun. */
static void put_response(const struct reply *r, const struct reply_facts *f, struct buf *out) {
  const struct genchoice *c = r->request->choices;
  const char *status = !f                                ? "in_progress"
                       : strcmp(c->finish, "abort") == 0 ? "cancelled"
                       : is_cut(c)                       ? "incomplete"
                                                         : "completed";
  buf_putc(out, '{');
  reply_put_string("id", r->o.id, out);
  buf_printf(out, ",\"object\":\"response\",\"created_at\":%llu,",
             (unsigned long long)r->o.created_s);
  reply_put_string("model", r->o.model, out);
  buf_printf(out, ",\"status\":\"%s\",\"output\":[", status);
  if (f)
    put_items(r, out);
  buf_puts(out, "],\"usage\":");
  if (f && !r->o.no_usage)
    put_usage(r, f, out);
  else
    buf_puts(out, "null");
  buf_puts(out, ",\"previous_response_id\":");
  if (r->o.ask->previous)
    json_write_string(out, r->o.ask->previous, strlen(r->o.ask->previous));
  else
    buf_puts(out, "null");
  buf_printf(out, ",\"store\":%s,\"error\":null,\"incomplete_details\":%s",
             r->o.ask->store ? "true" : "false",
             f && is_cut(c) ? "{\"reason\":\"max_output_tokens\"}" : "null");
  buf_put(out, r->o.ask->echo.data, r->o.ask->echo.len);
  buf_putc(out, '}');
}

static void put_response_event(struct reply *r, const char *type, const struct reply_facts *f,
                               enum truth_kind kind, struct events *ev) {
  struct buf *out = begin_event(r, type, ev);
  buf_puts(out, ",\"response\":");
  put_response(r, f, out);
  end_event(kind, ev);
}

/* ---- the form ---- */

static void begin(struct reply *r, struct events *ev) {
  put_response_event(r, "response.created", NULL, TRUTH_ROLE, ev);
  put_response_event(r, "response.in_progress", NULL, TRUTH_ROLE, ev);
}

static void tokens(struct reply *r, uint32_t choice, uint32_t from, uint32_t to, bool last,
                   const struct reply_facts *f, struct events *ev) {
  const struct genchoice *c = &r->request->choices[choice];
  uint32_t start = reply_shown(c, from), end = reply_shown(c, to);
  (void)f;
  if (r->o.hide)
    end = start;
  if (reply_has_part(c, start, end, true)) {
    if (r->item != REPLY_REASONING)
      open_item(r, REPLY_REASONING, 0, ev);
    put_delta(r, start, end, ev);
  }
  if (reply_has_part(c, start, end, false)) {
    if (r->item == REPLY_REASONING)
      close_item(r, c->thought, ev);
    if (r->item == REPLY_NONE)
      open_item(r, c->call_name ? REPLY_CALL : REPLY_MESSAGE, c->thought, ev);
    put_delta(r, start, end, ev);
  }
  if (last && r->item == REPLY_NONE && !c->call_name) /* an empty answer is a message, too */
    open_item(r, REPLY_MESSAGE, end, ev);
  if (last)
    close_item(r, end, ev);
}

static void end(struct reply *r, const struct reply_facts *f, struct events *ev) {
  const char *finish = r->request->choices->finish;
  put_response_event(r,
                     strcmp(finish, "abort") == 0 ? "response.cancelled"
                     : strcmp(finish, "length")   ? "response.completed"
                                                  : "response.incomplete",
                     f, TRUTH_DONE, ev);
}

static void error(struct reply *r, const struct apierror *e, struct events *ev) {
  struct buf *out = begin_event(r, "error", ev);
  buf_printf(out, ",\"code\":\"%d\",", e->status);
  reply_put_string("message", e->message, out);
  buf_puts(out, ",\"param\":null");
  end_event(TRUTH_ERROR, ev);
}

static void whole(struct reply *r, const struct reply_facts *f, struct buf *out) {
  put_response(r, f, out);
}

const struct reply_form reply_responses = {.name = "responses",
                                           .begin = begin,
                                           .tokens = tokens,
                                           .end = end,
                                           .error = error,
                                           .whole = whole};
