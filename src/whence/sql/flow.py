"""Queries on the waist: a query is a flow from the datasets it reads to its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import uuid4

from pyspark import RDD
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from whence.model import Strategy, WhenceError
from whence.model.flow import BY_BYTE, Answer, RecordId, Records, Site, Step, told_by
from whence.model.once import once
from whence.model.verdict import Verdict
from whence.sql import evaluation, given
from whence.sql.blocks import ReadingPlace
from whence.sql.catalyst import Catalyst
from whence.sql.evaluation import FEW
from whence.sql.forward import Found, Seeds
from whence.sql.forward import forward as touched_by
from whence.sql.lineage import SqlLineage
from whence.sql.question import ReadingRows, SqlQuestion
from whence.sql.record_ids import apart, positions, site_of, together, told_in_files
from whence.sql.replay import ReplayedStep, has_step, node_like
from whence.sql.sources import FILE, ROW
from whence.sql.tree import Node
from whence.sql.verify import require_same_rows, with_sources
from whence.store.producers import file_key

# As the query itself tells rows: numbers only.
Told: TypeAlias = "Sequence[tuple[int, ...]]"


class SqlAsked:
    """Rows of a query's result."""

    def __init__(self, site: Site, question: SqlQuestion) -> None:
        self.site = site
        self.question = question

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.question.rows.columns)

    def frame(self) -> DataFrame:
        return self.question.rows

    def count(self) -> int:
        with self.question.lineage.c.quietly():
            return self.question.rows.count()

    def ids(self, most: int | None = None) -> list[RecordId]:
        raise WhenceError("The rows of a query's result have no identity of their own: ask for what they came from.")

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        frame = self.question.rows
        with self.question.lineage.c.quietly():
            return [tuple(row) for row in (frame if most is None else frame.limit(most)).collect()]


class SqlRecords:
    """Witnesses among the rows of one dataset, at all the places of the query that read it."""

    def __init__(
        self, site: Site, question: SqlQuestion, places: list[ReadingPlace], only: Collection[str] | None = None
    ) -> None:
        """`only`: those that lie in these files, by their keys."""
        self.site = site
        self.question = question
        self.places = places
        self._only = only

    @once
    def columns(self) -> tuple[str, ...]:
        return tuple(str(a.name()) for a in self.question.lineage.c.output(self.places[0].leaf.plan))

    @property
    def full_name(self) -> str:
        return self.places[0].dataset.full_name

    @once
    def _frame(self) -> DataFrame:
        return self.question.rows_of(self.places, self._condition)

    def frame(self) -> DataFrame:
        return self._frame

    def others(self) -> DataFrame:
        """The rows of the dataset that are no witnesses."""
        return self.question.others_of(self.places)

    def in_files(self, keys: Collection[str]) -> SqlRecords:
        return SqlRecords(self.site, self.question, self.places, keys)

    @property
    def _condition(self) -> Column | None:
        if self._only is None:
            return None
        c = self.question.lineage.c
        paths = {path for place in self.places for path in c.files(place.leaf.plan) if file_key(path) in self._only}
        return F.col(FILE).isin(*[c.hash64_of_text(path) for path in sorted(paths)])

    def identities(self) -> DataFrame:
        """As the query itself tells them."""
        return self._ids()

    def _ids(self) -> DataFrame:
        ids = self.question.ids_of(self.places)
        return ids if self._condition is None else ids.where(self._condition)

    def count(self) -> int:
        if self._only is None:
            return self.question.count_of(self.places)
        with self.question.lineage.c.quietly():
            return self._ids().distinct().count()

    def ids(self, most: int | None = None) -> list[RecordId]:
        c = self.question.lineage.c
        with c.quietly():
            found = self._ids()
            rows = (found if most is None else found.limit(most)).collect()
        if found.columns[-1:] == [ROW] and len(found.columns) == 1 and not self.places[0].dataset.by_contents:
            return [apart(row[0]) for row in rows]
        if found.columns[-2:] != [FILE, ROW]:
            return [tuple(row) for row in rows]
        return told_in_files(self.question.lineage, self.places, [(row[FILE], row[ROW]) for row in rows])

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        with self.question.lineage.c.quietly():
            return [tuple(row) for row in self.first_rows(most)]

    def first_rows(self, most: int | None) -> list[Row]:
        """Read by their position where that is possible, without a scan."""
        question = self.question
        with question.lineage.c.quietly():
            try:
                rows = None if most is None else question.rows_at(self.places, self._first(most))
                if rows is not None:
                    return rows
                return (self.frame() if most is None else self.frame().limit(most)).collect()
            except (ValueError, OverflowError, NotImplementedError):
                # Spark has values that Python has not, such as years beyond 9999: then all of them as texts.
                frame = self.frame() if most is None else self.frame().limit(most)
                names = [f"c{i}" for i in range(len(frame.columns))]
                texts = frame.toDF(*names).select(*[F.col(name).cast("string") for name in names])
                return [Row(*frame.columns)(*row) for row in texts.collect()]

    def first_placed(self, most: int) -> list[tuple[Row, str]] | None:
        """Some rows, each with its file and line; None where they are not lines of files."""
        return self.question.placed_at(self.places, self._first(most), self._ids)

    def _first(self, most: int) -> list[tuple[int, ...]]:
        if self._only is None:
            return self.question.first_ids(self.places, most)
        with self.question.lineage.c.quietly():
            return [tuple(row) for row in self._ids().limit(most).collect()]

    def first_records(self, most: int) -> list[str]:
        return self.question.first_records(self.places, self._ids(), most)


class SqlTaken:
    """Rows of a dataset that this query reads, by identities that came from elsewhere."""

    def __init__(
        self, site: Site, lineage: SqlLineage, places: Sequence[ReadingPlace], ids: Sequence[RecordId], told: Told
    ) -> None:
        """`told`: the same identities as this query tells them."""
        self.site = site
        self.places = places
        self._lineage = lineage
        self._given = ids
        self._told = told

    @once
    def _identities(self) -> DataFrame:
        schema = ", ".join(f"`{name}` bigint" for name in self.places[0].dataset.id_columns)
        return self._lineage.c.spark.createDataFrame([tuple(row) for row in self._told], schema)

    def identities(self) -> DataFrame:
        """As the query itself tells them."""
        return self._identities

    def seeds(self) -> Seeds:
        return Seeds(lambda: Found(lambda: self._identities, self._told if len(self._told) <= FEW else None))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.frame().columns)

    @once
    def _frame(self) -> DataFrame:
        place = self.places[0]
        c = self._lineage.c
        rows, at = evaluation.told_leaf_rows(c, place, self._identities, "leftsemi")
        return given.give(c, place.leaf, rows, at, place.dataset.name)

    def frame(self) -> DataFrame:
        return self._frame

    def count(self) -> int:
        return len(self._given)

    def ids(self, most: int | None = None) -> list[RecordId]:
        return list(self._given[:most])

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        with self._lineage.c.quietly():
            return [tuple(row) for row in (self._frame if most is None else self._frame.limit(most)).collect()]


class SqlFlow:
    """One query: from the datasets that it reads to its rows."""

    def __init__(self, lineage: SqlLineage) -> None:
        self.lineage = lineage
        self.name = "query"
        self.outputs = (Site(f"query {uuid4().hex}", "the result"),)

    @once
    def _whole(self) -> SqlQuestion:
        return SqlQuestion(self.lineage)

    @once
    def _sites(self) -> dict[Site, list[ReadingPlace]]:
        found: dict[Site, list[ReadingPlace]] = {}
        for name, places in self._whole.names.items():
            site = site_of(self.lineage, name, places)
            while site in found:  # one dataset read in two ways, or in two states with other columns
                site = Site(f"{site.key}, {name}", name)
            found[site] = places
        return found

    @property
    def inputs(self) -> tuple[Site, ...]:
        return tuple(self._sites)

    @property
    def readings_by_name(self) -> Mapping[str, Sequence[ReadingPlace]]:
        """The places of the query that read, by the names of their sources."""
        return self._whole.names

    @property
    def steps(self) -> tuple[Step, ...]:
        return self._whole.steps

    def all(self) -> SqlAsked:
        """All rows of the result."""
        return SqlAsked(self.outputs[0], self._whole)

    def backward(self, asked: Records) -> Answer:
        question = self._question(asked)
        found = {site: SqlRecords(site, question, places) for site, places in self._sites.items()}
        return Answer(found, lambda: question.widened, lambda: question.ended)

    def at(self, step: Step, asked: Records) -> SqlStepRecords:
        question = self._question(asked)
        return SqlStepRecords(Site(f"{self.outputs[0].key}, step {step.number}", step.operator), question.at(step))

    def _question(self, asked: Records) -> SqlQuestion:
        if not isinstance(asked, SqlAsked):
            raise WhenceError(f"These are no rows of this query's result but of {asked.site}.")
        return asked.question

    # --- from other flows, and to them

    def places(self, site: Site) -> list[ReadingPlace]:
        return self._sites[site]

    def files(self, site: Site) -> Collection[str]:
        places = self._sites[site]
        c = self.lineage.c
        if not all(c.is_file_scan(place.leaf.plan) and not place.dataset.by_row_id for place in places):
            return ()
        return {file_key(path) for place in places for path in c.files(place.leaf.plan)}

    def take(self, site: Site, ids: Iterable[RecordId]) -> SqlTaken:
        places = self._sites.get(site)
        if places is None:
            raise WhenceError(f"This query does not read {site}.")
        wanted = list(dict.fromkeys(ids))
        if told_by(site) is not None:
            told: Told = positions(self.lineage, places, wanted, told_by(site) == BY_BYTE)
        elif len(places[0].dataset.id_columns) > 1:
            told = [tuple(int(number) for number in one) for one in wanted]
        else:
            told = [together(one) for one in wanted]
        return SqlTaken(site, self.lineage, places, wanted, told)

    def rdd_below(self, site: Site) -> Any | None:
        """The RDD of the JVM that an input is, where it is one."""
        (first, *_) = self._sites[site]
        return first.leaf.plan.rdd() if first.leaf.kind in ("LogicalRDD", "ExternalRDD") else None

    def by_contents(self, site: Site) -> bool:
        """Whether equal rows of an input are one record to this query."""
        return self._sites[site][0].dataset.by_contents

    def forward(self, seeds: Records) -> Answer:
        return self.forward_all([seeds])

    def touched(self, seeds: dict[ReadingPlace, Seeds], also: SqlLineage | None = None) -> Answer:
        """The rows of the result that these touch. `also`: the query that the seeds were found by."""
        require_same_rows(self.lineage)
        c = self.lineage.c
        root = touched_by(self.lineage, seeds)
        if root is None:  # read only to decide which rows are kept, as by an anti join: nobody's witnesses
            root = c.filter(c.parse("false"), self.lineage.root.annotated.plan)
        question = SqlQuestion(self.lineage, direction="forward", root=root, seeds=also)
        asked = SqlAsked(self.outputs[0], question)
        return Answer({self.outputs[0]: asked}, lambda: question.widened, lambda: question.ended)

    def forward_all(self, seeds: Collection[Records]) -> Answer:
        together: dict[ReadingPlace, Seeds] = {}
        for one in seeds:
            taken = one if isinstance(one, SqlTaken) else self.take(one.site, one.ids())
            together.update(dict.fromkeys(taken.places, taken.seeds()))
        return self.touched(together)

    # --- more about rows of the result

    def readings(self, asked: Records) -> tuple[ReadingRows, ...]:
        return self._question(asked).readings

    def step_counts(self, asked: Records) -> tuple[int, ...]:
        return self._question(asked).step_counts

    def associations(self, asked: Records) -> DataFrame:
        return self._question(asked).associations()

    def outputs_of(self, asked: Records) -> DataFrame:
        return self._question(asked).outputs()

    def witnesses_per_output(self, asked: Records) -> Iterator[tuple[int, DataFrame]]:
        return self._question(asked).witnesses_per_output()

    def strategy(self, asked: Records) -> Strategy:
        return self._question(asked).strategy

    def reruns(self, asked: Records) -> tuple[str, ...]:
        return self._question(asked).reruns

    def influence(self, asked: Records, column: str, site: Site | None) -> DataFrame:
        return self._question(asked).influence(column, None if site is None else site.name)

    def keys(self, site: Site) -> Collection[str]:
        return self._whole.keys_of(self._sites[site])

    # --- run again

    def run_again(
        self,
        asked: Records,
        *,
        drop: bool,
        query: DataFrame | None = None,
        sites: Collection[Site] | None = None,
        at: Step | int | None = None,
        instead: Mapping[Site, DataFrame] | None = None,
    ) -> DataFrame:
        question = self._question(asked)
        if query is not None and self.lineage.narrowed:
            node = None if at is None else question._place(at).node
            if node is None or not has_step(self.lineage.c, query, node):
                return self._whole_again(drop, query, sites, node, instead or {})
        there = {place: frame for site, frame in (instead or {}).items() for place in self._sites[site]}
        if not drop:
            return question.replay(query, instead=there)
        places = None if sites is None else [place for site in sites for place in self._sites[site]]
        return question.exclude(query, places=places, at=at, instead=there)

    def _whole_again(
        self,
        drop: bool,
        query: DataFrame,
        sites: Collection[Site] | None,
        at: Node | None,
        instead: Mapping[Site, DataFrame],
    ) -> DataFrame:
        """Another query reads what appends have written that this one's rows are not from."""
        flow = SqlFlow(self.lineage.whole)
        known = {site.key: site for site in flow.inputs}
        return flow.run_again(
            flow.all(),
            drop=drop,
            query=query,
            sites=None if sites is None else [known[site.key] for site in sites],
            at=None if at is None else flow._number_of(node_like(self.lineage.tree, at, flow.lineage.tree)),
            instead={known[site.key]: frame for site, frame in instead.items()},
        )

    def _number_of(self, node: Node) -> int:
        return next(n for n, place in enumerate(self._whole.shown_places) if place.node is node)

    def read_as(self, site: Site, made: RDD[Any]) -> DataFrame:
        """Records that another flow makes now in place of those it once made, as this query reads these."""
        c = self.lineage.c
        leaf = self._sites[site][0].leaf
        schema = c.frame(leaf.plan).schema
        if not c.is_file_scan(leaf.plan):
            return c.spark.createDataFrame(made, schema)
        kind, options = c.format_of(leaf.plan), c.options_of(leaf.plan)
        lines = made.map(str)
        if kind == "text":
            return c.spark.createDataFrame(lines.map(lambda line: (line,)), schema)
        if kind not in ("csv", "json") or options.get("header", "false").lower() == "true":
            raise WhenceError(f"What {site.name} would be without these rows cannot be read here as {kind}.")
        reader = c.spark.read.options(**options).schema(schema)
        return reader.csv(lines) if kind == "csv" else reader.json(lines)

    def steps_again(self, asked: Records) -> Iterator[ReplayedStep]:
        return self._question(asked).replayed_steps()

    def verify(self, asked: Records, answer: Answer) -> Verdict:
        question = self._question(asked)
        verdict = question.verify()
        with self.lineage.c.quietly():
            shown: dict[str, DataFrame] = {}
            readings: dict[str, list[DataFrame]] = {}
            for site, places in self._sites.items():
                if len(places) < 2:  # one reading is its source
                    continue
                records = answer.found[site]
                assert isinstance(records, SqlRecords)
                shown[site.name] = records.frame()
                readings[site.name] = [question.rows_of([place]) for place in places]
            return with_sources(self.lineage.c, verdict, shown, readings)


class SqlStepRecords:
    """The rows at one operator that lie on the way."""

    def __init__(self, site: Site, rows: DataFrame) -> None:
        self.site = site
        self._rows = rows

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._rows.columns)

    def frame(self) -> DataFrame:
        return self._rows

    def count(self) -> int:
        return self._rows.count()

    def ids(self, most: int | None = None) -> list[RecordId]:
        raise WhenceError(f"The rows at {self.site} have no identity of their own: ask for what they came from.")

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in (self._rows if most is None else self._rows.limit(most)).collect()]


def equal_to(c: Catalyst, frame: DataFrame, values: Sequence[tuple[Any, ...]]) -> DataFrame:
    """The rows that are equal to one of these, by what they hold: a question about the DataFrame itself."""
    names = [f"c{i}" for i in range(len(frame.columns))]
    plain = frame.toDF(*names)

    def told(rows: DataFrame) -> DataFrame:
        plan = c.plan_of(rows)
        hashes = [c.alias(h, f"h{i}") for i, h in enumerate(c.content_hashes(c.output(plan)))]
        texts = [F.col(f"h{i}").cast("string") for i in range(len(hashes))]
        return c.frame(c.extend(plan, hashes)).withColumn("told", F.concat_ws(":", *texts))

    with c.quietly():
        wanted = [row[0] for row in told(c.spark.createDataFrame(list(values), plain.schema)).select("told").collect()]
    return told(plain).where(F.col("told").isin(*sorted(set(wanted)))).select(*names).toDF(*frame.columns)
