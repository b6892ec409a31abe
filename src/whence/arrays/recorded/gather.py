from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whence.arrays.recorded.array import Array, Held
from whence.arrays.workflow import Workflow


def gather(arrays: Array | Sequence[Array]) -> tuple[Workflow, dict[str, Any]]:
    """The workflow that makes these recorded arrays, and the data of its inputs by their names."""
    if not isinstance(arrays, (Array, Sequence)) or isinstance(arrays, str):
        raise TypeError(
            f"What is to be executed is of the type {type(arrays).__name__}: give a Workflow, or what numpy code on "
            "recorded arrays made."
        )
    wanted = [arrays] if isinstance(arrays, Array) else list(arrays)
    for each in wanted:
        if not isinstance(each, Array):
            raise TypeError(f"{each!r} is no recorded array: give what numpy code on whence.arrays.asarray(x) made.")
    workflow = Workflow.of([each.whence_node for each in wanted])
    return workflow, {node.name: node.value for node in workflow.nodes if isinstance(node, Held)}
