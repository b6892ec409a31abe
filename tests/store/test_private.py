"""A store is its owner's: rights, and names that would lead out of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from whence.model import StoreError
from whence.store import Store, private


@pytest.fixture(autouse=True)
def lax_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _modes(top: Path) -> set[str]:
    return {
        f"{'directory' if path.is_dir() else 'file'} {stat.S_IMODE(path.stat().st_mode):o}"
        for path in (top, *top.rglob("*"))
    }


def _modes_in_use(top: Path) -> set[str]:
    store = Store.at(top)
    try:
        assert store.catalog.runs() == ()
        store.tables.write(pa.table({"a": [1]}), "rdd", "one")
        store.tables.write(pa.table({"a": [2]}), "rdd", "one")
        assert {path.name for path in top.iterdir()} >= {"catalog.db", "catalog.db-wal", "tables"}
    finally:
        modes = _modes(top)
        store.close()
    return modes


def test_a_new_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    assert _modes_in_use(tmp_path / "new" / "store") == {"directory 700", "file 600"}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_also_in_a_directory_that_the_group_may_write(tmp_path: Path) -> None:
    shared = tmp_path / "project"
    shared.mkdir(mode=0o777)
    assert _modes_in_use(shared / ".whence") == {"directory 700", "file 600"}


def test_a_store_that_was_made_for_a_group_stays_shared(tmp_path: Path) -> None:
    top = tmp_path / "store"
    top.mkdir()
    top.chmod(0o2770)
    os.umask(0o077)
    store = Store.at(top)
    store.tables.write(pa.table({"a": [1]}), "rdd", "one")
    assert store.catalog.runs() == ()
    modes = _modes(top)
    store.close()
    assert modes == {"directory 2770", "file 660"}


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\\b", "a\0b", "\ud800", "ä" * 200])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(StoreError, match="cannot be the name of a file in the store"):
        private.require_name(name)


@pytest.mark.parametrize("name", ["a", "..a", "Löwe", "a b", "a\nb", "x" * 255])
def test_names(name: str) -> None:
    assert private.require_name(name) == name


def test_a_link_out_of_the_store_is_not_followed(tmp_path: Path) -> None:
    top, outside = tmp_path / "store", tmp_path / "outside"
    top.mkdir()
    outside.mkdir()
    (outside / "precious").write_text("mine")
    (top / "link").symlink_to(outside)
    for path in (top / "link" / "precious", top / "link", top / ".." / "outside", top):
        with pytest.raises(StoreError, match="outside of the store"):
            private.require_inside(path, top)
    private.require_inside(top / "anything", top)


def test_removing_a_table_never_removes_what_a_link_leads_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "one").mkdir(parents=True)
    (outside / "one" / "precious").write_text("mine")
    store = Store.at(tmp_path / "store")
    store.tables.write(pa.table({"a": [1]}), "rdd", "other")
    (tmp_path / "store" / "tables" / "sql").symlink_to(outside)
    with pytest.raises(StoreError, match="outside of the store"):
        store.tables.remove("sql", "one")
    with pytest.raises(StoreError, match="outside of the store"):
        store.tables.write(pa.table({"a": [1]}), "sql", "one")
    store.tables.remove("rdd", "other")
    assert not store.tables.exists("rdd", "other")
    assert (outside / "one" / "precious").read_text() == "mine"


def test_what_others_can_write_is_not_run(tmp_path: Path) -> None:
    mine, shared = tmp_path / "mine", tmp_path / "shared"
    mine.mkdir(mode=0o700)
    shared.mkdir(mode=0o777)
    assert private.is_own(mine)
    assert not private.is_own(mine, shared)
    assert not private.is_own(mine / "missing")
    if os.getuid() != 0:
        pytest.skip("only root can give a directory to another user")
    os.chown(mine, 12345, 12345)
    assert not private.is_own(mine)
