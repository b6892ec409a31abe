"""The next morning: a number of the report is wrong. Which line of which file made it so?"""

from pyspark.sql import SparkSession

import whence

spark = SparkSession.builder.getOrCreate()
w = whence.attach(spark, store="lineage")
report = spark.read.parquet("report")
t = w.backward(report.where("sales < 0"), columns=["sales"])
print(t)
worst = t.influence("sales", source="orders.csv").first()
print(worst.record, worst.amount)
