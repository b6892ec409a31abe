"""Hive tables (embedded and remote metastore), a real Kafka broker, and rows of sources that Spark must be told of when
it starts: what world.py found, case by case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cases import CASES
from kafka_cases import KAFKA
from row_cases import COLUMNS, ROWS, SCHEMAS

from beside import Beside, python
from sql.at_start import SOURCES
from whence.serve import openlineage
from whence.store import Store

HIVE = {case.name: case.edges for case in CASES if case.needs == "hive"}
KAFKA_EDGES = {case.__name__: edges for case, edges in KAFKA.items()}
WORLD = Path(__file__).with_name("world.py")
BESIDE = {
    "world": lambda home: python(WORLD, home, "embedded"),
    "remote-metastore": lambda home: python(WORLD, home, "remote"),
}


@pytest.fixture(scope="module")
def results(beside: Beside) -> dict[str, Any]:
    return json.loads(beside("world").last_line)


@pytest.fixture(scope="module")
def remote(beside: Beside) -> dict[str, Any]:
    return json.loads(beside("remote-metastore").last_line)


def check(result: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    assert "error" not in result, result["error"]
    assert {tuple(edge) for edge in result["edges"]} == expected
    assert result["gaps"] == []
    assert result["failed"] == 0


@pytest.mark.parametrize("name", HIVE)
def test_hive(name: str, results: dict[str, Any]) -> None:
    check(results["hive"][name], HIVE[name])


@pytest.mark.parametrize("name", list(HIVE)[::3])
def test_hive_with_a_remote_metastore(name: str, remote: dict[str, Any]) -> None:
    """The same tables, named after the server that knows them."""
    if "no metastore" in remote:
        pytest.skip(remote["no metastore"])
    check(remote["hive"][name], HIVE[name])
    assert remote["hive"][name]["namespaces"] == [remote["server"].replace("thrift:", "hive:")]


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_of_hive_avro_and_postgresql(kind: str, results: dict[str, Any]) -> None:
    said = results["sources"][kind]
    if said.startswith("missing: "):
        pytest.skip(said.removeprefix("missing: "))
    assert said == "right", said


@pytest.mark.parametrize("name", [case.name for case in ROWS])
def test_rows_changed_in_place(name: str, results: dict[str, Any]) -> None:
    if "no rows" in results:
        pytest.skip(results["no rows"])
    check(results["rows"][name], next(case.edges for case in ROWS if case.name == name))


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_rows_changed_in_place(name: str, results: dict[str, Any]) -> None:
    """The table's own columns are inputs where they are assigned or decide; what stays as it is, is no link."""
    if "no rows" in results:
        pytest.skip(results["no rows"])
    kind, columns = COLUMNS[name]
    assert results["rows"][name]["kinds"] == [kind]
    assert {tuple(link) for link in results["rows"][name]["columns"]} == columns


def test_columns_are_those_after_the_last_change(results: dict[str, Any]) -> None:
    if "no rows" in results:
        pytest.skip(results["no rows"])
    assert results["rows"]["columns that come and go"]["schemas"] == SCHEMAS


@pytest.mark.parametrize("name", KAFKA_EDGES)
def test_kafka(name: str, results: dict[str, Any]) -> None:
    if "no kafka" in results:
        pytest.skip(results["no kafka"])
    check(results["kafka"][name], KAFKA_EDGES[name])


def test_openlineage_events_over_kafka(results: dict[str, Any], tmp_path: Path) -> None:
    """What the official client put into the topic is the whole run: another catalogue learns the same from it."""
    if "no kafka" in results:
        pytest.skip(results["no kafka"])
    events = [json.loads(text) for text in results["exports"]["events"]]
    assert [e["eventType"] for e in events] == ["START", "COMPLETE"]
    store = Store.at(tmp_path / "store")
    assert openlineage.read(store.catalog, events) == 1
    found = [[e.source_column, e.target_column, e.kind, e.subtype] for e in store.catalog.edges("column")]
    store.close()
    assert sorted(found) == results["exports"]["columns"]
    assert ["name", "name", "DIRECT", "TRANSFORMATION"] in found


def test_atlas_notifications_over_kafka(results: dict[str, Any]) -> None:
    if "no kafka" in results:
        pytest.skip(results["no kafka"])
    (notification,) = [json.loads(text) for text in results["exports"]["notifications"]]
    assert notification["message"]["type"] == "ENTITY_CREATE_V2"
    entities = notification["message"]["entities"]["entities"]
    names = {e["attributes"]["name"]: e["typeName"] for e in entities}
    assert names["default.t1"] == names["default.t2"] == "spark_table"
    (process,) = [e["attributes"] for e in entities if e["typeName"] == "spark_process"]
    assert [d["uniqueAttributes"]["qualifiedName"].partition("@")[0] for d in process["inputs"]] == ["default.t1"]
    assert [d["uniqueAttributes"]["qualifiedName"].partition("@")[0] for d in process["outputs"]] == ["default.t2"]
