#!/usr/bin/env python3
"""Writes src/text/unicode_tables.inc: the Unicode data tokenizers need.

  python3 src/text/unicode_gen.py > src/text/unicode_tables.inc

Classes (\\s \\p{L} \\p{N} ...) are those of the reference regular expression engine (Unicode 16), swept into
tests/data/unicode/onig_classes.json. Normalization is Unicode 9.0, as the reference has it: Python's own data less what
tests/data/unicode/nfc_diffs.json shows to be younger. Lower case is Unicode 17's full mapping, one character at a time.
"""
import json
import os
import sys
import unicodedata

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(ROOT, "tests", "data", "unicode")
LIMIT = 0x110000
BITS = {"L": 1, "N": 2, "M": 4, "PS": 8, "s": 16, "upper": 32, "lower": 64, "Han": 128}


def load(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as f:
        return json.load(f)


def rows(values, width=120):
    line = ""
    for v in values:
        item = f"{v},"
        if len(line) + len(item) > width:
            yield line
            line = ""
        line += item
    if line:
        yield line


def emit(ctype, name, values, scope="static "):
    print(f"{scope}const {ctype} {name}[{len(values)}] = {{")
    print("\n".join(rows(values)))
    print("};")


def two_stage(values, shift=7):
    size, blocks, index = 1 << shift, {}, []
    for start in range(0, LIMIT, size):
        block = tuple(values[start:start + size])
        index.append(blocks.setdefault(block, len(blocks)))
    return index, [v for block in blocks for v in block]


def classes():
    onig = load("onig_classes.json")
    flags = bytearray(LIMIT)

    def mark(bit, *names):
        for name in names:
            for first, last in onig[name]["ranges"]:
                for cp in range(first, last + 1):
                    flags[cp] |= bit

    for name in ("L", "N", "M", "s", "Han"):
        mark(BITS[name], name)
    mark(BITS["PS"], "P", "S")
    mark(BITS["upper"], "Lu", "Lt", "Lm", "Lo", "M")
    mark(BITS["lower"], "Ll", "Lm", "Lo", "M")
    index, data = two_stage(flags)
    emit("uint16_t", "unicode_class_index", index, "")
    emit("uint8_t", "unicode_class_data", data, "")
    print("/* The classes as ranges {first, last}, for patterns that are handed to PCRE2. */")
    for name in ("s", "L", "N", "Lu", "Lt", "Lm", "Lo", "Ll", "M", "P", "S", "Han", "d", "w"):
        emit("uint32_t", "ranges_" + name, [x for r in onig[name]["ranges"] for x in r])
    print("/* What the pre-tokenizer Punctuation takes for punctuation (ASCII's, and an old Unicode's). */")
    emit("uint32_t", "ranges_punct", [x for r in load("punctuation.json")["ranges"] for x in r])


def young():
    """Characters whose normalization data are younger than Unicode 9.0."""
    marks, composed = set(), set()
    for row in load("nfc_diffs.json"):
        cps = [int(x, 16) for x in row["in"].split()]
        if row["why"] == "reorder":
            marks.add(cps[1])
        else:
            composed.add(int(row["icu17"], 16))
    return marks - {0x316, 0x327, 0x5b0, 0xf71, 0x302a, 0x3099}, composed


def normalization():
    marks, composed = young()
    ccc = bytearray(LIMIT)
    full, pairs = {}, []
    for cp in range(LIMIT):
        if 0xD800 <= cp < 0xE000 or 0xAC00 <= cp < 0xD7A4:  # Hangul is computed
            continue
        c = chr(cp)
        if cp not in marks:
            ccc[cp] = unicodedata.combining(c)
        if cp in composed:
            continue
        d = unicodedata.normalize("NFD", c)
        if d != c:
            full[cp] = [ord(x) for x in d]
            if unicodedata.normalize("NFC", d) == c:  # not excluded from composition
                pairs.append((*[int(x, 16) for x in unicodedata.decomposition(c).split()], cp))
    second = {b for _, b, _ in pairs} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    quick = bytearray(ccc)  # not 0: NFC may change a text with it
    for cp in list(second) + [cp for cp, d in full.items() if unicodedata.normalize("NFC", chr(cp)) != chr(cp)]:
        quick[cp] = quick[cp] or 255
    index, data = two_stage(ccc)
    emit("uint8_t", "ccc_index", index)
    emit("uint8_t", "ccc_data", data)
    index, data = two_stage(bytearray(1 if x else 0 for x in quick))
    emit("uint8_t", "quick_index", index)
    emit("uint8_t", "quick_data", data)
    print("/* Full canonical decompositions, by code point: where in decomposed_data, times 8, plus the length. */")
    data, place = [], []
    for cp in sorted(full):
        place.append(len(data) * 8 + len(full[cp]))
        data += full[cp]
    emit("uint32_t", "decomposed_cp", sorted(full))
    emit("uint16_t", "decomposed_place", place)
    emit("uint32_t", "decomposed_data", data)
    print("/* Primary composites {first, second, composite}, sorted by the first two. */")
    emit("uint32_t", "composed", [x for p in sorted(pairs) for x in p])


# Lower case of letters younger than Python's data: the reference has Unicode 17. {first: (last, distance)}
YOUNG_LOWER = {0x1C89: (0x1C89, 1), 0xA7CB: (0xA7CB, 0x264 - 0xA7CB), 0xA7CC: (0xA7CC, 1), 0xA7CE: (0xA7CE, 1),
               0xA7D2: (0xA7D2, 1), 0xA7D4: (0xA7D4, 1), 0xA7DA: (0xA7DA, 1), 0xA7DC: (0xA7DC, 0x19B - 0xA7DC),
               0x10D50: (0x10D65, 0x20), 0x16EA0: (0x16EB8, 0x1B)}


def lower():
    rows_, more = [], []
    young_ = {cp: chr(cp + d) for first, (last, d) in YOUNG_LOWER.items() for cp in range(first, last + 1)}
    for cp in range(LIMIT):
        if 0xD800 <= cp < 0xE000:
            continue
        low = young_.get(cp) or chr(cp).lower()
        if low != chr(cp):
            rows_ += [cp, ord(low[0])]
            if len(low) > 1:
                more.append((cp, [ord(x) for x in low[1:]]))
    assert more == [(0x130, [0x307])], more
    print("/* Lower case {from, to}; U+0130 also leaves U+0307. */")
    emit("uint32_t", "lowered", rows_)


print("/* unicode_tables.inc: made by unicode_gen.py; do not edit.")
print(" *")
print(" * Only unicode.c includes it. */")
print("// clang-format off")
classes()
normalization()
lower()
