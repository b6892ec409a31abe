"""The lanes of `make test`: every file is run once, always by the same lane and after the same others, and a failure in
any of them is told."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from scripts import lanes

import spent

FILE = """
import os

# Made from a list: a set that stands in the code may be in another order in byte-code.
print(set("in which order sets are walked".split()))

def test_first():
    pass

def test_second():
    assert {number} != 2

def test_third():
    if {number} == 3 and "END_LANE" in os.environ:
        os.abort()
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files of 0, 1, 2, ... seconds, in a place of their own."""
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    monkeypatch.setattr(lanes, "DURATIONS", tmp_path / "durations.json")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # nothing there needs any, and they start slowly
    files = [f"test_{number}.py" for number in range(8)]
    lanes.DURATIONS.write_text(json.dumps({file: float(number) for number, file in enumerate(files)}))
    for number, file in enumerate(files):
        (tmp_path / file).write_text(FILE.format(number=number))
    return files


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["lanes.py", *arguments, "-p", "no:cacheprovider", "-q"])
    return lanes.main()


def test_files_are_dealt_by_how_long_they_took(files: list[str]) -> None:
    dealt = lanes.dealt(files, [], 3)
    assert dealt == [
        ["test_7.py", "test_2.py", "test_1.py"],
        ["test_6.py", "test_3.py", "test_0.py"],
        ["test_5.py", "test_4.py"],
    ]
    assert lanes.dealt(files[::-1], [], 3) == dealt
    assert lanes.dealt([*files, "test_new.py"], [], 3)[0][0] == "test_new.py"


def test_files_that_wait_fill_a_lane_up_to_its_share(files: list[str]) -> None:
    few = lanes.dealt(files, ["test_1.py", "test_3.py"], 3)
    assert few[-1] == ["test_3.py", "test_1.py", "test_5.py"]
    assert sorted(chain(*few)) == files
    many = lanes.dealt(files, files[3:], 3)
    assert many == [
        ["test_6.py", "test_3.py", "test_1.py"],
        ["test_5.py", "test_4.py", "test_0.py"],
        ["test_7.py", "test_2.py"],
    ], "28 seconds in three lanes: with 6, 5, 4 or 3 more the last would have had more than its share"
    assert sorted(chain(*many)) == files


def test_every_file_is_run_once_and_a_failure_is_told(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "test_0.py", "test_1.py", "test_2.py", "--lanes", "2") == 1
    said = capsys.readouterr().out
    assert "3 files in 2 lanes" in said
    assert "FAILED test_2::test_second" in said
    assert run(monkeypatch, ".", "--without", "test_2.py", "--beside", "test_7.py", "--lanes", "2", "--remember") == 0
    said = capsys.readouterr().out
    assert "7 files in 3 lanes" in said
    assert said.count("passed in") == 3
    assert set(json.loads(lanes.DURATIONS.read_text())) == set(files)


def test_processor_time_is_what_is_remembered_where_it_was_measured(files: list[str], tmp_path: Path) -> None:
    measured = f'<properties><property name="{spent.NAME}" value="2.5"/></properties>'
    cases = [f'<testcase classname="test_1" name="a" time="9">{measured}</testcase>']
    cases += [f'<testcase classname="{name}" name="b" time="1"/>' for name in ("test_1", "test_2.Some")]
    (tmp_path / "1.xml").write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    assert lanes.seconds(tmp_path) == {"test_1.py": 3.5, "test_2.py": 1.0}


def test_the_time_of_a_program_counts_when_it_has_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    before = spent.spent()
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert sum(spent.spent().values()) - sum(before.values()) > 0.1


def test_one_lane_can_be_run_again(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, ".", "--only", "3", "--lanes", "3", "-vv") == 0
    ran = [line.split("::")[0].removeprefix("3| ") for line in capsys.readouterr().out.splitlines() if "::test" in line]
    assert list(dict.fromkeys(ran)) == ["test_5.py", "test_4.py"]


def test_sets_are_walked_in_one_order(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = set()
    for _ in range(2):
        assert run(monkeypatch, "test_0.py", "-s") == 0
        seen |= {line for line in capsys.readouterr().out.splitlines() if "walked" in line}
    assert len(seen) == 1


def test_a_lane_that_ends_in_the_middle_is_no_success(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("END_LANE", "1")
    assert run(monkeypatch, "test_3.py", "test_4.py", "--lanes", "2") != 0


def test_lines_that_too_few_tests_reach_are_no_success(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "half.py").write_text("def reached():\n    return 1\n\n\ndef missed():\n    return 2\n")
    (tmp_path / "test_half.py").write_text("import half\n\n\ndef test_half():\n    assert half.reached() == 1\n")
    for least, code in ((75, 0), (76, 2)):
        (tmp_path / ".coveragerc").write_text(f"[run]\nsource = .\nomit = test_*\n[report]\nfail_under = {least}\n")
        assert run(monkeypatch, "test_half.py", "--lanes", "1", "--coverage") == code
        assert "75%" in capfd.readouterr().out
