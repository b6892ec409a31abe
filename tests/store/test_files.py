"""The file layer on this machine: a directory, the driver's relay, and the catalogue of a store at a URL."""

from __future__ import annotations

import logging
import os
import pickle
import stat
from multiprocessing import AuthenticationError
from pathlib import Path

import pytest

import files_contract
import hadoop_services
from whence.model import Run, StoreError
from whence.model.lineage import Observation
from whence.store import LocalFiles, Store, StoreLocation, parse_location
from whence.store.catalog import Catalog
from whence.store.journal import MANY, Journal
from whence.store.producers import Product
from whence.store.relay import Relay, RelayedFiles


def test_a_directory(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "store")
    files_contract.check(files)
    assert stat.S_IMODE(os.stat(tmp_path / "store" / "a").st_mode) == 0o700
    assert stat.S_IMODE(os.stat(tmp_path / "store" / "a" / "empty").st_mode) == 0o600


def test_what_lies_behind_a_link_is_not_deleted(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "store")
    files.write(b"kept", "own", "file")
    os.symlink(tmp_path / "store" / "own", tmp_path / "store" / "link")
    with pytest.raises(StoreError, match="a link leads there"):
        files.delete("link", "file")
    assert files.read("own", "file") == b"kept"


def test_the_relay(tmp_path: Path) -> None:
    relay = Relay()
    try:
        mounted = relay.mount(LocalFiles(tmp_path / "store"))
        there: RelayedFiles = pickle.loads(pickle.dumps(mounted))  # as a task gets it
        files_contract.check(there)
        assert LocalFiles(tmp_path / "store").names("a") == ["empty"]
    finally:
        relay.close()
    with pytest.raises(StoreError, match="cannot be reached from this executor"):
        there.names("a")


def test_the_relay_serves_nobody_without_the_key(tmp_path: Path) -> None:
    relay = Relay()
    try:
        mounted = relay.mount(LocalFiles(tmp_path / "store"))
        stranger = RelayedFiles(mounted._address, b"x" * 32, mounted.name, mounted.root)
        with pytest.raises((StoreError, AuthenticationError)):
            stranger.write(b"mine", "a", "file")
        relay.unmount(mounted)
        with pytest.raises(StoreError, match="is closed"):
            mounted.write(b"late", "a", "file")
    finally:
        relay.close()
    assert not (tmp_path / "store").exists()


def test_names_that_lead_out_of_what_is_mounted_are_refused(tmp_path: Path) -> None:
    relay = Relay()
    try:
        mounted = relay.mount(LocalFiles(tmp_path / "store"))
        mounted.path = lambda *parts: "/".join(parts)  # type: ignore[method-assign]  # an executor without scruples
        with pytest.raises(StoreError, match="cannot be the name"):
            mounted.write(b"mine", "..", "file")
    finally:
        relay.close()
    assert not (tmp_path / "file").exists()


def test_an_object_store_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the commands of whence reach it: by pyarrow, with the settings of the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    try:
        with hadoop_services.s3_server() as place:
            monkeypatch.setenv("AWS_ENDPOINT_URL", place)
            store = Store.at("s3a://lineage/store")
            files_contract.check(store.files.below("contract"))
            store.catalog.record(_run("a"))
            store.close()
            again = Store.at("s3a://lineage/store")
            assert [run.id for run in again.catalog.runs()] == ["a"]
            again.close()
    except hadoop_services.Unavailable as why:
        pytest.skip(f"no S3 here: {why}")


# --- what store= may say


@pytest.mark.parametrize(
    "url", ["s3a://bucket/lineage", "hdfs://host:9000/lineage", "abfss://c@a.dfs.core.windows.net/x"]
)
def test_urls_that_spark_knows(url: str) -> None:
    location = parse_location(url + "/")
    assert (location.remote, location.tables, location.is_elsewhere) == (url, f"{url}/tables", True)
    assert str(location) == url


def test_dbfs_as_databricks_spells_it() -> None:
    assert parse_location("dbfs:/lineage/store").remote == "dbfs:///lineage/store"


def test_a_url_of_this_machine_is_a_directory(tmp_path: Path) -> None:
    assert parse_location(f"file://{tmp_path}/store") == parse_location(tmp_path / "store")


@pytest.mark.parametrize("url", ["s3a://", "hdfs:///"])
def test_a_url_without_a_folder(url: str) -> None:
    with pytest.raises(StoreError, match="names no folder"):
        parse_location(url)


# --- the catalogue elsewhere: several writers, each with a copy


def _location(tmp_path: Path, name: str) -> StoreLocation:
    here = tmp_path / name
    return StoreLocation(f"sqlite:///{here / 'catalog.db'}", "x://tables", here, "x://store")


def _opened(tmp_path: Path, name: str) -> Catalog:
    return Catalog.open(_location(tmp_path, name), journal=Journal(LocalFiles(tmp_path / "shared")))


def _run(name: str) -> Observation:
    return Observation(Run(name, "test", status="completed"), (), (), (), ())


def test_writers_see_each_other(tmp_path: Path) -> None:
    one, two = _opened(tmp_path, "one"), _opened(tmp_path, "two")
    one.record(_run("a"))
    two.record(_run("b"))
    one.producers.add([Product("/x", "sql", "r1", at=1.0)])
    two.producers.add([Product("/x", "sql", "r2", at=2.0)])
    for catalog in (one, two):
        catalog.refresh()
        assert sorted(run.id for run in catalog.runs()) == ["a", "b"]
        assert catalog.producers.of(["/x"])["/x"].run == "r2"  # the newer one, whoever hears of it last
    one.close()
    two.close()
    assert not (tmp_path / "one").exists()
    later = _opened(tmp_path, "later")
    assert sorted(run.id for run in later.runs()) == ["a", "b"]
    later.close()


def test_what_was_written_survives_a_process_that_is_killed(tmp_path: Path) -> None:
    _opened(tmp_path, "killed").record(_run("a"))  # never closed
    assert [run.id for run in _opened(tmp_path, "later").runs()] == ["a"]


def test_many_transactions_are_kept_as_one_copy(tmp_path: Path) -> None:
    catalog = _opened(tmp_path, "one")
    for number in range(MANY):
        catalog.record(_run(f"{number:03}"))
    catalog.close()
    shared = tmp_path / "shared" / "catalog"
    (copy,) = shared.glob("snapshot-*.db")
    for file in shared.glob("[0-9]*.json"):
        file.unlink()  # the copy alone has all of it
    later = _opened(tmp_path, "later")
    assert len(later.runs()) == MANY
    later.record(_run("new"))
    later.close()
    copy.write_bytes(copy.read_bytes()[:5000])
    assert [run.id for run in _opened(tmp_path, "last").runs()] == ["new"]  # what is damaged is left out


def test_a_damaged_transaction_is_warned_of_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    catalog = _opened(tmp_path, "one")
    catalog.record(_run("a"))
    (file,) = (tmp_path / "shared" / "catalog").glob("*.json")
    file.write_bytes(file.read_bytes().replace(b'\\"a\\"', b'\\"z\\"'))
    catalog.record(_run("b"))
    with caplog.at_level(logging.WARNING, "whence.store"):
        assert [run.id for run in _opened(tmp_path, "later").runs()] == ["b"]
    assert "damaged" in caplog.text


def test_saved_diagnoses_travel_too(tmp_path: Path) -> None:
    one = _opened(tmp_path, "one")
    number = one.diagnoses.save("d", 3, {"x": [1, 2]}, [])
    two = _opened(tmp_path, "two")
    found = two.diagnoses.get(number)
    assert found is not None
    assert found.name == "d"


def test_a_store_at_a_url_needs_spark_or_arrow() -> None:
    store = Store.at("dbfs:/lineage")
    with pytest.raises(StoreError, match="Attach to it with a Spark session"):
        _ = store.files


def test_tokens_of_a_server_need_a_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"postgresql://.*tables=x://store"):
        _ = _opened(tmp_path, "one").tokens
