"""One line in the terminal while runs are made."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.status import Status

from whence.debug.diagnose.diagnosis import Diagnosis


class Bar:
    def __init__(self, console: Console | None = None) -> None:
        self._status = Status("diagnose: thinking", console=console or Console(stderr=True))

    def __enter__(self) -> Bar:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def show(self, d: Diagnosis) -> None:
        self._status.update(line(d))


def line(d: Diagnosis) -> str:
    failed = sum(not r.succeeded for r in d.runs)
    said = f"diagnose: {len(d.runs)} runs ({failed} failed), {d.left} left in the budget"
    if d.progress:
        _, bits, left = d.progress[-1]
        said += f", {left} hypothes{'is' if left == 1 else 'es'}, the last run was to tell {bits:.2f} bits"
    return said
