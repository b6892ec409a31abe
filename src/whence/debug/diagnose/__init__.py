"""diagnose: minimal root causes of failing runs, in parameters (BugDoc and beyond)."""

from whence.debug.diagnose.api import diagnose
from whence.debug.diagnose.causes import Cause, Condition, Evidence
from whence.debug.diagnose.diagnosis import Diagnosis
from whence.debug.diagnose.errors import (
    AlwaysFails,
    BadSpace,
    Contradiction,
    DiagnoseError,
    Interrupted,
    NothingToCompare,
    OutsideSpace,
)
from whence.debug.diagnose.runs import Run
from whence.debug.diagnose.space import Space

__all__ = [
    "AlwaysFails",
    "BadSpace",
    "Cause",
    "Condition",
    "Contradiction",
    "DiagnoseError",
    "Diagnosis",
    "Evidence",
    "Interrupted",
    "NothingToCompare",
    "OutsideSpace",
    "Run",
    "Space",
    "diagnose",
]
