"""Rows of event streams: CPU per event beside a Python and a Node client, and how exact the stamps are.

sse_server.c has one core, the client the other. CPU per event: of perigee the worker's thread while it reads (its
report about 2.5 million gaps comes later and is not in it); of the others the difference between a long and a short
run divided by the difference in events, so that starting up is not in it either.

Errors are the client's stamps in samples.jsonl minus the server's, on the same clock. The truth for a first byte is
when its packet left: the stamp that the server's kernel takes of it on the way to the device. The server reads the
clock before and after that write as well: a client's stamp that is not between them would be wrong whatever kernels
say, and is counted. For gaps the time before each write is the truth.
"""
import os
import shutil
import subprocess

import measure
from measure import Failed, Server, Skip, median, number, program, quantile, run

PYTHON = "/usr/bin/python3"  # the one that Debian's python3-aiohttp belongs to
PATH = "/v1/chat/completions"


def have_aiohttp():
    return os.path.exists(PYTHON) and subprocess.run([PYTHON, "-c", "import aiohttp"], capture_output=True).returncode == 0


def cpu_per_event(measured, events_each, streams, requests):
    """measured(requests) -> CPU seconds; µs per event."""
    short = measured(1)
    return (measured(requests) - short) * 1e6 / (events_each * streams * (requests - 1))


def sse(ctx):
    streams, events = 64, 1000
    peers = []
    if have_aiohttp():
        peers.append(("aiohttp", [PYTHON, f"{measure.HERE}/sse_client.py"], ctx.scale(4, 2)))
    else:
        ctx.say("sse", "aiohttp", "skipped", f"{PYTHON} has no aiohttp: apt-get install python3-aiohttp")
    if shutil.which("node"):
        peers.append(("Node", ["node", f"{measure.HERE}/sse_client.mjs"], ctx.scale(8, 3)))
    else:
        ctx.say("sse", "Node", "skipped", "no node: apt-get install nodejs")
    with Server(program("sse_server")) as server, measure.Folder() as folder:
        for batch in (10, 1):
            query = f"events={events}&batch={batch}"

            def ours(requests):
                r = measure.perigee(folder, "streams.lua", server.url, users=streams, sessions=streams,
                                    requests=requests, query=query)
                if r.summary["requests"]["ok"] != streams * requests:
                    raise Failed(f"streams failed: {r.summary['requests']}")
                return r.worker_cpu_s() * 1e6 / (events * streams * requests)

            def peer(command, requests):
                done = run([*command, f"{server.url}{PATH}?{query}", str(streams), str(requests)])
                if done.json["events"] < events * streams * requests:
                    raise Failed(f"{command[0]}: {done.out}")
                return done.cpu_s

            sides = [lambda: ours(ctx.scale(40, 10))]
            for _, command, requests in peers:
                sides.append(lambda c=command, n=requests: cpu_per_event(lambda r: peer(c, r), events, streams, n))
            mine, *others = ctx.in_turn(*sides)
            case = f"{batch} event{'s' if batch > 1 else ''} per write"
            ctx.add("sse", f"{case}, CPU each", mine, "µs", *(("<=", 0.4) if batch == 10 else ()))
            for (name, *_), values in zip(peers, others):
                goal = (">=", 10) if batch == 10 and name == "aiohttp" else ()
                ctx.add("sse", f"{case}, against {name}", [v / m for v, m in zip(values, mine)], "×", *goal,
                        beside=f"{name} {number(median(values))} µs")


# ---------------------------------------------------------------------------------------- accuracy

def stream_run(folder, itl=False, **settings):
    """A run of streams.lua and the server's stamps: (run, {session: (left, after, [before, …])})."""
    log = os.path.join(folder, "stamps.log")
    with Server(program("sse_server"), log) as server:
        r = measure.perigee(folder, "streams.lua", server.url, ["--itl"] if itl else [], stamped="true", **settings)
    stamps = {}
    with open(log, encoding="utf-8") as f:
        for line in f:
            session, left, after, *ns = map(int, line.split())
            stamps[session] = left, after, ns
    requests = r.summary["requests"]
    if requests["failed"] or requests["incomplete"] or len(stamps) != requests["ok"]:
        raise Failed(f"streams failed: {requests}, {len(stamps)} in the server's log")
    return r, stamps


def first_byte(ctx):
    """All streams of a round get their first event together, as fast as the server can write."""
    for streams, rounds in ctx.scale(((1, 500), (64, 8), (512, 1), (2000, 1)), ((1, 50), (64, 2), (512, 1))):
        p50, p99, own, outside = [], [], [], 0
        for _ in range(ctx.n):
            with measure.Folder() as folder:
                pace = "events=2&batch=1&rate=100" if streams == 1 else "events=6&batch=1&rate=4"
                r, stamps = stream_run(folder, users=streams, sessions=streams * rounds,
                                       query=f"{pace}&gather={streams}")
                zero = r.run["zero_monotonic_ns"]
                off = []
                for row in r.rows():
                    at = row["t"]["first_byte"] + zero
                    left, after, before = stamps[row["session"]]
                    if not before[0] < left < after:
                        raise Failed("the server's kernel does not stamp packets that leave")
                    off.append(abs(at - left) / 1e3)
                    outside += not before[0] < at < after
                p50.append(quantile(off, 0.5))
                p99.append(quantile(off, 0.99))
                own.append((r.check("read_lag_p99") or 0) * 1e6)
        case = f"{streams} stream{'s' if streams > 1 else ''} together"
        ctx.add("first_byte", f"{case}, p50", p50, "µs", "<=", 10, note=f"n={streams * rounds} each")
        ctx.add("first_byte", f"{case}, p99", p99, "µs", "<=", 50,
                f"bytes lay {number(median(own))} µs (p99) before they were read; {outside} of "
                f"{streams * rounds * ctx.n} stamps not between the clock before the write and after it")


def itl(ctx):
    seconds = ctx.scale(10, 3)
    for streams, rate in ctx.scale(((1500, 50), (10000, 5)), ((300, 50),)):
        if measure.raise_descriptor_limit() < streams + 200:
            ctx.say("itl", f"{streams} streams at {rate} tokens/s", "skipped", "too few descriptors: see ulimit -Hn")
            continue
        p50, p99, busy, shared = [], [], [], []
        for _ in range(ctx.n):
            with measure.Folder() as folder:
                r, stamps = stream_run(folder, itl=True, users=streams, sessions=streams, spread=min(2, streams / 2000),
                                       query=f"events={rate * seconds}&batch=1&rate={rate}")
                off, coalesced, n = [], 0, 0
                for row in r.rows():
                    sent, gaps = stamps[row["session"]][2], row["itl_ns"]
                    if len(gaps) != len(sent) - 1:
                        raise Failed(f"{len(gaps)} gaps of {len(sent)} events")
                    off += [abs(g - (b - a)) for g, a, b in zip(gaps, sent, sent[1:])]
                    coalesced += row["coalesced"]
                    n += len(sent)
                p50.append(quantile(off, 0.5) / 1e6)
                p99.append(quantile(off, 0.99) / 1e6)
                busy.append(r.check("worker_cpu"))
                shared.append(coalesced / n)
        case = f"{streams} streams at {rate} tokens/s, p99"
        ctx.add("itl", case, p99, "ms", "<=", 1,
                f"p50 {number(median(p50))} ms, worker at {100 * median(busy):.0f} % of a core, "
                f"{100 * median(shared):.2f} % of events shared a read")
