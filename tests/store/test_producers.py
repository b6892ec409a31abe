"""Who made what: added by one process, found by any, and only as long as the file is still that file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from whence.model import WhenceError
from whence.store import Store
from whence.store.lines import content_of, line_at, line_starts, piece_of
from whence.store.producers import Product, file_key, product_of_file


def test_found_by_another_process_and_by_any_spelling(tmp_path: Path) -> None:
    file = tmp_path / "a b" / "part-0"
    file.parent.mkdir()
    file.write_text("one\n")
    mine = Store.at(tmp_path / "store")
    mine.producers.add([product_of_file(str(file), "rdd", "run-1", {"result": 7})])
    mine.close()

    theirs = Store.at(tmp_path / "store")
    spelled = f"file://{str(file).replace(' ', '%20')}"
    assert file_key(spelled) == file_key(f"{tmp_path}/x/../a b/part-0") == str(file)
    found = theirs.producers.of([file_key(spelled), str(tmp_path / "other")])
    assert list(found) == [str(file)]
    assert (found[str(file)].kind, found[str(file)].run, found[str(file)].details) == ("rdd", "run-1", {"result": 7})
    assert found[str(file)].is_there
    file.write_text("other\n")
    assert not theirs.producers.of([str(file)])[str(file)].is_there
    theirs.close()


def test_the_newest_run_made_it(tmp_path: Path) -> None:
    store = Store.at(tmp_path / "store")
    store.producers.add([Product("k", "rdd", "1"), Product("l", "rdd", "1")])
    store.producers.add([Product("k", "actors", "2")])
    assert {key: p.run for key, p in store.producers.of(["k", "l", "m"]).items()} == {"k": "2", "l": "1"}
    assert [p.key for p in store.producers.of_run("rdd", "1")] == ["l"]
    store.close()


CONTENTS = [
    b"",
    b"a",
    b"a\n",
    b"\n\n",
    b"a\r\nb\rc\n\nd",
    b"\xef\xbb\xbfa\nb",
    b"\xef\xbb\xbf",
    b"\r\r\n\n",
]


@pytest.mark.parametrize("content", CONTENTS)
def test_lines_begin_where_a_plain_loop_says(content: bytes) -> None:
    expected = []
    at = 3 if content.startswith(b"\xef\xbb\xbf") else 0
    while at < len(content):
        expected.append(at)
        while at < len(content) and content[at] not in b"\r\n":
            at += 1
        at += 2 if content[at : at + 2] == b"\r\n" else 1
    array = np.frombuffer(content, dtype=np.uint8)
    assert line_starts(array).tolist() == expected
    lines = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    lines = lines[:-1] if not lines[-1] else lines
    assert [line_at(array, start) for start in expected] == lines


def test_a_line_that_begins_with_a_piece_is_of_the_piece_before() -> None:
    assert piece_of(np.array([0, 3, 4, 5, 8, 9]), 4).tolist() == [0, 0, 0, 1, 1, 2]


def test_compressed_files(tmp_path: Path) -> None:
    import gzip

    with gzip.open(tmp_path / "a.gz", "wb") as file:
        file.write(b"a\nb\n")
    assert line_starts(content_of(str(tmp_path / "a.gz"))).tolist() == [0, 2]
    (tmp_path / "a.zst").write_bytes(os.urandom(10))
    with pytest.raises(WhenceError, match="compression"):
        content_of(str(tmp_path / "a.zst"))
