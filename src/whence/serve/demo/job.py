"""The job of the story, as its author wrote it. It knows nothing of whence."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def phone_traffic(logs: DataFrame) -> DataFrame:
    phones = logs.where(~F.col("agent").rlike("Tethering|Hotspot"))
    pairs = phones.select("uid", "agent").distinct()
    return pairs.join(logs, ["uid", "agent"])


def by_user(logs: DataFrame) -> DataFrame:
    return phone_traffic(logs).groupBy("uid").agg(F.sum("bytes").alias("bytes"))


def by_city(logs: DataFrame, cells: DataFrame) -> DataFrame:
    return phone_traffic(logs).join(cells, "cell").groupBy("city").agg(F.sum("bytes").alias("bytes"))
