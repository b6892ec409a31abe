"""A few TPC queries at a tiny scale, traced and proven as `make bench-tpcds` does with all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from bench import duckdata, proof, tpcds_data, tpch

SAMPLE = {"tpch": (tpch, 0.002, ("q3", "q13")), "tpcds": (tpcds_data, 0.01, ("q22", "q42"))}


@pytest.fixture(scope="module")
def session(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    with whence.attach(tiny, store=tmp_path_factory.mktemp("store")) as w:
        yield w


@pytest.mark.parametrize("suite", SAMPLE)
def test_rows_are_traced_and_proven(
    session: whence.Session, suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, scale, names = SAMPLE[suite]
    monkeypatch.setattr(duckdata, "DATA", tmp_path)
    pytest.importorskip(f"duckdb_extension_{suite}", reason="DuckDB's extension is not installed here (extra: bench)")
    tables = source.register(session.spark, scale)
    queries = source.queries()
    try:
        proofs = [proof.prove(session, name, queries[name].text, picks=1) for name in names]
    finally:
        for table in tables:
            session.spark.catalog.dropTempView(table)
    assert [p.status for p in proofs if p.status not in ("proven", "empty")] == [], proofs
    assert any(p.status == "proven" for p in proofs)
