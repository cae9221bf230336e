"""What the end-to-end tests share: running the binary, reading what a run left, and a scripted HTTP server.

A test file defines functions `test_*`, ends with `harness.main(globals())`, and is run as a program. Each test prints
`ok name` or `not ok name` with the reason; the last line is `N passed, N failed[, N skipped]`.

Below ThreadSanitizer only tests run whose commands have more than one thread at work. In a file where most have not,
THREADS names those that have; THREADS = [] leaves the file out. (A command that loads a script judges it in a thread of
its own and waits for that: this is seen everywhere else.)

No test depends on the machine's speed (tests/clock does): it waits for what happens, not for a time to pass, bounds a
wait by many times what it takes, and says of what is in a race only what holds whoever wins.

The scripted server answers each request with a Python function that writes bytes when it likes; every write is
logged with CLOCK_MONOTONIC (the client's clock), which is the ground truth that client stamps are held against.
"""
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
PERIGEE = os.path.join(BUILD, "perigee")
SANITIZED = os.environ.get("PERIGEE_SANITIZED")


class Skip(Exception):
    """Raised by a test that cannot run here; the reason is printed by name."""


class Run:
    """A finished command: status, stdout, stderr, and the run folder when it made one."""

    def __init__(self, status, out, err, folder):
        self.status, self.out, self.err, self.folder = status, out, err, folder

    def _json(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as f:
            return json.load(f)

    @property
    def summary(self):
        return self._json("summary.json")

    @property
    def run(self):
        return self._json("run.json")

    @property
    def rows(self):
        with open(os.path.join(self.folder, "samples.jsonl"), encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def report(self):
        with open(os.path.join(self.folder, "report.md"), encoding="utf-8") as f:
            return f.read()


class Work:
    """A temporary folder for one test; `write` makes scripts, `perigee` runs the binary in it."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="perigee-test-")

    def write(self, name, text):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def start(self, *args, env=None, **kw):
        full = dict(os.environ, **(env or {}))
        return subprocess.Popen([PERIGEE, *args], cwd=self.path, env=full, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)

    def finish(self, process, timeout=120):
        timeout *= 2 * slack()
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"hung: not ended after {timeout:.0f} s\nstdout: {out[-2000:]}\nstderr: {err[-2000:]}")
        return Run(process.returncode, out, err, self.last_folder())

    def perigee(self, *args, timeout=120, env=None):
        return self.finish(self.start(*args, env=env), timeout)

    def last_folder(self):
        base = os.path.join(self.path, "results")
        if not os.path.isdir(base):
            return None
        folders = [os.path.join(base, d) for d in os.listdir(base)]
        return max(folders, key=os.path.getmtime) if folders else None

    def clean(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Request:
    def __init__(self, method, path, headers, body, received_ns, number):
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.received_ns, self.number = received_ns, number

    @property
    def json(self):
        return json.loads(self.body)


class Connection:
    """One accepted socket; `send` logs (ns before the write, bytes)."""

    def __init__(self, sock, log):
        self.sock, self.log = sock, log
        self.closed = False
        self.keep = True

    def send(self, data):
        if isinstance(data, str):
            data = data.encode()
        self.log.append((time.monotonic_ns(), data))
        self.sock.sendall(data)

    def headers(self, status="200 OK", content_type="text/event-stream", extra="", length=None):
        how = f"Content-Length: {length}\r\n" if length is not None else "Transfer-Encoding: chunked\r\n"
        self.send(f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{how}{extra}\r\n")

    def chunk(self, data):
        if isinstance(data, str):
            data = data.encode()
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, value):
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        self.chunk(f"data: {text}\n\n")

    def end(self):
        self.send(b"0\r\n\r\n")

    def reply(self, body, status="200 OK", content_type="application/json", extra=""):
        if not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        self.headers(status, content_type, extra, len(body))
        if body:
            self.send(body)

    def close(self):
        self.keep = False
        self.closed = True
        self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close()


def sleep_until(ns):
    while True:
        left = ns - time.monotonic_ns()
        if left <= 0:
            return
        time.sleep(left / 1e9 if left > 2_000_000 else 0)


class Server:
    """HTTP/1.1 on 127.0.0.1:0; handler(request, connection) runs in the connection's thread.

    log: list of (request, [(ns, bytes), …]) in order of arrival. /v1/models is answered unless `raw`."""

    def __init__(self, handler, model="test-model", tls=None, raw=False):
        self.handler, self.model, self.tls, self.raw = handler, model, tls, raw
        self.log = []
        self.lock = threading.Lock()
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.listen(1024)
        self.port = self.sock.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.connections = 0
        self.errors = []
        self.open = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()
        for s in list(self.open):
            try:
                s.close()
            except OSError:
                pass

    @property
    def requests(self):
        return [r for r, _ in self.log]

    def _accept(self):
        while True:
            try:
                sock, _ = self.sock.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        self.open.add(sock)
        try:
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
            data = b""
            while True:
                request, data = self._read(sock, data)
                if request is None:
                    break
                writes = []
                connection = Connection(sock, writes)
                if not self.raw and request.path == "/v1/models":
                    connection.reply({"object": "list", "data": [{"id": self.model, "object": "model"}]})
                else:
                    with self.lock:
                        request.number = len(self.log)
                        self.log.append((request, writes))
                    self.handler(request, connection)
                if not connection.keep:
                    break
        except (OSError, ssl.SSLError):
            pass
        except Exception:  # a mistake in the test's handler must not look like a server that hangs
            self.errors.append(traceback.format_exc())
        finally:
            self.open.discard(sock)
            sock.close()

    @staticmethod
    def _read(sock, data):
        while b"\r\n\r\n" not in data:
            more = sock.recv(65536)
            if not more:
                return None, b""
            data += more
        head, data = data.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        while len(data) < length:
            more = sock.recv(1 << 20)
            if not more:
                return None, b""
            data += more
        return Request(method, path, headers, data[:length], time.monotonic_ns(), -1), data[length:]


def chat_chunk(delta=None, finish=None, usage="absent", **more):
    """One chat.completion.chunk as vLLM sends it."""
    value = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "test-model",
             "choices": [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]}
    if usage != "absent":
        value["usage"] = usage
    value.update(more)
    return value


def usage(prompt=10, completion=5, cached=None):
    value = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    if cached is not None:
        value["prompt_tokens_details"] = {"cached_tokens": cached}
    return value


def simple_chat(connection, words=("a", " b", " c"), prompt=10, cached=None):
    """A whole small streamed answer."""
    connection.headers()
    connection.event(chat_chunk({"role": "assistant", "content": ""}))
    for word in words:
        connection.event(chat_chunk({"content": word}))
    connection.event(chat_chunk({}, "stop"))
    connection.event(chat_chunk(usage=usage(prompt, len(words), cached)))
    connection.event("[DONE]")
    connection.end()


# A scenario of N sessions with one chat turn each.
ONE_TURN = """
local perigee = require "perigee"
local chat = require "perigee.chat"
return perigee.plan {
  load = perigee.closed { users = %(users)d, sessions = %(sessions)d },
  session = function(vu)
    local conv = chat.new(vu, {})
    conv:user("hello")
    conv:try_send { max_tokens = 16 }
  end,
}
"""


def one_turn(users=1, sessions=1):
    return ONE_TURN % {"users": users, "sessions": sessions}


# The client's own lateness is judged in tests/clock, on a quiet machine; here it must not decide a status.
# The servers of these tests answer in a few words, however many were asked for.
RELAXED = [a for check in ("schedule_lag_p99", "wake_lag_p99", "loop_lag_p99", "measurement_error_p99",
                               "read_lag_p99")
           for a in ("--limit", f"{check}=60s")] + [
               "--limit", "worker_cpu=10000%", "--limit", "coalesced_events=100%",
               "--limit", "short_answers=100%", "--limit", "stalled_time=100%"]


def slack():
    """What bounds on time are stretched by: the processes that want a processor here, and a sanitizer's part."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) * (4 if SANITIZED else 1)


def soon(began, seconds, what=""):
    """No more than so many seconds since time.monotonic() was `began`, where nothing else goes on."""
    took, bound = time.monotonic() - began, seconds * slack()
    assert took < bound, f"{what}: took {took:.1f} s, expected less than {bound:.1f} s"


def wait_until(true, process=None, timeout=30):
    """Looks again and again until true() is; fails when the process ends first, or after a long time."""
    end = time.monotonic() + timeout * slack()
    while True:
        ended = process is not None and process.poll() is not None
        if true():
            return
        if ended or time.monotonic() > end:
            break
        time.sleep(0.01)
    if process is None:
        raise AssertionError("it never happened")
    process.kill()
    raise AssertionError(f"it never happened: {process.communicate()}")


def eq(actual, expected, what=""):
    assert actual == expected, f"{what + ': ' if what else ''}got {actual!r}, expected {expected!r}"


def near(actual, expected, tolerance, what=""):
    assert actual is not None and abs(actual - expected) <= tolerance, \
        f"{what + ': ' if what else ''}got {actual!r}, expected {expected!r} within {tolerance!r}"


def has(text, part, what=""):
    assert part in text, f"{what + ': ' if what else ''}{part!r} is not in:\n{text[-3000:]}"


def matches(text, pattern):
    assert re.search(pattern, text), f"/{pattern}/ does not match:\n{text[-3000:]}"


def main(names):
    wanted = sys.argv[1:]
    unknown = [n for n in wanted + names.get("THREADS", []) if n not in names]
    if unknown:  # a name that is none would run nothing, and nobody would know
        print(f"no such test here: {' '.join(unknown)}\n0 passed, 1 failed")
        sys.exit(1)
    if SANITIZED == "tsan" and "THREADS" in names and not wanted:
        wanted = names["THREADS"]
    passed = failed = skipped = 0
    for name, test in list(names.items()):
        if not name.startswith("test_") or not callable(test) or (wanted and name not in wanted):
            continue
        work = Work()
        start = time.monotonic()
        try:
            test(work)
            passed += 1
            print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Skip as reason:
            skipped += 1
            print(f"skip {name}: {reason}", flush=True)
        except BaseException as e:  # noqa: B902: also keyboard interrupts end in a count
            failed += 1
            print(f"not ok {name}: {''.join(traceback.format_exception(e)) if not isinstance(e, AssertionError) else e}")
            tb = traceback.extract_tb(e.__traceback__)
            print("  at " + " < ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(tb)), flush=True)
        finally:
            work.clean()
    more = f", {skipped} skipped" if skipped else ""
    print(f"{passed} passed, {failed} failed{more}")
    sys.exit(1 if failed or passed + skipped == 0 else 0)
