"""What runs read and wrote: through RDDs, checkpoints and JDBC; rows and bytes; SQL text; who started it all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import clean, short

import whence
from whence.watch.naming import jdbc_tables
from whence.watch.parent import parent_of

RDD = {"RDD: datasets only": 1}


def by_rdd(spark: Any, home: str) -> None:
    spark.table("t1").rdd.map(lambda row: (row.id,)).toDF("id int").write.parquet(f"{home}/out")


def by_frame(spark: Any, home: str) -> None:
    spark.createDataFrame(spark.table("t1").rdd, "id int, name string").write.parquet(f"{home}/out")


def by_text(spark: Any, home: str) -> None:
    Path(home, "lines.csv").write_text("a\nb\nc\n")
    lines = spark.sparkContext.textFile(f"{home}/lines.csv").flatMap(lambda line: [(line,), (line,)])
    lines.toDF("line string").write.parquet(f"{home}/out")


def by_both(spark: Any, home: str) -> None:
    Path(home, "lines.csv").write_text("1\n2\n")
    ids = spark.sparkContext.textFile(f"{home}/lines.csv").map(lambda line: (int(line), 0))
    joined = spark.table("t1").rdd.map(lambda row: (row.id, row.name)).join(ids)
    joined.map(lambda kv: (kv[0],)).toDF("id int").write.parquet(f"{home}/out")


def kept_here(spark: Any, home: str) -> None:
    spark.table("t1").where("id > 0").localCheckpoint().selectExpr("upper(name) AS u").write.parquet(f"{home}/out")


def kept_on_disk(spark: Any, home: str) -> None:
    spark.sparkContext.setCheckpointDir(f"{home}/checkpoints")
    spark.table("t1").selectExpr("id", "upper(name) AS u").checkpoint().select("u").write.parquet(f"{home}/out")


def joined_with_itself(spark: Any, home: str) -> None:
    kept = spark.table("t1").localCheckpoint()
    kept.alias("a").join(kept.alias("b"), "id").selectExpr("b.name AS u").write.parquet(f"{home}/out")


UPPER = ("t1", "name", "u", "TRANSFORMATION")
WAYS: dict[Callable[[Any, str], None], tuple[set[str], dict[str, int], set[tuple[str, str, str, str]]]] = {
    by_rdd: ({"t1"}, RDD, set()),
    by_frame: ({"t1"}, RDD, set()),
    by_text: ({"lines.csv"}, RDD, set()),
    by_both: ({"t1", "lines.csv"}, RDD, set()),
    kept_here: ({"t1"}, {}, {UPPER, ("t1", "id", "u", "FILTER")}),
    kept_on_disk: ({"t1"}, {}, {UPPER}),
    joined_with_itself: ({"t1"}, {}, {("t1", "name", "u", "IDENTITY"), ("t1", "id", "u", "JOIN")}),
}


@pytest.fixture
def t1(spark):
    clean(spark)
    spark.sql("CREATE TABLE t1 (id INT, name STRING) USING parquet")
    spark.sql("INSERT INTO t1 VALUES (1, 'a'), (2, 'b')")
    yield
    clean(spark)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_inputs_are_kept_on_the_way(way: Callable[[Any, str], None], spark, t1, tmp_path: Path) -> None:
    sources, gaps, columns = WAYS[way]
    with whence.attach(spark, store=tmp_path / "store") as w:
        way(spark, str(tmp_path))
        edges = w.catalog.edges()
        assert {(short(e.source.name), short(e.target.name)) for e in edges} == {(s, "out") for s in sources}
        found = {(short(e.source.name), e.source_column, e.target_column, e.subtype) for e in w.catalog.edges("column")}
        assert found == columns
        run = next(r for r in w.catalog.runs() if r.id == edges[0].run)
        assert run.details.get("gaps", {}) == gaps
        assert w._watcher.counts["failed"] == 0


def test_a_checkpoint_from_before_is_a_visible_gap(spark, t1, tmp_path: Path) -> None:
    kept = spark.table("t1").localCheckpoint()
    with whence.attach(spark, store=tmp_path / "store") as w:
        kept.write.parquet(str(tmp_path / "out"))
        (run,) = w.catalog.runs()
        assert len(w.catalog.edges()) == 0
        assert sum(run.details["gaps"].values()) == 1


def test_rows_that_a_trace_keeps_in_spark_are_looked_through(spark, t1, tmp_path: Path) -> None:
    spark.range(3, 3000).selectExpr("CAST(id AS INT) AS id", "'c' AS name").write.insertInto("t1")
    with whence.attach(spark, store=tmp_path / "store") as w:
        trace = w.backward(spark.sql("SELECT a.id, b.name FROM t1 a JOIN t1 b ON a.id = b.id"))
        assert trace.witness_counts == {"t1": 2999}
        trace["t1"].write.parquet(str(tmp_path / "out"))
        assert w._watcher.checkpoints
        assert {(short(e.source.name), short(e.target.name)) for e in w.catalog.edges()} == {("t1", "out")}
        assert w.catalog.runs()[-1].details.get("gaps", {}) == {}


def test_a_query_of_the_database_gives_its_tables_and_no_columns(spark, t1, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path}/derby;create=true"
    with whence.attach(spark, store=tmp_path / "store") as w:
        spark.table("t1").write.jdbc(url, "one")
        query = 'SELECT o."id" AS k, \'from here\' AS c FROM one o, one p WHERE o."id" = p."id"'
        spark.read.format("jdbc").options(url=url, query=query).load().write.parquet(str(tmp_path / "out"))
        edges = w.catalog.edges()
        assert {(short(e.source.name), short(e.target.name)) for e in edges} == {("t1", "one"), ("one", "out")}
        assert {short(e.target.name) for e in w.catalog.edges("column")} == {"one"}
        assert w.catalog.dataset("one").columns == ("id", "name")
        assert w.catalog.runs()[-1].details["gaps"] == {"JDBC query: datasets only": 1}


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT a.x FROM s.a JOIN b ON a.i = b.i", ["s.a", "b"]),
        ("(SELECT * FROM a, b WHERE extract(year FROM ts) > 1 GROUP BY x, y) q", ["a", "b"]),
        ('WITH c AS (SELECT * FROM a) SELECT * FROM c, (SELECT z FROM d) e JOIN "f g".h ON 1', ["a", "d", '"f g".h']),
        ("SELECT 'from x' FROM a -- from y\nWHERE k IN (SELECT k FROM b, c)", ["a", "b", "c"]),
        ("SELECT * FROM series(1, 3), a /* from z */", ["a"]),
        ("plain", ["plain"]),
    ],
)  # fmt: skip
def test_tables_of_a_query(query: str, tables: list[str]) -> None:
    assert jdbc_tables({"dbtable": query}) == tables


def test_rows_and_bytes(spark, t1, tmp_path: Path) -> None:
    spark.sql("CREATE VIEW v1 AS SELECT id FROM t1")
    url = f"jdbc:derby:{tmp_path}/derby;create=true"

    def counted(w: whence.Session, action: Callable[[], object]) -> dict[str, tuple[str, int | None, bool]]:
        before = {r.id for r in w.catalog.runs()}
        action()
        uses = [
            u for r in w.catalog.runs() if r.id not in before for u in (*w.catalog.inputs(r), *w.catalog.outputs(r))
        ]
        return {short(u.dataset.name): (u.role, u.rows, bool(u.bytes)) for u in uses}

    with whence.attach(spark, store=tmp_path / "store") as w:
        ctas = counted(w, lambda: spark.sql("CREATE TABLE t2 USING parquet AS SELECT * FROM t1 WHERE id = 1"))
        assert (ctas["t1"][0], ctas["t2"]) == ("input", ("output", 1, True))
        assert counted(w, lambda: spark.table("t1").join(spark.table("t2"), "id").collect()) == {
            "t1": ("input", 2, True),
            "t2": ("input", 1, True),
        }
        assert counted(w, lambda: spark.table("v1").count()) == {
            "t1": ("input", 2, True),
            "v1": ("input", None, False),
        }
        assert counted(w, lambda: spark.table("t1").write.jdbc(url, "one")) == {
            "t1": ("input", 2, True),
            "one": ("output", 2, False),
        }
        twice = counted(w, lambda: by_text(spark, str(tmp_path)))
        assert twice == {"lines.csv": ("input", 3, True), "out": ("output", 6, True)}
        kept = spark.table("t2").cache()
        kept.count()
        assert counted(w, lambda: kept.write.parquet(str(tmp_path / "copy"))) == {
            "t2": ("input", None, False),
            "copy": ("output", 1, True),
        }, "rows from the cache are not read from the table"
        kept.unpersist()


def test_columns_are_fresh_after_an_alter(spark, t1, tmp_path: Path) -> None:
    """Also those of a table that the catalogue meets here for the first time."""
    with whence.attach(spark, store=tmp_path / "store") as w:
        spark.sql("ALTER TABLE t1 ADD COLUMNS (more INT)")
        assert w.catalog.dataset("t1").columns == ("id", "name", "more")
        spark.sql("ALTER TABLE t1 RENAME TO t9")
        assert w.catalog.dataset("t9").columns == ("id", "name", "more")


STATEMENTS = [
    "CREATE TABLE a USING parquet AS SELECT * FROM t1",
    "INSERT INTO a SELECT * FROM t1",
    "CREATE VIEW v AS SELECT * FROM t1",
    "INSERT OVERWRITE a SELECT * FROM v",
    "CREATE TABLE b LIKE a",
    "ALTER TABLE b RENAME TO c",
    "TRUNCATE TABLE c",
    "DROP TABLE c",
]


def test_the_text_of_a_statement_is_kept(spark, t1, tmp_path: Path) -> None:
    with whence.attach(spark, store=tmp_path / "store") as w:
        for text in STATEMENTS:
            spark.sql(text)
        assert [r.details.get("sql") for r in w.catalog.runs()] == STATEMENTS
        spark.table("v").write.saveAsTable("d")
        assert "sql" not in w.catalog.runs()[-1].details, "the view has a text, the write has none"


TASK = {"AIRFLOW_CTX_DAG_ID": "sales", "AIRFLOW_CTX_TASK_ID": "load", "AIRFLOW_CTX_DAG_RUN_ID": "scheduled__1"}
RUN = "0d3a4f0e-6a3b-4c8e-9d6f-2f1f6f1c0a01"


@pytest.mark.parametrize(
    ("settings", "environment", "parent"),
    [
        ({}, {}, {}),
        ({}, {"OPENLINEAGE_PARENT_ID": f"a/b/load/{RUN}"}, {"namespace": "a/b", "name": "load", "run": RUN}),
        ({}, {"OPENLINEAGE_PARENT_ID": "nonsense"}, {}),
        ({}, TASK, {"namespace": "default", "name": "sales.load", "run": "scheduled__1.sales.load"}),
        (
            {},
            {**TASK, "AIRFLOW_CTX_TRY_NUMBER": "2", "AIRFLOW__OPENLINEAGE__NAMESPACE": "prod"},
            {"namespace": "prod", "name": "sales.load", "run": "scheduled__1.sales.load.2"},
        ),
        ({}, {"AIRFLOW_CTX_DAG_ID": "sales"}, {}),
        (
            {"spark.openlineage.parentJobName": "n", "spark.openlineage.parentRunId": RUN},
            TASK,
            {"namespace": "default", "name": "n", "run": RUN},
        ),
        ({}, {"DAGSTER_RUN_ID": RUN, "DAGSTER_RUN_JOB_NAME": "j"}, {"namespace": "dagster", "name": "j", "run": RUN}),
    ],
)  # fmt: skip
def test_who_started_the_application(settings: dict, environment: dict, parent: dict) -> None:
    assert parent_of(lambda key, default: settings.get(key, default), environment) == parent


def test_the_parent_is_told_with_every_run_and_sent(spark, t1, tmp_path: Path, monkeypatch) -> None:
    from openlineage.client.serde import Serde

    from whence.serve import openlineage

    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/sales.load/{RUN}")
    with whence.attach(spark, store=tmp_path / "store") as w:
        spark.sql("CREATE TABLE t2 USING parquet AS SELECT * FROM t1")
        spark.table("t2").collect()
        for run in w.catalog.runs():
            assert run.details["parent"] == {"namespace": "airflow", "name": "sales.load", "run": RUN}
        events = [json.loads(Serde.to_json(e)) for r in w.catalog.runs() for e in openlineage.events_of(w.catalog, r)]
    for event in events:
        parent = event["run"]["facets"]["parent"]
        assert (parent["job"]["namespace"], parent["job"]["name"], parent["run"]["runId"]) == (
            "airflow",
            "sales.load",
            RUN,
        )
    made, read = events[1], events[3]
    (source,), (target,) = made["inputs"], made["outputs"]
    assert source["inputFacets"]["inputStatistics"]["rowCount"] == 2
    assert source["inputFacets"]["inputStatistics"]["size"] > 0
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert target["outputFacets"]["outputStatistics"]["size"] > 0
    assert [d["name"] for d in read["inputs"]] == ["default.t2"]
    assert read["outputs"] == []
