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
