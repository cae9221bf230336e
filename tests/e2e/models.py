"""Models for tests: a small tokenizer of ours with a template of its own, and what `make deps` fetches."""
import json
import os

from harness import ROOT, Skip

TEMPLATE = ("{%- if tools %}<|im|>tools\n{{ tools | tojson }}<|end|>\n{% endif -%}"
            "{%- for m in messages %}<|im|>{{ m.role }}\n{{ m.content }}"
            "{%- for c in m.tool_calls or [] %}[{{ c.function.name }}{{ c.function.arguments | tojson }}]{% endfor -%}"
            "<|end|>\n{% endfor -%}{%- if add_generation_prompt %}<|im|>assistant\n{% endif -%}")


def small(work):
    """A folder with tokenizer.json and tokenizer_config.json."""
    data = os.path.join(ROOT, "tests/data/tokenizer")
    with open(os.path.join(data, "bases.json"), encoding="utf-8") as f:
        base = json.load(f)["bytes"]
    with open(os.path.join(data, "cases.json"), encoding="utf-8") as f:
        file = next(c for c in json.load(f)["cases"] if c["name"] == "split_qwen2")["file"]
    file["model"].update(base)
    first = len(base["vocab"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    file["added_tokens"] = [{"id": first + i, "content": t, **flags} for i, t in enumerate(["<s>", "<|im|>", "<|end|>"])]
    file["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                              {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                              {"Sequence": {"id": "B", "type_id": 1}}],
                              "special_tokens": {"<s>": {"id": "<s>", "ids": [first], "tokens": ["<s>"]}}}
    work.write("model/tokenizer.json", json.dumps(file))
    work.write("model/tokenizer_config.json",
               json.dumps({"chat_template": TEMPLATE, "bos_token": "<s>", "eos_token": "<|end|>"}))
    return os.path.join(work.path, "model")


def data_folder():
    cache = os.environ.get("PERIGEE_CACHE") or os.path.expanduser("~/.cache/perigee")
    return os.environ.get("PERIGEE_TOKENIZERS") or os.path.join(cache, "tokenizers")


def qwen3(_):
    folder = os.path.join(data_folder(), "qwen3")
    if not os.path.exists(os.path.join(folder, "tokenizer_config.json")):
        raise Skip(f"Qwen3's tokenizer and template are not in {folder} (make deps)")
    return folder


def harmony(_):
    ranks = os.path.join(data_folder(), "ranks/o200k_base.tiktoken")
    if not os.path.exists(ranks):
        raise Skip(f"no {ranks} (make deps)")
    return "o200k_harmony"
