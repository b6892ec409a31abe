"""Every front end as the contract sees it: a program of the oracle's becomes a flow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import whence
from contract.naive import Both, Change, Keep, Meet, Once, Program, Read, Repeat, Source, Tables, Total, Value
from whence.model.flow import Flow, RecordId, Records, Site
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


class Sql:
    """Tables are files of lines, so that rows are told by file and byte."""

    def __init__(self, w: whence.Session, folder: Path, program: Program, tables: Tables) -> None:
        self._w = w
        self._starts: dict[str, list[int]] = {}
        self._paths: dict[str, Path] = {}
        for name, rows in tables.items():
            lines = [f"{k},{v}\n" for k, v in rows]
            self._paths[name] = folder / f"{name}.csv"
            self._paths[name].write_text("".join(lines))
            self._starts[name] = [sum(map(len, lines[:i])) for i in range(len(lines))]
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
