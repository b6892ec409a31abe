"""What is written of associations is read as it was, slot by slot, against a dict of lists."""

from __future__ import annotations

import io
import itertools
import struct
from collections import defaultdict

import numpy as np
import pytest
from pyspark.serializers import UTF8Deserializer

from whence.rdd.codec import _low_bits, pack, pack_groups, pack_sorted, unpack, unpack_groups, unpack_sorted
from whence.rdd.textfiles import Split, lines_at
from whence.rdd.wire import Measure, Reader

RNG = np.random.default_rng(5)
SLOTS = {
    "skewed": RNG.zipf(1.3, 5000) % 700,
    "one slot": np.full(300, 9),
    "each its own": RNG.permutation(400),
    "far apart": RNG.integers(0, 2**40, 500),
    "around the 32nd bit": np.array([2**31 - 1, 2**31 - 2, 3, 2**31 - 1, 2**31, 3]),
    "below the 32nd bit": np.array([2**31 - 3, 3, 2**31 - 2, 3]),
    "a slot of many": np.concatenate([np.zeros(70_000, dtype=np.int64), np.arange(300)]),
}


@pytest.mark.parametrize("kind", SLOTS)
def test_groups(kind: str) -> None:
    slots = SLOTS[kind].astype(np.int64)
    expected: dict[int, list[int]] = defaultdict(list)
    for position, slot in enumerate(slots.tolist()):
        expected[slot].append(position)
    block = unpack_groups(pack_groups(slots))
    assert block.slot_of_each().tolist() == slots.tolist()
    there = sorted(expected)
    absent = [n for n in (0, 1, 5, 2**31 - 1, 2**31, 2**31 + 3, 2**45) if n not in expected]
    for wanted in ([there[0]], [there[-1]], there[:: max(len(there) // 3, 1)], there, absent, sorted(there + absent)):
        for _ in range(2):  # what is kept of the first look serves the second
            owner, position = block.positions_of(np.array(wanted, dtype=np.int64))
            found: dict[int, list[int]] = defaultdict(list)
            for index, at in zip(owner.tolist(), position.tolist(), strict=True):
                found[wanted[index]].append(at)
            assert found == {slot: expected[slot] for slot in wanted if slot in expected}


def test_the_width_of_low_bits_is_what_earlier_versions_wrote() -> None:
    for n in (1, 2, 3, 255, 256, 257, 1000, 2**17, 2**18 - 1, 2**24 + 1):
        counts = np.unique(np.concatenate([np.arange(1, min(n, 3000) + 1), [n, max(n // 2, 1), max(n // 4, 1)]]))
        assert (_low_bits(counts, n) == np.maximum(np.floor(np.log2(n / counts)), 0)).all()


@pytest.mark.parametrize(
    "values", [[], [7], [0, 1, 1, 0], [3] * 50, [1, 300, 70_000, 2**40], [-1, 5], list(range(5, 500))], ids=str
)
def test_integers(values: list[int]) -> None:
    found = unpack(pack(np.array(values, dtype=np.int64)))
    assert found.tolist() == values
    assert found.dtype == np.int64
    assert unpack_sorted(pack_sorted(np.array(sorted(values), dtype=np.int64))).tolist() == sorted(values)


TEXTS = {
    "one byte": b"ab\n\ncde\nf\n\nlast\n",
    "an open end": b"ab\n\ncde\nf\n\nlast",
    "two bytes": b"ab\r\n\r\ncde\r\nf\r\n\r\nlast\r\n",
    "carriage returns": b"ab\r\rcde\rf\r\rlast\r",
    "a vertical tab": b"a\x0bb\n\x1c\ncde\nf\n\nlast\n",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_lines_by_their_number(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    data = TEXTS[kind]
    path = tmp_path_factory.mktemp("lines") / "some.txt"
    path.write_bytes(data)
    lines = data.splitlines()
    split = Split(str(path), 0, len(data), len(data), path.stat().st_mtime_ns)
    counts = np.array([2, 3, 1])
    sizes = np.array([sum(map(len, some)) for some in (lines[:2], lines[2:5], lines[5:])])
    for numbers in ([0], [1, 2], [5], list(range(6)), []):
        found = lines_at(split, (counts, sizes), np.array(numbers, dtype=np.int64))
        assert found is not None
        assert [line for _, line in found] == [lines[n] for n in numbers]
        assert all(data[at : at + len(line)] == line for at, line in found)
        assert len({at for at, _ in found}) == len(numbers)


def test_lines_are_measured_a_few_at_a_time() -> None:
    """To read one line, no more than these are looked at, however much the worker's buffer held."""
    lines = [b"x" * (n % 7) for n in range(1000)]
    stream = io.BytesIO(b"".join(struct.pack("!i", len(line)) + line for line in lines))
    read = list(Reader(UTF8Deserializer()).load_stream(io.BufferedReader(stream, 1 << 16)))
    assert [line.encode() for records, _ in read for line in records] == lines
    pieces = [piece for _, measure in read if isinstance(measure, Measure) for piece in measure.pieces]
    assert max(count for count, _ in pieces) <= 64
    begins = np.cumsum([0, *(count for count, _ in pieces)])
    assert begins[-1] == len(lines)
    assert [size for _, size in pieces] == [sum(map(len, lines[a:b])) for a, b in itertools.pairwise(begins.tolist())]
