"""Orders with a strange total, and jobs over them, for the tests of written fixtures."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence

ORDERS = [(1, "Ada", 20), (2, "Bob", 35), (3, "Ada", -900), (4, "Eve", 15), (5, "Bob", 40), (6, None, 7)]
CITIES = [("Ada", "Bonn", "ada@a.org"), ("Bob", "Kiel", "bob@b.org"), ("Eve", "Bonn", None)]
TOTALS = """SELECT city, sum(amount) AS total, max(email) AS contact
FROM orders JOIN cities USING (customer) -- a comment with "quotes" and a \\ backslash
GROUP BY city"""
JOBS = """
from pyspark.sql import functions as F


def totals(orders, cities):
    return orders.join(cities, "customer").groupBy("city").agg(F.sum("amount").alias("total"))


def by_name(spark):
    return totals(spark.table("orders"), spark.table("cities"))


def with_sources(spark, sources):
    return totals(sources["orders"], sources["cities"])


def strange(weather):
    return weather


def strange_too(orders, nobody, knows):
    return orders


def of_files(spark):
    return spark.read.parquet(PATH).groupBy("customer").agg(F.sum("amount").alias("total"))
"""


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    home = tmp_path_factory.mktemp("fixtures")
    (home / "fixture_jobs.py").write_text(JOBS + f"\nPATH = {str(home / 'orders.parquet')!r}\n")
    sys.path.insert(0, str(home))
    spark.createDataFrame(ORDERS, "id int, customer string, amount int").createOrReplaceTempView("orders")
    spark.createDataFrame(CITIES, "customer string, city string, email string").createOrReplaceTempView("cities")
    spark.table("orders").write.parquet(str(home / "orders.parquet"))
    with whence.attach(spark, store=home / "store") as w:
        yield w
    sys.path.remove(str(home))
    for view in ("orders", "cities"):
        spark.catalog.dropTempView(view)


@pytest.fixture(scope="module")
def negative(session: whence.Session) -> whence.Trace:
    return session.backward(session.spark.sql(TOTALS).where("total < 0"))


def by_functions(spark: SparkSession) -> DataFrame:
    joined = spark.table("orders").join(spark.table("cities"), "customer")
    return joined.groupBy("city").agg(F.sum("amount").alias("total"))
