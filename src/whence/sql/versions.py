"""Whether what a DataFrame showed is still there: its files, its snapshot, what Spark's cache holds of it.

Spark tells of a plan's files their length and modification time, and may exchange that listing in place when it sees a
write (a table that is read by name, a path that is cached). So a file or snapshot that came after the DataFrame was
made is a change too, whatever the listing says now; on a local disk the time is that of the inode, which programs
cannot set. What is seen of a source at a question (inode, ETag, snapshot) holds for what this question computes later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace

from whence.model import SourceChanged
from whence.spark import statuses
from whence.spark.statuses import Listing, Status
from whence.sql import facts
from whence.sql.blocks import ReadingPlace
from whence.sql.catalyst import Catalyst, Plan, remembered
from whence.sql.memory import FileVersion
from whence.sql.sources import hive_files
from whence.sql.tree import Node, with_below


def require_unchanged(c: Catalyst, leaf: Node, made: int | None, *, followed: bool = False) -> None:
    """Raise SourceChanged when a source is no longer what it was when the DataFrame was made (a time in ms).

    `followed`: the way goes on to what its rows were made from, so nothing is told by its own files."""
    plan = leaf.plan
    if leaf.kind == "DataSourceV2Relation":
        _require_same_snapshot(c, plan, made, followed)
    elif leaf.kind == "HiveTableRelation":
        _require_same_files(c, plan, hive_files(c, plan), made)
    elif c.is_file_scan(plan):
        snapshots = c.snapshots_of(plan)
        if snapshots is not None:
            _require_same_version(c, plan, *snapshots, followed)
        elif c.tells_files(plan):
            _require_same_listing(c, plan)
            _require_same_files(c, plan, c.files_of(plan), made)
            _require_no_files_gone(c, plan, made)


def _require_same_files(c: Catalyst, plan: Plan, listed: Listing, made: int | None) -> None:
    now = c.statuses_of(listed)
    seen = remembered(plan, "seen", lambda: dict(now))
    for path, version in listed.items():
        if path not in now:
            raise SourceChanged(path, "is gone")
        if now[path].version != version or now[path].mark != seen[path].mark or _is_newer(now[path], made):
            raise SourceChanged(path, "was changed")


def _require_same_listing(c: Catalyst, plan: Plan) -> None:
    then, now = c.files_of(plan), c.files_now(plan)
    for path in sorted(then.keys() | now.keys()):
        if then.get(path) != now.get(path):
            what = "is gone" if path not in now else "was changed" if path in then else "was added"
            raise SourceChanged(path, what)


def _is_newer(status: Status, made: int | None) -> bool:
    return made is not None and status.is_after(made)


def _require_no_files_gone(c: Catalyst, plan: Plan, made: int | None) -> None:
    """Files that were there when the DataFrame was made may be missing from a listing that was exchanged since."""
    if made is None:
        return
    listed = c.files_of(plan)
    changed = statuses.folders_changed_after(made, c.roots(plan), listed)
    if changed is None:
        return
    now: dict[str, tuple[int, int]] = {}
    for root in c.roots(plan):
        now.update(c.list_files(root))
    if now.keys() == listed.keys():  # so the listing may be of after the change; an older one has other files
        raise SourceChanged(changed, "was changed")


def _require_same_version(c: Catalyst, plan: Plan, planned: int, latest: int, followed: bool) -> None:
    if planned != latest and not _same_rows(c, plan, planned, latest, followed):
        (root,) = c.roots(plan)
        raise SourceChanged(root, "is gone" if latest < 0 else f"went on from version {planned} to {latest}")


def _require_same_snapshot(c: Catalyst, plan: Plan, made: int | None, followed: bool) -> None:
    found = c.iceberg_snapshot(plan)
    if found is None:
        return
    number, at = found
    seen = remembered(plan, "seen", lambda: number)
    if number == seen:
        if made is None or at <= made or _same_rows_as_at(c, plan, number, made, followed):
            return
    elif _same_rows(c, plan, seen, number, followed):
        return
    raise SourceChanged(str(plan.table().name()), f"has got a new snapshot ({number})")


def _same_rows_as_at(c: Catalyst, plan: Plan, number: int, made: int, followed: bool) -> bool:
    """The same since a moment in ms: whether all that came after it only rewrote files."""
    commit = c.commit_of(plan, number) if followed or c.row_ids_of(plan) is not None else None
    while commit is not None and commit.at > made and commit.same_as is not None:
        commit = c.commit_of(plan, commit.same_as)
    return commit is not None and commit.at <= made


def _same_rows(c: Catalyst, plan: Plan, first: int, last: int, followed: bool) -> bool:
    """Whether only files were rewritten, of a table that keeps row ids: then every row is told as before."""
    return (followed or c.row_ids_of(plan) is not None) and c.same_rows_since(plan, first, last)


def require_cached_alike(c: Catalyst, plan: Plan) -> None:
    """Raise SourceChanged when Spark would take rows of this query from its cache that came from other files.

    To its cache, a path that is read again is the same, whatever lies there now."""
    cached = [below for below in c.cached_below(plan) if not facts.is_kept(c, below)]
    if not cached:
        return
    ours = [(sorted(c.roots(leaf)), c.files_of(leaf)) for leaf in c.file_leaves(plan)]
    for below in cached:
        for leaf in c.file_leaves(below):
            roots, files = sorted(c.roots(leaf)), c.planned_files(leaf)
            if files and (roots, files) not in ours:
                raise SourceChanged(
                    ", ".join(roots), "is in Spark's cache as it was before it was changed; it was changed"
                )


# --- one dataset in several states


def told_anew(c: Catalyst, rows: Sequence[ReadingPlace], query: Collection[ReadingPlace]) -> tuple[str, ...]:
    """Why rows of one version may not be found in another: a table that keeps no row ids tells a row by its file, and a
    file that was rewritten in between holds it as another row."""
    found: dict[str, None] = {}
    for there in query:
        for here in rows:
            if here.dataset.where != there.dataset.where or here.dataset.by_row_id:
                continue
            plans = here.leaf.plan, there.leaf.plan
            versions = [c.version_of(plan) for plan in plans]
            if None in versions or len({version.number for version in versions if version}) == 1:
                continue
            if c.rewrote_files(*plans):
                name = here.dataset.name
                why = "files were rewritten between the two versions that are read, and it keeps no row ids"
                found[f"the trace ends at {name}: {why}, so the same row in another file counts as another one"] = None
    return tuple(found)


def states(c: Catalyst, places: Sequence[ReadingPlace]) -> list[list[ReadingPlace]]:
    """Readings of one dataset by what they read of it: the same files, or the same snapshot."""
    if len(places) == 1:
        return [list(places)]
    found: dict[object, list[ReadingPlace]] = {}
    for place in places:
        found.setdefault(_state(c, place.leaf), []).append(place)
    return list(found.values())


def told_apart(c: Catalyst, node: Node) -> Node:
    """The tree with those scans marked that read other files than the first one of this session that read there: to
    Spark they would be equal, so that it might compute one of them and take its rows for the other's."""
    if not node.children and c.is_file_scan(node.plan) and c.tells_files(node.plan):
        files = frozenset((path, *version) for path, version in c.files_of(node.plan).items())
        first = c.memory.first_seen.setdefault("|".join(sorted(c.roots(node.plan))), files)
        return node if files == first else replace(node, plan=c.with_mark(node.plan, _digest(files)))
    if node.kind in ("Settled", "Given"):
        return node
    children = [told_apart(c, child) for child in node.children]
    subqueries = {key: told_apart(c, below) for key, below in node.subqueries.items()}
    return with_below(c, node, children, subqueries)


def _digest(files: frozenset[FileVersion]) -> str:
    return hashlib.sha256(repr(sorted(files)).encode()).hexdigest()


def by_columns(c: Catalyst, places: Sequence[ReadingPlace]) -> list[list[ReadingPlace]]:
    found: dict[object, list[ReadingPlace]] = {}
    for place in places:
        columns = tuple((str(a.name()), c.type_of(a)) for a in c.output(place.leaf.plan))
        found.setdefault(columns, []).append(place)
    return list(found.values())


def _state(c: Catalyst, leaf: Node) -> object:
    plan = leaf.plan
    version = c.version_of(plan)
    if version is not None:
        return version.number
    if leaf.kind == "DataSourceV2Relation":
        return c.part_read(plan)
    return frozenset(c.files_of(plan).items()) if c.is_file_scan(plan) else None
