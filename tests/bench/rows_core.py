"""Rows of single functions, without sockets."""
from measure import median, program, run


def hash_blocks(ctx):
    runs = [run([program("blockhash_speed"), str(ctx.scale(1, 0.3))]).json for _ in range(ctx.n)]
    ctx.add("hash", "ic-xxh3, chained", [r["chain"] / 1e6 for r in runs], "M blocks/s", ">=", 100,
            f"XXH3 over the same tokens, nothing kept: {median([r['bare'] for r in runs]) / 1e6:.0f} M blocks/s")
    for scheme in runs[0]["schemes"]:
        goal = (">=", 100) if scheme == "ic-xxh3" else ()
        ctx.add("hash", f"{scheme}, as scripts hash", [r["schemes"][scheme] / 1e6 for r in runs], "M blocks/s", *goal)


def summary(ctx):
    n = ctx.scale(1000000, 100000)
    runs = [run([program("summary_million"), str(n), "1"]).json for _ in range(ctx.n)]
    goal = ("<=", 2) if n == 1000000 else ()
    ctx.add("summary", f"{n:,} requests, all intervals", [r["seconds"] for r in runs], "s", *goal,
            beside=f"{runs[0]['sessions']:,} sessions, {runs[0]['gaps']:,} gaps")
