/* hold.h: C resources that survive a raise.
 *
 * Any call into Lua may leave by longjmp, so memory that lives across one belongs to a userdata
 * with
 * __gc. These are the ones every binding needs; text handles (text.h) and bodies (bind.h) are the
 * others. The userdata is on the stack; the resource is freed when it is collected or closed. */
#ifndef BIND_HOLD_H
#define BIND_HOLD_H

#include <lauxlib.h>
#include <lua.h>

#include "base/buf.h"
#include "text/value.h"

/* Pushes a holder and returns its value, which is null. Take the content out by copying the struct
 * and setting the held one to value_null(). */
MAY_RAISE struct value *bind_hold_value(lua_State *L);
/* Pushes a holder and returns its empty buffer (BUF_MAX_OWN). */
MAY_RAISE struct buf *bind_hold_buf(lua_State *L);

/* The state's own one of each, empty: for work that ends before anything else is called, without a
 * userdata for the collector to finalize. What a raise leaves in it goes with the next call. */
MAY_RAISE struct value *bind_scratch_value(lua_State *L);
MAY_RAISE struct buf *bind_scratch_buf(lua_State *L);

/* Gives the table or userdata on top the metatable `type`, which must exist. Names of types are
 * string constants: their address is kept. */
MAY_RAISE void bind_set_type(lua_State *L, const char *type);
/* Pushes a userdata of `size` cleared bytes with the metatable `type`, which must exist. */
MAY_RAISE void *bind_new_userdata(lua_State *L, size_t size, const char *type);
/* As luaL_testudata and luaL_checkudata, without a look-up by the type's name. */
MAY_RAISE void *bind_test_userdata(lua_State *L, int index, const char *type);
MAY_RAISE void *bind_check_userdata(lua_State *L, int index, const char *type);
/* The userdata of that type at stack index 1, for its methods; raises how to call the method that
 * runs when it is something else (a dot for a colon). */
MAY_RAISE void *bind_check_self(lua_State *L, const char *type);
/* Makes the metatable `type` with `meta` as its own functions and `methods` (may be NULL) as
 * __index; does nothing when it exists. Leaves the stack as it was. */
MAY_RAISE void bind_new_type(lua_State *L, const char *type, const luaL_Reg *meta,
                             const luaL_Reg *methods);

/* Pushes the state's table of that `key` (an address), made at its first use, which holds its keys
 * ("k") or its values ("v") weakly. */
MAY_RAISE void bind_push_weak(lua_State *L, const void *key, const char *mode);

/* The module on top, a table of functions: reading a name it has not raises "gen has no 'txt' (did
 * you mean 'text'?)". */
MAY_RAISE void bind_name_module(lua_State *L, const char *name);

/* Pushes "FILE:LINE: " of the nearest caller that is neither C nor one of perigee's own modules, ""
 * when there is none. */
MAY_RAISE void bind_push_author_line(lua_State *L);
/* Raises "FILE:LINE: text", where FILE:LINE is the place in the *author's* code: calls inside
 * perigee's own Lua modules are skipped. A function of a module that was called as its method is
 * told to be called with a dot instead. */
MAY_RAISE NORETURN COLD void bind_raise(lua_State *L, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
