"""Runs test files in lanes side by side, each lane one pytest with a Spark session of its own.

The lanes take their files from one queue (lane.py), those first that took longest the last time (tests/durations.json;
`--remember` writes it anew), so that all of them end together."""

from __future__ import annotations

import argparse
import json
import os
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
LANES = 3  # on two cores: a lane often waits, for Python, for the JVM or for a program beside it
TOLD_LINES = 12  # of what a failed test said
NOTHING_THERE = 5  # pytest's exit code when no test was selected


def in_turn(files: list[str]) -> list[str]:
    """The longest first, so that the lanes end together."""
    known = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    return sorted(files, key=lambda file: (-known.get(file, UNKNOWN), file))


def run(lane: int, results: Path, coverage: bool, options: list[str], codes: dict[int, int]) -> None:
    python = [sys.executable, *(["-m", "coverage", "run"] if coverage else [])]
    lists = [str(results / "files"), str(results / "queue")]
    command = [*python, "scripts/lane.py", *lists, f"--junitxml={results / f'{lane}.xml'}", *options]
    environment = {**os.environ, "COVERAGE_FILE": str(results / f"coverage.{lane}")}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        print(f"{lane}| {line}", end="", flush=True)
    codes[lane] = process.wait()
    print(f"{lane}| has nothing left to do", flush=True)


def seconds(results: Path) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for xml in results.glob("*.xml"):
        for case in ET.parse(xml).iter("testcase"):
            parts = case.get("classname", "").split(".")
            paths = ("/".join(parts[:i]) + ".py" for i in range(len(parts), 0, -1))
            found[next((path for path in paths if (ROOT / path).exists()), "")] += float(case.get("time", 0))
    return {file: round(took, 1) for file, took in sorted(found.items()) if file}


def failures(results: Path) -> list[str]:
    """The tests that failed, with what they said: told once more at the very end, where people look first."""
    told = []
    for xml in sorted(results.glob("*.xml")):
        for case in ET.parse(xml).iter("testcase"):
            for wrong in [*case.iter("failure"), *case.iter("error")]:
                said = "\n  ".join((wrong.get("message") or wrong.text or "").strip().splitlines()[:TOLD_LINES])
                told.append(f"FAILED {case.get('classname')}::{case.get('name')}\n  {said}")
    return told


def reached(results: Path) -> int:
    """Prints which lines were reached. Fails below the `fail_under` of pyproject.toml, if there is one."""
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.run([*coverage, "combine", "-q", *map(str, results.glob("coverage.*"))], cwd=ROOT, check=True)
    return subprocess.run([*coverage, "report", "--skip-covered"], cwd=ROOT, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", default=["tests"], help="folders and files of tests")
    parser.add_argument("--without", nargs="*", default=[], help="folders and files that are left out")
    parser.add_argument("--lanes", type=int, default=LANES)
    parser.add_argument("--coverage", action="store_true", help="say which lines of whence the tests reach")
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
        for name in ("files", "queue"):
            (Path(results) / name).write_text("\n".join(in_turn(files)))
        threads = [
            threading.Thread(target=run, args=(lane, Path(results), arguments.coverage, options, codes))
            for lane in range(1, min(arguments.lanes, len(files)) + 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took, wrong = seconds(Path(results)), failures(Path(results))
        short = reached(Path(results)) if arguments.coverage else 0
    if arguments.remember:
        before = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        known = {file: s for file, s in sorted({**before, **took}.items()) if (ROOT / file).exists()}
        DURATIONS.write_text(json.dumps(known, indent=1) + "\n")
    longest = sorted(took.items(), key=lambda item: -item[1])[:15]
    print("\nlongest files: " + ", ".join(f"{file} {s:.0f} s" for file, s in longest))
    print(f"{len(files)} files in {len(codes)} lanes, {time.monotonic() - begun:.0f} s: exit codes {codes}")
    print("\n".join(wrong))
    return max(short, *(code for code in codes.values() if code != NOTHING_THERE), 0)


if __name__ == "__main__":
    sys.exit(main())
