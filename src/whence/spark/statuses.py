"""What file systems tell of a file, and from that, whether it is still the file it was."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

# By path: length and modification time (ms), which is what Spark's listings keep.
Listing: TypeAlias = Mapping[str, tuple[int, int]]

# Path, whether it is a directory, length and modification time (ms).
Told: TypeAlias = tuple[str, bool, int, int]

# No path has it in it.
BETWEEN = "\0"
# A path may hold anything, also the words that follow it: the last of them are meant.
_STATUS = re.compile(
    r"\w+\{path=(?P<path>.*); isDirectory=(?P<folder>true|false)(?:; length=(?P<length>\d+); "
    r"replication=\d+; blocksize=\d+)?; modification_time=(?P<modified>\d+); .*",
    re.DOTALL,
)
_BY_ETAG = "etag:"
# Other clocks than this machine's are not trusted to a second.
_OTHER_CLOCKS = 2_000


class Status(NamedTuple):
    """A file as its file system tells of it now. `mark` is what a new file in its place has otherwise, even one of the
    same length and time: inode and time of change of a local file, the ETag of an object; empty where there is none."""

    length: int
    modified: int
    mark: str = ""
    # When it got to be what it is (ms). On a local disk programs cannot set this time, unlike that of modification.
    changed: int = 0

    @property
    def version(self) -> tuple[int, int]:
        return self.length, self.modified

    @property
    def tag(self) -> str | None:
        """The ETag of an object's content, where its store gives one."""
        return self.mark.removeprefix(_BY_ETAG) or None if self.mark.startswith(_BY_ETAG) else None

    def is_after(self, moment: int) -> bool:
        """Whether it got to be what it is after this moment (ms) of the driver's clock."""
        return self.changed > moment if not self.mark.startswith(_BY_ETAG) else self.modified > moment + _OTHER_CLOCKS


def parse(text: str) -> Told | None:
    """What is told by one status as Hadoop prints it."""
    found = _STATUS.fullmatch(text)
    if found is None:
        return None
    return found["path"], found["folder"] == "true", int(found["length"] or 0), int(found["modified"])


def local_path(path: str) -> str | None:
    """The path on this machine, of one that Hadoop writes file:/..."""
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:/") else None


def local(path: str) -> Status | None:
    """None when it is gone."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    changed = status.st_ctime_ns
    return Status(
        status.st_size,
        status.st_mtime_ns // 1_000_000,
        f"{status.st_dev}:{status.st_ino}:{changed}",
        changed // 1_000_000,
    )


def remote(length: int, modified: int, etag: str | None) -> Status:
    return Status(length, modified, _BY_ETAG + (etag or ""), modified)


def on_this_machine(paths: Iterable[str]) -> tuple[dict[str, Status], list[str]]:
    """Those that lie here, without Hadoop; and the paths that do not."""
    found: dict[str, Status] = {}
    others: list[str] = []
    for path in paths:
        here = local_path(path)
        if here is None:
            others.append(path)
        elif (status := local(here)) is not None:
            found[path] = status
    return found, others


def folders_changed_after(moment: int, roots: Iterable[str], files: Iterable[str]) -> str | None:
    """A local directory among or between these in which something was made, renamed or removed after the moment."""
    folders: set[str] = set()
    for root in filter(None, map(local_path, roots)):
        if os.path.isdir(root):
            folders.add(root)
            for path in filter(None, map(local_path, files)):
                folder = os.path.dirname(path)
                while folder.startswith(root) and folder not in folders:
                    folders.add(folder)
                    folder = os.path.dirname(folder)
    for folder in sorted(folders):
        status = local(folder)
        if status is None or status.modified > moment:
            return folder
    return None
