"""Generated SQL over typed columns: each query as text, and by a naive interpreter that carries which rows made a row.

Like tests/sql/oracle.py it is kept too simple to be wrong: nested loops over Python lists, one branch for each
operator. It knows more: strings under a collation, NaN and -0.0, decimals, dates, nested values, three-valued
conditions, subqueries, frames, and tables that were written on the way. Values are compared by `key`, under which -0.0
is 0.0, NaN is NaN and `A` is `a` where the collation says so: which of equal values a group shows is Spark's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import reduce
from itertools import count
from math import isnan
from typing import Any, TypeAlias

Value: TypeAlias = Any
Values: TypeAlias = tuple[Value, ...]
Ids: TypeAlias = frozenset[tuple[int, int]]  # (reading, row number)
Rows: TypeAlias = list[tuple[Values, Ids]]
Keep: TypeAlias = Callable[[int, int], bool]  # whether a reading gives this row

TYPES = {
    "int": "BIGINT",
    "double": "DOUBLE",
    "string": "STRING",
    "lcase": "STRING COLLATE UTF8_LCASE",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "ntz": "TIMESTAMP_NTZ",
    "decimal": "DECIMAL(9,2)",
    "bool": "BOOLEAN",
    "binary": "BINARY",
    "array": "ARRAY<BIGINT>",
    "struct": "STRUCT<a: BIGINT, b: STRING>",
    "doubles": "ARRAY<DOUBLE>",
    "deep": "ARRAY<STRUCT<a: DOUBLE, b: STRING COLLATE UTF8_LCASE>>",
}
COLLATED = ("lcase", "deep")
KINDS = tuple(TYPES)
# A value that may come out otherwise the next time: it is shown, and nothing goes by it.
SHOWN = "shown"


class Tied(Exception):
    """Rows tie where their order decides: which of them Spark took cannot be known, and whence must not guess."""


# --- values


def key(kind: str, value: Value) -> Any:
    """Equal for values that Spark groups together, and in Spark's order; NULL comes first."""
    if kind == SHOWN:
        return ()
    if value is None:
        return (0,)
    if kind == "double":
        return (1, 1, 0.0) if isnan(value) else (1, 0, value + 0.0)
    if kind == "lcase":
        return (1, value.lower())
    if kind == "binary":
        return (1, bytes(value))
    if kind == "array":
        return (1, tuple(key("int", v) for v in value))
    if kind == "struct":
        return (1, (key("int", value[0]), key("string", value[1])))
    if kind == "doubles":
        return (1, tuple(key("double", v) for v in value))
    if kind == "deep":
        return (1, tuple((1, (key("double", v[0]), key("lcase", v[1]))) for v in value))
    return (1, value)


def literal(kind: str, value: Value) -> str:
    if value is None:
        return f"CAST(NULL AS {TYPES[kind]})"
    if kind in ("string", "lcase"):
        text = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return f"CAST({text} AS {TYPES[kind]})"
    if kind == "double":
        return f"CAST('{value!r}' AS DOUBLE)"
    if kind == "binary":
        return f"X'{bytes(value).hex()}'"
    if kind == "date":
        return f"DATE'{value.isoformat()}'"
    if kind == "timestamp":
        return f"TIMESTAMP'{value.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S.%f}Z'"
    if kind == "ntz":
        return f"TIMESTAMP_NTZ'{value:%Y-%m-%d %H:%M:%S.%f}'"
    if kind == "array":
        return f"CAST(array({', '.join(literal('int', v) for v in value)}) AS ARRAY<BIGINT>)"
    if kind == "struct":
        return f"named_struct('a', {literal('int', value[0])}, 'b', {literal('string', value[1])})"
    if kind == "doubles":
        return f"CAST(array({', '.join(literal('double', v) for v in value)}) AS {TYPES[kind]})"
    if kind == "deep":
        cells = [f"named_struct('a', {literal('double', v[0])}, 'b', {literal('lcase', v[1])})" for v in value]
        return f"CAST(array({', '.join(cells)}) AS {TYPES[kind]})"
    return f"CAST({value} AS {TYPES[kind]})"


SOME: Mapping[str, tuple[Value, ...]] = {
    "int": (None, -1, 0, 1, 2, 3),
    "double": (None, float("nan"), -0.0, 0.0, 1.5, float("inf")),
    "string": (None, "", "a", "A", "b", "ä", " a"),
    "lcase": (None, "", "a", "A", "b", "B"),
    "date": (None, date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29)),
    "timestamp": (
        None,
        datetime(2024, 3, 31, 1, 30),
        datetime(2024, 3, 31, 2, 30),
        datetime(2024, 3, 31, 2, 30, 0, 1000),
    ),
    "ntz": (None, datetime(2024, 3, 31, 2, 30), datetime(2024, 3, 31, 2, 30, 0, 1000)),
    "decimal": (None, Decimal("0.00"), Decimal("1.50"), Decimal("-1.50")),
    "bool": (None, True, False),
    "binary": (None, b"", b"\x00", b"\xff", b"a"),
    "array": (None, (), (1,), (None,), (1, None), (None, 1)),
    "struct": (None, (None, None), (1, None), (None, "a"), (1, "a")),
    "doubles": (None, (), (0.0,), (-0.0,), (float("nan"),), (None, 1.5)),
    "deep": (None, (), ((0.0, "a"),), ((-0.0, "A"),), ((float("nan"), None),), ((1.5, "b"), (1.5, "B"))),
}


# --- expressions; a condition is one of the kind bool


@dataclass(frozen=True)
class Expression:
    """`kind` is its type, `text` gives it over columns with these names, `value` of a row."""

    kind: str
    text: Callable[[tuple[str, ...]], str]
    value: Callable[[Values], Value]
    shown: str

    def __repr__(self) -> str:
        return self.shown


def column(kinds: tuple[str, ...], at: int) -> Expression:
    return Expression(kinds[at], lambda names: names[at], lambda row: row[at], f"#{at}")


def constant(kind: str, value: Value) -> Expression:
    return Expression(kind, lambda _: literal(kind, value), lambda _: value, literal(kind, value))


def compared(op: str, a: Expression, b: Expression) -> Expression:
    def value(row: Values) -> Value:
        one, other = a.value(row), b.value(row)
        x, y = key(a.kind, one), key(b.kind, other)
        if op == "<=>":
            return x == y
        if one is None or other is None:
            return None
        return {"=": x == y, "<": x < y, ">=": x >= y, "<>": x != y}[op]

    return Expression("bool", lambda n: f"({a.text(n)} {op} {b.text(n)})", value, f"({a} {op} {b})")


def is_null(a: Expression) -> Expression:
    return Expression("bool", lambda n: f"({a.text(n)} IS NULL)", lambda row: a.value(row) is None, f"({a} IS NULL)")


def both(op: str, a: Expression, b: Expression) -> Expression:
    """AND and OR of three values."""

    def value(row: Values) -> Value:
        sides = [a.value(row), b.value(row)]
        decides = op == "OR"
        if decides in sides:
            return decides
        return None if None in sides else not decides

    return Expression("bool", lambda n: f"({a.text(n)} {op} {b.text(n)})", value, f"({a} {op} {b})")


def negated(a: Expression) -> Expression:
    def value(row: Values) -> Value:
        found = a.value(row)
        return None if found is None else not found

    return Expression("bool", lambda n: f"(NOT {a.text(n)})", value, f"(NOT {a})")


def added(a: Expression, number: int) -> Expression:
    def value(row: Values) -> Value:
        found = a.value(row)
        return None if found is None else found + number

    return Expression("int", lambda n: f"({a.text(n)} + {number})", value, f"({a} + {number})")


def in_python(a: Expression) -> Expression:
    """By a UDF that the session has under this name."""

    def value(row: Values) -> Value:
        found = a.value(row)
        return None if found is None else found * 2 + 1

    return Expression("int", lambda n: f"fuzz_odd({a.text(n)})", value, f"fuzz_odd({a})")


def coalesced(a: Expression, b: Expression) -> Expression:
    def value(row: Values) -> Value:
        found = a.value(row)
        return b.value(row) if found is None else found

    return Expression(a.kind, lambda n: f"coalesce({a.text(n)}, {b.text(n)})", value, f"coalesce({a}, {b})")


def either(condition: Expression, a: Expression, b: Expression) -> Expression:
    return Expression(
        a.kind,
        lambda n: f"CASE WHEN {condition.text(n)} THEN {a.text(n)} ELSE {b.text(n)} END",
        lambda row: a.value(row) if condition.value(row) is True else b.value(row),
        f"CASE WHEN {condition} THEN {a} ELSE {b} END",
    )


def paired(a: Expression, b: Expression) -> Expression:
    return Expression(
        "array",
        lambda n: f"array({a.text(n)}, {b.text(n)})",
        lambda row: (a.value(row), b.value(row)),
        f"array({a}, {b})",
    )


def first_of(a: Expression) -> Expression:
    """An array's first element, or a struct's first field."""
    text = "{}.a" if a.kind == "struct" else "get({}, 0)"

    def value(row: Values) -> Value:
        found = a.value(row)
        return found[0] if found else None

    kind = "double" if a.kind == "doubles" else "int"
    return Expression(kind, lambda n: text.format(a.text(n)), value, text.format(a))


# --- queries


class Query:
    kinds: tuple[str, ...]


@dataclass(eq=False)
class Scan(Query):
    table: str
    kinds: tuple[str, ...]
    columns: tuple[int, ...]  # of the table
    number: int = -1

    def __repr__(self) -> str:
        return f"Scan({self.table}, {self.columns})"


@dataclass(eq=False)
class Filter(Query):
    child: Query
    condition: Expression

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.child.kinds


@dataclass(eq=False)
class Project(Query):
    child: Query
    columns: tuple[Expression, ...]

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(c.kind for c in self.columns)


@dataclass(eq=False)
class Join(Query):
    left: Query
    right: Query
    kind: str  # INNER, LEFT, RIGHT, FULL, CROSS, LEFT SEMI, LEFT ANTI
    condition: Expression | None

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.left.kinds if self.kind in ("LEFT SEMI", "LEFT ANTI") else self.left.kinds + self.right.kinds


@dataclass(eq=False)
class InSubquery(Query):
    """Rows whose column is, or is not, in the first column of another query."""

    left: Query
    right: Query
    at: int
    negated: bool

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.left.kinds


@dataclass(eq=False)
class Exists(Query):
    """Rows for which the other query has a row that meets the condition (over columns of both)."""

    left: Query
    right: Query
    condition: Expression
    negated: bool

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.left.kinds


@dataclass(eq=False)
class Scalar(Query):
    """Each row with what a subquery counts beside it: of all its rows, or of those that equal a column."""

    left: Query
    right: Query
    columns: tuple[int, int] | None
    call: Call | None = None  # count(*)

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.left.kinds, "int" if self.call is None else self.call.kind(self.right.kinds))


WAVERS = ("first", "last", "any_value", "collect_list", "max_by")


@dataclass(frozen=True)
class Call:
    """`max_by`: by the first column. `any`: any value, of groups that have one only."""

    function: str  # count, sum, min, max, count distinct, any, pandas_sum, or one of WAVERS
    at: int
    where: Expression | None = None  # FILTER

    def kind(self, kinds: tuple[str, ...]) -> str:
        if self.function in WAVERS:
            return SHOWN
        return kinds[self.at] if self.function in ("min", "max", "any") else "int"


@dataclass(eq=False)
class Aggregate(Query):
    child: Query
    keys: tuple[int, ...]
    calls: tuple[Call, ...]
    having: int | None = None  # keep groups with more rows than this

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        below = self.child.kinds
        return (*(below[k] for k in self.keys), *(call.kind(below) for call in self.calls))


@dataclass(eq=False)
class Distinct(Query):
    child: Query

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.child.kinds


@dataclass(eq=False)
class SetOperation(Query):
    left: Query
    right: Query
    kind: str  # UNION ALL, UNION, INTERSECT, EXCEPT, INTERSECT ALL, EXCEPT ALL

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.left.kinds


@dataclass(eq=False)
class Top(Query):
    """ORDER BY all columns LIMIT n OFFSET m."""

    child: Query
    limit: int
    offset: int
    descending: bool

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.child.kinds


@dataclass(eq=False)
class Windowed(Query):
    """One more column: a count over the partition, over the rows up to this one's peers, or over this row and the one
    before it in the order of all columns; the row's rank; or whether another one comes before it in that order."""

    child: Query
    partition: int
    order: int
    frame: str  # all, peers, two, rank, lag

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.child.kinds, "int")


@dataclass(eq=False)
class Exploded(Query):
    """One more column: an element of an array; OUTER keeps rows whose array is empty or missing."""

    child: Query
    at: int
    outer: bool

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.child.kinds, "int")


@dataclass(eq=False)
class Written(Query):
    """Written under capture, and read again."""

    child: Query
    name: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.child.kinds


def inputs(query: Query) -> list[Query]:
    found = [getattr(query, name) for name in ("child", "left", "right") if hasattr(query, name)]
    return [*found, *getattr(query, "parts", ())]


def flat(query: Query) -> Iterator[Query]:
    yield query
    for below in inputs(query):
        yield from flat(below)


def shown(query: Query, depth: int = 0) -> str:
    own = {k: v for k, v in vars(query).items() if k not in ("child", "left", "right", "parts", "number")}
    line = f"{'  ' * depth}{type(query).__name__} {own}"
    return "\n".join([line, *[shown(below, depth + 1) for below in inputs(query)]])


# --- the naive interpreter


@dataclass(eq=False)
class Oracle:
    """`witnessless`: readings whose rows decide but are no witnesses, such as the right side of an anti join."""

    tables: Mapping[str, list[Values]]
    keep: Keep = field(default=lambda _reading, _row: True)
    # Whether rows tie at a cut, so that whence takes in all that do and says so.
    widened: bool = False

    def rows(self, query: Query) -> Rows:
        own: Callable[[Oracle], Rows] | None = getattr(query, "rows", None)  # one of sql_wider.py
        found: Rows = getattr(self, "_" + type(query).__name__.lower())(query) if own is None else own(self)
        return found

    def _scan(self, q: Scan) -> Rows:
        return [
            (tuple(row[c] for c in q.columns), frozenset([(q.number, i)]))
            for i, row in enumerate(self.tables[q.table])
            if self.keep(q.number, i)
        ]

    def _filter(self, q: Filter) -> Rows:
        return [r for r in self.rows(q.child) if q.condition.value(r[0]) is True]

    def _project(self, q: Project) -> Rows:
        return [(tuple(c.value(v) for c in q.columns), ids) for v, ids in self.rows(q.child)]

    def _join(self, q: Join) -> Rows:
        left, right = self.rows(q.left), self.rows(q.right)

        def met(a: Values, b: Values) -> bool:
            return q.condition is None or q.condition.value(a + b) is True

        partners = [[b for b in right if met(a[0], b[0])] for a in left]
        if q.kind == "LEFT SEMI":
            return [(a[0], merged([a, *found])) for a, found in zip(left, partners, strict=True) if found]
        if q.kind == "LEFT ANTI":
            return [a for a, found in zip(left, partners, strict=True) if not found]
        result = [(a[0] + b[0], a[1] | b[1]) for a, found in zip(left, partners, strict=True) for b in found]
        if q.kind in ("LEFT", "FULL"):
            missing = (None,) * len(q.right.kinds)
            result += [(a[0] + missing, a[1]) for a, found in zip(left, partners, strict=True) if not found]
        if q.kind in ("RIGHT", "FULL"):
            missing = (None,) * len(q.left.kinds)
            result += [(missing + b[0], b[1]) for b in right if not any(met(a[0], b[0]) for a in left)]
        return result

    def _insubquery(self, q: InSubquery) -> Rows:
        left, right = self.rows(q.left), self.rows(q.right)
        kind = q.left.kinds[q.at]
        result = []
        for a in left:
            equal = [b for b in right if a[0][q.at] is not None and b[0][0] is not None]
            equal = [b for b in equal if key(kind, a[0][q.at]) == key(kind, b[0][0])]
            if not q.negated and equal:
                result.append((a[0], merged([a, *equal])))
            if q.negated:
                unknown = bool(right) and (a[0][q.at] is None or any(b[0][0] is None for b in right))
                if not equal and not unknown:
                    result.append(a)
        return result

    def _exists(self, q: Exists) -> Rows:
        kind = "LEFT ANTI" if q.negated else "LEFT SEMI"
        return self._join(Join(q.left, q.right, kind, q.condition))

    def _scalar(self, q: Scalar) -> Rows:
        right = self.rows(q.right)
        result = []
        for a in self.rows(q.left):
            found = right
            if q.columns is not None:
                mine, other = q.columns
                kind = q.right.kinds[other]
                found = [b for b in right if a[0][mine] is not None and b[0][other] is not None]
                found = [b for b in found if key(kind, a[0][mine]) == key(kind, b[0][other])]
            value = len(found) if q.call is None else called(q.call, q.right.kinds, found)
            result.append(((*a[0], value), merged([a, *found])))
        return result

    def _aggregate(self, q: Aggregate) -> Rows:
        below = q.child.kinds
        # Of nothing Spark's own functions give a row, and pandas' none.
        of_nothing = not q.keys and all(call.function != "pandas_sum" for call in q.calls)
        groups: dict[Any, Rows] = {(): []} if of_nothing else {}
        for row in self.rows(q.child):
            groups.setdefault(tuple(key(below[k], row[0][k]) for k in q.keys), []).append(row)
        result: Rows = []
        for group in groups.values():
            if q.having is not None and len(group) <= q.having:
                continue
            keys = tuple(group[0][0][k] for k in q.keys)
            result.append(((*keys, *(called(call, below, group) for call in q.calls)), merged(group)))
        return result

    def _distinct(self, q: Distinct) -> Rows:
        return [(group[0][0], merged(group)) for group in self._equal(q.child, self.rows(q.child)).values()]

    def _equal(self, q: Query, rows: Rows) -> dict[Any, Rows]:
        groups: dict[Any, Rows] = {}
        for row in rows:
            groups.setdefault(keys_of(q.kinds, row[0]), []).append(row)
        return groups

    def _setoperation(self, q: SetOperation) -> Rows:
        left, right = self.rows(q.left), self.rows(q.right)
        if q.kind == "UNION ALL":
            return left + right
        if q.kind == "UNION":
            return [(group[0][0], merged(group)) for group in self._equal(q, left + right).values()]
        mine, others = self._equal(q, left), self._equal(q, right)
        if q.kind == "INTERSECT":
            return [(g[0][0], merged(g) | merged(others[k])) for k, g in mine.items() if k in others]
        if q.kind == "EXCEPT":
            return [(g[0][0], merged(g)) for k, g in mine.items() if k not in others]
        # Equal rows pair off one to one; which with which is whence's own choice, so only where there is none to make.
        result: Rows = []
        for k, group in mine.items():
            other = others.get(k, [])
            if other and (len(group) > 1 or len(other) > 1):
                raise Tied
            if q.kind == "INTERSECT ALL" and other:
                result.append((group[0][0], group[0][1] | other[0][1]))
            if q.kind == "EXCEPT ALL" and not other:
                result += group
        return result

    def _top(self, q: Top) -> Rows:
        rows = sorted(self.rows(q.child), key=lambda r: keys_of(q.kinds, r[0]), reverse=q.descending)
        for cut in (q.offset, q.offset + q.limit):
            if 0 < cut < len(rows) and q.limit:
                self.widened |= keys_of(q.kinds, rows[cut - 1][0]) == keys_of(q.kinds, rows[cut][0])
        return rows[q.offset : q.offset + q.limit]

    def _windowed(self, q: Windowed) -> Rows:
        rows = self.rows(q.child)
        kinds = q.child.kinds
        result = []
        for place, row in enumerate(rows):
            frame = [r for r in rows if key(kinds[q.partition], r[0][q.partition]) == self._at(q, row, q.partition)]
            if q.frame == "peers":
                frame = [r for r in frame if self._at(q, r, q.order) <= self._at(q, row, q.order)]
            if q.frame == "rank":
                frame = [r for r in frame if self._at(q, r, q.order) < self._at(q, row, q.order)]
            if q.frame in ("two", "lag"):
                mine = keys_of(kinds, row[0])
                if any(keys_of(kinds, r[0]) == mine for i, r in enumerate(rows) if i != place):
                    raise Tied
                before = [r for r in frame if keys_of(kinds, r[0]) < mine]
                frame = [row, *sorted(before, key=lambda r: keys_of(kinds, r[0]))[-1:]]
            number = len(frame) + {"rank": 1, "lag": -1}.get(q.frame, 0)
            result.append(((*row[0], number), row[1] | merged(frame)))
        return result

    def _at(self, q: Windowed, row: tuple[Values, Ids], at: int) -> Any:
        return key(q.child.kinds[at], row[0][at])

    def _exploded(self, q: Exploded) -> Rows:
        result = []
        for values, ids in self.rows(q.child):
            elements = values[q.at] or ()
            result += [((*values, element), ids) for element in elements]
            if not elements and q.outer:
                result.append(((*values, None), ids))
        return result

    def _written(self, q: Written) -> Rows:
        return self.rows(q.child)


def merged(rows: Rows) -> Ids:
    return reduce(frozenset.union, (ids for _, ids in rows), frozenset())


def keys_of(kinds: tuple[str, ...], row: Values) -> tuple[Any, ...]:
    return tuple(key(kind, value) for kind, value in zip(kinds, row, strict=True))


def called(call: Call, kinds: tuple[str, ...], group: Rows) -> Value:
    kind, where = kinds[call.at], call.where
    entering = [row for row, _ in group if where is None or where.value(row) is True]
    values = [row[call.at] for row in entering if row[call.at] is not None]
    if call.function in WAVERS:
        return None
    if call.function == "any":
        if len({repr(row[call.at]) for row in entering}) > 1:
            raise Tied
        return entering[0][call.at] if entering else None
    if call.function == "count":
        return len(values)
    if call.function == "count distinct":
        return len({key(kind, v) for v in values})
    if not values:
        return None
    if call.function in ("sum", "pandas_sum"):
        return sum(values)
    best = min if call.function == "min" else max
    return best(values, key=lambda v: key(kind, v))


def numbered(query: Query, counter: Iterator[int] | None = None) -> Query:
    """Number the scans as whence meets them: depth first, left to right, a subquery after the query it stands in."""
    counter = count() if counter is None else counter
    if isinstance(query, Scan):
        query.number = next(counter)
    for below in inputs(query):
        numbered(below, counter)
    return query


# --- the same as SQL


def sql(query: Query) -> str:
    """A query whose columns are c0, c1, ..."""
    own: Callable[[], str] | None = getattr(query, "text", None)  # one of sql_wider.py
    found: str = _TEXTS[type(query)](query) if own is None else own()
    return found


def _names(query: Query, prefix: str = "") -> tuple[str, ...]:
    return tuple(f"{prefix}c{i}" for i in range(len(query.kinds)))


def _as(columns: list[str]) -> str:
    return ", ".join(f"{text} AS c{i}" for i, text in enumerate(columns))


def _scan(q: Scan) -> str:
    return f"SELECT {_as([f'k{c}' for c in q.columns])} FROM {q.table}"


def _filter(q: Filter) -> str:
    return f"SELECT * FROM ({sql(q.child)}) WHERE {q.condition.text(_names(q))}"


def _project(q: Project) -> str:
    return f"SELECT {_as([c.text(_names(q.child)) for c in q.columns])} FROM ({sql(q.child)})"


def _join(q: Join) -> str:
    names = _names(q.left, "l.") + _names(q.right, "r.")
    wanted = _names(q.left, "l.") if q.kind in ("LEFT SEMI", "LEFT ANTI") else names
    on = "" if q.condition is None else f" ON {q.condition.text(names)}"
    return f"SELECT {_as(list(wanted))} FROM ({sql(q.left)}) l {q.kind} JOIN ({sql(q.right)}) r{on}"


def _in(q: InSubquery) -> str:
    test = "NOT IN" if q.negated else "IN"
    return f"SELECT * FROM ({sql(q.left)}) WHERE c{q.at} {test} (SELECT c0 FROM ({sql(q.right)}))"


def _exists(q: Exists) -> str:
    condition = q.condition.text(_names(q.left, "l.") + _names(q.right, "r."))
    test = "NOT EXISTS" if q.negated else "EXISTS"
    return f"SELECT * FROM ({sql(q.left)}) l WHERE {test} (SELECT * FROM ({sql(q.right)}) r WHERE {condition})"


def _scalar(q: Scalar) -> str:
    where = "" if q.columns is None else f" WHERE l.c{q.columns[0]} = r.c{q.columns[1]}"
    call = "count(*)" if q.call is None else call_text(q.call, _names(q.right, "r."))
    number = f"(SELECT {call} FROM ({sql(q.right)}) r{where})"
    return f"SELECT {_as([*_names(q.left, 'l.'), number])} FROM ({sql(q.left)}) l"


def call_text(call: Call, names: tuple[str, ...]) -> str:
    of = names[call.at]
    texts = {
        "count distinct": f"count(DISTINCT {of})",
        "any": f"any_value({of})",
        "max_by": f"max_by({of}, {names[0]})",
        "pandas_sum": f"fuzz_sum({of})",
    }
    where = "" if call.where is None else f" FILTER (WHERE {call.where.text(names)})"
    return texts.get(call.function, f"{call.function}({of})") + where


def _aggregate(q: Aggregate) -> str:
    keys = [f"c{k}" for k in q.keys]
    calls = [call_text(call, _names(q.child)) for call in q.calls]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = "" if q.having is None else f" HAVING count(*) > {q.having}"
    return f"SELECT {_as([*keys, *calls])} FROM ({sql(q.child)}){grouped}{having}"


def _top(q: Top) -> str:
    way = "DESC" if q.descending else "ASC"
    order = ", ".join(f"{name} {way}" for name in _names(q))
    offset = f" OFFSET {q.offset}" if q.offset else ""
    return f"SELECT * FROM ({sql(q.child)}) ORDER BY {order} LIMIT {q.limit}{offset}"


def _windowed(q: Windowed) -> str:
    names = _names(q.child)
    over = {
        "all": "",
        "peers": f" ORDER BY c{q.order}",
        "two": f" ORDER BY {', '.join(names)} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
        "rank": f" ORDER BY c{q.order}",
        "lag": f" ORDER BY {', '.join(names)}",
    }[q.frame]
    function = {"rank": "rank()", "lag": "lag(1, 1, 0)"}.get(q.frame, "count(*)")
    number = f"CAST({function} OVER (PARTITION BY c{q.partition}{over}) AS BIGINT)"
    return f"SELECT {_as([*names, number])} FROM ({sql(q.child)})"


def _exploded(q: Exploded) -> str:
    outer = "OUTER " if q.outer else ""
    names = _as([*_names(q.child, "t."), "e.x"])
    return f"SELECT {names} FROM ({sql(q.child)}) t LATERAL VIEW {outer}explode(t.c{q.at}) e AS x"


_TEXTS: dict[type[Query], Callable[[Any], str]] = {
    Scan: _scan,
    Filter: _filter,
    Project: _project,
    Join: _join,
    InSubquery: _in,
    Exists: _exists,
    Scalar: _scalar,
    Aggregate: _aggregate,
    Distinct: lambda q: f"SELECT DISTINCT * FROM ({sql(q.child)})",
    SetOperation: lambda q: f"({sql(q.left)}) {q.kind} ({sql(q.right)})",
    Top: _top,
    Windowed: _windowed,
    Exploded: _exploded,
    Written: lambda q: f"SELECT * FROM {q.name}",
}
