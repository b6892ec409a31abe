"""What actors in a function over a whole partition tell of its records, where they say how these are named.

Runs on executors. Actors are of a room beside this one: they are there if the user's function brought them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

ITSELF = ("*",)
"""The key of actors whose names are the records themselves."""
_SHARED = "{name}: its actor names records in a way that does not tell them apart"
_UNSAID = "{note}, where its actor has not said otherwise"


class Hearing:
    """One run of such a function over one partition."""

    def __init__(self, listening: Any, keys: list[Any]) -> None:
        self._listening = listening
        self._inputs: dict[Any, dict[Any, list[int]]] = {key: {} for key in keys}
        self._outputs: list[tuple[int, list[Any]]] = []

    @classmethod
    def begin(cls) -> Hearing | None:
        """None where no actor in this process names records."""
        actors = sys.modules.get("whence.actors.worker")
        keys = actors.Listening.row_keys() if actors is not None else []
        return cls(actors.Listening(also=True), keys) if actors is not None and keys else None

    def fed(self, stream: Iterator[list[Any]], read: Callable[[], int]) -> Iterator[list[Any]]:
        """The records on their way into the function. What is before it may have actors of its own."""
        while True:
            with self._listening.paused():
                records = next(stream, None)
            if records is None:
                return
            first = read()
            for key, known in self._inputs.items():
                for at, record in enumerate(records, first):
                    name = self._name(record, key.inputs)
                    if name is not None:
                        known.setdefault(name, []).append(at)
            yield records

    def given(self, records: Iterator[Any], read: Callable[[], int]) -> Iterator[Any]:
        """The records that come out of it."""
        while True:
            with self._listening:
                try:
                    record = next(records)
                except StopIteration:
                    return
            self._outputs.append((read(), [self._name(record, key.outputs) for key in self._inputs]))
            yield record

    def lists(self, note: str) -> tuple[list[list[int]], str | None] | None:
        """For each output its inputs, and why these may be more than needed; None where the actors said nothing."""
        told = self._listening.told
        if not told:
            return None
        times = Counter(
            (key, name) for _, names in self._outputs for key, name in zip(self._inputs, names, strict=True)
        )
        found: list[list[int]] = []
        why: str | None = None
        for read, names in self._outputs:
            mine, shared = self._of(told, times, names)
            if mine is None:
                found.append(list(range(read)))
                why = _UNSAID.format(note=note)
            else:
                found.append(mine)
                why = why or (_SHARED.format(name=note.partition(":")[0]) if shared else None)
        return found, why

    def _of(self, told: dict[Any, Any], times: Counter[Any], names: list[Any]) -> tuple[list[int] | None, bool]:
        found: dict[int, None] = {}
        known = shared = False
        for (key, rows), name in zip(self._inputs.items(), names, strict=True):
            inputs = told[key].inputs_of.get(name) if name is not None and key in told else None
            if inputs is None:
                continue
            known, shared = True, shared or times[key, name] > 1
            for one in inputs:
                if one not in rows:
                    return None, False
                shared = shared or len(rows[one]) > 1
                found.update(dict.fromkeys(rows[one]))
        return (sorted(found), shared) if known else (None, False)

    def _name(self, record: Any, key: tuple[str, ...]) -> Any:
        try:
            if key == ITSELF:
                return self._listening.name(record)
            values = tuple(record[column] for column in key)
            return self._listening.name(values[0] if len(values) == 1 else values)
        except Exception:  # a record that has no such name: then the actor says nothing of it
            return None
