"""Actors inside executors: wherever Spark runs Python, the handle captures; tasks that fail or repeat add nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import whence
from whence.actors import Location


def outputs_of(w: whence.Session, actor: Any, record: Any) -> set[Any]:
    return set(w.trace([record], "forward", root=actor).records)


def test_foreach_partition(spark: SparkSession, w: whence.Session) -> None:
    actor = w.register("save", kind="writer")

    def save(rows: Iterator[int]) -> None:
        for n in rows:
            actor.capture(n, n * 10)

    spark.sparkContext.parallelize(range(100), 4).foreachPartition(save)
    actor.commit()
    log = w.actors.log(actor)
    assert len(log) == 100
    assert len({p.task for p in log.parts}) == 4
    assert outputs_of(w, actor, 42) == {420}


def test_map_partitions_with_paired_capture(spark: SparkSession, w: whence.Session) -> None:
    actor = w.register("sums", kind="reduce")

    def sums(rows: Iterator[int]) -> Iterator[tuple[str, int]]:
        totals = {0: 0, 1: 0}
        for n in rows:
            actor.add_input(n, tag=n % 2)
            totals[n % 2] += n
        part = TaskContext.get().partitionId()  # type: ignore[union-attr]
        for tag, total in totals.items():
            actor.add_output(f"{part} {tag}", tag)
            yield f"{part} {tag}", total

    assert len(spark.sparkContext.parallelize(range(40), 2).mapPartitions(sums).collect()) == 4
    actor.commit()
    assert set(w.trace(["0 1"], root=actor).records) == set(range(1, 20, 2))


def test_map_in_pandas_and_plain_udf_in_one_query(spark: SparkSession, w: whence.Session) -> None:
    """Two Python workers of one task, and one actor used twice."""
    double, word = w.register("double", kind="map"), w.register("word", kind="map")
    w.flow_link(double, word)

    def doubled(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            double.capture_many(batch["id"], batch["id"] * 2)
            yield batch * 2

    @udf("string")
    def name(n: int) -> str:
        word.capture(n, f"<{n}>")
        return f"<{n}>"

    @udf("string")
    def name_again(n: int) -> str:
        word.capture(n, f"({n})")
        return f"({n})"

    frame = spark.range(0, 50, 1, 2).mapInPandas(doubled, "id long").select(name("id"), name_again("id"))
    assert len(frame.collect()) == 50
    double.commit()
    word.commit()
    assert outputs_of(w, word, 8) == {"<8>", "(8)"}
    assert set(w.trace(["<8>"], root=word).records) == {4}
    assert len(w.actors.log(word)) == 100


def test_a_retried_task_adds_nothing(spark: SparkSession, w: whence.Session, tmp_path: Path) -> None:
    """local[2] does not retry, so the second attempt is a second job; of the failed one nothing remains."""
    job = w.register("job", kind="job")
    actor = w.register("flaky", kind="map", parents=[job])
    flag = tmp_path / "failed once"

    def flaky(n: int) -> int:
        actor.capture(n, -n)
        if n == 7 and not flag.exists():
            flag.touch()
            raise ValueError("first time only")
        return n

    numbers = spark.sparkContext.parallelize(range(1, 11), 1)
    with pytest.raises(Exception, match="first time only"):
        numbers.map(flaky).collect()
    assert numbers.map(flaky).collect() == list(range(1, 11))
    actor.commit()
    assert len(w.actors.log(actor)) == 10
    job.commit()
    assert len(w.actors.files.names("logs", actor.id)) == 2


def test_capture_that_cannot_be_written_does_not_fail_the_job(spark: SparkSession, w: whence.Session) -> None:
    actor = w.register("unwritable")
    Path(w.actors.root, "logs").mkdir(exist_ok=True)
    Path(w.actors.root, "logs", actor.id).write_text("a file where a directory should be")

    def work(n: int) -> int:
        actor.capture(n, n)
        return n

    assert spark.sparkContext.parallelize(range(4), 1).map(work).sum() == 6
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        actor.commit()
    assert "could not be written" in str(told[0].message)


def test_an_actor_fails_inside_a_task(spark: SparkSession, w: whence.Session) -> None:
    reader, parser = w.register("reader"), w.register("parser")
    w.flow_link(reader, parser)
    lines = ["1", "2", "x", "4"]
    for n, line in enumerate(lines):
        reader.capture(Location("in.txt", 2 * n, 2), line)
    reader.commit()

    def parse(line: str) -> int:
        try:
            return int(line)
        except ValueError as error:
            parser.fail(line, error=error)
            return -1

    assert spark.sparkContext.parallelize(lines, 2).map(parse).collect() == [1, 2, -1, 4]
    (failure,) = w.actors.failures(parser)
    assert failure.input == "x"
    assert set(w.trace(failure).records) == {Location("in.txt", 4, 2)}


def test_a_trace_that_runs_a_function_again_captures_nothing(spark: SparkSession, w: whence.Session) -> None:
    early, late = w.register("early", kind="map"), w.register("late", kind="map")
    calls = spark.sparkContext.accumulator(0)

    def doubled(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            calls.add(1)
            early.capture_many(batch["id"], batch["id"] * 2)
            late.capture_many(batch["id"], batch["id"] * 2)
            late.add_input(int(batch["id"].sum()))
            yield batch * 2

    frame = spark.range(0, 20, 1, 2).mapInPandas(doubled, "id long")
    assert frame.count() == 20
    early.commit()
    before = calls.value
    trace = w.backward(frame.where("id = 8"))
    assert trace.step_counts()
    assert calls.value > before  # it did run again
    late.commit()  # after the trace, and it still holds the job alone
    assert len(w.actors.log(early)) == 20
    assert len(w.actors.log(late)) == 20
    assert frame.count() == 20  # the user's own: an actor that has ended takes no more
    assert len(w.actors.log(early)) == 20
    assert len(w.actors.log(late)) == 20


def test_a_trace_of_an_rdd_captures_nothing(w: whence.Session) -> None:
    actor = w.register("negate", kind="map")

    def negated(n: int) -> int:
        if n == 3:
            actor.fail(n)
        actor.capture(n, -n)
        return -n

    made = w.context.parallelize(range(10), 2).map(negated)
    result = made.filter(lambda n: n < -4).keyBy(lambda n: n % 2).groupByKey()
    assert result.count() == 2
    lineage = result.getLineage()
    assert sorted(lineage.goBack(to=made).collect()) == [-9, -8, -7, -6, -5]  # here, and in tasks: by hand or by a job
    assert sorted(lineage.goBackAll().collect()) == [5, 6, 7, 8, 9]
    w.context.large = 1
    assert sorted(result.getLineage().goBack(to=made).collect()) == [-9, -8, -7, -6, -5]
    assert sorted(made.getLineage().map(abs).collect()) == list(range(10))
    actor.commit()
    assert len(w.actors.log(actor)) == 10
    assert len(w.actors.failures(actor)) == 1
