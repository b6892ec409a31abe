"""Pictures of real output, for the documentation: `make pictures` runs small jobs and writes docs/images/*.svg.

The words are those that are printed; the colours are added, for reading."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

import whence

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH = 100
# Readable on a light and on a dark page.
THEME = TerminalTheme(
    (24, 32, 38),
    (222, 226, 230),
    [(90, 98, 104), (255, 123, 114), (126, 231, 135), (242, 204, 96), (121, 192, 255), (210, 168, 255), (118, 227, 234),
     (222, 226, 230)],
)  # fmt: skip
# rich's own, without fonts from elsewhere, without the buttons of a window, and no wider than its text.
SVG = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
 font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
<rect fill="#182026" x="1" y="1" width="{width}" height="{height}" rx="8"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""
COLOURED = [
    (r"^>>> .*$|^\.\.\. .*$", "bold cyan"),
    (r"^(exact|proven|confirmed).*$", "bold green"),
    (r"\(\d+ rows?\)", "yellow"),
    (r"^ *\w*(Error|Exception): .*$", "bold red"),
    (r"-\d{3}\b", "bold red"),
    (r"^\S+: \d+ witness(es)?$", "bold"),
]


def picture(name: str, title: str, text: str) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    shown = Text("\n".join(line.rstrip() for line in text.strip("\n").splitlines()))
    for pattern, style in COLOURED:
        shown.highlight_regex(re.compile(pattern, re.MULTILINE), style)
    console.print(shown)
    svg = console.export_svg(title=title, theme=THEME, code_format=SVG, unique_id=name, font_aspect_ratio=0.6)
    (IMAGES / f"{name}.svg").write_text(svg, encoding="utf-8")
    print(f"docs/images/{name}.svg  {len(svg) // 1000} kB")


def said(call: Callable[[], object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        call()
    return printed.getvalue()


def shop(spark: SparkSession) -> None:
    rows = [(1, "Ada", 20), (2, "Bob", 35), (3, "Ada", -900), (4, "Eve", 15), (5, "Bob", 40)]
    spark.createDataFrame(rows, "id int, customer string, amount int").createOrReplaceTempView("orders")
    cities = [("Ada", "Bonn"), ("Bob", "Kiel"), ("Eve", "Bonn")]
    spark.createDataFrame(cities, "customer string, city string").createOrReplaceTempView("cities")


def rows(spark: SparkSession, w: whence.Session) -> None:
    shop(spark)
    report = spark.sql("SELECT city, sum(amount) AS total FROM orders JOIN cities USING (customer) GROUP BY city")
    t = w.backward(report.where("total < 0"))
    text = f'>>> t = w.backward(report.where("total < 0"))\n>>> print(t)\n{t}\n>>> print(t.verify())\n{t.verify()}'
    picture("rows", "Which rows made this number?", text)


def without(spark: SparkSession, w: whence.Session) -> None:
    shop(spark)
    report = spark.sql("SELECT city, sum(amount) AS total FROM orders JOIN cities USING (customer) GROUP BY city")
    bad = w.backward(spark.table("orders").where("amount < 0"))
    before = said(lambda: report.orderBy("city").show())
    after = said(lambda: bad.exclude(report).orderBy("city").show())
    text = f'>>> report.show()\n{before}>>> bad = w.backward(orders.where("amount < 0"))\n'
    picture("without", "What would it be without?", f"{text}>>> bad.exclude(report).show()\n{after}")


def parse(amount: str) -> float:
    return float(amount)


def crash(spark: SparkSession, w: whence.Session) -> None:
    folder = Path("orders")
    rows = [(n, "six" if n == 613 else f"{n}.5") for n in range(1000)]
    spark.createDataFrame(rows, "id long, amount string").coalesce(1).write.parquet(str(folder))
    report = spark.read.parquet(str(folder)).select("id", udf(parse, "double")("amount").alias("value"))
    try:
        with w.guard():
            report.collect()
    except Exception as error:
        note = "\n".join(getattr(error, "__notes__", ()))
    # Where this program stands is of no interest to a reader.
    here = re.compile(rf"(file:)?{re.escape(os.getcwd())}/")
    note = re.sub(r"part-00000-[\w-]+-c000", "part-00000", here.sub("", note))
    note = re.sub(r"culprits/\w+", "culprits/58b6", note)
    picture("crash", "Which row crashed my job?", f">>> with w.guard():\n...     report.collect()\n...\n{note}")


def setting(spark: SparkSession, w: whence.Session) -> None:
    def job(config: dict[str, object]) -> int:
        if config["format"] == "csv" and config["compression"] == "zstd":
            raise OSError("codec not found")
        return 100 if int(str(config["partitions"])) <= 64 else 98

    space = {
        "format": ["parquet", "orc", "csv"],
        "compression": ["none", "gzip", "zstd"],
        "partitions": [8, 16, 32, 64, 128, 256],
        "adaptive": [True, False],
        "timezone": ["UTC", "Europe/Berlin"],
    }
    d = whence.diagnose(job, space, evaluate=lambda rows: rows == 100, seed=1)
    picture(
        "setting",
        "Which setting broke it?",
        f">>> d = whence.diagnose(job, space, seed=1)\n>>> print(d.report())\n{d.report()}",
    )


def main(names: list[str]) -> None:
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        for make in (rows, without, crash, setting):
            if not names or make.__name__ in names:
                with whence.attach(spark) as w:
                    make(spark, w)
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
