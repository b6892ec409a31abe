"""A server of Spark Connect, until its input ends: python connect_server.py <port> [its jar]"""

import sys

from pyspark.sql import SparkSession

port, *jar = sys.argv[1:]
builder = (
    SparkSession.builder.master("local[1]")
    .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
    .config("spark.connect.grpc.binding.port", port)
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
)
for path in jar:
    builder = builder.config("spark.jars", path)
spark = builder.getOrCreate()
print("ready", flush=True)
sys.stdin.read()
spark.stop()
