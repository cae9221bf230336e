"""The shipped scenarios that quantify eviction, tiers and wrong replicas: what they conclude, exactly.

In virtual time each request's cached tokens and its latency are those of the arithmetic that the scenario's comment
explains; the same tokens come out on sockets, where times are only held to be apart.
"""
import json
import os

from harness import RELAXED, ROOT, eq, main

BLOCK = 16


def sweep(work, command, name, *args):
    result = work.perigee(command, f"{ROOT}/scenarios/{name}.lua", "--quiet", *args)
    assert result.folder, result.err
    with open(os.path.join(result.folder, "sweep.json"), encoding="utf-8") as f:
        doc = json.load(f)
    for p in doc["points"]:
        with open(os.path.join(result.folder, p["folder"], "samples.jsonl"), encoding="utf-8") as f:
            p["rows"] = [row for row in map(json.loads, f) if row["generation"]]
        p["rows"].sort(key=lambda r: r["session"])
    return result, doc["points"]


def ttft(row):
    return (row["t"]["first_token"] - row["t"]["start"]) / 1e6


class Cache:
    """vLLM's pool as far as one request at a time sees it: what was used longest ago goes first, tails before heads."""

    def __init__(self, blocks):
        self.free = [None] * blocks

    def ask(self, blocks):
        """Names of a prompt's blocks; how many leading ones were there."""
        hits = 0
        while hits < len(blocks) - 1 and blocks[hits] in self.free:
            hits += 1
        for b in blocks[:hits]:
            self.free.remove(b)
        del self.free[:len(blocks) - hits]
        self.free += reversed(blocks)
        return hits


def evicted_exactly(points, latencies):
    for p in points:
        documents, order = p["values"]["documents"], p["values"]["order"]
        cache, fit = Cache(1000), 10
        asked = list(range(1, documents + 1)) + [r["tags"]["document"] for r in p["rows"]]
        if order == "cyclic":
            eq(asked, list(range(1, documents + 1)) * 6)
        eq(len(p["rows"]), 5 * documents)
        expected = [cache.ask([(d, i) if i < 97 else (d, i, n) for i in range(100)]) * BLOCK for n, d in enumerate(asked)]
        eq([r["cached_tokens"] for r in p["rows"]], expected[documents:], f"{order}, {documents} documents")
        if order == "cyclic":  # the knee, to the document
            eq({r["cached_tokens"] for r in p["rows"]}, {1552 if documents <= fit else 0}, f"{documents} documents")
        for r in p["rows"]:
            eq(r["prompt_tokens"], 1600)
            if latencies:
                eq(round(ttft(r), 3), round(1.2 + (1600 - r["cached_tokens"]) / 20, 3))
            else:
                assert ttft(r) > 1.2 + (1600 - r["cached_tokens"]) / 20


def test_cache_eviction(work):
    result, points = sweep(work, "dry", "cache_eviction")
    eq((result.status, len(points)), (0, 12), result.out)
    evicted_exactly(points, True)
    behind = [p["metrics"]["cached_ratio"]["mean"] for p in points if p["values"]["order"] == "random"]
    eq(behind, sorted(behind, reverse=True), "at random: less and less")
    assert behind[0] == 0.97 and 0.4 < behind[-1] < 0.6, behind


def test_cache_eviction_with_room_for_more(work):
    """The knee moves with the cache."""
    args = ["--set", "cache=19200", "--over", "order=cyclic", "--over", "documents=12,13"]
    result, points = sweep(work, "dry", "cache_eviction", *args)
    eq(result.status, 0, result.out)
    eq([p["metrics"]["cached_ratio"]["mean"] for p in points], [0.97, 0])


def test_cache_eviction_on_sockets(work):
    _, points = sweep(work, "run", "cache_eviction", "--over", "documents=10,11", "--set", "rounds=5", *RELAXED)
    eq(len(points), 4)
    evicted_exactly(points, False)


TIERS = {"hbm": (1792, 0), "offload": (1792, 1e-3 + 1792 * 16384 / 20e6),
         "shared": (1792, 30 + 1792 * 16384 / 1e6), "recompute": (0, 0)}


def test_cache_tiers(work):
    result, points = sweep(work, "dry", "cache_tiers", "--verify")
    eq((result.status, [p["values"]["source"] for p in points]), (0, list(TIERS)), result.out)
    for p in points:
        cached, load = TIERS[p["values"]["source"]]
        eq(len(p["rows"]), 10)
        for r in p["rows"]:
            eq((r["prompt_tokens"], r["cached_tokens"]), (1840, cached))
            assert abs(ttft(r) - (1.2 + (1840 - cached) / 20 + load)) < 2e-3, (p["values"], ttft(r))
            # Where they came from, by the fleet's own log.
            where = p["values"]["source"] if cached else "new"
            eq({k: v for k, v in r["causes"].items() if v}, {where: cached, "new": 48} if cached else {"new": 1840})


def test_cache_tiers_where_storage_does_not_pay(work):
    """The comment's call for an 8B model: a load from the store takes longer than to compute the document again."""
    result, points = sweep(work, "dry", "cache_tiers", "--profile", "llama-3.1-8b", "--set", "prefill_rate=30000", "--set",
                           "token_bytes=131072", "--set", "request_time=16.75ms")
    eq(result.status, 0, result.out)
    eq([round(p["metrics"]["ttft"]["p50"] * 1e3) for p in points], [18, 30, 283, 78])
    result, points = sweep(work, "dry", "cache_tiers", "--sim-set", "shared_device=nvme", "--set", "store_rate=7e9", "--set",
                           "store_latency=80us")
    eq(result.status, 0, result.out)


def test_cache_tiers_on_sockets(work):
    _, points = sweep(work, "run", "cache_tiers", *RELAXED)
    means = []
    for p in points:
        cached, _ = TIERS[p["values"]["source"]]
        eq([r["cached_tokens"] or 0 for r in p["rows"]], [cached] * 10, p["values"])
        means.append(min(map(ttft, p["rows"])))
    eq(means, sorted(means), "hbm, offload, shared, recompute")


def on_the_right_one(rows):
    """Warm where the second question went to the replica of the first, and nowhere else. Shares by policy."""
    held, warm = {}, {}
    for r in rows:
        held.setdefault((r["session"], r["policy"]), {})[r["turn"]] = r
    for (_, policy), turns in held.items():
        first, second = turns[1], turns[2]
        same = first["served"] == second["served"]
        eq((first["cached_tokens"] or 0, second["cached_tokens"] or 0), (0, 896 if same else 0), policy)
        warm.setdefault(policy, []).append(same)
    return {policy: sum(x) / len(x) for policy, x in warm.items()}


def test_wrong_replica(work):
    for replicas in (1, 3, 8):
        r = work.perigee("dry", f"{ROOT}/scenarios/wrong_replica.lua", "--quiet", "--verify", "--sim", str(replicas))
        eq(r.status, 0, r.out)
        shares = on_the_right_one(r.rows)
        eq(shares["session_hash"], 1)
        assert abs(shares["random"] - 1 / replicas) < 0.16 and shares["round_robin"] < 1 / replicas + 0.16, shares
        missed = sum(r["turn"] == 2 and not r["cached_tokens"] for r in r.rows)
        eq(missed, round(80 * (2 - shares["random"] - shares["round_robin"])))
        causes = r.summary["causes"]
        eq((causes["wrong_pod"], causes["hbm"], causes["evicted"]), (896 * missed, 896 * (240 - missed), 0))
        if replicas == 3:
            metrics = r.summary["metrics"]
            eq([round(metrics[m]["p50"] * 1e3, 2) for m in ("ttft_warm", "ttft_cold")], [6.05, 50.85])


def test_wrong_replica_alone(work):
    """With nobody else, round robin goes on to the next replica each time: never the right one."""
    r = work.perigee("dry", f"{ROOT}/scenarios/wrong_replica.lua", "--quiet", "--set", "users=1")
    eq(on_the_right_one(r.rows)["round_robin"], 0)


def test_wrong_replica_on_sockets(work):
    r = work.perigee("run", f"{ROOT}/scenarios/wrong_replica.lua", "--quiet", "--verify", "--set", "sessions=40", *RELAXED)
    shares = on_the_right_one(r.rows)
    eq(shares["session_hash"], 1)
    missed = 40 * (2 - shares["random"] - shares["round_robin"])
    eq(r.summary["causes"]["wrong_pod"], round(896 * missed))
    eq(r.summary["causes"]["evicted"], 0)


THREADS = ["test_wrong_replica_on_sockets"]

main(globals())
