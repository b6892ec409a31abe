"""Appends whose queries differ in constants alone are looked through as one query, and answer as each by itself."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import DataFrame, Row, SparkSession

import whence
from whence.sql import writes

# As many that no table of these tests has them.
NEVER = 1_000
APPENDS = 5


def folder(rows: DataFrame) -> str:
    return rows.inputFiles()[0].rsplit("/", 1)[0]


# What appends of each table are made by, for n from 0 to 4.
TABLES: dict[str, Callable[[DataFrame, int], DataFrame]] = {
    "chosen": lambda rows, n: rows.where(f"day = {n % 5}"),
    # Each row is in several of them.
    "overlapping": lambda rows, n: (
        rows.where(f"rid < {(n + 1) * 6}").groupBy("shop").sum("amount").toDF("shop", "total")
    ),
    "sums": lambda rows, n: (
        rows.where(f"day = {n % 5}").groupBy("day", "shop").sum("amount").toDF("day", "shop", "total").coalesce(1)
    ),
    "named by a constant": lambda rows, n: (
        rows.groupBy("shop").count().selectExpr("shop", f"'run {n}' as run", "count * 2 as twice").where("shop < 3")
    ),
    "grouped by a computed key": lambda rows, n: (
        rows.where(f"day <> {n}").groupBy((rows.rid % (n + 2)).alias("rest")).max("amount").toDF("rest", "most")
    ),
    "the same each time": lambda rows, n: rows.select("rid", "shop").distinct(),
    "without duplicates": lambda rows, n: rows.where(f"day = {n % 5} or day = 1").select("day", "shop").distinct(),
    "duplicates in SQL": lambda rows, n: rows.sparkSession.sql(
        f"SELECT DISTINCT shop, {n % 3} AS third FROM parquet.`{folder(rows)}` WHERE rid < {(n + 1) * 6}"
    ),
    # Which of a day's orders is shown is not said; all of them are its witnesses.
    "one of a day": lambda rows, n: rows.where(f"shop = {n % 4}").dropDuplicates(["day"]).select("day", "shop"),
    "some without a value": lambda rows, n: rows.selectExpr(
        "rid", f"case when day = {n % 3} then amount else cast({'null' if n == 2 else n} as bigint) end as amount"
    ),
    "two kinds": lambda rows, n: rows.where(f"day = {n % 5}") if n < 4 else rows.where(f"shop = {n % 4} and rid > 20"),
    # Spark wants a constant there.
    "rounded": lambda rows, n: rows.selectExpr("rid", f"round(amount / 7, {n % 3}) as part").where(f"rid > {30 + n}"),
    # A row of nothing, too.
    "totals": lambda rows, n: rows.where(f"day = {n}").selectExpr("count(*) as n", "sum(amount) as total"),
}
# How many queries the appends of a table are then.
QUERIES = {**dict.fromkeys(TABLES, 1), "some without a value": 2, "two kinds": 2, "rounded": 5}
QUERIES |= {"one of a day": 5}
KEYS = {"overlapping": "shop = 2", "sums": "shop = 3", "named by a constant": "shop = 1 and run in ('run 1', 'run 4')"}
KEYS |= {"without duplicates": "day = 1 and shop < 2", "duplicates in SQL": "shop = 3", "one of a day": "day = 2"}
KEYS |= {"grouped by a computed key": "rest = 1 and most < 390", "totals": "n > 0 or total is null"}


@pytest.fixture(scope="module")
def home(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("alike")
    rows = [(i, i % 5, i % 4, i * 10) for i in range(40)]
    tiny.createDataFrame(rows, "rid bigint, day int, shop int, amount bigint").write.parquet(str(home / "orders"))
    orders = tiny.read.parquet(str(home / "orders"))
    with whence.attach(tiny, store=home / "store") as w, w.capture():
        for name, make in TABLES.items():
            for n in range(APPENDS):
                make(orders, n).write.mode("append").parquet(str(home / name))
    return home


@pytest.fixture
def session(tiny: SparkSession, home: Path) -> Iterator[whence.Session]:
    with whence.attach(tiny, store=home / "store") as w:
        yield w


def table(w: whence.Session, home: Path, name: str) -> DataFrame:
    return w.spark.read.parquet(str(home / name))


def rows_of(df: DataFrame) -> list[str]:
    return sorted(map(str, df.collect()))


def traced(w: whence.Session, home: Path, name: str) -> whence.Trace:
    """Of some rows of all appends."""
    return w.backward(table(w, home, name).where(KEYS.get(name, "rid in (3, 7, 12, 31, 32)")))


def answers(w: whence.Session, home: Path, name: str, trace: whence.Trace) -> dict[str, Any]:
    """What a trace says, and what touches which rows of the table."""
    every = table(w, home, name)
    orders = table(w, home, "orders")
    return {
        "sources": {source: rows_of(frame) for source, frame in trace.sources.items()},
        "counts": dict(trace.witness_counts),
        "exact": (trace.exact, trace.notes),
        "without": rows_of(trace.exclude()),
        "pairs": rows_of(trace.associations().drop("output")),
        "touched": rows_of(w.forward(orders.where("rid in (3, 31)"), to=every).rows),
    }


@pytest.mark.parametrize("name", TABLES)
def test_alike_appends_are_one_query_and_answer_as_each_by_itself(
    session: whence.Session, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert len(session.backward(table(session, home, name).agg({"*": "count"})).readings) == QUERIES[name]
    trace = traced(session, home, name)
    together = answers(session, home, name, trace)
    assert trace.verify().ok
    assert together["counts"]["orders"] > 0
    monkeypatch.setattr(writes, "MANY", NEVER)
    assert together == answers(session, home, name, traced(session, home, name))


def test_the_way_through_alike_appends_is_as_long_for_twelve_as_for_six(
    session: whence.Session, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls to the JVM, of a sum over all appends: each append by itself would take more than a hundred."""
    target = str(tmp_path / "more")
    client: Any = session.spark._sc._gateway._gateway_client  # type: ignore[union-attr]
    sent: list[str] = []
    send, here = client.send_command, threading.get_ident()

    def seen(command: str, *given: Any, **more: Any) -> Any:
        # Neither what the watcher asks meanwhile nor what Python's garbage collection gives back.
        if threading.get_ident() == here and not command.startswith(MEMORY_COMMAND_NAME):
            sent.append(command)
        return send(command, *given, **more)

    monkeypatch.setattr(client, "send_command", seen)
    calls: dict[int, int] = {}
    captured: dict[int, int] = {}
    orders = table(session, home, "orders")
    for size in range(1, 13):
        sent.clear()
        with session.capture():
            orders.where(f"day = {size % 5}").write.mode("append").parquet(target)
        captured[size] = len(sent)
        if size not in (5, 6, 12):  # the first of these makes what the others find
            continue
        frame = session.spark.read.parquet(target).groupBy("shop").sum("amount").where("shop = 1")
        sent.clear()
        assert session.backward(frame).witness_counts["orders"] > 0
        calls[size] = len(sent)
    assert calls[12] < calls[6] + 60
    # An append is as much work after eleven others as after five.
    assert captured[12] < captured[6] + 20


@pytest.mark.parametrize("damage", [b"", b"garbled"], ids=["emptied", "garbled"])
def test_a_damaged_query_among_many_ends_the_trace_with_a_note(
    tiny: SparkSession, home: Path, tmp_path: Path, damage: bytes
) -> None:
    store = tmp_path / "store"
    shutil.copytree(home / "store", store)
    written = {plan.parent for plan in store.rglob("*.plan")}  # by table; other tests may have written more of them
    assert len(written) >= len(TABLES)
    for plans in written:
        min(plans.glob("*.plan")).write_bytes(damage)
    with whence.attach(tiny, store=store) as w:
        trace = w.backward(table(w, home, "chosen").agg({"rid": "sum"}))
        assert list(trace.sources) == ["chosen"]
        assert "chosen" in trace.ended[0]


def test_alike_appends_over_a_captured_join_leave_out_what_each_would(
    session: whence.Session, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shop is a witness in the append that the asked rows are of: the others go on reading it."""
    orders = table(session, home, "orders")
    shops = [(shop, shop % 2) for shop in range(3)]
    session.spark.createDataFrame(shops, "shop int, owner int").write.parquet(str(tmp_path / "shops"))
    with session.capture():
        joined = orders.join(session.spark.read.parquet(str(tmp_path / "shops")), "shop")
        joined.write.parquet(str(tmp_path / "joined"))
        joined = session.spark.read.parquet(str(tmp_path / "joined"))
        for n in range(6):
            part = joined.where(f"day = {n % 3} and rid < {40 - n}").groupBy("day", "owner").sum("amount")
            part.toDF("day", "owner", "total").write.mode("append").parquet(str(tmp_path / "sums"))
    every = session.spark.read.parquet(str(tmp_path / "sums"))

    def told() -> dict[str, Any]:
        trace = session.backward(every.where("day = 1 and owner = 1"))
        return {
            "sources": {source: rows_of(frame) for source, frame in trace.sources.items()},
            "exact": trace.exact,
            "proven": trace.verify().ok,
            "asked": rows_of(trace.exclude()),
            "all": rows_of(trace.exclude(every)),
            "shops": rows_of(trace.exclude(every, source="shops")),
            "orders": rows_of(trace.exclude(every, source="orders")),
        }

    together = told()
    rows = [(i, i % 5, i % 4, i * 10) for i in range(40)]
    owner = dict(shops)
    asked = {rid for rid, day, shop, _ in rows if day == 1 and owner.get(shop) == 1}
    assert together["sources"]["orders"] == rows_of(orders.where(f"rid in {tuple(asked)}"))
    left: dict[tuple[int, int, int], int] = {}
    for n in range(6):
        for rid, day, shop, amount in rows:
            if day == n % 3 and rid < 40 - n and shop in owner and not (day == 1 and owner[shop] == 1):
                left[n, day, owner[shop]] = left.get((n, day, owner[shop]), 0) + amount
    expected = sorted((day, own, total) for (_, day, own), total in left.items())
    values = [Row("day", "owner", "total")(*row) for row in expected]
    assert together["all"] == sorted(map(str, values))
    assert together["all"] == together["shops"] == together["orders"]
    assert (together["asked"], together["exact"], together["proven"]) == ([], True, True)
    monkeypatch.setattr(writes, "MANY", NEVER)
    assert together == told()
