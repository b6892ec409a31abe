"""Captured writes into tables that keep versions: a trace goes on through them, to the first sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import whence
from releases import since

KINDS = {"delta": "default", "iceberg": "ice.shop"}
PARTS: dict[str, list[tuple[object, ...]]] = {
    "one": [(1, "a"), (2, "b"), (5, "x")],
    "two": [(2, "c")],
    "three": [(3, "d")],
}


class Shop:
    """Files of orders and corrections, and a table that they are put into."""

    def __init__(self, w: whence.Session, kind: str, home: Path) -> None:
        self.w, self.spark, self.kind, self.home = w, w.spark, kind, home
        self.table = f"{KINDS[kind]}.sales"
        self._later: whence.Session | None = None
        self._proven: list[tuple[object, ...]] | None = None

    def file(self, name: str, rows: list[tuple[object, ...]], schema: str = "id bigint, v string") -> DataFrame:
        path = str(self.home / name)
        self.spark.createDataFrame(rows, schema).coalesce(1).write.mode("overwrite").parquet(path)
        df = self.spark.read.parquet(path)
        df.createOrReplaceTempView(name)
        return df

    def create(self, more: str = "") -> None:
        self.spark.sql(f"CREATE TABLE {self.table} (id bigint, v string) USING {self.kind} {more}")

    def rows(self) -> list[tuple[object, ...]]:
        return sorted(tuple(row) for row in self.spark.table(self.table).collect())

    def traced(self, where: str = "true") -> dict[str, list[tuple[object, ...]]]:
        """The witnesses of these rows in each source; the trace of the whole table is complete and proven."""
        rows = self.rows()
        if rows != self._proven:
            whole = self.later.backward(self.spark.table(self.table))
            assert whole.notes == (), whole.notes
            verdict = whole.verify()
            assert verdict.ok, verdict
            self._proven = rows
        trace = self.later.backward(self.spark.table(self.table).where(where))
        assert trace.notes == (), trace.notes
        return told(trace)

    @property
    def later(self) -> whence.Session:
        """A session that knows only what is in the store."""
        if self._later is None:
            self._later = whence.attach(self.spark, store=self.home / "store")
        return self._later

    def close(self) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS {self.table}")
        if self._later is not None:
            self._later.close()


def told(trace: whence.Trace) -> dict[str, list[tuple[object, ...]]]:
    found = {name: sorted(tuple(row) for row in df.collect()) for name, df in trace.sources.items()}
    return {name: rows for name, rows in found.items() if rows}


@pytest.fixture(params=list(KINDS))
def shop(request: pytest.FixtureRequest, w: whence.Session, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(w, request.param, tmp_path)
    w.spark.sql(f"DROP TABLE IF EXISTS {shop.table}")
    yield shop
    shop.close()


def test_rows_that_are_added_and_replaced(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "b")])
    two = shop.file("two", [(3, "c")])
    with shop.w.capture():
        one.writeTo(shop.table).using(shop.kind).create()
        two.write.format(shop.kind).mode("append").saveAsTable(shop.table)
        shop.spark.sql(f"INSERT INTO {shop.table} SELECT id + 10, v FROM one WHERE id = 1")
    assert shop.rows() == [(1, "a"), (2, "b"), (3, "c"), (11, "a")]
    assert shop.traced("id = 3") == {"two": [(3, "c")]}
    assert shop.traced("id in (2, 11)") == {"one": [(1, "a"), (2, "b")]}
    with shop.w.capture():
        shop.spark.sql(f"INSERT OVERWRITE {shop.table} SELECT * FROM two")
    assert shop.traced() == {"two": [(3, "c")]}
    # An older version has its own way, whatever came afterwards.
    first = "0" if shop.kind == "delta" else snapshots(shop)[0]
    old = shop.spark.sql(f"SELECT * FROM {shop.table} VERSION AS OF {first} WHERE id = 2")
    trace = shop.w.backward(old)
    assert (told(trace), trace.notes) == ({"one": [(2, "b")]}, ())


def test_a_table_that_is_replaced(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "b")])
    two = shop.file("two", [(3, "c")])
    with shop.w.capture():
        one.writeTo(shop.table).using(shop.kind).create()
        shop.spark.sql(
            f"CREATE OR REPLACE TABLE {shop.table} USING {shop.kind} AS "
            f"SELECT * FROM {shop.table} WHERE id = 2 UNION ALL SELECT * FROM two"
        )
    assert shop.traced() == {"one": [(2, "b")], "two": [(3, "c")]}
    with shop.w.capture():
        two.writeTo(shop.table).using(shop.kind).createOrReplace()
    assert shop.traced() == {"two": [(3, "c")]}


def test_fields_of_a_struct_that_were_added(shop: Shop) -> None:
    """Rows of before cannot be told under the fields of now: the trace ends, and says so."""
    one = shop.file("one", [(1, (1, "x")), (2, (2, "y"))], "id bigint, s struct<a: int, b: string>")
    shop.spark.sql(
        f"CREATE TABLE {shop.table} (id bigint, s struct<a: int, b: string>) USING {shop.kind} {RENAMING[shop.kind]}"
    )
    with shop.w.capture():
        one.writeTo(shop.table).append()
    shop.spark.sql(f"ALTER TABLE {shop.table} ADD COLUMN s.c int")
    trace = shop.later.backward(shop.spark.table(shop.table).where("s.c IS NULL AND id = 1"))
    assert told(trace) == {"sales": [(1, (1, "x", None))]}
    assert "other fields" in trace.ended[0]
    assert trace.verify().ok
    shop.spark.sql(f"ALTER TABLE {shop.table} DROP COLUMN s.b")
    shop.spark.sql(f"ALTER TABLE {shop.table} DROP COLUMN s.c")
    shop.spark.sql(f"ALTER TABLE {shop.table} ADD COLUMN s.b string")
    df = shop.spark.table(shop.table)
    assert [tuple(row.s) for row in df.collect()] == [(1, None), (2, None)]
    # The same fields by their names, but another one.
    with pytest.raises(whence.NonDeterministic, match="does not give the rows"):
        told(shop.later.backward(df.where("s.b = 'y'")))


def test_a_dataframe_whose_table_went_on(shop: Shop) -> None:
    """What it shows by now is what is traced, or that is refused: also where the trace goes on through the table."""
    one, two = shop.file("one", [(1, "a"), (2, "b")]), shop.file("two", [(3, "c")])
    shop.create()
    with shop.w.capture():
        one.writeTo(shop.table).append()
    other = shop.spark.newSession()
    for command in (
        f"INSERT INTO {shop.table} VALUES (9, 'z')",
        f"UPDATE {shop.table} SET v = 'x' WHERE id = 1",
        back_to_the_first(shop),
    ):
        df = shop.spark.table(shop.table)
        groups = df.groupBy("v").count()
        other.sql(command)
        for asked in (df, groups):
            try:
                trace = shop.w.backward(asked)
                found = told(trace)
            except whence.SourceChanged:
                continue
            assert sum(map(len, found.values())) == sum(row["count"] for row in groups.collect()), command
            shown = {row.v for row in asked.collect()}
            assert {row[1] for rows in found.values() for row in rows} == shown, command
        shop.spark.catalog.refreshTable(shop.table)
    assert shop.rows() == [(1, "a"), (2, "b")]
    # Files that were only rewritten hold the same rows, which are told by what they were made from.
    with shop.w.capture():
        two.writeTo(shop.table).append()
    df = shop.spark.table(shop.table)
    compact(shop)
    assert told(shop.w.backward(df.where("id > 1"))) == {"one": [(2, "b")], "two": [(3, "c")]}


def back_to_the_first(shop: Shop) -> str:
    if shop.kind == "delta":
        first = shop.spark.sql(f"DESCRIBE HISTORY {shop.table}").where("version = 1").first()
        return f"RESTORE TABLE {shop.table} TO VERSION AS OF {1 if first is None else first.version}"
    return f"CALL ice.system.rollback_to_snapshot('{shop.table.removeprefix('ice.')}', {snapshots(shop)[0]})"


def test_groups_and_chance_in_sql(shop: Shop) -> None:
    """What such a query gave is written down, and what is written is made from that."""
    shop.file("one", [(1, "a"), (2, "a"), (3, "b")])
    with shop.w.capture():
        shop.spark.sql(f"CREATE TABLE {shop.table} USING {shop.kind} AS SELECT max(id) AS id, v FROM one GROUP BY v")
        shop.spark.sql(f"INSERT INTO {shop.table} SELECT id + 10 + cast(rand() AS bigint), v FROM one WHERE id = 1")
        shop.spark.sql(f"INSERT INTO {shop.table} SELECT sum(id) + 20, v FROM one WHERE id = 3 GROUP BY v")
    assert shop.rows() == [(2, "a"), (3, "b"), (11, "a"), (23, "b")]
    assert shop.traced("id = 2") == {"one": [(1, "a"), (2, "a")]}
    assert shop.traced("id > 10") == {"one": [(1, "a"), (3, "b")]}


def snapshots(shop: Shop) -> list[str]:
    found = shop.spark.table(f"{shop.table}.snapshots").orderBy("committed_at").collect()
    return [str(row.snapshot_id) for row in found]


def test_update_and_delete(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "b"), (3, "c"), (4, None)])
    shop.create()
    with shop.w.capture():
        one.writeTo(shop.table).append()
        shop.spark.sql(f"UPDATE {shop.table} SET v = concat(v, '!'), id = id * 10 WHERE id < 3")
        shop.spark.sql(f"DELETE FROM {shop.table} WHERE v = 'b!'")
    assert shop.rows() == [(3, "c"), (4, None), (10, "a!")]
    assert shop.traced("id = 10") == {"one": [(1, "a")]}
    assert shop.traced("id = 4") == {"one": [(4, None)]}


@pytest.mark.parametrize("shop", ["iceberg"], indirect=True)
def test_conditions_with_subqueries(shop: Shop) -> None:
    """Which Delta does not take."""
    one = shop.file("one", [(1, "a"), (2, "b"), (3, "c")])
    shop.file("two", [(2, "x")])
    shop.create()
    with shop.w.capture():
        one.writeTo(shop.table).append()
        shop.spark.sql(f"DELETE FROM {shop.table} WHERE id IN (SELECT id FROM two)")
        shop.spark.sql(f"UPDATE {shop.table} u SET v = 'U' WHERE EXISTS (SELECT 1 FROM two WHERE two.id = u.id - 1)")
    assert shop.rows() == [(1, "a"), (3, "U")]
    assert shop.traced("id = 3") == {"one": [(3, "c")], "two": [(2, "x")]}
    assert shop.traced("id = 1")["one"] == [(1, "a")]


def test_merge(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "b"), (3, "c"), (4, "d")])
    shop.file("news", [(2, "B"), (3, "gone"), (4, "same"), (5, "e"), (6, "not")])
    shop.create()
    with shop.w.capture():
        one.coalesce(1).writeTo(shop.table).append()
        shop.spark.sql(
            f"""MERGE INTO {shop.table} t USING news s ON t.id = s.id
            WHEN MATCHED AND s.v = 'gone' THEN DELETE
            WHEN MATCHED AND s.v <> 'same' THEN UPDATE SET v = concat(t.v, s.v)
            WHEN NOT MATCHED AND s.v <> 'not' THEN INSERT *"""
        )
    assert shop.rows() == [(1, "a"), (2, "bB"), (4, "d"), (5, "e")]
    # A changed row leads to its former self and to what changed it.
    assert shop.traced("id = 2") == {"one": [(2, "b")], "news": [(2, "B")]}
    # One that stood in the same file, or met a row that changed nothing, to itself alone.
    assert shop.traced("id = 1") == {"one": [(1, "a")]}
    assert shop.traced("id = 4") == {"one": [(4, "d")]}
    assert shop.traced("id = 5") == {"news": [(5, "e")]}
    with pytest.raises(whence.WhenceError, match="MERGE"):
        shop.w.backward(shop.spark.table(shop.table).where("id = 2")).exclude()


def test_merge_with_rows_that_the_source_lacks(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "b"), (3, "c")])
    shop.file("news", [(2, "B"), (5, "e")])
    shop.create()
    with shop.w.capture():
        one.writeTo(shop.table).append()
        shop.spark.sql(
            f"""MERGE INTO {shop.table} USING news s ON {shop.table}.id = s.id
            WHEN MATCHED THEN UPDATE SET *
            WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, upper(s.v))
            WHEN NOT MATCHED BY SOURCE AND v = 'c' THEN DELETE
            WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'lonely'"""
        )
    assert shop.rows() == [(1, "lonely"), (2, "B"), (5, "E")]
    assert shop.traced("id = 1") == {"one": [(1, "a")]}
    assert shop.traced("id = 2") == {"one": [(2, "b")], "news": [(2, "B")]}
    assert shop.traced("id = 5") == {"news": [(5, "e")]}


@pytest.mark.parametrize("shop", ["delta"], indirect=True)
def test_changes_said_in_python_by_delta(shop: Shop) -> None:
    from delta.tables import DeltaTable

    one = shop.file("one", [(1, "a"), (2, "b"), (3, "c"), (4, "d")])
    news = shop.file("news", [(2, "B"), (4, "gone"), (5, "e")])
    shop.create()
    table = DeltaTable.forName(shop.spark, shop.table)
    with shop.w.capture():
        one.coalesce(1).writeTo(shop.table).append()
        table.update("id = 1", {"v": "concat(v, '!')"})
        table.delete(F.col("id") == 3)
        (
            table.alias("t")
            .merge(news.alias("s"), "t.id = s.id")
            .whenMatchedDelete("s.v = 'gone'")
            .whenMatchedUpdate(set={"t.v": F.concat("t.v", "s.v")})
            .whenNotMatchedInsertAll()
            .execute()
        )
    assert shop.rows() == [(1, "a!"), (2, "bB"), (5, "e")]
    assert shop.traced("id = 1") == {"one": [(1, "a")]}
    assert shop.traced("id = 2") == {"one": [(2, "b")], "news": [(2, "B")]}
    assert shop.traced("id = 5") == {"news": [(5, "e")]}
    with shop.w.capture():  # a column of the DataFrame that was there before
        table.delete(table.toDF()["id"] == 5)
    assert shop.rows() == [(1, "a!"), (2, "bB")]
    trace = shop.w.backward(shop.spark.table(shop.table).where("id = 1"))
    assert told(trace) in ({"one": [(1, "a")]}, {"sales": [(1, "a!")]})
    assert bool(trace.ended) == ("sales" in trace.sources)


@since("4.0", "mergeInto")
def test_merge_into(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "b"), (3, "c")])
    news = shop.file("news", [(2, "B"), (5, "e")])
    shop.create()
    with shop.w.capture():
        one.writeTo(shop.table).append()
        merging = news.alias("s").mergeInto(shop.table, F.expr(f"{shop.table}.id = s.id"))
        merging = merging.whenMatched().update({"v": F.expr(f"concat({shop.table}.v, s.v)")})
        merging.whenNotMatched().insertAll().whenNotMatchedBySource(F.expr("v = 'c'")).delete().merge()
    assert shop.rows() == [(1, "a"), (2, "bB"), (5, "e")]
    assert shop.traced("id = 1") == {"one": [(1, "a")]}
    assert shop.traced("id = 2") == {"one": [(2, "b")], "news": [(2, "B")]}
    assert shop.traced("id = 5") == {"news": [(5, "e")]}


def test_a_part_that_is_replaced(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "b"), (3, "c")])
    two = shop.file("two", [(2, "B")])
    shop.create("PARTITIONED BY (id)")
    with shop.w.capture():
        one.writeTo(shop.table).append()
        two.writeTo(shop.table).overwritePartitions()
        two.selectExpr("id + 1 AS id", "v").writeTo(shop.table).overwrite(F.col("id") == 3)
    assert shop.rows() == [(1, "a"), (2, "B"), (3, "B")]
    assert shop.traced("id = 1") == {"one": [(1, "a")]}
    assert shop.traced("id >= 2") == {"two": [(2, "B")]}


def test_partitions_that_sql_replaces(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "b")])
    shop.file("two", [(2, "B")])
    shop.create("PARTITIONED BY (id)")
    mode = "spark.sql.sources.partitionOverwriteMode"
    with shop.w.capture():
        one.writeTo(shop.table).append()
        shop.spark.conf.set(mode, "dynamic")
        try:
            shop.spark.sql(f"INSERT OVERWRITE {shop.table} SELECT * FROM two")
        finally:
            shop.spark.conf.unset(mode)
    assert shop.rows() == [(1, "a"), (2, "B")]
    assert shop.traced("id = 1") == {"one": [(1, "a")]}
    assert shop.traced("id = 2") == {"two": [(2, "B")]}


MARKING = {
    "delta": "'delta.enableDeletionVectors' = 'true'",
    "iceberg": "'format-version' = '2', 'write.delete.mode' = 'merge-on-read', "
    "'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read'",
}


def test_rows_that_are_marked_as_gone(shop: Shop) -> None:
    """Deletion vectors, and merge-on-read: files stay, and what is left out of them stands beside."""
    one = shop.file("one", [(1, "a"), (2, "b"), (3, "c"), (4, "d")])
    shop.file("news", [(3, "C"), (5, "e")])
    shop.create(f"TBLPROPERTIES ({MARKING[shop.kind]})")
    with shop.w.capture():
        one.coalesce(1).writeTo(shop.table).append()
        shop.spark.sql(f"DELETE FROM {shop.table} WHERE id = 2")
        shop.spark.sql(f"UPDATE {shop.table} SET v = 'A' WHERE id = 1")
        shop.spark.sql(
            f"MERGE INTO {shop.table} t USING news s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
        )
    assert shop.rows() == [(1, "A"), (3, "C"), (4, "d"), (5, "e")]
    if shop.kind == "iceberg":
        assert shop.spark.table(f"{shop.table}.delete_files").count() > 0
    assert shop.traced("id = 4") == {"one": [(4, "d")]}
    assert shop.traced("id = 3") == {"one": [(3, "c")], "news": [(3, "C")]}


def test_what_was_committed_outside_of_a_capture(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "b")])
    shop.create()
    with shop.w.capture():
        one.writeTo(shop.table).append()
    shop.spark.sql(f"UPDATE {shop.table} SET v = 'x' WHERE id = 1")
    with shop.w.capture():
        shop.spark.sql(f"INSERT INTO {shop.table} SELECT 9, v FROM one WHERE id = 2")
    trace = shop.w.backward(shop.spark.table(shop.table))
    assert told(trace) == {"one": [(2, "b")], "sales": [(1, "x"), (2, "b")]}
    (note,) = trace.ended
    assert "sales" in note
    assert "outside of any capture" in note
    assert trace.verify().ok


@pytest.mark.parametrize("shop", ["delta"], indirect=True)
def test_a_clone_has_rows_of_another_table(shop: Shop) -> None:
    one, two = shop.file("one", [(1, "a")]), shop.file("two", [(2, "b")])
    shop.spark.sql("DROP TABLE IF EXISTS original")
    one.write.format("delta").saveAsTable("original")
    shop.spark.sql(f"CREATE TABLE {shop.table} SHALLOW CLONE original")
    with shop.w.capture():
        two.writeTo(shop.table).append()
    trace = shop.w.backward(shop.spark.table(shop.table))
    assert told(trace) == {"two": [(2, "b")], "sales": [(1, "a")]}
    assert "CLONE" in trace.ended[0]
    assert trace.verify().ok
    shop.spark.sql("DROP TABLE original")


def test_files_that_are_rewritten_change_nothing(shop: Shop) -> None:
    one, two = shop.file("one", [(1, "a")]), shop.file("two", [(2, "b")])
    shop.create()
    with shop.w.capture():
        one.writeTo(shop.table).append()
        two.writeTo(shop.table).append()
    compact(shop)
    assert shop.traced("id = 2") == {"two": [(2, "b")]}


def compact(shop: Shop) -> None:
    if shop.kind == "delta":
        shop.spark.sql(f"OPTIMIZE {shop.table}")
    else:
        table = shop.table.removeprefix("ice.")
        shop.spark.sql(f"CALL ice.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")


RENAMING = {"delta": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", "iceberg": ""}


def rename(shop: Shop, **names: str) -> None:
    for old, new in names.items():
        shop.spark.sql(f"ALTER TABLE {shop.table} RENAME COLUMN {old} TO {new}")


def test_columns_that_are_called_otherwise_since(shop: Shop) -> None:
    """A column is followed by what the format tells it by: another one may have its name by now."""
    schema = "id bigint, p string, q string"
    one, two = shop.file("one", [(2, "c", "d")], schema), shop.file("two", [(3, "e", "f")], schema)
    shop.spark.sql(f"CREATE TABLE {shop.table} ({schema}) USING {shop.kind} {RENAMING[shop.kind]}")
    shop.spark.sql(f"INSERT INTO {shop.table} VALUES (1, 'a', 'b')")
    with shop.w.capture():
        one.writeTo(shop.table).append()
    rename(shop, p="z", q="p", z="q")
    with shop.w.capture():
        two.writeTo(shop.table).append()
    shown = {row.id: (row.p, row.q) for row in shop.spark.table(shop.table).collect()}
    assert shown == {1: ("b", "a"), 2: ("d", "c"), 3: ("e", "f")}
    trace = shop.later.backward(shop.spark.table(shop.table).where("p in ('b', 'd', 'e')"))
    assert trace.verify().ok
    found = told(trace)
    assert (found["one"], found["two"]) == ([(2, "c", "d")], [(3, "e", "f")])
    assert [row[0] for row in found["sales"]] == [1]  # whatever its columns are called there


def test_columns_that_tell_of_files_end_the_trace(shop: Shop) -> None:
    one = shop.file("one", [(1, "a")])
    shop.create()
    with shop.w.capture():
        one.writeTo(shop.table).append()
    column = {"delta": "_metadata.file_path", "iceberg": "_file"}[shop.kind]
    trace = shop.w.backward(shop.spark.table(shop.table).select("id", column))
    assert list(told(trace)) == ["sales"]
    assert "tells of its files" in trace.ended[0]
    assert trace.verify().ok


def test_a_column_that_was_dropped_and_added_again(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "b")])
    shop.create(RENAMING[shop.kind])
    with shop.w.capture():
        one.writeTo(shop.table).append()
    shop.spark.sql(f"ALTER TABLE {shop.table} DROP COLUMN v")
    shop.spark.sql(f"ALTER TABLE {shop.table} ADD COLUMN v string")
    assert shop.rows() == [(1, None), (2, None)]
    assert shop.traced("v IS NULL AND id = 1") == {"one": [(1, "a")]}
    assert shop.traced("v = 'a'") == {}


def test_columns_that_were_added_before_a_command(shop: Shop) -> None:
    """Iceberg makes no version of ADD COLUMN: the one before the command, opened again, lacks the column."""
    one = shop.file("one", [(1, 7, "a"), (2, 8, "b"), (3, 9, "c")], "id bigint, n int, v string")
    shop.spark.sql(f"CREATE TABLE {shop.table} (id bigint, n int, v string) USING {shop.kind}")
    with shop.w.capture():
        one.writeTo(shop.table).append()
    shop.spark.sql(f"ALTER TABLE {shop.table} ADD COLUMN w string")
    if shop.kind == "iceberg":
        shop.spark.sql(f"ALTER TABLE {shop.table} ALTER COLUMN n TYPE bigint")
    with shop.w.capture():
        shop.spark.sql(f"UPDATE {shop.table} SET w = upper(v) WHERE id = 2")
    shop.spark.sql(f"ALTER TABLE {shop.table} ADD COLUMN x int")
    with shop.w.capture():
        shop.spark.sql(f"DELETE FROM {shop.table} WHERE id = 1 AND x IS NULL")
    assert shop.rows() == [(2, 8, "b", "B", None), (3, 9, "c", None, None)]
    assert shop.traced("id = 2") == {"one": [(2, 8, "b")]}
    assert shop.traced("w IS NULL") == {"one": [(3, 9, "c")]}


@pytest.mark.parametrize("shop", ["delta"], indirect=True)
def test_columns_that_the_table_computes(shop: Shop) -> None:
    """They move with what they are computed from, in the rows that a command changes."""
    from delta.tables import DeltaTable

    one = shop.file("one", [(1, "a"), (2, "b"), (3, "c")])
    shop.file("news", [(3, "C"), (5, "e")])
    table = DeltaTable.create(shop.spark).tableName(shop.table).addColumn("id", "bigint").addColumn("v", "string")
    table.addColumn("twice", "bigint", generatedAlwaysAs="id * 2").addColumn(
        "said", "string", generatedAlwaysAs="concat(v, '-', CAST(id AS STRING))"
    ).execute()
    with shop.w.capture():
        one.write.format("delta").mode("append").saveAsTable(shop.table)
        shop.spark.sql(f"UPDATE {shop.table} SET id = id * 10 WHERE id < 3")
        shop.spark.sql(
            f"MERGE INTO {shop.table} t USING news s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v "
            "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
        )
    assert shop.rows() == [(3, "C", 6, "C-3"), (5, "e", 10, "e-5"), (10, "a", 20, "a-10"), (20, "b", 40, "b-20")]
    assert shop.traced("twice = 20") == {"one": [(1, "a")]}
    assert shop.traced("said = 'C-3'") == {"one": [(3, "c")], "news": [(3, "C")]}
    assert shop.traced("said = 'e-5'") == {"news": [(5, "e")]}


def test_a_source_that_went_on_before_it_was_written(shop: Shop) -> None:
    """Spark reads what is there when it writes, of a DataFrame or a view that was made before."""
    source = f"{KINDS[shop.kind]}.source"
    shop.spark.sql(f"DROP TABLE IF EXISTS {source}")
    shop.spark.sql(f"CREATE TABLE {source} (id bigint, v string) USING {shop.kind}")
    shop.spark.sql(f"INSERT INTO {source} VALUES (1, 'a')")
    early = shop.spark.table(source)
    early.createOrReplaceTempView("early")
    shop.spark.sql(f"INSERT INTO {source} VALUES (2, 'b'), (3, 'a')")
    shop.create()
    with shop.w.capture():
        early.groupBy("v").agg(F.max("id").alias("id")).select("id", "v").write.insertInto(shop.table)
        shop.spark.sql(f"INSERT INTO {shop.table} SELECT id + 10, v FROM early WHERE id = 2")
        shop.spark.sql(f"MERGE INTO {shop.table} t USING early s ON t.id = s.id + 20 WHEN NOT MATCHED THEN INSERT *")
    assert (2, "b") in shop.rows()
    assert (3, "a") in shop.rows()
    shop.spark.sql(f"INSERT INTO {source} VALUES (4, 'a')")
    for wanted in ("id = 12", "id = 3"):
        trace = shop.later.backward(shop.spark.table(shop.table).where(wanted))
        assert trace.notes == ()
        assert trace.verify().ok
    assert list(shop.traced("v = 'a'").values()) == [[(1, "a"), (3, "a")]]
    assert list(shop.traced("id = 12").values()) == [[(2, "b")]]
    shop.spark.sql(f"DROP TABLE {source}")


@pytest.mark.parametrize("shop", ["delta"], indirect=True)
def test_a_path(shop: Shop) -> None:
    path = str(shop.home / "by_path")
    one, two, three = (shop.file(name, rows) for name, rows in PARTS.items())
    with shop.w.capture():
        one.write.format("delta").save(path)
        shop.spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
        two.write.format("delta").mode("overwrite").option("replaceWhere", "id = 2").save(path)
        three.write.format("delta").mode("append").save(path)
    df = shop.spark.read.format("delta").load(path)
    assert sorted(tuple(row) for row in df.collect()) == [(2, "c"), (3, "d"), (5, "x")]
    trace = shop.w.backward(df)
    assert (told(trace), trace.notes) == ({"one": [(5, "x")], "two": [(2, "c")], "three": [(3, "d")]}, ())
    assert trace.verify().ok


def test_what_may_come_out_otherwise_ends_the_trace(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "b")])
    shop.create()
    with shop.w.capture():
        one.writeTo(shop.table).append()
        shop.spark.sql(f"UPDATE {shop.table} SET v = cast(current_timestamp() AS string) WHERE id = 1")
    trace = shop.w.backward(shop.spark.table(shop.table).where("id = 2"))
    assert told(trace) == {"sales": [(2, "b")]}
    assert "may come out otherwise" in trace.ended[0]
