"""Mistakes that newcomers make, and what perigee says of them: never a wrong figure, always the line and the way out."""
from harness import RELAXED, eq, has, main

PLAN = """local perigee = require "perigee"
local chat = require "perigee.chat"
{top}
return perigee.plan {{
  load = {load},
  session = function(vu)
{session}
  end,
{more}
}}
"""


def plan(work, session="", top="", load="perigee.closed { users = 2, sessions = 4 }", more=""):
    work.write("s.lua", PLAN.format(session=session, top=top, load=load, more=more))


def run(work, *args, **kw):
    return work.perigee("run", "s.lua", "--sim", "1", *RELAXED, *args, **kw)


def script_error(result):
    """What the report says of sessions that ended in a script error."""
    return result.summary["sessions"]["detail"]["script"]


# ---- a forgotten `local` ----

def test_sessions_do_not_assign_globals(work):
    for top, session, line, name in (
            ("", "    n = 0\n    vu:sleep(0.01)\n    n = n + 1", 7, "n"),  # a new one
            ("count = 0", "    count = count + 1", 7, "count"),  # one that the script made when it was loaded
            ("", "    type = 'a'", 7, "type"),  # one of Lua's own
            ("", "    c = chat.new(vu)", 7, "c"),
            ("local function deep() return function() return function() hidden = 1 end end end",
             "    deep()()()", 3, "hidden"),
            ("", "    load('loaded = 1', '@text.lua')()", 1, "loaded")):
        plan(work, session, top)
        result = run(work)
        says = script_error(result)
        has(says, f"'{name}' is a global, which a thread's users share and sessions must not assign")
        has(says, f"write `local {name}`")
        has(says, "perigee.shared, or what setup returns (vu.shared)")
        has(says, f"{'text' if name == 'loaded' else 's'}.lua:{line}: ")
        eq(result.summary["sessions"]["ok"], 0)


def test_children_setup_and_teardown_neither(work):
    plan(work, "    vu:all({ 1 }, function(child, i) last = i end)")
    has(script_error(run(work)), "s.lua:7: 'last' is a global,")
    plan(work, "    vu:sleep(0.001)", more="  setup = function() users = {} end,")
    result = run(work)
    eq(result.status, 1)
    has(result.err + result.out, "s.lua:9: 'users' is a global,")
    plan(work, "    vu:sleep(0.001)", more="  teardown = function() done = true end,")
    has(run(work).out, "s.lua:9: 'done' is a global,")


def test_modules_and_the_script_make_their_own(work):
    """While files are loaded, globals are what Lua says they are; sessions read them."""
    work.write("lib/words.lua", "greeting = 'hi'\nfunction greet(x) return greeting .. ' ' .. x end\nreturn {}")
    plan(work, """    local env = {}
    load("inner = 5", "chunk", "t", env)()
    vu:log(greet "you", limit, rawget(_G, "limit"), env.inner, inner)
""", 'require "words"\nlimit = 3\nlimit = limit + 1', load="perigee.closed { users = 1, sessions = 1 }")
    result = run(work)
    has(result.err, "session=0 hi you 4 4 5 nil")
    eq(result.summary["sessions"]["ok"], 1)


# ---- a script that is wrong in every session ----

BAD = "    local c = chat.new(vu)\n    c:usr('hi')"


def test_a_wrong_script_ends_the_run(work):
    """Not after the minute that the load would take, and not as a regression of the servers."""
    load = "perigee.{} {{ {}, duration = '60s'{} }}"
    for kind, how, warmup, n in (("closed", "users = 2", "", 10), ("closed", "users = 12", ", warmup = '30s'", 12),
                                 ("open", "rate = 50", "", 10)):
        plan(work, BAD, load=load.format(kind, how, warmup))
        result = run(work, "--workers", "2", timeout=30)
        eq(result.status, 2, kind)
        reason = result.summary["outcome"]["reason"]
        has(reason, "sessions all ended in an error of the script, so the run was stopped: s.lua:8: ")
        has(result.out, "SCRIPT ERROR  the first ")
        assert n <= int(reason.split()[2]) <= n + 20, reason
        eq(result.summary["script_error"], reason)
        assert result.rows == [] and len(result.report()) > 500
    eq(run(work, "--exit-codes=bisect").status, 125)


def test_so_does_one_that_ends_before(work):
    plan(work, BAD)
    result = run(work)
    eq(result.status, 2)
    has(result.out, "SCRIPT ERROR  no session went well, 4 of 4 ended in an error of the script: script: s.lua:8: ")
    eq(run(work, "--exit-codes=bisect").status, 125)


def test_some_wrong_sessions_are_failures(work):
    """The first goes well; and where all requests fail, the servers may be why the script does."""
    plan(work, "    if vu.session > 0 then error 'odd' end", load="perigee.closed { users = 1, sessions = 14 }")
    result = run(work)
    eq((result.status, result.summary["sessions"]["failed"], result.summary["script_error"]), (99, 13, None))
    plan(work, "    local c = chat.new(vu)\n    c:user 'hi'\n    local reply = c:try_send { max_tokens = 4 }\n    return #reply.text",
         load="perigee.closed { users = 1, sessions = 14 }")
    result = run(work, "--fault", "503")
    eq((result.status, result.summary["sessions"]["by_error"]), (99, {"script": 14}))
    has(result.out, "all 14 requests failed: http_5xx")


# ---- plans and expectations ----

def refused(work, more, *says):
    plan(work, "    vu:sleep(0.001)", more="  " + more)
    result = run(work, timeout=20)
    eq((result.status, result.folder), (2, None), more)
    for part in says:
        has(result.err, part)


def test_objectives_are_upper_bounds_with_a_unit(work):
    refused(work, "slo = { output_rate = 50 }", "slo: output_rate is no time that a request's user waits for",
            "ttft, ttft_sched, ttft_sent, first_visible, tpot, e2e", "s.lua:4")
    refused(work, "slo = { cached_ratio = '10%' }", "slo: cached_ratio is no time")
    refused(work, "slo = { ttft = 500 }", "slo: ttft: 500 what? write 500ms or 500s")
    refused(work, "slo = { ttft = '5%' }", 'slo: ttft: "5%" is not a time')
    refused(work, "expect = { 'goodput share > 90%' }", 'add slo = { ttft = "500ms" }')


def test_near_words(work):
    refused(work, "expect = { 'ttft median < 1s' }", 'did you mean "p50"?')
    refused(work, "expect = { 'ttft p50 == 1s' }", '"==" is no comparison here')
    refused(work, "expectations = { 'ttft p50 < 1s' }", "did you mean 'expect'?")
    eq("is a folder" in work.perigee("run", ".").err, True)


def test_a_colon_for_a_dot(work):
    top = 'local gen, route = require "perigee.gen", require "perigee.route"\nlocal function own(x) return x end'
    for code, says in (("gen:text { tokens = 3 }", "s.lua:8: gen.text: call it with a dot, gen.text, not with a colon"),
                       ("gen:fixed(3)", "gen.fixed: call it with a dot"), ("gen:rng(1)", "gen.rng: call it with a dot"),
                       ("chat:new(vu)", "chat.new: call it with a dot"), ("route:direct 'r0'", "route.direct: call it with"),
                       ("perigee:param('x', 1)", "perigee.function: call it with a dot"),
                       ("gen.txt { tokens = 3 }", "gen has no 'txt' (did you mean 'text'?)"),
                       ("chat.nwe(vu)", "chat has no 'nwe' (did you mean 'new'?)"),
                       ("require 'perigee.json'.decoed '1'", "json has no 'decoed' (did you mean 'decode'?)"),
                       ("gen.text { token = own(3) }", "unknown option 'token'")):
        plan(work, "    " + code, top)
        has(script_error(run(work)), says, code)
    work.write("s.lua", 'local perigee = require "perigee"\nreturn perigee:plan { load = perigee:closed { users = 1 } }')
    has(run(work).err, "s.lua:2: perigee.closed: call it with a dot")


def test_messages_name_what_was_called(work):
    for code, says in (("c:send { max_tokens = 3, timeout = '5 minutes' }", "s.lua:8: conv:send: timeout: "),
                       ("c:send { max_tokens = 3, timeout = { idle = '5 parsecs' } }", "conv:send: timeout.idle: "),
                       ("c:send { max_tokens = 3, timeout = { idel = 1 } }", "conv:send: unknown option 'idel'"),
                       ("c:send { max_tokens = 3, headers = 'x' }", "conv:send: headers must be a table"),
                       ("c:user { 'hi' }", "s.lua:8: conv:user: the text must be a string"),
                       ("c:system(1)", "conv:system: the text must be"), ("c:add('user', 1)", "conv:add: the text must be"),
                       ("chat.new(vu, { system = {} })", "chat.new: system must be a string"),
                       ("vu:http { path = '/health', timeout = 'x' }", "vu:http: timeout: ")):
        plan(work, "    local c = chat.new(vu):user 'hi'\n    " + code)
        has(script_error(run(work)), says, code)


def test_data_sets(work):
    """As lua/README says: read once, beside the script, and the same for any number of workers."""
    work.write("data/prompts.jsonl", '{"prompt":"one"}\n{"prompt":"two"}\n{"prompt":"three"}\n')
    work.write("data/lib/words.lua", 'local path = require "perigee".beside "words.txt" return path')
    plan(work, "    vu:log(vu.session, prompts[vu.session % #prompts + 1], WORDS)", """
local prompts = perigee.shared("prompts", function()
  local list = {}
  for line in io.lines(perigee.beside "prompts.jsonl") do
    list[#list + 1] = require "perigee.json".decode(line).prompt
  end
  return list
end)
WORDS = require "words" .. " " .. perigee.beside "/x"
""")
    import os
    os.rename(os.path.join(work.path, "s.lua"), os.path.join(work.path, "data/s.lua"))
    result = work.perigee("run", "data/s.lua", "--sim", "1", "--workers", "2", *RELAXED)
    for n, prompt in enumerate(("one", "two", "three", "one")):
        has(result.err, f"session={n} {n} {prompt} data/lib/words.txt /x")


def test_a_reader_that_has_enough(work):
    """`| head` changes no exit status."""
    plan(work, "    vu:sleep(0.001)")
    import subprocess
    from harness import PERIGEE
    said = subprocess.run(f"{PERIGEE} run s.lua {' '.join(RELAXED)} | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}", shell=True,
                          executable="/bin/bash", cwd=work.path, capture_output=True, text=True, timeout=60)
    eq(said.stdout.strip(), "0", said.stderr)


def test_whole_seconds_of_retry_after(work):
    plan(work, "    vu:sleep(0.001)")
    result = run(work, "--fault", "429 retry_after=0.2s")
    eq(result.status, 2)
    has(result.err, "retry_after=0.2s: the header has whole seconds: write 0s or 1s")


def test_intervals_stay_within_what_can_be(work):
    plan(work, """    local c = chat.new(vu, { system = ("x"):rep(vu.session < 2 and 40 or 900) })
    for _ = 1, 2 do c:user 'hi' c:send { max_tokens = 2 } end""", load="perigee.closed { users = 1, sessions = 3 }")
    for name, m in run(work).summary["metrics"].items():
        for lo, hi in [pair for pair in (m.get("ci95") or {}).values() if pair]:
            assert lo >= 0 and (m["unit"] != "ratio" or hi <= 1), f"{name}: {lo} {hi}"


def test_checks_can_be_expected(work):
    session = "    vu:check('even', vu.session % 2 == 0)\n    vu:check('here', true)"
    plan(work, session, more="""  expect = { "checks share >= 75%", "checks{check=even} share > 50%", "checks{check=here} share > 99%",
    "checks{check=her} share > 1%" },""")
    result = run(work)
    eq((result.status, [(e["value"], e["met"]) for e in result.summary["expectations"]]),
       (99, [(0.75, True), (0.5, False), (1, True), (None, False)]))
    has(result.summary["expectations"][3]["reason"], 'no data: no check has that name: there are even, here')
    plan(work, session)
    result = run(work)
    eq(result.status, 0)
    has(" ".join(result.out.split()), 'not even of vu:check, which was false 2 times of 8: "checks share > 99%"')
    has(result.report(), "| ✗ | even | 2 | 2 | 50.0 % |")


main(globals())
