"""Facts: operators whose rows are written down in the store, each row with the identities behind it.

What may come out otherwise the next time (rand, an unordered LIMIT) is computed once, as Parquet; the user's result is
computed from exactly that, and every later trace of the same plan over the same files takes it from there. What would
come out the same is kept for speed alone: for an action in Spark's cache, for a write as Parquet too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql.types import StructField, StructType

from whence.model import StoreError
from whence.model.quiet import FACT_COLUMN, FACTS
from whence.sql.catalyst import Attr, Catalyst, Plan, class_name, id_of
from whence.sql.memory import Fact, FileVersion
from whence.sql.tree import Node

if TYPE_CHECKING:
    from whence.sql.taps import Tap

ROWS = "rows"
META = "fact.json"
# A fact counts once it is finished (`finish`), so its tables need no commit of their own.
_QUICKLY = {
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
# Counts when what is written down is laid out otherwise; another number is not read.
LAYOUT = 2


def known(c: Catalyst, kind: str, plan: Plan) -> Fact | None:
    """`kind` is the class of the plan's topmost operator."""
    facts = c.memory.facts.get(kind)
    if not facts:
        return None
    found = None
    for fact in facts:
        if fact.operator.sameResult(plan):
            found = found or file_versions(c, plan)
            if found == fact.sources:
                complete(c, fact)
                return fact
    return None


def complete(c: Catalyst, fact: Fact) -> None:
    later, fact.later = fact.later, None
    if later is not None:
        with c.quietly(first=True):
            later()


def remember(c: Catalyst, fact: Fact) -> None:
    """Of two facts of one operator, the one that lasts is found first."""
    alike = c.memory.facts.setdefault(class_name(fact.operator), [])
    alike.insert(0 if fact.durable else len(alike), fact)


def new(c: Catalyst, operator: Plan, *, certain: bool = False, durable: bool = True) -> Fact:
    if c.memory.folder is None:
        raise StoreError("Nothing can be written down: this session has no store for it.")
    folder = f"{c.memory.folder}/{FACTS}/{uuid4().hex}"
    return Fact(folder, operator, file_versions(c, operator), certain, durable=durable)


def file_versions(c: Catalyst, plan: Plan) -> frozenset[FileVersion]:
    """The files that a plan reads, as they were when it was made."""
    found: set[FileVersion] = set()
    for leaf in c.file_leaves(plan):
        found |= {(path, *version) for path, version in c.files_of(leaf).items()}
    return frozenset(found)


def table(c: Catalyst, fact: Fact, part: str, plan: Plan, tap: Tap | None = None) -> Plan:
    """The part of the fact that `plan` computes, under `plan`'s own attributes; written if it is not there yet."""
    attrs = c.output(plan)
    if part not in fact.parts:
        _write(c, fact, part, plan, tap)
    return _scan(c, fact, part, attrs, range(len(attrs)))


def own_rows(c: Catalyst, fact: Fact, like: Plan) -> Plan:
    """The operator's own columns, under the attributes of `like`."""
    return _scan(c, fact, ROWS, c.output(like), fact.own)


def _write(c: Catalyst, fact: Fact, part: str, plan: Plan, tap: Tap | None) -> None:
    if not fact.open:
        raise StoreError(f"What was written down in {fact.folder} has no part {part}.")
    frame = c.wide_frame(plan)
    fields = [StructField(f"{FACT_COLUMN}{i}", f.dataType, True) for i, f in enumerate(frame.schema.fields)]
    named = frame.toDF(*[f.name for f in fields])
    if fact.durable:
        if tap is not None:
            named = tap.watch(named, fields[-1].name)
        named.write.options(**_QUICKLY).parquet(f"{fact.folder}/{part}")
    else:
        fact.cached.append(named)
        fact.scans[part] = c.in_cache(named)
        if tap is not None:
            tap.kept(fact.scans[part], fields[-1].name)
    fact.parts[part] = StructType(fields).json()


def _scan(c: Catalyst, fact: Fact, part: str, attrs: Sequence[Attr], positions: Sequence[int]) -> Plan:
    if part not in fact.scans:
        schema = StructType.fromJson(json.loads(fact.parts[part]))
        fact.scans[part] = c.plan_of(c.spark.read.schema(schema).parquet(f"{fact.folder}/{part}"))
    scan = fact.scans[part]
    columns = c.output(scan)
    if len(attrs) != len(positions) or any(p >= len(columns) for p in positions):
        raise StoreError(f"What was written down in {fact.folder} does not fit this query.")
    return c.project([c.alias_as(columns[p], attr) for p, attr in zip(positions, attrs, strict=True)], scan)


def is_kept(c: Catalyst, cached: Plan) -> bool:
    """Whether rows in Spark's cache are of a fact."""
    return all(a.name().startswith(FACT_COLUMN) for a in c.output(cached))


def finish(c: Catalyst, fact: Fact) -> None:
    """Nothing more is written."""
    fact.open = False
    meta = {
        "layout": LAYOUT,
        "certain": fact.certain,
        "own": list(fact.own),
        "sources": sorted(fact.sources),
        "parts": fact.parts,
        "tapped": fact.tapped,
    }
    c.write_text(f"{fact.folder}/{META}", json.dumps(meta))


def load(c: Catalyst, folder: str, operator: Plan) -> Fact | None:
    """A fact that was written before; None when it is gone, was laid out otherwise, or is of other files.

    Its identities are those of the files that it read: over what these were made from it says nothing."""
    text = c.read_text(f"{folder}/{META}")
    meta = json.loads(text) if text else {}
    sources = file_versions(c, operator)
    if meta.get("layout") != LAYOUT or {(path, length, at) for path, length, at in meta["sources"]} != sources:
        return None
    fact = Fact(
        folder,
        operator,
        sources,
        certain=bool(meta["certain"]),
        own=tuple(meta["own"]),
        parts=dict(meta["parts"]),
        open=False,
        lasting=True,
        tapped=meta["tapped"],
    )
    return fact if _is_there(c, fact) else None


def _is_there(c: Catalyst, fact: Fact) -> bool:
    try:
        return all(c.exists(f"{fact.folder}/{part}") for part in fact.parts)
    except Py4JJavaError:
        return False


def positions_of(c: Catalyst, own: Sequence[Attr], plan: Plan) -> tuple[int, ...]:
    ids = [id_of(a) for a in c.output(plan)]
    return tuple(ids.index(id_of(a)) for a in own)


def settled(c: Catalyst, inner: Node, fact: Fact) -> Node:
    """The node that stands for `inner` once its rows are written down: what is above it reads them from there."""
    plan = own_rows(c, fact, inner.plan) if fact.parts else inner.plan
    return Node(plan, "Settled", [inner], fact=fact)


def keep(c: Catalyst) -> None:
    """A DataFrame of the user's reads these from now on, also when the session is closed."""
    for known in c.memory.facts.values():
        for fact in known:
            fact.lasting = True


def forget(c: Catalyst) -> None:
    """Remove what was written down for this session alone."""
    for known in c.memory.facts.values():
        for fact in known:
            for frame in fact.cached:
                frame.unpersist()
            if not fact.lasting:
                c.remove(fact.folder)
    c.memory.facts.clear()
