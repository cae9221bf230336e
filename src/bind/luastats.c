/* luastats.c: module perigee.stats: the statistics of out/stats.h for scripts and expectations.
 *
 * Lists are plain Lua lists of numbers. NaN is refused; absent values are nil, never 0. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/core.h"
#include "bind/hold.h"
#include "bind/rng.h"
#include "out/interval.h"
#include "out/stats.h"

/* The numbers of the list at `index` in a userdata pushed on the stack. */
static MAY_RAISE double *check_list(lua_State *L, int index, const char *where, size_t *n) {
  if (!lua_istable(L, index))
    bind_raise(L, "%s: a list of numbers is expected, got %s", where, luaL_typename(L, index));
  *n = (size_t)luaL_len(L, index);
  double *x = lua_newuserdatauv(L, (*n ? *n : 1) * sizeof *x, 0);
  for (size_t i = 0; i < *n; i++) {
    lua_geti(L, index, (lua_Integer)i + 1);
    if (lua_type(L, -1) != LUA_TNUMBER || isnan(lua_tonumber(L, -1)))
      bind_raise(L, "%s: element %zu is %s, not a number", where, i + 1,
                 lua_type(L, -1) == LUA_TNUMBER ? "NaN" : luaL_typename(L, -1));
    x[i] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  return x;
}

static void push_or_nil(lua_State *L, double x) {
  if (isnan(x))
    lua_pushnil(L);
  else
    lua_pushnumber(L, x);
}

/* quantile(list, p) -> value or nil, whether there are enough of them to trust it */
static int stats_lua_quantile(lua_State *L) {
  double p = bind_check_quantity(L, 2);
  if (!(p >= 0 && p <= 1))
    bind_raise(L, "stats.quantile: p lies in 0..1 (0.95 or \"95%%\"), got %g", p);
  size_t n;
  double *x = check_list(L, 1, "stats.quantile", &n);
  stats_sort(x, NULL, n);
  push_or_nil(L, stats_quantile(x, n, p));
  /* no number of values is enough for the ends of a distribution */
  lua_pushboolean(L, p > 0 && p < 1 && n >= stats_quantile_needs(p));
  return 2;
}

static MAY_RAISE double level_option(lua_State *L, int index) {
  static const char *const known[] = {"by", "level"};
  if (lua_isnoneornil(L, index))
    return 0.95;
  bind_check_options(L, index, "stats.mean_ci", known, 2);
  double level = 0.95;
  if (lua_getfield(L, index, "level") != LUA_TNIL)
    level = bind_check_quantity(L, -1);
  lua_pop(L, 1);
  if (!(level > 0 && level < 1))
    bind_raise(L, "stats.mean_ci: level lies between 0 and 1 (0.95 or \"95%%\"), got %g", level);
  return level;
}

/* The group of each value, numbered in order of appearance, in a userdata on the stack. */
static MAY_RAISE uint32_t *check_groups(lua_State *L, int by, size_t n, uint32_t *n_groups) {
  if (!lua_istable(L, by) || (size_t)luaL_len(L, by) != n)
    bind_raise(L, "stats.mean_ci: by must be a list with the group of each of the %zu values", n);
  uint32_t *group = lua_newuserdatauv(L, (n ? n : 1) * sizeof *group, 0);
  lua_newtable(L); /* name -> number */
  *n_groups = 0;
  for (size_t i = 0; i < n; i++) {
    if (lua_geti(L, by, (lua_Integer)i + 1) == LUA_TNIL)
      bind_raise(L, "stats.mean_ci: by has no group for value %zu", i + 1);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) == LUA_TNIL) {
      lua_pop(L, 1);
      group[i] = (*n_groups)++;
      lua_pushinteger(L, group[i]);
      lua_rawset(L, -3);
    } else {
      group[i] = (uint32_t)lua_tointeger(L, -1);
      lua_pop(L, 2);
    }
  }
  lua_pop(L, 1);
  return group;
}

/* mean, low, high of values in groups: each group counts once, as the report does with sessions. */
static MAY_RAISE int push_grouped(lua_State *L, const double *x, size_t n, int by, double level) {
  uint32_t n_groups;
  const uint32_t *group = check_groups(L, by, n, &n_groups);
  struct interval_side side = {.x = x, .cluster = group, .n = n, .of = INTERVAL_MEAN};
  double lo = NAN, hi = NAN;
  if (!interval_of_side(&side, n_groups, level, &lo, &hi))
    lo = hi = NAN;
  push_or_nil(L, stats_mean(x, n));
  push_or_nil(L, lo);
  push_or_nil(L, hi);
  lua_pushinteger(L, n_groups);
  return 4;
}

/* mean_ci(list, {level = 0.95, by = {group of each}}) -> mean, low, high, n: Student's t interval;
 * with `by` over groups (values of one session are not independent), n their number */
static int stats_lua_mean_ci(lua_State *L) {
  double level = level_option(L, 2);
  lua_settop(L, 2);
  size_t n;
  double *x = check_list(L, 1, "stats.mean_ci", &n);
  if (lua_istable(L, 2) && lua_getfield(L, 2, "by") != LUA_TNIL)
    return push_grouped(L, x, n, lua_gettop(L), level);
  double mean = stats_mean(x, n), half = NAN;
  if (n >= 2)
    half =
        stats_t_quantile(0.5 + level / 2, (double)n - 1) * stats_sd(x, n, mean) / sqrt((double)n);
  push_or_nil(L, mean);
  push_or_nil(L, mean - half);
  push_or_nil(L, mean + half);
  lua_pushinteger(L, (lua_Integer)n);
  return 4;
}

/* The edges at option `edges`, or `bins` equal ones over the range; in a userdata on the stack. */
static MAY_RAISE double *check_edges(lua_State *L, int options, const double *x, size_t n,
                                     size_t *n_edges) {
  static const char *const known[] = {"bins", "edges"};
  lua_Integer bins = 10;
  if (!lua_isnoneornil(L, options)) {
    bind_check_options(L, options, "stats.hist", known, 2);
    if (lua_getfield(L, options, "edges") != LUA_TNIL) {
      double *edges = check_list(L, lua_gettop(L), "stats.hist: edges", n_edges);
      for (size_t i = 1; i < *n_edges; i++)
        if (edges[i] <= edges[i - 1])
          bind_raise(L, "stats.hist: edges must rise, %g follows %g", edges[i], edges[i - 1]);
      if (*n_edges < 2)
        bind_raise(L, "stats.hist: at least two edges are needed");
      return edges;
    }
    if (lua_getfield(L, options, "bins") != LUA_TNIL) {
      if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < 1 || lua_tointeger(L, -1) > 1000000)
        bind_raise(L, "stats.hist: bins must be a whole number from 1 to 1000000");
      bins = lua_tointeger(L, -1);
    }
  }
  double lo = n ? x[0] : 0, hi = n ? x[n - 1] : 1;
  if (!isfinite(lo) || !isfinite(hi))
    bind_raise(L, "stats.hist: infinite values need edges of their own");
  if (lo >= hi)
    hi = lo + 1;
  *n_edges = (size_t)bins + 1;
  double *edges = lua_newuserdatauv(L, *n_edges * sizeof *edges, 0);
  for (size_t i = 0; i < *n_edges; i++)
    edges[i] = lo + (hi - lo) * ((double)i / (double)bins);
  edges[bins] = hi;
  return edges;
}

/* hist(list, {bins = 10} or {edges = {…}}) -> {n, edges, counts, below, above}: bin i holds
 * edges[i] <= x < edges[i + 1], the last one its upper edge too */
static int stats_lua_hist(lua_State *L) {
  lua_settop(L, 2);
  size_t n, n_edges;
  double *x = check_list(L, 1, "stats.hist", &n);
  stats_sort(x, NULL, n);
  double *edges = check_edges(L, 2, x, n, &n_edges);
  lua_createtable(L, 0, 5);
  lua_createtable(L, (int)n_edges, 0);
  lua_createtable(L, (int)n_edges - 1, 0);
  size_t i = 0, below = 0;
  while (i < n && x[i] < edges[0])
    i++, below++;
  for (size_t e = 0; e < n_edges; e++) {
    lua_pushnumber(L, edges[e]);
    lua_rawseti(L, -3, (lua_Integer)e + 1);
    if (e + 1 == n_edges)
      break;
    size_t start = i;
    bool last = e + 2 == n_edges;
    while (i < n && (x[i] < edges[e + 1] || (last && x[i] <= edges[e + 1])))
      i++;
    lua_pushinteger(L, (lua_Integer)(i - start));
    lua_rawseti(L, -2, (lua_Integer)e + 1);
  }
  lua_setfield(L, -3, "counts");
  lua_setfield(L, -2, "edges");
  lua_pushinteger(L, (lua_Integer)n);
  lua_setfield(L, -2, "n");
  lua_pushinteger(L, (lua_Integer)below);
  lua_setfield(L, -2, "below");
  lua_pushinteger(L, (lua_Integer)(n - i));
  lua_setfield(L, -2, "above");
  return 1;
}

static const luaL_Reg functions[] = {
    {"hist", stats_lua_hist},
    {"mean_ci", stats_lua_mean_ci},
    {"quantile", stats_lua_quantile},
    {NULL, NULL},
};

int luaopen_perigee_stats(lua_State *L) {
  luaL_newlib(L, functions);
  bind_name_module(L, "stats");
  return 1;
}
