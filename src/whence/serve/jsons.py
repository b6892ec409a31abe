"""Answers as JSON text; times are RFC 3339 with a zone."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

try:
    import orjson
except ImportError:  # it comes with whence[serve]; the command line does without
    orjson = None  # type: ignore[assignment]


def dumps(value: Any) -> bytes:
    if orjson is not None:
        try:
            return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
        except TypeError:  # whole numbers beyond 64 bits, halves of characters
            pass
    return json.dumps(value, default=_plain, ensure_ascii=True, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
