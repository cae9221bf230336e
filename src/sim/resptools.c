/* resptools.c: see resptools.h. */
#include "sim/resptools.h"

#include <string.h>

#include "base/mem.h"
#include "text/json.h"

static const struct {
  const char *type, *name; /* name NULL: server_label */
  enum gen_call call;
  const char *description, *parameter;
} kinds[] = {
    {"web_search_preview", "web_search_preview", GEN_CALL_WEB, "Searches the web.", "query"},
    {"web_search", "web_search_preview", GEN_CALL_WEB, "Searches the web.", "query"},
    {"code_interpreter", "code_interpreter", GEN_CALL_CODE, "Runs Python.", "code"},
    {"mcp", NULL, GEN_CALL_MCP, "Asks a server for something.", "request"},
};

void resptools_free(struct resptools *own) {
  for (size_t i = 0; i < own->n; i++)
    mem_free(own->items[i].name);
  mem_free(own->items);
  *own = (struct resptools){0};
}

enum gen_call resptools_find(const struct resptools *own, const char *name) {
  for (size_t i = 0; i < own->n; i++)
    if (strcmp(own->items[i].name, name) == 0)
      return own->items[i].call;
  return GEN_CALL_FUNCTION;
}

char *resptools_text(const struct genchoice *c) {
  struct value v;
  struct err err;
  const char *text_of = c->text + c->thought; /* behind what it thought */
  if (strcmp(c->finish, "tool_calls") != 0 || json_parse(text_of, strlen(text_of), &v, &err))
    return NULL;
  const char *text = v.kind == VALUE_OBJECT && value_count(&v)
                         ? value_to_string(&v.u.object.pairs[0].value)
                         : NULL;
  char *copy = text ? mem_strdup(text) : NULL;
  value_free(&v);
  return copy;
}

static struct value *add_function(struct value *out) {
  struct value *made = value_push(out, value_object());
  value_set(made, "type", value_cstring("function"));
  return value_set(made, "function", value_object());
}

/* {type, name, parameters…} becomes {type, function: {name, parameters…}}. */
static void copy_function(const struct value *tool, struct value *out) {
  static const char *const fields[] = {"name", "description", "parameters", "strict"};
  struct value *function = add_function(out);
  for (size_t k = 0; k < ARRAY_LEN(fields); k++)
    if (!reqfield_absent(value_get(tool, fields[k])))
      value_set(function, fields[k], value_copy(value_get(tool, fields[k])));
}

static void add_own(size_t kind, const char *name, struct value *out, struct resptools *own) {
  struct value *function = add_function(out);
  value_set(function, "name", value_cstring(name));
  value_set(function, "description", value_cstring(kinds[kind].description));
  struct value *parameters = value_set(function, "parameters", value_object());
  value_set(parameters, "type", value_cstring("object"));
  struct value *properties = value_set(parameters, "properties", value_object());
  struct value *one = value_set(properties, kinds[kind].parameter, value_object());
  value_set(one, "type", value_cstring("string"));
  MEM_GROW(own->items, own->n, own->cap);
  own->items[own->n++] = (struct resptool){mem_strdup(name), kinds[kind].call};
}

static bool is_taken(const struct value *out, const char *name) {
  for (size_t i = 0; i < value_count(out); i++) {
    const char *other = value_to_string(value_get(value_get(value_at(out, i), "function"), "name"));
    if (other && strcmp(other, name) == 0)
      return true;
  }
  return false;
}

static int copy_tool(const struct value *tool, size_t i, struct value *out, struct resptools *own,
                     struct apierror *e) {
  const char *type = value_to_string(value_get(tool, "type"));
  const char *name = value_to_string(value_get(tool, "name"));
  if (type && strcmp(type, "function") == 0 && name) {
    copy_function(tool, out);
    return 0;
  }
  for (size_t k = 0; type && k < ARRAY_LEN(kinds); k++) {
    if (strcmp(type, kinds[k].type) != 0)
      continue;
    name = kinds[k].name ? kinds[k].name : value_to_string(value_get(tool, "server_label"));
    if (!name || !*name)
      return apierror_set(e, 400, "tools", "tools[%zu]: an mcp tool needs a server_label", i);
    if (is_taken(out, name))
      return apierror_set(e, 400, "tools", "tools[%zu]: there are two tools %.60s", i, name);
    add_own(k, name, out, own);
    return 0;
  }
  return apierror_set(
      e, 400, "tools",
      "tools[%zu]: this simulated replica takes tools of type function with a name, "
      "web_search_preview, code_interpreter and mcp",
      i);
}

int resptools_copy(const struct value *body, struct value *chat, struct resptools *own,
                   struct apierror *e) {
  const struct value *tools = value_get(body, "tools"), *choice = value_get(body, "tool_choice");
  struct value *out = value_count(tools) ? value_set(chat, "tools", value_array()) : NULL;
  for (size_t i = 0; i < value_count(tools); i++)
    if (copy_tool(value_at(tools, i), i, out, own, e))
      return ERR_INVALID;
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
