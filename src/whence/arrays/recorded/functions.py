"""What an ndarray has as a method or an operator alone, as functions, so that it can be recorded like all others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def getitem(a: NDArray[Any], key: Any) -> Any:
    return a[key]


def flatten(a: NDArray[Any], order: Any = "C") -> NDArray[Any]:
    return a.flatten(order)


def astype(
    a: NDArray[Any], dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: Any = True, copy: Any = True
) -> NDArray[Any]:
    return a.astype(dtype, order, casting, subok, copy)


def identity(a: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(a)
