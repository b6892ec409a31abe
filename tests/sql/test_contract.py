"""Every rule against the oracle: the same query, the same rows, the same witnesses for each of them, both ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from sql import oracle
from sql.oracle import Aggregate, Distinct, Filter, Join, Project, Query, Scan, SetOperation, Tables, Top, Union
from whence.model import Strategy

WIDTH = {"t": 2, "u": 3}


@pytest.fixture(scope="module")
def session(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    with whence.attach(tiny, store=tmp_path_factory.mktemp("store")) as w:
        yield w


def load(spark: SparkSession, tables: Tables) -> None:
    """Each table as a temporary view of local rows; `rid` numbers them, and no query reads it."""
    for name, rows in tables.items():
        columns = [f"c{i} bigint" for i in range(WIDTH[name])]
        schema = ", ".join([*columns, "rid bigint"])
        if not rows:
            spark.createDataFrame([], schema).createOrReplaceTempView(name)
            continue
        # VALUES stay in the JVM, where they are read far more quickly than Python's own rows.
        cells = [", ".join("null" if v is None else str(v) for v in (*row, i)) for i, row in enumerate(rows)]
        names = [column.split()[0] for column in schema.split(", ")]
        casts = ", ".join(f"cast({name} as bigint) {name}" for name in names)
        values = ", ".join(f"({cell})" for cell in cells)
        spark.sql(f"select {casts} from values {values} as v({', '.join(names)})").createOrReplaceTempView(name)


def witnesses(trace: whence.Trace) -> list[tuple[oracle.Values, oracle.Ids]]:
    """Each output row with its (reading, rid) pairs, as the trace tells them."""
    found: dict[int, set[tuple[int, int]]] = {}
    for reading, frame in trace.witnesses_per_output():
        for row in frame.select("output", "rid").collect():
            found.setdefault(row.output, set()).add((reading, row.rid))
    outputs = [(row[0], tuple(row[1:])) for row in trace.outputs().collect()]
    return [(values, frozenset(found.get(number, set()))) for number, values in outputs]


def check(w: whence.Session, query: Query, tables: Tables) -> whence.Trace:
    spark = w.spark
    load(spark, tables)
    expected = oracle.evaluate(oracle.number(query), tables)
    df = oracle.to_spark(query, spark)
    trace = w.backward(df)
    assert Counter(witnesses(trace)) == Counter(expected)
    everything = frozenset().union(*[ids for _, ids in expected]) if expected else frozenset()
    for reading in trace.readings:
        assert {r.rid for r in reading.rows.select("rid").collect()} == {
            rid for number, rid in everything if number == reading.number
        }
    if trace.exact:
        assert trace.verify().ok
    else:  # of the rows that tie at a cut any may have been taken; nothing else widens an answer
        assert any(isinstance(q, Top) for q in flat(query)), trace.notes
        assert all("tie" in note for note in trace.notes), trace.notes
    check_counts(trace)
    check_forward(w, query, df, expected)
    return trace


def check_counts(trace: whence.Trace) -> None:
    """What is printed beside a step is how many rows there are at it."""
    counts = [trace.at(step).agg(F.lit(step.number), F.count(F.lit(1))) for step in trace.steps]
    found = sorted(tuple(row) for row in reduce(DataFrame.unionAll, counts).collect())
    assert trace.step_counts() == tuple(count for _, count in found)


def check_forward(w: whence.Session, query: Query, df: DataFrame, expected: oracle.Rows) -> None:
    scans = [q for q in flat(query) if isinstance(q, Scan)]
    table = scans[0].table
    numbers = {q.number[0] for q in scans if q.table == table}
    touched = w.forward(w.spark.table(table).where("rid = 0"), to=df)
    assert Counter(tuple(r) for r in touched.rows.collect()) == Counter(
        values for values, ids in expected if any(number in numbers and rid == 0 for number, rid in ids)
    )


def flat(query: Query) -> Iterator[Query]:
    yield query
    for name in ("child", "left", "right"):
        if hasattr(query, name):
            yield from flat(getattr(query, name))


T, U = Scan("t", 2), Scan("u", 3)
TABLES: Tables = {
    "t": [(1, 1), (1, 2), (2, None), (None, 3), (None, 3), (2, 5)],
    "u": [(1, 10, 0), (1, 10, 0), (2, None, 4), (None, 7, 7), (3, 1, 2)],
}


def scan_t() -> Scan:
    return Scan("t", 2)


def scan_u() -> Scan:
    return Scan("u", 3)


ONE_OF_EACH = {
    "scan": scan_t(),
    "filter": Filter(scan_t(), 1, ">", 1),
    "filter nothing left": Filter(scan_t(), 1, ">", 100),
    "project": Project(scan_u(), ((2, 1), (0, 0))),
    **{
        f"{kind} join on {op}": Join(scan_t(), scan_u(), kind, op, 0, 0)
        for kind in ("inner", "left", "right", "full", "left_semi", "left_anti")
        for op in ("=", "<", "<=>")
    },
    "cross join": Join(scan_t(), scan_u(), "cross", "=", 0, 0),
    "self join": Join(scan_t(), scan_t(), "inner", "=", 0, 0),
    "aggregate": Aggregate(scan_t(), (0,), "sum", 1),
    "aggregate two keys": Aggregate(scan_u(), (0, 1), "max", 2),
    "aggregate no keys": Aggregate(scan_t(), (), "count", 1),
    "aggregate no keys no rows": Aggregate(Filter(scan_t(), 1, ">", 100), (), "count", 1),
    "having": Aggregate(scan_t(), (0,), "count_distinct", 1, having=1),
    "aggregate of join": Aggregate(Join(scan_t(), scan_u(), "left", "=", 0, 0), (0,), "sum", 3),
    "join of aggregates": Join(
        Aggregate(scan_t(), (0,), "sum", 1), Aggregate(scan_u(), (0,), "max", 1), "full", "=", 0, 0
    ),
    "aggregate of aggregate": Aggregate(Aggregate(scan_t(), (0, 1), "count", 1), (0,), "sum", 2),
    "distinct": Distinct(scan_t()),
    "distinct of nothing": Distinct(Filter(scan_t(), 1, ">", 100)),
    "union": Union(scan_t(), Project(scan_u(), ((0, 0), (1, 0)))),
    "union of aggregates": Union(Aggregate(scan_t(), (0,), "sum", 1), Aggregate(scan_u(), (0,), "max", 1)),
    "outer join of union": Join(Union(scan_t(), scan_t()), scan_u(), "full", "=", 0, 0),
    "top": Top(scan_t(), 3),
    "top with ties at the cut": Top(scan_t(), 1),
    "top of aggregate": Top(Aggregate(scan_t(), (0,), "sum", 1), 2),
    "filter of top": Filter(Top(scan_u(), 3), 0, "=", 1),
    "top of nothing": Top(Filter(scan_t(), 1, ">", 100), 2),
    "semi join of aggregate": Join(scan_t(), Aggregate(scan_u(), (0,), "sum", 1), "left_semi", "=", 0, 0),
}


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_operator(session: whence.Session, name: str) -> None:
    assert check(session, ONE_OF_EACH[name], TABLES).exact == ("ties" not in name)


values = st.one_of(st.none(), st.integers(-1, 3))


@st.composite
def tables(draw: st.DrawFn) -> Tables:
    return {name: draw(st.lists(st.tuples(*[values] * width), max_size=6)) for name, width in WIDTH.items()}


@st.composite
def queries(draw: st.DrawFn, depth: int = 3) -> Query:
    def below() -> Query:
        return draw(queries(depth - 1))

    def column(query: Query) -> int:
        return draw(st.integers(0, query.width - 1))

    kinds = ["scan"] if depth == 0 else KINDS
    kind = draw(st.sampled_from(kinds))
    if kind == "scan":
        name = draw(st.sampled_from(sorted(WIDTH)))
        return Scan(name, WIDTH[name])
    child = below()
    if kind == "filter":
        return Filter(child, column(child), draw(st.sampled_from(["=", "<", ">", "<>"])), draw(st.integers(-1, 3)))
    if kind == "project":
        width = draw(st.integers(1, 3))
        return Project(child, tuple((column(child), draw(st.integers(0, 1))) for _ in range(width)))
    if kind == "join":
        right = below()
        joins = ["inner", "left", "right", "full", "left_semi", "left_anti", "cross"]
        how = draw(st.sampled_from(joins))
        return Join(child, right, how, draw(st.sampled_from(["=", "<", "<=>"])), column(child), column(right))
    if kind == "aggregate":
        keys = draw(st.lists(st.integers(0, child.width - 1), max_size=2, unique=True))
        function = draw(st.sampled_from(["count", "sum", "max", "count_distinct"]))
        return Aggregate(child, tuple(keys), function, column(child), draw(st.sampled_from([None, 1])))
    if kind == "distinct":
        return Distinct(child)
    if kind == "top":
        return Top(child, draw(st.integers(1, 4)))
    width = draw(st.integers(1, 2))
    left = Project(child, tuple((column(child), 0) for _ in range(width)))
    right = below()
    other = Project(right, tuple((column(right), 0) for _ in range(width)))
    if kind == "union":
        return Union(left, other)
    return SetOperation(left, other, draw(st.sampled_from(["intersect", "except"])))


KINDS = ["scan", "filter", "project", "join", "aggregate", "distinct", "top", "union", "set"]


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, *HealthCheck],
)
@given(query=queries(), tables=tables())
def test_any_query(session: whence.Session, query: Query, tables: Tables) -> None:
    check(session, query, tables)


CAPTURED = {
    "aggregate": True,
    "aggregate two keys": True,
    "having": True,
    "aggregate of join": True,
    "aggregate of aggregate": False,
    "top of aggregate": True,
    "filtered, of a self join": True,
}
MORE = {
    "filtered, of a self join": Aggregate(
        Filter(Join(scan_t(), scan_t(), "left", "=", 0, 0), 1, ">", 1), (0, 3), "count", 1, having=0
    ),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_captured(session: whence.Session, name: str, tmp_path: Path) -> None:
    """Files this time: of these a captured aggregate knows the rows, and tells the same as the oracle."""
    load(session.spark, TABLES)
    for table in TABLES:
        session.spark.table(table).repartition(2, "rid").write.parquet(str(tmp_path / table))
        session.spark.read.parquet(str(tmp_path / table)).createOrReplaceTempView(table)
    query = {**ONE_OF_EACH, **MORE}[name]
    expected = oracle.evaluate(oracle.number(query), TABLES)
    df = oracle.to_spark(query, session.spark)
    with session.capture():
        result = df.collect()
    assert Counter(map(tuple, result)) == Counter(values for values, _ in expected)
    trace = session.backward(df)
    assert Counter(witnesses(trace)) == Counter(expected)
    everything = frozenset().union(*[ids for _, ids in expected])
    for reading in trace.readings:
        assert {r.rid for r in reading.rows.select("rid").collect()} == {
            rid for number, rid in everything if number == reading.number
        }
    assert (trace.strategy is Strategy.STORED) == CAPTURED[name]
    assert trace.verify().ok
    check_counts(trace)
    check_forward(session, query, df, expected)
