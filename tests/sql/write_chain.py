"""Run by test_written_elsewhere.py as another process: one job of a chain, under capture."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import whence


def main() -> None:
    home = Path(sys.argv[1])
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(home / "other-warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with whence.attach(spark, store=home / "store") as w:
        orders = spark.read.parquet(str(home / "orders"))
        with w.capture():
            # B: what is chosen at random can be told only because it is written down.
            lucky = orders.selectExpr("customer", "amount", "rand() < 0.7 as chosen").where("chosen")
            lucky.write.parquet(str(home / "lucky"))
            # C: an aggregate of B
            totals = spark.read.parquet(str(home / "lucky")).groupBy("customer").sum("amount").toDF("customer", "total")
            totals.write.parquet(str(home / "totals"))
            # D: another choice, over C
            spark.read.parquet(str(home / "totals")).limit(2).write.parquet(str(home / "two"))
    print(json.dumps([tuple(row) for row in spark.read.parquet(str(home / "lucky")).collect()]))
    spark.stop()


if __name__ == "__main__":
    main()
