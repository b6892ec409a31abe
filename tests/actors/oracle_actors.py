"""What the capture calls of actors come to, as the contract's naive oracle knows it: each output with the inputs that
made it. Tracing through linked actors is a loop over that. Too simple to be wrong."""

from __future__ import annotations

from typing import Any

from contract.naive import touched, witnesses
from whence.actors import Location


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Location) and isinstance(b, Location):
        a_end = float("inf") if a.length is None else a.offset + a.length
        b_end = float("inf") if b.length is None else b.offset + b.length
        return a.file == b.file and max(a.offset, b.offset) < min(a_end, b_end)
    return type(a) is type(b) and a == b


class Named:
    """A record as captured: 1 and True are two, though Python takes them for equal."""

    def __init__(self, record: Any) -> None:
        self.record = record

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and (type(self.record), self.record) == (type(other.record), other.record)

    def __hash__(self) -> int:
        return hash((type(self.record), self.record))


class OracleActor:
    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any]] = []
        self.sets: dict[Any, list[Any]] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def capture(self, i: Any, o: Any) -> None:
        self.inputs += [] if i is None else [i]
        self.outputs += [] if o is None else [o]
        if i is not None and o is not None:
            self.pairs.append((i, o))

    def add_input(self, i: Any, tag: Any = None) -> None:
        self.inputs.append(i)
        for t in tag if isinstance(tag, frozenset) else [tag]:
            self.sets.setdefault(t, []).append(i)

    def add_output(self, o: Any, tag: Any = None) -> None:
        self.outputs.append(o)
        for t in tag if isinstance(tag, frozenset) else [tag]:
            self.pairs += [(i, o) for i in self.sets.get(t, [])]

    def reset(self, tag: Any = None) -> None:
        for t in tag if isinstance(tag, frozenset) else [tag]:
            self.sets.pop(t, None)

    def step(self, records: Any, direction: str) -> set[Any]:
        made = [(Named(o), frozenset([Named(i)])) for i, o in self.pairs]
        if direction == "backward":
            asked = {Named(o) for _, o in self.pairs if any(same(o, r) for r in records)}
            return {found.record for found in witnesses(made, asked)}
        seeds = {Named(i) for i, _ in self.pairs if any(same(i, r) for r in records)}
        return {found.record for found in touched(made, seeds)}


def trace(actors: list[OracleActor], links: list[tuple[int, int]], records: Any, direction: str, root: int) -> Any:
    """For each actor, the records found on its far side; a fixpoint over the links."""
    return trace_from(actors, links, {root: set(records)}, direction)


def trace_from(
    actors: list[OracleActor], links: list[tuple[int, int]], wanted: dict[int, set[Any]], direction: str
) -> Any:
    while True:
        found = {n: actors[n].step(rs, direction) for n, rs in wanted.items()}
        grown = {n: set(rs) for n, rs in wanted.items()}
        for a, b in links:
            near, far = (b, a) if direction == "backward" else (a, b)
            if near in found:
                grown.setdefault(far, set()).update(found[near])
        if grown == wanted:
            return found
        wanted = grown


def ends(actors: list[OracleActor], links: list[tuple[int, int]], found: dict[int, set[Any]], direction: str) -> Any:
    """For each actor, those of the found records that no linked actor takes on."""
    backward = direction == "backward"
    left: dict[int, set[Any]] = {}
    for n, records in found.items():
        others = [actors[a if backward else b] for a, b in links if (b if backward else a) == n]
        known = [r for other in others for r in (other.outputs if backward else other.inputs)]
        left[n] = {r for r in records if not any(same(r, o) for o in known)}
    return left
