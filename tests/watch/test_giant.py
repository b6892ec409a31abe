"""Giant plans, as they are: wide, with many joins, deep. What is cut is said in the run's report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import short
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from whence.sql.rules import RULES
from whence.sql.sources import SCANS
from whence.watch import listener, nodes
from whence.watch.nodes import NODES

COLUMNS = 5000


@pytest.fixture(scope="module")
def wide(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE DATABASE giant")
    spark.sql("USE giant")
    spark.sql("CREATE TABLE t1 (id INT, name STRING) USING parquet")
    spark.sql("CREATE TABLE t2 (id INT, name STRING) USING parquet")
    spark.sql(f"CREATE TABLE wide ({', '.join(f'c{n} INT' for n in range(COLUMNS))}) USING parquet")
    yield
    spark.sql("USE default")
    spark.sql("DROP DATABASE giant CASCADE")  # DROP VIEW would analyse each view once more


def seen(w: whence.Session) -> tuple[set[tuple[str, str]], list[Any], dict[str, int]]:
    edges = {(short(e.source.name), short(e.target.name)) for e in w.catalog.edges()}
    (run,) = w.catalog.runs()
    return edges, list(w.catalog.edges("column", expand=False)), dict(run.details.get("gaps", {}))


def test_200_joins(spark: SparkSession, wide: None, tmp_path: Path) -> None:
    joins = " ".join(f"LEFT JOIN t{1 + n % 2} AS j{n} ON j{n}.id = j{n - 1}.id" for n in range(1, 201))
    with whence.attach(spark, store=tmp_path) as w:
        spark.sql(f"CREATE VIEW joined AS SELECT j0.id, concat(j199.name, j200.name) AS name FROM t1 AS j0 {joins}")
        edges, columns, gaps = seen(w)
    assert edges == {("t1", "joined"), ("t2", "joined")}
    assert {(c.source_column, c.target_column) for c in columns if c.kind == "DIRECT"} == {
        ("id", "id"),
        ("name", "name"),
    }
    assert {(short(c.source.name), c.source_column) for c in columns if c.subtype == "JOIN"} == {
        ("t1", "id"),
        ("t2", "id"),
    }
    assert gaps == {}


def test_5000_columns(spark: SparkSession, wide: None, tmp_path: Path) -> None:
    values = ", ".join(f"c{n} + c{(n + 1) % COLUMNS} AS d{n}" for n in range(COLUMNS))
    with whence.attach(spark, store=tmp_path) as w:
        spark.sql(f"CREATE VIEW sums AS SELECT {values} FROM wide WHERE c0 > 0")
        edges, columns, gaps = seen(w)
    assert edges == {("wide", "sums")}
    assert len([c for c in columns if c.kind == "DIRECT"]) == 2 * COLUMNS
    assert {c.source_column for c in columns if c.target_column == "d17" and c.kind == "DIRECT"} == {"c17", "c18"}
    assert gaps == {}


def test_columns_from_everywhere_are_cut_and_the_report_says_so(
    spark: SparkSession, wide: None, tmp_path: Path
) -> None:
    """Each of 5,000 columns from each of 5,000 would be 25 million links."""
    every = ", ".join(f"c{n}" for n in range(COLUMNS))
    values = ", ".join(f"total + {n} AS d{n}" for n in range(COLUMNS))
    with whence.attach(spark, store=tmp_path) as w:
        spark.sql(f"CREATE VIEW totals AS SELECT {values} FROM (SELECT greatest({every}) AS total FROM wide)")
        edges, columns, gaps = seen(w)
    assert edges == {("wide", "totals")}
    assert columns == []
    assert list(gaps) in (["too many columns"], ["plan took too long: datasets only"])


def deep(frame: DataFrame, levels: int) -> DataFrame:
    for level in range(levels):
        frame = frame.select((F.col(frame.columns[0]) + level).alias("id"))
    return frame


def test_a_long_loop_of_selects_and_a_long_sum(spark: SparkSession, wide: None, tmp_path: Path) -> None:
    with whence.attach(spark, store=tmp_path / "loop") as w:
        deep(spark.table("t1").select("id"), 300).limit(0).write.parquet(str(tmp_path / "looped"))
        _, columns, gaps = seen(w)
    assert {(c.source_column, c.target_column, c.subtype) for c in columns} == {("id", "id", "TRANSFORMATION")}
    assert gaps == {}
    with whence.attach(spark, store=tmp_path / "sum") as w:
        total = " + ".join(f"c{n}" for n in range(300))
        spark.sql(f"CREATE VIEW total AS SELECT {total} AS total FROM wide")
        _, columns, gaps = seen(w)
    assert len(columns) == 300
    assert gaps == {}


def test_a_plan_too_deep_keeps_its_datasets(spark, wide, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(listener, "MOST_LEVELS", 20)
    with whence.attach(spark, store=tmp_path) as w:
        nested = "upper(" * 25 + "name" + ")" * 25
        query = f"SELECT id, {nested} AS name FROM t1 WHERE id IN (SELECT id FROM t2)"
        for command in ("CREATE VIEW nested AS", "CREATE TABLE made USING parquet AS", "INSERT INTO t1"):
            spark.sql(f"{command} {query}")
        spark.sql(query).collect()
        found = {(short(e.source.name), short(e.target.name)) for e in w.catalog.edges()}
        gaps = [run.details.get("gaps") for run in w.catalog.runs()]
        columns = list(w.catalog.edges("column"))
        assert {short(u.dataset.name) for u in w.catalog.inputs(w.catalog.runs()[-1])} == {"t1", "t2"}
    targets = ("nested", "made", "t1")
    assert found == {(source, target) for source in ("t1", "t2") for target in targets}
    assert columns == []
    assert gaps == [{"plan too large: datasets only": 1}] * 4


def test_a_plan_that_takes_too_long_keeps_its_datasets(spark, wide, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(nodes, "MOST_SECONDS", -1.0)
    with whence.attach(spark, store=tmp_path) as w:
        spark.sql("CREATE VIEW slow AS SELECT id FROM t1 WHERE id = (SELECT max(id) FROM t2)")
        edges, columns, gaps = seen(w)
    assert edges == {("t1", "slow"), ("t2", "slow")}
    assert columns == []
    assert gaps == {"plan took too long: datasets only": 1}


def test_what_rows_are_traced_through_columns_are_too() -> None:
    """Both rooms read the same plans: no operator that sql/ has a rule for may be a gap in watch/. `Given` is none of
    Spark's: it stands for rows that a trace gave."""
    assert set(RULES) - set(SCANS) - {"OneRowRelation", "Given"} <= set(NODES)
