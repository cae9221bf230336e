/* luafleet.c: module perigee.fleet: the simulated fleet's own parts, for scripts and tests.
 *
 * `replay` steps the engine model (kv/engine.h) over a trace, without sockets and without a clock;
 * `profiles` are those of kv/steptime.h; the methods are vu_fleet.c's. */
#include "bind/bind.h"
#include "bind/core.h"
#include "bind/hold.h"
#include "bind/text.h"
#include "bind/vu_bind.h"
#include "kv/engine.h"
#include "kv/steptime.h"

/* replay(trace_json) -> result_json; nil, message when it is no trace */
static int fleet_replay(lua_State *L) {
  lua_settop(L, 1);
  const struct blob *trace =
      bind_text_blob(L, bind_check_text_node(L, 1, "fleet.replay: the trace"));
  struct buf *out = bind_hold_buf(L);
  struct err err;
  if (engine_replay(trace->data, trace->len, out, &err)) {
    lua_pushnil(L);
    lua_pushstring(L, err.text);
    return 2;
  }
  lua_pushlstring(L, out->data, out->len);
  return 1;
}

/* profiles() -> {name -> table of a profile file's fields}: the built-in ones */
static int fleet_profiles(lua_State *L) {
  size_t n;
  const struct steptime_profile *all = steptime_profiles(&n);
  struct value *v = bind_hold_value(L);
  *v = value_object();
  for (size_t i = 0; i < n; i++)
    value_set(v, all[i].name, steptime_describe(&all[i]));
  bind_push_value(L, v, false);
  return 1;
}

static const luaL_Reg functions[] = {
    {"profiles", fleet_profiles},
    {"replay", fleet_replay},
    {NULL, NULL},
};

int luaopen_perigee_fleet(lua_State *L) {
  luaL_newlib(L, functions);
  vu_add_fleet_methods(L);
  bind_name_module(L, "fleet");
  return 1;
}
