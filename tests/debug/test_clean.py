"""The full circle on a real algorithm: a polluted assembly is cleaned at the right stage (figure 13)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from whence.actors import ActorStore
from whence.debug.clean import NothingToClean, clean

pytestmark = pytest.mark.usefixtures("tiny")

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

    def viral(contigs: dict[str, str]) -> float:
        """Figure 13(b) and (d): bases that are not the bacterium's."""
        return sum(len(contig) * (1 - bacterial(contig, bacterium, 15)) for contig in contigs.values())

    assert viral(before) > 30
    assert viral(after) < viral(before) / 10
    assert max(map(len, after.values())) >= max(map(len, before.values()))
    assert sum(map(len, after.values())) / len(after) > sum(map(len, before.values())) / len(before)
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


def test_a_query_is_cleaned_where_bad_and_good_rows_part(w: whence.Session, spark: SparkSession) -> None:
    """Every result depends on the one reference row; what sets the bad ones apart are rows of one sensor."""
    rows = [(n, n % 5, 500.0 if n % 5 == 4 else 1.0) for n in range(50)]
    spark.createDataFrame(rows, "id long, sensor long, value double").createOrReplaceTempView("readings_clean")
    spark.createDataFrame([("limit", 100.0)], "name string, most double").createOrReplaceTempView("reference_clean")
    report = spark.sql(
        "SELECT sensor, max(most) - avg(value) AS score FROM readings_clean CROSS JOIN reference_clean GROUP BY sensor"
    )
    cleaned = w.clean(report, quality="score", bad="score < 0")
    assert cleaned.chosen.overlap == 0
    assert cleaned.chosen.records == 10
    assert any(stage.overlap == 1 for stage in cleaned.stages)  # the reference row
    assert sorted(row.sensor for row in cleaned.after.collect()) == [0, 1, 2, 3]
    with pytest.raises(NothingToClean, match="bad and good"):
        w.clean(report, quality="score", bad="score < -1000000")
