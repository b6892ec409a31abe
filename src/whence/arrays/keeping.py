"""What a run keeps of an operator's lineage, within its limit, and what was learnt about the operator on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from whence.arrays.cells import size_of
from whence.arrays.encodings import BLACKBOX, STORED, Source, Strategy, TooLarge
from whence.arrays.errors import ArrayError
from whence.arrays.maps import Maps
from whence.arrays.operator import Mode, Operator, label, modes_of
from whence.arrays.running import Result
from whence.arrays.written import Written
from whence.strategy import costs


class Budget:
    """How many bytes of lineage a run may keep."""

    def __init__(self, limit: float | None) -> None:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, Real) or not limit >= 0):
            raise ArrayError(f"limit_disk={limit!r} is no number of bytes: give one that is 0 or more.")
        self.limit = limit
        self.used = 0

    def fits(self, size: int) -> bool:
        return self.limit is None or self.used + size <= self.limit

    @property
    def most_pairs(self) -> int | None:
        """Pairs that cannot fit, however well they are packed: not worth collecting."""
        return None if self.limit is None else int(min(64 * (self.limit - self.used) + (1 << 20), 1 << 40))

    def refusal(self, strategies: tuple[Strategy, ...], why: str) -> dict[str, Any]:
        """What is told of an operator whose lineage does not fit."""
        note = (
            f"{', '.join(map(str, strategies))} did not fit into limit_disk={self.limit}: {why}, and {self.used} bytes "
            "were taken before. Blackbox is kept."
        )
        return {"strategies": [str(BLACKBOX)], "bytes": 0, "notes": [note]}


def store(
    source: Source, strategies: tuple[Strategy, ...], paths: Sequence[Path], budget: Budget
) -> tuple[dict[str, Any], list[costs.Kept]]:
    """Writes the lineage, one file for each strategy: all of it or, where it does not fit, none."""
    made: list[Path] = []
    kept: list[costs.Kept] = []
    total = 0
    try:
        for strategy, path in zip(strategies, paths, strict=True):
            if strategy.is_stored:
                start = perf_counter()
                columns = STORED[strategy.encoding].encode(source, strategy.direction)
                size = columns.size()
                total += size
                if not budget.fits(total):
                    raise TooLarge(f"it takes at least {total} bytes")
                made.append(path)
                columns.write(path)
                kept.append(costs.Kept(str(strategy), size, perf_counter() - start))
    except TooLarge as error:
        for path in made:
            path.unlink(missing_ok=True)
        if budget.limit is None:
            raise
        return budget.refusal(strategies, str(error).rstrip(".")), []
    budget.used += total
    return {"strategies": [str(strategy) for strategy in strategies], "bytes": total}, kept


def counted(written: Written, modes: frozenset[Mode], seconds: float) -> tuple[costs.Written, ...]:
    """How much an operator wrote in each mode that it was asked for."""
    made = []
    if Mode.FULL in modes:
        regions = [region for region in written.regions if len(region)]
        made.append(
            costs.Written(
                Mode.FULL.value,
                sum(len(region) for region in regions),
                sum(len(region.out.values) for region in regions),
                sum(len(region.inn.values) for region in regions),
                sum(int(np.dot(region.out.lengths(), region.inn.lengths())) for region in regions),
                seconds=seconds,
            )
        )
    for mode in (Mode.PAY, Mode.COMP):
        if mode in modes:
            payloads = written.payloads
            size = sum(len(p) if isinstance(p, (bytes, str)) else 8 for p in payloads.table.distinct)
            cells = len(payloads.out.values)
            made.append(costs.Written(mode.value, len(payloads), cells, 0, 0, payload_bytes=size, seconds=seconds))
    return tuple(made)


def summed(parts: Sequence[tuple[costs.Written, ...]]) -> tuple[costs.Written, ...]:
    """The same of all chunks together."""
    sums: dict[str, costs.Written] = {}
    for each in (written for part in parts for written in part):
        before = sums.get(each.mode)
        sums[each.mode] = (
            each
            if before is None
            else replace(
                before,
                regions=before.regions + each.regions,
                outputs=before.outputs + each.outputs,
                inputs=before.inputs + each.inputs,
                pairs=before.pairs + each.pairs,
                payload_bytes=before.payload_bytes + each.payload_bytes,
                seconds=before.seconds + each.seconds,
            )
        )
    return tuple(sums.values())


def observed(
    maps: Maps, seconds: float, written: tuple[costs.Written, ...], kept: Sequence[costs.Kept]
) -> dict[str, Any]:
    operator = maps.operator
    return costs.Observed(
        label(operator),
        frozenset(mode.value for mode in modes_of(operator)),
        size_of(maps.output_shape),
        tuple(size_of(shape) for shape in maps.input_shapes),
        max(seconds, 0.0),
        written=written,
        kept=tuple(kept),
        entire=bool(operator.entire_array),
    ).as_json()


def kept_of(
    operator: Operator,
    result: Result,
    modes: frozenset[Mode],
    lineage: Sequence[tuple[Strategy, Path]],
    budget: Budget,
    start: float,
) -> dict[str, Any]:
    """Keeps the lineage of one call of `run`, whose output is written already; gives what is told of it.

    `start`: when the operator's turn began."""
    kept = perf_counter()
    maps = Maps(operator, result.input_shapes, result.output.shape)
    written = result.written() if Mode.MAP not in modes_of(operator) else None
    finished = perf_counter()
    source = Source(maps, written, budget.most_pairs)
    told, stored = store(source, tuple(strategy for strategy, _ in lineage), [path for _, path in lineage], budget)
    end = perf_counter()
    taken = result.recorder.seconds
    counts = () if written is None else counted(written, modes, taken + finished - kept)
    return told | {
        "silent": [] if written is None else sorted(mode.value for mode in written.silent),
        "seconds": end - start,
        "overhead": min(taken + end - kept, end - start),
        "traced": result.seconds + finished - kept,
        "observed": observed(maps, result.seconds - taken, counts, stored),
    }
