/* hold.c: userdata that own C memory, and errors that name the author's line. */
#include "bind/hold.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bind/bind.h"
#include "run/state.h"

#define VALUE_TYPE "perigee.hold.value"
#define BUF_TYPE "perigee.hold.buf"

/* Pushes the metatable of that name, or nil. The registry has it under its name and, found faster,
 * under the address of the name. */
static int push_type(lua_State *L, const char *type) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, type) == LUA_TTABLE)
    return LUA_TTABLE;
  lua_pop(L, 1);
  if (luaL_getmetatable(L, type) != LUA_TTABLE)
    return LUA_TNIL;
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, type);
  return LUA_TTABLE;
}

void bind_set_type(lua_State *L, const char *type) {
  push_type(L, type);
  lua_setmetatable(L, -2);
}

void *bind_new_userdata(lua_State *L, size_t size, const char *type) {
  void *p = lua_newuserdatauv(L, size, 0);
  memset(p, 0, size);
  bind_set_type(L, type);
  return p;
}

void *bind_test_userdata(lua_State *L, int index, const char *type) {
  void *p = lua_touserdata(L, index);
  if (!p || !lua_getmetatable(L, index))
    return NULL;
  push_type(L, type);
  bool is = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return is ? p : NULL;
}

void *bind_check_userdata(lua_State *L, int index, const char *type) {
  void *p = bind_test_userdata(L, index, type);
  return p ? p : luaL_checkudata(L, index, type); /* has the words */
}

/* "perigee.rng" -> "rng", as scripts call such an object */
static const char *short_name(const char *type) {
  const char *dot = strrchr(type, '.');
  return dot ? dot + 1 : type;
}

#define MAX_METHODS 32

/* __index of a type's methods, for a name that is none; upvalues: the type's short name, methods */
static int unknown_method(lua_State *L) {
  const char *known[MAX_METHODS], *object = lua_tostring(L, lua_upvalueindex(1));
  size_t n = 0;
  lua_settop(L, 2);
  const char *name = luaL_tolstring(L, 2, NULL);
  bind_push_sorted_keys(L, lua_upvalueindex(2));
  for (; n < MAX_METHODS && lua_rawgeti(L, 4, (lua_Integer)n + 1) == LUA_TSTRING; n++) {
    known[n] = lua_tostring(L, -1); /* the methods keep it alive */
    lua_pop(L, 1);
  }
  const char *near = err_nearest(name, known, n);
  bind_raise(L, "%s has no '%s'%s%s%s", object, name, near ? " (did you mean '" : "",
             near ? near : "", near ? "'?)" : "");
}

void bind_push_weak(lua_State *L, const void *key, const char *mode) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) != LUA_TNIL)
    return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

void bind_name_module(lua_State *L, const char *name) {
  lua_createtable(L, 0, 1);
  lua_pushstring(L, name);
  lua_pushvalue(L, -3);
  lua_pushcclosure(L, unknown_method, 2);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
}

/* Raises for a method that was called on something else: the running C function, found among the
 * type's methods. */
static MAY_RAISE NORETURN void refuse_self(lua_State *L, const char *type) {
  lua_Debug ar;
  const char *object = short_name(type);
  if (lua_getstack(L, 0, &ar) && lua_getinfo(L, "f", &ar) &&
      luaL_getmetatable(L, type) == LUA_TTABLE && lua_getfield(L, -1, "__index") == LUA_TTABLE) {
    int running = lua_gettop(L) - 2;
    lua_pushnil(L);
    while (lua_next(L, -2)) {
      if (lua_rawequal(L, running, -1)) {
        const char *name = lua_tostring(L, -2);
        bind_raise(L, "%s:%s: call it with a colon, %s:%s(...)", object, name, object, name);
      }
      lua_pop(L, 1);
    }
  }
  bind_raise(L, "%s: its methods are called with a colon, as in %s:method(...)", object, object);
}

void *bind_check_self(lua_State *L, const char *type) {
  void *self = bind_test_userdata(L, 1, type);
  if (!self)
    refuse_self(L, type);
  return self;
}

void bind_new_type(lua_State *L, const char *type, const luaL_Reg *meta, const luaL_Reg *methods) {
  /* The name is entered last: a state that ran out of memory here must not find half a type. */
  bool known = push_type(L, type) == LUA_TTABLE;
  lua_pop(L, 1);
  if (known)
    return;
  lua_newtable(L);
  luaL_setfuncs(L, meta, 0);
  if (methods) {
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_createtable(L, 0, 1); /* what the methods' table has not */
    lua_pushstring(L, short_name(type));
    lua_pushvalue(L, -3);
    lua_pushcclosure(L, unknown_method, 2);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "__index");
  }
  lua_pushstring(L, type);
  lua_setfield(L, -2, "__name");
  lua_setfield(L, LUA_REGISTRYINDEX, type);
}

static int value_gc(lua_State *L) {
  value_free(luaL_checkudata(L, 1, VALUE_TYPE));
  return 0;
}

struct value *bind_hold_value(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", value_gc}, {"__close", value_gc}, {NULL, NULL}};
  bind_new_type(L, VALUE_TYPE, meta, NULL);
  struct value *v = bind_new_userdata(L, sizeof *v, VALUE_TYPE);
  *v = value_null();
  return v;
}

static int buf_gc(lua_State *L) {
  buf_free(luaL_checkudata(L, 1, BUF_TYPE));
  return 0;
}

struct buf *bind_hold_buf(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", buf_gc}, {"__close", buf_gc}, {NULL, NULL}};
  bind_new_type(L, BUF_TYPE, meta, NULL);
  struct buf *b = bind_new_userdata(L, sizeof *b, BUF_TYPE);
  buf_init(b, BUF_MAX_OWN);
  return b;
}

#define SCRATCH_KEPT ((size_t)64 << 10) /* a larger buffer is given back after use */

static const char scratch_value_key, scratch_buf_key; /* their addresses are registry keys */

struct value *bind_scratch_value(lua_State *L) {
  struct value *v;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &scratch_value_key) == LUA_TNIL) {
    v = bind_hold_value(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &scratch_value_key);
  } else {
    v = lua_touserdata(L, -1);
    value_free(v);
    *v = value_null();
  }
  lua_pop(L, 1);
  return v;
}

struct buf *bind_scratch_buf(lua_State *L) {
  struct state *s = state_of(L);
  struct buf *b = s ? s->scratch : NULL;
  if (!b) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &scratch_buf_key) == LUA_TNIL) {
      b = bind_hold_buf(L);
      lua_rawsetp(L, LUA_REGISTRYINDEX, &scratch_buf_key);
    } else {
      b = lua_touserdata(L, -1);
    }
    lua_pop(L, 1);
    if (s)
      s->scratch = b;
  }
  if (b->cap > SCRATCH_KEPT)
    buf_free(b);
  buf_reset(b);
  return b;
}

/* The level of the nearest caller that is neither C nor one of perigee's own modules, *ar with it;
 * −1: none. */
static MAY_RAISE int author_level(lua_State *L, lua_Debug *ar) {
  for (int level = 1; lua_getstack(L, level, ar); level++) {
    lua_getinfo(L, "Sl", ar);
    if (ar->currentline > 0 && strncmp(ar->source, "@perigee/", 9) != 0)
      return level;
  }
  return -1;
}

void bind_push_author_line(lua_State *L) {
  lua_Debug ar;
  if (author_level(L, &ar) >= 0)
    lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
  else
    lua_pushliteral(L, "");
}

/* Whether the author wrote `perigee:plan {…}`: a method call of ours whose object is a module.
 * Pushes what is then to be said in place of what the function makes of its arguments. */
static MAY_RAISE bool push_dot_for_colon(lua_State *L) {
  lua_Debug ar;
  int top = lua_gettop(L), level = author_level(L, &ar);
  if (level < 1 || !lua_getstack(L, level - 1, &ar) || !lua_getinfo(L, "nt", &ar))
    return false;
  bool named = ar.name && strcmp(ar.namewhat, "method") == 0; /* a tail call of ours has no name */
  if ((!named && !ar.istailcall) || !lua_getlocal(L, &ar, 1))
    return false;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushnil(L);
  while (lua_istable(L, top + 1) && lua_next(L, top + 2)) {
    if (lua_rawequal(L, -1, top + 1) && lua_type(L, -2) == LUA_TSTRING) {
      const char *module = short_name(lua_tostring(L, -2));
      const char *name = named ? ar.name : "function";
      lua_pushfstring(L, "%s.%s: call it with a dot, %s.%s, not with a colon", module, name, module,
                      name);
      lua_replace(L, top + 1);
      lua_settop(L, top + 1);
      return true;
    }
    lua_pop(L, 1);
  }
  lua_settop(L, top);
  return false;
}

void bind_raise(lua_State *L, const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  luaL_checkstack(L, 8, "message");
  bind_push_author_line(L);
  if (!push_dot_for_colon(L))
    lua_pushstring(L, text);
  lua_concat(L, 2);
  lua_error(L);
  assert(0 && "lua_error returned");
  __builtin_unreachable();
}
