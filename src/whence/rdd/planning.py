"""What is known about a program of RDDs for the choice of its strategy: what it took, and what its tables take."""

from __future__ import annotations

from whence.rdd.context import step_name
from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.live_book import LiveBook
from whence.rdd.propagate import name_of_full
from whence.rdd.stages import Node
from whence.strategy import Kept
from whence.strategy.steps import PROPAGATED, STORED, Program

# For programs that have not run yet: what a Python worker reads of text in a second, and the length of a line.
_TEXT_A_SECOND = 2e7
_LINE = 60


def program_of(rdd: LineageRDD) -> Program:
    book = rdd.ctx.book
    book.take_commits()
    behind = set(_nodes_behind(rdd.node))
    stages = {number for number, info in book.stages.items() if info.base.node.id in behind}
    size = records = whole = 0
    for (stage, part), attempts in book.committed.items():
        good = [(attempt, told) for attempt, told in attempts.items() if told[2] is None]
        if stage in stages and good:
            attempt, told = good[-1]
            size, records = size + told[0], records + told[1]
            whole += book.files.size(*name_of_full((stage, part, attempt))) or 0
    read = _read(book, behind)
    seconds = book.seconds.get(rdd.node.id, read / _TEXT_A_SECOND)
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
    readings = rdd.ctx.book.readings
    found = [readings[number] for number in sorted(_nodes_behind(rdd.node)) if number in readings]
    return tuple(dict.fromkeys(split.local or split.path for reading in found for split in reading.load()))


def steps_behind(rdd: LineageRDD) -> tuple[str, ...]:
    """The other RDDs of the program that it is made from."""
    found = _nodes_behind(rdd.node).values()
    return tuple(step_name(node) for node in found if node is not rdd.node and not node.hidden)


def _read(book: LiveBook, behind: set[int]) -> int:
    """Bytes of the files."""
    readings = [book.readings[number] for number in sorted(behind) if number in book.readings]
    return sum(split.length for reading in readings for split in reading.load())
