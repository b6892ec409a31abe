"""Watches a Spark session: what it reads, writes, trains and streams, down to columns (SAC)."""

from whence.watch.watcher import Watcher

__all__ = ["Watcher"]
