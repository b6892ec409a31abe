"""What was chosen. A plan is a value: it does nothing by itself, and is followed by being given to what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from whence.model.text import visible
from whence.strategy.configs import Config
from whence.strategy.costs import Cost
from whence.strategy.errors import NoSuchStep
from whence.strategy.text import in_bytes, in_seconds

T = TypeVar("T")


def name_of(step: object) -> str | None:
    """A step is named by its name, or by what has one."""
    if isinstance(step, str):
        return step
    name = getattr(step, "name", None)
    return name if isinstance(name, str) else None


class Table(Mapping[str, T], Generic[T]):
    """A mapping by the name of a step that takes the step itself, too."""

    def __init__(self, entries: Mapping[str, T], named: Callable[[object], str | None] = name_of) -> None:
        self._entries = dict(entries)
        self._named = named

    def __getitem__(self, step: object) -> T:
        name = self._named(step)
        if name is None or name not in self._entries:
            raise NoSuchStep(
                f"The plan says nothing of {name or step!r}; it is for {', '.join(self._entries) or 'nothing'}."
            )
        return self._entries[name]

    def __contains__(self, step: object) -> bool:
        return self._named(step) in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return repr(self._entries)


@dataclass(frozen=True)
class Reason:
    """Why a step keeps what it keeps, what that costs, and the best of what it could keep instead."""

    why: str
    next: Config | None
    disk: float
    runtime: float
    query: float


@dataclass(frozen=True, repr=False)
class Plan:
    """`plan[step]`: the strategies that it keeps. Predicted bytes and seconds; `query` is what an average question of
    the workload takes."""

    chosen: Mapping[str, tuple[str, ...]]
    costs: Mapping[str, Mapping[str, Cost]]
    reasons: Mapping[str, Reason]
    disk: float
    runtime: float
    query: float
    limit_disk: float | None = None
    limit_runtime: float | None = None
    named: Callable[[object], str | None] = field(default=name_of, compare=False)

    def __post_init__(self) -> None:
        for field_ in ("chosen", "costs", "reasons"):
            object.__setattr__(self, field_, Table(getattr(self, field_), self.named))

    def __getitem__(self, step: object) -> tuple[str, ...]:
        return self.chosen[step]  # type: ignore[index]

    def __contains__(self, step: object) -> bool:
        return step in self.chosen

    def __iter__(self) -> Iterator[str]:
        return iter(self.chosen)

    def __len__(self) -> int:
        return len(self.chosen)

    def __repr__(self) -> str:
        return f"<Plan of {len(self)} steps: {self._sums}>"

    @property
    def _sums(self) -> str:
        return (
            f"{in_bytes(self.disk)} on disk{_of(self.limit_disk, in_bytes)}, "
            f"{in_seconds(self.runtime)} added to a run{_of(self.limit_runtime, in_seconds)}, "
            f"{in_seconds(self.query)} for an average question"
        )

    def __str__(self) -> str:
        rows = [("step", "keeps", "disk", "run time", "query", "why", "next best")]
        for step, strategies in self.chosen.items():
            reason = self.reasons[step]
            rows.append(
                (
                    visible(step),
                    " + ".join(strategies),
                    in_bytes(reason.disk),
                    in_seconds(reason.runtime),
                    in_seconds(reason.query),
                    reason.why,
                    _alternative(reason.next),
                )
            )
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, "", self._sums])


def _of(limit: float | None, show: Callable[[float], str]) -> str:
    return "" if limit is None else f" (limit {show(limit)})"


def _alternative(other: Config | None) -> str:
    if other is None:
        return "-"
    return (
        f"{' + '.join(other.strategies)}: {in_bytes(other.disk)}, {in_seconds(other.runtime)}, "
        f"query {in_seconds(other.query)}"
    )
