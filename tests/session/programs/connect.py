"""Attaches to a Spark Connect session, whose server runs beside it: python connect.py <store>"""

import json
import sys

from pyspark.sql import SparkSession

import whence

spark = SparkSession.builder.remote("local[1]").getOrCreate()
try:
    whence.attach(spark, store=sys.argv[1])
    said = None
except whence.ConnectUnsupported as error:
    said = str(error)
works = spark.range(3).count()
spark.stop()
print(json.dumps({"said": said, "works": works}))
