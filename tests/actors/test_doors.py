"""Whoever can write the store must not thereby run code, read or remove files as whoever asks it."""

from __future__ import annotations

import json
import os
import pickle
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from whence.actors import Actor, ActorStore, CannotReplay, Location, UnknownActor, replay_plan
from whence.actors.replay import REPLAY_VARIABLE, ReplayPlan
from whence.actors.worker import Filter
from whence.model import StoreError
from whence.store.seal import KEY_VARIABLE
from whence.store.sealed import sealed, unsealed

ran: list[tuple[str, Any]] = []


def again(name: str, conf: Mapping[str, Any]) -> str:
    ran.append((name, dict(conf)))
    return "ran"


def other(name: str, conf: Mapping[str, Any]) -> str:
    ran.append(("other", dict(conf)))
    return "other"


@pytest.fixture
def store(tmp_path: Path) -> ActorStore:
    ran.clear()
    return ActorStore(tmp_path / "store")


def _actor(store: ActorStore, name: str = "job", **options: Any) -> Actor:
    actor = store.register(name, materialized=True, **options)
    actor.capture(1, "a")
    actor.commit()
    return actor


def _file(store: ActorStore, actor: Actor) -> Path:
    return Path(store.root, "registry", f"{actor.id}.json")


def _change(store: ActorStore, actor: Actor, **values: Any) -> None:
    file = _file(store, actor)
    file.write_bytes(sealed({**unsealed(file.read_bytes()), **values}))  # whoever can write can compute a checksum


def _replay_elsewhere(store: ActorStore) -> Any:
    """As another program of the same user does it."""
    return ActorStore(store.root).trace(["a"], root="job").replay().result


def test_what_the_user_registered_is_restarted(store: ActorStore) -> None:
    _actor(store, restart=again, conf={"path": ("a", 1.5), 2: None, 10: "ü"})
    assert _replay_elsewhere(store) == "ran"
    assert ran == [("job", {"path": ["a", 1.5], "2": None, "10": "ü"})]


ATTACKS: dict[str, Callable[[ActorStore, Actor, Actor], None]] = {
    "another function": lambda store, job, _: _change(store, job, restart=f"{__name__}:other"),
    "a function of Python's own": lambda store, job, _: _change(store, job, restart="builtins:exec"),
    "other arguments": lambda store, job, _: _change(store, job, conf={"path": "elsewhere"}),
    "another name": lambda store, job, _: _change(store, job, name="job", path="job", kind="other"),
    "another actor's signed function": lambda store, job, twin: _file(store, job).write_bytes(
        sealed({**unsealed(_file(store, twin).read_bytes()), "id": job.id, "name": "job", "path": "job"})
    ),
    "no signature": lambda store, job, _: _change(store, job, signature=None),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_changed_restart_does_not_run(store: ActorStore, attack: str) -> None:
    job, twin = _actor(store, restart=again, conf={"path": "mine"}), _actor(store, "twin", restart=other)
    ATTACKS[attack](store, job, twin)
    with pytest.raises(CannotReplay, match=r"is not restarted: the store says that .*, but it (is not|was)"):
        _replay_elsewhere(store)
    assert ran == []


def test_nor_in_the_program_that_registered_it(store: ActorStore) -> None:
    job = _actor(store, restart=again, conf={"path": "mine"})
    _change(store, job, conf={"path": "elsewhere"})
    with pytest.raises(CannotReplay, match="was changed since"):
        store.trace(["a"], root="job").replay()
    assert ran == []


def test_an_actor_gains_no_restart_that_it_never_had(store: ActorStore) -> None:
    job, twin = _actor(store), _actor(store, "twin", restart=other)
    signed = unsealed(_file(store, twin).read_bytes())
    _change(store, job, restart=signed["restart"], signature=signed["signature"])
    with pytest.raises(CannotReplay, match="is not restarted"):
        _replay_elsewhere(store)
    assert ran == []


def test_another_users_captures_are_not_restarted(
    store: ActorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _actor(store, restart=again)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another user"))
    with pytest.raises(CannotReplay, match="signed with another key"):
        _replay_elsewhere(store)
    assert ran == []


def test_users_with_one_key_restart_each_others(
    store: ActorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "a key that the whole team has got".replace(" ", "-"))
    _actor(store, restart=again)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another user"))
    assert _replay_elsewhere(store) == "ran"


def test_without_a_key_registering_goes_on(store: ActorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "short")
    with pytest.warns(UserWarning, match="Other programs cannot restart job: There is no key"):
        _actor(store, restart=again)
    assert store.trace(["a"], root="job").replay().result == "ran"
    with pytest.raises(CannotReplay, match="Register it, or what contains it, with restart="):
        _replay_elsewhere(store)


def test_a_restart_function_that_is_gone(store: ActorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    _actor(store, restart=again)
    monkeypatch.delattr(f"{__name__}.again")
    with pytest.raises(CannotReplay, match="is not there any more"):
        _replay_elsewhere(store)


def test_a_replay_is_plain_data(store: ActorStore) -> None:
    filter = Filter(frozenset({1, "\ud800ä", b"\x00", Location("f", 3)}), None, frozenset({Location("f", 1, 2)}), True)
    plan = ReplayPlan({"a/b": filter, "c": Filter()}, frozenset({"d"}), True, {"n": "p"})
    assert ReplayPlan.loads(plan.dumps(), plan.id) == plan
    json.loads(plan.dumps())


class _Bomb:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_a_pickle_in_the_place_of_a_replay_is_not_loaded(
    store: ActorStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = store.trace(["a"], root=_actor(store))
    with store.replaying(replay_plan(trace)) as plan:
        Path(store.root, "replays", plan.id, "plan").write_bytes(pickle.dumps(_Bomb(str(tmp_path / "ran"))))
        with pytest.raises(StoreError, match=f"The replay {plan.id} cannot be read from the store"):
            ActorStore(store.root).register("job")
    assert not (tmp_path / "ran").exists()
    monkeypatch.setenv(REPLAY_VARIABLE, "../../elsewhere")
    with pytest.raises(StoreError, match="cannot be the name of a file in the store"):
        ActorStore(store.root).register("job")


BAD_IDS = ["../../x", "/x", "", ".", "a\0b", "\ud800", "x" * 5000, "a\nb", "0" * 31]


@pytest.mark.parametrize("bad", BAD_IDS)
def test_ids_that_are_none(store: ActorStore, tmp_path: Path, bad: str) -> None:
    actor = store.register("a")
    before = sorted(tmp_path.rglob("*"))
    for ask in (
        lambda: store.flow_link(bad, actor),
        lambda: store.flow_link(actor, bad),
        lambda: store.register("b", parents=[bad]),
        lambda: store.find(bad),
        lambda: store.trace(["a"], root=bad),
    ):
        with pytest.raises(UnknownActor):
            ask()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "\ud800", "x" * 100_000, "a/b", "../../x", "%2F", "Löwe"])
def test_any_text_may_be_a_name(store: ActorStore, name: str) -> None:
    actor = store.register(name, kind=name, conf={name: name})
    actor.capture(name, name + "!")
    actor.fail(name, error=name)
    actor.commit()
    assert store.find(name).id == actor.id
    assert len(store.trace([name + "!"], root=name).records) == 1
    assert [f.error for f in store.failures(name)] == [name]
    inner = store.register("b", parents=[actor])
    outer = store.register(name.split("/")[0])
    assert len({actor.spec.path, inner.spec.path, outer.spec.path}) == (2 if "/" not in name else 3)
    str(actor).encode()


def test_a_slash_in_a_name_is_no_container(store: ActorStore) -> None:
    inside, named = store.register("b", parents=[store.register("a")]), store.register("a/b")
    assert inside.spec.path != named.spec.path


def test_what_is_said_of_an_actor_leads_nowhere_else(store: ActorStore, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    job = _actor(store)
    _change(store, job, id="../../precious")
    with pytest.raises(StoreError, match="is not what whence writes there"):
        ActorStore(store.root).sweep()
    _file(store, job).write_text("[1]")
    assert "cannot be read" in ActorStore(store.root).registry().notes[0]
    assert (precious / "file").read_text() == "mine"


def test_a_manifest_leads_nowhere_else(store: ActorStore) -> None:
    job = _actor(store)
    (manifest,) = Path(store.root, "logs", job.id).glob("*.json")
    told = unsealed(manifest.read_bytes())
    told["parts"][0]["file"] = "../../../elsewhere.parquet"
    manifest.write_bytes(sealed(told))
    with pytest.raises(StoreError, match="which whence has not written"):
        ActorStore(store.root).trace(["a"], root="job")


def test_links_of_the_file_system_are_not_followed_to_remove(store: ActorStore, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    job = store.register("job")
    task = store.register("task", parents=[job])
    Path(store.root, "logs").mkdir()
    Path(store.root, "logs", task.id).symlink_to(precious)
    with pytest.warns(UserWarning, match="was left in the store: .* outside of the store"):
        job.commit()
    with pytest.raises(StoreError, match="outside of the store"):
        task.capture(1, 2), task.commit()
    assert [p.name for p in precious.iterdir()] == ["file"]
    assert (precious / "file").read_text() == "mine"


def test_actors_files_are_for_their_owner_alone(store: ActorStore) -> None:
    before = os.umask(0)
    try:
        actor = _actor(store, restart=again)
        actor.fail(1)
        store.flow_link(actor, _actor(store, "second"))
    finally:
        os.umask(before)
    top = Path(store.root)
    modes = {(p.is_dir(), stat.S_IMODE(p.stat().st_mode)) for p in (top, *top.rglob("*"))}
    assert modes == {(True, 0o700), (False, 0o600)}
