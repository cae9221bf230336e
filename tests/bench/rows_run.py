"""Rows of the run itself: lateness, memory, start, long conversations. Each beside what the machine does without us."""
import json
import os
import signal
import socket
import time

import measure
import rows_render
from measure import PERIGEE, Failed, Server, Skip, median, number, pinned, program, read, run

import subprocess


def lateness(ctx):
    """Sessions' starts minus their schedule, beside a bare timerfd with Poisson arrivals of the same rate."""
    for rate in ctx.scale((1000, 10000, 50000), (1000, 10000)):
        def figures(*command):
            f = run([*command, str(rate), str(ctx.seconds)]).json
            return f["p50_us"], f["p99_us"], f["cpu"]

        mine, bare = ctx.in_turn(lambda: figures(program("lateness"), f"{measure.HERE}/empty.lua"),
                                 lambda: figures(program("timer_floor")))
        goals = {0: ("<=", 30), 1: ("<=", 300)} if rate == 10000 else {}
        for i, name in enumerate(("p50", "p99")):
            ctx.add("lateness", f"{rate} arrivals/s, {name}", [m[i] for m in mine], "µs", *goals.get(i, ()),
                    floor=[b[i] for b in bare], beside=f"bare timerfd {number(median([b[i] for b in bare]))} µs" + (
                        f", worker at {100 * median([m[2] for m in mine]):.0f} % of a core" if i else ""))


# ------------------------------------------------------------------------------------------ memory

def descriptors(process):
    try:
        return len(os.listdir(f"/proc/{process.pid}/fd"))
    except OSError:
        return 0


def rss_at_rest(folder, users):
    """Bytes of a run whose users each hold an open connection and sleep; the run is interrupted then."""
    seen = []

    def watch(process):
        deadline, idle = time.monotonic() + 90, 0
        while time.monotonic() < deadline and process.poll() is None and idle < 4:
            before = server.cpu_s()
            time.sleep(0.5)
            quiet = descriptors(process) >= users and server.cpu_s() - before < 0.002
            idle = idle + 1 if quiet else 0
        status = read(f"/proc/{process.pid}/status")
        if idle < 4 or "VmRSS" not in status:
            process.kill()
            return
        seen.append(int(status.split("VmRSS:")[1].split()[0]) * 1024)
        process.send_signal(signal.SIGINT)

    with Server(program("sse_server")) as server:
        measure.perigee(folder, "idle.lua", server.url, users=users, while_running=watch)
    if not seen:
        raise Failed(f"{users} users did not get their connections")
    return seen[0]


def memory(ctx):
    users = ctx.scale(10000, 1000)
    if measure.raise_descriptor_limit() < users + 200:
        raise Skip(f"{users} connections need more descriptors than `ulimit -Hn` allows")
    each = []
    with measure.Folder() as folder:
        for _ in range(ctx.n):
            one = rss_at_rest(folder, 1)
            each.append((rss_at_rest(folder, users) - one) / (users - 1) / 1024)
    ctx.add("memory", f"{users} idle users, each", each, "KiB", "<=", 16, f"{one / 2**20:.1f} MiB with one user",
            "resident, without the kernel's socket buffers")


# ------------------------------------------------------------------------------------------- start

def first_request_ms(command_for, cwd):
    """From before exec to the first byte of a request; the process is ended then. command_for(url) -> command."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        listener.settimeout(10)
        command = command_for(f"http://127.0.0.1:{listener.getsockname()[1]}")
        begin = time.monotonic_ns()
        p = subprocess.Popen(pinned(measure.CLIENT_CORE, command), cwd=cwd, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            while True:
                connection, _ = listener.accept()
                if connection.recv(1):
                    return (time.monotonic_ns() - begin) / 1e6
                connection.close()  # wrk tries the address first
        except socket.timeout:
            raise Failed(f"{command[0]}: no request in 10 s") from None
        finally:
            p.terminate()
            p.communicate()


def start(ctx):
    options = ["--model", "bench", "--no-preflight"]
    with measure.Folder() as folder:
        ours, theirs = [], []
        for _ in range(ctx.scale(20, 5)):
            ours.append(first_request_ms(
                lambda url: [PERIGEE, "run", f"{measure.HERE}/one.lua", "--replica", url, *options], folder))
            theirs.append(first_request_ms(lambda url: ["wrk", "-t1", "-c1", "-d1s", url], folder))
    ctx.add("start", "exec to first request", ours, "ms", "<=", 50, f"wrk {number(median(theirs))} ms",
            "no tokenizer, preflight off")


# ------------------------------------------------------------------------------------- long session

RANKS = os.path.join(rows_render.CACHE, "tokenizers", "ranks", "o200k_base.tiktoken")
QWEN3 = os.path.join(rows_render.CACHE, "tokenizers", "qwen3")


def long_turns(ctx, server, folder, short_body, long_body, options=(), **settings):
    """(runs of turns.lua: values by metric, in µs; what wrk pays more for the longer body, µs; the last body, bytes)"""
    def ours():
        r = measure.perigee(folder, "turns.lua", server.url, options, sessions=ctx.scale(10, 3),
                            modules=os.path.join(measure.BUILD, "bench"), **settings)
        names = ("turn_2", "turn_200", "ready_2", "ready_200")
        return {name: r.metric(name)["p50"] * 1e6 for name in names}, max(row["bytes_sent"] for row in r.rows())

    def floor(size):
        os.environ["BODY"] = str(size)
        done = run(["wrk", "-t1", "-c1", f"-d{ctx.scale(2, 1)}s", "-s", f"{measure.HERE}/wrk_long.lua", server.url])
        return done.cpu_s * 1e6 / int(done.out.split(" requests in")[0].split()[-1])

    mine, short, long = ctx.in_turn(ours, lambda: floor(short_body), lambda: floor(long_body))
    return [m[0] for m in mine], median([b - a for a, b in zip(short, long)]), max(m[1] for m in mine)


def add_turns(ctx, what, runs, extra, body, ready, made="message, rendering, tokens, block hashes"):
    """The turn as a whole; `ready`: the prompt's making alone, too, which is `made`."""
    def both(first, last):
        return f"{number(median([r[first] for r in runs]))} and {number(median([r[last] for r in runs]))} µs"

    ctx.add("turn200", f"{what}, sending included", [r["turn_200"] / r["turn_2"] for r in runs], "×",
            *(() if ready else ("<=", 1.5)), beside=f"{both('turn_2', 'turn_200')}; wrk pays {number(extra)} µs more for "
            "the longer body", note=f"last body {body / 1024:.0f} KiB, one user")
    if ready:
        ctx.add("turn200", f"{what}, until it is sent", [r["ready_200"] / r["ready_2"] for r in runs], "×", "<=", 1.5,
                beside=f"{both('ready_2', 'ready_200')}: {made}")
        without = [(r["turn_200"] - extra) / r["turn_2"] for r in runs]
        ctx.add("turn200", f"{what}, without what wrk pays more", without, "×", "<=", 1.5)


def stages(ctx):
    """What a turn costs at four lengths of a conversation, by stage; without Lua and without sending."""
    chat = os.path.join(measure.BUILD, "bench", "turns.json")
    with open(chat, "w", encoding="utf-8") as f:
        json.dump(rows_render.turns(200), f)
    template = os.path.join(QWEN3, "tokenizer_config.json")
    runs = [run([program("turn_stages"), template, "qwen3", chat, str(ctx.scale(9, 3))]).json["turns"]
            for _ in range(ctx.n)]
    parts = ("prepare", "render", "tokenize", "hash", "body")
    for i, turn in enumerate(runs[0]):
        each = {part: median([r[i][part] for r in runs]) for part in parts + ("full",)}
        beside = ", ".join(f"{part} {each[part]:.1f}" for part in parts)
        ctx.add("turn200", f"turn {turn['turn']}, {turn['tokens']:,} tokens, without Lua",
                [sum(r[i][part] for part in parts) for r in runs], "µs",
                beside=f"{beside}; rendering it whole {each['full']:.0f} µs")
    ctx.add("turn200", "turn 200 against turn 2, without Lua",
            [sum(r[3][p] for p in parts) / sum(r[0][p] for p in parts) for r in runs], "×", "<=", 1.5)


def turn200(ctx):
    """CPU of a turn of the worker's thread, sending included: of messages, and of token ids with a template and block
    hashes. Sending so much costs the kernel something whoever does it: wrk with bodies of the two lengths shows how
    much."""
    with Server(program("sse_server")) as server, measure.Folder() as folder:
        runs = long_turns(ctx, server, folder, 1300, 128 * 1024)
        add_turns(ctx, "messages: turn 200 against turn 2", *runs, ready=False)
        if not os.path.exists(os.path.join(QWEN3, "tokenizer_config.json")):
            raise Skip("token ids: the qwen3 tokenizer is not installed: make deps")
        runs = long_turns(ctx, server, folder, 5600, 620000, ("--tokenizer", "qwen3"),
                          renderer=os.path.join(QWEN3, "tokenizer_config.json"))
        add_turns(ctx, "token ids (Qwen3): turn 200 against turn 2", *runs, ready=True)
        runs = long_turns(ctx, server, folder, 5600, 620000, ("--tokenizer", "qwen3"), renderer="lua")
        add_turns(ctx, "token ids (a renderer in Lua, Qwen3): turn 200 against turn 2", *runs, ready=True,
                  made="message, rendering (on turns 2 to 4 the whole as well), tokens, block hashes")
        if os.path.exists(RANKS):
            runs = long_turns(ctx, server, folder, 5600, 620000, ("--tokenizer", "o200k_harmony", "--now", "2026-08-01"),
                              renderer="harmony")
            add_turns(ctx, "token ids (Harmony): turn 200 against turn 2", *runs, ready=True)
    stages(ctx)
