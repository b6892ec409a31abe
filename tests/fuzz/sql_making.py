"""Queries that hypothesis makes and shrinks: tables, what is read at their places, and what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

from hypothesis import strategies as st

from fuzz import sql_oracle as oracle
from fuzz import sql_wider as wider
from fuzz.sql_oracle import Expression, Oracle, Query, Scan, Tied, Values

# What is asked of a trace beside the witnesses of every row.
WAYS = (
    *("sources", "verify", "replay", "forward", "one"),
    *("several", "why_not", "columns", "associations", "steps", "influence", "source"),
)
_FORMATS = ("values", "values", "python", "parquet", "parquet", "parted", "orc", "json", "csv")
_PARTS = ("int", "string", "date")  # columns that a directory is named after
# The number of a row among its table's, as its reading tells it.
_NUMBERS = {
    "plain": "if(rid = 'rid', 0, try_cast(rid AS BIGINT) + 1)",
    "text": "if(k0 LIKE '%,rid', 0, try_cast(substring_index(k0, ',', -1) AS BIGINT) + 1)",
}


@dataclass(frozen=True)
class Table:
    """`format`: also `plain` and `text`, the file of a CSV table without its header and as lines, and `before`, a table
    of files before its last rows were appended. `of`: the table that this is another reading of."""

    kinds: tuple[str, ...]
    rows: tuple[Values, ...]
    format: str
    of: str | None = None

    @property
    def number(self) -> str:
        return _NUMBERS.get(self.format, "rid")


@dataclass(frozen=True, eq=False)
class Case:
    tables: Mapping[str, Table]
    query: Query
    asked: int  # which row of the result is asked for by itself
    seed: tuple[str, int]  # table and row from which forward starts
    ways: tuple[str, ...] = WAYS

    def __repr__(self) -> str:
        tables = "\n".join(f"{name}: {table}" for name, table in self.tables.items())
        return f"\n{tables}\n{oracle.shown(self.query)}\nasked {self.asked}, forward from {self.seed}, {self.ways}"


# --- making them


@st.composite
def cases(draw: st.DrawFn, depth: int = 4, tables: Mapping[str, Table] | None = None) -> Case:
    """`tables`: that are there already; else they are made, too."""
    if tables is None:
        tables = with_readings({f"t{i}": draw(some_table()) for i in range(draw(st.integers(1, 3)))})
    query = draw(_queries(tables, draw(st.integers(1, depth))))
    read = sorted({q.table for q in oracle.flat(query) if isinstance(q, Scan)})
    name = draw(st.sampled_from(read))
    row = draw(st.integers(0, max(0, len(tables[name].rows) - 1)))
    return Case(tables, query, draw(st.integers(0, 5)), (name, row))


@st.composite
def some_table(draw: st.DrawFn) -> Table:
    format = draw(st.sampled_from(_FORMATS))
    # Only Parquet keeps collations; what is in a CSV file is read as strings, too.
    left_out = oracle.COLLATED if format in ("orc", "json") else ()
    known = ("int", "string") if format == "csv" else [kind for kind in oracle.KINDS if kind not in left_out]
    first = draw(st.sampled_from(_PARTS)) if format == "parted" else "int"
    kinds = (first, *draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)))
    # Of an empty string Spark's CSV reader makes a NULL, quoted or not.
    some = {kind: [v for v in oracle.SOME[kind] if format != "csv" or v != ""] for kind in kinds}
    row = st.tuples(*[st.sampled_from(some[kind]) for kind in kinds])
    if format == "parted":  # a directory cannot be named after an empty string: Spark takes NULL
        row = row.map(lambda values: (values[0] or None if kinds[0] == "string" else values[0], *values[1:]))
    fewest = draw(st.sampled_from((0, 1, 2, 3, 4)))
    return Table(kinds, tuple(draw(st.lists(row, min_size=fewest, max_size=6))), format)


def with_readings(tables: Mapping[str, Table]) -> dict[str, Table]:
    """And what else can be read at their places: a CSV file in two other ways, a directory before it grew."""
    found = dict(tables)
    for name, table in tables.items():
        if table.format == "csv":
            as_text = tuple((line,) for line in lines(table))
            cells: list[Values] = [tuple(f"k{i}" for i in range(len(table.kinds)))]
            cells += [tuple(None if v is None else str(v) for v in row) for row in table.rows]
            found[f"{name}_plain"] = Table(("string",) * len(table.kinds), tuple(cells), "plain", name)
            found[f"{name}_text"] = Table(("string",), as_text, "text", name)
        elif table.format in ("parquet", "orc", "json") and len(table.rows) > 3:
            found[f"{name}_before"] = Table(table.kinds, table.rows[: len(table.rows) // 2], "before", name)
    return found


def lines(table: Table) -> list[str]:
    rows = [(*("" if v is None else str(v) for v in row), str(i)) for i, row in enumerate(table.rows)]
    return [",".join(row) for row in [(*[f"k{i}" for i in range(len(table.kinds))], "rid"), *rows]]


@st.composite
def _queries(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    if depth == 0:
        return draw(_scans(tables))
    make = draw(st.sampled_from(_MAKERS))
    return draw(make(tables, depth - 1))


@st.composite
def _scans(draw: st.DrawFn, tables: Mapping[str, Table]) -> Query:
    name = draw(st.sampled_from(sorted(tables)))
    kinds = tables[name].kinds
    columns = draw(st.lists(st.integers(0, len(kinds) - 1), min_size=1, max_size=3, unique=True))
    return Scan(name, tuple(kinds[c] for c in columns), tuple(columns))


def usable(kinds: tuple[str, ...]) -> list[int]:
    """The columns that something may go by."""
    return [i for i, kind in enumerate(kinds) if kind != oracle.SHOWN]


def _plain(query: Query) -> Query:
    """Without what is only shown."""
    places = usable(query.kinds)
    if len(places) == len(query.kinds):
        return query
    columns = [oracle.column(query.kinds, i) for i in places]
    return oracle.Project(query, tuple(columns or [oracle.constant("int", 1)]))


def _some(kind: str) -> st.SearchStrategy[Expression]:
    return st.sampled_from(oracle.SOME[kind]).map(lambda value: oracle.constant(kind, value))


@st.composite
def _expressions(draw: st.DrawFn, kinds: tuple[str, ...], depth: int = 1) -> Expression:
    here = oracle.column(kinds, draw(st.integers(0, len(kinds) - 1)))
    if here.kind == oracle.SHOWN:
        return here
    how = draw(st.sampled_from(("column", "column", "inner", "coalesce", "case"))) if depth else "column"
    if how == "inner" and here.kind in ("array", "struct", "doubles"):
        return oracle.first_of(here)
    if how == "inner" and here.kind == "int":
        return draw(
            st.sampled_from((oracle.added(here, 1), oracle.in_python(here), oracle.paired(here, oracle.added(here, 1))))
        )
    if how == "coalesce":
        return oracle.coalesced(here, draw(_some(here.kind)))
    if how == "case":
        same = [i for i, kind in enumerate(kinds) if kind == here.kind]
        other = oracle.column(kinds, draw(st.sampled_from(same)))
        return oracle.either(draw(_conditions(kinds, 0)), here, other)
    return here


@st.composite
def _conditions(draw: st.DrawFn, kinds: tuple[str, ...], depth: int = 1) -> Expression:
    if depth and draw(st.booleans()):
        a, b = draw(_conditions(kinds, 0)), draw(_conditions(kinds, 0))
        return draw(st.sampled_from((oracle.both("AND", a, b), oracle.both("OR", a, b), oracle.negated(a))))
    here = draw(_expressions(kinds, depth))
    if here.kind == oracle.SHOWN:
        return oracle.constant("bool", True)
    if draw(st.integers(0, 4)) == 0:
        return oracle.is_null(here)
    same = [i for i, kind in enumerate(kinds) if kind == here.kind]
    other = draw(_some(here.kind))
    if same and draw(st.booleans()):
        other = oracle.column(kinds, draw(st.sampled_from(same)))
    return oracle.compared(draw(st.sampled_from(("=", "<", ">=", "<>", "<=>"))), here, other)


@st.composite
def _between(draw: st.DrawFn, left: tuple[str, ...], right: tuple[str, ...]) -> Expression:
    """A condition that compares the sides, where they have columns of one kind."""
    pairs = [(i, len(left) + j) for i in usable(left) for j in usable(right) if left[i] == right[j]]
    kinds = left + right
    if not pairs:
        return draw(_conditions(kinds))
    i, j = draw(st.sampled_from(pairs))
    op = draw(st.sampled_from(("=", "=", "=", "<=>", "<")))
    met = oracle.compared(op, oracle.column(kinds, i), oracle.column(kinds, j))
    return oracle.both("AND", met, draw(_conditions(kinds, 0))) if draw(st.integers(0, 3)) == 0 else met


@st.composite
def _filters(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    child = draw(_queries(tables, depth))
    return oracle.Filter(child, draw(_conditions(child.kinds)))


@st.composite
def _projects(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    child = draw(_queries(tables, depth))
    columns = draw(st.lists(_expressions(child.kinds), min_size=1, max_size=3))
    return oracle.Project(child, tuple(columns))


@st.composite
def _joins(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    left, right = draw(_queries(tables, depth)), draw(_queries(tables, draw(st.integers(0, depth))))
    kind = draw(st.sampled_from(("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI", "CROSS")))
    condition = None if kind == "CROSS" else draw(_between(left.kinds, right.kinds))
    return oracle.Join(left, right, kind, condition)


@st.composite
def _subqueries(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    left, right = draw(_queries(tables, depth)), _plain(draw(_queries(tables, draw(st.integers(0, depth)))))
    how = draw(st.sampled_from(("in", "exists", "scalar")))
    if how == "in":
        same = [i for i, kind in enumerate(left.kinds) if kind == right.kinds[0]]
        if same:
            return oracle.InSubquery(left, right, draw(st.sampled_from(same)), draw(st.booleans()))
    if how == "scalar":
        pairs = [(i, j) for i, a in enumerate(left.kinds) for j, b in enumerate(right.kinds) if a == b]
        columns = draw(st.sampled_from([None, *pairs]))
        return oracle.Scalar(left, right, columns, draw(st.none() | _calls(right.kinds, ("sum", "max", "min"))))
    return oracle.Exists(left, right, draw(_between(left.kinds, right.kinds)), draw(st.booleans()))


@st.composite
def _aggregates(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    child = _plain(draw(_queries(tables, depth)))
    keys = draw(st.lists(st.integers(0, len(child.kinds) - 1), max_size=2, unique=True))
    functions = (*_CALLS, *_CALLS, *oracle.WAVERS, "any", "pandas_sum")
    calls = draw(st.lists(_calls(child.kinds, functions), min_size=1, max_size=2))
    if any(call.function == "pandas_sum" for call in calls):  # Spark has no queries that mix these with its own
        return oracle.Aggregate(child, tuple(keys), tuple(c for c in calls if c.function == "pandas_sum"))
    return oracle.Aggregate(child, tuple(keys), tuple(calls), draw(st.sampled_from((None, None, 1))))


_CALLS = ("count", "min", "max", "count distinct", "sum")


@st.composite
def _calls(draw: st.DrawFn, kinds: tuple[str, ...], functions: tuple[str, ...]) -> oracle.Call:
    at = draw(st.integers(0, len(kinds) - 1))
    function = draw(st.sampled_from([f for f in functions if "sum" not in f or kinds[at] == "int"]))
    filtered = function != "pandas_sum" and draw(st.integers(0, 3)) == 0
    return oracle.Call(function, at, draw(_conditions(kinds, 0)) if filtered else None)


@st.composite
def _set_operations(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    left, right = _plain(draw(_queries(tables, depth))), draw(_queries(tables, draw(st.integers(0, depth))))
    kind = draw(
        st.sampled_from(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
    )
    return oracle.SetOperation(left, draw(_with_kinds(right, left.kinds)), kind)


@st.composite
def _with_kinds(draw: st.DrawFn, query: Query, kinds: tuple[str, ...]) -> Query:
    columns = []
    for want in kinds:
        same = [i for i, k in enumerate(query.kinds) if k == want]
        other = oracle.column(query.kinds, draw(st.sampled_from(same))) if same else draw(_some(want))
        columns.append(other)
    return oracle.Project(query, tuple(columns))


@st.composite
def _windows(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    child = _plain(draw(_queries(tables, depth)))
    places = st.integers(0, len(child.kinds) - 1)
    frame = draw(st.sampled_from(("all", "peers", "two", "rank", "lag")))
    return oracle.Windowed(child, draw(places), draw(places), frame)


@st.composite
def _others(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    child = draw(_queries(tables, depth))
    if draw(st.integers(0, 3)) == 0:
        return wider.Named(child, draw(st.booleans()))
    child = _plain(child)
    arrays = [i for i, kind in enumerate(child.kinds) if kind == "array"]
    how = draw(st.sampled_from(("distinct", "top", "written", *(["explode"] * 3 if arrays else []))))
    if how == "top":
        return oracle.Top(child, draw(st.integers(0, 4)), draw(st.sampled_from((0, 0, 1))), draw(st.booleans()))
    if how == "explode":
        return oracle.Exploded(child, draw(st.sampled_from(arrays)), draw(st.booleans()))
    if how == "written":
        return oracle.Written(child)
    return oracle.Distinct(child)


@st.composite
def _grouping_sets(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    child = _plain(draw(_queries(tables, depth)))
    keys = tuple(draw(st.lists(st.integers(0, len(child.kinds) - 1), min_size=1, max_size=2, unique=True)))
    every = [(0, 1), (0,), (1,), ()] if len(keys) == 2 else [(0,), ()]
    how = draw(st.sampled_from(("ROLLUP", "CUBE", "SETS")))
    sets = [s for s in every if s != (1,)] if how == "ROLLUP" else every
    if how == "SETS":
        sets = draw(st.lists(st.sampled_from(every), min_size=1, max_size=3))
        if not all(any(i in s for s in sets) for i in range(len(keys))):  # Spark wants each key in one of them
            sets = [*sets, every[0]]
    calls = draw(st.lists(_calls(child.kinds, (*_CALLS, "collect_list")), min_size=1, max_size=2))
    return wider.GroupingSets(child, keys, tuple(sets), how, tuple(calls))


@st.composite
def _pivots(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    child = _plain(draw(_queries(tables, depth)))
    simple = [i for i, kind in enumerate(child.kinds) if kind in ("int", "string", "date", "bool", "decimal")]
    if not simple or len(child.kinds) < 2:
        return child
    at = draw(st.sampled_from(simple))
    of = draw(st.sampled_from([i for i in range(len(child.kinds)) if i != at]))
    some = [value for value in oracle.SOME[child.kinds[at]] if value is not None]
    values = draw(st.lists(st.sampled_from(some), min_size=1, max_size=2, unique=True))
    return wider.Pivot(child, at, of, tuple(values))


@st.composite
def _tests(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    left, right = draw(_queries(tables, depth)), _plain(draw(_queries(tables, draw(st.integers(0, depth)))))
    other = draw(st.none() | _conditions(left.kinds, 0))
    same = [i for i, kind in enumerate(left.kinds) if kind == right.kinds[0]]
    if same and draw(st.booleans()):
        return wider.Tested(left, right, None, draw(st.sampled_from(same)), draw(st.booleans()), other)
    return wider.Tested(left, right, draw(_between(left.kinds, right.kinds)), 0, draw(st.booleans()), other)


@st.composite
def _laterals(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    left, right = draw(_queries(tables, depth)), _plain(draw(_queries(tables, draw(st.integers(0, depth)))))
    pairs = [(i, j) for i in usable(left.kinds) for j, kind in enumerate(right.kinds) if left.kinds[i] == kind]
    if not pairs:
        return left
    i, j = draw(st.sampled_from(pairs))
    kinds = left.kinds + right.kinds
    condition = oracle.compared("=", oracle.column(kinds, i), oracle.column(kinds, len(left.kinds) + j))
    return wider.Lateral(left, right, condition, draw(st.booleans()), draw(st.booleans()))


@st.composite
def _frames(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    child = _plain(draw(_queries(tables, depth)))
    places = st.integers(0, len(child.kinds) - 1)
    order = draw(places)
    known = [f for f in wider.Framed.FRAMES if not f.startswith("range") or child.kinds[order] == "int"]
    partition = draw(st.sampled_from((None, draw(places), draw(places))))
    return wider.Framed(child, partition, order, draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from(known)))


@st.composite
def _twice(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    one = draw(_queries(tables, depth))
    kind = draw(st.sampled_from(("INNER", "LEFT", "FULL", "LEFT SEMI", "LEFT ANTI")))
    return wider.Twice(one, deepcopy(one), kind, draw(_between(one.kinds, one.kinds)))


@st.composite
def _appended(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    first = _plain(draw(_queries(tables, min(depth, 2))))
    if draw(st.booleans()):  # alike, but for a constant
        at = draw(st.integers(0, len(first.kinds) - 1))
        values = draw(st.lists(st.sampled_from(oracle.SOME[first.kinds[at]]), min_size=2, max_size=6))
        parts: list[Query] = []
        op = draw(st.sampled_from(("=", "<=>", "<>")))
        for value in values:
            one = deepcopy(first)
            test = oracle.compared(op, oracle.column(one.kinds, at), oracle.constant(one.kinds[at], value))
            parts.append(oracle.Filter(one, test))
        if draw(st.booleans()):
            parts = [oracle.Aggregate(part, (at,), (oracle.Call("count", 0),)) for part in parts]
    else:
        others = draw(st.lists(_queries(tables, min(depth, 1)), min_size=1, max_size=3))
        parts = [first, *[draw(_with_kinds(other, first.kinds)) for other in others]]
    formats = ["parquet", "parquet", "orc", "json"]
    if any(kind in oracle.COLLATED for kind in parts[0].kinds):
        formats = ["parquet"]
    partitioned = parts[0].kinds[0] == "int" and len(parts[0].kinds) > 1 and draw(st.booleans())
    return wider.Appended(
        tuple(parts), draw(st.sampled_from(formats)), draw(st.booleans()), partitioned, draw(st.booleans())
    )


_MAKERS = (
    *(_filters, _projects, _joins, _joins, _subqueries, _aggregates, _aggregates),
    *(_set_operations, _windows, _others, _others),
    *(_grouping_sets, _pivots, _tests, _tests, _laterals, _frames, _frames, _twice, _appended),
)


def rows_of(case: Case) -> int | None:
    """How many rows the query gives; None if which rows is not to be told."""
    try:
        return len(Oracle({name: list(table.rows) for name, table in case.tables.items()}).rows(case.query))
    except Tied:
        return None
