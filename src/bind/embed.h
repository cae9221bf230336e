/* embed.h: the modules that are built into the binary.
 *
 * Lua files of lua/perigee/ are compiled in by the Makefile (table perigee_lua_embed); C modules
 * have a luaopen function. Both are found by `require "perigee.…"` before anything on disk. */
#ifndef BIND_EMBED_H
#define BIND_EMBED_H

#include <lua.h>

#include "base/base.h"

/* One embedded file: "lua/perigee/chat.lua" and its bytes. The table ends with name NULL. */
struct embed_file {
  const char *name, *start, *end;
};
extern const struct embed_file perigee_lua_embed[];

/* The embedded file called `name` ("lua/perigee/chat.lua"), or NULL. Any thread. */
const struct embed_file *bind_embed_find(const char *name);

/* Puts the C modules of this folder's library part (perigee.json, perigee.stats, perigee.openai and
 * the cores behind perigee.chat and perigee.gen) into package.preload, and a searcher for
 * `perigee.*` right behind the preload searcher. With PERIGEE_DEV=dir in the environment the Lua
 * files come from dir (a checkout, or its lua/perigee) instead. Once per state, after
 * luaL_openlibs. */
MAY_RAISE void bind_embed_open(lua_State *L);

#endif
