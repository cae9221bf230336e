"""--verify on the built-in fleet and `perigee verify`: the fleet's own log joined to the rows, and the token ledger."""
import json
import os
import shutil
import time

from harness import RELAXED, eq, has, main, slack
from simfleet import fleet

THREADS = ["test_every_request_is_joined", "test_branches_choices_and_whole_replies"]

HEAD = """
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local route = require "perigee.route"
"""

TURNS = """
    local conv = chat.new(vu, { system = gen.text { tokens = 200, seed = "s" } })
    for _ = 1, 3 do
      conv:user(gen.text { tokens = 50, rng = vu.rng })
      conv:send { max_tokens = 12 }
    end
"""


def run(work, session, *args, load="perigee.closed { users = 4, sessions = 12 }", more="", verify=("--verify",)):
    work.write("s.lua", HEAD + f"return perigee.plan {{ load = {load}, {more} session = function(vu)\n{session}\nend }}\n")
    return work.perigee("run", "s.lua", *RELAXED, *verify, *args)


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def lines_of(path):
    """Those that are whole."""
    with open(path, "rb") as f:
        return [line for line in f if line.endswith(b"\n")]


def wait(reached, what):
    deadline = time.monotonic() + 60 * slack()
    while not reached():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.05)


def check_of(result, name):
    return next(c for c in result.summary["checks"] if c["name"] == name)


def check_joined(result, n):
    eq(result.status, 0, result.out[-3000:] + result.err)
    v = result.summary["verify"]
    eq((v["rows"], v["joined"], v["rows_alone"], v["lines_alone"]), (n, n, {}, {}))
    eq((result.run["unfinished"], v["rows_cut"], v["lines_cut"]), (False, False, False))
    for name, c in v["counts"].items():
        eq(c["differ"], 0, f"{name} {v['first']}")
    eq((v["differing"], v["missing"], v["first"]), (0, 0, []))
    eq(check_of(result, "ground_truth")["figure"], 0)
    eq(len({r["request_id"] for r in result.rows}), n, "ids")
    for r in result.rows:
        eq(sum(r["causes"].values()), r["prompt_tokens"], "causes sum to the prompt")
        eq(r["ledger_source"], "truth")
    return v


def test_every_request_is_joined(work):
    result = run(work, TURNS, "--workers", "2", "--profile", "fixed", "--sim-set", "ttft=5ms", "--sim-set", "itl=2ms")
    v = check_joined(result, 36)
    eq(v["counts"]["output_events"], {"compared": 36, "differ": 0})
    eq(v["replicas"], {"compared": 36, "served_elsewhere": 0, "chosen": 36, "chosen_elsewhere": 0})
    for name in ("first_byte", "ttft", "first_visible", "last_token", "tpot", "e2e"):
        eq(v["errors"][name]["n"], 36, name)
    eq(v["errors"]["itl"]["n"], 36 * 11)
    eq(len(lines(os.path.join(result.folder, "truth.jsonl"))), 36)
    ledger = result.summary["ledger"]
    eq(ledger["requests"], 36)
    eq(sum(ledger["causes"].values()), sum(r["prompt_tokens"] for r in result.rows))
    eq(sum(ledger["classes"].values()), 36)
    eq(result.summary["causes"], ledger["causes"])
    has(result.report(), "## Where prompts came from")
    has(result.report(), "## Measurement error, by the fleet's own log")
    report = result.report()
    assert report.index("Where prompts came from") < report.index("## Results"), report
    for r in result.rows:  # every turn behind the first finds what its own session said, if nothing was evicted
        assert r["turn"] == 1 or r["possible"] >= 192, r


def test_branches_choices_and_whole_replies(work):
    session = """
    local conv = chat.new(vu, { system = gen.text { tokens = 200, seed = "s" } })
    conv:user("first")
    conv:send { max_tokens = 8 }
    vu:all({ 1, 2, 3 }, function(child, i)
      local branch = conv:fork(child)
      branch:user("branch " .. i)
      branch:send { max_tokens = 8, extra = { n = 2 } }
    end)
    vu:http { path = "/v1/completions", api = "completions", json = { prompt = "abc", max_tokens = 4, ignore_eos = true } }
    vu:http { path = "/v1/completions", stream = "completions", headers = { ["X-Request-Id"] = "mine-" .. vu.session },
      json = { prompt = { "abcdefgh", "xyz" }, max_tokens = 4, ignore_eos = true, stream = true,
        stream_options = { include_usage = true } } }
"""
    result = run(work, session, "--workers", "2", load="perigee.closed { users = 3, sessions = 6 }")
    eq(result.status, 0, result.out[-3000:] + result.err)
    v = result.summary["verify"]
    eq((v["rows"], v["joined"], v["differing"]), (36, 36, 0), str(v["first"]))
    assert "mine-3" in {r["request_id"] for r in result.rows}
    several = [r for r in result.rows if (r["request_id"] or "").startswith("mine")]
    eq([r["causes"] for r in several], [None] * 6, "several prompts have no ledger")


def test_causes_in_a_run(work):
    """One prompt to r0 twice, then to r1: new, hit, wrong pod; then to a replica that was reset: evicted there."""
    session = """
    local text = gen.text { tokens = 400, seed = "same" }
    for i, to in ipairs { "r0", "r0", "r1" } do
      vu:http { path = "/v1/completions", stream = "completions", replica = to,
        json = { prompt = "abcdefghijklmnop" .. ("x"):rep(400), max_tokens = 4, ignore_eos = true, stream = true,
        stream_options = { include_usage = true } } }
    end
    for _, to in ipairs { "r0", "r1" } do vu:http { path = "/reset_prefix_cache", replica = to, method = "POST" } end
    vu:http { path = "/v1/completions", stream = "completions", replica = "r1",
      json = { prompt = "abcdefghijklmnop" .. ("x"):rep(400), max_tokens = 4, ignore_eos = true, stream = true,
      stream_options = { include_usage = true } } }
"""
    result = run(work, session, "--sim", "2", load="perigee.closed { users = 1, sessions = 1 }")
    eq(result.status, 0, result.out[-3000:] + result.err)
    rows = [r for r in result.rows if r["generation"]]
    eq([r["class"] for r in rows], ["cold", "hbm", "wrong_pod", "evicted"])
    eq([r["causes"] for r in rows], [{"new": 416}, {"hbm": 400, "new": 16}, {"wrong_pod": 400, "new": 16},
                                     {"evicted": 400, "new": 16}])
    eq([(r["possible"], r["available"], r["captured"], r["delivered"]) for r in rows],
       [(0, 0, 0, 0), (400, 400, 400, 400), (400, 400, 0, 0), (400, 0, 0, 0)])
    m = result.summary["metrics"]
    eq((m["regret"]["n"], m["regret"]["max"], m["possible"]["mean"]), (4, 400, 300))


def test_expectations_on_the_ledger(work):
    result = run(work, TURNS, more='expect = { "regret max < 1000", "possible mean > 100", "captured max < 5" },')
    eq(result.status, 99, result.out[-2000:] + result.err)
    eq([e["met"] for e in result.summary["expectations"]], [True, True, False])
    result = run(work, TURNS, more='expect = { "regret max < 1000" },', verify=())
    eq(result.status, 99)
    has(result.summary["expectations"][0]["reason"], "no data")


def test_a_failed_request_is_told_apart(work):
    session = TURNS.replace("conv:send", "conv:try_send")
    result = run(work, session, "--fault", "status code=500 p=0.2", "--limit", "incomplete_requests=100%")
    v = result.summary["verify"]
    eq((v["rows"], v["joined"], v["differing"], v["missing"]), (36, 36, 0, 0))
    assert result.summary["requests"]["failed"] > 0
    slow = run(work, TURNS, "--fault", "slow bytes=40 delay=1ms p=0.5", "--fault", "coalesce events=3 p=0.3")
    eq(slow.summary["verify"]["differing"], 0, str(slow.summary["verify"]["first"]))
    eq(slow.summary["verify"]["counts"]["output_events"]["differ"], 0)


def test_a_log_that_says_otherwise(work):
    """What perigee verify says of a good log, of altered counts, of a line that is missing, of late writes, of other clocks."""
    result = run(work, TURNS, load="perigee.closed { users = 4, sessions = 30 }")
    good = os.path.join(result.folder, "truth.jsonl")
    log = lines(good)

    def verify(change, *args):
        path = work.write("t.jsonl", "".join(json.dumps(change(i, dict(t)), separators=(",", ":")) + "\n"
                                               for i, t in enumerate(log) if change(i, dict(t))))
        return work.perigee("verify", result.folder, path, *args)

    said = verify(lambda _i, t: t, "--limit", "measurement_error_p99=60s")
    eq(said.status, 0, said.out + said.err)
    has(said.out, "90 of 90 generation requests joined")
    said = verify(lambda i, t: dict(t, cached_tokens=t["cached_tokens"] + (i == 7)), "--limit", "measurement_error_p99=60s")
    eq(said.status, 98, said.out)
    has(said.out, "cached_tokens differ in 1 of 90")
    has(said.out, f"({log[7]['request_id']})")
    said = verify(lambda i, t: None if i == 3 else t, "--limit", "measurement_error_p99=60s", "--json")
    eq(said.status, 98, said.out)
    eq(json.loads(said.out)["verify"]["rows_alone"], {"ok": 1})

    def later(_i, t):
        t["writes"] = [dict(w, ns=w["ns"] - 2_000_000) for w in t["writes"]]
        return t

    said = verify(later)
    eq(said.status, 98, said.out)
    has(said.out, "NOT  measurement_error_p99")
    said = verify(lambda _i, t: dict(t, received_ns=t["received_ns"] + 3_600_000_000_000))
    eq(said.status, 1, said.out)
    has(said.err, "its clock is not the client's")
    eq(work.perigee("verify", result.folder).status, 2)
    eq(work.perigee("verify", result.folder, good, "--limit", "x=1").status, 2)


def test_a_fleet_elsewhere(work):
    """A `perigee sim` of its own: --verify there has no log, perigee verify joins it afterwards, other clients in it too."""
    with fleet(work, "--replicas", "2", "--truth", "truth.jsonl") as f:
        f.ask("/v1/completions", {"prompt": "x", "max_tokens": 2})
        urls = [a for i, r in enumerate(f.announce["replicas"]) for a in ("--replica", f"r{i}={r['url']}")]
        result = run(work, TURNS, "--itl", *urls, verify=())
        eq(result.status, 0, result.out[-2000:] + result.err)
        has(check_of(result, "ground_truth")["note"], "not measured: no log of the servers' own")
        assert result.summary["verify"] is None and not os.path.exists(os.path.join(result.folder, "truth.jsonl"))
    said = work.perigee("verify", result.folder, "truth.jsonl", "--json", "--limit", "measurement_error_p99=60s")
    eq(said.status, 0, said.out + said.err)
    v = json.loads(said.out)["verify"]
    eq((v["joined"], list(v["lines_alone"])), (36, ["no request id"]))  # ours, and what a run asks beforehand
    eq(v["errors"]["itl"]["n"], 36 * 11)
    eq(json.loads(said.out)["ledger"]["requests"], 36)


def test_other_servers_faces(work):
    """Each server that the fleet can play: streams, whole replies, several choices, completions; every event has its write."""
    session = """
    local conv = chat.new(vu, { system = gen.text { tokens = 200, seed = "s" } })
    for i = 1, 2 do
      conv:user(gen.text { tokens = 50, rng = vu.rng })
      conv:send { max_tokens = 6, extra = i == 2 and { n = 2 } or nil }
    end
    conv:user "whole"
    conv:send { max_tokens = 6, stream = false }
    vu:http { path = "/v1/completions", stream = "completions", json = { prompt = ("a"):rep(100), max_tokens = 6,
      ignore_eos = true, stream = true, stream_options = { include_usage = true } } }
"""
    for face in ("sglang", "tgi", "llamacpp", "trtllm", "ollama"):
        log = face + ".jsonl"
        with fleet(work, "--replicas", "1", "--face", face, "--truth", log) as f:
            result = run(work, session, "--itl", "--replica", "r0=" + f.announce["replicas"][0]["url"], verify=(),
                         load="perigee.closed { users = 2, sessions = 4 }")
        eq(result.status, 0, face + result.out[-2000:] + result.err)
        said = work.perigee("verify", result.folder, log, "--json", "--limit", "measurement_error_p99=60s")
        eq(said.status, 0, face + said.out + said.err)
        v = json.loads(said.out)["verify"]
        known = 0 if face in ("tgi", "ollama") else 16  # these two never say what was cached
        eq(v["counts"], {"prompt_tokens": {"compared": 16, "differ": 0}, "output_tokens": {"compared": 16, "differ": 0},
                         "cached_tokens": {"compared": known, "differ": 0},
                         "output_events": {"compared": 12, "differ": 0}}, face)
        eq((v["joined"], v["errors"]["ttft"]["n"], v["errors"]["last_token"]["n"]), (16, 12, 12), face)
        eq({r["cached_state"] == "absent" for r in result.rows}, {known == 0}, face)


def test_the_server_s_own_tool_loop(work):
    """One request, several turns of the engine's: all kinds of calls, streamed and whole; every event has its write."""
    session = """
    local tools = { { type = "mcp", server_label = "docs" }, { type = "web_search_preview" },
      { type = "code_interpreter", container = { type = "auto" } } }
    for i = 1, 6 do
      vu:http { path = "/v1/responses", stream = i % 3 > 0 and "responses" or nil, api = i % 3 == 0 and "responses" or nil,
        json = { input = ("x"):rep(20 * i + vu.session), tools = tools, stream = i % 3 > 0 } }
    end
"""
    result = run(work, session, "--sim", "1", "--profile", "instant", "--sim-set", "tool_call_p=1", "--sim-set",
                 "tool_latency=1ms", "--sim-set", "tool_rounds=3", load="perigee.closed { users = 2, sessions = 6 }")
    eq(result.summary["requests"]["ok"], 36, result.out[-2000:] + result.err)
    v = result.summary["verify"]
    eq((v["joined"], v["differing"], v["rows_alone"], v["lines_alone"]), (36, 0, {}, {}), str(v["first"]))
    eq(v["counts"]["output_events"], {"compared": 24, "differ": 0}, str(v["first"]))
    eq(v["errors"]["ttft"]["n"], 24)


def test_nothing_is_left_of_a_run_that_never_began(work):
    result = work.perigee("run", "chat_multi_turn", "--verify", "--tokenizer", "/nowhere")
    eq(result.status, 2, result.out + result.err)
    eq(os.listdir(os.path.join(work.path, "results")) if os.path.isdir(os.path.join(work.path, "results")) else [], [])


def test_a_truth_file_of_ones_own(work):
    result = run(work, TURNS, "--truth", "mine.jsonl")
    check_joined(result, 36)
    eq(len(lines(os.path.join(work.path, "mine.jsonl"))), 36)
    assert not os.path.exists(os.path.join(result.folder, "truth.jsonl"))
    shutil.rmtree(result.folder)


def test_a_run_that_was_killed(work):
    """It has a run.json from its beginning, which says that it never ended; a cut row is told of, too."""
    work.write("s.lua", HEAD + "return perigee.plan { load = perigee.closed { users = 4, duration = '10m' }, "
               f"session = function(vu)\n{TURNS}\nend }}\n")
    process = work.start("run", "s.lua", *RELAXED, "--verify", "--quiet")
    try:
        wait(lambda: work.last_folder() and os.path.exists(os.path.join(work.last_folder(), "samples.jsonl"))
             and all(len(lines_of(os.path.join(work.last_folder(), f))) > 20 for f in ("samples.jsonl", "truth.jsonl")),
             "rows")
    finally:
        process.kill()
        process.communicate(timeout=60)
    path = work.last_folder()
    truth = os.path.join(path, "truth.jsonl")
    with open(os.path.join(path, "run.json"), encoding="utf-8") as f:
        info = json.load(f)
    eq((info["unfinished"], info["duration_s"], info["window"]), (True, None, None))
    for name in ("samples.jsonl", "truth.jsonl"):  # the kill may have cut them anywhere
        whole = lines_of(os.path.join(path, name))
        with open(os.path.join(path, name), "wb") as f:
            f.write(b"".join(whole))
    said = work.perigee("verify", path, truth)
    assert said.status in (0, 98), said.err
    has(said.out, "The run did not come to its end (run.json says unfinished)")
    for name, what in (("samples.jsonl", "samples.jsonl ends in the middle of a row"),
                       ("truth.jsonl", "The fleet's log ends in the middle of a line")):
        with open(os.path.join(path, name), "ab") as f:
            f.write(b'{"replica":"r0","request_id":"perig')
        said = work.perigee("verify", path, truth)
        eq(said.status, 98, said.err)
        has(said.out, what)
        has(said.out, "NOT  ground_truth")
    os.unlink(truth)
    os.mkfifo(truth)  # that nobody writes into
    said = work.perigee("verify", path, truth)
    eq(said.status, 1, said.out)
    has(said.err, "it is no regular file")


main(globals())
