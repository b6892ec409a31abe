"""Inputs of a chunked run: read a chunk at a time where the file allows it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape
from whence.arrays.inputs import Load, Source, loaded
from whence.arrays.workflow import Node


@dataclass(frozen=True)
class ChunkedInput:
    shape: Shape
    dtype: np.dtype[Any]
    read: Callable[[Any], NDArray[Any]]
    source: Source


def opened_input(node: Node, value: Any, load: Load | None) -> ChunkedInput:
    if isinstance(value, (str, os.PathLike)) and os.path.exists(value):
        path = str(os.fspath(value))
        array: Any = None
        if Path(path).suffix.lower() == ".npy":
            array = _mapped(path)
        elif Path(path).suffix.lower() == ".zarr":
            import zarr

            found: Any = zarr.open(path, mode="r")
            array = found if hasattr(found, "shape") else None
        if array is not None:
            name = os.path.basename(os.path.normpath(path))
            source = {"kind": "file", "name": name, "path": os.path.abspath(path)}
            return ChunkedInput(array.shape, array.dtype, lambda at: np.asarray(array[at]), source)
    if hasattr(value, "shape") and hasattr(value, "chunks") and not isinstance(value, np.ndarray):  # zarr's own, h5py's
        return ChunkedInput(
            tuple(value.shape),
            np.dtype(value.dtype),
            lambda at: np.asarray(value[at]),
            {"kind": "array", "name": node.name},
        )
    whole, source = loaded(node, value, load)
    return ChunkedInput(whole.shape, whole.dtype, lambda at: whole[at], source)


def _mapped(path: str) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:  # without cells, or of objects: told by whoever reads it whole
        return None
