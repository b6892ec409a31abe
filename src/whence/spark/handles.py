"""The JVM's objects behind PySpark's sessions and DataFrames. Other rooms hold them; how they are got stands here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from whence.spark.frames import ClassicDataFrame
from whence.spark.names import PipelinedRDD


def session_of(spark: SparkSession) -> JavaObject:
    return spark._jsparkSession


def another_session(spark: SparkSession) -> JavaObject:
    """One with the same views and settings, which can be set apart from here on."""
    return spark._jsparkSession.cloneSession()


def dataset_of(df: DataFrame) -> JavaObject:
    return df._jdf


def execution_of(df: DataFrame) -> JavaObject:
    """Its plan in all forms: logical, analysed, optimised, physical."""
    return df._jdf.queryExecution()


def frame_in(spark: SparkSession, made: DataFrame) -> DataFrame:
    """The same DataFrame as one of this session, which may be another of the same application."""
    return DataFrame(made._jdf, spark)


def become(df: DataFrame, other: DataFrame) -> None:
    """A DataFrame that the user holds computes another one from now on."""
    held: Any = df
    held._jdf = other._jdf


def type_of_json(spark: SparkSession, text: str) -> JavaObject:
    """A type of PySpark's, as the JVM has it."""
    return spark._jsparkSession.parseDataType(text)


def hadoop_setting(spark: SparkSession, name: str) -> str | None:
    found: str | None = spark.sparkContext._jsc.hadoopConfiguration().get(name)
    return found


# --- told before Spark is asked


def telling(
    on_frame: Callable[[Any, JavaObject], None], on_rdd: Callable[[JavaObject], None]
) -> list[tuple[type, str, property]]:
    """Properties (owner, name, property) with which PySpark's classes tell of each DataFrame and RDD right before what
    the JVM has of it is used."""

    def frame_of(frame: Any) -> Any:
        on_frame(frame, frame.__dict__["_jdf"])
        return held(frame)

    def rdd_of(rdd: Any) -> Any:
        found = rdd.__dict__["_jrdd"]
        on_rdd(found)
        return found

    pipelined = PipelinedRDD.__dict__["_jrdd"]

    def pipelined_of(rdd: Any) -> Any:
        found = pipelined.fget(rdd)
        on_rdd(found)
        return found

    return [
        (ClassicDataFrame, "_jdf", property(frame_of, hold)),
        (RDD, "_jrdd", property(rdd_of, partial(hold, name="_jrdd"))),
        (PipelinedRDD, "_jrdd", property(pipelined_of)),
    ]


def held(frame: Any) -> JavaObject:
    """The dataset that a DataFrame holds, past any property of its class."""
    return frame.__dict__["_jdf"]


def hold(of: Any, value: JavaObject, name: str = "_jdf") -> None:
    of.__dict__[name] = value
