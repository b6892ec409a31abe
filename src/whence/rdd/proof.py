"""What can be said for the lineage of a run that cannot be run again: what was written down is whole, leads the same
way in both directions, and the records at both ends are as they were."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from whence.model import WhenceError
from whence.model.flow import BY_BYTE, Answer, RecordId, Records, told_by
from whence.model.verdict import OPEN, REFUTED, STORED, Proof, Verdict
from whence.rdd.codec import Ints
from whence.rdd.walk import Key, Place

if TYPE_CHECKING:
    from whence.rdd.flow import RddFlow


_BY_PLACE = ("zipWithIndex", "zipWithUniqueId", "sample", "zip")
_WHOLE_PARTITIONS = ("mapPartitions", "mapPartitionsWithIndex", "pipe", "glom")


def lacking(wanted: list[Any], given: list[Any]) -> list[str]:
    """The records that are not given. A group shows one of its keys that are equal (1, 1.0, True), whichever came
    first, and sums of floats depend on the order of records."""
    due, there = Counter(map(repr, wanted)), Counter(map(repr, given))
    absent, others = due - there, there - due
    if not absent:
        return []
    known = {repr(record): record for record in (*wanted, *given)}
    rest = [known[text] for text in others.elements()]
    found = []
    for text in absent.elements():
        twin = next((n for n, other in enumerate(rest) if _same(known[text], other)), None)
        if twin is None:
            found.append(text)
        else:
            del rest[twin]
    return found


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    try:
        return bool(one == other)
    except Exception:  # arrays, and whatever the user's class does
        return False


def goes_by_places(node: Any) -> str | None:
    """An operator on the way to these records that goes by where records stand: it numbers them, draws from them, puts
    them in pairs, or deals them out to a function that sees whole partitions."""
    names = [one.name for one in _above(node)]
    whole = [name for name in names if name in _WHOLE_PARTITIONS]
    return next((n for n in names if n in _BY_PLACE or (whole and n == "repartition")), None)


def _above(node: Any) -> Iterator[Any]:
    todo, seen = [node], set()
    while todo:
        one = todo.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            todo.extend(one.inputs)


def require_unchanged(answer: Answer) -> None:
    """Lines of a file that was changed since are no longer those that the program read."""
    for records in answer.found.values():
        if told_by(records.site) == BY_BYTE:
            records.values(1)


def stored(flow: RddFlow, asked: Records, answer: Answer, why: str) -> Verdict:
    """`why` it cannot be run again."""

    def verdict(outcome: str, how: str) -> Verdict:
        return Verdict(False, proofs=(Proof(flow.name, outcome, f"{why}; {how}"),))

    try:
        tables = _on_the_way(flow, asked)
        unsummed = sum(not flow.book.tables[key].check() for key in tables)
    except WhenceError as damaged:
        return verdict(REFUTED, str(damaged))
    try:
        lines = sum(len(some.values()) for some in (asked, *answer.found.values()) if told_by(some.site) == BY_BYTE)
        lost = _lost(flow, asked, answer)
    except WhenceError as changed:
        return verdict(OPEN, str(changed))
    if lost:
        return verdict(REFUTED, f"the witnesses do not lead on to {len(lost)} of the asked records, as to {lost[0]}")
    told = f"its {len(tables)} tables on the way are whole and lead from the witnesses to what was asked"
    if unsummed:
        told = f"{unsummed} of {told}, but were written before there were checksums"
    read = f", and {lines} lines at both ends were read again, in files that are unchanged" if lines else ""
    return verdict(STORED if not unsummed else OPEN, told + read)


def _on_the_way(flow: RddFlow, asked: Records) -> set[Key]:
    start, _ = flow.start_of(asked)
    seen: dict[Place, list[Ints]] = defaultdict(list)
    flow.book.tables.back_all(start, lambda _: None, seen)
    return {place[:3] for place in (*start, *seen) if place.attempt >= 0}


def _lost(flow: RddFlow, asked: Records, answer: Answer) -> list[RecordId]:
    """Asked records that have witnesses, and that these do not lead to."""
    reached: set[RecordId] = set()
    for records in answer.found.values():
        found = flow.forward(records).found.get(asked.site)
        reached.update(found.ids() if found is not None else ())
    rest = [one for one in asked.ids() if one not in reached]
    return rest if rest and flow.backward(flow.take(asked.site, rest)).found else []
