"""The demo's findings against the same totals worked out from the Parquet files without Spark."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from whence.serve import cli
from whence.serve.demo import data


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """`whence demo --keep <folder>` on the suite's own Spark session: what it found, the data it kept, what it said."""
    from whence.serve.demo import quiet, story

    folder = tmp_path_factory.mktemp("demo") / "kept"
    found = []
    tell = story.tell
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quiet, "spark", lambda folder: nullcontext(spark))
        patch.setattr(story, "tell", lambda *told: found.append(tell(*told)))
        said = CliRunner().invoke(cli.app, ["demo", "--keep", str(folder)], catch_exceptions=False)
    assert said.exit_code == 0
    logs = pq.read_table(folder / "logs").to_pylist()
    cities = {row["cell"]: row["city"] for row in pq.read_table(folder / "cells").to_pylist()}
    return found[0], logs, cities, said.output


def total(lines: list[dict], key) -> dict:  # type: ignore[no-untyped-def, type-arg]
    sums: Counter = Counter()  # type: ignore[type-arg]
    for line in lines:
        sums[key(line)] += line["bytes"]
    return dict(sums)


def test_totals_before_and_after(told) -> None:  # type: ignore[no-untyped-def]
    found, logs, cities, _ = told
    passed = [line for line in logs if not re.search("Tethering|Hotspot", line["agent"])]
    clean = [line for line in logs if not re.search("Tethering|Hotspot|HotSpot", line["agent"])]
    assert len(passed) > len(clean)
    assert found.users_before == total(passed, lambda line: line["uid"])
    assert found.users_after == total(clean, lambda line: line["uid"])
    assert found.cities_before == total(passed, lambda line: cities[line["cell"]])
    assert found.cities_after == total(clean, lambda line: cities[line["cell"]])


def test_the_trace_leads_to_the_new_spelling(told) -> None:  # type: ignore[no-untyped-def]
    found, logs, cities, text = told
    bad = [line for line in logs if line["agent"] == data.NEW_SPELLING]
    assert found.agents == {data.NEW_SPELLING}
    assert sorted(found.lines) == sorted((line["time"], line["uid"], line["bytes"]) for line in bad)
    assert set(found.users_before) - set(found.users_after) == {line["uid"] for line in bad}
    assert found.cities_touched == {cities[line["cell"]] for line in bad}
    assert found.proved
    assert f"{len(bad):,} log lines" in text


def test_the_story_reads_well_in_a_file(told) -> None:  # type: ignore[no-untyped-def]
    text = told[-1]
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 110
    for number in range(1, 6):
        assert f"\n{number}. " in text


def test_the_data_is_the_same_every_time(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = data.write(tmp_path / "a"), data.write(tmp_path / "b")
    for one, other in zip(first, second, strict=True):
        assert pq.read_table(one).equals(pq.read_table(other))
