"""Keeps what whence knows: the catalogue in a database, association tables in Parquet.

A room that has something to keep asks the session for its `Store`: `store.catalog` for runs, datasets and operators,
`store.tables` for Parquet, `store.files` for files of its own (files.py), `store.seal` for what is read back as code.
Nothing is opened, created or imported before its first use.
"""

from whence.store import private
from whence.store.files import Files, LocalFiles, files_at
from whence.store.location import StoreLocation, parse_location
from whence.store.seal import Seal, Unsigned
from whence.store.store import Store

__all__ = [
    "Files",
    "LocalFiles",
    "Seal",
    "Store",
    "StoreLocation",
    "Unsigned",
    "files_at",
    "parse_location",
    "private",
]
