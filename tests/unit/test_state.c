/* test_state.c: Lua states: memory, collector, whose thread is whose, and every allocation failing
 * once while a script loads and a session runs (state.c; with vu.c and the bindings: guard.c,
 * runtime.c, shared.c, vu_http.c, vu_methods.c, vu_result.c, vu_tasks.c, route.c). */
#include "check.h"

#include <lauxlib.h>
#include <lua.h>

#include "bind/bind.h"
#include "run/worker.h"
#include "run_peer.h"

static struct peer peer;
static struct script script;
static struct fleet fleet;
static struct store *store;
static struct worker worker;
static struct run run;
static struct run_config config;
static struct writer *writer;

static int set_up(void **state) {
  (void)state;
  struct err err;
  char url[64];
  peer_start(&peer);
  snprintf(url, sizeof url, "http://127.0.0.1:%d", peer.port);
  check_ok(fleet_add_replica(&fleet, url, &err), &err);
  store = store_new();
  check_ok(http_global_init(&err), &err);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  store_delete(store);
  fleet_free(&fleet);
  script_remove(&script);
  peer_stop(&peer);
  return 0;
}

/* A worker without a thread: its loop is run by the test. */
static void make_worker(void) {
  struct err err;
  config = (struct run_config){.binding = bind_state_binding(), .fleet = &fleet, .store = store};
  run = (struct run){.config = &config, .router = router_new(1, 0)};
  worker = (struct worker){.run = &run, .loop = loop_new(&err)};
  assert_non_null(worker.loop);
  run.zero_ns = loop_now(worker.loop);
  check_ok(writer_start(&(struct writer_options){.run_id = "t"}, &writer, &err), &err);
  worker.recorder = recorder_new(writer, 0);
  const struct http_client_options options = {
      .loop = worker.loop, .recorder = worker.recorder, .zero_ns = run.zero_ns};
  worker.client = http_client_new(&options, &err);
  worker.targets = mem_calloc(2, sizeof *worker.targets);
  const struct http_target_options target = {.url = fleet.replicas[0].url};
  check_ok(http_client_target(worker.client, &target, &worker.targets[0], &err), &err);
}

static void drop_worker(void) {
  http_client_delete(worker.client);
  mem_free(worker.targets);
  for (size_t i = 0; i < router_replicas(run.router); i++)
    assert_int_equal(router_inflight(run.router, i), 0);
  router_delete(run.router);
  loop_delete(worker.loop);
  struct err err;
  recorder_delete(worker.recorder);
  check_ok(writer_stop(writer, &err), &err);
  writer_delete(writer);
}

static struct state_options options_for(const char *text) {
  script_write(&script, text);
  store_delete(store); /* it has the bytes of the script before */
  config.store = store = store_new();
  return (struct state_options){.script = script.path,
                                .binding = bind_state_binding(),
                                .loop = worker.loop,
                                .store = store,
                                .worker = &worker,
                                .fleet = &fleet};
}

#define PLAN(body)                                                                                 \
  "local perigee = require 'perigee'\nreturn perigee.plan { load = perigee.closed { users = 1, "   \
  "sessions = 1 }, session = function(vu) " body " end }\n"

static void memory_has_a_limit(void **state) {
  (void)state;
  make_worker();
  struct state_options o =
      options_for("local t = {} while true do t[#t + 1] = ('x'):rep(1e5) .. #t end");
  o.memory_bytes = 8 << 20;
  struct state *s;
  struct err err;
  assert_int_equal(state_new(&o, &s, &err), ERR_LIMIT);
  check_has(err.text, ".lua:1: not enough memory: Lua data and texts of one state may take 8 MiB");
  assert_null(s);
  drop_worker();
}

static int make_garbage(lua_State *L) {
  for (int i = 0; i < 200; i++) {
    lua_newtable(L);
    lua_pushfstring(L, "garbage %d", i);
    lua_rawseti(L, -2, 1);
    lua_pop(L, 1);
  }
  return 0;
}

static void the_collector_keeps_up(void **state) {
  (void)state;
  make_worker();
  struct state_options o = options_for(PLAN(""));
  struct state *s;
  struct err err;
  check_ok(state_new(&o, &s, &err), &err);
  size_t live = s->live_bytes, most = 0;
  assert_true(live > 0 && live == s->bytes);
  for (int i = 0; i < 2000; i++) { /* some 50 MB of garbage, steps forced only */
    check_ok(state_call(s, make_garbage, NULL, &err), &err);
    state_settle(s);
    most = s->bytes > most ? s->bytes : most;
  }
  assert_true(most < 6u << 20); /* twice the floor of 1 MiB, and what one cycle takes */
  assert_true(most > 1u << 20); /* and not at every turn */
  for (int i = 0; i < 200; i++)
    check_ok(state_call(s, make_garbage, NULL, &err), &err);
  int steps = 0;
  while (state_collect(s)) {
    steps++;
  }
  assert_true(steps > 2); /* in small pieces */
  while (s->bytes > s->live_bytes + s->live_bytes / 4 + (256 << 10) && state_collect(s))
    ;
  assert_true(s->bytes < live + (1u << 20));
  assert_false(state_collect(s)); /* nothing worth a step is left */
  state_delete(s);
  drop_worker();
}

static int raw_order(lua_State *L) {
  char *out = lua_touserdata(L, 1);
  lua_newtable(L);
  for (int i = 0; i < 24; i++) {
    lua_pushfstring(L, "key%d", i);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
  }
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    strcat(out, lua_tostring(L, -1));
  }
  return 0;
}

/* That sessions do not depend on hash seeds is tested elsewhere; here, that seeds do differ. */
static void states_have_hash_seeds_of_their_own(void **state) {
  (void)state;
  make_worker();
  struct state_options o = options_for(PLAN(""));
  struct state *s[4];
  struct err err;
  char order[4][400] = {{0}};
  for (int i = 0; i < 4; i++) {
    check_ok(state_new(&o, &s[i], &err), &err);
    check_ok(state_call(s[i], raw_order, order[i], &err), &err);
  }
  assert_false(strcmp(order[0], order[1]) == 0 && strcmp(order[0], order[2]) == 0 &&
               strcmp(order[0], order[3]) == 0);
  for (int i = 0; i < 4; i++)
    state_delete(s[i]);
  drop_worker();
}

static int whose(lua_State *L) {
  struct state *s = lua_touserdata(L, 1);
  assert_ptr_equal(state_of(L), s);
  assert_false(state_vu_of(L, NULL));
  lua_State *co = lua_newthread(L);
  assert_ptr_equal(state_of(co), s);
  assert_false(state_vu_of(co, NULL));
  return 0;
}

static int open_plain(lua_State *L) {
  return bind_open(L, NULL);
}

static void threads_know_their_state(void **state) {
  (void)state;
  make_worker();
  struct state_options o = options_for(PLAN(""));
  struct state *s;
  struct err err;
  check_ok(state_new(&o, &s, &err), &err);
  check_ok(state_call(s, whose, s, &err), &err);
  state_delete(s);
  lua_State *L = luaL_newstate(); /* no run's */
  lua_pushcfunction(L, open_plain);
  assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
  assert_null(state_of(L));
  assert_int_equal(
      luaL_dostring(L,
                    "local s = '' for k in pairs { b = 1, a = 2 } do s = s .. k end\n"
                    "assert(s == 'ab' and math.random() < 1 and os.time() > 0)\n"
                    "assert(require('perigee').shared('x', function() return { 7 } end)[1] == 7)\n"
                    "assert(select(2, pcall(error, 'e')) == 'e')"),
      LUA_OK);
  lua_close(L);
  drop_worker();
}

/* ---- every allocation fails once ---- */

struct failing {
  size_t made, fail_at; /* 0 = never */
};

/* Number fail_at fails, and so does the attempt that Lua makes after a collection. */
static bool may_allocate(void *user) {
  struct failing *f = user;
  f->made++;
  return f->fail_at == 0 || (f->made != f->fail_at && f->made != f->fail_at + 1);
}

static struct vu_outcome ended_as;

static void session_ended(struct vu *vu) {
  vu_outcome_set(&ended_as, vu->outcome.error, vu->outcome.detail);
  loop_stop(worker.loop);
}

/* Loads the script and runs one session; 0 when all of it went well, 1 when something failed as it
 * should. */
static int once(struct failing *f, size_t *loaded) {
  struct state_options o = options_for(
      PLAN("vu:tag('a', 1) local r = vu:http { path = '/v1/chat/completions', stream = 'chat',\n"
           "headers = { ['X-Session'] = 's' }, tags = { b = true }, json = { messages = { { "
           "content = 'x' } } } }\n"
           "local t = vu:spawn(function(c) return vu.session end)\n"
           "local list = vu:all({ 1, 2 }, function(c, i) return c:try_http { path = '/', replica = "
           "vu:pick_least() }.body end)\n"
           "assert(t:join() == 0 and list[2] == 'hello' and r.text == 'one two three four')\n"
           "for k in pairs(vu.params) do end vu.rng:int(1, 2) vu:sleep(0)"));
  o.may_allocate = may_allocate;
  o.may_allocate_user = f;
  struct state *s;
  struct err err;
  if (state_new(&o, &s, &err)) {
    assert_true(err.code == ERR_LIMIT || strstr(err.text, "not enough memory"));
    return 1;
  }
  *loaded = f->made;
  const struct vu_start start = {.kind = VU_SESSION, .seed = 1, .ended = session_ended};
  struct vu *vu;
  int rc = vu_new(s, &start, &vu, &err);
  if (rc) {
    assert_int_equal(rc, ERR_LIMIT);
  } else {
    loop_run(worker.loop);
    rc = ended_as.error != SAMPLE_OK;
    if (rc) {
      assert_int_equal(ended_as.error, SAMPLE_SCRIPT);
      const char *detail = vu_outcome_detail(&ended_as);
      if (!strstr(detail, "not enough memory") && !strstr(detail, "stack overflow"))
        fail_msg("allocation %zu: %s", f->fail_at, detail); /* luaL_checkstack says it so */
    }
    vu_outcome_free(&ended_as);
  }
  assert_int_equal(s->users, 0);
  assert_null(s->running);
  state_delete(s);
  return rc != 0;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  make_worker();
  struct failing f = {.fail_at = 0};
  size_t loaded = 0, failures = 0;
  assert_int_equal(once(&f, &loaded), 0);
  size_t all = f.made, load = loaded;
  assert_true(load > 500 && all > load + 50);
  for (size_t n = 1; n <= all; n += n < load ? 11 : 1) { /* loading is long and much alike */
    f = (struct failing){.fail_at = n};
    failures += (size_t)once(&f, &loaded);
  }
  assert_true(failures > (all - load) / 2);
  f = (struct failing){.fail_at = 0};
  assert_int_equal(once(&f, &loaded), 0);
  drop_worker();
}

/* ---- rotation ---- */

/* One session of a worker of its own, whose errors fail the test. */
static void run_session(bool in_rotation, const char *text) {
  make_worker();
  assert_int_equal(router_set_in_rotation(run.router, 0, in_rotation), !in_rotation);
  struct state_options o = options_for(text);
  struct state *s;
  struct vu *vu;
  struct err err;
  check_ok(state_new(&o, &s, &err), &err);
  const struct vu_start start = {.kind = VU_SESSION, .seed = 1, .ended = session_ended};
  check_ok(vu_new(s, &start, &vu, &err), &err);
  loop_run(worker.loop);
  if (ended_as.error != SAMPLE_OK)
    fail_msg("%s", vu_outcome_detail(&ended_as));
  vu_outcome_free(&ended_as);
  state_delete(s);
  drop_worker();
}

#define SENDS                                                                                      \
  "local route, chat = require 'perigee.route', require 'perigee.chat'\n"                          \
  "for _, make in ipairs { route.direct, route.round_robin, route.random, route.least_inflight,\n" \
  "route.session_hash, route.default } do\n"                                                       \
  "local conv = chat.new(vu, { model = 'm', route = make() }) conv:user 'x'\n"                     \
  "local reply, class, why = conv:try_send { max_tokens = 4 }\n"

static void policies_see_the_rotation(void **state) {
  (void)state;
  run_session(true,
              PLAN("assert(vu:in_rotation(1) and vu:in_rotation 'r0' and vu:stand_in(1) == 1)\n"
                   "assert(vu:pick_next 'a' == 1)\n" SENDS
                   "assert(reply and reply.served == 'r0', why) end"));
  run_session(
      false,
      PLAN(
          "assert(not vu:in_rotation(1) and vu:stand_in(1) == nil)\n"
          "assert(vu:pick_next 'a' == nil and vu:pick_least() == nil and vu:inflight(1) == "
          "0)\n" SENDS "assert(reply == nil and class == 'connect')\n"
          "assert(why == \"no replica is in rotation: the fleet's only one, r0, is out of it\", "
          "why) "
          "end\n"
          "assert(vu:http { path = '/', replica = 1 }.body == 'hello')\n" /* asked for by name */
          "assert(select(2, pcall(vu.in_rotation, vu, 2)):find('replica 2 is not one', 1, true))"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_has_a_limit),
      cmocka_unit_test(the_collector_keeps_up),
      cmocka_unit_test(states_have_hash_seeds_of_their_own),
      cmocka_unit_test(threads_know_their_state),
      cmocka_unit_test(policies_see_the_rotation),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
