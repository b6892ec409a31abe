from __future__ import annotations

import os
import signal
import threading

import pytest

import whence


def test_an_interrupt_cancels_the_job_and_the_session_goes_on(w: whence.Session) -> None:
    tracker = w.spark.sparkContext.statusTracker()
    numbers = w.spark.range(0, 10**13, 1, 2).selectExpr("id", "id % 10 as k")
    endless = w.backward(numbers.where("id % 1000003 = 7").groupBy("k").count())
    given_up = threading.Event()

    def press() -> None:
        while not tracker.getActiveJobsIds() and not given_up.wait(0.01):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            print(endless)
    finally:
        given_up.set()
        presser.join()
    for _ in range(6000):
        if not tracker.getActiveJobsIds():
            break
        threading.Event().wait(0.01)
    assert not tracker.getActiveJobsIds()
    short = w.backward(w.spark.range(10).groupBy().count())
    assert short.witness_counts == {"range": 10}
