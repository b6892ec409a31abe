"""Runs test files in lanes side by side, each lane one pytest with a Spark session of its own.

Files are dealt beforehand by the processor time that they took the last time (tests/durations.json; `--remember` writes
it anew, see tests/spent.py), so that all lanes end together. What a lane runs, and in which order, follows from that
file alone: a run can be repeated, and so can one lane of it (`--only 2`). Files of `--beside`, those that start
programs and wait for them, come one after the other in one more lane, beside others that compute."""

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
SPENT = "processor seconds"  # as tests/spent.py names them
NOTHING_THERE = 5  # pytest's exit code when no test was selected


def dealt(files: list[str], beside: list[str], lanes: int) -> list[list[str]]:
    """The longest first, each to the lane that has least to do; of several such lanes, to the first. Those of `beside`
    fill the last lane first, up to a lane's share."""
    known = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    took = {file: known.get(file, UNKNOWN) for file in {*files, *beside}}
    hands: list[list[str]] = [[] for _ in range(min(lanes, len(took)))]
    sums = [0.0] * len(hands)

    def in_turn(some: list[str]) -> list[str]:
        return sorted(dict.fromkeys(some), key=lambda file: (-took[file], file))

    for file in [*in_turn(beside), *in_turn([file for file in files if file not in beside])]:
        fits = file in beside and sums[-1] + took[file] <= sum(took.values()) / len(hands)
        lane = len(hands) - 1 if fits else sums.index(min(sums))
        hands[lane].append(file)
        sums[lane] += took[file]
    return hands


def found(paths: list[str], left_out: list[str]) -> list[str]:
    """The files of tests in folders, and files as they are."""
    without = [(ROOT / path).resolve() for path in left_out]
    files = []
    for path in paths:
        whole = (ROOT / path).resolve()
        for file in [whole] if whole.is_file() else sorted(whole.rglob("test_*.py")):
            if not any(file == other or other in file.parents for other in without):
                files.append(str(file.relative_to(ROOT)))
    return files


def run(
    lane: int,
    files: list[str],
    results: Path,
    coverage: bool,
    more: dict[str, str],
    options: list[str],
    codes: dict[int, int],
) -> None:
    python = [sys.executable, *(["-m", "coverage", "run"] if coverage else []), "-m", "pytest"]
    command = [*python, *files, f"--junitxml={results / f'{lane}.xml'}", *options]
    # Sets are walked in one order too.
    environment = {**os.environ, **more, "COVERAGE_FILE": str(results / f"coverage.{lane}"), "PYTHONHASHSEED": "0"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        print(f"{lane}| {line}", end="", flush=True)
    codes[lane] = process.wait()
    print(f"{lane}| has nothing left to do", flush=True)


def seconds(results: Path) -> dict[str, float]:
    """Of each file: processor seconds where they were measured, else those of the clock."""
    found: dict[str, float] = defaultdict(float)
    for xml in results.glob("*.xml"):
        for case in ET.parse(xml).iter("testcase"):
            parts = case.get("classname", "").split(".")
            paths = ("/".join(parts[:i]) + ".py" for i in range(len(parts), 0, -1))
            spent = case.find(f"properties/property[@name='{SPENT}']")
            took = case.get("time", 0) if spent is None else spent.get("value", 0)
            found[next((path for path in paths if (ROOT / path).exists()), "")] += float(took)
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
    parser.add_argument("--beside", nargs="*", default=[], help="those that mostly wait: run too, in one more lane")
    parser.add_argument("--lanes", type=int, default=LANES)
    parser.add_argument("--only", type=int, help="run this lane alone, as it would be run among the others")
    parser.add_argument("--coverage", action="store_true", help="say which lines of whence the tests reach")
    parser.add_argument("--remember", action="store_true", help="write down what processor time each file took")
    arguments, options = parser.parse_known_args()
    beside = found(arguments.beside, [])
    hands = dealt(found(arguments.paths, arguments.without), beside, arguments.lanes + bool(beside))
    more = {"WHENCE_TESTS_SPENT": "1"} if arguments.remember else {}
    begun = time.monotonic()
    codes: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as results:
        threads = [
            threading.Thread(target=run, args=(lane, files, Path(results), arguments.coverage, more, options, codes))
            for lane, files in enumerate(hands, 1)
            if arguments.only in (None, lane)
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
    print(f"{len(took)} files in {len(codes)} lanes, {time.monotonic() - begun:.0f} s: exit codes {codes}")
    print("\n".join(wrong))
    # A lane that was killed has a code below 0.
    return max(short, *(abs(code) for code in codes.values() if code != NOTHING_THERE), 0)


if __name__ == "__main__":
    sys.exit(main())
