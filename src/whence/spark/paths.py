"""Paths as Spark's readers take them."""

from __future__ import annotations

import os
import re

_PATTERN = re.compile(r"[{}\[\]*?\\]")
_LOCAL = "file:"


def literal(path: str) -> str:
    """A path that is to be read as it stands; Spark takes one with these characters for a pattern."""
    return _PATTERN.sub(r"\\\g<0>", path)


def behind_links(path: str) -> str | None:
    """Where a path of this machine leads that goes through links; None of any other."""
    if not path.startswith(_LOCAL):
        return None
    plain = "/" + path.removeprefix(_LOCAL).strip("/")
    real = os.path.realpath(plain)
    return None if real == plain else _LOCAL + real
