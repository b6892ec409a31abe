"""Several threads with one context."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from whence.model.quiet import AGAIN, QUIET
from whence.rdd import LineageContext

WAIT = 60  # seconds, after which a thread that the others wait for has surely failed


def test_one_rdd_of_several_threads(lc: LineageContext) -> None:
    source = lc.parallelize(range(40), 2)
    result = source.map(lambda n: (n % 4, n)).reduceByKey(lambda a, b: a + b)
    together = threading.Barrier(3)

    def ask(key: int) -> list[Any]:
        together.wait(WAIT)
        result.collect()
        return result.filter(lambda kv: kv[0] == key).getLineage().goBackAll().collect()

    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(ask, range(3)))
    assert found == [list(range(key, 40, 4)) for key in range(3)]
    stages = [info for info in lc.book.stages.values() if info.node is result.node]
    assert len(stages) == 1  # and not one for each thread, each with some of the tables


def test_a_trace_of_one_thread_does_not_switch_capture_on_for_another(lc: LineageContext) -> None:
    lc.capture = False
    asking, done = threading.Event(), threading.Event()

    def trace() -> bool:
        with lc.book.asked(), lc.book.inside(), lc.book.naming("trace"):
            asking.set()
            assert done.wait(WAIT)
            return lc.capturing

    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(trace)
        assert asking.wait(WAIT)
        assert not lc.capturing
        assert lc.book.label("map") == "map"
        assert not lc.book.new_node("map", ()).hidden
        done.set()
        assert other.result()
    assert lc.capture is False


def test_a_trace_leaves_the_threads_job_description_and_tags(lc: LineageContext) -> None:
    lc.spark.setJobDescription("nightly load")
    lc.spark.addJobTag("mine")
    try:
        with lc.book.job("tracing"):
            assert set(lc.spark.getJobTags()) == {"mine", QUIET, AGAIN}
        assert lc.spark.getLocalProperty("spark.job.description") == "nightly load"
        assert set(lc.spark.getJobTags()) == {"mine"}
    finally:
        lc.spark.setJobDescription(None)  # type: ignore[arg-type]
        lc.spark.removeJobTag("mine")
