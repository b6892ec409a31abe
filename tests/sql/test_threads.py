"""Two threads with one session: whence's own work stays apart from the user's, and traces run side by side."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import whence
from whence.model.once import once
from whence.model.quiet import AGAIN, QUIET, tagged

WAIT = 60  # seconds, after which a thread that the others wait for has surely failed


def test_the_users_writes_enter_the_catalogue_after_any_mixture_of_threads(
    w: whence.Session, spark: SparkSession, tmp_path: Path
) -> None:
    c, context = w._plans(), spark.sparkContext
    inside, both, left = threading.Event(), threading.Event(), threading.Event()
    frame = spark.range(3)

    def write(name: str) -> None:
        frame.write.parquet(str(tmp_path / name))

    def first() -> set[str]:
        with c.quietly():
            inside.set()
            assert both.wait(WAIT)
        left.set()
        write("of the first")
        return set(context.getJobTags())

    def second() -> set[str]:
        assert inside.wait(WAIT)
        with c.quietly():
            both.set()
            assert left.wait(WAIT)
            assert {QUIET, AGAIN} <= set(context.getJobTags())
            write("whence's own")
        write("of the second")
        return set(context.getJobTags())

    with ThreadPoolExecutor(2) as threads:
        tags = [thread.result() for thread in (threads.submit(first), threads.submit(second))]
    assert tags == [set(), set()]
    written = {Path(d.name).name for d in w.catalog.datasets()}
    assert written == {"of the first", "of the second"}


def test_blocks_inside_each_other(w: whence.Session, spark: SparkSession) -> None:
    """A trace inside a call that is quiet already (a model's `fit`, say) does not end its quiet."""
    context = spark.sparkContext
    with tagged(context, QUIET):
        with w._plans().quietly():
            assert AGAIN in set(context.getJobTags())
        assert set(context.getJobTags()) == {QUIET}
    assert set(context.getJobTags()) == set()


def test_what_runs_for_the_first_time_is_not_again(w: whence.Session, spark: SparkSession) -> None:
    c, context = w._plans(), spark.sparkContext
    with c.quietly(first=True), c.quietly():
        assert QUIET in set(context.getJobTags())
        assert AGAIN not in set(context.getJobTags())


def test_traces_of_two_threads(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    spark.range(12).selectExpr("id", "id % 3 k").write.parquet(str(tmp_path / "t"))
    totals = spark.read.parquet(str(tmp_path / "t")).groupBy("k").sum("id")
    together = threading.Barrier(2)

    def witnesses(key: int) -> list[int]:
        together.wait(WAIT)
        trace = w.backward(totals.where(f"k = {key}"))
        return sorted(row.id for row in trace["t"].collect())

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(witnesses, (0, 2))) == [[0, 3, 6, 9], [2, 5, 8, 11]]


def test_rooms_are_opened_once(w: whence.Session) -> None:
    together = threading.Barrier(4)

    def rooms(_: int) -> tuple[int, ...]:
        together.wait(WAIT)
        return id(w._plans()), id(w.context), id(w.actors)

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(rooms, range(4)))) == 1


class _Slow:
    def __init__(self, together: threading.Barrier) -> None:
        self.together, self.times = together, 0

    @once
    def value(self) -> int:
        """Worked out with others."""
        self.times += 1
        self.together.wait(WAIT)
        return self.times


def test_once_for_each_object() -> None:
    together = threading.Barrier(2)
    one, other = _Slow(together), _Slow(together)

    def ask(slow: Any) -> int:
        value: int = slow.value
        return value

    with ThreadPoolExecutor(4) as threads:  # each is asked twice, and the two wait for each other
        assert list(threads.map(ask, (one, other, one, other))) == [1, 1, 1, 1]
    assert isinstance(_Slow.value, once)
    assert _Slow.value.__doc__ == "Worked out with others."
