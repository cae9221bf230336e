"""What scripts may do to the engine from inside: join texts at any depth, block, run away, fill the memory, print."""
from harness import RELAXED, eq, has, main

HEAD = """
local perigee = require "perigee"
local gen = require "perigee.gen"
"""


def plan(session, top="", load="perigee.closed { users = 1, sessions = 1 }", more=""):
    return f"""{HEAD}{top}
return perigee.plan {{
  load = {load},
  session = function(vu)
{session}
  end,
{more}
}}
"""


def run(work, script, *args, **kw):
    work.write("s.lua", script)
    return work.perigee("run", "s.lua", "--sim", "1", *RELAXED, *args, **kw)


DEEP = """
local function deep(n, fn) if n == 0 then return (fn()) end local r = deep(n - 1, fn) return r end
local function everywhere(x, text)
  for length = 2, 8 do
    local join = load("local x = ... return function() return x" .. (" .. x"):rep(length - 1) .. " end")(x)
    for depth = 1, 200 do
      assert(text(deep(depth, join)) == ("ab"):rep(length))
      local ok, result = coroutine.resume(coroutine.create(deep), depth, join)
      assert(ok and text(result) == ("ab"):rep(length), result)
    end
  end
end
local mt = {}
local function own(s) return setmetatable({ s = s }, mt) end
function mt.__concat(a, b) return own(a.s .. b.s) end
local function all()
  everywhere(gen.from "ab", tostring)
  everywhere(own "ab", function(x) return x.s end)
end
"""


def test_texts_are_joined_at_any_depth(work):
    """Lua 5.4.4 crashes where the stack grows while a __concat is called (src/bind/chunk.h)."""
    result = run(work, plan("""
    all()
    local t = vu:spawn(function(child) all() return "child" end)
    vu:log(t:join(), #gen.join({ gen.from "a", "b", gen.from "c" }, ", "))
""", DEEP + "all()\n"), timeout=240)
    has(result.err, "child 7")
    eq(result.status, 0, result.err)


main(globals())
