"""The watcher never hurts the job: small statements, many statements, TPC-DS, and a giant plan.

- statements: the same small statements with and without a whence session attached, interleaved.
- many: 1,000 statements in one session; every one must be in the catalogue, and the driver's memory must stay flat.
- TPC-DS: all queries with and without, and the background time in which their column lineage was worked out.
- giant: one plan of 200 joins and one of 5,000 columns; how long the listener and the parser had to do with them.
"""

from __future__ import annotations

import gc
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import whence
from bench import harness, tpcds_data
from bench.harness import Bars, Result, Way

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_LIMIT, TPCDS_LIMIT, PARSE_LIMIT = 1.05, 1.02, 0.050


class Attached:
    """Attaches around a timed run; what the watcher did in the background is waited for outside of it."""

    def __init__(self, spark: SparkSession, store: Path) -> None:
        self._spark, self._store = spark, store
        self.session: whence.Session | None = None
        self.parsed: list[float] = []
        self.stored: list[float] = []

    def start(self) -> None:
        self.session = whence.attach(self._spark, store=self._store)

    def stop(self) -> None:
        assert self.session is not None
        watcher = self.session._watcher
        assert watcher is not None
        watcher.flush()
        self.parsed += watcher.parse_seconds
        self.stored.append(watcher.store_seconds / max(1, watcher.counts["stored"]))
        self.session.close()


def statements(spark: SparkSession, count: int) -> Callable[[], None]:
    """A mix of what notebooks do: small reads, aggregates, writes."""
    spark.sql("CREATE TABLE IF NOT EXISTS bench_small USING parquet AS SELECT id, id % 7 AS k FROM range(1000)")
    spark.sql("CREATE TABLE IF NOT EXISTS bench_sink (id BIGINT, k BIGINT) USING parquet")
    texts = (
        "SELECT count(*) FROM bench_small",
        "SELECT k, sum(id) FROM bench_small GROUP BY k",
        "SELECT a.id FROM bench_small a JOIN bench_small b ON a.id = b.id WHERE a.k = 3 LIMIT 10",
        "INSERT OVERWRITE bench_sink SELECT id, k FROM bench_small WHERE k = 1",
        "SELECT * FROM bench_small WHERE id = 5",
    )

    def run() -> None:
        for number in range(count):
            spark.sql(texts[number % len(texts)]).collect()

    return run


def heap(spark: SparkSession) -> float:
    """MB of live objects in the driver's JVM."""
    jvm: Any = spark._jvm
    for _ in range(3):
        jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20


def many(spark: SparkSession, count: int, home: Path) -> dict[str, float]:
    """Heap and peak memory after the first tenth against the end: what is kept for each statement would show."""
    first = statements(spark, count // 10)
    rest = statements(spark, count - count // 10)
    with whence.attach(spark, store=home / "many") as w:
        assert w._watcher is not None
        first()
        w._watcher.flush()
        gc.collect()
        before, resident = heap(spark), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rest()
        w._watcher.flush()
        gc.collect()
        after, peak = heap(spark), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        kept = len(w.catalog.runs())
        lost = w._watcher._listener.lost + w._watcher.counts["lost"] + w._watcher.counts["failed"]
    return {
        "statements": count,
        "runs": kept,
        "lost": lost + abs(count - kept),
        "heap growth MB": after - before,
        "python growth MB": peak - resident,
    }


def giant(spark: SparkSession, home: Path) -> dict[str, float]:
    from pyspark.sql import functions as F

    wide = spark.range(1).select(*[F.lit(n).alias(f"c{n}") for n in range(5000)])
    wide.write.mode("overwrite").saveAsTable("bench_wide")
    found: dict[str, float] = {}
    with whence.attach(spark, store=home / "giant") as w:
        assert w._watcher is not None
        start = time.perf_counter()
        spark.table("bench_wide").write.mode("overwrite").saveAsTable("bench_wide2")
        found["5,000 columns: statement s"] = time.perf_counter() - start
        w._watcher.flush()
        found["5,000 columns: background s"] = time.perf_counter() - start - found["5,000 columns: statement s"]
        frame = spark.table("bench_small").alias("t0")
        for number in range(1, 201):
            frame = frame.join(
                spark.table("bench_small").alias(f"t{number}"), F.col("t0.id") == F.col(f"t{number}.id"), "left"
            )
        frame = frame.select("t0.id", F.col("t200.k").alias("k"))
        start = time.perf_counter()
        frame._jdf.queryExecution().analyzed()
        text = w._watcher._listener.plan(frame)
        found["200 joins: snapshot s"] = time.perf_counter() - start
        found["200 joins: snapshot MB"] = len(text) / 2**20
        from whence.watch.parse import observe
        from whence.watch.redact import parse_redacted

        start = time.perf_counter()
        observe({"plan": parse_redacted(text)}, w._watcher.place)
        found["200 joins: lineage s"] = time.perf_counter() - start
    return found


def tpcds(
    spark: SparkSession, home: Path, asked: Any, tick: Callable[[str], None]
) -> tuple[list[float], list[float], dict[str, Any]]:
    tpcds_data.register(spark, asked.sf)
    queries = tpcds_data.queries()
    names = [name for name in queries if not asked.only or name in asked.only]
    ratios, parsed, raw = [], [], {}
    for name in names:
        text = queries[name].text
        attached = Attached(spark, home / "tpcds")
        ways = {
            "plain": Way(lambda text=text: spark.sql(text).collect()),
            "watched": Way(lambda text=text: spark.sql(text).collect(), attached.start, attached.stop),
        }
        try:
            found = harness.interleaved(ways, asked.rounds, asked.warmup, lambda way, name=name: tick(f"{name} {way}"))
        except Exception as error:  # a query that Spark itself cannot run is left out, and said so
            raw[name] = str(error)[:200]
            continue
        ratios.append(found["watched"].over(found["plain"]))
        parsed.append(median(attached.parsed))
        raw[name] = {way: measured.seconds for way, measured in found.items()} | {"parse": attached.parsed}
    return ratios, parsed, raw


def total(raw: dict[str, Any], way: str) -> float:
    """Seconds of one round of all queries: the mean of the rounds."""
    return sum(sum(found[way]) / len(found[way]) for found in raw.values() if isinstance(found, dict))


def main() -> None:
    parser = harness.arguments("The cost of being watched", rounds=2, warmup=1)
    parser.add_argument("--small-rounds", type=int, default=4, help="rounds of the small statements")
    parser.add_argument("--sf", type=float, default=0.1, help="scale factor of TPC-DS")
    parser.add_argument("--statements", type=int, default=200, help="small statements in one round")
    parser.add_argument("--many", type=int, default=1000, help="statements of the endurance run")
    parser.add_argument("--only", nargs="*", help="TPC-DS queries, such as q1 q3")
    asked = parser.parse_args()

    home = Path(tempfile.mkdtemp(prefix="whence-bench-"))
    spark = harness.spark_session("bench-watch", **{"spark.sql.warehouse.dir": str(home / "warehouse")})
    turns = asked.warmup + asked.rounds
    queries = len(asked.only) if asked.only else 99
    small_turns = asked.warmup + asked.small_rounds
    with harness.progress("watch", 2 * small_turns + 2 + 2 * turns * queries) as tick:
        attached = Attached(spark, home / "small")
        run = statements(spark, asked.statements)
        small = harness.interleaved(
            {"plain": Way(run), "watched": Way(run, attached.start, attached.stop)},
            asked.small_rounds,
            asked.warmup,
            tick,
        )
        tick("many")
        endurance = many(spark, asked.many, home)
        tick("giant")
        large = giant(spark, home)
        ratios, parsed, raw = tpcds(spark, home, asked, tick)
    spark.stop()
    shutil.rmtree(home, ignore_errors=True)

    ratio = small["watched"].over(small["plain"])
    ds, parse = (median(ratios) if ratios else 0.0), (median(parsed) if parsed else 0.0)
    whole = total(raw, "watched") / total(raw, "plain") if ratios else 0.0
    background = median(attached.parsed) + median(attached.stored)
    rows = [
        (f"{asked.statements} small statements", f"{small['plain'].median:.2f} s", f"{ratio:.3f}x", f"{SMALL_LIMIT}x"),
        ("background work for each", "", f"{1000 * background:.1f} ms", ""),
        (f"TPC-DS sf {asked.sf:g}, {len(ratios)} queries, median", "", f"{ds:.3f}x", f"{TPCDS_LIMIT}x"),
        ("TPC-DS, all queries together", f"{total(raw, 'plain'):.1f} s", f"{whole:.3f}x", ""),
        ("TPC-DS column lineage, median", "", f"{1000 * parse:.1f} ms", f"{1000 * PARSE_LIMIT:.0f} ms"),
        (f"{asked.many} statements lost", "", f"{endurance['lost']:.0f}", "0"),
        ("heap growth over them", "", f"{endurance['heap growth MB']:.1f} MB", "flat"),
        ("Python growth over them", "", f"{endurance['python growth MB']:.1f} MB", "flat"),
        *((name, "", f"{value:.2f}", "") for name, value in large.items()),
    ]
    result = Result(
        name="watch",
        title="What being watched costs",
        line=(
            f"small statements {ratio:.3f}x (promised {SMALL_LIMIT}), TPC-DS {ds:.3f}x (promised {TPCDS_LIMIT}; "
            f"together {whole:.3f}x), "
            f"column lineage {1000 * parse:.1f} ms at the median (promised 50), "
            f"{endurance['lost']:.0f} of {asked.many} statements lost, heap {endurance['heap growth MB']:+.1f} MB"
        ),
        columns=("what", "without", "with", "promised"),
        rows=rows,
        figures={
            "small": ratio,
            "tpcds": ds,
            "tpcds together": whole,
            "background": background,
            "parse": parse,
            "worst parse": max(parsed, default=0.0),
            **endurance,
            **large,
        },
        notes=(
            "The store is SQLite; what the watcher does after a statement has returned shares the machine with "
            "the next one.",
            "Work in the background is reading, redacting, lineage and storing; it is done when no query runs, after "
            "3 s at the latest. Column lineage is that without storing.",
            "Growth is from after the first tenth of the statements to the end, after garbage collection.",
        ),
        raw=raw,
    )
    plot = Bars(
        ("small statements", "TPC-DS median"), {"watched": (ratio, ds)}, "x the time without", limit=SMALL_LIMIT
    )
    target = harness.finish(result, plot)
    if asked.docs:
        harness.write_docs(target)


if __name__ == "__main__":
    main()
