"""The second job: the report. It says itself what is to be captured, in two lines."""

from pyspark.sql import SparkSession

import whence

spark = SparkSession.builder.getOrCreate()
w = whence.attach(spark, store="lineage")
with w.capture():
    spark.read.parquet("clean").createOrReplaceTempView("clean")
    report = spark.sql(
        """SELECT city, count(*) AS orders, sum(amount) FILTER (WHERE kind = 'sale') AS sales,
                  sum(amount) FILTER (WHERE kind = 'refund') AS refunds
           FROM clean GROUP BY city"""
    )
    report.write.mode("overwrite").parquet("report")
w.close()
