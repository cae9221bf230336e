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
