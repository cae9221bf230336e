"""perigee render: ways in, errors, statuses; and Jinja2 itself as witness on random templates (where it is installed)."""
import json
import os
import subprocess

from harness import PERIGEE, ROOT, Server, Skip, eq, has, main, simple_chat
from models import qwen3

THREADS = ["test_a_rendering_obeys_runaway"]

CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if tools %}{{ tools|tojson }}{% endif %}" \
       "{{ bos_token }}{{ x }}{% if add_generation_prompt %}<assistant>{% endif %}"
HI = b'[{"role": "user", "content": "hi"}]'
# Rows of a file, each with its own template, answered one line each.
ROWS = """
local json, core = require "perigee.json", require "perigee.template.core"
for line in io.lines(arg[1]) do
  local row = json.decode(line)
  local tpl, message = core.new("t", row.template)
  local text
  if tpl then
    text, message = tpl:render_json((line:gsub("^{", '{"now": "2026-08-22T12:34:56", ', 1)))
  end
  print(json.encode { text = text, error = not text and message or nil })
end
"""


def render(*args, stdin=HI, status=0):
    done = subprocess.run([PERIGEE, "render", *args], input=stdin, capture_output=True, timeout=60)
    eq(done.returncode, status, f"status of render {args} ({done.stderr.decode()})")
    return (done.stderr if status else done.stdout).decode()


def test_ways_in(work):
    tpl = work.write("chat_template.jinja", CHAT)
    tools = work.write("tools.json", '[{"b": 1, "a": 18446744073709551615}]')
    chat = work.write("chat.json", HI.decode())
    eq(render("--template", tpl), "<user>hi\n<assistant>")
    eq(render(f"--template={tpl}", "--no-generation-prompt", chat, stdin=b""), "<user>hi\n")
    eq(render("--template", tpl, "-", "--tools", tools, "--kwargs", '{"x": 1.0}', "--special", '{"bos_token": "<s>"}'),
       '<user>hi\n[{"b": 1, "a": 18446744073709551615}]<s>1.0<assistant>')
    eq(render("--template", work.path), "<user>hi\n<assistant>")
    eq(json.loads(render("--template", tpl, "--json")), {"text": "<user>hi\n<assistant>", "bytes": 20})
    eq(render("--template", tpl, stdin=b' {"messages": [], "tools": [1], "add_generation_prompt": false}'), "[1]")
    eq(render("--template", "{{ strftime_now('%d %b') }}", "--now", "2026-08-22", stdin=b"[]"), "22 Aug")
    eq(render("--template", tpl, "--continue-final-message", stdin=b'[{"role": "a", "content": "so "}]'), "<a>so ")


def test_configuration(work):
    work.write("tokenizer_config.json", json.dumps({"bos_token": "<s>", "chat_template": [
        {"name": "default", "template": "D{{ bos_token }}"}, {"name": "tool_use", "template": "T"}]}))
    eq(render("--template", work.path), "D<s>")
    eq(render("--template", work.path, stdin=b'{"messages": [], "tools": [{}]}'), "T")
    eq(render("--template", work.path, "--special", '{"bos_token": "x"}'), "Dx")


def test_names(work):
    """qwen3 from `make deps`; harmony without any file."""
    text = render("--template", "harmony", "--now", "2026-08-22T01:02:03")
    has(text, "Current date: 2026-08-22\n\nReasoning: medium\n")
    has(text, "<|start|>user<|message|>hi<|end|><|start|>assistant")
    has(render("--template", "harmony", "--kwargs", '{"reasoning_effort": "low"}', "--no-generation-prompt"), "Reasoning: low\n")
    has(render("--template", "harmony", "--kwargs", '{"effort": 1}', status=1), "unknown option 'effort'")
    has(render("--template", "harmony", "--continue-final-message", status=1), "harmony has no continue_final_message")
    has(render("--template", "harmony", stdin=b'[{"role": "robot"}]', status=1), "message 1: its role is none of")
    folder = qwen3(work)
    eq(render("--template", "qwen3"), render("--template", folder))


def test_a_special_token_that_nobody_gave_is_told(work):
    work.write("chat_template.jinja", "{{ bos_token }}{{ messages[0].content }}")
    done = subprocess.run([PERIGEE, "render", "--template", work.path], input=HI, capture_output=True, timeout=60)
    eq((done.returncode, done.stdout), (0, b"hi"))
    has(done.stderr.decode(), "note: the template names bos_token, and nothing says what that is")
    done = subprocess.run([PERIGEE, "render", "--template", work.path, "--special", '{"bos_token": "<s>"}'], input=HI,
                          capture_output=True, timeout=60)
    eq((done.returncode, done.stdout, done.stderr), (0, b"<s>hi", b""))
    work.write("special_tokens_map.json", '{"bos_token": {"content": "<m>"}}')
    eq(render("--template", work.path), "<m>hi")
    eq(render("--template", work.path + "/chat_template.jinja"), "<m>hi")


def note_of(*args, stdin):
    return subprocess.run([PERIGEE, "render", *args], input=stdin, capture_output=True, timeout=60).stderr.decode()


def test_what_is_not_looked_at_is_told(work):
    work.write("t.jinja", "{{ messages[0].content }}")
    chat = b'{"messages":[{"role":"user","content":"hi"}],"tolls":[],"model":"m"%s}'
    has(note_of("--template", work.path + "/t.jinja", stdin=chat % b""),
        "note: standard input: not looked at: model, tolls (did you mean tools?); with --served")
    eq(note_of("--template", work.path + "/t.jinja", "--served", stdin=chat % b""), "")
    has(note_of("--template", work.path + "/t.jinja", stdin=chat % b',"now":5'),
        'standard input: now must be a time as "2026-08-22T12:34:56", got 5')


def test_as_a_server_renders_it(work):
    """--served: what vLLM does to a request before the template sees it; without it, a note where that matters."""
    tpl = work.write("t.jinja", "{% for m in messages %}{{ m.content }}|{% for c in m.tool_calls or [] %}"
                     "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}{{ x }}{{ reasoning_effort }}")
    call = (b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, '
            b'{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", '
            b'"arguments": "{\\"k\\":1,\\"a\\":[]}"}}]}], "reasoning_effort": "low"}')
    eq(render("--template", tpl, "--served", "--kwargs", '{"x": 7}', stdin=call), 'a\nb||{"k": 1, "a": []}7low')
    has(render("--template", tpl, stdin=call), 'None|"{\\"k\\":1,\\"a\\":[]}"')
    has(note_of("--template", tpl, stdin=call), "a server prepares messages and tools before the template sees them")
    eq(note_of("--template", tpl, "--served", stdin=call), "")
    eq(note_of("--template", tpl, stdin=HI), "")
    has(note_of("--template", tpl, stdin=b'[{"rol": "user"}]'),
        "note: a server refuses this request: messages[0].role: a string is required")
    eq(render("--template", tpl, stdin=b'{"messages": [], "chat_template_kwargs": {"x": 3}}'), "3")


def test_errors_say_where_and_what_to_do(work):
    tpl = work.write("t.jinja", "a\n{{ messages[0].nope.x }}")
    bad = work.write("bad.jinja", "{% if %}")
    has(render("--template", tpl, status=1), "t.jinja' line 2: UndefinedError: 'dict object' has no attribute 'nope'")
    has(render("--template", bad, status=1), "bad.jinja' line 1: TemplateSyntaxError")
    has(render(status=2), "--template is missing")
    has(render("--tmplate", "x", status=2), "did you mean --template?")
    has(render("--template", "nowhere", status=1), "nowhere: no such file")
    has(render("--template", os.path.join(work.path, "sub"), status=1), "no such file")
    has(render("--template", tpl, "nowhere.json", status=1), "nowhere.json")
    has(render("--template", tpl, work.path, status=1), "it cannot be read")
    has(render("--template", tpl, stdin=b"{", status=1), "is no JSON: line 1")
    eq(render("--template", tpl, stdin=b'["\\ud800"]', status=1),
       "perigee render: standard input is no JSON: line 1, column 3: half of a surrogate pair in a \\u escape\n")
    has(render("--template", tpl, stdin=b"3", status=1), "must be a JSON list of messages")
    has(render("--template", tpl, "--kwargs", "[]", status=2), "--kwargs must be a JSON object")
    has(render("--template", tpl, "--tools", bad, status=1), "bad.jinja is no JSON")
    has(render("--template", tpl, "--now", "today", status=2), "is no local time")
    has(render("--template", tpl, stdin=b"{}", status=1), "standard input: messages are missing")
    has(render("--template", tpl, "--kwargs", "{}", stdin=b'{"messages": [], "chat_template_kwargs": {}}', status=1),
        "standard input says chat_template_kwargs, and --kwargs does too: leave one out")
    os.mkdir(os.path.join(work.path, "empty"))
    has(render("--template", os.path.join(work.path, "empty"), status=1), "neither chat_template.jinja nor")
    has(render("--help"), "Usage: perigee render")


def test_a_closed_reader_is_no_failure(work):
    tpl = work.write("t.jinja", "{{ 'x' * 1000000 }}")
    done = subprocess.run(f"echo '[]' | {PERIGEE} render --template {tpl} | head -c 5", shell=True, capture_output=True,
                          timeout=60)
    eq(done.stdout, b"xxxxx")


def oracle_agrees(work, seed, count):
    try:
        import template_rows
    except ImportError as e:
        raise Skip(f"Jinja2 is not installed ({e}); `make deps-test` installs it") from e
    rows = list(template_rows.rows(seed, count))
    path = work.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    script = work.write("rows.lua", ROWS)
    done = subprocess.run([PERIGEE, "lua", script, path], capture_output=True, timeout=600, cwd=ROOT)
    eq(done.returncode, 0, done.stderr.decode())
    answers = done.stdout.decode().rstrip("\n").split("\n")  # splitlines would split at U+2028
    eq(len(answers), len(rows))
    for row, line in zip(rows, answers):
        got = json.loads(line)
        if row.get("text") != got.get("text"):
            raise AssertionError(f"seed {row['id']}: {row['template']!r} with {row['context']}\n"
                                 f"  got  {got}\n  want {row.get('text')!r} {row.get('error')}")


def test_oracle(work):
    """The same 1,500 templates every time; PERIGEE_TEMPLATE_SEED=N tries others."""
    oracle_agrees(work, int(os.environ.get("PERIGEE_TEMPLATE_SEED", "7000000")), 1500)


ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
REFUSES = "\n{{ raise_exception('no system role') }}"
ONE = """
local perigee, chat = require "perigee", require "perigee.chat"
return perigee.plan { load = perigee.closed { users = 2, duration = "2s" }, session = function(vu)
  local c = chat.new(vu)
  c:user "hello there"
  c:send { max_tokens = 4 }
end }
"""


def test_a_template_that_fails_here_is_no_matter_of_a_server(work):
    """Tried on this side first; nobody is asked for tokens, nothing takes long."""
    one = work.write("one.lua", ONE)
    for source, reason in ((ENDLESS, "line 1: it runs too long"), ("{{ 'a' * 70000000 }}", "line 1: "),
                           (REFUSES, "line 2: TemplateError: no system role")):
        tpl = work.write("own.jinja", source)
        with Server(simple_chat) as server:
            for args in (["parity", server.url], ["run", one, "--replica", server.url]):
                done = work.perigee(*args, "--tokenizer", "bytes", "--template", tpl, timeout=60)
                eq(done.status, 1, f"status of {args} ({done.err})")
                has(done.err, reason)
            eq([r.path for r in server.requests if r.path != "/v1/models"], [])


def test_a_rendering_obeys_runaway(work):
    tpl = work.write("own.jinja", ENDLESS)
    script = work.write("s.lua", ONE.replace("c:user", f"c:set_renderer(require 'perigee.template'.load '{tpl}')\n  c:user"))
    done = work.perigee("run", script, "--runaway", "0.01", "--tokenizer", "bytes", timeout=60)
    has(done.out + done.err, "without waiting, so it was stopped")


def test_growth_is_refused_at_once(work):
    for source in ("{{ 'a'.center(1000000000)|length }}", "{{ '%1000000000d' % 1 }}", "{{ '{:>1000000000}'.format(1) }}",
                   "{{ 'a'|indent(1000000000) }}", "{{ [1]|tojson(indent=1000000000) }}", "{{ [1] * 1000000000 }}"):
        has(render("--template", source, status=1), "too long")


main(globals())
