"""The outcome of a proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whence.model.html import paragraph, rows_table
from whence.model.text import shown


@shown
@dataclass(frozen=True)
class Verdict:
    """`missing`: asked rows that the witnesses alone do not give; `extra`: rows they give that were not asked for.

    `notes`: sources that show other rows than the places of the query that read them have as witnesses, and parts of
    the way that could not be run again."""

    ok: bool
    missing: tuple[Any, ...] = ()
    extra: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        if self.ok:
            return "proven: the witnesses alone give the asked rows again"
        told = f"NOT proven: {len(self.missing)} rows missing, {len(self.extra)} rows too many"
        return "; ".join([told, *self.notes])

    def _repr_html_(self) -> str:
        parts = [paragraph(str(self))]
        for name, rows in (("missing", self.missing), ("too many", self.extra)):
            if rows:
                parts += [f"<p><b>{name}</b></p>", rows_table(rows)]
        return "".join(parts)
