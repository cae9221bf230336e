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


main(globals())
