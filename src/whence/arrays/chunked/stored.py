"""Arrays and lineage in chunks, read back: a question opens the chunks that it needs and no others."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whence.arrays.cells import NONE, Numbers, Shape, distinct
from whence.arrays.chunked.grid import Grid, slices
from whence.arrays.chunked.worker import chunk_result
from whence.arrays.columns import Columns
from whence.arrays.encodings import STORED, Encoding, Strategy
from whence.arrays.encodings.comp import Comp
from whence.arrays.encodings.rerun import TracedAgain, same_array, tracing_mode
from whence.arrays.maps import Maps
from whence.arrays.operator import Mode, label
from whence.model import NonDeterministic, StoreError

_OPEN = 64  # chunks that stay open


def open_array(path: Path, shape: Shape) -> Any:
    """Something that np.asarray and indexing read."""
    import zarr

    try:
        return zarr.open_array(str(path), mode="r")
    except (OSError, KeyError, ValueError) as error:
        raise StoreError(f"The array of shape {shape} in {path} cannot be read: {error}.") from error


class _Chunks:
    """One encoding for each chunk of the output, opened when needed."""

    def __init__(self, grid: Grid, opened: Callable[[int], Encoding]) -> None:
        self.grid = grid
        self._opened = opened
        self._held: OrderedDict[int, Encoding] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, chunk: int) -> Encoding:
        with self._lock:
            if chunk not in self._held:
                self._held[chunk] = self._opened(chunk)
                if len(self._held) > _OPEN:
                    self._held.popitem(last=False)
            self._held.move_to_end(chunk)
            return self._held[chunk]

    def parts(self, cells: Numbers) -> Iterator[tuple[int, Numbers]]:
        """Output cells by the chunk that they are in."""
        chunks = self.grid.chunk_of(cells)
        order = np.argsort(chunks, kind="stable")
        chunks, cells = chunks[order], cells[order]
        begins = np.flatnonzero(np.diff(chunks, prepend=-1))
        for begin, end in zip(begins, np.append(begins[1:], len(cells)), strict=True):
            yield int(chunks[begin]), np.sort(cells[begin:end])


class ChunkedEncoding:
    def __init__(self, directory: Path, strategy: Strategy, maps: Maps, step: int) -> None:
        kind = STORED[strategy.encoding]

        def opened(chunk: int) -> Encoding:
            return kind.open(Columns.read(directory / str(chunk)), maps, strategy.direction)

        self._chunks = _Chunks(Grid(maps.output_shape, step), opened)
        self._maps = maps
        # What was written in a chunk is near it; what map functions say may be anywhere.
        self._is_near = strategy.needs == Mode.FULL and not (maps.has_b or maps.has_f)

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        for chunk, some in self._chunks.parts(cells):
            yield from self._chunks[chunk].backward(some, i)

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        grid = self._chunks.grid
        near = grid.near(cells, self._maps.operator.halo or 0) if self._is_near else np.arange(len(grid))
        if len(near) and isinstance(self._chunks[int(near[0])], Comp):
            for found in self._maps.forward(cells, i):
                for chunk, some in self._chunks.parts(distinct(found)):
                    encoding = self._chunks[chunk]
                    assert isinstance(encoding, Comp)
                    yield some[~encoding.is_written(some)]
        for chunk in near.tolist():
            encoding = self._chunks[chunk]
            yield from encoding.exceptions(cells, i) if isinstance(encoding, Comp) else encoding.forward(cells, i)


class ChunkedRerun:
    """Runs again only the chunks that a question needs."""

    def __init__(
        self, maps: Maps, name: str, inputs: Callable[[], Sequence[Any]], output: Callable[[], Any], step: int
    ):
        self._maps, self._name, self._inputs, self._output = maps, name, inputs, output
        self._grid = Grid(maps.output_shape, step)

    def trace(self) -> TracedAgain | ChunksAgain:
        return ChunksAgain(self._maps, self._grid, self._again)

    def _again(self, chunk: int) -> TracedAgain:
        mode = tracing_mode(self._maps)
        asked = frozenset({Mode.FULL if mode == Mode.MAP else mode})
        operator = self._maps.operator
        output, written, _, _ = chunk_result(operator, self._name, self._inputs(), self._grid, chunk, asked)
        if not same_array(output, np.asarray(self._output()[slices(self._grid.core(chunk))])):
            raise NonDeterministic(
                f"{self._name} ({label(operator)}) made another array when it was run again, so that its lineage "
                "cannot be told afterwards. Execute the workflow with a strategy that stores it."
            )
        return TracedAgain(self._maps, written, mode)


class ChunksAgain:
    def __init__(self, maps: Maps, grid: Grid, again: Callable[[int], TracedAgain]) -> None:
        self._maps = maps
        self._chunks = _Chunks(grid, self._run)
        self._mode = tracing_mode(maps)
        self._again = again
        self._said: set[bool] = set()

    @property
    def is_silent(self) -> bool:
        """So far: of the chunks that were run."""
        return self._said == {False}

    def _run(self, chunk: int) -> TracedAgain:
        made = self._again(chunk)
        self._said.add(not made.is_silent)
        return made

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        for chunk, some in self._chunks.parts(cells):
            yield from self._chunks[chunk].backward(some, i)

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        if self._mode == Mode.MAP:
            yield from self._maps.forward(cells, i)
            return
        grid = self._chunks.grid
        written = self._mode == Mode.FULL
        near = grid.near(cells, self._maps.operator.halo or 0) if written else np.arange(len(grid))
        for chunk in near.tolist():
            for found in self._chunks[chunk].forward(cells, i):
                # A chunk knows the exceptions to the default of its own cells only.
                yield found[grid.chunk_of(found) == chunk] if len(found) else NONE
