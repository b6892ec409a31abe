"""Runs the notebooks in examples/ and keeps what they print: `make notebooks`.

What Spark writes to the terminal is left out; so is what differs from run to run (times, counts of the kernel)."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook as a kernel of its own runs it, in an empty folder."""
    book = nbformat.read(path, as_version=4)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark would take whatever the PATH calls python3
    NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    for number, cell in enumerate(c for c in book.cells if c.cell_type == "code"):
        cell.metadata = {}
        cell.execution_count = number + 1
        cell.outputs = [out for out in cell.outputs if not _passing(out)]
        for out in cell.outputs:
            if "execution_count" in out:
                out["execution_count"] = number + 1
    return book


def _passing(out: nbformat.NotebookNode) -> bool:
    """What is there only while a cell runs: the terminal's lines, and a bar that has gone."""
    shown = out.get("data", {}).get("text/plain")
    return out.get("name") == "stderr" or (shown is not None and (not shown.strip() or "ipywidgets" in shown))


def main(names: list[str]) -> None:
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        print(f"running {path.name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, Path(folder)), path)


if __name__ == "__main__":
    main(sys.argv[1:])
