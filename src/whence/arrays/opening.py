"""Finds the run behind a site again."""

from __future__ import annotations

import re
from pathlib import Path

from whence.model.flow import BY_ROW, Site, files_site
from whence.store.producers import file_key

_TABLE = re.compile(r"(\d{8}-\d{6}-[0-9a-f]{8})-\d+")


def table_of(site: Site, arrays: Path) -> tuple[str, str] | None:
    """(run, path) where the site is a table that an array run was made from."""
    top = files_site(BY_ROW, file_key(str(arrays / "tables"))).key + "/"
    name = site.key.removeprefix(top)
    found = _TABLE.fullmatch(name) if site.key.startswith(top) else None
    return None if found is None else (found[1], str(arrays / "tables" / name))
