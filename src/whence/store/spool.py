"""Observations that wait on disk while the catalogue cannot be written, and come in later."""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from whence.model import Run
from whence.model.lineage import Change, ColumnLink, Link, Observation, Seen, Use
from whence.store.private import make_directory, make_file


def dump(observation: Observation) -> str:
    return json.dumps(dataclasses.asdict(observation), default=_plain, separators=(",", ":"))


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def load(text: str) -> Observation:
    held: dict[str, Any] = json.loads(text)
    run = held["run"]
    for name in ("started", "ended"):
        run[name] = datetime.fromisoformat(run[name]) if run[name] else None
    return Observation(
        Run(**run),
        tuple(
            Seen(
                **{
                    **d,
                    "columns": tuple(tuple(c) for c in d["columns"]),
                    "aliases": tuple(tuple(a) for a in d["aliases"]),
                }
            )
            for d in held["datasets"]
        ),
        tuple(Change(**c) for c in held["changes"]),
        tuple(Link(**c) for c in held["links"]),
        tuple(ColumnLink(**c) for c in held["columns"]),
        tuple(Use(**u) for u in held.get("uses", ())),
    )


class Spool:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own = directory / f"{os.getpid()}-{uuid.uuid4().hex}.jsonl"

    def add(self, *observations: Observation) -> None:
        make_directory(self._directory, self._directory.parent)
        make_file(self._own)
        with self._own.open("a", encoding="utf-8") as file:
            file.writelines(dump(observation) + "\n" for observation in observations)

    def __bool__(self) -> bool:
        return next(self._files(), None) is not None

    def _files(self) -> Iterator[Path]:
        return iter(sorted(self._directory.glob("*.jsonl"))) if self._directory.is_dir() else iter(())

    def replay(self, record: Callable[[Observation], None]) -> int:
        """Hand over everything that waits, oldest file first. What could not be handed over goes on waiting."""
        done = 0
        for file in self._files():
            taken = file.with_suffix(f".taken-{os.getpid()}")
            try:
                file.rename(taken)  # another process may be replaying the same spool: one of us gets each file
            except FileNotFoundError:
                continue
            lines = taken.read_text(encoding="utf-8").splitlines()
            handed = 0
            try:
                for line in lines:
                    try:
                        observation = load(line)
                    except (ValueError, KeyError, TypeError):
                        handed += 1  # cut off when its process died
                        continue
                    record(observation)
                    handed += 1
                    done += 1
            finally:
                if handed < len(lines):
                    make_file(file)
                    with file.open("a", encoding="utf-8") as rest:
                        rest.write("\n".join(lines[handed:]) + "\n")
                taken.unlink()
        return done
