"""Executors that come and go by themselves (dynamic allocation), as Spark's own events tell the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

# For one that never comes or goes, not for one on a busy machine.
_LONGEST = 600


class Executors:
    """Those that the application has had: a listener of Spark's, which py4j calls."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._changed = threading.Condition()
        self.came: list[str] = []
        self.went: list[str] = []
        ensure_callback_server_started(context._gateway)
        context._jsc.sc().addSparkListener(self)

    def onExecutorAdded(self, event: Any) -> None:
        self._note(self.came, event)

    def onExecutorRemoved(self, event: Any) -> None:
        self._note(self.went, event)

    def _note(self, told: list[str], event: Any) -> None:
        with self._changed:
            told.append(str(event.executorId()))
            self._changed.notify_all()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("on"):
            raise AttributeError(name)
        return lambda *_: None  # Spark tells of everything else, too

    @property
    def here(self) -> set[str]:
        return set(self.came) - set(self.went)

    def until(self, holds: Callable[[], bool]) -> bool:
        """Whether that came true; Spark says when something has changed."""
        with self._changed:
            return self._changed.wait_for(holds, _LONGEST)

    class Java:
        implements = ("org.apache.spark.scheduler.SparkListenerInterface",)
