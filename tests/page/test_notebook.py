"""The same graph in a notebook: one document, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from catalogue import BIG, ODD

from whence import Session
from whence.debug.notebook import document, show_lineage
from whence.store import Store

expect = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed").expect


@pytest.fixture
def notebook(browser: Any, tmp_path: Path) -> Any:
    """Opens what a cell would show, with nothing to ask; gives the frame."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: request.url.startswith("http") and errors.append(request.url))

    def open(shown: Any) -> Any:
        cell = tmp_path / "cell.html"
        cell.write_text(f"<!doctype html><body>{shown._repr_html_()}</body>", encoding="utf-8")
        page.goto(cell.as_uri())
        return page.frame_locator("iframe")

    yield open
    context.close()
    assert errors == []


def test_the_lineage_of_a_dataset(notebook: Any, store: Path, tmp_path: Path) -> None:
    held = Store.at(store)
    shown = show_lineage(held.catalog, ("shop", "report"))
    whole = show_lineage(held.catalog, ("odd", ODD["html"]))
    held.close()
    frame = notebook(shown)
    graph = frame.get_by_role("region", name="Lineage graph")
    expect(graph).to_have_attribute("aria-busy", "false")
    expect(graph).to_have_attribute("data-nodes", "5")
    frame.get_by_role("switch", name="Columns").click()
    frame.get_by_role("button", name="amount of orders", exact=True).click()
    expect(frame.get_by_role("button", name="total of report", exact=True)).to_have_attribute("data-path", "true")
    assert "5 datasets" in repr(shown)
    assert shown.save(tmp_path / "graph.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    expect(notebook(whole).get_by_role("button", name="odd_ones", exact=True)).to_be_visible()


def test_nothing_in_the_data_ends_its_element() -> None:
    html = document("</title></script><script>alert(1)</script>", {"x": "</script><script>alert(2)<!--"})
    assert html is not None
    assert "alert(1)</script>" not in html
    assert "<script>alert(2)" not in html


def test_a_session_and_a_trace(notebook: Any, w: Session, tmp_path: Path) -> None:
    numbers = w.spark.createDataFrame([(1, BIG), (2, -5), (3, 7)], "id int, amount bigint")
    numbers.createOrReplaceTempView("numbers")
    total = w.spark.sql("SELECT sum(amount) AS total FROM numbers WHERE amount > 0")
    frame = notebook(w.backward(total).show())
    steps = frame.get_by_role("region", name="Graph of steps")
    expect(steps).to_have_attribute("aria-busy", "false")
    expect(frame.get_by_text("Exact: these rows and no others")).to_be_visible()
    rows = frame.get_by_role("table", name="numbers")
    expect(rows.get_by_role("row")).to_have_count(3)
    expect(rows.get_by_text(str(BIG), exact=True)).to_be_visible()
    path = str(tmp_path / "out")
    total.write.parquet(path)
    w.spark.read.parquet(path).write.parquet(path + "2")
    frame = notebook(w.show())
    expect(frame.get_by_role("button", name=path + "2", exact=True)).to_be_visible()
    one = notebook(w.show(path, direction="forward")).get_by_role("region", name="Lineage graph")
    expect(one).to_have_attribute("data-nodes", "2")
