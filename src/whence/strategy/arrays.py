"""What each strategy costs an array operator: measured where it was, else worked out from how much lineage there is.

Measured are bytes and seconds of strategies that a run kept or a trial made, and seconds of query steps at some sizes;
between sizes they are interpolated. Where nothing was measured, the counts of the written lineage are multiplied with
the constants below, which are those of the encodings in arrays/encodings (numbers of 1 to 8 bytes, found by binary
search, or all looked through where the direction does not fit).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from whence.strategy.costs import BACKWARD, DIRECTIONS, Answered, Cost, Kept, Observed, Written

BLACKBOX, MAP = "Blackbox", "Map"
NEEDS = {
    "FullOne": "full",
    "FullMany": "full",
    "Interval": "full",
    "PayOne": "pay",
    "PayMany": "pay",
    "Comp": "comp",
}
KINDS = {f"{encoding}{way}": mode for encoding, mode in NEEDS.items() if mode != "full" for way in ("", ":forward")}
"""Payloads mean the whole lineage to some and exceptions to others: one run cannot keep both."""

_NUMBER = 4.0
"""Bytes of a number in a column, where nothing is known about them."""
_ENCODE = {"FullOne": 1.2e-7, "FullMany": 3e-7, "Interval": 6e-7, "PayOne": 6e-8, "PayMany": 2e-7, "Comp": 6e-8}
"""Seconds to encode and write one number."""
_STEP = 6e-5
"""Seconds of a query step that finds nothing."""
_LEAST, _SMALL, _TYPICAL = 1e-5, 1e-4, 6e-5
"""Look-ups between the first two (seconds) are all alike, and take the third: a step of Python's. Below there are only
whole arrays of operators that promise all about them."""
_GRAIN = 0.5
"""Seconds are told in powers of two to this: differences of less than a fifth are the machine's."""
_SHORT = 0.005
"""Seconds that are spent on what is stored before an operator is run again instead (arrays/access.py)."""
_LOOK_UP = 1.5e-7
"""Seconds for one cell that is looked up or found."""
_SCAN = 4e-9
"""Seconds for one number that is looked through."""
_COUNT = 7e-10
"""Seconds for one cell of a whole array."""
_MAP = 3e-7
"""Seconds for one cell that a map function gives."""


@dataclass(frozen=True)
class Passing:
    """How a workload passes an operator in one direction: the cells that a question brings and takes on, and through
    how many of the operator's inputs."""

    asked: float = 100.0
    found: float = 100.0
    inputs: float = 1.0
    steps: float = 1.0
    """Steps of such a question, which share what it takes beside them."""


def possible(modes: frozenset[str]) -> tuple[str, ...]:
    """Every strategy that an operator with these modes could keep; map functions need no other beside them."""
    if "map" in modes:
        return (MAP,)
    found = [BLACKBOX]
    for encoding, mode in NEEDS.items():
        if mode in modes:
            found += [encoding, f"{encoding}:forward"]
    return tuple(found)


def costs_of(seen: Observed, strategies: Sequence[str], passing: dict[str, Passing]) -> dict[str, Cost]:
    """`passing`: for each direction; where a direction is missing no question passes."""
    found: dict[str, Cost] = {}
    again = _rerun(seen)
    for strategy in strategies:
        kept = _kept(seen, strategy)
        queries = {}
        for direction in DIRECTIONS:
            way = passing.get(direction, Passing())
            whole = _whole(seen, direction, way)
            if whole is not None:
                seconds = whole
            elif strategy == BLACKBOX and not _points(seen, strategy, direction):
                seconds = again + _LOOK_UP * (way.asked + way.found)
            elif strategy in (BLACKBOX, MAP):
                seconds = _query(seen, strategy, direction, way)
            else:
                seconds = _query(seen, strategy, direction, way, again)
                seconds = min(_rounded(seconds), again) if seconds < again else seconds
            queries[direction] = seconds + seen.beside / max(way.steps, 1.0)
        found[strategy] = Cost(kept.bytes, kept.seconds, queries[BACKWARD], queries["forward"])
    return found


def _rounded(seconds: float) -> float:
    """What is saved within the noise of measuring is not worth any disk."""
    if seconds < _SMALL:
        return seconds if seconds < _LEAST else _TYPICAL
    return _SMALL * math.pow(2.0, _GRAIN * round(math.log2(seconds / _SMALL) / _GRAIN))


def _kept(seen: Observed, strategy: str) -> Kept:
    if strategy in (BLACKBOX, MAP):
        return Kept(strategy, 0, 0.0)
    written = _written(seen, strategy)
    known = [k for k in seen.kept if k.strategy == strategy]
    if known:
        seconds = sorted(k.seconds for k in known)[len(known) // 2]
        return Kept(strategy, known[0].bytes, written.seconds + seconds)
    encoding, _, direction = strategy.partition(":")
    numbers = _numbers(encoding, direction or BACKWARD, written)
    payload = written.payload_bytes if encoding in ("PayOne", "PayMany", "Comp") else 0
    return Kept(strategy, round(_NUMBER * numbers + payload), written.seconds + _ENCODE[encoding] * numbers)


def _written(seen: Observed, strategy: str) -> Written:
    mode = NEEDS[strategy.partition(":")[0]]
    found = seen.mode(mode)
    if found is not None:
        return found
    # Never seen writing: a pair for each output cell is what most operators write at least.
    cells = seen.output_cells
    return Written(mode, cells, cells, cells, cells, payload_bytes=8, seconds=0.1 * seen.seconds, runs=cells)


def _numbers(encoding: str, direction: str, w: Written) -> float:
    """How many numbers the encoding writes."""
    keys, values = (w.outputs, w.inputs) if direction == BACKWARD else (w.inputs, w.outputs)
    if encoding == "FullOne":
        return 2 * keys + values + (w.regions if w.regions < keys else 0)
    if encoding == "FullMany":
        return keys + values + 4 * w.regions
    if encoding == "Interval":
        return 6 * (w.runs or w.regions)
    if encoding in ("PayOne", "Comp"):
        return 2 * w.outputs if direction == BACKWARD else 2 * w.pairs + w.outputs
    return w.outputs + 5 * w.regions if direction == BACKWARD else w.outputs + 9 * w.regions


def _rerun(seen: Observed) -> float:
    """Running the operator again in tracing mode."""
    known = [a for a in seen.answered if a.strategy == BLACKBOX]
    known = [a for a in known if a.trial and not a.real] or known
    if known:
        return sorted(a.seconds for a in known)[len(known) // 2]
    mode = next((w for name in ("full", "pay", "comp") if (w := seen.mode(name)) is not None), None)
    return seen.seconds + (mode.seconds if mode is not None else 0.1 * seen.seconds)


def _whole(seen: Observed, direction: str, way: Passing) -> float | None:
    """A whole array, of an operator that says what that means (VI-C): whatever is kept, its cells are counted up."""
    cells = seen.output_cells if direction == BACKWARD else max(seen.input_cells, default=0)
    if not seen.entire or way.asked < cells:
        return None
    known = sorted(a.seconds for a in seen.answered if a.trial and a.direction == direction and a.asked >= cells)
    each = known[len(known) // 2] if known else _STEP + _COUNT * way.found
    return each * max(way.inputs, 1.0)


def _points(seen: Observed, strategy: str, direction: str) -> list[Answered]:
    return [a for a in seen.answered if a.strategy == strategy and a.direction == direction]


def _query(seen: Observed, strategy: str, direction: str, way: Passing, again: float | None = None) -> float:
    """`again`: what running the operator again takes, where that is done instead. What is stored and turns out slower
    is soon left alone (VII-A); one rerun serves all inputs."""
    inputs = 1.0 if strategy == BLACKBOX else max(way.inputs, 1.0)
    points = _points(seen, strategy, direction)
    seconds = [a.seconds for a in points if a.real]  # the questions themselves
    if not seconds:
        seconds = [_between(points, way) if points else _worked_out(seen, strategy, direction, way)]
    each = [s * inputs if again is None or s <= max(again, _SHORT) else again for s in seconds]
    return sum(each) / len(each)


def _between(points: Sequence[Answered], way: Passing) -> float:
    """Seconds at the work of this question, along the line through what was measured at less and at more work."""
    by_work: dict[float, list[float]] = {}
    for point in points:
        by_work.setdefault(float(point.asked + point.found), []).append(point.seconds)
    works = sorted(by_work)
    seconds = [sorted(by_work[work])[len(by_work[work]) // 2] for work in works]
    for n in range(1, len(seconds)):  # more work does not take less time: what looks so is noise
        seconds[n] = max(seconds[n], seconds[n - 1])
    wanted = way.asked + way.found
    if wanted <= works[0]:
        return seconds[0]
    if len(works) == 1:
        return seconds[0] + _LOOK_UP * (wanted - works[0])
    place = min(next((n for n, work in enumerate(works) if work >= wanted), len(works) - 1), len(works) - 1)
    low, high = place - 1, place
    slope = (seconds[high] - seconds[low]) / (works[high] - works[low])
    return seconds[low] + slope * (wanted - works[low])


def _worked_out(seen: Observed, strategy: str, direction: str, way: Passing) -> float:
    cells = way.asked + way.found
    if strategy == MAP:
        return _STEP + _MAP * cells
    if strategy == BLACKBOX:
        return _rerun(seen) + _LOOK_UP * cells
    encoding, _, made_for = strategy.partition(":")
    written = _written(seen, strategy)
    each = _MAP if encoding in ("PayOne", "PayMany", "Comp") and direction == BACKWARD else _LOOK_UP
    if (made_for or BACKWARD) == direction or encoding == "Interval":
        return _STEP * (1 + math.log2(1 + written.regions) / 10) + each * cells
    scanned = (
        written.pairs * _MAP
        if encoding in ("PayOne", "PayMany", "Comp")
        else _SCAN * (written.inputs + written.outputs)
    )
    return _STEP + scanned + _LOOK_UP * cells
