"""Runs that are told to end, and runs whose script does not come back: results stay, nothing hangs, nothing is left."""
import os
import signal
import socket
import subprocess
import time

from harness import RELAXED, Server, eq, has, main, matches, simple_chat, slack, soon, wait_until

HEAD = """
local perigee = require "perigee"
local chat = require "perigee.chat"
"""


def plan(load, session):
    return HEAD + f"""
return perigee.plan {{
  load = {load},
  session = function(vu)
{session}
  end,
}}
"""


TURN = """
    local conv = chat.new(vu, {})
    conv:user("hello " .. vu.session)
    conv:send { max_tokens = 4 }
"""

# A function of a C library that never returns: no hook of Lua's can reach it there.
LIBRARY = """
#include <unistd.h>
typedef struct lua_State lua_State;
void lua_pushcclosure(lua_State *L, int (*fn)(lua_State *), int n);
static int block(lua_State *L) { (void)L; for (;;) pause(); }
int luaopen_stuck(lua_State *L) { lua_pushcclosure(L, block, 0); return 1; }
"""
STUCK = 'package.loadlib("./stuck.so", "luaopen_stuck")()()'


def make_library(work):
    if not os.path.exists(os.path.join(work.path, "stuck.so")):
        source = work.write("stuck.c", LIBRARY)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", os.path.join(work.path, "stuck.so"),
                        source], check=True)


def good(_request, c):
    simple_chat(c)


def start(work, server, script, *args):
    make_library(work)
    work.write("s.lua", script)
    return work.start("run", "s.lua", "--replica", server.url, "--model", "test-model", *RELAXED, *args)


def wait_for(work, text, process):
    """Until the script has written `text` into the file `mark`."""
    path = os.path.join(work.path, "mark")

    def seen():
        if not os.path.exists(path):
            return False
        with open(path, encoding="utf-8") as f:
            return text in f.read()

    wait_until(seen, process)


def mark(text):
    return f'do local f = io.open("mark", "a") f:write("{text} ") f:close() end '


def check(result, name):
    return next(c for c in result.summary["checks"] if c["name"] == name)


# One session of eight gets stuck after a while; 4 workers, so 2 of the users are on its thread.
ONE_STUCK = plan('perigee.closed { users = 8, duration = "60s" }', TURN + f"""
    vu:sleep(0.02)
    if vu.session == 17 then {mark("stuck")} {STUCK} end
""")


def ends_stuck(work, signals, timeout=30):
    with Server(good) as server:
        process = start(work, server, ONE_STUCK, "--workers", "4")
        wait_for(work, "stuck", process)
        wait_until(lambda: len(server.requests) > 50, process)  # the others go on
        begun = time.monotonic()
        for number in signals:
            process.send_signal(number)
            time.sleep(0.4)
        result = work.finish(process, timeout)
        result.seconds = time.monotonic() - begun
        assert not server.errors, server.errors[0]
        result.asked = len(server.requests)
    return result


def check_one_lost(work, result):
    """The rows of all workers are there, the lost one's sessions are incomplete, and the report says so."""
    rows, summary = result.rows, result.summary
    # The stuck thread's other user may have been waiting for a reply, which nobody reads any more: that one is lost.
    # And the server may not have read yet what was sent last, and was cut off by the end of the run.
    cut = sum(r["error"] == "incomplete" for r in rows)
    assert result.asked - 1 <= len(rows) <= result.asked + cut, f"{len(rows)} rows, {cut} cut off, of {result.asked} requests"
    assert len(rows) > 30, len(rows)
    lost = check(result, "lost_workers")
    eq((lost["ok"], lost["figure"]), (False, 1))
    has(lost["note"], "2 sessions ran there and count as incomplete")
    eq(summary["valid"], False)
    eq(summary["sessions"]["incomplete"], 8, "what the end of the run cut off, here and there: a session of each user")
    has(result.err, "the script stopped coming back: worker 1 of 4 has been in session 17 for ")
    matches(result.err, r"last seen waiting at s\.lua:\d+")
    has(result.report(), "lost_workers")
    assert os.path.exists(os.path.join(result.folder, "run.json"))


def test_stuck_worker_and_an_interrupt(work):
    result = ends_stuck(work, [signal.SIGINT])
    eq(result.status, 130, result.err)
    check_one_lost(work, result)
    assert 2.5 < result.seconds < 10 * slack(), result.seconds
    eq(result.summary["interrupted"], True)


def test_stuck_worker_and_the_other_signals(work):
    for number in (signal.SIGTERM, signal.SIGHUP):
        os.path.exists(os.path.join(work.path, "mark")) and os.remove(os.path.join(work.path, "mark"))
        result = ends_stuck(work, [number])
        eq(result.status, 130, result.err)
        check_one_lost(work, result)


def test_stuck_worker_and_two_interrupts(work):
    result = ends_stuck(work, [signal.SIGINT, signal.SIGINT])
    eq(result.status, 130, result.err)
    check_one_lost(work, result)
    assert result.seconds < 3 * slack(), f"the second one counts at once: {result.seconds}"


def run_stuck(work, script, *args, timeout=40):
    with Server(good) as server:
        result = work.finish(start(work, server, script, "--runaway", "200ms", *args), timeout)
        assert not server.errors, server.errors[0]
        result.asked = len(server.requests)
    return result


def test_stuck_worker_and_nobody_there(work):
    result = run_stuck(work, ONE_STUCK, "--workers", "4")
    eq(result.status, 1, result.err)
    check_one_lost(work, result)
    eq(result.summary["interrupted"], False)
    eq(result.summary["outcome"]["status"], 1)
    has(result.summary["outcome"]["reason"], "the script stopped coming back: worker 1 of 4")
    # Each session asks once. The request that was lost with the thread (check_one_lost) is all its session had, and the
    # last sessions of the users may have been cut off before they asked.
    ended = result.summary["sessions"]["ok"] + result.summary["sessions"]["incomplete"]
    without = ended - len({r["session"] for r in result.rows})
    assert max(0, result.asked - len(result.rows)) <= without <= 8, f"every session has an end: {without} without a row"


def test_bisect_maps_the_status_of_a_lost_run(work):
    result = run_stuck(work, plan("perigee.closed { users = 1, sessions = 1 }", STUCK), "--exit-codes", "bisect")
    eq(result.status, 125, result.err)


def test_stuck_in_each_phase(work):
    """Without a signal: the run fails and says in what it stood."""
    closed = "load = perigee.closed { users = 2, sessions = 4 },"
    scripts = {
        "the setup": f"{closed} setup = function(vu) vu:sleep(0.01) {STUCK} end, session = function(vu) end",
        "the teardown": f"{closed} session = function(vu) vu:sleep(0.01) end, teardown = function(vu) {STUCK} end",
        "loading the script": f"{closed} session = function(vu) end",
        "a __gc method, while its Lua state closes": f"{closed} session = function(vu) end",
    }
    for name, body in scripts.items():
        head = ""
        if name == "loading the script":  # the command reads it first, then each worker
            head = f'local f = io.open("again") if f then {STUCK} end io.open("again", "w"):close()\n'
        elif name.startswith("a __gc"):  # closing the pipe waits for the process
            head = 'if io.open("gc") then P = io.popen("exec sleep 15") end io.open("gc", "w"):close()\n'
        result = run_stuck(work, HEAD + head + f"return perigee.plan {{ {body} }}\n", "--workers", "2")
        eq(result.status, 1, name + result.err)
        has(result.err, "the script stopped coming back: worker ")
        has(result.err, f"of 2 has been in {name}")
        if name not in ("the setup", "loading the script"):
            eq(result.summary["sessions"]["ok"], 4, name)
            eq(check(result, "lost_workers")["ok"], False, name)


def test_an_interrupt_in_each_phase(work):
    closed = "load = perigee.closed { users = 2, sessions = 4 },"
    with Server(good) as server:
        for name, body in {
            "setup": f"{closed} setup = function(vu) {mark('setup')} {STUCK} end, session = function(vu) end",
            "teardown": f"{closed} session = function(vu) end, teardown = function(vu) {mark('teardown')} {STUCK} end",
        }.items():
            process = start(work, server, HEAD + f"return perigee.plan {{ {body} }}\n")
            wait_for(work, name, process)
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            result = work.finish(process, 30)
            eq(result.status, 130, name + result.err)
            soon(begun, 8, name)
            eq(result.summary["interrupted"], True, name)


def test_others_that_wait_for_the_stuck_one_end_too(work):
    """Shared data is built by one worker while the others wait: the builder is the culprit, the others end with it."""
    script = HEAD + f"""
local load = perigee.closed {{ users = 4, sessions = 4 }}
if io.open("again") then perigee.shared("corpus", function() {STUCK} return 1 end) end
io.open("again", "w"):close()
return perigee.plan {{ load = load, session = function(vu) end }}
"""
    result = run_stuck(work, script, "--workers", "4")
    eq(result.status, 1, result.err)
    matches(result.err, r"the script stopped coming back: worker \d of 4 has been in loading the script")


def test_what_nobody_measured_is_just_ended(work):
    """While the command itself reads a script, and in `perigee test` and `perigee lua`, there is nothing to lose."""
    make_library(work)
    work.write("load.lua", mark("load.lua") + STUCK)
    work.write("module.lua", mark("module.lua") + STUCK)
    work.write("required.lua", 'require "module"')
    work.write("spec.lua", mark("spec.lua") + STUCK)
    for args, seen in ((["run", "load.lua"], "load.lua"), (["run", "required.lua"], "module.lua"),
                       (["lua", "load.lua"], "load.lua"), (["test", "spec.lua"], "spec.lua")):
        for number, status in ((signal.SIGINT, (130, -2)), (signal.SIGTERM, (143, 130, -15))):
            path = os.path.join(work.path, "mark")
            os.path.exists(path) and os.remove(path)
            process = work.start(*args)
            wait_for(work, seen, process)
            begun = time.monotonic()
            process.send_signal(number)
            result = work.finish(process, 20)
            assert result.status in status, (args, result.status, result.err)
            soon(begun, 2.5, args)


def test_nothing_measured_yet_is_said(work):
    """A server that never answers: the commands that ask it before they measure end at once, with a word."""
    work.write("s.lua", plan("perigee.closed { users = 1, sessions = 1 }", TURN))
    for args in (["run", "s.lua", "--replica"], ["parity", "--tokenizer", "bytes", "--timeout", "50s"],
                 ["doctor", "--timeout", "50s"]):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with Server(lambda request, c: time.sleep(60), raw=True) as server:
                process = work.start(*args, server.url)
                wait_until(lambda: server.connections > 0, process)
                begun = time.monotonic()
                process.send_signal(number)
                result = work.finish(process, 20)
            eq((result.status, (result.err.splitlines() or [""])[-1]),
               (130, "perigee: interrupted before anything was measured"), (args, number))
            soon(begun, 2.5, args)


def test_the_fleet_of_a_lost_run_ends_too(work):
    make_library(work)
    work.write("s.lua", plan("perigee.closed { users = 1, sessions = 1 }", TURN + STUCK))
    process = work.start("run", "s.lua", "--runaway", "200ms", *RELAXED)
    children = []

    def has_child():  # the built-in fleet
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as f:
            children[:] = f.read().split()
        return bool(children)

    wait_until(has_child, process)
    result = work.finish(process, 40)
    eq(result.status, 1, result.err)
    for child in children:
        assert not os.path.exists(f"/proc/{child}"), "the fleet is still there"


def test_hangup_keeps_the_report(work):
    with Server(good) as server:
        process = start(work, server, plan('perigee.open { rate = 50, duration = "60s" }', TURN + mark("on")))
        wait_for(work, "on on on", process)
        process.send_signal(signal.SIGHUP)
        result = work.finish(process, 20)
        eq(result.status, 130, result.err)
        eq(result.summary["interrupted"], True)
        assert len(result.rows) >= 3


def test_a_signal_while_the_report_is_written_costs_nothing(work):
    """Judging the expectations is the first part of it: one of them waits until the signal has come."""
    work.write("s.lua", plan("perigee.closed { users = 1, sessions = 3 }", TURN).replace("session =", """
  expect = { function(summary)
    local f = io.open("mark", "w") f:write("judging") f:close()
    local till = os.time() + 20
    while not io.open("go") and os.time() < till do end
    return true
  end },
  session ="""))
    with Server(good) as server:
        process = work.start("run", "s.lua", "--replica", server.url, "--model", "test-model", "--runaway", "30s", *RELAXED)
        wait_for(work, "judging", process)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3 * slack())
        work.write("go", "")
        result = work.finish(process, 30)
    has(result.err, "the report is being written; once more ends it as it is")
    eq(result.status, 0, result.err)
    eq(result.summary["interrupted"], False)
    eq(result.summary["expectations"][0]["met"], True)


def test_a_double_interrupt_while_the_report_is_written(work):
    """What follows at once is the same wish; a second later it ends the command."""
    for pause, status in ((0.002, 0), (1.5, 130)):
        for name in ("mark", "go"):
            if os.path.exists(os.path.join(work.path, name)):
                os.unlink(os.path.join(work.path, name))
        work.write("s.lua", plan("perigee.closed { users = 1, sessions = 3 }", TURN).replace("session =", """
  expect = { function(summary)
    local f = io.open("mark", "w") f:write("judging") f:close()
    local till = os.time() + 20
    while not io.open("go") and os.time() < till do end
    return true
  end },
  session ="""))
        with Server(good) as server:
            process = work.start("run", "s.lua", "--replica", server.url, "--model", "test-model", "--runaway", "30s",
                                 *RELAXED)
            wait_for(work, "judging", process)
            process.send_signal(signal.SIGINT)
            time.sleep(pause)
            process.send_signal(signal.SIGINT)
            time.sleep(0.3 * slack())
            work.write("go", "")
            result = work.finish(process, 30)
        eq(result.status, status, result.err)
        if status == 0:
            eq(result.summary["expectations"][0]["met"], True)
            eq(sorted(os.listdir(result.folder)),
               ["log.txt", "report.md", "run.json", "samples.jsonl", "scripts", "summary.json", "values.jsonl"])


def test_a_run_ends_with_its_fleet(work):
    """The built-in fleet dies: the run ends, says why, and keeps what it has."""
    work.write("s.lua", plan('perigee.closed { users = 4, duration = "120s" }', TURN + mark("on") + "vu:sleep(0.05)"))
    process = work.start("run", "s.lua", "--sim", "1", *RELAXED)
    wait_for(work, "on on on on on", process)
    child = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True)
    os.kill(int(child.stdout), signal.SIGKILL)
    began = time.monotonic()
    result = work.finish(process, 30)
    soon(began, 10, "it went on")
    eq(result.status, 1, result.err)
    has(result.err, "the built-in fleet failed or ended before the run did (it ended by signal 9)")
    assert 0 < len(result.rows) < 12000, len(result.rows)


def test_users_of_a_server_that_is_gone_rest(work):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    work.write("s.lua", plan('perigee.closed { users = 2, duration = "2s" }', TURN))
    result = work.perigee("run", "s.lua", "--replica", f"http://127.0.0.1:{port}", "--model", "m", "--no-preflight", timeout=30)
    assert 2 <= len(result.rows) <= 60, len(result.rows)  # one in 100 ms and user
    assert all(row["error"] == "connect" for row in result.rows), result.rows[0]


def test_nohup_is_respected(work):
    with Server(good) as server:
        work.write("s.lua", plan('perigee.open { rate = 50, duration = "1500ms" }', TURN + mark("on")))
        process = work.start("run", "s.lua", "--replica", server.url, "--model", "test-model", *RELAXED,
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        wait_for(work, "on on", process)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGPIPE)
        result = work.finish(process, 20)
        eq(result.status, 0, result.err)
        eq(result.summary["interrupted"], False)


main(globals())
