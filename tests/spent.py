"""The processor time that each test takes: of pytest, of its JVM, and of every worker and program that these start.

The clock says as much about what else a machine does as about a test; `scripts/lanes.py --remember` deals by this."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

_TAKE_IN = 36  # PR_SET_CHILD_SUBREAPER
PROCESSES = Path("/proc")
NAME = "processor seconds"
WANTED = "WHENCE_TESTS_SPENT"  # set in the environment: tests are measured


def spent() -> dict[str, float]:
    """Seconds of this process and of all below it, by the name of the program; what has ended counts for whoever
    waited for it."""
    facts, below = {}, defaultdict(list)
    for stat in PROCESSES.glob("[0-9]*/stat"):
        try:
            start, _, rest = stat.read_text().rpartition(")")
        except OSError:  # it ended meanwhile
            continue
        fields = rest.split()
        pid = int(stat.parent.name)
        below[int(fields[1])].append(pid)
        facts[pid] = start.partition("(")[2], sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    found: dict[str, float] = defaultdict(float)
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        name, seconds = facts[pid]
        found["itself" if pid == os.getpid() else name] += seconds
        waiting += below[pid]
    return found


class Spent:
    """A plugin of pytest; each test's time goes into the report that `--junitxml` writes."""

    def __init__(self) -> None:
        # The JVM of a program that has ended is left behind: this process takes it in, and sees what it took.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_TAKE_IN, 1, 0, 0, 0)
        self._before = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        if call.when == "teardown":
            now = spent()
            item.user_properties.append((NAME, round(sum(now.values()) - sum(self._before.values()), 2)))
            self._before = now
        return (yield)
