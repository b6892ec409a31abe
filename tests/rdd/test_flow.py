"""RDDs as a flow, live and from the store: the same answers as the oracle's, in both directions."""

from __future__ import annotations

from collections import Counter
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import whence
from fuzz.rdd_programs import Program
from rdd.test_oracle import LEFT, RIGHT, named, parts_of
from whence.model import SourceChanged, StoreError, WhenceError
from whence.model.flow import Few, Flow, Multiplies, Replays, Site
from whence.rdd import LineageContext, RddFlow
from whence.rdd.books import PastBook
from whence.rdd.opening import open_flow
from whence.store.producers import Product

PROGRAMS = [
    ["flatMap generator", "reduceByKey", "join"],
    ["filter", "cogroup", "sortBy"],
    ["distinct", "union", "groupByKey"],
    ["cache", "subtractByKey", "coalesce"],
]


@pytest.mark.parametrize("program", PROGRAMS, ids=" ".join)
def test_live_and_past_answer_like_the_oracle(lc: LineageContext, program: list[str]) -> None:
    given = Program(tuple(program), LEFT[:12], RIGHT[:7])
    a, b = lc.parallelize(given.left, given.parts[0]), lc.parallelize(given.right, given.parts[1])
    names = {**named(a, "a", parts_of(a)), **named(b, "b", parts_of(b))}
    result, expected = given.build(a, b), given.oracle(lc.spark)
    records = result.collect()
    live, asked = RddFlow.of(result)
    assert isinstance(live, Flow)
    assert isinstance(live, Replays)
    assert isinstance(live, Multiplies)
    assert [value for (value,) in asked.values()] == records
    lc.publish()
    past = RddFlow(PastBook(lc.book.directory))
    found = {}
    for flow in (live, past):
        site = flow.site_of(result.node.id)
        assert site in flow.outputs
        of_node = {flow.site_of(rdd.node.id): rdd.node.id for rdd in (a, b)}
        assert set(flow.inputs) <= set(of_node)
        ids = asked.ids()
        backward: list[frozenset[Any]] = []
        for record in ids:
            answer = flow.backward(flow.take(site, [record]))
            assert answer.exact
            assert answer.complete
            backward.append(
                frozenset(
                    names[of_node[s], int(part), int(number)]
                    for s, some in answer.found.items()
                    for part, number in some.ids()
                )
            )
        told = Counter(zip(map(repr, records), backward, strict=True))
        assert told == Counter((repr(record), ids) for record, ids in expected)
        forward: dict[Any, set[Any]] = {}
        for (node, part, number), name in names.items():
            source = flow.site_of(node)
            if source in flow.inputs:
                answer = flow.forward(flow.take(source, [(part, number)]))
                assert answer.exact
                assert answer.complete
                forward[name] = set(answer.found[site].ids()) if site in answer.found else set()
        touched: dict[Any, set[Any]] = {name: set() for name in forward}
        for record, own in zip(ids, backward, strict=True):
            for name in own:
                touched[name].add(record)
        assert forward == touched
        found[flow.is_live] = [(s.operator, s.text, s.depth) for s in flow.steps]
    assert found[True] == found[False]


def lines_of(lc: LineageContext, path: Path) -> Any:
    return lc.textFile(str(path), 2)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("a b\nb\n\nc a b b\nd\n")
    return path


def test_lines_are_told_by_their_byte_and_once_though_read_twice(lc: LineageContext, text: Path) -> None:
    twice = lines_of(lc, text).union(lines_of(lc, text)).flatMap(str.split).map(lambda word: (word, 1))
    counts = twice.reduceByKey(add, 2)
    records = counts.collect()
    assert dict(records)["b"] == 8
    flow, all_of_it = RddFlow.of(counts)
    asked = flow.take(all_of_it.site, [i for i, r in zip(all_of_it.ids(), records, strict=True) if r[0] == "b"])
    (site,) = flow.inputs
    assert site.key == f"files by byte: {text}"
    answer = flow.backward(asked)
    witnesses = answer.found[site]
    assert witnesses.ids() == [(str(text), 0), (str(text), 4), (str(text), 7)]
    assert witnesses.ids(2) == witnesses.ids()[:2]
    assert witnesses.count() == 3
    assert witnesses.values() == [("a b",), ("b",), ("c a b b",)]
    # identities alone, as another flow or another process has them
    there = Few(Site(site.key, "elsewhere"), ((str(text), 15),))
    (touched,) = flow.forward(there).found.values()
    assert touched.values() == [(("d", 2),)]
    with pytest.raises(StoreError, match="has no record"):
        flow.take(site, [(str(text), 2)])
    text.write_text("other\n")
    with pytest.raises(SourceChanged):
        flow.forward(there)


def test_opaque_functions_widen_and_traces_end(lc: LineageContext) -> None:
    made = lc.parallelize(range(6), 1).mapPartitions(lambda it: [sum(it)])
    made.collect()
    flow, records = RddFlow.of(made)
    answer = flow.backward(records)
    assert not answer.exact
    assert answer.complete
    assert "mapPartitions" in answer.widened[0]
    lc.publish()
    past = RddFlow(PastBook(lc.book.directory))
    assert past.backward(past.take(records.site, records.ids())).widened == answer.widened  # from the store too
    again = made.getLineage().goBackAll().map(lambda x: x + 1)
    again.collect()
    flow, records = RddFlow.of(again)
    answer = flow.backward(records)
    assert answer.exact
    assert "those of a trace" in answer.ended[0]


def test_steps_records_at_them_replay_and_multiplicities(lc: LineageContext) -> None:
    numbers = lc.parallelize(range(10), 2)
    kept = numbers.filter(lambda x: x % 2).flatMap(lambda x: [x] * (x % 4))
    sums = kept.map(lambda x: (x % 3, x)).reduceByKey(add, 2)
    sums.count()
    flow, all_of_it = RddFlow.of(sums)
    steps = {step.operator: step for step in flow.steps}
    assert [s.operator for s in flow.steps] == ["reduceByKey", "map", "flatMap", "filter", "parallelize"]
    assert [s.depth for s in flow.steps] == [0, 1, 2, 3, 4]
    asked = flow.take(all_of_it.site, all_of_it.ids()[:1])
    ((key, _),) = asked.values()[0]
    assert {x for (x,) in flow.at(steps["flatMap"], asked).values()} == {x for x in range(1, 10, 2) if x % 3 == key}
    assert flow.at(steps["filter"], asked).count() == len([x for x in range(1, 10, 2) if x % 3 == key])
    answer = flow.backward(asked)
    assert flow.replay(keep=answer.found).collect() == [v for (v,) in asked.values()]
    rest = dict(flow.replay(drop=answer.found).collect())
    assert rest == {k: v for k, v in sums.collect() if k != key}
    counts = flow.multiplicities(steps["map"])
    assert Counter(counts.values()) == Counter(x % 4 if x % 2 else 0 for x in range(10))
    lc.publish()
    past = RddFlow(PastBook(lc.book.directory))
    assert past.multiplicities(steps["map"]) == counts
    at = past.at(steps["map"], past.take(asked.site, asked.ids()))
    assert at.ids() == flow.at(steps["map"], asked).ids()
    with pytest.raises(WhenceError, match="were not written down"):
        past.at(steps["filter"], past.take(asked.site, asked.ids()))
    with pytest.raises(WhenceError, match="its program is not here"):
        past.replay()
    with pytest.raises(WhenceError, match="is no step of"):
        flow.at(steps["map"].__class__(77, "map", "map", 0), asked)


def test_saved_files_are_products_and_another_process_opens_them(w: whence.Session, tmp_path: Path, text: Path) -> None:
    lc = w.context
    words = lines_of(lc, text).flatMap(str.split)
    counts = words.map(lambda word: (word, 1)).reduceByKey(add, 2).map(lambda kv: f"{kv[0]} {kv[1]}")
    counts.saveAsTextFile(str(tmp_path / "saved"))
    counts.saveAsPickleFile(str(tmp_path / "pickled"))
    producers = w._store.producers
    parts = sorted(str(p) for p in (tmp_path / "saved").glob("part-*"))
    made = producers.of(parts)
    assert sorted(made) == parts
    assert {p.kind for p in made.values()} == {"rdd"}
    assert all(p.is_there and p.run == lc.book.run for p in made.values())
    assert producers.readers([str(text)]) == [("rdd", lc.book.run)]
    product = made[parts[0]]
    assert open_flow(product, lc).is_live
    past = open_flow(product)  # the book is there though the session goes on
    assert not past.is_live
    saved, pickled = (s for s in past.outputs if s.key.startswith("files by"))
    assert saved.key == f"files by byte: {tmp_path / 'saved'}"
    assert pickled.key == f"files by number: {tmp_path / 'pickled'}"
    for flow in (past, open_flow(product, lc)):
        for part in parts:
            at = 0
            for number, line in enumerate(Path(part).read_bytes().splitlines(keepends=True)):
                word = line.decode().split()[0]
                answer = flow.backward(flow.take(saved, [(part, at)]))
                assert answer.exact
                assert answer.complete
                (lines,) = answer.found.values()
                assert all(word in value.split() for (value,) in lines.values())
                assert lines.count() == sum(word in x.split() for x in text.read_text().splitlines())
                assert flow.backward(flow.take_saved([(part.replace("/saved/", "/pickled/"), number)])).found.keys()
                at += len(line)
        touched = flow.forward(Few(flow.inputs[0], ((str(text), 15),)))
        assert touched.exact
        assert set(touched.found) == {saved, pickled}
        assert touched.found[saved].values() == [("d 1",)]
        assert touched.found[saved].ids()[0][0] == next(p for p in parts if "d 1" in Path(p).read_text())
    with pytest.raises(StoreError, match="saved no files"):
        past.take_saved([("/nowhere", 0)])
    Path(parts[0]).write_text("changed\n")
    assert not product.is_there
    with pytest.raises(StoreError, match="is not as it was saved"):
        past.take(saved, [(parts[0], 0)])


def test_records_with_line_ends_are_told_as_widened(lc: LineageContext, tmp_path: Path) -> None:
    made = lc.parallelize(["a", "b\nb", "c", "d\r"], 1).map(lambda x: x)
    made.saveAsTextFile(str(tmp_path / "saved"))
    flow = RddFlow(lc.book, lc)
    (site,) = (s for s in flow.outputs if s.key.startswith("files"))
    file = str(tmp_path / "saved" / "part-00000")
    answer = flow.backward(flow.take(site, [(file, 6)]))  # the line "c", the fourth of five of four records
    (found,) = answer.found.values()
    assert found.ids() == [(0, 1), (0, 2)] or found.ids() == [(0, 2), (0, 3)]
    assert (0, 2) in found.ids()
    assert "hold line ends" in answer.widened[0]
    seed = flow.take(flow.inputs[0], [(0, 0)])
    forward = flow.forward(seed)
    assert (file, 0) in forward.found[site].ids()
    assert "hold line ends" in forward.widened[0]


def test_what_was_saved_is_pinned_though_computed_again(lc: LineageContext, tmp_path: Path) -> None:
    moved = lc.parallelize(range(20), 3).repartition(2)
    moved.saveAsTextFile(str(tmp_path / "saved"))
    first = lc.book.saves[0]
    moved.map(lambda x: x).collect()
    moved.saveAsTextFile(str(tmp_path / "later"))
    assert lc.book.saves[0] == first
    assert lc.book.saves[1].tables != first.tables
    flow = RddFlow(lc.book, lc)
    for save in lc.book.saves:
        for file in save.files:
            lines = Path(file.key).read_text().splitlines()
            starts = np.cumsum([0, *(len(x) + 1 for x in lines)]).tolist()
            for start, line in zip(starts, lines, strict=False):
                (found,) = flow.backward(flow.take_saved([(file.key, start)])).found.values()
                assert [str(v) for (v,) in found.values()] == [line]


def test_a_save_that_cannot_be_noted_is_saved(
    lc: LineageContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError("no room")

    monkeypatch.setattr(lc.book, "write", full)
    with pytest.warns(UserWarning, match="could not note where they come from"):
        lc.parallelize(["x"], 1).map(str).saveAsTextFile(str(tmp_path / "saved"))
    assert (tmp_path / "saved" / "part-00000").read_text() == "x\n"


def test_stores_that_cannot_be_reached_are_refused(spark: SparkSession) -> None:
    with pytest.raises(StoreError, match="cannot be kept at s3://bucket"):
        LineageContext(spark.sparkContext, "s3://bucket/x")
    with pytest.raises(StoreError, match="cannot be reached by this Spark session"):
        whence.attach(spark, store="postgresql://nobody@localhost/none?tables=s3://bucket/x")


def test_other_products_are_not_opened_as_rdds() -> None:
    with pytest.raises(StoreError, match="no run of RDDs"):
        open_flow(Product("/x", "actor", "1"))
