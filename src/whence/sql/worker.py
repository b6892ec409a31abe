"""All code of this room that runs on executors: wrappers around the user's functions that tell which rows they saw.

The module is sent by value, so executors need no whence; it imports nothing but what PySpark's own workers have.
"""

from __future__ import annotations

import inspect
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

# A pandas.DataFrame, pyarrow.RecordBatch or pyarrow.Table, whichever the user's function works on.
Batch: TypeAlias = Any
Function: TypeAlias = Callable[..., Any]

# How narrowly the rows behind an output row are known.
BY_ROW, BY_BATCH, BY_PARTITION, BY_RUN = 0, 1, 2, 3
# As an actor in the function tells: the rows that it names, or all that have such a name.
BY_NAME, BY_SHARED_NAME = 4, 5
INPUTS = "whence_inputs"
"""The one column behind output rows that holds lists."""

# Up to this many rows of a partition are given to the user's function one by one, the others in runs.
ONE_BY_ONE = 10_000
RUN = 100


def load(command: bytes) -> Function:
    """The user's function as PySpark pickled it; a large one travels as a broadcast."""
    from pyspark import Broadcast, cloudpickle

    value = cloudpickle.loads(command)
    if isinstance(value, Broadcast):
        value = cloudpickle.loads(value.value)
    function: Function = value[0]
    return function


# --- batches, the same way for pandas and Arrow


class PandasBatches:
    """`plain` is, for each input column, the dtype it has when no value is missing; None: whatever it is."""

    def __init__(self, plain: Sequence[str | None], names: Sequence[str], types: Sequence[Any]) -> None:
        self.plain = plain
        self.names = names
        self.types = types

    def split(self, batch: Batch, extra: int) -> tuple[Batch, list[list[int]]]:
        own = batch.iloc[:, : batch.shape[1] - extra].copy()
        return own, [batch.iloc[:, i].tolist() for i in range(batch.shape[1] - extra, batch.shape[1])]

    def length(self, batch: Batch) -> int:
        return len(batch)

    def again(self, batch: Batch) -> Batch:
        return batch.copy()

    def part(self, batch: Batch, start: int, stop: int) -> Batch:
        """Some rows as Spark would hand them over alone: a column of numbers without NULL is not a column of floats."""
        rows = batch.iloc[start:stop].reset_index(drop=True)
        columns = []
        for i, dtype in enumerate(self.plain):
            column = rows.iloc[:, i]
            if dtype is not None and column.dtype != dtype and column.notna().all():
                column = column.astype(dtype)
            columns.append(column)
        import pandas as pd

        result = pd.concat(columns, axis=1)
        result.columns = batch.columns
        return result

    def rows(self, out: Batch) -> list[str]:
        out = self._named(out)
        columns = []
        for i, kind in enumerate(self.types):
            series = out.iloc[:, i]
            try:
                columns.append(pa.array(series, type=kind, from_pandas=True).to_pylist())
            except Exception:  # PySpark may know a conversion that Arrow does not; the values themselves are compared
                columns.append(series.tolist())
        return [repr(row) for row in zip(*columns, strict=True)]

    def values(self, batch: Batch, names: Sequence[str], *, given: bool = False) -> list[Any] | None:
        """The values of these columns, row by row; of several as tuples. None where there are no such."""
        batch = self._named(batch) if given else batch
        names = list(batch.columns) if list(names) == ["*"] else names
        if not set(names) <= set(batch.columns):
            return None
        columns = [batch[name].tolist() for name in names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def add(self, out: Batch, columns: dict[str, list[Any]]) -> Batch:
        if out.shape[1] == 0:
            return out
        import pandas as pd

        out = self._named(out)
        more = {
            name: pd.Series(values, dtype=object) if name == INPUTS else pd.array(values, dtype="Int64")
            for name, values in columns.items()
        }
        return pd.concat([out.reset_index(drop=True), pd.DataFrame(more)], axis=1)

    def _named(self, out: Batch) -> Batch:
        """Columns in the declared order. PySpark goes by names if there is any, else by position."""
        if any(isinstance(name, str) for name in out.columns):
            return out[list(self.names)] if set(self.names) <= set(out.columns) else out
        out = out.iloc[:, : len(self.names)]
        out.columns = list(self.names)[: out.shape[1]]
        return out


class ArrowBatches:
    def split(self, batch: Batch, extra: int) -> tuple[Batch, list[list[int]]]:
        width = batch.num_columns - extra
        own = batch.select(list(range(width)))
        return own, [batch.column(i).to_pylist() for i in range(width, width + extra)]

    def length(self, batch: Batch) -> int:
        rows: int = batch.num_rows
        return rows

    def again(self, batch: Batch) -> Batch:
        return batch

    def part(self, batch: Batch, start: int, stop: int) -> Batch:
        return batch.slice(start, stop - start)

    def rows(self, out: Batch) -> list[str]:
        columns = [column.to_pylist() for column in out.columns]
        return [repr(row) for row in zip(*columns, strict=True)] if columns else [""] * out.num_rows

    def values(self, batch: Batch, names: Sequence[str], *, given: bool = False) -> list[Any] | None:
        names = batch.schema.names if list(names) == ["*"] else names
        if not set(names) <= set(batch.schema.names):
            return None
        columns = [batch.column(batch.schema.names.index(name)).to_pylist() for name in names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def add(self, out: Batch, columns: dict[str, list[Any]]) -> Batch:
        types = [pa.list_(pa.int64()) if name == INPUTS else pa.int64() for name in columns]
        arrays = [pa.array(values, type=kind) for values, kind in zip(columns.values(), types, strict=True)]
        if isinstance(out, pa.Table):
            for name, array in zip(columns, arrays, strict=True):
                out = out.append_column(name, array)
            return out
        fields = [*out.schema, *[pa.field(name, kind) for name, kind in zip(columns, types, strict=True)]]
        return pa.RecordBatch.from_arrays([*out.columns, *arrays], schema=pa.schema(fields))


Batches: TypeAlias = PandasBatches | ArrowBatches


# --- mapInPandas, mapInArrow


def map_with_intervals(
    command: bytes, batches: Batches, names: Sequence[str], one_by_one: int = ONE_BY_ONE
) -> Function:
    """The user's function with, behind each output row, the first and last input row it came from, and how it is known.

    The last input column numbers the rows. The function runs once over the whole partition: that is the truth. A second
    copy of it gets each batch, then each row, alone; as long as that gives the same rows, they came from there. After
    the first difference an output row comes from all rows that the function had taken by then."""

    def run(iterator: Iterator[Batch]) -> Iterator[Batch]:
        partition = _Partition(load(command), batches, one_by_one)
        for out in load(command)(partition.feed(iterator)):
            partition.came(out)
            yield from partition.ready(names)
        partition.end()
        yield from partition.ready(names)

    return run


def map_with_names(command: bytes, batches: Batches, names: Sequence[str]) -> Function:
    """The user's function, in which actors say which rows an output row came from; `names`: first and last input row,
    how it is known, the output's own number, and its inputs.

    Actors name rows by the values of some columns. A row that none of them named may come from all rows that the
    function had taken by then."""

    def run(iterator: Iterator[Batch]) -> Iterator[Batch]:
        import sys

        from pyspark import TaskContext

        function = load(command)
        listening: Any = sys.modules["whence.actors.worker"].Listening()
        rows: dict[Any, dict[Any, list[int]]] = {keys: {} for keys in listening.row_keys()}
        taken: list[int] = []

        def feed() -> Iterator[Batch]:
            for batch in iterator:
                own, (numbers,) = batches.split(batch, 1)
                taken.extend(numbers)
                for keys, known in rows.items():
                    for value, number in zip(batches.values(own, keys.inputs) or (), numbers, strict=False):
                        if value is not None:
                            known.setdefault(listening.name(value), []).append(number)
                yield own

        with listening:  # the function may tell of an output after it has given it, so all is waited for
            came = [(out, taken[0] if taken else None, taken[-1] if taken else None) for out in function(feed())]
        named = [[_names_in(batches, out, keys, listening) for keys in rows] for out, _, _ in came]
        times = Counter(name for found in named for column in found for name in column if name is not None)
        task: Any = TaskContext.get()
        number = task.partitionId() << 33
        for (out, first, last), found in zip(came, named, strict=True):
            marks = []
            for i in range(batches.length(out)):
                mine = [(keys, column[i]) for keys, column in zip(rows, found, strict=True) if column[i] is not None]
                marks.append((*_told_of(mine, rows, listening.told, times, (first, last)), number))
                number += 1
            columns = zip(*marks, strict=True) if marks else [()] * len(names)
            yield batches.add(out, {name: list(values) for name, values in zip(names, columns, strict=True)})

    return run


def _names_in(batches: Batches, out: Batch, keys: Any, listening: Any) -> list[Any]:
    values = batches.values(out, keys.outputs, given=True)
    if values is None:
        return [None] * batches.length(out)
    return [None if value is None else (keys, listening.name(value)) for value in values]


def _told_of(
    mine: list[tuple[Any, Any]],
    rows: dict[Any, dict[Any, list[int]]],
    told: dict[Any, Any],
    times: Counter[Any],
    taken: tuple[int | None, int | None],
) -> tuple[int | None, int | None, int, list[int] | None]:
    """First and last input row, how that is known, and all of them."""
    found: dict[int, None] = {}
    shared = known = False
    for keys, name in mine:
        inputs = told[keys].inputs_of.get(name[1]) if keys in told else None
        if inputs is None:
            continue
        known = True
        shared = shared or times[name] > 1
        for one in inputs:
            numbers = rows[keys].get(one)
            if numbers is None:  # it names no row: whatever it is, the actor does not say where it came from
                return (*taken, BY_PARTITION, None)
            shared = shared or len(numbers) > 1
            found.update(dict.fromkeys(numbers))
    if not known:
        return (*taken, BY_PARTITION, None)
    numbers = sorted(found)
    ends = (numbers[0], numbers[-1]) if numbers else (None, None)
    return (*ends, BY_SHARED_NAME if shared else BY_NAME, numbers)


class _Partition:
    def __init__(self, function: Function, batches: Batches, one_by_one: int) -> None:
        self._function = function
        self._batches = batches
        self._left = one_by_one
        self._first: int | None = None
        self._last: int | None = None
        self._aligned = True
        self._untested: deque[tuple[Batch, list[int]]] = deque()
        self._alone: list[str] | None = None  # what the oldest untested batch gives alone
        self._out: deque[tuple[Batch, int]] = deque()  # output batches not yet given on, with their lengths
        # Rows whose origin is not known yet: the row, and all that the function had taken when it gave it.
        self._rows: deque[tuple[str, int | None, int | None]] = deque()
        self._known: deque[tuple[int | None, int | None, int]] = deque()

    def feed(self, iterator: Iterator[Batch]) -> Iterator[Batch]:
        for batch in iterator:
            own, (numbers,) = self._batches.split(batch, 1)
            if numbers:
                self._first = numbers[0] if self._first is None else self._first
                self._last = numbers[-1]
                if self._aligned:
                    self._untested.append((own, numbers))
            yield self._batches.again(own)

    def came(self, out: Batch) -> None:
        self._out.append((out, self._batches.length(out)))
        self._rows.extend((row, self._first, self._last) for row in self._batches.rows(out))
        self._match(ended=False)

    def end(self) -> None:
        self._match(ended=True)
        self._aligned = False
        self._give_up()

    def ready(self, names: Sequence[str]) -> Iterator[Batch]:
        while self._out and self._out[0][1] <= len(self._known):
            out, length = self._out.popleft()
            marks = [self._known.popleft() for _ in range(length)]
            yield self._batches.add(out, {name: [m[i] for m in marks] for i, name in enumerate(names)})

    def _match(self, ended: bool) -> None:
        while self._aligned and self._untested:
            own, numbers = self._untested[0]
            if self._alone is None:
                alone = self._call(self._batches.again(own))
                if alone is None:
                    self._aligned = False
                    break
                self._alone = alone
            if len(self._rows) < len(self._alone):
                if ended:
                    self._aligned = False
                break
            came = [self._rows[i][0] for i in range(len(self._alone))]
            if Counter(came) != Counter(self._alone):
                self._aligned = False
                break
            self._known.extend(self._origins(own, numbers, came))
            for _ in came:
                self._rows.popleft()
            self._untested.popleft()
            self._alone = None
        if not self._aligned:
            self._give_up()

    def _give_up(self) -> None:
        self._untested.clear()
        while self._rows:
            _, first, last = self._rows.popleft()
            self._known.append((first, last, BY_ROW if first == last else BY_PARTITION))

    def _origins(self, own: Batch, numbers: list[int], came: list[str]) -> list[tuple[int, int, int]]:
        whole = (numbers[0], numbers[-1])
        if len(numbers) == 1 or not came:
            return [(*whole, BY_ROW)] * len(came)
        size = 1
        if len(numbers) > self._left:
            size = RUN
        else:
            self._left -= len(numbers)
        found = self._origins_in_parts(own, numbers, came, size)
        return [(*whole, BY_BATCH)] * len(came) if found is None else found

    def _origins_in_parts(
        self, own: Batch, numbers: list[int], came: list[str], size: int
    ) -> list[tuple[int, int, int]] | None:
        """None if the parts, each alone, do not give what came. Equal rows are interchangeable, so any of them fits."""
        open_rows = Counter(came)
        found: dict[str, deque[tuple[int, int, int]]] = {}
        for start in range(0, len(numbers), size):
            part = numbers[start : start + size]
            rows = self._call(self._batches.part(own, start, start + size))
            if rows is None:
                return None
            for row in rows:
                open_rows[row] -= 1
                if open_rows[row] < 0:
                    return None
                found.setdefault(row, deque()).append((part[0], part[-1], BY_ROW if len(part) == 1 else BY_RUN))
        if any(open_rows.values()):
            return None
        return [found[row].popleft() for row in came]

    def _call(self, batch: Batch) -> list[str] | None:
        """The rows the function gives for this batch alone; None if it fails there."""
        try:
            return [row for out in self._function(iter([batch])) for row in self._batches.rows(out)]
        except Exception:
            return None


# --- applyInPandas, applyInArrow


def grouped(command: bytes, batches: Batches, names: Sequence[str]) -> Function:
    """The user's function with the group's identity, which the last input columns hold, behind each output row."""
    loaded: list[tuple[Function, int]] = []

    def run(key: Any, group: Batch) -> Batch:
        function, arity = _once(loaded, command)
        own, ids = batches.split(group, len(names))
        out = function(own) if arity == 1 else function(key, own)
        return _with_ids(batches, out, names, ids)

    return run


def grouped_iterator(command: bytes, batches: Batches, names: Sequence[str]) -> Function:
    """The same for a function that takes and gives a group batch by batch."""
    loaded: list[tuple[Function, int]] = []

    def run(key: Any, group: Iterator[Batch]) -> Iterator[Batch]:
        function, arity = _once(loaded, command)
        first, ids = batches.split(next(group), len(names))

        def own() -> Iterator[Batch]:
            yield first
            for batch in group:
                yield batches.split(batch, len(names))[0]

        for out in function(own()) if arity == 1 else function(key, own()):
            yield _with_ids(batches, out, names, ids)

    return run


def cogrouped(command: bytes, batches: Batches, names: Sequence[str]) -> Function:
    """`names` are those of the left group's identity, then those of the right group's; NULL where a side is empty."""
    loaded: list[tuple[Function, int]] = []
    half = len(names) // 2

    def run(key: Any, left: Batch, right: Batch) -> Batch:
        function, arity = _once(loaded, command)
        own_left, left_ids = batches.split(left, half)
        own_right, right_ids = batches.split(right, half)
        out = function(own_left, own_right) if arity == 2 else function(key, own_left, own_right)
        return _with_ids(batches, out, names, [*left_ids, *right_ids])

    return run


def _once(loaded: list[tuple[Function, int]], command: bytes) -> tuple[Function, int]:
    if not loaded:
        function = load(command)
        loaded.append((function, len(inspect.getfullargspec(function).args)))
    return loaded[0]


def _with_ids(batches: Batches, out: Batch, names: Sequence[str], ids: list[list[int]]) -> Batch:
    length = batches.length(out)
    return batches.add(out, {n: [values[0] if values else None] * length for n, values in zip(names, ids, strict=True)})
