/* runtime.h: what lua/perigee/init.lua needs of C, and what a loaded script left behind. */
#ifndef BIND_RUNTIME_H
#define BIND_RUNTIME_H

#include <lua.h>

#include "base/base.h"

#define BIND_LOAD_TYPE "perigee.load" /* metatable of what perigee.open, closed and ramp return */

MAY_RAISE int luaopen_perigee_runtime(lua_State *L); /* perigee.runtime; not for scripts */

/* Pushes the list of declared parameters: {name =, default =, doc =, value =} in order of
 * declaration. */
MAY_RAISE void bind_push_declared(lua_State *L);
/* Pushes "FILE:LINE" of the last perigee.plan call, or nil. */
MAY_RAISE void bind_push_place(lua_State *L);

#endif
