"""Trace points inside a stage: an RDD between two boundaries has no table of its own, but the steps up to it can be run
again on the records that a trace leads to (the paper's remark in section 4.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from whence.model import WhenceError
from whence.rdd.codec import Ints
from whence.rdd.narrow import Narrow
from whence.rdd.records import records_at, steps_until
from whence.rdd.stages import Node
from whence.rdd.walk import Place, State, merged
from whence.rdd.worker import through

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext
    from whence.rdd.tables import Table


class NotOnTheWay(WhenceError):
    """A trace was asked to go to an RDD that its records did not come through."""


def back_to(context: LineageContext, state: State, node: Node, note: Callable[[str], None]) -> State:
    tables = context._open
    done: dict[Place, list[Ints]] = defaultdict(list)
    todo = list(state.items())
    while todo:
        place, positions = todo.pop()
        if tables.node(place) == node.id:
            done[place].append(positions)
            continue
        if place.attempt < 0:
            continue
        if place.space:
            found = _inside(context, place, positions, node)
            if found is not None:
                done[found[0]].append(found[1])
                continue
        todo.extend((p, x) for p, x in tables._one_back(place, positions, note) if len(x))
    if not done and state:
        raise NotOnTheWay(
            f"These records did not come through {node.name} (RDD {node.id}): it is not an input of the traced RDD, or "
            "the trace has already gone past it. Ask goBackAll() for the sources that there are."
        )
    return merged(done)


def _inside(context: LineageContext, place: Place, positions: Ints, node: Node) -> tuple[Place, Ints] | None:
    """If the node is among the narrow steps that lead to this space: its own records, captured on demand."""
    info = context._stages[place.stage]
    table: Table = tables_of(context, place)
    if table.links[place.space - 1]["kind"] not in ("counts", "identity"):
        return None
    after = steps_until(info, table, place.space)
    before = steps_until(info, table, place.space - 1)
    inner = after[len(before) :]
    at = next((i for i, step in enumerate(inner) if step.node is node), None)
    if at is None:
        return None
    inputs = table.back(place.space, positions)
    wanted = set(positions.tolist())
    narrow = [s.op for s in inner if isinstance(s.op, Narrow)]
    ops, rest = narrow[: at + 1], narrow[at + 1 :]
    for op in narrow:
        op.start(place.part)
    records = records_at(context, place._replace(space=place.space - 1), inputs)
    starts = _starts(table, place.space - 1, inputs)
    kept: dict[int, list[int]] = {}
    for position, first, record in zip(inputs.tolist(), starts.tolist(), records, strict=True):
        out = first
        number = 0
        for made, _ in through(ops, [record]):
            for inner_record in made:
                became = sum(len(x) for x, _ in through(rest, [inner_record]))
                if any(n in wanted for n in range(out, out + became)):
                    kept.setdefault(position, []).append(number)
                out += became
                number += 1
    here = context._inner_place(info, place, (*before, *inner[: at + 1]))
    return here, _positions(context, here, place.space - 1, kept)


def tables_of(context: LineageContext, place: Place) -> Table:
    return context._open.of(place)


def _starts(table: Table, space: int, inputs: Ints) -> Ints:
    """The first output of each input."""
    link = table.links[space]
    if link["kind"] == "identity":
        return inputs
    counts = table._ints(link["counts"])
    ends: Ints = np.cumsum(counts)
    return ends[inputs] - counts[inputs]


def _positions(context: LineageContext, here: Place, space: int, kept: dict[int, list[int]]) -> Ints:
    """Numbers among an input's records to positions in the inner RDD's own table."""
    table = tables_of(context, here)
    inputs = np.array(sorted(kept), dtype=np.int64)
    starts = _starts(table, space, inputs)
    found = [first + n for i, first in zip(inputs.tolist(), starts.tolist(), strict=True) for n in kept[i]]
    return np.array(found, dtype=np.int64)
