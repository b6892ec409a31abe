"""What a query reads: the identity of each dataset, and of each row in it.

Row identity, best first: (file, row index) where the format has it (Parquet); (file, position in the scan) for other
files, the scan being kept whole so that positions do not move; the position for local data, RDDs and ranges; the
contents (two hashes of all columns) for what has no order, such as a JDBC table.
"""

from __future__ import annotations

from dataclasses import dataclass

from whence.model import SourceChanged
from whence.sql.catalyst import Attr, Catalyst, Plan
from whence.sql.tree import Node

SCANS = (
    *("LogicalRelation", "LocalRelation", "LogicalRDD", "ExternalRDD", "Range"),
    *("HiveTableRelation", "DataSourceV2Relation"),
)
FILE, ROW = "whence_file", "whence_row"


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
        return Dataset(f"v2:{name}:{plan.options().toString()}", name.split(".")[-1], name)
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
    if is_files(c, plan):
        roots = sorted(p.toString() for p in c.items(relation.location().rootPaths()))
        last = roots[0].rstrip("/").rsplit("/", 1)[-1]
        return Dataset("files:" + "|".join(roots), view or last, ", ".join(roots))
    text = relation.toString()
    return Dataset(f"relation:{text}:{c.identity(relation)}", view or text, view or text)


def is_files(c: Catalyst, plan: Plan) -> bool:
    return c.is_a(plan.relation(), "org.apache.spark.sql.execution.datasources.HadoopFsRelation")


def identify(c: Catalyst, leaf: Node) -> IdentifiedLeaf:
    plan = leaf.plan
    if leaf.kind == "LogicalRelation" and is_files(c, plan):
        return _identify_files(c, plan)
    columns = c.output(plan)
    if leaf.kind in ("LogicalRelation", "DataSourceV2Relation"):
        ids = [c.alias(h, ROW) for h in c.content_hashes(columns)]
    else:
        ids = [c.alias(c.position(), ROW)]
    return IdentifiedLeaf(c.extend(plan, ids), tuple(i.toAttribute() for i in ids), tuple(columns))


def _identify_files(c: Catalyst, plan: Plan) -> IdentifiedLeaf:
    columns = c.output(plan)
    scan = plan.withMetadataColumns()
    metadata = c.output(scan)[-1]
    file = c.alias(c.hash64(c.struct_field(metadata, "file_path")), FILE)
    if "row_index" in list(metadata.dataType().fieldNames()):
        row = c.alias(c.struct_field(metadata, "row_index"), ROW)
    else:
        # Not deterministic in Catalyst's eyes, so no filter is pushed below it: the scan always reads all files in the
        # same splits, and the position of a row stays the same from query to query.
        row = c.alias(c.position(), ROW)
    return IdentifiedLeaf(
        c.project([*columns, file, row], scan), (file.toAttribute(), row.toAttribute()), tuple(columns)
    )


def require_unchanged(c: Catalyst, leaf: Node) -> None:
    """Raise SourceChanged when a file is no longer what it was when the query was planned."""
    if leaf.kind != "LogicalRelation" or not is_files(c, leaf.plan):
        return
    planned = c.planned_files(leaf.plan)
    current = c.current_files(planned) if planned else {}
    for path, status in planned.items():
        if path not in current:
            raise SourceChanged(path, "is gone")
        if current[path] != status:
            raise SourceChanged(path, "was changed")
