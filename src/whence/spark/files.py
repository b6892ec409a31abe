"""The files behind a plan, and the file systems they lie on: the half of catalyst.py that knows Hadoop's classes."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from py4j.java_gateway import JavaObject
from pyspark.errors import PySparkException

from whence.model.redact import names_secret, redact
from whence.spark import statuses
from whence.spark.allowed import CLASSES
from whence.spark.construct import Plan, class_name, remembered, to_list
from whence.spark.round_trips import handles_for, of_files
from whence.spark.statuses import Listing, Status
from whence.store import private

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RELATION = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_ETAGS = "org.apache.hadoop.fs.EtagSource"


def _local(text: str) -> Path | None:
    """Paths of the store's own, if they need no file system of Hadoop's."""
    return None if ":" in text else Path(text)


class Files(ABC):
    """What a Catalyst knows of files."""

    spark: SparkSession
    _hadoop: tuple[Any, Any] | None = None
    _settings: JavaObject | None = None
    # By class of a plan: its fields that hold a set of attributes.
    _held: ClassVar[dict[str, list[str]]] = {}
    _jvm: Any
    _with_subquery: JavaObject
    _to_seq: Callable[[Any], JavaObject]

    @property
    def _java(self) -> Any:
        return self.spark._jvm

    @abstractmethod
    def is_a(self, value: object, java_class: str) -> bool: ...

    @abstractmethod
    def fields(self, node: JavaObject) -> dict[str, JavaObject]: ...

    @abstractmethod
    def copy(self, node: JavaObject, **changes: JavaObject | None) -> JavaObject: ...

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
        return remembered(of_files(leaf), "is_file_scan", lambda: self._is_file_scan(leaf))

    def _is_file_scan(self, leaf: Plan) -> bool:
        return class_name(leaf) == "LogicalRelation" and self.is_a(leaf.relation(), _RELATION)

    def format_of(self, leaf: Plan) -> str:
        return remembered(of_files(leaf), "format", lambda: str(leaf.relation().toString()).lower())

    def declared_fields(self, leaf: Plan) -> list[dict[str, Any]]:
        """The columns of a leaf's table, as the catalogue has them."""
        table = leaf.catalogTable()
        fields: list[dict[str, Any]] = json.loads(table.get().schema().json())["fields"] if table.isDefined() else []
        return fields

    def options_of(self, leaf: Plan, *, secrets: bool = False) -> dict[str, str]:
        """How the files are to be read. What is or holds a secret is left out, or, with `secrets`, is there too and all
        names are in lower case, for comparing."""
        told = remembered(of_files(leaf), "options", lambda: self._options_of(leaf))
        if secrets:
            return {key.lower(): value for key, value in told.items()}
        some = {key: value for key, value in told.items() if key not in ("path", "paths") and not names_secret(key)}
        return {key: value for key, value in some.items() if redact(value) == value}

    def _options_of(self, leaf: Plan) -> dict[str, str]:
        found = leaf.relation().options()
        return {str(key): str(found.apply(key)) for key in to_list(found.keys().toSeq())}

    def parsed_lines(self, leaf: Plan, lines: list[str]) -> DataFrame | None:
        """Some lines of the files of this leaf, as its reader parses them; None where their columns are not all in the
        files (partitions are in the names of directories)."""
        from pyspark.sql import DataFrame

        kind = self.format_of(leaf)
        schema = leaf.relation().dataSchema()
        if kind not in ("csv", "json") or schema.size() != leaf.output().size():
            return None
        options = {key: value for key, value in self.options_of(leaf).items() if key.lower() != "header"}
        java: Any = self._java
        given = self.spark._jsparkSession.createDataset(lines, java.org.apache.spark.sql.Encoders.STRING())
        reader = self.spark.read.options(**options)._jreader.schema(schema)
        return DataFrame(reader.csv(given) if kind == "csv" else reader.json(given), self.spark)

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
        """The plan; it must be known who wrote it, since objects come to life by reading them. Of other classes than
        plans are made of, none does."""
        io: Any = self._java.java.io
        given = io.ObjectInputStream(io.ByteArrayInputStream(bytearray(content)))
        config = getattr(io, "ObjectInputFilter$Config")
        given.setObjectInputFilter(config.createFilter(CLASSES))
        return given.readObject()

    def without_what_cannot_be_written(self, plan: Plan) -> Plan:
        """The node with sets of attributes and options emptied that Java cannot serialise; `made_again` fills them."""
        kind = class_name(plan)
        if kind == "View" and "options" in self.fields(plan):
            return self.copy(plan, options=None)
        held = self._attribute_sets(plan)
        if not held:
            return plan
        fresh = plan.makeCopy(self._elements(plan))
        empty = getattr(self._java.org.apache.spark.sql.catalyst.expressions, "AttributeSet$")
        for name in held:
            self.set_field(fresh, name, getattr(empty, "MODULE$").empty())
        return fresh

    def made_again(self, plan: Plan) -> Plan:
        """The node as its constructor makes it."""
        if class_name(plan) == "View" and "options" in self.fields(plan):
            return self.copy(plan, options=self._java.org.apache.spark.sql.util.CaseInsensitiveStringMap.empty())
        return plan.makeCopy(self._elements(plan)) if self._attribute_sets(plan) else plan

    def _elements(self, plan: Plan) -> Any:
        gateway: Any = self.spark._sc._gateway
        values = gateway.new_array(self._java.java.lang.Object, plan.productArity())
        for i in range(plan.productArity()):
            values[i] = plan.productElement(i)
        return values

    def _attribute_sets(self, plan: Plan) -> list[str]:
        """Fields of a node's class that hold a set of attributes, which Java cannot serialise."""
        kind = plan.getClass()
        name = str(kind.getName())
        if name not in self._held:
            self._held[name] = [
                str(field.getName())
                for field in kind.getDeclaredFields()
                if str(field.getType().getSimpleName()) == "AttributeSet"
                and not self._java.java.lang.reflect.Modifier.isTransient(field.getModifiers())
            ]
        return self._held[name]

    def numbers_rows(self, leaf: Plan) -> bool:
        """Whether the format of these files tells each row's number in its file."""
        return self.format_of(leaf) == "parquet"

    # --- which files a plan reads, and what they are

    def planned_files(self, relation: Plan) -> Listing:
        """Length and modification time of each file as planned; empty if the plan lists files only when run."""
        return remembered(of_files(relation), "planned_files", lambda: self._planned_files(relation))

    def _planned_files(self, relation: Plan) -> Listing:
        if not self._lists_itself(relation):
            return {}
        told = self.listed_below(relation)
        return self._listed(relation.relation().location().allFiles()) if told is None else told[0]

    def files_of(self, relation: Plan) -> Listing:
        """The files as planned, or, where the plan lists files only when run, as they were when first asked for."""
        if self._lists_itself(relation):
            return self.planned_files(relation)
        return remembered(of_files(relation), "files_of", lambda: self.files_now(relation))

    def files_now(self, relation: Plan) -> Listing:
        """The files that the plan would read now: Spark may have exchanged its listing for a newer one."""
        if self._lists_itself(relation):
            return self._planned_files(relation)
        if self.tells_files(relation):
            return self._listed(relation.relation().location().filterPartitions(self._to_seq([])).allFiles())
        found: dict[str, tuple[int, int]] = {}
        for root in self.roots(relation):
            found.update(self.list_files(root))
        return found

    def listed_below(self, plan: Plan) -> list[Listing] | None:
        """The files of each scan of a plan as they are listed now, from left to right, in one round trip. None where it
        reads no files, or others than Spark has listed."""
        handles = handles_for(plan)
        told = None if handles is None else handles.listed(plan)
        lines = str(told).split("\n") if told else []
        found: list[Listing] = []
        while lines:
            count = int(lines[0])
            files = [line.split("\t", 2) for line in lines[1 : count + 1]]
            found.append({path: (int(length), int(modified)) for length, modified, path in files})
            lines = lines[count + 1 :]
        return found or None

    def _listed(self, files: JavaObject) -> Listing:
        """A sequence of statuses, in one round trip."""
        return {path: (length, modified) for path, _, length, modified in self._parsed(files)}

    def _statuses(self, system: JavaObject, folder: JavaObject) -> list[statuses.Told]:
        """The same of what is in a directory: a table that is appended to is listed at every append."""
        handles = handles_for(system)
        return self._parsed(
            self._to_seq(list(system.listStatus(folder))) if handles is None else handles.statuses(system, folder)
        )

    def _parsed(self, files: JavaObject) -> list[statuses.Told]:
        count = int(files.size())
        texts = str(files.mkString(statuses.BETWEEN)).split(statuses.BETWEEN) if count else []
        found = [told for told in map(statuses.parse, texts) if told is not None]
        if len(found) == count:
            return found
        return [
            (str(s.getPath().toString()), bool(s.isDirectory()), int(s.getLen()), int(s.getModificationTime()))
            for s in to_list(files)
        ]

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
        return self._kind_of_index(relation) in ("CatalogFileIndex", "InMemoryFileIndex", "MetadataLogFileIndex")

    def _kind_of_index(self, relation: Plan) -> str:
        return remembered(of_files(relation), "kind_of_index", lambda: class_name(relation.relation().location()))

    def number_of_files(self, relation: Plan) -> int:
        if self.tells_files(relation):
            return len(self.files_of(relation))
        try:
            return len(relation.relation().location().inputFiles())
        except PySparkException:  # a table of Delta's that is gone or has other columns: versions.py tells it
            return 0

    def roots(self, relation: Plan) -> list[str]:
        def look() -> list[str]:
            return [str(path.toString()) for path in to_list(relation.relation().location().rootPaths())]

        return list(remembered(of_files(relation), "roots", look))

    def _lists_itself(self, relation: Plan) -> bool:
        index = "org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex"
        return remembered(of_files(relation), "lists_itself", lambda: self.is_a(relation.relation().location(), index))

    # --- behind a command

    def analysed_command(self, text: str) -> Plan:
        """What a SQL text says, not run."""
        state: Any = self.spark._jsparkSession.sessionState()
        modes: Any = self._java.org.apache.spark.sql.execution.CommandExecutionMode
        return state.executePlan(state.sqlParser().parsePlan(text), modes.SKIP()).analyzed()

    def parsed(self, text: str) -> Plan:
        """What a SQL text says, before any name in it is looked up."""
        return self.spark._jsparkSession.sessionState().sqlParser().parsePlan(text)

    def executed_command(self, done: JavaObject) -> Plan | None:
        """The command behind a DataFrame that is its result."""
        plan = done.queryExecution().commandExecuted()
        return plan.commandLogicalPlan() if class_name(plan) == "CommandResult" else None

    def name_parts(self, name: str) -> list[str]:
        parser: Any = self.spark._jsparkSession.sessionState().sqlParser()
        return [str(part) for part in to_list(parser.parseMultipartIdentifier(name))]

    def name_parts_of_relation(self, relation: Plan) -> list[str]:
        """The name of a table of a catalogue, with that of the catalogue."""
        parts = self.name_parts(str(relation.table().name()))
        catalogue = relation.catalog()
        if catalogue.isDefined() and parts[0] != str(catalogue.get().name()) and len(parts) > 1:
            parts = [str(catalogue.get().name()), *parts]
        return parts

    def name_parts_of_identifier(self, resolved: Plan) -> list[str]:
        identifier = resolved.identifier()
        return [str(resolved.catalog().name()), *(str(n) for n in identifier.namespace()), str(identifier.name())]

    def catalogue_of(self, parts: list[str]) -> str:
        """The catalogue that a table's name leads to."""
        state: Any = self.spark._jsparkSession.sessionState()
        first = parts[0]
        if len(parts) > 1 and (first == "spark_catalog" or state.conf().contains(f"spark.sql.catalog.{first}")):
            return first
        return str(state.catalogManager().currentCatalog().name())

    def table_root(self, parts: list[str]) -> str:
        """Where a table of Spark's own catalogue lies, or will lie by default."""
        identifier, catalog = self._table(parts)
        if catalog.tableExists(identifier):
            return str(catalog.getTableMetadata(identifier).location().toString())
        return str(catalog.defaultTablePath(identifier).toString())

    def table_provider(self, parts: list[str]) -> str | None:
        """The format of a table of Spark's own catalogue, if there is one of this name."""
        identifier, catalog = self._table(parts)
        if not catalog.tableExists(identifier):
            return None
        provider = catalog.getTableMetadata(identifier).provider()
        return str(provider.get()) if provider.isDefined() else None

    def is_table(self, name: str) -> bool:
        identifier, catalog = self._table(self.name_parts(name))
        return bool(catalog.tableExists(identifier))

    def _table(self, parts: list[str]) -> tuple[Any, Any]:
        state: Any = self.spark._jsparkSession.sessionState()
        quoted = [f"`{part.replace('`', '``')}`" for part in (parts[1:] if parts[0] == "spark_catalog" else parts)]
        identifier = state.sqlParser().parseTableIdentifier(".".join(quoted))
        return state.catalog().qualifyIdentifier(identifier), state.catalog()

    def writer_settings(self, writer: JavaObject) -> tuple[str, dict[str, str]]:
        """The format and the options that a DataFrameWriter was given."""
        given = self.field_of(writer, "extraOptions")
        keys = [str(key) for key in to_list(given.keys().toSeq())]
        return str(self.field_of(writer, "source")), {key: str(given.apply(key)) for key in keys}

    def writer_v2_table(self, writer: JavaObject) -> tuple[str, str | None]:
        """The table of a DataFrameWriterV2, and the format it was given."""
        parts = to_list(self.field_of(writer, "tableName"))
        provider = self.field_of(writer, "provider")
        name = ".".join(f"`{str(part).replace('`', '``')}`" for part in parts)
        return name, str(provider.get()) if provider.isDefined() else None

    def jdbc_options(self, relation: JavaObject) -> tuple[str, str] | None:
        """URL and table of a relation that is read from a database."""
        if not self.is_a(relation, "org.apache.spark.sql.execution.datasources.jdbc.JDBCRelation"):
            return None
        options = relation.jdbcOptions()
        return str(options.url()), str(options.tableOrQuery())

    def format_name(self, file_format: JavaObject) -> str:
        return str(file_format.toString()).lower()

    def field_of(self, of: JavaObject, name: str) -> Any:
        """The value of a private field."""
        return self._field(of, name).get(of)

    def set_field(self, of: JavaObject, name: str, value: JavaObject) -> None:
        """Exchange a private field, where PySpark's object has it in its hands already."""
        self._field(of, name).set(of, value)

    def exchange_written(self, writer: Any, dataset: JavaObject) -> None:
        """What a `df.write` or `df.writeTo` that the user holds will write."""
        second = getattr(writer, "_jwriter", None)
        self.set_field(second or writer._jwrite, "df", dataset)
        if second is not None:
            self.set_field(second, "logicalPlan", dataset.queryExecution().logical())

    def _field(self, of: JavaObject, name: str) -> Any:
        kind = of.getClass()
        while name not in [field.getName() for field in kind.getDeclaredFields()]:
            kind = kind.getSuperclass()
        field = kind.getDeclaredField(name)
        field.setAccessible(True)
        return field

    # --- on a file system

    def list_files(self, root: str) -> dict[str, tuple[int, int]]:
        """Length and modification time of each file below a directory, but for hidden ones."""
        path, system = self._place(root)
        found: dict[str, tuple[int, int]] = {}
        if not system.exists(path):
            return found
        waiting = [path]
        while waiting:
            for name, is_folder, length, modified in self._statuses(system, waiting.pop()):
                last = name.rsplit("/", 1)[-1]
                if last.startswith(("_", ".")) and "=" not in last:
                    continue
                if is_folder:
                    waiting.append(self._place(name)[0])
                else:
                    found[name] = (length, modified)
        return found

    def qualified(self, text: str) -> str:
        """A path with its file system, and from the root."""
        path, system = self._place(text)
        return str(system.makeQualified(path).toString())

    def local(self, text: str) -> Path | None:
        """The path, if it lies on this machine and needs no file system of Hadoop's."""
        return _local(text)

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
        fresh, _ = self._place(f"{text}.{uuid4().hex}.tmp")
        out = system.create(fresh, True)
        try:
            out.write(bytearray(content))
        finally:
            out.close()
        system.delete(path, False)
        system.rename(fresh, path)

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

    def hadoop_settings(self) -> JavaObject:
        """The settings of file systems, for executors: sent once."""
        if self._settings is None:
            context: Any = self.spark._jsc
            held = self._java.org.apache.spark.util.SerializableConfiguration(self._of_hadoop()[1])
            self._settings = context.broadcast(held)
        return self._settings

    def _of_hadoop(self) -> tuple[Any, Any]:
        if self._hadoop is None:
            session: Any = self.spark._jsparkSession
            # Looking up a class takes as many calls as its name has parts.
            self._hadoop = (self._java.org.apache.hadoop.fs.Path, session.sessionState().newHadoopConf())
        return self._hadoop

    def _place(self, text: str) -> tuple[Any, Any]:
        make, conf = self._of_hadoop()
        path = make(text)
        return path, path.getFileSystem(conf)
