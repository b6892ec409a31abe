"""What can be said for lineage that actors captured, whose code is nowhere to be run again: its logs are whole, lead
the same way in both directions, and the files at both ends are as they were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from whence.actors.read import ActorLog
from whence.actors.registry import LogDamaged
from whence.model.flow import BY_BYTE, Answer, RecordId, Records, told_by
from whence.model.verdict import OPEN, REFUTED, STORED, Proof, Verdict

if TYPE_CHECKING:
    from whence.actors.flow import ActorFlow

_WHY = "what it captured was written down, and its code is not here to be run again"


def stored(flow: ActorFlow, logs: Iterable[ActorLog], asked: Records, answer: Answer) -> Verdict:
    def verdict(outcome: str, how: str) -> Verdict:
        return Verdict(False, proofs=(Proof(flow.name, outcome, f"{_WHY}; {how}"),))

    looked_at = list(logs)
    try:
        summed = [log.check() for log in looked_at]
    except LogDamaged as damaged:
        return verdict(REFUTED, str(damaged))
    if answer.ended:  # a file that was changed since, among others
        return verdict(OPEN, "; ".join(answer.ended))
    told = f"the logs of the {len(looked_at)} actors on the way are whole"
    if not all(summed):
        return verdict(OPEN, f"{told}, but some were written before there were checksums")
    if told_by(asked.site) == BY_BYTE:
        lost = _lost(flow, asked, answer)
        if lost:
            return verdict(REFUTED, f"the witnesses do not lead on to {len(lost)} of the asked records: {lost[0]}")
        told += " and lead from the witnesses to what was asked, in files that are unchanged"
    return verdict(STORED, told)


def _lost(flow: ActorFlow, asked: Records, answer: Answer) -> list[RecordId]:
    reached: set[RecordId] = set()
    for records in answer.found.values():
        for site, found in flow.forward(records).found.items():
            if site == asked.site or told_by(site) == BY_BYTE:
                reached.update(found.ids())
    rest = [one for one in asked.ids() if one not in reached]
    return rest if rest and flow.backward(flow.take(asked.site, rest)).found else []
