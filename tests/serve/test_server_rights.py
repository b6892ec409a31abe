"""Who may see what: tokens, roles, policies, and everywhere that a hidden name could leak."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from served import Api, Serving, fill, hour, token, write

from whence.model.picture import Picture, PictureSource, PictureStep, Question
from whence.serve.rights.policies import BadAccess, parse_policies
from whence.store.tokens import hashed

HIDING = """
policies:
  - {who: ["*"], datasets: ["*"], effect: allow, rights: [see]}
  - {who: [ann], datasets: ["shop.totals", "secret*"], effect: deny, rights: [see]}
  - {who: [ann], datasets: ["shop.orders"], effect: allow, rights: [see, rows]}
"""
HIDDEN = ("shop.totals", "run-1", "save shop.totals", "INSERT INTO shop.totals")


@pytest.fixture
def hiding(serving: Serving) -> Api:
    """Ann does not see shop.totals, which stands in the middle of the graph."""
    api = serving(HIDING)
    fill(api.store.catalog)
    return api


@pytest.fixture
def ann(hiding: Api) -> Api:
    return token(hiding, "ann")


def event(number: int, inputs: list[str], outputs: list[str], **facets: object) -> dict:  # type: ignore[type-arg]
    return {
        "eventTime": "2026-04-01T00:00:00Z", "eventType": "COMPLETE", "producer": "https://example.org",
        "run": {"runId": f"7b0e1a9e-0000-4000-8000-{number:012d}"}, "job": {"namespace": "j", "name": "job"},
        "inputs": [{"namespace": "ns", "name": name} for name in inputs],
        "outputs": [{"namespace": "ns", "name": name, "facets": facets} for name in outputs],
    }  # fmt: skip


# --- who asks


def test_without_a_valid_token_nothing_is_told(serving: Serving) -> None:
    api = serving(auth="token")
    tokens = api.store.catalog.tokens
    _, expired = tokens.create("old", "admin", timedelta(microseconds=1))
    _, revoked = tokens.create("gone", "admin")
    tokens.revoke("gone")
    for path in ("/datasets", "/bogus", "/dataset?x=1", "/metrics", "/openapi.json", "/audit"):
        for text in ("", "Bearer", "Bearer wrong", f"Bearer {expired}", f"Bearer {revoked}", "Basic YTpi"):
            said = api.ask("GET", path, {"Authorization": text} if text else {})
            assert said.status_code == 401, path
            assert said.headers["www-authenticate"] == "Bearer"
            assert said.headers["content-type"] == "application/problem+json"
    assert api.ask("PUT", "/lineage").status_code == 401
    good = token(api, "good")
    assert api.get("/datasets", token=good.token).status_code == 401, "a token in a URL is not looked at"
    assert good.ok("/datasets")["items"] == []
    assert api.get("/health").status_code == 200
    assert api.ask("GET", "/", raw=True).status_code == 200


def test_tokens_are_kept_as_hashes(serving: Serving) -> None:
    api = serving(auth="token")
    held = token(api, "ann").token
    assert held is not None
    with api.store.catalog.reading() as connection:
        rows = [tuple(row) for row in connection.exec_driver_sql("SELECT * FROM tokens")]
    assert held not in str(rows)
    assert hashed(held) in str(rows)


def test_a_token_is_revoked_at_once_and_names_mean_one_thing(serving: Serving) -> None:
    api = serving(auth="token")
    ann = token(api, "ann")
    assert ann.get("/datasets").status_code == 200
    with pytest.raises(Exception, match="already"):
        token(api, "ann")
    api.store.catalog.tokens.revoke("ann")
    assert ann.get("/datasets").status_code == 401
    for name in ("*", "role:admin", "local", ""):
        with pytest.raises(Exception, match="cannot be named"):
            token(api, name)


def test_roles(serving: Serving) -> None:
    api = serving(auth="token")
    reader, editor, admin = (token(api, role, role) for role in ("reader", "editor", "admin"))
    body = event(1, ["a"], ["b"])
    assert [one.post("/lineage", body).status_code for one in (reader, editor, admin)] == [403, 201, 201]
    ask = {"question": "backward", "name": "b"}
    assert [one.post("/traces", ask).status_code for one in (reader, editor, admin)] == [403, 202, 202]
    for path in ("/metrics", "/audit"):
        assert [one.get(path).status_code for one in (reader, editor, admin)] == [403, 403, 200]
    assert [one.get("/openapi.json").status_code for one in (reader, editor)] == [200, 200]


def test_cookies(serving: Serving) -> None:
    api = serving(auth="token")
    editor = token(api, "ed", "editor")
    assert api.post("/session", {"token": "wrong"}).status_code == 401
    said = api.post("/session", {"token": editor.token})
    assert said.status_code == 204
    told = said.headers["set-cookie"].lower()
    assert "httponly" in told
    assert "samesite=strict" in told
    assert str(editor.token).lower() not in told
    api.client.cookies.clear()
    cookie = {"Cookie": said.headers["set-cookie"].partition(";")[0]}
    assert api.get("/datasets", cookie).status_code == 200
    body = event(1, ["a"], ["b"])
    assert api.post("/lineage", body, headers=cookie).status_code == 403
    elsewhere = {**cookie, "Origin": "http://evil.example"}
    assert api.post("/lineage", body, headers=elsewhere).status_code == 403
    here = {**cookie, "Origin": "http://127.0.0.1:8420"}
    assert api.post("/lineage", body, headers=here).status_code == 201
    assert api.ask("DELETE", "/session", here).status_code == 204
    assert api.get("/datasets", cookie).status_code == 401
    again = api.post("/session", {"token": editor.token}).headers["set-cookie"].partition(";")[0]
    api.client.cookies.clear()
    api.store.catalog.tokens.revoke("ed")
    assert api.get("/datasets", {"Cookie": again}).status_code == 401
    assert "access-control-allow-origin" not in said.headers


def test_another_host_is_not_answered_without_authentication(api: Api) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "10.0.0.1:8420", "", "localhost@evil.example"):
        assert api.get("/datasets", {"Host": host}).status_code == 421
        assert api.get("/health", {"Host": host}).status_code == 421
    for host in ("localhost", "localhost:1", "127.0.0.1:8420", "[::1]:8420", "127.9.9.9"):
        assert api.get("/datasets", {"Host": host}).status_code == 200


def test_rates(serving: Serving) -> None:
    api = serving(auth="token", rate=0.001)  # the second request would be answered a quarter of an hour later
    ann, bob = token(api, "ann"), token(api, "bob")
    found = [ann.get("/datasets") for _ in range(3)]
    assert [f.status_code for f in found] == [200, 429, 429]
    assert 1 <= int(found[1].headers["retry-after"]) <= 1000
    assert bob.get("/datasets").status_code == 200
    assert api.get("/health").status_code == 200


# --- what leaks


def test_a_hidden_dataset_is_as_if_it_were_not_there(ann: Api, hiding: Api) -> None:
    assert [i["name"] for i in ann.items("/datasets", limit=1)] == [
        "geo.cities", "shop.orders", "shop.out", "shop.report",
    ]  # fmt: skip
    for path in ("/dataset", "/lineage", "/versions", "/impact", "/runs"):
        for name in ("totals", "shop.totals"):
            hidden, none = ann.get(path, name=name), ann.get(path, name=name.replace("totals", "nothin"))
            assert hidden.status_code == none.status_code == 404
            assert hidden.content == none.content
            assert dict(hidden.headers) == dict(none.headers)
    assert ann.ok("/search", q="totals")["items"] == []
    assert ann.post("/traces", {"question": "backward", "name": "totals"}).status_code == 403  # a reader
    editor = hiding.named(hiding.store.catalog.tokens.create("x", "editor")[1])
    assert editor.post("/traces", {"question": "backward", "name": "nope"}).status_code == 404
    assert "shop.totals" in json.dumps(token(hiding, "root", "admin").ok("/datasets"))


def test_nothing_hidden_is_told_anywhere(ann: Api) -> None:
    for path in (
        "/datasets", "/runs", "/runs?name=out", "/runs/run-2", "/lineage?name=out", "/lineage?name=out&level=column",
        "/lineage?name=orders&direction=both&level=column", "/impact?name=orders", "/impact?name=orders&column=id",
        "/impact?name=orders&format=csv", "/search?q=s", "/events", "/traces",
        f"/diff?before={hour(0).isoformat()[:-6]}Z&after={hour(9).isoformat()[:-6]}Z",
        f"/diff?before={hour(0).isoformat()[:-6]}Z&after={hour(9).isoformat()[:-6]}Z&level=column&name=out",
    ):  # fmt: skip
        said = ann.get(path)
        assert said.status_code == 200, (path, said.text)
        for word in HIDDEN:
            if not (word.startswith("run-") and re.search(rf'"(run|id)":"{word}"', said.text)):
                assert word not in said.text, (path, word)


def test_the_walk_goes_through_what_is_masked(ann: Api, hiding: Api) -> None:
    found = ann.ok("/lineage", name="out")
    masked = [n for n in found["nodes"] if n.get("masked")]
    assert [set(n) for n in masked] == [{"id", "masked", "depth"}]
    assert masked[0]["depth"] == 2
    assert "shop.orders" in {n.get("name") for n in found["nodes"]}
    ids = {n["id"] for n in found["nodes"]}
    assert all({e["source"], e["target"]} <= ids for e in found["edges"])
    columns = ann.ok("/lineage", name="out", level="column")
    ends = {e["target_column"] for e in columns["edges"] if e["target"] == masked[0]["id"]}
    assert ends == {None}
    told = [json.dumps({**e, "run": "", "at": ""}, sort_keys=True) for e in columns["edges"]]
    assert len(told) == len(set(told))
    bob = token(hiding, "bob")
    hidden = next(n for n in bob.ok("/lineage", name="out")["nodes"] if n["name"] == "shop.totals")
    assert hidden["id"] != masked[0]["id"]
    again = next(n for n in ann.ok("/impact", name="orders")["items"] if n["dataset"].get("masked"))
    assert again["dataset"] == {"id": masked[0]["id"], "masked": True}
    csv = ann.get("/impact", name="orders", format="csv").text.splitlines()
    assert csv[1] == "1,,,masked,"


def test_ids_of_what_is_masked_differ_between_callers(serving: Serving) -> None:
    api = serving(HIDING.replace("[ann]", '["role:reader"]'))
    fill(api.store.catalog)
    ids = {
        next(n["id"] for n in token(api, name).ok("/lineage", name="out")["nodes"] if n.get("masked"))
        for name in ("one", "two")
    }
    assert len(ids) == 2


def test_runs_that_touched_what_is_hidden_say_little(ann: Api) -> None:
    items = {i["id"]: i for i in ann.items("/runs")}
    for number in ("run-1", "run-2"):
        assert set(items[number]) == {"id", "kind", "status", "started", "ended", "inputs", "outputs", "masked"}
    assert items["run-3"]["name"] == "save shop.out"
    assert ann.ok("/runs/run-1")["masked"] is True
    assert [i["id"] for i in ann.items("/runs", application="app", limit=1)] == ["run-4", "run-3"]
    assert [i["run"]["id"] for i in ann.items("/search", q="save", type="run")] == ["run-4", "run-3"]
    events = ann.items("/events", limit=3)
    shown = [e for e in events if e["job"]["name"] == "masked"]
    assert len(events) == 8
    assert len(shown) == 4
    assert {"namespace": "masked", "name": items["run-1"]["outputs"][0]["id"]} in shown[1]["outputs"]


def test_a_run_about_which_nothing_is_known_is_masked(ann: Api, hiding: Api) -> None:
    from whence.model import Run

    hiding.store.catalog.add_run(Run("lonely", "query", "reads shop.totals", application="hidden"))
    assert ann.ok("/runs/lonely")["masked"] is True
    assert "name" not in ann.ok("/runs/lonely")
    assert token(hiding, "root", "admin").ok("/runs/lonely")["name"] == "reads shop.totals"


def test_etags_and_cursors_do_not_tell_of_what_is_hidden(ann: Api, hiding: Api) -> None:
    def heads() -> list[str]:
        return [ann.get(p).headers["etag"] for p in ("/datasets", "/search?q=o", "/dataset?name=orders", "/types")]

    before, page = heads(), ann.ok("/datasets", limit=1)
    write(hiding.store.catalog, 7, ["shop.totals"], "secret.salaries")
    write(hiding.store.catalog, 8, ["secret.salaries"], "secret.salaries2")
    assert heads() == before
    assert ann.ok("/datasets", limit=1) == page


def test_entities_need_sight_of_everything(ann: Api, hiding: Api) -> None:
    assert ann.get("/entities").status_code == 403
    assert token(hiding, "root", "admin").get("/entities").status_code == 200


def saved(api: Api, *sources: str) -> str:
    pictures = tuple(
        PictureSource(n, "ns", name, "table", 2, (("id", "int"),), ((1,), (2,))) for n, name in enumerate(sources)
    )
    step = PictureStep(0, "Filter", "ssn = 7", 0, 2)
    picture = Picture(True, ("a note about shop.totals",), steps=(step,), sources=pictures)
    return api.store.catalog.traces.save(picture, "why shop.totals", Question("backward", None, None, "ssn = 7"))


def test_rows_need_a_right_of_their_own(ann: Api, hiding: Api) -> None:
    number = saved(hiding, "shop.orders", "shop.report")
    root = token(hiding, "root", "admin")
    assert ann.ok(f"/traces/{number}/rows", source=0, limit=1)["items"] == [[1]]
    assert ann.items(f"/traces/{number}/rows", source=0, limit=1) == [[1], [2]]
    assert ann.get(f"/traces/{number}/rows", source=1).status_code == 403
    assert ann.get(f"/traces/{number}/rows", source=2).status_code == 404
    assert root.get(f"/traces/{number}/rows", source=0).status_code == 403, "admins too"
    editor = token(hiding, "ed", "editor")
    assert editor.post("/traces", {"question": "sample", "name": "orders"}).status_code == 403
    read = [e for e in root.items("/audit") if "/rows" in e["action"]]
    assert ("ann", 200) in {(e["who"], e["status"]) for e in read}
    assert ("root", 403) in {(e["who"], e["status"]) for e in read}


def test_traces_are_masked_like_runs(ann: Api, hiding: Api) -> None:
    number = saved(hiding, "shop.orders", "shop.totals")
    hidden = saved(hiding, "shop.totals")
    one = ann.ok(f"/traces/{number}")
    assert one["masked"] is True
    for word in ("shop.totals", "ssn", "a note"):
        assert word not in json.dumps(one)
    graph = ann.ok("/lineage", name="out")["nodes"]
    assert one["sources"][1]["dataset"] == {"id": next(n["id"] for n in graph if n.get("masked")), "masked": True}
    assert ann.get(f"/traces/{number}/rows", source=0).status_code == 403
    assert ann.get(f"/traces/{hidden}").status_code == 404
    assert [t["id"] for t in ann.items("/traces", limit=1)] == [number]


# --- writing


def test_events_that_name_what_the_writer_may_not_see(serving: Serving) -> None:
    api = serving(
        "policies: [{who: [ed], datasets: ['mine.*', {namespace: 'other', name: '*'}], effect: allow, rights: [see]}]"
    )
    editor, root = token(api, "ed", "editor"), token(api, "root", "admin")
    links = {"symlinks": {"identifiers": [{"namespace": "ns", "name": "secret"}]}}
    given = [{"namespace": "ns", "name": "secret", "field": "a"}]
    columns = {"columnLineage": {"fields": {"b": {"inputFields": given}}}}
    every = {"columnLineage": {"fields": {}, "dataset": given}}
    for bad in (
        event(1, ["secret"], ["mine.b"]), event(1, ["mine.a"], ["secret"]), event(1, ["mine.a"], ["mine.b"], **links),
        event(1, ["mine.a"], ["mine.b"], **columns), event(1, ["mine.a"], ["mine.b"], **every),
        [event(1, ["mine.a"], ["mine.b"]), event(2, ["secret"], [])],
    ):  # fmt: skip
        assert editor.post("/lineage", bad).status_code == 403
    assert root.ok("/datasets")["items"] == []
    assert root.ok("/runs")["items"] == []
    assert editor.post("/lineage", event(1, ["mine.a"], ["mine.b"])).status_code == 201
    assert [i["name"] for i in editor.ok("/datasets")["items"]] == ["mine.a", "mine.b"]


def test_a_symlink_does_not_bring_a_hidden_dataset_into_view(serving: Serving) -> None:
    api = serving("policies: [{who: [ed], datasets: ['mine.*', '/open/*'], effect: allow, rights: [see]}]")
    editor, root = token(api, "ed", "editor"), token(api, "root", "admin")
    alias = {"symlinks": {"identifiers": [{"namespace": "ns", "name": "/open/x"}]}}
    hidden = event(1, ["/secret/in"], ["/secret/x"], **alias)
    assert root.post("/lineage", hidden).status_code == 201
    assert editor.ok("/datasets")["items"] == []
    assert editor.post("/lineage", event(2, ["mine.a"], ["mine.t"], **alias)).status_code == 201
    assert {i["name"] for i in editor.ok("/datasets")["items"]} == {"mine.a", "mine.t"}
    assert "/secret/x" in {i["name"] for i in root.ok("/datasets")["items"]}
    assert "secret" not in editor.get("/lineage", name="mine.t").text


def test_the_audit(serving: Serving) -> None:
    api = serving(auth="token")
    reader, admin = token(api, "ann"), token(api, "root", "admin")
    api.get("/datasets", {"Authorization": "Bearer wrong-secret"})
    api.get("/whence_abcdefgh?token=wrong-secret")
    reader.get("/audit")
    admin.post("/lineage", event(1, ["a"], ["b"]))
    reader.get("/datasets")
    api.post("/session", {"token": reader.token})
    found = admin.items("/audit", limit=2)
    assert [(e["who"], e["action"], e["status"]) for e in found] == [
        ("ann", "POST /api/v1/session", 204), ("root", "POST /api/v1/lineage", 201), ("ann", "GET /api/v1/audit", 403),
        (None, "GET /api/v1/whence_abcdefgh", 401), (None, "GET /api/v1/datasets", 401),
    ]  # fmt: skip
    assert set(found[0]) == {"at", "who", "action", "status", "target"}
    assert "wrong-secret" not in json.dumps(found)
    assert str(reader.token) not in json.dumps(found)


# --- policies


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("x", "must be a list"), ([1], "must have who"), ([{"who": ["a"]}], "effect"),
        ([{"who": "a", "datasets": ["*"], "effect": "allow"}], "who"),
        ([{"who": ["role:x"], "datasets": ["*"], "effect": "allow"}], "no role"),
        ([{"who": ["a"], "datasets": ["*"], "effect": "maybe"}], "allow or deny"),
        ([{"who": ["a"], "datasets": [], "effect": "allow"}], "datasets"),
        ([{"who": ["a"], "datasets": [{"name": 1}], "effect": "allow"}], "glob"),
        ([{"who": ["a"], "datasets": ["*"], "effect": "allow", "rights": ["write"]}], "no right"),
        ([{"who": ["a"], "datasets": ["*"], "effect": "allow", "what": 1}], "none of who"),
    ],
)  # fmt: skip
def test_policies_that_cannot_be_meant(given: object, why: str) -> None:
    with pytest.raises(BadAccess, match=why):
        parse_policies(given)


def test_policies_deny_wins_and_case_matters() -> None:
    from whence.serve.rights.callers import Caller

    policies = parse_policies(
        [
            {"who": ["role:reader"], "datasets": ["Shop.*"], "effect": "allow", "rights": ["see", "rows"]},
            {"who": ["ann"], "datasets": [{"namespace": "s3://*"}], "effect": "deny", "rights": ["rows"]},
        ]
    )
    ann, bob, ed = Caller("ann", "reader"), Caller("bob", "reader"), Caller("ed", "editor")
    assert policies.sees(ann, "file", "Shop.a/b\nc")
    assert not policies.sees(ann, "file", "shop.a")
    assert policies.reads_rows(bob, "s3://x/y", "Shop.a")
    assert not policies.reads_rows(ann, "s3://x/y", "Shop.a")
    assert policies.sees(ann, "s3://x/y", "Shop.a")
    assert not policies.sees(ed, "file", "Shop.a")


# --- OIDC


class Issuer:
    """A small issuer on this machine."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = issuer.about() if "openid-configuration" in self.path else issuer.keys()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def about(self) -> dict[str, str]:
        return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}

    def keys(self) -> dict[str, list[dict[str, str]]]:
        held = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**held, "kid": "one", "use": "sig"}]}

    def token(self, key: object = None, algorithm: str = "RS256", kid: str = "one", **claims: object) -> str:
        now = int(time.time())
        body = {"iss": self.url, "aud": "whence", "sub": "eve", "exp": now + 60, "role": "reader", **claims}
        body = {name: value for name, value in body.items() if value is not None}
        return jwt.encode(body, key or self.key, algorithm, {"kid": kid})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.server.shutdown()


def test_oidc(serving: Serving, issuer: Issuer) -> None:
    api = serving(
        {
            "oidc": {"issuer": issuer.url, "audience": "whence", "role_claim": "role"},
            "policies": [{"who": ["eve"], "datasets": ["shop.*"], "effect": "allow", "rights": ["see"]}],
        }
    )
    fill(api.store.catalog)
    eve = api.named(issuer.token())
    assert {i["name"] for i in eve.ok("/datasets")["items"]} == {
        "shop.orders", "shop.out", "shop.report", "shop.totals",
    }  # fmt: skip
    assert eve.post("/lineage", event(1, ["shop.a"], ["shop.b"])).status_code == 403
    assert api.named(issuer.token(role="editor")).post(
        "/lineage", event(1, ["shop.a"], ["shop.b"])
    ).status_code == 201  # fmt: skip
    assert len(api.named(issuer.token(role=["x", "admin"])).ok("/datasets")["items"]) == 7
    other = rsa.generate_private_key(65537, 2048)
    for bad in (
        issuer.token(other), issuer.token(aud="other"), issuer.token(iss="http://127.0.0.1:1"),
        issuer.token(exp=int(time.time()) - 1), issuer.token(exp=None), issuer.token(sub=None),
        issuer.token(sub="role:admin"), issuer.token(sub="*"), issuer.token(kid="two"), "a.b.c",
        issuer.token(nbf=int(time.time()) + 60), issuer.token("x" * 64, "HS256"),
        jwt.encode({"sub": "eve", "iss": issuer.url, "aud": "whence"}, None, "none"),  # type: ignore[arg-type]
    ):  # fmt: skip
        assert api.named(bad).get("/datasets").status_code == 401
    assert api.named(issuer.token(role=None)).get("/datasets").status_code == 403
    said = api.post("/session", {"token": issuer.token()})
    assert said.status_code == 204
    cookie = {"Cookie": said.headers["set-cookie"].partition(";")[0]}
    api.client.cookies.clear()
    assert len(api.get("/datasets", cookie).json()["items"]) == 6


def test_an_issuer_elsewhere_must_be_https() -> None:
    from whence.serve.rights.access import parse_access

    settings = {"audience": "a", "role_claim": "r"}
    with pytest.raises(BadAccess, match="https"):
        parse_access({"oidc": {"issuer": "http://issuer.example", **settings}})
    assert parse_access({"oidc": {"issuer": "https://issuer.example", **settings}}).oidc is not None
