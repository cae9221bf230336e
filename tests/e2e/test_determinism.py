"""What a session says comes from (seed, session number) alone: not from the number of workers, nor the hash seed.

Every shipped scenario is run with 1, 2 and 4 workers (each process has its own hash seed) against a server that
keeps the request bodies; the bodies of all sessions must be equal, byte for byte, and differ under another seed.
"""
import collections

from harness import ROOT, Server, eq, main, simple_chat

# Enough parameters to make each scenario short; all are documented in the scenario itself.
SCENARIOS = {
    "chat_multi_turn": ["--set", "rate=20", "--set", "sessions=6", "--set", "warmup=0", "--set", "reading=5ms"],
    "tool_loop_branching": ["--set", "users=3", "--set", "sessions=6"],
    "capacity_sweep": ["--set", "users=3", "--set", "sessions=6", "--set", "pause=5ms"],
    "cache_eviction": ["--set", "documents=4", "--set", "order=random"],
    "wrong_replica": ["--set", "users=3", "--set", "sessions=6", "--set", "between=0.01"],
    "replica_restart": ["--set", "users=3", "--set", "sessions=6", "--set", "turns=2", "--set", "think=0.005", "--set", "warmup=0"],
    "tuning_loop": ["--set", "sessions=6", "--set", "pause=5ms"],
}


def bodies(work, scenario, args, workers, seed):
    kept = []

    def handler(request, c):
        kept.append(request.body)
        simple_chat(c)

    with Server(handler) as server:
        # Of a sweep, its plan: the settings of the fleet that it sweeps over are not this server's. Nor can this server
        # be restarted.
        script = work.write("s.lua", f'local s = require "{scenario}"\nlocal plan = s.axes and s.plan or s\n'
                            'plan.timeline = nil\nreturn plan\n')
        result = work.perigee("run", script, "--replica", server.url, "--model", "test-model",
                              "--tokenizer", "bytes", "--workers", str(workers), "--seed", str(seed), *args,
                              env={"PERIGEE_PATH": f"{ROOT}/scenarios:{ROOT}/scenarios/lib"})
        assert not server.errors, server.errors[0]
        assert result.folder, result.err
        eq({r["error"] for r in result.rows}, {None}, f"{scenario}: {result.err}")
        return collections.Counter(kept)


def check(work, scenario):
    args = SCENARIOS[scenario]
    first = bodies(work, scenario, args, 1, 7)
    assert sum(first.values()) >= 12, f"only {sum(first.values())} requests"
    for workers in (2, 4):
        other = bodies(work, scenario, args, workers, 7)
        assert first == other, f"{scenario}: {len(first - other)} bodies differ between 1 and {workers} workers"
    assert first != bodies(work, scenario, args, 1, 8), "another seed says other things"


def test_chat_multi_turn(work):
    check(work, "chat_multi_turn")


def test_tool_loop_branching(work):
    check(work, "tool_loop_branching")


def test_capacity_sweep(work):
    check(work, "capacity_sweep")


def test_cache_eviction(work):
    check(work, "cache_eviction")


def test_wrong_replica(work):
    check(work, "wrong_replica")


def test_replica_restart(work):
    check(work, "replica_restart")


def test_tuning_loop(work):
    check(work, "tuning_loop")


NESTED = """
local perigee = require "perigee"
local completions = require "perigee.completions"
return perigee.plan {
  load = perigee.closed { users = 2, sessions = 2 },
  params = { reverse = perigee.param("reverse", 0, "") },
  session = function(vu)
    vu:all({ 1, 2, 3 }, function(child, _, i)
      child:sleep(0.03 * (vu.params.reverse == 1 and 4 - i or i))
      child:all({ 1, 2 }, function(grandchild, _, k)
        completions.new(grandchild):send { prompt = ("%d %d"):format(i, k), max_tokens = 2 }
      end)
    end)
  end,
}
"""


def test_branches_are_numbered_by_who_forks(work):
    """Not by which child happens to be first: its own children have its number in theirs."""
    work.write("nested.lua", NESTED)

    def numbers(reverse):
        with Server(lambda request, c: simple_chat(c)) as server:
            result = work.perigee("run", "nested.lua", "--replica", server.url, "--model", "test-model",
                                  "--set", f"reverse={reverse}", "--workers", "2")
        return sorted((r["session"], r["branch"], r["parent"]) for r in result.rows)

    eq(numbers(0), [(s, i * 1000 + k, i) for s in (0, 1) for i in (1, 2, 3) for k in (1, 2)])
    eq(numbers(1), numbers(0))


main(globals())
