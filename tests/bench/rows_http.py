"""Rows of plain requests: our client, Lua sessions and the libcurl path, each beside wrk on the same server.

The server (httpd_hello.c) has one core, the client the other. The ratio is of requests per second, as long as the
client's core is what limits them; where the server is busy all the time with wrk, it says nothing about the client,
and the ratio of CPU time per request stands in (said in the line).
"""
import re

import measure
from measure import Failed, Server, median, number, program, run

SATURATED = 0.97  # of the server's core


class Rate:
    """One measurement: requests per second, the client's CPU per request, how busy the server was."""

    def __init__(self, per_second, cpu_us, server_share):
        self.per_second, self.cpu_us, self.server_share = per_second, cpu_us, server_share


def wrk(server, connections, seconds, script):
    before = server.cpu_s()
    done = run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", f"{measure.HERE}/{script}", server.url])
    share = (server.cpu_s() - before) / done.wall_s
    total = re.search(r"(\d+) requests in", done.out)
    per_second = re.search(r"Requests/sec:\s*([\d.]+)", done.out)
    if not total or not per_second or "Non-2xx" in done.out or "Socket errors" in done.out:
        raise Failed(f"wrk: {done.out.strip()[-300:]} {done.err.strip()[-300:]}")
    return Rate(float(per_second[1]), done.cpu_s * 1e6 / int(total[1]), share)


def http_load(server, connections, seconds, full):
    before = server.cpu_s()
    done = run([program("http_load"), "--connections", str(connections), "--seconds", str(seconds),
                *(["--full"] if full else []), server.url])
    share = (server.cpu_s() - before) / done.wall_s
    out = done.json
    if out["failed"]:
        raise Failed(f"http_load: {out['failed']} requests failed")
    return Rate(out["requests"] / out["seconds"], done.cpu_s * 1e6 / out["requests"], share)


def lua_sessions(server, folder, connections, seconds):
    before = server.cpu_s()
    r = measure.perigee(folder, "lua_http.lua", server.url, users=connections, seconds=seconds)
    share = (server.cpu_s() - before) / seconds
    requests = r.summary["requests"]
    if requests["failed"]:
        raise Failed(f"{requests['failed']} requests failed: {requests['by_error']}")
    return Rate(requests["ok"] / seconds, r.worker_cpu_s() * 1e6 / requests["ok"], share)


def add_ratio(ctx, row, case, ours, theirs, target, name="wrk"):
    paced = median([t.server_share for t in theirs]) > SATURATED
    if paced:
        ratios = [t.cpu_us / o.cpu_us for o, t in zip(ours, theirs)]
    else:
        ratios = [o.per_second / t.per_second for o, t in zip(ours, theirs)]
    beside = (f"{median([o.per_second for o in ours]):,.0f}/s at {number(median([o.cpu_us for o in ours]))} µs CPU, "
              f"{name} {median([t.per_second for t in theirs]):,.0f}/s at {number(median([t.cpu_us for t in theirs]))} µs")
    note = f"by CPU: the server's core was full with {name}" if paced else ""
    ctx.add(row, case, ratios, f"× {name}", ">=", target, beside, note)


def http(ctx):
    with Server(program("httpd_hello"), "0") as server:
        for connections in ctx.scale((16, 64, 256, 1024), (16, 256)):
            ours, theirs = ctx.in_turn(lambda: http_load(server, connections, ctx.seconds, False),
                                       lambda: wrk(server, connections, ctx.seconds, "wrk_bare.lua"))
            add_ratio(ctx, "http", f"{connections} connections", ours, theirs, 1.0)


def libcurl(ctx):
    with Server(program("httpd_hello"), "0") as server:
        for connections in ctx.scale((16, 64, 256), (64,)):
            ours, theirs = ctx.in_turn(lambda: http_load(server, connections, ctx.seconds, True),
                                       lambda: wrk(server, connections, ctx.seconds, "wrk_bare.lua"))
            add_ratio(ctx, "libcurl", f"{connections} connections", ours, theirs, 0.4)


def lua(ctx):
    with Server(program("httpd_hello"), "0") as server, measure.Folder() as folder:
        for connections in ctx.scale((16, 64, 256, 1024), (64,)):
            ours, bare, script = ctx.in_turn(lambda: lua_sessions(server, folder, connections, ctx.seconds),
                                             lambda: wrk(server, connections, ctx.seconds, "wrk_bare.lua"),
                                             lambda: wrk(server, connections, ctx.seconds, "wrk_script.lua"))
            add_ratio(ctx, "lua", f"{connections} connections, bare wrk", ours, bare, 0.55 if connections <= 256 else 0.45)
            add_ratio(ctx, "lua", f"{connections} connections, wrk with Lua", ours, script, 2.0, "wrk+Lua")
