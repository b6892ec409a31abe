"""Examples that Hypothesis thinks of: the same ones in each run, and new ones where these are asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILE = """
from hypothesis import given, settings
from hypothesis import strategies as st

@given(st.lists(st.integers(), min_size=3))
@settings(max_examples=20)
def test_printed(numbers):
    print(numbers)
"""


@pytest.mark.parametrize("profile", ["same", "new"])
def test_examples(tmp_path: Path, profile: str) -> None:
    (tmp_path / "test_some.py").write_text(FILE)
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    options = [] if profile == "same" else [f"--hypothesis-profile={profile}"]
    command = [sys.executable, "-m", "pytest", "-sq", "-p", "no:cacheprovider", *options, "test_some.py"]
    # Of pytest's plugins that of Hypothesis alone: others start slowly.
    command += ["-p", "_hypothesis_pytestplugin"]
    environment = {"PYTHONPATH": str(TESTS), "HOME": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    said = []
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        said.append([line for line in done.stdout.splitlines() if line.startswith("[")])
        assert len(said[-1]) >= 10
    assert (said[0] == said[1]) is (profile == "same")
