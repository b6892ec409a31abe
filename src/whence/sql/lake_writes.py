"""Captured writes into tables that keep versions of themselves, Delta's and Iceberg's, and traces through them.

Each captured commit is remembered with the version that it made and what made it: rows that were added to those of the
version before, rows that took the place of all, or a query over the version before (UPDATE, DELETE, MERGE, and writes
that replace a part: row_changes.py). A trace goes from version to version as the table's own log links them; a commit
that only rewrote files has the rows of the one before. What was committed otherwise ends the trace, and it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column

from whence.spark.lake_columns import (
    NULL,
    computed,
    filled_in,
    generated,
    identity_partitions,
    numbered,
    partition_columns,
    value_before,
)
from whence.spark.lakes import DELTA, ICEBERG, Commit, Version
from whence.sql import numbered_rows
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, class_name, id_of
from whence.sql.plans import NotRestored
from whence.sql.row_changes import Change, quoted, table_leaf
from whence.sql.sinks import stream_to
from whence.sql.targets import Replaced, Target
from whence.sql.writes import Passage, Pending, Write, as_shown, first_line, restored, together
from whence.sql.written import Written, char_types, same_again

_APPEND, _OVERWRITE, _MERGE = "append", "overwrite", "merge"
_ENDED = "written outside of any capture"
# What Delta calls the commands that change rows.
_COMMANDS = {"update": "UPDATE", "delete": "DELETE", "merge": "MERGE"}


# --- writing


def pending_write(c: Catalyst, plan: Plan | None, target: Target) -> Pending:
    if not target.keeps_versions or plan is None:
        return Pending(c, plan, target)
    leaf = _opened(c, target)
    if leaf is None and target.table and c.exists_table(target.table):
        return Pending(c, plan, target)  # of a catalogue whose tables keep no versions that are known here
    return VersionPending(c, plan, target, leaf)


def pending_change(c: Catalyst, change: Change) -> Pending:
    version = c.version_of(change.leaf)
    assert version is not None
    columns = tuple(str(a.name()) for a in c.output(change.leaf))
    target = Target(version.place, version.shown, columns, change.why, version.kind, keeps_versions=True)
    return VersionPending(c, change.after, target, change.leaf, operation=change.operation, numbered=change.numbered)


def _opened(c: Catalyst, target: Target) -> Plan | None:
    """What reads the target, if it is there and keeps versions."""
    if target.table:
        return table_leaf(c, quoted(target.table))
    return c.opened_path(str(target.format), target.place)


class VersionPending(Pending):
    """A write that is about to make a version of a table. `leaf` reads it as it is; None if it is not there yet."""

    def __init__(
        self,
        c: Catalyst,
        plan: Plan | None,
        target: Target,
        leaf: Plan | None,
        *,
        operation: str | None = None,
        numbered: Sequence[str] = (),
    ) -> None:
        self._leaf = leaf
        self._former = None if leaf is None else c.version_of(leaf)
        self._files_before = 0 if leaf is None else c.count_files(leaf)
        self._operation = operation
        self._numbered = numbered
        self._of_a_part: Pending | None = None
        self._unfollowed = target.why if operation is None else None
        super().__init__(c, plan, target if operation is not None else replace(target, why=None), before={})
        self._is_of_a_part = target.by_partition or _is_condition(target.replaced)
        if leaf is not None and plan is not None and operation is None and self.why is None and self._is_of_a_part:
            after = _replacing_a_part(c, leaf, plan, target)
            if isinstance(after, str):
                self._part_why = after
            else:
                part = replace(target, why=None, columns=tuple(str(a.name()) for a in c.output(leaf)))
                self._of_a_part = Pending(c, after, part, before={})

    _part_why = "it replaced a part of the table, and which part is not known"

    def _files(self) -> dict[str, tuple[int, int]]:
        return {}

    def done(self) -> None:
        c = self._c
        leaf = self._written() or _opened(c, self._target)
        version = None if leaf is None else c.version_of(leaf)
        if leaf is None or version is None:
            self.why = self._unfollowed or "what was written there cannot be opened"
            self._keep(self._target.place, {})
            return
        former = self._former
        if former is not None and (former.table, former.number) == (version.table, version.number):
            return  # nothing was changed
        version = self._own(leaf, version)
        commit = c.commit_of(leaf, version.number)
        kind = self._did(version, commit)
        kept: Pending = self if kind != "replace" or self._of_a_part is None else self._of_a_part
        if kind is None and self.why is None:
            self.why = self._others(version, commit) or self._part_why
        kept.why = kept.why or self.why
        kept._keep(
            version.place,
            {
                "version": version.told(),
                "before": None if former is None or former.table != version.table else former.number,
                "operation": kind,
                "table_columns": c.columns_told(leaf),
                "partitions": partition_columns(c, leaf),
                "filled_in": filled_in(c, leaf),
                "generated": generated(c, leaf),
                "numbered": list(self._numbered) if self._operation is not None else self._left_out(leaf),
            },
        )

    def _written(self) -> Plan | None:
        """A scan of the table, or of the branch of it, that was there before, as it is now."""
        if self._leaf is None or self._former is None:
            return None
        return self._c.open_newest(self._former, self._c.branch_of(self._leaf))

    def _left_out(self, leaf: Plan) -> list[str]:
        """Columns by which the table numbers its rows, if the write left them out."""
        given = {name.lower() for name in self._target.columns}
        return [name for name in numbered(self._c, leaf) if name.lower() not in given]

    def _own(self, leaf: Plan, version: Version) -> Version:
        """The version that this made: Delta may rewrite files right afterwards by itself (auto compaction)."""
        first = 0 if self._former is None else self._former.number + 1
        while version.kind == DELTA and version.number > first:
            commit = self._c.commit_of(leaf, version.number)
            if commit is None or commit.same_as != version.number - 1:
                break
            version = replace(version, number=version.number - 1)
        return version

    def _did(self, version: Version, commit: Commit | None) -> str | None:
        """What the commit was, if it is known to be this one and whole."""
        if commit is None or self.why is not None or self._others(version, commit) is not None:
            return None
        if self._operation is not None:
            return self._operation
        if not commit.removed:
            # Iceberg begins anew with a table that is replaced, and removes nothing.
            return _OVERWRITE if version.kind == ICEBERG and commit.before is None else _APPEND
        if self._is_of_a_part:
            return "replace" if self._of_a_part is not None else None
        return _OVERWRITE if commit.removed == self._files_before else None

    def _others(self, version: Version, commit: Commit | None) -> str | None:
        """Why it is not known that this version is what this write made."""
        why = "others wrote there at the same time, so it is not known which version is whose"
        former = self._former
        if commit is None:
            return "its log does not tell how it was written"
        if version.kind == DELTA:
            expected = 0 if former is None else former.number + 1
            if self._operation is not None and commit.operation != _COMMANDS[self._operation]:
                return why
            return None if version.number == expected else why
        here = str(self._c.spark.sparkContext.applicationId)
        parent = 0 if former is None else former.number
        ours = commit.details.get("spark.app.id", here) == here and (commit.before or 0) in (parent, 0)
        return None if ours else why


def _is_condition(replaced: Replaced) -> bool:
    return isinstance(replaced, str | Column) or (replaced is not None and str(replaced.toString()) != "true")


def _replacing_a_part(c: Catalyst, leaf: Plan, plan: Plan, target: Target) -> Plan | str:
    """What the table holds when the write has replaced the rows that meet a condition, or those of its partitions; or
    why that cannot be told."""
    attrs = {str(a.name()).lower(): a for a in c.output(leaf)}
    given = dict(zip((name.lower() for name in target.columns), c.output(plan), strict=False))
    if any(name not in attrs for name in given):
        return "it replaced a part of the table and changed its columns"
    if len(given) < len(attrs):
        return "it replaced a part of the table and left out some of its columns"
    new = c.project([c.alias(c.cast(given[name], a), a.name()) for name, a in attrs.items()], plan)
    try:
        if target.by_partition:
            names = [name.lower() for name in partition_columns(c, leaf) or identity_partitions(c, leaf)]
            if not names:
                return "it replaced partitions of the table, which are not those of single columns"
            by_name = dict(zip(attrs, c.output(new), strict=True))
            test = c.conjunction([c.same(attrs[name], by_name[name]) for name in names])
            kept = c.join(leaf, new, "leftanti", test)
        else:
            condition = _condition(c, leaf, target.replaced, attrs)
            kept = c.filter(c.negation(c.expression("EqualNullSafe", condition, c.true)), leaf)
        shown = c.project([c.alias(a, a.name()) for a in attrs.values()], kept)
        return c.plan_of(c.frame(c.union([shown, new])))
    except Exception as problem:
        return f"which part of the table it replaced could not be told ({first_line(problem)})"


def _condition(c: Catalyst, leaf: Plan, replaced: Replaced, attrs: dict[str, Attr]) -> Expr:
    if isinstance(replaced, str | Column):
        return c.plan_of(c.frame(leaf).where(replaced)).condition()

    def own(expr: Expr) -> Expr | None:
        return attrs[str(expr.name()).lower()] if class_name(expr) == "AttributeReference" else None

    assert replaced is not None
    return c.exchanged_in(replaced, own)


# --- reading


def beneath_version(c: Catalyst, leaf: Plan, passage: Passage) -> Plan | None:
    """What the rows of this version were made from; None when it is a source itself."""
    version = c.version_of(leaf)
    assert version is not None
    writes = passage.writes_to(c, version.place)
    if not writes:
        if stream_to(c, version.place) is not None:
            passage.end(
                version.shown, "a captured stream wrote it, which is not followed into tables that keep versions"
            )
        return None
    known = {_number(write): write for write in writes if _number(write, version.table) is not None}
    lost = next((write.why for write in writes if not write.told), None)
    passage.unsure, passage.chars = False, char_types(c, leaf) if c.is_file_scan(leaf) else {}
    attrs = c.output(leaf)
    parts: list[Plan] = []
    number: int | None = version.number
    while number is not None and number > (-1 if version.kind == DELTA else 0):
        try:
            write = known.get(number)
            before = _keeps_rows(c, leaf, number, lost) if write is None else write.told["before"]
            if write is not None:
                parts.append(_part(c, write, leaf, passage))
                before = before if write.told["operation"] == _APPEND else None
        except NotRestored as why:
            passage.end(version.shown, f"its {replace(version, number=number).as_text}: {why}")
            base = None if not parts else c.open_version(replace(version, number=number))
            under = _under(c, base, leaf, passage) if base is not None and c.has_its_files(base) else None
            if under is None:
                return None
            parts.append(under)
            break
        number = before
    if not parts:  # a table without rows
        return None
    plan = together(c, parts, attrs)
    passage.passed += 1
    if passage.unsure or not same_again(c, leaf):
        passage.pairs.append((leaf, plan, None))
    return plan


def made_by(c: Catalyst, leaf: Plan, number: int) -> Plan:
    """The query of the captured commit that made a version of the table, under the attributes of `leaf`: its own rows,
    not those that were there before. Raises NotRestored where that is not known."""
    version = c.version_of(leaf)
    assert version is not None
    passage = Passage([])
    written = (write for write in passage.writes_to(c, version.place) if _number(write, version.table) == number)
    write = next(written, None)
    if write is None:
        raise NotRestored(f"it was {_ENDED}")
    return _part(c, write, leaf, passage)


def _number(write: Write, table: str | None = None) -> int | None:
    told = write.told.get("version")
    if told is None or (table is not None and told["id"] != table):
        return None
    return int(told["version"])


def _keeps_rows(c: Catalyst, leaf: Plan, number: int, lost: str | None) -> int:
    """The version whose rows this one has too, which was not made under capture."""
    commit = c.commit_of(leaf, number)
    if commit is None:
        raise NotRestored(lost or f"it was {_ENDED}, and its log does not tell how")
    if commit.same_as is None:
        raise NotRestored(lost or f"it was {_ENDED} ({commit.operation})")
    return commit.same_as


def _part(c: Catalyst, write: Write, leaf: Plan, passage: Passage) -> Plan:
    if write.why is not None or write.told["operation"] is None:
        raise NotRestored(write.why or "what it did is not known")
    version = c.version_of(leaf)
    assert version is not None
    plan, written = restored(c, write, version.place, passage)
    called = _as_called_now(c, written, leaf, passage)
    if any(str(attr.name()) in called.told.get("numbered", ()) for attr in c.output(leaf)):
        made = _numbered(c, write, called, plan, leaf, passage)
    else:
        made = _shown(c, called, plan, c.output(leaf), passage)
    # What was rebuilt from the words of a command is held against the rows that the command made.
    passage.unsure = passage.unsure or write.told["operation"] not in (_APPEND, _OVERWRITE)
    return made


def _numbered(c: Catalyst, write: Write, written: Written, plan: Plan, leaf: Plan, passage: Passage) -> Plan:
    """What was written, under the table's columns, with the numbers that the table gave its rows."""
    operation, attrs, number = write.told["operation"], c.output(leaf), _number(write)
    version = c.version_of(leaf)
    assert version is not None
    assert number is not None
    version = replace(version, number=number)
    lacking = [attr for attr in attrs if str(attr.name()) in written.told["numbered"]]
    names = [str(attr.name()) for attr in lacking]
    given = [attr for attr in attrs if str(attr.name()) not in names]
    passage.unsure = True
    if operation == _MERGE:  # which left rows alone and changed others, that had their numbers
        kept, inserted = _kept_and_inserted(c, written, plan)
        left = _shown(c, kept[1], kept[0], attrs, passage)
        added = _shown(c, inserted[1], inserted[0], given, passage)
        scan, rows = numbered_rows.new(c, leaf, version, write.told["before"], names)
        return together(c, [left, numbered_rows.numbered_by_table(c, added, given, lacking, leaf, rows, scan)], attrs)
    made = _shown(c, written, plan, given, passage)
    scan, rows = numbered_rows.added(c, version) if operation == _APPEND else numbered_rows.whole(c, version)
    return numbered_rows.numbered_by_table(c, made, given, lacking, leaf, rows, scan)


def _kept_and_inserted(c: Catalyst, written: Written, plan: Plan) -> list[tuple[Plan, Written]]:
    """What a MERGE left, and what it inserted, which comes last (row_changes.py). Each stands once in the whole: else a
    chain of MERGEs would double with every one."""
    parts = c.children(plan)
    if class_name(plan) != "Union" or len(parts) < 2:
        raise NotRestored("which rows its MERGE inserted is not known")
    places = {id_of(attr): n for n, attr in enumerate(c.output(plan))}
    found = []
    for part in (parts[0] if len(parts) == 2 else c.union(parts[:-1]), parts[-1]):
        own = c.output(part)
        columns = {name: own[places[id_of(attr)]] for name, attr in written.columns.items()}
        found.append((part, replace(written, columns=columns)))
    return found


def _shown(c: Catalyst, written: Written, plan: Plan, attrs: Sequence[Attr], passage: Passage) -> Plan:
    """What was written, under the table's columns; those that it left to the table to compute are computed anew."""
    told = written.told.get("generated", {})
    computes = {name: text for name, text in told.items() if written.column(name) is None}
    given = [attr for attr in attrs if attr.name() not in computes]
    made = c.project(as_shown(c, written, given, passage), plan)
    if len(given) == len(attrs):
        return made
    by_name = {str(attr.name()).lower(): attr for attr in given}
    columns: list[Expr] = []
    for attr in attrs:
        text = computes.get(str(attr.name()))
        value = attr if text is None else computed(c, text, lambda name: by_name.get(name.lower()))
        if value is None:
            raise NotRestored(f"its column {attr.name()} is not one that was written")
        columns.append(attr if text is None else c.alias_as(c.cast(value, attr), attr))
    passage.unsure = True
    return c.plan_of(c.frame(c.project(columns, made)))


def _as_called_now(c: Catalyst, written: Written, leaf: Plan, passage: Passage) -> Written:
    """What was written, under the names that the table's columns have now."""
    then, now = written.told.get("table_columns"), c.columns_told(leaf)
    for attr in c.output(leaf):
        if str(attr.name()) not in now:  # _metadata, _file, ...
            raise NotRestored(f"{attr.name()} is no column of it, and tells of its files")
    if then is None or then == now:
        passage.unsure = passage.unsure or then is None
        return written
    names = {told[0]: name for name, told in now.items()}
    before = {told[0] for told in then.values()}
    values = {name: value_before(c, leaf, own) for name, (own, _) in now.items() if own not in before}
    called: dict[str, str] = {}
    for name, (own, kind) in then.items():
        if own in names:
            called[name] = names[own]
            passage.unsure = passage.unsure or now[names[own]][1] != kind
    alike = {name.lower(): name for name in then}
    columns = {}
    for name, attr in written.columns.items():
        column = name if name in then else alike.get(name.lower(), name)
        if column in called:
            columns[called[column]] = attr
    told = {**written.told}
    for what in ("partitions", "filled_in", "numbered"):
        told[what] = [called[name] for name in told.get(what, ()) if name in called]
    # Columns that the table has got since, with a value for the rows that were there.
    told["filled_in"] += [name for name, value in values.items() if value is None]
    defaults = {name: value for name, value in values.items() if value not in (None, NULL)}
    told["generated"] = {**told.get("generated", {}), **defaults}
    return replace(written, columns=columns, told=told)


def _under(c: Catalyst, scan: Plan, leaf: Plan, passage: Passage) -> Plan | None:
    """An older version, under the columns of a later one; None where one of them has other fields by now."""
    then, now = c.columns_told(scan), c.columns_told(leaf)
    names = {told[0]: name for name, told in then.items()}
    by_name: dict[str, Any] = {str(a.name()): a for a in c.output(scan)}
    columns = []
    for attr in c.output(leaf):
        own, kind = now[str(attr.name())]
        value = by_name.get(names.get(own, ""))
        if value is None:  # the table has got the column since, perhaps with a value for the rows that were there
            text = value_before(c, leaf, own)
            if text is None:
                return None
            value, passage.unsure = c.cast(c.parse(text), attr), True
        elif not c.can_cast(value, attr):
            return None
        elif then[names[own]][1] != kind:
            value, passage.unsure = c.cast(value, attr), True
        columns.append(c.alias_as(value, attr))
    return c.project(columns, scan)
