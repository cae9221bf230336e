/* luablockhash.c: module perigee.blockhash: block hashes of any scheme over token ids or text.
 *
 * The options of a chain are the parameters of kv/blockhash_chain.h under their names. A wrong
 * option raises (misuse); ids and texts that a scheme cannot hash come back as nil, message. */
#include <string.h>

#include "bind/bind.h"
#include "bind/core.h"
#include "bind/hold.h"
#include "bind/luablockhash.h"
#include "bind/text.h"
#include "kv/blockhash_chain.h"

#define HASHES "perigee.hashes"

struct hashes {
  struct blockhash_chain *chain;
};

static int hashes_gc(lua_State *L) {
  struct hashes *h = luaL_checkudata(L, 1, HASHES);
  blockhash_chain_delete(h->chain);
  h->chain = NULL;
  return 0;
}

static MAY_RAISE struct blockhash_chain *check_chain(lua_State *L) {
  struct hashes *h = bind_check_self(L, HASHES);
  if (!h->chain)
    bind_raise(L, "hashes: these were closed");
  return h->chain;
}

static int push_failure(lua_State *L, const struct err *err) {
  lua_pushnil(L);
  lua_pushstring(L, err->text);
  return 2;
}

/* The ids of the list at `index` in a userdata pushed on the stack. */
static MAY_RAISE int64_t *check_ids(lua_State *L, int index, const char *where, size_t *n) {
  *n = (size_t)luaL_len(L, index);
  int64_t *ids = lua_newuserdatauv(L, (*n ? *n : 1) * sizeof *ids, 0);
  for (size_t i = 0; i < *n; i++) {
    int whole;
    lua_geti(L, index, (lua_Integer)i + 1);
    ids[i] = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &whole) : (whole = 0, 0);
    if (!whole)
      bind_raise(L, "%s: token %zu is %s, not a whole number", where, i + 1, bind_shown(L, -1));
    lua_pop(L, 1);
  }
  return ids;
}

/* Appends the ids or the text at `index`; false leaves the reason in *err. */
static MAY_RAISE bool add_input(lua_State *L, int index, const char *where,
                                struct blockhash_chain *c, struct err *err) {
  if (lua_istable(L, index)) {
    size_t n;
    int64_t *ids = check_ids(L, index, where, &n);
    return blockhash_chain_add_signed(c, ids, n, err) == 0;
  }
  if (lua_type(L, index) != LUA_TSTRING && !bind_test_text(L, index))
    bind_raise(L, "%s: token ids (a list) or a text are expected, got %s", where,
               luaL_typename(L, index));
  const struct blob *text = bind_text_blob(L, bind_check_text_node(L, index, where));
  return blockhash_chain_add_text(c, text->data, text->len, err) == 0;
}

/* The scheme's name, pushed, and the other options as a value held on the stack. */
MAY_RAISE const char *bind_check_scheme(lua_State *L, int options, const struct value **others) {
  const char *name = BLOCKHASH_DEFAULT_SCHEME;
  *others = NULL;
  if (lua_isnoneornil(L, options))
    return name;
  if (!lua_istable(L, options))
    bind_raise(L, "blockhash.hash: options must be a table, got %s", luaL_typename(L, options));
  struct value *v = bind_hold_value(L);
  bind_to_value(L, options, v);
  *others = v;
  if (v->kind != VALUE_OBJECT)
    bind_raise(L, "blockhash.hash: options have names, as in { scheme = \"ic-xxh3\" }");
  struct value kept = value_object(), *held = bind_hold_value(L);
  *held = kept;
  for (size_t i = 0; i < v->u.object.n; i++) {
    struct value_pair *p = &v->u.object.pairs[i];
    if (strcmp(p->key, "scheme") != 0)
      value_set_len(held, p->key, p->key_len, value_copy(&p->value));
    else if (p->value.kind == VALUE_STRING)
      name = p->value.u.string.data; /* lives as long as v, which is on the stack */
    else
      bind_raise(L, "blockhash.hash: scheme must be a string, the name of a scheme");
  }
  *others = held;
  return name;
}

static MAY_RAISE struct hashes *new_hashes(lua_State *L);

/* hash(tokens or text, {scheme = "ic-xxh3", block_size =, …}) -> hashes; nil, message */
static int blockhash_hash(lua_State *L) {
  const struct value *options;
  struct err err;
  lua_settop(L, 2);
  const char *scheme = bind_check_scheme(L, 2, &options);
  struct hashes *h = new_hashes(L);
  int at = lua_gettop(L);
  if (blockhash_chain_open(scheme, options, &h->chain, &err))
    bind_raise(L, "blockhash.hash: %s", err.text);
  if (!add_input(L, 1, "blockhash.hash", h->chain, &err))
    return push_failure(L, &err);
  lua_pushvalue(L, at);
  return 1;
}

struct blockhash_chain *bind_push_hashes(lua_State *L, const struct blockhash_chain *chain) {
  struct hashes *h = new_hashes(L);
  h->chain = blockhash_chain_fork(chain);
  return h->chain;
}

/* hashes:extend(tokens or text) -> itself; nil, message */
static int hashes_extend(lua_State *L) {
  struct blockhash_chain *c = check_chain(L);
  struct err err;
  if (!add_input(L, 2, "hashes:extend", c, &err))
    return push_failure(L, &err);
  lua_pushvalue(L, 1);
  return 1;
}

/* hashes:fork() -> hashes */
static int hashes_fork(lua_State *L) {
  const struct blockhash_chain *c = check_chain(L);
  new_hashes(L)->chain = blockhash_chain_fork(c);
  return 1;
}

static MAY_RAISE int push_field(lua_State *L, struct blockhash_chain *c, int field, bool list) {
  char text[BLOCKHASH_MAX_TEXT];
  if (!list) {
    lua_pushlstring(L, text, blockhash_chain_text(c, field, 0, text));
    return 1;
  }
  size_t n = blockhash_chain_count(c);
  lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushlstring(L, text, blockhash_chain_text(c, field, i, text));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* hashes:hex() -> list */
static int hashes_hex(lua_State *L) {
  return push_field(L, check_chain(L), 0, true);
}

/* hashes:event() -> list, as the scheme's engine publishes them */
static int hashes_event(lua_State *L) {
  struct blockhash_chain *c = check_chain(L);
  return push_field(L, c, blockhash_chain_event_field(c), true);
}

/* hashes:field(name) -> list or string */
static int hashes_field(lua_State *L) {
  struct blockhash_chain *c = check_chain(L);
  struct err err;
  int field;
  bool list;
  if (lua_type(L, 2) != LUA_TSTRING)
    bind_raise(L, "hashes:field: the field's name is expected, got %s", luaL_typename(L, 2));
  if (blockhash_chain_field(c, lua_tostring(L, 2), &field, &list, &err))
    bind_raise(L, "hashes:field: %s", err.text);
  return push_field(L, c, field, list);
}

static int hashes_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)blockhash_chain_count(check_chain(L)));
  return 1;
}

/* A number: that hash's bytes; else a method. Upvalue: the methods. */
static int hashes_index(lua_State *L) {
  if (lua_type(L, 2) != LUA_TNUMBER) {
    lua_settop(L, 2);
    lua_gettable(L, lua_upvalueindex(1));
    return 1;
  }
  struct blockhash_chain *c = check_chain(L);
  uint8_t bytes[BLOCKHASH_MAX_WIDTH];
  lua_Integer i = lua_tointeger(L, 2);
  if (i < 1 || (size_t)i > blockhash_chain_count(c))
    return 0;
  size_t n = blockhash_chain_bytes(c, (size_t)i - 1, bytes);
  lua_pushlstring(L, (const char *)bytes, n);
  return 1;
}

static int hashes_tostring(lua_State *L) {
  struct blockhash_chain *c = check_chain(L);
  lua_pushfstring(L, "hashes: %I of %s", (lua_Integer)blockhash_chain_count(c),
                  blockhash_scheme_name(blockhash_chain_scheme(c)));
  return 1;
}

/* A userdata without a chain, pushed. */
static struct hashes *new_hashes(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__close", hashes_gc},          {"__gc", hashes_gc}, {"__len", hashes_len},
      {"__tostring", hashes_tostring}, {NULL, NULL},
  };
  static const luaL_Reg methods[] = {
      {"event", hashes_event}, {"extend", hashes_extend}, {"field", hashes_field},
      {"fork", hashes_fork},   {"hex", hashes_hex},       {NULL, NULL},
  };
  bind_new_type(L, HASHES, meta, methods);
  luaL_getmetatable(L, HASHES);
  if (lua_getfield(L, -1, "__index") == LUA_TTABLE) { /* new: numbers are no methods */
    lua_pushcclosure(L, hashes_index, 1);
    lua_setfield(L, -2, "__index");
  } else {
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return bind_new_userdata(L, sizeof(struct hashes), HASHES);
}

/* schemes() -> list of names */
static int blockhash_schemes(lua_State *L) {
  const struct blockhash_scheme *s;
  lua_newtable(L);
  for (size_t i = 0; (s = blockhash_scheme_at(i)); i++) {
    lua_pushstring(L, blockhash_scheme_name(s));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* The parameters as {name, json}, in order. */
static MAY_RAISE void push_params(lua_State *L, const struct blockhash_scheme *s) {
  const char *name;
  bool json;
  lua_newtable(L);
  for (size_t i = 0; (name = blockhash_scheme_param(s, i, &json)); i++) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "name");
    lua_pushboolean(L, json);
    lua_setfield(L, -2, "json");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static MAY_RAISE void push_fields(lua_State *L, const struct blockhash_scheme *s) {
  const char *name;
  lua_newtable(L);
  lua_pushstring(L, "block_hashes");
  lua_rawseti(L, -2, 1);
  for (size_t i = 0; (name = blockhash_scheme_field(s, i)); i++) {
    lua_pushstring(L, name);
    lua_rawseti(L, -2, (lua_Integer)i + 2);
  }
}

/* scheme(name) -> {name, about, input, block_size, params, fields}; nil when there is none */
static int blockhash_scheme(lua_State *L) {
  if (lua_type(L, 1) != LUA_TSTRING)
    bind_raise(L, "blockhash.scheme: a scheme's name is expected, got %s", luaL_typename(L, 1));
  const struct blockhash_scheme *s = blockhash_scheme_find(lua_tostring(L, 1));
  if (!s)
    return 0;
  lua_createtable(L, 0, 6);
  lua_pushstring(L, blockhash_scheme_name(s));
  lua_setfield(L, -2, "name");
  lua_pushstring(L, blockhash_scheme_about(s));
  lua_setfield(L, -2, "about");
  lua_pushstring(L, blockhash_scheme_input(s));
  lua_setfield(L, -2, "input");
  lua_pushinteger(L, blockhash_scheme_block_size(s));
  lua_setfield(L, -2, "block_size");
  push_params(L, s);
  lua_setfield(L, -2, "params");
  push_fields(L, s);
  lua_setfield(L, -2, "fields");
  return 1;
}

static const luaL_Reg functions[] = {
    {"hash", blockhash_hash},
    {"scheme", blockhash_scheme},
    {"schemes", blockhash_schemes},
    {NULL, NULL},
};

int luaopen_perigee_blockhash(lua_State *L) {
  luaL_newlib(L, functions);
  bind_name_module(L, "blockhash");
  return 1;
}
