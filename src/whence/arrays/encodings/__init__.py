"""How lineage is kept: the strategies by name, what each needs of an operator, and one file for each encoding."""

from __future__ import annotations

from dataclasses import dataclass

from whence.arrays.encodings.base import Encoding, Kind, Source, TooLarge
from whence.arrays.encodings.comp import Comp
from whence.arrays.encodings.full_many import FullMany
from whence.arrays.encodings.full_one import FullOne
from whence.arrays.encodings.interval import Interval
from whence.arrays.encodings.pay_many import PayMany
from whence.arrays.encodings.pay_one import PayOne
from whence.arrays.errors import ArrayError
from whence.arrays.operator import Mode

BACKWARD, FORWARD = "backward", "forward"

STORED: dict[str, Kind] = {
    "FullOne": FullOne,
    "FullMany": FullMany,
    "Interval": Interval,
    "PayOne": PayOne,
    "PayMany": PayMany,
    "Comp": Comp,
}

NEEDS = {
    "FullOne": Mode.FULL,
    "FullMany": Mode.FULL,
    "Interval": Mode.FULL,
    "PayOne": Mode.PAY,
    "PayMany": Mode.PAY,
    "Comp": Mode.COMP,
    "Map": Mode.MAP,
    "Blackbox": Mode.BLACKBOX,
}


@dataclass(frozen=True)
class Strategy:
    """`Encoding` or `Encoding:direction`, as users write it."""

    encoding: str
    direction: str = BACKWARD

    @classmethod
    def parse(cls, text: object) -> Strategy:
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is no strategy: a strategy is a text such as FullOne or FullOne:forward.")
        encoding, colon, direction = text.partition(":")
        if encoding not in NEEDS:
            raise ArrayError(
                f"There is no strategy {text!r}. There are {', '.join(NEEDS)}, the first six in a direction."
            )
        if not colon:
            return cls(encoding)
        if encoding not in STORED:
            raise ArrayError(f"The strategy {text!r} cannot have a direction: {encoding} answers both.")
        if direction not in (BACKWARD, FORWARD):
            raise ArrayError(f"The strategy {text!r} has no such direction: write {encoding}:backward or :forward.")
        return cls(encoding, direction)

    @property
    def needs(self) -> Mode:
        return NEEDS[self.encoding]

    @property
    def is_stored(self) -> bool:
        return self.encoding in STORED

    def __str__(self) -> str:
        return self.encoding if self.direction == BACKWARD else f"{self.encoding}:{self.direction}"


MAP, BLACKBOX = Strategy("Map"), Strategy("Blackbox")

__all__ = [
    "BACKWARD",
    "BLACKBOX",
    "FORWARD",
    "MAP",
    "STORED",
    "Encoding",
    "Source",
    "Strategy",
    "TooLarge",
]
