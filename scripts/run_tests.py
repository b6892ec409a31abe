"""All tests, in two lanes at once: much of a test's time is waiting for Spark, so one lane alone leaves a core idle.

Arguments go to pytest; tests named in them are run in one lane. The second lane's output is printed when it ends.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Where Spark is asked most; everything else, tests/docs aside (make check), is the other lane.
FIRST = ("sql", "session", "store", "serve", "bench")
ELSEWHERE = ("docs",)


def lanes() -> list[list[str]]:
    entries = sorted(p for p in (ROOT / "tests").iterdir() if p.is_dir() or p.name.startswith("test_"))
    names = [p.name for p in entries if not p.name.startswith((".", "__")) and p.name not in ELSEWHERE]
    first = [f"tests/{name}" for name in names if name in FIRST]
    return [first, [f"tests/{name}" for name in names if name not in FIRST]]


def main() -> int:
    given = sys.argv[1:]
    pytest = [sys.executable, "-m", "pytest"]
    if any((ROOT / argument.split("::")[0]).exists() for argument in given):
        return subprocess.call([*pytest, *given], cwd=ROOT)
    first, second = lanes()
    with tempfile.TemporaryFile() as kept:
        beside = subprocess.Popen([*pytest, *given, *second], cwd=ROOT, stdout=kept, stderr=subprocess.STDOUT)
        try:
            found = subprocess.call([*pytest, *given, *first], cwd=ROOT)
        finally:
            other = beside.wait()
            kept.seek(0)
            print(kept.read().decode(errors="replace"))
    return found or other


if __name__ == "__main__":
    sys.exit(main())
