"""What traces of this session have computed on their way (the rows that a LIMIT keeps), for the next question.

The rows stay where they were computed; they are taken again for an equal query that reads the same versions of the same
files under the same settings. What a query says of the moment it runs in is a constant by now (moments.py), so that two
questions asked at two moments are not equal."""

from __future__ import annotations

from collections.abc import Sequence

from whence.sql import facts
from whence.sql.catalyst import Attr, Catalyst, Plan, class_name
from whence.sql.memory import Recent

MOST = 8
# Beside scans of files: leaves that cannot give other rows the next time.
_FIXED = ("LocalRelation", "Range", "OneRowRelation")


def computed(c: Catalyst, plan: Plan) -> Plan:
    """The rows of `plan` under its own attributes, computed now or by an earlier trace."""
    if not all(_is_fixed(c, leaf) for leaf in c.leaves(plan)):
        return c.keep(plan).plan
    files, settings = facts.file_versions(c, plan), c.settings()
    for known in c.memory.recent:
        if known.files == files and known.settings == settings and known.query.sameResult(plan):
            return _under(c, known.rows, c.output(plan))
    rows = c.keep(plan).plan
    c.memory.recent.insert(0, Recent(plan, files, settings, rows))
    del c.memory.recent[MOST:]
    return rows


def _is_fixed(c: Catalyst, leaf: Plan) -> bool:
    if class_name(leaf) == "InMemoryRelation":
        return facts.is_kept(c, leaf)
    return class_name(leaf) in _FIXED or (c.is_file_scan(leaf) and c.tells_files(leaf))


def _under(c: Catalyst, rows: Plan, attrs: Sequence[Attr]) -> Plan:
    pairs = zip(c.output(rows), attrs, strict=True)
    return c.project([c.alias_as(old, new) for old, new in pairs], rows)
