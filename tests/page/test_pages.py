"""Every other page: lists, search, impact, runs, traces, diagnoses, signing in, and what is hidden."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest
from catalogue import BIG
from watching import ROOT, Server, Watched, start, stop

expect = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed").expect
AXE = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"


def api(base: str, path: str) -> Any:
    with urlopen(f"{base}/api/v1{path}") as answer:
        return json.load(answer)


def trace_id(base: str) -> str:
    return next(t["id"] for t in api(base, "/traces")["items"] if t["name"] == "The negative total")


def test_search_as_you_type_and_open_with_the_keyboard(watched: Watched) -> None:
    page = watched.open("/")
    page.keyboard.press("/")
    search = page.get_by_role("combobox", name="Search")
    expect(search).to_be_focused()
    page.keyboard.type("repo", delay=15)
    results = page.get_by_role("listbox", name="Results")
    expect(results.get_by_role("option", name="report").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(results.get_by_role("option").first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Lineage graph")).to_be_visible()
    at = urlsplit(page.url)
    assert at.path == "/lineage"
    assert parse_qs(at.query)["name"] == ["report"]


def test_the_keys_may_be_faster_than_the_server(watched: Watched) -> None:
    page = watched.open("/")
    page.get_by_role("combobox", name="Search").focus()
    page.keyboard.type("fifty_0007")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(watched.dataset("fifty_0007")).to_be_visible()
    page.get_by_role("combobox", name="Search").focus()
    page.keyboard.type("fifty_0008")
    expect(page.get_by_role("listbox", name="Results")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox", name="Results")).to_be_hidden()


def test_everything_that_was_found_has_a_page(watched: Watched) -> None:
    page = watched.open("/search?q=clean")
    expect(page.get_by_role("combobox", name="Search")).to_have_value("clean")
    expect(page.get_by_role("link", name="clean", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="write clean").first).to_be_visible()
    watched.open("/search?q=nosuchthing")
    expect(page.get_by_role("status")).to_contain_text("Nothing")


def test_lists(watched: Watched) -> None:
    page = watched.open("/")
    expect(page.get_by_role("link", name="big_0001")).to_be_visible()
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(101)
    page.get_by_role("button", name="Show more").click()
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(201)
    page.get_by_role("link", name="Traces", exact=True).click()
    expect(page.get_by_role("link", name="The negative total")).to_be_visible()
    page.get_by_role("link", name="Diagnoses", exact=True).click()
    expect(page.get_by_role("link", name="Nightly load")).to_be_visible()


def test_impact(watched: Watched) -> None:
    page = watched.open("/impact?namespace=shop&name=orders")
    table = page.get_by_role("table", name="Impact")
    expect(table.get_by_role("columnheader", name="Degree")).to_be_visible()
    rows = table.get_by_role("row").all_inner_texts()[1:]
    answer = api(watched.base, "/impact?namespace=shop&name=orders")["items"]
    assert [row.split()[:3] for row in rows] == [
        [str(one["degree"]), one["dataset"]["name"], one["dataset"]["kind"]] for one in answer
    ]
    with page.expect_download() as download:
        page.get_by_role("button", name="Export CSV").click()
    assert download.value.path().read_text().startswith("degree,namespace,name,kind,column")


def test_a_run(watched: Watched) -> None:
    failed = api(watched.base, "/runs?status=failed")["items"][0]
    page = watched.open(f"/runs/{failed['id']}")
    details = page.get_by_role("region", name="Details")
    expect(details.get_by_role("heading", name="write weekly")).to_be_visible()
    expect(details.get_by_text("Division by zero")).to_be_visible()
    expect(details.get_by_text("failed", exact=True)).to_be_visible()
    assert watched.laid_out().get_attribute("data-nodes") == "2"


def test_a_trace_as_a_picture(watched: Watched) -> None:
    page = watched.open(f"/traces/{trace_id(watched.base)}")
    expect(page.get_by_text("Exact: these rows and no others")).to_be_visible()
    steps = page.get_by_role("region", name="Steps", exact=True)
    expect(steps.get_by_role("button", name="Join Inner, (customer = customer)")).to_be_visible()
    steps.get_by_role("button", name="Filter (total < 0)").click()
    expect(steps.get_by_role("heading", name="Filter")).to_be_visible()
    rows = page.get_by_role("region", name="Rows")
    clean = rows.get_by_role("table", name="clean")
    expect(rows.get_by_role("table")).to_have_count(2)
    expect(clean.get_by_role("row")).to_have_count(21)
    expect(clean.get_by_text(str(BIG), exact=True)).to_be_visible()
    rows.get_by_role("button", name="More rows").click()
    expect(clean.get_by_role("row")).to_have_count(46)
    expect(rows.get_by_role("button", name="More rows")).to_have_count(0)
    # From a witness row on to its own sources: a question that waits for a session.
    clean.get_by_role("button", name="Trace row 1 of clean").click()
    expect(page.get_by_text("It waits for a Spark session")).to_be_visible()
    asked = api(watched.base, f"/traces/{page.url.rsplit('/', 1)[1]}")["question"]
    assert asked["name"] == "clean"
    assert asked["where"] == f"`id` = 0 AND `customer` = 'Ada' AND `amount` = {BIG}"


def test_rows_are_asked_for_from_the_graph(watched: Watched) -> None:
    page = watched.page
    watched.graph("/lineage?namespace=shop&name=report&selected=shop+report")
    details = page.get_by_role("region", name="Details")
    expect(details.get_by_role("link", name="The negative total")).to_be_visible()
    details.get_by_role("textbox").fill("total < 10")
    details.get_by_role("button", name="Trace rows").click()
    expect(page.get_by_text("backward of report where total < 10")).to_be_visible()


def test_a_diagnosis(watched: Watched) -> None:
    number = api(watched.base, "/diagnoses")["items"][0]["id"]
    page = watched.open(f"/diagnoses/{number}")
    causes = page.get_by_role("region", name="Causes")
    expect(causes.get_by_text("partitions > 2")).to_be_visible()
    expect(causes.get_by_text("format == csv")).to_be_visible()
    expect(causes.get_by_text("confirmed")).to_be_visible()
    expect(page.get_by_text("31 executions")).to_be_visible()
    runs = page.get_by_role("region", name="Runs").get_by_role("row")
    expect(runs).to_have_count(7)
    expect(runs.nth(1)).to_contain_text("failed8csv")


def test_what_is_not_there_is_said(watched: Watched) -> None:
    page = watched.open("/lineage?name=no_such_dataset")
    expect(page.get_by_role("alert")).to_be_visible()
    watched.open("/lineage?namespace=shop&name=report&depth=200")
    expect(page.get_by_role("alert")).to_contain_text("depth")
    # The browser itself notes such answers as errors.
    assert all("status of 4" in error for error in watched.errors)
    watched.errors.clear()


def test_an_empty_catalogue_says_how_to_fill_it(browser: Any, tmp_path: Path) -> None:
    server = start(tmp_path / "empty")
    context = browser.new_context()
    watched = Watched(context.new_page(), server.url)
    page = watched.open("/")
    expect(page.get_by_role("status")).to_contain_text("whence.attach")
    context.close()
    stop(server)
    assert watched.errors == []


ACCESS = """
policies:
  - {who: ['*'], datasets: ['*'], effect: allow, rights: [see]}
  - {who: ['role:reader'], datasets: ['secret', 'customers'], effect: deny, rights: [see, rows]}
"""


@pytest.fixture
def guarded(store: Path, tmp_path: Path) -> Iterator[tuple[Server, str]]:
    """A server that wants tokens, and one for somebody who may not see everything."""
    access = tmp_path / "access.yaml"
    access.write_text(ACCESS)
    command = [sys.executable, "-m", "whence.serve.cli", "token", "create", tmp_path.name, "--role", "reader"]
    made = subprocess.run([*command, "--store", str(store), "--json"], capture_output=True, text=True, check=True)
    server = start(store, "--access", str(access))
    yield server, json.loads(made.stdout)["token"]
    stop(server)


def test_signing_in_and_what_is_masked(browser: Any, guarded: tuple[Server, str]) -> None:
    server, token = guarded
    context = browser.new_context()
    watched = Watched(context.new_page(), server.url)
    page = watched.open("/lineage?namespace=shop&name=bonus")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert urlsplit(page.url).path == "/login"
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert all("status of 401" in error for error in watched.errors)
    watched.errors.clear()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    region = watched.laid_out()
    assert region.get_attribute("data-nodes") == "3"
    masked = page.get_by_role("button", name="masked", exact=True)
    expect(masked).to_be_visible()
    assert masked.get_attribute("data-kind") is None
    expect(watched.dataset("orders")).to_be_visible()
    assert "secret" not in page.content()
    masked.click()
    expect(page.get_by_role("region", name="Details")).to_contain_text("may not see")
    saved = next(t for t in api_as(server.url, token, "/traces")["items"] if t["status"] == "done")
    watched.open(f"/traces/{saved['id']}")
    expect(page.get_by_role("region", name="Rows")).to_contain_text("not yours to see")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    context.close()
    assert watched.errors == []


def api_as(base: str, token: str, path: str) -> Any:
    from urllib.request import Request

    with urlopen(Request(f"{base}/api/v1{path}", headers={"Authorization": f"Bearer {token}"})) as answer:
        return json.load(answer)


ADDRESSES = (
    "/", "/runs", "/search?q=report", "/lineage?namespace=shop&name=report&direction=both&selected=shop+clean",
    "/lineage?namespace=shop&name=report&level=column", "/lineage?name=odd_ones", "/impact?namespace=shop&name=orders",
    "/diff?namespace=shop&name=report&before=2026-03-01T08:30:00Z&after=2026-03-02T00:00:00Z", "/login",
    "/traces/{trace}", "/lineage?name=fifty_0049&depth=100",
)  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_for_those_who_cannot_see_well(browser: Any, server: Server, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed (npm install in ui/)")
    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
    watched = Watched(context.new_page(), server.url)
    for address in ADDRESSES:
        settled(watched, address)
        watched.page.evaluate(AXE.read_text() + "\n;0")
        found = watched.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [
            (address, one["id"], [node["html"][:150] for node in one["nodes"][:3]])
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []
    context.close()
    assert watched.errors == []


def settled(watched: Watched, address: str) -> None:
    page = watched.open(address.format(trace=trace_id(watched.base)) if "{" in address else address)
    page.wait_for_load_state("networkidle")
    if page.get_by_role("region", name="Lineage graph").count():
        watched.laid_out()


def test_a_narrow_screen_needs_no_scrolling_sideways(browser: Any, server: Server) -> None:
    context = browser.new_context(viewport={"width": 400, "height": 800})
    watched = Watched(context.new_page(), server.url)
    for address in ADDRESSES:
        settled(watched, address)
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= 400, address
    settled(watched, ADDRESSES[3])
    assert watched.page.get_by_role("region", name="Details").bounding_box()["width"] <= 400
    watched.dataset("customers").click()
    expect(watched.page.get_by_role("heading", name="customers", exact=True)).to_be_visible()
    context.close()
    assert watched.errors == []


def test_the_pages_own_rules_hold(server: Server) -> None:
    """No inline script in what is served, a strict policy for scripts, and a small bundle."""
    import gzip

    from whence.serve.api.page import BUILT

    with urlopen(server.url) as answer:
        html, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
    scripts = next(part for part in policy.split(";") if part.strip().startswith("script-src"))
    assert "unsafe" not in scripts
    assert [part for part in ("<style", "style=", "http://", "https://") if part in html] == []
    for part in html.split("<script")[1:]:
        assert "src=" in part.split(">")[0]
    served = [path for path in BUILT.rglob("*") if path.suffix in (".js", ".css")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in served) < 500_000
