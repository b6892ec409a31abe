"""The rows that a model was trained on. When a model is saved, the query of its training is kept in the store beside
that of captured writes, and the store is told: who asks about the model asks about that query.

Which rows a query gave then is known where it gives the same ones again; where it may not, that is kept too, so that an
answer says so instead of guessing."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame

from whence.model import WhenceError
from whence.sql import plans
from whence.sql.catalyst import Attr, Catalyst, Plan, id_of
from whence.sql.certainty import certain
from whence.sql.checkpoints import put_back
from whence.sql.plans import NotRestored
from whence.sql.tree import tree_of
from whence.sql.writes import Passage, first_line, known, unsettled
from whence.sql.written import Files
from whence.store import Unsigned
from whence.store.producers import Producers, Product, file_key

KIND = "model"
_LAYOUT = 1


class UntoldTraining(WhenceError):
    """A model is known, and the rows that it was trained on cannot be told."""

    def __init__(self, path: str, why: object) -> None:
        super().__init__(f"The rows that the model {path} was trained on cannot be told: {why}.")


def remember_training(c: Catalyst, producers: Producers, path: str, rows: DataFrame, at: int) -> None:
    """A model was saved at `path` that was trained on `rows` until `at`, in milliseconds."""
    place = c.qualified(path)
    told: dict[str, Any] = {"layout": _LAYOUT, "why": None, "plan": None}
    content: bytes | None = None
    plan = put_back(c, c.plan_of(rows))
    try:
        tree = tree_of(c, c.normalise(plan))
        told |= plans.describe(c, tree)
        told["why"] = unsettled(c, tree, not certain(tree.plan)) or _changed_since(told["leaves"], at)
        content = plans.to_bytes(c, tree)
        told["plan"] = hashlib.sha256(content).hexdigest()
    except Exception as problem:
        told["elsewhere"] = f"the query that gave them is known to its own process only ({first_line(problem)})"
    run = f"{hashlib.sha256(place.encode()).hexdigest()[:24]}/{time.time_ns():020d}-{uuid4().hex[:8]}"
    stem = _stem(c, run)
    if content is not None:
        c.write_bytes(f"{stem}.plan", content)
    c.write_bytes(f"{stem}.json", c.memory.seal.wrap(_purpose(run), json.dumps(told).encode()))
    c.memory.writes[f"{stem}.json"] = plan
    read = [file_key(file[0]) for leaf in told.get("leaves", ()) for file in leaf.get("files", ())]
    saved = sorted([file, *version] for file, version in _saved(c, place).items())
    producers.add([Product(file_key(place), KIND, run, details={"reads": read, "files": saved})])


def training_rows(c: Catalyst, producers: Producers, path: str) -> DataFrame | None:
    """The rows that the model at this path was trained on; None where no model is known there."""
    place = c.qualified(path)
    product = producers.of([file_key(place)]).get(file_key(place))
    if product is None or product.kind != KIND:
        return None
    try:
        then = sorted([str(file), int(length), int(at)] for file, length, at in product.details["files"])  # type: ignore[attr-defined]
        if then != sorted([file, *version] for file, version in _saved(c, place).items()):
            raise NotRestored("it was saved again, or changed, outside of any session that whence was attached to")
        return c.frame(_query(c, product.run))
    except NotRestored as why:
        raise UntoldTraining(path, why) from why


def attributes_of(c: Catalyst, df: DataFrame) -> set[int]:
    """The numbers of all columns that any operator of a query has."""
    return {id_of(attr) for node in tree_of(c, c.plan_of(df)).walk() for attr in c.output(node.plan)}


def _query(c: Catalyst, run: str) -> Plan:
    stem = _stem(c, run)
    try:
        sealed = c.read_bytes(f"{stem}.json")
        if sealed is None:
            raise NotRestored("what was kept of its training is gone")
        told = json.loads(c.memory.seal.unwrap(_purpose(run), sealed))
    except Unsigned as unsigned:
        raise NotRestored(f"what was kept of its training is not read: {unsigned.why}") from unsigned
    except (OSError, ValueError) as problem:
        raise NotRestored("what was kept of its training cannot be read") from problem
    if told.get("layout") != _LAYOUT:
        raise NotRestored("what was kept of its training is of another version of whence")
    if told["why"] is not None:
        raise NotRestored(told["why"])
    passage = Passage([])

    def made_from(at: str, files: Files, names: Sequence[Attr]) -> Plan | None:
        return known(c, at, files, names, passage)

    plan = c.memory.writes.get(f"{stem}.json")
    if plan is not None and "leaves" in told:
        return plans.again(c, tree_of(c, c.normalise(plan)), told, made_from, passage.scans, here=True)
    if told["plan"] is None:
        raise NotRestored(told["elsewhere"])
    content = c.read_bytes(f"{stem}.plan")
    if content is None or hashlib.sha256(content).hexdigest() != told["plan"]:
        raise NotRestored("the query that gave them is gone from the store, or was changed there")
    return plans.from_bytes(c, content, told, made_from, passage.scans)


def _stem(c: Catalyst, run: str) -> str:
    return f"{c.memory.folder}/models/{run}"


def _purpose(run: str) -> tuple[str, ...]:
    return "training of a model", run


def _saved(c: Catalyst, place: str) -> dict[str, tuple[int, int]]:
    """What tells one saving of a model from the next: its metadata hold the time."""
    return c.list_files(f"{place.rstrip('/')}/metadata")


def _changed_since(leaves: Iterable[dict[str, Any]], at: int) -> str | None:
    for leaf in leaves:
        if any(changed > at for _, _, changed in leaf.get("files", ())):
            return f"{leaf['table'] or ', '.join(leaf['roots'])} was changed between its training and its saving"
    return None
