"""Tables that were written under capture: a trace of a query that reads one goes on through it.

A write is remembered with the files it made and the query that made them; the query itself is run again when a trace
needs it (what may come out otherwise is written down, see facts.py). A later reading of exactly these files, in this
process or another one with the same store, is exchanged for the query. Where files are not of captured writes, or what
the query read has changed, the trace ends at the table and a note says why. What cannot be followed at all is
remembered too, so that a trace which ends without a note is complete.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from whence.spark.paths import behind_links
from whence.sql import facts, plans
from whence.sql.alike_writes import merged
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, class_name
from whence.sql.certainty import certain, may_be_uncertain, uncertain
from whence.sql.checkpoints import put_back, why_copied
from whence.sql.plans import NotRestored
from whence.sql.row_changes import is_no_witness
from whence.sql.sinks import Stream, any_streams, query_of, stream_to
from whence.sql.targets import Target, place_of
from whence.sql.tree import Node, rebuild, tree_of
from whence.sql.written import Files, Written, as_written, char_types, in_partitions, same_again, settings
from whence.store import Unsigned

_LAYOUT = 2
_JOB = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_WRITTEN_TO = ("DataSourceV2Relation", "HiveTableRelation", "LogicalRelation")
# From so many writes on, looking which of them the asked rows are from takes less time than opening them all.
MANY = 4

# The files of a table that the asked rows are in, where these are all that matters (asked_files.py).
Holding: TypeAlias = "Callable[[], set[str] | None]"


@dataclass(frozen=True, eq=False)
class Write:
    """One captured write. `plan` is there in the process that wrote; `why` says why it cannot be followed."""

    path: str
    files: Files = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    why: str | None = None


@dataclass(eq=False)
class Passage:
    """What was looked through, for one query. `notes`: tables at which the trace ends, and why."""

    notes: list[str]
    # Whether writes whose queries are alike are looked through as one query.
    alike: bool = True
    # Tables that were looked through though their rows need not be those that the query gives now, the query, and the
    # files that it made where it is not all of them.
    pairs: list[tuple[Plan, Plan, frozenset[str] | None]] = field(default_factory=list)
    # Where a question is about all rows of its query: which files of a leaf of a tree they are in.
    asked_files: Callable[[Node, Node], set[str] | None] | None = None
    # Whether writes that the asked rows are not from were left out.
    narrowed: bool = False
    # Whether that is so for the table at hand, and which of its columns are padded (written.char_types).
    unsure: bool = False
    chars: Mapping[str, str] = field(default_factory=dict)
    passed: int = 0
    # The query's own leaves that were looked through and keep versions: what they show may have gone on since.
    followed: list[Node] = field(default_factory=list)
    scans: plans.Scans = field(default_factory=plans.Scans)
    _writes: dict[str, list[Write]] = field(default_factory=dict)

    def writes_to(self, c: Catalyst, place: str) -> list[Write]:
        if place not in self._writes:
            self._writes[place] = _writes(c, place)
        return self._writes[place]

    def end(self, name: str, why: object) -> None:
        note = f"the trace ends at {name}: {why}"
        if note not in self.notes:
            self.notes.append(note)


# --- writing


class Pending:
    """A write that is about to happen. `why`: why a trace will end at it, as the end of a sentence."""

    def __init__(self, c: Catalyst, plan: Plan | None, target: Target, *, before: Files | None = None) -> None:
        self._c = c
        self._target = target
        self.why = target.why
        self._plan: Plan | None = None
        self._bytes: bytes | None = None
        self._told: dict[str, Any] = {}
        if plan is not None and self.why is None:
            try:
                self._prepare(plans.as_read(c, put_back(c, plan)))
            except Exception as problem:
                self.why = f"its query could not be kept ({first_line(problem)})"
        self._before = self._files() if before is None else before

    def _prepare(self, plan: Plan) -> None:
        c = self._c
        tree = tree_of(c, c.normalise(plan))
        self.why = unsettled(c, tree, not certain(tree.plan))
        if self.why is None:
            self._told = {**plans.describe(c, tree), **settings(c)}
            self._plan = plan
            try:
                self._bytes = plans.to_bytes(c, tree)
            except Exception as problem:
                self._told["elsewhere"] = f"its query is known to its own process only ({first_line(problem)})"

    def _files(self) -> dict[str, tuple[int, int]]:
        return self._c.list_files(self._target.place) if self._target.is_directory else {}

    def done(self) -> None:
        c = self._c
        made = {path: version for path, version in self._files().items() if self._before.get(path) != version}
        jobs = {tuple(_JOB.findall(path.rsplit("/", 1)[-1])[:1]) for path in made}
        if self.why is None and not made:
            return
        if self.why is None and len(jobs) > 1:
            self.why = "others wrote there at the same time, so it is not known which files are whose"
        self._keep(self._target.place, {"files": sorted([path, *version] for path, version in made.items())})
        if self.why is None and self._plan is not None and c.memory.made is not None:
            from whence.sql.written_files import products_of  # which asks queries, as this file does for them

            c.memory.made(products_of(c, self._target, self._plan, made))

    def _keep(self, place: str, more: Mapping[str, Any]) -> None:
        c = self._c
        told = {
            "layout": _LAYOUT,
            "columns": list(self._target.columns),
            "files": [],
            "why": self.why,
            "plan": hashlib.sha256(self._bytes).hexdigest() if self._bytes is not None else None,
            **self._told,
            **more,
        }
        stem = f"{_folder(c, place)}/{time.time_ns():020d}-{uuid4().hex[:8]}"
        if self._bytes is not None:
            c.write_bytes(f"{stem}.plan", self._bytes)
        path = f"{stem}.json"
        c.write_bytes(path, c.memory.seal.wrap(_purpose(place, path), json.dumps(told).encode()))
        if self._plan is not None:
            c.memory.writes[path] = self._plan


def remember_unfollowed(c: Catalyst, target: Target, why: str) -> None:
    """That something was written there, after it was: a trace will end there and say so."""
    known: dict[str, tuple[int, int]] = {}
    for write in _writes(c, target.place):
        known.update(write.files)
    Pending(c, None, replace(target, why=target.why or why), before=known).done()


def first_line(problem: Exception) -> str:
    lines = [line.strip(": ") for line in str(problem).splitlines() if line.strip(": ")]
    java = getattr(problem, "java_exception", None)
    return str(java.toString()) if java is not None else lines[0] if lines else type(problem).__name__


def unsettled(c: Catalyst, node: Node, expressions: bool) -> str | None:
    """A query that may come out otherwise tells nothing of what was written, unless that was written down."""
    if node.children and facts.known(c, node.kind, node.plan) is not None:
        return None
    why = uncertain(c, node) if may_be_uncertain(node, expressions) else None
    if why is not None:
        return f"its query may come out otherwise each time, and was not captured ({why.rstrip('.')})"
    found = (unsettled(c, below, expressions) for below in (*node.children, *node.subqueries.values()))
    return next((why for why in found if why is not None), None)


def _folder(c: Catalyst, place: str) -> str:
    return f"{c.memory.folder}/writes/{_hash(place)}"


def _hash(place: str) -> str:
    return hashlib.sha256(place.rstrip("/").encode()).hexdigest()[:24]


def _purpose(place: str, path: str) -> tuple[str, ...]:
    return "captured write", place.rstrip("/"), path.rsplit("/", 1)[-1]


# --- reading


def beneath(c: Catalyst, leaf: Plan, passage: Passage, holding: Holding | None = None) -> Plan | None:
    """What the files that this leaf reads were made from; None when they are a source themselves."""
    if c.version_of(leaf) is not None:
        from whence.sql.lake_writes import beneath_version  # which goes on from version to version as this does

        return beneath_version(c, leaf, passage)
    if c.part_read(leaf):
        if passage.writes_to(c, c.place_of_part(leaf)):
            options = ", ".join(f"{name}={value}" for name, value in c.part_read(leaf))
            passage.end(_name(str(leaf.table().name())), f"only a part of its rows is read ({options})")
        return None
    place = place_of(c, leaf)
    if place is None and not c.is_file_scan(leaf):
        return None
    name = _name(place or ", ".join(c.roots(leaf)))
    writes = [] if place is None else passage.writes_to(c, place)
    if place is not None and not writes and (told := stream_to(c, place)) is not None and c.is_file_scan(leaf):
        return _by_stream(c, leaf, place, told, passage)
    if not writes:
        if c.is_file_scan(leaf) and c.tells_files(leaf) and (other := _written_as(c, leaf)) is not None:
            passage.end(name, f"it, or a part of it, was written under capture as {other}, and is read otherwise")
        elif place is not None and (real := behind_links(place)) is not None and passage.writes_to(c, real):
            passage.end(name, f"it is a link to {real}, which was written under capture: read it by that path")
        return None
    assert place is not None
    passage.unsure, passage.chars = False, char_types(c, leaf) if c.is_file_scan(leaf) else {}
    try:
        if not c.is_file_scan(leaf) or not c.tells_files(leaf):
            raise NotRestored(writes[-1].why or "what is written there is not followed")
        found = _writers(c, place, c.files_of(leaf), passage)
        needed = holding() if holding is not None and len(found.writers) >= MANY else None
        some = found if needed is None else found.of(needed)
        plan = _made_from(c, place, some, c.output(leaf), passage)
    except NotRestored as why:
        passage.end(name, why)
        return None
    passage.passed += 1
    left_out = len(some.writers) < len(found.writers)
    passage.narrowed = passage.narrowed or left_out
    if not same_again(c, leaf) or passage.unsure:
        passage.pairs.append((leaf, plan, some.files if left_out else None))
    return plan


def _by_stream(c: Catalyst, leaf: Plan, place: str, told: Stream, passage: Passage) -> Plan | None:
    """What a stream made its files from: its query over the files that its batches read."""
    passage.unsure, passage.chars = False, char_types(c, leaf)

    def made_from(at: str, files: Files, names: Sequence[Attr]) -> Plan | None:
        return known(c, at, files, names, passage)

    try:
        plan = query_of(c, told, place, c.files_of(leaf), made_from)
        columns = dict(zip(told.told["columns"], c.output(plan), strict=True))
        written = Written(c, place, c.files_of(leaf), told.told, columns, passage.chars)
        shown = as_shown(c, written, c.output(leaf), passage)
    except NotRestored as why:
        passage.end(_name(place), why)
        return None
    passage.passed += 1
    made = c.project(shown, plan)
    if not same_again(c, leaf) or passage.unsure:
        passage.pairs.append((leaf, made, None))
    return made


def as_shown(c: Catalyst, written: Written, attrs: Sequence[Attr], passage: Passage) -> list[Expr]:
    shown = []
    for attr in attrs:
        value, same = as_written(written, attr)
        passage.unsure = passage.unsure or not same
        shown.append(c.alias_as(c.unpushed(value) if written.may_break(attr) else value, attr))
    return shown


def _name(place: str) -> str:
    return place.removeprefix("table:").rstrip("/").rsplit("/", 1)[-1]


@dataclass(frozen=True, eq=False)
class _Writers:
    """The captured writes that made some files, the last one first, each with those of them that are its own.

    `outside`: files that none of them made; `damaged`: why a write may be unknown that made them."""

    writers: Sequence[tuple[Write, set[str]]]
    outside: set[str]
    total: int
    damaged: str | None

    @property
    def files(self) -> frozenset[str]:
        return frozenset().union(*[files for _, files in self.writers])

    def of(self, needed: set[str]) -> _Writers:
        """Those that made one of these; one in any case, for what it reads."""
        some = [(write, files) for write, files in self.writers if not files.isdisjoint(needed)]
        return replace(self, writers=some or self.writers[:1], outside=self.outside & needed)


def _writers(c: Catalyst, place: str, files: Files, passage: Passage) -> _Writers:
    outside = set(files)
    found: list[tuple[Write, set[str]]] = []
    damaged = None
    for write in reversed(passage.writes_to(c, place)):
        left = {path for path, version in write.files.items() if files.get(path) == version}
        if left:
            outside -= left
            found.append((write, left))
        elif not write.files:
            damaged = damaged or write.why
    return _Writers(found, outside, len(files), damaged)


def _made_from(c: Catalyst, place: str, found: _Writers, attrs: Sequence[Attr], passage: Passage) -> Plan:
    """The queries of these writes, as one, under the given attributes."""
    if found.damaged is not None and (found.outside or not found.writers):
        raise NotRestored(found.damaged)
    if found.outside or not found.writers:
        few = f"{len(found.outside)} of its {found.total} files were"
        raise NotRestored(f"{few if found.writers else 'all of its files were'} written outside of any capture")
    many = passage.alike and len(found.writers) >= MANY
    parts, others = _alike(c, place, found, attrs, passage) if many else ([], found.writers)
    return together(c, [*parts, *[_part(c, attrs, *one, place, passage) for one in others]], attrs)


def _alike(
    c: Catalyst, place: str, found: _Writers, attrs: Sequence[Attr], passage: Passage
) -> tuple[list[Plan], list[tuple[Write, set[str]]]]:
    """What writes put there whose queries are alike, and the other writes."""
    whole = [write for write, left in found.writers if write.why is None and len(left) == len(write.files)]

    def again(bare: Node, told: Mapping[str, Any]) -> Plan:
        return plans.from_tree(c, bare, told, partial(known, c, passage=passage), passage.scans)

    parts: list[Plan] = []
    done: set[Write] = set()
    chars, passage.chars = passage.chars, {}
    for one in merged(c, [write.told for write in whole], lambda number: _plan_bytes(c, whole[number]), again, MANY):
        members = [whole[number] for number in one.members]
        own = c.output(one.plan)[: one.width]
        if len(one.told["columns"]) != len(own):
            continue
        columns = dict(zip(one.told["columns"], own, strict=True))
        written = Written(c, place, members[0].files, one.told, columns, chars)
        parts.append(c.project(as_shown(c, written, attrs, passage), one.plan))
        done.update(members)
    passage.chars = chars
    return parts, [(write, left) for write, left in found.writers if write not in done]


def together(c: Catalyst, parts: Sequence[Plan], attrs: Sequence[Attr]) -> Plan:
    """What several writes put there, under the given attributes, which each part has."""
    if len(parts) == 1:
        return parts[0]
    plan = c.union([_anew(c, part) for part in parts])
    return c.project([c.alias_as(h, a) for h, a in zip(c.output(plan), attrs, strict=True)], plan)


def _anew(c: Catalyst, part: Plan) -> Plan:
    """The same under attributes of its own: of one that stands twice in a plan, Spark renames the upper."""
    if class_name(part) != "Project":
        return c.project([c.alias(a, a.name()) for a in c.output(part)], part)
    named = c.items(part.projectList())
    (below,) = c.children(part)
    return c.project([c.alias(e.child() if class_name(e) == "Alias" else e, e.name()) for e in named], below)


def _any_writes(c: Catalyst) -> bool:
    folder = c.memory.folder
    if folder is None or "://" in folder:
        return folder is not None and c.exists(f"{folder}/writes")
    return Path(folder, "writes").is_dir()


def _writes(c: Catalyst, place: str) -> list[Write]:
    """The captured writes to a place, the first one first."""
    if c.memory.folder is None:
        return []
    folder = _folder(c, place)
    names = c.names_in(folder)
    whole = {name.removesuffix(".json") for name in names if name.endswith(".json")}
    halves = {name.removesuffix(".plan") for name in names if name.endswith(".plan")} - whole
    found = [_write(c, place, f"{folder}/{stem}.json") for stem in sorted(whole)]
    incomplete = "what was captured of a write there is incomplete"
    return [*(Write(f"{folder}/{stem}.plan", why=incomplete) for stem in sorted(halves)), *found]


def _write(c: Catalyst, place: str, path: str) -> Write:
    try:
        content = c.read_bytes(path)
        if content is None:
            return Write(path, why="what was captured of a write there is gone")
        told = json.loads(c.memory.seal.unwrap(_purpose(place, path), content))
    except Unsigned as unsigned:
        return Write(path, why=f"what was captured of a write there is not read: {unsigned.why}")
    except (OSError, ValueError):
        return Write(path, why="what was captured of a write there cannot be read")
    if told.get("layout") != _LAYOUT:
        return Write(path, why="what was captured of a write there is of another version of whence")
    files = {file: (length, at) for file, length, at in told["files"]}
    return Write(path, files, told, c.memory.writes.get(path), told["why"])


def _written_as(c: Catalyst, leaf: Plan) -> str | None:
    """A directory above or below the one that is read, to which a captured write put some of the files read."""
    written = set(c.names_in(f"{c.memory.folder}/writes"))
    files = c.files_of(leaf)
    folders: set[str] = set()
    for path in files:
        while "/" in path.rstrip("/") and not path.endswith(":"):
            path = path.rstrip("/").rsplit("/", 1)[0]
            if path in folders:
                break
            folders.add(path)
    known = [folder for folder in sorted(folders) if folder and _hash(folder) in written]
    return next((f for f in known if any(not files.keys().isdisjoint(write.files) for write in _writes(c, f))), None)


def _part(c: Catalyst, attrs: Sequence[Attr], write: Write, left: set[str], place: str, passage: Passage) -> Plan:
    """What one write put there, under the given attributes; of a write that is partly overwritten, what is left."""
    plan, written = restored(c, write, place, passage)
    if len(left) < len(write.files):
        plan = c.filter(in_partitions(written, left), plan)
    return c.project(as_shown(c, written, attrs, passage), plan)


def restored(c: Catalyst, write: Write, place: str, passage: Passage) -> tuple[Plan, Written]:
    """The query of a captured write, and what it wrote."""
    chars, passage.chars = passage.chars, {}  # those of the tables below are not known any more
    if write.why is not None:
        raise NotRestored(write.why)

    def made_from(at: str, files: Files, names: Sequence[Attr]) -> Plan | None:
        return known(c, at, files, names, passage)

    if write.plan is not None:
        tree = tree_of(c, c.normalise(write.plan))
        plan = plans.again(c, tree, write.told, made_from, passage.scans, here=True)
    elif write.told["plan"] is None:
        raise NotRestored(write.told["elsewhere"])
    else:
        plan = plans.from_bytes(c, _plan_bytes(c, write), write.told, made_from, passage.scans)
    columns = write.told["columns"]
    if len(columns) != len(c.output(plan)):
        raise NotRestored("which of its columns were written as which is not known")
    passage.chars = chars
    return plan, Written(c, place, write.files, write.told, dict(zip(columns, c.output(plan), strict=True)), chars)


def _plan_bytes(c: Catalyst, write: Write) -> bytes:
    """The query as bytes, if they are those that were described and signed."""
    try:
        content = c.read_bytes(write.path.removesuffix(".json") + ".plan")
    except OSError as problem:
        raise NotRestored("its query cannot be read from the store") from problem
    if content is None:
        raise NotRestored("its query is no longer in the store")
    if hashlib.sha256(content).hexdigest() != write.told["plan"]:
        raise NotRestored("its query in the store was changed since it was captured")
    return content


def known(c: Catalyst, root: str, files: Files, attrs: Sequence[Attr], passage: Passage) -> Plan | None:
    place = c.qualified(root)
    passage.unsure = True  # what was written there is not there any more to be looked at
    if not passage.writes_to(c, place):
        return None
    return _made_from(c, place, _writers(c, place, files, passage), attrs, passage)


def looked_through(c: Catalyst, plan: Plan, passage: Passage, *, own: bool = True) -> Node:
    """The query's tree with every table that a captured write made exchanged for the query that made it. `own`: whether
    the query is the user's as it stands, and none of its tables was exchanged before."""
    tree = tree_of(c, c.normalise(put_back(c, plan)))
    if not _any_writes(c) and not any_streams(c):
        return tree
    passed = passage.passed

    def replaced(node: Node) -> Plan | None:
        if node.kind == "Given" or is_no_witness(node):  # as far as it was asked to, or may be
            return node.plan
        if node.children and (fact := facts.known(c, node.kind, node.plan)) is not None and not fact.certain:
            # It knows its rows by their place in what it read, so the trace goes no further than that.
            for leaf in node.walk():
                place = place_of(c, leaf.plan) if leaf.kind in _WRITTEN_TO else None
                if place is not None and _writes(c, place):
                    version = c.version_of(leaf.plan)
                    name = _name(place) if version is None else version.shown
                    passage.end(name, "what was captured above it knows its rows by their place in it")
            return node.plan
        if node.kind in _WRITTEN_TO:
            why = why_copied(c, node.plan)
            if why is None:
                asked = passage.asked_files
                below = beneath(c, node.plan, passage, None if asked is None else partial(asked, tree, node))
                if own and below is not None and c.version_of(node.plan) is not None:
                    passage.followed.append(node)
                return below
            passage.end(_name(c.roots(node.plan)[0]), why)
            return None
        if node.kind == "View":
            # Its name is that of the table that was written, not of what this was made from.
            below = rebuild(c, node.children[0], replaced)
            return None if below is node.children[0].plan else below
        return None

    new = rebuild(c, tree, replaced)
    return tree if passage.passed == passed else looked_through(c, new, passage, own=False)
