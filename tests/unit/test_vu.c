/* test_vu.c: virtual users: waiting, children, failing, cancelling, running away (vu.c, vufamily.c;
 * vu_type.c and the methods), and what guarddebug.c refuses. Scripts print what they see. */
#include "check.h"

#include "run_peer.h"

#define HEAD "local perigee = require 'perigee'\nlocal M = {}\n"
#define PLAN                                                                                       \
  "return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },"                       \
  " metrics = { m = 's', tool_time = 's' }, session = function(vu)\n"

static struct peer peer;
static struct runner runner;

static int set_up(void **state) {
  (void)state;
  peer_start(&peer);
  runner_init(&runner);
  runner_add(&runner, &peer);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  runner_free(&runner);
  peer_stop(&peer);
  return 0;
}

/* Runs one session with this body (its first line is line 4) and compares what it printed, how it
 * ended and, unless NULL, a part of the session's detail. */
static void session(const char *body, const char *printed, enum sample_error error,
                    const char *detail) {
  char text[8000];
  snprintf(text, sizeof text, "%s%s%s\nend }\n", HEAD, PLAN, body);
  runner_run(&runner, text);
  assert_int_equal(runner.table->n_sessions, 1);
  const char *said = runner.table->session_detail[error] ? runner.table->session_detail[error] : "";
  if (runner.table->sessions[0].error != error)
    fail_msg("%s\n  ended as %s: %s\n  printed %s", body,
             sample_error_name(runner.table->sessions[0].error),
             runner.table->session_detail[runner.table->sessions[0].error],
             runner_printed(&runner));
  if (strcmp(runner_printed(&runner), printed) != 0)
    fail_msg("%s\n  printed  %s  expected %s", body, runner_printed(&runner), printed);
  if (detail)
    check_has(said, detail);
}

static void ok(const char *body, const char *printed) {
  session(body, printed, SAMPLE_OK, NULL);
}

static void fails(const char *body, const char *detail) {
  session(body, "", SAMPLE_SCRIPT, detail);
}

static void sleeping_takes_its_time(void **state) {
  (void)state;
  ok("local a = vu:now() vu:sleep(0.05) vu:sleep('30ms') local took = vu:now() - a\n"
     "print(took > 0.05 and took < 5)",
     "true\n");
  ok("vu:sleep(0) print 'woke'", "woke\n");
  fails("vu:sleep(-1)", "s.lua:4: vu:sleep: the time must be at least 0 s, got -1");
  fails("vu:sleep()", "s.lua:4: vu:sleep: the time must be a number of seconds");
  fails("vu.sleep(3)",
        "s.lua:4: vu:sleep: call it with a colon, vu:sleep(...); got number for the virtual user");
}

static void fields_are_there(void **state) {
  (void)state;
  ok("print(vu.id, vu.session, vu.arm, vu.shared, vu.branch_id, vu.parent_branch, vu.route)\n"
     "print(#vu.fleet.replicas, vu.fleet.replicas[1].id, vu.fleet.gateway, vu.fleet.simulated)\n"
     "print(math.type(vu.rng:int(1, 6)), rawequal(vu.rng, vu.rng), next(vu.params))",
     "0\t0\tnil\tnil\t0\tnil\tnil\n1\tr0\tnil\tfalse\ninteger\ttrue\tnil\n");
  fails("local x = vu.sesion", "s.lua:4: vu has no 'sesion' (did you mean 'session'?)");
  fails("vu:slep(1)", "s.lua:4: vu has no 'slep' (did you mean 'sleep'?)");
  fails("local x = vu.params.zzz",
        "s.lua:4: vu.params has no 'zzz' (there is: none); the plan declares it");
  fails("vu.rng:itn(1)", "s.lua:4: rng has no 'itn' (did you mean 'int'?)");
  fails("vu.rng.int(1, 6)", "s.lua:4: rng:int: call it with a colon, rng:int(...)");
  fails("vu:spawn(function() end).join()", "s.lua:4: task:join: call it with a colon");
  fails("vu.x = 1", "s.lua:4: vu.x cannot be set: keep your own data in locals");
  fails("vu.fleet.replicas[1].id = 'x'", "s.lua:4: shared data is read-only");
}

static void http_returns_what_the_reply_said(void **state) {
  (void)state;
  ok("local r = vu:http { path = '/x' }\n"
     "print(r.status, r.body, r.headers['x-twice'], r.headers['content-length'], r.served)\n"
     "print(r.e2e > 0, r.ttft, r.text)",
     "200\thello\ta, b\t5\tr0\ntrue\tnil\tnil\n");
  ok("local r = vu:http { path = '/v1/chat/completions', stream = 'chat', json = { a = 1 } }\n"
     "print(r.text, r.reasoning, #r.tool_calls, r.finish_reason, r.output_tokens, r.body)\n"
     "local u = r.usage\n"
     "print(u.prompt_tokens, u.completion_tokens, u.total_tokens, u.cached_tokens, "
     "u.reasoning_tokens)\n"
     "print(r.ttft > 0 and r.ttft <= r.e2e)",
     "one two three four\t\t0\tstop\t4\tnil\n11\t4\t15\t8\tnil\ntrue\n");
  ok("local url = vu.fleet.replicas[1].url .. '/y?q=1'\n"
     "local r = vu:http { url = url, body = 'text', headers = { ['X-Session'] = 7 } }\n"
     "print(r.status, r.served)",
     "200\tnil\n");
  assert_string_equal(peer_request(&peer, 1).method, "POST");
  assert_string_equal(peer_request(&peer, 1).path, "/y");
  assert_string_equal(peer_request(&peer, 1).body, "text");
  assert_string_equal(peer_request(&peer, 1).session, "7");
  assert_string_equal(peer_request(&peer, 1).type, "application/json");
}

static void keys_go_to_the_fleet_alone(void **state) {
  (void)state;
  runner.fleet.headers = mem_strdup("Authorization: Bearer k\r\nX-Session: fleet\r\n");
  ok("vu:http { path = '/a' } vu:http { path = '/b', headers = { ['x-session'] = 's' } }\n"
     "vu:http { url = vu.fleet.replicas[1].url .. '/c' }",
     "");
  const struct peer_request r[] = {peer_request(&peer, 3), peer_request(&peer, 2),
                                   peer_request(&peer, 1)};
  assert_string_equal(r[0].authorization, "Bearer k");
  assert_string_equal(r[0].session, "fleet");
  assert_string_equal(r[1].authorization, "Bearer k");
  assert_string_equal(r[1].session, "s");
  assert_null(r[2].authorization);
  mem_free(runner.fleet.headers);
  runner.fleet.headers = NULL;
}

static void expected_failures_are_values_or_end_the_session(void **state) {
  (void)state;
  ok("local r, class, detail = vu:try_http { path = '/status/404' }\n"
     "print(r, class, type(detail)) print((select(2, vu:try_http { path = '/status/429' })))\n"
     "print((select(2, vu:try_http { path = '/status/503' })))",
     "nil\thttp_4xx\tstring\nhttp_429\nhttp_5xx\n");
}

static void failures_can_be_caught(void **state) {
  (void)state;
  ok("local fine, e = pcall(vu.http, vu, { path = '/status/500' })\n"
     "print(fine, e.class, type(e.detail), tostring(e):sub(1, 9))\n"
     "print(pcall(vu.fail, vu, 'timeout_total', 'slow')) vu:sleep(0) print 'goes on'",
     "false\thttp_5xx\tstring\thttp_5xx:\nfalse\ttimeout_total: slow\ngoes on\n");
  session("print 'before' vu:http { path = '/status/500' } print 'after'", "before\n",
          SAMPLE_HTTP_5XX, "500");
  session("vu:fail('truncated', 'by hand')", "", SAMPLE_TRUNCATED, "by hand");
  fails("vu:fail('trunated', 'x')",
        "s.lua:4: vu:fail: 'trunated' is no class of failures (did you mean 'truncated'?)");
  fails("vu:fail('cancelled', 'x')", "vu:fail: 'cancelled' is no class of failures");
  session("vu:http { path = '/wait/5000', timeout = 0.05 }", "", SAMPLE_TIMEOUT_TOTAL, NULL);
  session("vu:http { path = '/wait/5000', timeout = { first_byte = '40ms' } }", "",
          SAMPLE_TIMEOUT_FIRST_BYTE, NULL);
}

static void misuse_of_http_names_line_and_word(void **state) {
  (void)state;
  const struct {
    const char *body, *says;
  } bad[] = {
      {"vu:http { pth = '/' }", "s.lua:4: vu:http: unknown option 'pth' (did you mean 'path'?)"},
      {"vu:http { 1 }", "vu:http: option names are words, got a number key"},
      {"vu:http '/x'", "s.lua:4: vu:http: options must be a table, got string"},
      {"vu:http { }", "vu:http: give path (of the fleet) or url"},
      {"vu:http { path = 'x' }", "vu:http: path must begin with /"},
      {"vu:http { path = 3 }", "vu:http: path must be a string, got number"},
      {"vu:http { path = '/a\\0b' }", "vu:http: path holds a NUL byte"},
      {"vu:http { path = '/a b' }", "percent-encode it"},
      {"vu:http { path = '/', replica = 2 }", "vu:http: replica 2 is not one of the fleet's 1"},
      {"vu:http { path = '/', replica = 'r1' }", "vu:http: no replica 'r1' (did you mean 'r0'?)"},
      {"vu:http { path = '/', body = 'a', json = {} }", "body and json are two ways"},
      {"vu:http { path = '/', json = 'a' }", "json must be a table, got string"},
      {"vu:http { path = '/', json = { f = print } }", "cannot make JSON of a function (at .f)"},
      {"vu:http { path = '/', body = 3 }", "the body must be a string"},
      {"vu:http { path = '/', stream = 'cht' }", "stream = 'cht' is none of chat, completions"},
      {"vu:http { path = '/', stream = true }", "stream must be a string, got boolean"},
      {"vu:http { path = '/', stream = 'chat', api = 'chat' }", "give one of them"},
      {"vu:http { path = '/', timeout = { totl = 1 } }", "unknown option 'totl' (did you mean"},
      {"vu:http { path = '/', timeout = { idle = 'x' } }", "vu:http: timeout.idle:"},
      {"vu:http { path = '/', timeout = -1 }", "vu:http: timeout must be at least 0 s, got -1"},
      {"vu:http { path = '/', turn = 0 }", "turn must be a whole number from 1 on, got 0"},
      {"vu:http { path = '/', step = 1.5 }", "step must be a whole number from 1 on, got 1.5"},
      {"vu:http { path = '/', fallback = 1 }", "fallback must be true or false, got number"},
      {"vu:http { path = '/', tags = { a = {} } }", "tag 'a' must be a string, number or boolean"},
      {"vu:http { path = '/', headers = { ['A'] = 'x\\r\\nB: y' } }",
       "header 'A' holds a line break"},
      {"vu:http { path = '/', headers = { ['A b'] = 'x' } }", "is not of the form"},
      {"vu:http { path = '/', headers = { 'x' } }", "headers are pairs"},
      {"vu:http { url = 'ftp://x' }", "vu:http:"},
      {"vu:http { url = 'http://h/', path = '/' }", "url is whole"},
      {"vu:http { path = '/', method = 'G T' }", "is not a method"},
      {"vu:try_http { path = '/', max_body = 0 }", "vu:try_http: max_body must be a whole number"},
  };
  for (size_t i = 0; i < ARRAY_LEN(bad); i++)
    fails(bad[i].body, bad[i].says);
}

static void all_runs_side_by_side(void **state) {
  (void)state;
  ok("local order = {}\n"
     "local r = vu:all({ 'a', 'b', 'c' }, function(child, item, i)\n"
     "  child:sleep(0.03 * (4 - i)) order[#order + 1] = item\n"
     "  return item .. i .. child.branch_id .. tostring(child.parent_branch)\n"
     "end)\n"
     "print(table.concat(r, ' '), table.concat(order)) print(#vu:all({}, print))",
     "a110 b220 c330\tcba\n0\n");
  /* Numbers by who forks: not by which of them happens to be first. */
  ok("local r = vu:all({ 1, 2 }, function(child, item, i)\n"
     "  child:sleep(0.02 * (3 - i))\n"
     "  local t = child:all({ 1, 2 }, function(g) return g.branch_id .. '<' .. g.parent_branch "
     "end)\n"
     "  return table.concat(t, ' ') .. ' ' .. child:branch()\n"
     "end)\n"
     "print(table.concat(r, ' '))",
     "1001<1 1002<1 1003 2001<2 2002<2 2003\n");
  ok("for i = 1, 999 do vu:branch() end local a, b = vu:branch(), vu:branch()\n"
     "print(a > 999999999, b > 999999999, a ~= b, a < 2^31, b < 2^31)",
     "true\ttrue\ttrue\ttrue\ttrue\n");
  ok("local peer_seen = vu:all({ 1, 2, 3, 4 }, function(child) child:http { path = '/wait/60' } "
     "end)\n"
     "print(#peer_seen)",
     "0\n");
  assert_int_equal(peer_most_inflight(&peer), 4);
}

static void a_failing_branch_takes_the_others_along(void **state) {
  (void)state;
  ok("local log = {}\n"
     "local fine, e = pcall(vu.all, vu, { 1, 2, 3 }, function(child, i)\n"
     "  if i == 2 then child:sleep(0.01) child:http { path = '/status/500' } end\n"
     "  pcall(child.sleep, child, 60) log[#log + 1] = 'not reached'\n"
     "end)\n"
     "print(fine, e.class, #log)",
     "false\thttp_5xx\t0\n");
  session(
      "vu:all({ 1, 2 }, function(child, i) if i == 1 then error 'broken' end child:sleep(60) end)",
      "", SAMPLE_SCRIPT, "s.lua:4: broken");
  ok("local fine, e = pcall(vu.all, vu, { 1 }, function() error { code = 7 } end)\n"
     "print(fine, e.code)",
     "false\t7\n");
}

static void spawn_and_join(void **state) {
  (void)state;
  ok("local t = vu:spawn(function(child) child:sleep(0.02) return 1, nil, 'three' end)\n"
     "print(t:join()) print(t:join()) print(select('#', vu:spawn(function() end):join()))",
     "1\tnil\tthree\n1\tnil\tthree\n0\n");
  ok("local t = vu:spawn(function(child) child:fail('reset', 'gone') end)\n"
     "vu:sleep(0.01) local fine, e = pcall(t.join, t) print(fine, e.class, e.detail)",
     "false\treset\tgone\n");
  ok("vu:spawn(function(child) child:sleep(0.03) print 'child ends' end) print 'parent returns'",
     "parent returns\nchild ends\n");
  session("vu:spawn(function(child) child:fail('reset', 'unseen') end) vu:sleep(0.01) print 'on'",
          "on\n", SAMPLE_RESET, "unseen");
  fails("vu:spawn(function(child) child:sleep(60) end) error 'parent'", "s.lua:4: parent");
  fails("local t = vu:spawn(function(c) c:sleep(0.01) end)\n"
        "vu:spawn(function(c) t:join() end):join()",
        "only the virtual user that spawned a task can join it");
  fails("vu:spawn(3)", "vu:spawn: a function of the new virtual user is expected, got number");
  fails("vu:all(3, print)", "vu:all: a list is expected, got number");
  fails("vu:all({}, 3)", "vu:all: a function (child, item, i) is expected, got number");
  fails("local conv = require 'perigee.chat'.new(vu) conv:user 'a'\n"
        "vu:spawn(function() conv:send { max_tokens = 1 } end):join()",
        "s.lua:5: conv:send: the conversation belongs to another virtual user than the one that "
        "runs; conv:fork(child) makes one for this user");
  fails("error { a = 1, b = 'x' }", "s.lua:4: {\"a\":1,\"b\":\"x\"}");
  fails("error { long = ('x'):rep(500) }", "xxxxxxxxx...");
  fails("error { f = print }", "s.lua:4: table: 0x");
  fails("error(setmetatable({}, { __tostring = function() return 'own' end }))", "own");
  fails("local kept vu:spawn(function(c) kept = c end):join() kept:sleep(0)",
        "s.lua:4: this virtual user has ended");
}

/* Which failures are left when some were joined, in any order; a task may go before its failure. */
static void failures_are_claimed_one_by_one(void **state) {
  (void)state;
  const char *three = "local t = {} for i = 1, 3 do\n"
                      "t[i] = vu:spawn(function(c) c:fail('reset', 'no ' .. i) end) end\n"
                      "vu:sleep(0.01)\n";
  char text[400];
  snprintf(text, sizeof text, "%sfor i = 3, 1, -1 do pcall(t[i].join, t[i]) end", three);
  ok(text, "");
  snprintf(text, sizeof text, "%spcall(t[2].join, t[2]) pcall(t[2].join, t[2])", three);
  session(text, "", SAMPLE_RESET, "no 1");
  snprintf(text, sizeof text,
           "%spcall(t[1].join, t[1]) t = nil for _ = 1, 1e5 do local _ = {} end vu:sleep(0.01)",
           three);
  session(text, "", SAMPLE_RESET, "no 2");
  snprintf(text, sizeof text, "%sfor i = 1, 2 do pcall(t[i].join, t[i]) end", three);
  session(text, "", SAMPLE_RESET, "no 3");
}

/* Beyond 999 the numbers of branches show no path; none comes twice. */
static void many_branches_have_numbers_of_their_own(void **state) {
  (void)state;
  ok("local seen, n = {}, 0 for _ = 1, 5000 do local b = vu:branch()\n"
     "if not seen[b] then seen[b] = true n = n + 1 end end print(n)",
     "5000\n");
}

static void waiting_where_nothing_can_wait(void **state) {
  (void)state;
  fails("coroutine.wrap(function() vu:sleep(0) end)()",
        "vu:sleep cannot wait inside a coroutine of your own; use vu:spawn");
  fails("table.sort({ 2, 1 }, function(a, b) vu:sleep(0) return a < b end)",
        "vu:sleep cannot wait inside a function that Lua itself calls");
  fails("vu:spawn(function() vu:sleep(0) end):join()",
        "vu:sleep belongs to another virtual user than the one that runs");
  fails("coroutine.yield()", "s.lua:4: coroutine.yield outside a coroutine of your own");
  ok("local co = coroutine.wrap(function() coroutine.yield(1) coroutine.yield(2) end)\n"
     "print(co(), co()) local me = coroutine.running()\n"
     "vu:spawn(function() print(pcall(coroutine.resume, me)) end):join()",
     "1\t2\nfalse\ts.lua:6: coroutine.resume: a virtual user's own coroutine is resumed by the "
     "run\n");
}

static void a_gc_method_is_refused(void **state) {
  (void)state;
  fails("setmetatable({}, { __gc = function() vu:sleep(1) end })",
        "s.lua:4: setmetatable: a __gc of a script's own could not be stopped");
  fails("debug.setmetatable({}, { __gc = true })", "s.lua:4: debug.setmetatable: a __gc");
}

static void the_runaway_is_stopped(void **state) {
  (void)state;
  runner.config.runaway_ns = 50 * NS_PER_MS;
  fails("local function spin() while true do end end\nspin()",
        "without waiting, so it was stopped\n  at ");
  check_has(runner.table->session_detail[SAMPLE_SCRIPT], "s.lua:4 (in local 'spin')");
}

static void no_pcall_hides_that_it_must_stop(void **state) {
  (void)state;
  runner.config.runaway_ns = 50 * NS_PER_MS;
  fails("while true do pcall(function() while true do end end) end", "so it was stopped");
  fails("while true do xpcall(function() while true do end end, function(m) return m end) end",
        "so it was stopped");
  fails("while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "so it was stopped");
  fails("local t <close> = setmetatable({}, { __close = function() while true do end end })\n"
        "while true do end",
        "so it was stopped");
  ok("for i = 1, 3 do for j = 1, 3e5 do end vu:sleep(0.001) end print 'fine'", "fine\n");
  session("vu:spawn(function(c) while true do end end) vu:sleep(0.01)", "", SAMPLE_SCRIPT,
          "so it was stopped");
}

static void waiting_for_nothing_has_an_end(void **state) {
  (void)state;
  runner.config.runaway_ns = 50 * NS_PER_MS;
  fails("local function poll() vu:sleep(0) end\nwhile true do poll() end",
        "waited for nothing for 0.");
  check_has(runner.table->session_detail[SAMPLE_SCRIPT], "s.lua:4 (in local 'poll')");
  check_has(runner.table->session_detail[SAMPLE_SCRIPT], "so it was stopped");
  fails("while true do vu:sleep(1e-9) end", "waited for nothing");
  fails("while true do pcall(vu.sleep, vu, 0) end", "waited for nothing");
  fails("while true do vu:spawn(function() end):join() end", "waited for nothing");
  fails("while true do vu:all({ 1, 2 }, function(c) c:sleep(0) end) end", "waited for nothing");
  fails("vu:spawn(function(c) while true do c:sleep(0) end end) while true do vu:sleep(0) end",
        "waited for nothing");
  /* somebody really waits, or did */
  ok("local done vu:spawn(function(c) c:sleep(0.2) done = true end)\n"
     "while not done do vu:sleep(0) end print 'seen'",
     "seen\n");
  ok("local t = vu:now() repeat for i = 1, 900 do vu:sleep(0) end vu:sleep(0.001)\n"
     "until vu:now() > t + 0.2 print 'paced'",
     "paced\n");
  ok("for i = 1, 900 do vu:sleep(0) end for j = 1, 100 do vu:http { path = '/' } "
     "for i = 1, 900 do vu:sleep(0) end end print 'asked'",
     "asked\n");
}

static void errors_carry_their_frames(void **state) {
  (void)state;
  fails("local function inner(x) return x.y.z end\nlocal function outer() inner({}) end\nouter()",
        "s.lua:4: attempt to index a nil value (field 'y')\n  at ");
  fails("error(setmetatable({}, { __tostring = function() return 'as text' end }))", "as text");
  fails("error()", "nil");
  session("local t <close> = setmetatable({}, { __close = function() vu:sleep(0.01) print "
          "'cleaned' end })\n"
          "error 'first'",
          "cleaned\n", SAMPLE_SCRIPT, "s.lua:5: first");
}

static void guards_say_what_to_use(void **state) {
  (void)state;
  const struct {
    const char *body, *says;
  } bad[] = {
      {"math.random()", "s.lua:4: math.random differs from run to run: draw from vu.rng"},
      {"math.randomseed(1)", "math.randomseed has no effect here"},
      {"os.time()", "os.time differs from run to run: use vu:now()"},
      {"os.clock()", "os.clock counts all virtual users' CPU time"},
      {"os.date()", "os.date without a time differs"},
      {"os.exit(1)", "os.exit would end every virtual user"},
      {"collectgarbage()", "the run steps the collector"},
      {"debug.sethook()", "debug.sethook belongs to the run"},
      {"vu:check(('x'):rep(201), true)", "vu:check: 'xxxx"},
      {"vu:tag(('x'):rep(201), true)", "has 201 bytes, at most 200 are kept"},
      {"vu:tag('k', ('x'):rep(201))", "has 201 bytes, at most 200 are kept"},
      {"vu:http { path = '/', tags = { k = ('x'):rep(201) } }",
       "has 201 bytes, at most 200 are kept"},
      {"vu:http { path = '/', policy = ('x'):rep(201) }",
       "the policy's name has 201 bytes, at most 200 are kept"},
      {"debug.setupvalue(print, 1, nil)", "debug.setupvalue: this function is written in C"},
      {"debug.getupvalue(print, 1)", "debug.getupvalue: this function is written in C"},
      {"debug.upvaluejoin(print, 1, function() return ok end, 1)",
       "debug.upvaluejoin: this function is written in C"},
      {"debug.getregistry()", "debug.getregistry: what is in the registry"},
      {"debug.setuservalue(io.stderr, 1)", "debug.setuservalue: this userdata belongs to"},
      {"debug.setmetatable(vu, {})", "debug.setmetatable: this userdata belongs to"},
      {"table.sort({ 2, 1 }, function() debug.setlocal(2, 1, 1) end)",
       "debug.setlocal: this function is written in C"},
      {"for _ in pairs({ [{}] = 1, [{}] = 2 }) do end", "has no order that is the same everywhere"},
  };
  for (size_t i = 0; i < ARRAY_LEN(bad); i++)
    fails(bad[i].body, bad[i].says);
  ok("print(os.date('!%Y', 0), type(os.time { year = 2020, month = 1, day = 1 }))\n"
     "print(collectgarbage 'count' > 10)",
     "1970\tnumber\ntrue\n");
}

static void pairs_and_next_walk_in_order(void **state) {
  (void)state;
  ok("local t = { z = 1, a = 2, [10] = 3, [2] = 4, [1.5] = 5, [true] = 6, m = 7 } local s = {}\n"
     "for k in pairs(t) do s[#s + 1] = tostring(k) end print(table.concat(s, ' '))\n"
     "s = {} for k in next, t do s[#s + 1] = tostring(k) end print(table.concat(s, ' '))\n"
     "for k in pairs(t) do t[k] = nil end print(next(t))\n"
     "local p = setmetatable({}, { __pairs = function() return next, { q = 1 } end })\n"
     "for k, v in pairs(p) do print(k, v) end",
     "2 10 1.5 a m z true\n2 10 1.5 a m z true\nnil\nq\t1\n");
}

static void values_checks_and_tags_are_kept(void **state) {
  (void)state;
  ok("vu:tag('phase', 'plan') vu:tag('n', 3) vu:tag('gone', true) vu:tag('gone', nil)\n"
     "vu:record('m', 0.5) vu:record('m', 2, { phase = 'act' }) print(vu:check('fine', true))\n"
     "print(vu:check('bad', nil)) vu:http { path = '/' }",
     "true\nfalse\n");
  const struct table *t = runner.table;
  assert_int_equal(t->n_values, 4);
  assert_string_equal(t->value_names.items[t->values[0].name], "m");
  check_near(t->values[0].value, 0.5, 0);
  assert_string_equal(t->tags.items[t->values[0].tags], "{\"phase\":\"plan\",\"n\":3}");
  assert_string_equal(t->tags.items[t->values[1].tags], "{\"phase\":\"act\",\"n\":3}");
  assert_true(t->values[2].is_check && t->values[3].is_check);
  check_near(t->values[2].value, 1, 0);
  check_near(t->values[3].value, 0, 0);
  assert_string_equal(t->tags.items[t->rows[0].tags], "{\"phase\":\"plan\",\"n\":3}");
  fails("vu:record('tol_time', 1)",
        "s.lua:4: vu:record: unknown metric 'tol_time' (did you mean 'tool_time'?); declare it");
  fails("vu:record('m', 0/0)", "the value of 'm' must be a finite number");
  fails("vu:record('m', '1')", "the value of 'm' must be a finite number, got the string \"1\"");
  fails("vu:tag('turn', 1)", "vu:tag: 'turn' is kept by conversations");
  fails("vu:tag('x', {})", "vu:tag: 'x' must be a string, number, boolean or nil, got table");
}

static void draws_depend_on_seed_session_and_path(void **state) {
  (void)state;
  const char *body =
      "local c = {} c[1] = vu.rng:int(1, 1000000)\n"
      "local r = vu:all({ 1, 2 }, function(child) return child.rng:int(1, 1000000) end)\n"
      "print(c[1], r[1], r[2])";
  char text[2000];
  snprintf(text, sizeof text, "%s%s%s\nend }\n", HEAD, PLAN, body);
  runner_run(&runner, text);
  char *first = mem_strdup(runner_printed(&runner));
  runner_run(&runner, text);
  assert_string_equal(runner_printed(&runner), first);
  runner.config.seed = 2;
  runner_run(&runner, text);
  assert_string_not_equal(runner_printed(&runner), first);
  runner.config.seed = 1;
  mem_free(first);
  ok("local a = vu.rng:int(1, 1e9 // 1 | 0) print(a ~= vu.rng:int(1, 1000000000))", "true\n");
}

static void picks_are_counted_and_given_back(void **state) {
  (void)state;
  struct peer second;
  peer_start(&second);
  runner_add(&runner, &second);
  ok("print(vu:pick_next 'a', vu:pick_next 'a', vu:pick_next 'a', vu:pick_next 'b')\n"
     "local i = vu:pick_least() local j = vu:pick_least() print(i, j, vu:inflight(1), "
     "vu:inflight('r1'))\n"
     "vu:http { path = '/', replica = 1 } print(vu:inflight(1), vu:inflight(2))\n"
     "vu:spawn(function(child) child:pick(1) child:pick('r1') end):join()\n"
     "print(vu:inflight(1), vu:inflight(2))",
     "1\t2\t1\t1\n1\t2\t1\t1\n0\t1\n0\t1\n");
  assert_int_equal(runner.result.n_picked, 2);
  assert_int_equal(runner.result.picked[0], 2);
  assert_int_equal(runner.result.picked[1], 2);
  runner_reset(&runner);
  peer_stop(&second);
}

static void shared_setup_and_teardown(void **state) {
  (void)state;
  runner_run(
      &runner,
      "local perigee = require 'perigee'\n"
      "local words = perigee.shared('words', function() print 'made'\n"
      "  return { list = { 'a', 'b' }, n = 2.5, nested = { deep = true } } end)\n"
      "return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },\n"
      "  setup = function(vu) vu:sleep(0.001) local r = vu:http { path = '/' }\n"
      "    print('setup', vu.session, r.status) return { status = r.status, words = words } end,\n"
      "  teardown = function(vu) print('teardown', vu.shared.status, vu.session) end,\n"
      "  session = function(vu) local s = vu.shared\n"
      "    print(s.status, s.words.list[2], #s.words.list, s.words.nested.deep, rawequal(s.words,\n"
      "      s.words), table.concat(words.list, '+'), select('#', table.unpack(s.words.list)))\n"
      "    for k, v in pairs(words) do print(k, type(v)) end\n"
      "    print(pcall(function() s.words.n = 3 end))\n"
      "  end }\n");
  check_has(runner_printed(&runner), "setup\tnil\t200\n");
  check_has(runner_printed(&runner), "200\tb\t2\ttrue\ttrue\ta+b\t2\n");
  check_has(runner_printed(&runner), "list\ttable\nn\tnumber\nnested\ttable\n");
  check_has(runner_printed(&runner), "shared data is read-only");
  check_has(runner_printed(&runner), "teardown\t200\tnil\n");
  assert_string_equal(runner.result.teardown_error, "");
  assert_int_equal(runner.table->n_rows, 0); /* setup's request is no sample */
}

static void what_cannot_be_shared_is_named(void **state) {
  (void)state;
  int rc = runner_try(&runner, HEAD "return perigee.plan { load = perigee.closed { users = 1, "
                                    "sessions = 1 }, session = print,\n"
                                    "setup = function() return { a = { print } } end }");
  assert_int_equal(rc, ERR_INVALID);
  check_has(runner.err.text, "only plain data and texts can be shared between states, not a "
                             "function (at .a[1])");
  rc = runner_try(&runner, HEAD "perigee.shared('x', function() return { [1.5] = 1 } end)");
  assert_int_equal(rc, ERR_INVALID);
  check_has(runner.err.text, "keys that are neither 1..n nor strings");
  rc = runner_try(&runner,
                  HEAD "perigee.shared('x', function() return perigee.shared('x', print) end)");
  assert_int_equal(rc, ERR_INVALID);
  check_has(runner.err.text, "shared 'x' needs itself to be made");
  rc = runner_try(&runner, HEAD "return perigee.plan { load = perigee.closed { users = 1, "
                                "sessions = 1 }, session = print,\n"
                                "setup = function(vu) vu:http { path = '/status/500' } end }");
  assert_int_equal(rc, ERR_INVALID);
  check_has(runner.err.text, "setup failed (http_5xx): ");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sleeping_takes_its_time),
      cmocka_unit_test(fields_are_there),
      cmocka_unit_test(http_returns_what_the_reply_said),
      cmocka_unit_test(keys_go_to_the_fleet_alone),
      cmocka_unit_test(expected_failures_are_values_or_end_the_session),
      cmocka_unit_test(failures_can_be_caught),
      cmocka_unit_test(misuse_of_http_names_line_and_word),
      cmocka_unit_test(all_runs_side_by_side),
      cmocka_unit_test(a_failing_branch_takes_the_others_along),
      cmocka_unit_test(spawn_and_join),
      cmocka_unit_test(failures_are_claimed_one_by_one),
      cmocka_unit_test(many_branches_have_numbers_of_their_own),
      cmocka_unit_test(waiting_where_nothing_can_wait),
      cmocka_unit_test(a_gc_method_is_refused),
      cmocka_unit_test(waiting_for_nothing_has_an_end),
      cmocka_unit_test(errors_carry_their_frames),
      cmocka_unit_test(guards_say_what_to_use),
      cmocka_unit_test(pairs_and_next_walk_in_order),
      cmocka_unit_test(values_checks_and_tags_are_kept),
      cmocka_unit_test(draws_depend_on_seed_session_and_path),
      cmocka_unit_test(shared_setup_and_teardown),
      cmocka_unit_test(what_cannot_be_shared_is_named),
      cmocka_unit_test(picks_are_counted_and_given_back),
      cmocka_unit_test(the_runaway_is_stopped),
      cmocka_unit_test(no_pcall_hides_that_it_must_stop),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
