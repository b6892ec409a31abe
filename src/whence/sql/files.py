"""The files behind a plan, and the file systems they lie on: the half of catalyst.py that knows Hadoop's classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError

from whence.model.redact import names_secret, redact
from whence.sql import statuses
from whence.sql.making import Plan, class_name, remembered, to_list
from whence.sql.statuses import Listing, Status
from whence.store import private

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RELATION = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_ETAGS = "org.apache.hadoop.fs.EtagSource"


def _local(text: str) -> Path | None:
    """Paths of the store's own, if they need no file system of Hadoop's."""
    return None if ":" in text else Path(text)


class Files(ABC):
    """What a Catalyst knows of files."""

    spark: SparkSession
    _hadoop: tuple[Any, Any] | None = None
    _jvm: Any
    _with_subquery: JavaObject

    @property
    def _java(self) -> Any:
        return self.spark._jvm

    @abstractmethod
    def is_a(self, value: object, java_class: str) -> bool: ...

    # --- behind a plan

    def leaves(self, plan: Plan) -> list[Plan]:
        """Also those of its subqueries."""
        found = to_list(plan.collectLeaves())
        if plan.containsPattern(self._with_subquery):
            for below in to_list(plan.subqueriesAll()):
                found += to_list(below.collectLeaves())
        return found

    def file_leaves(self, plan: Plan) -> list[Plan]:
        return [leaf for leaf in self.leaves(plan) if self.is_file_scan(leaf)]

    def is_file_scan(self, leaf: Plan) -> bool:
        return remembered(leaf, "is_file_scan", lambda: self._is_file_scan(leaf))

    def _is_file_scan(self, leaf: Plan) -> bool:
        return class_name(leaf) == "LogicalRelation" and self.is_a(leaf.relation(), _RELATION)

    def format_of(self, leaf: Plan) -> str:
        return str(leaf.relation().toString()).lower()

    def options_of(self, leaf: Plan, *, secrets: bool = False) -> dict[str, str]:
        """How the files are to be read. What is or holds a secret is left out, or, with `secrets`, is there too and all
        names are in lower case, for comparing."""
        found = leaf.relation().options()
        keys = [str(key) for key in to_list(found.keys().toSeq())]
        if secrets:
            return {key.lower(): str(found.apply(key)) for key in keys}
        told = {key: str(found.apply(key)) for key in keys if key not in ("path", "paths") and not names_secret(key)}
        return {key: value for key, value in told.items() if redact(value) == value}

    def reads_alike(self, one: Plan, other: Plan) -> bool:
        """Whether two scans of files give a row the same values."""
        here, there = one.relation(), other.relation()
        return (
            bool(here.dataSchema().equals(there.dataSchema()))
            and bool(here.partitionSchema().equals(there.partitionSchema()))
            and self.options_of(one, secrets=True) == self.options_of(other, secrets=True)
        )

    def empty_like(self, leaf: Plan) -> Plan:
        """A relation with the same attributes and no rows, which needs no session."""
        relation: Any = self._java.org.apache.spark.sql.catalyst.plans.logical
        module = getattr(getattr(relation, "LocalRelation$"), "MODULE$")
        return module.apply(leaf.output())

    def serialised(self, plan: Plan) -> bytes:
        io: Any = self._java.java.io
        buffer = io.ByteArrayOutputStream()
        out = io.ObjectOutputStream(buffer)
        out.writeObject(plan)
        out.close()
        return bytes(buffer.toByteArray())

    def deserialised(self, content: bytes) -> Plan:
        io: Any = self._java.java.io
        return io.ObjectInputStream(io.ByteArrayInputStream(bytearray(content))).readObject()

    def numbers_rows(self, leaf: Plan) -> bool:
        """Whether the format of these files tells each row's number in its file."""
        return self.format_of(leaf) == "parquet"

    # --- which files a plan reads, and what they are

    def planned_files(self, relation: Plan) -> Listing:
        """Length and modification time of each file as planned; empty if the plan lists files only when run."""
        return remembered(relation, "planned_files", lambda: self._planned_files(relation))

    def _planned_files(self, relation: Plan) -> Listing:
        return self._listed(relation.relation().location().allFiles()) if self._lists_itself(relation) else {}

    def files_of(self, relation: Plan) -> Listing:
        """The files as planned, or, where the plan lists files only when run, as they were when first asked for."""
        if self._lists_itself(relation):
            return self.planned_files(relation)
        return remembered(relation, "files_of", lambda: self.files_now(relation))

    def files_now(self, relation: Plan) -> Listing:
        """The files that the plan would read now: Spark may have exchanged its listing for a newer one."""
        if self._lists_itself(relation):
            return self._planned_files(relation)
        if self.tells_files(relation):
            all_partitions = self._java.org.apache.spark.api.python.PythonUtils.toSeq([])
            return self._listed(relation.relation().location().filterPartitions(all_partitions).allFiles())
        found: dict[str, tuple[int, int]] = {}
        for root in self.roots(relation):
            found.update(self.list_files(root))
        return found

    def _listed(self, files: JavaObject) -> Listing:
        """A sequence of statuses, in one round trip."""
        count = int(files.size())
        told = str(files.mkString(statuses.BETWEEN)).split(statuses.BETWEEN) if count else []
        found = [statuses.parse(text) for text in told]
        if len(found) == count and None not in found:
            return {path: (length, modified) for path, _, length, modified in filter(None, found)}
        every = to_list(files)
        return {str(s.getPath().toString()): (int(s.getLen()), int(s.getModificationTime())) for s in every}

    def current_files(self, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Length and modification time as they are now; a file that is gone is left out."""
        return {path: status.version for path, status in self.statuses_of(paths).items()}

    def statuses_of(self, paths: Iterable[str]) -> dict[str, Status]:
        """What the file system tells of these files now; one that is gone is left out."""
        found, others = statuses.on_this_machine(paths)
        wanted = set(others)
        for folder in sorted({path.rsplit("/", 1)[0] for path in others}):
            path, system = self._place(folder)
            if not system.exists(path):
                continue
            for status in list(system.listStatus(path)):
                name = str(status.getPath().toString())
                if name in wanted:
                    tag = status.getEtag() if self.is_a(status, _ETAGS) else None
                    found[name] = statuses.remote(int(status.getLen()), int(status.getModificationTime()), tag)
        return found

    def versions_of(self, files: Listing) -> dict[str, tuple[int, int, str]]:
        """The version of each listed file: length, modification time, and the mark that tells it from a new file of the
        same length and time (`Status.mark`). A listing has no marks: this is the file's of now, and empty where the
        file is no longer the listed one."""
        now = self.statuses_of(files)
        return {
            path: (*version, now[path].mark if path in now and now[path].version == version else "")
            for path, version in files.items()
        }

    def tells_files(self, relation: Plan) -> bool:
        """Whether `files_of` gives exactly what is read. Formats with a log of their own leave old files there."""
        kind = relation.relation().location().getClass().getSimpleName()
        return kind in ("CatalogFileIndex", "InMemoryFileIndex", "MetadataLogFileIndex")

    def snapshots_of(self, relation: Plan) -> tuple[int, int] | None:
        """Of a Delta table: the version that the plan was made with, and the one that it would read now."""
        location = relation.relation().location()
        if not class_name(location).startswith("TahoeLogFileIndex"):
            return None
        planned = int(location.snapshotAtAnalysis().version())
        if location.isTimeTravelQuery():
            return planned, planned
        try:
            return planned, int(location.getSnapshot().version())
        except Py4JJavaError:  # it is newer, and Delta does not read it with the columns of this plan
            return planned, int(location.deltaLog().unsafeVolatileSnapshot().version())

    def roots(self, relation: Plan) -> list[str]:
        return [str(path.toString()) for path in to_list(relation.relation().location().rootPaths())]

    def _lists_itself(self, relation: Plan) -> bool:
        index = "org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex"
        return self.is_a(relation.relation().location(), index)

    # --- behind a command

    def analysed_command(self, text: str) -> Plan:
        """What a SQL text says, not run."""
        state: Any = self.spark._jsparkSession.sessionState()
        modes: Any = self._java.org.apache.spark.sql.execution.CommandExecutionMode
        return state.executePlan(state.sqlParser().parsePlan(text), modes.SKIP()).analyzed()

    def written_by(self, command: Plan) -> tuple[Plan, str | None, str | None, list[str]] | None:
        """The query of a command that writes files, their path or their table, and the columns' names there."""
        kind = command.getClass().getSimpleName()
        if kind == "InsertIntoHadoopFsRelationCommand":
            return command.query(), str(command.outputPath().toString()), None, to_list(command.outputColumnNames())
        if kind == "CreateDataSourceTableAsSelectCommand":
            identifier = command.table().identifier()
            name = f"`{identifier.database().get()}`.`{identifier.table()}`"
            return command.query(), None, name, to_list(command.outputColumnNames())
        return None

    def table_root(self, name: str | None) -> str:
        """Where a table lies, or will lie by default."""
        state: Any = self.spark._jsparkSession.sessionState()
        identifier = state.sqlParser().parseTableIdentifier(str(name).removeprefix("spark_catalog."))
        catalog = state.catalog()
        if catalog.tableExists(identifier):
            return str(catalog.getTableMetadata(identifier).location().toString())
        return str(catalog.defaultTablePath(identifier).toString())

    def set_field(self, of: JavaObject, name: str, value: JavaObject) -> None:
        """Exchange a private field, where PySpark's object has it in its hands already."""
        field = of.getClass().getDeclaredField(name)
        field.setAccessible(True)
        field.set(of, value)

    # --- on a file system

    def list_files(self, root: str) -> dict[str, tuple[int, int]]:
        """Length and modification time of each file below a directory, but for hidden ones."""
        path, system = self._place(root)
        found: dict[str, tuple[int, int]] = {}
        if not system.exists(path):
            return found
        waiting = [path]
        while waiting:
            for status in list(system.listStatus(waiting.pop())):
                told = statuses.parse(str(status.toString()))
                if told is None:
                    name, folder = str(status.getPath().toString()), bool(status.isDirectory())
                    told = name, folder, int(status.getLen()), int(status.getModificationTime())
                last = told[0].rsplit("/", 1)[-1]
                if last.startswith(("_", ".")) and "=" not in last:
                    continue
                if told[1]:
                    waiting.append(status.getPath())
                else:
                    found[told[0]] = told[2:]
        return found

    def qualified(self, text: str) -> str:
        """A path with its file system, and from the root."""
        path, system = self._place(text)
        return str(system.makeQualified(path).toString())

    def exists(self, text: str) -> bool:
        if (here := _local(text)) is not None:
            return here.exists()
        path, system = self._place(text)
        return bool(system.exists(path))

    def remove(self, text: str) -> None:
        path, system = self._place(text)
        system.delete(path, True)

    def write_bytes(self, text: str, content: bytes) -> None:
        if (here := _local(text)) is not None:
            private.make_directory(here.parent, here.anchor)
            private.write(here, content)
            return
        path, system = self._place(text)
        out = system.create(path, True)
        try:
            out.write(bytearray(content))
        finally:
            out.close()

    def read_bytes(self, text: str) -> bytes | None:
        if (here := _local(text)) is not None:
            return here.read_bytes() if here.exists() else None
        path, system = self._place(text)
        if not system.exists(path):
            return None
        given = system.open(path)
        try:
            return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(given))
        finally:
            given.close()

    def write_text(self, text: str, content: str) -> None:
        self.write_bytes(text, content.encode())

    def read_text(self, text: str) -> str | None:
        content = self.read_bytes(text)
        return None if content is None else content.decode()

    def names_in(self, text: str) -> list[str]:
        if (here := _local(text)) is not None:
            return sorted(entry.name for entry in here.iterdir()) if here.is_dir() else []
        path, system = self._place(text)
        return sorted(str(s.getPath().getName()) for s in system.listStatus(path)) if system.exists(path) else []

    def _place(self, text: str) -> tuple[Any, Any]:
        if self._hadoop is None:
            session: Any = self.spark._jsparkSession
            # Looking up a class takes as many calls as its name has parts.
            self._hadoop = (self._java.org.apache.hadoop.fs.Path, session.sessionState().newHadoopConf())
        make, conf = self._hadoop
        path = make(text)
        return path, path.getFileSystem(conf)
