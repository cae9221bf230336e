/* respitems.c: see respitems.h. */
#include "sim/respitems.h"

#include <string.h>

#include "text/json.h"

static struct value *add_message(struct value *messages, const char *role) {
  struct value *m = value_push(messages, value_object());
  value_set(m, "role", value_cstring(role));
  return m;
}

/* input_text and output_text are chat's text parts. */
static struct value content_of(const struct value *content) {
  struct value out = value_array();
  if (!content || content->kind != VALUE_ARRAY)
    return content ? value_copy(content) : value_null();
  for (size_t i = 0; i < value_count(content); i++) {
    const struct value *part = value_at(content, i);
    const char *type = value_to_string(value_get(part, "type"));
    struct value *copy = value_push(&out, value_copy(part));
    if (type && (strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0)) {
      struct value text = value_object();
      value_set(&text, "type", value_cstring("text"));
      if (value_get(part, "text"))
        value_set(&text, "text", value_copy(value_get(part, "text")));
      value_free(copy);
      *copy = text;
    }
  }
  return out;
}

/* The text of a reasoning item, to go with the message that follows. */
static int take_reasoning(struct value *messages, const struct value *item, size_t at,
                          struct buf *out, struct apierror *e) {
  (void)messages;
  (void)at;
  (void)e;
  const struct value *content = value_get(item, "content");
  for (size_t i = 0; i < value_count(content); i++) {
    const char *text = value_to_string(value_get(value_at(content, i), "text"));
    buf_puts(out, text ? text : "");
  }
  return 0;
}

static void give_reasoning(struct value *message, struct buf *thoughts) {
  if (thoughts->len)
    value_set(message, "reasoning", value_string(thoughts->data, thoughts->len));
  buf_reset(thoughts);
}

/* Calls that follow each other are one message's. */
void respitems_add_call(struct value *messages, const char *id, const char *name,
                        const char *arguments) {
  size_t n = value_count(messages);
  struct value *m = n ? value_at(messages, n - 1) : NULL;
  struct value *calls = m ? value_get(m, "tool_calls") : NULL;
  if (!calls) {
    m = add_message(messages, "assistant");
    calls = value_set(m, "tool_calls", value_array());
  }
  struct value *call = value_push(calls, value_object());
  value_set(call, "id", value_cstring(id));
  value_set(call, "type", value_cstring("function"));
  struct value *function = value_set(call, "function", value_object());
  value_set(function, "name", value_cstring(name));
  value_set(function, "arguments", value_cstring(arguments));
}

void respitems_add_result(struct value *messages, const char *id, const char *text) {
  struct value *m = add_message(messages, "tool");
  value_set(m, "tool_call_id", value_cstring(id));
  value_set(m, "content", value_cstring(text));
}

/* The call's message is the last one then; thoughts before it are its own. */
static void call(struct value *messages, const char *id, const char *name, const char *arguments,
                 struct buf *thoughts) {
  respitems_add_call(messages, id, name, arguments);
  if (thoughts->len)
    give_reasoning(value_at(messages, value_count(messages) - 1), thoughts);
}

static int add_call(struct value *messages, const struct value *item, size_t i,
                    struct buf *thoughts, struct apierror *e) {
  const char *id = value_to_string(value_get(item, "call_id"));
  const char *name = value_to_string(value_get(item, "name"));
  const char *arguments = value_to_string(value_get(item, "arguments"));
  if (!id || !name || !arguments)
    return apierror_set(e, 400, "input",
                        "input[%zu]: a function_call needs call_id, name and arguments", i);
  call(messages, id, name, arguments, thoughts);
  return 0;
}

/* ---- calls that the server ran ---- */

/* The id that the call had when it was made: reply_items.c makes the item's of it. */
static char *call_id_of(const struct value *item, struct buf *out) {
  const char *id = value_to_string(value_get(item, "id")), *mark = id ? strchr(id, '_') : NULL;
  if (!id)
    return NULL;
  buf_printf(out, "call_%s", mark ? mark + 1 : id);
  return out->data;
}

static int add_mcp(struct value *messages, const struct value *item, const char *id,
                   struct buf *thoughts) {
  const char *name = value_to_string(value_get(item, "name"));
  const char *arguments = value_to_string(value_get(item, "arguments"));
  const char *output = value_to_string(value_get(item, "output"));
  if (!name || !arguments)
    return ERR_INVALID;
  call(messages, id, name, arguments, thoughts);
  if (output)
    respitems_add_result(messages, id, output);
  return 0;
}

/* {"code": …} or {"query": …} as the model said it. */
static void call_with(struct value *messages, const char *id, const char *name, const char *key,
                      const char *text, struct buf *thoughts) {
  struct buf arguments;
  buf_init(&arguments, BUF_MAX_OWN);
  buf_printf(&arguments, "{\"%s\": ", key);
  json_write_string(&arguments, text ? text : "", text ? strlen(text) : 0);
  buf_puts(&arguments, "}");
  call(messages, id, name, arguments.data, thoughts);
  buf_free(&arguments);
}

static void add_code(struct value *messages, const struct value *item, const char *id,
                     struct buf *thoughts) {
  const struct value *outputs = value_get(item, "outputs");
  call_with(messages, id, "code_interpreter", "code", value_to_string(value_get(item, "code")),
            thoughts);
  for (size_t k = 0; k < value_count(outputs); k++) {
    const char *logs = value_to_string(value_get(value_at(outputs, k), "logs"));
    if (logs)
      respitems_add_result(messages, id, logs);
  }
}

static int add_own_call(struct value *messages, const struct value *item, size_t i,
                        struct buf *thoughts, struct apierror *e) {
  const char *type = value_to_string(value_get(item, "type"));
  struct buf made;
  int rc = 0;
  buf_init(&made, BUF_MAX_OWN);
  const char *id = call_id_of(item, &made);
  bool mcp = strcmp(type, "mcp_call") == 0;
  if (!id)
    rc = ERR_INVALID;
  else if (mcp)
    rc = add_mcp(messages, item, id, thoughts);
  else if (strcmp(type, "code_interpreter_call") == 0)
    add_code(messages, item, id, thoughts);
  else
    call_with(messages, id, "web_search_preview", "query",
              value_to_string(value_get(value_get(item, "action"), "query")), thoughts);
  buf_free(&made);
  return rc ? apierror_set(e, 400, "input", "input[%zu]: a %s item needs id%s", i, type,
                           mcp ? ", name and arguments" : "")
            : 0;
}

/* ---- items ---- */

static int add_output(struct value *messages, const struct value *item, size_t i,
                      struct buf *thoughts, struct apierror *e) {
  (void)thoughts;
  const char *id = value_to_string(value_get(item, "call_id"));
  const struct value *output = value_get(item, "output");
  if (!id || reqfield_absent(output))
    return apierror_set(e, 400, "input",
                        "input[%zu]: a function_call_output needs call_id and output", i);
  struct value *m = add_message(messages, "tool");
  value_set(m, "tool_call_id", value_cstring(id));
  value_set(m, "content", content_of(output));
  return 0;
}

static int add_message_item(struct value *messages, const struct value *item, size_t i,
                            struct buf *thoughts, struct apierror *e) {
  const char *role = value_to_string(value_get(item, "role"));
  if (!role)
    return apierror_set(e, 400, "input", "input[%zu].role: a string is required", i);
  struct value *m = add_message(messages, role);
  value_set(m, "content", content_of(value_get(item, "content")));
  if (strcmp(role, "assistant") == 0)
    give_reasoning(m, thoughts);
  return 0;
}

static int add_item(struct value *messages, const struct value *item, size_t i,
                    struct buf *thoughts, struct apierror *e) {
  static const struct {
    const char *type;
    int (*add)(struct value *messages, const struct value *item, size_t i, struct buf *thoughts,
               struct apierror *e);
  } rows[] = {{"message", add_message_item},    {"reasoning", take_reasoning},
              {"function_call", add_call},      {"function_call_output", add_output},
              {"mcp_call", add_own_call},       {"code_interpreter_call", add_own_call},
              {"web_search_call", add_own_call}};
  const char *type = value_to_string(value_get(item, "type"));
  if (item->kind != VALUE_OBJECT)
    return apierror_set(e, 400, "input", "input[%zu] should be an object", i);
  for (size_t k = 0; k < ARRAY_LEN(rows); k++)
    if (strcmp(type ? type : "message", rows[k].type) == 0)
      return rows[k].add(messages, item, i, thoughts, e);
  return apierror_set(e, 400, "input",
                      "input[%zu]: items of type %.40s are not supported by this simulated replica",
                      i, type);
}

int respitems_add(struct value *messages, const struct value *items, size_t from,
                  struct apierror *e) {
  struct buf thoughts;
  int rc = 0;
  buf_init(&thoughts, BUF_MAX_OWN);
  for (size_t i = from; !rc && i < value_count(items); i++)
    rc = add_item(messages, value_at(items, i), i, &thoughts, e);
  buf_free(&thoughts);
  return rc;
}
