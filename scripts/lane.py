"""One lane of scripts/lanes.py: a pytest that takes its next file from the queue that all lanes share.

`python scripts/lane.py ALL QUEUE [pytest's options]`: two files with one test file a line.
"""

from __future__ import annotations

import fcntl
import sys
from itertools import pairwise
from pathlib import Path

import pytest


class Queue:
    def __init__(self, path: Path) -> None:
        self._path = path

    def take(self) -> str | None:
        """The first of those that are left; no other lane gets it."""
        with self._path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            first, *rest = [*file.read().splitlines(), ""]
            file.seek(0)
            file.truncate()
            file.write("\n".join(rest))
            return first or None


class Lane:
    """All files are collected, and those are run that the queue gives."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        files: dict[Path, list[pytest.Item]] = {}
        for item in session.items:
            files.setdefault(item.path.relative_to(session.config.invocation_params.dir), []).append(item)
        session.testscollected = 0
        items = self._next(session, files)
        while items:
            for item, following in pairwise(items):
                self._run(session, item, following)
            # The next file is known before the last test ends: what the whole run shares is kept for it.
            rest = self._next(session, files)
            self._run(session, items[-1], rest[0] if rest else None)
            items = rest
        return True

    def _run(self, session: pytest.Session, item: pytest.Item, following: pytest.Item | None) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)

    def _next(self, session: pytest.Session, files: dict[Path, list[pytest.Item]]) -> list[pytest.Item]:
        while (file := self._queue.take()) is not None:
            if items := files.get(Path(file)):
                session.config.get_terminal_writer().line(f"\n{file}", flush=True)
                session.testscollected += len(items)
                return items
        return []


def main(files: list[str], queue: Queue, options: list[str]) -> int:
    # No share of all tests can be shown: nobody knows yet which ones will be run here.
    quiet = ["-q", "-o", "console_output_style=classic"]
    return int(pytest.main([*files, *quiet, *options], plugins=[Lane(queue)]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).read_text().splitlines(), Queue(Path(sys.argv[2])), sys.argv[3:]))
