"""The files behind a plan, and the file systems they lie on: the half of catalyst.py that knows Hadoop's classes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from py4j.java_gateway import JavaObject, is_instance_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Plan: TypeAlias = JavaObject

_RELATION = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_FIXED_SPLITS = {
    "spark.sql.files.maxPartitionBytes": str(128 << 20),
    "spark.sql.files.openCostInBytes": str(4 << 20),
    "spark.sql.files.minPartitionNum": "32",
}


def to_list(scala_seq: JavaObject) -> list[JavaObject]:
    return [scala_seq.apply(i) for i in range(scala_seq.size())]


class Files:
    """What a Catalyst knows of files."""

    spark: SparkSession
    _jvm: Any
    _gateway: Any

    def is_a(self, value: object, java_class: str) -> bool:
        return isinstance(value, JavaObject) and bool(is_instance_of(self._gateway, value, java_class))

    def copy(self, node: JavaObject, **changes: JavaObject) -> JavaObject:
        arity = node.productArity()
        values = self._gateway.new_array(self._jvm.java.lang.Object, arity)
        left = dict(changes)
        for i in range(arity):
            name = node.productElementName(i)
            values[i] = left.pop(name) if name in left else node.productElement(i)
        if left:
            raise AttributeError(f"{node.getClass().getSimpleName()} has no field {', '.join(left)}")
        return node.makeCopy(values)

    # --- behind a plan

    def file_leaves(self, plan: Plan) -> list[Plan]:
        """The scans of files in a plan, also in its subqueries."""
        found = to_list(plan.collectLeaves())
        if "ubquery" in plan.toString() or "exists#" in plan.toString():
            for below in to_list(plan.subqueriesAll()):
                found += to_list(below.collectLeaves())
        return [leaf for leaf in found if self.is_file_scan(leaf)]

    def is_file_scan(self, leaf: Plan) -> bool:
        return leaf.getClass().getSimpleName() == "LogicalRelation" and self.is_a(leaf.relation(), _RELATION)

    def numbers_rows(self, leaf: Plan) -> bool:
        """Whether the format of these files tells each row's number in its file."""
        return bool(leaf.relation().fileFormat().toString() == "Parquet")

    def files_of(self, relation: Plan) -> dict[str, tuple[int, int]]:
        """The same as planned, or, where the plan lists files only when run, as they are now."""
        planned = self.planned_files(relation)
        if planned or self._lists_itself(relation):
            return planned
        found: dict[str, tuple[int, int]] = {}
        for root in self.roots(relation):
            found.update(self.list_files(root))
        return found

    def roots(self, relation: Plan) -> list[str]:
        return [str(path.toString()) for path in to_list(relation.relation().location().rootPaths())]

    def _lists_itself(self, relation: Plan) -> bool:
        index = "org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex"
        return self.is_a(relation.relation().location(), index)

    def planned_files(self, relation: Plan) -> dict[str, tuple[int, int]]:
        """Length and modification time of each file as planned; empty if the plan lists files only when run."""
        if not self._lists_itself(relation):
            return {}
        return _parse_statuses(relation.relation().location().allFiles().mkString("\n"))

    def files(self, relation: Plan) -> list[str]:
        """Paths as `_metadata.file_path` spells them."""
        uris = relation.relation().location().inputFiles()
        path = self._jvm.org.apache.hadoop.fs.Path
        return [path(path(self._jvm.java.net.URI(uri)).toString()).toUri().toString() for uri in uris]

    def current_files(self, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
        """The same, read from the file system now; a file that is gone is left out."""
        found: dict[str, tuple[int, int]] = {}
        conf = self.spark._jsparkSession.sessionState().newHadoopConf()
        for folder in sorted({path.rsplit("/", 1)[0] for path in paths}):
            path = self._jvm.org.apache.hadoop.fs.Path(folder)
            system = path.getFileSystem(conf)
            if system.exists(path):
                found.update(_parse_statuses("\n".join(status.toString() for status in system.listStatus(path))))
        return found

    def in_fixed_splits(self, scan: Plan) -> Plan:
        """The scan of files cut into the same splits each time, so that positions in it are the same each time.

        Otherwise the splits depend on the cores that are there at the moment, on settings, and on whether Spark finds
        the buckets of a table useful for the query at hand."""
        relation = scan.relation()
        session = self.spark._jsparkSession.cloneSession()
        for name, value in _FIXED_SPLITS.items():
            session.sessionState().conf().setConfString(name, value)
        fixed = relation.copy(
            relation.location(),
            relation.partitionSchema(),
            relation.dataSchema(),
            self._jvm.scala.Option.empty(),
            relation.fileFormat(),
            relation.options(),
            session,
        )
        return self.copy(scan, relation=fixed)

    def option(self, scan: Plan, name: str) -> str | None:
        found = scan.relation().options()
        return next((found.apply(key) for key in to_list(found.keys().toSeq()) if key.lower() == name), None)

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
                    found.update(_parse_statuses(status.toString()))
        return found

    def qualified(self, text: str) -> str:
        """A path with its file system, and from the root."""
        path, system = self._place(text)
        return str(system.makeQualified(path).toString())

    def exists(self, text: str) -> bool:
        path, system = self._place(text)
        return bool(system.exists(path))

    def write_bytes(self, text: str, content: bytes) -> None:
        path, system = self._place(text)
        out = system.create(path, True)
        try:
            out.write(bytearray(content))
        finally:
            out.close()

    def read_bytes(self, text: str) -> bytes | None:
        path, system = self._place(text)
        if not system.exists(path):
            return None
        given = system.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(given))
        finally:
            given.close()

    def write_text(self, text: str, content: str) -> None:
        self.write_bytes(text, content.encode())

    def read_text(self, text: str) -> str | None:
        content = self.read_bytes(text)
        return None if content is None else content.decode()

    def names_in(self, text: str) -> list[str]:
        path, system = self._place(text)
        return sorted(str(s.getPath().getName()) for s in system.listStatus(path)) if system.exists(path) else []

    def _place(self, text: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(text)
        session: Any = self.spark._jsparkSession
        return path, path.getFileSystem(session.sessionState().newHadoopConf())


_STATUS = re.compile(r"path=(.*?); isDirectory=false; length=(\d+);.*?modification_time=(\d+);")


def _parse_statuses(text: str) -> dict[str, tuple[int, int]]:
    return {path: (int(length), int(modified)) for path, length, modified in _STATUS.findall(text)}
