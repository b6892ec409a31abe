"""Runs kept in a file as they end, so that a diagnosis that was broken off goes on where it was.

One JSON object per line: first the space (to refuse a file of another question), then one line per run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from whence.debug.diagnose.runs import Run
from whence.debug.diagnose.space import Codes, Space
from whence.model import StoreError


class RunStore:
    def __init__(self, path: str | Path, space: Space) -> None:
        self.path, self.space = Path(path), space
        self._head = {"whence": "diagnose", "space": {p.name: [repr(v) for v in p.values] for p in space.parameters}}
        if not self.path.exists() or not self.path.stat().st_size:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(json.dumps(self._head) + "\n")
            except OSError as error:
                raise StoreError(f"The runs cannot be kept in {self.path}: {error}. Give another store=.") from error

    def runs(self) -> Iterator[tuple[Codes, Run]]:
        with self.path.open() as lines:
            head = json.loads(next(lines, "{}") or "{}")
            if head != self._head:
                raise StoreError(
                    f"{self.path} keeps the runs of another parameter space, so this diagnosis cannot go on from it. "
                    "Give another store= or delete the file."
                )
            for line in lines:
                if not line.endswith("\n"):
                    break  # the last line was being written when the process was stopped
                row = json.loads(line)
                codes = tuple(row["codes"])
                yield (
                    codes,
                    Run(
                        self.space.decode(codes), row["succeeded"], row["error"], row["seconds"], "run", row["purpose"]
                    ),
                )

    def add(self, codes: Codes, run: Run) -> None:
        row = {
            "codes": list(codes),
            "config": {name: repr(value) for name, value in run.config.items()},
            "succeeded": run.succeeded,
            "error": run.error,
            "seconds": run.seconds,
            "purpose": run.purpose,
        }
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
