"""All 22 TPC-H and 99 TPC-DS queries: random rows traced backward and proven, one forward trace checked, with times.

A query that returns no rows at the first scale factor is tried again at the next.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

import whence
from bench import harness, tpcds_data, tpch
from bench.duckdata import Query
from bench.harness import Bars, Result
from bench.proof import Proof, prove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, suite: str, sf: float, queries: dict[str, Query], picks: int) -> Iterator[Proof]:
    (tpch if suite == "tpch" else tpcds_data).register(spark, sf)
    with (
        whence.attach(spark, store=harness.DATA / "store") as w,
        harness.progress(f"{suite} at {sf:g}", len(queries)) as tick,
    ):
        for name, query in queries.items():
            try:
                proof = prove(w, f"{suite} {name}", query.text, picks)
            except Exception as error:  # one query's crash must not hide the others
                proof = Proof(f"{suite} {name}", status="failed", detail=str(error).splitlines()[0])
                traceback.print_exc()
            tick(f"{name} {proof.status}")
            if proof.status not in ("proven", "empty"):
                harness.console.print(f"{suite} {name}: {proof.status}: {proof.detail}", markup=False)
            yield proof


def main() -> None:
    parser = harness.arguments("TPC-H and TPC-DS: every query traced and proven")
    parser.add_argument("--sf", type=float, nargs="+", default=[0.01, 1], help="scale factors, tried in turn")
    parser.add_argument("--picks", type=int, default=2, help="rows traced per query")
    parser.add_argument("--suite", choices=("tpch", "tpcds"), help="only this one")
    parser.add_argument("--only", nargs="*", help="queries, such as q1 q3")
    asked = parser.parse_args()

    spark = harness.spark_session("bench-tpcds")
    done: dict[str, tuple[Proof, float]] = {}
    changes: dict[str, list[str]] = {}
    left: dict[str, dict[str, Query]] = {}
    for suite, source in (("tpch", tpch), ("tpcds", tpcds_data)):
        if asked.suite in (None, suite):
            left[suite] = {n: q for n, q in source.queries().items() if not asked.only or n in asked.only}
            for name, query in left[suite].items():
                for change in query.changes:
                    changes.setdefault(change, []).append(f"{suite} {name}")
    stopped = ""
    try:
        for sf in asked.sf:
            for suite, queries in left.items():
                for proof in run(spark, suite, sf, queries, asked.picks) if queries else ():
                    done[proof.query] = (proof, sf)
                left[suite] = {n: q for n, q in queries.items() if done[f"{suite} {n}"][0].status == "empty"}
    except KeyboardInterrupt:  # what was proven until now is told all the same
        stopped = f"Stopped at scale factor {sf:g}: some queries were not tried there."
        harness.console.print(stopped)
    spark.stop()

    proofs = [proof for proof, _ in done.values()]
    counts = Counter(proof.status for proof in proofs)
    traced = [p for p in proofs if p.status == "proven"]
    ratio = median(p.seconds["backward"] / asked.picks / p.seconds["query"] for p in traced) if traced else 0.0
    result = Result(
        name="tpcds",
        title="TPC-H and TPC-DS: every query traced and proven",
        line=(
            f"{counts['proven']} of {len(proofs)} queries proven, {counts['wrong']} wrong, "
            f"{counts['refused']} refused, {counts['failed']} failed, {counts['empty']} without rows; "
            f"{sum(not p.exact for p in traced)} of the proven are supersets; "
            f"one row traced in {ratio:.2f}x its query's time (median)"
        ),
        columns=(
            "query",
            "sf",
            "rows",
            "status",
            "witnesses",
            "exact",
            "query s",
            "backward s",
            "verify s",
            "forward s",
        ),
        rows=[
            (
                p.query,
                f"{sf:g}",
                str(p.rows),
                p.status,
                f"{p.witnesses:,}",
                "yes" if p.exact else "superset",
                *(f"{p.seconds.get(k, 0):.2f}" for k in ("query", "backward", "verify", "forward")),
            )
            for p, sf in done.values()
        ],
        figures={**dict(counts), "queries": len(proofs), "backward_ratio": round(ratio, 3)},
        notes=[
            *[f"{change} ({len(names)} queries: {', '.join(names)})" for change, names in changes.items()],
            *([stopped] if stopped else []),
        ],
        raw={p.query: {"detail": p.detail, **p.seconds} for p in proofs},
    )
    seconds = {what: [p.seconds.get(what, 0.0) for p in traced] for what in ("query", "backward", "forward")}
    path = harness.finish(result, Bars([p.query for p in traced], seconds, "seconds", log=True))
    if asked.docs:
        harness.write_docs(path)


if __name__ == "__main__":
    main()
