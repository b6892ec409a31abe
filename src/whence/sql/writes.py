"""Tables that were written under capture: a trace of a query that reads one goes on through it.

A write is remembered with the files it made and the query that made them; the query itself is run again when a trace
needs it (what may come out otherwise is written down, see facts.py). A later reading of exactly these files, in this
process or another one with the same store, is exchanged for the query. Where files are not of captured writes, or what
the query read has changed, the trace ends at the table and a note says why.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from whence.model import StoreError
from whence.sql import facts, plans
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan
from whence.sql.certainty import certain, may_be_uncertain, uncertain
from whence.sql.checkpoints import put_back
from whence.sql.plans import NotRestored
from whence.sql.tree import Node, rebuild, tree_of

_LAYOUT = 1
_JOB = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Written and read again, values of these types are the same to the bit, and so they are when they are computed again.
_SAME_AGAIN = ("boolean", "tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "binary")
_KEEP_VALUES = ("parquet", "orc")
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"

Files = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Write:
    """One captured write. `plan` is there in the process that wrote."""

    path: str
    files: Files
    columns: tuple[str, ...]
    told: Mapping[str, Any]
    plan: Plan | None = None


@dataclass(eq=False)
class Passage:
    """What was looked through, for one query. `notes`: tables at which the trace ends, and why."""

    notes: list[str]
    # Whether the rows of a table that was looked through must be compared with those that its query gives now.
    compare: bool = False
    passed: int = 0


# --- writing


class Pending:
    """A write that is about to happen."""

    def __init__(self, c: Catalyst, plan: Plan, root: str, columns: Sequence[str]) -> None:
        self._c = c
        self._root = c.qualified(root)
        self._columns = tuple(columns)
        self._plan = plan
        tree = tree_of(c, c.normalise(plan))
        _require_settled(c, tree, not certain(tree.plan))
        self._bytes = plans.to_bytes(c, tree)
        self._told = plans.describe(c, tree)
        self._before = c.list_files(self._root)

    def done(self) -> None:
        c = self._c
        after = c.list_files(self._root)
        made = {path: version for path, version in after.items() if self._before.get(path) != version}
        jobs = {tuple(_JOB.findall(path.rsplit("/", 1)[-1])[:1]) for path in made}
        if not made or len(jobs) > 1:
            return  # nothing, or somebody else wrote there at the same time: which files are whose is not known
        told = {
            "layout": _LAYOUT,
            "root": self._root,
            "columns": list(self._columns),
            "files": sorted([path, *version] for path, version in made.items()),
            **self._told,
        }
        path = f"{_folder(c, self._root)}/{time.time_ns():020d}-{uuid4().hex[:8]}"
        c.write_bytes(f"{path}.plan", self._bytes)
        c.write_text(f"{path}.json", json.dumps(told))
        c.memory.writes[f"{path}.json"] = self._plan


def _require_settled(c: Catalyst, node: Node, expressions: bool) -> None:
    """A query that may come out otherwise tells nothing of what was written, unless that was written down."""
    if node.children and facts.known(c, node.kind, node.plan) is not None:
        return
    why = uncertain(c, node) if may_be_uncertain(node, expressions) else None
    if why is not None:
        raise StoreError(f"{why} It was not captured, so a trace ends at what is written here.")
    for below in (*node.children, *node.subqueries.values()):
        _require_settled(c, below, expressions)


def _folder(c: Catalyst, root: str) -> str:
    return f"{c.memory.folder}/writes/{hashlib.sha256(root.encode()).hexdigest()[:24]}"


# --- reading


def beneath(c: Catalyst, leaf: Plan, passage: Passage) -> Plan | None:
    """What the files that this leaf reads were made from; None when they are a source themselves."""
    roots = c.roots(leaf)
    if len(roots) != 1 or not c.tells_files(leaf) or not _writes(c, roots[0]):
        return None
    name = roots[0].rstrip("/").rsplit("/", 1)[-1]
    try:
        plan = _made_from(c, roots[0], c.files_of(leaf), c.output(leaf), passage)
    except NotRestored as why:
        passage.notes.append(f"the trace ends at {name}: {why}")
        return None
    passage.passed += 1
    passage.compare = passage.compare or not _same_again(c, leaf)
    return plan


def _made_from(c: Catalyst, root: str, files: Files, attrs: Sequence[Attr], passage: Passage) -> Plan:
    """The queries that made these files, as one, under the given attributes."""
    rest = dict(files)
    parts: list[Plan] = []
    for write in reversed(_writes(c, root)):
        left = {path for path, version in write.files.items() if files.get(path) == version}
        if left:
            for path in left:
                rest.pop(path, None)
            parts.append(_part(c, attrs, write, left, root, passage))
    if rest or not parts:
        what = "all of its files were" if not parts else f"{len(rest)} of its {len(files)} files were"
        raise NotRestored(f"{what} written outside of any capture")
    if len(parts) == 1:
        return parts[0]
    heads = [c.alias(a, a.name()) for a in c.output(parts[0])]
    others = [c.project([c.alias(a, a.name()) for a in c.output(part)], part) for part in parts[1:]]
    plan = c.union([c.project(heads, parts[0]), *others])
    return c.project([c.alias_as(h.toAttribute(), a) for h, a in zip(heads, attrs, strict=True)], plan)


def _any_writes(c: Catalyst) -> bool:
    folder = c.memory.folder
    if folder is None or "://" in folder:
        return folder is not None and c.exists(f"{folder}/writes")
    return Path(folder, "writes").is_dir()


def _writes(c: Catalyst, root: str) -> list[Write]:
    found: list[Write] = []
    if c.memory.folder is None:
        return found
    folder = _folder(c, c.qualified(root))
    for name in c.names_in(folder):
        if not name.endswith(".json"):
            continue
        path = f"{folder}/{name}"
        told = json.loads(c.read_text(path) or "{}")
        if told.get("layout") == _LAYOUT:
            files = {file: (length, at) for file, length, at in told["files"]}
            found.append(Write(path, files, tuple(told["columns"]), told, c.memory.writes.get(path)))
    return found


def _part(c: Catalyst, attrs: Sequence[Attr], write: Write, left: set[str], root: str, passage: Passage) -> Plan:
    """What one write put there, under the given attributes; of a write that is partly overwritten, what is left."""
    if write.plan is not None:
        tree = tree_of(c, c.normalise(write.plan))
        plan = plans.again(
            c, tree, write.told, lambda at, files, names: _known(c, at, files, names, passage), here=True
        )
    else:
        content = c.read_bytes(write.path.removesuffix(".json") + ".plan")
        if content is None:
            raise NotRestored("its query is no longer in the store")
        plan = plans.from_bytes(c, content, write.told, lambda at, files, names: _known(c, at, files, names, passage))
    if len(write.columns) != len(c.output(plan)):
        raise NotRestored("which of its columns were written as which is not known")
    by_name = {name.lower(): a for name, a in zip(write.columns, c.output(plan), strict=True)}
    if len(left) < len(write.files):
        plan = c.filter(_in_partitions(c, write, left, root, by_name), plan)
    columns = []
    for attr in attrs:
        source = by_name.get(attr.name().lower())
        if source is None:
            raise NotRestored(f"its column {attr.name()} is not one that was written")
        same = bool(source.dataType().equals(attr.dataType()))
        passage.compare = passage.compare or not same
        columns.append(c.alias_as(source if same else c.cast(source, attr), attr))
    return c.project(columns, plan)


def _known(c: Catalyst, root: str, files: Files, attrs: Sequence[Attr], passage: Passage) -> Plan | None:
    passage.compare = True  # what was written there is not there any more to be looked at
    return _made_from(c, root, files, attrs, passage) if _writes(c, root) else None


def _in_partitions(c: Catalyst, write: Write, left: set[str], root: str, by_name: Mapping[str, Attr]) -> Expr:
    """Of a write whose partitions were overwritten in part: the rows of those that are left."""
    base = c.qualified(root).rstrip("/")
    folders: dict[str, set[str]] = {}
    for path in write.files:
        folders.setdefault(path.rsplit("/", 1)[0], set()).add(path)
    conditions = []
    for folder, paths in folders.items():
        if paths.isdisjoint(left):
            continue
        steps = [step.partition("=") for step in folder.removeprefix(base).strip("/").split("/")]
        if not paths <= left or any(not value or name.lower() not in by_name for name, _, value in steps):
            raise NotRestored("a part of what was written there was changed or removed since")
        tests = []
        for name, _, value in steps:
            attr = by_name[name.lower()]
            text = None if value == _NO_PARTITION else unquote(value)
            tests.append(c.text_is(attr, text))
        conditions.append(c.conjunction(tests))
    return c.disjunction(conditions)


def _same_again(c: Catalyst, leaf: Plan) -> bool:
    kinds = [a.dataType().catalogString() for a in c.output(leaf)]
    return c.format_of(leaf) in _KEEP_VALUES and all(k in _SAME_AGAIN or k.startswith("decimal(") for k in kinds)


def looked_through(c: Catalyst, plan: Plan, passage: Passage) -> Node:
    """The query's tree with every table that a captured write made exchanged for the query that made it."""
    tree = tree_of(c, c.normalise(put_back(c, plan)))
    if not _any_writes(c):
        return tree
    passed = passage.passed

    def replaced(node: Node) -> Plan | None:
        if node.kind == "Given":  # by a trace, which went as far as it was asked to
            return node.plan
        if node.children and (fact := facts.known(c, node.kind, node.plan)) is not None and not fact.certain:
            # It knows its rows by their place in what it read, so the trace goes no further than that.
            return node.plan
        if node.kind == "LogicalRelation" and c.is_file_scan(node.plan):
            return beneath(c, node.plan, passage)
        if node.kind == "View":
            # Its name is that of the table that was written, not of what this was made from.
            below = rebuild(c, node.children[0], replaced)
            return None if below is node.children[0].plan else below
        return None

    new = rebuild(c, tree, replaced)
    return tree if passage.passed == passed else looked_through(c, new, passage)
