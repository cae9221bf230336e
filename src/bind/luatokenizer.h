/* luatokenizer.h: the tokenizers of scripts, for what uses them without going through Lua. */
#ifndef BIND_LUATOKENIZER_H
#define BIND_LUATOKENIZER_H

#include <lua.h>

#include "text/tokens.h"

/* The encoder of the tokenizer at `index`, what perigee.tokenizer loaded, which lives as long as
 * that; NULL when it is something else or was closed. */
struct tokens_encoder *bind_test_tokenizer(lua_State *L, int index);

/* Where tokenizers of the run that L belongs to are, so that no state loads one again; NULL: in
 * none. */
struct tokens_shared *bind_shared_tokens(lua_State *L);

/* Whether the server reads the tokens that `t` makes: the run's tokenizer has the same vocabulary,
 * or is not known. 0, or ERR_INVALID naming both. Compared once per pair and state. */
NODISCARD int bind_run_reads(lua_State *L, const struct tokens *t, struct err *err);

#endif
