"""One contract for every store: a directory with SQLite, and PostgreSQL."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from whence.model import COMPLETED, RUNNING, Dataset, Operator, Run, StoreError, StoreTooNew
from whence.store import Store, parse_location
from whence.store.version import HEAD

NOON = datetime(2026, 3, 1, 12, 0, 0, 250000, tzinfo=timezone.utc)


class TestStore:
    @pytest.fixture
    def store(self, store_url: str):
        store = Store.at(store_url)
        yield store
        store.close()

    def test_runs_come_back_as_written(self, store: Store) -> None:
        first = Run("r1", "query", "select", COMPLETED, None, NOON, NOON, "app", {"sql": "SELECT 'é'", "gaps": []})
        later = Run("r0", "stream", status=RUNNING, started=NOON.replace(hour=13), application="other")
        store.catalog.add_run(later)
        store.catalog.add_run(first)
        assert store.catalog.runs() == (first, later)
        assert store.catalog.run("r1") == first
        assert store.catalog.run("r1").details["sql"] == "SELECT 'é'"
        assert store.catalog.run("r9") is None
        assert store.catalog.runs(application="other") == (later,)
        assert store.catalog.runs(kind="query") == (first,)

    def test_a_run_written_again_is_replaced(self, store: Store) -> None:
        store.catalog.add_run(Run("r", "query", status=RUNNING, started=NOON))
        store.catalog.add_run(Run("r", "query", status="failed", error="ouch", started=NOON, ended=NOON))
        assert [(r.status, r.error) for r in store.catalog.runs()] == [("failed", "ouch")]

    def test_datasets_keep_their_first_time(self, store: Store) -> None:
        store.catalog.add_dataset(Dataset("file", "/a", "path", NOON))
        store.catalog.add_dataset(Dataset("file", "/a", "table", NOON.replace(hour=20)))
        (found,) = store.catalog.datasets()
        assert (found.kind, found.created) == ("table", NOON)

    def test_operators_keep_their_order_and_nesting(self, store: Store) -> None:
        store.catalog.add_run(Run("r", "rdd"))
        ops = (
            Operator("2", "r", "map", "map", inputs=("1",), inside="0", strategy="mapped", details={"n": 3}),
            Operator("1", "r", "textFile", "source", inside="0"),
        )
        store.catalog.add_operators(ops)
        assert store.catalog.operators("r") == ops
        assert store.catalog.operators("r")[0].details == {"n": 3}

    def test_tables_come_back_as_written(self, store: Store) -> None:
        table = pa.table({"output": [1, 2], "input": [3, 4]})
        store.tables.write(table, "rdd", "run-1")
        store.tables.write(table.slice(1), "rdd", "run-1")
        assert store.tables.read("rdd", "run-1").to_pydict() == {"output": [2], "input": [4]}
        assert store.tables.names("rdd") == ["run-1"]
        store.tables.remove("rdd", "run-1")
        store.tables.remove("rdd", "run-1")
        assert not store.tables.exists("rdd", "run-1")
        with pytest.raises(StoreError, match="cannot be read"):
            store.tables.read("rdd", "run-1")

    def test_a_store_opened_again_still_knows(self, store_url: str) -> None:
        for _ in range(2):
            store = Store.at(store_url)
            store.catalog.add_dataset(Dataset("file", "/a"))
            assert len(store.catalog.datasets()) == 1
            store.close()

    def test_a_newer_store_is_refused(self, store_url: str) -> None:
        store = Store.at(store_url)
        with store.catalog._writer.begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        store.close()
        with pytest.raises(StoreTooNew, match=r"newer whence.*9999.*pip install"):
            _ = Store.at(store_url).catalog

    def test_many_processes_create_and_use_one_store(self, store_url: str) -> None:
        code = (
            "import sys; from whence.store import Store; from whence.model import Run; s = Store.at(sys.argv[1])\n"
            "for n in range(25): s.catalog.add_run(Run(f'{sys.argv[2]}-{n}', 'query'))\n"
            "s.close()"
        )
        started = [
            subprocess.Popen([sys.executable, "-c", code, store_url, str(n)], stderr=subprocess.PIPE, text=True)
            for n in range(4)
        ]
        for process in started:
            _, errors = process.communicate()
            assert process.returncode == 0, errors
        store = Store.at(store_url)
        assert len(store.catalog.runs()) == 100
        store.close()


def test_the_migrations_lead_to_the_same_schema_as_a_new_store(store_url: str, tmp_path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    from whence.store import database, schema

    location = parse_location(store_url)
    if location.directory:
        location.directory.mkdir()
    engine = database._engine(location)
    with database.writing(engine).begin() as connection:
        database._upgrade(connection)
        assert database._version(connection) == HEAD
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
    engine.dispose()


def test_nothing_is_made_before_the_first_use(tmp_path: Path) -> None:
    store = Store.at(tmp_path / "store")
    store.close()
    assert not (tmp_path / "store").exists()


def test_a_store_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a file"):
        Store.at(tmp_path / "file" / "store")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "catalog.db").write_text("not a database at all, but long enough to look" * 99)
    with pytest.raises(StoreError, match="not a database"):
        Store.at(tmp_path / "broken")
    with pytest.raises(StoreError, match="cannot be opened"):
        _ = Store.at(f"postgresql://nobody@127.0.0.1:1/none?tables={tmp_path}").catalog


@pytest.mark.parametrize(
    ("store", "sentence"),
    [
        ("postgresql://u:p@h/db", "add the path"),
        ("mysql://u:p@h/db", "a store is a directory"),
        ("ftp://host/x", "a store is a directory"),
        ("file://server/x", "server is no part of a path"),
        ("a\0b", "character of the code 0"),
        ("x" * 300, "File name too long"),
        (5, "not 5"),  # no directory of the name 5
        (b"x", "not b'x'"),
    ],
)
def test_places_that_are_no_store(store: str, sentence: str) -> None:
    with pytest.raises(StoreError, match=sentence) as caught:
        Store.at(store)
    assert ":p@" not in str(caught.value)


@pytest.mark.parametrize("name", ["q?x=1", "a%20b", "#h", "a b", "\u00fcn\u00ef", "a&b=c", "[x]*"])
def test_a_store_is_in_its_own_directory_whatever_its_name(tmp_path: Path, name: str) -> None:
    for spelled in (tmp_path / name, f"file:{tmp_path}/{name}", f"file://{tmp_path}/{name}"):
        store = Store.at(spelled)
        assert store.catalog.runs() is not None
        store.close()
    assert (tmp_path / name / "catalog.db").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_locations() -> None:
    location = parse_location("postgresql://u:p%40ss@h:5433/db?sslmode=require&tables=s3a://b/t")
    assert location.url == "postgresql+psycopg://u:p%40ss@h:5433/db?sslmode=require"
    assert location.tables == "s3a://b/t"
    assert str(location) == "postgresql+psycopg://u:***@h:5433/db?sslmode=require"
    assert parse_location(None).directory == Path(".whence").absolute()
    assert parse_location("file:///x/y").directory == Path("/x/y")


@pytest.mark.parametrize("name", ["..", "a/b", ""])
def test_a_table_cannot_leave_its_root(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="cannot name a table"):
        Store.at(tmp_path).tables.location("rdd", name)


@pytest.mark.parametrize("old", sorted((Path(__file__).parent / "old").glob("v*.db")), ids=lambda p: p.stem)
def test_an_old_store_is_upgraded_and_loses_nothing(old: Path, tmp_path: Path) -> None:
    shutil.copy(old, tmp_path / "catalog.db")
    store = Store.at(tmp_path)
    (run,) = store.catalog.runs()
    assert (run.id, run.status, run.details["sql"]) == ("r1", COMPLETED, "INSERT INTO b SELECT * FROM a")
    assert [d.name for d in store.catalog.datasets()] == ["/data/a", "/data/b"]
    assert [o.name for o in store.catalog.operators("r1")] == ["scan"]
    store.close()
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]


def test_rows_that_went_to_an_application_are_inputs_of_their_run_after_the_upgrade(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parent / "old" / "collected-v0002.db", tmp_path / "catalog.db")
    catalog = Store.at(tmp_path).catalog
    assert [(e.source.name, e.target.name) for e in catalog.edges()] == [("a", "b")]
    assert [d.name for d in catalog.datasets()] == ["a", "b"]
    assert [(u.dataset.name, u.role, u.version) for u in [*catalog.inputs("w"), *catalog.outputs("w")]] == [
        ("a", "input", 1),
        ("b", "output", 1),
    ]
    assert [(u.dataset.name, u.version) for u in catalog.inputs("c")] == [("b", 1)]
    assert len(catalog.outputs("c")) == 0
    catalog.close()
