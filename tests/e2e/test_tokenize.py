"""perigee tokenize: every way in and out, and what it says when something is wrong."""
import json
import os
import subprocess

from harness import PERIGEE, ROOT, Skip, eq, has, main

THREADS = []

DATA = os.path.join(ROOT, "tests", "data", "tokenizer")


def tokenize(*args, stdin=b"", status=0, env=None):
    done = subprocess.run([PERIGEE, "tokenize", *args], input=stdin, capture_output=True, timeout=120, env=env)
    eq(done.returncode, status, f"status of tokenize {args} ({done.stderr.decode()})")
    return done


def out(*args, **more):
    return tokenize(*args, **more).stdout.decode("utf-8", "surrogateescape")


def small(work, name):
    """The file of a case, its rows and the texts."""
    with open(os.path.join(DATA, "cases.json"), encoding="utf-8") as f:
        cases = json.load(f)
    with open(os.path.join(DATA, "bases.json"), encoding="utf-8") as f:
        bases = json.load(f)
    case = next(c for c in cases["cases"] if c["name"] == name)
    case["file"]["model"].update(bases[case["base"]])
    folder = os.path.join(work.path, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(case["file"], f)
    return folder, case["rows"], cases["texts"]


def test_ways_in_and_out(work):
    folder, rows, texts = small(work, "llama")
    tok = ("--tokenizer", folder)
    row = next(r for r in rows if texts[r[0]] == "Hello world")
    line = " ".join(map(str, row[1])) + "\n"
    eq(out(*tok, "Hello world"), line)
    eq(out("--tokenizer", folder + "/tokenizer.json", stdin=b"Hello world"), line)
    eq(out(*tok, "Hello world", "Hello world"), line * 2)
    eq(out(*tok, "--lines", stdin=b"Hello world\n\nHello world"), line + "\n" + line)
    eq(out(*tok, "--count", "Hello world"), f"{len(row[1])}\n")
    eq(out(*tok, "--add-special", "Hello world"), " ".join(map(str, row[3])) + "\n")
    eq(out(*tok, "--decode", *map(str, row[1])), "Hello world\n")
    eq(out(*tok, "--decode", stdin=json.dumps(row[1]).encode()), "Hello world")
    eq(out(*tok, "--decode", "--lines", stdin=line.encode() * 2), "Hello world\n" * 2)
    eq(json.loads(out(*tok, "--decode", "--json", *map(str, row[1])))["text"], "Hello world")
    whole = json.loads(out(*tok, "--json", "Hello world"))
    eq((whole["tokenizer"], whole["count"], whole["ids"], len(whole["tokens"])), (folder + "/tokenizer.json", len(row[1]), row[1], len(row[1])))
    eq(out(*tok, stdin=b""), "\n")


def test_special_tokens(work):
    folder, _, _ = small(work, "flags")
    one = out("--tokenizer", folder, "<|end|>").split()
    eq(len(one), 1)
    text = out("--tokenizer", folder, "--no-special", "<|end|>").split()
    assert len(text) > 1, text
    eq(out("--tokenizer", folder, "--decode", *text), "<|end|>\n")
    eq(out("--tokenizer", "bytes", "--json", "é").count("\ufffd"), 2)


def test_bytes_that_are_no_text(work):
    folder, _, _ = small(work, "byte_regex")
    done = tokenize("--tokenizer", folder, stdin=b"a\xff\xfe")
    eq(done.stdout, tokenize("--tokenizer", folder, stdin="a\ufffd\ufffd".encode()).stdout)
    has(done.stderr.decode(), "2 bytes are not UTF-8: they count as U+FFFD")
    eq(out("--tokenizer", "bytes", stdin=b"\xff\x00"), "255 0\n")
    eq(tokenize("--tokenizer", "bytes", "--decode", "255 0").stdout, b"\xff\x00\n")
    eq(out("--tokenizer", folder, "--count", stdin=b"a\x00b"), "3\n")


def test_errors(work):
    folder, _, _ = small(work, "byte_regex")

    def error(*args, status=2, stdin=b""):
        return tokenize(*args, status=status, stdin=stdin).stderr.decode()

    has(error("x"), "--tokenizer is needed")
    has(error("--tokenizer", "no-such-one", "x", status=1), 'tokenizer "no-such-one": neither a file or folder')
    has(error("--tokenizer", work.path + "/none/x.json", "x", status=1), "/none/x.json: cannot open: No such file")
    has(error("--tokenizer", folder, "--family", "gpt9", "x"), "only rank files have a family")
    has(error("--tokenizer", "bytes", "--family", "o200k_base", "x"), 'tokenizer "bytes" has no family: leave out "o200k_base"')
    has(error("--tokenizer", os.path.join(DATA, "train.py"), "x", status=1), "say its family (cl100k_base")
    has(error("--tokenizer", os.path.join(DATA, "train.py"), "--family", "gpt9", "x"), 'family "gpt9" is not known')
    has(error("--tokenizer", folder, "--decode", "12 x"), '"x" is no token id')
    has(error("--tokenizer", folder, "--decode", "99999999"), "token 0: id 99999999 is not in the vocabulary")
    has(error("--tokenizer", folder, "--decode", "--count", "1"), "--decode goes with")
    has(error("--tokenizer", folder, "--lines", "x"), "--lines is for standard input")
    has(error("--tokenizer", folder, "--decode", "--lines", stdin=b"1\nx\n"), "line 2")
    has(error("--tokeniser", "bytes"), "did you mean --tokenizer")
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        file = json.load(f)
    file["model"]["type"] = "Unigram"
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(file, f)
    text = error("--tokenizer", folder, "x", status=1)
    has(text, folder + "/tokenizer.json: model: type \"Unigram\" is not supported")
    has(out("--help"), "--add-special")


def test_names(work):
    home = os.environ.get("PERIGEE_CACHE") or os.path.expanduser("~/.cache/perigee")
    if not os.path.exists(os.path.join(home, "tokenizers", "qwen3", "tokenizer.json")):
        raise Skip("no qwen3 in the cache: make deps could not fetch it")
    eq(out("--tokenizer", "qwen3", "Hello, world"), "9707 11 1879\n")
    eq(out("--tokenizer", "o200k_harmony", "<|start|>Hello"), "200006 13225\n")
    eq(out("--tokenizer", "o200k_base", "--no-special", "<|start|>").split()[0], "27")
    env = dict(os.environ, PERIGEE_TOKENIZERS=work.path)
    has(tokenize("--tokenizer", "qwen3", "x", status=1, env=env).stderr.decode(), work.path)


main(globals())
