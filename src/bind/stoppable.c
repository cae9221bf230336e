/* stoppable.c: what must stop does stop: protected calls, coroutines and long-running C functions.
 *
 * A run stops a script by raising from Lua's count hook. Lua keeps hooks off from that raise until
 * a protected call of the same coroutine has caught it, so whatever of the script's would run in
 * between (message handlers, __close of a dead coroutine) could loop unseen: it is left out then.
 * The hook counts Lua's instructions, so C functions look at the clock themselves. */
#include <lauxlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/guard.h"
#include "bind/hold.h"
#include "bind/limit.h"
#include "run/state.h"

static const char stopped_key; /* registry: the coroutines that were stopped, weakly */

bool bind_must_stop(lua_State *L) {
  struct state *s = state_of(L);
  return s ? state_must_stop(s) : bind_limit_stopped(L) != NULL;
}

/* ---- protected calls: what must stop goes on through them ---- */

static MAY_RAISE int end_pcall(lua_State *L, int status, int first) {
  bool failed = status != LUA_OK && status != LUA_YIELD;
  if (failed && bind_must_stop(L))
    return lua_error(L); /* the error value is on top */
  if (status == LUA_ERRMEM && state_of(L)) {
    char text[400];
    state_memory_error(state_of(L), text, sizeof text);
    lua_pushstring(L, text);
    lua_replace(L, -2);
  }
  lua_pushboolean(L, !failed);
  if (failed) {
    lua_insert(L, -2);
    return 2;
  }
  lua_replace(L, first);
  return lua_gettop(L) - first + 1;
}

static int after_pcall(lua_State *L, int status, lua_KContext first) {
  return end_pcall(L, status, (int)first);
}

static int guarded_pcall(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, 1); /* its place becomes the first result */
  lua_insert(L, 1);
  int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 1, after_pcall);
  return end_pcall(L, status, 1);
}

/* The script's message handler (the upvalue), unless what raised is a stop. */
static int call_handler(lua_State *L) {
  lua_settop(L, 1);
  if (bind_must_stop(L))
    return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

void bind_push_handler(lua_State *L, int index) {
  lua_pushvalue(L, index);
  lua_pushcclosure(L, call_handler, 1);
}

static int guarded_xpcall(lua_State *L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  int n = lua_gettop(L);
  bind_push_handler(L, 2);
  lua_replace(L, 2);
  lua_pushboolean(L, 1);
  lua_pushvalue(L, 1); /* f, handler, args…, true, f */
  lua_rotate(L, 3, 2); /* f, handler, true, f, args… */
  int status = lua_pcallk(L, n - 2, LUA_MULTRET, 2, 3, after_pcall);
  return end_pcall(L, status, 3);
}

/* ---- coroutines of the script's own ---- */

static int guarded_yield(lua_State *L) {
  if (state_vu_of(L, NULL))
    bind_raise(L, "coroutine.yield outside a coroutine of your own: a session waits with vu "
                  "methods");
  return lua_yield(L, lua_gettop(L));
}

static MAY_RAISE void check_foreign(lua_State *L, lua_State *co, const char *what) {
  if (co && co != L && state_vu_of(co, NULL))
    bind_raise(L, "coroutine.%s: a virtual user's own coroutine is resumed by the run", what);
}

/* After a resume: a stop goes on, and the coroutine it went through is never closed. */
static MAY_RAISE void pass_stop(lua_State *L, lua_State *co) {
  const struct state *s = state_of(L);
  if (!bind_must_stop(L))
    return;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &stopped_key);
  lua_pushthread(co);
  lua_xmove(co, L, 1);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pushstring(L, s ? s->stop_text : bind_limit_stopped(L));
  lua_error(L);
}

static bool was_stopped(lua_State *L, int index) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &stopped_key);
  lua_pushvalue(L, index);
  bool stopped = lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 2);
  return stopped;
}

static int guarded_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  check_foreign(L, co, "resume");
  int n = lua_tocfunction(L, lua_upvalueindex(1))(L); /* as if it had been called itself */
  if (co && lua_checkstack(co, 1) && lua_checkstack(L, 4))
    pass_stop(L, co);
  return n;
}

static int guarded_close(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  check_foreign(L, co, "close");
  if (co && was_stopped(L, 1)) {
    lua_pushboolean(L, 0);
    lua_pushliteral(L, "this coroutine was stopped");
    return 2;
  }
  return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* What coroutine.wrap gives; upvalue: the coroutine. */
static int resume_wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  int n_args = lua_gettop(L), n = 0;
  check_foreign(L, co, "wrap");
  if (lua_status(co) == LUA_OK && lua_gettop(co) == 0)
    return luaL_error(L, "cannot resume dead coroutine");
  if (!lua_checkstack(co, n_args))
    return luaL_error(L, "too many arguments to resume");
  lua_xmove(L, co, n_args);
  int status = lua_resume(co, L, n_args, &n);
  if (lua_checkstack(co, 1))
    pass_stop(L, co);
  if (status == LUA_OK || status == LUA_YIELD) {
    if (!lua_checkstack(L, n))
      return luaL_error(L, "too many results to resume");
    lua_xmove(co, L, n);
    return n;
  }
  status = lua_status(co);
  bool own = status != LUA_OK && status != LUA_YIELD; /* else it could not be resumed */
  if (own)
    status = lua_resetthread(co);
  lua_xmove(co, L, 1);
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int guarded_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, resume_wrapped, 1);
  return 1;
}

/* ---- C functions that may take long ---- */

int bind_timed(lua_State *L) {
  state_check_time(L);
  if (!state_of(L))
    bind_limit_check(L);
  return lua_tocfunction(L, lua_upvalueindex(1))(L); /* as if it had been called itself */
}

/* string.rep in a loop, table.move over a billion places… Those left out are quick whatever they
 * are given. */
static MAY_RAISE void time_library(lua_State *L, const char *library) {
  static const char *const quick[] = {"byte", "char", "len", "packsize", "codepoint", "pack"};
  lua_getglobal(L, library);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    bool is_quick = false;
    for (size_t i = 0; i < ARRAY_LEN(quick); i++)
      is_quick = is_quick || strcmp(lua_tostring(L, -2), quick[i]) == 0;
    if (lua_iscfunction(L, -1) && !is_quick) {
      bool format = strcmp(lua_tostring(L, -2), "format") == 0;
      lua_pushcclosure(L, format ? bind_quick_format : bind_timed, 1);
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, -4); /* an existing key: the walk goes on */
    } else {
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

/* ---- */

static MAY_RAISE void keep_stopped(lua_State *L) {
  bind_push_weak(L, &stopped_key, "k");
  lua_pop(L, 1);
}

void bind_stoppable_open(lua_State *L) {
  static const struct {
    const char *library, *name;
    lua_CFunction fn;
  } guards[] = {
      {"_G", "pcall", guarded_pcall},          {"_G", "xpcall", guarded_xpcall},
      {"coroutine", "yield", guarded_yield},   {"coroutine", "resume", guarded_resume},
      {"coroutine", "close", guarded_close},   {"coroutine", "wrap", guarded_wrap},
      {"_G", "tostring", bind_quick_tostring},
  };
  keep_stopped(L);
  for (size_t i = 0; i < ARRAY_LEN(guards); i++) {
    lua_getglobal(L, guards[i].library);
    lua_getfield(L, -1, guards[i].name);
    lua_pushcclosure(L, guards[i].fn, 1);
    lua_setfield(L, -2, guards[i].name);
    lua_pop(L, 1);
  }
  time_library(L, "string");
  time_library(L, "table");
  time_library(L, "utf8");
}
