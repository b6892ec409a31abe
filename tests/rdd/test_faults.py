"""Separate executors: questions are answered there, and where executors die, tasks run twice or a disk is full the job
goes on, and the lineage is complete or says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from session_orders import write_orders

pytestmark = pytest.mark.cluster
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All on one cluster: starting one takes longer than what happens on it. The full disk comes last, since workers
    that once could not write are used again."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE.parent.parent / "src"),
        "PYSPARK_PYTHON": sys.executable,
    }
    home = tmp_path_factory.mktemp("cluster")
    write_orders(home)
    done = subprocess.run(
        [sys.executable, str(HERE / "cluster_job.py"), str(home), "queries", "speculated", "killed", "full"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    # local-cluster keeps the executors' folders in Spark's home
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / found.pop("application"), ignore_errors=True)
    return found


def test_traces_on_separate_executors(jobs: dict[str, Any]) -> None:
    assert jobs["queries"] == {
        "executors": 2,
        "witnesses": [1, 3, 5],
        "verified": True,
        "without": [[2, 80], [3, 40]],
        "touched": [1],
    }


@pytest.mark.parametrize("what", ["killed", "speculated"])
def test_exactly_one_table_of_each_partition_counts(what: str, jobs: dict[str, Any]) -> None:
    found = jobs[what]
    assert found["happened"]
    assert found["result"] == found["expected"]
    assert found["traced"] == found["wanted"]
    assert found["by jobs"] == found["wanted"]
    assert found["record"] == [["10", found["expected"]["10"]]]
    assert found["left over"] == []
    assert found["unknown"] == []


def test_full_disk(jobs: dict[str, Any]) -> None:
    found = jobs["full"]
    assert found["result"] == found["expected"]
    assert "File too large" in found["error"]
    assert found["left over"] == []
