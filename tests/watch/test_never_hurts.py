"""Whatever happens to whence, the user's query goes on, and what was seen is not lost."""

from __future__ import annotations

import logging
import re
import sys
import threading
from pathlib import Path

import pytest
from cases import clean, short, table

import whence
from beside import Beside
from whence.model import StoreError
from whence.store import Store
from whence.store.catalog import Catalog
from whence.watch import listener, parse, watcher


@pytest.fixture
def tables(spark):
    clean(spark)
    spark.sql(table("t1"))
    spark.sql(table("t2"))
    yield
    clean(spark)


def edges(w) -> set[tuple[str, str]]:
    return {(short(e.source.name), short(e.target.name)) for e in w.catalog.edges()}


def test_failed_queries_are_recorded_with_their_error(spark, tables, tmp_path: Path) -> None:
    with whence.attach(spark, store=tmp_path) as w:
        spark.sql("INSERT INTO t1 VALUES (1, 'a')")
        with pytest.raises(Exception, match="raised on purpose"):
            spark.sql("INSERT INTO t2 SELECT id, raise_error('raised on purpose') FROM t1")
        with pytest.raises(Exception, match="nowhere"):
            spark.sql("UPDATE nowhere SET id = 1")
        failed = w.catalog.runs(status="failed")
        assert any("raised on purpose" in r.error for r in failed)
        assert edges(w) == set(), "what failed made nothing"
        run = next(r for r in failed if "raised on purpose" in r.error)
        assert [(short(u.dataset.name), u.rows) for u in w.catalog.inputs(run)] == [("t1", None)]
        assert [(short(u.dataset.name), u.version) for u in w.catalog.outputs(run)] == [("t2", None)]


FAILING = [
    "INSERT INTO t2 SELECT id, raise_error('raised on purpose') FROM t1",
    "CREATE TABLE t3 USING parquet AS SELECT 1 / 0 AS x FROM t1",
    "SELECT * FROM nowhere",
    "SELECT nothing FROM t1",
    "DROP TABLE nowhere",
]


def test_the_stack_trace_of_a_failed_query_is_what_it_is_without_whence(spark, tables, tmp_path: Path) -> None:
    """Spark keeps a failure and, asked again, writes the asker's stack into it."""
    spark.sql("INSERT INTO t1 VALUES (1, 'a')")

    def traces(flush) -> list[list[str]]:
        found = []
        for text in FAILING:
            with pytest.raises(Exception) as caught:  # noqa: PT011 - each fails in a way of its own
                spark.sql(text)
            flush()
            problem = caught.value._origin
            frames = [str(frame) for frame in problem.getStackTrace()]
            found.append([re.sub(r"\$\d+|:\d+|0x\w+|Generated\w+", "", frame) for frame in frames])
        return found

    without = traces(lambda: None)
    with whence.attach(spark, store=tmp_path) as w:
        assert traces(w._watcher.flush) == without
        assert len(w.catalog.runs(status="failed")) == len(FAILING)


def test_a_crash_in_whence_is_counted_and_logged(spark, tables, tmp_path: Path, monkeypatch, caplog) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    with whence.attach(spark, store=tmp_path) as w:
        monkeypatch.setattr(watcher, "observe", broken)
        with caplog.at_level(logging.WARNING, logger="whence.watch"):
            spark.sql("INSERT INTO t2 SELECT * FROM t1")
            assert edges(w) == set()
        assert w._watcher.counts["failed"] == 1
        assert "the query itself is not affected" in caplog.text
        monkeypatch.undo()
        spark.sql("INSERT INTO t2 SELECT * FROM t1")
        assert edges(w) == {("t1", "t2")}


def test_what_is_seen_while_the_store_is_away_comes_in_later(spark, tables, tmp_path: Path, monkeypatch) -> None:
    def away(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(watcher, "RETRY_SECONDS", 0.0)
    with whence.attach(spark, store=tmp_path) as w:
        with monkeypatch.context() as m:
            m.setattr(Catalog, "record", away)
            spark.sql("INSERT INTO t2 SELECT * FROM t1")
            assert w._watcher.flush()
        assert w._watcher.counts["spooled"] == 1
        assert len(list((tmp_path / "spool").glob("*.jsonl"))) == 1
        spark.sql("INSERT INTO t1 SELECT * FROM t2")
        assert edges(w) == {("t1", "t2"), ("t2", "t1")}
        assert list((tmp_path / "spool").iterdir()) == []


def test_a_spool_left_behind_is_taken_up_by_the_next_session(spark, tables, tmp_path: Path, monkeypatch) -> None:
    with monkeypatch.context() as m, whence.attach(spark, store=tmp_path) as w:
        m.setattr(Catalog, "record", lambda *_: (_ for _ in ()).throw(StoreError("away")))
        spark.sql("INSERT INTO t2 SELECT * FROM t1")
        assert w._watcher.flush()
    with whence.attach(spark, store=tmp_path) as w:
        spark.sql("INSERT INTO t1 SELECT * FROM t2")
        assert edges(w) == {("t1", "t2"), ("t2", "t1")}


@pytest.fixture
def patient(monkeypatch) -> None:
    """Nothing is stored before somebody asks."""
    monkeypatch.setattr(listener, "SETTLE_MILLIS", 600_000)
    monkeypatch.setattr(listener, "LONGEST_MILLIS", 600_000)


def test_runs_wait_and_are_stored_together(spark, tables, patient, tmp_path: Path, monkeypatch) -> None:
    stored: list[int] = []
    record = Catalog.record
    monkeypatch.setattr(Catalog, "record", lambda self, *some: (stored.append(len(some)), record(self, *some)))
    with whence.attach(spark, store=tmp_path) as w:
        for _ in range(3):
            spark.sql("INSERT INTO t2 SELECT * FROM t1")
        assert stored == []
        assert edges(w) == {("t1", "t2")}
        assert stored == [3]


def test_a_run_that_cannot_be_stored_takes_no_other_with_it(
    spark, tables, patient, tmp_path: Path, monkeypatch
) -> None:
    record = Catalog.record

    def picky(self, *some) -> None:
        if any(o.run.name.startswith("INSERT INTO t1") for o in some):
            raise ValueError("a bug")
        record(self, *some)

    monkeypatch.setattr(Catalog, "record", picky)
    with whence.attach(spark, store=tmp_path) as w:
        spark.sql("INSERT INTO t2 SELECT * FROM t1")
        spark.sql("INSERT INTO t1 SELECT * FROM t2")
        spark.sql("INSERT INTO t2 SELECT * FROM t1")
        assert edges(w) == {("t1", "t2")}
        assert w._watcher.counts["stored"] == 2
        assert w._watcher.counts["failed"] == 1


def test_a_plan_too_large_keeps_its_datasets(spark, tables, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(listener, "MOST_CHARACTERS", 1500)
    with whence.attach(spark, store=tmp_path) as w:
        wide = ", ".join(f"id + {n} AS c{n}" for n in range(200))
        spark.sql(f"CREATE TABLE big USING parquet AS SELECT {wide} FROM t1 JOIN t2 USING (id)")
        assert edges(w) == {("t1", "big"), ("t2", "big")}
        assert len(w.catalog.edges("column")) == 0
        (run,) = w.catalog.runs()
        assert run.details["gaps"] == {"plan too large: datasets only": 1}


def test_too_many_column_links_keep_the_datasets(spark, tables, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parse, "MOST_LINKS", 3)
    with whence.attach(spark, store=tmp_path) as w:
        spark.sql("CREATE TABLE big USING parquet AS SELECT id a, id b, id c, id d, id e FROM t1")
        assert edges(w) == {("t1", "big")}
        assert len(w.catalog.edges("column")) == 0
        assert w.catalog.runs()[0].details["gaps"] == {"too many columns": 1}


def test_close_leaves_nothing_behind(spark, tmp_path: Path) -> None:
    from pyspark import RDD
    from pyspark.sql import SparkSession

    before = (RDD.saveAsTextFile, SparkSession.createDataFrame, list(sys.meta_path), threading.active_count())
    bus = spark.sparkContext._jsc.sc().listenerBus()
    listeners = bus.listeners().size()
    session = whence.attach(spark, store=tmp_path)
    assert bus.listeners().size() == listeners + 2  # the watcher, and what knows the queries that ran
    session.close()
    assert bus.listeners().size() == listeners
    after = (RDD.saveAsTextFile, SparkSession.createDataFrame, list(sys.meta_path), threading.active_count())
    assert after == before


def test_two_sessions_at_once_each_see_everything(spark, tables, tmp_path: Path) -> None:
    with whence.attach(spark, store=tmp_path / "a") as a, whence.attach(spark, store=tmp_path / "b") as b:
        spark.sql("INSERT INTO t2 SELECT * FROM t1")
        assert edges(a) == edges(b) == {("t1", "t2")}


def test_secrets_do_not_reach_the_store(spark, tables, tmp_path: Path) -> None:
    with whence.attach(spark, store=tmp_path / "store") as w:
        with pytest.raises(Exception):  # noqa: B017, PT011 - there is no such server
            spark.table("t1").write.format("jdbc").options(
                url="jdbc:postgresql://joe:hunter2@127.0.0.1:1/x", dbtable="t", password="hunter2"
            ).save()
        w._watcher.flush()
    assert b"hunter2" not in b"".join(p.read_bytes() for p in (tmp_path / "store").rglob("*") if p.is_file())


_PROGRAM = """
from pyspark.sql import SparkSession
import whence
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
         .config("spark.driver.bindAddress", "127.0.0.1")
         .config("spark.driver.host", "127.0.0.1").getOrCreate())
w = whence.attach(spark, store="store")
spark.range(3).write.parquet("a")
spark.read.parquet("a").write.parquet("b")
"""
ENDS = {"just-ends": "", "stops-spark": "spark.stop()", "fails": "raise SystemExit(3)"}
BESIDE = {name: lambda home, end=end: [sys.executable, "-c", _PROGRAM + end] for name, end in ENDS.items()}


@pytest.mark.parametrize("end", ENDS)
def test_the_last_action_is_not_lost_at_exit(end: str, beside: Beside) -> None:
    """Neither when the program just ends, nor when it stops Spark itself, nor when it fails."""
    done = beside(end)
    store = Store.at(done.home / "store")
    found = {(short(e.source.name), short(e.target.name)) for e in store.catalog.edges()}
    store.close()
    assert found == {("a", "b")}, done.err
