"""OpenLineage over HTTP: events of one run add up, the same again changes nothing, and what was taken stays."""

from __future__ import annotations

import itertools
import json
import signal
import urllib.request
from copy import deepcopy
from pathlib import Path

import pytest
from served import Api, Serving, fill, hour, whence_serve

RUN = "7b0e1a9e-0000-4000-8000-000000000001"


def event(kind: str, at: str, inputs: list[str], outputs: list[str], run: str = RUN) -> dict:  # type: ignore[type-arg]
    return {
        "eventTime": f"2026-04-01T{at}Z", "eventType": kind, "producer": "https://example.org",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": run}, "job": {"namespace": "j", "name": "nightly"},
        "inputs": [{"namespace": "ns", "name": name} for name in inputs],
        "outputs": [
            {"namespace": "ns", "name": name, "facets": {"schema": {"fields": [{"name": "c", "type": "int"}]}}}
            for name in outputs
        ],
    }  # fmt: skip


PARTS = [event("START", "10:00:00", ["a"], []), event("RUNNING", "10:30:00", ["b"], []),
         event("COMPLETE", "11:00:00", [], ["t"])]  # fmt: skip


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_events_of_a_run_add_up_in_any_order(serving: Serving, order: tuple[int, ...]) -> None:
    api = serving()
    for place in order:
        for _ in range(2):
            said = api.post("/lineage", PARTS[place])
            assert (said.status_code, said.json()) == (201, {"accepted": 1})
    found = api.ok("/lineage", name="t", namespace="ns")
    assert {n["name"] for n in found["nodes"]} == {"a", "b", "t"}
    assert len(found["edges"]) == 2
    run = api.ok(f"/runs/{RUN}")
    assert (run["status"], run["name"], len(run["inputs"])) == ("completed", "nightly", 2)
    assert api.ok("/dataset", name="t", namespace="ns")["version"] == 1


def test_all_of_a_list_or_none(api: Api) -> None:
    bad = event("COMPLETE", "10:00:00", ["a"], ["new"])
    del bad["run"]["runId"]
    said = api.post("/lineage", [event("COMPLETE", "10:00:00", ["a"], ["new"]), bad])
    assert said.status_code == 422
    assert said.json()["errors"] == [{"parameter": "1.run.runId", "detail": "Field required"}]
    assert api.get("/dataset", name="new").status_code == 404
    both = [
        event("COMPLETE", "10:00:00", ["a"], ["new"]),
        event("COMPLETE", "10:00:00", ["b"], ["new2"], RUN[:-1] + "2"),
    ]
    assert api.post("/lineage", both).json() == {"accepted": 2}
    assert api.post("/lineage", []).json() == {"accepted": 0}


@pytest.mark.parametrize("path", ["run.runId", "job.namespace", "job.name", "eventTime", "run", "job"])
@pytest.mark.parametrize("value", [None, 7, ""])
def test_what_an_event_must_have(api: Api, path: str, value: object) -> None:
    given = deepcopy(PARTS[2])
    *inside, last = path.split(".")
    held = given
    for name in inside:
        held = held[name]
    held.pop(last)
    assert api.post("/lineage", given).status_code == 422
    held[last] = value
    assert api.post("/lineage", given).status_code == 422


@pytest.mark.parametrize(
    "facets",
    [
        {"schema": {"fields": 7}}, {"symlinks": {"identifiers": [{"name": "x"}]}}, {"columnLineage": {"fields": []}},
        {"schema": {"fields": [{"name": "a\u0000b"}]}}, {"version": {"datasetVersion": 7}}, {"schema": []},
    ],
)  # fmt: skip
def test_facets_of_another_form(api: Api, facets: object) -> None:
    given = deepcopy(PARTS[2])
    given["outputs"][0]["facets"] = facets
    assert api.post("/lineage", given).status_code == 422
    assert api.get("/dataset", name="t", namespace="ns").status_code == 404


def test_events_come_out_again_oldest_first(api: Api, serving: Serving, tmp_path: Path) -> None:
    api.post("/lineage", PARTS)
    events = api.items("/events", limit=3)
    times = [e["eventTime"] for e in events]
    assert times == sorted(times)
    assert [e["eventType"] for e in events] == ["START", "COMPLETE"] * 3 + ["START", "FAIL", "START", "COMPLETE"]
    assert events[-1]["job"] == {**events[-1]["job"], "namespace": "j", "name": "nightly"}
    assert api.items("/events", since=hour(3).isoformat())[0]["eventTime"] >= hour(3).isoformat()
    other = serving(store=tmp_path / "other")
    assert other.post("/lineage", events).json() == {"accepted": 10}
    for name in ("out", "t"):
        one, two = ({(n["name"], n["depth"]) for n in a.ok("/lineage", name=name)["nodes"]} for a in (api, other))
        assert one == two


def test_what_was_taken_survives_a_kill(tmp_path: Path) -> None:
    with whence_serve("--store", str(tmp_path)) as server:
        request = urllib.request.Request(
            f"{server.url}/api/v1/lineage", json.dumps(PARTS).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as said:
            assert said.status == 201
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    with whence_serve("--store", str(tmp_path)) as server:
        with urllib.request.urlopen(f"{server.url}/api/v1/lineage?name=t&namespace=ns") as said:
            assert len(json.load(said)["edges"]) == 2
        server.process.terminate()
        assert server.process.wait(60) == 0


def test_other_stores(serving: Serving, store_url: str) -> None:
    """The same over SQLite and PostgreSQL."""
    api = serving(store=store_url)
    fill(api.store.catalog)
    api.post("/lineage", PARTS)
    assert [i["name"] for i in api.items("/datasets", limit=2)] == [
        "a", "b", "geo.cities", "shop.orders", "shop.out", "shop.report", "shop.totals", "t",
    ]  # fmt: skip
    assert len(api.ok("/lineage", name="out")["nodes"]) == 5
    assert len(api.ok("/lineage", name="out", level="column")["edges"]) == 16
    assert [i["id"] for i in api.items("/runs", limit=2)] == [RUN, "run-4", "run-3", "run-2", "run-1"]
    assert len(api.items("/search", q="o", limit=2)) > 5
    assert len(api.items("/events", limit=3)) == 10
    assert api.get("/dataset", name="a\u0000b").status_code == 404
    assert api.get("/runs/%00").status_code == 404
    trace = api.post("/traces", {"question": "sample", "name": "out", "limit": 5})
    assert trace.status_code == 202
    assert api.ok(trace.headers["location"])["status"] == "queued"
    assert api.store.catalog.traces.take("me") is not None
    api.store.catalog.vacuum(0)
    assert api.ok("/audit")["items"] == []
