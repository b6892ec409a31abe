"""The wrapper around mapInPandas and mapInArrow functions, without Spark: which input rows each output row gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from whence.sql import worker
from whence.sql.worker import BY_BATCH, BY_PARTITION, BY_ROW, BY_RUN

NAMES = ("first", "last", "how")
Frames = Iterator[pd.DataFrame]
Told = list[tuple[int, int | None, int | None, int]]


def run(function: Callable[[Frames], Frames], batches: list[list[int | None]], limit: int = 100) -> Told:
    """(value, first, last, how) of each output row; input rows are numbered from 100."""
    command = cloudpickle.dumps((function, None))
    kinds = worker.PandasBatches(["int64"], ["v"], [pa.int64()])
    wrapped = worker.map_with_intervals(command, kinds, NAMES, limit)
    number = 100
    frames = []
    for batch in batches:
        frames.append(pd.DataFrame({"v": batch, "number": range(number, number + len(batch))}))
        number += len(batch)
    out = pd.concat(list(wrapped(iter(frames))))
    return [tuple(None if pd.isna(x) else int(x) for x in row) for row in out[["v", *NAMES]].itertuples(index=False)]


def rowwise(frames: Frames) -> Frames:
    for frame in frames:
        yield frame[frame.v % 2 == 0] * 10


def in_place(frames: Frames) -> Frames:
    for frame in frames:
        frame["v"] += 1
        yield frame


def sorting(frames: Frames) -> Frames:
    for frame in frames:
        yield frame.sort_values("v", ascending=False)


def above_mean(frames: Frames) -> Frames:
    for frame in frames:
        yield frame[frame.v > frame.v.mean()]


def not_alone(frames: Frames) -> Frames:
    for frame in frames:
        assert len(frame) > 1
        yield frame


def running(frames: Frames) -> Frames:
    total = 0
    for frame in frames:
        yield frame.v.cumsum().to_frame() + total
        total += int(frame.v.sum())


def at_the_end(frames: Frames) -> Frames:
    yield pd.DataFrame({"v": [sum(len(frame) for frame in frames)]})


def twice(frames: Frames) -> Frames:
    for frame in frames:
        yield frame
        yield frame.iloc[:1]


def late(frames: Frames) -> Frames:
    before = None
    for frame in frames:
        if before is not None:
            yield before
        before = frame
    if before is not None:
        yield before


def from_nothing(frames: Frames) -> Frames:
    yield pd.DataFrame({"v": [7]})
    yield from frames


def by_position(frames: Frames) -> Frames:
    for frame in frames:
        yield pd.DataFrame({0: frame.v})


CASES = {
    "a row that gives itself or nothing": (
        rowwise,
        [[1, 2], [4, 4]],
        [(20, 101, 101, BY_ROW), (40, 102, 102, BY_ROW), (40, 103, 103, BY_ROW)],
    ),
    "a function that changes what it is given": (in_place, [[1, 2]], [(2, 100, 100, BY_ROW), (3, 101, 101, BY_ROW)]),
    "rows given in another order": (sorting, [[1, 2]], [(2, 101, 101, BY_ROW), (1, 100, 100, BY_ROW)]),
    "rows compared within a batch": (
        above_mean,
        [[1, 2, 6], [5, 9]],
        [(6, 100, 102, BY_BATCH), (9, 103, 104, BY_BATCH)],
    ),
    "a function that fails on single rows": (
        not_alone,
        [[1, 2], [3, 4]],
        [(1, 100, 101, BY_BATCH), (2, 100, 101, BY_BATCH), (3, 102, 103, BY_BATCH), (4, 102, 103, BY_BATCH)],
    ),
    "memory from batch to batch": (
        running,
        [[1], [2, 3], [4]],
        [
            (1, 100, 100, BY_ROW),
            (3, 100, 102, BY_PARTITION),
            (6, 100, 102, BY_PARTITION),
            (10, 100, 103, BY_PARTITION),
        ],
    ),
    "one row at the end": (at_the_end, [[1, 2], [3]], [(3, 100, 102, BY_PARTITION)]),
    "more rows in a batch than alone": (twice, [[5, 5]], [(5, 100, 101, BY_BATCH)] * 3),
    "a function that runs one batch late": (
        late,
        [[1], [2], [3]],
        [(i + 1, 100 + i, 100 + i, BY_ROW) for i in range(3)],
    ),
    "a row that comes from nothing": (
        from_nothing,
        [[1, 2], [3]],
        [(v, 100, 101, BY_BATCH) for v in (7, 1, 2)] + [(3, 100, 102, BY_PARTITION)],
    ),
    "a row though there is nothing": (from_nothing, [[]], [(7, None, None, BY_ROW)]),
    "columns by position": (by_position, [[1, 2]], [(1, 100, 100, BY_ROW), (2, 101, 101, BY_ROW)]),
}


@pytest.mark.parametrize("name", CASES)
def test_which_rows(name: str) -> None:
    function, batches, expected = CASES[name]
    assert run(function, batches) == expected


def test_many_rows_are_not_tried_one_by_one() -> None:
    found = run(rowwise, [[2] * 4, [4] * 150], limit=4)
    assert found == [
        *[(20, 100 + i, 100 + i, BY_ROW) for i in range(4)],
        *[(40, 104, 203, BY_RUN)] * 100,
        *[(40, 204, 253, BY_RUN)] * 50,
    ]


def test_a_row_alone_has_the_type_it_would_have_alone() -> None:
    """Beside a NULL, pandas holds numbers as floats; alone, the number is a number and its text another."""

    def text(frames: Frames) -> Frames:
        for frame in frames:
            yield pd.DataFrame({"v": [len(str(v)) for v in frame.v]})

    assert run(text, [[1, None]]) == [(3, 100, 101, BY_BATCH)] * 2
    assert run(text, [[1, 22]]) == [(1, 100, 100, BY_ROW), (2, 101, 101, BY_ROW)]


def test_arrow_batches() -> None:
    def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = [v for v in batch.column(0).to_pylist() for _ in range(2)]
            yield pa.RecordBatch.from_arrays([pa.array(values)], ["v"])

    wrapped = worker.map_with_intervals(cloudpickle.dumps((doubled, None)), worker.ArrowBatches(), NAMES)
    given = pa.RecordBatch.from_pydict({"v": [[1], None], "number": [5, 6]})
    out = pa.Table.from_batches(list(wrapped(iter([given])))).to_pylist()
    assert [(row["v"], row["first"], row["how"]) for row in out] == [
        ([1], 5, BY_ROW),
        ([1], 5, BY_ROW),
        (None, 6, BY_ROW),
        (None, 6, BY_ROW),
    ]
