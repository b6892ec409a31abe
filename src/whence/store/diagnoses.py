"""Saved diagnoses: which conditions on parameters made runs fail."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from whence.model.picture import plain
from whence.store.rows import moment
from whence.store.schema import diagnoses

Read = Callable[[sa.Select[Any]], list[Any]]
Write = Callable[[Callable[[sa.Connection], object]], None]
_MOST_RUNS = 10_000
Tell = Callable[[Mapping[str, list[dict[str, Any]]]], None]


@dataclass(frozen=True)
class SavedCause:
    conditions: tuple[tuple[str, str, Any], ...]
    status: str
    confidence: float | None


@dataclass(frozen=True)
class SavedDiagnosis:
    id: str
    name: str | None
    created: datetime | None
    executions: int
    parameters: Mapping[str, Sequence[Any]]
    causes: tuple[SavedCause, ...]
    runs: tuple[tuple[Mapping[str, Any], bool], ...] = ()
    """Settings, and whether the run with them succeeded."""


class Diagnoses:
    def __init__(self, read: Read, write: Write, tell: Tell) -> None:
        self._read = read
        self._write = write
        self._tell = tell

    def save(
        self,
        name: str | None,
        executions: int,
        parameters: Mapping[str, Sequence[Any]],
        causes: Sequence[SavedCause],
        runs: Sequence[tuple[Mapping[str, Any], bool]] = (),
    ) -> str:
        number = uuid.uuid4().hex
        row = {
            "id": number,
            "name": name,
            "created": _now(),
            "executions": executions,
            "parameters": {key: [plain(value) for value in values] for key, values in parameters.items()},
            "causes": [
                {
                    "conditions": [[parameter, op, plain(value)] for parameter, op, value in cause.conditions],
                    "status": cause.status,
                    "confidence": cause.confidence,
                }
                for cause in causes
            ],
            "runs": [
                {"config": {key: plain(value) for key, value in config.items()}, "succeeded": bool(succeeded)}
                for config, succeeded in runs[:_MOST_RUNS]
            ],
        }
        self._tell({"diagnoses": [row]})
        self._write(lambda c: c.execute(diagnoses.insert().values(row)))
        return number

    def get(self, number: str) -> SavedDiagnosis | None:
        rows = self._read(sa.select(diagnoses).where(diagnoses.c.id == number))
        return _diagnosis(rows[0]) if rows else None

    def list(self, limit: int, after: Sequence[Any] | None = None) -> tuple[SavedDiagnosis, ...]:
        """Newest first; `after` is the time and the id of the last one that was given."""
        query = sa.select(diagnoses).order_by(diagnoses.c.created.desc(), diagnoses.c.id).limit(limit)
        if after is not None:
            at, number = after
            here = (diagnoses.c.created < at) | ((diagnoses.c.created == at) & (diagnoses.c.id > number))
            query = query.where(diagnoses.c.created <= at, here)
        return tuple(_diagnosis(row) for row in self._read(query))


def _diagnosis(row: Any) -> SavedDiagnosis:
    causes = tuple(
        SavedCause(tuple((c[0], c[1], c[2]) for c in cause["conditions"]), cause["status"], cause["confidence"])
        for cause in row.causes
    )
    runs = tuple((run["config"], run["succeeded"]) for run in row.runs or ())
    return SavedDiagnosis(row.id, row.name, moment(row.created), row.executions, row.parameters, causes, runs)


def _now() -> float:
    """To the microsecond, as a datetime has it: the time of the last item is where a list goes on."""
    return round(time.time(), 6)
