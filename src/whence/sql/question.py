"""One question about the rows of one query: what its lineage finds for them, and what follows from that.

Nothing is computed before it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, functions

from whence.model import NonDeterministic, Strategy, operators
from whence.model.flow import Step
from whence.model.once import once
from whence.model.verdict import Verdict
from whence.sql import (
    Evaluation,
    Place,
    ReadingPlace,
    SqlLineage,
    counting,
    evaluation,
    facts,
    fetch,
    found_rows,
    given,
    pairs,
    versions,
)
from whence.sql.by_operators import proven_by_operators
from whence.sql.catalyst import Plan
from whence.sql.computed_before import rows_for_next
from whence.sql.direct import direct_rows, direct_values
from whence.sql.evaluation import Frames
from whence.sql.line_rows import places_of, rows_at, why_not_by_byte
from whence.sql.replay import Alike, ReplayedStep, Restriction, not_on_the_way, restricted, stepwise
from whence.sql.selection import gives_one_row
from whence.sql.sources import is_of_parameters
from whence.sql.verify import (
    apart,
    as_asked,
    compare,
    compare_steady,
    require_same_rows,
    unsorted,
    without_barriers,
)

# Up to this many identities are sent to every executor.
_SENT = 200_000
# Operators that only name or hint; a reader of the steps has no use for them.
_NAMES_ONLY = (*operators.LOOKED_THROUGH, "LocalLimit", "Settled", "Given")


@dataclass(frozen=True, eq=False)
class ReadingRows:
    """One place in the query that reads, and the witnesses there."""

    number: int
    source: str
    rows: DataFrame


class SqlQuestion:
    """`root`: the rows of the query's root block that are asked about; all of them without."""

    def __init__(
        self,
        lineage: SqlLineage,
        *,
        direction: str = "backward",
        root: Plan | None = None,
        seeds: SqlLineage | None = None,
    ) -> None:
        """`seeds`: the rows that a forward trace starts from, which must be found first."""
        self.lineage = lineage
        self._root = root
        self._asked = [lineage] if seeds is None else [lineage, seeds]
        self.direction = direction

    # --- what was found

    @property
    def rows(self) -> DataFrame:
        """The rows that were asked for (backward) or that are touched (forward)."""
        if self._root is None:
            return self.lineage.frame
        lineage, root = self.lineage, self._root_rows
        ids = facts.positions_of(lineage.c, lineage.root.annotated.attrs, root)
        return given.give(lineage.c, lineage.tree, root, ids)

    @once
    def _root_rows(self) -> Plan:
        """The rows of the root block that are asked about. A query that gives one row whatever touches it gives that
        to the next question too, so it is computed once."""
        assert self._root is not None
        if not gives_one_row(self.lineage.c, self.lineage.tree):
            return self._root
        with self.lineage.c.quietly():
            return rows_for_next(self.lineage.c, self._root).plan

    @once
    def readings(self) -> tuple[ReadingRows, ...]:
        """The same, apart for each place in the query that reads."""
        names = {place.number: name for name, places in self.names.items() for place in places}
        return tuple(ReadingRows(place.number, names[place.number], self.rows_of([place])) for place in self.told)

    @once
    def steps(self) -> tuple[Step, ...]:
        """The operators on the way, nearest the result first."""
        depths = self._depths
        return tuple(
            Step(number, place.node.kind, place.node.text, depths[id(place.node)])
            for number, place in enumerate(self.shown_places)
        )

    def at(self, step: Step | int) -> DataFrame:
        """The rows at that step which lie on the way of this trace."""
        place = self._place(step)
        c = self.lineage.c
        if not place.annotated.links:  # nothing is on the way there
            return c.frame(found_rows.rows_at(self.found, place))
        # Rows that were written down are those of the node above the operator.
        settled = (n for n in self.lineage.tree.walk() if n.fact is not None and n.children[0] is place.node)
        rows = found_rows.told_rows_at(self.found, place)
        return given.give(c, next(settled, place.node), rows, facts.positions_of(c, place.annotated.attrs, rows))

    @once
    def step_counts(self) -> tuple[int, ...]:
        """How many rows lie on the way at each step: at most one job for each block of the query."""
        return counting.counts_at(self.found, self.shown_places)

    def count_of(self, places: list[ReadingPlace]) -> int:
        """How many witnesses these readings of one dataset have: counted from their identities, without reading a row.

        Only where equal rows have one identity (rows told by contents) the rows themselves are counted."""
        count = counting.count_of(self.found, places)
        if not count or not places[0].dataset.by_contents:
            return count
        with self.lineage.c.quietly():
            return self.rows_of(places).count()

    def first_ids(self, places: list[ReadingPlace], count: int) -> list[tuple[int, ...]]:
        """Identities of some witnesses at these readings of one dataset."""
        with self.lineage.c.quietly():
            return counting.first_identities(self.found, places, count)

    def rows_at(self, places: list[ReadingPlace], ids: Sequence[tuple[int, ...]]) -> list[Row] | None:
        """The rows with these identities read by their position where that is possible, without a scan."""
        c = self.lineage.c
        if len(versions.states(c, places)) > 1:
            return None
        return fetch.rows_at(c, places[0], ids)

    def placed_at(
        self, places: list[ReadingPlace], some: Sequence[tuple[int, ...]], ids: Callable[[], DataFrame]
    ) -> list[tuple[Row, str]] | None:
        """The rows with some identities, each with its file and line; None where they are not lines of files.

        `ids`: all of them, should the rows be looked for."""
        c = self.lineage.c
        leaf = places[0].leaf.plan
        if not c.is_file_scan(leaf) or why_not_by_byte(c, leaf) is not None or len(versions.states(c, places)) > 1:
            return None
        paths = {c.hash64_of_text(path): path for place in places for path in c.files(place.leaf.plan)}
        names = [a.name() for a in c.output(leaf)]
        with c.quietly():
            told = sorted(((file, row) for file, row in some), key=lambda one: (paths[one[0]], one[1]))
            known = places_of(c, leaf, paths, told)
            if known is None:
                return None
            try:
                found = rows_at(c, leaf, paths, told)
                if found is None:
                    told, found = self._scanned_rows(places[0], ids(), len(some))
                    known = places_of(c, leaf, paths, told)
            except (ValueError, OverflowError, NotImplementedError, PySparkException):  # values that Python has not
                return None
        if known is None:
            return None
        make = Row(*names) if len(set(names)) == len(names) else Row
        return [(make(*values), known[one]) for one, values in zip(told, found, strict=True)]

    def _scanned_rows(
        self, place: ReadingPlace, ids: DataFrame, count: int
    ) -> tuple[list[tuple[int, int]], list[tuple[Any, ...]]]:
        """Some of these rows, and how the query tells them, in one job."""
        c = self.lineage.c
        rows, at = found_rows.told_leaf_rows(c, place, ids, "leftsemi")
        found = c.frame(c.limit(count, rows)).collect()
        return [(row[at[0]], row[at[1]]) for row in found], [tuple(row)[: at[0]] for row in found]

    def first_records(self, places: list[ReadingPlace], ids: DataFrame, count: int) -> list[str]:
        """Where some witnesses stand: as `associations()` tells a record."""
        c = self.lineage.c
        with c.quietly():
            some = ids.limit(count).selectExpr(f"0 as {evaluation.OUTPUT}", "*")
            return [row[0] for row in some.select(found_rows.record_of(c, places[0], some, places[1:])).collect()]

    def associations(self) -> DataFrame:
        """Which source record each output record came from: columns output, source, record.

        `output` is the number that `outputs()` gives each row."""
        return found_rows.associations(
            self.found_per_output,
            {place.number: name for name, places in self.names.items() for place in places},
        )

    def outputs(self) -> DataFrame:
        """The asked rows, each with its number in `associations()`."""
        found = self.found_per_output
        assert found.rows is not None
        assert found.output is not None
        c = found.c
        return c.frame(c.project([found.output, *c.output(self.lineage.tree.plan)], c.plan_of(found.rows)))

    def witnesses_per_output(self) -> Iterator[tuple[int, DataFrame]]:
        """For each reading: its witness rows, each with the number of the output it belongs to."""
        c = self.lineage.c
        for place in self.told:
            found = self.found_per_output
            yield place.number, c.frame(found_rows.leaf_rows_per_output(found, place))

    @property
    def strategy(self) -> Strategy:
        """How the witnesses were found: stored (from what was captured), or rerun (parts of the query were run)."""
        told = {place.number for place in self.told}
        return Strategy.STORED if told and told <= self.found.stored else Strategy.RERUN

    @property
    def widened(self) -> tuple[str, ...]:
        """Why the answer may hold more rows than needed."""
        return tuple(dict.fromkeys(note for lineage in self._asked for note in lineage.exactness.notes))

    @property
    def ended(self) -> tuple[str, ...]:
        """At which captured tables the way ends, and why."""
        return tuple(dict.fromkeys(note for lineage in self._asked for note in lineage.passage.notes))

    @property
    def reruns(self) -> tuple[str, ...]:
        """Functions of yours that working out this answer runs again, with whatever they do besides."""
        return tuple(dict.fromkeys(name for lineage in self._asked for name in lineage.reruns))

    # --- what follows from it

    def replay(
        self, df: DataFrame | None = None, *, instead: Mapping[ReadingPlace, DataFrame] | None = None
    ) -> DataFrame:
        """The asked query, or another one over the same sources, on the witnesses alone."""
        return restricted(self.lineage, df, self.restriction("leftsemi", instead=instead))

    def again_alike(self, alike: Alike, query: DataFrame | None, *, drop: bool) -> DataFrame:
        """Another query with the same pairs, on the witnesses alone or without them."""
        return restricted(self.lineage, query, self.restriction("leftanti" if drop else "leftsemi"), alike)

    def replayed_steps(self) -> Iterator[ReplayedStep]:
        """The asked query on the witnesses alone, operator by operator."""
        return stepwise(self.lineage, self.restriction("leftsemi"), _NAMES_ONLY)

    def exclude(
        self,
        df: DataFrame | None = None,
        *,
        places: Sequence[ReadingPlace] | None = None,
        at: Step | int | None = None,
        instead: Mapping[ReadingPlace, DataFrame] | None = None,
    ) -> DataFrame:
        """The asked query, or another one, without the witnesses: of all readings, of some, or at one step.

        `instead`: what another flow gives in place of all the rows of a reading."""
        if at is not None:
            return restricted(self.lineage, df, Restriction("leftanti", {}, at=self._at(at)))
        return restricted(self.lineage, df, self.restriction("leftanti", places, instead=instead))

    def verify(self) -> Verdict:
        """Proof: the query, run again on the witnesses alone, must give the asked rows again."""
        c, restriction = self.lineage.c, self.restriction("leftsemi")
        extras_count = self.direction == "backward" and not self.widened
        with c.quietly():
            asked = as_asked(c, self.rows)
            again = unsorted(c, restricted(self.lineage, None, restriction))
            if any(node.kind in operators.PYTHON_BATCHES for node in self.lineage.tree.walk()):
                asked, again = without_barriers(c, asked), without_barriers(c, again)
            asked = apart(c, asked)
            verdict = compare(asked, again, extras_count=extras_count)
            if not verdict.ok and self.lineage.wavering:
                return compare_steady(asked, again, self.lineage.wavering, extras_count)
            if verdict.ok:
                return verdict
            return proven_by_operators(self.lineage, self.found, restriction, asked, extras_count) or verdict

    def influence(self, column: str, source: str | None = None) -> DataFrame:
        from whence.sql.influence.influence import influence

        self._require_steady(column)
        question = self._on_witnesses
        return influence(question.lineage, question.found_per_output, column, question.names, source)

    def _require_steady(self, column: str) -> None:
        columns = self.lineage.given.columns
        value = self.lineage.wavering.get(columns.index(column)) if column in columns else None
        for node, _ in () if value is None or value.order else value.sources:
            for expression in self.lineage.c.functions_of_any_row(node.plan) if node.kind == "Aggregate" else ():
                raise NonDeterministic(
                    f"How much each row moved {column!r} cannot be told: {expression} gives the value of whichever row "
                    "comes first, with or without another. Ask about another column, or compute the result under "
                    "`with w.capture():`."
                )

    def keys_of(self, places: Sequence[ReadingPlace]) -> list[str]:
        """Columns of a source that the query itself groups or filters by."""
        from whence.sql.key_columns import key_columns

        return list(key_columns(self.lineage.c, self.lineage.tree, list(places)))

    # --- how it is computed

    @once
    def found(self) -> Evaluation:
        require_same_rows(self.lineage)
        return evaluation.backward(self.lineage, self._root)

    @once
    def found_per_output(self) -> Evaluation:
        require_same_rows(self.lineage)
        return evaluation.backward(self.lineage, self._root, per_output=True)

    @once
    def _on_witnesses(self) -> SqlQuestion:
        """The same question asked of the witnesses alone, where they are few and nothing else matters to its rows."""
        from whence.sql.influence.on_witnesses import on_witnesses

        if self._root is not None or "found_per_output" in vars(self):  # what is known already numbers the rows
            return self
        require_same_rows(self.lineage)
        with self.lineage.c.quietly():
            found = on_witnesses(self.lineage)
        if found is None:
            return self
        question = SqlQuestion(found)
        vars(self)["found_per_output"] = question.found_per_output  # one number for each row, whoever asks for it
        return question

    @once
    def names(self) -> dict[str, list[ReadingPlace]]:
        c = self.lineage.c
        by_key: dict[str, list[ReadingPlace]] = {}
        for place in self.told:
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
    def told(self) -> list[ReadingPlace]:
        return [place for place in self.lineage.readings if not place.auxiliary]

    def rows_of(self, places: list[ReadingPlace], only: Column | None = None) -> DataFrame:
        """The witnesses at these readings of one dataset, each row once, also if they read it in different states.

        `only`: a condition on their identities."""
        self.lineage.require_unchanged()
        if only is None and len(places) == 1 and (direct := self.direct(places[0])) is not None:
            return given.give(self.lineage.c, places[0].leaf, *direct, places[0].dataset.name)
        parts: list[DataFrame] = []
        told: DataFrame | None = None
        for alike in versions.states(self.lineage.c, places):
            ids = self._sent(alike)
            ids = ids if only is None else ids.where(only)
            parts.append(self._leaf_rows(alike[0], ids if told is None else ids.subtract(told), "leftsemi"))
            told = ids if told is None else told.union(ids)
        return reduce(DataFrame.unionAll, parts)

    def are_rows_of(self, places: list[ReadingPlace], shown: DataFrame) -> bool:
        """Whether a DataFrame gives the rows with the identities of the witnesses there and nothing else, by its query,
        and all of these readings read a row alike: then rows differ where identities do."""
        c, first = self.lineage.c, places[0].leaf.plan
        columns = {tuple((a.name(), c.type_of(a)) for a in c.output(place.leaf.plan)) for place in places}
        if len(columns) > 1 or not all(c.is_file_scan(place.leaf.plan) for place in places):
            return False
        if len(versions.states(c, places)) > 1 or not all(c.reads_alike(first, p.leaf.plan) for p in places[1:]):
            return False
        return given.are_same(c, shown, self._leaf_rows(places[0], self._sent(places), "leftsemi"))

    def direct(self, place: ReadingPlace) -> tuple[Plan, Sequence[int]] | None:
        """The witnesses at a reading, with their identities, as a choice among its rows, where it is no more."""
        if self._root is not None:
            return None
        require_same_rows(self.lineage)
        return direct_rows(self.lineage, place)

    def witness_rows(self, place: ReadingPlace) -> Plan | None:
        """The witnesses at a reading, with its own columns alone, where the reading need not be looked through."""
        c = self.lineage.c
        at_hand = "found" in vars(self) and self.found.may_be_at_hand(place)
        few = fetch.few_rows(c, place, self.ids_of([place])) if at_hand else None
        if few is not None:
            return few
        if self._root is not None:
            return None
        require_same_rows(self.lineage)
        return direct_values(self.lineage, place)

    def others_of(self, places: list[ReadingPlace]) -> DataFrame:
        c = self.lineage.c
        parts: list[DataFrame] = []
        ids = self.ids_of(places)
        for alike in versions.states(c, places):
            parts.append(self._leaf_rows(alike[0], ids, "leftanti"))
            ids = ids.union(found_rows.all_ids(c, alike[0]))
        return reduce(DataFrame.unionAll, parts)

    def _leaf_rows(self, place: ReadingPlace, ids: DataFrame, kind: str) -> DataFrame:
        c = self.lineage.c
        rows, at = found_rows.told_leaf_rows(c, place, ids, kind)
        return given.give(c, place.leaf, rows, at, place.dataset.name)

    def ids_of(self, places: list[ReadingPlace]) -> DataFrame:
        return found_rows.ids_of(self.found, places)

    def restriction(
        self,
        kind: str,
        places: Sequence[ReadingPlace] | None = None,
        instead: Mapping[ReadingPlace, DataFrame] | None = None,
    ) -> Restriction:
        self.lineage.require_unchanged()
        c = self.lineage.c
        frozen = not_on_the_way(self.lineage, lambda: self.found) if kind == "leftsemi" else {}
        paired = pairs.restricted(self.lineage, places, instead or {})
        as_found = (*self.lineage.frozen, *paired, *(self.lineage.counting if kind == "leftsemi" else ()))
        frozen.update({place.node: found_rows.rows_at(self.found, place, kind) for place in as_found})
        for place, frame in (instead or {}).items():
            renamed = [
                c.alias_as(there, here)
                for there, here in zip(c.output(c.plan_of(frame)), c.output(place.leaf.plan), strict=True)
            ]
            frozen[place.leaf] = c.project(renamed, c.plan_of(frame))
        readings = places or self.lineage.readings
        if kind == "leftanti":  # which writes there are stays as it is: each gives what it gives without these rows
            readings = [place for place in readings if not is_of_parameters(c, place.leaf)]
        on_ways = [place for place in readings if not place.barren]
        found = {place.number: self.witness_rows(place) for place in on_ways} if kind == "leftsemi" else {}
        rows = {number: plan for number, plan in found.items() if plan is not None}
        ids = Frames()
        for place in on_ways if kind == "leftanti" and not self.lineage.in_rounds else readings:
            ids.give(place.number, partial(self._sent, self._same_rows(place, kind)))
        return Restriction(kind, ids, rows, frozen=frozen)

    def _same_rows(self, place: ReadingPlace, kind: str) -> list[ReadingPlace]:
        """Where a row that is left out must be left out too: in all rounds of a recursion."""
        if kind != "leftanti" or not self.lineage.in_rounds:
            return [place]
        return [other for other in self.lineage.readings if other.dataset.key == place.dataset.key]

    def _sent(self, places: list[ReadingPlace]) -> DataFrame:
        """The identities of readings' witnesses, to be joined with their rows: few of them are sent to every executor,
        since Spark does not know how many they are and would sort the source."""
        most = [self.found.at_most(place) for place in places]
        if any(one is None for one in most) or sum(one for one in most if one is not None) > _SENT:
            return self.ids_of(places)
        ids = self.found.to_look_for(places)
        return functions.broadcast(self.ids_of(places) if ids is None else ids)

    def _at(self, step: Step | int) -> tuple[Place, Evaluation]:
        return self._place(step), self.found

    @once
    def shown_places(self) -> list[Place]:
        return [place for place in self.lineage.places if place.node.kind not in _NAMES_ONLY]

    def _place(self, step: Step | int) -> Place:
        number = step if isinstance(step, int) else step.number
        if not 0 <= number < len(self.shown_places):
            raise IndexError(f"This trace has {len(self.shown_places)} steps, numbered from 0; there is no {number}")
        return self.shown_places[number]

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

        visit(self.lineage.tree, 0)
        return depths
