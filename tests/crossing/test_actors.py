"""From Spark into the actors that wrote what it reads, and on; forward too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import whence
from whence.actors import Location

# A program without Spark: it reads prices and writes what each customer owes, then leaves.
PROGRAM = """
import sys
from whence.actors import ActorStore, Location
store = ActorStore(sys.argv[1])
read, total = store.register("read", kind="map"), store.register("total", kind="reduce")
store.flow_link(read, total)
sums, offset = {}, 0
for line in open(sys.argv[2]):
    name, price = line.split()
    read.capture(Location(sys.argv[2], offset, len(line)), offset)
    total.add_input(offset, tag=name)
    sums[name] = sums.get(name, 0) + int(price)
    offset += len(line)
with open(sys.argv[3], "w") as out:
    for name, owed in sums.items():
        line = f"{name},{owed}\\n"
        total.add_output(Location(sys.argv[3], out.tell(), len(line)), tag=name)
        out.write(line)
read.commit()
total.commit()
"""


@pytest.fixture
def owed(tmp_path: Path) -> tuple[Path, Path]:
    prices, result = tmp_path / "prices.txt", tmp_path / "owed.csv"
    prices.write_text("ada 20\nbob 35\nada -900\neve 15\n")
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "store"), str(prices), str(result)], check=True)
    assert result.read_text() == "ada,-880\nbob,35\neve,15\n"
    return prices, result


def test_from_a_query_into_a_plain_program(w: whence.Session, owed: tuple[Path, Path]) -> None:
    _, result = owed
    report = w.spark.read.schema("name string, owed int").csv(str(result)).where("owed < 0").selectExpr("upper(name)")
    trace = w.backward(report)
    assert [row.value for row in trace["prices.txt"].orderBy("offset").collect()] == ["ada 20", "ada -900"]
    assert (trace.exact, trace.notes) == (True, ())
    assert [s.text for s in trace.steps][-2:] == ["reduce total", "map read"]
    assert "map read" in str(trace)
    assert trace.step_counts()[-2:] == (1, 2)
    ends = w.backward(report, through=False)
    assert list(ends.sources) == ["owed.csv"]


def test_forward_through_a_plain_program(w: whence.Session, owed: tuple[Path, Path]) -> None:
    prices, result = owed
    report = w.spark.read.schema("name string, owed int").csv(str(result))
    seeds = w.spark.read.text(str(prices)).where("value like 'ada -%'")
    touched = w.forward(seeds, to=report)
    assert [tuple(row) for row in touched.rows.collect()] == [("ada", -880)]
    assert touched.exact


def test_where_the_file_was_changed_the_trace_says_so(w: whence.Session, owed: tuple[Path, Path]) -> None:
    _, result = owed
    result.write_text("mallory,0\n")
    trace = w.backward(w.spark.read.schema("name string, owed int").csv(str(result)))
    assert list(trace.sources) == ["owed.csv"]
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
