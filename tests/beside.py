"""Programs that tests need a process of their own for run beside the other tests, one after the other.

A test module says `BESIDE = {name: prepare}`; `prepare(home)` gives the command. When the first test of the module asks
for the fixture `beside`, all its programs are started, and the fixture waits for the one that a test asks for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Prepare = Callable[[Path], list[str]]


@dataclass(frozen=True)
class Finished:
    home: Path
    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        assert self.code == 0, f"{self.out}\n{self.err[-6000:]}"
        return self.out.strip().splitlines()[-1]


def python(program: Path, *arguments: object) -> list[str]:
    return [sys.executable, str(program), *map(str, arguments)]


class Beside:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._found: dict[str, Future[Finished]] = {}
        self._lock = threading.Lock()
        self._running: subprocess.Popen[str] | None = None
        self._ended = False

    def add(self, name: str, prepare: Prepare, home: Path) -> None:
        if name not in self._found:
            self._found[name] = self._pool.submit(self._run, prepare, home)

    def __call__(self, name: str) -> Finished:
        return self._found[name].result()

    def end(self) -> None:
        with self._lock:
            self._ended = True
            if self._running is not None:
                self._running.kill()
        self._pool.shutdown(cancel_futures=True)

    def _run(self, prepare: Prepare, home: Path) -> Finished:
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
        command = prepare(home)
        with self._lock:
            if self._ended:
                raise RuntimeError("the suite has ended")
            process = self._running = subprocess.Popen(
                command, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        out, err = process.communicate()
        with self._lock:
            self._running = None
        return Finished(home, process.returncode, out, err)
