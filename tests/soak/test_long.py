"""The long ones (`make soak`, SOAK=seconds each, default 600): stalls in open load, memory and descriptors over time."""
import json
import os
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from harness import RELAXED, eq, main, near  # noqa: E402

SECONDS = int(os.environ.get("SOAK", "600"))

HEAD = """
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
"""


def watch(process, samples, stop):
    while not stop.wait(1):
        try:
            with open(f"/proc/{process.pid}/statm", encoding="ascii") as f:
                rss = int(f.read().split()[1]) * 4096
            samples.append((time.monotonic(), rss, len(os.listdir(f"/proc/{process.pid}/fd"))))
        except OSError:
            return


def under_load(samples):
    """Without the report at the end, which sorts a copy of every gap."""
    return [s for s in samples if s[0] < samples[0][0] + SECONDS]


def run_watched(work, script, *args):
    work.write("s.lua", script)
    process = work.start("run", "s.lua", *RELAXED, *args)
    samples, stop = [], threading.Event()
    thread = threading.Thread(target=watch, args=(process, samples, stop))
    thread.start()
    result = work.finish(process, SECONDS + 300)
    stop.set()
    thread.join()
    return result, under_load(samples)


def test_memory_and_descriptors_do_not_grow(work):
    """Sessions come and go for the whole time; retained rows (176 bytes and their gaps) are all that may accumulate."""
    script = HEAD + f"""
return perigee.plan {{
  load = perigee.open {{ rate = 50, duration = "{SECONDS}s" }},
  session = function(vu)
    local conv = chat.new(vu, {{ system = gen.text {{ tokens = 500, rng = vu.rng }} }})
    for _ = 1, 3 do
      conv:user(gen.text {{ tokens = 100, rng = vu.rng }})
      conv:send {{ max_tokens = 20 }}
      vu:sleep(vu.rng:exp(0.5))
    end
  end,
}}
"""
    result, samples = run_watched(work, script, "--profile", "instant", "--sim", "2")
    eq(result.status, 0, result.err)
    rows = result.summary["requests"]["ok"]
    near(rows, SECONDS * 150, SECONDS * 150 * 0.1)
    quarter = len(samples) // 4
    early = max(rss for _, rss, _ in samples[quarter: 2 * quarter])
    late = max(rss for _, rss, _ in samples[3 * quarter:])
    kept = rows / 2 * (176 + 60 * 6 + 200)
    assert late - early < kept + 20e6, f"grew from {early / 1e6:.0f} to {late / 1e6:.0f} MB, rows explain {kept / 1e6:.0f} MB"
    fds = [n for _, _, n in samples[quarter:]]
    assert max(fds) < 600, max(fds)


def test_the_fleet_with_2000_streams(work):
    """2,000 streams are open all the time, caches are full and blocks are evicted: neither side's memory grows.

    At 100 ms a token that is 20,000 events a second; an answer is a minute of them, and its session goes on with a
    second one. Retained rows are all that the client may gather."""
    script = HEAD + f"""
return perigee.plan {{
  load = perigee.closed {{ users = 2000, duration = "{SECONDS}s", warmup = "5s" }},
  drain = "1s",
  session = function(vu)
    local conv = chat.new(vu, {{ system = gen.text {{ tokens = 300, rng = vu.rng }} }})
    for _ = 1, 2 do
      conv:user(gen.text {{ tokens = 100, rng = vu.rng }})
      conv:send {{ max_tokens = {min(600, SECONDS * 5)} }}
    end
  end,
}}
"""
    sim = work.start("sim", "--replicas", "2", "--profile", "fixed", "--set", "ttft=50ms", "--set", "itl=100ms",
                     "--set", "kv_tokens=2200000", "--set", "max_num_seqs=1024", "--announce")
    fleet = json.loads(sim.stdout.readline())
    of_sim, stop = [], threading.Event()
    thread = threading.Thread(target=watch, args=(sim, of_sim, stop))
    thread.start()
    try:
        result, of_client = run_watched(work, script, *(x for r in fleet["replicas"] for x in ("--replica", r["url"])))
        metrics = urllib.request.urlopen(fleet["replicas"][0]["url"] + "/metrics", timeout=20).read().decode()
    finally:
        stop.set()
        thread.join()
        sim.terminate()
        sim.communicate(timeout=20)
    rows = result.rows
    eq([row for row in rows if row["error"] and row["error"] != "incomplete"][:1], [])
    most = max(sum(1 for row in rows if row["t"]["start"] <= at < row["t"]["done"])
               for at in (rows[0]["t"]["start"] + int(share * SECONDS * 1e9) for share in (0.3, 0.6, 0.9)))
    assert most >= 1900, most
    assert "vllm:prefix_cache_queries_total" in metrics, metrics[:200]
    # By massif the heap holds 4.5 KB a row and no more; resident are up to twice that, freed pieces in between.
    kept = len(rows) / 2 * 2 * (200 + 600 * 6)
    for name, samples, explained in (("fleet", under_load(of_sim), 0), ("client", of_client, kept)):
        quarter = len(samples) // 4
        early = max(rss for _, rss, _ in samples[quarter: 2 * quarter])
        late = max(rss for _, rss, _ in samples[3 * quarter:])
        print(f"# {name}: {early / 1e6:.0f} MB in the second quarter, {late / 1e6:.0f} MB in the last, "
              f"{samples[-2][2]} descriptors")
        assert late - early < explained + 0.03 * early + 5e6, f"{name} grew from {early / 1e6:.0f} to {late / 1e6:.0f} MB"


def test_a_stalling_server_in_open_load(work):
    """The peers' case 7: 100 arrivals a second; each replica stalls 2 s of every 10; latency counts from the schedule."""
    script = HEAD + f"""
return perigee.plan {{
  load = perigee.open {{ rate = 100, arrival = "constant", duration = "{min(SECONDS, 60)}s" }},
  session = function(vu)
    local conv = chat.new(vu, {{}})
    conv:user("x" .. vu.session)
    conv:send {{ max_tokens = 1 }}
  end,
}}
"""
    work.write("s.lua", script)
    process = work.start("sim", "--replicas", "1", "--profile", "instant", "--announce")
    url = json.loads(process.stdout.readline())["replicas"][0]["url"]
    stop = threading.Event()

    def stall():
        import signal
        while not stop.wait(8):
            process.send_signal(signal.SIGSTOP)
            time.sleep(2)
            process.send_signal(signal.SIGCONT)

    thread = threading.Thread(target=stall, daemon=True)
    thread.start()
    try:
        result = work.perigee("run", "s.lua", *RELAXED, "--replica", url, timeout=SECONDS + 120)
    finally:
        stop.set()
        thread.join()
        process.terminate()
        process.communicate(timeout=10)
    n = min(SECONDS, 60) * 100
    eq(len(result.rows), n, "sent count")
    ttft = result.summary["metrics"]["ttft_sched"]
    assert ttft["p50"] < 0.02, ttft["p50"]
    near(ttft["p90"], 1.0, 0.25)
    near(ttft["p99"], 1.9, 0.2)


main(globals())
