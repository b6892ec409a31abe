"""Traces rows of one query and proves each, both ways. Shared by bench/tpcds.py and the sample in tests/sql.

For each picked row: its witnesses are found, and the query run on them alone must give the row again. For one witness:
forward must touch the row it is a witness of; and rows that forward does not touch must not have it as a witness.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    import whence


@dataclass
class Proof:
    query: str
    rows: int = 0
    status: str = "empty"  # empty, proven, wrong, refused, failed
    detail: str = ""
    witnesses: int = 0
    exact: bool = True
    seconds: dict[str, float] = field(default_factory=dict)


def prove(w: whence.Session, name: str, text: str, picks: int = 2, seed: int = 7) -> Proof:
    import whence

    proof = Proof(name)
    df = _plain(w.spark.sql(text))
    result = _timed(proof, "query", df.collect)
    proof.rows = len(result)
    if not result:
        return proof
    picked = random.Random(f"{seed}{name}").sample(result, min(picks, len(result)))
    try:
        for row in picked:
            _backward(w, proof, df, row)
        if proof.status == "proven":
            _forward(w, proof, df, result, picked[0])
    except whence.WhenceError as refusal:
        proof.status, proof.detail = "refused", str(refusal).splitlines()[0]
    return proof


def _backward(w: whence.Session, proof: Proof, df: DataFrame, row: Row) -> None:
    trace = w.backward(_only(df, row))
    counts = _timed(proof, "backward", lambda: list(trace.witness_counts.values()))
    proof.witnesses += sum(counts)
    proof.exact = proof.exact and trace.exact
    verdict = _timed(proof, "verify", trace.verify)
    if not verdict.ok or trace.rows.isEmpty():
        proof.status = "wrong"
        proof.detail = f"{verdict}; asked {tuple(row)}"
    elif proof.status != "wrong":
        proof.status = "proven"


def _forward(w: whence.Session, proof: Proof, df: DataFrame, result: list[Row], row: Row) -> None:
    trace = w.backward(_only(df, row))
    witness = next(((name, found[0]) for name, frame in trace.sources.items() if (found := frame.take(1))), None)
    if witness is None:
        return
    source, values = witness
    seeds = _only(w.spark.table(source), values)
    touched = _timed(proof, "forward", lambda: w.forward(seeds, to=df).rows.collect())
    if row not in touched:
        proof.status, proof.detail = "wrong", f"forward from {source} misses {tuple(row)}"
        return
    other = next((r for r in result if r not in touched), None)
    if other is not None and values in w.backward(_only(df, other))[source].collect():
        proof.status, proof.detail = "wrong", f"forward from {source} misses {tuple(other)}, which has it as a witness"


def _plain(df: DataFrame) -> DataFrame:
    """Two columns of a result may have one name; to pick rows by value each needs its own."""
    return df.toDF(*[f"c{i}" for i in range(len(df.columns))])


def _only(df: DataFrame, row: Row) -> DataFrame:
    from pyspark.sql import functions as F

    for name, value in zip(df.columns, row, strict=True):
        if isinstance(value, float):
            # A sum of floats may differ in its last digits from one evaluation to the next.
            df = df.where(F.abs(F.col(name) - value) <= abs(value) * 1e-9 + 1e-12)
        else:
            df = df.where(F.col(name).eqNullSafe(F.lit(value)))
    return df


def _timed(proof: Proof, what: str, action: Any) -> Any:
    start = time.perf_counter()
    try:
        return action()
    finally:
        proof.seconds[what] = proof.seconds.get(what, 0.0) + time.perf_counter() - start
