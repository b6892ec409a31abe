"""Which source rows are behind the rows that a dbt test rejected? Run after `whence run --capture dbt build`.

dbt leaves the SQL of every test in target/run_results.json; a failing test's SQL gives the rows that it rejects.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import whence


def failing(project: Path) -> dict[str, str]:
    """The tests that failed, by name, each with the query for the rows that it rejects."""
    results = json.loads((project / "target" / "run_results.json").read_text())["results"]
    return {r["unique_id"].split(".")[2]: r["compiled_code"] for r in results if r["status"] in ("fail", "warn")}


def main(project: Path) -> None:
    spark = SparkSession.builder.enableHiveSupport().getOrCreate()
    with whence.attach(spark) as w:
        for name, query in failing(project).items():
            trace = w.backward(spark.sql(query))
            count = trace.rows.count()
            print(f"{name} rejects {count} row{'' if count == 1 else 's'}\n{trace}\n{trace.verify()}\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
