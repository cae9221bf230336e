/* harmony_chat.c: chat messages of the OpenAI API as a Harmony conversation, as vLLM does it. */
#include <stdio.h>

#include "text/harmony_impl.h"

#define IDENTITY "You are ChatGPT, a large language model trained by OpenAI."

static bool is_absent(const struct value *v) {
  return !v || v->kind == VALUE_NULL;
}

static bool is_text(const struct value *v) {
  return v && v->kind == VALUE_STRING;
}

static bool is_empty_text(const struct value *v) {
  return is_text(v) && v->u.string.len == 0;
}

static struct value *add_message(struct value *out, const char *role, const char *channel,
                                 struct value content) {
  struct value m = value_object();
  value_set(&m, "role", value_cstring(role));
  if (channel)
    value_set(&m, "channel", value_cstring(channel));
  value_set(&m, "content", content);
  return value_push(out, m);
}

/* "functions." and a name; the name may be NULL. */
static struct value function_name(const struct value *name) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_puts(&b, "functions.");
  if (name)
    buf_put(&b, name->u.string.data, name->u.string.len);
  struct value v = value_string(b.data, b.len);
  buf_free(&b);
  return v;
}

/* ---- content ---- */

/* Checks a content: a text, absent, or a list of parts that have texts. */
static int check_content(const struct value *content, size_t number, struct err *err) {
  if (is_absent(content) || is_text(content))
    return 0;
  bool good = content->kind == VALUE_ARRAY;
  for (size_t i = 0; good && i < content->u.array.n; i++)
    good = is_text(value_get(&content->u.array.items[i], "text"));
  if (good)
    return 0;
  return err_set(err, ERR_INVALID,
                 "message %zu: content must be a text or a list of {type = \"text\", text = …}: "
                 "gpt-oss reads texts alone",
                 number);
}

/* One text of it; absent is "". */
static struct value flat_text(const struct value *content) {
  if (is_absent(content))
    return value_cstring("");
  if (is_text(content))
    return value_copy(content);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  for (size_t i = 0; i < content->u.array.n; i++) {
    const struct value *text = value_get(&content->u.array.items[i], "text");
    buf_put(&b, text->u.string.data, text->u.string.len);
  }
  struct value v = value_string(b.len ? b.data : "", b.len);
  buf_free(&b);
  return v;
}

/* Its parts one by one, as they are tokenized. */
static struct value parts_of(const struct value *content) {
  if (is_absent(content) || is_text(content))
    return flat_text(content);
  struct value list = value_array();
  for (size_t i = 0; i < content->u.array.n; i++) {
    struct value *part = value_push(&list, value_object());
    value_set(part, "type", value_cstring("text"));
    value_set(part, "text", value_copy(value_get(&content->u.array.items[i], "text")));
  }
  return list;
}

static bool says_something(const struct value *content) {
  if (is_absent(content))
    return false;
  if (is_text(content))
    return content->u.string.len > 0;
  return value_count(content) > 0 && !is_empty_text(value_get(value_at(content, 0), "text"));
}

/* ---- system and developer ---- */

static int put_system(struct value *out, const struct harmony_chat *chat, struct err *err) {
  static const char *const channels[] = {"analysis", "commentary", "final"};
  static const char *const efforts[][2] = {{"low", "Low"}, {"medium", "Medium"}, {"high", "High"}};
  const char *effort = chat->reasoning_effort ? NULL : "Medium";
  for (size_t i = 0; !effort && i < ARRAY_LEN(efforts); i++)
    if (strcmp(chat->reasoning_effort, efforts[i][0]) == 0)
      effort = efforts[i][1];
  if (!effort)
    return err_set(err, ERR_INVALID, "reasoning_effort is \"%.40s\"; it is low, medium or high",
                   chat->reasoning_effort);
  struct value content = value_object();
  value_set(&content, "type", value_cstring("system_content"));
  value_set(&content, "model_identity",
            value_cstring(chat->model_identity ? chat->model_identity : IDENTITY));
  value_set(&content, "reasoning_effort", value_cstring(effort));
  value_set(&content, "knowledge_cutoff", value_cstring("2024-06"));
  value_set(&content, "conversation_start_date", value_cstring(chat->date));
  struct value *config = value_set(&content, "channel_config", value_object());
  struct value *valid = value_set(config, "valid_channels", value_array());
  for (size_t i = 0; i < ARRAY_LEN(channels); i++)
    value_push(valid, value_cstring(channels[i]));
  value_set(config, "channel_required", value_bool(true));
  struct value list = value_array();
  value_push(&list, content);
  add_message(out, "system", NULL, list);
  return 0;
}

/* The chat request's tools as Harmony's descriptions. */
static int put_functions(struct value *out, const struct value *tools, struct err *err) {
  for (size_t i = 0; i < value_count(tools); i++) {
    const struct value *tool = value_at(tools, i), *f = value_get(tool, "function");
    const struct value *name = value_get(f, "name"), *text = value_get(f, "description");
    const struct value *parameters = value_get(f, "parameters");
    if (!harmony_is(value_get(tool, "type"), "function") || !is_text(name))
      return err_set(err, ERR_INVALID,
                     "tool %zu is not {type = \"function\", function = {name = …, description = …, "
                     "parameters = …}}",
                     i + 1);
    if (!is_text(text))
      return err_set(
          err, ERR_INVALID,
          "tool %zu (%.80s) has no description, which Harmony needs (vLLM refuses it too)", i + 1,
          name->u.string.data);
    struct value *d = value_push(out, value_object());
    value_set(d, "name", value_copy(name));
    value_set(d, "description", value_copy(text));
    if (!is_absent(parameters))
      value_set(d, "parameters", value_copy(parameters));
  }
  return 0;
}

static int put_developer(struct value *out, const struct value *instructions,
                         const struct value *tools, struct err *err) {
  struct value content = value_object();
  int rc = 0;
  value_set(&content, "type", value_cstring("developer_content"));
  if (says_something(instructions))
    value_set(&content, "instructions", flat_text(instructions));
  if (value_count(tools)) {
    struct value *spaces = value_set(&content, "tools", value_object());
    struct value *space = value_set(spaces, "functions", value_object());
    value_set(space, "name", value_cstring("functions"));
    rc = put_functions(value_set(space, "tools", value_array()), tools, err);
  }
  struct value list = value_array();
  value_push(&list, content);
  add_message(out, "developer", NULL, list);
  return rc;
}

/* ---- the others ---- */

static const struct value *reasoning_of(const struct value *m) {
  const struct value *r = value_get(m, "reasoning");
  if (!is_text(r))
    r = value_get(m, "reasoning_content");
  return is_text(r) && r->u.string.len ? r : NULL;
}

static int put_calls(struct value *out, const struct value *calls, const char *content_type,
                     size_t number, struct err *err) {
  for (size_t i = 0; i < value_count(calls); i++) {
    const struct value *f = value_get(value_at(calls, i), "function");
    const struct value *name = value_get(f, "name"), *arguments = value_get(f, "arguments");
    if (!is_text(name) || (!is_absent(arguments) && !is_text(arguments)))
      return err_set(err, ERR_INVALID,
                     "message %zu: tool call %zu is not {function = {name = text, arguments = JSON "
                     "text}}",
                     number, i + 1);
    struct value *m = add_message(out, "assistant", "commentary", flat_text(arguments));
    value_set(m, "recipient", function_name(name));
    value_set(m, "content_type", value_cstring(content_type ? content_type : "json"));
  }
  return 0;
}

static int put_assistant(struct value *out, const struct value *m, const char *content_type,
                         size_t number, struct err *err) {
  const struct value *content = value_get(m, "content"), *calls = value_get(m, "tool_calls");
  const struct value *reasoning = reasoning_of(m);
  bool has_calls = value_count(calls) > 0, says = says_something(content);
  if (has_calls && says)
    add_message(out, "assistant", "commentary", flat_text(content));
  if (reasoning)
    add_message(out, "assistant", "analysis", value_copy(reasoning));
  if (has_calls)
    return put_calls(out, calls, content_type, number, err);
  if (says)
    add_message(out, "assistant", "final", parts_of(content));
  return 0;
}

/* The name of the call with that id in the messages before, NULL when there is none. */
static const struct value *called_name(const struct value *messages, size_t before,
                                       const struct value *id) {
  for (size_t i = before; i-- > 0;) {
    const struct value *calls = value_get(value_at(messages, i), "tool_calls");
    for (size_t k = 0; is_text(id) && k < value_count(calls); k++) {
      const struct value *call = value_at(calls, k);
      const struct value *name = value_get(value_get(call, "function"), "name");
      const struct value *its = value_get(call, "id");
      if (is_text(its) && value_equal(its, id) && is_text(name))
        return name;
    }
  }
  return NULL;
}

static int put_answer(struct value *out, const struct value *m, size_t number,
                      const struct value *name, struct err *err) {
  if (!name && is_text(value_get(m, "name")))
    name = value_get(m, "name");
  if (!name)
    return err_set(err, ERR_INVALID,
                   "message %zu: no call before it has the tool_call_id that it answers", number);
  struct value *answer = add_message(out, "tool", "commentary", flat_text(value_get(m, "content")));
  value_set(answer, "name", function_name(name));
  value_set(answer, "recipient", value_cstring("assistant"));
  return 0;
}

int harmony_chat_message(struct value *out, const struct value *m, size_t number,
                         const struct value *called, const char *content_type, struct err *err) {
  const struct value *role = value_get(m, "role");
  int rc = check_content(value_get(m, "content"), number, err);
  if (rc)
    return rc;
  if (harmony_is(role, "assistant"))
    return put_assistant(out, m, content_type, number, err);
  if (harmony_is(role, "tool"))
    return put_answer(out, m, number, called, err);
  if (!harmony_is(role, "user") && !harmony_leads(m))
    return err_set(err, ERR_INVALID,
                   "message %zu: its role is none of user, assistant, system, developer, tool",
                   number);
  add_message(out, role->u.string.data, NULL, parts_of(value_get(m, "content")));
  return 0;
}

/* Analysis before the last final answer is left out. */
static void drop_analysis(struct value *out) {
  size_t final = out->u.array.n, kept = 0;
  while (final > 0 &&
         !(harmony_is(value_get(&out->u.array.items[final - 1], "role"), "assistant") &&
           harmony_is(value_get(&out->u.array.items[final - 1], "channel"), "final")))
    final--;
  for (size_t i = 0; i < out->u.array.n; i++) {
    struct value *m = &out->u.array.items[i];
    if (i < final && harmony_is(value_get(m, "channel"), "analysis"))
      value_free(m);
    else
      out->u.array.items[kept++] = *m;
  }
  out->u.array.n = kept;
}

bool harmony_leads(const struct value *m) {
  const struct value *role = value_get(m, "role");
  return harmony_is(role, "system") || harmony_is(role, "developer");
}

int harmony_chat_head(struct value *out, const struct value *instructions,
                      const struct harmony_chat *chat, struct err *err) {
  if (chat->tools && chat->tools->kind != VALUE_ARRAY && value_count(chat->tools))
    return err_set(err, ERR_INVALID, "tools must be a list of tools");
  int rc = check_content(instructions, 1, err);
  rc = rc ? rc : put_system(out, chat, err);
  if (!rc && (says_something(instructions) || value_count(chat->tools)))
    rc = put_developer(out, instructions, chat->tools, err);
  return rc;
}

int harmony_from_chat(const struct value *messages, const struct harmony_chat *chat,
                      struct value *out, struct err *err) {
  *out = value_null();
  if (!messages || messages->kind != VALUE_ARRAY)
    return err_set(err, ERR_INVALID, "messages must be a list of chat messages");
  struct value list = value_array();
  const struct value *lead = value_at(messages, 0);
  size_t first = harmony_leads(lead) ? 1 : 0;
  int rc = harmony_chat_head(&list, first ? value_get(lead, "content") : NULL, chat, err);
  for (size_t i = first; !rc && i < messages->u.array.n; i++) {
    const struct value *m = value_at(messages, i);
    const struct value *called = harmony_is(value_get(m, "role"), "tool")
                                     ? called_name(messages, i, value_get(m, "tool_call_id"))
                                     : NULL;
    rc = harmony_chat_message(&list, m, i + 1, called, chat->call_content_type, err);
  }
  if (rc) {
    value_free(&list);
    return rc;
  }
  drop_analysis(&list);
  *out = list;
  return 0;
}
