"""`w.backward(df, columns=[...])`: the witnesses of some columns alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import whence
from rows import view

ORDERS = [
    *((1, "Ada", 20, "sale"), (2, "Bob", 35, "sale"), (3, "Ada", -900, "refund")),
    *((4, "Eve", 15, "sale"), (5, "Ada", None, "sale"), (6, "Eve", 7, "refund")),
]
CITIES = [("Ada", "Bonn", "a@x"), ("Bob", "Kiel", "b@x"), ("Eve", "Bonn", None)]
BY_CITY = """
    SELECT city, sum(CASE WHEN kind = 'sale' THEN amount ELSE 0 END) AS sales,
           sum(amount) FILTER (WHERE kind = 'refund') AS refunds, count(*) AS n, count(email) AS mails,
           sum(amount) / count(amount) AS basket, (SELECT max(id) FROM orders) AS newest
    FROM orders JOIN cities USING (customer) GROUP BY city"""
WINDOWS = """
    SELECT id, amount, sum(amount) OVER (PARTITION BY customer) AS total, lag(amount) OVER (ORDER BY id) AS before
    FROM orders"""
NESTED = """
    SELECT max(refunds) AS most, sum(n) AS all FROM
    (SELECT city, sum(amount) FILTER (WHERE kind = 'refund') AS refunds, count(*) AS n
     FROM orders JOIN cities USING (customer) GROUP BY city)"""
UNITED = f"""
    SELECT city, sales, n, newest FROM ({BY_CITY})
    UNION ALL SELECT customer, sum(amount) FILTER (WHERE kind = 'sale'), count(*), 0 FROM orders GROUP BY customer
    UNION ALL SELECT 'all', sum(amount), count(*), (SELECT count(*) FROM orders) FROM orders WHERE kind = 'refund'"""
HAVING = "SELECT city, sum(amount) AS total, count(*) AS n FROM orders JOIN cities USING (customer) GROUP BY city"
BONN = {1, 3, 4, 5, 6}


@pytest.fixture(scope="module")
def session(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    view(tiny, "orders", ORDERS, "id int, customer string, amount int, kind string")
    view(tiny, "cities", CITIES, "customer string, city string, email string")
    with whence.attach(tiny, store=tmp_path_factory.mktemp("store")) as w:
        yield w


@pytest.mark.parametrize(
    ("query", "where", "columns", "expected"),
    [
        (BY_CITY, "city = 'Bonn'", ["sales"], {1, 4}),
        (BY_CITY, "city = 'Bonn'", ["refunds"], {3, 6}),
        (BY_CITY, "city = 'Bonn'", ["sales", "refunds"], {1, 3, 4, 6}),
        (BY_CITY, "city = 'Bonn'", ["n"], BONN),
        (BY_CITY, "city = 'Bonn'", ["mails"], {1, 3, 5}),
        (BY_CITY, "city = 'Bonn'", ["basket"], {1, 3, 4, 6}),
        (BY_CITY, "city = 'Bonn'", ["city"], BONN),
        (BY_CITY, "city = 'Kiel'", ["refunds"], {2}),  # none enters: that it is NULL is said by all rows of the group
        (BY_CITY, "city = 'Bonn' AND n > 2", ["refunds"], BONN),  # n decides that the row is there
        (BY_CITY, "city = 'Bonn'", ["newest"], {*BONN, 2}),
        (WINDOWS, "id = 3", ["amount"], {3}),
        (WINDOWS, "id = 3", ["total"], {1, 3, 5}),
        (WINDOWS, "id = 3", ["before"], {2, 3}),
        (NESTED, "true", ["most"], {3, 6}),
        (NESTED, "true", ["all"], {*BONN, 2}),
        (UNITED, "city = 'Bonn'", ["sales"], {1, 4}),
        (UNITED, "city = 'Bonn'", ["n"], BONN),
        (UNITED, "city = 'Eve'", ["sales"], {4}),
        (UNITED, "city = 'Eve'", ["newest", "n"], {4, 6}),
        (UNITED, "city = 'all'", ["sales"], {3, 6}),
        (UNITED, "city = 'all'", ["newest"], {*BONN, 2}),
        (HAVING + " HAVING max(kind) = 'sale'", "city = 'Bonn'", ["total"], BONN),
    ],
)
def test_only_what_the_columns_need(
    session: whence.Session, query: str, where: str, columns: list[str], expected: set[int]
) -> None:
    asked = session.spark.sql(query).where(where)
    trace = session.backward(asked, columns=columns)
    assert {row.id for row in trace["orders"].collect()} == expected
    assert trace.exact
    assert trace.rows.columns == columns
    assert trace.verify().ok


def test_their_influence_is_that_of_the_whole(session: whence.Session) -> None:
    asked = session.spark.sql(BY_CITY).where("city = 'Bonn'")
    every = session.backward(asked).influence("basket", "orders").collect()
    some = session.backward(asked, columns=["basket"]).influence("basket", "orders").collect()
    told = {row.id: (row.influence, row.without) for row in every if row.influence != 0}
    assert {row.id: (row.influence, row.without) for row in some} == told
    assert some[0].id == 3


@pytest.mark.parametrize(
    ("columns", "says"), [(["x"], "no column 'x'"), ("n", r"columns=\['n'\]"), ([], "names no column")]
)
def test_what_is_no_list_of_columns_is_said(session: whence.Session, columns: list[str], says: str) -> None:
    with pytest.raises(whence.WhenceError, match=says):
        session.backward(session.spark.sql(HAVING), columns=columns)


def test_a_pivot_by_dataframe_operations_is_told_for_each_output(session: whence.Session) -> None:
    pivoted = session.spark.table("orders").groupBy("customer").pivot("kind", ["sale", "refund"]).sum("amount")
    trace = session.backward(pivoted.where("refund < 0"), columns=["refund"])
    first = trace.influence("refund", "orders").first()
    assert first is not None
    assert (first.id, first.outcome) == (3, "filtered")  # without it the row is not asked for
    assert trace.verify().ok


def test_what_was_written_down_above_a_group_keeps_its_columns(session: whence.Session) -> None:
    """Rows that tie are numbered as it happens, so the numbers are captured, with what each row came from."""
    refunds = "sum(amount) FILTER (WHERE kind = 'refund')"
    numbered = session.spark.sql(
        f"SELECT customer, refunds, row_number() OVER (ORDER BY n) AS place FROM "
        f"(SELECT customer, {refunds} AS refunds, max(amount) > -10000 AS n FROM orders GROUP BY customer)"
    )
    with session.capture():
        assert len(numbered.collect()) == 3
    for columns in (["place"], ["refunds"], ["customer", "place"]):
        trace = session.backward(numbered, columns=columns)
        assert {row.id for row in trace["orders"].collect()} >= {3, 6}
        assert trace.verify().ok
