"""`whence serve` as users start and stop it, and the commands beside it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from served import Api, Serving, fill, hour, whence_serve
from typer.testing import CliRunner

from whence.serve.cli import app
from whence.store import Store

WHENCE = [sys.executable, "-m", "whence.serve.cli"]


def said(*words: str, code: int = 0, given: str | None = None) -> str:
    done = CliRunner().invoke(app, list(words), prog_name="whence", input=given, catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        assert code == 1, done.exception
        return str(done.exception)
    assert done.exit_code == code, done.output
    return done.output


def asked(url: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_start_ask_and_stop(tmp_path: Path) -> None:
    with whence_serve("--store", str(tmp_path / "new")) as server:
        assert server.line.rstrip().endswith(server.url)
        assert asked(f"{server.url}/health")[0] == 200
        assert json.loads(asked(f"{server.url}/api/v1/datasets")[1]) == {"items": [], "next": None}
        status, page = asked(server.url)
        assert (status, b"whence" in page) == (200, True)
        assert asked(f"{server.url}/api/v1/datasets", Host="evil.example")[0] == 421
        loaded = Path(f"/proc/{server.process.pid}/maps").read_text()
        assert "libjvm" not in loaded
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    assert (tmp_path / "new" / "catalog.db").exists()


def test_what_cannot_be_served(tmp_path: Path) -> None:
    def fails(*words: str) -> tuple[int, str]:
        done = subprocess.run([*WHENCE, "serve", "--port", "0", *words], capture_output=True, text=True, check=False)
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    (tmp_path / "access.yml").write_text("policies: 7")
    (tmp_path / "file").write_text("x")
    code, why = fails("--host", "0.0.0.0", "--store", str(tmp_path / "s"))
    assert code == 2
    assert "--auth token" in why
    assert not (tmp_path / "s").exists()
    assert fails("--access", str(tmp_path / "access.yml"))[0] == 2
    assert fails("--access", str(tmp_path / "none.yml"))[0] == 2
    assert fails("--store", str(tmp_path / "file"))[0] == 1
    assert fails("--store", f"postgresql://nobody@127.0.0.1:1/none?tables={tmp_path}")[0] == 1
    assert fails("--auth", "maybe")[0] == 2


def test_a_page_says_what_may_run_in_it(api: Api) -> None:
    for path in ("/", "/login", "/lineage?name=x", "/runs/a/b", "/traces/x"):
        found = api.ask("GET", path, raw=True)
        assert found.status_code == 200
        policy = found.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        scripts = next(part for part in policy.split(";") if "script-src" in part)
        assert "unsafe" not in scripts
        assert found.headers["x-content-type-options"] == "nosniff"
    assert api.ask("GET", "/docs", raw=True).status_code == 404


def test_health_when_the_store_is_away(serving: Serving, tmp_path: Path) -> None:
    api = serving()
    assert api.get("/health").status_code == 200
    (tmp_path / "store" / "catalog.db").rename(tmp_path / "gone")
    for path in ("/health", "/datasets", "/lineage?name=x"):
        found = api.get(path)
        assert found.status_code == 503
        assert str(tmp_path) not in found.text


@pytest.fixture
def store(api: Api) -> str:
    return str(api.store.location.directory)


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["datasets", "--kind", "table"], "/datasets?limit=1000&kind=table"),
        (["runs", "--status", "failed"], "/runs?status=failed"),
        (["lineage", "out", "--direction", "both", "--depth", "2"], "/lineage?name=out&direction=both&depth=2"),
        (["lineage", "out", "--level", "column", "--no-indirect"], "/lineage?name=out&level=column&indirect=false"),
        (["lineage", "out", "--as-of", "2026-03-01T13:30:00Z"], "/lineage?name=out&as_of=2026-03-01T13:30:00Z"),
        (["impact", "orders", "--column", "id"], "/impact?name=orders&column=id"),
        (["search", "shop o"], "/search?q=shop+o"),
        (["search", "id", "--type", "column"], "/search?q=id&type=column"),
    ],
)  # fmt: skip
def test_json_is_what_the_api_answers(api: Api, store: str, words: list[str], path: str) -> None:
    assert json.loads(said(*words, "--json", "--store", store)) == api.get(path).json()


def test_tables_for_people(store: str) -> None:
    assert "shop.report" in said("datasets", "--store", store)
    assert "failed" in said("runs", "--name", "out", "--store", store)
    assert "shop.orders" in said("lineage", "out", "--store", store)
    assert "IDENTITY" in said("lineage", "out", "--column", "id", "--store", store)
    assert "shop.out" in said("impact", "orders", "--store", store)
    assert "shop.orders" in said("search", "ORDERS", "--store", store)
    assert said("impact", "orders", "--format", "csv", "--store", store).startswith("degree,namespace,name,kind,column")


def test_what_goes_wrong_is_one_sentence(store: str) -> None:
    assert said("lineage", "nothing", "--store", store, code=1) == "There is no dataset of this name."
    said("lineage", code=2)
    said("lineage", "out", "--depth", "0", code=2)
    said("lineage", "out", "--as-of", "yesterday", "--store", store, code=2)
    said("token", "create", "x", "--role", "god", code=2)
    said("token", "create", "x", "--role", "reader", "--expires", "soon", "--store", store, code=2)
    assert "no token" in said("token", "revoke", "x", "--store", store, code=1)
    assert "cannot be read" in said("import", "/nowhere", "--store", store, code=1)
    assert "not JSON" in said("import", "-", "--store", store, given="{", code=1)
    assert "no run event" in said("import", "-", "--store", store, given="{}", code=1)


def test_export_and_import(store: str, tmp_path: Path) -> None:
    text = said("export", "--store", store)
    assert len(text.splitlines()) == 8
    assert len(said("export", "--since", hour(4).isoformat(), "--store", store).splitlines()) == 2
    (tmp_path / "events").write_text(text)
    other = str(tmp_path / "other")
    assert said("import", str(tmp_path / "events"), "--store", other) == "8 events were imported.\n"
    assert said("import", "-", "--store", other, given=text) == "8 events were imported.\n"
    assert "shop.orders" in said("lineage", "out", "--store", other)
    assert len(json.loads(said("runs", "--json", "--store", other))["items"]) == 4


def test_tokens(store: str) -> None:
    made = json.loads(
        said("token", "create", "ann", "--role", "editor", "--expires", "30d", "--json", "--store", store)
    )
    assert set(made) == {"name", "role", "expires", "token"}
    held = said("token", "list", "--store", store)
    assert "ann" in held
    assert made["token"] not in held
    assert said("token", "create", "bob", "--role", "reader", "--store", store).startswith("whence_")
    said("token", "revoke", "ann", "--store", store)
    found = json.loads(said("token", "list", "--json", "--store", store))["items"]
    assert [(t["name"], t["revoked"] is None) for t in found] == [("ann", False), ("bob", True)]
    opened = Store.at(store)
    actions = [(e.action, e.target) for e in opened.catalog.audit.list(10)]
    opened.close()
    assert actions == [("token revoke", "ann"), ("token create", "bob"), ("token create", "ann")]


def test_looking_after_a_store(store: str, tmp_path: Path) -> None:
    found = json.loads(said("store", "info", "--json", "--store", store))
    assert (found["datasets"], found["runs"]) == (5, 4)
    assert "datasets         5" in said("store", "info", "--store", store)
    assert "vacuumed" in said("store", "vacuum", "--store", store)
    assert "has version" in said("store", "migrate", "--store", str(tmp_path / "new"))


def test_completion_can_be_installed() -> None:
    shown = said("--help")
    assert "--install-completion" in shown


def test_scripts_that_are_not_there() -> None:
    assert "no script" in said("run", "--master", "local[1]", code=2)
    assert "is not a file" in said("run", "/nowhere.py", code=2)
    assert "neither a file nor a command" in said("run", "nowhere", code=2)
    assert "not a Python program" in said("run", "make", "test", code=2)


def test_a_command_is_run_in_the_python_of_whence_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer import BadParameter

    from whence.serve.commands.run import found

    monkeypatch.setenv("PATH", str(tmp_path))
    command = tmp_path / "build-all"
    command.write_text(f"#!{sys.executable}\nprint('built')\n")
    command.chmod(0o755)
    assert found("build-all") == str(command)
    # What pip writes where the interpreter's path is too long for a first line.
    command.write_text(f"#!/bin/sh\n'''exec' {sys.executable} \"$0\" \"$@\"\n' '''\nprint('built')\n")
    assert found("build-all") == str(command)
    command.write_text("#!/opt/other/bin/python3\nprint('built')\n")
    with pytest.raises(BadParameter, match="another Python than whence"):
        found("build-all")


def test_the_small_catalogue_is_what_the_tests_think(api: Api) -> None:
    fill(api.store.catalog)  # recorded twice is recorded once
    assert len(api.ok("/runs")["items"]) == 4
