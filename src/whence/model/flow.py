"""The narrow waist: a flow takes some records on one side, gives those on the other side, and says if that is exact.

A flow is one query, one program of RDDs, one graph of actors, one array workflow. Every front end implements `Flow`;
a trace, and all that follows from one, speaks to nothing else (docs/architecture.md).

What an implementer promises:

- `backward(asked)` takes records of one of `outputs` and answers with records of `inputs`; `forward(seeds)` takes
  records of one of `inputs` and answers with records of `outputs`.
- Each record is in an answer once. What is missing from an answer is named in `ended`; where there may be records that
  are not needed, `widened` names the operator. An answer with neither holds the witnesses and nothing else.
- `take` is the bridge between flows: identities that another flow found become a question for this one. An identity
  that this flow does not know is an error, never left out.
- Nothing of a flow changes what it was made from, and asking twice gives the same answer, or an error that says what
  has changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from whence.model.strategy import Strategy
from whence.model.verdict import Verdict

RecordId: TypeAlias = "tuple[str | int, ...]"
"""(file, row) in columnar files, (file, byte) in files of lines, (partition, number) in results of RDDs, the cell in an
array: one form for each kind of site. Equal identities at equal sites are the same record, for every front end."""


@dataclass(frozen=True)
class Site:
    """Where records have identities: a version of a dataset, a result of an RDD, an actor's output, an array.

    Equal keys are the same records, in any front end and in any process; `name` is for people."""

    key: str
    name: str = field(compare=False)

    def __str__(self) -> str:
        return self.name


BY_ROW, BY_BYTE, BY_NUMBER = "row", "byte", "number"


def files_site(told_by: str, root: str, name: str | None = None) -> Site:
    """The records of files below `root`: told by (file, row) in columnar files, by (file, byte) in files of lines, by
    (file, number) in others. Files are named as `store.producers.file_key` names them."""
    return Site(f"files by {told_by}: {root}", name or root.rstrip("/").rsplit("/", 1)[-1])


def told_by(site: Site) -> str | None:
    """How the records of a site of files are told; None for other sites."""
    kind, _, _ = site.key.removeprefix("files by ").partition(": ")
    return kind if site.key.startswith("files by ") else None


def roots_of(site: Site) -> tuple[str, ...]:
    """Where the files of such a site lie; none for other sites."""
    return tuple(site.key.partition(": ")[2].split("|")) if told_by(site) is not None else ()


def equal_records(site: Site, found: int, asked: int) -> tuple[str, ...]:
    """What to say where records are handed on by their values, and others are equal to them."""
    if found <= asked:
        return ()
    return (f"{site.name}: {found} records are equal to the {asked} that were asked for and cannot be told apart",)


@dataclass(frozen=True)
class Step:
    """One operator of a flow; steps are numbered from the result to the sources."""

    number: int
    operator: str
    text: str
    depth: int

    def __str__(self) -> str:
        from whence.model.text import visible

        return visible(self.text)


class Steps(tuple[Step, ...]):
    """Operators on the way: a tuple, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from whence.model.html import html_table
        from whence.model.text import readable

        rows = [(step.number, step.operator, readable(step.text), step.depth) for step in self]
        return html_table(("number", "operator", "what it does", "depth"), rows)


class Records(Protocol):
    """Some records of one site: few are values on the driver, many stay where they are."""

    @property
    def site(self) -> Site: ...

    @property
    def columns(self) -> tuple[str, ...]:
        """What each of `values` consists of."""
        ...

    def count(self) -> int: ...

    def ids(self, most: int | None = None) -> list[RecordId]: ...

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        """The records themselves, in the order of `ids`, one value for each of `columns`."""
        ...


@dataclass(frozen=True)
class Few:
    """Records that are known on the driver: identities, and the values where they are known too."""

    site: Site
    known: tuple[RecordId, ...]
    rows: tuple[tuple[Any, ...], ...] = ()
    columns: tuple[str, ...] = ()

    def count(self) -> int:
        return len(self.known)

    def ids(self, most: int | None = None) -> list[RecordId]:
        return list(self.known[:most])

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        return list(self.rows[:most])


Notes: TypeAlias = "tuple[str, ...]"


class Answer:
    """What a flow found, site by site.

    `widened`: why there may be more than is needed (the answer is then not exact). `ended`: where the way stops short
    of its beginning, and why: what was found is right, and is not all there is. Either may be given as a function,
    where it takes work to know."""

    def __init__(
        self,
        found: Mapping[Site, Records],
        widened: Notes | Callable[[], Notes] = (),
        ended: Notes | Callable[[], Notes] = (),
    ) -> None:
        self.found = found
        self._widened = widened
        self._ended = ended

    @property
    def widened(self) -> Notes:
        return self._widened() if callable(self._widened) else self._widened

    @property
    def ended(self) -> Notes:
        return self._ended() if callable(self._ended) else self._ended

    @property
    def exact(self) -> bool:
        return not self.widened

    @property
    def complete(self) -> bool:
        return not self.ended


@runtime_checkable
class Flow(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def outputs(self) -> tuple[Site, ...]: ...

    @property
    def inputs(self) -> tuple[Site, ...]: ...

    @property
    def steps(self) -> tuple[Step, ...]:
        """The operators, nearest the result first."""
        ...

    def backward(self, asked: Records) -> Answer: ...

    def forward(self, seeds: Records) -> Answer: ...

    def take(self, site: Site, ids: Iterable[RecordId]) -> Records: ...

    def at(self, step: Step, asked: Records) -> Records:
        """The records at that step which lie on the way back from those asked for."""
        ...


@runtime_checkable
class Replays(Protocol):
    """A flow that can run again on some of its records."""

    def replay(self, keep: Mapping[Site, Records] | None = None, drop: Mapping[Site, Records] | None = None) -> Any:
        """The flow's result on the records of `keep` alone, or without those of `drop`; sites that are not named stay
        whole. What the flow makes: a DataFrame, an RDD, an array."""
        ...


@runtime_checkable
class Multiplies(Protocol):
    """A flow that knows how many outputs each input record has at each step, and how many inputs each output has."""

    def multiplicities(self, step: Step) -> Mapping[RecordId, int]: ...


@runtime_checkable
class InFiles(Protocol):
    """A flow that knows which files the records of an input lie in: where another flow may have made them."""

    def files(self, site: Site) -> Collection[str]:
        """As `store.producers.file_key` names them; none for what does not lie in files."""
        ...


@runtime_checkable
class Framed(Protocol):
    """Records that Spark has, or can be given, as a DataFrame with the columns of their own dataset."""

    def frame(self) -> Any: ...


@runtime_checkable
class Proves(Protocol):
    """A flow that can be run on an answer alone, to see whether that gives what was asked for."""

    def verify(self, asked: Records, answer: Answer) -> Verdict: ...


@runtime_checkable
class Gathers(Protocol):
    """A flow that follows records of several inputs at once."""

    def forward_all(self, seeds: Collection[Records]) -> Answer: ...


@runtime_checkable
class Queried(Protocol):
    """A flow whose operators Spark can run again on any of their rows. `asked` are records of its output; what comes
    back are DataFrames."""

    def readings(self, asked: Records) -> tuple[Any, ...]: ...

    def step_counts(self, asked: Records) -> tuple[int, ...]: ...

    def associations(self, asked: Records) -> Any: ...

    def outputs_of(self, asked: Records) -> Any: ...

    def witnesses_per_output(self, asked: Records) -> Iterable[tuple[int, Any]]: ...

    def strategy(self, asked: Records) -> Strategy: ...

    def reruns(self, asked: Records) -> tuple[str, ...]: ...

    def run_again(
        self,
        asked: Records,
        *,
        drop: bool,
        query: Any = None,
        sites: Collection[Site] | None = None,
        at: Step | int | None = None,
        instead: Mapping[Site, Any] | None = None,
    ) -> Any:
        """The query, or another one over the same sources, on the witnesses alone or without them."""
        ...

    def steps_again(self, asked: Records) -> Iterable[Any]: ...

    def influence(self, asked: Records, column: str, site: Site | None) -> Any: ...

    def keys(self, site: Site) -> Collection[str]:
        """Columns of an input that the query itself groups or filters by."""
        ...
