/* luatemplate.c: module perigee.template.core: chat templates for lua/perigee/template.lua.
 *
 * Files are read in Lua, where the sandbox watches; here a template is made of texts and rendered.
 * What is rendered is read straight from JSON or from tables by the canonical reader, so key order
 * and whole numbers are what the author wrote. */
#include <string.h>

#include "bind/bind.h"
#include "bind/core.h"
#include "bind/hold.h"
#include "bind/luatemplate.h"
#include "bind/text.h"
#include "run/state.h"
#include "text/chattemplate.h"
#include "text/json.h"
#include "text/template.h"
#include "text/tokenizer.h"

#define TEMPLATE "perigee.template.core"

/* A model has one template, or a second one for conversations with tools. */
struct held_template {
  struct template *plain, *tools; /* tools is NULL when there is no second one */
  struct value special;           /* what the model's configuration says of its tokens */
  const char *unset; /* a special token that the source names and nothing says; NULL: none */
};

static int template_gc(lua_State *L) {
  struct held_template *h = luaL_checkudata(L, 1, TEMPLATE);
  template_delete(h->plain);
  template_delete(h->tools);
  value_free(&h->special);
  h->plain = h->tools = NULL;
  return 0;
}

static int push_failure(lua_State *L, const struct err *err) {
  lua_pushnil(L);
  lua_pushstring(L, err->text);
  return 2;
}

/* ---- making one ---- */

/* The configuration's tokens ("bos_token": "<s>" or {"content": "<s>", …}). */
static void read_special(const struct value *config, struct value *out) {
  static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                      "sep_token", "cls_token", "mask_token"};
  *out = value_object();
  for (size_t i = 0; i < ARRAY_LEN(names); i++) {
    const struct value *v = value_get(config, names[i]);
    if (v && v->kind == VALUE_OBJECT)
      v = value_get(v, "content");
    if (v && v->kind == VALUE_STRING)
      value_set(out, names[i], value_copy(v));
  }
}

static int load_one(const char *source, size_t len, const char *name, struct template **out,
                    struct err *err) {
  return source ? template_load(source, len, name, out, err) : 0;
}

/* Fills h from the texts there are; the configuration's templates stand in for absent ones. */
static int fill(struct held_template *h, const char *name, const char *source, size_t len,
                const char *tools, size_t tools_len, const struct value *config, struct err *err) {
  if (config && !source) {
    const struct value *plain = template_of_config(config, false, err);
    if (!plain)
      return err_prefix(err, "%s", name);
    const struct value *second = template_of_config(config, true, err);
    source = plain->u.string.data;
    len = plain->u.string.len;
    if (!tools && second != plain) {
      tools = second->u.string.data;
      tools_len = second->u.string.len;
    }
  }
  if (config)
    read_special(config, &h->special);
  else if (source)
    h->unset = chattemplate_names_special(source, len);
  int rc = load_one(source, len, name, &h->plain, err);
  return rc < 0 ? rc : load_one(tools, tools_len, name, &h->tools, err);
}

static const luaL_Reg template_methods[];

/* new(name, source?, tools_source?, config_json?) -> template; nil, message */
static int core_new(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", template_gc}, {"__close", template_gc}, {NULL, NULL}};
  size_t len = 0, tools_len = 0, config_len = 0;
  const char *name = luaL_checkstring(L, 1), *source = luaL_optlstring(L, 2, NULL, &len);
  const char *tools = luaL_optlstring(L, 3, NULL, &tools_len);
  const char *json = luaL_optlstring(L, 4, NULL, &config_len);
  struct err err;
  lua_settop(L, 4);
  struct value *config = json ? bind_hold_value(L) : NULL;
  bind_new_type(L, TEMPLATE, meta, template_methods);
  struct held_template *h = bind_new_userdata(L, sizeof *h, TEMPLATE);
  h->special = value_null();
  if (json && json_parse(json, config_len, config, &err) < 0) {
    err_prefix(&err, "%s", name);
    return push_failure(L, &err);
  }
  if (fill(h, name, source, len, tools, tools_len, config, &err) < 0)
    return push_failure(L, &err);
  return 1;
}

/* tpl:take_special(path, tokenizer or nil) -> true: special tokens as a server finds them for a
 * template and tokenizer of these names (text/chattemplate.h); nil, message */
static int core_take_special(lua_State *L) {
  struct held_template *h = luaL_checkudata(L, 1, TEMPLATE);
  const char *path = luaL_checkstring(L, 2), *tokenizer = luaL_optstring(L, 3, NULL);
  struct chattemplate *t;
  struct err err;
  if (chattemplate_load(path, tokenizer, &t, &err))
    return push_failure(L, &err);
  value_free(&h->special);
  h->special = value_copy(chattemplate_specials(t));
  h->unset = NULL;
  chattemplate_delete(t);
  lua_pushboolean(L, true);
  return 1;
}

/* tpl:unset() -> "bos_token" …: one that the source names and nothing says; nil */
static int core_unset(lua_State *L) {
  const struct held_template *h = luaL_checkudata(L, 1, TEMPLATE);
  lua_pushstring(L, h->unset);
  return 1;
}

/* ---- rendering ---- */

static const char *time_over(void *user) {
  return state_time_is_over(user) ? "it runs longer than a script may (--runaway)" : NULL;
}

void bind_template_watch(lua_State *L, struct template_options *opts) {
  struct state *s = state_of(L);
  opts->stop = s ? time_over : NULL;
  opts->stop_user = s;
}

static int read_now(const char *now, size_t len, struct template_options *opts, struct err *err) {
  if (!now)
    return 0;
  opts->has_now = true;
  return pytime_parse(now, len, &opts->now, err);
}

static const struct template *template_for(const struct held_template *h,
                                           struct template_chat *chat) {
  if (!chat->special && h->special.kind == VALUE_OBJECT)
    chat->special = &h->special;
  return chat->tools && h->tools ? h->tools : h->plain;
}

static int render_chat(const struct held_template *h, struct template_chat *chat,
                       const struct template_options *opts, struct buf *out, struct err *err) {
  const struct template *tpl = template_for(h, chat);
  return template_render_chat(tpl, chat, opts, out, err);
}

int bind_template_render(const struct held_template *h, struct template_memo **memo,
                         struct template_chat *chat, struct template_grown *grown,
                         const struct template_options *opts, struct buf *tail, size_t *common,
                         struct err *err) {
  const struct template *tpl = template_for(h, chat);
  grown->chat = chat;
  return template_render_grown(tpl, memo, grown, opts, tail, common, err);
}

const struct held_template *bind_test_template(lua_State *L, int index) {
  const struct held_template *h = luaL_testudata(L, index, TEMPLATE);
  return h && h->plain ? h : NULL;
}

static int render_row(const struct held_template *h, const struct value *row,
                      struct template_options *opts, struct buf *out, struct err *err) {
  const struct value *context = value_get(row, "context"), *now = value_get(row, "now");
  if (now && now->kind == VALUE_STRING) {
    int rc = read_now(now->u.string.data, now->u.string.len, opts, err);
    if (rc < 0)
      return rc;
  }
  if (context) {
    if (context->kind != VALUE_OBJECT)
      return err_set(err, ERR_INVALID, "context must be an object of template variables");
    return template_render(h->plain, context, opts, out, err);
  }
  struct template_chat chat = {0};
  const struct value *kwargs = NULL;
  int rc = chattemplate_kwargs(row, &kwargs, err);
  if (rc)
    return rc;
  rc = template_chat_read(row, &chat, err);
  if (rc)
    return rc;
  chat.kwargs = kwargs;
  if (!value_get(row, "add_generation_prompt"))
    chat.add_generation_prompt = !chat.continue_final_message;
  return render_chat(h, &chat, opts, out, err);
}

/* Renders *row, or what a server makes of it, and pushes the text; or nil, message. */
static int push_rendered(lua_State *L, const struct held_template *h, struct value *row,
                         bool served, struct template_options *opts) {
  struct err err;
  struct value *prepared = bind_hold_value(L);
  struct buf *out = bind_hold_buf(L);
  bind_template_watch(L, opts);
  int rc = served ? chattemplate_served(row, prepared, &err) : 0;
  if (!rc)
    rc = render_row(h, served ? prepared : row, opts, out, &err);
  if (rc == ERR_LIMIT)
    state_check_time(L);
  if (rc < 0)
    return push_failure(L, &err);
  lua_pushlstring(L, out->len ? out->data : "", out->len);
  return 1;
}

/* tpl:render_json(text, now?, served?) -> text; nil, message */
static int core_render_json(lua_State *L) {
  const struct held_template *h = luaL_checkudata(L, 1, TEMPLATE);
  size_t now_len = 0;
  const char *now = luaL_optlstring(L, 3, NULL, &now_len);
  bool served = lua_toboolean(L, 4);
  lua_settop(L, 3);
  const struct blob *json =
      bind_text_blob(L, bind_check_text_node(L, 2, "template.render_json: the text"));
  struct template_options opts = {0};
  struct err err;
  struct value *row = bind_hold_value(L);
  if (read_now(now, now_len, &opts, &err) < 0 || json_parse(json->data, json->len, row, &err) < 0)
    return push_failure(L, &err);
  return push_rendered(L, h, row, served, &opts);
}

/* tpl:render(row_table, now?, served?) -> text; nil, message: the fields of render_json as a table
 */
static int core_render(lua_State *L) {
  const struct held_template *h = luaL_checkudata(L, 1, TEMPLATE);
  size_t now_len = 0;
  const char *now = luaL_optlstring(L, 3, NULL, &now_len);
  struct template_options opts = {0};
  struct err err;
  bool served = lua_toboolean(L, 4);
  lua_settop(L, 3);
  struct value *row = bind_hold_value(L);
  bind_to_value(L, 2, row);
  if (read_now(now, now_len, &opts, &err) < 0)
    return push_failure(L, &err);
  return push_rendered(L, h, row, served, &opts);
}

static const luaL_Reg template_methods[] = {{"render", core_render},
                                            {"render_json", core_render_json},
                                            {"take_special", core_take_special},
                                            {"unset", core_unset},
                                            {NULL, NULL}};

/* find(name) -> the folder of the template that came with the tokenizer of that name; nil */
static int core_find(lua_State *L) {
  static const char *const files[] = {"chat_template.jinja", "tokenizer_config.json"};
  const char *name = luaL_checkstring(L, 1);
  struct buf *path = bind_scratch_buf(L);
  for (size_t i = 0; i < ARRAY_LEN(files); i++) {
    buf_reset(path);
    if (tokenfile_find(name, files[i], path)) {
      lua_pushlstring(L, path->data, path->len - strlen(files[i]) - 1);
      return 1;
    }
  }
  return 0;
}

static const luaL_Reg functions[] = {{"find", core_find}, {"new", core_new}, {NULL, NULL}};

int luaopen_perigee_template_core(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
