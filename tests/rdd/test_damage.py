"""Every file of a run, one at a time, truncated, emptied, removed or changed: the right answer or a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whence.model import StoreError
from whence.rdd import LineageContext, RddFlow
from whence.rdd.books import PastBook
from whence.rdd.propagate import read_full
from whence.store import LocalFiles


def flipped(at: float) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        place = int(at * (len(data) - 1))
        return data[:place] + bytes([data[place] ^ 0x15]) + data[place + 1 :]

    return damage


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "emptied": lambda _: b"",
    "half": lambda data: data[: len(data) // 2],
    "all but the end": lambda data: data[:-3],
    "removed": lambda _: None,
    **{f"changed at {at:.0%}": flipped(at) for at in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1)},
}


def ask(directory: str) -> Any:
    run = RddFlow(PastBook(directory))
    (result,), (source,) = run.outputs, run.inputs
    sizes = {key[1]: run.book.tables[key].n_out for r in run.book.results() for key in r.tables}
    asked = [run.take(result, [(part, n)]) for part in range(2) for n in range(sizes[part])]
    found = [run.backward(records).found[source].ids() for records in asked]
    return found, run.forward(run.take(source, [(0, 4)])).found[result].ids()


def test_each_file_damaged_in_turn(lc: LineageContext) -> None:
    lc.strategy = "propagated"
    made = lc.parallelize(range(60), 2).flatMap(lambda n: [(n % 7, n), (n % 5, n)]).filter(lambda kv: kv[1] % 3)
    result = made.groupByKey().mapValues(len)
    result.collect()
    lc.close()
    home = Path(lc.book.directory)
    expected = ask(str(home))
    outcomes: Counter[str] = Counter()
    for file in sorted(p for p in home.rglob("*") if p.is_file()):
        whole = file.read_bytes()
        for name, damage in DAMAGES.items():
            broken = damage(whole)
            if broken is None:
                file.unlink()
            else:
                file.write_bytes(broken)
            if file.suffix == ".full":  # the tables tell the same
                part, _, attempt = file.stem.partition("-")
                key = (int(file.parent.name), int(part), int(attempt))
                assert read_full(LocalFiles(home), key, np.arange(3)) is None, f"{file} {name}"
                outcomes["done without"] += 1
                continue
            try:
                found = ask(str(home))
            except StoreError as told:
                outcomes["sentence" if str(told).endswith(".") else f"no sentence: {told}"] += 1
            else:
                assert found == expected, f"{file} {name}"
                outcomes["right"] += 1
            file.write_bytes(whole)
    assert set(outcomes) <= {"sentence", "right", "done without"}
    assert outcomes["sentence"] > 20
    assert outcomes["done without"] == 2 * len(DAMAGES)


def test_a_run_that_is_damaged_is_warned_of(lc: LineageContext) -> None:
    lc.parallelize(range(3), 1).map(str).collect()
    lc.close()
    assert len(lc.runs()) == 1
    book = Path(lc.book.directory) / "run.json"
    book.write_text(book.read_text().replace('"results"', '"other"'))
    with pytest.warns(UserWarning, match="A run is left out"):
        assert lc.runs() == []
