"""Millions of random steps of the engine model against a slow obvious one (tests/unit/engine_walk.h), other seeds each time."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from harness import ROOT, eq, main  # noqa: E402


def test_the_engine_is_what_the_model_is(work):
    """ENGINE_STEPS steps without tiers and as many with them; the seeds are printed, and a failure names its own."""
    build = os.environ.get("BUILD", os.path.join(ROOT, "build"))
    subprocess.run(["make", "-s", f"BUILD={build}", f"{build}/unit/test_engine"], cwd=ROOT, check=True)
    env = {"ENGINE_STEPS": "6000000", "ENGINE_SEED": str(int(time.time()) % 10**8 * 100_000), **os.environ}
    done = subprocess.run([f"{build}/unit/test_engine"], env=env, text=True, capture_output=True, check=False)
    print(done.stdout)
    eq(done.returncode, 0, done.stderr)


main(globals())
