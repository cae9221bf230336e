"""Token parity: `perigee parity` and the check of every run, against the simulated fleet and servers that lie.

A lying server is a proxy before an honest one: it changes the request on its way in, or the ids on their way out, as
servers have been seen to do (shared/facts/tokenizers.md, section 6). The model is a small one of ours with a template
that shows every lie; Qwen3 and gpt-oss come from `make deps` and are skipped by name where they are not.
"""
import contextlib
import json
import os
import time
import urllib.error
import urllib.request

from harness import RELAXED, Server, eq, has, main, one_turn, soon
from models import harmony, qwen3, small

THREADS = ["test_what_a_run_asks_each_server", "test_a_default_system_prompt_is_seen_by_a_run_and_the_doctor",
           "test_a_server_that_counts_otherwise_is_named", "test_a_run_on_bytes_compares_a_prompt",
           "test_a_run_proves_parity", "test_a_run_with_other_tokens_is_not_valid",
           "test_a_template_that_takes_no_system_message", "test_counts_of_the_whole_run",
           "test_without_preflight_it_is_not_proven"]

TEMPLATE = ("{{ bos_token }}{%- if dated %}<|im|>date {{ strftime_now('%d %b %Y') }}<|end|>\n{% endif -%}"
            "{%- if tools %}<|im|>tools\n{% for t in tools %}{{ t | tojson(SPACING) }}\n{% endfor %}<|end|>\n{% endif -%}"
            "{%- for m in messages %}<|im|>{{ m.role }}\n{{ m.content }}"
            "{%- for c in m.tool_calls or [] %}[{{ c.function.name }}{{ c.function.arguments | tojson(SPACING) }}]{% endfor -%}"
            "<|end|>\n{% endfor -%}{%- if add_generation_prompt %}<|im|>assistant\n{% endif -%}")
# The same without a first token, for `bytes`, which has none.
BARE = TEMPLATE.replace("{{ bos_token }}", "").replace("SPACING", "")
DATED = {"messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs": {"dated": True}}


def model(work, name="model", template=TEMPLATE.replace("SPACING", "")):
    folder = small(work)
    if name != "model":
        new = os.path.join(work.path, name)
        os.rename(folder, new)
        folder = new
    work.write(f"{name}/tokenizer_config.json",
               json.dumps({"chat_template": template, "bos_token": "<s>", "eos_token": "<|end|>"}))
    return folder


@contextlib.contextmanager
def fleet(work, *args):
    process = work.start("sim", "--announce", "--replicas", "1", "--profile", "instant", *args)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield json.loads(line)["replicas"][0]["url"]
    finally:
        process.terminate()
        process.communicate(timeout=20)


class Liar:
    """Hands requests on; `ask(path, body)` may change a body, `answer(path, reply)` a reply, `status` refuses paths."""

    def __init__(self, url, ask=None, answer=None, status=None):
        self.url, self.ask, self.answer, self.status = url, ask, answer, status or {}
        self.server = Server(self.handle, raw=True)

    def handle(self, request, connection):
        if request.path in self.status:
            connection.reply({"error": {"message": "not here"}}, self.status[request.path])
            return
        body = request.json if request.body else None
        if body is not None and self.ask:
            body = self.ask(request.path, body) or body
        data = json.dumps(body).encode() if body is not None else None
        upstream = urllib.request.Request(self.url + request.path, data, {"Content-Type": "application/json"},
                                          method=request.method)
        try:
            with urllib.request.urlopen(upstream, timeout=20) as reply:
                status, kind, data = reply.status, reply.headers["Content-Type"], reply.read()
        except urllib.error.HTTPError as e:
            status, kind, data = e.code, e.headers["Content-Type"], e.read()
        if status == 200 and self.answer and (kind or "").startswith("application/json"):
            value = json.loads(data)
            data = json.dumps(self.answer(request.path, value) or value)
        connection.reply(data, f"{status} X", kind or "text/plain")

    def __enter__(self):
        self.server.__enter__()
        return self.server.url

    def __exit__(self, *args):
        self.server.__exit__(*args)
        eq(self.server.errors, [])


def parity(work, *args, status=0):
    done = work.perigee("parity", "--json", *args)
    eq(done.status, status, done.err + done.out[-2000:])
    return json.loads(done.out)


def case(entry, name, form="messages", evidence=None):
    found = [c for c in entry["cases"] if c["case"] == name and c["form"] == form
             and evidence in (None, c["evidence"])]
    eq(len(found), 1, f"{name} {form} {evidence}")
    return found[0]


def first_cause(entry, name="tool_calls", form="messages"):
    c = case(entry, name, form)
    eq(c["verdict"], "differs", json.dumps(c))
    return c["causes"][0] if c["causes"] else {"name": None}


def lies(work, url, folder, name="tool_calls", form="messages", ask=None, answer=None, own=(), status=99):
    with Liar(url, ask, answer) as liar:
        entry = parity(work, liar, "--tokenizer", folder, "--no-completions", *own, status=status)[0]
    return first_cause(entry, name, form)


# ---- the honest ----

def check_equal(work, tokenizer, cases, *args):
    with fleet(work, "--tokenizer", tokenizer, *args) as url:
        entry = parity(work, url, "--tokenizer", tokenizer, *args)[0]
    eq(entry["verdict"], "equal", json.dumps([c for c in entry["cases"] if c["verdict"] != "equal"])[:3000])
    eq((entry["compared"], entry["differ"], entry["by_count"], entry["reason"]), (cases, 0, 0, None))
    eq({c["evidence"] for c in entry["cases"]}, {"tokenize", "inference"})
    return entry


def test_bytes_is_equal_in_prompts(work):
    entry = check_equal(work, "bytes", 7)
    eq((entry["server"], entry["renderer"], entry["model"], entry["arm"]), ("r0", None, "sim-model", None))
    eq({c["form"] for c in entry["cases"]}, {"prompt"})


def test_bytes_with_a_template_is_equal_in_messages(work):
    path = work.write("own.jinja", BARE)
    check_equal(work, "bytes", 17, "--template", path)


def test_a_small_model_is_equal(work):
    check_equal(work, model(work), 17)


def test_qwen3_is_equal(work):
    check_equal(work, qwen3(work), 17)


def test_harmony_is_equal(work):
    check_equal(work, harmony(work), 17)


def test_the_built_in_fleet_and_the_table(work):
    done = work.perigee("parity", "--sim", "2", "--tokenizer", model(work))
    eq(done.status, 0, done.err)
    has(done.out, "✓  r1")
    has(done.out, "Equal: the server makes the same token ids")
    eq(done.err, "")


# ---- servers that lie, each in a known way ----

def put_first(path, reply):
    if path == "/tokenize":
        reply["tokens"].insert(0, reply["tokens"][0])
        reply["count"] += 1


def test_double_bos(work):
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url:
        cause = lies(work, url, folder, answer=put_first)
        eq((cause["name"], cause["strength"]), ("double_bos", "exact"))
        has(cause["text"], '"<s>"')
        with Liar(url, answer=put_first) as liar:
            done = work.perigee("parity", liar, "--tokenizer", folder)
    eq(done.status, 99)
    has(done.out, "DIFFERS at token 1")
    has(done.out, "cause double_bos: the server puts the first token in front twice")
    has(done.out, 'the first token is equal; then, behind "<s>"')
    has(done.out, "the same: ")
    has(done.out, "DIFFERS: figures about prefixes")


def test_the_first_difference_has_text_around_it(work):
    def change(path, reply):
        if path == "/tokenize":
            reply["tokens"][-1] += 1
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url, Liar(url, answer=change) as liar:
        c = case(parity(work, liar, "--tokenizer", folder, "--no-completions", status=99)[0], "user")
    d = c["difference"]
    eq(d["index"], c["local_tokens"] - 1)
    eq(d["server_id"], d["local_id"] + 1)
    assert d["before"].endswith('assistant"'), d
    eq(d["local"], '"\\n"')
    eq(c["causes"], [])


def test_add_special_tokens(work):
    def ask(_, body):
        body["add_special_tokens"] = "messages" in body
    folder = model(work, template=BARE)
    with fleet(work, "--tokenizer", folder) as url:
        eq(lies(work, url, folder, ask=ask)["name"], "add_special_tokens")
        cause = lies(work, url, folder, "plain", "prompt", ask=ask)
    eq(cause["name"], "add_special_tokens")
    has(cause["text"], "as if add_special_tokens were false, here it is true")


def test_generation_prompt(work):
    def ask(_, body):
        if "messages" in body:
            body["add_generation_prompt"] = not body.get("add_generation_prompt", True)
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url:
        has(lies(work, url, folder, ask=ask)["text"], "we add one and the server does not")
        has(lies(work, url, folder, "no_generation_prompt", ask=ask)["text"], "the server adds one and we do not")


def test_date(work):
    folder = model(work)
    own = work.write("dated.json", json.dumps(DATED))
    ours = ("--tokenizer", folder, "--messages", own, "--no-battery", "--no-completions")
    with fleet(work, "--tokenizer", folder, "--now", "2024-07-26") as url:
        entry = parity(work, url, *ours, "--now", "2026-08-01", status=99)[0]
        eq(parity(work, url, *ours)[0]["verdict"], "equal")  # what a simulated server says of its day is believed
    cause = first_cause(entry, own)
    eq((cause["name"], cause["strength"]), ("date", "exact"))
    has(cause["text"], "the server says 26 Jul 2024, here it is 01 Aug 2026")


def test_the_doctor_and_parity_take_the_same_from_a_simulated_server(work):
    """What is not given is the server's own word; both say so; what is given stands."""
    dated = BARE.replace("{%- if dated %}", "{%- if true %}")
    work.write("dated.jinja", dated)
    other = os.path.join(work.path, "dated.jinja")
    folder = model(work)
    with fleet(work, "--tokenizer", folder, "--template", other, "--now", "2024-07-26") as url:
        both = [work.perigee(c, url, "--tokenizer", folder) for c in ("parity", "doctor")]
        given = [work.perigee(c, url, "--tokenizer", folder, "--template", folder) for c in ("parity", "doctor")]
        late = [work.perigee(c, url, "--tokenizer", folder, "--now", "2025-01-01") for c in ("parity", "doctor")]
        none = [work.perigee(c, url) for c in ("parity", "doctor")]
    eq([d.status for d in both], [0, 0], both[1].out)
    has(both[0].out, f"tokenizer {folder}, template {other} (the server's own word), today 2024-07-26 (the server's own")
    has(both[1].out, "(template and date as the server says of itself): the same ids in")
    eq([d.status for d in given], [99, 1])
    has(given[0].out, f"the server says of itself: tokenizer {folder}/tokenizer.json, template {other}, date 2024-07-26")
    has(given[0].out, f"give the server's own template with --template (it names {other})")
    eq([d.status for d in late], [99, 1])
    for done in late:
        has(done.out, "the server says 26 Jul 2024, here it is 01 Jan 2025")
        has(done.out, "-> --now 2024-07-26, the server's day")
    eq([d.status for d in none], [0, 0], none[1].out)
    has(none[1].out, "(tokenizer and template and date as the server says of itself)")


def test_another_vocabulary_is_told_once(work):
    def foreign(path, reply):
        nameless(path, reply)
        for key in ("tokens", "prompt_token_ids"):
            if reply.get(key):
                reply[key] = [(7 * t + 11) % 600 for t in reply[key]]
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url:
        with Liar(url, answer=foreign) as liar:
            done = work.perigee("parity", liar, "--tokenizer", folder)
            entry = parity(work, liar, "--tokenizer", folder, status=99)[0]
            doctor = work.perigee("doctor", liar, "--tokenizer", folder)
    eq({x["name"] for c in entry["cases"] for x in c["causes"]}, {"vocabulary"})
    eq(done.out.count("cause vocabulary"), 1, done.out)
    eq(done.out.count("no cause is known"), 0, done.out)
    has(done.out, "-> give the server's own tokenizer with --tokenizer")
    eq(done.out.count("->"), 1, done.out)
    has(doctor.out, "of another vocabulary")


def test_one_text_in_other_tokens_is_no_cause_where_something_is_rendered(work):
    """Harmony tokenizes messages one by one, a template the whole: the tokenizer is the same, nothing is cut off."""
    ids = harmony(work)
    whole = work.write("hf.jinja", "{%- for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>"
                       "{%- endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}")
    own = work.write("own.json", '[{"role":"user","content":"What is <|start|>?"}]')
    with fleet(work, "--tokenizer", ids, "--template", whole) as url, Liar(url, answer=nameless) as liar:
        done = work.perigee("parity", liar, "--tokenizer", ids, "--template", "harmony", "--messages", own)
    eq(done.status, 99)
    eq(done.out.count("cause tokenizer"), 0, done.out)
    eq(done.out.count("cause truncated"), 0, done.out)
    has(done.out, "-> prompts are equal, so it is not the tokenizer but what renders")


def test_tool_order(work):
    def ask(_, body):
        body.get("tools", []).reverse()
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url:
        eq(lies(work, url, folder, "tools", ask=ask)["name"], "tool_order")


def test_tool_keys(work):
    def ask(_, body):
        if "tools" in body:
            body["tools"] = json.loads(json.dumps(body["tools"], sort_keys=True))
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url:
        eq(lies(work, url, folder, "tools", ask=ask)["name"], "tool_keys")


def test_tools_ignored(work):
    def ask(_, body):
        body.pop("tools", None)
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url:
        eq(lies(work, url, folder, "tools", ask=ask)["name"], "tools_ignored")


def test_spacing_of_tojson(work):
    compact = model(work, "compact", TEMPLATE.replace("SPACING", "separators=(',', ':')"))
    folder = model(work)
    ours = ("--tokenizer", folder, "--template", folder, "--no-completions")
    with fleet(work, "--tokenizer", compact) as url:
        entry = parity(work, url, *ours, status=99)[0]
        eq(case(entry, "multi_turn")["verdict"], "equal")
        cause = first_cause(entry)
        # the renderer that the server has is found too, when it is named
        named = parity(work, url, *ours, "--renderer", compact, status=99)
    eq((cause["name"], cause["strength"]), ("tojson", "exact"))
    has(cause["test"], "no space behind , and :")
    eq([e["verdict"] for e in named], ["differs", "equal"])
    eq(first_cause(named[0])["name"], "renderer")


def test_two_lies_at_once(work):
    def ask(_, body):
        body.get("tools", []).reverse()
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url, Liar(url, ask, put_first) as liar:
        c = case(parity(work, liar, "--tokenizer", folder, "--no-completions", status=99)[0], "tools")
    eq([x["name"] for x in c["causes"]], ["double_bos", "tool_order"])


def test_harmony_against_the_template(work):
    ids = harmony(work)
    path = work.write("hf.jinja", "{%- for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>"
                      "{%- endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}")
    with fleet(work, "--tokenizer", ids) as url:
        entries = parity(work, url, "--tokenizer", ids, "--template", path, "--renderer", "harmony", "--no-completions",
                         status=99)
    eq([e["verdict"] for e in entries], ["differs", "equal"])
    cause = first_cause(entries[0], "user")
    eq(cause["name"], "renderer")
    has(cause["text"], "the server's is harmony")


# ---- other ways of asking ----

def test_render_answers_where_tokenize_is_not(work):
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url, Liar(url, status={"/tokenize": "404 Not Found"}) as liar:
        entry = parity(work, liar, "--tokenizer", folder)[0]
    eq(entry["verdict"], "equal")
    eq({c["evidence"] for c in entry["cases"]}, {"render", "inference"})


NO_IDS = {path: "404 Not Found" for path in ("/tokenize", "/v1/completions/render", "/v1/chat/completions/render")}


def test_a_completion_answers_where_neither_is(work):
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url, Liar(url, status=NO_IDS) as liar:
        entry = parity(work, liar, "--tokenizer", folder)[0]
        eq({c["evidence"] for c in entry["cases"]}, {"inference"})
        none = work.perigee("parity", liar, "--tokenizer", folder, "--no-completions")
    eq(none.status, 98)
    has(none.out, "Not proven")
    has(none.out, "status 404: not here")


def test_counts_where_no_ids_are_to_be_had(work):
    def ask(path, body):
        if path.startswith("/v1/"):
            body.pop("return_token_ids", None)
    def more(_, reply):
        if "usage" in reply:
            reply["usage"]["prompt_tokens"] += 1
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url:
        with Liar(url, ask, status=NO_IDS) as liar:
            entry = parity(work, liar, "--tokenizer", folder)[0]
            table = work.perigee("parity", liar, "--tokenizer", folder)
        with Liar(url, ask, more, NO_IDS) as liar:
            wrong = parity(work, liar, "--tokenizer", folder, status=99)[0]
    eq((entry["verdict"], entry["by_count"]), ("count", 15))
    has(table.out, "equal counts (no ids to be had)")
    has(table.out, "Equal counts: no server gave ids")
    c = case(wrong, "user")
    eq((c["evidence"], c["difference"]), ("usage", None))
    eq((c["causes"][0]["name"], c["causes"][0]["strength"]), ("double_bos", "count"))


def odd_server(tokenize, count=None):
    """Bytes as tokens; `tokenize(request, ids)` is what /tokenize answers, a value or a text as it stands."""
    def handle(request, connection):
        if request.path == "/v1/models":
            connection.reply({"data": [{"id": "m"}]})
            return
        prompt = (request.json.get("prompt") or request.json["content"]).encode()  # vLLM's form, llama.cpp's
        if request.path == "/tokenize":
            said = tokenize(request, list(prompt))
            connection.reply(*said) if isinstance(said, tuple) else connection.reply(said)
        elif request.path == "/v1/completions":
            connection.reply({"choices": [{"text": "x"}], "usage": {"prompt_tokens": len(prompt) + (count or 0)}})
        else:
            connection.reply({"detail": "Not Found"}, "404 Not Found")
    return Server(handle)


def test_odd_answers_are_told(work):
    """What is neither ids nor "no such way" is passed over for another way of asking, and said."""
    for tokenize, says in (
            (lambda _, ids: {"tokens": [str(i) for i in ids]}, "POST /tokenize: its tokens are no list of ids"),
            (lambda _, ids: {"tokens": [-1]}, "POST /tokenize: its tokens are no list of ids"),
            (lambda *_: ("{\"tokens\": [1,", "200 OK"), "POST /tokenize: the reply is no JSON"),
            (lambda *_: ({"error": {"message": "busy"}}, "500 Oh"), "POST /tokenize: status 500: busy"),
            (lambda *_: {"tokens": [1] * 1_000_000},
             "POST /tokenize: the reply is longer than 1 MiB, far more than the question")):
        with odd_server(tokenize) as server:
            entry = parity(work, server.url, "--tokenizer", "bytes")[0]
            table = work.perigee("parity", server.url, "--tokenizer", "bytes")
            eq(server.errors, [])
        eq((entry["verdict"], case(entry, "plain", "prompt")["odd"]), ("count", says))
        has(table.out, "Odd answers, passed over\n  r0, plain (prompt): " + says)
        has(table.out, "Equal counts: no server gave ids")
    with odd_server(lambda _, ids: {"tokens": ids, "count": len(ids) + 1}) as server:
        table = work.perigee("parity", server.url, "--tokenizer", "bytes")
    has(table.out, "count says 45, and it lists 44 ids")
    has(table.out, "Equal: the server makes the same token ids of everything that was compared.")
    eq(table.status, 0)


def test_some_ids_and_some_counts(work):
    """One question of two gets ids: the last line says what proves what."""
    asked = []
    def every_other(_, ids):
        asked.append(ids)
        return {"tokens": ids} if len(asked) % 2 else ({"error": "oh"}, "500 Oh")
    with odd_server(every_other) as server:
        table = work.perigee("parity", server.url, "--tokenizer", "bytes")
    eq(table.status, 0)
    has(table.out, "Equal: the same ids in 3 cases, and where servers gave none equal counts in 4 cases.")
    has(table.out, "equal count\n") # of the case whose ids are known


def test_a_server_that_dies_on_the_way(work):
    """What was compared is equal, and that is no proof: the rest never was."""
    asked = []
    def dies(_, ids):
        asked.append(ids)
        if len(asked) > 3:
            raise OSError
        return {"tokens": ids}
    with odd_server(dies) as server:
        done = work.perigee("parity", server.url, "--tokenizer", "bytes")
        server.errors.clear()
    eq(done.status, 98)
    has(done.out, "Not proven: 3 cases could be compared, and nothing differs in them.")


def test_a_strict_server(work):
    """One that refuses fields it does not know gets a plain request."""
    def handle(request, connection):
        body = request.json
        if request.path in NO_IDS:
            connection.reply({"detail": "Not Found"}, "404 Not Found")
        elif "return_token_ids" in body:
            connection.reply({"error": {"message": "unknown field return_token_ids"}}, "400 Bad Request")
        else:
            connection.reply({"choices": [{"text": "x"}], "usage": {"prompt_tokens": len(body["prompt"].encode())}})
    with Server(handle) as server:
        entry = parity(work, server.url, "--tokenizer", "bytes")[0]
        eq(server.errors, [])
    eq((entry["verdict"], entry["by_count"], entry["model"]), ("count", 6, "test-model"))


def test_llama_cpp_and_sglang(work):
    def llama(request, connection):
        text = request.json.get("content")
        connection.reply({"tokens": list(text.encode()) if text else []})
    def sglang(request, connection):
        if "prompt" not in request.json:
            connection.reply({"error": {"message": "prompt: field required"}}, "422 X")
            return
        ids = list(request.json["prompt"].encode())
        connection.reply({"tokens": ids, "count": len(ids), "max_model_len": 4096})
    path = work.write("own.jinja", BARE)
    for handler in (llama, sglang):
        with Server(handler) as server:
            entry = parity(work, server.url, "--tokenizer", "bytes", "--no-completions")[0]
            both = parity(work, server.url, "--tokenizer", "bytes", "--template", path, "--no-completions")[0]
            eq(server.errors, [])
        eq((entry["verdict"], entry["compared"]), ("equal", 6))
        # messages are not known to either: said, and no difference
        eq((both["verdict"], both["compared"]), ("equal", 6))
        has(both["reason"], "field required" if handler is sglang else "has no tokens")


def test_inference_may_differ_from_tokenize(work):
    def answer(path, reply):
        if path == "/v1/chat/completions":
            reply["prompt_token_ids"].insert(0, reply["prompt_token_ids"][0])
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url, Liar(url, answer=answer) as liar:
        entry = parity(work, liar, "--tokenizer", folder, status=99)[0]
    eq((entry["differ"], case(entry, "user", evidence="tokenize")["verdict"]), (1, "equal"))
    c = case(entry, "user", evidence="inference")
    eq((c["verdict"], c["causes"][0]["name"]), ("differs", "double_bos"))


def test_both_sides_refuse(work):
    folder = model(work, template="{{ raise_exception('no tools') if tools }}{% for m in messages %}<|im|>"
                   "{{ m.content }}{% endfor %}")
    with fleet(work, "--tokenizer", folder) as url:
        entry = parity(work, url, "--tokenizer", folder)[0]
    c = case(entry, "tools")
    eq((c["verdict"], c["local_tokens"], c["server_tokens"]), ("refused", None, None))
    has(c["reason"], "no tools")
    eq(entry["verdict"], "equal")


# ---- wrong usage and servers that are not there ----

def test_usage(work):
    for args, part in (((), "no server"), (("--sim", "1", "http://127.0.0.1:1"), "--sim is for the built-in fleet"),
                       (("--sim", "1", "--no-battery"), "--no-battery leaves nothing"),
                       (("--sim", "0"), "--sim"), (("nonsense",), "nonsense"),
                       (("--sim", "1", "--tokenizer", "nowhere"), "--tokenizer"),
                       (("--sim", "1", "--messages", "none.json"), "none.json")):
        done = work.perigee("parity", *args)
        eq(done.status in (1, 2) and done.out, "", f"{args}: {done.status} {done.out}")
        has(done.err, part)
    bad = work.write("bad.json", "[1,")
    eq(work.perigee("parity", "--sim", "1", "--messages", bad).status, 2)
    with Server(lambda _, connection: connection.reply({})) as server:
        done = work.perigee("parity", server.url)
    eq(done.status, 2)
    has(done.err, "--tokenizer is needed")
    done = work.perigee("parity", "http://127.0.0.1:1", "--tokenizer", "bytes")
    eq(done.status, 1)
    has(done.err, "127.0.0.1:1")


def test_keys_and_headers_go_along(work):
    def handle(request, connection):
        eq(request.headers["authorization"], "Bearer s3cret")
        eq(request.headers["content-type"], "application/json")
        connection.reply({"tokens": list(request.json["prompt"].encode())})
    with Server(handle) as server:
        done = work.perigee("parity", server.url, "--tokenizer", "bytes", "--api-key-env", "KEY", "--no-completions",
                            env={"KEY": "s3cret"})
        eq(server.errors, [])
    eq(done.status, 0, done.err)
    assert "s3cret" not in done.out + done.err


# ---- the check in every run ----

def check_of(run, name="token_parity"):
    return next(c for c in run.summary["checks"] if c["name"] == name)


def run(work, *args):
    script = work.write("s.lua", one_turn(2, 4))
    done = work.perigee("run", script, *RELAXED, "--quiet", *args)
    assert done.folder, done.err
    return done


def test_a_run_proves_parity(work):
    folder = model(work)
    done = run(work, "--tokenizer", folder, "--template", folder, "--verify", "--sim", "2")
    eq(done.status, 0, done.err + done.out)
    check = check_of(done)
    eq((check["figure"], check["ok"]), (0, True))
    has(check["note"], "ids of 8 requests (7 of them conversations) were equal on 2 servers before the load")
    p = done.summary["parity"]
    eq((p["proven"], p["missing"], len(p["comparisons"])), (True, None, 2))
    eq(p["counts"], [{"arm": None, "compared": 4, "differ": 0, "largest": 0, "first": None}])
    eq(done.run["parity"], p["comparisons"])
    eq(check_of(done, "usage_vs_local")["figure"], 0)


def test_a_run_on_bytes_compares_a_prompt(work):
    done = run(work)
    eq(done.status, 0, done.err)
    has(check_of(done)["note"], "ids of a prompt were equal on 3 servers")


def test_a_template_that_takes_no_system_message(work):
    folder = model(work, template="{{ raise_exception('no system') if messages[0].role == 'system' }}" + BARE)
    done = run(work, "--tokenizer", folder, "--template", folder, "--sim", "1")
    eq(done.status, 0, done.err)
    said = {c["case"]: c["verdict"] for c in done.summary["parity"]["comparisons"][0]["cases"]}
    eq((said["user"], said["thinking"], said["system"], said["tools"]), ("equal", "equal", "refused", "refused"))


def test_a_run_with_other_tokens_is_not_valid(work):
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url, Liar(url, answer=put_first) as liar:
        done = run(work, "--replica", f"a={liar}", "--tokenizer", folder, "--template", folder, "--verify")
        eq(len([r for r in done.rows if r["error"] is None]), 4)
        allowed = run(work, "--replica", f"a={liar}", "--tokenizer", folder, "--template", folder, "--limit",
                      "token_parity=1")
    eq(done.status, 98)
    has(done.err, "tokens differ from the server's")
    check = check_of(done)
    eq((check["figure"], check["ok"]), (1, False))
    has(check["note"], "differs from token 1: double_bos")
    eq(done.summary["parity"]["comparisons"][0]["cases"][0]["causes"][0]["name"], "double_bos")
    has(done.report(), "## Token parity")
    has(done.report(), "cause double_bos")
    has(done.out, "perigee parity")
    eq(allowed.status, 0, allowed.out)


def test_counts_of_the_whole_run(work):
    """No ids from the server: the counts of --verify are what there is."""
    def more(path, reply):
        if path == "/v1/chat/completions":
            reply["usage"]["prompt_tokens"] += 2
    def plain(path, body):
        for key in ("stream", "stream_options", "return_token_ids"):
            body.pop(key, None)
    script = one_turn(2, 4).replace("max_tokens = 16", "max_tokens = 16, stream = false")
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url:
        for answer, status in ((None, 0), (more, 98)):
            with Liar(url, plain, answer, NO_IDS) as liar:
                done = work.perigee("run", work.write("s.lua", script), *RELAXED, "--quiet", "--replica", f"a={liar}",
                                    "--tokenizer", folder, "--template", folder, "--verify")
            eq(done.status, status, done.err + done.out)
            check = check_of(done)
            if answer:
                eq((check["figure"], check["ok"]), (1, False))
                has(check["note"], "differs")
                eq(done.summary["parity"]["counts"][0]["first"]["turn"], 1)
                has(done.report(), "DIFFERS in 4 of 4 prompts")
            else:
                has(check["note"], "the counts of 4 prompts are equal")


def test_without_preflight_it_is_not_proven(work):
    with fleet(work) as url, Liar(url) as liar:
        done = run(work, "--replica", f"a={liar}", "--tokenizer", "bytes", "--no-preflight", "--model", "sim-model")
    eq(done.status, 0, done.err)
    eq(check_of(done)["figure"], None)
    has(check_of(done)["note"], "not proven (--no-preflight)")
    eq(done.run["parity"], None)


def test_what_is_not_proven_is_said_on_the_terminal(work):
    folder = model(work)
    ours = ("--tokenizer", folder, "--template", folder)
    def no_ids(path, body):
        body.pop("return_token_ids", None)
    with fleet(work, "--tokenizer", folder) as url:
        with Liar(url, answer=nameless, status=NO_IDS) as liar:
            one = run(work, "--replica", f"a={liar}", *ours)
        with Liar(url, no_ids, nameless, NO_IDS) as liar:
            none = run(work, "--replica", f"a={liar}", *ours)
    # one completion gave ids: what was seen is claimed, and what was not is said
    has(check_of(one)["note"], "ids of 1 request (1 of them conversations) were equal on 1 server")
    for done in (one, none):
        eq(done.status, 0, done.err + done.out)
        has(" ".join(done.out.split()), "! token parity is not proven for everything: ")
        has(" ".join(done.out.split()), "/tokenize")


def test_what_a_run_asks_each_server(work):
    """The quick battery, and one completion of a token for the count."""
    folder = model(work)
    for tokenizer, n, path in (("bytes", 1, "/v1/completions"), (folder, 8, "/v1/chat/completions")):
        asked = []
        with fleet(work, "--tokenizer", tokenizer) as url, Liar(url, lambda p, b: asked.append((p, b.get("max_tokens")))) as liar:
            run(work, "--replica", f"a={liar}", "--tokenizer", tokenizer)
        eq([p for p, _ in asked[:n]], ["/tokenize"] * n)
        eq(asked[n], (path, 1))
        eq({p for p, _ in asked[n + 1:]}, {"/v1/chat/completions"})


def test_a_default_system_prompt_is_seen_by_a_run_and_the_doctor(work):
    """The commonest difference of templates shows only where no system message is sent."""
    own = "{% if messages[0].role != 'system' %}<|im|>system\nYou are helpful.<|end|>\n{% endif %}"
    other = model(work, "other", "{{ bos_token }}" + own + TEMPLATE.replace("SPACING", "")[len("{{ bos_token }}"):])
    folder = model(work)
    with fleet(work, "--tokenizer", other) as url, Liar(url, answer=nameless) as liar:
        done = run(work, "--replica", f"a={liar}", "--tokenizer", folder, "--template", folder)
        doctor = work.perigee("doctor", liar, "--tokenizer", folder, "--template", folder)
    eq(done.status, 98)
    eq(check_of(done)["ok"], False)
    eq(doctor.status, 1)
    has(doctor.out, "FAIL parity")


def nameless(path, reply):
    """As a real server: it does not say what it is simulated with."""
    if path == "/v1/models":
        for entry in reply["data"]:
            for key in [k for k in entry if k not in ("id", "object", "created", "owned_by", "max_model_len")]:
                del entry[key]


def counts_more(by):
    def answer(path, reply):
        nameless(path, reply)
        if "usage" in reply:
            reply["usage"]["prompt_tokens"] += by
    return answer


def test_a_server_that_counts_otherwise_is_named(work):
    """The ids are proven equal, usage.prompt_tokens is not their number."""
    folder = model(work)
    ours = ("--tokenizer", folder, "--template", folder)
    with fleet(work, "--tokenizer", folder) as url, Liar(url, answer=counts_more(1)) as liar:
        entry = parity(work, liar, *ours, status=99)[0]
        table = work.perigee("parity", liar, *ours)
        doctor = work.perigee("doctor", liar, *ours)
        done = run(work, "--replica", f"a={liar}", *ours)
    differ = [c for c in entry["cases"] if c["verdict"] == "differs"]
    eq([(c["case"], c["form"], c["evidence"]) for c in differ],
       [("plain", "prompt", "inference"), ("user", "messages", "inference")])
    for c in differ:
        eq([(x["name"], x["strength"]) for x in c["causes"]], [("usage", "exact")])
        eq((c["usage_tokens"], c["server_tokens"], c["difference"]),
           (c["local_tokens"] + 1, c["local_tokens"], None))
    has(table.out, "cause usage: usage.prompt_tokens counts 1 more than the ids")
    eq(doctor.status, 1)
    has(doctor.out, "usage.prompt_tokens counts 1 more")
    eq(done.status, 98)
    has(check_of(done)["note"], "usage")


def test_a_count_without_its_ids_is_held_against_those_of_tokenize(work):
    def ask(path, body):
        if path.startswith("/v1/"):
            body.pop("return_token_ids", None)
    folder = model(work)
    with fleet(work, "--tokenizer", folder) as url:
        with Liar(url, ask, counts_more(-2)) as liar:
            c = case(parity(work, liar, "--tokenizer", folder, status=99)[0], "user", evidence="usage")
        with Liar(url, ask, counts_more(0)) as liar:
            eq(parity(work, liar, "--tokenizer", folder)[0]["verdict"], "equal")
    eq((c["causes"][0]["name"], c["causes"][0]["strength"]), ("usage", "count"))
    has(c["causes"][0]["text"], "counts 2 fewer than the ids that the server gives of the same request")


def test_an_empty_prompt_proves_nothing(work):
    done = work.perigee("parity", "--sim", "1", "--prompt", work.write("none", ""), "--no-battery")
    eq((done.status, done.out), (2, ""))
    has(done.err, "--prompt: ", "none is empty, which proves nothing")


def test_its_timeout_holds_for_every_question(work):
    with Server(lambda request, c: time.sleep(60), raw=True) as server:
        begun = time.monotonic()
        done = work.perigee("parity", server.url, "--tokenizer", "bytes", "--timeout", "400ms")
        soon(begun, 4, done.err)
        eq(done.status, 1)
        has(done.err, "not done within 400 ms")


main(globals())
