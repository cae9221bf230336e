/* harmony.c: a Harmony conversation as segments, and segments as ids. */
#include "text/harmony.h"

#include <stdio.h>

#include "base/mem.h"
#include "text/harmony_impl.h"

void harmony_init(struct harmony_prompt *p) {
  *p = (struct harmony_prompt){.n = 0};
  buf_init(&p->text, BUF_MAX_OWN);
}

void harmony_free(struct harmony_prompt *p) {
  buf_free(&p->text);
  mem_free(p->segments);
  p->segments = NULL;
  p->n = p->cap = 0;
}

/* ---- segments ---- */

/* What was put behind `start` is a segment; an empty text is none. */
static void end_segment(struct harmony_prompt *p, size_t start, bool special) {
  if (p->text.len == start)
    return;
  MEM_GROW(p->segments, p->n, p->cap);
  p->segments[p->n++] = (struct harmony_segment){special, start, p->text.len - start};
}

static void put_special(struct harmony_prompt *p, const char *token) {
  size_t start = p->text.len;
  buf_puts(&p->text, token);
  end_segment(p, start, true);
}

/* `before` and the text are one segment. */
static void put_text(struct harmony_prompt *p, const char *before, const struct value *text) {
  size_t start = p->text.len;
  buf_puts(&p->text, before);
  if (text)
    buf_put(&p->text, text->u.string.data, text->u.string.len);
  end_segment(p, start, false);
}

/* ---- messages ---- */

struct message {
  size_t number; /* from 1, for errors */
  const struct value *role, *content;
  const struct value *name, *recipient, *channel, *content_type; /* NULL: absent */
  bool dropped; /* it must be well formed, but need not make sense */
};

bool harmony_is(const struct value *v, const char *text) {
  return v && v->kind == VALUE_STRING && v->u.string.len == strlen(text) &&
         memcmp(v->u.string.data, text, v->u.string.len) == 0;
}

/* A text or absent (null is absent); *out is NULL then. */
static int optional_text(const struct value *object, const char *key, const struct value **out,
                         const char *where, struct err *err) {
  *out = value_get(object, key);
  if (*out && (*out)->kind == VALUE_NULL)
    *out = NULL;
  if (*out && (*out)->kind != VALUE_STRING)
    return err_set(err, ERR_INVALID, "%s: %s must be a text", where, key);
  return 0;
}

static int read_message(const struct value *v, size_t number, struct message *m, struct err *err) {
  static const char *const roles[] = {"user", "assistant", "system", "developer", "tool"};
  char where[40];
  snprintf(where, sizeof where, "message %zu", number);
  *m = (struct message){
      .number = number, .role = value_get(v, "role"), .content = value_get(v, "content")};
  bool known = false;
  for (size_t i = 0; i < ARRAY_LEN(roles); i++)
    known |= harmony_is(m->role, roles[i]);
  if (!known)
    return err_set(err, ERR_INVALID,
                   "%s: its role is none of user, assistant, system, developer, tool", where);
  if (!m->content || (m->content->kind != VALUE_STRING && m->content->kind != VALUE_ARRAY))
    return err_set(err, ERR_INVALID, "%s: content must be a text or a list of parts", where);
  int rc = optional_text(v, "name", &m->name, where, err);
  rc = rc ? rc : optional_text(v, "recipient", &m->recipient, where, err);
  rc = rc ? rc : optional_text(v, "channel", &m->channel, where, err);
  rc = rc ? rc : optional_text(v, "content_type", &m->content_type, where, err);
  return rc;
}

/* ---- the contents of system and developer messages ---- */

/* Sections, empty ones too, are separated by an empty line; *any: there is one already. */
static void begin_section(struct harmony_prompt *p, bool *any) {
  if (*any)
    buf_puts(&p->text, "\n\n");
  *any = true;
}

static int put_tools_section(struct harmony_prompt *p, bool *any, const struct value *content,
                             const char *where, struct err *err) {
  const struct value *tools = value_get(content, "tools");
  if (!tools || tools->kind == VALUE_NULL ||
      (tools->kind == VALUE_OBJECT && tools->u.object.n == 0))
    return 0;
  begin_section(p, any);
  return harmony_put_tools(&p->text, tools, where, err);
}

/* Who it is and when, a line each. */
static int put_identity(struct harmony_prompt *p, bool *any, const struct value *content,
                        const char *where, struct err *err) {
  static const struct {
    const char *key, *before;
  } lines[] = {{"model_identity", ""},
               {"knowledge_cutoff", "Knowledge cutoff: "},
               {"conversation_start_date", "Current date: "}};
  bool line = false;
  for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
    const struct value *text;
    int rc = optional_text(content, lines[i].key, &text, where, err);
    if (rc)
      return rc;
    if (!text)
      continue;
    if (line)
      buf_putc(&p->text, '\n');
    else
      begin_section(p, any);
    line = true;
    buf_puts(&p->text, lines[i].before);
    buf_put(&p->text, text->u.string.data, text->u.string.len);
  }
  return 0;
}

static int put_effort(struct harmony_prompt *p, bool *any, const struct value *content,
                      const char *where, struct err *err) {
  static const char *const efforts[][2] = {{"Low", "low"}, {"Medium", "medium"}, {"High", "high"}};
  const struct value *effort = value_get(content, "reasoning_effort");
  if (!effort || effort->kind == VALUE_NULL)
    return 0;
  for (size_t i = 0; i < ARRAY_LEN(efforts); i++)
    if (harmony_is(effort, efforts[i][0])) {
      begin_section(p, any);
      buf_puts(&p->text, "Reasoning: ");
      buf_puts(&p->text, efforts[i][1]);
      return 0;
    }
  return err_set(err, ERR_INVALID, "%s: reasoning_effort is one of Low, Medium, High", where);
}

static int put_channels(struct harmony_prompt *p, bool *any, const struct value *content,
                        bool function_tools, const char *where, struct err *err) {
  const struct value *config = value_get(content, "channel_config");
  if (!config || config->kind == VALUE_NULL)
    return 0;
  const struct value *valid = value_get(config, "valid_channels");
  const struct value *required = value_get(config, "channel_required");
  bool good = valid && valid->kind == VALUE_ARRAY && required && required->kind == VALUE_BOOL;
  for (size_t i = 0; good && i < valid->u.array.n; i++)
    good = valid->u.array.items[i].kind == VALUE_STRING;
  if (!good)
    return err_set(err, ERR_INVALID,
                   "%s: channel_config is {valid_channels = list of texts, channel_required = "
                   "boolean}",
                   where);
  if (valid->u.array.n == 0)
    return 0;
  begin_section(p, any);
  buf_puts(&p->text, "# Valid channels: ");
  for (size_t i = 0; i < valid->u.array.n; i++) {
    const struct value *channel = &valid->u.array.items[i];
    buf_puts(&p->text, i ? ", " : "");
    buf_put(&p->text, channel->u.string.data, channel->u.string.len);
  }
  buf_putc(&p->text, '.');
  if (required->u.boolean)
    buf_puts(&p->text, " Channel must be included for every message.");
  if (function_tools)
    buf_puts(&p->text, "\nCalls to these tools must go to the commentary channel: 'functions'.");
  return 0;
}

static int put_system(struct harmony_prompt *p, const struct value *content, bool function_tools,
                      const char *where, struct err *err) {
  size_t start = p->text.len;
  bool any = false;
  int rc = put_identity(p, &any, content, where, err);
  rc = rc ? rc : put_effort(p, &any, content, where, err);
  rc = rc ? rc : put_tools_section(p, &any, content, where, err);
  rc = rc ? rc : put_channels(p, &any, content, function_tools, where, err);
  end_segment(p, start, false);
  return rc;
}

static int put_developer(struct harmony_prompt *p, const struct value *content, const char *where,
                         struct err *err) {
  size_t start = p->text.len;
  const struct value *instructions;
  bool any = false;
  int rc = optional_text(content, "instructions", &instructions, where, err);
  if (!rc && instructions) {
    begin_section(p, &any);
    buf_puts(&p->text, "# Instructions\n\n");
    buf_put(&p->text, instructions->u.string.data, instructions->u.string.len);
  }
  rc = rc ? rc : put_tools_section(p, &any, content, where, err);
  end_segment(p, start, false);
  return rc;
}

static int put_part(struct harmony_prompt *p, const struct message *m, const struct value *part,
                    bool function_tools, struct err *err) {
  const struct value *type = value_get(part, "type"), *text = value_get(part, "text");
  bool system = harmony_is(type, "system_content"),
       developer = harmony_is(type, "developer_content");
  char where[40];
  snprintf(where, sizeof where, "message %zu", m->number);
  if (harmony_is(type, "text") && text && text->kind == VALUE_STRING) {
    put_text(p, "", text);
    return 0;
  }
  if (system && !m->dropped && !harmony_is(m->role, "system"))
    return err_set(err, ERR_INVALID, "%s: system_content belongs in a system message", where);
  if (developer && !m->dropped && !harmony_is(m->role, "developer"))
    return err_set(err, ERR_INVALID, "%s: developer_content belongs in a developer message", where);
  if (system)
    return put_system(p, part, function_tools, where, err);
  if (developer)
    return put_developer(p, part, where, err);
  return err_set(err, ERR_INVALID,
                 "%s: a part of its content is {type = \"text\", text = …}, or of type "
                 "system_content or developer_content",
                 where);
}

/* ---- the conversation ---- */

#define CONSTRAIN "<|constrain|>"

static void put_header(struct harmony_prompt *p, const struct message *m) {
  put_special(p, "<|start|>");
  if (harmony_is(m->role, "tool")) { /* the name stands alone */
    put_text(p, "", m->name);
  } else {
    put_text(p, "", m->role);
    if (m->name)
      put_text(p, ":", m->name);
  }
  if (m->recipient && !harmony_is(m->recipient, "all"))
    put_text(p, " to=", m->recipient);
  if (m->channel) {
    put_special(p, "<|channel|>");
    put_text(p, "", m->channel);
  }
  if (!m->content_type)
    return;
  size_t marker = sizeof CONSTRAIN - 1, len = m->content_type->u.string.len;
  if (len < marker || memcmp(m->content_type->u.string.data, CONSTRAIN, marker) != 0) {
    put_text(p, " ", m->content_type);
    return;
  }
  put_text(p, " ", NULL);
  put_special(p, CONSTRAIN);
  size_t start = p->text.len;
  buf_put(&p->text, m->content_type->u.string.data + marker, len - marker);
  end_segment(p, start, false);
}

static int put_message(struct harmony_prompt *p, const struct message *m, bool function_tools,
                       struct err *err) {
  if (!m->dropped && harmony_is(m->role, "tool") && !m->name)
    return err_set(err, ERR_INVALID, "message %zu: Tools should have a name! (its name is missing)",
                   m->number);
  put_header(p, m);
  put_special(p, "<|message|>");
  if (m->content->kind == VALUE_STRING) {
    put_text(p, "", m->content);
  } else {
    for (size_t i = 0; i < m->content->u.array.n; i++) {
      int rc = put_part(p, m, &m->content->u.array.items[i], function_tools, err);
      if (rc)
        return rc;
    }
  }
  put_special(p, harmony_is(m->role, "assistant") && m->recipient ? "<|call|>" : "<|end|>");
  return 0;
}

/* Whether any developer content has functions, which the system message then speaks of. */
bool harmony_has_function_tools(const struct value *messages) {
  for (size_t i = 0; i < messages->u.array.n; i++) {
    const struct value *content = value_get(&messages->u.array.items[i], "content");
    for (size_t k = 0; content && content->kind == VALUE_ARRAY && k < content->u.array.n; k++) {
      const struct value *part = &content->u.array.items[k];
      const struct value *functions = value_get(value_get(part, "tools"), "functions");
      const struct value *tools = value_get(functions, "tools");
      if (harmony_is(value_get(part, "type"), "developer_content") && tools &&
          tools->kind == VALUE_ARRAY && tools->u.array.n > 0)
        return true;
    }
  }
  return false;
}

int harmony_put_message(struct harmony_prompt *p, const struct value *message, size_t number,
                        bool function_tools, struct err *err) {
  struct message m;
  int rc = read_message(message, number, &m, err);
  return rc ? rc : put_message(p, &m, function_tools, err);
}

void harmony_put_start(struct harmony_prompt *p) {
  put_special(p, "<|start|>");
  size_t start = p->text.len;
  buf_puts(&p->text, "assistant");
  end_segment(p, start, false);
}

/* Analysis in messages before this index is left out; 0: nothing is. */
static size_t drop_before(const struct value *messages, const struct harmony_options *options) {
  const struct value *last = NULL; /* of the assistant */
  for (size_t i = messages->u.array.n; !last && i-- > 0;)
    if (harmony_is(value_get(&messages->u.array.items[i], "role"), "assistant"))
      last = &messages->u.array.items[i];
  if (!options->auto_drop_analysis || !harmony_is(value_get(last, "channel"), "final"))
    return 0;
  for (size_t i = 0; i < messages->u.array.n; i++)
    if (harmony_is(value_get(&messages->u.array.items[i], "channel"), "final"))
      return i;
  return 0;
}

int harmony_render(struct harmony_prompt *p, const struct value *messages,
                   const struct harmony_options *options, struct err *err) {
  buf_reset(&p->text);
  p->n = 0;
  if (!messages || messages->kind != VALUE_ARRAY)
    return err_set(err, ERR_INVALID, "messages must be a list of Harmony messages");
  bool function_tools = harmony_has_function_tools(messages);
  size_t drop = drop_before(messages, options);
  struct message m = {.number = 0};
  for (size_t i = 0; i < messages->u.array.n; i++) {
    size_t n = p->n, len = p->text.len;
    int rc = read_message(&messages->u.array.items[i], i + 1, &m, err);
    m.dropped = i < drop && harmony_is(m.channel, "analysis");
    rc = rc ? rc : put_message(p, &m, function_tools, err);
    if (rc)
      return rc;
    if (m.dropped) {
      p->n = n;
      p->text.len = len;
      p->text.data[len] = '\0';
    }
  }
  if (options->mode == HARMONY_COMPLETION) {
    harmony_put_start(p);
  } else if (options->mode == HARMONY_TRAINING && harmony_is(m.role, "assistant") &&
             harmony_is(m.channel, "final")) {
    p->text.len = p->segments[--p->n].start;
    put_special(p, "<|return|>");
  }
  return 0;
}

int harmony_encode_special(struct tokens_encoder *e, const char *text, size_t len,
                           struct tokens_list *out, struct err *err) {
  static const struct tokens_options special = {.special = true};
  size_t before = out->n;
  int rc = tokens_encoder_encode(e, text, len, &special, out, err);
  if (!rc && out->n != before + 1)
    return err_set(err, ERR_INVALID, "tokenizer %s has no token %.*s: Harmony needs o200k_harmony",
                   e->tokens->name, (int)len, text);
  return rc;
}

int harmony_encode(const struct harmony_prompt *p, struct tokens_encoder *e,
                   struct tokens_list *out, struct err *err) {
  for (size_t i = 0; i < p->n; i++) {
    const struct harmony_segment *s = &p->segments[i];
    const char *text = p->text.data + s->start;
    int rc = s->special ? harmony_encode_special(e, text, s->len, out, err)
                        : tokens_encoder_encode(e, text, s->len, NULL, out, err);
    if (rc)
      return rc;
  }
  return 0;
}

bool harmony_knows(struct tokens_encoder *e) {
  static const char marks[] = "<|start|><|channel|><|message|><|return|>";
  static const struct tokens_options special = {.special = true};
  struct tokens_list ids = {0};
  struct err err;
  int rc = tokens_encoder_encode(e, marks, sizeof marks - 1, &special, &ids, &err);
  bool knows = !rc && ids.n == 4;
  tokens_list_free(&ids);
  return knows;
}
