"""From Spark into the actors that wrote what it reads, and on; forward too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import whence
from whence.actors import Location

pytestmark = pytest.mark.usefixtures("interpreted")

# A program without Spark: it reads prices and writes what each customer owes, then leaves.
PROGRAM = """
import sys
from whence.actors import ActorStore, Location
store = ActorStore(sys.argv[1])
for result in sys.argv[3:]:
    read, total = store.register("read", kind="map"), store.register("total", kind="reduce")
    store.flow_link(read, total)
    sums, offset = {}, 0
    for line in open(sys.argv[2]):
        name, price = line.split()
        read.capture(Location(sys.argv[2], offset, len(line)), offset)
        total.add_input(offset, tag=name)
        sums[name] = sums.get(name, 0) + int(price)
        offset += len(line)
    with open(result, "w") as out:
        for name, owed in sums.items():
            line = f"{name},{owed}\\n"
            total.add_output(Location(result, out.tell(), len(line)), tag=name)
            out.write(line)
    read.commit()
    total.commit()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the program ran: its store, what it read, and twice what it wrote."""
    home = tmp_path_factory.mktemp("program")
    prices, results = home / "prices.txt", [home / "owed.csv", home / "changed since.csv"]
    prices.write_text("ada 20\nbob 35\nada -900\neve 15\n")
    subprocess.run([sys.executable, "-c", PROGRAM, *map(str, [home / "store", prices, *results])], check=True)
    for result in results:
        assert result.read_text() == "ada,-880\nbob,35\neve,15\n"
    results[1].write_text("mallory,0\n")
    return home


@pytest.fixture
def later(spark: SparkSession, home: Path) -> Iterator[whence.Session]:
    with whence.attach(spark, store=home / "store") as session:
        yield session


def test_from_a_query_into_a_plain_program(later: whence.Session, home: Path) -> None:
    owed = later.spark.read.schema("name string, owed int").csv(str(home / "owed.csv"))
    report = owed.where("owed < 0").selectExpr("upper(name)")
    trace = later.backward(report)
    assert [row.value for row in trace["prices.txt"].orderBy("offset").collect()] == ["ada 20", "ada -900"]
    assert (trace.exact, trace.notes) == (True, ())
    assert [s.text for s in trace.steps][-2:] == ["reduce total", "map read"]
    assert "map read" in str(trace)
    assert trace.step_counts()[-2:] == (1, 2)
    ends = later.backward(report, through=False)
    assert list(ends.sources) == ["owed.csv"]


def test_a_trace_of_actors_is_a_trace_like_any_other(w: whence.Session, tmp_path: Path) -> None:
    prices = tmp_path / "prices.txt"
    prices.write_text("ada 20\nbob 35\nada -900\n")
    job = w.register("job", kind="job")
    read, total = w.register("read", kind="map", parents=[job]), w.register("total", kind="reduce", parents=[job])
    w.flow_link(read, total)
    offset = 0
    for line in prices.read_text().splitlines(keepends=True):
        read.capture(Location(str(prices), offset, len(line)), offset)
        total.add_input(offset, tag=line.split()[0])
        offset += len(line)
    for name in ("ada", "bob"):
        total.add_output(name, tag=name)
    for actor in (read, total, job):
        actor.commit()
    tables = w.trace(["ada"], root=job)
    trace = tables.trace()
    assert [row.value for row in trace["prices.txt"].orderBy("offset").collect()] == ["ada 20", "ada -900"]
    assert [s.text for s in trace.steps] == ["reduce job/total", "map job/read"]
    assert trace.step_counts() == (1, 2)
    assert [row.record for row in trace.rows.collect()] == ["ada"]
    assert (trace.exact, trace.notes) == (True, ())
    assert "ada -900" in str(trace)
    assert w.backward(tables).witness_counts == trace.witness_counts == {"prices.txt": 2}
    with pytest.raises(whence.WhenceError, match="backward"):
        w.trace([0], direction="forward", root=total).trace()


def test_forward_through_a_plain_program(later: whence.Session, home: Path) -> None:
    report = later.spark.read.schema("name string, owed int").csv(str(home / "owed.csv"))
    seeds = later.spark.read.text(str(home / "prices.txt")).where("value like 'ada -%'")
    touched = later.forward(seeds, to=report)
    assert [tuple(row) for row in touched.rows.collect()] == [("ada", -880)]
    assert touched.exact


def test_where_the_file_was_changed_the_trace_says_so(later: whence.Session, home: Path) -> None:
    changed = later.spark.read.schema("name string, owed int").csv(str(home / "changed since.csv"))
    trace = later.backward(changed)
    assert list(trace.sources) == ["changed since.csv"]
    assert any("changed since a captured run (actors) made them" in note for note in trace.ended)


def test_actors_of_the_session_in_a_chain_of_files(w: whence.Session, tmp_path: Path) -> None:
    """Two actors that were never linked meet in the file between them."""
    first, second, third = (tmp_path / name for name in ("a.txt", "b.txt", "c.txt"))
    first.write_text("1\n2\n3\n")
    second.write_text("3\n2\n1\n")
    third.write_text("1\n2\n")
    turn, cut = w.register("turn", kind="sort"), w.register("cut", kind="filter")
    for n in range(3):
        turn.capture(Location(str(first), 2 * n, 2), Location(str(second), 4 - 2 * n, 2))
    turn.commit()
    cut.capture(Location(str(second), 4, 2), Location(str(third), 0, 2))
    cut.capture(Location(str(second), 2, 2), Location(str(third), 2, 2))
    cut.commit()
    trace = w.backward(w.spark.read.text(str(third)).where("value = '2'"))
    assert [tuple(r) for r in trace["a.txt"].collect()] == [(str(first), 2, 2, "2")]
    assert trace.notes == ()
    touched = w.forward(w.spark.read.text(str(first)).where("value = '1'"), to=w.spark.read.text(str(third)))
    assert [row.value for row in touched.rows.collect()] == ["1"]


def test_an_actor_that_reads_what_spark_wrote(w: whence.Session, tmp_path: Path) -> None:
    """Query, file, plain Python, file, query: back to the rows that the first query read."""
    source, between, result = tmp_path / "source.csv", tmp_path / "between", tmp_path / "result.txt"
    source.write_text("ada,1\nbob,2\nada,3\n")
    rows = w.spark.read.schema("name string, n int").csv(str(source))
    with w.capture():
        rows.groupBy("name").sum("n").selectExpr("concat(name, ' ', `sum(n)`) AS value").coalesce(1).write.text(
            str(between)
        )
    (part,) = between.glob("part-*")
    copy = w.register("copy")
    result.write_bytes(part.read_bytes())
    offset = 0
    for line in part.read_bytes().splitlines(keepends=True):
        copy.capture(Location(str(part), offset, len(line)), Location(str(result), offset, len(line)))
        offset += len(line)
    copy.commit()
    trace = w.backward(w.spark.read.text(str(result)).where("value like 'ada%'"))
    assert sorted(row.n for row in trace["source.csv"].collect()) == [1, 3]
    assert trace.notes == ()


# --- an actor inside an operator of Spark's


def neighbours(actor: Any) -> Any:
    """Each row with the sum of it and the one before it in its partition: to whence, all that was taken so far."""

    def run(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        last = None
        for batch in batches:
            rows = []
            for row in batch.itertuples():
                rows.append((row.id, row.amount + (last.amount if last is not None else 0)))
                actor.capture(row.id, row.id)
                if last is not None:
                    actor.capture(last.id, row.id)
                last = row
            yield pd.DataFrame(rows, columns=["id", "pair"])

    return run


def test_what_an_actor_captured_is_the_lineage_of_its_operator(w: whence.Session) -> None:
    w.spark.range(0, 40, 1, 2).selectExpr("id", "id * 10 AS amount").createOrReplaceTempView("payments")
    payments = w.spark.table("payments")
    plain, named = w.register("plain"), w.register("named", input_key="id", output_key="id")
    without = w.backward(payments.mapInPandas(neighbours(plain), "id long, pair long").where("id = 7"))
    assert (without.exact, without.witness_counts) == (False, {"payments": 20})

    frame = payments.mapInPandas(neighbours(named), "id long, pair long")
    assert frame.count() == 40
    named.commit()
    trace = w.backward(frame.where("id in (7, 8, 20)"))
    assert sorted(row.id for row in trace["payments"].collect()) == [6, 7, 8, 20]
    assert (trace.exact, trace.notes) == (True, ())
    pairs = trace.associations().collect()
    assert len(pairs) == 5
    assert len(w.actors.log(named)) == 78  # asking added nothing
    touched = w.forward(payments.where("id = 7"), to=frame)
    assert sorted(row.id for row in touched.rows.collect()) == [7, 8]


def test_names_that_do_not_tell_rows_apart_widen_the_answer(w: whence.Session) -> None:
    w.spark.range(0, 8, 1, 1).selectExpr("id", "id % 2 AS half").createOrReplaceTempView("halves")
    actor, silent = (w.register(name, input_key="half", output_key="half") for name in ("halves", "silent"))

    def grouped(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        whole = pd.concat(batches)
        for half, rows in whole.groupby("half"):
            actor.capture(half, half)
            yield pd.DataFrame({"half": [half], "n": [len(rows)]})

    def quiet(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        whole = pd.concat(batches)
        silent.capture(0, 0)
        yield pd.DataFrame({"half": [0, 1], "n": [len(whole), len(whole)]})

    trace = w.backward(w.spark.table("halves").mapInPandas(grouped, "half long, n long").where("half = 1"))
    assert sorted(row.id for row in trace["halves"].collect()) == [1, 3, 5, 7]
    assert "do not tell them apart" in trace.widened[0]
    other = w.backward(w.spark.table("halves").mapInPandas(quiet, "half long, n long").where("half = 1"))
    assert other.witness_counts == {"halves": 8}
    assert any("has not said of every output row" in note for note in other.widened)
    with pytest.raises(ValueError, match="go together"):
        w.register("half a key", input_key="half")


def test_an_actor_in_a_udf(w: whence.Session) -> None:
    """A function of single rows: its row is its lineage anyway, and asking about it adds nothing to the actor's."""
    names = w.spark.createDataFrame([(1, "ada"), (2, "bob"), (3, "eve")], "id long, name string").repartition(2)
    names.createOrReplaceTempView("names")
    actor = w.register("shout")

    @F.udf("string")
    def shout(id, name):  # type: ignore[no-untyped-def]  # PySpark takes hints for an order of another kind
        actor.capture(id, name.upper())
        return name.upper()

    loud = w.spark.table("names").select("id", shout("id", "name").alias("loud"))
    assert sorted(row.loud for row in loud.collect()) == ["ADA", "BOB", "EVE"]
    trace = w.backward(loud.where("loud = 'BOB'"))
    assert [row.id for row in trace["names"].collect()] == [2]
    assert (trace.exact, trace.notes) == (True, ())
    assert trace.verify().ok
    touched = w.forward(w.spark.table("names").where("id = 3"), to=loud)
    assert [row.loud for row in touched.rows.collect()] == ["EVE"]
    assert [row.id for row in w.backward(touched.rows)["names"].collect()] == [3]  # what was given may be asked about
    assert [row.loud for row in trace.replay().collect()] == ["BOB"]
    assert trace.exclude().collect() == []
    assert [row.loud for row in trace.at(0).collect()] == ["BOB"]
    actor.commit()
    assert sorted((i, o) for _, some, made in w.actors.log(actor).pairs() for i, o in zip(
        some.to_pylist(), made.to_pylist(), strict=True)) == [(1, "ADA"), (2, "BOB"), (3, "EVE")]  # fmt: skip
    assert list(w.trace(["BOB"], root=actor).records) == [2]


def test_an_actor_in_map_partitions(w: whence.Session) -> None:
    """Two functions in one stage, each with an actor of its own that names records by themselves."""
    reverse, pair = (w.register(name, input_key="*", output_key="*") for name in ("reverse", "pair"))

    def reversed_(records: Iterator[int]) -> Iterator[int]:
        for n in sorted(records, reverse=True):
            reverse.capture(n, -n)
            yield -n

    def paired(records: Iterator[int]) -> Iterator[tuple[int, int]]:
        last = 0
        for n in records:
            made = (last, n)
            pair.capture_many([n, last] if last else [n], [made, made] if last else [made])
            yield made
            last = n

    made = w.context.parallelize(range(1, 9), 2).mapPartitions(reversed_).mapPartitions(paired)
    result = made.filter(lambda both: both in ((-8, -7), (0, -4)))
    assert sorted(result.collect()) == [(-8, -7), (0, -4)]
    lineage = result.getLineage()
    back = lineage.goBackAll()
    assert sorted(back.collect()) == [4, 7, 8]
    assert (back.exact, back.notes) == (True, ())
    reverse.commit()
    pair.commit()
    assert (len(w.actors.log(reverse)), len(w.actors.log(pair))) == (8, 14)
    plain = w.context.parallelize(range(1, 9), 2).mapPartitions(lambda records: sorted(records))
    third = plain.filter(lambda n: n == 3)
    assert third.collect() == [3]
    superset = third.getLineage().goBackAll()
    assert sorted(superset.collect()) == [1, 2, 3, 4]
    assert not superset.exact
