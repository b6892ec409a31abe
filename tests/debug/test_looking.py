"""What a look at a trace costs: what was computed to find and to count the witnesses is not computed again for it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from whence.debug import show
from whence.debug.trace import Trace
from whence.progress import so_far, working

pytestmark = pytest.mark.usefixtures("tiny")

MANY = 6000  # more than a trace keeps on the driver


def jobs(spark: SparkSession) -> int:
    """How many jobs Spark has run."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


@pytest.fixture
def trace(w: whence.Session, tmp_path: Path) -> Trace:
    w.spark.range(MANY).selectExpr("id", "id % 3 AS k", "id * 10 AS amount").write.parquet(str(tmp_path / "sales"))
    w.spark.range(3).selectExpr("id AS k", "concat('city ', id) AS city").write.parquet(str(tmp_path / "cities"))
    sales, cities = (w.spark.read.parquet(str(tmp_path / name)) for name in ("sales", "cities"))
    return w.backward(sales.join(cities, "k").groupBy("city").sum("amount").where("city = 'city 1'"))


def test_a_second_look_at_a_trace_runs_no_job(w: whence.Session, trace: Trace) -> None:
    text = str(trace)
    before = jobs(w.spark)
    assert str(trace) == text
    assert "city 1" in trace._repr_html_()
    trace.show()
    assert trace.step_counts() == trace.step_counts()
    assert jobs(w.spark) == before


def test_first_rows_of_counted_witnesses_are_read_without_a_job(w: whence.Session, trace: Trace) -> None:
    assert trace.witness_counts == {"sales": MANY // 3, "cities": 1}
    counted = jobs(w.spark)
    rows = trace.first_rows("sales", 5)
    assert len(set(rows)) == 5
    assert all(row.k == row.id % 3 == 1 and row.amount == 10 * row.id for row in rows)
    assert [row.city for row in trace.first_rows("cities", 5)] == ["city 1"]
    assert jobs(w.spark) == counted


def test_what_the_driver_counted_once_is_counted_once(w: whence.Session, trace: Trace) -> None:
    _ = trace.witness_counts
    counted = jobs(w.spark)
    counts = trace.step_counts()
    assert jobs(w.spark) == counted
    assert counts == tuple(trace.at(step).count() for step in trace.steps)


def test_the_tree_comes_first_then_counts_then_rows(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(show, "so_far", lambda lines: seen.append("\n".join(lines)))
    text = str(trace)
    tree, counted, one, both = seen
    assert "Join" in tree
    assert "row" not in tree.split("\n", 1)[1].replace("not shown; t.steps", "")
    assert "rows)" in counted
    assert "witness" not in counted
    assert one.count(" witness") == 1
    assert text.startswith(both)


def test_what_is_known_stands_below_the_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # another test's notebook
    so_far(["nobody waits: not shown"])
    with working("tracing [bold]"):
        so_far(["the tree"])
        with working("reading"):
            pass
    assert "not shown" not in terminal.getvalue()
    assert "the tree" in terminal.getvalue()
    assert "tracing [bold]" in terminal.getvalue()
