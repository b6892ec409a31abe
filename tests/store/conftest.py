from __future__ import annotations

from store_urls import new_database, postgres, store_url

__all__ = ["new_database", "postgres", "store_url"]
