"""What a run leaves, held against src/out/ROW.md; runs that must not pass; hostile text in files and on the terminal."""
import glob
import hashlib
import json
import os
import re
import signal
import time

from harness import ROOT, RELAXED, Server, chat_chunk, eq, has, main, matches, simple_chat, usage, wait_until

PLAN = """
local perigee = require "perigee"
local chat = require "perigee.chat"
return perigee.plan {
  name = %(name)s,
  description = %(description)s,
  load = %(load)s,
  drain = "1s",
  route = %(route)s,
  session = function(vu)
    vu:tag("phase", vu.session %% 2 == 0 and "plan" or "act")
    %(tags)s
    local conv = chat.new(vu, {})
    for turn = 1, 2 do
      conv:user("hello")
      conv:try_send { max_tokens = 16 }
    end
    vu:check("done", true)
  end,
  expect = { "ttft p50 < 1h", "failed share < 100%%" },
}
"""


def plan(load, name='"example"', description='"what it is"', route="nil", tags=""):
    return PLAN % {"load": load, "name": name, "description": description, "route": route, "tags": tags}


def words(section):
    """The names in a section of ROW.md: everything in code spans."""
    with open(os.path.join(ROOT, "src/out/ROW.md"), encoding="utf-8") as f:
        text = f.read()
    start = text.index(f"\n## {section}\n")
    end = text.find("\n## ", start + 1)
    body = text[start:end if end > 0 else len(text)]
    first = set()
    for row in re.findall(r"^\| (`[^|]*) \|", body, re.M):
        first.update(re.findall(r"`(\w+)(?:\[\])?(?:\.<[^>]*>)?`", row))
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", body)))), first


def keys(value, free=(), path=""):
    """Every field name below a value; what is in a `free` map has names of the run's own."""
    if isinstance(value, list):
        return set().union(*(keys(v, free, path) for v in value)) if value else set()
    if not isinstance(value, dict):
        return set()
    names = set()
    for key, v in value.items():
        if path not in free:
            names.add(key)
        names |= keys(v, free, key)
    return names


def check_names(section, value, free):
    known, documented = words(section)
    eq(sorted(keys(value, free) - known), [], f"written, but not in ROW.md ({section})")
    return documented


def test_the_fields_are_documented(work):
    route = 'require("perigee.route").round_robin()'
    work.write("s.lua", plan('perigee.closed { users = 2, sessions = 12 }', route=route))
    result = work.perigee("run", "s.lua", "--itl", "--fault", "503 p=0.2", *RELAXED, "--limit", "empty_200=100%")
    rows, summary, run = result.rows, result.summary, result.run
    assert any(r["error"] for r in rows), "a row of each kind"
    documented = check_names("A row of samples.jsonl", rows, free=("tags", "server"))
    stamps = set(rows[0]["t"])
    checks = {c["name"] for c in summary["checks"]}
    for row in rows:
        eq(sorted((set(row) | stamps) ^ documented), [], "fields of a row")
    names = ("metrics", "as_infinity", "by_error", "detail", "arms", "script_checks", "causes", "refused", "reason")
    documented = check_names("summary.json", summary, free=names)
    eq(sorted(set(summary) - documented - checks), [], "summary's fields with a line of their own")
    eq(sorted(documented - set(summary) - checks), [], "documented fields that the summary lacks")
    eq(sorted(checks - documented), [], "checks without a line")
    eq(sorted(set(summary["metrics"]["ttft"]) - words("summary.json")[0]), [], "a metric's fields")
    documented = check_names("run.json", run, free=("params",))
    eq(sorted(set(run) ^ documented), [], "fields of run.json")
    eq(summary["policies"], [{"policy": "round_robin", "requests": len(rows), "fallback": 0}])
    eq([(t["turn"], t["from"], t["to"]) for t in summary["turns"]], [("1", 1, 1), ("2", 2, 2)])
    phases = [r["tags"]["phase"] for r in rows]
    eq([(t["tag"], t["value"], t["requests"]) for t in summary["tags"]],
       [("phase", "act", phases.count("act")), ("phase", "plan", phases.count("plan"))])
    for text in (result.out, result.report()):
        has(text, "the plan's policy: round_robin")
        has(text, "By tag")
        has(text, "Where to look next")
        has(text, "To run it again")
        has(text, run["scripts"][0]["sha256"][:12])


def test_own_values_can_be_recomputed(work):
    """values.jsonl: every value and check, as ROW.md says; the summary's figures follow from it."""
    work.write("s.lua", """local perigee = require "perigee"
return perigee.plan {
  load = perigee.closed { users = 2, sessions = 20 },
  metrics = { think_time = "s" },
  session = function(vu)
    vu:tag("kind", vu.session % 2 == 0 and "even" or "odd")
    vu:record("think_time", (vu.session + 1) / 8, { phase = "plan" })
    vu:check("small", vu.session < 15)
    vu:sleep(0.001)
  end,
}
""")
    result = work.perigee("run", "s.lua", *RELAXED)
    eq(result.status, 0, result.err)
    with open(os.path.join(result.folder, "values.jsonl"), encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    documented = check_names("A row of values.jsonl", rows, free=("tags",))
    for row in rows:
        eq(sorted(set(row)), sorted(documented), "fields of a value")
    values = sorted(r["value"] for r in rows if r["metric"] == "think_time" and r["measured"])
    eq(values, [(k + 1) / 8 for k in range(20)])
    metric = result.summary["metrics"]["think_time"]
    eq((metric["n"], metric["min"], metric["max"]), (20, 0.125, 2.5))
    assert abs(metric["mean"] - sum(values) / 20) < 1e-12
    eq(sum(r["value"] for r in rows if r["check"] == "small"), 15)
    for row in rows:
        eq(row["tags"]["kind"], "odd" if row["session"] % 2 else "even")
        eq(row["tags"].get("phase"), None if row["check"] else "plan")
        assert 0 <= row["t_ns"] < 60e9, row
    eq(result.run["id"], rows[0]["run"])
    process = work.start("run", "s.lua", *RELAXED, "--set", "sessions=1000000", "--out", "cut")
    wait_until(lambda: any(os.path.getsize(p) > 10000 for p in glob.glob(work.path + "/cut/*/values.jsonl")), process)
    process.send_signal(signal.SIGINT)
    result = work.finish(process, 60)
    eq(result.status, 130, result.err)
    folder = os.path.join(work.path, "cut", os.listdir(os.path.join(work.path, "cut"))[0])
    with open(os.path.join(folder, "values.jsonl"), encoding="utf-8") as f:
        text = f.read()
    assert text.endswith("\n")
    with open(os.path.join(folder, "summary.json"), encoding="utf-8") as f:
        summary = json.load(f)
    rows = [json.loads(line) for line in text.splitlines()]
    eq(len([r for r in rows if r["metric"] and r["measured"]]), summary["metrics"]["think_time"]["n"], "complete after Ctrl-C")


def test_the_scripts_that_ran_are_kept(work):
    """What is edited or deleted while the run goes on is kept as it ran, with its hash."""
    library, data = "return { v = 1 }\n", "return 2\n"
    text = """local perigee = require "perigee"
local library, data = require "mine", dofile "data.lua"
return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },
  session = function(vu) print "going" vu:sleep(2) vu:log(library.v + data) end }
"""
    work.write("s.lua", text), work.write("lib/mine.lua", library), work.write("data.lua", data)
    process = work.start("run", "s.lua", "--sim", "1", "--workers", "2")
    while "going" not in process.stderr.readline():
        assert process.poll() is None
    work.write("s.lua", "error 'edited'\n"), work.write("lib/mine.lua", "return {}\n")
    os.unlink(os.path.join(work.path, "data.lua"))
    result = work.finish(process)
    eq(result.status in (0, 98), True, result.err)
    hashes = {os.path.basename(s["path"]): s["sha256"] for s in result.run["scripts"]}
    for name, ran in (("s.lua", text), ("lib/mine.lua", library), ("data.lua", data)):
        with open(os.path.join(result.folder, "scripts", name), encoding="utf-8") as f:
            eq(f.read(), ran, name)
        eq(hashes[os.path.basename(name)], hashlib.sha256(ran.encode()).hexdigest(), name)


def test_a_server_that_stops_answering_does_not_pass(work):
    def handler(request, c):
        if request.number % 4 == 0:
            c.headers()
            time.sleep(6)
            c.keep = False
        else:
            simple_chat(c)

    load = 'perigee.open { rate = 10, arrival = "constant", duration = "2s" }'
    with Server(handler) as server:
        work.write("s.lua", plan(load))
        args = ("run", "s.lua", *RELAXED, "--replica", server.url, "--model", "test-model")
        result = work.perigee(*args)
        eq(result.status, 98, result.out)
        summary = result.summary
        cut = summary["requests"]["incomplete"]
        assert cut >= 5, cut
        broken = {c["name"] for c in summary["checks"] if not c["ok"]}
        eq(broken, {"incomplete_requests", "incomplete_sessions"})
        eq(summary["as_infinity"]["ttft"]["incomplete"], cut)
        has(summary["expectations"][0]["reason"], "never ended and are not in it")
        has(summary["expectations"][1]["reason"], "never ended and are not in it")
        for text in (result.out, result.report()):
            has(text, "incomplete_requests is")
            has(text, "A longer drain")
            has(text, "no answer = ∞")
        again = work.perigee(*args, "--limit", "incomplete_requests=100%", "--limit", "incomplete_sessions=100%")
        eq(again.status, 0, again.out)
        has(again.out, "no answer = ∞")


def test_a_client_that_was_stopped_is_not_valid(work):
    """p99 of hundreds of wake-ups does not show one standstill of 1.5 s; its share of the time does."""
    work.write("s.lua", plan('perigee.closed { users = 1, duration = "5s" }'))
    relaxed = [a for a in RELAXED if not a.startswith("stalled_time")]
    while relaxed[-1] == "--limit":
        relaxed.pop()
    process = work.start("run", "s.lua", *relaxed)
    while not any("running" in line for line in iter(process.stderr.readline, "") or [""]):
        pass
    time.sleep(1)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    process.send_signal(signal.SIGCONT)
    result = work.finish(process)
    check = {c["name"]: c for c in result.summary["checks"]}["stalled_time"]
    assert 0.2 <= check["figure"] <= 1, check
    matches(check["note"], r"the longest took [1-9]\.\d+ s$")
    eq(check["ok"], False)
    eq(result.status, 98, result.out)
    step = {c["name"]: c for c in result.summary["checks"]}["clock_step"]
    eq(step["ok"], True, "standing still is no step of the clock")


ODD = ['{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}',
       '{"prompt_tokens":-5,"completion_tokens":3}', '{"prompt_tokens":12.5,"completion_tokens":3}',
       '{"prompt_tokens":"12","completion_tokens":"3"}', '{"prompt_tokens":10,"completion_tokens":0}',
       '{"prompt_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":11}}',
       '{"prompt_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":1e300}}']


def test_usage_that_cannot_be_true(work):
    def handler(request, c):
        c.headers()
        c.event(chat_chunk({"content": "a b c"}))
        c.event(chat_chunk({}, "stop"))
        odd = request.number < len(ODD)
        c.event('{"choices":[],"usage":%s}' % ODD[request.number] if odd else chat_chunk(usage=usage(10, 3, 5)))
        c.event("[DONE]")
        c.end()

    with Server(handler) as server:
        work.write("s.lua", plan('perigee.closed { users = 1, sessions = 20 }'))
        result = work.perigee("run", "s.lua", *RELAXED, "--replica", server.url, "--model", "test-model")
        assert not server.errors, server.errors[0]
        rows, summary = result.rows, result.summary
        eq(rows[0]["prompt_tokens"], 2 ** 63 - 1, "what was said")
        eq([r["prompt_tokens"] for r in rows[1:4]], [None] * 3)
        eq(rows[5]["cached_tokens"], 11)
        check = {c["name"]: c for c in summary["checks"]}["impossible_usage"]
        eq(check["note"], f"{len(ODD)} of 40")
        eq(result.status, 98, result.out)
        for name, top in (("prompt_tokens", 10), ("output_tokens", 3), ("cached_tokens", 5), ("cached_ratio", 0.5)):
            eq(summary["metrics"][name]["max"], top, name)
        has(result.out, "impossible_usage is 17.5 %, the limit is 1.00 %")


HOSTILE = 'x\\n# head\\n| a |\\n```\\n<img src=x onerror=1> \\27[2J\\27]0;t\\7 \\0 \\xff\\xc3( \\u{9b}31m \\u{202e}end'


def test_text_from_outside_is_harmless(work):
    message = "no \x1b[2J\x9b31m \u202e <script>alert(1)</script> | `x`\r\n# head"

    def handler(request, c):
        if request.number % 2:
            body = b'{"error":{"message":' + json.dumps(message).encode() + b',"x":"\xff\xfe"}}'
            c.reply(body, "503 Busy\x1b[31m", extra="X-Served-By: r\x1b[31m\xff|`<b>\r\n")
        else:
            simple_chat(c)

    text = f'"{HOSTILE}"'
    with Server(handler) as server:
        tags = f"vu:tag('evil', {text}) vu:check({text}, true)"
        work.write("s.lua", plan('perigee.closed { users = 1, sessions = 4 }', name=text, description=text, tags=tags))
        process = work.start("run", "s.lua", *RELAXED, "--replica", server.url, "--model", "m\x1b[2J|`<b>\u202e",
                             "--no-preflight", "--label", "l\x1b[2J|`<b>", errors="surrogateescape")
        result = work.finish(process)
        assert result.folder, result.err
        for name in ("samples.jsonl", "summary.json", "run.json", "report.md"):
            with open(os.path.join(result.folder, name), "rb") as f:
                data = f.read()
            data.decode("utf-8")
            bad = re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", data)
            assert not bad, (name, data[max(0, bad.start() - 60):bad.end() + 60])
        assert result.summary and result.run and result.rows
        report = result.report()
        for shown in (result.out, result.err, report):
            shown.encode("utf-8")
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown), "control characters"
        assert not re.search(r"^# head", report, re.M), "a heading from outside"
        assert not re.search(r"<(img|script|b)\b", re.sub(r"(?m)^```sh\n.*?^```|`[^`\n]*`", "", report, flags=re.S)), "HTML"


main(globals())
