"""Tells the story. What it finds is also returned, so that a test can hold it against the data."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from textwrap import indent
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

import whence
from whence.serve.demo import data, job

STRANGE = 10  # times the median user


@dataclass(frozen=True)
class Found:
    """Bytes by user and by city, before and after; `lines` are (time, uid, bytes)."""

    users_before: dict[int, int]
    users_after: dict[int, int]
    strange: frozenset[int]
    lines: frozenset[tuple[str, int, int]]
    agents: frozenset[str]
    cities_before: dict[str, int]
    cities_after: dict[str, int]
    cities_touched: frozenset[str]
    proved: bool


def tell(spark: SparkSession, folder: Path, console: Console | None = None) -> Found:
    out = Teller(console or _console())
    start = time.perf_counter()

    out.step("The data", "A phone company keeps one line for each request: who, through which cell, with which agent.")
    logs_path, cells_path = data.write(folder)
    logs, cells = spark.read.parquet(str(logs_path)), spark.read.parquet(str(cells_path))
    out.rows(logs.limit(3), f"logs: the first 3 of {logs.count():,} lines")

    out.step(
        "The job",
        "It adds up the traffic of each user. Users who share their phone with a computer (tethering) would spoil the\n"
        "figures, so a regular expression drops their agents.",
    )
    out.code(inspect.getsource(job.phone_traffic) + "\n" + inspect.getsource(job.by_user))
    report = job.by_user(logs)
    before = _totals(report, "uid")
    middle = median(before.values())
    out.totals("by_user: the largest totals", "user", before, before, 5)
    out.say(f"The median user moved {_size(middle)}; some moved far more. What is wrong? The report does not say.")

    out.step(
        "Ask whence", "Which log lines made these totals? Nothing was recorded beforehand; any DataFrame can be asked."
    )
    with whence.attach(spark, store=folder / "store") as w:
        limit = int(STRANGE * middle)
        out.code(f'strange = report.where("bytes > {limit}")\nt = w.backward(strange)\nt["logs"]')
        trace = w.backward(report.where(F.col("bytes") > limit))
        witnesses = trace["logs"]
        lines = frozenset((row["time"], row["uid"], row["bytes"]) for row in witnesses.collect())
        out.rows(witnesses.limit(5), f"the first 5 of the {len(lines):,} log lines behind the strange totals")
        agents = frozenset(row["agent"] for row in witnesses.select("agent").distinct().collect())
        named = ", ".join(sorted(agents))
        out.say(
            f"All of them come from one agent: {named}. The filter says Hotspot; the new release spells itself\n"
            "HotSpot, and slipped through."
        )
        verdict = trace.verify()
        out.say(
            "Is that all of it? t.verify() ran the job on those lines alone: "
            + ("it gives the same strange totals." if verdict.ok else f"it differs: {verdict}")
        )

        out.step("Without them", "The same job once more, as if those lines had never been there.")
        out.code("t.exclude(report)")
        after = _totals(trace.exclude(report), "uid")
        out.compare("all users together", sum(before.values()), sum(after.values()))
        out.compare("the mean user", sum(before.values()) / len(before), sum(after.values()) / len(after))
        out.compare("the largest user", max(before.values()), max(after.values()))
        out.show_comparison()

        out.step(
            "What else did they touch?",
            "Another report is made from the same logs. Forward tells which of its rows are wrong.",
        )
        cities = job.by_city(logs, cells)
        out.code(f"cities = by_city(logs, cells)\nf = w.forward(logs.where(\"agent = '{named}'\"), to=cities)\nf.rows")
        forward = w.forward(logs.where(F.col("agent").isin(*agents)), to=cities)
        touched = frozenset(row["city"] for row in forward.rows.collect())
        cities_before = _totals(cities, "city")
        cities_after = _totals(forward.exclude(), "city")
        out.cities(cities_before, cities_after, touched)
        out.say(f"{len(touched)} of {len(cities_before)} cities were reported too high; the others can stand.")

    out.say(
        f"\nThat took {time.perf_counter() - start:.0f} seconds. In your own program it is: w = whence.attach(spark)"
    )
    return Found(
        before,
        after,
        frozenset(before) - frozenset(after),
        lines,
        agents,
        cities_before,
        cities_after,
        touched,
        verdict.ok,
    )


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=110)


def _totals(report: DataFrame, key: str) -> dict[Any, int]:
    return {row[key]: row["bytes"] for row in report.collect()}


def _size(count: float) -> str:
    return f"{count / 1e6:,.0f} MB"


class Teller:
    """Short paragraphs, code and tables; plain text when the output is a file."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._steps = 0
        self._compared: list[tuple[str, str, str]] = []

    def step(self, title: str, text: str) -> None:
        self._steps += 1
        self.console.print(f"\n[bold]{self._steps}. {title}[/bold]")
        self.say(text)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def code(self, text: str) -> None:
        if self.console.is_terminal:
            block = Syntax(text.strip(), "python", background_color="default", word_wrap=True)
            self.console.print(Padding(block, (1, 0, 1, 4)))
        else:  # no padding up to the right edge in a file
            self.say("\n" + indent(text.strip(), "    ") + "\n")

    def rows(self, frame: DataFrame, title: str) -> None:
        table = self._table(title, *frame.columns)
        for row in frame.collect():
            table.add_row(
                *(f"{cell:,}" if name == "bytes" else str(cell) for name, cell in zip(frame.columns, row, strict=True))
            )
        self.console.print(table)

    def totals(self, title: str, key: str, totals: dict[Any, int], order: dict[Any, int], count: int) -> None:
        table = self._table(title, key, "traffic")
        for name in sorted(order, key=lambda name: -order[name])[:count]:
            table.add_row(str(name), _size(totals[name]))
        self.console.print(table)

    def compare(self, what: str, before: float, after: float) -> None:
        self._compared.append((what, _size(before), _size(after)))

    def show_comparison(self) -> None:
        table = self._table("", "", "before", "after")
        for line in self._compared:
            table.add_row(*line)
        self.console.print(table)

    def cities(self, before: dict[Any, int], after: dict[Any, int], touched: frozenset[str]) -> None:
        table = self._table("by_city", "city", "before", "after", "touched")
        for city in sorted(before, key=lambda name: -before[name]):
            table.add_row(str(city), _size(before[city]), _size(after[city]), "yes" if city in touched else "")
        self.console.print(table)

    def _table(self, title: str, *columns: str) -> Table:
        if title:
            self.console.print(f"\n[italic]{title}[/italic]")
        table = Table(box=box.SIMPLE, pad_edge=False)
        for name in columns:
            table.add_column(name, justify="right" if name in {"bytes", "traffic", "before", "after"} else "left")
        return table
