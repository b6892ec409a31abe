"""What the options of diagnose may be; anything else is refused in a sentence before the first run."""

from __future__ import annotations

from numbers import Integral, Real
from pathlib import Path

import numpy as np

from whence.debug.diagnose.errors import DiagnoseError


def require_number(name: str, value: object, what: str, least: int = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise DiagnoseError(f"{name} is a whole number {what}, not {value!r}.")
    if value < least:
        raise DiagnoseError(f"{name} must be at least {least}, not {value}.")


def require_callable(name: str, value: object, what: str) -> None:
    if value is not None and not callable(value):
        raise DiagnoseError(f"{name} is a function {what}, not {value!r}.")


def random_of(seed: object) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise DiagnoseError(f"seed is a whole number from 0 on, not {seed!r}.") from error


def noise_of(flaky: object, usual: float) -> float:
    """How often a run lies."""
    if isinstance(flaky, bool):
        return usual * flaky
    if not isinstance(flaky, Real) or not 0 <= float(flaky) < 0.5:
        raise DiagnoseError(f"flaky is True, or how often a run lies, from 0 to below 0.5, not {flaky!r}.")
    return float(flaky)


def require_timeout(timeout: object) -> None:
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, Real) or not float(timeout) > 0):
        raise DiagnoseError(f"timeout is a number of seconds above 0, not {timeout!r}.")


def require_path(store: object) -> None:
    if store is not None and not isinstance(store, str | Path):
        raise DiagnoseError(f"store is the path of a file that keeps the runs, not {store!r}.")
