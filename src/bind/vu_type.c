/* vu_type.c: the virtual user as scripts see it: its fields, its methods by name, its types. */
#include <lauxlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/hold.h"
#include "bind/rng.h"
#include "bind/runtime.h"
#include "bind/shared.h"
#include "bind/vu_bind.h"
#include "run/fleet.h"
#include "run/schedule.h"

static const char fleet_key, params_key; /* their addresses are registry keys */

/* ---- fields ---- */

/* Read-only data made once per state: registry[key] keeps the tree, which is pushed. */
static MAY_RAISE bool push_cached(lua_State *L, const char *key) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    return false;
  }
  bind_push_shared(L, lua_touserdata(L, -1));
  lua_remove(L, -2);
  return true;
}

static MAY_RAISE void push_tree(lua_State *L, const char *key, struct shared *held) {
  shared_seal(held);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
  bind_push_shared(L, held);
  lua_remove(L, -2);
}

static void add_string(struct shared *object, const char *key, const char *text) {
  if (text)
    shared_set_string(shared_add(object, key, strlen(key)), text);
}

static MAY_RAISE void push_fleet(lua_State *L, const struct state *s) {
  if (push_cached(L, &fleet_key))
    return;
  const struct fleet *f = s->options.fleet;
  struct shared *tree = bind_hold_shared(L);
  tree->kind = SHARED_OBJECT;
  struct shared *replicas = shared_add(tree, "replicas", strlen("replicas"));
  replicas->kind = SHARED_ARRAY;
  for (size_t i = 0; f && i < f->n_replicas; i++) {
    struct shared *r = shared_push(replicas);
    r->kind = SHARED_OBJECT;
    add_string(r, "id", f->replicas[i].id);
    add_string(r, "url", f->replicas[i].url);
    if (i >= f->n_replicas - f->n_spares)
      *shared_add(r, "spare", strlen("spare")) =
          (struct shared){.kind = SHARED_BOOL, .u.boolean = true};
  }
  if (f) {
    add_string(tree, "gateway", f->gateway);
    add_string(tree, "model", f->model);
    add_string(tree, "tenant", f->tenant);
    add_string(tree, "tokenizer", f->tokenizer);
    add_string(tree, "template", f->template);
    add_string(tree, "now", f->now);
    add_string(tree, "hash_scheme", f->hash_scheme);
    if (f->block_size)
      *shared_add(tree, "block_size", strlen("block_size")) =
          (struct shared){.kind = SHARED_INT, .u.integer = f->block_size};
    *shared_add(tree, "verify", strlen("verify")) =
        (struct shared){.kind = SHARED_BOOL, .u.boolean = f->verify};
    *shared_add(tree, "simulated", strlen("simulated")) =
        (struct shared){.kind = SHARED_BOOL, .u.boolean = f->simulated};
  }
  vu_push_fleet_methods(L);
  bind_shared_methods(L, tree);
  push_tree(L, &fleet_key, tree);
}

static MAY_RAISE void push_params(lua_State *L) {
  if (push_cached(L, &params_key))
    return;
  struct shared *tree = bind_hold_shared(L);
  int held = lua_gettop(L);
  lua_newtable(L);
  bind_push_declared(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, held + 2, i);
    lua_getfield(L, -1, "name");
    if (lua_getfield(L, -2, "value") == LUA_TNIL) { /* declared, without a default */
      lua_pop(L, 1);
      lua_pushlightuserdata(L, NULL);
    }
    lua_rawset(L, held + 1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  bind_to_shared(L, -1, tree);
  lua_settop(L, held);
  bind_shared_strict(L, tree, "vu.params");
  push_tree(L, &params_key, tree);
}

/* The generator moves into a userdata when the script first asks for it. */
static MAY_RAISE void push_rng(lua_State *L, struct vu *vu) {
  if (lua_getiuservalue(L, 1, 3) == LUA_TUSERDATA)
    return;
  lua_pop(L, 1);
  struct rng *r = bind_new_rng(L);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, 3);
  *r = vu->rng;
  vu->draws = r;
}

static int field_id(lua_State *L, struct vu *vu) {
  lua_pushinteger(L, vu->id);
  return 1;
}

static int field_session(lua_State *L, struct vu *vu) {
  if (vu->root->kind == VU_SESSION)
    lua_pushinteger(L, (lua_Integer)vu->session);
  else
    lua_pushnil(L);
  return 1;
}

static int field_arm(lua_State *L, struct vu *vu) {
  lua_pushstring(L, vu->state->options.arm);
  return 1;
}

static int field_rng(lua_State *L, struct vu *vu) {
  push_rng(L, vu);
  return 1;
}

static int field_params(lua_State *L, struct vu *vu) {
  (void)vu;
  push_params(L);
  return 1;
}

static int field_shared(lua_State *L, struct vu *vu) {
  if (vu->state->setup)
    bind_push_shared(L, vu->state->setup);
  else
    lua_pushnil(L);
  return 1;
}

static int field_fleet(lua_State *L, struct vu *vu) {
  push_fleet(L, vu->state);
  return 1;
}

static int field_route(lua_State *L, struct vu *vu) {
  (void)vu;
  state_push_plan(L);
  lua_getfield(L, -1, "route");
  return 1;
}

static int field_branch_id(lua_State *L, struct vu *vu) {
  lua_pushinteger(L, vu->branch);
  return 1;
}

static int field_parent_branch(lua_State *L, struct vu *vu) {
  if (vu->parent_branch >= 0)
    lua_pushinteger(L, vu->parent_branch);
  else
    lua_pushnil(L);
  return 1;
}

static const struct field {
  const char *name;
  int (*push)(lua_State *L, struct vu *vu);
} fields[] = {
    {"arm", field_arm},         {"branch_id", field_branch_id},
    {"fleet", field_fleet},     {"id", field_id},
    {"params", field_params},   {"parent_branch", field_parent_branch},
    {"rng", field_rng},         {"route", field_route},
    {"session", field_session}, {"shared", field_shared},
};

/* ---- the type ---- */

static const luaL_Reg methods[] = {
    {"all", vu_method_all},
    {"branch", vu_method_branch},
    {"check", vu_method_check},
    {"fail", vu_method_fail},
    {"http", vu_method_http},
    {"in_rotation", vu_method_in_rotation},
    {"inflight", vu_method_inflight},
    {"log", vu_method_log},
    {"now", vu_method_now},
    {"pick", vu_method_pick},
    {"pick_least", vu_method_pick_least},
    {"pick_next", vu_method_pick_next},
    {"record", vu_method_record},
    {"sleep", vu_method_sleep},
    {"spawn", vu_method_spawn},
    {"stand_in", vu_method_stand_in},
    {"tag", vu_method_tag},
    {"try_http", vu_method_try_http},
    {NULL, NULL},
};

static MAY_RAISE NORETURN void unknown_field(lua_State *L) {
  const char *known[ARRAY_LEN(fields) + ARRAY_LEN(methods)];
  size_t n = 0;
  for (size_t i = 0; i < ARRAY_LEN(fields); i++)
    known[n++] = fields[i].name;
  for (const luaL_Reg *m = methods; m->name; m++)
    known[n++] = m->name;
  const char *name = luaL_tolstring(L, 2, NULL), *near = err_nearest(name, known, n);
  bind_raise(L, "vu has no '%s'%s%s%s", name, near ? " (did you mean '" : "", near ? near : "",
             near ? "'?)" : "");
}

static int vu_index(lua_State *L) { /* upvalue: the methods, and the fields as addresses */
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  int type = lua_rawget(L, lua_upvalueindex(1));
  if (type == LUA_TFUNCTION)
    return 1;
  struct vu *vu = bind_check_vu(L, 1);
  if (type == LUA_TNIL)
    unknown_field(L);
  const struct field *field = lua_touserdata(L, 3);
  return field->push(L, vu);
}

void vu_refuse_self(lua_State *L) {
  lua_Debug ar;
  const char *got = luaL_typename(L, 1);
  if (lua_getstack(L, 0, &ar) && lua_getinfo(L, "f", &ar))
    for (const luaL_Reg *m = methods; m->name; m++)
      if (lua_tocfunction(L, -1) == m->func)
        bind_raise(L, "vu:%s: call it with a colon, vu:%s(...); got %s for the virtual user",
                   m->name, m->name, got);
  bind_raise(L, "a virtual user (vu) is expected, got %s", got);
}

static int vu_newindex(lua_State *L) {
  bind_raise(L, "vu.%s cannot be set: keep your own data in locals, tag rows with vu:tag",
             luaL_tolstring(L, 2, NULL));
}

static int vu_tostring(lua_State *L) {
  const struct vu_handle *h = luaL_checkudata(L, 1, VU_TYPE);
  char name[32];
  if (!h->vu) {
    lua_pushliteral(L, "vu (ended)");
    return 1;
  }
  schedule_session_name(h->vu->session, name);
  lua_pushfstring(L, "vu (%s, branch %d)", name, (int)h->vu->branch);
  return 1;
}

static int failure_tostring(lua_State *L) {
  lua_settop(L, 1);
  lua_getfield(L, 1, "class");
  lua_pushliteral(L, ": ");
  lua_getfield(L, 1, "detail");
  luaL_tolstring(L, -1, NULL);
  lua_remove(L, -2);
  lua_concat(L, 3);
  return 1;
}

void bind_vu_open(lua_State *L) {
  static const luaL_Reg vu_meta[] = {
      {"__newindex", vu_newindex}, {"__tostring", vu_tostring}, {NULL, NULL}};
  static const luaL_Reg task_methods[] = {{"join", vu_task_join}, {NULL, NULL}};
  static const luaL_Reg task_meta[] = {{"__gc", vu_task_gc}, {NULL, NULL}};
  static const luaL_Reg failure_meta[] = {{"__tostring", failure_tostring}, {NULL, NULL}};
  bind_new_type(L, VU_TYPE, vu_meta, NULL);
  luaL_getmetatable(L, VU_TYPE);
  if (state_of(L))
    state_of(L)->vu_type = lua_topointer(L, -1);
  luaL_newlib(L, methods);
  for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
    lua_pushlightuserdata(L, (void *)&fields[i]);
    lua_setfield(L, -2, fields[i].name);
  }
  lua_pushcclosure(L, vu_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  bind_new_type(L, VU_TASK_TYPE, task_meta, task_methods);
  bind_new_type(L, VU_FAILURE_TYPE, failure_meta, NULL);
}
