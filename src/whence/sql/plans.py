"""A query's plan as bytes and back, in another process too.

What a plan reads cannot be written: it belongs to its session. Each scan of files is exchanged for an empty relation
and described beside the plan, so that it can be read again. Everything else goes as Java writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from whence.model import StoreError
from whence.spark.allowed import FORMATS, names_class, reading_options
from whence.spark.earlier import earlier
from whence.spark.lake_columns import is_promoted, value_before
from whence.spark.lakes import DELTA, ICEBERG, Version, version_told
from whence.spark.paths import literal
from whence.sql import facts
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, class_name, id_of
from whence.sql.sources import SCANS
from whence.sql.tree import Node, rebuild, tree_of

# Leaves that hold all they give.
_SELF_CONTAINED = ("LocalRelation", "Range", "OneRowRelation")
_TABLES = ("LogicalRelation", "DataSourceV2Relation")
_SET_OPERATIONS = ("Except", "Intersect")
_STANDS_FOR = "whence stands for "


class NotRestored(Exception):
    """A plan cannot be made again here; says why, as the end of a sentence."""


def describe(c: Catalyst, tree: Node) -> dict[str, Any]:
    """What is to be known beside the bytes: the leaves and the facts of the tree, each by its place in it."""
    leaves, known = [], []
    for place, node in enumerate(tree.walk()):
        if not node.children and not node.subqueries:
            leaves.append(_leaf(c, node))
        elif (fact := facts.known(c, node.kind, node.plan)) is not None and fact.durable:
            fact.lasting = True
            known.append([place, fact.folder.rsplit("/", 1)[-1], fact.certain])
    return {"spark": c.spark.version, "leaves": leaves, "facts": known}


def as_read(c: Catalyst, plan: Plan) -> Plan:
    """The same query, where a table that keeps versions went on since it was made: it reads the version that Spark
    reads by it now."""

    def is_late(leaf: Plan) -> bool:
        return class_name(leaf) in _TABLES and c.version_read(leaf) != c.version_of(leaf)

    def now(node: Node) -> Plan | None:
        if node.kind not in _TABLES or not is_late(node.plan):
            return None
        version = c.version_read(node.plan)
        assert version is not None
        scan = c.open_version(version)
        if scan is None:
            raise NotRestored(f"{version.shown} that it is made from has no {version.as_text} any more")
        return _alike(c, scan, c.output(node.plan), c.columns_told(node.plan), version.shown)

    if not any(is_late(leaf) for leaf in c.leaves(plan)):
        return plan
    if c.cached_below(plan):
        raise NotRestored("a table that it reads went on since, and Spark may have rows of before in its cache")
    return rebuild(c, tree_of(c, plan), now)


def files_leaf(c: Catalyst, node: Node) -> dict[str, Any] | None:
    """What is to be known of a scan of files to read the same again; None for other leaves."""
    leaf = _leaf(c, node)
    return leaf if leaf["kind"] == "files" else None


def reading(c: Catalyst, leaf: Mapping[str, Any], attrs: Sequence[Attr]) -> Plan:
    """A scan of what is described, under these attributes."""
    scan = c.plan_of(_frame(c, leaf))
    while class_name(scan) == "SubqueryAlias":
        scan = scan.child()
    return _named_alike(c, scan, attrs, leaf["table"] or ", ".join(leaf["roots"]))


def _leaf(c: Catalyst, node: Node) -> dict[str, Any]:
    if node.kind in _SELF_CONTAINED:
        return {"kind": "itself"}
    version = c.version_of(node.plan) if node.kind in _TABLES else None
    if version is not None:
        return {"kind": "version", **version.told(), "columns": c.columns_told(node.plan)}
    if c.part_read(node.plan):
        return {"kind": "gone", "what": node.kind, "why": "its query read only a part of the rows of an Iceberg table"}
    if node.kind != "LogicalRelation" or not c.is_file_scan(node.plan):
        return {"kind": "gone", "what": node.kind}
    if c.format_of(node.plan) not in FORMATS or not c.tells_files(node.plan):
        return {"kind": "gone", "what": "a table whose format keeps versions of its own"}
    relation = node.plan.relation()
    table = node.plan.catalogTable()
    schema = json.loads(relation.schema().json())
    return {
        "kind": "files",
        "table": str(table.get().identifier().unquotedString()) if table.isDefined() else None,
        "format": c.format_of(node.plan),
        "options": reading_options(c.options_of(node.plan)),
        "schema": schema,
        "roots": c.roots(node.plan),
        "files": sorted([path, *version] for path, version in c.files_of(node.plan).items()),
    }


def to_bytes(c: Catalyst, tree: Node) -> bytes:
    def emptied(node: Node) -> Plan | None:
        if node.kind in SCANS and node.kind not in _SELF_CONTAINED:
            return c.empty_like(node.plan)
        return None

    bare = tree_of(c, rebuild(c, tree, emptied))
    return c.serialised(each(c, bare, lambda plan: _writable(c, plan)))


def _writable(c: Catalyst, plan: Plan) -> Plan:
    """The node, or a stand-in: Java writes some classes of Spark's that it cannot read again."""
    plan = c.without_what_cannot_be_written(plan)
    if class_name(plan) in _SET_OPERATIONS:
        left, right = c.children(plan)
        return c.subquery_alias(f"{_STANDS_FOR}{class_name(plan)} {plan.isAll()}", c.join(left, right, "cross", None))
    subqueries = {id_of(subquery): subquery for subquery in c.subqueries(plan)}
    if not subqueries:
        return plan
    for subquery in subqueries.values():
        if class_name(subquery) != "ScalarSubquery" or c.items(subquery.outerAttrs()):
            raise StoreError(f"a {class_name(subquery)} cannot be kept")
    marks = {key: c.alias(c.null(sub), f"{_STANDS_FOR}{key}").toAttribute() for key, sub in subqueries.items()}
    bare = c.exchange(plan, lambda expr: marks[id_of(expr)] if c.is_subquery(expr) else None)
    for key, subquery in subqueries.items():
        bare = c.subquery_alias(f"{_STANDS_FOR}{key}", c.join(bare, subquery.plan(), "cross", None))
    return bare


def _restored(c: Catalyst, plan: Plan) -> Plan:
    """What `_writable` was given."""
    plan = c.made_again(plan)
    name = str(plan.identifier().name()) if class_name(plan) == "SubqueryAlias" else ""
    if not name.startswith(_STANDS_FOR):
        return plan
    left, right = c.children(plan.child())
    kind, _, is_all = name.removeprefix(_STANDS_FOR).partition(" ")
    if kind in _SET_OPERATIONS:
        return c.set_operation(kind, left, right, is_all == "True")

    def unmarked(expr: Expr) -> Expr | None:
        mark = class_name(expr) == "AttributeReference" and expr.name() == name
        return c.scalar_subquery(right) if mark else None

    return c.exchange(left, unmarked)


def each(c: Catalyst, node: Node, change: Callable[[Plan], Plan]) -> Plan:
    """The plan with every operator changed, what is below it first."""
    children = {id(child): each(c, child, change) for child in node.children}
    subqueries = {id(below): each(c, below, change) for below in node.subqueries.values()}
    done = {**children, **subqueries}
    return change(rebuild(c, node, lambda other: None if other is node else done[id(other)]))


# What files at a root were made from, under these attributes; None when that is not known.
MadeFrom = Callable[[str, Mapping[str, tuple[int, int]], Sequence[Attr]], Plan | None]


@dataclass(eq=False)
class Scans:
    """What the queries behind one table read, opened once: many appends have one source."""

    _listed: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    _opened: dict[str, Plan] = field(default_factory=dict)

    def files_at(self, c: Catalyst, roots: Sequence[str]) -> dict[str, tuple[int, int]]:
        now: dict[str, tuple[int, int]] = {}
        for root in roots:
            if root not in self._listed:
                self._listed[root] = c.list_files(root)
            now.update(self._listed[root])
        return now

    def scan(self, c: Catalyst, leaf: Mapping[str, Any], then: Mapping[str, tuple[int, int]]) -> Plan:
        key = json.dumps(leaf, sort_keys=True)
        if key in self._opened:
            return self._opened[key].newInstance()  # another reading of the same: columns with ids of their own
        scan = c.plan_of(_frame(c, leaf))
        while class_name(scan) == "SubqueryAlias":
            scan = scan.child()
        if class_name(scan) == "LogicalRelation" and c.is_file_scan(scan) and c.files_of(scan).keys() > then.keys():
            scan = earlier(c, scan, then) or scan
        if class_name(scan) != "LogicalRelation" or c.files_of(scan) != then:
            raise NotRestored(f"{leaf['table']} that it was made from is something else now")
        self._opened[key] = scan
        return scan

    def version(self, c: Catalyst, version: Version) -> Plan:
        key = repr(version)
        if key in self._opened:
            return self._opened[key].newInstance()
        scan = c.open_version(version)
        if scan is None or not c.has_its_files(scan):
            later = _with_same_rows(c, version)
            if later is None:
                raise NotRestored(f"{version.shown} that it was made from has no {version.as_text} any more")
            scan = later
        self._opened[key] = scan
        return scan


def _with_same_rows(c: Catalyst, version: Version) -> Plan | None:
    """A later version whose files were only rewritten, of a table whose rows are told as before all the same."""
    now = c.open_newest(version)
    found = None if now is None else c.version_of(now)
    if now is None or found is None or c.row_ids_of(now) is None:
        return None
    if not c.same_rows_since(now, version.number, found.number) or not c.has_its_files(now):
        return None
    return c.open_version(found)


def from_bytes(c: Catalyst, content: bytes, told: Mapping[str, Any], made_from: MadeFrom, scans: Scans) -> Plan:
    """The plan, reading again what it read; its facts are known from then on. `content` must be known to be ours."""
    if told["spark"] != c.spark.version:
        raise NotRestored(f"it was written by Spark {told['spark']}, which keeps queries otherwise")
    try:
        bare = tree_of(c, c.deserialised(content))
    except Py4JJavaError as problem:
        why = str(problem.java_exception.getMessage())
        raise NotRestored(f"its query cannot be read any more ({why})") from problem
    return from_tree(c, bare, told, made_from, scans)


def from_tree(c: Catalyst, bare: Node, told: Mapping[str, Any], made_from: MadeFrom, scans: Scans) -> Plan:
    """The same of what was read out of the bytes already."""
    ids: dict[int, Expr] = {}
    tree = tree_of(c, each(c, bare, lambda plan: c.under_new_ids(_restored(c, plan), ids)))
    if c.has_user_functions(tree.plan):
        for node in tree.walk():
            _give_accumulator(c, node)
    return again(c, tree, told, made_from, scans)


def again(
    c: Catalyst, tree: Node, told: Mapping[str, Any], made_from: MadeFrom, scans: Scans, *, here: bool = False
) -> Plan:
    """The query of a tree, reading the versions of files that it read then.

    `here`: in the process that made it, where it may read what no other has."""
    places = list(tree.walk())
    leaves = [node for node in places if not node.children and not node.subqueries]
    if len(leaves) != len(told["leaves"]):
        raise NotRestored("its query cannot be read any more")
    found = {
        node: None if here and _is_as_it_was(c, node, leaf) else _read(c, node, leaf, made_from, scans)
        for node, leaf in zip(leaves, told["leaves"], strict=True)
    }
    for place, identity, certain in reversed(told["facts"]):  # what is below comes first
        # Under a name of its own: the user's DataFrame may have been computed again since.
        operator = c.copy(rebuild(c, places[place], found.get))
        c.named(operator, identity)
        found[places[place]] = operator
        if facts.known(c, places[place].kind, operator) is not None:
            continue
        try:
            facts.remember(c, facts.load(c, identity, operator))
        except LookupError as why:
            if not certain:
                raise NotRestored(str(why)) from why
    return rebuild(c, tree, found.get)


def _is_as_it_was(c: Catalyst, node: Node, leaf: Mapping[str, Any]) -> bool:
    if leaf["kind"] == "version":
        # What Spark would read by it now.
        return c.reads_version_now(node.plan, int(leaf["version"]))
    if leaf["kind"] != "files":
        return "why" not in leaf  # a part of a table may have grown since
    then = {path: (length, at) for path, length, at in leaf["files"]}
    current = c.current_files(then)
    return c.files_of(node.plan) == then and all(current.get(path) == version for path, version in then.items())


def _read(c: Catalyst, node: Node, leaf: Mapping[str, Any], made_from: MadeFrom, scans: Scans) -> Plan | None:
    if leaf["kind"] == "itself":
        return None
    if leaf["kind"] == "gone":
        raise NotRestored(leaf.get("why") or f"its query read data that only its own process had ({leaf['what']})")
    attrs = c.output(node.plan)
    if leaf["kind"] == "version":
        version = version_told(leaf)
        scan = scans.version(c, version)
        if "columns" not in leaf and version.kind == DELTA:  # of before these were told; here a version says it all
            return _named_alike(c, scan, attrs, version.shown)
        return _alike(
            c,
            scan,
            attrs,
            leaf.get("columns", {}),
            version.shown,
            grown=version.kind == ICEBERG and _is_version(c, scan, version),
        )
    then = {path: (length, at) for path, length, at in leaf["files"]}
    now = scans.files_at(c, leaf["roots"])
    # Of a place that only gained files since, those of then are read.
    if any(now.get(path) != version for path, version in then.items()):
        # It was itself written under capture, and is another version now: what that one was made from will do.
        found = made_from(leaf["roots"][0], then, c.output(node.plan)) if len(leaf["roots"]) == 1 else None
        if found is None:
            raise NotRestored(f"{leaf['table'] or ', '.join(leaf['roots'])} that it was made from was changed since")
        return found
    return _named_alike(c, scans.scan(c, leaf, then), attrs, leaf["table"] or ", ".join(leaf["roots"]))


def _named_alike(c: Catalyst, scan: Plan, attrs: Sequence[Attr], name: str) -> Plan:
    by_name = {a.name(): a for a in c.output(scan)}
    if any(a.name() not in by_name for a in attrs):
        raise NotRestored(f"{name} that it was made from has other columns now")
    return c.project([c.alias_as(by_name[a.name()], a) for a in attrs], scan)


def _is_version(c: Catalyst, scan: Plan, version: Version) -> bool:
    found = c.version_of(scan)
    return found is not None and (found.table, found.number) == (version.table, version.number)


def _alike(
    c: Catalyst,
    scan: Plan,
    attrs: Sequence[Attr],
    then: Mapping[str, Sequence[str]],
    table: str,
    *,
    grown: bool = False,
) -> Plan:
    """A version under the attributes of an earlier reading, whose columns are found whatever they are called now.

    `grown`: that reading was of this very version, so a column that it lacks was added to the table afterwards, and
    before the reading. Iceberg makes no snapshot of that, and opens one with the columns of its own time."""
    now = c.columns_told(scan)
    names = {told[0]: name for name, told in now.items()}
    by_name = {str(a.name()): a for a in c.output(scan)}
    found = []
    for attr in attrs:
        told = then.get(str(attr.name()))
        name = None if told is None else names.get(told[0])
        if grown and told is not None and name is None and (text := value_before(c, scan, told[0])) is not None:
            found.append(c.alias_as(c.cast(c.parse(text), attr), attr))
            continue
        if grown and told is not None and name in by_name and is_promoted(now[name][1], told[1]):
            found.append(c.alias_as(c.cast(by_name[name], attr), attr))
            continue
        if told is None or name is None or now[name][1] != told[1] or name not in by_name:
            raise NotRestored(f"{table} that it was made from has other columns now")
        found.append(c.alias_as(by_name[name], attr))
    return c.project(found, scan)


def _frame(c: Catalyst, leaf: Mapping[str, Any]) -> DataFrame:
    if leaf["format"] not in FORMATS or names_class(leaf["schema"]):
        raise NotRestored("it was made from what whence does not open by itself")
    try:
        if leaf["table"] is not None and c.spark.catalog.tableExists(leaf["table"]):
            return c.spark.table(leaf["table"])
        reader = c.spark.read.format(leaf["format"]).options(**reading_options(leaf["options"]))
        return reader.schema(StructType.fromJson(leaf["schema"])).load([literal(root) for root in leaf["roots"]])
    except AnalysisException as problem:
        raise NotRestored(f"{', '.join(leaf['roots'])} that it was made from cannot be read") from problem


def _give_accumulator(c: Catalyst, node: Node) -> None:
    """Python functions report to their application; these came from another one."""
    waiting = c.items(node.plan.expressions().toSeq())
    while waiting:
        expression = waiting.pop()
        if class_name(expression) in ("PythonUDF", "PythonUDTF"):
            function = expression.func()
            if function.broadcastVars().size():
                raise NotRestored("a Python function of its query used a broadcast variable of its own process")
            c.set_field(function, "accumulator", c.spark.sparkContext._javaAccumulator)
        waiting += c.children(expression)
