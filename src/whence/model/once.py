"""What is worked out when it is first asked for, and then kept: once, whichever thread asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801  it reads as a decorator, like property
    """Like functools.cached_property, whose lock is one for all objects of a class up to Python 3.11, so that two
    threads wait for each other's traces, and none from 3.12 on, so that both work out the same. Here every object has a
    lock of its own."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, holder: None, owner: type | None = None) -> once[T]: ...

    @overload
    def __get__(self, holder: object, owner: type | None = None) -> T: ...

    def __get__(self, holder: Any, owner: type | None = None) -> once[T] | T:
        if holder is None:
            return self
        kept = vars(holder)  # once it is in here, Python finds it without asking this descriptor
        with kept.setdefault("_once", threading.RLock()):
            if self._name not in kept:
                kept[self._name] = self._work_out(holder)
            found: T = kept[self._name]
            return found
