"""Association tables: Parquet under one root, written by pyarrow on the driver or by Spark to the same location."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from whence.model import StoreError
from whence.store.private import make_directory, make_file, require_inside, require_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

_PLAIN = re.compile(r"[\w.=-]+")


class Tables:
    """A table is named by parts, say ("rdd", run, "map-3"); each part is one directory level under the root."""

    def __init__(self, root: str, top: Path | None = None) -> None:
        self.root = root.rstrip("/") or "/"
        self._top = top or Path(self.root)

    def location(self, *parts: str) -> str:
        """The path to hand to Spark for reading or writing this table."""
        for part in parts:
            if not _PLAIN.fullmatch(part) or set(part) == {"."}:
                raise StoreError(f"{part!r} cannot name a table in the store: use letters, digits, and any of . _ - =")
            require_name(part)
        return "/".join((self.root, *parts))

    def write(self, table: pa.Table, *parts: str) -> None:
        """Replace the table at this name by one Parquet file."""
        import pyarrow.parquet as pq

        filesystem, path = self._resolve(parts)
        try:
            part, new = f"{path}/part-0.parquet", f"{path}/.part-0.new"
            if "://" in self.root:
                filesystem.create_dir(path, recursive=True)
            else:
                require_inside(path, self._top)
                make_directory(path, self._top)
                make_file(new)
            pq.write_table(table, new, filesystem=filesystem, compression="zstd")
            filesystem.move(new, part)
        except OSError as error:
            raise StoreError(
                f"The table {'/'.join(parts)} cannot be written to the store {self.root}: {error}"
            ) from error

    def read(self, *parts: str, columns: list[str] | None = None) -> pa.Table:
        import pyarrow.parquet as pq

        filesystem, path = self._resolve(parts)
        try:
            return pq.read_table(path, filesystem=filesystem, columns=columns)
        except OSError as error:
            raise StoreError(
                f"The table {'/'.join(parts)} cannot be read from the store {self.root}: {error}"
            ) from error

    def exists(self, *parts: str) -> bool:
        from pyarrow import fs

        filesystem, path = self._resolve(parts)
        return bool(filesystem.get_file_info(path).type != fs.FileType.NotFound)

    def names(self, *parts: str) -> list[str]:
        """The names one level below."""
        from pyarrow import fs

        filesystem, path = self._resolve(parts)
        found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)

    def remove(self, *parts: str) -> None:
        """Remove this table and all below it. That it is not there is no error."""
        filesystem, path = self._resolve(parts)
        if parts and self.exists(*parts):
            if "://" not in self.root:
                require_inside(path, self._top)
            filesystem.delete_dir(path)

    def _resolve(self, parts: tuple[str, ...]) -> tuple[fs.FileSystem, str]:
        from pyarrow import fs

        location = self.location(*parts)
        if "://" in location:
            filesystem, path = fs.FileSystem.from_uri(location)
            return filesystem, path
        return fs.LocalFileSystem(), str(Path(location).absolute())
