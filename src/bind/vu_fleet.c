/* vu_fleet.c: what a script can do to the fleet while it runs: fleet:restart, fleet:kill, … of
 * vu.fleet and of perigee.fleet.
 *
 * A method waits until its action has ended, as anything that a virtual user waits for, and returns
 * the fleet's answer. The actions and their fields are the fleet's own (sim/actions.h): what is
 * wrong with them it says itself. */
#include <lauxlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/hold.h"
#include "bind/vu_bind.h"
#include "run/fleet.h"
#include "run/timeline.h"
#include "run/worker.h"

/* An action, the field that its first argument may be, instead of a table of all of them, and a
 * call. */
static const struct method {
  const char *name, *first, *call;
} methods[] = {
    {"add", "start", "fleet:add(\"5s\")"},
    {"clear_faults", "replica", "fleet:clear_faults(\"r1\")"},
    {"delay_events", "delay", "fleet:delay_events(\"500ms\", { lasts = \"10s\" })"},
    {"drain", "replica", "fleet:drain(\"r1\", { timeout = \"30s\" })"},
    {"drop_events", "p", "fleet:drop_events(0.3, { lasts = \"10s\" })"},
    {"fault", "fault", "fleet:fault(\"429 p=0.5\", { replica = \"r1\", lasts = \"10s\" })"},
    {"kill", "replica", "fleet:kill(\"r1\")"},
    {"pressure", "share", "fleet:pressure(\"30%\", { replica = \"r1\", lasts = \"10s\" })"},
    {"reset_cache", "replica", "fleet:reset_cache(\"r1\", { reset_running = true })"},
    {"restart", "replica", "fleet:restart(\"r1\", { down = \"2s\" })"},
};

/* What vu.fleet has besides, and may be without. */
static const char *const fields[] = {"block_size", "gateway",   "hash_scheme", "model",
                                     "now",        "replicas",  "simulated",   "template",
                                     "tenant",     "tokenizer", "verify"};

static const char no_port[] =
    "fleet:%s: these servers cannot be told to: that is for the built-in fleet (perigee run "
    "without --replica, perigee dry) and for a `perigee sim` whose admin port the fleet file names "
    "as admin = {url =, token =}; a real server is restarted by whoever runs it";

/* ---- arguments ---- */

/* A replica by its place, as elsewhere, becomes its id. */
static MAY_RAISE void name_replica(lua_State *L, const struct vu *vu, const struct method *m,
                                   struct value *action) {
  const struct fleet *f = vu->state->options.fleet;
  struct value *v = value_get(action, "replica");
  int64_t at;
  if (!v || v->kind != VALUE_INT)
    return;
  value_to_int(v, &at);
  if (at < 1 || !f || (uint64_t)at > f->n_replicas)
    bind_raise(L, "fleet:%s: there is no replica %d, the fleet has %d", m->name, (int)at,
               f ? (int)f->n_replicas : 0);
  value_set(action, "replica", value_cstring(f->replicas[at - 1].id));
}

/* The action of the arguments behind the fleet: (first, fields), (fields) or (first). */
static MAY_RAISE void read_action(lua_State *L, const struct method *m, struct value *out) {
  int at = lua_istable(L, 2) ? 2 : 3;
  *out = value_object();
  if (at == 2 && !lua_isnoneornil(L, 3))
    bind_raise(L, "fleet:%s: give one table of fields, not two", m->name);
  if (!lua_isnoneornil(L, at)) {
    if (!lua_istable(L, at))
      bind_raise(L, "fleet:%s: a table of fields is expected, got %s; as in %s", m->name,
                 luaL_typename(L, at), m->call);
    bind_to_value(L, at, out);
    if (out->kind != VALUE_OBJECT && value_count(out) > 0)
      bind_raise(L, "fleet:%s: fields have names, as in { %s = ... }", m->name, m->first);
    if (out->kind != VALUE_OBJECT) {
      value_free(out);
      *out = value_object();
    }
  }
  if (value_get(out, "action"))
    bind_raise(L, "fleet:%s: the action is the method's name; leave the field action out", m->name);
  if (at == 3 && !lua_isnoneornil(L, 2)) {
    struct value *first = bind_hold_value(L);
    if (value_get(out, m->first))
      bind_raise(L, "fleet:%s: %s is given twice", m->name, m->first);
    bind_to_value(L, 2, first);
    value_set(out, m->first, *first);
    *first = value_null();
  }
  value_set(out, "action", value_cstring(m->name));
}

/* ---- waiting ---- */

#define HOLD_TYPE "perigee.hold.ask"

/* On the stack of the one who waits: a user that is cancelled between the answer and its turn never
 * looks at it. */
struct hold {
  struct timeline_ask *ask;
};

static int hold_gc(lua_State *L) {
  struct hold *h = luaL_checkudata(L, 1, HOLD_TYPE);
  if (h->ask)
    timeline_ask_free(h->ask); /* it is back: one that is not is forgotten before */
  h->ask = NULL;
  return 0;
}

static MAY_RAISE struct hold *push_hold(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", hold_gc}, {NULL, NULL}};
  bind_new_type(L, HOLD_TYPE, meta, NULL);
  return bind_new_userdata(L, sizeof(struct hold), HOLD_TYPE);
}

static void forget(struct vu *vu) {
  struct hold *h = vu->op;
  h->ask->vu = NULL; /* it frees itself */
  h->ask = NULL;
}

static int answered(lua_State *L, struct vu *vu) {
  const struct hold *h = vu->op;
  const struct method *m = lua_touserdata(L, lua_upvalueindex(1));
  vu->op = NULL;
  vu->due_ns = loop_now(vu->state->options.loop);
  if (h->ask->rc)
    bind_raise(L, "fleet:%s: %s", m->name, h->ask->err.text);
  bind_push_value(L, &h->ask->answer, false);
  return 1;
}

static int act(lua_State *L) {
  const struct method *m = lua_touserdata(L, lua_upvalueindex(1));
  struct vu *vu;
  if (!lua_istable(L, 1) || lua_gettop(L) > 3)
    bind_raise(L, "fleet:%s: call it with a colon, fleet:%s(...)", m->name, m->name);
  lua_settop(L, 3);
  lua_pushnil(L); /* or bind_raise takes it for a module's function that was called as a method */
  lua_replace(L, 1);
  const struct state *s = state_of(L);
  if (!s || !s->running)
    bind_raise(L,
               "fleet:%s waits, and no virtual user is running here: call it in setup, session, "
               "teardown or a function of the timeline",
               m->name);
  vu = s->running;
  vu_check_wait(L, vu, lua_pushfstring(L, "fleet:%s", m->name));
  struct value *action = bind_hold_value(L);
  read_action(L, m, action);
  name_replica(L, vu, m, action);
  struct worker *w = s->options.worker;
  if (!w || !timeline_can_act(w->run->timeline))
    bind_raise(L, no_port, m->name);
  struct hold *h = push_hold(L);
  h->ask = timeline_ask(w->run->timeline, vu, action);
  vu->op = h;
  return vu_wait(L, vu, forget, answered);
}

/* ---- the methods ---- */

void vu_add_fleet_methods(lua_State *L) {
  for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
    lua_pushlightuserdata(L, (void *)&methods[i]);
    lua_pushcclosure(L, act, 1);
    lua_setfield(L, -2, methods[i].name);
  }
}

/* __index of the methods of vu.fleet: a name that is none. */
static int unknown_name(lua_State *L) {
  const char *known[ARRAY_LEN(methods) + ARRAY_LEN(fields)];
  size_t n = 0;
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
  luaL_Buffer list;
  lua_settop(L, 2);
  luaL_buffinit(L, &list);
  for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
    known[n++] = methods[i].name;
    luaL_addstring(&list, i ? ", " : "");
    luaL_addstring(&list, methods[i].name);
  }
  luaL_pushresult(&list);
  bool is_field = false;
  for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
    known[n++] = fields[i];
    is_field = is_field || (name && strcmp(fields[i], name) == 0);
  }
  if (!name || is_field) {
    lua_pushnil(L);
    return 1;
  }
  const char *near = err_nearest(name, known, n);
  bind_raise(L, "vu.fleet has no '%s'%s%s%s; its methods are %s", name,
             near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "",
             lua_tostring(L, 3));
}

void vu_push_fleet_methods(lua_State *L) {
  lua_createtable(L, 0, ARRAY_LEN(methods));
  vu_add_fleet_methods(L);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, unknown_name);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
}
