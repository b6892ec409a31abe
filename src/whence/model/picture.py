"""The plain picture of a trace, which outlives its session: what is saved, served and drawn. Nothing but JSON's values.

Traces of SQL, RDDs, actors and arrays have the same picture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

BACKWARD, FORWARD, WHY_NOT, SAMPLE = "backward", "forward", "why_not", "sample"
QUESTIONS = (BACKWARD, FORWARD, WHY_NOT, SAMPLE)
FIRST_ROWS = 1000
"""Rows of each source that a picture holds."""


@dataclass(frozen=True)
class Question:
    """What is asked of a dataset: which rows (a condition on its columns), and for some questions about which other."""

    question: str
    namespace: str | None = None
    name: str | None = None
    where: str | None = None
    to: tuple[str, str] | None = None
    limit: int | None = None


@dataclass(frozen=True)
class PictureStep:
    """One operator on the way; `rows` lie on the way there."""

    number: int
    operator: str
    text: str
    depth: int
    rows: int | None = None


@dataclass(frozen=True)
class PictureSource:
    """One dataset that was read: so many witnesses, and the first of them."""

    number: int
    namespace: str
    name: str
    kind: str
    rows: int | None
    columns: tuple[tuple[str, str], ...] = ()
    first: tuple[tuple[Any, ...], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Picture:
    """`widened`: why there may be more than needed; `ended`: where the way stops short, and why."""

    exact: bool
    notes: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    steps: tuple[PictureStep, ...] = ()
    sources: tuple[PictureSource, ...] = ()


def plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has not becomes a text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc).astimezone()).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if hasattr(value, "asDict"):
        return {str(name): plain(held) for name, held in value.asDict(recursive=False).items()}
    if isinstance(value, Mapping):
        return {str(name): plain(held) for name, held in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(one) for one in value]
    return str(value)
