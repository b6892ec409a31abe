"""What can be said for the lineage of a run that cannot be run again: what was written down is whole, leads the same
way in both directions, and the records at both ends are as they were."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from whence.model import WhenceError
from whence.model.flow import BY_BYTE, Answer, RecordId, Records, told_by
from whence.model.verdict import OPEN, REFUTED, STORED, Proof, Verdict
from whence.rdd.codec import Ints
from whence.rdd.walk import Key, Place

if TYPE_CHECKING:
    from whence.rdd.flow import RddFlow


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
