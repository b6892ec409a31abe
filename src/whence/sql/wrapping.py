"""PySpark's methods, wrapped for as long as a capture is open.

The classes are those of the whole process, and so is what is kept here: each method is wrapped once, by whoever opens
first, and gets back what it was when the last one leaves, in whatever order threads come and go.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

Method = tuple[type, str]


class Around(Protocol):
    """What is open: says whether an object is its own, and has a method for every kind of call."""

    def is_ours(self, this: Any) -> bool: ...


class Wrapping:
    """`methods`: for each method of a class, the name of the method of an `Around` that is called instead."""

    def __init__(self, methods: Mapping[Method, str]) -> None:
        self._methods = methods
        self._lock = threading.Lock()
        self._open: list[tuple[int, Around]] = []
        self._undo: list[tuple[type, str, Any, Any]] = []
        self._here = threading.local()

    @contextmanager
    def opened(self, around: Around, more: Mapping[Method, str] | None = None) -> Iterator[None]:
        """`more`: methods of classes that are there in this process only."""
        entry = (threading.get_ident(), around)
        with self._lock:
            wrapped = {(owner, name) for owner, name, _, _ in self._undo}
            for (owner, name), instead in {**self._methods, **(more or {})}.items():
                if (owner, name) not in wrapped:
                    self._wrap(owner, name, instead)
            self._open.append(entry)
        try:
            yield
        finally:
            with self._lock:
                self._open.remove(entry)
                if not self._open:
                    self._unwrap()

    def _chosen(self, this: Any) -> Around | None:
        """The capture that this thread opened last; in a thread that has none, the one that was opened last."""
        if getattr(self._here, "inside", False):
            return None
        ours = [(thread, around) for thread, around in list(self._open) if around.is_ours(this)]
        mine = [around for thread, around in ours if thread == threading.get_ident()]
        found = mine or [around for _, around in ours]
        return found[-1] if found else None

    def _wrap(self, owner: type, name: str, instead: str) -> None:
        method = getattr(owner, name)

        @functools.wraps(method)
        def wrapper(this: Any, *args: Any, **options: Any) -> Any:
            around = self._chosen(this)
            if around is None:
                return method(this, *args, **options)
            call: Callable[..., Any] = getattr(around, instead)
            self._here.inside = True
            try:
                return call(method, this, *args, **options)
            finally:
                self._here.inside = False

        self._undo.append((owner, name, wrapper, owner.__dict__.get(name)))
        setattr(owner, name, wrapper)

    def _unwrap(self) -> None:
        for owner, name, wrapper, before in reversed(self._undo):
            if owner.__dict__.get(name) is not wrapper:
                continue  # somebody wrapped it again: ours just passes on
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        self._undo.clear()
