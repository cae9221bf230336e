"""What a simulated replica says on the wire: vLLM's fields, choices, ids and metrics, seen from outside."""
import json
import os
import re
import threading
import time

from harness import ROOT, eq, has, main, near
from simfleet import Page, fleet


def text(n, c="x"):
    return (c + " words of a prompt, ") * n


# ---- choices ----

def test_several_prompts_and_n(work):
    body = {"prompt": ["one", "three"], "n": 3, "max_tokens": 6, "ignore_eos": True, "seed": 1}
    with fleet(work, "--profile", "instant") as f:
        said = f.ask("/v1/completions", body).json
        eq([c["index"] for c in said["choices"]], list(range(6)))
        eq(said["usage"]["prompt_tokens"], 8, "each prompt once")
        eq(said["usage"]["completion_tokens"], 36)
        texts = [c["text"] for c in said["choices"]]
        eq(len(set(texts)), 6)
        alone = f.ask("/v1/completions", dict(body, prompt="one", n=1)).json
        eq(alone["choices"][0]["text"], texts[0], "the first choice is what n = 1 gives")
        events = f.ask("/v1/completions", dict(body, stream=True, stream_options={"include_usage": True})).events
        eq(events[-1]["usage"]["completion_tokens"], 36)
        streamed = ["".join(c["text"] for e in events for c in e["choices"] if c["index"] == i) for i in range(6)]
        eq(streamed, texts)
        ends = [c["index"] for e in events for c in e["choices"] if c["finish_reason"]]
        eq(sorted(ends), list(range(6)), "one finish each")
        page = f.metrics()
        eq(page.value("vllm:request_params_n_sum"), 7, "3 + 1 + 3: once a request")
        eq(page.value("vllm:request_success_total"), 13, "each choice is a request of the engine")


def test_chat_choices_in_a_stream(work):
    with fleet(work, "--profile", "instant") as f:
        events = f.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "n": 2, "stream": True,
                                                "max_tokens": 3, "stream_options": {"include_usage": True,
                                                                                    "continuous_usage_stats": True}}).events
        eq([e["choices"][0]["delta"].get("role") for e in events[:2]], ["assistant", "assistant"])
        eq([e["choices"][0]["index"] for e in events[:2]], [0, 1])
        eq({e["choices"][0]["delta"].get("role") for e in events[2:-1]}, {None})
        for i in (0, 1):
            counts = [e["usage"]["completion_tokens"] for e in events if e["choices"] and e["choices"][0]["index"] == i]
            eq(counts, [0, 1, 2, 3])
        eq(events[-1]["usage"]["completion_tokens"], 6)


def test_echo(work):
    with fleet(work, "--profile", "instant") as f:
        plain = f.ask("/v1/completions", {"prompt": "Say: ", "max_tokens": 4, "ignore_eos": True}).json["choices"][0]["text"]
        for more in ({}, {"stream": True}):
            said = f.ask("/v1/completions", {"prompt": [83, 97, 121, 58, 32], "max_tokens": 4, "ignore_eos": True,
                                             "echo": True, **more})
            texts = [c["text"] for e in (said.events if more else [said.json]) for c in e["choices"]]
            eq("".join(texts), "Say: " + plain)
        alone = f.ask("/v1/completions", {"prompt": "Say: ", "max_tokens": 0, "echo": True}).json
        eq(alone["choices"][0]["text"], "Say: ")


def test_what_a_prompt_put_into_the_cache(work):
    """cached_tokens and created_cache_tokens are the prompt's whole blocks together; on a miss there are no details at all."""
    prompt = text(9)
    longer = prompt + text(9, "y")
    with fleet(work, "--profile", "instant") as f:
        def details(p, **more):
            said = f.ask("/v1/completions", {"prompt": p, "max_tokens": 1, **more})
            return (said.events[-1] if "stream" in more else said.json)["usage"].get("prompt_tokens_details")

        eq(details(prompt), None)
        hit = len(prompt) // 16 * 16
        eq(details(longer), {"cached_tokens": hit, "created_cache_tokens": len(longer) // 16 * 16 - hit, "multimodal_tokens": None})
        last = (len(longer) - 1) // 16 * 16
        eq(details(longer, stream=True, stream_options={"include_usage": True}),
           {"cached_tokens": last, "created_cache_tokens": len(longer) // 16 * 16 - last})


def test_stream_interval(work):
    """The server's own for requests that name none; the first and the last event are not late."""
    body = {"prompt": "x", "max_tokens": 9, "ignore_eos": True, "stream": True}
    with fleet(work, "--profile", "instant", "--stream-interval", "3") as f:
        sizes = [[len(e["choices"][0]["text"]) for e in f.ask("/v1/completions", dict(body, **more)).events]
                 for more in ({}, {"stream_interval": 1}, {"stream_interval": 20})]
        eq(sizes, [[1, 3, 3, 2], [1] * 9, [1, 8]])


# ---- request ids, flags ----

def test_request_ids(work):
    body = {"prompt": "x", "max_tokens": 1}
    with fleet(work, "--profile", "instant", "--enable-request-id-headers") as f:
        said = f.ask("/v1/completions", body, X_Request_Id="mine")
        eq((said.json["id"], said.headers["X-Request-Id"]), ("cmpl-mine", "mine"))
        said = f.ask("/v1/completions", dict(body, request_id="body"))
        eq((said.json["id"], said.headers["X-Request-Id"]), ("cmpl-body", None))
        said = f.ask("/v1/completions", dict(body, stream=True), X_Request_Id="s")
        eq((said.events[0]["id"], said.headers["X-Request-Id"]), ("cmpl-s", "s"))
        rendered = f.ask("/v1/completions/render", {"prompt": ["a", "bc"]}, X_Request_Id="r").json
        eq([(r["request_id"], r["token_ids"]) for r in rendered], [("cmpl-r-0", [97]), ("cmpl-r-1", [98, 99])])
    with fleet(work, "--profile", "instant", "--enable-force-include-usage", "--no-cached-tokens") as f:
        eq(f.ask("/v1/completions", body, X_Request_Id="mine").headers["X-Request-Id"], None)
        long = {"prompt": text(20), "max_tokens": 1}
        usages = [f.ask("/v1/completions", dict(long, stream=True)).events[-1]["usage"] for _ in range(2)]
        eq([u.get("prompt_tokens_details") for u in usages], [None, None])
        eq(f.ask("/v1/completions", long).json["usage"]["prompt_tokens_details"], None)


def test_refusals_are_vllm_s(work):
    chat = {"messages": [{"role": "user", "content": "Hi"}]}
    cases = [
        ("/v1/chat/completions", dict(chat, model="other"), 404, "NotFoundError", "model", "The model `other` does not exist."),
        ("/v1/chat/completions", dict(chat, stream_options={"include_usage": True}), 400, "BadRequestError",
         "stream_options", "Stream options can only be defined when `stream=True`."),
        ("/v1/chat/completions", dict(chat, n=2, temperature=0), 400, "BadRequestError", "n",
         "n must be 1 when using greedy sampling, got 2."),
        ("/v1/completions", {"prompt": "x", "logprobs": 30}, 400, "BadRequestError", "logprobs",
         "Requested sample logprobs of 30, which is greater than max allowed: 20"),
    ]
    with fleet(work, "--profile", "instant") as f:
        for path, body, status, kind, param, message in cases:
            error = f.ask(path, body, status).json
            eq(list(error), ["error"])
            eq(list(error["error"]), ["message", "type", "param", "code"])
            eq((error["error"]["type"], error["error"]["param"], error["error"]["code"]), (kind, param, status))
            has(error["error"]["message"], message)


def test_prompt_logprobs_look_nothing_up(work):
    """They are computed anew each time; what they computed is there for others. The numbers are made up, their places not."""
    body = {"prompt": text(9), "max_tokens": 4, "ignore_eos": True}
    n = len(body["prompt"])
    with fleet(work, "--profile", "instant") as f:
        cached = []
        for more in ({"prompt_logprobs": 0}, {"prompt_logprobs": 0}, {}, {"echo": True, "logprobs": 1}):
            said = f.ask("/v1/completions", dict(body, **more)).json
            cached.append((said["usage"]["prompt_tokens_details"] or {}).get("cached_tokens", 0))
            told = said["choices"][0]["prompt_logprobs"]
            eq(told and [len(told), told[0], [list(t) for t in told[1:]] == [[str(ord(c))] for c in body["prompt"][1:]]],
               [n, None, True] if more else None)
        eq(cached, [0, 0, (n - 1) // 16 * 16, 0])
        eq(said["choices"][0]["logprobs"]["tokens"], list(said["choices"][0]["text"]))
        whole = f.ask("/v1/completions", dict(body, logprobs=2)).json["choices"][0]["logprobs"]
        events = f.ask("/v1/completions", dict(body, logprobs=2, stream=True)).events
        for key, list_ in whole.items():
            eq([x for e in events for x in e["choices"][0]["logprobs"][key]], list_, key)
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "logprobs": True, "top_logprobs": 3}
        whole = f.ask("/v1/chat/completions", chat).json["choices"][0]
        eq("".join(t["token"] for t in whole["logprobs"]["content"]), whole["message"]["content"])
        eq({len(t["top_logprobs"]) for t in whole["logprobs"]["content"]}, {3})
        events = f.ask("/v1/chat/completions", dict(chat, stream=True)).events
        eq([t for e in events for t in (e["choices"][0]["logprobs"] or {"content": []})["content"]], whole["logprobs"]["content"])


def test_adapters(work):
    """Listed with their parent, chosen by name, with blocks of their own; loaded and unloaded while it runs."""
    body = {"prompt": text(9), "max_tokens": 2}
    hit = (len(body["prompt"]) - 1) // 16 * 16
    with fleet(work, "--profile", "instant", "--lora-modules", "sql=/adapters/sql", "--lora-modules", "chat") as f:
        cards = f.ask("/v1/models").json["data"]
        eq([(c["id"], c["root"], c["parent"], c["max_model_len"]) for c in cards],
           [("sim-model", "sim-model", None, f.announce["max_model_len"]), ("sql", "/adapters/sql", "sim-model", None),
            ("chat", "chat", "sim-model", None)])

        def cached(name):
            said = f.ask("/v1/completions", dict(body, model=name)).json
            eq(said["model"], name)
            return (said["usage"]["prompt_tokens_details"] or {}).get("cached_tokens", 0)

        eq([cached(m) for m in ("sim-model", "sql", "sql", "chat", "sim-model")], [0, 0, hit, 0, hit])
        labels, value = f.metrics().samples["vllm:lora_requests_info"][0]
        eq(labels, {"max_lora": "2", "running_lora_adapters": "", "waiting_lora_adapters": ""})
        assert value > 1.7e9, value
        peek = {m: f.admin("peek", {"prompt": body["prompt"], "model": m})["cached"]["r0"] for m in ("sim-model", "sql", "chat")}
        eq(peek, {"sim-model": hit, "sql": hit, "chat": hit})
        f.ask("/reset_prefix_cache", {})
        cached("sql")
        peek = {m: f.admin("peek", {"prompt": body["prompt"], "model": m})["cached"]["r0"] for m in ("sim-model", "sql", "chat")}
        eq(peek, {"sim-model": 0, "sql": hit, "chat": 0})
        new = {"lora_name": "new", "lora_path": "/adapters/new"}
        f.ask("/v1/completions", dict(body, model="new"), 404)
        eq(f.ask("/v1/load_lora_adapter", new).data, b"Success: LoRA adapter 'new' added successfully.")
        f.ask("/v1/load_lora_adapter", new, 400)
        eq(cached("new"), 0)
        eq(f.ask("/v1/unload_lora_adapter", {"lora_name": "new"}).data, b"Success: LoRA adapter 'new' removed successfully.")
        f.ask("/v1/unload_lora_adapter", {"lora_name": "new"}, 404)
        error = f.ask("/v1/completions", dict(body, model="new"), 404).json["error"]
        eq(error["message"], "The model `new` does not exist.")
    with fleet(work, "--set", "prefill_tokens_per_s=600", "--set", "max_num_seqs=1", "--set", "max_num_batched_tokens=4096",
               "--lora-modules", "sql", "--lora-modules", "chat") as f:
        threads = [threading.Thread(target=f.ask, args=("/v1/completions", dict(body, model=m))) for m in ("sql", "chat")]
        for t in threads:
            t.start()
        seen = set()
        while any(t.is_alive() for t in threads):
            labels = f.metrics().samples["vllm:lora_requests_info"][0][0]
            seen.add((labels["running_lora_adapters"], labels["waiting_lora_adapters"]))
            time.sleep(0.05)
        for t in threads:
            t.join()
        assert seen & {("sql", "chat"), ("chat", "sql")} and seen <= {(a, b) for a in ("", "sql", "chat") for b in ("", "sql", "chat")}, seen
    with fleet(work, "--profile", "instant") as f:
        assert "vllm:lora_requests_info" not in f.metrics().types


def test_per_request_metrics(work):
    """What the reply says of its own times is what the truth log says; a stream's usage event has it, nothing else does."""
    body = {"prompt": text(9), "max_tokens": 5, "ignore_eos": True}
    with fleet(work, "--enable-per-request-metrics", "--truth", "truth.jsonl") as f:
        told = [f.ask("/v1/completions", body).json["metrics"]]
        events = f.ask("/v1/completions", dict(body, stream=True, stream_options={"include_usage": True})).events
        eq(["metrics" in e for e in events], [False] * 5 + [True])
        told.append(events[-1]["metrics"])
        eq(f.ask("/v1/completions", dict(body, max_tokens=1)).json["metrics"]["mean_itl_ms"], None)
        assert "metrics" not in f.ask("/v1/completions", dict(body, n=2)).json
    with open(os.path.join(work.path, "truth.jsonl"), encoding="utf-8") as file:
        truth = [json.loads(line) for line in file][:2]
    for said, t in zip(told, truth):
        ms = {k: t[k] / 1e6 for k in ("queued_ns", "scheduled_ns", "first_token_ns", "last_token_ns")}
        want = {"time_to_first_token_ms": ms["first_token_ns"] - ms["scheduled_ns"],
                "generation_time_ms": ms["last_token_ns"] - ms["first_token_ns"],
                "queue_time_ms": ms["scheduled_ns"] - ms["queued_ns"],
                "mean_itl_ms": (ms["last_token_ns"] - ms["first_token_ns"]) / 4,
                "tokens_per_second": 5e3 / (ms["last_token_ns"] - ms["scheduled_ns"])}
        eq(list(said), list(want))
        for key, value in want.items():
            near(said[key], value, 0.002, key)
    with fleet(work, "--profile", "instant") as f:
        assert "metrics" not in f.ask("/v1/completions", body).json


def test_queue_limits(work):
    slow = ("--set", "prefill_tokens_per_s=600", "--set", "max_num_batched_tokens=4096")
    body = {"prompt": text(12), "max_tokens": 2, "ignore_eos": True}
    for args, reason in ((("--max-num-queued-reqs", "2"), "max_num_queued_reqs"),
                         (("--max-num-queued-tokens", "100"), "max_num_queued_tokens")):
        with fleet(work, *slow, *args) as f:
            f.ask("/v1/completions", {"prompt": "x", "max_tokens": 1})
            first = threading.Thread(target=f.ask, args=("/v1/completions", body))
            first.start()
            time.sleep(0.15)
            error = f.ask("/v1/completions", dict(body, n=2, temperature=1), 503).json["error"]
            eq(error["code"], 503)
            page = f.metrics()
            eq(page.value("vllm:admission_rejections_total", reason=reason), 1)
            eq(page.value("vllm:admission_rejections_total"), 1)
            first.join()
            f.ask("/v1/completions", dict(body, prompt="y", n=2, temperature=1))
    with fleet(work, "--profile", "instant") as f:
        assert "vllm:admission_rejections_total" not in f.metrics().types


# ---- metrics ----

REQUESTS = [{"prompt": text(n, c), "max_tokens": k, "ignore_eos": True, "n": m}
            for n, c, k, m in [(1, "a", 1, 1), (9, "b", 4, 1), (9, "b", 4, 1), (30, "c", 12, 2), (30, "c", 3, 1)]]


def test_metrics_against_the_truth(work):
    """Counters and histograms say what the fleet's own log says, and the parts of a request's time add up."""
    with fleet(work, "--truth", "truth.jsonl") as f:
        for body in REQUESTS:
            f.ask("/v1/completions", body)
        page = f.metrics()
    with open(os.path.join(work.path, "truth.jsonl"), encoding="utf-8") as file:
        truth = [json.loads(line) for line in file]
    eq(len(truth), len(REQUESTS))
    single = [t for t in truth if t["choices"] == 1]
    choices = sum(t["choices"] for t in truth)
    prompts = sum(t["prompt_tokens"] * t["choices"] for t in truth)
    eq(page.value("vllm:prompt_tokens_total"), prompts)
    eq(page.value("vllm:prompt_tokens_by_source_total"), prompts, "the sources sum to the prompts")
    eq(page.value("vllm:generation_tokens_total"), sum(t["output_tokens"] for t in truth))
    eq(page.value("vllm:prefix_cache_queries_total"), prompts)
    eq(page.value("vllm:prefix_cache_hits_total"), page.value("vllm:prompt_tokens_cached_total"))
    eq(page.value("vllm:prompt_tokens_by_source_total", source="local_cache_hit"),
       page.value("vllm:prompt_tokens_cached_total"))
    assert page.value("vllm:prompt_tokens_cached_total") >= sum(t["cached_tokens"] for t in single) > 0
    eq(page.value("vllm:request_success_total", finished_reason="length"), choices)
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
                 "request_prefill_time_seconds", "request_decode_time_seconds", "request_inference_time_seconds",
                 "request_prompt_tokens", "request_generation_tokens", "request_params_max_tokens",
                 "request_prefill_kv_computed_tokens", "request_time_per_output_token_seconds"):
        eq(page.value(f"vllm:{name}_count"), choices, name)
    for name in ("request_params_n", "request_max_num_generation_tokens"):
        eq(page.value(f"vllm:{name}_count"), len(truth), name)
    eq(page.value("vllm:request_prompt_tokens_sum"), prompts)
    eq(page.value("vllm:request_prefill_kv_computed_tokens_sum"),
       page.value("vllm:prompt_tokens_by_source_total", source="local_compute"))
    eq(page.value("vllm:request_params_max_tokens_sum"), sum(b["max_tokens"] * b["n"] for b in REQUESTS))
    eq(page.value("vllm:inter_token_latency_seconds_count"), sum(t["output_tokens"] - t["choices"] for t in truth))

    def total(name):
        return page.value(f"vllm:{name}_seconds_sum")

    near(total("request_prefill_time") + total("request_decode_time"), total("request_inference_time"), 1e-6)
    near(total("inter_token_latency"), total("request_decode_time"), 1e-6)
    many = next(t for t in truth if t["choices"] > 1)
    decode = sum(t["last_token_ns"] - t["first_token_ns"] for t in single) / 1e9
    longest = (many["last_token_ns"] - many["first_token_ns"]) / 1e9
    assert decode <= total("request_decode_time") <= decode + 2 * longest + 1e-6


def test_metrics_are_the_golden_ones(work):
    """Families, types, labels and bucket edges as the fixtures have them, where they show vLLM."""
    with fleet(work, "--model", "meta-llama/Llama-3.1-8B-Instruct", "--profile", "instant") as f:
        f.ask("/v1/completions", REQUESTS[0])
        page = f.metrics()
        types, samples = page.types, page.samples
    folder = os.path.join(ROOT, "tests/data/prometheus")
    compared = 0
    for name in sorted(os.listdir(folder)):
        if not re.match(r"(01|10|13)_", name):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            golden = Page(file.read())
        for family, kind in golden.types.items():
            if not family.startswith("vllm:"):
                continue
            eq(types.get(family), kind, f"{name} {family}")
            compared += 1
        for sample, rows in golden.samples.items():
            if not sample.startswith("vllm:"):
                continue
            assert sample in samples, f"{name}: {sample}"
            have = set(samples[sample][0][0])
            for labels, _ in rows:
                assert set(labels) <= have, f"{name}: {sample} {labels}"
            if sample == "vllm:iteration_tokens_total_bucket":  # cut short; the others' edges are invented
                theirs = {float(labels["le"]) for labels, _ in rows}
                assert theirs <= set(page.edges("vllm:iteration_tokens_total")), f"{name}: {theirs}"
    assert compared >= 6, compared


SECONDS = [.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]
ITL = [.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
EDGES = {
    "time_to_first_token_seconds": [.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
                                    160, 640, 2560],
    "inter_token_latency_seconds": ITL, "request_time_per_output_token_seconds": ITL,
    "e2e_request_latency_seconds": SECONDS, "request_queue_time_seconds": SECONDS,
    "request_inference_time_seconds": SECONDS, "request_prefill_time_seconds": SECONDS,
    "request_decode_time_seconds": SECONDS,
    "iteration_tokens_total": [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
    "request_params_n": [1, 2, 5, 10, 20],
    **{name: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]
       for name in ("request_prompt_tokens", "request_generation_tokens", "request_max_num_generation_tokens",
                    "request_params_max_tokens", "request_prefill_kv_computed_tokens")},
}
LABELS = {
    "num_requests_running": [{}], "num_requests_waiting": [{}], "kv_cache_usage_perc": [{}],
    "num_requests_waiting_by_reason": [{"reason": r} for r in ("capacity", "deferred")],
    "engine_sleep_state": [{"sleep_state": s} for s in ("awake", "weights_offloaded", "discard_all")],
    "prompt_tokens_by_source_total": [{"source": s} for s in ("local_compute", "local_cache_hit", "external_kv_transfer")],
    "request_success_total": [{"finished_reason": r} for r in ("stop", "length", "abort", "error", "repetition")],
    **{name + "_total": [{}] for name in (
        "prefix_cache_queries", "prefix_cache_hits", "external_prefix_cache_queries", "external_prefix_cache_hits",
        "mm_cache_queries", "mm_cache_hits", "prompt_tokens", "generation_tokens", "prompt_tokens_cached",
        "prompt_tokens_recomputed", "num_preemptions", "corrupted_requests")},
}


def test_every_metric_of_the_list(work):
    with fleet(work, "--profile", "instant", "--set", "max_model_len=8192") as f:
        page = f.metrics()
    own = {"model_name": "sim-model", "engine": "0"}
    for name, edges in EDGES.items():
        eq(page.types["vllm:" + name], "histogram", name)
        eq(page.edges("vllm:" + name), edges + [float("inf")], name)
        eq(page.types[f"vllm:{name}_created"], "gauge", name)
    for name, rows in LABELS.items():
        eq(page.types["vllm:" + name], "counter" if name.endswith("_total") else "gauge", name)
        eq([labels for labels, _ in page.samples["vllm:" + name]], [{**own, **row} for row in rows], name)
    labels, value = page.samples["vllm:cache_config_info"][0]
    eq(value, 1)
    eq({k: labels[k] for k in ("engine", "block_size", "num_gpu_blocks", "enable_prefix_caching", "cache_dtype")},
       {"engine": "0", "block_size": "16", "num_gpu_blocks": str(f.announce["kv_blocks"] + 1), "enable_prefix_caching": "True",
        "cache_dtype": "auto"})
    known = {"vllm:" + n for n in [*EDGES, *LABELS, "cache_config_info"]}
    created = {"vllm:" + n.removesuffix("_total") + "_created" for n in LABELS if n.endswith("_total")}
    created |= {f"vllm:{n}_created" for n in EDGES}
    eq(set(page.types) - known - created, set(), "nothing that the list does not have")


BLOCKS = ("kv_block_lifetime_seconds", "kv_block_idle_before_evict_seconds", "kv_block_reuse_gap_seconds")


def test_lives_of_blocks(work):
    """vLLM's --kv-cache-metrics: a block's life ends when another request takes it."""
    edges = [.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, float("inf")]
    args = ("--profile", "instant", "--set", "kv_blocks=8", "--set", "max_model_len=128", "--kv-cache-metrics")
    a, b = "a" * 64, "b" * 120
    with fleet(work, *args, "--kv-cache-metrics-sample", "1") as f:
        for prompt in (a, a, a):
            f.ask("/v1/completions", {"prompt": prompt, "max_tokens": 1})
            time.sleep(0.03)
        before = f.metrics()
        f.ask("/v1/completions", {"prompt": b, "max_tokens": 1})
        page = f.metrics()
        for name in BLOCKS:
            eq(page.types["vllm:" + name], "histogram")
            eq(page.edges("vllm:" + name), edges)
        ended = [page.value(f"vllm:{n}_count") - before.value(f"vllm:{n}_count") for n in BLOCKS]
        # all eight blocks are taken anew, six of them were used before; the three that were hit twice have one gap each
        eq(ended, [6, 6, 3])
        gaps, lives = (page.value(f"vllm:{n}_sum") - before.value(f"vllm:{n}_sum") for n in (BLOCKS[2], BLOCKS[0]))
        assert 0.09 <= gaps < 1, gaps
        assert lives > gaps, lives
    for more in ((), ("--kv-cache-metrics-sample", "0")):
        with fleet(work, *args, *more) as f:
            for prompt in (a, b, a, b):
                f.ask("/v1/completions", {"prompt": prompt, "max_tokens": 1})
            assert f.metrics().value(f"vllm:{BLOCKS[0]}_count") <= (8 if not more else 0)
    with fleet(work, "--profile", "instant") as f:
        eq([n for n in f.metrics().types if "kv_block" in n], [])


main(globals())
