"""The engine from outside: loads with counts known in advance, windows, drain, interruption, connections, classes."""
import json
import os
import signal
import time

from harness import RELAXED, Server, chat_chunk, eq, has, main, near, simple_chat, slack, soon, wait_until

HEAD = """
local perigee = require "perigee"
local chat = require "perigee.chat"
"""


def plan(load, session, more=""):
    return HEAD + f"""
return perigee.plan {{
  load = {load},
  session = function(vu)
{session}
  end,
{more}
}}
"""


TURN = """
    local conv = chat.new(vu, {})
    conv:user("hello " .. vu.session)
    conv:send { max_tokens = 4 }
"""


MARK = 'io.open("mark", "w"):close()'


def run(work, server, script, *args, timeout=60):
    work.write("s.lua", script)
    result = work.perigee("run", "s.lua", "--replica", server.url, "--model", "test-model", *RELAXED, *args,
                          timeout=timeout)
    assert not server.errors, server.errors[0]
    assert result.folder, f"no results: {result.err}"
    return result


def good(_request, c):
    simple_chat(c)


def test_closed_load_of_sessions(work):
    with Server(good) as server:
        for workers in ("1", "3"):
            result = run(work, server, plan("perigee.closed { users = 5, sessions = 23 }", TURN), "--workers", workers)
            rows = result.rows
            eq(len(rows), 23)
            eq(sorted(r["session"] for r in rows), list(range(23)))
            eq(result.summary["requests"]["ok"], 23)
            eq(result.status, 0, result.err)


def test_open_load_keeps_its_schedule(work):
    """50 constant arrivals a second for 2 s are 100 sessions, each due at k/50 s."""
    with Server(good) as server:
        result = run(work, server, plan('perigee.open { rate = 50, arrival = "constant", duration = "2s" }', TURN))
        rows = sorted(result.rows, key=lambda r: r["session"])
        eq(len(rows), 100)
        first = rows[0]["t"]["sched"]
        for k, row in enumerate(rows):
            near((row["t"]["sched"] - first) / 1e9, k / 50, 1e-6, f"session {k}")
            assert row["t"]["start"] >= row["t"]["sched"]


def test_poisson_arrivals_are_the_seed_s(work):
    with Server(good) as server:
        script = plan('perigee.open { rate = 100, duration = "1s" }', TURN)
        schedules = []
        for args in (("--seed", "5", "--workers", "1"), ("--seed", "5", "--workers", "4"), ("--seed", "6")):
            rows = sorted(run(work, server, script, *args).rows, key=lambda r: r["session"])
            base = rows[0]["t"]["sched"]
            schedules.append([r["t"]["sched"] - base for r in rows])
        eq(schedules[0], schedules[1], "same seed, other workers")
        assert schedules[0] != schedules[2], "another seed is another schedule"
        assert 60 < len(schedules[0]) < 140, len(schedules[0])


def test_stall_is_charged_to_the_session_arrival(work):
    """The server holds everything for its first second; in open load latency counts from the schedule."""
    t0 = [None]

    def handler(_request, c):
        if t0[0] is None:
            t0[0] = time.monotonic()
        time.sleep(max(0, t0[0] + 1 - time.monotonic()))
        simple_chat(c)

    with Server(handler) as server:
        result = run(work, server, plan('perigee.open { rate = 50, arrival = "constant", duration = "2s" }', TURN))
        metrics = result.summary["metrics"]
        # of 100 requests, those due in the first second wait the rest of it: on average a quarter second over all
        mean = metrics["ttft_sched"]["mean"]
        assert 0.24 < mean < 0.25 + 0.06 * slack(), mean
        eq(metrics["ttft_sched"]["n"], 100)


def test_warm_up_is_not_in_the_numbers(work):
    with Server(good) as server:
        result = run(work, server,
                     plan('perigee.open { rate = 40, arrival = "constant", warmup = "1s", duration = "1s" }', TURN))
        eq(len(server.requests), 80, "requests sent")
        eq(result.summary["metrics"]["ttft"]["n"], 40, "measured")
        eq(result.summary["requests"]["ok"], 40)


def test_a_closed_load_of_sessions_drains_after_the_last_has_begun(work):
    """Twelve sessions of half a second by two users take three seconds, whatever the drain is."""
    with Server(lambda _, c: simple_chat(c)) as server:
        for workers in ("1", "2"):
            script = plan("perigee.closed { users = 2, sessions = 12 }", "    vu:sleep(0.5)" + TURN, '  drain = "1s",')
            result = run(work, server, script, "--workers", workers)
            eq(result.status, 0, result.out)
            eq(result.summary["sessions"]["ok"], 12, workers)
            eq(result.summary["requests"]["ok"], 12, workers)


def test_an_expectation_s_long_text_and_lists_of_negative_length(work):
    with Server(lambda _, c: simple_chat(c)) as server:
        script = plan("perigee.closed { users = 1, sessions = 2 }", TURN,
                      '  expect = { function() return true, ("é"):rep(50000) end, function() return true, "short" end },')
        result = run(work, server, script)
        eq(result.status, 0, result.out)
        texts = [e["reason"] for e in result.summary["expectations"]]
        eq(texts, ["é" * 2000 + "…", "short"])
        script = plan("perigee.closed { users = 1, sessions = 2 }",
                      "    vu:all(setmetatable({}, { __len = function() return -1 end }), function() end)", '  drain = "1s",')
        result = run(work, server, script, timeout=20)
        has(result.err, "vu:all: a list of 0 to 1000000 items is expected, this one says it has -1")
        eq(result.summary["sessions"]["failed"], 2)


def test_drain_ends_what_hangs_as_incomplete(work):
    def handler(request, c):
        if request.number % 2:
            c.headers()
            time.sleep(300)
        else:
            simple_chat(c)

    with Server(handler) as server:
        start = time.monotonic()
        result = run(work, server, plan('perigee.open { rate = 10, arrival = "constant", duration = "1s" }', TURN,
                                        '  drain = "2s",'))
        soon(start, 8)
        eq(sorted(str(r["error"]) for r in result.rows), ["None"] * 5 + ["incomplete"] * 5)
        eq(result.summary["requests"]["incomplete"], 5)
        eq(result.summary["requests"]["failed"], 0)


def interrupt(work, server, script, requests, signals=1):
    """Ctrl-C when the server has so many requests, or with requests=None when the script has made the file `mark`."""
    mark = os.path.join(work.path, "mark")
    if os.path.exists(mark):
        os.remove(mark)
    work.write("s.lua", script)
    process = work.start("run", "s.lua", "--replica", server.url, "--model", "test-model")
    wait_until(lambda: os.path.exists(mark) if requests is None else len(server.requests) >= requests, process)
    time.sleep(0.7)
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    start = time.monotonic()
    result = work.finish(process, 30)
    soon(start, 5, "an interrupted run ends soon")
    return result


def test_ctrl_c_keeps_what_was_taken(work):
    with Server(good) as server:
        result = interrupt(work, server, plan('perigee.open { rate = 50, duration = "60s" }', TURN), 40)
        eq(result.status, 130, result.err)
        eq(result.summary["interrupted"], True)
        rows = result.rows
        assert len(rows) > 30, len(rows)
        eq(result.summary["requests"]["ok"], sum(r["error"] is None for r in rows))
        has(result.report().lower(), "interrupted")
        for name in ("run.json", "summary.json", "samples.jsonl", "report.md", "log.txt"):
            assert os.path.exists(os.path.join(result.folder, name)), name


def test_ctrl_c_in_every_phase(work):
    """During set-up, in the warm-up, in the drain: files complete, status 130, nothing hangs."""
    phases = {
        "set-up": ('perigee.open { rate = 5, duration = "30s" }', f"  setup = function(vu) {MARK} vu:sleep(100) end,"),
        "warm-up": ('perigee.open { rate = 5, duration = "60s", warmup = "60s" }', ""),
        "drain": ('perigee.open { rate = 50, duration = "500ms" }', '  drain = "100s",'),
    }
    for name, (load, more) in phases.items():
        session = f"    {MARK} vu:sleep(100)\n" if name == "drain" else TURN
        with Server(good) as server:
            result = interrupt(work, server, plan(load, session, more), 3 if name == "warm-up" else None)
            eq(result.status, 130, f"{name}: {result.err}")
            eq(result.summary["interrupted"], True, name)
            result.rows  # every line is whole
            has(result.report().lower(), "interrupted", name)


def test_ctrl_c_during_long_requests(work):
    def handler(_request, c):
        c.headers()
        time.sleep(300)

    with Server(handler) as server:
        result = interrupt(work, server, plan("perigee.closed { users = 4, sessions = 4 }", TURN), 4, signals=2)
        eq(result.status, 130)
        eq({r["error"] for r in result.rows}, {"incomplete"}, "the end of the run cut them off; no script cancelled")
        eq(result.summary["requests"]["incomplete"], 4)
        eq(result.summary["as_infinity"]["ttft"]["incomplete"], 4)
        note = next(c["note"] for c in result.summary["checks"] if c["name"] == "incomplete_requests")
        has(note, "cut off 4 of 4")


def test_reconnects_when_the_server_closed_an_idle_connection(work):
    """The server says keep-alive and closes 100 ms after its answer; the client comes back when it has."""
    def handler(request, c):
        simple_chat(c)
        time.sleep(0.1)
        c.close()
        work.write(f"closed{request.number + 1}", "")

    session = """
    local conv = chat.new(vu, {})
    for turn = 1, 3 do
      conv:user("hello")
      conv:send { max_tokens = 4 }
      repeat vu:sleep(0.1) local f = io.open("closed" .. turn) until f
    end
"""
    with Server(handler) as server:
        result = run(work, server, plan("perigee.closed { users = 1, sessions = 1 }", session))
        rows = result.rows
        eq([r["error"] for r in rows], [None] * 3)
        eq([r["reused_connection"] for r in rows], [False] * 3)
        eq(server.connections, 3 + 1, "three, and the probe's")


def test_keep_alive_is_used(work):
    session = """
    local conv = chat.new(vu, {})
    for _ = 1, 10 do
      conv:user("hello")
      conv:send { max_tokens = 4 }
    end
"""
    with Server(good) as server:
        result = run(work, server, plan("perigee.closed { users = 2, sessions = 2 }", session), "--workers", "1")
        eq(len(result.rows), 20)
        eq(sum(not r["reused_connection"] for r in result.rows), 2)


def classes(work, handler, session=None, sessions=1, *args):
    with Server(handler) as server:
        script = plan(f"perigee.closed {{ users = 1, sessions = {sessions} }}", session or TURN)
        result = run(work, server, script, *args)
        return [r["error"] for r in result.rows], result, server


def test_http_statuses(work):
    answers = [("429 Too Many Requests", "http_429"), ("404 Not Found", "http_4xx"), ("400 Bad Request", "http_4xx"),
               ("500 Internal Server Error", "http_5xx"), ("503 Service Unavailable", "http_5xx")]

    def handler(request, c):
        status = answers[request.number][0]
        c.reply({"error": {"message": "because of " + status, "type": "x", "code": int(status[:3])}}, status,
                extra="Retry-After: 1\r\n")

    errors, result, server = classes(work, handler, sessions=5)
    eq(errors, [c for _, c in answers])
    eq([r["status"] for r in result.rows], [429, 404, 400, 500, 503])
    eq(len(server.requests), 5, "no hidden retry")
    has(result.out, "because of 429")
    eq(result.status, 99, "status")


def test_not_sse(work):
    errors, _, _ = classes(work, lambda r, c: c.reply("<html>busy</html>", content_type="text/html"))
    eq(errors, ["not_sse"])


def test_reset_in_mid_stream(work):
    def handler(_request, c):
        c.headers()
        c.event(chat_chunk({"content": "x"}))
        time.sleep(0.05)
        c.reset()

    errors, _, _ = classes(work, handler)
    eq(errors, ["reset"])


def test_timeouts(work):
    def first_byte(_request, c):
        time.sleep(1.5)
        simple_chat(c)

    def idle(_request, c):
        c.headers()
        c.event(chat_chunk({"content": "x"}))
        time.sleep(1.5)
        c.end()

    def endless(_request, c):
        c.headers()
        for _ in range(40):
            c.event(chat_chunk({"content": "x"}))
            time.sleep(0.05)
        c.end()

    send = TURN.replace("max_tokens = 4", "max_tokens = 4, timeout = %s")
    eq(classes(work, first_byte, send % '{ first_byte = "300ms" }')[0], ["timeout_first_byte"])
    eq(classes(work, idle, send % '{ idle = "300ms" }')[0], ["timeout_idle"])
    eq(classes(work, endless, send % '{ total = "600ms" }')[0], ["timeout_total"])
    eq(classes(work, endless, send % '"600ms"')[0], ["timeout_total"])


def test_a_script_error_is_one_session_s(work):
    session = TURN + "    if vu.session == 3 then error('boom at ' .. vu.session) end\n"
    with Server(good) as server:
        result = run(work, server, plan("perigee.closed { users = 2, sessions = 10 }", session))
        eq(len(result.rows), 10, "the others go on")
        text = result.out + result.report()
        has(text, "boom at 3")
        has(text, "s.lua:")


def test_a_mistake_shows_at_once_and_does_not_spin(work):
    """Every session fails at its first line: said while the run goes on, a few sessions a second, not thousands."""
    script = plan('perigee.closed { users = 2, duration = "1s" }', "    vu:slep(1)\n")
    with Server(good) as server:
        result = run(work, server, script)
        eq(result.status, 2)
        has(result.err, "did you mean 'sleep'")
        has(result.err, "s.lua:")
        eq(result.err.count("level=error"), 1, "said once")
        n = result.summary["sessions"]["failed"]
        assert 2 <= n <= 40, n


def test_script_values_and_checks(work):
    session = TURN + """
    vu:record("size", vu.session * 2)
    vu:check("even", vu.session % 2 == 0)
"""
    with Server(good) as server:
        result = run(work, server, plan("perigee.closed { users = 2, sessions = 10 }", session,
                                        '  metrics = { size = "bytes" },\n  expect = { "size max >= 18", "size mean < 10" },'))
        eq(result.summary["metrics"]["size"]["n"], 10)
        near(result.summary["metrics"]["size"]["mean"], 9, 1e-12)
        eq(result.summary["script_checks"]["even"], {"passed": 5, "failed": 5})


def test_expectations_decide_the_status(work):
    with Server(good) as server:
        met = plan("perigee.closed { users = 4, sessions = 100 }", TURN, '  expect = { "failed share < 1%" },')
        eq(run(work, server, met).status, 0)
        unmet = met.replace("failed share < 1%", "ttft p50 < 1us")
        result = run(work, server, unmet)
        eq(result.status, 99)
        eq(result.summary["expectations"][0]["met"], False)
        few = plan("perigee.closed { users = 1, sessions = 10 }", TURN, '  expect = { "ttft p99 < 10s" },')
        result = run(work, server, few)
        eq(result.status, 99, "too few samples is not met")
        has(json.dumps(result.summary["expectations"][0]["reason"]), "500")
        eq(run(work, server, unmet, "--exit-codes=bisect").status, 1)


def test_all_failed_without_expectations(work):
    _, result, _ = classes(work, lambda r, c: c.reply({"error": {"message": "no"}}, "500 x"), sessions=10)
    eq(result.status, 99, "status")


def test_keys_are_sent_and_never_kept(work):
    secret = "sk-very-secret-key-123"
    with Server(good) as server:
        work.write("s.lua", plan("perigee.closed { users = 1, sessions = 2 }", TURN))
        result = work.perigee("run", "s.lua", "--replica", server.url, "--model", "test-model", "--api-key-env", "MY_KEY",
                              "--header", "X-Token: other-secret-456", env={"MY_KEY": secret})
        assert server.requests[0].headers["authorization"] == f"Bearer {secret}"
        assert server.requests[0].headers["x-token"] == "other-secret-456"
        for name in os.listdir(result.folder):
            path = os.path.join(result.folder, name)
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    data = f.read()
                assert secret.encode() not in data and b"other-secret-456" not in data, name
        assert secret not in result.out + result.err


def test_plain_lines_when_not_a_terminal(work):
    with Server(good) as server:
        result = run(work, server, plan('perigee.open { rate = 20, duration = "3s" }', TURN))
        assert "\r" not in result.out + result.err and "\x1b" not in result.out + result.err


def test_json_output(work):
    with Server(good) as server:
        result = run(work, server, plan("perigee.closed { users = 1, sessions = 3 }", TURN), "--json")
        eq(json.loads(result.out)["requests"]["ok"], 3)


def test_what_a_script_prints_is_kept(work):
    session = TURN + '    vu:log("session", vu.session)\n    print("printed by", vu.session)\n'
    with Server(good) as server:
        result = run(work, server, plan("perigee.closed { users = 1, sessions = 3 }", session))
        with open(os.path.join(result.folder, "log.txt"), encoding="utf-8") as f:
            log = f.read()
        for k in range(3):
            has(log, f"printed by\t{k}\n")
            has(log, f"session {k}" if f"session {k}" in log else f"session\t{k}")
            has(result.err, f"printed by\t{k}\n")


def test_scripts_are_copied_whole(work):
    work.write("lib/helper.lua", "return { n = 3 }\n")
    script = "require 'helper'\n" + plan("perigee.closed { users = 1, sessions = 1 }", TURN)
    with Server(good) as server:
        result = run(work, server, script)
        found = {name for _, _, files in os.walk(result.folder) for name in files}
        assert {"s.lua", "helper.lua"} <= found, found
        hashes = json.dumps(result.run)
        has(hashes, "helper.lua")


main(globals())
