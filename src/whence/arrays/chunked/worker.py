"""What runs on executors: one chunk of one operator. It takes plain values and files, and gives plain values back."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape
from whence.arrays.chunked.grid import Grid, Region, shape_of, shifted, slices, within
from whence.arrays.columns import Columns
from whence.arrays.encodings import STORED, Source, Strategy
from whence.arrays.errors import ArrayError
from whence.arrays.keeping import counted
from whence.arrays.lists import Lists
from whence.arrays.maps import Maps
from whence.arrays.operator import Mode, Operator, label, modes_of
from whence.arrays.payloads import Payloads, Table
from whence.arrays.running import run_once
from whence.arrays.written import Regions, Written
from whence.strategy import costs


@dataclass(frozen=True)
class Job:
    """One operator over all its chunks, as it is sent to executors."""

    name: str
    operator: bytes
    """Pickled with its class (folder.pickled)."""
    inputs: tuple[str, ...]
    output: str
    shape: Shape
    step: int
    modes: frozenset[Mode]
    lineage: tuple[tuple[Strategy, str], ...]
    """Strategies to store, and the directory of each."""
    failed: str
    """A file that is there when a chunk has failed: then the others need not be run."""


@dataclass(frozen=True)
class Done:
    chunk: int
    seconds: float = 0.0
    overhead: float = 0.0
    bytes: int = 0
    counts: tuple[costs.Written, ...] = ()
    silent: frozenset[Mode] = frozenset()
    error: object = None
    """The exception, pickled where that can be done."""
    told: str = ""


def run_chunk(job: Job, chunk: int) -> Done:
    """Never raises: what went wrong is told, so that the driver can raise it as it was."""
    if os.path.exists(job.failed):
        return Done(chunk)
    try:
        with private_files():
            return _run(job, chunk)
    except Exception as error:
        with open(job.failed, "w"):
            pass
        return Done(chunk, error=_packed(error), told=traceback.format_exc())


def chunk_result(
    operator: Operator, name: str, inputs: Sequence[Any], grid: Grid, chunk: int, modes: frozenset[Mode]
) -> tuple[NDArray[Any], Written, float, float]:
    """One chunk's output, what was written about it in the whole array's coordinates, and the seconds of both."""
    core, wide = grid.core(chunk), grid.widened(chunk, operator.halo or 0)
    result = run_once(operator, name, [np.asarray(array[slices(wide)]) for array in inputs], modes)
    if result.output.shape != shape_of(wide):
        raise ArrayError(
            f"{name} ({label(operator)}) has halo = {operator.halo}, so that it must give as many cells as it gets; "
            f"for {shape_of(wide)} it gave {result.output.shape}."
        )
    start = perf_counter()
    written = _placed(result.written(), wide, core, grid.shape)
    lineage = result.recorder.seconds + perf_counter() - start
    return result.output[slices(core, wide)], written, result.seconds, lineage


def _run(job: Job, chunk: int) -> Done:
    import zarr

    start = perf_counter()
    operator: Operator = pickle.loads(job.operator)[0]
    grid = Grid(job.shape, job.step)
    inputs = [zarr.open_array(path, mode="r") for path in job.inputs]
    output, written, _, lineage = chunk_result(operator, job.name, inputs, grid, chunk, job.modes)
    target = create(job.output, job.shape, output.dtype, job.step)
    if target.dtype != output.dtype:
        raise ArrayError(
            f"{job.name} ({label(operator)}) gave {output.dtype} for one chunk and {target.dtype} for another: in "
            "chunks, it must always give the same type."
        )
    target[slices(grid.core(chunk))] = output
    stored = perf_counter()
    maps = Maps(operator, tuple(job.shape for _ in inputs), job.shape)
    writes = Mode.MAP not in modes_of(operator)
    size = 0
    if job.lineage:
        source = Source(_Within(maps, grid, chunk), written if writes else None)
        for strategy, directory in job.lineage:
            columns = STORED[strategy.encoding].encode(source, strategy.direction)
            size += _write(columns, Path(directory), chunk)
    counts = counted(written, job.modes, lineage) if writes else ()
    end = perf_counter()
    return Done(chunk, end - start, lineage + end - stored, size, counts, written.silent if writes else frozenset())


class _Within(Maps):
    """Map functions that are asked about one chunk's cells alone when they are to be stored."""

    def __init__(self, maps: Maps, grid: Grid, chunk: int) -> None:
        super().__init__(maps.operator, maps.input_shapes, maps.output_shape)
        self._core = grid.core(chunk)

    def all_pairs(self, i: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        shape = shape_of(self._core)
        mine = shifted(np.arange(int(np.prod(shape)), dtype=np.int64), self._core, self.output_shape)
        yield from self.backward_pairs(mine, i)


def create(path: str, shape: Shape, dtype: np.dtype[Any], step: int) -> Any:
    """The zarr array, made unless it is there. Chunks are files of their own, so that tasks do not meet."""
    import zarr
    from zarr.codecs import BloscCodec

    if not os.path.exists(os.path.join(path, "zarr.json")):
        chunks = tuple(max(min(step, length), 1) for length in shape)
        return zarr.create_array(
            path,
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            compressors=BloscCodec(cname="lz4", clevel=1),
            overwrite=False,
        )
    return zarr.open_array(path, mode="r+")


@contextmanager
def private_files() -> Iterator[None]:
    """What zarr makes is for this user alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _placed(written: Written, wide: Region, core: Region, shape: Shape) -> Written:
    """What was counted from the corner of what the operator was given, counted in the whole array; the border, which
    other chunks tell about, is left out."""
    regions = tuple(_trimmed(region, wide, core, shape) for region in written.regions)
    lists, kept = _inner(written.payloads.out, wide, core)
    out = Lists(lists.starts, _moved(lists, wide, shape))
    table = written.payloads.table
    return Written(regions, Payloads(out, Table(table.ids[kept], table.distinct)), written.silent)


def _trimmed(region: Regions, wide: Region, core: Region, shape: Shape) -> Regions:
    out, kept = _inner(region.out, wide, core)
    inn = region.inn.chosen(kept)
    return Regions(Lists(out.starts, _moved(out, wide, shape)), Lists(inn.starts, _moved(inn, wide, shape)))


def _inner(lists: Lists, wide: Region, core: Region) -> tuple[Lists, NDArray[np.int64]]:
    """The lists without the cells of the border, and which of them are not empty then."""
    values = lists.values.all()
    good = within(values, wide, core)
    if good.all():
        return lists, np.arange(len(lists), dtype=np.int64)
    lengths = np.bincount(lists.owners()[good], minlength=len(lists)).astype(np.int64)
    kept = np.flatnonzero(lengths)
    return Lists.of(lengths[kept], values[good]), kept


def _moved(lists: Lists, wide: Region, shape: Shape) -> Any:
    from whence.arrays.columns import pack

    return pack(shifted(lists.values.all(), wide, shape))


def _write(columns: Columns, directory: Path, chunk: int) -> int:
    """Under a name of its own until it is whole: a task may be tried twice."""
    new = directory / f".{chunk}-{os.getpid()}-{perf_counter()}"
    size = columns.write(new)
    os.replace(new, directory / str(chunk))
    return size


def _packed(error: Exception) -> bytes | None:
    from pyspark import cloudpickle

    pickler: Any = cloudpickle
    try:
        data: bytes = pickler.dumps((error, error.__cause__))
        pickle.loads(data)
    except Exception:  # an exception that does not travel: its text does
        return None
    return data
