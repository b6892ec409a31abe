"""A table from cells to lists of cells: what a hash table is in the paper is a sorted column here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from whence.arrays.cells import NONE, Numbers, unique
from whence.arrays.columns import Column, Columns
from whence.arrays.lists import Lists, Members, starts_of


class Keyed:
    """Each key, once, and the numbers of the lists that it has. Without `owned`, key k has list k alone."""

    def __init__(self, keys: Column, owned: Lists | None, lists: Lists) -> None:
        self._keys, self._owned, self._lists = keys, owned, lists

    @staticmethod
    def columns(keys: Lists, values: Lists, name: str) -> Mapping[str, Any]:
        """All keys of list k have the values of list k."""
        cells, owners = keys.values.all(), keys.owners()
        if len(cells) > 1 and (np.diff(cells) < 0).any():
            order = np.argsort(cells, kind="stable")
            cells, owners = cells[order], owners[order]
        begins = np.flatnonzero(np.diff(cells, prepend=cells[0] - 1)) if len(cells) else NONE
        counts = np.diff(np.append(begins, len(cells)))
        made: dict[str, Any] = {f"{name}.keys": cells[begins]}
        if keys.are_single:  # no list is shared: put them in the order of the keys, and the values of one key together
            sorted_ = values.chosen(owners)
            starts = sorted_.starts.take(np.append(begins, len(cells))) if len(cells) else np.zeros(1, np.int64)
            return {**made, f"{name}.starts": starts, f"{name}.values": sorted_.values}
        return {
            **made,
            f"{name}.owned.starts": starts_of(counts),
            f"{name}.owned": owners,
            f"{name}.starts": values.starts,
            f"{name}.values": values.values,
        }

    @classmethod
    def read(cls, columns: Columns, name: str) -> Keyed:
        owned = None
        if f"{name}.owned" in columns:
            owned = Lists(columns[f"{name}.owned.starts"], columns[f"{name}.owned"])
        return cls(columns[f"{name}.keys"], owned, Lists(columns[f"{name}.starts"], columns[f"{name}.values"]))

    def __len__(self) -> int:
        return len(self._keys)

    def lookup(self, cells: Numbers) -> Iterator[Numbers]:
        """The values of these keys (a set)."""
        return self.at(find(self._keys, cells))

    def at(self, places: Numbers) -> Iterator[Numbers]:
        """The values of the keys at these places (a set)."""
        if self._owned is not None:
            places = unique(np.concatenate([NONE, *self._owned.gather(places)]), len(self._lists))
        yield from self._lists.gather(places)

    @property
    def is_single(self) -> bool:
        """Whether every key has one value."""
        return self._owned is None and self._lists.are_single

    def dense(self, size: int) -> Numbers:
        """For each number below `size`, and then for none: its value where keys have one, else its place; -1 for what
        is no key."""
        made = np.full(size + 1, -1, np.int64)
        keys = self._keys.all()
        made[keys] = self._lists.values.all() if self.is_single else np.arange(len(keys))
        return made

    def scan(self, wanted: Members) -> Iterator[Numbers]:
        """The keys that have one of the wanted values, by looking through all of them."""
        if self._owned is None:
            for found in self._lists.having(wanted):
                yield self._keys.take(found)
            return
        hit = np.zeros(len(self._lists), bool)
        for found in self._lists.having(wanted):
            hit[found] = True
            yield NONE  # nothing to tell yet, but the clock may be looked at
        for found in self._owned.having(Members(np.flatnonzero(hit), len(hit))):
            yield self._keys.take(found)


def find(keys: Column, cells: Numbers) -> Numbers:
    """The places of those cells that are among the keys; both are sorted, each once."""
    if not len(keys) or not len(cells):
        return NONE
    places = keys.find(cells)
    places = np.minimum(places, len(keys) - 1)
    found: Numbers = places[keys.take(places) == cells]
    return found
