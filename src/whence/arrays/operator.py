"""What an operator promises about its lineage (SubZero, table I). Users subclass `Operator`.

The runtime tells an operator its shapes, and takes what it writes, through the context: so one instance may stand at
several nodes, in several runs and in several threads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape
from whence.arrays.errors import ArrayError


class Mode(str, Enum):
    FULL = "full"
    MAP = "map"
    PAY = "pay"
    COMP = "comp"
    BLACKBOX = "blackbox"


class Writer(Protocol):
    """Takes what an operator writes while it runs."""

    def region(self, outcells: Any, incells: tuple[Any, ...], payload: Any) -> None: ...

    def many(self, outcells: Any, incells: Any, i: int, payload: Any) -> None: ...


@dataclass(frozen=True)
class Place:
    """The node and run that an operator is called for."""

    input_shapes: tuple[Shape, ...]
    output_shape: Shape | None = None
    writer: Writer | None = None


_place: ContextVar[Place | None] = ContextVar("whence array operator", default=None)

# A user's operator may start threads of its own, which do not inherit the context: they find their writer here.
_writers: dict[int, list[Writer]] = {}
_writers_lock = threading.Lock()


@contextmanager
def at_place(operator: Operator, place: Place) -> Iterator[None]:
    """Within, `operator` (and what it calls) has these shapes and this writer."""
    before = _place.set(place)
    if place.writer is not None:
        with _writers_lock:
            _writers.setdefault(id(operator), []).append(place.writer)
    try:
        yield
    finally:
        _place.reset(before)
        if place.writer is not None:
            with _writers_lock:
                held = _writers[id(operator)]
                held.remove(place.writer)
                if not held:
                    del _writers[id(operator)]


class Operator:
    name: str | None = None
    """None: the class's name."""
    entire_array: bool = False
    """True promises: the whole output depends on all of every input, and each whole input reaches all of the output."""
    halo: int | None = None
    """r: the output has its inputs' shape, and `run` may be called per chunk widened by r cells."""

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no run(*inputs, cur_modes).")

    def supported_modes(self) -> set[Mode]:
        return set()

    def map_b(self, outcell: tuple[int, ...], i: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no map_b.")

    def map_f(self, incell: tuple[int, ...], i: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no map_f.")

    def map_p(self, outcell: tuple[int, ...], payload: Any, i: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no map_p.")

    def map_b_many(self, outcells: NDArray[np.int64], i: int) -> tuple[Any, Any]:
        raise NotImplementedError(f"{type(self).__name__} has no map_b_many.")

    def map_f_many(self, incells: NDArray[np.int64], i: int) -> tuple[Any, Any]:
        raise NotImplementedError(f"{type(self).__name__} has no map_f_many.")

    def map_p_many(self, outcells: NDArray[np.int64], payloads: Any, i: int) -> tuple[Any, Any]:
        raise NotImplementedError(f"{type(self).__name__} has no map_p_many.")

    # --- for run

    def lwrite(self, outcells: Any, *incells: Any, payload: Any = None) -> None:
        """All of `outcells` depend on all of `incells`, one argument for each input; or on what `payload` says."""
        writer = _writer_for(self)
        if writer is None:
            return
        if payload is None and len(incells) == 1 and isinstance(incells[0], (bytes, str, int, float, np.generic)):
            writer.region(outcells, (), incells[0])
        else:
            writer.region(outcells, incells, payload)

    def lwrite_many(self, outcells: Any, incells: Any = None, i: int = 0, payload: Any = None) -> None:
        """Row k of `outcells` depends on row k of `incells` in input i, or on what `payload[k]` says."""
        writer = _writer_for(self)
        if writer is not None:
            writer.many(outcells, incells, i, payload)

    # --- where it stands, during calls

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        return self._at().input_shapes

    @property
    def output_shape(self) -> Shape:
        shape = self._at().output_shape
        if shape is None:
            raise AttributeError(f"The output shape of {label(self)} is not known before run has returned.")
        return shape

    def _at(self) -> Place:
        place = _place.get()
        if place is None:
            raise AttributeError(f"{label(self)} knows its shapes only while a run or a query calls it.")
        return place


def _writer_for(operator: Operator) -> Writer | None:
    place = _place.get()
    if place is not None:
        return place.writer
    held = _writers.get(id(operator))
    return held[-1] if held else None


def label(operator: Operator) -> str:
    return operator.name or type(operator).__name__


def modes_of(operator: Operator) -> frozenset[Mode]:
    """What it supports, with what follows: MAP implies FULL, and BLACKBOX always goes."""
    supported: Iterable[Any] = operator.supported_modes() or ()
    try:
        modes = {Mode(mode) for mode in supported}
    except (TypeError, ValueError) as error:
        known = ", ".join(mode.name for mode in Mode)
        raise ArrayError(
            f"supported_modes of the operator {label(operator)} gave {supported!r}: it gives a set of modes, which are "
            f"{known}."
        ) from error
    if Mode.MAP in modes:
        modes.add(Mode.FULL)
    return frozenset(modes | {Mode.BLACKBOX})


def has(operator: Operator, method: str) -> bool:
    """Whether the user's class brings this method."""
    return getattr(type(operator), method, None) is not getattr(Operator, method)
