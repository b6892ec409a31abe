"""Queries on the waist: a query is a flow from the datasets it reads to its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from pyspark import RDD
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.model import Strategy, WhenceError
from whence.model.flow import BY_BYTE, Answer, RecordId, Records, Site, Step, told_by
from whence.model.once import once
from whence.model.verdict import Verdict
from whence.sql import pairs
from whence.sql.blocks import ReadingPlace
from whence.sql.catalyst import Catalyst
from whence.sql.forward import Seeds
from whence.sql.forward import forward as touched_by
from whence.sql.lineage import SqlLineage
from whence.sql.question import ReadingRows, SqlQuestion
from whence.sql.record_ids import positions, site_of, together
from whence.sql.records import SqlAsked, SqlRecords, SqlStepRecords, SqlTaken, Told
from whence.sql.replay import ReplayedStep, has_step, node_like
from whence.sql.tree import Node
from whence.sql.verify import require_same_rows, with_sources
from whence.store.producers import file_key

__all__ = ["SqlAsked", "SqlFlow", "SqlRecords", "SqlStepRecords", "SqlTaken", "equal_to"]


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
        places = None if sites is None else [place for site in sites for place in self._sites[site]]
        if at is None and pairs.one_by_one(self.lineage, places, there, other=query is not None):
            self._require_backward(question)
            alike = None if query is None or there or sites is not None else pairs.alike_in(self.lineage, query)
            if alike is not None:
                return question.again_alike(alike, query, drop=drop)
            return self._again_by(self.lineage.one_by_one, drop=drop, query=query, sites=sites, instead=instead or {})
        if not drop:
            return question.replay(query, instead=there)
        return question.exclude(query, places=places, at=at, instead=there)

    def _again_by(
        self,
        lineage: SqlLineage,
        *,
        drop: bool,
        query: DataFrame | None,
        sites: Collection[Site] | None,
        instead: Mapping[Site, DataFrame],
        at: Step | int | None = None,
    ) -> DataFrame:
        """The same asked of the query as it is otherwise looked through."""
        flow = SqlFlow(lineage)
        known = {site.key: site for site in flow.inputs}
        return flow.run_again(
            flow.all(),
            drop=drop,
            query=query,
            sites=None if sites is None else [known[site.key] for site in sites],
            at=at,
            instead={known[site.key]: frame for site, frame in instead.items()},
        )

    def _require_backward(self, question: SqlQuestion) -> None:
        if question.direction != "backward":
            raise WhenceError(
                "What these rows leave behind, or give alone, cannot be told where many captured appends are looked "
                "through as one query. Ask about the rows of the result: w.backward(touched.rows)."
            )

    def _whole_again(
        self,
        drop: bool,
        query: DataFrame,
        sites: Collection[Site] | None,
        at: Node | None,
        instead: Mapping[Site, DataFrame],
    ) -> DataFrame:
        """Another query reads what appends have written that this one's rows are not from."""
        whole = self.lineage.whole
        step = None if at is None else SqlFlow(whole)._number_of(node_like(self.lineage.tree, at, whole.tree))
        return self._again_by(whole, drop=drop, query=query, sites=sites, instead=instead, at=step)

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
        if question.direction == "backward" and pairs.one_by_one(self.lineage, None, (), other=False):
            flow = SqlFlow(self.lineage.one_by_one)
            return flow.verify(flow.all(), flow.backward(flow.all()))
        verdict = question.verify()
        verdict = replace(verdict, proofs=tuple(replace(proof, flow=self.name) for proof in verdict.proofs))
        with self.lineage.c.quietly():
            shown: dict[str, DataFrame] = {}
            readings: dict[str, list[DataFrame]] = {}
            for site, places in self._sites.items():
                if len(places) < 2:  # one reading is its source
                    continue
                records = answer.found[site]
                assert isinstance(records, SqlRecords)
                there = records.frame()
                on_ways = [place for place in places if not place.barren] or places[:1]
                if question.are_rows_of(places, there):  # then no row need be read to compare them
                    shown[site.name] = _numbers(question.ids_of(places))
                    readings[site.name] = [_numbers(question.ids_of([place])) for place in on_ways]
                else:
                    shown[site.name] = there
                    readings[site.name] = [question.rows_of([place]) for place in on_ways]
            return with_sources(self.lineage.c, verdict, shown, readings)


def _numbers(ids: DataFrame) -> DataFrame:
    """Identities under names that are the same for all readings."""
    return ids.toDF(*[f"i{n}" for n in range(len(ids.columns))])


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
