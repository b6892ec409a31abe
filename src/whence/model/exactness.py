from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Exactness:
    """Whether an answer is exact; when it is only a superset, each note names the operator that widened it and why."""

    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return not self.notes

    def __or__(self, other: Exactness) -> Exactness:
        return Exactness(self.notes + tuple(n for n in other.notes if n not in self.notes))


EXACT = Exactness()
