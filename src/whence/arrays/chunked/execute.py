"""Runs a workflow over arrays in chunks: operators with a halo on Spark, a chunk a task; others here, on the whole."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape, size_of
from whence.arrays.chunked.grid import Grid, slices
from whence.arrays.chunked.inputs import ChunkedInput, opened_input
from whence.arrays.chunked.worker import Done, Job, create, private_files, run_chunk
from whence.arrays.encodings import Strategy
from whence.arrays.errors import ArrayError, OperatorFailed
from whence.arrays.folder import NewRun, Shelf, pickled
from whence.arrays.inputs import Load
from whence.arrays.keeping import Budget, kept_of, observed, summed
from whence.arrays.maps import Maps
from whence.arrays.run import Run, as_written, lineage_name
from whence.arrays.running import run_once
from whence.arrays.strategies import modes_for
from whence.arrays.tables import Tables, loading
from whence.arrays.workflow import Node, Workflow
from whence.model.quiet import QUIET, tagged
from whence.progress import working
from whence.store.private import make_directory
from whence.strategy import costs


def execute_chunked(
    shelf: Shelf,
    workflow: Workflow,
    values: dict[Node, Any],
    keep: dict[Node, tuple[Strategy, ...]],
    budget: Budget,
    chunks: Any,
    *,
    spark: Callable[[], Any] | None,
    is_open: Callable[[], bool],
    tables: Tables | None,
) -> Run:
    if isinstance(chunks, bool) or not isinstance(chunks, (int, np.integer)) or chunks < 1:
        raise ArrayError(f"chunks={chunks!r} cannot cut arrays: give how many cells a chunk has along each axis.")
    try:
        import zarr  # noqa: F401
    except ImportError as error:
        raise ArrayError("Arrays in chunks are kept with zarr: pip install whence[arrays].") from error
    if spark is None:
        raise ArrayError("Arrays in chunks run on Spark: execute them with an attached session.")
    with shelf.new() as new:
        told = _Executing(workflow, keep, budget, new, int(chunks), spark(), loading(new, workflow, tables)).all(values)
        folder = new.finish({"nodes": told, "chunks": int(chunks)})
    return Run(folder, workflow=workflow, is_open=is_open, tables=tables)


class _Executing:
    def __init__(
        self,
        workflow: Workflow,
        keep: dict[Node, tuple[Strategy, ...]],
        budget: Budget,
        new: NewRun,
        step: int,
        spark: Any,
        load: Load | None,
    ) -> None:
        self._workflow, self._keep, self._budget, self._new, self._step = workflow, keep, budget, new, step
        self._spark = spark
        self._load = load
        self._numbers = {node: number for number, node in enumerate(workflow.nodes)}
        self._shapes: dict[Node, Shape] = {}

    def all(self, values: dict[Node, Any]) -> list[dict[str, Any]]:
        nodes = self._workflow.nodes
        self._new.operators([node.operator for node in nodes if node.operator is not None])
        about = []
        for number, node in enumerate(nodes):
            told = as_written(node, self._numbers)
            with working(f"{node.name}, {number + 1} of {len(nodes)} arrays, in chunks of {self._step}"):
                if node.operator is None:
                    source = opened_input(node, values[node], self._load)
                    told["source"] = source.source
                    self._copy(node, source)
                elif self._is_local(node):
                    told |= self._by_chunk(node)
                else:
                    told |= self._whole(node)
            about.append(told | {"shape": list(self._shapes[node]), "dtype": self._array(node).dtype.str})
        return about

    def _is_local(self, node: Node) -> bool:
        """Whether chunks can be run alone: a halo, and inputs that are all as large as the output will be."""
        assert node.operator is not None
        shapes = {self._shapes[below] for below in node.inputs}
        return node.operator.halo is not None and len(shapes) == 1 and size_of(next(iter(shapes))) > 0

    def _path(self, node: Node) -> str:
        return str(self._new.path / f"{self._numbers[node]}.zarr")

    def _array(self, node: Node) -> Any:
        import zarr

        return zarr.open_array(self._path(node), mode="r")

    def _copy(self, node: Node, source: ChunkedInput) -> None:
        self._shapes[node] = source.shape
        self._write(node, source.read, source.shape, source.dtype)

    def _write(self, node: Node, read: Callable[[Any], NDArray[Any]], shape: Shape, dtype: np.dtype[Any]) -> None:
        """Chunk by chunk, so that no second copy of the array is made in memory."""
        with private_files():
            target = create(self._path(node), shape, dtype, self._step)
            grid = Grid(shape, self._step)
            for chunk in range(len(grid)):
                at = slices(grid.core(chunk))
                target[at] = read(at)

    # --- a chunk a task

    def _by_chunk(self, node: Node) -> dict[str, Any]:
        assert node.operator is not None
        start = perf_counter()
        shape = self._shapes[node.inputs[0]]
        self._shapes[node] = shape
        strategies = self._keep[node]
        lineage = []
        for strategy in strategies:
            if strategy.is_stored:
                directory = self._new.path / lineage_name(self._numbers[node], strategy)
                make_directory(directory, self._new.path)
                lineage.append((strategy, str(directory)))
        job = Job(
            node.name,
            pickled([node.operator]),
            tuple(self._path(below) for below in node.inputs),
            self._path(node),
            shape,
            self._step,
            modes_for(node, strategies),
            tuple(lineage),
            str(self._new.path / f"failed-{self._numbers[node]}"),
        )
        count = len(Grid(shape, self._step))
        done = self._tasks(job, [0])  # the first says of what type the output is
        done += self._tasks(job, list(range(1, count)))
        size = sum(each.bytes for each in done)
        told: dict[str, Any] = {"strategies": [str(strategy) for strategy in strategies], "bytes": size}
        if not self._budget.fits(size):
            for _, path in lineage:
                _remove(Path(path))
            told = self._budget.refusal(strategies, f"it takes {size} bytes")
        self._budget.used += told["bytes"]
        seconds = perf_counter() - start
        worked = sum(each.seconds for each in done)
        overhead = sum(each.overhead for each in done)
        kept = [costs.Kept(str(lineage[0][0]), size, overhead)] if len(lineage) == 1 else []
        maps = Maps(node.operator, tuple(shape for _ in node.inputs), shape)
        return told | {
            "by_chunk": True,
            "silent": sorted(mode.value for mode in frozenset.intersection(*(each.silent for each in done))),
            "seconds": seconds,
            "overhead": seconds * min(overhead / worked, 1.0) if worked else 0.0,
            "traced": worked / max(count, 1),
            "observed": observed(maps, worked - overhead, summed([each.counts for each in done]), kept),
        }

    def _tasks(self, job: Job, chunks: list[int]) -> list[Done]:
        if not chunks:
            return []
        context = self._spark.sparkContext
        with tagged(context, QUIET):
            slots = min(len(chunks), max(4 * context.defaultParallelism, 1))
            done: list[Done] = context.parallelize(chunks, slots).map(_Task(job)).collect()
        for each in done:
            if each.told:
                error, cause = pickle.loads(each.error) if isinstance(each.error, bytes) else (None, None)
                if isinstance(error, (ArrayError, OperatorFailed)):
                    raise error from cause
                raise OperatorFailed(f"{job.name} failed on chunk {each.chunk}:\n{each.told}") from error
        return done

    # --- whole arrays

    def _whole(self, node: Node) -> dict[str, Any]:
        """An operator without a halo sees whole arrays: mapped files, since they may be larger than memory."""
        assert node.operator is not None
        start = perf_counter()
        strategies = self._keep[node]
        files = [self._new.path / f"whole-{self._numbers[below]}.npy" for below in node.inputs]
        try:
            inputs = [self._assembled(below, file) for below, file in zip(node.inputs, files, strict=True)]
            modes = modes_for(node, strategies)
            result = run_once(node.operator, node.name, inputs, modes)
        finally:
            for file in files:
                file.unlink(missing_ok=True)
        output = result.output
        self._shapes[node] = output.shape
        self._write(node, lambda at: output[at], output.shape, output.dtype)
        number = self._numbers[node]
        lineage = [(strategy, self._new.path / lineage_name(number, strategy)) for strategy in strategies]
        return kept_of(node.operator, result, modes, lineage, self._budget, start)

    def _assembled(self, node: Node, file: Path) -> NDArray[Any]:
        array, shape = self._array(node), self._shapes[node]
        if size_of(shape) < 1 << 22:
            return np.asarray(array)
        with private_files():
            mapped = np.lib.format.open_memmap(file, "w+", array.dtype, shape)
        grid = Grid(shape, self._step)
        for chunk in range(len(grid)):
            at = slices(grid.core(chunk))
            mapped[at] = array[at]
        mapped.flush()
        return mapped


class _Task:
    """What is sent to executors: small, and importing nothing before it is there."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __call__(self, chunk: int) -> Done:
        return run_chunk(self._job, chunk)


def _remove(directory: Path) -> None:
    import shutil

    shutil.rmtree(directory, ignore_errors=True)
