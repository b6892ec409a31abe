"""A catalogue to look at: a small story with a past, odd names, columns, failures, and graphs of fifty and 2,000."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from whence.model import COMPLETED, FAILED, Run
from whence.model.lineage import DIRECT, INDIRECT, OUTPUT, Change, ColumnLink, Link, Observation, Seen, Use
from whence.model.picture import Picture, PictureSource, PictureStep, Question
from whence.store import Store
from whence.store.diagnoses import SavedCause

START = datetime(2026, 3, 1, 8, tzinfo=timezone.utc)
SPACE = "shop"
ODD = {
    "html": "<img src=x onerror=\"document.title='taken over'\">",
    "quotes": 'it\'s "quoted" `ticked`',
    "emoji": "🦆 ducks/📦",
    "long": "x" * 500,
    "lines": "two\nlines",
    "address": "a/b/c?d=e&f#g%20",
    "sql": "'; DROP TABLE runs; --",
}
KINDS = ("table", "table", "view", "path", "topic", "model")
COLUMNS = {
    "orders": "id customer amount",
    "customers": "customer city",
    "legacy": "id amount",
    "clean": "id customer amount",
    "report": "city total",
    "forecast": "city",
    **{f"wide_{place}": " ".join(f"c{n}" for n in range(28)) for place in range(6)},
}


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def seen(name: str, kind: str = "table", namespace: str = SPACE) -> Seen:
    columns = tuple((c, "int" if c in ("id", "amount", "total") else "string") for c in COLUMNS.get(name, "id").split())
    return Seen(namespace, name, kind, columns)


def write(
    minute: float,
    sources: list[Seen],
    target: Seen,
    how: str = "overwrite",
    columns: tuple[tuple[int, str, str, str], ...] = (),
    error: str | None = None,
) -> Observation:
    """One run. `columns`: place of the source, its column, the target's column, subtype."""
    last = len(sources)
    identity = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{minute} {target.name}"))
    run = Run(
        identity,
        "write",
        f"write {target.name}",
        FAILED if error else COMPLETED,
        error,
        at(minute),
        at(minute),
        "nightly",
    )
    if error:
        uses = tuple(Use(place, "input") for place in range(last))
        return Observation(run, (*sources, target), uses=(*uses, Use(last, OUTPUT)))
    links = tuple(Link(place, last, "write") for place in range(last))
    found = tuple(
        ColumnLink(place, source, last, into, INDIRECT if subtype in ("FILTER", "JOIN") else DIRECT, subtype)
        for place, source, into, subtype in columns
    )
    return Observation(run, (*sources, target), (Change(last, how),), links, found)


def story() -> Iterator[Observation]:
    """report was made of legacy through clean; then orders took legacy's place, and legacy was dropped."""
    same = (("id", "id"), ("amount", "amount"))
    to_clean = tuple((0, a, b, "IDENTITY") for a, b in same)
    to_report = (
        (0, "amount", "total", "AGGREGATION"),
        (1, "city", "city", "IDENTITY"),
        (0, "customer", "total", "JOIN"),
    )
    yield write(1, [], seen("orders"))
    yield write(2, [], seen("customers"))
    yield write(3, [seen("legacy")], seen("clean"), columns=to_clean)
    yield write(4, [seen("clean"), seen("customers")], seen("report"), columns=to_report)
    yield write(60, [seen("orders")], seen("clean"), columns=(*to_clean, (0, "customer", "customer", "IDENTITY")))
    yield write(61, [seen("clean"), seen("customers")], seen("report"), columns=to_report)
    yield write(62, [seen("report")], seen("forecast", "model"), columns=((0, "city", "city", "IDENTITY"),))
    yield write(63, [seen("report")], seen("weekly"), error="Division by zero")
    dropping = Run(str(uuid.uuid5(uuid.NAMESPACE_OID, "drop")), "drop", "drop legacy", COMPLETED, None, at(64), at(64))
    yield Observation(dropping, (seen("legacy"),), (Change(0, "drop"),))
    yield write(65, [seen("orders")], seen("secret"))
    yield write(66, [seen("secret")], seen("bonus"))
    yield write(70, [seen(name, "path", "odd") for name in ODD.values()], seen("odd_ones"))
    wide = [seen(f"wide_{place}") for place in range(6)]
    yield write(75, wide[1:], wide[0], columns=tuple((n % 5, f"c{n}", f"c{n}", "IDENTITY") for n in range(28)))
    # A chain, to be shown step by step.
    for place in range(1, 8):
        yield write(80 + place, [seen(f"chain_{place - 1}")], seen(f"chain_{place}"))


def generated(prefix: str, count: int, seed: int, reach: int) -> Iterator[Observation]:
    """Everything leads to the last one, so that one question gives it all."""
    rng = random.Random(seed)
    kinds = [rng.choice(KINDS) for _ in range(count)]
    read: set[int] = set()

    def one(place: int) -> Seen:
        return seen(f"{prefix}_{place:04}", kinds[place])

    for place in range(1, count - 1):
        near = {max(0, place - 1 - rng.randrange(reach)) for _ in range(rng.choice((1, 2, 2)))}
        read |= near
        yield write(1000 + place, [one(n) for n in sorted(near)], one(place))
    ends = [place for place in range(count - 1) if place not in read]
    yield write(1000 + count, [one(place) for place in ends], one(count - 1))


def picture() -> Picture:
    """A trace of one negative total: 45 orders and a city are behind it."""
    steps = (
        PictureStep(1, "Filter", "Filter (total < 0)", 0, 1),
        PictureStep(2, "Aggregate", "Aggregate [city], [city, sum(amount) AS total]", 1, 1),
        PictureStep(3, "Join", "Join Inner, (customer = customer)", 2, 45),
        PictureStep(4, "Scan", "Relation clean", 3, 45),
        PictureStep(5, "Scan", "Relation customers", 3, 1),
    )
    rows = tuple((place, "Ada", BIG if place == 0 else -place) for place in range(45))
    sources = (
        PictureSource(
            0, SPACE, "clean", "table", 45, (("id", "int"), ("customer", "string"), ("amount", "bigint")), rows
        ),
        PictureSource(
            1, SPACE, "customers", "table", 1, (("customer", "string"), ("city", "string")), (("Ada", None),)
        ),
    )
    return Picture(True, steps=steps, sources=sources)


BIG = 2**53 + 1
"""A number that JavaScript would round."""


def make(folder: Path) -> None:
    store = Store.at(folder)
    store.catalog.traces.save(picture(), "The negative total", Question("backward", SPACE, "report", "total < 0"))
    cause = SavedCause((("partitions", ">", 2), ("format", "==", "csv")), "confirmed", 0.97)
    runs = [({"partitions": n, "format": kind}, n < 8 or kind != "csv") for n in (1, 2, 8) for kind in ("csv", "orc")]
    space = {"partitions": [1, 2, 8], "format": ["csv", "orc"]}
    store.catalog.diagnoses.save("Nightly load", 31, space, [cause], runs)
    store.catalog.record(*story())
    store.catalog.record(*generated("fifty", 50, 3, 14))
    store.catalog.record(*generated("big", 2000, 7, 300))
    store.close()
