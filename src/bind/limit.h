/* limit.h: how long a script may compute in a state that is no run's: a fleet file, a spec.
 *
 * A run has its own watch over time (run/state.h). Here a count hook looks at the thread's CPU
 * time; what takes longer is stopped with its traceback, and no pcall of the script hides that. */
#ifndef BIND_LIMIT_H
#define BIND_LIMIT_H

#include <lua.h>

#include "base/base.h"

/* From now on, until the state closes or bind_limit_call says otherwise. */
MAY_RAISE void bind_limit_set(lua_State *L, double seconds);
/* Calls the function on top (popped) with a limit of its own, protected; what is spent in it is
 * given back to the limit around it. Pushes nothing and returns true, or false with the error
 * value. A function of C that does not come back for 5 s more of CPU time ends the process with
 * status 1, under the name that bind_limit_name gave; `handler` is the stack index of a message
 * handler or 0, and is left out for a stop. */
MAY_RAISE bool bind_limit_call(lua_State *L, double seconds, int handler);
/* What the next bind_limit_call is of; copied. */
MAY_RAISE void bind_limit_name(lua_State *L, const char *what);
/* What the count hook does, for C functions that take long. */
MAY_RAISE void bind_limit_check(lua_State *L);
/* Whether the hook also runs whole collections, which finds what a binding forgot to hold. */
MAY_RAISE void bind_limit_stress(lua_State *L, bool stress);
/* Whether a limit was ever set in this state; whether one holds now. */
bool bind_limit_known(lua_State *L);
bool bind_limit_holds(lua_State *L);

/* ---- both kinds of state (bind/stoppable.c) ---- */

/* Whether what runs must not go on, whatever a pcall says; in any state. */
bool bind_must_stop(lua_State *L);
/* Pushes the message handler at `index` so that a stop passes it by. */
MAY_RAISE void bind_push_handler(lua_State *L, int index);

/* The text of a stop, NULL when nothing was stopped; for bind/stoppable.c. */
const char *bind_limit_stopped(lua_State *L);

#endif
