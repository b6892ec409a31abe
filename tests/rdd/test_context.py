"""Switches, strategies, other processes, and what is said when something is wrong."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from operator import add
from pathlib import Path
from typing import Any

import pytest

import whence
from whence.model.flow import Site
from whence.rdd import LineageContext, LineageMissing, LineageRDD, RddFlow
from whence.rdd.books import PastBook
from whence.rdd.inside import NotOnTheWay

TEXT = ["a b", "b c", "c a b b", "d"]


def counted(lc: LineageContext) -> tuple[LineageRDD, LineageRDD]:
    lines = lc.parallelize(TEXT, 2)
    return lines, lines.flatMap(str.split).map(lambda w: (w, 1)).reduceByKey(add)


def of_a(counts: LineageRDD) -> list[Any]:
    return counts.filter(lambda kv: kv[0] == "a").getLineage().goBackAll().collect()


def files(lc: LineageContext) -> list[str]:
    return [f for _, _, found in os.walk(lc.book.directory) for f in found]


def test_capture_off_writes_nothing_and_a_later_trace_computes(w: whence.Session) -> None:
    lc = w.context
    lc.capture = False
    _, counts = counted(lc)
    assert sorted(counts.collect()) == [("a", 2), ("b", 4), ("c", 2), ("d", 1)]
    assert files(lc) == []
    assert of_a(counts) == ["a b", "c a b b"]
    assert not lc.capture


@pytest.mark.parametrize("strategy", ["stored", "propagated", "rerun"])
def test_strategies_give_the_same(w: whence.Session, strategy: str) -> None:
    lc = w.context
    lc.strategy = strategy
    lines, counts = counted(lc)
    assert sorted(counts.collect()) == [("a", 2), ("b", 4), ("c", 2), ("d", 1)]
    assert bool(files(lc)) == (strategy != "rerun")
    assert any(f.endswith(".full") for f in files(lc)) == (strategy == "propagated")
    assert of_a(counts) == ["a b", "c a b b"]
    assert sorted(counts.getLineage().goBackAll().collect()) == sorted(TEXT)
    assert lines.filter(lambda s: s == "d").getLineage().goNextAll().collect() == [("d", 1)]


def test_unknown_strategy(w: whence.Session) -> None:
    with pytest.raises(whence.WhenceError, match="choose one of stored, propagated, rerun"):
        w.context.strategy = "central"


def test_a_plain_rdd_is_a_source(w: whence.Session) -> None:
    lc = w.context
    plain = lc.spark.parallelize([(1, "x"), (2, "y")], 2).mapValues(str.upper)
    met = lc.parallelize([(1, "a"), (3, "b")], 2).join(plain)
    assert met.collect() == [(1, ("a", "X"))]
    assert met.getLineage().goBackAll().collect() == [(1, "a"), (1, "X")]
    back = lc.parallelize([(1, "a"), (3, "b")], 2).union(plain).filter(lambda kv: kv[1] == "Y")
    assert back.getLineage().goBackAll().collect() == [(2, "Y")]
    assert sorted(plain.union(met).collect(), key=str) == [(1, "X"), (1, ("a", "X")), (2, "Y")]


def test_one_source_of_several(w: whence.Session) -> None:
    lc = w.context
    left, right = lc.parallelize([(1, "a")], 1), lc.parallelize([(1, "b")], 1)
    lineage = left.join(right).getLineage()
    assert lineage.goBackAll(source=right).collect() == [(1, "b")]
    assert lineage.goBackAll(source=left).collect() == [(1, "a")]


def test_opaque_functions_say_that_they_widen(w: whence.Session) -> None:
    numbers = w.context.parallelize(range(6), 2)
    sums = numbers.mapPartitions(lambda it: (x + 1 for x in it))
    traced = sums.filter(lambda x: x == 2).getLineage().goBackAll()
    assert traced.collect() == [0, 1]
    assert not traced.exact
    assert "mapPartitions" in traced.notes[0]
    together = numbers.glom().filter(lambda xs: 0 in xs).getLineage().goBackAll()
    assert together.collect() == [0, 1, 2]
    assert together.exact
    piped = numbers.pipe("cat").filter(lambda s: s == "5").getLineage().goBackAll()
    assert 5 in piped.collect()
    assert "pipe" in piped.notes[0]


def test_user_functions_run_once_per_action_and_lazily(w: whence.Session) -> None:
    lc = w.context
    calls = lc.accumulator(0)

    def seen(x: int) -> int:
        calls.add(1)
        if x == 2:
            raise ValueError("too far")
        return x

    numbers = lc.parallelize([0, 1, 2, 3], 1).map(seen)
    assert numbers.first() == 0
    assert calls.value == 1
    fine = lc.parallelize(range(100), 2).map(lambda x: (calls.add(1), x % 3)[1])
    before = calls.value
    fine.map(lambda x: (x, 1)).reduceByKey(add).collect()
    assert calls.value == before + 100


def test_an_error_names_its_record(w: whence.Session) -> None:
    with pytest.raises(Exception, match=r"ZeroDivisionError[\s\S]*failed on this record: 0"):
        w.context.parallelize([3, 2, 1, 0, 5], 1).map(lambda x: 1 / x).collect()


def test_unpicklable_function(w: whence.Session) -> None:
    lock = threading.Lock()
    with pytest.raises(pickle.PicklingError, match="lock"):
        w.context.parallelize([1]).map(lambda x: (lock, x)).collect()


def test_a_record_that_is_not_in_the_result(w: whence.Session) -> None:
    _, counts = counted(w.context)
    nothing = counts.filter(lambda kv: kv[0] == "zzz").getLineage()
    assert nothing.goBackAll().collect() == []
    assert nothing.isEmpty()


def test_store_removed_in_between(w: whence.Session) -> None:
    lc = w.context
    _, counts = counted(lc)
    counts.collect()
    shutil.rmtree(lc.book.directory)
    with pytest.raises(LineageMissing, match="moved or removed"):
        counts.getLineage().goBackAll().collect()


def test_not_on_the_way(w: whence.Session) -> None:
    lc = w.context
    _, counts = counted(lc)
    with pytest.raises(NotOnTheWay, match="did not come through"):
        counts.getLineage().goBack(to=lc.parallelize([1])).collect()


def test_take_ends_a_forward_trace_at_what_it_took(w: whence.Session) -> None:
    numbers = w.context.parallelize(range(10), 2)
    doubled = numbers.map(lambda x: 2 * x)
    assert doubled.take(3) == [0, 2, 4]
    assert numbers.getLineage().goNextAll().collect() == [0, 2, 4]


def test_cached_and_checkpointed(w: whence.Session, tmp_path: Path) -> None:
    lc = w.context
    lc.setCheckpointDir(str(tmp_path / "checkpoints"))
    _, counts = counted(lc)
    counts.cache()
    assert counts.count() == 4
    assert of_a(counts) == ["a b", "c a b b"]
    kept = counts.mapValues(lambda n: n + 1)
    kept.checkpoint()
    assert dict(kept.collect())["d"] == 2
    assert kept.isCheckpointed()
    assert of_a(kept) == ["a b", "c a b b"]


def test_another_process_sees_what_was_cached_and_what_was_taken(w: whence.Session) -> None:
    lc = w.context
    numbers = lc.parallelize(range(10), 2)
    doubled = numbers.map(lambda x: 2 * x).cache()
    doubled.count()
    odd = doubled.map(lambda x: x + 1)
    assert odd.getLineage().count() == 10
    assert odd.take(3) == [1, 3, 5]
    directory = lc.book.directory
    w.close()
    past = RddFlow(PastBook(directory))
    cached, taken = past.outputs
    assert past.backward(past.take(cached, [(1, 2)])).found[past.inputs[0]].ids() == [(1, 2)]
    (source,) = past.inputs
    touched = past.forward(past.take(source, [(0, 2)])).found
    assert {site: records.ids() for site, records in touched.items()} == {cached: [(0, 2)], taken: [(0, 2)]}
    assert [*past.forward(past.take(source, [(1, 2)])).found] == [cached]


def test_another_process_traces_from_the_store(w: whence.Session, tmp_path: Path) -> None:
    lc = w.context
    path = tmp_path / "text.txt"
    path.write_text("\n".join(TEXT) + "\n")
    counts = lc.textFile(str(path), 2).flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add, 1)
    keys = [k for k, _ in counts.collect()]
    where = keys.index("a")
    of_ab = sorted(keys.index(word) for word in ("a", "b"))  # the first line's words
    directory = lc.book.directory
    w.close()
    past = RddFlow(PastBook(directory))
    (result,), (source,) = past.outputs, past.inputs
    assert source.key == f"files by byte: {path}"
    answer = past.backward(past.take(result, [(0, where)]))
    assert (answer.exact, answer.complete) == (True, True)
    found = answer.found[source]
    assert found.ids() == [(str(path), 0), (str(path), 8)]
    assert found.values() == [("a b",), ("c a b b",)]
    touched = past.forward(past.take(source, [(str(path), 0)])).found[result]
    assert touched.ids() == [(0, n) for n in of_ab]
    assert past.forward(found).found[result].count() == 3
    for site, record, said in [
        (Site("lines", "lines"), (0, 0), "knows nothing of lines"),
        (result, (0, 99), "no record 99"),
        (result, ("a", 1), "names no record of an RDD"),
        (source, (str(path), 1), "has no record"),
    ]:
        with pytest.raises(whence.StoreError, match=said):
            past.take(site, [record])
    with pytest.raises(whence.StoreError, match="no RDD run to read"):
        PastBook(tmp_path)


@pytest.mark.parametrize(
    "data",
    [b"a b\r\nb c\r\nc", b"a b\r\nb c\nc d\r\n", b"a \xff b\nb c\nd", b"\xef\xbb\xbfa b\nb c\n", b"\n\na b\n\n"],
    ids=["crlf", "mixed", "not utf-8", "byte order mark", "empty lines"],
)
def test_lines_are_read_back_right(w: whence.Session, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(data)
    upper = w.context.textFile(str(path), 2).map(str.upper)
    upper.collect()
    assert upper.getLineage().goBackAll().collect() == w.context.spark.textFile(str(path), 2).collect()


def test_compressed_text(w: whence.Session, tmp_path: Path) -> None:
    w.context.spark.parallelize(TEXT, 2).saveAsTextFile(str(tmp_path / "z"), "org.apache.hadoop.io.compress.GzipCodec")
    lines = w.context.textFile(str(tmp_path / "z"))
    chosen = lines.filter(lambda s: "a" in s)
    assert sorted(chosen.collect()) == ["a b", "c a b b"]
    assert sorted(chosen.getLineage().goBackAll().collect()) == ["a b", "c a b b"]


def test_spilling_keeps_results_and_lineage(w: whence.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    lc = w.context
    monkeypatch.setattr(LineageRDD, "_memory_limit", lambda self: 1)
    pairs = lc.parallelize(range(60_000), 2).map(lambda x: (x % 5_000, x))
    summed = pairs.reduceByKey(lambda a, b: a + b)
    expected = {k: sum(range(k, 60_000, 5_000)) for k in range(5_000)}
    assert dict(summed.collect()) == expected
    assert summed.filter(lambda kv: kv[0] == 7).getLineage().goBackAll().collect() == list(range(7, 60_000, 5_000))
    grouped = pairs.groupByKey().mapValues(sorted)
    assert grouped.filter(lambda kv: kv[0] == 8).collect() == [(8, list(range(8, 60_000, 5_000)))]
    met = pairs.join(pairs.filter(lambda kv: kv[1] < 10), 2).filter(lambda r: r[1] == (50_003, 3))
    assert met.collect() == [(3, (50_003, 3))]
    assert sorted(set(met.getLineage().goBackAll().collect())) == [3, 50_003]
    ordered = pairs.sortBy(lambda kv: -kv[1])
    assert ordered.first() == (4_999, 59_999)
    assert ordered.filter(lambda kv: kv[1] == 5).getLineage().goBackAll().collect() == [5]
