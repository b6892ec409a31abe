"""Looking at a trace: what printing, why_not, verify and influence cost, each against the query's own time.

- print: from the question about one row until the trace is printed, with the first rows of every source; against the
  trace alone (all witnesses found and counted), and against the query.
- why_not: of one source row, from the question on: one that touches the result; `dropped`: the first row of the source,
  which mostly does not.
- verify: of a trace that was found and counted.
- influence: of MANY witnesses on a sum, from the question until every witness is told with its influence.

`python -m bench.sql` measures these with everything else; `python -m bench.looking` alone, of some queries.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import whence
from bench import harness, tpch
from bench.harness import Bars, Measured, Result, Way

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bench.sql import Runner

PRINT_LIMIT, WHY_NOT_LIMIT, VERIFY_LIMIT, INFLUENCE_LIMIT = 1.3, 1.0, 1.2, 1.0
MANY = 10_000
COLUMNS = ("print", "print/trace", "why_not", "dropped", "verify")
SUMS = "SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*) AS n FROM lineitem GROUP BY 1"


class Looks:
    """Questions about one row of one query, and about one row of its largest source."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.trace: whence.Trace | None = None
        source = runner.spark.table(runner.case.source)
        self.any_row = source.first()

    def session(self) -> whence.Session:
        assert self.runner.session is not None
        return self.runner.session

    def found(self) -> whence.Trace:
        trace = self.session().backward(self.runner.one_row())
        assert sum(trace.witness_counts.values())
        return trace

    def why_not(self, row: Any) -> None:
        from bench.sql import equal

        case = self.runner.case
        seed = equal(self.runner.spark.table(case.source), row, case.source_key)
        assert self.session().why_not(seed, to=self.runner.query())

    def _before_verify(self) -> None:
        self.runner.attach()
        self.trace = self.found()

    def _verify(self) -> None:
        assert self.trace is not None
        assert self.trace.verify().ok

    def ways(self) -> dict[str, Way]:
        runner = self.runner
        asked = {"before": runner.attach, "after": runner.close}
        return {
            "query": Way(lambda: runner.query().collect()),
            "trace": Way(self.found, **asked),
            "print": Way(lambda: str(self.session().backward(runner.one_row())), **asked),
            "why_not": Way(lambda: self.why_not(runner.seed), **asked),
            "dropped": Way(lambda: self.why_not(self.any_row), **asked),
            "verify": Way(self._verify, self._before_verify, runner.close),
        }


def ratios(found: dict[str, Measured]) -> dict[str, float]:
    """By column: against the query, but print/trace."""
    query = found["query"]
    against_query = {way: found[way].over(query) for way in ("print", "why_not", "dropped", "verify")}
    return {**against_query, "print/trace": found["print"].over(found["trace"])}


class Influence:
    """Sums by supplier, and as many suppliers as have some MANY witnesses together."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        per_supplier = sorted((row.l_suppkey, row.n) for row in spark.sql(SUMS).collect())
        self.witnesses, self.last = 0, 0
        for supplier, n in per_supplier:
            if self.witnesses >= MANY:
                break
            self.witnesses, self.last = self.witnesses + n, supplier

    def query(self) -> DataFrame:
        return self.spark.sql(SUMS)

    def ask(self) -> None:
        with whence.attach(self.spark, store=harness.DATA / "store") as w:
            told = w.backward(self.query().where(f"l_suppkey <= {self.last}")).influence("revenue").collect()
            assert len(told) == self.witnesses

    def ways(self) -> dict[str, Way]:
        return {"query": Way(lambda: self.query().collect()), "influence": Way(self.ask)}


def influence(spark: SparkSession, rounds: int, warmup: int) -> tuple[int, float, float]:
    """The number of witnesses, seconds, and times the query."""
    asked = Influence(spark)
    with harness.progress("influence", 2 * (rounds + warmup)) as tick:
        found = harness.interleaved(asked.ways(), rounds, warmup, tick)
    return asked.witnesses, found["influence"].median, found["influence"].over(found["query"])


def summary(by_column: dict[str, list[float]], many: tuple[int, float, float]) -> str:
    """The line of figures."""
    told = {column: f"{median(values):.2f}x" for column, values in by_column.items()}
    return (
        f"print {told['print/trace']} the trace alone (promised {PRINT_LIMIT}); of the query's time: why_not of a row "
        f"that reached the result {told['why_not']}, of any row {told['dropped']} (promised {WHY_NOT_LIMIT}), verify "
        f"{told['verify']} (promised {VERIFY_LIMIT}), influence of {many[0]:,} witnesses {many[2]:.2f}x "
        f"(promised {INFLUENCE_LIMIT})"
    )


def main() -> None:
    from bench.sql import CASES, Runner

    parser = harness.arguments("TPC-H: the cost of looking at a trace", rounds=3)
    parser.add_argument("--sf", type=float, default=1, help="scale factor")
    parser.add_argument("--only", nargs="*", help="queries, such as q1 q3")
    asked = parser.parse_args()
    cases = [case for case in CASES if not asked.only or case.query in asked.only]
    spark = harness.spark_session("bench-looking")
    tpch.register(spark, asked.sf)
    texts = tpch.queries()
    by_column: dict[str, list[float]] = {column: [] for column in COLUMNS}
    rows, raw = [], {}
    with harness.progress("looking", len(cases) * 6 * (asked.warmup + asked.rounds)) as tick:
        for case in cases:
            looks = Looks(Runner(spark, case, texts[case.query].text))
            found = harness.interleaved(
                looks.ways(), asked.rounds, asked.warmup, lambda way, name=case.query: tick(f"{name} {way}")
            )
            told = ratios(found)
            for column in COLUMNS:
                by_column[column].append(told[column])
            rows.append((case.query.upper(), f"{found['query'].median:.2f}", *[f"{told[c]:.2f}x" for c in COLUMNS]))
            raw[case.query] = {name: measured.seconds for name, measured in found.items()}
    many = influence(spark, asked.rounds, asked.warmup)
    spark.stop()
    result = Result(
        name="looking",
        title=f"TPC-H at scale factor {asked.sf:g}: looking at a trace of one row",
        line=summary(by_column, many),
        columns=("query", "query s", *COLUMNS),
        rows=rows,
        figures={column: median(values) for column, values in by_column.items()} | {"influence": many[2]},
        notes=(f"{asked.rounds} rounds after {asked.warmup} to warm up, one process, ways in alternating order.",),
        raw=raw,
    )
    target = harness.finish(
        result, Bars([case.query.upper() for case in cases], by_column, "times the query", limit=WHY_NOT_LIMIT)
    )
    if asked.docs:
        harness.write_docs(target)


if __name__ == "__main__":
    main()
