"""One line in the terminal while runs are made."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.status import Status

from whence.debug.diagnose.diagnosis import Diagnosis


class Bar:
    def __init__(self) -> None:
        self._status = Status("diagnose: thinking", console=Console(stderr=True))

    def __enter__(self) -> Bar:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def show(self, d: Diagnosis) -> None:
        failed = sum(not r.succeeded for r in d.runs)
        bits = d.progress[-1][1] if d.progress else 0.0
        self._status.update(
            f"diagnose: {len(d.runs)} runs ({failed} failed), {d.left} left, next run tells {bits:.2f} bits"
        )
