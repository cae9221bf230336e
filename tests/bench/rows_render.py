"""The row of text/template: rendering a conversation of 128k tokens, beside Jinja2 itself."""
import glob
import json
import os
import random
import sys

from measure import BUILD, HERE, median, program, run

CACHE = os.environ.get("PERIGEE_CACHE") or os.path.expanduser("~/.cache/perigee")
FIXTURES = os.environ.get("PERIGEE_FIXTURES") or os.path.join(HERE, "..", "..", "..", "shared", "fixtures")
WORDS = """the quick brown fox jumps over lazy dog function return value error stack trace cluster cache prefix token
scheduler replica request answer file line test commit branch merge index block hash""".split()


def text(rng, size):
    out, n = [], 0
    while n < size:
        out.append(rng.choice(WORDS))
        n += len(out[-1]) + 1
    return " ".join(out)


def conversation(size):
    """An agent's session: tools, turns of about 4 KB with reasoning, a tool call and its result."""
    rng = random.Random(1)
    field = {"type": "string", "description": text(rng, 60)}
    tools = [{"type": "function", "function": {"name": f"tool_{i}", "description": text(rng, 200), "parameters": {
        "type": "object", "properties": {"path": field, "query": field, "limit": {"type": "integer"}},
        "required": ["path"]}}} for i in range(20)]
    messages, n = [{"role": "system", "content": text(rng, 3000)}], 0
    while n < size:
        messages.append({"role": "user", "content": text(rng, 1000)})
        messages.append({"role": "assistant", "content": f"<think>\n{text(rng, 500)}\n</think>\n\n{text(rng, 500)}",
                         "tool_calls": [{"type": "function", "function": {
                             "name": "tool_3", "arguments": {"path": text(rng, 40), "limit": 5}}}]})
        messages.append({"role": "tool", "content": text(rng, 2000)})
        n += 4000
    messages.append({"role": "user", "content": "go on"})
    return {"messages": messages, "tools": tools, "add_generation_prompt": True, "kwargs": {}, "special": {}}


def turns(n):
    """n turns of a chat of about 640 tokens each."""
    rng = random.Random(2)
    messages = []
    for _ in range(n):
        messages.append({"role": "user", "content": text(rng, 1800)})
        messages.append({"role": "assistant", "content": text(rng, 1400)})
    return {"messages": messages, "add_generation_prompt": True, "special": {}}


def templates():
    found = glob.glob(os.path.join(CACHE, "tokenizers", "qwen3", "tokenizer_config.json"))
    fixture = os.path.join(FIXTURES, "templates", "qwen3.jinja")
    if not found and os.path.exists(fixture):
        found = [fixture]
    return [("ours", os.path.join(HERE, "chat.jinja"))] + [("Qwen3", path) for path in found[:1]]


def reference(path, chat):
    """Seconds of Jinja2, None where it is not installed."""
    try:
        return run([sys.executable, os.path.join(HERE, "render_ref.py"), path, chat]).json["seconds"]
    except Exception:  # pylint: disable=broad-except
        return None


def render(ctx):
    folder = os.path.join(BUILD, "bench")
    chat = os.path.join(folder, "conversation.json")
    with open(chat, "w", encoding="utf-8") as f:
        json.dump(conversation(530000), f)
    for name, path in templates():
        runs = [run([program("render_speed"), path, chat, str(ctx.scale(1, 0.3))]).json for _ in range(ctx.n)]
        theirs = [reference(path, chat) for _ in range(min(ctx.n, 2))]
        theirs = [runs[0]["bytes"] / 1e6 / x for x in theirs if x]
        beside = f"Jinja2: {median(theirs):.0f} MB/s" if theirs else "Jinja2 is not installed here"
        ctx.add("render", f"{name} template, {runs[0]['bytes']:,} bytes", [r["bytes"] / 1e6 / r["seconds"] for r in runs],
                "MB/s", beside=f"{beside}; one rendering {median([r['seconds'] for r in runs]) * 1e3:.2f} ms")
