"""Runs test files in lanes side by side, each lane one pytest with a Spark session of its own.

Most tests wait for Spark's latency, not for a core, so that two lanes take little more than half the time of one. Files
are dealt out by how long they took the last time (tests/durations.json; `--remember` writes it anew)."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DURATIONS = ROOT / "tests" / "durations.json"
UNKNOWN = 10.0  # seconds, of a file that nobody has timed
NOTHING_THERE = 5  # pytest's exit code when no test was selected


def dealt(files: list[str], lanes: int) -> list[list[str]]:
    """The longest first, each to the lane that has the least to do."""
    known = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    hands: list[tuple[float, list[str]]] = [(0.0, []) for _ in range(lanes)]
    for file in sorted(files, key=lambda f: (-known.get(f, UNKNOWN), f)):
        least = min(range(lanes), key=lambda i: hands[i][0])
        hands[least] = (hands[least][0] + known.get(file, UNKNOWN), [*hands[least][1], file])
    # Within a lane files of one folder stand together: they share what their folder sets up.
    return [sorted(hand) for _, hand in hands if hand]


def run(lane: int, files: list[str], options: list[str], results: Path, codes: dict[int, int]) -> None:
    xml = results / f"{lane}.xml"
    command = [sys.executable, "-m", "pytest", f"--junitxml={xml}", "-q", *options, *files]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        print(f"{lane}| {line}", end="", flush=True)
    codes[lane] = process.wait()


def seconds(results: Path) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for xml in results.glob("*.xml"):
        for case in ET.parse(xml).iter("testcase"):
            parts = case.get("classname", "").split(".")
            paths = ("/".join(parts[:i]) + ".py" for i in range(len(parts), 0, -1))
            found[next((path for path in paths if (ROOT / path).exists()), "")] += float(case.get("time", 0))
    return {file: round(took, 1) for file, took in sorted(found.items()) if file}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", default=["tests"], help="folders and files of tests")
    parser.add_argument("--without", nargs="*", default=[], help="folders and files that are left out")
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--remember", action="store_true", help="write down how long each file took")
    arguments, options = parser.parse_known_args()
    left_out = [(ROOT / path).resolve() for path in arguments.without]
    files: list[str] = []
    for path in arguments.paths:
        whole = (ROOT / path).resolve()
        for file in [whole] if whole.is_file() else sorted(whole.rglob("test_*.py")):
            if not any(file == other or other in file.parents for other in left_out):
                files.append(str(file.relative_to(ROOT)))
    begun = time.monotonic()
    codes: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as results:
        hands = dealt(files, arguments.lanes)
        threads = [
            threading.Thread(target=run, args=(lane, hand, options, Path(results), codes))
            for lane, hand in enumerate(hands, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = seconds(Path(results))
    if arguments.remember:
        before = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        known = {file: s for file, s in sorted({**before, **took}.items()) if (ROOT / file).exists()}
        DURATIONS.write_text(json.dumps(known, indent=1) + "\n")
    longest = sorted(took.items(), key=lambda item: -item[1])[:15]
    print("\nlongest files: " + ", ".join(f"{file} {s:.0f} s" for file, s in longest))
    print(f"{len(files)} files in {len(codes)} lanes, {time.monotonic() - begun:.0f} s: exit codes {codes}")
    return max((code for code in codes.values() if code != NOTHING_THERE), default=0)


if __name__ == "__main__":
    sys.exit(main())
