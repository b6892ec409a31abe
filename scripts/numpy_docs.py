"""Writes the table of functions in docs/numpy.md from the rules. `--check` only says whether it is up to date."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from whence.arrays.recorded.rules import KINDS, PLAIN, REASONS, rule_of
from whence.arrays.recorded.rules.names import found

PAGE = Path(__file__).resolve().parent.parent / "docs" / "numpy.md"
HEADING = "## Every function"

TOLD = {
    "cell by cell": "of each argument the cell that broadcasts there; none for made-up cells; all of a look-up table",
    "moving": "the cell that moved there, none where nothing did",
    "along lanes": "all cells of its lanes; of running functions those up to its own",
    "neighbours": "the cells in its window",
    "linear algebra": "its row and its column; of transforms and whole matrices all of the lane or matrix",
    "by value": "the cell that moved there, or all cells equal to it, and the cells that decided",
}


def dispatched() -> Iterator[tuple[str, object]]:
    """What numpy asks us about, by its shortest name."""
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if not name.startswith("_") and type(function).__name__ == "_ArrayFunctionDispatcher":
                yield prefix + name, function


def section() -> str:
    rows, works = [], 0
    for kind, rules in KINDS.items():
        names = [name for name in rules if found(name) is not None]
        works += len(names)
        rows.append((f"{len(names)} work", TOLD[kind], ", ".join(f"`{name}`" for name in sorted(names))))
    refused = [name for name, function in dispatched() if rule_of(function) is None and name not in PLAIN]  # type: ignore[arg-type]
    for reason in dict.fromkeys(REASONS.get(name, "no rule") for name in refused):
        names = [name for name in refused if REASONS.get(name, "no rule") == reason]
        rows.append((f"{len(names)} refuse", reason, ", ".join(f"`{name}`" for name in names)))
    told = ", ".join(f"`{name}`" for name in sorted(PLAIN))
    lead = (
        f"With numpy {np.__version__.rpartition('.')[0]} {works} functions of numpy, numpy.linalg and numpy.fft work, "
        f"beside every ufunc (numpy's {count_ufuncs()}, scipy.special's, yours), their methods `reduce`, `accumulate`, "
        f"`reduceat` and `outer`, operators, indexing and the methods of an ndarray; {len(refused)} functions refuse. "
        f"{told} tell of an array, show or save it, and give no arrays."
    )
    table = "\n".join(f"| {state} | {lineage} | {names} |" for state, lineage, names in rows)
    head = "| | a result's cell depends on, or why not | |\n|---|---|---|"
    return f"{HEADING}\n\n{textwrap.fill(lead, 120)}\n\n{head}\n{table}\n"


def count_ufuncs() -> int:
    return len({id(each) for each in vars(np).values() if isinstance(each, np.ufunc)})


def page() -> str:
    return PAGE.read_text().partition(HEADING)[0] + section()


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == page() else "docs/numpy.md is out of date: run make docs")
    PAGE.write_text(page())
