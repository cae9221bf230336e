#!/usr/bin/env python3
"""Trains two small BPE vocabularies on text of our own and writes them to bases.json: `bytes` in the alphabet of
byte-level models, `chars` with a meta space and byte tokens, as SentencePiece-style models have it.

  python3 train.py > bases.json
"""
import collections
import json
import re

TEXT = """A prefix cache keeps what was computed for the beginning of a prompt, so that the next request with the same beginning
need not compute it again. It's simple, and it isn't: the router has to send the request to the replica that holds the
prefix, and two routers don't see the same state. We'll measure 1,000 sessions of 12 turns, 128 tokens each; they've
3.5 ms of think time, and the results are in results/demo-2026.json.

def prefill(tokens, cached):
    for block in range(len(tokens) // 16):
        if block not in cached:
            cached.add(block)
    return len(cached) * 16

Der Zwischenspeicher hält Blöcke für später; größere Anfragen müssen länger warten. Префикс кэша хранит начало запроса.
前缀缓存保存提示开头的计算结果，下一个请求不需要再次计算。キャッシュは最初の計算結果を保存します。
The quick brown fox jumps over the lazy dog. the the the then there these those this that than thank thin thing things
""" * 3
PIECE = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?[^\s\w]+|\s+(?!\S)|\s+")


def alphabet():
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    table = {b: chr(b) for b in keep}
    table.update({b: chr(256 + i) for i, b in enumerate(rest)})
    return table


def train(words, symbols, count):
    merges, vocab = [], list(symbols)
    seen = set(vocab)
    while len(merges) < count:
        pairs = collections.Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += n
        if not pairs:
            break
        (a, b), n = min(pairs.items(), key=lambda p: (-p[1], p[0]))
        if n < 2:
            break
        merges.append([a, b])
        if a + b not in seen:
            seen.add(a + b)
            vocab.append(a + b)
        changed = collections.Counter()
        for word, k in words.items():
            out, i = [], 0
            while i < len(word):
                if i + 1 < len(word) and word[i] == a and word[i + 1] == b:
                    out.append(a + b)
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            changed[tuple(out)] += k
        words = changed
    return {"vocab": {t: i for i, t in enumerate(vocab)}, "merges": merges}


def main():
    table = alphabet()
    pieces = collections.Counter(m.group() for m in PIECE.finditer(TEXT))
    as_bytes = collections.Counter({tuple(table[b] for b in p.encode()): n for p, n in pieces.items()})
    spaced = collections.Counter(re.findall(r"▁*[^▁]+|▁+", TEXT.replace(" ", "▁")))
    chars = collections.Counter({tuple(w): n for w, n in spaced.items()})
    singles = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    singles += [c for c in sorted(set("".join(spaced))) if c not in "qQ前計ö"]  # some characters stay unknown
    known = set(singles)
    chars = collections.Counter({w: n for w, n in chars.items() if all(c in known for c in w)})
    print(json.dumps({"bytes": train(as_bytes, [table[b] for b in sorted(table)], 420), "chars": train(chars, singles, 420)},
                     ensure_ascii=True, separators=(",", ":")))


main()
