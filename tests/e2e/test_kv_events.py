"""KV events of the simulated fleet, followed by pyzmq and Python's msgpack, which know nothing of ours.

An index made of the events alone must say of every prompt what the fleet's own /admin/peek says, and every hash must be
the one that vLLM's rule gives (pickle or CBOR of parent, tokens and extra keys, then SHA-256).
"""
import collections
import hashlib
import json
import os
import pickle
import random
import signal
import struct
import subprocess
import sys
import threading
import time
import urllib.request

try:
    import msgpack
    import zmq
except ImportError:
    SYSTEM = "/usr/bin/python3"  # where Debian's packages are, whichever Python comes first
    if os.path.exists(SYSTEM) and os.path.realpath(sys.executable) != os.path.realpath(SYSTEM):
        os.execv(SYSTEM, [SYSTEM, *sys.argv])
    raise

from harness import eq, has, main, slack, wait_until
from simfleet import fleet

BLOCK = 16
ADAPTERS = {"sql": 1, "law": 2}
LAST = b"\xff" * 8
SMALL = ("--profile", "instant", "--kv-events", "--set", "kv_blocks=40", "--set", "max_model_len=400")


# ---- asking the fleet ----

def admin(f, path, body=None):
    request = urllib.request.Request(f.announce["admin"]["url"] + path, None if body is None else json.dumps(body).encode(),
                                     {"Authorization": "Bearer " + f.announce["admin"]["token"]})
    with urllib.request.urlopen(request, timeout=30) as r:
        return json.load(r)


def counts(f, replica=0):
    return admin(f, "/admin/state")["replicas"][replica]["kv_events"]


def peek(f, tokens, salt=None):
    return admin(f, "/admin/peek", {"tokens": tokens, **({"cache_salt": salt} if salt else {})})["cached"]


def complete(f, tokens, n=1, salt=None, replica=0, model=None):
    body = {**({"model": model} if model else {}), "prompt": tokens, "max_tokens": n, "ignore_eos": True, **({"cache_salt": salt} if salt else {})}
    url = f.announce["replicas"][replica]["url"] + "/v1/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as r:
        return json.load(r)


# ---- what vLLM calls a block ----

def cbor_uint(major, n):
    for limit, code, form in ((24, None, None), (256, 24, ">B"), (65536, 25, ">H"), (1 << 32, 26, ">I"), (1 << 64, 27, ">Q")):
        if n < limit:
            return bytes([major << 5 | (n if code is None else code)]) + (b"" if form is None else struct.pack(form, n))
    raise ValueError(n)


def cbor(x):
    if x is None:
        return b"\xf6"
    if isinstance(x, int):
        return cbor_uint(0, x)
    if isinstance(x, bytes):
        return cbor_uint(2, len(x)) + x
    if isinstance(x, str):
        return cbor_uint(3, len(x.encode())) + x.encode()
    return cbor_uint(4, len(x)) + b"".join(cbor(e) for e in x)


ENCODE = {"vllm-sha256": lambda x: pickle.dumps(x, protocol=5), "vllm-sha256-cbor": cbor}


def digests(scheme, seed, tokens, size, salt=None, adapter=None):
    """Of every full block."""
    encode = ENCODE[scheme]
    parent, out = hashlib.sha256(encode(seed)).digest(), []
    for i in range(0, len(tokens) - size + 1, size):
        extra = ((adapter,) if adapter else ()) + ((salt,) if salt and i == 0 else ()) or None
        parent = hashlib.sha256(encode((parent, tuple(tokens[i:i + size]), extra))).digest()
        out.append(parent)
    return out


# ---- following ----

FIELDS = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
          "group_idx", "kv_cache_spec_kind"]
REMOVED = ["block_hashes", "medium", "group_idx"]


def named(event):
    """An event as a map; an old one's fields by their places."""
    if isinstance(event, dict):
        return event
    names = {"BlockStored": FIELDS, "BlockRemoved": REMOVED, "AllBlocksCleared": []}[event[0]]
    assert len(event) <= len(names) + 1, event
    return {"type": event[0], **dict(zip(names, event[1:]))}


class Index:
    """What one replica has, from its events: copies by hash, and hashes by what they were made of."""

    def __init__(self):
        self.copies = collections.Counter()
        self.children = {}  # (parent, tokens, extra) -> hash
        self.chunks = {}
        self.seen = []  # types of all events
        self.batches = []

    def take(self, batch):
        eq(len(batch), 3)
        ts, events, rank = batch
        assert isinstance(ts, float) and abs(ts - time.time()) < 3600, ts
        eq(rank, 0)
        assert events, "a step without events is no batch"
        self.batches.append([named(e) for e in events])
        for e in self.batches[-1]:
            self.seen.append(e["type"])
            getattr(self, e["type"])(e)

    def BlockStored(self, e):
        eq(len(e["token_ids"]), len(e["block_hashes"]) * e["block_size"])
        eq(e["lora_id"], ADAPTERS.get(e["lora_name"]))
        if e["medium"] == "CPU":
            eq(set(e), {"type", *FIELDS[:7]}, "a tier says nothing of extra keys")
            eq(len(e["block_hashes"]), 1)
            self.chunks[e["block_hashes"][0]] = e
            return
        eq(list(e), ["type", *FIELDS])
        eq((e["medium"], e["group_idx"], e["kv_cache_spec_kind"], e["block_size"]), ("GPU", 0, "full_attention", BLOCK))
        eq(len(e["extra_keys"]), len(e["block_hashes"]))
        parent = e["parent_block_hash"]
        assert parent is None or self.copies[parent] > 0, "the block before is there"
        for i, (h, extra) in enumerate(zip(e["block_hashes"], e["extra_keys"])):
            tokens = tuple(e["token_ids"][i * BLOCK:(i + 1) * BLOCK])
            key = parent, tokens, tuple(extra or ())
            eq(self.children.setdefault(key, h), h, "one content, one hash")
            self.copies[h] += 1
            parent = h

    def BlockRemoved(self, e):
        if e["medium"] == "CPU":
            eq(list(e), ["type", *REMOVED[:2]])
            del self.chunks[e["block_hashes"][0]]
            return
        eq(list(e), ["type", *REMOVED])
        eq((len(e["block_hashes"]), e["medium"], e["group_idx"]), (1, "GPU", 0))
        assert self.copies[e["block_hashes"][0]] > 0, "what goes was there"
        self.copies[e["block_hashes"][0]] -= 1

    def AllBlocksCleared(self, e):
        eq(list(e), ["type"])
        self.copies.clear()

    def cached(self, tokens, salt=None):
        parent, n = None, 0
        while (n + 1) * BLOCK < len(tokens):
            extra = (salt,) if salt and n == 0 else ()
            h = self.children.get((parent, tuple(tokens[n * BLOCK:(n + 1) * BLOCK]), extra))
            if h is None or not self.copies[h]:
                break
            parent, n = h, n + 1
        return n * BLOCK


class Follower:
    """A SUB socket of one replica and the index it leads to; numbers must come without a gap."""

    def __init__(self, f, replica=0, hwm=100000, room=None):
        self.fleet, self.replica = f, replica
        self.said = f.announce["replicas"][replica]
        self.context = zmq.Context()
        self.sub = self.context.socket(zmq.SUB)
        self.sub.setsockopt(zmq.RCVHWM, hwm)
        self.sub.setsockopt(zmq.LINGER, 0)
        if room:
            self.sub.setsockopt(zmq.RCVBUF, room)
        self.sub.connect(self.said["kv_events"])
        self.sub.subscribe(b"")
        self.index, self.next, self.topics = Index(), 0, set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sub.close()
        self.context.destroy(linger=0)

    def receive(self, seconds=10):
        if not self.sub.poll(int(seconds * 1000 * slack())):
            raise AssertionError(f"no message; next is {self.next}, the fleet says {counts(self.fleet, self.replica)}")
        frames = self.sub.recv_multipart()
        eq([len(frames), len(frames[1])], [3, 8])
        self.topics.add(frames[0].decode())
        return int.from_bytes(frames[1], "big"), frames[2]

    def apply(self, number, payload):
        if number < self.next:  # a replay had it
            return
        eq(number, self.next, "a gap")
        self.index.take(msgpack.unpackb(payload))
        self.next += 1

    def catch_up(self):
        """Everything that was published until now."""
        while self.next < counts(self.fleet, self.replica)["batches"]:
            self.apply(*self.receive())

    def replay(self, start, client=zmq.DEALER):
        """[(number, payload)…] as the fleet's ROUTER gives them."""
        with self.context.socket(client) as s:
            s.setsockopt(zmq.LINGER, 0)
            s.connect(self.said["kv_events_replay"])
            s.send_multipart([b"", start.to_bytes(8, "big")])
            out = []
            while True:
                assert s.poll(int(10000 * slack())), f"no end after {out}"
                empty, number, payload = s.recv_multipart()
                eq(empty, b"")
                if number == LAST:
                    eq(payload, b"")
                    return out
                out.append((int.from_bytes(number, "big"), payload))

    def join(self):
        """As a late subscriber does: what was missed comes from the replay. Subscribed for certain afterwards."""
        for i in range(2000):
            complete(self.fleet, [i % 250, i // 250] * BLOCK, replica=self.replica)
            if self.sub.poll(5):
                break
        for number, payload in self.replay(self.next):
            self.apply(number, payload)
        self.catch_up()


def prompts(rng):
    """Prompts that share beginnings."""
    bases = [[rng.randrange(256) for _ in range(rng.randrange(20, 150))] for _ in range(4)]
    out = []
    for _ in range(14):
        base = rng.choice(bases)
        out.append((base[:rng.randrange(1, len(base) + 1)] + [rng.randrange(256) for _ in range(rng.randrange(60))],
                    rng.choice([None, None, "red", "blue"])))
    return out


def compare(f, follower, known):
    follower.catch_up()
    for tokens, salt in known:
        eq(follower.index.cached(tokens, salt), peek(f, tokens, salt)[follower.said["id"]], f"{len(tokens)} tokens, {salt}")


# ---- tests ----

def follow(work, scheme, seed, raw, *args):
    rng = random.Random(seed)
    sets = ["--set", f"hash_scheme={scheme}", "--set", f"kv_events_hashes={'bytes' if raw else 'int'}"]
    with fleet(work, *SMALL, *sets, *args) as f, Follower(f) as follower:
        follower.join()
        known = prompts(rng)
        for i in range(40):
            tokens, salt = rng.choice(known)
            said = complete(f, tokens, rng.randrange(1, 40), salt)
            if i % 4 == 0:  # a conversation goes on: generated blocks are cached too
                grown = tokens + list(said["choices"][0]["text"].encode()) + [rng.randrange(256)]
                if len(grown) < 300:
                    known.append((grown, salt))
            compare(f, follower, rng.sample(known, 5))
        compare(f, follower, known)
        index = follower.index
        assert index.seen.count("BlockRemoved") > 50, "the cache was too large for evictions"
        assert len(index.batches) < len(index.seen), "several events in one step"
        seed_text = f.announce["kv_events"]["hash_seed"]
        checked = 0
        for tokens, salt in known:
            parent = None
            for i, want in enumerate(digests(scheme, seed_text, tokens, BLOCK, salt)):
                extra = (salt,) if salt and i == 0 else ()
                h = index.children.get((parent, tuple(tokens[i * BLOCK:(i + 1) * BLOCK]), extra))
                if h is None:
                    break
                eq(h, want if raw else int.from_bytes(want[-8:], "big"))
                parent, checked = h, checked + 1
        assert checked > 30, checked
        return f.announce


def test_maps_with_numbers(work):
    announce = follow(work, "vllm-sha256", 1, False)
    eq(announce["kv_events"], {"encoding": "map", "hashes": "int", "hash_scheme": "vllm-sha256", "hash_seed": "vllm-none-hash"})


def test_arrays_with_digests(work):
    announce = follow(work, "vllm-sha256-cbor", 2, True, "--set", "kv_events=array", "--set", "hash_seed=42")
    eq(announce["kv_events"], {"encoding": "array", "hashes": "bytes", "hash_scheme": "vllm-sha256-cbor", "hash_seed": "42"})


def test_arrays_are_arrays(work):
    with fleet(work, *SMALL, "--set", "kv_events=array") as f, Follower(f) as follower:
        follower.join()
        complete(f, list(range(33)))
        number = -1
        while number < follower.next:  # what the replay had came as well
            number, payload = follower.receive()
        event = msgpack.unpackb(payload)[1][0]
        eq(event[0], "BlockStored")
        eq(event[2:], [None, list(range(32)), 16, None, "GPU", None, [None, None], 0, "full_attention"])


def page_hashes(tokens, salt=None):
    """SGLang's numbers of the whole pages: the first 8 bytes of SHA-256 over the page before (or the salt's) and the tokens."""
    parent, out = hashlib.sha256(b"sglang-cache-salt-v1\0" + salt.encode()).digest() if salt else b"", []
    for i in range(0, len(tokens) - BLOCK + 1, BLOCK):
        parent = hashlib.sha256(parent + struct.pack(f"<{BLOCK}I", *tokens[i:i + BLOCK])).digest()
        out.append(int.from_bytes(parent[:8], "big", signed=True))
    return out


def test_sglang_s_events(work):
    """Its own arrays: seven places, the eighth a map when there is a salt; signed numbers that follow from the tokens alone."""
    a, b = [7] * 3 * BLOCK + [9], [5] * 2 * BLOCK
    with fleet(work, "--profile", "instant", "--kv-events", "--face", "sglang", "--set", "kv_blocks=12", "--set", "max_model_len=160") as f:
        eq({k: f.announce["kv_events"][k] for k in ("encoding", "hashes", "hash_scheme", "hash_seed")},
           {"encoding": "sglang", "hashes": "int", "hash_scheme": "sglang", "hash_seed": None})
        with Follower(f) as follower:
            for body in ({"prompt": a}, {"prompt": b, "cache_salt": "red"}, {"prompt": [3] * 9 * BLOCK}):
                f.ask("/v1/completions", {"max_tokens": 1, **body})
            f.ask("/flush_cache", {})
            f.ask("/v1/completions", {"prompt": [1] * BLOCK, "max_tokens": 1})
            events = [msgpack.unpackb(payload) for _, payload in follower.replay(0)]
            eq(len(events), counts(f)["batches"])
    eq({(len(batch), batch[2]) for batch in events}, {(3, 0)})
    said = [e for batch in events for e in batch[1]]
    pages = {"a": page_hashes(a), "b": page_hashes(b, "red"), "c": page_hashes([3] * 9 * BLOCK), "d": page_hashes([1] * BLOCK)}
    assert any(h < 0 for list_ in pages.values() for h in list_)
    stored = [e for e in said if e[0] == "BlockStored"]
    eq(stored[0], ["BlockStored", pages["a"], None, a[:3 * BLOCK], BLOCK, None, "GPU"])
    eq(stored[1], ["BlockStored", pages["b"], None, b, BLOCK, None, "GPU", {"cache_salt": "red"}])
    eq([h for e in stored[2:-1] for h in e[1]], pages["c"])
    eq(stored[-1][1], pages["d"])
    removed = [e for e in said if e[0] == "BlockRemoved"]
    eq({(len(e), len(e[1]), e[2]) for e in removed}, {(3, 1, "GPU")})
    assert {e[1][0] for e in removed} <= set(pages["a"] + pages["b"]), removed
    eq([e for e in said if e[0] == "AllBlocksCleared"], [["AllBlocksCleared"]])
    result = work.perigee("sim", "--set", "hash_scheme=sglang", timeout=20)
    eq(result.status, 2)
    has(result.err, "kv_events=sglang")


def test_a_reset_goes_out_with_the_next_step(work):
    with fleet(work, *SMALL) as f, Follower(f) as follower:
        follower.join()
        complete(f, list(range(100)))
        follower.catch_up()
        before = follower.next
        f.ask("/reset_prefix_cache", {})
        eq(peek(f, list(range(100)))["r0"], 0)
        time.sleep(0.2)
        eq(counts(f)["batches"], before, "an idle engine publishes nothing")
        complete(f, list(range(200, 240)))
        follower.catch_up()
        eq([e["type"] for e in follower.index.batches[before]], ["AllBlocksCleared", "BlockStored"])
        compare(f, follower, [(list(range(100)), None), (list(range(200, 240)), None)])


def test_replay_after_a_late_join(work):
    args = ("--set", "kv_events_buffer_steps=1000")
    with fleet(work, *SMALL, *args) as f:
        rng = random.Random(5)
        known = prompts(rng)
        for tokens, salt in known:
            complete(f, tokens, 20, salt)
        with Follower(f) as follower:
            whole = follower.replay(0)
            eq([n for n, _ in whole], list(range(counts(f)["batches"])))
            eq(follower.replay(len(whole) - 2), whole[-2:])
            eq(follower.replay(len(whole) + 5), [])
            follower.join()
            compare(f, follower, known)
        eq(counts(f)["refused"], 0)


def test_replay_keeps_what_it_was_told_to(work):
    with fleet(work, *SMALL, "--set", "kv_events_buffer_steps=3") as f, Follower(f) as follower:
        for i in range(10):
            complete(f, [i] * 20)
        eq([n for n, _ in follower.replay(0)], [7, 8, 9])
        with follower.context.socket(zmq.REQ) as s:  # a REQ puts the empty frame itself, and sees the first answer
            s.connect(follower.said["kv_events_replay"])
            s.send((8).to_bytes(8, "big"))
            assert s.poll(int(10000 * slack()))
            eq(s.recv_multipart()[0], (8).to_bytes(8, "big"))
        with follower.context.socket(zmq.DEALER) as s:  # without it vLLM does not answer either
            s.setsockopt(zmq.LINGER, 0)
            s.connect(follower.said["kv_events_replay"])
            s.send((8).to_bytes(8, "big"))
            wait_until(lambda: counts(f)["refused"] == 1)
    with fleet(work, *SMALL, "--set", "kv_events_replay_endpoint=off") as f:
        eq(f.announce["replicas"][0]["kv_events_replay"], None)


def test_pressure_is_told_as_any_other_content(work):
    with fleet(work, *SMALL) as f, Follower(f) as follower:
        follower.join()
        mine = list(range(100))
        complete(f, mine)
        eq(peek(f, mine)["r0"], 96)
        answer = admin(f, "/admin/pressure", {"share": "100%"})
        eq(answer["blocks"], {"r0": 40})
        eq(peek(f, mine)["r0"], 0)
        before = follower.next
        complete(f, list(range(200, 240)))
        follower.catch_up()
        told = [e for batch in follower.index.batches[before:] for e in batch]
        foreign = [e for e in told if e["type"] == "BlockStored" and len(e["block_hashes"]) == 40]
        eq(len(foreign), 1)
        eq(foreign[0]["parent_block_hash"], None)
        compare(f, follower, [(mine, None), (list(range(200, 240)), None)])


def test_a_restart_begins_at_zero(work):
    with fleet(work, *SMALL) as f:
        with Follower(f) as follower:
            follower.join()
            complete(f, list(range(100)))
            follower.catch_up()
            assert follower.next > 1
        admin(f, "/admin/restart", {"replica": "r0", "down": "100ms", "wait": True})
        eq(admin(f, "/admin/state")["replicas"][0]["processes"], 2)
        eq(counts(f)["batches"], 0)
        with Follower(f) as follower:  # on the same port
            follower.join()
            eq(follower.replay(0)[0][0], 0)
            complete(f, list(range(100)))
            compare(f, follower, [(list(range(100)), None)])
        admin(f, "/admin/kill", {"replica": "r0"})
        eq(admin(f, "/admin/state")["replicas"][0]["state"], "down")


def test_two_replicas(work):
    args = ("--replicas", "2", "--set", "kv_events_topic=kv@{id}@{model}", "--model", "m")
    with fleet(work, *SMALL, *args) as f, Follower(f, 0) as a, Follower(f, 1) as b:
        a.join()
        b.join()
        only_a, only_b = list(range(90)), list(range(100, 190))
        complete(f, only_a, replica=0)
        complete(f, only_b, replica=1)
        for one in (a, b):
            compare(f, one, [(only_a, None), (only_b, None)])
        eq([x.index.cached(p) for x in (a, b) for p in (only_a, only_b)], [80, 0, 0, 80])
        eq([a.topics, b.topics], [{"kv@r0@m"}, {"kv@r1@m"}])
        eq([r["kv_events_topic"] for r in f.announce["replicas"]], ["kv@r0@m", "kv@r1@m"])


def test_a_subscriber_that_binds(work):
    """vLLM's rule: an endpoint without * is connected to, by every replica."""
    context = zmq.Context()
    sub = context.socket(zmq.SUB)
    sub.subscribe(b"r1")
    port = sub.bind_to_random_port("tcp://127.0.0.1")
    config = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://127.0.0.1:{port}", "topic": "{id}"}
    try:
        with fleet(work, "--profile", "instant", "--replicas", "2", "--kv-events-config", json.dumps(config)) as f:
            eq({r["kv_events"] for r in f.announce["replicas"]}, {f"tcp://127.0.0.1:{port}"})
            eq({r["kv_events_replay"] for r in f.announce["replicas"]}, {None})
            for i in range(3000):
                complete(f, [i % 250, i // 250] * 16, replica=0)
                complete(f, [i % 250, i // 250] * 16, replica=1)
                if sub.poll(5):
                    break
            eq(sub.recv_multipart()[0], b"r1")
    finally:
        context.destroy(linger=0)


def test_a_subscriber_that_does_not_read_delays_nobody(work):
    """Beyond its bound its messages are dropped, which it sees as a gap; the others get theirs."""
    args = ("--set", "kv_events_hwm=2", "--set", "kv_blocks=2000", "--set", "max_model_len=20000")
    with fleet(work, *SMALL, *args) as f, Follower(f, hwm=2, room=4096) as slow, Follower(f) as follower:
        follower.join()
        while not slow.sub.poll(5):
            complete(f, [1, 2, 3] * BLOCK)
            follower.catch_up()
            f.ask("/reset_prefix_cache", {})
        rng = random.Random(1)
        for _ in range(150):  # 5 MB of events
            complete(f, [rng.randrange(256) for _ in range(19000)])
            follower.catch_up()
        c = counts(f)
        eq(c["sent"], c["batches"])
        numbers = []
        while slow.sub.poll(500):
            numbers.append(slow.receive()[0])
        eq(numbers, sorted(numbers))
        assert len(numbers) < c["batches"] - 10, f"{len(numbers)} of {c['batches']}: nothing was dropped"


KILLED = """
import sys, zmq
s = zmq.Context().socket(zmq.SUB)
s.connect(sys.argv[1])
s.subscribe(b"")
while True:
    s.recv_multipart()
    print("got", flush=True)
"""


def test_a_subscriber_that_is_killed(work):
    with fleet(work, *SMALL) as f, Follower(f) as follower:
        follower.join()
        victim = subprocess.Popen([sys.executable, "-c", KILLED, f.announce["replicas"][0]["kv_events"]],
                                  stdout=subprocess.PIPE, text=True)
        stop = threading.Event()

        def load():
            i = 0
            while not stop.is_set():
                i += 1
                complete(f, [i % 250] * 33 + [i // 250])

        thread = threading.Thread(target=load)
        thread.start()
        try:
            eq(victim.stdout.readline(), "got\n")
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            victim.stdout.close()
            before = counts(f)["batches"]
            wait_until(lambda: counts(f)["batches"] > before + 50)
        finally:
            stop.set()
            thread.join()
        compare(f, follower, [([9] * 33 + [0], None)])


def test_adapters(work):
    """An adapter's blocks say whose they are, in every block's extra keys and hash."""
    tokens = list(range(50))
    with fleet(work, *SMALL, "--lora-modules", "sql", "--lora-modules", "law") as f, Follower(f) as follower:
        follower.join()
        for adapter, salt in (("law", None), ("sql", "s")):
            complete(f, tokens, model=adapter, salt=salt)
            follower.catch_up()
            e = follower.index.batches[-1][-1]
            eq((e["lora_id"], e["lora_name"]), (ADAPTERS[adapter], adapter))
            eq(e["extra_keys"], [[adapter, salt] if salt else [adapter], [adapter], [adapter]])
            eq(e["block_hashes"], [int.from_bytes(d[-8:], "big")
                                   for d in digests("vllm-sha256", "vllm-none-hash", tokens, BLOCK, salt, adapter)])
        compare(f, follower, [(tokens, None)])


def test_chunks_of_cpu_memory(work):
    """LMCache's chunks: 256 tokens, hashed as vLLM does, without the salt."""
    args = ("--set", "offload_tokens=768", "--set", "kv_blocks=100", "--set", "max_model_len=1500")
    with fleet(work, *SMALL, *args) as f, Follower(f) as follower:
        follower.join()
        tokens = [i * 7 % 256 for i in range(600)]
        complete(f, tokens, salt="s")
        follower.catch_up()
        index = follower.index
        eq([(e["block_size"], e["token_ids"], e["parent_block_hash"]) for e in index.chunks.values()],
           [(256, tokens[:256], None), (256, tokens[256:512], next(iter(index.chunks)))])
        want = digests("vllm-sha256", "vllm-none-hash", tokens, 256)
        eq(list(index.chunks), [int.from_bytes(d[-8:], "big") for d in want])
        for i in range(3):
            complete(f, [(i + 1) * 31 % 256] * 600)
        follower.catch_up()
        eq(len(index.chunks), 3, "as many as there is room for")
        f.ask("/reset_prefix_cache", {})
        said = complete(f, [3 * 31 % 256] * 600)
        follower.catch_up()
        assert said["usage"]["prompt_tokens_details"]["cached_tokens"] >= 512, said
        compare(f, follower, [([3 * 31 % 256] * 600, None), (tokens, "s")])


def test_a_fleet_of_a_run(work):
    """`perigee run` starts it with the same settings."""
    with zmq.Context() as context:
        with context.socket(zmq.SUB) as sub:
            sub.setsockopt(zmq.LINGER, 0)
            port = sub.bind_to_random_port("tcp://127.0.0.1")
            sub.subscribe(b"")
            work.write("s.lua", """
                local p = require "perigee"
                local chat = require "perigee.chat"
                return p.plan { load = p.closed { users = 2, sessions = 6 }, session = function(vu)
                  local c = chat.new(vu, { max_tokens = 20 })
                  c:user(("a question that is long enough for blocks "):rep(5)):send()
                  vu:sleep(0.3)
                  c:user("and another one"):send()
                end }""")
            config = f"kv_events_endpoint=tcp://127.0.0.1:{port}"
            seen = collections.Counter()
            process = work.start("run", "s.lua", "--sim", "1", "--sim-set", config, "--quiet")
            reader = threading.Thread(target=lambda: result.append(work.finish(process)))
            result = []
            reader.start()
            while reader.is_alive() or sub.poll(0):
                if sub.poll(100):
                    _, _, payload = sub.recv_multipart()
                    seen.update(named(e)["type"] for e in msgpack.unpackb(payload)[1])
            assert result[0].status in (0, 98), result[0].out + result[0].err
            assert seen["BlockStored"] >= 6, seen


def test_the_table_says_where(work):
    process = work.start("sim", "--replicas", "1", "--kv-events", "--set", "kv_events_topic=kv")
    try:
        lines = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()
        text = "".join(lines)
        has(text, "KV events: events are maps, hashes numbers of vllm-sha256, seed vllm-none-hash")
        has(text, "replay tcp://127.0.0.1:")
        has(text, 'topic "kv"')
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_mistakes(work):
    def said(*args):
        result = work.perigee("sim", *args)
        eq(result.status, 2, result.err)
        return result.err

    has(said("--set", "kv_event=on"), "a replica has no field kv_event (did you mean kv_events?)")
    has(said("--set", "kv_events=json"), "on, off, map (vLLM since June 2026), array (before) or sglang is needed")
    has(said("--kv-events-config", '{"topic":"x"}'), "--kv-events-config: kv_events_config: enable_kv_cache_events should be true")
    has(said("--set", "hash_scheme=vllm-sha265", "--kv-events"), "(did you mean vllm-sha256?)")
    has(said("--replicas", "3", "--set", "kv_events_port=65535"), "port 65535 and 2 following ones go beyond 65535")
    result = work.perigee("run", "x.lua", "--sim-set", "kv_events_hwm=many")
    eq(result.status, 2)
    has(result.err, "--sim-set: kv_events_hwm=many: a whole number")
    with fleet(work, *SMALL) as f:
        port = f.announce["replicas"][0]["kv_events"].rsplit(":", 1)[1]
        result = work.perigee("sim", "--replicas", "1", "--set", "kv_events_port=" + port)
        eq(result.status, 1)
        has(result.err, f"replica r0: KV events: tcp://127.0.0.1:{port} is in use; choose another port")


# libzmq's thread frees batches and wakes the loop.
THREADS = ["test_two_replicas", "test_replay_after_a_late_join"]

main(globals())
