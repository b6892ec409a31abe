"""Questions about tables by their names, and everything that was made from some rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from whence.debug.everything import Everything

pytestmark = pytest.mark.usefixtures("interpreted")

TABLES = ("named_orders", "named_totals", "named_report", "named_other")


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    """orders -> totals -> report, captured; other, from orders too, not."""
    for table in TABLES:
        spark.sql(f"DROP TABLE IF EXISTS {table}")
    with whence.attach(spark, store=tmp_path_factory.mktemp("named") / "store") as w:
        orders = [(1, "a", 5), (2, "a", -7), (3, "b", 4), (4, "c", 1)]
        spark.createDataFrame(orders, "id int, city string, price int").write.saveAsTable("named_orders")
        with w.capture():
            spark.sql("CREATE TABLE named_totals AS SELECT city, sum(price) AS total FROM named_orders GROUP BY city")
            spark.table("named_totals").where("total < 4").write.saveAsTable("named_report")
        spark.table("named_orders").where("price > 1").write.saveAsTable("named_other")
        yield w
    for table in TABLES:
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def test_backward_by_name(session: whence.Session) -> None:
    trace = session.backward("named_report", where="city = 'a'")
    assert sorted(row.id for row in trace["named_orders"].collect()) == [1, 2]
    assert trace.notes == ()
    assert trace.verify().ok


def test_forward_by_name(session: whence.Session) -> None:
    trace = session.forward("named_orders", where="id = 2", to="named_report")
    assert [tuple(row) for row in trace.rows.collect()] == [("a", -2)]


def test_everything_made_from_a_row(session: whence.Session) -> None:
    found = session.forward("named_orders", where="id = 2")
    assert isinstance(found, Everything)
    assert {one.dataset.name.rsplit(".", 1)[-1].rsplit("/", 1)[-1] for one in found} == {
        "named_totals",
        "named_report",
        "named_other",
    }
    assert (found["named_totals"].rows, found["named_report"].rows) == (1, 1)
    other = found["named_other"]  # nobody captured how it was made
    assert other.rows is None
    assert other.why is not None
    assert not found.complete
    assert "named_totals: 1 row\n" in str(found)
    assert "NOT told" in str(found)
    none = session.forward("named_orders", where="id = 4")
    assert (none["named_totals"].rows, none["named_report"].rows) == (1, 1)
    kept = session.forward("named_orders", where="id = 3")
    assert (kept["named_totals"].rows, kept["named_report"].rows) == (1, 0)


def test_a_name_that_nobody_knows(session: whence.Session) -> None:
    with pytest.raises(whence.WhenceError, match="no table, view or path 'nowhere'"):
        session.backward("nowhere")


def test_a_path_is_read_by_what_its_files_are(
    session: whence.Session, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("paths")
    session.spark.range(5).write.parquet(str(folder / "numbers"))
    trace = session.backward(str(folder / "numbers"), where="id = 3")
    assert [row.id for row in trace["numbers"].collect()] == [3]
    (folder / "odd").mkdir()
    (folder / "odd" / "a.bin").write_bytes(b"x")
    with pytest.raises(whence.WhenceError, match="read it yourself"):
        session.backward(str(folder / "odd"))


def test_the_first_rows_of_what_one_query_appended_twice(w: whence.Session, tmp_path: Path) -> None:
    """As batches of a stream do. Spark analyses a union of equal queries under other ids than they have."""
    (tmp_path / "prices.csv").write_text("ada,20\nbob,35\nada,-900\n")
    prices = w.spark.read.schema("name string, price int").csv(str(tmp_path / "prices.csv"))
    with w.capture():
        for _ in range(2):
            prices.groupBy("name").sum("price").toDF("name", "total").write.mode("append").parquet(
                str(tmp_path / "out")
            )
    trace = w.backward(w.spark.read.parquet(str(tmp_path / "out")).orderBy("total").limit(1))
    assert sorted(row.price for row in trace["prices.csv"].collect()) == [-900, 20]
    assert "rows tie at row 1" in trace.widened[0]
