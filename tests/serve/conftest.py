from __future__ import annotations

from served import api, serving

__all__ = ["api", "serving"]
