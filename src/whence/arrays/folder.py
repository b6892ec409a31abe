"""The files of runs in a store. A run is written under a hidden name and renamed when it is whole: one that failed or
was killed is never seen.

    arrays/<run>/run.json       what was run and what is kept; plain data
    arrays/<run>/operators      the operators, which are code: signed, and checked before they are read
    arrays/<run>/<n>.npy        array n, or <n>.zarr for one in chunks
    arrays/<run>/<n>.<strategy> its lineage
    arrays/<run>/frames/        what `run.frame` made
    arrays/tables/<run>-<n>     the table that input n was made from
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from whence.arrays.errors import ArrayError, UnknownRun
from whence.arrays.operator import Operator, label
from whence.model import StoreError
from whence.store.private import make_directory, make_file, write
from whence.store.seal import Seal

VERSION = 1
ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")
_NEW = ".new-"


class Noting(Protocol):
    """A run that has something to write down."""

    def settle(self) -> None: ...


class Shelf:
    """All array runs of one store."""

    def __init__(self, top: Path, seal: Seal) -> None:
        self.path = top / "arrays"
        self.seal = seal
        self._top = top
        self.waiting: set[Noting] = set()
        """Open runs that have not yet written down what their questions took."""

    def settle(self) -> None:
        """Let them write it: before somebody reads it, and when a session ends."""
        for run in list(self.waiting):
            run.settle()

    def new(self) -> NewRun:
        make_directory(self.path, self._top)
        self._sweep()
        now = time.time()
        part = int(now % 1 * 0x10000)  # of the second: names are in the order of time
        name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{part:04x}{secrets.token_hex(2)}"
        return NewRun(self, name)

    def open(self, name: Any) -> Folder:
        if not isinstance(name, str) or not ID.fullmatch(name) or not (self.path / name / "run.json").is_file():
            known = self.names()
            told = f"It has {len(known)}, the last is {known[-1]}" if known else "It has none"
            raise UnknownRun(f"There is no array run {name!r} in the store {self._top}. {told}.")
        return Folder(self.path / name, self.seal, self.waiting)

    @property
    def tables(self) -> Path:
        """Where the tables lie that inputs were made from."""
        return self.path / "tables"

    def names(self) -> list[str]:
        """Oldest first."""
        if not self.path.is_dir():
            return []
        return sorted(entry for entry in os.listdir(self.path) if ID.fullmatch(entry))

    def _sweep(self) -> None:
        """Remove what processes left that were killed: those whose lock nobody holds."""
        for entry in os.scandir(self.path):
            if entry.name.startswith(_NEW):
                with suppress(OSError):
                    lock = _locked(Path(entry.path) / "lock", new=False)
                    if lock is not None:
                        shutil.rmtree(entry.path, ignore_errors=True)
                        lock.close()
                        self._sweep_tables(entry.name.removeprefix(_NEW))

    def _sweep_tables(self, run: str) -> None:
        for entry in os.listdir(self.tables) if self.tables.is_dir() else ():
            if entry.startswith(f"{run}-"):
                shutil.rmtree(self.tables / entry, ignore_errors=True)


class NewRun:
    """A run that is being written; a context manager that removes it unless it was finished."""

    def __init__(self, shelf: Shelf, name: str) -> None:
        self.name = name
        self._shelf = shelf
        self.path = shelf.path / f"{_NEW}{name}"
        make_directory(self.path, shelf.path)
        self._lock = _locked(self.path / "lock", new=True)
        self._finished = False
        self.on_finish: Callable[[Path], None] | None = None
        """Told of the folder when the run is whole."""
        self._beside: list[Path] = []

    @property
    def tables(self) -> Path:
        return self._shelf.tables

    def owns(self, path: Path) -> None:
        """Something beside the run that goes when the run fails."""
        self._beside.append(path)

    def __enter__(self) -> NewRun:
        return self

    def __exit__(self, *_: Any) -> None:
        if not self._finished:
            for path in (self.path, *self._beside):
                shutil.rmtree(path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()

    def save(self, number: int, array: NDArray[Any]) -> None:
        path = self.path / f"{number}.npy"
        make_file(path)
        with path.open("r+b") as file:
            np.save(file, array, allow_pickle=False)

    def operators(self, operators: Sequence[Operator]) -> None:
        write(self.path / "operators", self._shelf.seal.wrap(_purpose(self.name), pickled(operators)))

    def finish(self, about: dict[str, Any]) -> Folder:
        about = {"version": VERSION, "id": self.name, **about}
        write(self.path / "run.json", json.dumps(about).encode())
        (self.path / "lock").unlink(missing_ok=True)
        done = self._shelf.path / self.name
        os.rename(self.path, done)
        self._finished = True
        if self.on_finish is not None:
            self.on_finish(done)
        return Folder(done, self._shelf.seal, self._shelf.waiting)


class Folder:
    """A run that is whole."""

    def __init__(self, path: Path, seal: Seal, waiting: set[Noting]) -> None:
        self.path = path
        self.name = path.name
        self.waiting = waiting
        self._seal = seal

    def about(self) -> dict[str, Any]:
        try:
            about: dict[str, Any] = json.loads((self.path / "run.json").read_bytes())
        except (OSError, ValueError) as error:
            raise StoreError(f"The array run {self.name} cannot be read: {error}.") from error
        if about.get("version", 0) > VERSION or about.get("id") != self.name:
            raise StoreError(f"The array run {self.name} was written by a newer version of whence, or moved here.")
        return about

    def array(self, number: int) -> NDArray[Any]:
        """Mapped, not read: only what is looked at comes into memory."""
        path = self.path / f"{number}.npy"
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError:  # an array without cells, which cannot be mapped
            mapped = np.load(path, allow_pickle=False)
            mapped.flags.writeable = False
        except OSError as error:
            raise StoreError(f"An array of the run {self.name} cannot be read: {error}.") from error
        plain: NDArray[Any] = mapped.view(np.ndarray)
        return plain

    def operators(self) -> list[Operator]:
        try:
            content = self._seal.unwrap(_purpose(self.name), (self.path / "operators").read_bytes())
        except OSError as error:
            raise StoreError(f"The operators of the array run {self.name} cannot be read: {error}.") from error
        try:
            with _new_classes():
                loaded: list[Operator] = _cloudpickle().loads(content)
        except Exception as error:
            raise StoreError(
                f"The operators of the array run {self.name} cannot be loaded here: {type(error).__name__}: {error}. "
                "Make the modules that they need importable."
            ) from error
        return loaded


def pickled(operators: Sequence[Operator]) -> bytes:
    """With the classes themselves where they are the user's own code, so that any process can read them."""
    cloudpickle = _cloudpickle()
    modules = [m for m in _own_modules(operators) if m.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        with suppress(Exception):  # something beside the class does not travel: then by its name
            return bytes(cloudpickle.dumps(list(operators)))
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    for operator in operators:
        try:
            cloudpickle.dumps(operator)
        except Exception as error:
            raise ArrayError(
                f"The operator {label(operator)} cannot be kept with the run: {type(error).__name__}: {error}. What it "
                "holds must be picklable; open files and connections inside run."
            ) from error
    return bytes(cloudpickle.dumps(list(operators)))


@contextmanager
def _new_classes() -> Iterator[None]:
    """Classes that travelled by value are made anew. Otherwise cloudpickle would put the methods that it reads into the
    class of this process that was written, where they would see copies of the user's variables."""
    from importlib import import_module
    from weakref import WeakValueDictionary

    inside = import_module("pyspark.cloudpickle.cloudpickle")
    known = "_DYNAMIC_CLASS_TRACKER_BY_ID"
    before = getattr(inside, known, None)
    if before is not None:
        setattr(inside, known, WeakValueDictionary())
    try:
        yield
    finally:
        if before is not None:
            setattr(inside, known, before)


def _cloudpickle() -> Any:
    from importlib import import_module

    return import_module("pyspark.cloudpickle")  # Spark brings one, untyped


def _own_modules(operators: Sequence[Operator]) -> list[Any]:
    import sysconfig

    installed = tuple({os.path.realpath(path) for path in sysconfig.get_paths().values()})
    own = {}
    for operator in operators:
        for cls in type(operator).__mro__:
            module = sys.modules.get(cls.__module__)
            path = getattr(module, "__file__", None)
            if module is None or path is None or module.__name__ in ("__main__", "builtins"):
                continue
            if module.__name__.partition(".")[0] == "whence" or os.path.realpath(path).startswith(installed):
                continue
            own[module.__name__] = module
    return list(own.values())


def _purpose(name: str) -> tuple[str, ...]:
    return "operators of the array run", name


def _locked(path: Path, *, new: bool) -> IO[bytes] | None:
    """The file, locked by this process; None where another holds it."""
    try:
        import fcntl
    except ImportError:  # no such locks here: nothing is swept
        return None
    if new:
        make_file(path)
    file = path.open("rb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file
