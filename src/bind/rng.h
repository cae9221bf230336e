/* rng.h: `vu.rng` in Lua: a generator of base/rng.h behind a userdata. */
#ifndef BIND_RNG_H
#define BIND_RNG_H

#include <lua.h>

#include "base/rng.h"

/* Pushes a new generator, seeded with (0, 0), and returns it for the caller to initialise; it lives
 * as long as the userdata. */
MAY_RAISE struct rng *bind_new_rng(lua_State *L);
/* Raises when the argument is not a generator. */
MAY_RAISE struct rng *bind_check_rng(lua_State *L, int index);
/* NULL when it is not one. */
struct rng *bind_test_rng(lua_State *L, int index);

/* A number, or a string with any unit ("50ms", "5%", "64KiB"), in base units. */
MAY_RAISE double bind_check_quantity(lua_State *L, int index);

#endif
