"""The versions of the catalogue's schema, oldest first. Each is one file in migrations/versions."""

from __future__ import annotations

from whence.model import StoreTooNew

VERSIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
HEAD = VERSIONS[-1]


def require_known(version: str, store: str) -> None:
    if version not in VERSIONS:
        raise StoreTooNew(
            f"The store {store} was written by a newer whence (its catalogue has version {version}, this whence knows "
            f"up to {HEAD}). Upgrade whence with `pip install -U whence`, or give another store."
        )
