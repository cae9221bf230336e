/* vu_tasks.c: several things at once in one session: vu:spawn, task:join, vu:all. */
#include <lauxlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/hold.h"
#include "bind/vu_bind.h"

/* Raises what ended the child: an expected failure as one, anything else with its own value. */
static MAY_RAISE NORETURN void raise_outcome(lua_State *L, struct vu *vu, struct vu_task *t) {
  vu_claim(vu, t);
  if (t->outcome.error != SAMPLE_SCRIPT || t->n_values == 0)
    vu_raise_failure(L, t->outcome.error, vu_outcome_detail(&t->outcome));
  luaL_checkstack(t->co, 1, "error value");
  lua_pushvalue(t->co, -1);
  lua_xmove(t->co, L, 1);
  if (lua_islightuserdata(L, -1)) /* it was stopped: the value is only a marker */
    vu_raise_failure(L, SAMPLE_SCRIPT, vu_outcome_detail(&t->outcome));
  lua_error(L);
  __builtin_unreachable();
}

/* What comes next is due at the end of the last thing that was waited for. */
static void go_on_after(struct vu *vu, const struct vu_task *t) {
  if (t->due_ns > vu->due_ns)
    vu->due_ns = t->due_ns;
}

/* Pushes copies of the child's results; how many. */
static MAY_RAISE int push_results(lua_State *L, struct vu_task *t, int at_most) {
  int n = t->n_values < at_most ? t->n_values : at_most;
  luaL_checkstack(L, n, "results");
  if (!lua_checkstack(t->co, n))
    luaL_error(L, "not enough memory");
  int first = lua_gettop(t->co) - t->n_values + 1;
  for (int i = 0; i < n; i++)
    lua_pushvalue(t->co, first + i);
  lua_xmove(t->co, L, n);
  return n;
}

int vu_task_gc(lua_State *L) {
  vu_task_free(luaL_checkudata(L, 1, VU_TASK_TYPE));
  return 0;
}

/* ---- spawn and join ---- */

/* spawn(fn) -> task: fn(child) runs beside this user, from the next wait on. */
int vu_method_spawn(lua_State *L) {
  struct vu *vu = bind_check_vu(L, 1);
  if (lua_type(L, 2) != LUA_TFUNCTION)
    bind_raise(L, "vu:spawn: a function of the new virtual user is expected, got %s",
               luaL_typename(L, 2));
  vu_check_wait(L, vu, "vu:spawn");
  lua_settop(L, 2);
  vu_spawn(L, vu, 0);
  return 1;
}

static int joined(lua_State *L, struct vu *vu) {
  struct vu_task *t = luaL_checkudata(L, 1, VU_TASK_TYPE);
  go_on_after(vu, t);
  if (t->outcome.error != SAMPLE_OK)
    raise_outcome(L, vu, t);
  return push_results(L, t, t->n_values);
}

/* task:join() -> what fn returned; raises what ended it. */
int vu_task_join(lua_State *L) {
  struct vu_task *t = bind_check_self(L, VU_TASK_TYPE);
  lua_settop(L, 1);
  struct vu *vu;
  if (!state_vu_of(L, &vu) || vu != t->spawner)
    bind_raise(L, "task:join: only the virtual user that spawned a task can join it");
  vu_check_wait(L, vu, "task:join");
  if (!t->child)
    return joined(L, vu);
  vu_await(vu, t->child, false);
  return vu_wait_shortly(L, vu, NULL, joined);
}

/* ---- all ---- */

/* The stack while it waits: vu, list, fn, tasks. */
static int all_ended(lua_State *L, struct vu *vu) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, 4);
  struct vu_task *cancelled = NULL, *failed = NULL;
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 4, i);
    struct vu_task *t = lua_touserdata(L, -1);
    lua_pop(L, 1);
    go_on_after(vu, t);
    if (t->outcome.error == SAMPLE_CANCELLED)
      cancelled = t; /* because of another one, which is found further on */
    else if (t->outcome.error != SAMPLE_OK)
      failed = failed ? failed : t;
    vu_claim(vu, t);
  }
  if (failed || cancelled)
    raise_outcome(L, vu, failed ? failed : cancelled);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 4, i);
    struct vu_task *t = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (push_results(L, t, 1) > 0)
      lua_rawseti(L, -2, i);
  }
  return 1;
}

#define MAX_TASKS 1000000 /* of one vu:all */

/* all(list, fn) -> results: fn(child, item, i) for each item, side by side; returns when all have
 * ended. The first one that fails cancels the others, and its failure is raised here. */
int vu_method_all(lua_State *L) {
  struct vu *vu = bind_check_vu(L, 1);
  if (lua_type(L, 2) != LUA_TTABLE)
    bind_raise(L, "vu:all: a list is expected, got %s", luaL_typename(L, 2));
  if (lua_type(L, 3) != LUA_TFUNCTION)
    bind_raise(L, "vu:all: a function (child, item, i) is expected, got %s", luaL_typename(L, 3));
  vu_check_wait(L, vu, "vu:all");
  lua_settop(L, 3);
  lua_Integer n = luaL_len(L, 2);
  if (n < 0 || n > MAX_TASKS)
    bind_raise(L, "vu:all: a list of 0 to %d items is expected, this one says it has %lld",
               MAX_TASKS, (long long)n);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    luaL_checkstack(L, 12, "tasks");
    lua_pushvalue(L, 3);
    lua_geti(L, 2, i);
    lua_pushinteger(L, i);
    struct vu_task *t = vu_spawn(L, vu, 2);
    lua_rawseti(L, 4, i);
    vu_await(vu, t->child, true);
  }
  if (n == 0)
    return all_ended(L, vu);
  return vu_wait_shortly(L, vu, NULL, all_ended);
}
