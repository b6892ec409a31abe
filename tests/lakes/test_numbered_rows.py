"""Delta tables that number their rows themselves (identity columns): what captured writes left to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import whence
from lakes.test_captured_writes import Shop, compact, told

ROWS: list[tuple[object, ...]] = [(1, "a"), (2, "b"), (3, "c")]


@pytest.fixture
def shop(w: whence.Session, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(w, "delta", tmp_path)
    w.spark.sql(f"DROP TABLE IF EXISTS {shop.table}")
    yield shop
    shop.close()


def make(shop: Shop, *, always: bool, more: str = "") -> None:
    from delta.tables import DeltaTable, IdentityGenerator

    generator = IdentityGenerator() if always else IdentityGenerator(start=100, step=5)
    numbering = {"generatedAlwaysAs" if always else "generatedByDefaultAs": generator}
    table = DeltaTable.create(shop.spark).tableName(shop.table).addColumn("number", "bigint", **numbering)
    table.addColumn("id", "bigint").addColumn("v", "string").execute()
    if more:
        shop.spark.sql(f"ALTER TABLE {shop.table} SET TBLPROPERTIES ({more})")


def test_a_chain_of_commands(shop: Shop) -> None:
    one, two = shop.file("one", ROWS), shop.file("two", [(7, "x"), (8, "y")])
    make(shop, always=True, more="'delta.columnMapping.mode' = 'name'")
    with shop.w.capture():
        one.write.format("delta").mode("append").saveAsTable(shop.table)
        shop.spark.sql(f"UPDATE {shop.table} SET v = 'u' WHERE id = 1")
        shop.spark.sql(
            f"MERGE INTO {shop.table} t USING one s ON t.id = s.id + 1 "
            "WHEN MATCHED THEN UPDATE SET v = concat(t.v, s.v) "
            "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id + 1, s.v)"
        )
    shop.spark.sql(f"ALTER TABLE {shop.table} RENAME COLUMN number TO n")
    with shop.w.capture():
        shop.spark.sql(f"INSERT INTO {shop.table} (id, v) SELECT id, v FROM two")
        shop.spark.sql(f"DELETE FROM {shop.table} WHERE id = 8")
    assert [row[1:] for row in shop.rows()] == [(1, "u"), (2, "ba"), (3, "cb"), (4, "c"), (7, "x")]
    assert shop.traced("id = 1") == {"one": [(1, "a")]}
    assert shop.traced("id = 3") == {"one": [(2, "b"), (3, "c")]}
    assert shop.traced(f"n = {shop.rows()[3][0]}") == {"one": [(3, "c")]}
    assert shop.traced("id = 7") == {"two": [(7, "x")]}
    found = shop.later.forward(two.where("id = 7"), to=shop.spark.table(shop.table))
    assert [row.id for row in found.rows.collect()] == [7]


def test_numbers_that_are_given_and_that_are_not(shop: Shop) -> None:
    one = shop.file("one", ROWS)
    make(shop, always=False)
    with shop.w.capture():
        one.write.format("delta").mode("append").saveAsTable(shop.table)
        shop.spark.sql(f"INSERT OVERWRITE {shop.table} (id, v) SELECT id + 10, v FROM one")
        shop.spark.sql(f"INSERT INTO {shop.table} SELECT id, id + 20, v FROM one WHERE id = 2")
    assert [row[1:] for row in shop.rows()] == [(22, "b"), (11, "a"), (12, "b"), (13, "c")]
    assert shop.traced("number = 2") == {"one": [(2, "b")]}
    assert shop.traced("id = 13") == {"one": [(3, "c")]}
    without = shop.later.backward(shop.spark.table(shop.table).where("id = 13")).exclude()
    assert without.collect() == []


def test_rows_that_are_equal_in_all_else(shop: Shop) -> None:
    one = shop.file("one", [(1, "a"), (2, "a"), (3, "b")])
    make(shop, always=True)
    with shop.w.capture():
        shop.spark.sql(f"INSERT INTO {shop.table} (id, v) SELECT id, v FROM one WHERE id = 3")
        one.selectExpr("0L AS id", "v").write.format("delta").mode("append").saveAsTable(shop.table)
    trace = shop.later.backward(shop.spark.table(shop.table))
    assert {name: len(rows) for name, rows in told(trace).items()} == {"sales": 4}
    (note,) = trace.ended
    assert "numbered by the table, and rows that are equal in all else cannot be told apart" in note
    assert trace.verify().ok


def test_a_version_whose_files_are_gone(shop: Shop) -> None:
    one, two = shop.file("one", ROWS), shop.file("two", [(7, "x")])
    make(shop, always=True)
    with shop.w.capture():
        one.write.format("delta").mode("append").saveAsTable(shop.table)
        two.write.format("delta").mode("append").saveAsTable(shop.table)
    compact(shop)
    with shop.w.capture():
        two.selectExpr("id + 1 AS id", "v").write.format("delta").mode("append").saveAsTable(shop.table)
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    shop.spark.conf.set(check, "false")
    shop.spark.sql(f"VACUUM {shop.table} RETAIN 0 HOURS")
    shop.spark.conf.unset(check)
    trace = shop.later.backward(shop.spark.table(shop.table))
    assert {name: len(rows) for name, rows in told(trace).items()} == {"sales": 5}
    assert trace.ended == (
        "the trace ends at sales: its version 2: the table numbered its rows, and its version 2 is not there any more",
    )
    assert trace.verify().ok
