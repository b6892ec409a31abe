"""The notebooks in examples/ are run, each by a kernel of its own, and print what they are shown with."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.fixture(scope="module")
def script() -> ModuleType:
    pytest.importorskip("nbclient", reason="nbclient is not installed here (the extra `site`)")
    spec = importlib.util.spec_from_file_location("notebooks", EXAMPLES.parent / "scripts" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["crashing_job", "settings_sweep", "strange_total"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_is_shown_with(path: Path, script: ModuleType, tmp_path: Path) -> None:
    import nbformat

    shown = nbformat.read(path, as_version=4)
    run = script.executed(path, tmp_path)
    for before, now in zip(shown.cells, run.cells, strict=True):
        assert told(now) == told(before), (
            f"run `make notebooks`: a cell of {path.name} prints something else:\n{now.source}"
        )
    assert any(told(cell) for cell in shown.cells)


def told(cell: dict[str, object]) -> str:
    outputs = cell.get("outputs", [])
    assert isinstance(outputs, list)
    return "".join(out.get("text") or out.get("data", {}).get("text/plain", "") for out in outputs)
