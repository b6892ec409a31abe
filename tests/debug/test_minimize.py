"""Delta debugging over the witnesses: the smallest source rows that still show the fault."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import add
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.functions import udf

import whence
from whence.debug.minimize.ddmin import DoesNotFail, ddmin, ddmin_together
from whence.spark.frames import of_partitions

pytestmark = pytest.mark.usefixtures("tiny")


def view(spark: SparkSession, name: str, rows: Iterable[Sequence[Any]], schema: str) -> None:
    """Workers import this file for its functions, and have no `rows` to import."""
    import rows as made

    made.view(spark, name, rows, schema)


def test_ddmin_leaves_nothing_that_can_be_left_out() -> None:
    tests = []

    def fails(ranges: Sequence[tuple[int, int]]) -> bool:
        tests.append(ranges)
        return {3, 77} <= {n for low, high in ranges for n in range(low, high)}

    assert ddmin([(0, 100)], fails) == [(3, 4), (77, 78)]
    assert len(tests) < 80
    assert ddmin([(0, 1_000_000)], lambda ranges: any(a <= 4711 < b for a, b in ranges)) == [(4711, 4712)]


def test_one_row_of_a_thousand_is_to_blame(w: whence.Session, spark: SparkSession) -> None:
    rows = [(n, n % 4, 1.0 if n != 611 else -1e6) for n in range(1000)]
    spark.createDataFrame(rows, "id long, shop long, amount double").createOrReplaceTempView("sales_min")
    view(spark, "shops_min", [(n, f"shop {n}") for n in range(4)], "shop long, name string")
    report = spark.sql(
        "SELECT name, sum(amount) AS total FROM sales_min JOIN shops_min USING (shop) GROUP BY name ORDER BY name"
    )

    def negative(result: list[Row]) -> bool:
        return any(row.total is not None and row.total < 0 for row in result)

    rows_of_report = report.collect()
    least = w.minimize(report, fails=negative, rows=rows_of_report)
    assert not least.stopped
    assert [row.id for row in least.sources["sales_min"]] == [611]
    assert [row.shop for row in least.sources["shops_min"]] == [3]
    assert least.size == 2
    assert least.witnesses == 251  # of 1004: the lineage of the one failing row
    assert least.tests == 2, "on all rows, each by itself, and on the one that fails: of nothing comes nothing"
    assert negative(least.rows)


def test_two_rows_that_fail_only_together(w: whence.Session, spark: SparkSession) -> None:
    view(spark, "pair_min", [(n, n % 2) for n in range(40)], "n long, side long")
    frame = spark.table("pair_min").groupBy("side").agg(sf.collect_set("n").alias("all"))
    joined = frame.select("side", udf(lambda found: {3, 17} <= set(found), "boolean")("all").alias("bad"))

    def bad(rows: list[Row]) -> bool:
        return any(row.bad for row in rows)

    least = w.minimize(joined, fails=bad)
    assert sorted(row.n for row in least.sources["pair_min"]) == [3, 17]
    assert not least.stopped
    # One run shows that no row fails by itself; the next ones, of how many pieces each can be left out.
    assert least.tests <= 6
    cut_short = w.minimize(joined, fails=bad, tests=3)
    assert cut_short.tests == 3
    assert "stopped after 3 tests" in cut_short.stopped
    assert {3, 17} <= {row.n for row in cut_short.sources["pair_min"]}
    assert 2 < cut_short.size < cut_short.witnesses
    assert bad(cut_short.rows)


PIECES_MIN = "SELECT k, sum(v) AS total FROM many_min GROUP BY k"
APART = {
    "a filter below and above": "SELECT k, sum(v) AS total FROM many_min WHERE n > 2 GROUP BY k HAVING k >= 0",
    "a left join": f"SELECT k, total, name FROM ({PIECES_MIN}) LEFT JOIN names_min USING (k)",
    "the right side of a join": f"SELECT k, total FROM names_min JOIN ({PIECES_MIN}) USING (k) ORDER BY k",
    "distinct": f"SELECT DISTINCT total FROM ({PIECES_MIN})",
    "all rows as one group": "SELECT sum(v) AS total FROM many_min",
    "a window": f"SELECT k, sum(total) OVER (ORDER BY k) AS total FROM ({PIECES_MIN})",
    "a window of parts": "SELECT n, k, sum(v) OVER (PARTITION BY k ORDER BY n) AS total FROM many_min",
}
NOT_APART = {
    "one group that may be dropped": "SELECT sum(v) AS total FROM many_min HAVING count(*) <> 7",
    "a limit": f"SELECT k, total FROM ({PIECES_MIN}) ORDER BY total LIMIT 1",
}


@pytest.fixture(scope="module")
def pieces(tiny: SparkSession) -> None:
    rows = [(n, n % 3, -1e6 if n == 52 else 1.0) for n in range(90)]
    view(tiny, "many_min", rows, "n long, k long, v double")
    view(tiny, "names_min", [(k, f"name {k}") for k in range(3)], "k long, name string")


@pytest.mark.parametrize("query", [*APART, *NOT_APART])
@pytest.mark.usefixtures("pieces")
def test_the_row_to_blame_is_the_same_however_pieces_are_tested(
    w: whence.Session, spark: SparkSession, query: str
) -> None:
    report = spark.sql({**APART, **NOT_APART}[query])
    least = w.minimize(report, fails=lambda found: any(row.total is not None and row.total < 0 for row in found))
    assert {row.n for row in least.sources["many_min"]} == {52}
    assert not least.stopped
    assert (least.tests <= 6) == (query in APART)


@pytest.mark.parametrize("direct", [True, False], ids=["read again", "kept"])
def test_many_witnesses_of_a_file(
    w: whence.Session, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    """Pieces of many rows are read from their source; one that fails is kept, and what fails only together, all."""
    monkeypatch.setattr("whence.debug.minimize.minimize.FEW_ROWS", 7)
    rows = [(n, n % 3, -1e6 if n == 52 else 1.0) for n in range(300)]
    spark.createDataFrame(rows, "n long, k long, v double").repartition(4, "n").write.parquet(
        str(tmp_path / "file_min")
    )
    source = spark.read.parquet(str(tmp_path / "file_min"))
    source = source if direct else source.join(source.select("k").distinct(), "k")
    report = source.groupBy("k").agg(sf.sum("v").alias("total"), sf.collect_set("n").alias("all"))
    least = w.minimize(report, fails=lambda found: any(row.total < 0 for row in found))
    assert {row.n for row in least.sources["file_min"]} >= {52}
    assert [row["all"] for row in least.rows] == [[52]]
    assert not least.stopped
    assert least.witnesses == (100 if direct else 200)
    together = w.minimize(report, fails=lambda found: any({3, 177, 297} <= set(row["all"]) for row in found))
    assert [set(row["all"]) for row in together.rows] == [{3, 177, 297}]
    assert not together.stopped
    cut_short = w.minimize(report, fails=lambda found: any({3, 297} <= set(row["all"]) for row in found), tests=3)
    assert cut_short.stopped
    assert {3, 297} <= {n for row in cut_short.rows for n in row["all"]}


def test_parts_of_which_nothing_arrives_are_judged_like_nothing(w: whence.Session, spark: SparkSession) -> None:
    """A sum of nothing is a row too: which parts gave none is not taken for an empty result."""
    view(spark, "none_min", [(n, n % 2) for n in range(12)], "n long, k long")
    report = spark.sql("SELECT count(*) AS c, max(n) AS top FROM none_min LEFT JOIN VALUES (1L) AS t(k) USING (k)")
    least = w.minimize(report, fails=lambda found: not found or found[0].top == 11)
    assert [row.n for row in least.sources["none_min"]] == [11]
    nothing = w.minimize(report, fails=lambda found: found[0].c != 5)
    assert nothing.size == 0
    assert nothing.rows == [Row(c=0, top=None)]


def test_rounds_of_tests_made_together() -> None:
    """Whatever is needed: nothing of it can be left out, and a round is one run."""
    for seed in range(40):
        rng = random.Random(seed)
        needed = set(rng.sample(range(900), rng.choice([1, 2, 3, 9, 40])))
        alone: list[Sequence[tuple[int, int]]] = []
        runs: list[int] = []

        def fails(ranges: Sequence[tuple[int, int]], needed: set[int] = needed) -> bool:
            return needed <= {n for low, high in ranges for n in range(low, high)}

        def tried(ranges: Sequence[tuple[int, int]], fails: Callable[..., bool] = fails) -> bool:
            alone.append(ranges)  # noqa: B023
            return fails(ranges)

        def each(sets: Sequence[Sequence[tuple[int, int]]], fails: Callable[..., bool] = fails) -> list[bool]:
            runs.append(len(sets))  # noqa: B023
            return [fails(ranges) for ranges in sets]

        found = ddmin_together([(0, 900)], tried, each)
        assert {n for low, high in found for n in range(low, high)} == needed
        if len(needed) <= 3:
            assert len(alone) + len(runs) <= 16
    # A run of many tests that tells what does not hold alone leads to tests one by one.
    odd = ddmin_together([(0, 40)], lambda ranges: any(a <= 7 < b for a, b in ranges), lambda sets: [True] * len(sets))
    assert odd == [(7, 8)]


def test_a_query_that_breaks_on_some_piece_is_tested_piece_by_piece(w: whence.Session, spark: SparkSession) -> None:
    rows = [(n, -1e6 if n == 12 else 1.0) for n in range(16)]
    view(spark, "brittle_min", rows, "n long, v double")
    report = spark.sql(
        "SELECT sum(v) AS total, assert_true(count(*) <> 1 OR min(n) <> 3) AS sure FROM brittle_min GROUP BY n > 99"
    )
    least = w.minimize(report, fails=lambda found: any(row.total < 0 for row in found))
    assert [row.n for row in least.sources["brittle_min"]] == [12]


def test_what_is_told_of_a_test_is_what_it_ran_on(w: whence.Session, spark: SparkSession) -> None:
    """A piece that fails among others is tried alone before it is believed."""
    view(spark, "alone_min", [(n, n % 2) for n in range(40)], "n long, k long")
    report = spark.sql("SELECT k, count(*) AS rows FROM alone_min GROUP BY k")
    seen: list[int] = []

    def fails(found: list[Row]) -> bool:
        seen.append(sum(row.rows for row in found))
        return (seen[-1] == 1 and seen.count(1) == 1) or seen[-1] >= 20  # the first single row only

    least = w.minimize(report, fails=fails)
    assert sum(row.rows for row in least.rows) >= 20


def test_what_does_not_fail_says_so(w: whence.Session, spark: SparkSession) -> None:
    with pytest.raises(DoesNotFail, match="nothing to minimise"):
        w.minimize(spark.range(3), fails=lambda rows: False)
    with pytest.raises(whence.WhenceError, match="at least one test"):
        w.minimize(spark.range(3), fails=lambda rows: True, tests=0)
    with pytest.raises(whence.WhenceError, match="takes a DataFrame or an RDD, and this is a list"):
        w.minimize([1], fails=lambda rows: True)  # type: ignore[arg-type]
    with pytest.raises(DoesNotFail, match="records of this RDD"):
        w.minimize(w.context.parallelize([1]), fails=lambda rows: False)


def test_the_line_that_makes_a_program_of_rdds_fail(w: whence.Session, tmp_path: Path) -> None:
    lines = [f"{n % 3},{-9000 if n == 17 else n}" for n in range(24)]
    path = tmp_path / "sales.csv"
    path.write_text("\n".join(lines) + "\n")
    pairs = w.context.textFile(str(path), 2).map(lambda line: line.split(","))
    names = w.context.parallelize([(str(n), f"shop {n}") for n in range(3)], 2)
    totals = pairs.map(lambda p: (p[0], int(p[1]))).reduceByKey(add, 2).join(names, 2).values()

    def negative(records: list[tuple[int, str]]) -> bool:
        return any(total < 0 for total, _ in records)

    result = totals.collect()
    least = w.minimize(totals, fails=negative, rows=result)
    assert least.sources == {str(path): ["2,-9000"], "parallelize": [("2", "shop 2")]}
    assert least.places[str(path)] == [f"{path}, byte {len(''.join(line + chr(10) for line in lines[:17]))}"]
    assert least.places["parallelize"] == ["parallelize, partition 1, record 1"]
    assert least.rows == [(-9000, "shop 2")]
    assert (least.witnesses, least.size, least.stopped, least.notes) == (9, 2, "", ())
    cut_short = w.minimize(totals, fails=negative, rows=result, tests=2)
    assert cut_short.tests == 2
    assert "stopped after 2 tests" in cut_short.stopped
    assert "2,-9000" in cut_short.sources[str(path)]
    assert totals.collect() == result, "the user's RDD is as it was"


def ends_of(records: Iterable[int]) -> Iterator[tuple[int, int]]:
    found = list(records)
    yield min(found), max(found)  # an error where there are none


def test_records_of_rdds_that_fail_only_together(w: whence.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their own partitions, also where the driver cannot hold them; what breaks on fewer records does not fail."""
    monkeypatch.setattr("whence.debug.minimize.rdd._ON_DRIVER", 4)
    ends = w.context.parallelize(range(6), 2).mapPartitions(ends_of)
    least = w.minimize(ends, fails=lambda records: sum(high for _, high in records) > 6)
    ((source),) = least.sources.values()
    assert source == [2, 5]
    early = w.minimize(ends, fails=lambda records: sum(high for _, high in records) > 6, tests=1)
    assert early.stopped
    assert early.size == 6, "more than the driver would hold for the search are still told"
    (note,) = least.notes
    assert "ended in an error and count as not failing: ValueError: min()" in note


def test_plain_rdds(w: whence.Session, tmp_path: Path) -> None:
    context, path = w.spark.sparkContext, tmp_path / "numbers.txt"
    path.write_text("ten\ntwenty\nthirty\n")
    lengths = context.textFile(str(path), 2).map(lambda line: (line[0], len(line)))
    totals = lengths.union(context.parallelize([("t", 1), ("x", -50), ("x", 2)], 2)).reduceByKey(add, 2)
    least = w.minimize(totals, fails=lambda records: dict(records).get("t", 0) > 0 > dict(records).get("x", 0))
    found = {name: list(zip(rows, least.places[name], strict=True)) for name, rows in least.sources.items()}
    assert found["parallelize"][-1] == (("x", -50), "parallelize, partition 1, record 0")
    assert least.size == 2
    assert least.witnesses == 6
    assert sorted(least.rows)[1] == ("x", -50)
    first = w.minimize(context.textFile(str(path)), fails=lambda lines: "twenty" in lines)
    assert first.sources == {str(path): ["twenty"]}
    assert first.places == {str(path): [f"{path}, byte 4"]}
    with pytest.raises(whence.WhenceError, match=r"has a CartesianRDD.*Make the same program with w.context"):
        w.minimize(lengths.cartesian(lengths), fails=bool)


def test_rows_of_some_partitions_are_what_they_are(spark: SparkSession) -> None:
    frame = spark.range(0, 40, 1, 4).selectExpr(
        "id", "IF(id % 3 = 0, NULL, CAST(id AS decimal(20, 3))) AS d", "timestamp_seconds(id * 86413) AS t",
        "date_add(DATE'1500-01-01', CAST(id AS int)) AS day", "array(id, NULL) AS a", "map(id, 'x') AS m",
        "struct(id, CAST(CAST(id AS string) AS binary) AS b) AS s", "make_dt_interval(0, 0, 0, id) AS i",
    )  # fmt: skip
    found, count = of_partitions(frame, [1, 3])
    expected = [row for row in frame.collect() if row.id // 10 in (1, 3)]
    assert (count, found.collect()) == (20, expected)
    assert found.schema == frame.schema
    assert of_partitions(frame.where("id < 0"), [0])[1] == 0
