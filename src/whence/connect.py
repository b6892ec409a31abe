"""A session of Spark Connect: what needs no JVM works, and all else says why it does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.model import ConnectUnsupported, ForeignDataFrame
from whence.session import Session
from whence.spark.release import require_known

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from whence.arrays.run import Run as ArrayRun
    from whence.debug.mining.mined import Mined

_PLAN = "whence reads the query's plan from the JVM, and of a Connect session only the server sees it"
_RUNS = "whence exchanges functions in the plan that the JVM runs, and of a Connect session only the server has it"
# method or property -> why it needs the JVM
NEEDS_JVM = {
    "backward": _PLAN,
    "forward": _PLAN,
    "why_not": _PLAN,
    "history": _PLAN,
    "verify": _PLAN,
    "lineage": _PLAN,
    "strategy": _PLAN,
    "minimize": _PLAN,
    "capture": _RUNS,
    "guard": _RUNS,
    "context": "Spark Connect has no RDDs",
}
_PROPERTIES = ("context",)


class ConnectSession(Session):
    """The catalogue's reading side, explain, actors, and arrays in this process.

    Nothing is watched: what the session does is not told to its client."""

    def __init__(self, spark: SparkSession, store: str | Path | None = None) -> None:
        require_known(str(spark.version))
        self._begin(spark, store)

    def _ship(self) -> None:
        """Actors live in this process and those it starts; within a UDF, see docs/versions.md."""

    def _require_ours(self, df: Any) -> None:
        if getattr(getattr(df, "sparkSession", None), "session_id", None) != self._spark.session_id:  # type: ignore[attr-defined]
            raise ForeignDataFrame(
                "This is not a DataFrame of the Spark Connect session that whence is attached to. "
                "Attach to its own session: whence.attach(df.sparkSession)."
            )

    def mine(self, root: Any, bad: Any = None, good: Any = ()) -> Mined:
        _require_no_frame("mine", root)
        return super().mine(root, bad, good)

    def clean(self, root: Any, *args: Any, **options: Any) -> Any:
        _require_no_frame("clean", root)
        return super().clean(root, *args, **options)

    def execute(
        self,
        wf: Any,
        inputs: Mapping[Any, Any] | None = None,
        strategies: Any = None,
        limit_disk: float | None = None,
        chunks: int | None = None,
    ) -> ArrayRun:
        if chunks is not None:
            raise ConnectUnsupported("execute(..., chunks=)", "the chunks are tasks of an RDD")
        return super().execute(wf, inputs, strategies, limit_disk)


def _require_no_frame(method: str, root: Any) -> None:
    if type(root).__module__.startswith("pyspark."):
        raise ConnectUnsupported(f"{method} of a DataFrame", _PLAN)


def _refusing(name: str, why: str) -> Any:
    def refuse(self: ConnectSession, *args: Any, **options: Any) -> Any:
        self._require_open()
        raise ConnectUnsupported(name, why)

    refuse.__name__, refuse.__doc__ = name, f"Needs a classic session: {why}."
    return property(refuse) if name in _PROPERTIES else refuse


for _name, _why in NEEDS_JVM.items():
    setattr(ConnectSession, _name, _refusing(_name, _why))
