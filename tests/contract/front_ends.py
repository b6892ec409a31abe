"""Every front end as the contract sees it: a program of the oracle's becomes a flow."""

from __future__ import annotations

from collections.abc import Iterable
from operator import add
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import whence
from contract.naive import Both, Change, Keep, Meet, Once, Program, Read, Repeat, Source, Tables, Total, Value
from whence.actors import Actor, Location
from whence.actors.flow import ActorFlow
from whence.actors.registry import Registry
from whence.arrays import Mode, Node, Operator, Workflow
from whence.arrays.flow import ArrayFlow
from whence.model.flow import Flow, RecordId, Records, Site
from whence.rdd import LineageRDD
from whence.rdd.flow import RddFlow
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

    def output(self, flow: Flow) -> Site: ...

    def values(self, flow: Flow, records: Records) -> list[Value]: ...


class _Files:
    """Tables as files of lines, whose records are told by file and byte."""

    def __init__(self, w: whence.Session, folder: Path, tables: Tables) -> None:
        self._w = w
        self._starts: dict[str, list[int]] = {}
        self._paths: dict[str, Path] = {}
        self._lines: dict[str, list[str]] = {}
        for name, rows in tables.items():
            lines = self._lines[name] = [f"{k},{v}\n" for k, v in rows]
            self._paths[name] = folder / f"{name}.csv"
            self._paths[name].write_text("".join(lines))
            self._starts[name] = [sum(map(len, lines[:i])) for i in range(len(lines))]

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


class Sql(_Files):
    def __init__(self, w: whence.Session, folder: Path, program: Program, tables: Tables) -> None:
        super().__init__(w, folder, tables)
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

    def output(self, flow: Flow) -> Site:
        return flow.outputs[0]

    def values(self, flow: Flow, records: Records) -> list[Value]:
        return sorted((int(k), int(v)) for k, v in records.values())


class Rdds(_Files):
    def __init__(self, w: whence.Session, folder: Path, program: Program, tables: Tables) -> None:
        super().__init__(w, folder, tables)
        self._rdd = self._built(program)
        self._rdd.collect()

    def _built(self, program: Program) -> LineageRDD:
        given = [self._built(one) for one in program.inputs]
        if isinstance(program, Read):
            lines = self._w.context.textFile(str(self._paths[program.table]), 2)
            return lines.map(lambda line: tuple(map(int, line.split(","))))
        if isinstance(program, Keep):
            least = program.least
            return given[0].filter(lambda kv: kv[1] >= least)
        if isinstance(program, Change):
            more = program.more
            return given[0].map(lambda kv: (kv[0] % 2, kv[1] + more))
        if isinstance(program, Repeat):
            return given[0].flatMap(lambda kv: [(kv[0], kv[1] + i) for i in range(kv[0] % 3)])
        if isinstance(program, Both):
            return given[0].union(given[1])
        if isinstance(program, Meet):
            return given[0].join(given[1], 2).map(lambda kv: (kv[0], kv[1][0] + kv[1][1]))
        if isinstance(program, Total):
            return given[0].reduceByKey(add, 2)
        assert isinstance(program, Once)
        return given[0].distinct(2)

    def flow(self) -> Flow:
        return RddFlow.of(self._rdd)[0]

    def ask(self, values: set[Value]) -> tuple[Flow, Records]:
        return RddFlow.of(self._rdd.filter(lambda kv: kv in values))

    def output(self, flow: Flow) -> Site:
        assert isinstance(flow, RddFlow)
        return flow.site_of(self._rdd.node.id)

    def values(self, flow: Flow, records: Records) -> list[Value]:
        return sorted(value for (value,) in records.values())


class Actors(_Files):
    """The naive program itself, each of its operators an actor that captures what it does."""

    def __init__(self, w: whence.Session, folder: Path, program: Program, tables: Tables) -> None:
        super().__init__(w, folder, tables)
        self._tables = tables
        self._made: dict[int, tuple[Actor, list[tuple[Value, str]]]] = {}
        self._last, self._records = self._run(program)
        for actor, _ in self._made.values():
            actor.commit()

    def _run(self, program: Program) -> tuple[Actor, list[tuple[Value, str]]]:
        if id(program) in self._made:
            return self._made[id(program)]
        number = len(self._made)
        given = [self._run(one) for one in program.inputs]
        actor = self._w.register(f"{type(program).__name__}-{number}-{len(self._made)}", kind="step")
        name = actor.name
        if isinstance(program, Read):
            made = []
            for n, value in enumerate(self._tables[program.table]):
                place = Location(
                    str(self._paths[program.table]), self._starts[program.table][n], len(self._lines[program.table][n])
                )
                actor.capture(place, f"{name}/{len(self._made)}/{n}")
                made.append((value, f"{name}/{len(self._made)}/{n}"))
        else:
            for giver in {id(g): g for g, _ in given}.values():
                self._w.flow_link(giver, actor)
            told = program.put_out([[(v, frozenset([(key, 0)])) for v, key in some] for _, some in given])
            made = []
            for _, key in [one for _, some in given for one in some]:
                actor.capture(key, None)  # taken in, whether or not anything came of it
            for n, (value, inputs) in enumerate(told):
                for key, _ in inputs:
                    actor.capture(key, f"{name}/{len(self._made)}/{n}")
                made.append((value, f"{name}/{len(self._made)}/{n}"))
        self._made[id(program)] = (actor, made)
        return actor, made

    def flow(self) -> Flow:
        store = self._w.actors
        registry = Registry.load(store.files)
        return ActorFlow(store.files, registry, [self._last.id], store.root)

    def ask(self, values: set[Value]) -> tuple[Flow, Records]:
        flow = self.flow()
        return flow, flow.take(self.output(flow), [(key,) for value, key in self._records if value in values])

    def output(self, flow: Flow) -> Site:
        found = [one for one in flow.outputs if not one.key.startswith("files by")]
        assert len(found) <= 1
        return found[0] if found else Site("nothing was put out", "nothing")

    def values(self, flow: Flow, records: Records) -> list[Value]:
        by_key = {key: value for value, key in self._records}
        return sorted(by_key[str(key)] for (key,) in records.ids())


class Step(Operator):
    """One operator of the naive program, over arrays of records."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL}

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        given = [
            [((k, v), frozenset([(str(i), n)])) for n, (k, v) in enumerate(records.tolist())]
            for i, records in enumerate(inputs)
        ]
        told = self.program.put_out(given)
        if Mode.FULL in cur_modes:
            for n, (_, behind) in enumerate(told):
                cells = [[(k,) for i, k in behind if i == str(j)] for j in range(len(inputs))]
                self.lwrite([(n,)], *cells)
        return np.array([value for value, _ in told], RECORD)


RECORD = np.dtype([("k", "i8"), ("v", "i8")])


class Arrays:
    """Tables are one-dimensional arrays of records; each operator keeps its lineage in another way."""

    KEPT = ("FullOne", "FullMany:forward", "Interval", "Blackbox", "FullOne:forward", "FullMany")

    def __init__(self, w: whence.Session, folder: Path, program: Program, tables: Tables) -> None:
        self._workflow = Workflow()
        self._nodes: dict[int, Node] = {}
        self._last = self._added(program)
        operators = [node for node in self._workflow.nodes if node.operator is not None]
        strategies = {node: self.KEPT[n % len(self.KEPT)] for n, node in enumerate(operators)}
        given = {node.name: np.array(tables[node.name], RECORD) for node in self._workflow.inputs}
        self._run = w.execute(self._workflow, given, strategies)
        self._folder = folder

    def _added(self, program: Program) -> Node:
        if id(program) not in self._nodes:
            if isinstance(program, Read):
                known = [node for node in self._workflow.inputs if node.name == program.table]
                node = known[0] if known else self._workflow.input(program.table)
            else:
                given = [self._added(one) for one in program.inputs]
                node = self._workflow.add(Step(program), *given)
            self._nodes[id(program)] = node
        return self._nodes[id(program)]

    def flow(self) -> Flow:
        return ArrayFlow(self._run, self._folder)

    def ask(self, values: set[Value]) -> tuple[Flow, Records]:
        flow = self.flow()
        records = self._run[self._last].tolist()
        return flow, flow.take(self.output(flow), [(n,) for n, record in enumerate(records) if record in values])

    def seeds(self, flow: Flow, sources: Iterable[Source]) -> list[Records]:
        given = {site: [(n,) for table, n in sources if table == site.name] for site in flow.inputs}
        return [flow.take(site, ids) for site, ids in given.items() if ids]

    def source(self, site: Site, one: RecordId) -> Source:
        return site.name, int(one[0])

    def output(self, flow: Flow) -> Site:
        (site,) = flow.outputs
        return site

    def values(self, flow: Flow, records: Records) -> list[Value]:
        made = self._run[self._last].tolist()
        return sorted(made[int(n)] for (n,) in records.ids())
