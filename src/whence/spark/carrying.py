"""Carries what Python workers write on executors to a file system of Spark's: the driver's half of Carrier.java."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from whence.spark.hadoop_files import HadoopFiles
from whence.spark.janino import loader_of

log = logging.getLogger("whence.rdd")

SCRATCH = "whence-files"


class Carriers:
    """Of one run: each captured stage gets a carrier in front of it."""

    def __init__(self, files: HadoopFiles, run: str) -> None:
        self._files, self._run = files, run
        self._spark = files.spark
        self._failed: Any = None
        self._settings: Any = None
        self.broken: str | None = None
        """Why nothing is carried at all."""

    def before(self, jrdd: Any, stage: int) -> Any:
        """The same records. When a task has passed them on and ends well, the file `partition-attempt` that its Python
        worker left in the first of Spark's local directories, under `SCRATCH/run/stage`, is in the store."""
        try:
            return self._before(jrdd, stage)
        except Exception as problem:  # the user's job goes on without
            self.broken = str(problem).split("\n", 1)[0]
            log.warning("whence cannot bring what executors capture to %s: %s", self._files.root, self.broken)
            return jrdd

    def _before(self, jrdd: Any, stage: int) -> Any:
        jvm: Any = self._spark._jvm
        context: Any = self._spark._jsc
        source = Path(__file__).with_name("Carrier.java").read_text(encoding="utf-8")
        loader = loader_of(self._spark, "carrier", source)
        if self._failed is None:
            self._failed = context.sc().collectionAccumulator("whence_carrier")
            self._settings = context.broadcast(
                getattr(jvm, "org.apache.spark.util.SerializableConfiguration")(self._files.conf)
            )
        if self._files.has_rights:
            self._files.make(str(stage))
        (constructor, *_) = loader.loadClass("whence.Carrier").getConstructors()
        arguments = self._spark._sc._gateway.new_array(getattr(jvm, "java.lang.Object"), 5)  # type: ignore[union-attr]
        arguments[0] = f"{SCRATCH}/{self._run}/{stage}"
        arguments[1] = self._files.path(str(stage))
        arguments[2] = self._files.rights()[1] if self._files.has_rights else None
        arguments[3], arguments[4] = self._settings, self._failed
        rdd = jrdd.rdd()
        plain = getattr(jvm, "org.apache.spark.api.java.JavaRDD").fromRDD(rdd, rdd.elementClassTag())
        return plain.mapPartitionsWithIndex(constructor.newInstance(arguments), True)

    def failures(self) -> dict[tuple[int, int, int], str]:
        """By stage, partition and attempt: why a file did not reach the store."""
        if self._failed is None:
            return {}
        found: dict[tuple[int, int, int], str] = {}
        for line in list(self._failed.value()):
            stage, name, why = str(line).split("\t", 2)
            part, _, attempt = name.partition("-")
            found[int(stage), int(part), int(attempt)] = why
        return found
