from enum import Enum


class Strategy(Enum):
    """How the associations of one operator are known (docs/architecture.md, the one idea)."""

    MAPPED = "mapped"
    STORED = "stored"
    PAYLOAD = "payload"
    COMPOSITE = "composite"
    RERUN = "rerun"
