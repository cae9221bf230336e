/* luaharmony.h: Harmony renderers of scripts, for what uses them without going through Lua. */
#ifndef BIND_LUAHARMONY_H
#define BIND_LUAHARMONY_H

#include <lua.h>

#include "text/harmony.h"
#include "text/harmony_grown.h"

/* Whether `index` holds a Harmony renderer whose tokenizer is none of the script's own objects. */
MAY_RAISE bool bind_harmony_is_ours(lua_State *L, int index);
/* What the renderer and the options of a call (a table, or nil) say, tools left out. The texts
 * belong to values that are pushed. Raises, beginning with `where`, what is wrong with them. */
MAY_RAISE struct harmony_chat bind_harmony_chat(lua_State *L, int renderer, int options,
                                                const char *where);
/* The state's memo for the renderer's tokenizer, which lives as long as that. `for_run`: the run's
 * server must read the same. NULL leaves *err. */
MAY_RAISE struct harmony_memo *bind_harmony_memo(lua_State *L, int renderer, bool for_run,
                                                 struct err *err);

#endif
