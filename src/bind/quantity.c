/* quantity.c: numbers that scripts give; see quantity.h.
 *
 * A number is in base units, a string says its unit; NaN and infinities are no number anywhere, a
 * negative zero is zero. */
#include "bind/quantity.h"

#include <lauxlib.h>
#include <math.h>

#include "base/units.h"
#include "bind/bind.h"
#include "bind/hold.h"

static MAY_RAISE double to_quantity(lua_State *L, int index, const char *what,
                                    enum units_kind want) {
  double value;
  if (lua_type(L, index) == LUA_TNUMBER) {
    value = lua_tonumber(L, index);
  } else if (lua_type(L, index) == LUA_TSTRING) {
    size_t len;
    const char *text = lua_tolstring(L, index, &len);
    struct err err;
    if (units_parse(text, len, want, &value, NULL, &err))
      bind_raise(L, "%s: %s", what, err.text);
  } else {
    bind_raise(L, "%s must be a number or a string with a unit, got %s", what,
               luaL_typename(L, index));
  }
  if (!isfinite(value))
    bind_raise(L, "%s must be a finite number, got %s", what, bind_shown(L, index));
  if (want == UNITS_TIME && fabs(value) > QUANTITY_YEAR)
    bind_raise(L, "%s must be at most a year (%.0f s), got %s", what, QUANTITY_YEAR,
               bind_shown(L, index));
  return value + 0.0; /* -0.0 is 0 */
}

double bind_check_quantity(lua_State *L, int index) {
  return to_quantity(L, index, "the quantity", UNITS_ANY);
}

double bind_check_seconds(lua_State *L, int index, const char *what) {
  int type = lua_type(L, index);
  if (type != LUA_TNUMBER && type != LUA_TSTRING)
    bind_raise(L, "%s must be a number of seconds or a string like \"50ms\", got %s", what,
               luaL_typename(L, index));
  double seconds = to_quantity(L, index, what, UNITS_TIME);
  if (seconds < 0)
    bind_raise(L, "%s must be at least 0 s, got %s", what, bind_shown(L, index));
  return seconds;
}

static int push_quantity(lua_State *L, enum units_kind kind) {
  const char *what = luaL_optstring(L, 2, "the quantity");
  lua_pushnumber(L, to_quantity(L, 1, what, kind));
  return 1;
}

/* quantity(x, what), seconds(x, what), ratio(x, what), rate(x, what): numbers in base units. */
static int core_quantity(lua_State *L) {
  return push_quantity(L, UNITS_ANY);
}
static int core_seconds(lua_State *L) {
  return push_quantity(L, UNITS_TIME);
}
static int core_ratio(lua_State *L) {
  return push_quantity(L, UNITS_RATIO);
}
static int core_rate(lua_State *L) {
  return push_quantity(L, UNITS_RATE);
}

/* number(x, what, least, most) -> x, a number as it is: no unit makes sense; bounds may be nil */
static int core_number(lua_State *L) {
  const char *what = luaL_checkstring(L, 2);
  double least = luaL_optnumber(L, 3, -HUGE_VAL), most = luaL_optnumber(L, 4, HUGE_VAL);
  double x = lua_tonumber(L, 1);
  if (lua_type(L, 1) != LUA_TNUMBER || !isfinite(x))
    bind_raise(L, "%s must be a %snumber, got %s", what,
               lua_type(L, 1) == LUA_TNUMBER ? "finite " : "", bind_shown(L, 1));
  if (x < least)
    bind_raise(L, "%s must be at least %g, got %s", what, least, bind_shown(L, 1));
  if (x > most)
    bind_raise(L, "%s must be at most %g, got %s", what, most, bind_shown(L, 1));
  if (lua_isinteger(L, 1))
    lua_pushvalue(L, 1);
  else
    lua_pushnumber(L, x + 0.0);
  return 1;
}

/* whole(x, what, least, most) -> integer; 1e3 is one, "3" and 1.5 are none; `most` may be nil */
static int core_whole(lua_State *L) {
  const char *what = luaL_checkstring(L, 2);
  lua_Integer least = luaL_checkinteger(L, 3), most = luaL_optinteger(L, 4, LUA_MAXINTEGER);
  int whole;
  lua_Integer n = lua_tointegerx(L, 1, &whole);
  bool number = lua_type(L, 1) == LUA_TNUMBER;
  if (number && isfinite(lua_tonumber(L, 1)) && lua_tonumber(L, 1) > (double)most)
    bind_raise(L, "%s must be at most %lld, got %s", what, (long long)most, bind_shown(L, 1));
  if (!number || !whole || n < least)
    bind_raise(L, "%s must be a whole number from %lld on, got %s", what, (long long)least,
               bind_shown(L, 1));
  lua_pushinteger(L, n);
  return 1;
}

/* count(x, what): a number of tokens or things, rounded and at least 1. */
static int core_count(lua_State *L) {
  const char *what = luaL_optstring(L, 2, "the count");
  if (lua_type(L, 1) != LUA_TNUMBER)
    bind_raise(L, "%s must be a number, got %s", what, bind_shown(L, 1));
  double x = lua_tonumber(L, 1);
  if (!isfinite(x) || x > 1e9)
    bind_raise(L, "%s must be a number up to 1e9, got %g", what, x);
  lua_pushinteger(L, x < 1.5 ? 1 : (lua_Integer)floor(x + 0.5));
  return 1;
}

void bind_quantity_functions(lua_State *L) {
  static const luaL_Reg functions[] = {{"count", core_count},       {"number", core_number},
                                       {"quantity", core_quantity}, {"rate", core_rate},
                                       {"ratio", core_ratio},       {"seconds", core_seconds},
                                       {"whole", core_whole},       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
