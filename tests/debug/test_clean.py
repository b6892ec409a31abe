"""The full circle on a real algorithm: a polluted assembly is cleaned at the right stage (figure 13)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from whence.actors import ActorStore
from whence.debug.clean import NothingToClean, clean

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_polluted_assembly(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spark.sparkContext.addPyFile(str(EXAMPLES / "assembly.py"))
    from assembly import bacterial, clean_assembly, genomes

    with whence.attach(spark, store=tmp_path / "lineage") as w:
        cleaned, before = clean_assembly(spark, w, tmp_path, length=400, k=15, seed=3)
    after = cleaned.result
    bacterium, _ = genomes(400, 3)
    assert cleaned.bad
    assert cleaned.stages[0].path == "assembly/count/k-mers"
    assert cleaned.stages[0].overlap > 0.95  # bad contigs depend on almost all reads
    assert cleaned.chosen.path == "assembly/chain/link"
    assert cleaned.chosen.overlap == 0
    assert min(cleaned.after.values()) > 0.9 > min(cleaned.before.values())
    assert sum(map(len, after.values())) / len(after) > 2 * sum(map(len, before.values())) / len(before)
    assert all(bacterial(contig, bacterium, 15) > 0.9 for contig in after.values())
    assert "excluded" in str(cleaned)


def test_without_bad_or_without_good_outputs_there_is_nothing_to_clean(tmp_path: Path) -> None:
    store = ActorStore(tmp_path)
    actor = store.register("copy")
    actor.capture_many([1, 2], ["a", "b"])
    actor.commit()
    for verdict in (True, False):
        with pytest.raises(NothingToClean, match="bad and good"):
            clean(store, actor, {"a": 1, "b": 2}, float, bad=lambda quality, v=verdict: v)
