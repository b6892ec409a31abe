"""A run of an array workflow on the waist (model/flow.py): from its inputs to the arrays that were made tables.

A cell of an array is told by its coordinates. What `run.frame` wrote, and what `from_frame` read, are rows of files,
told as every front end tells them: so a query over a frame leads into the arrays, and these into the tables behind."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.arrays.access import Asking
from whence.arrays.boxes import boxes_of
from whence.arrays.cells import NONE, Numbers, as_set, coordinates, distinct, strides_of
from whence.arrays.encodings import BACKWARD, FORWARD
from whence.arrays.errors import ArrayError
from whence.arrays.operator import label
from whence.arrays.run import Run
from whence.arrays.tables import RowMap, cells_of_rows, frame_files, rows_of_cells, values_at
from whence.arrays.workflow import Node
from whence.model.flow import BY_ROW, Answer, RecordId, Records, Site, Step, files_site
from whence.model.quiet import again
from whence.model.verdict import AGAIN, OPEN, REFUTED, Proof, Verdict
from whence.store.private import require_name
from whence.store.producers import file_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CELLS = "cells of array"
_MOST_BOXES, _MOST_LISTED = 64, 200_000  # beyond, a condition on Spark's columns is listed cell by cell, or not at all


class CellRecords:
    """Cells of one array of a run, and, where the array is a table too, how its rows are told."""

    def __init__(self, site: Site, run: Run, node: Node, cells: Numbers, rows: list[RecordId] | None = None) -> None:
        self.site = site
        self.node = node
        self.cells = cells
        self._run = run
        self._rows = rows

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(f"d{axis}" for axis in range(len(self._run.shape(self.node)))), "value")

    def count(self) -> int:
        return len(self.cells) if self._rows is None else len(self._rows)

    def ids(self, most: int | None = None) -> list[RecordId]:
        if self._rows is not None:
            return self._rows[:most]
        return [tuple(cell) for cell in coordinates(self.cells[:most], self._run.shape(self.node)).tolist()]

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        at = coordinates(self.cells[:most], self._run.shape(self.node))
        values = values_at(self._run.array(self.node), at).tolist()
        return [(*cell, value) for cell, value in zip(at.tolist(), values, strict=True)]

    def frame(self) -> DataFrame:
        return self._run.frame(self.node, coordinates(self.cells, self._run.shape(self.node)))

    def others(self) -> DataFrame:
        """The other cells of the array."""
        return self._run.frame(self.node).join(self.frame(), list(self.columns[:-1]), "leftanti")


class ArrayFlow:
    def __init__(self, run: Run, tables: Path) -> None:
        """`tables`: where the tables lie that inputs were made from."""
        self.run = run
        self._tables = tables
        self.name = f"array run {run.id}"
        self._workflow = run.workflow

    # --- what it is

    @property
    def outputs(self) -> tuple[Site, ...]:
        """The frames that were made of its arrays so far; without any, the arrays that no operator reads."""
        return tuple(self._frames) or tuple(self._site(node) for node in self._last)

    @cached_property
    def inputs(self) -> tuple[Site, ...]:
        return tuple(self._input_site(node) for node in self._workflow.inputs)

    @property
    def _last(self) -> list[Node]:
        read = {below for node in self._workflow.nodes for below in node.inputs}
        return [node for node in self._workflow.nodes if node not in read]

    @property
    def _frames(self) -> dict[Site, tuple[Node, Path]]:
        top = self.run.folder.path / "frames"
        if not top.is_dir():
            return {}
        found = {}
        for entry in sorted(os.listdir(top)):
            if not entry.startswith("."):
                node = self._workflow.nodes[int(entry.partition("-")[0])]
                found[files_site(BY_ROW, file_key(str(top / entry)), node.name)] = (node, top / entry)
        return found

    def _site(self, node: Node) -> Site:
        return Site(f"{_CELLS}: {self.run.id}/{self.run.number(node)}", node.name)

    def _input_site(self, node: Node) -> Site:
        source = self.run.source(node)
        if source.get("kind") == "frame":
            return files_site(BY_ROW, file_key(str(self._tables / require_name(source["table"]))), source["name"])
        return Site(self._site(node).key, source.get("name", node.name))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        operators = [node for node in reversed(self._workflow.nodes) if node.operator is not None]
        depth: dict[Node, int] = {}
        for node in operators:
            depth.setdefault(node, 0)
            for below in node.inputs:
                depth[below] = max(depth.get(below, 0), depth[node] + 1)
        return tuple(
            Step(number, label(node.operator), f"{node.name} = {_told(node)}", depth[node])
            for number, node in enumerate(operators)
            if node.operator is not None
        )

    # --- questions

    def backward(self, asked: Records) -> Answer:
        taken = self._taken(asked)
        query, asking = self.run.query(BACKWARD), Asking()
        behind = [node for node in self._workflow.inputs if self._is_behind(node, taken.node)]
        if taken.node.operator is None:
            found = {taken.node: taken.cells}
        else:
            found = query.everywhere(taken.node, taken.cells, behind, asking)
        self.run.remember(asking)
        return Answer(
            {self._input_site(node): self._at_input(node, cells) for node, cells in found.items()},
            tuple(query.notes),
            tuple(query.ended),
        )

    def forward(self, seeds: Records) -> Answer:
        taken = self._taken(seeds)
        frames = self._frames
        ends = list(dict.fromkeys(node for node, _ in frames.values())) or self._last
        ends = [node for node in ends if self._is_behind(taken.node, node)]
        query, asking = self.run.query(FORWARD), Asking()
        found = query.everywhere(taken.node, taken.cells, ends, asking) if ends else {}
        self.run.remember(asking)
        answer: dict[Site, Records] = {}
        for site, (node, directory) in frames.items():
            cells = found.get(node, NONE)
            rows: list[RecordId] = [(file_key(file), row) for file, row in rows_of_cells(directory, cells)]
            answer[site] = CellRecords(site, self.run, node, cells, rows)
        if not frames:
            answer = {self._site(node): CellRecords(self._site(node), self.run, node, found[node]) for node in ends}
        return Answer(answer, tuple(query.notes), tuple(query.ended))

    def take(self, site: Site, ids: Iterable[RecordId]) -> CellRecords:
        known = list(dict.fromkeys(tuple(one) for one in ids))
        framed = self._frames.get(site)
        if framed is not None:
            node, directory = framed
            cells = cells_of_rows(directory, self.run.shape(node), [(str(f), int(r)) for f, r in known])
            return CellRecords(site, self.run, node, distinct(cells), known)
        for node in self._workflow.nodes:
            if node.operator is None and site == self._input_site(node):
                if self.run.source(node).get("kind") == "frame":
                    found = self._row_map(node).cells([(str(f), int(r)) for f, r in known])
                    return CellRecords(site, self.run, node, found, known)
                return CellRecords(site, self.run, node, self._numbers(node, known))
            if site == self._site(node):
                return CellRecords(site, self.run, node, self._numbers(node, known))
        raise ArrayError(f"{site} is no array of the run {self.run.id}.")

    def at(self, step: Step, asked: Records) -> CellRecords:
        taken = self._taken(asked)
        operators = [node for node in reversed(self._workflow.nodes) if node.operator is not None]
        node = operators[step.number]
        found = NONE
        if self._is_behind(node, taken.node):
            found = self.run.query(BACKWARD).along_all(taken.node, taken.cells, node, Asking())
        return CellRecords(self._site(node), self.run, node, found)

    def verify(self, asked: Records, answer: Answer) -> Verdict:
        """Its operators run again in tracing mode must make the same arrays, and tell the same cells."""
        taken = self._taken(asked)
        asking, silent = Asking(), []
        operators = [n for n in self._workflow.nodes if n.operator is not None and self._is_behind(n, taken.node)]
        for node in operators:
            with again():
                told = self.run.traced_again(node)
            if told is None:
                silent.append(node.name)
            else:
                asking.again[node] = told
        ends = [node for node in self._workflow.inputs if self._is_behind(node, taken.node)]
        found = {taken.node: taken.cells}
        if taken.node.operator is not None:
            found = self.run.query(BACKWARD).everywhere(taken.node, taken.cells, ends, asking)
        known = {site: records.cells for site, records in answer.found.items() if isinstance(records, CellRecords)}
        odd = [n.name for n, cells in found.items() if not np.array_equal(known.get(self._input_site(n), NONE), cells)]
        if odd:
            how = f"its operators, run again, tell other cells of {', '.join(odd)} than were found"
            return Verdict(False, proofs=(Proof(self.name, REFUTED, how),))
        how = f"its {len(asking.again)} operators on the way, run again, made the same arrays and tell the same cells"
        if silent:
            how += f"; {', '.join(silent)} says nothing about its lineage, and was not run"
        return Verdict(False, proofs=(Proof(self.name, AGAIN if not silent else OPEN, how),))

    def files(self, site: Site) -> Collection[str]:
        for node in self._workflow.inputs:
            if site == self._input_site(node) and self.run.source(node).get("kind") == "frame":
                return [file_key(file) for file in self._row_map(node).files]
        framed = self._frames.get(site)
        return [] if framed is None else [file_key(file) for file in frame_files(framed[1])]

    # --- how

    def _numbers(self, node: Node, cells: list[RecordId]) -> Numbers:
        shape = self.run.shape(node)
        odd = next((c for c in cells if len(c) != len(shape) or not all(isinstance(n, int) for n in c)), None)
        if odd is not None:
            raise ArrayError(f"{odd!r} is no cell of {node.name}, whose shape is {shape}.")
        table = (
            np.array(cells, np.int64).reshape(len(cells), len(shape)) if cells else np.empty((0, len(shape)), np.int64)
        )
        return as_set(table, shape, f"the array {node.name}")

    def _taken(self, asked: Records) -> CellRecords:
        return asked if isinstance(asked, CellRecords) else self.take(asked.site, asked.ids())

    @cache  # noqa: B019 - a flow lives as long as its session
    def _row_map(self, node: Node) -> RowMap:
        source = self.run.source(node)
        path = self.run.folder.path / f"{self.run.number(node)}.rows"
        return RowMap(path, self._tables / require_name(source["table"]), self.run.shape(node), source["axes"])

    def _at_input(self, node: Node, cells: Numbers) -> Records:
        site = self._input_site(node)
        rows: list[RecordId] | None = None
        if self.run.source(node).get("kind") == "frame":
            rows = [(file_key(file), row) for file, row in self._row_map(node).rows(cells)]
        return CellRecords(site, self.run, node, cells, rows)

    def _is_behind(self, node: Node, other: Node) -> bool:
        """Whether a way leads back from `other` to `node`."""
        seen, waiting = {other}, [other]
        while waiting:
            for below in waiting.pop().inputs:
                if below not in seen:
                    seen.add(below)
                    waiting.append(below)
        return node in seen

    def rows_at(self, site: Site, coordinates_: Any) -> list[RecordId]:
        """The rows of an input's table that have these coordinates."""
        for node in self._workflow.inputs:
            if site == self._input_site(node):
                table = np.array(coordinates_, np.int64).reshape(len(coordinates_), self.axes(site))
                return [(file_key(file), row) for file, row in self._row_map(node).cells_at(table)]
        raise ArrayError(f"{site} is no table that the run {self.run.id} was made from.")

    def table(self, site: Site) -> str | None:
        """Where the table lies that an input was made from."""
        for node in self._workflow.inputs:
            if site == self._input_site(node) and self.run.source(node).get("kind") == "frame":
                return str(self._tables / require_name(self.run.source(node)["table"]))
        return None

    def condition(self, site: Site, rows: list[RecordId]) -> str:
        """What the rows of an input's table, and no others, meet: boxes of their coordinates."""
        for node in self._workflow.inputs:
            if site == self._input_site(node):
                shape = self.run.shape(node)[: self.axes(site)]
                cells = self._row_map(node).index_cells([(str(f), int(r)) for f, r in rows])
                low, high = boxes_of(cells, shape)
                if len(low) > _MOST_BOXES and len(cells) <= _MOST_LISTED:
                    strides = zip(range(len(shape)), strides_of(shape).tolist(), strict=True)
                    number = " + ".join(f"CAST(d{k} AS BIGINT) * {stride}" for k, stride in strides)
                    return f"{number} IN ({', '.join(map(str, cells.tolist()))})"
                return _condition(low, high)
        raise ArrayError(f"{site} is no table that the run {self.run.id} was made from.")

    def axes(self, site: Site) -> int:
        found: Mapping[Site, int] = {
            self._input_site(node): int(self.run.source(node).get("axes", 0)) for node in self._workflow.inputs
        }
        return found[site]


def _condition(low: Any, high: Any) -> str:
    parts = []
    for first, last in zip(low.tolist(), high.tolist(), strict=True):
        axes = enumerate(zip(first, last, strict=True))
        parts.append(" AND ".join(f"d{k} = {a}" if a == b else f"d{k} BETWEEN {a} AND {b}" for k, (a, b) in axes))
    return " OR ".join(f"({part})" for part in parts) or "false"


def _told(node: Node) -> str:
    assert node.operator is not None
    return f"{label(node.operator)}({', '.join(below.name for below in node.inputs)})"
