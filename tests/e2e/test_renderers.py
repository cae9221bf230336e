"""Prompts made on the client's side, held against what the simulated fleet counts: a small tokenizer of ours, and Qwen3
with the data of `make deps` (skipped by name where it is not)."""
import contextlib
import json
import os
import shutil

from harness import RELAXED, ROOT, eq, has, main
from models import harmony, qwen3, small

# The others go the same ways with more data.
THREADS = ["test_rendered_prompts_are_what_the_server_counts", "test_verified_prompts_are_what_the_server_renders",
           "test_bytes_by_a_lua_renderer", "test_renderers_may_wait_and_are_not_disturbed"]

SESSION = """
local perigee, chat, gen = require "perigee", require "perigee.chat", require "perigee.gen"
local template = require "perigee.template"
local render = perigee.param("render", true)
return perigee.plan {
  load = perigee.closed { users = 2, sessions = 4 },
  session = function(vu)
    local conv = chat.new(vu, { system = gen.text { tokens = 90, seed = "s" } })
    if render then
      conv:set_renderer(vu.fleet.template)
    end
    for turn = 1, 4 do
      conv:user(gen.text { tokens = 30, rng = vu.rng })
      if turn == 3 then
        conv:edit(2, "another question, <|end|> and all")
      end
      conv:send { max_tokens = 20 }
    end
  end,
}
"""
SCENARIO = os.path.join(ROOT, "scenarios/renderer_change.lua")
LOOSE = [*RELAXED, "--quiet"]


def check_rows(result, path):
    rows = [r for r in result.rows if r["generation"]]
    eq(len(rows), 16, result.out)
    for r in rows:
        has(r["url"], path)
        eq(r["error"], None, r["error_detail"])
        eq(r["prompt_tokens_local"], r["prompt_tokens"], str(r))
        assert r["render_ns"] > 0 and r["tokenize_ns"] > 0, r
        before = [b for b in rows if b["session"] == r["session"] and b["turn"] == r["turn"] - 1]
        if not before:
            eq(r["survived_tokens"], None)
        elif r["turn"] == 3:
            assert 90 < r["survived_tokens"] < 130, r
        else:
            eq(r["survived_tokens"], before[0]["prompt_tokens"], str(r))


def run(work, model, *more):
    work.write("s.lua", SESSION)
    result = work.perigee("run", "s.lua", "--tokenizer", model, "--template", model, *LOOSE, *more)
    eq(result.status, 0, result.out + result.err)
    return result


def test_rendered_prompts_are_what_the_server_counts(work):
    check_rows(run(work, small(work)), "/v1/completions")


def test_verified_prompts_are_what_the_server_renders(work):
    check_rows(run(work, small(work), "--verify", "--set", "render=false"), "/v1/chat/completions")


def test_qwen3(work):
    model = qwen3(work)
    result = run(work, model)
    check_rows(result, "/v1/completions")
    eq(result.run["fleet"]["tokenizer"], model)
    eq(result.run["fleet"]["template"], model)


# ---- gpt-oss ----

TALK = """
local perigee, chat = require "perigee", require "perigee.chat"
local renderer = perigee.param("renderer", "harmony")
local history = perigee.param("history", "live")
local F = { name = "weather", description = "Tells the weather.", parameters = { type = "object" } }
return perigee.plan {
  load = perigee.closed { users = 2, sessions = 4 },
  session = function(vu)
    local conv = chat.new(vu, { history = history, system = "Be brief.", tools = { F } })
    if renderer ~= "" then
      conv:set_renderer(renderer)
    end
    for turn = 1, 3 do
      conv:user("Question " .. turn .. " of " .. vu.session)
      conv:send { max_tokens = 30, tool_call = { name = "weather", arguments = { turn = turn } } }
      conv:tool "sunny"
      local reply = conv:send { max_tokens = 30 }
      local said = conv:message(-1)
      if history == "live" and renderer ~= "" then
        assert(reply.raw_text == "<|channel|>final<|message|>" .. reply.text, reply.raw_text)
        assert(said.content == reply.text and not said.reasoning, said.content)
      end
    end
  end,
}
"""


def check_talk(result, least_cached):
    rows = [r for r in result.rows if r["generation"]]
    eq(len(rows), 24, result.out)
    for r in rows:
        eq(r["error"], None, r["error_detail"])
        eq(r["prompt_tokens_local"], r["prompt_tokens"], str(r))
        before = [b for b in rows if (b["session"], b["turn"], b["step"]) == (r["session"], r["turn"] - 1, 2)]
        if r["step"] == 1 and before: # the answer before is in the prompt as it was sampled
            assert r["cached_tokens"] >= before[0]["prompt_tokens"] // 16 * 16 + least_cached, (r, before)


def test_harmony_conversations(work):
    """Rendered here, live and scripted, with tool loops: what the server counts, and answers hit the cache."""
    model = harmony(work)
    work.write("s.lua", TALK)
    for history, least_cached in (("live", 16), ("scripted", -16)):
        result = work.perigee("run", "s.lua", "--tokenizer", model, "--set", f"history={history}", "--sim", "1", *LOOSE)
        eq(result.status, 0, result.out + result.err)
        check_talk(result, least_cached)
        for r in result.rows:
            if r["generation"] and history == "live" and r["step"] == 2:
                assert 0 <= r["output_tokens"] - r["output_tokens_local"] <= 1, r # <|return|> is not written out
        eq(result.run["fleet"]["template"], "harmony")


def test_harmony_thoughts_leave_the_history_with_the_answer(work):
    model = harmony(work)
    plain = 'assert(reply.raw_text == "<|channel|>final<|message|>" .. reply.text, reply.raw_text)'
    script = TALK.replace(plain, "assert(#reply.reasoning > 0 and reply.raw_text:find(reply.reasoning, 1, true))")
    work.write("s.lua", script.replace("not said.reasoning", "said.reasoning == reply.reasoning"))
    result = work.perigee("run", "s.lua", "--tokenizer", model, "--sim", "1", "--sim-set", "reasoning_tokens=10", "--verify",
                          "--itl", *LOOSE)
    eq(result.status, 0, result.out + result.err)
    check_talk(result, -16)
    for r in result.rows:
        if r["generation"]: # what is visible begins behind the analysis, for the fleet as well
            assert r["first_visible"] - r["t"]["first_token"] >= sum(r["itl_ns"][:10]), r
    visible = result.summary["verify"]["errors"]["first_visible"]
    eq((visible["n"], visible["max"] < 0.1), (sum(r["generation"] for r in result.rows), True), visible)


def test_harmony_is_verified_with_the_date_of_both_sides(work):
    model = harmony(work)
    work.write("s.lua", TALK)
    plain = ["run", "s.lua", "--set", "renderer=", "--verify", *LOOSE]
    result = work.perigee(*plain, "--tokenizer", model, "--now", "1999-12-31")
    eq(result.status, 0, result.out + result.err)
    check_talk(result, 16)
    eq(result.run["fleet"]["now"], "1999-12-31")
    with sim(work, "--tokenizer", model, "--now", "2011-05-03T01:02:03") as url:
        result = work.perigee(*plain, "--replica", url)
        eq(result.status, 0, result.out + result.err)
        check_talk(result, 16)
        eq({k: result.run["fleet"][k] for k in ("tokenizer", "template", "now")},
           {"tokenizer": model, "template": "harmony", "now": "2011-05-03T01:02:03"})
        result = work.perigee(*plain, "--replica", url, "--now", "2011-05-13") # the lengths are the same, the tokens not
        eq(result.status, 98, result.out + result.err)
        has(result.err, "tokens differ from the server's")


# ---- a fleet of its own ----

@contextlib.contextmanager
def sim(work, *args):
    process = work.start("sim", "--announce", "--replicas", "1", *args)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield json.loads(line)["replicas"][0]["url"]
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_a_running_sim_says_what_it_counts_with(work):
    model = small(work)
    work.write("s.lua", SESSION)
    with sim(work, "--tokenizer", model) as url:
        result = work.perigee("run", "s.lua", "--replica", url, *LOOSE)
        eq(result.status, 0, result.out + result.err)
        check_rows(result, "/v1/completions")
        eq(result.run["fleet"]["tokenizer"], model + "/tokenizer.json")
        result = work.perigee("run", "s.lua", "--replica", url, "--verify", "--set", "render=false", *LOOSE)
        eq(result.status, 0, result.out + result.err)
        check_rows(result, "/v1/chat/completions")
        other = work.path + "/other"
        shutil.copytree(model, other)
        with open(other + "/tokenizer.json", "a", encoding="utf-8") as f:
            f.write("\n")
        with open(other + "/tokenizer_config.json", "w", encoding="utf-8") as f:
            json.dump({"chat_template": "x"}, f)
        for args, text in ((["--tokenizer", "bytes"], "and --tokenizer bytes is another (hash none): counts would be wrong"),
                           (["--tokenizer", other], f"and --tokenizer {other} is another (hash "),
                           (["--template", other], f"and --template {other} is another (hash ")):
            result = work.perigee("run", "s.lua", "--replica", url, *args)
            eq(result.status, 1, result.out)
            has(result.err, text)
        shutil.move(model, model + "-away")
        result = work.perigee("run", "s.lua", "--replica", url)
        eq(result.status, 1, result.out)
        has(result.err, "is not found here")
        has(result.err, "give --tokenizer the same file")
        result = work.perigee("run", "s.lua", "--replica", url, "--tokenizer", model + "-away", "--set", "render=false", *LOOSE)
        eq(result.status, 0, result.out + result.err)
    with sim(work) as url:
        result = work.perigee("run", "s.lua", "--replica", url, "--set", "render=false", *LOOSE)
        eq(result.status, 0, result.out + result.err)
        eq(result.run["fleet"]["tokenizer"], "bytes")


# ---- fleet files ----

HASHES = """
local perigee, chat = require "perigee", require "perigee.chat"
local blockhash = require "perigee.blockhash"
return perigee.plan {
  load = perigee.closed { users = 1, sessions = 1 },
  session = function(vu)
    local conv = chat.new(vu)
    conv:set_renderer { render = function() return ("x"):rep(200) end }
    conv:user "go"
    local h, size = conv:hashes(), vu.fleet.block_size
    assert(#h == 200 // size, #h .. " " .. size)
    local same = blockhash.hash({ ("x"):rep(200):byte(1, -1) }, { scheme = vu.fleet.hash_scheme, block_size = size })
    assert(h[1] == same[1])
    assert(#conv:hashes { scheme = "ic-xxh3", block_size = 50 } == 4)
    assert(#conv:hashes { scheme = "sglang" } == 200)
    conv:send { max_tokens = 8 }
    local reply = conv:send { max_tokens = 8 }
    vu:record("cached", reply.usage.cached_tokens)
  end,
  metrics = { cached = "tokens" },
}
"""


def test_fleet_files_say_blocks_and_scheme(work):
    work.write("s.lua", HASHES)
    work.write("f.lua", 'return { hash_scheme = "ic-xxh3", block_size = 32 }')
    result = work.perigee("run", "s.lua", "--fleet", "f.lua", "--sim", "3", *LOOSE)
    eq(result.status, 0, result.out + result.err)
    eq((result.run["fleet"]["hash_scheme"], result.run["fleet"]["block_size"]), ("ic-xxh3", 32))
    eq(result.summary["metrics"]["cached"]["max"], 192)
    with sim(work, "--set", "block_size=64") as url:
        work.write("g.lua", 'return { hash_scheme = "dynamo", replicas = { { url = "%s" } } }' % url)
        result = work.perigee("run", "s.lua", "--fleet", "g.lua", *LOOSE)
        eq(result.status, 0, result.out + result.err)
        eq(result.run["fleet"]["block_size"], 64)
        work.write("h.lua", 'return { block_size = 16, replicas = { { url = "%s" } } }' % url)
        result = work.perigee("run", "s.lua", "--fleet", "h.lua", *LOOSE)
        has(result.err, "has blocks of 64 tokens, and block_size says 16")
    for text, why in (('hash_scheme = "md5"', 'hash_scheme: there is no "md5"; there are '),
                      ("block_size = 0", "block_size must be a whole number of tokens from 1 to 1048576"),
                      ('block_size = "16"', "block_size must be a whole number"),
                      ('lookup = "a:1"', "lookup: routing by LookupRoute comes with a later version"),
                      ('replicas = { { url = "http://a", kv_events = "tcp://a:1" } }',
                       "replicas[1]: kv_events: reading KV events comes with a later version")):
        work.write("b.lua", f"return {{ {text} }}")
        result = work.perigee("run", "s.lua", "--fleet", "b.lua")
        eq(result.status, 2, result.out)
        has(result.err, "--fleet b.lua: " + why)


def test_bytes_by_a_lua_renderer(work):
    for change, least, most in (("none", 1, 1), ("renderer", 0, 0), ("tools", 0.01, 0.6)):
        result = work.perigee("run", SCENARIO, "--set", f"change={change}", "--set", "sessions=3", *LOOSE)
        eq(result.status, 0, result.out + result.err)
        for r in result.rows:
            if r["turn"] == 4:
                three = next(b for b in result.rows if b["session"] == r["session"] and b["turn"] == 3)
                share = r["survived_tokens"] / three["prompt_tokens"]
                assert least <= share <= most, (change, share)


WAITING = """
local perigee, chat = require "perigee", require "perigee.chat"
return perigee.plan {
  load = perigee.closed { users = 1, sessions = 1 },
  session = function(vu)
    local function list(messages, from)
      local parts = {}
      for i = from, #messages do
        parts[#parts + 1] = messages[i].content
      end
      return table.concat(parts)
    end
    for _, method in ipairs { "render", "render_more" } do
      local conv = chat.new(vu, { system = "sys" })
      conv:set_renderer { [method] = function(_, messages, from)
        vu:sleep(1)
        return list(messages, method == "render" and 1 or from)
      end }
      conv:user "hi"
      local uses = {
        function() conv:user "x" end, function() conv:edit(1, "x") end, function() conv:truncate(0) end,
        function() conv:set_renderer(nil) end, function() conv:set_tools(nil) end, function() conv:tokens() end,
        function(v) conv:fork(v) end, function() conv:send { max_tokens = 1 } end,
      }
      local child = vu:spawn(function(v)
        v:sleep(0.5)
        for _, use in ipairs(uses) do
          print(method, select(2, pcall(use, v)))
        end
        print(method, conv:message(2).content)
      end)
      local reply = conv:send { max_tokens = 3 }
      child:join()
      print(method, reply.prompt_tokens_local, #conv, conv:user "more" == conv)
    end
  end,
}
"""


def test_renderers_may_wait_and_are_not_disturbed(work):
    work.write("w.lua", WAITING)
    result = work.perigee("dry", "w.lua")
    eq(result.status, 0, result.out + result.err)
    for method in ("render", "render_more"):
        for what in ("user", "edit", "truncate", "set_renderer", "set_tools", "tokens", "fork", "send"):
            has(result.err, f": conv:{what}: the conversation's renderer is at work and waits; until it is done")
        has(result.err, f"{method}\thi\n")
        has(result.err, f"{method}\t5\t3\ttrue\n")
    eq(result.err.count("is at work and waits"), 16)


def test_refusals(work):
    work.write("s.lua", SESSION)
    for args, text in ((["--tokenizer", "/nowhere"], "--tokenizer: /nowhere: cannot open"),
                       (["--tokenizer", "bytes", "--template", "/nowhere"], "--template: cannot read /nowhere"),
                       (["--family", "o200k_base"], "--family says whose rank file --tokenizer is; give both"),
                       (["--now", "soon"], "--now: "),
                       (["--verify", "--replica", "http://127.0.0.1:9", "--no-preflight", "--model", "m"],
                        "--verify counts prompts with --tokenizer and --template; give both")):
        result = work.perigee("run", "s.lua", *args)
        eq(result.status, 2, result.out)
        has(result.err, text)


main(globals())
