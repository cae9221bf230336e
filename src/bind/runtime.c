/* runtime.c: module perigee.runtime, the C half of module perigee: parameters and what --set makes
 * of them, the types of plans and loads, where the plan stands. */
#include "bind/runtime.h"

#include <lauxlib.h>
#include <string.h>

#include "bind/hold.h"
#include "bind/shared.h"
#include "run/state.h"
#include "version.h"

static const char declared_key, place_key; /* their addresses are registry keys */

/* version() */
static int runtime_version(lua_State *L) {
  lua_pushliteral(L, PERIGEE_VERSION);
  return 1;
}

/* set(name) -> the text of --set name=text (the last one), or nil */
static int runtime_set(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  const struct state *s = state_of(L);
  lua_pushnil(L);
  for (size_t i = 0; s && i < s->options.n_sets; i++) {
    if (strcmp(s->options.sets[i].name, name) == 0) {
      lua_pop(L, 1);
      lua_pushstring(L, s->options.sets[i].value);
    }
  }
  return 1;
}

/* route() -> the name of the policy that the sweep's point is for, or nil */
static int runtime_route(lua_State *L) {
  const struct state *s = state_of(L);
  lua_pushstring(L, s ? s->options.route : NULL);
  return 1;
}

void bind_push_declared(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &declared_key) == LUA_TTABLE)
    return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &declared_key);
}

/* declared() -> the list that bind_push_declared pushes */
static int runtime_declared(lua_State *L) {
  bind_push_declared(L);
  return 1;
}

/* declare(name, default, doc, value) -> the value; declared twice, the first time counts. */
static int runtime_declare(lua_State *L) {
  luaL_checkstring(L, 1);
  lua_settop(L, 4);
  bind_push_declared(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 5);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 5, i);
    lua_getfield(L, -1, "name");
    if (lua_rawequal(L, -1, 1)) {
      int before = lua_getfield(L, -2, "default"), now = lua_type(L, 2);
      if (before != now)
        bind_raise(L,
                   "parameter %s is declared twice, with a %s and a %s as its default: give one "
                   "of them another name",
                   lua_tostring(L, 1), lua_typename(L, before), lua_typename(L, now));
      lua_pop(L, 1);
      lua_getfield(L, -2, "value");
      return 1;
    }
    lua_pop(L, 2);
  }
  static const char *const fields[] = {"name", "default", "doc", "value"};
  lua_createtable(L, 0, 4);
  for (int i = 0; i < 4; i++) {
    lua_pushvalue(L, i + 1);
    lua_setfield(L, -2, fields[i]);
  }
  lua_rawseti(L, 5, n + 1);
  lua_pushvalue(L, 4);
  return 1;
}

/* plan_type(), sweep_type(), load_type(): metatables */
static MAY_RAISE int push_type(lua_State *L, const char *name) {
  static const luaL_Reg meta[] = {{NULL, NULL}};
  bind_new_type(L, name, meta, NULL);
  luaL_getmetatable(L, name);
  return 1;
}

static int runtime_plan_type(lua_State *L) {
  return push_type(L, STATE_PLAN_TYPE);
}

static int runtime_sweep_type(lua_State *L) {
  return push_type(L, STATE_SWEEP_TYPE);
}

static int runtime_load_type(lua_State *L) {
  return push_type(L, BIND_LOAD_TYPE);
}

/* place(): notes the author's line, or while the script loads the line it is at, because `return
 * perigee.plan { … }` is a tail call that leaves no frame. Nothing when there is neither. */
static int runtime_place(lua_State *L) {
  bind_push_author_line(L);
  const struct state *s = state_of(L);
  size_t len;
  const char *place = lua_tolstring(L, -1, &len);
  if (len > 2)
    lua_pushlstring(L, place, len - 2); /* without the ": " */
  else if (s && s->load_line > 0)
    lua_pushfstring(L, "%s:%d", s->options.script, s->load_line);
  else
    return 0;
  lua_rawsetp(L, LUA_REGISTRYINDEX, &place_key);
  return 0;
}

void bind_push_place(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &place_key);
}

int luaopen_perigee_runtime(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"version", runtime_version},
      {"set", runtime_set},
      {"declare", runtime_declare},
      {"declared", runtime_declared},
      {"shared", bind_shared},
      {"plan_type", runtime_plan_type},
      {"load_type", runtime_load_type},
      {"place", runtime_place},
      {"sweep_type", runtime_sweep_type},
      {"route", runtime_route},
      {NULL, NULL},
  };
  luaL_newlib(L, functions);
  return 1;
}
