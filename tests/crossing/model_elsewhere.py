"""Asks, in a process of its own, what a saved model was trained on: python model_elsewhere.py store model."""

import sys

from pyspark.sql import SparkSession

import whence

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
with whence.attach(spark, store=sys.argv[1]) as w:
    trace = w.backward(sys.argv[2])
    print("ROWS", sorted(row.x for row in trace["numbers.csv"].collect()), trace.notes)
spark.stop()
