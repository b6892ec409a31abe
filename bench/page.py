"""Measures the page with 2,000 datasets: `make bench-page`.

Seconds from the request until the graph is laid out (aria-busy false), and the times of frames while it is moved and
zoomed, near and far, beside those of a page that does nothing: what the machine itself can do. Needs chromium.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "page")]

BUSY_GOAL = 2.0  # seconds
FRAME_GOAL = 50.0  # milliseconds
COUNTING = """() => {
  window.times = [];
  let last = performance.now();
  const step = () => {
    const now = performance.now();
    window.times.push(now - last);
    last = now;
    window.counting = requestAnimationFrame(step);
  };
  window.counting = requestAnimationFrame(step);
}"""
COUNTED = "() => { cancelAnimationFrame(window.counting); return window.times; }"
GRAPH = "[aria-label='Lineage graph'][aria-busy=false]"


def p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]


def frames(page: Any, movement: Callable[[Any], None]) -> list[float]:
    page.evaluate(COUNTING)
    movement(page)
    found: list[float] = page.evaluate(COUNTED)
    return found


def pan(page: Any) -> None:
    page.mouse.move(500, 300)
    page.mouse.down()
    for place in range(80):
        page.mouse.move(500 + place * 6, 300 + place * 3)
    page.mouse.up()


def zoom(page: Any) -> None:
    page.mouse.move(600, 400)
    for way in (120, -120):
        for _ in range(40):
            page.mouse.wheel(0, way)


def measure(url: str, rounds: int) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    from conftest import chromium  # type: ignore[import-not-found]

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1360, "height": 840}).new_page()
        page.goto(f"{url}/login")
        found = {"idle pan": p95(frames(page, pan)), "idle zoom": p95(frames(page, zoom))}
        taken = []
        for _ in range(rounds):
            start = time.perf_counter()
            page.goto(f"{url}/lineage?name=big_1999&depth=100", wait_until="commit")
            page.wait_for_selector(GRAPH)
            taken.append(time.perf_counter() - start)
        found["laid out"] = statistics.median(taken)
        found["pan near"] = p95(frames(page, pan))
        found["zoom"] = p95(frames(page, zoom))
        page.get_by_role("button", name="Fit").click()
        found["pan far"] = p95(frames(page, pan))
        browser.close()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often the page is opened (5)")
    given = parser.parse_args()
    import catalogue  # type: ignore[import-not-found]
    from watching import start, stop  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as folder:
        print("making a catalogue with 2,000 datasets", flush=True)
        catalogue.make(Path(folder) / "store")
        server = start(Path(folder) / "store")
        try:
            found = measure(server.url, given.rounds)
        finally:
            stop(server)
    print(f"laid out after {found['laid out']:.2f} s (median; goal {BUSY_GOAL:.0f} s)")
    for name, beside in (("pan near", "idle pan"), ("zoom", "idle zoom"), ("pan far", "idle pan")):
        idle = f"a page that does nothing: {found[beside]:.1f} ms"
        print(f"{name:9} p95 {found[name]:6.1f} ms (goal {FRAME_GOAL:.0f}); {idle}")


if __name__ == "__main__":
    main()
