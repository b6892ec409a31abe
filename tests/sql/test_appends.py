"""Of a table of many captured appends a question opens those that hold the rows it is about, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import whence
from whence.sql import writes

DAYS = 5
# As many that no table of these tests has them.
NEVER = 1_000


@pytest.fixture(scope="module")
def home(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five days of orders, appended one by one: as they are, and the sums of each day's shops."""
    home = tmp_path_factory.mktemp("appends")
    rows = [(i, i % DAYS, i % 4, i * 10) for i in range(40)]
    tiny.createDataFrame(rows, "rid bigint, day int, shop int, amount bigint").write.parquet(str(home / "orders"))
    orders = tiny.read.parquet(str(home / "orders"))
    with whence.attach(tiny, store=home / "store") as w, w.capture():
        for day in range(DAYS):
            of_day = orders.where(f"day = {day}")
            of_day.write.mode("append").parquet(str(home / "days"))
            sums = of_day.groupBy("day", "shop").sum("amount").toDF("day", "shop", "total")
            sums.write.mode("append").parquet(str(home / "sums"))
            of_day.selectExpr("rid", "amount / 3.0D as third").write.mode("append").parquet(str(home / "thirds"))
    return home


@pytest.fixture
def session(tiny: SparkSession, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[whence.Session]:
    monkeypatch.setattr(writes, "MANY", 2)
    with whence.attach(tiny, store=home / "store") as w:
        yield w


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The writes whose queries were opened."""
    found: list[object] = []
    plan_bytes = writes._plan_bytes
    monkeypatch.setattr(writes, "_plan_bytes", lambda c, write: found.append(write) or plan_bytes(c, write))
    return found


def rids(df: DataFrame) -> list[int]:
    return sorted(row.rid for row in df.select("rid").collect())


def told(trace: whence.Trace) -> dict[str, list[int]]:
    return {name: rids(frame) for name, frame in trace.sources.items()}


def table(w: whence.Session, home: Path, name: str) -> DataFrame:
    return w.spark.read.parquet(str(home / name))


def test_only_the_append_that_wrote_the_rows_is_opened(
    session: whence.Session, home: Path, opened: list[object]
) -> None:
    trace = session.backward(table(session, home, "sums").where("day = 3 and shop = 2"))
    assert len(opened) == 1
    assert told(trace) == {"orders": [18, 38]}
    assert dict(trace.witness_counts) == {"orders": 2}
    assert trace.exact
    assert not trace.notes
    assert trace.verify().ok
    assert [row.total for row in trace.replay().collect()] == [560]
    assert trace.exclude().collect() == []
    assert {row[2] for row in trace.associations().collect()} == {row[2] for row in trace.associations().collect()}
    opened.clear()
    two = session.backward(table(session, home, "sums").where("shop = 0 and day in (1, 4)"))
    assert len(opened) == 2
    assert told(two) == {"orders": [4, 16, 24, 36]}
    assert two.verify().ok
    opened.clear()
    by_key = session.backward(table(session, home, "days").groupBy("day").sum("amount").where("day = 3"))
    assert len(opened) == 1
    assert told(by_key) == {"orders": list(range(3, 40, 5))}
    assert by_key.verify().ok
    # Rows of no append: what they would have come from is shown all the same.
    none = session.backward(table(session, home, "sums").where("total = -1"))
    assert told(none) == {"orders": []}


QUERIES: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "a computed column": lambda days, sums: days.selectExpr("rid", "amount + 1 as more").where("more = 171"),
    "sorted": lambda days, sums: days.where("rid < 3").orderBy("amount"),
    "a join": lambda days, sums: days.join(sums, ["day", "shop"]).where("rid = 7"),
    "itself": lambda days, sums: (
        days.alias("a").join(days.alias("b"), "rid").where("rid = 11").select("a.rid", "b.day")
    ),
    "the kept side of an outer join": lambda days, sums: days.join(
        sums.where("day = 1"), ["day", "shop"], "left"
    ).where("rid in (1, 2)"),
    "the other side of an outer join": lambda days, sums: days.join(
        sums.where("total > 300"), ["day", "shop"], "left"
    ).where("total is null and rid < 20"),
    "a full join": lambda days, sums: days.join(sums, ["day", "shop"], "full").where("rid = 12 or rid is null"),
    "a semi join": lambda days, sums: days.join(sums.where("total = 560"), ["day", "shop"], "leftsemi"),
    "an anti join": lambda days, sums: days.join(sums.where("total <> 560"), ["day", "shop"], "leftanti"),
    "a union": lambda days, sums: (
        days.select("rid", "day").union(sums.selectExpr("total", "day")).where("rid in (6, 560)")
    ),
    "a sum": lambda days, sums: sums.groupBy("shop").sum("total").where("`sum(total)` = 2000"),
    "the least sums": lambda days, sums: sums.groupBy("shop").sum("total").toDF("shop", "t").where("t < 1850"),
    "a sum of one day": lambda days, sums: sums.where("day = 3").groupBy("shop").sum("total").where("shop = 2"),
    "a sum by its key": lambda days, sums: days.groupBy("day").sum("amount").where("day = 3"),
    "sums of sums by key": lambda days, sums: (
        days.groupBy("day", "shop")
        .count()
        .groupBy("day")
        .sum("count")
        .where("day in (0, 2)")
        .selectExpr("day + 1 as next")
    ),
    "a key and a value": lambda days, sums: (
        days.groupBy("day").sum("amount").toDF("day", "total").where("day = 3 or total < 1450")
    ),
    "a sum that others are joined with": lambda days, sums: (
        days.groupBy("day").count().join(sums.where("total = 560"), "day").where("day = 3")
    ),
    "distinct rows": lambda days, sums: days.select("day").distinct().where("day = 2"),
    "a window": lambda days, sums: days.selectExpr("rid", "rank() over (order by amount) as place").where("place = 3"),
    "the first rows": lambda days, sums: days.orderBy("amount").limit(2),
    "a subquery": lambda days, sums: days.where("amount = (select max(total) - 10 from all_sums where day = 0)"),
}


@pytest.mark.parametrize("name", ["days", "sums"])
def test_each_row_of_several_appends_with_its_own_witnesses(session: whence.Session, home: Path, name: str) -> None:
    """`outputs` shows the rows by columns that Spark had renamed."""
    trace = session.backward(table(session, home, name).where("day in (1, 4) and shop = 0"))
    rows = {row.output: (row.day, row.shop) for row in trace.outputs().collect()}
    pairs = {(rows[row.output], row.rid) for _, frame in trace.witnesses_per_output() for row in frame.collect()}
    assert pairs == {((4, 0), 4), ((1, 0), 16), ((4, 0), 24), ((1, 0), 36)}
    assert sorted(row.output for row in trace.associations().collect()) == sorted(
        {"days": 1, "sums": 2}[name] * [*rows]
    )


@pytest.mark.parametrize("name", QUERIES)
def test_the_witnesses_are_those_of_all_appends(
    session: whence.Session, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    days, sums = table(session, home, "days"), table(session, home, "sums")
    sums.createOrReplaceTempView("all_sums")
    trace = session.backward(QUERIES[name](days, sums))
    found = told(trace)
    assert trace.verify().ok
    monkeypatch.setattr(writes, "MANY", NEVER)
    assert found == told(session.backward(QUERIES[name](days, sums)))


def test_another_query_reads_the_other_appends_too(
    session: whence.Session, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days, sums = table(session, home, "days"), table(session, home, "sums")
    report = sums.groupBy("shop").sum("total").toDF("shop", "total").orderBy("shop")

    def answers() -> list[object]:
        trace = session.backward(sums.where("day = 3 and shop = 2"))
        step = next(step for step in trace.steps if step.operator == "Filter")  # right above the table
        return [
            trace.exclude(report).collect(),
            trace.exclude(report, source="orders").collect(),
            trace.replay(report).collect(),
            trace.replay(sums).collect(),
            trace.exclude(sums.where("day = 3 and shop = 2"), at=step).collect(),
            [row.rid for row in session.forward(trace["orders"], to=days).rows.orderBy("rid").collect()],
        ]

    few = answers()
    assert few[0] == [(0, 1800), (1, 1900), (2, 2000 - 560), (3, 2100)]
    trace = session.backward(sums.where("day = 3 and shop = 2"))
    rest = trace.exclude(sums, at=trace.steps[-1]).collect()  # what its append read
    assert sorted(rest) == sorted(row for row in sums.collect() if (row.day, row.shop) != (3, 2))
    monkeypatch.setattr(writes, "MANY", NEVER)
    assert few == answers()


def test_values_that_may_come_out_otherwise_are_compared_in_the_appends_that_matter(
    session: whence.Session, home: Path, opened: list[object]
) -> None:
    trace = session.backward(table(session, home, "thirds").where("rid = 13"))
    assert told(trace) == {"orders": [13]}
    assert len(opened) == 1
    ((files, _),) = session._plans().memory.compared
    assert {Path(path.removeprefix("file:")).parent.name for path, *_ in files} == {"thirds"}
    assert len(files) < len(list((home / "thirds").glob("*.parquet")))


def test_partitions_whose_names_are_no_plain_text(
    session: whence.Session, home: Path, tmp_path: Path, opened: list[object]
) -> None:
    target = str(tmp_path / "parts of days")
    orders = table(session, home, "orders").selectExpr("*", "concat('ä b:', shop, '%') as name", "rid / 3.0D as third")
    with session.capture():
        for day in range(3):
            orders.where(f"day = {day}").write.mode("append").partitionBy("name").parquet(target)
    with whence.attach(session.spark, store=home / "store") as later:
        trace = later.backward(session.spark.read.parquet(target).where("rid = 11"))
        assert told(trace) == {"orders": [11]}
        assert trace.verify().ok
        assert len(opened) == 1


def test_files_of_others_matter_where_they_hold_the_rows(session: whence.Session, home: Path, tmp_path: Path) -> None:
    spark = session.spark
    orders = table(session, home, "orders")
    target = str(tmp_path / "mixed")
    with session.capture():
        for day in range(3):
            orders.where(f"day = {day}").write.mode("append").parquet(target)
    orders.where("day = 3").write.mode("append").parquet(target)  # not captured
    trace = session.backward(spark.read.parquet(target).where("rid = 11"))
    assert told(trace) == {"orders": [11]}
    assert not trace.notes
    theirs = session.backward(spark.read.parquet(target).where("rid in (11, 13)"))
    assert list(theirs.sources) == ["mixed"]
    assert "outside of any capture" in theirs.notes[0]


def test_a_table_that_went_on_since_is_traced_as_it_was(session: whence.Session, home: Path, tmp_path: Path) -> None:
    spark = session.spark
    orders = table(session, home, "orders")
    target = str(tmp_path / "gone")
    with session.capture():
        for day in range(3):
            orders.where(f"day = {day}").write.mode("append").parquet(target)
    asked = spark.read.parquet(target).where("rid = 11")
    orders.where("day = 4").write.mode("overwrite").parquet(target)
    assert rids(session.backward(asked)["orders"]) == [11]


def test_the_present_moment_is_that_of_the_question(session: whence.Session, home: Path, opened: list[object]) -> None:
    """Where the files were looked for a moment earlier, rows that came since would be missed."""
    days = table(session, home, "days")
    trace = session.backward(days.where("rid = 7 and now() > timestamp '2020-01-01'"))
    assert told(trace) == {"orders": [7]}
    assert len(opened) == DAYS
