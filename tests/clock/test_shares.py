"""Overlapping sessions: shares of a dry run and of a real one agree within two points, best of three.

When a real session goes on depends on how fast this machine is; what does not is in tests/e2e/test_dry.py.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from dryscript import both  # noqa: E402
from harness import eq, main  # noqa: E402


def cached_share(result):
    return sum(r["cached_tokens"] for r in result.rows) / sum(r["prompt_tokens"] for r in result.rows)


def share(result, replica):
    rows = result.rows
    return 100 * sum(r["served"] == replica for r in rows) / len(rows)


def test_overlapping_sessions_agree_in_shares(work):
    for policy in ("session_hash", "least_inflight"):
        real, dry = both(work, "--sim", "3", "--profile", "adr-04", "--sim-set", "prefill_tokens_per_s=20000", "--set", "load=many",
                         "--set", f"policy={policy}")
        eq({r["error"] for r in real.rows + dry.rows}, {None})
        a, b = (100 * cached_share(r) for r in (real, dry))
        assert abs(a - b) <= 2, f"{policy}: cached share {a:.1f} % real, {b:.1f} % dry"
        for replica in ("r0", "r1", "r2"):
            a, b = share(real, replica), share(dry, replica)
            assert abs(a - b) <= 2, f"{policy}: {replica} got {a:.1f} % real, {b:.1f} % dry"


main(globals())
