"""The graph: what it shows, by which roles and names, and how it is walked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit
from urllib.request import urlopen

import pytest
from catalogue import ODD

expect = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed").expect

REPORT = "/lineage?namespace=shop&name=report"


def asked(watched: Any) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(watched.page.url).query).items()}


def api(watched: Any, path: str) -> Any:
    with urlopen(f"{watched.base}/api/v1{path}") as answer:
        return json.load(answer)


@pytest.mark.parametrize(
    "address",
    [
        REPORT,
        f"{REPORT}&direction=both",
        f"{REPORT}&direction=forward",
        f"{REPORT}&depth=1",
        f"{REPORT}&as_of=2026-03-01T08:30:00Z",
        f"{REPORT}&level=column&indirect=false",
        f"{REPORT}&level=column&indirect=true",
        f"{REPORT}&column=total&indirect=false",
        "/lineage?name=fifty_0049&depth=100&direction=backward",
    ],
)
def test_an_address_shows_what_the_api_answers_to_it(watched: Any, address: str) -> None:
    answer = api(watched, address)
    graph = watched.graph(address)
    assert graph.get_attribute("data-nodes") == str(len(answer["nodes"]))
    assert graph.get_attribute("data-edges") == str(len(answer["edges"]))
    for node in answer["nodes"]:
        expect(watched.dataset(node["name"])).to_have_attribute("data-kind", node["kind"])


def test_fifty_datasets_are_all_in_view_at_first(watched: Any) -> None:
    for size in ((1280, 800), (400, 800)):
        watched.page.set_viewport_size({"width": size[0], "height": size[1]})
        graph = watched.graph("/lineage?name=fifty_0049&depth=100")
        frame = graph.locator(".stage").bounding_box()
        names = [f"fifty_{place:04}" for place in range(50)]
        for name in names:
            box = watched.dataset(name).bounding_box()
            assert frame["x"] <= box["x"] <= frame["x"] + frame["width"] - box["width"] + 1, name
            assert frame["y"] <= box["y"] <= frame["y"] + frame["height"] - box["height"] + 1, name


def test_marks_of_failed_and_dropped_datasets(watched: Any) -> None:
    watched.graph(f"{REPORT}&direction=both&as_of=2026-03-01T08:30:00Z")
    expect(watched.dataset("legacy")).to_have_attribute("data-dropped", "true")
    assert watched.dataset("clean").get_attribute("data-dropped") is None
    watched.graph("/lineage?name=weekly")
    expect(watched.dataset("weekly")).to_have_attribute("data-failed", "true")


def test_selection_is_in_the_address_and_back_undoes_it(watched: Any) -> None:
    page = watched.page
    watched.graph(REPORT)
    clean = watched.dataset("clean")
    expect(clean).to_have_attribute("aria-pressed", "false")
    clean.click()
    expect(clean).to_have_attribute("aria-pressed", "true")
    details = page.get_by_role("region", name="Details")
    expect(details.get_by_role("heading", name="clean", exact=True)).to_be_visible()
    for text in ("table", "amount", "overwrite", "write clean"):
        expect(details.get_by_text(text).first).to_be_visible()
    expect(details.get_by_role("link", name="Impact")).to_be_visible()
    shared = page.url
    page.go_back()
    expect(details).to_have_count(0)
    expect(clean).to_have_attribute("aria-pressed", "false")
    page.goto(shared)
    expect(watched.dataset("clean")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    watched.dataset("clean").focus()
    page.keyboard.press("Escape")
    expect(details).to_have_count(0)


def test_direction_and_depth_are_in_the_address(watched: Any) -> None:
    page = watched.page
    watched.graph(f"{REPORT}&depth=1")
    page.get_by_role("combobox", name="Direction").select_option("both")
    expect(watched.dataset("forecast")).to_be_visible()
    assert asked(watched)["direction"] == "both"
    page.get_by_role("spinbutton", name="Depth").fill("2")
    expect(watched.dataset("orders")).to_be_visible()
    assert asked(watched)["depth"] == "2"
    page.go_back()
    expect(watched.dataset("orders")).to_have_count(0)
    page.go_back()
    expect(watched.dataset("forecast")).to_have_count(0)
    expect(page.get_by_role("combobox", name="Direction")).to_have_value("backward")


def test_more_is_shown_one_step_at_a_time(watched: Any) -> None:
    page = watched.page
    graph = watched.graph("/lineage?namespace=shop&name=chain_4&depth=1")
    assert graph.get_attribute("data-nodes") == "2"
    page.get_by_role("button", name="Inputs of chain_3", exact=True).click()
    expect(watched.dataset("chain_2")).to_be_visible()
    page.get_by_role("button", name="Inputs of chain_2", exact=True).click()
    expect(watched.dataset("chain_1")).to_be_visible()
    page.get_by_role("button", name="Outputs of chain_4", exact=True).click()
    expect(watched.dataset("chain_5")).to_be_visible()
    expect(graph).to_have_attribute("data-nodes", "5")
    assert page.get_by_role("button", name="Inputs of chain_4", exact=True).count() == 0, "all of them are shown"
    page.goto(page.url)
    expect(watched.laid_out()).to_have_attribute("data-nodes", "5")
    page.go_back()
    expect(watched.dataset("chain_5")).to_have_count(0)
    expect(watched.dataset("chain_1")).to_be_visible()


def test_columns_and_the_path_of_one(watched: Any) -> None:
    page = watched.page
    graph = watched.graph(REPORT)
    switch = page.get_by_role("switch", name="Columns")
    expect(switch).not_to_be_checked()
    switch.click()
    expect(switch).to_be_checked()
    total = page.get_by_role("button", name="total of report", exact=True)
    expect(total).to_be_visible()
    indirect = page.get_by_role("switch", name="Indirect")
    expect(indirect).not_to_be_checked()
    links = api(watched, f"{REPORT}&level=column")["edges"]
    direct = api(watched, f"{REPORT}&level=column&indirect=false")["edges"]
    assert len(direct) < len(links)
    expect(graph).to_have_attribute("data-edges", str(len(direct)))
    indirect.click()
    expect(graph).to_have_attribute("data-edges", str(len(links)))
    indirect.click()
    total.click()
    expect(total).to_have_attribute("data-path", "true")
    assert asked(watched)["column"] == "total"
    on_path = page.locator("[data-path]")
    expect(on_path).to_have_count(3)
    names = {on_path.nth(place).get_attribute("aria-label") for place in range(3)}
    assert names == {"total of report", "amount of clean", "amount of orders"}
    page.go_back()
    expect(page.locator("[data-path]")).to_have_count(0)


def test_the_path_of_a_column_that_is_not_the_roots(watched: Any) -> None:
    page = watched.page
    watched.graph(f"{REPORT}&level=column")
    page.get_by_role("button", name="amount of orders", exact=True).click()
    expect(page.get_by_role("button", name="total of report", exact=True)).to_have_attribute("data-path", "true")
    assert asked(watched)["column"] == "amount"
    assert page.get_by_role("button", name="city of report", exact=True).get_attribute("data-path") is None


def test_columns_of_a_tall_graph_are_there_however_small(watched: Any) -> None:
    page = watched.page
    watched.graph("/lineage?name=wide_0&level=column&indirect=false")
    expect(page.get_by_role("button", name="c0 of wide_5", exact=True)).to_be_visible()
    page.get_by_role("button", name="c27 of wide_0", exact=True).click()
    expect(page.get_by_role("button", name="c27 of wide_3", exact=True)).to_have_attribute("data-path", "true")


def test_the_time_slider_stops_where_the_graph_changed(watched: Any) -> None:
    page = watched.page
    watched.graph(REPORT)
    slider = page.get_by_role("slider", name="As of")
    expect(slider).to_have_attribute("aria-valuetext", "now")
    slider.focus()
    times = []
    for _ in range(2):
        before = page.url
        slider.press("ArrowLeft")
        page.wait_for_function("before => location.href !== before", arg=before)
        times.append(asked(watched)["as_of"])
        expect(slider).to_have_attribute("aria-valuetext", times[-1])
        watched.laid_out()
    # At 9:00 clean was made anew, but what report was made of changed only when it was written again.
    assert [time[11:16] for time in times] == ["09:01", "08:04"]
    expect(watched.dataset("legacy")).to_be_visible()
    slider.press("ArrowLeft")
    assert asked(watched)["as_of"] == times[1], "there is nothing before"
    slider.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "now")
    assert "as_of" not in asked(watched)
    expect(watched.dataset("orders")).to_be_visible()
    page.go_back()
    page.go_back()
    expect(slider).to_have_attribute("aria-valuetext", times[0])


def test_compare_shows_what_was_added_and_removed(watched: Any) -> None:
    page = watched.page
    address = "/diff?namespace=shop&name=report&before=2026-03-01T08:30:00Z&after=2026-03-02T00:00:00Z"
    answer = api(watched, address)
    graph = watched.graph(address)
    for what in ("added", "removed", "changed"):
        assert graph.get_attribute(f"data-{what}") == str(len(answer[what]))
    expect(watched.dataset("orders")).to_have_attribute("data-change", "added")
    expect(watched.dataset("legacy")).to_have_attribute("data-change", "removed")
    expect(watched.dataset("clean")).to_have_attribute("data-change", "changed")
    expect(page.get_by_role("switch", name="Compare")).to_be_checked()
    slider = page.get_by_role("slider", name="Before")
    slider.focus()
    slider.press("End")
    expect(page.get_by_text("Nothing changed between these two times.")).to_be_visible()
    page.go_back()
    page.get_by_role("switch", name="Compare").click()
    expect(page.get_by_role("slider", name="Before")).to_have_count(0)
    assert urlsplit(page.url).path == "/lineage"
    watched.laid_out()
    page.get_by_role("switch", name="Compare").click()
    expect(page.get_by_role("slider", name="Before")).to_be_visible()
    expect(watched.laid_out()).to_have_attribute("data-added", "1")


def test_names_are_text_and_never_markup(watched: Any) -> None:
    page = watched.page
    watched.graph("/lineage?name=odd_ones")
    faces = page.locator(".face[data-kind=path]")
    expect(faces).to_have_count(len(ODD))
    assert {faces.nth(place).get_attribute("aria-label") for place in range(len(ODD))} == set(ODD.values())
    watched.dataset(ODD["html"]).click()
    expect(page.get_by_role("heading", name=ODD["html"])).to_be_visible()
    assert page.title() != "taken over"
    assert page.locator("img").count() == 0
    for name in ODD.values():
        watched.graph(f"/lineage?namespace=odd&direction=forward&name={quote(name, safe='')}")
        expect(watched.dataset("odd_ones")).to_be_visible()


def test_the_keyboard_walks_the_graph(watched: Any) -> None:
    page = watched.page
    watched.graph(f"{REPORT}&direction=both")
    page.get_by_role("switch", name="Compare").focus()
    page.keyboard.press("Tab")
    expect(watched.dataset("report")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(watched.dataset("forecast")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    first = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert first in ("clean", "customers")
    other = {"clean": "customers", "customers": "clean"}[first]
    focused = page.evaluate("document.activeElement.getBoundingClientRect().top")
    there = watched.dataset(other).bounding_box()["y"]
    page.keyboard.press("ArrowDown" if there > focused else "ArrowUp")
    expect(watched.dataset(other)).to_be_focused()
    page.keyboard.press("Enter")
    expect(watched.dataset(other)).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Search")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox", name="Results")).to_be_hidden()


def test_the_whole_graph_is_taken_away(watched: Any, tmp_path: Path) -> None:
    page = watched.page
    watched.graph("/lineage?name=fifty_0049&depth=100")
    answer = api(watched, "/lineage?name=fifty_0049&depth=100")
    saved = {}
    for ending in ("PNG", "SVG", "CSV"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Export {ending}").click()
        saved[ending] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[ending])
        assert saved[ending].suffix == f".{ending.lower()}"
    picture = saved["PNG"].read_bytes()
    width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
    assert picture.startswith(b"\x89PNG")
    assert (width > 3000, height > 300) == (True, True)
    drawing = saved["SVG"].read_text()
    assert drawing.count('class="node"') == 50
    assert drawing.count('class="edge"') == len(answer["edges"])
    rows = saved["CSV"].read_text().splitlines()
    assert sum(row.startswith("dataset,") for row in rows) == 50
    assert sum(row.startswith("edge,") for row in rows) == len(answer["edges"])


def test_two_thousand_datasets(watched: Any) -> None:
    page = watched.page
    graph = watched.graph("/lineage?name=big_1999&depth=100&limit=2000")
    assert graph.get_attribute("data-nodes") == "2000"
    assert page.locator("[data-box]").count() < 400, "only what is in view"
    expect(watched.dataset("big_1999")).to_be_visible()
    expect(page.get_by_role("img", name="Mini map")).to_be_visible()
    # Far out the map and the canvas show them all, and only some are buttons.
    page.get_by_role("button", name="Fit").click()
    page.wait_for_function("document.querySelectorAll('.box.plain').length > 100")
    assert page.locator("[data-box]").count() < 400
    watched.graph("/lineage?name=big_1999&depth=100&limit=100")
    expect(page.get_by_text("Only the nearest 100 datasets are shown")).to_be_visible()
