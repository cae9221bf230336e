/* shared.c: plain data into shared trees and back as read-only tables; perigee.shared. */
#include "bind/shared.h"

#include <lauxlib.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "bind/bind.h"
#include "bind/gen.h"
#include "bind/hold.h"
#include "bind/text.h"
#include "run/state.h"
#include "text/json.h"
#include "text/tokens.h"

#define PROXY_TYPE "perigee.readonly"
#define HOLD_TYPE "perigee.hold.shared"
#define STORE_TYPE "perigee.store"

static const char node_key, cache_key, store_key, special_key; /* their addresses are keys */

/* ---- read-only tables ---- */

const struct shared *bind_test_shared(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index))
    return NULL;
  lua_pop(L, 1);
  index = lua_absindex(L, index);
  const struct shared *s = NULL;
  if (lua_rawgetp(L, index, &node_key) == LUA_TLIGHTUSERDATA)
    s = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return s;
}

static MAY_RAISE const struct shared *check_proxy(lua_State *L) {
  const struct shared *s = bind_test_shared(L, 1);
  luaL_argcheck(L, s, 1, "shared data expected");
  return s;
}

#define MAX_NAMES 64

/* The name at stack index 2 is none of the object's. */
static MAY_RAISE NORETURN void refuse_name(lua_State *L, const struct shared *s,
                                           const char *object) {
  const char *known[MAX_NAMES], *name = luaL_tolstring(L, 2, NULL);
  size_t n = 0;
  for (; n < MAX_NAMES && n < s->u.object.n; n++)
    known[n] = s->u.object.pairs[n].key;
  const char *near = err_nearest(name, known, n);
  if (near)
    bind_raise(L, "%s has no '%s' (did you mean '%s'?)", object, name, near);
  struct buf *list = bind_hold_buf(L);
  for (size_t i = 0; i < n; i++)
    buf_printf(list, "%s%s", i ? ", " : "", known[i]);
  bind_raise(L, "%s has no '%s' (there is: %s); the plan declares it, params = { %s = ... }",
             object, name, n ? list->data : "none", name);
}

static int proxy_index(lua_State *L) {
  const struct shared *s = check_proxy(L), *found = NULL;
  if (s->kind == SHARED_ARRAY && lua_isinteger(L, 2)) {
    lua_Integer i = lua_tointeger(L, 2);
    if (i >= 1 && (lua_Unsigned)i <= s->u.array.n)
      found = &s->u.array.items[i - 1];
  } else if (s->kind == SHARED_OBJECT && lua_type(L, 2) == LUA_TSTRING) {
    size_t len;
    const char *key = lua_tolstring(L, 2, &len);
    found = shared_get(s, key, len);
  }
  if (found) {
    bind_push_shared(L, found);
    return 1;
  }
  int special = LUA_TNIL;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &special_key) == LUA_TTABLE)
    special = lua_rawgetp(L, -1, s);
  if (special == LUA_TSTRING)
    refuse_name(L, s, lua_tostring(L, -1));
  if (special == LUA_TTABLE) {
    lua_pushvalue(L, 2);
    lua_gettable(L, -2); /* the methods may refuse a name */
    return 1;
  }
  lua_pushnil(L);
  return 1;
}

/* By node: what is on top, which is popped. */
static MAY_RAISE void set_special(lua_State *L, const struct shared *s) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &special_key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &special_key);
  }
  lua_insert(L, -2);
  lua_rawsetp(L, -2, s);
  lua_pop(L, 1);
}

void bind_shared_strict(lua_State *L, const struct shared *s, const char *name) {
  lua_pushstring(L, name);
  set_special(L, s);
}

void bind_shared_methods(lua_State *L, const struct shared *s) {
  set_special(L, s);
}

static int proxy_newindex(lua_State *L) {
  bind_raise(L, "shared data is read-only: every virtual user sees the same; copy what you change");
}

static int proxy_len(lua_State *L) {
  const struct shared *s = check_proxy(L);
  lua_pushinteger(L, s->kind == SHARED_ARRAY ? (lua_Integer)s->u.array.n : 0);
  return 1;
}

static int proxy_step(lua_State *L) { /* upvalue: position */
  const struct shared *s = check_proxy(L);
  size_t i = (size_t)lua_tointeger(L, lua_upvalueindex(1));
  size_t n = s->kind == SHARED_ARRAY ? s->u.array.n : s->u.object.n;
  if (i >= n) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushinteger(L, (lua_Integer)i + 1);
  lua_replace(L, lua_upvalueindex(1));
  if (s->kind == SHARED_ARRAY) {
    lua_pushinteger(L, (lua_Integer)i + 1);
    bind_push_shared(L, &s->u.array.items[i]);
  } else {
    lua_pushlstring(L, s->u.object.pairs[i].key, s->u.object.pairs[i].key_len);
    bind_push_shared(L, &s->u.object.pairs[i].value);
  }
  return 2;
}

static int proxy_pairs(lua_State *L) {
  check_proxy(L);
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, proxy_step, 1);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

/* One proxy per node and state while anybody holds it, so that equal nodes are equal tables. */
static MAY_RAISE void push_proxy(lua_State *L, const struct shared *s) {
  static const luaL_Reg meta[] = {{"__index", proxy_index},
                                  {"__newindex", proxy_newindex},
                                  {"__len", proxy_len},
                                  {"__pairs", proxy_pairs},
                                  {NULL, NULL}};
  luaL_checkstack(L, 6, "shared data");
  bind_push_weak(L, &cache_key, "v");
  if (lua_rawgetp(L, -1, s) != LUA_TTABLE) {
    lua_pop(L, 1);
    bind_new_type(L, PROXY_TYPE, meta, NULL);
    lua_createtable(L, 0, 1);
    lua_pushlightuserdata(L, (void *)s);
    lua_rawsetp(L, -2, &node_key);
    bind_set_type(L, PROXY_TYPE);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, s);
  }
  lua_remove(L, -2);
}

void bind_push_shared(lua_State *L, const struct shared *s) {
  luaL_checkstack(L, 2, "shared data");
  switch (s->kind) {
  case SHARED_NULL:
    lua_pushnil(L);
    break;
  case SHARED_BOOL:
    lua_pushboolean(L, s->u.boolean);
    break;
  case SHARED_INT:
    lua_pushinteger(L, s->u.integer);
    break;
  case SHARED_NUMBER:
    lua_pushnumber(L, s->u.number);
    break;
  case SHARED_STRING:
    lua_pushlstring(L, s->u.blob->data, s->u.blob->len);
    break;
  case SHARED_TEXT:
    bind_push_text(L, s->u.blob);
    break;
  case SHARED_ARRAY:
  case SHARED_OBJECT:
    push_proxy(L, s);
    break;
  }
}

/* ---- Lua -> shared ---- */

struct path {
  const struct path *up;
  const char *key; /* NULL: an element of a list */
  lua_Integer at;
};

static void write_path(struct buf *b, const struct path *p) {
  if (!p)
    return;
  write_path(b, p->up);
  if (p->key)
    buf_printf(b, ".%s", p->key);
  else
    buf_printf(b, "[%lld]", (long long)p->at);
}

static MAY_RAISE NORETURN void refuse(lua_State *L, const struct path *p, const char *what) {
  luaL_checkstack(L, 8, "message");
  struct buf *where = bind_hold_buf(L);
  if (p) {
    buf_puts(where, " (at ");
    write_path(where, p);
    buf_putc(where, ')');
  }
  bind_raise(L, "only plain data and texts can be shared between states, not %s%s", what,
             where->len ? where->data : "");
}

static MAY_RAISE void convert(lua_State *L, int index, struct shared *out, const struct path *path,
                              int depth);

static MAY_RAISE void convert_table(lua_State *L, int index, struct shared *out,
                                    const struct path *path, int depth) {
  if (depth >= JSON_MAX_DEPTH)
    refuse(L, NULL, "a table nested deeper than 200 (does it contain itself?)");
  luaL_checkstack(L, 12, "nested data");
  const struct shared *proxied = bind_test_shared(L, index);
  if (proxied) {
    *out = shared_copy(proxied);
    return;
  }
  bind_push_sorted_keys(L, index);
  int keys = lua_gettop(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, keys), length = (lua_Integer)lua_rawlen(L, index);
  bool list = bind_is_array(L, index) || (n > 0 && length == n);
  out->kind = list ? SHARED_ARRAY : SHARED_OBJECT;
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, keys, i);
    lua_pushvalue(L, -1);
    lua_rawget(L, index);
    size_t len = 0;
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &len) : NULL;
    struct path here = {.up = path, .key = list ? NULL : key, .at = i};
    if (list ? !lua_isinteger(L, -2) || lua_tointeger(L, -2) != i : !key)
      refuse(L, path, "a table with keys that are neither 1..n nor strings");
    struct shared *item = list ? shared_push(out) : shared_add(out, key, len);
    convert(L, lua_gettop(L), item, &here, depth + 1);
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
}

/* `out` is null and part of a tree that somebody frees when this raises. */
static void convert(lua_State *L, int index, struct shared *out, const struct path *path,
                    int depth) {
  switch (lua_type(L, index)) {
  case LUA_TNIL:
    break;
  case LUA_TBOOLEAN:
    *out = (struct shared){.kind = SHARED_BOOL, .u.boolean = lua_toboolean(L, index)};
    break;
  case LUA_TNUMBER:
    if (lua_isinteger(L, index))
      *out = (struct shared){.kind = SHARED_INT, .u.integer = lua_tointeger(L, index)};
    else
      *out = (struct shared){.kind = SHARED_NUMBER, .u.number = lua_tonumber(L, index)};
    break;
  case LUA_TSTRING: {
    size_t len;
    const char *s = lua_tolstring(L, index, &len);
    *out = (struct shared){.kind = SHARED_STRING, .u.blob = blob_new(s, len)};
    break;
  }
  case LUA_TTABLE:
    convert_table(L, index, out, path, depth);
    break;
  case LUA_TLIGHTUSERDATA:
    if (lua_touserdata(L, index))
      refuse(L, path, "a light userdata");
    break; /* json.null */
  case LUA_TUSERDATA:
    if (!bind_test_text(L, index))
      refuse(L, path, "a userdata");
    *out = (struct shared){.kind = SHARED_TEXT, .u.blob = blob_ref(bind_check_text(L, index))};
    lua_pop(L, 1);
    break;
  default:
    refuse(L, path, lua_type(L, index) == LUA_TFUNCTION ? "a function" : "a coroutine");
  }
}

void bind_to_shared(lua_State *L, int index, struct shared *out) {
  luaL_checkstack(L, 12, "shared data");
  convert(L, lua_absindex(L, index), out, NULL, 0);
  shared_seal(out);
}

/* ---- owners ---- */

static int hold_gc(lua_State *L) {
  shared_free(luaL_checkudata(L, 1, HOLD_TYPE));
  return 0;
}

struct shared *bind_hold_shared(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", hold_gc}, {"__close", hold_gc}, {NULL, NULL}};
  bind_new_type(L, HOLD_TYPE, meta, NULL);
  return bind_new_userdata(L, sizeof(struct shared), HOLD_TYPE); /* cleared = SHARED_NULL */
}

static int store_gc(lua_State *L) {
  struct store **s = luaL_checkudata(L, 1, STORE_TYPE);
  store_delete(*s);
  *s = NULL;
  return 0;
}

/* The run's store; outside a run one of the state's own, which lives as long as the state. */
static MAY_RAISE struct store *store_for(lua_State *L) {
  const struct state *s = state_of(L);
  if (s)
    return s->options.store;
  static const luaL_Reg meta[] = {{"__gc", store_gc}, {NULL, NULL}};
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &store_key) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    bind_new_type(L, STORE_TYPE, meta, NULL);
    struct store **own = bind_new_userdata(L, sizeof *own, STORE_TYPE);
    *own = store_new();
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &store_key);
  }
  struct store *store = *(struct store **)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return store;
}

static int build(lua_State *L) { /* (fn, held tree) */
  struct shared *tree = lua_touserdata(L, 2);
  lua_pushvalue(L, 1);
  lua_call(L, 0, 1);
  bind_to_shared(L, -1, tree);
  return 0;
}

/* Texts are made for a tokenizer, so what was made for another one (when the plan was read, before
 * the fleet was known) is another thing. */
static MAY_RAISE const char *push_key(lua_State *L, int index) {
  struct gen_tokens tokens = bind_gen_tokens(L);
  if (tokens.exact && tokens.bytes_per_token == 1)
    lua_pushvalue(L, index);
  else if (tokens.encoder)
    lua_pushfstring(L, "%s, for %s", lua_tostring(L, index), tokens.encoder->tokens->name);
  else
    lua_pushfstring(L, "%s, at %f bytes a token", lua_tostring(L, index),
                    (lua_Number)tokens.bytes_per_token);
  return lua_tostring(L, -1);
}

int bind_shared(lua_State *L) {
  luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  const char *name = push_key(L, 1);
  lua_replace(L, 1);
  struct store *store = store_for(L);
  struct state *s = state_of(L);
  struct shared *tree = bind_hold_shared(L);
  enum store_answer answer;
  const struct shared *found;
  struct err err;
  if (s)
    state_block(s, true);
  int rc = store_enter(store, name, s ? (const void *)s : L, &answer, &found, &err);
  if (s)
    state_block(s, false);
  if (rc)
    bind_raise(L, "%s", err.text);
  if (answer == STORE_READY) {
    bind_push_shared(L, found);
    return 1;
  }
  lua_pushcfunction(L, build); /* no room is needed that the stack does not have */
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) {
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error";
    store_fail(store, name, text);
    return lua_error(L);
  }
  bind_push_shared(L, store_put(store, name, tree));
  return 1;
}
