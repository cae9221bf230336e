/* chunk.h: the one way in which Lua source becomes a function.
 *
 * Every script, module and `load` goes through here, because Debian's Lua 5.4.4 cannot be trusted
 * with `..` on values that have a __concat: luaV_concat keeps a pointer into the stack across the
 * metamethod's call and stores it back, so when that call moved the stack (it grows at some depths
 * of calls; the collector shrinks it) the next operand is read, and everything after it written, in
 * freed memory. Lua 5.4.5 mended that (commit 603b2c64). See chunk.c for the way around. */
#ifndef BIND_CHUNK_H
#define BIND_CHUNK_H

#include <lua.h>

#include "base/base.h"

#define BIND_SOURCE_MAX ((size_t)64 << 20) /* bytes of one file */

/* As luaL_loadbufferx(L, text, len, name, "t"): pushes a function, or a message. Binary chunks are
 * refused, with the name of what was given and the way out. */
MAY_RAISE int bind_load(lua_State *L, const char *text, size_t len, const char *name);
/* As luaL_loadfilex(L, path, "t"); NULL is standard input. A message names the file. In a state of
 * a run the file is read once for all of them (store_source). */
MAY_RAISE int bind_load_file(lua_State *L, const char *path);

/* For C functions that serve as __concat: between the two the collector does not run (its steps
 * may shrink the stack) and collectgarbage does nothing. Check the arguments before: no raise in
 * between, unless there is no memory. */
MAY_RAISE void bind_hold_collector(lua_State *L);
MAY_RAISE void bind_release_collector(lua_State *L);
MAY_RAISE bool bind_collector_held(lua_State *L);

/* Before the table at `index` becomes a metatable: makes a __concat of the script's own safe. */
MAY_RAISE void bind_tame_concat(lua_State *L, int index);

/* Replaces load, loadfile, dofile and the searcher for Lua files. After luaL_openlibs. */
MAY_RAISE void bind_chunk_open(lua_State *L);

#endif
