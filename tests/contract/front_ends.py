"""Every front end as the contract sees it: a program of the oracle's becomes a flow."""

from __future__ import annotations

from collections.abc import Iterable
from operator import add
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import whence
from contract.naive import Both, Change, Keep, Meet, Once, Program, Read, Repeat, Source, Tables, Total, Value
from whence.actors import Actor, Location
from whence.actors.flow import ActorFlow
from whence.actors.registry import Registry
from whence.arrays import Mode, Operator, Workflow
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


class _Naive(Operator):
    """An operator of the naive program over arrays of records: one record a cell, as a number."""

    def __init__(self, program: Program, strategy: Mode) -> None:
        self._program = program
        self._mode = strategy

    def supported_modes(self) -> set[Mode]:
        return {self._mode}

    def run(self, *inputs: Any, cur_modes: frozenset[Mode]) -> Any:
        given = [[(_value(code), frozenset([(str(i), n)])) for n, code in enumerate(a)] for i, a in enumerate(inputs)]
        made = self._program.put_out(given)  # type: ignore[arg-type]
        if Mode.FULL in cur_modes:
            for n, (_, came) in enumerate(made):
                self.lwrite([(n,)], *[[(m,) for j, m in came if j == str(i)] for i in range(len(inputs))])
        return np.array([_code(value) for value, _ in made], dtype=np.int64)


def _code(value: Value) -> int:
    return (value[0] << 32) + value[1] + (1 << 31)


def _value(code: Any) -> Value:
    return int(code) >> 32, (int(code) & (1 << 32) - 1) - (1 << 31)


class Arrays:
    """The naive program's operators over arrays, whose region pairs are stored; which way, the strategy says."""

    strategy = "FullOne"

    def __init__(self, w: whence.Session, folder: Path, program: Program, tables: Tables) -> None:
        self._workflow = Workflow()
        self._nodes: dict[int, Any] = {}
        self._inputs = {name: self._workflow.input(name) for name in tables}
        self._last = self._node(program)
        arrays = {name: np.array([_code(value) for value in rows], dtype=np.int64) for name, rows in tables.items()}
        self._run = w.execute(self._workflow, arrays, strategies=self.strategy)
        self._flow = ArrayFlow(self._run, folder)

    def _node(self, program: Program) -> Any:
        if isinstance(program, Read):
            return self._inputs[program.table]
        if id(program) not in self._nodes:
            below = [self._node(one) for one in program.inputs]
            self._nodes[id(program)] = self._workflow.add(_Naive(program, Mode.FULL), *below)
        return self._nodes[id(program)]

    def flow(self) -> Flow:
        return self._flow

    def output(self, flow: Flow) -> Site:
        (site,) = [one for one in flow.outputs if one.name == self._last.name]
        return site

    def ask(self, values: set[Value]) -> tuple[Flow, Records]:
        cells = [(n,) for n, code in enumerate(self._run[self._last]) if _value(code) in values]
        return self._flow, self._flow.take(self.output(self._flow), cells)

    def seeds(self, flow: Flow, sources: Iterable[Source]) -> list[Records]:
        wanted = list(sources)
        found = [(site, [(n,) for name, n in wanted if name == site.name]) for site in flow.inputs]
        return [flow.take(site, cells) for site, cells in found if cells]

    def source(self, site: Site, one: RecordId) -> Source:
        return site.name, int(one[0])

    def values(self, flow: Flow, records: Records) -> list[Value]:
        return sorted(_value(self._run[self._last][int(cell)]) for (cell,) in records.ids())


class ArraysForward(Arrays):
    strategy = "FullMany:forward"


class ArraysInIntervals(Arrays):
    strategy = "Interval"


class ArraysRunAgain(Arrays):
    strategy = "Blackbox"
