"""A culprit: the record that made code fail, all that is known about it, and a script that fails the same way."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whence.model.text import shown, visible

SHOWN_ROWS = 10


@shown
@dataclass(frozen=True)
class SourceRows:
    """Rows of one source that the culprit came from; `records` tell where they stand, as file#row."""

    source: str
    rows: tuple[Any, ...]
    records: tuple[str, ...] = ()


@shown
@dataclass(frozen=True)
class Culprit:
    function: str
    record: Any  # the function's argument (or arguments); for functions of batches the smallest failing DataFrame
    error: str
    traceback: str
    partition: int
    index: int  # of the record among those that the function was given in this partition
    sources: tuple[SourceRows, ...] = ()
    script: Path | None = None
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        lines = [f"whence: {visible(self.function)} failed on {_short(self.record)}", "  " + _indented(self.error)]
        lines.append(f"  record {self.index} of partition {self.partition}")
        for source in self.sources:
            lines.append(f"  from {visible(source.source)}: " + ", ".join(map(visible, source.records[:3])))
            lines += [f"    {_short(row)}" for row in source.rows[:3]]
        if self.script is not None:
            lines.append(f"  fails alone with: python {visible(self.script)}")
        lines += [f"  note: {_indented(note)}" for note in self.notes]
        return "\n".join(lines)


def _indented(text: str) -> str:
    """A text of several lines that cannot pass for more than one of whence's."""
    return visible(text, lines=True).replace("\n", "\n      ")


def _short(value: Any) -> str:
    text = value.to_string() if hasattr(value, "to_string") and not isinstance(value, str) else repr(value)
    return _indented(text if len(text) <= 300 else text[:297] + "...")


_SCRIPT = '''"""Fails as the job did: {error}

{function} on one record, taken from record {index} of partition {partition}.
"""

import sys
from pathlib import Path

from pyspark import cloudpickle

# Where the program that failed found its own modules.
sys.path += {path}

culprit = cloudpickle.loads(Path(__file__).with_name("{data}").read_bytes())
print("function:", culprit["function"])
print("record:  ", culprit["record"])
culprit["run"](culprit["function"], culprit["record"])
print("It no longer fails.")
'''


def write_script(home: Path, culprit: Culprit, function: Any, record: Any, run: Any) -> Path:
    """culprit.py and the pickled function and record next to it; `run(function, record)` is what fails."""
    from pyspark import cloudpickle as untyped

    cloudpickle: Any = untyped
    home.mkdir(parents=True, exist_ok=True)
    (home / "culprit.pickle").write_bytes(cloudpickle.dumps({"function": function, "record": record, "run": run}))
    script = home / "culprit.py"
    error = culprit.error.replace("\\", "/").replace('"""', "'''")
    script.write_text(
        _SCRIPT.format(
            error=error,
            function=culprit.function,
            index=culprit.index,
            partition=culprit.partition,
            data="culprit.pickle",
            path=[str(Path(entry).absolute()) for entry in sys.path],
        )
    )
    return script
