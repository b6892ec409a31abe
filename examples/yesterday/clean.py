"""The first job of the night: orders as they came, with their cities. It knows nothing of whence.

whence run --capture --store lineage clean.py
"""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
orders = spark.read.csv("data/orders.csv", header=True, schema="id int, customer string, kind string, amount double")
customers = spark.read.csv("data/customers.csv", header=True, schema="customer string, city string")
clean = orders.where("amount IS NOT NULL").join(customers, "customer")
clean.write.mode("overwrite").parquet("clean")
