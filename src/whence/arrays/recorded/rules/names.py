from __future__ import annotations

from typing import Any

import numpy as np


def names(text: str) -> list[str]:
    return text.split()


def found(name: str) -> Any:
    """numpy's function of this name, or None where this numpy has none."""
    here: Any = np
    for part in name.split("."):
        here = getattr(here, part, None)
    return here
