"""Asks about a DataFrame whose Spark application has ended: python stopped.py <orders> <store>"""

import json
import sys

from pyspark.sql import SparkSession

import whence


def start() -> SparkSession:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def error_of(action: object) -> list[str]:
    try:
        action()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["", ""]


first = start()
old = first.read.parquet(sys.argv[1])
w = whence.attach(first, store=sys.argv[2])
trace = w.backward(old)
first.stop()
found = {
    "own_session_stopped": error_of(lambda: w.backward(old)),
    "by_name": error_of(lambda: w.backward("orders")),
    "trace": error_of(lambda: str(trace)),
}
w.close()  # nothing is left to give back, and that is no error

second = start()
with whence.attach(second, store=sys.argv[2]) as w:
    new = second.read.parquet(sys.argv[1])
    found["backward"] = error_of(lambda: w.backward(old))
    found["forward"] = error_of(lambda: w.forward(old, to=new))
    found["forward_to"] = error_of(lambda: w.forward(new, to=old))
    found["still_works"] = len(w.backward(new.where("id = 4"))["orders"].collect())
second.stop()
print(json.dumps(found))
