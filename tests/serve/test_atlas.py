"""Atlas: entities and processes of the v2 form, recorded by a server that speaks the REST API's paths."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from apache_atlas.client.base_client import AtlasClient
from test_openlineage import observed

from whence.model import COMPLETED, Run
from whence.model.lineage import Change, Link, Observation, Seen
from whence.serve import atlas
from whence.store import Store


@pytest.fixture
def catalog(tmp_path: Path):
    store = Store.at(tmp_path / "store")
    store.catalog.record(observed("0d3a4f0e-6a3b-4c8e-9d6f-2f1f6f1c0a01"))
    topic, path = Seen("kafka://broker:9092", "Orders", "topic"), Seen("hdfs://nn:8020", "/data/x", "path")
    run = Run("0d3a4f0e-6a3b-4c8e-9d6f-2f1f6f1c0a09", "query", "to path", COMPLETED)
    store.catalog.record(Observation(run, (topic, path), (Change(1, "append"),), (Link(0, 1, "write"),)))
    yield store.catalog
    store.close()


class Recorder:
    """Keeps every request, and answers like Atlas."""

    def __init__(self) -> None:
        recorder, self.requests = self, []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                recorder.requests.append((self.path, body))
                if "entity" in self.path:
                    guids = {e["guid"]: f"guid{e['guid']}" for e in body["entities"]}
                    answer = {"guidAssignments": guids, "mutatedEntities": {"CREATE": []}}
                else:
                    answer = body
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *args: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def check(entities: list[dict]) -> None:
    """References lead to entities that are there; attributes are those that the type has."""
    from whence.model.types import BUILT_IN

    types = {t.name: t for t in BUILT_IN}

    def attributes(name: str) -> set[str]:
        return {a.name for a in types[name].attributes}.union(*(attributes(s) for s in types[name].supertypes))

    known = {(e["guid"], e["typeName"]) for e in entities}
    assert len(known) == len(entities)
    for entity in entities:
        assert set(entity["attributes"]) <= attributes(entity["typeName"])
        for value in entity["attributes"].values():
            for reference in value if isinstance(value, list) else [value]:
                if isinstance(reference, dict):
                    assert (reference["guid"], reference["typeName"]) in known


def test_through_the_official_client(catalog) -> None:
    server = Recorder()
    try:
        count = atlas.send(catalog, AtlasClient(server.url, ("admin", "admin")))
    finally:
        server.close()
    (types_path, types), (entities_path, sent) = server.requests
    assert types_path.startswith("/api/atlas/v2/types/typedefs")
    assert entities_path.startswith("/api/atlas/v2/entity/bulk")
    assert {"spark_table", "spark_process", "spark_column_lineage", "spark_ml_model"} <= {
        t["name"] for t in types["entityDefs"]
    }
    assert len(sent["entities"]) == count
    check(sent["entities"])


def test_entities_and_processes(catalog) -> None:
    found = atlas.entities(catalog)
    check(found)
    kinds = {e["attributes"]["qualifiedName"]: e["typeName"] for e in found}
    assert kinds["default.orders@file:/wh"] == "spark_table"
    assert kinds["Orders@kafka://broker:9092"] == "kafka_topic", "the topic keeps its case"
    assert kinds["/data/x@hdfs://nn:8020"] == "hdfs_path"
    processes = [e for e in found if e["typeName"] == "spark_process"]
    assert len(processes) == 2, "one for each run, not one for the application"
    lineage = [e for e in found if e["typeName"] == "spark_column_lineage"]
    assert {(e["attributes"]["name"], e["attributes"]["subtype"]) for e in lineage} == {
        ("id -> id", "IDENTITY"),
        ("name -> who", "TRANSFORMATION"),
        ("id -> id", "FILTER"),
        ("id -> who", "FILTER"),
    }


def test_notifications(catalog) -> None:
    (message,) = [json.loads(m) for m in atlas.notifications(catalog)]
    assert message["version"]["version"] == "1.0.0"
    assert message["message"]["type"] == "ENTITY_CREATE_V2"
    check(message["message"]["entities"]["entities"])
