"""Payloads: small notes that an operator's map_p turns into input cells. Each different one is kept once."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import NONE, Numbers
from whence.arrays.columns import Columns
from whence.arrays.errors import ArrayError
from whence.arrays.lists import Lists

_NUMBERS = [np.dtype(code) for code in "?bhilqBHILQefd"]
"""What `tolist` makes Python's own numbers of."""


@dataclass(frozen=True)
class Table:
    """Payload k is `distinct[ids[k]]`."""

    ids: Numbers
    distinct: tuple[Any, ...]

    @classmethod
    def of(cls, payloads: Sequence[Any] | NDArray[Any], where: str) -> Table:
        if isinstance(payloads, np.ndarray) and payloads.dtype in _NUMBERS and payloads.ndim == 1:
            found, ids = np.unique(payloads, return_inverse=True, equal_nan=False)
            return cls(ids.astype(np.int64, copy=False), tuple(found.tolist()))
        if isinstance(payloads, np.ndarray):
            payloads = [tuple(each) if isinstance(each, list) else each for each in payloads.tolist()]
        known: dict[Any, int] = {}
        distinct: list[Any] = []
        ids = np.empty(len(payloads), np.int64)
        for place, payload in enumerate(payloads):
            key = _key(payload, where)
            number = known.setdefault(key, len(distinct))
            if number == len(distinct):
                distinct.append(_plain(payload))
            ids[place] = number
        return cls(ids, tuple(distinct))

    @classmethod
    def joined(cls, tables: Sequence[Table]) -> Table:
        if len(tables) == 1:
            return tables[0]
        ids: list[Numbers] = [NONE]
        distinct: list[Any] = []
        for table in tables:
            ids.append(table.ids + len(distinct))
            distinct.extend(table.distinct)
        return cls(np.concatenate(ids), tuple(distinct))

    def __len__(self) -> int:
        return len(self.ids)


def values_of(distinct: tuple[Any, ...]) -> NDArray[Any]:
    """The table as map_p_many gets it: an array of numbers where all are numbers of one kind, else of objects."""
    kinds = {type(payload) for payload in distinct}
    if len(kinds) == 1 and kinds <= {bool, int, float}:
        made = np.array(distinct)
        # Of whole numbers that do not fit into 64 bits numpy makes floats.
        if made.dtype.kind == {bool: "b", int: "i", float: "f"}[kinds.pop()]:
            return made
    made = np.empty(len(distinct), object)
    for place, payload in enumerate(distinct):
        made[place] = payload
    return made


@dataclass(frozen=True)
class Payloads:
    """Payload k was written for the cells of `out` list k."""

    out: Lists
    table: Table

    def __len__(self) -> int:
        return len(self.out)

    def by_cell(self) -> tuple[Numbers, Numbers]:
        """(cell, number of its payload), sorted by cell; a cell that was written twice is there twice."""
        cells = self.out.values.all()
        ids = self.table.ids if self.out.are_single else self.table.ids[self.out.owners()]
        if len(cells) > 1 and (np.diff(cells) < 0).any():
            order = np.argsort(cells, kind="stable")
            cells, ids = cells[order], ids[order]
        return cells, ids


# --- as columns and text


def table_columns(distinct: tuple[Any, ...]) -> tuple[dict[str, NDArray[np.int64]], dict[str, Any]]:
    """Numbers of one kind become a column, all else JSON."""
    values = values_of(distinct)
    if len(values) and values.dtype.kind in "bif":
        kind = values.dtype.kind
        return {"payloads": values.view(np.int64) if kind == "f" else values.astype(np.int64)}, {"payloads": kind}
    return {}, {"payloads": to_json(distinct)}


def table_from(columns: Columns) -> tuple[Any, ...]:
    told: str = columns.about["payloads"]
    if told not in ("b", "i", "f"):
        return from_json(told)
    values = columns["payloads"].all()
    if told == "f":
        return tuple(values.view(np.float64).tolist())
    return tuple((values.astype(bool) if told == "b" else values).tolist())


def to_json(distinct: tuple[Any, ...]) -> str:
    return json.dumps([_told(payload) for payload in distinct])


def from_json(text: str) -> tuple[Any, ...]:
    return tuple(_meant(told) for told in json.loads(text))


def _told(payload: Any) -> Any:
    if isinstance(payload, bytes):
        return {"b": base64.b64encode(payload).decode("ascii")}
    if isinstance(payload, float):
        return {"f": payload.hex()}
    if isinstance(payload, tuple):
        return [_told(each) for each in payload]
    if isinstance(payload, str):
        return {"s": payload.encode("utf-8", "surrogatepass").hex()} if _is_odd(payload) else payload
    return payload


def _meant(told: Any) -> Any:
    if isinstance(told, dict):
        ((kind, text),) = told.items()
        if kind == "b":
            return base64.b64decode(text)
        return float.fromhex(text) if kind == "f" else bytes.fromhex(text).decode("utf-8", "surrogatepass")
    return tuple(_meant(each) for each in told) if isinstance(told, list) else told


def _is_odd(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _key(payload: Any, where: str) -> Any:
    """Equal for payloads that are one and the same: 1, 1.0 and True are three."""
    payload = _plain(payload)
    if isinstance(payload, tuple):
        return tuple(_key(each, where) for each in payload)
    if not isinstance(payload, (bytes, str, bool, int, float)):
        raise ArrayError(
            f"{where} wrote a payload of type {type(payload).__name__}: a payload is bytes, str, bool, int, float or a "
            "tuple of these."
        )
    return type(payload), repr(payload) if isinstance(payload, float) else payload


def _plain(payload: Any) -> Any:
    if isinstance(payload, np.generic):
        return payload.item()
    return tuple(_plain(each) for each in payload) if isinstance(payload, tuple) else payload
