#!/usr/bin/env python3
"""House rules that a script can check: layers, who may include what, banned calls, tests beside files.

Prints one line per breach, `file:line: what; way out`, and ends with `N rules broken` and status 1, or `layers: ok`.
"""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)

# What a folder may include, its own files aside (DESIGN.md, Layers).
BELOW = {
    "base": [],
    "text": ["base"],
    "kv": ["text", "base"],
    "io": ["text", "base"],
    "out": ["text", "base"],
    "net": ["out", "io", "kv", "text", "base"],
    "run": ["net", "out", "io", "kv", "text", "base"],
    "bind": ["run", "net", "out", "io", "kv", "text", "base"],
    "sim": ["io", "kv", "text", "base"],
    "cmd": ["bind", "run", "net", "out", "io", "kv", "text", "base", "sim"],
}
# header -> the only places that may include it
ONLY = {
    "lua.h": r"src/bind/.*|src/run/(state|vu)\.[ch]",
    "lauxlib.h": r"src/bind/.*|src/run/(state|vu)\.[ch]",
    "lualib.h": r"src/bind/.*|src/run/(state|vu)\.[ch]",
    "curl/curl.h": r"src/net/curl\w*\.c",
    "zmq.h": r"src/io/zmqlib\.h",
    "msgpack.h": r"src/sim/kvwire\.c",
    "grpc/grpc.h": r"src/io/cq\.c|src/net/grpc\w*\.c|src/sim/lookup\w*\.c",
}
# call -> (where it is allowed, what to use)
BANNED = {
    r"\b(?:clock_gettime|gettimeofday|time|clock)\s*\(": (r"src/base/clock\.c", "base/clock.h or loop_now"),
    r"\bclock_ns\s*\(": (r"src/base/clock\.[ch]|src/base/log\.c|src/io/loop\w*\.[ch]|src/io/timers\.[ch]|src/cmd/.*", "loop_now or loop_refresh"),
    r"\b(?:malloc|calloc|realloc|free|strdup|strndup)\s*\(": (r"src/base/mem\.[ch]", "base/mem.h"),
    r"\b(?:strcpy|strcat|sprintf|vsprintf|gets|alloca|strtok|rand|srand|system|popen|tmpnam)\s*\(": (r"", "a bounded or reentrant call"),
}

problems = []


def report(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def strip(text):
    """Comments and strings blanked, line numbers kept."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text, flags=re.S)


def check_file(path):
    with open(path, encoding="utf-8") as f:
        raw = f.read()
    folder = path.split("/")[1] if path.count("/") > 1 else None
    name = os.path.basename(path)
    if not re.match(r"/\* " + re.escape(name) + ":", raw):
        report(path, 1, f"a file begins with its purpose: /* {name}: ...")
    lines = raw.count("\n")
    if lines > 600:
        report(path, lines, "over 600 lines; one noun per file")
    for i, line in enumerate(raw.splitlines(), 1):
        m = re.match(r"\s*#\s*include\s*([<\"])([^>\"]+)[>\"]", line)
        if not m:
            continue
        kind, header = m.groups()
        if header in ONLY and not re.fullmatch(ONLY[header], path):
            report(path, i, f"{header} may not be included here")
        if kind == '"' and folder and header != "version.h":
            layer = header.split("/")[0]
            if "/" not in header:
                report(path, i, f'"{header}": write the folder too')
            elif layer != folder and layer not in BELOW[folder]:
                report(path, i, f"{folder}/ may not include {layer}/ ({header})")
    code = strip(raw)
    for pattern, (where, instead) in BANNED.items():
        if where and re.fullmatch(where, path):
            continue
        for m in re.finditer(pattern, code):
            before = code[: m.start()]
            if before.endswith((".", "->")):  # a struct member of that name
                continue
            report(path, before.count("\n") + 1, f"{m.group(0).strip()} is not used here; use {instead}")


def check_tests():
    seen = {}
    for path in sorted(glob.glob("src/*/*.c")):
        name = os.path.basename(path)[:-2]
        if name in seen:
            report(path, 1, f"same name as {seen[name]}; test files are named after it")
        seen[name] = path
        if path.split("/")[1] == "cmd" and name != "options":
            continue  # commands are tried from outside, in tests/e2e
        if not os.path.exists(f"tests/unit/test_{name}.c"):
            header = f'"{path.split("/")[1]}/{name}.h"'
            users = [t for t in glob.glob("tests/unit/*.c") if header in open(t, encoding="utf-8").read()]
            named = [t for t in glob.glob("tests/unit/*.c")
                     if re.search(r"\b" + name + r"\.c\b", open(t, encoding="utf-8").read()[:1200])]
            if not users and not named:
                report(path, 1, f"no tests/unit/test_{name}.c, and no unit test includes {header} or names {name}.c at its head")
    for path in sorted(glob.glob("tests/unit/test_*.c")):
        name = os.path.basename(path)[5:-2]
        if name not in seen:
            report(path, 1, f"no src/*/{name}.c: make builds a test only for the source it is named after")
    for path in sorted(glob.glob("lua/perigee/*.lua")):
        name = os.path.basename(path)[:-4]
        if not os.path.exists(f"tests/lua/test_{name}.lua"):
            report(path, 1, f"no tests/lua/test_{name}.lua")
        with open(path, encoding="utf-8") as f:
            if not f.readline().startswith("--"):
                report(path, 1, "a Lua file begins with its purpose: -- ...")


for source in sorted(glob.glob("src/*.c") + glob.glob("src/*/*.[ch]")):
    check_file(source)
check_tests()
for line in problems:
    print(line)
if problems:
    print(f"{len(problems)} rules broken")
    sys.exit(1)
print("layers: ok")
