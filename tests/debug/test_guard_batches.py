"""Every kind of function of batches, on parts of what it is given: without Spark, which calls them the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st
from pyspark.sql.types import DoubleType, LongType, StructType

from whence.debug.guard.batch_worker import Given, call_batch, records, smallest
from whence.debug.guard.kinds import KINDS, Kind
from whence.debug.guard.quarantine_worker import MOST_PARTS, going_on

TEXTS = ["1", "six", "3", "seven", "5"]
SUMS = StructType().add("total", DoubleType())


class Kept:
    """What was put aside, in memory."""

    def __init__(self) -> None:
        self.parts: list[Given] = []
        self.errors: list[str] = []

    def batch(self, given: Given, error: BaseException) -> None:
        self.parts.append(given)
        self.errors.append(str(error))

    def texts(self) -> list[str]:
        return [row[0] for part in self.parts for _, row in records(part)]


def to_floats(column: Any) -> Any:
    return column.map(float) if isinstance(column, pd.Series) else column.cast(pa.float64())


def to_sum(column: Any) -> float:
    return float(to_floats(column).sum()) if isinstance(column, pd.Series) else sum(to_floats(column).to_pylist())


def series() -> pd.Series:
    return pd.Series(TEXTS)


def column() -> pa.Array:
    return pa.array(TEXTS)


def by_batch(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield to_floats(batch)


def of_all(batches: Iterator[Any]) -> float:
    return sum(to_sum(batch) for batch in batches)


@pytest.mark.parametrize("made", [series, column])
@pytest.mark.parametrize("iterator", [False, True])
def test_scalar_functions_give_null_where_they_fail(made: Callable[[], Any], iterator: bool) -> None:
    kept = Kept()
    if iterator:
        run = going_on(by_batch, Kind("scalar", iterator=True), DoubleType(), kept)
        results = list(run(iter([made(), made()])))
    else:
        results = [going_on(to_floats, Kind("scalar"), DoubleType(), kept)(made())] * 2
    for result in results:
        values = result.to_pylist() if isinstance(result, pa.Array) else list(result)
        assert values == [1.0, None, 3.0, None, 5.0]
    assert kept.texts() == ["six", "seven"] * (2 if iterator else 1)


@pytest.mark.parametrize("made", [series, column])
@pytest.mark.parametrize("iterator", [False, True])
def test_aggregates_are_of_the_rest(made: Callable[[], Any], iterator: bool) -> None:
    kept = Kept()
    run = going_on(of_all if iterator else to_sum, Kind("aggregate", iterator), DoubleType(), kept)
    given: Any = iter([made(), made()]) if iterator else made()
    assert run(given) == (18.0 if iterator else 9.0)
    assert sorted(kept.texts()) == ["seven", "six"] if not iterator else ["seven", "seven", "six", "six"]


def test_a_row_of_many_frames_is_put_aside_once() -> None:
    kept = Kept()
    run = going_on(to_sum, Kind("window"), DoubleType(), kept)
    assert [run(series().iloc[max(0, n - 1) : n + 1]) for n in range(5)] == [1.0, 1.0, 3.0, 3.0, 5.0]
    assert kept.texts() == ["six", "seven"]
    assert run(series().iloc[1:2]) is None  # nothing is left of this frame


def sum_table(table: pa.Table) -> pa.Table:
    return pa.table({"total": [to_sum(table["text"].combine_chunks())]})


def sum_batches(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([to_sum(batch.column(0))])], ["total"])


def test_groups_of_arrow_tables() -> None:
    kept = Kept()
    table = pa.table({"text": TEXTS})
    assert going_on(sum_table, Kind("group"), SUMS, kept)(table)["total"].to_pylist() == [9.0]
    bad = going_on(sum_table, Kind("group"), SUMS, kept)(table.slice(1, 1))
    assert bad.num_rows == 0
    assert bad.schema.names == ["total"]
    run = going_on(sum_batches, Kind("group", iterator=True), SUMS, kept)
    (batch,) = run((1,), iter(table.to_batches()))
    assert batch.column(0).to_pylist() == [9.0]
    assert sorted(kept.texts()) == ["seven", "seven", "six", "six", "six"]


def test_records_of_a_cogroup_that_fail_only_together() -> None:
    def meet(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        if 7 in set(left["n"]) and 40 in set(right["n"]):
            raise ValueError("7 meets 40")
        return pd.DataFrame({"total": [float(len(left) + len(right))]})

    kept = Kept()
    frame = pd.DataFrame({"n": range(50)})
    result = going_on(meet, Kind("cogroup"), SUMS, kept)(frame, frame)
    assert result["total"].tolist() == [98.0]
    (part,) = kept.parts
    assert records(part) == [(0, (7,)), (1, (40,))]
    assert call_batch(lambda left, right: (len(left), len(right)), part) == (1, 1)


def test_a_part_may_fail_for_a_reason_of_its_own() -> None:
    def spread(frame: pd.DataFrame) -> pd.DataFrame:
        if len(frame) < 3:
            raise ValueError("too few")
        return pd.DataFrame({"total": [frame["text"].map(float).sum()]})

    kept = Kept()
    result = going_on(spread, Kind("group"), SUMS, kept)(pd.DataFrame({"text": ["1", "2", "3", "six", "5", "6", "7"]}))
    assert all("six" in error for error in kept.errors)
    assert "six" in kept.texts()
    assert len(kept.texts()) == 3  # what the function needs to fail on it
    assert len(result) == 1


def test_a_group_that_fails_throughout_is_given_up() -> None:
    kept = Kept()
    frame = pd.DataFrame({"text": ["bad"] * 400})
    assert len(going_on(lambda g: 1 / 0, Kind("group"), SUMS, kept)(frame)) == 0
    assert len(kept.parts) == MOST_PARTS + 1
    assert len(kept.texts()) == 400


def test_structs_and_keywords() -> None:
    def both(one: pd.Series, *, other: pd.Series) -> pd.DataFrame:
        return pd.DataFrame({"a": one.map(int), "b": other.map(int)})

    kept = Kept()
    returned = StructType().add("a", LongType()).add("b", LongType())
    run = going_on(both, Kind("scalar"), returned, kept)
    result = run(pd.Series(["1", "2", "3"]), other=pd.Series(["4", "six", "6"]))
    assert result["a"].tolist() == [1, None, 3]
    assert result["b"].tolist() == [4, None, 6]
    (part,) = kept.parts
    assert records(part) == [(0, ("2", "six"))]
    assert call_batch(lambda one, *, other: one[0] + other[0], part) == "2six"


@settings(max_examples=200, deadline=None)
@examples(st.integers(1, 60), st.data())
def test_the_smallest_part_is_what_is_needed(n: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=4))
    assert set(smallest(lambda p: needed <= set(p.tolist()), np.arange(n)).tolist()) == needed


def test_every_evaluation_type_is_known_or_has_state() -> None:
    from whence.spark.names import PythonEvalType

    there = {name: value for name, value in vars(PythonEvalType).items() if name.startswith("SQL_")}
    assert {name for name, value in there.items() if value not in KINDS and "STATE" not in name} == set()
