"""Rows of text, CSV and JSON files are told by file and byte, whoever reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame

import whence
from whence.debug.trace import Trace
from whence.model.flow import RecordId
from whence.spark import catalyst
from whence.sql import line_rows
from whence.sql import sources as source_rows
from whence.sql.flow import SqlFlow

pytestmark = pytest.mark.usefixtures("tiny")

CSV = b'# about\n\nk,v\na,1\r\n\nb,2\n#no row\n  \nc,3\rd,"x y"\ne,5'
JSON = b'{"k": "a"}\n\n{"k": "b"}\r\n   \nbroken\n{"k": "c"}'
TEXT = b"one\n\n two \r\nthree\r\rfour"


def ids_of(trace: Trace) -> list[RecordId]:
    ((_, site, records),) = trace._ends.values()
    assert site.key.startswith("files by byte: ")
    return sorted(records.ids())


def read(w: whence.Session, path: Path, kind: str) -> tuple[DataFrame, dict[str, bytes]]:
    """The DataFrame over one file, and of some of its rows (by a condition) the bytes that their line begins with."""
    if kind == "csv":
        path.write_bytes(CSV)
        frame = w.spark.read.option("header", True).option("comment", "#").csv(str(path))
        return frame, {"k = 'a'": b"a,1", "k = 'b'": b"b,2", "k = 'c'": b"c,3", "k = 'd'": b"d,", "k = 'e'": b"e,5"}
    if kind == "json":
        path.write_bytes(JSON)
        frame = w.spark.read.schema("k string, _corrupt_record string").json(str(path))
        return frame, {
            "k = 'a'": b'{"k": "a"}',
            "k = 'b'": b'{"k": "b"}',
            "k is null": b"broken",
            "k = 'c'": b'{"k": "c"}',
        }
    path.write_bytes(TEXT)
    frame = w.spark.read.text(str(path))
    return frame, {
        "value = 'one'": b"one",
        "value = ' two '": b" two ",
        "value = 'three'": b"three",
        "value = 'four'": b"four",
    }


@pytest.mark.parametrize("split", [None, 16])
@pytest.mark.parametrize("kind", ["text", "csv", "json"])
def test_a_row_is_told_by_the_byte_of_its_line(
    w: whence.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, split: int | None
) -> None:
    if split is not None:  # pieces of 16 bytes, for 32 MB
        monkeypatch.setattr(source_rows, "SPLIT", split)
        monkeypatch.setattr(line_rows, "SPLIT", split)
        for name in ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"):
            monkeypatch.setitem(catalyst._APART, name, str(split + (name.endswith("InBytes"))))
    path = tmp_path / "rows.txt"
    frame, expected = read(w, path, kind)
    content = path.read_bytes()
    for condition, begins in expected.items():
        ((file, at),) = ids_of(w.backward(frame.where(condition)))
        assert file == str(path)
        assert content[int(at) :].startswith(begins), condition
        flow = SqlFlow(w.lineage(frame))
        taken = flow.take(flow.inputs[0], [(file, at)])
        assert taken.frame().collect() == frame.where(condition).collect()
    everything = ids_of(w.backward(frame))
    assert len(set(everything)) == len(everything) == frame.count()


def test_what_has_no_line_of_its_own_is_not_told_by_bytes(w: whence.Session, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"k": 1}, {"k": 2}]\n{"k": 3}\n')
    frame = w.spark.read.schema("k int").json(str(tmp_path / "a.json"))
    ((_, _, records),) = w.backward(frame.where("k = 2"))._ends.values()
    with pytest.raises(whence.WhenceError, match="several"):
        records.ids()
    assert records.count() == 1
    whole = w.spark.read.option("multiLine", True).schema("k int").json(str(tmp_path / "a.json"))
    ((_, site, _),) = w.backward(whole)._ends.values()
    assert not site.key.startswith("files by byte")


def test_an_identity_that_the_query_does_not_read_is_an_error(w: whence.Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    flow = SqlFlow(w.lineage(w.spark.read.text(str(tmp_path / "a.txt"))))
    (site,) = flow.inputs
    with pytest.raises(whence.WhenceError, match=r"no row at 3"):
        flow.take(site, [(str(tmp_path / "a.txt"), 3)])
    with pytest.raises(whence.WhenceError, match="does not read"):
        flow.take(site, [(str(tmp_path / "b.txt"), 0)])
