"""Loads that no memory is enough for: they end in order, early, with what was taken and a reason."""
import os
import resource
import time

from harness import RELAXED, SANITIZED, Server, Skip, eq, has, main, matches, simple_chat, soon, wait_until

HEAD = 'local perigee = require "perigee"\n'

# Values come by the million, one row for each two hundred thousand.
MANY = HEAD + """
return perigee.plan {
  load = perigee.closed { users = 4, duration = "60s" },
  metrics = { x = "s" },
  session = function(vu)
    vu:http { path = "/v1/models" }
    for _ = 1, 100 do
      for i = 1, 2000 do vu:record("x", i) end
      vu:sleep(0.001)
    end
  end,
}
"""


def limit_memory(process, more_bytes):
    """So much more address space than the process has now."""
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as f:
        size = next(int(line.split()[1]) for line in f if line.startswith("VmSize")) * 1024
    resource.prlimit(process.pid, resource.RLIMIT_AS, (size + more_bytes, size + more_bytes))


def wait_for_rows(work, process, n):
    def there():
        folder = work.last_folder()
        if not folder or not os.path.exists(folder + "/samples.jsonl"):
            return False
        with open(folder + "/samples.jsonl", encoding="utf-8") as f:
            return sum(1 for _ in f) >= n

    wait_until(there, process)


def test_out_of_memory_keeps_the_results(work):
    if SANITIZED:
        raise Skip("a sanitizer needs address space without end")
    work.write("s.lua", MANY)
    with Server(lambda request, c: simple_chat(c)) as server:
        process = work.start("run", "s.lua", "--replica", server.url, "--model", "test-model", "--workers", "2", *RELAXED)
        wait_for_rows(work, process, 4)
        limit_memory(process, 120 << 20)
        result = work.finish(process, 60)
    eq(result.status, 1, result.err)
    has(result.err, "out of memory (4 sessions alive, ")
    has(result.summary["outcome"]["reason"], "the run was ended while what it had taken could be kept")
    assert result.summary["values"] >= 200000, result.summary["values"]
    assert len(result.rows) >= 4
    eq(result.summary["sessions"]["incomplete"], 4)
    has(result.report(), "out of memory")
    eq(result.run["interrupted"], False)


def test_more_sessions_than_may_be_alive_end_the_run(work):
    work.write("s.lua", HEAD + """
return perigee.plan {
  load = perigee.open { rate = 2000, arrival = "constant", duration = "60s" },
  session = function(vu) vu:sleep(60) end,
}
""")
    with Server(lambda request, c: simple_chat(c)) as server:
        begun = time.monotonic()
        result = work.perigee("run", "s.lua", "--replica", server.url, "--model", "test-model", "--max-users", "500",
                              "--workers", "2", *RELAXED)
        took = time.monotonic() - begun
        soon(begun, 20)
    eq(result.status, 1, result.err)
    has(result.err, "more than 500 sessions are alive at once (--max-users)")
    # No more than arrive in that time, however late the run's end was noticed.
    assert 500 < result.summary["sessions"]["incomplete"] < 2000 * took, (took, result.summary["sessions"])
    eq(result.summary["sessions"]["ok"], 0)
    assert result.run["window"]["end_ns"] < 20e9


def test_a_client_that_does_not_keep_up_says_so_early_and_stays_small(work):
    work.write("s.lua", HEAD + """
return perigee.plan {
  load = perigee.open { rate = 1000000, arrival = "constant", duration = "2s" },
  drain = "100ms",
  session = function(vu) local n = 0 for i = 1, 2000 do n = n + i end end,
}
""")
    with Server(lambda request, c: simple_chat(c)) as server:
        process = work.start("run", "s.lua", "--replica", server.url, "--model", "test-model", "--workers", "1")
        most = 0
        while process.poll() is None:
            try:
                with open(f"/proc/{process.pid}/status", encoding="utf-8") as f:
                    most = max([most] + [int(line.split()[1]) for line in f if line.startswith("VmRSS")])
            except OSError:
                break
            time.sleep(0.02)
        result = work.finish(process, 60)
    eq(result.status, 98, result.err)
    matches(result.err, r"the client does not keep up with the load: session=\d+ began [1-5]\.\d s after it was due")
    matches(result.err, r"\d+ sessions were due and never began")
    schedule = next(c for c in result.summary["checks"] if c["name"] == "schedule_lag_p99")
    eq(schedule["ok"], False)
    if not SANITIZED:
        assert most < 400 * 1024, f"{most >> 10} MiB for sessions that end at once"


main(globals())
