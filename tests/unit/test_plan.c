/* test_plan.c: plans read from scripts, and every way in which they can be wrong (plan.c,
 * plantimeline.c, runtime.c, open.c, lua/perigee/init.lua). */
#include "check.h"

#include "run_peer.h"

static struct script script;
static struct store *store;
static struct plan_info info;
static struct err err;
static struct buf printed;

static void keep_line(void *user, const char *line, size_t len) {
  buf_put(user, line, len);
  buf_putc(user, '\n');
}

static int load_with(const char *text, const struct state_set *sets, size_t n_sets) {
  plan_info_free(&info);
  store_delete(store);
  store = store_new();
  buf_reset(&printed);
  script_write(&script, text);
  const struct plan_source source = {.script = script.path,
                                     .sets = sets,
                                     .n_sets = n_sets,
                                     .store = store,
                                     .print = keep_line,
                                     .print_user = &printed};
  return bind_plan_load(&source, &info, &err);
}

static int tear_down(void **state) {
  (void)state;
  plan_info_free(&info);
  store_delete(store);
  buf_free(&printed);
  script_remove(&script);
  return 0;
}

#define HEAD "local perigee = require 'perigee'\n"
#define LOAD "load = perigee.closed { users = 1, sessions = 1 }"

/* The script must be refused with a text that contains all of `says`, "|" between its parts. */
static void refused(const char *text, const char *says) {
  int rc = load_with(text, NULL, 0);
  if (rc == 0)
    fail_msg("accepted: %s", text);
  char part[400];
  for (const char *p = says; *p;) {
    size_t n = strcspn(p, "|");
    snprintf(part, sizeof part, "%.*s", (int)n, p);
    check_has(err.text, part);
    p += n + (p[n] == '|');
  }
}

static void a_plan_is_read_whole(void **state) {
  (void)state;
  check_ok(
      load_with(HEAD
                "local depth = perigee.param('depth', 3, 'how deep')\n"
                "return perigee.plan {\n"
                "  name = 'mine', description = 'what it does',\n"
                "  load = perigee.open { rate = '30/m', arrival = 'constant', duration = '2m',\n"
                "    warmup = '30s', sessions = 50 },\n"
                "  session = function(vu) end, setup = function() end, teardown = print,\n"
                "  expect = { 'ttft p95 < 400ms', { 'always', function() return true end } },\n"
                "  metrics = { tool_time = 's', cost = 'EUR' },\n"
                "  params = { b = true, a = { default = 'x', doc = 'the a' }, n = 2.5 },\n"
                "  slo = { ttft = '200ms', tpot = 0.05 },\n"
                "  target = { 'http://a:1', 'http://b:2' }, drain = '5s',\n"
                "  route = function() end,\n"
                "}\n",
                NULL, 0),
      &err);
  assert_string_equal(info.name, "mine");
  assert_string_equal(info.description, "what it does");
  check_has(info.where, "s.lua:3");
  assert_true(info.load.open && info.load.constant);
  check_near(info.load.points[0].value, 0.5, 0);
  check_near(info.load.duration_s, 120, 0);
  check_near(info.load.warmup_s, 30, 0);
  assert_int_equal(info.load.sessions, 50);
  check_near(info.drain_s, 5, 0);
  assert_int_equal(info.n_expect, 2);
  assert_string_equal(info.expect[0].text, "ttft p95 < 400ms");
  assert_null(info.expect[1].text);
  assert_string_equal(info.expect[1].name, "always");
  assert_int_equal(info.n_metrics, 2);
  assert_string_equal(info.metrics[0].name, "cost");
  assert_string_equal(info.metrics[0].text, "EUR");
  assert_string_equal(info.metrics[1].name, "tool_time");
  assert_int_equal(info.n_params, 4);
  const char *const want[][4] = {{"depth", "3", "how deep", "3"},
                                 {"a", "x", "the a", "x"},
                                 {"b", "true", NULL, "true"},
                                 {"n", "2.5", NULL, "2.5"}};
  for (size_t i = 0; i < 4; i++) {
    assert_string_equal(info.params[i].name, want[i][0]);
    assert_string_equal(info.params[i].text, want[i][1]);
    if (want[i][2])
      assert_string_equal(info.params[i].doc, want[i][2]);
    else
      assert_null(info.params[i].doc);
    assert_string_equal(info.params[i].value, want[i][3]);
  }
  assert_int_equal(info.n_slo, 2);
  assert_string_equal(info.slo[1].name, "ttft");
  assert_string_equal(info.slo[1].text, "200ms");
  assert_int_equal(info.n_targets, 2);
  assert_string_equal(info.targets[1], "http://b:2");
  assert_true(info.has_route && info.has_setup && info.has_teardown);
}

static void defaults_and_other_loads(void **state) {
  (void)state;
  check_ok(load_with(HEAD "return perigee.plan { " LOAD ", session = print, target = 'http://t' }",
                     NULL, 0),
           &err);
  assert_string_equal(info.name, "s");
  assert_null(info.description);
  assert_true(info.drain_s < 0);
  assert_int_equal(info.n_targets, 1);
  assert_false(info.has_route || info.has_setup || info.has_teardown);
  assert_false(info.load.open);
  assert_int_equal(schedule_users(&info.load), 1);
  check_ok(load_with(HEAD "return perigee.plan { session = print, load = perigee.ramp {\n"
                          "rate = { { 0, 1 }, { '1m', 10 } }, warmup = 5 } }",
                     NULL, 0),
           &err);
  assert_true(info.load.open);
  assert_int_equal(info.load.n_points, 2);
  check_near(info.load.points[1].at_s, 60, 0);
  check_near(info.load.points[1].value, 10, 0);
  check_near(info.load.duration_s, 60, 0);
  check_ok(load_with(HEAD "return perigee.plan { session = print, load = perigee.ramp {\n"
                          "users = { { 0, 1 }, { 10, 5 }, { 20, 2 } }, duration = '30s' } }",
                     NULL, 0),
           &err);
  assert_int_equal(schedule_users(&info.load), 5);
  check_near(info.load.duration_s, 30, 0);
}

static void scripts_that_give_no_plan(void **state) {
  (void)state;
  refused("local x = = 1", "s.lua:1: unexpected symbol near '='");
  refused("", "s.lua: the script returned nothing, not a plan; end it with `return perigee.plan");
  refused("return 3", "the script returned number, not a plan");
  refused("return { session = print }", "the script returned table, not a plan");
  refused("error 'on my own'", "s.lua:1: on my own");
  refused("local function f() error 'deep' end\nlocal function g() f() end\ng()",
          "s.lua:1: deep|\n  at |s.lua:1 (in |s.lua:2 (in |s.lua:3 (main chunk)");
  refused("require 'nosuch.module'", "module 'nosuch.module' not found");
  refused("require 'perigee.chad'",
          "module 'perigee.chad' not found:\n\tdid you mean 'perigee.chat'?");
  refused("error { code = 1 }", "s.lua:1: {\"code\":1}");
  const struct plan_source missing = {.script = "/nonexistent/x.lua", .store = store};
  assert_int_equal(bind_plan_load(&missing, &info, &err), ERR_INVALID);
  check_has(err.text, "cannot open /nonexistent/x.lua");
}

static void a_main_chunk_that_hangs_is_stopped(void **state) {
  (void)state;
  refused("local function spin() while true do end end\npcall(spin)",
          "without waiting, so it was stopped\n  at |s.lua:1 (in |s.lua:2 (main chunk)");
}

static void plans_that_are_wrong(void **state) {
  (void)state;
  const struct {
    const char *fields, *says;
  } bad[] = {
      {LOAD, "s.lua:2: plan: session is missing"},
      {"session = print", "s.lua:2: plan: load is missing: give it load = perigee.open"},
      {LOAD ", sesion = print", "s.lua:2: plan: unknown option 'sesion' (did you mean 'session'?)"},
      {LOAD ", session = 3", "plan: session must be a function, got number"},
      {LOAD ", session = print, setup = {}", "plan: setup must be a function, got table"},
      {LOAD ", session = print, name = 3", "plan: name must be a string, got number"},
      {LOAD ", session = print, expect = 'x'", "plan: expect must be a table, got string"},
      {LOAD ", session = print, expect = { 3 }", "plan: expect[1] must be a string such as"},
      {LOAD ", session = print, expect = { { 'x' } }",
       "plan: expect[1]: a table is { \"what it says\", function }"},
      {LOAD ", session = print, expect = { { ' ', print } }", "plan: expect[1]: a table is"},
      {LOAD ", session = print, expect = { a = 'x' }", "expect is a list of expectations"},
      {LOAD ", session = print, metrics = { 'x' }", "plan: metrics: a name is a word"},
      {LOAD ", session = print, metrics = { x = 3 }", "plan: metrics.x must be a unit such as"},
      {LOAD ", session = print, slo = { ttft = 'fast' }", "plan: slo.ttft"},
      {LOAD ", session = print, drain = -1", "plan: drain must be at least 0 s"},
      {LOAD ", session = print, drain = 'x'", "plan: drain"},
      {LOAD ", session = print, target = 'a:1'", "plan: target must be a URL such as"},
      {LOAD ", session = print, target = {}", "plan: target must be a URL or a list"},
      {LOAD ", session = print, params = { ['a b'] = 1 }", "a parameter's name is a word"},
      {LOAD ", session = print, params = { a = print }", "parameter a: a default is a number"},
      {LOAD ", session = print, params = { a = { defualt = 1 } }",
       "plan: params.a: unknown option 'defualt' (did you mean 'default'?)"},
      {"load = { users = 1 }, session = print", "plan: load must be made by perigee.open"},
      {"load = perigee.open {}, session = print", "open: rate is missing"},
      {"load = perigee.open { rate = 1 }, session = print", "open: say how long: duration"},
      {"load = perigee.open { rate = 0, sessions = 1 }, session = print", "rate must be above 0"},
      {"load = perigee.open { rate = -1, sessions = 1 }, session = print", "must not be negative"},
      {"load = perigee.open { rate = 'x', sessions = 1 }, session = print", "open: rate: "},
      {"load = perigee.open { rate = 1, arival = 'x' }, session = print",
       "open: unknown option 'arival' (did you mean 'arrival'?)"},
      {"load = perigee.open { rate = 1, arrival = 'poison', sessions = 1 }, session = print",
       "open: unknown arrival 'poison' (did you mean 'poisson'?)"},
      {"load = perigee.open { rate = 1, duration = 0 }, session = print",
       "duration must be above 0 s"},
      {"load = perigee.open { rate = 1, sessions = 1.5 }, session = print",
       "sessions must be a whole number from 1 on, got 1.5"},
      {"load = perigee.open { rate = 1, sessions = 1, warmup = -2 }, session = print",
       "warmup must be at least 0 s"},
      {"load = perigee.closed { sessions = 1 }, session = print", "closed: users is missing"},
      {"load = perigee.closed { users = 0, sessions = 1 }, session = print",
       "users must be at least 1"},
      {"load = perigee.closed { users = 1.5, sessions = 1 }, session = print",
       "closed: users must be a whole number from 0 on, got 1.5"},
      {"load = perigee.closed { users = 2000000, sessions = 1 }, session = print",
       "closed: users must be at most 1000000, got 2000000"},
      {"load = perigee.ramp { sessions = 1 }, session = print", "ramp: give either rate or users"},
      {"load = perigee.ramp { rate = 3, sessions = 1 }, session = print",
       "ramp: rate must be a list of points"},
      {"load = perigee.ramp { rate = { { 1 } } }, session = print",
       "ramp: rate[1] must be a point"},
      {"load = perigee.ramp { rate = { { 2, 1 }, { 1, 1 } } }, session = print",
       "ramp: rate[2]: the points' times must grow"},
      {"load = perigee.ramp { users = { { 0, 1 } }, arrival = 'constant', sessions = 1 }, session "
       "= print",
       "arrival belongs to a ramp of rate"},
      {"load = perigee.ramp { users = { { 0, 4 }, { 5, 0 } } }, session = print, zz = 1", "zz"},
  };
  for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
    char text[600];
    snprintf(text, sizeof text, HEAD "return perigee.plan { %s }\n", bad[i].fields);
    refused(text, bad[i].says);
    check_has(err.text, "s.lua");
  }
  refused(HEAD "return perigee.plan(3)", "s.lua:2: plan: a table is expected, got number");
  refused(HEAD "perigee.opne {}", "s.lua:2: perigee has no 'opne' (did you mean 'open'?)");
  refused(HEAD "perigee.require_api(99)", "s.lua:2: require_api: the script needs API 99");
  refused(
      HEAD "perigee.require_api 'x'",
      "s.lua:2: require_api: the number must be a whole number from 1 on, got the string \"x\"");
  refused(HEAD "perigee.shared('x')", "shared: a name and a function are expected");
  refused(HEAD "math.random()", "s.lua:2: math.random differs from run to run");
  refused(HEAD "os.exit()", "s.lua:2: os.exit would end every virtual user");
}

static void an_altered_plan_is_checked_again(void **state) {
  (void)state;
  refused(HEAD "local p = perigee.plan { " LOAD ", session = print }\np.sesion = 3 return p",
          "s.lua: plan: unknown option 'sesion' (did you mean 'session'?)");
  check_ok(load_with(HEAD "local p = perigee.plan { " LOAD ", session = print }\n"
                          "p.load.duration = '10s' p.load.users = 4 return p",
                     NULL, 0),
           &err);
  check_near(info.load.duration_s, 10, 0);
  assert_int_equal(schedule_users(&info.load), 4);
}

#define SETTABLE                                                                                   \
  HEAD "local d = perigee.param('depth', 3)\nlocal w = perigee.param('word', 'w')\n"               \
       "local on = perigee.param('on', false)\nlocal none = perigee.param('none')\n"               \
       "print(math.type(d), d, w, on, none)\n"                                                     \
       "return perigee.plan { load = perigee.closed { users = 2, duration = 5 }, session = "       \
       "print,\n"                                                                                  \
       "params = { rate = 7 } }\n"

static void set_reaches_parameters_and_load(void **state) {
  (void)state;
  const struct state_set sets[] = {
      {"depth", "4"},     {"word", "x y"},    {"on", "yes"},    {"none", "some"}, {"users", "9"},
      {"duration", "1m"}, {"sessions", "20"}, {"warmup", "2s"}, {"rate", "8"},    {"depth", "5"}};
  check_ok(load_with(SETTABLE, sets, ARRAY_LEN(sets)), &err);
  assert_string_equal(printed.data, "integer\t5\tx y\ttrue\tsome\n");
  assert_int_equal(schedule_users(&info.load), 9);
  check_near(info.load.duration_s, 60, 0);
  assert_int_equal(info.load.sessions, 20);
  check_near(info.load.warmup_s, 2, 0);
  assert_string_equal(info.params[4].name, "rate"); /* the script's own word goes first */
  assert_string_equal(info.params[4].value, "8");
  const struct state_set quantity[] = {{"depth", "50ms"}};
  check_ok(load_with(SETTABLE, quantity, 1), &err);
  check_has(printed.data, "float\t0.05\t");
}

static void set_that_fits_nothing(void **state) {
  (void)state;
  const struct {
    const char *name, *value, *says;
  } bad[] = {
      {"dept", "4", "--set dept=4: the script has no parameter 'dept' (did you mean 'depth'?)"},
      {"zzzzzz", "4", "it has depth, word, on, none, rate, and the load's users, rate, duration"},
      {"depth", "abc", "s.lua:2: --set depth=abc: depth is a number, as its default 3"},
      {"on", "perhaps", "s.lua:4: --set on=perhaps: on is true or false"},
      {"users", "abc", "--set users=abc: "},
      {"users", "1.5", "--set users=1.5: a whole number is expected"},
      {"users", "0", "users is never 1 or more"},
      {"duration", "0", "--set duration=0: a time above 0 s is expected"},
      {"duration", "5 parsecs", "--set duration=5 parsecs: "},
      {"sessions", "0", "--set sessions=0: a whole number from 1 to 4294967295 is expected"},
  };
  for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
    const struct state_set set = {bad[i].name, bad[i].value};
    assert_int_equal(load_with(SETTABLE, &set, 1), ERR_INVALID);
    check_has(err.text, bad[i].says);
  }
  const struct state_set rate = {"rate", "4"};
  const char *closed = HEAD "return perigee.plan { " LOAD ", session = print }";
  assert_int_equal(load_with(closed, &rate, 1), ERR_INVALID);
  check_has(err.text, "--set rate=4: the load is closed (a number of users); it has users instead");
  const char *ramp =
      HEAD "return perigee.plan { load = perigee.ramp { rate = { { 0, 1 }, { 5, 2 } } },"
           " session = print }";
  assert_int_equal(load_with(ramp, &rate, 1), ERR_INVALID);
  check_has(err.text, "--set rate=4: the load is a ramp");
}

static void functions_judge_results(void **state) {
  (void)state;
  script_write(&script, HEAD "return perigee.plan { " LOAD ", session = print, expect = { 'x',\n"
                             "function(results) return results.metrics.ttft.p50 < 1, 'p50 was ' .. "
                             "results.metrics.ttft.p50 end,\n"
                             "function() return nil end, function() error 'broken' end,\n"
                             "{ 'always', function() return true end },\n"
                             "function() while true do end end } }");
  store_delete(store); /* it has the bytes of the script before */
  store = store_new();
  const struct plan_source source = {
      .script = script.path, .store = store, .runaway_ns = 50 * NS_PER_MS};
  struct value results = value_object();
  struct value *metrics = value_set(&results, "metrics", value_object());
  struct value *ttft = value_set(metrics, "ttft", value_object());
  value_set(ttft, "p50", value_double(0.25));
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  bool met;
  check_ok(bind_plan_judge(&source, 1, &results, &met, &text, &err), &err);
  assert_true(met);
  assert_string_equal(text.data, "p50 was 0.25");
  buf_reset(&text);
  check_ok(bind_plan_judge(&source, 2, &results, &met, &text, &err), &err);
  assert_false(met);
  assert_int_equal(text.len, 0);
  assert_int_equal(bind_plan_judge(&source, 3, &results, &met, &text, &err), ERR_INVALID);
  check_has(err.text, "s.lua:4: broken");
  assert_false(met);
  check_ok(bind_plan_judge(&source, 4, &results, &met, &text, &err), &err);
  assert_true(met);
  assert_int_equal(bind_plan_judge(&source, 5, &results, &met, &text, &err), ERR_INVALID);
  check_has(err.text, "without waiting, so it was stopped");
  assert_null(strstr(err.text, "(2.")); /* seconds of CPU time, which is the default */
  buf_free(&text);
  value_free(&results);
}

static void modules_are_found(void **state) {
  (void)state;
  check_ok(
      load_with(HEAD
                "for _, name in ipairs { 'chat', 'completions', 'gen', 'route', 'tool', 'json',\n"
                "'stats', 'openai' } do assert(type(require('perigee.' .. name)) == 'table') end\n"
                "assert(require('cjson').encode({ 1 }) == '[1]')\n"
                "assert(type(perigee.version) == 'string') perigee.require_api(1)\n"
                "print(package.path:find('lib/?.lua', 1, true) ~= nil)\n"
                "return perigee.plan { " LOAD ", session = print }",
                NULL, 0),
      &err);
  assert_string_equal(printed.data, "true\n");
}

#define SWEEP                                                                                      \
  HEAD "perigee.param('depth', 2)\n"                                                               \
       "local a, b = function() end, function() return {} end\n"                                   \
       "return perigee.sweep { limit = 40, name = 'grid', plan = perigee.plan {\n" LOAD            \
       ", session = print, route = a },\n"                                                         \
       "over = { { 'replicas', { 1, 4 } }, { 'depth', { 0.5, 3 } }, { 'kv_blocks', { 9 } },\n"     \
       "{ 'users', { 2 } }, { 'profile', { 'tiny' } }, { 'route', { { 'z', a }, { 'm', b } } } } " \
       "}\n"

static void a_sweep_is_its_plan_and_its_axes(void **state) {
  (void)state;
  check_ok(load_with(SWEEP, NULL, 0), &err);
  assert_string_equal(info.name, "grid");
  assert_int_equal(info.point_limit, 40);
  const char *const want[][4] = {
      {"replicas", "replicas", "1", "4"},   {"depth", "param", "0.5", "3"},
      {"kv_blocks", "fleet", "9", NULL},    {"users", "load", "2", NULL},
      {"profile", "profile", "tiny", NULL}, {"route", "route", "z", "m"}};
  assert_int_equal(info.n_axes, ARRAY_LEN(want));
  for (size_t i = 0; i < info.n_axes; i++) {
    assert_string_equal(info.axes[i].name, want[i][0]);
    assert_string_equal(info.axes[i].kind, want[i][1]);
    assert_int_equal(info.axes[i].n_values, want[i][3] ? 2 : 1);
    for (size_t k = 0; k < info.axes[i].n_values; k++)
      assert_string_equal(info.axes[i].values[k], want[i][2 + k]);
  }
  assert_string_equal(info.params[0].type, "number");
  check_ok(load_with(HEAD "return perigee.plan { " LOAD ", session = print }\n", NULL, 0), &err);
  assert_int_equal(info.n_axes, 0);
}

/* What a sweep returns cannot be looked at from a plan's functions, but for an expectation. */
static void a_point_has_its_policy(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    static const char *const names[] = {NULL, "z", "m"};
    static const char *const says[] = {"own", "first", "second"};
    plan_info_free(&info);
    store_delete(store);
    store = store_new();
    script_write(&script,
                 HEAD "local own, z, m = function() end, function() end, function() end\n"
                      "local s\n"
                      "s = perigee.sweep { over = { { 'route', { { 'z', z }, { 'm', m } } } },\n"
                      "  plan = perigee.plan { route = own, " LOAD ", session = print,\n"
                      "  expect = { function()\n"
                      "    local r = s.plan.route\n"
                      "    return true, r == own and 'own' or r == z and 'first' or 'second'\n"
                      "  end } } }\n"
                      "return s\n");
    const struct plan_source source = {.script = script.path, .store = store, .route = names[i]};
    check_ok(bind_plan_load(&source, &info, &err), &err);
    struct value results = value_object();
    struct buf text;
    bool met;
    buf_init(&text, BUF_MAX_OWN);
    check_ok(bind_plan_judge(&source, 0, &results, &met, &text, &err), &err);
    assert_true(met);
    assert_string_equal(text.data, says[i]);
    buf_free(&text);
    value_free(&results);
  }
}

static void figures_of_a_load_are_set(void **state) {
  (void)state;
  check_ok(load_with(HEAD "return perigee.plan { " LOAD ", session = print }\n", NULL, 0), &err);
  struct state_set set = {.name = "users", .value = "7"};
  check_ok(bind_plan_set_load(&info.load, &set, &err), &err);
  check_near(info.load.points[0].value, 7, 0);
  set = (struct state_set){.name = "rate", .value = "7"};
  assert_int_equal(bind_plan_set_load(&info.load, &set, &err), ERR_INVALID);
  assert_string_equal(err.text, "the load is closed (a number of users); it has users instead");
  set = (struct state_set){.name = "depth", .value = "7"};
  assert_int_equal(bind_plan_set_load(&info.load, &set, &err), ERR_NOT_FOUND);
}

#define TIMELINE(load, list)                                                                       \
  HEAD "return perigee.plan { load = perigee.closed { users = 1, " load                            \
       " }, session = print, timeline = { " list " } }"

static void a_timeline_is_read_in_the_order_of_its_times(void **state) {
  (void)state;
  check_ok(load_with(TIMELINE("duration = '1m'",
                              "{ at = '30s', action = 'restart', replica = 'r1', down = '2s' },"
                              "{ at = 10, every = '20s', window = '5s', action = 'reset_cache' },"
                              "{ at = 10, every = 5, times = 2, run = print }"),
                     NULL, 0),
           &err);
  static const struct {
    uint32_t number, round;
    double at_s, window_s;
    const char *action;
  } want[] = {{2, 0, 10, 5, "reset_cache"}, {3, 0, 10, 0, NULL},
              {3, 1, 15, 0, NULL},          {1, 0, 30, 0, "restart"},
              {2, 1, 30, 5, "reset_cache"}, {2, 2, 50, 5, "reset_cache"}};
  assert_int_equal(info.n_timeline, ARRAY_LEN(want));
  for (size_t i = 0; i < ARRAY_LEN(want); i++) {
    const struct timeline_entry *e = &info.timeline[i];
    assert_int_equal(e->number, want[i].number);
    assert_int_equal(e->round, want[i].round);
    check_near(e->at_s, want[i].at_s, 1e-12);
    check_near(e->window_s, want[i].window_s, 0);
    const char *action = value_to_string(value_get(&e->action, "action"));
    if (want[i].action)
      assert_string_equal(action, want[i].action);
    else
      assert_int_equal(e->action.kind, VALUE_NULL);
  }
  const struct value *restart = &info.timeline[3].action;
  assert_int_equal(value_count(restart), 3); /* the times are not its own */
  assert_string_equal(value_to_string(value_get(restart, "down")), "2s");
  check_ok(load_with(TIMELINE("sessions = 9", "{ at = 500, action = 'reset_cache' }"), NULL, 0),
           &err);
  assert_int_equal(info.n_timeline, 1);
}

static void timelines_that_are_wrong(void **state) {
  (void)state;
  refused(TIMELINE("duration = '1m'", "{ at = 5, action = 'add' }, { at = '60s', action = 'add' }"),
          "s.lua:2: plan: timeline[2]: at = 60 s is not before the load's end: its duration is 60 "
          "s|give an earlier time or a longer duration");
  refused(TIMELINE("sessions = 1", "{ at = 5, every = 1, action = 'add' }"),
          "s.lua:2: plan: timeline[1]: every needs an end|times = 3");
  refused(TIMELINE("duration = '1m'", "{ at = 5, every = 20, times = 4, action = 'add' }"),
          "timeline[1]: times = 4: number 4 would be at 65 s, and the load's duration is 60 s");
  refused(TIMELINE("duration = '1h'", "{ at = 0, every = '1ms', action = 'add' }"),
          "timeline[1]: every: more than 10000 actions in all");
  const struct state_set set = {.name = "duration", .value = "20s"};
  assert_int_equal(
      load_with(TIMELINE("duration = '1m'", "{ at = '30s', action = 'add' }"), &set, 1),
      ERR_INVALID);
  check_has(err.text, "timeline[1]: at = 30 s is not before the load's end: its duration is 20 s");
}

int main(void) {
  store = store_new();
  buf_init(&printed, BUF_MAX_OWN);
  info.drain_s = -1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_plan_is_read_whole),
      cmocka_unit_test(defaults_and_other_loads),
      cmocka_unit_test(scripts_that_give_no_plan),
      cmocka_unit_test(a_main_chunk_that_hangs_is_stopped),
      cmocka_unit_test(plans_that_are_wrong),
      cmocka_unit_test(a_timeline_is_read_in_the_order_of_its_times),
      cmocka_unit_test(timelines_that_are_wrong),
      cmocka_unit_test(an_altered_plan_is_checked_again),
      cmocka_unit_test(set_reaches_parameters_and_load),
      cmocka_unit_test(set_that_fits_nothing),
      cmocka_unit_test(functions_judge_results),
      cmocka_unit_test(modules_are_found),
      cmocka_unit_test(a_sweep_is_its_plan_and_its_axes),
      cmocka_unit_test(a_point_has_its_policy),
      cmocka_unit_test(figures_of_a_load_are_set),
  };
  return cmocka_run_group_tests(tests, NULL, tear_down);
}
