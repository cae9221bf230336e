"""The command line itself: help, versions, statuses, standard descriptors, and the fleet's child process."""
import glob
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

from harness import PERIGEE, RELAXED, SANITIZED, eq, has, main, matches, one_turn, slack, wait_until

# What the binary itself says that there is: a new command is tested by being there.
COMMANDS = re.findall(r"(?m)^  ([a-z]+)  ", subprocess.run([PERIGEE, "--help"], capture_output=True, text=True, check=True).stdout)
COMMANDS.remove("help")


def test_help_in_every_form(work):
    for args in ((), ("",)):
        result = work.perigee(*args)
        eq(result.status, 2, f"perigee {args}")
        has(result.err, "Usage: perigee COMMAND")
        eq(result.out, "")
    assert {"run", "sim", "list", "new", "types", "lua", "test"} <= set(COMMANDS), COMMANDS
    for args in (("--help",), ("-h",), ("help",), ("help", "help"), ("help", "--help")):
        result = work.perigee(*args)
        eq((result.status, result.err), (0, ""), f"perigee {args}")
        has(result.out, "Usage: perigee COMMAND")
    for command in COMMANDS:
        forms = [work.perigee(*args).out for args in ((command, "--help"), (command, "-h"), ("help", command))]
        matches(forms[0], rf"(?i)usage: perigee {command}")
        eq(forms[1], forms[0], f"perigee {command} -h")
        eq(forms[2], forms[0], f"perigee help {command}")


def test_unknown_commands_name_the_nearest(work):
    for word, near in (("rum", "run"), ("hlep", "help"), ("lists", "list"), ("--versoin", None), ("nosuch", None)):
        for args in ((word,), ("help", word)):
            result = work.perigee(*args)
            eq(result.status, 2, word)
            has(result.err, word)
            has(result.err, "perigee --help")
            if near:
                has(result.err, f'did you mean "{near}"?')


def test_options_of_other_commands(work):
    for args, says in ((("sim", "--sim", "3"), "--sim (did you mean --replicas N?)"), (("sim", "--sim-set", "a=b"), "(did you mean --set KEY=VALUE?)"),
                       (("run", "x", "--replicas", "4"), "(did you mean --sim N?)"), (("dry", "x", "--kv-events"), "(did you mean --sim-set kv_events=on?)"),
                       (("dry", "x", "--duration", "5s"), "(did you mean --set duration=TIME?)")):
        result = work.perigee(*args)
        eq(result.status, 2)
        has(result.err, says)
    has(work.perigee("calibrate", "-o", "x.lua", "nowhere").err, "nowhere: is this the folder of a run?")
    lines = work.perigee("run", "--help").out.splitlines()
    over = next(line for line in lines if line.startswith("  --over"))
    eq(over.index("of a sweep"), next(line for line in lines if line.startswith("  --set ")).index("a parameter"))


def test_scenarios_by_name(work):
    work.write("scenarios/tuning.lua", one_turn())
    for name in ("tuning", "tuning.lua", "scenarios/tuning", "scenarios/tuning.lua"):
        eq(work.perigee("run", name, "--plan").status, 0, name)
    for name, near in (("tunning", " (did you mean tuning?)"), ("./tunig.lua", " (did you mean tuning?)"), ("zzzzzz", "")):
        result = work.perigee("run", name)
        eq(result.status, 2)
        has(result.err, f"there is no file {name} and no scenario of that name{near or ' in ., scenarios, '}")
        has(result.err, "see `perigee list`" if near else "/scenarios; PERIGEE_PATH=DIR names further folders")


def test_shipped_scenarios_from_any_folder(work):
    """Beside the binary: in the tree that it was built in, and where `make install` puts them."""
    from harness import ROOT
    elsewhere = os.path.join(work.path, "elsewhere")
    os.makedirs(elsewhere)
    for tree, binary, scenarios in (("tree", "build/perigee", "scenarios"), ("prefix", "bin/perigee", "share/perigee/scenarios")):
        binary, scenarios = os.path.join(work.path, tree, binary), os.path.join(work.path, tree, scenarios)
        os.makedirs(os.path.dirname(binary))
        shutil.copy(PERIGEE, binary)
        shutil.copytree(os.path.join(ROOT, "scenarios"), scenarios)

        def command(*args, folder=elsewhere):
            return subprocess.run([binary, *args], cwd=folder, capture_output=True, text=True, check=False, timeout=60)

        for name in os.listdir(scenarios):
            if name.endswith(".lua"):
                done = command("run", name[:-4], "--plan")
                eq((done.returncode, done.stderr), (0, ""), name)
                has(done.stdout, os.path.join(scenarios, name) + ": ")
                has(command("list").stdout, os.path.join(scenarios, name) + "  ")
        done = command("run", "chat_multi_trun")
        eq(done.returncode, 2)
        has(done.stderr, "(did you mean chat_multi_turn?)")
        if tree == "tree":
            listed = command("list", folder=os.path.join(work.path, tree)).stdout
            eq(listed.count("chat_multi_turn"), 1, "what is found first hides the other")


def test_perigee_path_has_scenarios(work):
    work.write("mine/own_one.lua", one_turn())
    for path in ("mine", "nosuch:mine", "mine/?.lua;nosuch"):
        eq(work.perigee("run", "own_one", "--plan", env={"PERIGEE_PATH": path}).status, 0, path)
        has(work.perigee("list", env={"PERIGEE_PATH": path}).out, "mine/own_one.lua")


def test_lua_from_a_pipe_fails_with_its_script(work):
    for text, status, said in (('error("x")\n', 1, "stdin:1: x"), ("x = = 1\n", 1, "unexpected symbol"), ("print(1 + 1)\n", 0, ""),
                               ('error("x")\nprint("goes on")\n', 1, "stdin:1: x")):
        done = subprocess.run([PERIGEE, "lua"], cwd=work.path, input=text, capture_output=True, text=True, check=False, timeout=60)
        eq(done.returncode, status, text)
        has(done.stderr, said)
    eq(done.stdout, "goes on\n")


def test_version_names_the_libraries(work):
    for args in (("--version",), ("-V",), ("version",)):
        result = work.perigee(*args)
        eq(result.status, 0)
        matches(result.out, r"^perigee \d+\.\d+\.\d+\S* \(\S+\)\n")
        for name in ("libcurl 7", "OpenSSL ", "libuv 1", "llhttp ", "Lua 5.4"):
            has(result.out, name)


def test_a_full_standard_output(work):
    """Every command that prints ends with 1 and says why; wrong usage stays wrong usage."""
    work.write("s.lua", one_turn())
    work.write("p.lua", "print(('x'):rep(100000))")
    work.write("demo_spec.lua", "return { test_one = function() end }")
    with open("/dev/full", "w", encoding="utf-8") as full:
        for args in (("--help",), ("--version",), ("help", "run"), *((c, "--help") for c in COMMANDS), ("list",),
                     ("lua", "p.lua"), ("sim",), ("sim", "--announce"), ("run", "s.lua", "--plan"), ("run", "s.lua", *RELAXED),
                     ("run", "s.lua", *RELAXED, "--json")):
            done = subprocess.run([PERIGEE, *args], cwd=work.path, stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            eq(done.returncode, 1, f"{args}: {done.stderr}")
            has(done.stderr, "standard output", str(args))
            eq(done.stderr.count("standard output"), 1, f"{args}: said once")
        done = subprocess.run([PERIGEE, "run", "s.lua", "--json", "--exit-codes=bisect", *RELAXED], cwd=work.path,
                              stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        eq(done.returncode, 125, "a report that could not be printed is no verdict")


def test_a_reader_that_has_gone(work):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([PERIGEE, "--help"], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    eq((done.returncode, done.stderr), (0, ""))


def test_closed_standard_descriptors(work):
    """What is meant for the terminal never lands in a file of the run; a report that nobody could get is a failure."""
    work.write("s.lua", one_turn(2, 4).replace("conv:try_send", "print('said') conv:try_send"))

    def close(*fds):
        def act():
            for fd in fds:
                os.close(fd)
        return act

    for fds in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)):
        done = subprocess.run([PERIGEE, "run", "s.lua", *RELAXED, "--out", "o" + "".join(map(str, fds))], cwd=work.path,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              preexec_fn=close(*fds), timeout=60, check=False)
        eq(done.returncode, 1 if 1 in fds else 0, f"closed: {fds}")
        base = os.path.join(work.path, "o" + "".join(map(str, fds)))
        folder = os.path.join(base, os.listdir(base)[0])
        with open(os.path.join(folder, "log.txt"), encoding="utf-8") as f:
            log = f.read()
        eq(sorted(set(re.sub(r"(?m)^\[\d+\.\d{3}\] ", "", log).split("\n"))), ["", "said"], f"closed: {fds}: log.txt")
        with open(os.path.join(folder, "samples.jsonl"), encoding="utf-8") as f:
            rows = f.read().splitlines()
        eq(len(rows), 4, f"closed: {fds}")
        assert all(row.startswith("{") for row in rows), rows


def test_too_few_descriptors_for_anything(work):
    work.write("s.lua", one_turn())
    for n in (4, 5, 6, 7, 8, 12, 20):
        def limit(n=n):
            resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))

        for args in (("run", "s.lua"), ("sim",), ("run", "s.lua", "--replica", "http://127.0.0.1:1", "--model", "m")):
            result = work.finish(work.start(*args, preexec_fn=limit), 30)
            eq(result.status, 1, f"{args} with {n} descriptors: {result.err}")
            has(result.err, "ulimit -n")


# ---- exit statuses for git bisect ----

def test_bisect_maps_every_way_out(work):
    work.write("s.lua", one_turn())
    work.write("bad.lua", "local x = = 3")
    work.write("setup.lua", one_turn().replace("  session =", "  setup = function() error 'no set-up' end,\n  session ="))
    work.write("unmet.lua", one_turn(1, 2).replace("  session =", '  expect = { "ttft p50 < 1ns" },\n  session ='))
    invalid = ("run", "s.lua", "--limit", "loop_lag_p99=0")
    cases = [
        (("run", "s.lua", *RELAXED), 0, 0),
        (("run", "nothing.lua"), 2, 125),
        (("run", "bad.lua"), 2, 125),
        (("run", "s.lua", "--replica", "http://127.0.0.1:1", "--model", "m"), 1, 125),
        (("run", "setup.lua", *RELAXED), 1, 125),
        (("run", "s.lua", "--nosuch"), 2, 125),
        (("run", "s.lua", "--seed", "x"), 2, 125),
        (("run", "s.lua", "--limit", "nosuch=1"), 2, 125),
        (("run", "s.lua", "--profile", "nosuch"), 2, 125),
        (("run",), 2, 125),
        (("run", "s.lua", "--out", "/proc/nosuch"), 1, 125),
        (invalid, 98, 125),
        (("run", "unmet.lua", *RELAXED), 99, 1),
        (("run", "--help"), 0, 0),
    ]
    for args, plain, mapped in cases:
        result = work.perigee(*args)
        eq(result.status, plain, f"{args}: {result.err}")
        for form in (("--exit-codes=bisect",), ("--exit-codes", "bisect")):
            result = work.perigee(*args, *form)
            eq(result.status, mapped, f"{args} {form}: {result.err}")
    eq(work.perigee("run", "--exit-codes=bisect", "--nosuch", "s.lua").status, 125)
    eq(work.perigee("run", "s.lua", "--exit-codes=bisekt").status, 2)
    eq(work.perigee("run", "s.lua", "--exit-codes").status, 2)
    eq(work.perigee("run", "nothing.lua", "--", "--exit-codes=bisect").status, 2, "behind -- it is a file")


def test_bisect_keeps_an_interruption(work):
    work.write("s.lua", one_turn(1, 1).replace("conv:try_send { max_tokens = 16 }", "vu:sleep(60)"))
    process = work.start("run", "s.lua", "--exit-codes=bisect")
    wait_until(work.last_folder, process)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    eq(work.finish(process, 30).status, 130)


# ---- the child ----

def fleets(word):
    """Processes of the built-in fleet whose command line has this word."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    line = f.read()
            except OSError:
                continue
            if b"sim\0--announce" in line and word.encode() in line:
                found.append(pid)
    return found


def test_no_fleet_outlives_a_killed_run(work):
    """Killed at any moment of its start, by either signal, a run leaves no process behind."""
    work.write("s.lua", one_turn(1, 1).replace("conv:try_send { max_tokens = 16 }", "vu:sleep(60)"))
    word = f"orphan-{os.getpid()}"
    rng = random.Random(1)
    for number in (signal.SIGKILL, signal.SIGINT):
        for _ in range(20 if SANITIZED else 100):
            process = subprocess.Popen([PERIGEE, "run", "s.lua", "--model", word], cwd=work.path,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(rng.uniform(0, 0.08) * (5 if SANITIZED else 1))
            process.send_signal(number)
            process.wait(20)
    deadline = time.monotonic() + 10
    while fleets(word) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = fleets(word)
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    eq(left, [], "left behind")


def test_until_eof(work):
    process = subprocess.Popen([PERIGEE, "sim", "--replicas", "1", "--announce", "--until-eof"], cwd=work.path,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    has(process.stdout.readline(), '"replicas"')
    process.stdin.write("skipped\n")
    process.stdin.flush()
    time.sleep(0.2)
    eq(process.poll(), None, "goes on while the pipe is open")
    process.stdin.close()
    eq(process.wait(10 * slack()), 0)
    eq(process.stderr.read(), "")


# ---- perigee sim ----

def test_sim_refuses(work):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        cases = [
            (("--port", str(port), "--replicas", "1"), 1, f"replica r0: 127.0.0.1:{port} is in use"),
            (("--admin-port", str(port), "--replicas", "1"), 1, f"admin port: 127.0.0.1:{port} is in use"),
            (("--port", "45680", "--admin-port", "45682"), 2, "admin port 45682 is that of replica r2"),
            (("--port", "65535", "--replicas", "2"), 2, "beyond 65535"),
            (("--port", "65536"), 2, "--port: "), (("--port", "-1"), 2, "--port: "), (("--port", "x"), 2, "--port: "),
            (("--host", "localhost"), 2, "--host: "), (("--host", "256.1.1.1"), 2, "--host: "),
            (("--host", "203.0.113.77"), 1, "203.0.113.77"),
            (("--replicas", "0"), 2, "--replicas: "), (("--replicas", "1e9"), 2, "--replicas: "),
            (("--profile", "tinny"), 2, "did you mean tiny?"), (("--profile", "nosuch"), 2, "there are llama-3.1-8b"),
            (("--set", "kv_blocks=0"), 2, "kv_blocks=0: a whole number from 1 to"), (("--set", "kv_block=3"), 2, "kv_blocks"),
            (("--set", "kv_blocks"), 2, "key=value"),
            (("--truth", "/nosuch/x"), 1, "/nosuch/x"), (("--truth", "."), 1, "Is a directory"),
            (("--fault", "emty"), 2, "did you mean empty?"), (("--fault", "r9:empty"), 2, "r0 to r2"),
            (("--seed", "-1"), 2, "--seed: "), (("extra",), 2, "too many arguments"), (("--model", ""), 2, "--model: "),
        ]
        for args, status, text in cases:
            result = work.perigee("sim", *args, timeout=20)
            eq(result.status, status, f"{args}: {result.err}")
            has(result.err, text)
            assert result.err.startswith("perigee sim: ") and len(result.err.splitlines()) == 1, result.err


def test_a_truth_log_on_a_full_disk(work):
    work.write("s.lua", one_turn(2, 4))
    result = work.perigee("run", "s.lua", *RELAXED, "--truth", "/dev/full", timeout=60)
    eq(result.status, 1, result.err)
    has(result.err, "/dev/full")
    has(result.err, "No space left on device")
    eq(result.summary["requests"]["ok"], 4, "the run itself went well")
    process = work.start("sim", "--replicas", "1", "--truth", "/dev/full", "--announce")
    url = json.loads(process.stdout.readline())["replicas"][0]["url"]
    body = json.dumps({"model": "sim-model", "prompt": "x", "max_tokens": 1}).encode()
    urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"}),
                           timeout=10).read()
    process.terminate()
    result = work.finish(process, 20)
    eq(result.status, 1, result.err)
    has(result.err, "--truth /dev/full is not complete")


def test_the_admin_api_is_what_help_says(work):
    """Every call of the help text, and its curl commands as they stand there."""
    text = work.perigee("sim", "--help").out
    calls = re.findall(r"(GET|POST) +(/admin/\w+)", text)
    actions = ["add", "clear_faults", "delay_events", "drain", "drop_events", "fault", "kill", "peek", "pressure",
               "reset_cache", "restart"]
    eq(sorted({c for c in calls}), [("GET", "/admin/state")] + [
        ("POST", "/admin/" + name) for name in actions])
    process = work.start("sim", "--announce", "--profile", "instant")
    try:
        admin = json.loads(process.stdout.readline())["admin"]

        def call(path, body=None, token=admin["token"]):
            data = json.dumps(body).encode() if body is not None else None
            request = urllib.request.Request(admin["url"] + path, data, {"Authorization": f"Bearer {token}"})
            try:
                with urllib.request.urlopen(request, timeout=10) as reply:
                    return reply.status, json.load(reply)
            except urllib.error.HTTPError as e:
                return e.code, json.load(e)

        eq(call("/admin/fault", {"fault": "empty p=0.3", "replica": "r1"}),
           (200, {"action": "fault", "id": 1, "replicas": ["r1"], "done": True}))
        eq(call("/admin/fault", {"fault": "503"})[1]["replicas"], ["r0", "r1", "r2"])
        faults = [[f["fault"] for f in r["faults"]] for r in call("/admin/state")[1]["replicas"]]
        eq(faults, [["status code=503"], ["empty p=0.3", "status code=503"], ["status code=503"]])
        eq(call("/admin/clear_faults", {"replica": "r1"})[0], 200)
        eq(call("/admin/clear_faults", {})[0], 200)
        eq(call("/admin/reset_cache", {"replica": "r2", "reset_running": True})[1]["reset"], ["r2"])
        eq(call("/admin/reset_cache", {})[1]["reset"], ["r0", "r1", "r2"])
        eq(call("/admin/peek", {"prompt": "hello"}), (200, {"cached": {"r0": 0, "r1": 0, "r2": 0}}))
        eq(call("/admin/peek", {"tokens": [1, 2], "cache_salt": "s"}), (200, {"cached": {"r0": 0, "r1": 0, "r2": 0}}))
        for path, body, token, status in (("/admin/state", None, "x", 401), ("/admin/fault", {}, None, 400),
                                          ("/admin/fault", {"fault": "503", "replica": "r9"}, None, 404),
                                          ("/admin/nosuch", None, None, 404), ("/admin/fault", None, None, 405)):
            got, reply = call(path, body, token or admin["token"])
            eq(got, status, f"{path} {body}")
            assert reply["error"], reply
        if shutil.which("curl"):
            commands = re.findall(r"(?m)^  (curl (?:.*\\\n)*.*)$", text)
            eq(len(commands), 2)
            for command in commands:
                done = subprocess.run(["sh", "-c", command], env=dict(os.environ, ADMIN=admin["url"], TOKEN=admin["token"]),
                                      capture_output=True, text=True, timeout=20, check=False)
                eq(done.returncode, 0, command)
                assert "error" not in json.loads(done.stdout), done.stdout
            faults = [[f["fault"] for f in r["faults"]] for r in call("/admin/state")[1]["replicas"]]
            eq(faults, [[], ["status code=429 retry_after=2s p=0.5"], []])
    finally:
        process.terminate()
        process.communicate(timeout=10)


# ---- the terminal ----

def on_terminal(work, args, columns=100, env=None, resize=None):
    """Runs on a terminal of so many columns, `resize` once a line is there; returns status and all that was written."""
    import fcntl
    import pty
    import struct
    import termios
    leader, follower = pty.openpty()

    def size(n):
        fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, n, 0, 0))

    size(columns)
    full = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    full.update({"TERM": "xterm"} if env is None else env)
    process = subprocess.Popen([PERIGEE, *args], cwd=work.path, env=full, stdin=subprocess.DEVNULL, stdout=follower,
                               stderr=follower)
    os.close(follower)
    data = b""
    while True:
        try:
            more = os.read(leader, 65536)
        except OSError:
            break
        if not more:
            break
        data += more
        if resize and live_lines(data.decode("utf-8", "replace")):
            size(resize)
            resize = None
    os.close(leader)
    return process.wait(60 * slack()), data.decode()


def live_lines(text):
    return re.findall("\r\x1b\\[K([^\r\n\x1b]+)", text)


def test_the_live_line_fits_the_terminal(work):
    work.write("s.lua", one_turn(2, 4).replace("conv:try_send { max_tokens = 16 }",
                                               "conv:try_send { max_tokens = 16 } vu:sleep(0.5)"))
    for columns in (1, 2, 10, 20, 60, 200):
        status, text = on_terminal(work, ("run", "s.lua", *RELAXED), columns)
        eq(status, 0, text[-500:])
        lines = live_lines(text)
        assert lines or columns == 1, f"{columns} columns: no live line in {text[:300]!r}"
        for line in lines:
            assert len(line) < columns, f"{columns} columns: {line!r} has {len(line)}"
    work.write("s.lua", one_turn(1, 4).replace("conv:try_send { max_tokens = 16 }",
                                               "conv:try_send { max_tokens = 16 } vu:sleep(0.7)"))
    _, text = on_terminal(work, ("run", "s.lua", *RELAXED), 90, resize=30)
    widths = [len(line) for line in live_lines(text)]
    assert max(widths) > 30, widths
    assert widths[-1] < 30, f"the window became narrower: {widths}"


def test_terminals_that_cannot(work):
    work.write("s.lua", one_turn(2, 4))
    for env in ({"TERM": "dumb"}, {"TERM": ""}, {}):
        status, text = on_terminal(work, ("run", "s.lua", *RELAXED), env=env)
        eq(status, 0, text[-500:])
        assert "\x1b" not in text, f"{env}: escape sequences in {text[:200]!r}"
        has(text, "running ")
        has(text, "COMPLETED")


def test_no_color(work):
    work.write("s.lua", one_turn(2, 4))
    _, text = on_terminal(work, ("run", "s.lua", *RELAXED), env={"TERM": "xterm", "NO_COLOR": "1"})
    assert not re.search("\x1b\\[[0-9;]*m", text), "colours although NO_COLOR is set"
    _, text = on_terminal(work, ("run", "s.lua", *RELAXED), env={"TERM": "xterm", "NO_COLOR": ""})
    assert re.search("\x1b\\[[0-9;]*m", text), "an empty NO_COLOR counts as none"


# ---- what the disk does ----

def test_a_results_folder_that_goes_away(work):
    for what in ("remove", "move", "samples"):
        work.write("s.lua", one_turn(1, 3).replace(
            "conv:try_send { max_tokens = 16 }",
            f"conv:try_send {{ max_tokens = 16 }} repeat vu:sleep(0.1) local f = io.open('gone-{what}') until f"))
        process = work.start("run", "s.lua", *RELAXED, "--out", what)
        base = os.path.join(work.path, what)
        wait_until(lambda: glob.glob(f"{base}/*/samples.jsonl"), process)
        folder = os.path.join(base, os.listdir(base)[0])
        if what == "remove":
            shutil.rmtree(folder)
        elif what == "move":
            os.rename(folder, folder + "-moved")
        else:
            os.remove(os.path.join(folder, "samples.jsonl"))
        time.sleep(0.3)
        work.write(f"gone-{what}", "")
        result = work.finish(process, 60)
        eq(result.status, 1, f"{what}: {result.err}")
        has(result.err, "was removed or moved while the run went on", what)
        has(result.out, "removed or moved", what)
        with open(os.path.join(folder, "summary.json"), encoding="utf-8") as f:
            summary = json.load(f)
        eq(summary["outcome"]["status"], 1, what)
        eq(summary["requests"]["ok"], 3, f"{what}: what was measured is there")


def test_staged_faults_say_so(work):
    work.write("s.lua", one_turn(2, 20))
    result = work.perigee("run", "s.lua", *RELAXED, "--fault", "empty p=0.5")
    eq(result.status, 98)
    has(result.out, "Faults are staged (--fault)")
    assert "NOT VALID" not in result.out and result.out.count("cannot be trusted") == 1, "said once"
    has(" ".join(result.out.split()), "--limit empty_200=100%")
    result = work.perigee("run", "s.lua", *RELAXED, "--fault", "empty p=0.5", "--limit", "empty_200=100%")
    eq(result.status, 99)
    result = work.perigee("run", "s.lua", *RELAXED, "--fault", "429 count=1", "--limit", "loop_lag_p99=0")
    eq(result.status, 98)
    assert "Faults are staged" not in result.out, "a check that faults have no part in"


def test_the_instant_profile_says_so(work):
    work.write("s.lua", one_turn(2, 20))
    result = work.perigee("run", "s.lua", *RELAXED, "--profile", "instant", "--limit", "coalesced_events=0")
    eq(result.status, 98, result.out)
    has(" ".join(result.out.split()), "--profile instant is for the speed of the client, not for figures: its events come together, and "
        "that makes a run not valid by design; --limit coalesced_events=100% would allow it.")
    result = work.perigee("run", "s.lua", *RELAXED, "--profile", "instant", "--limit", "coalesced_events=100%")
    eq(result.status, 0, result.out)


def test_the_plans_name_and_the_sessions_in_the_log(work):
    work.write("s.lua", """local perigee = require "perigee"
return perigee.plan {
  name = "my plan", description = "says when",
  load = perigee.closed { users = 1, warmup = "300ms", duration = "300ms" },
  session = function(vu) vu:log("here") vu:sleep(0.2) end,
}
""")
    result = work.perigee("run", "s.lua", *RELAXED)
    eq(result.status, 0, result.err)
    has(result.out, "s.lua: my plan, says when")
    with open(os.path.join(result.folder, "log.txt"), encoding="utf-8") as f:
        lines = f.read().splitlines()
    stamps = []
    for line in lines:
        matches(line, r"^\[\d+\.\d{3}\] (session|warm-up)=\d here$")
        stamps.append(float(line[1:line.index("]")]))
    eq(lines[0].split("] ")[1], "warm-up=0 here")
    assert any("] session=0 here" in line for line in lines), lines
    assert stamps == sorted(stamps) and stamps[-1] < 30, stamps


def test_a_stall_is_no_burst(work):
    gap = f"{10 * slack():.0f}ms"  # where a read may be late, two events of 10 ms would be found by one
    work.write("s.lua", one_turn(2, 20))
    result = work.perigee("run", "s.lua", *RELAXED, "--profile", "fixed", "--sim-set", "ttft=5ms",
                          "--sim-set", f"itl={gap}", "--fault", "stall after=5 for=200ms")
    for row in result.rows:
        eq(row["error"], None)
        assert row["t"]["last_token"] - row["t"]["first_token"] >= 330e6, row["t"]
    share = {c["name"]: c for c in result.summary["checks"]}["coalesced_events"]["figure"]
    assert share <= 0.05, share


def test_ctrl_c_ends_perigee_lua(work):
    """Nothing bounds a script there, so that a signal must end it, also within C functions that never come back."""
    for name, text in (("c", 'string.find(("a"):rep(100000), (".-"):rep(50) .. "b")'), ("loop", "while true do end"),
                       ("caught", "while true do pcall(function() while true do end end) end")):
        work.write("s.lua", f'io.stdout:setvbuf("no")\nprint "begins"\n{text}\n')
        for number in (signal.SIGINT, signal.SIGTERM):
            process = work.start("lua", "s.lua", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            eq(process.stdout.readline(), "begins\n")
            process.send_signal(number)
            eq(process.wait(10), -number, f"{name}: {number}")
            process.communicate()


main(globals())
