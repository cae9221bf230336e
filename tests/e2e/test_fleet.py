"""The built-in fleet from a scenario: hits, routing, faults and metrics with answers known in advance."""
import collections
import json
import os
import re
import urllib.request

from harness import RELAXED, eq, has, main, near, one_turn

HEAD = """
local perigee = require "perigee"
local chat = require "perigee.chat"
local completions = require "perigee.completions"
local gen = require "perigee.gen"
local route = require "perigee.route"
"""


def plan(load, session, more=""):
    return HEAD + f"return perigee.plan {{ load = {load}, session = function(vu)\n{session}\nend, {more} }}\n"


def run(work, script, *args, status=0, timeout=90):
    work.write("s.lua", script)
    result = work.perigee("run", "s.lua", *RELAXED, *args, timeout=timeout)
    assert result.folder, result.err
    eq(result.status, status, result.err + result.out[-1500:])
    return result


ONE = "perigee.closed { users = 1, sessions = 1 }"


def test_a_repeated_prompt_hits_all_but_its_last_token(work):
    """Blocks of 16, at most n - 1 tokens: a second identical prompt of n tokens hits floor((n - 1) / 16) * 16."""
    lengths = [15, 16, 17, 32, 33, 100, 1600]
    session = """
    for _, n in ipairs { %s } do
      local text = gen.text { tokens = n, rng = vu.rng }
      for _ = 1, 2 do
        completions.new(vu):send({ prompt = text, max_tokens = 1 })
      end
    end
""" % ", ".join(map(str, lengths))
    rows = run(work, plan(ONE, session), "--sim", "1").rows
    eq([r["prompt_tokens"] for r in rows], [n for n in lengths for _ in range(2)])
    eq([r["cached_tokens"] for r in rows], [c for n in lengths for c in (0, (n - 1) // 16 * 16)])
    eq({r["cached_state"] for r in rows if r["cached_tokens"] == 0}, {"inferred_zero"})


def test_a_live_conversation_hits_what_was_said(work):
    """Turn k hits min(floor((n_k - 1) / B) B, floor((n_{k-1} + out_{k-1} - 1) / B) B): the last sampled token has no KV."""
    session = """
    local conv = chat.new(vu, { history = "live" })
    for _ = 1, 6 do
      conv:user(gen.text { tokens = 150, rng = vu.rng })
      conv:send { max_tokens = 70 }
    end
"""
    rows = run(work, plan(ONE, session), "--sim", "1").rows
    eq(len(rows), 6)
    eq(rows[0]["cached_tokens"], 0)
    for before, row in zip(rows, rows[1:]):
        said = before["prompt_tokens"] + before["output_tokens"]
        eq(row["cached_tokens"], min((row["prompt_tokens"] - 1) // 16, (said - 1) // 16) * 16)


def test_a_scripted_answer_ends_the_hit_at_the_prompt(work):
    session = """
    local conv = chat.new(vu, {})
    for _ = 1, 3 do
      conv:user(gen.text { tokens = 200, rng = vu.rng })
      conv:send { max_tokens = 64 }
    end
"""
    rows = run(work, plan(ONE, session), "--sim", "1").rows
    for before, row in zip(rows, rows[1:]):
        assert row["cached_tokens"] >= (before["prompt_tokens"] - 16) // 16 * 16 - 16
        assert row["cached_tokens"] <= (before["prompt_tokens"] + 16) // 16 * 16
        eq(row["cached_tokens"] % 16, 0)


def test_round_robin_is_exact_over_workers(work):
    session = "chat.new(vu, { route = nil }):user('x'):send { max_tokens = 1 }"
    script = plan("perigee.closed { users = 6, sessions = 30 }", session, "route = route.round_robin()")
    rows = run(work, script, "--workers", "4", "--profile", "instant").rows
    eq(collections.Counter(r["chosen"] for r in rows), {"r0": 10, "r1": 10, "r2": 10})
    eq([r["chosen"] for r in rows], [r["served"] for r in rows])
    eq({r["policy"] for r in rows}, {"round_robin"})


def test_session_hash_keeps_a_session_on_its_replica(work):
    session = """
    local conv = chat.new(vu, {})
    for _ = 1, 4 do conv:user("x"):send { max_tokens = 1 } end
"""
    rows = run(work, plan("perigee.closed { users = 4, sessions = 60 }", session), "--profile", "instant").rows
    by_session = collections.defaultdict(set)
    for r in rows:
        by_session[r["session"]].add(r["served"])
    eq({len(s) for s in by_session.values()}, {1})
    used = collections.Counter(next(iter(s)) for s in by_session.values())
    assert len(used) == 3 and max(used.values()) < 35, used


def test_least_inflight_avoids_the_stalled_replica(work):
    session = "chat.new(vu, {}):user('x' .. vu.session):send { max_tokens = 2 }"
    script = plan("perigee.closed { users = 3, sessions = 60 }", session, "route = route.least_inflight()")
    rows = run(work, script, "--profile", "instant", "--fault", "r1:stall for=1s", "--workers", "2").rows
    used = collections.Counter(r["served"] for r in rows)
    # The user that was held on r1 has sessions of its own left when the others are through, alone with idle replicas.
    assert used["r1"] <= 8 and used["r0"] + used["r2"] >= 52, used


FAULTS = [
    ("reset", "reset"), ("reset after=2", "reset"), ("429 retry_after=1s", "http_429"), ("503", "http_5xx"),
    ("404", "http_4xx"), ("empty", "empty_stream"), ("only_done", "empty_stream"), ("not_sse", "not_sse"),
    ("error after=2", "stream_error"), ("bad_json after=1", "bad_json"), ("truncated after=2", "truncated"),
    ("no_output", "no_visible_output"),
]


def test_each_fault_gets_its_class(work):
    for spec, error in FAULTS:
        work.write("s.lua", one_turn())
        result = work.perigee("run", "s.lua", "--profile", "instant", "--sim", "1", "--fault", spec, *RELAXED,
                              timeout=30)
        assert result.folder, f"{spec}: {result.err}"
        eq([r["error"] for r in result.rows], [error], spec)
        eq(result.status, 98 if error == "empty_stream" else 99, spec)  # empty 200s make a run invalid


def test_slow_bytes_and_coalescing_change_no_byte(work):
    hashes = set()
    for spec in (None, "slow bytes=7 delay=1ms", "coalesce events=4", "no_usage"):
        work.write("s.lua", one_turn())
        extra = ["--fault", spec] if spec else []
        result = work.perigee("run", "s.lua", "--profile", "instant", "--sim", "1", *extra, timeout=30)
        row = result.rows[0]
        eq(row["error"], None, str(spec))
        hashes.add(row["output_hash"])
        if spec == "no_usage":
            eq(row["prompt_tokens"], None)
        if spec == "coalesce events=4":
            assert row["coalesced"] > 0
    eq(len(hashes), 1, "one output")


def test_a_share_of_faults_is_the_seed_s(work):
    work.write("s.lua", one_turn(4, 300))
    counts = []
    for seed in ("3", "3", "4"):
        result = work.perigee("run", "s.lua", "--profile", "instant", "--sim", "1", "--fault", "503 p=0.3", "--seed", seed)
        counts.append(sum(r["error"] == "http_5xx" for r in result.rows))
    eq(counts[0], counts[1])
    assert 60 < counts[0] < 120, counts


def test_eviction_shows_in_the_hits(work):
    """100 blocks of 16 hold 1,600 tokens: two conversations of 1,000 tokens evict each other, in turn."""
    session = """
    local a, b = gen.text { tokens = 1000, rng = vu.rng }, gen.text { tokens = 1000, rng = vu.rng }
    for i = 1, 6 do
      completions.new(vu):send({ prompt = i % 2 == 1 and a or b, max_tokens = 1 })
    end
"""
    small = run(work, plan(ONE, session), "--sim", "1", "--sim-set", "kv_blocks=100").rows
    large = run(work, plan(ONE, session), "--sim", "1", "--sim-set", "kv_blocks=1000").rows
    eq([r["cached_tokens"] for r in large], [0, 0] + [(1000 - 1) // 16 * 16] * 4)
    assert all(r["cached_tokens"] < 700 for r in small), [r["cached_tokens"] for r in small]


def test_a_salt_keeps_tenants_apart(work):
    session = """
    local text = gen.text { tokens = 400, rng = vu.rng }
    for _, salt in ipairs { "a", "b", "a" } do
      completions.new(vu):send({ prompt = text, max_tokens = 1, extra = { cache_salt = salt } })
    end
"""
    rows = run(work, plan(ONE, session), "--sim", "1").rows
    eq([r["cached_tokens"] for r in rows], [0, 0, 384])


def test_the_truth_log_agrees_with_the_rows(work):
    session = """
    local conv = chat.new(vu, { history = "live" })
    for _ = 1, 3 do conv:user(gen.text { tokens = 90, rng = vu.rng }):send { max_tokens = 12 } end
"""
    result = run(work, plan("perigee.closed { users = 3, sessions = 9 }", session), "--truth", "truth.jsonl")
    with open(os.path.join(work.path, "truth.jsonl"), encoding="utf-8") as f:
        truth = [json.loads(line) for line in f]
    rows = result.rows
    key = ("prompt_tokens", "cached_tokens")
    eq(collections.Counter((t["replica"], *(t[k] for k in key)) for t in truth),
       collections.Counter((r["served"], *(r[k] for k in key)) for r in rows))


def test_server_metrics_count_what_was_sent(work):
    process = work.start("sim", "--replicas", "1", "--announce", "--profile", "instant")
    try:
        announce = json.loads(process.stdout.readline())
        url = announce["replicas"][0]["url"]
        session = "local c = chat.new(vu, {}) for _ = 1, 2 do c:user(gen.text { tokens = 50, rng = vu.rng }):send { max_tokens = 5 } end"
        work.write("s.lua", plan("perigee.closed { users = 2, sessions = 10 }", session))
        result = work.perigee("run", "s.lua", "--replica", "a=" + url)
        rows = result.rows
        with urllib.request.urlopen(url + "/metrics", timeout=10) as reply:
            text = reply.read().decode()

        def value(name):
            return sum(float(m) for m in re.findall(rf"(?m)^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text))

        # one completion of one token goes before the load: what does the server count?
        asked = [c["usage_tokens"] for e in result.run["parity"] for c in e["cases"] if c["usage_tokens"]]
        eq(len(asked), 1)
        eq(value("vllm:prompt_tokens_total"), sum(r["prompt_tokens"] for r in rows) + asked[0])
        eq(value("vllm:generation_tokens_total"), sum(r["output_tokens"] for r in rows) + 1)
        eq(value("vllm:prefix_cache_hits_total"), sum(r["cached_tokens"] or 0 for r in rows))
        eq(value("vllm:prefix_cache_queries_total"), sum(r["prompt_tokens"] for r in rows) + asked[0])
        eq(value("vllm:time_to_first_token_seconds_count"), len(rows) + 1)
        eq(value("vllm:request_success_total"), len(rows) + 1)
        eq(value("vllm:num_requests_running"), 0)
        eq(result.run["fleet"]["simulated"], True, "perigee sim says of itself what it is")
        eq({r["served"] for r in rows}, {"a"}, "a replica goes by the name it was given")
    finally:
        process.terminate()
        process.communicate(timeout=10)


def test_the_fleet_ends_with_the_run(work):
    result = run(work, plan(ONE, "chat.new(vu, {}):user('x'):send { max_tokens = 1 }"))
    pids = [p for p in os.listdir("/proc") if p.isdigit()]
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read()
        except OSError:
            continue
        assert not (b"sim\0--announce" in line and work.path.encode() in line), line
    has(result.out, "simulated")


main(globals())
