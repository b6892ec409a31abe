"""The parameter space: names, values in order, and the codes (positions) that the search works with."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from whence.debug.diagnose.errors import BadSpace, OutsideSpace

Config = dict[str, Any]
Codes = tuple[int, ...]
Mask = npt.NDArray[np.bool_]

_ORDERED = (Real, Decimal, datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)


def _key(value: object) -> Hashable:
    """True and 1 are different settings, 1 and 1.0 are the same one, and NaN is NaN; lists, dicts and arrays are told
    by what is in them, whatever the order of a dict."""
    if isinstance(value, bool | np.bool_):
        return ("bool", bool(value))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, Mapping):
        return ("mapping", frozenset((_key(k), _key(v)) for k, v in value.items()))
    if isinstance(value, list | tuple):
        return (type(value).__name__, tuple(map(_key, value)))
    try:
        hash(value)
        if value == value:
            return value
    except (TypeError, ValueError, ArithmeticError):  # pandas' NA is not even equal to itself
        return ("text", type(value).__name__, repr(value))
    return ("nan",) if isinstance(value, Real | Decimal) else ("text", type(value).__name__, repr(value))


def _is_ordered(values: Sequence[object]) -> bool:
    if not all(isinstance(v, _ORDERED) and not isinstance(v, bool) for v in values):
        return False
    try:
        if any(v != v for v in values):  # NaN has no place in an order
            return False
        sorted(values)  # type: ignore[type-var]
    except (TypeError, ArithmeticError):  # dates beside numbers; a Decimal that is a signalling NaN
        return False
    return True


@dataclass(frozen=True)
class Parameter:
    """`values` are sorted when the parameter is ordinal."""

    name: str
    values: tuple[Any, ...]
    ordinal: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "_codes", {_key(v): i for i, v in enumerate(self.values)})

    def code(self, value: object) -> int:
        codes: dict[Hashable, int] = self._codes  # type: ignore[attr-defined]
        found = codes.get(_key(value))
        if found is None:
            raise OutsideSpace(
                f"The value {value!r} of parameter {self.name!r} is not in the space, which has "
                f"{_some(self.values)} for it. Add the value to the space or leave the run out of the history."
            )
        return found


def _some(values: Sequence[object], most: int = 6) -> str:
    shown = ", ".join(repr(v) for v in values[:most])
    return shown + (f", ... ({len(values)} values)" if len(values) > most else "")


@dataclass(frozen=True)
class Space:
    parameters: tuple[Parameter, ...]

    @classmethod
    def of(cls, space: Space | Mapping[str, Iterable[Any]] | Iterable[tuple[str, Iterable[Any]]]) -> Space:
        if isinstance(space, Space):
            return space
        if not isinstance(space, Iterable) or isinstance(space, str | bytes):
            raise BadSpace(f"A space is a dict of parameter name to list of values, not {space!r}.")
        pairs = list(space.items() if isinstance(space, Mapping) else space)
        if not pairs:
            raise BadSpace("The space has no parameters. Give a dict of parameter name to list of values.")
        for pair in pairs:
            if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
                raise BadSpace(
                    f"A space is a dict of parameter name (a text) to list of values, or pairs of these, not {pair!r}."
                )
        parameters: list[Parameter] = []
        seen: set[str] = set()
        for name, values in pairs:
            if name in seen:
                raise BadSpace(f"The parameter {name!r} stands twice in the space. Give each parameter once.")
            seen.add(name)
            if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
                raise BadSpace(f"The values of parameter {name!r} must be a list, not {values!r}.")
            listed = list(values)
            if not listed:
                raise BadSpace(f"The parameter {name!r} has no values. Give at least one.")
            if len({_key(v) for v in listed}) < len(listed):
                raise BadSpace(f"The parameter {name!r} lists a value twice: {_some(listed)}. Give each value once.")
            ordinal = _is_ordered(listed)
            parameters.append(Parameter(name, tuple(sorted(listed) if ordinal else listed), ordinal))
        return cls(tuple(parameters))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parameters)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(p.values) for p in self.parameters)

    def encode(self, config: Mapping[str, Any]) -> Codes:
        if not isinstance(config, Mapping):
            raise OutsideSpace(
                f"A run is told by its configuration, a dict of parameter name to value, not {config!r}."
            )
        unknown = [name for name in config if name not in set(self.names)]
        if unknown:
            raise OutsideSpace(
                f"The run has the parameter {unknown[0]!r}, which is not in the space "
                f"({', '.join(self.names)}). Add it to the space or leave it out of the run."
            )
        codes = []
        for parameter in self.parameters:
            if parameter.name not in config:
                raise OutsideSpace(
                    f"The run {dict(config)!r} has no value for the parameter {parameter.name!r}. Every run needs one."
                )
            codes.append(parameter.code(config[parameter.name]))
        return tuple(codes)

    def decode(self, codes: Sequence[int]) -> Config:
        return {p.name: p.values[int(c)] for p, c in zip(self.parameters, codes, strict=True)}
