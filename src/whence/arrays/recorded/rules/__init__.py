"""Which rule follows which function: one table, numpy's functions by their names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.lib.stride_tricks

from whence.arrays.recorded import functions
from whence.arrays.recorded.operand import Rule
from whence.arrays.recorded.rules import choosing, elementwise, moving, products, reductions, windows
from whence.arrays.recorded.rules.indexing import getitem
from whence.arrays.recorded.rules.names import found, names

KINDS = {
    "cell by cell": elementwise.RULES,
    "moving": moving.RULES,
    "along lanes": reductions.RULES,
    "neighbours": windows.RULES,
    "linear algebra": products.RULES,
    "by value": choosing.RULES,
}
RULES: dict[str, Rule] = {name: rule for rules in KINDS.values() for name, rule in rules.items()}

OWN: dict[Callable[..., Any], Rule] = {
    functions.getitem: getitem,
    functions.flatten: moving.reshaping,
    functions.astype: elementwise.elementwise,
    functions.identity: elementwise.elementwise,
}

CELL_BY_CELL = (elementwise.elementwise,)

# What numpy says of an array without looking at its cells, and what only shows or saves them.
PLAIN = frozenset(
    names(
        "shape ndim size result_type can_cast common_type iscomplexobj isrealobj min_scalar_type array_repr array_str "
        "array2string einsum_path save savez savez_compressed savetxt"
    )
)

_WRITES = "it changes its argument in place; recorded arrays do not change, so use a function that gives a new one"
REASONS: dict[str, str] = {
    **dict.fromkeys(names("copyto fill_diagonal place put put_along_axis putmask at"), _WRITES),
    "empty_like": "its cells have no value; use np.zeros_like",
    "piecewise": "it calls functions on parts of the array; use np.select or np.where",
    "may_share_memory": "recorded arrays do not share memory",
    "shares_memory": "recorded arrays do not share memory",
}


@cache
def _table() -> dict[Callable[..., Any], Rule]:
    # Several names may stand for one function (max and amax).
    return {found(name): rule for name, rule in RULES.items() if found(name) is not None} | OWN


def rule_of(function: Callable[..., Any]) -> Rule | None:
    return _table().get(function)


@cache
def is_plain(function: Callable[..., Any]) -> bool:
    return any(function is getattr(np, name, None) for name in PLAIN)


def refusal(name: str, function: Callable[..., Any]) -> str:
    reason = REASONS.get(name.rpartition(".")[2], "whence has no rule for where its cells come from")
    return f"{name} cannot be followed: {reason}. For its value alone, give it np.asarray(x)."


def _stack(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> None: ...


def _two(a: Any, b: Any, /, out: Any = None) -> None: ...


def _where(condition: Any, x: Any = None, y: Any = None, /) -> None: ...


def _keys(keys: Any, axis: Any = -1) -> None: ...


def _counts(x: Any, /, weights: Any = None, minlength: Any = 0) -> None: ...


def _bits(a: Any, /, axis: Any = None, bitorder: Any = "big") -> None: ...


def _unbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: Any = "big") -> None: ...


def _place(indices: Any, shape: Any, order: Any = "C") -> None: ...


def _day(dates: Any, weekmask: Any = "", holidays: Any = None, busdaycal: Any = None, out: Any = None) -> None: ...


def _day_count(
    begindates: Any, enddates: Any, weekmask: Any = "", holidays: Any = (), busdaycal: Any = None
) -> None: ...


def _day_offset(dates: Any, offsets: Any, roll: Any = "", weekmask: Any = "", holidays: Any = None) -> None: ...


def _day_text(arr: Any, unit: Any = None, timezone: Any = "naive", casting: Any = "same_kind") -> None: ...


def _number(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> None: ...


# The parameters of numpy's functions in C, where numpy itself does not tell them.
PARAMETERS: dict[str, Callable[..., Any]] = {
    "concatenate": _stack,
    "dot": _two,
    "inner": _two,
    "vdot": _two,
    "where": _where,
    "lexsort": _keys,
    "bincount": _counts,
    "packbits": _bits,
    "unpackbits": _unbits,
    "unravel_index": _place,
    "is_busday": _day,
    "busday_count": _day_count,
    "busday_offset": _day_offset,
    "datetime_as_string": _day_text,
    "ravel_multi_index": _number,
}
