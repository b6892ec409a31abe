"""Queries that hypothesis makes and shrinks, run by whence and by the oracle: every answer must be the same."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from fuzz import sql_oracle as oracle
from fuzz.sql_oracle import Expression, Ids, Oracle, Query, Scan, Tied, Values
from whence.model import NonDeterministic, WhenceError
from whence.sql.flow import SqlFlow

# What the sessions of such runs are set to: compiling takes longer than a few rows do.
SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
# What is asked of a trace beside the witnesses of every row.
WAYS = ("sources", "verify", "replay", "forward", "one")
_FORMATS = ("values", "values", "python", "parquet", "parquet", "orc", "json", "csv")
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
    kinds = ("int", *draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)))
    # Of an empty string Spark's CSV reader makes a NULL, quoted or not.
    some = {kind: [v for v in oracle.SOME[kind] if format != "csv" or v != ""] for kind in kinds}
    row = st.tuples(*[st.sampled_from(some[kind]) for kind in kinds])
    fewest = draw(st.sampled_from((0, 1, 2, 3, 4)))
    return Table(kinds, tuple(draw(st.lists(row, min_size=fewest, max_size=6))), format)


def with_readings(tables: Mapping[str, Table]) -> dict[str, Table]:
    """And what else can be read at their places: a CSV file in two other ways, a directory before it grew."""
    found = dict(tables)
    for name, table in tables.items():
        if table.format == "csv":
            lines = tuple((line,) for line in _lines(table))
            cells: list[Values] = [tuple(f"k{i}" for i in range(len(table.kinds)))]
            cells += [tuple(None if v is None else str(v) for v in row) for row in table.rows]
            found[f"{name}_plain"] = Table(("string",) * len(table.kinds), tuple(cells), "plain", name)
            found[f"{name}_text"] = Table(("string",), lines, "text", name)
        elif table.format in ("parquet", "orc", "json") and len(table.rows) > 3:
            found[f"{name}_before"] = Table(table.kinds, table.rows[: len(table.rows) // 2], "before", name)
    return found


def _lines(table: Table) -> list[str]:
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


def _some(kind: str) -> st.SearchStrategy[Expression]:
    return st.sampled_from(oracle.SOME[kind]).map(lambda value: oracle.constant(kind, value))


@st.composite
def _expressions(draw: st.DrawFn, kinds: tuple[str, ...], depth: int = 1) -> Expression:
    here = oracle.column(kinds, draw(st.integers(0, len(kinds) - 1)))
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
    pairs = [(i, len(left) + j) for i, a in enumerate(left) for j, b in enumerate(right) if a == b]
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
    left, right = draw(_queries(tables, depth)), draw(_queries(tables, draw(st.integers(0, depth))))
    how = draw(st.sampled_from(("in", "exists", "scalar")))
    if how == "in":
        same = [i for i, kind in enumerate(left.kinds) if kind == right.kinds[0]]
        if same:
            return oracle.InSubquery(left, right, draw(st.sampled_from(same)), draw(st.booleans()))
    if how == "scalar":
        pairs = [(i, j) for i, a in enumerate(left.kinds) for j, b in enumerate(right.kinds) if a == b]
        return oracle.Scalar(left, right, draw(st.sampled_from([None, *pairs])))
    return oracle.Exists(left, right, draw(_between(left.kinds, right.kinds)), draw(st.booleans()))


@st.composite
def _aggregates(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    child = draw(_queries(tables, depth))
    places = st.integers(0, len(child.kinds) - 1)
    keys = draw(st.lists(places, max_size=2, unique=True))
    calls = []
    for at in draw(st.lists(places, min_size=1, max_size=2)):
        functions = ["count", "min", "max", "count distinct", *(["sum"] if child.kinds[at] == "int" else [])]
        calls.append(oracle.Call(draw(st.sampled_from(functions)), at))
    return oracle.Aggregate(child, tuple(keys), tuple(calls), draw(st.sampled_from((None, None, 1))))


@st.composite
def _set_operations(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    left, right = draw(_queries(tables, depth)), draw(_queries(tables, draw(st.integers(0, depth))))
    kind = draw(
        st.sampled_from(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
    )
    columns = []
    for want in left.kinds:
        same = [i for i, k in enumerate(right.kinds) if k == want]
        other = oracle.column(right.kinds, draw(st.sampled_from(same))) if same else draw(_some(want))
        columns.append(other)
    return oracle.SetOperation(left, oracle.Project(right, tuple(columns)), kind)


@st.composite
def _windows(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    child = draw(_queries(tables, depth))
    places = st.integers(0, len(child.kinds) - 1)
    frame = draw(st.sampled_from(("all", "peers", "two", "rank", "lag")))
    return oracle.Windowed(child, draw(places), draw(places), frame)


@st.composite
def _others(draw: st.DrawFn, tables: Mapping[str, Table], depth: int) -> Query:
    child = draw(_queries(tables, depth))
    arrays = [i for i, kind in enumerate(child.kinds) if kind == "array"]
    how = draw(st.sampled_from(("distinct", "top", "written", *(["explode"] * 3 if arrays else []))))
    if how == "top":
        return oracle.Top(child, draw(st.integers(0, 4)), draw(st.sampled_from((0, 0, 1))), draw(st.booleans()))
    if how == "explode":
        return oracle.Exploded(child, draw(st.sampled_from(arrays)), draw(st.booleans()))
    if how == "written":
        return oracle.Written(child)
    return oracle.Distinct(child)


_MAKERS = (
    *(_filters, _projects, _joins, _joins, _subqueries, _aggregates, _aggregates),
    *(_set_operations, _windows, _others, _others),
)


def rows_of(case: Case) -> int | None:
    """How many rows the query gives; None if which rows is not to be told."""
    try:
        return len(Oracle({name: list(table.rows) for name, table in case.tables.items()}).rows(case.query))
    except Tied:
        return None


# --- running them


@dataclass
class Tally:
    """What became of the cases of a run. Refused, or widened and said so: where rows tie at a cut."""

    exact: int = 0
    widened: int = 0
    refused: int = 0
    # Spark itself fails to run the query, or gives other rows than it says.
    failing: int = 0

    @property
    def done(self) -> int:
        return self.exact + self.widened + self.refused + self.failing

    def __str__(self) -> str:
        told = f"{self.exact} exact, {self.widened} widened, {self.refused} refused"
        return f"{self.done} queries: {told}, {self.failing} that Spark fails to run"


def prepared(spark: SparkSession) -> None:
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)

    def odd(number: int | None) -> int | None:  # in here, since executors do not see the tests' modules
        return None if number is None else number * 2 + 1

    spark.udf.register("fuzz_odd", F.udf(odd, "bigint"))


@contextmanager
def quick(spark: SparkSession) -> Iterator[None]:
    """This thread's jobs over RDDs, too: they know nothing of the session's settings, and would compile."""
    context = spark.sparkContext
    before = {name: context.getLocalProperty(name) for name in SETTINGS}
    try:
        for name, value in SETTINGS.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]


def check(w: whence.Session, case: Case, home: Path, tally: Tally) -> None:
    """Raises AssertionError where whence says anything else than the oracle."""
    work = home / uuid4().hex
    try:
        load(w.spark, case, work)
        check_loaded(w, case, work, tally)
    finally:
        w.spark.catalog.clearCache()
        shutil.rmtree(work, ignore_errors=True)


def check_loaded(w: whence.Session, case: Case, work: Path, tally: Tally) -> None:
    """The same, of tables that are there. `work`: where the query's own tables are written."""
    _Check(w, case, work, tally).run()


def load(spark: SparkSession, case: Case, work: Path) -> None:
    for name, table in case.tables.items():
        if table.of is None:
            _load(spark, name, table, work, f"{name}_before" if f"{name}_before" in case.tables else None)
    for name, table in case.tables.items():
        if table.format in ("plain", "text"):
            columns = ", ".join([*[f"k{i} STRING" for i in range(len(table.kinds))], "rid STRING"])
            reader = spark.read.schema("k0 STRING" if table.format == "text" else columns)
            read = reader.format("text" if table.format == "text" else "csv").load(str(work / f"{table.of}.csv"))
            read.createOrReplaceTempView(name)


def _load(spark: SparkSession, name: str, table: Table, work: Path, before: str | None) -> None:
    """`before`: the name for its first half, read before the other half is there."""
    columns = [f"k{i}" for i in range(len(table.kinds))] + ["rid"]
    types = [oracle.TYPES[kind] for kind in table.kinds] + ["BIGINT"]
    schema = ", ".join(f"{c} {t}" for c, t in zip(columns, types, strict=True))
    if table.format == "csv":
        path = work / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in _lines(table)))
        spark.read.schema(schema).csv(str(path), header=True).createOrReplaceTempView(name)
        return
    if table.rows:
        cells = [
            ", ".join([*[oracle.literal(k, v) for k, v in zip(table.kinds, row, strict=True)], f"{i}L"])
            for i, row in enumerate(table.rows)
        ]
        rows = spark.sql(f"SELECT * FROM VALUES {', '.join(f'({c})' for c in cells)} AS {name}({', '.join(columns)})")
    else:
        rows = spark.sql(
            f"SELECT {', '.join(f'CAST(NULL AS {t}) {c}' for t, c in zip(types, columns, strict=True))} WHERE false"
        )
    if table.format in ("parquet", "orc", "json"):
        place = str(work / name)

        def read() -> DataFrame:
            return spark.read.format(table.format).schema(rows.schema).load(place)

        if before is None:
            rows.repartition(2, "rid").write.format(table.format).save(place)
        else:
            half = len(table.rows) // 2
            rows.where(f"rid < {half}").write.format(table.format).save(place)
            read().createOrReplaceTempView(before)
            rows.where(f"rid >= {half}").write.format(table.format).mode("append").save(place)
        rows = read()
    elif table.format == "python":
        rows = spark.createDataFrame(rows.collect(), rows.schema)
    rows.createOrReplaceTempView(name)


class _Check:
    def __init__(self, w: whence.Session, case: Case, work: Path, tally: Tally) -> None:
        self.w, self.case, self.work, self.tally = w, case, work, tally
        self.query = oracle.numbered(case.query)
        self.tables = {name: list(table.rows) for name, table in case.tables.items()}
        self.scans = [q for q in oracle.flat(self.query) if isinstance(q, Scan)]
        self.read = {q.table for q in self.scans}
        self._table = {q.number: self._source(q.table) for q in self.scans}

    def run(self) -> None:
        judge = Oracle(self.tables)
        try:
            expected = judge.rows(self.query)
        except Tied:
            self.tally.refused += 1
            return
        self._write()
        df = self.w.spark.sql(oracle.sql(self.query))
        try:
            rows = df.collect()
        except Py4JJavaError:  # an error of Spark's optimizer; whence has no part in it
            self.tally.failing += 1
            return
        if not judge.widened and self._counted(tuple(r) for r in rows) != self._counted(v for v, _ in expected):
            # To Spark a directory is the same before and after it grew, and of two equal scans it reads one.
            assert any(f"{name}_before" in self.read for name in self.read), "the user's rows"
            self.tally.failing += 1
            return
        try:
            trace = self.w.backward(df)
            found = self._witnesses(trace)
        except NonDeterministic:
            if not judge.widened:
                raise
            self.tally.refused += 1
            return
        if judge.widened or not trace.exact:
            assert judge.widened, f"not exact: {trace.notes}"
            assert not trace.exact, "rows tie at a cut, and the trace calls itself exact"
            self.tally.widened += 1
            return
        self.tally.exact += 1
        wanted = Counter((self._key(v), self._by_table(ids)) for v, ids in expected)
        assert Counter(found) == wanted, f"witnesses {Counter(found) - wanted}, not {wanted - Counter(found)}"
        if "sources" in self.case.ways:
            self._check_sources(trace, oracle.merged(expected))
        if "verify" in self.case.ways:
            assert trace.verify().ok, "verify"
        if "replay" in self.case.ways:
            again = self._counted(tuple(r) for r in trace.replay().collect())
            assert again == self._counted(v for v, _ in expected), "replay"
        if "forward" in self.case.ways:
            self._check_forward(df, expected)
        if "one" in self.case.ways and expected:
            self._check_one(df, expected)

    def _write(self) -> None:
        """Written tables, innermost first."""
        for number, q in enumerate(reversed([q for q in oracle.flat(self.query) if isinstance(q, oracle.Written)])):
            q.name = f"written{number}"
            path = str(self.work / q.name)
            with self.w.capture():
                self.w.spark.sql(oracle.sql(q.child)).write.parquet(path)
            self.w.spark.read.parquet(path).createOrReplaceTempView(q.name)

    def _key(self, row: Values) -> Any:
        return oracle.keys_of(self.query.kinds, row)

    def _counted(self, rows: Iterator[Values]) -> Counter[Any]:
        return Counter(self._key(row) for row in rows)

    def _by_table(self, ids: Ids) -> frozenset[tuple[str, int]]:
        return frozenset((self._table[number], row) for number, row in ids)

    def _source(self, name: str) -> str:
        """A directory before and after it grew is one source."""
        table = self.case.tables[name]
        return table.of if table.format == "before" and table.of is not None else name

    def _names(self, trace: whence.Trace) -> dict[int, str]:
        """The source of each reading."""
        flow = trace.flow
        assert isinstance(flow, SqlFlow)
        return {place.number: name for name, places in flow.readings_by_name.items() for place in places}

    def _witnesses(self, trace: whence.Trace) -> list[tuple[Any, frozenset[tuple[str, int]]]]:
        """Each output with its witnesses. All of them are read by one job: it is jobs that take the time."""
        outputs = trace.outputs()
        parts = [outputs.select("output", F.struct(*outputs.columns[1:]), F.lit(-1), F.lit(-1).cast("bigint"))]
        nothing = F.lit(None).cast(parts[0].schema[1].dataType)
        names = self._names(trace)
        for number, frame in trace.witnesses_per_output():
            row = F.expr(self.case.tables[names[number]].number)
            parts.append(frame.select("output", nothing, F.lit(number), row))
        found: dict[int, set[tuple[str, int]]] = {}
        rows: dict[int, Values] = {}
        for output, values, number, row in reduce(DataFrame.unionAll, parts).collect():
            if number < 0:
                rows[output] = tuple(values)
            else:
                found.setdefault(output, set()).add((self._source(names[number]), row))
        return [(self._key(values), frozenset(found.pop(output, set()))) for output, values in rows.items()]

    def _check_sources(self, trace: whence.Trace, ids: Ids) -> None:
        wanted: dict[str, set[int]] = {name: set() for name in self._table.values()}
        for table, row in self._by_table(ids):
            wanted[table].add(row)
        found: dict[str, list[int]] = {self._source(name): [] for name in trace.sources}
        parts = [
            frame.select(F.lit(self._source(name)), F.expr(self.case.tables[name].number))
            for name, frame in trace.sources.items()
        ]
        for name, row in reduce(DataFrame.unionAll, parts).collect() if parts else ():
            found[name].append(row)
        found = {name: sorted(rows) for name, rows in found.items()}
        assert found == {name: sorted(rows) for name, rows in wanted.items() if name in found}, "sources"
        assert not any(rows for name, rows in wanted.items() if name not in found), "a source is missing"
        counts = {self._source(name): count for name, count in trace.witness_counts.items()}
        assert counts == {name: len(rows) for name, rows in found.items()}, "witness_counts"

    def _check_forward(self, df: DataFrame, expected: oracle.Rows) -> None:
        table, row = self.case.seed
        if not self.tables[table]:
            return
        seeds = self.w.spark.table(table).where(f"{self.case.tables[table].number} = {row}")
        if self._in_two_ways(table):
            with pytest.raises(WhenceError, match="in two ways"):
                self.w.forward(seeds, to=df)
            return
        touched = self.w.forward(seeds, to=df).rows
        wanted = [v for v, ids in expected if (self._source(table), row) in self._by_table(ids)]
        assert self._counted(tuple(r) for r in touched.collect()) == self._counted(iter(wanted)), "forward"

    def _in_two_ways(self, table: str) -> bool:
        """Whether the query reads this table's file in another way, too."""

        def file(name: str) -> str:
            return self.case.tables[name].of or name

        return any(file(q.table) == file(table) and self._source(q.table) != self._source(table) for q in self.scans)

    def _check_one(self, df: DataFrame, expected: oracle.Rows) -> None:
        """One row asked for: what the query gives on its witnesses alone, and without them."""
        values = self._key(expected[self.case.asked % len(expected)][0])
        ids = oracle.merged([r for r in expected if self._key(r[0]) == values])
        same = [
            f"c{i} <=> {oracle.literal(kind, value)}"
            for i, (kind, value) in enumerate(
                zip(self.query.kinds, expected[self.case.asked % len(expected)][0], strict=True)
            )
        ]
        asked = df.where(" AND ".join(same))
        if any(self.case.tables[name].format in ("json", "before") for name in self.read):
            try:
                asked.collect()
            except Py4JJavaError:  # Spark's JSON reader fails on <=> with an array or a struct
                return
        trace = self.w.backward(asked)
        assert set(self._witnesses(trace)) == {
            (self._key(v), self._by_table(i)) for v, i in expected if self._key(v) == values
        }, "witnesses of one row"
        assert trace.verify().ok, "verify of one row"
        if len(self._names(trace)) != len(self.scans) or any(
            isinstance(q, oracle.Written) for q in oracle.flat(self.query)
        ):
            return  # which reading is which is not to be told from outside
        if any(self._in_two_ways(q.table) for q in self.scans):
            with pytest.raises(WhenceError, match="in two ways"):
                trace.exclude(df)
            return
        self._check_run_without(trace.exclude(df), lambda number, row: (number, row) not in ids, "exclude")

    def _check_run_without(self, df: DataFrame, keep: oracle.Keep, what: str) -> None:
        judge = Oracle(self.tables, keep)
        try:
            wanted = judge.rows(self.query)
        except Tied:
            return
        if not judge.widened:
            assert self._counted(tuple(r) for r in df.collect()) == self._counted(v for v, _ in wanted), what
