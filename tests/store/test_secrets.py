"""Whatever way a secret comes to the catalogue, it is neither kept nor handed on."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime, timezone
from pathlib import Path

import pytest

from whence.model import FAILED, Run
from whence.model.lineage import Change, Link, Observation, Seen
from whence.serve import atlas, openlineage
from whence.store import Store

SECRET = "hunter2Hunter2hunter2"
SQL = f"INSERT INTO t SELECT aes_encrypt(b, '{SECRET}') FROM s"
NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)
ERROR = f"Authorization: Token {SECRET}"


def _exports(store: Store) -> str:
    (run,) = store.catalog.runs()
    events = [repr(event) for event in openlineage.events_of(store.catalog, run)]
    return json.dumps([events, atlas.entities(store.catalog)], default=str)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.at(tmp_path / "store")
    details = {"sql": SQL, "options": {"db_pwd": SECRET, "n": 1}, "told": ("x", f"password: {SECRET}")}
    run = Run("1", "sql", "insert", FAILED, ERROR, NOW, NOW, details=details)
    datasets = (Seen("file", "/s", "path"), Seen("file", "/t", "path"))
    store.catalog.record(Observation(run, datasets, (Change(1, "append"),), (Link(0, 1, "write"),)))
    return store


def test_the_catalogue_keeps_no_secret(store: Store, tmp_path: Path) -> None:
    (run,) = store.catalog.runs()
    assert run.details["sql"] == "INSERT INTO t SELECT aes_encrypt(b, ***) FROM s"
    assert run.details["options"] == {"db_pwd": "***", "n": 1}
    assert run.details["told"] == ["x", "password: ***"]
    assert run.error == "Authorization: ***"
    store.close()
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes(), file


def test_exports_hand_on_no_secret_of_an_older_store(store: Store, tmp_path: Path) -> None:
    assert "aes_encrypt(b, ***)" in _exports(store)
    with sqlite3.connect(tmp_path / "store" / "catalog.db") as connection:
        connection.execute("UPDATE runs SET error = ?, details = ?", (ERROR, json.dumps({"sql": SQL})))
    exports = _exports(store)
    assert SECRET not in exports
    assert "aes_encrypt(b, ***)" in exports
    store.close()
