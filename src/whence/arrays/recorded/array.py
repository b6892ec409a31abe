"""Arrays that record what numpy code does with them."""

from __future__ import annotations

import itertools
import operator as python
import sys
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from whence.arrays.operator import label
from whence.arrays.recorded import functions
from whence.arrays.recorded.call import Call
from whence.arrays.recorded.errors import NoSuchPart, NotFollowed
from whence.arrays.recorded.leaving import refuse_leaving
from whence.arrays.recorded.operand import Made, NeedsValues, Slot, exchange
from whence.arrays.recorded.operator import ByShape, ByValue
from whence.arrays.recorded.rules import is_plain, refusal
from whence.arrays.recorded.rules.names import names
from whence.arrays.workflow import Node

_numbers: dict[str, Iterator[int]] = {}


def fresh(name: str) -> str:
    """A name that no other recorded array of this process has: any two of them may meet in a workflow."""
    return f"{name}_{next(_numbers.setdefault(name, itertools.count(1)))}"


class Held(Node):
    """An input of recorded code: the node, and the data that it was recorded with."""

    __slots__ = ("value",)

    def __init__(self, name: str, value: NDArray[Any]) -> None:
        super().__init__(name)
        self.value = value

    def __reduce__(self) -> tuple[type[Node], tuple[str]]:
        return Node, (self.name,)


class Array(NDArrayOperatorsMixin):
    """An array whose cells know where they came from. It does not change; what numpy makes of it is an Array."""

    __slots__ = ("__weakref__", "_value", "whence_node")

    def __init__(self, value: NDArray[Any], node: Node) -> None:
        value = value.view()
        value.flags.writeable = False
        self._value = value
        self.whence_node = node

    @property
    def name(self) -> str:
        """The name of its node in a workflow."""
        return self.whence_node.name

    # --- numpy's protocols

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        refuse_leaving(sys._getframe(1))
        if copy:
            return np.array(self._value, dtype=dtype)
        return self._value if dtype is None else self._value.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not all(_known(type(each)) for each in inputs):
            return NotImplemented
        out = kwargs.pop("out", None)
        if method == "at" or (out is not None and any(each is not None for each in out)):
            what = f"{Call(ufunc, method, (), {}).name}{'' if method == 'at' else ' with out='}"
            raise NotFollowed(
                f"{what} writes into an array and cannot be followed. Use the result of np.{ufunc.__name__}."
            )
        if method == "__call__" and kwargs.get("where", True) is not True:
            raise NotFollowed(
                f"np.{ufunc.__name__} cannot be followed with where= and without out=: it leaves cells undefined. Use "
                "np.where on its result."
            )
        return record(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if not all(_known(each) for each in types):
            return NotImplemented
        if is_plain(func):
            return func(*exchange(args, Array, _value), **exchange(kwargs, Array, _value))
        return record(func, None, args, kwargs)

    # --- what an ndarray says of itself

    @property
    def shape(self) -> tuple[int, ...]:
        return self._value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._value.dtype

    @property
    def ndim(self) -> int:
        return self._value.ndim

    @property
    def size(self) -> int:
        return self._value.size

    @property
    def nbytes(self) -> int:
        return self._value.nbytes

    @property
    def itemsize(self) -> int:
        return self._value.itemsize

    def __len__(self) -> int:
        return len(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __int__(self) -> int:
        return int(self._value)

    def __float__(self) -> float:
        return float(self._value)

    def __complex__(self) -> complex:
        return complex(self._value)

    def __index__(self) -> int:
        return python.index(self._value)

    def __iter__(self) -> Iterator[Array]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[number] for number in range(len(self)))

    def __contains__(self, item: Any) -> bool:
        return item in self._value if not isinstance(item, Array) else item._value in self._value

    def __repr__(self) -> str:
        made_by = self.whence_node.operator
        return f"<Array {self.name}: {label(made_by) if made_by else 'an input'}>\n{self._value!r}"

    def __str__(self) -> str:
        return str(self._value)

    def __format__(self, spec: str) -> str:
        return format(self._value[()] if self.ndim == 0 else self._value, spec)

    __hash__ = object.__hash__

    def item(self, *args: SupportsIndex) -> Any:
        return self._value.item(*args)

    def tolist(self) -> Any:
        return self._value.tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        return self._value.tobytes(order)

    # --- what gives new arrays

    def __getitem__(self, key: Any) -> Any:
        return record(functions.getitem, None, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        raise NotFollowed(
            f"Cells of the recorded array {self.name} cannot be set: recorded arrays do not change. Make a new one "
            "with np.where, np.concatenate or the like."
        )

    def __deepcopy__(self, memo: Any) -> Array:
        return self

    def __copy__(self) -> Array:
        return self

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(np.ndarray, name):
            raise NoSuchPart(refusal(f"Array.{name}", getattr(np.ndarray, name)))
        raise AttributeError(f"An Array has no attribute {name!r}.")

    @property
    def T(self) -> Any:
        return np.transpose(self)

    @property
    def mT(self) -> Any:
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return np.swapaxes(self, -2, -1)

    @property
    def real(self) -> Any:
        return np.real(self)

    @property
    def imag(self) -> Any:
        return np.imag(self)

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        return np.reshape(self, _one_or_many(shape), **kwargs)

    def transpose(self, *axes: Any) -> Any:
        return np.transpose(self, _one_or_many(axes) if axes else None)

    def flatten(self, order: Any = "C") -> Any:
        return record(functions.flatten, None, (self, order), {})

    def astype(self, dtype: Any, **kwargs: Any) -> Any:
        return record(functions.astype, None, (self, dtype), kwargs)

    def compress(self, condition: Any, axis: Any = None) -> Any:
        return np.compress(condition, self, axis=axis)

    def conj(self) -> Any:
        return np.conjugate(self)

    conjugate = conj

    def dot(self, b: Any) -> Any:
        return np.dot(self, b)


def _one_or_many(given: tuple[Any, ...]) -> Any:
    return given[0] if len(given) == 1 else given


METHODS = names(
    "all any argmax argmin argpartition argsort choose clip copy cumprod cumsum diagonal max mean min nonzero "
    "prod ravel repeat round searchsorted squeeze std sum swapaxes take trace var"
)
IN_PLACE = names("add sub mul matmul truediv floordiv mod pow lshift rshift and xor or")


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"numpy.{name} of this array."
    return method


for _each in METHODS:
    setattr(Array, _each, _method(_each))
for _each in IN_PLACE:
    # `a += 1` names the new array a; the old one stays what it was.
    setattr(Array, f"__i{_each}__", getattr(Array, f"__{_each}__"))


def _value(array: Array) -> NDArray[Any]:
    return array._value


def _known(kind: type) -> bool:
    """Plain arrays are constants; of masked arrays and matrices numpy would mean something else."""
    if issubclass(kind, (np.ma.MaskedArray, np.matrix)):
        raise NotFollowed(f"{kind.__name__} beside a recorded array cannot be followed: give a plain array.")
    return kind is Array or issubclass(kind, np.ndarray) or not hasattr(kind, "__array_ufunc__")


def record(function: Callable[..., Any], method: str | None, args: Any, kwargs: Any) -> Any:
    """Runs the call on the values, and makes an array of a workflow of each result."""
    inputs: list[Array] = []

    def slot(array: Array) -> Slot:
        inputs.append(array)
        return Slot(len(inputs) - 1)

    held_args, held_kwargs = exchange((tuple(args), dict(kwargs)), Array, slot)
    call = Call(function, method, held_args, held_kwargs)
    call.check()
    values = tuple(array._value for array in inputs)
    try:
        result = call.run(values)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise NotFollowed(f"{call.name} cannot be followed here: it would change its argument in place.") from error
    if result is None:
        raise NotFollowed(refusal(call.name, function))
    if not isinstance(result, (list, tuple)):
        return made(call, None, result, inputs, values)
    arrays = [made(call, number, each, inputs, values) for number, each in enumerate(result)]
    return type(result)._make(arrays) if hasattr(result, "_make") else type(result)(arrays)


def made(call: Call, pick: int | None, result: Any, inputs: list[Array], values: tuple[NDArray[Any], ...]) -> Array:
    value = np.asarray(result)
    shapes = tuple(each.shape for each in values)
    operator: ByShape | ByValue
    try:
        call.relations(shapes, Made(value.shape, pick or 0))
        operator = ByShape(call, pick)
    except NeedsValues:
        call.relations(shapes, Made(value.shape, pick or 0, value), values)
        operator = ByValue(call, pick)
    node = Node(fresh(label(operator)), operator, tuple(array.whence_node for array in inputs))
    return Array(value, node)


def asarray(x: Any, name: str | None = None) -> Array:
    """`x` as an input of recorded numpy code; of an Array, the same one, under this name if one is given."""
    if name is not None and (not isinstance(name, str) or not name):
        raise TypeError(f"{name!r} cannot name an array: a name is a text.")
    if isinstance(x, Array):
        if name is None:
            return x
        named: Array = record(functions.identity, None, (x,), {})
        named.whence_node.name = name
        return named
    if isinstance(x, np.ma.MaskedArray):
        raise NotFollowed(
            "asarray of a masked array would lose its mask: give its data, and its mask as another array."
        )
    value = np.array(x)  # a copy: what is recorded stays as it was
    return Array(value, Held(fresh("input") if name is None else name, value))
