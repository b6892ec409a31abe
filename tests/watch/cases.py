# ruff: noqa: E501 - rows of data read best as rows
"""The acceptance list: what is run, and the edges that must follow. SAC's own test list, and what whence adds to it.

A case is data. `setup` and `run` are statements: SQL text, or a function of (spark, home). `edges` are (source, target) as
short names: the last part of a table's or path's name. Tables are dropped between cases. `needs` names what a session must have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from releases import has

Statement = str | Callable[[Any, str], Any]


@dataclass(frozen=True)
class Case:
    name: str
    run: list[Statement]
    edges: set[tuple[str, str]]
    setup: list[Statement] = field(default_factory=list)
    needs: str = "spark"
    reads: set[str] = field(default_factory=set)
    """Where rows only went to the application: what was read."""


def table(name: str, format: str = "USING parquet", columns: str = "id INT, name STRING") -> str:
    return f"CREATE TABLE {name} ({columns}) {format}"


HIVE = "STORED AS TEXTFILE"
# Those of this release; Spark has XML since 4.0.
FORMATS = ("parquet", "json", "csv", "orc", "text", "xml")[: 6 if has("4.0") else 5]


def _csv(spark: Any, home: str) -> None:
    with open(f"{home}/people.csv", "w") as file:
        file.write("id,name\n1,a\n2,b\n")


def _json(spark: Any, home: str) -> None:
    import os

    os.makedirs(f"{home}/people", exist_ok=True)
    with open(f"{home}/people/1.json", "w") as file:
        file.write('{"id": 1, "name": "a"}\n')


def _csv_to_table(spark: Any, home: str) -> None:
    spark.read.option("header", True).csv(f"{home}/people.csv").write.saveAsTable("t1")


def _temp_view_to_table(spark: Any, home: str) -> None:
    spark.table("t1").where("id > 0").createOrReplaceTempView("temp1")
    spark.table("temp1").write.saveAsTable("t2")


def _to_file_chain(spark: Any, home: str) -> None:
    spark.sql("INSERT INTO t3 SELECT t1.id, t2.name FROM t1 JOIN t2 ON t1.id = t2.id")
    spark.table("t3").write.json(f"{home}/out")


def _modes(spark: Any, home: str) -> None:
    for mode in ("append", "overwrite", "ignore", "errorifexists"):
        target = f"{home}/{mode}"
        spark.table("t1").write.mode(mode).parquet(target)


def _formats(spark: Any, home: str) -> None:
    frame = spark.table("t1").selectExpr("name")
    for name in FORMATS:
        writer = frame.write.option("rowTag", "row").format(name)
        writer.save(f"{home}/as_{name}")


def _cached(spark: Any, home: str) -> None:
    frame = spark.table("t1").cache()
    frame.count()
    frame.write.saveAsTable("t2")
    frame.unpersist()


def _rdd(spark: Any, home: str) -> None:
    spark.table("t1").rdd.map(lambda row: str(row)).saveAsTextFile(f"{home}/lines")
    spark.sparkContext.textFile(f"{home}/lines").map(lambda line: line.upper()).saveAsTextFile(f"{home}/upper")


def _pandas(spark: Any, home: str) -> None:
    import pandas as pd

    spark.createDataFrame(pd.DataFrame({"id": [1], "name": ["a"]})).write.insertInto("t1")


def _new_session(spark: Any, home: str) -> None:
    spark.newSession().sql("INSERT INTO t2 SELECT * FROM t1")


def _insert_into(spark: Any, home: str) -> None:
    spark.table("t1").write.insertInto("t2")


def _derby(spark: Any, home: str) -> None:
    url = f"jdbc:derby:{home}/derby;create=true"
    frame = spark.createDataFrame([(1, "a")], "id INT, name STRING")
    frame.write.jdbc(url, "source")
    spark.read.jdbc(url, "source").write.jdbc(url, "sink")


def _partitions(spark: Any, home: str) -> None:
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.table("t1").write.mode("overwrite").insertInto("parted")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "static")


def _by_path_and_table(spark: Any, home: str) -> None:
    location = spark.sql("DESCRIBE EXTENDED t1").where("col_name = 'Location'").first()[1]
    spark.read.parquet(location).write.saveAsTable("t2")


CASES = [
    Case("insert into spark from spark", ["INSERT INTO t2 SELECT * FROM t1"], {("t1", "t2")}, [table("t1"), table("t2")]),
    Case("insert into spark, cyclic", ["INSERT INTO t1 SELECT * FROM t1"], {("t1", "t1")}, [table("t1")]),
    Case(
        "insert from many tables",
        ["INSERT INTO t3 SELECT * FROM t1 UNION ALL SELECT * FROM t2"],
        {("t1", "t3"), ("t2", "t3")},
        [table("t1"), table("t2"), table("t3")],
    ),
    Case(
        "insert into many tables",
        ["FROM t1 INSERT INTO t2 SELECT id, name INSERT INTO t3 SELECT id, upper(name)"],
        {("t1", "t2"), ("t1", "t3")},
        [table("t1"), table("t2"), table("t3")],
    ),
    Case(
        "insert many to many",
        ["FROM (SELECT t1.id, t2.name FROM t1 JOIN t2 ON t1.id = t2.id) x INSERT INTO t3 SELECT * INSERT INTO t4 SELECT *"],
        {("t1", "t3"), ("t2", "t3"), ("t1", "t4"), ("t2", "t4")},
        [table("t1"), table("t2"), table("t3"), table("t4")],
    ),
    Case("CTAS from table", ["CREATE TABLE t2 USING parquet AS SELECT * FROM t1"], {("t1", "t2")}, [table("t1")]),
    Case(
        "CTAS from join",
        ["CREATE TABLE t3 USING parquet AS SELECT t1.id, t2.name FROM t1 JOIN t2 ON t1.id = t2.id"],
        {("t1", "t3"), ("t2", "t3")},
        [table("t1"), table("t2")],
    ),
    Case(
        "CTAS from view",
        ["CREATE TABLE t2 USING parquet AS SELECT * FROM v1"],
        {("t1", "v1"), ("v1", "t2")},
        [table("t1"), "CREATE VIEW v1 AS SELECT * FROM t1"],
    ),
    Case(
        "CTAS from directory",
        ["CREATE TABLE t1 USING parquet AS SELECT * FROM json.`{home}/people`"],
        {("people", "t1")},
        [_json],
    ),
    Case(
        "saveAsTable parquet",
        [lambda spark, home: spark.table("t1").write.format("parquet").saveAsTable("t2")],
        {("t1", "t2")},
        [table("t1")],
    ),
    Case("view from table", ["CREATE VIEW v1 AS SELECT * FROM t1"], {("t1", "v1")}, [table("t1")]),
    Case("view without source", ["CREATE VIEW v1 AS SELECT 1 AS one"], set()),
    Case(
        "views on views",
        ["CREATE VIEW v2 AS SELECT * FROM v1", "CREATE TABLE t2 USING parquet AS SELECT * FROM v2"],
        {("t1", "v1"), ("v1", "v2"), ("v2", "t2")},
        [table("t1"), "CREATE VIEW v1 AS SELECT * FROM t1"],
    ),
    Case("temporary view saved to table", [_temp_view_to_table], {("t1", "t2")}, [table("t1")]),
    Case(
        "insert overwrite directory",
        ["INSERT OVERWRITE DIRECTORY '{home}/dir' USING json SELECT * FROM t1"],
        {("t1", "dir")},
        [table("t1")],
    ),
    Case("CSV to table", [_csv_to_table], {("people.csv", "t1")}, [_csv]),
    Case(
        "external table over JSON",
        ["CREATE TABLE ext (id INT, name STRING) USING json LOCATION '{home}/people'", "INSERT INTO t1 SELECT * FROM ext"],
        {("ext", "t1")},
        [_json, table("t1")],
    ),
    Case(
        "two tables to one, to a file",
        [_to_file_chain],
        {("t1", "t3"), ("t2", "t3"), ("t3", "out")},
        [table("t1"), table("t2"), table("t3")],
    ),
    Case("JDBC to JDBC", [_derby], {("python", "source"), ("source", "sink")}),
    Case(
        "all modes of df.write",
        [_modes],
        {("t1", "append"), ("t1", "overwrite"), ("t1", "ignore"), ("t1", "errorifexists")},
        [table("t1")],
    ),
    Case(
        "all formats of df.write",
        [_formats],
        {("t1", f"as_{name}") for name in FORMATS},
        [table("t1")],
    ),
    Case("insertInto", [_insert_into], {("t1", "t2")}, [table("t1"), table("t2")]),
    Case(
        "insert overwrite",
        ["INSERT OVERWRITE TABLE t2 SELECT * FROM t1"],
        {("t1", "t2")},
        [table("t1"), table("t2")],
    ),
    Case("cached input", [_cached], {("t1", "t2")}, [table("t1")]),
    Case("df.rdd and RDD programs", [_rdd], {("t1", "lines"), ("lines", "upper")}, [table("t1")]),
    Case("createDataFrame from pandas", [_pandas], {("pandas", "t1")}, [table("t1")]),
    Case("toPandas", [lambda spark, home: spark.table("t1").toPandas()], set(), [table("t1")], reads={"t1"}),
    Case("collect", [lambda spark, home: spark.table("t1").collect()], set(), [table("t1")], reads={"t1"}),
    Case(
        "RDD collected",
        [lambda spark, home: spark.sparkContext.textFile(f"{home}/people.csv").collect()],
        set(),
        [_csv],
        reads={"people.csv"},
    ),
    Case(
        "df.rdd collected",
        [lambda spark, home: spark.table("t1").rdd.collect()],
        set(),
        [table("t1"), "INSERT INTO t1 VALUES (1, 'a')"],
        reads={"t1"},
    ),
    Case("CREATE TABLE IF NOT EXISTS of one that exists", ["CREATE TABLE IF NOT EXISTS t2 USING parquet AS SELECT * FROM t1"], set(), [table("t1"), table("t2")]),
    Case("a new session", [_new_session], {("t1", "t2")}, [table("t1"), table("t2")]),
    Case(
        "dynamic partition overwrite",
        [_partitions],
        {("t1", "parted")},
        [table("t1"), "CREATE TABLE parted (id INT, name STRING) USING parquet PARTITIONED BY (name)"],
    ),
    Case("the same data by path and by table", [_by_path_and_table], {("t1", "t2")}, [table("t1"), "INSERT INTO t1 VALUES (1, 'a')"]),
    Case(
        "rename keeps the history",
        ["INSERT INTO t2 SELECT * FROM t1", "ALTER TABLE t2 RENAME TO t3"],
        {("t1", "t3")},
        [table("t1"), table("t2")],
    ),
    Case(
        "drop keeps the history",
        ["INSERT INTO t2 SELECT * FROM t1", "DROP TABLE t2"],
        {("t1", "t2")},
        [table("t1"), table("t2")],
    ),
    Case("truncate and alter", ["ALTER TABLE t1 ADD COLUMNS (more INT)", "TRUNCATE TABLE t1"], set(), [table("t1")]),
    Case(
        "subqueries and CTEs",
        [
            "INSERT INTO t4 WITH big AS (SELECT id FROM t2 WHERE id > 1) "
            "SELECT id, (SELECT max(name) FROM t3) FROM t1 WHERE id IN (SELECT id FROM big)"
        ],
        {("t1", "t4"), ("t2", "t4"), ("t3", "t4")},
        [table("t1"), table("t2"), table("t3"), table("t4")],
    ),
    # Hive tables
    Case("insert into hive from hive", ["INSERT INTO h2 SELECT * FROM h1"], {("h1", "h2")}, [table("h1", HIVE), table("h2", HIVE)], "hive"),
    Case("insert into hive, cyclic", ["INSERT INTO h1 SELECT * FROM h1"], {("h1", "h1")}, [table("h1", HIVE)], "hive"),
    Case("insert into hive from spark", ["INSERT INTO h1 SELECT * FROM t1"], {("t1", "h1")}, [table("h1", HIVE), table("t1")], "hive"),
    Case("insert into spark from hive", ["INSERT INTO t1 SELECT * FROM h1"], {("h1", "t1")}, [table("h1", HIVE), table("t1")], "hive"),
    Case(
        "insert into many hive tables",
        ["FROM h1 INSERT INTO h2 SELECT * INSERT INTO h3 SELECT *"],
        {("h1", "h2"), ("h1", "h3")},
        [table("h1", HIVE), table("h2", HIVE), table("h3", HIVE)],
        "hive",
    ),
    Case("CTAS hive", ["CREATE TABLE h2 STORED AS ORC AS SELECT * FROM h1"], {("h1", "h2")}, [table("h1", HIVE)], "hive"),
    Case(
        "saveAsTable hive",
        [lambda spark, home: spark.table("h1").write.format("hive").saveAsTable("h2")],
        {("h1", "h2")},
        [table("h1", HIVE)],
        "hive",
    ),
    Case("load data", ["LOAD DATA LOCAL INPATH '{home}/people.csv' INTO TABLE h1"], {("people.csv", "h1")}, [table("h1", HIVE), _csv], "hive"),
    Case(
        "insert overwrite directory, hive",
        ["INSERT OVERWRITE LOCAL DIRECTORY '{home}/dir' STORED AS TEXTFILE SELECT * FROM h1"],
        {("h1", "dir")},
        [table("h1", HIVE)],
        "hive",
    ),
    Case("view from hive table", ["CREATE VIEW v1 AS SELECT * FROM h1"], {("h1", "v1")}, [table("h1", HIVE)], "hive"),
]  # fmt: skip


def clean(spark: Any) -> None:
    spark.catalog.dropTempView("temp1")
    for found in spark.sql("SHOW VIEWS").collect():
        spark.sql(f"DROP VIEW IF EXISTS {found.viewName}")
    for found in spark.sql("SHOW TABLES").collect():
        spark.sql(f"DROP TABLE IF EXISTS {found.tableName}")


def run(spark: Any, statements: list[Statement], home: str) -> None:
    for statement in statements:
        if callable(statement):
            statement(spark, home)
        else:
            spark.sql(statement.replace("{home}", home))


def short(name: str) -> str:
    last = name.rstrip("/").rpartition("/")[2]
    return last if last.endswith((".csv", ".json")) else last.rpartition(".")[2]
