"""perigee hash, and a second witness: other implementations (Python's hashlib, pickle, hash()) on random inputs."""
import hashlib
import json
import os
import pickle
import random
import struct
import subprocess

from harness import PERIGEE, Skip, eq, has, main

THREADS = []

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "blockhash", "vectors.json")


def hash_of(*args, stdin=None, status=0):
    done = subprocess.run([PERIGEE, "hash", *args], input=stdin, capture_output=True, timeout=60)
    eq(done.returncode, status, f"status of hash {args} ({done.stderr.decode()})")
    return done.stderr.decode() if status else done.stdout.decode()


def lines_of(*args, stdin=None):
    return hash_of(*args, stdin=stdin).split()


def ids_json(ids):
    return json.dumps(ids).encode()


def test_ways_in(work):
    want = ["a4a0e2a009d7c9f6"]
    eq(lines_of("--block-size", "4", "1", "300", "70000", "4294967295"), want)
    eq(lines_of("--block-size=4", "1,300,70000", "4294967295"), want)
    eq(lines_of("--block-size", "4", "[1,300,70000,4294967295]"), want)
    eq(lines_of("--block-size", "4", stdin=b"[1, 300, 70000, 4294967295]\n"), want)
    eq(lines_of("--block-size", "4", stdin=b"1 300\n70000 4294967295"), want)
    eq(lines_of("--block-size", "4", "--field", "content_hashes", "[1,300,70000,4294967295]"), want)
    eq(hash_of(stdin=b""), "")


def test_less_than_a_block_is_told(work):
    for args, said in ((("1", "2", "3"), "the input (3 tokens) is shorter than one block (16); --block-size N sets it"),
                       (("--event", "--block-size", "5", "1", "2", "3"), "the input (3 tokens) is shorter than one block (5)"),
                       (("--json", "1"), None), (("--block-size", "1", "1"), None)):
        done = subprocess.run([PERIGEE, "hash", *args], input=b"", capture_output=True, timeout=60)
        eq(done.returncode, 0, str(args))
        if said:
            eq(done.stdout, b"")
            has(done.stderr.decode(), "perigee hash: no hash: " + said)
        else:
            eq(done.stderr, b"")


def test_text_is_read_byte_for_byte(work):
    text = "a\n\u00e9\0b\n".encode()
    args = ["--scheme", "aibrix-xxh64", "--param", "seed=0", "--block-size", "1", "--text"]
    eq(len(lines_of(*args, stdin=text)), len(text))


def test_every_vector(work):
    """Every scheme through the command: one vector of each set of parameters."""
    with open(VECTORS, encoding="utf-8") as f:
        vectors = json.load(f)
    seen = set()
    for v in vectors:
        key = (v["scheme"], "text" in v, *sorted(v["params"]))
        if key in seen or not v["block_hashes"]:
            continue
        seen.add(key)
        args = ["--scheme", v["scheme"], "--json", "--block-size", str(v["block_size"])]
        for name, value in v["params"].items():
            args += ["--param", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
        if "text" in v:
            out = json.loads(hash_of(*args, "--text", stdin=v["text"].encode()))
        else:
            out = json.loads(hash_of(*args, stdin=ids_json(v["tokens"])))
        for field in out:
            if field in v and field != "scheme":
                eq(out[field], v[field], f"{v['scheme']}, {v['name']}: {field}")
        assert "block_hashes" in out
    assert len(seen) > 60, len(seen)


def test_events(work):
    ids = ids_json([1, 300, 70000, 4294967295])
    eq(lines_of("--scheme", "sglang", "--block-size", "4", "--event", stdin=ids), ["-6351845946753621750"])
    digest = "656dea1076f098c114060f00a623833d10441fd46ad0f175aa544f1e6a3235a7"
    vllm = ["--scheme", "vllm-sha256-cbor", "--param", "seed=0", "--block-size", "4"]
    eq(lines_of(*vllm, stdin=ids), [digest])
    eq(lines_of(*vllm, "--event", stdin=ids), [digest[-16:]])
    has(hash_of(*vllm, "--field", "none_hash", stdin=ids), "4e1195df020de59e")


def test_bad_use(work):
    for args, part in [
        (["--scheme", "ic-xxh"], 'unknown scheme "ic-xxh"; there are ic-xxh3\n'),
        (["--scheme", "ic-xhx3"], 'unknown scheme "ic-xhx3" (did you mean "ic-xxh3"?)'),
        (["--scheme", "SMG"], 'unknown scheme "SMG"; there are smg-prefix-hash, smg-path-hash\n'),
        (["--sheme", "x"], "unknown option --sheme (did you mean --scheme?)"),
        (["1", "two"], 'token 2 is "two"'),
        (["1", "-1"], "token 2 is -1; ids of ic-xxh3 lie between 0 and 4294967295"),
        (["--block-size", "0", "1"], "block_size is \"0\"; it must be a whole number from 1"),
        (["--param", "sed=1", "1"], "ic-xxh3 knows no parameter 'sed' (did you mean 'seed'?)"),
        (["--scheme", "vllm-sha256", "1"], "seed is missing"),
        (["--scheme", "dynamo", "--param", "is_eagle=yes", "1"], "--param is_eagle: it must be JSON"),
        (["--scheme", "ic-xxh3", "--text", "x"], "ic-xxh3 hashes token ids, not text"),
        (["--field", "hex", "1"], "ic-xxh3 has no field 'hex'"),
        (["--json", "--event", "1"], "one of them at a time"),
    ]:
        err = hash_of(*args, stdin=b"", status=2)
        has(err, part)
        eq(len(err.splitlines()), 1, f"one line for {args}: {err}")
    has(hash_of("--help"), "ic-xxh3: inference-cache")


# ---- second witness ----

def random_ids(rng, n):
    top = rng.choice([256, 65536, 200000, 2**31, 2**32])
    return [rng.randrange(top) for _ in range(n)]


def blocks(ids, size):
    return [tuple(ids[i:i + size]) for i in range(0, len(ids) - size + 1, size)]


def cases(seed, n=25, most=200):
    rng = random.Random(seed)
    for _ in range(n):
        yield rng, random_ids(rng, rng.randrange(most)), rng.randrange(1, 40)


def cbor_int(n, major=0):
    head = major << 5
    if n < 24:
        return bytes([head | n])
    for code, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if n < 256**size:
            return bytes([head | code]) + n.to_bytes(size, "big")
    raise ValueError(n)


def cbor(x):
    if x is None:
        return b"\xf6"
    if isinstance(x, int):
        return cbor_int(x) if x >= 0 else cbor_int(-1 - x, 1)
    if isinstance(x, bytes):
        return cbor_int(len(x), 2) + x
    if isinstance(x, str):
        return cbor_int(len(x.encode()), 3) + x.encode()
    return cbor_int(len(x), 4) + b"".join(cbor(y) for y in x)


def vllm(encode, ids, size, seed, lora, salt):
    def digest(x):
        return hashlib.sha256(encode(x)).digest()
    parent, out = digest(seed), []
    for i, block in enumerate(blocks(ids, size)):
        extra = tuple(x for x in (lora, salt if i == 0 else "") if x) or None
        parent = digest((parent, block, extra))
        out.append(parent.hex())
    return out


def test_vllm_by_pickle_and_cbor(work):
    for rng, ids, size in cases(1):
        seed, lora, salt = str(rng.randrange(100)), rng.choice(["", "adapter", "\u6a21" * 100]), rng.choice(["", "s" * 300])
        args = ["--param", f"seed={seed}", "--block-size", str(size)]
        args += ["--param", f"lora_name={lora}", "--param", f"cache_salt={salt}"]
        for scheme, encode in (("vllm-sha256", lambda x: pickle.dumps(x, protocol=5)), ("vllm-sha256-cbor", cbor)):
            eq(lines_of("--scheme", scheme, *args, stdin=ids_json(ids)), vllm(encode, ids, size, seed, lora, salt),
               f"{scheme} {args} {ids}")


def test_vllm_long_blocks_by_pickle(work):
    """Blocks around the pickler's frames of 64 KiB."""
    for n in (8000, 13100, 16380, 16384, 21840, 30000):
        ids = random_ids(random.Random(n), n)
        eq(lines_of("--scheme", "vllm-sha256", "--param", "seed=0", "--block-size", str(n), stdin=ids_json(ids)),
           vllm(lambda x: pickle.dumps(x, protocol=5), ids, n, "0", "", ""), f"a block of {n}")


def test_sglang_by_hashlib(work):
    for rng, ids, size in cases(2):
        bigram, partial = rng.random() < 0.5, rng.random() < 0.5
        words = [ids[i:i + 2] for i in range(len(ids) - 1)] if bigram else [[t] for t in ids]
        out, parent = [], b""
        for i in range(0, len(words), size):
            page = words[i:i + size]
            if len(page) < size and not partial:
                break
            parent = hashlib.sha256(parent + b"".join(struct.pack("<I", t) for w in page for t in w)).digest()
            out.append(parent.hex())
        args = ["--scheme", "sglang", "--block-size", str(size), "--param", f"bigram={json.dumps(bigram)}",
                "--param", f"partial={'hash' if partial else 'drop'}"]
        eq(lines_of(*args, stdin=ids_json(ids)), out, f"{args} {ids}")


def fnv1a(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = (h ^ b) * 0x100000001b3 % 2**64
    return h


def test_llmd_and_ranvier_by_fnv(work):
    for _, ids, size in cases(3):
        parent, out = fnv1a(cbor((fnv1a(b"42"), None, "some/model"))), []
        for block in blocks(ids, size):
            parent = fnv1a(cbor((parent, block, None)))
            out.append(f"{parent:016x}")
        args = ["--scheme", "llmd-cbor-fnv", "--block-size", str(size), "--param", "hash_seed=42", "--param", "model=some/model"]
        eq(lines_of(*args, stdin=ids_json(ids)), out, f"{args} {ids}")
        n = min(len(ids), 100)
        n = n - n % size if n >= size else n
        want = fnv1a(b"".join(struct.pack("<I", t) for t in ids[:n]))
        args = ["--scheme", "ranvier-fnv1a", "--block-size", str(size), "--param", "prefix_token_length=100"]
        eq(lines_of(*args, stdin=ids_json(ids)), [f"{want:016x}"], f"{args} {ids}")


def test_llmd_sha256_by_hashlib(work):
    for _, ids, size in cases(4):
        parent, out = hashlib.sha256(cbor("7")).digest(), []
        low, low_out = int.from_bytes(parent[-8:], "big"), []
        for block in blocks(ids, size):
            parent = hashlib.sha256(cbor((parent, block, None))).digest()
            low = int.from_bytes(hashlib.sha256(cbor((low, block, None))).digest()[-8:], "big")
            out.append(parent[-8:].hex())
            low_out.append(f"{low:016x}")
        args = ["--block-size", str(size), "--param", "hash_seed=7"]
        eq(lines_of("--scheme", "llmd-sha256-cbor", *args, stdin=ids_json(ids)), out)
        eq(lines_of("--scheme", "llmd-sha256-cbor-64bit", *args, stdin=ids_json(ids)), low_out)


class NoneOf312:
    """What None is to hash() from Python 3.12 on; before it was an address."""

    def __hash__(self):
        return 0xFCA86420


def test_lmcache_builtin_by_python(work):
    for _, ids, size in cases(5):
        parent, out = 0, []
        for block in blocks(ids, size):
            parent = hash((parent, block, NoneOf312()))
            out.append(str(parent))
        args = ["--scheme", "lmcache-builtin", "--block-size", str(size), "--param", "none_hash=0", "--event"]
        eq(lines_of(*args, stdin=ids_json(ids)), out)


def test_xxhash_schemes_by_python_xxhash(work):
    try:
        import xxhash
    except ImportError:
        raise Skip("no python3-xxhash here") from None

    def le(*numbers):
        return struct.pack(f"<{len(numbers)}Q", *numbers)

    for rng, ids, size in cases(6):
        contents = [xxhash.xxh3_64_intdigest(struct.pack(f"<{size}I", *b), seed=1337) for b in blocks(ids, size)]
        chain = []
        for content in contents:
            chain.append(xxhash.xxh3_64_intdigest(le(chain[-1], content), seed=1337) if chain else content)
        eq(lines_of("--block-size", str(size), stdin=ids_json(ids)), [f"{h:016x}" for h in chain])
        h, approx = xxhash.xxh64_intdigest(b"msalt"), []
        for i in range(0, len(ids), size):
            block = struct.pack(f"<{len(ids[i:i + size])}I", *ids[i:i + size])
            h = xxhash.xxh64_intdigest(le(xxhash.xxh64_intdigest(block), h))
            approx.append(f"{h:016x}")
        args = ["--scheme", "epp-approx-tokens", "--block-size", str(size), "--param", "model=m", "--param", "cache_salt=salt"]
        eq(lines_of(*args, stdin=ids_json(ids)), approx)
        text = "".join(rng.choice("ab \u00e9\u6a21\U0001f600") for _ in range(len(ids)))
        want = [f"{xxhash.xxh64_intdigest(text[i:i + size].encode()):016x}" for i in range(0, len(text), size)]
        args = ["--scheme", "pstack-xxh64", "--block-size", str(size), "--param", "variant=python"]
        eq(lines_of(*args, stdin=text.encode()), want)


main(globals())
