/* guard.h: what a script finds in place of the standard functions that would make a session depend
 * on the machine, hide that it must stop, or wait behind the loop's back. */
#ifndef BIND_GUARD_H
#define BIND_GUARD_H

#include <lua.h>

#include "base/base.h"

/* Replaces pairs, next, print, pcall, xpcall, collectgarbage, math.random, math.randomseed,
 * os.time, os.clock, os.date, os.exit, coroutine.yield, resume and close, debug.sethook. In a state
 * that is no run's they behave as Lua's own, except that pairs and next walk in canonical order.
 * Once per state, after luaL_openlibs. */
MAY_RAISE void bind_guard_open(lua_State *L);

#endif
