"""The outcome of a proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whence.model.html import paragraph, rows_table
from whence.model.text import shown

PROVEN, AGAIN, STORED, OPEN, REFUTED = "proven", "the same again", "stored, intact", "not proven", "REFUTED"


@dataclass(frozen=True)
class Proof:
    """What was found out about one flow on the way, and how.

    `outcome`: PROVEN (run on the witnesses alone, it gave what was asked for), AGAIN (run again whole, it gave the same
    records and the same lineage), STORED (it cannot run again here; what was written down is whole, agrees with itself
    in both directions, and the records at both ends are as they were), OPEN (nothing of these could be done), or
    REFUTED."""

    flow: str
    outcome: str
    how: str

    def __str__(self) -> str:
        return f"{self.flow}: {self.outcome}: {self.how}"


@shown
@dataclass(frozen=True)
class Verdict:
    """`ok`: every flow on the way, run on the witnesses alone, gave what was asked for. `missing`: asked rows that the
    witnesses alone do not give; `extra`: rows they give that were not asked for.

    `notes`: sources that show other rows than the places of the query that read them have as witnesses. `proofs`: what
    was found out of each flow on the way, nearest the result first."""

    ok: bool
    missing: tuple[Any, ...] = ()
    extra: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()

    def __bool__(self) -> bool:
        return self.ok

    @property
    def refuted(self) -> bool:
        """Whether something speaks against the witnesses; else what is not proven could only not be run again."""
        return bool(self.missing or self.extra) or any(proof.outcome == REFUTED for proof in self.proofs)

    def __str__(self) -> str:
        told = "proven: the witnesses alone give the asked rows again"
        if not self.ok and self.proofs and not self.refuted:
            told = "NOT proven as a whole; nothing speaks against the witnesses"
        elif not self.ok:
            told = f"NOT proven: {len(self.missing)} rows missing, {len(self.extra)} rows too many"
        each = map(str, self.proofs) if not self.ok or len(self.proofs) > 1 else ()
        return "; ".join([told, *self.notes, *each])

    def _repr_html_(self) -> str:
        parts = [paragraph(str(self))]
        for name, rows in (("missing", self.missing), ("too many", self.extra)):
            if rows:
                parts += [f"<p><b>{name}</b></p>", rows_table(rows)]
        return "".join(parts)
