"""perigee calibrate: the profile of the built-in fleet comes back out of a run against it, and bad runs are refused.

The closed loop, in virtual time: scenarios/calibrate.lua on profile X, calibrate, and the fitted profile has X's
prefill rate within 3 %, its decode steps within 5 %, its overhead (with a step's); a fleet of the fitted profile
answers another scenario within 5 % of X's. The rows of the other tests are made here.
"""
import json
import os
from random import Random

from harness import ROOT, eq, has, main

CALIBRATE = os.path.join(ROOT, "scenarios", "calibrate.lua")
MS = 1_000_000

# name: prefill tokens/s, s per token and context token, overhead + one step (s), decode base (with the step's
# overhead), s a sequence, s a token of context; as src/kv/steptime.c has them, which tests/unit/test_steptime.c
# holds against facts §8.3
PROFILES = {
    "llama-3.1-8b": (30000, 0, 0.016753, 6.823e-3, 4.4e-6, 76.2e-9),
    "qwen3-32b": (15900, 0, 0.01778, 14.92e-3, 4.4e-6, 76.2e-9),
    "gpt-oss-20b": (45000, 0, 0.016496, 6.466e-3, 4.4e-6, 28.6e-9),
    "adr-04": (8370, 9.04e-9, 0.291896, 6.466e-3, 4.4e-6, 28.6e-9),
    "tiny": (20000, 0, 0.0012, 4.9e-3, 10e-6, 10e-9),
}

OTHER = """
local perigee = require "perigee"
local completions = require "perigee.completions"
local gen = require "perigee.gen"
return perigee.plan {
  load = perigee.closed { users = 3, sessions = 9 },
  session = function(vu)
    local client, text = completions.new(vu), gen.text { tokens = 3000, rng = vu.rng }
    for turn = 1, 3 do
      client:send { prompt = text, max_tokens = 30 }
      text = gen.join({ text, gen.text { tokens = 700, rng = vu.rng } }, " ")
    end
  end,
}
"""


def within(got, want, share, what):
    assert abs(got - want) <= share * want, f"{what}: {got:g}, expected {want:g} within {share:.0%}"


def dry(work, script, profile, folder, *args):
    result = work.perigee("dry", script, "--sim", "1", "--itl", "--profile", profile, "--out", folder, *args)
    eq(result.status, 0, result.err + result.out[-1500:])
    return os.path.join(folder, os.listdir(os.path.join(work.path, folder))[0])


def step(fitted, batch, context):
    return fitted["decode_base"] + batch * fitted["decode_seq"] + batch * context * fitted["decode_context"]


def hold_against(profile, fitted):
    rate, context, overhead, base, seq, per = PROFILES[profile]
    p, d = fitted["prefill"], fitted["decode"]
    if not context:
        within(p["prefill_tokens_per_s"], rate, 0.03, f"{profile} prefill rate")
    for n in (500, 2000, 8000):  # what it takes with the term of the context
        within(n / p["prefill_tokens_per_s"] + p["prefill_context"] * n * n / 2, n / rate + context * n * n / 2, 0.03,
               f"{profile} prefill of {n}")
    within(p["request_overhead"], overhead, 0.03, f"{profile} overhead")
    for batch in (1, 2, 8, 32, 64):
        for tokens in (100, 1024, 8192):
            within(step(d, batch, tokens), base + batch * seq + batch * tokens * per, 0.05,
                   f"{profile} step at {batch}, {tokens}")


def calibrated(work, profile, *given):
    run = dry(work, CALIBRATE, profile, "recorded")
    made = work.perigee("calibrate", run, "--out", "fitted.lua", "--json", *given)
    eq(made.status, 0, made.err)
    fitted = json.loads(made.out)
    eq(fitted["simulated"], True)
    text = open(os.path.join(work.path, "fitted.lua"), encoding="utf-8").read()
    has(text, "SIMULATED")
    has(text, "simulated run")
    return fitted


def closed_loop(work, profile, *given, **facts):
    """In virtual time: tests/clock/test_calibrate.py does the same over sockets."""
    fitted = calibrated(work, profile, *given)
    hold_against(profile, fitted)
    for name, value in facts.items():
        eq(fitted[name], value)
    figures = []
    work.write("other.lua", OTHER)
    for name, folder in ((profile, "theirs"), ("fitted.lua", "ours")):
        with open(os.path.join(work.path, dry(work, "other.lua", name, folder), "summary.json"), encoding="utf-8") as f:
            metrics = json.load(f)["metrics"]
        figures.append((metrics["ttft"]["mean"], metrics["itl"]["mean"]))
    for name, theirs, ours in zip(("ttft", "itl"), *figures):
        within(ours, theirs, 0.05, f"{profile} {name}")
    return fitted


def test_closed_loop_llama(work):
    closed_loop(work, "llama-3.1-8b", kv_tokens=420800, block_size=16, max_model_len=131072)


def test_closed_loop_qwen(work):
    closed_loop(work, "qwen3-32b", kv_tokens=289600, block_size=16)


def test_closed_loop_gpt_oss(work):
    closed_loop(work, "gpt-oss-20b", kv_tokens=69600 * 16)


def test_closed_loop_adr_04(work):
    """Its later tokens take longer: the term of the context is found."""
    fitted = closed_loop(work, "adr-04", kv_tokens=17400 * 64, block_size=64)
    within(fitted["prefill"]["prefill_context"], 9.04e-9, 0.03, "prefill_context")


def test_closed_loop_tiny(work):
    """Its steps are small: what shares a step decides the rest, and is not on the wire."""
    closed_loop(work, "tiny", "--max-num-batched-tokens", "2048", "--max-num-seqs", "64", kv_tokens=32000, max_model_len=16384)


OWN = """return { name = "own", prefill_tokens_per_s = 12345, step_overhead = "0.7ms", request_overhead = "3ms",
  kv_tokens = 400000, %s }
"""
FORMULA = 'decode_base = "6.1ms", decode_seq = "31us", decode_context = "51ns"'
STEPS = [(1, 0), (1, 4000), (16, 1000)]  # as the same formula has them, the step's overhead included


def test_a_dry_run_gives_the_truth(work):
    """Nothing disturbs its times: the fit must have them, as a formula or as a table, in all digits that are printed."""
    table = ", ".join("{ batch = %d, context = %d, time = %.9f }" % (b, c, 6.8e-3 + b * 31e-6 + b * c * 51e-9) for b, c in STEPS)
    for name, decode in (("formula", FORMULA), ("table", f"decode_steps = {{ {table} }}")):
        work.write("own.lua", OWN % decode)
        run = dry(work, CALIBRATE, "own.lua", name)
        made = work.perigee("calibrate", run, "--json")
        eq(made.status, 0, made.err)
        fitted = json.loads(made.out)
        p, d = fitted["prefill"], fitted["decode"]
        within(p["prefill_tokens_per_s"], 12345, 1e-6, name)
        within(p["request_overhead"], 3.7e-3, 1e-6, name)
        for field, truth in (("decode_base", 6.8e-3), ("decode_seq", 31e-6), ("decode_context", 51e-9)):
            within(d[field], truth, 1e-6, f"{name} {field}")
        assert len(d["steps"]) >= 12, d["steps"]
        for s in d["steps"]:
            want = 6.8e-3 + s["batch"] * (31e-6 + s["context"] * 51e-9)
            assert abs(s["time"] - want) <= 1e-9, f"{name}: {s}, the formula has {want}"
        out = work.perigee("calibrate", run).out
        for term in ("12,345.0", "3.70000", "6.80000", "31,000.0", "51.0000"):
            has(out, term)


def test_a_profile_of_fixed_times_has_no_prefill_rate(work):
    run = dry(work, CALIBRATE, "fixed", "recorded")
    refused(work, 98, run, parts=("first tokens do not come later for longer prompts",))


# ---- rows made here ----


def row(start, ttft, gaps=(), **more):
    last = start + ttft + sum(gaps)
    r = {"v": 1, "generation": True, "streamed": True, "error": None, "served": "r0", "prompt_tokens": 100,
         "cached_tokens": 0, "cached_state": "zero", "output_tokens": len(gaps) + 1, "output_events": len(gaps) + 1,
         "first_tokens": 1, "itl_ns": [int(g * MS) for g in gaps],
         "t": {"start": int(start * MS), "first_token": int((start + ttft) * MS), "last_token": int(last * MS),
               "done": int(last * MS)}}
    r.update(more)
    return r


def a_run(rate=20000.0, replica="r0", batches=(1, 2, 4), contexts=(100, 2000), lengths=(100, 500, 1000, 2000, 4000)):
    """Prompts alone, then answers side by side: overhead 10 ms, a step 5 ms + 0.1 ms a sequence + 1 µs a token."""
    rows, now = [], 0.0
    for _ in range(3):
        for n in lengths:
            rows.append(row(now, 10 + n / rate * 1000, prompt_tokens=n, served=replica))
            now += 1000
    for batch in batches:
        for context in contexts:
            gap = 5 + 0.1 * batch + 0.001 * batch * (context + 20)
            ttft = 10 + batch * context / rate * 1000
            rows += [row(now, ttft, [gap] * 40, prompt_tokens=context, served=replica) for _ in range(batch)]
            now += 5000
    return rows


def folder(work, name, rows, tail="", **info):
    lines = "".join(json.dumps(r) + "\n" for r in rows) + tail
    work.write(f"{name}/samples.jsonl", lines)
    fleet = {"model": "m", "gateway": None, "replicas": [{"id": "r0", "url": "http://a"}]}
    work.write(f"{name}/run.json", json.dumps({"id": name, "simulated": False, "fleet": fleet, **info}))
    return name


def refused(work, status, *args, parts=()):
    result = work.perigee("calibrate", *args)
    eq(result.status, status, result.err + result.out)
    for part in parts:
        has(result.err, part)
    eq(result.out, "")


def test_made_rows_give_their_figures(work):
    made = work.perigee("calibrate", folder(work, "a", a_run()), "--json", "--kv-tokens", "100000", "--name", "mine")
    eq(made.status, 0, made.err)
    fitted = json.loads(made.out)
    within(fitted["prefill"]["prefill_tokens_per_s"], 20000, 0.001, "rate")
    within(fitted["prefill"]["request_overhead"], 0.010, 0.001, "overhead")
    for batch in (1, 4):
        within(step(fitted["decode"], batch, 2020), (5 + 0.1 * batch + 0.001 * batch * 2020) / 1000, 0.005, "step")
    eq((fitted["name"], fitted["simulated"], fitted["kv_tokens"]), ("mine", False, 100000))
    made = work.perigee("calibrate", "a", "--kv-tokens", "100000", "--out", "gpu.lua")
    eq(made.status, 0, made.err)
    has(made.out, "20,000.0")
    has(made.out, "wrote gpu.lua; next: perigee run tuning_loop --profile gpu.lua")
    sim = work.start("sim", "--profile", "gpu.lua", "--announce")
    try:
        assert json.loads(sim.stdout.readline())["replicas"]
    finally:
        sim.terminate()
        sim.communicate(timeout=20)
    has(open(f"{work.path}/gpu.lua", encoding="utf-8").read(), "given with --kv-tokens")


def test_without_a_kv_budget_the_profile_says_what_it_lacks(work):
    made = work.perigee("calibrate", folder(work, "a", a_run()), "--out", "gpu.lua")
    eq(made.status, 0, made.err)
    has(made.out, "it needs a line kv_tokens = N")
    result = work.perigee("sim", "--profile", "gpu.lua", timeout=30)
    eq(result.status, 2)
    has(result.err, "kv_tokens is missing")


def test_rows_without_gaps_are_fitted_by_their_means(work):
    rows = [dict(r, itl_ns=None) for r in a_run()]
    made = work.perigee("calibrate", folder(work, "a", rows), "--json")
    eq(made.status, 0, made.err)
    fitted = json.loads(made.out)
    within(step(fitted["decode"], 2, 2020), (5.2 + 4.04) / 1000, 0.01, "step")
    assert any("--itl" in note for note in fitted["notes"]), fitted["notes"]


def test_failed_and_unknown_rows_are_counted(work):
    rows = a_run()
    rows += [row(1e6 + i * 1000, 5, error="http_5xx") for i in range(3)]
    rows += [row(2e6 + i * 1000, 5, cached_state="absent", cached_tokens=None, prompt_tokens=None) for i in range(2)]
    made = work.perigee("calibrate", folder(work, "a", rows), "--json")
    eq(made.status, 0, made.err)
    left = json.loads(made.out)["prefill"]["left_out"]
    eq((left["failed"], left["unknown"]), (3, 2))


def test_a_server_that_does_not_report_cached_tokens(work):
    rows = [dict(r, cached_state="absent", cached_tokens=None) for r in a_run()]
    refused(work, 98, folder(work, "a", rows), parts=("0 requests ran alone, 6 are needed", "--cold",
                                                      "no known cached tokens"))
    made = work.perigee("calibrate", "a", "--cold", "--json")
    eq(made.status, 0, made.err)
    within(json.loads(made.out)["prefill"]["prefill_tokens_per_s"], 20000, 0.001, "rate")


def test_runs_that_do_not_say_enough_are_refused_with_the_experiment(work):
    way = "`perigee run calibrate --itl`"
    refused(work, 98, folder(work, "a", a_run(lengths=(1000,) * 4, batches=(2, 4))), parts=("too much alike", way))
    refused(work, 98, folder(work, "b", a_run(batches=(2,), contexts=(100, 1000, 4000))),
            parts=("at batch 2 only", "several answers at the same time",
                   way))
    refused(work, 98, folder(work, "c", a_run(contexts=(100,))),
            parts=("at contexts of", "short and long prompts", way))
    refused(work, 98, folder(work, "d", a_run(batches=())), parts=("0 kinds of decode steps", way))


def test_runs_that_are_not_one_machine_are_refused(work):
    both = a_run() + a_run(rate=10000.0, replica="r1")
    two = {"model": "m", "gateway": None, "replicas": [{"id": "r0", "url": "a"}, {"id": "r1", "url": "b"}]}
    refused(work, 98, folder(work, "a", both, fleet=two), parts=("the replicas are not alike", "--replica ID"))
    made = work.perigee("calibrate", "a", "--replica", "r1", "--json")
    eq(made.status, 0, made.err)
    within(json.loads(made.out)["prefill"]["prefill_tokens_per_s"], 10000, 0.001, "rate")
    refused(work, 98, "a", "--replica", "r7", parts=("no request went to replica r7",))
    other = {"model": "n", "gateway": None, "replicas": [{"id": "r0", "url": "a"}]}
    refused(work, 2, folder(work, "b", a_run()), folder(work, "c", a_run(), fleet=other),
            parts=("several models: n in c",))
    made = work.perigee("calibrate", "b", folder(work, "d", a_run()), "--json")
    eq(made.status, 0, made.err)


def test_bad_folders_and_files(work):
    refused(work, 2, "nowhere", parts=("nowhere: is this the folder of a run?",))
    refused(work, 98, folder(work, "empty", []), parts=("there is no row in it",))
    rows = a_run()
    cut = json.dumps(rows[-1])[:40]
    made = work.perigee("calibrate", folder(work, "cut", rows, tail=cut))
    eq(made.status, 0, made.err)
    has(made.out, "the last line of samples.jsonl is cut off")
    refused(work, 2, folder(work, "bad", rows, tail=cut + "\n" + json.dumps(rows[0]) + "\n"),
            parts=(f"bad/samples.jsonl:{len(rows) + 1}: ",))
    refused(work, 2, parts=("the folder of a run is expected",))
    refused(work, 2, "cut", "--kv-tokens", "0", parts=("--kv-tokens must be a whole number",))
    refused(work, 2, "cut", "--uot", "x", parts=("--uot", "--out"))
    refused(work, 2, "cut", "--name", "a b", parts=("--name: 'a b' is no name",))
    work.write("mine.lua", "return {}\n")
    refused(work, 1, "cut", "--out", "mine.lua", parts=("mine.lua is there already",))
    refused(work, 1, "cut", "--out", "no/where.lua", parts=("no/where.lua",))
    eq(work.perigee("calibrate", "cut", "--out", "new.lua").status, 0)
    eq(work.perigee("calibrate", "cut", "--out", "new.lua").status, 0)  # its own it writes again
    has(work.perigee("calibrate", "--help").out, "Usage: perigee calibrate")


def test_rows_that_no_run_writes_are_refused_by_their_line(work):
    rows = a_run()
    for name, field, what in (("gap", ("itl_ns", 0), "itl_ns[1] is no whole number from 0"),
                              ("stamp", ("t", "start"), "t.start is no whole number from 0"),
                              ("count", ("prompt_tokens",), "prompt_tokens is no whole number from 0")):
        for value in ("x", True, {}, -1, 1.5, 1e300, float("nan")):
            row = json.loads(json.dumps(rows[-1]))
            target = row
            for key in field[:-1]:
                target = target[key]
            target[field[-1]] = value
            refused(work, 2, folder(work, name, rows[:-1] + [row, rows[0]]),
                    parts=(f"{name}/samples.jsonl:{len(rows)}: ", "" if value != value else what))


def test_no_damage_ends_in_a_traceback(work):
    """Values and bytes changed at random: a profile, or a refusal in words."""
    random = Random(6)
    odd = ["x", "", True, None, {}, [], [1], -1, 0, 1.5, 1e300, -1e300, 2**53, 2**62, "\u0000"]
    rows, lines = a_run(), "".join(json.dumps(r) + "\n" for r in a_run())
    for number in range(60):
        if number % 3 == 2:
            text = bytearray(lines.encode())
            for _ in range(random.choice((1, 3, 30))):
                at = random.randrange(len(text))
                text[at] = random.choice(b'0123456789{}[]",:-e.nu \xff\n')
            with open(os.path.join(work.path, folder(work, "m", [])) + "/samples.jsonl", "wb") as f:
                f.write(text)
        else:
            changed = json.loads(json.dumps(rows))
            for _ in range(random.choice((1, 4))):
                target = random.choice(changed)
                while isinstance(inner := target[key := random.choice(list(target))], dict) and inner:
                    target = inner
                if isinstance(inner, list) and inner and random.random() < 0.7:
                    target, key = inner, random.randrange(len(inner))
                target[key] = random.choice(odd)
            info = {random.choice(("id", "fleet", "simulated")): random.choice(odd)} if number % 3 else {}
            folder(work, "m", changed, **info)
        made = work.perigee("calibrate", "m", "--kv-tokens", "100000", "--name", "m")
        assert made.status in (0, 2, 98) and "traceback" not in made.err and ".lua:" not in made.err, (
            f"number {number}: {made.status} {made.err}")


THREADS = []

main(globals())
