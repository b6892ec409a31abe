"""How whence's own work is told from the user's: by job tags, which Spark keeps for each thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

QUIET = "whence-quiet"
"""The job tag of work that is not the user's own: a trace's queries, or what happens inside a call that is one run
already. The watcher leaves it out of the catalogue."""

AGAIN = "whence-again"
"""The job tag of what runs the user's functions once more, to answer a question: actors in them capture nothing."""

FACTS = "whence-facts"
"""The directory of what SQL capture writes down; a query that reads it reads nothing of its own."""

FACT_COLUMN = "whence_fact_"
"""How the columns of what SQL capture keeps in Spark's cache are called, before their number."""


class _Here(threading.local):
    depth = 0


# Not held by a session: the user's function, which must not be changed, is all that lies between whence and an actor.
_here = _Here()


@contextmanager
def again() -> Iterator[None]:
    """Within, this thread runs the user's functions once more: the same as AGAIN, where there is no Spark job."""
    _here.depth += 1
    try:
        yield
    finally:
        _here.depth -= 1


def is_again() -> bool:
    return _here.depth > 0


def tags_of(context: Any) -> set[str]:
    """The tags that whence has set in this thread of a SparkContext."""
    held = vars(context).setdefault("_whence_tags", threading.local())
    tags: set[str] = vars(held).setdefault("tags", set())
    return tags


def told_of_kept(context: Any) -> list[Callable[[Any, Any], None]]:
    """Who wants to know when whence keeps the rows of a query in Spark: of which DataFrame, and in which."""
    told: list[Callable[[Any, Any], None]] = vars(context).setdefault("_whence_told_of_kept", [])
    return told


@contextmanager
def tagged(context: Any, *tags: str) -> Iterator[None]:
    """Jobs of this thread have these tags within. Blocks may stand inside each other, whoever opened the outer one."""
    held = tags_of(context)
    new = [tag for tag in tags if tag not in held]
    for tag in new:
        context.addJobTag(tag)
    held.update(new)
    try:
        yield
    finally:
        held.difference_update(new)
        with suppress(Exception):  # the context was stopped meanwhile, and its tags with it
            for tag in new:
                context.removeJobTag(tag)
