"""What runs on executors to find the record that makes user code fail. Plain values in, pickled findings out."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyspark import TaskContext
from pyspark import cloudpickle as _cloudpickle

from whence.debug.guard.findings_worker import Drop
from whence.store import LocalFiles

Found = dict[str, Any]
cloudpickle: Any = _cloudpickle  # untyped


class LastStarted:
    """Where a task writes each record down before it touches it, so that it is known should the process die."""

    def __init__(self, drop: Drop | None) -> None:
        self._file: int | None = None
        self._drop = drop
        if drop is not None:
            context = TaskContext.get()
            self._name = f"{context.partitionId() if context else 0}.last"
            if isinstance(drop.files, LocalFiles):
                self._file = os.open(drop.files.path(self._name), os.O_CREAT | os.O_WRONLY, 0o600)

    def start(self, **found: Any) -> None:
        if self._drop is None:
            return
        data = self._drop.findings.dumps(found)
        data = len(data).to_bytes(8, "little") + data
        if self._file is not None:
            os.pwrite(self._file, data, 0)  # no fsync: what the kernel has outlives the process
        else:
            self._drop.files.write(data, self._name)

    def passed(self) -> None:
        """The record was no trouble, and another may not follow."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
        elif self._drop is not None:
            self._drop.files.write(b"", self._name)

    def survived(self) -> None:
        if self._drop is None:
            return
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._drop.files.delete(self._name)
        self._drop = None


def read_last(data: bytes, drop: Drop) -> Found:
    found: Found = drop.findings.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return found


def _tell_calls(function: Any, tell: Callable[[Any, tuple[Any, ...]], None]) -> None:
    """Make PySpark's wrapper around user functions tell of every call. The functions were pickled by value, so their
    globals are theirs alone."""

    def telling(user: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            tell(user, args)
            return user(*args, **kwargs)

        return wrapper

    in_wrappers(function, fail_on_stopiteration=telling)


def in_wrappers(function: Any, **names: Any) -> None:
    """Give these names another meaning in PySpark's wrappers around user functions, wherever `function` holds one."""
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        found = waiting.pop()
        if id(found) in seen or not callable(found):
            continue
        seen.add(id(found))
        if "fail_on_stopiteration" in getattr(found, "__globals__", {}):
            found.__globals__.update(names)
        for cell in getattr(found, "__closure__", None) or ():
            try:
                waiting.append(cell.cell_contents)
            except ValueError:
                continue


def unwrapped(function: Any) -> Any:
    """The user's function in PySpark's wrapper."""
    if getattr(function, "__qualname__", "") != "fail_on_stopiteration.<locals>.wrapper":
        return function
    return next((c.cell_contents for c in function.__closure__ or () if callable(c.cell_contents)), function)


def aggregators(function: Any) -> Iterator[Any]:
    """PySpark's combiners (an Aggregator each) that a stage's function holds."""
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if hasattr(found, "mergeValue") and hasattr(found, "mergeCombiners"):
            yield found
        for cell in getattr(found, "__closure__", None) or ():
            try:
                waiting.append(cell.cell_contents)
            except ValueError:
                continue


_COMBINING = ("createCombiner", "mergeValue", "mergeCombiners")


def _tell_combining(function: Any, failed: list[Any]) -> None:
    """What a combiner fails on are the values that it was to combine, not the record that was read last."""

    def telling(user: Any) -> Callable[..., Any]:
        def combine(*values: Any) -> Any:
            try:
                return user(*values)
            except Exception:
                failed[:] = [unwrapped(user), list(values)]
                raise

        return combine

    for combiner in aggregators(function):
        for name in _COMBINING:
            setattr(combiner, name, telling(getattr(combiner, name)))


def record_like(value: Any, part: int | None) -> Callable[[Any], bool]:
    """A filter for records that are, or whose part is, this value: values need not be comparable."""
    text = repr(value)

    def same(record: Any) -> bool:
        return repr(record if part is None else record[part]) == text

    return same


def user_call(error: BaseException) -> tuple[Any, tuple[Any, ...]] | None:
    """The innermost user function that PySpark called with a record, and its arguments, from the traceback."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        values = frame.f_locals
        if frame.f_code.co_name == "wrapper" and "args" in values and "f" in values:
            found = _own(values["f"], tuple(values["args"]))
    return found


def _own(function: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The user's function and what it is given, where PySpark makes a function of records of one of their parts."""
    name = getattr(function, "__qualname__", "")
    if not name.startswith("RDD.") or "/pyspark/" not in getattr(function, "__code__", function).co_filename:
        return function, args
    inner = [cell.cell_contents for cell in function.__closure__ or () if callable(cell.cell_contents)]
    if len(inner) != 1 or not name.startswith(("RDD.mapValues.", "RDD.flatMapValues.", "RDD.keyBy.")):
        return function, args
    return inner[0], args if name.startswith("RDD.keyBy.") else (args[0][1],)


def told(error: BaseException) -> Found:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    try:
        cloudpickle.dumps(error)
        kept: BaseException | None = error.with_traceback(None)
    except Exception:
        kept = None
    return {"error": f"{type(error).__name__}: {error}", "traceback": "".join(lines), "exception": kept}


def _skipped(split: int, wanted: int | None) -> bool:
    return wanted is not None and split != wanted


def row_locator(
    function: Callable[..., Any], names: Sequence[str | None], wanted: int | None, crashes: Drop | None
) -> Callable[[int, Iterable[Any]], Iterator[bytes]]:
    """For functions of one row: calls it on each until it fails."""

    def locate(split: int, rows: Iterable[Any]) -> Iterator[bytes]:
        if _skipped(split, wanted):
            return
        if crashes is None and not any(names):
            yield from _until_it_fails(function, split, rows)
            return
        last = LastStarted(crashes)
        for index, row in enumerate(rows):
            args = [v for v, n in zip(row, names, strict=True) if n is None]
            kwargs = {n: v for v, n in zip(row, names, strict=True) if n is not None}
            last.start(split=split, index=index, args=args, kwargs=kwargs)
            try:
                function(*args, **kwargs)
            except Exception as error:
                yield cloudpickle.dumps({"split": split, "index": index, "args": args, "kwargs": kwargs, **told(error)})
                return
        last.survived()

    return locate


def arrow_locator(
    function: Callable[..., Any], names: Sequence[str | None], wanted: int | None, crashes: Drop | None
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The same, as an argument of mapInArrow, whose rows come several times faster; gives rows (found binary)."""
    locate = row_locator(function, names, wanted, crashes)

    def batches(given: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        context = TaskContext.get()
        rows = (row for batch in given for row in _rows(batch))
        for found in locate(context.partitionId() if context else 0, rows):
            yield pa.RecordBatch.from_arrays([pa.array([found], pa.binary())], ["found"])

    return batches


def _rows(batch: Any) -> Iterable[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _until_it_fails(function: Callable[..., Any], split: int, rows: Iterable[Any]) -> Iterator[bytes]:
    """The way of most searches, over millions of rows: nothing in the loop but the call."""
    index, row = -1, ()
    try:
        for index, row in enumerate(rows):  # noqa: B007
            function(*row)
    except Exception as error:
        yield cloudpickle.dumps({"split": split, "index": index, "args": list(row), "kwargs": {}, **told(error)})


def pipeline_locator(
    function: Callable[[int, Iterator[Any]], Iterable[Any]], wanted: int | None, crashes: Drop | None
) -> Callable[[int, Iterable[Any]], Iterator[bytes]]:
    """For the functions of an RDD's stage: runs them over records that are counted as they are taken."""

    def locate(split: int, records: Iterable[Any]) -> Iterator[bytes]:
        if _skipped(split, wanted):
            return
        last = LastStarted(crashes)
        taken: list[Any] = [-1, None]

        def counted() -> Iterator[Any]:
            for index, record in enumerate(records):
                taken[:] = index, record
                last.start(split=split, index=index, record=record)
                yield record

        def tell(user: Any, args: tuple[Any, ...]) -> None:
            calls[0] += 1
            index = taken[0] if taken[0] >= 0 else calls[0]
            last.start(split=split, index=index, record=taken[1], function=user, args=list(args))

        calls = [-1]
        combining: list[Any] = []
        _tell_combining(function, combining)
        if crashes is not None:
            _tell_calls(function, tell)
        try:
            for _ in function(split, counted()):
                pass
        except Exception as error:
            call = user_call(error)  # before the traceback is dropped
            found: Found = {"split": split, "index": taken[0], "record": taken[1], **told(error)}
            if combining:
                found["function"], found["args"] = combining
            elif call is not None:
                found["function"], found["args"] = call[0], list(call[1])
            yield cloudpickle.dumps(found)
            return
        last.survived()

    return locate


def loads(data: bytes) -> Found:
    found: Found = pickle.loads(data)
    return found
