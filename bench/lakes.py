"""Questions about Delta and Iceberg tables beside the same about Parquet files, of the same rows, in one run.

- query: the report over the tables of that format.
- backward: the first question of a session, about one row of the report, until all witnesses are counted; next: the
  second one, about another row.
- forward: from one row of the largest source, the first question of a session, until the touched rows are there.
- verify: of a trace that was found and counted.

Told in processor time (of Python, the JVM and their workers), which other work on the machine does not stretch.
`make bench-lakes` runs it in the environment of `make test-lakes`: python -m bench.lakes [--rows 1000000] [--docs]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import whence
from bench.harness import Measured, Result, Way, arguments, finish, interleaved, processor_time, progress, write_docs
from bench.harness import spark_session as session_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "delta", "iceberg")
WANTED = 1.0
REPORT = """
    SELECT region, count(*) AS n, sum(amount) AS total FROM {lines} JOIN {shops} USING (shop)
    WHERE amount > 10 GROUP BY region"""


def lakes_session() -> SparkSession:
    """With the jars and settings of tests/lakes."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    import maven
    from lakes.conftest import HAS_ICEBERG, JARS, RELEASE, SETTINGS

    if not HAS_ICEBERG:
        sys.exit(f"There is no Iceberg for Spark {RELEASE}: run it with LAKES=4.0.")
    jars = [path for name in JARS[RELEASE] for path in maven.jars(name, alone=True)]
    home = tempfile.mkdtemp(prefix="lakes-bench-")
    places = {"spark.sql.warehouse.dir": f"{home}/warehouse", "spark.sql.catalog.ice.warehouse": f"{home}/ice"}
    derby = {"spark.driver.extraJavaOptions": f"-Dderby.system.home={home}"}
    settings = {**SETTINGS, **places, **derby, "spark.jars": ",".join(map(str, jars)), "whence.bench.home": home}
    session: SparkSession = session_of("bench lakes", memory="3g", **settings)
    return session


def write(spark: SparkSession, home: str, rows: int) -> dict[str, dict[str, str]]:
    """The same rows in each format; by format, what each source is called in SQL."""
    lines = spark.range(0, rows, 1, 4).selectExpr(
        "id AS line", "CAST(id * 7919 % 5000 AS int) AS shop", "CAST(id * 31 % 997 AS double) / 7 AS amount"
    )
    shops = spark.range(0, 5000, 1, 1).selectExpr("CAST(id AS int) AS shop", "CONCAT('r', id % 100) AS region")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.bench")
    named: dict[str, dict[str, str]] = {}
    for kind in FORMATS:
        named[kind] = {}
        for name, df in (("lines", lines), ("shops", shops)):
            table = f"ice.bench.{name}" if kind == "iceberg" else f"{name}_{kind}"
            if kind == "iceberg":
                df.writeTo(table).using("iceberg").create()
            else:
                df.write.format(kind).saveAsTable(table)
            named[kind][name] = table
    return named


class Asked:
    """The questions about one format's report. Each is put to a new session, about DataFrames that are made anew."""

    def __init__(self, spark: SparkSession, store: Path, sources: dict[str, str]) -> None:
        self._spark, self._store, self._sources = spark, store, sources
        self._session: whence.Session | None = None
        self._trace: whence.Trace | None = None

    def report(self, where: str = "true") -> DataFrame:
        return self._spark.sql(REPORT.format(**self._sources)).where(where)

    def _attach(self) -> None:
        self._session = whence.attach(self._spark, store=self._store)

    def _close(self) -> None:
        assert self._session is not None
        self._session.close()

    def backward(self, region: str) -> whence.Trace:
        assert self._session is not None
        trace = self._session.backward(self.report(f"region = '{region}'"))
        assert sum(trace.witness_counts.values())
        return trace

    def forward(self) -> None:
        assert self._session is not None
        lines = self._spark.table(self._sources["lines"]).where("line = 7777")
        assert len(self._session.forward(lines, to=self.report()).rows.collect()) == 1

    def _asked_before(self) -> None:
        self._attach()
        self._trace = self.backward("r3")

    def _verify(self) -> None:
        assert self._trace is not None
        assert self._trace.verify().ok

    def ways(self) -> dict[str, Way]:
        return {
            "query": Way(lambda: self.report().collect()),
            "backward": Way(lambda: self.backward("r3"), self._attach, self._close),
            "next": Way(lambda: self.backward("r4"), self._asked_before, self._close),
            "forward": Way(self.forward, self._attach, self._close),
            "verify": Way(self._verify, self._asked_before, self._close),
        }


def main() -> None:
    parser = arguments(__doc__ or "", rounds=3)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    spark = lakes_session()
    home = str(spark.conf.get("whence.bench.home"))
    try:
        named = write(spark, home, options.rows)
        ways: dict[str, Way | Callable[[], object]] = {}
        for kind in FORMATS:
            asked = Asked(spark, Path(home, "store"), named[kind])
            ways |= {f"{kind} {what}": way for what, way in asked.ways().items()}
        with progress("lakes", len(ways) * (options.rounds + options.warmup)) as tick:
            measured = interleaved(ways, options.rounds, options.warmup, tick, processor_time)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    target = finish(result_of(measured, options.rows))
    if options.docs:
        write_docs(target)


def result_of(measured: dict[str, Measured], rows: int) -> Result:
    table: list[list[str]] = []
    figures: dict[str, Any] = {}
    for what in ("query", "backward", "next", "forward", "verify"):
        row = [what]
        for kind in FORMATS:
            way, query = measured[f"{kind} {what}"], measured[f"{kind} query"]
            row += [f"{way.median:.2f}", "" if what == "query" else f"{way.over(query):.2f}x"]
            figures[f"{kind}_{what}"] = way.over(query)
        table.append(row)
    worst = {
        kind: max(figures[f"{kind}_{what}"] / figures[f"parquet_{what}"] for what in ("backward", "forward", "verify"))
        for kind in FORMATS[1:]
    }
    said = ", ".join(f"{kind} at most {ratio:.2f}x" for kind, ratio in worst.items())
    return Result(
        "lakes",
        f"Delta and Iceberg beside Parquet, {rows:,} rows, in processor time",
        f"of Parquet's ratios to its query: {said} (wanted: {WANTED:g}x)",
        ["what", *(head for kind in FORMATS for head in (f"{kind} s", f"{kind} x its query"))],
        table,
        figures,
        raw={name: way.seconds for name, way in measured.items()},
    )


if __name__ == "__main__":
    main()
