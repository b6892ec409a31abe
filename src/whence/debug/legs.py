"""A trace as its legs: one for each flow on the way, from the one that was asked to those behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from whence.debug.crossing import Crossing, Crossings, ids_in
from whence.model import WhenceError
from whence.model.flow import Answer, Flow, Records, Site
from whence.model.once import once

_DEEPEST = 100


@dataclass(eq=False)
class Leg:
    """One flow, what it was asked, and what lies behind each of the sites where its answer ends."""

    flow: Flow
    asked: Records
    crossings: Crossings | None
    depth: int = 0
    before: tuple[str, ...] = ()  # what widened the question itself

    @once
    def answer(self) -> Answer:
        return self.flow.backward(self.asked)

    @once
    def _behind(self) -> tuple[dict[Site, list[Crossing]], tuple[str, ...]]:
        found: dict[Site, list[Crossing]] = {}
        ended: list[str] = []
        if self.crossings is None:
            return found, ()
        for site in self.answer.found:
            some, why = self.crossings.behind(self.flow, site)
            ended += why
            if some and self.depth >= _DEEPEST:
                ended.append(f"{site.name}: more than {_DEEPEST} flows lie behind one another")
            elif some:
                found[site] = some
        return found, tuple(ended)

    @once
    def _followed(self) -> tuple[dict[Site, list[tuple[Crossing, Leg]]], tuple[str, ...]]:
        """The legs behind this one, by the site that they made, and why some could not be asked."""
        found: dict[Site, list[tuple[Crossing, Leg]]] = {}
        ended: list[str] = []
        for site, some in self._behind[0].items():
            legs: list[tuple[Crossing, Leg]] = []
            for crossing in some:
                try:
                    flow, asked, widened = _asked(crossing, self.answer.found[site])
                except WhenceError as why:  # what was found so far is right, and the way ends there
                    ended.append(f"{site.name}: {crossing.flow.name} made it and does not know these records: {why}")
                    continue
                legs.append((crossing, Leg(flow, asked, self.crossings, self.depth + 1, widened)))
            if legs:
                found[site] = legs
        return found, tuple(ended)

    @property
    def next(self) -> dict[Site, list[tuple[Crossing, Leg]]]:
        return self._followed[0]

    @property
    def crossed(self) -> dict[Site, list[Crossing]]:
        return {site: [crossing for crossing, _ in legs] for site, legs in self.next.items()}

    @property
    def widened(self) -> tuple[str, ...]:
        return (*self.before, *self.answer.widened)

    @property
    def ended(self) -> tuple[str, ...]:
        return (*self.answer.ended, *self._behind[1], *self._followed[1])

    def walk(self) -> Iterator[Leg]:
        yield self
        for some in self.next.values():
            for _, leg in some:
                yield from leg.walk()

    def ends(self) -> Iterator[tuple[Leg, Site, Records]]:
        """Where the way ends: the sites that no other flow made, and what is left of those that were made in part."""
        for site, records in self.answer.found.items():
            some = self.crossed.get(site, [])
            if some and not all(crossing.files for crossing in some):
                continue
            if not some:
                yield self, site, records
                continue
            made = frozenset().union(*[crossing.files for crossing in some])
            files = getattr(self.flow, "files", None)
            rest = set(files(site)) - made if files is not None else set()
            narrowed = getattr(records, "in_files", None)
            if rest and narrowed is not None:
                yield self, site, narrowed(rest)
        for some_next in self.next.values():
            for _, leg in some_next:
                yield from leg.ends()


def _asked(crossing: Crossing, records: Records) -> tuple[Flow, Records, tuple[str, ...]]:
    if crossing.ask is not None:
        return crossing.ask(records)
    return crossing.flow, crossing.flow.take(crossing.output, ids_in(records, crossing.files)), ()
