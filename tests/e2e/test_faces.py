"""`perigee sim --face`: other servers' ways, held against the golden streams, perigee's own reader and the doctor."""
import json
import os
import re

from harness import ROOT, eq, has, main, near
from simfleet import fleet
from test_responses import parse

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "Hello, and some more words, so that there is a block to be found."}]
# face: golden chat stream, golden completions stream
GOLDEN = {"sglang": ("09_sglang_chat_explicit_nulls", None), "tgi": ("10_tgi_chat_nospace_keepalive", "11_tgi_completions_empty_finish_reason"),
          "llamacpp": ("12_llamacpp_chat_timings", None), "trtllm": ("14_trtllm_chat_trailing_space", None),
          "ollama": ("15_ollama_chat_whole_tool_call", None)}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}}]


def lines(data):
    """The data lines of a stream as (bytes before the JSON, JSON text, bytes behind it)."""
    found = []
    for line in data.decode().split("\n"):
        m = re.match(r"(data: ?)(\{.*\}|\[DONE\])( *)$", line)
        if m:
            found.append(m.groups())
    return found


def shape(x):
    """Keys in their order, and what kind of thing each holds."""
    if isinstance(x, dict):
        # what comes at times only: a prompt's progress when it was asked for, what stopped an answer when something did
        return [(k, None if k == "matched_stop" else shape(v)) for k, v in x.items()
                if k not in ("prompt_progress", "tool_calls")]
    if isinstance(x, list):
        return [shape(v) for v in x]
    return type(x).__name__ if not isinstance(x, (int, float)) or isinstance(x, bool) else "number"


def shapes(data):
    """One of each form of event, in order of appearance."""
    list_ = []
    for before, text, after in lines(data):
        form = (before, shape(json.loads(text)) if text != "[DONE]" else text, after)
        if form not in list_:
            list_.append(form)
    return list_


def golden(name):
    with open(os.path.join(ROOT, "tests/data/sse", name + ".txt"), "rb") as f:
        return f.read()


def ask(f, path, **more):
    body = {"max_tokens": 8, "ignore_eos": True, **more}
    body.update({"messages": MESSAGES} if path == CHAT else {"prompt": "Say something, anything will do here."})
    return f.ask(path, body)


def test_streams_have_the_golden_forms(work):
    with fleet(work, "--profile", "instant") as f:
        want = {p: ask(f, p).json["choices"][0] for p in (CHAT, TEXT)}
    texts = {CHAT: want[CHAT]["message"]["content"], TEXT: want[TEXT]["text"]}
    for face, files in GOLDEN.items():
        with fleet(work, "--profile", "instant", "--face", face) as f:
            eq(f.announce["face"], face)
            for path, api, name in ((CHAT, "chat", files[0]), (TEXT, "completions", files[1])):
                said = ask(f, path, stream=True, stream_options={"include_usage": True})
                read = parse(work, said.data, api)
                eq((read["text"], read["complete"], read["finish_reason"]), (texts[path], True, "length"), f"{face} {api}")
                eq(read["usage"]["completion"], 8, face)
                if name:
                    theirs = shapes(golden(name))
                    for form in shapes(said.data):
                        assert form in theirs, f"{face} {api}:\n{form}\nis not among\n" + "\n".join(map(str, theirs))
                whole = ask(f, path).json["choices"][0]
                eq(whole["message"]["content"] if path == CHAT else whole["text"], texts[path])


# ---- byte for byte ----

# A stream of three tokens a, b and c that ends by length, as §9 of the facts and the fixtures of each server have it: {id} and {t} are
# the response's own, {p} its prompt's tokens, {ms} and {tms} what llama.cpp measured.
CHAT_VLLM = """data: {"id":"{id}","object":"chat.completion.chunk","created":{t},"model":"sim-model","choices":[{"index":0,"delta":\
{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}

data: {"id":"{id}","object":"chat.completion.chunk","created":{t},"model":"sim-model","choices":[{"index":0,"delta":{"content":"{a}"},\
"logprobs":null,"finish_reason":null}]}

data: {"id":"{id}","object":"chat.completion.chunk","created":{t},"model":"sim-model","choices":[{"index":0,"delta":{"content":"{b}"},\
"logprobs":null,"finish_reason":null}]}

data: {"id":"{id}","object":"chat.completion.chunk","created":{t},"model":"sim-model","choices":[{"index":0,"delta":{"content":"{c}"},\
"logprobs":null,"finish_reason":"length","stop_reason":null}]}

data: {"id":"{id}","object":"chat.completion.chunk","created":{t},"model":"sim-model","choices":[],"usage":{"prompt_tokens":{p},\
"total_tokens":{all},"completion_tokens":3}}

data: [DONE]

"""
TEXT_VLLM = """data: {"id":"{id}","object":"text_completion","created":{t},"model":"sim-model","choices":[{"index":0,"text":"{a}",\
"logprobs":null,"finish_reason":null,"stop_reason":null}]}

data: {"id":"{id}","object":"text_completion","created":{t},"model":"sim-model","choices":[{"index":0,"text":"{b}","logprobs":null,\
"finish_reason":null,"stop_reason":null}]}

data: {"id":"{id}","object":"text_completion","created":{t},"model":"sim-model","choices":[{"index":0,"text":"{c}","logprobs":null,\
"finish_reason":"length","stop_reason":null}]}

data: {"id":"{id}","object":"text_completion","created":{t},"model":"sim-model","choices":[],"usage":{"prompt_tokens":{p},\
"total_tokens":{all},"completion_tokens":3}}

data: [DONE]

"""


def sglang(delta, finish="null"):
    return ('data: {"id":"{id}","object":"chat.completion.chunk","created":{t},"model":"sim-model","choices":[{"index":0,"delta":{"role":'
            + delta + ',"reasoning_content":null,"hidden_states":null,"tool_calls":null},"logprobs":null,"finish_reason":' + finish
            + ',"matched_stop":null}],"usage":null,"sglext":null}\n\n')


CHAT_SGLANG = (sglang('"assistant","content":""') + "".join(sglang('null,"content":"{%s}"' % x) for x in "abc")
               + sglang('null,"content":null', '"length"')
               + 'data: {"id":"{id}","object":"chat.completion.chunk","created":{t},"model":"sim-model","choices":[],"usage":{"prompt_tokens":'
               '{p},"total_tokens":{all},"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"reasoning_tokens":0}}\n\n'
               "data: [DONE]\n\n")


def tgi(x, end='null}],"usage":null}'):
    return ('data:{"object":"chat.completion.chunk","id":"","created":{t},"model":"sim-model","system_fingerprint":"3.0.1-native","choices":'
            '[{"index":0,"delta":{"role":"assistant","content":"{%s}"},"logprobs":null,"finish_reason":' % x + end + "\n\n")


def tgi_text(x, finish="", usage=""):
    return ('data:{"object":"text_completion","id":"","created":{t},"choices":[{"index":0,"text":"{%s}","logprobs":null,"finish_reason":"%s"}],'
            '"model":"sim-model","system_fingerprint":"3.0.1-native"%s}\n\n' % (x, finish, usage))


TGI_USAGE = '"usage":{"prompt_tokens":{p},"completion_tokens":3,"total_tokens":{all}}'
CHAT_TGI = tgi("a") + tgi("b") + tgi("c", '"length"}],' + TGI_USAGE + "}") + "data:[DONE]\n\n"
TEXT_TGI = tgi_text("a") + tgi_text("b") + tgi_text("c", "length", "," + TGI_USAGE) + "data:[DONE]\n\n"


def llama(delta, finish="null"):
    return ('data: {"choices":[{"finish_reason":' + finish + ',"index":0,"delta":{' + delta + '}}],"created":{t},"id":"{id}","model":"sim-model",'
            '"system_fingerprint":"b9864","object":"chat.completion.chunk"}\n\n')


CHAT_LLAMACPP = (llama('"role":"assistant","content":null') + "".join(llama('"content":"{%s}"' % x) for x in "abc") + llama("", '"length"')
                 + 'data: {"choices":[],"created":{t},"id":"{id}","model":"sim-model","object":"chat.completion.chunk","usage":'
                 '{"completion_tokens":3,"prompt_tokens":{p},"total_tokens":{all},"prompt_tokens_details":{"cached_tokens":0}},"timings":'
                 '{"cache_n":0,"prompt_n":{p},"prompt_ms":{ms},"predicted_n":3,"predicted_ms":{tms}}}\n\ndata: [DONE]\n\n')


def trt(choice, space=""):
    return ('data: {"id":"{id}","object":"chat.completion.chunk","created":{t},"model":"sim-model","choices":[{"index":0,"delta":{' + choice
            + "}]}" + space + "\n\n")


CHAT_TRTLLM = (trt('"role":"assistant"}', " ") + trt('"content":"{a}","reasoning_content":""}') + trt('"content":"{b}","reasoning_content":""}')
               + trt('"content":"{c}","reasoning_content":""},"finish_reason":"length"')
               + 'data: {"id":"{id}","object":"chat.completion.chunk","created":{t},"model":"sim-model","choices":[],"usage":{"prompt_tokens":{p},'
               '"total_tokens":{all},"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}}\n\ndata: [DONE]\n\n')


def ollama(text, finish="null"):
    return ('data: {"id":"{id}","object":"chat.completion.chunk","created":{t},"model":"sim-model","system_fingerprint":"fp_ollama","choices":'
            '[{"index":0,"delta":{"role":"assistant","content":"' + text + '"},"finish_reason":' + finish + "}]}\n\n")


CHAT_OLLAMA = ("".join(ollama("{%s}" % x) for x in "abc") + ollama("", '"length"')
               + 'data: {"id":"{id}","object":"chat.completion.chunk","created":{t},"model":"sim-model","system_fingerprint":"fp_ollama","choices":'
               '[],"usage":{"prompt_tokens":{p},"completion_tokens":3,"total_tokens":{all}}}\n\ndata: [DONE]\n\n')


def ollama_text(x, finish="null"):
    return ('data: {"id":"{id}","object":"text_completion","created":{t},"model":"sim-model","system_fingerprint":"fp_ollama","choices":[{"index":0,'
            '"text":"{%s}","finish_reason":%s}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}\n\n' % (x, finish))


TEXT_OLLAMA = (ollama_text("a") + ollama_text("b") + ollama_text("c", '"length"')
               + 'data: {"id":"{id}","object":"text_completion","created":{t},"model":"sim-model","system_fingerprint":"fp_ollama","choices":[],'
               '"usage":{"prompt_tokens":{p},"completion_tokens":3,"total_tokens":{all}}}\n\ndata: [DONE]\n\n')
STREAMS = [("vllm", CHAT, CHAT_VLLM), ("vllm", TEXT, TEXT_VLLM), ("sglang", CHAT, CHAT_SGLANG), ("tgi", CHAT, CHAT_TGI), ("tgi", TEXT, TEXT_TGI),
           ("llamacpp", CHAT, CHAT_LLAMACPP), ("trtllm", CHAT, CHAT_TRTLLM), ("ollama", CHAT, CHAT_OLLAMA), ("ollama", TEXT, TEXT_OLLAMA)]


def filled(form, **values):
    for key, value in values.items():
        form = form.replace("{%s}" % key, str(value))
    return form


def test_streams_byte_for_byte(work):
    for face, path, form in STREAMS:
        with fleet(work, "--profile", "instant", "--face", face) as f:
            data = ask(f, path, stream=True, stream_options={"include_usage": True}, max_tokens=3).data.decode()
            choice = ask(f, path, max_tokens=3).json["choices"][0]
            prompt = ask(f, path, max_tokens=3).json["usage"]["prompt_tokens"]
        text = choice["message"]["content"] if path == CHAT else choice["text"]
        ids = set(re.findall(r'"id":"([^"]*)"', data))
        times = set(re.findall(r'"created":(\d+)', data))
        eq((len(ids), len(times), len(text)), (1, 1, 3), f"{face} {path}")
        measured = re.findall(r'_ms":([\d.]+)', data) or ["", ""]
        eq(data, filled(form, id=ids.pop(), t=times.pop(), a=text[0], b=text[1], c=text[2], p=prompt, all=prompt + 3, ms=measured[0],
                        tms=measured[1]), f"{face} {path}")


# ---- perigee's own client against each ----

SCRIPT = """
local perigee, chat, gen = require "perigee", require "perigee.chat", require "perigee.gen"
local MODEL = "sim-model"
local TOOLS = { { type = "function", ["function"] = { name = "add", parameters = { properties = { a = { type = "integer" } } } } } }
return perigee.plan {
  load = perigee.closed { users = 1, sessions = 2 },
  session = function(vu)
    local conv = chat.new(vu, { system = gen.text { tokens = 200, seed = "faces" } })
    for turn = 1, 3 do
      conv:user("Question " .. turn)
      conv:send { max_tokens = 12, stream = turn ~= 2 }
    end
    local usage = { include_usage = true }
    vu:http { path = "/v1/completions", stream = "completions", body = { model = MODEL, prompt = "Go on from here, and",
      max_tokens = 7, ignore_eos = true, stream = true, stream_options = usage } }
    vu:http { path = "/v1/chat/completions", stream = "chat", body = { model = MODEL, stream = true, stream_options = usage,
      messages = { { role = "user", content = "Add." } }, tools = TOOLS, tool_choice = "required" } }
    vu:http { path = "/v1/completions", api = "completions", body = { model = MODEL, prompt = "Whole", max_tokens = 5, ignore_eos = true } }
  end,
}
"""
KEPT = ("turn", "step", "status", "error", "finish_reason", "prompt_tokens", "output_tokens", "streamed", "complete")


def test_a_run_counts_the_same(work):
    """The same sessions against each server: the same tokens, ends and outcomes; cached tokens where the server says them."""
    work.write("s.lua", SCRIPT)
    rows = {}
    for face in ("vllm", *GOLDEN):
        with fleet(work, "--face", face) as f:
            result = work.perigee("run", "s.lua", "--replica", "r0=" + f.url)
            eq(result.status, 98, f"{face}: {result.out[-1500:]}")  # the tools are not in the prompt as it is counted here
            rows[face] = [r for r in result.rows if r["generation"]]
    want = [{k: r[k] for k in KEPT if k in r} for r in rows["vllm"]]
    eq(len(want), 12)
    eq({r["error"] for r in want}, {None})
    cached = [r["cached_tokens"] or 0 for r in rows["vllm"]]
    assert sum(c > 0 for c in cached) == 7, cached
    for face, got in rows.items():
        eq([{k: r[k] for k in KEPT if k in r} for r in got], want, face)
        says = face in ("vllm", "sglang", "llamacpp", "trtllm")
        eq([r["cached_tokens"] or 0 for r in got], cached if says else [0] * 12, face)


def test_cached_tokens_by_face(work):
    for face, states in {"sglang": [0, 1], "tgi": [None, None], "llamacpp": [0, 1], "trtllm": [0, 1], "ollama": [None, None]}.items():
        with fleet(work, "--profile", "instant", "--face", face) as f:
            usage = [ask(f, CHAT).json["usage"] for _ in range(2)]
            hit = (usage[0]["prompt_tokens"] - 1) // 16 * 16
            got = [(u.get("prompt_tokens_details") or {}).get("cached_tokens") for u in usage]
            eq(got, [s if s is None else s * hit for s in states], face)
    with fleet(work, "--profile", "instant", "--face", "sglang", "--no-cached-tokens") as f:
        eq([ask(f, CHAT).json["usage"]["prompt_tokens_details"] for _ in range(2)], [None, None])


# ---- their own APIs ----

GENERATE = """data: {"text":"{a}","output_ids":[{x}],"meta_info":{"id":"mine","finish_reason":null,"prompt_tokens":2,"weight_version":\
"default","total_retractions":0,"completion_tokens":1,"cached_tokens":0}}

data: {"text":"{a}{b}","output_ids":[{x},{y}],"meta_info":{"id":"mine","finish_reason":{"type":"length","length":2},"prompt_tokens":2,\
"weight_version":"default","total_retractions":0,"completion_tokens":2,"cached_tokens":0,"e2e_latency":{s}}}

data: [DONE]

"""


def test_sglang_s_generate(work):
    """Text and ids grow from event to event; ids as prompt, lists, stop strings, errors in its own form."""
    params = {"max_new_tokens": 2, "ignore_eos": True}
    with fleet(work, "--profile", "instant", "--face", "sglang") as f:
        data = f.ask("/generate", {"text": "Hi", "sampling_params": params, "stream": True, "rid": "mine"}).data.decode()
        whole = f.ask("/generate", {"input_ids": [72, 105], "sampling_params": params}).json
        text, ids = whole["text"], whole["output_ids"]
        eq(data, filled(GENERATE, a=text[0], b=text[1], x=ids[0], y=ids[1], s=re.search(r'e2e_latency":([\d.]+)', data).group(1)))
        eq((whole["meta_info"]["prompt_tokens"], whole["meta_info"]["cached_tokens"]), (2, 0))
        long = "a prompt of more than a block of sixteen"
        both = [f.ask("/generate", {"text": [long, "Hi"], "sampling_params": params}).json for _ in range(2)]
        eq([[x["meta_info"]["cached_tokens"] for x in list_] for list_ in both], [[0, 0], [32, 0]])
        eq([x["index"] for x in both[0]], [0, 1])
        stopped = f.ask("/generate", {"text": "Hi", "sampling_params": {"stop": text[1], "max_new_tokens": 40}}).json
        eq((stopped["text"], stopped["meta_info"]["finish_reason"]), (text[0], {"type": "stop", "matched": text[1]}))
        for body, message in (({}, "Either text, input_ids"), ({"text": "x", "return_logprob": True}, "return_logprob"), ({"text": 3}, "prompt")):
            error = f.ask("/generate", body, 400).json
            eq(list(error), ["error"])
            eq(list(error["error"]), ["message"])
            has(error["error"]["message"], message)
        page = f.metrics()
        eq(page.value("sglang:num_requests_total"), 7)
    with fleet(work, "--profile", "instant") as f:
        f.ask("/generate", {"text": "x"}, 404)
        f.ask("/completion", {"prompt": "x"}, 404)


def llama_event(f, **values):
    return "data: " + json.dumps({"index": 0, **values}, separators=(",", ":")) + "\n\n"


def test_llama_cpp_s_completion(work):
    """What is new in each event, the figures in one of their own, no end marker; the prompt's progress when it is asked for."""
    body = {"prompt": "Hi", "n_predict": 2, "ignore_eos": True}
    with fleet(work, "--profile", "instant", "--face", "llamacpp") as f:
        whole = f.ask("/completion", body).json
        data = f.ask("/completion", dict(body, stream=True)).data.decode()
        text = whole["content"]
        eq(list(whole), ["index", "content", "tokens", "id_slot", "stop", "model", "tokens_predicted", "tokens_evaluated", "generation_settings",
                         "prompt", "has_new_line", "truncated", "stop_type", "stopping_word", "tokens_cached", "timings"])
        eq((whole["tokens"], whole["prompt"], whole["stop_type"], whole["tokens_cached"]), ([], "Hi", "limit", 3))
        last = json.loads(data.split("\n\n")[-2].removeprefix("data: "))
        eq(data, llama_event(f, content=text[0], tokens=[ord(text[0])], stop=False, id_slot=0, tokens_predicted=1, tokens_evaluated=2)
           + llama_event(f, content=text[1], tokens=[ord(text[1])], stop=False, id_slot=0, tokens_predicted=2, tokens_evaluated=2)
           + data[data.rindex("data: "):])
        eq((last["content"], last["stop"], last["timings"]["predicted_n"], last["generation_settings"]["stream"]), ("", True, 2, True))
        eq(f.ask("/completions", dict(body, return_tokens=True)).json["tokens"], [ord(c) for c in text], "the old path")
        stopped = f.ask("/completion", {"prompt": "Hi", "stop": [text[1]]}).json
        eq((stopped["content"], stopped["stop_type"], stopped["stopping_word"]), (text[0], "word", text[1]))
        assert f.ask("/completion", {"prompt": "Hi", "n_predict": -1}).json["tokens_predicted"] > 16
        eq(f.ask("/completion", {}, 400).json["error"]["type"], "invalid_request_error")
    slow = ("--face", "llamacpp", "--set", "max_num_batched_tokens=256", "--set", "prefill_tokens_per_s=4000")
    with fleet(work, *slow) as f:
        prompt = "w" * 700
        for path, more in (("/completion", {"prompt": prompt, "n_predict": 1}), (CHAT, {"messages": [{"role": "user", "content": prompt}], "max_tokens": 1})):
            data = f.ask(path, dict(more, stream=True, return_progress=True)).data
            told = [json.loads(t)["prompt_progress"] for _, t, _ in lines(data) if "prompt_progress" in t]
            total = told[0]["total"]
            eq([(p["cache"], p["processed"]) for p in told], [(0, 256), (0, 512), (0, total)])
            assert 50 <= told[0]["time_ms"] < told[1]["time_ms"] < told[2]["time_ms"], told
        read = parse(work, data, "chat")
        eq((read["complete"], len(read["text"])), (True, 1))
        first = [json.loads(t)["choices"][0]["delta"] for _, t, _ in lines(data) if "delta" in t][:4]
        eq(first, [{"role": "assistant", "content": None}] * 4, "each progress has the role, and so has the first output")
        eq(b"prompt_progress" in ask(f, CHAT, stream=True).data, False)
    with fleet(work, "--profile", "fixed", "--set", "ttft=2200ms", "--set", "itl=1ms", "--face", "llamacpp") as f:
        eq([ask(f, CHAT, stream=True, sse_ping_interval=n).data.count(b":\n\n") for n in (1, -1)], [2, 0])


def test_tool_calls(work):
    for face in GOLDEN:
        with fleet(work, "--profile", "instant", "--face", face) as f:
            body = {"messages": MESSAGES, "tools": TOOLS, "tool_choice": "required"}
            whole = f.ask(CHAT, body).json["choices"][0]
            read = parse(work, f.ask(CHAT, dict(body, stream=True)).data, "chat")
            function = whole["message"]["tool_calls"][0]["function"]
            eq((whole["finish_reason"], read["finish_reason"]), ("tool_calls", "tool_calls"), face)
            eq([(c["name"], c["arguments"]) for c in read["tool_calls"]], [("add", function["arguments"])], face)


def test_errors_by_face(work):
    flat = ["object", "message", "type", "param", "code"]
    bodies = {"sglang": flat, "tgi": ["error", "error_type"], "llamacpp": ["error"], "trtllm": flat, "ollama": ["error"]}
    for face, keys in bodies.items():
        with fleet(work, "--profile", "instant", "--face", face) as f:
            eq(list(f.ask(CHAT, {"messages": MESSAGES, "model": "other"}, 404).json), keys, face)
            eq(list(f.ask("/v1/responses", {"input": "x"}, 404).json), keys, face + ": no such path")
            eq(list(f.ask(CHAT, {"messages": MESSAGES, "n": 0}, 422 if face == "tgi" else 400).json), keys, face)
        with fleet(work, "--profile", "instant", "--face", face, "--fault", "status code=503") as f:
            eq(list(f.ask(CHAT, {"messages": MESSAGES}, 503).json), keys, face)
        with fleet(work, "--profile", "instant", "--face", face, "--fault", "error after=3") as f:
            data = ask(f, CHAT, stream=True).data
            read = parse(work, data, "chat")
            eq(read["complete"], False, face)
            kind = (read.get("error") or {}).get("kind")
            eq(kind, None if face == "tgi" else "in_band", face)  # TGI drops it: the stream just ends
            eq(b"[DONE]" in data, face in ("sglang", "trtllm", "ollama"), face)


def test_keep_alive(work):
    for face, comment in (("vllm", b": keep-alive\n\n"), ("tgi", b":\n\n")):
        with fleet(work, "--profile", "fixed", "--set", "ttft=500ms", "--set", "itl=1ms", "--face", face,
                   "--sse-keep-alive-interval", "100ms") as f:
            data = ask(f, CHAT, stream=True).data
            assert data.startswith(comment * 2), data[:200]
            assert data.count(comment) <= 6, data
            eq(parse(work, data, "chat")["comments"], data.count(comment))


def test_sglang_s_metrics_and_endpoints(work):
    with fleet(work, "--profile", "instant", "--face", "sglang") as f:
        usage = [ask(f, CHAT).json["usage"] for _ in range(3)]
        page = f.metrics()
        cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usage)
        prompts = sum(u["prompt_tokens"] for u in usage)
        assert not [name for name in page.types if name.startswith("vllm:")]
        eq(page.value("sglang:prompt_tokens_total"), prompts)
        eq(page.value("sglang:generation_tokens_total"), 24)
        eq(page.value("sglang:num_requests_total"), 3)
        eq([page.value("sglang:cached_tokens_total", cache_source=s) for s in ("device", "host", "total")], [cached, 0, cached])
        eq([page.value("sglang:realtime_tokens_total", mode=m) for m in ("prefill_compute", "prefill_cache", "decode")],
           [prompts - cached, cached, 24])
        eq(page.value("sglang:cache_config_info", page_size="16"), 1)
        eq(page.edges("sglang:time_to_first_token_seconds"),
           [.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, float("inf")])
        eq(page.edges("sglang:e2e_request_latency_seconds")[-5:], [600, 1200, 1800, 2400, float("inf")])
        eq(page.edges("sglang:inter_token_latency_seconds")[:3], [.002, .004, .006])
        eq(page.value("sglang:e2e_request_latency_seconds_count"), 3)
        f.ask("/flush_cache", {})
        eq(ask(f, CHAT).json["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        eq(f.ask("/get_server_info").json["page_size"], 16)
        f.ask("/health_generate")
        f.ask("/reset_prefix_cache", {}, 404)
    with fleet(work, "--profile", "instant", "--face", "llamacpp") as f:
        eq(f.ask("/tokenize", {"content": "Hi"}).json, {"tokens": [72, 105]})
        eq(f.ask("/props").json["default_generation_settings"]["n_ctx"], f.announce["max_model_len"])
        eq(f.ask("/metrics", None, 501).json["error"]["type"], "not_supported_error")
    with fleet(work, "--profile", "instant", "--face", "tgi") as f:
        eq(f.ask("/info").json["model_id"], "sim-model")
    for face in ("trtllm", "ollama"):
        with fleet(work, "--profile", "instant", "--face", face) as f:
            f.ask("/metrics", None, 404)


GAUGES = ("num_running_reqs", "num_queue_reqs", "num_used_tokens", "max_total_num_tokens", "token_usage", "gen_throughput", "cache_hit_rate",
          "utilization", "num_paused_reqs", "spec_accept_length", "num_prefill_prealloc_queue_reqs", "num_prefill_inflight_queue_reqs",
          "num_decode_prealloc_queue_reqs", "num_decode_transfer_queue_reqs", "kv_transfer_speed_gb_s", "kv_transfer_latency_ms",
          "cache_config_info")
COUNTERS = ("prompt_tokens", "generation_tokens", "num_requests", "num_aborted_requests", "cached_tokens", "realtime_tokens",
            "num_retracted_requests", "num_retracted_input_tokens")
HISTOGRAMS = ("time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds", "queue_time_seconds",
              "per_stage_req_latency_seconds")


def test_every_metric_of_sglang_s_list(work):
    tiers = ("--set", "shared_tokens=4096", "--set", "offload_tokens=1024", "--set", "kv_blocks=65", "--set", "max_model_len=1000")
    prompts = [c * 600 for c in "abcda"]
    for more in ((), tiers):
        with fleet(work, "--face", "sglang", *more) as f:
            for prompt in prompts:
                f.ask(TEXT, {"prompt": prompt, "max_tokens": 45, "ignore_eos": True})
            page = f.metrics()
        want = {**{n: "gauge" for n in GAUGES}, **{n + "_total": "counter" for n in COUNTERS}, **{n: "histogram" for n in HISTOGRAMS}}
        if more:
            want.update({"prefetched_tokens_total": "counter", "backuped_tokens_total": "counter"})
        created = {k.removesuffix("_total") + "_created" for k, t in want.items() if t != "gauge"}
        eq({k.removeprefix("sglang:"): t for k, t in page.types.items()}, {**want, **{k: "gauge" for k in created}})
        own = {"model_name": "sim-model", "engine_type": "unified", "tp_rank": "0", "pp_rank": "0"}
        for name, samples in page.samples.items():
            eq({k: samples[0][0].get(k) for k in own}, own, name)
        near(page.edges("sglang:per_stage_req_latency_seconds")[29], 1191.06, 0.01)
        eq(page.edges("sglang:queue_time_seconds")[:4], [0, .001, .005, .01])
        eq([page.value("sglang:per_stage_req_latency_seconds_count", stage=s) for s in ("prefill_forward", "decode_loop")], [5, 5])
        cached = {s: page.value("sglang:cached_tokens_total", cache_source=s) for s in ("device", "host", "storage_file", "total")}
        if more:  # the fifth prompt is the first: long gone from the pool, and with four others behind it from CPU memory
            eq(cached, {"device": 0, "host": 0, "storage_file": 512, "total": 512})
            eq(page.value("sglang:prefetched_tokens_total"), 512)
            eq(page.value("sglang:backuped_tokens_total"), 4 * 512)
        else:
            eq(cached, {"device": 592, "host": 0, "storage_file": 0, "total": 592})
            near(page.value("sglang:cache_hit_rate"), 592 / 600, 1e-9)


def test_llama_cpp_s_metrics(work):
    with fleet(work, "--profile", "instant", "--face", "llamacpp", "--metrics") as f:
        usage = [ask(f, CHAT).json["usage"] for _ in range(3)]
        page = f.metrics()
        computed = sum(u["prompt_tokens"] - u["prompt_tokens_details"]["cached_tokens"] for u in usage)
        eq({name for name in page.types if not name.startswith("llamacpp:")}, set())
        eq([page.value("llamacpp:" + n) for n in ("prompt_tokens_total", "tokens_predicted_total", "n_decode_total",
                                                  "n_busy_slots_per_decode", "requests_processing", "requests_deferred")],
           [computed, 24, 24, 1, 0, 0])
        eq(page.types["llamacpp:prompt_tokens_total"], "counter")
        eq(page.samples["llamacpp:prompt_tokens_total"][0][0], {}, "no labels")
        assert page.value("llamacpp:prompt_seconds_total") > 0


def test_tgi_s_metrics_and_headers(work):
    with fleet(work, "--face", "tgi") as f:
        said = [ask(f, CHAT) for _ in range(2)]
        prompt = said[0].json["usage"]["prompt_tokens"]
        names = ("x-compute-time", "x-queue-time", "x-inference-time", "x-time-per-token", "x-prompt-tokens")
        for answer in said:
            eq([n for n in names if answer.headers[n] is None], [])
            eq(int(answer.headers["x-prompt-tokens"]), prompt)
            assert int(answer.headers["x-inference-time"]) >= 7 * int(answer.headers["x-time-per-token"]) > 0, answer.headers
        streamed = ask(f, CHAT, stream=True)
        eq([n for n in names if streamed.headers[n] is not None], [], "of whole replies alone")
        page = f.metrics()
        eq([page.value(n) for n in ("tgi_request_count", "tgi_request_success", "tgi_queue_size", "tgi_batch_current_size")],
           [3, 3, 0, 0])
        eq([page.value(f"tgi_request_{n}_sum") for n in ("input_length", "generated_tokens", "max_new_tokens")],
           [3 * prompt, 24, 24])
        edges = page.edges("tgi_request_duration")
        near(edges[0], 0.00015, 1e-9)
        eq((len(edges), edges[-1]), (36, float("inf")))
        eq({name for name in page.types if not name.startswith("tgi_")}, set())


def test_the_doctor_s_view(work):
    titles = {"sglang": "SGLang", "tgi": "TGI", "llamacpp": "llama.cpp", "trtllm": "TensorRT-LLM", "ollama": "Ollama"}
    for face, title in titles.items():
        with fleet(work, "--face", face) as f:
            result = work.perigee("doctor", f.url, timeout=60)
            has(result.out, f"it speaks as {title} does", face)
            has(result.out, "output event", face)
            eq("prompt tokens for a repeated prompt" in result.out, face in ("sglang", "llamacpp", "trtllm"), result.out)


def test_an_unknown_face(work):
    result = work.perigee("sim", "--face", "sglnag", timeout=20)
    eq(result.status, 2)
    has(result.err, 'no face "sglnag" (did you mean sglang?)')


if __name__ == "__main__":
    main(globals())
