"""Python functions of every kind in a query: each output row's witnesses, the proof, and forward."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import whence
from releases import RELEASE, since
from sql.told import check

ROWS = [(0, 1, None, 10), (1, None, 1, 20), (2, 1, None, 30), (3, None, 1, 30), (4, 2, 2, 30), (4, 2, 2, 30)]
# A function with ballast travels as a broadcast.
BALLAST = bytes(1_200_000)


@pytest.fixture(scope="module")
def w(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    with whence.attach(spark, store=tmp_path_factory.mktemp("store")) as session:
        yield session


@pytest.fixture(scope="module")
def t(spark: SparkSession) -> DataFrame:
    """One partition; the last two rows are equal."""
    rows = spark.sparkContext.parallelize(ROWS, 1)
    spark.createDataFrame(rows, "rid bigint, k bigint, l bigint, v bigint").createOrReplaceTempView("t")
    return spark.table("t")


def of(*rids: int) -> dict[str, set[int]]:
    return {"t": set(rids)}


def test_map_in_pandas_row_by_row(w: whence.Session, t: DataFrame) -> None:
    factor = w.spark.sparkContext.broadcast(2)

    def function(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            frame["v"] = frame.v * factor.value + len(BALLAST) * 0
            yield frame.loc[frame.v > 20, ["v", "rid"]]

    df = t.mapInPandas(function, "rid bigint, v bigint").where("rid > 1")
    expected = [((2, 60), of(2)), ((3, 60), of(3)), ((4, 60), of(4)), ((4, 60), of(4))]
    trace = check(w, df, expected)
    assert trace["t"].count() == 4  # the two equal rows are two


def test_map_in_pandas_by_batch_and_by_partition(w: whence.Session, t: DataFrame) -> None:
    def above_mean(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame[frame.v >= frame.v.mean()][["rid"]]

    def running(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        total = 0
        for frame in frames:
            total += int(frame.v.sum())
            yield pd.DataFrame({"total": [total]})

    w.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 2)
    try:
        # Batches in the order of v: (10, 20), of which one is left; (30, 30) twice, where each row stays alone too.
        by_batch = check(
            w,
            t.orderBy("v", "rid").coalesce(1).mapInPandas(above_mean, "rid bigint"),
            [((1,), of(0, 1)), ((2,), of(2)), ((3,), of(3)), ((4,), of(4)), ((4,), of(4))],
            exact=False,
        )
        assert ["MapInPandas: above_mean gives something else for a batch" in n for n in by_batch.notes] == [True]
        by_partition = check(
            w,
            t.mapInPandas(running, "total bigint"),
            [((30,), of(0, 1)), ((90,), of(0, 1, 2, 3)), ((150,), of(0, 1, 2, 3, 4))],
            exact=False,
        )
        assert any("depends on more than one batch" in n for n in by_partition.notes)
    finally:
        w.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_map_in_arrow_below_an_aggregate(w: whence.Session, t: DataFrame) -> None:
    def twice(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            yield batch

    df = t.select("rid", "v").mapInArrow(twice, "rid bigint, v bigint").groupBy("v").count()
    expected = [((10, 2), of(0)), ((20, 2), of(1)), ((30, 8), of(2, 3, 4))]
    check(w, df, expected, seeds=t.where("rid = 0"))


def test_apply_in_pandas(w: whence.Session, t: DataFrame) -> None:
    """NULL keys are one group, and (NULL, 1) is not (1, NULL)."""

    def total(key: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        assert list(frame.columns) == ["rid", "k", "l", "v"]
        return pd.DataFrame({"n": [len(frame)], "v": [frame.v.sum()], "keys": [len(key)]})

    def largest(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.nlargest(1, "v")[["v"]].rename(columns={"v": 0})

    check(
        w,
        t.groupBy("k", "l").applyInPandas(total, "n bigint, v bigint, keys bigint"),
        [((2, 40, 2), of(0, 2)), ((2, 50, 2), of(1, 3)), ((2, 60, 2), of(4))],
        seeds=t.where("rid = 0"),
    )
    df = t.groupBy((F.col("v") > 20).alias("much")).applyInPandas(largest, "v bigint")
    check(w, df, [((20,), of(0, 1)), ((30,), of(2, 3, 4))])


@since("4.0", "applyInArrow")
def test_apply_in_arrow(w: whence.Session, t: DataFrame) -> None:
    def counted(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        return pa.table({"k": pa.array([key[0].as_py()], pa.int64()), "n": [table.num_rows]})

    check(
        w,
        t.groupBy("k").applyInArrow(counted, "k bigint, n bigint"),
        [((1, 2), of(0, 2)), ((None, 2), of(1, 3)), ((2, 2), of(4))],
    )


def test_grouped_functions_over_batches(w: whence.Session, t: DataFrame) -> None:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.select(["k", "v"])

    def frames(key: tuple[Any, ...], given: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"n": [sum(len(frame) for frame in given)]})

    try:
        by_arrow = _with_hints(t, rows, Iterator[pa.RecordBatch], "Arrow", "k bigint, v bigint")
        by_pandas = _with_hints(t, frames, Iterator[pd.DataFrame], "Pandas", "n bigint")
    except Exception as error:
        if RELEASE >= (4, 3):
            raise
        pytest.skip(f"this Spark has no grouped functions over batches: {type(error).__name__}")
    check(w, by_arrow.where("k = 1"), [((1, 10), of(0, 2)), ((1, 30), of(0, 2))])
    check(w, by_pandas, [((2,), of(0, 2)), ((2,), of(1, 3)), ((2,), of(4))])


def _with_hints(t: DataFrame, function: Any, batches: Any, kind: str, schema: str) -> DataFrame:
    """Spark tells these functions by their type hints, which must be types and not text."""
    first = {"key": tuple[Any, ...]} if kind == "Pandas" else {}
    argument = "given" if kind == "Pandas" else "batches"
    function.__annotations__ = {**first, argument: batches, "return": batches}
    return getattr(t.groupBy("k"), f"applyIn{kind}")(function, schema)


def test_cogrouped(w: whence.Session, t: DataFrame) -> None:
    w.spark.createDataFrame([(0, 1), (1, None), (2, 7)], "rid bigint, k bigint").createOrReplaceTempView("u")
    groups = t.groupBy("k").cogroup(w.spark.table("u").groupBy("k"))

    def sizes(key: tuple[Any, ...], left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"left": [len(left)], "right": [len(right)]})

    def tables(left: pa.Table, right: pa.Table) -> pa.Table:
        return pa.table({"n": [left.num_rows * 10 + right.num_rows]})

    expected = [
        ((2, 1), {"t": {0, 2}, "u": {0}}),
        ((2, 1), {"t": {1, 3}, "u": {1}}),
        ((2, 0), {"t": {4}}),
        ((0, 1), {"u": {2}}),
    ]
    check(w, groups.applyInPandas(sizes, "left bigint, right bigint"), expected, seeds=t.where("rid = 0"))
    if RELEASE >= (4, 0):
        check(w, groups.applyInArrow(tables, "n bigint").where("n = 1"), [((1,), {"u": {2}})])


def test_functions_inside_other_operators(w: whence.Session, t: DataFrame) -> None:
    @F.udf("bigint")
    def plus(v):  # type: ignore[no-untyped-def]
        return None if v is None else v + 1

    @F.pandas_udf("bigint")  # type: ignore[call-overload]
    def times(v: pd.Series) -> pd.Series:
        return v * 2

    @F.pandas_udf("bigint")  # type: ignore[call-overload]
    def parts(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        yield from batches

    @F.pandas_udf("double")  # type: ignore[call-overload]
    def mean(v: pd.Series) -> float:
        return float(v.mean())

    narrow = t.where(plus("v") > 25).select("rid", times(parts("v")).alias("v"))
    check(w, narrow.where("rid < 4"), [((2, 60), of(2)), ((3, 60), of(3))])
    check(
        w,
        t.groupBy(plus("k").alias("k")).agg(mean("v").alias("v")).where("k is null or k = 2"),
        [((None, 25.0), of(1, 3)), ((2, 20.0), of(0, 2))],
    )
    check(
        w,
        t.select("rid", mean("v").over(Window.partitionBy("k")).alias("v")).where("rid < 2"),
        [((0, 20.0), of(0, 2)), ((1, 25.0), of(1, 3))],
    )


def test_groups_in_several_partitions(w: whence.Session, t: DataFrame) -> None:
    """Spark's own position of a row is wrong right above an aggregate in Python: two partitions count from 0."""

    @F.pandas_udf("bigint")  # type: ignore[call-overload]
    def total(v: pd.Series) -> int:
        return int(v.sum())

    sums = t.repartition(4, "rid").groupBy("rid").agg(total("rid").alias("sum"))
    expected = [((n, n), of(n)) for n in range(4)] + [((4, 8), of(4))]
    check(w, sums, expected)
    check(w, sums.where("rid < 3"), expected[:3])

    def same(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        yield from frames

    check(w, sums.mapInPandas(same, "rid long, sum long"), expected)


def test_functions_over_arrow(w: whence.Session, t: DataFrame) -> None:
    """Python functions whose rows travel as Arrow are functions of the row like any other."""
    twice = F.udf(lambda v: v * 2, "bigint", useArrow=True)
    columns = [twice("rid").alias("double")]
    if hasattr(F, "arrow_udf"):
        import pyarrow.compute as pc

        more = F.arrow_udf(lambda v: pc.add(v, 1), "bigint")
        columns.append(more("rid").alias("next"))
    trace = w.backward(t.select("rid", *columns).where("double = 6"))
    assert [row.rid for row in next(iter(trace.sources.values())).collect()] == [3]
    assert trace.exact
    assert trace.verify().ok


def test_table_functions(w: whence.Session, t: DataFrame) -> None:
    @F.udtf(returnType="n bigint")
    class Upto:
        def eval(self, k: int) -> Iterator[tuple[int]]:
            for i in range(k or 0):
                yield (i,)

    @F.udtf(returnType="k bigint, n bigint")
    class Count:
        def __init__(self) -> None:
            self.k, self.n = None, 0

        def eval(self, row: Any) -> None:
            self.k, self.n = row["k"], self.n + 1

        def terminate(self) -> Iterator[tuple[Any, int]]:
            yield self.k, self.n

    w.spark.udtf.register("upto", Upto)
    w.spark.udtf.register("counted", Count)
    check(
        w,
        w.spark.sql("SELECT rid, n FROM t, LATERAL upto(t.k) WHERE rid IN (0, 1, 4)"),
        [((0, 0), of(0)), ((4, 0), of(4)), ((4, 0), of(4)), ((4, 1), of(4)), ((4, 1), of(4))],
    )
    if RELEASE < (4, 0):  # which gives a function no partitions of a table
        return
    whole = w.spark.sql("SELECT * FROM counted(TABLE(t) PARTITION BY k)").where("k = 1")
    trace = check(w, whole, [((1, 2), of(0, 1, 2, 3, 4))], exact=False)
    assert trace.notes[0].startswith("Generate: counted takes a whole table")


def test_not_deterministic_functions_are_refused(w: whence.Session, t: DataFrame) -> None:
    noise = F.udf(lambda v: v, "bigint").asNondeterministic()
    with pytest.raises(whence.NonDeterministic, match="<lambda>"):
        w.backward(t.select(noise("v")))


@since("3.5", "barrier execution in SQL")
def test_batches_of_a_barrier_are_proven(w: whence.Session, t: DataFrame) -> None:
    """Spark takes no union of what runs behind a barrier."""
    for df in (t.mapInPandas(lambda frames: frames, t.schema, barrier=True), t.mapInArrow(lambda b: b, t.schema, True)):
        trace = w.backward(df.where("rid = 1"))
        assert [row.rid for row in trace["t"].collect()] == [1]
        assert trace.verify().ok
        assert [row.rid for row in trace.replay().collect()] == [1]


@since("4.0", "aggregates of pandas' without keys")
def test_a_value_of_all_rows_by_pandas_is_proven(w: whence.Session, tmp_path: Path) -> None:
    """Spark 4.3 does not plan a query in which two such values stand, and a proof compares two."""

    @F.pandas_udf("bigint")  # type: ignore[call-overload]
    def largest(v: pd.Series) -> int:
        return int(v.max())

    path = str(tmp_path / "numbers")
    w.spark.range(5).write.parquet(path)
    trace = w.backward(w.spark.read.parquet(path).agg(largest("id").alias("id")))
    assert trace.verify().ok
    assert trace.witness_counts == {"numbers": 5}
