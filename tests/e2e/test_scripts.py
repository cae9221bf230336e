"""What scripts may do to the engine from inside: join texts at any depth, block, run away, fill the memory, print."""
import json
import os
import re
import resource
import subprocess
import time

from harness import PERIGEE, RELAXED, SANITIZED, Skip, eq, has, main
from models import small

# The others are about one state's memory and one command's words.
THREADS = ["test_what_never_waits_is_stopped", "test_a_stopped_coroutine_is_not_closed_later",
           "test_nothing_waits_behind_the_loop_s_back", "test_standard_output_is_the_run_s",
           "test_a_script_from_a_pipe_is_read_once", "test_a_fleet_file_that_never_ends",
           "test_os_exit_ends_nobody_else_s_work", "test_expectations_see_what_the_summary_says",
           "test_a_failure_has_its_response"]

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


ENDLESS = {
    "a handler of xpcall": "xpcall(function() while true do end end, function() while true do end end)",
    "a handler on a plain error": "xpcall(error, function() while true do end end)",
    "a handler inside a handler":
        "xpcall(error, function() xpcall(error, function() while true do end end) while true do end end)",
    "string.rep": 'while true do local _ = ("x"):rep(2^26) end',
    "table.concat": 'local t = {} for i = 1, 2e6 do t[i] = "xxxxxxxx" end while true do table.concat(t) end',
    "table.move": "while true do table.move({}, 1, 1e7, 2) end",
    "string.gsub": 'local s = ("x"):rep(2^24) while true do s:gsub("y", "z") end',
    "__close of a coroutine that was stopped": """
      local co = coroutine.create(function()
        local _ <close> = setmetatable({}, { __close = function() while true do end end })
        while true do end
      end)
      pcall(coroutine.resume, co)
      pcall(coroutine.close, co)""",
    "__close in coroutine.wrap": """
      coroutine.wrap(function()
        local _ <close> = setmetatable({}, { __close = function() while true do end end })
        while true do end
      end)()""",
    "__close on the way out": """
      local _ <close> = setmetatable({}, { __close = function() while true do end end })
      while true do end""",
    "__tostring of an error": "error(setmetatable({}, { __tostring = function() while true do end end }))",
    "__concat": "local x = setmetatable({}, { __concat = function() while true do end end }) return x .. x",
}


def test_what_never_waits_is_stopped(work):
    for name, code in ENDLESS.items():
        if SANITIZED:  # one call alone would take as long there as the whole run may
            code = re.sub(r"2\^2[46]|2e6", lambda m: {"2e6": "1e5"}.get(m[0], "2^21"), code)
        began = time.monotonic()
        result = run(work, plan(code), "--runaway", "0.2s", timeout=30)
        took = time.monotonic() - began
        has(result.err, "without waiting, so it was stopped", name)
        has(result.err, "s.lua:", name)
        assert took < 15, f"{name}: took {took:.1f} s"
        eq(result.summary["sessions"]["failed"], 1, name)


def test_a_stopped_coroutine_is_not_closed_later(work):
    """Another user closes it: its __close would run with hooks off."""
    result = run(work, plan("""
    if vu.session == 0 then
      kept.co = coroutine.create(function()
        local _ <close> = setmetatable({}, { __close = function() while true do end end })
        while true do end
      end)
      coroutine.resume(kept.co)
    end
    vu:log(coroutine.close(kept.co))
""", "local kept = {}", load="perigee.closed { users = 1, sessions = 2 }"), "--runaway", "0.2s", timeout=30)
    has(result.err, "session=1 false this coroutine was stopped")


WAITING = {
    'os.execute "sleep 9"': "os.execute in a session",
    'io.popen "sleep 9"': "io.popen in a session",
    "io.read()": "io.read of a pipe or terminal in a session",
    "io.lines()": "io.lines of a pipe or terminal in a session",
    "io.stdin:read()": "file:read of a pipe or terminal in a session",
    "io.stdin:lines()": "file:lines of a pipe or terminal in a session",
    'io.open("fifo")': "io.open of a pipe in a session",
    'io.lines("fifo")': "io.lines of a pipe in a session",
    'io.input("fifo")': "io.input of a pipe in a session",
    "pipe:read()": "file:read of a pipe or terminal in a session",
    "pipe:close()": "file:close of a pipe or terminal in a session",
    "io.close(pipe)": "io.close of a pipe or terminal in a session",
    "for l in pipe_lines do end": "a line of a pipe or terminal in a session",
    'require "late"': "require 'late' would read a file while all other users wait",
    'dofile "late.lua"': "dofile 'late.lua' would read a file",
    'loadfile "late.lua"': "loadfile 'late.lua' would read a file",
}


def test_nothing_waits_behind_the_loop_s_back(work):
    os.mkfifo(os.path.join(work.path, "fifo"))
    work.write("late.lua", "return 1")
    work.write("plain.txt", "one\ntwo\n")
    calls = "".join(f"""
    do
      local ok, err = pcall(function() {code} end)
      vu:log(ok, err)
    end""" for code in WAITING)
    work.write("s.lua", plan(calls + """
    for line in io.lines("plain.txt") do vu:log("plain", line) end
    local f <close> = io.open("plain.txt")
    vu:log("plain", f:read("n"), f:read("a"))
    local null = io.open("/dev/null") vu:log("null", null:read("a")) null:close()
    vu:log("is there a shell", os.execute())
""", """
pipe = io.popen("echo loaded; sleep 0.1; echo more")
pipe_lines = pipe:lines()
assert(pipe_lines() == "loaded" and os.execute("true"))
"""))
    held_open, ours = os.pipe()
    result = work.finish(subprocess.Popen(
        [PERIGEE, "run", "s.lua", "--sim", "1", *RELAXED], cwd=work.path, stdin=held_open, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE), 30)
    os.close(held_open)
    os.close(ours)
    for code, text in WAITING.items():
        has(result.err, text, code)
    eq(result.err.count("session=0 false "), len(WAITING), result.err)
    eq(result.err.count("do it at the top of the script"), len(WAITING) - 3)
    eq(result.err.count("load it at the top of the script"), 3)
    for text in ("plain one", "plain two", "null", "is there a shell true"):
        has(result.err, text)
    eq(result.status, 0, result.err)


def test_standard_output_is_the_run_s(work):
    result = run(work, plan('io.write("out ") io.stdout:write("of ") print("session") io.output():write("x\\n")',
                            'io.write("top\\n") print "top"\n'), "--json", "--quiet") # no live line in mid-sentence
    json.loads(result.out)
    for text in ("top\n", "out of ", "session"):
        has(result.err, text)


FULL = {
    "strings": 'local t = {} while true do t[#t + 1] = ("x"):rep(1e6) .. #t end',
    "one string": 'return ("x"):rep(1e9)',
    "texts": 'local t = {} for i = 1, 1e9 do t[i] = gen.from(("x"):rep(4e6)) end',
    "one text": 'return #gen.text { tokens = 6e8, seed = "big" }',
    "joined texts": """local all = {} for i = 1, 3 do local t = gen.text { tokens = 1e6, seed = i }
      for _ = 1, 8 do t = t .. t end all[i], all[-i] = t, #t end""",
    "a conversation": """local conv = chat.new(vu, {})
      for i = 1, 1e9 do conv:user(("x"):rep(4e6)) conv:assistant("yes") end""",
    "a pcall": 'error((select(2, pcall(function() return ("x"):rep(1e9) end))))',
    "a coroutine": 'coroutine.wrap(function() return ("x"):rep(1e9) end)()',
}


def test_memory_is_bounded_and_says_where(work):
    for name, code in FULL.items():
        if SANITIZED and name in ("strings", "texts", "joined texts", "a conversation"):
            continue  # half a minute each there
        result = run(work, plan("\n\n" + code, 'local chat = require "perigee.chat"'), "--runaway", "30s", timeout=60)
        eq(result.summary["sessions"]["failed"], 1, name)
        has(result.err, "s.lua:", name)
        has(result.err, "not enough memory: Lua data and texts of one state may take 512 MiB; hold less at a time", name)
        line = 11 if name in ("a conversation", "joined texts") else 10
        has(result.err, f"s.lua:{line}: not enough memory", name)


def test_what_is_dropped_makes_room(work):
    result = run(work, plan("""
    for i = 1, %d do
      local t = gen.text { tokens = 4e6, seed = i }
      assert(#t == 4e6 and #(t .. t) == 8e6)
    end
    vu:log "all made"
""" % (50 if SANITIZED else 100)), "--runaway", "60s", timeout=60) # either way more than a state may hold
    has(result.err, "all made")
    eq(result.status, 0, result.err)


def test_memory_that_the_machine_lacks(work):
    if SANITIZED:
        raise Skip("a sanitizer needs more address space than the test leaves")
    work.write("s.lua", plan('return #("x"):rep(2.4e8)'))
    result = work.finish(work.start("run", "s.lua", "--sim", "1", *RELAXED, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_AS, (400 << 20, 400 << 20))), 60)
    has(result.err, "s.lua:8: not enough memory: the machine has no more (")
    eq(result.summary["sessions"]["failed"], 1, result.err)


def test_a_script_from_a_pipe_is_read_once(work):
    """Each worker's states load it, and the results keep it."""
    script = plan("vu:log(vu.session)", load="perigee.closed { users = 4, sessions = 4 }")
    work.write("s.lua", script)
    for where in ('<(cat s.lua)', '/dev/stdin < <(cat s.lua)', 'fifo'):
        os.path.exists(os.path.join(work.path, "fifo")) or os.mkfifo(os.path.join(work.path, "fifo"))
        feed = "cat s.lua > fifo & " if where == "fifo" else ""
        limits = " ".join(RELAXED)
        result = work.finish(subprocess.Popen(
            ["bash", "-c", f"{feed}{PERIGEE} run {where} --sim 1 --workers 3 {limits}"], cwd=work.path, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE), 60)
        eq(result.status, 0, f"{where}: {result.err}")
        eq(result.summary["sessions"]["ok"], 4, where)
        folder = os.path.join(result.folder, "scripts")
        copies = [open(os.path.join(folder, name), encoding="utf-8").read() for name in os.listdir(folder)]
        eq(copies, [script], where)
    result = work.finish(subprocess.Popen(
        ["bash", "-c", f"{PERIGEE} run <(printf 'x =\\n\\n= 1')"], cwd=work.path, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE), 60)
    assert re.search(r"/dev/fd/\d+:3: ", result.err), result.err
    result = work.perigee("run", "/dev/null")
    has(result.err, "perigee run: /dev/null: the script returned nothing, not a plan")


def test_compiled_scripts_are_refused_by_name(work):
    with open(os.path.join(work.path, "s.luac"), "wb") as f:
        f.write(b"\x1bLua whatever")
    work.write("m.lua", 'require "compiled"')
    os.rename(os.path.join(work.path, "s.luac"), os.path.join(work.path, "compiled.lua"))
    result = work.perigee("run", "compiled.lua")
    has(result.err, "compiled.lua: this is a compiled (binary) chunk; perigee loads Lua source only: give the .lua file")
    result = work.perigee("run", "m.lua")
    has(result.err, "./compiled.lua: this is a compiled (binary) chunk")


def test_a_fleet_file_that_never_ends(work):
    work.write("s.lua", plan("vu:sleep(0)"))
    work.write("fleet.lua", """
io.write "spoils nothing"
local function spin() while true do pcall(function() while true do end end) end end
return spin()
""")
    result = work.perigee("run", "s.lua", "--fleet", "fleet.lua", "--json", timeout=30)
    eq(result.status, 2)
    has(result.err, "--fleet fleet.lua: computed for 2.0 s without an end, so it was stopped\n  at fleet.lua:3 (")
    eq(result.out, "")


def test_os_exit_ends_nobody_else_s_work(work):
    """In a fleet file and in a spec it would end the command with the status of its choice."""
    work.write("s.lua", plan("vu:sleep(0)"))
    work.write("fleet.lua", "os.exit(0)")
    result = work.perigee("run", "s.lua", "--fleet", "fleet.lua", timeout=30)
    eq(result.status, 2)
    has(result.err, "--fleet fleet.lua: fleet.lua:1: os.exit would end perigee before")
    work.write("x_spec.lua", """
it("first", function() os.exit(0) end)
it("second", function() os.exit(true, true) end)
it("third", function() end)
""")
    result = work.perigee("test", "x_spec.lua", timeout=30)
    eq(result.status, 1)
    has(result.out, "1 passed, 2 failed")
    work.write("y_spec.lua", "os.exit(0)")
    eq(work.perigee("test", "y_spec.lua", timeout=30).status, 1)
    work.write("l.lua", "os.exit(7)")
    eq(work.perigee("lua", "l.lua", timeout=30).status, 7)


def test_a_spec_that_does_not_come_back(work):
    """No hook reaches into string.find: the command ends all the same, and says where it was."""
    work.write("x_spec.lua", """
it("first", function() end)
describe("group", function()
  it("hard", function() string.find(("a"):rep(100000), (".-"):rep(50) .. "b") end)
end)
""")
    result = work.perigee("test", "--runaway", "0.1s", "x_spec.lua", timeout=90)
    eq(result.status, 1)
    has(result.out, "ok   first")
    has(result.err, "group > hard did not come back: it is in a function that cannot be stopped from outside")


def test_a_spec_counts_by_a_models_tokenizer(work):
    """perigee test --tokenizer: what a run with it would count and render by."""
    folder = small(work)
    work.write("x_spec.lua", """
local chat, gen, test = require "perigee.chat", require "perigee.gen", require "perigee.test"
local tokenizer, template = require "perigee.tokenizer", require "perigee.template"
it("counts", function()
  local own = assert(tokenizer.load "model/tokenizer.json")
  local text = tostring(gen.text { tokens = 40, seed = "a" })
  expect(own:count(text)):eq(40)
  expect(#text > 40):eq(true)
  local vu = test.vu {}
  local conv = chat.new(vu, {})
  conv:set_renderer(assert(template.load "model"), { tokenizer = own })
  conv:user(text)
  conv:send { max_tokens = 2 }
  expect(vu.requests[1].path):eq "/v1/completions" -- token ids
end)
""")
    for tokenizer in ("model/tokenizer.json", folder):
        result = work.perigee("test", "--tokenizer", tokenizer, "x_spec.lua", timeout=60)
        eq((result.status, result.err), (0, ""), result.out)
    result = work.perigee("test", "x_spec.lua", timeout=60)
    eq(result.status, 1)
    has(result.out, "x_spec.lua")
    for args, says in ((("--tokenizer",), "a path or a name is missing"), (("--tokenizer=",), "is missing"),
                       (("--tokenizer", "nowhere.json"), "nowhere.json")):
        result = work.perigee("test", *args)
        eq(result.status, 2, result.out)
        has(result.err, "perigee test: --tokenizer: ")
        has(result.err, says)


def test_perigee_lua_shows_no_frames_of_its_own(work):
    work.write("bad.lua", "x =\n= 2")
    work.write("sub/module.lua", "return +")
    work.write("raises.lua", "local function f() error 'boom' end\nf()")
    for name, says in (("nosuch.lua", "nosuch.lua"), ("bad.lua", "bad.lua:2: unexpected symbol near '='")):
        result = work.perigee("lua", name)
        has(result.err, says)
        eq(result.err.count("\n"), 1, result.err)
    result = work.perigee("lua", "raises.lua")
    has(result.err, "raises.lua:1: boom\nstack traceback:\n")
    has(result.err, "raises.lua:2: in main chunk")


SENSELESS = {
    "vu:sleep(0/0)": "vu:sleep: the time must be a finite number, got",
    "vu:sleep(1/0)": "vu:sleep: the time must be a finite number, got inf",
    "vu:sleep(-1)": "vu:sleep: the time must be at least 0 s, got -1",
    "vu:sleep(1e9)": "vu:sleep: the time must be at most a year (31536000 s), got 1000000000",
    'vu:sleep("5%")': 'vu:sleep: the time: "5%" is not a time',
    "get { sched = vu:now() + 9 }": "vu:try_http: sched = ",
    "get { sched = 0/0 }": "vu:try_http: sched must be a time on vu:now()'s clock, got",
    "get { sched = -1 }": "vu:try_http: sched must be a time on vu:now()'s clock, got -1",
    "get { sched = 1e300 }": "s in the future: vu:sleep until then",
    "get { timeout = 1e12 }": "vu:try_http: timeout must be at most a year",
    "get { timeout = 0/0 }": "vu:try_http: timeout must be a finite number",
    'get { timeout = "64KiB" }': 'vu:try_http: timeout: "64KiB" is not a time',
    "get { timeout = { idle = -1 } }": "vu:try_http: timeout.idle must be at least 0 s, got -1",
    "get { timeout = { total = 1e300 } }": "vu:try_http: timeout.total must be at most a year",
    "get { turn = 1.5 }": "vu:try_http: turn must be a whole number from 1 on, got 1.5",
    "get { turn = 2^40 }": "vu:try_http: turn must be a whole number",
    "get { step = 0/0 }": "vu:try_http: step must be a whole number from 1 on, got",
    "get { max_body = 0 }": "vu:try_http: max_body must be a whole number from 1 on, got 0",
    "get { max_body = 1e300 }": "vu:try_http: max_body must be a whole number",
    "get { prompt_tokens = -1 }": "vu:try_http: prompt_tokens must be a whole number from 0 on, got -1",
    "get { replica = 0/0 }": "replica",
    "get { replica = 9 }": "replica",
    'vu:record("m", 0/0)': "vu:record: the value of 'm' must be a finite number, got",
}


def test_numbers_that_make_no_sense(work):
    calls = "".join(f"""
    do
      local ok, err = pcall(function() {code} end)
      vu:log({number}, ok, err)
    end""" for number, code in enumerate(SENSELESS))
    result = run(work, plan(f"""
    local function get(opts) opts.path = "/health" return vu:try_http(opts) end
    {calls}
    vu:log("now", get {{ sched = vu:now(), turn = 1e0, timeout = 30 }}.status)
    vu:log("zero", get {{ sched = -0.0 }}.status)
""", more='metrics = { m = "s" },'))
    for number, (code, says) in enumerate(SENSELESS.items()):
        line = re.search(rf"^session=0 {number} (.*)$", result.err, re.M)
        assert line and line[1].startswith("false") and "s.lua:" in line[1] and says in line[1], f"{code}: {line and line[1]}"
    has(result.err, "session=0 now 200")
    has(result.err, "session=0 zero 200")


def test_expectations_see_what_the_summary_says(work):
    """ROW.md: `turn` is a label, always a string; `from` and `to` are whole numbers."""
    result = run(work, plan("""
    local conv = chat.new(vu)
    for _ = 1, 9 do conv:user "hello" conv:send { max_tokens = 3 } end
""", 'local chat = require "perigee.chat"', more="""
  expect = { function(results)
    local said = {}
    for i, t in ipairs(results.turns) do
      said[i] = ("%s %s %s %s"):format(type(t.turn), t.turn, math.type(t.from), math.type(t.to))
    end
    return true, table.concat(said, "; ")
  end },"""))
    wanted = "; ".join(f"string {t['turn']} integer integer" for t in result.summary["turns"])
    eq(result.summary["expectations"][0]["text"] if "string" in result.summary["expectations"][0]["text"]
       else result.summary["expectations"][0]["reason"], wanted)
    eq([(t["turn"], t["from"], t["to"]) for t in result.summary["turns"]], [(f"{i}", i, i) for i in range(1, 8)] + [("8–9", 8, 9)])


def test_a_failure_has_its_response(work):
    work.write("s.lua", """local perigee, chat = require "perigee", require "perigee.chat"
local function said(what, class, detail, r)
  return ("%s: %s, status %s, retry after %s, %s %s"):format(what, class, r.status, r.retry_after, r.headers["retry-after"],
    r.headers["content-type"])
end
return perigee.plan {
  load = perigee.closed { users = 1, sessions = 1 },
  session = function(vu)
    local conv = chat.new(vu, { max_tokens = 4 })
    conv:user "hi"
    local _, class, detail, response = conv:try_send()
    vu:log(said("try_send", class, detail, response))
    local ok, err = pcall(conv.send, conv)
    vu:log(said("send", err.class, err.detail, err.response), ok, tostring(err) ~= "")
    _, class, detail, response = vu:try_http { url = "http://127.0.0.1:1/" }
    vu:log(class, response.status, next(response.headers))
  end,
}
""")
    result = work.perigee("run", "s.lua", *RELAXED, "--fault", "429 retry_after=2s", "--limit", "empty_200=100%")
    has(result.err, "try_send: http_429, status 429, retry after 2.0, 2 application/json")
    has(result.err, "send: http_429, status 429, retry after 2.0, 2 application/json false true")
    has(result.err, "session=0 connect nil nil")


main(globals())
