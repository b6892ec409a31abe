"""What traces of this session have computed on their way (the rows that a LIMIT keeps, the rows that a subquery reads,
those of all groups of a report), for the next question.

The rows stay where they were computed; they are taken again for an equal query that reads the same versions of the same
files under the same settings. What a query says of the moment it runs in is a constant by now (moments.py), so that two
questions asked at two moments are not equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from whence.model.once import once
from whence.spark.statuses import Listing
from whence.sql import facts
from whence.sql.catalyst import Attr, Catalyst, Kept, Plan, class_name
from whence.sql.memory import Few, Recent, Versions

MOST = 32
# So many rows are remembered in all, beside those of the latest.
MOST_ROWS = 4_000_000
# So many rows of all groups are computed at once, from files that take no more than this.
WIDE_ROWS = 2_000_000
WIDE_BYTES = 512 << 20
# Beside scans of files: leaves that cannot give other rows the next time.
_FIXED = ("LocalRelation", "Range", "OneRowRelation")


def computed(c: Catalyst, plan: Plan, quicker: Callable[[], Plan] | None = None) -> Plan:
    """The rows of `plan` under its own attributes, computed now or by an earlier trace. `quicker`: another query that
    gives the same."""
    return computed_rows(c, plan, quicker).plan


def computed_rows(c: Catalyst, plan: Plan, quicker: Callable[[], Plan] | None = None) -> Kept:
    """The same, with their number."""
    reads = _Reads(c, plan)
    versions = reads.versions
    known = None if versions is None else _known(c, plan, versions)
    if known is None or known.rows is None:
        rows = c.keep(plan if quicker is None else quicker())
        if versions is None or not reads.are_still_read():
            return rows
        known = _remember(c, plan, versions, rows)
    assert known.rows is not None
    return _under(c, known.rows, c.output(plan))


def rows_for_next(c: Catalyst, plan: Plan) -> Kept:
    """The same, but for functions of the user's: these run again when they are asked about, as `reruns` says."""
    return c.keep(plan) if c.has_user_functions(plan) else computed_rows(c, plan)


def few_rows(c: Catalyst, plan: Plan) -> list[tuple[object, ...]]:
    """The rows of a query that gives few, as Python has them: computed now, or told to an earlier question."""
    reads = _Reads(c, plan)
    versions = None if c.has_user_functions(plan) else reads.versions
    settings = c.settings()
    for known in list(c.memory.few) if versions is not None else ():
        if known.files == versions and known.settings == settings and known.query.sameResult(plan):
            return known.rows
    rows = [tuple(row) for row in c.frame(plan).collect()]
    if versions is not None and reads.are_still_read():
        c.memory.few.insert(0, Few(plan, versions, settings, rows))
        del c.memory.few[MOST:]
    return rows


def wide(c: Catalyst, plan: Plan, quicker: Callable[[], Plan] | None = None, most: int | None = None) -> Kept | None:
    """The same, of rows of which only some are needed now; None where they are too many for that: `most`, if less."""
    most = WIDE_ROWS if most is None else min(most, WIDE_ROWS)
    reads = _Reads(c, plan)
    versions = reads.versions
    if versions is None or reads.length() > WIDE_BYTES:
        return None
    known = _known(c, plan, versions)
    if known is None:
        rows = _all_of(c, plan if quicker is None else quicker(), most)
        if not reads.are_still_read():
            return None if rows is None else _under(c, rows, c.output(plan))
        known = _remember(c, plan, versions, rows)
    return None if known.rows is None else _under(c, known.rows, c.output(plan))


def _all_of(c: Catalyst, plan: Plan, most: int) -> Kept | None:
    try:
        # A partition that has more is cut off there, and then there are that many in all.
        rows = c.keep(c.first_of_each(most, plan), many=True)
    except (PySparkException, Py4JJavaError):  # one of the rows that are not needed may be what an expression fails on
        return None
    return rows if rows.total < most else None


def _known(c: Catalyst, plan: Plan, versions: Versions) -> Recent | None:
    settings = c.settings()
    for known in list(c.memory.recent):  # another thread may add to it meanwhile
        if known.files != versions or known.settings != settings or not known.query.sameResult(plan):
            continue
        if known.rows is None or known.rows.local or c.is_whole(known.rows.plan):
            return known
        with suppress(ValueError):  # it is gone already
            c.memory.recent.remove(known)
    return None


def _remember(c: Catalyst, plan: Plan, versions: Versions, rows: Kept | None) -> Recent:
    new, recent = Recent(plan, versions, c.settings(), rows), c.memory.recent
    recent.insert(0, new)
    del recent[MOST:]
    while len(recent) > 1 and _total(recent) > MOST_ROWS:
        recent.pop()
    return new


def _total(recent: Iterable[Recent]) -> int:
    return sum(known.rows.total for known in list(recent) if known.rows is not None)


class _Reads:
    """What a query reads."""

    def __init__(self, c: Catalyst, plan: Plan) -> None:
        self._c = c
        self._listed = c.listed_below(plan)
        # Mostly it is files that Spark has listed, and there is no need to look at each leaf.
        self._leaves = c.leaves(plan) if self._listed is None else []

    @once
    def versions(self) -> Versions | None:
        """Of the files; None where the query's rows are not remembered: they are at hand, or may be others the next
        time."""
        c, found = self._c, []
        if self._listed is not None:
            found = [_with_marks(c, files) for files in self._listed]
        at_hand = all(class_name(leaf) == "LocalRelation" for leaf in self._leaves)
        if self._listed is None and (at_hand or not all(_is_fixed(c, leaf) for leaf in self._leaves)):
            return None
        for leaf in self._leaves:
            version = c.version_of(leaf)
            if version is not None:
                columns = "" if c.is_file_scan(leaf) else c.schema_number(leaf)  # Delta's are of the version
                found.append(frozenset({(f"{version.place}@{version.table}", version.number, 0, columns)}))
            elif c.is_file_scan(leaf):
                found.append(_with_marks(c, c.files_of(leaf)))
        # A file without a mark is no longer the one that was listed.
        whole = all(mark or not modified for files in found for _, _, modified, mark in files)
        return tuple(found) if whole else None

    def are_still_read(self) -> bool:
        """Whether Spark still reads these versions of tables: of one that went on meanwhile, it may have read the
        next."""
        found = ((leaf, self._c.version_of(leaf)) for leaf in self._leaves)
        return all(version is None or self._c.reads_version_now(leaf, version.number) for leaf, version in found)

    def length(self) -> float:
        """In bytes."""
        if self._listed is not None:
            return sum(length for files in self._listed for length, _ in files.values())
        return sum(_length(self._c, leaf) for leaf in self._leaves)


def _with_marks(c: Catalyst, files: Listing) -> frozenset[tuple[str, int, int, str]]:
    return frozenset((path, *about) for path, about in c.versions_of(files).items())


def _length(c: Catalyst, leaf: Plan) -> float:
    if c.version_of(leaf) is not None:
        return c.bytes_of_version(leaf)
    return sum(length for length, _ in c.files_of(leaf).values()) if c.is_file_scan(leaf) else 0


def _is_fixed(c: Catalyst, leaf: Plan) -> bool:
    if class_name(leaf) == "InMemoryRelation":
        return facts.is_kept(c, leaf)
    if class_name(leaf) in _FIXED or c.version_of(leaf) is not None:
        return True
    return c.is_file_scan(leaf) and c.tells_files(leaf)


def _under(c: Catalyst, rows: Kept, attrs: Sequence[Attr]) -> Kept:
    if rows.local:
        return Kept(c.local_under(rows.plan, attrs), rows.total, local=True)
    pairs = zip(c.output(rows.plan), attrs, strict=True)
    return Kept(c.project([c.alias_as(old, new) for old, new in pairs], rows.plan), rows.total, local=False)
