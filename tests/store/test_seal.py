"""What the store keeps as code is read only when this user's key signed it, for exactly this place."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from whence.model import StoreError
from whence.store import seal as seals
from whence.store.seal import ALTERED, FOREIGN, KEY_VARIABLE, NOT_SIGNED, Seal, Unsigned, key_file

OLD, NEW = "an old key that nobody else knows", "a new key that nobody else knows, 32+"
KEY = OLD.replace(" ", "-")
OTHER = NEW.replace(" ", "-").replace(",", "")
PLAN = ("plan", "writes/1.plan")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_what_was_signed_is_accepted_and_nothing_else() -> None:
    seal = Seal([KEY])
    signature = seal.sign(PLAN, b"content")
    seal.check(PLAN, b"content", signature)
    for purpose, content in [
        (PLAN, b"Content"),
        (PLAN, b"content "),
        (("plan", "writes/2.plan"), b"content"),
        (("restart", "writes/1.plan"), b"content"),
        (("plan",), b"content"),
        (("plan", "writes/1.plan", ""), b"content"),
    ]:
        with pytest.raises(Unsigned) as refused:
            seal.check(purpose, content, signature)
        assert refused.value.why == ALTERED


def test_where_a_purpose_ends_cannot_be_moved() -> None:
    seal = Seal([KEY])
    alike = [((), b"abc"), (("a",), b"bc"), (("ab",), b"c"), (("a", "b"), b"c"), (("abc",), b""), (("a", "bc"), b"")]
    assert len({seal.sign(purpose, content) for purpose, content in alike}) == len(alike)


@pytest.mark.parametrize("signature", [None, "", "1:", "2:" + "0" * 16 + ":" + "0" * 64, "x" * 90, "1:é", 7])
def test_no_signature(signature: str | None) -> None:
    with pytest.raises(Unsigned) as refused:
        Seal([KEY]).check(PLAN, b"content", signature)
    assert refused.value.why == NOT_SIGNED
    assert "The plan 'writes/1.plan' in the store is not read: it is not signed" in str(refused.value)


def test_a_key_is_changed_by_putting_the_new_one_in_front() -> None:
    before = Seal([KEY]).sign(PLAN, b"content")
    both = Seal([OTHER, KEY])
    both.check(PLAN, b"content", before)
    after = both.sign(PLAN, b"content")
    Seal([OTHER]).check(PLAN, b"content", after)
    with pytest.raises(Unsigned) as refused:
        Seal([OTHER]).check(PLAN, b"content", before)
    assert refused.value.why == FOREIGN


def test_content_in_one_file_with_its_signature() -> None:
    seal = Seal([KEY])
    content = b"\n\x00any bytes\n"
    data = seal.wrap(PLAN, content)
    assert seal.unwrap(PLAN, data) == content
    for spoilt in (content, b"", data[:20], data[:-1], data + b"x", data[1:]):
        with pytest.raises(Unsigned):
            seal.unwrap(PLAN, spoilt)
    with pytest.raises(Unsigned):
        seal.unwrap(("plan", "elsewhere"), data)


def test_the_users_key_is_made_once_for_the_user_alone(home: Path) -> None:
    lax = os.umask(0)
    try:
        signature = Seal().sign(PLAN, b"content")
    finally:
        os.umask(lax)
    path = home / "config" / "whence" / "key"
    assert key_file() == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["key"]
    Seal().check(PLAN, b"content", signature)


def test_processes_that_start_together_agree_on_one_key(home: Path) -> None:
    program = "from whence.store.seal import Seal; print(Seal().sign(('a',), b'b'))"
    started = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(3)]
    assert len({process.communicate()[0] for process in started}) == 1


def test_whence_key_is_for_shared_stores(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, f" {OTHER},\n{KEY} ")
    Seal([OTHER]).check(PLAN, b"content", Seal().sign(PLAN, b"content"))
    Seal().check(PLAN, b"content", Seal([KEY]).sign(PLAN, b"content"))
    assert not (home / "config").exists()


def test_keys_that_do_not_protect_are_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Seal().sign(PLAN, b"")
    path = key_file()
    path.chmod(0o640)
    with pytest.raises(StoreError, match=r"others than its owner can use .*key \(chmod 600"):
        Seal().sign(PLAN, b"")
    path.chmod(0o600)
    path.write_text("")
    with pytest.raises(StoreError, match=r"key holds none"):
        Seal().sign(PLAN, b"")
    monkeypatch.setenv(KEY_VARIABLE, "short")
    with pytest.raises(StoreError, match=r"a key in WHENCE_KEY is shorter than 32 characters") as told:
        Seal().sign(PLAN, b"")
    assert "short'" not in str(told.value)


def test_a_key_of_another_user_is_refused(home: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    Seal().sign(PLAN, b"")
    os.chown(key_file(), 12345, 12345)
    with pytest.raises(StoreError, match="belongs to another user"):
        Seal().sign(PLAN, b"")


def test_where_no_key_can_be_made_the_user_is_told_what_to_set(home: Path) -> None:
    (home / "config").write_text("a file where the directory should be")
    with pytest.raises(StoreError, match=r"There is no key to sign .* cannot be read or made .* Set WHENCE_KEY"):
        Seal().sign(PLAN, b"")


def test_a_file_system_without_hard_links(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(seals.os, "link", refused)
    Seal().check(PLAN, b"content", Seal().sign(PLAN, b"content"))


def test_no_key_travels(home: Path) -> None:
    seal = Seal([KEY])
    signature = seal.sign(PLAN, b"content")
    travelled = pickle.dumps(seal)
    assert KEY.encode() not in travelled
    assert KEY not in repr(seal)
    with pytest.raises(Unsigned):
        pickle.loads(travelled).check(PLAN, b"content", signature)
