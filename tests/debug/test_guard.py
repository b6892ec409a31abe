"""Crash culprits: whatever Python code fails, the record, its source rows and a script that fails alone are found."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.functions import PandasUDFType, col, pandas_udf, udf, udtf

import whence
from whence.debug.guard.culprit import Culprit

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture(scope="module")
def orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = str(tmp_path_factory.mktemp("orders") / "orders")
    rows = [(n, f"{n}.5" if n != 613 else "six", n % 5) for n in range(1000)]
    spark.createDataFrame(rows, "id long, amount string, shop long").repartition(3, "id").write.parquet(path)
    return spark.read.parquet(path)


@pytest.fixture(scope="module")
def few(orders: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """In one file: every task that fails costs a Python process that has to import pandas."""
    path = str(tmp_path_factory.mktemp("few") / "few")
    orders.where("id >= 500 AND id < 700").coalesce(1).write.parquet(path)
    return orders.sparkSession.read.parquet(path)


def parse(amount: str) -> float:
    amount = amount.strip()  # the argument's name is used again: the record must be the one that came in
    return float(amount)


def parse_all(amounts: pd.Series) -> pd.Series:
    return amounts.map(float)


def parse_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame.assign(amount=frame["amount"].map(float))


def parse_group(group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"shop": [group["shop"][0]], "total": [group["amount"].map(float).sum()]})


def parse_keyed(key: Any, group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"shop": [key[0]], "total": [group["amount"].map(float).sum()]})


def guarded(w: whence.Session, action: Callable[[], Any]) -> Culprit:
    with pytest.raises(Exception, match=r"six|died|exited") as caught, w.guard() as guard:
        action()
    assert guard.culprit is not None
    assert caught.value.culprit is guard.culprit  # type: ignore[attr-defined]
    if sys.version_info >= (3, 11):
        assert "fails alone with" in "".join(caught.value.__notes__)
    return guard.culprit


def fails_alone(culprit: Culprit, why: str) -> None:
    """In this process; test_scripts.py runs such scripts in one of their own."""
    assert culprit.script is not None
    path = list(sys.path)
    try:
        with pytest.raises(Exception, match=why):
            runpy.run_path(str(culprit.script), run_name="__main__")
    finally:
        sys.path[:] = path


def test_plain_udf(w: whence.Session, orders: DataFrame) -> None:
    value = udf(parse, "double")
    report = orders.where("id % 2 = 1").withColumn("value", value(col("amount"))).groupBy("shop").sum("value")
    culprit = guarded(w, report.collect)
    assert culprit.record == "six"
    assert culprit.function == "parse"
    assert culprit.error.startswith("ValueError")
    assert "float(amount)" in culprit.traceback
    (source,) = culprit.sources
    assert [row.id for row in source.rows] == [613]
    assert ".parquet#" in source.records[0]
    fails_alone(culprit, "could not convert string to float: 'six'")


def test_udf_of_two_arguments_in_a_filter_of_a_write(w: whence.Session, orders: DataFrame, tmp_path: Path) -> None:
    cheap = udf(lambda amount, shop: float(amount) < shop, "boolean")
    chosen = orders.where(cheap("amount", "shop"))
    culprit = guarded(w, lambda: chosen.write.parquet(str(tmp_path / "out")))
    assert culprit.record == ("six", 3)
    assert [row.id for row in culprit.sources[0].rows] == [613]


def parse_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        amount = batch.column("amount").cast(pa.float64())
        yield pa.RecordBatch.from_arrays([batch.column("id"), amount], ["id", "amount"])


def parse_table(key: Any, group: pa.Table) -> pa.Table:
    total = sum(group["amount"].cast(pa.float64()).to_pylist())
    return pa.table({"shop": [key[0].as_py()], "total": [total]})


def match(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    both = left["amount"].map(float).sum() + right["amount"].map(float).sum()
    return pd.DataFrame({"shop": right["shop"][:1], "total": [both][: len(right)]})


def match_tables(left: pa.Table, right: pa.Table) -> pa.Table:
    left["amount"].cast(pa.float64()), right["amount"].cast(pa.float64())
    return pa.table({"shop": right["shop"].slice(0, 1), "total": pa.array([float(len(left))])})


def total(amounts: pd.Series) -> float:
    return amounts.map(float).sum()


def total_array(amounts: pa.Array) -> float:
    return sum(amounts.cast(pa.float64()).to_pylist())


def array(amounts: pa.Array) -> pa.Array:
    return amounts.cast(pa.float64())


def arrays(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    for amounts in batches:
        yield amounts.cast(pa.float64())


class Halves:
    def eval(self, amount: str) -> Iterator[tuple[float]]:
        yield (float(amount) / 2,)


class Mended:
    def eval(self, amount: str) -> Iterator[tuple[float]]:
        yield (3.0 if amount == "six" else float(amount) / 2,)


def arrow_function(function: Any, hints: dict[str, Any]) -> Any:
    if not hasattr(F, "arrow_udf"):
        pytest.skip("PySpark before 4.1 has no arrow_udf")
    function.__annotations__ = hints  # PySpark reads them as types, not as text
    return F.arrow_udf(function, "double")


def summed(function: Any) -> Any:
    return pandas_udf(function, "double", functionType=PandasUDFType.GROUPED_AGG)


def in_table_function(orders: DataFrame) -> DataFrame:
    orders.createOrReplaceTempView("guarded_orders")
    orders.sparkSession.udtf.register("halves", udtf(Halves, returnType="half: double"))
    return orders.sparkSession.sql("SELECT id, half FROM guarded_orders, LATERAL halves(amount)")


def pair(orders: DataFrame) -> Any:
    """Shops of even and of odd orders."""
    return orders.where("id % 2 = 0").groupBy("shop").cogroup(orders.where("id % 2 = 1").groupBy("shop"))


SHOPS = "shop long, total double"
FRAMES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "pandas_udf": lambda o: o.select("id", pandas_udf(parse_all, "double")("amount").alias("value")),
    "mapInPandas": lambda o: o.mapInPandas(parse_frames, "id long, amount double, shop long"),
    "mapInArrow": lambda o: o.mapInArrow(parse_batches, "id long, amount double"),
    "applyInPandas": lambda o: o.groupBy("shop").applyInPandas(parse_group, SHOPS),
    "applyInPandas with key": lambda o: o.groupBy("shop").applyInPandas(parse_keyed, SHOPS),
    "applyInArrow with key": lambda o: o.groupBy("shop").applyInArrow(parse_table, SHOPS),
    "cogroup, applyInPandas": lambda o: pair(o).applyInPandas(match, SHOPS),
    "cogroup, applyInArrow": lambda o: pair(o).applyInArrow(match_tables, SHOPS),
    "aggregate": lambda o: o.groupBy("shop").agg(summed(total)("amount").alias("total")),
    "aggregate in Arrow": lambda o: o.groupBy("shop").agg(
        arrow_function(total_array, {"amounts": pa.Array, "return": float})("amount").alias("total")
    ),
    "window": lambda o: o.select(
        "id", summed(total)("amount").over(Window.partitionBy("shop").orderBy("id").rowsBetween(-1, 0)).alias("total")
    ),
    "arrow_udf": lambda o: o.select("id", arrow_function(array, {"amounts": pa.Array, "return": pa.Array})("amount")),
    "arrow_udf, iterator": lambda o: o.select(
        "id", arrow_function(arrays, {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]})("amount")
    ),
    "table function": in_table_function,
}


def made(kind: str, orders: DataFrame) -> DataFrame:
    from releases import RELEASE  # here, since workers import this file and have no other of the tests

    if "applyInArrow" in kind and RELEASE < (4, 0):
        pytest.skip("Spark has applyInArrow since 4.0")
    return FRAMES[kind](orders)


@pytest.mark.parametrize("kind", FRAMES)
def test_functions_of_batches_and_groups(w: whence.Session, few: DataFrame, kind: str) -> None:
    culprit = guarded(w, made(kind, few).collect)
    record = culprit.record
    if kind.startswith("cogroup"):
        assert [len(side) for side in record] == [0, 1]  # order 613 stands on the right
        record = record[1]
    if kind == "table function":
        assert record == "six"
    else:
        assert len(record) == 1  # the smallest failing batch
        row = record.iloc[0].tolist() if isinstance(record, pd.DataFrame) else [c[0].as_py() for c in record.columns]
        assert "six" in row
    (source,) = culprit.sources
    assert [row.id for row in source.rows] == [613]
    assert ".parquet#" in source.records[0]
    fails_alone(culprit, "six")


def test_records_that_fail_only_together(w: whence.Session, spark: SparkSession) -> None:
    def no_pair(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            if {17, 400} <= set(frame["id"]):
                raise ValueError("six and seven")
            yield frame

    culprit = guarded(w, spark.range(0, 500, 1, 1).mapInPandas(no_pair, "id long").collect)
    assert sorted(culprit.record["id"]) == [17, 400]


def test_rdd_functions(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{n if n != 70 else 'six'},{n % 3}\n" for n in range(100)))
    lines = spark.sparkContext.textFile(str(path), 2)
    totals = lines.map(lambda line: line.split(",")).map(lambda p: (p[1], int(p[0]))).reduceByKey(lambda a, b: a + b)
    culprit = guarded(w, totals.collect)
    assert culprit.record == ["six", "1"]
    (source,) = culprit.sources
    assert source.source == "lines.txt"
    assert source.rows == ("six,1",)
    assert "of bytes" in source.records[0]
    fails_alone(culprit, "invalid literal for int")


def test_an_opaque_function_of_a_partition(w: whence.Session, spark: SparkSession) -> None:
    def work(records: Iterator[str]) -> Iterator[float]:
        for record in records:
            yield float(record)

    culprit = guarded(w, spark.sparkContext.parallelize(["1", "2", "six", "4"], 2).mapPartitions(work).count)
    assert culprit.record == "six"
    assert culprit.index == 0
    fails_alone(culprit, "could not convert")


def die(n: int) -> int:
    if n == 55:
        os._exit(3)
    return n


def test_a_process_that_dies(w: whence.Session, spark: SparkSession) -> None:
    """Other kinds of function, and the scripts, which die too: test_scripts.py."""
    culprit = guarded(w, spark.range(0, 100, 1, 4).select(udf(die, "long")("id")).collect)
    assert culprit.record == 55
    assert "died" in culprit.error


def test_other_errors_pass_untouched(w: whence.Session) -> None:
    with pytest.raises(KeyError) as caught, w.guard() as guard:
        raise KeyError("six")
    assert guard.culprit is None
    assert not hasattr(caught.value, "culprit")


def test_a_statement_that_is_run_at_once(w: whence.Session, few: DataFrame, tmp_path: Path) -> None:
    few.createOrReplaceTempView("guarded_few")
    few.sparkSession.udf.register("parse_amount", parse, "double")
    target = f"INSERT OVERWRITE DIRECTORY '{tmp_path / 'out'}' USING parquet"
    query = "SELECT parse_amount(amount) AS value FROM guarded_few"
    culprit = guarded(w, lambda: few.sparkSession.sql(f"{target} {query}"))
    assert (culprit.function, culprit.record) == ("parse", "six")
    assert [row.id for row in culprit.sources[0].rows] == [613]
    with pytest.raises(Exception, match="six") as caught, w.guard() as guard:
        few.sparkSession.sql(f"{target} {query} WHERE id > :least", args={"least": 0})
    assert guard.culprit is None
    if sys.version_info >= (3, 11):  # errors carry notes since then
        assert "no DataFrame, RDD or statement with Python functions" in "".join(caught.value.__notes__)


def test_a_job_that_goes_well_is_left_alone(w: whence.Session, orders: DataFrame) -> None:
    with w.guard() as guard:
        assert orders.where("id != 613").select(udf(parse, "double")("amount")).count() == 999
    assert guard.culprit is None


# -- quarantine --------------------------------------------------------------------------------------------------------


def test_quarantine_of_a_udf(w: whence.Session, orders: DataFrame) -> None:
    report = orders.select("id", udf(parse, "double")("amount").alias("value"))  # made before the block
    with w.guard(on_error="quarantine") as guard:
        rows = {row.id: row.value for row in report.collect()}
    assert len(rows) == 1000
    assert rows[613] is None
    assert rows[612] == 612.5
    (aside,) = guard.records
    assert aside.record == ("six",)
    assert aside.error.startswith("ValueError")
    assert len(aside.sources) == 1
    assert ".parquet#" in aside.sources[0]
    (row,) = guard.table().collect()
    assert row.function == "parse"
    (again,) = guard.replay(lambda amount: 6.0 if amount == "six" else float(amount))
    assert again.result == 6.0
    assert guard.replay(parse)[0].error is not None
    with pytest.raises(Exception, match="six"):
        report.collect()  # outside the block the function is as it was


def test_quarantine_of_a_query_that_has_failed_before(w: whence.Session, few: DataFrame) -> None:
    report = few.select("shop", udf(parse, "double")("amount").alias("value")).groupBy("shop").count()
    whole = few.select(udf(parse, "double")("amount").alias("value"), "shop").groupBy("shop").sum("value")
    with pytest.raises(Exception, match="six"):
        whole.collect()
    with w.guard(on_error="quarantine") as guard:
        assert len(whole.collect()) == 5
        assert len(report.collect()) == 5
    assert [q.record for q in guard.records] == [("six",)]  # the count needs no values, so nothing is parsed for it


# The other kinds go on in test_guard_batches.py, without Spark.
@pytest.mark.parametrize("kind", sorted({*FRAMES} - {"applyInPandas with key", "arrow_udf", "cogroup, applyInArrow"}))
def test_quarantine_of_batches_and_groups(w: whence.Session, few: DataFrame, kind: str) -> None:
    frame = made(kind, few)
    with w.guard(on_error="quarantine") as guard:
        rows = frame.collect()
    left_out = kind in ("mapInPandas", "mapInArrow", "table function")
    of_shops = "total" in frame.columns and kind != "window"
    assert len(rows) == (199 if left_out else 5 if of_shops else 200)
    (aside,) = guard.records
    assert "six" in aside.record
    (place,) = aside.sources
    assert ".parquet#" in place
    streams = left_out or "iterator" in kind
    mended = Mended if kind == "table function" else lambda *given: [*map(len, given[0])] if streams else len(given[-1])
    (again,) = guard.replay(mended)  # is given that record alone, in the form its function takes
    assert again.error is None
    assert again.result == ([(3.0,)] if kind == "table function" else [1] if streams else 1)
    if of_shops and "cogroup" not in kind:
        wanted = sum(n + 0.5 for n in range(500, 700) if n % 5 == 3 and n != 613)
        assert wanted in [row.total for row in rows]
    if kind == "window":
        totals = {row.id: row.total for row in rows}
        assert (totals[608], totals[613], totals[618]) == (603.5 + 608.5, 608.5, 618.5)  # frames without the row


def test_quarantine_of_rdd_functions(w: whence.Session, spark: SparkSession) -> None:
    lines = spark.sparkContext.parallelize(["1", "2", "six", "4", "", "7"], 2)
    with w.guard(on_error="quarantine") as guard:
        pairs = lines.map(int).filter(lambda n: 10 // (n - 4) != 0).flatMap(lambda n: [(n % 2, n)] * 2)
        assert sorted(pairs.reduceByKey(lambda a, b: a + b).collect()) == [(0, 4), (1, 16)]
    assert sorted(str(q.record) for q in guard.records) == ["", "4", "six"]
    assert {q.error.split(":")[0] for q in guard.records} == {"ValueError", "ZeroDivisionError"}
    assert sorted(r.result for r in guard.replay(lambda text: len(str(text)))) == [0, 1, 3]


def test_what_cannot_go_on_fails_with_its_culprit(w: whence.Session, spark: SparkSession) -> None:
    def work(records: Iterator[str]) -> Iterator[float]:
        for record in records:
            yield float(record)

    with pytest.raises(Exception, match="six"), w.guard(on_error="quarantine") as guard:
        spark.sparkContext.parallelize(["1", "six"], 1).mapPartitions(work).collect()
    assert guard.culprit is not None
    assert guard.culprit.record == "six"
    with pytest.raises(ValueError, match="on_error"):
        w.guard(on_error="ignore")
