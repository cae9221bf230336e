/* limit.c: bounded time for scripts outside a run; see limit.h. */
#include "bind/limit.h"

#include <lauxlib.h>
#include <stdio.h>

#include "base/clock.h"
#include "bind/chunk.h"
#include "run/state.h"

#define HOOK_COUNT 20000
#define HOOK_COUNT_STOPPED 100 /* once stopped: what __close and handlers may still do */

struct limit {
  uint64_t deadline_ns; /* of the thread's CPU time; 0 = none */
  double seconds;
  bool stopped, stress;
  char text[1200];
};

static const char limit_key; /* its address is a registry key */

static struct limit *find(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &limit_key);
  struct limit *l = lua_touserdata(L, -1); /* the registry keeps it */
  lua_pop(L, 1);
  return l;
}

static MAY_RAISE struct limit *make(lua_State *L) {
  struct limit *l = find(L);
  if (l)
    return l;
  l = lua_newuserdatauv(L, sizeof *l, 0);
  *l = (struct limit){0};
  lua_rawsetp(L, LUA_REGISTRYINDEX, &limit_key);
  return l;
}

bool bind_limit_known(lua_State *L) {
  return find(L) != NULL;
}

bool bind_limit_holds(lua_State *L) {
  const struct limit *l = find(L);
  return l && l->deadline_ns;
}

const char *bind_limit_stopped(lua_State *L) {
  const struct limit *l = find(L);
  return l && l->stopped ? l->text : NULL;
}

void bind_limit_check(lua_State *L) {
  struct limit *l = find(L);
  if (!l || (!l->stopped && (!l->deadline_ns || clock_thread_cpu_ns() < l->deadline_ns)))
    return;
  if (!l->stopped) {
    l->stopped = true;
    lua_pushfstring(L, "computed for %f s without an end, so it was stopped", l->seconds);
    state_add_frames(L, L, 0, true);
    snprintf(l->text, sizeof l->text, "%s", lua_tostring(L, -1));
  }
  lua_pushstring(L, l->text);
  lua_error(L);
}

static void on_count(lua_State *L, lua_Debug *ar) {
  (void)ar;
  const struct limit *l = find(L);
  if (l && l->stress && !bind_collector_held(L))
    lua_gc(L, LUA_GCCOLLECT);
  if (l && (l->stopped || (l->deadline_ns && clock_thread_cpu_ns() >= l->deadline_ns)))
    lua_sethook(L, on_count, LUA_MASKCOUNT, HOOK_COUNT_STOPPED);
  bind_limit_check(L);
}

static void start(lua_State *L, struct limit *l, double seconds) {
  l->seconds = seconds;
  l->deadline_ns = clock_thread_cpu_ns() + (uint64_t)(seconds * 1e9);
  l->stopped = false;
  if (!lua_gethook(L) ||
      lua_gethook(L) == on_count) /* a script may use the hook for its own ends */
    lua_sethook(L, on_count, LUA_MASKCOUNT, HOOK_COUNT);
}

void bind_limit_stress(lua_State *L, bool stress) {
  make(L)->stress = stress;
}

void bind_limit_set(lua_State *L, double seconds) {
  start(L, make(L), seconds);
}

bool bind_limit_call(lua_State *L, double seconds, int handler) {
  struct limit *l = make(L);
  uint64_t outer_ns = l->deadline_ns, began_ns = clock_thread_cpu_ns();
  double outer_seconds = l->seconds;
  bool outer_stopped = l->stopped;
  if (handler) {
    bind_push_handler(L, handler);
    lua_insert(L, -2);
  }
  start(L, l, seconds);
  int status = lua_pcall(L, 0, 0, handler ? lua_gettop(L) - 1 : 0);
  l->deadline_ns = outer_ns ? outer_ns + (clock_thread_cpu_ns() - began_ns) : 0;
  l->seconds = outer_seconds;
  l->stopped = outer_stopped;
  if (lua_gethook(L) == on_count)
    lua_sethook(L, outer_ns ? on_count : NULL, outer_ns ? LUA_MASKCOUNT : 0, HOOK_COUNT);
  if (handler)
    lua_remove(L, status == LUA_OK ? -1 : -2);
  return status == LUA_OK;
}
