"""Every rule against the oracle: the same query, the same rows, the same witnesses for each of them, both ways.

The oracle is that of generated queries (tests/fuzz/sql_oracle.py), which test_generated.py makes by chance; here stands
one query for each rule, and what is asked of it is asked of every one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from fuzz import sql_oracle as oracle
from fuzz.sql_making import Case, Table
from fuzz.sql_oracle import Aggregate, Call, Distinct, Filter, Join, Project, Query, Scan, SetOperation, Top
from fuzz.sql_queries import load
from whence.model import Strategy

TABLES = {
    "t": Table(("int", "int"), ((1, 1), (1, 2), (2, None), (None, 3), (None, 3), (2, 5)), "values"),
    "u": Table(("int",) * 3, ((1, 10, 0), (1, 10, 0), (2, None, 4), (None, 7, 7), (3, 1, 2)), "values"),
}


@pytest.fixture(scope="module")
def session(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    with whence.attach(tiny, store=tmp_path_factory.mktemp("store")) as w:
        yield w


@pytest.fixture(scope="module")
def in_memory(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    load(tiny, Case(TABLES, t(), 0, ("t", 0)), tmp_path_factory.mktemp("nothing"))


@pytest.fixture(scope="module")
def in_files(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    stored = {name: replace(table, format="parquet") for name, table in TABLES.items()}
    load(tiny, Case(stored, t(), 0, ("t", 0)), tmp_path_factory.mktemp("tables"))


# --- what is asked of every query


def evaluated(query: Query) -> oracle.Rows:
    judge = oracle.Oracle({name: list(table.rows) for name, table in TABLES.items()})
    rows = judge.rows(oracle.numbered(query))
    assert not judge.widened, "which rows are taken is not to be known"
    return rows


def check(w: whence.Session, query: Query, df: DataFrame, expected: oracle.Rows) -> whence.Trace:
    trace = w.backward(df)
    check_told(trace, expected)
    check_forward(w, query, df, expected)
    return trace


# What a row of the one job is about, where it is not about an output row.
READ, COUNT = -1, -2


def check_told(trace: whence.Trace, expected: oracle.Rows) -> None:
    """Of each output row its (reading, rid) pairs; of each reading the rows that made any; and what is printed beside a
    step is how many rows there are at it. One job asks for all."""
    pairs = [frame.select(F.lit(number), "output", "rid") for number, frame in trace.witnesses_per_output()]
    rows = [reading.rows.select(F.lit(reading.number), F.lit(READ), "rid") for reading in trace.readings]
    counts = [trace.at(step).agg(F.lit(step.number), F.lit(COUNT), F.count(F.lit(1))) for step in trace.steps]
    found: dict[int, set[tuple[int, int]]] = {}
    read: set[tuple[int, int]] = set()
    counted: dict[int, int] = {}
    for number, output, rid in reduce(DataFrame.unionAll, [*pairs, *rows, *counts]).collect():
        if output == COUNT:
            counted[number] = rid
        elif output == READ:
            assert (number, rid) not in read, "each row of a reading once"
            read.add((number, rid))
        else:
            found.setdefault(output, set()).add((number, rid))
    outputs = [(row[0], tuple(row[1:])) for row in trace.outputs().collect()]
    told = Counter((values, frozenset(found.get(number, set()))) for number, values in outputs)
    assert told == Counter(expected)
    assert read == oracle.merged(expected)
    assert trace.step_counts() == tuple(counted[number] for number in sorted(counted))
    assert len(counted) == len(trace.steps)


def check_forward(w: whence.Session, query: Query, df: DataFrame, expected: oracle.Rows) -> None:
    scans = [q for q in oracle.flat(query) if isinstance(q, Scan)]
    table = scans[0].table
    numbers = {q.number for q in scans if q.table == table}
    touched = w.forward(w.spark.table(table).where("rid = 0"), to=df)
    assert Counter(tuple(r) for r in touched.rows.collect()) == Counter(
        values for values, ids in expected if any(number in numbers and rid == 0 for number, rid in ids)
    )


# --- the queries


def t() -> Scan:
    return Scan("t", TABLES["t"].kinds, (0, 1))


def u() -> Scan:
    return Scan("u", TABLES["u"].kinds, (0, 1, 2))


def where(child: Query, at: int, op: str, number: int) -> Filter:
    return Filter(child, oracle.compared(op, oracle.column(child.kinds, at), oracle.constant("int", number)))


def columns(child: Query, *wanted: tuple[int, int]) -> Project:
    """Of each a column, and what is added to it."""
    return Project(child, tuple(oracle.added(oracle.column(child.kinds, at), more) for at, more in wanted))


def join(left: Query, right: Query, kind: str, op: str = "=") -> Join:
    """On the first column of each."""
    kinds = left.kinds + right.kinds
    met = oracle.compared(op, oracle.column(kinds, 0), oracle.column(kinds, len(left.kinds)))
    return Join(left, right, kind, None if kind == "CROSS" else met)


def grouped(child: Query, keys: tuple[int, ...], function: str, at: int, having: int | None = None) -> Aggregate:
    return Aggregate(child, keys, (Call(function, at),), having)


def top(child: Query, limit: int) -> Top:
    return Top(child, limit, offset=0, descending=False)


def both(left: Query, right: Query) -> SetOperation:
    return SetOperation(left, right, "UNION ALL")


def nothing() -> Query:
    return where(t(), 1, ">=", 100)


ONE_OF_EACH: dict[str, Query] = {
    "scan": t(),
    "filter": where(t(), 1, ">=", 2),
    "filter nothing left": nothing(),
    "project": columns(u(), (2, 1), (0, 0)),
    **{
        f"{kind.lower()} join on {op}": join(t(), u(), kind, op)
        for kind in ("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
        for op in ("=", "<", "<=>")
    },
    "cross join": join(t(), u(), "CROSS"),
    "self join": join(t(), t(), "INNER"),
    "aggregate": grouped(t(), (0,), "sum", 1),
    "aggregate two keys": grouped(u(), (0, 1), "max", 2),
    "aggregate no keys": grouped(t(), (), "count", 1),
    "aggregate no keys no rows": grouped(nothing(), (), "count", 1),
    "having": grouped(t(), (0,), "count distinct", 1, having=1),
    "aggregate of join": grouped(join(t(), u(), "LEFT"), (0,), "sum", 3),
    "join of aggregates": join(grouped(t(), (0,), "sum", 1), grouped(u(), (0,), "max", 1), "FULL"),
    "aggregate of aggregate": grouped(grouped(t(), (0, 1), "count", 1), (0,), "sum", 2),
    "distinct": Distinct(t()),
    "distinct of nothing": Distinct(nothing()),
    "union": both(t(), columns(u(), (0, 0), (1, 0))),
    "union of aggregates": both(grouped(t(), (0,), "sum", 1), grouped(u(), (0,), "max", 1)),
    "outer join of union": join(both(t(), t()), u(), "FULL"),
    "intersect": SetOperation(columns(t(), (0, 0)), columns(u(), (0, 0)), "INTERSECT"),
    "except": SetOperation(columns(t(), (1, 0)), columns(u(), (0, 0)), "EXCEPT"),
    "top": top(t(), 3),
    "top of aggregate": top(grouped(t(), (0,), "sum", 1), 2),
    "filter of top": where(top(u(), 3), 0, "=", 1),
    "top of nothing": top(nothing(), 2),
    "semi join of aggregate": join(t(), grouped(u(), (0,), "sum", 1), "LEFT SEMI"),
}


@pytest.mark.parametrize("name", ONE_OF_EACH)
@pytest.mark.usefixtures("in_memory")
def test_operator(session: whence.Session, name: str) -> None:
    query = ONE_OF_EACH[name]
    expected = evaluated(query)
    trace = check(session, query, session.spark.sql(oracle.sql(query)), expected)
    assert trace.exact, trace.notes
    assert trace.verify().ok


@pytest.mark.usefixtures("in_memory")
def test_rows_that_tie_at_a_cut_are_all_told(session: whence.Session) -> None:
    """Any of them may have been taken; nothing else widens an answer."""
    one, all_that_tie = top(t(), 1), top(t(), 2)
    expected = evaluated(all_that_tie)
    assert [values for values, _ in expected] == [(None, 3), (None, 3)]
    oracle.numbered(one)
    trace = check(session, one, session.spark.sql(oracle.sql(one)), expected)
    assert not trace.exact
    assert all("tie" in note for note in trace.notes), trace.notes


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
    "filtered, of a self join": grouped(where(join(t(), t(), "LEFT"), 1, ">=", 2), (0, 3), "count", 1, having=0),
}


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.usefixtures("in_files")
def test_captured(session: whence.Session, name: str) -> None:
    """Files this time: of these a captured aggregate knows the rows, and tells the same as the oracle."""
    query = {**ONE_OF_EACH, **MORE}[name]
    expected = evaluated(query)
    df = session.spark.sql(oracle.sql(query))
    with session.capture():
        result = df.collect()
    assert Counter(map(tuple, result)) == Counter(values for values, _ in expected)
    trace = check(session, query, df, expected)
    assert (trace.strategy is Strategy.STORED) == CAPTURED[name]
    assert trace.verify().ok
