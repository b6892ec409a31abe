"""Runs: what was tried and how it ended, whatever form the caller has them in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np

from whence.debug.diagnose.errors import Contradiction, DiagnoseError
from whence.debug.diagnose.space import Codes, Config, Space
from whence.model.redact import redact

FAILED = "failed"  # the kind of a failure that left no error


@dataclass(frozen=True)
class Run:
    """`error` tells kinds of failure apart; `source` is "history", "run" or "told"; `purpose` why it was made."""

    config: Config
    succeeded: bool
    error: str | None = None
    seconds: float | None = None
    source: str = "history"
    purpose: str = ""


@dataclass(frozen=True)
class Outcome:
    succeeded: bool
    error: str | None = None
    seconds: float = 0.0
    broken: str | None = None  # the caller's evaluate function itself raised


def as_run(item: object) -> Run:
    if isinstance(item, Run):
        return item
    if isinstance(item, tuple | list) and len(item) in (2, 3) and isinstance(item[0], Mapping):
        error = str(item[2]) if len(item) == 3 and item[2] is not None else None
        return Run(dict(item[0]), has_succeeded(item[1]), error)
    raise DiagnoseError(
        f"A run of the history must be a pair (configuration, succeeded), not {item!r}. For files and trackers use "
        "whence.debug.diagnose.sources (from_file, from_optuna, from_mlflow)."
    )


def has_succeeded(outcome: object) -> bool:
    """Only what says so: "failed" is a text like any other, and no text is False."""
    if isinstance(outcome, bool | np.bool_) or (isinstance(outcome, Real) and outcome in (0, 1)):
        return bool(outcome)
    raise DiagnoseError(
        f"The outcome {outcome!r} of a run says neither success nor failure. Give True where it succeeded, False where "
        "it failed."
    )


def check_agreement(runs: Iterable[tuple[Codes, Run]], space: Space) -> None:
    seen: dict[Codes, tuple[int, bool]] = {}
    for number, (codes, run) in enumerate(runs):
        first = seen.setdefault(codes, (number, run.succeeded))
        if first[1] != run.succeeded:
            raise Contradiction(
                f"Runs {first[0]} and {number} of the history have the same configuration {space.decode(codes)!r}, but "
                "one succeeded and one failed. If the pipeline is not deterministic, say flaky=True; else remove one."
            )


_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def error_text(error: BaseException) -> str:
    """Without secrets: it is kept in files, and shown."""
    try:
        message = str(error)
    except Exception:  # the user's own class may fail at that, too
        message = "(its message cannot be shown)"
    return redact(f"{type(error).__name__}: {message}")


@lru_cache(maxsize=4096)
def kind_of(error: str | None, coarseness: int) -> str:
    """0: type and message without the parts that change from run to run; 1: type only; 2: failed or not."""
    if error is None or coarseness >= 2:
        return FAILED
    head = error.split(":", 1)[0].strip()
    if coarseness == 1:
        return head
    return _NUMBERS.sub("#", _QUOTED.sub("'...'", error.splitlines()[0] if error else ""))[:200]


def group_kinds(errors: Iterable[str | None], most: int = 4) -> int:
    """The finest grouping of errors that leaves at most `most` kinds."""
    texts: list[Any] = list(errors)
    for coarseness in (0, 1):
        if len({kind_of(e, coarseness) for e in texts}) <= most:
            return coarseness
    return 2
