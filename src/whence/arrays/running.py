"""Calls an operator's `run`, on the driver or on an executor, and takes what it gives and writes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape
from whence.arrays.errors import ArrayError, OperatorFailed
from whence.arrays.operator import Mode, Operator, Place, at_place, label
from whence.arrays.written import Recorder, Written


@dataclass(frozen=True)
class Result:
    output: NDArray[Any]
    recorder: Recorder
    input_shapes: tuple[Shape, ...]
    seconds: float
    """What `run` took, writing lineage included."""

    def written(self) -> Written:
        return self.recorder.finish(self.input_shapes, self.output.shape)


def run_once(operator: Operator, name: str, inputs: Sequence[NDArray[Any]], modes: frozenset[Mode]) -> Result:
    where = f"{name} ({label(operator)})"
    shapes = tuple(array.shape for array in inputs)
    recorder = Recorder(modes, len(inputs), where)
    start = time.perf_counter()
    with at_place(operator, Place(shapes, None, recorder)):
        try:
            made = operator.run(*(read_only(array) for array in inputs), cur_modes=modes)
        except ArrayError as error:
            if where in str(error):
                raise
            told = ", ".join(map(str, shapes)) or "none"
            raise ArrayError(f"The operator {where} cannot run on inputs of shape {told}: {error}") from error
        except Exception as error:
            raise OperatorFailed(
                f"The operator {where} failed on inputs of shape {', '.join(map(str, shapes))}: "
                f"{type(error).__name__}: {error}"
            ) from error
    seconds = time.perf_counter() - start
    return Result(plain(made, f"What {where} gave"), recorder, shapes, seconds)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    view: NDArray[Any] = array.view()
    view.flags.writeable = False
    return view


def plain(made: Any, what: str) -> NDArray[Any]:
    """An array that can be kept as a file: of anything but Python objects.

    In C order, as files and chunks have it: sums of floats depend on the order, and a rerun must come to the same."""
    try:
        array = np.asarray(made, order="C")
    except Exception as error:
        told = str(error).rstrip(".")
        raise ArrayError(f"{what} cannot be made an array: {type(error).__name__}: {told}.") from error
    if isinstance(made, np.ma.MaskedArray) and np.ma.is_masked(made):
        raise ArrayError(
            f"{what} is a masked array with masked cells, which have no value that could be kept: give its filled(...)"
            ", and its mask as an array of its own where lineage goes through it."
        )
    if made is None or array.dtype.hasobject:
        kind = "None" if made is None else f"an array of Python objects ({type(made).__name__})"
        raise ArrayError(f"{what} is {kind}: whence keeps arrays of numbers, texts, times and records of these.")
    return array
