/* shared.h: data that every state may read, as Lua sees it: tables that refuse to be written.
 *
 * A proxy is an empty table over a node of a `struct shared` (run/store.h). ipairs, pairs, #,
 * indexing, table.concat and table.unpack work on it, and JSON can be made of it. */
#ifndef BIND_SHARED_H
#define BIND_SHARED_H

#include <lua.h>

#include "run/store.h"

/* Fills *out from plain data at `index`: nil, booleans, numbers, strings, text handles, lists 1..n,
 * tables with string keys, and shared data again. Raises for anything else with its path; *out is
 * then a part that can be freed. (struct state_binding.to_shared) */
MAY_RAISE void bind_to_shared(lua_State *L, int index, struct shared *out);
/* Pushes a scalar, a text handle or a proxy; the tree must outlive the state. Sealed. */
MAY_RAISE void bind_push_shared(lua_State *L, const struct shared *s);
/* The node behind a proxy, NULL when it is none. */
const struct shared *bind_test_shared(lua_State *L, int index);
/* Pushes a userdata that frees its tree when it is collected; returns the (null) tree. */
MAY_RAISE struct shared *bind_hold_shared(lua_State *L);
/* perigee.shared(name, fn) */
MAY_RAISE int bind_shared(lua_State *L);
/* From now on reading a key of this object that is not there raises, instead of giving nil; `name`
 * is what scripts call the object. The tree lives as long as the state. */
MAY_RAISE void bind_shared_strict(lua_State *L, const struct shared *s, const char *name);
/* The table on top (popped) has the methods of this object: what is asked for and is no key of its
 * own. */
MAY_RAISE void bind_shared_methods(lua_State *L, const struct shared *s);

#endif
