"""What the report says of servers that say little, of plans that cannot be judged, and whether its commands work."""
import json
import re
import subprocess

from harness import RELAXED, Server, chat_chunk, eq, has, main, one_turn, simple_chat, usage

PLAN = """
local perigee = require "perigee"
local chat = require "perigee.chat"
return perigee.plan {
  load = perigee.closed { users = 2, sessions = %(sessions)d },
  session = function(vu)
    local conv = chat.new(vu, { stream = %(stream)s })
    for turn = 1, 5 do
      conv:user("hello")
      conv:try_send { max_tokens = 16 }
    end
    %(more)s
  end,
  %(fields)s
}
"""


def plan(fields="", sessions=4, stream="true", more=""):
    return PLAN % {"fields": fields, "sessions": sessions, "stream": stream, "more": more}


def run(work, server, *args):
    return work.perigee("run", "s.lua", *RELAXED, "--replica", server.url, "--model", "test-model", *args)


def checks(result):
    return {c["name"]: c for c in result.summary["checks"]}


def commands(report):
    return [c.strip() for c in re.findall(r"(?ms)^```sh\n(jq .*?)^```", report)]


def simple(request, c):
    simple_chat(c)


def test_a_server_that_says_nothing_of_its_cache(work):
    with Server(simple) as server:
        work.write("s.lua", plan('expect = { "cached_ratio mean > 50%", "cached_tokens{turn=2} mean > 1" }'))
        result = run(work, server)
        eq(result.status, 99, result.out)
        way_out = "--enable-prompt-tokens-details, SGLang with --enable-cache-report"
        for text in (re.sub(r"\s+", " ", result.out), result.report()):
            has(text, "cached_tokens: 20 of 20 replies did not say: vLLM says it with " + way_out)
        reasons = [e["reason"] for e in result.summary["expectations"]]
        has(reasons[0], "no data: cached_tokens: 20 of 20 replies did not say; vLLM says it with " + way_out)
        has(reasons[1], "no data: cached_tokens: 4 of 4 replies with these tags did not say")
        assert "fewest cached" not in result.report(), "no count, no command for it"


def test_every_command_of_the_report_works(work):
    def handler(request, c):  # every state of cached_tokens, failures, whole replies
        n = request.number
        if n % 10 == 9:
            c.reply(b'{"error":"x"}', "503 Busy")
        elif n % 10 == 8:
            c.headers()
            c.event(chat_chunk({"content": "a"}))
            c.event(chat_chunk({}, "stop"))
            c.event("[DONE]")  # no usage
            c.end()
        else:
            simple_chat(c, cached=(None, 0, 5)[n % 3])

    fields = 'expect = { "cached_ratio mean > 99%", "ttft p50 < 1ns", "e2e p50 < 1ns" }'
    with Server(handler) as server:
        work.write("s.lua", plan(fields, more="vu:sleep '1ms' if vu.session == 3 then error 'oops' end"))
        result = run(work, server, "--limit", "missing_usage=100%")
        found = commands(result.report())
        assert len(found) >= 3, result.report()
        for what in ("select(.measured and .error != null", ".t.first_token", ".cached_tokens"):
            assert any(what in c for c in found), what
        for command in found:
            done = subprocess.run(["bash", "-c", command], cwd=work.path, capture_output=True, text=True)
            eq((done.returncode, done.stderr), (0, ""), command)
            lines = done.stdout.splitlines()
            assert lines and all(json.loads(line) for line in lines), command


def test_objectives_of_replies_that_were_not_streamed(work):
    def handler(request, c):
        c.reply(json.dumps({"id": "x", "object": "chat.completion", "model": "test-model", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "a b c"}, "finish_reason": "stop"}],
            "usage": usage(10, 16)}).encode())

    with Server(handler) as server:
        work.write("s.lua", plan('slo = { ttft = "10s" }, expect = { "goodput share > 90%" }', stream="false"))
        result = run(work, server)
        goodput = result.summary["metrics"]["goodput"]
        eq((goodput["n"], goodput["share"], goodput["unjudged"]), (0, None, 20))
        eq(goodput["objectives"][0]["reason"], "replies were not streamed")
        has(result.summary["expectations"][0]["reason"], "replies were not streamed")
        has(result.out, "ttft could not be judged in 20 of 20: replies were not streamed")


def test_objectives_without_usage(work):
    def handler(request, c):
        c.headers()
        for word in "abc":
            c.event(chat_chunk({"content": word}))
        c.event(chat_chunk({}, "stop"))
        c.event("[DONE]")
        c.end()

    with Server(handler) as server:
        work.write("s.lua", plan('slo = { tpot = "1ns" }, expect = { "goodput share > 90%" }'))
        result = run(work, server, "--limit", "missing_usage=100%")
        eq(result.summary["metrics"]["goodput"]["share"], None)
        eq(result.status, 99, result.out)
        has(result.summary["expectations"][0]["reason"], "tpot could not be judged in 20 of 20: replies did not say")


def test_answers_shorter_than_declared(work):
    relaxed = [a for a in RELAXED if not a.startswith("short_answers")]
    relaxed = [a for i, a in enumerate(relaxed) if a != "--limit" or relaxed[i + 1:i + 2] not in ([], ["--limit"])]
    with Server(simple) as server:
        for options, broken in (("", True), ('history = "live"', False)):
            work.write("s.lua", plan().replace("{ stream = true }", "{ %s }" % options))
            result = work.perigee("run", "s.lua", *relaxed, "--replica", server.url, "--model", "test-model")
            eq(checks(result)["short_answers"]["ok"], not broken, options)
            eq(result.rows[0]["asked_tokens"], 16 if broken else None)
            if broken:
                eq(checks(result)["short_answers"]["note"], "20 of 20, which had 60 of 320 tokens")
                has(re.sub(r"\s+", " ", result.out), "it does not obey ignore_eos")


def test_a_script_that_fails_is_said_first(work):
    work.write("s.lua", plan(sessions=2, more="error 'oops'").replace("for turn", "error 'oops' for turn"))
    result = work.perigee("run", "s.lua", *RELAXED, "--limit", "lost_workers=0")
    has(result.out.splitlines()[0] + result.out.splitlines()[1], "no session went well, 2 of 2 ended in an error of the script: script: ")


def test_what_cannot_be_there_is_refused_before_the_start(work):
    for text, why in (("matched_tokens mean < 5", "matched_tokens needs LookupRoute calls, which are not in this version"),
                      ("ttft p50 < 400", "400 what? write 400ms or 400s"),
                      ("failed share < 5", "5 of what? a ratio is at most 1: write 5% or 0.05"),
                      ("e2e p50{tier=paid} < 1s", "tags go after the metric: e2e{tier=paid} p50")):
        work.write("s.lua", plan('expect = { "%s" }' % text))
        result = work.perigee("run", "s.lua")
        eq(result.status, 2, result.err)
        has(result.err, why)


def test_expectations_stand_in_the_order_of_the_plan(work):
    fields = 'expect = { function() return true, "fine" end, "failed share < 1", function() return false, "no" end }'
    work.write("s.lua", plan(fields, sessions=2))
    result = work.perigee("run", "s.lua", *RELAXED)
    list_ = result.summary["expectations"]
    eq([e["text"] for e in list_], ["expectation 1 (a function)", "failed share < 1", "expectation 3 (a function)"])
    eq([e["met"] for e in list_], [True, True, False])
    eq(list_[1]["bound_shown"], "< 100 %")


def test_few_sessions_leave_replicas_out_by_chance(work):
    work.write("s.lua", plan(sessions=3))
    result = work.perigee("run", "s.lua", *RELAXED, "--sim", "8")
    idle = checks(result)["idle_replica"]
    eq((idle["ok"], idle["figure"]), (True, None))
    has(idle["note"], "3 sessions over 8 replicas leave a given one out by chance in 67 % of runs")
    eq(sum(r["sessions"] for r in result.summary["replicas"]), 3)
    eq(result.summary["placements"], {"n": 3, "of": "sessions"})


def test_tags_that_all_requests_have_alike_take_no_place(work):
    tags = "for i = 1, 9 do vu:tag('a' .. i, 'same') end vu:tag('zz', vu.session % 2) "
    work.write("s.lua", plan(sessions=4).replace("local conv", tags + "local conv"))
    result = work.perigee("run", "s.lua", *RELAXED)
    eq(sorted({t["value"] for t in result.summary["tags"] if t["tag"] == "zz"}), ["0", "1"])
    eq(result.summary["tags_left_out"], ["a9"])
    has(result.report(), "The same for all requests: a1 = same,")
    has(result.report(), "a9 | (left out:")


def test_long_expectations_are_wrapped(work):
    """No part of what was asked is cut off, nor is it in a pipe."""
    text = "output_tokens{turn=1, phase=the_first_of_them_all} mean > 0.5 * output_tokens{turn=1, phase=the_other_one} mean"
    work.write("s.lua", one_turn(2, 8).replace("session =", f"expect = {{ '{text}' }},\n  session ="))
    result = work.perigee("run", "s.lua", *RELAXED, "--fault", "r1:503")
    table = result.out.split("Expectations\n")[1].split("Results\n")[0]
    assert "…" not in table, table
    for word in text.split():
        has(table, word)
    assert all(len(line) <= 100 for line in table.splitlines()), table
    assert re.search(r"http_5xx +requests +\d+ +([\d.]+ % +)?r1 \d+ +POST ", result.out), result.out
    requests = result.summary["requests"]
    eq(requests["failed_at"], [{"error": "http_5xx", "replica": "r1", "requests": requests["failed"]}])
    assert "0 failed of 0 requests" not in result.err, result.err  # a line that says nothing is left out


def test_parameters_of_a_plan_are_aligned(work):
    work.write("s.lua", """local perigee = require "perigee"
local n = perigee.param("n", 3, "how many")
local long = perigee.param("a_longer_one", "x", "what else")
return perigee.plan { load = perigee.closed { users = n, sessions = n }, session = function() end }
""")
    result = work.perigee("run", "s.lua", "--plan")
    lines = result.out.splitlines()
    eq(lines[-2:], ["--set       n=3             how many", "            a_longer_one=x  what else"])


main(globals())
