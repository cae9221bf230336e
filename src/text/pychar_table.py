#!/usr/bin/env python3
"""Writes pychar_table.c: character classes and case mappings of the Python that runs it (3.11: Unicode 14).

    python3.11 src/text/pychar_table.py > src/text/pychar_table.c
"""
import re
import sys
import unicodedata

WORD = re.compile(r"\w")
ALL = [chr(c) for c in range(0x110000)]


def classes():
    """One number per code point, bits as in pychar.h. Cased and case-ignorable are found by asking str.lower
    about a final sigma: it becomes a final one after a cased letter, case-ignorable ones in between skipped."""
    out = []
    for ch in ALL:
        bits = 0
        bits |= ch.isalpha() << 0
        bits |= ch.isdecimal() << 1
        bits |= ch.isdigit() << 2
        bits |= ch.isnumeric() << 3
        bits |= ch.islower() << 4
        bits |= ch.isupper() << 5
        bits |= (unicodedata.category(ch) == "Lt") << 6
        bits |= ch.isprintable() << 7
        ignorable = ("A" + ch + "\u03a3").lower()[-1] == "\u03c2" and (" " + ch + "\u03a3").lower()[-1] == "\u03c3"
        cased = (" " + ch + "\u03a3").lower()[-1] == "\u03c2"
        bits |= cased << 8
        bits |= ignorable << 9
        bits |= ch.isspace() << 10
        bits |= ch.isidentifier() << 11
        bits |= ("a" + ch).isidentifier() << 12
        bits |= bool(WORD.match(ch)) << 13
        out.append(bits)
    return out


def main():
    assert sys.version_info[:2] == (3, 11), "the reference is Python 3.11"
    bits = classes()
    print("/* pychar_table.c: written by pychar_table.py; do not edit.\n *\n * Unicode", unicodedata.unidata_version,
          "as Python 3.11 has it. */")
    print('/* clang-format off */\n#include "text/pychar_table.h"\n')
    print("const struct pychar_range pychar_ranges[] = {")
    n, line = 0, []
    start = 0
    for c in range(1, 0x110001):
        if c == 0x110000 or bits[c] != bits[start]:
            if bits[start]:
                line.append(f"{{{start},{c - 1},{bits[start]}}}")
                n += 1
                if len(line) == 16:
                    print(" " + ",".join(line) + ",")
                    line = []
            start = c
    print(" " + ",".join(line) + "};")
    print(f"const size_t pychar_n_ranges = {n};\n")
    maps, multi = [], []
    for c, ch in enumerate(ALL):
        entry = [c]
        for to in (ch.lower(), ch.upper(), ch.title(), ch.casefold()):
            if len(to) == 1:
                entry.append(ord(to))
            else:
                triple = [ord(x) for x in to] + [0] * (3 - len(to))
                if triple not in multi:
                    multi.append(triple)
                entry.append(0x80000000 | multi.index(triple))
        if any(e != c for e in entry):
            maps.append(entry)
    print("const struct pychar_mapping pychar_mappings[] = {")
    for i in range(0, len(maps), 12):
        print(" " + ",".join("{%d,{%s}}" % (e[0], ",".join(f"{x}u" for x in e[1:])) for e in maps[i:i + 12]) + ",")
    print("};")
    print(f"const size_t pychar_n_mappings = {len(maps)};\n")
    print("const uint32_t pychar_multi[][3] = {")
    for i in range(0, len(multi), 8):
        print(" " + ",".join("{%s}" % ",".join(map(str, t)) for t in multi[i:i + 8]) + ",")
    print("};\n")
    zeros = [c for c, ch in enumerate(ALL) if ch.isdecimal() and unicodedata.decimal(ch) == 0]
    assert all(unicodedata.decimal(chr(z + d)) == d for z in zeros for d in range(10))
    assert sum(ch.isdecimal() for ch in ALL) == 10 * len(zeros)
    print("const uint32_t pychar_zeros[] = {")
    for i in range(0, len(zeros), 16):
        print(" " + ",".join(map(str, zeros[i:i + 16])) + ",")
    print("};")
    print(f"const size_t pychar_n_zeros = {len(zeros)};")


main()
