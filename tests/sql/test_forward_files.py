"""Forward from rows of files: their values help to skip other rows in the scan, which must not change the answer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence

pytestmark = pytest.mark.usefixtures("tiny")

LEFT = [(1, "x", 5), (2, "x", None), (3, "y", 5), (4, None, 1), (5, "z", 2), (1, "x", 5)]
RIGHT = [(10, "x", 1), (11, "x", 2), (12, "z", 2), (13, None, 3)]

# Each touches rows in another way; the outer joins and the window are where a filtered source could change other rows.
QUERIES = {
    "outer": "select l.id, l.k, r.id as other from l left join r on l.k = r.k",
    "full": "select l.id, r.id as other, coalesce(l.v, r.w) as n from l full join r on l.v = r.w",
    "window": "select id, k, place from (select *, rank() over (partition by k order by id desc) as place from l)"
    " where place = 2",
    "grouped": "select k, count(*) as n, sum(v) as s from l group by k",
    "itself": "select a.id, b.id as other from l a join l b on a.v = b.v",
    "both": "select id, k from l where v > 1 union all select id, k from l where k = 'x'",
    "without": "select id, k from l where k not in (select k from r where k is not null)",
    "counted": "select count(*) as n from l where v = 5",
    "compared": "select id, k from l where v >= (select avg(v) from l others where others.k = l.k)",
    "compared and counted": "select count(*) as n from l where v >= (select avg(v) from l others where others.k = l.k)",
    "exists": "select id, k from l where exists (select 1 from l others where others.v = l.v and others.id < l.id)",
    "twice grouped": "select n, count(*) as m from (select k, count(v) as n from l group by k) group by n",
    "kept": "select id, v from l order by v desc, id limit 3",
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forward")
    for name, rows, schema in (("l", LEFT, "id int, k string, v int"), ("r", RIGHT, "id int, k string, w int")):
        frame = spark.createDataFrame(rows, schema)
        frame.coalesce(1).write.parquet(str(folder / name))
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    return folder


Told = tuple[list[Any], list[Any]]


def traced(w: whence.Session, df: DataFrame, source: str) -> Told:
    """Which output has which row of the source as witness, and the outputs, from the backward trace of all rows."""
    trace = w.backward(df)
    return trace.associations().where(F.col("source") == source).collect(), trace.outputs().collect()


def rows_touched(told: Told, *records: int) -> Counter[tuple[object, ...]]:
    """The rows of the result that have one of the records as witness."""
    found, outputs = told
    wanted = {f"#{record}" for record in records}
    touched = {output for output, _, record in found if record[record.index("#") :] in wanted}
    return Counter(tuple(row)[1:] for row in outputs if row[0] in touched)


@pytest.mark.parametrize("query", QUERIES)
def test_forward_gives_the_rows_that_backward_leads_from(w: whence.Session, tables: Path, query: str) -> None:
    df = w.spark.sql(QUERIES[query])
    told = traced(w, df, "l")
    # (id 1, the two equal rows) and (id 2, with a NULL)
    for seed, records in (("id = 1", (0, 5)), ("id = 2", (1,))):
        found = w.forward(w.spark.table("l").where(seed), to=df).rows.collect()
        assert Counter(tuple(row) for row in found) == rows_touched(told, *records)


@pytest.mark.parametrize("below", [15, 150, 1500], ids=["few", "some", "many"])
def test_forward_from_few_and_from_many_rows(w: whence.Session, tmp_path: Path, below: int) -> None:
    rows = w.spark.range(3000).selectExpr("cast(id as int) as id", "cast(id % 40 as int) as k", "cast(id % 7 as int) v")
    rows.coalesce(1).write.parquet(str(tmp_path / "many"))
    w.spark.read.parquet(str(tmp_path / "many")).createOrReplaceTempView("many")
    df = w.spark.sql("select k, sum(v) as s from many where v > 2 group by k")
    found = w.forward(w.spark.table("many").where(f"id < {below} and v > 5"), to=df).rows.collect()
    seeds = [row["k"] for row in w.spark.table("many").where(f"id < {below} and v > 5").collect()]
    assert {row["k"] for row in found} == set(seeds)
    assert Counter(map(tuple, found)) <= Counter(map(tuple, df.collect()))
