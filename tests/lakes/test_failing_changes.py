"""UPDATE, DELETE and MERGE that fail on a row: the guard names it, where it lies, and the expression."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from releases import since
from whence.debug.guard.culprit import Culprit

TABLES = {"delta": "default.changing", "iceberg": "ice.shop.changing"}
pytestmark = pytest.mark.usefixtures("ansi")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Row 3 of each table has what is no number, and so has row 2 of what is merged into it."""
    spark.udf.register("parse", int, "int")
    kinds = [kind for kind in TABLES if kind in spark.conf.get("spark.sql.extensions", "")]
    for kind in kinds:
        spark.sql(f"DROP TABLE IF EXISTS {TABLES[kind]}")
        spark.sql(f"CREATE TABLE {TABLES[kind]} (id bigint, amount string, n int) USING {kind}")
        rows = spark.range(0, 6, 1, 1).selectExpr("id", "IF(id = 3, '5x7', CAST(id AS STRING))", "CAST(3 - id AS INT)")
        rows.write.insertInto(TABLES[kind])
    path = str(tmp_path_factory.mktemp("fixes") / "fixes")
    spark.range(4, 8, 1, 1).selectExpr("id", "IF(id = 6, '6x', CAST(id AS STRING)) AS amount").write.parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("fixes")
    yield TABLES
    for kind in kinds:
        spark.sql(f"DROP TABLE {TABLES[kind]}")


def culprit_of(w: whence.Session, spark: SparkSession, run: Callable[[], object], table: str) -> Culprit:
    before = spark.table(table).orderBy("id").collect()
    with pytest.raises((PySparkException, Py4JJavaError)) as caught, w.guard() as guard:
        run()
    assert guard.culprit is not None, getattr(caught.value, "__notes__", "")
    assert spark.table(table).orderBy("id").collect() == before
    return guard.culprit


def places(culprit: Culprit) -> dict[str, list[tuple[int, str]]]:
    """The rows of each source by id, with their numbers in their files."""
    found = {}
    for source in culprit.sources:
        numbers = [record.rsplit("#", 1)[1] for record in source.records]
        found[source.source] = list(zip([row.id for row in source.rows], numbers, strict=True))
    return found


STATEMENTS = {
    "a cast in SET": ("UPDATE {t} SET n = CAST(amount AS INT) WHERE id > 0", "CAST(amount AS INT)"),
    "a cast in the condition": ("UPDATE {t} SET n = 0 WHERE CAST(amount AS INT) > 1", "CAST(amount AS INT)"),
    "a division": ("UPDATE {t} SET n = 6 DIV n", "(6L div CAST(n AS BIGINT))"),
    "a remainder": ("UPDATE {t} SET n = 6 % n", "(6 % n)"),
    "a cast in DELETE": ("DELETE FROM {t} WHERE CAST(amount AS INT) = 1", "CAST(amount AS INT)"),
    "a function in SET": ("UPDATE {t} SET n = parse(amount) WHERE id > 1", "int"),
    "a function in the condition": ("UPDATE {t} SET n = 0 WHERE parse(amount) = 1", "int"),
}


@pytest.mark.parametrize("what", list(STATEMENTS))
@pytest.mark.parametrize("kind", list(TABLES))
def test_statements(w: whence.Session, spark: SparkSession, tables: dict[str, str], kind: str, what: str) -> None:
    table = tables[kind]
    text, expression = STATEMENTS[what]
    culprit = culprit_of(w, spark, lambda: spark.sql(text.format(t=table)), table)
    assert culprit.function == expression
    assert places(culprit) == {"changing": [(3, "3")]}


@pytest.mark.parametrize("kind", list(TABLES))
def test_merge(w: whence.Session, spark: SparkSession, tables: dict[str, str], kind: str) -> None:
    table = tables[kind]
    merge = f"MERGE INTO {table} t USING fixes s ON t.id = s.id "
    inserts = merge + "WHEN NOT MATCHED THEN INSERT (id, amount, n) VALUES (s.id, s.amount, CAST(s.amount AS INT))"
    culprit = culprit_of(w, spark, lambda: spark.sql(inserts), table)
    assert culprit.function == "CAST(amount AS INT)"
    assert places(culprit) == {"fixes": [(6, "2")]}
    updates = merge + "WHEN MATCHED THEN UPDATE SET n = 1 DIV (t.n + 1)"  # of 4
    culprit = culprit_of(w, spark, lambda: spark.sql(updates), table)
    assert places(culprit) == {"changing": [(4, "4")], "fixes": [(4, "0")]}
    on = f"MERGE INTO {table} t USING fixes s ON t.n = CAST(s.amount AS INT) WHEN MATCHED THEN UPDATE SET n = 0"
    culprit = culprit_of(w, spark, lambda: spark.sql(on), table)
    assert culprit.function == "CAST(amount AS INT)"
    assert places(culprit)["fixes"] == [(6, "2")]


def test_said_to_a_delta_table(w: whence.Session, spark: SparkSession, tables: dict[str, str]) -> None:
    from delta.tables import DeltaTable

    table = tables["delta"]
    held = DeltaTable.forName(spark, table)
    number = "CAST(amount AS INT)"
    parsed = F.udf(int, "int")("amount")
    fixes = spark.table("fixes").alias("s")
    inserts = held.alias("t").merge(fixes, "t.id = s.id").whenNotMatchedInsert(
        values={"id": "s.id", "n": "CAST(s.amount AS INT)"}
    )  # fmt: skip
    for run, name in (
        (lambda: held.update(set={"n": number}), number),
        (lambda: held.update(F.col("id") > 1, {"n": parsed}), "int"),
        (lambda: held.delete(f"{number} = 1"), number),
    ):
        culprit = culprit_of(w, spark, run, table)
        assert (culprit.function, places(culprit)) == (name, {"changing": [(3, "3")]})
    culprit = culprit_of(w, spark, inserts.execute, table)
    assert places(culprit) == {"fixes": [(6, "2")]}


@since("4.0", "df.mergeInto")
@pytest.mark.parametrize("kind", ["iceberg"])
def test_merge_into(w: whence.Session, spark: SparkSession, tables: dict[str, str], kind: str) -> None:
    source: DataFrame = spark.table("fixes")
    fixed = source.mergeInto(tables[kind], F.col("changing.id") == F.col("fixes.id"))
    inserts = fixed.whenNotMatched().insert({"id": F.col("fixes.id"), "n": F.expr("CAST(fixes.amount AS INT)")})
    culprit = culprit_of(w, spark, inserts.merge, tables[kind])
    assert places(culprit) == {"fixes": [(6, "2")]}
