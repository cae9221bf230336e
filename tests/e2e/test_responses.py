"""The Responses API of a simulated replica: streamed and whole, chains, function calls, what perigee's parser reads."""
import json
import subprocess
import threading
import time
import urllib.request

from harness import PERIGEE, eq, has, main, wait_until
from models import harmony, small
from simfleet import fleet

PATH = "/v1/responses"
TOOL = {"type": "function", "name": "get_weather", "description": "Weather of a place.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
                                                        "unit": {"enum": ["C", "F"]}}}}
MESSAGE = ["response.output_item.added", "response.content_part.added", "response.output_text.delta",
           "response.output_text.done", "response.content_part.done", "response.output_item.done"]
REASONING = ["response.output_item.added", "response.reasoning_part.added", "response.reasoning_text.delta",
             "response.reasoning_text.done", "response.reasoning_part.done", "response.output_item.done"]
CALL = ["response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done",
        "response.output_item.done"]
BEGIN = ["response.created", "response.in_progress"]


def parse(work, data, api="responses"):
    """What perigee's own reader makes of a stream."""
    work.write("stream", data.decode())
    work.write("p.lua", 'local f = assert(io.open("stream", "rb"))\n'
               f'print(require("perigee.json").encode(require("perigee.openai").parse_stream(f:read "a", {{ api = "{api}" }})))')
    done = subprocess.run([PERIGEE, "lua", "p.lua"], cwd=work.path, capture_output=True, timeout=30, check=False)
    eq(done.returncode, 0, done.stderr.decode())
    return json.loads(done.stdout)


def kinds(events):
    """Types in order, deltas of one item as one."""
    types = []
    for e in events:
        if not (e["type"].endswith(".delta") and types and types[-1] == e["type"]):
            types.append(e["type"])
    return types


def same(a, b):
    """Responses that differ in ids and times only."""
    for r in (a, b):
        for item in r["output"]:
            item.pop("id"), item.pop("call_id", None)
        for key in ("id", "created_at", "usage"):
            r.pop(key)
    eq(a, b)


def test_text(work):
    body = {"input": "Tell me a story, a long one that fills more than a block.", "max_output_tokens": 30, "ignore_eos": True,
            "metadata": {"k": "v"}}
    with fleet(work, "--profile", "instant") as f:
        whole = f.ask(PATH, body).json
        eq((whole["object"], whole["status"], whole["incomplete_details"]),
           ("response", "incomplete", {"reason": "max_output_tokens"}))
        eq([i["type"] for i in whole["output"]], ["message"])
        text = whole["output"][0]["content"][0]["text"]
        eq((len(text), whole["output"][0]["role"], whole["metadata"]), (30, "assistant", {"k": "v"}))
        n = whole["usage"]["input_tokens"]
        eq(whole["usage"], {
            "input_tokens": n, "output_tokens": 30, "total_tokens": n + 30,
            "input_tokens_details": {"cached_tokens": 0, "input_tokens_per_turn": [n], "cached_tokens_per_turn": [0]},
            "output_tokens_details": {"reasoning_tokens": 0, "tool_output_tokens": 0, "output_tokens_per_turn": [30],
                                      "tool_output_tokens_per_turn": [0]}})
        answer = f.ask(PATH, dict(body, stream=True))
        events = answer.typed
        eq(kinds(events), BEGIN + MESSAGE + ["response.incomplete"])
        eq("".join(e["delta"] for e in events if e["type"].endswith(".delta")), text)
        last = events[-1]["response"]
        eq(last["usage"]["input_tokens_details"]["cached_tokens"], (n - 1) // 16 * 16)
        eq(f.ask(f"{PATH}/{last['id']}").json, last, "what is stored is what was sent")
        read = parse(work, answer.data)
        eq((read["complete"], read["done_marker"], read["text"], read["finish_reason"], read["response_id"]),
           (True, False, text, "incomplete:max_output_tokens", last["id"]))
        eq(read["usage"]["cached"], (n - 1) // 16 * 16)
        same(whole, last)


def test_chains(work):
    """previous_response_id: the next prompt goes on from prompt and answer, and hits them."""
    with fleet(work, "--profile", "instant") as f:
        previous, before = None, 0
        for turn in range(4):
            r = f.ask(PATH, {"input": f"Question {turn}, in some more words.", "previous_response_id": previous,
                             "instructions": "Be brief.", "max_output_tokens": 50, "seed": turn}).json
            usage = r["usage"]
            eq(usage["input_tokens_details"]["cached_tokens"],
               min((usage["input_tokens"] - 1) // 16, max(before - 1, 0) // 16) * 16, f"turn {turn}")
            eq(r["previous_response_id"], previous)
            before, previous = usage["total_tokens"], r["id"]
        error = f.ask(PATH, {"input": "x", "previous_response_id": "resp_nobody"}, 404).json["error"]
        eq((error["type"], error["message"]), ("invalid_request_error", "Response with id 'resp_nobody' not found."))
        r = f.ask(PATH, {"input": "x", "store": False}).json
        eq(r["store"], False)
        f.ask(PATH, {"input": "y", "previous_response_id": r["id"]}, 404)
        f.ask(f"{PATH}/{r['id']}", None, 404)
        f.ask(f"{PATH}/{previous}/cancel", {}, 400)
        f.ask(f"{PATH}/{previous}/other", None, 404)
    with fleet(work, "--profile", "instant", "--no-responses-store") as f:
        r = f.ask(PATH, {"input": "x"}).json
        eq(r["store"], False)
        f.ask(PATH, {"input": "y", "previous_response_id": r["id"]}, 404)


def test_function_calls(work):
    for args in ((), ("--tokenizer", small(work))):
        with fleet(work, "--profile", "instant", *args) as f:
            body = {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Weather in Oslo, please?"}]}],
                    "tools": [TOOL], "tool_choice": "required"}
            first = f.ask(PATH, body).json
            call, = first["output"]
            eq((call["type"], call["name"], first["status"]), ("function_call", "get_weather", "completed"))
            arguments = json.loads(call["arguments"])
            eq(list(arguments), ["city", "days", "unit"])
            assert arguments["unit"] in ("C", "F") and isinstance(arguments["days"], int), arguments
            answer = f.ask(PATH, dict(body, stream=True, tool_choice={"type": "function", "name": "get_weather"}))
            eq(kinds(answer.typed), BEGIN + CALL + ["response.completed"])
            read = parse(work, answer.data)
            eq([(c["name"], c["arguments"]) for c in read["tool_calls"]], [("get_weather", call["arguments"])])
            # The chain goes on: the sampled call is found in the cache, then the result and an answer.
            second = f.ask(PATH, {"input": [{"type": "function_call_output", "call_id": call["call_id"], "output": "Rain."}],
                                  "tools": [TOOL], "previous_response_id": first["id"]}).json
            eq(second["output"][0]["type"], "message")
            total, n = first["usage"]["total_tokens"], second["usage"]["input_tokens"]
            eq(second["usage"]["input_tokens_details"]["cached_tokens"], min(n - 1, total - 1) // 16 * 16)
            # The same as items that the client sends itself.
            items = body["input"] + [{k: call[k] for k in ("type", "call_id", "name", "arguments")},
                                     {"type": "function_call_output", "call_id": call["call_id"], "output": "Rain."}]
            eq(f.ask(PATH, {"input": items, "tools": [TOOL]}).json["usage"]["input_tokens"], n)
            # And in chat.
            chat = {"messages": [{"role": "user", "content": "Weather in Oslo, please?"}], "tool_choice": "required",
                    "tools": [{"type": "function", "function": {k: v for k, v in TOOL.items() if k != "type"}}]}
            said = f.ask("/v1/chat/completions", chat).json["choices"][0]
            eq((said["finish_reason"], said["message"]["content"]), ("tool_calls", None))
            function = said["message"]["tool_calls"][0]["function"]
            eq(function, {"name": "get_weather", "arguments": call["arguments"]})
            read = parse(work, f.ask("/v1/chat/completions", dict(chat, stream=True)).data, "chat")
            eq(([(c["name"], c["arguments"]) for c in read["tool_calls"]], read["finish_reason"]),
               ([("get_weather", call["arguments"])], "tool_calls"))
            cut = f.ask("/v1/chat/completions", dict(chat, max_tokens=2)).json["choices"][0]
            eq(cut["finish_reason"], "length")


def test_harmony_thinks_and_refuses_a_choice(work):
    with fleet(work, "--profile", "instant", "--tokenizer", harmony(work), "--set", "reasoning_tokens=12") as f:
        answer = f.ask(PATH, {"input": "Think.", "stream": True, "reasoning": {"effort": "low"}})
        eq(kinds(answer.typed), BEGIN + REASONING + MESSAGE + ["response.completed"])
        read = parse(work, answer.data)
        assert read["reasoning"] and read["text"] and read["usage"]["reasoning"] >= 10, read
        error = f.ask(PATH, {"input": "x", "tools": [TOOL], "tool_choice": "required"}, 400).json["error"]
        has(error["message"], "Only 'auto' tool_choice is supported")


def test_refusals_and_faults(work):
    cases = [({}, "input"), ({"input": 3}, "input"), ({"input": [{"type": "mcp_call"}]}, "input"),
             ({"input": [{"type": "function_call", "name": "f"}]}, "input"), ({"input": "x", "background": True, "store": False}, "background"),
             ({"input": "x", "prompt": {"id": "p"}}, "prompt"), ({"input": "x", "tools": [{"type": "mcp"}]}, "tools"),
             ({"input": "x", "tool_choice": "required"}, "tool_choice"), ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
             ({"input": "x", "previous_input_messages": [{}]}, "previous_input_messages")]
    with fleet(work, "--profile", "instant") as f:
        for body, param in cases:
            eq(f.ask(PATH, body, 400).json["error"]["param"], param, str(body))
    with fleet(work, "--profile", "instant", "--fault", "error after=5") as f:
        answer = f.ask(PATH, {"input": "x", "stream": True})
        eq(answer.typed[-1]["type"], "error")
        read = parse(work, answer.data)
        eq((read["complete"], read["error"]["kind"]), (False, "in_band"))
    with fleet(work, "--profile", "instant", "--fault", "truncated") as f:
        read = parse(work, f.ask(PATH, {"input": "x", "stream": True}).data)
        eq((read["complete"], read.get("finish_reason")), (False, None))


def test_raw_messages(work):
    """enable_response_messages: what was rendered and sampled, as text and ids; a prefill leg says where its KV is."""
    with fleet(work, "--profile", "instant") as f:
        rendered = f.ask("/v1/chat/completions/render", {"messages": [{"role": "user", "content": "Hi"}]}).json["token_ids"]
        body = {"input": "Hi", "max_output_tokens": 3, "ignore_eos": True}
        said = f.ask(PATH, dict(body, enable_response_messages=True)).json
        text = said["output"][0]["content"][0]["text"]
        eq(said["input_messages"], [{"message": bytes(rendered).decode(), "tokens": rendered, "type": "raw_message_tokens"}])
        eq(said["output_messages"], [{"message": text, "tokens": list(text.encode()), "type": "raw_message_tokens"}])
        plain = f.ask(PATH, body).json
        eq((plain["input_messages"], plain["output_messages"], plain["kv_transfer_params"]), (None, None, None))
        leg = f.ask(PATH, dict(body, max_output_tokens=1, kv_transfer_params={"do_remote_decode": True, "do_remote_prefill": False})).json
        eq(leg["kv_transfer_params"]["remote_request_id"], leg["id"])
    with fleet(work, "--profile", "instant", "--tokenizer", harmony(work)) as f:
        eq(f.ask(PATH, dict(body, enable_response_messages=True), 400).json["error"]["param"], "enable_response_messages")


# ---- in the background ----

SLOW = ("--profile", "fixed", "--set", "ttft=100ms", "--set", "itl=20ms")
BODY = {"input": "Take your time with this one.", "max_output_tokens": 12, "ignore_eos": True}


def stored(f, x, status=200):
    return f.ask(f"{PATH}/{x['id']}", None, status).json


def wait_for(f, x, status="incomplete"):
    wait_until(lambda: stored(f, x)["status"] == status)
    return stored(f, x)


def test_background(work):
    """Queued at once, found in the store when it is through, as the foreground's answer; the next of a chain builds on it."""
    with fleet(work, *SLOW) as f:
        whole = f.ask(PATH, BODY).json
        began = time.monotonic()
        first = f.ask(PATH, dict(BODY, background=True)).json
        assert time.monotonic() - began < 0.1
        eq((first["status"], first["output"], first["usage"], first["background"]), ("queued", [], None, True))
        eq(stored(f, first), first, "queued until it is through")
        last = wait_for(f, first)
        eq(last["usage"]["output_tokens"], 12)
        eq(last["background"], True)
        last = dict(last, background=False)
        same(whole, last)
        error = f.ask(f"{PATH}/{first['id']}/cancel", {}, 400).json["error"]
        eq((error["message"], error["type"]), ("Cannot cancel a synchronous response.", "invalid_request_error"))
        error = f.ask(f"{PATH}/{first['id']}?stream=true", None, 400).json["error"]
        eq(error["message"], "Unknown response_id: " + first["id"])
        more = f.ask(PATH, {"input": "And then?", "previous_response_id": first["id"], "max_output_tokens": 1}).json
        assert more["usage"]["input_tokens_details"]["cached_tokens"] > 0, more["usage"]
        page = f.metrics()
        eq(page.value("vllm:request_success_total", finished_reason="length"), 3)
    with fleet(work, *SLOW, "--no-responses-store") as f:
        error = f.ask(PATH, dict(BODY, background=True), 400).json["error"]
        eq((error["param"], error["type"]), ("background", "invalid_request_error"))
        has(error["message"], "VLLM_ENABLE_RESPONSES_API_STORE=1")


def test_background_streams(work):
    """The client may leave: the response goes on, and its events can be read from any number on, during and afterwards."""
    with fleet(work, *SLOW) as f:
        body = json.dumps(dict(BODY, background=True, stream=True, request_id="resp_mine")).encode()
        with urllib.request.urlopen(urllib.request.Request(f.url + PATH, body, {"Content-Type": "application/json"}), timeout=30) as r:
            begun = b"".join(r.readline() for _ in range(3))
        has(begun.decode(), "event: response.created")
        whole = f.ask(f"{PATH}/resp_mine?stream=true")  # while it is made, to its end
        events = whole.typed
        eq(kinds(events), BEGIN + MESSAGE + ["response.incomplete"])
        eq(stored(f, {"id": "resp_mine"}), events[-1]["response"])
        later = f.ask(f"{PATH}/resp_mine?stream=true&starting_after=4").data
        eq(later, b"\n\n".join(whole.data.split(b"\n\n")[5:]))
        eq(f.ask(f"{PATH}/resp_mine?stream=true&starting_after={len(events)}").data, b"")
        eq(f.ask(f"{PATH}/resp_mine").json, events[-1]["response"])
        again = f.ask(PATH, dict(BODY, background=True, stream=True))
        eq(kinds(again.typed), kinds(events))
        read = parse(work, again.data)
        eq((read["complete"], read["finish_reason"]), (True, "incomplete:max_output_tokens"))


def test_background_is_cancelled(work):
    """Its engine request ends, its readers' streams too; of what was made nothing is kept."""
    long = dict(BODY, max_output_tokens=400, background=True)
    with fleet(work, *SLOW) as f:
        for stream in (False, True):
            name = f"resp_{stream}"
            got = []
            thread = threading.Thread(target=lambda s=stream, n=name: got.append(f.ask(PATH, dict(long, stream=s, request_id=n)).data))
            thread.start()
            wait_until(lambda: f.metrics().value("vllm:num_requests_running") == 1)
            answer = f.ask(f"{PATH}/{name}/cancel", {}).json
            eq((answer["status"], answer["output"]), ("cancelled", []))
            eq(stored(f, answer), answer)
            thread.join(timeout=10)
            if stream:
                has(got[0].decode(), "response.output_text.delta")
                eq(parse(work, got[0])["complete"], False)
            wait_until(lambda: f.metrics().value("vllm:num_requests_running") == 0)
            f.ask(f"{PATH}/{name}/cancel", {}, 400)
        eq(f.metrics().value("vllm:request_success_total", finished_reason="abort"), 2)
        f.ask(f"{PATH}/nobody/cancel", {}, 404)
        f.ask(PATH, long)
        f.admin("restart", {"replica": "r0", "down": "0.1s", "wait": True})  # with one under way
        f.ask(PATH, dict(BODY, max_output_tokens=1))
        f.ask(PATH, long)  # and so the fleet's end


def test_logprobs(work):
    """`include` tells them: of each delta without bytes, of the whole text with them."""
    body = dict(BODY, include=["message.output_text.logprobs"], top_logprobs=2)
    with fleet(work, "--profile", "instant") as f:
        part = f.ask(PATH, body).json["output"][0]["content"][0]
        eq("".join(t["token"] for t in part["logprobs"]), part["text"])
        eq({(tuple(t), len(t["top_logprobs"])) for t in part["logprobs"]}, {(("token", "logprob", "bytes", "top_logprobs"), 2)})
        events = f.ask(PATH, dict(body, stream=True)).typed
        told = [t for e in events if e["type"] == "response.output_text.delta" for t in e["logprobs"]]
        eq([(t["token"], t["logprob"]) for t in told], [(t["token"], t["logprob"]) for t in part["logprobs"]])
        eq({tuple(t) for t in told}, {("token", "logprob", "top_logprobs")})
        eq(events[-1]["response"]["output"][0]["content"][0]["logprobs"], part["logprobs"])
        eq(f.ask(PATH, dict(body, include=[])).json["output"][0]["content"][0]["logprobs"], None)
        eq(f.ask(PATH, dict(body, top_logprobs=21), 400).json["error"]["param"], "top_logprobs")
    with fleet(work, "--profile", "instant", "--tokenizer", harmony(work)) as f:
        has(f.ask(PATH, body, 400).json["error"]["message"], "logprobs are not supported with gpt-oss models")


if __name__ == "__main__":
    main(globals())
