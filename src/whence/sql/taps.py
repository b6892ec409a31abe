"""Stored capture in the same pass: a tap below an aggregate writes down which source rows came into which group.

The tap is a Java object (Tap.java), compiled by Janino, which is part of Spark; Spark's generated code calls its method
`pass` in a condition that is always true, which Spark can neither drop nor move. Which attempts of tasks count is told
by an accumulator, so a retried or speculative task counts once. Whatever is amiss, the tables are not used and the
lineage is worked out anew.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from whence.model import WhenceError
from whence.spark.catalyst import FEW_ROWS
from whence.spark.janino import gathered, loader_of, made
from whence.sql.blocks import Block, Reading, in_branch
from whence.sql.catalyst import Catalyst, Expr, Plan, id_of
from whence.sql.memory import Fact
from whence.sql.tree import Node

log = logging.getLogger("whence.sql")

_MOST_READINGS = 10
# What may stand between the aggregate and the scans it reads: each of its rows comes from one row of each.
_NARROW = (
    *("Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "Sort", "Repartition", "RepartitionByExpression"),
    *("RebalancePartitions", "Join", "LogicalRelation"),
)
_ABOVE = (
    *("Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "Sort", "GlobalLimit", "LocalLimit", "Offset"),
)
_JOINS = ("Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter")


class NotTapped(WhenceError):
    """This aggregate's lineage cannot be written down in the same pass."""


def tappable(c: Catalyst, tree: Node) -> Node | None:
    """The aggregate nearest the result, if a tap can stand below it."""
    node = tree
    while node.fact is None and node.kind in _ABOVE and not node.subqueries:
        node = node.children[0]
    if node.kind != "Aggregate" or node.subqueries or not c.items(node.plan.groupingExpressions()):
        return None
    scans = 0
    for below in node.children[0].walk():
        if below.kind not in _NARROW or below.subqueries:
            return None
        if below.kind == "Join" and below.plan.joinType().toString() not in _JOINS:
            return None
        if below.kind == "LogicalRelation":
            scans += 1
            if not c.is_file_scan(below.plan) or not c.numbers_rows(below.plan):
                return None
    keys = c.items(node.plan.groupingExpressions())
    if not 0 < scans <= _MOST_READINGS or any(not _hashes(key) for key in keys) or _calls_user(c, node, keys):
        return None
    return node


def _calls_user(c: Catalyst, node: Node, keys: Sequence[Expr]) -> bool:
    """Whether a key comes from a function of the user's: it would be called for the tap and again for the grouping,
    since Spark moves the tap below the projection that computes the key."""
    if any(c.calls_user(key) for key in keys):
        return True
    wanted = {number for key in keys for number in c.references(key)}
    for below in node.children[0].walk():
        for item in c.items(below.plan.projectList()) if below.kind == "Project" else ():
            if id_of(item) not in wanted:
                continue
            if c.calls_user(item):
                return True
            wanted |= c.references(item)
    return False


def _hashes(key: Expr) -> bool:
    """Whether equal keys, and only they, have equal hashes: numbers with a point may be equal and differ in their bits,
    and what is NULL inside of nested data is passed over by Spark's hashes."""
    kind = key.dataType().catalogString()
    return not any(word in kind for word in ("float", "double", "<", "collate", "variant", "interval"))


class Tap:
    """One tap, for one computation of one fact."""

    def __init__(self, c: Catalyst, fact: Fact) -> None:
        self._c = c
        self._fact = fact
        self.folder = f"{fact.folder}/associations"
        self._told: Any = None
        self._readings = 0
        self._roots: list[list[str]] = []
        self._observed: Observation | None = None
        self._kept: tuple[Plan, str] | None = None

    def below(self, keys: Sequence[Expr], block: Block) -> Plan:
        """The rows of the block, each of which passes the tap."""
        c = self._c
        ids: list[Expr] = []
        for link in block.annotated.links:
            if not isinstance(link, Reading) or len(link.attrs) != 2:
                raise NotTapped("some rows below the aggregate are not told by file and row")
            # The branches of a union share their columns: what is another branch's is none of this reading's.
            here = in_branch(c, link.when)
            ids += [c.where(c.conjunction(here), a) for a in link.attrs] if here else link.attrs
            self._roots.append(c.roots(link.place.leaf.plan))
        self._readings = len(block.annotated.links)
        given = [c.or_less_than_zero(a) if a.nullable() else a for a in ids]
        passed = c.call(self._made(), "pass", [*key_hashes(c, keys), *given])
        return c.project(c.output(block.node.plan), c.filter(passed, block.annotated.plan))

    def watch(self, frame: DataFrame, counted: str) -> DataFrame:
        """`frame`, the groups, which on their way tell how many rows they have: as many must have passed the tap."""
        self._observed = Observation(f"whence_tap_{self._fact.folder.rsplit('/', 1)[-1]}")
        return frame.observe(self._observed, F.sum(counted).alias("rows"))

    def kept(self, groups: Plan, counted: str) -> None:
        """The same of groups in Spark's cache, brought there by the user's action: counted when all is done."""
        self._kept = groups, counted

    def finish(self) -> None:
        """Keep what the attempts that count have told."""
        if self._told is None:
            return
        expected = self._rows()
        lines = [str(line) for line in list(self._told.value())]
        failures = [line[1:] for line in lines if line.startswith("!")]
        parts: dict[str, list[str]] = {line.split("\t")[1]: line.split("\t") for line in lines if line[:1] != "!"}
        stages = {part[0] for part in parts.values()}
        rows = sum(int(part[3]) for part in parts.values())
        if failures or len(stages) > 1 or rows != expected:
            why = failures[0] if failures else f"{rows} rows passed the tap in {len(stages)} stages, not {expected}"
            log.warning("whence did not store the lineage of an aggregate; it will be worked out when asked: %s", why)
            return
        self._fact.tapped = {
            "readings": self._readings,
            "roots": self._roots,
            "rows": rows,
            "bytes": sum(int(part[4]) for part in parts.values()),
            # name, length and checksum of each file
            "parts": sorted([part[2], int(part[4]), int(part[5])] for part in parts.values() if int(part[3])),
        }

    def _rows(self) -> int:
        if self._kept is not None:
            groups, counted = self._kept
            (found,) = self._c.frame(groups).agg(F.sum(counted), F.count("*")).collect()
            if found[1] <= FEW_ROWS:
                kept = self._c.keep(groups)
                self._fact.few = kept.plan if kept.local else None
            return found[0] or 0
        return (self._observed.get["rows"] or 0) if self._observed is not None else 0

    def _made(self) -> JavaObject:
        c = self._c
        self._told = gathered(c.spark, "whence_tap")
        return made(c.spark, _loader(c), "whence.Tap", self.folder, self._readings, self._told, c.hadoop_settings())


def key_hashes(c: Catalyst, keys: Sequence[Expr]) -> list[Expr]:
    """A group is known by 96 bits of its key: two hashes that do not depend on each other."""
    flags = [c.expression("IsNull", key) for key in keys]
    columns = c.seq([*keys, *flags])
    return [c.expression("XxHash64", columns, 42), c.expression("Murmur3Hash", columns, 42)]


# --- the Java half


def _loader(c: Catalyst) -> Any:
    methods = "".join(_pass(readings) for readings in range(1, _MOST_READINGS + 1))
    source = Path(__file__).with_name("Tap.java").read_text(encoding="utf-8").replace("/* PASS */", methods)
    return loader_of(c.spark, "tap", source)


def _pass(readings: int) -> str:
    names = [f"a{i}" for i in range(2 * readings)]
    return f"""
    public boolean pass(long key, int check, {", ".join(f"long {name}" for name in names)}) {{
        if (!begun) {{
            begin();
        }}
        {" ".join(f"row[{i}] = {name};" for i, name in enumerate(names))}
        return put(key, check);
    }}
"""
