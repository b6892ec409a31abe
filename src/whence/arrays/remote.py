"""Array runs of a store at a URL. A run is written, mapped and asked in a folder of this machine; it is in the store
when it is whole, and is fetched from there, whole, when it is opened where it is not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

from whence.arrays.errors import ArrayError
from whence.arrays.folder import ID, Folder, NewRun, Shelf
from whence.arrays.tables import Tables
from whence.progress import working
from whence.store import Files, Seal
from whence.store.private import make_directory, write

_LAST = "run.json"  # a run without it is not there yet


class RemoteShelf(Shelf):
    def __init__(self, top: Path, seal: Seal, files: Files) -> None:
        super().__init__(top, seal)
        self._files = files.below("arrays")

    def new(self) -> NewRun:
        make_directory(self._top, self._top)
        made = super().new()
        made.on_finish = self._send
        return made

    def names(self) -> list[str]:
        return sorted({name for name in self._files.names() if ID.fullmatch(name)} | set(super().names()))

    def open(self, name: Any) -> Folder:
        here = self.path / str(name)
        if isinstance(name, str) and ID.fullmatch(name) and not here.exists() and self._files.size(name, _LAST):
            with working(f"fetching the array run {name}"):
                self._fetch(name, here)
        return super().open(name)

    def _send(self, folder: Path) -> None:
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        for path in sorted(found, key=lambda path: path.name == _LAST):
            parts = (folder.name, *path.relative_to(folder).parts)
            self._files.write(path.read_bytes(), *parts)

    def _fetch(self, name: str, here: Path) -> None:
        make_directory(self.path, self._top)
        new = self.path / f".fetched-{name}-{os.getpid()}"
        shutil.rmtree(new, ignore_errors=True)
        make_directory(new, self.path)
        try:
            self._fetch_below((name,), new)
            if not here.exists():
                os.rename(new, here)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _fetch_below(self, parts: tuple[str, ...], here: Path) -> None:
        for name in self._files.names(*parts):
            content = self._files.read(*parts, name) if self._files.size(*parts, name) is not None else None
            if content is None:
                make_directory(here / name, here)
                self._fetch_below((*parts, name), here / name)
            else:
                write(here / name, content)


class NoTables(Tables):
    """Tables in and out of arrays are files that Spark reads and this process maps: they need a directory."""

    def load(self, given: Any, name: str, directory: Path, rows: Path) -> NoReturn:
        raise ArrayError(
            f"The input {name} is a DataFrame, and a store at a URL takes arrays only: give "
            f"{name}=df.toPandas().to_numpy(), or attach with a directory for a store."
        )

    def frame(self, run: Any, node: Any, cells: Any) -> NoReturn:
        raise ArrayError(
            f"Of {node.name} there is no DataFrame in a store at a URL: spark.createDataFrame makes one from "
            "run[...], or attach with a directory for a store."
        )
