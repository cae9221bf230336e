/* luarng.c: `vu.rng` and `gen.rng(seed)`: draws that every machine agrees on.
 *
 * Methods take numbers or quantities with units ("6s"); what comes back is in base units. A draw
 * never depends on anything but the generator's state, so the order of draws in a script is the
 * only thing that fixes what a session says. */
#include "bind/rng.h"

#include <math.h>

#include "bind/hold.h"

#define RNG_TYPE "perigee.rng"

struct rng *bind_check_rng(lua_State *L, int index) {
  return index == 1 ? bind_check_self(L, RNG_TYPE) : bind_check_userdata(L, index, RNG_TYPE);
}

struct rng *bind_test_rng(lua_State *L, int index) {
  return bind_test_userdata(L, index, RNG_TYPE);
}

static double positive(lua_State *L, int index, bool zero_too) {
  double x = bind_check_quantity(L, index);
  luaL_argcheck(L, zero_too ? x >= 0 : x > 0, index,
                zero_too ? "must not be negative" : "must be positive");
  return x;
}

/* int(lo, hi): a whole number in [lo, hi]; int(hi) is int(1, hi). */
static int rng_lua_int(lua_State *L) {
  struct rng *r = bind_check_rng(L, 1);
  lua_Integer lo = luaL_checkinteger(L, 2), hi = lo;
  if (lua_isnoneornil(L, 3))
    lo = 1;
  else
    hi = luaL_checkinteger(L, 3);
  if (lo > hi)
    return luaL_error(L, "rng:int: the range %I..%I is empty", (LUAI_UACINT)lo, (LUAI_UACINT)hi);
  lua_pushinteger(L, rng_int(r, lo, hi));
  return 1;
}

static int rng_lua_unit(lua_State *L) {
  lua_pushnumber(L, rng_unit(bind_check_rng(L, 1)));
  return 1;
}

static int rng_lua_exp(lua_State *L) {
  struct rng *r = bind_check_rng(L, 1);
  double mean = positive(L, 2, true);
  lua_pushnumber(L, rng_exp(r, mean));
  return 1;
}

static int rng_lua_normal(lua_State *L) {
  struct rng *r = bind_check_rng(L, 1);
  double mean = bind_check_quantity(L, 2), sd = positive(L, 3, true);
  lua_pushnumber(L, rng_normal(r, mean, sd));
  return 1;
}

/* lognormal(median, sigma): half of the draws lie below the median, sigma is the spread of the
 * logarithm (0.5 mild, 1 heavy). */
static int rng_lua_lognormal(lua_State *L) {
  struct rng *r = bind_check_rng(L, 1);
  double median = positive(L, 2, false), sigma = positive(L, 3, true);
  lua_pushnumber(L, rng_lognormal(r, rng_ln(median), sigma));
  return 1;
}

static int rng_lua_uniform(lua_State *L) {
  struct rng *r = bind_check_rng(L, 1);
  double lo = bind_check_quantity(L, 2), hi = bind_check_quantity(L, 3);
  luaL_argcheck(L, lo <= hi, 3, "must not be below the first bound");
  luaL_argcheck(L, isfinite(hi - lo), 3, "lies too far from the first bound");
  lua_pushnumber(L, lo + (hi - lo) * rng_unit(r));
  return 1;
}

static int rng_lua_bool(lua_State *L) {
  struct rng *r = bind_check_rng(L, 1);
  double p = lua_isnoneornil(L, 2) ? 0.5 : bind_check_quantity(L, 2);
  luaL_argcheck(L, p >= 0 && p <= 1, 2, "a probability lies in 0..1");
  lua_pushboolean(L, rng_unit(r) < p);
  return 1;
}

static int rng_lua_choice(lua_State *L) {
  struct rng *r = bind_check_rng(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer n = luaL_len(L, 2);
  luaL_argcheck(L, n > 0, 2, "the list is empty");
  lua_geti(L, 2, rng_int(r, 1, n));
  return 1;
}

/* shuffle(list): in place (Fisher and Yates); returns the list. */
static int rng_lua_shuffle(lua_State *L) {
  struct rng *r = bind_check_rng(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  for (lua_Integer i = luaL_len(L, 2); i > 1; i--) {
    lua_Integer j = rng_int(r, 1, i);
    lua_geti(L, 2, i);
    lua_geti(L, 2, j);
    lua_seti(L, 2, i);
    lua_seti(L, 2, j);
  }
  lua_settop(L, 2);
  return 1;
}

static int rng_lua_split(lua_State *L) {
  struct rng *r = bind_check_rng(L, 1);
  rng_split(r, bind_new_rng(L));
  return 1;
}

static int rng_lua_tostring(lua_State *L) {
  lua_pushfstring(L, "rng: %p", (void *)bind_check_rng(L, 1));
  return 1;
}

struct rng *bind_new_rng(lua_State *L) {
  static const luaL_Reg meta[] = {{"__tostring", rng_lua_tostring}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"bool", rng_lua_bool},
      {"choice", rng_lua_choice},
      {"exp", rng_lua_exp},
      {"int", rng_lua_int},
      {"lognormal", rng_lua_lognormal},
      {"normal", rng_lua_normal},
      {"shuffle", rng_lua_shuffle},
      {"split", rng_lua_split},
      {"uniform", rng_lua_uniform},
      {"unit", rng_lua_unit},
      {NULL, NULL},
  };
  bind_new_type(L, RNG_TYPE, meta, methods);
  struct rng *r = bind_new_userdata(L, sizeof *r, RNG_TYPE);
  rng_init(r, 0, 0);
  return r;
}
