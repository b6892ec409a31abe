"""Small files of JSON whose damage shows when they are read."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

_SEAL = "crc32"


def sealed(values: Mapping[str, Any]) -> bytes:
    plain: dict[str, Any] = json.loads(json.dumps(values))  # as it will be read: keys are texts then
    return json.dumps({**plain, _SEAL: _sum(plain)}).encode()


def unsealed(data: bytes) -> dict[str, Any]:
    """ValueError where this is not what was written. Files of before there were seals are taken as they are."""
    values = json.loads(data)
    if not isinstance(values, dict):
        raise ValueError("it does not hold what it should")
    seal = values.pop(_SEAL, None)
    if seal is not None and seal != _sum(values):
        raise ValueError("its contents were changed")
    return values


def _sum(values: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())
