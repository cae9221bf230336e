/* luablockhash.h: block hashes of scripts, for what makes them without going through Lua. */
#ifndef BIND_LUABLOCKHASH_H
#define BIND_LUABLOCKHASH_H

#include <lua.h>

#include "kv/blockhash_chain.h"

/* The scheme named by the table at `options` (nil: the default), and its other options, both alive
 * while what was pushed is on the stack. Raises as blockhash.hash does. */
MAY_RAISE const char *bind_check_scheme(lua_State *L, int options, const struct value **others);
/* Pushes a handle over a fork of the chain; returns that. */
MAY_RAISE struct blockhash_chain *bind_push_hashes(lua_State *L,
                                                   const struct blockhash_chain *chain);

#endif
