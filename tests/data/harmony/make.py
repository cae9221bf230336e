#!/usr/bin/env python3
"""Random Harmony conversations and what openai-harmony 0.0.8 makes of them: prints the rows of random.jsonl.

  pip install openai-harmony==0.0.8
  TIKTOKEN_ENCODINGS_BASE=FOLDER python3 tests/data/harmony/make.py SEED COUNT   # FOLDER has o200k_base.tiktoken

A row has messages, mode and auto_drop_analysis, and ids and text, or error (it must fail; the words are the library's).
"""
import json
import random
import sys

import openai_harmony

WORDS = ["hello", "a\nb", "  x", "\u00e9\u6a21\U0001f600", "<|end|>", "null", "", '"q"', "it's\r\nok\n", "// c", "tab\t",
         "\n\n", "<|constrain|>json", "0.5"]
NUMBERS = [0.5, -1.5, 1e20, 1e-7, 1e16, 1e15, 123456.789, 1e-5, 2.5e-5, 1.0, -0.0, 0.1, 1e300, 5e-324, 7, -3]
TYPES = ["string", "number", "integer", "boolean", "array", "object", "null", "weird", ["string", "null"], [], [3], None]
rng = random.Random(int(sys.argv[1]))
inner = openai_harmony.load_harmony_encoding("HarmonyGptOss")._inner


def chance(p):
    return rng.random() < p


def text():
    return rng.choice(WORDS) + rng.choice(WORDS)


def literal(depth=0):
    kind = rng.randrange(6 if depth < 3 else 4)
    if kind < 2:
        return rng.choice([None, True, False])
    if kind == 2:
        return rng.choice(NUMBERS)
    if kind == 3:
        return text()
    if kind == 4:
        return [literal(depth + 1) for _ in range(rng.randrange(3))]
    return {text(): literal(depth + 1) for _ in range(rng.randrange(3))}


def schema(depth=0):
    kind, out = rng.choice(TYPES), {}
    choices = {
        "type": (0.9, lambda: kind),
        "title": (0.2, lambda: rng.choice([text(), 3])),
        "description": (0.4, lambda: rng.choice([text(), "same", None])),
        "default": (0.4, literal),
        "enum": (0.2, lambda: [rng.choice([text(), 1, None]) for _ in range(rng.randrange(4))]),
        "nullable": (0.2, lambda: rng.choice([True, False, "x"])),
        "examples": (0.2, lambda: rng.choice([[text(), 1], [], "x"])),
    }
    if depth < 3:
        choices["oneOf"] = (0.2, lambda: rng.choice([[schema(depth + 1) for _ in range(rng.randrange(4))], "x", None]))
        choices["items"] = (0.8 * (kind == "array"), lambda: schema(depth + 1))
        choices["properties"] = (0.9 * (kind == "object"),
                                 lambda: {text(): schema(depth + 1) for _ in range(rng.randrange(4))})
    for name in rng.sample(sorted(choices), len(choices)):
        probability, make = choices[name]
        if chance(probability):
            out[name] = make()
    if "properties" in out and chance(0.5):
        out["required"] = list(out["properties"])[:2] + [1]
    return out


def namespaces():
    out = {}
    for name in rng.sample(["functions", "browser", "Zed", "\u00e9", "python"], rng.randrange(3)):
        tools = []
        for _ in range(rng.randrange(3)):
            tools.append({"name": text(), "description": text()})
            if chance(0.8):
                tools[-1]["parameters"] = schema()
        out[name] = {"name": rng.choice([name, text()]), "description": rng.choice([None, text(), "a\n\nb\r\n"]), "tools": tools}
    return out


def system():
    fields = {
        "model_identity": [None, "", text()],
        "reasoning_effort": [None, "Low", "Medium", "High"],
        "conversation_start_date": [None, "2025-01-01", text()],
        "knowledge_cutoff": [None, "2024-06"],
        "channel_config": [None, *({"valid_channels": c, "channel_required": chance(0.5)} for c in ([], ["a", "final"]))],
        "tools": [None, {}, namespaces()],
    }
    return {"type": "system_content", **{k: rng.choice(v) for k, v in fields.items() if chance(0.7)}}


def developer():
    fields = {"instructions": [None, "", text()], "tools": [None, {}, namespaces()]}
    return {"type": "developer_content", **{k: rng.choice(v) for k, v in fields.items() if chance(0.7)}}


def message():
    role = rng.choice(["user", "assistant", "assistant", "system", "developer", "tool"])
    out = {"role": role}
    if chance(0.3) or role == "tool" and chance(0.95):
        out["name"] = rng.choice(["functions.f", "bob", text()])
    if chance(0.3):
        out["recipient"] = rng.choice(["all", "functions.f", text()])
    if chance(0.5):
        out["channel"] = rng.choice(["analysis", "final", "final", "commentary", text()])
    if chance(0.3):
        out["content_type"] = rng.choice(["json", "<|constrain|>json", "<|constrain|>", " <|constrain|>x", text()])
    if role in ("system", "developer") and chance(0.8):
        out["content"] = [system() if role == "system" else developer()]
    elif chance(0.8):
        out["content"] = text()
    else:
        out["content"] = [{"type": "text", "text": text()} for _ in range(rng.randrange(4))]
    return out


for _ in range(int(sys.argv[2])):
    row = {"messages": [message() for _ in range(rng.randrange(6))],
           "mode": rng.choice(["completion", "conversation", "training"]), "auto_drop_analysis": chance(0.5)}
    conversation, config = json.dumps({"messages": row["messages"]}), {"auto_drop_analysis": row["auto_drop_analysis"]}
    try:
        if row["mode"] == "completion":
            row["ids"] = inner.render_conversation_for_completion(conversation, "assistant", config)
        elif row["mode"] == "training":
            row["ids"] = inner.render_conversation_for_training(conversation, config)
        else:
            row["ids"] = inner.render_conversation(conversation, config)
        row["text"] = inner.decode_utf8(row["ids"])
    except Exception as error:
        row["error"] = str(error)
    print(json.dumps(row))
