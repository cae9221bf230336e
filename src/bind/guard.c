/* guard.c: the standard functions that a session cannot have as they are.
 *
 * Most keep Lua's own function as their upvalue and call it where nothing speaks against it:
 * outside a run, or while a module is loading. */
#include "bind/guard.h"

#include <lauxlib.h>
#include <string.h>

#include "base/log.h"
#include "bind/bind.h"
#include "bind/chunk.h"
#include "bind/hold.h"
#include "bind/limit.h"
#include "run/state.h"

/* Whether a virtual user's session runs right now (its own coroutines included). */
static bool in_session(lua_State *L) {
  const struct state *s = state_of(L);
  return s && s->running;
}

static MAY_RAISE int call_original(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* ---- order ---- */

static int pairs_step(lua_State *L) { /* upvalues: keys, position */
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer i = lua_tointeger(L, lua_upvalueindex(2));
  for (;;) {
    lua_settop(L, 1);
    if (lua_rawgeti(L, lua_upvalueindex(1), ++i) == LUA_TNIL)
      return 1;
    lua_pushvalue(L, -1);
    if (lua_rawget(L, 1) != LUA_TNIL) /* not removed since */
      break;
  }
  lua_pushinteger(L, i);
  lua_replace(L, lua_upvalueindex(2));
  return 2;
}

static int after_pairs_method(lua_State *L, int status, lua_KContext context) {
  (void)L;
  (void)status;
  (void)context;
  return 3;
}

/* Keys in canonical order, as they were when the walk began. */
static int sorted_pairs(lua_State *L) {
  luaL_checkany(L, 1);
  if (luaL_getmetafield(L, 1, "__pairs") != LUA_TNIL) {
    lua_pushvalue(L, 1);
    lua_callk(L, 1, 3, 0, after_pairs_method);
    return 3;
  }
  luaL_checktype(L, 1, LUA_TTABLE);
  if (bind_push_sorted_keys(L, 1) > 1 && in_session(L))
    bind_raise(L, "pairs: a table keyed by tables or functions has no order that is the same "
                  "everywhere; walk a list instead");
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, pairs_step, 2);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

static int sorted_next(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  if (!bind_next_key(L, 1)) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushvalue(L, -1);
  lua_gettable(L, 1); /* shared data has its values behind __index */
  return 2;
}

/* ---- metatables ---- */

static MAY_RAISE void check_metatable(lua_State *L, const char *what) {
  if (lua_type(L, 2) != LUA_TTABLE)
    return;
  lua_pushliteral(L, "__gc");
  if (lua_rawget(L, 2) != LUA_TNIL && (state_of(L) || bind_limit_known(L)))
    bind_raise(L,
               "%s: a __gc of a script's own could not be stopped and would run in any user's "
               "time: use a `local x <close>` with __close, or end it yourself",
               what);
  lua_pop(L, 1);
  bind_tame_concat(L, 2);
}

static int guarded_setmetatable(lua_State *L) {
  check_metatable(L, "setmetatable");
  return call_original(L);
}

static int guarded_debug_setmetatable(lua_State *L) {
  check_metatable(L, "debug.setmetatable");
  return call_original(L);
}

/* ---- time, chance and the process ---- */

static int no_random(lua_State *L) {
  if (state_of(L))
    bind_raise(L, "math.random differs from run to run: draw from vu.rng (vu.rng:int(1, 6), "
                  "vu.rng:unit()), which the seed decides");
  return call_original(L);
}

static int no_seed(lua_State *L) {
  if (in_session(L))
    bind_raise(L, "math.randomseed has no effect here: vu.rng is seeded by --seed and the session");
  return call_original(L);
}

static int no_time(lua_State *L) {
  if (in_session(L) && !lua_istable(L, 1))
    bind_raise(L, "os.time differs from run to run: use vu:now(), seconds since the run began");
  return call_original(L);
}

static int no_clock(lua_State *L) {
  if (in_session(L))
    bind_raise(L, "os.clock counts all virtual users' CPU time: use vu:now() for times, "
                  "vu:record for figures");
  return call_original(L);
}

static int no_date(lua_State *L) {
  if (in_session(L) && lua_isnoneornil(L, 2))
    bind_raise(L, "os.date without a time differs from run to run: give it one, "
                  "os.date(\"!%%F\", 0), or use vu:now()");
  return call_original(L);
}

static int no_exit(lua_State *L) {
  if (state_of(L))
    bind_raise(L,
               "os.exit would end every virtual user: return from the session, or vu:fail(class, "
               "detail) to count it as failed");
  if (bind_limit_holds(L)) /* a spec, a fleet file: its reader has more to do */
    bind_raise(L, "os.exit would end perigee before it has done what it was asked for: return, or "
                  "error(\"why\")");
  return call_original(L);
}

static int no_hook(lua_State *L) {
  if (state_of(L))
    bind_raise(L, "debug.sethook belongs to the run here: it stops sessions that never wait");
  return call_original(L);
}

static int guarded_collect(lua_State *L) {
  const char *what = luaL_optstring(L, 1, "collect");
  if (bind_collector_held(L) && strcmp(what, "count") != 0)
    return 0; /* a cycle would move the stack of a `..` that is being worked out */
  if (state_of(L) && strcmp(what, "count") != 0) {
    if (in_session(L))
      bind_raise(L, "collectgarbage(\"%s\"): the run steps the collector when nothing else happens",
                 what);
    if (strcmp(what, "collect") != 0 && strcmp(what, "step") != 0)
      return 0; /* a module's own idea of modes and pauses */
  }
  return call_original(L);
}

/* print: to the run's log line by line, so that the live line stays whole. */
static int guarded_print(lua_State *L) {
  const struct state *s = state_of(L);
  if (!s)
    return call_original(L);
  int n = lua_gettop(L);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (int i = 1; i <= n; i++) {
    if (i > 1)
      luaL_addchar(&b, '\t');
    luaL_tolstring(L, i, NULL);
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
  size_t len;
  const char *line = lua_tolstring(L, -1, &len);
  if (s->options.print)
    s->options.print(s->options.print_user, line, len);
  else
    log_warn("print %s", line);
  return 0;
}

/* ---- */

/* library.name = fn with the present function as upvalue */
static MAY_RAISE void replace(lua_State *L, const char *library, const char *name,
                              lua_CFunction fn) {
  lua_getglobal(L, library);
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, fn, 1);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

void bind_guard_open(lua_State *L) {
  static const struct {
    const char *library, *name;
    lua_CFunction fn;
  } guards[] = {
      {"_G", "pairs", sorted_pairs},
      {"_G", "next", sorted_next},
      {"_G", "print", guarded_print},
      {"_G", "collectgarbage", guarded_collect},
      {"_G", "setmetatable", guarded_setmetatable},
      {"debug", "setmetatable", guarded_debug_setmetatable},
      {"math", "random", no_random},
      {"math", "randomseed", no_seed},
      {"os", "time", no_time},
      {"os", "clock", no_clock},
      {"os", "date", no_date},
      {"os", "exit", no_exit},
      {"debug", "sethook", no_hook},
  };
  for (size_t i = 0; i < ARRAY_LEN(guards); i++)
    replace(L, guards[i].library, guards[i].name, guards[i].fn);
  bind_stoppable_open(L);
  bind_guarddebug_open(L);
  bind_guardio_open(L);
}
