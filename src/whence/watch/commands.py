"""Commands: what each one makes, changes or removes, and from which query. One rule per command, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from whence.model.lineage import Seen
from whence.watch import naming, sources
from whence.watch.columns import (
    CONDITIONAL,
    FILTER,
    IDENTITY,
    JOIN,
    TRANSFORMATION,
    Contribution,
    Contributions,
    through,
)
from whence.watch.nodes import Node, Reading, output

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Effect:
    """What a command does to one dataset."""

    target: Seen
    how: str
    kind: str = "write"
    query: Node | None = None
    names: tuple[str, ...] = ()
    """The target's columns in the order of the query's; empty: the query's own names."""
    to: Seen | None = None
    reads: tuple[Seen, ...] = ()
    columns: tuple[tuple[str, Contributions], ...] | None = None
    row: Contributions = frozenset()
    version: str | None = None
    """The version that the command made, as the dataset's own format counts."""


Rule = Callable[[Reading, Fields, Node], "list[Effect]"]


def _query(node: Node, *names: str) -> Node | None:
    for name in (*names, "query", "plan", "child"):
        held = node.get("f", {}).get(name)
        if isinstance(held, dict) and "plan" in held:
            plan: Node = held["plan"]
            return plan
    children = node.get("k") or []
    return children[0] if children else None


def _names(fields: Fields) -> tuple[str, ...]:
    return tuple(fields.get("outputColumnNames") or ())


def _schema(query: Node | None, names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found = output(query) if query else []
    if names and len(names) == len(found):
        return tuple((name, c[2]) for name, c in zip(names, found, strict=True))
    return tuple((c[1], c[2]) for c in found)


def _how(mode: str | None, partial: bool = False) -> str:
    return "overwrite" if (mode or "").lower() in ("overwrite", "errorifexists", "ignore") and not partial else "append"


def _insert_files(r: Reading, f: Fields, node: Node) -> list[Effect]:
    query = _query(node)
    partial = bool(f.get("staticPartitions")) or (bool(f.get("partitionColumns")) and bool(f.get("dynamic")))
    if f.get("catalogTable"):
        target = sources.of_table(r.place, f["catalogTable"])
    else:
        target = replace(sources.of_path(f["outputPath"]), columns=_schema(query, _names(f)))
    return [Effect(target, _how(f.get("mode"), partial), "write", query, _names(f))]


def _insert_hive(r: Reading, f: Fields, node: Node) -> list[Effect]:
    partial = bool(f.get("partition"))
    how = "overwrite" if f.get("overwrite") and not partial else "append"
    return [Effect(sources.of_table(r.place, f["table"]), how, "write", _query(node), _names(f))]


def _create_as(r: Reading, f: Fields, node: Node) -> list[Effect]:
    if f.get("mode") == "Ignore" and not f.get("written") and not f.get("error"):
        return []  # CREATE TABLE IF NOT EXISTS, and there was one
    query = _query(node)
    table = sources.of_table(r.place, f.get("table") or f["tableDesc"])
    target = replace(table, columns=_schema(query, _names(f)))
    return [Effect(target, _how(f.get("mode") or "Overwrite"), "create", query, _names(f))]


def _insert_source(r: Reading, f: Fields, node: Node) -> list[Effect]:
    relation = f["logicalRelation"]["plan"] if "plan" in f.get("logicalRelation", {}) else {}
    found = sources.read(r.place, relation).datasets if relation else []
    how = "overwrite" if f.get("overwrite") else "append"
    return [Effect(target, how, "write", _query(node)) for target in found]


def _insert_directory(r: Reading, f: Fields, node: Node) -> list[Effect]:
    query = _query(node)
    target = replace(sources.of_path(f["storage"]["location"]), columns=_schema(query, _names(f)))
    return [Effect(target, "overwrite", "write", query, _names(f))]


def _save(r: Reading, f: Fields, node: Node) -> list[Effect]:
    query = _query(node)
    maker = f["dataSource"].get("c", "") if isinstance(f.get("dataSource"), dict) else str(f.get("dataSource"))
    effects = _by_options(maker, sources.merged_options(f.get("options")), query, _how(f.get("mode")))
    return [replace(effect, version=_made_anew(f)) for effect in effects]


def _by_options(maker: str, options: dict[str, str], query: Node | None, how: str) -> list[Effect]:
    if "kafka" in maker.lower() or "kafka.bootstrap.servers" in options:
        servers = options.get("kafka.bootstrap.servers")
        found = [options["topic"]] if options.get("topic") else _topic_column(query)
        return [
            Effect(Seen(*naming.of_topic(servers, t), "topic", _schema(query, ())), "append", "write", query)
            for t in found
        ]
    found_sets = sources.of_options(maker, options, _schema(query, ()))
    return [Effect(target, how, "write", query) for target in found_sets]


def _topic_column(query: Node | None) -> list[str]:
    """The topics named by constants in the query's own `topic` column; the column's name where they are data."""
    found: list[str] = []
    todo = [query] if query else []
    while todo:
        node = todo.pop()
        for expression in node.get("f", {}).get("projectList", ()):
            if isinstance(expression, dict) and expression.get("n") == "topic" and "v" in expression:
                found.append(expression["v"])
        todo.extend(node.get("k", ()))
    return sorted(set(found)) or ["*"]


def _relation_of(r: Reading, held: Any) -> list[Seen]:
    """The table that a V2 command writes to: a relation, a resolved name, or a table object."""
    node = held.get("plan", held) if isinstance(held, dict) else {}
    while node.get("c") in ("SubqueryAlias", "Project") and node.get("k"):
        node = node["k"][0]
    name = node.get("c", "")
    if name in ("ResolvedIdentifier", "ResolvedTable"):
        f = node["f"]
        if f.get("table"):
            return sources.of_v2(r.place, f["table"], f.get("catalog"), f.get("identifier"), None, _columns(node))
        return [sources.of_identifier(r.place, f.get("catalog") or {}, f["identifier"])]
    if name in ("ResolvedPersistentView",):
        f = node["f"]
        return [sources.of_identifier(r.place, {"catalog": "spark_catalog"}, f["identifier"])]
    if name:
        return sources.read(r.place, node).datasets
    return []


def _made(*held: Any) -> str | None:
    """The version that the command committed to a table, if its log tells that."""
    for one in held:
        node = one.get("plan", one) if isinstance(one, dict) else {}
        while node.get("c") in ("SubqueryAlias", "Project") and node.get("k"):
            node = node["k"][0]
        f = node.get("f") or {}
        about = f.get("relation") or f.get("table") or {}
        if isinstance(about, dict) and about.get("after"):
            return str(about["after"])
    return None


def _made_anew(f: Fields) -> str | None:
    """The same of a table that was made by the command, or is known to it by its path alone."""
    return _made({"f": {"table": f.get("made")}})


def _columns(node: Node) -> tuple[tuple[str, str], ...]:
    return tuple((c[1], c[2]) for c in output(node))


def _v2_write(r: Reading, f: Fields, node: Node) -> list[Effect]:
    query = _query(node)
    overwrite = "Overwrite" in node["c"] and "Dynamic" not in node["c"]
    if overwrite and isinstance(f.get("deleteExpr"), dict) and f["deleteExpr"].get("c") != "Literal":
        overwrite = False
    held = (f.get("table") or {}).get("plan", {})
    if (held.get("f", {}).get("catalog") or {}).get("catalog") in sources.REWRITING:
        return []
    targets = _relation_of(r, f.get("table"))
    options = sources.merged_options(f.get("writeOptions"), (held.get("f", {}).get("table") or {}).get("options"))
    if not targets or any(t.kind == "topic" for t in targets):
        maker = str((held.get("f", {}).get("table") or {}).get("class", ""))
        return _by_options(maker, options, query, "append")
    names = tuple(name for name, _ in targets[0].columns)
    how, made = "overwrite" if overwrite else "append", _made(f.get("table"))
    return [Effect(t, how, "write", query, names, version=made) for t in targets]


def _v2_create_as(r: Reading, f: Fields, node: Node) -> list[Effect]:
    children = node.get("k") or []
    name = next((c for c in children if c["c"].startswith("Resolved")), None)
    query = next((c for c in children if not c["c"].startswith("Resolved")), None) or _query(node)
    targets = _relation_of(r, name or f.get("name") or f.get("left"))
    made = _made_anew(f)
    return [Effect(replace(t, columns=_schema(query, ())), "overwrite", "create", query, version=made) for t in targets]


def _v2_create(r: Reading, f: Fields, node: Node) -> list[Effect]:
    columns = tuple(
        (c["name"], "") for c in f.get("columns") or () if isinstance(c, dict) and isinstance(c.get("name"), str)
    )
    targets = _relation_of(r, (node.get("k") or [None])[0] or f.get("name"))
    return [Effect(replace(t, columns=columns or t.columns), "create", "create") for t in targets]


def _create(r: Reading, f: Fields, node: Node) -> list[Effect]:
    return [Effect(sources.of_table(r.place, f["table"]), "create", "create")]


def _create_like(r: Reading, f: Fields, node: Node) -> list[Effect]:
    source = sources.of_table(r.place, f["sourceTable"])
    return [Effect(sources.of_table(r.place, f["targetTable"]), "create", "create", reads=(source,))]


def _view(r: Reading, f: Fields, node: Node) -> list[Effect]:
    kind = f.get("viewType")
    if isinstance(kind, dict) and "Persisted" not in kind.get("c", ""):
        return []
    if isinstance(kind, str) and "Persisted" not in kind:
        return []
    query = _query(node)
    names = tuple(c[0] if isinstance(c, list) else c for c in f.get("userSpecifiedColumns") or ())
    target = replace(sources.of_table(r.place, f["name"], "view"), columns=_schema(query, names))
    return [Effect(target, "define", "view", query, names)]


def _drop(r: Reading, f: Fields, node: Node) -> list[Effect]:
    if f.get("tableName"):
        return [Effect(sources.of_table(r.place, f["tableName"]), "drop", "drop")]
    targets = _relation_of(r, (node.get("k") or [None])[0] or f.get("child"))
    return [Effect(t, "drop", "drop") for t in targets]


def _rename(r: Reading, f: Fields, node: Node) -> list[Effect]:
    if "oldName" in f:
        old, new = dict(f["oldName"]), dict(f["newName"])
        new["database"] = new.get("database") or old.get("database")
        return [Effect(sources.of_table(r.place, old), "rename", "rename", to=sources.of_table(r.place, new))]
    targets = _relation_of(r, (node.get("k") or [None])[0])
    parts = f.get("newName") or []
    if not targets or not parts:
        return []
    name = ".".join(parts if len(parts) > 1 else [*targets[0].name.split(".")[:-1], parts[0]])
    return [Effect(targets[0], "rename", "rename", to=Seen(targets[0].namespace, name, "table"))]


def _truncate(r: Reading, f: Fields, node: Node) -> list[Effect]:
    how = "alter" if f.get("partitionSpec") else "truncate"
    if f.get("tableName"):
        return [Effect(sources.of_table(r.place, f["tableName"]), how, "truncate")]
    targets = _relation_of(r, (node.get("k") or [None])[0])
    return [Effect(t, "alter" if "Partition" in node["c"] else "truncate", "truncate") for t in targets]


def _alter(r: Reading, f: Fields, node: Node) -> list[Effect]:
    name = next(
        (f[k] for k in ("tableName", "table", "tableIdent", "tableIdentWithDB") if isinstance(f.get(k), dict)), None
    )
    if name is not None and "table" in name:
        return [Effect(_altered(sources.of_table(r.place, name), f), "alter", "alter")]
    targets = _relation_of(r, (node.get("k") or [None])[0])
    return [Effect(_altered(t, f), "alter", "alter") for t in targets]


def _altered(seen: Seen, f: Fields) -> Seen:
    if f.get("now"):
        return replace(seen, columns=tuple((c[1], c[2]) for c in f["now"]))
    added = [(c[1], c[2]) for c in f.get("colsToAdd") or () if isinstance(c, list)]
    added += [
        (c["name"][-1], "")
        for c in f.get("columnsToAdd") or ()
        if isinstance(c, dict) and isinstance(c.get("name"), list)
    ]
    return replace(seen, columns=tuple(("+" + n, t) for n, t in added))


def _load(r: Reading, f: Fields, node: Node) -> list[Effect]:
    how = "overwrite" if f.get("isOverwrite") and not f.get("partition") else "append"
    source = sources.of_path(str(f["path"]))
    return [Effect(sources.of_table(r.place, f["table"]), how, "load", reads=(source,))]


def _database(r: Reading, f: Fields, node: Node) -> list[Effect]:
    name = f.get("databaseName") or f.get("name")
    if not isinstance(name, str):
        held = (node.get("k") or [{}])[0].get("f", {})
        name = ".".join(held.get("namespace") or held.get("nameParts") or ())
    if not name:
        return []
    how = {"C": "create", "D": "drop", "A": "alter", "S": "alter"}[node["c"][0]]
    return [Effect(Seen(r.place.tables, name, "database"), how, how)]


def _merge(r: Reading, f: Fields, node: Node) -> list[Effect]:
    """MERGE, UPDATE, DELETE: assignments go into their columns, conditions reach all."""
    children = list(node.get("k") or [])
    held = [f[k]["plan"] for k in ("target", "source", "targetTable", "sourceTable") if "plan" in (f.get(k) or {})]
    order = children or held
    if node["c"].startswith("MergeIntoCommand") and "source" in f and len(held) == 2:
        order = held
    targets = _relation_of(r, order[0]) if order else []
    before = set(r.read)
    row: set[Contribution] = set()
    for plan in order:
        row |= r.rows(plan)
    own = {r.dataset(t) for t in targets}
    condition = f.get("mergeCondition") or f.get("condition")
    row |= r.scope.all([condition], JOIN if "Merge" in node["c"] else FILTER)
    found: dict[str, Contributions] = {}
    names = {number: name for plan in order[:1] for number, name, _ in _attributes(plan)}
    for key in (
        "matchedActions",
        "notMatchedActions",
        "notMatchedBySourceActions",
        "assignments",
        "matchedClauses",
        "notMatchedClauses",
        "notMatchedBySourceClauses",
        "updateExpressions",
    ):
        for action in f.get(key) or ():
            _assign(r, action, names, found)
    if f.get("updateExpressions") and targets:
        for (name, _), expression in zip(targets[0].columns, f["updateExpressions"], strict=False):
            found[name] = found.get(name, frozenset()) | r.scope.of(expression)
    if not order:
        return []
    kind = "merge" if "Merge" in node["c"] else "update" if "Update" in node["c"] else "delete"
    columns = _changed(r, list(found.items()), row, own, before)
    made = _made(order[0])
    return [Effect(t, kind, kind, None, (), None, (), columns, frozenset(row), made) for t in targets]


def _restore(r: Reading, f: Fields, node: Node) -> list[Effect]:
    """Delta's RESTORE: the table gets the rows and columns that it had in an older version, and nothing else."""
    table = f.get("sourceTable") or {}
    found = tuple((c[1], c[2]) for c in table.get("columns") or ())
    effects = []
    for target in sources.of_v2(r.place, table, None, None, None, found):
        own = r.dataset(target)
        same = tuple((name, frozenset([(own, name, IDENTITY, False)])) for name, _ in target.columns)
        made = _made({"f": {"table": table}})
        effects.append(Effect(target, "restore", "restore", reads=(target,), columns=same, version=made))
    return effects


def _changed(
    r: Reading, columns: list[tuple[str, Contributions]], row: set[Contribution], own: set[int], before: set[int]
) -> tuple[tuple[str, Contributions], ...]:
    """Columns without what stays as it is. The table itself is an input where its columns are used."""
    found = tuple((n, frozenset(c for c in some if not _stays(c, n, own))) for n, some in columns)
    if not any(c[0] in own for some in (row, *(some for _, some in found)) for c in some):
        r.read.difference_update(own - before)
    return found


def _stays(contribution: Contribution, column: str, own: set[int]) -> bool:
    return contribution[0] in own and contribution[1] == column and contribution[2] == IDENTITY


def _attributes(node: Node) -> list[Any]:
    found = list(output(node))
    for child in node.get("k", ()):
        found += _attributes(child)
    return found


def _assign(r: Reading, action: Any, names: dict[int, str], found: dict[str, Contributions]) -> None:
    if not isinstance(action, dict):
        return
    children = action.get("k") or []
    if action["c"] == "DeltaMergeAction" and action.get("n") and children:
        name = str(action["n"])
        found[name] = found.get(name, frozenset()) | r.scope.of(children[0])
        return
    if action["c"] in ("Assignment", "DeltaMergeAction") and len(children) >= 2:
        key, value = children[0], children[1]
        while isinstance(key, dict) and key.get("k"):
            key = key["k"][0]
        if isinstance(key, int) and key in names:
            found[names[key]] = found.get(names[key], frozenset()) | r.scope.of(value)
        return
    nested: dict[str, Contributions] = {}
    tests = [c for c in children if not (isinstance(c, dict) and c["c"] in ("Assignment", "DeltaMergeAction"))]
    for child in children:
        if child not in tests:
            _assign(r, child, names, nested)
    decided = r.scope.all(tests, CONDITIONAL)
    for name, contributions in nested.items():
        found[name] = found.get(name, frozenset()) | contributions | decided


def _row_level(r: Reading, f: Fields, node: Node) -> list[Effect]:
    """MERGE, UPDATE and DELETE after Spark has rewritten them for a V2 table: a query that gives the new rows."""
    targets = _relation_of(r, f.get("originalTable")) or _relation_of(r, f.get("table"))
    query = _query(node)
    if not targets or query is None:
        return []
    own, before = {r.dataset(t) for t in targets}, set(r.read)
    r.own = own
    row = r.rows(query) | r.scope.all([f.get("condition")], FILTER)
    operation = str((((f.get("table") or {}).get("plan") or {}).get("f", {}).get("table") or {}).get("operation", ""))
    kind = operation.lower() or ("merge" if r.read - own else "update")
    names = {name for name, _ in targets[0].columns}
    found = [(n, c) for n, c in r.outputs(query) if n in names and kind != "delete"]
    columns = _changed(r, found, row, own, before)
    made = _made(f.get("originalTable"), f.get("table"))
    return [Effect(t, kind, kind, None, (), None, (), columns, frozenset(row), made) for t in targets]


def _stream_write(r: Reading, f: Fields, node: Node) -> list[Effect]:
    """One micro-batch into its sink."""
    query = _query(node)
    held = f.get("sink") or f.get("table") or {}
    if isinstance(f.get("relation"), dict) and "plan" in f["relation"]:
        found = _relation_of(r, f["relation"])
        if found:
            return [Effect(t, "append", "stream", query) for t in found]
    if f.get("catalogTable"):
        return [Effect(sources.of_table(r.place, f["catalogTable"]), "append", "stream", query)]
    options = sources.merged_options(held.get("options"), f.get("writeOptions"))
    maker = str(held.get("class", "")) + str(held.get("c", "")) + str(held.get("text", ""))
    if isinstance((held.get("options") or {}).get("path"), str):
        options["path"] = held["options"]["path"]
    if "foreachbatch" in maker.lower():
        return []
    effects = _by_options(maker, options, query, "append")
    if not effects and "console" not in maker.lower() and "noop" not in maker.lower():
        name = "memory" if "memory" in maker.lower() else held.get("c", "sink")
        effects = [
            Effect(
                Seen("memory", f"{r.place.application}/{name}", "memory", _schema(query, ())), "append", "stream", query
            )
        ]
    return [replace(e, kind="stream") for e in effects]


COMMANDS: dict[str, Rule] = {
    "InsertIntoHadoopFsRelationCommand": _insert_files,
    "InsertIntoHiveTable": _insert_hive,
    "CreateDataSourceTableAsSelectCommand": _create_as,
    "CreateHiveTableAsSelectCommand": _create_as,
    "SaveAsV1TableCommand": _create_as,
    "OptimizedCreateHiveTableAsSelectCommand": _create_as,
    "InsertIntoDataSourceCommand": _insert_source,
    "InsertIntoDataSourceDirCommand": _insert_directory,
    "InsertIntoHiveDirCommand": _insert_directory,
    "SaveIntoDataSourceCommand": _save,
    "AppendData": _v2_write,
    "OverwriteByExpression": _v2_write,
    "OverwritePartitionsDynamic": _v2_write,
    "DeltaDynamicPartitionOverwriteCommand": _v2_write,
    "CreateTableAsSelect": _v2_create_as,
    "ReplaceTableAsSelect": _v2_create_as,
    "CreateTable": _v2_create,
    "ReplaceTable": _v2_create,
    "CreateDataSourceTableCommand": _create,
    "CreateTableCommand": _create,
    "CreateTableLikeCommand": _create_like,
    "CreateViewCommand": _view,
    "AlterViewAsCommand": _view,
    "DropTableCommand": _drop,
    "DropTable": _drop,
    "DropView": _drop,
    "AlterTableRenameCommand": _rename,
    "RenameTable": _rename,
    "TruncateTableCommand": _truncate,
    "TruncateTable": _truncate,
    "TruncatePartition": _truncate,
    "LoadDataCommand": _load,
    "CreateDatabaseCommand": _database,
    "CreateNamespace": _database,
    "DropDatabaseCommand": _database,
    "DropNamespace": _database,
    "AlterDatabasePropertiesCommand": _database,
    "AlterDatabaseSetLocationCommand": _database,
    "SetNamespaceProperties": _database,
    "SetNamespaceLocation": _database,
    "SetNamespaceCommand": lambda r, f, node: [],
    "MergeIntoTable": _merge,
    "MergeIntoCommand": _merge,
    "UpdateTable": _merge,
    "UpdateCommand": _merge,
    "DeleteFromTable": _merge,
    "DeleteCommand": _merge,
    "RestoreTableCommand": _restore,
    "ReplaceData": _row_level,
    "WriteDelta": _row_level,
    "WriteToMicroBatchDataSource": _stream_write,
    "WriteToMicroBatchDataSourceV1": _stream_write,
    "WriteToContinuousDataSource": _stream_write,
}

ALTERS = (
    "AlterTable", "AddColumns", "DropColumns", "RenameColumn", "AlterColumn", "SetTable", "AddPartitions",
    "DropPartitions", "RenamePartitions", "ReplaceColumns", "UnsetTable", "AddCheckConstraint", "RecoverPartitions",
)  # fmt: skip

SILENT = (
    "Show", "Describe", "Desc", "Set", "Reset", "Use", "Explain", "Cache", "Uncache", "ClearCache", "Refresh",
    "Analyze", "AddJar", "AddFile", "AddArchive", "List", "CreateFunction", "DropFunction", "RefreshFunction",
    "CreateTempView", "CreateVariable", "DropVariable", "Call", "RepairTable", "Comment", "ExternalCommand",
    "CommandResult", "UnsetNamespace", "CreateUserDefined", "StreamingExplain", "CreateTempFunction",
    "DropTempView", "CompoundBody", "SingleStatement",
)  # fmt: skip
"""Commands that neither make nor change data."""

__all__ = ["ALTERS", "COMMANDS", "IDENTITY", "SILENT", "TRANSFORMATION", "Effect", "alter", "through"]

alter = _alter
