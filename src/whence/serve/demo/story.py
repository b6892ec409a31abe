"""Tells the story. What it finds is also returned, so that a test can hold it against the data."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import whence
from whence.serve.demo import data, job
from whence.serve.demo.teller import Teller

STRANGE = 10  # times the median user


@dataclass(frozen=True)
class Found:
    """Bytes by user and by city, before and after; `lines` are the log lines of the trace, as (time, uid, bytes)."""

    users_before: dict[int, int]
    users_after: dict[int, int]
    cities_before: dict[str, int]
    cities_after: dict[str, int]
    cities_touched: frozenset[str]
    lines: tuple[tuple[str, int, int], ...]
    agents: frozenset[str]
    proved: bool


def tell(spark: SparkSession, folder: Path, out: Teller) -> Found:
    logs_path, cells_path = data.write(folder)
    logs, cells = spark.read.parquet(str(logs_path)), spark.read.parquet(str(cells_path))
    out.step("The data", "A phone company keeps one line for each request: who, through which cell, with which agent.")
    out.table(f"logs: the first 3 of {data.LINES:,} lines", logs.columns, logs.take(3))

    out.step(
        "The job",
        "It adds up the traffic of each user. Users who share their phone with a computer (tethering) would spoil the\n"
        "figures, so a regular expression drops their agents.",
    )
    out.code(inspect.getsource(job.phone_traffic) + "\n" + inspect.getsource(job.by_user) + "\nreport = by_user(logs)")
    report = job.by_user(logs)
    before = _totals(report)
    largest = sorted(before, key=lambda uid: -before[uid])[:5]
    out.table("report: the largest totals", ("uid", "traffic"), [(uid, _size(before[uid])) for uid in largest])
    usual = median(before.values())
    out.say(f"The median user moved {_size(usual)}; some moved far more. What is wrong? The report does not say.")

    out.step(
        "Ask whence", "Which log lines made these totals? Nothing was recorded beforehand: any DataFrame can be asked."
    )
    with whence.attach(spark, store=folder / "store") as w:
        strange = f"bytes > {int(STRANGE * usual)}"
        out.code(f'w = whence.attach(spark)\nt = w.backward(report.where("{strange}"))\nt["logs"].show()')
        trace = w.backward(report.where(strange))
        witnesses = trace["logs"].collect()
        agents = {line["agent"] for line in witnesses}
        named = ", ".join(sorted(agents))
        title = f'the first 5 of the {len(witnesses):,} log lines in t["logs"]'
        out.table(title, logs.columns, sorted(witnesses, key=lambda line: line["time"])[:5])
        out.say(f"All of them come from: {named}. The filter says Hotspot; this new release spells itself HotSpot.")
        verdict = trace.verify()
        out.say(
            "Are these lines the whole reason? t.verify() ran the job on them alone: "
            + ("the strange totals came out again." if verdict.ok else f"something else came out: {verdict}")
        )

        out.step("Without them", "The same job once more, as if those lines had never been there.")
        out.code("t.exclude(report)")
        after = _totals(trace.exclude(report))
        compared = (("all users together", sum), ("the mean user", mean), ("the largest user", max))
        out.table(
            "report, before and after",
            ("", "before", "after"),
            [(what, _size(of(before.values())), _size(of(after.values()))) for what, of in compared],
        )

        out.step(
            "What else did they touch?",
            "Another report is made from the same logs. Forward tells which of its rows are wrong, and the trace from\n"
            "above can be taken out of it as well.",
        )
        cities = job.by_city(logs, cells)
        bad = f"agent = '{named}'"
        out.code(f'cities = by_city(logs, cells)\nw.forward(logs.where("{bad}"), to=cities).rows\nt.exclude(cities)')
        touched = {row["city"] for row in w.forward(logs.where(bad), to=cities).rows.collect()}
        cities_before, cities_after = _totals(cities), _totals(trace.exclude(cities))
        out.table(
            "cities",
            ("city", "before", "after", ""),
            [
                (city, _size(total), _size(cities_after[city]), "touched" if city in touched else "")
                for city, total in sorted(cities_before.items(), key=lambda item: -item[1])
            ],
        )
        out.say(f"{len(touched)} of {len(cities_before)} cities were reported too high; the other figures can stand.")
    lines = tuple((line["time"], line["uid"], line["bytes"]) for line in witnesses)
    return Found(before, after, cities_before, cities_after, frozenset(touched), lines, frozenset(agents), verdict.ok)


def _totals(report: DataFrame) -> dict[Any, int]:
    return dict(report.collect())


def _size(count: float) -> str:
    return f"{count / 1e6:,.0f} MB"
