"""One name for a file, however it is spelled, so that every front end means the same one. Executors need this too, and
nothing else of the store's: it imports little."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlparse


def file_key(path: str) -> str:
    """A plain absolute path on this machine, a URL elsewhere."""
    parsed = urlparse(path)
    if parsed.scheme == "file":
        return os.path.normpath(unquote(parsed.path))
    return path if parsed.scheme else os.path.abspath(path)
