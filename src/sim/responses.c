/* responses.c: see responses.h; items: respitems.c, tools: resptools.c. */
#include "sim/responses.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/logprobs.h"
#include "sim/respitems.h"
#include "text/harmony.h"
#include "text/json.h"

/* ---- the store ---- */

static void entry_free(struct response_entry *x) {
  mem_free(x->id);
  mem_free(x->reply);
  mem_free(x->ends);
  buf_free(&x->events);
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

struct response_entry *response_store_get(struct response_store *s, const char *id) {
  const struct response_entry *x = response_store_find(s, id);
  return x ? &s->entries[x - s->entries] : NULL;
}

void response_entry_say(struct response_entry *x, const char *reply) {
  mem_free(x->reply);
  x->reply = mem_strdup(reply);
}

struct response_entry *response_store_put(struct response_store *s, const char *id, uint64_t maker,
                                          struct value messages, size_t kept_items,
                                          const char *reply) {
  struct response_entry *x = response_store_get(s, id);
  bool known = x && x->maker == maker;
  if (x && !known)
    entry_free(x);
  if (!x) {
    MEM_GROW(s->entries, s->n, s->cap);
    assert(s->entries);
    x = &s->entries[s->n++];
  }
  if (!known) {
    *x = (struct response_entry){.id = mem_strdup(id), .maker = maker, .messages = value_null()};
    buf_init(&x->events, BUF_MAX_OWN);
  }
  value_free(&x->messages);
  x->messages = messages;
  x->kept_items = kept_items;
  response_entry_say(x, reply);
  return x;
}

int responses_not_found(const char *id, struct apierror *e) {
  apierror_set(e, 404, "response_id", "Response with id '%.200s' not found.", id);
  e->type = "invalid_request_error";
  return ERR_INVALID;
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
  rc = respitems_add(&ask->messages, value_get(&reply, "output"), x->kept_items, e);
  value_free(&reply);
  return rc;
}

static int read_input(struct response_ask *ask, const struct value *body, struct apierror *e) {
  const struct value *input = value_get(body, "input");
  if (reqfield_absent(input))
    return apierror_set(e, 400, "input", "input: field required");
  if (input->kind == VALUE_ARRAY)
    return respitems_add(&ask->messages, input, 0, e);
  if (input->kind != VALUE_STRING)
    return apierror_set(e, 400, "input", "input should be a string or a list of items");
  struct value *m = value_push(&ask->messages, value_object());
  value_set(m, "role", value_cstring("user"));
  value_set(m, "content", value_copy(input));
  return 0;
}

/* ---- the chat body ---- */

static void make_chat(const struct response_ask *ask, const struct value *body,
                      struct value *chat) {
  static const char *const same[] = {"model",
                                     "stream",
                                     "temperature",
                                     "top_p",
                                     "top_k",
                                     "include",
                                     "top_logprobs",
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
    struct value *m = value_push(messages, value_object());
    value_set(m, "role", value_cstring("system"));
    value_set(m, "content", value_copy(instructions));
  }
  for (size_t i = 0; i < value_count(&ask->messages); i++)
    value_push(messages, value_copy(value_at(&ask->messages, i)));
}

/* What the response object repeats of the request. */
static void make_echo(const struct value *body, bool background, struct buf *out) {
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
              {"top_logprobs", "null"},
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
  buf_printf(out, ",\"background\":%s,\"service_tier\":\"auto\"", background ? "true" : "false");
}

/* What serving_responses refuses by itself has this type. */
static int invalid(struct apierror *e, const char *param, const char *text) {
  apierror_set(e, 400, param, "%s", text);
  e->type = "invalid_request_error";
  return ERR_INVALID;
}

/* Reads `store` and `background`, which go together. */
static int read_store(const struct value *body, const struct response_store *store,
                      struct response_ask *ask, struct apierror *e) {
  int rc = reqfield_bool(body, "store", &ask->store, e);
  if (!rc)
    rc = reqfield_bool(body, "background", &ask->background, e);
  if (rc || !ask->background)
    return rc;
  if (!ask->store)
    return apierror_set(e, 400, "background", "background can only be used when `store` is true");
  return store->off
             ? invalid(e, "background",
                       "This vLLM engine does not support `store=True` and therefore does not "
                       "support the background mode. To enable these features, set the environment "
                       "variable `VLLM_ENABLE_RESPONSES_API_STORE=1` when launching the vLLM "
                       "server.")
             : 0;
}

static bool is_true(const struct value *v) {
  return v && v->kind == VALUE_BOOL && v->u.boolean;
}

static int check(const struct value *body, const struct genmodel *model, struct apierror *e) {
  const struct value *choice = value_get(body, "tool_choice");
  const char *word = value_to_string(choice);
  bool harmony = model->encoder && harmony_knows(model->encoder);
  if (!reqfield_absent(value_get(body, "prompt")))
    return apierror_set(e, 400, "prompt", "prompt template is not supported");
  if (value_count(value_get(body, "previous_input_messages")))
    return apierror_set(e, 400, "previous_input_messages",
                        "previous_input_messages is not supported by this simulated replica");
  if (harmony && is_true(value_get(body, "enable_response_messages")))
    return apierror_set(e, 400, "enable_response_messages",
                        "enable_response_messages is not supported by this simulated gpt-oss");
  if (harmony && logprobs_included(body))
    return invalid(e, "logprobs", "logprobs are not supported with gpt-oss models");
  if (harmony && !reqfield_absent(choice) && (!word || strcmp(word, "auto") != 0))
    return apierror_set(e, 400, "tool_choice",
                        "Only 'auto' tool_choice is supported in response API with Harmony");
  return 0;
}

/* The conversation as a chat request, and its first turn. */
static int read_chat(const struct value *body, const struct genmodel *model, struct genrequest *out,
                     struct response_ask *ask, struct apierror *e) {
  make_chat(ask, body, &ask->chat);
  int rc = resptools_copy(body, &ask->chat, &ask->tools, e);
  if (rc)
    return rc;
  responses_bound_calls(ask);
  rc = genrequest_read(GEN_RESPONSES, &ask->chat, model, out, e);
  if (rc && strcmp(e->param, "max_completion_tokens") == 0)
    snprintf(e->param, sizeof e->param, "max_output_tokens");
  if (!rc)
    responses_mark_call(ask, out);
  return rc;
}

int responses_parse(const char *body, size_t len, const struct genmodel *model,
                    const struct response_store *store, struct genrequest *out,
                    struct response_ask *ask, struct apierror *e) {
  struct value v;
  *out = (struct genrequest){.api = GEN_RESPONSES};
  *ask = (struct response_ask){
      .messages = value_array(), .chat = value_null(), .store = true, .max_calls = INT64_MAX};
  buf_init(&ask->echo, BUF_MAX_OWN);
  int rc = reqfield_object(body, len, &v, e);
  if (rc)
    goto out;
  rc = check(&v, model, e);
  if (!rc)
    rc = read_store(&v, store, ask, e);
  if (!rc)
    rc = reqfield_bool(&v, "enable_response_messages", &ask->raw, e);
  if (!rc)
    rc = reqfield_int(&v, "max_tool_calls", 0, &ask->max_calls, e);
  if (!rc)
    rc = reqfield_string(&v, "previous_response_id", &ask->previous, e);
  if (!rc)
    rc = add_previous(ask, store, e);
  if (!rc)
    rc = read_input(ask, &v, e);
  if (!rc)
    rc = read_chat(&v, model, out, ask, e);
  ask->store = ask->store && !store->off;
  make_echo(&v, ask->background, &ask->echo);
  value_free(&v);
out:
  if (rc)
    response_ask_free(ask);
  return rc;
}

void responses_bound_calls(struct response_ask *ask) {
  if (ask->tools.n && ask->calls >= ask->max_calls)
    value_set(&ask->chat, "tool_choice", value_cstring("none"));
}

void responses_mark_call(const struct response_ask *ask, struct genrequest *r) {
  struct genchoice *c = &r->choices[r->n_choices - 1];
  if (c->call_name)
    c->call = resptools_find(&ask->tools, c->call_name);
}

void response_ask_free(struct response_ask *ask) {
  value_free(&ask->messages);
  value_free(&ask->chat);
  resptools_free(&ask->tools);
  mem_free(ask->previous);
  buf_free(&ask->echo);
  *ask = (struct response_ask){.messages = value_null(), .chat = value_null()};
}
