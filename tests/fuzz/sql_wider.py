"""More operators for generated SQL, each with its text and its rows side by side: grouping sets, pivot, tests that are
values, lateral joins, frames of all kinds, one query used twice, tables that were written more than once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fuzz import sql_oracle as oracle
from fuzz.sql_oracle import Call, Expression, Join, Oracle, Query, Rows, Tied, Value, Values, key, keys_of, merged


def _as(columns: list[str]) -> str:
    return ", ".join(f"{text} AS c{i}" for i, text in enumerate(columns))


def _names(query: Query, prefix: str = "") -> tuple[str, ...]:
    return tuple(f"{prefix}c{i}" for i in range(len(query.kinds)))


@dataclass(eq=False)
class GroupingSets(Query):
    """`sets`: of places in `keys`. A key that is not in a set is NULL there; over no rows there is no group at all."""

    child: Query
    keys: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]
    how: str  # ROLLUP, CUBE, SETS
    calls: tuple[Call, ...]

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        below = self.child.kinds
        return (*(below[k] for k in self.keys), *(call.kind(below) for call in self.calls))

    def rows(self, judge: Oracle) -> Rows:
        below, result = self.child.kinds, []
        rows = judge.rows(self.child)
        for chosen in self.sets:
            groups: dict[Any, Rows] = {}
            for row in rows:
                groups.setdefault(tuple(key(below[self.keys[i]], row[0][self.keys[i]]) for i in chosen), []).append(row)
            for group in groups.values():
                shown = [group[0][0][k] if i in chosen else None for i, k in enumerate(self.keys)]
                called = [oracle.called(call, below, group) for call in self.calls]
                result.append(((*shown, *called), merged(group)))
        return result

    def text(self) -> str:
        keys = [f"c{k}" for k in self.keys]
        by = f"{self.how}({', '.join(keys)})"
        if self.how == "SETS":
            by = f"GROUPING SETS ({', '.join('(' + ', '.join(keys[i] for i in s) + ')' for s in self.sets)})"
        calls = [oracle.call_text(call, _names(self.child)) for call in self.calls]
        return f"SELECT {_as([*keys, *calls])} FROM ({oracle.sql(self.child)}) GROUP BY {by}"


@dataclass(eq=False)
class Pivot(Query):
    """The greatest value of a column, beside each other for these values of another; grouped by all other columns."""

    child: Query
    at: int
    of: int
    values: tuple[Value, ...]

    @property
    def others(self) -> list[int]:
        return [i for i in range(len(self.child.kinds)) if i not in (self.at, self.of)]

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        below = self.child.kinds
        return (*(below[i] for i in self.others), *[below[self.of]] * len(self.values))

    def rows(self, judge: Oracle) -> Rows:
        below = self.child.kinds
        groups: dict[Any, Rows] = {} if self.others else {(): []}
        for row in judge.rows(self.child):
            groups.setdefault(tuple(key(below[i], row[0][i]) for i in self.others), []).append(row)
        result: Rows = []
        for group in groups.values():
            cells = []
            for value in self.values:
                own = [r for r in group if key(below[self.at], r[0][self.at]) == key(below[self.at], value)]
                cells.append(oracle.called(Call("max", self.of), below, own))
            result.append(((*(group[0][0][i] for i in self.others), *cells), merged(group)))
        return result

    def text(self) -> str:
        kind = self.child.kinds[self.at]
        values = ", ".join(f"{oracle.literal(kind, v)} AS p{i}" for i, v in enumerate(self.values))
        shown = [*(f"c{i}" for i in self.others), *(f"p{i}" for i in range(len(self.values)))]
        below = oracle.sql(self.child)
        return f"SELECT {_as(shown)} FROM ({below}) PIVOT (max(c{self.of}) FOR c{self.at} IN ({values}))"


@dataclass(eq=False)
class Tested(Query):
    """EXISTS or IN where its truth is a value: as a column, or beside another condition. The row and its matches, also
    where NOT stands before it; of NOT IN a match is also what may be equal."""

    left: Query
    right: Query
    condition: Expression | None  # of EXISTS, over columns of both
    at: int  # of IN
    negated: bool
    other: Expression | None  # OR this; None: one more column, CASE WHEN the test THEN 1 ELSE 0 END

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.left.kinds if self.other is not None else (*self.left.kinds, "int")

    def rows(self, judge: Oracle) -> Rows:
        right, result = judge.rows(self.right), []
        for row in judge.rows(self.left):
            told = [self._met(row[0], b[0]) for b in right]
            wide = self.negated and self.condition is None
            met = [b for b, one in zip(right, told, strict=True) if one is True or (wide and one is None)]
            truth: Value = True in told
            if not truth and None in told and self.condition is None:
                truth = None
            if self.negated and truth is not None:
                truth = not truth
            if self.other is None:
                result.append(((*row[0], 1 if truth is True else 0), merged([row, *met])))
            elif truth is True or self.other.value(row[0]) is True:
                result.append((row[0], merged([row, *met])))
        return result

    def _met(self, a: Values, b: Values) -> Value:
        if self.condition is not None:
            return self.condition.value(a + b)
        if a[self.at] is None or b[0] is None:
            return None
        kind = self.left.kinds[self.at]
        return key(kind, a[self.at]) == key(kind, b[0])

    def text(self) -> str:
        if self.condition is None:
            test = f"l.c{self.at} {'NOT ' * self.negated}IN (SELECT c0 FROM ({oracle.sql(self.right)}))"
        else:
            on = self.condition.text(_names(self.left, "l.") + _names(self.right, "r."))
            test = f"{'NOT ' * self.negated}EXISTS (SELECT * FROM ({oracle.sql(self.right)}) r WHERE {on})"
        below = f"({oracle.sql(self.left)}) l"
        if self.other is not None:
            return f"SELECT * FROM {below} WHERE {test} OR {self.other.text(_names(self.left, 'l.'))}"
        told = f"CAST(CASE WHEN {test} THEN 1 ELSE 0 END AS BIGINT)"
        return f"SELECT {_as([*_names(self.left, 'l.'), told])} FROM {below}"


@dataclass(eq=False)
class Lateral(Query):
    """A join whose right side is computed for each row: those of its rows that meet the condition, or the first."""

    left: Query
    right: Query
    condition: Expression
    first: bool
    outer: bool

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.left.kinds + self.right.kinds

    def rows(self, judge: Oracle) -> Rows:
        right, result = judge.rows(self.right), []
        if self.first and len({keys_of(self.right.kinds, b[0]) for b in right}) < len(right):
            raise Tied
        for a in judge.rows(self.left):
            met = [b for b in right if self.condition.value(a[0] + b[0]) is True]
            if self.first:
                met = sorted(met, key=lambda b: keys_of(self.right.kinds, b[0]))[:1]
            result += [(a[0] + b[0], a[1] | b[1]) for b in met]
            if not met and self.outer:
                result.append((a[0] + (None,) * len(self.right.kinds), a[1]))
        return result

    def text(self) -> str:
        names = _names(self.left, "l.") + _names(self.right, "r.")
        inner = f"SELECT * FROM ({oracle.sql(self.right)}) r WHERE {self.condition.text(names)}"
        if self.first:
            inner += f" ORDER BY {', '.join(_names(self.right, 'r.'))} LIMIT 1"
        shown = _as([*_names(self.left, "l."), *_names(self.right, "x.")])
        join = "LEFT JOIN" if self.outer else "JOIN"
        return f"SELECT {shown} FROM ({oracle.sql(self.left)}) l {join} LATERAL ({inner}) x"


@dataclass(eq=False)
class Framed(Query):
    """One more column: a function over a frame, in the order of one column, which may be backwards, or of all."""

    child: Query
    partition: int | None
    order: int
    descending: bool
    nulls_last: bool
    frame: str

    FRAMES = ("near", "behind", "after", "lead", "number", "dense", "share", "range", "range after", "tail")

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.child.kinds, "int")

    @property
    def by_position(self) -> bool:
        return self.frame in ("near", "behind", "after", "lead", "number")

    def _place(self, row: Values) -> Any:
        """Where a row stands in the order of the one column."""
        found = key(self.child.kinds[self.order], row[self.order])
        if found == (0,):
            return (self.nulls_last,)
        return (not self.nulls_last, _Reversed(found) if self.descending else found)

    def rows(self, judge: Oracle) -> Rows:
        rows, kinds, result = judge.rows(self.child), self.child.kinds, []
        for row in rows:
            same = rows
            if self.partition is not None:
                at, kind = self.partition, kinds[self.partition]
                same = [r for r in rows if key(kind, r[0][at]) == key(kind, row[0][at])]
            if self.by_position:
                same = sorted(same, key=lambda r: (self._place(r[0]), keys_of(kinds, r[0])))
                told = [keys_of(kinds, r[0]) for r in same]
                if len(set(told)) < len(told):
                    raise Tied
                at = told.index(keys_of(kinds, row[0]))
                frame, number = self._near(same, at)
            else:
                frame, number = self._by_value(same, row[0])
            result.append(((*row[0], number), merged([row, *frame])))
        return result

    def _near(self, same: Rows, at: int) -> tuple[Rows, int]:
        if self.frame == "near":
            frame = same[max(0, at - 1) : at + 2]
        elif self.frame == "behind":
            frame = same[max(0, at - 3) : max(0, at - 1)]
        elif self.frame == "after":
            frame = same[at + 1 : at + 3]
        elif self.frame == "lead":
            frame = same[at + 2 : at + 3]
        else:
            return same[:at], at + 1
        return frame, len(frame)

    def _by_value(self, same: Rows, row: Values) -> tuple[Rows, int]:
        here = self._place(row)
        if self.frame == "dense":
            before = [r for r in same if self._place(r[0]) < here]
            return before, len({self._place(r[0]) for r in before}) + 1
        if self.frame == "share":
            upto = [r for r in same if self._place(r[0]) <= here]
            return same, 2 * len(upto) // len(same)
        if self.frame == "tail":
            frame = [r for r in same if self._place(r[0]) >= here]
            return frame, len(frame)
        mine, way = row[self.order], -1 if self.descending else 1
        if mine is None:  # a distance from nothing is nothing: the frame is the others that have no value
            frame = [r for r in same if r[0][self.order] is None]
        else:
            low, high = (-1, 1) if self.frame == "range" else (1, 2)
            known = [r for r in same if r[0][self.order] is not None]
            frame = [r for r in known if low <= way * (r[0][self.order] - mine) <= high]
        return frame, len(frame)

    def text(self) -> str:
        names = _names(self.child)
        way, nulls = "DESC" if self.descending else "ASC", "LAST" if self.nulls_last else "FIRST"
        order = f"c{self.order} {way} NULLS {nulls}"
        if self.by_position:
            order = ", ".join([order, *names])
        frames = {
            "near": "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            "behind": "ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
            "after": "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
            "range": "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            "range after": "RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
            "tail": "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        }
        functions = {
            "lead": "lead(1, 2, 0)",
            "number": "row_number()",
            "dense": "dense_rank()",
            "share": "floor(2 * cume_dist())",
        }
        by = "" if self.partition is None else f"PARTITION BY c{self.partition} "
        over = f"({by}ORDER BY {order} {frames.get(self.frame, '')})"
        call = functions.get(self.frame, "count(*)")
        call = f"floor(2 * cume_dist() OVER {over})" if self.frame == "share" else f"{call} OVER {over}"
        return f"SELECT {_as([*names, f'CAST({call} AS BIGINT)'])} FROM ({oracle.sql(self.child)})"


@dataclass(frozen=True)
class _Reversed:
    of: Any

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.of < self.of)

    def __le__(self, other: _Reversed) -> bool:
        return bool(other.of <= self.of)

    def __gt__(self, other: _Reversed) -> bool:
        return bool(other.of > self.of)

    def __ge__(self, other: _Reversed) -> bool:
        return bool(other.of >= self.of)


@dataclass(eq=False)
class Twice(Query):
    """A join of a query with itself, which is named once: `right` is a copy of `left`."""

    left: Query
    right: Query
    kind: str
    condition: Expression

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._join.kinds

    @property
    def _join(self) -> Join:
        return Join(self.left, self.right, self.kind, self.condition)

    def rows(self, judge: Oracle) -> Rows:
        return judge.rows(self._join)

    def text(self) -> str:
        names = _names(self.left, "l.") + _names(self.right, "r.")
        shown = names[: len(self.kinds)]
        on = self.condition.text(names)
        once = f"WITH twice AS ({oracle.sql(self.left)})"
        return f"{once} SELECT {_as(list(shown))} FROM twice l {self.kind} JOIN twice r ON {on}"


@dataclass(eq=False)
class Named(Query):
    """By the name of a temporary view, which may be cached."""

    child: Query
    cached: bool
    name: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.child.kinds

    def rows(self, judge: Oracle) -> Rows:
        return judge.rows(self.child)

    def text(self) -> str:
        return f"SELECT * FROM {self.name}"


@dataclass(eq=False)
class Appended(Query):
    """A table that several queries were written into, one after the other, each under capture. `before`: what stood
    there before, and was written over."""

    parts: tuple[Query, ...]
    format: str
    by_name: bool
    partitioned: bool
    overwrites: bool
    name: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.parts[0].kinds

    def rows(self, judge: Oracle) -> Rows:
        return [row for part in self.parts for row in judge.rows(part)]

    def text(self) -> str:
        return f"SELECT {', '.join(_names(self))} FROM {self.name}"
