/* route.c: what routing policies stand on: turns and counts of the run's one router. */
#include <lauxlib.h>
#include <string.h>

#include "base/mem.h"
#include "bind/bind.h"
#include "bind/hold.h"
#include "bind/vu_bind.h"
#include "run/worker.h"

static MAY_RAISE struct router *check_router(lua_State *L, const struct vu *vu, const char *what) {
  const struct worker *w = vu->state->options.worker;
  if (!w || !w->run->router)
    bind_raise(L, "%s: the run has no replicas; give --replica id=url, or use route.gateway", what);
  return w->run->router;
}

size_t vu_check_replica(lua_State *L, const struct vu *vu, int index, const char *what) {
  const struct fleet *f = vu->state->options.fleet;
  size_t n = f ? f->n_replicas : 0;
  if (lua_isinteger(L, index)) {
    lua_Integer i = lua_tointeger(L, index);
    if (i < 1 || (lua_Unsigned)i > n)
      bind_raise(L, "%s: replica %lld is not one of the fleet's %zu", what, (long long)i, n);
    return (size_t)i - 1;
  }
  if (lua_type(L, index) != LUA_TSTRING)
    bind_raise(L, "%s: a replica is an index from 1 or an id, got %s", what,
               luaL_typename(L, index));
  const char *id = lua_tostring(L, index);
  const char **ids = lua_newuserdatauv(L, (n + 1) * sizeof *ids, 0);
  for (size_t i = 0; i < n; i++) {
    ids[i] = f->replicas[i].id;
    if (strcmp(ids[i], id) == 0) {
      lua_pop(L, 1);
      return i;
    }
  }
  const char *near = err_nearest(id, ids, n);
  bind_raise(L, "%s: no replica '%s'%s%s%s", what, id, near ? " (did you mean '" : "",
             near ? near : "", near ? "'?)" : "");
}

static void keep_pick(struct vu *vu, size_t replica) {
  MEM_GROW(vu->picks, vu->n_picks, vu->cap_picks);
  vu->picks[vu->n_picks++] = replica;
}

bool vu_take_pick(struct vu *vu, size_t replica) {
  for (size_t i = 0; i < vu->n_picks; i++) {
    if (vu->picks[i] == replica) {
      vu->picks[i] = vu->picks[--vu->n_picks];
      return true;
    }
  }
  return false;
}

/* nil where nothing is in rotation */
static void push_replica(lua_State *L, size_t replica) {
  if (replica == ROUTER_NONE)
    lua_pushnil(L);
  else
    lua_pushinteger(L, (lua_Integer)replica + 1);
}

/* pick_next(counter) -> index */
int vu_method_pick_next(lua_State *L) {
  const struct vu *vu = bind_check_vu(L, 1);
  const char *counter = luaL_optstring(L, 2, "");
  push_replica(L, router_next(check_router(L, vu, "vu:pick_next"), counter));
  return 1;
}

/* pick_least() -> index, counted */
int vu_method_pick_least(lua_State *L) {
  struct vu *vu = bind_check_vu(L, 1);
  size_t replica = router_take_least(check_router(L, vu, "vu:pick_least"));
  if (replica != ROUTER_NONE)
    keep_pick(vu, replica);
  push_replica(L, replica);
  return 1;
}

/* pick(index or id): counts one */
int vu_method_pick(lua_State *L) {
  struct vu *vu = bind_check_vu(L, 1);
  struct router *r = check_router(L, vu, "vu:pick");
  size_t replica = vu_check_replica(L, vu, 2, "vu:pick");
  router_take(r, replica);
  keep_pick(vu, replica);
  return 0;
}

/* inflight(index or id) -> n */
int vu_method_inflight(lua_State *L) {
  const struct vu *vu = bind_check_vu(L, 1);
  const struct router *r = check_router(L, vu, "vu:inflight");
  size_t replica = vu_check_replica(L, vu, 2, "vu:inflight");
  lua_pushinteger(L, (lua_Integer)router_inflight(r, replica));
  return 1;
}

/* in_rotation(index or id) -> boolean */
int vu_method_in_rotation(lua_State *L) {
  const struct vu *vu = bind_check_vu(L, 1);
  const struct router *r = check_router(L, vu, "vu:in_rotation");
  lua_pushboolean(L, router_in_rotation(r, vu_check_replica(L, vu, 2, "vu:in_rotation")));
  return 1;
}

int vu_place(lua_State *L) {
  const struct vu_handle *h = bind_test_userdata(L, 1, VU_TYPE);
  const struct worker *w = h && h->vu ? h->vu->state->options.worker : NULL;
  const struct fleet *f = w ? h->vu->state->options.fleet : NULL;
  if (!f || !w->run->router || !lua_isinteger(L, 2))
    return 0;
  lua_Integer at = lua_tointeger(L, 2);
  if (at < 1 || (lua_Unsigned)at > f->n_replicas ||
      !router_in_rotation(w->run->router, (size_t)at - 1))
    return 0;
  lua_pushinteger(L, at);
  lua_pushstring(L, f->replicas[at - 1].id);
  return 2;
}

/* stand_in(index or id) -> index */
int vu_method_stand_in(lua_State *L) {
  const struct vu *vu = bind_check_vu(L, 1);
  const struct router *r = check_router(L, vu, "vu:stand_in");
  push_replica(L, router_stand_in(r, vu_check_replica(L, vu, 2, "vu:stand_in")));
  return 1;
}
