"""Saved traces, and the questions that wait for a session.

A session takes one question at a time and holds it by a lease, which it renews while it works; when the lease runs out,
the question is there for the next session.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from whence.model.picture import Picture, PictureSource, PictureStep, Question, plain
from whence.store.rows import moment
from whence.store.schema import trace_rows, traces

Read = Callable[[sa.Select[Any]], list[Any]]
Write = Callable[[Callable[[sa.Connection], object]], None]
Tell = Callable[[Mapping[str, list[dict[str, Any]]]], None]

QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"
LEASE_SECONDS = 30.0
MOST_ATTEMPTS = 3


@dataclass(frozen=True)
class SavedTrace:
    """`picture` is None while there is none; its sources hold no rows, which `Traces.rows` reads."""

    id: str
    name: str | None
    status: str
    progress: float
    question: Question
    asked: Any
    finished: Any
    error: str | None
    picture: Picture | None


class Traces:
    def __init__(self, read: Read, write: Write, tell: Tell) -> None:
        """`tell`: hears of what is saved before it is written (journal.py)."""
        self._read = read
        self._write = write
        self._tell = tell

    # --- saving

    def save(self, picture: Picture, name: str | None = None, question: Question | None = None) -> str:
        """A trace that was made elsewhere; the id it can be read by."""
        number, now = uuid.uuid4().hex, _now()
        row = {
            "id": number,
            "name": name,
            "status": DONE,
            "progress": 1.0,
            "question": asdict(question or Question("backward")),
            "asked": now,
            "finished": now,
            **_pictured(picture),
        }
        self._tell({"traces": [row], "trace_rows": _rows(number, picture)})

        def work(connection: sa.Connection) -> None:
            connection.execute(traces.insert().values(row))
            _write_rows(connection, number, picture)

        self._write(work)
        return number

    # --- reading

    def get(self, number: str) -> SavedTrace | None:
        rows = self._read(sa.select(traces).where(traces.c.id == number))
        return _trace(rows[0]) if rows else None

    def rows(self, number: str, source: int, first: int, limit: int) -> list[list[Any]]:
        """Rows of a source, from the one at `first` on."""
        query = sa.select(trace_rows.c.row).where(
            trace_rows.c.trace == number, trace_rows.c.source == source, trace_rows.c.position >= first
        )
        return [list(row.row) for row in self._read(query.order_by(trace_rows.c.position).limit(limit))]

    def list(self, limit: int, after: Sequence[Any] | None = None) -> tuple[SavedTrace, ...]:
        """Newest first; `after` is the time and the id of the last one that was given."""
        query = sa.select(traces).order_by(traces.c.asked.desc(), traces.c.id).limit(limit)
        if after is not None:
            at, number = after
            here = (traces.c.asked < at) | ((traces.c.asked == at) & (traces.c.id > number))
            query = query.where(traces.c.asked <= at, here)
        return tuple(_trace(row) for row in self._read(query))

    # --- the queue

    def ask(self, question: Question, by: str | None = None) -> str:
        number = uuid.uuid4().hex
        row = {
            "id": number,
            "status": QUEUED,
            "progress": 0.0,
            "question": asdict(question),
            "asked": _now(),
            "asked_by": by,
        }
        self._write(lambda c: c.execute(traces.insert().values(row)))
        return number

    def is_waiting(self) -> bool:
        """Whether a session is needed; one small look."""
        return bool(self._read(sa.select(traces.c.id).where(_free(_now())).limit(1)))

    def take(self, worker: str) -> tuple[str, Question] | None:
        """The oldest question that waits; it is this worker's until the lease runs out."""
        taken: list[tuple[str, Question]] = []

        def work(connection: sa.Connection) -> None:
            now = _now()
            query = sa.select(traces).where(_free(now)).order_by(traces.c.asked, traces.c.id).limit(1)
            if connection.dialect.name == "postgresql":
                query = query.with_for_update(skip_locked=True)
            row = connection.execute(query).first()
            if row is None:
                return
            here = traces.update().where(traces.c.id == row.id)
            if row.attempts >= MOST_ATTEMPTS:
                why = f"{row.attempts} sessions took this question and ended before they had an answer."
                connection.execute(here.values(status=FAILED, error=why, finished=now, worker=None, lease=None))
                return
            claim = {"worker": worker, "lease": now + LEASE_SECONDS, "attempts": row.attempts + 1}
            connection.execute(here.values(status=RUNNING, progress=0.0, **claim))
            taken.append((row.id, _question(row.question)))

        self._write(work)
        return taken[0] if taken else None

    def renew(self, number: str, worker: str, progress: float | None = None) -> bool:
        """Hold on to a question, and say how far it is; False when another session has it by now."""
        values: dict[str, Any] = {"lease": _now() + LEASE_SECONDS}
        if progress is not None:
            values["progress"] = progress
        return self._own(number, worker, values)

    def release(self, number: str, worker: str) -> bool:
        """Give a question back unanswered: the session ends."""
        free = {"status": QUEUED, "progress": 0.0, "worker": None, "lease": None}
        return self._own(number, worker, {**free, "attempts": traces.c.attempts - 1})

    def finish(self, number: str, worker: str, picture: Picture) -> bool:
        done = {"status": DONE, "progress": 1.0, "finished": _now(), "worker": None, "lease": None}
        return self._own(number, worker, {**done, **_pictured(picture)}, picture)

    def fail(self, number: str, worker: str, error: str) -> bool:
        failed = {"status": FAILED, "error": error, "finished": _now(), "worker": None, "lease": None}
        return self._own(number, worker, failed)

    def _own(self, number: str, worker: str, values: dict[str, Any], picture: Picture | None = None) -> bool:
        owned: list[bool] = []

        def work(connection: sa.Connection) -> None:
            here = (traces.c.id == number, traces.c.worker == worker, traces.c.status == RUNNING)
            found = connection.execute(traces.update().where(*here).values(values)).rowcount
            owned.append(found == 1)
            if found == 1 and picture is not None:
                _write_rows(connection, number, picture)

        self._write(work)
        return owned[-1]


def _free(now: float) -> sa.ColumnElement[bool]:
    return (traces.c.status == QUEUED) | ((traces.c.status == RUNNING) & (traces.c.lease < now))


def _pictured(picture: Picture) -> dict[str, Any]:
    held = asdict(picture)
    for source in held["sources"]:
        source.pop("first")
    return {"exact": int(picture.exact), "picture": held}


def _rows(number: str, picture: Picture) -> list[dict[str, Any]]:
    return [
        {"trace": number, "source": source.number, "position": position, "row": [plain(value) for value in row]}
        for source in picture.sources
        for position, row in enumerate(source.first)
    ]


def _write_rows(connection: sa.Connection, number: str, picture: Picture) -> None:
    connection.execute(trace_rows.delete().where(trace_rows.c.trace == number))
    rows = _rows(number, picture)
    if rows:
        connection.execute(trace_rows.insert(), rows)


def _question(held: dict[str, Any]) -> Question:
    to = held.get("to")
    return Question(**{**held, "to": None if to is None else (to[0], to[1])})


def _picture(held: dict[str, Any] | None) -> Picture | None:
    if held is None:
        return None
    return Picture(
        held["exact"],
        tuple(held["notes"]),
        tuple(held["widened"]),
        tuple(held["ended"]),
        tuple(PictureStep(**step) for step in held["steps"]),
        tuple(
            PictureSource(**{**source, "columns": tuple((c[0], c[1]) for c in source["columns"])})
            for source in held["sources"]
        ),
    )


def _trace(row: Any) -> SavedTrace:
    return SavedTrace(
        row.id,
        row.name,
        row.status,
        row.progress,
        _question(row.question),
        moment(row.asked),
        moment(row.finished),
        row.error,
        _picture(row.picture),
    )


def _now() -> float:
    """To the microsecond, as a datetime has it: the time of the last item is where a list goes on."""
    return round(time.time(), 6)
