"""Uses a store while another process does: python neighbour.py <orders> <store>. Waits for a line before each step."""

import sys

from pyspark.sql import SparkSession

import whence

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
orders = spark.read.parquet(sys.argv[1])
with whence.attach(spark, store=sys.argv[2]) as w:
    print("attached", flush=True)
    sys.stdin.readline()
    totals = orders.groupBy("customer").count()
    print(sorted(row["id"] for row in w.backward(totals.where("customer = 2"))["orders"].collect()), flush=True)
    sys.stdin.readline()
spark.stop()
print("closed", flush=True)
