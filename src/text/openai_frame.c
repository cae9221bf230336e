/* openai_frame.c: the walk over one response object; see openai_frame.h.
 *
 * Field names are those of vLLM, SGLang, TGI, llama.cpp, TensorRT-LLM and Ollama (shared
 * facts/interfaces.md §1 and §9). A repeated key takes its last value, as everywhere. */
#include "text/openai_frame.h"

#include "base/mem.h"

#include <string.h>

void frame_init(struct frame *f) {
  *f = (struct frame){0};
  buf_init(&f->key, BUF_MAX_OWN);
}

void frame_free(struct frame *f) {
  mem_free(f->choices);
  mem_free(f->tools);
  mem_free(f->items);
  mem_free(f->parts);
  buf_free(&f->key);
}

/* Whether one more entry may be kept; ends the scan when not. */
static bool room(struct scan *s, struct frame *f, size_t n) {
  if (n < FRAME_MAX_ENTRIES)
    return true;
  f->full = true;
  scan_stop(s);
  return false;
}

/* A count of usage; what is there and is neither a count nor null is odd. */
static int64_t usage_count(struct scan *s, struct openai_usage *u) {
  while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
    s->p++;
  bool null = s->p < s->end && *s->p == 'n';
  int64_t n = scan_count(s, OPENAI_ABSENT);
  u->odd |= n == OPENAI_ABSENT && !null;
  return n;
}

/* {"cached_tokens": 12} and its kin: one count out of an object. */
static int64_t scan_detail(struct scan *s, const char *name, struct openai_usage *u) {
  int64_t n = OPENAI_ABSENT;
  bool first = true;
  struct scan_str key;
  if (!scan_enter(s, '{'))
    return n;
  while (scan_key(s, &first, &key)) {
    if (key.len == strlen(name) && memcmp(key.p, name, key.len) == 0)
      n = usage_count(s, u);
    else
      scan_skip(s);
  }
  return n;
}

static void scan_usage(struct scan *s, struct openai_usage *u) {
  int64_t flat_reasoning = OPENAI_ABSENT; /* SGLang puts it beside the details */
  bool first = true;
  struct scan_str key;
  *u = (struct openai_usage){false,         OPENAI_ABSENT, OPENAI_ABSENT, OPENAI_ABSENT,
                             OPENAI_ABSENT, OPENAI_ABSENT, false};
  if (!scan_enter(s, '{'))
    return;
  u->present = true;
  while (scan_key(s, &first, &key)) {
    if (SCAN_IS(key, "prompt_tokens") || SCAN_IS(key, "input_tokens"))
      u->prompt = usage_count(s, u);
    else if (SCAN_IS(key, "completion_tokens") || SCAN_IS(key, "output_tokens"))
      u->completion = usage_count(s, u);
    else if (SCAN_IS(key, "total_tokens"))
      u->total = usage_count(s, u);
    else if (SCAN_IS(key, "prompt_tokens_details") || SCAN_IS(key, "input_tokens_details"))
      u->cached = scan_detail(s, "cached_tokens", u);
    else if (SCAN_IS(key, "completion_tokens_details") || SCAN_IS(key, "output_tokens_details"))
      u->reasoning = scan_detail(s, "reasoning_tokens", u);
    else if (SCAN_IS(key, "reasoning_tokens"))
      flat_reasoning = usage_count(s, u);
    else
      scan_skip(s);
  }
  if (u->reasoning == OPENAI_ABSENT)
    u->reasoning = flat_reasoning;
}

/* An object, a plain string, or (null, false, "") none. */
static void scan_error(struct scan *s, struct frame_error *e) {
  *e = (struct frame_error){.code = OPENAI_ABSENT};
  while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
    s->p++;
  e->raw.p = s->p;
  if (s->p < s->end && *s->p == '"') {
    scan_string(s, &e->message);
    e->there = e->message.len > 0;
    return;
  }
  e->there = s->p < s->end && *s->p != 'n' && *s->p != 'f';
  bool first = true;
  struct scan_str key;
  if (scan_enter(s, '{')) {
    while (scan_key(s, &first, &key)) {
      if (SCAN_IS(key, "message"))
        scan_string(s, &e->message);
      else if (SCAN_IS(key, "type"))
        scan_string(s, &e->type);
      else if (SCAN_IS(key, "code"))
        e->code = scan_code(s, OPENAI_ABSENT, &e->code_text);
      else
        scan_skip(s);
    }
  }
  e->raw.len = (size_t)(s->p - e->raw.p);
  e->raw.there = true;
}

static void scan_function(struct scan *s, struct frame_tool *t) {
  bool first = true;
  struct scan_str key;
  if (!scan_enter(s, '{'))
    return;
  while (scan_key(s, &first, &key)) {
    if (SCAN_IS(key, "name"))
      scan_string(s, &t->name);
    else if (SCAN_IS(key, "arguments"))
      scan_string(s, &t->arguments);
    else
      scan_skip(s);
  }
}

static void scan_tools(struct scan *s, struct frame *f, struct frame_choice *c) {
  bool first_item = true;
  f->n_tools = c->first_tool;
  if (!scan_enter(s, '['))
    return;
  while (scan_item(s, &first_item)) {
    bool first = true;
    struct scan_str key;
    if (!room(s, f, f->n_tools))
      return;
    MEM_GROW(f->tools, f->n_tools, f->cap_tools);
    struct frame_tool *t = &f->tools[f->n_tools];
    *t = (struct frame_tool){.index = (int64_t)(f->n_tools - c->first_tool)};
    f->n_tools++;
    if (!scan_enter(s, '{'))
      continue;
    while (scan_key(s, &first, &key)) {
      if (SCAN_IS(key, "index"))
        t->index = scan_count(s, t->index);
      else if (SCAN_IS(key, "id"))
        scan_string(s, &t->id);
      else if (SCAN_IS(key, "function"))
        scan_function(s, t);
      else
        scan_skip(s);
    }
  }
}

/* `delta` of a chunk, `message` of a reply. */
static void scan_delta(struct scan *s, struct frame *f, struct frame_choice *c) {
  bool first = true;
  struct scan_str key;
  c->content = c->reasoning = c->reasoning_content = (struct scan_str){0};
  f->n_tools = c->first_tool;
  if (!scan_enter(s, '{'))
    return;
  while (scan_key(s, &first, &key)) {
    if (SCAN_IS(key, "content"))
      scan_string(s, &c->content);
    else if (SCAN_IS(key, "reasoning_content"))
      scan_string(s, &c->reasoning_content);
    else if (SCAN_IS(key, "reasoning"))
      scan_string(s, &c->reasoning);
    else if (SCAN_IS(key, "tool_calls"))
      scan_tools(s, f, c);
    else
      scan_skip(s);
  }
}

static int64_t scan_length(struct scan *s) {
  int64_t n = 0;
  bool first = true;
  if (!scan_enter(s, '['))
    return OPENAI_ABSENT;
  while (scan_item(s, &first)) {
    n++;
    scan_skip(s);
  }
  return n;
}

static void scan_choice(struct scan *s, struct frame *f) {
  if (!room(s, f, f->n_choices))
    return;
  MEM_GROW(f->choices, f->n_choices, f->cap_choices);
  struct frame_choice *c = &f->choices[f->n_choices];
  *c = (struct frame_choice){
      .index = (int64_t)f->n_choices, .token_ids = OPENAI_ABSENT, .first_tool = f->n_tools};
  f->n_choices++;
  bool first = true;
  struct scan_str key;
  if (!scan_enter(s, '{'))
    return;
  while (scan_key(s, &first, &key)) {
    if (SCAN_IS(key, "index"))
      c->index = scan_count(s, c->index);
    else if (SCAN_IS(key, "delta") || SCAN_IS(key, "message"))
      scan_delta(s, f, c);
    else if (SCAN_IS(key, "text"))
      scan_string(s, &c->text);
    else if (SCAN_IS(key, "finish_reason"))
      scan_string(s, &c->finish);
    else if (SCAN_IS(key, "token_ids"))
      c->token_ids = scan_length(s);
    else
      scan_skip(s);
  }
  c->n_tools = f->n_tools - c->first_tool;
}

static void scan_choices(struct scan *s, struct frame *f) {
  bool first = true;
  f->n_choices = f->n_tools = 0;
  if (!scan_enter(s, '['))
    return;
  while (scan_item(s, &first))
    scan_choice(s, f);
}

/* The text parts of an item's `content` or `summary`. */
static void scan_parts(struct scan *s, struct frame *f) {
  bool first_item = true;
  if (!scan_enter(s, '['))
    return;
  while (scan_item(s, &first_item)) {
    bool first = true;
    struct scan_str key, type = {0}, text = {0};
    if (!scan_enter(s, '{'))
      continue;
    while (scan_key(s, &first, &key)) {
      if (SCAN_IS(key, "type"))
        scan_string(s, &type);
      else if (SCAN_IS(key, "text"))
        scan_string(s, &text);
      else
        scan_skip(s);
    }
    bool visible = scan_equals(&type, "output_text");
    if (!visible && !scan_equals(&type, "reasoning_text") && !scan_equals(&type, "summary_text"))
      continue;
    if (!room(s, f, f->n_parts))
      return;
    MEM_GROW(f->parts, f->n_parts, f->cap_parts);
    f->parts[f->n_parts++] = (struct frame_part){.visible = visible, .text = text};
  }
}

static void scan_one_item(struct scan *s, struct frame *f, bool with_parts) {
  bool first = true;
  struct scan_str key;
  if (!room(s, f, f->n_items))
    return;
  MEM_GROW(f->items, f->n_items, f->cap_items);
  struct frame_item *item = &f->items[f->n_items];
  *item = (struct frame_item){.index = (int64_t)f->n_items};
  f->n_items++;
  if (!scan_enter(s, '{'))
    return;
  while (scan_key(s, &first, &key)) {
    if (SCAN_IS(key, "type"))
      scan_string(s, &item->type);
    else if (SCAN_IS(key, "id"))
      scan_string(s, &item->id);
    else if (SCAN_IS(key, "call_id"))
      scan_string(s, &item->call_id);
    else if (SCAN_IS(key, "name"))
      scan_string(s, &item->name);
    else if (SCAN_IS(key, "arguments") || SCAN_IS(key, "input"))
      scan_string(s, &item->arguments);
    else if (with_parts && (SCAN_IS(key, "content") || SCAN_IS(key, "summary")))
      scan_parts(s, f);
    else
      scan_skip(s);
  }
}

static void scan_output(struct scan *s, struct frame *f) {
  bool first = true;
  f->n_items = f->n_parts = 0;
  if (!scan_enter(s, '['))
    return;
  while (scan_item(s, &first))
    scan_one_item(s, f, true);
}

static void scan_reason(struct scan *s, struct scan_str *out) {
  bool first = true;
  struct scan_str key;
  *out = (struct scan_str){0};
  if (!scan_enter(s, '{'))
    return;
  while (scan_key(s, &first, &key)) {
    if (SCAN_IS(key, "reason"))
      scan_string(s, out);
    else
      scan_skip(s);
  }
}

/* A field that a whole reply and an event's `response` have in common; false: another one. */
static bool scan_reply_field(struct scan *s, const struct scan_str *key, struct frame_reply *r) {
  if (SCAN_IS(*key, "id"))
    scan_string(s, &r->id);
  else if (SCAN_IS(*key, "usage"))
    scan_usage(s, &r->usage);
  else if (SCAN_IS(*key, "error"))
    scan_error(s, &r->error);
  else if (SCAN_IS(*key, "status"))
    scan_string(s, &r->status);
  else if (SCAN_IS(*key, "incomplete_details"))
    scan_reason(s, &r->reason);
  else
    return false;
  return true;
}

static void scan_response(struct scan *s, struct frame *f) {
  bool first = true;
  struct scan_str key;
  f->response = (struct frame_reply){0};
  f->has_response = scan_enter(s, '{');
  if (!f->has_response)
    return;
  while (scan_key(s, &first, &key))
    if (!scan_reply_field(s, &key, &f->response))
      scan_skip(s);
}

static bool scan_top_field(struct scan *s, const struct scan_str *key, struct frame *f,
                           bool whole_reply) {
  switch (key->len) { /* most keys of an event are none of these, by their length alone */
  case 4:
    if (SCAN_IS(*key, "type"))
      return scan_string(s, &f->type), true;
    if (SCAN_IS(*key, "code"))
      return f->code = scan_code(s, OPENAI_ABSENT, &f->code_text), true;
    if (SCAN_IS(*key, "item"))
      return f->n_items = 0, scan_one_item(s, f, false), true;
    break;
  case 5:
    if (SCAN_IS(*key, "delta"))
      return scan_string(s, &f->delta), true;
    if (SCAN_IS(*key, "input"))
      return scan_string(s, &f->arguments), true;
    break;
  case 6:
    if (SCAN_IS(*key, "object"))
      return scan_string(s, &f->object), true;
    if (SCAN_IS(*key, "output") && whole_reply)
      return scan_output(s, f), true;
    break;
  case 7:
    if (SCAN_IS(*key, "choices"))
      return scan_choices(s, f), true;
    if (SCAN_IS(*key, "message"))
      return scan_string(s, &f->message), true;
    break;
  case 8:
    if (SCAN_IS(*key, "response"))
      return scan_response(s, f), true;
    break;
  case 9:
    if (SCAN_IS(*key, "arguments"))
      return scan_string(s, &f->arguments), true;
    break;
  case 12:
    if (SCAN_IS(*key, "output_index"))
      return f->output_index = scan_count(s, 0), true;
    break;
  default:
    break;
  }
  return scan_reply_field(s, key, &f->top);
}

static void forget_reply(struct frame_reply *r) {
  r->id.there = r->status.there = r->reason.there = r->error.there = r->usage.present = false;
  r->id.len = r->status.len = r->reason.len = 0;
}

/* Field by field: clearing all of it would cost more than reading a short event. */
static void forget(struct frame *f) {
  struct scan_str *const strings[] = {&f->object, &f->type,      &f->message,
                                      &f->delta,  &f->arguments, &f->code_text};
  for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
    strings[i]->there = false;
    strings[i]->len = 0;
  }
  forget_reply(&f->top);
  f->code = OPENAI_ABSENT;
  f->output_index = 0;
  f->has_response = f->cut = f->full = false;
  f->n_choices = f->n_tools = f->n_items = f->n_parts = 0;
}

bool frame_read(struct frame *f, const char *text, size_t len, bool whole_reply) {
  struct scan s;
  bool first = true;
  struct scan_str key;
  forget(f);
  f->whole = (struct scan_str){.p = text, .len = len, .there = true};
  scan_init(&s, text, len, &f->key);
  if (scan_enter(&s, '{'))
    while (scan_key(&s, &first, &key))
      if (!scan_top_field(&s, &key, f, whole_reply))
        scan_skip(&s);
  scan_end(&s);
  f->cut = s.bad && s.cut;
  return !s.bad;
}
