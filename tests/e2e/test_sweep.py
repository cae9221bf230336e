"""Sweeps: every point is a run of its own, with the same sessions; what finished stays, whatever the others do."""
import collections
import json
import os
import signal
import time

from harness import RELAXED, ROOT, Server, eq, has, main, matches, simple_chat, wait_until

HEAD = """--- A sweep of a test.
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
local route = require "perigee.route"
local depth = perigee.param("depth", 2, "turns of a session")
local pause = perigee.param("pause", 0, "before a session says anything, s")
local broken = perigee.param("broken", "no", "what setup makes of it")

local function session(vu)
  vu:sleep(pause)
  local conv = chat.new(vu, { system = gen.text { tokens = 60, seed = "system" } })
  for _ = 1, depth do
    conv:user(gen.text { tokens = 20, rng = vu.rng })
    conv:send { max_tokens = 4 }
  end
end

local plan = perigee.plan {
  load = perigee.closed { users = 2, sessions = 4 },
  session = session,
  setup = function() if broken == "setup" then error("out of order") end end,
  expect = { "failed share < 1%", "prompt_tokens mean < 400" },
}
local policies = { { "sticky", route.session_hash() }, { "spread", route.round_robin() } }
"""


def sweep(over, more=""):
    return HEAD + f"return perigee.sweep {{ plan = plan, over = {{ {over} }}, {more} }}\n"


GRID = '{ "kv_blocks", { 100, 400 } }, { "route", policies }'


def run(work, script, *args):
    work.write("s.lua", script)
    return work.perigee("run", "s.lua", "--quiet", *RELAXED, *args)


def read(result):
    with open(os.path.join(result.folder, "sweep.json"), encoding="utf-8") as f:
        return json.load(f)


def load(result, point, name):
    with open(os.path.join(result.folder, point["folder"], name), encoding="utf-8") as f:
        return json.load(f)


def refused(work, script, *args):
    result = run(work, script, *args)
    eq(result.status, 2, result.err)
    assert not os.path.exists(os.path.join(work.path, "results")), result.err
    return result.err


def test_a_grid(work):
    result = run(work, sweep(GRID), "--sim", "2")
    eq(result.status, 0, result.err)
    doc = read(result)
    eq([a["name"] for a in doc["axes"]], ["kv_blocks", "route"])
    eq(doc["axes"][1], {"name": "route", "kind": "route", "values": ["sticky", "spread"]})
    eq([p["values"] for p in doc["points"]], [{"kv_blocks": k, "route": r} for k in (100, 400) for r in ("sticky", "spread")])
    eq(doc["outcome"], {"status": 0, "reason": "4 points: 4 are fine"})
    eq((doc["n_points"], doc["simulated"], doc["interrupted"]), (4, True, False))
    eq(doc["expectations"], [{"text": t, "met": 4, "of": 4, "not_met_at": []}
                             for t in ("failed share < 1%", "prompt_tokens mean < 400")])
    for number, point in enumerate(doc["points"], 1):
        assert point["folder"].startswith(f"{number}-kv_blocks-{point['values']['kv_blocks']}-route-"), point["folder"]
        summary, info = load(result, point, "summary.json"), load(result, point, "run.json")
        eq(point["requests"], summary["requests"])
        eq(point["metrics"]["ttft"]["mean"], summary["metrics"]["ttft"]["mean"])
        eq(info["sweep"], {"point": number, "of": 4, "values": point["values"]})
        eq(len(info["fleet"]["replicas"]), 2)
        policies = {p["policy"] for p in summary["policies"]}
        eq(policies, {"session_hash" if point["values"]["route"] == "sticky" else "round_robin"})
        has(str(info["banner"]), f"point {number} of 4 of a sweep: kv_blocks=")
        assert os.path.exists(os.path.join(result.folder, point["folder"], "report.md"))
    for text in (result.out, result.report()):
        for part in ("Expectations at every point", "cached_ratio mean by route", "4 of 4", "Simulated:"):
            has(text, part)
    eq(result.err, "")


def test_sets_of_the_fleet(work):
    """The point's own settings reach the engines, beside those of the command line."""
    result = run(work, sweep('{ "replicas", { 1, 3 } }, { "profile", { "tiny", "fixed" } }, { "block_size", { 8 } }'),
                 "--sim-set", "kv_blocks=77", "--json")
    eq(result.status, 0, result.err)
    doc = json.loads(result.out)
    eq(doc, read(result))
    eq([len(load(result, p, "run.json")["fleet"]["replicas"]) for p in doc["points"]], [1, 1, 3, 3])
    eq({load(result, p, "run.json")["fleet"]["block_size"] for p in doc["points"]}, {8})
    banners = [str(load(result, p, "run.json")["banner"]) for p in doc["points"]]
    for banner, profile in zip(banners, ("tiny", "fixed", "tiny", "fixed")):
        has(banner, f"of profile {profile} (simulated)")
        has(banner, "kv_blocks=77; block_size=8")


def test_every_point_says_the_same(work):
    """Users, policies: nothing of a point reaches what its sessions say. With parameters it is the script's."""
    bodies = collections.Counter()

    def handler(request, c):
        if request.path == "/v1/chat/completions":
            bodies[request.body] += 1
        simple_chat(c)

    with Server(handler) as a, Server(handler) as b:
        result = run(work, sweep('{ "users", { 1, 4 } }, { "route", policies }'), "--replica", a.url, "--replica", b.url,
                     "--model", "test-model", "--no-preflight")
        eq(result.status, 0, result.err)
        eq(set(bodies.values()), {4}, "each body once at every point")
        eq(len(bodies), 8)
    doc = read(result)
    eq([load(result, p, "run.json")["load"]["users"] for p in doc["points"]], [1.0, 1.0, 4.0, 4.0])
    eq({p["simulated"] for p in doc["points"]}, {False})


def test_parameters_are_read_with_the_script(work):
    result = run(work, sweep('{ "depth", { 1, 3 } }, { "pause", { "10ms" } }'), "--set", "sessions=2")
    eq(result.status, 0, result.err)
    doc = read(result)
    eq([p["requests"]["ok"] for p in doc["points"]], [2, 6])
    eq([load(result, p, "run.json")["params"] for p in doc["points"]],
       [{"depth": d, "pause": "0.01", "broken": "no"} for d in "13"])


def test_one_point_alone(work):
    result = run(work, sweep(GRID), "--point", "3", "--sim", "2")
    eq(result.status, 0, result.err)
    eq(result.run["sweep"], {"point": 3, "of": 4, "values": {"kv_blocks": 400, "route": "sticky"}})
    has(result.out, "point 3 of 4 of a sweep: kv_blocks=400 route=sticky")
    has(result.out, "kv_blocks=400")
    has(refused_alone(work, "--point", "5"), "--point 5: the sweep has 4 points")
    has(refused_alone(work, "--point", "0"), "--point: 0 is out of range (1 or more)")


def refused_alone(work, *args):
    result = run(work, sweep(GRID), *args)
    eq(result.status, 2)
    return result.err


def test_other_values(work):
    result = run(work, sweep(GRID), "--over", "kv_blocks=90,200,300", "--over", "route=spread")
    eq(result.status, 0, result.err)
    eq([p["values"] for p in read(result)["points"]], [{"kv_blocks": k, "route": "spread"} for k in (90, 200, 300)])
    for args, says in (("kv_block=1", "--over: the sweep has no axis 'kv_block' (did you mean 'kv_blocks'?); it has kv_blocks, route"),
                       ("route=fast", "--over: the sweep has no policy 'fast'; it has sticky, spread"),
                       ("kv_blocks", '--over: "kv_blocks" is not AXIS=VALUE,VALUE'), ("kv_blocks=", "is not AXIS=VALUE"),
                       ("kv_blocks=1,,2", "has an empty value"), ("kv_blocks=9,9", "has the value 9 twice"),
                       ("kv_blocks=many", "s.lua:26: sweep: point 1 (kv_blocks=many route=sticky): --sim-set: kv_blocks=many: a whole")):
        has(refused_alone(work, "--over", args), says)


def test_plan(work):
    script = sweep('{ "duration", { "5s", "10s" } }, { "depth", { 1, 2 } }').replace("sessions = 4", 'duration = "1s", warmup = "1s"')
    result = run(work, script, "--plan")
    eq(result.status, 0, result.err)
    eq(result.folder, None)
    for part in ("sweep over  duration: 5s, 10s\n            depth: 1, 2\n", "points       1  duration=5s depth=1\n",
                 "             4  duration=10s depth=2\n", "4 points, one after another: at most 4m 34s with the drains"):
        has(result.out, part)
    result = run(work, sweep(GRID), "--plan")
    has(result.out, "in all      4 points, one after another, each until its sessions have ended")
    has(result.out, "routing     the policy of each point")
    has(run(work, sweep(GRID), "--plan", "--point", "2").out, "sweep       point 2 of 4 of a sweep: kv_blocks=100 route=spread")


def test_a_point_that_fails(work):
    """Its status is the sweep's, its folder stays what it is, and the others run."""
    result = run(work, sweep('{ "broken", { "no", "setup", "still no" } }'))
    eq(result.status, 1, result.err)
    doc = read(result)
    eq([p["status"] for p in doc["points"]], [0, 1, 0])
    eq(doc["outcome"]["reason"], "3 points: 2 are fine, 1 failed")
    eq(doc["points"][1]["values"], {"broken": "setup"})
    has(result.err, "out of order")
    has(doc["points"][1]["reason"], "out of order")
    has(result.report(), "out of order")
    has(result.out, "Points that did not go well")


def test_why_a_point_has_nothing(work):
    """One whose script does not load leaves no summary: what its process said is the reason."""
    script = HEAD.replace("local function session", 'if broken == "load" then error("cannot be loaded") end\nlocal function session')
    work.write("s.lua", script + 'return perigee.sweep { plan = plan, over = { { "broken", { "no", "load" } } } }\n')
    result = work.perigee("dry", "s.lua", "--quiet")
    eq(result.status, 2, result.err)
    reason = read(result)["points"][1]["reason"]
    has(reason, "it ended with status 2 and left no summary: ")
    has(reason, "cannot be loaded")
    has(result.report(), "cannot be loaded")


def test_why_a_point_is_not_valid(work):
    work.write("s.lua", sweep('{ "depth", { 1, 2 } }'))
    result = work.perigee("run", "s.lua", "--quiet", *RELAXED, "--fault", "no_usage")
    eq(result.status, 98, result.err)
    point = read(result)["points"][0]
    eq(point["valid"], False)
    eq([c["ok"] for c in point["broken"]][:1], [False])
    has(result.report(), point["broken"][0]["name"] + " (")


def test_what_is_done_to_the_fleet(work):
    """A table per action, over the points; a replica that is not there is named with the way out."""
    timed = HEAD.replace("sessions = 4", 'duration = "8s"').replace("session = session,", """session = session,
  timeline = { { at = "3s", action = "restart", replica = "r1", down = "1s", window = "2s" } },""")
    script = timed.replace('"failed share < 1%"', '{ "anything", function() return true end }').replace("vu:sleep(pause)", "vu:sleep(0.2)")
    work.write("s.lua", script + 'return perigee.sweep { plan = plan, over = { { "replicas", { 2, 3 } }, { "kv_blocks", { 500 } } } }\n')
    result = work.perigee("dry", "s.lua")
    doc = read(result)
    for point in doc["points"]:
        eq([(a["action"]["action"], a["state"], a["at_s"]) for a in point["timeline"]], [("restart", "done", 3)])
        assert point["timeline"][0]["before"]["requests"] > 0
        eq(list(point["timeline"][0]["before"]["replicas"]), ["r1"])
    for text in (result.out, result.report()):
        has(text, "restart r1 at 3.00 s, requests of r1")
    eq(doc["expectations"][0]["text"], "anything")
    matches(result.err, r"point 1 of 2 · draining: .* of [1-9]\d* requests.* [1-9]\d* done")
    has(result.out, "parameters  depth=2, pause=0, broken=no")
    work.write("s.lua", script + 'return perigee.sweep { plan = plan, over = { { "replicas", { 1, 2 } } } }\n')
    has(work.perigee("dry", "s.lua", "--quiet").err, "r0 to r0 (the sweep's axis replicas")


def test_expectations_at_every_point(work):
    result = run(work, sweep('{ "depth", { 1, 2, 30 } }'))
    eq(result.status, 99, result.err)
    doc = read(result)
    eq([p["status"] for p in doc["points"]], [0, 0, 99])
    eq(doc["expectations"][1], {"text": "prompt_tokens mean < 400", "met": 2, "of": 3, "not_met_at": [3]})
    matches(result.out, r"✗  prompt_tokens mean < 400 +2 of 3 +3 ")
    eq(run(work, sweep('{ "depth", { 30 } }'), "--exit-codes=bisect").status, 1)
    eq(run(work, sweep('{ "broken", { "setup" } }'), "--exit-codes", "bisect").status, 125)


def folders(work):
    base = os.path.join(work.path, "results")
    names = os.listdir(base) if os.path.isdir(base) else []
    return sorted(os.listdir(os.path.join(base, names[0]))) if names else []


def started(work, number):
    return any(name.startswith(f"{number}-") for name in folders(work))


def test_ctrl_c_keeps_what_finished(work):
    work.write("s.lua", sweep('{ "pause", { 0, 100, 200 } }'))
    process = work.start("run", "s.lua", *RELAXED)
    wait_until(lambda: started(work, 2), process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)  # the drain too
    result = work.finish(process)
    eq(result.status, 130, result.err)
    doc = read(result)
    eq([p["status"] for p in doc["points"]], [0, 130])
    eq(doc["points"][0]["requests"]["ok"], 8)
    eq(doc["interrupted"], True)
    has(doc["outcome"]["reason"], "2 of 3 points: 1 is fine, 1 was interrupted")
    has(result.out, "INTERRUPTED")
    assert not started(work, 3), folders(work)
    matches(result.err, r"point 1 of 3  pause=0  .*ttft p50|point 1 of 3  pause=0  ")


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_point_ends_with_its_sweep(work):
    work.write("s.lua", sweep('{ "pause", { 100 } }'))
    process = work.start("run", "s.lua", *RELAXED)
    wait_until(lambda: started(work, 1), process)
    below = children(process.pid)
    eq(len(below), 1)
    below += children(below[0])
    process.kill()
    process.communicate()
    # SIGTERM ends the load; the sessions drain, so a second one is theirs
    for pid in below[:1]:
        if alive(pid):
            os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not any(alive(pid) for pid in below))


def test_a_point_that_is_killed(work):
    work.write("s.lua", sweep('{ "pause", { 100, 0 } }'))
    process = work.start("run", "s.lua", *RELAXED)
    wait_until(lambda: started(work, 1) and children(process.pid), process)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    result = work.finish(process)
    eq(result.status, 1, result.err)
    points = read(result)["points"]
    eq([p["status"] for p in points], [137, 0])
    eq(points[0]["reason"], "its process was ended by signal 9")


def test_what_is_wrong_is_said_before_anything_runs(work):
    cases = [
        ('{ "kv_block", { 1 } }', "s.lua:26: sweep: there is no axis 'kv_block' (did you mean 'kv_blocks'?)"),
        ('{ "dept", { 1 } }', "there is no axis 'dept' (did you mean 'depth'?)"),
        ('{ "zzzzzz", { 1 } }', "the script declares no such parameter; axes are replicas, profile, route, the load's users"),
        ('{ "replicas", { 0 } }', "s.lua:26: sweep: replicas=0: a whole number of replicas from 1 to 4096 is expected"),
        ('{ "replicas", { 1.5 } }', "replicas=1.5: a whole number of replicas"),
        ('{ "rate", { 3 } }', "sweep: point 1 (rate=3): the load is closed (a number of users); it has users instead"),
        ('{ "users", { 1, "many" } }', "sweep: point 2 (users=many): "),
        ('{ "users", { 0 } }', "sweep: point 1 (users=0): "),
        ('{ "profile", { "tiny", "tinny" } }', 'point 2 (profile=tinny): --profile'.split(": --")[0]),
        ('{ "kv_blocks", { 9 } }, { "max_model_len", { 99, 9999 } }', "point 2 (kv_blocks=9 max_model_len=9999): --sim-set: max_model_len"),
        ('{ "kv_blocks", { 9 } }, { "kv_tokens", { 9 } }', "kv_blocks and kv_tokens say the same of a replica"),
        ('{ "depth", { "deep" } }', "s.lua:26: sweep: over[1] (depth)[1]: the parameter is a number, as its default 2"),
        ('{ "replicas", {} }', "s.lua:26: sweep: over[1] (replicas): the list of values is empty"),
    ]
    for over, says in cases:
        has(refused(work, sweep(over)), says, over)
    over = GRID.replace("100, 400", "100")
    for args, says in ((("--sim-set", "kv_blocks=7"), "--sim-set says what the sweep's axis kv_blocks varies; --over kv_blocks=VALUE"),
                       (("--truth", "t.jsonl"), "--truth names one file"),
                       (("--replica", "http://127.0.0.1:9"), "the sweep's axis kv_blocks is a setting of the built-in fleet, and --replica names"),
                       (("--gateway", "http://127.0.0.1:9"), "and --gateway names servers of your own"),
                       (("--over", "route=x"), "no policy 'x'")):
        has(refused(work, sweep(over), *args), says, str(args))
    has(refused(work, sweep('{ "depth", { 1 } }'), "--set", "depth=3"), "--set says what the sweep's axis depth varies")
    has(refused(work, sweep('{ "replicas", { 1 } }'), "--sim", "3"), "--sim says what the sweep's axis replicas varies")
    has(refused(work, sweep('{ "profile", { "tiny" } }'), "--profile", "fixed"), "--profile says what")
    target = sweep(over).replace("setup =", 'target = "http://127.0.0.1:9", setup =')
    has(refused(work, target), "the plan's target names servers of your own")
    eq(run(work, target, "--sim", "2").status, 0)


def test_a_plan_is_no_sweep(work):
    plan = HEAD + "return plan\n"
    has(refused(work, plan, "--point", "1"), "--point is for a sweep, and s.lua:19 returns a plan")
    has(refused(work, plan, "--over", "depth=1"), "--over is for a sweep")
    has(refused(work, HEAD + "return { plan = plan }\n"), "the script returned table, not a plan")


def test_so_many_points_need_leave(work):
    values = "{ " + ", ".join(str(i) for i in range(1, 102)) + " }"
    over = f'{{ "users", {values} }}, {{ "kv_blocks", {values} }}'
    has(refused(work, sweep(over)), "10201 points are more than the usual limit, 10000; fewer values (--over takes some of "
        "an axis), or limit = 10201 in perigee.sweep allows so many")
    has(refused(work, sweep(over, "limit = 3")), "10201 points are more than its limit, 3")
    result = run(work, sweep(over, "limit = 10201"), "--plan")
    eq(result.status, 0, result.err)
    has(result.out, "… and 10101 more")
    has(result.out, "how long is not computed beyond 100 points")


def test_in_virtual_time(work):
    """The shipped sweep, whole: where the working set fits nothing more is gained, and policies differ from two on."""
    result = work.perigee("dry", os.path.join(ROOT, "scenarios/capacity_sweep.lua"), "--quiet", "--json")
    eq(result.status, 0, result.err)
    doc = json.loads(result.out)
    eq(doc["outcome"], {"status": 0, "reason": "18 points: 18 are fine"})
    ratio = {tuple(p["values"].values()): p["metrics"]["cached_ratio"]["mean"] for p in doc["points"]}
    eq(ratio[1, 600, "sticky"], ratio[1, 600, "spread"])
    assert ratio[1, 150, "sticky"] < ratio[1, 300, "sticky"] - 0.1 < ratio[1, 600, "sticky"] - 0.2, ratio
    for replicas in (2, 4):
        assert ratio[replicas, 600, "sticky"] > ratio[replicas, 600, "spread"] + 0.03, ratio
    eq(ratio[4, 300, "sticky"], ratio[4, 600, "sticky"])
    assert load(result, doc["points"][0], "run.json")["virtual_time"]


def test_list_shows_it(work):
    work.write("scenarios/mine.lua", sweep(GRID))
    matches(work.perigee("list").out, r"scenarios/mine\.lua +sweep: A sweep of a test\.")
    eq(json.loads(work.perigee("list", "--json", "scenarios").out)[0]["kind"], "sweep")


THREADS = ["test_a_grid", "test_ctrl_c_keeps_what_finished"]

main(globals())
