"""The search for the causes of one kind of failure, on codes: runs go in, plans and causes come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from whence.debug.diagnose.beliefs import Beliefs
from whence.debug.diagnose.causes import Box
from whence.debug.diagnose.planner import Plan, Planner
from whence.debug.diagnose.space import Codes, Space
from whence.debug.diagnose.unseen import Unseen

_REPORT = 0.4  # report a cause that this share of the hypotheses holds
_CONFIRM = 0.99
_SWEEPS = 2  # after a surprise
_APART = 0.3  # of the hypotheses look at the same parameter first
_SHARE = 0.3  # of the parameters to look at again after a run that most hypotheses foresaw
_DOUBTS = 3  # times to think again before saying that nothing is left to ask


@dataclass(frozen=True)
class Found:
    box: Box
    share: float
    certainty: float  # that every condition is exactly right, the other causes being right
    confirmed: bool


class Search:
    def __init__(
        self,
        space: Space,
        rng: np.random.Generator,
        *,
        noise: float = 0.0,
        valid: Callable[[Codes], bool] | None = None,
        cost: Callable[[Codes], float] | None = None,
        chains: int = 48,
    ) -> None:
        self.space = space
        self.beliefs = Beliefs(space, rng, noise=noise, chains=chains)
        self.unseen = Unseen(self.beliefs.shapes, rng)
        self.planner = Planner(self.beliefs, self.unseen, rng, valid=valid, cost=cost, repeats=noise > 0)
        self._untouched = 0

    def tell(self, codes: Codes, failed: bool, made: bool = True) -> None:
        beliefs = self.beliefs
        beliefs.add(codes, failed, made)
        self.planner.done.add(codes)
        if not failed:
            self.unseen.refute(np.array(codes))
        self._untouched += 1

    def skip(self, codes: Codes) -> None:
        """This configuration was run, but its outcome says nothing here."""
        self.planner.done.add(codes)

    def think(self) -> None:
        """Bring the hypotheses up to date with the runs told since the last time."""
        if not self._untouched:
            return
        new, self._untouched = self._untouched, 0
        beliefs = self.beliefs
        if not beliefs.failed[: beliefs.runs].any():
            return
        if new > 1:
            self._settle()
        last = beliefs.runs - 1
        surprised = ((beliefs.cover[:, last] > 0) != beliefs.failed[last]).mean()
        if surprised > 0.05:
            # Were all hypotheses to meet the run with the same parameter first, all would explain it by that one.
            beliefs.sweep(in_step=_APART)
            for _ in range(_SWEEPS):
                beliefs.sweep()
            beliefs.refresh()
        else:
            if surprised or beliefs.runs % 3 == 0:
                beliefs.sweep(_SHARE)
            if beliefs.runs % 4 == 0:
                beliefs.refresh()

    def plan(self, pending: Iterable[Codes] = (), *, explore: bool = True) -> Plan | None:
        self.think()
        waiting = list(pending)
        plan = self.planner.choose(waiting, explore=explore)
        for _ in range(_DOUBTS):
            if plan is not None or not self.beliefs.failed[: self.beliefs.runs].any():
                break
            # A single hypothesis may only seem to be the last one left: the others are still on their way.
            self._settle()
            plan = self.planner.choose(waiting, explore=explore)
        return plan

    def _settle(self) -> None:
        for _ in range(3):
            self.beliefs.sweep()
            self.beliefs.refresh()

    def found(self, rounds: int = 12, *, everything: bool = False, exact: bool = True) -> list[Found]:
        """The causes of the best hypothesis that enough others share (or all of them), after some more thought; with
        `exact` also that of the lattice search, which may take a second."""
        beliefs = self.beliefs
        if not beliefs.failed[: beliefs.runs].any():
            return []
        if exact:
            beliefs.propose()
        for _ in range(rounds):
            beliefs.sweep()
            beliefs.refresh()
        shares = beliefs.shares()
        b = beliefs.best()
        causes = []
        for k in np.flatnonzero(beliefs.on[b]):
            box = beliefs.box(b, int(k))
            visible = self.planner.visible(b, int(k))
            certainty = beliefs.certainty(b, int(k), visible)
            share = shares.get(box, 0.0)
            if everything or share >= _REPORT:
                sure = certainty > _CONFIRM and share > 0.75 and self.planner.is_tried(b, int(k))
                causes.append(Found(box, share, certainty, sure))
        return causes
