"""The sanity relations of facts §8.3, from a script's requests through the fleet and back, in virtual time.

Each is held twice: to the nanosecond against the formula of src/kv/steptime.h with the profile's own figures, and
against what is published, within the share that §8.3 gives. Nothing here depends on this machine's speed.
"""
import json

from harness import RELAXED, eq, main

HEAD = """
local perigee = require "perigee"
local completions = require "perigee.completions"
local route = require "perigee.route"
local function ids(n, first) -- n token ids that no other `first` begins with
  local t = { first }
  for i = 2, n do t[i] = i * 7919 % 251 end
  return t
end
"""
FIGURES = """
local fleet, json = require "perigee.fleet", require "perigee.json"
print(json.encode(fleet.profiles()))
"""


def figures(work, name):
    work.write("figures.lua", FIGURES)
    return json.loads(work.perigee("lua", "figures.lua").out)[name]


def dry(work, profile, load, session, *args, **fields):
    """Rows and truth of the run: `load` of perigee.plan, the session's body with `vu`."""
    work.write("s.lua", HEAD + f"return perigee.plan {{ load = perigee.{load}, session = function(vu)\n{session}\nend, "
               f"{fields.get('plan', '')} }}\n")
    result = work.perigee("dry", "s.lua", *RELAXED, "--sim", str(fields.get("replicas", 1)), "--profile", profile,
                          "--truth", "truth.jsonl", *args, timeout=300)
    eq(result.status, 0, result.err + result.out[-1500:])
    with open(f"{work.path}/truth.jsonl", encoding="utf-8") as f:
        return result.rows, [json.loads(line) for line in f]


def exactly(got, want, what, within=2):
    """Nanoseconds that differ by no more than what rounding each step to whole ones gives."""
    assert abs(got - want) <= within, f"{what}: {got} ns, {want:.1f} by the formula"


def share(got, want, within, what):
    assert abs(got - want) <= within * want, f"{what}: {got:g}, published {want:g}, within {within:.0%}"


def prefill_ns(p, done, n):
    """Passes that compute tokens done..n of a prompt alone: in chunks, each with its overhead and context."""
    ns = 0.0
    while done < n:
        chunk = min(n - done, p["max_num_batched_tokens"])
        context = chunk * done + chunk * (chunk - 1) // 2
        ns += p["step_overhead"] * 1e9 + chunk * 1e9 / p["prefill_tokens_per_s"] + context * p["prefill_context"] * 1e9
        done += chunk
    return ns


def decode_ns(p, batch, context):
    return (p["step_overhead"] + p["decode_base"] + batch * p["decode_seq"] + context * p["decode_context"]) * 1e9


def ttft(row):
    return row["t"]["first_token"] - row["t"]["start"]


COLD_AND_WARM = """
for i, n in ipairs { %s } do
  local client = completions.new(vu)
  client:send { prompt = ids(n, i), max_tokens = 1 }
  client:send { prompt = ids(n, i), max_tokens = 1 }
end"""


def cold_and_warm(work, profile, lengths, *args):
    """[(length, uncached when warm, ttft cold, ttft warm)] on an idle replica."""
    rows, _ = dry(work, profile, "closed { users = 1, sessions = 1 }", COLD_AND_WARM % ",".join(map(str, lengths)),
                  *args)
    pairs = []
    for n, cold, warm in zip(lengths, rows[::2], rows[1::2]):
        eq((cold["prompt_tokens"], cold["cached_tokens"] or 0), (n, 0))
        pairs.append((n, n - (warm["cached_tokens"] or 0), ttft(cold), ttft(warm)))
    return pairs


def test_cold_minus_warm_is_the_uncached_tokens_over_the_prefill_rate(work):
    for profile, rate, within in (("llama-3.1-8b", 30000, 0.05), ("qwen3-32b", 15900, 0.03), ("gpt-oss-20b", 45000, 0.05),
                                  ("tiny", 20000, 0.05)):
        p = figures(work, profile)
        size, most = p["block_size"], p["max_num_batched_tokens"]
        lengths = [n for n in (300, 1024, 2000, 8000, 8192, 12000, 30000) if n < p["max_model_len"]]
        for n, open_, cold, warm in cold_and_warm(work, profile, lengths):
            eq(open_, n - (n - 1) // size * size, f"{profile}: what {n} tokens leave to compute")
            exactly(cold, p["request_overhead"] * 1e9 + prefill_ns(p, 0, n), f"{profile}: {n} cold", 2 + n // most)
            exactly(warm, p["request_overhead"] * 1e9 + prefill_ns(p, n - open_, n), f"{profile}: {n} warm")
            more = -(-n // most) - 1  # passes that the warm one does not need
            exactly(cold - warm, (n - open_) * 1e9 / p["prefill_tokens_per_s"] + more * p["step_overhead"] * 1e9,
                    f"{profile}: cold - warm of {n}", 2 + n // most)
            share((n - open_) * 1e9 / (cold - warm), rate, within, f"{profile}: tokens/s of {n}")


def test_cold_and_warm_on_the_reference_host(work):
    """ADR-04 (facts §6.1): later tokens take longer there, so the saving is that of the tokens that were cached."""
    p = figures(work, "adr-04")
    published = {6653: (61, 1.287, 0.315), 12944: (16, 2.596, 0.283)}
    for n, open_, cold, warm in cold_and_warm(work, "adr-04", list(published)):
        left, cold_s, warm_s = published[n]
        eq(open_, left)
        exactly(cold, p["request_overhead"] * 1e9 + prefill_ns(p, 0, n), f"{n} cold", 3)
        exactly(warm, p["request_overhead"] * 1e9 + prefill_ns(p, n - left, n), f"{n} warm")
        exactly(cold - warm, prefill_ns(p, 0, n) - prefill_ns(p, n - left, n), f"{n} cold - warm", 3)
        share(cold / 1e9, cold_s, 0.10, f"{n} cold")
        share(warm / 1e9, warm_s, 0.10, f"{n} warm")
        share((cold - warm) / 1e9, cold_s - warm_s, 0.10, f"what a hit of {n} saves")


LINEAR = """
local json, prompt = require "perigee.json", ids(%d, vu.rng:int(1, 250))
for turn = 1, 8 do
  local outputs = vu.rng:int(1, 90)
  local reply = vu:http { path = "/v1/completions", json = { model = "sim-model", prompt = prompt, max_tokens = outputs, ignore_eos = true,
    return_token_ids = true } }
  local answer = json.decode(reply.body).choices[1].token_ids
  assert(#answer == outputs)
  local keep = turn %% 4 == 3 and vu.rng:int(0, outputs) or outputs -- now and then only the first part of the answer
  table.move(answer, 1, keep, #prompt + 1, prompt)
  for _ = 1, turn %% 2 == 0 and vu.rng:int(1, 40) or 0 do prompt[#prompt + 1] = vu.rng:int(1, 250) end
end"""


def test_the_hit_of_turn_k_in_a_linear_session(work):
    """floor((n_k - 1) / B) B, and no more than floor((n_{k-1} + output_{k-1} - 1) / B) B: the last token sampled never
    gets KV. Where only a part of the answer is repeated, the first of the two is the smaller."""
    smaller = {False: 0, True: 0}
    for size, mode in ((1, "off"), (5, "on"), (16, "off"), (16, "on"), (64, "off")):  # of async_scheduling
        _, truth = dry(work, "llama-3.1-8b", "closed { users = 1, sessions = 12 }", LINEAR % (3 * size + 1),
                       "--sim-set", f"block_size={size}", "--sim-set", f"kv_blocks={200000 // size}", "--sim-set",
                       f"async_scheduling={mode}")
        eq(len(truth), 12 * 8)
        for i, (before, t) in enumerate(zip(truth, truth[1:]), 1):
            if i % 8 == 0:
                continue  # a session's first
            prompts = (t["prompt_tokens"] - 1) // size * size
            whole = (before["prompt_tokens"] + before["output_tokens"] - 1) // size * size
            smaller[prompts < whole] += 1
            eq(t["cached_tokens"], min(prompts, whole), f"block size {size}, session {i // 8}, turn {i % 8 + 1}")
    assert min(smaller.values()) > 10, smaller


def test_a_conversation_that_keeps_the_answers_hits_the_same(work):
    """The relation through chat, its template, and a live history."""
    session = """
    local conv = require("perigee.chat").new(vu, { history = "live", system = ("s"):rep(100) .. vu.session })
    for turn = 1, 8 do
      conv:user(("word "):rep(turn * 3))
      conv:send { max_tokens = vu.rng:int(1, 60) }
    end"""
    rows, _ = dry(work, "tiny", "closed { users = 1, sessions = 4 }", session)
    before = None
    for row in rows:
        if row["turn"] > 1:
            whole = (before["prompt_tokens"] + before["output_tokens"] - 1) // 16 * 16
            eq(row["cached_tokens"], min((row["prompt_tokens"] - 1) // 16 * 16, whole), f"turn {row['turn']}")
        before = row
    eq(len(rows), 32)


PAIRS = """
local client, prompt = completions.new(vu), ids(65, 0)
for i = 1, 8 do prompt[i] = vu.rng:int(1, 250) end
client:send { prompt = prompt, max_tokens = 1 }
client:send { prompt = prompt, max_tokens = 1 }"""


def test_random_routing_gives_a_warm_share_of_one_replica_in_all(work):
    """A second turn is warm exactly where the first one went; of 2,000 sessions that are 1/R within three sigma."""
    sessions = 2000
    for replicas in (1, 2, 4, 8):
        rows, _ = dry(work, "instant", f"closed {{ users = 1, sessions = {sessions} }}", PAIRS, replicas=replicas,
                      plan="route = route.random()")
        warm = 0
        for first, second in zip(rows[::2], rows[1::2]):
            eq(first["cached_tokens"] or 0, 0)
            same = first["served"] == second["served"]
            eq(second["cached_tokens"] or 0, 64 if same else 0)
            warm += same
        p = 1 / replicas
        sigma = (sessions * p * (1 - p)) ** 0.5
        assert abs(warm - sessions * p) <= 3 * sigma, f"{warm} of {sessions} warm on {replicas} replicas"
    for policy, want in (("session_hash", sessions), ("round_robin", 0)):
        rows, _ = dry(work, "instant", f"closed {{ users = 1, sessions = {sessions} }}", PAIRS, replicas=4,
                      plan=f"route = route.{policy}()")
        eq(sum(1 for r in rows[1::2] if r["cached_tokens"]), want, policy)


def full_batches(truth, batch):
    """[(time of the step, sum of the contexts)] for each step in which all `batch` requests decoded."""
    ends, context = {}, {}
    for t in truth:
        now, n = 0, t["prompt_tokens"]
        for i, gap in enumerate(t["token_ns"][0]):
            now += gap
            ends[now] = ends.get(now, 0) + (1 if i else 0)
            context[now] = context.get(now, 0) + n + i - 1
    full = sorted(ns for ns, n in ends.items() if n == batch)
    return [(b - a, context[b]) for a, b in zip(full, full[1:])]


# Decode step in ms at batch 1, 8, 32, 64, 128, 256 (§8.3); at 8,192 only what fits into the KV budget.
TABLE = {
    ("llama-3.1-8b", 1024): (6.9, 7.5, 9.5, 12.1, 17.4, 27.9),
    ("llama-3.1-8b", 8192): (7.5, 11.9, 26.9),
    ("qwen3-32b", 1024): (15.0, 15.5, 17.5, 20.2, 25.5, 36.0),
    ("qwen3-32b", 8192): (15.5, 19.9, 35.0),
    ("gpt-oss-20b", 1024): (6.5, 6.8, 7.6, 8.7, 10.8, 15.1),
    ("gpt-oss-20b", 8192): (6.7, 8.4, 14.1, 21.8, 37),
}


def test_saturated_decode_gives_batch_tokens_a_step(work):
    """What clients see of a full batch: its tokens a second are batch / step, and the step is that of the table."""
    for (profile, context), column in TABLE.items():
        p = figures(work, profile)
        # all prompts are read in one step: what is measured are the steps after it
        work.write("gpu.lua", f'return {{ base = "{profile}", prefill_tokens_per_s = 0, max_num_batched_tokens = 4000000 }}')
        for batch, ms in zip((1, 8, 32, 64, 128, 256), column):
            session = f"completions.new(vu):send {{ prompt = ids({context} - 6, vu.session), max_tokens = 12 }}"
            _, truth = dry(work, "gpu.lua", f"closed {{ users = {batch}, sessions = {batch} }}", session)
            eq(sum(t["preemptions"] for t in truth), 0, f"{profile}: {batch} at {context} fit")
            steps = full_batches(truth, batch)
            assert len(steps) >= 9, f"{profile}: {batch} at {context}: {len(steps)} full steps"
            for ns, read in steps:
                exactly(ns, decode_ns(p, batch, read), f"{profile}: a step of {batch} at {context}", 1)
            rate = batch * len(steps) / (sum(ns for ns, _ in steps) / 1e9)
            mean = sum(read for _, read in steps) / len(steps)
            share(rate, batch / (decode_ns(p, batch, mean) / 1e9), 1e-6, f"{profile}: tokens/s of {batch}")
            share(batch / rate * 1e3, ms, 0.05, f"{profile}: step of {batch} at {context}")


def test_more_users_than_seats_keep_every_seat_taken(work):
    """A seat that becomes free is taken in the next step: as long as anyone waits, each step gives `seats` tokens."""
    work.write("gpu.lua", 'return { base = "llama-3.1-8b", prefill_tokens_per_s = 0, request_overhead = 0, '
               "decode_context = 0, max_num_seqs = 16 }")
    p = dict(figures(work, "llama-3.1-8b"), decode_context=0)
    session = "completions.new(vu):send { prompt = ids(20, vu.session), max_tokens = 20 + vu.session * 7 % 11 }"
    _, truth = dry(work, "gpu.lua", "closed { users = 80, sessions = 80 }", session)
    sampled, first = {}, {}
    for t in truth:
        first[t["first_token_ns"]] = first.get(t["first_token_ns"], 0) + 1
        for now in ends(t):
            sampled[now] = sampled.get(now, 0) + 1
    last = max(t["scheduled_ns"] for t in truth)  # nobody waits any more
    steps = sorted(now for now in sampled if now <= last)
    assert len(steps) > 80, len(steps)
    eq({sampled[now] for now in steps}, {16})
    for before, now in zip(steps, steps[1:]):  # who has its first token decoded nothing
        exactly(now - before, decode_ns(p, 16 - first.get(now, 0), 0), "a step with a queue", 1)
    rate = 16 * (len(steps) - 1) / ((steps[-1] - steps[0]) / 1e9)
    share(rate, 16 / (decode_ns(p, 16, 0) / 1e9), 0.001, "tokens/s with a queue")


def ends(t):
    now, out = 0, []
    for gap in t["token_ns"][0]:
        now += gap
        out.append(now)
    return out


def test_as_many_sequences_fit_as_the_kv_budget_has_room_for(work):
    """At 8,192 tokens each more than 51, 35 and 136 do not fit, within 2 %."""
    for profile, most in (("llama-3.1-8b", 51), ("qwen3-32b", 35), ("gpt-oss-20b", 136)):
        session = "completions.new(vu):send { prompt = ids(8190, vu.session), max_tokens = 3 }"
        users = most + 12
        # prefill takes no time, so that all that fit run together
        work.write("gpu.lua", f'return {{ base = "{profile}", prefill_tokens_per_s = 0, max_num_batched_tokens = 4000000 }}')
        _, truth = dry(work, "gpu.lua", f"closed {{ users = {users}, sessions = {users} }}", session)
        most_at_once = max(sum(1 for t in truth if t["first_token_ns"] <= now <= t["last_token_ns"])
                           for now in {now for t in truth for now in ends(t)})
        eq(most_at_once, figures(work, profile)["kv_tokens"] // 8192, profile)
        share(most_at_once, most, 0.02, f"{profile}: sequences of 8,192 tokens")


def test_scheduling_ahead_costs_who_arrives_a_step(work):
    """async_scheduling: alone nothing changes, answers and hits neither; beside another, a first token comes a step later."""
    work.write("gpu.lua", 'return { base = "llama-3.1-8b", prefill_tokens_per_s = 0, request_overhead = 0, decode_context = 0 }')
    p = dict(figures(work, "llama-3.1-8b"), decode_context=0)
    step = decode_ns(p, 1, 0)
    session = f"""
    vu:sleep(vu.session * {20.25 * step / 1e9})
    completions.new(vu):send {{ prompt = ids(50, vu.session), max_tokens = 100 }}"""
    waits = {}
    for mode in ("off", "on"):
        alone = cold_and_warm(work, "llama-3.1-8b", [300, 9000], "--sim-set", f"async_scheduling={mode}")
        eq(alone, waits.setdefault("alone", alone))
        _, truth = dry(work, "gpu.lua", "closed { users = 2, sessions = 2 }", session, "--sim-set", f"async_scheduling={mode}")
        first, second = sorted(truth, key=lambda t: t["received_ns"])
        under_way = min(now for now in ends(first) if now > second["received_ns"])
        later = sorted(now for now in ends(first) if now > under_way)
        eq(second["first_token_ns"], later[0 if mode == "off" else 1])
        waits[mode] = second["first_token_ns"] - second["received_ns"]
    exactly(waits["on"] - waits["off"], step, "what it costs", 3)


THREADS = []

main(globals())
