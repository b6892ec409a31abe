"""OpenLineage: what is sent is valid and complete; what others send comes in."""

from __future__ import annotations

import itertools
import json
import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import jsonschema
import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.serde import Serde
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import HttpConfig, HttpTransport

from whence.model import COMPLETED, FAILED, Run
from whence.model.lineage import DIRECT, INDIRECT, Change, ColumnLink, Link, Observation, Seen
from whence.serve import openlineage
from whence.store import Store

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
ORDERS = Seen("file:/wh", "default.orders", "table", (("id", "int"), ("name", "string")), (("file", "/wh/orders"),))
REPORT = Seen("file:/wh", "default.report", "table", (("id", "int"), ("who", "string")))
SQL = "INSERT OVERWRITE report SELECT id, upper(name) FROM orders WHERE id > 0"

# Written after the specification 2-0-2: what a RunEvent and its facets must have.
FACET = {
    "type": "object",
    "required": ["_producer", "_schemaURL"],
    "properties": {"_producer": {"type": "string", "format": "uri"}, "_schemaURL": {"type": "string", "format": "uri"}},
}
FACETS = {"type": "object", "additionalProperties": FACET}
TRANSFORMATION = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"enum": ["DIRECT", "INDIRECT"]},
        "subtype": {
            "enum": [
                "IDENTITY", "TRANSFORMATION", "AGGREGATION",
                "JOIN", "GROUP_BY", "FILTER", "SORT", "WINDOW", "CONDITIONAL",
            ]
        },
        "masking": {"type": "boolean"},
    },
}  # fmt: skip
INPUT_FIELD = {
    "type": "object",
    "required": ["namespace", "name", "field"],
    "properties": {"transformations": {"type": "array", "items": TRANSFORMATION}},
}
COLUMN_LINEAGE = {
    "required": ["fields"],
    "properties": {
        "fields": {
            "additionalProperties": {
                "required": ["inputFields"],
                "properties": {"inputFields": {"type": "array", "items": INPUT_FIELD}},
            }
        },
        "dataset": {"type": "array", "items": INPUT_FIELD},
    },
}
DATASET = {
    "type": "object",
    "required": ["namespace", "name"],
    "properties": {
        "namespace": {"type": "string", "minLength": 1},
        "name": {"type": "string", "minLength": 1},
        "facets": {**FACETS, "properties": {"columnLineage": COLUMN_LINEAGE}},
    },
}
RUN_EVENT = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventTime": {"type": "string", "format": "date-time"},
        "producer": {"type": "string", "format": "uri"},
        "schemaURL": {"const": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"},
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {"pattern": "^[0-9a-f-]{36}$"}, "facets": FACETS},
        },
        "job": {"type": "object", "required": ["namespace", "name"], "properties": {"facets": FACETS}},
        "inputs": {"type": "array", "items": DATASET},
        "outputs": {"type": "array", "items": DATASET},
    },
}


def observed(run_id: str, status: str = COMPLETED, error: str | None = None) -> Observation:
    details = {"sql": SQL, "command": "InsertIntoHadoopFsRelationCommand"}
    run = Run(run_id, "query", SQL, status, error, NOON, NOON + timedelta(seconds=3), "local-1", details)
    columns = (
        ColumnLink(0, "id", 1, "id", DIRECT, "IDENTITY"),
        ColumnLink(0, "name", 1, "who", DIRECT, "TRANSFORMATION", True),
        ColumnLink(0, "id", 1, "*", INDIRECT, "FILTER"),
    )
    return Observation(run, (ORDERS, REPORT), (Change(1, "overwrite"),), (Link(0, 1, "write"),), columns)


@pytest.fixture
def catalog(tmp_path: Path):
    store = Store.at(tmp_path / "store")
    store.catalog.record(observed("0d3a4f0e-6a3b-4c8e-9d6f-2f1f6f1c0a01"))
    store.catalog.record(observed("not-a-uuid", FAILED, "Job aborted"))
    yield store.catalog
    store.close()


def sent(catalog) -> list[dict]:
    return [json.loads(Serde.to_json(e)) for run in catalog.runs() for e in openlineage.events_of(catalog, run)]


def test_events_are_valid(catalog) -> None:
    events = sent(catalog)
    assert [e["eventType"] for e in events] == ["START", "COMPLETE", "START", "FAIL"]
    for event in events:
        jsonschema.validate(event, RUN_EVENT, format_checker=jsonschema.FormatChecker())


def test_events_tell_everything(catalog) -> None:
    _, complete, _, failed = sent(catalog)
    assert complete["job"]["facets"]["sql"]["query"] == SQL
    assert complete["run"]["facets"]["parent"]["job"]["name"] == "local-1"
    assert failed["run"]["facets"]["errorMessage"]["message"] == "Job aborted"
    (orders,) = complete["inputs"]
    assert orders["facets"]["symlinks"]["identifiers"][0]["name"] == "/wh/orders"
    (report,) = complete["outputs"]
    assert report["facets"]["lifecycleStateChange"]["lifecycleStateChange"] == "OVERWRITE"
    assert [f["name"] for f in report["facets"]["schema"]["fields"]] == ["id", "who"]
    lineage = report["facets"]["columnLineage"]
    (who,) = lineage["fields"]["who"]["inputFields"]
    assert (who["name"], who["field"]) == ("default.orders", "name")
    assert who["transformations"][0]["subtype"] == "TRANSFORMATION"
    assert who["transformations"][0]["masking"] is True
    assert [(f["field"], f["transformations"][0]["subtype"]) for f in lineage["dataset"]] == [("id", "FILTER")]


def test_what_was_sent_comes_in_again(catalog, tmp_path: Path) -> None:
    other = Store.at(tmp_path / "other").catalog
    assert openlineage.read(other, sent(catalog)) == 2
    assert [(e.source.name, e.target.name) for e in other.edges()] == [("default.orders", "default.report")]
    before = {(e.source_column, e.target_column, e.kind, e.subtype, e.masking) for e in catalog.edges("column")}
    assert {(e.source_column, e.target_column, e.kind, e.subtype, e.masking) for e in other.edges("column")} == before
    assert sorted(r.status for r in other.runs()) == [COMPLETED, FAILED]
    assert other.dataset("/wh/orders").name == "default.orders"
    other.close()


def test_events_of_other_tools(tmp_path: Path) -> None:
    """Inputs with the start, outputs with the end, no transformations, an old facet version: all is taken."""
    base = {
        "run": {"runId": "0d3a4f0e-6a3b-4c8e-9d6f-2f1f6f1c0a02"},
        "job": {"namespace": "dbt", "name": "orders_daily"},
    }
    events = [
        {**base, "eventType": "COMPLETE", "eventTime": "2026-03-01T12:00:05.123456789Z", "outputs": [
            {"namespace": "snowflake://acc", "name": "DB.S.OUT", "facets": {"columnLineage": {"fields": {
                "A": {"inputFields": [{"namespace": "snowflake://acc", "name": "DB.S.IN", "field": "B"}]}}}}}]},
        {**base, "eventType": "START", "eventTime": "2026-03-01T12:00:00Z", "inputs": [
            {"namespace": "snowflake://acc", "name": "DB.S.IN"}]},
        {"eventTime": "2026-03-01T12:00:00Z", "dataset": {"namespace": "x", "name": "y"}},
    ]  # fmt: skip
    catalog = Store.at(tmp_path).catalog
    assert openlineage.read(catalog, events) == 1
    (run,) = catalog.runs()
    assert (run.name, run.status) == ("orders_daily", COMPLETED)
    (edge,) = catalog.edges("column")
    assert (edge.source.name, edge.source_column, edge.target.name, edge.target_column) == (
        "DB.S.IN",
        "B",
        "DB.S.OUT",
        "A",
    )
    catalog.close()


def event(state: str, minute: int, inputs: str = "", outputs: str = "", **facets: object) -> dict:
    return {
        "run": {"runId": "0d3a4f0e-6a3b-4c8e-9d6f-2f1f6f1c0a03"},
        "job": {"namespace": "dbt", "name": "daily"},
        "eventType": state,
        "eventTime": f"2026-03-01T12:{minute:02}:00Z",
        "inputs": [{"namespace": "db", "name": n, "inputFacets": {"inputStatistics": {"rowCount": 7}}} for n in inputs],
        "outputs": [{"namespace": "db", "name": n, "facets": facets} for n in outputs],
    }


LINEAGE = {"fields": {"x": {"inputFields": [{"namespace": "db", "name": "a", "field": "y"}]}}}
DAY = [
    event("START", 0, "a"),
    event("RUNNING", 1, "b"),
    event("COMPLETE", 2, "", "c", lifecycleStateChange={"lifecycleStateChange": "OVERWRITE"}, columnLineage=LINEAGE),
]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_events_of_a_run_add_up_in_any_order_and_number_of_calls(order: tuple[int, ...], tmp_path: Path) -> None:
    catalog = Store.at(tmp_path).catalog
    catalog.record(
        Observation(
            Run("before", "query", status=COMPLETED, ended=NOON), (Seen("db", "z", "table"), Seen("db", "c", "table")),
            (Change(1, "append"),), (Link(0, 1, "write"),),
        )
    )  # fmt: skip
    for place in order:
        openlineage.read(catalog, [DAY[place]])
        openlineage.read(catalog, [DAY[place]])
    found = {(e.source.name, e.target.name) for e in catalog.lineage("c")}
    assert found == {("a", "c"), ("b", "c")}, "an overwrite, whenever its event came"
    (column,) = catalog.lineage("c", level="column")
    assert (column.source_column, column.target_column) == ("y", "x")
    assert [v.how for v in catalog.versions("c")] == ["append", "overwrite"]
    (run,) = catalog.runs(kind="openlineage")
    assert (run.status, len(catalog.edges(run=run))) == (COMPLETED, 2)
    assert {(u.dataset.name, u.rows) for u in catalog.inputs(run)} == {("a", 7), ("b", 7)}
    assert [(u.dataset.name, u.version) for u in catalog.outputs(run)] == [("c", 2)]
    catalog.close()


def test_what_only_started_or_failed_has_made_nothing(tmp_path: Path) -> None:
    catalog = Store.at(tmp_path).catalog
    openlineage.read(catalog, [event("START", 0, "a", "c")])
    assert (len(catalog.edges()), len(catalog.versions("c"))) == (0, 0)
    openlineage.read(catalog, [event("FAIL", 1)])
    (run,) = catalog.runs(status=FAILED)
    assert (len(catalog.edges()), len(catalog.versions("c"))) == (0, 0)
    assert [u.dataset.name for u in (*catalog.inputs(run), *catalog.outputs(run))] == ["a", "c"]
    catalog.close()


def test_a_run_that_reads_what_it_writes_read_what_was_there_before(tmp_path: Path) -> None:
    catalog = Store.at(tmp_path).catalog
    openlineage.read(catalog, [event("COMPLETE", 1, "", "c")])
    openlineage.read(catalog, [event("START", 0, "c")])
    (edge,) = catalog.edges()
    assert (edge.source_version, edge.target_version) == (0, 1)
    catalog.close()


def test_through_the_official_client_to_a_file_and_by_http(catalog, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    client = OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=str(file), append=True)))
    last = openlineage.emit(catalog, client)
    assert len(file.read_text().splitlines()) == 4
    assert openlineage.emit(catalog, client, since=last) == last
    assert len(file.read_text().splitlines()) == 4

    received: list[dict] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        openlineage.emit(catalog, OpenLineageClient(transport=HttpTransport(HttpConfig(url=url))))
    finally:
        server.shutdown()
        server.server_close()
    assert [e["eventType"] for e in received] == ["START", "COMPLETE", "START", "FAIL"]
