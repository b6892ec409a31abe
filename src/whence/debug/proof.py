"""The proof of a trace, flow by flow: each by its own means, and the verdict tells which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from whence.debug.legs import Leg
from whence.model import WhenceError
from whence.model.flow import Proves, Replays
from whence.model.verdict import OPEN, PROVEN, REFUTED, Proof, Verdict


def proven(legs: Iterable[Leg]) -> Verdict:
    """One verdict of all flows on the way."""
    parts = [_told(leg, _proven(leg)) for leg in legs]
    return Verdict(
        all(part.ok for part in parts),
        tuple(row for part in parts for row in part.missing),
        tuple(row for part in parts for row in part.extra),
        tuple(note for part in parts for note in part.notes),
        tuple(proof for part in parts for proof in part.proofs),
    )


def _proven(leg: Leg) -> Verdict:
    flow = leg.flow
    if isinstance(flow, Proves):
        try:
            return flow.verify(leg.asked, leg.answer)
        except WhenceError as why:
            if not leg.depth:  # what was asked itself cannot be proven: nothing else would be said
                raise
            return _open(leg, str(why))
    if not isinstance(flow, Replays):
        return _open(leg, "it cannot be run again here")
    try:
        again = flow.replay(keep=leg.answer.found)
    except WhenceError as why:
        return _open(leg, f"it cannot be run again here: {why}")
    wanted = Counter(map(repr, (value[0] if len(value) == 1 else value for value in leg.asked.values())))
    given = Counter(map(repr, again.collect()))
    missing = tuple((wanted - given).elements())  # it may well give more: only some of its records were asked for
    return Verdict(not missing, missing)


def _open(leg: Leg, why: str) -> Verdict:
    return Verdict(False, proofs=(Proof(leg.flow.name, OPEN, why),))


def _told(leg: Leg, verdict: Verdict) -> Verdict:
    if verdict.proofs:
        return verdict
    if verdict.ok:
        proof = Proof(leg.flow.name, PROVEN, "run on the witnesses alone, it gave what was asked for")
    else:
        told = f"{len(verdict.missing)} records are missing, {len(verdict.extra)} are too many"
        told = told if verdict.missing or verdict.extra else "; ".join(verdict.notes)
        proof = Proof(leg.flow.name, REFUTED, f"run on the witnesses alone: {told}")
    return replace(verdict, proofs=(proof,))
