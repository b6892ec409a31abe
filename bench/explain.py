"""Does explain find planted conditions among 10 million rows of 30 columns on two cores, and how long does it take?

`python -m bench.explain`; `--rows` for less. Bad rows satisfy one of two planted conditions; one row in 2,000 lies.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

from bench.harness import DATA, Result, arguments, finish, progress, spark_session, timed, write_docs

PLANTED = ("agent = 'agent7' and hour >= 22", "x3 <= 0.01 and host = 'h2'")


def table(spark: object, rows: int) -> str:
    """Written once; 10 strings, 10 integers, 10 doubles."""
    path = DATA / f"explain-{rows}"
    if not (path / "_SUCCESS").exists():
        strings = [f"concat('h', pmod(hash(id, {i}), {5 + i})) as s{i}" for i in range(8)]
        whole = [f"int(pmod(hash(id, {20 + i}), {10 ** (1 + i % 5)})) as n{i}" for i in range(9)]
        real = [f"pmod(hash(id, {40 + i}), 1000003) / 1000003.0d as x{i}" for i in range(10)]
        named = [
            "concat('agent', pmod(hash(id, 60), 40)) as agent",
            "concat('h', pmod(hash(id, 61), 9)) as host",
            "int(pmod(hash(id, 62), 24)) as hour",
        ]
        spark.range(rows).selectExpr(*named, *strings, *whole, *real).write.mode("overwrite").parquet(str(path))  # type: ignore[attr-defined]
    return str(path)


def main() -> None:
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args()
    from pyspark.sql import functions as F

    from whence.debug.explain.explain import explain

    Path(DATA).mkdir(parents=True, exist_ok=True)
    spark = spark_session("explain", memory="2g")
    with progress("explain", 3) as tick:
        tick("writing the table")
        rows = spark.read.parquet(table(spark, options.rows))
        lie = "pmod(hash(agent, x1, x2), 2000) = 0"
        wrong = f"((({PLANTED[0]}) or ({PLANTED[1]})) != ({lie}))"
        tick("one look at every value")
        scan = timed(lambda: rows.agg(*(F.max(c) for c in rows.columns)).collect())
        tick(f"{options.rows:,} rows x {len(rows.columns)} columns")
        begun = time.perf_counter()
        answer = explain(rows.where(wrong), rows.where(f"not {wrong}"))
        took = time.perf_counter() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {c.sql for c in answer.causes}
    line = (
        f"explain: {options.rows:,} rows x {len(rows.columns)} columns in {took:.0f} s ({took / scan:.1f} times one "
        f"look at every value, {scan:.1f} s), Python's memory {memory:.0f} MB at most; {answer.covered:,} of "
        f"{answer.bad_rows:,} bad rows explained by {answer.sql}"
    )
    target = finish(
        Result(
            "explain",
            "Planted conditions found in data",
            line,
            ["condition", "bad rows", "error rate"],
            [[c.sql, f"{c.support:,}", f"{c.error_rate:.2%}"] for c in answer.causes],
            {
                "rows": options.rows,
                "columns": len(rows.columns),
                "seconds": round(took, 1),
                "scan_seconds": round(scan, 1),
                "memory_mb": round(memory),
                "bad_rows": answer.bad_rows,
                "covered": answer.covered,
                "found_first": PLANTED[0] in found,
                "found_second": any(
                    "x3 <= 0.0099" in c and "host = 'h2'" in c and c.count(" and ") == 1 for c in found
                ),
                "causes": len(answer.causes),
            },
            notes=[
                f"Planted: {PLANTED[0]}; {PLANTED[1]}. One row in 2,000 lies, so that some 5,000 bad rows have no "
                "cause and some good rows satisfy the conditions. Spark's driver has 2 GB on two cores."
            ],
        )
    )
    if options.docs:
        write_docs(target)
    spark.stop()


if __name__ == "__main__":
    main()
