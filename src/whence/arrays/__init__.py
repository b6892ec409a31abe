"""Array workflows with cell-level lineage (SubZero): docs/arrays.md.

>>> from whence.arrays import Operator, Workflow, Mode, ops, asarray, from_frame, check_operator  # doctest: +SKIP
"""

from typing import Any

from whence.arrays.cells import Cells
from whence.arrays.errors import ArrayError, OperatorFailed, UnknownNode, UnknownRun
from whence.arrays.operator import Mode, Operator
from whence.arrays.workflow import Node, Workflow

# Brought in when first used: each has much to import.
_LAZY = {
    "ops": ("whence.arrays.ops", None),
    "asarray": ("whence.arrays.recorded", "asarray"),
    "Array": ("whence.arrays.recorded", "Array"),
    "check_operator": ("whence.arrays.check", "check_operator"),
    "from_frame": ("whence.arrays.frames", "from_frame"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'whence.arrays' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _LAZY[name]
    found = import_module(module)
    return found if attribute is None else getattr(found, attribute)


__all__ = [
    "ArrayError",
    "Cells",
    "Mode",
    "Node",
    "Operator",
    "OperatorFailed",
    "UnknownNode",
    "UnknownRun",
    "Workflow",
]
