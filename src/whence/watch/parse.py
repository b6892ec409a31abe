"""From the JSON of one execution to an Observation: commands first, then the query under them, then its columns."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from whence.model import COMPLETED, FAILED, Run
from whence.model.lineage import (
    DIRECT,
    EVERY_COLUMN,
    INDIRECT,
    INPUT,
    OUTPUT,
    WRITES,
    Change,
    ColumnLink,
    Link,
    Observation,
    Use,
)
from whence.watch.columns import SUBTYPES, Contribution, Contributions, is_direct
from whence.watch.commands import ALTERS, COMMANDS, SILENT, Effect, alter
from whence.watch.nodes import NODES, Node, Reading, TooLong
from whence.watch.sources import Place

MOST_LINKS = 200_000
"""Column links of one run. Beyond it (thousands of columns, each from thousands) only datasets are kept."""

READERS = frozenset(["csv", "json", "xml", "text", "load", "parquet", "orc", "table", "jdbc", "avro", "format"])
"""A job under one of these looks for a schema; nobody asked for its rows."""


def observe(snapshot: Mapping[str, Any], place: Place) -> Observation | None:
    """None when the execution neither read nor made anything that can be named."""
    plan = snapshot.get("plan")
    if not isinstance(plan, dict) or plan.get("c") in (None, "CommandResult"):
        return _never_ran(snapshot, place) if plan is None and snapshot.get("error") else None
    if snapshot.get("coarse"):
        return _observe(snapshot, place, plan, "plan too large: datasets only")
    try:
        return _observe(snapshot, place, plan, None)
    except TooLong:
        return _observe(snapshot, place, plan, "plan took too long: datasets only")
    except RecursionError:
        return _observe(snapshot, place, plan, "plan too deep: datasets only")


def _observe(snapshot: Mapping[str, Any], place: Place, plan: Node, cut: str | None) -> Observation | None:
    """`cut` says why only datasets can be told of a plan, if so."""
    reading = Reading(place, math.inf if cut else None)
    built = Builder(reading, cut is not None)
    for command in _commands(plan):
        reading.read = set()
        effects = effects_of(command, reading, snapshot)
        if effects is None:
            return None
        for effect in effects:
            built.add(effect)
        if not effects:
            if str(snapshot.get("call")).partition(" at ")[0] in READERS:
                return None
            built.collect(plan)
    if not built.links and not built.changes and not reading.read:
        return None
    return built.observation(run_of(snapshot, place, plan, reading, cut), snapshot)


def _never_ran(snapshot: Mapping[str, Any], place: Place) -> Observation:
    """A query that failed before it had a plan, say because a table does not exist."""
    return Observation(run_of(snapshot, place, {"c": "Unresolved"}, Reading(place)))


def _commands(plan: Node) -> list[Node]:
    """A statement with several INSERTs is a union of commands."""
    children = plan.get("k") or []
    if plan["c"] == "Union" and children and all(c["c"] in COMMANDS for c in children):
        return list(children)
    return [plan]


def observe_batch(snapshot: Mapping[str, Any], stream: Mapping[str, Any], place: Place) -> Observation | None:
    """What `foreachBatch` did: the batch's plan has lost its source, so the stream's own plan stands in."""
    plan, outer = snapshot.get("plan"), stream.get("plan")
    if not isinstance(plan, dict) or not isinstance(outer, dict) or not outer.get("k"):
        return observe(snapshot, place)
    reading = Reading(place)
    row = reading.rows(outer["k"][0])
    reading.batch = (dict(reading.outputs(outer["k"][0])), frozenset(row), frozenset(reading.read))
    reading.read = set()
    effects = effects_of(plan, reading, snapshot)
    if not effects:
        return None
    built = Builder(reading, bool(snapshot.get("coarse")))
    for effect in effects:
        built.add(effect)
    return built.observation(run_of(snapshot, place, plan, reading), snapshot)


def effects_of(plan: Node, reading: Reading, snapshot: Mapping[str, Any]) -> list[Effect] | None:
    """What a command does; [] for a query whose rows go to the application; None for what is not recorded."""
    name = plan["c"]
    rule = COMMANDS.get(name)
    fields = plan.get("f", {})
    if snapshot.get("dynamic"):
        fields = {**fields, "dynamic": True}
    for key in ("now", "made", "written", "error"):
        if snapshot.get(key):
            fields = {**fields, key: snapshot[key]}
    if rule is not None:
        return rule(reading, fields, plan) or None
    if name.startswith(ALTERS):
        return alter(reading, fields, plan) or None
    if name.startswith(SILENT):
        return None
    if name.endswith("Command"):
        reading.gaps[name] += 1
    return []


class Builder:
    """Gathers the links of one run."""

    def __init__(self, reading: Reading, coarse: bool) -> None:
        self._reading = reading
        self._coarse = coarse
        self.changes: list[Change] = []
        self.links: dict[Link, None] = {}
        self.columns: dict[ColumnLink, None] = {}
        self._too_many = False
        self._read: set[int] = set()

    def add(self, effect: Effect) -> None:
        reading = self._reading
        row: Iterable[Contribution] = effect.row
        columns: Iterable[tuple[str, Contributions]] = effect.columns or ()
        if effect.query is not None:
            if self._coarse:
                self._leaves(effect.query)
            else:
                row = reading.rows(effect.query)
                found = reading.outputs(effect.query)
                names = effect.names if len(effect.names) == len(found) else [name for name, _ in found]
                columns = [(name, contributions) for name, (_, contributions) in zip(names, found, strict=True)]
        target = reading.dataset(effect.target)
        to = reading.dataset(effect.to) if effect.to else None
        self.changes.append(Change(target, effect.how, to, effect.version))
        sources = {reading.dataset(seen) for seen in effect.reads} | reading.read
        if effect.kind in ("drop", "rename", "alter", "truncate"):
            sources = set()
        self._read |= sources
        for source in sorted(sources):
            kind = "score" if reading.datasets[source].kind == "model" else effect.kind
            self.links[Link(source, target, kind)] = None
        self._column_links(target, columns, row)
        self._views()

    def collect(self, plan: Node) -> None:
        """Rows that go to the application: what was read is an input of the run, and nothing follows from it."""
        if self._coarse:
            self._leaves(plan)
        else:
            self._reading.rows(plan)
        self._read |= self._reading.read
        self._views()

    def _leaves(self, node: Node) -> None:
        """Every leaf, also those of subqueries inside expressions."""
        todo: list[Any] = [node]
        while todo:
            found = todo.pop()
            if isinstance(found, list):
                todo.extend(reversed(found))
            elif isinstance(found, dict):
                if "out" in found and not found.get("k") and found["c"] not in NODES:
                    self._reading.rows(found)
                else:
                    todo.extend(reversed([v for v in found.values() if isinstance(v, dict | list)]))

    def _views(self) -> None:
        """What each view that was read is made of, so that the way does not end at a view made before attaching."""
        views, self._reading.views = self._reading.views, {}
        for view, (sources, columns, row) in views.items():
            if not sources:
                continue
            self.changes.append(Change(view, "define"))
            for source in sorted(sources):
                self.links[Link(source, view, "view")] = None
            self._column_links(view, columns, row)

    def _column_links(
        self, target: int, columns: Iterable[tuple[str, Contributions]], row: Iterable[Contribution]
    ) -> None:
        if self._too_many:
            return
        for name, contributions in columns:
            for contribution in contributions:
                self._column_link(target, name, contribution)
            if len(self.columns) > MOST_LINKS:
                self._too_many = True
                self.columns.clear()
                self._reading.gaps["too many columns"] += 1
                return
        for contribution in row:
            self._column_link(target, EVERY_COLUMN, contribution)

    def _column_link(self, target: int, name: str, contribution: Contribution) -> None:
        source, column, transformation, masked = contribution
        kind = DIRECT if is_direct(transformation) else INDIRECT
        self.columns[ColumnLink(source, column, target, name, kind, SUBTYPES[transformation], masked)] = None

    def observation(self, run: Run, snapshot: Mapping[str, Any]) -> Observation:
        counted = _counted(snapshot, self._reading)
        read = self._read | {link.source for link in self.links}
        uses = [Use(place, INPUT, *counted.get(place, (None, None))) for place in sorted(read)]
        written = dict.fromkeys(change.dataset for change in self.changes if change.how in WRITES)
        if len(written) == 1:
            uses += [Use(place, OUTPUT, *_written(snapshot)) for place in written]
        known = tuple(self._reading.datasets)
        return Observation(run, known, tuple(self.changes), tuple(self.links), tuple(self.columns), tuple(uses))


Count = tuple[int | None, int | None]
"""Rows and bytes."""


def _counted(snapshot: Mapping[str, Any], reading: Reading) -> dict[int, Count]:
    """What Spark's scans counted, for each dataset that was read; nothing where a scan may be of several."""
    if snapshot.get("error"):
        return {}
    leaves = {d for some in reading.leaf_of.values() for d in some if reading.datasets[d].kind != "memory"}
    found: dict[int, Count] = {}
    for attributes, rows, size in snapshot.get("scans") or ():
        behind = {d for number in attributes for d in reading.leaf_of.get(number, ())} or leaves
        if len(behind) != 1:
            return {}
        (dataset,) = behind
        found[dataset] = _sum(found.get(dataset, (0, 0)), (rows, size if size >= 0 else None))
    moved = snapshot.get("moved") or (0, 0, 0, 0)
    if not found and moved[0] > 0 and len(leaves) == 1 and not (snapshot.get("kept") or reading.kept):
        found[next(iter(leaves))] = (moved[0], moved[1])  # no scan counted: an RDD, or a plan inside the command
    return found


def _sum(one: Count, two: Count) -> Count:
    rows = None if one[0] is None or two[0] is None else one[0] + two[0]
    return rows, None if one[1] is None or two[1] is None else one[1] + two[1]


def _written(snapshot: Mapping[str, Any]) -> Count:
    if snapshot.get("error"):
        return None, None
    if snapshot.get("written"):
        rows, size = snapshot["written"]
        return rows, size
    moved = snapshot.get("moved") or (0, 0, 0, 0)
    return (moved[2], moved[3] or None) if moved[2] > 0 else (None, None)


def together(seen: Mapping[str, Any], inner: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A snapshot with what Spark counted in the executions inside it."""
    every = [seen, *inner]
    found = dict(seen)
    found["kept"] = any(one.get("kept") for one in every)
    found["scans"] = [scan for one in every for scan in one.get("scans") or ()]
    for key in ("moved", "written"):
        some = [one[key] for one in every if one.get(key)]
        if some:
            found[key] = [sum(values) for values in zip(*some, strict=True)]
    return found


def run_of(snapshot: Mapping[str, Any], place: Place, plan: Node, reading: Reading, cut: str | None = None) -> Run:
    details: dict[str, object] = {
        "command": plan["c"],
        "action": snapshot.get("action", ""),
        "call": snapshot.get("call", ""),
    }
    if snapshot.get("sql"):
        details["sql"] = snapshot["sql"]
    gaps = dict(reading.gaps)
    if cut is not None:
        gaps[cut] = 1
    if gaps:
        details["gaps"] = gaps
    if reading.scope.functions:
        details["functions"] = sorted(reading.scope.functions)
    error = snapshot.get("error")
    return Run(
        str(uuid.uuid4()),
        "query",
        str(snapshot.get("sql") or snapshot.get("call") or plan["c"])[:200],
        FAILED if error else COMPLETED,
        error,
        moment(snapshot.get("started")),
        moment(snapshot.get("ended")),
        place.application_id,
        details,
    )


def moment(millis: object) -> datetime | None:
    return datetime.fromtimestamp(millis / 1000, timezone.utc) if isinstance(millis, (int, float)) else None


def with_topics(observation: Observation, patterns: Mapping[str, list[str]]) -> Observation:
    """A pattern of topics replaced by the topics that it matched."""
    datasets = list(observation.datasets)
    links, columns, uses = list(observation.links), list(observation.columns), list(observation.uses)
    for place, seen in enumerate(observation.datasets):
        topics = patterns.get(seen.name) if seen.kind == "topic" else None
        if not topics:
            continue
        datasets[place] = replace(seen, name=topics[0])
        for topic in topics[1:]:
            datasets.append(replace(seen, name=topic))
            new = len(datasets) - 1
            links += [replace(link, source=new) for link in observation.links if link.source == place]
            columns += [replace(c, source=new) for c in observation.columns if c.source == place]
            uses += [Use(new, INPUT) for u in observation.uses if u.dataset == place and u.role == INPUT]
    return replace(observation, datasets=tuple(datasets), links=tuple(links), columns=tuple(columns), uses=tuple(uses))
