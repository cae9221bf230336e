"""Rows of text/: tokenizing."""
import os

from measure import BUILD, HERE, Skip, median, program, run

CACHE = os.environ.get("PERIGEE_CACHE") or os.path.expanduser("~/.cache/perigee")
MODULES = os.path.join(CACHE, "npm", "node_modules")
# name, file below the cache, family, the name tiktoken has for it
MODELS = [
    ("Qwen3", "tokenizers/qwen3/tokenizer.json", "-", None),
    ("Llama 3.1", "tokenizers/llama3_1/tokenizer.json", "-", None),
    ("o200k", "tokenizers/ranks/o200k_base.tiktoken", "o200k_base", "o200k_base"),
    ("Gemma 3", "tokenizers/gemma3/tokenizer.json", "-", None),
]
TARGETS = {"mixed": 40, "english": 100}
WORST = ["a", " ", "\n", "!", "A", "é", "字", "0", "aA", "acgt", "@random"]


def corpus(ctx):
    folder = os.path.join(BUILD, "bench", "corpus")
    size = ctx.scale(6000000, 1500000)
    stamp = os.path.join(folder, f"made-{size}")
    if not os.path.exists(stamp):
        run(["python3", os.path.join(HERE, "corpus.py"), folder, str(size)])
        with open(stamp, "w", encoding="utf-8"):
            pass
    return folder


def reference(kind, file, text):
    """MB/s of the reference over the text's beginning, None where it is not there."""
    name = "@anush008/tokenizers" if kind == "native" else "tiktoken"
    if not os.path.exists(os.path.join(MODULES, name, "package.json")):
        return None
    try:
        return run(["node", os.path.join(HERE, "tokenize_ref.cjs"), MODULES, kind, file, text, "600000", "4096"]).json["mbs"]
    except Exception:  # pylint: disable=broad-except
        return None


def texts(ctx, name, path, family, tiktoken):
    folder = corpus(ctx)
    for text in ("mixed", "english", "code", "cjk"):
        file = os.path.join(folder, text + ".txt")
        ours, theirs = [], []
        for i in range(ctx.n):
            ours.append(run([program("tokenize_speed"), path, family, "text", file, str(ctx.scale(1, 0.3))]).json["mbs"])
            if i < 3 and (tiktoken or family == "-"):
                theirs.append(reference("tiktoken" if tiktoken else "native", tiktoken or path, file))
        theirs = [x for x in theirs if x]
        label = "tiktoken (wasm)" if tiktoken else "Hugging Face native"
        goal = (">=", TARGETS[text]) if text in TARGETS and name != "Gemma 3" else ()
        ctx.add("tokenize", f"{name}, {text}, 4 KB documents", ours, "MB/s", *goal,
                beside=f"{label}: {median(theirs):.1f} MB/s" if theirs else "the reference tokenizer is not here")


def worst(ctx, name, path, family):
    lowest, flat = [], []
    for kind in WORST:
        ns = run([program("tokenize_speed"), path, family, "worst", kind, str(ctx.scale(0.2, 0.05))]).json["ns_per_byte"]
        lowest.append((1000 / max(ns), kind))
        flat.append((max(ns) / min(ns), kind, ns))
    slow = min(lowest)
    ratio, kind, ns = max(flat)
    ctx.add("tokenize", f"{name}, worst input (runs of {slow[1]!r})", [slow[0]], "MB/s", ">=", 1.5,
            beside=f"least flat: {kind!r}, " + " ".join(f"{x:.0f}" for x in ns) + f" ns a byte at 1 KB … 10 MB ({ratio:.1f} x)")


def tokenize(ctx):
    found = False
    for name, file, family, tiktoken in MODELS:
        path = os.path.join(CACHE, file)
        if not os.path.exists(path):
            continue
        found = True
        texts(ctx, name, path, family, tiktoken)
        worst(ctx, name, path, family)
    if not found:
        raise Skip(f"no tokenizers in {CACHE}: make deps-test fetches them")
