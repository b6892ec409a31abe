from __future__ import annotations

from served import api, serving

from store_urls import new_database, postgres, store_url

__all__ = ["api", "new_database", "postgres", "serving", "store_url"]
