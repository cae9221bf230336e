/* test_timeline.c: what a plan's timeline and its scripts do to a fleet, in virtual time and exact
 * (timeline.c, bind/plantimeline.c, bind/vu_fleet.c). */
#include "check.h"

#include "run_peer.h"
#include "text/json.h"

/* A fleet that takes `takes` ns for an action, and refuses to kill. */
struct fake {
  struct fleetport port;
  struct loop *loop;
  struct loop_timer timer;
  struct fleetport_call *call;
  uint64_t takes;
  bool names; /* it says whom it was done to: r0 and r1, an added r2 */
  bool added;
  int begun, cancelled;
};

static void name_replicas(struct fake *f, struct fleetport_call *call, const char *name) {
  const char *replica = value_to_string(value_get(call->action, "replica"));
  struct value *list = value_set(&call->answer, "replicas", value_array());
  bool all = replica && strcmp(replica, "*") == 0;
  if (strcmp(name, "add") == 0)
    value_push(list, value_cstring("r2"));
  else if (!all)
    value_push(list, value_cstring(replica));
  for (int i = 0; all && i < 3; i++)
    value_push(list, value_cstring(i == 0 ? "r0" : i == 1 ? "r1" : f->added ? "r2" : "r0"));
  f->added = f->added || strcmp(name, "add") == 0;
}

static void fake_fire(struct loop_timer *timer) {
  struct fake *f = CONTAINER_OF(timer, struct fake, timer);
  struct fleetport_call *call = f->call;
  const char *name = value_to_string(value_get(call->action, "action"));
  f->call = NULL;
  call->answer = value_null();
  const char *replica = value_to_string(value_get(call->action, "replica"));
  if (replica && strcmp(replica, "r9") == 0) {
    call->rc = err_set(&call->err, ERR_NOT_FOUND, "no replica r9");
  } else if (strcmp(name, "kill") == 0) {
    call->rc = err_set(&call->err, ERR_LIMIT, "replica r1 is down already");
  } else {
    call->answer = value_object();
    value_set(&call->answer, "did", value_copy(call->action));
    if (f->names)
      name_replicas(f, call, name);
  }
  call->done(call);
}

static void fake_begin(void *self, struct fleetport_call *call) {
  struct fake *f = self;
  assert_null(f->call); /* the tests do one thing at a time */
  f->begun++;
  f->call = call;
  loop_timer_set(f->loop, &f->timer, loop_now(f->loop) + f->takes);
}

static void fake_cancel(void *self, struct fleetport_call *call) {
  struct fake *f = self;
  assert_ptr_equal(f->call, call);
  f->call = NULL;
  f->cancelled++;
  loop_timer_clear(f->loop, &f->timer);
}

static struct fake fake;
static struct runner runner;

static int set_up(void **state) {
  (void)state;
  struct err err;
  fake = (struct fake){.loop = loop_new_virtual(&err), .takes = 500 * NS_PER_MS};
  fake.port = (struct fleetport){.begin = fake_begin, .cancel = fake_cancel, .self = &fake};
  loop_timer_init(&fake.timer, fake_fire);
  runner_init(&runner);
  runner.config.loop = fake.loop;
  runner.config.fleetport = &fake.port;
  runner.fleet.replicas = mem_calloc(2, sizeof *runner.fleet.replicas);
  runner.fleet.n_replicas = 2;
  for (size_t i = 0; i < 2; i++) {
    runner.fleet.replicas[i].id = mem_strdup(i ? "r1" : "r0");
    runner.fleet.replicas[i].url = mem_strdup(i ? "http://127.0.0.1:2" : "http://127.0.0.1:1");
  }
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  runner_free(&runner);
  loop_delete(fake.loop);
  return 0;
}

/* The plan is read first: its entries are the config's. */
static void run_plan(const char *text) {
  struct plan_info info;
  struct err err;
  struct store *store = store_new();
  struct script script = {0};
  script_write(&script, text);
  const struct plan_source source = {.script = script.path, .store = store};
  check_ok(bind_plan_load(&source, &info, &err), &err);
  runner.config.timeline = info.timeline;
  runner.config.n_timeline = info.n_timeline;
  runner_run(&runner, text);
  for (size_t i = 0; i < runner.result.timeline.n; i++)
    runner.result.timeline.records[i].entry = NULL;
  plan_info_free(&info);
  store_delete(store);
  script_remove(&script);
}

#define HEAD "local perigee = require 'perigee'\nlocal fleet = require 'perigee.fleet'\n"
#define LOAD "load = perigee.closed { users = 1, duration = '10s', warmup = '2s' },\n"
#define SESSION "session = function(vu) vu:sleep(1) end,\n"

static double at(uint64_t ns) {
  return ((double)ns - (double)runner.result.window_start_ns) / 1e9;
}

/* Record i: who, what (as JSON), when in seconds of the window (end −1: never), and how. */
static void check_record(size_t i, const char *by, const char *action, double begin, double end,
                         enum timeline_state how) {
  assert_true(i < runner.result.timeline.n);
  const struct timeline_record *r = &runner.result.timeline.records[i];
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, &r->action);
  assert_string_equal(r->by, by);
  assert_string_equal(b.data, action);
  buf_free(&b);
  if (begin >= 0)
    check_near(at(r->begin_ns), begin, 1e-9);
  if (end < 0)
    assert_true(r->end_ns == TIMELINE_NEVER);
  else
    check_near(at(r->end_ns), end, 1e-9);
  assert_int_equal(r->state, how);
}

static void entries_are_done_at_their_times(void **state) {
  (void)state;
  run_plan(HEAD "return perigee.plan { " LOAD SESSION "timeline = {\n"
                "  { at = 4, action = 'restart', replica = 'r1', down = '2s' },\n"
                "  { at = '1s', every = '1s', times = 2, action = 'reset_cache' },\n"
                "  { at = '6s', action = 'kill', replica = 'r1' },\n"
                "  { at = '9.8s', action = 'add' },\n} }\n");
  assert_int_equal(runner.result.timeline.n, 5);
  check_record(0, "timeline", "{\"action\":\"reset_cache\"}", 1, 1.5, TIMELINE_DONE);
  check_record(1, "timeline", "{\"action\":\"reset_cache\"}", 2, 2.5, TIMELINE_DONE);
  check_record(2, "timeline", "{\"action\":\"restart\",\"down\":\"2s\",\"replica\":\"r1\"}", 4, 4.5,
               TIMELINE_DONE);
  check_record(3, "timeline", "{\"action\":\"kill\",\"replica\":\"r1\"}", 6, 6.5, TIMELINE_FAILED);
  assert_string_equal(runner.result.timeline.records[3].error, "replica r1 is down already");
  check_record(4, "timeline", "{\"action\":\"add\"}", 9.8, -1, TIMELINE_CUT_OFF);
  assert_int_equal(fake.begun, 5);
  assert_int_equal(fake.cancelled, 1);
  const struct value *did = value_get(&runner.result.timeline.records[2].answer, "did");
  assert_string_equal(value_to_string(value_get(did, "down")), "2s");
}

/* The load is bounded by sessions: it ends at 3 s. */
static void what_the_load_does_not_reach_is_not_begun(void **state) {
  (void)state;
  run_plan(HEAD "return perigee.plan { load = perigee.closed { users = 1, sessions = 3 },\n" SESSION
                "timeline = { { at = 1, action = 'reset_cache' },\n"
                "  { at = 5, action = 'restart', replica = 'r0' } } }\n");
  assert_int_equal(runner.result.timeline.n, 2);
  check_record(0, "timeline", "{\"action\":\"reset_cache\"}", 1, 1.5, TIMELINE_DONE);
  check_record(1, "timeline", "{\"action\":\"restart\",\"replica\":\"r0\"}", -1, -1,
               TIMELINE_NOT_BEGUN);
  assert_true(runner.result.timeline.records[1].begin_ns == TIMELINE_NEVER);
  check_near(at(runner.result.timeline.records[1].due_ns), 5, 1e-9);
  assert_int_equal(fake.begun, 1);
}

static void functions_run_as_users_of_their_own(void **state) {
  (void)state;
  run_plan(HEAD
           "return perigee.plan { " LOAD SESSION "timeline = {\n"
           "  { at = 2, run = function(f, vu)\n"
           "      local a = f:restart('r1', { down = '1s' })\n"
           "      print(a.did.action, a.did.replica, a.did.down, vu.session, f.replicas[2].id)\n"
           "      vu:sleep(1)\n"
           "      fleet:pressure { share = '50%' }\n"
           "      print(pcall(f.kill, f, 2))\n"
           "    end },\n"
           "  { at = 8, run = function(f, vu) vu:sleep(60) end },\n"
           "  { at = 9, run = function() error 'no' end } } }\n");
  assert_string_equal(runner_printed(&runner), "restart\tr1\t1s\tnil\tr1\n"
                                               "false\ts.lua:11: fleet:kill: replica r1 is down "
                                               "already\n");
  assert_int_equal(runner.result.timeline.n, 6);
  check_record(0, "timeline", "null", 2, 4.5, TIMELINE_DONE);
  check_record(1, "timeline[1]", "{\"down\":\"1s\",\"replica\":\"r1\",\"action\":\"restart\"}", 2,
               2.5, TIMELINE_DONE);
  check_record(2, "timeline[1]", "{\"share\":\"50%\",\"action\":\"pressure\"}", 3.5, 4,
               TIMELINE_DONE);
  check_record(3, "timeline[1]", "{\"replica\":\"r1\",\"action\":\"kill\"}", 4, 4.5,
               TIMELINE_FAILED);
  check_record(4, "timeline", "null", 8, -1, TIMELINE_CUT_OFF);
  check_record(5, "timeline", "null", 9, 9, TIMELINE_FAILED);
  check_has(runner.result.timeline.records[5].error, "no");
}

/* r2 is a spare. A drain that is refused changes nothing. */
static void rotation_follows(void **state) {
  (void)state;
  struct fleet *f = &runner.fleet;
  f->replicas = mem_resize(f->replicas, 3, sizeof *f->replicas);
  f->replicas[f->n_replicas++] =
      (struct fleet_replica){.id = mem_strdup("r2"), .url = mem_strdup("http://127.0.0.1:3")};
  f->n_spares = 1;
  fake.names = true;
  run_plan(HEAD "local function who(vu)\n"
                "  local s = ''\n"
                "  for i = 1, 3 do s = s .. (vu:in_rotation(i) and i or '-') end\n"
                "  return s\n"
                "end\n"
                "return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },\n"
                "session = function(vu)\n"
                "  local f, list = vu.fleet, { who(vu) }\n"
                "  local function act(fn, name)\n"
                "    local task = vu:spawn(function(child) pcall(f[fn], f, name) end)\n"
                "    vu:sleep(0.1) list[#list + 1] = who(vu)\n"
                "    task:join() list[#list + 1] = who(vu)\n"
                "  end\n"
                "  act('restart', '*') act('kill', 'r0') act('drain', 'r0') act('restart', 'r0')\n"
                "  act('add') act('drain', '*') act('restart', '*')\n"
                "  print(table.concat(list, ' '))\n"
                "  fleet:add() f:drain 'r1' print(pcall(f.drain, f, 'r9'))\n"
                "end }\n");
  assert_string_equal(runner_printed(&runner),
                      "12- 12- 12- 12- 12- -2- -2- -2- 12- 12- 123 --- --- --- 123\n"
                      "false\ts.lua:19: fleet:drain: no replica r9\n");
}

static void setup_sessions_and_teardown_act(void **state) {
  (void)state;
  run_plan(HEAD "return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },\n"
                "setup = function(vu) return { n = vu.fleet:add('3s').did.start } end,\n"
                "session = function(vu) print(vu.shared.n, fleet:fault('empty p=1', { lasts = 2 "
                "}).did.fault) end,\n"
                "teardown = function(vu) print(vu.fleet:clear_faults().did.action) end }\n");
  assert_string_equal(runner_printed(&runner), "3s\tempty p=1\nclear_faults\n");
  assert_int_equal(runner.result.timeline.n, 3);
  assert_string_equal(runner.result.timeline.records[0].by, "setup");
  assert_string_equal(runner.result.timeline.records[1].by, "session=0");
  assert_string_equal(runner.result.timeline.records[2].by, "teardown");
  check_record(1, "session=0", "{\"lasts\":2,\"fault\":\"empty p=1\",\"action\":\"fault\"}", -1,
               0.5, TIMELINE_DONE);
}

/* A session that ends while its action is under way takes nothing along: the action goes on. */
static void who_is_cancelled_waits_no_more(void **state) {
  (void)state;
  fake.takes = 5 * NS_PER_S;
  run_plan(HEAD "return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },\n"
                "session = function(vu)\n"
                "  print(pcall(vu.all, vu, { 1, 2 }, function(child, i)\n"
                "    if i == 1 then child.fleet:reset_cache() end\n"
                "    child:sleep(1) child:fail('script', 'enough') end))\n"
                "  vu:sleep(7) end }\n");
  check_has(runner_printed(&runner), "enough");
  assert_int_equal(runner.result.timeline.n, 1);
  check_record(0, "session=0", "{\"action\":\"reset_cache\"}", -1, 5, TIMELINE_DONE);
  assert_int_equal(runner_sessions(&runner, SAMPLE_OK), 1);
}

/* Nor does one that nobody waits for hold up the end. */
static void the_end_does_not_wait(void **state) {
  (void)state;
  fake.takes = 500 * NS_PER_S;
  run_plan(HEAD "return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },\n"
                "drain = '2s', session = function(vu) vu.fleet:reset_cache() end }\n");
  assert_int_equal(runner.result.timeline.n, 1);
  check_record(0, "session=0", "{\"action\":\"reset_cache\"}", -1, -1, TIMELINE_CUT_OFF);
  assert_int_equal(fake.cancelled, 1);
  assert_int_equal(runner_sessions(&runner, SAMPLE_INCOMPLETE), 1);
}

/* The fake adds r2, and there are no spares. */
static void one_that_is_added_without_a_spare_is_said_to_get_nothing(void **state) {
  (void)state;
  fake.names = true;
  run_plan(HEAD "return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },\n"
                "session = function(vu) print(fleet:add().note) print(fleet:restart('r0').note) "
                "end }\n");
  assert_string_equal(runner_printed(&runner),
                      "r2 gets no requests: what a script adds is not known when the run begins; "
                      "--spares 1\nnil\n");
  assert_string_equal(
      value_to_string(value_get(&runner.result.timeline.records[0].answer, "note")),
      "r2 gets no requests: what a script adds is not known when the run begins; --spares 1");
}

static void misuse_is_named(void **state) {
  (void)state;
  run_plan(HEAD "local bad = fleet.kill\n"
                "return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },\n"
                "session = function(vu)\n"
                "  local f = vu.fleet\n"
                "  print(select(2, pcall(function() f.restart('r1') end)))\n"
                "  print(select(2, pcall(function() f:restart('r1', 3) end)))\n"
                "  print(select(2, pcall(function() f:restart('r1', { replica = 'r0' }) end)))\n"
                "  print(select(2, pcall(function() f:restart { 'r1' } end)))\n"
                "  print(select(2, pcall(function() f:restart({ replica = 'r1' }, {}) end)))\n"
                "  print(select(2, pcall(function() f:kill(3) end)))\n"
                "  print(select(2, pcall(function() f:kill { action = 'add' } end)))\n"
                "  print(select(2, pcall(coroutine.wrap(function() f:kill 'r1' end))))\n"
                "  print(f.gateway, pcall(function() f.x = 1 end))\n"
                "  print(select(2, pcall(function() f:resetcache() end)))\n"
                "end }\n");
  assert_string_equal(
      runner_printed(&runner),
      "s.lua:7: fleet:restart: call it with a colon, fleet:restart(...)\n"
      "s.lua:8: fleet:restart: a table of fields is expected, got number; as in "
      "fleet:restart(\"r1\", { down = \"2s\" })\n"
      "s.lua:9: fleet:restart: replica is given twice\n"
      "s.lua:10: fleet:restart: fields have names, as in { replica = ... }\n"
      "s.lua:11: fleet:restart: give one table of fields, not two\n"
      "s.lua:12: fleet:kill: there is no replica 3, the fleet has 2\n"
      "s.lua:13: fleet:kill: the action is the method's name; leave the field action out\n"
      "s.lua:14: fleet:kill cannot wait inside a coroutine of your own; use vu:spawn for things "
      "that happen side by side\n"
      "nil\tfalse\ts.lua:15: shared data is read-only: every virtual user sees the same; copy what "
      "you change\n"
      "s.lua:16: vu.fleet has no 'resetcache' (did you mean 'reset_cache'?); its methods are add, "
      "clear_faults, delay_events, drain, drop_events, fault, kill, pressure, reset_cache, "
      "restart\n");
  assert_int_equal(fake.begun, 0);
}

static void servers_without_a_port_are_named(void **state) {
  (void)state;
  runner.config.fleetport = NULL;
  run_plan(HEAD "return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },\n"
                "session = function(vu) print(select(2, pcall(function() vu.fleet:kill 'r1' end))) "
                "end }\n");
  check_has(runner_printed(&runner), "s.lua:4: fleet:kill: these servers cannot be told to: that "
                                     "is for the built-in fleet");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(entries_are_done_at_their_times, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_the_load_does_not_reach_is_not_begun, set_up, tear_down),
      cmocka_unit_test_setup_teardown(functions_run_as_users_of_their_own, set_up, tear_down),
      cmocka_unit_test_setup_teardown(rotation_follows, set_up, tear_down),
      cmocka_unit_test_setup_teardown(setup_sessions_and_teardown_act, set_up, tear_down),
      cmocka_unit_test_setup_teardown(who_is_cancelled_waits_no_more, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_end_does_not_wait, set_up, tear_down),
      cmocka_unit_test_setup_teardown(one_that_is_added_without_a_spare_is_said_to_get_nothing,
                                      set_up, tear_down),
      cmocka_unit_test_setup_teardown(misuse_is_named, set_up, tear_down),
      cmocka_unit_test_setup_teardown(servers_without_a_port_are_named, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
