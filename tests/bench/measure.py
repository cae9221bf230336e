"""What the rows of the bench share: pinned processes and their CPU time, servers, interleaved pairs, verdicts.

A figure is never one run. Two sides are measured in turn (A B A B …) and each pair gives one ratio, so that what the
machine does meanwhile hits both; the median of the ratios is the figure. Its interval is the narrowest pair of order
statistics that holds the true median with at least 90 % (5 pairs: smallest to largest). A target inside the interval
is undecided, and said to be.
"""
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "tests", "bench")
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
PERIGEE = os.path.join(BUILD, "perigee")



class Skip(Exception):
    """Raised by a row, or a part of one, that cannot be measured here; the reason is printed."""


class Failed(Exception):
    """Raised when something under measurement broke."""


# ---------------------------------------------------------------------------------------- machine

def read(path, default=""):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read().strip()
    except OSError:
        return default


def pick_cores():
    """(server, client): two that do not share a physical core where there are such."""
    allowed = sorted(os.sched_getaffinity(0))
    server = allowed[0]
    siblings = read(f"/sys/devices/system/cpu/cpu{server}/topology/thread_siblings_list", str(server))
    taken = set()
    for part in siblings.split(","):
        low, _, high = part.partition("-")
        taken.update(range(int(low), int(high or low) + 1))
    apart = [c for c in allowed if c not in taken]
    return server, (apart or allowed[1:] or allowed)[0]


SERVER_CORE, CLIENT_CORE = pick_cores()


def machine():
    model = next((line.split(":", 1)[1].strip() for line in read("/proc/cpuinfo").splitlines()
                  if line.startswith("model name")), "unknown CPU")
    return {"cores": len(os.sched_getaffinity(0)), "cpu": model, "kernel": os.uname().release,
            "load": round(os.getloadavg()[0], 2), "server_core": SERVER_CORE, "client_core": CLIENT_CORE}


def machine_warnings(m):
    out = []
    if m["cores"] < 2:
        out.append("only one core: client and server take it from each other, ratios say little")
    if m["load"] > 0.5 * m["cores"]:
        out.append(f"loaded: {m['load']} processes wanted to run in the last minute on {m['cores']} cores; "
                   "expect undecided rows")
    return out


class Bystanders:
    """What share of the machine others took between making this and asking (children must have been waited for)."""

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        ticks = [int(x) for x in read("/proc/stat").split("\n", 1)[0].split()[1:9]]
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        second = os.sysconf("SC_CLK_TCK")
        idle = (ticks[3] + ticks[4]) / second
        return sum(ticks) / second, idle, sum(u.ru_utime + u.ru_stime for u in own)

    def share(self):
        total, idle, own = (b - a for a, b in zip(self.start, self.now()))
        return max(0.0, (total - idle - own) / total) if total > 0 else 0.0


def raise_descriptor_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


# -------------------------------------------------------------------------------------- processes

def program(name):
    path = os.path.join(BUILD, "bench", name)
    if not os.path.exists(path):
        raise Skip(f"{os.path.relpath(path, ROOT)} is not built: make bench-bins")
    return path


def pinned(core, command):
    return ["taskset", "-c", str(core), *command]


def process_cpu_s(pid):
    """So far, all threads, of a process that runs."""
    folder = f"/proc/{pid}/task"
    return sum(int(read(f"{folder}/{t}/schedstat", "0").split()[0]) for t in os.listdir(folder)) / 1e9


class Finished:
    def __init__(self, status, out, err, usage, wall_s):
        self.status, self.out, self.err, self.wall_s = status, out, err, wall_s
        self.user_s, self.system_s = usage.ru_utime, usage.ru_stime
        self.cpu_s = usage.ru_utime + usage.ru_stime
        self.resident = usage.ru_maxrss * 1024  # at its largest

    @property
    def json(self):
        return json.loads(self.out.strip().splitlines()[-1])


def run(command, core=CLIENT_CORE, timeout=180, ok=(0,), cwd=None, while_running=None):
    """Runs a command pinned to a core, to its end; its CPU time includes its children's."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        p = subprocess.Popen(pinned(core, command), stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=cwd)
        late = threading.Timer(timeout, p.kill)
        late.start()
        try:
            if while_running:
                while_running(p)
            _, status, usage = os.wait4(p.pid, 0)
        finally:
            late.cancel()
        p.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - start
        out.seek(0)
        err.seek(0)
        done = Finished(p.returncode, out.read().decode(errors="replace"), err.read().decode(errors="replace"),
                        usage, wall)
    if done.status not in ok:
        what = f"killed after {timeout} s" if done.status == -signal.SIGKILL else f"status {done.status}"
        text = (done.err.strip() or done.out.strip())[-600:]
        raise Failed(f"{os.path.basename(command[0])}: {what}: {text}")
    return done


class Server:
    """A server program that prints its port; pinned to the server's core, ended with the block, or with us: one that
    spins would slow everything that runs later."""

    def __init__(self, *command):
        self.command = command

    def __enter__(self):
        command = ["setpriv", "--pdeathsig", "KILL", *pinned(SERVER_CORE, self.command)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().strip()
        if not line.isdigit():
            raise Failed(f"{os.path.basename(self.command[0])} did not start: {self.process.communicate()[1][-300:]}")
        self.port = int(line)
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def cpu_s(self):
        """Of its main thread, which is all it has at work."""
        return int(read(f"/proc/{self.process.pid}/schedstat", "0").split()[0]) / 1e9

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def __exit__(self, *_):
        self.stop()


class Folder:
    """A temporary folder, removed at the end of the block."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="perigee-bench-")
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


class PerigeeRun:
    """What `perigee run` left: summary, run.json, rows."""

    def __init__(self, finished, folder):
        self.finished, self.folder = finished, folder
        self.summary = json.loads(read(os.path.join(folder, "summary.json")))
        self.run = json.loads(read(os.path.join(folder, "run.json")))

    def rows(self):
        with open(os.path.join(self.folder, "samples.jsonl"), encoding="utf-8") as f:
            for line in f:
                yield json.loads(line)

    def metric(self, name):
        return self.summary["metrics"][name]

    def worker_cpu_s(self):
        """CPU of the worker's thread between the start of the load and its end: the report is not in it."""
        window = self.run["window"]
        return self.check("worker_cpu") * (window["end_ns"] - window["start_ns"]) / 1e9

    def check(self, name):
        return next((c["figure"] for c in self.summary["checks"] if c["name"] == name), None)


def perigee(folder, script, url, options=(), timeout=180, while_running=None, **settings):
    """One run of a scenario of tests/bench against url, all its threads on one core."""
    if not os.path.exists(PERIGEE):
        raise Skip(f"{os.path.relpath(PERIGEE, ROOT)} is not built: make")
    out = tempfile.mkdtemp(dir=folder)
    command = [PERIGEE, "run", os.path.join(HERE, script), "--replica", url, "--model", "bench", "--tokenizer", "bytes",
               "--workers", "1", "--no-preflight", "--quiet", "--out", out, *options]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    # 98 and 99: not valid, or an expectation not met, which a busy machine may bring about
    ok = (0, 98, 99, 130) if while_running else (0, 98, 99)
    done = run(command, timeout=timeout, ok=ok, cwd=folder, while_running=while_running)
    folders = [os.path.join(out, d) for d in os.listdir(out)]
    if len(folders) != 1:
        raise Failed(f"perigee run left {len(folders)} folders in {out}: {done.err[-300:]}")
    return PerigeeRun(done, folders[0])


# ------------------------------------------------------------------------------------- statistics

def median(values):
    return quantile(values, 0.5)


def quantile(values, q):
    v = sorted(values)
    if not v:
        raise Failed("nothing was measured")
    at = q * (len(v) - 1)
    low = math.floor(at)
    high = min(low + 1, len(v) - 1)
    return v[low] + (v[high] - v[low]) * (at - low)


def interval(values):
    """Order statistics around the median that cover it with at least 90 %; (low, high, coverage)."""
    v = sorted(values)
    n = len(v)

    def coverage(k):  # of v[k] … v[n-1-k]
        return 1 - 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2 ** n
    k = 0
    while k + 1 <= (n - 1) // 2 and coverage(k + 1) >= 0.9:
        k += 1
    return v[k], v[n - 1 - k], coverage(k)


def verdict(values, op, target):
    """met, missed or undecided; in parentheses when too few measurements were taken to tell."""
    low, high, coverage = interval(values)
    good = (lambda x: x >= target) if op == ">=" else (lambda x: x <= target)
    if coverage < 0.9:
        return "(met)" if good(median(values)) else "(missed)"
    if good(low) and good(high):
        return "met"
    return "undecided" if good(low) or good(high) else "missed"


class Context:
    """How thorough to be, and where results go."""

    def __init__(self, quick, pairs):
        self.quick = quick
        self.n = pairs or (2 if quick else 5)
        self.seconds = 1 if quick else 3
        self.results = []

    def scale(self, full, quick):
        return quick if self.quick else full

    def in_turn(self, *sides):
        """Calls each side n times, A B C A B C; a list of results per side."""
        out = [[] for _ in sides]
        for _ in range(self.n):
            for results, side in zip(out, sides):
                results.append(side())
        return out

    def add(self, row, case, values, unit, op=None, target=None, beside="", note="", floor=None):
        """One line. `floor` is what the machine itself does in the same turns, whoever asks: where that does not hold
        the target either, a miss says nothing about perigee, and the verdict is undecided."""
        low, high, _ = interval(values)
        decided = verdict(values, op, target) if op else ""
        if floor and "missed" in decided and "met" not in verdict(floor, op, target):
            decided = "undecided"
            note = f"{note}; " * bool(note) + "this machine by itself does not hold the target now"
        r = {"row": row, "case": case, "figure": median(values), "low": min(values), "high": max(values),
             "interval": [low, high], "n": len(values), "unit": unit, "values": values, "op": op, "target": target,
             "verdict": decided, "beside": beside, "note": note}
        self.results.append(r)
        show(r)

    def disturbed(self, row, share):
        for r in self.results:
            if r["row"] == row:
                r["others"] = round(share, 3)
        if share > 0.05:
            print(f"  warning: other processes took {100 * share:.0f} % of the machine meanwhile", flush=True)

    def say(self, row, case, status, reason):
        r = {"row": row, "case": case, "verdict": status, "note": reason}
        self.results.append(r)
        print(f"  {case:<34} {status}: {reason}", flush=True)


def number(x):
    if x == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(x)))) if abs(x) < 100 else 0
    return f"{x:,.{digits}f}"


def show(r):
    figure = f"{number(r['figure'])} {r['unit']}"
    spread = f"{number(r['low'])}–{number(r['high'])}, n={r['n']}"
    target = f"{'≥' if r['op'] == '>=' else '≤'} {number(r['target'])}" if r["op"] else ""
    line = f"  {r['case']:<34} {figure:<16} {spread:<24} {target:<9} {r['verdict']:<10}"
    if r["beside"]:
        line += f" {r['beside']}"
    if r["note"]:
        line += f" [{r['note']}]"
    print(line.rstrip(), flush=True)
