"""Executors that die, tasks that run twice, a full disk: the job goes on, and the lineage is complete or says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
    done = subprocess.run(
        [sys.executable, str(HERE / "cluster_job.py"), str(home), "speculated", "killed", "full"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


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
