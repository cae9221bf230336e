"""Prompts made on the client's side, held against what the simulated fleet counts: a small tokenizer of ours, and Qwen3
with the data of `make deps` (skipped by name where it is not)."""
import os

from harness import RELAXED, ROOT, eq, has, main
from models import qwen3, small

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


def test_bytes_by_a_lua_renderer(work):
    for change, least, most in (("none", 1, 1), ("renderer", 0, 0), ("tools", 0.01, 0.6)):
        result = work.perigee("run", SCENARIO, "--set", f"change={change}", "--set", "sessions=3", *LOOSE)
        eq(result.status, 0, result.out + result.err)
        for r in result.rows:
            if r["turn"] == 4:
                three = next(b for b in result.rows if b["session"] == r["session"] and b["turn"] == 3)
                share = r["survived_tokens"] / three["prompt_tokens"]
                assert least <= share <= most, (change, share)


def test_refusals(work):
    work.write("s.lua", SESSION)
    for args, text in ((["--tokenizer", "/nowhere"], "--tokenizer: /nowhere: cannot open"),
                       (["--tokenizer", "bytes", "--template", "/nowhere"], "--template: cannot read /nowhere"),
                       (["--family", "o200k_base"], "--family says whose rank file --tokenizer is; give both"),
                       (["--verify"], "--verify counts prompts with --tokenizer and --template; give both")):
        result = work.perigee("run", "s.lua", *args)
        eq(result.status, 2, result.out)
        has(result.err, text)


main(globals())
