"""What `with w.capture():` costs around an aggregate, and what it gives. TPC-H, interleaved, medians.

- captured: the query under capture, against the query without: the lineage of every group is written down in the same
  pass. Each round captures anew.
- trace: from the question about one row of the result until the identities of all its witnesses in all sources are
  there and counted, taken from what was written down; the row is the first of the result.
- bytes: what the store takes for one association (one source row of one group), after sorting and compressing.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import whence
from bench import harness, tpch
from bench.harness import Bars, Result, Way
from whence.model import Strategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AGGREGATE_LIMIT, JOIN_LIMIT, TRACE_LIMIT = 1.3, 1.4, 0.5


@dataclass(frozen=True)
class Case:
    query: str
    keys: tuple[str, ...]
    joins: bool = True


CASES = (
    Case("q1", ("l_returnflag", "l_linestatus"), joins=False),
    Case("q3", ("l_orderkey", "o_orderdate", "o_shippriority")),
    Case("q5", ("n_name",)),
    Case("q10", ("c_custkey",)),
    Case("q12", ("l_shipmode",)),
)


class Runner:
    def __init__(self, spark: SparkSession, case: Case, text: str) -> None:
        self.spark, self.case, self.text = spark, case, text
        self.store = harness.DATA / "capture-store"
        self.traces: list[float] = []
        self.witnesses = 0
        self.fact: Any = None

    def query(self) -> DataFrame:
        return self.spark.sql(self.text)

    def attach(self) -> None:
        shutil.rmtree(self.store, ignore_errors=True)
        self.session = whence.attach(self.spark, store=self.store)

    def captured(self) -> None:
        self.report = self.query()
        with self.session.capture():
            self.first = self.report.collect()[0]

    def ask(self) -> None:
        """After the timing of the captured query: the trace of its first row, from what was captured."""
        from pyspark.sql import functions as F

        one = self.report  # what is written down belongs to this DataFrame and what is made from it
        for key in self.case.keys:
            one = one.where(F.col(key).eqNullSafe(F.lit(self.first[key])))
        found: list[Any] = []

        def trace() -> None:
            asked = self.session.backward(one)
            self.witnesses = sum(asked.witness_counts.values())
            found.append(asked.strategy)

        trace()  # as the query's own time, the trace's is told warm
        self.traces.append(harness.timed(trace))
        assert found[-1] is Strategy.STORED, found
        (self.fact,) = [fact for facts in self.session._plans().memory.facts.values() for fact in facts]
        self.session.close()


def main() -> None:
    parser = harness.arguments("TPC-H: the cost of capture, and traces from what was captured", rounds=5, warmup=2)
    parser.add_argument("--sf", type=float, default=1, help="scale factor")
    parser.add_argument("--only", nargs="*", help="queries, such as q1 q3")
    asked = parser.parse_args()

    cases = [case for case in CASES if not asked.only or case.query in asked.only]
    spark = harness.spark_session("bench-capture")
    tpch.register(spark, asked.sf)
    texts = tpch.queries()
    rows, raw, ratios, traces, sizes = [], {}, {}, {}, {}
    with harness.progress("capture", len(cases) * 2 * (asked.warmup + asked.rounds)) as tick:
        for case in cases:
            runner = Runner(spark, case, texts[case.query].text)
            ways = {
                "query": Way(lambda runner=runner: runner.query().collect()),
                "captured": Way(runner.captured, before=runner.attach, after=runner.ask),
            }
            found = harness.interleaved(
                ways, asked.rounds, asked.warmup, lambda way, name=case.query: tick(f"{name} {way}")
            )
            ratio = ratios[case.query] = found["captured"].over(found["query"])
            trace = traces[case.query] = median(runner.traces[asked.warmup :])
            told = runner.fact.tapped
            associations = told["rows"] * told["readings"]
            sizes[case.query] = told["bytes"] / max(1, associations)
            raw[case.query] = {name: measured.seconds for name, measured in found.items()} | {"trace": runner.traces}
            rows.append(
                (
                    case.query.upper(),
                    "join, aggregate" if case.joins else "aggregate",
                    f"{found['query'].median:.2f}",
                    f"{found['captured'].median:.2f}",
                    f"{ratio:.2f}x",
                    f"{trace:.2f}",
                    f"{runner.witnesses:,}",
                    f"{associations:,}",
                    f"{told['bytes'] / 1e6:.1f}",
                    f"{sizes[case.query]:.2f}",
                )
            )
    spark.stop()
    shutil.rmtree(harness.DATA / "capture-store", ignore_errors=True)
    plain = [ratios[c.query] for c in cases if not c.joins] or [0.0]
    joined = [ratios[c.query] for c in cases if c.joins] or [0.0]
    result = Result(
        name="sql_capture",
        title=f"TPC-H at scale factor {asked.sf:g}: capture, and traces from what was captured",
        line=(
            f"capture around an aggregate {median(plain):.2f}x (promised {AGGREGATE_LIMIT}), around join and aggregate "
            f"{median(joined):.2f}x, worst {max(joined):.2f}x (promised {JOIN_LIMIT}); stored trace "
            f"{median(traces.values()):.2f} s, worst {max(traces.values()):.2f} s (promised {TRACE_LIMIT}); "
            f"{median(sizes.values()):.2f} bytes an association"
        ),
        columns=(
            "query",
            "kind",
            "query s",
            "captured s",
            "ratio",
            "trace s",
            "witnesses",
            "associations",
            "MB",
            "bytes",
        ),
        rows=rows,
        figures={
            "aggregate": median(plain),
            "join and aggregate": median(joined),
            "worst join and aggregate": max(joined),
            "trace seconds": median(traces.values()),
            "worst trace seconds": max(traces.values()),
            "bytes per association": median(sizes.values()),
        },
        notes=(
            f"{asked.rounds} rounds after {asked.warmup} to warm up, one process, ways in alternating order; ratios "
            "are medians of the rounds' ratios to the query without whence.",
            "an association is one source row in one group; MB and bytes are what the store takes for them.",
        ),
        raw=raw,
    )
    target = harness.finish(
        result,
        Bars([c.query.upper() for c in cases], {"captured": list(ratios.values())}, "x the query's own time", 1.4),
    )
    if asked.docs:
        harness.write_docs(target)


if __name__ == "__main__":
    main()
