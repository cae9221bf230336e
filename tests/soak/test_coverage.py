"""How often 95 % intervals hold the truth: the table of src/out/interval.h and ROW.md, by simulation."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from harness import ROOT, eq, main  # noqa: E402


def test_intervals_hold_the_truth(work):
    """Lognormal values, 1 to 8 per session, half of their spread between sessions; the program judges each figure."""
    build = os.environ.get("BUILD", os.path.join(ROOT, "build"))
    subprocess.run(["make", "-s", f"BUILD={build}", f"{build}/unit/test_interval"], cwd=ROOT, check=True)
    done = subprocess.run([f"{build}/unit/test_interval"], env={**os.environ, "COVERAGE_RUNS": "5000"}, text=True,
                          capture_output=True, check=False)
    print(done.stdout)
    eq(done.returncode, 0, done.stderr)


main(globals())
