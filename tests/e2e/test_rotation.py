"""Rotation: spares are known to a run, and get nothing until they are added."""
from harness import RELAXED, eq, main

SCRIPT = """
local perigee = require "perigee"
local chat = require "perigee.chat"
local route = require "perigee.route"
local policies = { round_robin = route.round_robin, random = route.random, session_hash = route.session_hash,
  least_inflight = route.least_inflight, spare = function() return route.direct "r3" end,
  own = function() return function(vu)
    assert(vu:in_rotation(1) and not vu:in_rotation "r3" and vu:stand_in(4) == 1)
    return { replica = 4, policy = "own" }
  end end }
return perigee.plan { load = perigee.closed { users = 4, sessions = 120 },
  route = policies[perigee.param("policy", "round_robin")](),
  setup = function(vu)
    local said = {}
    for i, r in ipairs(vu.fleet.replicas) do
      said[i] = r.id .. (r.spare and " spare" or "")
    end
    print(table.concat(said, ", "))
    local reply, class, why = vu:try_http { path = "/health", replica = "r4" } -- by name: it is down
    assert(reply == nil and class == "connect" and why:find("connection refused", 1, true), why)
    assert(vu:http { path = "/health" }.served == "r0")
  end,
  session = function(vu)
    local conv = chat.new(vu)
    conv:user "hello world"
    conv:send { max_tokens = 3 }
  end }
"""


def test_spares_get_nothing(work):
    path = work.write("s.lua", SCRIPT)
    sessions = {}
    for policy in ("round_robin", "random", "session_hash", "least_inflight", "spare", "own"):
        for command, more in (("run", ["--workers", "4", *RELAXED]), ("dry", [])):
            r = work.perigee(command, path, "--quiet", "--sim", "3", "--spares", "2", "--set", f"policy={policy}", *more)
            eq(r.status, 98 if policy in ("spare", "own") else 0, r.out + r.err)
            assert "r0, r1, r2, r3 spare, r4 spare" in r.err + r.out, r.err
            rows = [x for x in r.rows if x["generation"]]
            eq(len(rows), 120, "requests")
            moved = policy in ("spare", "own")
            for x in rows:
                eq((x["fallback"], x["route_reason"]), (moved, "r3 is out of rotation" if moved else None), policy)
                eq(x["chosen"], x["served"])
            eq({x["served"] for x in rows}, {"r0"} if moved else {"r0", "r1", "r2"}, policy)
            # They are none of the run's replicas, and what chance makes of three does not count five.
            eq([(x["id"], x["rotation"]) for x in r.summary["replicas"]], [("r0", 1), ("r1", 1), ("r2", 1)])
            check = next(c for c in r.summary["checks"] if c["name"] == "idle_replica")
            eq((check["note"] or "", check["figure"]), ("no request went to r1, r2", 2) if moved else ("", 0), policy)
            assert (moved or "r3" not in r.report()) and "3 replicas and 2 spares" in r.report(), r.report()
            eq([x.get("spare", False) for x in r.run["fleet"]["replicas"]], [False] * 3 + [True] * 2)
            if policy == "round_robin":
                eq([x["requests"] for x in r.summary["replicas"]], [40, 40, 40])
            if policy == "session_hash":  # a session is where it is in the other form of the run
                placed = {x["session"]: x["served"] for x in rows}
                eq(placed, sessions.setdefault("placed", placed))


REPLACE = """
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local route = require "perigee.route"
return perigee.plan {
  load = perigee.closed { users = 12, duration = "60s" },
  route = route.session_hash(),
  timeline = { { at = "20s", action = "add", start = "1s" }, { at = "40s", action = "drain", replica = "r1" } },
  session = function(vu)
    local conv = chat.new(vu, { system = gen.text { tokens = 800, rng = vu.rng } })
    for _ = 1, 10 do
      conv:user(gen.text { tokens = 60, rng = vu.rng })
      conv:send { max_tokens = 20 }
      vu:sleep(vu.rng:uniform(0.5, 1.5))
    end
  end,
}
"""


def test_one_is_replaced(work):
    """README's recipe: nothing fails; who moves is computed again once, and nobody else is."""
    r = work.perigee("dry", work.write("s.lua", REPLACE), "--quiet", "--verify")
    eq(r.status, 0, r.out + r.err)
    add, drain = r.summary["timeline"]
    moves = {"to r3": 0, "from r1": 0}
    held = {}
    for x in sorted(r.rows, key=lambda x: x["t"]["start"]):
        start, before = x["t"]["start"], held.get(x["session"])
        eq((x["error"], x["fallback"]), (None, False))
        assert x["served"] != "r3" or start >= add["end_ns"], "r3 before it is up"
        assert x["served"] != "r1" or start < drain["begin_ns"], "r1 after the drain"
        if before and before["served"] != x["served"]:
            moved = "to r3" if start < drain["begin_ns"] else "from r1"
            eq(x["served"] if moved == "to r3" else before["served"], moved.split()[1], "who moved")
            eq(x["cached_tokens"] or 0, 0, moved)
            eq(x["class"], "wrong_pod" if moved == "to r3" else "evicted")
            moves[moved] += 1
        elif before:
            assert x["cached_tokens"] > 800, x
        held[x["session"]] = x
    assert min(moves.values()) > 0, moves
    rotation = {x["id"]: x["rotation"] for x in r.summary["replicas"]}
    eq([rotation["r0"], rotation["r2"]], [1, 1])
    assert 0.5 < rotation["r1"] < 0.8 and 0.5 < rotation["r3"] < 0.8, rotation


def test_mistakes(work):
    path = work.write("s.lua", SCRIPT)
    r = work.perigee("run", path, "--spares", "1", "--replica", "http://127.0.0.1:1")
    eq(r.status, 2)
    assert "--sim, --spares, --profile" in r.err and "are for the built-in fleet" in r.err, r.err
    r = work.perigee("dry", path, "--sim", "4096", "--spares", "1")
    assert r.status != 0 and "4096" in r.err, r.err
    r = work.perigee("dry", path, "--spares", "-1")
    eq(r.status, 2)


THREADS = ["test_spares_get_nothing"]

main(globals())
