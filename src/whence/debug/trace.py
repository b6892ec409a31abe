"""A Trace: the answer to a lineage question, which can be walked, shown, replayed and verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, overload

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from whence.model import Strategy, WhenceError, operators
from whence.model.once import once
from whence.model.text import visible
from whence.sql import Evaluation, Place, ReadingPlace, SqlLineage, counting, evaluation, facts, fetch, given, versions
from whence.sql.catalyst import Plan
from whence.sql.replay import ReplayedStep, Restriction, restricted, stepwise
from whence.sql.verify import Verdict, compare, require_same_rows, with_sources

if TYPE_CHECKING:
    from whence.debug.explain.explain import Explanation

# Operators that only name or hint; a reader of the steps has no use for them.
_NAMES_ONLY = (*operators.NAMES_ONLY, "View", "LocalLimit", "Settled", "Given")


@dataclass(frozen=True)
class Step:
    """One operator on the way; steps are numbered from the result to the sources."""

    number: int
    operator: str
    text: str
    depth: int

    def __str__(self) -> str:
        return visible(self.text)


@dataclass(frozen=True, eq=False)
class ReadingRows:
    """One place in the query that reads, and the witnesses there."""

    number: int
    source: str
    rows: DataFrame


class Trace:
    """Made by `Session.backward` and `Session.forward`. Nothing is computed before it is asked for."""

    def __init__(
        self,
        lineage: SqlLineage,
        *,
        direction: str = "backward",
        root: Plan | None = None,
        seeds: SqlLineage | None = None,
    ) -> None:
        """`seeds`: the rows that a forward trace starts from, which must be found first."""
        self._lineage = lineage
        self._root = root
        self._asked = [lineage] if seeds is None else [lineage, seeds]
        self.direction = direction

    # --- what was found

    @property
    def rows(self) -> DataFrame:
        """The rows that were asked for (backward) or that are touched (forward)."""
        if self._root is None:
            return self._lineage.frame
        lineage = self._lineage
        ids = facts.positions_of(lineage.c, lineage.root.annotated.attrs, self._root)
        return given.give(lineage.c, lineage.tree, self._root, ids)

    @once
    def sources(self) -> Mapping[str, DataFrame]:
        """The witness rows of each dataset that was read, with the dataset's own columns."""
        return _Sources(self, self._names)

    def __getitem__(self, source: str) -> DataFrame:
        return self.sources[source]

    @once
    def readings(self) -> tuple[ReadingRows, ...]:
        """The same, apart for each place in the query that reads."""
        names = {place.number: name for name, places in self._names.items() for place in places}
        return tuple(ReadingRows(place.number, names[place.number], self._rows_of([place])) for place in self._told)

    @once
    def steps(self) -> tuple[Step, ...]:
        """The operators on the way, nearest the result first."""
        depths = self._depths
        return tuple(
            Step(number, place.node.kind, place.node.text, depths[id(place.node)])
            for number, place in enumerate(self._shown_places)
        )

    def at(self, step: Step | int) -> DataFrame:
        """The rows at that step which lie on the way of this trace."""
        place = self._place(step)
        c = self._lineage.c
        if not place.annotated.links:  # nothing is on the way there
            return c.frame(evaluation.rows_at(self._found, place))
        # Rows that were written down are those of the node above the operator.
        settled = (n for n in self._lineage.tree.walk() if n.fact is not None and n.children[0] is place.node)
        rows = evaluation.told_rows_at(self._found, place)
        return given.give(c, next(settled, place.node), rows, facts.positions_of(c, place.annotated.attrs, rows))

    def step_counts(self) -> tuple[int, ...]:
        """How many rows lie on the way at each step: one job for each block of the query."""
        return counting.counts_at(self._found, self._shown_places)

    @once
    def witness_counts(self) -> Mapping[str, int]:
        """How many witnesses each source has: counted from their identities, without reading a row.

        Only where equal rows have one identity (rows told by contents) the rows themselves are counted."""
        return {name: self._count_of(name, places) for name, places in self._names.items()}

    def _count_of(self, name: str, places: list[ReadingPlace]) -> int:
        count = counting.count_of(self._found, places)
        if not count or not places[0].dataset.by_contents:
            return count
        with self._lineage.c.quietly():
            return self.sources[name].count()

    def first_rows(self, source: str, count: int) -> list[Row]:
        """Some witnesses of a source, read by their position where that is possible, without a scan."""
        places = self._names_or_error(source)
        c = self._lineage.c
        with c.quietly():
            try:
                alike = len(versions.states(c, places)) == 1
                rows = fetch.first_rows(c, places[0], self._ids_of(places), count) if alike else None
                return self.sources[source].limit(count).collect() if rows is None else rows
            except (ValueError, OverflowError, NotImplementedError):
                # Spark has values that Python has not, such as years beyond 9999: then all of them as texts.
                frame = self.sources[source].limit(count)
                names = [f"c{i}" for i in range(len(frame.columns))]
                texts = frame.toDF(*names).select(*[F.col(name).cast("string") for name in names])
                return [Row(*frame.columns)(*row) for row in texts.collect()]

    def first_records(self, source: str, count: int) -> list[str]:
        """Where some witnesses of a source stand: as `associations()` tells a record."""
        places = self._names_or_error(source)
        c = self._lineage.c
        with c.quietly():
            ids = self._ids_of(places).limit(count).selectExpr(f"0 as {evaluation.OUTPUT}", "*")
            return [row[0] for row in ids.select(evaluation.record_of(c, places[0], ids, places[1:])).collect()]

    def associations(self) -> DataFrame:
        """Which source record each output record came from: columns output, source, record.

        `output` is the number that `outputs()` gives each row."""
        return evaluation.associations(
            self._found_per_output,
            {place.number: name for name, places in self._names.items() for place in places},
        )

    def outputs(self) -> DataFrame:
        """The asked rows, each with its number in `associations()`."""
        found = self._found_per_output
        assert found.rows is not None
        assert found.output is not None
        c = found.c
        return c.frame(c.project([found.output, *c.output(self._lineage.tree.plan)], c.plan_of(found.rows)))

    def witnesses_per_output(self) -> Iterator[tuple[int, DataFrame]]:
        """For each reading: its witness rows, each with the number of the output it belongs to."""
        c = self._lineage.c
        for place in self._told:
            found = self._found_per_output
            yield place.number, c.frame(evaluation.leaf_rows_per_output(found, place))

    @property
    def strategy(self) -> Strategy:
        """How the witnesses were found: stored (from what was captured), or rerun (parts of the query were run)."""
        told = {place.number for place in self._told}
        return Strategy.STORED if told and told <= self._found.stored else Strategy.RERUN

    @property
    def exact(self) -> bool:
        return all(lineage.exactness.exact for lineage in self._asked)

    @property
    def notes(self) -> tuple[str, ...]:
        """Why the answer may hold more rows than needed, and at which captured tables the trace ends, and why."""
        notes = [(*lineage.exactness.notes, *lineage.passage.notes) for lineage in self._asked]
        return tuple(dict.fromkeys(note for some in notes for note in some))

    @property
    def reruns(self) -> tuple[str, ...]:
        """Functions of yours that working out this answer runs again, with whatever they do besides."""
        return tuple(dict.fromkeys(name for lineage in self._asked for name in lineage.reruns))

    # --- what follows from it

    @overload
    def replay(self, df: DataFrame | None = None) -> DataFrame: ...

    @overload
    def replay(self, *, steps: Literal[True]) -> Iterator[ReplayedStep]: ...

    def replay(self, df: DataFrame | None = None, *, steps: bool = False) -> DataFrame | Iterator[ReplayedStep]:
        """The asked query, or another one over the same sources, on the witnesses alone.

        With steps: operator by operator instead, sources first, each with its input and its output."""
        if steps:
            return stepwise(self._lineage, self._restriction("leftsemi"), _NAMES_ONLY)
        return restricted(self._lineage, df, self._restriction("leftsemi"))

    def exclude(
        self, df: DataFrame | None = None, *, source: str | None = None, at: Step | int | None = None
    ) -> DataFrame:
        """The asked query, or another one, without the witnesses: of all sources, of one, or at one step."""
        if at is not None:
            return restricted(self._lineage, df, Restriction("leftanti", {}, at=self._at(at)))
        return restricted(self._lineage, df, self._restriction("leftanti", source))

    def verify(self) -> Verdict:
        """Proof: the query, run again on the witnesses alone, must give the asked rows again, and `sources` must show
        the witnesses of every reading."""
        again = self.replay()
        with self._lineage.c.quietly():
            verdict = compare(self.rows, again, extras_count=self.direction == "backward" and self.exact)
            readings = {name: [self._rows_of([place]) for place in places] for name, places in self._names.items()}
            return with_sources(verdict, self.sources, readings)

    def influence(self, column: str, source: str | None = None) -> DataFrame:
        """The witnesses ranked, source by source, by how much each moved that column: columns output, source, record,
        influence, without, outcome, and the witness itself (with `source`: its own columns; else `row`, as JSON).

        Influence is the value that the output has less `without`, the value it would have without the witness."""
        from whence.sql.influence.influence import influence

        if source is not None:
            self._names_or_error(source)
        return influence(self._lineage, self._found_per_output, column, self._names, source)

    def explain(self, source: str | None = None, *, with_keys: bool = False, **options: Any) -> Explanation:
        """Conditions on a source's columns that set the witnesses apart from its other rows.

        Without `source`: of the source with the most witnesses that are not all of its rows. What the query itself
        groups or filters by chose the witnesses and explains nothing: only `with_keys` or `columns` takes it in."""
        from whence.debug.explain.explain import explain
        from whence.sql.key_columns import key_columns

        with self._lineage.c.quietly():
            name = source or self._source_to_explain()
            places = self._names_or_error(name)
            rows = self._rows_of(places)
            if not with_keys and options.get("columns") is None:
                keys = key_columns(self._lineage.c, self._lineage.tree, places)
                options["columns"] = [column for column in rows.columns if column not in keys]
                if not options["columns"]:
                    raise WhenceError(
                        f"There is nothing to explain: the query groups or filters by every column of {name} "
                        f"({', '.join(keys)}), and a condition on these says only what was asked. "
                        "explain(with_keys=True) takes them in."
                    )
            return explain(rows, self._others_of(places), **options)

    # --- how it is computed

    @once
    def _found(self) -> Evaluation:
        require_same_rows(self._lineage)
        return evaluation.backward(self._lineage, self._root)

    @once
    def _found_per_output(self) -> Evaluation:
        require_same_rows(self._lineage)
        return evaluation.backward(self._lineage, self._root, per_output=True)

    @once
    def _names(self) -> dict[str, list[ReadingPlace]]:
        c = self._lineage.c
        by_key: dict[str, list[ReadingPlace]] = {}
        for place in self._told:
            by_key.setdefault(place.dataset.key, []).append(place)
        groups: list[list[ReadingPlace]] = []
        for places in by_key.values():
            # One table in two states is one source, unless its columns were changed in between.
            apart = versions.by_columns(c, places) if len(versions.states(c, places)) > 1 else [places]
            groups += apart
        datasets = [places[0].dataset for places in groups]
        names: dict[str, list[ReadingPlace]] = {}
        for places, dataset in zip(groups, datasets, strict=True):
            name = dataset.name
            if [other.name for other in datasets].count(name) > 1:
                name = dataset.full_name
                if [other.full_name for other in datasets].count(name) > 1 and dataset.how:
                    name = f"{name} ({dataset.how})"
            while name in names:
                name += "'"
            names[name] = places
        return names

    @property
    def _told(self) -> list[ReadingPlace]:
        return [place for place in self._lineage.readings if not place.auxiliary]

    def _rows_of(self, places: list[ReadingPlace]) -> DataFrame:
        """The witnesses at these readings of one dataset, each row once, also if they read it in different states."""
        self._lineage.require_unchanged()
        parts: list[DataFrame] = []
        told: DataFrame | None = None
        for alike in versions.states(self._lineage.c, places):
            ids = self._ids_of(alike)
            parts.append(self._leaf_rows(alike[0], ids if told is None else ids.subtract(told), "leftsemi"))
            told = ids if told is None else told.union(ids)
        return reduce(DataFrame.unionAll, parts)

    def _others_of(self, places: list[ReadingPlace]) -> DataFrame:
        c = self._lineage.c
        parts: list[DataFrame] = []
        ids = self._ids_of(places)
        for alike in versions.states(c, places):
            parts.append(self._leaf_rows(alike[0], ids, "leftanti"))
            ids = ids.union(evaluation.all_ids(c, alike[0]))
        return reduce(DataFrame.unionAll, parts)

    def _leaf_rows(self, place: ReadingPlace, ids: DataFrame, kind: str) -> DataFrame:
        c = self._lineage.c
        rows, at = evaluation.told_leaf_rows(c, place, ids, kind)
        return given.give(c, place.leaf, rows, at, place.dataset.name)

    def _source_to_explain(self) -> str:
        counts = self.witness_counts
        for name in sorted(counts, key=lambda n: -counts[n]):
            if counts[name] and not self._others_of(self._names[name]).isEmpty():
                return name
        raise WhenceError(
            "There is nothing to explain: no source of this trace has both witnesses and other rows "
            f"({', '.join(f'{name}: {count} witnesses' for name, count in counts.items())})."
        )

    def _names_or_error(self, source: str) -> list[ReadingPlace]:
        if source not in self._names:
            raise KeyError(f"{source!r} is not a source of this trace; its sources are {', '.join(self._names)}")
        return self._names[source]

    def _ids_of(self, places: list[ReadingPlace]) -> DataFrame:
        return evaluation.ids_of(self._found, places)

    def _restriction(self, kind: str, source: str | None = None) -> Restriction:
        places = self._lineage.readings if source is None else self._names_or_error(source)
        self._lineage.require_unchanged()
        frozen = {place.node: evaluation.rows_at(self._found, place, kind) for place in self._lineage.frozen}
        return Restriction(kind, {place.number: self._ids_of([place]) for place in places}, frozen=frozen)

    def _at(self, step: Step | int) -> tuple[Place, Evaluation]:
        return self._place(step), self._found

    @once
    def _shown_places(self) -> list[Place]:
        return [place for place in self._lineage.places if place.node.kind not in _NAMES_ONLY]

    def _place(self, step: Step | int) -> Place:
        number = step if isinstance(step, int) else step.number
        if not 0 <= number < len(self._shown_places):
            raise IndexError(f"This trace has {len(self._shown_places)} steps, numbered from 0; there is no {number}")
        return self._shown_places[number]

    @property
    def _depths(self) -> dict[int, int]:
        depths: dict[int, int] = {}

        def visit(node: object, depth: int) -> None:
            from whence.sql import Node

            assert isinstance(node, Node)
            depths[id(node)] = depth
            below = depth if node.kind in _NAMES_ONLY else depth + 1
            for child in (*node.children, *node.subqueries.values()):
                visit(child, below)

        visit(self._lineage.tree, 0)
        return depths

    def __repr__(self) -> str:
        names = visible(", ".join(self._names) or "no source")
        return f"<Trace {self.direction} over {names}; print it to compute and show it>"

    def __str__(self) -> str:
        from whence.debug.show import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from whence.debug.show import as_html

        return as_html(self)


class _Sources(Mapping[str, DataFrame]):
    """Made row by row of the mapping, so that asking for one source does not plan the others."""

    def __init__(self, trace: Trace, names: dict[str, list[ReadingPlace]]) -> None:
        self._trace = trace
        self._names = names
        self._frames: dict[str, DataFrame] = {}

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._frames:
            self._frames[name] = self._trace._rows_of(self._trace._names_or_error(name))
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return visible(f"sources: {', '.join(self._names)}")
