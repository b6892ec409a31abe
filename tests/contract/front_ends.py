"""Every front end as the contract sees it: a program of the oracle's becomes a flow."""

from __future__ import annotations

from collections.abc import Iterable
from operator import add
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import whence
from contract.naive import Both, Change, Keep, Meet, Once, Program, Read, Repeat, Source, Tables, Total, Value
from whence.model.flow import Flow, RecordId, Records, Site
from whence.rdd import RddFlow
from whence.sql.flow import SqlFlow


class Case(Protocol):
    """One program of one front end, run."""

    def flow(self) -> Flow: ...

    def ask(self, values: set[Value]) -> tuple[Flow, Records]:
        """The records of the output that have these values, and the flow that they are of."""
        ...

    def seeds(self, flow: Flow, sources: Iterable[Source]) -> list[Records]: ...

    def source(self, site: Site, one: RecordId) -> Source:
        """Which record of which table an identity is."""
        ...

    def values(self, flow: Flow, records: Records) -> list[Value]: ...


def _as_lines(folder: Path, tables: Tables) -> tuple[dict[str, Path], dict[str, list[int]]]:
    """Each table as a file of lines, and where its lines begin."""
    paths: dict[str, Path] = {}
    starts: dict[str, list[int]] = {}
    for name, rows in tables.items():
        lines = [f"{k},{v}\n" for k, v in rows]
        paths[name] = folder / f"{name}.csv"
        paths[name].write_text("".join(lines))
        starts[name] = [sum(map(len, lines[:i])) for i in range(len(lines))]
    return paths, starts


class Sql:
    """Tables are files of lines, so that rows are told by file and byte."""

    def __init__(self, w: whence.Session, folder: Path, program: Program, tables: Tables) -> None:
        self._w = w
        self._paths, self._starts = _as_lines(folder, tables)
        self._frame = self._built(program)

    def _built(self, program: Program) -> DataFrame:
        given = [self._built(one) for one in program.inputs]
        if isinstance(program, Read):
            return self._w.spark.read.schema("k bigint, v bigint").csv(str(self._paths[program.table]))
        if isinstance(program, Keep):
            return given[0].where(F.col("v") >= program.least)
        if isinstance(program, Change):
            return given[0].selectExpr("k % 2 AS k", f"v + {program.more} AS v")
        if isinstance(program, Repeat):
            return (
                given[0]
                .selectExpr("k", "explode(sequence(0, k % 3)) AS i", "v")
                .where("i > 0")
                .selectExpr("k", "v + i - 1 AS v")
            )
        if isinstance(program, Both):
            return given[0].unionAll(given[1])
        if isinstance(program, Meet):
            left, right = given[0].toDF("k", "a"), given[1].toDF("j", "b")
            return left.join(right, F.col("k") == F.col("j")).selectExpr("k", "a + b AS v")
        if isinstance(program, Total):
            return given[0].groupBy("k").agg(F.sum("v").alias("v"))
        assert isinstance(program, Once)
        return given[0].distinct()

    def flow(self) -> Flow:
        return SqlFlow(self._w.lineage(self._frame))

    def ask(self, values: set[Value]) -> tuple[Flow, Records]:
        chosen = F.lit(False)
        for k, v in values:
            chosen = chosen | ((F.col("k") == k) & (F.col("v") == v))
        flow = SqlFlow(self._w.lineage(self._frame.where(chosen)))
        return flow, flow.all()

    def seeds(self, flow: Flow, sources: Iterable[Source]) -> list[Records]:
        found: list[Records] = []
        for site in flow.inputs:
            name = site.name.removesuffix(".csv")
            ids = [(str(self._paths[t]), self._starts[t][n]) for t, n in sources if t == name]
            if ids:
                found.append(flow.take(site, ids))
        return found

    def source(self, site: Site, one: RecordId) -> Source:
        name = Path(str(one[0])).stem
        return name, self._starts[name].index(int(one[1]))

    def values(self, flow: Flow, records: Records) -> list[Value]:
        return sorted((int(k), int(v)) for k, v in records.values())


class Rdds:
    """Tables are files of lines here too."""

    def __init__(self, w: whence.Session, folder: Path, program: Program, tables: Tables) -> None:
        self._w = w
        self._paths, self._starts = _as_lines(folder, tables)
        self._rdd = self._built(program)

    def _built(self, program: Program) -> Any:
        given = [self._built(one) for one in program.inputs]
        if isinstance(program, Read):
            lines = self._w.context.textFile(str(self._paths[program.table]), 2)
            return lines.map(lambda line: tuple(map(int, line.split(","))))
        if isinstance(program, Keep):
            least = program.least
            return given[0].filter(lambda r: r[1] >= least)
        if isinstance(program, Change):
            more = program.more
            return given[0].map(lambda r: (r[0] % 2, r[1] + more))
        if isinstance(program, Repeat):
            return given[0].flatMap(lambda r: [(r[0], r[1] + i) for i in range(r[0] % 3)])
        if isinstance(program, Both):
            return given[0].union(given[1])
        if isinstance(program, Meet):
            return given[0].join(given[1], 2).mapValues(sum)
        if isinstance(program, Total):
            return given[0].reduceByKey(add, 2)
        assert isinstance(program, Once)
        return given[0].distinct(2)

    def flow(self) -> Flow:
        self._rdd.count()
        return RddFlow.of(self._rdd)[0]

    def ask(self, values: set[Value]) -> tuple[Flow, Records]:
        return RddFlow.of(self._rdd.filter(lambda r: r in values))

    def seeds(self, flow: Flow, sources: Iterable[Source]) -> list[Records]:
        return [
            flow.take(site, ids)
            for site in flow.inputs
            if (ids := [(str(self._paths[t]), self._starts[t][n]) for t, n in sources if f"{t}.csv" == site.name])
        ]

    def source(self, site: Site, one: RecordId) -> Source:
        name = Path(str(one[0])).stem
        return name, self._starts[name].index(int(one[1]))

    def values(self, flow: Flow, records: Records) -> list[Value]:
        return sorted(value for (value,) in records.values())
