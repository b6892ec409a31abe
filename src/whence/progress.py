"""Says what long work is doing. Whoever works calls `working`; what is shown, and where, is decided here."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

from whence.model.text import visible

_local = threading.local()


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner with one line of text while the block runs, on a terminal or in a notebook; silent elsewhere.

    The text is shown as it is. Nested work changes the text and gives it back."""
    what = visible(what)
    if getattr(_local, "status", None) is not None:
        before = _local.what
        _say(what)
        try:
            yield
        finally:
            _say(before)
        return
    if not _watched():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        _local.status, _local.below = status, []
        _say(what)
        try:
            yield
        finally:
            _local.status = None


def so_far(lines: Sequence[str]) -> None:
    """What is known already of what is worked out: it stands below the spinner, and is gone with it."""
    if getattr(_local, "status", None) is not None:
        _local.below = list(lines)
        _say(_local.what)


def _say(what: str) -> None:
    from rich.text import Text

    _local.what = what
    _local.status.update(Text("\n".join([what, *_local.below])))


def _watched() -> bool:
    """In a notebook a line that changes is a widget; where there are none, rich would warn instead of showing it."""
    if "ipykernel" in sys.modules:
        return find_spec("ipywidgets") is not None
    return sys.stderr.isatty()
