"""Few rows are kept and counted on the driver, many in Spark: the answers are the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from whence.sql import Catalyst, SqlLineage

pytestmark = pytest.mark.usefixtures("interpreted")

QUERIES = {
    "grouped": "select g, count(*) as n from big group by g",
    "joined with itself": "select a.g, count(*) as n from big a join big b on a.id = b.id + 1 group by a.g",
    "outer": "select a.g, count(b.id) as n from big a left join big b on a.id = 2 * b.id group by a.g",
    "both": "select g, count(*) as n from (select g from big where id % 3 = 0 union all select g from big) group by g",
    "exists": "select g, count(*) as n from big where exists (select 1 from big o where o.id = big.id + 5) group by g",
    "twice grouped": "select g, sum(m) as n from (select g, id % 9 d, count(*) as m from big group by g, d) group by g",
    "of all": "select g, count(*) as n from big where id >= (select avg(id) from big) group by g",
}


@pytest.fixture(scope="module")
def big(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """Group 0 has nearly all rows, group 1 ten of them."""
    path = str(tmp_path_factory.mktemp("sizes") / "big")
    rows = spark.range(4000).selectExpr("id", "cast(id % 400 = 7 as int) as g", "array(id % 2) as pair")
    rows.repartition(2, "id").write.parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("big")
    return spark


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("group", [0, 1])
def test_witnesses_are_counted_as_they_are_read(w: whence.Session, big: SparkSession, query: str, group: int) -> None:
    trace = w.backward(big.sql(QUERIES[query]).where(f"g = {group}"))
    assert trace.witness_counts["big"] == trace["big"].distinct().count() > 0
    assert trace.verify()


def test_rows_that_a_limit_keeps_are_found_by_keys_without_a_hash(w: whence.Session, big: SparkSession) -> None:
    query = "select pair, count(*) as n from big where id < 11 group by pair order by n desc limit 2"
    trace = w.backward(big.sql(query))
    assert sorted(row["id"] for row in trace["big"].collect()) == list(range(11))
    one = w.backward(big.sql(query).where("n = 5"))
    assert sorted(row["id"] for row in one["big"].collect()) == [1, 3, 5, 7, 9]


def test_keys_that_are_no_utf8_stay_what_they_are(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    """Python sees one replacement character for each of them; a filter by what Python sees would find nothing."""
    path = str(tmp_path / "bytes")
    rows = "select cast(unhex(x) as string) as k, n from values ('FF', 1), ('FE', 2), ('FF', 3), ('61', 4) as t(x, n)"
    spark.sql(rows).coalesce(1).write.parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("bytes")
    df = spark.sql("select k, sum(n) as s from bytes group by k order by count(*) desc limit 1")
    assert sorted(row["n"] for row in w.backward(df)["bytes"].collect()) == [1, 3]
    touched = w.forward(
        spark.table("bytes").where("n = 3"), to=spark.sql("select k, sum(n) as s from bytes group by k")
    )
    assert [row["s"] for row in touched.rows.collect()] == [4]


@pytest.mark.parametrize(("parts", "local"), [(3000, False), (3, True)])
def test_few_but_large_rows_stay_in_spark(w: whence.Session, big: SparkSession, parts: int, local: bool) -> None:
    long = f"array_join(transform(sequence(1, {parts}), i -> sha2(concat(id, '-', i), 512)), '')"
    df = big.sql(f"select id, {long} as long from big where id >= 3900 order by id desc limit 80")
    c = Catalyst(big)
    assert c.keep(c.plan_of(df)).local is local
    c.release()
    trace = w.backward(df.where("id = 3990"))
    assert [row["id"] for row in trace["big"].collect()] == [3990]


def test_tables_that_no_condition_joins_are_not_multiplied(big: SparkSession, tmp_path: Path) -> None:
    """In the order of its FROM clause this query would pair all of `one` with all of `two`."""
    for name, column in (("one", "a"), ("two", "b")):
        big.range(20).selectExpr(f"id as {column}").write.parquet(str(tmp_path / name))
        big.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    df = big.sql("select a, b, id from one, two, big where a = id and b = id + 1")
    c = Catalyst(big)
    plan = c.frame(SqlLineage(c, df).root.annotated.plan)._jdf.queryExecution().optimizedPlan().toString()
    joins = [line for line in plan.splitlines() if "Join" in line]
    assert len(joins) == 2
    assert all("=" in line for line in joins), plan


def test_what_is_computed_of_rows_at_hand_goes_by_the_settings_of_the_session(spark: SparkSession) -> None:
    """Tasks have the settings only if they are told: without, a key that comes twice is an error there."""
    spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    try:
        c = Catalyst(spark)
        rows = "VALUES (1, 10), (1, 20), (2, 30) AS t(id, v)"
        last = "map_from_arrays(array(1, 1), array(id, max(v)))[1]"
        kept = c.keep(c.plan_of(spark.sql(f"SELECT {last} AS last FROM {rows} GROUP BY id")))
        assert kept.local
        assert sorted(row[0] for row in c.frame(kept.plan).collect()) == [20, 30]
    finally:
        spark.conf.unset("spark.sql.mapKeyDedupPolicy")
