"""The row of virtual time: requests per second of one core, and what it keeps in memory."""
import json
import os

import measure
from measure import PERIGEE, run


def dry(folder, replicas, sessions, rate, script="dry.lua"):
    """Requests per second of wall time while the load ran, and the resident set at its largest, in bytes."""
    done = run([PERIGEE, "dry", os.path.join(measure.HERE, script), "--sim", str(replicas), "--profile", "llama-3.1-8b", "--quiet",
                "--json", "--out", os.path.join(folder, "results"), "--max-users", "1000000", "--set", f"count={sessions}",
                "--set", f"per_second={rate}"], ok=(0, 98), timeout=1800)
    summary = json.loads(done.out)
    if summary["requests"]["ok"] != sessions:
        raise measure.Failed(f"{summary['requests']['ok']} of {sessions} requests went well")
    return summary["dry"]["requests_per_s"], done.resident


def virtual_time(ctx):
    sessions = ctx.scale(40000, 4000)
    with measure.Folder() as folder:
        for replicas, rate, target in ((16, 400, 100000), (1000, 10000, 20000)):
            speeds = [dry(folder, replicas, sessions, rate)[0] for _ in range(ctx.n)]
            ctx.add("dry", f"{replicas} replicas, 150 tokens in and 50 out", speeds, "requests/s", ">=", target)
        few, many = ctx.scale((100000, 400000), (2000, 8000))
        low = dry(folder, 1, few, 50)[1]
        high = dry(folder, 1, many, 50)[1]
        ctx.add("dry", "resident, each session of one request", [(high - low) / (many - few)], "bytes",
                beside=f"{high / 2**20:.0f} MiB at {many:,} sessions")
        more = dry(folder, 1000, few, 10000)[1]
        ctx.add("dry", "resident, each replica (default blocks)", [(more - low) / 999 / 1024], "KiB",
                beside=f"{more / 2**20:.0f} MiB at 1,000 replicas and {few:,} sessions")
