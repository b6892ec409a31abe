"""What a workflow is run on: arrays, files and tables, each made an array."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.errors import ArrayError
from whence.arrays.frames import FrameInput
from whence.arrays.running import plain
from whence.arrays.workflow import Node, Workflow

Source = dict[str, Any]
"""Where an input came from, as plain data for run.json: at least its `kind` and the `name` that traces show."""


def bound(workflow: Workflow, given: Mapping[Any, Any] | None, held: Mapping[str, Any]) -> dict[Node, Any]:
    """What each input of the workflow is; `held` is what recorded arrays bring along."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"inputs= is {type(given).__name__}: give a mapping from the inputs' names to arrays.")
    values: dict[Node, Any] = {workflow.find(name): value for name, value in held.items()}
    for asked, value in (given or {}).items():
        node = workflow.find(asked)
        if node.operator is not None:
            raise ArrayError(f"{node.name} is made by an operator: only inputs can be given.")
        values[node] = value
    missing = [node.name for node in workflow.inputs if node not in values]
    if missing:
        raise ArrayError(
            f"The workflow has no data for its {'inputs' if len(missing) > 1 else 'input'} {', '.join(missing)}: give "
            f"inputs={{{missing[0]!r}: array}}."
        )
    return values


Load = Callable[[FrameInput, Node], tuple[NDArray[Any], Source]]
"""How a table is taken in."""


def loaded(node: Node, value: Any, load: Load | None) -> tuple[NDArray[Any], Source]:
    if isinstance(value, FrameInput):
        if load is None:
            raise ArrayError(f"The input {node.name} is a table: execute the workflow with an attached session.")
        return load(value, node)
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        return plain(_read(str(path), node.name), f"The input {node.name}"), {
            "kind": "file",
            "name": os.path.basename(os.path.normpath(str(path))),
            "path": os.path.abspath(str(path)),
        }
    return plain(value, f"The input {node.name}"), {"kind": "array", "name": node.name}


def _read(path: str, name: str) -> Any:
    ending = Path(path).suffix.lower()
    if ending not in _READERS:
        raise ArrayError(
            f"The input {name} cannot be read from {path}: its name ends in none of {', '.join(_READERS)}."
        )
    if not os.path.exists(path):
        raise FileNotFoundError(f"The input {name} cannot be read: there is no file {path}.")
    try:
        return _READERS[ending](path)
    except ImportError as error:
        raise ArrayError(
            f"The input {name} cannot be read from {path}: {error}. It takes pip install whence[arrays]."
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArrayError(f"The input {name} cannot be read from {path}: {error}.") from error


def _npy(path: str) -> Any:
    return np.load(path, mmap_mode=None, allow_pickle=False)


def _fits(path: str) -> Any:
    """The first HDU with an image."""
    from astropy.io import fits

    with fits.open(path, memmap=False) as file:
        for hdu in file:
            if getattr(hdu, "is_image", False) and hdu.data is not None:
                image = np.asarray(hdu.data)
                return image.astype(image.dtype.newbyteorder("="))
    raise ValueError("it has no image")


def _zarr(path: str) -> Any:
    import zarr

    found: Any = zarr.open(path, mode="r")
    if not hasattr(found, "shape"):
        raise ValueError("it is a group, not an array; give the path of an array in it")
    return np.asarray(found[...])


_READERS = {".npy": _npy, ".fits": _fits, ".zarr": _zarr}
