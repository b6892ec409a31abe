from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import harness
from bench.harness import Bars, Measured, Result, Way


def result(line: str = "2 apples") -> Result:
    return Result("fruit", "Fruit", line, ("kind", "count"), (("apples", "2"), ("a|b", "1")), {"apples": 2}, ("ripe",))


def test_ways_take_turns_and_warm_up_is_not_counted() -> None:
    order: list[str] = []
    found = harness.interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=3, warmup=1)
    assert "".join(order) == "abbaabba"
    assert [len(found[name].seconds) for name in "ab"] == [3, 3]


def test_a_way_is_cleaned_up_even_when_it_fails() -> None:
    calls: list[str] = []

    def fails() -> None:
        calls.append("run")
        raise ValueError

    way = Way(fails, before=lambda: calls.append("before"), after=lambda: calls.append("after"))
    with pytest.raises(ValueError):  # noqa: PT011
        harness.interleaved({"a": way}, rounds=1, warmup=0)
    assert calls == ["before", "run", "after"]


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    base = Measured("base", (1.0, 2.0, 4.0))  # the machine slows down
    other = Measured("other", (1.1, 2.2, 40.0))  # and once something else disturbs
    assert other.over(base) == pytest.approx(1.1)


def test_finish_ends_with_the_line_and_writes_json_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed here (extra: plot)")
    target = harness.finish(result(), Bars(["x"], {"a": [1.0], "b": [2.0]}, "times", limit=1.0), tmp_path)
    assert capsys.readouterr().out.splitlines()[-1] == "2 apples"
    assert json.loads(target.read_text())["figures"] == {"apples": 2}
    assert (tmp_path / "fruit.png").read_bytes().startswith(b"\x89PNG")


def test_a_docs_section_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    docs = tmp_path / "benchmarks.md"
    docs.write_text("# Benchmarks\n\nWords.\n")
    for line in ("2 apples", "3 apples"):
        harness.write_docs(harness.finish(result(line), out=tmp_path), docs)
    page = docs.read_text()
    assert page.startswith("# Benchmarks\n\nWords.\n")
    assert page.count("## Fruit") == 1
    assert "**3 apples**" in page
    assert "2 apples" not in page
    assert "| a\\|b | 1 |" in page


def test_the_machine_is_told_by_size_and_versions_only() -> None:
    import platform

    found = harness.machine()
    assert found["cores"].isdigit()
    assert found["pyspark"].startswith("4.")
    assert platform.node() not in " ".join(found.values()) or len(platform.node()) < 4


def test_tpch_comes_from_the_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb_extension_tpch", reason="DuckDB's extension is not installed here (extra: bench)")
    import pyarrow.parquet as pq

    from bench import duckdata, tpch

    monkeypatch.setattr(duckdata, "DATA", tmp_path)
    data = tpch.data(0.001)
    assert tpch.data(0.001) == data
    assert pq.read_table(data / "lineitem").num_rows == 6005
    assert [path.name for path in tmp_path.iterdir()] == ["tpch-sf0.001"]
    assert len(tpch.queries()) == 22


def test_tpcds_queries_say_what_was_changed() -> None:
    pytest.importorskip("duckdb_extension_tpcds", reason="DuckDB's extension is not installed here (extra: bench)")
    from bench import tpcds_data

    queries = tpcds_data.queries()
    assert len(queries) == 99
    assert all(('"' in query.text) is False for query in queries.values())
    assert [name for name, query in queries.items() if query.changes] == [
        "q16", "q32", "q50", "q62", "q92", "q94", "q95", "q99",
    ]  # fmt: skip
