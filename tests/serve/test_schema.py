"""The description of the API is true: generated requests get what it says they get."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from served import Process, fill, whence_serve

from whence.store import Store

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed (pip install '.[dev]')")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("schema")
    store = Store.at(home)
    fill(store.catalog)
    store.close()
    with whence_serve("--store", str(home)) as server:
        yield server


def test_schemathesis_finds_nothing(server: Process, tmp_path: Path) -> None:
    """Every check but one: a cursor of the right form may still not be one that was given (below)."""
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--max-examples", "6",
        "--phases", "coverage,fuzzing", "--exclude-checks", "positive_data_acceptance", "--seed", "7", "--no-color",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    with urlopen(f"{server.url}/openapi.json") as told:
        operations = sum(len(methods) for methods in json.load(told)["paths"].values())
    assert f"Tested: {operations}" in done.stdout


def test_what_is_described_as_valid_is_taken(server: Process) -> None:
    described = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    for operation in described.get_all_operations():
        strategy = operation.ok().as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)

        @settings(
            max_examples=6, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck),
            derandomize=True, database=None,
        )  # fmt: skip
        @given(strategy)
        def ask(case: schemathesis.Case) -> None:
            if case.query:
                case.query.pop("cursor", None)
            said = case.call()
            assert said.status_code < 300 or said.status_code in (404, 409), (case.as_curl_command(), said.text)

        ask()
