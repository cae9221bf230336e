/* guarddebug.c: what the debug library would let a script do to values that are C's.
 *
 * A C function takes for granted what is in its upvalues, in its stack and behind its userdata; a
 * script that puts something else there ends the process. So these functions are for the script's
 * own values only: Lua functions, and tables. */
#include <lauxlib.h>
#include <limits.h>
#include <lua.h>

#include "bind/guard.h"
#include "bind/hold.h"
#include "run/state.h"

static MAY_RAISE int original(lua_State *L) {
  return lua_tocfunction(L, lua_upvalueindex(1))(L); /* as if it had been called itself */
}

static MAY_RAISE void refuse_function(lua_State *L, int index, const char *what) {
  if (lua_iscfunction(L, index))
    bind_raise(L, "%s: this function is written in C, and its upvalues are its own", what);
}

static MAY_RAISE void refuse_userdata(lua_State *L, const char *what) {
  if (lua_type(L, 1) == LUA_TUSERDATA)
    bind_raise(L, "%s: this userdata belongs to the C code that made it", what);
}

static int guarded_getupvalue(lua_State *L) {
  if (state_of(L)) /* what it finds there may be the registry's: see getregistry */
    refuse_function(L, 1, "debug.getupvalue");
  return original(L);
}

static int guarded_setupvalue(lua_State *L) {
  refuse_function(L, 1, "debug.setupvalue");
  return original(L);
}

static int guarded_upvaluejoin(lua_State *L) {
  refuse_function(L, 1, "debug.upvaluejoin");
  refuse_function(L, 3, "debug.upvaluejoin");
  return original(L);
}

static int guarded_setuservalue(lua_State *L) {
  refuse_userdata(L, "debug.setuservalue");
  return original(L);
}

static int guarded_setmetatable(lua_State *L) {
  refuse_userdata(L, "debug.setmetatable");
  return original(L);
}

static int guarded_setlocal(lua_State *L) { /* [thread,] level, local, value */
  lua_State *of = lua_isthread(L, 1) ? lua_tothread(L, 1) : L;
  lua_Debug ar;
  lua_Integer level = luaL_checkinteger(L, lua_isthread(L, 1) ? 2 : 1);
  if (level >= 0 && level < INT_MAX && lua_getstack(of, (int)level, &ar) &&
      lua_getinfo(of, "S", &ar) && *ar.what == 'C')
    bind_raise(L, "debug.setlocal: this function is written in C, and its stack is its own");
  return original(L);
}

static int guarded_getregistry(lua_State *L) {
  if (state_of(L))
    bind_raise(L, "debug.getregistry: what is in the registry is the C code's own");
  return original(L); /* tools look around in it */
}

void bind_guarddebug_open(lua_State *L) {
  static const luaL_Reg guards[] = {
      {"getupvalue", guarded_getupvalue},     {"setupvalue", guarded_setupvalue},
      {"upvaluejoin", guarded_upvaluejoin},   {"setuservalue", guarded_setuservalue},
      {"setmetatable", guarded_setmetatable}, {"setlocal", guarded_setlocal},
      {"getregistry", guarded_getregistry},
  };
  lua_getglobal(L, "debug");
  for (size_t i = 0; i < ARRAY_LEN(guards); i++) {
    lua_getfield(L, -1, guards[i].name);
    lua_pushcclosure(L, guards[i].func, 1);
    lua_setfield(L, -2, guards[i].name);
  }
  lua_pop(L, 1);
}
