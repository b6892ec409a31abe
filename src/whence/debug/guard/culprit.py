"""A culprit: the record that made code fail, all that is known about it, and a script that fails the same way."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whence.model.html import html_table, paragraph, rows_table
from whence.model.text import shown, visible
from whence.store import private

SHOWN_ROWS = 10


@shown
@dataclass(frozen=True)
class SourceRows:
    """Rows of one source that the culprit came from; `records` tell where they stand, as file:line or file#row."""

    source: str
    rows: tuple[Any, ...]
    records: tuple[str, ...] = ()


@shown
@dataclass(frozen=True)
class Culprit:
    function: str  # its name, or the expression as SQL
    record: Any  # the function's argument (or arguments); for functions of batches the smallest failing DataFrame
    error: str
    traceback: str
    partition: int
    index: int  # of the record among those that the function was given in this partition
    sources: tuple[SourceRows, ...] = ()
    script: Path | None = None
    notes: tuple[str, ...] = field(default=())
    operator: str = ""  # of Spark's own expressions: where the expression stands
    condition: str = ""  # and the name that Spark has for the error

    def __str__(self) -> str:
        lines = [f"whence: {visible(self.function)} failed on {_short(self.record)}", "  " + _indented(self.error)]
        if self.operator:
            lines.append(f"  in {_indented(_short_text(self.operator))}")
        if self.index >= 0:
            lines.append(f"  record {self.index} of partition {self.partition}")
        for source in self.sources:
            lines.append(f"  from {visible(source.source)}: " + ", ".join(map(visible, source.records[:3])))
            lines += [f"    {_short(row)}" for row in source.rows[:3]]
        if self.script is not None:
            lines.append(f"  fails alone with: python {visible(self.script)}")
        lines += [f"  note: {_indented(note)}" for note in self.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        record = self.record.to_string() if hasattr(self.record, "to_string") else repr(self.record)
        told = [("function", self.function), ("record", _short_text(record)), ("error", self.error)]
        told += [("operator", self.operator)] if self.operator else []
        told += [("fails alone with", f"python {self.script}")] if self.script is not None else []
        parts = [html_table(("culprit", ""), [*told, *(("note", note) for note in self.notes)])]
        for source in self.sources:
            parts.append(paragraph(f"from {source.source}: {', '.join(source.records[:SHOWN_ROWS])}"))
            parts.append(rows_table(source.rows, SHOWN_ROWS) if source.rows else "")
        return "".join(parts)


def _indented(text: str) -> str:
    """A text of several lines that cannot pass for more than one of whence's."""
    return visible(text, lines=True).replace("\n", "\n      ")


def _short(value: Any) -> str:
    text = value.to_string() if hasattr(value, "to_string") and not isinstance(value, str) else repr(value)
    return _indented(_short_text(text))


def _short_text(text: str) -> str:
    return text if len(text) <= 300 else text[:297] + "..."


_SCRIPT = '''"""Fails as the job did: {error}

{function} on one record, taken from record {index} of partition {partition}.
"""

import hashlib
import sys
from pathlib import Path

from pyspark import cloudpickle

# Where the program that failed found its own modules.
sys.path += {path}

data = Path(__file__).with_name("{data}").read_bytes()
if hashlib.sha256(data).hexdigest() != "{digest}":
    sys.exit("{data} is not what was written with this script: somebody has changed it, and reading it could run code.")
culprit = cloudpickle.loads(data)
shown = "".join(c if c.isprintable() or c in "\\n\\t" else ascii(c)[1:-1] for c in str(culprit["record"]))
print("function:", culprit["function"])
print("record:  ", shown)
culprit["run"](culprit["function"], culprit["record"])
print("It no longer fails.")
'''


def write_script(home: Path, culprit: Culprit, function: Any, record: Any, run: Any) -> Path:
    """culprit.py and the pickled function and record next to it; `run(function, record)` is what fails."""
    from pyspark import cloudpickle as untyped

    cloudpickle: Any = untyped
    data = cloudpickle.dumps({"function": function, "record": record, "run": run})
    private.make_directory(home, home.parents[1])
    private.write(home / "culprit.pickle", data)
    script = home / "culprit.py"
    private.write(
        script,
        _SCRIPT.format(
            error=_quoted(culprit.error),
            function=_quoted(culprit.function),
            index=culprit.index,
            partition=culprit.partition,
            data="culprit.pickle",
            digest=hashlib.sha256(data).hexdigest(),
            path=ascii([str(Path(entry).absolute()) for entry in sys.path]),
        ).encode(),
    )
    return script


def _quoted(text: str) -> str:
    """For the script's docstring, which it must not end."""
    return visible(text, lines=True).replace("\\", "/").replace('"', "'")
