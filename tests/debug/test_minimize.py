"""Delta debugging over the witnesses: the smallest source rows that still show the fault."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.functions import udf

import whence
from whence.debug.minimize import DoesNotFail, _ddmin


def test_ddmin_leaves_nothing_that_can_be_left_out() -> None:
    tests = []

    def fails(ranges: Sequence[tuple[int, int]]) -> bool:
        tests.append(ranges)
        return {3, 77} <= {n for low, high in ranges for n in range(low, high)}

    assert _ddmin([(0, 100)], fails) == [(3, 4), (77, 78)]
    assert len(tests) < 80
    assert _ddmin([(0, 1_000_000)], lambda ranges: any(a <= 4711 < b for a, b in ranges)) == [(4711, 4712)]


def test_one_row_of_a_thousand_is_to_blame(w: whence.Session, spark: SparkSession) -> None:
    rows = [(n, n % 4, 1.0 if n != 611 else -1e6) for n in range(1000)]
    spark.createDataFrame(rows, "id long, shop long, amount double").createOrReplaceTempView("sales_min")
    spark.createDataFrame([(n, f"shop {n}") for n in range(4)], "shop long, name string").createOrReplaceTempView(
        "shops_min"
    )
    report = spark.sql(
        "SELECT name, sum(amount) AS total FROM sales_min JOIN shops_min USING (shop) GROUP BY name ORDER BY name"
    )

    def negative(result: list[Row]) -> bool:
        return any(row.total is not None and row.total < 0 for row in result)

    rows_of_report = report.collect()
    cut_short = w.minimize(report, fails=negative, rows=rows_of_report, tests=4)
    assert cut_short.tests == 4
    assert "stopped after 4 tests" in cut_short.stopped
    assert 611 in [row.id for row in cut_short.sources["sales_min"]]
    assert 1 < cut_short.size < cut_short.witnesses
    assert negative(cut_short.rows)
    least = w.minimize(report, fails=negative, rows=rows_of_report)
    assert not least.stopped
    assert [row.id for row in least.sources["sales_min"]] == [611]
    assert [row.shop for row in least.sources["shops_min"]] == [3]
    assert least.size == 2
    assert least.witnesses == 251  # of 1004: the lineage of the one failing row
    assert least.tests < 80
    assert negative(least.rows)


def test_two_rows_that_fail_only_together(w: whence.Session, spark: SparkSession) -> None:
    spark.createDataFrame([(n, n % 2) for n in range(40)], "n long, side long").createOrReplaceTempView("pair_min")
    frame = spark.table("pair_min").groupBy("side").agg(sf.collect_set("n").alias("all"))
    joined = frame.select("side", udf(lambda found: {3, 17} <= set(found), "boolean")("all").alias("bad"))
    least = w.minimize(joined, fails=lambda rows: any(row.bad for row in rows))
    assert sorted(row.n for row in least.sources["pair_min"]) == [3, 17]


def test_what_does_not_fail_says_so(w: whence.Session, spark: SparkSession) -> None:
    with pytest.raises(DoesNotFail, match="nothing to minimise"):
        w.minimize(spark.range(3), fails=lambda rows: False)
    with pytest.raises(whence.WhenceError, match="at least one test"):
        w.minimize(spark.range(3), fails=lambda rows: True, tests=0)
    with pytest.raises(whence.WhenceError, match="takes a DataFrame, and this is a"):
        w.minimize(spark.sparkContext.parallelize([1]), fails=lambda rows: True)  # type: ignore[arg-type]
