/* luakeys.c: the order of a table's keys, and tables that keep their own: what perigee.json makes.
 *
 * Canonical order is made here and used for pairs, JSON and rows alike, so that no output depends
 * on Lua's hash seed. */
#include <stdlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/hold.h"
#include "bind/shared.h"

static const char order_key; /* its address is the hidden key of a json object */

const void *bind_json_order(void) {
  return &order_key;
}

/* What the metatable of json tables holds under the order's key: objects' the order that they
 * share, or true; arrays' false. */
static int push_mark(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) {
    lua_pushnil(L);
    return LUA_TNIL;
  }
  int type = lua_rawgetp(L, -1, &order_key);
  lua_replace(L, -2);
  return type;
}

bool bind_is_object(lua_State *L, int index) {
  int type = push_mark(L, index);
  bool is = type == LUA_TTABLE || (type == LUA_TBOOLEAN && lua_toboolean(L, -1));
  lua_pop(L, 1);
  return is;
}

bool bind_is_array(lua_State *L, int index) {
  bool is = push_mark(L, index) == LUA_TBOOLEAN && !lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is;
}

/* ---- canonical key order ---- */

enum key_rank { KEY_WHOLE, KEY_NUMBER, KEY_STRING, KEY_FALSE, KEY_TRUE, KEY_OTHER };

struct key {
  enum key_rank rank;
  uint32_t at; /* place in the list on the Lua stack, 1-based */
  union {
    lua_Integer whole;
    lua_Number number;
    struct {
      const char *data; /* lives as long as the table holds the key */
      size_t len;
    } string;
  } u;
};

static int compare_keys(const void *left, const void *right) {
  const struct key *a = left, *b = right;
  if (a->rank != b->rank)
    return a->rank < b->rank ? -1 : 1;
  if (a->rank == KEY_WHOLE)
    return a->u.whole < b->u.whole ? -1 : a->u.whole > b->u.whole;
  if (a->rank == KEY_NUMBER)
    return a->u.number < b->u.number ? -1 : a->u.number > b->u.number;
  if (a->rank == KEY_STRING) {
    size_t n = a->u.string.len < b->u.string.len ? a->u.string.len : b->u.string.len;
    int order = memcmp(a->u.string.data, b->u.string.data, n);
    if (order != 0)
      return order;
    return a->u.string.len < b->u.string.len ? -1 : a->u.string.len > b->u.string.len;
  }
  return a->at < b->at ? -1 : a->at > b->at;
}

static struct key describe_key(lua_State *L, int index, uint32_t at) {
  struct key k = {.rank = KEY_OTHER, .at = at};
  switch (lua_type(L, index)) {
  case LUA_TNUMBER:
    if (lua_isinteger(L, index)) {
      k.rank = KEY_WHOLE;
      k.u.whole = lua_tointeger(L, index);
    } else {
      k.rank = KEY_NUMBER;
      k.u.number = lua_tonumber(L, index);
    }
    break;
  case LUA_TSTRING:
    k.rank = KEY_STRING;
    k.u.string.data = lua_tolstring(L, index, &k.u.string.len);
    break;
  case LUA_TBOOLEAN:
    k.rank = lua_toboolean(L, index) ? KEY_TRUE : KEY_FALSE;
    break;
  default:
    break;
  }
  return k;
}

/* ---- a json object's own order ---- */

/* Pushes the object's order: its own, else the one it shares; nil for none. True: shared. */
static bool push_order(lua_State *L, int object) {
  if (lua_rawgetp(L, object, &order_key) == LUA_TTABLE)
    return false;
  lua_pop(L, 1);
  if (push_mark(L, object) == LUA_TTABLE)
    return true;
  lua_pop(L, 1);
  lua_pushnil(L);
  return false;
}

/* The order on top, which others have too, becomes one of the object's own. */
static void own_order(lua_State *L, int object) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  lua_createtable(L, (int)n + 1, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -2, i);
    lua_rawseti(L, -2, i);
  }
  lua_pushvalue(L, -1);
  lua_rawsetp(L, object, &order_key);
  lua_replace(L, -2);
}

static bool has_all_keys(lua_State *L, int object, int order) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, order);
  bool all = true;
  for (lua_Integer i = 1; all && i <= n; i++) {
    lua_rawgeti(L, order, i);
    all = lua_rawget(L, object) != LUA_TNIL;
    lua_pop(L, 1);
  }
  return all;
}

/* The keys of a json object in its own order, without those whose value is gone and without
 * repeats (a key that was deleted and set again stands at its last place). */
static void push_object_keys(lua_State *L, int index) {
  bool shared = push_order(L, index);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_newtable(L);
    return;
  }
  int order = lua_gettop(L);
  if (shared) { /* it has no repeats and never changes */
    if (has_all_keys(L, index, order))
      return;
    own_order(L, index);
  }
  lua_Integer n = (lua_Integer)lua_rawlen(L, order), kept = n;
  lua_newtable(L); /* seen, and then replaced by the list */
  int seen = order + 1;
  for (lua_Integer i = n; i >= 1; i--) {
    lua_rawgeti(L, order, i);
    lua_pushvalue(L, -1);
    bool gone = lua_rawget(L, index) == LUA_TNIL;
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    bool repeated = lua_rawget(L, seen) != LUA_TNIL;
    lua_pop(L, 1);
    if (gone || repeated) {
      lua_pop(L, 1);
      continue;
    }
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, seen);
    lua_rawseti(L, order, kept--); /* kept >= i: written behind what is still to be read */
  }
  if (kept > 0) { /* close the gap, so that the next walk is short */
    for (lua_Integer i = kept + 1; i <= n; i++) {
      lua_rawgeti(L, order, i);
      lua_rawseti(L, order, i - kept);
    }
    for (lua_Integer i = n; i > n - kept; i--) {
      lua_pushnil(L);
      lua_rawseti(L, order, i);
    }
  }
  lua_settop(L, order);
  n -= kept;
  lua_createtable(L, (int)n, 0); /* a copy: the loop's body may change the object */
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, order, i);
    lua_rawseti(L, -2, i);
  }
  lua_remove(L, order);
}

static void push_shared_keys(lua_State *L, const struct shared *s) {
  lua_newtable(L);
  size_t n = s->kind == SHARED_ARRAY ? s->u.array.n : s->u.object.n;
  for (size_t i = 0; i < n; i++) {
    if (s->kind == SHARED_ARRAY)
      lua_pushinteger(L, (lua_Integer)i + 1);
    else
      lua_pushlstring(L, s->u.object.pairs[i].key, s->u.object.pairs[i].key_len);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

size_t bind_push_sorted_keys(lua_State *L, int index) {
  index = lua_absindex(L, index);
  luaL_checkstack(L, 8, "table walk");
  const struct shared *shared = bind_test_shared(L, index);
  if (shared) {
    push_shared_keys(L, shared);
    return 0;
  }
  if (bind_is_object(L, index)) {
    push_object_keys(L, index);
    return 0;
  }
  uint32_t n = 0, others = 0;
  lua_newtable(L);
  int found = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    if (lua_islightuserdata(L, -1) && lua_touserdata(L, -1) == (const void *)&order_key)
      continue;
    lua_pushvalue(L, -1);
    lua_rawseti(L, found, ++n);
  }
  struct key *keys = lua_newuserdatauv(L, (n ? n : 1) * sizeof *keys, 0);
  bool sorted = true;
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, found, i + 1);
    keys[i] = describe_key(L, -1, i + 1);
    others += keys[i].rank == KEY_OTHER;
    sorted = sorted && (i == 0 || compare_keys(&keys[i - 1], &keys[i]) < 0);
    lua_pop(L, 1);
  }
  if (sorted) { /* lists come in order already */
    lua_settop(L, found);
    return others;
  }
  qsort(keys, n, sizeof *keys, compare_keys);
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, found, keys[i].at);
    lua_rawseti(L, -2, i + 1);
  }
  lua_replace(L, found);
  lua_settop(L, found);
  return others;
}

/* The key behind the one on top, which is popped, in that same order; false at the end. */
bool bind_next_key(lua_State *L, int index) {
  index = lua_absindex(L, index);
  luaL_checkstack(L, 8, "table walk");
  int before = lua_gettop(L);
  bind_push_sorted_keys(L, index);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1), i = 1;
  if (!lua_isnil(L, before)) {
    for (bool found = false; !found && i <= n; i++) {
      lua_rawgeti(L, before + 1, i);
      found = lua_rawequal(L, before, -1);
      lua_pop(L, 1);
    }
  }
  bool more = i <= n;
  if (more) {
    lua_rawgeti(L, before + 1, i);
    lua_replace(L, before);
  }
  lua_settop(L, more ? before : before - 1);
  return more;
}

/* ---- json tables ---- */

/* __newindex of an object: (t, k, v) with k absent so far */
static int object_newindex(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE); /* getmetatable gives it to everybody */
  lua_settop(L, 3);
  if (lua_type(L, 2) != LUA_TSTRING)
    return luaL_error(L, "a JSON object's keys are strings, got a %s", luaL_typename(L, 2));
  if (lua_isnil(L, 3))
    return 0;
  bool shared = push_order(L, 1);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, 1, &order_key);
  } else if (shared) {
    own_order(L, 1);
  }
  lua_pushvalue(L, 2);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_settop(L, 3);
  lua_rawset(L, 1);
  return 0;
}

static int object_step(lua_State *L) { /* upvalues: keys, position */
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer i = lua_tointeger(L, lua_upvalueindex(2));
  for (;;) {
    lua_settop(L, 1);
    if (lua_rawgeti(L, lua_upvalueindex(1), ++i) == LUA_TNIL)
      return 1;
    lua_pushvalue(L, -1);
    if (lua_rawget(L, 1) != LUA_TNIL)
      break;
  }
  lua_pushinteger(L, i);
  lua_copy(L, -1, lua_upvalueindex(2));
  lua_pop(L, 1);
  return 2;
}

static int object_pairs(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  bind_push_sorted_keys(L, 1);
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, object_step, 2);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

/* The mark goes in last: without it a type is not found, and made anew. */
static MAY_RAISE void push_type(lua_State *L, const char *name, bool object) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, name) == LUA_TTABLE)
    return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 4);
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__name");
  if (object) {
    lua_pushcfunction(L, object_newindex);
    lua_setfield(L, -2, "__newindex");
    lua_pushcfunction(L, object_pairs);
    lua_setfield(L, -2, "__pairs");
  }
  lua_pushboolean(L, object);
  lua_rawsetp(L, -2, &order_key);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, name);
}

void bind_push_object_type(lua_State *L) {
  luaL_checkstack(L, 6, "JSON object");
  lua_createtable(L, 0, 4);
  push_type(L, BIND_JSON_OBJECT, true);
  static const char *const fields[] = {"__name", "__newindex", "__pairs"};
  for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
    lua_getfield(L, -1, fields[i]);
    lua_setfield(L, -3, fields[i]);
  }
  lua_pop(L, 1);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, &order_key);
}

void bind_push_array_type(lua_State *L) {
  luaL_checkstack(L, 4, "JSON array");
  push_type(L, BIND_JSON_ARRAY, false);
}

void bind_make_object(lua_State *L) {
  luaL_checkstack(L, 6, "JSON object");
  push_type(L, BIND_JSON_OBJECT, true);
  lua_setmetatable(L, -2);
}

void bind_push_object_for(lua_State *L, size_t keys) {
  luaL_checkstack(L, 6, "JSON object");
  lua_createtable(L, 0, (int)keys);
  bind_make_object(L);
}

void bind_push_array_for(lua_State *L, size_t items) {
  luaL_checkstack(L, 6, "JSON array");
  lua_createtable(L, (int)items, 0);
  push_type(L, BIND_JSON_ARRAY, false);
  lua_setmetatable(L, -2);
}

void bind_push_object(lua_State *L) {
  bind_push_object_for(L, 0);
}

void bind_push_array(lua_State *L) {
  bind_push_array_for(L, 0);
}

void bind_object_set(lua_State *L, int index, const char *key, size_t key_len) {
  index = lua_absindex(L, index);
  lua_pushlstring(L, key, key_len);
  lua_insert(L, -2);
  lua_settable(L, index);
}
