"""Cases 4 to 6 of the peers' list: stream torture, the usage matrix, empty 200s."""
import json
import time

from harness import RELAXED, Server, chat_chunk, eq, has, main, near, one_turn, simple_chat, usage

# U+0085 and U+2028 inside a JSON string, a 4-byte emoji, CRLF and lone CR line ends, no space behind the colon, several
# data lines, event/id/retry/comment lines, three events in one packet.
TEXT = "line\u0085sep\u2028end \U0001f680 data: [DONE]\n\n"


def torture_body():
    def event(delta, finish=None):
        return json.dumps(chat_chunk(delta, finish), ensure_ascii=False, separators=(",", ":"))
    two_lines = event({"content": "B"}).replace(',"choices"', ',\n"choices"').split("\n")
    return (
        ": hello\r\n"
        + "event: message\nid: 1\nretry: 10\ndata:" + event({"role": "assistant", "content": ""}) + "\n\n"
        + "data:" + event({"content": TEXT}) + "\r\n\r\n"
        + "data: " + two_lines[0] + "\rdata: " + two_lines[1] + "\r\r"
        + "data: " + event({"content": "x"}) + "\n\ndata: " + event({"content": "y"}) + "\n\ndata: "
        + event({"content": "z"}) + "\n\n"
        + "data: " + event({}, "stop") + "\n\n"
        + "data: " + json.dumps(chat_chunk(usage=usage(7, 6))) + "\n\n"
        + "data: [DONE]"
    ).encode()


MANY = """
local perigee = require "perigee"
local chat = require "perigee.chat"
return perigee.plan {
  load = perigee.closed { users = %d, sessions = %d },
  session = function(vu)
    local conv = chat.new(vu, { history = "live" })
    conv:user("hello")
    local r = conv:send { max_tokens = 16 }
    vu:check("text", r.text == %s)
  end,
}
"""


def lua_string(text):
    return '"' + "".join(f"\\{b:03d}" for b in text.encode()) + '"'


def test_every_cut_gives_the_same_text(work):
    body = torture_body()

    def handler(request, c):
        c.headers()
        cut = request.number % (len(body) + 1)
        for piece in (body[:cut], body[cut:]):
            if piece:
                c.chunk(piece)
                time.sleep(0.0005)
        c.end()

    with Server(handler) as server:
        n = len(body) + 1
        work.write("s.lua", MANY % (8, n, lua_string(TEXT + "Bxyz")))
        result = work.perigee("run", "s.lua", *RELAXED, "--replica", server.url, "--model", "test-model", timeout=300)
        assert not server.errors, server.errors[0]
        rows = result.rows
        eq(len(rows), n, "rows")
        eq({r["error"] for r in rows}, {None}, "errors")
        eq(len({r["output_hash"] for r in rows}), 1, "different outputs")
        eq({r["output_tokens"] for r in rows}, {6})
        eq(result.summary["script_checks"]["text"], {"passed": n, "failed": 0})


def one_reply(work, write, **server_options):
    """The row of one session against a server that answers by `write(connection)`."""
    def handler(_request, c):
        write(c)

    with Server(handler, **server_options) as server:
        work.write("s.lua", one_turn())
        result = work.perigee("run", "s.lua", *RELAXED, "--replica", server.url, "--model", "test-model")
        assert not server.errors, server.errors[0]
        assert result.folder, result.err
        rows = result.rows
        eq(len(rows), 1, "rows")
        return rows[0], result


def test_missing_end_marker_is_truncated(work):
    def write(c):
        c.headers()
        c.event(chat_chunk({"content": "half"}))
        c.end()

    row, _ = one_reply(work, write)
    eq(row["error"], "truncated")


def test_error_event_after_200_is_a_stream_error(work):
    def write(c):
        c.headers()
        c.event(chat_chunk({"content": "half"}))
        c.event({"error": {"message": "engine died", "type": "InternalServerError", "code": 500}})
        c.event("[DONE]")
        c.end()

    row, result = one_reply(work, write)
    eq(row["error"], "stream_error")
    eq(row["status"], 200)
    has(result.out + result.report(), "engine died")


def test_event_error_comment_is_a_stream_error(work):
    def write(c):
        c.headers()
        c.event(chat_chunk({"content": "half"}))
        c.chunk("event: error\n: worker disconnected\n\n")
        c.end()

    row, _ = one_reply(work, write)
    eq(row["error"], "stream_error")


def test_one_event_of_a_megabyte(work):
    big = "m" * (1 << 20)

    def write(c):
        c.headers()
        c.event(chat_chunk({"content": big}))
        c.event(chat_chunk({}, "stop"))
        c.event(chat_chunk(usage=usage(10, 1)))
        c.event("[DONE]")
        c.end()

    row, _ = one_reply(work, write)
    eq(row["error"], None)
    assert row["bytes_received"] > 1 << 20


def test_endless_line_is_bounded(work):
    """A server that never ends its line: the request ends with a class, and memory stays bounded."""
    def write(c):
        c.headers()
        c.chunk("data: ")
        try:
            for _ in range(64):
                c.chunk(b"x" * (1 << 20))
            c.end()
        except OSError:
            c.keep = False

    row, _ = one_reply(work, write)
    eq(row["error"], "stream_error")


def chat_stream(per_chunk=None, last=None, separate=None):
    """A stream with usage where asked: on each chunk (function of tokens so far), on the finish chunk, separately."""
    def write(c):
        c.headers()
        for i, word in enumerate(("a", "b", "c")):
            c.event(chat_chunk({"content": word}, usage=per_chunk(i + 1) if per_chunk else "absent"))
        c.event(chat_chunk({}, "stop", usage=last if last is not None else per_chunk(3) if per_chunk else "absent"))
        if separate is not None:
            c.event(chat_chunk(usage=separate))
        c.event("[DONE]")
        c.end()

    return write


def test_usage_matrix(work):
    details = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}
    cases = [
        # name, stream, output_tokens, prompt_tokens, cached_tokens, cached_state
        ("absent", chat_stream(), None, None, None, "absent"),
        ("null on every chunk", chat_stream(lambda n: None), None, None, None, "absent"),
        ("on the finish chunk", chat_stream(last=usage(20, 3)), 3, 20, None, "absent"),
        ("separate chunk", chat_stream(separate=usage(20, 3)), 3, 20, None, "absent"),
        ("cumulative on every chunk", chat_stream(lambda n: usage(20, n)), 3, 20, None, "absent"),
        ("details null", chat_stream(separate={**details, "prompt_tokens_details": None}), 3, 20, None, "absent"),
        ("zero", chat_stream(separate=usage(20, 3, 0)), 3, 20, 0, "zero"),
        ("value", chat_stream(separate=usage(20, 3, 16)), 3, 20, 16, "value"),
    ]
    for name, write, output, prompt, cached, state in cases:
        row, _ = one_reply(work, write)
        eq(row["error"], None, name)
        eq(row["output_tokens"], output, name)
        eq(row["prompt_tokens"], prompt, name)
        eq(row["cached_tokens"], cached, name)
        eq(row["cached_state"], state, name)


def test_absent_after_a_value_is_an_inferred_zero(work):
    def handler(request, c):
        simple_chat(c, prompt=64, cached=48 if request.number == 0 else None)

    with Server(handler) as server:
        work.write("s.lua", one_turn(1, 3))
        result = work.perigee("run", "s.lua", *RELAXED, "--replica", server.url, "--model", "test-model")
        eq([r["cached_state"] for r in result.rows], ["value", "inferred_zero", "inferred_zero"])
        eq([r["cached_tokens"] for r in result.rows], [48, 0, 0])
        ratio = result.summary["metrics"]["cached_ratio"]
        eq(ratio["n"], 3)
        near(ratio["mean"], 0.25, 1e-12)


def empty_server(variant):
    def handler(request, c):
        if request.number % 10 < 3:
            if variant == "nothing":
                c.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
                time.sleep(0.003)
                c.close()
            else:
                c.headers()
                c.event("[DONE]")
                c.end()
        else:
            simple_chat(c)

    return handler


def check_empty(work, variant):
    with Server(empty_server(variant)) as server:
        work.write("s.lua", one_turn(1, 200))
        result = work.perigee("run", "s.lua", *RELAXED, "--replica", server.url, "--model", "test-model")
        assert not server.errors, server.errors[0]
        rows = result.rows
        eq(len(rows), 200)
        eq(sum(r["error"] == "empty_stream" for r in rows), 60)
        eq(sum(r["error"] is None for r in rows), 140)
        summary = result.summary
        eq(summary["requests"]["failed"], 60)
        eq(summary["requests"]["by_error"], {"empty_stream": 60})
        eq(summary["metrics"]["ttft"]["n"], 140, "only good ones in the distribution")
        near(summary["metrics"]["failed"]["mean"], 0.3, 1e-12, "failure share")
        eq(summary["as_infinity"]["ttft"]["p95"], None)
        eq(summary["as_infinity"]["ttft"]["reason"]["p95"], "infinite")
        eq(result.status, 98, "status")
        eq(summary["valid"], False, "30 % empty 200s are over the limit of 1 %")
        has(result.out, "empty_stream")


def test_empty_200(work):
    check_empty(work, "nothing")


def test_only_the_end_marker(work):
    check_empty(work, "done")


def test_usage_without_output_is_no_visible_output(work):
    def write(c):
        c.headers()
        c.event(chat_chunk({"role": "assistant", "content": ""}))
        c.event(chat_chunk({}, "stop"))
        c.event(chat_chunk(usage=usage(10, 25)))
        c.event("[DONE]")
        c.end()

    row, _ = one_reply(work, write)
    eq(row["error"], "no_visible_output")
    eq(row["output_tokens"], 25, "tokens are kept")


main(globals())
