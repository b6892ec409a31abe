"""Programs that read again what they saved: forward, their own outputs are among what arrives at them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from whence.debug.crossing import Crossing, Crossings, Seeds, arriving, reaches, touched
from whence.model.flow import Answer, Few, Flow, RecordId, Records, Site, Step

SOURCE, FIRST, SECOND, THIRD = (Site(name, name) for name in ("source", "first", "second", "third"))


@dataclass
class Steps:
    """Reads some sites and writes others: the record n of one becomes the record n of another."""

    name: str
    made_from: dict[Site, Site]
    steps: tuple[Step, ...] = ()

    @property
    def inputs(self) -> tuple[Site, ...]:
        return tuple(self.made_from.values())

    @property
    def outputs(self) -> tuple[Site, ...]:
        return tuple(self.made_from)

    def take(self, site: Site, ids: Iterable[RecordId]) -> Records:
        return Few(site, tuple(ids))

    def forward(self, seeds: Records) -> Answer:
        return Answer(
            {made: Few(made, tuple(seeds.ids())) for made, read in self.made_from.items() if read == seeds.site}
        )

    def backward(self, asked: Records) -> Answer:
        raise NotImplementedError

    def at(self, step: Step, asked: Records) -> Records:
        raise NotImplementedError


def crossings(makers: dict[Site, Flow]) -> Crossings:
    def behind(_: Flow, site: Site) -> Crossing | None:
        return Crossing(site, makers[site], site) if site in makers else None

    return Crossings(lambda: None, {}, behind)  # type: ignore[arg-type, return-value]


def ids(answer: Answer) -> dict[str, list[RecordId]]:
    return {str(site): sorted(records.ids()) for site, records in answer.found.items()}


SEEDS = Seeds({SOURCE.key: ((1,), (2,))}, {})


def test_a_program_that_reads_what_it_saved() -> None:
    program = Steps("program", {FIRST: SOURCE, SECOND: FIRST, THIRD: SECOND})
    makers: dict[Site, Flow] = {FIRST: program, SECOND: program}
    assert reaches(crossings(makers), program, SEEDS)
    assert ids(touched(crossings(makers), program, SEEDS)) == {
        name: [(1,), (2,)] for name in ("first", "second", "third")
    }
    reader = Steps("reader", {Site("report", "report"): THIRD})
    known = crossings({**makers, THIRD: program})
    assert reaches(known, reader, SEEDS)
    assert arriving(known, reader, THIRD, SEEDS, [], []) == [(1,), (2,)]
    assert not reaches(known, reader, Seeds({"elsewhere": ((1,),)}, {}))


def test_two_programs_that_read_each_other() -> None:
    one = Steps("one", {FIRST: SOURCE, THIRD: SECOND})
    other = Steps("other", {SECOND: FIRST})
    makers: dict[Site, Flow] = {FIRST: one, SECOND: other, THIRD: one}
    assert ids(touched(crossings(makers), one, SEEDS)) == {"first": [(1,), (2,)], "third": [(1,), (2,)]}
    reader = Steps("reader", {Site("report", "report"): THIRD})
    assert ids(touched(crossings(makers), reader, SEEDS)) == {"report": [(1,), (2,)]}
