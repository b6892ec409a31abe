from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import whence

ORDERS = "select * from values (0,1,10),(1,1,-5),(2,9,20),(3,2,30),(4,3,7) as o(id,customer,amount)"
CUSTOMERS = "select * from values (1,'eu'),(2,'us'),(3,'eu') as c(customer,region)"
REPORT = """
    select region, sum(amount) total from wn_orders join wn_customers using (customer)
    where amount > 0 and id < 100 group by region having sum(amount) > 17 order by total desc limit 1
"""


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    spark.sql(ORDERS).createOrReplaceTempView("wn_orders")
    spark.sql(CUSTOMERS).createOrReplaceTempView("wn_customers")
    with whence.attach(spark, store=tmp_path_factory.mktemp("store")) as w:
        yield w


def test_each_row_is_told_where_it_dropped_out(session: whence.Session) -> None:
    spark = session.spark
    report = spark.sql(REPORT)
    told = {d.row.id: d for d in session.why_not(spark.table("wn_orders"), to=report)}
    assert told[1].operator == "Filter"
    assert "amount" in told[1].reason
    assert "id" not in told[1].reason  # only the part of the condition that failed
    assert told[2].operator == "Join"
    assert "no partner" in told[2].reason
    assert told[3].operator is None
    assert told[0].operator == "Filter"  # its group's total is 17
    assert "total" in told[0].reason
    assert "dropped at Join" in str(told[2])
    assert "reached the result" in str(told[3])


def test_a_row_whose_group_is_cut_off(session: whence.Session) -> None:
    report = session.spark.sql(REPORT.replace("> 17", "> 0"))
    (told,) = session.why_not(session.spark.table("wn_orders").where("id = 0"), to=report)
    assert told.operator == "GlobalLimit"


def test_rows_of_another_source_get_a_sentence(session: whence.Session) -> None:
    with pytest.raises(whence.WhenceError, match="reads none of these rows' sources"):
        session.why_not(session.spark.range(3), to=session.spark.table("wn_orders"))


@pytest.mark.parametrize(
    "query",
    [
        "select id from (select *, row_number() over (partition by customer order by id desc) n from wn_orders) "
        "where n = 1",
        "select id, s from (select *, sum(amount) over (order by id rows between 1 preceding and current row) s "
        "from wn_orders where id > 0) where s > 20",
        "select a.id from wn_orders a join wn_orders b on a.customer = b.customer and a.id < b.id where b.amount < 5",
        "select id from wn_orders o where not exists "
        "(select 1 from wn_orders p where p.customer = o.customer and p.id > o.id)",
        "select id, x from wn_orders lateral view explode(if(id % 2 = 0, array(1, 2), array())) e as x where x > 1",
        "select customer, n from (select customer, count(*) n from wn_orders group by customer) "
        "where n = (select max(n) from (select count(*) n from wn_orders group by customer))",
    ],
)
def test_a_row_reaches_what_it_touches(session: whence.Session, query: str) -> None:
    orders, result = session.spark.table("wn_orders"), session.spark.sql(query)
    fates = session.why_not(orders, to=result)
    reached = {fate.row.id for fate in fates if fate.operator is None}
    touched = {n for n in range(5) if session.forward(orders.where(f"id = {n}"), to=result).rows.count()}
    assert reached == touched
    assert {fate.row.id for fate in fates} == set(range(5))


def test_rows_that_only_shut_out_others_are_told_so(session: whence.Session) -> None:
    result = session.spark.sql("select 1 x from values (1) t(id) where id not in (select id + 9 from wn_orders)")
    fates = session.why_not(session.spark.table("wn_orders"), to=result)
    assert {(fate.operator, fate.reason) for fate in fates} == {
        ("Join", "its rows only say which rows of another table are left out")
    }
