"""A PySpark job with an opaque library inside mapPartitions, which reports its own lineage through an actor.

Spark sees a function from an iterator to an iterator, so its lineage could only be "every record of the partition". The
library knows better: it groups readings into sessions, and says for every session which readings made it.

    python examples/opaque_partitions.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

import whence
from whence.actors import Actor

Reading = tuple[int, str, int]  # id, sensor, second
Session = tuple[str, int, int]  # sensor, first second, readings


def sessions(readings: Iterable[Reading], gap: int, report: Callable[[str, Any, str], Any]) -> Iterator[Session]:
    """The library: readings of a sensor that follow each other within `gap` seconds are one session."""
    open_sessions: dict[str, list[int]] = {}  # sensor -> first second, last second, readings
    for number, sensor, second in readings:
        session = open_sessions.get(sensor)
        if session is not None and second - session[1] > gap:
            yield from _close(sensor, open_sessions.pop(sensor), report)
            session = None
        if report("input", number, sensor):
            continue
        if session is None:
            open_sessions[sensor] = [second, second, 1]
        else:
            session[1:] = [second, session[2] + 1]
    for sensor in sorted(open_sessions):
        yield from _close(sensor, open_sessions[sensor], report)


def _close(sensor: str, session: list[int], report: Callable[[str, Any, str], Any]) -> Iterator[Session]:
    result = (sensor, session[0], session[2])
    dropped = report("output", result, sensor)
    report("end", None, sensor)
    if not dropped:
        yield result


def reporter(actor: Actor) -> Callable[[str, Any, str], Any]:
    calls = {"input": actor.add_input, "output": actor.add_output, "end": lambda _, tag: actor.reset(tag)}
    return lambda what, record, tag: calls[what](record, tag)


def run(spark: SparkSession, w: whence.Session, readings: list[Reading], gap: int = 10) -> tuple[Actor, list[Session]]:
    job = w.register("sensors", kind="job")
    actor = w.register("sessions", kind="map", parents=[job])
    rows = spark.sparkContext.parallelize(readings, 2)
    found = rows.mapPartitions(lambda part: sessions(part, gap, reporter(actor))).collect()
    actor.commit()
    job.commit()
    return actor, found


def main() -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    readings = [(n, "ab"[n % 2], n * 2 + (100 if n > 6 else 0)) for n in range(12)]
    with whence.attach(spark, store=tempfile.mkdtemp(prefix="whence-opaque-")) as w:
        actor, found = run(spark, w, readings)
        for session in found:
            print(session, "came from readings", sorted(w.trace([session], root=actor).records))
    spark.stop()


if __name__ == "__main__":
    main()
