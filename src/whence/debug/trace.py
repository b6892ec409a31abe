"""A Trace: the answer to a lineage question, which can be walked, shown, replayed and verified.

It speaks to flows alone (model/flow.py): the one that was asked, and those that made what it read (legs.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from whence.debug.frames import frame_of
from whence.debug.legs import Leg
from whence.model import Strategy, WhenceError
from whence.model.flow import Flow, Queried, Records, Site, Step, Steps, roots_of
from whence.model.once import once
from whence.model.text import visible
from whence.model.verdict import Verdict
from whence.spark.sessions import is_frame, is_frame_of, require_running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from whence.debug.attached import Attached
    from whence.debug.explain.explain import Explanation
    from whence.debug.fixture.fixture import Fixture
    from whence.debug.notebook import Shown
    from whence.debug.show import Picture
    from whence.sql.question import ReadingRows
    from whence.sql.replay import ReplayedStep

__all__ = ["Step", "Trace"]


class Trace:
    """Made by `Session.backward` and `Session.forward`. Nothing is computed before it is asked for."""

    def __init__(
        self,
        leg: Leg,
        spark: SparkSession,
        *,
        direction: str = "backward",
        widened: Any = (),
        ended: Any = (),
        models: Callable[[], Mapping[str, Trace]] = dict,
    ) -> None:
        """`widened` and `ended`: of the way to the rows that a forward trace found. `models`: see there."""
        self._leg = leg
        self._spark = spark
        self._before = (tuple(widened), tuple(ended))
        self._find_models = models
        self._told_apart: dict[str, tuple[DataFrame, DataFrame] | None] = {}
        self.direction = direction
        # Rows that were looked at: a second look at a trace computes nothing again.
        self._seen: dict[tuple[str, int], tuple[list[Row], list[str]]] = {}
        self.saver: Callable[[str | None], str] | None = None
        """Writes this trace into the store of the session that it came from."""
        self.session: Attached | None = None
        """The session that it came from."""

    def save(self, name: str | None = None) -> str:
        """Keep the trace in the store: its steps with counts, and the first rows of each source; its id.

        The server shows it, and anyone who may read the rows (docs/serve.md)."""
        if self.saver is None:
            raise WhenceError("This trace has no session, and so no store to be saved in: ask w.backward or w.forward.")
        return self.saver(name)

    def fixture(
        self,
        path: str | Path,
        *,
        mask: Sequence[str] = (),
        minimize: Callable[[list[Any]], bool] | None = None,
        query: str | Callable[..., Any] | None = None,
        overwrite: bool = False,
        most: int = 10_000,
    ) -> Fixture:
        """A unit test of these rows, in a directory of its own: the witnesses of every source as small files, and a
        test for pytest that runs the query on them and compares with the asked rows. It needs PySpark alone.

        `mask`: columns whose values are exchanged; equality, order and NULL stay. `minimize`: a function that tells
        whether result rows are wrong; only the source rows that it needs are written. `query`: "module:function" for
        what is no SQL text. `most`: rows of one source (docs/debug.md)."""
        from whence.debug.fixture.fixture import fixture

        if self.session is None:
            raise WhenceError("This trace has no session, which would run the test once: ask w.backward or w.forward.")
        return fixture(
            self, self.session, path, mask=mask, minimize=minimize, query=query, overwrite=overwrite, most=most
        )

    # --- what was found

    @property
    def flow(self) -> Flow:
        """The query, program, graph or workflow that was asked."""
        return self._leg.flow

    @property
    def crosses(self) -> bool:
        """Whether other flows made what the asked one reads."""
        return bool(self._leg.crossed)

    @property
    def rows(self) -> DataFrame:
        """The rows that were asked for (backward) or that are touched (forward)."""
        return self._rows

    @once
    def _rows(self) -> DataFrame:
        rows = frame_of(self._spark, self._leg.asked)
        return rows if self.direction == "backward" else self._quiet(rows)

    def _quiet(self, rows: DataFrame, leg: Leg | None = None) -> DataFrame:
        from whence.debug.quiet_rows import quiet

        return quiet((leg or self._leg).flow, rows)

    @once
    def _ends(self) -> dict[str, tuple[Leg, Site, Records]]:
        """Where the way ends, by the names of sources: one for each dataset, whichever flows lead there."""
        by_site: dict[Site, list[tuple[Leg, Site, Records]]] = {}
        for end in self._leg.ends():
            by_site.setdefault(end[1], []).append(end)
        named: dict[str, tuple[Leg, Site, Records]] = {}
        for site, ends in by_site.items():
            leg, _, records = ends[0]
            if len(ends) > 1:
                records = leg.flow.take(site, dict.fromkeys(one for end in ends for one in end[2].ids()))
            name = site.name
            if name in named:
                name = site.key
            while name in named:
                name += "'"
            named[name] = (leg, site, records)
        return named

    @once
    def sources(self) -> Mapping[str, DataFrame]:
        """The witness rows of each dataset that the way ends at, with the dataset's own columns."""
        return _Sources(self)

    def __getitem__(self, source: str) -> DataFrame:
        return self.sources[source]

    def _end(self, source: str) -> tuple[Leg, Site, Records]:
        if source not in self._ends:
            raise KeyError(f"{source!r} is not a source of this trace; its sources are {', '.join(self._ends)}")
        return self._ends[source]

    def full_name(self, source: str) -> str:
        """The table or path that a source is, where it is one."""
        _, site, records = self._end(source)
        told: str | None = getattr(records, "full_name", None)
        return told or "|".join(roots_of(site)) or site.name

    @once
    def models(self) -> Mapping[str, Trace]:
        """The models that gave columns of the asked rows, by their paths, each with the trace of the rows that it was
        trained on. These are no witnesses: a replay takes the model as it is."""
        return self._find_models()

    @once
    def readings(self) -> tuple[ReadingRows, ...]:
        """The same, apart for each place in the query that reads."""
        return self._queried("readings").readings(self._leg.asked)

    @once
    def steps(self) -> Steps:
        """The operators on the way, nearest the result first; behind those of the asked query, those of the flows that
        made what it reads."""
        return Steps(step for _, _, step in self._steps)

    @once
    def _steps(self) -> list[tuple[Leg, Step, Step]]:
        found: list[tuple[Leg, Step, Step]] = []
        for leg in self._leg.walk():
            below = max((step.depth for other, _, step in found if other is not leg), default=-1) + 1
            for own in leg.flow.steps:
                found.append((leg, own, replace(own, number=len(found), depth=own.depth + (below if leg.depth else 0))))
        return found

    def at(self, step: Step | int) -> DataFrame:
        """The rows at that step which lie on the way of this trace."""
        require_running(self._spark)
        leg, own = self._step(step)
        return self._quiet(frame_of(self._spark, leg.flow.at(own, leg.asked)), leg)

    def _step(self, step: Step | int) -> tuple[Leg, Step]:
        if isinstance(step, bool) or not isinstance(step, Integral | Step):
            raise WhenceError(f"A step is one of t.steps, or its number there, not {step!r}.")
        number = step.number if isinstance(step, Step) else int(step)
        if not 0 <= number < len(self._steps):
            raise IndexError(f"This trace has {len(self._steps)} steps, numbered from 0; there is no {number}")
        leg, own, _ = self._steps[number]
        return leg, own

    def step_counts(self) -> tuple[int, ...]:
        """How many rows lie on the way at each step."""
        return self._step_counts

    @once
    def _step_counts(self) -> tuple[int, ...]:
        counts: list[int] = []
        for leg in self._leg.walk():
            if isinstance(leg.flow, Queried):
                counts += leg.flow.step_counts(leg.asked)
            else:
                counts += [leg.flow.at(step, leg.asked).count() for step in leg.flow.steps]
        return tuple(counts)

    @once
    def witness_counts(self) -> Mapping[str, int]:
        """How many witnesses each source has: counted from their identities, without reading a row where possible."""
        return {name: records.count() for name, (_, _, records) in self._ends.items()}

    def first_rows(self, source: str, count: int) -> list[Row]:
        """Some witnesses of a source, read by their position where that is possible, without a scan."""
        from pyspark.sql import Row

        if isinstance(count, bool) or not isinstance(count, Integral) or count < 0:
            raise WhenceError(f"count says how many rows at most, a whole number from 0 on, not {count!r}.")
        _, _, records = self._end(source)
        values = records.values(int(count))
        names = records.columns
        make = Row(*names) if len(set(names)) == len(names) and names else Row
        return [make(*value) for value in values]

    def columns_of(self, source: str) -> list[str]:
        return list(self._end(source)[2].columns)

    def first_placed(self, source: str, count: int) -> tuple[list[Row], list[str]]:
        """Some witnesses of a source, and where each stands, as file:line; no places where they are not lines."""
        if (source, count) not in self._seen:
            _, _, records = self._end(source)
            placed = getattr(records, "first_placed", None)
            found = None if placed is None else placed(count)
            self._seen[source, count] = (
                (self.first_rows(source, count), [])
                if found is None
                else ([row for row, _ in found], [place for _, place in found])
            )
        rows, places = self._seen[source, count]
        return list(rows), list(places)

    def first_records(self, source: str, count: int) -> list[str]:
        """Where some witnesses of a source stand: as `associations()` tells a record."""
        _, _, records = self._end(source)
        told = getattr(records, "first_records", None)
        if told is not None:
            found: list[str] = told(count)
            return found
        return ["#".join(map(str, one)) for one in records.ids(count)]

    def associations(self) -> DataFrame:
        """Which source record each output record came from: columns output, source, record.

        `output` is the number that `outputs()` gives each row."""
        from whence.debug.associations import through

        flow = self._queried("associations")
        pairs: DataFrame = flow.associations(self._leg.asked)
        return through(self._spark, pairs, self._leg) if self._leg.crossed else pairs

    def outputs(self) -> DataFrame:
        """The asked rows, each with its number in `associations()`."""
        found: DataFrame = self._queried("outputs").outputs_of(self._leg.asked)
        return found

    def witnesses_per_output(self) -> Iterator[tuple[int, DataFrame]]:
        """For each reading: its witness rows, each with the number of the output it belongs to."""
        yield from self._queried("witnesses_per_output").witnesses_per_output(self._leg.asked)

    @property
    def strategy(self) -> Strategy:
        """How the witnesses were found: stored (from what was captured), or rerun (parts of the query were run)."""
        flow = self._leg.flow
        return flow.strategy(self._leg.asked) if isinstance(flow, Queried) else Strategy.STORED

    @property
    def exact(self) -> bool:
        """Whether there are no more rows than needed; whether there are fewer, because the way ends early, `ended`
        says."""
        return not self.widened

    @property
    def widened(self) -> tuple[str, ...]:
        """Why the answer may hold more rows than needed: which operators, and why."""
        return _once_each([*self._before[0], *(note for leg in self._leg.walk() for note in leg.widened)])

    @property
    def ended(self) -> tuple[str, ...]:
        """Where the way stops short of its beginning, and why."""
        return _once_each([*self._before[1], *(note for leg in self._leg.walk() for note in leg.ended)])

    @property
    def notes(self) -> tuple[str, ...]:
        """All that is to be said about the answer: `widened` and `ended`. A trace without a note is complete."""
        return _once_each([*self.widened, *self.ended])

    @property
    def reruns(self) -> tuple[str, ...]:
        """Functions of yours that working out this answer runs again, with whatever they do besides."""
        return _once_each(
            name for leg in self._leg.walk() if isinstance(leg.flow, Queried) for name in leg.flow.reruns(leg.asked)
        )

    # --- what follows from it

    @overload
    def replay(self, df: DataFrame | None = None) -> DataFrame: ...

    @overload
    def replay(self, *, steps: Literal[True]) -> Iterator[ReplayedStep]: ...

    def replay(self, df: DataFrame | None = None, *, steps: bool = False) -> DataFrame | Iterator[ReplayedStep]:
        """The asked query, or another one over the same sources, on the witnesses alone.

        With steps: operator by operator instead, sources first, each with its input and its output."""
        self._require_query(df)
        flow = self._queried("replay")
        if steps:
            return iter(flow.steps_again(self._leg.asked))
        return self._quiet(flow.run_again(self._leg.asked, drop=False, query=df))

    def exclude(
        self, df: DataFrame | None = None, *, source: str | None = None, at: Step | int | None = None
    ) -> DataFrame:
        """The asked query, or another one, without the witnesses: of all sources, of one, or at one step.

        Where another flow made what the query reads, that flow is run again without them first."""
        from whence.debug.again import without

        self._require_query(df)
        flow = self._queried("exclude")
        if at is not None:
            leg, own = self._step(at)
            if leg is not self._leg:
                raise WhenceError(f"Rows can be left out at steps of the asked query; {own} is of {leg.flow.name}.")
            return self._quiet(flow.run_again(self._leg.asked, drop=True, query=df, at=own))
        if source is not None:
            self._end(source)
        if self._leg.crossed:
            return self._quiet(without(self._spark, self._leg, df, None if source is None else self._end(source)[1]))
        sites = None if source is None else [self._end(source)[1]]
        return self._quiet(flow.run_again(self._leg.asked, drop=True, query=df, sites=sites))

    def _require_query(self, df: object) -> None:
        if df is not None and not is_frame_of(df, self._spark):
            what = "one of another Spark application" if is_frame(df) else repr(df)
            raise WhenceError(f"What is run on other rows is a DataFrame over the same sources, not {what}.")

    def verify(self) -> Verdict:
        """Proof: each flow on the way, run again on the witnesses alone, must give what it was asked for, and `sources`
        must show the witnesses of every reading. What cannot run again here is proven by its own means as far as that
        goes, and `verdict.proofs` tells of each flow what was found out, and how (docs/crossing.md)."""
        from whence.debug.proof import proven

        require_running(self._spark)
        return proven(self._leg.walk())

    def influence(self, column: str, source: str | None = None) -> DataFrame:
        """The witnesses ranked, source by source, by how much each moved that column: columns output, source, record,
        influence, without, outcome, and the witness itself (with `source`: its own columns; else `row`, as JSON).

        Influence is the value that the output has less `without`, the value it would have without the witness."""
        site = None
        crossed = [name for name, (leg, _, _) in self._ends.items() if leg is not self._leg]
        if source is None and crossed:
            source = crossed[0]
        if source is not None:
            leg, site, _ = self._end(source)
            if leg is not self._leg:
                raise WhenceError(
                    f"How much a row of {source} moved {column} is not told: {leg.flow.name} lies between. "
                    "Ask for what the query itself reads: w.backward(df, through=False).influence(...)."
                )
        found: DataFrame = self._queried("influence").influence(self._leg.asked, column, site)
        return found

    def explain(self, source: str | None = None, *, with_keys: bool = False, **options: Any) -> Explanation:
        """Conditions on a source's columns that set the witnesses apart from its other rows.

        Without `source`: of the source with the most witnesses that are not all of its rows. What the query itself
        groups or filters by chose the witnesses and explains nothing: only `with_keys` or `columns` takes it in."""
        from whence.debug.explain.explain import explain

        require_running(self._spark)
        name = source or self._source_to_explain()
        leg, site, _ = self._end(name)
        sides = self._sides(name)
        if sides is None:
            raise WhenceError(f"The other rows of {name} are not known here, so that nothing sets the witnesses apart.")
        rows, others = sides
        if not with_keys and options.get("columns") is None and isinstance(leg.flow, Queried):
            keys = leg.flow.keys(site)
            options["columns"] = [column for column in rows.columns if column not in keys]
            if not options["columns"]:
                raise WhenceError(
                    f"There is nothing to explain: the query groups or filters by every column of {name} "
                    f"({', '.join(keys)}), and a condition on these says only what was asked. "
                    "explain(with_keys=True) takes them in."
                )
        return explain(rows, others, **options)

    def _sides(self, name: str) -> tuple[DataFrame, DataFrame] | None:
        from whence.debug.explain.sides import sides_of

        if name not in self._told_apart:
            leg, _, records = self._end(name)
            self._told_apart[name] = sides_of(self.session, leg.flow, records)
        return self._told_apart[name]

    def _source_to_explain(self) -> str:
        counts = self.witness_counts
        for name in sorted(counts, key=lambda n: -counts[n]):
            sides = self._sides(name) if counts[name] else None
            if sides is not None and not sides[1].isEmpty():
                return name
        raise WhenceError(
            "There is nothing to explain: no source of this trace has both witnesses and other rows "
            f"({', '.join(f'{name}: {count} witnesses' for name, count in counts.items())})."
        )

    def _queried(self, what: str) -> Queried:
        require_running(self._spark)
        flow = self._leg.flow
        if not isinstance(flow, Queried):
            raise WhenceError(
                f"{what} is asked of queries; this trace starts at {flow.name}, which Spark cannot be asked."
            )
        return flow

    # --- for the eye

    def __repr__(self) -> str:
        names = visible(", ".join(site.name for site in self._leg.flow.inputs) or "no source")
        return f"<Trace {self.direction} over {names}; print it to compute and show it>"

    def __str__(self) -> str:
        from whence.debug.show import as_text

        return as_text(self._picture)

    @once
    def _picture(self) -> Picture:
        from whence.debug.show import picture_of

        return picture_of(self)

    def show(self, *, height: int = 520) -> Shown:
        """Its steps as a graph and its first witness rows as tables, for a notebook (docs/page.md)."""
        from whence.debug.notebook import show_trace

        return show_trace(self, height)

    def _repr_html_(self) -> str:
        from whence.debug.show import as_html

        return as_html(self._picture)


def _once_each(notes: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(notes))


class _Sources(Mapping[str, "DataFrame"]):
    """Made row by row of the mapping, so that asking for one source does not plan the others."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._frames: dict[str, DataFrame] = {}

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._frames:
            require_running(self._trace._spark)
            self._frames[name] = frame_of(self._trace._spark, self._trace._end(name)[2])
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._trace._ends)

    def __len__(self) -> int:
        return len(self._trace._ends)

    def __repr__(self) -> str:
        return visible(f"sources: {', '.join(self._trace._ends)}")
