/* responses.c: from the items of the Responses API to chat messages; see responses.h. */
#include "sim/responses.h"

#include <string.h>

#include "base/mem.h"
#include "text/harmony.h"
#include "text/json.h"

/* ---- the store ---- */

static void entry_free(struct response_entry *x) {
  mem_free(x->id);
  mem_free(x->reply);
  value_free(&x->messages);
}

void response_store_free(struct response_store *s) {
  for (size_t i = 0; i < s->n; i++)
    entry_free(&s->entries[i]);
  mem_free(s->entries);
  *s = (struct response_store){0};
}

const struct response_entry *response_store_find(const struct response_store *s, const char *id) {
  for (size_t i = s->n; i-- > 0;) /* the newest are asked for most */
    if (strcmp(s->entries[i].id, id) == 0)
      return &s->entries[i];
  return NULL;
}

void response_store_put(struct response_store *s, const char *id, struct value messages,
                        const char *reply) {
  struct response_entry made = {mem_strdup(id), messages, mem_strdup(reply)};
  for (size_t i = 0; i < s->n; i++)
    if (strcmp(s->entries[i].id, id) == 0) {
      entry_free(&s->entries[i]);
      s->entries[i] = made;
      return;
    }
  MEM_GROW(s->entries, s->n, s->cap);
  s->entries[s->n++] = made;
}

int responses_not_found(const char *id, struct apierror *e) {
  return apierror_set(e, 404, "response_id", "Response with id '%.200s' not found.", id);
}

/* ---- items ---- */

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
static void take_reasoning(const struct value *item, struct buf *out) {
  const struct value *content = value_get(item, "content");
  for (size_t i = 0; i < value_count(content); i++) {
    const char *text = value_to_string(value_get(value_at(content, i), "text"));
    buf_puts(out, text ? text : "");
  }
}

static void give_reasoning(struct value *message, struct buf *thoughts) {
  if (thoughts->len)
    value_set(message, "reasoning", value_string(thoughts->data, thoughts->len));
  buf_reset(thoughts);
}

/* Calls that follow each other are one message's. */
static int add_call(struct value *messages, const struct value *item, size_t i,
                    struct buf *thoughts, struct apierror *e) {
  const char *id = value_to_string(value_get(item, "call_id"));
  const char *name = value_to_string(value_get(item, "name"));
  const char *arguments = value_to_string(value_get(item, "arguments"));
  if (!id || !name || !arguments)
    return apierror_set(e, 400, "input",
                        "input[%zu]: a function_call needs call_id, name and arguments", i);
  size_t n = value_count(messages);
  struct value *m = n ? value_at(messages, n - 1) : NULL;
  struct value *calls = m ? value_get(m, "tool_calls") : NULL;
  if (!calls) {
    m = add_message(messages, "assistant");
    give_reasoning(m, thoughts);
    calls = value_set(m, "tool_calls", value_array());
  }
  struct value *call = value_push(calls, value_object());
  value_set(call, "id", value_cstring(id));
  value_set(call, "type", value_cstring("function"));
  struct value *function = value_set(call, "function", value_object());
  value_set(function, "name", value_cstring(name));
  value_set(function, "arguments", value_cstring(arguments));
  return 0;
}

static int add_output(struct value *messages, const struct value *item, size_t i,
                      struct apierror *e) {
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

static int add_item(struct value *messages, const struct value *item, size_t i,
                    struct buf *thoughts, struct apierror *e) {
  const char *type = value_to_string(value_get(item, "type"));
  const char *role = value_to_string(value_get(item, "role"));
  if (item->kind != VALUE_OBJECT)
    return apierror_set(e, 400, "input", "input[%zu] should be an object", i);
  if (type && strcmp(type, "function_call") == 0)
    return add_call(messages, item, i, thoughts, e);
  if (type && strcmp(type, "function_call_output") == 0)
    return add_output(messages, item, i, e);
  if (type && strcmp(type, "reasoning") == 0) {
    take_reasoning(item, thoughts);
    return 0;
  }
  if (type && strcmp(type, "message") != 0)
    return apierror_set(e, 400, "input",
                        "input[%zu]: items of type %.40s are not supported by this simulated "
                        "replica",
                        i, type);
  if (!role)
    return apierror_set(e, 400, "input", "input[%zu].role: a string is required", i);
  struct value *m = add_message(messages, role);
  value_set(m, "content", content_of(value_get(item, "content")));
  if (strcmp(role, "assistant") == 0)
    give_reasoning(m, thoughts);
  return 0;
}

static int add_items(struct value *messages, const struct value *items, struct apierror *e) {
  struct buf thoughts;
  int rc = 0;
  buf_init(&thoughts, BUF_MAX_OWN);
  for (size_t i = 0; !rc && i < value_count(items); i++)
    rc = add_item(messages, value_at(items, i), i, &thoughts, e);
  buf_free(&thoughts);
  return rc;
}

/* ---- the chain ---- */

static int add_previous(struct response_ask *ask, const struct response_store *store,
                        struct apierror *e) {
  const struct response_entry *x = ask->previous ? response_store_find(store, ask->previous) : NULL;
  struct value reply;
  struct err err;
  if (!ask->previous)
    return 0;
  if (!x)
    return responses_not_found(ask->previous, e);
  value_free(&ask->messages);
  ask->messages = value_copy(&x->messages);
  int rc = json_parse(x->reply, strlen(x->reply), &reply, &err);
  assert(rc == 0); /* it is our own */
  rc = add_items(&ask->messages, value_get(&reply, "output"), e);
  value_free(&reply);
  return rc;
}

static int read_input(struct response_ask *ask, const struct value *body, struct apierror *e) {
  const struct value *input = value_get(body, "input");
  if (reqfield_absent(input))
    return apierror_set(e, 400, "input", "input: field required");
  if (input->kind == VALUE_ARRAY)
    return add_items(&ask->messages, input, e);
  if (input->kind != VALUE_STRING)
    return apierror_set(e, 400, "input", "input should be a string or a list of items");
  struct value *m = add_message(&ask->messages, "user");
  value_set(m, "content", value_copy(input));
  return 0;
}

/* ---- the chat body ---- */

/* {type, name, parameters…} becomes {type, function: {name, parameters…}}. */
static int copy_tools(const struct value *body, struct value *chat, struct apierror *e) {
  static const char *const fields[] = {"name", "description", "parameters", "strict"};
  const struct value *tools = value_get(body, "tools"), *choice = value_get(body, "tool_choice");
  struct value *out = value_count(tools) ? value_set(chat, "tools", value_array()) : NULL;
  for (size_t i = 0; i < value_count(tools); i++) {
    const struct value *t = value_at(tools, i);
    const char *type = value_to_string(value_get(t, "type"));
    if (!type || strcmp(type, "function") != 0 || !value_to_string(value_get(t, "name")))
      return apierror_set(e, 400, "tools",
                          "tools[%zu]: this simulated replica takes tools of type function with a "
                          "name",
                          i);
    struct value *made = value_push(out, value_object());
    value_set(made, "type", value_cstring("function"));
    struct value *function = value_set(made, "function", value_object());
    for (size_t k = 0; k < ARRAY_LEN(fields); k++)
      if (!reqfield_absent(value_get(t, fields[k])))
        value_set(function, fields[k], value_copy(value_get(t, fields[k])));
  }
  if (reqfield_absent(choice))
    return 0;
  struct value *made = value_set(chat, "tool_choice", value_copy(choice));
  const char *name = value_to_string(value_get(choice, "name"));
  if (name) {
    struct value function = value_object();
    value_set(&function, "name", value_cstring(name));
    value_set(made, "function", function);
  }
  return 0;
}

static void make_chat(const struct response_ask *ask, const struct value *body,
                      struct value *chat) {
  static const char *const same[] = {"model",
                                     "stream",
                                     "temperature",
                                     "top_p",
                                     "top_k",
                                     "seed",
                                     "stop",
                                     "ignore_eos",
                                     "cache_salt",
                                     "priority",
                                     "request_id",
                                     "repetition_penalty",
                                     "logit_bias",
                                     "stream_interval",
                                     "min_tokens",
                                     "kv_transfer_params",
                                     "chat_template_kwargs"};
  const struct value *limit = value_get(body, "max_output_tokens");
  const struct value *effort = value_get(value_get(body, "reasoning"), "effort");
  const struct value *format = value_get(value_get(body, "text"), "format");
  const struct value *instructions = value_get(body, "instructions");
  *chat = value_object();
  for (size_t i = 0; i < ARRAY_LEN(same); i++)
    if (value_get(body, same[i]))
      value_set(chat, same[i], value_copy(value_get(body, same[i])));
  if (!reqfield_absent(limit))
    value_set(chat, "max_completion_tokens", value_copy(limit));
  if (!reqfield_absent(effort))
    value_set(chat, "reasoning_effort", value_copy(effort));
  if (!reqfield_absent(format))
    value_set(chat, "response_format", value_copy(format));
  struct value *messages = value_set(chat, "messages", value_array());
  if (!reqfield_absent(instructions)) {
    struct value *m = add_message(messages, "system");
    value_set(m, "content", value_copy(instructions));
  }
  for (size_t i = 0; i < value_count(&ask->messages); i++)
    value_push(messages, value_copy(value_at(&ask->messages, i)));
}

/* What the response object repeats of the request. */
static void make_echo(const struct value *body, struct buf *out) {
  static const struct {
    const char *name, *missing;
  } rows[] = {{"instructions", "null"},
              {"metadata", "{}"},
              {"parallel_tool_calls", "true"},
              {"temperature", "1.0"},
              {"top_p", "1.0"},
              {"tool_choice", "\"auto\""},
              {"tools", "[]"},
              {"max_output_tokens", "null"},
              {"max_tool_calls", "null"},
              {"reasoning", "null"},
              {"text", "null"},
              {"truncation", "\"disabled\""},
              {"user", "null"}};
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    const struct value *v = value_get(body, rows[i].name);
    buf_printf(out, ",\"%s\":", rows[i].name);
    if (reqfield_absent(v))
      buf_puts(out, rows[i].missing);
    else
      json_write(out, v);
  }
  buf_puts(out, ",\"background\":false,\"service_tier\":\"auto\",\"top_logprobs\":null");
}

static int check(const struct value *body, const struct genmodel *model, struct apierror *e) {
  const struct value *choice = value_get(body, "tool_choice");
  const char *word = value_to_string(choice);
  bool background = false;
  int rc = reqfield_bool(body, "background", &background, e);
  if (!rc && !reqfield_absent(value_get(body, "prompt")))
    rc = apierror_set(e, 400, "prompt", "prompt template is not supported");
  if (!rc && background)
    rc =
        apierror_set(e, 400, "background", "background is not supported by this simulated replica");
  if (!rc && !reqfield_absent(choice) && (!word || strcmp(word, "auto") != 0) && model->encoder &&
      harmony_knows(model->encoder))
    rc = apierror_set(e, 400, "tool_choice",
                      "Only 'auto' tool_choice is supported in response API with Harmony");
  return rc;
}

int responses_parse(const char *body, size_t len, const struct genmodel *model,
                    const struct response_store *store, struct genrequest *out,
                    struct response_ask *ask, struct apierror *e) {
  struct value v, chat = value_null();
  *out = (struct genrequest){.api = GEN_RESPONSES};
  *ask = (struct response_ask){.messages = value_array(), .store = true};
  buf_init(&ask->echo, BUF_MAX_OWN);
  int rc = reqfield_object(body, len, &v, e);
  if (rc)
    goto out;
  rc = check(&v, model, e);
  if (!rc)
    rc = reqfield_bool(&v, "store", &ask->store, e);
  if (!rc)
    rc = reqfield_string(&v, "previous_response_id", &ask->previous, e);
  if (!rc)
    rc = add_previous(ask, store, e);
  if (!rc)
    rc = read_input(ask, &v, e);
  if (!rc) {
    make_chat(ask, &v, &chat);
    rc = copy_tools(&v, &chat, e);
  }
  if (!rc)
    rc = genrequest_read(GEN_RESPONSES, &chat, model, out, e);
  ask->store = ask->store && !store->off;
  make_echo(&v, &ask->echo);
  value_free(&chat);
  value_free(&v);
out:
  if (rc)
    response_ask_free(ask);
  return rc;
}

void response_ask_free(struct response_ask *ask) {
  value_free(&ask->messages);
  mem_free(ask->previous);
  buf_free(&ask->echo);
  *ask = (struct response_ask){.messages = value_null()};
}
