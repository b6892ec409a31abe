"""Releases of Spark: what is known, what is said of the others, and the one place where they differ."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import whence
from releases import RELEASE
from whence.spark.catalyst import Catalyst
from whence.spark.release import KNOWN, Release, Spark3, release_of, require_known

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("version", ["3.4.4", "4.4.0", "5.0.0-preview1", "unknown"])
def test_an_unknown_release_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(type(spark), "version", property(lambda session: version))
    with pytest.raises(whence.UnknownSpark, match="does not know") as told:
        whence.attach(spark, store=tmp_path / "store")
    assert told.value.version == version
    said = str(told.value)
    assert f"Spark {version}," in said
    assert "3.5, 4.0, 4.1, 4.2 and 4.3" in said
    assert ("pip install -U whence" in said) == version.startswith(("4.4", "5"))
    assert not (tmp_path / "store").exists()


def test_vendors_builds_are_the_release_they_were_made_from() -> None:
    assert require_known("3.5.4-amzn-0") == (3, 5)
    assert require_known("4.0.1.7.3.1-SNAPSHOT") == (4, 0)
    assert RELEASE in KNOWN


@pytest.mark.parametrize("given", [None, "spark", 7])
def test_what_is_no_session_is_said(given: Any) -> None:
    with pytest.raises(whence.NoSession, match="takes a Spark session, not"):
        whence.attach(given)


def test_without_pyspark(tmp_path: Path) -> None:
    """whence is imported, opens a catalogue and diagnoses without PySpark; attach says what is missing."""
    program = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "pyspark" else real(name, package)
sys.meta_path.insert(0, Missing())
import whence
try:
    whence.attach(None)
except whence.NoSession as error:
    print(error)
print(whence.diagnose(lambda config: config["n"] < 3, {"n": [1, 2, 3, 4]}, seed=0).causes)
from whence.store import Store
print(list(Store.at(sys.argv[1]).catalog.datasets()))
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "store")], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said, causes, datasets = done.stdout.splitlines()
    assert "PySpark is not installed here: pip install 'whence[spark]'" in said
    assert "n" in causes
    assert datasets == "[]"


def test_fields_are_read_by_the_same_names_on_scala_2_12(spark: SparkSession) -> None:
    """Where Scala tells the names of fields, the way that finds them without it gives the same."""
    made = release_of(spark)
    assert type(made) is (Spark3 if RELEASE < (4, 0) else Release)
    query = "select k + 1, count(*) n, max(v) from values (1, 2), (1, 3) t(k, v) where v > 1 group by k"
    c = Catalyst(spark)
    waiting, seen = [c.plan_of(spark.sql(query))], set()
    without = Spark3(spark._jvm)
    while waiting:
        node = waiting.pop()
        waiting += c.children(node)
        names = made.names_of(node)
        assert without.names_of(node) == names
        assert len(names) == node.productArity()
        seen.add(node.getClass().getSimpleName())
        for value in c.fields(node).values():
            if c.is_a(value, "scala.collection.Seq"):
                waiting += [item for item in c.items(value) if c.is_a(item, "scala.Product")]
    assert {"Aggregate", "Filter", "LocalRelation", "Alias", "AttributeReference", "Count"} <= seen
