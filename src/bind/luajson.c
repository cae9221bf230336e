/* luajson.c: module perigee.json: the ordered JSON of text/json.h for scripts.
 *
 * Encoding is canonical: equal values give equal bytes on every machine, because prompts are made
 * of it. What a table is (object or array) and its key order are kept by the tables of
 * bind/luavalue.c; plain tables are decided by their keys, and sort them. */
#include "text/json.h"

#include "bind/bind.h"
#include "bind/core.h"
#include "bind/hold.h"
#include "bind/text.h"

static bool boolean_option(lua_State *L, int index, const char *name, const char *where) {
  if (lua_isnoneornil(L, index))
    return false;
  bind_check_options(L, index, where, &name, 1);
  lua_getfield(L, index, name);
  if (!lua_isnil(L, -1) && !lua_isboolean(L, -1))
    bind_raise(L, "%s: %s must be true or false, got %s", where, name, luaL_typename(L, -1));
  bool on = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return on;
}

/* decode(text, {drop_null = false}) -> value, or nil and what is wrong with line and column */
static int json_lua_decode(lua_State *L) {
  bool drop = boolean_option(L, 2, "drop_null", "json.decode");
  lua_settop(L, 1);
  size_t len;
  const char *text = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &len) : NULL;
  if (!text) {
    const struct blob *blob =
        bind_text_blob(L, bind_check_text_node(L, 1, "json.decode: the text"));
    text = blob->data;
    len = blob->len;
  }
  if (bind_read_json(L, text, len, !drop))
    return 1;
  struct value *v = bind_scratch_value(L);
  struct err err;
  if (json_parse(text, len, v, &err)) {
    lua_pushnil(L);
    lua_pushstring(L, err.text);
    return 2;
  }
  bind_push_value(L, v, !drop);
  if (v->kind == VALUE_NULL) { /* a text that is only `null` is no failure */
    lua_pop(L, 1);
    lua_pushlightuserdata(L, NULL);
  }
  value_free(v);
  *v = value_null();
  return 1;
}

/* encode(value, {pretty = false}) -> string; raises for what JSON cannot hold */
static int json_lua_encode(lua_State *L) {
  luaL_checkany(L, 1);
  bool pretty = boolean_option(L, 2, "pretty", "json.encode");
  lua_settop(L, 1);
  struct buf *b = bind_scratch_buf(L);
  if (pretty) {
    struct value *v = bind_hold_value(L);
    bind_to_value(L, 1, v);
    json_write_pretty(b, v);
  } else {
    bind_write_json(L, 1, b);
  }
  lua_pushlstring(L, b->data, b->len);
  return 1;
}

/* object[key] = value for the entry {key, value} on top. */
static void set_entry(lua_State *L, int object, lua_Integer i) {
  if (!lua_istable(L, -1) || lua_rawlen(L, -1) != 2)
    bind_raise(L,
               "json.object: entry %lld must be a pair { \"key\", value }; an array is "
               "json.array{...}",
               (long long)i);
  lua_rawgeti(L, -1, 1);
  lua_rawgeti(L, -2, 2);
  if (lua_type(L, -2) != LUA_TSTRING)
    bind_raise(L, "json.object: the key of entry %lld must be a string, got %s", (long long)i,
               luaL_typename(L, -2));
  lua_settable(L, object);
}

/* object{ {"b", 1}, {"a", 2} } keeps that order; named fields follow, sorted; object(t) for a
 * table that already is one copies it. */
static int json_lua_object(lua_State *L) {
  if (lua_isnoneornil(L, 1)) {
    bind_push_object(L);
    return 1;
  }
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  bind_push_object(L);
  bool ordered = bind_is_object(L, 1);
  lua_Integer pairs = ordered ? 0 : (lua_Integer)lua_rawlen(L, 1);
  for (lua_Integer i = 1; i <= pairs; i++) {
    lua_rawgeti(L, 1, i);
    set_entry(L, 2, i);
    lua_settop(L, 2);
  }
  bind_push_sorted_keys(L, 1);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 3);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 3, i);
    if (lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1 && lua_tointeger(L, -1) <= pairs) {
      lua_pop(L, 1); /* a pair, done above */
      continue;
    }
    lua_pushvalue(L, -1);
    lua_rawget(L, 1);
    lua_settable(L, 2);
  }
  lua_settop(L, 2);
  return 1;
}

/* array{...}: a copy that is an array also when it is empty */
static int json_lua_array(lua_State *L) {
  if (!lua_isnoneornil(L, 1))
    luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  bind_push_array(L);
  if (!lua_istable(L, 1))
    return 1;
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1), entries = 0;
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) < 1 || lua_tointeger(L, -2) > n)
      bind_raise(L, "json.array: the list has holes or other keys (json.null stands for an absent "
                    "item)");
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, 2);
    entries++;
  }
  if (entries != n)
    bind_raise(L, "json.array: the list has holes (json.null stands for an absent item)");
  return 1;
}

/* kind(x) -> "object", "array" or nil: what perigee.json made of a table */
static int json_lua_kind(lua_State *L) {
  if (bind_is_object(L, 1))
    lua_pushliteral(L, "object");
  else if (bind_is_array(L, 1))
    lua_pushliteral(L, "array");
  else
    lua_pushnil(L);
  return 1;
}

static const luaL_Reg functions[] = {
    {"array", json_lua_array}, {"decode", json_lua_decode}, {"encode", json_lua_encode},
    {"kind", json_lua_kind},   {"object", json_lua_object}, {NULL, NULL},
};

int luaopen_perigee_json(lua_State *L) {
  luaL_newlib(L, functions);
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "null");
  bind_name_module(L, "json");
  return 1;
}
