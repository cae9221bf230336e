/* gencall.c: see gencall.h. */
#include "sim/gencall.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/babble.h"
#include "sim/genprompt.h"
#include "text/json.h"

enum { MAX_DEPTH = 6 };

/* ---- which function ---- */

static const struct value *function_of(const struct value *tool) {
  return value_get(tool, "function");
}

static const char *name_of(const struct value *tool) {
  return value_to_string(value_get(function_of(tool), "name"));
}

/* Results since the user's last message. */
static uint32_t rounds_so_far(const struct value *body) {
  const struct value *messages = value_get(body, "messages");
  uint32_t n = 0;
  for (size_t i = value_count(messages); i-- > 0;) {
    const char *role = value_to_string(value_get(value_at(messages, i), "role"));
    if (role && strcmp(role, "user") == 0)
      break;
    n += role && strcmp(role, "tool") == 0;
  }
  return n;
}

/* The tool that `tool_choice` asks for: "required" is the first. */
static int find_forced(const struct value *choice, const struct value *tools,
                       struct gencall_ask *out, struct apierror *e) {
  const char *word = value_to_string(choice), *name = name_of(choice);
  if (!value_count(tools))
    return apierror_set(e, 400, "tool_choice", "When using `tool_choice`, `tools` must be set.");
  for (size_t i = 0; i < value_count(tools); i++) {
    const char *own = name_of(value_at(tools, i));
    if (own && (word || (name && strcmp(own, name) == 0))) {
      out->tool = value_at(tools, i);
      return 0;
    }
  }
  return apierror_set(e, 400, "tool_choice",
                      "The tool specified in `tool_choice` does not match any of the specified "
                      "`tools`");
}

int gencall_read(const struct value *body, const struct genmodel *model, struct gencall_ask *out,
                 struct apierror *e) {
  const struct value *choice = value_get(body, "tool_choice"), *tools = value_get(body, "tools");
  const struct value *ignore_eos = value_get(body, "ignore_eos");
  *out = (struct gencall_ask){0};
  bool absent = reqfield_absent(choice);
  if (!absent && choice->kind != VALUE_STRING && choice->kind != VALUE_OBJECT)
    return apierror_set(e, 400, "tool_choice", "tool_choice should be a string or an object");
  const char *word = absent ? "auto" : value_to_string(choice);
  if (!word || strcmp(word, "required") == 0)
    return find_forced(choice, tools, out, e);
  bool fixed = ignore_eos && ignore_eos->kind == VALUE_BOOL && ignore_eos->u.boolean;
  if (strcmp(word, "auto") == 0 && !fixed && rounds_so_far(body) < model->tools.rounds)
    out->tools = tools;
  return 0;
}

const struct value *gencall_tool(const struct gencall_ask *ask, const struct genmodel *model,
                                 uint64_t key) {
  uint64_t draw = babble_mix(key ^ UINT64_C(0x746f6f6c));
  size_t n = value_count(ask->tools);
  if (ask->tool || !n || (double)(draw >> 11) * 0x1p-53 >= model->tools.call_p)
    return ask->tool;
  const struct value *tool = value_at(ask->tools, (size_t)(babble_mix(draw) % n));
  return name_of(tool) ? tool : NULL;
}

/* ---- its arguments ---- */

static void put_value(const struct value *schema, uint64_t key, int depth, struct buf *out);

static void put_object(const struct value *schema, uint64_t key, int depth, struct buf *out) {
  const struct value *properties = value_get(schema, "properties");
  size_t n = properties && properties->kind == VALUE_OBJECT ? value_count(properties) : 0;
  buf_putc(out, '{');
  for (size_t i = 0; i < n; i++) {
    const struct value_pair *m = &properties->u.object.pairs[i];
    buf_puts(out, i ? ", " : "");
    json_write_string(out, m->key, m->key_len);
    buf_puts(out, ": ");
    put_value(&m->value, babble_mix(key + i), depth + 1, out);
  }
  buf_putc(out, '}');
}

static void put_words(uint64_t key, struct buf *out) {
  buf_putc(out, '"');
  for (uint64_t i = 0; i < 1 + key % 3; i++) {
    buf_puts(out, i ? " " : "");
    buf_puts(out, babble_word(babble_mix(key + i) % BABBLE_WORDS));
  }
  buf_putc(out, '"');
}

static void put_value(const struct value *schema, uint64_t key, int depth, struct buf *out) {
  const struct value *choices = value_get(schema, "enum"), *type = value_get(schema, "type");
  const char *word = value_to_string(type && type->kind == VALUE_ARRAY ? value_at(type, 0) : type);
  if (value_count(choices))
    json_write(out, value_at(choices, key % value_count(choices)));
  else if (!word || strcmp(word, "string") == 0 || depth > MAX_DEPTH)
    put_words(key, out);
  else if (strcmp(word, "integer") == 0)
    buf_printf(out, "%u", (unsigned)(key % 100));
  else if (strcmp(word, "number") == 0)
    buf_printf(out, "%u.5", (unsigned)(key % 100));
  else if (strcmp(word, "boolean") == 0)
    buf_puts(out, key & 1 ? "true" : "false");
  else if (strcmp(word, "null") == 0)
    buf_puts(out, "null");
  else if (strcmp(word, "array") == 0) {
    buf_putc(out, '[');
    put_value(value_get(schema, "items"), key, depth + 1, out);
    buf_putc(out, ']');
  } else
    put_object(schema, key, depth, out);
}

void gencall_arguments(const struct value *schema, uint64_t key, struct buf *out) {
  put_object(schema, key, 0, out);
}

/* ---- what is sampled ---- */

/* The conversation with the call as its last message, in ids. */
static int render(const struct genchoice *c, const struct value *body, const struct genmodel *model,
                  struct tokens_list *out, struct apierror *e) {
  struct value copy = value_copy(body), message = value_object();
  value_set(&message, "role", value_cstring("assistant"));
  struct value *calls = value_set(&message, "tool_calls", value_array());
  struct value *call = value_push(calls, value_object());
  value_set(call, "id", value_cstring(c->call_id));
  value_set(call, "type", value_cstring("function"));
  struct value *function = value_set(call, "function", value_object());
  value_set(function, "name", value_cstring(c->call_name));
  value_set(function, "arguments", value_cstring(c->text));
  value_set(&copy, "add_generation_prompt", value_bool(false));
  value_set(&copy, "continue_final_message", value_bool(false));
  value_push(value_get(&copy, "messages"), message);
  int rc = genprompt_chat(model, &copy, out, e);
  value_free(&copy);
  return rc;
}

/* How many of the ids are said: up to the model's end, without what the template puts behind it. */
static uint32_t said_of(const uint32_t *ids, uint32_t n, const struct genmodel *model) {
  static const char tail[] = "<|end|>\n";
  uint32_t len = sizeof tail - 1;
  if (!model->speech)
    return n > len ? n - len : n;
  for (uint32_t i = 0; model->speech->has_eos && i < n; i++)
    if (ids[i] == model->speech->eos)
      return i + 1;
  return n;
}

/* What of the arguments is out after each id: they stand in the said text as they are, or with
 * their quotes escaped; elsewhere all of them come with the last id. */
static void place(struct genchoice *c, const struct genmodel *model) {
  struct buf all, quoted;
  struct err err;
  uint32_t len = (uint32_t)strlen(c->text);
  buf_init(&all, BUF_MAX_OWN);
  buf_init(&quoted, BUF_MAX_OWN);
  uint32_t *ends = mem_calloc(c->output_len, sizeof *ends);
  for (uint32_t i = 0; i < c->output_len; i++) {
    if (tokens_decode(model->tokenizer, c->output + i, 1, &all, &err))
      break;
    ends[i] = (uint32_t)all.len;
  }
  buf_puts(&all, "");
  json_write_string(&quoted, c->text, len);
  const char *plain = memmem(all.data, all.len, c->text, len);
  const char *escaped = plain ? NULL : memmem(all.data, all.len, quoted.data + 1, quoted.len - 2);
  size_t at = plain ? (size_t)(plain - all.data) : escaped ? (size_t)(escaped - all.data) : all.len;
  for (uint32_t i = 0, from = (uint32_t)at, n = 0; i < c->output_len; i++) {
    while (from < ends[i] && n < len && (plain || escaped)) {
      from += escaped && all.data[from] == '\\' && from + 1 < ends[i] ? 2 : 1;
      n++;
    }
    c->shown[i] = i + 1 == c->output_len && !plain && !escaped ? len : n;
  }
  mem_free(ends);
  buf_free(&all);
  buf_free(&quoted);
}

int gencall_settle(struct genchoice *c, const struct value *body, const struct value *tool,
                   uint64_t key, const struct genmodel *model, struct apierror *e) {
  struct tokens_list whole = {0}, plain = {0};
  struct buf arguments;
  struct err err;
  char id[32];
  buf_init(&arguments, BUF_MAX_OWN);
  gencall_arguments(value_get(function_of(tool), "parameters"), key, &arguments);
  snprintf(id, sizeof id, "call_%016llx", (unsigned long long)babble_mix(key));
  c->call_id = mem_strdup(id);
  c->call_name = mem_strdup(name_of(tool));
  c->text = mem_strndup(arguments.data, arguments.len);
  const uint32_t *said = NULL;
  uint32_t n = 0;
  int rc = render(c, body, model, &whole, e);
  if (!rc && whole.n > c->prompt_len &&
      memcmp(whole.ids, c->tokens, c->prompt_len * sizeof *c->tokens) == 0) {
    said = whole.ids + c->prompt_len;
    n = said_of(said, (uint32_t)whole.n - c->prompt_len, model);
  } else if (!genmodel_encode(model, c->text, arguments.len, NULL, &plain, &err)) {
    said = plain.ids;
    n = (uint32_t)plain.n;
    rc = 0;
  } else {
    rc = apierror_set(e, 400, "tools", "%s", err.text);
  }
  if (!rc) {
    assert(said && n); /* the arguments are two bytes at least */
    c->output = mem_calloc(n, sizeof *c->output);
    c->shown = mem_calloc(n, sizeof *c->shown);
    memcpy(c->output, said, n * sizeof *c->output);
    c->output_len = n;
    place(c, model);
    c->finish = "tool_calls";
    if (n > c->max_tokens) {
      c->output_len = c->max_tokens;
      c->finish = "length";
    }
    c->visible = c->shown[c->output_len - 1];
    c->tokens = mem_resize(c->tokens, (size_t)c->prompt_len + c->output_len, sizeof *c->tokens);
  }
  tokens_list_free(&whole);
  tokens_list_free(&plain);
  buf_free(&arguments);
  return rc;
}
