"""Times as they are given: RFC 3339, always with a zone."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:([Zz])|([+\- ])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
EARLIEST = datetime(1, 1, 1, tzinfo=timezone.utc)
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)


def moment(text: str) -> datetime:
    """In UTC. An unescaped + in a URL arrives as a blank."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError("must be a time as in RFC 3339 with a zone, such as 2026-03-01T12:00:00Z")
    year, month, day, hour, minute, second = (int(found[n]) for n in range(1, 7))
    leap = second == 60
    micro = int((found[7] or "0")[:6].ljust(6, "0"))
    naive = datetime(year, month, day, hour, minute, 59 if leap else second, micro)
    offset = timedelta()
    if not found[8]:
        if int(found[10]) > 23 or int(found[11]) > 59:
            raise ValueError("has a zone that does not exist")
        offset = timedelta(hours=int(found[10]), minutes=int(found[11]))
        offset = -offset if found[9] == "-" else offset
    since = (naive - datetime(1970, 1, 1)) - offset + timedelta(seconds=int(leap))
    return _EPOCH + min(max(since, EARLIEST - _EPOCH), LATEST - _EPOCH)
