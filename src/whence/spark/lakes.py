"""Tables that keep versions of themselves, Delta's and Iceberg's: which one a plan reads, and what commits did."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any
from urllib.parse import unquote

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from whence.spark import iceberg_readings
from whence.spark.construct import Plan, class_name, remembered, to_list
from whence.spark.files import Files
from whence.spark.release import Release

DELTA, ICEBERG = "delta", "iceberg"
# The option that tells scans of one place in two states apart (with_mark).
MARK = "whence.state"
# What each format calls a row's own number, and the commit that made or last changed it.
ROW_IDS = {DELTA: ("row_id", "row_commit_version"), ICEBERG: ("_row_id", "_last_updated_sequence_number")}
_DELTA = "org.apache.spark.sql.delta"
_INDEX = "TahoeLogFileIndex"
_SPARK_TABLE = "org.apache.iceberg.spark.source.SparkTable"
_METADATA_TABLE = "org.apache.iceberg.BaseMetadataTable"


@dataclass(frozen=True)
class Version:
    """A version of a table. `number`: Delta's version, or the id of Iceberg's snapshot (0 before the first).

    `table`: the id that the format gave the table; one that is made anew at the same place has another."""

    kind: str
    table: str
    number: int
    # Where the table lies; of Iceberg, whose files may lie where Spark's file systems do not reach, its id.
    place: str
    # By which name it can be opened again; without one, by where it lies.
    name: tuple[str, ...] = ()
    location: str = ""

    @property
    def shown(self) -> str:
        return self.name[-1] if self.name else self.location.rstrip("/").rsplit("/", 1)[-1]

    @property
    def as_text(self) -> str:
        return f"version {self.number}" if self.kind == DELTA else f"snapshot {self.number}"

    def told(self) -> dict[str, Any]:
        return {
            "format": self.kind,
            "id": self.table,
            "version": self.number,
            "place": self.place,
            "name": list(self.name),
            "location": self.location,
        }


def version_told(told: Mapping[str, Any]) -> Version:
    name = tuple(str(part) for part in told["name"])
    return Version(
        str(told["format"]), str(told["id"]), int(told["version"]), str(told["place"]), name, str(told["location"])
    )


@dataclass(frozen=True)
class Commit:
    """What the table's own log says of a version: what was done, at what time (ms), and of which version it has the
    rows, if it has the same rows as another one."""

    operation: str
    at: int
    before: int | None
    same_as: int | None = None
    # How many files of the version before it has not.
    removed: int = 0
    details: Mapping[str, str] = field(default_factory=dict)


class Lakes(Files):
    """What a Catalyst knows of Delta and Iceberg."""

    adapter: Release

    @abstractmethod
    def plan_of(self, df: DataFrame) -> Plan: ...

    @abstractmethod
    def seq(self, items: Any) -> JavaObject: ...

    # --- which version a plan reads

    def version_of(self, leaf: Plan) -> Version | None:
        """The version that a plan was made with; None of other tables, of what Iceberg tells about a table, and where
        only a part of the rows of its versions is read."""
        return remembered(leaf, "version", lambda: self._version_of(leaf))

    def _version_of(self, leaf: Plan) -> Version | None:
        if class_name(leaf) == "DataSourceV2Relation":
            whole = self.is_iceberg(leaf) and not iceberg_readings.part_of(leaf)
            return self._iceberg_version(leaf) if whole else None
        if not self.is_file_scan(leaf) or not self._kind_of_index(leaf).startswith(_INDEX):
            return None
        snapshot = leaf.relation().location().snapshotAtAnalysis()
        (root,) = self.roots(leaf)
        table = leaf.catalogTable()
        name: tuple[str, ...] = ()
        if table.isDefined():
            name = tuple(str(part) for part in to_list(table.get().identifier().nameParts()))
        number = int(snapshot.version())
        return Version(DELTA, str(snapshot.metadata().id()), number, self.qualified(root), name, root)

    def _iceberg_version(self, leaf: Plan) -> Version:
        table = leaf.table().table()
        number = iceberg_readings.snapshot_named(leaf)
        if number is None:
            newest = self._newest_snapshot(leaf)
            number = 0 if newest is None else int(newest.snapshotId())
        uuid = str(table.uuid().toString())
        named = leaf.catalog().isDefined() and leaf.identifier().isDefined()
        name = self.name_parts_of_relation(leaf) if named else []
        return Version(ICEBERG, uuid, number, f"iceberg:{uuid}", tuple(name), str(table.location()))

    def part_read(self, leaf: Plan) -> tuple[tuple[str, str], ...]:
        """The options by which only a part of an Iceberg table's rows is read; empty of all else."""
        return iceberg_readings.part_of(leaf) if self.is_iceberg(leaf) else ()

    def place_of_part(self, leaf: Plan) -> str:
        return self._iceberg_version(leaf).place

    def version_read(self, leaf: Plan) -> Version | None:
        """The version that Spark would read now by a plan, which may be of before the table went on."""
        version = self.version_of(leaf)
        if version is None or version.kind == ICEBERG:
            return None if version is None else self._iceberg_version(leaf)
        snapshots = self.snapshots_of(leaf)
        assert snapshots is not None
        planned, latest = snapshots
        if planned == latest:
            return version
        newest = leaf.relation().location().deltaLog().unsafeVolatileSnapshot()
        return replace(version, number=latest, table=str(newest.metadata().id()))

    def columns_told(self, leaf: Plan) -> dict[str, list[str]]:
        """By the name of each column of a version: what the format itself tells it by, whatever it is called, and its
        type with the same of what is inside. A column that is dropped and added again is another one."""
        return remembered(leaf, "columns_told", lambda: self._columns_told(leaf))

    def _columns_told(self, leaf: Plan) -> dict[str, list[str]]:
        if self.is_iceberg(leaf):
            schema = self._iceberg_schema(leaf)
            return {str(one.name()): [str(one.fieldId()), str(one.type().toString())] for one in schema.columns()}
        fields = json.loads(str(leaf.relation().location().snapshotAtAnalysis().metadata().schemaString()))["fields"]
        told = {}
        for one in fields:
            own = one.get("metadata", {}).get("delta.columnMapping.physicalName", one["name"])
            told[str(one["name"])] = [str(own), json.dumps(one["type"], sort_keys=True)]
        return told

    def _iceberg_schema(self, leaf: Plan) -> Any:
        """A snapshot that is read by its number has the columns of then; a table or branch has those of now."""
        table = leaf.table().table()
        number = iceberg_readings.own_snapshot(leaf)
        if number is None:
            return table.schema()
        known = table.schemas()
        then = table.snapshot(number).schemaId()
        return table.schema() if then is None else known.get(then)

    def schema_number(self, leaf: Plan) -> str:
        """What tells the columns of an Iceberg table that are read from those that it had or will have."""
        table = leaf.table().table()
        return f"{table.schema().schemaId()} {iceberg_readings.own_snapshot(leaf)}"

    def snapshots_of(self, relation: Plan) -> tuple[int, int] | None:
        """Of a Delta table: the version that the plan was made with, and the one that it would read now."""
        if not self.is_file_scan(relation) or not self._kind_of_index(relation).startswith(_INDEX):
            return None
        location = relation.relation().location()
        planned = int(location.snapshotAtAnalysis().version())
        if location.isTimeTravelQuery():
            return planned, planned
        try:
            return planned, int(location.getSnapshot().version())
        except (Py4JJavaError, PySparkException):
            # It is newer, and Delta does not read it with the columns of this plan; -1 if there is none any more.
            return planned, int(location.deltaLog().unsafeVolatileSnapshot().version())

    def is_iceberg(self, relation: Plan) -> bool:
        """Whether this reads the rows of an Iceberg table, not what Iceberg tells about one."""

        def look() -> bool:
            if class_name(relation) != "DataSourceV2Relation":
                return False
            table = relation.table()
            is_table = str(table.getClass().getName()) == _SPARK_TABLE
            return is_table and not self.is_a(table.table(), _METADATA_TABLE)

        return remembered(relation, "is_iceberg", look)

    def iceberg_snapshot(self, relation: Plan) -> tuple[int, int] | None:
        """The newest snapshot of an Iceberg table or branch, which this reads, and its time (ms); None if what is read
        stays the same whatever is committed."""
        if not self.is_iceberg(relation) or iceberg_readings.is_fixed(relation):
            return None
        snapshot = self._newest_snapshot(relation)
        return (0, 0) if snapshot is None else (int(snapshot.snapshotId()), int(snapshot.timestampMillis()))

    def branch_of(self, leaf: Plan) -> str | None:
        """The branch of an Iceberg table that a plan names by itself; None for the main one, or the session's."""
        own = iceberg_readings.own_branch(leaf) if self.is_iceberg(leaf) else None
        return None if own is None or own == iceberg_readings.audited_in(self.spark, leaf) else own

    def _newest_snapshot(self, relation: Plan) -> Any:
        branch = iceberg_readings.branch_named(self.spark, relation)
        table = relation.table().table()
        return table.currentSnapshot() if branch is None else table.snapshot(branch)

    def at_its_snapshot(self, relation: Plan) -> Plan:
        """The same rows of an Iceberg table, whatever is committed while a question is worked out."""
        version = self.version_of(relation)
        if version is None or version.kind != ICEBERG or not version.number:
            return relation
        return remembered(relation, "at_its_snapshot", lambda: self._at_snapshot(relation, version.number))

    def _at_snapshot(self, relation: Plan, number: int) -> Plan:
        table = relation.table()
        inner = table.table()
        if iceberg_readings.is_fixed(relation) or iceberg_readings.is_named_from_outside(self.spark, relation):
            return relation  # it is read so already, or Iceberg takes no second name for what is read
        if inner.snapshot(number).schemaId() != inner.schema().schemaId():
            return relation  # its columns have changed since
        try:
            return self.copy(relation, table=table.copyWithSnapshotId(number))
        except (Py4JError, TypeError):  # another release: what is read is looked at before and after
            return relation

    # --- rows

    def numbered(self, scan: Plan) -> Plan:
        """A scan of Delta's that tells each row's number in its file. Delta has that only where it needs it itself, to
        leave out deleted rows: so the format is told that the table may have such."""
        if self.snapshots_of(scan) is None:
            return scan
        return remembered(scan, "numbered", lambda: self._numbered(scan))

    def _numbered(self, scan: Plan) -> Plan:
        relation = scan.relation()
        layout = relation.fileFormat()
        try:
            delta: Any = self._java
            for part in _DELTA.split("."):
                delta = getattr(delta, part)
            feature = getattr(getattr(delta, "DeletionVectorsTableFeature$"), "MODULE$")
            known = layout.protocol()
            if known.isFeatureSupported(feature):
                return scan
            protocols = getattr(getattr(delta.actions, "Protocol$"), "MODULE$")
            changed = self.copy_product(layout, protocol=known.merge(self.seq([protocols.forTableFeature(feature)])))
            return self.copy(scan, relation=self.copy_product(relation, fileFormat=changed))
        except (Py4JError, TypeError, AttributeError):  # another release: rows are told by their place in the scan
            return scan

    def with_mark(self, scan: Plan, mark: str) -> Plan:
        """The same scan, which Spark takes for another one than those with other marks. To Spark two scans are equal if
        they read the same places in the same way, whatever files each of them has listed there, and of two equal parts
        of a query it computes one."""
        options = scan.relation().options().updated(MARK, mark)
        made: Plan = self.copy(scan, relation=self.copy_product(scan.relation(), options=options))
        for name in ("planned_files", "files_of", "seen"):  # as they were seen first
            if f"whence_{name}" in scan.__dict__:
                made.__dict__[f"whence_{name}"] = scan.__dict__[f"whence_{name}"]
        return made

    def copy_product(self, value: JavaObject, **changes: JavaObject) -> JavaObject:
        """A case class that is no node of a plan, with some of its fields exchanged."""
        names = self.adapter.names_of(value)
        fields = [changes.get(name, value.productElement(i)) for i, name in enumerate(names)]
        if self.is_a(value, "org.apache.spark.sql.execution.datasources.HadoopFsRelation"):
            fields.append(value.sparkSession())
        return value.copy(*fields)

    def row_ids_of(self, leaf: Plan) -> str | None:
        """The format, if the table keeps ids of its rows: they stay with a row wherever its file is rewritten."""
        return remembered(leaf, "row_ids", lambda: self._row_ids_of(leaf))

    def _row_ids_of(self, leaf: Plan) -> str | None:
        version = self.version_of(leaf)
        if version is None and not self.part_read(leaf):
            return None
        if version is not None and version.kind == DELTA:
            told = str(leaf.withMetadataColumns().schema().simpleString())
            return DELTA if all(f"{name}:bigint" in told for name in ROW_IDS[DELTA]) else None
        names = {str(a.name()) for a in to_list(leaf.withMetadataColumns().output())}
        if not set(ROW_IDS[ICEBERG]) <= names:
            return None
        # Of a snapshot from before the table kept row ids, there are none.
        number = self._last_read(leaf) if version is None else version.number
        snapshot = leaf.table().table().snapshot(number) if number else None
        return ICEBERG if snapshot is not None and snapshot.firstRowId() is not None else None

    def _last_read(self, leaf: Plan) -> int:
        """Of a part: the newest snapshot that it has rows of."""
        last = iceberg_readings.options_of(leaf).get("end-snapshot-id")
        return self._iceberg_version(leaf).number if last is None else int(last)

    def same_rows_since(self, leaf: Plan, first: int, last: int) -> bool:
        """Whether version `last` of the table has the rows of version `first`: files were rewritten at most."""
        number: int | None = last
        while number is not None and number != first:
            commit = self.commit_of(leaf, number)
            number = None if commit is None else commit.same_as
        return number == first

    def rewrote_files(self, one: Plan, other: Plan) -> bool:
        """Whether files of the older of two versions of a table are not in the newer one."""
        if not self.is_iceberg(one):
            numbers = [version.number for plan in (one, other) if (version := self.version_of(plan)) is not None]
            older, newer = (one, other) if numbers[0] < numbers[1] else (other, one)
            return not set(self.files(older)) <= set(self.files(newer))
        told = [(self.sequence_of(leaf, version.number), version.number) for leaf in (one, other)
                if (version := self.version_of(leaf)) is not None]  # fmt: skip
        (_, first), (_, last) = sorted(told)
        number: int | None = last
        while number is not None and number != first:
            commit = self.commit_of(one, number)
            if commit is None or commit.removed:
                return True
            number = commit.before
        return number != first

    # --- commits

    def commit_of(self, leaf: Plan, number: int) -> Commit | None:
        """What made a version of the table that `leaf` reads; None if its log does not know (any more)."""
        if not self.is_iceberg(leaf):
            version = self.version_of(leaf)
            assert version is not None
            return self._delta_commit(version.place, number)
        snapshot = leaf.table().table().snapshot(number) if number else None
        if snapshot is None:
            return None
        before = snapshot.parentId()
        same = before if str(snapshot.operation()) == "replace" else None
        details = {str(key): str(value) for key, value in dict(snapshot.summary()).items()}
        at = int(snapshot.timestampMillis())
        removed = int(details.get("deleted-data-files", 0))
        return Commit(str(snapshot.operation()), at, None if before is None else int(before), same, removed, details)

    def snapshot_numbered(self, leaf: Plan, sequence: int) -> int | None:
        """The snapshot of an Iceberg table with this sequence number."""
        table = leaf.table().table()
        for snapshot in list(table.snapshots()):
            if int(snapshot.sequenceNumber()) == sequence:
                return int(snapshot.snapshotId())
        return None

    def sequence_of(self, leaf: Plan, number: int) -> int:
        """The place of an Iceberg snapshot among those of its table."""
        snapshot = leaf.table().table().snapshot(number)
        return -1 if snapshot is None else int(snapshot.sequenceNumber())

    def files_added(self, version: Version) -> list[str] | None:
        """The names of the files that a version of a Delta table has and the one before has not; None if its log does
        not tell (any more)."""
        content = self.read_bytes(f"{version.place}/_delta_log/{version.number:020d}.json")
        if content is None:
            return None
        actions = [json.loads(line) for line in content.decode().splitlines() if line.strip()]
        return [unquote(one["add"]["path"]).rsplit("/", 1)[-1] for one in actions if "add" in one]

    def _delta_commit(self, root: str, number: int) -> Commit | None:
        content = self.read_bytes(f"{root}/_delta_log/{number:020d}.json") if number >= 0 else None
        if content is None:
            return None
        info: dict[str, Any] = {}
        changed, added, removed = False, 0, 0
        for line in content.decode().splitlines():
            action = json.loads(line) if line.strip() else {}
            info = action.get("commitInfo", info)
            told = action.get("add") or action.get("remove") or {}
            changed = changed or bool(told.get("dataChange"))
            added += "add" in action
            removed += "remove" in action
        before = number - 1
        operation = str(info.get("operation", "unknown"))
        details = {str(key): str(value) for key, value in info.get("operationParameters", {}).items()}
        # A clone has the files of another table, which count as no change of data.
        brought = operation == "CLONE" or (before < 0 and added > 0)
        same = None if changed or brought else before
        if operation == "RESTORE" and str(details.get("version", "null")).isdigit():
            same = int(details["version"])
        at = int(info.get("timestamp", 0))
        return Commit(operation, at, before if before >= 0 else None, same, removed, details)

    # --- opened again

    def open_version(self, version: Version) -> Plan | None:
        """A scan of a version of a table; None where it is not there any more."""
        for frame in self._openings(version):
            try:
                plan = self._leaf_of(frame())
            except Exception:  # whatever the format says: its files are gone, the name means another table, ...
                continue
            found = self.version_of(plan)
            if found is not None and (found.table, found.number) == (version.table, version.number):
                return plan
        return None

    def _openings(self, version: Version, branch: str | None = None) -> list[Any]:
        spark = self.spark
        parts = version.name if branch is None else (*version.name, iceberg_readings.part_of_name(branch))
        quoted = ".".join(f"`{part.replace('`', '``')}`" for part in parts) if version.name else ""
        at = f" VERSION AS OF {version.number}" if version.number >= 0 else ""
        by_name = [lambda: spark.sql(f"SELECT * FROM {quoted}{at}")] if quoted else []

        def by_place(option: str) -> DataFrame:
            reader = spark.read.format(version.kind)
            if version.number >= 0:
                reader = reader.option(option, version.number)
            if branch is not None:
                reader = reader.option("branch", branch)
            return reader.load(version.location)

        # Iceberg took an option of its own until its 1.12 for Spark 4.1.
        options = ["versionAsOf"] if version.kind == DELTA or version.number < 0 else ["snapshot-id", "versionAsOf"]
        return [*by_name, *[partial(by_place, option) for option in options]]

    def open_newest(self, version: Version, branch: str | None = None) -> Plan | None:
        """A scan of the table, or of a branch of it, as it is now; None where it is gone, or another one lies there."""
        for frame in self._openings(replace(version, number=-1), branch):
            try:
                plan = self._leaf_of(frame())
            except Exception:
                continue
            found = self.version_of(plan)
            if found is not None and found.table == version.table:
                return plan
        return None

    def reads_version_now(self, leaf: Plan, number: int) -> bool:
        """Whether Spark, given this leaf, would read that version of its table now."""
        if class_name(leaf) == "DataSourceV2Relation":
            return self._iceberg_version(leaf).number == number
        return self.snapshots_of(leaf) == (number, number)

    def has_its_files(self, leaf: Plan) -> bool:
        """Whether the data files of an older version of Delta's are still there; VACUUM removes them."""
        if self.snapshots_of(leaf) is None:
            return True  # Iceberg forgets a snapshot with its files
        paths = self.files(leaf)
        return len(self.statuses_of(paths)) == len(set(paths))

    @abstractmethod
    def files(self, relation: Plan) -> list[str]: ...

    def _leaf_of(self, frame: DataFrame) -> Plan:
        plan = self.plan_of(frame)
        while to_list(plan.children()):
            plan = plan.children().apply(0)
        return plan

    def count_files(self, leaf: Plan) -> int:
        """How many data files the version has that a leaf reads."""
        version = self.version_of(leaf)
        if version is not None and version.kind == ICEBERG:
            commit = self.commit_of(leaf, version.number)
            return 0 if commit is None else int(commit.details.get("total-data-files", 0))
        return len(leaf.relation().location().inputFiles())

    def bytes_of_version(self, leaf: Plan) -> float:
        """How large the data files are of the version that a leaf reads; infinite where that is not told."""
        version = self.version_of(leaf)
        if version is None or version.kind == DELTA:
            return int(leaf.relation().location().sizeInBytes())
        commit = self.commit_of(leaf, version.number)
        if commit is None:
            return inf if version.number else 0
        return float(commit.details.get("total-files-size", inf))

    def opened_path(self, kind: str, path: str) -> Plan | None:
        try:
            leaf = self._leaf_of(self.spark.read.format(kind).load(path))
        except Exception:  # nothing is there yet
            return None
        return leaf if self.version_of(leaf) is not None else None

    def exists_table(self, parts: Iterable[str]) -> bool:
        return bool(self.spark.catalog.tableExists(".".join(f"`{part.replace('`', '``')}`" for part in parts)))
