"""The long ones (`make soak`, SOAK=seconds each, default 600): stalls in open load, memory and descriptors over time."""
import os
import sys
import threading
import time

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


def run_watched(work, script, *args):
    work.write("s.lua", script)
    process = work.start("run", "s.lua", *RELAXED, *args)
    samples, stop = [], threading.Event()
    thread = threading.Thread(target=watch, args=(process, samples, stop))
    thread.start()
    result = work.finish(process, SECONDS + 300)
    stop.set()
    thread.join()
    return result, samples


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
    import json
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
