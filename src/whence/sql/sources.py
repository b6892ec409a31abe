"""What a query reads: the identity of each dataset, and of each row in it.

Row identity, best first:

- (file, row index) where the format has it: Parquet, Delta; Iceberg's own (file, position);
- (file, position in the scan) for other files. The scan is kept whole and cut into splits of a fixed size, so positions
  do not move from query to query, whatever the session's settings or the cluster's size;
- the number itself for `range`; the position for local data and RDDs whose order is certain;
- the contents (two hashes of all columns) for what has no order: JDBC tables, RDDs after a shuffle. Equal rows there
  have one identity and are witnesses together, so both are told.
"""

from __future__ import annotations

from dataclasses import dataclass

from py4j.java_gateway import JavaObject

from whence.model import SourceChanged
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan
from whence.sql.tree import Node

SCANS = (
    *("LogicalRelation", "LocalRelation", "LogicalRDD", "ExternalRDD", "Range"),
    *("HiveTableRelation", "DataSourceV2Relation"),
)
FILE, HASH, ROW = "whence_file", "whence_hash", "whence_row"


@dataclass(frozen=True)
class Dataset:
    """What is read, wherever it is read. Two readings with equal `key` read the same dataset."""

    key: str
    name: str
    full_name: str


@dataclass(frozen=True, eq=False)
class IdentifiedLeaf:
    """A leaf's plan with the identity of each row behind its own columns."""

    plan: Plan
    ids: tuple[Attr, ...]
    columns: tuple[Attr, ...]


def dataset_of(c: Catalyst, leaf: Node, view: str | None) -> Dataset:
    plan, kind = leaf.plan, leaf.kind
    if kind == "LogicalRelation":
        return _relation(c, plan, view)
    if kind == "HiveTableRelation":
        name = plan.tableMeta().identifier().unquotedString()
        return Dataset(f"table:{name}", name.split(".")[-1], name)
    if kind == "DataSourceV2Relation":
        name = plan.table().name()
        return Dataset(f"v2:{name}:{plan.options().asCaseSensitiveMap()}", view or name.split(".")[-1], name)
    identity = {
        "LocalRelation": lambda: c.identity(plan.data()),
        "LogicalRDD": lambda: str(plan.rdd().id()),
        "ExternalRDD": lambda: str(plan.rdd().id()),
        "Range": lambda: f"{plan.start()}:{plan.end()}:{plan.step()}:{plan.numSlices().toString()}",
    }[kind]()
    columns = ", ".join(a.name() for a in c.output(plan))
    default = "range" if kind == "Range" else "dataframe"
    return Dataset(f"{kind}:{identity}", view or default, f"{view or default}({columns})")


def _relation(c: Catalyst, plan: Plan, view: str | None) -> Dataset:
    table = plan.catalogTable()
    if table.isDefined():
        name = table.get().identifier().unquotedString()
        return Dataset(f"table:{name}", name.split(".")[-1], name)
    relation = plan.relation()
    if c.is_file_scan(plan):
        roots = sorted(p.toString() for p in c.items(relation.location().rootPaths()))
        last = roots[0].rstrip("/").rsplit("/", 1)[-1]
        return Dataset("files:" + "|".join(roots), view or last, ", ".join(roots))
    if c.is_a(relation, "org.apache.spark.sql.execution.datasources.jdbc.JDBCRelation"):
        return _jdbc(relation.jdbcOptions(), view)
    text = relation.toString()
    return Dataset(f"relation:{text}:{c.identity(relation)}", view or text, view or text)


def _jdbc(options: JavaObject, view: str | None) -> Dataset:
    # "table", "schema.table" or "(SELECT ...) AS name"
    table = str(options.tableOrQuery())
    url = str(options.url()).split("?")[0].split(";")[0]
    name = table.rsplit(None, 1)[-1].rsplit(".", 1)[-1].strip('"`)')
    return Dataset(f"jdbc:{url}:{table}", view or name, f"{url} {table}")


def identify(c: Catalyst, leaf: Node) -> IdentifiedLeaf:
    plan = leaf.plan
    if c.is_file_scan(plan):
        return _identify_files(c, plan)
    if leaf.kind == "DataSourceV2Relation":
        return _identify_v2(c, plan)
    if leaf.kind == "Range":
        return _identified(c, plan, [c.alias(c.output(plan)[0], ROW)])
    if leaf.kind == "LogicalRelation" or (leaf.kind in ("LogicalRDD", "ExternalRDD") and not c.keeps_order(plan)):
        return _identified(c, plan, _contents(c, plan))
    return _identified(c, plan, [c.alias(c.position(), ROW)])


def _identified(c: Catalyst, plan: Plan, ids: list[Expr]) -> IdentifiedLeaf:
    return IdentifiedLeaf(c.extend(plan, ids), tuple(i.toAttribute() for i in ids), tuple(c.output(plan)))


def _contents(c: Catalyst, plan: Plan) -> list[Expr]:
    return [c.alias(h, name) for h, name in zip(c.content_hashes(c.output(plan)), (HASH, ROW), strict=True)]


def _identify_v2(c: Catalyst, plan: Plan) -> IdentifiedLeaf:
    columns = c.output(plan)
    wide = plan.withMetadataColumns()
    metadata = {a.name(): a for a in c.output(wide)[len(columns) :]}
    if not {"_file", "_pos"} <= set(metadata):
        return _identified(c, plan, _contents(c, plan))
    file, row = c.alias(c.hash64(metadata["_file"]), FILE), c.alias(metadata["_pos"], ROW)
    scan = c.project([*columns, file, row], wide)
    return IdentifiedLeaf(scan, (file.toAttribute(), row.toAttribute()), tuple(columns))


def has_row_index(c: Catalyst, leaf: Node) -> bool:
    """Whether a row's identity stays the same when other rows are not read."""
    if not c.is_file_scan(leaf.plan):
        return False
    return c.has_field(_metadata(c, leaf.plan.withMetadataColumns()), "row_index")


def _metadata(c: Catalyst, scan: Plan) -> Attr:
    return next(a for a in reversed(c.output(scan)) if a.dataType().typeName() == "struct" and c.is_metadata(a))


def _identify_files(c: Catalyst, plan: Plan) -> IdentifiedLeaf:
    columns = c.output(plan)
    scan = plan.withMetadataColumns()
    metadata = _metadata(c, scan)
    file = c.alias(_file(c, plan, metadata), FILE)
    if c.has_field(metadata, "row_index"):
        row = c.alias(c.struct_field(metadata, "row_index"), ROW)
    else:
        # Not deterministic in Catalyst's eyes, so no filter is pushed below it: the scan always reads all files.
        scan = c.in_fixed_splits(scan)
        position = c.position()
        if str(c.option(plan, "mode")).upper() == "DROPMALFORMED":
            # Which rows are malformed depends on the columns that are parsed: always parse all.
            position = c.depending_on(position, columns)
        row = c.alias(position, ROW)
    return IdentifiedLeaf(
        c.project([*columns, file, row], scan), (file.toAttribute(), row.toAttribute()), tuple(columns)
    )


def _file(c: Catalyst, scan: Plan, metadata: Attr) -> Expr:
    """The hash of the row's file. Of a single file it is known, and need be neither computed nor carried along."""
    if len(c.planned_files(scan)) == 1:
        (path,) = c.files(scan)
        return c.long(c.hash64_of_text(path))
    return c.hash64(c.struct_field(metadata, "file_path"))


def require_unchanged(c: Catalyst, leaf: Node) -> None:
    """Raise SourceChanged when a file is no longer what it was when the query was planned."""
    if not c.is_file_scan(leaf.plan):
        return
    planned = c.planned_files(leaf.plan)
    current = c.current_files(planned) if planned else {}
    for path, status in planned.items():
        if path not in current:
            raise SourceChanged(path, "is gone")
        if current[path] != status:
            raise SourceChanged(path, "was changed")
