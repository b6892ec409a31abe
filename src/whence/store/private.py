"""A store is its owner's: what is made in one is for this user alone, whatever the umask, and stays inside of it.

Directories are 0700 and files 0600. A store that users share is a directory that was made for that and that its group
may write (`mkdir store && chmod 2770 store`): what is made below has the same rights, without those of others.

Names that come from users or from a store become paths here only after a look: one level each, none that leads out.
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from pathlib import Path

from whence.model import StoreError

_LONGEST = 255  # bytes of one name, on the file systems there are


def make_directory(path: str | Path, top: str | Path) -> None:
    """The directory and what is missing above it. `top` is the store's own: only below it rights are handed on."""
    missing = []
    place = Path(os.path.abspath(path))
    top = Path(os.path.abspath(top))
    while not place.exists():
        missing.append(place)
        place = place.parent
    mode = modes(place)[0] if place == top or top in place.parents else 0o700
    for level in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was faster, and means the same
            os.mkdir(level, mode & 0o777)
            os.chmod(level, mode)


def modes(directory: str | Path) -> tuple[int, int]:
    """The rights of a directory and of a file that are made in this one."""
    mode = stat.S_IMODE(os.stat(directory).st_mode)
    return (mode & 0o2770, mode & 0o660) if mode & 0o020 else (0o700, 0o600)


def make_file(path: str | Path) -> None:
    """An empty file for others to open and fill, so that it is private from its first moment on."""
    mode = modes(os.path.dirname(path) or ".")[1]
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            if mode != 0o600:
                os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def write(path: str | Path, content: bytes) -> None:
    """The file appears whole or not at all."""
    new = Path(path).with_name(f".{uuid.uuid4().hex}.tmp")
    make_file(new)
    try:
        new.write_bytes(content)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def is_own(*paths: str | Path) -> bool:
    """Whether all of these are there and nobody but this user (and root) can have put something into them."""
    try:
        found = [os.stat(path) for path in paths]
    except OSError:
        return False
    users = (os.getuid(), 0) if hasattr(os, "getuid") else ()
    return not users or all(about.st_uid in users and not about.st_mode & 0o022 for about in found)


def require_name(name: str) -> str:
    """Refuse what is not one name in one directory."""
    if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise StoreError(f"{name!r} cannot be the name of a file in the store: it would lie elsewhere.")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise StoreError(f"{name!r} cannot be the name of a file in the store: it is no Unicode text.") from None
    if length > _LONGEST:
        raise StoreError(f"{name[:40]!r}... cannot be the name of a file in the store: it is too long.")
    return name


def require_inside(path: str | Path, top: str | Path) -> None:
    """Refuse what leads out of the store, through a link too. For what is about to be removed or written over."""
    real, real_top = os.path.realpath(path), os.path.realpath(top)
    if os.path.commonpath([real, real_top]) != real_top or real == real_top:
        raise StoreError(
            f"{path} is not touched: it lies outside of the store {top}. Whence makes no such links; find out who did."
        )
