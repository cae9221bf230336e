"""Rows of plain requests: our client, Lua sessions and the libcurl path, each beside wrk on the same server.

The server (httpd_hello.c, which spins: waking it would cost a slow client more than a fast one) has one core, the
client the other. The ratio is of requests per second, as long as the client's core is what limits them. Where a side
could not fill its core (the server was slower, or others took the core), rates say little about the clients, and the
ratio of CPU time per request stands in; the line says so. CPU of perigee is the process's, its writer of rows included.

What both sides of `lua` do per request, as the two scripts stand: a table of four headers, one of them formatted
anew; a body of two messages and four settings encoded from tables, keys in order; the reply's headers as a table (wrk
makes one for every response() too); its body decoded whole, and a field looked at. perigee alone also checks the
request's parts, keeps timeouts, takes the kernel's stamps and writes a row. wrk's encoder and decoder are plain Lua
for its LuaJIT, which has no others.
"""
import re
import time

import measure
from measure import Failed, Server, median, number, program, run

FULL = 0.9  # of the client's core: below, something else sets the rate


class Rate:
    """One measurement: requests per second, the client's share of its core, and so its CPU per request."""

    def __init__(self, per_second, share):
        self.per_second, self.share = per_second, share
        self.cpu_us = share * 1e6 / per_second


def hello():
    return Server(program("httpd_hello"), "0", *(["spin"] if measure.SERVER_CORE != measure.CLIENT_CORE else []))


def wrk(server, connections, seconds, script):
    done = run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", f"{measure.HERE}/{script}", server.url])
    per_second = re.search(r"Requests/sec:\s*([\d.]+)", done.out)
    if not per_second or "Non-2xx" in done.out or "Socket errors" in done.out:
        raise Failed(f"wrk: {done.out.strip()[-300:]} {done.err.strip()[-300:]}")
    return Rate(float(per_second[1]), done.cpu_s / done.wall_s)


def http_load(server, connections, seconds, full):
    done = run([program("http_load"), "--connections", str(connections), "--seconds", str(seconds),
                *(["--full"] if full else []), server.url])
    out = done.json
    if out["failed"]:
        raise Failed(f"http_load: {out['failed']} requests failed")
    return Rate(out["requests"] / out["seconds"], done.cpu_s / done.wall_s)


def lua_sessions(server, folder, connections, seconds):
    shares = []

    def watch(process):  # in the middle of the load: neither starting up nor the report
        time.sleep(0.4)
        cpu, at = measure.process_cpu_s(process.pid), time.monotonic()
        time.sleep(seconds - 0.6)
        shares.append((measure.process_cpu_s(process.pid) - cpu) / (time.monotonic() - at))

    r = measure.perigee(folder, "lua_http.lua", server.url, users=connections, seconds=seconds, while_running=watch)
    requests = r.summary["requests"]
    if requests["failed"]:
        raise Failed(f"{requests['failed']} requests failed: {requests['by_error']}")
    return Rate(requests["ok"] / seconds, shares[0])


def add_ratio(ctx, row, case, ours, theirs, target, name="wrk"):
    paced = median([min(o.share, t.share) for o, t in zip(ours, theirs)]) < FULL
    if paced:
        ratios = [t.cpu_us / o.cpu_us for o, t in zip(ours, theirs)]
    else:
        ratios = [o.per_second / t.per_second for o, t in zip(ours, theirs)]
    beside = (f"{median([o.per_second for o in ours]):,.0f}/s at {number(median([o.cpu_us for o in ours]))} µs CPU, "
              f"{name} {median([t.per_second for t in theirs]):,.0f}/s at {number(median([t.cpu_us for t in theirs]))} µs")
    note = "by CPU: a side did not fill its core" if paced else ""
    ctx.add(row, case, ratios, f"× {name}", ">=", target, beside, note)


def http(ctx):
    with hello() as server:
        for connections in ctx.scale((16, 64, 256, 1024), (16, 256)):
            ours, theirs = ctx.in_turn(lambda: http_load(server, connections, ctx.seconds, False),
                                       lambda: wrk(server, connections, ctx.seconds, "wrk_bare.lua"))
            add_ratio(ctx, "http", f"{connections} connections", ours, theirs, 1.0)


def libcurl(ctx):
    with hello() as server:
        for connections in ctx.scale((16, 64, 256), (64,)):
            ours, theirs = ctx.in_turn(lambda: http_load(server, connections, ctx.seconds, True),
                                       lambda: wrk(server, connections, ctx.seconds, "wrk_bare.lua"))
            add_ratio(ctx, "libcurl", f"{connections} connections", ours, theirs, 0.4)


def lua(ctx):
    with hello() as server, measure.Folder() as folder:
        for connections in ctx.scale((16, 64, 256, 1024), (64,)):
            ours, bare, script = ctx.in_turn(lambda: lua_sessions(server, folder, connections, ctx.seconds),
                                             lambda: wrk(server, connections, ctx.seconds, "wrk_bare.lua"),
                                             lambda: wrk(server, connections, ctx.seconds, "wrk_script.lua"))
            add_ratio(ctx, "lua", f"{connections} connections, bare wrk", ours, bare, 0.55 if connections <= 256 else 0.45)
            add_ratio(ctx, "lua", f"{connections} connections, wrk with Lua", ours, script, 2.0, "wrk+Lua")
