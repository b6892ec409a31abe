"""Every file of a store, one at a time, truncated, emptied, removed or changed: the right answer, an answer that says
what it may lack, or a sentence. Never fewer records without a word, and never an error of somebody else's."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whence.actors import ActorStore, Location, LogDamaged
from whence.model import StoreError, WhenceError


def flipped(at: float) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        data = bytearray(file.read_bytes())
        if data:
            data[int(at * (len(data) - 1))] ^= 0x15
        file.write_bytes(bytes(data))

    return damage


def cut(at: float) -> Callable[[Path], None]:
    return lambda file: file.write_bytes(file.read_bytes()[: int(at * file.stat().st_size)]) and None


DAMAGES: dict[str, Callable[[Path], None]] = {
    "emptied": cut(0),
    "half": cut(0.5),
    "all but the end": cut(0.97),
    "removed": Path.unlink,
    "other bytes": lambda file: file.write_bytes(b"\x00garbage{" * 7) and None,
    **{f"changed at {at:.0%}": flipped(at) for at in (0.07, 0.35, 0.8, 1)},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """lines -> words (tasks of it) -> counts (paired), all in a job that another one feeds."""
    root = tmp_path_factory.mktemp("actors") / "store"
    store = ActorStore(root)
    fetch = store.register("fetch", kind="job")
    job = store.register("job", kind="job")
    store.flow_link(fetch, job)
    lines, words, counts = (store.register(n, parents=[job]) for n in ("lines", "words", "counts"))
    store.flow_link(lines, words)
    store.flow_link(words, counts)
    fetch.capture_many([Location("web", n, 1) for n in range(20)], [f"raw {n}" for n in range(20)])
    lines.capture_many([f"raw {n}" for n in range(20)], list(range(20)))
    for task in range(2):
        with words.task(task) as part:
            for n in range(task, 20, 2):
                part.capture(n, f"word {n}")
    for n in range(20):
        counts.add_input(f"word {n}", tag=n % 3)
    for tag in range(3):
        counts.add_output(f"count {tag}", tag=tag)
    words.fail(3, error=ValueError("odd"))
    for actor in (fetch, lines, words, counts, job):
        actor.commit()
    return root


def ask(root: Path) -> tuple[Any, bool]:
    """What questions find, and whether the answers say that they may lack something."""
    store = ActorStore(root)
    backward = store.trace(["count 1"], root="counts")
    forward = store.trace(["raw 4"], "forward", root="lines")
    found = (
        frozenset(backward.records),
        tuple(sorted(len(step.outputs) for step in backward.steps)),
        frozenset(forward.records),
        frozenset(store.outputs_of("job")),
    )
    return found, not (backward.exact and forward.exact)


def test_each_file_damaged_in_turn(home: Path) -> None:
    expected, lacking = ask(home)
    assert len(expected[0]) == 7
    assert not lacking
    outcomes: Counter[str] = Counter()
    for file in sorted(p for p in home.rglob("*") if p.is_file()):
        whole = file.read_bytes()
        for name, damage in DAMAGES.items() if whole else [("removed", Path.unlink)]:
            damage(file)
            try:
                found, lacking = ask(home)
            except WhenceError as told:
                outcomes["sentence" if str(told).endswith(".") else f"no sentence: {told}"] += 1
            else:
                assert lacking or found == expected, f"{file} {name}: {found}"
                outcomes["note" if lacking else "right"] += 1
            file.write_bytes(whole)
    assert set(outcomes) == {"sentence", "note", "right"}
    assert ask(home) == (expected, False)


def test_a_damaged_failure_is_told(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    (file,) = (copy / "failures").iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(LogDamaged, match="failures/"):
        ActorStore(copy).failures()


def test_a_damaged_log_is_not_swept_and_does_not_fail_a_commit(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    store = ActorStore(copy)
    words = store.find("words")
    manifest = next((copy / "logs" / words.id).glob("*.json"))
    manifest.write_bytes(b"{")
    before = set(store.files.names("logs", words.id))
    assert store.sweep() == 0
    assert set(store.files.names("logs", words.id)) == before
    with pytest.raises(StoreError, match="Put the file back"):
        store.log("words")


def test_what_json_changes_is_no_damage(tmp_path: Path) -> None:
    store = ActorStore(tmp_path)
    actor = store.register("map", conf={10: (1, 2), 9: float("inf"), "é": None})
    actor.capture(1, 2)
    actor.commit()
    assert store.find("map").conf == {"10": [1, 2], "9": float("inf"), "é": None}
    assert store.trace([2], root=actor).exact


def test_a_commit_is_the_end(tmp_path: Path) -> None:
    """What a task captures after its actor has ended (a query that is run once more, say) is no part of it."""
    store = ActorStore(tmp_path)
    actor = store.register("map")
    with actor.task(1) as task:
        task.capture("line", "word")
    actor.commit()
    with actor.task(2) as task:
        task.capture("line", "never")
    assert set(store.log(actor).all_records("output")) == {"word"}
    actor.commit()  # said explicitly, it counts
    assert set(store.log(actor).all_records("output")) == {"word", "never"}


def test_a_store_of_before_there_were_checksums(home: Path, tmp_path: Path) -> None:
    """Empty marks of commits, and manifests without lengths, are read as they were."""
    import json

    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    for commit in (copy / "registry").glob("*.committed"):
        commit.with_name(commit.name.partition(".")[0] + ".committed").write_bytes(b"")
        commit.unlink()
    for file in [*(copy / "registry").glob("*.json"), *(copy / "logs").glob("*/*.json")]:
        values = json.loads(file.read_bytes())
        del values["crc32"]
        values.pop("own", None)
        for part in values.get("parts", ()):
            del part["bytes"], part["crc32"]
        file.write_text(json.dumps(values))
    assert ask(copy) == ask(home)
