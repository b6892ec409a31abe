"""Spark's standalone cluster, executors that lack whence, and what happens to them: machines that are lost, stragglers,
a driver that is killed, two drivers on one store. What is asserted is what they left."""

from __future__ import annotations

import signal
from typing import Any

import pytest

import executor_python
from cluster.drivers import COUNTS, LINES, Driver, write_data
from spark_cluster import standalone

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two drivers on one store at the same time, one of which is killed; then a process that opens what they left."""
    home = tmp_path_factory.mktemp("cluster")
    data, store = write_data(home), home / "store"
    python = executor_python.make(home)
    with standalone(home / "spark") as master:
        first = Driver(home, "everything", master, python, home / "everything", data, store)
        second = Driver(home, "dies", master, python, home / "dies", data, store)
        code, lines = second.ended()
        all_of_it = first.last_line()
    dead = {"code": code, "said": lines, "errors": (home / "dies" / "stderr").read_text()}
    later = Driver(home, "later", data, store, all_of_it["arrays"]["run"], "totals", "counts", "large", "chosen")
    return {"everything": all_of_it, "dead": dead, "later": later.last_line()}


def test_executors_lack_whence(found: dict[str, Any]) -> None:
    assert found["everything"]["executors have whence"] == [False]


def test_executors_that_come_and_go(found: dict[str, Any]) -> None:
    """Dynamic allocation: what captured is gone when the question comes, and others answer it."""
    assert found["everything"]["allocation"] == {
        "counts": {letter: sum(line[-1] == letter for line in LINES) for letter in "ce"},
        "came": True,
        "all gone": True,
        "witnesses": sorted(line for line in LINES if line[-1] == "e"),
        "others came": True,
    }


def test_sql_when_an_executor_is_lost(found: dict[str, Any]) -> None:
    assert found["everything"]["sql"] == {
        "killed": True,
        "totals": [[1, 90], [2, 80], [3, 40]],
        "witnesses": [1, 3, 5],
        "exact": True,
        "notes": [],
        "verified": True,
        "touched": [1],
        "without": [[2, 80], [3, 40]],
    }


def test_rdds_when_an_executor_is_lost_and_a_straggler_overtaken(found: dict[str, Any]) -> None:
    assert found["everything"]["rdds"] == {
        "counts": COUNTS,
        "witnesses": sorted(line for line in LINES if "c" in line.split()),
        "forward": [["a", COUNTS["a"]], ["c", COUNTS["c"]]],
        "killed": True,
        "overtaken": True,
    }


def test_actors(found: dict[str, Any]) -> None:
    assert found["everything"]["actors"] == {"halves": [1.0, 2.0, 3.0, 4.0], "traced": ["6"], "failed": ["eight"]}


def test_guard_and_quarantine(found: dict[str, Any]) -> None:
    assert found["everything"]["guard"] == {
        "row": [True, True],
        "batch": [True, True],
        "rows": [1, 3],
        "aside": ["(2, 'six')"],
    }


def test_arrays(found: dict[str, Any]) -> None:
    arrays = {**found["everything"]["arrays"], "run": None}
    assert arrays == {"run": None, "cells": 9, "exact": True, "as alone": True}


def test_the_watcher_saw_it(found: dict[str, Any]) -> None:
    assert {("orders", "totals"), ("lines.txt", "counts")} <= set(map(tuple, found["everything"]["edges"]))


def test_a_killed_driver_leaves_what_it_had_captured(found: dict[str, Any]) -> None:
    dead, later = found["dead"], found["later"]
    assert dead["code"] == -signal.SIGKILL, dead["errors"]
    assert dead["said"] == ["captured"]
    assert later["large"] == {"sources": {"orders": 4}, "exact": True, "ended": []}
    assert later["chosen"]["exact"]
    assert later["chosen"]["sources"] == {"lines.txt": sum(line.endswith("c") for line in LINES)}


def test_two_drivers_on_one_store(found: dict[str, Any]) -> None:
    later = found["later"]
    assert later["totals"] == {"sources": {"orders": 6}, "exact": True, "ended": []}
    assert later["counts"]["sources"] == {"lines.txt": len(LINES)}
    assert {("orders", "totals"), ("orders", "large"), ("lines.txt", "counts")} <= set(map(tuple, later["edges"]))
