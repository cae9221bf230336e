/* chatmessages.c: from a request's messages to a template's; see chatmessages.h. */
#include "text/chatmessages.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "text/json.h"

static bool is_absent(const struct value *v) {
  return !v || v->kind == VALUE_NULL;
}

static bool is_string(const struct value *v) {
  return v && v->kind == VALUE_STRING;
}

/* ---- content ---- */

/* The text of a part; *text is NULL for one that is passed over. */
static int part_text(const struct value *part, size_t message, const struct value **text,
                     struct err *err) {
  static const char *const kinds[][2] = {{"text", "text"},
                                         {"input_text", "text"},
                                         {"output_text", "text"},
                                         {"refusal", "refusal"},
                                         {"thinking", "thinking"}};
  *text = part;
  if (part->kind == VALUE_STRING)
    return 0;
  const char *type = value_to_string(value_get(part, "type"));
  if (!type)
    return err_set(err, ERR_INVALID, "messages[%zu].content: a part needs a type", message);
  const char *field = NULL;
  for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
    if (strcmp(type, kinds[i][0]) == 0)
      field = kinds[i][1];
  if (!field)
    return err_set(err, ERR_INVALID,
                   "messages[%zu].content: parts of type %.40s are not supported, only text",
                   message, type);
  *text = value_get(part, field);
  if (*text && (*text)->kind == VALUE_NULL)
    *text = NULL;
  else if (!is_string(*text))
    return err_set(err, ERR_INVALID, "messages[%zu].content: a %.40s part needs a text", message,
                   type);
  return 0;
}

static int join_parts(const struct value *parts, size_t message, struct buf *out, struct err *err) {
  bool first = true;
  for (size_t i = 0; i < value_count(parts); i++) {
    const struct value *text;
    int rc = part_text(value_at(parts, i), message, &text, err);
    if (rc)
      return rc;
    if (!text)
      continue;
    if (!first)
      buf_putc(out, '\n');
    first = false;
    buf_put(out, text->u.string.data, text->u.string.len);
  }
  return 0;
}

static int add_content(const struct value *content, size_t message, struct value *out,
                       struct err *err) {
  if (is_absent(content)) {
    value_set(out, "content", value_cstring(""));
    return 0;
  }
  if (content->kind == VALUE_STRING) {
    value_set(out, "content", value_copy(content));
    return 0;
  }
  if (content->kind != VALUE_ARRAY)
    return err_set(err, ERR_INVALID,
                   "messages[%zu].content should be a string or an array of parts", message);
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  int rc = join_parts(content, message, &text, err);
  if (!rc)
    value_set(out, "content", value_string(text.data ? text.data : "", text.len));
  buf_free(&text);
  return rc;
}

/* ---- tool calls ---- */

static int parse_arguments(struct value *function, size_t message, size_t call, struct err *err) {
  struct value *arguments = value_get(function, "arguments"), parsed;
  bool none = is_absent(arguments) || (is_string(arguments) && !arguments->u.string.len);
  if (none) {
    value_set(function, "arguments", value_object());
    return 0;
  }
  if (arguments->kind != VALUE_STRING)
    return 0;
  if (json_parse(arguments->u.string.data, arguments->u.string.len, &parsed, err))
    return err_prefix(err, "messages[%zu].tool_calls[%zu].function.arguments", message, call);
  value_set(function, "arguments", parsed);
  return 0;
}

static int add_calls(const struct value *calls, size_t message, struct value *out,
                     struct err *err) {
  if (is_absent(calls))
    return 0;
  if (calls->kind != VALUE_ARRAY)
    return err_set(err, ERR_INVALID, "messages[%zu].tool_calls should be an array", message);
  if (!value_count(calls))
    return 0;
  struct value *copy = value_set(out, "tool_calls", value_copy(calls));
  for (size_t i = 0; i < value_count(copy); i++) {
    struct value *function = value_get(value_at(copy, i), "function");
    if (!function || function->kind != VALUE_OBJECT)
      return err_set(err, ERR_INVALID,
                     "messages[%zu].tool_calls[%zu].function: an object is required", message, i);
    int rc = parse_arguments(function, message, i, err);
    if (rc)
      return rc;
  }
  return 0;
}

static void add_reasoning(const struct value *m, struct value *out) {
  const struct value *reasoning = value_get(m, "reasoning");
  if (!is_string(reasoning) || !reasoning->u.string.len)
    reasoning = value_get(m, "reasoning_content");
  if (!is_string(reasoning))
    return;
  value_set(out, "reasoning", value_copy(reasoning));
  value_set(out, "reasoning_content", value_copy(reasoning));
}

/* ---- messages ---- */

static int prepare_one(const struct value *m, size_t i, struct value *out, struct err *err) {
  if (m->kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID, "messages[%zu] should be an object", i);
  const char *role = value_to_string(value_get(m, "role"));
  if (!role || !*role)
    return err_set(err, ERR_INVALID, "messages[%zu].role: a string is required", i);
  value_set(out, "role", value_copy(value_get(m, "role")));
  int rc = add_content(value_get(m, "content"), i, out, err);
  if (!rc && strcmp(role, "assistant") == 0) {
    rc = add_calls(value_get(m, "tool_calls"), i, out, err);
    add_reasoning(m, out);
  }
  const struct value *id = value_get(m, "tool_call_id"), *name = value_get(m, "name"),
                     *tools = value_get(m, "tools");
  if (!rc && id && strcmp(role, "tool") == 0)
    value_set(out, "tool_call_id", value_copy(id));
  if (!rc && is_string(name))
    value_set(out, "name", value_copy(name));
  if (!rc && strcmp(role, "developer") == 0)
    value_set(out, "tools", tools ? value_copy(tools) : value_null());
  return rc;
}

int chatmessages_prepare(const struct value *messages, struct value *out, struct err *err) {
  *out = value_null();
  if (!messages)
    return err_set(err, ERR_INVALID, "messages: field required");
  if (messages->kind != VALUE_ARRAY)
    return err_set(err, ERR_INVALID, "messages should be an array");
  if (!value_count(messages))
    return err_set(err, ERR_INVALID, "messages should have at least one message");
  *out = value_array();
  int rc = 0;
  for (size_t i = 0; i < value_count(messages) && !rc; i++)
    rc = prepare_one(value_at(messages, i), i, value_push(out, value_object()), err);
  if (rc)
    value_free(out);
  return rc;
}

/* ---- tools ---- */

/* The fields `first` in their order, null where missing, then the others as they come. */
static struct value in_order(const struct value *from, const char *const *first, size_t n) {
  struct value out = value_object();
  for (size_t i = 0; i < n; i++) {
    const struct value *v = value_get(from, first[i]);
    value_set(&out, first[i], v ? value_copy(v) : value_null());
  }
  for (size_t i = 0; i < value_count(from); i++) {
    const struct value_pair *p = &from->u.object.pairs[i];
    if (!value_get_len(&out, p->key, p->key_len))
      value_set_len(&out, p->key, p->key_len, value_copy(&p->value));
  }
  return out;
}

int chatmessages_tools(const struct value *tools, struct value *out, struct err *err) {
  static const char *const outer[] = {"type", "function"};
  static const char *const inner[] = {"name", "description", "parameters"};
  *out = value_null();
  if (is_absent(tools))
    return 0;
  if (tools->kind != VALUE_ARRAY)
    return err_set(err, ERR_INVALID, "tools should be an array");
  if (!value_count(tools))
    return 0;
  *out = value_array();
  for (size_t i = 0; i < value_count(tools); i++) {
    const struct value *tool = value_at(tools, i), *function = value_get(tool, "function");
    if (!function || function->kind != VALUE_OBJECT || !is_string(value_get(function, "name"))) {
      value_free(out);
      return err_set(err, ERR_INVALID, "tools[%zu].function: an object with a name is required", i);
    }
    struct value *copy = value_push(out, in_order(tool, outer, ARRAY_LEN(outer)));
    if (is_absent(value_get(copy, "type")))
      value_set(copy, "type", value_cstring("function"));
    value_set(copy, "function", in_order(function, inner, ARRAY_LEN(inner)));
  }
  return 0;
}
