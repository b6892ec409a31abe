"""Whatever a session puts into its store, nobody else can read it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pyspark.sql import SparkSession

import whence
from whence.model.quiet import FACTS


def test_a_store_is_for_its_owner_alone(spark: SparkSession, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    project.chmod(0o777)  # as a lax umask makes it
    top = project / ".whence"
    before = os.umask(0)
    try:
        with whence.attach(spark, store=top) as w:
            with w.capture():
                spark.range(3).selectExpr("id", "rand() r").write.parquet(str(tmp_path / "out"))
            actor = w.register("actor")
            actor.capture(1, 2)
            actor.commit()
            assert w.context.parallelize([1, 2], 1).map(lambda n: n + 1).collect() == [2, 3]
            assert w.catalog.runs()
            live = _open_to_others(top)
    finally:
        os.umask(before)
    assert stat.S_IMODE(top.stat().st_mode) == 0o700
    assert live == []
    assert _open_to_others(top) == []
    assert {"actors", "catalog.db", "rdd", "tables"} <= {p.name for p in top.iterdir()}


def _open_to_others(top: Path) -> list[str]:
    """But for what Spark itself writes, which lies in a directory that nobody else can enter."""
    return [
        f"{stat.S_IMODE(path.stat().st_mode):o} {path}"
        for path in (top, *top.rglob("*"))
        if path.stat().st_mode & 0o077 and FACTS not in path.parent.parts
    ]
