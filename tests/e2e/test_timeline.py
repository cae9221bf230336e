"""A plan's timeline and what scripts do to the fleet: over sockets, in virtual time, and every mistake."""
import json

from harness import RELAXED, ROOT, eq, main
from simfleet import fleet

HEAD = """
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local route = require "perigee.route"
local function session(vu)
  local conv = chat.new(vu, { system = gen.text { tokens = 400, seed = "s" } })
  for _ = 1, 3 do
    conv:user(gen.text { tokens = 60, rng = vu.rng })
    if not conv:try_send { max_tokens = 40 } then
      vu:sleep(0.1)
      return
    end
    vu:sleep(0.05)
  end
end
"""

KILL = HEAD + """
return perigee.plan { load = perigee.closed { users = 6, duration = "3s", warmup = "200ms" }, session = session,
  route = route.round_robin(),
  timeline = { { at = "1s", action = "kill", replica = "r1", window = "1s" },
               { at = "1.5s", action = "restart", replica = "r1", down = "300ms", window = "500ms" } } }
"""

LOOSE = [*RELAXED, "--limit", "incomplete_requests=100%", "--limit", "incomplete_sessions=100%"]


def records(summary):
    return [(r["entry"], r["by"], (r["action"] or {}).get("action"), r["state"]) for r in summary["timeline"]]


def failures(span, replica=None):
    part = span["replicas"][replica] if replica else span
    return part["failed"]


def check_kill(r):
    s = r.summary
    eq(records(s), [(1, "timeline", "kill", "done"), (2, "timeline", "restart", "done")], "what was done")
    kill, restart = s["timeline"]
    eq(kill["answer"]["replicas"], ["r1"])
    eq(failures(kill["before"]), 0, "failures before the kill")
    assert failures(kill["during"]) > 0, "nothing failed while r1 was dead"
    eq(failures(kill["during"], "r1"), failures(kill["during"]), "who failed")
    eq(failures(restart["after"]), 0, "failures after it is back")
    assert restart["end_ns"] - restart["begin_ns"] >= 3e8, restart
    assert kill["begin_ns"] - kill["due_ns"] >= 0, kill
    eq(kill["during"]["seconds"], 1, "an instant has a span")
    check = next(c for c in s["checks"] if c["name"] == "timeline")
    eq((check["figure"], check["ok"]), (0, True))
    text = r.report()
    assert "## What was done to the fleet" in text and "kill r1" in text and "restart r1" in text, text
    assert "What was done to the fleet" in r.out, r.out


def test_a_kill_is_seen_while_it_lasts(work):
    path = work.write("kill.lua", KILL)
    for command in ("run", "dry"):
        r = work.perigee(command, path, *LOOSE, "--label", command)
        assert r.status in (0, 99), (r.status, r.err)
        check_kill(r)


def test_a_dry_run_is_exact(work):
    path = work.write("kill.lua", KILL)
    a, b = (work.perigee("dry", path, "--quiet", "--label", str(i)).summary["timeline"] for i in range(2))
    eq(a, b, "twice the same")
    eq([(r["begin_ns"] - r["due_ns"], r["end_ns"] - r["begin_ns"]) for r in a], [(0, 0), (0, 300000000)], "times")


FUNCTIONS = HEAD + """
local fleet = require "perigee.fleet"
return perigee.plan { load = perigee.closed { users = 4, duration = "2s" }, session = session,
  setup = function(vu) return { n = #fleet:reset_cache().reset } end,
  timeline = { { at = "500ms", run = function(f, vu)
      local a = f:restart("r0", { down = "100ms" })
      print("restarted", a.replicas[1], vu.shared.n)
      vu:sleep(0.2)
      print("killed", pcall(f.kill, f, "r9"))
      f:pressure { share = "50%", replica = "*" }
    end }, { at = "1500ms", every = "200ms", times = 2, action = "clear_faults" } },
  teardown = function(vu) print("added", (vu.fleet:add().url:gsub("%d+", "N"))) end }
"""


def test_functions_setup_and_teardown(work):
    path = work.write("f.lua", FUNCTIONS)
    for command in ("run", "dry"):
        r = work.perigee(command, path, "--quiet", *LOOSE, "--label", command, "--workers" if command == "run" else "--seed", "2")
        assert r.status in (0, 99), (r.status, r.err)
        assert "restarted\tr0\t3" in r.err, r.err
        assert f"killed\tfalse\t{path}:25: fleet:kill: no replica \"r9\"; there are r0 to r2" in r.err, r.err
        assert "added\thttp://" in r.err, r.err
        eq(records(r.summary), [(None, "setup", "reset_cache", "done"), (1, "timeline", None, "done"),
                                (None, "timeline[1]", "restart", "done"), (None, "timeline[1]", "kill", "failed"),
                                (None, "timeline[1]", "pressure", "done"), (2, "timeline", "clear_faults", "done"),
                                (2, "timeline", "clear_faults", "done"), (None, "teardown", "add", "done")])


def refused(work, plan, *parts, args=(), command="run", status=2):
    path = work.write("bad.lua", HEAD + plan)
    r = work.perigee(command, path, *args)
    eq(r.status, status, r.err)
    for part in (path, *parts):
        assert part in r.err, (part, r.err)
    return r


def plan(entry, load="duration = '5s'"):
    return f"return perigee.plan {{ load = perigee.closed {{ users = 1, {load} }}, session = session, timeline = {{ {entry} }} }}"


def test_mistakes_are_named_before_anything_starts(work):
    for command in ("run", "dry"):
        for entry, *parts in [
                ("{ at = 1, action = 'restrat', replica = 'r1' }", "timeline[1]: unknown action 'restrat' (did you mean 'restart'?)"),
                ("{ at = 1, action = 'add' }, { at = 2, action = 'restart' }", "timeline[2]: replica: say which, as in \"r0\""),
                ("{ at = 1, action = 'restart', replica = 'r1', dwon = 1 }", "timeline[1]: restart has no field dwon (did you mean down?)"),
                ("{ at = 1, action = 'restart', replica = 'r7' }", "timeline[1]: replica: there is no \"r7\"", "r0 to r2"),
                ("{ at = 1, action = 'fault', fault = 'emtpy' }", "timeline[1]: ", "emtpy"),
                ("{ at = 1, action = 'pressure' }", "timeline[1]: say how much in one way"),
                ("{ at = 'soon', action = 'add' }", "timeline[1]: at"),
                ("{ at = '5s', action = 'add' }", "timeline[1]: at = 5 s is not before the load's end"),
                ("{ at = 1, action = 'restart', replica = 'r1', down = '100s' }",
                 "timeline[1]: restart at 1 s takes 100 s (down), and the load ends at 5 s: it would be cut off"),
                ("{ at = 3, action = 'restart', replica = 'r1' }", "timeline[1]: restart at 3 s takes 2 s (down, by default)"),
                ("{ at = 1, every = '1s', action = 'pressure', share = 0.1, lasts = '1500ms' }",
                 "timeline[1]: pressure at 4 s takes 1.5 s (lasts)"),
                ("{ action = 'add' }", "timeline[1]: at is missing"),
        ]:
            refused(work, plan(entry), "plan: ", *parts, command=command)
    r = work.perigee("run", work.write("bad.lua", HEAD + plan("{ at = 1, action = 'kill', replica = 'r5' }")), "--plan")
    eq(r.status, 2, r.err)
    assert r.folder is None, r.folder
    shown = work.perigee("run", work.write("kill.lua", KILL), "--plan")
    eq(shown.status, 0, shown.err)
    assert "2 actions, the first at 1 s" in shown.out, shown.out
    ok = work.perigee("dry", work.write("ok.lua", HEAD + plan("{ at = 1, action = 'add' }, { at = 2, action = 'kill', replica = 'r3' }")),
                      "--quiet")
    eq((ok.status, records(ok.summary)), (0, [(1, "timeline", "add", "done"), (2, "timeline", "kill", "done")]), ok.err)


def test_what_the_load_did_not_reach_makes_the_run_not_valid(work):
    late = plan("{ at = 1, action = 'kill', replica = 'r0' }, { at = '1.5s', action = 'kill', replica = 'r0' },"
                "{ at = '1h', action = 'reset_cache' }", "sessions = 12")
    r = work.perigee("dry", work.write("late.lua", HEAD + late), "--sim", "1")
    eq(r.status, 98, r.err)
    eq(records(r.summary), [(1, "timeline", "kill", "done"), (2, "timeline", "kill", "failed"),
                            (3, "timeline", "reset_cache", "not_begun")])
    check = next(c for c in r.summary["checks"] if c["name"] == "timeline")
    eq((check["figure"], check["note"]), (2, "3 planned: 1 failed, 1 not begun, 0 cut off"))
    assert "replica r0 is down already" in r.err and "not begun" in r.out, r.err + r.out


def test_what_the_load_cut_off_makes_the_run_not_valid(work):
    sleeps = plan("{ at = 1, run = function(fleet, vu) vu:sleep(100) end }", "duration = '2s'")
    down = plan("{ at = '100ms', action = 'restart', replica = 'r1', down = '1h' }", "sessions = 12")
    for name, script in (("sleeps", sleeps), ("down", down)):
        r = work.perigee("dry", work.write(name + ".lua", HEAD + script), *LOOSE)
        eq((r.status, [x["state"] for x in r.summary["timeline"]]), (98, ["cut_off"]), r.err)
        check = next(c for c in r.summary["checks"] if c["name"] == "timeline")
        eq((check["figure"], check["ok"], check["note"]), (1, False, "1 planned: 0 failed, 0 not begun, 1 cut off"))


def test_a_cache_that_is_not_reset_is_not_done(work):
    path = work.write("reset.lua", HEAD + """
return perigee.plan { load = perigee.closed { users = 9, duration = "2s" }, session = function(vu)
    local conv = chat.new(vu, {})
    conv:user "Say much."
    conv:try_send { max_tokens = 4000, extra = { ignore_eos = true } }
  end,
  timeline = { { at = "1s", action = "reset_cache" } } }""")
    r = work.perigee("dry", path, *LOOSE, "--sim", "1")
    eq((r.status, records(r.summary)), (98, [(1, "timeline", "reset_cache", "failed")]), r.err)
    error = r.summary["timeline"][0]["error"]
    assert error.startswith("no cache was reset: replica r0 has "), error
    assert error.endswith(" in use; reset_running = true empties it all the same"), error
    assert error in r.report(), r.report()


def test_events_need_a_fleet_that_publishes_them(work):
    script = work.write("events.lua", HEAD + plan("{ at = '200ms', action = 'drop_events', count = 2 }", "duration = '1s'"))
    for command in ("run", "dry"):
        r = work.perigee(command, script, "--quiet", *LOOSE, "--label", command)
        eq((r.status, records(r.summary)), (98, [(1, "timeline", "drop_events", "failed")]), r.err)
        assert "the fleet publishes no KV events: start it with --sim-set kv_events=on" in r.err, r.err
    r = work.perigee("run", script, *LOOSE, "--sim-set", "kv_events=on", "--sim", "2")
    eq((r.status, records(r.summary)), (0, [(1, "timeline", "drop_events", "done")]), r.err)
    ends = [(x["id"], x["kv_events"], x["kv_events_replay"]) for x in r.run["fleet"]["replicas"]]
    assert all(e.startswith("tcp://") and p.startswith("tcp://") for _, e, p in ends), ends
    line = ", ".join(f"{i} {e}, replay {p}" for i, e, p in ends)
    eq([b["value"] for b in r.run["banner"] if b["name"] == "kv events"], [line])
    assert line.split(",")[0] in r.report(), r.report()


def test_what_was_done_is_told(work):
    path = work.write("told.lua", HEAD + """
return perigee.plan { load = perigee.closed { users = 3, duration = "3s" }, session = session,
  timeline = { { at = "500ms", action = "pressure", share = "30%" },
    { at = "1s", action = "fault", fault = "429 p=0.5", replica = "r0", lasts = "500ms" },
    { at = "1500ms", run = function(fleet)
        print(select(2, pcall(fleet.fault, fleet, "r1", "429 p=0.5")))
        print(fleet:add().note)
      end } } }""")
    for command in ("run", "dry"):
        r = work.perigee(command, path, *LOOSE, "--label", command)
        text = r.report()
        assert "pressure 30% on all: " in text and " evicted" in text, text
        assert "fault r0: 429 p=0.5, lasts 500ms" in text, text
        assert "before \\*" in text and "Something else was done to the fleet in this span, too." in text, text
        note = "r3 gets no requests: what a script adds is not known when the run begins; --spares 1"
        assert note in text and r.err.count(note) >= 1, r.err + text
        assert 'a table of fields is expected, got string; as in fleet:fault("429 p=0.5", { replica = "r1", lasts' in r.err, r.err


def test_servers_of_ones_own(work):
    with fleet(work, "--replicas", "2") as sim:
        urls, port = [r["url"] for r in sim.announce["replicas"]], sim.announce["admin"]
        where = [a for i, url in enumerate(urls) for a in ("--replica", f"r{i}={url}")]
        refused(work, plan("{ at = 1, action = 'kill', replica = 'r1' }"), "timeline[1]: kill is for the built-in fleet",
                "admin = {url =, token =}", args=where)
        script = HEAD + ("return perigee.plan { load = perigee.closed { users = 1, sessions = 1 }, session = function(vu) "
                         "print(pcall(vu.fleet.kill, vu.fleet, 'r1')) end }")
        r = work.perigee("run", work.write("s.lua", script), "--quiet", *where, *LOOSE)
        assert "fleet:kill: these servers cannot be told to" in r.err, r.err
        replicas = ", ".join(f"{{ id = 'r{i}', url = '{u}' }}" for i, u in enumerate(urls))
        admin = f"admin = {{ url = '{port['url']}', token = '{port['token']}' }}"
        file = work.write("fleet.lua", f"return {{ replicas = {{ {replicas} }}, {admin} }}")
        path = work.write("ok.lua", HEAD + plan("{ at = '300ms', action = 'restart', replica = 'r1', down = '100ms' }",
                                                "duration = '1s'"))
        r = work.perigee("run", path, "--quiet", "--fleet", file, *LOOSE)
        assert r.status in (0, 99), (r.status, r.err)
        eq(records(r.summary), [(1, "timeline", "restart", "done")])
        assert port["token"] not in json.dumps(r.run) + json.dumps(r.summary) + r.report(), "the secret is kept"
        # The file's names are its own: r1 there is the simulated fleet's r0.
        for mine, theirs in (("r1", "r0"), ("a", "b")):
            swapped = f"{{ id = '{mine}', url = '{urls[0]}' }}, {{ id = '{theirs}', url = '{urls[1]}' }}"
            other = work.write("swapped.lua", f"return {{ replicas = {{ {swapped} }}, {admin} }}")
            by_name = HEAD + (f"return perigee.plan {{ load = perigee.closed {{ users = 2, duration = '1s' }}, session = session, "
                              f"timeline = {{ {{ at = '200ms', action = 'restart', replica = '{mine}', down = '100ms' }} }}, "
                              f"teardown = function(vu) print(pcall(vu.fleet.kill, vu.fleet, 'r9')) end }}")
            before = {x["id"]: x["processes"] for x in sim.state()["replicas"]}
            r = work.perigee("run", work.write("named.lua", by_name), "--quiet", "--fleet", other, *LOOSE)
            assert r.status in (0, 99), (r.status, r.err)
            eq(r.summary["timeline"][0]["answer"]["replicas"], [mine], "whom the answer names")
            after = {x["id"]: x["processes"] for x in sim.state()["replicas"]}
            eq({k: after[k] - before[k] for k in after}, {"r0": 1, "r1": 0}, "who was restarted")
            assert f'no replica "r9"; there are {mine}, {theirs}' in r.err, r.err
        stranger = work.write("stranger.lua", f"return {{ replicas = {{ {replicas}, {{ id = 'x', url = 'http://127.0.0.1:1' }} }}, {admin} }}")
        r = work.perigee("run", path, "--no-preflight", "--model", "sim-model", "--fleet", stranger)
        eq(r.status, 2, r.err)
        assert "replica x: http://127.0.0.1:1 is none of the fleet whose admin port is" in r.err, r.err
        refused(work, plan("{ at = 1, action = 'kill', replica = 'r2' }"), "replica: there is no \"r2\" among the fleet's 2",
                args=["--fleet", file])
        bad = work.write("bad_fleet.lua", f"return {{ replicas = {{ {replicas} }}, admin = {{ token = 'x' }} }}")
        r = work.perigee("run", path, "--fleet", bad)
        eq(r.status, 2)
        assert "admin: url is missing" in r.err, r.err


ROTATION = HEAD + """
return perigee.plan { load = perigee.closed { users = 6, duration = "4s" }, session = session,
  route = route.round_robin(),
  timeline = { { at = "500ms", action = "add", start = "200ms" }, { at = "1.5s", action = "drain", replica = "r1" },
               { at = "2.5s", action = "restart", replica = "r1", down = "200ms" } } }
"""


def test_the_client_follows_what_it_can_know(work):
    path = work.write("rotation.lua", ROTATION)
    for command in ("run", "dry"):
        r = work.perigee(command, path, "--quiet", *LOOSE, "--label", command)
        eq(r.status, 0, r.err)
        add, drain, restart = r.summary["timeline"]
        eq([x["state"] for x in (add, drain, restart)], ["done"] * 3, "states")
        starts = {k: [row["t"]["start"] for row in r.rows if row["served"] == k] for k in ("r0", "r1", "r2", "r3")}
        assert starts["r3"] and min(starts["r3"]) >= add["end_ns"], "r3 is asked once it is up"
        out = [t for t in starts["r1"] if drain["begin_ns"] + 5e7 < t < restart["end_ns"]]
        eq(out, [], "requests to r1 while it is drained")
        assert max(starts["r1"]) > restart["end_ns"], "r1 is asked again"
        eq(r.summary["requests"]["failed"], 0, "failed")


def rows_of(r, replica=None):
    return [x for x in r.rows if x["generation"] and x["measured"] and (not replica or x["chosen"] == replica)]


def check_costs(r):
    done = r.summary["timeline"][0]
    begin, end = done["begin_ns"], done["end_ns"]
    for name in ("before", "during", "after"):
        span = done[name]
        for id, cell in [(None, span), ("r1", span["replicas"]["r1"])]:
            rows = [x for x in rows_of(r, id) if span["from_ns"] <= x["t"]["start"] < span["to_ns"]]
            good = [x for x in rows if x["error"] is None]
            eq(cell["requests"], len(rows), f"requests {name} of {id}")
            eq(cell["failed"], sum(span["from_ns"] <= x["t"]["done"] < span["to_ns"] for x in rows_of(r, id)
                                   if x["error"]), f"failed {name} of {id}")
            eq(cell["prompt_tokens"], sum(x["prompt_tokens"] for x in good), f"prompt tokens {name} of {id}")
            eq(cell["cached_tokens"], sum(x["cached_tokens"] or 0 for x in good), f"cached tokens {name} of {id}")
    # Who asked r1 while it was away failed; who lived there computes everything once, and then goes on as before.
    away = [x for x in rows_of(r, "r1") if begin <= x["t"]["start"] < end]
    assert away and all(x["error"] for x in away), away
    eq([x["error"] for x in rows_of(r) if x["chosen"] != "r1" and x["error"]], [], "failures elsewhere")
    moved = 0
    for session in {x["session"] for x in r.rows if x["chosen"] == "r1"}:
        good = sorted((x for x in r.rows if x["session"] == session and x["error"] is None), key=lambda x: x["turn"])
        for last, x in zip(good, good[1:]):
            first_behind = last["t"]["start"] < begin and x["t"]["start"] >= end
            moved += first_behind
            want = 0 if first_behind else (last["prompt_tokens"] - 1) // 16 * 16
            assert (x["cached_tokens"] or 0) == want if first_behind else (x["cached_tokens"] or 0) >= want, (last, x)
    assert moved >= 1, "nobody lived on r1"  # how many did is the load's, which on sockets is not the same each time
    return moved


def test_replica_restart(work):
    scenario = f"{ROOT}/scenarios/replica_restart.lua"
    r = work.perigee("dry", scenario, "--quiet")
    eq((r.status, [e["met"] for e in r.summary["expectations"]]), (0, [True, True]), r.out)
    eq(check_costs(r), 3, "sessions that lived on r1")
    none = work.perigee("dry", scenario, "--quiet", "--set", "action=kill", "--limit", "incomplete_requests=100%")
    eq(none.summary["timeline"][0]["action"], {"action": "kill", "replica": "r1"})
    assert "r1 answered nothing behind it" in none.summary["expectations"][1]["reason"], none.summary["expectations"]


def test_replica_restart_on_sockets(work):
    r = work.perigee("run", f"{ROOT}/scenarios/replica_restart.lua", "--quiet", *LOOSE)
    eq(r.status, 0, r.out)
    check_costs(r)


THREADS = ["test_the_client_follows_what_it_can_know", "test_functions_setup_and_teardown", "test_a_kill_is_seen_while_it_lasts"]

main(globals())
