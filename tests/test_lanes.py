"""The lanes of `make test`: every file is run once, by one of them, and a failure in any is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

LANE = Path(__file__).parents[1] / "scripts" / "lane.py"
FILE = """
def test_first():
    pass

def test_second():
    assert {number} != 2
"""


def test_every_file_is_run_once_and_a_failure_is_told(tmp_path: Path) -> None:
    files = [f"test_{number}.py" for number in range(4)]
    for number, file in enumerate(files):
        (tmp_path / file).write_text(FILE.format(number=number))
    for name in ("files", "queue"):
        (tmp_path / name).write_text("\n".join(files))
    lanes = [
        subprocess.Popen(
            [sys.executable, LANE, "files", "queue", f"--junitxml={lane}.xml", "-p", "no:cacheprovider"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for lane in (1, 2)
    ]
    said = [lane.communicate()[0] for lane in lanes]
    cases = [case for lane in (1, 2) for case in ElementTree.parse(tmp_path / f"{lane}.xml").iter("testcase")]
    assert sorted(f"{case.get('classname')}.{case.get('name')}" for case in cases) == [
        f"test_{number}.test_{name}" for number in range(4) for name in ("first", "second")
    ]
    failed = [1 if "FAILED test_2.py::test_second" in text else 0 for text in said]
    assert sum(failed) == 1, said
    assert all(lane.returncode in ({1} if bad else {0, 5}) for lane, bad in zip(lanes, failed, strict=True)), said
