/* luatokenizer.c: module perigee.tokenizer: text to token ids and back.
 *
 * A handle owns a tokenizer and an encoder of its own: it belongs to one Lua state. What a file or
 * a text has wrong comes back as nil, message; misuse raises. */
#include "bind/luatokenizer.h"

#include <string.h>

#include "bind/bind.h"
#include "bind/core.h"
#include "bind/gen.h"
#include "bind/hold.h"
#include "bind/text.h"
#include "run/state.h"

#define TOKENIZER "perigee.tokenizer"

struct lua_tokenizer {
  const struct tokens *tokens;
  struct tokens_encoder *encoder;
  struct tokens_list ids; /* of the call under way: a raise leaves it here */
};

static int tokenizer_gc(lua_State *L) {
  struct lua_tokenizer *t = luaL_checkudata(L, 1, TOKENIZER);
  tokens_encoder_delete(t->encoder);
  tokens_list_free(&t->ids);
  tokens_close(t->tokens);
  *t = (struct lua_tokenizer){0};
  return 0;
}

struct tokens_encoder *bind_test_tokenizer(lua_State *L, int index) {
  const struct lua_tokenizer *t = luaL_testudata(L, index, TOKENIZER);
  return t ? t->encoder : NULL;
}

int bind_run_reads(lua_State *L, const struct tokens *t, struct err *err) {
  static const char key; /* in the registry: the hash of the last one that was found good */
  struct gen_tokens run = bind_gen_tokens(L);
  const struct tokens *own = run.encoder ? run.encoder->tokens : NULL;
  if (own == t || (!own && (!run.exact || t->kind == TOKENS_BYTES)))
    return 0;
  bool known = lua_rawgetp(L, LUA_REGISTRYINDEX, &key) == LUA_TNUMBER &&
               (uint64_t)lua_tointeger(L, -1) == t->hash;
  lua_pop(L, 1);
  if (known)
    return 0;
  if (!own || !tokens_agree(own, t))
    return err_set(err, ERR_INVALID,
                   "the renderer makes tokens of %.200s, and the run's tokenizer is %.200s: the "
                   "server would read other tokens; give both the same (--tokenizer)",
                   t->name, own ? own->name : "bytes");
  lua_pushinteger(L, (lua_Integer)t->hash);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
  return 0;
}

static MAY_RAISE struct lua_tokenizer *check(lua_State *L) {
  struct lua_tokenizer *t = bind_check_self(L, TOKENIZER);
  if (!t->tokens)
    bind_raise(L, "tokenizer: this one was closed");
  return t;
}

static int push_failure(lua_State *L, const struct err *err) {
  lua_pushnil(L);
  lua_pushstring(L, err->text);
  return 2;
}

static MAY_RAISE bool get_flag(lua_State *L, int index, const char *where, const char *name,
                               bool missing) {
  bool flag = missing;
  if (lua_getfield(L, index, name) != LUA_TNIL) {
    if (!lua_isboolean(L, -1))
      bind_raise(L, "%s: option %s must be true or false, not %s", where, name, bind_shown(L, -1));
    flag = lua_toboolean(L, -1);
  }
  lua_pop(L, 1);
  return flag;
}

static MAY_RAISE struct tokens_options check_options(lua_State *L, int index, const char *where) {
  static const char *const known[] = {"add_special", "special"};
  if (lua_isnoneornil(L, index))
    return (struct tokens_options){.special = true};
  if (!lua_istable(L, index))
    bind_raise(L, "%s: options must be a table, not %s", where, bind_shown(L, index));
  bind_check_options(L, index, where, known, ARRAY_LEN(known));
  return (struct tokens_options){.add_special = get_flag(L, index, where, "add_special", false),
                                 .special = get_flag(L, index, where, "special", true)};
}

/* The bytes of the string or text handle at `index`, alive as long as the stack holds it. */
static MAY_RAISE const char *check_text(lua_State *L, int index, const char *where, size_t *len) {
  if (lua_type(L, index) == LUA_TSTRING)
    return lua_tolstring(L, index, len);
  struct text *node = bind_test_text(L, index);
  if (!node)
    bind_raise(L, "%s: a text is expected, got %s", where, bind_shown(L, index));
  const struct blob *blob = bind_text_blob(L, node);
  *len = blob->len;
  return blob->data;
}

/* tok:encode(text, {add_special =, special =}) -> ids; nil, message */
static int tokenizer_encode(lua_State *L) {
  struct lua_tokenizer *t = check(L);
  struct err err;
  size_t len;
  lua_settop(L, 3);
  const char *text = check_text(L, 2, "tokenizer:encode", &len);
  struct tokens_options options = check_options(L, 3, "tokenizer:encode");
  t->ids.n = 0;
  if (tokens_encoder_encode(t->encoder, text, len, &options, &t->ids, &err))
    return push_failure(L, &err);
  lua_createtable(L, (int)t->ids.n, 0);
  for (size_t i = 0; i < t->ids.n; i++) {
    lua_pushinteger(L, t->ids.ids[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  if (t->ids.cap > 1 << 20)
    tokens_list_free(&t->ids);
  return 1;
}

/* tok:count(text, {add_special =, special =}) -> number; nil, message */
static int tokenizer_count(lua_State *L) {
  struct lua_tokenizer *t = check(L);
  struct err err;
  size_t len, n;
  lua_settop(L, 3);
  const char *text = check_text(L, 2, "tokenizer:count", &len);
  struct tokens_options options = check_options(L, 3, "tokenizer:count");
  if (tokens_encoder_count(t->encoder, text, len, &options, &n, &err))
    return push_failure(L, &err);
  lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

/* tok:decode(ids) -> text; nil, message */
static int tokenizer_decode(lua_State *L) {
  struct lua_tokenizer *t = check(L);
  struct err err;
  lua_settop(L, 2);
  if (!lua_istable(L, 2))
    bind_raise(L, "tokenizer:decode: a list of token ids is expected, got %s", bind_shown(L, 2));
  size_t n = (size_t)luaL_len(L, 2);
  t->ids.n = 0;
  tokens_list_reserve(&t->ids, n);
  for (size_t i = 0; i < n; i++) {
    int whole = 0;
    lua_geti(L, 2, (lua_Integer)i + 1);
    lua_Integer id = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &whole) : 0;
    if (!whole || id < 0 || id > UINT32_MAX)
      bind_raise(L, "tokenizer:decode: token %d is %s, not a token id", (int)i + 1,
                 bind_shown(L, -1));
    t->ids.ids[t->ids.n++] = (uint32_t)id;
    lua_pop(L, 1);
  }
  struct buf *out = bind_scratch_buf(L);
  if (tokens_decode(t->tokens, t->ids.ids, t->ids.n, out, &err))
    return push_failure(L, &err);
  lua_pushlstring(L, out->len ? out->data : "", out->len);
  return 1;
}

/* Methods, and the fields vocab_size and name. */
static int tokenizer_index(lua_State *L) {
  struct lua_tokenizer *t = luaL_checkudata(L, 1, TOKENIZER);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (t->tokens && strcmp(key, "vocab_size") == 0) {
    lua_pushinteger(L, t->tokens->vocab_size);
  } else if (t->tokens && strcmp(key, "name") == 0) {
    lua_pushstring(L, t->tokens->name);
  } else {
    lua_pushvalue(L, 2);
    lua_gettable(L, lua_upvalueindex(1));
  }
  return 1;
}

static int tokenizer_tostring(lua_State *L) {
  struct lua_tokenizer *t = luaL_checkudata(L, 1, TOKENIZER);
  lua_pushfstring(L, "tokenizer: %s", t->tokens ? t->tokens->name : "(closed)");
  return 1;
}

static const luaL_Reg methods[] = {{"count", tokenizer_count},
                                   {"decode", tokenizer_decode},
                                   {"encode", tokenizer_encode},
                                   {NULL, NULL}};

static MAY_RAISE void make_type(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", tokenizer_gc},
                                  {"__close", tokenizer_gc},
                                  {"__tostring", tokenizer_tostring},
                                  {NULL, NULL}};
  bind_new_type(L, TOKENIZER, meta, methods);
  luaL_getmetatable(L, TOKENIZER);
  luaL_newlib(L, methods);
  lua_pushcclosure(L, tokenizer_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

struct tokens_shared *bind_shared_tokens(lua_State *L) {
  const struct state *s = state_of(L);
  return s && s->options.store ? store_tokenizers(s->options.store) : NULL;
}

/* load(path, {family =}) -> tok; nil, message */
static int tokenizer_load(lua_State *L) {
  static const char *const known[] = {"family"};
  struct tokens_load_options options = {.shared = bind_shared_tokens(L)};
  struct err err;
  lua_settop(L, 2);
  if (lua_type(L, 1) != LUA_TSTRING)
    bind_raise(L, "tokenizer.load: a path or a name is expected, got %s", bind_shown(L, 1));
  if (!lua_isnil(L, 2)) {
    if (!lua_istable(L, 2))
      bind_raise(L, "tokenizer.load: options must be a table, not %s", bind_shown(L, 2));
    bind_check_options(L, 2, "tokenizer.load", known, ARRAY_LEN(known));
    int type = lua_getfield(L, 2, "family");
    if (type != LUA_TNIL && type != LUA_TSTRING)
      bind_raise(L, "tokenizer.load: option family must be a string, not %s", bind_shown(L, -1));
    options.family = lua_tostring(L, -1); /* stays on the stack */
  }
  make_type(L);
  struct lua_tokenizer *t = bind_new_userdata(L, sizeof *t, TOKENIZER);
  const char *path = lua_tostring(L, 1);
  if (tokens_open(path, &options, &t->tokens, &err))
    return push_failure(L, &err);
  t->encoder = tokens_encoder_new(t->tokens);
  return 1;
}

static const luaL_Reg functions[] = {{"load", tokenizer_load}, {NULL, NULL}};

int luaopen_perigee_tokenizer(lua_State *L) {
  luaL_newlib(L, functions);
  bind_name_module(L, "tokenizer");
  return 1;
}
