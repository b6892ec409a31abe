"""A graph of actors is a flow like any other: its answers are the oracle's, told by identities that others know."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.oracle_actors import ends, same, trace_from
from actors.test_contract import EVENTS, played
from whence.actors import ActorStore, Location
from whence.actors.flow import ActorFlow, id_of
from whence.actors.opening import open_flow
from whence.actors.products import site_of, taken_site_of
from whence.model import StoreError, WhenceError
from whence.model.flow import BY_BYTE, BY_ROW, Answer, Flow, Multiplies, files_site
from whence.store import Store
from whence.store.producers import Product


def told(answer: Answer) -> dict[str, set[Any]]:
    for site, records in answer.found.items():
        assert records.site == site
        assert records.count() == len(records.ids()) == len(records.values()) == len(set(records.ids()))
    return {site.key: set(records.ids()) for site, records in answer.found.items()}


def range_id(place: Location) -> Any:
    return (os.path.abspath(place.file), place.offset, -1 if place.length is None else place.length)


def range_key(place: Location) -> str:
    return files_site("range", os.path.abspath(place.file)).key


def expected(
    store: ActorStore, actors: list[Any], found: dict[int, set[Any]], left: dict[int, set[Any]], forward: bool
) -> dict[str, set[Any]]:
    result: dict[str, set[Any]] = {}
    for n, records in found.items():
        keys = {id_of(r) for r in left[n] if not isinstance(r, Location)}
        site = (site_of if forward else taken_site_of)(store.root, actors[n].id)
        if keys:
            result[site.key] = keys
        for r in records if forward else left[n]:
            if isinstance(r, Location):
                result.setdefault(range_key(r), set()).add(range_id(r))
    return result


@settings(max_examples=80, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=4), st.data())
def test_a_flow_answers_as_the_oracle_does(many: list[list[Any]], data: st.DataObject) -> None:
    nodes = range(len(many))
    with tempfile.TemporaryDirectory() as home:
        store = ActorStore(home)
        actors, oracles, links = played(store, many, data)
        logged = [n for n in nodes if oracles[n].inputs or oracles[n].outputs]
        flow = ActorFlow(store.files, store.registry(), [a.id for a in actors], store.root)
        assert {s.text for s in flow.steps} == {f"actor actor {n}" for n in logged}
        for direction in ("backward", "forward"):
            near = [o.outputs if direction == "backward" else o.inputs for o in oracles]
            asked = [(n, r) for n in logged for r in near[n] if not (isinstance(r, Location) and r.length == 0)]
            if not asked:
                continue
            root, record = data.draw(st.sampled_from(asked))
            if isinstance(record, Location):  # whoever put these bytes out is asked
                site, id, starts = files_site("range", os.path.abspath(record.file)), range_id(record), logged
            else:
                site = (site_of if direction == "backward" else taken_site_of)(store.root, actors[root].id)
                id, starts = id_of(record), [root]
            taken = flow.take(site, [id, id])
            assert taken.ids() == [id]
            answer = flow.backward(taken) if direction == "backward" else flow.forward(taken)
            found = trace_from(oracles, links, {n: {record} for n in starts}, direction)
            left = ends(oracles, links, found, direction)
            assert told(answer) == expected(store, actors, found, left, direction == "forward")
            met = {n: [r for r in near[n] if same(r, record)] for n in starts}
            end = float("inf") if not isinstance(record, Location) or record.length is None else sum(record[1:])  # type: ignore[arg-type]
            wider = isinstance(record, Location) and any(
                r.offset < record.offset or (float("inf") if r.length is None else r.offset + r.length) > end
                for found_here in met.values()
                for r in found_here
            )
            twice = direction == "backward" and any(
                same(r, s) for n in met for m in met if n < m for r in met[n] for s in met[m]
            )
            assert answer.exact == (not wider and not (isinstance(record, Location) and twice))
            assert answer.complete or not all(a in logged and b in logged for a, b in links)


@pytest.fixture
def words(tmp_path: Path) -> tuple[ActorStore, Any, Any, Path, Path]:
    """Lines are read from a file, and a file of words written: each word with the lines that it stands in."""
    source, result = tmp_path / "lines.txt", tmp_path / "words.csv"
    source.write_text("to be or\nnot to be\n")
    store = ActorStore(tmp_path / "store" / "actors")
    split, count = store.register("split", kind="map"), store.register("count", kind="reduce")
    store.flow_link(split, count)
    offset = 0
    for line in source.read_text().splitlines(keepends=True):
        for word in line.split():
            split.capture(Location(str(source), offset, len(line)), (word, offset))
            count.add_input((word, offset), tag=word)
        offset += len(line)
    written = 0
    with result.open("w") as out:
        for word, times in (("to", 2), ("be", 2), ("or", 1), ("not", 1)):
            line = f"{word},{times}\n"
            out.write(line)
            count.add_output(Location(str(result), written, len(line)), tag=word)
            written += len(line)
    split.commit()
    count.commit()
    return store, split, count, source, result


def test_lines_of_files_are_told_by_file_and_byte(words: Any) -> None:
    store, split, count, source, result = words
    flow = store.trace([Location(str(result), 0, 1)], root=count).flow
    assert isinstance(flow, Flow)
    assert isinstance(flow, Multiplies)
    assert [s.text for s in flow.steps] == ["reduce count", "map split"]
    assert [s.depth for s in flow.steps] == [0, 1]
    outside, inside = files_site(BY_BYTE, str(result)), files_site(BY_BYTE, str(source))
    assert flow.outputs == (outside,)
    assert flow.inputs == (inside,)
    answer = flow.backward(flow.take(outside, [(str(result), 10)]))  # "or"
    assert told(answer) == {inside.key: {(str(source), 0)}}
    assert answer.found[inside].values() == [(str(source), 0, 9, "to be or")]
    assert answer.exact
    assert answer.complete
    # another front end names the directory, not the file
    taken = flow.take(files_site(BY_BYTE, str(source.parent)), [(str(source), 9)])
    assert taken.values() == [("not to be",)]
    assert told(flow.forward(taken)) == {outside.key: {(str(result), 0), (str(result), 5), (str(result), 15)}}
    at_split = flow.at(flow.steps[1], flow.take(outside, [(str(result), 0)]))
    assert at_split.count() == 2
    assert set(flow.multiplicities(flow.steps[1]).items()) == {((str(source), 0), 3), ((str(source), 9), 3)}
    with pytest.raises(WhenceError, match=r"No actor of actors .* has read or written what is at 99"):
        flow.take(outside, [(str(result), 0), (str(result), 99)])
    with pytest.raises(WhenceError, match="knows nothing of"):
        flow.take(site_of(store.root, "0" * 32), [(1,)])
    with pytest.raises(WhenceError, match="no output 'nothing'"):
        flow.take(site_of(store.root, split.id), [("nothing",)])


def test_a_line_written_in_pieces_has_the_inputs_of_all(tmp_path: Path) -> None:
    store = ActorStore(tmp_path / "store")
    cells = store.register("cells")
    file = tmp_path / "cells.csv"
    file.write_text("aa,bb\ncc,dd\n")
    for n, at in enumerate((0, 3, 6, 9)):
        cells.capture(n, Location(str(file), at, 2))
    cells.commit()
    flow = ActorFlow(store.files, store.registry(), [cells.id], store.root)
    site = files_site(BY_BYTE, str(file))
    answer = flow.backward(flow.take(site, [(str(file), 6)]))
    assert told(answer) == {taken_site_of(store.root, cells.id).key: {(2,), (3,)}}
    assert answer.exact


def test_several_lines_written_as_one_are_not_told_apart(tmp_path: Path) -> None:
    store = ActorStore(tmp_path / "store")
    block = store.register("block")
    file = tmp_path / "block.txt"
    file.write_text("a\nb\nc\n")
    block.capture("ab", Location(str(file), 0, 4))
    block.capture("c", Location(str(file), 4, 2))
    block.commit()
    flow = ActorFlow(store.files, store.registry(), [block.id], store.root)
    site = files_site(BY_BYTE, str(file))
    one = flow.backward(flow.take(site, [(str(file), 2)]))
    assert told(one) == {taken_site_of(store.root, block.id).key: {("ab",)}}
    assert "block put out several records" in one.widened[0]
    assert flow.backward(flow.take(site, [(str(file), 0), (str(file), 2)])).exact
    assert flow.backward(flow.take(site, [(str(file), 4)])).exact


def test_rows_of_a_whole_columnar_file(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    store = ActorStore(tmp_path / "store")
    reader, writer = store.register("reader"), store.register("writer")
    read, written = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), read)
    pq.write_table(pa.table({"a": [1, 2]}), written)
    reader.capture(Location(str(read)), "sum")
    writer.capture("model", Location(str(written)))
    reader.commit()
    writer.commit()
    flow = ActorFlow(store.files, store.registry(), [reader.id, writer.id], store.root)
    answer = flow.backward(flow.take(site_of(store.root, reader.id), [("sum",)]))
    assert told(answer) == {files_site(BY_ROW, str(read)).key: {(str(read), n) for n in range(3)}}
    assert answer.exact
    row = flow.backward(flow.take(files_site(BY_ROW, str(written)), [(str(written), 1)]))
    assert told(row) == {taken_site_of(store.root, writer.id).key: {("model",)}}
    assert "speaks of bytes, not of rows" in row.widened[0]


def test_gaps_and_changed_files_are_where_it_ended(words: Any) -> None:
    store, split, count, source, result = words
    lost = store.register("lost")
    store.flow_link(lost, split)
    source.write_text("something else altogether\n")
    flow = ActorFlow(store.files, store.registry(), [count.id], store.root)
    answer = flow.backward(flow.take(files_site(BY_BYTE, str(result)), [(str(result), 10)]))
    assert answer.exact
    assert not answer.complete
    assert any("lost is linked to split but has no committed log" in note for note in answer.ended)
    assert any(f"{source} was changed since split read it" in note for note in answer.ended)
    assert told(answer) == {files_site("range", str(source)).key: {(str(source), 0, 9)}}
    trace = store.trace([Location(str(result), 10, 1)], root=count)
    assert (trace.widened, trace.ended) == ((), trace.notes)
    assert trace.ended


def test_an_actor_fed_by_another_and_by_a_file_has_both_ends(tmp_path: Path) -> None:
    store = ActorStore(tmp_path / "store")
    left, join = store.register("left"), store.register("join")
    store.flow_link(left, join)
    left.capture("x", 1)
    join.capture(1, "joined")
    join.capture(Location("right.txt", 0, 5), "joined")
    left.commit()
    join.commit()
    assert set(store.trace(["joined"], root=join).records) == {"x", Location("right.txt", 0, 5)}


# --- who made what


def test_a_commit_tells_the_store_which_files_were_made_and_read(words: Any, tmp_path: Path) -> None:
    actors, _, count, source, result = words
    store = Store.at(tmp_path / "store")
    try:
        product = store.producers.of([str(result)])[str(result)]
        assert (product.kind, product.details["reads"]) == ("actors", [])
        assert product.is_there
        (reader,) = store.producers.readers([str(source)])
        (made,) = store.producers.of_run(*reader)
        assert made.details["reads"] == [str(source)]
        for opened in (
            open_flow(product),
            open_flow(made),
            open_flow(Product("", "actors", f"/gone#{count.id}"), actors.root),
        ):
            answer = opened.backward(opened.take(files_site(BY_BYTE, str(result)), [(str(result), 15)]))
            assert told(answer) == {files_site(BY_BYTE, str(source)).key: {(str(source), 9)}}
        with pytest.raises(StoreError, match="Was the store moved"):
            open_flow(Product("", "actors", f"/gone#{count.id}"))
    finally:
        store.close()


def test_a_program_without_files_opens_no_catalogue(tmp_path: Path) -> None:
    store = ActorStore(tmp_path / "store")
    actor = store.register("keys")
    actor.capture(1, 2)
    actor.capture(Location("a stream", 0, 1), Location("another stream", 0, 1))
    actor.commit()
    assert not (tmp_path / "store" / "catalog.db").exists()


def test_a_relative_path_means_the_file_of_the_process_that_wrote_it(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "f.txt").write_text("a\n")
    store = ActorStore(tmp_path / "store")
    actor = store.register("writer")
    monkeypatch.chdir(tmp_path / "there")
    actor.capture(1, Location("f.txt", 0, 2))
    actor.commit()
    monkeypatch.chdir(tmp_path)
    flow = ActorFlow(store.files, store.registry(), [actor.id], store.root)
    assert flow.outputs == (files_site(BY_BYTE, str(tmp_path / "there" / "f.txt")),)


def test_a_store_that_cannot_be_written_does_not_fail_the_program(tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "catalog.db").write_text("this is no database, and too long to be taken for an empty one")
    file = tmp_path / "f.txt"
    file.write_text("a\n")
    store = ActorStore(tmp_path / "store" / "actors")
    actor = store.register("writer")
    actor.capture(1, Location(str(file), 0, 2))
    actor.commit()
    assert "could not write down which files an actor made" in caplog.text
    assert set(store.trace([Location(str(file), 0, 1)], root=actor).records) == {1}


def test_logs_where_nothing_can_be_reached(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="a directory that every machine"):
        ActorStore("nosuchsystem://host/path")
    inside = ActorStore(f"file://{tmp_path}/by/url")
    actor = inside.register("far away")
    actor.capture(1, 2)
    actor.commit()
    assert set(inside.trace([2], root=actor).records) == {1}
