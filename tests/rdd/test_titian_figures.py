"""The paper's examples: figures 1, 5, 6, 7, 10 and 12, and single steps."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import whence
from whence.rdd import LineageRDD

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "rdd_log_analysis.py"), run_name="example")
LOG, DESCRIPTIONS = EXAMPLE["LOG"], EXAMPLE["DESCRIPTIONS"]
LINES = LOG.splitlines()


class Program:
    """Figure 1."""

    def __init__(self, w: whence.Session, path: Path) -> None:
        path.write_text(LOG)
        self.lines: LineageRDD = w.context.textFile(str(path), 3)
        self.errors = self.lines.filter(lambda line: line.startswith("ERROR"))
        self.codes = self.errors.map(lambda line: line.split("\t")[1])
        self.pairs = self.codes.map(lambda code: (code, 1))
        self.counts = self.pairs.reduceByKey(lambda a, b: a + b)
        self.reports = self.counts.map(lambda kv: (DESCRIPTIONS[kv[0]], kv[1]))
        self.result = self.reports.collect()


@pytest.fixture
def program(w: whence.Session, tmp_path: Path) -> Program:
    return Program(w, tmp_path / "log.tsv")


def test_the_job_itself(program: Program) -> None:
    assert sorted(program.result) == [("Disk full", 1), ("Failure", 3), ("No route", 1), ("Timeout", 1)]


def test_figure_5_lines_of_the_most_frequent_error(program: Program) -> None:
    pair = program.reports.sortBy(lambda kv: kv[1], ascending=False).take(1)[0]
    lineage = program.reports.filter(lambda kv: kv == pair).getLineage()
    assert lineage.goBackAll().collect() == [line for line in LINES if line.startswith("ERROR\t4")]
    assert lineage.exact


def test_figure_6_reports_touched_by_the_network(program: Program) -> None:
    network = program.lines.filter(lambda line: "NETWORK" in line)
    touched = network.getLineage().goNextAll()
    assert sorted(touched.collect()) == [("Failure", 3), ("No route", 1), ("Timeout", 1)]


def test_figure_7_replay_without_guest(program: Program) -> None:
    kept = program.reports.getLineage().goBackAll().filter(lambda line: "Guest" not in line)
    again = (
        kept.map(lambda line: (line.split("\t")[1], 1))
        .reduceByKey(lambda a, b: a + b)
        .map(lambda kv: (DESCRIPTIONS[kv[0]], kv[1]))
    )
    assert sorted(again.collect()) == [("Failure", 1), ("No route", 1), ("Timeout", 1)]
    corrupt = again.filter(lambda kv: kv[0] == "Failure").getLineage().goBackAll()
    assert corrupt.collect() == [LINES[4]]


def test_figure_10_and_12_back_from_a_report_and_on_with_native_transformations(program: Program) -> None:
    lines = program.reports.filter(lambda kv: kv[0] == "Failure").getLineage().goBackAll()
    assert lines.collect() == [LINES[1], LINES[4], LINES[6]]
    assert lines.filter(lambda line: "Zookeeper" in line).collect() == [LINES[1], LINES[4]]


def test_one_step_at_a_time(program: Program) -> None:
    here = program.reports.filter(lambda kv: kv[0] == "Failure").getLineage()
    assert here.collect() == [("Failure", 3)]
    assert here.goBack().collect() == [("4", 3)]
    assert here.goBack().goBack().collect() == [("4", 1)] * 3
    assert here.goBack().goBack().goBack().collect() == [LINES[1], LINES[4], LINES[6]]
    there = program.lines.filter(lambda line: "eth0" in line).getLineage()
    assert there.goNext().collect() == [("3", 1)]
    assert there.goNext().goNext().collect() == [("3", 1)]
    assert there.goNext().goNext().goNext().collect() == [("No route", 1)]


def test_lazy_like_any_transformation(program: Program, tmp_path: Path) -> None:
    lineage = program.reports.getLineage().goBackAll()
    (tmp_path / "log.tsv").write_text("")
    with pytest.raises(whence.SourceChanged, match=r"log\.tsv"):
        lineage.collect()


def test_show_tells_file_and_offset(program: Program, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program.reports.filter(lambda kv: kv[0] == "Disk full").getLineage().goBackAll().show()
    offset = LOG.index(LINES[5])
    assert capsys.readouterr().out == f"{tmp_path / 'log.tsv'}, byte {offset}\t{LINES[5]}\n"


def test_inside_a_stage(program: Program) -> None:
    failure = program.reports.filter(lambda kv: kv[0] == "Failure").getLineage()
    assert failure.goBack(to=program.errors).collect() == [LINES[1], LINES[4], LINES[6]]
    assert failure.goBack(to=program.codes).collect() == ["4"] * 3
    assert failure.goBack(to=program.pairs).collect() == [("4", 1)] * 3
    assert failure.goBack(to=program.counts).collect() == [("4", 3)]


def test_the_example_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, w: Any) -> None:
    monkeypatch.setattr(type(w.spark), "stop", lambda self: None)
    EXAMPLE["main"]()
    said = capsys.readouterr().out
    assert "reports without Guest: [('Failure', 1), ('No route', 1), ('Timeout', 1)]" in said
    assert "Failures of Zookeeper: ['ERROR\\t4\\tGuest\\tNETWORK Zookeeper lost its leader'" in said
