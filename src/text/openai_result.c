/* openai_result.c: the result's memory, and the result as a value.
 *
 * Choices and tool calls stand sorted in arrays whose unused slots keep their buffers: a stream
 * object that is reset and used again allocates nothing. */
#include "text/openai_impl.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* What a new result holds besides zeros and empty buffers. */
static void set_absent(struct openai_result *r) {
  r->ttft_event_index = r->first_visible_event_index = -1;
  r->token_ids_total = r->error_code = OPENAI_ABSENT;
  r->usage = (struct openai_usage){false,         OPENAI_ABSENT, OPENAI_ABSENT, OPENAI_ABSENT,
                                   OPENAI_ABSENT, OPENAI_ABSENT, false};
}

void openai_result_init(struct openai_result *r, enum openai_api api) {
  *r = (struct openai_result){.api = api};
  buf_init(&r->reasoning, BUF_MAX_OWN);
  buf_init(&r->response_id, BUF_MAX_OWN);
  buf_init(&r->error_message, BUF_MAX_OWN);
  buf_init(&r->error_type, BUF_MAX_OWN);
  set_absent(r);
}

void openai_result_free(struct openai_result *r) {
  for (size_t i = 0; i < r->cap_choices; i++) {
    buf_free(&r->choices[i].text);
    buf_free(&r->choices[i].finish_reason);
  }
  for (size_t i = 0; i < r->cap_tool_calls; i++) {
    buf_free(&r->tool_calls[i].id);
    buf_free(&r->tool_calls[i].name);
    buf_free(&r->tool_calls[i].arguments);
  }
  mem_free(r->choices);
  mem_free(r->tool_calls);
  mem_free(r->outputs);
  buf_free(&r->reasoning);
  buf_free(&r->response_id);
  buf_free(&r->error_message);
  buf_free(&r->error_type);
  *r = (struct openai_result){0};
}

void openai_result_reset(struct openai_result *r) {
  struct openai_result fresh = {.api = r->api,
                                .choices = r->choices,
                                .cap_choices = r->cap_choices,
                                .tool_calls = r->tool_calls,
                                .cap_tool_calls = r->cap_tool_calls,
                                .outputs = r->outputs,
                                .cap_outputs = r->cap_outputs,
                                .reasoning = r->reasoning,
                                .response_id = r->response_id,
                                .error_message = r->error_message,
                                .error_type = r->error_type};
  *r = fresh;
  set_absent(r);
  buf_reset(&r->reasoning);
  buf_reset(&r->response_id);
  buf_reset(&r->error_message);
  buf_reset(&r->error_type);
}

struct openai_choice *openai_result_choice(struct openai_result *r, int64_t index) {
  size_t at = r->n_choices;
  while (at > 0 && r->choices[at - 1].index >= index)
    if (r->choices[--at].index == index)
      return &r->choices[at];
  if (r->n_choices == FRAME_MAX_ENTRIES)
    return NULL;
  size_t old_cap = r->cap_choices;
  MEM_GROW(r->choices, r->n_choices, r->cap_choices);
  for (size_t i = old_cap; i < r->cap_choices; i++) {
    buf_init(&r->choices[i].text, BUF_MAX_OWN);
    buf_init(&r->choices[i].finish_reason, BUF_MAX_OWN);
  }
  struct openai_choice spare = r->choices[r->n_choices];
  memmove(&r->choices[at + 1], &r->choices[at], (r->n_choices - at) * sizeof spare);
  r->n_choices++;
  spare.index = index;
  buf_reset(&spare.text);
  buf_reset(&spare.finish_reason);
  r->choices[at] = spare;
  return &r->choices[at];
}

struct openai_tool_call *openai_result_tool(struct openai_result *r, int64_t choice,
                                            int64_t index) {
  size_t at = r->n_tool_calls;
  for (; at > 0; at--) {
    const struct openai_tool_call *t = &r->tool_calls[at - 1];
    if (t->choice == choice && t->index == index)
      return &r->tool_calls[at - 1];
    if (t->choice < choice || (t->choice == choice && t->index < index))
      break;
  }
  if (r->n_tool_calls == FRAME_MAX_ENTRIES)
    return NULL;
  size_t old_cap = r->cap_tool_calls;
  MEM_GROW(r->tool_calls, r->n_tool_calls, r->cap_tool_calls);
  for (size_t i = old_cap; i < r->cap_tool_calls; i++) {
    buf_init(&r->tool_calls[i].id, BUF_MAX_OWN);
    buf_init(&r->tool_calls[i].name, BUF_MAX_OWN);
    buf_init(&r->tool_calls[i].arguments, BUF_MAX_OWN);
  }
  struct openai_tool_call spare = r->tool_calls[r->n_tool_calls];
  memmove(&r->tool_calls[at + 1], &r->tool_calls[at], (r->n_tool_calls - at) * sizeof spare);
  r->n_tool_calls++;
  spare.choice = choice;
  spare.index = index;
  buf_reset(&spare.id);
  buf_reset(&spare.name);
  buf_reset(&spare.arguments);
  r->tool_calls[at] = spare;
  return &r->tool_calls[at];
}

void openai_result_error(struct openai_result *r, enum openai_error_kind kind,
                         const struct scan_str *message, const struct scan_str *type,
                         int64_t code) {
  if (r->error_kind != OPENAI_ERROR_NONE)
    return;
  r->error_kind = kind;
  r->error_code = code;
  int rc = message ? scan_unescape(message, &r->error_message) : 0;
  if (rc == 0 && type && type->there)
    rc = scan_unescape(type, &r->error_type);
  assert(rc == 0); /* an event's size is bounded, the buffers are not */
}

void openai_result_error_text(struct openai_result *r, enum openai_error_kind kind,
                              const char *text, size_t len) {
  while (len && (*text == ' ' || *text == '\n'))
    text++, len--;
  while (len && (text[len - 1] == ' ' || text[len - 1] == '\n'))
    len--;
  struct scan_str message = {.p = text, .len = len, .there = true};
  openai_result_error(r, kind, &message, NULL, OPENAI_ABSENT);
}

void openai_result_error_frame(struct openai_result *r, enum openai_error_kind kind,
                               const struct frame_error *e) {
  openai_result_error(r, kind, e->message.there ? &e->message : &e->raw,
                      e->type.there ? &e->type : &e->code_text, e->code);
}

static struct value count_value(int64_t n) {
  return n == OPENAI_ABSENT ? value_null() : value_int(n);
}

static struct value index_value(int64_t n) {
  return n < 0 ? value_null() : value_int(n);
}

static struct value text_value(const struct buf *b) {
  return value_string(b->data, b->len);
}

static struct value text_or_null(const struct buf *b) {
  return b->len ? text_value(b) : value_null();
}

static struct value tool_calls_value(const struct openai_result *r) {
  struct value list = value_array();
  for (size_t i = 0; i < r->n_tool_calls; i++) {
    const struct openai_tool_call *t = &r->tool_calls[i];
    struct value *o = value_push(&list, value_object());
    value_set(o, "index", value_int(t->index));
    value_set(o, "id", text_or_null(&t->id));
    value_set(o, "name", text_or_null(&t->name));
    value_set(o, "arguments", text_value(&t->arguments));
  }
  return list;
}

static struct value usage_value(const struct openai_usage *u) {
  if (!u->present)
    return value_null();
  struct value o = value_object();
  value_set(&o, "prompt", count_value(u->prompt));
  value_set(&o, "completion", count_value(u->completion));
  value_set(&o, "total", count_value(u->total));
  value_set(&o, "cached", count_value(u->cached));
  value_set(&o, "reasoning", count_value(u->reasoning));
  return o;
}

static struct value error_value(const struct openai_result *r) {
  static const char *const kinds[] = {
      [OPENAI_ERROR_NONE] = "",
      [OPENAI_ERROR_IN_BAND] = "in_band",
      [OPENAI_ERROR_FIELD] = "error_field",
      [OPENAI_ERROR_EVENT_COMMENT] = "event_error_comment",
      [OPENAI_ERROR_TRUNCATED] = "truncated",
      [OPENAI_ERROR_RAW_JSON] = "raw_json_body",
      [OPENAI_ERROR_BAD_JSON] = "bad_json",
      [OPENAI_ERROR_LIMIT] = "limit",
  };
  if (r->error_kind == OPENAI_ERROR_NONE)
    return value_null();
  struct value o = value_object();
  value_set(&o, "kind", value_cstring(kinds[r->error_kind]));
  value_set(&o, "message", text_value(&r->error_message));
  value_set(&o, "type", text_or_null(&r->error_type));
  value_set(&o, "code", count_value(r->error_code));
  return o;
}

/* text, texts, finish_reason, finish_reasons. */
static void add_choices(const struct openai_result *r, struct value *o) {
  struct value texts = value_object(), reasons = value_object();
  struct value text = value_string("", 0), reason = value_null();
  for (size_t i = 0; i < r->n_choices; i++) {
    const struct openai_choice *c = &r->choices[i];
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)c->index);
    if (c->text.len)
      value_set(&texts, key, text_value(&c->text));
    if (c->finish_reason.len)
      value_set(&reasons, key, text_value(&c->finish_reason));
    if (c->index == 0) {
      value_free(&text);
      text = text_value(&c->text);
      reason = text_or_null(&c->finish_reason);
    }
  }
  value_set(o, "text", text);
  value_set(o, "texts", texts);
  value_set(o, "finish_reason", reason);
  value_set(o, "finish_reasons", reasons);
}

struct value openai_result_value(const struct openai_result *r) {
  struct value o = value_object();
  value_set(&o, "sse_events", value_int((int64_t)r->sse_events));
  value_set(&o, "comments", value_int((int64_t)r->comments));
  value_set(&o, "ttft_event_index", index_value(r->ttft_event_index));
  value_set(&o, "first_visible_event_index", index_value(r->first_visible_event_index));
  value_set(&o, "output_events", value_int((int64_t)r->output_events));
  value_set(&o, "token_ids_total", count_value(r->token_ids_total));
  add_choices(r, &o);
  value_set(&o, "reasoning", text_value(&r->reasoning));
  value_set(&o, "tool_calls", tool_calls_value(r));
  value_set(&o, "usage", usage_value(&r->usage));
  value_set(&o, "response_id", text_or_null(&r->response_id));
  value_set(&o, "error", error_value(r));
  value_set(&o, "complete", value_bool(r->complete));
  value_set(&o, "done_marker", value_bool(r->done_marker));
  value_set(&o, "eof_flush", value_bool(r->eof_flush));
  return o;
}
