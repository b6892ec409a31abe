"""Facts: operators whose rows are written down in the store, each row with the identities behind it.

What may come out otherwise the next time (rand, an unordered LIMIT) is computed once, as Parquet; the user's result is
computed from exactly that, and every later trace of the same plan over the same files takes it from there. What would
come out the same is kept for speed alone: for an action in Spark's cache, for a write as Parquet too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql.types import StructField, StructType

from whence.model import StoreError
from whence.model.quiet import FACT_COLUMN, FACTS
from whence.spark.allowed import names_class
from whence.spark.paths import literal
from whence.sql.catalyst import Attr, Catalyst, Plan, class_name, id_of
from whence.sql.intact import amiss, drop_sidecars, manifest
from whence.sql.memory import Fact, FileVersion
from whence.sql.tree import Node
from whence.store import Unsigned
from whence.store.private import require_name

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
LAYOUT = 3
# So many files of a fact are read one after the other, in the order in which they were written.
_FEW_FILES = 8
# Leaves beside files that give the same rows each time.
_FIXED = ("LocalRelation", "Range", "OneRowRelation", "LogicalRDD", "ExternalRDD", "InMemoryRelation")


def known(c: Catalyst, kind: str, plan: Plan) -> Fact | None:
    """What was last written down of this operator; `kind` is its class."""
    facts = c.memory.facts.get(kind)
    name = c.name_of(plan) if facts else None
    if not facts or name is None:
        return None
    found = None
    for fact in facts:
        if fact.name == name and fact.operator.sameResult(plan):
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
    """The latest of an operator is found first, but one that lasts before those that do not. What was computed from
    an earlier one, where that could have come out otherwise, is of the past."""
    if not fact.certain:
        for kind, others in c.memory.facts.items():
            c.memory.past += [other for other in others if fact.name in other.below]
            c.memory.facts[kind] = [other for other in others if fact.name not in other.below]
    alike = c.memory.facts.setdefault(class_name(fact.operator), [])
    first = 0 if fact.durable else next((i for i, other in enumerate(alike) if not other.durable), len(alike))
    alike.insert(first, fact)


def new(
    c: Catalyst,
    operator: Plan,
    *,
    below: frozenset[str] = frozenset(),
    ordered: bool = False,
    certain: bool = False,
    durable: bool = True,
) -> Fact:
    if c.memory.folder is None:
        raise StoreError("Nothing can be written down: this session has no store for it.")
    folder = f"{c.memory.folder}/{FACTS}/{uuid4().hex}"
    versions = file_versions(c, operator)
    name = c.named(operator)
    marks = _versions(c, versions)
    return Fact(folder, operator, versions, name, marks, below, certain=certain, durable=durable, ordered=ordered)


def _versions(c: Catalyst, sources: frozenset[FileVersion]) -> Mapping[str, tuple[int, int, str]]:
    return c.versions_of({path: (length, at) for path, length, at in sources})


def file_versions(c: Catalyst, plan: Plan) -> frozenset[FileVersion]:
    """The files that a plan reads, as they were when it was made; of a table that keeps versions, which one it is."""
    found: set[FileVersion] = set()
    for leaf in c.file_leaves(plan):
        version = c.version_of(leaf)
        if version is not None:
            found.add((f"{version.place}@{version.table}", version.number, 0))
        else:
            found |= {(path, *about) for path, about in c.files_of(leaf).items()}
    return frozenset(found)


def holds(c: Catalyst, fact: Fact) -> bool:
    """Whether a result of the user's may be made from this: it is whole, and Spark would find the same sources."""
    if damage(c, fact) is not None:
        return False
    leaves = c.leaves(fact.operator)
    if not all(class_name(leaf) in _FIXED or c.is_file_scan(leaf) for leaf in leaves):
        return False
    snapshots = (c.snapshots_of(leaf) for leaf in leaves if c.is_file_scan(leaf))
    if any(known is not None and known[0] != known[1] for known in snapshots):
        return False
    return _versions(c, fact.sources) == fact.versions


def damage(c: Catalyst, fact: Fact) -> str | None:
    """What is wrong with what was written down, if something is."""
    return amiss(c, fact.folder, fact.files, fact.checked) if fact.files else None


def require_whole(c: Catalyst, fact: Fact) -> bool:
    """Whether this can be used by a trace. What would come out the same is worked out anew if it cannot."""
    why = damage(c, fact)
    if why is None:
        return True
    if fact.certain:
        return False
    raise StoreError(
        f"What was captured of this result is damaged in the store: {why}, in {fact.folder}. It may have come out "
        "otherwise than it would now, so it cannot be traced any more. Compute it again under `with w.capture():`."
    )


def table(c: Catalyst, fact: Fact, part: str, plan: Plan, tap: Tap | None = None) -> Plan:
    """The part of the fact that `plan` computes, under `plan`'s own attributes; written if it is not there yet."""
    attrs = c.output(plan)
    if part not in fact.parts:
        _write(c, fact, part, plan, tap)
    return _scan(c, fact, part, attrs, range(len(attrs)), fact.few if part == ROWS else None)


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


def _scan(
    c: Catalyst, fact: Fact, part: str, attrs: Sequence[Attr], positions: Sequence[int], few: Plan | None = None
) -> Plan:
    if part not in fact.scans:
        schema = StructType.fromJson(json.loads(fact.parts[part]))
        reader = c.spark.read.schema(schema).option("parquet.page.verify-checksum.enabled", True)
        paths = sorted(c.list_files(f"{fact.folder}/{part}"))
        if 1 < len(paths) <= _FEW_FILES or (fact.ordered and len(paths) > 1):
            # Spark reads the largest file of a directory first; one after the other, rows come as they were computed.
            fact.scans[part] = c.union([c.plan_of(reader.parquet(literal(path))) for path in paths])
        else:
            fact.scans[part] = c.plan_of(reader.parquet(literal(f"{fact.folder}/{part}")))
    scan = fact.scans[part] if few is None else few
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
    if fact.durable:
        drop_sidecars(c, fact.folder)
        fact.files = {name: about for part in fact.parts for name, about in _files_of(c, fact, part)}
    meta = {
        "layout": LAYOUT,
        "certain": fact.certain,
        "own": list(fact.own),
        "sources": sorted(fact.sources),
        "parts": fact.parts,
        "tapped": fact.tapped,
        "files": fact.files,
    }
    c.write_bytes(f"{fact.folder}/{META}", c.memory.seal.wrap(_purpose(fact.folder), json.dumps(meta).encode()))


def _files_of(c: Catalyst, fact: Fact, part: str) -> list[tuple[str, tuple[int, str | None]]]:
    return [(f"{part}/{name}", about) for name, about in manifest(c, f"{fact.folder}/{part}").items()]


def _purpose(folder: str) -> tuple[str, ...]:
    return "fact", folder.rsplit("/", 1)[-1]


def load(c: Catalyst, identity: str, operator: Plan) -> Fact:
    """A fact that was written before. LookupError: it is gone, damaged, laid out otherwise, or of other files.

    Its identities are those of the files that it read: over what these were made from it says nothing."""
    folder = f"{c.memory.folder}/{FACTS}/{require_name(identity)}"
    try:
        content = c.read_bytes(f"{folder}/{META}")
        if content is None:
            raise LookupError("what was captured of its query is gone")
        meta = json.loads(c.memory.seal.unwrap(_purpose(folder), content))
    except Unsigned as unsigned:
        raise LookupError(f"what was captured of its query is not read: {unsigned.why}") from unsigned
    except (OSError, ValueError) as problem:
        raise LookupError("what was captured of its query cannot be read") from problem
    sources = file_versions(c, operator)
    if meta.get("layout") != LAYOUT:
        raise LookupError("what was captured of its query was written by another version of whence")
    if {(path, length, at) for path, length, at in meta["sources"]} != sources:
        raise LookupError("what its query read was changed since")
    fact = Fact(
        folder,
        operator,
        sources,
        c.named(operator, identity),
        certain=bool(meta["certain"]),
        own=tuple(meta["own"]),
        parts=dict(meta["parts"]),
        open=False,
        lasting=True,
        tapped=meta["tapped"],
        files={name: (length, found) for name, (length, found) in meta["files"].items()},
    )
    if any(names_class(json.loads(schema)) for schema in fact.parts.values()):
        raise LookupError("what was captured of its query has columns of a user-defined type")
    if (why := damage(c, fact)) is not None:
        raise LookupError(f"what was captured of its query is damaged: {why}")
    return fact


def positions_of(c: Catalyst, own: Sequence[Attr], plan: Plan) -> tuple[int, ...]:
    ids = [id_of(a) for a in c.output(plan)]
    return tuple(ids.index(id_of(a)) for a in own)


def settled(c: Catalyst, inner: Node, fact: Fact) -> Node:
    """The node that stands for `inner` once its rows are written down: what is above it reads them from there."""
    plan = own_rows(c, fact, inner.plan) if fact.parts else inner.plan
    return Node(plan, "Settled", [inner], fact=fact)


def keep(used: Iterable[Fact]) -> None:
    """A DataFrame of the user's reads these from now on, also when the session is closed."""
    for fact in used:
        fact.lasting = True


def bound(c: Catalyst, folder: str, operator: Plan) -> Plan:
    """The operator under a name that only this fact has, whatever is computed of it later."""
    identity = folder.rsplit("/", 1)[-1]
    known = _all(c)
    fact = next((fact for fact in known if fact.folder == folder), None)
    if fact is None:
        return operator
    copied = c.copy(operator)
    c.named(copied, identity)
    if not any(other.folder == folder and other.name == identity for other in known):
        remember(c, replace(fact, name=identity, operator=copied))
    return copied


def _all(c: Catalyst) -> list[Fact]:
    return [*c.memory.past, *(fact for alike in c.memory.facts.values() for fact in alike)]


def drop(c: Catalyst, used: Iterable[Fact]) -> None:
    """The action that was to compute these has failed."""
    for fact in [fact for fact in used if fact.later is not None]:
        fact.later = None
        for frame in fact.cached:
            frame.unpersist()
        for alike in c.memory.facts.values():
            if fact in alike:
                alike.remove(fact)
                c.memory.past.append(fact)


def forget(c: Catalyst) -> None:
    """Remove what was written down for this session alone."""
    known = _all(c)
    for fact in known:
        for frame in fact.cached:
            frame.unpersist()
    for folder in {fact.folder for fact in known} - {fact.folder for fact in known if fact.lasting}:
        c.remove(folder)
    c.memory.facts.clear()
    c.memory.past.clear()
