"""Keeps what whence knows: the catalogue in a database, association tables in Parquet.

A room that has something to keep asks the session for its `Store`: `store.catalog` for runs, datasets and operators,
`store.tables` for Parquet. Nothing is opened, created or imported before the first use.
"""

from whence.store.location import StoreLocation, parse_location
from whence.store.store import Store

__all__ = ["Store", "StoreLocation", "parse_location"]
