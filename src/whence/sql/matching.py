"""Which readings of two queries read the same rows, so that a row's identity in one can be looked for in the other."""

from __future__ import annotations

from collections.abc import Sequence

from whence.model import WhenceError
from whence.spark.paths import behind_links
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
                _require_other_place(c, here, there)
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


def _require_other_place(c: Catalyst, here: ReadingPlace, there: ReadingPlace) -> None:
    """Raise an error where both read one place by two paths: their rows are told by their files' paths."""
    if not all(c.is_file_scan(place.leaf.plan) for place in (here, there)):
        return
    ours, theirs = ({behind_links(root) or root: root for root in c.roots(p.leaf.plan)} for p in (here, there))
    for real in ours.keys() & theirs.keys():
        if ours[real] != theirs[real]:
            raise WhenceError(
                f"{ours[real]} and {theirs[real]} are one place, reached by a link: which row of one is which of the "
                "other cannot be told. Read it by the same path in both."
            )


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
