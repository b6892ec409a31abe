"""Few rows come to the driver in the job that computes them, and are read there as Spark would read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from whence.spark import at_hand, keeping
from whence.sql.catalyst import Catalyst

pytestmark = pytest.mark.usefixtures("tiny")

VALUES = """select * from values
    (1, 'a;b', cast(1.50 as decimal(5, 2)), true, cast(null as string), cast(9 as tinyint), 9007199254740993),
    (2, '', cast(-7 as decimal(5, 2)), false, 'ä\U0001f600\\n\\r\\t\\\\', cast(null as tinyint), -1),
    (2, null, null, null, 's1;', cast(-1 as tinyint), null) as t(a, b, c, d, e, f, g)"""


@pytest.fixture
def c(spark: SparkSession) -> Iterator[Catalyst]:
    made = Catalyst(spark)
    yield made
    made.release()


@pytest.fixture
def without(c: Catalyst, monkeypatch: pytest.MonkeyPatch) -> Catalyst:
    monkeypatch.setattr(c, "_at_hand", None)
    return c


def jobs(spark: SparkSession) -> int:
    """How many jobs Spark has run."""
    context: Any = spark.sparkContext._jsc.sc()
    return int(context.dagScheduler().numTotalJobs())


def local(c: Catalyst, text: str) -> Any:
    kept = c.keep(c.plan_of(c.spark.sql(text)))
    assert kept.local
    return kept.plan


def test_rows_are_told_as_spark_tells_them(spark: SparkSession, c: Catalyst) -> None:
    plan = local(c, VALUES)
    expected = [tuple(row) for row in spark.sql(VALUES).collect()]
    before = jobs(spark)
    assert c._at_hand is not None
    assert c._at_hand.told(plan) == c.rows(plan) == expected
    assert [[type(value) for value in row] for row in c.rows(plan)] == [[type(v) for v in row] for row in expected]
    assert jobs(spark) == before


@pytest.mark.parametrize(
    "test", ["a = 2 and e is not null", "b is null or g = 9007199254740993", "a in (1, 3)", "b <=> null", "d"]
)
def test_rows_are_chosen_and_named_without_spark(c: Catalyst, test: str) -> None:
    rows = local(c, VALUES)
    frame = c.frame(rows).where(test).selectExpr("a as x", "e", "7L as seven", "a")
    optimised = frame._jdf.queryExecution().analyzed()
    assert c._at_hand is not None
    assert c._at_hand.told(optimised) == [tuple(row) for row in frame.collect()]
    kept = c.keep(optimised)
    assert kept.local
    assert kept.total == frame.count()
    assert c.output(kept.plan)[0].name() == "x"


@pytest.mark.parametrize(
    "query",
    [
        "select a + 1 as a from ({})",
        "select cast(a as string) as a from ({})",
        "select a from ({}) where a > 1",
        "select current_date() as a from ({})",
        "select distinct a from ({})",
        "select date'2026-11-19' as a from ({})",
        "select cast(a as double) as a from ({})",
    ],
)
def test_what_may_go_by_settings_is_left_to_spark(c: Catalyst, query: str) -> None:
    plan = c.plan_of(c.spark.sql(query.format(VALUES)))
    assert c._at_hand is not None
    assert c._at_hand.told(plan) is None
    assert sorted(c.rows(plan)) == sorted(tuple(row) for row in c.spark.sql(query.format(VALUES)).collect())


def test_rows_without_columns_are_counted_by_spark(c: Catalyst) -> None:
    plan = c.project([], local(c, VALUES))
    assert c._at_hand is not None
    assert c._at_hand.told(plan) is None
    assert c.rows(plan) == [(), (), ()]


def test_without_classes_of_its_own_spark_reads_all_rows(without: Catalyst) -> None:
    plan = local(without, VALUES)
    assert without.rows(plan) == [tuple(row) for row in without.spark.sql(VALUES).collect()]


@pytest.mark.parametrize(
    ("columns", "count", "is_local", "expected"),
    [
        ("id", 0, True, 1),
        ("id", 1000, True, 1),
        ("id", 1001, False, 2),
        ("id, 'text' as t", 127, True, 1),
        ("id, 'text' as t", 128, True, 3),
    ],
)
def test_few_rows_are_computed_and_fetched_in_one_job(
    spark: SparkSession, c: Catalyst, columns: str, count: int, is_local: bool, expected: int
) -> None:
    frame = spark.range(0, 5000, 1, 2).where(f"id % 5000 < {count}").selectExpr(*columns.split(", "))
    before = jobs(spark)
    kept = c.keep(c.plan_of(frame))
    assert jobs(spark) - before == expected
    assert (kept.local, kept.total) == (is_local, count)
    assert sorted(row[0] for row in c.rows(kept.plan)) == list(range(count))


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (7, 7), (8, None)])
def test_the_first_rows_are_computed_and_fetched_in_one_job(
    spark: SparkSession, c: Catalyst, tmp_path: Path, count: int, expected: int | None
) -> None:
    spark.range(0, 5000, 1, 2).write.parquet(str(tmp_path / "ids"))
    read = spark.read.parquet(str(tmp_path / "ids")).where(f"id % 5000 < {count}")
    before = jobs(spark)
    kept = c.first(c.plan_of(read), 7)
    assert jobs(spark) - before == 1
    assert (None if kept is None else kept.total) == expected
    if kept is not None:
        assert sorted(c.rows(kept.plan)) == [(i,) for i in range(count)]
    texts = c.first(c.plan_of(read.selectExpr("id", "'text' AS t")), 7)
    assert (None if texts is None else texts.total) == expected


def test_the_first_rows_of_each_partition_are_those_of_a_limit(spark: SparkSession, c: Catalyst) -> None:
    plan = c.plan_of(spark.range(0, 40, 1, 4).where("id % 3 = 0"))
    by_limit, by_number = (c.frame(some(3, plan)).collect() for some in (c.limit_of_each, c.first_of_each))
    assert by_number == by_limit
    assert len(by_number) == 12


def test_code_is_not_compiled_again(spark: SparkSession, tmp_path: Path) -> None:
    """Spark gives the counter of each limit another name, so that whatever is compiled with one is compiled anew."""
    session = spark.newSession()  # which compiles
    c = Catalyst(session)
    jvm: Any = spark._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    session.range(50).write.parquet(str(tmp_path / "ids"))

    def ask() -> int:
        before = int(compiled.getCount())
        read = c.plan_of(session.read.parquet(str(tmp_path / "ids")).where("id % 7 = 3"))
        assert c.keep(c.first_of_each(10, read), many=True).total == 7
        assert c.first(read, 10) is not None
        return int(compiled.getCount()) - before

    assert ask() > 0
    assert ask() == 0
    c.release()


def test_what_takes_much_room_stays_in_spark(spark: SparkSession, c: Catalyst, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "FEW_BYTES", 1000)
    kept = c.keep(c.plan_of(spark.range(0, 40, 1, 1).selectExpr("id", "repeat('x', 100) as t")))
    assert (kept.local, kept.total) == (False, 40)


def test_rows_of_many_partitions_are_counted_first(
    spark: SparkSession, c: Catalyst, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "MOST_FETCHED", 1500)
    before = jobs(spark)
    kept = c.keep(c.plan_of(spark.range(0, 40, 1, 2).where("id > 3")))
    assert (kept.local, kept.total, jobs(spark) - before) == (True, 36, 2)


def test_no_row_is_told_without_its_columns() -> None:
    assert at_hand._rows("2;") == []
    assert at_hand._rows("1;n;s0;") == [(None,), ("",)]
