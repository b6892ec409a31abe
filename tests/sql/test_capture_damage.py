"""Each file of what capture keeps, damaged in each way: the right answer, whence's own error, or an end with a note."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence

ORDERS = [(i, f"c{i % 3}", i * 10) for i in range(12)]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


DAMAGE: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    "truncated": lambda content, _: content[: len(content) * 2 // 3],
    "emptied": lambda content, _: b"",
    "deleted": lambda content, _: None,
    "garbled": lambda content, _: flipped(content),
    "another's": lambda _, other: other,
}


@pytest.fixture(scope="module")
def home(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    frame = tiny.createDataFrame(ORDERS, "rid bigint, customer string, amount bigint")
    frame.repartition(2, "rid").write.parquet(str(home / "orders"))
    with whence.attach(tiny, store=home / "store") as w, w.capture():
        lucky = tiny.read.parquet(str(home / "orders")).selectExpr("*", "rand(1) < 0.8 chosen").where("chosen")
        lucky.write.parquet(str(home / "lucky"))
        totals = tiny.read.parquet(str(home / "lucky")).groupBy("customer").sum("amount").toDF("customer", "total")
        totals.write.parquet(str(home / "totals"))
        tiny.read.parquet(str(home / "totals")).where("total > 0").write.parquet(str(home / "report"))
    return home


@pytest.fixture
def session(tiny: SparkSession, home: Path) -> Iterator[whence.Session]:
    """Knows no more than the store does."""
    with whence.attach(tiny, store=home / "store") as w:
        yield w


def damaged(folder: Path, way: str) -> Iterator[Path]:
    """Each file in turn, damaged while it is looked at."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for place, file in enumerate(files):
        content = file.read_bytes()
        alike = [other for other in files[place + 1 :] + files[:place] if other.suffix == file.suffix]
        new = DAMAGE[way](content, (alike or files)[0].read_bytes())
        if new == content:
            continue
        if new is None:
            file.unlink()
        else:
            file.write_bytes(new)
        yield file.relative_to(folder)
        file.write_bytes(content)


def answer(w: whence.Session, home: Path) -> object:
    """The witnesses; or that the trace ends sooner and says so; or whence's error."""
    report = w.spark.read.parquet(str(home / "report"))
    try:
        trace = w.backward(report.where("customer = 'c1'"))
        if list(trace.sources) != ["orders"]:
            return "ended with a note" if trace.notes else f"ended at {list(trace.sources)}"
        return sorted(row.rid for row in trace["orders"].collect())
    except whence.WhenceError as error:
        return "whence's own error" if str(error).endswith(".") else error


@pytest.mark.parametrize("way", DAMAGE)
def test_captured_writes(tiny: SparkSession, home: Path, session: whence.Session, way: str) -> None:
    chosen = {row.rid for row in tiny.read.parquet(str(home / "lucky")).collect()}
    right = sorted(rid for rid, customer, _ in ORDERS if customer == "c1" and rid in chosen)
    assert answer(session, home) == right
    seen = []
    for file in damaged(home / "store" / "tables" / "sql", way):
        with whence.attach(tiny, store=home / "store") as w:
            found = answer(w, home)
        assert found in (right, "ended with a note", "whence's own error"), (file, found)
        seen.append(found)
    assert len(seen) >= 10
    assert "ended with a note" in seen


@pytest.mark.parametrize("way", DAMAGE)
def test_a_captured_action(tiny: SparkSession, tmp_path: Path, way: str) -> None:
    with whence.attach(tiny, store=tmp_path / "store") as w:
        df = tiny.range(6).selectExpr("id", "rand() r").limit(4)
        with w.capture():
            kept = {row.id for row in df.collect()}
        assert {row.id for row in w.backward(df)["range"].collect()} == kept
        for file in damaged(tmp_path / "store" / "tables" / "sql", way):
            if file.name == "fact.json":  # is for other processes
                assert {row.id for row in w.backward(df)["range"].collect()} == kept
            else:
                with pytest.raises(whence.StoreError, match="damaged in the store"):
                    w.backward(df)
        shutil.rmtree(tmp_path / "store" / "tables")
        with pytest.raises(whence.StoreError, match="damaged in the store"):
            w.backward(df)
