"""Pictures of the web page over a real store, for the documentation: `make pictures`.

A small job is run and watched, a question about its rows is saved, and chromium looks at what `whence serve` shows.
Needs chromium and the built page (ui/); what is missing is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from pyspark.sql import SparkSession

import whence

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
TABLES = {
    "paid": "SELECT id, customer, amount FROM orders WHERE amount <> 0",
    "by_city": "SELECT id, city, amount FROM paid JOIN customers USING (customer)",
    "totals": "SELECT city, sum(amount) AS total FROM by_city GROUP BY city",
    "suspects": "SELECT city FROM totals WHERE total < 0",
}


def job(store: Path) -> str:
    """Runs the job under capture, and gives the id of a saved trace."""
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    orders = [(1, "Ada", 20), (2, "Bob", 35), (3, "Ada", -900), (4, "Eve", 15), (5, "Bob", 40)]
    with whence.attach(spark, store) as w:
        spark.createDataFrame(orders, "id int, customer string, amount int").write.saveAsTable("orders")
        cities = [("Ada", "Bonn"), ("Bob", "Kiel"), ("Eve", "Bonn")]
        spark.createDataFrame(cities, "customer string, city string").write.saveAsTable("customers")
        with w.capture():
            for name, query in TABLES.items():
                spark.sql(f"CREATE TABLE {name} USING parquet AS {query}")
        report = spark.sql(
            "SELECT city, sum(amount) AS total FROM orders JOIN customers USING (customer) GROUP BY city"
        )
        saved = w.backward(report.where("total < 0")).save("The negative total of Bonn")
    spark.stop()
    return saved


def pictures(address: str, trace: str, chromium: str) -> None:
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 620})
        graph = page.get_by_role("region", name="Lineage graph")

        page.goto(f"{address}/lineage?{urlencode({'name': 'default.totals', 'direction': 'both', 'level': 'column'})}")
        expect(graph).to_have_attribute("aria-busy", "false")
        page.screenshot(path=IMAGES / "page-table-columns.png")

        page.set_viewport_size({"width": 900, "height": 1020})
        page.goto(f"{address}/traces/{trace}")
        expect(page.get_by_role("region", name="Rows").get_by_role("table")).to_have_count(2)
        page.screenshot(path=IMAGES / "page-trace.png")
        browser.close()


def main() -> None:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("There is no chromium to look at the page with (apt install chromium).")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        store = Path(folder) / "store"
        trace = job(store)
        command = [sys.executable, "-m", "whence.serve.cli", "serve", "--store", str(store), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1].rstrip("/")
            try:
                pictures(address, trace, chromium)
            finally:
                server.terminate()
        os.chdir(IMAGES)


if __name__ == "__main__":
    main()
