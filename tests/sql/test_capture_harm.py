"""Under capture the user's own job is as without it: the same rows and errors, nothing run twice, nothing left over."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from sql.test_operators import T
from whence.spark.frames import ClassicDataFrame
from whence.sql.capture import Capture


@pytest.fixture(scope="module")
def session(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    with whence.attach(tiny, store=tmp_path_factory.mktemp("store")) as w:
        tiny.sql(T).createOrReplaceTempView("t")
        yield w


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """A file that gets a line for each call of a function."""
    return tmp_path / "calls"


def count(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_new_dataframe_is_computed_anew(session: whence.Session, tmp_path: Path) -> None:
    spark, state = session.spark, tmp_path / "state"
    place = str(state)
    polled = F.udf(lambda _: open(place, encoding="ascii").read(), "string").asNondeterministic()  # noqa: SIM115

    def poll() -> list[str]:
        return [row[0] for row in spark.range(1).select(polled("id")).collect()]

    def source() -> list[str]:
        return [row[0] for row in spark.read.text(str(tmp_path / "lines")).limit(1).collect()]

    with session.capture():
        for value in ("one", "two"):
            state.write_text(value)
            (tmp_path / "lines").write_text(value)
            os.utime(tmp_path / "lines", (1, 1))  # of the same size and time
            assert poll() == [value]
            assert source() == [value]
        times = {spark.sql("select current_timestamp()").collect()[0][0] for _ in range(3)}
        assert len(times) == 3
        # One DataFrame, and what is derived from it, has one result.
        drawn = spark.table("t").select("rid", polled("rid").alias("r"))
        first = drawn.collect()
        state.write_text("three")
        assert drawn.where("rid < 3").collect() == [row for row in first if row.rid < 3]
    assert session.backward(drawn.where("rid < 3")).outputs().count() == 3


def test_a_source_that_was_replaced_gives_its_new_rows(session: whence.Session, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("old\n")
    some = session.spark.read.text(str(lines)).limit(1)
    with session.capture():
        assert [row.value for row in some.collect()] == ["old"]
        lines.write_text("newer\n")
        assert [row.value for row in some.collect()] == ["newer"]


def test_rows_keep_their_order(session: whence.Session, tmp_path: Path) -> None:
    conf = session.spark.conf
    before = conf.get("spark.sql.shuffle.partitions")
    conf.set("spark.sql.shuffle.partitions", "12")  # as many files
    try:
        rows = session.spark.range(40).selectExpr("id", "id % 7 k").orderBy("k", "id")
        with session.capture():
            found = rows.withColumn("r", F.rand()).collect()
    finally:
        conf.set("spark.sql.shuffle.partitions", str(before))
    assert [row.id for row in found] == sorted(range(40), key=lambda n: (n % 7, n))


def test_two_results_of_one_base_are_told_apart(session: whence.Session, tmp_path: Path) -> None:
    moments = session.spark.sql("select rid, current_timestamp() at from t")
    with session.capture():
        first, second = moments.limit(2), moments.limit(2).offset(1)
        rows = [tuple(row) for row in first.collect()], [tuple(row) for row in second.collect()]
    for df, expected in zip((first, second), rows, strict=True):
        assert [tuple(row[1:]) for row in session.backward(df).outputs().collect()] == expected


def test_what_is_lost_in_the_store_is_computed_again(
    tiny: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with whence.attach(tiny, store=tmp_path / "store") as w:
        df = tiny.range(5).selectExpr("id", "rand(3) r")
        expected = df.collect()
        kept = tmp_path / "store" / "tables" / "sql"
        with w.capture():
            assert df.collect() == expected
            for part in (kept / "whence-facts").rglob("*.parquet"):
                part.unlink()
            assert df.collect() == expected
            assert w.backward(df.where("id = 3")).outputs().count() == 1
            shutil.rmtree(tmp_path / "store" / "tables")
            assert df.collect() == expected
            shutil.rmtree(tmp_path / "store" / "tables")
            (tmp_path / "store" / "tables").write_text("in the way")
            assert "could not capture" not in caplog.text
            assert df.collect() == expected
            df.write.parquet(str(tmp_path / "written"))
        assert "could not capture" in caplog.text
        assert tiny.read.parquet(str(tmp_path / "written")).count() == 5


def test_a_write_whose_facts_are_lost_on_the_way(
    tiny: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt has made the directory by then, which must not be in the way of the second."""
    pending = Capture._pending

    def losing(self: Capture, *args: Any) -> Any:
        for part in (tmp_path / "store" / "tables" / "sql" / "whence-facts").rglob("*.parquet"):
            part.write_bytes(b"lost")
        return pending(self, *args)

    monkeypatch.setattr(Capture, "_pending", losing)
    with whence.attach(tiny, store=tmp_path / "store") as w, w.capture():
        tiny.range(5).selectExpr("id", "rand(3) r").write.parquet(str(tmp_path / "written"))
    assert tiny.read.parquet(str(tmp_path / "written")).count() == 5


def test_functions_run_once_and_fail_once(session: whence.Session, calls: Path, tmp_path: Path) -> None:
    spark, path = session.spark, str(calls)
    spark.range(4, numPartitions=1).write.parquet(str(tmp_path / "numbers"))
    numbers = spark.read.parquet(str(tmp_path / "numbers"))

    def told(value: int, fails: bool = False) -> int:
        with open(path, "a", encoding="ascii") as file:
            file.write(f"{value}\n")
        if fails:
            raise ValueError(f"there is no {value}")
        return value

    key = F.udf(lambda v: told(v) % 2, "int")
    breaks = F.udf(lambda v: told(v, v == 2), "long")
    breaks_by_chance = F.udf(lambda v: told(v, v == 2), "long").asNondeterministic()

    def ran(action: Callable[[], object]) -> int:
        before = count(calls)
        action()
        return count(calls) - before

    def fails(action: Callable[[], object]) -> None:
        with pytest.raises(PythonException, match="there is no 2"):
            action()

    with session.capture():
        grouped = numbers.groupBy(key("id").alias("k")).count()
        assert ran(lambda: grouped.collect()) == 4
        assert ran(lambda: numbers.withColumn("k", key("id")).groupBy("k").count().collect()) == 4
        luck = numbers.select(breaks_by_chance("id").alias("v"), F.rand().alias("r"))
        assert ran(lambda: fails(lambda: luck.collect())) == 3
        assert ran(lambda: fails(lambda: luck.write.parquet(str(tmp_path / "none")))) == 3
        largest = numbers.groupBy("id").agg(F.max(breaks("id")))
        assert ran(lambda: fails(lambda: largest.collect())) == 3
        assert ran(lambda: fails(lambda: largest.write.parquet(str(tmp_path / "none")))) == 3
        # Spark would not have come to what fails.
        assert luck.count() == 4
        assert luck.drop("v").collect()
    assert {row.id for row in session.backward(grouped.where("k = 1"))["numbers"].collect()} == {1, 3}


def test_captures_of_threads_that_overlap(session: whence.Session, tiny: SparkSession, tmp_path: Path) -> None:
    before = {name: vars(ClassicDataFrame)[name] for name in ("collect", "count", "cache")}
    opened, closed = threading.Event(), threading.Event()
    frames: list[DataFrame] = []
    problems: list[BaseException] = []

    def second() -> None:
        try:
            with whence.attach(tiny, store=tmp_path / "second") as other:
                with other.capture():
                    opened.set()
                    closed.wait()
                    df = tiny.table("t").limit(3)
                    rows = {row.rid for row in df.collect()}
                assert {row.rid for row in other.backward(df)["t"].collect()} == rows
                frames.append(df)
        except BaseException as problem:
            problems.append(problem)
            opened.set()

    with session.capture():
        thread = threading.Thread(target=second)
        thread.start()
        opened.wait()
        mine = tiny.table("t").limit(2)
        mine.collect()
    closed.set()
    thread.join()
    assert not problems, problems
    assert {name: vars(ClassicDataFrame)[name] for name in before} == before
    assert session.backward(mine).outputs().count() == 2
    with pytest.raises(whence.NonDeterministic):  # each under its own capture
        print(session.backward(frames[0]))


def test_captures_within_each_other(session: whence.Session) -> None:
    before = vars(ClassicDataFrame)["collect"]
    df = session.spark.table("t").limit(3)
    with session.capture():
        with session.capture():
            df.collect()
        other = session.spark.table("t").limit(2)
        other.collect()
    assert vars(ClassicDataFrame)["collect"] is before
    assert session.backward(df).outputs().count() == 3
    assert session.backward(other).outputs().count() == 2
