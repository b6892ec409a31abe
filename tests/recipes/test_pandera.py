"""examples/checked_orders.py with the real pandera: from the rules that fail to the source rows behind them."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

import whence

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("checked_orders")


def test_from_a_failed_check_to_its_source_rows(
    checked: ModuleType, spark: SparkSession, w: whence.Session, tmp_path: Path
) -> None:
    (tmp_path / "orders.csv").write_text("id,customer,amount\n1,Ada,20\n2,Bob,35\n3,Ada,-900\n4,Cy,7\n")
    (tmp_path / "customers.csv").write_text("customer,city\nAda,Bonn\nBob,Kiel\n")
    report = checked.totals(*checked.read(spark, str(tmp_path)))
    rejected = checked.rejected(report)
    assert {rule: [tuple(row) for row in rows.collect()] for rule, rows in rejected.items()} == {
        "city: not_nullable": [(None, 7)],
        "total: greater_than_or_equal_to(0)": [("Bonn", -880)],
    }
    lost, negative = (w.backward(rejected[rule]) for rule in sorted(rejected))
    assert [row.id for row in lost["orders.csv"].collect()] == [4]
    assert lost["customers.csv"].count() == 0  # Cy has no city: that is the answer
    assert sorted(row.id for row in negative["orders.csv"].collect()) == [1, 3]
    assert lost.verify().ok
    assert negative.verify().ok


def test_a_rule_without_a_condition_is_named(checked: ModuleType) -> None:
    with pytest.raises(LookupError, match="unique_values_eq of total"):
        checked.condition("total", "unique_values_eq", {})
