"""What a query reads: the identity of each dataset, and of each row in it.

Row identity, best first:

- the table's own id of the row, and the commit that made or last changed it, where the table keeps them (Delta's row
  tracking, Iceberg from version 3 on): they stay the same when files are rewritten;
- (file, row index) where the format has it: Parquet, also Delta's; Iceberg's own (file, position);
- (file, position in the file) for other files, as they are read with given options. The scan is kept whole and cut file
  by file into pieces of a fixed size, so positions do not move from query to query, whatever the session's settings,
  the cluster's size or the other files. Only of very many files several share a task; there it is the position in the
  scan;
- the number itself for `range`; the position for local data and RDDs whose order is certain;
- the contents (two hashes of all columns) for what has no order: JDBC tables, RDDs after a shuffle. Equal rows there
  have one identity and are witnesses together, so both are told.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote

from whence.spark.alike import PLAN
from whence.spark.catalyst import SPLIT
from whence.spark.lakes import DELTA, ICEBERG, MARK, ROW_IDS
from whence.spark.round_trips import of_files
from whence.spark.statuses import Listing
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, remembered
from whence.sql.tree import Node

SCANS = (
    *("LogicalRelation", "LocalRelation", "LogicalRDD", "ExternalRDD", "Range"),
    *("HiveTableRelation", "DataSourceV2Relation"),
)
FILE, HASH, ROW = "whence_file", "whence_hash", "whence_row"
# Of more files several share a task: a task for each would cost more than the rows.
MOST_FILES_APART = 500
# Options that say only which files are read.
_WHICH_FILES = {
    *("path", "paths", "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "basepath"),
    *("serialization.format", MARK),
}
# Options that say only how values are typed; a file's rows stay where they are, unless malformed ones are dropped.
_TYPES = {
    *("inferschema", "samplingratio", "mergeschema", "dateformat", "timestampformat", "timestampntzformat", "locale"),
    *("timezone", "preferdate", "nullvalue", "nanvalue", "positiveinf", "negativeinf"),
}
# Said or not said, it is the same.
_DEFAULTS = {"header": "false", "multiline": "false", "wholetext": "false", "mode": "permissive", "encoding": "utf-8"}
# Formats whose rows are the same whatever the columns' types.
_ANY_SCHEMA = ("text", "csv", "orc", "avro", "delta")
_CONTENTS = "contents: "
_ROW_ID = "the table's row id"
_POSITION = "position in the data file"
_DROPPING = "DROPMALFORMED"
# Paths that are spelled alike by a file system and in a URI.
_PLAIN = re.compile(r"[\w./:=+-]+", re.ASCII)
_NO_PLACE = re.compile("(user|password|pwd|create|ssl)", re.IGNORECASE)


# What a table of parameters is called in a query (alike_writes.py): it is read, and nobody's witness.
PARAMETERS = "__whence_parameters"


def is_parameters(node: Node) -> bool:
    return node.kind == "SubqueryAlias" and str(node.plan.identifier().name()) == PARAMETERS


def takes_parameters(node: Node) -> bool:
    """Whether a row of this operator is one of its input and one of a table of parameters, or a choice among these."""
    if node.kind == "Filter":
        return node.children[0].kind == "Join" and takes_parameters(node.children[0])
    # An outer join with it only says for which writes there is something.
    return (
        node.kind == "Join" and is_parameters(node.children[1]) and str(node.plan.joinType().toString()) != "RightOuter"
    )


def is_of_parameters(c: Catalyst, leaf: Node) -> bool:
    """Whether it is a table of parameters itself."""
    return leaf.kind == "LocalRelation" and [a.name() for a in c.output(leaf.plan)][:1] == [PLAN]


@dataclass(frozen=True)
class Dataset:
    """What is read, wherever it is read. Two readings with equal `key` read the same dataset."""

    # Where it is: a table, a path, an RDD.
    where: str
    name: str
    full_name: str
    # By what a row is told from the others. Identities of two readings can be compared if this is the same in both.
    told_by: str = ""
    # The same for the user, where there are several ways to read: "csv, header=true".
    how: str = ""

    @property
    def key(self) -> str:
        return f"{self.where} {self.told_by}"

    @property
    def by_contents(self) -> bool:
        """Whether equal rows have one identity."""
        return self.told_by.startswith(_CONTENTS)

    @property
    def by_row_id(self) -> bool:
        """Whether a row is told by the id that its table gave it, and the commit that last changed it."""
        return self.told_by == _ROW_ID

    @property
    def id_columns(self) -> tuple[str, ...]:
        """What the columns of an identity are called."""
        if self.by_contents:
            return HASH, ROW
        in_files = self.by_row_id or self.where.startswith("files:") or self.told_by == _POSITION
        return (FILE, ROW) if in_files else (ROW,)


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
        return Dataset(f"table:{name}", name.split(".")[-1], name, f"position in {_digest(hive_files(c, plan))}")
    if kind == "DataSourceV2Relation":
        return _v2(c, plan, view)
    identity = {
        "LocalRelation": lambda: c.identity(plan.data()),
        "LogicalRDD": lambda: str(plan.rdd().id()),
        "ExternalRDD": lambda: str(plan.rdd().id()),
        "Range": lambda: f"{plan.start()}:{plan.end()}:{plan.step()}:{plan.numSlices().toString()}",
    }[kind]()
    columns = ", ".join(a.name() for a in c.output(plan))
    default = "range" if kind == "Range" else "dataframe"
    told_by = _by_contents(c, plan) if _in_any_order(c, leaf) else ""
    return Dataset(f"{kind}:{identity}", view or default, f"{view or default}({columns})", told_by)


def _in_any_order(c: Catalyst, leaf: Node) -> bool:
    return leaf.kind in ("LogicalRDD", "ExternalRDD") and not c.keeps_order(leaf.plan)


def _relation(c: Catalyst, plan: Plan, view: str | None) -> Dataset:
    table, relation = plan.catalogTable(), plan.relation()
    by_name = str(table.get().identifier().unquotedString()) if table.isDefined() else None
    short = by_name.split(".")[-1] if by_name is not None else view
    if c.is_file_scan(plan):
        # By name or by path, it is the same if it lies at the same place.
        roots = roots_of(c, plan)
        last = _last_part(roots)
        told_by, how = _ways_of_reading(c, plan)
        return Dataset("files:" + "|".join(roots), short or last, by_name or ", ".join(roots), told_by, how)
    if c.is_a(relation, "org.apache.spark.sql.execution.datasources.jdbc.JDBCRelation"):
        return _jdbc(c, plan, short, by_name)
    text = relation.toString()
    where = f"relation:{text}:{c.identity(relation)}" if by_name is None else f"table:{by_name}"
    return Dataset(where, short or text, by_name or view or text, _by_contents(c, plan))


def _last_part(roots: list[str]) -> str:
    """Of one path its last part. Of several (`days/*`) that of the folder they share: no one of them names them all."""
    if not roots:
        return "no files"
    folder = posixpath.commonpath(roots).rsplit("/", 1)[-1]
    return folder if folder and not folder.endswith(":") else roots[0].rsplit("/", 1)[-1]


def roots_of(c: Catalyst, scan: Plan) -> list[str]:
    """Where the files of a scan lie. Files that were picked one by one are part of what lies at their base."""
    roots = sorted(root.rstrip("/") for root in c.roots(scan))
    base = c.options_of(scan, secrets=True).get("basepath")
    if base is None:
        return roots
    whole = c.qualified(base).rstrip("/")
    return [whole] if all(root.startswith(whole + "/") for root in roots) else roots


def _ways_of_reading(c: Catalyst, scan: Plan) -> tuple[str, str]:
    """By what the rows of files are told, and how these are read, for the user.

    Which row of a file is its third depends on the format and its options: a header, comments, records over several
    lines, what is dropped. What only says which files are read, or which types the columns have, does not count."""
    kind = c.format_of(scan) if c.snapshots_of(scan) is None else DELTA
    if c.row_ids_of(scan) is not None:
        return _ROW_ID, f"{kind} with row ids"
    if _has_row_index(c, scan):
        return "row of the file", kind
    given = c.options_of(scan, secrets=True)
    options = {
        key: value for key, value in given.items() if key not in _WHICH_FILES and value.lower() != _DEFAULTS.get(key)
    }
    by_lines = kind in _ANY_SCHEMA and options.get("mode", "").upper() != _DROPPING
    if by_lines:
        options = {key: value for key, value in options.items() if key not in _TYPES}
    shown = [f"{key}={value}" for key, value in sorted(c.options_of(scan).items()) if key.lower() in options]
    parts = [kind, *[f"{key}={value}" for key, value in sorted(options.items())]]
    if not by_lines:
        parts.append(str(scan.relation().dataSchema().json()))
    if not files_apart(c, scan):
        parts.append(_digest(c.files_of(scan) if c.tells_files(scan) else sorted(c.files(scan))))
    return f"position in the file, read as {_digest(parts)}", ", ".join([kind, *shown])


def files_apart(c: Catalyst, scan: Plan) -> bool:
    """Whether each file is read by tasks of its own: then the other files do not matter to the positions in it."""
    return c.number_of_files(scan) <= MOST_FILES_APART


def _digest(of: object) -> str:
    text = repr(sorted(of.items()) if isinstance(of, dict) else of)
    return hashlib.sha256(text.encode()).hexdigest()


def _by_contents(c: Catalyst, plan: Plan) -> str:
    return _CONTENTS + ", ".join(f"{a.name()} {c.type_of(a)}" for a in c.output(plan))


def _jdbc(c: Catalyst, plan: Plan, short: str | None, by_name: str | None) -> Dataset:
    # "table", "schema.table" or "(SELECT ...) AS name"
    options = plan.relation().jdbcOptions()
    table = str(options.tableOrQuery())
    url = str(options.url())
    place = url.split("?")[0].split(";")[0]
    name = table.rsplit(None, 1)[-1].rsplit(".", 1)[-1].strip('"`)')
    # What follows may name the database, and may hold a password.
    rest = [part for part in re.split("[?;&]", url)[1:] if not _NO_PLACE.match(part)]
    where = f"jdbc:{place}:{_digest(rest)}:{table}"
    return Dataset(where, short or name, by_name or f"{place} {table}", _by_contents(c, plan))


def _v2(c: Catalyst, plan: Plan, view: str | None) -> Dataset:
    name = str(plan.table().name())
    if c.row_ids_of(plan) is not None:
        return Dataset(f"v2:{name}", view or name.split(".")[-1], name, _ROW_ID, f"{ICEBERG} with row ids")
    if _has_positions(c, plan):
        return Dataset(f"v2:{name}", view or name.split(".")[-1], name, _POSITION, ICEBERG)
    options = _digest({str(key): str(value) for key, value in dict(plan.options().asCaseSensitiveMap()).items()})
    return Dataset(f"v2:{name}:{options}", view or name.split(".")[-1], name, _by_contents(c, plan))


def identify(c: Catalyst, leaf: Node) -> IdentifiedLeaf:
    plan = leaf.plan
    if leaf.rows is not None:
        columns = c.output(plan)
        known = [c.alias(a, a.name()) for a in c.output(leaf.rows)[len(columns) :]]
        found = c.project([*columns, *known], leaf.rows)
        return IdentifiedLeaf(found, tuple(i.toAttribute() for i in known), tuple(columns))
    if c.is_file_scan(plan):
        return _identify_files(c, plan)
    if leaf.kind == "DataSourceV2Relation":
        return _identify_v2(c, plan)
    if leaf.kind == "Range" or is_of_parameters(c, leaf):
        return _identified(c, plan, [c.alias(c.output(plan)[0], ROW)])
    if leaf.kind == "LogicalRelation" or _in_any_order(c, leaf):
        return _identified(c, plan, _contents(c, plan))
    return _identified(c, plan, [c.alias(c.position(), ROW)])


def in_files(c: Catalyst, scan: Plan, paths: Collection[str]) -> Plan:
    """The rows of a scan of files that are in these."""
    leaf = _identify_files(c, scan)
    (file, _) = leaf.ids
    there = c.one_of(file, [number for number, path in files_by_hash(c, scan).items() if path in paths])
    assert there is not None
    return c.project(leaf.columns, c.filter(there, leaf.plan))


def files_by_hash(c: Catalyst, scan: Plan) -> dict[int, str]:
    """The files of a scan, as they are listed, by what their rows have for them."""

    def work_out() -> dict[int, str]:
        listed = list(c.files_of(scan))
        if all(map(_PLAIN.fullmatch, listed)):
            return dict(zip(c.hashes_of_texts(listed), listed, strict=True))
        known, spelled = set(listed), c.files(scan)
        return {
            n: path for n, path in zip(c.hashes_of_texts(spelled), map(unquote, spelled), strict=True) if path in known
        }

    return remembered(scan, "files_by_hash", work_out)


def _identified(c: Catalyst, plan: Plan, ids: list[Expr]) -> IdentifiedLeaf:
    return IdentifiedLeaf(c.extend(plan, ids), tuple(i.toAttribute() for i in ids), tuple(c.output(plan)))


def _contents(c: Catalyst, plan: Plan) -> list[Expr]:
    return [c.alias(h, name) for h, name in zip(c.content_hashes(c.output(plan)), (HASH, ROW), strict=True)]


def _has_positions(c: Catalyst, plan: Plan) -> bool:
    """Whether the connector tells each row's file and its place there (Iceberg)."""
    names = {a.name() for a in c.output(plan.withMetadataColumns())[len(c.output(plan)) :]}
    return {"_file", "_pos"} <= names and c.is_iceberg(plan)  # what it tells about a table claims to have them too


def _identify_v2(c: Catalyst, plan: Plan) -> IdentifiedLeaf:
    columns = c.output(plan)
    if not _has_positions(c, plan):
        return _identified(c, plan, _contents(c, plan))
    wide = c.at_its_snapshot(plan).withMetadataColumns()
    metadata = {a.name(): a for a in c.output(wide)[len(columns) :]}
    if c.row_ids_of(plan) is not None:
        number, changed = ROW_IDS[ICEBERG]
        file, row = c.alias(metadata[changed], FILE), c.alias(metadata[number], ROW)
    else:
        file, row = c.alias(c.hash64(metadata["_file"]), FILE), c.alias(metadata["_pos"], ROW)
    scan = c.project([*columns, file, row], wide)
    return IdentifiedLeaf(scan, (file.toAttribute(), row.toAttribute()), tuple(columns))


def has_row_index(c: Catalyst, leaf: Node) -> bool:
    """Whether a row is told by its number in its file, which stays the same when other rows are not read."""
    return c.is_file_scan(leaf.plan) and c.row_ids_of(leaf.plan) is None and _has_row_index(c, leaf.plan)


def stays_itself(c: Catalyst, leaf: Node) -> bool:
    """Whether a row is told as before when others are not read: by its number in its file, or as its table tells it."""
    if c.is_file_scan(leaf.plan):
        return c.row_ids_of(leaf.plan) is not None or _has_row_index(c, leaf.plan)
    return leaf.kind == "DataSourceV2Relation" and _has_positions(c, leaf.plan)


def _has_row_index(c: Catalyst, scan: Plan) -> bool:
    return remembered(of_files(scan), "has_row_index", lambda: _tells_row_index(c, scan))


def _tells_row_index(c: Catalyst, scan: Plan) -> bool:
    return c.has_field(c.metadata(c.numbered(scan).withMetadataColumns()), "row_index")


def _identify_files(c: Catalyst, plan: Plan) -> IdentifiedLeaf:
    columns = c.output(plan)
    scan = c.numbered(plan).withMetadataColumns()
    metadata = c.metadata(scan)
    if c.row_ids_of(plan) is not None:
        number, changed = (c.struct_field(metadata, name) for name in ROW_IDS[DELTA])
        ids = [c.alias(changed, FILE), c.alias(number, ROW)]
        return IdentifiedLeaf(c.project([*columns, *ids], scan), tuple(i.toAttribute() for i in ids), tuple(columns))
    file = c.alias(_file(c, plan, metadata), FILE)
    if c.has_field(metadata, "row_index"):
        row = c.alias(c.struct_field(metadata, "row_index"), ROW)
    else:
        # Not deterministic in Catalyst's eyes, so no filter is pushed below it: the scan always reads all files.
        apart = files_apart(c, plan)
        scan = c.in_fixed_splits(scan, apart=apart)
        start = c.struct_field(metadata, "file_block_start")
        position = c.position_in_file(start, SPLIT) if apart else c.position()
        if str(c.option(plan, "mode")).upper() == _DROPPING:
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


def hive_files(c: Catalyst, plan: Plan) -> Listing:
    """The files of a Hive table with a SerDe of its own, as they were when first asked for."""

    def listed() -> Listing:
        location = plan.tableMeta().storage().locationUri()  # a table of another store has none
        return c.list_files(str(location.get().toString())) if location.isDefined() else {}

    return remembered(plan, "hive_files", listed)
