/* quantity.h: numbers that scripts give: checked for sense, with the author's line in the error. */
#ifndef BIND_QUANTITY_H
#define BIND_QUANTITY_H

#include <lua.h>

#include "base/base.h"

/* No time that a script sets is longer: beyond, a number is a mistake of the unit. */
#define QUANTITY_YEAR 31536000.0

/* Adds count, number, quantity, rate, ratio, seconds and whole to the table on top. */
MAY_RAISE void bind_quantity_functions(lua_State *L);

#endif
