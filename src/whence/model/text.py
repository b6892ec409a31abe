"""Text of others on this user's terminal: data, column names, paths and errors are shown, and never obeyed."""

from __future__ import annotations

import re
from typing import TypeVar

# What moves the cursor, colours, rings, hides or turns around what stands beside it; and halves of characters, which
# cannot be written at all.
_ACTIVE = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_LINES = re.compile(f"[{_ACTIVE}]")
_IN_A_LINE = re.compile(rf"[\t\n{_ACTIVE}]")
_IN_COLUMNS = re.compile(rf"[\n{_ACTIVE}]")

_LONGEST = 84
_EXPRESSION_ID = re.compile(r"#\d+L?")

T = TypeVar("T")


def visible(value: object, *, lines: bool = False, tabs: bool = False) -> str:
    """The text with such characters spelled out (`\\x1b`); `lines`: it may have several lines, and tabs; or `tabs`."""
    return (_IN_LINES if lines else _IN_COLUMNS if tabs else _IN_A_LINE).sub(_spelled, str(value))


def readable(text: str, longest: int = _LONGEST) -> str:
    """Spark's own line for an operator without the numbers it gives to columns."""
    plain = visible(_EXPRESSION_ID.sub("", text))
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def shown(kind: type[T]) -> type[T]:
    """For a dataclass that holds rows: the repr of a Row has the names of its columns as they are."""
    plain = kind.__repr__

    def safe(self: T) -> str:
        return visible(plain(self), lines=True)

    kind.__repr__ = safe  # type: ignore[method-assign, assignment]
    return kind
