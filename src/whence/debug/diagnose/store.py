"""Runs kept in a file as they end, so that a diagnosis that was broken off goes on where it was.

One JSON object per line: first the space (to refuse a file of another question), then one line per run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whence.debug.diagnose.runs import Run
from whence.debug.diagnose.space import Codes, Config, Space
from whence.model import StoreError
from whence.store import private


class RunStore:
    def __init__(self, path: str | Path, space: Space) -> None:
        self.path, self.space = Path(path), space
        self._head = {"whence": "diagnose", "space": {p.name: [repr(v) for v in p.values] for p in space.parameters}}
        if not self.path.exists() or not self.path.stat().st_size:
            try:
                private.make_directory(self.path.parent, self.path.parent)
                private.make_file(self.path)
                self.path.write_text(json.dumps(self._head) + "\n")
            except OSError as error:
                raise StoreError(f"The runs cannot be kept in {self.path}: {error}. Give another store=.") from error

    def runs(self) -> Iterator[tuple[Codes, Run]]:
        with self.path.open() as lines:
            if _read(next(lines, "{}") or "{}") != self._head:
                raise StoreError(
                    f"{self.path} keeps the runs of another parameter space, so this diagnosis cannot go on from it. "
                    "Give another store= or delete the file."
                )
            for number, line in enumerate(lines, 2):
                if not line.endswith("\n"):
                    break  # the last line was being written when the process was stopped
                found = self._run(line)
                if found is None:
                    raise StoreError(
                        f"Line {number} of {self.path} is not a run that diagnose has written there. Delete the line, "
                        "or give another store=."
                    )
                yield found

    def _run(self, line: str) -> tuple[Codes, Run] | None:
        """The configuration stands there twice, as codes and as text: what does not agree was not written so."""
        row = _read(line)
        try:
            codes = tuple(row["codes"])
            config = self.space.decode(codes)
            texts = row["error"] or "", row["purpose"]
            if (
                codes != self.space.encode(config)
                or row["config"] != _told(config)
                or not all(isinstance(text, str) for text in texts)
            ):
                return None
            seconds = None if row["seconds"] is None else float(row["seconds"])
            return codes, Run(config, row["succeeded"] is True, row["error"], seconds, "run", row["purpose"])
        except (KeyError, TypeError, IndexError, ValueError):
            return None

    def add(self, codes: Codes, run: Run) -> None:
        row = {
            "codes": list(codes),
            "config": _told(run.config),
            "succeeded": run.succeeded,
            "error": run.error,
            "seconds": run.seconds,
            "purpose": run.purpose,
        }
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def _told(config: Config) -> dict[str, str]:
    return {name: repr(value) for name, value in config.items()}


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
