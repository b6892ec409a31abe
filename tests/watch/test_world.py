"""Hive tables (embedded metastore) and a real Kafka broker: what world.py found, case by case."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import CASES
from kafka_cases import KAFKA

HIVE = {case.name: case.edges for case in CASES if case.needs == "hive"}
KAFKA_EDGES = {case.__name__: edges for case, edges in KAFKA.items()}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    program = Path(__file__).with_name("world.py")
    home = str(tmp_path_factory.mktemp("world"))
    done = subprocess.run([sys.executable, str(program), home], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])


def check(result: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    assert "error" not in result, result["error"]
    assert {tuple(edge) for edge in result["edges"]} == expected
    assert result["gaps"] == []
    assert result["failed"] == 0


@pytest.mark.parametrize("name", HIVE)
def test_hive(name: str, results: dict[str, Any]) -> None:
    check(results["hive"][name], HIVE[name])


@pytest.mark.parametrize("name", KAFKA_EDGES)
def test_kafka(name: str, results: dict[str, Any]) -> None:
    if "no kafka" in results:
        pytest.skip(results["no kafka"])
    check(results["kafka"][name], KAFKA_EDGES[name])
