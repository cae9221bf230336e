/* guard.h: what a script finds in place of the standard functions that would make a session depend
 * on the machine, hide that it must stop, or wait behind the loop's back. */
#ifndef BIND_GUARD_H
#define BIND_GUARD_H

#include <lua.h>

#include "base/base.h"

/* Replaces pairs, next, print, collectgarbage, setmetatable, math.random, math.randomseed, os.time,
 * os.clock, os.date, os.exit, debug.sethook, debug.setmetatable, and opens the three below. In a
 * state that is no run's they behave as Lua's own, except that pairs and next walk in canonical
 * order. Once per state, after luaL_openlibs. */
MAY_RAISE void bind_guard_open(lua_State *L);
/* bind/stoppable.c: pcall, xpcall, the coroutine functions, and what string, table and utf8 do in C
 * for as long as it takes. */
MAY_RAISE void bind_stoppable_open(lua_State *L);
/* A Lua function of C, its upvalue, which may take long: a look at the clock before it. */
MAY_RAISE int bind_timed(lua_State *L);
/* bind/quick.c: string.format and tostring, their upvalue, with less ado for whole numbers and
 * short strings. */
MAY_RAISE int bind_quick_format(lua_State *L);
MAY_RAISE int bind_quick_tostring(lua_State *L);
/* bind/guardio.c: io and os functions that wait for others. */
MAY_RAISE void bind_guardio_open(lua_State *L);
/* bind/guarddebug.c: debug functions that would change what C functions and userdata hold. */
MAY_RAISE void bind_guarddebug_open(lua_State *L);
/* For states whose process writes its own standard output: io.stdout and io.write are standard
 * error's from now on. */
MAY_RAISE void bind_keep_stdout(lua_State *L);

#endif
