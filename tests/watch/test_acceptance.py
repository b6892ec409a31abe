"""SAC's own test list, and more: every case of cases.py in the suite's session, or in a session with Hive."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import CASES, Case, clean, run, short

import whence


@pytest.mark.parametrize("case", [c for c in CASES if c.needs == "spark"], ids=lambda c: c.name)
def test_edges(case: Case, spark, tmp_path: Path) -> None:
    clean(spark)
    try:
        run(spark, case.setup, str(tmp_path))
        with whence.attach(spark, store=tmp_path / "store") as w:
            run(spark, case.run, str(tmp_path))
            found = {(short(e.source.name), short(e.target.name)) for e in w.catalog.edges()}
            gaps = [r.details["gaps"] for r in w.catalog.runs() if "gaps" in r.details]
            reads = {short(u.dataset.name) for r in w.catalog.runs() for u in w.catalog.inputs(r)}
            assert {d.kind for d in w.catalog.datasets()} <= {"table", "view", "path", "rdbms", "memory"}
            assert w._watcher.counts["failed"] == 0
        assert found == case.edges
        assert case.reads <= reads
        assert gaps == []
    finally:
        clean(spark)
