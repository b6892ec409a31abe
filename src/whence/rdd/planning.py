"""What is known about a program of RDDs for the choice of its strategy: what it took, and what its tables take."""

from __future__ import annotations

import os

from whence.rdd.context import LineageContext, step_name
from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.propagate import path_of
from whence.rdd.stages import Node
from whence.strategy import Kept
from whence.strategy.steps import PROPAGATED, STORED, Program

# For programs that have not run yet: what a Python worker reads of text in a second, and the length of a line.
_TEXT_A_SECOND = 2e7
_LINE = 60


def program_of(rdd: LineageRDD) -> Program:
    context = rdd.ctx
    context._take_commits()
    behind = set(_nodes_behind(rdd.node))
    stages = {number for number, info in context._stages.items() if info.base.node.id in behind}
    size = records = whole = 0
    for (stage, part), attempts in context._tables.items():
        good = [(attempt, told) for attempt, told in attempts.items() if told[2] is None]
        if stage in stages and good:
            attempt, told = good[-1]
            size, records = size + told[0], records + told[1]
            whole += _size(path_of(context._directory, (stage, part, attempt)))
    read = _read(context, behind)
    seconds = context._seconds.get(rdd.node.id, read / _TEXT_A_SECOND)
    kept = [Kept(STORED, size, 0.0)] if size else []
    if whole:
        kept.append(Kept(PROPAGATED, size + whole, seconds))
    return Program(seconds, records or read // _LINE, tuple(kept))


def _nodes_behind(top: Node) -> dict[int, Node]:
    found: dict[int, Node] = {}
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if node.id not in found:
            found[node.id] = node
            waiting.extend(node.inputs)
    return found


def files_of(rdd: LineageRDD) -> tuple[str, ...]:
    """The text files that it reads."""
    context = rdd.ctx
    splits = [context._splits[number] for number in sorted(_nodes_behind(rdd.node)) if number in context._splits]
    return tuple(dict.fromkeys(split.local or split.path for each in splits for split in each.load()))


def steps_behind(rdd: LineageRDD) -> tuple[str, ...]:
    """The other RDDs of the program that it is made from."""
    found = _nodes_behind(rdd.node).values()
    return tuple(step_name(node) for node in found if node is not rdd.node and not node.hidden)


def _read(context: LineageContext, behind: set[int]) -> int:
    return sum(
        split.length for number in behind if number in context._splits for split in context._splits[number].load()
    )


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
