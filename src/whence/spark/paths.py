"""Paths as Spark's readers take them."""

from __future__ import annotations

import re

_PATTERN = re.compile(r"[{}\[\]*?\\]")


def literal(path: str) -> str:
    """A path that is to be read as it stands; Spark takes one with these characters for a pattern."""
    return _PATTERN.sub(r"\\\g<0>", path)
