/* reply_responses.c: vLLM's Responses API: events with types and numbers, items, the response
 * object.
 *
 * Order of events: facts/interfaces.md §1.5, fixtures/sse 06 and 07. An answer is a reasoning item
 * when it has thoughts, then a message or a call; after a call that the server runs comes the next
 * turn (genturns.h). As vLLM's, the events of such a call are all there before the tool has run.
 * The end is a terminal event, without [DONE]; an error ends the stream without one. */
#include <string.h>

#include "base/mem.h"
#include "sim/logprobs.h"
#include "sim/reply_items.h"
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

static const struct genchoice *turn_of(const struct reply *r) {
  return &r->request->choices[r->turn];
}

static bool has_parts(enum reply_item item) {
  return item == REPLY_REASONING || item == REPLY_MESSAGE;
}

/* `,"item_id":…,"output_index":n` and, of what has parts, the part's number. */
static void put_place(const struct reply *r, struct buf *out) {
  buf_putc(out, ',');
  reply_items_put_id(r, turn_of(r), "item_id", r->item, r->n_items - 1, out);
  buf_printf(out, ",\"output_index\":%u", r->n_items - 1);
  if (has_parts(r->item))
    buf_puts(out, ",\"content_index\":0");
}

/* An event that says no more than what it is of. */
static void put_mark(struct reply *r, const char *type, struct events *ev) {
  put_place(r, begin_event(r, type, ev));
  end_event(TRUTH_ROLE, ev);
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
  reply_put_part(turn_of(r), r->item_from, done ? end : r->item_from, thoughts, out);
  buf_puts(out, thoughts ? "}" : ",\"annotations\":[]}");
  end_event(TRUTH_ROLE, ev);
}

static void put_item_event(struct reply *r, const char *type, uint32_t end, bool done,
                           struct events *ev) {
  struct buf *out = begin_event(r, type, ev);
  buf_printf(out, ",\"output_index\":%u,\"item\":", r->n_items - 1);
  reply_items_put(r, turn_of(r), r->item, r->n_items - 1, r->item_from, end, done, false, out);
  end_event(TRUTH_ROLE, ev);
}

static void open_item(struct reply *r, enum reply_item item, uint32_t from, struct events *ev) {
  static const char *const begun[] = {[REPLY_MCP] = "response.mcp_call.in_progress",
                                      [REPLY_CODE] = "response.code_interpreter_call.in_progress",
                                      [REPLY_WEB] = "response.web_search_call.in_progress"};
  r->item = item;
  r->item_from = from;
  r->n_items++;
  put_item_event(r, "response.output_item.added", from, false, ev);
  if (has_parts(item))
    put_part_event(r, false, from, ev);
  else if (item != REPLY_CALL)
    put_mark(r, begun[item], ev);
}

/* The whole text of an item, under `key`. */
static void put_done(struct reply *r, const char *type, const char *key, uint32_t end,
                     struct events *ev) {
  struct buf *out = begin_event(r, type, ev);
  put_place(r, out);
  buf_printf(out, ",\"%s\":", key);
  reply_put_part(turn_of(r), r->item_from, end, r->item == REPLY_REASONING, out);
  buf_puts(out, r->item == REPLY_MESSAGE ? ",\"logprobs\":[]" : "");
  end_event(TRUTH_ROLE, ev);
}

/* A program comes in one piece: its bytes are not those of the call's arguments. */
static void put_code(struct reply *r, struct events *ev) {
  static const char *const types[] = {"response.code_interpreter_call_code.delta",
                                      "response.code_interpreter_call_code.done"};
  static const char *const keys[] = {",\"delta\":", ",\"code\":"};
  char *code = resptools_text(turn_of(r));
  for (size_t i = 0; i < ARRAY_LEN(types); i++) {
    struct buf *out = begin_event(r, types[i], ev);
    put_place(r, out);
    buf_puts(out, keys[i]);
    json_write_string(out, code ? code : "", code ? strlen(code) : 0);
    if (!i)
      events_say(ev, code && *code, false);
    end_event(i ? TRUTH_ROLE : TRUTH_CONTENT, ev);
  }
  mem_free(code);
}

/* The item's text ends before `end`. */
static void close_item(struct reply *r, uint32_t end, struct events *ev) {
  switch (r->item) {
  case REPLY_NONE:
    return;
  case REPLY_REASONING:
    put_done(r, "response.reasoning_text.done", "text", end, ev);
    put_part_event(r, true, end, ev);
    break;
  case REPLY_MESSAGE:
    put_done(r, "response.output_text.done", "text", end, ev);
    put_part_event(r, true, end, ev);
    break;
  case REPLY_CALL:
    put_done(r, "response.function_call_arguments.done", "arguments", end, ev);
    break;
  case REPLY_MCP:
    put_done(r, "response.mcp_call_arguments.done", "arguments", end, ev);
    put_mark(r, "response.mcp_call.completed", ev);
    break;
  case REPLY_CODE:
    put_code(r, ev);
    put_mark(r, "response.code_interpreter_call.interpreting", ev);
    put_mark(r, "response.code_interpreter_call.completed", ev);
    break;
  case REPLY_WEB:
    put_mark(r, "response.web_search_call.searching", ev);
    put_mark(r, "response.web_search_call.completed", ev);
    break;
  }
  put_item_event(r, "response.output_item.done", end, true, ev);
  r->item = REPLY_NONE;
}

/* Bytes start..end of the text, of tokens from..to−1. */
struct span {
  uint32_t start, end, from, to;
};

static void put_delta(struct reply *r, const struct span *s, struct events *ev) {
  static const char *const types[] = {
      "", "response.reasoning_text.delta", "response.output_text.delta",
      "response.function_call_arguments.delta", "response.mcp_call_arguments.delta"};
  struct buf *out = begin_event(r, types[r->item], ev);
  put_place(r, out);
  buf_puts(out, ",\"delta\":");
  reply_put_part(turn_of(r), s->start, s->end, r->item == REPLY_REASONING, out);
  if (r->item == REPLY_MESSAGE) {
    buf_puts(out, ",\"logprobs\":");
    logprobs_put_list(r, turn_of(r), s->from, s->to, false, out);
  }
  events_say(ev, s->end > s->start, r->item == REPLY_MESSAGE);
  end_event(TRUTH_CONTENT, ev);
}

/* ---- the response object ---- */

static bool is_cut(const struct genchoice *c) {
  return strcmp(c->finish, "length") == 0;
}

/* How the last turn ended is how the response ended. */
static const struct genchoice *last_of(const struct reply *r) {
  return &r->request->choices[r->request->n_choices - 1];
}

/* A figure of each turn. */
enum figure { INPUT, CACHED, OUTPUT, TOOL_OUTPUT };

static uint32_t figure_of(const struct genrequest *q, uint32_t turn, enum figure which) {
  const struct genchoice *c = &q->choices[turn], *before = turn ? c - 1 : NULL;
  switch (which) {
  case INPUT:
    return c->prompt_len;
  case CACHED:
    return c->cached;
  case OUTPUT:
    return c->output_len;
  case TOOL_OUTPUT: /* what has come since the turn before */
    break;
  }
  uint32_t known = before ? before->prompt_len + before->output_len : c->prompt_len;
  return c->prompt_len > known ? c->prompt_len - known : 0;
}

static uint32_t sum_of(const struct genrequest *q, enum figure which) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < q->n_choices; i++)
    n += figure_of(q, i, which);
  return n;
}

static void put_turns(const char *key, const struct genrequest *q, enum figure which, bool none,
                      struct buf *out) {
  buf_printf(out, ",\"%s_per_turn\":[", key);
  for (uint32_t i = 0; i < q->n_choices; i++)
    buf_printf(out, i ? ",%u" : "%u", none ? 0 : figure_of(q, i, which));
  buf_putc(out, ']');
}

static void put_usage(const struct reply *r, struct buf *out) {
  const struct genrequest *q = r->request;
  uint32_t input = sum_of(q, INPUT), output = sum_of(q, OUTPUT);
  buf_printf(out, "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u", input,
             r->o.no_cached ? 0 : sum_of(q, CACHED));
  put_turns("input_tokens", q, INPUT, false, out);
  put_turns("cached_tokens", q, CACHED, r->o.no_cached, out);
  buf_printf(out,
             "},\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":%u,"
             "\"tool_output_tokens\":%u",
             output, reply_reasoning_tokens(q), sum_of(q, TOOL_OUTPUT));
  put_turns("output_tokens", q, OUTPUT, false, out);
  put_turns("tool_output_tokens", q, TOOL_OUTPUT, false, out);
  buf_printf(out, "},\"total_tokens\":%u}", input + output);
}

/* All turns' items; those of tools that have run say what came of it. */
static void put_items(const struct reply *r, struct buf *out) {
  uint32_t place = 0;
  for (uint32_t i = 0; i < r->request->n_choices; i++) {
    const struct genchoice *c = &r->request->choices[i];
    uint32_t end = r->o.hide ? 0 : reply_shown(c, c->output_len);
    const enum reply_item items[] = {REPLY_REASONING, reply_items_answer(c)};
    for (size_t k = 0; k < ARRAY_LEN(items); k++) {
      if (!reply_items_has(c, items[k], end))
        continue;
      buf_puts(out, place ? "," : "");
      reply_items_put(r, c, items[k], place++, k ? c->thought : 0, end, true, true, out);
    }
  }
}

/* What went into each turn, or came out of it: text and ids. */
static void put_raw(const struct reply *r, const char *key, bool output, struct buf *out) {
  struct buf text;
  struct err err;
  buf_init(&text, BUF_MAX_OWN);
  buf_printf(out, ",\"%s\":[", key);
  for (uint32_t i = 0; i < r->request->n_choices; i++) {
    const struct genchoice *c = &r->request->choices[i];
    const uint32_t *ids = output ? c->output : c->tokens;
    uint32_t n = output ? c->output_len : c->prompt_len;
    buf_reset(&text);
    if (tokens_decode(r->o.model_of->tokenizer, ids, n, &text, &err))
      buf_reset(&text);
    buf_puts(out, i ? ",{\"message\":" : "{\"message\":");
    json_write_string(out, text.data ? text.data : "", text.len);
    buf_puts(out, ",\"tokens\":");
    reply_put_ids(ids, n, out);
    buf_puts(out, ",\"type\":\"raw_message_tokens\"}");
  }
  buf_putc(out, ']');
  buf_free(&text);
}

/* vLLM's own fields. */
static void put_extensions(const struct reply *r, bool through, struct buf *out) {
  if (through && r->o.ask->raw && !r->o.hide) {
    put_raw(r, "input_messages", false, out);
    put_raw(r, "output_messages", true, out);
  } else {
    buf_puts(out, ",\"input_messages\":null,\"output_messages\":null");
  }
  buf_puts(out, ",\"kv_transfer_params\":");
  buf_puts(out, through && r->transfer ? r->transfer : "null");
}

/* `f` NULL: it has only begun. */
static void put_response(const struct reply *r, const struct reply_facts *f, struct buf *out) {
  const struct genchoice *c = last_of(r);
  const char *status = r->status                         ? r->status
                       : !f                              ? "in_progress"
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
    put_usage(r, out);
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
  put_extensions(r, f != NULL, out);
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

/* A call's arguments stream; a search or a program comes whole, at its end. */
static void put_answer(struct reply *r, const struct span *s, bool last, struct events *ev) {
  const struct genchoice *c = turn_of(r);
  uint32_t start = s->start, end = s->end;
  enum reply_item item = reply_items_answer(c);
  bool streams = item != REPLY_CODE && item != REPLY_WEB;
  bool due = streams ? reply_has_part(c, start, end, false) : last && reply_items_has(c, item, end);
  if (!due)
    return;
  if (r->item == REPLY_REASONING)
    close_item(r, c->thought, ev);
  if (r->item == REPLY_NONE)
    open_item(r, item, c->thought, ev);
  if (streams)
    put_delta(r, s, ev);
}

static void tokens(struct reply *r, uint32_t choice, uint32_t from, uint32_t to, bool last,
                   const struct reply_facts *f, struct events *ev) {
  const struct genchoice *c = &r->request->choices[choice];
  uint32_t start = reply_shown(c, from), end = reply_shown(c, to);
  (void)f;
  r->turn = choice;
  if (r->o.hide)
    end = start;
  const struct span s = {start, end, from, to};
  if (reply_has_part(c, start, end, true)) {
    if (r->item != REPLY_REASONING)
      open_item(r, REPLY_REASONING, 0, ev);
    put_delta(r, &s, ev);
  }
  put_answer(r, &s, last, ev);
  if (last && r->item == REPLY_NONE && !c->call_name) /* an empty answer is a message, too */
    open_item(r, REPLY_MESSAGE, end, ev);
  if (last)
    close_item(r, end, ev);
}

static void end(struct reply *r, const struct reply_facts *f, struct events *ev) {
  const char *finish = last_of(r)->finish;
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
