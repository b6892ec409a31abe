"""Queries that hypothesis makes and shrinks, run by whence and by the oracle: every answer must be the same."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from fuzz import sql_oracle as oracle
from fuzz import sql_wider as wider
from fuzz.sql_making import Case, Table, lines
from fuzz.sql_oracle import Ids, Oracle, Scan, Tied, Values
from fuzz.sql_ways import MORE
from whence.model import NonDeterministic, WhenceError
from whence.sql.flow import SqlFlow

# What the sessions of such runs are set to: compiling takes longer than a few rows do.
SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
# --- running them


class Ended(Exception):
    """The way ends before the sources, with a note that says why."""


@dataclass
class Tally:
    """What became of the cases of a run. Refused, or widened and said so: where rows tie at a cut."""

    exact: int = 0
    widened: int = 0
    refused: int = 0
    # At a captured table whose query may come out otherwise each time, as the trace says.
    ended: int = 0
    # Spark itself fails to run the query, or gives other rows than it says.
    failing: int = 0

    @property
    def done(self) -> int:
        return self.exact + self.widened + self.refused + self.ended + self.failing

    def __str__(self) -> str:
        told = f"{self.exact} exact, {self.widened} widened, {self.refused} refused, {self.ended} ended"
        return f"{self.done} queries: {told}, {self.failing} that Spark fails to run"


def prepared(spark: SparkSession) -> None:
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)

    def odd(number: int | None) -> int | None:  # in here, since executors do not see the tests' modules
        return None if number is None else number * 2 + 1

    def added(numbers: pd.Series) -> int | None:
        return None if numbers.dropna().empty else int(numbers.dropna().sum())

    spark.udf.register("fuzz_odd", F.udf(odd, "bigint"))
    added.__annotations__ = {"numbers": pd.Series, "return": int}
    spark.udf.register("fuzz_sum", F.pandas_udf(added, "bigint"))  # type: ignore[call-overload]


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
    try:
        Check(w, case, work, tally).run()
    finally:
        if any(isinstance(q, wider.Named) and q.cached for q in oracle.flat(case.query)):
            w.spark.catalog.clearCache()


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
        path.write_text("".join(f"{line}\n" for line in lines(table)))
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
    if table.format in ("parquet", "parted", "orc", "json"):
        place = str(work / name)
        kind = "parquet" if table.format == "parted" else table.format

        def read() -> DataFrame:
            return spark.read.format(kind).schema(rows.schema).load(place)

        if table.format == "parted":
            rows.write.partitionBy("k0").parquet(place)
        elif before is None:
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


class Check:
    def __init__(self, w: whence.Session, case: Case, work: Path, tally: Tally) -> None:
        self.w, self.case, self.work, self.tally = w, case, work, tally
        self.query = oracle.numbered(case.query)
        self.tables = {name: list(table.rows) for name, table in case.tables.items()}
        self.scans = [q for q in oracle.flat(self.query) if isinstance(q, Scan)]
        self.read = {q.table for q in self.scans}
        self._table = {q.number: self.source(q.table) for q in self.scans}

    df: DataFrame  # the query

    def run(self) -> None:
        judge = Oracle(self.tables)
        try:
            expected = judge.rows(self.query)
        except Tied:
            self.tally.refused += 1
            return
        self._write()
        df = self.df = self.w.spark.sql(oracle.sql(self.query))
        try:
            rows = df.collect()
        except Py4JJavaError:  # an error of Spark's optimizer; whence has no part in it
            self.tally.failing += 1
            return
        if not judge.widened and self.counted(tuple(r) for r in rows) != self.counted(v for v, _ in expected):
            if self.loses_order:
                with pytest.raises(NonDeterministic, match="in no order"):
                    self._witnesses(self.w.backward(df))
                self.tally.refused += 1
                return
            # To Spark a directory is the same before and after it grew, and of two equal scans it reads one.
            assert any(f"{name}_before" in self.read for name in self.read), "the user's rows"
            self.tally.failing += 1
            return
        try:
            trace = self.w.backward(df)
            found = self._witnesses(trace)
        except NonDeterministic as refused:
            if not judge.widened and not (self.loses_order and "in no order" in str(refused)):
                raise
            self.tally.refused += 1
            return
        except Ended:
            self.tally.ended += 1
            return
        if judge.widened or not trace.exact:
            assert judge.widened, f"not exact: {trace.notes}"
            assert not trace.exact, "rows tie at a cut, and the trace calls itself exact"
            self.tally.widened += 1
            return
        self.tally.exact += 1
        wanted = Counter((self.key(v), self.by_table(ids)) for v, ids in expected)
        assert Counter(found) == wanted, f"witnesses {Counter(found) - wanted}, not {wanted - Counter(found)}"
        if "sources" in self.case.ways:
            self._check_sources(trace, oracle.merged(expected))
        if "verify" in self.case.ways:
            verdict = trace.verify()
            assert verdict.ok or not self.gives_again(oracle.merged(expected)), "verify"
            assert not verdict.refuted, f"refuted: {verdict}"
        if "replay" in self.case.ways:
            again = self.counted(tuple(r) for r in trace.replay().collect())
            same = again == self.counted(v for v, _ in expected)
            assert same or not self.gives_again(oracle.merged(expected)), "replay"
        if "forward" in self.case.ways:
            self._check_forward(df, expected)
        if "one" in self.case.ways and expected:
            self._check_one(df, expected)
        for way in self.case.ways:
            if way in MORE:
                MORE[way](self, expected)

    @property
    def loses_order(self) -> bool:
        """Whether a subquery stands in a SELECT above a LIMIT: Spark then cuts rows in no order, and whence refuses."""
        for q in oracle.flat(self.query):
            if (isinstance(q, oracle.Scalar) and q.columns) or (isinstance(q, wider.Tested) and q.other is None):
                below = q.left
                while isinstance(below, oracle.Project | wider.Named):
                    below = below.child
                if isinstance(below, oracle.Top):
                    return True
        return False

    @property
    def looked_through(self) -> bool:
        """Whether tables were written on the way."""
        return any(isinstance(q, (oracle.Written, wider.Appended)) for q in oracle.flat(self.query))

    def tells_readings(self, trace: whence.Trace) -> bool:
        """Whether it is to be told from outside which reading is which."""
        return len(self._names(trace)) == len(self.scans) and not self.looked_through

    def _write(self) -> None:
        """Written tables and views, innermost first."""
        for number, q in enumerate(reversed(list(oracle.flat(self.query)))):
            if isinstance(q, oracle.Written):
                q.name = f"written{number}"
                path = str(self.work / q.name)
                with self.w.capture():
                    self.w.spark.sql(oracle.sql(q.child)).write.parquet(path)
                self.w.spark.read.parquet(path).createOrReplaceTempView(q.name)
            elif isinstance(q, wider.Named):
                q.name = f"named{number}"
                self.w.spark.sql(oracle.sql(q.child)).createOrReplaceTempView(q.name)
                if q.cached:
                    self.w.spark.catalog.cacheTable(q.name)
            elif isinstance(q, wider.Appended):
                self._append(q, f"appended{number}")

    def _append(self, q: wider.Appended, name: str) -> None:
        """Every part by a write of its own; before them one that is written over."""
        spark, path = self.w.spark, str(self.work / name)
        q.name = f"{name}_{uuid4().hex}" if q.by_name else name
        schema = spark.sql(oracle.sql(q.parts[0])).schema
        for at, part in enumerate([*q.parts[: q.overwrites], *q.parts]):
            writer = spark.sql(oracle.sql(part)).write.format(q.format)
            writer = writer.mode("overwrite" if at == q.overwrites else "append")
            writer = writer.partitionBy("c0") if q.partitioned else writer
            with self.w.capture():
                writer.option("path", path).saveAsTable(q.name) if q.by_name else writer.save(path)
        if not q.by_name:
            spark.read.format(q.format).schema(schema).load(path).createOrReplaceTempView(q.name)

    def key(self, row: Values) -> Any:
        return oracle.keys_of(self.query.kinds, row)

    def counted(self, rows: Iterator[Values]) -> Counter[Any]:
        return Counter(self.key(row) for row in rows)

    def by_table(self, ids: Ids) -> frozenset[tuple[str, int]]:
        return frozenset((self._table[number], row) for number, row in ids)

    def source(self, name: str) -> str:
        """A directory before and after it grew is one source."""
        table = self.case.tables.get(name)
        if table is None:
            return name
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
            if names[number] not in self.case.tables:
                if frame.isEmpty():  # written without a row, and so without a file
                    continue
                # The note names the place, and a table's name goes on behind its place's.
                told = [note for note in trace.ended if f" {names[number].partition('_')[0]}:" in note]
                whys = ("may come out otherwise each time", "knows its rows by their place in it")
                assert any(why in note for note in told for why in whys), (
                    f"the way ends at {names[number]}: {told} of {trace.ended}"
                )
                raise Ended
            row = F.expr(self.case.tables[names[number]].number)
            parts.append(frame.select("output", nothing, F.lit(number), row))
        found: dict[int, set[tuple[str, int]]] = {}
        rows: dict[int, Values] = {}
        for output, values, number, row in reduce(DataFrame.unionAll, parts).collect():
            if number < 0:
                rows[output] = tuple(values)
            else:
                found.setdefault(output, set()).add((self.source(names[number]), row))
        return [(self.key(values), frozenset(found.pop(output, set()))) for output, values in rows.items()]

    def _check_sources(self, trace: whence.Trace, ids: Ids) -> None:
        wanted: dict[str, set[int]] = {name: set() for name in self._table.values()}
        for table, row in self.by_table(ids):
            wanted[table].add(row)
        found: dict[str, list[int]] = {self.source(name): [] for name in trace.sources}
        parts = [
            frame.select(F.lit(self.source(name)), F.expr(self.case.tables[name].number))
            for name, frame in trace.sources.items()
            if name in self.case.tables
        ]
        for name, row in reduce(DataFrame.unionAll, parts).collect() if parts else ():
            found[name].append(row)
        found = {name: sorted(rows) for name, rows in found.items()}
        assert found == {name: sorted(wanted.get(name, ())) for name in found}, "sources"
        assert not any(rows for name, rows in wanted.items() if name not in found), "a source is missing"
        counts = {self.source(name): count for name, count in trace.witness_counts.items()}
        assert counts == {name: len(rows) for name, rows in found.items()}, "witness_counts"

    def _check_forward(self, df: DataFrame, expected: oracle.Rows) -> None:
        table, row = self.case.seed
        if not self.tables[table]:
            return
        seeds = self.w.spark.table(table).where(f"{self.case.tables[table].number} = {row}")
        if self.in_two_ways(table):
            with pytest.raises(WhenceError, match="in two ways"):
                self.w.forward(seeds, to=df)
            return
        touched = self.w.forward(seeds, to=df).rows
        wanted = [v for v, ids in expected if (self.source(table), row) in self.by_table(ids)]
        assert self.counted(tuple(r) for r in touched.collect()) == self.counted(iter(wanted)), "forward"

    def in_two_ways(self, table: str) -> bool:
        """Whether the query reads this table's file in another way, too."""

        def file(name: str) -> str:
            return self.case.tables[name].of or name

        return any(file(q.table) == file(table) and self.source(q.table) != self.source(table) for q in self.scans)

    def _check_one(self, df: DataFrame, expected: oracle.Rows) -> None:
        """One row asked for: what the query gives on its witnesses alone, and without them."""
        values = self.key(expected[self.case.asked % len(expected)][0])
        asked, ids = self.one(expected)
        written = {q.format for q in oracle.flat(self.query) if isinstance(q, wider.Appended)}
        if written & {"json"} or any(self.case.tables[name].format in ("json", "before") for name in self.read):
            try:
                asked.collect()
            except Py4JJavaError:  # Spark's JSON reader fails on <=> with an array or a struct
                return
        trace = self.w.backward(asked)
        assert set(self._witnesses(trace)) == {
            (self.key(v), self.by_table(i)) for v, i in expected if self.key(v) == values
        }, "witnesses of one row"
        verdict = trace.verify()
        assert verdict.ok or not self.gives_again(ids, values), "verify of one row"
        assert not verdict.refuted, f"one row is refuted: {verdict}"
        if not self.tells_readings(trace):
            return
        if any(self.in_two_ways(q.table) for q in self.scans):
            with pytest.raises(WhenceError, match="in two ways"):
                trace.exclude(df)
            return
        self.run_without(trace.exclude(df), lambda number, row: (number, row) not in ids, "exclude")

    def gives_again(self, ids: Ids, row: Any = None) -> bool:
        """Whether the witnesses alone give the row, or all rows, again. They do not where a row is a witness as part of
        a frame alone: without the rest of its own frame it may then come into the group that is asked for, too."""
        every, alone = Oracle(self.tables), Oracle(self.tables, lambda number, at: (number, at) in ids)
        try:
            before, after = (self.counted(v for v, _ in judge.rows(self.query)) for judge in (every, alone))
        except Tied:
            return False
        return not alone.widened and (before == after if row is None else before[row] == after[row])

    def one(self, expected: oracle.Rows) -> tuple[DataFrame, Ids]:
        """One row of the result, and all that are equal to it, with their witnesses."""
        row = expected[self.case.asked % len(expected)][0]
        same = [
            f"c{i} <=> {oracle.literal(kind, value)}"
            for i, (kind, value) in enumerate(zip(self.query.kinds, row, strict=True))
            if kind != oracle.SHOWN
        ]
        ids = oracle.merged([r for r in expected if self.key(r[0]) == self.key(row)])
        return self.df.where(" AND ".join(same) or "true"), ids

    def run_without(self, df: DataFrame, keep: oracle.Keep, what: str) -> None:
        judge = Oracle(self.tables, keep)
        try:
            wanted = judge.rows(self.query)
        except Tied:
            return
        if not judge.widened:
            assert self.counted(tuple(r) for r in df.collect()) == self.counted(v for v, _ in wanted), what
