"""Runs a workflow in the caller's process and keeps it: every array, and of the lineage what the strategies say."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from numpy.typing import NDArray

from whence.arrays.encodings import Strategy
from whence.arrays.errors import ArrayError
from whence.arrays.folder import NewRun, Shelf
from whence.arrays.inputs import Load, bound, loaded
from whence.arrays.keeping import Budget, kept_of
from whence.arrays.run import Run, as_written, described, lineage_name
from whence.arrays.running import run_once
from whence.arrays.strategies import chosen, modes_for
from whence.arrays.tables import Tables, loading
from whence.arrays.workflow import Node, Workflow
from whence.progress import working


def execute(
    shelf: Shelf,
    target: Any,
    inputs: Any = None,
    strategies: Any = None,
    limit_disk: float | None = None,
    chunks: int | None = None,
    *,
    spark: Callable[[], Any] | None = None,
    is_open: Callable[[], bool] = lambda: True,
    tables: Tables | None = None,
) -> Run:
    """`target`: a Workflow, or recorded arrays. When this returns, the run can be reopened by any process."""
    workflow, held = _workflow(target)
    keep = chosen(workflow, strategies)
    budget = Budget(limit_disk)
    values = bound(workflow, inputs, held)
    if chunks is not None:
        from whence.arrays.chunked.execute import execute_chunked

        return execute_chunked(
            shelf, workflow, values, keep, budget, chunks, spark=spark, is_open=is_open, tables=tables
        )
    with shelf.new() as new:
        about = _Executing(workflow, keep, budget, new, loading(new, workflow, tables)).all(values)
        folder = new.finish({"nodes": about})
    return Run(folder, workflow=workflow, is_open=is_open, tables=tables)


def _workflow(target: Any) -> tuple[Workflow, dict[str, Any]]:
    """As it is now: what is added later is not of this run."""
    held: dict[str, Any] = {}
    if isinstance(target, Workflow):
        workflow = Workflow.of(target.nodes)
    else:
        from whence.arrays.recorded import gather

        workflow, held = gather(target)
    if not workflow.nodes:
        raise ArrayError("The workflow has no arrays: there is nothing to execute.")
    return workflow, held


class _Executing:
    def __init__(
        self,
        workflow: Workflow,
        keep: dict[Node, tuple[Strategy, ...]],
        budget: Budget,
        new: NewRun,
        load: Load | None,
    ) -> None:
        self._workflow, self._keep, self._budget, self._new, self._load = workflow, keep, budget, new, load
        self._numbers = {node: number for number, node in enumerate(workflow.nodes)}
        self._arrays: dict[Node, NDArray[Any]] = {}

    def all(self, values: dict[Node, Any]) -> list[dict[str, Any]]:
        nodes = self._workflow.nodes
        self._new.operators([node.operator for node in nodes if node.operator is not None])
        about = []
        last_use = {below: number for number, node in enumerate(nodes) for below in node.inputs}
        for number, node in enumerate(nodes):
            told = as_written(node, self._numbers)
            if node.operator is None:
                array, told["source"] = loaded(node, values[node], self._load)
                self._put(node, array)
            else:
                with working(f"Running {node.name}, {number + 1} of {len(nodes)} arrays"):
                    told |= self._operated(node)
            about.append(told | described(self._arrays[node]))
            for below in [*node.inputs, node]:  # what nobody reads any more is in its file
                if last_use.get(below, -1) <= number:
                    self._arrays.pop(below, None)
        return about

    def _put(self, node: Node, array: NDArray[Any]) -> None:
        self._new.save(self._numbers[node], array)
        self._arrays[node] = array

    def _operated(self, node: Node) -> dict[str, Any]:
        assert node.operator is not None
        start = perf_counter()
        strategies = self._keep[node]
        modes = modes_for(node, strategies)
        result = run_once(node.operator, node.name, [self._arrays[below] for below in node.inputs], modes)
        self._put(node, result.output)
        number = self._numbers[node]
        lineage = [(strategy, self._new.path / lineage_name(number, strategy)) for strategy in strategies]
        return kept_of(node.operator, result, modes, lineage, self._budget, start)
