"""Closing gives back all that attaching and tracing took in the JVM."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import whence


def jvm(spark: SparkSession) -> dict[str, object]:
    """What a session could leave behind."""
    session = spark._jsparkSession
    context = spark.sparkContext._jsc.sc()
    registry = session.sessionState().functionRegistry()
    return {
        "cached plans": not session.sharedState().cacheManager().isEmpty(),
        "query listeners": len(session.listenerManager().listListeners()),
        "streaming listeners": len(session.streams().listListeners()),
        "catalogue listeners": session.sharedState().externalCatalog().listeners().size(),
        "Spark listeners": context.listenerBus().listeners().size(),
        "functions": registry.listFunction().size(),
        "tables and views": sorted(table.name for table in spark.catalog.listTables()),
        "global views": sorted(table.name for table in spark.catalog.listTables("global_temp")),
        "settings": dict(spark.conf.getAll),
        "jars": sorted(str(jar) for jar in _items(context.listJars())),
        "job group": spark.sparkContext.getLocalProperty("spark.jobGroup.id"),
        "description": spark.sparkContext.getLocalProperty("spark.job.description"),
        "running streams": len(spark.streams.active),
    }


def persisted(spark: SparkSession) -> set[int]:
    """By number, since Spark drops what others left persisted whenever its collector finds them."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


def _items(scala: object) -> list[object]:
    return [scala.apply(i) for i in range(scala.size())]  # type: ignore[attr-defined]


def test_nothing_stays_in_the_jvm(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    frame = spark.read.parquet(str(orders))
    totals = frame.groupBy("customer").agg({"amount": "sum"}).withColumnRenamed("sum(amount)", "total")
    before, kept = jvm(spark), persisted(spark)
    with whence.attach(spark, store=tmp_path / "store") as w:
        trace = w.backward(totals.where("customer = 1"))
        assert len(trace["orders"].collect()) == 3
        assert trace.verify().ok
        assert trace.exclude(totals).count() == 2
        assert trace.associations().count() == 3
        assert str(trace)
        for step in trace.steps:
            trace.at(step).collect()
        assert w.forward(frame.where("id = 4"), to=totals).rows.count() == 1
        without_rule = spark.sql(f"SELECT TRANSFORM(id) USING 'cat' AS (line string) FROM parquet.`{orders}`")
        with pytest.raises(whence.UnsupportedOperator):
            w.backward(without_rule)["orders"]
    assert jvm(spark) == before
    assert persisted(spark) <= kept


def test_a_close_within_an_error_gives_back_too(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    before, kept = jvm(spark), persisted(spark)
    fails = spark.read.parquet(str(orders)).where("if(id > 2, raise_error('no such order'), true)")
    with pytest.raises(PySparkException, match="no such order"), whence.attach(spark, store=tmp_path / "store") as w:
        w.backward(fails).exclude().collect()
    assert jvm(spark) == before
    assert persisted(spark) <= kept


def test_a_closed_session_says_so_whatever_is_asked(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    frame = spark.read.parquet(str(orders))
    with whence.attach(spark, store=tmp_path / "store") as w:
        pass
    for ask in (lambda: w.backward(frame), lambda: w.forward(frame, to=frame), lambda: w.spark, w.__enter__):
        with pytest.raises(whence.SessionClosed, match="attach"):
            ask()
