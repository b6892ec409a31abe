"""The catalogue's file truncated, emptied, removed or garbled: a sentence, and the user's own job goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from whence.model import COMPLETED, Run, StoreError, WhenceError
from whence.model.lineage import Change, Link, Observation, Seen
from whence.store import Store

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda data: data[: len(data) // 2],
    "a page lost": lambda data: data[:-4096],
    "other bytes": lambda _: b"\x00garbage" * 2000,
    "first byte": lambda data: bytes([data[0] ^ 0x15]) + data[1:],
    **{
        f"page {n} overwritten": lambda data, n=n: data[: n * 4096] + b"\xab" * 4096 + data[(n + 1) * 4096 :]  # type: ignore[misc]
        for n in range(0, 60, 3)
    },
}


def filled(home: Path) -> Store:
    store = Store.at(home)
    for n in range(200):
        run = Run(f"r{n}", "query", "save", COMPLETED, None, NOON, NOON, "app", {})
        seen = (Seen("file", f"/a{n}", "path"), Seen("file", f"/b{n}", "path"))
        store.catalog.record(Observation(run, seen, (Change(1, "overwrite"),), (Link(0, 1, "write"),)))
    return store


def ask(home: Path) -> object:
    store = Store.at(home)
    try:
        catalog = store.catalog
        return tuple(catalog.datasets()), tuple(catalog.edges()), tuple(catalog.runs())
    finally:
        store.close()


def test_the_right_answer_or_a_sentence(tmp_path: Path) -> None:
    filled(tmp_path).close()
    file = tmp_path / "catalog.db"
    whole, expected, told = file.read_bytes(), ask(tmp_path), 0
    for name, damage in DAMAGES.items():
        for beside in tmp_path.glob("catalog.db-*"):
            beside.unlink()
        file.write_bytes(damage(whole))
        try:
            assert ask(tmp_path) == expected, name
        except WhenceError:
            told += 1
    assert told > 5


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_catalogue_that_goes_away_under_a_session(tmp_path: Path, how: str) -> None:
    home = tmp_path / "store"
    store = filled(home)
    shutil.rmtree(home)
    if how == "replaced":
        filled(tmp_path / "other").close()
        (tmp_path / "other").rename(home)
    with pytest.raises(StoreError, match="removed or replaced while it was in use"):
        store.catalog.datasets()
    with pytest.raises(StoreError, match="removed or replaced"):
        store.catalog.add_run(Run("late", "query"))
    store.close()


def test_the_users_job_goes_on_without_the_store(spark: SparkSession, tmp_path: Path) -> None:
    home = tmp_path / "store"
    with whence.attach(spark, store=home) as w:
        spark.range(3).write.parquet(str(tmp_path / "before"))
        assert len(w.catalog.datasets()) == 1
        shutil.rmtree(home)
        spark.range(4).write.parquet(str(tmp_path / "after"))
        assert spark.read.parquet(str(tmp_path / "after")).count() == 4
        with pytest.raises(StoreError, match="attach again"):
            w.catalog.datasets()
    with whence.attach(spark, store=home) as w:  # what waited in the spool comes in with the next run
        spark.range(5).write.parquet(str(tmp_path / "later"))
        written = {Path(d.name).name for d in w.catalog.datasets()}
        assert {"after", "later"} <= written
