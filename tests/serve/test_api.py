"""The REST API, as its users see it: shapes, lists, errors, what is in an answer's head."""

from __future__ import annotations

import json
import threading
from datetime import datetime

import pytest
from served import NOON, Api, Serving, fill, hour, write

from whence.model import Dataset, Run
from whence.model.types import Entity
from whence.store.diagnoses import SavedCause

REF = {"id", "namespace", "name", "kind"}


def names(found: dict) -> dict[str, int]:  # type: ignore[type-arg]
    return {node["name"]: node["depth"] for node in found["nodes"]}


def pairs(found: dict, key: str = "edges") -> set[tuple[str, str]]:  # type: ignore[type-arg]
    known = {node["id"]: node["name"] for node in found["nodes"]}
    return {(known[e["source"]], known[e["target"]]) for e in found[key]}


def test_health_and_description(api: Api) -> None:
    said = api.get("/health").json()
    assert said["status"] == "ok"
    assert said["version"]
    described = api.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    assert {"/api/v1/lineage", "/api/v1/traces/{id}/rows", "/api/v1/runs/{id}"} <= set(described["paths"])
    metrics = api.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert 'whence_requests_total{method="GET",route="/health",status="200"} 1.0' in metrics.text
    assert "shop" not in metrics.text


def test_datasets(api: Api) -> None:
    items = api.ok("/datasets")["items"]
    assert [i["name"] for i in items] == ["geo.cities", "shop.orders", "shop.out", "shop.report", "shop.totals"]
    assert set(items[0]) == REF | {"version", "created", "dropped", "columns"}
    assert items[1]["columns"] == [{"name": "id", "type": "int"}, {"name": "amount", "type": "double"}]
    one = api.ok("/dataset", name="orders")
    assert set(one) == set(items[0]) | {"aliases"}
    assert one["aliases"] == [{"namespace": "ns", "name": "shop.orders"}]
    assert datetime.fromisoformat(one["created"]).tzinfo is not None
    api.store.catalog.add_dataset(Dataset("ns", "old", "view", NOON, NOON))
    assert [i["name"] for i in api.ok("/datasets", dropped="true")["items"]] == ["old"]
    assert [i["name"] for i in api.ok("/datasets", kind="view")["items"]] == ["old"]
    assert len(api.ok("/datasets", dropped="false", namespace="ns")["items"]) == 5
    assert api.ok("/datasets", namespace="other")["items"] == []


def test_a_dataset_of_another_time(api: Api) -> None:
    write(api.store.catalog, 5, ["shop.report"], "shop.out")
    assert api.ok("/dataset", name="shop.out")["version"] == 2
    assert api.ok("/dataset", name="shop.out", as_of=hour(4).isoformat())["version"] == 1
    assert api.ok("/dataset", name="shop.out", as_of=NOON.isoformat())["columns"] == []


def test_one_name_of_several(api: Api) -> None:
    write(api.store.catalog, 5, ["shop.report"], "shop.orders", namespace="elsewhere")
    said = api.get("/dataset", name="orders")
    assert said.status_code == 409
    assert {c["namespace"] for c in said.json()["candidates"]} == {"ns", "elsewhere"}
    assert api.ok("/dataset", name="shop.orders", namespace="ns")["version"] == 1
    assert api.get("/dataset", name="orders", namespace="ns").status_code == 404  # with a namespace the name is whole


def test_versions_newest_first(api: Api) -> None:
    for number in (5, 6):
        write(api.store.catalog, number, ["shop.report"], "shop.out")
    items = api.items("/versions", name="out", limit=2)
    assert [(i["number"], i["run"]) for i in items] == [(3, "run-6"), (2, "run-5"), (1, "run-3")]
    assert set(items[0]) == {"number", "how", "at", "run", "external", "columns"}


def test_runs(api: Api) -> None:
    items = api.items("/runs", limit=3)
    assert [i["id"] for i in items] == ["run-4", "run-3", "run-2", "run-1"]
    assert items[0]["status"] == "failed"
    assert items[0]["error"] == "cannot write shop.out"
    assert [r["name"] for r in items[2]["inputs"]] == ["geo.cities", "shop.totals"]
    assert [r["name"] for r in items[0]["outputs"]] == ["shop.out"]
    assert [i["id"] for i in api.ok("/runs", status="failed")["items"]] == ["run-4"]
    assert [i["id"] for i in api.ok("/runs", name="totals")["items"]] == ["run-2", "run-1"]
    assert api.ok("/runs", application="other")["items"] == []
    assert len(api.ok("/runs", namespace="ns")["items"]) == 4
    assert api.ok("/runs", namespace="other")["items"] == []
    one = api.ok("/runs/run-4")
    assert set(one) == set(items[0]) | {"operators"}
    assert api.get("/runs/none").status_code == 404
    api.store.catalog.add_run(Run("a/b ü", "query"))
    assert api.ok("/runs/a%2Fb%20%C3%BC")["started"] is None
    assert api.items("/runs", limit=2)[-1]["id"] == "a/b ü"


def test_lineage(api: Api) -> None:
    found = api.ok("/lineage", name="out")
    assert names(found) == {"shop.out": 0, "shop.report": 1, "geo.cities": 2, "shop.totals": 2, "shop.orders": 3}
    assert found["root"] == found["nodes"][0]["id"]
    assert found["truncated"] is False
    assert [n["depth"] for n in found["nodes"]] == sorted(n["depth"] for n in found["nodes"])
    assert [e["depth"] for e in found["edges"]] == sorted(e["depth"] for e in found["edges"])
    assert set(found["nodes"][0]) == REF | {"depth", "dropped", "failed"}
    assert set(found["edges"][0]) == {"source", "target", "kind", "run", "at", "depth"}
    failed = {n["name"]: n["failed"] for n in found["nodes"]}
    assert failed["shop.out"] == "run-4"
    assert failed["shop.report"] is None
    assert pairs(found) == {
        ("shop.report", "shop.out"), ("geo.cities", "shop.report"), ("shop.totals", "shop.report"),
        ("shop.orders", "shop.totals"),
    }  # fmt: skip
    assert names(api.ok("/lineage", name="out", depth=1)) == {"shop.out": 0, "shop.report": 1}
    assert names(api.ok("/lineage", name="totals", direction="both")) == {
        "shop.totals": 0, "shop.orders": 1, "shop.report": 1, "shop.out": 2,
    }  # fmt: skip
    assert names(api.ok("/lineage", name="out", as_of=hour(2.5).isoformat())) == {"shop.out": 0}


def test_lineage_that_is_cut_says_so(api: Api) -> None:
    found = api.ok("/lineage", name="out", limit=3)
    assert found["truncated"] is True
    assert names(found) == {"shop.out": 0, "shop.report": 1, "geo.cities": 2}
    assert pairs(found) == {("shop.report", "shop.out"), ("geo.cities", "shop.report")}


def test_columns(api: Api) -> None:
    found = api.ok("/lineage", name="totals", level="column", direction="both", depth=1)
    assert set(found["edges"][0]) == {
        "source", "target", "kind", "run", "at", "depth", "source_column", "target_column", "subtype", "masking",
    }  # fmt: skip
    assert found["nodes"][0]["columns"] == ["id", "amount"]
    told = {(e["source_column"], e["target_column"], e["kind"]) for e in found["edges"]}
    assert told == {("id", "id", "DIRECT"), ("amount", "amount", "DIRECT"), ("id", "id", "INDIRECT"),
                    ("id", "amount", "INDIRECT")}  # fmt: skip
    direct = api.ok("/lineage", name="out", column="amount", indirect="false")
    assert {(e["source_column"], e["kind"]) for e in direct["edges"]} == {("amount", "DIRECT")}
    assert names(direct)["shop.orders"] == 3
    assert api.get("/lineage", name="out", column="none").status_code == 404


def test_difference(api: Api) -> None:
    write(api.store.catalog, 5, ["geo.cities"], "shop.totals")
    write(api.store.catalog, 6, ["shop.totals", "geo.cities"], "shop.report", links=[("id", "amount")])
    whole = api.ok("/diff", before=hour(4).isoformat(), after=hour(7).isoformat())
    assert pairs(whole, "added") == {("geo.cities", "shop.totals")}
    assert pairs(whole, "removed") == {("shop.orders", "shop.totals")}
    assert pairs(whole, "changed") == {("shop.totals", "shop.report"), ("geo.cities", "shop.report")}
    one = api.ok("/diff", before=hour(4).isoformat(), after=hour(7).isoformat(), name="report")
    assert pairs(one, "added") == {("geo.cities", "shop.totals")}
    assert pairs(one, "changed") == pairs(whole, "changed")
    for space, count in (("ns", 1), ("other", 0)):
        found = api.ok("/diff", before=hour(4).isoformat(), after=hour(7).isoformat(), namespace=space)
        assert len(found["added"]) == count
    same = api.ok("/diff", before=hour(7).isoformat(), after=hour(7).isoformat())
    assert same == {"nodes": [], "added": [], "removed": [], "changed": []}
    columns = api.ok("/diff", before=hour(4).isoformat(), after=hour(7).isoformat(), level="column", name="report")
    assert ("id", "amount", "DIRECT") in {(e["source_column"], e["target_column"], e["kind"]) for e in columns["added"]}
    assert api.get("/diff", before=hour(1).isoformat()).status_code == 422


def test_impact(api: Api) -> None:
    items = api.items("/impact", name="orders", limit=1)
    assert [(i["degree"], i["dataset"]["name"]) for i in items] == [
        (1, "shop.totals"), (2, "shop.report"), (3, "shop.out"),
    ]  # fmt: skip
    one = api.ok("/impact", name="orders", column="amount")["items"]
    assert [i["columns"] for i in one] == [["amount"]] * 3
    said = api.get("/impact", name="orders", column="id", format="csv", depth=1)
    assert said.headers["content-type"].startswith("text/csv")
    assert said.text.splitlines() == [
        "degree,namespace,name,kind,column", "1,ns,shop.totals,table,amount", "1,ns,shop.totals,table,id",
    ]  # fmt: skip


def test_search(api: Api) -> None:
    write(api.store.catalog, 5, ["shop.orders"], "x/orders_100%")
    write(api.store.catalog, 6, ["shop.orders"], "Böse.ORDERS")

    def found(q: str, **more: str) -> list[str]:
        return [i["dataset"]["name"] if i["dataset"] else i["run"]["id"] for i in api.items("/search", q=q, **more)]

    assert found("orders", type="dataset") == ["Böse.ORDERS", "shop.orders", "x/orders_100%"]
    assert found("BÖSE ord", type="dataset") == ["Böse.ORDERS"]
    assert found("s_100%", type="dataset") == ["x/orders_100%"]
    assert found("s%100", type="dataset") == []
    assert found("mou", type="column") == sorted(
        ["Böse.ORDERS", "geo.cities", "shop.orders", "shop.out", "shop.report", "shop.totals", "x/orders_100%"]
    )
    assert found("run save totals", type="run") == ["run-1"]
    assert found("RUN-4") == ["run-4"]
    assert api.items("/search", q="orders", limit=1) == api.items("/search", q="orders")
    (item,) = api.ok("/search", q="run-4")["items"]
    assert item == {
        "type": "run", "dataset": None, "column": None,
        "run": {"id": "run-4", "name": "save shop.out", "status": "failed"},
    }  # fmt: skip
    assert len(api.items("/search", q=" ", limit=2)) == 7 + 14 + 6


@pytest.mark.parametrize(
    "name",
    ["a/b?c=d&e#f", "it's \"quoted\"", "😀" * 20, "<script>alert(1)</script>", "x'; DROP TABLE runs; --", "a\nb\r\n",
     "n" * 500, "..", "%00", " "],
)  # fmt: skip
def test_any_name(api: Api, name: str) -> None:
    write(api.store.catalog, 5, ["shop.out"], name)
    assert api.ok("/dataset", name=name, namespace="ns")["name"] == name
    assert names(api.ok("/lineage", name=name, namespace="ns"))[name] == 0
    if name.strip():
        first = api.ok("/search", q=name, type="dataset", limit=1)["items"][0]
        assert first["dataset"]["name"] == name


def test_lists_are_stable_while_others_write(api: Api) -> None:
    before = [i["id"] for i in api.items("/runs")]
    catalog, seen = api.store.catalog, {"/runs": [], "/datasets": [], "/search?q=o": []}  # type: ignore[var-annotated]
    for number, path in enumerate(seen):
        cursor, turn = None, 100 * (number + 1)
        while True:
            more = {"cursor": cursor} if cursor else {}
            plain, _, query = path.partition("?")
            params = dict([query.split("=")]) if query else {}
            page = api.ok(plain, limit=2, **params, **more)
            seen[path] += [json.dumps(i, sort_keys=True) for i in page["items"]]
            turn += 1
            write(catalog, turn, ["shop.out"], f"aaa{turn}")
            cursor = page["next"]
            if cursor is None:
                break
    for found in seen.values():
        assert len(found) == len(set(found))
    assert set(before) <= {json.loads(i)["id"] for i in seen["/runs"]}


def test_a_cursor_belongs_to_its_list(api: Api) -> None:
    cursor = api.ok("/datasets", limit=1)["next"]
    for path, params in (
        ("/datasets", {"cursor": cursor, "kind": "table"}), ("/runs", {"cursor": cursor}),
        ("/datasets", {"cursor": "x"}), ("/datasets", {"cursor": cursor[:-1]}), ("/datasets", {"cursor": "ü"}),
    ):  # fmt: skip
        said = api.get(path, **params)
        assert (said.status_code, said.json()["errors"][0]["parameter"]) == (422, "cursor")


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/datasets?bogus=1", "bogus"), ("/datasets?limit=", "limit"), ("/datasets?limit=0", "limit"),
        ("/datasets?limit=1001", "limit"), ("/datasets?limit=1.0", "limit"), ("/datasets?kind=", "kind"),
        ("/datasets?dropped=yes", "dropped"), ("/dataset", "name"), ("/dataset?name=", "name"),
        ("/lineage?name=out&depth=101", "depth"), ("/lineage?name=out&level=row", "level"),
        ("/lineage?name=out&limit=20001", "limit"), ("/lineage?name=out&name=out", "name"),
        ("/dataset?name=out&as_of=2026-03-01T12:00:00", "as_of"), ("/dataset?name=out&as_of=noon", "as_of"),
        ("/runs?status=bad", "status"), ("/runs/run-1?x=1", "x"), ("/search", "q"),
        ("/search?q=a&type=b", "type"), ("/impact?name=out&format=xml", "format"), ("/traces?x=1", "x"),
    ],
)  # fmt: skip
def test_what_is_asked_wrongly(api: Api, path: str, parameter: str) -> None:
    said = api.get(path)
    assert said.status_code == 422, said.text
    assert said.headers["content-type"] == "application/problem+json"
    assert set(said.json()) == {"type", "title", "status", "detail", "errors"}
    assert parameter in {e["parameter"] for e in said.json()["errors"]}


def test_errors_are_problems(api: Api) -> None:
    event = {"content-type": "application/json"}
    for said, status in (
        (api.get("/nowhere"), 404), (api.ask("GET", "/no/page", raw=True), 404), (api.ask("PUT", "/datasets"), 405),
        (api.ask("POST", "/lineage", event, content=b"{"), 400), (api.ask("POST", "/lineage", content=b"{}"), 415),
        (api.ask("POST", "/lineage", event, content=b" " * 10_000_001), 413), (api.post("/lineage", {}), 422),
        (api.ask("POST", "/lineage", event, content=b"\xff\xfe"), 400), (api.post("/traces", {"question": "x"}), 422),
        (api.get("/traces/none"), 404), (api.get("/diagnoses/none"), 404),
        (api.get("/traces/none/rows", source=0), 404),
    ):  # fmt: skip
        assert said.status_code == status, said.text
        assert said.headers["content-type"] == "application/problem+json"
        assert said.json()["status"] == status
        assert {"type", "title", "detail"} <= set(said.json())
    assert api.ask("PUT", "/datasets").headers["allow"] == "GET"
    assert api.ask("PUT", "/lineage").headers["allow"] == "GET, POST"
    assert api.ask("PUT", "/session").headers["allow"] == "DELETE, POST"


def test_what_costs_too_much_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    from whence.serve.answers import lineage

    monkeypatch.setattr(lineage, "MOST_LINKS", 2)
    said = api.get("/lineage", name="out", level="column")
    assert (said.status_code, said.json()["type"].endswith("too-costly")) == (422, True)
    monkeypatch.setattr(lineage, "MOST_LINKS", 1000)
    monkeypatch.setattr(lineage, "SECONDS", -1)
    assert api.get("/lineage", name="out", level="column").json()["type"].endswith("too-costly")


def test_the_head_of_an_answer(api: Api) -> None:
    said = api.get("/datasets", {"accept-encoding": "identity"})
    assert said.headers["cache-control"] == "private, no-cache"
    assert said.headers["vary"] == "Authorization, Cookie"
    assert said.headers["x-content-type-options"] == "nosniff"
    assert "content-encoding" not in said.headers
    again = api.get("/datasets", {"if-none-match": said.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == said.headers["etag"]
    packed = api.get("/datasets", {"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json() == said.json()
    write(api.store.catalog, 9, ["shop.out"], "new")
    assert api.get("/datasets", {"if-none-match": said.headers["etag"]}).status_code == 200


def test_types_and_entities(api: Api) -> None:
    types = {t["name"]: t for t in api.items("/types", limit=5)}
    assert types["spark_table"]["supertypes"] == ["DataSet"]
    for number in range(3):
        api.store.catalog.entities.add(Entity("fs_path", f"/p{number}", {"name": f"p{number}"}))
    assert [e["qualified_name"] for e in api.items("/entities", type="fs_path", limit=2)] == ["/p0", "/p1", "/p2"]
    assert api.ok("/entities", type="none")["items"] == []


def test_diagnoses(api: Api) -> None:
    save = api.store.catalog.diagnoses.save
    cause = SavedCause((("lr", ">", 0.1), ("opt", "==", "sgd")), "confirmed", 0.9)
    ids = [save(f"d{n}", 7 + n, {"lr": [0.1, 1.0], "opt": ["sgd", "adam"]}, [cause]) for n in range(3)]
    assert [d["id"] for d in api.items("/diagnoses", limit=2)] == ids[::-1]
    one = api.ok(f"/diagnoses/{ids[0]}")
    assert set(one) == {"id", "name", "created", "executions", "parameters", "causes"}
    assert one["causes"] == [
        {"conditions": [["lr", ">", 0.1], ["opt", "==", "sgd"]], "status": "confirmed", "confidence": 0.9}
    ]
    runs = [({"lr": 0.1, "opt": "sgd"}, True), ({"lr": 1.0, "opt": "sgd"}, False), ({"lr": 1.0, "opt": "adam"}, True)]
    told = save("with runs", 3, {"lr": [0.1, 1.0], "opt": ["sgd", "adam"]}, [cause], runs)
    assert [(run["config"], run["succeeded"]) for run in api.items(f"/diagnoses/{told}/runs", limit=2)] == [
        runs[1], runs[0], runs[2],
    ]  # fmt: skip
    assert api.ok(f"/diagnoses/{ids[0]}/runs") == {"items": [], "next": None}
    assert api.get("/diagnoses/none/runs").status_code == 404


def test_many_ask_while_one_writes(serving: Serving) -> None:
    api = serving()
    fill(api.store.catalog)
    wrong: list[str] = []

    def ask() -> None:
        for _ in range(15):
            said = api.get("/lineage", name="out", direction="both", depth=10)
            if said.status_code != 200 or "shop.orders" not in said.text:
                wrong.append(said.text)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(10, 30):
        write(api.store.catalog, number, ["shop.out"], f"t{number}")
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(api.ok("/lineage", name="out", direction="forward")["nodes"]) == 21
