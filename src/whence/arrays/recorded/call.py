"""A numpy call as data: what is called, and how its lineage is known."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape
from whence.arrays.ops.relation import Relation
from whence.arrays.recorded.errors import NotFollowed, Unfit
from whence.arrays.recorded.operand import Made, Operand, Rule, Slot, exchange, operands
from whence.arrays.recorded.rules import CELL_BY_CELL, PARAMETERS, refusal, rule_of
from whence.arrays.recorded.rules.ufuncs import METHODS


@dataclass(frozen=True)
class Call:
    """`function`, or a method of the ufunc `function`; recorded arrays among the arguments stand as slots."""

    function: Callable[..., Any]
    method: str | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        """As a user would write it."""
        called = name_of(self.function)
        return called if self.method in (None, "__call__") else f"{called}.{self.method}"

    @property
    def label(self) -> str:
        """What nodes are called after."""
        called = getattr(self.function, "__name__", "call")
        return called if self.method in (None, "__call__") else f"{called}.{self.method}"

    @property
    def is_local(self) -> bool:
        """Whether parts of the arrays can be run by themselves: cell by cell, with nothing but numbers beside them."""
        beside = [each for each in (*self.args, *self.kwargs.values()) if not isinstance(each, Slot)]
        if not all(each is None or np.isscalar(each) or isinstance(each, (type, np.dtype)) for each in beside):
            return False
        if self.method is not None:
            return self.method == "__call__" and getattr(self.function, "signature", None) is None
        return rule_of(self.function) in CELL_BY_CELL or (self.function is np.where and len(self.args) == 3)

    def check(self) -> None:
        """Refuses what must not even run."""
        self._bound(self.args, self.kwargs)

    def run(self, inputs: tuple[NDArray[Any], ...]) -> Any:
        args, kwargs = exchange((self.args, self.kwargs), Slot, lambda slot: inputs[slot.number])
        if self.method is None or self.method == "__call__":
            return self.function(*args, **kwargs)
        return getattr(self.function, self.method)(*args, **kwargs)

    def relations(self, shapes: tuple[Shape, ...], made: Made, values: tuple[NDArray[Any], ...] = ()) -> list[Relation]:
        """One for each input. Without `values`, NeedsValues where they would be needed."""
        inputs = [Operand(n, shape, values[n] if values else None) for n, shape in enumerate(shapes)]
        args, kwargs = exchange((self.args, self.kwargs), Slot, lambda slot: inputs[slot.number])
        rule, named = self._bound(args, kwargs)
        found: dict[int, Relation] = {}
        try:
            for operand, relation in rule(made, **named):
                if isinstance(operand, Operand):
                    if (relation.output_shape, relation.input_shape) != (made.shape, operand.shape):
                        raise ValueError(f"{relation.output_shape} and {relation.input_shape} are not its shapes")
                    found[operand.number] = relation
        except Unfit as error:
            raise NotFollowed(f"{self.name} cannot be followed: {error}.") from None
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            # numpy took the call already: the rule has not thought of such arguments, and does not guess.
            raise NotFollowed(f"{self.name} cannot be followed with these arguments.") from error
        for number in range(len(shapes)):
            if number not in found:
                raise NotFollowed(f"{self.name} cannot be followed where {self._where(number)} is a recorded array.")
        return [found[number] for number in range(len(shapes))]

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Rule, dict[str, Any]]:
        rule = rule_of(self.function) if self.method is None else METHODS.get(self.method)
        if rule is None:
            raise NotFollowed(refusal(self.name, self.function))
        if self.method is None:
            named = self._named(args, kwargs)
        else:
            named = {"ufunc": self.function, "inputs": args, **kwargs}
        if named.get("out") is not None:
            raise NotFollowed(f"{self.name} cannot be followed with out=: it writes into an array. Use its result.")
        named.pop("out", None)
        try:
            inspect.signature(rule).bind(None, **named)
        except TypeError as error:
            raise NotFollowed(f"{self.name} cannot be followed with these arguments: {error}.") from None
        return rule, named

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = parameters(self.function).bind(*args, **kwargs)
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            elif value is not np._NoValue:
                named[name] = value
        return named

    def _where(self, number: int) -> str:
        if self.method is not None:
            return next((name for name, given in self.kwargs.items() if _holds(given, number)), "an argument")
        named = self._named(self.args, self.kwargs)
        return next((name for name, given in named.items() if _holds(given, number)), "an argument")


def _holds(given: Any, number: int) -> bool:
    marked = exchange(given, Slot, lambda slot: Operand(slot.number, ()))
    return any(operand.number == number for operand in operands(marked))


@cache
def parameters(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:  # older numpy tells nothing of its functions in C
        made = PARAMETERS.get(getattr(function, "__name__", ""))
        if made is None:
            raise NotFollowed(refusal(name_of(function), function)) from None
        return inspect.signature(made)


def name_of(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__name__", repr(function))
    if isinstance(function, np.ufunc):
        return f"np.{name}" if getattr(np, name, None) is function else name
    if module.startswith("numpy"):
        return f"np{module[len('numpy') :]}.{name}"
    return f"Array.{name}" if module.startswith("whence.") else name
