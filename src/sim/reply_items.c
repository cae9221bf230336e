/* reply_items.c: see reply_items.h. Shapes: facts/interfaces.md §1.5. */
#include "sim/reply_items.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/babble.h"
#include "sim/logprobs.h"
#include "sim/resptools.h"
#include "text/json.h"

enum reply_item reply_items_answer(const struct genchoice *c) {
  static const enum reply_item calls[] = {[GEN_CALL_FUNCTION] = REPLY_CALL,
                                          [GEN_CALL_WEB] = REPLY_WEB,
                                          [GEN_CALL_CODE] = REPLY_CODE,
                                          [GEN_CALL_MCP] = REPLY_MCP};
  return c->call_name ? calls[c->call] : REPLY_MESSAGE;
}

bool reply_items_has(const struct genchoice *c, enum reply_item item, uint32_t end) {
  if (item == REPLY_REASONING)
    return reply_has_part(c, 0, end, true);
  if (item == REPLY_MESSAGE)
    return end > c->thought || !reply_has_part(c, 0, end, true);
  if (item == REPLY_WEB || item == REPLY_CODE)
    return end > c->thought && end == c->visible && strcmp(c->finish, "tool_calls") == 0;
  return end > c->thought;
}

static uint64_t hash_of(const char *id) {
  uint64_t h = 0;
  for (; *id; id++)
    h = babble_mix(h ^ (unsigned char)*id);
  return h;
}

void reply_items_put_id(const struct reply *r, const struct genchoice *c, const char *key,
                        enum reply_item item, uint32_t place, struct buf *out) {
  static const char *const prefixes[] = {"", "rs", "msg", "fc", "mcp", "ci", "ws"};
  buf_printf(out, "\"%s\":\"%s_", key, prefixes[item]);
  if (item > REPLY_CALL) /* the call's own, for a history that repeats the item: respitems.c */
    buf_printf(out, "%s\"", strchr(c->call_id, '_') + 1);
  else
    buf_printf(out, "%016llx\"",
               (unsigned long long)babble_mix(hash_of(r->o.id) + 8 * (uint64_t)place + item));
}

static void put_string_or_null(const char *key, const char *text, struct buf *out) {
  buf_printf(out, ",\"%s\":", key);
  if (text)
    json_write_string(out, text, strlen(text));
  else
    buf_puts(out, "null");
}

static void put_call(const struct genchoice *c, uint32_t start, uint32_t end, struct buf *out) {
  buf_puts(out, ",\"type\":\"function_call\",");
  reply_put_string("call_id", c->call_id, out);
  buf_putc(out, ',');
  reply_put_string("name", c->call_name, out);
  buf_puts(out, ",\"arguments\":");
  reply_put_part(c, start, end, false, out);
}

static void put_mcp(const struct genchoice *c, uint32_t start, uint32_t end, bool result,
                    struct buf *out) {
  buf_puts(out, ",\"type\":\"mcp_call\",");
  reply_put_string("name", c->call_name, out);
  buf_putc(out, ',');
  reply_put_string("server_label", c->call_name, out);
  buf_puts(out, ",\"arguments\":");
  reply_put_part(c, start, end, false, out);
  buf_puts(out, ",\"approval_request_id\":null,\"error\":null");
  put_string_or_null("output", result ? c->call_result : NULL, out);
}

static void put_own(const struct genchoice *c, enum reply_item item, bool done, struct buf *out) {
  char *text = item == REPLY_WEB || done ? resptools_text(c) : NULL;
  if (item == REPLY_WEB) {
    buf_puts(out, ",\"type\":\"web_search_call\",\"action\":{\"type\":\"search\"");
    put_string_or_null("query", text, out);
    buf_putc(out, '}');
  } else {
    buf_puts(out, ",\"type\":\"code_interpreter_call\"");
    put_string_or_null("code", text, out);
    buf_printf(out, ",\"container_id\":\"auto\",\"outputs\":%s", done ? "[]" : "null");
  }
  mem_free(text);
}

/* `whole`: in the response itself, where the log-probabilities of all tokens are. */
static void put_text(const struct reply *r, const struct genchoice *c, bool thoughts,
                     uint32_t start, uint32_t end, const char *status, bool done, bool whole,
                     struct buf *out) {
  buf_puts(out, thoughts ? ",\"type\":\"reasoning\",\"summary\":[]"
                         : ",\"type\":\"message\",\"role\":\"assistant\"");
  buf_printf(out, ",\"status\":\"%s\",\"content\":[", status);
  if (done) {
    buf_puts(out, thoughts ? "{\"type\":\"reasoning_text\",\"text\":"
                           : "{\"type\":\"output_text\",\"text\":");
    reply_put_part(c, start, end, thoughts, out);
    buf_puts(out, thoughts ? "" : ",\"annotations\":[],\"logprobs\":");
    if (!thoughts && whole && r->request->logprobs.output >= 0)
      logprobs_put_list(r, c, 0, c->output_len, true, out);
    else
      buf_puts(out, thoughts ? "" : "null");
    buf_putc(out, '}');
  }
  buf_putc(out, ']');
}

void reply_items_put(const struct reply *r, const struct genchoice *c, enum reply_item item,
                     uint32_t place, uint32_t start, uint32_t end, bool done, bool result,
                     struct buf *out) {
  const char *status = done ? "completed" : "in_progress";
  buf_putc(out, '{');
  reply_items_put_id(r, c, "id", item, place, out);
  end = done ? end : start;
  if (item == REPLY_REASONING || item == REPLY_MESSAGE) {
    put_text(r, c, item == REPLY_REASONING, start, end, status, done, result, out);
    buf_putc(out, '}');
    return;
  }
  if (item == REPLY_CALL)
    put_call(c, start, end, out);
  else if (item == REPLY_MCP)
    put_mcp(c, start, end, result, out);
  else
    put_own(c, item, done, out);
  buf_printf(out, ",\"status\":\"%s\"}", status);
}
