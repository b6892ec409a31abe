"""What an object of the user's is: a session with a JVM, a DataFrame, of which application. PySpark is not imported for
it, so that `import whence` stays fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.model.errors import ForeignDataFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_classic(spark: Any) -> bool:
    """Whether this is a session with a JVM behind it, not one of Spark Connect."""
    return hasattr(spark, "_jsparkSession")


def is_frame(asked: Any) -> bool:
    """Whether this is a DataFrame of such a session."""
    return hasattr(asked, "_jdf")


def is_frame_of(df: Any, spark: SparkSession) -> bool:
    """Whether a DataFrame is of the same Spark application."""
    return is_frame(df) and shares_context(getattr(df, "sparkSession", None), spark)


def shares_context(one: Any, spark: SparkSession) -> bool:
    """Whether this is a session of the same Spark application."""
    return getattr(one, "_jsparkSession", None) is not None and one._sc is spark._sc


def is_same_session(one: SparkSession, other: SparkSession) -> bool:
    """Other sessions of an application have views and settings of their own."""
    return bool(one._jsparkSession.equals(other._jsparkSession))


def is_stopped(spark: SparkSession) -> bool:
    return spark._sc._jsc is None


def require_running(spark: SparkSession) -> None:
    """A sentence in place of what py4j and PySpark say where the session was stopped. One of Spark Connect tells by
    itself."""
    if is_classic(spark) and is_stopped(spark):
        raise ForeignDataFrame(
            "The Spark session that whence is attached to was stopped, and its DataFrames and traces with it. Start "
            "another session and attach to that: whence.attach(spark)."
        )
