"""Appends of joins and of totals, looked through as one query, against an oracle that makes each append by itself: what
a row of it comes from, what it is without these rows or of them alone, and which rows a source's row touches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql import DataFrame, SparkSession

import whence

Order: TypeAlias = "tuple[int, int, int | None, int | None]"
Shop: TypeAlias = "tuple[int, int | None, str, int]"
# A row that an append makes, and the orders and shops that it comes from.
Made: TypeAlias = "tuple[tuple[Any, ...], set[int], set[int]]"

APPENDS = 6
# Day 4 has no orders; some are of no shop, or of one that is not known, and some have no amount.
ORDERS: list[Order] = [(i, i % 4, None if i % 7 == 3 else i % 5, None if i % 11 == 5 else i * 10) for i in range(1, 25)]
# Two are of one number, one has none, and 4 is not there.
SHOPS: list[Shop] = [
    (1, 0, "north", 1),
    (2, 1, "south", 2),
    (3, 2, "north", 3),
    (4, 2, "south", 4),
    (5, None, "west", 5),
]


def matches(order: Order, shop: Shop) -> bool:
    return order[2] is not None and order[2] == shop[1]


def joined(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    """A day's orders with their shops; days come again, so two appends may have the same rows."""
    return [((o[0], s[2]), {o[0]}, {s[0]}) for o in orders if o[1] == n % 5 for s in shops if matches(o, s)]


def grouped(made: Iterable[tuple[Any, int | None, set[int], set[int]]]) -> dict[Any, Made]:
    """The sums of groups."""
    found: dict[Any, tuple[list[int], set[int], set[int]]] = {}
    for key, amount, orders, shops in made:
        amounts, of_orders, of_shops = found.setdefault(key, ([], set(), set()))
        amounts += [] if amount is None else [amount]
        of_orders |= orders
        of_shops |= shops
    return {k: ((k, sum(amounts) if amounts else None), o, s) for k, (amounts, o, s) in found.items()}


def regions(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    some = ((s[2], o[3], {o[0]}, {s[0]}) for o in orders if o[1] == n % 5 for s in shops if matches(o, s))
    return [((*row, n), of_orders, of_shops) for row, of_orders, of_shops in grouped(some).values()]


def left(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    found: list[Made] = []
    for o in orders:
        if o[0] >= n * 4:
            met = [s for s in shops if matches(o, s) and s[3] >= n]
            found += [((o[0], s[2], n), {o[0]}, {s[0]}) for s in met] or [((o[0], None, n), {o[0]}, set())]
    return found


def right(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    found: list[Made] = []
    for s in shops:
        if s[3] <= n:
            met = [o for o in orders if matches(o, s) and o[1] == n % 5]
            found += [((o[0], s[0]), {o[0]}, {s[0]}) for o in met] or [((None, s[0]), set(), {s[0]})]
    return found


def only_named(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    """Whose appends differ in nothing that is read."""
    return [((o[0], s[0], f"run {n}"), {o[0]}, {s[0]}) for o in orders for s in shops if matches(o, s) and s[3] != n]


def kept(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    some = [(o, {s[0] for s in shops if matches(o, s) and s[3] > n}) for o in orders if o[0] % 3 == n % 3]
    return [((o[0], n), {o[0]}, of_shops) for o, of_shops in some if of_shops]


def shut_out(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    """NOT EXISTS: of an order that is left no shop is a witness."""
    some = [o for o in orders if o[0] % 3 == n % 3]
    return [((o[0], n), {o[0]}, set()) for o in some if not any(matches(o, s) and s[3] > n for s in shops)]


def pairs(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    """Of one table two readings, the same row at either."""
    return [
        ((a[0], b[0], n), {a[0], b[0]}, set())
        for a in orders
        for b in orders
        if a[1] == n % 5 and b[1] == (n + 1) % 5 and a[2] is not None and a[2] == b[2]
    ]


def totals(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    """A row of nothing where a day has no orders."""
    some = [o for o in orders if o[1] == n % 5]
    amounts = [o[3] for o in some if o[3] is not None]
    row = (n, len(some), len({o[2] for o in some} - {None}), sum(amounts) if amounts else None)
    return [(row, {o[0] for o in some}, set())]


def joined_totals(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    some = [(o, s) for o in orders if o[1] == n % 5 for s in shops if matches(o, s) and s[2] != "south"]
    amounts = [o[3] for o, _ in some if o[3] is not None]
    row = (f"run {n}", len(some), max(amounts) if amounts else None)
    return [(row, {o[0] for o, _ in some}, {s[0] for _, s in some})]


def of_totals(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    """What is above an aggregate without keys."""
    return [((count, n), o, s) for (_, count, *_), o, s in totals(n, orders, shops) if count != 5]


def running(n: int, orders: list[Order], shops: list[Shop]) -> list[Made]:
    """Each order with the sum of those of its day and shop up to it."""
    found: list[Made] = []
    for one in orders:
        if one[1] == n % 5:
            some = [o for o in orders if o[1] == one[1] and o[2] == one[2] and o[0] <= one[0]]
            amounts = [o[3] for o in some if o[3] is not None]
            found.append(((one[0], sum(amounts) if amounts else None, n), {o[0] for o in some}, set()))
    return found


class Case:
    def __init__(
        self,
        made: Callable[[int, list[Order], list[Shop]], list[Made]],
        sql: str,
        asked: str,
        is_asked: Callable[[tuple[Any, ...]], bool],
    ) -> None:
        self.made = made
        self.sql = sql
        self.asked = asked
        self.is_asked = is_asked


CASES = {
    "joined": Case(
        joined,
        "SELECT rid, region FROM {orders} JOIN {shops} ON orders.shop = shops.shop WHERE day = {day}",
        "rid % 2 = 0",
        lambda row: row[0] % 2 == 0,
    ),
    "regions": Case(
        regions,
        "SELECT region, sum(amount) AS total, {n} AS run FROM orders JOIN {shops} USING (shop) WHERE day = {day} "
        "GROUP BY region",
        "run in (0, 2) and region = 'north'",
        lambda row: row[2] in (0, 2) and row[0] == "north",
    ),
    "left": Case(
        left,
        "SELECT o.rid, s.region, {n} AS run FROM (SELECT * FROM {orders} WHERE rid >= {n} * 4) o LEFT JOIN "
        "(SELECT * FROM {shops} WHERE rank >= {n}) s ON o.shop = s.shop",
        "run in (1, 3) and rid > 14",
        lambda row: row[2] in (1, 3) and row[0] > 14,
    ),
    "right": Case(
        right,
        "SELECT o.rid, s.sid FROM (SELECT * FROM {orders} WHERE day = {day}) o RIGHT JOIN "
        "(SELECT * FROM {shops} WHERE rank <= {n}) s ON o.shop = s.shop",
        "sid < 4 and (rid is null or rid < 12)",
        lambda row: row[1] < 4 and (row[0] is None or row[0] < 12),
    ),
    "only named": Case(
        only_named,
        "SELECT rid, sid, 'run {n}' AS run FROM {orders}, {shops} WHERE orders.shop = shops.shop AND rank <> {n}",
        "run in ('run 1', 'run 4') and rid < 8",
        lambda row: row[2] in ("run 1", "run 4") and row[0] < 8,
    ),
    "kept": Case(
        kept,
        "SELECT rid, {n} AS run FROM {orders} WHERE rid % 3 = {third} AND shop IN "
        "(SELECT shop FROM {shops} WHERE rank > {n})",
        "run > 0 and rid < 20",
        lambda row: row[1] > 0 and row[0] < 20,
    ),
    "shut out": Case(
        shut_out,
        "SELECT rid, {n} AS run FROM {orders} WHERE rid % 3 = {third} AND NOT EXISTS "
        "(SELECT * FROM {shops} WHERE shops.shop = orders.shop AND rank > {n})",
        "run > 1 and rid < 20",
        lambda row: row[1] > 1 and row[0] < 20,
    ),
    "pairs": Case(
        pairs,
        "SELECT a.rid, b.rid AS other, {n} AS run FROM {again} a JOIN {again} b ON a.shop = b.shop "
        "WHERE a.day = {day} AND b.day = {next}",
        "run < 3",
        lambda row: row[2] < 3,
    ),
    "totals": Case(
        totals,
        "SELECT {n} AS run, count(*) AS n, count(DISTINCT shop) AS shops, sum(amount) AS total FROM {orders} "
        "WHERE day = {day}",
        "run in (0, 1, 4)",
        lambda row: row[0] in (0, 1, 4),
    ),
    "joined totals": Case(
        joined_totals,
        "SELECT 'run {n}' AS run, count(*) AS n, max(amount) FILTER (WHERE amount > 0) AS most FROM {orders} "
        "JOIN {shops} USING (shop) WHERE day = {day} AND region <> 'south'",
        "run <> 'run 2'",
        lambda row: row[0] != "run 2",
    ),
    "running": Case(
        running,
        "SELECT rid, sum(amount) OVER (PARTITION BY shop ORDER BY rid) AS total, {n} AS run FROM {orders} "
        "WHERE day = {day}",
        "run in (0, 1, 3) and rid > 8",
        lambda row: row[2] in (0, 1, 3) and row[0] > 8,
    ),
    "of totals": Case(
        of_totals,
        "SELECT n, {n} AS run FROM (SELECT count(*) AS n FROM {orders} WHERE day = {day}) WHERE n <> 5",
        "run <> 1",
        lambda row: row[1] != 1,
    ),
}


@pytest.fixture(scope="module")
def home(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("alike_joins")
    orders = tiny.createDataFrame(ORDERS, "rid int, day int, shop int, amount int")
    shops = tiny.createDataFrame(SHOPS, "sid int, shop int, region string, rank int")
    orders.coalesce(1).write.parquet(str(home / "orders"))
    shops.coalesce(1).write.parquet(str(home / "shops"))
    sources = {name: f"parquet.`{home / name}` {name}" for name in ("orders", "shops")}
    tiny.read.parquet(str(home / "orders")).createOrReplaceTempView("orders")  # a view that bears the files' name
    sources["again"] = f"parquet.`{home / 'orders'}`"
    with whence.attach(tiny, store=home / "store") as w, w.capture():
        for name, case in CASES.items():
            for n in range(APPENDS):
                text = case.sql.format(n=n, day=n % 5, next=(n + 1) % 5, third=n % 3, **sources)
                tiny.sql(text).coalesce(1).write.mode("append").parquet(str(home / name))
    tiny.catalog.dropTempView("orders")
    return home


@pytest.fixture
def session(tiny: SparkSession, home: Path) -> Iterator[whence.Session]:
    with whence.attach(tiny, store=home / "store") as w:
        yield w


def plain(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    return sorted(map(str, rows))


def rows_of(df: DataFrame) -> list[str]:
    return plain(tuple(row) for row in df.collect())


class Oracle:
    """Each append by itself."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.made = [case.made(n, ORDERS, SHOPS) for n in range(APPENDS)]
        asked = [[made for made in one if case.is_asked(made[0])] for one in self.made]
        self.orders = [set().union(*[made[1] for made in one]) for one in asked]
        self.shops = [set().union(*[made[2] for made in one]) for one in asked]
        self.asked = [made[0] for one in asked for made in one]
        self.has_asked = [bool(one) for one in asked]

    def of(self, n: int, *, drop: bool, also_shops: bool = True) -> list[tuple[Any, ...]]:
        orders = [o for o in ORDERS if (o[0] in self.orders[n]) != drop]
        shops = [s for s in SHOPS if (s[0] in self.shops[n]) != drop or not also_shops]
        return [row for row, *_ in self.case.made(n, orders, shops) if self.case.is_asked(row)]

    @property
    def without(self) -> list[str]:
        return plain(row for n in range(APPENDS) for row in self.of(n, drop=True))

    @property
    def without_orders(self) -> list[str]:
        return plain(row for n in range(APPENDS) for row in self.of(n, drop=True, also_shops=False))

    def touched(self, order: int) -> list[str]:
        return plain(row for one in self.made for row, orders, _ in one if order in orders)

    def touched_by_shop(self, shop: int) -> list[str]:
        return plain(row for one in self.made for row, _, shops in one if shop in shops)


@pytest.mark.parametrize("name", CASES)
def test_appends_answer_as_each_by_itself(session: whence.Session, home: Path, name: str) -> None:
    case, oracle = CASES[name], Oracle(CASES[name])
    every = session.spark.read.parquet(str(home / name))
    asked = every.where(case.asked)
    assert rows_of(asked) == plain(oracle.asked)
    assert oracle.asked
    trace = session.backward(asked)
    found = {source: sorted(row[0] for row in frame.collect()) for source, frame in trace.sources.items()}
    assert found.get("orders", []) == sorted(set().union(*oracle.orders))
    assert found.get("shops", []) == sorted(set().union(*oracle.shops))
    assert trace.exact
    assert not trace.notes
    assert trace.verify().ok
    assert rows_of(trace.replay()) == plain(oracle.asked)
    assert rows_of(trace.exclude()) == oracle.without
    if oracle.shops != [set()] * APPENDS:
        assert rows_of(trace.exclude(source="orders")) == oracle.without_orders
    orders, shops = (session.spark.read.parquet(str(home / source)) for source in ("orders", "shops"))
    if "{shops}" in case.sql:
        assert rows_of(session.forward(shops.where("sid = 3"), to=every).rows) == oracle.touched_by_shop(3)
    for order in (6, 13):
        assert rows_of(session.forward(orders.where(f"rid = {order}"), to=every).rows) == oracle.touched(order)


@pytest.mark.parametrize("name", CASES)
def test_appends_are_one_query(session: whence.Session, home: Path, name: str) -> None:
    trace = session.backward(session.spark.read.parquet(str(home / name)).agg({"*": "count"}))
    assert len(trace.readings) <= 2


def test_what_another_query_is_without_them(session: whence.Session, home: Path) -> None:
    """All of the table without what some of its rows come from: of each append without its own."""
    case, oracle = CASES["regions"], Oracle(CASES["regions"])
    every = session.spark.read.parquet(str(home / "regions"))
    without: list[tuple[Any, ...]] = []
    for n in range(APPENDS):
        orders = [o for o in ORDERS if o[0] not in oracle.orders[n]]
        without += [row for row, *_ in case.made(n, orders, [s for s in SHOPS if s[0] not in oracle.shops[n]])]
    assert rows_of(session.backward(every.where(case.asked)).exclude(every)) == plain(without)


def test_some_columns(session: whence.Session, home: Path) -> None:
    """Of a group only the rows that enter the column are witnesses; the others stay in it."""
    every = session.spark.read.parquet(str(home / "totals"))
    trace = session.backward(every.where("run in (0, 4)"), columns=["total"])
    assert {row.rid for row in trace["orders"].collect()} == {o[0] for o in ORDERS if o[1] == 0 and o[3] is not None}
    assert rows_of(trace.exclude()) == ["(None,)", "(None,)"]


def test_a_dimension_that_changed_between_appends(tiny: SparkSession, home: Path, tmp_path: Path) -> None:
    """Each append comes from the shops of its time, which were written under capture, too."""
    store, target, shops = tmp_path / "store", str(tmp_path / "joined"), str(tmp_path / "shops")
    orders, known = tiny.read.parquet(str(home / "orders")), tiny.read.parquet(str(home / "shops"))
    with whence.attach(tiny, store=store) as w, w.capture():
        for n in range(10):
            if n in (0, 5):
                known.where(f"sid > {n // 2}").selectExpr("sid", "shop").write.mode("overwrite").parquet(shops)
            made = orders.join(tiny.read.parquet(shops), "shop").where(f"day = {n % 5}")
            made.selectExpr("rid", "sid", f"{n} as run").write.mode("append").parquet(target)
    with whence.attach(tiny, store=store) as w:
        asked = tiny.read.parquet(target).where("run in (1, 6) and rid < 20")
        trace = w.backward(asked)
        kept = [(1, SHOPS), (6, [s for s in SHOPS if s[0] > 2])]
        met = [[(o, s) for o in ORDERS if o[1] == 1 and o[0] < 20 for s in some if matches(o, s)] for _, some in kept]
        assert len(asked.collect()) == sum(map(len, met))
        assert {row.rid for row in trace["orders"].collect()} == {o[0] for one in met for o, _ in one}
        assert {row.sid for row in trace["shops"].collect()} == {s[0] for one in met for _, s in one}
        assert trace.verify().ok
        assert trace.exclude().count() == 0


def test_appends_over_a_table_that_is_a_join(tiny: SparkSession, home: Path, tmp_path: Path) -> None:
    """What they leave out of the join's own sources they leave out of either side, whatever meets there."""
    store, first, target = tmp_path / "store", str(tmp_path / "first"), str(tmp_path / "second")
    orders, shops = (tiny.read.parquet(str(home / name)) for name in ("orders", "shops"))
    with whence.attach(tiny, store=store) as w, w.capture():
        orders.join(shops, "shop").select("rid", "sid", "day").write.parquet(first)
        for n in range(5):
            days = tiny.read.parquet(first).where(f"day <= {n}").selectExpr("rid", "sid", f"{n} as run")
            days.write.mode("append").parquet(target)
    with whence.attach(tiny, store=store) as w:
        met = [(o, s) for o in ORDERS for s in SHOPS if matches(o, s)]
        trace = w.backward(tiny.read.parquet(target).where("rid < 9 and run in (1, 3)"))
        without: list[tuple[int, ...]] = []
        for n in (1, 3):
            asked = [(o, s) for o, s in met if o[1] <= n and o[0] < 9]
            gone = {o[0] for o, _ in asked}, {s[0] for _, s in asked}
            left = [(o, s) for o, s in met if o[0] not in gone[0] and s[0] not in gone[1]]
            without += [(o[0], s[0], n) for o, s in left if o[1] <= n]
        every = tiny.read.parquet(target).where("run in (1, 3)")
        assert trace.verify().ok
        assert rows_of(trace.exclude(every)) == plain(without)
        assert trace.exclude().count() == 0


def test_what_is_without_the_rows_of_another_source(session: whence.Session, home: Path) -> None:
    """The appends keep the rows that they were made from."""
    totals = session.spark.read.parquet(str(home / "totals")).where("run < 3")
    regions = session.spark.read.parquet(str(home / "shops")).selectExpr("sid as run", "region")
    trace = session.backward(totals.join(regions, "run", "left").select("run", "n", "region").where("run = 1"))
    assert trace["orders"].count() == 6
    assert rows_of(trace.exclude(source="shops")) == ["(1, 6, None)"]


def test_why_a_row_is_in_none_of_them(session: whence.Session, home: Path) -> None:
    orders, shops = (session.spark.read.parquet(str(home / source)) for source in ("orders", "shops"))
    every = session.spark.read.parquet(str(home / "joined"))
    (lost,) = session.why_not(orders.where("rid = 10"), to=every)  # an order of no shop
    assert lost.operator == "Join"
    assert lost.reason == "no partner meets (orders.shop = shops.shop)"
    (there,) = session.why_not(orders.where("rid = 7"), to=every.where("rid = 4"))
    assert there.operator == "Filter"
    (shop,) = session.why_not(shops.where("sid = 5"), to=every)
    assert shop.operator == "Join"
    (met,) = session.why_not(shops.where("sid = 3"), to=every)
    assert met.operator is None
