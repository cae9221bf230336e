"""Cases 1 to 3 of the peers' list: what is a first token, a tool-call-only stream, a chunk that is not a token.

The server's log of its own writes is the truth. Tolerance for a stamp against the log: 5 ms (CI); gaps likewise.
"""
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from harness import Server, chat_chunk, eq, main, near, one_turn, sleep_until, usage  # noqa: E402

MS = 1_000_000
TOLERANCE = 5 * MS


def run_one(work, server, *extra, script=None):
    work.write("s.lua", script or one_turn())
    result = work.perigee("run", "s.lua", "--replica", server.url, "--model", "test-model", "--itl", *extra)
    assert result.folder, result.err + result.out
    assert not server.errors, server.errors[0]
    return result


def written_at(writes, part):
    """ns of the first write that holds `part`."""
    for ns, data in writes:
        if part in data:
            return ns
    raise AssertionError(f"server never wrote {part!r}")


def stamp(result, row, name):
    """A stamp of a row on the server's clock."""
    return row["t"][name] + result.run["zero_monotonic_ns"]


def reasoning_first(role_content, key):
    def handler(_request, c):
        t0 = time.monotonic_ns()
        c.headers()
        sleep_until(t0 + 1 * MS)
        c.event(chat_chunk({"role": "assistant", "content": role_content}, usage=None))
        for at in (100, 200):
            sleep_until(t0 + at * MS)
            c.chunk(": keep-alive\n\n")
        for i in range(20):
            sleep_until(t0 + (500 + 10 * i) * MS)
            c.event(chat_chunk({key: f"r{i} "}, usage=None))
        for i in range(10):
            sleep_until(t0 + (700 + 10 * i) * MS)
            c.event(chat_chunk({"content": f"c{i} "}, usage=None))
        c.event(chat_chunk({}, "stop", usage=None))
        c.event(chat_chunk(usage=usage(12, 30)))
        c.event("[DONE]")
        c.end()

    return handler


def check_reasoning_first(work, role_content, key):
    with Server(reasoning_first(role_content, key)) as server:
        result = run_one(work, server)
        row, writes = result.rows[0], server.log[0][1]
        eq(row["error"], None, "error")
        eq(row["output_tokens"], 30, "output tokens")
        eq(row["output_events"], 30, "output events")
        near(stamp(result, row, "first_token"), written_at(writes, b"r0 "), TOLERANCE, "first token")
        near(stamp(result, row, "last_token"), written_at(writes, b"c9 "), TOLERANCE, "last token")
        visible = result.summary["metrics"]["first_visible"]["mean"] * 1e9 + row["t"]["start"]
        near(visible + result.run["zero_monotonic_ns"], written_at(writes, b"c0 "), TOLERANCE, "first visible")
        eq(len(row["itl_ns"]), 29, "gaps")
        events = [ns for ns, data in writes if b"reasoning" in data or b'"content":"c' in data]
        true_gaps = [b - a for a, b in zip(events, events[1:])]
        for gap, true in zip(row["itl_ns"], true_gaps):
            near(gap, true, TOLERANCE, "gap")
        assert max(row["itl_ns"]) < 100 * MS, row["itl_ns"]


def test_role_chunk_and_reasoning_first(work):
    check_reasoning_first(work, "", "reasoning_content")


def test_role_chunk_with_null_content(work):
    check_reasoning_first(work, None, "reasoning_content")


def test_reasoning_under_its_newer_name(work):
    check_reasoning_first(work, "", "reasoning")


TOOL_SCRIPT = """
local perigee = require "perigee"
local chat = require "perigee.chat"
return perigee.plan {
  load = perigee.closed { users = 1, sessions = 1 },
  metrics = { calls = "calls", second_city = "calls" },
  session = function(vu)
    local conv = chat.new(vu, { history = "live" })
    conv:user("weather?")
    local reply = conv:send { max_tokens = 64 }
    vu:record("calls", #reply.tool_calls)
    local call = reply.tool_calls[2]
    local json = require "perigee.json"
    local arguments = type(call.arguments) == "string" and json.decode(call.arguments) or call.arguments
    vu:record("second_city", arguments.city == "Paris" and 1 or 0)
  end,
}
"""


def test_tool_call_only_stream(work):
    pieces = ['{"ci', 'ty"', ': ', '"Os', 'lo"', '}']

    def handler(_request, c):
        t0 = time.monotonic_ns()
        c.headers()
        c.event(chat_chunk({"role": "assistant", "content": ""}))
        sleep_until(t0 + 300 * MS)
        first = {"index": 0, "id": "call_a", "type": "function", "function": {"name": "weather"}}
        second = {"index": 1, "id": "call_b", "type": "function", "function": {"name": "weather"}}
        c.event(chat_chunk({"tool_calls": [first]}))
        c.event(chat_chunk({"tool_calls": [second]}))
        paris = ['{"ci', 'ty"', ': ', '"Pa', 'ris"', '}']
        for i in range(6):
            for index, text in ((0, pieces[i]), (1, paris[i])):
                time.sleep(0.02)
                c.event(chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]}))
        c.event(chat_chunk({}, "tool_calls"))
        c.event(chat_chunk(usage=usage(20, 25)))
        c.event("[DONE]")
        c.end()

    with Server(handler) as server:
        result = run_one(work, server, script=TOOL_SCRIPT)
        row, writes = result.rows[0], server.log[0][1]
        eq(row["error"], None, "error")
        eq(row["finish_reason"], "tool_calls")
        eq(row["output_tokens"], 25)
        eq(row["output_events"], 14)
        near(stamp(result, row, "first_token"), written_at(writes, b"call_a"), TOLERANCE, "first tool call")
        eq(result.summary["metrics"]["calls"]["mean"], 2)
        eq(result.summary["metrics"]["second_city"]["mean"], 1)


def test_chunk_is_not_a_token(work):
    def handler(_request, c):
        t0 = time.monotonic_ns()
        c.headers()
        c.event(chat_chunk({"role": "assistant", "content": ""}))
        for i in range(8):
            sleep_until(t0 + (200 + 100 * i) * MS)
            c.event(chat_chunk({"content": "12345678"}, token_ids=None))
        c.event(chat_chunk({}, "length"))
        c.event(chat_chunk(usage=usage(10, 64)))
        c.event("[DONE]")
        c.end()

    with Server(handler) as server:
        result = run_one(work, server, "--tokenizer", "bytes")
        row, writes = result.rows[0], server.log[0][1]
        eq(row["output_tokens"], 64, "tokens by usage")
        eq(row["output_tokens_local"], 64, "tokens by the tokenizer")
        events = [ns for ns, data in writes if b"12345678" in data]
        for gap, true in zip(row["itl_ns"], [b - a for a, b in zip(events, events[1:])]):
            near(gap, true, TOLERANCE, "gap")
        # n_first is known from the tokenizer: 8 of 64 tokens came with the first event
        tpot = result.summary["metrics"]["tpot"]["mean"]
        near(tpot, (events[-1] - events[0]) / 56 / 1e9, TOLERANCE / 56 / 1e9, "tpot")
        itl_token = result.summary["metrics"]["itl_token"]["mean"]
        near(itl_token, (events[-1] - events[0]) / 56 / 1e9, TOLERANCE / 56 / 1e9, "itl per token")


def test_half_a_character_in_a_chunk(work):
    """A chunk that ends inside a multi-byte character arrives as U+FFFD-free text once both halves are there."""
    def handler(_request, c):
        c.headers()
        body = ("data: " + json.dumps(chat_chunk({"content": "caf\u00e9 \U0001f680"}), ensure_ascii=False) + "\n\n").encode()
        for i in range(len(body)):
            c.chunk(body[i:i + 1])
        c.event(chat_chunk({}, "stop"))
        c.event(chat_chunk(usage=usage(10, 3)))
        c.event("[DONE]")
        c.end()

    script = one_turn().replace("conv:try_send", "local r = conv:send").replace(
        "  end,\n}", '    vu:check("text", r.text == "caf\u00e9 \U0001f680")\n  end,\n}')
    with Server(handler) as server:
        result = run_one(work, server, script=script)
        eq(result.rows[0]["error"], None)
        eq(result.summary["script_checks"]["text"], {"passed": 1, "failed": 0})


main(globals())
