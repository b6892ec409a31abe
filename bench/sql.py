"""Attaching costs nothing, and a trace of one row costs less than the query. TPC-H, interleaved, medians.

- attached: the query with a whence session attached, against the query without.
- backward: from the question about one row of the result until the identities of all its witnesses in all sources are
  computed. The row is the first of the result.
- seen: the same of a report that was computed in this session before (`report.collect()`, which is not counted): what
  Spark still has of that run is not computed again.
- forward: from one row of the largest source, one that does touch the result, until the touched rows are there.
- next: the second question in the same session, about another row of the result (forward: from the same source row);
  backward and forward are the first of their session.
- many: as backward, for 10,000 rows of the result at once (Q3 and Q10 without their LIMIT), against that query.
- print, why_not, dropped, verify, influence: looking at a trace (looking.py); print also against the trace alone.

`--scaling 0.1 1 3` measures backward alone at these scale factors, side by side; `--no-looks` leaves out the last two,
`many` and `print` to `influence`, which take half of the time.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import whence
from bench import harness, looking, tpch
from bench.harness import Bars, Measured, Result, Way

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ATTACH_LIMIT, MANY_LIMIT = 1.02, 3.0
# What is wanted of a question: the median of the queries' first one, of the next one, and the worst first one.
BACKWARD, NEXT_BACKWARD, WORST = 0.8, 0.3, 1.5
FORWARD, NEXT_FORWARD = 1.0, 0.5
MANY = 10_000
_LOOKS = 3
"""As many rounds are counted of looking at a trace."""


@dataclass(frozen=True)
class Case:
    """The columns that tell a row of the result apart, and the source of the row to follow forward with its key."""

    query: str
    keys: tuple[str, ...] = ()
    source: str = "lineitem"
    source_key: tuple[str, ...] = ("l_orderkey", "l_linenumber")


CASES = (
    Case("q1", ("l_returnflag", "l_linestatus")),
    Case("q2", ("p_partkey", "s_name"), "partsupp", ("ps_partkey", "ps_suppkey")),
    Case("q3", ("l_orderkey", "o_orderdate", "o_shippriority")),
    Case("q4", ("o_orderpriority",)),
    Case("q5", ("n_name",)),
    Case("q6"),
    Case("q7", ("supp_nation", "cust_nation", "l_year")),
    Case("q8", ("o_year",)),
    Case("q9", ("nation", "o_year")),
    Case("q10", ("c_custkey",)),
    Case("q11", ("ps_partkey",), "partsupp", ("ps_partkey", "ps_suppkey")),
    Case("q12", ("l_shipmode",)),
    Case("q13", ("c_count",), "customer", ("c_custkey",)),
    Case("q14"),
    Case("q15", ("s_suppkey",)),
    Case("q16", ("p_brand", "p_type", "p_size"), "partsupp", ("ps_partkey", "ps_suppkey")),
    Case("q17"),
    Case("q18", ("o_orderkey",)),
    Case("q19"),
    Case("q20", ("s_name",)),
    Case("q21", ("s_name",)),
    Case("q22", ("cntrycode",), "customer", ("c_custkey",)),
)


def equal(df: DataFrame, row: Any, columns: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import functions as F

    for column in columns:
        df = df.where(F.col(column).eqNullSafe(F.lit(row[column])))
    return df


class ManyRows:
    """A query whose result has many rows, without its LIMIT, and a condition that picks MANY of them."""

    def __init__(self, spark: SparkSession, case: Case, text: str) -> None:
        self.spark = spark
        self.text = re.sub(r"(?is)\s*limit\s+\d+\s*;?\s*$", "", text)
        key = case.keys[0]
        keys = sorted(row[0] for row in spark.sql(self.text).select(key).collect())
        self.picked = min(MANY, len(keys))
        self.condition = f"{key} <= {keys[self.picked - 1]}"

    def backward(self) -> None:
        with whence.attach(self.spark, store=harness.DATA / "store") as w:
            compute(w.backward(self.spark.sql(self.text).where(self.condition)))

    def ways(self) -> dict[str, Way]:
        return {"query": Way(lambda: self.spark.sql(self.text).collect()), "many": Way(self.backward)}


def compute(trace: whence.Trace) -> int:
    """All witness identities of all sources, without the rows, until their number is known."""
    return sum(trace.witness_counts.values())


class Runner:
    def __init__(self, spark: SparkSession, case: Case, text: str) -> None:
        self.spark, self.case, self.text = spark, case, text
        self.session: whence.Session | None = None
        self.seen: DataFrame | None = None
        self.first, *others = self.query().take(2)
        self.other = others[0] if others else self.first
        self.next: dict[str, list[float]] = {"backward": [], "forward": []}
        with whence.attach(spark, store=harness.DATA / "store") as w:
            trace = w.backward(self.one_row())
            self.witnesses = compute(trace)
            self.seed = trace[case.source].first()

    def query(self) -> DataFrame:
        return self.spark.sql(self.text)

    def one_row(self, row: Any = None) -> DataFrame:
        return equal(self.query() if self.seen is None else self.seen, row or self.first, self.case.keys)

    def attach(self) -> None:
        self.session = whence.attach(self.spark, store=harness.DATA / "store")

    def look(self) -> None:
        self.attach()
        self.seen = self.query()
        self.seen.collect()

    def close(self) -> None:
        self.seen = None
        if self.session is not None:
            self.session.close()

    def backward(self, row: Any = None) -> None:
        assert self.session is not None
        compute(self.session.backward(self.one_row(row)))

    def ask_again(self, way: str) -> None:
        question = {"backward": lambda: self.backward(self.other), "forward": self.forward}[way]
        self.next[way].append(harness.timed(question))
        self.close()

    def forward(self) -> None:
        assert self.session is not None
        seed = equal(self.spark.table(self.case.source), self.seed, self.case.source_key)
        touched = self.session.forward(seed, to=self.query()).rows.collect()
        assert touched, "the row must touch the result"

    def ways(self) -> dict[str, Way]:
        with_whence = {"before": self.attach, "after": self.close}
        return {
            "query": Way(lambda: self.query().collect()),
            "attached": Way(lambda: self.query().collect(), **with_whence),
            "backward": Way(self.backward, self.attach, lambda: self.ask_again("backward")),
            "seen": Way(self.backward, self.look, self.close),
            "forward": Way(self.forward, self.attach, lambda: self.ask_again("forward")),
        }


def main() -> None:
    parser = harness.arguments("TPC-H: the cost of attaching, and of a trace of one row", rounds=7, warmup=2)
    parser.add_argument("--sf", type=float, default=1, help="scale factor")
    parser.add_argument("--only", nargs="*", help="queries, such as q1 q3")
    parser.add_argument(
        "--looks", action=argparse.BooleanOptionalAction, default=True, help="many rows at once, and looking at a trace"
    )
    parser.add_argument("--scaling", type=float, nargs="*", help="backward alone at these scale factors")
    asked = parser.parse_args()

    cases = [case for case in CASES if not asked.only or case.query in asked.only]
    if asked.scaling:
        _scaling(cases, asked)
        return
    spark = harness.spark_session("bench-sql")
    tpch.register(spark, asked.sf)
    texts = tpch.queries()
    rows, raw, labels = [], {}, []
    columns = looking.COLUMNS if asked.looks else ()
    looks: dict[str, list[float]] = {column: [] for column in columns}
    ratios: dict[str, list[float]] = {"attached": [], "backward": [], "seen": [], "forward": []}
    later: dict[str, list[float]] = {"backward": [], "forward": []}
    few, more = min(asked.rounds, _LOOKS), min(asked.warmup, 1)
    ticks = 5 * (asked.warmup + asked.rounds) + (6 * (few + more) if asked.looks else 0)
    with harness.progress("TPC-H", len(cases) * ticks) as tick:
        for case in cases:
            runner = Runner(spark, case, texts[case.query].text)
            found = harness.interleaved(
                runner.ways(), asked.rounds, asked.warmup, lambda way, name=case.query: tick(f"{name} {way}")
            )
            ways = looking.Looks(runner).ways() if asked.looks else {}
            looked = harness.interleaved(ways, few, more, lambda way, name=case.query: tick(f"{name} {way}"))
            told = looking.ratios(looked) if asked.looks else {}
            for column in columns:
                looks[column].append(told[column])
            for way in ratios:
                ratios[way].append(found[way].over(found["query"]))
            again = {
                way: Measured(way, tuple(seconds[asked.warmup :])).over(found["query"])
                for way, seconds in runner.next.items()
            }
            for way, ratio in again.items():
                later[way].append(ratio)
            rows.append((*_row(case, runner, found, again), *[f"{told[c]:.2f}x" for c in columns]))
            labels.append(case.query.upper())
            raw[case.query] = {name: measured.seconds for name, measured in found.items()} | {
                "next": runner.next,
                "looks": {name: measured.seconds for name, measured in looked.items()},
            }
    told_of_many = looking.influence(spark, few, more) if asked.looks else None
    with_many = [case for case in cases if case.query in ("q3", "q10")] if asked.looks else []
    many = _many(spark, with_many, texts, asked)
    spark.stop()

    attached, backward, seen, forward = (median(ratios[way]) for way in ("attached", "backward", "seen", "forward"))
    worst_many = max((ratio for _, ratio in many.values()), default=0)
    next_back, next_forth = (median(later[way]) for way in ("backward", "forward"))
    result = Result(
        name="sql",
        title=f"TPC-H at scale factor {asked.sf:g}: attaching, and tracing one row",
        line=(
            f"attached {attached:.3f}x (promised {ATTACH_LIMIT}); of the query's own time, medians over {len(cases)} "
            f"queries: backward {backward:.2f}x (wanted {BACKWARD}), worst {max(ratios['backward']):.2f}x "
            f"(wanted {WORST}), of what was computed in the session {seen:.2f}x, "
            f"next {next_back:.2f}x (wanted {NEXT_BACKWARD}), "
            f"forward {forward:.2f}x (wanted {FORWARD}), "
            f"next {next_forth:.2f}x (wanted {NEXT_FORWARD})"
            + (f"; {MANY:,} rows at once {worst_many:.2f}x (promised {MANY_LIMIT})" if many else "")
            + ("" if told_of_many is None else "; " + looking.summary(looks, told_of_many))
        ),
        columns=(
            "query",
            "query s",
            "attached",
            "backward s",
            "backward",
            "seen",
            "next",
            "forward s",
            "forward",
            "next",
            "witnesses",
            *columns,
        ),
        rows=rows,
        figures={
            "attached": attached,
            "backward": backward,
            "seen": seen,
            "forward": forward,
            "next backward": next_back,
            "next forward": next_forth,
            "worst backward": max(ratios["backward"]),
            "worst forward": max(ratios["forward"]),
            **{f"many {query}": ratio for query, (_, ratio) in many.items()},
            **{column: median(values) for column, values in looks.items()},
            **({} if told_of_many is None else {"influence": told_of_many[2]}),
        },
        notes=(
            f"{asked.rounds} rounds after {asked.warmup} to warm up, one process, ways in alternating order; "
            "ratios are medians of the rounds' ratios to the query without whence.",
            "backward and forward answer for one row, with nothing recorded beforehand, as the first question of their "
            "session; seen is the same of a report that this session has computed before; "
            "next is the second question, about another row (forward: from the same one): what the first one "
            "computed and the second needs too is known then.",
            *(
                [
                    f"print, why_not, dropped and verify are medians of {few} rounds after {more}: from the question "
                    "until the trace is printed with the first rows of every source; where a row that reached the "
                    "result, and the first row of the source, dropped out; the proof of a trace that was found and "
                    "counted."
                ]
                if asked.looks
                else []
            ),
            *[
                f"{query.upper()} without its LIMIT, {picked:,} rows traced at once: {ratio:.2f}x that query's time."
                for query, (picked, ratio) in many.items()
            ],
        ),
        raw=raw,
    )
    target = harness.finish(result, Bars(labels, ratios, "x the query's own time", limit=BACKWARD))
    if asked.docs:
        harness.write_docs(target)


def _many(spark: SparkSession, cases: list[Case], texts: Any, asked: Any) -> dict[str, tuple[int, float]]:
    """Of each query: how many rows were picked, and the trace's time over the query's."""
    found = {}
    with harness.progress("many rows at once", len(cases) * 2 * (asked.warmup + asked.rounds)) as tick:
        for case in cases:
            rows = ManyRows(spark, case, texts[case.query].text)
            measured = harness.interleaved(
                rows.ways(), asked.rounds, asked.warmup, lambda way, name=case.query: tick(f"{name} {way}")
            )
            found[case.query] = (rows.picked, measured["many"].over(measured["query"]))
    return found


def _scaling(cases: list[Case], asked: Any) -> None:
    spark = harness.spark_session("bench-scaling")
    texts = tpch.queries()
    ratios: dict[float, list[float]] = {}
    raw: dict[str, Any] = {}
    with harness.progress("scaling", len(asked.scaling) * len(cases) * 2 * (asked.warmup + asked.rounds)) as tick:
        for sf in asked.scaling:
            tpch.register(spark, sf)
            for case in cases:
                runner = Runner(spark, case, texts[case.query].text)
                ways = {way: runner.ways()[way] for way in ("query", "backward")}
                found = harness.interleaved(
                    ways, asked.rounds, asked.warmup, lambda way, at=f"{sf:g} {case.query}": tick(f"{at} {way}")
                )
                ratios.setdefault(sf, []).append(found["backward"].over(found["query"]))
                raw[f"{case.query} {sf:g}"] = {name: measured.seconds for name, measured in found.items()}
    spark.stop()
    middle = {sf: median(by_query) for sf, by_query in ratios.items()}
    result = Result(
        name="scaling",
        title="TPC-H: backward at growing scale factors",
        line="backward, median of the queries: " + ", ".join(f"sf {sf:g} {x:.2f}x" for sf, x in middle.items()),
        columns=("query", *[f"sf {sf:g}" for sf in ratios]),
        rows=[
            (case.query.upper(), *[f"{by_query[i]:.2f}x" for by_query in ratios.values()])
            for i, case in enumerate(cases)
        ],
        figures={f"sf {sf:g}": x for sf, x in middle.items()},
        notes=(f"{asked.rounds} rounds after {asked.warmup}; the first question of a session, over the query's time.",),
        raw=raw,
    )
    target = harness.finish(
        result,
        Bars([c.query.upper() for c in cases], {f"sf {sf:g}": r for sf, r in ratios.items()}, "x the query's own time"),
    )
    if asked.docs:
        harness.write_docs(target)


def _row(case: Case, runner: Runner, found: dict[str, Measured], again: dict[str, float]) -> tuple[str, ...]:
    query = found["query"]
    return (
        case.query.upper(),
        f"{query.median:.2f}",
        f"{found['attached'].over(query):.3f}x",
        f"{found['backward'].median:.2f}",
        f"{found['backward'].over(query):.2f}x",
        f"{found['seen'].over(query):.2f}x",
        f"{again['backward']:.2f}x",
        f"{found['forward'].median:.2f}",
        f"{found['forward'].over(query):.2f}x",
        f"{again['forward']:.2f}x",
        f"{runner.witnesses:,}",
    )


if __name__ == "__main__":
    main()
