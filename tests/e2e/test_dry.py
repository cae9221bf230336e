"""perigee dry: the same scenario in virtual time, held against the real-socket run of the same seed.

Sessions one after another, under policies that look at neither load nor time, agree row by row. Where they overlap,
shares do (tests/clock/test_shares.py).
"""
import json
import os
import re
import shutil
import signal
import time

from dryscript import SCRIPT, both
from harness import ROOT, eq, main, slack

# What a session gets, the time aside.
SAME = ["session", "turn", "step", "branch", "parent", "status", "error", "finish_reason", "prompt_tokens", "output_tokens",
        "output_tokens_local", "cached_tokens", "cached_state", "output_events", "output_hash", "policy", "chosen", "served",
        "first_tokens", "measured"]


# And with --verify, why: from the fleet's log of each, joined to the rows.
LEDGER = ["possible", "available", "captured", "delivered", "ledger_source", "causes", "class"]


def ordered(result):
    return sorted(result.rows, key=lambda r: (r["session"], r["branch"], r["turn"], r["step"]))


def mean(rows, stamp):
    spans = [r["t"][stamp] - r["t"]["start"] for r in rows if r["t"][stamp] is not None]
    return sum(spans) / len(spans)


def agree(work, *args, script=SCRIPT, latencies=True):
    real, dry = both(work, *args, script=script)
    eq((dry.status, dry.err), (real.status, ""), "status and stderr")
    a, b = ordered(real), ordered(dry)
    eq(len(b), len(a), "requests")
    for x, y in zip(a, b):
        eq({k: y[k] for k in SAME + LEDGER}, {k: x[k] for k in SAME + LEDGER}, "a row of the dry run, and of the real one")
    eq(dry.summary["ledger"], real.summary["ledger"], "ledger")
    if latencies:
        for stamp in ("first_token", "done"):
            ratio = mean(a, stamp) / mean(b, stamp)
            assert 1 <= ratio < 1 + 0.02 * slack(), f"{stamp}: real ÷ dry = {ratio:.4f}"
    return real, dry


STANDSTILL = """
local perigee = require "perigee"
return perigee.plan {
  load = perigee.closed { users = 3, sessions = 3 },
  session = function(vu) while true do vu:sleep(1e-9) end end,
}
"""


def test_a_time_that_stands_still_is_told(work):
    p = work.start("dry", work.write("s.lua", STANDSTILL), "--quiet")
    told = p.stderr.readline()  # after ten seconds
    p.send_signal(signal.SIGINT)
    assert "no request has ended: do sessions sleep for almost nothing" in told, told
    eq(work.finish(p).status, 130, "status")


def test_what_fails_at_once_takes_time_too(work):
    """A user of a closed load who swallows errors, and one who asks again and again in one session."""
    for loop in ("", "while true do c:try_send { max_tokens = 5 } end"):
        script = f"""
local perigee = require "perigee"
local chat = require "perigee.chat"
return perigee.plan {{
  load = perigee.closed {{ users = 2, duration = "50ms" }}, drain = "10ms",
  session = function(vu) local c = chat.new(vu) c:user "hello" c:try_send {{ max_tokens = 5 }} {loop} end,
}}
"""
        for fault in ("503", "refuse", "reset"):
            r = work.perigee("dry", work.write("s.lua", script), "--quiet", "--fault", fault)
            spans = {x["t"]["done"] - x["t"]["start"] for x in r.rows}
            eq((r.status, spans, len(r.rows) >= 1000 - 4), (99, {100_000}, True), f"{fault}: {len(r.rows)} rows, {r.err}")


SLOW = ["--profile", "adr-04", "--sim", "3"]  # a request takes half a second: sockets do not show


def test_one_after_another(work):
    for policy in ("round_robin", "random", "session_hash", "direct"):
        real, dry = agree(work, *SLOW, "--set", f"policy={policy}")
        assert any(r["cached_tokens"] for r in dry.rows), "nothing was cached: the test says nothing"
    served = {r["served"] for r in dry.rows}
    eq(served, {"r0"}, "direct")


DOCUMENTS = """
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local route = require "perigee.route"
local policies = { round_robin = route.round_robin, random = route.random, session_hash = route.session_hash, direct = route.direct }
local documents = {}
for i = 1, 6 do documents[i] = gen.text { tokens = 700, seed = "document " .. i } end
return perigee.plan {
  load = perigee.closed { users = 1, sessions = 16 },
  route = policies[perigee.param("policy", "random")](),
  session = function(vu)
    local conv = chat.new(vu)
    for _ = 1, 3 do  -- no pause: what one request ends with, the next one finds at the same moment of virtual time
      conv:user(documents[vu.rng:int(1, 6)])
      conv:send { max_tokens = 20 }
    end
  end,
}
"""


def test_causes(work):
    """What of each prompt was cached where, and why not: equal under every policy that looks at neither load nor time."""
    small = ["--profile", "fixed", "--sim-set", "ttft=1ms", "--sim-set", "itl=100us", "--sim-set", "kv_tokens=4096",
             "--sim-set", "max_model_len=4000"]
    seen = {}
    for policy, fleet in (("random", small), ("round_robin", small), ("session_hash", small), ("random", ["--profile", "instant", *small[6:]]),
                          ("direct", [*small, "--sim-set", "offload_tokens=16384"]),
                          ("random", [*small, "--sim-set", "shared_tokens=65536", "--sim-set", "offload_tokens=2048"])):
        real, dry = agree(work, "--verify", "--sim", "3", *fleet, "--set", f"policy={policy}", script=DOCUMENTS, latencies=False)
        eq(sum(dry.summary["causes"].values()), sum(r["prompt_tokens"] for r in dry.rows), f"{policy}: causes sum to the prompts")
        eq((dry.summary["verify"]["joined"], dry.summary["verify"]["differing"]), (48, 0), policy)
        for cause, n in dry.summary["causes"].items():
            seen[cause] = seen.get(cause, 0) + n
    for cause in ("hbm", "offload", "shared", "wrong_pod", "evicted", "new"):
        assert seen[cause] > 0, f"no token was {cause}: the test says nothing of it ({seen})"
    assert {r["class"] for r in dry.rows} - {"cold"}


def test_open_load_that_does_not_overlap(work):
    agree(work, "--sim", "2", "--profile", "qwen3-32b", "--set", "load=open", latencies=False)


def test_tiers_and_salted_and_plain_replies(work):
    script = """
local perigee = require "perigee"
local function session(vu)
  for i = 1, 4 do
    local text = ("%d words and more "):rep(40):format(table.unpack((function() local t = {} for k = 1, 40 do t[k] = k end return t end)()))
    vu:http { path = "/v1/completions", api = "completions", json = { model = "sim-model", prompt = text, max_tokens = 5 + i,
      cache_salt = i > 2 and "a" or nil } }
    vu:http { path = "/v1/chat/completions", stream = "chat", json = { model = "sim-model", stream = true, max_tokens = 40,
      messages = { { role = "user", content = text } }, stream_options = { include_usage = true } } }
    vu:try_http { path = "/v1/chat/completions", api = "chat", json = { model = "other", messages = {} } }
    local health = vu:http { path = "/health" }
    assert(health.status == 200)
  end
end
return perigee.plan { load = perigee.closed { users = 1, sessions = 2 }, session = session }
"""
    real, dry = agree(work, "--sim", "1", "--sim-set", "kv_tokens=2048", "--sim-set", "offload_tokens=8192", script=script, latencies=False)
    assert any(r["status"] == 404 for r in dry.rows) and any(not r["generation"] for r in dry.rows)


def test_faults(work):
    for fault in ("429 p=0.5 retry_after=1s", "cut after=3", "reset after=2", "truncated after=4", "error after=2", "empty",
                  "only_done", "not_sse", "bad_json after=2", "stall after=3 for=200ms", "slow bytes=40 delay=2ms",
                  "coalesce events=4", "no_usage", "no_output", "refuse", "stall for=100ms"):
        script = SCRIPT.replace("conv:send", "conv:try_send").replace("sessions = 5", "sessions = 2")
        real, dry = both(work, "--sim", "1", "--fault", fault, script=script)
        a, b = ordered(real), ordered(dry)
        eq(len(b), len(a), f"{fault}: requests")
        for x, y in zip(a, b):
            for k in ("error", "status", "finish_reason", "output_tokens", "output_hash", "cached_state"):
                eq(y[k], x[k], f"{fault}: {k}")


def test_two_runs_are_equal(work):
    path = work.write("s.lua", SCRIPT)
    texts = []
    for i in range(2):
        r = work.perigee("dry", path, "--set", "load=many", "--itl", "--set", "policy=least_inflight", "--label", f"n{i}")
        eq(r.status, 0, r.err)
        with open(os.path.join(r.folder, "samples.jsonl"), encoding="utf-8") as f:
            own = r'"run":"[^"]*"|"request_id":"perigee-[0-9a-f]*'  # the names of this one run
            texts.append(re.sub(own, "", f.read()))
    assert texts[0] == texts[1], "two dry runs of one seed differ"
    assert len(texts[0]) > 10000
    r = work.perigee("dry", path, "--set", "load=many", "--seed", "2", "--label", "n3")
    assert [x["output_hash"] for x in r.rows][:10] != re.findall(r'"output_hash":"([^"]*)"', texts[0])[:10]


def test_shipped_scenarios(work):
    for name in ("chat_multi_turn", "tool_loop_branching", "tuning_loop", "renderer_change"):
        r = work.perigee("dry", f"{ROOT}/scenarios/{name}.lua", "--label", name)
        assert r.status in (0, 99), f"{name}: {r.status} {r.err} {r.out[-1500:]}"
        eq({x["error"] for x in r.rows}, {None}, name)


def test_it_says_what_it_is(work):
    path = work.write("s.lua", SCRIPT)
    r = work.perigee("dry", path, "--quiet")
    eq((r.status, r.err), (0, ""))
    for text in ("virtual time, simulated", "best possible cached share", "times as fast", "Simulated: a dry run"):
        assert text in r.out, f"{text!r} is not in\n{r.out}"
    assert "a dry run in virtual time" in r.report()
    eq((r.run["simulated"], r.run["virtual_time"], r.summary["simulated"], r.summary["virtual_time"]), (True,) * 4)
    eq(r.run["command"][:2], ["perigee", "dry"])
    eq((r.summary["ledger"], r.rows[0]["causes"]), (None, None), "without --verify")
    checks = {c["name"]: c for c in r.summary["checks"]}
    for name in ("schedule_lag_p99", "wake_lag_p99", "loop_lag_p99", "stalled_time", "worker_cpu", "measurement_error_p99",
                 "read_lag_p99", "clock_step", "descriptors"):
        eq((checks[name]["figure"], checks[name]["ok"], checks[name]["note"]),
           (None, True, "does not apply: virtual time, simulated"), name)
    d = r.summary["dry"]
    said = re.search(r"in ([0-9.]+) s: ([0-9.]+) times as fast", r.out)
    digits = 2 if d["speedup"] < 10 else 0
    eq(said.groups(), (f"{d['wall_s']:.3f}", f"{d['speedup']:.{digits}f}"), "how fast it was")
    eq(d["requests"], len(r.rows))
    eq(d["prompt_tokens"], sum(x["prompt_tokens"] for x in r.rows))
    cached = sum(x["cached_tokens"] for x in r.rows)
    assert cached <= d["possible_tokens"] <= d["prompt_tokens"], (cached, d)
    r = work.perigee("dry", path, "--json", "--sim", "1")
    s = json.loads(r.out)
    assert abs(s["dry"]["cached_share"] - s["dry"]["best_cached_share"]) < 1e-9, s["dry"]
    eq(s["dry"]["possible_tokens"], sum(x["cached_tokens"] for x in r.rows), "one replica with room for all is the best there is")


def test_what_cannot_be_is_refused(work):
    path = work.write("s.lua", SCRIPT)
    for args, text in (
            (["--replica", "http://127.0.0.1:1"], "perigee dry: --replica: a dry run has no sockets: servers cannot be asked in "
                                                  "virtual time; leave it out, or use `perigee run`"),
            (["--gateway=http://127.0.0.1:1"], "perigee dry: --gateway: a dry run has no sockets"),
            (["--workers", "2"], "perigee dry: --workers: a dry run has no sockets: one thread steps the virtual time"),
            (["--precise"], "perigee dry: --precise: "),
            (["--sim-set", "kv_blocks=x"], "perigee dry: --sim-set: "),
            (["--fault", "r9:empty"], "perigee dry: --fault: no replica \"r9\"; there are r0 to r2"),
            (["--nonsense"], "perigee dry: ")):
        r = work.perigee("dry", path, *args)
        eq(r.status, 2, f"{args}: {r.err}")
        assert text in r.err, r.err
    script = """
local perigee = require "perigee"
return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },
  session = function(vu) vu:http { url = "http://127.0.0.1:9/x" } end }
"""
    r = work.perigee("dry", work.write("t.lua", script), "--quiet")
    text = "t.lua:4: vu:http: http://127.0.0.1:9 cannot be reached in a dry run, which has no sockets"
    assert text in r.err and "`perigee run` sends this request" in r.err, r.err
    r = work.perigee("dry", work.write("u.lua", script.replace('"http://127.0.0.1:9/x"', 'vu.fleet.replicas[2].url .. "/health"')))
    eq((r.status, r.rows[0]["status"]), (0, 200), r.err)


def test_nothing_can_happen_any_more(work):
    script = SCRIPT.replace("max_tokens = vu.rng:int(20, 50)", "max_tokens = 20, timeout = { first_byte = 0, idle = 0 }")
    r = work.perigee("dry", work.write("s.lua", script), "--fault", "stall", "--quiet")
    eq(r.status, 1, r.err)
    assert "nothing can happen any more: 1 sessions wait" in r.err, r.err


def test_runaway_and_idle_scripts_are_stopped(work):
    for line, text in (("while true do end", "without waiting, so it was stopped"),
                       ("while true do vu:sleep(0) end", "waited for nothing for")):
        script = f"""
local perigee = require "perigee"
return perigee.plan {{ load = perigee.closed {{ users = 1, sessions = 1 }}, session = function(vu) {line} end }}
"""
        r = work.perigee("dry", work.write("s.lua", script), "--runaway", "300ms", "--quiet")
        assert text in r.err, r.err


def test_interrupted(work):
    script = SCRIPT.replace("sessions = 5 }", 'duration = "8000h" }')
    for number in (signal.SIGINT, signal.SIGTERM):
        shutil.rmtree(os.path.join(work.path, "results"), ignore_errors=True)
        p = work.start("dry", work.write("s.lua", script), "--label", "cut")
        deadline = time.monotonic() + 30 * slack()
        while time.monotonic() < deadline:
            folder = work.last_folder()
            if folder and os.path.exists(os.path.join(folder, "samples.jsonl")) and \
                    os.path.getsize(os.path.join(folder, "samples.jsonl")) > 10000:
                break
            time.sleep(0.02)
        p.send_signal(number)
        r = work.finish(p)
        eq(r.status, 130, r.err)
        assert r.summary["interrupted"] and len(r.rows) > 10
        assert "virtual time" in r.out


def test_truth_log(work):
    path = work.write("s.lua", SCRIPT)
    r = work.perigee("dry", path, "--truth", f"{work.path}/truth.jsonl")
    with open(f"{work.path}/truth.jsonl", encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    eq(len(lines), len(r.rows))
    eq(sorted(x["cached_tokens"] for x in lines), sorted(x["cached_tokens"] for x in r.rows))
    zero = r.run["zero_monotonic_ns"]
    eq(sorted(x["received_ns"] - zero for x in lines), sorted(x["t"]["sent"] for x in r.rows), "one clock on both sides")


ALL_SORTS = SCRIPT.replace("conv:send { max_tokens = vu.rng:int(20, 50) }", """
      local extra = ({ { n = 2 }, { stop = { "e" } }, { logprobs = true }, { return_token_ids = true }, { stream_interval = 4 },
        { stream_options = { include_usage = true, continuous_usage_stats = true } }, {}, {} })[vu.rng:int(1, 8)]
      conv:try_send { max_tokens = vu.rng:int(1, 50), extra = extra, timeout = { total = vu.rng:uniform(0.05, 2), idle = 0.02 } }""")


def test_events_without_bytes(work):
    """With a truth log every event is made and parsed; without one most are told as stamps: the rows are the same, also of
    those that a timeout ends in the middle."""
    for script, more in ((SCRIPT, ["--sim-set", "reasoning_tokens=5"]), (ALL_SORTS, ["--profile", "llama-3.1-8b"])):
        rows = []
        for args in ([], ["--truth", f"{work.path}/truth.jsonl"]):
            r = work.perigee("dry", work.write("s.lua", script), "--itl", "--set", "load=many", *more, *args)
            rows.append([{k: v for k, v in x.items() if k not in ("run", "request_id")} for x in r.rows])
        eq(rows[0], rows[1])
        assert any(len(x["itl_ns"] or ()) > 10 for x in rows[0])
    cut = [x for x in rows[0] if x["error"] in ("timeout_total", "timeout_idle")]
    eq({x["error"] for x in cut}, {"timeout_total", "timeout_idle"})
    assert any(x["output_events"] > 3 for x in cut), "none was cut in the middle"


def test_setup_and_teardown_and_exit_codes(work):
    script = """
local perigee = require "perigee"
return perigee.plan { load = perigee.closed { users = 2, sessions = 4 },
  setup = function(vu) vu:sleep(5) return { n = vu:http { path = "/v1/models" }.status } end,
  teardown = function(vu) vu:sleep(7) print("down", vu.shared.n) end,
  session = function(vu) vu:sleep(100) vu:http { path = "/health" } end,
  expect = { "failed share < 1%", "sessions count > 100" } }
"""
    r = work.perigee("dry", work.write("s.lua", script), "--quiet")
    eq(r.status, 99, r.err)
    assert "down\t200" in r.err, r.err
    assert 200 <= r.summary["dry"]["virtual_s"] < 213, r.summary["dry"]
    eq(work.perigee("dry", f"{work.path}/s.lua", "--exit-codes", "bisect").status, 1)


THREADS = ["test_it_says_what_it_is", "test_interrupted"]

main(globals())
