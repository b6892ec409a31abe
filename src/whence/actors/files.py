"""The few file operations that capture needs, on a local directory or on any URL that pyarrow can reach."""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections.abc import Mapping
from typing import Any

from whence.model import StoreError
from whence.model.redact import redact
from whence.store import private

_SEAL = "crc32"


def sealed(values: Mapping[str, Any]) -> bytes:
    """A small file whose damage shows when it is read."""
    plain: dict[str, Any] = json.loads(json.dumps(values))  # as it will be read: keys are texts then
    return json.dumps({**plain, _SEAL: _sum(plain)}).encode()


def unsealed(data: bytes) -> dict[str, Any]:
    """ValueError where this is not what was written. Files of before there were seals are taken as they are."""
    values = json.loads(data)
    if not isinstance(values, dict):
        raise ValueError("it does not hold what it should")
    seal = values.pop(_SEAL, None)
    if seal is not None and seal != _sum(values):
        raise ValueError("its contents were changed")
    return values


def _sum(values: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())


class Sink:
    """A file that is being written, with its length and checksum so far."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.bytes, self.crc32 = 0, 0

    def write(self, data: Any) -> int:
        self._stream.write(data)
        size = memoryview(data).nbytes
        self.bytes += size
        self.crc32 = zlib.crc32(data, self.crc32)
        return size

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()

    @property
    def closed(self) -> bool:
        closed: bool = self._stream.closed
        return closed

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


class Files:
    def __init__(self, root: str) -> None:
        from pyarrow import fs

        if "://" in root:
            try:
                self._fs, self._root = fs.FileSystem.from_uri(root)
            except (OSError, ValueError) as problem:  # Arrow's errors are one or the other
                raise StoreError(
                    f"Actors cannot keep their logs at {redact(root)}: pyarrow does not reach it from here "
                    f"({redact(str(problem)).splitlines()[0]}). Their logs need a directory that every machine of the "
                    "job sees under the same path, or a URL that pyarrow reaches: s3://, gs://, or hdfs:// where "
                    "Hadoop's libhdfs is installed."
                ) from problem
            self._local = False
        else:
            self._fs, self._root = fs.LocalFileSystem(), os.path.abspath(root)
            self._local = True
        self._made: set[str] = set()

    def path(self, *parts: str) -> str:
        return "/".join((self._root, *map(private.require_name, parts)))

    @property
    def system(self) -> Any:
        return self._fs

    def _make(self, directory: str) -> None:
        if directory not in self._made:
            if self._local:
                if directory != self._root:
                    private.require_inside(directory, self._root)
                private.make_directory(directory, self._root)
            else:
                self._fs.create_dir(directory, recursive=True)
            self._made.add(directory)

    def _open(self, path: str) -> Any:
        if self._local:
            private.make_file(path)
        return self._fs.open_output_stream(path)

    def write(self, data: bytes, *parts: str) -> None:
        """Appears whole or not at all."""
        self._make(self.path(*parts[:-1]))
        hidden = self.path(*parts[:-1], f".{uuid.uuid4().hex}.tmp")
        with self._open(hidden) as out:
            out.write(data)
        self._fs.move(hidden, self.path(*parts))

    def create(self, *parts: str) -> Sink:
        self._make(self.path(*parts[:-1]))
        return Sink(self._open(self.path(*parts)))

    def read(self, *parts: str) -> bytes | None:
        try:
            with self._fs.open_input_stream(self.path(*parts)) as data:
                return data.read()  # type: ignore[no-any-return]
        except FileNotFoundError:
            return None

    def names(self, *parts: str) -> list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(self.path(*parts), allow_not_found=True)
        try:
            return sorted(i.base_name for i in self._fs.get_file_info(selector))
        except NotADirectoryError:
            return []

    def delete(self, *parts: str) -> None:
        """A link is removed itself, unless it stands in the place of a directory and leads out of the store."""
        path = self.path(*parts)
        if self._local:
            private.require_inside(os.path.dirname(path), self._root)
        self._fs.delete_file(path)

    def delete_tree(self, *parts: str) -> None:
        if self.names(*parts):
            path = self.path(*parts)
            if self._local:
                private.require_inside(path, self._root)
            self._fs.delete_dir(path)
            self._made.discard(path)
