"""Tables into arrays and arrays into tables, both as Parquet in the store, so that a trace can go through them.

In: the DataFrame is written once, captured; the array is made from the files, and for each cell it is kept which row
of which file it came from. Out: the cells are written as rows in their order, so that a row's place says its cell."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import NONE, Numbers, Shape, coordinates, distinct, flat, size_of
from whence.arrays.columns import Columns
from whence.arrays.errors import ArrayError
from whence.arrays.folder import NewRun
from whence.arrays.frames import FrameInput
from whence.arrays.workflow import Node, Workflow
from whence.spark.frames import to_arrow
from whence.store.private import make_directory, make_file, require_name
from whence.store.producers import Producers, product_of_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whence.arrays.run import Run

KIND = "arrays"
"""How producers call a run of an array workflow."""
_ROWS = 1 << 21  # of one Parquet file
_UNSIGNED = {"u1": "int16", "u2": "int32", "u4": "int64"}


@dataclass
class Tables:
    """What a session lends to runs: Spark, a captured write, and who made what."""

    spark: Callable[[], SparkSession]
    write: Callable[[DataFrame, str], None]
    producers: Callable[[], Producers]

    # --- in

    def load(self, given: FrameInput, name: str, directory: Path, rows: Path) -> tuple[NDArray[Any], dict[str, Any]]:
        """The array, and what run.json tells of it. `rows`: the file that says which row each cell came from."""
        from pyspark.sql import functions as F

        index = [f"d{k}" for k in range(len(given.index))]
        values = [f"v{k}" for k in range(len(given.values))]
        columns = [
            F.col(_quoted(c)).alias(n) for c, n in zip((*given.index, *given.values), index + values, strict=True)
        ]
        make_directory(directory.parent, directory.parents[1])
        try:
            self.write(given.frame.select(*columns), str(directory))
            array, kept = _assembled(given, name, directory, index, values)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        for place, directories, files in os.walk(directory):
            for entry in (*directories, *files):
                os.chmod(os.path.join(place, entry), 0o700 if entry in directories else 0o600)
        os.chmod(directory, 0o700)
        kept.write(rows)
        return array, {"kind": "frame", "name": name, "table": directory.name, "axes": len(given.index)}

    # --- out

    def frame(self, run: Run, node: Node, cells: Numbers | None) -> DataFrame:
        """`cells` None: all of them."""
        directory = frame_directory(run, node, cells)
        if not directory.is_dir():
            self._write_out(run, node, cells, directory)
        return self.spark().read.parquet(str(directory))

    def _write_out(self, run: Run, node: Node, cells: Numbers | None, directory: Path) -> None:
        top = directory.parent
        make_directory(top, top.parent)
        new = top / f".{uuid.uuid4().hex}"
        make_directory(new, top)
        try:
            files = _write_cells(run.array(node), run.shape(node), cells, new, node.name)
            Columns.of({"cells": cells if cells is not None else np.empty(0, np.int64)}).write(new / "_cells")
            os.rename(new, directory)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            if not directory.is_dir():  # another thread or process may have been faster
                raise
            return
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        number = run.number(node)
        self.producers().add(product_of_file(str(directory / file), KIND, run.id, {"node": number}) for file in files)


def loading(
    new: NewRun, workflow: Workflow, tables: Tables | None
) -> Callable[[FrameInput, Node], tuple[NDArray[Any], dict[str, Any]]] | None:
    """How a run that is being written takes tables in. They lie beside the runs: a path that Spark has written to does
    not change its name."""
    if tables is None:
        return None
    numbers = {node: number for number, node in enumerate(workflow.nodes)}

    def load(given: FrameInput, node: Node) -> tuple[NDArray[Any], dict[str, Any]]:
        number = numbers[node]
        directory = new.tables / f"{new.name}-{number}"
        new.owns(directory)
        return tables.load(given, node.name, directory, new.path / f"{number}.rows")

    return load


def frame_directory(run: Run, node: Node, cells: Numbers | None) -> Path:
    name = f"{run.number(node)}"
    if cells is not None:
        name += "-" + hashlib.blake2b(cells.tobytes(), digest_size=16).hexdigest()
    return run.folder.path / "frames" / name


def cells_of_rows(directory: Path, shape: Shape, rows: list[tuple[str, int]]) -> Numbers:
    """The cells that these (file, row) of a frame hold."""
    if not rows:
        return NONE
    some = Columns.read(directory / "_cells")["cells"]
    places = np.array([_first_row(file) + row for file, row in rows], np.int64)
    count = len(some) or size_of(shape)
    if places.min() < 0 or places.max() >= count:
        raise ArrayError(f"The frame in {directory} has {count} rows; row {int(places.max())} is not of it.")
    return some.take(places) if len(some) else places


def rows_of_cells(directory: Path, cells: Numbers) -> list[tuple[str, int]]:
    """The (file, row) that hold these cells; cells that the frame was made without are left out."""
    some = Columns.read(directory / "_cells")["cells"]
    places = cells
    if len(some):
        places = np.minimum(some.find(cells), len(some) - 1)
        places = places[some.take(places) == cells]
    return [(str(directory / _file_of(place)), place % _ROWS) for place in places.tolist()]


def frame_files(directory: Path) -> list[str]:
    return sorted(str(directory / entry) for entry in os.listdir(directory) if entry.endswith(".parquet"))


def _file_of(place: int) -> str:
    return f"part-{place // _ROWS:06d}.parquet"


def _first_row(file: str) -> int:
    return int(os.path.basename(file)[5:11]) * _ROWS


class RowMap:
    """Which row of which file each cell of an input came from."""

    def __init__(self, path: Path, directory: Path, shape: Shape, axes: int) -> None:
        columns = Columns.read(path)
        self._cells, self._places = columns["cells"], columns["places"]
        self._files = [str(directory / require_name(name)) for name in columns.about["files"]]
        self._shape = shape[:axes]
        self._each = size_of(shape[axes:])

    def rows(self, cells: Numbers) -> list[tuple[str, int]]:
        """Cells that no row filled came from none."""
        wanted = distinct(cells // self._each) if self._each else NONE
        if not len(self._cells) or not len(wanted):
            return []
        at = np.minimum(self._cells.find(wanted), len(self._cells) - 1)
        places = self._places.take(at[self._cells.take(at) == wanted])
        return [(self._files[place >> 40], place & ((1 << 40) - 1)) for place in places.tolist()]

    def cells(self, rows: list[tuple[str, int]]) -> Numbers:
        found = self.index_cells(rows)
        return np.sort((found[:, None] * self._each + np.arange(self._each)).ravel())

    def index_cells(self, rows: list[tuple[str, int]]) -> Numbers:
        """The coordinates that these rows hold, as a set of numbers."""
        files = {file: number for number, file in enumerate(self._files)}
        try:
            places = np.array([(files[file] << 40) + row for file, row in rows], np.int64)
        except KeyError as error:
            raise ArrayError(f"The file {error} is none that this array was made from.") from None
        order = np.argsort(self._places.all())
        known = self._places.all()[order]
        at = np.minimum(np.searchsorted(known, places), max(len(known) - 1, 0))
        if len(places) and (not len(known) or not (known[at] == places).all()):
            raise ArrayError("Some of these rows are none that this array was made from.")
        return np.sort(self._cells.all()[order][at]) if len(places) else NONE

    def cells_at(self, coordinates_: NDArray[np.int64]) -> list[tuple[str, int]]:
        """The rows with these coordinates."""
        return self.rows(flat(coordinates_, self._shape) * max(self._each, 1))

    @property
    def files(self) -> list[str]:
        return self._files


def _assembled(
    given: FrameInput, name: str, directory: Path, index: list[str], values: list[str]
) -> tuple[NDArray[Any], Columns]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted(entry for entry in os.listdir(directory) if entry.endswith(".parquet"))
    tables = [pq.read_table(directory / file, partitioning=None) for file in files]
    table = pa.concat_tables(tables) if tables else to_arrow(given.frame.limit(0))
    where = f"The input {name}"
    cells = np.stack([_whole_numbers(table.column(c), where, o) for c, o in zip(index, given.index, strict=True)], 1)
    shape = tuple(int(n) + 1 for n in cells.max(axis=0)) if len(cells) else (0,) * len(index)
    if len(cells) and cells.min() < 0:
        bad = cells[(cells < 0).any(axis=1)][0]
        raise ArrayError(f"{where} has a row with the coordinates {tuple(bad.tolist())}: they begin at 0.")
    numbers = flat(cells, shape)
    order = np.argsort(numbers, kind="stable")
    sorted_ = numbers[order]
    twice = np.flatnonzero(sorted_[1:] == sorted_[:-1])
    if len(twice):
        cell = tuple(coordinates(sorted_[twice[:1]], shape)[0].tolist())
        raise ArrayError(f"{where} has several rows for the cell {cell}: a cell has one value.")
    lengths = [len(part) for part in tables]
    places = np.concatenate(
        [NONE, *((np.int64(file) << 40) + np.arange(length, dtype=np.int64) for file, length in enumerate(lengths))]
    )
    parts = [
        _filled(table.column(v), numbers, shape, given.fill, where, o)
        for v, o in zip(values, given.values, strict=True)
    ]
    array = np.stack(parts, axis=-1) if given.adds_axis else parts[0]
    kept = Columns.of({"cells": sorted_, "places": places[order]}, {"files": files})
    return array, kept


def _whole_numbers(column: Any, where: str, name: str) -> NDArray[np.int64]:
    if column.null_count:
        raise ArrayError(f"{where} has a row without a coordinate: {name} is NULL there.")
    found: NDArray[np.int64] = column.to_numpy().astype(np.int64)
    return found


def _filled(column: Any, numbers: Numbers, shape: Shape, fill: Any, where: str, name: str) -> NDArray[Any]:
    given = np.ones(len(column), bool) if not column.null_count else np.asarray(column.is_valid())
    values = np.asarray(column.drop_null().to_numpy())
    if values.dtype == object:
        values = np.array([str(v) if isinstance(v, str) else v for v in values.tolist()])
        if values.dtype.hasobject:
            raise ArrayError(
                f"{where}: the column {name} is of {column.type}, which no array of numbers or texts holds."
            )
    size = size_of(shape)
    there = numbers[given]
    if len(there) == size:
        made = np.empty(size, values.dtype)
    elif fill is None:
        free = np.ones(size, bool)
        free[there] = False
        cell = tuple(coordinates(np.flatnonzero(free)[:1], shape)[0].tolist())
        raise ArrayError(
            f"{where} has no value of {name} for the cell {cell} of {shape}, nor for {size - len(there) - 1} others: "
            "give fill= for the cells that have none."
        )
    else:
        made = _all(fill, size, values.dtype, where, name)
    made[there] = values
    return made.reshape(shape)


def _all(fill: Any, size: int, dtype: np.dtype[Any], where: str, name: str) -> NDArray[Any]:
    """An array of the fill alone, of a type that holds it and the column's values as they are."""
    try:
        given = np.asarray(fill)
        alike = given.dtype.kind in "iufb" if dtype.kind in "iufb" else given.dtype.kind in {dtype.kind, "O"}
        if given.ndim or not alike:
            raise ValueError(f"it is of the type {type(fill).__name__}")
        if dtype.kind in "iufb":
            least = np.min_scalar_type(fill)
            if least.kind == "u" and dtype.kind == "i":  # with a sign: else the two would only meet as floats
                least = np.min_scalar_type(-int(fill) - 1)
            if least.hasobject:
                raise ValueError("it is too large")
            return np.full(size, fill, np.result_type(dtype, least))
        return np.full(size, fill, dtype if dtype.kind in "mM" else np.result_type(dtype, given.dtype))
    except (ValueError, TypeError) as error:
        raise ArrayError(f"{where}: fill={fill!r} cannot stand in the column {name}, of {dtype}: {error}.") from error


def _write_cells(array: Any, shape: Shape, cells: Numbers | None, directory: Path, name: str) -> list[str]:
    """One Parquet file for every so many cells."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = size_of(shape) if cells is None else len(cells)
    files = []
    for first in range(0, max(count, 1), _ROWS):
        stop = min(first + _ROWS, count)
        numbers = np.arange(first, stop, dtype=np.int64) if cells is None else cells[first:stop]
        at = coordinates(numbers, shape)
        values = arrow_values(values_at(array, at), name)
        columns = {f"d{axis}": pa.array(at[:, axis], pa.int64()) for axis in range(len(shape))}
        file = _file_of(first)
        make_file(directory / file)
        pq.write_table(pa.table({**columns, "value": values}), directory / file)
        files.append(file)
    return files


def values_at(array: Any, at: NDArray[np.int64]) -> NDArray[Any]:
    """The values of these cells, of an array in memory or in chunks."""
    if isinstance(array, np.ndarray):
        return array[tuple(at.T)] if array.ndim else np.repeat(array[None], len(at))
    if not at.shape[1]:
        return np.repeat(np.asarray(array[()])[None], len(at))
    if not len(at):
        return np.empty(0, array.dtype)
    found: NDArray[Any] = np.asarray(array.get_coordinate_selection(tuple(at.T)))
    return found


def arrow_values(values: NDArray[Any], name: str) -> Any:
    """As Spark has them: it knows no unsigned numbers and no half precision."""
    import pyarrow as pa

    kind = values.dtype
    if kind.str[1:] in _UNSIGNED:
        return pa.array(values.astype(_UNSIGNED[kind.str[1:]]))
    if kind.str[1:] == "u8":
        return pa.array([Decimal(v) for v in values.tolist()], pa.decimal128(20, 0))
    if kind == np.float16:
        return pa.array(values.astype(np.float32))
    if kind.kind == "M":
        return pa.array(values.astype("datetime64[us]"))
    if kind.kind in "biufUS":
        native = values.astype(kind.newbyteorder("=")) if kind.kind in "iuf" else values
        return pa.array(native.tolist() if kind.kind in "US" else native)
    raise ArrayError(f"The array {name} is of {kind}, which no column of a DataFrame holds.")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
