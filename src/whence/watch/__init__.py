"""Watches a Spark session: what it reads, writes, trains and streams, down to columns (SAC)."""

from whence.watch.watcher import Watcher, watch

__all__ = ["Watcher", "watch"]
