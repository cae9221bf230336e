/* luaharmony.c: module perigee.harmony: gpt-oss prompts in the Harmony format, natively.
 *
 * A renderer is a userdata with the same `render` as templates; render_json takes a conversation in
 * Harmony's own JSON form. Ids need the o200k_harmony tokenizer: the rank file that `make deps`
 * puts into the cache, unless another is given. */
#include <string.h>

#include "bind/bind.h"
#include "bind/core.h"
#include "bind/gen.h"
#include "bind/hold.h"
#include "bind/luaharmony.h"
#include "bind/luatokenizer.h"
#include "bind/text.h"
#include "run/state.h"
#include "text/harmony.h"
#include "text/json.h"

#define RENDERER "perigee.harmony_renderer"
#define PROMPT "perigee.hold.harmony"
#define TOKENS "perigee.hold.harmony_tokens"
#define MEMO "perigee.hold.harmony_memo"
#define FAMILY "o200k_harmony"
#define MEMO_BYTES ((size_t)8 << 20) /* of a Lua state and tokenizer */

/* ---- what is held ---- */

struct held_prompt {
  struct harmony_prompt prompt;
  struct tokens_list ids;
};

static int prompt_gc(lua_State *L) {
  struct held_prompt *h = luaL_checkudata(L, 1, PROMPT);
  harmony_free(&h->prompt);
  tokens_list_free(&h->ids);
  return 0;
}

static MAY_RAISE struct held_prompt *hold_prompt(lua_State *L) {
  static const luaL_Reg meta[] = {{"__close", prompt_gc}, {"__gc", prompt_gc}, {NULL, NULL}};
  bind_new_type(L, PROMPT, meta, NULL);
  struct held_prompt *h = bind_new_userdata(L, sizeof *h, PROMPT);
  harmony_init(&h->prompt);
  return h;
}

struct held_tokens {
  const struct tokens *tokens;
  struct tokens_encoder *encoder; /* NULL: not loaded */
};

static int tokens_gc(lua_State *L) {
  struct held_tokens *h = luaL_checkudata(L, 1, TOKENS);
  tokens_encoder_delete(h->encoder);
  tokens_close(h->tokens);
  *h = (struct held_tokens){NULL, NULL};
  return 0;
}

static MAY_RAISE struct held_tokens *hold_tokens(lua_State *L) {
  static const luaL_Reg meta[] = {{"__close", tokens_gc}, {"__gc", tokens_gc}, {NULL, NULL}};
  bind_new_type(L, TOKENS, meta, NULL);
  return bind_new_userdata(L, sizeof(struct held_tokens), TOKENS);
}

/* ---- the tokenizer ---- */

/* A name is looked for where `make deps` puts tokenizers; a rank file needs its family. */
static int load_tokens(lua_State *L, const char *path, const struct tokens **out, struct err *err) {
  size_t len = path ? strlen(path) : 0;
  bool ranks = len > 9 && strcmp(path + len - 9, ".tiktoken") == 0;
  struct tokens_load_options options = {.family = ranks ? FAMILY : NULL,
                                        .shared = bind_shared_tokens(L)};
  return tokens_load(path ? path : FAMILY, &options, out, err);
}

static const char default_tokens_key; /* its address is a registry key: path -> held tokens */

/* The encoder of that file, made once per state; of none the run's where that is gpt-oss's, else
 * the default. NULL leaves *err. */
static MAY_RAISE struct tokens_encoder *encoder_of(lua_State *L, const char *path,
                                                   struct err *err) {
  struct tokens_encoder *run = bind_gen_tokens(L).encoder;
  if (!path && run && harmony_knows(run))
    return run;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &default_tokens_key) == LUA_TNIL) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &default_tokens_key);
    lua_replace(L, -2);
  }
  if (lua_getfield(L, -1, path ? path : "") == LUA_TNIL) {
    lua_pop(L, 1);
    struct held_tokens *h = hold_tokens(L);
    if (load_tokens(L, path, &h->tokens, err)) {
      h->tokens = NULL;
      lua_pop(L, 2);
      return NULL;
    }
    h->encoder = tokens_encoder_new(h->tokens);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, path ? path : "");
  }
  struct tokens_encoder *encoder = ((struct held_tokens *)lua_touserdata(L, -1))->encoder;
  lua_pop(L, 2); /* the registry keeps it */
  return encoder;
}

/* ---- results ---- */

static int push_failure(lua_State *L, const struct err *err) {
  lua_pushnil(L);
  lua_pushstring(L, err->text);
  return 2;
}

static void push_text(lua_State *L, const struct harmony_prompt *p) {
  lua_pushlstring(L, p->text.len ? p->text.data : "", p->text.len);
}

/* Appends what tok:encode(segment, {special =}) gives to the list on top; false leaves nil and the
 * message there. `at` is the tokenizer: an object with that method. */
static MAY_RAISE bool encode_by(lua_State *L, int at, const struct harmony_prompt *p,
                                const struct harmony_segment *s) {
  lua_getfield(L, at, "encode");
  lua_pushvalue(L, at);
  lua_pushlstring(L, p->text.data + s->start, s->len);
  lua_createtable(L, 0, 1);
  lua_pushboolean(L, s->special);
  lua_setfield(L, -2, "special");
  lua_call(L, 3, 2);
  if (!lua_istable(L, -2))
    return false;
  lua_pop(L, 1);
  lua_Integer n = luaL_len(L, -1), have = luaL_len(L, -2);
  if (s->special && n != 1)
    bind_raise(L, "harmony: the tokenizer has no token %.*s: Harmony needs o200k_harmony",
               (int)s->len, p->text.data + s->start);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -3, have + i);
  }
  lua_pop(L, 1);
  return true;
}

/* ids, text; nil, message. The tokenizer is at `at`: nil, a name or path, or an object. `for_run`:
 * the run's server must read the same. */
static MAY_RAISE int push_ids(lua_State *L, struct held_prompt *h, int at, bool for_run) {
  struct err err;
  const struct tokens_encoder *object = bind_test_tokenizer(L, at);
  if (for_run && object && bind_run_reads(L, object->tokens, &err))
    return push_failure(L, &err);
  if (!lua_isnil(L, at) && lua_type(L, at) != LUA_TSTRING) {
    lua_newtable(L);
    for (size_t i = 0; i < h->prompt.n; i++)
      if (!encode_by(L, at, &h->prompt, &h->prompt.segments[i]))
        return 2;
    push_text(L, &h->prompt);
    return 2;
  }
  struct tokens_encoder *encoder = encoder_of(L, lua_tostring(L, at), &err);
  if (!encoder || (for_run && bind_run_reads(L, encoder->tokens, &err)) ||
      harmony_encode(&h->prompt, encoder, &h->ids, &err))
    return push_failure(L, &err);
  lua_createtable(L, h->ids.n < INT32_MAX ? (int)h->ids.n : 0, 0);
  for (size_t i = 0; i < h->ids.n; i++) {
    lua_pushinteger(L, h->ids.ids[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  push_text(L, &h->prompt);
  return 2;
}

/* ---- render_json ---- */

static int row_options(const struct value *row, struct harmony_options *o, struct err *err) {
  static const char *const modes[] = {"completion", "conversation", "training"};
  const struct value *mode = value_get(row, "mode"), *drop = value_get(row, "auto_drop_analysis");
  *o = HARMONY_DEFAULTS;
  if (drop && drop->kind != VALUE_NULL) {
    if (drop->kind != VALUE_BOOL)
      return err_set(err, ERR_INVALID, "auto_drop_analysis must be true or false");
    o->auto_drop_analysis = drop->u.boolean;
  }
  if (!mode || mode->kind == VALUE_NULL)
    return 0;
  for (size_t i = 0; mode->kind == VALUE_STRING && i < ARRAY_LEN(modes); i++)
    if (strcmp(mode->u.string.data, modes[i]) == 0) {
      o->mode = (enum harmony_mode)i;
      return 0;
    }
  return err_set(err, ERR_INVALID, "mode is one of completion, conversation, training");
}

/* Pushes the option `tokenizer` of the table at `index`: nil, a string, or an object that encodes;
 * returns its place. */
static MAY_RAISE int tokenizer_option(lua_State *L, int index, const char *where) {
  if (lua_isnoneornil(L, index)) {
    lua_pushnil(L);
    return lua_gettop(L);
  }
  int type = lua_getfield(L, index, "tokenizer"), at = lua_gettop(L);
  bool encodes = type == LUA_TUSERDATA || type == LUA_TTABLE;
  if (encodes) {
    encodes = lua_getfield(L, at, "encode") == LUA_TFUNCTION;
    lua_pop(L, 1);
  }
  if (!encodes && type != LUA_TNIL && type != LUA_TSTRING)
    bind_raise(L,
               "%s: tokenizer is a name, the path of a rank file or a tokenizer.json, or what "
               "perigee.tokenizer loads, got %s",
               where, luaL_typename(L, at));
  return at;
}

/* render_json(text, {tokenizer =}) -> ids, text; nil, message */
static int harmony_render_json(lua_State *L) {
  static const char *const known[] = {"tokenizer"};
  static const char where[] = "harmony.render_json";
  lua_settop(L, 2);
  if (!lua_isnil(L, 2))
    bind_check_options(L, 2, where, known, ARRAY_LEN(known));
  int tokenizer = tokenizer_option(L, 2, where);
  const struct blob *text =
      bind_text_blob(L, bind_check_text_node(L, 1, "harmony.render_json: the text"));
  struct value *row = bind_hold_value(L);
  struct held_prompt *h = hold_prompt(L);
  struct harmony_options options;
  struct err err;
  if (json_parse(text->data, text->len, row, &err) || row_options(row, &options, &err) ||
      harmony_render(&h->prompt, value_get(row, "messages"), &options, &err))
    return push_failure(L, &err);
  return push_ids(L, h, tokenizer, false);
}

/* ---- renderers: their options are the first user value ---- */

static const char *const renderer_options[] = {"call_content_type", "date", "model_identity",
                                               "reasoning_effort", "tokenizer"};
static const char *const render_options[] = {
    "add_generation_prompt", "date", "for_run", "kwargs", "now", "special", "tools"};
static const char *const kwargs[] = {"model_identity", "reasoning_effort"};

/* field of the table at `index` as a text that the table keeps alive; NULL when it is absent. */
static MAY_RAISE const char *text_field(lua_State *L, int index, const char *field,
                                        const char *where) {
  const char *text = NULL;
  if (lua_isnoneornil(L, index))
    return NULL;
  if (lua_getfield(L, index, field) == LUA_TSTRING)
    text = lua_tostring(L, -1);
  else if (!lua_isnil(L, -1))
    bind_raise(L, "%s: %s must be a string, got %s", where, field, luaL_typename(L, -1));
  lua_pop(L, 1);
  return text;
}

/* Whether the table's date is false: none is to be said. */
static MAY_RAISE bool date_is_false(lua_State *L, int index) {
  bool no = lua_getfield(L, index, "date") == LUA_TBOOLEAN && !lua_toboolean(L, -1);
  lua_pop(L, 1);
  return no;
}

/* The day, from the call's options (date, now) or the renderer's; pushed when it is a part of now.
 */
static MAY_RAISE const char *date_of(lua_State *L, int renderer, int options, const char *where) {
  bool has = !lua_isnil(L, options);
  if (has && date_is_false(L, options))
    return NULL;
  const char *date = text_field(L, options, "date", where);
  if (date)
    return date;
  const char *now = text_field(L, options, "now", where);
  if (now) {
    lua_pushlstring(L, now, strnlen(now, 10));
    return lua_tostring(L, -1);
  }
  if (date_is_false(L, renderer))
    return NULL;
  date = text_field(L, renderer, "date", where);
  if (!date)
    bind_raise(
        L,
        "%s: date is missing: the day in the server's system message, as \"2026-08-01\" (vLLM: "
        "VLLM_SYSTEM_START_DATE, else its own day); false for none",
        where);
  return date;
}

/* add_generation_prompt: true unless it is said to be false. */
static MAY_RAISE enum harmony_mode mode_of(lua_State *L, int options, const char *where) {
  if (lua_isnil(L, options))
    return HARMONY_COMPLETION;
  if (lua_getfield(L, options, "add_generation_prompt") != LUA_TNIL && !lua_isboolean(L, -1))
    bind_raise(L, "%s: add_generation_prompt must be true or false, got %s", where,
               luaL_typename(L, -1));
  bool without = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
  lua_pop(L, 1);
  return without ? HARMONY_CONVERSATION : HARMONY_COMPLETION;
}

/* The tools of the call's options, held on the stack; NULL when there are none. */
static MAY_RAISE const struct value *tools_of(lua_State *L, int options) {
  if (lua_isnil(L, options) || lua_getfield(L, options, "tools") == LUA_TNIL)
    return NULL;
  struct value *tools = bind_hold_value(L);
  bind_to_value(L, -2, tools);
  return tools;
}

struct harmony_chat bind_harmony_chat(lua_State *L, int renderer, int options, const char *where) {
  int own = lua_gettop(L) + 1, more = own + 1;
  lua_getiuservalue(L, renderer, 1);
  if (lua_isnil(L, options)) {
    lua_pushnil(L);
  } else {
    bind_check_options(L, options, where, render_options, ARRAY_LEN(render_options));
    if (lua_getfield(L, options, "kwargs") != LUA_TNIL)
      bind_check_options(L, more, where, kwargs, ARRAY_LEN(kwargs));
  }
  const char *effort = text_field(L, more, "reasoning_effort", where);
  const char *identity = text_field(L, more, "model_identity", where);
  return (struct harmony_chat){
      .reasoning_effort = effort ? effort : text_field(L, own, "reasoning_effort", where),
      .model_identity = identity ? identity : text_field(L, own, "model_identity", where),
      .call_content_type = text_field(L, own, "call_content_type", where),
      .date = date_of(L, own, options, where)};
}

/* Renders messages at 2 with the options at 3 for the renderer at 1; false leaves *err. */
static MAY_RAISE bool render(lua_State *L, struct held_prompt *h, const char *where,
                             struct err *err) {
  struct harmony_chat chat = bind_harmony_chat(L, 1, 3, where);
  struct harmony_options options = {.mode = mode_of(L, 3, where), .auto_drop_analysis = true};
  chat.tools = tools_of(L, 3);
  struct value *messages = bind_hold_value(L), *conversation = bind_hold_value(L);
  bind_to_value(L, 2, messages);
  if (messages->kind == VALUE_OBJECT && messages->u.object.n == 0) /* an empty table */
    *messages = value_array();
  if (harmony_from_chat(messages, &chat, conversation, err))
    return false;
  return harmony_render(&h->prompt, conversation, &options, err) == 0;
}

/* ---- what conversations take of a renderer ---- */

bool bind_harmony_is_ours(lua_State *L, int index) {
  if (!luaL_testudata(L, index, RENDERER))
    return false;
  lua_getiuservalue(L, index, 1);
  int type = lua_getfield(L, -1, "tokenizer");
  bool ours = type == LUA_TNIL || type == LUA_TSTRING || bind_test_tokenizer(L, lua_gettop(L));
  lua_pop(L, 2);
  return ours;
}

struct held_memo {
  struct harmony_memo *memo;
  const struct tokens_encoder *encoder;
};

static int memo_gc(lua_State *L) {
  struct held_memo *h = luaL_checkudata(L, 1, MEMO);
  harmony_memo_delete(h->memo);
  h->memo = NULL;
  return 0;
}

/* Pushes the table of memos: tokenizer (by name or path; `true`: the run's, or the default's) ->
 * memo, which a tokenizer keeps. */
static MAY_RAISE void push_memos(lua_State *L) {
  static const char key;
  bind_push_weak(L, &key, "k");
}

struct harmony_memo *bind_harmony_memo(lua_State *L, int renderer, bool for_run, struct err *err) {
  static const luaL_Reg meta[] = {{"__gc", memo_gc}, {NULL, NULL}};
  int top = lua_gettop(L), at = top + 2;
  lua_getiuservalue(L, renderer, 1);
  lua_getfield(L, -1, "tokenizer");
  struct tokens_encoder *e =
      lua_isuserdata(L, at) ? bind_test_tokenizer(L, at) : encoder_of(L, lua_tostring(L, at), err);
  if (!e || (for_run && bind_run_reads(L, e->tokens, err))) {
    if (!e && lua_isuserdata(L, at))
      bind_raise(L, "harmony: the tokenizer is closed");
    lua_settop(L, top);
    return NULL;
  }
  if (lua_isnil(L, at)) {
    lua_pushboolean(L, true);
    lua_replace(L, at);
  }
  push_memos(L);
  lua_pushvalue(L, at);
  bool known = lua_rawget(L, at + 1) != LUA_TNIL;
  if (!known || ((struct held_memo *)lua_touserdata(L, -1))->encoder != e) {
    lua_pop(L, 1);
    bind_new_type(L, MEMO, meta, NULL);
    struct held_memo *h = bind_new_userdata(L, sizeof *h, MEMO);
    lua_pushvalue(L, at);
    lua_pushvalue(L, -2);
    lua_rawset(L, at + 1);
    *h = (struct held_memo){harmony_memo_new(e, MEMO_BYTES), e};
  }
  struct harmony_memo *memo = ((struct held_memo *)lua_touserdata(L, -1))->memo;
  lua_settop(L, top);
  return memo;
}

/* ---- methods ---- */

/* renderer:render(messages, {tools =, …}) -> text; nil, message */
static int renderer_render(lua_State *L) {
  struct err err;
  bind_check_self(L, RENDERER);
  lua_settop(L, 3);
  struct held_prompt *h = hold_prompt(L);
  if (!render(L, h, "harmony_renderer:render", &err))
    return push_failure(L, &err);
  push_text(L, &h->prompt);
  return 1;
}

/* renderer:render_ids(messages, {tools =, …}) -> ids, text; nil, message */
static int renderer_render_ids(lua_State *L) {
  static const char where[] = "harmony_renderer:render_ids";
  struct err err;
  bind_check_self(L, RENDERER);
  lua_settop(L, 3);
  struct held_prompt *h = hold_prompt(L);
  if (!render(L, h, where, &err))
    return push_failure(L, &err);
  lua_getiuservalue(L, 1, 1);
  int tokenizer = tokenizer_option(L, lua_gettop(L), where);
  bool for_run =
      !lua_isnil(L, 3) && lua_getfield(L, 3, "for_run") != LUA_TNIL && lua_toboolean(L, -1);
  return push_ids(L, h, tokenizer, for_run);
}

/* renderer:parse(text) -> {reasoning =, content =, tool_calls = {{name =, arguments =}…}}: what the
 * model said, special tokens written out; nil, message */
static int renderer_parse(lua_State *L) {
  struct err err;
  bind_check_self(L, RENDERER);
  lua_settop(L, 2);
  const struct blob *text =
      bind_text_blob(L, bind_check_text_node(L, 2, "harmony_renderer:parse: the text"));
  struct value *said = bind_hold_value(L);
  if (harmony_parse(text->data, text->len, said, &err))
    return push_failure(L, &err);
  bind_push_value(L, said, false);
  return 1;
}

/* Reading the ranks takes a while, in which in a session all other users wait: at the top of a
 * script it is done at once. What fails is said where ids are asked for. */
static MAY_RAISE void load_early(lua_State *L, int tokenizer) {
  const struct state *s = state_of(L);
  struct err ignored;
  if (s && s->options.worker && !s->running && !lua_istable(L, tokenizer) &&
      !lua_isuserdata(L, tokenizer))
    (void)encoder_of(L, lua_tostring(L, tokenizer), &ignored);
}

/* renderer{tokenizer =, date =, …} */
static int harmony_renderer(lua_State *L) {
  static const luaL_Reg meta[] = {{NULL, NULL}};
  static const luaL_Reg methods[] = {{"parse", renderer_parse},
                                     {"render", renderer_render},
                                     {"render_ids", renderer_render_ids},
                                     {NULL, NULL}};
  static const char where[] = "harmony.renderer";
  lua_settop(L, 1);
  if (lua_isnil(L, 1)) {
    lua_newtable(L);
    lua_replace(L, 1);
  }
  bind_check_options(L, 1, where, renderer_options, ARRAY_LEN(renderer_options));
  load_early(L, tokenizer_option(L, 1, where));
  lua_settop(L, 1);
  bind_new_type(L, RENDERER, meta, methods);
  lua_newuserdatauv(L, 1, 1);
  luaL_setmetatable(L, RENDERER);
  lua_newtable(L); /* a copy: the caller's table may change */
  for (size_t i = 0; i < ARRAY_LEN(renderer_options); i++) {
    lua_getfield(L, 1, renderer_options[i]);
    lua_setfield(L, -2, renderer_options[i]);
  }
  lua_setiuservalue(L, -2, 1);
  return 1;
}

static const luaL_Reg functions[] = {
    {"render_json", harmony_render_json},
    {"renderer", harmony_renderer},
    {NULL, NULL},
};

int luaopen_perigee_harmony(lua_State *L) {
  luaL_newlib(L, functions);
  bind_name_module(L, "harmony");
  return 1;
}
