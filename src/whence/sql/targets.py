"""Where a write goes: to which directory or table, under which names, and whether a trace can go on through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whence.spark.allowed import FORMATS
from whence.sql.catalyst import Catalyst, Plan, class_name
from whence.sql.sources import roots_of


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
        if method == "insertInto" and target.why is None:
            columns = tuple(column.name for column in c.spark.catalog.listColumns(name))
        if method == "saveAsTable" and "path" in given and target.why is None and not c.is_table(name):
            target = replace(target, place=c.qualified(str(given["path"])))
        return replace(target, columns=columns)
    path = first or given.get("path")
    if path is None:
        return Target(f"format:{kind}", kind, columns, f"{kind} is not a format of files")
    kind = kind if method == "save" else method
    plain = {name: str(value) for name, value in given.items() if name != "path" and value is not None}
    return Target(c.qualified(str(path)), _last(str(path)), columns, _not_followed(kind), kind.lower(), plain)


def of_writer_v2(c: Catalyst, writer: Any) -> Target:
    name, provider = c.writer_v2_table(writer._jwriter)
    return of_table(c, name, tuple(writer._df.columns), provider)


def of_table(c: Catalyst, name: str, columns: tuple[str, ...], provider: str | None) -> Target:
    """A table of Spark's own catalogue lies in a directory; of others no more is known than their name."""
    parts = c.name_parts(name)
    if c.catalogue_of(parts) != "spark_catalog":
        why = "it is a table of another catalogue than Spark's own"
        return Target(f"table:{'.'.join(parts).lower()}", parts[-1], columns, why)
    found = c.table_provider(parts) or provider or c.spark.conf.get("spark.sql.sources.default", "parquet")
    return Target(c.qualified(c.table_root(parts)), parts[-1], columns, _not_followed(str(found)))


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
    if kind in ("AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "ReplaceData", "WriteDelta"):
        return _other(c, c.name_parts_of_relation(command.table()))
    if kind in ("CreateTableAsSelect", "ReplaceTableAsSelect"):
        return _other(c, c.name_parts_of_identifier(command.name()))
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


def _other(c: Catalyst, parts: list[str]) -> Target:
    if len(parts) == 2 and parts[0] in ("delta", "parquet"):  # delta.`/a/path`
        return Target(c.qualified(parts[1]), _last(parts[1]), (), _not_followed(parts[0]))
    return of_table(c, ".".join(f"`{part}`" for part in parts), (), None)


def place_of(c: Catalyst, leaf: Plan) -> str | None:
    """How a leaf that reads a target tells where it reads; None for what nothing is written to."""
    kind = class_name(leaf)
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
