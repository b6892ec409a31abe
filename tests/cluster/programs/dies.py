"""A driver that captures, says so, and is killed: python dies.py <master> <executors' python> <home> <data> <store>

It has written one table and saved one RDD when it dies in the middle of another captured write."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql.functions import udf
from started import started

import whence

master, python, home, data, store = sys.argv[1:6]
spark = started(master, python, Path(home), **dict(a.split("=", 1) for a in sys.argv[6:]))
w = whence.attach(spark, store=store)
orders = spark.read.parquet(f"{data}/orders")
with w.capture():
    orders.where("amount > 25").select("id", "amount").write.parquet(f"{data}/large")
lines = w.context.textFile(f"{data}/lines.txt", 2)
lines.filter(lambda line: line.endswith("c")).saveAsTextFile(f"{data}/chosen")
_ = w.catalog.runs()  # what was seen so far is in the store
print("captured", flush=True)
driver = os.getpid()


def deadly(amount: int) -> int:
    os.kill(driver, 9)
    return amount


with w.capture():
    orders.select(udf(deadly, "int")("amount").alias("amount")).write.parquet(f"{data}/never")
