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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

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


@dataclass(frozen=True)
class Answer:
    """What a flow found, site by site.

    `widened`: why there may be more than is needed (the answer is then not exact). `ended`: where the way stops short
    of its beginning, and why: what was found is right, and is not all there is."""

    found: Mapping[Site, Records]
    widened: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()

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
