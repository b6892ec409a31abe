"""Runs the contract tests and a fixed sample of the others on each release of Spark that whence knows.

Each release has an environment of its own, `.venv-spark-3.5` and so on, which is made here. What came out is written to
tests/versions.json, and the table in docs/versions.md is made from that. `--only 3.5` runs some releases; `--ci` takes
a small part of the sample, and leaves the table alone, as do options that are handed on to pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "versions.md"
RESULTS = ROOT / "tests" / "versions.json"
START, END = "<!-- written by make test-versions -->", "<!-- the end of what make test-versions writes -->"
RELEASES = ("3.5", "4.0", "4.1", "4.2", "4.3")

# Three programs that have every operator of the contract in them.
CONTRACT = [
    f"tests/contract/test_contract.py::TestFlowContract::test_both_ways[{program}-{front_end}]"
    for program in ("meet of totals", "total of a union", "once of a join")
    for front_end in ("sql", "rdd", "actors", "arrays", "arrays forward", "arrays in intervals", "arrays run again")
]
# What is looked at -> its tests: some three minutes on two cores of their own.
SAMPLE = {
    "attach": ["tests/session/test_versions.py"],
    "Spark Connect": ["tests/session/test_connect.py"],
    "one contract for all front ends": CONTRACT,
    "DataFrames and SQL": [
        "tests/sql/test_contents.py",
        "tests/sql/test_operators.py::test_witnesses_where_rows_are_equal",
        "tests/sql/test_why_not.py::test_each_row_is_told_where_it_dropped_out",
    ],
    "Python functions in DataFrames": [
        f"tests/sql/test_python_operators.py::{test}"
        for test in ("test_map_in_pandas_row_by_row", "test_apply_in_pandas", "test_functions_inside_other_operators")
    ],
    "captured results and writes": [
        "tests/sql/test_capture.py::test_uncertain_results_are_traced_as_they_came_out",
        "tests/sql/test_written_elsewhere.py",
        "tests/sql/test_capture_writes.py::test_tables_and_partitions",
    ],
    "RDDs": ["tests/rdd/test_flow.py"],
    "actors": [
        "tests/actors/test_contract.py",
        "tests/actors/test_spark.py::test_map_in_pandas_and_plain_udf_in_one_query",
    ],
    "traces across front ends": [
        "tests/crossing/test_rdd.py::test_sql_to_rdd_to_sql_and_back",
        "tests/crossing/test_streams.py::test_foreach_batch_goes_back_to_the_streams_files",
    ],
    "guard and quarantine": [
        "tests/debug/test_guard.py::test_plain_udf",
        "tests/debug/test_guard.py::test_quarantine_of_a_udf",
        "tests/debug/test_guard_batches.py",
        "tests/debug/test_guard_rdd.py::test_rdds_with_lineage_name_function_record_and_lines",
        "tests/debug/test_guard_sql.py::test_pairs_of_rows_and_groups",
        "tests/debug/test_guard_sql.py::test_writes",
    ],
    "the catalogue": [
        *("tests/watch/test_columns.py", "tests/watch/test_ml.py", "tests/watch/test_streams.py"),
        "tests/watch/test_acceptance.py::test_edges[all formats of df.write]",
    ],
    "arrays on Spark": ["tests/arrays/test_tables.py::test_a_trace_goes_from_a_query_through_arrays_into_tables"],
}
# For CI: every front end once, on what differs most between releases.
TINY = [
    "tests/session/test_versions.py",
    *(test for test in CONTRACT if "total of a union" in test),
    "tests/sql/test_capture_writes.py::test_tables_and_partitions",
    "tests/debug/test_guard.py::test_plain_udf",
    "tests/watch/test_streams.py::test_file_to_file",
]


@dataclass(frozen=True)
class Outcome:
    passed: int = 0
    skipped: int = 0
    failed: int = 0

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed{skipped}" + (f", **{self.failed} failed**" if self.failed else "")

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(self.passed + other.passed, self.skipped + other.skipped, self.failed + other.failed)


@dataclass(frozen=True)
class Release:
    """One environment and what its tests said."""

    pyspark: str
    java: str
    python: str
    day: str
    rooms: dict[str, Outcome]
    reasons: dict[str, int]

    @classmethod
    def read(cls, told: dict[str, Any]) -> Release:
        return cls(**{**told, "rooms": {room: Outcome(**outcome) for room, outcome in told["rooms"].items()}})


def python_of(release: str) -> Path:
    return ROOT / f".venv-spark-{release}" / "bin" / "python"


def prepared(release: str) -> dict[str, str]:
    """Makes the environment; gives the variables its tests run with."""
    setup = [
        sys.executable,
        "scripts/setup_venv.py",
        "--venv",
        f".venv-spark-{release}",
        "--spark",
        release,
        "versions",
    ]
    subprocess.run(setup, cwd=ROOT, check=True)
    java = subprocess.run([python_of(release), "-m", "whence.serve.java"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return {**os.environ, "JAVA_HOME": java.stdout.strip(), "PYSPARK_PYTHON": str(python_of(release))}


def told(release: str, env: dict[str, str]) -> tuple[str, str, str]:
    ask = "import json, platform, pyspark; print(json.dumps([pyspark.__version__, platform.python_version()]))"
    answer = subprocess.run([python_of(release), "-c", ask], stdout=subprocess.PIPE, text=True, check=True, env=env)
    pyspark, python = json.loads(answer.stdout)
    says = subprocess.run([Path(env["JAVA_HOME"], "bin", "java"), "-version"], capture_output=True, text=True, env=env)
    return pyspark, says.stderr.split('"')[1].split(".")[0], python


def run(release: str, files: list[str], env: dict[str, str], options: list[str]) -> ET.Element | None:
    """What pytest wrote down; None if it could not run the tests at all."""
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder, "junit.xml")
        command = [python_of(release), "-m", "pytest", "-q", f"--junitxml={xml}", "-p", "no:cacheprovider", *options]
        done = subprocess.run([*command, *files], cwd=ROOT, env=env)
        if done.returncode not in (0, 1) or not xml.exists():
            print(f"pytest ended with {done.returncode}", file=sys.stderr)
            return None
        return ET.parse(xml).getroot()


def room_of(case: ET.Element) -> str:
    file = case.get("classname", "").replace(".", "/")
    for room, paths in SAMPLE.items():
        if any(file.startswith(path.partition(".py")[0]) for path in paths):
            return room
    return "others"


def counted(results: ET.Element) -> tuple[dict[str, Outcome], dict[str, int]]:
    rooms: dict[str, Outcome] = {}
    reasons: dict[str, int] = {}
    for case in results.iter("testcase"):
        skip = case.find("skipped")
        failed = case.find("failure") is not None or case.find("error") is not None
        one = Outcome(failed=1) if failed else Outcome(skipped=1) if skip is not None else Outcome(passed=1)
        rooms[room_of(case)] = rooms.get(room_of(case), Outcome()) + one
        if skip is not None and not failed:
            reason = skip.get("message", "").removeprefix("Skipped: ").strip()
            reasons[reason] = reasons.get(reason, 0) + 1
    return rooms, reasons


def section(found: dict[str, Release]) -> str:
    heads = [f"Spark {release.pyspark}" for release in found.values()]
    whens = [f"{release.day}, Python {release.python}, Java {release.java}" for release in found.values()]
    lines = [
        f"| | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
        f"| run on | {' | '.join(whens)} |",
    ]
    for room, paths in SAMPLE.items():
        files = dict.fromkeys(path.removeprefix("tests/").partition("::")[0] for path in paths)
        names = ", ".join(f"`{file}`" for file in files)
        cells = " | ".join(str(release.rooms.get(room, Outcome())) for release in found.values())
        lines.append(f"| {room}: {names} | {cells} |")
    whole = " | ".join(str(sum(release.rooms.values(), Outcome())) for release in found.values())
    lines += [f"| **together** | {whole} |", "", "Why tests were skipped:", ""]
    for release in found.values():
        for reason, count in sorted(release.reasons.items()):
            lines.append(f"- Spark {release.pyspark}, {count}: {reason}")
    if lines[-1] == "":
        lines.append("- none was")
    return "\n".join(lines)


def write(found: dict[str, Release]) -> None:
    """The table, of what ran now and what ran before; a release that never ran has no column."""
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known = {name: Release.read(told) for name, told in before.items()} | found
    known = {name: known[name] for name in RELEASES if name in known}
    RESULTS.write_text(json.dumps({name: asdict(release) for name, release in known.items()}, indent=1) + "\n")
    head, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(f"{head}{START}\n\n{section(known)}\n\n{END}{rest.partition(END)[2]}")
    print(f"wrote the table in {PAGE.relative_to(ROOT)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=RELEASES, help="these releases")
    parser.add_argument("--ci", action="store_true", help="a few tests of each front end, in a minute")
    arguments, options = parser.parse_known_args()
    bad: list[str] = []
    for release in arguments.only or RELEASES:
        begun = time.monotonic()
        env = prepared(release)
        pyspark, java, python = told(release, env)
        print(f"\n=== Spark {pyspark}, Java {java}, Python {python}", flush=True)
        files = TINY if arguments.ci else [path for paths in SAMPLE.values() for path in paths]
        results = run(release, files, env, options)
        if results is None:
            bad.append(f"Spark {pyspark}: the tests could not be run")
            continue
        rooms, reasons = counted(results)
        if not arguments.ci and not options:
            write({release: Release(pyspark, java, python, date.today().isoformat(), rooms, reasons)})
        outcome = sum(rooms.values(), Outcome())
        print(f"=== Spark {pyspark}: {outcome}, {time.monotonic() - begun:.0f} s", flush=True)
        if outcome.failed:
            bad.append(f"Spark {pyspark}: {outcome.failed} failed")
    for line in bad:
        print(line, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
