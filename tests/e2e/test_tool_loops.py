"""Tool loops on a simulated replica: the server's own (one request, several turns), a gateway's (a request a round), a
client's in chat. Cached tokens follow from the prompts' lengths alone (facts/interfaces.md §8.3)."""
import json
import os
import time

from harness import eq, has, main
from models import harmony, small
from simfleet import fleet
from test_responses import BEGIN, MESSAGE, PATH, kinds, parse

BLOCK = 16
MCP = {"type": "mcp", "server_label": "docs"}
WEB = {"type": "web_search_preview"}
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
FUNCTION = {"type": "function", "name": "look_up", "description": "Looks something up.",
            "parameters": {"type": "object", "properties": {"what": {"type": "string"}}}}
ALWAYS = ("--profile", "instant", "--set", "tool_call_p=1", "--set", "tool_latency=1ms")
EVENTS = {
    "mcp_call": ["response.output_item.added", "response.mcp_call.in_progress", "response.mcp_call_arguments.delta",
                 "response.mcp_call_arguments.done", "response.mcp_call.completed", "response.output_item.done"],
    "web_search_call": ["response.output_item.added", "response.web_search_call.in_progress",
                        "response.web_search_call.searching", "response.web_search_call.completed",
                        "response.output_item.done"],
    "code_interpreter_call": ["response.output_item.added", "response.code_interpreter_call.in_progress",
                              "response.code_interpreter_call_code.delta", "response.code_interpreter_call_code.done",
                              "response.code_interpreter_call.interpreting",
                              "response.code_interpreter_call.completed", "response.output_item.done"],
}


def hits(prompt, before, output):
    """Tokens of a prompt that are in the cache when it goes on from a prompt and its answer."""
    return min((prompt - 1) // BLOCK, max(before + output - 1, 0) // BLOCK) * BLOCK


def check_turns(usage, first=(0, 0)):
    """The per-turn arrays: each turn finds what the one before left, and the sums are the figures beside them."""
    prompts, cached = (usage["input_tokens_details"][k + "_per_turn"] for k in ("input_tokens", "cached_tokens"))
    outputs, tools = (usage["output_tokens_details"][k + "_per_turn"] for k in ("output_tokens", "tool_output_tokens"))
    eq({len(prompts), len(cached), len(outputs), len(tools)}, {len(prompts)})
    before = [first] + list(zip(prompts, outputs))
    eq(cached, [hits(n, *b) for n, b in zip(prompts, before)])
    eq(tools, [0] + [n - sum(b) for n, b in zip(prompts[1:], before[1:])])
    eq((usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]),
       (sum(prompts), sum(outputs), sum(prompts) + sum(outputs)))
    eq((usage["input_tokens_details"]["cached_tokens"], usage["output_tokens_details"]["tool_output_tokens"]),
       (sum(cached), sum(tools)))
    return prompts, outputs


def test_the_server_s_own_loop(work):
    for args in ((), ("--tokenizer", small(work))):
        with fleet(work, *ALWAYS, "--set", "tool_rounds=4", "--truth", "truth.jsonl", *args) as f:
            body = {"input": "Find something out about block pools, then say it.", "tools": [MCP, WEB, CODE]}
            whole = f.ask(PATH, body).json
            prompts, outputs = check_turns(whole["usage"])
            eq((len(prompts), whole["status"]), (5, "completed"))
            types = [i["type"] for i in whole["output"]]
            eq(types[4:], ["message"])
            assert set(types[:4]) <= set(EVENTS) and len(set(types[:4])) > 1, types
            page = f.metrics()
            eq(page.value("vllm:request_success_total"), 5, "each turn is a request of the engine's")
            eq(page.value("vllm:prompt_tokens_total"), sum(prompts))
            # The same as a stream: the calls' events in vLLM's order, each turn behind the one before.
            answer = f.ask(PATH, dict(body, stream=True))
            want = BEGIN + [t for kind in types[:4] for t in EVENTS[kind]] + MESSAGE + ["response.completed"]
            eq(kinds(answer.typed), want)
            last = answer.typed[-1]["response"]
            eq([i["type"] for i in last["output"]], types)
            eq(last["usage"]["input_tokens_details"]["input_tokens_per_turn"], prompts)
            done = [e["item"]["id"] for e in answer.typed if e["type"] == "response.output_item.done"]
            eq(done, [i["id"] for i in last["output"]])
            eq([e["output_index"] for e in answer.typed if e["type"] == "response.output_item.added"], list(range(5)))
            read = parse(work, answer.data)
            eq((read["complete"], read["text"]), (True, last["output"][4]["content"][0]["text"]))
            # What comes next goes on from all of it.
            after = f.ask(PATH, {"input": "And now?", "tools": body["tools"], "previous_response_id": whole["id"],
                                 "tool_choice": "none"}).json["usage"]
            eq(after["input_tokens_details"]["cached_tokens"], hits(after["input_tokens"], prompts[-1], outputs[-1]))
        with open(os.path.join(work.path, "truth.jsonl"), encoding="utf-8") as file:
            line = json.loads(file.readline())
        eq([t["prompt_tokens"] for t in line["turns"]], prompts)
        eq([t["output_tokens"] for t in line["turns"]], outputs)
        eq((line["prompt_tokens"], line["output_tokens"], line["choices"]), (sum(prompts), sum(outputs), 1))
        stamps = [t[k] for t in line["turns"] for k in ("queued_ns", "scheduled_ns", "first_token_ns", "last_token_ns")]
        eq(stamps, sorted(stamps), "one turn after the other")


def test_its_bounds(work):
    with fleet(work, *ALWAYS, "--set", "tool_rounds=6", "--set", "tool_latency=150ms", "--set", "tool_result_tokens=30") as f:
        begun = time.monotonic()
        said = f.ask(PATH, {"input": "x", "tools": [MCP], "max_tool_calls": 2}).json
        eq(len(check_turns(said["usage"])[0]), 3)
        eq([i["type"] for i in said["output"]], ["mcp_call", "mcp_call", "message"])
        eq([len(i["output"]) for i in said["output"][:2]], [30, 30], "tokens of a result are bytes here")
        assert time.monotonic() - begun >= 0.3, "two tools of 150 ms"
        said = f.ask(PATH, {"input": "x", "tools": [MCP], "max_tool_calls": 0}).json
        eq([i["type"] for i in said["output"]], ["message"])
        said = f.ask(PATH, {"input": "x", "tools": [MCP], "tool_choice": "none"}).json
        eq([i["type"] for i in said["output"]], ["message"])
        said = f.ask(PATH, {"input": "x", "tools": [MCP], "max_output_tokens": 4}).json
        eq((said["status"], said["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))
        # A function beside the server's own is the client's to run: the response ends there.
        said = f.ask(PATH, {"input": "x", "tools": [FUNCTION]}).json
        eq(([i["type"] for i in said["output"]], said["status"]), (["function_call"], "completed"))
    with fleet(work, *ALWAYS, "--set", "tool_result_tokens=4000", "--set", "max_model_len=4000") as f:
        error = f.ask(PATH, {"input": "x", "tools": [MCP]}, 400).json["error"]
        has(error["message"], "maximum context length is 4000 tokens")
        eq(f.ask(PATH, {"input": "x", "tools": [MCP], "stream": True}).typed[-1]["type"], "error")


def test_a_lost_salt(work):
    """vLLM's loop before PR #51818: what follows the first tool is looked up, and stored, without the salt."""
    body = {"input": "A question of more than one block, " * 3, "tools": [MCP], "cache_salt": "tenant"}
    with fleet(work, *ALWAYS, "--set", "tool_rounds=2") as f:
        check_turns(f.ask(PATH, body).json["usage"])
    with fleet(work, *ALWAYS, "--set", "tool_rounds=2", "--set", "tool_salt_lost=on") as f:
        usage = f.ask(PATH, body).json["usage"]
        prompts, outputs = (usage[a][b] for a, b in (("input_tokens_details", "input_tokens_per_turn"),
                                                     ("output_tokens_details", "output_tokens_per_turn")))
        eq(usage["input_tokens_details"]["cached_tokens_per_turn"], [0, 0, hits(prompts[2], prompts[1], outputs[1])])


def test_a_gateway_s_rounds(work):
    """Each round is a request with the whole input, stored nowhere; function calls are run in between."""
    with fleet(work, *ALWAYS, "--set", "tool_rounds=3") as f:
        items, before, rounds = [{"role": "user", "content": "What do the blocks hold, and since when?"}], (0, 0), 0
        while True:
            said = f.ask(PATH, {"input": items, "tools": [FUNCTION], "store": False, "prompt_cache_key": "k"}).json
            usage = said["usage"]
            eq(usage["input_tokens_details"]["cached_tokens"], hits(usage["input_tokens"], *before), f"round {rounds}")
            before = usage["input_tokens"], usage["output_tokens"]
            items += said["output"]
            if said["output"][-1]["type"] != "function_call":
                break
            items.append({"type": "function_call_output", "call_id": said["output"][-1]["call_id"], "output": "Since two."})
            rounds += 1
        eq(rounds, 3)
        # Calls that the server ran itself come back as items as well.
        loop = f.ask(PATH, {"input": items[:1], "tools": [MCP]}).json
        usage = f.ask(PATH, {"input": items[:1] + loop["output"] + items[:1], "tools": [MCP], "tool_choice": "none"}).json["usage"]
        last = loop["usage"]["input_tokens_details"]["input_tokens_per_turn"][-1]
        eq(usage["input_tokens_details"]["cached_tokens"],
           hits(usage["input_tokens"], last, loop["usage"]["output_tokens_details"]["output_tokens_per_turn"][-1]))


def chat_tools():
    return [{"type": "function", "function": {k: v for k, v in FUNCTION.items() if k != "type"}}]


def test_auto_in_chat(work):
    """The model calls in the share of the answers that it was told to, the same ones each time and on each replica."""
    body = {"tools": chat_tools(), "tool_choice": "auto", "max_tokens": 200}

    def ask(f, i):
        return f.ask("/v1/chat/completions", dict(body, messages=[{"role": "user", "content": f"Question {i}"}])).json["choices"][0]

    with fleet(work, "--profile", "instant", "--set", "tool_call_p=0.4") as f:
        first = [ask(f, i)["finish_reason"] for i in range(120)]
        assert 30 <= first.count("tool_calls") <= 66, first.count("tool_calls")  # 48, 3.4 standard deviations
        eq([ask(f, i)["finish_reason"] for i in range(20)], first[:20])
    with fleet(work, "--profile", "instant", "--set", "tool_call_p=0.4") as f:
        eq([ask(f, i)["finish_reason"] for i in range(20)], first[:20], "another fleet of the same seed")
    with fleet(work, "--profile", "instant", "--set", "tool_call_p=0.4", "--seed", "2") as f:
        assert [ask(f, i)["finish_reason"] for i in range(120)] != first
    with fleet(work, "--profile", "instant") as f:
        eq({ask(f, i)["finish_reason"] == "tool_calls" for i in range(20)}, {False}, "left alone it never does")


def test_a_client_s_loop_in_chat(work):
    with fleet(work, *ALWAYS, "--set", "tool_rounds=2") as f:
        messages, before, calls = [{"role": "user", "content": "Look it up, then look it up again."}], (0, 0), 0
        while True:
            said = f.ask("/v1/chat/completions", {"messages": messages, "tools": chat_tools()}).json
            usage, message = said["usage"], said["choices"][0]["message"]
            eq((usage["prompt_tokens_details"] or {}).get("cached_tokens", 0), hits(usage["prompt_tokens"], *before))
            before = usage["prompt_tokens"], usage["completion_tokens"]
            messages.append(message)
            if not message["tool_calls"]:
                break
            calls += 1
            messages.append({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": f"Result {calls}"})
        eq((calls, message["content"] != ""), (2, True))


def test_harmony(work):
    """gpt-oss: the prompt of a turn goes on from call and result token by token."""
    with fleet(work, *ALWAYS, "--tokenizer", harmony(work), "--set", "tool_rounds=2") as f:
        said = f.ask(PATH, {"input": "Find out what a block holds, in some words.", "tools": [MCP, WEB]}).json
        prompts, _ = check_turns(said["usage"])
        eq((len(prompts), said["output"][-1]["type"]), (3, "message"))


main(globals())
