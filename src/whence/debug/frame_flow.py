"""Between RDDs and DataFrames: the query behind records of RDDs that were rows of a DataFrame, and the program of RDDs
behind rows of a DataFrame that was made from one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from whence.model import WhenceError
from whence.model.flow import Answer, Few, Flow, RecordId, Records, Site, Step
from whence.model.verdict import Verdict
from whence.rdd import RddFlow
from whence.sql import SqlLineage
from whence.sql.flow import SqlFlow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from whence.rdd import LineageContext


def flow_behind(
    site: Site, context: LineageContext, lineage: Callable[[DataFrame], SqlLineage]
) -> tuple[Flow, Site] | None:
    """The flow of this session that made the records of a site, and the same site as its output."""
    book = context.book
    kind, _, place = site.key.partition(" ")
    run, _, node = place.rpartition("/")
    if kind not in ("rdd", "dataframe") or run != book.run or not node.isdigit():
        return None
    if kind == "rdd":
        made = next((rdd for rdd in list(book.handed.values()) if rdd.node.id == int(node)), None)
        return None if made is None else (RddFlow(book, context, made), site)
    rdds = RddFlow(book, context)
    frame = rdds.frame_of(site)
    return None if frame is None else (FrameFlow(lineage(frame), site, rdds), site)


class PickedRows:
    """Rows of a DataFrame that became records of RDDs; `flow`: the query that gives these rows alone."""

    def __init__(self, site: Site, ids: tuple[RecordId, ...], flow: SqlFlow, widened: tuple[str, ...]) -> None:
        self.site, self.flow, self.widened = site, flow, widened
        self._ids = ids
        self.rows = flow.all()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.rows.columns

    def frame(self) -> DataFrame:
        return self.rows.frame()

    def count(self) -> int:
        return len(self._ids)

    def ids(self, most: int | None = None) -> list[RecordId]:
        return list(self._ids[:most])

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        return self.rows.values(most)


class FrameFlow:
    """A query whose rows RDDs took over. Rows are told by what they hold: those that are equal cannot be told apart."""

    def __init__(self, lineage: SqlLineage, site: Site, rdds: RddFlow) -> None:
        self._flow = SqlFlow(lineage)
        self._rdds = rdds
        self.name = f"query of {site.name}"
        self.outputs = (site,)

    @property
    def inputs(self) -> tuple[Site, ...]:
        return self._flow.inputs

    @property
    def steps(self) -> tuple[Step, ...]:
        return self._flow.steps

    def files(self, site: Site) -> Collection[str]:
        return self._flow.files(site)

    def take(self, site: Site, ids: Iterable[RecordId]) -> Records:
        if site not in self.outputs:
            return self._flow.take(site, ids)
        wanted = tuple(dict.fromkeys(ids))
        rows = self._rdds.rows_of(site, wanted)
        picked = self._like(rows)
        widened: tuple[str, ...] = ()
        with self._flow.lineage.c.quietly():
            if picked.count() > len(rows):
                widened = (f"{site.name}: other rows are equal to those asked for, and cannot be told from them",)
        return PickedRows(site, wanted, SqlFlow(SqlLineage(self._flow.lineage.c, picked)), widened)

    def _like(self, rows: Collection[tuple[Any, ...]]) -> DataFrame:
        """The rows of the DataFrame that are equal to these."""
        lineage = self._flow.lineage
        names = [f"c{i}" for i in range(len(lineage.frame.columns))]
        plain = lineage.frame.toDF(*names)
        known = lineage.c.spark.createDataFrame(list(rows), plain.schema)
        with lineage.c.quietly():
            hashes = [row[0] for row in self._hashed(known).select("whence_contents").distinct().collect()]
        told = self._hashed(plain)
        return told.where(F.col("whence_contents").isin(*hashes)).select(*names).toDF(*lineage.frame.columns)

    def _hashed(self, frame: DataFrame) -> DataFrame:
        c = self._flow.lineage.c
        plan = c.plan_of(frame)
        hashes = [c.alias(h, f"whence_hash{i}") for i, h in enumerate(c.content_hashes(c.output(plan)))]
        both = F.concat_ws(":", *[F.col(f"whence_hash{i}").cast("string") for i in range(len(hashes))])
        return c.frame(c.extend(plan, hashes)).withColumn("whence_contents", both)

    def backward(self, asked: Records) -> Answer:
        picked = self._picked(asked)
        answer = picked.flow.backward(picked.rows)
        return Answer(answer.found, lambda: (*picked.widened, *answer.widened), lambda: answer.ended)

    def at(self, step: Step, asked: Records) -> Records:
        picked = self._picked(asked)
        # What picks the rows stands above the query's own steps.
        above = len(picked.flow.steps) - len(self.steps)
        return picked.flow.at(picked.flow.steps[step.number + above], picked.rows)

    def verify(self, asked: Records, answer: Answer) -> Verdict:
        picked = self._picked(asked)
        return picked.flow.verify(picked.rows, picked.flow.backward(picked.rows))

    def _picked(self, asked: Records) -> PickedRows:
        if not isinstance(asked, PickedRows):
            raise WhenceError(f"These are no rows of {self.outputs[0]} but of {asked.site}.")
        return asked

    def forward(self, seeds: Records) -> Answer:
        return self.forward_all([seeds])

    def forward_all(self, seeds: Collection[Records]) -> Answer:
        answer = self._flow.forward_all(seeds)
        (touched,) = answer.found.values()
        site, rows = self.outputs[0], touched.values()
        ids = self._rdds.positions_of(site, rows) if rows else []
        more = Counter(ids).total() > len(rows)
        widened = (f"{site.name}: other rows are equal to those touched, and cannot be told from them",) if more else ()
        return Answer({site: Few(site, tuple(ids))}, lambda: (*widened, *answer.widened), lambda: answer.ended)
