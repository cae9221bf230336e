"""The simulated fleet with a model's tokenizer and chat template, held against `perigee tokenize` and `perigee render`.

Three models: a small one made of tests/data/tokenizer with a template of our own; Qwen3 and gpt-oss's o200k_harmony with
the data of `make deps` (skipped by name where they are not).
"""
import contextlib
import json
import subprocess
import urllib.error
import urllib.request

from harness import PERIGEE, RELAXED, eq, has, main
from models import harmony, qwen3, small

THREADS = ["test_a_run_small"]

TEXTS = ["x", "Hello, world", " two  spaces\n\n\ttab", "naïve café 日本語 🙂 👩‍🚀", "<|end|> and <|im_end|> and <|return|>", "12345"]
HI = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello 🙂 naïve 日本"}]


class Fleet:
    def __init__(self, announce):
        self.announce, self.url = announce, announce["replicas"][0]["url"]

    def post(self, path, body, status=200):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                got, data = reply.status, reply.read()
        except urllib.error.HTTPError as e:
            got, data = e.code, e.read()
        eq(got, status, f"{path}: {data[:500]}")
        return json.loads(data)

    def ids(self, **body):
        return self.post("/tokenize", body)["tokens"]

    def chat(self, messages, **more):
        return self.post("/v1/chat/completions", {"messages": messages, "return_token_ids": True, **more})

    def stream(self, path, body):
        """The events of a stream, each line checked to be UTF-8 by itself."""
        request = urllib.request.Request(self.url + path, json.dumps(dict(body, stream=True)).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as reply:
            lines = [line.decode("utf-8") for line in reply.read().split(b"\n\n") if line]
        eq(lines.pop(), "data: [DONE]")
        return [json.loads(line[len("data: "):]) for line in lines]


@contextlib.contextmanager
def fleet(work, *args):
    process = work.start("sim", "--announce", "--replicas", "1", "--profile", "instant", *args)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield Fleet(json.loads(line))
    finally:
        process.terminate()
        process.communicate(timeout=20)


def run(work, *args, text=""):
    done = subprocess.run([PERIGEE, *args], cwd=work.path, input=text.encode(), capture_output=True, timeout=60, check=False)
    eq(done.returncode, 0, f"{args}: {done.stderr.decode()}")
    return done.stdout.decode()


def local_ids(work, tokenizer, texts, *args):
    """One list of ids a text; loading a tokenizer takes a second."""
    out = run(work, "tokenize", "--tokenizer", tokenizer, "--json", *args, "--", *texts)
    return [json.loads(line)["ids"] for line in out.splitlines()]


# ---- the same ids on both sides ----

def check_parity(work, model):
    with fleet(work, "--tokenizer", model) as f:
        has(f.announce["tokenizer"], model)
        eq(f.announce["history_repeats"], True)
        eq([f.ids(prompt=text, add_special_tokens=False) for text in TEXTS], local_ids(work, model, TEXTS))
        eq([f.ids(prompt=text) for text in TEXTS], local_ids(work, model, TEXTS, "--add-special"))
        said = f.chat(HI, max_tokens=3)
        eq(said["prompt_token_ids"], f.ids(messages=HI))
        eq(said["usage"]["prompt_tokens"], len(f.ids(messages=HI)))
        eq(f.post("/v1/chat/completions/render", {"messages": HI})["token_ids"], f.ids(messages=HI))
        text = "naïve 🙂"
        want = f.ids(prompt=text)
        eq(f.post("/v1/completions/render", {"prompt": text})[0]["token_ids"], want)
        eq(f.post("/v1/completions", {"prompt": text, "max_tokens": 1})["usage"]["prompt_tokens"], len(want))
        eq(f.post("/detokenize", {"tokens": f.ids(prompt=text, add_special_tokens=False)}), {"prompt": text})
        return f.ids(messages=HI)


def check_template(work, model):
    ids = check_parity(work, model)
    text = run(work, "render", "--template", model, text=json.dumps(HI))
    eq([ids], local_ids(work, model, [text]))


def test_parity_small(work):
    check_template(work, small(work))


def test_parity_qwen3(work):
    check_template(work, qwen3(work))


def test_parity_harmony(work):
    check_parity(work, harmony(work))


def test_token_strs_are_the_vocabulary_s_own(work):
    """As convert_ids_to_tokens has them: each one's key in the file."""
    for model in (small(work), qwen3(work)):
        with open(model + "/tokenizer.json", encoding="utf-8") as f:
            file = json.load(f)
        names = {i: t for t, i in file["model"]["vocab"].items()} | {t["id"]: t["content"] for t in file["added_tokens"]}
        with fleet(work, "--tokenizer", model) as f:
            for text in TEXTS + ["".join(map(chr, range(0x180)))]:
                said = f.post("/tokenize", {"prompt": text, "return_token_strs": True})
                eq(said["token_strs"], [names[i] for i in said["tokens"]], text)


def test_the_name_of_a_tokenizer_is_enough(work):
    qwen3(work)
    with fleet(work, "--tokenizer", "qwen3") as f:
        eq((f.announce["tokenizer"], f.announce["template"]), ("qwen3", "qwen3"))
        has(f.post("/detokenize", {"tokens": f.ids(messages=HI)})["prompt"], "<|im_start|>user\nHello 🙂 naïve 日本<|im_end|>")
        ids = f.ids(messages=HI, chat_template_kwargs={"enable_thinking": False})
        has(f.post("/detokenize", {"tokens": ids})["prompt"], "<think>\n\n</think>")


def test_tool_calls_and_tools(work):
    """Arguments come as text and reach the template as an object; tools get the fields that vLLM's model has."""
    model = small(work)
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"b":1,"a":[]}'}}
    messages = HI + [{"role": "assistant", "content": None, "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}]
    with fleet(work, "--tokenizer", model) as f:
        body = {"messages": messages, "tools": [{"function": {"name": "f"}}]}
        text = f.post("/detokenize", {"tokens": f.ids(**body)})["prompt"]
        has(text, '<|im|>assistant\n[f{"b": 1, "a": []}]<|end|>')
        has(text, '<|im|>tool\nx\ny<|end|>')
        has(text, '[{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}]')
        eq(f.chat(messages, tools=body["tools"], max_tokens=1)["prompt_token_ids"], f.ids(**body))
        call["function"]["arguments"] = "{"
        has(f.post("/tokenize", {"messages": messages}, 400)["error"]["message"], "tool_calls[0].function.arguments")


def test_harmony_thinks_when_it_is_told_to(work):
    """--set reasoning_tokens: analysis, then the answer; in chat as reasoning, in completions as raw tokens."""
    model = harmony(work)
    with fleet(work, "--tokenizer", model, "--now", "2026-08-22", "--set", "reasoning_tokens=12") as f:
        whole = f.chat(HI, max_tokens=60, seed=3)
        message = whole["choices"][0]["message"]
        assert message["reasoning"] and message["content"], message
        raw = f.post("/detokenize", {"tokens": whole["choices"][0]["token_ids"]})["prompt"]
        eq(raw.removesuffix("<|return|>"), "<|channel|>analysis<|message|>" + message["reasoning"]
           + "<|end|><|start|>assistant<|channel|>final<|message|>" + message["content"])
        events = f.stream("/v1/chat/completions", {"messages": HI, "max_tokens": 60, "seed": 3, "stream_options": {"include_usage": True}})
        deltas = [e["choices"][0]["delta"] for e in events if e["choices"]]
        eq("".join(d.get("reasoning") or "" for d in deltas), message["reasoning"])
        eq("".join(d.get("content") or "" for d in deltas), message["content"])
        kinds = ["reasoning" if d.get("reasoning") else "content" for d in deltas if d.get("reasoning") or d.get("content")]
        eq(kinds, sorted(kinds, reverse=True), "thoughts come first")
        eq(events[-1]["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])
        said = f.post("/v1/completions", {"prompt": whole["prompt_token_ids"], "max_tokens": 60, "seed": 3, "skip_special_tokens": False})
        eq(said["choices"][0]["text"], raw.removesuffix("<|return|>"))
        said = f.post("/v1/completions", {"prompt": whole["prompt_token_ids"], "max_tokens": 60, "seed": 3})
        eq(said["choices"][0]["text"], "analysis" + message["reasoning"] + "assistantfinal" + message["content"])
        cut = f.chat(HI, max_tokens=8, seed=3)["choices"][0]
        eq((cut["finish_reason"], cut["message"]["content"]), ("length", ""))
        assert message["reasoning"].startswith(cut["message"]["reasoning"]) and cut["message"]["reasoning"], cut
        # thoughts are not in the next prompt: what it has in common with the last one ends where they began
        again = f.chat(HI + [{"role": "assistant", "content": message["content"], "reasoning": message["reasoning"]},
                             {"role": "user", "content": "Go on."}], max_tokens=4)
        eq(again["usage"]["prompt_tokens_details"]["cached_tokens"], whole["usage"]["prompt_tokens"] // 16 * 16)


# ---- caches ----

def check_turns(work, *args):
    """Turn k hits min(floor((n_k - 1) / B) B, floor((n_{k-1} + out_{k-1} - 1) / B) B)."""
    with fleet(work, *args) as f:
        messages, before = list(HI), 0
        for turn in range(8):
            said = f.chat(messages, seed=turn)
            usage = said["usage"]
            cached = (usage["prompt_tokens_details"] or {"cached_tokens": 0})["cached_tokens"]
            eq(cached, min((usage["prompt_tokens"] - 1) // 16, max(before - 1, 0) // 16) * 16, f"turn {turn}: {usage}")
            before = usage["prompt_tokens"] + usage["completion_tokens"]
            eq(len(said["choices"][0]["token_ids"]), usage["completion_tokens"])
            messages += [{"role": "assistant", "content": said["choices"][0]["message"]["content"]},
                         {"role": "user", "content": f"And {turn}?"}]


def test_turns_hit_what_was_said_small(work):
    check_turns(work, "--tokenizer", small(work))


def test_turns_hit_what_was_said_qwen3(work):
    check_turns(work, "--tokenizer", qwen3(work))


def test_turns_hit_what_was_said_harmony(work):
    check_turns(work, "--tokenizer", harmony(work), "--now", "2026-08-22T12:00:00")


# ---- answers ----

def check_streams(work, model):
    emoji = empty = 0
    with fleet(work, "--tokenizer", model) as f:
        for seed in range(30):
            body = {"prompt": "Say something", "max_tokens": 120, "ignore_eos": True, "seed": seed, "return_token_ids": True}
            whole = f.post("/v1/completions", body)["choices"][0]
            events = [e["choices"][0] for e in f.stream("/v1/completions", body)]
            eq(len(events), 120, "one event a token")
            eq("".join(e["text"] for e in events), whole["text"])
            ids = [i for e in events for i in e["token_ids"]]
            eq(ids, whole["token_ids"])
            decoded = f.post("/detokenize", {"tokens": ids})["prompt"]
            assert decoded.startswith(whole["text"]), (decoded, whole["text"])
            eq(decoded[len(whole["text"]):].strip("\ufffd"), "", "only the rest of a broken character is held back")
            assert "\ufffd" not in whole["text"]
            emoji += whole["text"].count("🚀")
            empty += sum(e["text"] == "" for e in events)
            again = f.ids(prompt=whole["text"], add_special_tokens=False)
            same = next((k for k, (a, b) in enumerate(zip(ids, again)) if a != b), min(len(ids), len(again)))
            assert same >= len(again) - 12, "encoding the answer again gives its ids, but for a cut word at the end"
    assert emoji > 5 and empty > 5, (emoji, empty)


def test_streams_small(work):
    check_streams(work, small(work))


def test_streams_qwen3(work):
    check_streams(work, qwen3(work))


def test_the_end_is_a_token_without_text(work):
    with fleet(work, "--tokenizer", small(work)) as f:
        end = f.ids(prompt="<|end|>", add_special_tokens=False)
        events = f.stream("/v1/chat/completions", {"messages": HI, "return_token_ids": True,
                                                   "stream_options": {"include_usage": True}})
        usage = events.pop()["usage"]
        eq(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        last = events[-1]["choices"][0]
        eq((last["delta"], last["finish_reason"], last["token_ids"]), ({"content": ""}, "stop", end))
        eq(sum(len(e["choices"][0].get("token_ids", ())) for e in events), usage["completion_tokens"])
        said = f.chat(HI)["choices"][0]
        eq("".join(e["choices"][0]["delta"]["content"] for e in events), said["message"]["content"])


def test_a_stop_string_across_tokens(work):
    with fleet(work, "--tokenizer", small(work)) as f:
        text = f.chat(HI, max_tokens=100, ignore_eos=True)["choices"][0]["message"]["content"]
        stop = text[40:47]
        said = f.chat(HI, max_tokens=100, ignore_eos=True, stop=[stop])["choices"][0]
        eq(said["message"]["content"], text[:text.index(stop)])
        eq((said["finish_reason"], said["stop_reason"]), ("stop", stop))
        events = f.stream("/v1/chat/completions", {"messages": HI, "max_tokens": 100, "ignore_eos": True, "stop": stop})
        eq("".join(e["choices"][0]["delta"]["content"] for e in events), text[:text.index(stop)])


def test_harmony_answers_in_the_final_channel(work):
    """Chat shows the message alone; a completion of the same ids shows what the model said, as vLLM does."""
    with fleet(work, "--tokenizer", harmony(work), "--now", "2026-08-22T12:00:00") as f:
        header = f.ids(prompt="<|channel|>final<|message|>")
        eq(len(header), 3)
        said = f.chat(HI)
        choice = said["choices"][0]
        eq(choice["token_ids"][:3], header)
        eq(choice["token_ids"][-1:], f.ids(prompt="<|return|>"))
        text = choice["message"]["content"]
        has(f.post("/detokenize", {"tokens": said["prompt_token_ids"]})["prompt"], "Current date: 2026-08-22")
        events = f.stream("/v1/chat/completions", {"messages": HI, "return_token_ids": True})
        eq(len(events) - 1, len(choice["token_ids"]) - 3, "the header's tokens have no events of their own")
        eq([i for e in events[1:] for i in e["choices"][0]["token_ids"]], choice["token_ids"])
        raw = {"prompt": said["prompt_token_ids"], "max_tokens": 200}
        has(f.post("/v1/completions", raw)["choices"][0]["text"][:30], "final" + text[:20])
        raw["skip_special_tokens"] = False
        has(f.post("/v1/completions", raw)["choices"][0]["text"][:50], "<|channel|>final<|message|>" + text[:20])
        has(f.post("/v1/chat/completions", {"messages": HI, "add_generation_prompt": False, "continue_final_message": True},
                   400)["error"]["message"], "continue_final_message")


# ---- a run with the built-in fleet ----

CONVERSATIONS = """
local perigee = require "perigee"
local chat = require "perigee.chat"
local gen = require "perigee.gen"
return perigee.plan { load = perigee.closed { users = 1, sessions = 3 }, session = function(vu)
  local conv = chat.new(vu, { history = "live", system = "Be brief." })
  for _ = 1, 5 do
    conv:user(gen.text { tokens = 90, rng = vu.rng })
    conv:send { max_tokens = 70 }
  end
end }
"""


def check_run(work, model):
    """The run's tokenizer and template are the fleet's, so its own counts are the server's and hits are as predicted."""
    work.write("s.lua", CONVERSATIONS)
    result = work.perigee("run", "s.lua", "--sim", "1", "--profile", "instant", "--tokenizer", model, "--template", model,
                          "--verify", *RELAXED, timeout=90)
    eq(result.status, 0, result.err + result.out[-1500:])
    rows, before = result.rows, None
    eq(len(rows), 15)
    for row in rows:
        eq(row["prompt_tokens_local"], row["prompt_tokens"])
        if row["turn"] > 1:
            said = before["prompt_tokens"] + before["output_tokens"]
            eq(row["cached_tokens"], min((row["prompt_tokens"] - 1) // 16, (said - 1) // 16) * 16, f"{before} {row}")
        before = row


def test_a_run_small(work):
    check_run(work, small(work))


def test_a_run_qwen3(work):
    check_run(work, qwen3(work))


# ---- the command ----

def test_refusals(work):
    model = small(work)
    cases = [(("--tokenizer", "nosuch"), 2, '--tokenizer: tokenizer "nosuch": neither a file'),
             (("--tokenizer", model, "--family", "llama4"), 2, "--tokenizer"),
             (("--family", "llama4"), 2, "give both"), (("--template", "nosuch"), 2, '--template: template "nosuch"'),
             (("--tokenizer", model, "--template", "harmony"), 2, "--template harmony with --tokenizer"),
             (("--now", "noon"), 2, "--now"), (("--tokenizer", model + "/tokenizer_config.json"), 2, "--tokenizer")]
    for args, status, text in cases:
        result = work.perigee("sim", *args, timeout=20)
        eq(result.status, status, f"{args}: {result.err}")
        has(result.err, text)
    work.write("bad.jinja", "x\n{% if %}")
    result = work.perigee("sim", "--template", "bad.jinja", timeout=20)
    eq(result.status, 2, result.err)
    has(result.err, "line 2")


def test_a_template_that_rewrites_answers_says_so(work):
    model = small(work)
    work.write("loud.jinja", "{% for m in messages %}<|im|>{{ m.content | upper }}<|end|>{% endfor %}")
    with fleet(work, "--tokenizer", model, "--template", "loud.jinja") as f:
        eq(f.announce["history_repeats"], False)
        eq(f.post("/detokenize", {"tokens": f.ids(messages=[{"role": "user", "content": "a"}])})["prompt"], "<|im|>A<|end|>")


main(globals())
