"""Bad input: one clear message with the file and line or the option, a hint, the right exit status; nothing hangs."""
import os
import re
import resource
import socket
import subprocess
import time

from harness import PERIGEE, RELAXED, Server, Skip, eq, has, main, matches, one_turn, simple_chat

THREADS = ["test_a_loop_that_never_waits", "test_api_key_files", "test_certificate_that_does_not_verify",
           "test_children_without_end", "test_full_disk", "test_too_few_descriptors", "test_unresolvable_name",
           "test_waiting_in_an_own_coroutine"]

PLAN = """local perigee = require "perigee"
return perigee.plan {
  load = perigee.closed { users = 1, sessions = 1 },
  session = function(vu) end,
%s}
"""


def refused(work, text, *parts, status=2, args=()):
    """The script is refused before anything starts; stderr has every part."""
    work.write("s.lua", text)
    result = work.perigee("run", "s.lua", *RELAXED, *args, timeout=30)
    eq(result.status, status, f"status ({result.err})")
    for part in parts:
        has(result.err, part)
    assert result.folder is None, "a refused run leaves no results folder"
    assert len(result.err.strip().splitlines()) <= 12, f"one clear message, not a flood:\n{result.err}"
    return result


def test_syntax_error(work):
    refused(work, "local x = = 3\n", "s.lua:1:", "unexpected symbol")


def test_error_while_loading(work):
    refused(work, "\n\nerror('no data file')\n", "s.lua:3:", "no data file")


def test_missing_file(work):
    result = work.perigee("run", "nothing.lua")
    eq(result.status, 2)
    has(result.err, "nothing.lua")


def test_missing_module(work):
    result = refused(work, "require 'my_toolz'\n", "my_toolz", "s.lua:1:")
    assert "package.preload" not in result.err, result.err
    work.write("lib/my_tools.lua", "return {}\n")
    refused(work, "require 'my_toolz'\n", "did you mean 'my_tools'?")
    refused(work, "require 'perigee.chatt'\n", "did you mean 'perigee.chat'?")


def test_no_plan(work):
    refused(work, "return 42\n", "s.lua", "perigee.plan")


def test_plan_without_session(work):
    refused(work, 'local p = require "perigee"\nreturn p.plan { load = p.closed { users = 1, sessions = 1 } }\n',
            "s.lua:2:", "session")


def test_plan_without_load(work):
    refused(work, 'local p = require "perigee"\nreturn p.plan { session = function() end }\n', "s.lua:2:", "load")


def test_unknown_plan_field(work):
    refused(work, PLAN % "  sesion = 1,\n", "sesion", "session", "s.lua:2:")


def test_unknown_load_option(work):
    refused(work, (PLAN % "").replace("users = 1,", "user = 1,"), "user", "users", "s.lua:3:")


def test_bad_quantity(work):
    refused(work, (PLAN % "").replace("sessions = 1", 'duration = "10 parsecs"'), "10 parsecs", "s.lua:3:")


def test_unknown_metric(work):
    for word in ("tttf", "TTFT"):
        refused(work, PLAN % f'  expect = {{ "{word} p95 < 400ms" }},\n', word, '(did you mean "ttft"?)')


def test_bad_expectation(work):
    refused(work, PLAN % '  expect = { "ttft p95 << 400ms" },\n', "ttft p95 <<")


def test_wrong_unit_in_an_expectation(work):
    refused(work, PLAN % '  expect = { "ttft p95 < 5%" },\n', "5%")


def test_unknown_option(work):
    work.write("s.lua", one_turn())
    result = work.perigee("run", "s.lua", *RELAXED, "--replicas", "http://127.0.0.1:1")
    eq(result.status, 2)
    has(result.err, "--replica")


def test_unknown_options_are_told_in_one_style(work):
    for command in re.findall(r"(?m)^  ([a-z]+)  ", work.perigee("--help").out):
        if command == "help":
            continue
        for word, near in (("--hepl", " (did you mean --help?)"), ("--zzzzzzzzzz", "")):
            result = work.perigee(command, word)
            eq((result.status, result.out), (2, ""), f"{command} {word}")
            eq(result.err, f"perigee {command}: unknown option {word}{near}; see `perigee {command} --help`\n")
    for args in (("version", "foo"), ("--version", "foo"), ("help", "run", "sim")):
        eq(work.perigee(*args).status, 2, str(args))


def test_unknown_parameter(work):
    refused(work, PLAN % "", "colour", args=("--set", "colour=red"))


def test_unknown_command(work):
    result = work.perigee("rum", "x.lua")
    eq(result.status, 2)
    has(result.err, 'did you mean "run"?')


def closed_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_refused_connection(work):
    work.write("s.lua", one_turn())
    port = closed_port()
    result = work.perigee("run", "s.lua", *RELAXED, "--replica", f"http://127.0.0.1:{port}", timeout=30)
    eq(result.status, 1, result.err)
    has(result.err, f"127.0.0.1:{port}")
    has(result.err, "refused")


def test_unresolvable_name(work):
    work.write("s.lua", one_turn())
    result = work.perigee("run", "s.lua", *RELAXED, "--replica", "http://no-such-host.invalid:8000", timeout=60)
    eq(result.status, 1, result.err)
    has(result.err, "no-such-host.invalid")


def test_bad_url(work):
    work.write("s.lua", one_turn())
    for url, part in (("ftp://x", "ftp"), ("http://", "host"), ("http://x:99999", "99999")):
        result = work.perigee("run", "s.lua", *RELAXED, "--replica", url)
        eq(result.status, 2, result.err)
        has(result.err, part)
        has(result.err, "--replica")


def test_full_disk(work):
    """Writes beyond a limit fail: the run says so, ends with 1, and what was taken is in the report on the terminal."""
    work.write("s.lua", one_turn(4, 400))

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    process = work.start("run", "s.lua", *RELAXED, preexec_fn=limit)
    result = work.finish(process)
    eq(result.status, 1, result.err[-500:])
    has(result.err, "samples.jsonl")
    has(result.err, "rows are missing from the file, the figures are made from all of them")
    has(result.out, "ttft")
    matches(result.out, r"\b400 ok")


def on_small_disk(work, kbytes, command):
    """The shell command in a folder on a file system of its own that has so much room; what it leaves is listed and
    printed, for it is gone with the command."""
    mount = f"mount -t tmpfs -o size={kbytes}k none {work.path} && cd {work.path}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        raise Skip("no file system of its own may be mounted here (unshare -m, mount)")
    return subprocess.run(["unshare", "-m", "bash", "-c", f"{mount} && {command}"], capture_output=True, text=True,
                          timeout=120)


def test_full_disk_leaves_the_report(work):
    """Rows fill a disk to the last block: summary, report and scripts are there all the same."""
    run = f"""cat >s.lua <<'end'
{one_turn(8, 3000)}
end
{PERIGEE} run s.lua {' '.join(RELAXED)} --profile instant | grep -a " ok"; echo "status ${{PIPESTATUS[0]}}"
cd results/* && tail -c 20 samples.jsonl && wc -l samples.jsonl && ls -A . scripts && cat report.md
python3 -c 'import json; s = json.load(open("summary.json")); print("whole", s["requests"]["ok"], s["outcome"])'"""
    result = on_small_disk(work, 2200, run)
    has(result.stdout, "status 1\n", result.stderr)
    has(result.stdout, "3,000 ok")
    matches(result.stdout, r"\}\n\d+ samples.jsonl\n")  # whole rows
    lost = int(re.search(r"(\d+) of 3000 rows are missing from the file", result.stderr).group(1))
    matches(result.stdout, rf"\b{3000 - lost} samples.jsonl")
    for name in ("log.txt", "report.md", "run.json", "summary.json", "s.lua"):
        matches(result.stdout, rf"(?m)^{name}$")
    matches(result.stdout, r"whole 3000 .*rows are missing from the file")
    assert "not complete" not in result.stderr, result.stderr


def test_a_disk_without_room_for_the_report(work):
    run = f"""cat >s.lua <<'end'
{one_turn()}
end
{PERIGEE} run s.lua; echo "status $?"; find results"""
    result = on_small_disk(work, 600, run)
    has(result.stdout, "status 1\nresults\n")
    eq(result.stdout.count("\n"), 2)  # no folder of a run
    matches(result.stderr, r"^perigee run: cannot keep 1\.0 MB for the summary and the report in results/s-[0-9-]*: "
            r"No space left on device; free space there, or choose another place with --out DIR\n$")


def test_a_sweep_on_a_full_disk_lists_no_file_that_is_not_there(work):
    run = f"""cat >s.lua <<'end'
local perigee = require "perigee"
return perigee.sweep {{
  plan = perigee.plan {{ load = perigee.closed {{ users = 1, sessions = 1 }}, session = function() end }},
  over = {{ {{ "users", {{ 1 }} }} }},
}}
end
{PERIGEE} run s.lua; echo "status $?"; find results -type f"""
    result = on_small_disk(work, 4, run)
    matches(result.stdout, "status 1\n$")
    has(result.stderr, "sweep.json: No space left on device")
    assert "Files" not in result.stdout, result.stdout


def test_out_folder_cannot_be_made(work):
    work.write("s.lua", one_turn())
    work.write("results", "a file where the folder should be")
    process = work.start("run", "s.lua", *RELAXED)
    out, err = process.communicate(timeout=30)
    eq(process.returncode, 1, err)
    has(err, "results")


def test_port_in_use(work):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        result = work.perigee("sim", "--replicas", "1", "--port", str(port), timeout=30)
        eq(result.status, 1, result.err)
        has(result.err, f"{port}")
        has(result.err, "in use")


def test_too_few_descriptors(work):
    work.write("s.lua", one_turn(400, 400))

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))

    process = work.start("run", "s.lua", *RELAXED, "--workers", "2", preexec_fn=limit)
    result = work.finish(process, 60)
    eq(result.status, 98, "a run that hit the limit is not valid")
    # 2 workers and the fleet keep 67 to themselves.
    has(result.err, "400 users may need 467 descriptors, and the limit is 128 open files; raise it with `ulimit -n 1024`")
    matches(result.out, r"cannot be trusted[^:]*:\s+descriptors is \d+ times, the limit is 0 times")
    matches(result.out, r"no descriptor is left for a\s+connection")


def test_a_loop_that_never_waits(work):
    work.write("s.lua", """
local perigee = require "perigee"
return perigee.plan {
  load = perigee.closed { users = 1, sessions = 1 },
  session = function(vu)
    local function spin() while true do end end
    spin()
  end,
}
""")
    start = time.monotonic()
    result = work.perigee("run", "s.lua", *RELAXED, timeout=60)
    assert time.monotonic() - start < 30, "stopped in time"
    eq(result.status, 2)
    text = result.err + result.out
    has(text, "without waiting")
    matches(text, r"s\.lua:6\b")
    has(text, "spin")


def test_a_main_chunk_that_never_ends(work):
    refused(work, "while true do end\n", "s.lua:1 (main chunk)", "without waiting")


def test_waiting_in_an_own_coroutine(work):
    work.write("s.lua", """
local perigee = require "perigee"
return perigee.plan {
  load = perigee.closed { users = 1, sessions = 1 },
  session = function(vu)
    coroutine.wrap(function() vu:sleep(1) end)()
  end,
}
""")
    result = work.perigee("run", "s.lua", *RELAXED, timeout=60)
    eq(result.status, 2)
    has(result.err + result.out + result.report(), "coroutine")


def test_children_without_end(work):
    """A child that spawns a child that spawns a child …: stopped at a stated depth, not by the C stack."""
    work.write("s.lua", """
local perigee = require "perigee"
local function down(vu) vu:spawn(down) end
return perigee.plan { load = perigee.closed { users = 1, sessions = 2 }, session = down }
""")
    result = work.perigee("run", "s.lua", *RELAXED, timeout=60)
    eq(result.status, 2, result.err)
    has(result.out + result.report(), "levels deep")
    has(result.out + result.report(), "s.lua:3")


def test_certificate_that_does_not_verify(work):
    if subprocess.run(["openssl", "version"], capture_output=True).returncode:
        raise Skip("no openssl command")
    import ssl
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"],
                   cwd=work.path, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(os.path.join(work.path, "cert.pem"), os.path.join(work.path, "key.pem"))
    with Server(lambda request, c: simple_chat(c), tls=tls) as server:
        work.write("s.lua", one_turn())
        result = work.perigee("run", "s.lua", *RELAXED, "--replica", server.url, timeout=30)
        eq(result.status, 1, result.err)
        matches(result.err, r"self.signed|certificate")
        has(result.err, "--ca-file")
        result = work.perigee("run", "s.lua", *RELAXED, "--replica", server.url, "--ca-file", "cert.pem", timeout=30)
        eq(result.rows[0]["error"], None)
        result = work.perigee("run", "s.lua", *RELAXED, "--replica", server.url.replace("127.0.0.1", "127.0.0.2"),
                              "--ca-file", "cert.pem", timeout=30)
        eq(result.status, 1, result.err)


def pem(work, name, key="rsa:2048"):
    if subprocess.run(["openssl", "version"], capture_output=True, check=False).returncode:
        raise Skip("no openssl command")
    subprocess.run(["openssl", "req", "-x509", "-newkey", key, "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem",
                    "-days", "2", "-subj", "/CN=localhost"], cwd=work.path, check=True, capture_output=True)


def test_tls_files_that_are_none(work):
    """A slip of a path is wrong usage, named by its option or its field of the fleet file; nothing connects."""
    pem(work, "a")
    pem(work, "b")
    work.write("s.lua", one_turn())
    work.write("text", "not PEM\n")
    os.mkdir(os.path.join(work.path, "folder"))
    subprocess.run(["openssl", "pkey", "-in", "a.key", "-aes256", "-passout", "pass:x", "-out", "locked.key"],
                   cwd=work.path, check=True, capture_output=True)
    cases = [
        ({"ca": "nosuch"}, "ca", "No such file"), ({"ca": "folder"}, "ca", "a directory"),
        ({"ca": "text"}, "ca", "no certificate"), ({"ca": "a.key"}, "ca", "no certificate"),
        ({"ca": "/dev/null"}, "ca", "no regular file"),
        ({"cert": "nosuch"}, "cert", "No such file"), ({"cert": "a.pem"}, "cert", "no private key"),
        ({"key": "a.key"}, "key", "certificate of that key is missing"),
        ({"cert": "a.pem", "key": "nosuch"}, "key", "No such file"),
        ({"cert": "a.pem", "key": "text"}, "key", "no private key"),
        ({"cert": "a.pem", "key": "b.key"}, "key", "does not belong"),
        ({"cert": "a.pem", "key": "locked.key"}, "key", "has a password"),
    ]
    url = f"https://127.0.0.1:{closed_port()}"
    for files, what, text in cases:
        args = [a for k, v in files.items() for a in (f"--{k}-file", v)]
        result = work.perigee("run", "s.lua", "--replica", url, "--model", "m", *args, timeout=20)
        eq(result.status, 2, f"{args}: {result.err}")
        has(result.err, f"--{what}-file: ")
        has(result.err, text)
        fields = ", ".join(f'{k} = "{v}"' for k, v in files.items())
        work.write("fleet.lua", f'return {{ replicas = {{ {{ url = "{url}" }} }}, tls = {{ {fields} }} }}')
        result = work.perigee("run", "s.lua", "--model", "m", "--fleet", "fleet.lua", timeout=20)
        eq(result.status, 2, f"{fields}: {result.err}")
        has(result.err, f"--fleet fleet.lua: tls.{what}: ")
    result = work.perigee("run", "s.lua", "--replica", url, "--model", "m", "--cert-file", "a.pem", "--key-file", "a.key",
                          "--ca-file", "b.pem", timeout=20)
    eq(result.status, 1, "good files: " + result.err)
    has(result.err, "refused")


def test_http2_needs_https(work):
    work.write("s.lua", one_turn())
    work.write("t.lua", one_turn().replace("perigee.plan {", 'perigee.plan { target = "http://127.0.0.1:1",'))
    for args in (("s.lua",), ("s.lua", "--sim", "2"), ("s.lua", "--replica", "http://127.0.0.1:1"), ("t.lua",),
                 ("s.lua", "--gateway", "http://127.0.0.1:1")):
        result = work.perigee("run", *args, "--http2", timeout=20)
        eq(result.status, 2, f"{args}: {result.err}")
        has(result.err, "--http2 is for https")


def test_api_key_files(work):
    work.write("s.lua", one_turn())
    work.write("empty", "")
    work.write("blank", "\nkey\n")
    work.write("long", "k" * 9000)
    url = f"http://127.0.0.1:{closed_port()}"
    for path, text in (("nosuch", "No such file"), (".", "Is a directory"), ("empty", "empty"), ("blank", "empty"),
                       ("long", "longer")):
        result = work.perigee("run", "s.lua", "--replica", url, "--model", "m", "--api-key-file", path, timeout=20)
        eq(result.status, 2, result.err)
        has(result.err, "--api-key-file: ")
        has(result.err, text)
    work.write("good", "secret")  # no line feed at its end
    with Server(lambda request, c: simple_chat(c)) as server:
        work.perigee("run", "s.lua", *RELAXED, "--replica", server.url, "--api-key-file", "good", timeout=30)
        eq(server.requests[0].headers["authorization"], "Bearer secret")


def test_fleet_files(work):
    work.write("s.lua", one_turn())
    cases = [
        ("{ replica = {} }", 'unknown field "replica" (did you mean "replicas"?)'),
        ('{ replicas = { { url = "http://a", port = 1 } } }', 'replicas[1]: unknown field "port"'),
        ('{ replicas = { "http://a" } }', "replicas[1] must be {id =, url =}"),
        ('{ replicas = { { url = "" } } }', "has no scheme"),
        ('{ replicas = { { url = "http://a" } }, model = "" }', "model is empty"),
        ('{ replicas = { { url = "https://a" } }, tls = "x" }', "tls must be {ca =, cert =, key =, insecure =}"),
        ('{ replicas = { { url = "https://a" } }, tls = { cca = "x" } }', 'tls: unknown field "cca" (did you mean "ca"?)'),
        ('{ replicas = { { url = "https://a" } }, tls = { insecure = "yes" } }', "tls: insecure must be true or false"),
        ('{ gateway = "http://a/v1" }', "leave /v1 off"),
        ("{}", "names no server: it returns {replicas ="),
        ('{ model = "m" }', "--sim 3 beside it gives the built-in fleet its settings"),
        ('{ replicas = { { url = "http://a", id = 5 } } }', "replicas[1]: id must be a string"),
        ('{ replicas = { { url = "http://a", id = ("x"):rep(1e6) } } }', "an id has at most 100 bytes"),
    ]
    for text, part in cases:
        work.write("fleet.lua", "return " + text)
        result = work.perigee("run", "s.lua", "--fleet", "fleet.lua", timeout=20)
        eq(result.status, 2, f"{text}: {result.err}")
        has(result.err, "--fleet fleet.lua")
        has(result.err, part)
        assert len(result.err) < 1000, len(result.err)
    work.write("fleet.lua", """
local t = {} for i = 1, 20000 do t[i] = { url = "http://127.0.0.1:1", id = "r" .. i } end
return { replicas = t }""")
    result = work.perigee("run", "s.lua", "--fleet", "fleet.lua", timeout=20)
    eq((result.status, "a fleet has at most 4096 replicas" in result.err), (2, True), result.err)
    work.write("fleet.lua", 'string.find(("a"):rep(100000), (".-"):rep(50) .. "b")')
    result = work.perigee("run", "s.lua", "--fleet", "fleet.lua", timeout=90)
    eq(result.status, 2, result.err)
    has(result.err, "--fleet fleet.lua: it has not been read after 5 s of CPU time")


def test_a_fleet_that_lists_no_model(work):
    """Each answer to /v1/models gets the way out that fits it."""
    work.write("s.lua", one_turn())
    cases = [
        ("401 Unauthorized", "", "nope", 'begins "nope"); give the server\'s key with --api-key-env'),
        ("403 Forbidden", "", "", "(status 403); give the server's key with --api-key-env VAR or --api-key-file FILE"),
        ("404 Not Found", "", "{}", "is this the server's address"),
        ("407 Proxy", "", "", "name it with --proxy"),
        ("500 Oops", "", "oops!\n\x1b[31m", "see what the server logs"),
        ("503 Busy", "", "loading", "the server may still be loading: try again when it is ready"),
        ("301 Moved", "Location: http://x/\r\n", "", "leads elsewhere (status 301, to http://x/): name the final address"),
        ("200 OK", "", "<html>", 'lists no model (status 200; its answer begins "<html>"); name one with --model'),
    ]
    for status, extra, body, part in cases:
        def handler(_request, c, status=status, extra=extra, body=body):
            c.reply(body.encode(), status=status, extra=extra)
        with Server(handler, raw=True) as server:
            result = work.perigee("run", "s.lua", "--replica", server.url, timeout=30)
        eq(result.status, 1, result.err)
        has(result.err, part)
        assert "\x1b" not in result.err, result.err


def test_what_would_be_ignored_is_refused(work):
    work.write("s.lua", one_turn())
    work.write("twice.lua", 'local p = require "perigee"\np.param("x", 1)\np.param("x", "a")\n')
    cases = [
        (("s.lua", "--header", "Content-Length: 4"), "--header: Content-Length is written by the client itself"),
        (("s.lua", "--header", "transfer-encoding: chunked"), "--header: Transfer-Encoding is written by the client"),
        (("s.lua", "--header", "X: a\x01b"), "--header: the value of header X holds a control character"),
        (("s.lua", "--gateway", "http://a", "--gateway", "http://b"), "--gateway is given twice"),
        (("s.lua", "--max-users", "0"), "--max-users: 0 is out of range (1 or more)"),
        (("s.lua", "--max-users", "5"), "--max-users bounds the sessions of an open load"),
        (("twice.lua",), "twice.lua:3: parameter x is declared twice, with a number and a string"),
    ]
    for args, part in cases:
        result = work.perigee("run", *args, timeout=20)
        eq(result.status, 2, f"{args}: {result.err}")
        has(result.err, part)


def test_deep_nesting_names_its_file(work):
    work.write("deep.lua", "return " + "(" * 5000 + "1" + ")" * 5000)
    for command in ("run", "lua"):
        result = work.perigee(command, "deep.lua", timeout=20)
        has(result.err, "deep.lua: something in it is nested too deeply (C stack overflow)")


def test_long_urls_are_cut(work):
    work.write("s.lua", one_turn())
    result = work.perigee("run", "s.lua", "--replica", "http://" + "a" * 70000, timeout=20)
    eq(result.status, 2, result.err)
    assert len(result.err) < 600, len(result.err)


def test_pipes_are_no_scenarios(work):
    for name in ("a.lua", "a_spec.lua"):
        os.mkfifo(os.path.join(work.path, name))
    has(work.perigee("list", ".", timeout=10).out, "no scenario here")
    eq("a_spec" in work.perigee("test", timeout=10).out, False)


def test_options_name_themselves_what_was_given_and_what_is_allowed(work):
    work.write("s.lua", one_turn())
    work.write("t.lua", one_turn().replace("perigee.plan {", 'perigee.plan { target = "http://127.0.0.1:1",'))
    os.mkdir(os.path.join(work.path, "folder"))
    cases = [
        (("--workers", "0"), '--workers: 0 is out of range (1 to 1024)'),
        (("--workers", "1025"), '--workers: 1025 is out of range (1 to 1024)'), (("--workers", "2s"), '--workers: "2s"'),
        (("--workers", "-1"), '--workers: -1 is out of range'), (("--workers", "two"), '--workers: "two"'),
        (("--workers", "1e99"), '--workers: 1e99 is out of range'), (("--workers", "1.5"), '--workers: "1.5" is not a whole number (1 to 1024)'),
        (("--sim", "0"), '--sim: 0 is out of range (1 to 4096)'), (("--sim", "5000"), '--sim: 5000 is out of range (1 to 4096)'),
        (("--seed", "-1"), '--seed: -1 is out of range (0 or more)'), (("--seed", "1e30"), '--seed: 1e30 is out of range (0 to 9007199254740992)'),
        (("--runaway", "0"), '--runaway: 0 is out of range (1.00 ms to 24h 00m)'), (("--runaway", "5%"), '--runaway: "5%" is not a time'),
        (("--runaway", "-2s"), '--runaway: -2s is out of range'), (("--runaway", "99d"), "(1.00 ms to 24h 00m)"),
        (("--limit", "foo"), 'unknown check "foo"; there are schedule_lag_p99, wake_lag_p99'),
        (("--limit", "wake_lag=1"), "did you mean wake_lag_p99?"),
        (("--limit", "wake_lag_p99"), "is not CHECK=VALUE"), (("--limit", "wake_lag_p99=5%"), "a time"),
        (("--limit", "wake_lag_p99=-1"), "wake_lag_p99"),
        (("--profile", "tinny"), "--profile: "), (("--profile", "tinny"), "did you mean tiny?"),
        (("--sim-set", "kv_blocks=0"), "--sim-set: kv_blocks=0: a whole number from 1 to"),
        (("--sim-set", "kv_blocks"), "--sim-set: "), (("--sim-set", "decode_seq=-1s"), "--sim-set: decode_seq=-1s: a time"),
        (("--fault", "emty"), "--fault: "), (("--fault", "r5:empty"), '--fault: no replica "r5"; there are r0 to r2'),
        (("--set", "x"), "--set: "), (("--set", "=x"), "--set: "), (("--header", "x"), "--header: "),
        (("--header", ": x"), "--header: "), (("--replica", "a=b=c"), "--replica: "), (("--gateway", "x"), "--gateway: "),
        (("--replica", "http://a", "--metrics", "b=http://c"), '--metrics: there is no replica "b"'),
        (("--replica", "http://a", "--metrics", "x"), "--metrics: "), (("--tokenizer", "gpt2"), "--tokenizer: tokenizer \"gpt2\": neither a file or folder"),
        (("--api-key-env", "NO_SUCH_VARIABLE"), "--api-key-env: the variable NO_SUCH_VARIABLE is not set"),
        (("--fleet", "nosuch.lua"), "--fleet nosuch.lua: "), (("--fleet", "folder"), "--fleet folder: "),
        (("--fleet", "s.lua"), "--fleet s.lua: "), (("--no-preflight",), "--no-preflight needs --model"),
        (("--exit-codes", "x"), "--exit-codes: "), (("--replica", "http://a", "--sim", "2"), "--sim, --spares, --profile"),
    ]
    for args, text in cases:
        result = work.perigee("run", "s.lua", *args, timeout=20)
        eq(result.status, 2, f"{args}: {result.err}")
        has(result.err, text, str(args))
        assert result.err.startswith("perigee run: "), result.err
    for option in ("--sim", "--fault", "--truth", "--profile", "--sim-set"):
        if option != "--sim":
            value = {"--fault": "empty", "--truth": "x", "--profile": "tiny", "--sim-set": "kv_blocks=10"}[option]
            result = work.perigee("run", "t.lua", option, value)
            eq(result.status, 2, f"{option}: {result.err}")
            has(result.err, "has its own target")
    for script in ("folder", "", "nosuch"):
        result = work.perigee("run", script)
        eq(result.status, 2, f"{script!r}: {result.err}")


def test_empty_values(work):
    """An empty word is no value of any option that takes one, in any command; nothing is written anywhere."""
    work.write("s.lua", one_turn())
    for command, first in (("run", ("s.lua",)), ("sim", ())):
        options = re.findall(r"(?m)^  (--[a-z-]+) [^ ]", work.perigee(command, "--help").out)
        assert len(options) > 8, options
        for option in options:
            for args in ((option, ""), (option + "=",)):
                result = work.perigee(command, *first, *args, timeout=20)
                eq(result.status, 2, f"{command} {args}: {result.err}")
                has(result.err, f"{option}: the value is empty")
    for command in ("run", "sim", "list", "new", "types", "test", "lua"):
        result = work.perigee(command, "")
        eq(result.status, 2, f"{command}: {result.err}")
    eq(sorted(os.listdir(work.path)), ["s.lua"])


def test_help_lists_every_command(work):
    result = work.perigee("--help")
    for command in ("run", "sim", "list", "new", "types", "lua", "test"):
        matches(result.out, rf"(?m)^  {command} ")
        help_text = work.perigee(command, "--help")
        eq(help_text.status, 0, command)
        has(help_text.out, f"perigee {command}")


def test_version(work):
    result = subprocess.run([PERIGEE, "--version"], capture_output=True, text=True, check=True)
    matches(result.stdout, r"(?m)^perigee \d+\.\d+\.\d+\S* \(\S+\)$")


main(globals())
