"""perigee doctor: what it finds on the built-in fleet, and on scripted servers that fail in each way there is."""
import json
import os
import socket
import ssl
import subprocess
import threading
import time

from harness import Server, Skip, chat_chunk, eq, has, main, matches, soon, usage


METRICS = """# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="%d",num_gpu_blocks="500",enable_prefix_caching="%s",engine="0"} 1.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 0.0
"""


class Fake:
    """A vLLM in a few lines. `say` replaces what an endpoint answers: name -> function(request, connection)."""

    def __init__(self, model="test-model", version="0.20.1", block=16, caching="True", details=True, say=None):
        self.model, self.version, self.block, self.caching = model, version, block, caching
        self.details, self.say, self.seen = details, say or {}, set()

    def __call__(self, r, c):
        name = {"/v1/chat/completions": "chat", "/v1/completions": "completions"}.get(r.path, r.path.split("/")[-1])
        getattr(self, "do_" + name, self.missing)(r, c) if name not in self.say else self.say[name](r, c)

    def missing(self, _r, c):
        c.reply({"error": {"message": "Not Found", "code": 404}}, status="404 Not Found")

    def do_health(self, _r, c):
        c.reply("", content_type="text/plain")

    def do_models(self, _r, c):
        c.reply({"object": "list", "data": [{"id": self.model, "owned_by": "vllm", "max_model_len": 8192}]})

    def do_version(self, _r, c):
        c.reply({"version": self.version})

    def do_metrics(self, _r, c):
        c.reply(METRICS % (self.block, self.caching), content_type="text/plain; version=0.0.4")

    def do_tokenize(self, r, c):
        text = r.json.get("prompt") or r.json["messages"][0]["content"]
        c.reply({"count": len(text.encode()), "tokens": list(text.encode())})

    def do_detokenize(self, r, c):
        c.reply({"prompt": bytes(r.json["tokens"]).decode()})

    def cached(self, text, n):
        known = text in self.seen
        self.seen.add(text)
        return (n - 1) // self.block * self.block if known and self.details and self.caching == "True" else None

    def do_chat(self, r, c):
        text = r.json["messages"][0]["content"]
        n = len(text.split()) + 5
        use = usage(n, 8, self.cached(text, n))
        if not r.json.get("stream"):
            c.reply({"choices": [{"index": 0, "message": {"role": "assistant", "content": "a"},
                                  "finish_reason": "length"}], "usage": use})
            return
        c.headers()
        c.event(chat_chunk({"role": "assistant", "content": ""}))
        for _ in range(8):
            c.event(chat_chunk({"content": "a "}))
        c.event(chat_chunk({}, "length"))
        if (r.json.get("stream_options") or {}).get("include_usage"):
            c.event(chat_chunk(usage=use))
        c.event("[DONE]")
        c.end()

    def do_completions(self, r, c):
        prompt = r.json["prompt"]
        prompt = list(prompt.encode()) if isinstance(prompt, str) else prompt
        c.reply({"choices": [{"index": 0, "text": "a", "finish_reason": "length", "prompt_token_ids": prompt}],
                 "usage": usage(len(prompt), 1)})


def serve(handler=None, **kw):
    return Server(handler or Fake(), raw=True, **kw)


def doctor(work, *args, status=None, timeout=60):
    result = work.perigee("doctor", *args, timeout=timeout)
    if status is not None:
        eq(result.status, status, f"status\n{result.out}\n{result.err}")
    return result


def examined(work, *args, status=0, timeout=60):
    result = doctor(work, *args, "--json", status=status, timeout=timeout)
    return json.loads(result.out)


def said(checks, name):
    """The checks of that name as "level: text -> fix" lines."""
    return "\n".join(f"{c['level']}: {c['text']}" + (f" -> {c['fix']}" if c["fix"] else "")
                     for c in checks if c["name"] == name)


def of(value, name, i=0):
    return said(value["endpoints"][i]["checks"], name)


def openssl(work, name, subject, alt):
    if subprocess.run(["openssl", "version"], capture_output=True, check=False).returncode:
        raise Skip("no openssl command")
    paths = [os.path.join(work.path, f"{name}.{end}") for end in ("pem", "key")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "5", "-subj", f"/CN={subject}",
                    "-addext", f"subjectAltName={alt}", "-keyout", paths[1], "-out", paths[0]], check=True,
                   capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*paths)
    return context, paths[0]


# ---- the built-in fleet ----

def test_the_built_in_fleet_is_healthy(work):
    result = doctor(work, status=0)
    matches(result.out, r"^The built-in simulated fleet")
    matches(result.out, r"healthy: \d+ ok, 0 warnings, 0 failures; 30 requests to 2 servers in")
    value = examined(work, "--sim", "3")
    eq([e["id"] for e in value["endpoints"]], ["r0", "r1", "r2"])
    eq((value["healthy"], value["status"], value["simulated"], value["requests"]), (True, 0, True, 45))
    e = value["endpoints"][0]
    eq((e["kind"], e["block_size"], e["prefix_caching"], e["cached"]), ("sim", 16, True, "value"))
    eq(e["cached_tokens"] % 16, 0)
    matches(of(value, "parity"), r"^ok: bytes: the same ids in \d+ cases$")
    matches(said(value["comparison"], "alike"), r"^ok: the same on 3 replicas: models, max_model_len")
    assert {c["name"] for c in value["client"]} >= {"descriptors", "timestamps", "processors", "versions", "tokenizers"}
    has(said(value["client"], "versions"), "libcurl")


def test_a_fleet_that_does_not_cache(work):
    value = examined(work, "--sim", "1", "--sim-set", "prefix_caching=false")
    matches(of(value, "cache"), r"warn: prefix caching is off.* -> perigee sim --set prefix_caching=true")
    matches(of(value, "cached"), r"^warn: .*may just be omitted")
    doctor(work, "--sim", "1", "--sim-set", "prefix_caching=false", "--strict", status=98)
    doctor(work, "--sim", "1", "--strict", status=0)


def test_a_larger_block_than_the_usual_prompt(work):
    value = examined(work, "--sim", "1", "--sim-set", "block_size=1024", "--sim-set", "kv_blocks=64")
    eq(value["endpoints"][0]["block_size"], 1024)
    matches(of(value, "cached"), r"^ok: \d,?\d* of")


def test_faults_of_the_fleet_are_found(work):
    value = examined(work, "--sim", "1", "--fault", "500", status=1)
    has(json.dumps(value["endpoints"][0]["checks"]), "HTTP 500")


# ---- a server that is whole ----

def test_a_whole_server_and_what_it_cost(work):
    with serve() as s:
        value = examined(work, s.url)
        e = value["endpoints"][0]
        levels = {c["name"]: c["level"] for c in e["checks"] if c["level"] != "ok"}
        eq(levels, {"parity": "warn"}, json.dumps(e["checks"], indent=1))
        eq((e["kind"], e["version"], e["models"], e["block_size"], e["blocks"]),
           ("vllm", "0.20.1", ["test-model"], 16, 500))
        eq(e["cached"], "value")
        eq(value["requests"], len(s.requests) + 1, "the requests, and the connection before them")
        has(of(value, "cached"), "absent on a miss")
        has(of(value, "ids"), "runs exactly the ids")
        for r in s.requests:
            assert r.headers.get("content-type") == ("application/json" if r.method == "POST" else None), r.path


def test_parity_of_tokenizers(work):
    with serve() as s:
        value = examined(work, s.url, "--tokenizer", "bytes")
        matches(of(value, "parity"), r"^ok: bytes")
    other = Fake(say={"tokenize": lambda r, c: c.reply({"count": 2, "tokens": [7, 8]})})
    with serve(other) as s:
        value = examined(work, s.url, "--tokenizer", "bytes", status=1)
        matches(of(value, "parity"), r"^FAIL: bytes.* differ; .* -> ")
        assert value["parity"][0]["verdict"] == "differs"


def test_headers_and_key_are_sent_and_never_shown(work):
    work.write("key", "s3cret-key\n")
    with serve() as s:
        result = doctor(work, "--url", s.url, "--api-key-file", "key", "--header", "X-Test: hush-hush", status=0)
        assert s.requests and all(r.headers["authorization"] == "Bearer s3cret-key" and
                                  r.headers["x-test"] == "hush-hush" for r in s.requests)
        assert "s3cret" not in result.out + result.err and "hush" not in result.out + result.err


# ---- what a server may lack ----

def test_a_server_that_only_chats(work):
    class Bare(Fake):
        do_health = do_version = do_metrics = do_tokenize = do_detokenize = do_completions = Fake.missing

        def do_chat(self, r, c):
            if r.json.get("stream"):
                c.headers()
                c.event(chat_chunk({"content": "a"}))
                c.event(chat_chunk({}, "stop"))
                c.event("[DONE]")
                c.end()
            else:
                c.reply({"choices": [{"index": 0, "message": {"content": "a"}}], "usage": usage(10, 1)})

    with serve(Bare()) as s:
        value = examined(work, s.url)
        matches(of(value, "health"), r"^ok: not there")
        matches(of(value, "tokenize"), r"^warn: /tokenize: not there")
        matches(of(value, "metrics"), r"^warn: HTTP 404.* -> .*--metrics ID=URL")
        matches(of(value, "usage"), r"^warn: stream_options.include_usage is not honoured")
        matches(of(value, "cached"), r"^warn: .* -> start vLLM with --enable-prompt-tokens-details$")
        eq(value["endpoints"][0]["cached"], "absent")
        eq(value["endpoints"][0]["block_size"], None)


def test_details_that_are_null(work):
    class Null(Fake):
        def do_chat(self, r, c):
            if r.json.get("stream"):
                Fake.do_chat(self, r, c)
            else:
                c.reply({"choices": [], "usage": dict(usage(400, 1), prompt_tokens_details=None)})

    with serve(Null(details=False)) as s:
        value = examined(work, s.url)
        eq(value["endpoints"][0]["cached"], "null")
        has(of(value, "cached"), "prompt_tokens_details is null")


def test_a_model_without_a_chat_template(work):
    class Base(Fake):
        def do_chat(self, _r, c):
            c.reply({"error": {"message": "no chat template is defined", "code": 400}}, status="400 Bad Request")

        def do_completions(self, r, c):
            if not r.json.get("stream"):
                Fake.do_completions(self, r, c)
                return
            c.headers()
            for text in ("a", "b"):
                c.event({"choices": [{"index": 0, "text": text, "finish_reason": None}]})
            c.event({"choices": [], "usage": usage(10, 2)})
            c.event("[DONE]")
            c.end()

    with serve(Base()) as s:
        value = examined(work, s.url)
        matches(of(value, "stream"), r"warn: chat completions: .*no chat template.* -> .*--chat-template FILE")
        has(of(value, "stream"), "ok: 2 output events")


def test_another_model_than_the_one_that_is_named(work):
    with serve() as s:
        value = examined(work, s.url, "--model", "llama", status=1)
        eq(of(value, "models"), "FAIL: it serves test-model, not llama -> name one that it serves: --model test-model")


def test_a_key_is_wanted(work):
    def no(_r, c):
        c.reply({"error": "Unauthorized"}, status="401 Unauthorized")
    with serve(no) as s:
        matches(of(examined(work, s.url, status=1), "models"), r"^FAIL: HTTP 401 -> it wants a key: --api-key-env")
        value = examined(work, s.url, "--header", "Authorization: Bearer x", status=1)
        has(of(value, "models"), "the key that was sent is not the one")


def test_not_ready_and_redirected(work):
    with serve(Fake(say={"health": lambda r, c: c.reply("", status="503 Service Unavailable")})) as s:
        matches(of(examined(work, s.url, status=1), "health"), r"^FAIL: HTTP 503: it is not ready -> wait")

    def away(_r, c):
        c.reply("", status="301 Moved Permanently", extra="Location: https://else.example/v1\r\n")
    with serve(away) as s:
        matches(of(examined(work, s.url, status=1), "models"),
                r"^FAIL: HTTP 301, a redirect to https://else.example/v1 -> give the final address")


def test_the_whole_stream_in_one_event(work):
    class Gathered(Fake):
        def do_chat(self, r, c):
            if r.json.get("stream"):
                c.headers()
                c.event(chat_chunk({"content": "a b c d e f g h"}, "length", usage=usage(10, 8)))
                c.event("[DONE]")
                c.end()
            else:
                Fake.do_chat(self, r, c)
    with serve(Gathered()) as s:
        matches(of(examined(work, s.url), "stream"), r"^warn: all 8 tokens came in one event.* -> .*--stream-interval")


def test_a_stream_that_is_held_back(work):
    class Buffered(Fake):
        def do_chat(self, r, c):
            if not r.json.get("stream"):
                Fake.do_chat(self, r, c)
                return
            time.sleep(0.1)
            events = [chat_chunk({"content": "a "}) for _ in range(8)] + [chat_chunk(usage=usage(10, 8))]
            c.reply("".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n",
                    content_type="text/event-stream")
    with serve(Buffered()) as s:
        matches(of(examined(work, s.url), "stream"), r"^warn: .*they were held back -> does a proxy buffer")


# ---- reaching it ----

def test_nothing_listens(work):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
        result = doctor(work, f"http://127.0.0.1:{port}", status=1)
        matches(result.out, r"FAIL connect     Connection refused after .*\n +-> nothing listens there")
        has(result.out, "1 request to 1 server")


def test_a_name_that_there_is_not(work):
    value = examined(work, "http://no-such-host.invalid:8000", status=1)
    matches(of(value, "name"), r"^FAIL: no-such-host.invalid: .* -> ")


def test_certificates(work):
    context, cert = openssl(work, "local", "localhost", "DNS:localhost,IP:127.0.0.1")
    with serve(tls=context) as s:
        value = examined(work, s.url, status=1)
        matches(of(value, "tls"), r"^FAIL: self.signed certificate .*-> name the authority .*--ca-file")
        eq(len(s.requests), 0, "nothing is asked of a server that is not trusted")
        value = examined(work, s.url, "--ca-file", cert)
        matches(of(value, "tls"), r"^ok: TLSv1.3 in .*, certificate of localhost, [45] days left")
        has(of(value, "tls"), "warn: the certificate ends in")
        value = examined(work, s.url, "--insecure")
        has(of(value, "tls"), "warn: not verified (--insecure): self-signed certificate")
        has(said(value["client"], "tls"), "--ca-file")
    context, cert = openssl(work, "other", "other.example", "DNS:other.example")
    with serve(tls=context) as s:
        value = examined(work, s.url, "--ca-file", cert, status=1)
        matches(of(value, "tls"), r"^FAIL: .*mismatch.* -> use a name that is in the certificate: other.example")


def test_http_and_https_mixed_up(work):
    context, _ = openssl(work, "local", "localhost", "IP:127.0.0.1")
    with serve(tls=context) as s:
        value = examined(work, s.url.replace("https", "http"), status=1)
        has(of(value, "models"), "it speaks TLS on that port -> write https://")
    with serve() as s:
        value = examined(work, s.url.replace("http", "https"), status=1)
        matches(of(value, "tls"), r"^FAIL: .* -> it speaks no TLS there: write http://")


def test_a_proxy_is_asked_instead(work):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        value = examined(work, "http://far.invalid", "--proxy", f"http://me:hidden@127.0.0.1:{s.getsockname()[1]}",
                         status=1)
        matches(of(value, "proxy"), r"^ok: asked through 127.0.0.1:\d+$")
        assert "hidden" not in json.dumps(value)


# ---- hostile servers: bounded, never a crash ----

def endless(piece, head=b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", delay=0.0):
    def go(_r, c):
        c.keep = False
        c.sock.sendall(head)
        while True:
            c.sock.sendall(piece)
            time.sleep(delay)
    return go


HOSTILE = {
    "garbage": lambda r, c: (c.send(b"\x00\xff\x1b[2J" * 100), c.close()),
    "closes": lambda r, c: c.close(),
    "resets": lambda r, c: c.reset(),
    "cut": lambda r, c: (c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"data\":["), c.close()),
    "binary": lambda r, c: c.reply(bytes(range(256)) * 50, content_type="application/octet-stream"),
    "deep": lambda r, c: c.reply("[" * 200000),
    "html": lambda r, c: c.reply("<html><title>\x1b]0;x\x07Sign in</title></html>", content_type="text/html"),
    "numbers": lambda r, c: c.reply({"data": 3, "tokens": {"a": 1}, "choices": 7, "usage": "x", "version": []}),
    "empty": lambda r, c: c.reply(""),
    "huge": endless(b"x" * 65536),
    "huge head": endless(b"X-A: " + b"y" * 1000 + b"\r\n", head=b"HTTP/1.1 200 OK\r\n"),
    "informs": endless(b"HTTP/1.1 103 Early Hints\r\n\r\n", head=b""),
}


def test_hostile_answers_everywhere(work):
    for name, handler in HOSTILE.items():
        with serve(handler) as s:
            began = time.monotonic()
            result = doctor(work, s.url, "--timeout", "3", status=1, timeout=90)
            soon(began, 15, name)
            matches(result.out, r"\nnot healthy: ")
            assert not any(ord(ch) < 32 and ch != "\n" or ch == "\x7f" for ch in result.out), f"{name}: {result.out!r}"
            eq(result.err, "", name)
            json.loads(doctor(work, s.url, "--timeout", "1", "--json", status=1, timeout=90).out)


def test_hostile_answers_to_one_question(work):
    """Each endpoint in turn answers nonsense; the others are whole."""
    for path in ("models", "version", "metrics", "tokenize", "detokenize", "render", "chat", "completions", "health"):
        for name in ("binary", "deep", "numbers", "cut", "resets"):
            with serve(Fake(say={path: HOSTILE[name]})) as s:
                result = doctor(work, s.url, "--tokenizer", "bytes", "--timeout", "30", timeout=60)
                assert result.status in (0, 1), f"{path} {name}: {result.status} {result.err}"
                eq(result.err, "", f"{path} {name}")
                has(result.out, "this machine")
                eq(s.errors, [], f"{path} {name}")


def test_a_server_that_never_answers_is_not_waited_for(work):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(64)
        began = time.monotonic()
        result = doctor(work, f"http://127.0.0.1:{s.getsockname()[1]}", "--timeout", "2", status=1)
        soon(began, 8)
        matches(result.out, r"FAIL models")


def test_a_server_that_drips(work):
    drip = endless(b" ", delay=0.2)
    with serve(Fake(say={"models": drip, "chat": drip, "metrics": drip})) as s:
        began = time.monotonic()
        doctor(work, s.url, "--timeout", "4", "--model", "m", status=1)
        soon(began, 12)


def test_a_stream_without_an_end(work):
    def stream(_r, c):
        c.headers()
        while True:
            c.event(chat_chunk({"content": "again "}))
            time.sleep(0.05)
    with serve(Fake(say={"chat": stream})) as s:
        began = time.monotonic()
        result = doctor(work, s.url, "--timeout", "4", status=1)
        soon(began, 12)
        matches(result.out, r"FAIL stream")
        has(result.out, "--timeout")


def test_a_server_that_falls_silent_during_parity(work):
    class Tires(Fake):
        asked = 0

        def do_tokenize(self, r, c):
            self.asked += 1
            if self.asked <= 2:
                Fake.do_tokenize(self, r, c)
            else:
                time.sleep(30)

        def do_completions(self, r, c):
            if self.asked > 2:
                time.sleep(30)
            Fake.do_completions(self, r, c)

    with serve(Tires()) as s:
        began = time.monotonic()
        value = examined(work, s.url, "--tokenizer", "bytes", "--timeout", "5")
        soon(began, 12)
        matches(of(value, "parity"), r"^warn: .*not compared")


def test_an_interrupt_ends_it(work):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(64)
        process = work.start("doctor", f"http://127.0.0.1:{s.getsockname()[1]}")
        timer = threading.Timer(0.7, lambda: process.send_signal(2))
        timer.start()
        began = time.monotonic()
        result = work.finish(process, timeout=20)
        timer.join()
        soon(began, 8)
        eq(result.status, 130, result.err)


# ---- several ----

def test_replicas_that_are_not_alike(work):
    with serve(Fake()) as a, serve(Fake(block=32, version="0.9", model="other", details=False)) as b:
        value = examined(work, "--replica", f"a={a.url}", "--replica", f"b={b.url}")
        text = json.dumps(value["comparison"])
        for part in ("block_size not the same: a: 16; b: 32", "version not the same: a: 0.20.1; b: 0.9",
                     "models not the same: a: test-model; b: other",
                     "reporting of cached_tokens not the same: a: reported; b: absent"):
            has(text, part)


def test_one_server_under_two_names(work):
    """Its cache is warm for the second: its figures per replica mean nothing."""
    fake = Fake()
    with serve(fake) as s:
        value = examined(work, f"a={s.url}", f"b={s.url}")
        has(of(value, "cached", 0) + of(value, "cached", 1), "do two names lead to one server?")


def test_a_gateway_and_the_replicas_behind_it(work):
    class Gateway(Fake):
        do_health = do_version = do_metrics = do_tokenize = do_detokenize = Fake.missing
    with serve(Gateway()) as g, serve() as r:
        value = examined(work, "--gateway", g.url, "--replica", f"a={r.url}", "--metrics", f"a={r.url}/metrics")
        eq([(e["id"], e["role"]) for e in value["endpoints"]], [("gateway", "gateway"), ("a", "replica")])
        matches(of(value, "metrics", 0), r"^ok: none here")
        matches(of(value, "tokenize", 0), r"^ok")
        eq(value["comparison"], [])
        prompts = [{q.json["messages"][0]["content"] for q in s.requests if q.path.endswith("chat/completions")}
                   for s in (g, r)]
        eq((len(prompts[0]), len(prompts[1]), prompts[0] & prompts[1]), (1, 1, set()))


def test_a_fleet_file(work):
    with serve() as s:
        work.write("fleet.lua", f'return {{ replicas = {{ {{ id = "x", url = "{s.url}" }} }}, tokenizer = "bytes" }}')
        value = examined(work, "--fleet", "fleet.lua")
        eq(value["endpoints"][0]["id"], "x")
        matches(of(value, "parity"), r"^ok: bytes")
        work.write("wrong.lua", f'return {{ replicas = {{ {{ url = "{s.url}" }} }}, block_size = 64 }}')
        value = examined(work, "--fleet", "wrong.lua", status=1)
        has(of(value, "cache"), "FAIL: the fleet file says block_size 64")


def test_many_servers_of_which_some_are_gone(work):
    with serve() as s, socket.socket() as gone:
        gone.bind(("127.0.0.1", 0))
        urls = [f"r{i}={s.url}/p{i}" if i % 2 else f"r{i}=http://127.0.0.1:{gone.getsockname()[1]}/p{i}" for i in range(40)]
        value = examined(work, *urls, status=1)
        eq(sum("refused" in of(value, "connect", i) for i in range(40)), 20)


# ---- use ----

def test_wrong_usage(work):
    for args, part in ((("--nonsense",), "--nonsense"), (("ftp://x",), "ftp"), (("--sim", "0"), "--sim"),
                       (("--timeout", "0"), "--timeout"), (("http://a", "--sim", "2"), "built-in fleet"),
                       (("--tokenizer", "no-such"), "--tokenizer"), (("--url", ""), "--url"),
                       (("--sim-set", "x=1"), "x"), (("a=http://h", "a=http://i"), "a")):
        result = doctor(work, *args, status=2, timeout=30)
        has(result.err, part)
        eq(result.out, "")


def test_help(work):
    result = doctor(work, "--help", status=0)
    for word in ("--url", "--replica", "--timeout", "--strict", "--json", "Exit status"):
        has(result.out, word)


main(globals())
