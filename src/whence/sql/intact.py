"""Whether files of the store are still what was written: lengths, and on this machine digests, elsewhere the tags that
object stores give to contents.

A digest is taken of the whole of a file up to a limit; of a longer one, of its beginning and its end, and Spark checks
the pages in between when it reads them. A file system elsewhere keeps digests of its own.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from whence.sql.catalyst import Catalyst
from whence.sql.memory import Checked, Manifest

_WHOLE = 64 << 20
_END = 1 << 20


def manifest(c: Catalyst, folder: str) -> Manifest:
    """The files below a folder, by their path in it."""
    here = c.local(folder)
    if here is None:
        base = c.qualified(folder).rstrip("/") + "/"
        found = c.list_files(folder)
        tags = {path: status.tag for path, status in c.statuses_of(found).items()}
        return {path.removeprefix(base): (length, tags.get(path)) for path, (length, _) in found.items()}
    files = [path for path in sorted(here.rglob("*")) if path.is_file() and not path.name.startswith((".", "_"))]
    return {str(path.relative_to(here)): (path.stat().st_size, digest(path)) for path in files}


def drop_sidecars(c: Catalyst, folder: str) -> None:
    """Hadoop's own checksums on this machine: damaged, they would fail a reading whose file is whole."""
    here = c.local(folder)
    for path in here.rglob(".*.crc") if here is not None else ():
        path.unlink(missing_ok=True)


def amiss(c: Catalyst, folder: str, expected: Manifest, checked: Checked) -> str | None:
    """What is wrong with these files, as the end of a sentence; None if nothing is."""
    here = c.local(folder)
    try:
        if here is None:
            return _differs(expected, manifest(c, folder))
        for name, (length, known) in expected.items():
            path = here / name
            status = path.stat()
            if status.st_size != length:
                return f"{name} was cut or replaced"
            state = (status.st_size, status.st_mtime_ns, status.st_ino)
            if name not in checked or checked[name][0] != state:
                checked[name] = (state, digest(path))
            if checked[name][1] != known:
                return f"{name} was changed"
    except OSError as problem:
        return f"{Path(str(problem.filename or folder)).name} cannot be read"
    return None


def _differs(expected: Manifest, found: Manifest) -> str | None:
    for name, (length, tag) in expected.items():
        if name not in found:
            return f"{name} is gone"
        if found[name][0] != length:
            return f"{name} was cut or replaced"
        if tag is not None and found[name][1] != tag:
            return f"{name} was changed"
    return None


def digest(path: Path) -> str:
    found = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= _WHOLE:
            while block := file.read(_END):
                found.update(block)
        else:
            found.update(file.read(_END))
            file.seek(-_END, os.SEEK_END)
            found.update(file.read())
    return found.hexdigest()
