"""Where a write goes: to which directory or table, under which names, and whether a trace can go on through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pyspark.sql import Column

from whence.spark.allowed import FORMATS
from whence.spark.iceberg_readings import part_of_name
from whence.spark.lakes import DELTA, ICEBERG
from whence.sql.catalyst import Catalyst, Expr, Plan, class_name
from whence.sql.sources import roots_of

_DYNAMIC = "spark.sql.sources.partitionOverwriteMode"
# Commands that replace the partitions that they have rows for.
_BY_PARTITION = ("OverwritePartitionsDynamic", "DeltaDynamicPartitionOverwriteCommand")

# The condition that rows meet which a write replaces: an expression of Spark's, or as the user gave it.
Replaced: TypeAlias = "Expr | Column | str | None"


@dataclass(frozen=True)
class Target:
    """`place` is the directory of the files, with its file system, or what else tells a table (`place_of`).

    `why`: why a trace ends there, as the end of a sentence."""

    place: str
    name: str
    columns: tuple[str, ...] = ()
    why: str | None = None
    # How the files are written, where that is known: then others can read their lines (written_files.py).
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    # Of what may be a table that keeps versions (lake_writes.py): its name, or its format and path.
    table: tuple[str, ...] = ()
    keeps_versions: bool = False
    # Which rows the write replaces: those that meet a condition, or those of its own partitions.
    replaced: Replaced = None
    by_partition: bool = False

    @property
    def is_directory(self) -> bool:
        return not self.place.startswith(("table:", "jdbc:", "format:"))


def of_writer(c: Catalyst, writer: Any, method: str, args: Sequence[Any], options: dict[str, Any]) -> Target:
    """What a method of a DataFrameWriter will write to."""
    first = args[0] if args else None
    columns = tuple(writer._df.columns)
    kind, given = c.writer_settings(writer._jwrite)
    if method in ("save", "saveAsTable"):
        kind = str(options.get("format") or (args[1] if len(args) > 1 else None) or kind)
    given = {name.lower(): value for name, value in {**given, **options}.items()}
    if method == "jdbc" or kind.lower() == "jdbc":
        url, table = (*args[:2], None, None)[:2] if method == "jdbc" else (None, None)
        return _jdbc(url or given.get("url"), table or given.get("table") or given.get("dbtable"))
    if method in ("saveAsTable", "insertInto"):
        name = str(first or given.get("name") or given.get("tablename"))
        target = of_table(c, name, columns, kind)
        if method == "insertInto" and (target.why is None or target.keeps_versions):
            columns = tuple(column.name for column in c.spark.catalog.listColumns(name))
        if method == "saveAsTable" and "path" in given and target.why is None and not c.is_table(name):
            target = replace(target, place=c.qualified(str(given["path"])))
        return _replacing(c, replace(target, columns=columns), given)
    path = first or given.get("path")
    if path is None:
        return Target(f"format:{kind}", kind, columns, f"{kind} is not a format of files")
    kind = kind if method == "save" else method
    plain = {name: str(value) for name, value in given.items() if name != "path" and value is not None}
    kind = kind.lower()
    if kind == ICEBERG and "/" not in str(path):  # its own format takes a table's name as well
        return _replacing(c, of_table(c, str(path), columns, kind), given)
    place = str(path) if kind == ICEBERG else c.qualified(str(path))
    target = Target(place, _last(str(path)), columns, _not_followed(kind), kind, plain)
    return _replacing(c, replace(target, keeps_versions=kind in (DELTA, ICEBERG)), given)


def _replacing(c: Catalyst, target: Target, given: Mapping[str, Any]) -> Target:
    """The same, with what a writer's options say of the rows that it replaces, should it replace any."""
    mode = str(given.get("partitionoverwritemode") or given.get("overwrite-mode") or c.conf(_DYNAMIC) or "")
    where = given.get("replacewhere")
    by_partition = mode.lower() == "dynamic" and where is None
    return replace(target, replaced=None if where is None else str(where), by_partition=by_partition)


def of_writer_v2(c: Catalyst, writer: Any, method: str, args: Sequence[Any], options: dict[str, Any]) -> Target:
    name, provider = c.writer_v2_table(writer._jwriter)
    target = of_table(c, name, tuple(writer._df.columns), provider)
    if method == "overwrite":
        return replace(target, replaced=args[0] if args else options.get("condition"))
    return replace(target, by_partition=method == "overwritePartitions")


def of_table(c: Catalyst, name: str, columns: tuple[str, ...], provider: str | None) -> Target:
    """A table of Spark's own catalogue lies in a directory; of others no more is known than their name."""
    parts = c.name_parts(name)
    named = tuple(parts)
    if c.catalogue_of(parts) != "spark_catalog":
        why = "it is a table of another catalogue than Spark's own"
        place = f"table:{'.'.join(parts).lower()}"
        return Target(place, parts[-1], columns, why, table=named, keeps_versions=True)
    if len(parts) == 2 and parts[0].lower() in (DELTA, "parquet"):  # delta.`/a/path`
        kind = parts[0].lower()
        place = c.qualified(parts[1])
        return Target(place, _last(parts[1]), columns, _not_followed(kind), kind, keeps_versions=kind == DELTA)
    found = str(c.table_provider(parts) or provider or c.spark.conf.get("spark.sql.sources.default", "parquet"))
    place, keeps = c.qualified(c.table_root(parts)), found.lower() in (DELTA, ICEBERG)
    return Target(place, parts[-1], columns, _not_followed(found), table=named, keeps_versions=keeps)


def of_command(c: Catalyst, command: Plan) -> Target | None:
    """What a SQL command writes to; None if it writes no rows of a query, or nothing is known of it."""
    kind = class_name(command)
    if kind == "InsertIntoHadoopFsRelationCommand":
        path = str(command.outputPath().toString())
        names = tuple(str(name) for name in c.items(command.outputColumnNames()))
        return Target(c.qualified(path), _last(path), names, _not_followed(c.format_name(command.fileFormat())))
    if kind == "CreateDataSourceTableAsSelectCommand":
        names = tuple(str(name) for name in c.items(command.outputColumnNames()))
        return replace(c_table(c, command.table()), columns=names)
    if kind in ("InsertIntoHiveTable", "CreateHiveTableAsSelectCommand"):
        table = command.table() if kind == "InsertIntoHiveTable" else command.tableDesc()
        return replace(c_table(c, table), why="it is a table in a format of Hive's")
    if kind in ("AppendData", "OverwriteByExpression", *_BY_PARTITION, "ReplaceData", "WriteDelta"):
        target = _other(c, _written(c, command.table()))
        query = tuple(str(a.name()) for a in c.output(command.query()))
        # By position, the columns are the table's own.
        by_name = "isByName" not in c.fields(command) or bool(command.isByName())
        own = tuple(str(a.name()) for a in c.output(command.table()))
        target = replace(target, columns=query if by_name or len(own) != len(query) else own)
        if kind == "OverwriteByExpression":
            return replace(target, replaced=command.deleteExpr())
        return replace(target, by_partition=kind in _BY_PARTITION)
    if kind in ("CreateTableAsSelect", "ReplaceTableAsSelect"):
        target = _other(c, c.name_parts_of_identifier(command.name()))
        provider = str(command.tableSpec().provider().getOrElse(None) or "").lower()
        keeps = target.keeps_versions or provider in (DELTA, ICEBERG)
        columns = tuple(str(a.name()) for a in c.output(command.query()))
        why = _not_followed(provider) if provider else target.why
        return replace(target, keeps_versions=keeps, columns=columns, why=why)
    if kind in ("InsertIntoDataSourceDirCommand", "InsertIntoHiveDirCommand"):
        where = command.storage().locationUri()
        path = str(where.get().toString()) if where.isDefined() else ""
        why = "INSERT OVERWRITE DIRECTORY is not followed"
        return Target(c.qualified(path), _last(path), (), why) if path else None
    return None


def c_table(c: Catalyst, table: Any) -> Target:
    """Of a table as Spark's catalogue describes it, there or about to be."""
    parts = [str(part) for part in c.items(table.identifier().nameParts())]
    provider = str(table.provider().get()) if table.provider().isDefined() else None
    where = table.storage().locationUri()
    target = of_table(c, ".".join(f"`{part}`" for part in parts), (), provider)
    if where.isDefined() and not c.is_table(".".join(f"`{part}`" for part in parts)):
        return replace(target, place=c.qualified(str(where.get().toString())))
    return target


def _written(c: Catalyst, relation: Plan) -> list[str]:
    """The name of the table, and of its branch where the rows go into one."""
    parts, branch = c.name_parts_of_relation(relation), c.branch_of(relation)
    return parts if branch is None else [*parts, part_of_name(branch)]


def _other(c: Catalyst, parts: list[str]) -> Target:
    return of_table(c, ".".join(f"`{part}`" for part in parts), (), None)


def place_of(c: Catalyst, leaf: Plan) -> str | None:
    """How a leaf that reads a target tells where it reads; None for what nothing is written to."""
    kind = class_name(leaf)
    if (version := c.version_of(leaf)) is not None:
        return version.place
    if kind == "DataSourceV2Relation":
        return f"table:{'.'.join(c.name_parts_of_relation(leaf)).lower()}"
    if kind == "HiveTableRelation":
        return c.qualified(str(leaf.tableMeta().location().toString()))
    if c.is_file_scan(leaf):
        roots = roots_of(c, leaf)
        return c.qualified(roots[0]) if len(roots) == 1 else None
    if kind == "LogicalRelation":
        found = c.jdbc_options(leaf.relation())
        return None if found is None else _jdbc(*found).place
    return None


def _jdbc(url: object, table: object) -> Target:
    plain = str(url).split("?")[0].split(";")[0]
    return Target(f"jdbc:{plain}:{table}", str(table), (), "it is a table of a database")


def _last(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _not_followed(kind: str) -> str | None:
    return None if kind.lower() in FORMATS else f"what is written as {kind} is not followed"
