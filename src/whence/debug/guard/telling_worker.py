"""User functions that tell what they failed on, exchanged for the user's own while the query runs once more.

So every kind of function sees exactly what it saw in the job that failed: the same batches, groups and frames, the same
types. What is found is written to a directory that the driver reads, and the job fails again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from pyspark import TaskContext

from whence.debug.guard.batch_worker import Given, call_batch, failing_like, part, size, smallest_like, wrapped
from whence.debug.guard.findings_worker import Drop
from whence.debug.guard.kinds import Kind
from whence.debug.guard.worker import LastStarted, told
from whence.spark.names import SkipRestOfInputTableException

FOUND = ".found"


class _Task:
    """What one task has seen of one function."""

    def __init__(self, drop: Drop, dying: bool) -> None:
        context = TaskContext.get()
        self._drop = drop
        self.split = context.partitionId() if context else 0
        self.seen = 0  # records before those of this call
        self.last = LastStarted(drop if dying else None)

    def start(self, **found: Any) -> None:
        self.last.start(split=self.split, **found)

    def tell(self, error: BaseException, **found: Any) -> None:
        data = self._drop.findings.dumps({"split": self.split, **found, **told(error)})
        self._drop.files.write(data, uuid.uuid4().hex + FOUND)


def telling(function: Any, kind: Kind, drop: Drop, dying: bool) -> Any:
    """`dying`: the process did not live to raise anything, so what is touched is written down before."""
    tasks: list[_Task] = []  # made on the worker, where the function is unpickled for each task

    def task() -> _Task:
        if not tasks:
            tasks.append(_Task(drop, dying))
        return tasks[0]

    if kind.form == "row":
        return _telling_row(function, task)
    if kind.form == "table function":
        return _telling_class(function, task)

    def on_call(given: Given) -> Any:
        here = task()
        here.start(index=here.seen, given=given)
        try:
            result = call_batch(function, given)
        except Exception as error:
            _tell(here, function, given, error)
            raise
        here.seen += size(given)
        here.last.passed()
        return result

    def on_stream(batches: Iterable[Any], to_given: Callable[[Any], Given]) -> Iterator[Any]:
        here = task()
        taken: list[Any] = []

        def taking() -> Iterator[Any]:
            for batch in batches:
                here.seen += size(to_given(taken.pop())) if taken else 0
                taken.append(batch)
                if dying:
                    _one_by_one(here, function, to_given(batch))
                yield batch

        try:
            yield from function(taking())
        except Exception as error:
            if taken:
                _tell(here, function, to_given(taken[0]), error)
            else:
                here.tell(error, index=0, given=None, alone=False)
            raise

    return wrapped(function, kind, on_call, on_stream)


def _one_by_one(here: _Task, function: Any, given: Given) -> None:
    import numpy as np

    for n in range(size(given)):
        row = part(given, np.array([n]))
        here.start(index=here.seen + n, given=row)
        try:
            call_batch(function, row)
        except Exception:  # what is looked for here does not raise
            continue
    here.last.passed()


def _tell(here: _Task, function: Any, given: Given, error: BaseException) -> None:
    import numpy as np

    positions = np.arange(size(given))
    alone = failing_like(error, function, given)(positions) is not None
    if alone:
        positions, error = smallest_like(error, function, given, positions)
    index = here.seen + (int(positions[0]) if len(positions) else 0)
    here.tell(error, index=index, given=part(given, positions), alone=alone)


def _telling_row(function: Any, task: Callable[[], _Task]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        here = task()
        here.start(index=here.seen, args=list(args), kwargs=kwargs)
        try:
            result = function(*args, **kwargs)
        except SkipRestOfInputTableException:
            raise
        except Exception as error:
            here.tell(error, index=here.seen, args=list(args), kwargs=kwargs)
            raise
        here.seen += 1
        here.last.passed()
        return result

    return run


def _telling_class(handler: Any, task: Callable[[], _Task]) -> type:
    def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _telling_row(partial(rows_of, handler, self), task)(*args, **kwargs)

    return type(handler.__name__, (handler,), {"eval": evaluate})


def rows_of(handler: Any, instance: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """What `eval` gives, all of it: half of a row's results is not a result."""
    result = handler.eval(instance, *args, **kwargs)
    return [] if result is None else list(result)
