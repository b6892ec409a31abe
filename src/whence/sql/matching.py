"""Which readings of two queries read the same rows, so that a row's identity in one can be looked for in the other."""

from __future__ import annotations

from collections.abc import Sequence

from whence.model import WhenceError
from whence.sql.blocks import ReadingPlace
from whence.sql.catalyst import Catalyst


def matches(
    c: Catalyst, rows: Sequence[ReadingPlace], query: Sequence[ReadingPlace]
) -> dict[ReadingPlace, list[ReadingPlace]]:
    """For each reading of `query` those of `rows` that read the same files, or whatever it is, in the same way.

    Raises an error where both read the same rows and cannot be compared: nothing could be said of these rows."""
    found: dict[ReadingPlace, list[ReadingPlace]] = {}
    for there in query:
        for here in rows:
            if not _overlap(c, here, there):
                continue
            if here.dataset.told_by != there.dataset.told_by:
                raise _not_comparable(here, there)
            found.setdefault(there, []).append(here)
    return found


def _overlap(c: Catalyst, here: ReadingPlace, there: ReadingPlace) -> bool:
    if here.dataset.where == there.dataset.where:
        return True
    plans = here.leaf.plan, there.leaf.plan
    if not all(c.is_file_scan(plan) for plan in plans):
        return False
    if all(c.tells_files(plan) for plan in plans):
        return not c.files_of(plans[0]).keys().isdisjoint(c.files_of(plans[1]))
    return not set(c.files(plans[0])).isdisjoint(c.files(plans[1]))


def _not_comparable(here: ReadingPlace, there: ReadingPlace) -> WhenceError:
    ours, theirs = here.dataset, there.dataset
    if ours.how == theirs.how:
        what = "with other columns or over other files, where its rows are told by these"
    else:
        what = f"in two ways ({ours.how}; {theirs.how})"
    return WhenceError(
        f"Both read {ours.name}, but {what}: which row of one is which of the other cannot be told. "
        "Read it in the same way in both."
    )


def names_of(places: Sequence[ReadingPlace]) -> str:
    return ", ".join(sorted({place.dataset.full_name for place in places})) or "nothing"
