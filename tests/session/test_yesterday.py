"""The example of docs/yesterday.md, as its reader runs it: two jobs and a question, each a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "yesterday"


def test_from_yesterdays_report_to_the_line(tmp_path: Path) -> None:
    for program in EXAMPLE.glob("*.py"):
        shutil.copy(program, tmp_path)

    def run(*command: str) -> str:
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
        return done.stdout

    run(sys.executable, "orders.py", "900")
    told = run(sys.executable, "-m", "whence.serve.cli", "run", "--capture", "--store", "lineage", "clean.py")
    assert "data/orders.csv" in told
    run(sys.executable, "report.py")
    *picture, last = run(sys.executable, "ask.py").strip().splitlines()
    lines = (tmp_path / "data" / "orders.csv").read_text().splitlines()
    wrong = next(number for number, line in enumerate(lines, 1) if line.endswith(",-90000.0"))
    assert last == f"{tmp_path}/data/orders.csv:{wrong} -90000.0"
    text = "\n".join(picture)
    assert "exact: these rows and no others" in text
    assert "refund" not in text.split("witnesses")[1]  # rows of the other columns alone are left out
