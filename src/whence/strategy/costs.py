"""What keeping lineage costs, and what runs and queries have shown about it.

A front end gathers one `Observed` for each operator; a cost model (arrays.py, steps.py) turns it into one `Cost` for
each strategy that the operator could keep; choose.py picks among them. Bytes and seconds throughout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

BACKWARD = "backward"
FORWARD = "forward"
DIRECTIONS = (BACKWARD, FORWARD)


@dataclass(frozen=True)
class Cost:
    """One strategy for one operator: bytes on disk, seconds added to a run, seconds that a query step takes."""

    disk: float
    runtime: float
    backward: float
    forward: float

    def __post_init__(self) -> None:
        for value in (self.disk, self.runtime, self.backward, self.forward):
            if not 0 <= value < math.inf:
                raise ValueError(f"A cost must be finite and not negative: {self}.")

    def query(self, direction: str) -> float:
        return self.backward if direction == BACKWARD else self.forward


@dataclass(frozen=True)
class Written:
    """The lineage that an operator writes in one mode (full, pay or comp), before any encoding.

    A region pair joins `outputs / regions` output cells with `inputs / regions` input cells; with a payload it has no
    input cells, and `inputs` counts those that map_p gives."""

    mode: str
    regions: int
    outputs: int
    inputs: int
    pairs: int
    """Output cell with input cell: what the relation has when it is written out whole."""
    payload_bytes: int = 0
    seconds: float = 0.0
    """What the operator's own writing adds to its run."""
    runs: int = 0
    """Boxes of neighbouring cells that the relation falls into (what Interval stores)."""


@dataclass(frozen=True)
class Kept:
    """A strategy that a run did store: bytes, and the seconds that encoding and writing took. What the operator's own
    writing adds stands in `Written`."""

    strategy: str
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Answered:
    """One step of a query that was answered: so many cells asked for, so many found, in so many seconds."""

    strategy: str
    direction: str
    asked: int
    found: int
    seconds: float
    trial: bool = False
    """Asked to see what it takes (arrays/trial.py), not because somebody wanted to know."""
    real: bool = False
    """What a trial asked was asked before by somebody."""


@dataclass(frozen=True)
class Observed:
    """All that is known about one operator of one workflow, newest first where there are several of a kind."""

    operator: str
    modes: frozenset[str]
    output_cells: int
    input_cells: tuple[int, ...]
    seconds: float
    """A run without any lineage."""
    written: tuple[Written, ...] = ()
    kept: tuple[Kept, ...] = ()
    answered: tuple[Answered, ...] = ()
    entire: bool = False
    """All cells depend on all (entire_array)."""
    skipped: tuple[str, ...] = ()
    """Strategies that a trial left out, since the others took it long enough."""
    tried: int = 0
    """How many questions that somebody had asked a trial asked again."""
    beside: float = 0.0
    """What a question takes beside its steps: cells are checked and numbered, ways found, an answer made."""

    def mode(self, name: str) -> Written | None:
        return next((w for w in self.written if w.mode == name), None)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "modes": sorted(self.modes)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Observed:
        return cls(
            operator=str(stored["operator"]),
            modes=frozenset(stored["modes"]),
            output_cells=int(stored["output_cells"]),
            input_cells=tuple(int(n) for n in stored["input_cells"]),
            seconds=float(stored["seconds"]),
            written=tuple(Written(**w) for w in stored.get("written", ())),
            kept=tuple(Kept(**k) for k in stored.get("kept", ())),
            answered=tuple(Answered(**a) for a in stored.get("answered", ())),
            entire=bool(stored.get("entire", False)),
            skipped=tuple(stored.get("skipped", ())),
            tried=int(stored.get("tried", 0)),
            beside=float(stored.get("beside", 0.0)),
        )
