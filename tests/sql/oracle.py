"""A naive interpreter of queries over Python lists that carries along which table rows made each row.

It is the judge of every lineage rule, so it is kept too simple to be wrong: nested loops, no optimisation, one branch
for each operator. A row is a tuple of numbers and NULLs; its lineage a set of (reading, row number) pairs. The same
query is built as a DataFrame by `to_spark`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

Value = int | None
Values = tuple[Value, ...]
Ids = frozenset[tuple[int, int]]
Rows = list[tuple[Values, Ids]]
Tables = dict[str, list[Values]]


class Query:
    width: int


@dataclass(frozen=True, eq=False)
class Scan(Query):
    table: str
    width: int
    number: list[int] = field(default_factory=lambda: [-1])  # set when the query is numbered


@dataclass(frozen=True)
class Filter(Query):
    child: Query
    column: int
    op: str
    constant: int

    @property
    def width(self) -> int:
        return self.child.width


@dataclass(frozen=True)
class Project(Query):
    child: Query
    columns: tuple[tuple[int, int], ...]  # column, and what is added to it

    @property
    def width(self) -> int:
        return len(self.columns)


@dataclass(frozen=True)
class Join(Query):
    left: Query
    right: Query
    kind: str
    op: str
    left_column: int
    right_column: int

    @property
    def width(self) -> int:
        return self.left.width if self.kind in ("left_semi", "left_anti") else self.left.width + self.right.width


@dataclass(frozen=True)
class Aggregate(Query):
    child: Query
    keys: tuple[int, ...]
    function: str
    column: int
    having: int | None = None  # keep groups with more rows than this

    @property
    def width(self) -> int:
        return len(self.keys) + 1


@dataclass(frozen=True)
class Distinct(Query):
    child: Query

    @property
    def width(self) -> int:
        return self.child.width


@dataclass(frozen=True)
class Union(Query):
    left: Query
    right: Query

    @property
    def width(self) -> int:
        return self.left.width


@dataclass(frozen=True)
class Top(Query):
    """ORDER BY all columns LIMIT n; only equal rows tie, and ties at the cut all count."""

    child: Query
    limit: int

    @property
    def width(self) -> int:
        return self.child.width


@dataclass(frozen=True)
class SetOperation(Query):
    left: Query
    right: Query
    kind: str  # intersect, except

    @property
    def width(self) -> int:
        return self.left.width


@dataclass(frozen=True)
class Running(Query):
    """A window: sum of a column over the partition's rows, or over those up to and with this row's peers."""

    child: Query
    partition: int
    order: int | None
    column: int

    @property
    def width(self) -> int:
        return self.child.width + 1


def number(query: Query, counter: list[int] | None = None) -> Query:
    """Number the scans in the order in which whence meets them: depth first, left to right."""
    counter = [0] if counter is None else counter
    if isinstance(query, Scan):
        query.number[0] = counter[0]
        counter[0] += 1
        return query
    for name in ("child", "left", "right"):
        if hasattr(query, name):
            number(getattr(query, name), counter)
    return query


def compare(op: str, a: Value, b: Value) -> bool:
    """SQL comparison in a condition: unknown counts as false."""
    if op == "<=>":
        return a == b
    if a is None or b is None:
        return False
    return {"=": a == b, "<": a < b, ">": a > b, "<>": a != b}[op]


def merge(rows: Rows) -> Ids:
    return reduce(frozenset.union, (ids for _, ids in rows), frozenset())


def evaluate(query: Query, tables: Tables) -> Rows:
    if isinstance(query, Scan):
        return [(row, frozenset([(query.number[0], i)])) for i, row in enumerate(tables[query.table])]
    if isinstance(query, Filter):
        return [r for r in evaluate(query.child, tables) if compare(query.op, r[0][query.column], query.constant)]
    if isinstance(query, Project):
        return [
            (tuple(None if v[c] is None else v[c] + n for c, n in query.columns), ids)  # type: ignore[operator]
            for v, ids in evaluate(query.child, tables)
        ]
    if isinstance(query, Join):
        return join(query, evaluate(query.left, tables), evaluate(query.right, tables))
    if isinstance(query, Aggregate):
        return aggregate(query, evaluate(query.child, tables))
    if isinstance(query, Distinct):
        return groups(evaluate(query.child, tables))
    if isinstance(query, Union):
        return evaluate(query.left, tables) + evaluate(query.right, tables)
    if isinstance(query, Top):
        rows = sorted(evaluate(query.child, tables), key=lambda r: order(r[0]))
        if query.limit == 0:
            return []
        cut = rows[: query.limit]
        return cut + [r for r in rows[query.limit :] if r[0] == cut[-1][0]]
    if isinstance(query, SetOperation):
        left, right = groups(evaluate(query.left, tables)), groups(evaluate(query.right, tables))
        there = dict(right)
        if query.kind == "intersect":
            return [(v, ids | there[v]) for v, ids in left if v in there]
        return [(v, ids) for v, ids in left if v not in there]
    if isinstance(query, Running):
        return running(query, evaluate(query.child, tables))
    raise TypeError(query)


def order(values: Values) -> list[tuple[bool, int]]:
    return [(v is not None, v or 0) for v in values]  # NULL first, as Spark sorts


def groups(rows: Rows) -> Rows:
    return [(value, merge([r for r in rows if r[0] == value])) for value in dict.fromkeys(v for v, _ in rows)]


def join(query: Join, left: Rows, right: Rows) -> Rows:
    def met(a: Values, b: Values) -> bool:
        return query.kind == "cross" or compare(query.op, a[query.left_column], b[query.right_column])

    matches = [(a, b) for a in left for b in right if met(a[0], b[0])]
    if query.kind == "left_semi":
        return [
            (a[0], merge([a] + [b for b in right if met(a[0], b[0])])) for a in left if any(m[0] is a for m in matches)
        ]
    if query.kind == "left_anti":
        return [a for a in left if not any(m[0] is a for m in matches)]
    result = [(a[0] + b[0], a[1] | b[1]) for a, b in matches]
    if query.kind in ("left", "full"):
        result += [(a[0] + (None,) * query.right.width, a[1]) for a in left if not any(m[0] is a for m in matches)]
    if query.kind in ("right", "full"):
        result += [((None,) * query.left.width + b[0], b[1]) for b in right if not any(m[1] is b for m in matches)]
    return result


def aggregate(query: Aggregate, rows: Rows) -> Rows:
    keys = dict.fromkeys(tuple(v[k] for k in query.keys) for v, _ in rows)
    if not query.keys:
        keys = {(): None}
    result = []
    for key in keys:
        group = [r for r in rows if tuple(r[0][k] for k in query.keys) == key]
        values = [v[query.column] for v, _ in group if v[query.column] is not None]
        number = {
            "count": len(values),
            "sum": sum(values) if values else None,  # type: ignore[arg-type]
            "max": max(values) if values else None,  # type: ignore[type-var]
            "count_distinct": len(set(values)),
        }[query.function]
        if query.having is None or len(group) > query.having:
            result.append(((*key, number), merge(group)))
    return result


def running(query: Running, rows: Rows) -> Rows:
    result = []
    for values, ids in rows:
        frame = [r for r in rows if r[0][query.partition] == values[query.partition]]
        if query.order is not None:
            here = order((values[query.order],))
            frame = [r for r in frame if order((r[0][query.order],)) <= here]
        numbers = [v[query.column] for v, _ in frame if v[query.column] is not None]
        result.append(((*values, sum(numbers) if numbers else None), ids | merge(frame)))  # type: ignore[arg-type]
    return result


# --- the same as a DataFrame


def named(df: DataFrame) -> DataFrame:
    return df.toDF(*[f"c{i}" for i in range(len(df.columns))])


def to_spark(query: Query, spark: SparkSession) -> DataFrame:
    if isinstance(query, Scan):
        return named(spark.table(query.table).select(*[f"c{i}" for i in range(query.width)]))
    if isinstance(query, Filter):
        return to_spark(query.child, spark).where(f"c{query.column} {query.op} {query.constant}")
    if isinstance(query, Project):
        return named(to_spark(query.child, spark).select(*[F.expr(f"c{c} + {n}") for c, n in query.columns]))
    if isinstance(query, Join):
        left, right = to_spark(query.left, spark), to_spark(query.right, spark)
        right = right.toDF(*[f"d{i}" for i in range(len(right.columns))])
        if query.kind == "cross":
            return named(left.crossJoin(right))
        condition = F.expr(f"c{query.left_column} {query.op} d{query.right_column}")
        return named(left.join(right, condition, query.kind))
    if isinstance(query, Aggregate):
        column = F.col(f"c{query.column}")
        function = {
            "count": F.count,
            "sum": F.sum,
            "max": F.max,
            "count_distinct": F.count_distinct,
        }[query.function]
        keys = [f"c{k}" for k in query.keys]
        grouped = to_spark(query.child, spark).groupBy(*[F.col(k).alias(f"k{i}") for i, k in enumerate(keys)])
        result = grouped.agg(function(column).alias("n"), F.count("*").alias("size"))
        if query.having is not None:
            result = result.where(f"size > {query.having}")
        return named(result.drop("size"))
    if isinstance(query, Distinct):
        return to_spark(query.child, spark).distinct()
    if isinstance(query, Union):
        return to_spark(query.left, spark).union(to_spark(query.right, spark))
    if isinstance(query, Top):
        child = to_spark(query.child, spark)
        return child.orderBy(*child.columns).limit(query.limit)
    if isinstance(query, SetOperation):
        left, right = to_spark(query.left, spark), to_spark(query.right, spark)
        return left.intersect(right) if query.kind == "intersect" else left.subtract(right)
    if isinstance(query, Running):
        child = to_spark(query.child, spark)
        window = Window.partitionBy(f"c{query.partition}")
        if query.order is not None:
            window = window.orderBy(f"c{query.order}")
        return named(child.withColumn("n", F.sum(f"c{query.column}").over(window)))
    raise TypeError(query)
