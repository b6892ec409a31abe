"""Traces on executors that are processes of their own: python cluster.py <orders> <store>"""

import json
import sys

from pyspark.sql import SparkSession

import whence

spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.executor.memory", "1g")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
orders = spark.read.parquet(sys.argv[1])
totals = orders.groupBy("customer").agg({"amount": "sum"}).withColumnRenamed("sum(amount)", "total")
with whence.attach(spark, store=sys.argv[2]) as w:
    trace = w.backward(totals.where("customer = 1"))
    found = {
        "witnesses": sorted(row["id"] for row in trace["orders"].collect()),
        "verified": trace.verify().ok,
        "without": sorted((row["customer"], row["total"]) for row in trace.exclude(totals).collect()),
        "touched": sorted(row["customer"] for row in w.forward(orders.where("id = 5"), to=totals).rows.collect()),
    }
found["application"] = spark.sparkContext.applicationId
found["executors"] = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos().__len__() - 1
spark.stop()
print(json.dumps(found))
