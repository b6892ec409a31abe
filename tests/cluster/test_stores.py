"""Stores at URLs on real servers, all on loopback: S3 by moto, and Hadoop's own HDFS. A driver on a cluster writes,
a later process that shares nothing with it but the URL asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import executor_python
import hadoop_services
from cluster.drivers import COUNTS, LINES, Driver, write_data
from spark_cluster import standalone

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cluster")) as url:
        yield url


@pytest.fixture(scope="module", params=["s3", "hdfs"])
def found(
    request: pytest.FixtureRequest, master: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    home: Path = tmp_path_factory.mktemp(request.param)
    data, python = write_data(home), executor_python.make(home)
    try:
        service = getattr(hadoop_services, request.param)(home / "service")
        with service as (url, settings):
            given = [f"{name}={value}" for name, value in settings.items()]
            store = f"{url}/store"
            wrote = Driver(home, "stored", master, python, home / "stored", data, store, *given).last_line()
            dead = Driver(home, "dies", master, python, home / "dies", data, store, *given).ended()
            run = wrote["arrays"]["run"]
            later = Driver(home, "later", data, store, run, "totals", "some", "counts", "large", "chosen", *given)
            yield {"wrote": wrote, "dead": dead, "later": later.last_line()}
    except hadoop_services.Unavailable as why:
        pytest.skip(f"no {request.param} here: {why}")


def test_sql(found: dict[str, Any]) -> None:
    assert found["wrote"]["sql"] == [[1, 3, 5], True, True]
    assert found["later"]["totals"] == {"sources": {"orders": 6}, "exact": True, "ended": []}
    assert found["later"]["some"] == {"sources": {"orders": 3}, "exact": True, "ended": []}


def test_rdds(found: dict[str, Any]) -> None:
    wrote = found["wrote"]
    assert wrote["counts"] == COUNTS
    assert wrote["witnesses"] == sorted(line for line in LINES if "c" in line.split())
    assert wrote["forward"] == [["a", COUNTS["a"]], ["c", COUNTS["c"]]]
    assert found["later"]["counts"]["sources"] == {"lines.txt": len(LINES)}


def test_actors_and_their_failures(found: dict[str, Any]) -> None:
    assert found["wrote"]["actors"] == {"halves": [1.0, 2.0, 3.0, 4.0], "traced": ["6"], "failed": ["eight"]}


def test_guard_and_quarantine(found: dict[str, Any]) -> None:
    assert found["wrote"]["guard"] == {
        "row": [True, True],
        "batch": [True, True],
        "rows": [1, 3],
        "aside": ["(2, 'six')"],
    }
    assert found["wrote"]["died on"] == "2"  # told record by record to the driver, since the process does not live


def test_arrays(found: dict[str, Any]) -> None:
    assert found["wrote"]["arrays"]["cells"] == 9
    assert found["later"]["arrays"] == 9
    assert "cannot map" in found["wrote"]["chunks"]


def test_the_catalogue_is_merged(found: dict[str, Any]) -> None:
    edges = set(map(tuple, found["later"]["edges"]))
    assert {("orders", "totals"), ("orders", "large"), ("lines.txt", "counts")} <= edges
    assert found["later"]["saved"] == ["the first customer"]


def test_a_killed_driver_leaves_what_it_had_captured(found: dict[str, Any]) -> None:
    assert found["dead"] == (-9, ["captured"])
    assert found["later"]["large"] == {"sources": {"orders": 4}, "exact": True, "ended": []}
    assert found["later"]["chosen"]["sources"] == {"lines.txt": sum(line.endswith("c") for line in LINES)}


def test_a_store_is_for_its_owner_alone(found: dict[str, Any]) -> None:
    rights = found["wrote"].get("rights")
    if rights is None:
        pytest.skip("an S3 knows no rights of directories and files")
    assert rights == ["rwx------", "rwx------", "rwx------", "rw-------", "rw-------"]


def test_nothing_is_kept_beside_the_store(found: dict[str, Any]) -> None:
    assert found["wrote"]["left here"] == [".whence"]  # the scripts of the guard
    assert found["later"]["left here"] == []
