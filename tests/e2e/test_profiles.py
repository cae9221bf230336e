"""Profiles of the built-in fleet that users write, and the memories behind a replica's blocks, over the wire."""
import json
import re
import urllib.request

from harness import RELAXED, eq, has, main, near

HEAD = """
local perigee = require "perigee"
local completions = require "perigee.completions"
local gen = require "perigee.gen"
"""
ONE = "perigee.closed { users = 1, sessions = 1 }"

GPU = """
return {
  prefill_tokens_per_s = 10000, kv_tokens = 8192, step_overhead = "1ms", kv_bytes_per_token = 100000,
  decode_steps = { { batch = 1, context = 100, time = "4ms" }, { batch = 8, context = 100, time = "5ms" } },
  offload = { tokens = 100000, latency = "50ms", bytes_per_s = "1GB" },
}
"""


def plan(session):
    return HEAD + f"return perigee.plan {{ load = {ONE}, session = function(vu)\n{session}\nend }}\n"


def run(work, script, *args, command="run"):
    work.write("s.lua", script)
    result = work.perigee(command, "s.lua", *RELAXED, "--sim", "1", *args, timeout=90)
    assert result.folder, result.err
    eq(result.status, 0, result.err + result.out[-1500:])
    return result


def refused(work, table, *parts, command=("sim",)):
    work.write("gpu.lua", table)
    result = work.perigee(*command, "--profile", "gpu.lua", timeout=30)
    eq(result.status, 2, result.err)
    for part in ("--profile: gpu.lua: ",) + parts:
        has(result.err, part)


def test_a_profile_file_sets_the_pace(work):
    work.write("gpu.lua", GPU)
    session = """
    for _ = 1, 3 do
      completions.new(vu):send({ prompt = gen.text { tokens = 2000, rng = vu.rng }, max_tokens = 5 })
    end"""
    result = run(work, plan(session), "--profile", "gpu.lua", "--truth", "truth.jsonl", command="dry")
    truth = [json.loads(line) for line in open(f"{work.path}/truth.jsonl", encoding="utf-8")]
    for t in truth:
        near((t["first_token_ns"] - t["scheduled_ns"]) / 1e6, 201, 1e-3)
        near((t["last_token_ns"] - t["first_token_ns"]) / 1e6, 16, 1e-3)
    has(json.dumps(result.run), "gpu.lua")


def test_a_profile_file_is_checked(work):
    refused(work, "return { 5 }", "a profile file returns a table with named fields")
    refused(work, "return { kv_tokens = 5 }", "prefill_tokens_per_s is missing")
    refused(work, 'return { base = "tiny", kv_tokns = 5 }', "no field kv_tokns (did you mean kv_tokens?)")
    refused(work, 'return { base = "tiny", max_num_seqs = 0 }', "max_num_seqs=0: a whole number from 1 to 1000000 is needed")
    refused(work, 'return { base = "tiny", max_num_seqs = 0 }', "max_num_seqs=0", command=("run", "s.lua"))
    work.write("gpu.lua", "return {")
    result = work.perigee("sim", "--profile", "gpu.lua", timeout=30)
    eq(result.status, 2)
    has(result.err, "--profile gpu.lua: ")
    result = work.perigee("sim", "--profile", "nowhere.lua", timeout=30)
    eq(result.status, 2)
    has(result.err, "nowhere.lua")


def test_a_table_of_numbers_that_are_none(work):
    for value, what in (("0/0", "NaN"), ("1/0", "an infinite number"), ("-1/0", "an infinite number"), ("print", "a function")):
        work.write("gpu.lua", f'return {{ base = "tiny", offload = {{ tokens = {value} }} }}')
        for command in (("sim",), ("run", "s.lua"), ("dry", "s.lua")):
            result = work.perigee(*command, "--profile", "gpu.lua", timeout=30)
            eq(result.status, 2, result.err)
            has(result.err, f"--profile gpu.lua: its table must not hold {what} (at .offload.tokens)")


def test_sim_says_what_the_figures_come_to(work):
    """A profile whose times were meant in ms and are seconds is seen at the start."""
    work.write("gpu.lua", GPU.replace('"4ms"', '"4s"').replace('"5ms"', '"5s"'))
    for profile, line in (("gpu.lua", "idle, a prompt of 1000 tokens takes 101 ms; a decode step 5.32 s for one sequence, 97.5 s for "
                                      "64, of 1024 tokens each\n"),
                          ("adr-04", "takes 416 ms; a decode step 6.50 ms for one sequence, 8.62 ms for 64, of 1024 tokens each\n")):
        process = work.start("sim", "--profile", profile)
        out = ""
        while "Ctrl-C" not in out:
            more = process.stdout.readline()
            assert more, process.stderr.read()
            out += more
        process.terminate()
        process.communicate(timeout=10)
        has(out, line)


def test_help_says_what_a_profile_file_is(work):
    out = work.perigee("sim", "--help").out
    for word in ("adr-04", "decode_steps", "offload_tokens", "shared_tokens", "kv_bytes_per_token"):
        has(out, word)


def test_cpu_memory_gives_back_what_the_blocks_lost(work):
    """512 blocks of 16; a prompt of 4,001 tokens is pushed out by two others and comes back from CPU memory."""
    work.write("gpu.lua", GPU)
    session = """
    local first = gen.text { tokens = 4001, rng = vu.rng }
    local function send(text) completions.new(vu):send({ prompt = text, max_tokens = 1 }) end
    send(first)
    send(gen.text { tokens = 4001, rng = vu.rng })
    send(gen.text { tokens = 4001, rng = vu.rng })
    send(first)"""
    result = run(work, plan(session), "--profile", "gpu.lua", "--truth", "truth.jsonl", command="dry")
    truth = [json.loads(line) for line in open(f"{work.path}/truth.jsonl", encoding="utf-8")]
    eq([t["cached_tokens"] for t in truth], [0, 0, 0, 3840])  # 15 chunks of 256
    eq([t["offload_tokens"] for t in truth], [0, 0, 0, 3664])  # 11 blocks were still there
    eq([r["cached_tokens"] for r in result.rows], [0, 0, 0, 3840])
    last = truth[-1]  # 3,664 tokens of 100,000 bytes at 1 GB/s and 50 ms, then 161 tokens at 10,000 a second
    near((last["scheduled_ns"] - last["received_ns"]) / 1e6, 416.4, 1e-3)
    near((last["first_token_ns"] - last["scheduled_ns"]) / 1e6, 17.1, 1e-3)


def test_storage_is_shared_by_the_replicas(work):
    process = work.start("sim", "--replicas", "2", "--announce", "--profile", "instant", "--set", "shared_tokens=1000000",
                         "--set", "shared_latency=1ms")
    try:
        urls = [r["url"] for r in json.loads(process.stdout.readline())["replicas"]]
        body = json.dumps({"model": "sim-model", "prompt": [i * i % 251 for i in range(5000)], "max_tokens": 1}).encode()
        for url in urls:
            request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as reply:
                usage = json.load(reply)["usage"]
        eq(usage["prompt_tokens_details"]["cached_tokens"], 4864)  # on the other replica: 19 chunks
        with urllib.request.urlopen(urls[1] + "/metrics", timeout=10) as reply:
            text = reply.read().decode()

        def value(name, labels=""):
            return float(re.search(rf"(?m)^{re.escape(name)}{{[^}}]*{labels}[^}}]*}} (\S+)$", text)[1])

        eq(value("vllm:external_prefix_cache_queries_total"), 5000)
        eq(value("vllm:external_prefix_cache_hits_total"), 4864)
        eq(value("vllm:prefix_cache_hits_total"), 0)
        eq(value("vllm:prompt_tokens_by_source_total", 'source="external_kv_transfer"'), 4864)
        eq(value("vllm:prompt_tokens_by_source_total", 'source="local_compute"'), 136)
        eq(value("vllm:num_requests_waiting_by_reason", 'reason="deferred"'), 0)
    finally:
        process.terminate()
        process.communicate(timeout=10)


main(globals())
