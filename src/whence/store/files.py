"""The one file layer: every file of a store that is not SQLite or a table of Spark's goes through a `Files`.

| | where | reached by |
|---|---|---|
| `LocalFiles` | a directory, of this machine or one that all share | the operating system: nothing stands between |
| `HadoopFiles` (spark/hadoop_files.py) | any URL that Spark knows | the driver's JVM, with Spark's own settings |
| `ArrowFiles` | s3, gs, abfss, hdfs | pyarrow, in a process without a JVM |
| `RelayedFiles` (relay.py) | one of the above, on the driver | a connection to the driver, from Python on executors |

A file is named by parts, one directory level each, below the root. It appears whole or not at all. `local` gives the
path of a file on this machine that holds the same, for whoever maps or seeks.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import uuid
import weakref
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, BinaryIO

from whence.model import StoreError
from whence.model.redact import redact
from whence.store import private


def is_url(root: str) -> bool:
    return "://" in root


class Sink:
    """A file that is being written, with its length and checksum so far. It is there when it is closed."""

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


class Files(ABC):
    root: str

    def path(self, *parts: str) -> str:
        return "/".join((self.root, *map(private.require_name, parts)))

    @abstractmethod
    def below(self, *parts: str) -> Files:
        """The same with a directory of it as the root."""

    @abstractmethod
    def write(self, data: bytes, *parts: str) -> None:
        """Replaces what is there."""

    @abstractmethod
    def create(self, *parts: str) -> Sink:
        """For what is written bit by bit."""

    @abstractmethod
    def read(self, *parts: str) -> bytes | None:
        """None where there is no such file."""

    @abstractmethod
    def names(self, *parts: str) -> list[str]:
        """What stands in a directory; nothing where there is none."""

    @abstractmethod
    def size(self, *parts: str) -> int | None:
        """Bytes of a file; None where there is none."""

    @abstractmethod
    def changed(self, *parts: str) -> int:
        """When a file was written, to sort by; 0 where there is none."""

    @abstractmethod
    def delete(self, *parts: str) -> None: ...

    @abstractmethod
    def delete_tree(self, *parts: str) -> None:
        """A directory with all that is in it. That it is not there is no error."""

    @abstractmethod
    def local(self, *parts: str) -> str:
        """The path of a file on this machine with the same content; FileNotFoundError where there is none."""

    def make(self, *parts: str) -> None:  # noqa: B027
        """A directory, before somebody else makes it who would let others in. Nothing to do where there are no rights
        of directories."""

    def open(self, *parts: str) -> Any:
        """A file of Arrow's that can seek."""
        import pyarrow as pa

        return pa.OSFile(self.local(*parts), "rb")


def files_at(place: str | Path | Files) -> Files:
    """The files of a directory, or, of a URL, as far as pyarrow reaches it from here."""
    if isinstance(place, Files):
        return place
    if not isinstance(place, str | os.PathLike):
        raise StoreError(f"A store is a directory, as a text or a Path, or a URL, not {place!r}.")
    return ArrowFiles(str(place)) if is_url(str(place)) else LocalFiles(place)


class LocalFiles(Files):
    def __init__(self, root: str | Path, top: str | Path | None = None) -> None:
        """`top`: the directory that is all whence's, whose rights are handed on."""
        self.root = os.path.abspath(root)
        self._top = self.root if top is None else os.path.abspath(top)
        self._made: set[str] = set()

    def __reduce__(self) -> tuple[type[LocalFiles], tuple[str, str]]:
        return LocalFiles, (self.root, self._top)

    def below(self, *parts: str) -> LocalFiles:
        return LocalFiles(self.path(*parts), self._top)

    def make(self, *parts: str) -> None:
        self._make(self.path(*parts))

    def _make(self, directory: str) -> None:
        if directory not in self._made:
            if directory != self.root:
                private.require_inside(directory, self.root)
            private.make_directory(directory, self._top)
            self._made.add(directory)

    def write(self, data: bytes, *parts: str) -> None:
        self._make(self.path(*parts[:-1]))
        private.write(self.path(*parts), data)

    def create(self, *parts: str) -> Sink:
        self._make(self.path(*parts[:-1]))
        private.make_file(self.path(*parts))
        return Sink(open(self.path(*parts), "wb"))

    def read(self, *parts: str) -> bytes | None:
        try:
            return Path(self.path(*parts)).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, *parts: str) -> list[str]:
        try:
            return sorted(os.listdir(self.path(*parts)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def size(self, *parts: str) -> int | None:
        path = self.path(*parts)
        return os.path.getsize(path) if os.path.isfile(path) else None

    def changed(self, *parts: str) -> int:
        try:
            return os.stat(self.path(*parts)).st_mtime_ns
        except OSError:
            return 0

    def delete(self, *parts: str) -> None:
        """A link is removed itself, but what lies behind one is not touched."""
        path = self.path(*parts)
        private.require_inside(os.path.join(os.path.dirname(path), "x"), self.root)
        if os.path.realpath(os.path.dirname(path)) != os.path.join(os.path.realpath(self.root), *parts[:-1]):
            raise StoreError(
                f"{path} is not touched: a link leads there. Whence makes no such links; find out who did."
            )
        os.unlink(path)

    def delete_tree(self, *parts: str) -> None:
        path = self.path(*parts)
        if os.path.isdir(path):
            private.require_inside(path, self.root)
            shutil.rmtree(path)
            self._made = {made for made in self._made if made != path and not made.startswith(f"{path}/")}

    def local(self, *parts: str) -> str:
        return self.path(*parts)


class RemoteFiles(Files):
    """What is elsewhere is fetched to a folder of this process when it has to be on this machine, once."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self._scratch: str | None = None

    def scratch(self) -> str:
        if self._scratch is None or not os.path.isdir(self._scratch):
            self._scratch = tempfile.mkdtemp(prefix="whence-", dir=_spacious())
            weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        return self._scratch

    @abstractmethod
    def fetch(self, target: str, *parts: str) -> None:
        """Copies a file to this path here; FileNotFoundError where there is none."""

    @abstractmethod
    def put(self, source: str, *parts: str) -> None:
        """Copies a file from this path here, whole or not at all."""

    def local(self, *parts: str) -> str:
        kept = os.path.join(self.scratch(), uuid.uuid5(uuid.NAMESPACE_URL, self.path(*parts)).hex)
        if not os.path.exists(kept):
            fresh = f"{kept}.{uuid.uuid4().hex}"
            try:
                self.fetch(fresh, *parts)
                os.replace(fresh, kept)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(fresh)
        return kept

    def forget(self, *parts: str) -> None:
        """What was fetched of a file that is written anew."""
        if self._scratch is not None:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._scratch, uuid.uuid5(uuid.NAMESPACE_URL, self.path(*parts)).hex))

    def read(self, *parts: str) -> bytes | None:
        fresh = os.path.join(self.scratch(), uuid.uuid4().hex)
        try:
            self.fetch(fresh, *parts)
            return Path(fresh).read_bytes()
        except FileNotFoundError:
            return None
        finally:
            with contextlib.suppress(OSError):
                os.unlink(fresh)

    def write(self, data: bytes, *parts: str) -> None:
        fresh = os.path.join(self.scratch(), uuid.uuid4().hex)
        try:
            Path(fresh).write_bytes(data)
            self.put(fresh, *parts)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(fresh)
        self.forget(*parts)

    def create(self, *parts: str) -> Sink:
        return Sink(_Uploaded(self, parts))


class _Uploaded:
    """Written here, and sent when it is closed: what is never closed never appears."""

    def __init__(self, files: RemoteFiles, parts: tuple[str, ...]) -> None:
        self._files, self._parts = files, parts
        self._path = os.path.join(files.scratch(), uuid.uuid4().hex)
        self._file: BinaryIO = open(self._path, "wb")  # noqa: SIM115
        self.closed = False

    def write(self, data: Any) -> None:
        self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            try:
                self._file.close()
                self._files.put(self._path, *self._parts)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)


def _spacious() -> str | None:
    """Where Spark's Python workers put what is large: the directories that its administrator meant for that."""
    given = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return given if given and os.path.isdir(given) else None


# Hadoop's names of object stores, as pyarrow has them.
_ARROW = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfs"}


class ArrowFiles(RemoteFiles):
    """Settings and credentials are those that pyarrow finds in the environment of this process."""

    def __init__(self, root: str) -> None:
        from pyarrow import fs

        super().__init__(root)
        scheme, _, rest = self.root.partition("://")
        try:
            self._fs, self._inside = fs.FileSystem.from_uri(f"{_ARROW.get(scheme, scheme)}://{rest}")
        except (OSError, ValueError) as problem:  # Arrow's errors are one or the other
            raise StoreError(
                f"The store {redact(root)} cannot be reached from this process, which has no Spark: pyarrow says "
                f"{redact(str(problem)).splitlines()[0]}. Attach to it with a Spark session, or keep the store in a "
                "directory that every machine of the job sees under the same path, or at a URL that pyarrow reaches: "
                "s3://, gs://, abfss://, or hdfs:// where Hadoop's libhdfs is installed."
            ) from problem

    def __reduce__(self) -> tuple[type[ArrowFiles], tuple[str]]:
        return ArrowFiles, (self.root,)

    def below(self, *parts: str) -> ArrowFiles:
        return ArrowFiles(self.path(*parts))

    def _place(self, *parts: str) -> str:
        return "/".join((self._inside.rstrip("/"), *map(private.require_name, parts)))

    def fetch(self, target: str, *parts: str) -> None:
        with self._fs.open_input_stream(self._place(*parts)) as given, open(target, "wb") as kept:
            shutil.copyfileobj(given, kept, 1 << 20)

    def put(self, source: str, *parts: str) -> None:
        self._fs.create_dir(self._place(*parts[:-1]), recursive=True)
        hidden = self._place(*parts[:-1], f".{uuid.uuid4().hex}.tmp")
        with open(source, "rb") as given, self._fs.open_output_stream(hidden) as kept:
            shutil.copyfileobj(given, kept, 1 << 20)
        self._fs.move(hidden, self._place(*parts))

    def names(self, *parts: str) -> list[str]:
        from pyarrow import fs

        try:
            found = self._fs.get_file_info(fs.FileSelector(self._place(*parts), allow_not_found=True))
        except NotADirectoryError:
            return []
        return sorted(info.base_name for info in found)

    def size(self, *parts: str) -> int | None:
        size: int | None = self._fs.get_file_info(self._place(*parts)).size
        return size

    def changed(self, *parts: str) -> int:
        return int(self._fs.get_file_info(self._place(*parts)).mtime_ns or 0)

    def delete(self, *parts: str) -> None:
        self._fs.delete_file(self._place(*parts))
        self.forget(*parts)

    def delete_tree(self, *parts: str) -> None:
        if self.names(*parts):
            self._fs.delete_dir(self._place(*parts))


_BARE = re.compile(r"(?P<scheme>dbfs|abfss?|s3a?|hdfs):/(?!/)")


def spelled_out(url: str) -> str:
    """dbfs:/x, as Databricks spells it, as a URL like the others."""
    return _BARE.sub(r"\g<scheme>:///", url, count=1)
