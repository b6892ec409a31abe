"""Some records of one site of an RDD program: positions in its tables, turned into identities and values when asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.model.flow import RecordId, Site
from whence.rdd.codec import Ints
from whence.rdd.records import records_at
from whence.rdd.textfiles import check_unchanged
from whence.rdd.walk import Place, State
from whence.store.producers import file_key

if TYPE_CHECKING:
    from whence.rdd.flow import RddFlow


class RddRecords:
    """`state`: the records where an RDD has or reads them. Of saved files, which may be read again in the same run:
    `made`, where they were made, and `told`, their identities."""

    def __init__(
        self,
        site: Site,
        state: State,
        flow: RddFlow,
        widened: tuple[str, ...] = (),
        told: tuple[RecordId, ...] | None = None,
        made: State | None = None,
    ) -> None:
        self.site, self.state, self.flow, self.widened = site, state, flow, widened
        self._told, self.made = told, made or {}

    def __repr__(self) -> str:
        return f"<{self.count()} records of {self.site}>"

    @property
    def columns(self) -> tuple[str, ...]:
        frame = self.flow.frame_of(self.site)
        if frame is not None:
            return tuple(frame.columns)
        return ("value",) if self.flow.is_live or self._is_text else ("partition", "number")

    def count(self) -> int:
        if self._told is not None:
            return len(self._told)
        if self._once_only:
            return sum(map(len, self.state.values()))
        return len(self.ids())

    def in_files(self, keys: Collection[str]) -> RddRecords:
        """Those that lie in these files."""
        if self._told is not None:
            told = tuple(one for one in self._told if one[0] in keys)
            return RddRecords(self.site, self.state, self.flow, self.widened, told, self.made)
        book = self.flow.book
        some = {
            place: positions
            for place, positions in self.state.items()
            if file_key(book.source(place.stage).splits[place.part].path) in keys
        }
        return RddRecords(self.site, some, self.flow, self.widened)

    def ids(self, most: int | None = None) -> list[RecordId]:
        if self._told is not None:
            return list(self._told[:most])
        return [record for record, _, _ in self._each(most)]

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        """The records; from another process, of lines of text alone: else where they stand."""
        if self._told is not None:
            return [self._saved(record) for record in self._told[:most]]
        if not self.flow.is_live and not self._is_text:
            return [tuple(record) for record in self.ids(most)]
        found: list[tuple[Any, ...]] = []
        some: dict[Place, list[int]] = {}
        for _, place, position in self._each(most):
            some.setdefault(place, []).append(position)
        row = self.flow.frame_of(self.site) is not None
        for place, positions in some.items():
            records = self._records(place, np.array(positions))
            found.extend(tuple(r) if row else (r,) for r in records)
        return found

    def _records(self, place: Place, positions: Ints) -> list[Any]:
        if self.flow._context is not None:
            return records_at(self.flow._context, place, positions)
        from whence.store.lines import content_of, line_at

        split = self.flow.book.source(place.stage).splits[place.part]
        check_unchanged(split)
        content = content_of(str(split.local))
        ids = self.flow.ids_of(place, positions)
        return [str(line_at(content, int(start)), "utf-8", "replace") for _, start in ids]

    def _saved(self, record: RecordId) -> tuple[Any, ...]:
        file, number = record
        if not self.site.key.startswith("files by byte"):
            return (file, number)
        from whence.store.lines import content_of, line_at

        return (str(line_at(content_of(str(file)), int(number)), "utf-8", "replace"),)

    @property
    def _is_text(self) -> bool:
        return self.site.key.startswith("files by byte")

    @property
    def _once_only(self) -> bool:
        """Whether no record stands in two places: two RDDs may have read the same file."""
        return self.site.key.startswith(("rdd ", "dataframe ")) or len({p.stage for p in self.state}) < 2

    def _each(self, most: int | None) -> Iterator[tuple[RecordId, Place, int]]:
        seen: set[RecordId] = set()
        left = most
        for place, positions in self.state.items():
            if left is not None and left <= 0:
                return
            some = positions if left is None or not self._once_only else positions[:left]
            told = zip(self.flow.ids_of(place, some), some.tolist(), strict=True)
            for record, position in told:
                if record in seen or (left is not None and left <= 0):
                    continue
                if not self._once_only:
                    seen.add(record)
                left = None if left is None else left - 1
                yield record, place, position
