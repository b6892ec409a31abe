"""The files behind a plan, and the file systems they lie on: the half of catalyst.py that knows Hadoop's classes."""

from __future__ import annotations

import contextlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject

from whence.model.redact import names_secret, redact
from whence.sql.making import Plan, class_name, remembered, to_list
from whence.store import private

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RELATION = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_STATUS = re.compile(r"path=(.*?); isDirectory=false; length=(\d+);.*?modification_time=(\d+);")


def parse_statuses(text: str) -> dict[str, tuple[int, int]]:
    lines = text.replace("{path=", "\npath=")
    return {path: (int(length), int(modified)) for path, length, modified in _STATUS.findall(lines)}


def local_files(paths: Iterable[str]) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """Length and modification time of those that lie on this machine, without Hadoop; and the paths that do not."""
    found: dict[str, tuple[int, int]] = {}
    others: list[str] = []
    for path in paths:
        if not path.startswith("file:/"):
            others.append(path)
            continue
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = os.stat("/" + path.removeprefix("file:").lstrip("/"))
            found[path] = status.st_size, status.st_mtime_ns // 1_000_000
    return found, others


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

    @abstractmethod
    def planned_files(self, relation: Plan) -> dict[str, tuple[int, int]]: ...

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

    def options_of(self, leaf: Plan) -> dict[str, str]:
        """How the files are to be read; what is or holds a secret is left out."""
        found = leaf.relation().options()
        keys = [str(key) for key in to_list(found.keys().toSeq())]
        told = {key: str(found.apply(key)) for key in keys if key not in ("path", "paths") and not names_secret(key)}
        return {key: value for key, value in told.items() if redact(value) == value}

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

    def files_of(self, relation: Plan) -> dict[str, tuple[int, int]]:
        """The files as planned, or, where the plan lists files only when run, as they are now."""
        planned = self.planned_files(relation)
        if planned or self._lists_itself(relation):
            return planned
        if self.tells_files(relation):
            all_partitions = self._java.org.apache.spark.api.python.PythonUtils.toSeq([])
            index = relation.relation().location().filterPartitions(all_partitions)
            return parse_statuses(index.allFiles().mkString("\n"))
        found: dict[str, tuple[int, int]] = {}
        for root in self.roots(relation):
            found.update(self.list_files(root))
        return found

    def tells_files(self, relation: Plan) -> bool:
        """Whether `files_of` gives exactly what is read. Formats with a log of their own leave old files there."""
        kind = relation.relation().location().getClass().getSimpleName()
        return kind in ("CatalogFileIndex", "InMemoryFileIndex", "MetadataLogFileIndex")

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
                name = status.getPath().getName()
                if name.startswith(("_", ".")) and "=" not in name:
                    continue
                if status.isDirectory():
                    waiting.append(status.getPath())
                else:
                    found.update(parse_statuses(status.toString()))
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
