"""Lineage between datasets and columns: what one run was seen to do, and the edges that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from whence.model.catalog import Dataset, Run

DIRECT = "DIRECT"
INDIRECT = "INDIRECT"
EVERY_COLUMN = "*"
"""The target column of an indirect link that reaches each column of its target (a filter, a join, ...)."""


@dataclass(frozen=True)
class Seen:
    """A dataset as one run saw it. `aliases` are other (namespace, name) pairs of the same data."""

    namespace: str
    name: str
    kind: str
    columns: tuple[tuple[str, str], ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    version: str | None = None
    """The version as the dataset's own format counts (Delta, Iceberg)."""


@dataclass(frozen=True)
class Change:
    """What a run did to a dataset. The numbers are places in `Observation.datasets`.

    how: append, merge, update, delete (earlier inputs still count), overwrite (earlier inputs no longer count), restore
    (nor here: an older version of itself is the input), create, alter, define (a view says what it is made of),
    truncate, drop, rename (then `to` is the new name).
    """

    dataset: int
    how: str
    to: int | None = None
    version: str | None = None
    """The version that this made, as the dataset's own format counts; None: not known."""


WRITES = ("append", "overwrite", "merge", "update", "delete", "restore")
"""Changes of a dataset's rows by a query or a command."""


@dataclass(frozen=True)
class Link:
    source: int
    target: int
    kind: str


@dataclass(frozen=True)
class ColumnLink:
    source: int
    source_column: str
    target: int
    target_column: str
    kind: str
    subtype: str
    masking: bool = False


INPUT = "input"
OUTPUT = "output"


@dataclass(frozen=True)
class Use:
    """A run reads (INPUT) or writes (OUTPUT) a dataset: so many rows and bytes, where Spark counted them."""

    dataset: int
    role: str
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Observation:
    """Everything that one run was seen to do: the unit that the watcher hands to the store.

    What is linked is an input, what is changed is an output; `uses` names what else was read (a run whose rows go to
    the application makes no link), and how much.
    """

    run: Run
    datasets: tuple[Seen, ...] = ()
    changes: tuple[Change, ...] = ()
    links: tuple[Link, ...] = ()
    columns: tuple[ColumnLink, ...] = ()
    uses: tuple[Use, ...] = ()

    @property
    def inputs(self) -> tuple[int, ...]:
        """Places of the datasets that were read."""
        read = [link.source for link in self.links] + [use.dataset for use in self.uses if use.role == INPUT]
        return tuple(dict.fromkeys(read))

    @property
    def outputs(self) -> tuple[int, ...]:
        """Places of the datasets that were written, or were to be; not the views that were only read."""
        read = set(self.inputs)
        written = [c.dataset for c in self.changes if not (c.how == "define" and c.dataset in read)]
        written += [use.dataset for use in self.uses if use.role == OUTPUT]
        return tuple(dict.fromkeys(written))


@dataclass(frozen=True)
class Edge:
    """`run` read `source` and with it made `target`. `kind` is what the run did: write, view, train, ..."""

    source: Dataset
    target: Dataset
    run: str
    kind: str
    source_version: int = field(default=0, compare=False)
    target_version: int = field(default=0, compare=False)
    at: datetime | None = field(default=None, compare=False)
    depth: int = field(default=0, compare=False)


@dataclass(frozen=True)
class ColumnEdge:
    """`source_column` went into `target_column` (DIRECT) or decided about it (INDIRECT)."""

    source: Dataset
    source_column: str
    target: Dataset
    target_column: str
    run: str
    kind: str
    subtype: str
    masking: bool = False
    source_version: int = field(default=0, compare=False)
    target_version: int = field(default=0, compare=False)
    at: datetime | None = field(default=None, compare=False)
    depth: int = field(default=0, compare=False)


@dataclass(frozen=True)
class DatasetUse:
    """A run read this dataset (role "input") or wrote it (role "output"; a failed run was to).

    `version` is the one that was read or made; a failed run made none. None for `rows` and `bytes`: nobody counted.
    """

    dataset: Dataset
    run: str
    role: str
    version: int | None = None
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class DatasetVersion:
    dataset: Dataset
    number: int
    run: str | None
    at: datetime | None
    how: str
    external: str | None = None
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Application:
    """All runs of one application together."""

    id: str
    runs: int
    failed: int
    started: datetime | None
    ended: datetime | None
    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()
