from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from whence.sql import SqlLineage
from whence.sql.follow import goes_alone

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


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("source", "query"),
    [
        ("wn_orders", REPORT),
        ("wn_orders", "select region, count(*) n from wn_orders o, wn_customers c where o.customer = c.customer "
                      "and amount > 0 group by region having count(*) > 1"),
        ("wn_customers", "select id % 2 odd, max(region) r from wn_customers join wn_orders using (customer) "
                         "group by id % 2 having sum(amount) > 20"),
        ("wn_customers", "select distinct region from wn_customers c left join wn_orders o on c.customer = o.customer "
                         "and amount > 10 where o.id is null or o.id > 3"),
    ],
)  # fmt: skip
def test_a_row_alone_fares_as_it_does_among_others(session: whence.Session, source: str, query: str) -> None:
    rows, result = session.spark.table(source), session.spark.sql(query)
    key = rows.columns[0]
    together = {fate.row[key]: (fate.operator, fate.reason) for fate in session.why_not(rows, to=result)}
    alone = {}
    for value in together:
        (fate,) = session.why_not(rows.where(f"{key} = {value}"), to=result)
        alone[fate.row[key]] = (fate.operator, fate.reason)
    assert alone == together
    assert len({operator for operator, _ in together.values()}) > 1, "some are dropped, and some are not"


def test_a_row_that_cannot_be_lost_is_not_followed(session: whence.Session, tmp_path: Path) -> None:
    spark = session.spark
    spark.range(100).selectExpr("id", "id % 5 AS k", "id * 2 AS v").write.parquet(str(tmp_path / "numbers"))
    numbers = spark.read.parquet(str(tmp_path / "numbers"))
    sums = numbers.where("v < 50").groupBy("k").sum("v").orderBy("k")
    assert jobs_for(session, lambda: session.why_not(numbers.where("id = 7"), to=sums)) <= 2  # reading that row
    assert session.why_not(numbers.where("id = 7"), to=sums)[0].operator is None
    assert jobs_for(session, lambda: session.why_not(numbers.where("id = 70"), to=sums)) <= 2
    (dropped,) = session.why_not(numbers.where("id = 70"), to=sums)
    assert (dropped.operator, dropped.reason.split()[0]) == ("Filter", "(v")


@pytest.fixture(scope="module")
def lines(session: whence.Session, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A view of lines, two of them alike; to tell which line is which, one task must read the whole file."""
    path = tmp_path_factory.mktemp("lines") / "sales.csv"
    rows = [(n, n % 3, n % 7 * 10) for n in range(60)]
    path.write_text("".join(f"{n},{shop},{amount}\n" for n, shop, amount in [*rows, (7, 1, 0)]))
    session.spark.read.csv(str(path), schema="n int, shop int, amount int").createOrReplaceTempView("wn_sales")
    session.spark.sql("select * from values (0,'eu'),(1,'us') as s(shop,region)").createOrReplaceTempView("wn_shops")
    return "wn_sales"


_TOTALS = "select region, sum(amount) total from wn_sales join wn_shops using (shop) where n < 50 group by region"


@pytest.mark.parametrize(
    ("query", "by_values"),
    [
        (f"{_TOTALS} having sum(amount) > 510", True),
        ("select region from wn_shops s where exists "
         "(select 1 from wn_sales l where l.shop = s.shop and amount > 0)", True),
        ("select n, rank() over (partition by shop order by n) r from wn_sales", False),
        ("select n from wn_sales order by amount, n limit 20", False),
    ],
)  # fmt: skip
def test_a_line_is_asked_about_by_its_values_where_nothing_looks_for_it_again(
    session: whence.Session, lines: str, query: str, by_values: bool
) -> None:
    spark = session.spark
    rows, result = spark.table(lines), spark.sql(query)
    to = SqlLineage(session._plans(), result)
    assert goes_alone(to, next(place for place in to.readings if place.dataset.name == lines)) == by_values
    fates = {(n, str(fate)) for n in (7, 8, 9, 55) for fate in session.why_not(rows.where(f"n = {n}"), to=result)}
    together = session.why_not(rows.where("n in (7, 8, 9, 55)"), to=result)
    assert fates == {(fate.row.n, str(fate)) for fate in together}
    assert len(session.why_not(rows.where("n = 7"), to=result)) == 2  # each of the two lines


def jobs_for(session: whence.Session, ask: Callable[[], object]) -> int:
    dag = session.spark.sparkContext._jsc.sc().dagScheduler()
    before = dag.numTotalJobs()
    ask()
    return int(dag.numTotalJobs() - before)


def test_below_a_limit_too_tables_are_gone_through_one_by_one(session: whence.Session, tmp_path: Path) -> None:
    """The product of the tables has more rows than are looked at for a reason, and a limit stands above it."""
    for name, columns in {"near": "id, id % 7 as k", "middle": "id as k, id as j", "far": "id as j, id as w"}.items():
        session.spark.range(400).selectExpr(*columns.split(", ")).write.parquet(str(tmp_path / name))
        session.spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(f"wn_{name}")
    query = (
        "select n.id from wn_near n, wn_middle m, wn_far f where n.k = m.k and m.j = f.j and f.w > 3 "
        "order by n.id limit 300"
    )
    lost, stays = session.spark.table("wn_near").where("id = 9"), session.spark.table("wn_near").where("id = 12")
    (fate,) = session.why_not(lost, to=session.spark.sql(query))
    assert (fate.operator, fate.reason) == ("Filter", "(f.w > CAST(3 AS BIGINT)) is not true")
    (fate,) = session.why_not(stays, to=session.spark.sql(query))
    assert fate.operator is None
