#!/usr/bin/env python3
"""render_ref.py TEMPLATE CHAT.json: seconds of one rendering by Jinja2 itself, set up as transformers does it.

Prints {"seconds", "sha256"} of the text; the best of five. The second witness of the row `render`.
"""
import hashlib
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from template_rows import environment  # noqa: E402


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        source = f.read()
    if sys.argv[1].endswith(".json"):
        source = json.loads(source)["chat_template"]
    with open(sys.argv[2], encoding="utf-8") as f:
        chat = json.load(f)
    template = environment().from_string(source)
    variables = {"messages": chat["messages"], "tools": chat["tools"], "documents": None,
                 "add_generation_prompt": chat["add_generation_prompt"], **chat["special"], **chat["kwargs"]}
    best = None
    for _ in range(5):
        start = time.perf_counter()
        text = template.render(**variables)
        seconds = time.perf_counter() - start
        best = seconds if best is None else min(best, seconds)
    print(json.dumps({"seconds": best, "sha256": hashlib.sha256(text.encode()).hexdigest()}))


main()
