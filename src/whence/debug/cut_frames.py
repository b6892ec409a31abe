"""In a notebook, an error of whence's own is shown with the user's lines alone: what is to be done stands in its
sentence, not in the frames between."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from whence.model import WhenceError

_OURS = str(Path(__file__).resolve().parents[1]) + "/"
_BETWEEN = ("/pyspark/", "/py4j/")


def cut_frames() -> None:
    """Where this process is a notebook's, and nobody shows errors in a way of their own."""
    notebook = sys.modules.get("IPython")
    shell = notebook.get_ipython() if notebook is not None else None
    if shell is not None and not getattr(shell, "custom_exceptions", ()):
        shell.set_custom_exc((WhenceError,), _shown)


def _shown(shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, tb_offset: Any) -> None:
    cause, hidden = error.__cause__, error.__suppress_context__
    error.__cause__, error.__suppress_context__ = None, True
    try:
        shell.showtraceback((kind, error, of_the_user(trace)), tb_offset=tb_offset)
    finally:
        error.__cause__, error.__suppress_context__ = cause, hidden


def of_the_user(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of whence and of what it calls."""
    frames: list[TracebackType] = []
    at = trace
    while at is not None:
        name = at.tb_frame.f_code.co_filename
        if not name.startswith(_OURS) and not any(part in name for part in _BETWEEN):
            frames.append(at)
        at = at.tb_next
    kept: TracebackType | None = None
    for one in reversed(frames):
        kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept or trace
