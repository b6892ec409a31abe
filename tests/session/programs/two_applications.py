"""Two applications, one after the other: python two_applications.py <home> <orders>

The first has ended when the second asks about its DataFrame. Python on executors of the second has PySpark, pandas and
pyarrow, but no whence."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import executor_python
import whence

home, orders = Path(sys.argv[1]), sys.argv[2]


def start() -> SparkSession:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def error_of(action: Any) -> list[str]:
    try:
        action()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["", ""]


first = start()
old = first.read.parquet(orders)
w = whence.attach(first, store=home / "first")
trace = w.backward(old)
seen = w.backward(old.where("id = 4"))
shown = str(seen)
first.stop()
stopped: dict[str, Any] = {
    "own_session_stopped": error_of(lambda: w.backward(old)),
    "by_name": error_of(lambda: w.backward("orders")),
    "trace": error_of(lambda: str(trace)),
    "verify": error_of(seen.verify),
    "explain": error_of(seen.explain),
    "associations": error_of(seen.associations),
    "exclude": error_of(seen.exclude),
    "source": error_of(lambda: seen["orders"]),
    "step": error_of(lambda: seen.at(0)),
    "what_was_seen": str(seen) == shown,
    "attach": error_of(lambda: whence.attach(first, store=home / "first")),
}
w.close()  # nothing is left to give back, and that is no error

os.environ["PYSPARK_PYTHON"] = str(executor_python.make(home))
spark = start()
context = spark.sparkContext
with whence.attach(spark, store=home / "first") as w:
    new = spark.read.parquet(orders)
    stopped["backward"] = error_of(lambda: w.backward(old))
    stopped["forward"] = error_of(lambda: w.forward(old, to=new))
    stopped["forward_to"] = error_of(lambda: w.forward(new, to=old))
    stopped["still_works"] = len(w.backward(new.where("id = 4"))["orders"].collect())


def has_whence(_: Any) -> bool:
    try:
        import whence
    except ImportError:
        return False
    return whence is not None


def parse(amount: str) -> float:
    return float(amount)


def parse_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame.assign(amount=frame["amount"].map(float))


def culprit_of(session: whence.Session, action: Any) -> Any:
    try:
        with session.guard():
            action()
    except Exception as error:
        found = getattr(error, "culprit", None)
        return found if found is not None else "".join(getattr(error, "__notes__", ["no culprit"]))
    return "it did not fail"


found: dict[str, Any] = {"executors have whence": context.parallelize([1], 1).map(has_whence).collect()}
rows = spark.createDataFrame([(1, "1"), (2, "six"), (3, "3")], "id long, amount string").coalesce(1)
plain = rows.select("id", udf(parse, "double")("amount").alias("value"))  # all made before whence is there
frames = rows.mapInPandas(parse_frames, "id long, amount double")
good = rows.where("id != 2").mapInPandas(parse_frames, "id long, amount double")
plain.where("id != 2").collect()
with whence.attach(spark, store=home / "store") as w:
    found["backward"] = sorted(row["id"] for row in w.backward(good.where("id = 3")).sources["dataframe"].collect())
    found["plain"] = str(getattr(culprit_of(w, plain.collect), "record", None))
    told = culprit_of(w, frames.collect)
    found["frames"] = told.record["amount"].tolist() if hasattr(told, "record") else told
    with w.guard(on_error="quarantine") as guard:
        found["rows"] = sorted(row.id for row in frames.collect())
        found["values"] = [row.value for row in plain.collect()]
    found["aside"] = sorted(str(q.record) for q in guard.records)
    actor = w.register("half", kind="map")

    def half(n: int) -> float:
        actor.capture(n, n / 2)
        return n / 2

    found["halves"] = context.parallelize([2, 4], 1).map(half).collect()
    actor.commit()
    found["traced"] = len(w.trace([1.0], root=actor).records)
    words = w.context.parallelize(["a b", "b"], 1).flatMap(str.split).map(lambda word: (word, 1))
    counts = words.reduceByKey(lambda a, b: a + b)
    found["counts"] = sorted(counts.collect())
    found["lines"] = counts.filter(lambda kv: kv[0] == "a").getLineage().goBackAll().collect()
spark.stop()
print(json.dumps({"stopped": stopped, "without whence": found}))
