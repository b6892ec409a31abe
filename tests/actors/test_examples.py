"""The two worked instrumentations: a MapReduce in plain processes, and an opaque library inside mapPartitions."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import whence
from whence.actors import ActorStore, Location

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES = ["to be or not to be", "that is the question", "whether tis nobler in the mind", "to suffer", "the slings be"]


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("PYTHONPATH", str(Path(sys.modules["whence"].__file__ or "").parents[1]))


def test_mapreduce_in_plain_processes(examples: None, tmp_path: Path) -> None:
    from mapreduce import read_output, run_job

    inputs = []
    for n in range(2):
        inputs.append(str(tmp_path / f"in-{n}"))
        Path(inputs[-1]).write_text("".join(line + "\n" for line in LINES[n::2]))
    store = ActorStore(tmp_path / "lineage")
    app = store.register("app", kind="application")
    counts, best = str(tmp_path / "counts"), str(tmp_path / "longest")
    one = run_job(store, "count", inputs, counts, "mapreduce:split_words", "mapreduce:add", 2, app)
    middle = [str(p) for p in sorted(Path(counts).iterdir())]
    two = run_job(store, "longest", middle, best, "mapreduce:by_count", "mapreduce:longest", 1, app)
    store.flow_link(one, two)
    app.commit()
    truth = Counter(word for line in LINES for word in line.split())
    assert read_output(counts) == sorted([w, n] for w, n in truth.items())

    trace = store.trace([("3 times", "the")], root=next(s for s in store.actors("reduce") if "longest" in s.path))
    assert trace.exact
    words = {w for w, n in truth.items() if n == 3}
    lines = {text(place) for place in trace.records}
    assert lines == {line for line in LINES if words & set(line.split())}
    assert {s.actor.kind for s in trace.steps} == {"reader", "map", "reduce", "writer", "ghost"}
    assert len(store.inputs_of(one)) == len(LINES)

    # the second job alone can bring the record back, from the first one's files: the latest materialised point
    replayed = trace.replay()
    assert [s.name for s in replayed.ran] == ["longest"]
    assert replayed.result == [["3 times", "the"]]
    without = trace.exclude(at=next(s for s in store.actors("map") if "longest" in s.path)).result
    assert [c for c, _ in without] == [c for c, _ in read_output(best) if c != "3 times"]
    steps = list(trace.replay(steps=True))
    assert [s.actor.kind for s in steps] == ["reader", "map", "reduce", "writer"]
    assert len(steps[1].outputs) == len(words)

    # of a crash, the input that caused it
    Path(middle[0]).write_text("not json\n")
    with pytest.raises(ValueError, match="Expecting value"):
        run_job(store, "crash", middle, best, "mapreduce:by_count", "mapreduce:longest", 1)
    (failure,) = store.failures()
    assert failure.error.startswith("JSONDecodeError")


def text(place: Any) -> str:
    assert isinstance(place, Location)
    return Path(place.file).read_bytes()[place.offset :][: place.length].decode().strip()


def test_an_opaque_library_reports_its_own_lineage(examples: None, spark: SparkSession, w: whence.Session) -> None:
    from opaque_partitions import run, sessions

    spark.sparkContext.addPyFile(str(EXAMPLES / "opaque_partitions.py"))
    readings = [(n, "ab"[n % 2], n * 2 + (100 if n in (6, 7, 8) else 300 if n > 12 else 0)) for n in range(20)]
    readings.sort(key=lambda r: r[2])
    actor, found = run(spark, w, readings)
    assert len(found) > 4
    for session in found:
        witnesses = set(w.trace([session], root=actor).records)
        alone = list(sessions([r for r in readings if r[0] in witnesses], 10, lambda *_: False))
        assert alone == [session]  # given alone, the witnesses give the session again
