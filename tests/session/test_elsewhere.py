"""Sessions other than the suite's own: each in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import whence
from beside import Beside, python
from session_orders import write_orders

PROGRAMS = Path(__file__).parent / "programs"


BESIDE = {
    "two_applications": lambda home: python(PROGRAMS / "two_applications.py", home, write_orders(home)),
    "installed": lambda home: python(PROGRAMS / "installed.py", home),
}


def test_executors_that_lack_whence(beside: Beside) -> None:
    found = json.loads(beside("two_applications").last_line)["without whence"]
    assert found == {
        "executors have whence": [False],
        "backward": [3],
        "plain": "six",
        "frames": ["six"],
        "rows": [1, 3],
        "values": [1.0, None, 3.0],
        "aside": ["('six',)", "(2, 'six')"],
        "halves": [1.0, 2.0],
        "traced": 1,
        "counts": [["a", 1], ["b", 2]],
        "lines": ["a b"],
    }


def test_what_pip_install_gives_is_enough(beside: Beside) -> None:
    """A Python that has PySpark, whence and what whence declares to need, and nothing else: no pandas above all."""
    found = json.loads(beside("installed").last_line)
    assert {"counts", "rows"} <= set(found.pop("catalogue"))
    assert found == {
        **{"pandas": False, "typer": False, "yaml": False},
        "printed": True,
        "verified": True,
        "culprit": "six",
        "culprits rows": [2],
        "kept": [7, None, 5],
        "put aside": ["('six',)"],
        "explained": True,
        "lines": ["a b"],
        "through": ["six"],
    }


def test_dataframe_of_an_application_that_ended(beside: Beside) -> None:
    found = json.loads(beside("two_applications").last_line)["stopped"]
    of_the_trace = ("verify", "explain", "associations", "exclude", "source", "step")
    for asked in ("own_session_stopped", "by_name", "trace", *of_the_trace, "backward", "forward", "forward_to"):
        kind, sentence = found[asked]
        assert kind == "ForeignDataFrame", f"{asked}: {kind}: {sentence}"
        assert "Spark" in sentence
    assert found["what_was_seen"]
    assert found["attach"][0] == "NoSession"
    assert "was stopped" in found["attach"][1]
    assert found["still_works"] == 1


def test_two_processes_share_one_store(
    spark: SparkSession, orders: Path, tmp_path: Path, neighbour: Callable[..., subprocess.Popen[str]]
) -> None:
    store = tmp_path / "store"
    other = neighbour("neighbour", orders, store)
    assert other.stdin is not None
    assert other.stdout is not None
    totals = spark.read.parquet(str(orders)).groupBy("customer").count()
    with whence.attach(spark, store=store) as w:
        assert other.stdout.readline() == "attached\n"
        mine = w.backward(totals.where("customer = 1"))
        other.stdin.write("trace\n")
        other.stdin.flush()
        assert sorted(row["id"] for row in mine["orders"].collect()) == [1, 3, 5]
        assert other.stdout.readline() == "[2, 6]\n"
    other.stdin.write("close\n")
    other.stdin.flush()
    assert other.stdout.readline() == "closed\n"
    assert other.wait() == 0
