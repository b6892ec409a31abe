"""Says what long work is doing. Whoever works calls `working`; what is shown, and where, is decided here."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from whence.model.text import visible

_local = threading.local()


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner with one line of text while the block runs, on a terminal or in a notebook; silent elsewhere.

    The text is shown as it is. Nested work changes the text and gives it back."""
    what = visible(what).replace("[", r"\[")  # rich reads it as markup
    status = getattr(_local, "status", None)
    if status is not None:
        before = status.status
        status.update(what)
        try:
            yield
        finally:
            status.update(before)
        return
    if not _watched():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        _local.status = status
        try:
            yield
        finally:
            _local.status = None


def _watched() -> bool:
    """In a notebook a line that changes is a widget; where there are none, rich would warn instead of showing it."""
    if "ipykernel" in sys.modules:
        return find_spec("ipywidgets") is not None
    return sys.stderr.isatty()
