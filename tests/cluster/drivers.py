"""Driver programs on a cluster, each a process of its own, and the data that they read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from session_orders import write_orders

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).resolve().parents[2]
LINES = [f"{n} {'abd'[n % 3]} {'ce'[n % 2]}" if n != 5 else "5 a c" for n in range(40)]
WORDS = [word for line in LINES for word in line.split()[1:]]
COUNTS = {word: WORDS.count(word) for word in sorted(set(WORDS))}


def write_data(home: Path) -> Path:
    data = home / "data"
    data.mkdir()
    write_orders(data)
    (data / "lines.txt").write_text("".join(line + "\n" for line in LINES))
    return data


class Driver:
    def __init__(self, home: Path, name: str, *arguments: object) -> None:
        self.home = home / name
        self.home.mkdir()
        self._errors = (self.home / "stderr").open("w")
        path = os.pathsep.join([str(ROOT / "src"), str(PROGRAMS), str(ROOT / "tests")])
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, arguments)],
            cwd=self.home,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def ended(self) -> tuple[int, list[str]]:
        try:
            out, _ = self.process.communicate(timeout=1500)  # for one that hangs, not for one on a busy machine
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._errors.close()
        return self.process.returncode, out.splitlines()

    def last_line(self) -> Any:
        code, lines = self.ended()
        assert code == 0, f"{lines}\n{(self.home / 'stderr').read_text()[-6000:]}"
        return json.loads(lines[-1])
