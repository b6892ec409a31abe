"""From one flow into the one that made its inputs: in this process, or, from what the store knows, in an earlier one.

`Crossings` is asked with the records that a flow's answer ends at. Those that another flow made become a question for
it; the others are sources. The other way round, `touched` finds the flows between some records and a result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from whence.model import WhenceError
from whence.model.flow import Answer, Flow, Gathers, InFiles, Queried, RecordId, Records, Site, roots_of, told_by
from whence.store.producers import Producers, Product

Opener = Callable[[Product], "Flow"]
T = TypeVar("T")
Known: TypeAlias = "dict[int, dict[Site, frozenset[RecordId]]]"


@dataclass(frozen=True)
class Crossing:
    """Records of a flow's input that another flow made. `files`: which, where they lie in files; `site`: where they are
    in the other flow."""

    site: Site
    flow: Flow
    output: Site
    files: frozenset[str] = frozenset()
    ask: Callable[[Records], tuple[Flow, Records, tuple[str, ...]]] | None = None
    """Where identities mean nothing to the other flow: the question for it, and what may widen the answer there."""
    each: Callable[[Records], Mapping[RecordId, list[RecordId]]] | None = None
    """The same record by record: which of the other flow each of these is."""
    arrive: Callable[[Records], tuple[list[RecordId], tuple[str, ...]]] | None = None
    """The same on the way forward: which records of `site` these of the other flow are."""


@dataclass
class Crossings:
    """`living`: the flow of this session that made an input of another one (a DataFrame from an RDD, ...)."""

    producers: Callable[[], Producers]
    openers: Mapping[str, Opener]
    living: Callable[[Flow, Site], Crossing | None] = lambda _, __: None
    _opened: dict[tuple[str, str], Flow] = field(default_factory=dict)

    def behind(self, flow: Flow, site: Site) -> tuple[list[Crossing], tuple[str, ...]]:
        """The flows that made records of this input, and where the way ends though something is known to lie behind."""
        here = self.living(flow, site)
        if here is not None:
            return [here], ()
        files = flow.files(site) if isinstance(flow, InFiles) else ()
        if not files:
            return [], ()
        found: list[Crossing] = []
        ended: list[str] = []
        made: dict[tuple[str, str], list[Product]] = defaultdict(list)
        for product in self.producers().of(files).values():
            # What a query reads of a captured write it goes through by itself (sql/writes.py), or says why it cannot.
            if product.kind in self.openers and not (product.kind == "sql" and isinstance(flow, Queried)):
                made[product.kind, product.run].append(product)
        for (kind, _), products in made.items():
            there = [product for product in products if product.is_there]
            if len(there) < len(products):
                gone = len(products) - len(there)
                ended.append(f"{site.name}: {gone} of its files were changed since a captured run ({kind}) made them")
            if not there:
                continue
            try:
                other = self._open(there[0])
                by_output = _by_output(other, there, site)
            except WhenceError as why:
                ended.append(f"{site.name} was made by a captured run ({kind}) that cannot be followed: {why}")
                continue
            for output, keys in by_output.items():
                if output is not None:
                    found.append(Crossing(site, other, output, frozenset(keys)))
                    continue
                ended.append(
                    f"{site.name} was made by a captured run ({kind}) whose records are told otherwise than here"
                )
        return found, tuple(ended)

    def _open(self, product: Product) -> Flow:
        known = self._opened.get((product.kind, product.run))
        if known is None:
            known = self._opened[product.kind, product.run] = self.openers[product.kind](product)
        return known


def _by_output(flow: Flow, products: Iterable[Product], site: Site) -> dict[Site | None, list[str]]:
    """The files by the output of the flow that holds their records, told in the same way as they are read."""
    alike = [output for output in flow.outputs if told_by(output) == told_by(site)]
    found: dict[Site | None, list[str]] = defaultdict(list)
    for product in products:
        holds = [output for output in alike if _is_in(product.key, roots_of(output))]
        found[holds[0] if holds else None].append(product.key)
    return found


def _is_in(file: str, roots: Iterable[str]) -> bool:
    return any(file == root or file.startswith(root.rstrip("/") + "/") for root in roots)


def ids_in(records: Records, files: frozenset[str]) -> list[RecordId]:
    """The identities of those that lie in these files; of all without files."""
    narrowed = getattr(records, "in_files", None)
    if files and narrowed is not None:
        return list(narrowed(files).ids())
    found = records.ids()
    return [one for one in found if not files or one[0] in files]


@dataclass(frozen=True)
class Seeds:
    """Records that a way forward starts from: of sites that are told by their key, and of files wherever these are read
    in the same way ("byte")."""

    by_site: Mapping[str, tuple[RecordId, ...]]
    in_files: Mapping[str, tuple[RecordId, ...]]

    def at(self, flow: Flow, site: Site) -> list[RecordId]:
        """Which of them are records of this input."""
        files = set(flow.files(site)) if isinstance(flow, InFiles) else set()
        there = [one for one in self.in_files.get(told_by(site) or "", ()) if one[0] in files]
        return list(dict.fromkeys([*self.by_site.get(site.key, ()), *there]))


def seeds_of(answer: Answer) -> Seeds:
    by_site: dict[str, tuple[RecordId, ...]] = {}
    in_files: dict[str, tuple[RecordId, ...]] = {}
    for site, records in answer.found.items():
        ids = tuple(records.ids())
        if (told := told_by(site)) is not None:
            in_files[told] = (*in_files.get(told, ()), *ids)
        else:
            by_site[site.key] = ids
    return Seeds(by_site, in_files)


def touched(crossings: Crossings, to: Flow, seeds: Seeds) -> Answer:
    """The records of `to`'s outputs that the seeds touch, by whatever flows lie between."""
    return _stable(crossings, seeds, lambda walk: walk.touched(to))


def arriving(
    crossings: Crossings, flow: Flow, site: Site, seeds: Seeds, widened: list[str], ended: list[str]
) -> list[RecordId]:
    """Which records of an input the seeds are, or touch."""

    def ask(walk: _Walk) -> tuple[list[RecordId], list[str], list[str]]:
        notes: tuple[list[str], list[str]] = [], []
        return walk.arriving(flow, site, *notes), *notes

    ids, more, why = _stable(crossings, seeds, ask)
    widened += more
    ended += why
    return ids


def _stable(crossings: Crossings, seeds: Seeds, ask: Callable[[_Walk], T]) -> T:
    """A program may read again what it saved before: then its own outputs are among what arrives at it, and it is asked
    until that brings no more."""
    known: Known = {}
    while True:
        walk = _Walk(crossings, seeds, known)
        found = ask(walk)
        if not walk.grown:
            return found


@dataclass
class _Walk:
    """`known`: of flows that lie behind themselves, which of their outputs are touched, as far as it was found out."""

    crossings: Crossings
    seeds: Seeds
    known: Known
    grown: bool = False
    _within: list[Flow] = field(default_factory=list)
    _met: set[int] = field(default_factory=set)

    def touched(self, to: Flow) -> Answer:
        widened: list[str] = []
        ended: list[str] = []
        self._within.append(to)
        arrived = [to.take(site, ids) for site in to.inputs if (ids := self.arriving(to, site, widened, ended))]
        self._within.pop()
        answer = forward_all(to, arrived)
        if id(to) in self._met:
            found = {site: frozenset(records.ids()) for site, records in answer.found.items()}
            self.grown |= found != self.known.get(id(to), {})
            self.known[id(to)] = found
        return Answer(
            answer.found,
            tuple(dict.fromkeys([*widened, *answer.widened])),
            tuple(dict.fromkeys([*ended, *answer.ended])),
        )

    def arriving(self, flow: Flow, site: Site, widened: list[str], ended: list[str]) -> list[RecordId]:
        ids = self.seeds.at(flow, site)
        behind, why = self.crossings.behind(flow, site)
        ended += why
        for crossing in behind:
            records = self._outputs(crossing, widened, ended)
            if records is None:
                continue
            if crossing.arrive is not None:
                there, more = crossing.arrive(records)
                ids += there
                widened += more
            else:
                ids += [one for one in records.ids() if not crossing.files or one[0] in crossing.files]
        return list(dict.fromkeys(ids))

    def _outputs(self, crossing: Crossing, widened: list[str], ended: list[str]) -> Records | None:
        """What the seeds touch of a flow behind, where this input was made."""
        flow = crossing.flow
        if any(flow is one for one in self._within):
            self._met.add(id(flow))
            known = self.known.get(id(flow), {}).get(crossing.output)
            return flow.take(crossing.output, known) if known else None
        answer = self.touched(flow)
        widened += answer.widened
        ended += answer.ended
        return answer.found.get(crossing.output)


def forward_all(flow: Flow, seeds: list[Records]) -> Answer:
    """What records of several inputs touch, together."""
    if isinstance(flow, Gathers):
        return flow.forward_all(seeds)
    answers = [flow.forward(one) for one in seeds]
    if len(answers) == 1:
        return answers[0]
    ids: dict[Site, list[RecordId]] = defaultdict(list)
    for answer in answers:
        for site, records in answer.found.items():
            ids[site] += records.ids()
    return Answer(
        {site: flow.take(site, dict.fromkeys(some)) for site, some in ids.items()},
        tuple(note for answer in answers for note in answer.widened),
        tuple(note for answer in answers for note in answer.ended),
    )


def reaches(crossings: Crossings, flow: Flow, seeds: Seeds, seen: frozenset[int] = frozenset()) -> bool:
    """Whether the seeds are among what this flow, or any flow behind it, reads."""
    if id(flow) in seen:
        return False
    for site in flow.inputs:
        if seeds.at(flow, site):
            return True
        behind = crossings.behind(flow, site)[0]
        if any(reaches(crossings, crossing.flow, seeds, seen | {id(flow)}) for crossing in behind):
            return True
    return False
