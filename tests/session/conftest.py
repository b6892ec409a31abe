from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"


def start(name: str, *arguments: object, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Any]:
    """Runs a program with a JVM of its own; gives back the JSON it prints last."""

    def run(name: str, *arguments: object) -> Any:
        process = start(name, *arguments, cwd=tmp_path)
        out, err = process.communicate()
        assert process.returncode == 0, f"{out}\n{err[-6000:]}"
        return json.loads(out.strip().splitlines()[-1])

    return run


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a program that waits for us; it is ended with the test."""
    running: list[subprocess.Popen[str]] = []

    def run(name: str, *arguments: object) -> subprocess.Popen[str]:
        running.append(start(name, *arguments, cwd=tmp_path))
        return running[-1]

    yield run
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two Parquet files of orders; customer 1 has three, in both files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("data") / "orders"
    folder.mkdir()
    rows = [(1, 1, 10), (2, 2, 20), (3, 1, 30), (4, 3, 40), (5, 1, 50), (6, 2, 60)]
    for number, part in enumerate((rows[:3], rows[3:])):
        ids, customers, amounts = zip(*part, strict=True)
        table = pa.table({"id": ids, "customer": customers, "amount": amounts})
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder
