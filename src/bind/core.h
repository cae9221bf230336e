/* core.h: the open functions of the C modules in this folder's library part. */
#ifndef BIND_CORE_H
#define BIND_CORE_H

#include <lua.h>

#include "base/base.h"

MAY_RAISE int luaopen_perigee_blockhash(lua_State *L);        /* perigee.blockhash */
MAY_RAISE int luaopen_perigee_core(lua_State *L);             /* perigee.core */
MAY_RAISE int luaopen_perigee_fleet(lua_State *L);            /* perigee.fleet */
MAY_RAISE int luaopen_perigee_harmony(lua_State *L);          /* perigee.harmony */
MAY_RAISE int luaopen_perigee_json(lua_State *L);             /* perigee.json */
MAY_RAISE int luaopen_perigee_stats(lua_State *L);            /* perigee.stats */
MAY_RAISE int luaopen_perigee_openai(lua_State *L);           /* perigee.openai */
MAY_RAISE int luaopen_perigee_tokenizer(lua_State *L);        /* perigee.tokenizer */
MAY_RAISE int luaopen_perigee_gen_core(lua_State *L);         /* perigee.gen.core */
MAY_RAISE int luaopen_perigee_chat_core(lua_State *L);        /* perigee.chat.core */
MAY_RAISE int luaopen_perigee_completions_core(lua_State *L); /* perigee.completions.core */
MAY_RAISE int luaopen_perigee_template_core(lua_State *L);    /* perigee.template.core */

#endif
