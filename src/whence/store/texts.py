"""Finds names by their parts: all of them one after the other in memory, in the order in which they are given out."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

import sqlalchemy as sa

from whence.store.changes import Counted, counted
from whence.store.copy import Snapshot
from whence.store.frugal import give_back
from whence.store.schema import runs

# Neither byte stands in any UTF-8 text.
_END = b"\xff"
_FIELD = b"\xfe"
_MOST_NEW = 2_000


def folded(text: str) -> bytes:
    return text.casefold().encode("utf-8", "replace")


class Lines:
    """Texts that are searched without a look at each."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        held, starts, end = [b""], array("q"), 1
        for text in texts:
            starts.append(end)
            held.append(text)
            end += len(text) + 1
        self._all = _END.join(held) + _END
        self._starts = starts

    def matching(self, words: Sequence[bytes], first: int = 0) -> Iterator[int]:
        """Numbers of the lines that hold every word, from `first` on."""
        longest = max(words, key=len, default=b"")
        others = [word for word in words if word is not longest]
        place = self._starts[first] if first < len(self._starts) else len(self._all)
        while True:
            found = self._all.find(longest, place)
            if found < 0:
                return
            line = bisect_right(self._starts, found) - 1
            if line < 0 or found + len(longest) > self._end(line):  # an empty word, at a place between lines
                if line + 1 >= len(self._starts):
                    return
                place = self._starts[line + 1]
                continue
            if not others or all(word in self._all[self._starts[line] : self._end(line)] for word in others):
                yield line
            place = self._end(line) + 1
            if line + 1 >= len(self._starts):
                return

    def ending(self, text: bytes) -> list[int]:
        """Numbers of the lines that are this text, or whose last part, after a dot or a slash, is."""
        found = set()
        for before in (_END, b".", b"/"):
            wanted, place = before + text + _END, 0
            while (place := self._all.find(wanted, place)) >= 0:
                found.add(bisect_right(self._starts, place + 1) - 1)
                place += 1
        return sorted(found)

    def _end(self, line: int) -> int:
        return (self._starts[line + 1] if line + 1 < len(self._starts) else len(self._all)) - 1


class DatasetTexts:
    """Names of datasets, by rank, and every name that a column has."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.names = (snapshot.counted.epoch, snapshot.names)
        self.lines = Lines(folded(snapshot.datasets[number].name) for number in snapshot.order)

    @staticmethod
    def columns(snapshot: Snapshot, words: Sequence[bytes]) -> set[str]:
        """Every column name that holds all the words."""
        return {column for column in snapshot.column_names if all(word in folded(column) for word in words)}


class RunTexts:
    """Names and ids of runs, newest first. Most are in one block; those that changed lately stand beside it."""

    def __init__(self, reading: Callable[[], AbstractContextManager[sa.Connection]]) -> None:
        self._reading = reading
        self._lock = threading.Lock()
        self._counted: Counted | None = None
        self._lines = Lines(())
        self._keys: list[tuple[float, str]] = []
        self._places: dict[str, int] = {}
        self._new: dict[str, tuple[float, bytes]] = {}

    def matching(self, words: Sequence[bytes], after: tuple[float, str] | None) -> Iterator[tuple[float, str]]:
        """(start, id) of the runs whose name or id holds every word, newest first, after the given one."""
        with self._lock:
            self._refresh()
            lines, keys, new = self._lines, self._keys, dict(self._new)
        recent = sorted(
            (
                (started, run)
                for run, (started, text) in new.items()
                if all(word in text for word in words) and (after is None or _order((started, run)) > _order(after))
            ),
            key=_order,
        )
        first = 0 if after is None else bisect_right(keys, _order(after), key=_order)
        place = 0
        for line in lines.matching(words, first):
            key = keys[line]
            if key[1] in new:
                continue
            while place < len(recent) and _order(recent[place]) < _order(key):
                yield recent[place]
                place += 1
            yield key
        yield from recent[place:]

    def _refresh(self) -> None:
        with self._reading() as connection:
            now = counted(connection)
            if now == self._counted:
                return
            since = -1 if self._counted is None else self._counted.changes
            query = sa.select(runs.c.id, runs.c.name, runs.c.started).where(runs.c.changed > since)
            rows = connection.execution_options(yield_per=10_000).execute(query)
            fresh = {run: (_started(started), folded(name) + _FIELD + folded(run)) for run, name, started in rows}
        self._new.update(fresh)
        self._counted = now
        if len(self._new) > _MOST_NEW:
            self._settle()

    def _settle(self) -> None:
        """What is new goes into the block."""
        held: dict[tuple[float, str], bytes] = {}
        for line, key in enumerate(self._keys):
            if key[1] not in self._new:
                held[key] = self._lines._all[self._lines._starts[line] : self._lines._end(line)]
        held.update({(started, run): text for run, (started, text) in self._new.items()})
        keys = sorted(held, key=_order)
        self._lines = Lines(held[key] for key in keys)
        self._keys = keys
        self._new = {}
        give_back()


def _started(at: float | None) -> float:
    return float("-inf") if at is None else at


def _order(key: tuple[float, str]) -> tuple[float, str]:
    return -key[0], key[1]
