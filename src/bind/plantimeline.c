/* plantimeline.c: see plantimeline.h. */
#include "bind/plantimeline.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bind/bind.h"
#include "bind/hold.h"
#include "run/state.h"

#define MOST_ENTRIES 10000 /* repetitions included */

void bind_plan_timeline_free(struct plan_info *p) {
  for (size_t i = 0; i < p->n_timeline; i++)
    value_free(&p->timeline[i].action);
  mem_free(p->timeline);
  p->timeline = NULL;
  p->n_timeline = 0;
}

struct reading {
  struct plan_info *plan;
  size_t cap;
  struct err *err;
  int rc;
};

/* One entry as it is written; times in seconds. */
struct written {
  uint32_t number;
  double at_s, every_s, window_s; /* every: 0 = once */
  int64_t times;                  /* 0 = not said */
  struct value action;            /* null: a function */
};

static MAY_RAISE double seconds(lua_State *L, int entry, const char *name) {
  double s = 0;
  if (lua_getfield(L, entry, name) != LUA_TNIL)
    s = bind_check_seconds(L, -1, name);
  lua_pop(L, 1);
  return s;
}

/* The fields that are the action's. */
static MAY_RAISE void read_action(lua_State *L, int entry, struct value *out) {
  static const char *const own[] = {"at", "every", "times", "window"};
  bind_to_value(L, entry, out);
  struct value rest = value_object();
  for (size_t i = 0; i < value_count(out); i++) {
    struct value_pair *pair = &out->u.object.pairs[i];
    bool is_own = false;
    for (size_t k = 0; k < ARRAY_LEN(own); k++)
      is_own = is_own || strcmp(pair->key, own[k]) == 0;
    if (is_own)
      continue;
    value_set_len(&rest, pair->key, pair->key_len, pair->value);
    pair->value = value_null();
  }
  value_free(out);
  *out = rest;
}

static int add(struct reading *r, const struct written *w, uint32_t round, double at_s) {
  struct plan_info *p = r->plan;
  if (p->n_timeline == MOST_ENTRIES)
    return err_set(r->err, ERR_INVALID,
                   "plan: timeline[%u]: every: more than %d actions in all; repeat less often, or "
                   "say how many times",
                   w->number, MOST_ENTRIES);
  MEM_GROW(p->timeline, p->n_timeline, r->cap);
  p->timeline[p->n_timeline++] = (struct timeline_entry){.number = w->number,
                                                         .round = round,
                                                         .at_s = at_s,
                                                         .window_s = w->window_s,
                                                         .action = value_copy(&w->action)};
  return 0;
}

static int add_all(struct reading *r, const struct written *w) {
  double end_s = r->plan->load.duration_s; /* 0: bounded by sessions alone */
  if (end_s > 0 && w->at_s >= end_s)
    return err_set(r->err, ERR_INVALID,
                   "plan: timeline[%u]: at = %g s is not before the load's end: its duration is %g "
                   "s, and times count from the start of the measured window; give an earlier time "
                   "or a longer duration",
                   w->number, w->at_s, end_s);
  if (!(w->every_s > 0))
    return add(r, w, 0, w->at_s);
  if (!w->times && !(end_s > 0))
    return err_set(r->err, ERR_INVALID,
                   "plan: timeline[%u]: every needs an end: the load has no duration, so say how "
                   "many times, as in times = 3",
                   w->number);
  for (uint32_t i = 0; !w->times || i < w->times; i++) {
    double at_s = w->at_s + i * w->every_s;
    if (end_s > 0 && at_s >= end_s && w->times)
      return err_set(r->err, ERR_INVALID,
                     "plan: timeline[%u]: times = %d: number %u would be at %g s, and the load's "
                     "duration is %g s; repeat less often or fewer times, or leave times out",
                     w->number, (int)w->times, i + 1, at_s, end_s);
    if (end_s > 0 && at_s >= end_s)
      return 0;
    int rc = add(r, w, i, at_s);
    if (rc)
      return rc;
  }
  return 0;
}

static MAY_RAISE int read_timeline(lua_State *L) {
  struct reading *r = lua_touserdata(L, 1);
  state_push_plan(L);
  if (lua_getfield(L, -1, "timeline") != LUA_TTABLE)
    return 0;
  int list = lua_gettop(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, list);
  for (lua_Integer i = 1; i <= n && !r->rc; i++) {
    lua_rawgeti(L, list, i);
    int entry = lua_gettop(L);
    struct value *action = bind_hold_value(L);
    struct written w = {.number = (uint32_t)i,
                        .at_s = seconds(L, entry, "at"),
                        .every_s = seconds(L, entry, "every"),
                        .window_s = seconds(L, entry, "window")};
    if (lua_getfield(L, entry, "times") == LUA_TNUMBER)
      w.times = lua_tointeger(L, -1);
    if (lua_getfield(L, entry, "run") != LUA_TFUNCTION)
      read_action(L, entry, action);
    w.action = *action;
    r->rc = add_all(r, &w);
    lua_settop(L, list);
  }
  return 0;
}

static int by_time(const void *a, const void *b) {
  const struct timeline_entry *x = a, *y = b;
  if (x->at_s != y->at_s)
    return x->at_s < y->at_s ? -1 : 1;
  if (x->number != y->number)
    return x->number < y->number ? -1 : 1;
  return x->round < y->round ? -1 : x->round > y->round;
}

int bind_plan_timeline(struct state *s, struct plan_info *p, struct err *err) {
  struct reading r = {.plan = p, .err = err};
  int rc = state_call(s, read_timeline, &r, err);
  if (!rc)
    rc = r.rc;
  if (p->n_timeline > 1)
    qsort(p->timeline, p->n_timeline, sizeof *p->timeline, by_time);
  return rc;
}
